"""Small Pallas kernels for one block, run by the Mosaic GPU interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

Array = np.ndarray


def smem(shape: Sequence[int], dtype: Any) -> Any:
    """A tiled and swizzled buffer where its columns fill a swizzle, else a plain one."""
    dtype = np.dtype(dtype)
    bits = ml_dtypes.finfo(dtype).bits if dtype.kind in "fV" else 8 * dtype.itemsize
    for swizzle in (128, 64, 32):
        columns = 8 * swizzle // bits
        if shape[-1] % columns == 0 and shape[-2] % 8 == 0:
            transforms = (plgpu.TilingTransform((8, columns)), plgpu.SwizzleTransform(swizzle))
            return plgpu.SMEM(tuple(shape), dtype, transforms=transforms)
    return plgpu.SMEM(tuple(shape), dtype)


def run(
    body: Callable[..., None],
    out: jax.ShapeDtypeStruct,
    scratch: Sequence[Any],
    *operands: Any,
    params: InterpretGPUParams = InterpretGPUParams(),
    **mesh: Any,
) -> Any:
    """D, waited for; under jax.jit what is traced."""
    kernel = plgpu.kernel(body, out_type=out, scratch_types=list(scratch), interpret=params, **mesh)
    d = kernel(*(jnp.asarray(operand) for operand in operands))
    return d if isinstance(d, jax.core.Tracer) else np.asarray(d)


def load(source: Any, destination: Any, barrier: Any) -> None:
    plgpu.copy_gmem_to_smem(source, destination, barrier)
    plgpu.barrier_wait(barrier)


def store(value: Any, through: Any, destination: Any) -> None:
    through[...] = value
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(through, destination)
    plgpu.wait_smem_to_gmem(0)


def turned(ref: Any, transposed: bool) -> Any:
    return plgpu.transpose_ref(ref, (1, 0)) if transposed else ref


def wgmma(
    a: Array,
    b: Array,
    acc: Any = np.float32,
    *,
    block_k: int = 0,
    a_turned: bool = False,
    b_turned: bool = False,
    a_in_registers: bool = False,
    halves: bool = False,
    start: Array | None = None,
) -> Array:
    """start + a b, or a b: a loop over blocks of K, one wgmma a block. a [M, K], b [K, N], start [M, N]."""
    (m, k), n = a.shape, b.shape[1]
    block = block_k or k
    a_shape = (block, m) if a_turned else (m, block)
    b_shape = (n, block) if b_turned else (block, n)

    def body(a_gmem, b_gmem, start_gmem, d_gmem, a_smem, b_smem, d_smem, barrier):
        load(start_gmem, d_smem, barrier)

        def multiply(accumulator):
            if start is not None:
                accumulator[...] = d_smem[...]

            def step(i, _):
                part = pl.ds(i * block, block)
                load(a_gmem.at[part] if a_turned else a_gmem.at[:, part], a_smem, barrier)
                load(b_gmem.at[:, part] if b_turned else b_gmem.at[part], b_smem, barrier)
                left = a_smem[...] if a_in_registers else turned(a_smem, a_turned)
                if halves:
                    plgpu.wgmma(accumulator.at[:, : n // 2], left, b_smem.at[:, : n // 2])
                    plgpu.wgmma(accumulator.at[:, n // 2 :], left, b_smem.at[:, n // 2 :])
                else:
                    plgpu.wgmma(accumulator, left, turned(b_smem, b_turned))
                plgpu.wgmma_wait(0)
                return ()

            lax.fori_loop(0, k // block, step, ())
            return accumulator[...]

        store(pl.run_scoped(multiply, plgpu.ACC((m, n), acc)), d_smem, d_gmem)

    scratch = [smem(a_shape, a.dtype), smem(b_shape, b.dtype), plgpu.SMEM((m, n), acc), plgpu.Barrier()]
    first = np.zeros((m, n), acc) if start is None else start
    return run(body, jax.ShapeDtypeStruct((m, n), acc), scratch, a.T if a_turned else a, b.T if b_turned else b, first)


def tcgen05(
    a: Array,
    b: Array,
    acc: Any = np.float32,
    *,
    block_k: int = 0,
    a_turned: bool = False,
    b_turned: bool = False,
    a_in_tmem: bool = False,
    a_copied: bool = False,
    start: Array | None = None,
    commit: bool = False,
    params: InterpretGPUParams = InterpretGPUParams(),
) -> Array:
    """start + a b, or a b with accumulate False in the first block of K, one tcgen05_mma a block."""
    (m, k), n = a.shape, b.shape[1]
    block = block_k or k
    a_shape = (block, m) if a_turned else (m, block)
    b_shape = (n, block) if b_turned else (block, n)

    def body(a_gmem, b_gmem, start_gmem, d_gmem, a_smem, b_smem, d_smem, a_tmem, d_tmem, barrier, mma_barrier):
        load(start_gmem, d_smem, barrier)
        if start is not None:
            plgpu.async_store_tmem(d_tmem, d_smem[...])
            plgpu.commit_tmem()

        def step(i, _):
            part = pl.ds(i * block, block)
            load(a_gmem.at[part] if a_turned else a_gmem.at[:, part], a_smem, barrier)
            load(b_gmem.at[:, part] if b_turned else b_gmem.at[part], b_smem, barrier)
            left = turned(a_smem, a_turned)
            if a_copied:
                plgpu.async_copy_smem_to_tmem(a_smem, a_tmem)
                left = a_tmem
            elif a_in_tmem:
                plgpu.async_store_tmem(a_tmem, a_smem[...])
                plgpu.commit_tmem()
                left = a_tmem
            accumulate = True if start is not None else i > 0
            plgpu.tcgen05_mma(
                d_tmem, left, turned(b_smem, b_turned), None if commit else mma_barrier, accumulate=accumulate
            )
            if commit:
                plgpu.tcgen05_commit_arrive(mma_barrier)
            plgpu.barrier_wait(mma_barrier)
            return ()

        lax.fori_loop(0, k // block, step, ())
        value = plgpu.async_load_tmem(d_tmem)
        plgpu.wait_load_tmem()
        store(value, d_smem, d_gmem)

    # Something has to be there also where A is not in Tensor Memory.
    a_tmem = plgpu.TMEM((m, block), a.dtype, packed=True) if a_in_tmem else plgpu.TMEM((m, 64), np.float32)
    scratch = [
        smem(a_shape, a.dtype),
        smem(b_shape, b.dtype),
        plgpu.SMEM((m, n), acc),
        a_tmem,
        plgpu.TMEM((m, n), acc, packed=False),
        plgpu.Barrier(),
        plgpu.Barrier(orders_tensor_core=True),
    ]
    first = np.zeros((m, n), acc) if start is None else start
    return run(
        body,
        jax.ShapeDtypeStruct((m, n), acc),
        scratch,
        a.T if a_turned else a,
        b.T if b_turned else b,
        first,
        params=params,
    )


def collective_tcgen05(a: Array, b: Array) -> Array:
    """Two blocks, each with half of the rows of A and of the columns of B."""
    (m, k), n = a.shape, b.shape[1]

    def body(a_gmem, b_gmem, d_gmem, a_smem, b_smem, d_tmem, mma_barrier):
        plgpu.tcgen05_mma(d_tmem, a_smem, b_smem, mma_barrier, accumulate=False, collective_axis="x")

    scratch = [
        smem((m, k), a.dtype),
        smem((k, n), b.dtype),
        plgpu.TMEM((m, 2 * n), np.float32, collective=True),
        plgpu.Barrier(orders_tensor_core=True),
    ]
    return run(body, jax.ShapeDtypeStruct((m, n), np.float32), scratch, a, b, cluster=(2,), cluster_names=("x",))


def arranged_scales(scales: Array) -> Array:
    """Scales [rows, blocks] as shared memory has them, as the documentation of JAX says."""
    rows, blocks = scales.shape
    tiles = -(-rows // 128)
    codes = np.zeros((tiles * 128, blocks), np.uint8)
    codes[:rows] = scales.view(np.uint8)
    codes = codes.reshape(tiles, 4, 32, blocks // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(codes).reshape(tiles, blocks // 4, 32, 16).view(scales.dtype)


def scaled_tcgen05(a: Array, b: Array, scale_a: Array, scale_b: Array) -> Array:
    """a [128, K] b [K, N] with scale_a [128, K / block] and scale_b [N, K / block]; b lies K-major."""
    (m, k), n = a.shape, b.shape[1]
    blocks, padded = scale_a.shape[1], -(-n // 128) * 128
    laid_a, laid_b = arranged_scales(scale_a), arranged_scales(scale_b)

    def body(
        a_gmem,
        b_gmem,
        sa_gmem,
        sb_gmem,
        d_gmem,
        a_smem,
        b_smem,
        sa_smem,
        sb_smem,
        d_smem,
        d_tmem,
        sa_tmem,
        sb_tmem,
        barrier,
        mma_barrier,
    ):
        load(a_gmem, a_smem, barrier)
        load(b_gmem, b_smem, barrier)
        load(sa_gmem, sa_smem, barrier)
        load(sb_gmem, sb_smem, barrier)
        plgpu.async_copy_scales_to_tmem(sa_smem, sa_tmem)
        plgpu.async_copy_scales_to_tmem(sb_smem, sb_tmem)
        plgpu.tcgen05_mma(
            d_tmem, a_smem, turned(b_smem, True), mma_barrier, a_scale=sa_tmem, b_scale=sb_tmem, accumulate=False
        )
        plgpu.barrier_wait(mma_barrier)
        store(plgpu.async_load_tmem(d_tmem), d_smem, d_gmem)

    layout = plgpu.TMEMLayout.SCALES_LAYOUT
    scratch = [
        smem((m, k), a.dtype),
        smem((n, k), b.dtype),
        plgpu.SMEM(laid_a.shape, laid_a.dtype),
        plgpu.SMEM(laid_b.shape, laid_b.dtype),
        plgpu.SMEM((m, n), np.float32),
        plgpu.TMEM((m, n), np.float32),
        plgpu.TMEM((m, blocks), scale_a.dtype, layout=layout),
        plgpu.TMEM((padded, blocks), scale_b.dtype, layout=layout),
        plgpu.Barrier(),
        plgpu.Barrier(orders_tensor_core=True),
    ]
    out = jax.ShapeDtypeStruct((m, n), np.float32)
    return run(body, out, scratch, a, np.ascontiguousarray(b.T), laid_a, laid_b)


def sparse_tcgen05(a: Array, b: Array, pairs: Array) -> Array:
    """a [128, K / 2] as stored, b [K, N], pairs [128, K / 4, 2]: which two of each four of K are stored."""
    (m, stored), (k, n) = a.shape, b.shape
    laid_out_as = a.dtype if a.dtype.itemsize <= 2 else np.dtype(np.float16)
    metadata = plgpu.format_tcgen05_sparse_metadata(jnp.asarray(pairs.astype(ml_dtypes.uint2)), laid_out_as)

    def body(
        a_gmem,
        b_gmem,
        metadata_gmem,
        d_gmem,
        a_smem,
        b_smem,
        metadata_smem,
        d_smem,
        d_tmem,
        metadata_tmem,
        barrier,
        mma_barrier,
    ):
        load(a_gmem, a_smem, barrier)
        load(b_gmem, b_smem, barrier)
        load(metadata_gmem, metadata_smem, barrier)
        plgpu.async_copy_sparse_metadata_to_tmem(metadata_smem, metadata_tmem)
        plgpu.tcgen05_mma(d_tmem, a_smem, b_smem, mma_barrier, a_sparse_metadata=metadata_tmem, accumulate=False)
        plgpu.barrier_wait(mma_barrier)
        store(plgpu.async_load_tmem(d_tmem), d_smem, d_gmem)

    layout = plgpu.TMEMLayout.SPARSE_METADATA_LAYOUT
    scratch = [
        smem((m, stored), a.dtype),
        smem((k, n), b.dtype),
        plgpu.SMEM(metadata.shape, metadata.dtype),
        plgpu.SMEM((m, n), np.float32),
        plgpu.TMEM((m, n), np.float32),
        plgpu.TMEM((m, k // 2), ml_dtypes.uint2, layout=layout),
        plgpu.Barrier(),
        plgpu.Barrier(orders_tensor_core=True),
    ]
    return run(body, jax.ShapeDtypeStruct((m, n), np.float32), scratch, a, b, metadata)


def two_warpgroups(a: Array, b: Array) -> Array:
    """a [2 M, K] b [K, N]: a grid of two blocks along N, and in each two warpgroups, one for each half of A."""
    (rows, k), n = a.shape, b.shape[1] // 2
    m = rows // 2

    def body(a_gmem, b_gmem, d_gmem, a_smem, b_smem, d_smem, barriers):
        wg, column = lax.axis_index("wg"), lax.axis_index("n")
        barrier = barriers.at[wg]
        mine, columns = a_gmem.at[pl.ds(wg * m, m)], pl.ds(column * n, n)
        load(mine, a_smem.at[wg], barrier)
        load(b_gmem.at[:, columns], b_smem.at[wg], barrier)

        def multiply(accumulator):
            plgpu.wgmma(accumulator, a_smem.at[wg], b_smem.at[wg])
            return accumulator[...]

        value = pl.run_scoped(multiply, plgpu.ACC((m, n), np.float32))
        store(value, d_smem.at[wg], d_gmem.at[pl.ds(wg * m, m), columns])

    scratch = [
        smem((2, m, k), a.dtype),
        smem((2, k, n), b.dtype),
        plgpu.SMEM((2, m, n), np.float32),
        plgpu.Barrier(num_barriers=2),
    ]
    return run(
        body,
        jax.ShapeDtypeStruct((rows, 2 * n), np.float32),
        scratch,
        a,
        b,
        grid=(2,),
        grid_names=("n",),
        num_threads=2,
        thread_name="wg",
    )
