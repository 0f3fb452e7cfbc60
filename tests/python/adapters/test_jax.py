"""bitmma.adapters.jax: Pallas' Mosaic GPU interpreter has the bits of tensor cores."""

from __future__ import annotations

import io
import json
import os
import pathlib
import struct
import sys
import tarfile
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import bitmma

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax", reason="JAX is not installed: the adapter for its interpreter is not tested")
pytest.importorskip(
    "jax.experimental.pallas.mosaic_gpu",
    reason="Pallas' Mosaic GPU cannot be imported (absl-py?)",
    exc_type=ImportError,
)

from jax._src.pallas.mosaic_gpu.interpret import gpu_callbacks, jaxpr_interpret  # noqa: E402
from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams  # noqa: E402

import jax_kernels as kernels  # noqa: E402
from bitmma.adapters import jax as adapter  # noqa: E402

archive = pathlib.Path(__file__).parents[3] / "data" / "products" / "recorded.tar.xz"

f16, bf16, f32, s8, s32 = np.float16, ml_dtypes.bfloat16, np.float32, np.int8, np.int32
e4m3, e5m2, e2m1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn
ue8m0 = ml_dtypes.float8_e8m0fnu
shorts = {f16: "f16", bf16: "bf16", f32: "tf32", s8: "s8", e4m3: "e4m3", e5m2: "e5m2", e2m1: "e2m1"}


@pytest.fixture
def with_bitmma():
    adapter.install()
    yield
    adapter.uninstall()
    gpu_callbacks.reset_gpu_interpret_mode_state()


@pytest.fixture(autouse=True)
def restored():
    """Whatever a test does, the next one finds JAX as it is."""
    before = jaxpr_interpret._raise_if_unsupported_memory_space, jaxpr_interpret.JaxprInterpreter.interpret
    yield
    adapter.uninstall()
    gpu_callbacks.reset_gpu_interpret_mode_state()
    assert (jaxpr_interpret._raise_if_unsupported_memory_space, jaxpr_interpret.JaxprInterpreter.interpret) == before


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    if dtype == s8:
        return rng.integers(-128, 128, shape, dtype=s8)
    return rng.standard_normal(shape).astype(f32).astype(dtype)


def plan(dtype: Any, acc: str = "f32", **fields: Any) -> dict[str, Any]:
    """One chain of wgmma over all of K."""
    k = 32 // np.dtype(dtype).itemsize
    name = f"wgmma.mma_async.sync.aligned.m64n256k{k}.{acc}.{shorts[dtype]}.{shorts[dtype]}"
    return {"instruction": name, "output": {"type": acc}, **fields}


def require_same(d: np.ndarray, wanted: np.ndarray) -> None:
    assert d.dtype == wanted.dtype and d.shape == wanted.shape
    raw = f"u{d.dtype.itemsize}"
    d, wanted = (np.ascontiguousarray(array).view(raw) for array in (d, wanted))
    differing = np.argwhere(d != wanted)
    first = tuple(differing[0]) if len(differing) else ()
    assert len(differing) == 0, f"{len(differing)} of {d.size} differ, {first}: {d[first]:#x}, not {wanted[first]:#x}"


# ---------------------------------------------------------------------------------------------------------------------
# wgmma

cases = [(f16, f32), (bf16, f32), (f32, f32), (e4m3, f32), (e5m2, f32), (f16, f16), (e4m3, f16), (s8, s32)]
names = {f32: "f32", f16: "f16", s32: "s32"}


@pytest.mark.parametrize("dtype, acc", cases, ids=lambda dtype: np.dtype(dtype).name)
def test_wgmma_is_one_chain_over_k(with_bitmma, dtype, acc):
    a, b = values((64, 256), dtype), values((256, 96), dtype, 1)
    wanted = bitmma.gemm(a, b, plan(dtype, names[acc]))
    require_same(kernels.wgmma(a, b, acc), wanted)
    require_same(kernels.wgmma(a, b, acc, block_k=128), wanted)


@pytest.mark.parametrize("dtype", [f16, e4m3], ids=lambda dtype: np.dtype(dtype).name)
def test_without_the_adapter_the_bits_are_others(dtype):
    a, b = values((64, 256), dtype), values((256, 64), dtype, 1)
    wanted = bitmma.gemm(a, b, plan(dtype))
    without = kernels.wgmma(a, b)
    assert np.mean(without != wanted) > 0.1
    with adapter.use():
        require_same(kernels.wgmma(a, b), wanted)
    require_same(kernels.wgmma(a, b), without)


