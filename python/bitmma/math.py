# SPDX-License-Identifier: MIT
"""PTX floating-point instructions outside the tensor cores, on arrays, with a GPU's bits.

    bitmma.math.ex2(x)                          ex2.approx.f32 of every element of a float32 array
    bitmma.math.rcp(x, ftz=True)                rcp.approx.ftz.f32
    bitmma.math.fma(a, b, c, rounding="rz")     fma.rz.f32
    bitmma.math.compute("tanh.approx.bf16", x)  by its name; bitmma.math.instructions() has all
    bitmma.math.c("expf@cuda_13_fast_math", x)  C's expf as nvcc 13.0 -use_fast_math compiles it; c_functions() has all
    bitmma.cvt("cvt.rn.f16.f32", x)             a conversion; bitmma.math.conversions() has all

Arrays are of NumPy or torch, float32, float16 or bfloat16, for rcp and rsqrt also float64; operands are broadcast, and
the result has their dtype. Python numbers are rounded to it; NumPy scalars have their own dtype. Special functions
follow the tables of the GPU's special function unit; `explain` shows the computation of a result, `evidence` its
evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._arguments import core as _core, public, text
from ._arrays import Codes, code_bytes, codes_as, dtype_of, format_of, like, to_numpy
from ._errors import near, number_of, refuse, shown
from ._names import no_such_name
from ._types import of_array, of_arrays, of_operands

_formats = ("f32", "f16", "bf16", "f64")

_integers = {
    f"{kind}{bits}": np.dtype(f"{name}{bits}")
    for kind, name in (("s", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
}
_unsigned = {bits: np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)}


def _format(name: str) -> str:
    return name.rpartition(".")[2].removesuffix("x2")


def _known(instruction: Any) -> str:
    """The instruction with this name; add, sub and mul may omit .rn."""
    name = str(instruction)
    operation, _, rest = name.partition(".")
    known = instructions()
    full = f"{operation}.rn.{rest}" if operation in ("add", "sub", "mul") and name not in known else name
    if full not in known:
        raise refuse(
            "instruction",
            shown(name),
            "an instruction of bitmma.math.instructions()",
            near(name, known),
            code="unknown_name",
        )
    return full


def _is_number(value: Any) -> bool:
    """True for a Python number: NumPy scalars are arrays of their dtype."""
    return type(value) in (int, float)


def _rounded_number(value: Any, format: str, name: str) -> np.ndarray:
    """The code of a Python number, rounded once to nearest."""
    words = np.array([number_of(value, name)]).view(np.uint64)
    if format != "f64":
        results = np.empty(1, np.uint64)
        _core.cvt_compute(f"cvt.rn.{format}.f64", [words], results, 1)
        words = results
    return words[0].astype(_unsigned[8 * code_bytes[format]])


def _words(value: Any, format: str, name: str) -> np.ndarray:
    """The codes of an array, one per 32- or 64-bit word. Python numbers are rounded to the format."""
    if _is_number(value):
        value = Codes(np.asarray(_rounded_number(value, format, name)), format)
    elif not isinstance(value, Codes):
        value = to_numpy(value, name)
    return codes_as(value, format, name, is_exact=True).astype(np.uint64 if format == "f64" else np.uint32)


@of_operands
@public
def compute(instruction: str, *operands: Any, threads: int = 1) -> Any:
    """The result of a PTX instruction for every element: `compute("fma.rn.f32", a, b, c)`.

    Use the instruction for one code in place of one for two codes per word, such as ex2.approx.f16x2. Raises Error for
    an unknown instruction, a wrong number of operands, or an array of another format.

    >>> compute("rcp.approx.ftz.f32", np.float32([3, 4]))
    array([0.33333334, 0.25      ], dtype=float32)
    """
    name = _known(instruction).removesuffix("x2")
    return _floats(_core.math_compute, name, _format(name), operands, threads)


def _results(function: Any, name: str, operands: list[np.ndarray], threads: int) -> np.ndarray:
    """One result for every element of the broadcast operands, which are words of one dtype."""
    try:
        words = np.broadcast_arrays(*operands) if operands else []
    except ValueError:
        raise refuse(
            "operands", " and ".join(str(operand.shape) for operand in operands), "shapes that broadcast"
        ) from None
    results = np.empty(words[0].shape if words else (), operands[0].dtype if operands else np.uint32)
    function(name, [np.ascontiguousarray(word) for word in words], results, threads)
    return results


def _floats(function: Any, name: str, format: str, operands: tuple[Any, ...], threads: int) -> Any:
    """Results of `format`, which the operands have too."""
    results = _results(function, name, [_words(operand, format, "operand") for operand in operands], threads)
    narrow = results.astype(_unsigned[8 * code_bytes[format]])
    if any(isinstance(operand, Codes) for operand in operands):
        return Codes(narrow, format)
    return like(operands, narrow.view(dtype_of(format)))


@of_operands
@public
def c(name: str, *operands: Any, threads: int = 1) -> Any:
    """A function of C's <math.h> as a compiler compiles it, for every element of float32 arrays.

    `name` is the function's and its compiler's: "expf@cuda_13" (nvcc 13.0; PyTorch's eager kernels),
    "expf@cuda_13_fast_math" (-use_fast_math), "tl.exp@triton_3_6"; without a compiler, the first row of
    `c_functions()` with this name. Raises Error for an unknown function, a wrong number of operands, or an array of
    another format.

    >>> c("expf", np.float32([10])), c("expf@cuda_13_fast_math", np.float32([10]))
    (array([22026.467], dtype=float32), array([22026.469], dtype=float32))
    """
    return _floats(_core.c_function_compute, _core.c_function(name)["function"], "f32", operands, threads)


@public
def c_functions() -> list[dict[str, Any]]:
    """Every function that `c` accepts: function, operands (their number), source (the code that was read), and target,
    evidence and evidence_source as in `evidence`.

    >>> c_functions()[0]["function"]
    'expf@cuda_13'
    """
    rows: list[dict[str, Any]] = _core.c_functions()
    return rows


def _integer_words(value: Any, dtype: np.dtype, name: str) -> np.ndarray:
    """Integers of one dtype, or Python integers in its range."""
    if isinstance(value, int) and not isinstance(value, bool):
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise refuse(name, shown(value), f"a whole number from {limits.min} to {limits.max}")
        return np.array(value, dtype)
    array = to_numpy(value, name)
    if array.dtype != dtype:
        raise refuse(name, array.dtype, str(dtype))
    return array


def _cvt_words(value: Any, source: str, name: str, bits: int) -> np.ndarray:
    """One operand of a cvt, in 64-bit words."""
    if name == "scale" and bits == 8 and not isinstance(value, int):
        array = codes_as(value, "ue8m0", name)
    elif name in ("scale", "random_bits") or source.endswith("x2"):
        array = _integer_words(value, _unsigned[bits], name)
    elif source in _integers:
        array = _integer_words(value, _integers[source], name)
        array = array.view(_unsigned[8 * array.dtype.itemsize])
    elif _is_number(value):
        array = _rounded_number(value, source, name)
    else:
        array = codes_as(value if isinstance(value, Codes) else to_numpy(value, name), source, name, is_exact=True)
    return np.asarray(array).astype(np.uint64)


@of_operands
@public(instruction=text)
def cvt(instruction: str, *operands: Any, threads: int = 1) -> Any:
    """A PTX conversion for every element: `cvt("cvt.rn.satfinite.e4m3x2.f32", a, b)`, with operands in PTX's order.

    Operands of f16, bf16, f32, f64 and integer types are arrays of that dtype. Packed operands (e4m3x2, f16x2), the
    random bits of .rs (uint32) and scales (uint8; uint16 for n2) are words, arrays of unsigned integers. So are packed
    results, with `a` in the upper half. Other results have the dtype of their type; tf32 is float32. Python numbers are
    operands too. Raises Error for an unknown form, a wrong number of operands, an array of another dtype, or
    incompatible shapes.

    >>> cvt("cvt.rn.satfinite.e4m3x2.f32", np.float32([456]), np.float32([1]))
    array([32312], dtype=uint16)
    >>> cvt("cvt.rzi.s8.f32", np.float32([-3.7, 200]))
    array([ -3, 127], dtype=int8)
    """
    form = _core.cvt_form(instruction)
    name = form["instruction"]
    to, source = name.split(".")[-2:]
    wanted = form["operands"]
    if len(operands) != len(wanted):
        raise refuse(
            "operands", len(operands), f"{len(wanted)} of {name}: {', '.join(operand for operand, _ in wanted)}"
        )
    words = [_cvt_words(value, source, operand, bits) for value, (operand, bits) in zip(operands, wanted, strict=True)]
    results = _results(_core.cvt_compute, name, words, threads).astype(_unsigned[form["result_bits"]])
    if to[-2:] in ("x2", "x4"):
        return like(operands, results)
    return like(operands, results.view(_integers[to] if to in _integers else dtype_of(to)))


@public
def conversions() -> list[dict[str, Any]]:
    """Every form of cvt: instruction, operands (pairs of a name and its register's bits), result_bits, targets, ptx
    (the first version with the form), source, and target, evidence and evidence_source as in `evidence`.

    >>> [form["instruction"] for form in conversions() if "sm_90" not in form["targets"]][0]
    'cvt.rn.satfinite.tf32.f32'
    """
    forms: list[dict[str, Any]] = _core.cvt_forms()
    return forms


def _named(
    operation: str, operands: tuple[Any, ...], *, accuracy: str, ftz: bool = False, tail: str = "", threads: int = 1
) -> Any:
    """The instruction of an operation for the format of the operands."""
    types = [(format_of(operand), isinstance(operand, Codes)) for operand in operands if not _is_number(operand)]
    formats = {"f32" if format == "tf32" and not are_codes else format for format, are_codes in types} or {"f32"}
    if len(formats) > 1 or not formats <= set(_formats):
        raise refuse("operands", ", ".join(sorted(formats)), "one format: f32, f16 or bf16; for rcp and rsqrt also f64")
    if accuracy not in ("rn", "rz", "rm", "rp", "approx", "full"):
        raise refuse("rounding", accuracy, "rn, rz, rm or rp, or, if the operation has them, approx or full")
    name = f"{operation}.{accuracy}{'.ftz' if ftz else ''}{tail}.{formats.pop()}"
    return compute(name, *operands, threads=threads)


def _rounded(
    operation: str, operands: tuple[Any, ...], rounding: str, ftz: bool, sat: bool, relu: bool, threads: int
) -> Any:
    return _named(
        operation,
        operands,
        accuracy=rounding,
        ftz=ftz,
        tail=("" if not sat else ".sat") + ("" if not relu else ".relu"),
        threads=threads,
    )


@of_array
@public
def ex2(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """2 to the power of x: ex2.approx.f32, with ftz=True ex2.approx.ftz.f32; also for f16, and with ftz for bf16.

    >>> ex2(np.float32([0.3]))
    array([1.2311444], dtype=float32)
    """
    return _named("ex2", (x,), accuracy="approx", ftz=ftz, threads=threads)


@of_array
@public
def lg2(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """The logarithm to the base 2: lg2.approx.f32."""
    return _named("lg2", (x,), accuracy="approx", ftz=ftz, threads=threads)


@of_array
@public
def rcp(x: Any, *, rounding: str = "approx", ftz: bool = False, threads: int = 1) -> Any:
    """1 / x: rcp.approx.f32, or correctly rounded with rounding="rn", "rz", "rm" or "rp"; for float64
    rcp.approx.ftz.f64, with ftz=True: the unit reads and writes only the upper words."""
    return _named("rcp", (x,), accuracy=rounding, ftz=ftz, threads=threads)


@of_array
@public
def sqrt(x: Any, *, rounding: str = "approx", ftz: bool = False, threads: int = 1) -> Any:
    """The square root: sqrt.approx.f32, or correctly rounded with rounding="rn", "rz", "rm" or "rp"."""
    return _named("sqrt", (x,), accuracy=rounding, ftz=ftz, threads=threads)


@of_array
@public
def rsqrt(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """1 / sqrt(x): rsqrt.approx.f32; for float64 rsqrt.approx.ftz.f64, with ftz=True."""
    return _named("rsqrt", (x,), accuracy="approx", ftz=ftz, threads=threads)


@of_array
@public
def sin(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """The sine of radians: sin.approx.f32."""
    return _named("sin", (x,), accuracy="approx", ftz=ftz, threads=threads)


@of_array
@public
def cos(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """The cosine of radians: cos.approx.f32."""
    return _named("cos", (x,), accuracy="approx", ftz=ftz, threads=threads)


@of_array
@public
def tanh(x: Any, *, threads: int = 1) -> Any:
    """The hyperbolic tangent: tanh.approx for f32, f16 or bf16."""
    return _named("tanh", (x,), accuracy="approx", threads=threads)


@of_arrays
@public
def div(a: Any, b: Any, *, rounding: str = "approx", ftz: bool = False, threads: int = 1) -> Any:
    """a / b: div.approx.f32, div.full.f32 with rounding="full", or correctly rounded with "rn", "rz", "rm" or "rp"."""
    return _named("div", (a, b), accuracy=rounding, ftz=ftz, threads=threads)


@of_arrays
@public
def add(a: Any, b: Any, *, rounding: str = "rn", ftz: bool = False, sat: bool = False, threads: int = 1) -> Any:
    """a + b, rounded once: add.rn for f32, f16 or bf16; f32 also has "rz", "rm" and "rp"."""
    return _rounded("add", (a, b), rounding, ftz, sat, False, threads)


@of_arrays
@public
def sub(a: Any, b: Any, *, rounding: str = "rn", ftz: bool = False, sat: bool = False, threads: int = 1) -> Any:
    """a - b, rounded once."""
    return _rounded("sub", (a, b), rounding, ftz, sat, False, threads)


@of_arrays
@public
def mul(a: Any, b: Any, *, rounding: str = "rn", ftz: bool = False, sat: bool = False, threads: int = 1) -> Any:
    """a * b, rounded once."""
    return _rounded("mul", (a, b), rounding, ftz, sat, False, threads)


@of_arrays
@public
def fma(
    a: Any,
    b: Any,
    c: Any,
    *,
    rounding: str = "rn",
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
    threads: int = 1,
) -> Any:
    """a * b + c, rounded once."""
    return _rounded("fma", (a, b, c), rounding, ftz, sat, relu, threads)


@public
def instructions() -> list[str]:
    """The names of all instructions.

    >>> "ex2.approx.ftz.bf16" in instructions()
    True
    """
    return [name for name in _core.math_instructions() if _format(name) in _formats]


def _operand_words(function: str, operands: tuple[Any, ...]) -> tuple[str, list[int]]:
    """The full name of a word function, and the words of its operands, one number each."""
    if function.startswith("cvt."):
        form = _core.cvt_form(function)
        name, source = form["instruction"], form["instruction"].split(".")[-1]
        words = [_cvt_words(operand, source, *of) for operand, of in zip(operands, form["operands"], strict=False)]
    elif "@" in function or (
        function not in _core.math_instructions() and "." not in function.removeprefix("tl.").removeprefix("libdevice.")
    ):
        name = _core.c_function(function)["function"]
        words = [_words(operand, "f32", "operand") for operand in operands]
    else:
        name = _known(function).removesuffix("x2")
        words = [_words(operand, _format(name), "operand") for operand in operands]
    for codes in words:
        if codes.size != 1:
            raise refuse("operand", f"{codes.size} elements", "one number")
    return name, [int(codes.reshape(-1)[0]) for codes in words] + [0] * (len(operands) - len(words))


@public
def explain(name: str, *operands: Any, target: str | None = None) -> dict[str, Any]:
    """The computation of a result: operands, result, evidence; for an approximate instruction "unit" with the input of
    the special function unit, its quadratic, the truncated square and result, and the products before and after the
    unit; for a rounded instruction the codes "below" and "above" the exact result; for a conversion its "lanes"; for a
    C function its "steps", the f32 operations. Operands are numbers, arrays of one element, or `Codes`.

    >>> explain("ex2.approx.f32", 0.3)["unit"]["index"]
    19
    >>> [step["operation"] for step in explain("__expf", 1.0)["steps"]]
    ['mul', 'MUFU.EX2']
    >>> explain("cvt.rn.satfinite.e4m3x2.f32", 3.3, 1.0)["lanes"][0]["above"]
    '0x46'
    """
    full, words = _operand_words(name, operands)
    steps: dict[str, Any] = _core.math_explain(full, words, target)
    return steps


@public
def evidence(name: str, target: str | None = None) -> dict[str, str]:
    """The evidence for a word function on a target: "target", "evidence" and "evidence_source".

    "measured": compared with a GPU of the target for all arguments; "sampled": for random ones; "documented": the PTX
    ISA or IEEE 754 defines the result; "compiled": read from a compiler's instructions; "assumed": as on another
    target. The default target is sm_90a, or the first that has the function. Raises Error for an unknown name, and for
    a target that lacks the function.

    >>> evidence("ex2.approx.f32")["evidence"], evidence("ex2.approx.f32", "sm_100a")["evidence"]
    ('measured', 'assumed')
    """
    row: dict[str, str] = _core.math_evidence(name, target)
    return row


__all__ = [
    "add",
    "c",
    "c_functions",
    "compute",
    "conversions",
    "cos",
    "div",
    "evidence",
    "ex2",
    "explain",
    "fma",
    "instructions",
    "lg2",
    "mul",
    "rcp",
    "rsqrt",
    "sin",
    "sqrt",
    "sub",
    "tanh",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # checkers report such names themselves

    def __getattr__(name: str) -> Any:
        raise no_such_name(__name__, name, __all__)
