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
