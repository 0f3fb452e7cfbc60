#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Packs recordings of record_choices.py and record_choice_grid.py into the tables that bitmma has built in.

  pack_choices.py h100.json.xz h200.json.xz -o data/choices/cublas_13.1.txt
  pack_choices.py --grid grid.tar.xz --gpu H200 --about "NVIDIA H200, ..." -o data/choices/cublas_13.1_grid.tar.xz
  pack_choices.py --by-k by_k.tar.xz --gpu H200 --about "NVIDIA H200, ..." -o data/choices/cublas_13.1_by_k.txt
  pack_choices.py --batched batched.tar.xz --gpu H200 --about "NVIDIA H200, ..." \\
      -o data/choices/cublas_13.1_batched.tar.xz

Kernels whose differences do not affect the bits get one name, with `*` for what is left out: tiles, stages,
clusters and raster of nvjet, tiles of CUTLASS 2 and of xmma. Needs c++filt. data/choices/README.md explains the table.
"""

import argparse
import io
import itertools
import json
import lzma
import re
import subprocess
import sys
import tarfile
from collections import Counter

import attention_shapes

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def digits(numbers):
    """Base64 VLQ, as in source maps but without sign: 5 bits a digit, the lowest first, 32 in all but the last."""
    text = ""
    for number in numbers:
        while number > 31:
            text += DIGITS[32 | number & 31]
            number >>= 5
        text += DIGITS[number]
    return text


def without_parameters(name):
    """A demangled function without its list of parameters and the type of its result."""
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:at]
            break
    return re.sub(r"^(void|std::enable_if<.*?>::type) ", "", name)


def class_of(name):
    """The name of one demangled kernel, with `*` for what decides no bit."""
    if name.startswith("nvjet"):
        name = re.sub(r"_\d+x\d+_\d+x\d+_\dx\d_[hv]_bz(_coop[AB])?", "_*", name)
        return re.sub(r"_[TN]{3}$", "", name)
    name = without_parameters(name)
    if match := re.match(r"cutlass::Kernel2?<(\w+?)(_align\d+)?>", name):
        name = re.sub(r"gemm(\w*?)_\d+x\d+_(\d+)x\d+_", r"gemm\1_*_\2x*_", match[1])
        return re.sub(r"_\d+x\d+_([tn]{2})$", r"_*_\1", name)
    name = re.sub(r"^(sm90_xmma_\w+?)_tilesize\w+?_execute(?=_segment_k_off)", r"\1_*_execute", name)
    return re.sub(r"^(sm80_xmma_\w+?)_tilesize\w+?_execute", r"\1_*_execute", name)


def class_names(names):
    """Of the mangled names of a call's kernels, joined by " + "."""
    single = sorted({word for name in names for word in name.split(" + ")})
    demangled = subprocess.run(
        ["c++filt"], input="\n".join(single), text=True, capture_output=True, check=True
    ).stdout.split("\n")
    known = {one: class_of(full) for one, full in zip(single, demangled, strict=False)}
    return [" + ".join(known[word] for word in name.split(" + ")) for name in names]


def merged(recording):
    """{(kind, layout): {(n, k): ((M, (class, slices)), ...)}}; the last of a list is the end, (most + 1, None)."""
    classes = class_names([name for name, _ in recording["kernels"]])
    choices = {}
    for key, value in recording["choices"].items():
        kind, layout, n, k = key.split("|")
        runs = []
        for m, kernel in value["runs"]:
            one = classes[kernel], recording["kernels"][kernel][1]
            if not runs or runs[-1][1] != one:
                runs.append((m, one))
        if runs:
            runs.append((value["most"] + 1, None))
        choices.setdefault((kind, layout), {})[int(n), int(k)] = tuple(runs)
    return choices


STEP, STEPS = 64, 256  # of N and of K in the grid


def recorded_rows(path):
    """The lines of a file of record_choice_grid.py, split at the bars, each with its process's classes by number."""
    with tarfile.open(path) as archive:
        for member in filter(tarfile.TarInfo.isfile, archive):
            lines = archive.extractfile(member).read().decode().splitlines()
            rows = (line.split(" ", 3) for line in lines if line.startswith("#class"))
            classes = {
                number: (" + ".join(map(class_of, name.split(" + "))), int(slices)) for _, number, slices, name in rows
            }
            yield from ((line.split("|"), classes) for line in lines if not line.startswith("#"))


def grid_of(archives):
    """{kind|layout: {(n, k): [(M, (class, slices)), ...]}} of files of record_choice_grid.py."""
    tables = {}
    for path in archives:
        for (kind, layout, n, k, _, runs), classes in recorded_rows(path):
            table, row = tables.setdefault(f"{kind}|{layout}", {}), []
            for run in runs.split(","):
                m, number = run.split(":")
                if not row or row[-1][1] != classes[number]:
                    row.append((int(m), classes[number]))
            table[int(n), int(k)] = row
    return tables


