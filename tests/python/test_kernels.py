"""Kernels on NumPy's arrays: what the recorded launches do not have."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import bitmma
from conftest import DATA


def test_tensor_maps_copy_boxes_for_wgmma():
    """A product by TMA and wgmma is the chain of instructions, on NumPy's arrays; maps that do not fit are refused."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((64, 128)).astype(ml_dtypes.bfloat16) for _ in range(2))
    d = np.zeros((64, 64), np.float32)
    product = bitmma.kernel((DATA / "kernels" / "bulk.ptx").read_text(), "tma_product")
    boxes = [bitmma.tensor_map(x, (64, 64), swizzle="128") for x in (a, b)]
    product[1, 128](*boxes, bitmma.tensor_map(d, (64, 64)), 128)
    plan = {"instruction": "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"}
    bitmma.testing.assert_bits_equal(d, bitmma.gemm(a, b.T, plan))
    with pytest.raises(bitmma.Error, match="box"):
        product[1, 128](bitmma.tensor_map(a, (64, 65), swizzle="128"), *boxes, 128)
    with pytest.raises(bitmma.Error, match="fill"):
        bitmma.tensor_map(a, (64, 64), fill="one")
    with pytest.raises(bitmma.Error, match="tensor map"):
        product[1, 128](a, b, d, 128)


def test_a_cluster_is_launched_together():
    with open(DATA / "kernels" / "cluster.ptx") as file:
        kernel = bitmma.kernel(file.read(), "cluster_histogram")
    x, bins = np.arange(1000, dtype=np.uint32), np.zeros(512, np.uint32)
    kernel[8, 128](x, bins, 1000, cluster=4)
    assert (bins == np.bincount(x % 512)).all()
    with pytest.raises(bitmma.Error, match="reqnctapercluster"):
        kernel[8, 128](x, bins, 1000, cluster=2)
    with pytest.raises(bitmma.Error, match="cluster"):
        kernel[8, 128](x, bins, 1000, cluster="4")


def test_a_thread_is_traced_and_stopped_and_its_mma_explained():
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    d = np.zeros((64, 64), np.float32)
    matmul = bitmma.kernel((DATA / "kernels" / "cuda.ptx").read_text(), "matmul")
    launcher = matmul[(8, 4), 32]
    steps = launcher.trace(a, b, d, 64, 64, thread=5, block=(1, 2))
    assert steps[0].statement.startswith("ld.param") and steps[0].case is None
    products = [step for step in steps if step.case is not None]
    assert len(products) == 4  # K of 64 in steps of 16
    last = products[-1]
    stop = launcher.debug(
        a,
        b,
        np.zeros_like(d),
        64,
        64,
        line=last.line,
        time=sum(product.line == last.line for product in products),
        thread=5,
        block=(1, 2),
    )
    assert stop.step.statement == last.statement
    for name, value in stop.step.registers.items():
        assert isinstance(value, np.float32) and stop.registers[name] == value
    # The thread's four numbers of D: rows 1 and 9 of the block's 16, columns 2 and 3 of its 8.
    tile = d[32:48, 8:16]
    assert list(stop.step.registers.values()) == [tile[1, 2], tile[1, 3], tile[9, 2], tile[9, 3]]
    explained = bitmma.explain(stop.step.case, 1, 2)
    assert np.uint32(int(explained["d"]["bits"], 16)).view(np.float32) == tile[1, 2]
    assert [product.line for product in launcher.trace(a, b, d, 64, 64, lines=(last.line, last.line))] == [
        product.line for product in products if product.line == last.line
    ]
    with pytest.raises(bitmma.Error, match="line"):
        launcher.debug(a, b, d, 64, 64, line=1)
    with pytest.raises(bitmma.Error, match=r"trace\.thread"):
        launcher.trace(a, b, d, 64, 64, thread=32)
    with pytest.raises(bitmma.Error, match="thread = -1"):
        launcher.trace(a, b, d, 64, 64, thread=-1)


def test_what_is_not_sure_of_a_kernel_is_a_warning():
    kernel = bitmma.kernel(""".version 8.0
.target sm_90
.address_size 64
.visible .entry total(.param .u64 x) {
  .reg .b64 %rd<2>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x]; mov.f32 %f1, 0f3F800000; atom.global.add.f32 %f2, [%rd1], %f1; ret; }""")
    assert len(kernel.warnings) == 1
    x = np.zeros(1, np.float32)
    with pytest.warns(UserWarning, match="their order determines the bits"):
        kernel[2, 64](x)
    assert x[0] == 128


@pytest.mark.parametrize(
    "launch, field",
    [
        (lambda k: k[2**70, 1](0, 0, 1), "grid"),
        (lambda k: k[1, (1, -(2**70))](0, 0, 1), "block"),
        (lambda k: k[1, 1, 2**70](0, 0, 1), "shared_bytes"),
        (lambda k: k[2, 1](0, 0, 1, cluster=2**70), "cluster"),
        (lambda k: k[1, 1].trace(0, 0, 1, thread=2**70), "thread"),
    ],
)
def test_extents_beyond_64_bits_are_refused_by_name(launch, field):
    with pytest.raises(bitmma.Error) as error:
        launch(bitmma.kernel((DATA / "kernels" / "cluster.ptx").read_text(), "cluster_histogram"))
    assert error.value.violations[0].field == field


def test_a_module_is_read_from_its_path(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }")
    assert {bitmma.kernel(module).name for module in (path, str(path), path.read_text())} == {"k"}
    assert list(bitmma.PtxModule(path).entries) == ["k"]
    for function in (bitmma.kernel, bitmma.PtxModule):
        with pytest.raises(bitmma.Error) as error:
            function(str(tmp_path / "missing.ptx"))
        assert error.value.violations[0].field == "ptx"
