# SPDX-License-Identifier: MIT
"""Names that a module does not have: the error says what bitmma calls the thing that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ._errors import near

# What other libraries, or another release, call what bitmma has. Values are what to write instead.
_product = 'bitmma.matmul(a, b, target="H100"), as PyTorch computes it, or bitmma.gemm(a, b, plan)'
_cute = 'bitmma.layout.cute("(8,16):(16,1)"), which also takes objects with shape and stride'
_swizzle = 'bitmma.encode(swizzle="128", ...) makes a descriptor, bitmma.layout.smem(descriptor, rows, cols) its layout'
_algebra = 'bitmma.layout.algebra("{}", first, second)'
_linear = '{} is a product: bitmma.matmul(x, w.T, target="H100")'
ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "bitmma": {
        **dict.fromkeys(("dot", "mm", "bmm", "addmm", "linear", "einsum"), _product),
        **dict.fromkeys(("scaled_mm", "_scaled_mm"), 'bitmma.matmul(a, b, target="H100", scale_a=..., scale_b=...)'),
        **dict.fromkeys(("sdpa", "flash_attention", "flash_attn"), "bitmma.operators.attention(q, k, v)"),
        "instructions": "bitmma.all_instructions()",
        "recipes": "bitmma.quantize_recipes()",
        "plans": "bitmma.catalogue()",
        **dict.fromkeys(("targets", "gpus"), 'pass target="H100", "sm_90a" or (9, 0); the errors list all targets'),
        **dict.fromkeys(("load", "open"), "bitmma.read(path), bitmma.read_product(path) or bitmma.datasets.load(name)"),
        **dict.fromkeys(("save", "dump"), "bitmma.write(path, cases)"),
        **dict.fromkeys(("simulate", "run"), "bitmma.mma for an instruction, execute for its state, kernel for PTX"),
        **dict.fromkeys(("swizzle", "Swizzle"), _swizzle),
        "Layout": _cute,
        "assert_equal": "bitmma.testing.assert_bits_equal(actual, expected)",
        "hist": "bitmma.plot.errors(actual, expected)",
        **dict.fromkeys(("layernorm", "LayerNorm"), "bitmma.operators.layer_norm(x)"),
        **dict.fromkeys(("quantize_nvfp4", "quantize_fp4"), 'bitmma.quantize(x, "te_nvfp4")'),
        **dict.fromkeys(("quantize_mxfp8", "quantize_fp8"), 'bitmma.quantize(x, "torchao_mxfp8_e4m3")'),
        "version": "bitmma.__version__",
        **dict.fromkeys(("Descriptor", "descriptor"), "bitmma.decode(word), or bitmma.encode(swizzle=\"128\", ...)"),
        "kernels": "bitmma.kernel(ptx) for a kernel of PTX, bitmma.datasets.names() for recordings",
        **{
            module: f"import bitmma.{module} first; it needs {needs}"
            for module, needs in (("distributed", "Dask"), ("torch", "PyTorch"), ("adapters", "Triton or JAX"))
        },
        "record_triton": "import bitmma.record_triton first",
    },
    "bitmma.datasets": {"list": "bitmma.datasets.names()"},
    "bitmma.operators": {
        **dict.fromkeys(
            ("scaled_dot_product_attention", "sdpa", "flash_attention", "flash_attn_func"),
            "bitmma.operators.attention(q, k, v, is_causal=True)",
        ),
        **{name: _linear.format(name) for name in ("linear", "matmul", "mm", "bmm", "dot")},
        **dict.fromkeys(("scaled_mm", "_scaled_mm"), 'bitmma.matmul(a, b, target="H100", scale_a=..., scale_b=...)'),
        "max": "bitmma.operators.amax(x)",
        "nll_loss": "bitmma.operators.cross_entropy(x, target)",
        **dict.fromkeys(("group_norm", "layernorm"), "bitmma.operators.layer_norm"),
        "swiglu": 'bitmma.operators.elementwise("silu", gate), then elementwise("mul", ...)',
    },
    "bitmma.math": {
        **dict.fromkeys(("exp2", "exp2f"), 'bitmma.math.ex2(x); C\'s exp2f is bitmma.math.c("exp2f", x)'),
        **dict.fromkeys(("log2", "log2f"), 'bitmma.math.lg2(x); C\'s log2f is bitmma.math.c("log2f", x)'),
        **dict.fromkeys(("reciprocal", "recip"), "bitmma.math.rcp(x)"),
        **{f"{name}.approx": f"bitmma.math.{name}(x)" for name in ("ex2", "lg2", "rcp", "rsqrt", "sin", "cos", "tanh")},
        **{name: f'bitmma.math.c("{name}", x)' for name in ("expf", "logf", "tanhf", "sinf", "cosf", "powf", "erff")},
        **{name: f'bitmma.math.c("{name}f", x)' for name in ("exp", "log", "pow", "erf", "expm1", "log1p", "log10")},
        **dict.fromkeys(("cvt", "convert", "cast"), 'bitmma.cvt("cvt.rn.f16.f32", x)'),
        **{name: f'bitmma.math.c("{name}@cuda_13", x), or as PyTorch has it bitmma.operators.elementwise("{name}", x)'
           for name in ("sigmoid", "silu", "gelu")},
        "relu": 'bitmma.operators.elementwise("relu", x)',
    },
    "bitmma.layout": {
        **dict.fromkeys(("Layout", "make_layout"), _cute),
        **dict.fromkeys(("swizzle", "Swizzle"), _swizzle),
        **{name: _algebra.format(name) for name in ("composition", "complement", "coalesce", "logical_divide",
           "zipped_divide", "tiled_divide", "logical_product", "blocked_product", "raked_product", "right_inverse",
           "left_inverse")},
        "compose": _algebra.format("composition"),
        "draw": "bitmma.layout.smem_svg or fragment_svg",
    },
    "bitmma.testing": {
        **dict.fromkeys(
            ("assert_equal", "assert_array_equal", "assert_close", "assert_allclose"),
            "bitmma.testing.assert_bits_equal(actual, expected)",
        ),
        **dict.fromkeys(("allclose", "equal", "array_equal"), "bitmma.testing.bits_equal(a, b)"),
        **dict.fromkeys(("compare", "diff", "ulp"), "bitmma.testing.difference(actual, expected)"),
    },
}  # fmt: skip


# What objects of bitmma do not have, and the way to it.
ELSEWHERE_IN_CLASSES: Mapping[str, Mapping[str, str]] = {
    "Case": dict.fromkeys(("simulate", "run", "execute", "compute"), "use case.computed_d()"),
    "Quantized": dict.fromkeys(
        ("dequantize", "dequantized"),
        "an element is its code * the scale of its block * tensor_scale: use quantized.codes, scales, block",
    ),
    "Instruction": {"evidence": "use bitmma.evidence(instruction)", "fields": "use bitmma.fields(instruction)"},
}


def name_ways(kind: type) -> None:
    """Makes errors for names that objects of the class do not have say where bitmma has the thing."""
    ways = ELSEWHERE_IN_CLASSES[kind.__name__]

    def no_such_attribute(self: object, name: str) -> Any:
        way = ways.get(name, "")
        error = AttributeError(f"{kind.__name__!r} object has no attribute {name!r}" + (f"; {way}" if way else ""))
        error.name = name
        raise error

    kind.__getattr__ = no_such_attribute  # type: ignore[attr-defined]  # a method would hide wrong names from checkers


def no_such_name(module: str, name: str, names: Iterable[str], hint: str = "") -> AttributeError:
    """Makes the error for a name that a module does not have, for the caller to raise."""
    says = ""
    if not name.startswith("__"):  # Python asks modules for such names itself
        elsewhere = ELSEWHERE.get(module, {})
        way = elsewhere.get(name, "")
        says = (way if way.startswith(("import ", "pass ")) else way and f"use {way}") or hint or near(name, names)
    error = AttributeError(f"module {module!r} has no attribute {name!r}" + (f"; {says}" if says else ""))
    error.name = name  # obj stays None: Python would add a second suggestion
    return error