def either(left, above):
    """The runs of two lists in ascending order of M, those of the first one first, each once."""
    runs = []
    for _, _, run in sorted(
        [(run[0], 0, run) for run in left] + [(run[0], 1, run) for run in above], key=lambda x: x[:2]
    ):
        if run not in runs[-2:]:
            runs.append(run)
    return runs


def packed_grid(table, number):
    """A table in two texts: decisions, six a digit, and numbers. A list of runs is that of the next lower K, else that
    of the next lower N, else some of the runs of these two and others."""
    decisions, numbers = [], []
    for n in range(STEP, STEP * STEPS + 1, STEP):
        for k in range(STEP, STEP * STEPS + 1, STEP):
            runs, left, above = table[n, k], table.get((n, k - STEP), []), table.get((n - STEP, k), [])
            decisions.append(runs == left)
            if runs == left:
                continue
            decisions.append(runs == above)
            if runs == above:
                continue
            known = either(left, above)
            decisions += [run in runs for run in known]
            others = [run for run in runs if run not in known]
            numbers.append(len(others))
            last = 0
            for m, kernel in others:
                numbers += [m - last, number[kernel]]
                last = m
    decisions += [False] * (-len(decisions) % 6)
    sixes = (decisions[at : at + 6] for at in range(0, len(decisions), 6))
    return "".join(DIGITS[sum(1 << bit for bit, is_set in enumerate(six) if is_set)] for six in sixes), digits(numbers)


def pack_grid(options):
    tables = grid_of(options.recordings)
    tables = {key: table for key, table in tables.items() if key not in options.without}
    whole = {key: table for key, table in tables.items() if len(table) == STEPS * STEPS}
    if len(whole) < len(tables):
        print("left out, since not all pairs were recorded:", *(key for key in tables if key not in whole))
    used = Counter(kernel for table in whole.values() for runs in table.values() for _, kernel in runs)
    kernels = [kernel for kernel, _ in used.most_common()]
    names = list(dict.fromkeys(name for name, _ in kernels))
    number = {kernel: at + 1 for at, kernel in enumerate(kernels)}
    lines = ["# Which kernel cuBLAS takes, on a grid. Made by lab/pack_choices.py; data/choices/README.md explains it."]
    lines += [f"# {options.about}", "names", *names, "kernels"]
    lines.append(digits(value for name, slices in kernels for value in (names.index(name), slices)))
    lines.append("grid")
    for key, table in sorted(whole.items()):
        lines.append("|".join([options.gpu, key, *packed_grid(table, number)]))
    return "\n".join(lines) + "\n", f"{len(whole)} grids, {len(kernels)} kernels with slices"


def table_of_pairs(about, gpus):
    """The text of {gpu: {(kind, layout): {pair: ((M or K, (class, slices)), ..., (end, None))}}}, and what it has."""
    pairs = sorted({pair for tables in gpus.values() for table in tables.values() for pair in table})
    lists = {runs: 0 for tables in gpus.values() for table in tables.values() for runs in table.values() if runs}
    used = Counter(kernel for runs in lists for _, kernel in runs if kernel)
    kernels = [kernel for kernel, _ in used.most_common()]
    names = list(dict.fromkeys(name for name, _ in kernels))
    number = {kernel: at + 1 for at, kernel in enumerate(kernels)} | {None: 0}
    lines = [
        "# Which kernel cuBLAS takes. Made by lab/pack_choices.py; data/choices/README.md explains it.",
        *(f"# {line}" for line in about),
        "pairs",
        " ".join(f"{n},{k}" for n, k in pairs),
        "names",
        *names,
        "kernels",
        digits(value for name, slices in kernels for value in (names.index(name), slices)),
        "runs",
    ]
    for at, runs in enumerate(lists):
        lists[runs] = at + 1
        before, values = 0, []
        for m, kernel in runs:
            values += [m - before, number[kernel]]
            before = m
        lines.append(digits(values))
    lines.append("choices")
    for gpu, tables in gpus.items():
        for (kind, layout), table in sorted(tables.items()):
            lines.append(f"{gpu}|{kind}|{layout}|{digits(lists.get(table.get(pair, ()), 0) for pair in pairs)}")
    summary = f"{len(pairs)} pairs, {len(names)} names, {len(kernels)} with slices, {len(lists)} lists of runs"
    return "\n".join(lines) + "\n", summary


def by_k_of(archives):
    """{(kind, layout): {(m, n): ((K, (class, slices)), ..., (most K + 1, None))}} of record_choice_grid.py --by-k."""
    tables = {}
    for path in archives:
        for (kind, layout, m, n, most, runs), classes in recorded_rows(path):
            row, end = [], int(most) + 1
            for run in runs.split(","):
                k, number = int(run.split(":")[0]), run.split(":")[1]
                if classes[number][0].startswith("refused"):  # operands or D do not fit the recorder's memory
                    end = k
                    break
                if not row or row[-1][1] != classes[number]:
                    row.append((k, classes[number]))
            if row:
                tables.setdefault((kind, layout), {})[int(m), int(n)] = (*row, (end, None))
    return tables


