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
    result = math.ex2(x)
    assert result.shape == x.shape and np.array_equal(result, math.ex2(x, threads=2))
    assert np.array_equal(math.ex2(x[:, ::3]), result[:, ::3])
    assert math.mul(x, np.float32([[1], [2], [3]])).shape == x.shape
    assert math.ex2(np.zeros((0, 2), np.float32)).shape == (0, 2)
    raw = math.ex2(bitmma.codes(x.view(np.uint32), "f32"))
    assert raw.format == "f32" and np.array_equal(raw.array, result.view(np.uint32))
    assert math.compute("tanh.approx.f16x2", np.float16([0.5])) == math.tanh(np.float16([0.5]))
    assert len(math.instructions()) == len(set(math.instructions())) > 80


def test_explain():
    steps = math.explain("ex2.approx.f32", 0.3)
    assert steps["result"] == "0x3f9d9624" and steps["unit"]["index"] == 19
    assert "unit" not in math.explain("add.rn.f32", 1, 2)
    assert math.explain("add.rn.f32", 1.0, 1e-9)["above"] == "0x3f800001"
    assert [step["operation"] for step in math.explain("rsqrt.approx.f32", words(0x00400000))["unit"]["before"]] == [
        "mul"
    ]
    assert math.explain("ex2.approx.f16", 0.3)["unit"]["behind"][0]["operation"] == "cvt.rz"
    lanes = math.explain("cvt.rn.satfinite.e4m3x2.f32", 3.3, 1.0)["lanes"]
    assert [lane["exact"] for lane in lanes] == [False, True] and lanes[0]["below"] == "0x45"
    steps = math.explain("__expf", 10.0)["steps"]
    assert [step["operation"] for step in steps] == ["mul", "MUFU.EX2"] and steps[-1]["result"] == "0x46ac14f0"
    assert steps[-1]["operands"] == [{"word": steps[0]["result"], "step": 1}]
    assert math.explain("tl.sigmoid", 1.0)["function"] == "tl.sigmoid@triton_3_6"
    assert math.explain("expf", 1.0, target="sm_80")["evidence"] == "assumed"


def test_evidence():
    assert math.evidence("ex2.approx.f32") == {
        "target": "sm_90a",
        "evidence": "measured",
        "evidence_source": "all 2^32 words of an H100 and an H200",
    }
    assert math.evidence("ex2.approx.f32", "B200")["evidence"] == "assumed"
    assert math.evidence("fma.rn.f32", "sm_80")["evidence"] == "documented"
    assert math.evidence("powf")["evidence"] == "sampled"
    assert math.evidence("cvt.rn.satfinite.e2m1x2.f32")["target"] == "sm_100a"
    levels = {"measured", "sampled", "documented", "compiled", "assumed"}
    for row in math.conversions() + math.c_functions():
        assert row["evidence"] in levels and row["evidence_source"]
    for name in math.instructions():
        assert math.evidence(name)["evidence"] in levels


def test_reciprocals_of_f64():
    x = np.float64([3, 0.5, -2, np.inf])
    assert math.rcp(x, ftz=True).view(np.uint64).tolist() == [0x3FD5555500000000, 1 << 62, 0xBFE0000000000000, 0]
    assert math.rsqrt(np.float64(4.0), ftz=True) == 0.5
    assert math.compute("rcp.approx.ftz.f64", 4.0) == 0.25 and math.rcp(x, ftz=True).dtype == np.float64
    assert (
        math.compute("rsqrt.approx.ftz.f64", bitmma.codes(np.uint64([0x4010000000000000]), "f64")).array == 0x3FE << 52
    )


def test_numbers_of_python_are_rounded_once_and_without_warnings(recwarn):
    assert math.c("expf", 1e300) == np.inf and math.add(1e300, -1e300).view(np.uint32) == 0x7FFFFFFF
    # Halfway between two of bf16 but for a bit that float32 does not have.
    above = 1 + 2**-8 + 2**-40
    total = math.compute("add.rn.bf16", above, 0.0)
    assert total.astype(np.float32) == 1 + 2**-7
    assert bitmma.cvt("cvt.f64.f32", 1e300) == np.inf
    assert not recwarn.list


def test_functions_of_c_as_compilers_make_them():
    x = words(0x41200000)
    assert math.c("expf", x).view(np.uint32) == 0x46AC14EF
    assert math.c("expf@cuda_13_fast_math", x).view(np.uint32) == 0x46AC14F0
    assert math.c("tl.exp", x).view(np.uint32) == 0x46AC14F0
    a, b = np.float32([[1], [2]]), np.float32([3, 5, 7])
    assert np.array_equal(math.c("division", a, b), a / b)
    assert math.c("expf", 0.0) == 1 and math.c("expf", bitmma.codes(x.view(np.uint32), "f32")).array == 0x46AC14EF
    many = np.linspace(-90, 90, 200_000, dtype=np.float32)
    assert np.array_equal(math.c("expf", many, threads=2), math.c("expf", many))
    rows = math.c_functions()
    assert len({row["function"] for row in rows}) == len(rows) > 70
    assert {row["evidence"] for row in rows} <= {"measured", "sampled", "compiled"}
    assert all(row["source"] for row in rows)
    for row in rows:
        assert math.c(row["function"], *[np.ones(2, np.float32)] * row["operands"]).shape == (2,)


