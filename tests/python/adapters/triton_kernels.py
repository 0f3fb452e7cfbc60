"""Kernels whose dots a GPU computed.

Everything but the pointers is a constexpr, so that a compiled kernel has no other arguments.
"""

import triton
import triton.language as tl


@triton.jit
def chain_kernel(
    a,
    b,
    c,
    d,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    FROM_C: tl.constexpr,
):
    """d[m, n] = c[m, n] + a[m, k] b[n, k]: the accumulator goes through tl.dot. C has its type."""
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    places = rows[:, None] * N + cols[None, :]
    if FROM_C:
        total = tl.load(c + places)
    else:
        total = tl.zeros((BM, BN), dtype=c.dtype.element_ty)
    for at in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (at + ks)[None, :], mask=(at + ks)[None, :] < K, other=0.0)
        y = tl.load(b + cols[None, :] * K + (at + ks)[:, None], mask=(at + ks)[:, None] < K, other=0.0)
        total = tl.dot(
            x, y, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=c.dtype.element_ty
        )
    tl.store(d + places, total.to(d.dtype.element_ty))


@triton.jit
def added_kernel(
    a,
    b,
    c,
    d,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    FROM_C: tl.constexpr,
):
    """The same with `total += tl.dot(x, y)`: the compiler may make one dot of both, or round twice."""
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    places = rows[:, None] * N + cols[None, :]
    if FROM_C:
        total = tl.load(c + places)
    else:
        total = tl.zeros((BM, BN), dtype=c.dtype.element_ty)
    for at in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (at + ks)[None, :])
        y = tl.load(b + cols[None, :] * K + (at + ks)[:, None])
        total += tl.dot(x, y, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=c.dtype.element_ty)
    tl.store(d + places, total.to(d.dtype.element_ty))


