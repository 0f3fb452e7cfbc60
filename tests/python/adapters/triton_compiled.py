"""Run by test_triton.py in a process without TRITON_INTERPRET: kernels that Triton compiles, and their PTX run here.

    triton_compiled.py EVERY   runs each EVERY-th recorded launch (1: all of them), and prints what each check found as JSON
"""
from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from pathlib import Path

import numpy as np
import triton
import triton.language as tl

import bitmma
import bitmma.adapters.triton as adapter
import triton_cases
import triton_kernels
from triton_arrays import Array

RECORDED = Path(__file__).parents[3] / "data" / "triton" / "dots.tar.xz"


@triton.jit
def scaled_sum(x, y, out, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * alpha + tl.load(y + i, mask=i < n), mask=i < n)


def recorded_dots(every: int) -> dict:
    """Launches whose outputs an H100 gave, compiled by this release of Triton."""
    with tarfile.open(RECORDED) as archive:
        index = json.load(archive.extractfile("index.json"))
    release = ".".join(triton.__version__.split(".")[:2])
    run = next(i for i, one in enumerate(index["runs"]) if one["triton"].startswith(release))
    cases = {triton_cases.name_of(case): case for case in triton_cases.cases()}
    differing, launches = [], 0
    for name in sorted(index["cases"])[::every]:
        for one in [one for one in index["cases"][name]["runs"] if one["run"] == run]:
            case = cases[name]
            arrays, constants, grid, _ = triton_cases.arguments(case)
            arguments = {key: Array(np.ascontiguousarray(array)) for key, array in arrays.items()}
            with adapter.use("sm_90a") as used:
                kernel = getattr(triton_kernels, case["kernel"] + "_kernel")
                kernel[grid](**arguments, **constants, num_warps=case["warps"], enable_fp_fusion=case.get("fusion", True))
            launches += len(used.launches)
            if hashlib.sha256(arguments["d"].storage.array.tobytes()).hexdigest() != one["sha256"] or used.unsure:
                differing.append(name)
    return {"launches": launches, "differing": differing}


def sum_of(target: str) -> dict:
    """A kernel of two arguments to join: one fma."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(1000).astype(np.float32) for _ in range(2))
    out = np.zeros(1000, np.float32)
    for threads in (1, 2):  # the second time Triton has the kernel
        with adapter.use(target, threads=threads) as used:
            scaled_sum[(triton.cdiv(1000, 256),)](Array(x), Array(y), Array(out), 1000, 0.3, BLOCK=256)
    exact = x.astype(np.float64) * np.float64(np.float32(0.3)) + y
    return {"as_fma": bool((out == exact.astype(np.float32)).all()), "grid": list(used.launches[0].grid),
            "ptx": "fma.rn" in used.ptx["scaled_sum"] or "mul" in used.ptx["scaled_sum"]}


def refusal(call) -> str:
    try:
        call()
    except bitmma.Error as error:
        return str(error)
    return "taken"


def autotuned() -> None:
    tuned = triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])(scaled_sum)
    with adapter.use("sm_90a"):
        tuned[(4,)](Array(np.zeros(8, np.float32)), Array(np.zeros(8, np.float32)), Array(np.zeros(8, np.float32)), 8, 0.5)


def of_target(target: str) -> None:
    with adapter.use(target):
        pass


def main() -> None:
    json.dump({"dots": recorded_dots(every=int(sys.argv[1])), "sums": {target: sum_of(target) for target in ("sm_80", "sm_90a")},
               "autotune": refusal(autotuned), "target": refusal(lambda: of_target("sm_75"))}, sys.stdout)


if __name__ == "__main__":
    main()
