# SPDX-License-Identifier: MIT
"""NumPy's arrays in, NumPy's arrays out; torch's tensors in, torch's out, also if only one operand is a tensor."""

import inspect
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

import bitmma
from bitmma import layers, operators

torch = pytest.importorskip("torch", reason="NOT checked: torch is not installed")

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
rng = np.random.default_rng(3)


def floats(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


BF16 = ml_dtypes.bfloat16
F16 = np.float16
X, Q = floats(4, 64), floats(1, 2, 4, 16, dtype=F16)
LLAMA = {
    name: floats(*shape, dtype=BF16)
    for name, shape in {
        **dict.fromkeys(("norm", "norm2"), (64,)),
        **dict.fromkeys(("q", "k", "v", "o"), (64, 64)),
        **dict.fromkeys(("gate", "up"), (128, 64)),
        "down": (64, 128),
    }.items()
}
METADATA = bitmma.compress(bitmma.prune_2_4(floats(4, 64, dtype=F16))).metadata
TILES = bitmma.tile(np.full((128, 4), 127, np.uint8))


def quantized(x, w, **how):
    a, b = (bitmma.quantize(array, "ocp_mxfp8_e4m3") for array in (x, w))
    return bitmma.quantized_gemm(a, b, target="sm_100a", **how)


# Of each function that takes arrays and returns some: the call, and its arrays.
CALLS = {
    "mma": (lambda a, b: bitmma.mma(MMA, a, b), (floats(16, 16, dtype=F16), floats(16, 8, dtype=F16))),
    "mma with C": (
        lambda a, b, c: bitmma.mma(MMA, a, b, c),
        (floats(16, 16, dtype=F16), floats(16, 8, dtype=F16), floats(16, 8)),
    ),
    "mma and target": (
        lambda a, b: bitmma.mma(MMA, a, b, return_target=True)[:1],
        (floats(16, 16, dtype=F16), floats(16, 8, dtype=F16)),
    ),
    "gemm": (lambda a, b: bitmma.gemm(a, b), (floats(4, 64, dtype=F16), floats(64, 8, dtype=F16))),
    "faulty_product": (
        lambda a, b: bitmma.faulty_product(a, b, "a.row.0"),
        (floats(4, 64, dtype=F16), floats(64, 8, dtype=F16)),
    ),
    "prune_2_4": (bitmma.prune_2_4, (floats(4, 64, dtype=F16),)),
    "compress": (lambda a: bitmma.compress(bitmma.prune_2_4(a)).values, (floats(4, 64, dtype=F16),)),
    "decompress": (lambda values: bitmma.decompress(values, METADATA), (floats(4, 32, dtype=F16),)),
    "gemm of codes and an array": (
        lambda b: bitmma.gemm(bitmma.codes(np.ones((4, 64), np.uint8), "e4m3"), b),
        (floats(64, 8, dtype=ml_dtypes.float8_e4m3fn),),
    ),
    "gemm and plan": (
        lambda a, b, bias: bitmma.gemm(a, b, bias=bias, out_dtype="bf16", return_plan=True)[:1],
        (floats(4, 64, dtype=BF16), floats(64, 8, dtype=BF16), floats(8)),
    ),
    "matmul": (
        lambda a, b: bitmma.matmul(a, b, target="H100", nearest=True),
        (floats(16, 512, dtype=F16), floats(512, 64, dtype=F16)),
    ),
    "quantize": (lambda x: bitmma.quantize(x, "te_nvfp4")[:3], (X,)),
    "quantize of 8 bits": (lambda x: bitmma.quantize(x, "ocp_mxfp8_e4m3")[:2], (X,)),
    "packed": (lambda x: bitmma.quantize(x, "ocp_mxfp4").packed, (X,)),
    "tiles of a quantised matrix": (lambda x: bitmma.quantize(x, "ocp_mxfp4").tiled, (X,)),
    "quantized_gemm": (quantized, (X, floats(8, 64))),
    "quantized_gemm and plan": (lambda x, w: quantized(x, w, return_plan=True)[:1], (X, floats(8, 64))),
    "tile": (bitmma.tile, (np.full((128, 4), 127, np.uint8),)),
    "execute": (
        lambda tmem: bitmma.execute("tcgen05.shift.cta_group::1.down", None, {"tmem": tmem, "taddr": 0}),
        (np.zeros((128, 64), np.uint32),),
    ),
    "math.compute": (lambda x: bitmma.math.compute("ex2.approx.f32", x), (X,)),
    "math.c": (lambda x: bitmma.math.c("expf", x), (X,)),
    "cvt": (lambda x: bitmma.cvt("cvt.rn.f16.f32", x), (X,)),
    "cvt to bytes": (lambda x, y: bitmma.cvt("cvt.rn.satfinite.e4m3x2.f32", x, y), (X, X)),
    **{
        f"math.{name}": (getattr(bitmma.math, name), (np.abs(X),))
        for name in ("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh")
    },
    **{f"math.{name}": (getattr(bitmma.math, name), (X, X)) for name in ("add", "sub", "mul", "div")},
    "math.fma": (bitmma.math.fma, (X, X, X)),
    "operators.attention": (lambda q, k, v: operators.attention(q, k, v, return_lse=True), (Q, Q, Q)),
    "operators.softmax": (operators.softmax, (X,)),
    "operators.log_softmax": (operators.log_softmax, (X,)),
    "operators.layer_norm": (
        lambda x, w: operators.layer_norm(x, (64,), w, return_moments=True),
        (X, floats(64)),
    ),
    "operators.rms_norm": (lambda x, w: operators.rms_norm(x, (64,), w), (X, floats(64))),
    **{f"operators.{name}": (getattr(operators, name), (X,)) for name in ("sum", "mean", "amax", "argmax")},
    "operators.cross_entropy": (operators.cross_entropy, (X, np.zeros(4, np.int64))),
    "operators.elementwise": (lambda x, y: operators.elementwise("add", x, y), (X, X)),
    "layers.llama_norm": (layers.llama_norm, (floats(4, 64, dtype=BF16), floats(64, dtype=BF16))),
    "layers.llama": (
        lambda x, *weights: layers.llama(x, dict(zip(LLAMA, weights, strict=True)), heads=2, kv_heads=2),
        (floats(4, 64, dtype=BF16), *LLAMA.values()),
    ),
}
# Numbers or objects out, or arrays that only a file, a machine or a GPU's memory has.
WITHOUT_ARRAYS = """
    accuracy all_instructions bind catalogue compare compare_captures datasets.about datasets.load datasets.metadata
    datasets.names datasets.path datasets.tensors decode
    decode_ptx diagnose diagnose_product dtype_of encode encode_tensor_map
    evidence explain explain_product fault_catalogue faulty_d fields
    find_plans format_of instruction kernel layout
    library_choice library_choices lint math.c_functions math.conversions math.evidence
    math.explain math.instructions mma_sync quantize_recipes read read_product replay tcgen05 tensor_map
    testing.assert_bits_equal testing.bits_equal testing.difference tmem_move verify wgmma write golden generated
    operators.elementwise_functions operators.explain product_faults
    codes tiled
""".split()  # codes and tiled: objects of bitmma over NumPy's memory


def tensor(array):
    """The same memory as torch's."""
    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if array.dtype == ml_dtypes.float8_e4m3fn:
        return torch.from_numpy(array.view(np.uint8)).view(torch.float8_e4m3fn)
    return torch.from_numpy(array)


def parts(value):
    """The arrays of a result."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    return [part for part in (value if isinstance(value, tuple) else (value,)) if part is not None]


def same(made, expected):
    codes = lambda array: np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    of_torch = made.contiguous().reshape(-1).view(torch.uint8).numpy()
    return tuple(made.shape) == np.shape(expected) and np.array_equal(of_torch, codes(expected))


@pytest.mark.parametrize("name", CALLS)
def test_the_type_of_arrays_in_is_the_type_of_arrays_out(name):
    call, arrays = CALLS[name]
    expected = parts(call(*(array.copy() for array in arrays)))
    assert expected and all(isinstance(part, (np.ndarray, np.generic)) for part in expected), name
    made = parts(call(*(tensor(array.copy()) for array in arrays)))
    assert all(isinstance(part, torch.Tensor) for part in made), [type(part).__name__ for part in made]
    assert all(same(part, other) for part, other in zip(made, expected, strict=True))
    for mixed in range(len(arrays) if len(arrays) > 1 else 0):
        operands = [tensor(array.copy()) if place == mixed else array.copy() for place, array in enumerate(arrays)]
        made = parts(call(*operands))
        assert all(isinstance(part, torch.Tensor) for part in made), (mixed, [type(part).__name__ for part in made])


def test_every_public_function_is_here():
    functions = {name for name in bitmma.__all__ if inspect.isfunction(getattr(bitmma, name))}
    for module in (bitmma.datasets, bitmma.math, bitmma.testing, operators, layers):
        short = module.__name__.removeprefix("bitmma.")
        functions |= {f"{short}.{name}" for name in module.__all__ if inspect.isfunction(getattr(module, name))}
    assert functions == ({name for name in CALLS if " " not in name} | set(WITHOUT_ARRAYS)) - {"packed", "layout"}


def test_registers_of_a_bound_instruction_are_numpys():
    a, b, c = (torch.zeros((32, words), dtype=torch.int32) for words in (4, 2, 4))
    with pytest.raises(bitmma.Error, match="a_regs"):
        bitmma.bind(MMA)(a, b, c)
