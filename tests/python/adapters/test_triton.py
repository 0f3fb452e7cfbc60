"""bitmma.adapters.triton: kernels that Triton compiles for a GPU run here, with the GPU's bits."""

import hashlib
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install triton==3.9.0")

import triton.language as tl  # noqa: E402

import bitmma  # noqa: E402
import bitmma.adapters.triton as adapter  # noqa: E402
import triton_cases  # noqa: E402
import triton_kernels  # noqa: E402
from triton_arrays import Array  # noqa: E402

RECORDED = Path(__file__).parents[3] / "data" / "triton" / "dots.tar.xz"
CASES = {triton_cases.name_of(case): case for case in triton_cases.cases()}


@triton.jit
def scaled_sum(x, y, out, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * alpha + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def product(a, b, d, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, ks = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        total = tl.dot(
            tl.load(a + rows[:, None] * K + (at + ks)[None, :]),
            tl.load(b + (at + ks)[:, None] * N + cols[None, :]),
            total,
        )
    tl.store(d + rows[:, None] * N + cols[None, :], total)


def launched(case: dict, **options) -> np.ndarray:
    """D of a case, and that no join of a product and a sum is in doubt."""
    arrays, constants, grid, _ = triton_cases.arguments(case)
    arguments = {name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()}
    kernel = getattr(triton_kernels, case["kernel"] + "_kernel")
    with adapter.use("sm_90a") as used:
        kernel[grid](
            **arguments, **constants, num_warps=case["warps"], enable_fp_fusion=case.get("fusion", True), **options
        )
    assert len(used.launches) == 1 and not used.unsure
    return arguments["d"].storage.array


@pytest.mark.parametrize("part", [*range(2), *(pytest.param(part, marks=pytest.mark.slow) for part in range(2, 12))])
def test_recorded_bits(part):
    """Launches that this release of Triton compiled on an H100 and on an H200, a twelfth of them each time."""
    with tarfile.open(RECORDED) as archive:
        index = json.load(archive.extractfile("index.json"))
    release = ".".join(triton.__version__.split(".")[:2])
    runs = {i: about["gpu"] for i, about in enumerate(index["runs"]) if about["triton"].startswith(release)}
    compared = 0
    for name in sorted(index["cases"])[part::12]:
        recorded = {row["run"]: row["sha256"] for row in index["cases"][name]["runs"] if row["run"] in runs}
        if not recorded:
            continue
        assert index["cases"][name]["case"] == CASES[name], f"{name}: the recording is of another case"
        digest = hashlib.sha256(launched(CASES[name]).tobytes()).hexdigest()
        assert recorded == dict.fromkeys(runs, digest), name
        compared += 1
    print(f"{', '.join(runs.values())}, Triton {triton.__version__}: {compared} launches")
    assert compared >= 27


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_product_and_a_sum_are_one_fma(target):
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(1000).astype(np.float32) for _ in range(2))
    exact = (x.astype(np.float64) * np.float64(np.float32(0.3)) + y).astype(np.float32)
    for threads in (1, 2):  # the second time Triton has the kernel
        out = np.zeros(1000, np.float32)
        with adapter.use(target, threads=threads) as used:
            scaled_sum[(triton.cdiv(1000, 256),)](Array(x), Array(y), Array(out), 1000, 0.3, BLOCK=256)
        assert (out.view(np.uint32) == exact.view(np.uint32)).all()
        assert (
            used.launches[0].name == "scaled_sum"
            and used.launches[0].grid == (4, 1, 1)
            and used.launches[0].instructions > 0
        )
        assert ".entry scaled_sum" in used.ptx["scaled_sum"]


def test_a_product_by_tensor_memory_is_the_chain_of_its_instructions():
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 256), (256, 256)))
    d = np.zeros((128, 256), np.float32)
    with adapter.use("sm_100a") as used:
        product[(2,)](Array(a), Array(b), Array(d), 256, 256, 128, 128, 64, num_warps=4)
    expected = bitmma.gemm(a, b, {"instruction": str(bitmma.tcgen05("f16", m=128, n=128)), "target": "sm_100a"})
    assert (d.view(np.uint32) == np.asarray(expected).view(np.uint32)).all()
    assert "tcgen05.mma" in used.ptx["product"]


def test_tritons_driver_comes_back():
    from triton.runtime.driver import driver

    before = driver._active
    with pytest.raises(KeyError), adapter.use():  # noqa: PT012 - what is tested is the end of the block
        assert driver._active is not before
        raise KeyError
    assert driver._active is before


def test_what_is_refused():
    ones = [Array(np.zeros(8, np.float32)) for _ in range(3)]
    tuned = triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])(scaled_sum)
    with pytest.raises(bitmma.Error, match="several configurations"), adapter.use():
        tuned[(4,)](*ones, 8, 0.5)
    with pytest.raises(bitmma.Error, match="num_ctas = 2"), adapter.use():
        scaled_sum[(1,)](*ones, 8, 0.5, BLOCK=256, num_ctas=2)
    with (
        pytest.raises(bitmma.Error, match="target = sm_75: must be sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a"),
        adapter.use("sm_75"),
    ):
        pass


def test_tritons_interpreter_is_refused(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(bitmma.Error, match="TRITON_INTERPRET = 1: must be 0 or not set; unset it"), adapter.use():
        pass


@triton.jit
def next_block(words, arrived, out):
    i, blocks = tl.program_id(0), tl.num_programs(0)
    tl.store(words + i, i + 100)
    tl.atomic_add(arrived, 1, sem="release")
    while tl.atomic_add(arrived, 0, sem="acquire") < blocks:
        pass
    tl.store(out + i, tl.load(words + (i + 1) % blocks))


def test_blocks_of_a_cooperative_grid_wait_for_each_other():
    words, arrived, out = (np.zeros(n, np.int32) for n in (5, 1, 5))
    with adapter.use("sm_90a"):
        next_block[(5,)](*map(Array, (words, arrived, out)), launch_cooperative_grid=True)
    assert out.tolist() == [101, 102, 103, 104, 100]
