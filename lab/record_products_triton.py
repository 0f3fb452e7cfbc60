# SPDX-License-Identifier: MIT
"""Triton kernels whose products record_products.py records: one chain, promoted, scaled by blocks of 128, split."""

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(
    a,
    b,
    out,
    sa,
    sb,
    m,
    n,
    k,
    slice_k,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SCALES: tl.constexpr,
    IMPRECISE: tl.constexpr,
):
    """out[slice, m, n] = a[m, k] b[n, k] over one slice of K. SCALES: 0 none, 1 of B per column, 2 of B per 128
    columns."""
    row, col, piece = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows, cols, ks = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN), tl.arange(0, BK)
    first = piece * slice_k
    last = tl.minimum(first + slice_k, k)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(first, last, BK):
        there = at + ks < last
        x = tl.load(a + rows[:, None] * k + (at + ks)[None, :], mask=(rows < m)[:, None] & there[None, :], other=0.0)
        y = tl.load(b + cols[None, :] * k + (at + ks)[:, None], mask=(cols < n)[None, :] & there[:, None], other=0.0)
        if SCALES == 0:
            if IMPRECISE == 0:
                total = tl.dot(x, y, total)
            else:
                total = tl.dot(x, y, total, max_num_imprecise_acc=IMPRECISE)
        else:
            blocks = (k + 127) // 128
            scale_a = tl.load(sa + rows * blocks + at // 128, mask=rows < m, other=0.0)
            if SCALES == 1:
                scale_b = tl.load(sb + (at // 128) * n + cols, mask=cols < n, other=0.0)
            else:
                scale_b = tl.load(sb + (at // 128) * ((n + 127) // 128) + cols // 128, mask=cols < n, other=0.0)
            total += tl.dot(x, y) * scale_a[:, None] * scale_b[None, :]
    places = out + piece * m * n + rows[:, None] * n + cols[None, :]
    tl.store(places, total.to(out.dtype.element_ty), mask=(rows < m)[:, None] & (cols < n)[None, :])


def product(a, b, out_dtype, block, split=1, scale_a=None, scale_b=None, imprecise=None):
    """a [M, K] times b [N, K], transposed. Slices are multiples of 64 of K and are added in f32, ascending."""
    m, k, n = a.shape[0], a.shape[1], b.shape[0]
    bm, bn, bk = block
    a, b = a.contiguous(), b.contiguous()
    slice_k = k if split == 1 else triton.cdiv(triton.cdiv(k, split), 64) * 64
    scales = 0
    if scale_a is not None:
        scale_a, scale_b = scale_a.contiguous(), scale_b.contiguous()
        scales = 1 if scale_b.shape[1] == n else 2
    out = torch.empty((split, m, n), dtype=torch.float32 if split > 1 else out_dtype, device=a.device)
    grid = (triton.cdiv(m, bm), triton.cdiv(n, bn), split)
    product_kernel[grid](
        a, b, out, scale_a, scale_b, m, n, k, slice_k, BM=bm, BN=bn, BK=bk, SCALES=scales, IMPRECISE=imprecise or 0
    )
    total = out[0]
    for piece in range(1, split):
        total = total + out[piece]
    return total.to(out_dtype)
