# SPDX-License-Identifier: MIT
"""Floating-point instructions of PTX on arrays, bit for bit: what a GPU gives beside its tensor cores.

    bitmma.math.ex2(x)                          ex2.approx.f32 of every element of a float32 array
    bitmma.math.rcp(x, ftz=True)                rcp.approx.ftz.f32
    bitmma.math.fma(a, b, c, rounding="rz")     fma.rz.f32
    bitmma.math.compute("tanh.approx.bf16", x)  by its name; bitmma.math.instructions() has all

Arrays are of NumPy or torch, float32, float16 or bfloat16; operands are broadcast, and the result has their dtype. Special
functions follow the tables of the GPU's special function unit; `explain` shows how a result comes about.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ._arguments import core as _core, public
from ._arrays import Codes, code_bytes, codes_as, dtype_of, format_of, like, to_numpy
from ._errors import near, refuse, shown

_formats = ("f32", "f16", "bf16")


def _format(name: str) -> str:
    return name.rpartition(".")[2].removesuffix("x2")


def _known(instruction: Any) -> str:
    """A name that is one; add, sub and mul may omit .rn."""
    name = str(instruction)
    operation, _, rest = name.partition(".")
    known = instructions()
    full = f"{operation}.rn.{rest}" if operation in ("add", "sub", "mul") and name not in known else name
    if full not in known:
        raise refuse("instruction", shown(name), "an instruction of bitmma.math.instructions()", near(name, known),
                     code="unknown_name")
    return full


def _words(value: Any, format: str, name: str) -> np.ndarray:
    """The codes of an array, one in a word of 32 bits. Numbers of Python are rounded to the format."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = np.array(value, dtype_of(format))
    elif not isinstance(value, Codes):
        value = to_numpy(value, name)
    return codes_as(value, format, name).astype(np.uint32)


@public
def compute(instruction: str, *operands: Any, threads: int = 1) -> Any:
    """The result of an instruction of PTX for every element: `compute("fma.rn.f32", a, b, c)`.

    Instructions of two codes a word, such as ex2.approx.f16x2, are those of one code here. Raises Error for an unknown
    instruction, another number of operands, or an array of another format.

    >>> compute("rcp.approx.ftz.f32", np.float32([3, 4]))
    array([0.33333334, 0.25      ], dtype=float32)
    """
    name = _known(instruction).removesuffix("x2")
    format = _format(name)
    given = [_words(one, format, "operand") for one in operands]
    try:
        words = np.broadcast_arrays(*given) if given else []
    except ValueError:
        raise refuse("operands", " and ".join(str(one.shape) for one in given), "shapes that go together") from None
    shape = words[0].shape if words else ()
    results = np.empty(shape, np.uint32)
    _core.math_compute(name, [np.ascontiguousarray(one) for one in words], results, threads)
    narrow = results.astype({2: np.uint16, 4: np.uint32}[code_bytes[format]])
    if any(isinstance(one, Codes) for one in operands):
        return Codes(narrow, format)
    array = narrow.view(dtype_of(format))
    return next((made for one in operands if (made := like(one, array)) is not array), array)


def _named(operation: str, operands: tuple[Any, ...], *, accuracy: str, ftz: bool = False, tail: str = "",
           threads: int = 1) -> Any:
    """The instruction of an operation for the format that the operands have."""
    formats = {format_of(one) for one in operands if not isinstance(one, (int, float))} or {"f32"}
    formats = {"f32" if one == "tf32" else one for one in formats}
    if len(formats) > 1 or not formats <= set(_formats):
        raise refuse("operands", ", ".join(sorted(formats)), "one format: f32, f16 or bf16")
    if accuracy not in ("rn", "rz", "rm", "rp", "approx", "full"):
        raise refuse("rounding", accuracy, "rn, rz, rm or rp, and approx or full where the operation has them")
    name = f"{operation}.{accuracy}{'.ftz' if ftz else ''}{tail}.{formats.pop()}"
    return compute(name, *operands, threads=threads)


def _rounded(operation: str, operands: tuple[Any, ...], rounding: str, ftz: bool, sat: bool, relu: bool,
             threads: int) -> Any:
    return _named(operation, operands, accuracy=rounding, ftz=ftz,
                  tail=("" if not sat else ".sat") + ("" if not relu else ".relu"), threads=threads)


