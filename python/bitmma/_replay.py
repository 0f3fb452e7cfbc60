# SPDX-License-Identifier: MIT
"""Recomputes a capture of tools/capture.py operator by operator.

Each operator of PyTorch that can be recomputed is a rule of one of four tables: `_views` move elements, `_pointwise` are functions
of one element, `_rows` of a row, `_others` the products, attention and the rest. A rule takes and returns `Value`: an array, and
which of its elements the capture knows.
"""
from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from . import operators
from ._arguments import public, unchecked
from ._errors import Error, count_of, flag_of, refuse, shown, threads_of
from ._gemm import find_plans, gemm, generated
from .math import c as c_function
from ._philox import uniform_of_torch

FORMAT = "bitmma-capture/1"
_dtypes: dict[str, Any] = {
    "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64, "int8": np.int8,
    "uint8": np.uint8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "bool": np.bool_,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}  # fmt: skip
_stored = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "I8": "int8", "U8": "uint8", "I16": "int16",
           "I32": "int32", "I64": "int64", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}  # fmt: skip
_floats = ("float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2")


class CannotSay(Exception):
    """Why an operator is not recomputed."""


class Value(NamedTuple):
    array: np.ndarray
    known: np.ndarray | None = None
    """Of the same shape; None: all elements are known."""

    def mask(self) -> np.ndarray:
        return np.broadcast_to(np.True_, self.array.shape) if self.known is None else self.known

    def whole(self, what: str) -> np.ndarray:
        if self.known is not None and not self.known.all():
            raise CannotSay(f"{what} is not known whole")
        return self.array

    def words(self) -> np.ndarray:
        return self.array.view(f"u{self.array.dtype.itemsize}") if self.array.dtype.kind != "b" else self.array


class Tensor(NamedTuple):
    """What the capture tells about an output."""

    dtype: np.dtype
    shape: tuple[int, ...]


class Call(NamedTuple):
    """The operator that a rule recomputes."""

    outputs: list[Tensor | None]
    kernels: list[str] | None
    slices: int
    machine: dict[str, Any]
    rows: int | None
    threads: int
    generator: dict[str, int] | None


# ---------------------------------------------------------------------------------------------------------------------
# Elements that move

_Rule = Callable[..., Any]
_views: dict[str, _Rule] = {}
_pointwise: dict[str, _Rule] = {}
_rows: dict[str, _Rule] = {}
_others: dict[str, _Rule] = {}


def _rule(table: dict[str, _Rule], *names: str) -> Callable[[_Rule], _Rule]:
    def add(function: _Rule) -> _Rule:
        table.update(dict.fromkeys(names, function))
        return function

    return add


def _sizes(shape: tuple[int, ...], sizes: Iterable[int]) -> tuple[int, ...]:
    """Sizes of `expand`: -1 keeps an extent."""
    wanted = tuple(sizes)
    old = (1,) * (len(wanted) - len(shape)) + shape
    return tuple(have if want == -1 else want for want, have in zip(wanted, old))


def _sliced(x: np.ndarray, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> np.ndarray:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, None if end is None or end > 2**62 else end, step),)]


def _squeezed(x: np.ndarray, dims: Any = None) -> np.ndarray:
    if dims is None:
        return x.squeeze()
    listed = [one % x.ndim for one in (dims if isinstance(dims, list) else [dims])]
    return x.squeeze(tuple(one for one in listed if x.shape[one] == 1))


def _split(x: np.ndarray, sizes: Any, dim: int = 0) -> list[np.ndarray]:
    if isinstance(sizes, int):
        return np.split(x, range(sizes, x.shape[dim], sizes), dim)
    return np.split(x, np.cumsum(sizes)[:-1], dim)


def _as_strided(x: np.ndarray, size: list[int], stride: list[int], offset: int = 0) -> np.ndarray:
    flat = np.ascontiguousarray(x).reshape(-1)
    last = offset + sum((one - 1) * step for one, step in zip(size, stride))
    if len(size) != len(stride) or min([offset, *size, *stride]) < 0 or math.prod(size) and last >= flat.size:
        raise CannotSay("as_strided outside of its tensor")
    return np.lib.stride_tricks.as_strided(flat[offset:], size, [step * flat.itemsize for step in stride], writeable=False)


_views |= {f"aten.{name}": rule for name, rule in {
    "view.default": lambda x, shape: x.reshape(shape), "_unsafe_view.default": lambda x, shape: x.reshape(shape),
    "reshape.default": lambda x, shape: x.reshape(shape), "t.default": lambda x: x.T,
    "transpose.int": lambda x, a, b: x.swapaxes(a, b), "permute.default": lambda x, dims: x.transpose(dims),
    "unsqueeze.default": lambda x, dim: np.expand_dims(x, dim), "squeeze.dim": _squeezed, "squeeze.dims": _squeezed,
    "squeeze.default": _squeezed, "expand.default": lambda x, sizes, implicit=False: np.broadcast_to(x, _sizes(x.shape, sizes)),
    "slice.Tensor": _sliced, "select.int": lambda x, dim, index: x.take(index, dim), "detach.default": lambda x: x,
    "alias.default": lambda x: x, "clone.default": lambda x, memory_format=None: x, "split.Tensor": _split,
    "split_with_sizes.default": _split, "unbind.int": lambda x, dim=0: [x.take(i, dim) for i in range(x.shape[dim])],
    "flip.default": lambda x, dims: np.flip(x, dims), "repeat.default": lambda x, sizes: np.tile(x, sizes),
    "_reshape_alias.default": lambda x, shape, strides: x.reshape(shape), "lift_fresh.default": lambda x: x,
    "contiguous.default": lambda x, memory_format=None: x, "as_strided.default": _as_strided,
}.items()}  # fmt: skip


@_rule(_others, "aten.cat.default", "aten.stack.default")
def _cat(call: Call, parts: list[Value], dim: int = 0) -> Value:
    join = np.stack if call.outputs[0] and len(call.outputs[0].shape) > parts[0].array.ndim else np.concatenate
    taken = [one for one in parts if one.array.ndim > 1 or one.array.size]  # torch skips empty vectors
    known = None if all(one.known is None for one in taken) else join([one.mask() for one in taken], dim)
    return Value(join([one.array for one in taken], dim), known)


@_rule(_others, "aten.embedding.default")
def _embedding(call: Call, weight: Value, rows: Value, padding: int = -1, scale: bool = False, sparse: bool = False) -> Value:
    return _indexed(call, weight, [rows])


@_rule(_others, "aten.index.Tensor")
def _indexed(call: Call, x: Value, at: list[Value | None]) -> Value:
    where = tuple(slice(None) if one is None else one.whole("an index") for one in at)
    return Value(x.array[where], None if x.known is None else x.known[where])


@_rule(_others, "aten.index_select.default")
def _index_select(call: Call, x: Value, dim: int, at: Value) -> Value:
    where = at.whole("the index")
    return Value(x.array.take(where, dim), None if x.known is None else x.known.take(where, dim))


@_rule(_others, "aten.gather.default")
def _gather(call: Call, x: Value, dim: int, at: Value, sparse_grad: bool = False) -> Value:
    where = at.whole("the index")
    return Value(np.take_along_axis(x.array, where, dim), None if x.known is None else np.take_along_axis(x.known, where, dim))