@triton.jit
def scaled_kernel(
    a,
    b,
    sa,
    sb,
    d,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Block scales outside of the dot, as DeepSeek's kernels have them: sa [M, K / BK], sb [K / BK, N]."""
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (at + ks)[None, :])
        y = tl.load(b + cols[None, :] * K + (at + ks)[:, None])
        scale_a = tl.load(sa + rows * (K // BK) + at // BK)
        scale_b = tl.load(sb + (at // BK) * N + cols)
        total += tl.dot(x, y) * scale_a[:, None] * scale_b[None, :]
    tl.store(d + rows[:, None] * N + cols[None, :], total)


@triton.jit
def batched_kernel(
    a, b, c, d, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr
):
    """d[b, m, n] = c[b, m, n] + a[b, m, k] b[b, n, k], one tl.dot of three dimensions."""
    batch, rows, cols, ks = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + batch[:, None, None] * M * K + rows[None, :, None] * K + ks[None, None, :])
    y = tl.load(b + batch[:, None, None] * N * K + cols[None, None, :] * K + ks[None, :, None])
    places = batch[:, None, None] * M * N + rows[None, :, None] * N + cols[None, None, :]
    tl.store(d + places, tl.dot(x, y, tl.load(c + places), input_precision=PRECISION))


@triton.jit
def block_scaled_kernel(
    a,
    b,
    sa,
    sb,
    c,
    d,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    A_FORMAT: tl.constexpr,
    B_FORMAT: tl.constexpr,
    A_SCALED: tl.constexpr,
    B_SCALED: tl.constexpr,
    FAST_MATH: tl.constexpr,
    SIZE: tl.constexpr,
    ADDED: tl.constexpr,
):
    """tl.dot_scaled with scales per SIZE of K: sa [M, K / SIZE], sb [N, K / SIZE]. Two e2m1 lie in a byte along K."""
    A_PACK: tl.constexpr = 2 if A_FORMAT == "e2m1" else 1
    B_PACK: tl.constexpr = 2 if B_FORMAT == "e2m1" else 1
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ka, kb, ks = tl.arange(0, BK // A_PACK), tl.arange(0, BK // B_PACK), tl.arange(0, BK // SIZE)
    places = rows[:, None] * N + cols[None, :]
    total = tl.load(c + places)
    for at in range(0, K, BK):
        x = tl.load(a + rows[:, None] * (K // A_PACK) + (at // A_PACK + ka)[None, :])
        y = tl.load(b + cols[None, :] * (K // B_PACK) + (at // B_PACK + kb)[:, None])
        if A_SCALED:
            scale_a = tl.load(sa + rows[:, None] * (K // SIZE) + (at // SIZE + ks)[None, :])
        else:
            scale_a = None
        if B_SCALED:
            scale_b = tl.load(sb + cols[:, None] * (K // SIZE) + (at // SIZE + ks)[None, :])
        else:
            scale_b = None
        if ADDED:
            total += tl.dot_scaled(x, scale_a, A_FORMAT, y, scale_b, B_FORMAT, fast_math=FAST_MATH)
        else:
            total = tl.dot_scaled(x, scale_a, A_FORMAT, y, scale_b, B_FORMAT, total, fast_math=FAST_MATH)
    tl.store(d + places, total)


@triton.jit
def two_dots_kernel(q, k, v, d, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, H: tl.constexpr, BN: tl.constexpr):
    """d[m, h] = sum over blocks of n of (q k^T rounded to v's type) v: attention without its softmax."""
    rows, heads, ks, ns = tl.arange(0, M), tl.arange(0, H), tl.arange(0, K), tl.arange(0, BN)
    x = tl.load(q + rows[:, None] * K + ks[None, :])
    total = tl.zeros((M, H), dtype=tl.float32)
    for at in range(0, N, BN):
        y = tl.load(k + (at + ns)[None, :] * K + ks[:, None])
        scores = tl.dot(x, y)
        z = tl.load(v + (at + ns)[:, None] * H + heads[None, :])
        total = tl.dot((scores * 0.125).to(v.dtype.element_ty), z, total)
    tl.store(d + rows[:, None] * H + heads[None, :], total)


@triton.jit
def epilogue_kernel(
    a,
    b,
    c,
    d,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    FORM: tl.constexpr,
):
    """What follows a dot, in f32. Half of K is one dot, where a form has two."""
    rows, cols, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    places = rows[:, None] * N + cols[None, :]
    x = tl.load(a + rows[:, None] * K + ks[None, :])
    y = tl.load(b + cols[None, :] * K + ks[:, None])
    z = tl.load(c + places)
    if FORM == "dot + c":
        result = tl.dot(x, y) + z
    elif FORM == "dot s + c":
        result = tl.dot(x, y) * 0.7 + z
    elif FORM == "c - dot s":
        result = z - tl.dot(x, y) * 0.7
    elif FORM == "dot s - c":
        result = tl.dot(x, y) * 0.7 - z
    elif FORM == "c - dot":
        result = z - tl.dot(x, y)
    elif FORM == "dot used twice":
        product = tl.dot(x, y)
        result = (product + z) * product
    elif FORM == "named dot + c":
        product = tl.dot(x, y)
        result = z + product
    elif FORM == "dot from zeros + c":
        result = tl.dot(x, y, tl.zeros((BM, BN), dtype=tl.float32)) + z
    elif FORM == "c c + dot s":
        result = z * z + tl.dot(x, y) * 0.7
    elif FORM == "dot s - c c":
        result = tl.dot(x, y) * 0.7 - z * z
    else:
        x1 = tl.load(a + rows[:, None] * K + (BK + ks)[None, :])
        y1 = tl.load(b + cols[None, :] * K + (BK + ks)[:, None])
        if FORM == "dot s + dot s":
            result = tl.dot(x, y) * 0.7 + tl.dot(x1, y1) * 1.3
        else:
            result = tl.dot(x, y) + tl.dot(x1, y1)
    tl.store(d + places, result)


@triton.jit
def cast_kernel(
    a,
    b,
    c,
    d,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TO: tl.constexpr,
):
    """Operands that are stored narrower, as quantised weights are: mma.sync takes their K in another order."""
    rows, cols = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    places = rows[:, None] * N + cols[None, :]
    total = tl.load(c + places)
    for at in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (at + ks)[None, :])
        y = tl.load(b + cols[None, :] * K + (at + ks)[:, None])
        if TO == "fp16":
            total = tl.dot(x.to(tl.float16), y.to(tl.float16), total)
        elif TO == "fp16 by fp32":
            total = tl.dot(x.to(tl.float32).to(tl.float16), y.to(tl.float16), total)
        elif TO == "bf16":
            total = tl.dot(x.to(tl.bfloat16), y.to(tl.bfloat16), total)
        elif TO == "fp16 and scaled":
            total = tl.dot(x.to(tl.float16), y.to(tl.float16) * 0.5, total)
        else:
            total = tl.dot(x.to(tl.float32), y.to(tl.float32), total)
    tl.store(d + places, total)
