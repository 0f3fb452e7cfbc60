# SPDX-License-Identifier: MIT
"""Assertions for tests that compare results bit for bit and describe the difference.

from bitmma.testing import assert_bits_equal
assert_bits_equal(kernel(a, b), bitmma.gemm(a, b, "nvjet-algo2"))

AssertionError: 3829 of 4096 outputs differ (93.5 %), f32 [64, 64]
  first (0, 0): 0x4100e152 8.055010 is not 0x4100e149 8.055001, +9 ulp
  worst (3, 7): ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._arguments import public
from ._arrays import Codes, _dtypes, _format_of_dtype, code_bytes, format_named, to_numpy
from ._case import Case
from ._core import formats as _formats, to_floats as _to_floats
from ._errors import Error, refuse, shown
from ._names import no_such_name
from ._types import ArrayLike
from ._vectors import diagnose

__tracebackhide__ = True  # pytest shows the assertion in the test

_bits_of = {name: bits for name, bits, _ in _formats()}
_unsigned = ("ue8m0", "ue4m3", "ue5m3", "u8", "u4", "u32", "b1")
_integers = ("s8", "u8", "s4", "u4", "s32", "u32", "b1")


class Difference(NamedTuple):
    """How two arrays of one format differ, bit for bit."""

    outputs: int
    differing: int
    nan_payloads: int
    """How many of these are NaN in both arrays, with different bits."""
    zero_signs: int
    """How many of these are +0 in one array and -0 in the other."""
    specials: int
    """How many of these are NaN or infinity in one array only."""
    first: tuple[int, ...] | None
    """The place of the first difference."""
    worst: tuple[int, ...] | None
    """The place of the largest difference in ulp; None if no two numbers differ."""
    worst_ulp: int
    above: int
    """How many numbers are larger in magnitude than expected."""
    below: int
    text: str
    """A readable description; empty if nothing differs."""

    def __bool__(self) -> bool:
        return self.differing != 0

    def __str__(self) -> str:
        return self.text


def _format_and_codes(value: Any, name: str) -> tuple[str, np.ndarray]:
    if isinstance(value, Codes):
        format, array = format_named(value.format), np.asarray(value.array)
    elif isinstance(value, (int, float, list, tuple)) or value is None:
        raise refuse(name, shown(value), "an array with a dtype", "np.float32(x) works, too")
    else:
        array = to_numpy(value, name)
        format_of_array = _format_of_dtype.get(array.dtype) or {np.dtype(np.uint32): "u32"}.get(array.dtype)
        if format_of_array is None:
            raise refuse(
                name,
                array.dtype,
                ", ".join(str(dtype) for dtype in _format_of_dtype),
                'name the format of raw codes: bitmma.codes(array, "bf16")',
            )
        format = "f32" if format_of_array == "tf32" else format_of_array
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    return format, array.view(f"u{code_bytes[format]}")


def _both(actual: Any, expected: Any) -> tuple[str, np.ndarray, np.ndarray]:
    format, codes = _format_and_codes(actual, "actual")
    other_format, other = _format_and_codes(expected, "expected")
    if format != other_format:
        raise refuse(
            "actual",
            format,
            f"{other_format}, the format of expected",
            "bits of two formats cannot be compared",
            code="contradiction",
        )
    if codes.shape != other.shape:
        raise refuse("actual", f"shape {codes.shape}", f"{other.shape}, the shape of expected", code="contradiction")
    if format in ("e2m1", "e2m3", "e3m2", "s4", "u4"):  # bits above the format's mean nothing
        mask = codes.dtype.type((1 << _bits_of[format]) - 1)
        codes, other = codes & mask, other & mask
    return format, codes, other


@public
def bits_equal(actual: ArrayLike, expected: ArrayLike) -> bool:
    """True if both arrays have the same format, shape and bits: +0 and -0 differ, and so do NaN payloads.

    NumPy with ml_dtypes, torch, JAX, or bitmma.codes(array, format).

    >>> bits_equal(np.float32([0.0]), np.float32([-0.0]))
    False
    """
    format, codes = _format_and_codes(actual, "actual")
    other_format, other = _format_and_codes(expected, "expected")
    return format == other_format and codes.shape == other.shape and difference(actual, expected).differing == 0


@public
def assert_bits_equal(actual: ArrayLike, expected: ArrayLike, case: Case | None = None) -> None:
    """Raises AssertionError with the difference unless both arrays have the same format, shape and bits.

    actual     the program's result: NumPy, torch, JAX, or bitmma.codes(array, format)
    expected   the correct result
    case       the bitmma.Case with D `actual`: the message then names the faults that explain the wrong outputs

    >>> assert_bits_equal(np.float16([1, 2]), np.float16([1, 2]))
    """
    if case is not None and not isinstance(case, Case):
        raise refuse("case", type(case).__name__, "a bitmma.Case")
    try:
        differing = difference(actual, expected)
    except Error as error:
        if error.violations[0].code == "contradiction":
            raise AssertionError(str(error)) from None
        raise
    if differing:
        raise AssertionError(differing.text + (_faults(case, actual) if case is not None else ""))


def _faults(case: Case, actual: Any) -> str:
    """The result of diagnose, in lines below the difference."""
    diagnosed = diagnose(case, [actual])
    if not diagnosed.wrong:
        return "\n  actual is what the case computes: expected is another"
    lines = [
        f"\n  what fits: {' and '.join(fault.what for fault in finding.faults)}: explains {finding.wrong_explained} of "
        f"{diagnosed.wrong} wrong outputs" + "".join(f"\n    {fault.fix}" for fault in finding.faults if fault.fix)
        for finding in diagnosed.findings[:3]
    ]
    return "".join(lines) or f"\n  what fits: none of the {diagnosed.tried} faults that were tried (bitmma.diagnose)"


@public
def difference(actual: ArrayLike, expected: ArrayLike) -> Difference:
    """How two arrays of the same format and shape differ. Raises Error if formats or shapes differ.

    An ulp is the step from one number of the format to the next. So -0 and +0 are 0 ulp apart, and the largest finite
    number is 1 ulp from infinity.

    >>> difference(np.float32([1, 2]), np.float32([1, np.nextafter(np.float32(2), np.float32(3))])).worst_ulp
    1
    """
    format, codes, other = _both(actual, expected)
    wrong = codes != other
    differing = int(wrong.sum())
    if differing == 0:
        return Difference(codes.size, 0, 0, 0, 0, None, None, 0, 0, 0, "")
    places = np.argwhere(wrong)
    x, y = codes[wrong], other[wrong]
    values_x, values_y = _values(x, format), _values(y, format)
    nan_x, nan_y = np.isnan(values_x), np.isnan(values_y)
    payloads, zeros = nan_x & nan_y, (values_x == 0) & (values_y == 0)
    special = (nan_x ^ nan_y) | (np.isinf(values_x) != np.isinf(values_y))
    numbers = ~(nan_x | nan_y | zeros)
    steps = [
        int(p) - int(q) if ok else 0 for p, q, ok in zip(_order(x, format), _order(y, format), numbers, strict=True)
    ]
    most = max(range(len(steps)), key=lambda index: abs(steps[index]))
    above = int((np.abs(values_x) > np.abs(values_y))[numbers].sum())
    below = int((np.abs(values_x) < np.abs(values_y))[numbers].sum())

    def at(index: int) -> str:
        width = code_bytes[format] * 2
        ulp = (
            f", {steps[index]:+} ulp"
            if numbers[index]
            else ", another NaN"
            if payloads[index]
            else ", the sign of zero"
            if zeros[index]
            else ""
        )
        return (
            f"({', '.join(str(axis) for axis in places[index])}): 0x{int(x[index]):0{width}x} "
            f"{_shown(values_x[index])} is not 0x{int(y[index]):0{width}x} {_shown(values_y[index])}{ulp}"
        )

    verb = "differs" if differing == 1 else "differ"
    shape = ", ".join(map(str, codes.shape))
    lines = [
        f"{differing} of {codes.size} outputs {verb} ({_percent(differing, codes.size)}), {format} [{shape}]",
        f"first {at(0)}",
    ]
    if steps[most]:
        lines.append(f"worst {at(most)}")
    lines += _where(places, codes.shape)
    counted = int(numbers.sum())
    if counted:
        lines.append(
            f"of {counted} numbers {above} are larger in magnitude than expected "
            f"({_percent(above, counted)}), {below} smaller"
        )
    for count, what in (
        (int(payloads.sum()), "NaN with other bits than expected"),
        (int(zeros.sum()), "zeros of the wrong sign"),
        (int(special.sum()), "NaN or infinity in only one of the two"),
    ):
        if count:
            lines.append(f"{count} {what}")
    return Difference(
        codes.size,
        differing,
        int(payloads.sum()),
        int(zeros.sum()),
        int(special.sum()),
        tuple(int(axis) for axis in places[0]),
        tuple(int(axis) for axis in places[most]) if steps[most] else None,
        abs(steps[most]),
        above,
        below,
        "\n  ".join(lines),
    )


def _percent(part: int, whole: int) -> str:
    """Three digits, or as many as needed so that an incomplete share does not read as 100 %."""
    percent = 100 * part / whole
    texts = (f"{percent:.{digits}g}" for digits in range(3, 18))
    return next(text for text in texts if part == whole or float(text) != 100) + " %"


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, np.floating) else str(value)


def _values(codes: np.ndarray, format: str) -> np.ndarray:
    """The exact numbers: float64 for f64, integers, and float32 for the rest."""
    if format == "f64":
        return codes.view(np.float64)
    if format in _integers:
        return codes.view(_dtypes[format]).astype(np.int64).astype(np.float64)
    values = np.empty((1, codes.size), np.float32)
    _to_floats(codes.reshape(1, -1), format, values)
    return values[0]


def _order(codes: np.ndarray, format: str) -> np.ndarray:
    """Integers in the order of the numbers, with neighbours one apart; +0 and -0 are 0."""
    if format in _integers:
        return codes.view(_dtypes[format]).astype(np.int64)
    if format in _unsigned:
        return codes.astype(np.int64)
    sign = 1 << (_bits_of[format] - 1) if format != "tf32" else 1 << 31
    magnitude = (codes & codes.dtype.type(sign - 1)).astype(np.int64)
    return np.where((codes & codes.dtype.type(sign)) != 0, -magnitude, magnitude)


def _where(places: np.ndarray, shape: tuple[int, ...]) -> list[str]:
    """The rows and columns with differences: "rows 8..15 of every 16, all columns"."""
    if len(shape) < 2 or not len(places):
        return []
    axes = [
        f"{name} {_pattern(np.unique(places[:, axis]), shape[axis])}" for axis, name in ((-2, "rows"), (-1, "columns"))
    ]
    return [", ".join(axes)]


def _pattern(places: np.ndarray, extent: int) -> str:
    """A short description of indices: all, a range, a step, or a periodic range."""
    if len(places) == extent:
        return "all"
    first, last = int(places[0]), int(places[-1])
    if len(places) == 1:
        return f"{first} alone"
    if last - first + 1 == len(places):
        return f"{first}..{last}"
    for period in range(2, extent // 2 + 1):
        if extent % period:
            continue
        within = np.unique(places % period)
        if len(within) < period and len(within) * (extent // period) == len(places):
            low, high = int(within[0]), int(within[-1])
            inside = (
                f"{low}"
                if low == high
                else f"{low}..{high}"
                if high - low + 1 == len(within)
                else ", ".join(str(index) for index in within)
            )
            return f"{inside} of every {period}"
    return f"{len(places)} of {extent}, from {first} to {last}"


__all__ = ["Difference", "assert_bits_equal", "bits_equal", "difference"]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # checkers report such names themselves

    def __getattr__(name: str) -> Any:
        raise no_such_name(__name__, name, __all__)