def test_conversions_are_words_in_ptxs_order():
    a, b = words(0x43E40000, 0x43E40000), np.float32([1, -1])
    packed = bitmma.cvt("cvt.rn.satfinite.e4m3x2.f32", a, b)
    assert packed.dtype == np.uint16 and packed.tolist() == [0x7E38, 0x7EB8]
    assert bitmma.cvt("cvt.satfinite.rn.e4m3x2.f32", a, 1.0).tolist() == [0x7E38, 0x7E38]
    halves = bitmma.cvt("cvt.rn.f16x2.e4m3x2", packed)
    assert halves.dtype == np.uint32 and halves.view(np.float16).tolist() == [1, 448, -1, 448]
    assert bitmma.cvt("cvt.rzi.u8.f32", np.float32([-1, 300])).tolist() == [0, 255]
    assert bitmma.cvt("cvt.rn.bf16x2.f32", 1.0, 2.0) == 0x3F804000
    # The random bits of a are the upper half of their word.
    rs = "cvt.rs.bf16x2.f32"
    assert bitmma.cvt(rs, words(0x3F800001), words(0x3F800001), np.uint32([0xFFFF0000])).tolist() == [0x3F813F80]
    scaled = "cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2"
    assert bitmma.cvt(scaled, np.uint16([0x3838]), 0x807F) == 0x40003F80
    assert bitmma.cvt("cvt.rn.satfinite.e2m1x2.f32", np.float32([6]), np.float32([0.5])).tolist() == [0x71]


def test_conversions_of_one_lane_are_numpys():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 40_000), np.float32) * 100
    assert np.array_equal(bitmma.cvt("cvt.rn.f16.f32", x), x.astype(np.float16))
    brain = bitmma.cvt("cvt.rn.bf16.f32", x, threads=2)
    assert brain.dtype == ml_dtypes.bfloat16 and np.array_equal(brain, x.astype(ml_dtypes.bfloat16))
    assert np.array_equal(bitmma.cvt("cvt.f32.bf16", brain), brain.astype(np.float32))
    assert np.array_equal(bitmma.cvt("cvt.rni.s32.f32", x), np.rint(x).astype(np.int32))
    assert np.array_equal(bitmma.cvt("cvt.rn.f32.f64", x.astype(np.float64)), x)
    whole = rng.integers(-(2**63), 2**63 - 1, 1000)
    assert np.array_equal(bitmma.cvt("cvt.rn.f64.s64", whole), whole.astype(np.float64))
    assert np.array_equal(bitmma.cvt("cvt.u8.s64", whole), whole.astype(np.uint8))
    assert np.array_equal(bitmma.cvt("cvt.s32.s8", np.int8([-3, 7])), [-3, 7])
    assert bitmma.cvt("cvt.rna.tf32.f32", words(0x3F801000)).view(np.uint32) == 0x3F802000


