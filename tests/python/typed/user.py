# SPDX-License-Identifier: MIT
"""What a user of bitmma writes. test_types.py gives it to mypy --strict; it does not run."""

from typing import Any, assert_type

import numpy as np

import bitmma
from bitmma import layers, math, operators, quantize, testing

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
a, b = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16)
x = np.ones((4, 64), np.float32)
raw = bitmma.codes(np.ones((4, 64), np.uint8), "e4m3")

plain: np.ndarray = x

# Products.
assert_type(bitmma.mma(MMA, a, b), np.ndarray)
assert_type(bitmma.mma(MMA, a, b, target="H100", threads=2), np.ndarray)
assert_type(bitmma.mma(MMA, a, b, return_target=True), tuple[np.ndarray, str])
assert_type(bitmma.gemm(a, b), np.ndarray)
assert_type(bitmma.gemm(a, b, "flat", out_dtype="bf16", alpha=2), np.ndarray)
assert_type(bitmma.gemm(raw, raw.T, bias=None), np.ndarray)
assert_type(bitmma.gemm(plain, plain), np.ndarray)
assert_type(bitmma.gemm(a, b, return_plan=True), tuple[np.ndarray, bitmma.Plan])
assert_type(bitmma.matmul(a, b, target="H100"), np.ndarray)
assert_type(bitmma.matmul(a, b, target="H100", return_choice=True), tuple[np.ndarray, bitmma.LibraryChoice])
assert_type(bitmma.find_plans(a, b, bitmma.gemm(a, b)), bitmma.PlanSearch)
assert_type(bitmma.find_plans(a, b, x)[0].target, str)
assert_type(bitmma.accuracy(a, b, x).max_ulp, float)
assert_type(bitmma.explain_product(a, b).error, float)
assert_type(bitmma.library_choice(16, 64, 64, target="H100").kernel, str)
assert_type(bitmma.tile(np.ones((128, 4), np.uint8)), np.ndarray)
quantized = quantize(x, "te_nvfp4")
assert_type(quantized, bitmma.Quantized[np.ndarray])
assert_type(quantized.scales, np.ndarray)
assert_type(quantized.packed, np.ndarray)
assert_type(quantized.block, tuple[int, int])
assert_type(bitmma.quantized_gemm(quantized, quantized, out_dtype="bf16"), np.ndarray)
assert_type(bitmma.quantized_gemm(quantized, quantized, return_plan=True), tuple[np.ndarray, bitmma.Plan])

# Functions of arrays.
assert_type(math.ex2(x, ftz=True), np.ndarray)
assert_type(math.fma(x, x, 1.0, rounding="rz"), np.ndarray)
assert_type(math.add(x, x), np.ndarray)
assert_type(math.c("expf", x), np.ndarray)
assert_type(math.compute("ex2.approx.f16", bitmma.codes(np.ones(3, np.uint16), "f16")), bitmma.Codes)
assert_type(bitmma.cvt("cvt.rn.f16.f32", x), np.ndarray)
assert_type(operators.softmax(x, -1), np.ndarray)
assert_type(operators.softmax(plain), np.ndarray)
assert_type(operators.sum(x, 0, keepdim=True), np.ndarray)
assert_type(operators.elementwise("silu", x), np.ndarray)
assert_type(operators.attention(x, x, x, is_causal=True), np.ndarray)
assert_type(operators.attention(x, x, x, return_lse=True), tuple[np.ndarray, np.ndarray])
assert_type(operators.layer_norm(x, (64,)), np.ndarray)
assert_type(operators.layer_norm(x, return_moments=True), tuple[np.ndarray, np.ndarray, np.ndarray])
assert_type(operators.explain("sum", x, output=(0,)).value, str)
assert_type(layers.llama_norm(x, x), np.ndarray)
assert_type(layers.llama(x, {}, heads=2, kv_heads=2), dict[str, np.ndarray])

# Cases, files, kernels, captures.
state: dict[str, Any] = {"tmem": np.zeros((128, 64), np.uint32), "taddr": 0}
assert_type(bitmma.execute("tcgen05.shift.cta_group::1.down", None, state), dict[str, np.ndarray])
case = bitmma.Case(MMA, a=a, b=b)
assert_type(case.computed_d(), np.ndarray)
assert_type(bitmma.explain(case, 0, 0).text, str)
assert_type(bitmma.diagnose(case, x).findings[0].explains_all, bool)
assert_type(bitmma.golden(MMA)[0], bitmma.Case)
assert_type(bitmma.golden(MMA)[:2], list[bitmma.Case])
assert_type(bitmma.verify("vectors").mismatches, int)
assert_type(bitmma.read_product("product.safetensors").gemm(), np.ndarray)
assert_type(bitmma.kernel("...")[1, 32](x), int)
assert_type(bitmma.Memory().allocate(x), int)
assert_type(bitmma.replay("captured").same, bool)
assert_type(testing.bits_equal(x, x), bool)

# Mistakes that a type checker finds.
bitmma.gemm(a, b, "flat", outdtype="bf16")  # type: ignore[call-overload]
bitmma.mma(MMA, a, b, threads="2")  # type: ignore[call-overload]
operators.softmax(x, axis=-1)  # type: ignore[call-overload]
bitmma.library_choice(16, 64, 64)  # type: ignore[call-arg]
