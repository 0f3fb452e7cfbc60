# SPDX-License-Identifier: MIT
"""The same with tensors, where torch is installed."""

from typing import assert_type

import torch

import bitmma
from bitmma import layers, math, operators

x = torch.ones((64, 64))

assert_type(bitmma.mma("...", x, x), torch.Tensor)
assert_type(bitmma.gemm(x, x, "flat", bias=x), torch.Tensor)
assert_type(bitmma.gemm(x, x, return_plan=True), tuple[torch.Tensor, bitmma.Plan])
assert_type(bitmma.matmul(x, x, target="H100"), torch.Tensor)
assert_type(bitmma.tile(x), torch.Tensor)
assert_type(bitmma.quantize(x, "te_nvfp4").codes, torch.Tensor)
assert_type(
    bitmma.quantized_gemm(bitmma.quantize(x, "te_nvfp4"), bitmma.quantize(x, "te_nvfp4"), target="sm_100a"),
    torch.Tensor,
)
assert_type(math.ex2(x), torch.Tensor)
assert_type(math.mul(x, x), torch.Tensor)
assert_type(math.c("expf", x), torch.Tensor)
assert_type(operators.softmax(x, -1), torch.Tensor)
assert_type(operators.elementwise("add", x, x), torch.Tensor)
assert_type(operators.attention(x, x, x, return_lse=True), tuple[torch.Tensor, torch.Tensor])
assert_type(layers.llama(x, {}, heads=2, kv_heads=2), dict[str, torch.Tensor])
