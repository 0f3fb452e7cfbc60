#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records which kernel cuBLAS takes on a grid: N and K in steps of 64 up to 16384, M at every change.

Needs PyTorch with a GPU, g++ and CUDA's headers, but not bitmma. No product is computed: record_choices.cpp captures
PyTorch's own calls, 30 to 250 us each. With 16 cores the nine kinds of layout nt take 6 minutes (77 million calls).

  record_choice_grid.py -o grid.tar.xz --seconds 400          what is not reached in this time is left out, the finest
                                                              steps first
  record_choice_grid.py -o grid.tar.xz --layouts nn,tn       of A and B: n has contiguous rows, t contiguous columns
  record_choice_grid.py -o held_out.tar.xz --shapes FILE      the shapes of a file, lines `kind|layout|m|n|k`
  record_choice_grid.py -o by_k.tar.xz --by-k                 layout tn as gradients of weights have it: M and N of the
                                                              pairs of cublas_13.1.txt, K all up to 2048, multiples of
                                                              8 up to 16384

pack_choices.py --grid makes the table of a recorded grid, pack_choices.py --by-k that of gradients.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import torch

from attention_shapes import batched, drawn_batches

CUDA = os.environ.get("CUDA_HOME", "/usr/local/cuda")


def build(program):
    folder = pathlib.Path(torch.__file__).parent
    includes = [folder / "include", folder / "include/torch/csrc/api/include", f"{CUDA}/include"]
    libraries = ["torch", "torch_cpu", "torch_cuda", "c10", "c10_cuda", "cudart", "cuda"]
    command = ["g++", "-std=c++20", "-O1", "-w", *(f"-I{include}" for include in includes)]
    command += [str(pathlib.Path(__file__).parent / "record_choices.cpp"), "-o", program]
    command += [f"-L{folder}/lib", f"-L{CUDA}/lib64", f"-L{CUDA}/lib64/stubs", f"-Wl,-rpath,{folder}/lib"]
    command += ["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", *(f"-l{library}" for library in libraries)]
    subprocess.run(command, check=True)
    return os.pathsep.join(map(str, [folder / "lib", *folder.parent.glob("nvidia/*/lib")]))


def gradients():
    """(kind, layout, M, N, K) of gradients of weights: K is the number of rows of a batch."""
    with open(pathlib.Path(__file__).parent.parent / "data/choices/cublas_13.1.txt") as file:
        lines = file.read().splitlines()
    pairs = [tuple(map(int, pair.split(","))) for pair in lines[lines.index("pairs") + 1].split()]
    return [
        (kind, "tn", m, n, k)
        for kind in ("bf16", "f16", "f32", "tf32")
        for m, n in pairs
        for k in [*range(1, 2048), *range(2048, 16385, 8)]
        if max(m, n) * k <= 2**28
    ]


def runs_by_k(files, output):
    """One file of lines `kind|layout|m|n|most K|k:class,k:class,...` of the files of all processes."""
    numbers, pairs = {}, {}
    for file in files:
        with open(file) as lines:
            rows = lines.read().splitlines()
        split = (row.split(" ", 3) for row in rows if row.startswith("#class"))
        classes = {number: numbers.setdefault((name, slices), len(numbers)) for _, number, slices, name in split}
        for row in rows:
            if not row.startswith("#"):
                kind, layout, m, n, k, number = row.split("|")
                pairs.setdefault((kind, layout, int(m), int(n)), []).append((int(k), classes[number]))
    with open(output, "w") as file:
        for (kind, layout, m, n), choices in sorted(pairs.items()):
            choices.sort()
            changes = [run for run, last in zip(choices, [(0, None), *choices], strict=False) if run[1] != last[1]]
            runs = ",".join(f"{k}:{number}" for k, number in changes)
            file.write(f"{kind}|{layout}|{m}|{n}|{choices[-1][0]}|{runs}\n")
        for (name, slices), number in numbers.items():
            file.write(f"#class {number} {slices} {name}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, help="the file to write, *.tar.xz")
    parser.add_argument("--seconds", type=float, default=1e6, help="begin no pair after this time")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="each has 1 GB of GPU memory")
    parser.add_argument("--layouts", default="nt", help="of A and B: nt, nn, tn, separated by commas")
    parser.add_argument("--shapes", help="record the shapes of this file instead of the grid")
    parser.add_argument("--by-k", action="store_true", help="record gradients of weights, at every change of K")
    parser.add_argument("--batched", action="store_true", help="record batches of products")
    parser.add_argument(
        "--gaps", type=int, default=0, metavar="COUNT", help="record so many batches with gaps and without"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.by_k or options.batched or options.gaps:
            options.layouts, options.shapes = "tn" if options.by_k else "batched", os.path.join(folder, "shapes.txt")
            with open(options.shapes, "w") as file:
                drawn = [(*shape, "gaps") for shape in drawn_batches(options.gaps, 1)]
                shapes = gradients() if options.by_k else batched() if options.batched else drawn
                file.writelines("|".join(map(str, shape)) + "\n" for shape in shapes)
        program = os.path.join(folder, "record_choices")
        paths = build(program)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment["LD_LIBRARY_PATH"] = os.pathsep.join([paths, environment.get("LD_LIBRARY_PATH", "")])
        gpus = torch.cuda.device_count()  # all of one model
        files = [os.path.join(folder, f"{index}.txt") for index in range(options.processes)]
        begun = [
            subprocess.Popen(
                [program, str(index), str(options.processes), str(options.seconds), file, options.layouts]
                + ([options.shapes] if options.shapes else []),
                env={**environment, "CUDA_VISIBLE_DEVICES": str(index % gpus)},
            )
            for index, file in enumerate(files)
        ]
        if sum(process.wait() != 0 for process in begun):
            print("record_choice_grid.py: a process failed", file=sys.stderr)
            return 1
        if options.by_k:
            merged = os.path.join(folder, "by_k.txt")
            runs_by_k(files, merged)
            files = [merged]
        with tarfile.open(options.output, "w:xz") as archive:
            for file in files:
                archive.add(file, os.path.basename(file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
