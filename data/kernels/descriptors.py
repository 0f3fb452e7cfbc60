#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Triton kernels that make tensor descriptors on the GPU: tensormap.replace, tensor copies, and reductions by them.

descriptors.py DIR        DIR/NAME.ptx and DIR/NAME.cubin, and prints the shared bytes of each
"""

import os
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0), flatten=True):
        m, n = tile // tl.cdiv(N, BN) * BM, tile % tl.cdiv(N, BN) * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(da.load([m, k]), db.load([n, k]).T, acc)
        dc.store([m, n], acc.to(tl.float16))


@triton.jit
def add_rows(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    dx = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    dy = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    i = tl.program_id(0) * BM
    for j in range(0, N, BN):
        dy.atomic_add([i, j], dx.load([i, j]))


KERNELS = [
    (
        product,
        {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"},
        {"BM": 128, "BN": 64, "BK": 64},
    ),
    (add_rows, {"x": "*fp32", "y": "*fp32", "M": "i32", "N": "i32"}, {"BM": 16, "BN": 32}),
]


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for function, signature, constants in KERNELS:
        aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(signature))}
        source = ASTSource(
            fn=function,
            signature={**signature, **dict.fromkeys(constants, "constexpr")},
            constexprs=constants,
            attrs=aligned,
        )
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 3})
        for what, mode in (("ptx", "w"), ("cubin", "wb")):
            with open(os.path.join(folder, f"{function.__name__}.{what}"), mode) as out:
                out.write(compiled.asm[what])
        print(function.__name__, compiled.metadata.shared)


if __name__ == "__main__":
    main(sys.argv[1])
