"""Arguments of a wrong kind: every public function refuses them with bitmma.Error and by name, nothing else comes
out."""

from __future__ import annotations

import inspect
import sys
import types
import warnings

import ml_dtypes
import numpy as np
import pytest

import bitmma
from bitmma import _arrays
from bitmma._types import TargetName
from conftest import ROOT

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
TMEM_LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32"
A, B = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16)
X = np.ones(3, np.float32)
CAPTURE = ROOT / "data" / "captures" / "tiny_experts"
ITSELF: dict = {}
ITSELF["plan"] = ITSELF


class Odd:
    """What no argument is, and what breaks code that looks at it."""

    def __repr__(self):
        return "odd"


WRONG = [
    Odd(),
    2**70,
    -(2**70),
    1.5,
    float("nan"),
    "\udc80",
    "a\0b",
    b"\xff",
    ITSELF,
    [ITSELF],
    object(),
    {1, 2},
    (),
    "",
    -1,
    np.ones((2, 2), object),
    np.array("text"),
    10**5000,
    len,
    complex(1, 2),
    True,
]


COUNTER = """.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 count = 7;
.visible .entry k() { ret; }"""
MEMORY = bitmma.Memory()


def good_arguments() -> dict:
    """A call of every public function that does something, by its name."""
    file = bitmma.golden(MMA, cases=2)
    case = file[0]
    a, b = np.ones((4, 64), np.float16), np.ones((64, 8), np.float16)
    d = bitmma.gemm(a, b)
    module = bitmma.PtxModule(COUNTER)
    at = MEMORY.allocate(bytes(64))
    return {
        "accuracy": dict(a=a, b=b, d=d),
        "all_instructions": {},
        "catalogue": {},
        "codes": dict(array=B.view(np.uint16), format="f16"),
        "compress": dict(a=np.array([[0, 1, 2, 0]], np.float16)),
        "decompress": dict(values=np.ones((1, 2), np.float16), metadata=np.array([[0b0100]], np.uint8)),
        "prune_2_4": dict(a=np.ones((1, 4), np.float16)),
        "compare": dict(expected=file, actual=file),
        "decode": dict(what=0x4000004000010000),
        "decode_ptx": dict(ptx=".target sm_90a\n"),
        "diagnose": dict(cases=case, actual=case.computed_d()),
        "dtype_of": dict(format="f16"),
        "encode": dict(sbo=1024),
        "evidence": dict(of=WGMMA),
        "execute": dict(instruction=MMA, target=None, state=case.state),
        "explain": dict(case=case, row=0, col=0),
        "fault_catalogue": dict(cases=case),
        "faulty_d": dict(cases=case),
        "faulty_product": dict(a=a, b=b, fault="a.row.0"),
        "diagnose_product": dict(a=a, b=b, d=d),
        "product_faults": dict(a=a, b=b),
        "fields": dict(instruction=MMA),
        "find_plans": dict(a=a, b=b, d=d),
        "format_of": dict(array=A),
        "gemm": dict(a=a, b=b),
        "generated": dict(format="f16", shape=(2, 2), seed=1, stream="a"),
        "golden": dict(instruction=MMA),
        "instruction": dict(text=MMA),
        "lint": dict(case=case),
        "library_choice": dict(m=16, n=64, k=64, target="H100"),
        "library_choices": dict(n=64, k=64, target="H100"),
        "matmul": dict(a=np.ones((16, 64), np.float16), b=np.ones((64, 64), np.float16), target="H100"),
        "mma": dict(instruction=MMA, a=A, b=B),
        "mma_sync": {},
        "bind": dict(instruction=MMA),
        "tcgen05": {},
        "tmem_move": {},
        "wgmma": {},
        "tile": dict(scales=np.ones((2, 2), np.uint8)),
        "tiled": dict(scales=np.ones(512, np.uint8), format="ue8m0"),
        "verify": dict(file=file),
        "read": dict(path="none.safetensors"),
        "read_product": dict(path="none.safetensors"),
        "write": dict(path="/no/such/folder/x.safetensors", cases=case),
        "layout.smem": dict(descriptor=0x4000004000010000, rows=8, cols=16),
        "layout.smem_svg": dict(descriptor=0x4000004000010000, rows=8, cols=16),
        "layout.fragment": dict(instruction=MMA, operand="a"),
        "layout.fragment_svg": dict(instruction=MMA, operand="a"),
        "layout.tmem": dict(m=128, n=8),
        "layout.tmem_a": dict(m=128, k=16),
        "layout.ldst": dict(shape="32x32b"),
        "layout.ldmatrix": {},
        "layout.matrix_move": dict(instruction="ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
        "layout.metadata": dict(rows=64, cols=128),
        "layout.tmem_metadata": dict(m=128),
        "layout.chain": dict(first=MMA, second=MMA),
        "layout.scales": dict(rows=2, blocks=2),
        "layout.cute": dict(text="(8,16):(16,1)"),
        "layout.algebra": dict(operation="coalesce", first="(2,3):(1,4)"),
        "layout.bank_conflicts": dict(addresses=[0, 4]),
        "layout.offsets": dict(text="(2,3):(1,4)"),
        "layout.shape_and_stride": dict(text="(2,3):(1,4)"),
        "layout.tma": dict(rows=8, cols=64),
        "explain_product": dict(a=a, b=b),
        "replay": dict(capture=str(CAPTURE), rows=1),
        "compare_captures": dict(first=str(CAPTURE), second=str(CAPTURE)),
        "quantize": dict(x=np.ones((2, 32), np.float32), recipe="ocp_mxfp4"),
        "quantize_recipes": {},
        "tensor_map": dict(array=np.zeros((8, 64), np.float16), box=(8, 64)),
        "kernel": dict(ptx=".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }"),
        "quantized_gemm": dict(
            a=bitmma.quantize(np.ones((2, 64), np.float32), "ocp_mxfp8_e4m3"),
            b=bitmma.quantize(np.ones((2, 64), np.float32), "ocp_mxfp8_e4m3"),
            target="sm_100a",
        ),
        "layout.operand": dict(case=bitmma.golden(WGMMA)[0], name="a"),
        **{f"math.{name}": dict(x=X) for name in ("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh")},
        **{f"math.{name}": dict(a=X, b=X) for name in ("add", "sub", "mul", "div")},
        "math.fma": dict(a=X, b=X, c=X),
        "math.compute": dict(instruction="ex2.approx.f32"),
        "math.explain": dict(name="ex2.approx.f32"),
        "math.evidence": dict(name="ex2.approx.f32"),
        "math.instructions": {},
        "math.c": dict(name="expf"),
        "math.c_functions": {},
        "math.conversions": {},
        "cvt": dict(instruction="cvt.rn.f16.f32"),
        "testing.assert_bits_equal": dict(actual=A, expected=A),
        "testing.bits_equal": dict(actual=A, expected=A),
        "testing.difference": dict(actual=A, expected=A),
        "datasets.load": dict(name="nvjet_algo2_e4m3"),
        "datasets.path": dict(name="nvjet_algo2_e4m3"),
        "datasets.names": {},
        **{f"datasets.{name}": dict(name="nvjet_algo2_e4m3") for name in ("about", "metadata", "tensors")},
        **{f"plot.{name}": dict(actual=A, expected=A) for name in ("errors", "mismatches")},
        "encode_tensor_map": dict(address=0x1000, shape=(8, 64), dtype=np.float16, box=(8, 64)),
        "PtxModule": dict(ptx=COUNTER),
        "Memory": {},
        "Memory.allocate": dict(bytes=64),
        "Memory.array": dict(address=at, shape=(4, 4), dtype=np.float32),
        "Memory.fill": dict(address=at, bytes=64, value=1),
        "Memory.find": dict(address=at),
        "Memory.free": dict(address=at),
        "Memory.map": dict(array=np.zeros(4)),
        "Memory.read": dict(address=at, bytes=64),
        "Memory.read_variable": dict(module=module, name="count"),
        "Memory.variable": dict(module=module, name="count"),
        "Memory.write": dict(address=at, data=bytes(64)),
        "Memory.write_variable": dict(module=module, name="count", data=bytes(4)),
        "Memory.written_bytes": dict(address=at),
        "Case": dict(instruction=MMA, a=A, b=B),
        "Instruction": dict(text=MMA),
        "Plan": dict(of={"instruction": MMA}),
    }


def public_functions() -> dict:
    functions = {name: getattr(bitmma, name) for name in bitmma.__all__ if callable(getattr(bitmma, name))}
    for module in (bitmma.datasets, bitmma.layout, bitmma.math, bitmma.plot, bitmma.testing):
        short = module.__name__.removeprefix("bitmma.")
        functions |= {f"{short}.{name}": getattr(module, name) for name in module.__all__}
    made_by_user = {"Case", "Instruction", "Memory", "Plan", "PtxModule"}
    made_by_bitmma = {name for name, function in functions.items() if inspect.isclass(function)} - made_by_user
    for value in (MEMORY, bitmma.PtxModule(COUNTER)):
        kind = type(value)
        functions |= {
            f"{kind.__name__}.{name}": getattr(value, name)
            for name, member in vars(kind).items()
            if inspect.isfunction(member) and not name.startswith("_")
        }
    return {name: function for name, function in functions.items() if name not in made_by_bitmma}


# Each of these means something there.
TAKEN = {("codes", "format"), ("dtype_of", "format"), ("tiled", "format"), ("generated", "format")}


def test_every_public_function_is_walked():
    assert set(good_arguments()) == set(public_functions())


@pytest.mark.parametrize("name", sorted(public_functions()))
def test_wrong_kinds_raise_error(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, good = public_functions()[name], good_arguments()[name]
    parameters = (
        [
            named.name
            for named in inspect.signature(function).parameters.values()
            if named.kind not in (named.VAR_KEYWORD, named.VAR_POSITIONAL) and named.name != "self"
        ]
        if name not in ("Instruction", "Plan")
        else []
    )
    refused = 0
    for parameter in parameters or [None]:
        for wrong in WRONG:
            call = dict(good) | ({parameter: wrong} if parameter else {})
            positional = () if parameter else (wrong,)
            if parameter == "progress" and callable(wrong):
                continue  # its errors are its own
            if parameter == "threads" and isinstance(wrong, int):
                continue
            if name == "Plan" or name == "Instruction":
                call = {}
            try:
                function(*positional, **call)
            except bitmma.Error as error:
                refused += 1
                assert error.violations and str(error)
                str(error).encode()
            except (AssertionError, MemoryError):
                assert name == "testing.assert_bits_equal"
    assert refused > 0 or not parameters


@pytest.mark.parametrize("name", sorted(set(public_functions()) - {"Instruction", "Plan"}))
def test_unknown_and_missing_arguments_raise_error(name):
    function, good = public_functions()[name], good_arguments()[name]
    with pytest.raises(bitmma.Error, match="nonsense"):
        function(**good, nonsense=1)
    if good and name != "encode":
        with pytest.raises(bitmma.Error):
            function()


def test_names_that_are_nearly_right_are_suggested():
    for call, meant in (
        (lambda: bitmma.encode(sb=64), "sbo"),
        (lambda: bitmma.gemm(A, B, out_type="f16"), "out_dtype"),
        (lambda: bitmma.mma(MMA, A, B, thread=2), "threads"),
    ):
        with pytest.raises(bitmma.Error, match=f"did you mean .*{meant}"):
            call()


@pytest.mark.parametrize(
    "call, field, words",
    [
        (lambda: bitmma.lint(bitmma.golden(MMA)), "case", "file[0]"),
        (lambda: bitmma.compare(A, A), "expected", "assert_bits_equal"),
        (lambda: bitmma.write(bitmma.golden(MMA), "x.safetensors"), "path", "path comes first"),
        (lambda: bitmma.explain(bitmma.golden(MMA)[0], 1.0, 0), "row", "whole number"),
        (lambda: bitmma.layout.smem("0x40000040000100001", 64, 16), "descriptor", "whole number"),
        (lambda: bitmma.layout.smem(-1, 64, 16), "descriptor", "0 or more"),
        (lambda: bitmma.layout.fragment(None, "a"), "instruction", "PTX"),
        (lambda: bitmma.tcgen05("tcgen05.mma.cta_group::1.kind::f16"), "kind", "bitmma.instruction"),
        (lambda: bitmma.golden(MMA, seed=2**64), "seed", "at most"),
        (lambda: bitmma.gemm(A, B, alpha="x"), "alpha", "a number"),
        (lambda: bitmma.mma(MMA, A, B, threads=2**40), "threads", "at most"),
        (lambda: bitmma.mma(MMA, A, B, target=81), "target", "sm_80"),
        (lambda: bitmma.gemm(None, B), "a", "a NumPy array"),
        (lambda: bitmma.find_plans(A, None, B), "b", "a NumPy array"),
        (lambda: bitmma.find_plans(A, B, None), "d", "a NumPy array"),
        (lambda: bitmma.accuracy(A, B, None), "d", "a NumPy array"),
        (lambda: bitmma.quantize(None, "te-mxfp8"), "x", "a NumPy array"),
        (lambda: bitmma.gemm(A, B, ITSELF), "plan", "JSON can represent"),
        (lambda: bitmma.decode(MMA, kind="f16"), "kind", "word"),
        (lambda: bitmma.encode(bitmma.tcgen05("f16"), sbo=64), "sbo", "instruction"),
        (lambda: bitmma.encode(bitmma.tcgen05("f16"), lbo=16), "lbo", "instruction"),
        (lambda: bitmma.encode(), "encode", "no field"),
        (lambda: bitmma.encode(kind="f16"), "kind", "no such argument of bitmma.encode"),
        (lambda: bitmma.golden(TMEM_LD, distribution="normal"), "distribution", "no effect"),
        (lambda: bitmma.golden(TMEM_LD, layout_a="k-major:64"), "layout_a", "no effect"),
        (lambda: bitmma.golden(MMA, layout_b="k-major:64"), "layout_b", "no effect"),
        (lambda: bitmma.golden("tcgen05.cp.cta_group::1.128x256b", layout_b="k-major:64"), "layout_b", "no effect"),
        (lambda: bitmma.encode(sbo=64, stride_byte_offset=128), "stride_byte_offset", "the same field"),
    ],
)
def test_mistakes_are_named(call, field, words):
    with pytest.raises(bitmma.Error) as error:
        call()
    assert error.value.violations[0].field == field and words in str(error.value)


@pytest.mark.parametrize(
    "call, field",
    [
        (lambda: bitmma.Instruction("x", "y"), "Instruction"),
        (lambda: bitmma.Instruction(MMA, text=MMA), "Instruction"),
        (lambda: bitmma.Plan({}, {}), "Plan"),
        (lambda: bitmma.Plan(plan={}), "Plan"),
        (lambda: bitmma.VectorFile(1, 2), "VectorFile.__init__"),
        (lambda: bitmma.instruction(MMA).with_immediate("scale_d"), "Instruction.with_immediate"),
        (lambda: bitmma.instruction(MMA).with_fields(1), "Instruction.with_fields"),
        (lambda: bitmma.gemm(A, B, whole=5), "whole"),
        (lambda: bitmma.gemm(A, B, rows=5), "rows"),
        (lambda: bitmma.mma(MMA, A), "b"),
        (lambda: bitmma.gemm(A), "b"),
    ],
)
def test_wrong_positions_and_missing_operands_are_one_error(call, field):
    with pytest.raises(bitmma.Error) as error:
        call()
    assert [violation.field for violation in error.value.violations] == [field]


@pytest.mark.parametrize(
    "call, hint",
    [
        (lambda: bitmma.mma(MMA, A, B, scale_d=0), "c=None"),
        (lambda: bitmma.gemm(A, B, scale_d=0), "beta=0"),
        (lambda: bitmma.mma(MMA, A, B, whole=(1, 2)), "bitmma.gemm"),
        (lambda: bitmma.mma(MMA, A, B, rows=[1]), "bitmma.gemm"),
        (lambda: bitmma.gemm(A, B, instruction=MMA), 'plan={"instruction"'),
    ],
)
def test_words_of_other_functions_are_hinted_at(call, hint):
    with pytest.raises(bitmma.Error) as error:
        call()
    assert error.value.violations[0].code == "unknown_name" and hint in error.value.violations[0].fix


def test_fp4_without_scales_is_warned_about():
    a, b = np.ones((128, 64), ml_dtypes.float4_e2m1fn), np.ones((64, 8), ml_dtypes.float4_e2m1fn)
    with pytest.warns(UserWarning, match="block scales for fp4"):
        assert bitmma.gemm(a, b, target="sm_100a")[0, 0] == 64
    scales = np.full((128, 4), 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bitmma.gemm(a, b, sfa=scales[:, :2], sfb=scales[:8, :2].T, target="sm_100a")


def test_repr_of_a_plan_reads():
    a, b = np.ones((8, 128), ml_dtypes.bfloat16), np.ones((128, 16), ml_dtypes.bfloat16)
    plan = bitmma.gemm(a, b, "nvjet-splitK", split_k=2, out_dtype="bf16", return_plan=True)[1]
    assert repr(plan) == "Plan('split-K 2 (nvjet, unit 64)', wgmma f32.bf16.bf16, sm_90a, D bf16)"
    single = bitmma.gemm(np.ones((2, 4), np.float32), np.ones((4, 2), np.float32), "sgemm", return_plan=True)[1]
    assert repr(single) == "Plan('CUDA cores', fma.rn.f32, sm_90a)"


def test_targets_by_any_name_are_targets_by_the_name_of_ptx():
    expected = bitmma.mma(MMA, A, B, target="sm_90a")
    for target in (
        "H100",
        "h100",
        "sm90a",
        "SM_90A",
        "9.0",
        9.0,
        90,
        (9, 0),
        [9, 0],
        "hopper",
        "NVIDIA H100 80GB HBM3",
    ):
        d, on = bitmma.mma(MMA, A, B, target=target, return_target=True)
        assert on == "sm_90a" and bitmma.testing.bits_equal(d, expected)
        assert bitmma.Case(MMA, target, a=A, b=B).target == "sm_90a"
        assert bitmma.golden(MMA, target=target).target == "sm_90a"
        assert bitmma.evidence(MMA, target).target == "sm_90a"
        assert bitmma.instruction(MMA).violations(target) == []
    assert bitmma.gemm(A, B, target="A100").dtype == np.float32
    with pytest.raises(bitmma.Error, match="H100, which is sm_90a"):
        bitmma.gemm(A, B, target="H10O")
    with pytest.raises(bitmma.Error, match="sm_120a"):
        bitmma.gemm(A, B, target="blackwell")


def test_mma_says_the_target_that_it_took():
    assert bitmma.mma(MMA, A, B, return_target=True)[1] == bitmma.instruction(MMA).default_target
    scaled = bitmma.tcgen05("mxf4nvf4", m=128, n=8)
    ones = np.full((128, 4), 127, np.uint8)
    d, on = bitmma.mma(
        scaled,
        np.zeros((128, 64), np.uint8),
        np.zeros((64, 8), np.uint8),
        scale_a=ones,
        scale_b=ones[:8].T,
        return_target=True,
    )
    assert on in scaled.targets and d.shape == (128, 8)


def test_names_of_targets_for_editors_are_those_of_the_library():
    assert list(TargetName.__args__) == bitmma._core.targets()


def test_formats_by_the_names_of_libraries():
    for name, format in (
        ("bfloat16", "bf16"),
        ("float16", "f16"),
        ("torch.bfloat16", "bf16"),
        ("jnp.float8_e4m3fn", "e4m3"),
        (ml_dtypes.bfloat16, "bf16"),
        (np.dtype(np.float16), "f16"),
        (np.float32, "f32"),
        ("BF16", "bf16"),
        ("float8_e5m2", "e5m2"),
        ("torch.float4_e2m1fn_x2", "e2m1"),
        ("fp16", "f16"),
        ("int8", "s8"),
        (ml_dtypes.float8_e8m0fnu, "ue8m0"),
    ):
        assert _arrays.format_named(name) == format
        assert bitmma.dtype_of(name) == bitmma.dtype_of(format)
    for wrong in (None, "float17", np.complex64, 3, "", "torch.", object):
        with pytest.raises(bitmma.Error, match="format"):
            bitmma.dtype_of(wrong)


def test_dtypes_of_torch():
    torch = pytest.importorskip("torch", reason="NOT checked: torch is not installed")
    x = torch.ones((4, 64), dtype=torch.bfloat16)
    d = bitmma.gemm(x, x.T, "flat", out_dtype=torch.bfloat16)
    assert d.dtype == torch.bfloat16 and bitmma.testing.bits_equal(d, torch.full((4, 4), 64, dtype=torch.bfloat16))
    assert bitmma.wgmma(n=8, a=torch.float8_e4m3fn).a == "e4m3"
    with pytest.raises(bitmma.Error, match="complex64"):
        bitmma.gemm(x, x.T, "flat", out_dtype=torch.complex64)
    raw = [np.random.default_rng(seed).integers(0, 256, (128, 32), dtype=np.uint8) for seed in (0, 1)]
    instruction = bitmma.tcgen05("mxf4nvf4", m=128, n=128)
    scales = [
        np.random.default_rng(seed).integers(100, 130, (128, instruction.scale_count), dtype=np.uint8)
        for seed in (2, 3)
    ]
    a, b = (bitmma.codes(array, "e2m1", packed=True) for array in raw)
    expected = bitmma.mma(instruction, a, b.T, scale_a=scales[0], scale_b=scales[1].T)
    pairs = [torch.from_numpy(array).view(torch.float4_e2m1fn_x2) for array in raw]
    tiles = [bitmma.tiled(bitmma.tile(array), instruction.scale_type) for array in scales]
    assert bitmma.testing.bits_equal(
        bitmma.mma(instruction, pairs[0], pairs[1].t(), scale_a=tiles[0], scale_b=tiles[1]), expected
    )


def test_dtypes_of_jax():
    jnp = pytest.importorskip("jax.numpy", reason="NOT checked: jax is not installed")
    x = jnp.ones((4, 64), jnp.bfloat16)
    assert bitmma.gemm(x, x.T, "flat", out_dtype=jnp.bfloat16).dtype == ml_dtypes.bfloat16
    assert bitmma.wgmma(n=8, a=jnp.float8_e4m3fn).a == "e4m3"


def test_packed_fp4_is_two_codes_a_byte_the_low_one_first():
    array = np.array([[0x21, 0x43], [0x65, 0x87]], np.uint8)
    assert bitmma.codes(array, "e2m1", packed=True).array.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert bitmma.codes(array, "float4_e2m1fn", packed=True).format == "e2m1"
    for wrong, format in (
        (array.T, "e2m1"),
        (array, "e4m3"),
        (array.astype(np.uint16), "e2m1"),
        (np.zeros((2, 2), ml_dtypes.float4_e2m1fn), "e2m1"),
    ):
        with pytest.raises(bitmma.Error):
            bitmma.codes(wrong, format, packed=True)
    k = 256
    a, b = (np.random.default_rng(seed).integers(0, 256, (128, k // 2), dtype=np.uint8) for seed in (0, 1))
    scales = [bitmma.codes(np.full((128, k // 16), 0x38, np.uint8), "ue4m3") for _ in range(2)]
    with pytest.raises(bitmma.Error, match="packed=True"):
        bitmma.gemm(a, b.T, sfa=scales[0], sfb=scales[1].T, target="B200")
    instruction = bitmma.tcgen05("mxf4nvf4", m=128, n=128)
    with pytest.raises(bitmma.Error, match="packed=True"):
        bitmma.mma(
            instruction, a[:, :32], b[:, :32].T, scale_a=scales[0].array[:, :4], scale_b=scales[1].array[:, :4].T
        )


@pytest.mark.parametrize("rows, blocks", [(1, 1), (128, 4), (129, 5), (300, 16), (64, 3)])
def test_tiles_of_scales_go_there_and_back(rows, blocks):
    scales = np.random.default_rng(0).integers(0, 256, (rows, blocks), dtype=np.uint8)
    image = bitmma.tile(scales)
    assert image.size == -(-rows // 128) * 128 * -(-blocks // 4) * 4
    assert (bitmma.tiled(image, "ue8m0").scales(rows, blocks).array == scales).all()
    # CUTLASS: byte 512 (row / 128) ... + 16 (row % 32) + 4 (row / 32 % 4) + block % 4 of a tile
    row, block = rows - 1, blocks - 1
    tile = (row // 128) * -(-blocks // 4) + block // 4
    assert image[512 * tile + 16 * (row % 32) + 4 * (row // 32 % 4) + block % 4] == scales[row, block]
    with pytest.raises(bitmma.Error, match="tiles"):
        bitmma.tiled(image, "ue8m0").scales(rows + 128, blocks)


@pytest.mark.parametrize("format, size", [("ue4m3", 16), ("ue8m0", 32)])
@pytest.mark.parametrize("m, n, k", [(128, 64, 256), (5, 200, 64), (130, 8, 1024)])
def test_products_take_scales_in_tiles(format, size, m, n, k):
    random = np.random.default_rng(0)
    a, b = (
        bitmma.codes(random.integers(0, 256, (rows, k // 2), dtype=np.uint8), "e2m1", packed=True) for rows in (m, n)
    )
    sfa, sfb = (random.integers(100, 120, (rows, k // size), dtype=np.uint8) for rows in (m, n))
    expected = bitmma.gemm(a, b.T, sfa=bitmma.codes(sfa, format), sfb=bitmma.codes(sfb.T, format), target="B200")
    d = bitmma.gemm(
        a, b.T, sfa=bitmma.tiled(bitmma.tile(sfa), format), sfb=bitmma.tiled(bitmma.tile(sfb), format), target="B200"
    )
    assert bitmma.testing.bits_equal(d, expected)
    with pytest.raises(bitmma.Error, match="sfa"):
        bitmma.gemm(
            a,
            b.T,
            sfa=bitmma.tiled(np.ones(512 * 999, np.uint8), format),
            sfb=bitmma.codes(sfb.T, format),
            target="B200",
        )


@pytest.mark.parametrize("name", sorted(set(public_functions()) - {"Instruction", "Plan", "Case"}))
def test_missing_and_unknown_arguments_are_type_errors_too(name):
    function, good = public_functions()[name], good_arguments()[name]
    of_families = (
        "instruction",
        "mma_sync",
        "tcgen05",
        "tmem_move",
        "wgmma",
    )  # their library's fields are their arguments
    if (
        not any(
            parameter.kind is parameter.VAR_KEYWORD for parameter in inspect.signature(function).parameters.values()
        )
        and name not in of_families
    ):
        with pytest.raises(TypeError):
            function(**good, nonsense=1)
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if needed:
        with pytest.raises(TypeError):
            function()


@pytest.mark.parametrize(
    "error",
    [KeyError, AttributeError, TypeError, IndexError, RuntimeError, RecursionError, ZeroDivisionError, OverflowError],
)
def test_errors_that_are_not_of_the_request_pass_unchanged(error):
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise error("a bug inside")

    for call in (
        lambda: bitmma.mma(MMA, Broken(), B),
        lambda: bitmma.gemm(Broken(), B),
        lambda: bitmma.operators.softmax(Broken()),
        lambda: bitmma.math.sin(Broken()),
    ):
        with pytest.raises(error, match="a bug inside") as caught:
            call()
        assert not isinstance(caught.value, bitmma.Error)


KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry store(.param .u64 x, .param .b32 y)
{
  .reg .u64 %rd<2>;
  .reg .u32 %r<2>;
  ld.param.u64 %rd1, [x];
  ld.param.b32 %r1, [y];
  st.global.u32 [%rd1], %r1;
  ret;
}
"""


@pytest.mark.parametrize("array", [np.zeros(4, object), np.ma.masked_array(np.zeros(4), [1, 0, 0, 0]),
                                   np.zeros(2, [("a", object)]), np.zeros(8)[::2], np.broadcast_to(np.zeros(1), 4),
                                   "text", None, [1, 2], 2**70, float("nan")])  # fmt: skip
def test_kernels_refuse_arrays_without_plain_memory(array):
    kernel = bitmma.kernel(KERNEL)
    if array is not None:
        with pytest.raises(bitmma.Error):
            kernel[1, 1](array, 1)
    with pytest.raises(bitmma.Error):
        bitmma.tensor_map(array, (4,))


def test_kernels_refuse_torch_tensors_without_plain_memory():
    torch = pytest.importorskip("torch", reason="NOT checked: torch is not installed")
    kernel = bitmma.kernel(KERNEL)
    freed = torch.zeros(4)
    freed.untyped_storage().resize_(0)
    for tensor in (
        freed,
        torch.zeros(4, dtype=torch.complex64).conj(),
        torch._neg_view(torch.zeros(4)),
        torch.zeros(4).to_sparse(),
        torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        torch.zeros(4, device="meta"),
        torch.zeros(4, 4).T[:, :2],
    ):
        with pytest.raises(bitmma.Error):
            kernel[1, 1](tensor, 1)
    with pytest.raises(bitmma.Error):
        bitmma.operators.softmax(freed)
    memory = np.zeros(1, np.uint32)
    for number, word in (
        (torch.tensor(1.5), 0x3FC00000),
        (torch.tensor(7), 7),
        (np.array(1.5, np.float32), 0x3FC00000),
    ):
        kernel[1, 1](memory, number)
        assert memory[0] == word


def test_tensors_of_a_torch_before_2_are_refused_by_version(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__version__="1.13.0"))
    tensor_of_1_13 = object()  # it has no untyped_storage
    with pytest.raises(bitmma.Error, match=r"a = a tensor of torch 1\.13\.0: must be torch 2\.0 or newer"):
        _arrays.require_memory_of(tensor_of_1_13, "a")


def test_a_wrong_call_of_a_method_is_a_type_error_too():
    """As for functions: only a call that cannot be bound is one."""
    for call in (
        lambda: bitmma.instruction(MMA).with_immediate("imm_scale_a"),
        lambda: bitmma.instruction(MMA).violations(1, 2, 3),
        lambda: bitmma.operators.explain("softmax", output=(0, 0)),
        lambda: bitmma.gemm(A),
    ):
        with pytest.raises(bitmma.Error) as error:
            call()
        assert isinstance(error.value, TypeError)
    with pytest.raises(bitmma.Error) as error:
        bitmma.gemm(A, 3)
    assert not isinstance(error.value, TypeError)


@pytest.mark.parametrize(
    "call, field, hint",
    [
        (lambda: bitmma.matmul(A, B), "target", 'target="H100"'),
        (lambda: bitmma.library_choice(16, 64, 64), "target", 'target="H100"'),
        (lambda: bitmma.gemm(), "a, b", ""),
        (lambda: bitmma.wgmma(A, B), "n", "bitmma.mma(instruction, a, b)"),
    ],
)
def test_a_missing_argument_is_the_field_and_an_array_for_a_number_has_a_hint(call, field, hint):
    with pytest.raises(bitmma.Error) as error:
        call()
    (violation,) = error.value.violations
    assert violation.field == field and hint in violation.fix