@public
def ex2(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """2 to the power of x: ex2.approx.f32, with ftz=True ex2.approx.ftz.f32; also of f16, and with ftz of bf16.

    >>> ex2(np.float32([0.3]))
    array([1.2311444], dtype=float32)
    """
    return _named("ex2", (x,), accuracy="approx", ftz=ftz, threads=threads)


@public
def lg2(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """The logarithm to the base 2: lg2.approx.f32."""
    return _named("lg2", (x,), accuracy="approx", ftz=ftz, threads=threads)


@public
def rcp(x: Any, *, rounding: str = "approx", ftz: bool = False, threads: int = 1) -> Any:
    """1 / x: rcp.approx.f32, or correctly rounded with rounding="rn", "rz", "rm" or "rp"."""
    return _named("rcp", (x,), accuracy=rounding, ftz=ftz, threads=threads)


@public
def sqrt(x: Any, *, rounding: str = "approx", ftz: bool = False, threads: int = 1) -> Any:
    """The square root: sqrt.approx.f32, or correctly rounded with rounding="rn", "rz", "rm" or "rp"."""
    return _named("sqrt", (x,), accuracy=rounding, ftz=ftz, threads=threads)


@public
def rsqrt(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """1 / sqrt(x): rsqrt.approx.f32."""
    return _named("rsqrt", (x,), accuracy="approx", ftz=ftz, threads=threads)


@public
def sin(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """The sine of radians: sin.approx.f32."""
    return _named("sin", (x,), accuracy="approx", ftz=ftz, threads=threads)


@public
def cos(x: Any, *, ftz: bool = False, threads: int = 1) -> Any:
    """The cosine of radians: cos.approx.f32."""
    return _named("cos", (x,), accuracy="approx", ftz=ftz, threads=threads)


@public
def tanh(x: Any, *, threads: int = 1) -> Any:
    """The hyperbolic tangent: tanh.approx of f32, f16 or bf16."""
    return _named("tanh", (x,), accuracy="approx", threads=threads)


@public
def div(a: Any, b: Any, *, rounding: str = "approx", ftz: bool = False, threads: int = 1) -> Any:
    """a / b: div.approx.f32, div.full.f32 with rounding="full", or correctly rounded with "rn", "rz", "rm" or "rp"."""
    return _named("div", (a, b), accuracy=rounding, ftz=ftz, threads=threads)


@public
def add(a: Any, b: Any, *, rounding: str = "rn", ftz: bool = False, sat: bool = False, threads: int = 1) -> Any:
    """a + b, rounded once: add.rn of f32, f16 or bf16; f32 has "rz", "rm" and "rp" too."""
    return _rounded("add", (a, b), rounding, ftz, sat, False, threads)


@public
def sub(a: Any, b: Any, *, rounding: str = "rn", ftz: bool = False, sat: bool = False, threads: int = 1) -> Any:
    """a - b, rounded once."""
    return _rounded("sub", (a, b), rounding, ftz, sat, False, threads)


@public
def mul(a: Any, b: Any, *, rounding: str = "rn", ftz: bool = False, sat: bool = False, threads: int = 1) -> Any:
    """a * b, rounded once."""
    return _rounded("mul", (a, b), rounding, ftz, sat, False, threads)


@public
def fma(a: Any, b: Any, c: Any, *, rounding: str = "rn", ftz: bool = False, sat: bool = False, relu: bool = False,
        threads: int = 1) -> Any:
    """a * b + c, rounded once."""
    return _rounded("fma", (a, b, c), rounding, ftz, sat, relu, threads)


@public
def instructions() -> list[str]:
    """The names of all instructions on words of 32 bits or fewer.

    >>> "ex2.approx.ftz.bf16" in instructions()
    True
    """
    return [name for name in _core.math_instructions() if _format(name) in _formats]


@public
def explain(instruction: str, *operands: Any) -> dict[str, Any]:
    """How a result comes about: operands, result, and under "unit" what the special function unit reads, its quadratic,
    the truncated square and what is cut off. Operands are numbers, or codes as whole numbers of `Codes`.

    >>> explain("ex2.approx.f32", 0.3)["unit"]["index"]
    19
    """
    name = _known(instruction).removesuffix("x2")
    format = _format(name)
    words = []
    for one in operands:
        codes = _words(one, format, "operand")
        if codes.size != 1:
            raise refuse("operand", f"{codes.size} elements", "one number")
        words.append(int(codes.reshape(-1)[0]))
    found: dict[str, Any] = _core.math_explain(name, words)
    return found


__all__ = ["add", "compute", "cos", "div", "ex2", "explain", "fma", "instructions", "lg2", "mul", "rcp", "rsqrt", "sin",
           "sqrt", "sub", "tanh"]