@pytest.mark.parametrize("m, n, k", [(64, 8, 64), (128, 24, 64), (192, 256, 128)])
def test_wgmma_of_other_shapes(with_bitmma, m, n, k):
    a, b = values((m, k), bf16), values((k, n), bf16, 1)
    require_same(kernels.wgmma(a, b), bitmma.gemm(a, b, plan(bf16)))


@pytest.mark.parametrize(
    "how",
    [
        {"a_turned": True},
        {"b_turned": True},
        {"a_turned": True, "b_turned": True},
        {"a_in_registers": True, "b_turned": True},
        {"halves": True},
    ],
    ids=str,
)
def test_wgmma_reads_transposes_and_registers(with_bitmma, how):
    a, b = values((64, 128), f16), values((128, 64), f16, 1)
    require_same(kernels.wgmma(a, b, block_k=64, **how), bitmma.gemm(a, b, plan(f16)))


@pytest.mark.parametrize("dtype, acc", [(f16, f32), (f16, f16)], ids=lambda dtype: np.dtype(dtype).name)
def test_wgmma_begins_from_the_accumulator(with_bitmma, dtype, acc):
    a, b, start = values((64, 128), dtype), values((128, 64), dtype, 1), values((64, 64), acc, 2)
    wanted = bitmma.gemm(a, b, plan(dtype, names[acc], start="c"), c=start)
    require_same(kernels.wgmma(a, b, acc, start=start), wanted)


def test_integer_accumulators_wrap(with_bitmma):
    a, b = values((64, 64), s8), values((64, 16), s8, 1)
    start = np.full((64, 16), 2**31 - 1, s32)
    wanted = (start.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)).astype(s32)
    require_same(kernels.wgmma(a, b, s32, start=start), wanted)


def test_special_values_are_the_hardware_s(with_bitmma):
    a, b = values((64, 64), f16), values((64, 8), f16, 1)
    a[0, 3], a[1, 0], a[2, 5] = np.nan, np.inf, -np.inf
    b[0, 0] = 0
    d = kernels.wgmma(a, b)
    assert set(d[0].view(np.uint32)) == {0x7FFFFFFF} and d[1, 0].view(np.uint32) == 0x7FFFFFFF
    require_same(d, bitmma.gemm(a, b, plan(f16)))


def test_two_warpgroups_and_a_grid(with_bitmma):
    a, b = values((128, 64), bf16), values((64, 128), bf16, 1)
    require_same(kernels.two_warpgroups(a, b), bitmma.gemm(a, b, plan(bf16)))


# ---------------------------------------------------------------------------------------------------------------------
# What an H100 gave


class Recorded(NamedTuple):
    a: np.ndarray
    b: np.ndarray
    d: np.ndarray
    rows: np.ndarray
    cols: np.ndarray


def recorded(name: str) -> Recorded:
    """A recorded product: A [M, K] and B [K, N] of its seed, and D of some rows and columns."""
    with tarfile.open(archive) as tar:
        data = tar.extractfile(name).read()
    stream = io.BytesIO(data)
    header = json.loads(stream.read(struct.unpack("<Q", stream.read(8))[0]))
    start, metadata = stream.tell(), header.pop("__metadata__")
    dtypes = {"F32": f32, "F16": f16, "BF16": bf16, "I32": s32}
    tensors = {}
    for key, about in header.items():
        first, last = about["data_offsets"]
        tensors[key] = np.frombuffer(data[start + first : start + last], dtypes[about["dtype"]]).reshape(about["shape"])
    m, n, k = (int(metadata[key]) for key in "mnk")
    a = bitmma.generated(metadata["a_type"], (m, k), int(metadata["seed"]), "a")
    b = bitmma.generated(metadata["b_type"], (n, k), int(metadata["seed"]), "b")
    return Recorded(a, b.T, tensors["d"], tensors["rows"], tensors["cols"])