def test_every_conversion_takes_its_operands():
    rows = math.conversions()
    assert len({row["instruction"] for row in rows}) == len(rows) > 1000
    for row in rows:
        source = row["instruction"].rpartition(".")[2]
        integer = source[0] in "su" and source[1:].isdigit()
        ones = [1 if integer or name not in "abef" or source.endswith("x2") else 1.0 for name, _ in row["operands"]]
        result = bitmma.cvt(row["instruction"], *ones)
        assert 8 * result.dtype.itemsize == row["result_bits"] and row["targets"] and row["source"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: math.c("expg", np.float32([1])),
        lambda: math.c("expf@cuda_12", np.float32([1])),
        lambda: math.c("expf"),
        lambda: math.c(None, np.float32([1])),
        lambda: math.c("expf", np.float64([1])),
        lambda: math.c("expf", np.float32([1]), np.float32([1])),
        lambda: math.c("powf", np.float32([1])),
        lambda: math.c("powf", np.ones(3, np.float32), np.ones(2, np.float32)),
        lambda: math.c("expf", "1"),
        lambda: math.c("expf", np.float32([1]), compiler="nvcc"),
        lambda: math.c("expf", np.int32([1])),
        lambda: math.c("expf", np.float64(0.1)),
        lambda: math.c("expf", bitmma.codes(np.uint32([1]), "tf32")),
        lambda: bitmma.cvt("cvt.rn.f16.f32", np.float64(0.1)),
        lambda: bitmma.cvt("cvt.rn.f16.f32", bitmma.codes(np.uint32([1]), "tf32")),
        lambda: bitmma.cvt("cvt.f16.f32", np.float32([1])),
        lambda: bitmma.cvt(7, np.float32([1])),
        lambda: bitmma.cvt("cvt.rn.f16.f32"),
        lambda: bitmma.cvt("cvt.rn.f16.f32", np.float64([1])),
        lambda: bitmma.cvt("cvt.rn.f16.f32", np.float32([1]), np.float32([1])),
        lambda: bitmma.cvt("cvt.rn.f16.f32", "1"),
        lambda: bitmma.cvt("cvt.rn.f16.f32", np.int32([1])),
        lambda: bitmma.cvt("cvt.rn.f32.s32", np.uint32([1])),
        lambda: bitmma.cvt("cvt.rn.f32.s32", 2**31),
        lambda: bitmma.cvt("cvt.rn.f32.s32", 1.5),
        lambda: bitmma.cvt("cvt.rn.f32.s32", True),
        lambda: bitmma.cvt("cvt.rn.f16x2.e4m3x2", np.uint8([1])),
        lambda: bitmma.cvt("cvt.rn.f16x2.e4m3x2", 65536),
        lambda: bitmma.cvt("cvt.rn.f16x2.f32", np.ones(3, np.float32), np.ones(2, np.float32)),
        lambda: bitmma.cvt("cvt.rs.bf16x2.f32", 1.0, 1.0, np.int32([1])),
        lambda: bitmma.cvt("cvt.rs.bf16x2.f32", 1.0, 1.0),
        lambda: bitmma.cvt("cvt.rn.f32.s32", np.array([1], ">i4")),
        lambda: bitmma.cvt("cvt.rn.f16.f32", np.float32([1]), threads=-1),
    ],
)
def test_conversions_and_functions_of_c_refuse_what_does_not_fit(call):
    with pytest.raises(bitmma.Error):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: math.compute("ex2", np.float32([1])),
        lambda: math.compute("ex2.approx.f32"),
        lambda: math.ex2(np.float64(0.1)),
        lambda: math.ex2(bitmma.codes(np.uint32([1]), "tf32")),
        lambda: math.rcp(np.float64([1])),
        lambda: math.rsqrt(np.float64([1]), ftz=False),
        lambda: math.compute("ex2.approx.f32", np.bool_(True)),
        lambda: math.evidence("expg"),
        lambda: math.evidence("tanh.approx.bf16", "sm_80"),
        lambda: math.evidence("expf", "sm_1"),
        lambda: math.explain("expf"),
        lambda: math.explain("cvt.rn.f16x2.f32", 1.0),
        lambda: math.explain("expf", 1.0, 2.0),
        lambda: math.compute("ex2.approx.f32", np.float64([1])),
        lambda: math.compute("add.rn.f64", np.float64([1]), np.float64([1])),
        lambda: math.ex2(np.float64([1])),
        lambda: math.ex2("1"),
        lambda: math.add(np.float32([1]), np.float16([1])),
        lambda: math.add(np.ones(3, np.float32), np.ones(2, np.float32)),
        lambda: math.rcp(np.float32([1]), rounding="up"),
        lambda: math.tanh(np.float32([1]), ftz=True),
        lambda: math.explain("ex2.approx.f32", np.ones(2, np.float32)),
        lambda: math.compute("ex2.approx.f32", np.float32([1]), np.float32([1])),
        lambda: math.ex2(np.float32([1]), ftz="yes"),
    ],
)
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(bitmma.Error):
        call()


def test_near_names_are_told():
    with pytest.raises(bitmma.Error, match="did you mean expf"):
        math.c("expg", np.float32([1]))
    with pytest.raises(bitmma.Error, match="did you mean expf"):
        math.explain("expg", 1.0)


def test_torch_goes_in_and_comes_out():
    torch = pytest.importorskip("torch", reason="NOT checked: torch is not installed")
    x = torch.tensor([0.3, -0.3])
    for result, dtype in (
        (math.ex2(x), torch.float32),
        (math.c("expf", x), torch.float32),
        (math.rcp(x.double(), ftz=True), torch.float64),
        (math.tanh(x.bfloat16()), torch.bfloat16),
        (bitmma.cvt("cvt.rn.satfinite.e4m3x2.f32", x, x), torch.uint16),
        (bitmma.cvt("cvt.rzi.s64.f32", x), torch.int64),
        (bitmma.cvt("cvt.rn.f16x2.f32", x, x), torch.uint32),
    ):
        assert isinstance(result, torch.Tensor) and result.dtype == dtype and result.shape == (2,)
    assert torch.equal(math.ex2(x).view(torch.int32), torch.from_numpy(math.ex2(x.numpy()).view(np.int32)))
    conjugate = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert math.add(conjugate.imag, 0.0).tolist() == [-2, 4]  # a view whose signs change when it is read
    for wrong, text in (
        (torch.ones(2, device="meta"), "meta"),
        (conjugate, "complex64"),
        (torch.ones(2).to_sparse(), "sparse"),
        (torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8), "qint8"),
    ):
        with pytest.raises(bitmma.Error, match=text):
            math.ex2(wrong)