def class_of_batch(name, slices):
    """The class and slices of a call of torch.bmm. The layout that the name of a kernel with one slice has decides no
    bit."""
    if max(slices, 1) == 1 and " + " not in name:
        name = re.sub(r"^(cutlass_\w+gemm_.*\*)_[tn]{2}$", r"\1", name)
        if "segment_k_on" not in name:
            name = re.sub(r"^(sm\d+_xmma_gemm_\w+?_\w+?_f32)_.*$", r"\1_*", name)
        if re.search("gemv|gemmSN|gemmk1|dot_kernel", name):
            name = "gemv and others: *"
    return name, max(slices, 1)


def runs_of_batches(runs, classes):
    """((matrices, (class, slices)), ...) of a recorded line."""
    rows = []
    for run in runs.split(","):
        matrices, number = run.split(":")
        if not rows or rows[-1][1] != classes[number]:
            rows.append((int(matrices), classes[number]))
    return tuple(rows)


def pack_batched(options):
    recorded, of_process = {}, {}
    for path in options.recordings:
        for (kind, layout, m, n, k, _, runs), classes in recorded_rows(path):
            if id(classes) not in of_process:  # the classes are kept, so that no other ones get their number
                of_process[id(classes)] = classes, {number: class_of_batch(*row) for number, row in classes.items()}
            recorded[kind, layout, int(m), int(n), int(k)] = runs_of_batches(runs, of_process[id(classes)][1])
    heads, pairs = sorted(attention_shapes.HEADS), attention_shapes.lengths()
    rows = {}
    for kind in sorted({key[0] for key in recorded}):
        for head in heads:
            for pair in pairs:
                for (part, layout), shape in attention_shapes.products_of_attention(*pair, head).items():
                    rows.setdefault((kind, layout, part), []).append(recorded[(kind, layout, *shape)])
    lists = {runs: 0 for row in rows.values() for runs in row}
    used = Counter(kernel for runs in lists for _, kernel in runs)
    kernels = [kernel for kernel, _ in used.most_common()]
    names = list(dict.fromkeys(name for name, _ in kernels))
    number = {kernel: at + 1 for at, kernel in enumerate(kernels)}
    lines = [
        "# Which kernel cuBLAS takes for batches. Made by lab/pack_choices.py; data/choices/README.md explains it.",
        f"# {options.about}",
        "names",
        *names,
        "kernels",
        digits(value for name, slices in kernels for value in (names.index(name), slices)),
        "heads",
        digits(heads),
        "pairs",
        digits(length for pair in pairs for length in pair),
        "runs",
    ]
    for at, runs in enumerate(lists):
        lists[runs], before, values = at, 0, []
        for matrices, kernel in runs:
            values += [matrices - before, number[kernel]]
            before = matrices
        lines.append(digits(values))
    lines.append("choices")
    for key, row in rows.items():
        repeated = ([lists[runs], len(list(group))] for runs, group in itertools.groupby(row))
        lines.append("|".join([options.gpu, *key, digits(value for pair in repeated for value in pair)]))
    return "\n".join(lines) + "\n", f"{len(recorded)} shapes, {len(kernels)} kernels with slices, {len(lists)} lists"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", help="files of record_choices.py, one a GPU")
    parser.add_argument("-o", "--output", required=True, help="the table to write")
    parser.add_argument("--grid", action="store_true", help="the recordings are of record_choice_grid.py")
    parser.add_argument("--by-k", action="store_true", help="the recordings are of record_choice_grid.py --by-k")
    parser.add_argument("--batched", action="store_true", help="the recordings are of record_choice_grid.py --batched")
    parser.add_argument("--gpu", default="H200", help="with --grid, --by-k and --batched: the GPU's short name")
    parser.add_argument("--without", nargs="*", default=[], metavar="KIND|LAYOUT", help="grids that are left out")
    parser.add_argument("--about", default="", help="with these: GPU, library, driver and date")
    options = parser.parse_args()
    if options.grid or options.batched:
        text, summary = pack_grid(options) if options.grid else pack_batched(options)
        with tarfile.open(options.output, "w:xz") as archive:
            member = tarfile.TarInfo(f"cublas_13.1_{'grid' if options.grid else 'batched'}.txt")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        print(f"{options.output}: {len(text)} bytes before compression, {summary}")
        return 0
    if options.by_k:
        text, summary = table_of_pairs([options.about], {options.gpu: by_k_of(options.recordings)})
    else:
        recordings = []
        for path in options.recordings:
            with lzma.open(path) as file:
                recordings.append(json.load(file))
        gpus = {re.search(r"[HBA]\d+", recording["about"]["gpu"])[0]: merged(recording) for recording in recordings}
        about = (recording["about"] for recording in recordings)
        lines = [
            f"{row['gpu']}, {row['library']}, driver {row['driver']}, {row['date']}: {row['calls']} calls"
            for row in about
        ]
        text, summary = table_of_pairs(lines, gpus)
    with open(options.output, "w") as file:
        file.write(text)
    print(f"{options.output}: {len(text)} bytes, {summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
