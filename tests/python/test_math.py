"""bitmma.math: floating-point instructions of PTX on arrays."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import bitmma
from bitmma import math


def words(*values):
    return np.array(values, np.uint32).view(np.float32)


def test_words_of_a_gpu():
    x = words(0x3E99999A, 0xBE99999A, 0x40490FDB)
    assert math.ex2(x, ftz=True).view(np.uint32).tolist() == [0x3F9D9624, 0x3F4FEFC6, 0x410D331D]
    assert math.rcp(words(0x40400000), ftz=True).view(np.uint32) == 0x3EAAAAAB
    assert math.rcp(words(0x40400000), rounding="rz").view(np.uint32) == 0x3EAAAAAA
    assert math.rsqrt(words(0x40000000)).view(np.uint32) == 0x3F3504F2
    assert math.lg2(words(0x3F000000)).view(np.uint32) == 0xBF7FFFFE
    assert math.sqrt(words(0x40000000)).view(np.uint32) == 0x3FB504F3
    assert math.tanh(words(0x3F000000)).view(np.uint32) == 0x3EEC9A50
    assert math.sin(np.float32(0)) == 0 and math.cos(np.float32(0)) == 1


def test_rounded_ones_are_numpys():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 5000), np.float32)
    assert np.array_equal(math.add(a, b), a + b) and np.array_equal(math.sub(a, b), a - b)
    assert np.array_equal(math.mul(a, b), a * b) and np.array_equal(math.div(a, b, rounding="rn"), a / b)
    assert np.array_equal(math.sqrt(abs(a), rounding="rn"), np.sqrt(abs(a)))
    half = a.astype(np.float16)
    assert np.array_equal(math.add(half, half), half + half)
    brain = a.astype(ml_dtypes.bfloat16)
    assert math.fma(brain, brain, brain).dtype == brain.dtype
    assert np.array_equal(math.fma(a, np.float32(2), 0.0), a * 2)


def test_shapes_threads_and_codes():
    x = np.linspace(-4, 4, 300_000, dtype=np.float32).reshape(3, 100_000)
    one = math.ex2(x)
    assert one.shape == x.shape and np.array_equal(one, math.ex2(x, threads=2))
    assert np.array_equal(math.ex2(x[:, ::3]), one[:, ::3])
    assert math.mul(x, np.float32([[1], [2], [3]])).shape == x.shape
    assert math.ex2(np.zeros((0, 2), np.float32)).shape == (0, 2)
    raw = math.ex2(bitmma.codes(x.view(np.uint32), "f32"))
    assert raw.format == "f32" and np.array_equal(raw.array, one.view(np.uint32))
    assert math.compute("tanh.approx.f16x2", np.float16([0.5])) == math.tanh(np.float16([0.5]))
    assert len(math.instructions()) == len(set(math.instructions())) > 80


def test_explain():
    steps = math.explain("ex2.approx.f32", 0.3)
    assert steps["result"] == "0x3f9d9624" and steps["unit"]["index"] == 19
    assert "unit" not in math.explain("add.rn.f32", 1, 2)


@pytest.mark.parametrize("call", [
    lambda: math.compute("ex2", np.float32([1])), lambda: math.compute("ex2.approx.f32"),
    lambda: math.compute("ex2.approx.f32", np.float64([1])), lambda: math.compute("add.rn.f64", np.float64([1]), np.float64([1])),
    lambda: math.ex2(np.float64([1])), lambda: math.ex2("1"), lambda: math.add(np.float32([1]), np.float16([1])),
    lambda: math.add(np.ones(3, np.float32), np.ones(2, np.float32)), lambda: math.rcp(np.float32([1]), rounding="up"),
    lambda: math.tanh(np.float32([1]), ftz=True), lambda: math.explain("ex2.approx.f32", np.ones(2, np.float32)),
    lambda: math.compute("ex2.approx.f32", np.float32([1]), np.float32([1])), lambda: math.ex2(np.float32([1]), ftz="yes")])
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(bitmma.Error):
        call()
