#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles Triton kernels to PTX that bitmma runs; no GPU is needed.

triton_kernels.py DIR        DIR/NAME.ptx, and DIR/launches.json: grid, block, shared bytes, arguments
"""

import json
import os
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + at, mask=at < cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * cols + at, e / tl.sum(e, 0), mask=at < cols)


@triton.jit
def layer_norm(x, w, b, y, cols, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    mean = tl.sum(values, 0) / cols
    centred = tl.where(at < cols, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / cols + eps)
    out = centred * scale * tl.load(w + at, mask=at < cols).to(tl.float32) + tl.load(b + at, mask=at < cols).to(
        tl.float32
    )
    tl.store(y + row * cols + at, out, mask=at < cols)


@triton.jit
def rms_norm(x, w, y, cols, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, 0) / cols + eps)
    tl.store(y + row * cols + at, values * scale * tl.load(w + at, mask=at < cols).to(tl.float32), mask=at < cols)


@triton.jit
def gated_silu(x, g, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(y + at, a * tl.sigmoid(a) * tl.load(g + at, mask=at < n).to(tl.float32), mask=at < n)


@triton.jit
def attention(
    q, k, v, o, scale, S: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):
    block, head = tl.program_id(0), tl.program_id(1)
    rows, cols, ds = block * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    base = head * S * D
    queries = tl.load(q + base + rows[:, None] * D + ds[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    out = tl.zeros((BM, D), tl.float32)
    end = (block + 1) * BM if CAUSAL else S
    for at in range(0, end, BN):
        keys = tl.load(k + base + (at + cols)[None, :] * D + ds[:, None])
        scores = tl.dot(queries, keys) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= (at + cols)[None, :], scores, -float("inf"))
        larger = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp2(scores - larger[:, None])
        decay = tl.exp2(most - larger)
        total = total * decay + tl.sum(p, 1)
        values = tl.load(v + base + (at + cols)[:, None] * D + ds[None, :])
        out = tl.dot(p.to(values.dtype), values, out * decay[:, None])
        most = larger
    tl.store(o + base + rows[:, None] * D + ds[None, :], (out / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def matmul(a, b, c, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (at + ks)[None, :])
        y = tl.load(b + (at + ks)[:, None] * N + cols[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + cols[None, :], total)


def pointers(**types):
    return {name: "*" + kind for name, kind in types.items()}


# name: kernel, signature, constants, warps, stages, capability, grid, arguments of a launch
CASES = {}
for kind in ("fp32", "fp16", "bf16"):
    CASES[f"softmax_{kind}"] = (
        softmax,
        pointers(x=kind, y=kind) | {"cols": "i32"},
        {"BLOCK": 1024},
        4,
        3,
        90,
        (8,),
        [f"{kind}[8,1000]", f"{kind}[8,1000]", 1000],
    )
    CASES[f"layer_norm_{kind}"] = (
        layer_norm,
        pointers(x=kind, w=kind, b=kind, y=kind) | {"cols": "i32", "eps": "fp32"},
        {"BLOCK": 1024},
        4,
        3,
        90,
        (8,),
        [f"{kind}[8,1000]", f"{kind}[1000]", f"{kind}[1000]", f"{kind}[8,1000]", 1000, 1e-5],
    )
    CASES[f"rms_norm_{kind}"] = (
        rms_norm,
        pointers(x=kind, w=kind, y=kind) | {"cols": "i32", "eps": "fp32"},
        {"BLOCK": 2048},
        8,
        3,
        90,
        (4,),
        [f"{kind}[4,1536]", f"{kind}[1536]", f"{kind}[4,1536]", 1536, 1e-6],
    )
    CASES[f"gated_silu_{kind}"] = (
        gated_silu,
        pointers(x=kind, g=kind, y=kind) | {"n": "i32"},
        {"BLOCK": 512},
        4,
        3,
        90,
        (8,),
        [f"{kind}[4000]", f"{kind}[4000]", f"{kind}[4000]", 4000],
    )
for kind in ("fp16", "bf16"):
    for causal in (0, 1):
        for capability in (80, 90):
            CASES[f"attention_{'causal_' if causal else ''}{kind}_sm{capability}"] = (
                attention,
                pointers(q=kind, k=kind, v=kind, o=kind) | {"scale": "fp32"},
                {"S": 128, "D": 64, "BM": 64, "BN": 32, "CAUSAL": causal},
                4,
                2,
                capability,
                (2, 2),
                [f"{kind}[2,128,64]"] * 4 + [0.125 * 1.4426950408889634],
            )
    for capability in (80, 90):
        CASES[f"matmul_{kind}_sm{capability}"] = (
            matmul,
            pointers(a=kind, b=kind, c="fp32"),
            {"N": 128, "K": 256, "BM": 64, "BN": 64, "BK": 64},
            4,
            3,
            capability,
            (1, 2),
            [f"{kind}[64,256]", f"{kind}[256,128]", "fp32[64,128]"],
        )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    launches = {}
    for name, (kernel, signature, constants, warps, stages, capability, grid, arguments) in CASES.items():
        signature = signature | dict.fromkeys(constants, "constexpr")
        source = ASTSource(kernel, signature, constexprs=constants)
        compiled = triton.compile(
            source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps, "num_stages": stages}
        )
        with open(os.path.join(folder, name + ".ptx"), "w") as out:
            out.write(compiled.asm["ptx"])
        with open(os.path.join(folder, name + ".cubin"), "wb") as out:
            out.write(compiled.asm["cubin"])
        launches[name] = {
            "entry": compiled.metadata.name,
            "grid": grid,
            "block": warps * 32,
            "shared": compiled.metadata.shared,
            "arguments": arguments,
            "ptx": name + ".ptx",
        }
    with open(os.path.join(folder, "launches.json"), "w") as out:
        json.dump(launches, out, indent=1)


if __name__ == "__main__":
    main()
