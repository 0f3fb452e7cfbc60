#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the kernels that bitmma says cuBLAS takes with recorded calls: the kernel, its slices and the bits of D.

  check_choices.py FOLDER ...           folders of record_products.py, or of data/products/recorded.tar.xz unpacked
  check_choices.py FOLDER --nearest     calls of other shapes too, with the choice for the nearest recorded shape
  check_choices.py --held-out FILE      shapes of record_choice_grid.py --shapes: how often the choice is right, by kind
  check_choices.py --products FILE      products of record_choice_products.py: the bits of D
  check_choices.py --gaps FILE          batches of record_choice_grid.py --gaps: does the kernel depend on gaps?

Prints how many calls agree, by kind of call, and each that does not. Exit code 1 if a recorded shape has another
kernel.
"""

import argparse
import json
import lzma
import pathlib
import sys
import warnings
from collections import Counter

import numpy as np

import bitmma
from bitmma import _core
from bitmma._gemm_call import operands_of
from bitmma._safetensors import read_safetensors
from pack_choices import class_of, recorded_rows

LIBRARY = "cublas 13.1"
MOST_LETTERS = 400  # of a kernel's name, in files of record_products.py


def arguments_of(call, gpu):
    """The arguments of library_choice; None for calls of other kinds."""
    switch, kind = call.get("switch"), (call["api"], call["a"], call["d"])
    if call["a"] != call["b"] or switch not in (None, "no tf32") or call.get("batch", 1) > 1:
        return None
    dtype = "f32" if call["a"] == "tf32" else call["a"]
    found = {
        "dtype": dtype,
        "target": gpu,
        "layout": call.get("layout", "nt"),
        "allow_tf32": dtype == "f32" and switch is None,
    }
    if call["api"] == "scaled_mm":
        scales = {"one": "tensor", "tensor": "tensor", "row": "rows"}.get(call["scales"])
        if kind[1:] != ("e4m3", "bf16") or scales is None or call.get("bias"):
            return None
        return {**found, "scales": scales, "use_fast_accum": call["fast"]}
    if call["api"] not in ("mm", "linear") or dtype not in ("bf16", "f16", "f32"):
        return None
    if call["api"] == "linear":
        return {**found, "bias": True}
    return {**found, "out_dtype": None if call["d"] == dtype else call["d"]}


def is_class(recorded, choice):
    """True if the recorded names, which may be cut, are those of the choice."""
    names, chosen = recorded.split(" + "), choice.split(" + ")
    return len(names) == len(chosen) and all(
        class_of(name) == one or (len(name) >= MOST_LETTERS and one.startswith(class_of(name)))
        for name, one in zip(names, chosen, strict=True)
    )


def metadata_of(path):
    return read_safetensors(path)[0]


def choice_for(metadata, nearest=False):
    """(the call, its choice or why it is left out)."""
    call = json.loads(metadata["call"][metadata["call"].index("{") :])
    given = arguments_of(call, next(gpu for gpu in ("H100", "H200") if gpu in metadata["gpu"]))
    if given is None:
        return call, "another kind of call"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call, bitmma.library_choice(call["m"], call["n"], call["k"], **given, nearest=nearest)
        except bitmma.Error as error:
            return call, "another layout" if error.violations[0].field == "layout" else "another shape"


def has_bits(path, choice):
    """True if the kernel gives the recorded D; None and why, if its plan is not known."""
    product = bitmma.read_product(path)
    operands = {name: value for name, value in product.operands().items() if name not in ("alpha", "beta")}
    try:
        plan = _core.chosen_plan(
            LIBRARY, choice.kernel, choice.slices, choice.output, operands_of(product.a, product.b, **operands)
        )
    except bitmma.Error as error:
        return None, str(error)
    d = product.gemm(plan)
    same = d.dtype == product.d.dtype and np.array_equal(d.view(np.uint8), product.d.view(np.uint8))
    return same, "bits the same" if same else "bits differ"


def compare(path, nearest=False):
    """(the call, its choice or why it is left out, {"kernel", "slices", "bits": True, False or None for unknown},
    why)."""
    metadata = metadata_of(path)
    call, choice = choice_for(metadata, nearest)
    if isinstance(choice, str):
        return call, choice, {}, ""
    bits, why = has_bits(path, choice)
    slices = max(1, int(metadata["slices"])) == choice.slices if "slices" in metadata else None
    return call, choice, {"kernel": is_class(metadata["kernel"], choice.kernel), "slices": slices, "bits": bits}, why


# The arguments of library_choice for a kind of record_choices.
KINDS = {
    f"{dtype}{bias}": {"dtype": "f32" if dtype == "tf32" else dtype, "allow_tf32": dtype == "tf32", "bias": bool(bias)}
    for dtype in ("bf16", "f16", "f32", "tf32")
    for bias in ("", " bias")
} | {"e4m3": {"dtype": "e4m3", "scales": "tensor"}}


def held_out(path):
    """[(kind, layout, (M, N, K), (kernel, slices)), ...] of a file of record_choice_grid.py --shapes."""
    return [
        (kind, layout, (int(m), int(n), int(k)), classes[number])
        for (kind, layout, m, n, k, number), classes in recorded_rows(path)
    ]


def hit_rates(path, gradients=False):
    """{(kind, layout): {"multiples of 64", "of 8", "any" or "gradients": [right, drawn]}} of the H200's choices.

    With `gradients` a file of shapes of gradients of weights, of which those count whose M and N were recorded.
    """
    rates = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, layout, (m, n, k), recorded in held_out(path):
            if recorded[0].startswith("refused"):  # beyond the recorder's memory
                continue
            choice = bitmma.library_choice(m, n, k, target="H200", layout=layout, nearest=True, **KINDS[kind])
            name = next(
                name for step, name in ((64, "multiples of 64"), (8, "of 8"), (1, "any")) if n % step == k % step == 0
            )
            if gradients:
                name = "gradients"
                if not choice.exact:
                    continue
            rate = rates.setdefault((kind, layout), {}).setdefault(name, [0, 0])
            kernel, slices = recorded
            rate[0] += (choice.kernel, choice.slices) == (kernel, max(1, slices))
            rate[1] += 1
    return rates


def words_of_products(path, step=1):
    """[(the shape was recorded, "same bits", "other bits" or "refused", the call), ...] of every `step`-th product."""
    with lzma.open(path, "rt") as file:
        products = json.load(file)["products"][::step]
    verdicts = []
    for kind, layout, m, n, k, *of_batch, seed, rows, cols, words in products:
        matrices, matrix = of_batch or (0, 0)
        arguments = {**KINDS[kind], "target": "H200", "layout": layout}
        dtype = arguments["dtype"]
        call = (kind, layout, m, n, k, *of_batch[:1])
        is_exact = False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                choice = bitmma.library_choice(m, n, k, nearest=True, matrices=matrices, **arguments)
            is_exact = choice.exact
            stacked = max(matrices, 1)
            a = bitmma.generated(dtype, (stacked * m, k), seed, "a", [matrix * m + row for row in rows])
            b = bitmma.generated(dtype, (stacked * n, k), seed, "b", [matrix * n + col for col in cols]).T
            others = {"rows": rows, "cols": cols, "whole": (m, n)}
            if arguments["bias"]:
                others["bias"] = bitmma.generated(dtype, (1, n), seed, "bias")[0, cols]
            plan = _core.chosen_plan(LIBRARY, choice.kernel, choice.slices, choice.output, operands_of(a, b, **others))
            d = bitmma.gemm(a, b, plan, **others)
        except bitmma.Error:
            verdicts.append((is_exact, "refused", call))
            continue
        same = (d.view(f"i{d.dtype.itemsize}").reshape(-1) == np.array(words)).all()
        verdicts.append((is_exact, "same bits" if same else "other bits", (*call, choice.kernel[:60], choice.slices)))
    return verdicts


def kernels_with_gaps(path):
    """Counter of (rows begin at multiples of 16 bytes, the kernel is that without gaps)."""
    verdicts = Counter()
    for (kind, layout, m, n, k, matrices, _, dense, gaps), classes in recorded_rows(path):
        lines = (m if layout[0] == "t" else k, k if layout[1] == "t" else n)
        is_aligned = all(int(matrices) * int(line) * (4 if "32" in kind else 2) % 16 == 0 for line in lines)
        verdicts[is_aligned, classes[dense] == classes[gaps]] += 1
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="with files of record_products.py")
    parser.add_argument("--held-out", help="a file of record_choice_grid.py --shapes")
    parser.add_argument("--products", help="a file of record_choice_products.py")
    parser.add_argument("--gaps", help="a file of record_choice_grid.py --gaps")
    parser.add_argument("--nearest", action="store_true", help="shapes that were not recorded too")
    options = parser.parse_args()
    if options.held_out:
        for (kind, layout), rates in sorted(hit_rates(options.held_out).items()):
            of_steps = ", ".join(f"{name} {right} of {drawn}" for name, (right, drawn) in sorted(rates.items()))
            print(f"{kind} {layout}: {of_steps}")
        return 0
    if options.gaps:
        for (is_aligned, is_same), count in sorted(kernels_with_gaps(options.gaps).items()):
            where = "rows at multiples of 16 bytes" if is_aligned else "other rows"
            print(f"{where}: {count} {'take the same kernel' if is_same else 'take another kernel'} as without gaps")
        return 0
    if options.products:
        verdicts = words_of_products(options.products)
        for name in ("recorded", "nearest"):
            counts = Counter(verdict for is_exact, verdict, _ in verdicts if is_exact == (name == "recorded"))
            print(f"{name} shapes: " + ", ".join(f"{verdict} {count}" for verdict, count in sorted(counts.items())))
        others = [call for is_exact, verdict, call in verdicts if is_exact and verdict == "other bits"]
        for call in others:
            print("other bits:", *call)
        return 1 if others else 0
    counts, left_out, wrong = {}, Counter(), 0
    for path in sorted(path for folder in options.folders for path in pathlib.Path(folder).rglob("*.safetensors")):
        call, choice, found, why = compare(path, options.nearest)
        if not found:
            left_out[choice] += 1
            continue
        tally = counts.setdefault("recorded shapes" if choice.exact else "nearest shapes", Counter())
        tally["calls"] += 1
        for what, same in found.items():
            tally[f"{what} {'unknown' if same is None else 'the same' if same else 'other'}"] += 1
        is_other = not found["kernel"] or found["slices"] is False
        if found["bits"] and is_other:
            tally["bits the same in spite of it"] += 1
        if choice.exact and (is_other or not found["bits"]):
            wrong += is_other
            print(
                f"{path}: {call}\n  recorded {metadata_of(path)['kernel'][:200]}\n  chosen   {choice.kernel[:200]}, "
                f"{choice.slices} slices\n  {why[:200]}"
            )
    for name, tally in counts.items():
        print(f"{name}: " + ", ".join(f"{what} {count}" for what, count in sorted(tally.items())))
    print("left out: " + ", ".join(f"{what} {count}" for what, count in left_out.items()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