@_rule(_others, "aten.index_put_.default", "aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(call: Call, x: Value, at: list[Value | None], values: Value, accumulate: bool = False) -> Value:
    if accumulate:
        raise CannotSay("index_put adds by atomics: no order of them is fixed")
    where = tuple(slice(None) if one is None else one.whole("an index") for one in at)
    array, known = x.array.copy(), x.mask().copy()
    array[where], known[where] = values.array, values.mask()
    return Value(array, known)


@_rule(_others, "aten.index_copy_.default", "aten.index_copy.default")
def _index_copy(call: Call, x: Value, dim: int, at: Value, values: Value) -> Value:
    where = (slice(None),) * (dim % x.array.ndim) + (at.whole("the index"),)
    array, known = x.array.copy(), x.mask().copy()
    array[where], known[where] = values.array, values.mask()
    return Value(array, known)


@_rule(_others, "aten.index_add_.default", "aten.index_add.default")
def _index_add(call: Call, x: Value, dim: int, at: Value, values: Value, alpha: int = 1) -> Value:
    rows = at.whole("the index")
    if len(np.unique(rows)) != len(rows) or alpha != 1 or dim % x.array.ndim:
        raise CannotSay("index_add_ adds several values to a row: no order of them is fixed")
    array, known = x.array.copy(), x.mask().copy()
    sums = _arithmetic(call._replace(outputs=[Tensor(array.dtype, values.array.shape)]), "add", Value(array[rows], known[rows]), values)
    array[rows], known[rows] = sums.array, sums.mask()
    return Value(array, known)


@_rule(_others, "aten.copy_.default", "aten._to_copy.default", "aten.to.dtype", "aten._to_copy.default")
def _copied(call: Call, x: Value, source: Value | None = None, *more: Any, **options: Any) -> Value:
    given = x if source is None or not isinstance(source, Value) else source
    to = call.outputs[0]
    assert to is not None
    return Value(np.broadcast_to(_rounded(given.array, to.dtype), to.shape), None if given.known is None else np.broadcast_to(given.known, to.shape))


def _rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Converted as the GPU does: NaN of 16-bit types is 7FFF."""
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
    if dtype.itemsize == 2 and made.dtype.kind not in "iub" and array.dtype.kind not in "iub":
        wrong = np.isnan(made.astype(np.float32))
        if wrong.any():
            made = made.copy()
            made.view(np.uint16)[wrong] = 0x7FFF
    return made


# ---------------------------------------------------------------------------------------------------------------------
# Functions of one element

_signs = {2: 0x8000, 4: 0x80000000, 8: 1 << 63, 1: 0x80}


def _value(given: Any) -> Value:
    if isinstance(given, Value):
        return given
    if not isinstance(given, (bool, int, float, np.generic)):
        raise TypeError(f"{shown(given)} where a tensor or a number is expected")
    return Value(np.asarray(given))


def _arithmetic(call: Call, name: str, *given: Any) -> Value:
    """A function of elements in the type of the output: f32 arithmetic, one rounding to 16 bits."""
    to = call.outputs[0]
    assert to is not None
    values = [_value(one) for one in given]
    known = None
    if any(one.known is not None for one in values):
        known = np.logical_and.reduce([np.broadcast_to(one.mask(), to.shape) for one in values])
    arrays = [np.broadcast_to(one.array, to.shape) for one in values]
    if known is not None:
        arrays = [one[known] for one in arrays]
    elif all(one.size == 1 or one.shape == to.shape for one in arrays):
        arrays = [np.ascontiguousarray(one) for one in arrays]
    if to.dtype.kind in "iub":
        made = _exact[name](*arrays).astype(to.dtype) if arrays[0].size else np.zeros(arrays[0].shape, to.dtype)
    elif to.dtype == np.float64:
        if name not in ("add", "sub", "mul", "div", "sqrt"):
            raise CannotSay(f"{name} of float64")
        with np.errstate(all="ignore"):
            made = _exact[name](*(one.astype(np.float64) for one in arrays))
    elif not arrays[0].size:
        made = np.zeros(arrays[0].shape, to.dtype)
    else:
        if any(one.dtype == np.float64 for one, value in zip(arrays, given) if isinstance(value, Value) and value.array.ndim):
            raise CannotSay("float64 mixed with other types")
        wide = [np.ascontiguousarray(one.astype(np.float32)) for one in arrays]
        made = _rounded(operators.elementwise(name, *wide, threads=call.threads), to.dtype)
    if known is None:
        return Value(made.reshape(to.shape))
    array = np.zeros(to.shape, to.dtype)
    array[known] = made
    return Value(array, known)


_exact: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "sqrt": np.sqrt, "neg": np.negative, "abs": np.abs}


def _binary(name: str) -> _Rule:
    def rule(call: Call, x: Any, y: Any, alpha: Any = 1) -> Value:
        if alpha != 1:
            raise CannotSay(f"{name} with alpha = {alpha}")
        is_number = not isinstance(y, Value)
        if name == "div" and is_number and call.outputs[0] and call.outputs[0].dtype.kind not in "iub":
            # On CUDA a tensor is multiplied by the reciprocal of a number.
            return _arithmetic(call, "mul", x, np.float32(1) / np.float32(y))
        return _arithmetic(call, name, x, y)

    return rule


def _unary(name: str) -> _Rule:
    return lambda call, x: _arithmetic(call, name, x)


for _name in ("add", "sub", "mul", "div"):
    for _form in ("Tensor", "Scalar"):
        _pointwise[f"aten.{_name}.{_form}"] = _pointwise[f"aten.{_name}_.{_form}"] = _binary(_name)
for _name in ("exp", "exp2", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "erf", "sigmoid", "silu",
              "relu"):  # fmt: skip
    _pointwise[f"aten.{_name}.default"] = _pointwise[f"aten.{_name}_.default"] = _unary(_name)
_pointwise["aten.rsub.Scalar"] = lambda call, x, y, alpha=1: _binary("sub")(call, y, x, alpha)


@_rule(_pointwise, "aten.gelu.default")
def _gelu(call: Call, x: Value, approximate: str = "none") -> Value:
    return _arithmetic(call, "gelu_tanh" if approximate == "tanh" else "gelu", x)


@_rule(_pointwise, "aten.pow.Tensor_Scalar", "aten.pow_.Scalar")
def _pow(call: Call, x: Value, exponent: float) -> Value:
    names = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if exponent not in names:
        raise CannotSay(f"pow with exponent {exponent}")
    return _arithmetic(call, names[exponent], x)


def _selecting(function: Callable[..., Any]) -> _Rule:
    """Functions that select, compare, or change a sign: exact in any type."""

    def rule(call: Call, *given: Any, **options: Any) -> Value:
        to = call.outputs[0]
        assert to is not None
        values = [None if one is None else _value(one) for one in given]
        masks = [one.mask() for one in values if one is not None and one.known is not None]
        known = np.logical_and.reduce([np.broadcast_to(one, to.shape) for one in masks]) if masks else None
        with np.errstate(all="ignore"):
            made = np.asarray(function(*(None if one is None else one.array for one in values), **options))
        return Value(np.broadcast_to(made.astype(to.dtype, copy=False), to.shape), known)

    return rule


def _negated(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "iu":
        return np.negative(x)
    return (x.view(f"u{x.dtype.itemsize}") ^ np.array(_signs[x.dtype.itemsize], f"u{x.dtype.itemsize}")).view(x.dtype)


def _clamped(x: np.ndarray, low: Any = None, high: Any = None) -> np.ndarray:
    if np.isnan(x.astype(np.float32)).any():
        raise CannotSay("clamp of NaN")
    x = x if low is None else np.where(x < low, np.asarray(low).astype(x.dtype), x)
    return x if high is None else np.where(x > high, np.asarray(high).astype(x.dtype), x)


def _greater(x: np.ndarray, y: np.ndarray, sign: int) -> np.ndarray:
    if np.isnan(x.astype(np.float32)).any() or np.isnan(y.astype(np.float32)).any() or ((x == 0) & (y == 0)).any():
        raise CannotSay("maximum or minimum of NaN or of two zeros")
    return np.where(x > y if sign > 0 else x < y, x, y)


_selections: dict[str, Callable[..., Any]] = {
    "neg.default": _negated, "abs.default": np.abs, "where.self": np.where, "clamp.default": _clamped, "clamp_min.default": _clamped,
    "clamp_max.default": lambda x, high: _clamped(x, None, high), "maximum.default": lambda x, y: _greater(x, y, 1),
    "minimum.default": lambda x, y: _greater(x, y, -1), "masked_fill.Scalar": lambda x, mask, value: np.where(mask, value.astype(x.dtype), x),
    "masked_fill_.Scalar": lambda x, mask, value: np.where(mask, value.astype(x.dtype), x),
    "masked_fill.Tensor": lambda x, mask, value: np.where(mask, value.astype(x.dtype), x),
    "eq.Tensor": np.equal, "eq.Scalar": np.equal, "ne.Tensor": np.not_equal, "ne.Scalar": np.not_equal, "lt.Tensor": np.less, "lt.Scalar": np.less,
    "le.Tensor": np.less_equal, "le.Scalar": np.less_equal, "gt.Tensor": np.greater, "gt.Scalar": np.greater, "ge.Tensor": np.greater_equal,
    "ge.Scalar": np.greater_equal, "logical_not.default": np.logical_not, "logical_and.default": np.logical_and,
    "logical_or.default": np.logical_or, "bitwise_not.default": np.invert, "bitwise_and.Tensor": np.bitwise_and,
    "bitwise_or.Tensor": np.bitwise_or, "fill_.Scalar": lambda x, value: value, "zero_.default": lambda x: np.zeros((), x.dtype),
    "floor_divide.default": np.floor_divide, "remainder.Scalar": np.remainder,
    "triu.default": lambda x, diagonal=0: np.triu(x, int(diagonal)), "tril.default": lambda x, diagonal=0: np.tril(x, int(diagonal)),
}  # fmt: skip
_pointwise |= {f"aten.{name}": _selecting(function) for name, function in _selections.items()}


@_rule(_others, "aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten.ones.default", "aten.ones_like.default",
       "aten.new_ones.default")  # fmt: skip
def _constant(call: Call, *given: Any, **options: Any) -> Value:
    raise AssertionError  # replaced below: which constant depends on the name


for _name, _number in (("zeros", 0), ("ones", 1)):
    for _form in (f"{_name}.default", f"{_name}_like.default", f"new_{_name}.default"):
        _others[f"aten.{_form}"] = lambda call, *given, _number=_number, **options: Value(np.full(call.outputs[0].shape, _number, call.outputs[0].dtype))
_others["aten.full.default"] = lambda call, size, value, **options: Value(np.full(call.outputs[0].shape, value, call.outputs[0].dtype))
_others["aten.full_like.default"] = lambda call, x, value, **options: Value(np.full(call.outputs[0].shape, value, call.outputs[0].dtype))
_others["aten.scalar_tensor.default"] = lambda call, value, **options: Value(np.asarray(value, call.outputs[0].dtype))


@_rule(_others, "aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def _arange(call: Call, *given: Any, **options: Any) -> Value:
    to = call.outputs[0]
    assert to is not None
    if to.dtype.kind not in "iu" and not all(float(one).is_integer() for one in given):
        raise CannotSay("arange with steps that are no whole numbers")
    return Value(np.arange(*given).astype(to.dtype))


# ---------------------------------------------------------------------------------------------------------------------
# Functions of a row


def _by_rows(call: Call, x: Value, compute: Callable[[np.ndarray, list[int], int], list[np.ndarray]]) -> list[Value]:
    """`compute` takes known rows, their numbers and the number of all rows, and returns arrays with these rows."""
    matrix = x.array.reshape(-1, x.array.shape[-1])
    known = None if x.known is None else x.known.reshape(matrix.shape).all(-1)
    numbers = np.arange(len(matrix)) if known is None else np.flatnonzero(known)
    if not len(numbers):
        raise CannotSay("no row of its input is known")
    results = []
    for made in compute(np.ascontiguousarray(matrix[numbers]), [int(one) for one in numbers], len(matrix)):
        made = made.reshape(len(numbers), -1)
        array = np.zeros((len(matrix), made.shape[1]), made.dtype)
        array[numbers] = made
        mask = np.zeros(array.shape, bool)
        mask[numbers] = True
        results.append(Value(array, None if known is None else mask))
    return results


def _shaped(value: Value, to: Tensor | None) -> Value:
    assert to is not None
    return Value(value.array.reshape(to.shape), None if value.known is None else value.known.reshape(to.shape))


def _last(x: Value, dims: Any) -> None:
    listed = dims if isinstance(dims, list) else [dims]
    if [one % x.array.ndim for one in listed] != [x.array.ndim - 1]:
        raise CannotSay(f"over dimension {dims}, not the last one")


@_rule(_rows, "aten._softmax.default", "aten._log_softmax.default")
def _softmax(call: Call, x: Value, dim: int, half_to_float: bool = False, logarithm: bool = False) -> Value:
    _last(x, dim)
    to = call.outputs[0]
    assert to is not None
    function = operators.log_softmax if logarithm else operators.softmax
    made = _by_rows(call, x, lambda rows, at, whole: [function(rows, dtype=to.dtype.type, rows=at, whole=whole, threads=call.threads)])
    return _shaped(made[0], to)


_rows["aten._log_softmax.default"] = lambda call, x, dim, half=False: _softmax(call, x, dim, half, True)


def _reduction(name: str) -> _Rule:
    def rule(call: Call, x: Value, dims: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
        to = call.outputs[0]
        assert to is not None
        if x.array.dtype.kind in "iub":
            axes = None if not dims else tuple(dims) if isinstance(dims, list) else dims
            return Value(np.sum(x.whole("its input"), axes, dtype=to.dtype).reshape(to.shape))
        if dims is None or dims == []:
            return Value(np.asarray(getattr(operators, name)(np.ascontiguousarray(x.whole("its input")), None, dtype=to.dtype.type)).reshape(to.shape))
        _last(x, dims)
        made = _by_rows(call, x, lambda rows, at, whole: [getattr(operators, name)(rows, dtype=to.dtype.type, rows=at, whole=whole, threads=call.threads)])
        return _shaped(made[0], to)

    return rule


_rows |= {"aten.mean.dim": _reduction("mean"), "aten.sum.dim_IntList": _reduction("sum"), "aten.sum.default": _reduction("sum"),
          "aten.mean.default": _reduction("mean")}  # fmt: skip


@_rule(_rows, "aten.amax.default")
def _amax(call: Call, x: Value, dims: Any, keepdim: bool = False) -> Value:
    _last(x, dims)
    return _shaped(_by_rows(call, x, lambda rows, at, whole: [operators.amax(rows, threads=call.threads)])[0], call.outputs[0])


@_rule(_rows, "aten.argmax.default")
def _argmax(call: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    if dim is None:
        x = Value(x.whole("its input").reshape(1, -1))
    else:
        _last(x, dim)
    return _shaped(_by_rows(call, x, lambda rows, at, whole: [operators.argmax(rows, threads=call.threads).astype(np.int64)])[0], call.outputs[0])


@_rule(_rows, "aten.max.dim")
def _max(call: Call, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    _last(x, dim)
    made = _by_rows(call, x, lambda rows, at, whole: [operators.amax(rows), operators.argmax(rows).astype(np.int64)])
    return [_shaped(one, to) for one, to in zip(made, call.outputs)]


@_rule(_rows, "aten.topk.default", "aten.sort.default")
def _topk(call: Call, x: Value, count: int = -1, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> list[Value]:
    _last(x, dim)
    if not largest or not is_sorted:
        raise CannotSay("topk of the smallest, or unsorted")
    columns = call.outputs[0].shape[-1] if call.outputs[0] else count

    def compute(rows: np.ndarray, at: list[int], whole: int) -> list[np.ndarray]:
        wide = rows.astype(np.float64)
        if np.isnan(wide).any():
            raise CannotSay("topk of NaN")
        order = np.argsort(-wide, -1, kind="stable")
        taken = np.take_along_axis(wide, order, -1)
        # The order of equal numbers is not fixed: their places are left open.
        same = np.pad(taken[:, 1:] == taken[:, :-1], ((0, 0), (1, 1)))
        is_open = (same[:, 1:] | same[:, :-1])[:, :columns]
        return [np.take_along_axis(rows, order[:, :columns], -1), order[:, :columns].astype(np.int64), ~is_open]

    values, places, fixed = _by_rows(call, x, compute)
    places = Value(places.array, places.mask() & fixed.array)
    return [_shaped(one, to) for one, to in zip((values, places), call.outputs)]


@_rule(_rows, "aten.sort.default")
def _sort(call: Call, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    if not descending:
        raise CannotSay("sort of ascending order")
    return _topk(call, x, -1, dim)


@_rule(_rows, "aten.native_layer_norm.default")
def _layer_norm(call: Call, x: Value, shape: list[int], weight: Value | None, bias: Value | None, eps: float) -> list[Value]:
    if len(shape) != 1:
        raise CannotSay("a norm over several dimensions")
    w, b = (None if one is None else one.whole("a weight") for one in (weight, bias))
    made = _by_rows(call, x, lambda rows, at, whole: list(operators.layer_norm(rows, w, b, eps, return_moments=True, threads=call.threads)))
    return [_shaped(one, to) for one, to in zip(made, call.outputs)]


@_rule(_rows, "aten._fused_rms_norm.default")
def _rms_norm(call: Call, x: Value, shape: list[int], weight: Value | None, eps: float | None) -> list[Value | None]:
    if len(shape) != 1:
        raise CannotSay("a norm over several dimensions")
    w = None if weight is None else weight.whole("the weight")
    if eps is None:
        eps = float(ml_dtypes.finfo(x.array.dtype).eps)
    given: float = eps
    made = _by_rows(call, x, lambda rows, at, whole: [operators.rms_norm(rows, w, given, threads=call.threads)])
    return [_shaped(made[0], call.outputs[0]), None]


@_rule(_others, "aten.nonzero.default")
def _nonzero(call: Call, x: Value) -> Value:
    return Value(np.argwhere(x.whole("its input")).astype(np.int64))


@_rule(_others, "aten.cumsum.default")
def _cumsum(call: Call, x: Value, dim: int, dtype: Any = None) -> Value:
    if x.array.dtype.kind not in "iub" or call.outputs[0] is None:
        raise CannotSay("cumsum of floating-point numbers")
    return Value(np.cumsum(x.whole("its input"), dim, dtype=call.outputs[0].dtype))


def _exponential_numbers(call: Call, shape: tuple[int, ...]) -> np.ndarray:
    if call.generator is None:
        raise CannotSay("the state of the random generator was not captured")
    uniform = uniform_of_torch(math.prod(shape), call.generator["seed"], call.generator["offset"], call.machine["multiprocessors"])
    half = np.float32(2.0**-24)
    logarithm = c_function("__logf", uniform)
    return np.where(uniform >= 1 - half, half, -logarithm).reshape(shape)


@_rule(_others, "aten.exponential_.default")
def _exponential(call: Call, x: Value, rate: float = 1, generator: Any = None) -> Value:
    if rate != 1 or x.array.dtype != np.float32:
        raise CannotSay("exponential_ of another rate than 1, or of another type than float32")
    return Value(_exponential_numbers(call, x.array.shape))


@_rule(_others, "aten.multinomial.default")
def _multinomial(call: Call, x: Value, count: int, replacement: bool = False, generator: Any = None) -> Value:
    """The largest of p / q, where q are exponential numbers."""
    p = x.whole("the probabilities")
    if count != 1 or p.dtype != np.float32:
        raise CannotSay("multinomial of several samples, or of another type than float32")
    quotients = p / _exponential_numbers(call, p.shape)
    return Value(np.argmax(quotients, -1, keepdims=True).astype(np.int64))


# ---------------------------------------------------------------------------------------------------------------------
# Products and attention


def _product_names(call: Call) -> str:
    if not call.kernels:
        raise CannotSay("the capture has no kernel names of it")
    return " + ".join(call.kernels)


class Product(NamedTuple):
    """The operands of a product, of the rows that are known."""

    a: np.ndarray
    b: np.ndarray
    options: dict[str, Any]
    numbers: np.ndarray


def _product(call: Call, a: Value, b: Value, **options: Any) -> Value:
    to = call.outputs[0]
    assert to is not None
    names, right = _product_names(call), b.whole("B")
    if a.array.ndim == 3:
        left = a.whole("A")
        return Value(_gemm(call, names, left, right, options))
    known = None if a.known is None else a.known.all(-1)
    numbers = np.arange(len(a.array)) if known is None else np.flatnonzero(known)
    if call.rows is not None and len(numbers) > call.rows:
        numbers = numbers[np.linspace(0, len(numbers) - 1, call.rows).astype(int)]
    if not len(numbers):
        raise CannotSay("no row of A is known")
    for name in ("c", "scale_a"):
        given = options.get(name)
        if given is not None and np.ndim(given) == 2 and len(given) == len(a.array):
            options[name] = given[numbers]
    made = _gemm(call, names, np.ascontiguousarray(a.array[numbers]), right, options)
    if len(numbers) == len(a.array):
        return Value(made)
    array, mask = np.zeros(to.shape, made.dtype), np.zeros(to.shape, bool)
    array[numbers], mask[numbers] = made, True
    return Value(array, mask)


def _gemm(call: Call, names: str, a: np.ndarray, b: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    to = call.outputs[0]
    assert to is not None
    try:
        made = gemm(a, b, kernel=names, split_k=call.slices, threads=call.threads, **options)
    except Error as error:
        raise CannotSay(f"no plan is known: {str(error).splitlines()[0]}") from None
    if made.dtype != to.dtype:
        raise CannotSay(f"the kernel's D is {made.dtype}, the output {to.dtype}")
    return made


@_rule(_others, "aten.mm.default", "aten.bmm.default", "aten.mm.dtype", "aten.bmm.dtype", "aten._int_mm.default")
def _mm(call: Call, a: Value, b: Value, dtype: Any = None) -> Value:
    return _product(call, a, b)


@_rule(_others, "aten.addmm.default", "aten._addmm_activation.default")
def _addmm(call: Call, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1, use_gelu: bool = False, relu: bool = False) -> Value:
    if use_gelu:
        raise CannotSay("the gelu of cuBLAS' epilogue")
    more = {name: value for name, value in (("alpha", alpha), ("beta", beta), ("relu", relu)) if value not in (1, False)}
    added = c.whole("C")
    return _product(call, a, b, **({"bias": added} if added.ndim == 1 else {"c": added}), **more)


_others["aten._addmm_activation.default"] = lambda call, c, a, b, beta=1, alpha=1, use_gelu=False: _addmm(call, c, a, b, beta, alpha, use_gelu, True)


@_rule(_others, "aten._scaled_mm.default")
def _scaled_mm(call: Call, a: Value, b: Value, scale_a: Value, scale_b: Value, bias: Value | None = None, scale_result: Value | None = None,
               out_dtype: Any = None, use_fast_accum: bool = False) -> Value:
    if scale_result is not None:
        raise CannotSay("_scaled_mm with a scale of its result")
    scales = {"scale_a": scale_a.whole("scale_a"), "scale_b": scale_b.whole("scale_b")}
    if all(one.size == 1 for one in scales.values()):
        scales = {name: np.float32(one.reshape(())) for name, one in scales.items()}
        if all(one == 1 for one in scales.values()):
            scales = {}
    return _product(call, a, b, **scales, **({} if bias is None else {"bias": bias.whole("the bias")}))


def _attention(call: Call, q: Value, k: Value, v: Value, **options: Any) -> list[Value]:
    keys, values = k.whole("K"), v.whole("V")
    out, lse = operators.attention(np.ascontiguousarray(q.array), np.ascontiguousarray(keys), np.ascontiguousarray(values), return_lse=True,
                                   threads=call.threads, **options)  # fmt: skip
    if q.known is None:
        return [Value(out), Value(lse)]
    known = np.asarray(q.known.all(-1))
    return [Value(out, np.broadcast_to(known[..., None], out.shape)), Value(lse, known)]


@_rule(_others, "aten._scaled_dot_product_flash_attention.default")
def _flash(call: Call, q: Value, k: Value, v: Value, dropout: float = 0, is_causal: bool = False, debug: bool = False, scale: float | None = None,
           **more: Any) -> list[Value]:
    if dropout:
        raise CannotSay("attention with dropout")
    return _attention(call, q, k, v, is_causal=is_causal, **({} if scale is None else {"scale": scale}), **more)


@_rule(_others, "aten._scaled_dot_product_efficient_attention.default")
def _efficient(call: Call, q: Value, k: Value, v: Value, bias: Value | None, compute_lse: bool, dropout: float = 0, is_causal: bool = False,
               scale: float | None = None) -> list[Value]:
    if dropout or bias is not None:
        raise CannotSay("memory-efficient attention with dropout or a bias")
    made = _attention(call, q, k, v, is_causal=is_causal, backend="efficient", **({} if scale is None else {"scale": scale}))
    return made[:1]


@_rule(_others, "aten._scaled_dot_product_cudnn_attention.default")
def _cudnn(call: Call, q: Value, k: Value, v: Value, bias: Value | None, compute_lse: bool, dropout: float = 0, is_causal: bool = False,
           debug: bool = False, scale: float | None = None) -> list[Value | None]:
    if dropout or bias is not None:
        raise CannotSay("cuDNN's attention with dropout or a bias")
    if unknown := [name for name in call.kernels or ["(not captured)"] if "sm90_flash_fprop_wgmma" not in name]:
        raise CannotSay(f"no rule is known for cuDNN's kernel {unknown[0]}")
    out, lse = _attention(call, q, k, v, is_causal=is_causal, backend="cudnn", **({} if scale is None else {"scale": scale}))
    return [out, None if call.outputs[1] is None else _shaped(lse, call.outputs[1])]


# ---------------------------------------------------------------------------------------------------------------------
# The capture


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    try:
        with open(path, "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            if size > 1 << 28:
                raise refuse(str(path), f"a header of {size} bytes", "safetensors")
            header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        data = np.memmap(path, np.uint8, "r", 8 + size) if os.path.getsize(path) > 8 + size else np.zeros(0, np.uint8)
        found = {}
        for name, one in header.items():
            begin, end = one["data_offsets"]
            if one["dtype"] in _stored:
                dtype = np.dtype(_dtypes[_stored[one["dtype"]]])
                if not 0 <= begin <= end <= len(data) or (end - begin) != math.prod(one["shape"]) * dtype.itemsize:
                    raise refuse(str(path), f"tensor {shown(name)} with places {begin} to {end}", "places inside of the file, of its shape")
                found[name] = data[begin:end].view(dtype).reshape(one["shape"])
        return found
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, Error):
            raise
        raise refuse(str(path), "not readable", "a safetensors file", str(error)) from None


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 2**40 for one in value) and math.prod(value) < 2**36


def _is_sampled(one: dict[str, Any], stored: np.ndarray | None) -> bool:
    """Whether the rows that a tensor stores are rows of it, and those of the file."""
    sampled, shape = one.get("sampled"), one["shape"]
    if sampled is None:
        return stored is None or list(stored.shape) == shape
    order, leading, rows = (sampled.get(name) for name in ("order", "leading", "rows"))
    if stored is None or not isinstance(order, list) or sorted(order) != list(range(len(shape))) or type(leading) is not int:
        return False
    count = math.prod(shape[at] for at in order[:leading])
    return (0 < leading < len(shape) and isinstance(rows, list) and all(type(row) is int and 0 <= row < count for row in rows)
            and list(stored.shape) == [len(rows), math.prod(shape) // max(count, 1)])


def _checked(graph: dict[str, Any], data: dict[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """The parts of graph.json, with fields of the types that are read below."""
    def need(is_right: bool, field: str, seen: Any, legal: str) -> None:
        if not is_right:
            raise refuse(f"graph.json: {field}", shown(seen), legal)

    machine, tensors, operators = (graph.get(name) for name in ("machine", "tensors", "operators"))
    need(isinstance(machine, dict), "machine", machine, "an object")
    need(isinstance(tensors, dict), "tensors", tensors, "an object")
    need(isinstance(operators, list), "operators", operators, "a list")
    assert isinstance(machine, dict) and isinstance(tensors, dict) and isinstance(operators, list)
    need(type(machine.get("multiprocessors", 132)) is int and machine.get("multiprocessors", 132) > 0, "multiprocessors",
         machine.get("multiprocessors"), "a whole number above 0")
    for number, one in tensors.items():
        field = f"tensor {shown(number)}"
        need(isinstance(one, dict) and isinstance(one.get("dtype"), str) and isinstance(one.get("role"), str) and _is_shape(one.get("shape")), field, one,
             "dtype, role and a shape of whole numbers")
        need(one["role"] != "weight" or isinstance(one.get("name"), str) and isinstance(one.get("sha256"), str), field, one, "a weight's name and sha256")
        stored = data.get(number)
        if stored is not None and one["dtype"] in _dtypes:
            need(stored.dtype == np.dtype(_dtypes[one["dtype"]]), field, f"{stored.dtype} in tensors.safetensors", one["dtype"])
        need(not isinstance(one.get("sampled", {}), dict) or _is_sampled(one, stored), field, one, "rows of its shape, stored in tensors.safetensors")
        need(isinstance(one.get("sampled", {}), dict), field, one, "sampled: order, leading and rows")
    for index, one in enumerate(operators):
        field = f"operator {index}"
        need(isinstance(one, dict) and isinstance(one.get("op"), str) and isinstance(one.get("args"), list) and isinstance(one.get("kwargs"), dict)
             and isinstance(one.get("outputs"), list), field, one, "op, args, kwargs and outputs")
        outputs = [number for number in one["outputs"] if isinstance(number, str)]
        read = [*outputs, *_tensors_in(one["args"]), *_tensors_in(list(one["kwargs"].values()))]
        need(all(isinstance(number, str) and number in tensors for number in read), field, read, "tensors that graph.json describes")
        one["outputs"] = [number if isinstance(number, str) else None for number in one["outputs"]]
        kernels = one.get("kernels", [])
        need(isinstance(kernels, list) and all(isinstance(kernel, dict) and isinstance(kernel.get("name"), str) for kernel in kernels), field, kernels,
             "kernels with names")
        need(type(one.get("slices", 0)) is int and 0 <= one.get("slices", 0) < 2**20, field, one.get("slices"), "slices: a whole number")
        state = one.get("generator", {"seed": 0, "offset": 0})
        need(isinstance(state, dict) and all(type(state.get(name)) is int and 0 <= state[name] < 2**64 for name in ("seed", "offset")), field, state,
             "a generator with seed and offset")
    return machine, tensors, operators


class Capture:
    """What tools/capture.py wrote."""

    def __init__(self, path: Path, weights: Iterable[Path] = ()):
        self.path = path
        try:
            graph = json.loads((path / "graph.json").read_text())
        except OSError as error:
            raise Error(f"{path / 'graph.json'}: {error.strerror}. tools/capture.py writes a folder with this file") from None
        except ValueError as error:
            raise refuse(str(path / "graph.json"), "not readable", "JSON", str(error)) from None
        if not isinstance(graph, dict) or graph.get("format") != FORMAT:
            raise refuse("format", shown(graph.get("format") if isinstance(graph, dict) else graph), FORMAT)
        self.data = _read_safetensors(path / "tensors.safetensors")
        self.machine, self.tensors, self.operators = _checked(graph, self.data)
        self.weights: dict[str, np.ndarray] = {}
        for file in weights:
            self.weights |= _read_safetensors(file)
        self.loaded: dict[str, np.ndarray] = {}

    def about(self, number: str | None) -> Tensor | None:
        if number is None:
            return None
        one = self.tensors[number]
        return Tensor(np.dtype(_dtypes[one["dtype"]]), tuple(one["shape"])) if one["dtype"] in _dtypes else None

    def weight(self, number: str) -> Value:
        if number not in self.loaded:
            self.loaded[number] = self.load(number)
        return Value(self.loaded[number])

    def load(self, number: str) -> np.ndarray:
        one, about = self.tensors[number], self.about(number)
        assert about is not None
        name, source = one["name"], one.get("source")
        if number in self.data:
            made = np.array(self.data[number])
        elif name in self.weights:
            made = np.asarray(self.weights[name])
        elif isinstance(source, dict) and source.get("generator") == "philox4x32-10/triangle" and len(about.shape) == 2:
            made = generated("bf16" if about.dtype == ml_dtypes.bfloat16 else "f16" if about.dtype == np.float16 else "f32", about.shape, source["seed"],
                             source["stream"])
            made = (made.astype(np.float32) * np.float32(source.get("gain", 1))).astype(about.dtype)
        else:
            raise CannotSay(f"the weight {name} is not in the capture: give the file that has it (weights)")
        if made.shape != about.shape or made.dtype != about.dtype:
            raise CannotSay(f"the weight {name} is {made.dtype} {list(made.shape)} in the file, {about.dtype} {list(about.shape)} in the capture")
        if hashlib.sha256(np.ascontiguousarray(made).view(np.uint8).data).hexdigest() != one["sha256"]:
            raise CannotSay(f"the weight {name} is not the captured one: its SHA-256 differs")
        return made

    def recorded(self, number: str, most: int | None = None) -> Value | None:
        """The stored value; None if nothing of it is stored."""
        if number not in self.data:
            return None
        stored, about, sampled = self.data[number], self.about(number), self.tensors[number].get("sampled")
        if about is None:
            return None
        if sampled is None:
            return Value(np.array(stored).reshape(about.shape))
        order, rows = sampled["order"], sampled["rows"][:most]
        shape = [about.shape[one] for one in order]
        count = math.prod(shape[:sampled["leading"]])
        array, known = np.zeros((count, about_size(shape) // max(count, 1)), about.dtype), np.zeros(count, bool)
        array[rows], known[rows] = stored[:len(rows)].reshape(len(rows), -1), True
        back = np.argsort(order)
        mask = np.broadcast_to(known[:, None], array.shape).reshape(shape).transpose(back)
        return Value(array.reshape(shape).transpose(back), mask)


def about_size(shape: Iterable[int]) -> int:
    return math.prod(shape)


@dataclass(frozen=True)
class Verdict:
    """Of one operator."""

    index: int
    op: str
    status: str
    """"same", "differs", "cannot say", or "moves": an operator that only moves elements or whose outputs are not stored."""
    outputs: int
    """The number of outputs compared."""
    differ: int
    flops: int
    where: str = ""
    why: str = ""
    """What explains a difference, or why nothing can be said."""
    kernels: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = {"same": f"same bits ({self.outputs} outputs)", "differs": f"{self.differ} of {self.outputs} outputs differ", "cannot say": "cannot say",
                "moves": "moves elements"}[self.status]  # fmt: skip
        more = "; ".join(one for one in (self.where, self.why) if one)
        return f"{self.index} {self.op}: {text}{': ' + more if more else ''}"


class Replay(NamedTuple):
    """The verdicts of all operators."""

    verdicts: list[Verdict]
    machine: dict[str, Any]
    seconds: float
    end_to_end: bool

    @property
    def same(self) -> bool:
        """Whether no output differs and something was compared."""
        return not any(one.status == "differs" for one in self.verdicts) and any(one.outputs for one in self.verdicts)

    @property
    def first(self) -> Verdict | None:
        """The first operator whose outputs differ."""
        return next((one for one in self.verdicts if one.status == "differs"), None)

    def coverage(self) -> dict[str, Any]:
        """Which share of the operators and of their floating-point operations was recomputed."""
        counted = [one for one in self.verdicts if one.status != "moves"]
        done = [one for one in counted if one.status != "cannot say"]
        flops = sum(one.flops for one in counted)
        return {"operators": len(counted), "recomputed": len(done), "flops": flops,
                "flops_recomputed": sum(one.flops for one in done), "outputs": sum(one.outputs for one in done),
                "differ": sum(one.differ for one in done)}  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        return {"same": self.same, "machine": self.machine, "end_to_end": self.end_to_end, "seconds": round(self.seconds, 3),
                "coverage": self.coverage(), "operators": [asdict(one) | {"kernels": list(one.kernels)} for one in self.verdicts]}  # fmt: skip

    def __str__(self) -> str:
        c = self.coverage()
        lines = [f"captured on {self.machine.get('gpu', 'a CPU')}, PyTorch {self.machine.get('torch')}"]
        differing = [one for one in self.verdicts if one.status == "differs"]
        lines += [str(one) for one in differing[:10]]
        lines += [f"... and {len(differing) - 10} more that differ"] if len(differing) > 10 else []
        reasons: dict[str, list[Verdict]] = {}
        for one in self.verdicts:
            if one.status == "cannot say":
                reasons.setdefault(f"{one.op}: {one.why}", []).append(one)
        lines += [f"cannot say ({len(found)}): {reason}" for reason, found in reasons.items()]
        if self.machine.get("compiled"):
            lines.append("a compiled model: its Triton kernels are not among the operators; `bitmma verify` repeats those that record_triton.py recorded")
        share = 100 * c["flops_recomputed"] / c["flops"] if c["flops"] else 0
        lines.append(f"{c['recomputed']} of {c['operators']} operators recomputed, {share:.2f} % of the floating-point operations, "
                     f"{c['outputs']} outputs compared, {c['differ']} differ ({self.seconds:.1f} s)")
        return "\n".join(lines)


def _arguments_of(value: Any, values: Callable[[str], Value]) -> Any:
    if isinstance(value, list):
        return [_arguments_of(one, values) for one in value]
    if isinstance(value, dict):
        if "tensor" in value:
            return values(value["tensor"])
        return float.fromhex(value["float"]) if "float" in value else value.get("other")
    return value


def _operator(name: str) -> str:
    """Operators that write into a given tensor, as compiled models call them, have the rule of those that return one."""
    return name.removesuffix("out") + "default" if name.endswith(".out") else name


def _flops(op: str, shapes: list[list[int]], outputs: list[Tensor | None]) -> int:
    size = sum(math.prod(one.shape) for one in outputs[:1] if one)
    if op.startswith(("aten.mm", "aten.bmm", "aten._scaled_mm", "aten._int_mm")) and shapes:
        return 2 * size * shapes[0][-1]
    if op.startswith(("aten.addmm", "aten._addmm")) and len(shapes) > 1:
        return 2 * size * shapes[1][-1]
    if "attention" in op and len(shapes) > 1:
        return 4 * size * shapes[1][-2]
    return size


def _tensors_in(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _tensors_in(one)
    elif isinstance(value, dict) and "tensor" in value:
        yield value["tensor"]


def _compared(made: Value, recorded: Value) -> tuple[int, np.ndarray]:
    """The number of outputs that both know, and the places of those that differ."""
    mask = made.mask() & recorded.mask()
    different = (np.ascontiguousarray(made.array).view(_words(made.array)) != np.ascontiguousarray(recorded.array).view(_words(recorded.array))) & mask
    return int(mask.sum()), np.argwhere(different)


def _words(array: np.ndarray) -> str:
    return f"u{array.dtype.itemsize}"


def _where(places: np.ndarray, shape: tuple[int, ...], compared: int) -> str:
    if len(places) == compared:
        return "all outputs"
    texts = []
    for axis in range(len(shape)):
        seen = np.unique(places[:, axis])
        if len(seen) == 1 and shape[axis] > 1:
            name = "column" if axis == len(shape) - 1 else "row" if axis == len(shape) - 2 else f"index {axis}"
            texts.append(f"{name} {seen[0]}")
    first = ", ".join(str(one) for one in places[0])
    return f"all in {', '.join(texts)}" if texts else f"the first at [{first}]"


class _Run:
    def __init__(self, capture: Capture, rows: int | None, threads: int, end_to_end: bool, explain: bool):
        self.capture, self.rows, self.threads, self.end_to_end, self.explain = capture, rows, threads, end_to_end, explain
        self.values: dict[str, Value] = {}
        self.reasons: dict[str, str] = {}

    def value(self, number: str) -> Value:
        if number in self.values:
            return self.values[number]
        if self.capture.tensors[number]["role"] == "weight":
            return self.capture.weight(number)
        found = self.capture.recorded(number, self.rows)
        if found is None:
            raise CannotSay(self.reasons.get(number, "an input is not stored, and the operator that made it was not recomputed"))
        self.values[number] = found
        return found

    def compute(self, one: dict[str, Any]) -> list[Value | None]:
        op, outputs = _operator(one["op"]), [self.capture.about(number) for number in one["outputs"]]
        args, options = _arguments_of(one["args"], self.value), {name: _arguments_of(value, self.value) for name, value in one["kwargs"].items()}
        if op in _views:
            given, rest = args[0], args[1:]
            options = {name: value for name, value in options.items() if name not in ("memory_format", "dtype", "device")}
            arrays = _views[op](given.array, *rest, **options)
            masks = None if given.known is None else _views[op](given.known, *rest, **options)
            if isinstance(arrays, list):
                return [Value(array, None if masks is None else masks[i]) for i, array in enumerate(arrays)]
            return [Value(arrays, masks)]
        rule = _pointwise.get(op) or _rows.get(op) or _others.get(op)
        if rule is None:
            raise CannotSay("no rule for this operator")
        if rule in _pointwise.values() or op.startswith("aten._to_copy") or rule in _rows.values():
            options = {name: value for name, value in options.items() if name not in ("dtype", "device", "layout", "pin_memory", "non_blocking", "memory_format")}
        call = Call(outputs, [kernel["name"] for kernel in one["kernels"]] if "kernels" in one else None, one.get("slices", 0), self.capture.machine,
                    self.rows, self.threads, one.get("generator"))
        made = rule(call, *args, **options)
        return made if isinstance(made, list) else [made]

    def verdict(self, index: int, one: dict[str, Any]) -> Verdict:
        capture, op = self.capture, one["op"]
        outputs = [capture.about(number) for number in one["outputs"]]
        flops = _flops(op, [capture.tensors[number]["shape"] for number in _tensors_in(one["args"])], outputs)
        kernels = tuple(kernel["name"] for kernel in one.get("kernels", ()))
        made: list[Value | None] | None = None
        try:
            made = self.compute(one)
        except (CannotSay, Error, MemoryError) as error:
            reason = str(error).partition("\n")[0] or "not enough memory"
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"its arguments are not those that the rule expects: {shown(str(error))}"
        if made is None:
            self.reasons |= {number: reason for number in one["outputs"] if number is not None}
            return Verdict(index, op, "moves" if op in _views else "cannot say", 0, 0, flops, why=reason, kernels=kernels)
        compared, differ, where, why = 0, 0, "", ""
        stored = False
        for number, about, value in zip(one["outputs"], outputs, made):
            if number is None or value is None or about is None:
                continue
            if value.array.shape != about.shape or value.array.dtype != about.dtype:
                return Verdict(index, op, "differs", 1, 1, flops, why=f"the output is {about.dtype} {list(about.shape)}, not {value.array.dtype} "
                               f"{list(value.array.shape)}", kernels=kernels)  # fmt: skip
            recorded = capture.recorded(number, self.rows)
            if recorded is not None:
                stored = True
                count, places = _compared(value, recorded)
                compared, differ = compared + count, differ + len(places)
                if len(places) and not where:
                    where = _where(places, about.shape, count)
                    if self.explain and not self.end_to_end:
                        why = self.cause(one, value, recorded, places)
            if self.end_to_end or recorded is None:
                self.values[number] = value
        if differ:
            return Verdict(index, op, "differs", compared, differ, flops, where, why, kernels)
        if not stored:
            return Verdict(index, op, "moves", 0, 0, flops, kernels=kernels)
        if not compared and any(one is not None and one.array.size for one in made):
            return Verdict(index, op, "cannot say", 0, 0, flops, why="no output is known that its inputs give", kernels=kernels)
        return Verdict(index, op, "same", compared, 0, flops, kernels=kernels)

    def cause(self, one: dict[str, Any], made: Value, recorded: Value, places: np.ndarray) -> str:
        """What gives the recorded bits instead."""
        try:
            if _operator(one["op"]) in ("aten.mm.default", "aten.addmm.default"):
                return self.cause_of_product(one, made, recorded, places)
            if "dot_product" in one["op"]:
                return self.cause_of_attention(one, recorded)
        except (CannotSay, Error):
            pass
        return ""

    def cause_of_product(self, one: dict[str, Any], made: Value, recorded: Value, places: np.ndarray) -> str:
        given = _arguments_of(one["args"], self.value)
        bias, (a, b) = (given[0].array if len(given) == 3 else None), given[-2:]
        known = np.flatnonzero((a.mask().all(-1)) & recorded.mask().all(-1))
        rows, cols = np.union1d(np.unique(places[:, 0])[:12], known[:4]), np.unique(places[:, -1])
        if len(cols) == 1 and 2 * len(places) > np.count_nonzero((recorded.mask() & made.mask())[:, cols[0]]):
            return f"other weights of column {cols[0]}"
        # Columns that do not differ exclude plans too.
        cols = np.union1d(cols[:48], np.linspace(0, made.array.shape[-1] - 1, 16).astype(int))
        left, right = np.ascontiguousarray(a.array[rows]), np.ascontiguousarray(b.array[:, cols])
        d = np.ascontiguousarray(recorded.array[rows][:, cols])
        more = None if bias is None or bias.ndim != 1 else bias[cols]
        found = find_plans(left, right, d, bias=more, timeout=15, threads=self.threads)
        if len(found):
            others = f", or of {len(found.families) - 1} other families" if len(found.families) > 1 else ""
            return f"the recorded bits are those of another plan: {found.families[0].name}{others}"
        weights = right.astype(np.float32)
        for text, scale in (("a scale for all", np.abs(b.array.astype(np.float32)).max() / 448), ("a scale for each column", np.abs(weights).max(0) / 448)):
            scale = np.float32(scale) if np.ndim(scale) == 0 else np.where(scale == 0, 1, scale).astype(np.float32)
            rounded = ((weights / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale).astype(b.array.dtype)
            name = " + ".join(kernel["name"] for kernel in one["kernels"])
            if (gemm(left, rounded, bias=more, kernel=name, split_k=one.get("slices", 0)).view(_words(d)) == d.view(_words(d))).all():
                return f"the recorded bits are those of weights that were rounded to e4m3, with {text}"
        for target in ("sm_80", "sm_89", "sm_100a"):
            try:
                other = gemm(left, right, "flat", bias=more, target=target, output={2: "bf16" if d.dtype != np.float16 else "f16", 4: "f32"}[d.dtype.itemsize])
            except Error:
                continue
            if (other.view(_words(d)) == d.view(_words(d))).all():
                return f"the recorded bits are those of one chain over K on {target}"
        return "no plan of the search gives the recorded bits"

    def cause_of_attention(self, one: dict[str, Any], recorded: Value) -> str:
        args = _arguments_of(one["args"], self.value)
        q, k, v = args[:3]
        options = {name: _arguments_of(value, self.value) for name, value in one["kwargs"].items()}
        causal = args[4] if "flash" in one["op"] and len(args) > 4 else args[6] if "efficient" in one["op"] and len(args) > 6 else options.get("is_causal", False)
        scale = {"scale": options["scale"]} if options.get("scale") is not None else {}
        tries = [(f"{splits} parts of the keys", {"splits": splits}) for splits in range(1, 17)] + [("the memory-efficient kernel", {"backend": "efficient"})]
        for text, more in [*tries, ("no causal mask" if causal else "a causal mask", {"is_causal": not causal})]:
            try:
                made = operators.attention(q.array, k.whole("K"), v.whole("V"), **{"is_causal": causal, **scale, **more}, threads=self.threads)
            except Error:
                continue
            if not len(_compared(Value(made, q.known), recorded)[1]):
                return f"the recorded bits are those of {text}"
        return "neither another number of splits, nor the memory-efficient kernel, nor another mask gives the recorded bits"


def _files(weights: Any) -> list[Path]:
    listed = [weights] if isinstance(weights, (str, Path)) else list(weights)
    return [path for one in listed for path in (sorted(Path(one).glob("*.safetensors")) if Path(one).is_dir() else [Path(one)])]


@public(weights=unchecked, rows=unchecked, progress=unchecked)
def replay(capture: str | Path, *, weights: Any = (), rows: int | None = None, end_to_end: bool = False, explain: bool = True,
           threads: int = 0, progress: Callable[[int, int], object] | None = None) -> Replay:
    """Recomputes what tools/capture.py captured on a GPU, operator by operator, and compares every stored bit.

    capture      the folder
    weights      paths of safetensors files with the model's weights, by their names in the model; each is checked by its SHA-256
    rows         at most so many of the stored rows of large tensors, and of products
    end_to_end   True: from the inputs alone. Each operator takes what the one before was computed to give, not what was recorded
    explain      search for what else gives the recorded bits of a product or attention that differs
    threads      0: all cores. No bit depends on it
    progress     called with the number of operators done and of all

    Returns a Replay: `.same`, `.first` (the first operator that differs), `.verdicts`, `.coverage()`; str() prints a summary.
    """
    threads, begun = threads_of(threads), time.monotonic()
    run = _Run(Capture(Path(capture), _files(weights)), None if rows is None else count_of(rows, "rows", 1), threads, flag_of(end_to_end, "end_to_end"),
               flag_of(explain, "explain"))
    verdicts = []
    for index, one in enumerate(run.capture.operators):
        verdicts.append(run.verdict(index, one))
        if progress is not None:
            progress(index + 1, len(run.capture.operators))
    return Replay(verdicts, run.capture.machine, time.monotonic() - begun, run.end_to_end)


@dataclass(frozen=True)
class CapturesCompared:
    """Where two captures of the same operators part."""

    index: int | None
    """The first operator whose outputs differ; None: there is none."""
    op: str
    why: str
    """What differs: the inputs, a weight, the kernels; empty if nothing does."""
    verdicts: tuple[Verdict, ...]
    """Of that operator in both captures."""
    outputs: int
    """The number of outputs that were equal before it."""

    @property
    def same(self) -> bool:
        return self.index is None

    def __str__(self) -> str:
        if self.index is None:
            return f"all {self.outputs} outputs that both captures store are equal"
        lines = [f"operator {self.index}, {self.op}, is the first that differs: {self.why} ({self.outputs} outputs before it are equal)"]
        return "\n".join(lines + [f"{name}: {verdict}" for name, verdict in zip(("first capture", "second capture"), self.verdicts)])


def _first_input_that_differs(runs: tuple[_Run, _Run], ones: tuple[dict[str, Any], dict[str, Any]]) -> str:
    given = [list(_tensors_in(one["args"])) for one in ones]
    for numbers in zip(*given):
        abouts = [run.capture.tensors[number] for run, number in zip(runs, numbers)]
        if abouts[0]["role"] == abouts[1]["role"] == "weight":
            if abouts[0]["sha256"] != abouts[1]["sha256"]:
                return f"the weight {abouts[0]['name']} is another one"
            continue
        values = [run.value(number) for run, number in zip(runs, numbers)]
        if values[0].array.shape != values[1].array.shape or values[0].array.dtype != values[1].array.dtype:
            return f"an input is {values[0].array.dtype} {list(values[0].array.shape)} and {values[1].array.dtype} {list(values[1].array.shape)}"
        if len(_compared(*values)[1]):
            return "the captures begin with different inputs" if abouts[0]["role"] == "input" else "an input differs that no operator before it made"
    return ""


def _recorded_outputs(run: _Run, one: dict[str, Any]) -> list[Value | None]:
    return [None if number is None else run.capture.recorded(number, run.rows) for number in one["outputs"]]


@public(first=unchecked, second=unchecked, weights=unchecked)
def compare_captures(first: str | Path, second: str | Path, *, weights: Any = (), threads: int = 0) -> CapturesCompared:
    """The first operator whose outputs differ in two captures of the same operators, and why: other inputs, another weight,
    another kernel. Each capture's own verdict about this operator tells which of the two follows from its inputs.

    `weights` are paths of safetensors files, as in `replay`.
    """
    files = _files(weights)
    runs = tuple(_Run(Capture(Path(one), files), None, threads_of(threads), False, True) for one in (first, second))
    both = (runs[0], runs[1])
    outputs = 0
    for index, ones in enumerate(zip(both[0].capture.operators, both[1].capture.operators)):
        if ones[0]["op"] != ones[1]["op"]:
            return CapturesCompared(index, ones[0]["op"], f"the other capture has {ones[1]['op']} here", (), outputs)
        stored = [_recorded_outputs(run, one) for run, one in zip(both, ones)]
        differ, moved = False, [number for number, value in zip(ones[0]["outputs"], stored[0]) if number is not None and value is None]
        for pair in zip(*stored):
            if pair[0] is not None and pair[1] is not None:
                if pair[0].array.shape != pair[1].array.shape or pair[0].array.dtype != pair[1].array.dtype:
                    differ = True
                    continue
                count, places = _compared(*pair)
                differ, outputs = differ or bool(len(places)), outputs + (0 if len(places) else count)
        if differ:
            try:
                why = _first_input_that_differs(both, ones)
            except CannotSay as reason:
                why = f"whether its inputs do cannot be said: {reason}"
            if not why:
                names = [" + ".join(kernel["name"] for kernel in one.get("kernels", ())) for one in ones]
                slices = [one.get("slices", 1) for one in ones]
                why = "its inputs agree; " + (f"the kernels are {names[0]} and {names[1]}" if names[0] != names[1] else
                                              f"the kernel splits K into {slices[0]} and {slices[1]}" if slices[0] != slices[1] else
                                              "the captures name the same kernels")
            return CapturesCompared(index, ones[0]["op"], why, tuple(run.verdict(index, one) for run, one in zip(both, ones)), outputs)
        if moved:
            for run, one in zip(both, ones):
                run.verdict(index, one)
    if len(both[0].capture.operators) != len(both[1].capture.operators):
        shorter = min(len(run.capture.operators) for run in both)
        return CapturesCompared(shorter, "(none)", f"the captures have {' and '.join(str(len(run.capture.operators)) for run in both)} operators", (), outputs)
    return CapturesCompared(None, "", "", (), outputs)
