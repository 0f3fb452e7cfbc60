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


@triton.jit
def product(a, b, d, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        total = tl.dot(tl.load(a + rows[:, None] * K + (at + ks)[None, :]), tl.load(b + (at + ks)[:, None] * N + cols[None, :]), total)
    tl.store(d + rows[:, None] * N + cols[None, :], total)


def tensor_memory() -> dict:
    """A product by tcgen05 is the chain of its instructions."""
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 256), (256, 256)))
    d = np.zeros((128, 256), np.float32)
    with adapter.use("sm_100a") as used:
        product[(2,)](Array(a), Array(b), Array(d), 256, 256, 128, 128, 64, num_warps=4)
    expected = bitmma.gemm(a, b, {"instruction": str(bitmma.tcgen05("f16", m=128, n=128)), "target": "sm_100a"})
    return {"differing": int((d != expected).sum()), "tcgen05": "tcgen05.mma" in used.ptx["product"]}


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
               "tensor_memory": tensor_memory(), "autotune": refusal(autotuned), "target": refusal(lambda: of_target("sm_75"))}, sys.stdout)


if __name__ == "__main__":
    main()