@pytest.mark.parametrize(
    "name, block_k",
    [
        ("h100/1269", 64),
        ("h100/1271", 64),
        ("h100/1273", 64),
        ("h100/1275", 128),
        ("h100/1277", 64),
        ("h100/1208", 64),
        ("h100/1188", 1024),
    ],
    ids=["bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "f16 accumulators"],
)
def test_an_h100_gave_these_bits(with_bitmma, name, block_k):
    """Products of Triton and cuBLAS that are one chain over K. Rows and columns know nothing of each other."""
    product = recorded(f"{name}.safetensors")
    a = np.zeros((64, product.a.shape[1]), product.a.dtype)
    a[: len(product.rows)] = product.a[product.rows]
    b = np.ascontiguousarray(product.b[:, product.cols])
    d = kernels.wgmma(a, b, product.d.dtype.type, block_k=block_k, b_turned=True)
    require_same(d[: len(product.rows)], product.d)


def test_the_interpreter_alone_misses_what_an_h100_gave():
    product = recorded("h100/1275.safetensors")
    a = np.zeros((64, product.a.shape[1]), product.a.dtype)
    a[: len(product.rows)] = product.a[product.rows]
    d = kernels.wgmma(a, np.ascontiguousarray(product.b[:, product.cols]), block_k=128)
    assert np.mean(d[: len(product.rows)] != product.d) > 0.5


# ---------------------------------------------------------------------------------------------------------------------
# tcgen05


@pytest.mark.parametrize(
    "dtype, acc",
    [(f16, f32), (bf16, f32), (f32, f32), (e4m3, f32), (e5m2, f32), (s8, s32)],
    ids=lambda dtype: np.dtype(dtype).name,
)
def test_tcgen05_is_one_chain_over_k(with_bitmma, dtype, acc):
    a, b = values((128, 256), dtype), values((256, 64), dtype, 1)
    wanted = bitmma.gemm(a, b, "flat", target="sm_100a", out_dtype=names[acc])
    require_same(kernels.tcgen05(a, b, acc, block_k=128), wanted)


def test_tcgen05_with_f16_accumulators(with_bitmma):
    """The rule is wgmma's: F = 25, RNE-10, floor -21."""
    a, b = values((128, 128), f16), values((128, 64), f16, 1)
    require_same(kernels.tcgen05(a, b, f16, block_k=64), bitmma.gemm(a, b, plan(f16, "f16")))


@pytest.mark.parametrize(
    "how",
    [
        {"a_turned": True},
        {"b_turned": True},
        {"a_in_tmem": True, "block_k": 64},
        {"a_in_tmem": True, "a_copied": True},
        {"commit": True, "block_k": 64},
    ],
    ids=str,
)
def test_tcgen05_reads_transposes_and_tensor_memory(with_bitmma, how):
    a, b = values((128, 128), f16), values((128, 64), f16, 1)
    require_same(kernels.tcgen05(a, b, **how), bitmma.gemm(a, b, "flat", target="sm_100a"))


@pytest.mark.parametrize("m, n", [(64, 128), (128, 8), (128, 512)])
def test_tcgen05_of_other_shapes(with_bitmma, m, n):
    a, b = values((m, 64), bf16), values((64, n), bf16, 1)
    require_same(kernels.tcgen05(a, b), bitmma.gemm(a, b, "flat", target="sm_100a"))


def test_tcgen05_begins_from_tensor_memory_or_does_not_read_it(with_bitmma):
    a, b, start = values((128, 64), f16), values((64, 64), f16, 1), values((128, 64), f32, 2)
    started = {"instruction": "tcgen05.mma.cta_group::1.kind::f16", "target": "sm_100a", "start": "c"}
    require_same(kernels.tcgen05(a, b, start=start), bitmma.gemm(a, b, started, c=start))
    # Tensor Memory that nothing has written is NaN in the interpreter; accumulate=False does not see it.
    assert np.isfinite(kernels.tcgen05(a, b)).all()


@pytest.mark.parametrize(
    "dtype, scale, block",
    [(e4m3, ue8m0, 32), (e5m2, ue8m0, 32), (e2m1, ue8m0, 32), (e2m1, e4m3, 16)],
    ids=["mxf8f6f4 e4m3", "mxf8f6f4 e5m2", "mxf4", "mxf4nvf4"],
)
def test_block_scales(with_bitmma, dtype, scale, block):
    a, b = values((128, 256), dtype), values((256, 96), dtype, 1)
    rng = np.random.default_rng(3)

    def scales(rows: int) -> np.ndarray:
        significands = 1 if scale is ue8m0 else rng.choice([1, 1.125, 1.75], (rows, 256 // block))
        return (2.0 ** rng.integers(-4, 4, (rows, 256 // block)) * significands).astype(f32).astype(scale)

    scale_a, scale_b = scales(128), scales(96)
    wanted = bitmma.gemm(a, b, "flat", target="sm_100a", sfa=scale_a, sfb=np.ascontiguousarray(scale_b.T))
    require_same(kernels.scaled_tcgen05(a, b, scale_a, scale_b), wanted)
    ones = np.ones((128, 256 // block), f32).astype(scale)
    assert np.mean(kernels.scaled_tcgen05(a, b, ones, ones[:96]) != wanted) > 0.5


@pytest.mark.parametrize("dtype, kind", [(f16, "f16"), (bf16, "f16"), (e4m3, "f8f6f4")], ids=["f16", "bf16", "e4m3"])
def test_sparse_a(with_bitmma, dtype, kind):
    k = 256
    stored, b = values((128, k // 2), dtype), values((k, 64), dtype, 1)
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    where = pairs[np.random.default_rng(4).integers(0, 6, (128, k // 4))]
    a = np.zeros((128, k // 4, 4), dtype)
    np.put_along_axis(a, where, stored.reshape(128, k // 4, 2), 2)
    a = a.reshape(128, k)
    instruction = bitmma.tcgen05(kind, m=128, n=64, a=shorts[dtype], sparse=True)
    wanted = None
    for at in range(0, k, instruction.k):
        wanted = bitmma.mma(instruction, a[:, at : at + instruction.k], b[at : at + instruction.k], wanted)
    require_same(kernels.sparse_tcgen05(stored, b, where), wanted)


def test_with_races_detected_and_with_arithmetic_skipped(with_bitmma):
    a, b = values((128, 64), f16), values((64, 64), f16, 1)
    d = kernels.tcgen05(a, b, params=InterpretGPUParams(detect_races=True))
    require_same(d, bitmma.gemm(a, b, "flat", target="sm_100a"))
    assert kernels.tcgen05(a, b, params=InterpretGPUParams(skip_floating_point_ops=True)).shape == (128, 64)


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize(
    "kernel, m, n, k, message",
    [
        (kernels.wgmma, 16, 64, 64, "M = 16: must be a multiple of 64"),
        (kernels.wgmma, 64, 12, 64, "n = 12: must be 8..256 in steps of 8"),
        (kernels.wgmma, 64, 64, 8, "K = 8: must be a multiple of 16"),
        (kernels.tcgen05, 128, 12, 64, "n = 12: must be 8..256 in steps of 8"),
        (kernels.tcgen05, 128, 64, 24, "K = 24: must be a multiple of 16"),
    ],
)
def test_illegal_tiles_are_refused_when_the_kernel_is_traced(with_bitmma, kernel, m, n, k, message):
    with pytest.raises(bitmma.Error) as error:
        kernel(values((m, k), f16), values((k, n), f16, 1))
    assert message in str(error.value)


def test_types_that_no_instruction_multiplies(with_bitmma):
    with pytest.raises(bitmma.Error, match=r"types = \.f16\.bf16\.bf16: must be \.f32\.bf16\.bf16"):
        kernels.wgmma(values((64, 64), bf16), values((64, 64), bf16, 1), f16)
    with pytest.raises(bitmma.Error, match="a = int16: must be float16"):
        kernels.wgmma(np.ones((64, 64), np.int16), np.ones((64, 64), np.int16), s32)
    ones = np.ones((128, 4), e4m3)
    with pytest.raises(bitmma.Error, match="a_scale, b_scale = float8_e4m3fn and float8_e4m3fn of e4m3"):
        kernels.scaled_tcgen05(values((128, 128), e4m3), values((128, 32), e4m3, 1), ones, ones[:32])


def test_sparse_types_without_a_layout_of_metadata(with_bitmma):
    where = np.tile(np.array([0, 1]), (128, 32, 1))
    stored, b = values((128, 64), f32), values((128, 64), f32, 1)
    with pytest.raises(bitmma.Error, match="sparse A = 128 x 128 of tf32"):
        kernels.sparse_tcgen05(stored, b, where)


def test_collective_tcgen05_is_refused(with_bitmma):
    with pytest.raises(bitmma.Error, match=r"collective_axis 'x'.*no barriers between the blocks of a cluster"):
        kernels.collective_tcgen05(values((128, 64), f16), values((64, 64), f16, 1))


def test_a_target_without_the_instruction():
    with adapter.use(target="sm_100a"), pytest.raises(bitmma.Error, match="sm_100a"):
        kernels.wgmma(values((64, 64), f16), values((64, 64), f16, 1))
    with pytest.raises(bitmma.Error, match=r"target = sm_80: must be .*sm_100a.*sm_90a"):
        adapter.install(target="sm_80")


# ---------------------------------------------------------------------------------------------------------------------
# On and off


def test_a_compiled_kernel_follows_the_adapter():
    a, b = values((64, 64), e4m3), values((64, 64), e4m3, 1)
    compiled = jax.jit(lambda: kernels.wgmma(a, b))
    before = np.asarray(compiled())
    with adapter.use():
        require_same(np.asarray(compiled()), bitmma.gemm(a, b, plan(e4m3)))
    require_same(np.asarray(compiled()), before)


def test_installing_again_takes_the_new_arguments():
    a, b = values((128, 64), f16), values((64, 64), f16, 1)
    adapter.install(target="sm_90a")
    adapter.install(target="sm_103a", threads=2)
    require_same(kernels.tcgen05(a, b), bitmma.gemm(a, b, "flat", target="sm_103a"))
    adapter.uninstall()
    adapter.uninstall()
    with pytest.raises(NotImplementedError, match="Unsupported memory space"):
        kernels.tcgen05(a, b)


def test_an_error_inside_use_restores_as_well():
    before = jaxpr_interpret.JaxprInterpreter.interpret
    with pytest.raises(KeyError), adapter.use():  # noqa: PT012 - what is tested is the end of the block
        assert jaxpr_interpret.JaxprInterpreter.interpret is not before
        raise KeyError
    assert jaxpr_interpret.JaxprInterpreter.interpret is before


def other_arrive(*, token, thread, acc_key):
    return token


def test_another_signature_is_named(monkeypatch):
    monkeypatch.setattr(gpu_callbacks, "_barrier_arrive", other_arrive)
    interpret = jaxpr_interpret.JaxprInterpreter.interpret
    with pytest.raises(bitmma.Error) as error:
        adapter.install()
    assert len(error.value.violations) == 1
    violation = error.value.violations[0]
    assert violation.field.endswith("interpret.gpu_callbacks._barrier_arrive")
    assert violation.seen == "(token, thread, acc_key)" and "allocation_key_as_array" in violation.legal
    assert f"this is {jax.__version__}" in violation.fix and 'pip install "jax==0.10.2"' in violation.fix
    assert gpu_callbacks._barrier_arrive is other_arrive and jaxpr_interpret.JaxprInterpreter.interpret is interpret
    monkeypatch.undo()


def test_all_that_is_missing_is_named(monkeypatch):
    monkeypatch.delattr(gpu_callbacks, "_remove_noop_transforms")
    monkeypatch.setitem(sys.modules, "jax._src.pallas.mosaic_gpu.interpret.shared_memory", None)
    with pytest.raises(bitmma.Error) as error:
        adapter.install()
    seen = {violation.field.rsplit(".", 1)[1]: violation.seen for violation in error.value.violations}
    assert seen == {"_remove_noop_transforms": "nothing", "get_global_thread_id": "nothing"}
    monkeypatch.undo()


def test_an_interpreter_with_a_tcgen05_of_its_own_is_refused(monkeypatch):
    monkeypatch.setattr(jaxpr_interpret.JaxprInterpreter, "_interpret_tcgen05_mma_p", other_arrive, raising=False)
    with pytest.raises(bitmma.Error, match="a tcgen05 of its own"):
        adapter.install()
    monkeypatch.undo()


def test_without_jax_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(bitmma.Error, match=r'jax = not installed.*pip install "jax==0\.10\.2" absl-py'):
        adapter.install()
    monkeypatch.undo()


def test_without_mosaic_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax.experimental.pallas.mosaic_gpu", None)
    with pytest.raises(bitmma.Error, match=r"jax\.experimental\.pallas\.mosaic_gpu = .*absl-py"):
        adapter.install()
    monkeypatch.undo()
