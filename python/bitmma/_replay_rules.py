# SPDX-License-Identifier: MIT
"""How each operator of PyTorch is recomputed: the rules of `bitmma.replay`.

A rule is a row of one of four tables: `views` move elements, `pointwise` are functions of one element, `of_rows` of a
row, `others` are products, attention and the rest. It takes and returns `Value`: an array, and which of its elements
are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from . import math as functions, operators
from ._captured import CannotSay, Differs, Tensor, Value
from ._errors import Error, shown
from ._gemm import gemm
from ._philox import uniform_of_torch


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
views: dict[str, _Rule] = {}
pointwise: dict[str, _Rule] = {}
of_rows: dict[str, _Rule] = {}
others: dict[str, _Rule] = {}


def is_known(op: str) -> bool:
    return any(op in table for table in (views, pointwise, of_rows, others))


def _rule(table: dict[str, _Rule], *names: str) -> Callable[[_Rule], _Rule]:
    def add(function: _Rule) -> _Rule:
        table.update(dict.fromkeys(names, function))
        return function

    return add


def _sizes(shape: tuple[int, ...], sizes: Iterable[int]) -> tuple[int, ...]:
    """Sizes of `expand`: -1 keeps an extent."""
    wanted = tuple(sizes)
    old = (1,) * (len(wanted) - len(shape)) + shape
    return tuple(have if want == -1 else want for want, have in zip(wanted, old, strict=True))


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
    last = offset + sum((one - 1) * step for one, step in zip(size, stride, strict=False))
    if len(size) != len(stride) or min([offset, *size, *stride]) < 0 or (0 not in size and last >= flat.size):
        raise CannotSay("as_strided outside of its tensor")
    return np.lib.stride_tricks.as_strided(
        flat[offset:], size, [step * flat.itemsize for step in stride], writeable=False
    )


_moves: dict[str, Callable[..., Any]] = {
    "view.default": lambda x, shape: x.reshape(shape),
    "_unsafe_view.default": lambda x, shape: x.reshape(shape),
    "reshape.default": lambda x, shape: x.reshape(shape),
    "t.default": lambda x: x.T,
    "transpose.int": lambda x, a, b: x.swapaxes(a, b),
    "permute.default": lambda x, dims: x.transpose(dims),
    "unsqueeze.default": lambda x, dim: np.expand_dims(x, dim),
    "squeeze.dim": _squeezed,
    "squeeze.dims": _squeezed,
    "squeeze.default": _squeezed,
    "expand.default": lambda x, sizes, implicit=False: np.broadcast_to(x, _sizes(x.shape, sizes)),
    "slice.Tensor": _sliced,
    "select.int": lambda x, dim, index: x.take(index, dim),
    "detach.default": lambda x: x,
    "alias.default": lambda x: x,
    "clone.default": lambda x, memory_format=None: x,
    "split.Tensor": _split,
    "split_with_sizes.default": _split,
    "unbind.int": lambda x, dim=0: [x.take(i, dim) for i in range(x.shape[dim])],
    "flip.default": lambda x, dims: np.flip(x, dims),
    "repeat.default": lambda x, sizes: np.tile(x, sizes),
    "_reshape_alias.default": lambda x, shape, strides: x.reshape(shape),
    "lift_fresh.default": lambda x: x,
    "contiguous.default": lambda x, memory_format=None: x,
    "as_strided.default": _as_strided,
}
views |= {f"aten.{name}": move for name, move in _moves.items()}


def require_views(
    op: str, x: np.ndarray, rest: list[Any], options: dict[str, Any], outputs: list[Tensor | None]
) -> None:
    """Before they are made: parts that the capture does not list, and copies that are larger than the output, would
    only take memory."""
    if op == "aten.repeat.default":
        to = outputs[0]
        if to is not None and x.size * math.prod(rest[0]) != math.prod(to.shape):
            raise Differs(f"the output is {list(to.shape)}, but the tensor is {list(x.shape)}, repeated {rest[0]}")
        return
    if op not in ("aten.unbind.int", "aten.split.Tensor", "aten.split_with_sizes.default"):
        return
    has_sizes = op != "aten.unbind.int"  # unbind(x, dim), split(x, sizes, dim)
    sizes = rest[0] if has_sizes else 1
    dims = rest[1:] if has_sizes else rest
    extent = x.shape[dims[0] if dims else options.get("dim", 0)]
    parts = -(-extent // sizes) if isinstance(sizes, int) else len(sizes)
    if parts != len(outputs):
        raise Differs(f"it makes {parts} tensors, but the capture lists {len(outputs)}")


def _joined(join: Callable[..., np.ndarray], parts: list[Value], dim: int) -> Value:
    known = None if all(part.known is None for part in parts) else join([part.mask() for part in parts], dim)
    return Value(join([part.array for part in parts], dim), known)


@_rule(others, "aten.cat.default")
def _cat(call: Call, parts: list[Value], dim: int = 0) -> Value:
    taken = [part for part in parts if part.array.ndim > 1 or part.array.size] or parts[:1]  # torch skips empty vectors
    if len({one.array.dtype for one in taken}) > 1:
        raise CannotSay("cat of several types")
    return _joined(np.concatenate, taken, dim)


@_rule(others, "aten.stack.default")
def _stack(call: Call, parts: list[Value], dim: int = 0) -> Value:
    return _joined(np.stack, parts, dim)


@_rule(others, "aten.embedding.default")
def _embedding(
    call: Call, weight: Value, rows: Value, padding: int = -1, scale: bool = False, sparse: bool = False
) -> Value:
    return _indexed(call, weight, [rows])


@_rule(others, "aten.index.Tensor")
def _indexed(call: Call, x: Value, at: list[Value | None]) -> Value:
    where = tuple(slice(None) if one is None else one.whole("an index") for one in at)
    indices = [one for one in where if isinstance(one, np.ndarray)]
    to = call.outputs[0]
    if to is not None and not any(index.dtype == bool for index in indices):
        sizes = [size for size, one in zip(x.array.shape, where, strict=False) if isinstance(one, slice)] + list(
            x.array.shape[len(where) :]
        )
        elements = math.prod(np.broadcast_shapes(*(index.shape for index in indices))) * math.prod(sizes)
        if elements != math.prod(to.shape):
            raise Differs(f"the output is {list(to.shape)}, but the indices give {elements} elements")
    return Value(x.array[where], None if x.known is None else x.known[where])


@_rule(others, "aten.index_select.default")
def _index_select(call: Call, x: Value, dim: int, at: Value) -> Value:
    where = at.whole("the index")
    _require_output(
        call.outputs[0],
        [where.size if axis == dim % x.array.ndim else size for axis, size in enumerate(x.array.shape)],
        "the index gives",
    )
    return Value(x.array.take(where, dim), None if x.known is None else x.known.take(where, dim))


@_rule(others, "aten.gather.default")
def _gather(call: Call, x: Value, dim: int, at: Value, sparse_grad: bool = False) -> Value:
    where, dim = at.whole("the index"), dim % x.array.ndim
    part = tuple(slice(None) if axis == dim else slice(size) for axis, size in enumerate(where.shape))
    return Value(
        np.take_along_axis(x.array[part], where, dim),
        None if x.known is None else np.take_along_axis(x.known[part], where, dim),
    )


def _written(x: Value, where: tuple[Any, ...], values: Value, what: str) -> Value:
    """`x` with `values` at the places `where`."""
    places = np.arange(x.array.size).reshape(x.array.shape)[where]
    if len(np.unique(places)) != places.size:
        raise CannotSay(f"{what} writes a place several times: no order of them is fixed")
    array, known = x.array.copy(), x.mask().copy()
    array[where], known[where] = values.array, values.mask()
    return Value(array, known)


def _along(x: Value, dim: int, at: Value) -> tuple[Any, ...]:
    return (slice(None),) * (dim % x.array.ndim) + (at.whole("the index"),)


@_rule(others, "aten.index_put_.default", "aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(call: Call, x: Value, at: list[Value | None], values: Value, accumulate: bool = False) -> Value:
    if accumulate:
        raise CannotSay("index_put adds by atomics: no order of them is fixed")
    return _written(x, tuple(slice(None) if one is None else one.whole("an index") for one in at), values, "index_put")


@_rule(others, "aten.index_copy_.default", "aten.index_copy.default")
def _index_copy(call: Call, x: Value, dim: int, at: Value, values: Value) -> Value:
    return _written(x, _along(x, dim, at), values, "index_copy")


@_rule(others, "aten.index_add_.default", "aten.index_add.default")
def _index_add(call: Call, x: Value, dim: int, at: Value, values: Value, alpha: int = 1) -> Value:
    where = _along(x, dim, at)
    sums = _binary("add")(
        call._replace(outputs=[Tensor(x.array.dtype, values.array.shape)]),
        Value(x.array[where], x.mask()[where]),
        values,
        alpha,
    )
    return _written(x, where, sums, "index_add")


@_rule(others, "aten.copy_.default", "aten._to_copy.default", "aten.to.dtype")
def _copied(call: Call, x: Value, source: Value | None = None, *more: Any, **options: Any) -> Value:
    given = x if source is None or not isinstance(source, Value) else source
    to = _require_output(call.outputs[0], x.array.shape, "the tensor is")
    return Value(
        np.broadcast_to(_rounded(given.array, to.dtype), to.shape),
        None if given.known is None else np.broadcast_to(given.known, to.shape),
    )


def _rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Converted as the GPU does: NaN of 16-bit types is 7FFF."""
    if array.dtype == dtype:
        return array
    if dtype.kind in "iu" and array.dtype.kind not in "iub" and not (np.abs(array.astype(np.float64)) < 2.0**31).all():
        raise CannotSay("a conversion to integers of NaN or of numbers from 2^31 on")
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


def _require_shape(values: list[Value], to: Tensor) -> None:
    if not values:
        raise TypeError("no tensor among its arguments")
    if np.broadcast_shapes(*(value.array.shape for value in values)) != to.shape:
        shapes = ", ".join(str(list(value.array.shape)) for value in values)
        raise Differs(f"the output is {list(to.shape)}, but its inputs are {shapes}")


def _arithmetic(call: Call, name: str, *given: Any) -> Value:
    """A function of elements in the type of the output: f32 arithmetic, one rounding to 16 bits."""
    to = call.outputs[0]
    assert to is not None
    values = [_value(one) for one in given]
    known = None
    if any(one.known is not None for one in values):
        known = np.logical_and.reduce([np.broadcast_to(one.mask(), to.shape) for one in values])
    _require_shape(values, to)
    if (
        to.dtype.itemsize == 2
        and to.dtype.kind not in "iu"
        and any(isinstance(one, Value) and one.array.dtype.kind in "iub" for one in given)
    ):
        raise CannotSay("integers beside 16-bit numbers")
    if any(
        isinstance(one, Value)
        and one.array.ndim == 0
        and one.array.dtype != to.dtype
        and to.dtype.kind not in "iub"
        and to.shape
        for one in given
    ):
        raise CannotSay("a tensor of no dimension beside another type")
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
        if any(
            one.dtype == np.float64
            for one, value in zip(arrays, given, strict=True)
            if isinstance(value, Value) and value.array.ndim
        ):
            raise CannotSay("float64 mixed with other types")
        wide = [np.ascontiguousarray(one.astype(np.float32)) for one in arrays]
        made = _rounded(operators.elementwise(name, *wide, threads=call.threads), to.dtype)
    if known is None:
        return Value(made.reshape(to.shape))
    array = np.zeros(to.shape, to.dtype)
    array[known] = made
    return Value(array, known)


_exact: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "sqrt": np.sqrt,
    "neg": np.negative,
    "abs": np.abs,
}


def _binary(name: str) -> _Rule:
    def rule(call: Call, x: Any, y: Any, alpha: Any = 1) -> Value:
        if alpha != 1:
            raise CannotSay(f"{name} with alpha = {alpha}")
        is_number = not isinstance(y, Value)
        if name == "div" and is_number and call.outputs[0] and call.outputs[0].dtype.kind not in "iub":
            # On CUDA a tensor is multiplied by the reciprocal of a number.
            inverse: Any = (
                np.float64(1) / np.float64(y) if call.outputs[0].dtype == np.float64 else np.float32(1) / np.float32(y)
            )
            return _arithmetic(call, "mul", x, inverse)
        return _arithmetic(call, name, x, y)

    return rule


def _unary(name: str) -> _Rule:
    return lambda call, x: _arithmetic(call, name, x)


for _name in ("add", "sub", "mul", "div"):
    for _form in ("Tensor", "Scalar"):
        pointwise[f"aten.{_name}.{_form}"] = pointwise[f"aten.{_name}_.{_form}"] = _binary(_name)
for _name in "exp exp2 log log2 log1p expm1 sqrt rsqrt reciprocal sin cos tanh erf sigmoid silu relu".split():
    pointwise[f"aten.{_name}.default"] = pointwise[f"aten.{_name}_.default"] = _unary(_name)
pointwise["aten.rsub.Scalar"] = lambda call, x, y, alpha=1: _binary("sub")(call, y, x, alpha)


@_rule(pointwise, "aten.gelu.default")
def _gelu(call: Call, x: Value, approximate: str = "none") -> Value:
    return _arithmetic(call, "gelu_tanh" if approximate == "tanh" else "gelu", x)


@_rule(pointwise, "aten.pow.Tensor_Scalar", "aten.pow_.Scalar")
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
        floats = [one.array.dtype for one in given if isinstance(one, Value) and one.array.dtype.kind not in "iub"]
        if floats:  # a number takes the type of the tensors
            values = [
                value if value is None or isinstance(was, (Value, bool)) else Value(value.array.astype(floats[0]))
                for value, was in zip(values, given, strict=True)
            ]
        _require_shape([value for value in values if value is not None], to)
        masks = [value.mask() for value in values if value is not None and value.known is not None]
        known = np.logical_and.reduce([np.broadcast_to(mask, to.shape) for mask in masks]) if masks else None
        with np.errstate(all="ignore"):
            made = np.asarray(function(*(None if value is None else value.array for value in values), **options))
        return Value(np.broadcast_to(made.astype(to.dtype, copy=False), to.shape), known)

    return rule


def _negated(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "iu":
        return np.negative(x)
    return (x.view(f"u{x.dtype.itemsize}") ^ np.array(_signs[x.dtype.itemsize], f"u{x.dtype.itemsize}")).view(x.dtype)


def _clamped(x: np.ndarray, low: Any = None, high: Any = None) -> np.ndarray:
    bounds = [np.asarray(one) for one in (low, high) if one is not None]
    if np.isnan(x.astype(np.float32)).any() or any((bound == 0).any() and (x == 0).any() for bound in bounds):
        raise CannotSay("clamp of NaN, or of zeros at 0")
    if x.dtype.kind in "iub" and any(bound.dtype.kind not in "iub" for bound in bounds):
        raise CannotSay("clamp of integers at a floating-point number")
    x = x if low is None else np.where(x < low, np.asarray(low).astype(x.dtype), x)
    return x if high is None else np.where(x > high, np.asarray(high).astype(x.dtype), x)


def _greater(x: np.ndarray, y: np.ndarray, sign: int) -> np.ndarray:
    if np.isnan(x.astype(np.float32)).any() or np.isnan(y.astype(np.float32)).any() or ((x == 0) & (y == 0)).any():
        raise CannotSay("maximum or minimum of NaN or of two zeros")
    return np.where(x > y if sign > 0 else x < y, x, y)


_selections: dict[str, Callable[..., Any]] = {
    "neg.default": _negated,
    "abs.default": np.abs,
    "where.self": np.where,
    "clamp.default": _clamped,
    "clamp_min.default": _clamped,
    "clamp_max.default": lambda x, high: _clamped(x, None, high),
    "maximum.default": lambda x, y: _greater(x, y, 1),
    "minimum.default": lambda x, y: _greater(x, y, -1),
    "masked_fill.Scalar": lambda x, mask, value: np.where(mask, value.astype(x.dtype), x),
    "masked_fill_.Scalar": lambda x, mask, value: np.where(mask, value.astype(x.dtype), x),
    "masked_fill.Tensor": lambda x, mask, value: np.where(mask, value.astype(x.dtype), x),
    "eq.Tensor": np.equal,
    "eq.Scalar": np.equal,
    "ne.Tensor": np.not_equal,
    "ne.Scalar": np.not_equal,
    "lt.Tensor": np.less,
    "lt.Scalar": np.less,
    "le.Tensor": np.less_equal,
    "le.Scalar": np.less_equal,
    "gt.Tensor": np.greater,
    "gt.Scalar": np.greater,
    "ge.Tensor": np.greater_equal,
    "ge.Scalar": np.greater_equal,
    "logical_not.default": np.logical_not,
    "logical_and.default": np.logical_and,
    "logical_or.default": np.logical_or,
    "bitwise_not.default": np.invert,
    "bitwise_and.Tensor": np.bitwise_and,
    "bitwise_or.Tensor": np.bitwise_or,
    "fill_.Scalar": lambda x, value: value,
    "zero_.default": lambda x: np.zeros((), x.dtype),
    "floor_divide.default": np.floor_divide,
    "remainder.Scalar": np.remainder,
    "triu.default": lambda x, diagonal=0: np.triu(x, int(diagonal)),
    "tril.default": lambda x, diagonal=0: np.tril(x, int(diagonal)),
}
pointwise |= {f"aten.{name}": _selecting(function) for name, function in _selections.items()}


def _require_output(to: Tensor | None, shape: Iterable[int], what: str = "its arguments give") -> Tensor:
    """Before memory is allocated for it."""
    wanted = tuple(shape)
    assert to is not None
    if wanted != to.shape:
        raise Differs(f"the output is {list(to.shape)}, but {what} {list(wanted)}")
    return to


def _filled(to: Tensor | None, shape: Iterable[int], value: Any) -> Value:
    to = _require_output(to, shape)
    return Value(np.full(to.shape, value, to.dtype))


for _name, _number in (("zeros", 0), ("ones", 1)):
    others[f"aten.{_name}.default"] = lambda call, size, _number=_number, **options: _filled(
        call.outputs[0], size, _number
    )
    others[f"aten.{_name}_like.default"] = lambda call, x, _number=_number, **options: _filled(
        call.outputs[0], x.array.shape, _number
    )
    others[f"aten.new_{_name}.default"] = lambda call, x, size, _number=_number, **options: _filled(
        call.outputs[0], size, _number
    )
others["aten.full.default"] = lambda call, size, value, **options: _filled(call.outputs[0], size, value)
others["aten.full_like.default"] = lambda call, x, value, **options: _filled(call.outputs[0], x.array.shape, value)
others["aten.scalar_tensor.default"] = lambda call, value, **options: _filled(call.outputs[0], (), value)


@_rule(others, "aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def _arange(call: Call, *given: Any, **options: Any) -> Value:
    to = call.outputs[0]
    assert to is not None
    if to.dtype.kind not in "iu" and not all(float(one).is_integer() for one in given):
        raise CannotSay("arange with steps that are no whole numbers")
    start, end, step = {1: (0, given[0], 1), 2: (*given, 1), 3: given}[len(given)]
    _require_output(to, [max(0, math.ceil((end - start) / step))])
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
    for made in compute(np.ascontiguousarray(matrix[numbers]), [int(number) for number in numbers], len(matrix)):
        made = made.reshape(len(numbers), -1)
        array = np.zeros((len(matrix), made.shape[1]), made.dtype)
        array[numbers] = made
        mask = np.zeros(array.shape, bool)
        mask[numbers] = True
        results.append(Value(array, None if known is None else mask))
    return results


def _shaped(value: Value, to: Tensor | None) -> Value:
    assert to is not None
    if value.array.size != math.prod(to.shape):
        raise Differs(f"the output is {list(to.shape)}, but the operator makes {value.array.size} elements")
    return Value(value.array.reshape(to.shape), None if value.known is None else value.known.reshape(to.shape))


def _last(x: Value, dims: Any) -> None:
    listed = dims if isinstance(dims, list) else [dims]
    if [one % x.array.ndim for one in listed] != [x.array.ndim - 1]:
        raise CannotSay(f"over dimension {dims}, not the last one")


@_rule(of_rows, "aten._softmax.default", "aten._log_softmax.default")
def _softmax(call: Call, x: Value, dim: int, half_to_float: bool = False, logarithm: bool = False) -> Value:
    _last(x, dim)
    to = call.outputs[0]
    assert to is not None
    function = operators.log_softmax if logarithm else operators.softmax
    made = _by_rows(
        call,
        x,
        lambda rows, at, whole: [function(rows, dtype=to.dtype.type, rows=at, whole=whole, threads=call.threads)],
    )
    return _shaped(made[0], to)


of_rows["aten._log_softmax.default"] = lambda call, x, dim, half=False: _softmax(call, x, dim, half, True)


def _reduction(name: str) -> _Rule:
    def rule(call: Call, x: Value, dims: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
        to = call.outputs[0]
        assert to is not None
        if x.array.dtype.kind in "iub":
            axes = None if not dims else tuple(dims) if isinstance(dims, list) else dims
            return _shaped(Value(np.asarray(np.sum(x.whole("its input"), axes, dtype=to.dtype))), to)
        if dims is None or dims == []:
            return _shaped(
                Value(
                    np.asarray(
                        getattr(operators, name)(np.ascontiguousarray(x.whole("its input")), None, dtype=to.dtype.type)
                    )
                ),
                to,
            )
        _last(x, dims)
        made = _by_rows(
            call,
            x,
            lambda rows, at, whole: [
                getattr(operators, name)(rows, -1, dtype=to.dtype.type, rows=at, whole=whole, threads=call.threads)
            ],
        )
        return _shaped(made[0], to)

    return rule


of_rows |= {
    "aten.mean.dim": _reduction("mean"),
    "aten.sum.dim_IntList": _reduction("sum"),
    "aten.sum.default": _reduction("sum"),
    "aten.mean.default": _reduction("mean"),
}


@_rule(of_rows, "aten.amax.default")
def _amax(call: Call, x: Value, dims: Any, keepdim: bool = False) -> Value:
    _last(x, dims)
    return _shaped(
        _by_rows(call, x, lambda rows, at, whole: [operators.amax(rows, -1, threads=call.threads)])[0], call.outputs[0]
    )


@_rule(of_rows, "aten.argmax.default")
def _argmax(call: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    if dim is None:
        x = Value(x.whole("its input").reshape(1, -1))
    else:
        _last(x, dim)
    return _shaped(
        _by_rows(call, x, lambda rows, at, whole: [operators.argmax(rows, -1, threads=call.threads)])[0],
        call.outputs[0],
    )


@_rule(of_rows, "aten.max.dim")
def _max(call: Call, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    _last(x, dim)
    made = _by_rows(call, x, lambda rows, at, whole: [operators.amax(rows, -1), operators.argmax(rows, -1)])
    return [_shaped(one, to) for one, to in zip(made, call.outputs, strict=False)]


@_rule(of_rows, "aten.topk.default")
def _topk(
    call: Call, x: Value, count: int = -1, dim: int = -1, largest: bool = True, is_sorted: bool = True
) -> list[Value]:
    _last(x, dim)
    if not largest or not is_sorted:
        raise CannotSay("topk of the smallest, or unsorted")
    columns = x.array.shape[-1] if count == -1 else count

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
    return [_shaped(one, to) for one, to in zip((values, places), call.outputs, strict=False)]


@_rule(of_rows, "aten.sort.default")
def _sort(call: Call, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    if not descending:
        raise CannotSay("sort of ascending order")
    return _topk(call, x, -1, dim)


@_rule(of_rows, "aten.native_layer_norm.default")
def _layer_norm(
    call: Call, x: Value, shape: list[int], weight: Value | None, bias: Value | None, eps: float
) -> list[Value]:
    if len(shape) != 1:
        raise CannotSay("a norm over several dimensions")
    w, b = (None if one is None else one.whole("a weight") for one in (weight, bias))
    made = _by_rows(
        call,
        x,
        lambda rows, at, whole: list(operators.layer_norm(rows, w, b, eps, return_moments=True, threads=call.threads)),
    )
    return [_shaped(one, to) for one, to in zip(made, call.outputs, strict=False)]


@_rule(of_rows, "aten._fused_rms_norm.default")
def _rms_norm(call: Call, x: Value, shape: list[int], weight: Value | None, eps: float | None) -> list[Value | None]:
    if len(shape) != 1:
        raise CannotSay("a norm over several dimensions")
    w = None if weight is None else weight.whole("the weight")
    if eps is None and x.array.dtype != np.float32:
        raise CannotSay("rms_norm without eps of 16-bit numbers")
    if eps is None:
        eps = float(np.finfo(np.float32).eps)
    given: float = eps
    made = _by_rows(call, x, lambda rows, at, whole: [operators.rms_norm(rows, w, given, threads=call.threads)])
    return [_shaped(made[0], call.outputs[0]), None]


@_rule(others, "aten.nonzero.default")
def _nonzero(call: Call, x: Value) -> Value:
    return Value(np.argwhere(x.whole("its input")).astype(np.int64))


@_rule(others, "aten.cumsum.default")
def _cumsum(call: Call, x: Value, dim: int, dtype: Any = None) -> Value:
    if x.array.dtype.kind not in "iub" or call.outputs[0] is None:
        raise CannotSay("cumsum of floating-point numbers")
    return Value(np.cumsum(x.whole("its input"), dim, dtype=call.outputs[0].dtype))


def _exponential_numbers(call: Call, shape: tuple[int, ...]) -> np.ndarray:
    if call.generator is None:
        raise CannotSay("the state of the random generator was not captured")
    uniform = uniform_of_torch(
        math.prod(shape), call.generator["seed"], call.generator["offset"], call.machine["multiprocessors"]
    )
    half = np.float32(2.0**-24)
    logarithm = functions.c("__logf", uniform)
    return np.where(uniform >= 1 - half, half, -logarithm).reshape(shape)


@_rule(others, "aten.exponential_.default")
def _exponential(call: Call, x: Value, rate: float = 1, generator: Any = None) -> Value:
    if rate != 1 or x.array.dtype != np.float32:
        raise CannotSay("exponential_ of another rate than 1, or of another type than float32")
    return Value(_exponential_numbers(call, x.array.shape))


@_rule(others, "aten.multinomial.default")
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


def _product(call: Call, a: Value, b: Value, **options: Any) -> Value:
    to = call.outputs[0]
    assert to is not None
    names, right = _product_names(call), b.whole("B")
    _require_output(to, (*a.array.shape[:-1], b.array.shape[-1]), "the product is")
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


@_rule(others, "aten.mm.default", "aten.bmm.default", "aten.mm.dtype", "aten.bmm.dtype", "aten._int_mm.default")
def _mm(call: Call, a: Value, b: Value, out_dtype: Any = None) -> Value:
    return _product(call, a, b)


@_rule(others, "aten.addmm.default", "aten._addmm_activation.default")
def _addmm(
    call: Call,
    c: Value,
    a: Value,
    b: Value,
    beta: float = 1,
    alpha: float = 1,
    use_gelu: bool = False,
    relu: bool = False,
) -> Value:
    if use_gelu:
        raise CannotSay("the gelu of cuBLAS' epilogue")
    more = {
        name: value for name, value in (("alpha", alpha), ("beta", beta), ("relu", relu)) if value not in (1, False)
    }
    added = c.whole("C")
    return _product(call, a, b, **({"bias": added} if added.ndim == 1 else {"c": added}), **more)


others["aten._addmm_activation.default"] = lambda call, c, a, b, beta=1, alpha=1, use_gelu=False: _addmm(
    call, c, a, b, beta, alpha, use_gelu, True
)


@_rule(others, "aten._scaled_mm.default")
def _scaled_mm(
    call: Call,
    a: Value,
    b: Value,
    scale_a: Value,
    scale_b: Value,
    bias: Value | None = None,
    scale_result: Value | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Value:
    if scale_result is not None:
        raise CannotSay("_scaled_mm with a scale of its result")
    scales = {"scale_a": scale_a.whole("scale_a"), "scale_b": scale_b.whole("scale_b")}
    if all(scale.size == 1 for scale in scales.values()):
        scales = {name: np.float32(scale.reshape(())) for name, scale in scales.items()}
        if all(scale == 1 for scale in scales.values()):
            scales = {}
    return _product(call, a, b, **scales, **({} if bias is None else {"bias": bias.whole("the bias")}))


def _attention(call: Call, q: Value, k: Value, v: Value, **options: Any) -> list[Value]:
    keys, values = k.whole("K"), v.whole("V")
    out, lse = operators.attention(
        np.ascontiguousarray(q.array),
        np.ascontiguousarray(keys),
        np.ascontiguousarray(values),
        return_lse=True,
        threads=call.threads,
        **options,
    )
    if q.known is None:
        return [Value(out), Value(lse)]
    known = np.asarray(q.known.all(-1))
    return [Value(out, np.broadcast_to(known[..., None], out.shape)), Value(lse, known)]


@_rule(others, "aten._scaled_dot_product_flash_attention.default")
def _flash(
    call: Call,
    q: Value,
    k: Value,
    v: Value,
    dropout: float = 0,
    is_causal: bool = False,
    debug: bool = False,
    scale: float | None = None,
    **more: Any,
) -> list[Value]:
    if dropout:
        raise CannotSay("attention with dropout")
    return _attention(call, q, k, v, is_causal=is_causal, **({} if scale is None else {"scale": scale}), **more)


@_rule(others, "aten._scaled_dot_product_efficient_attention.default")
def _efficient(
    call: Call,
    q: Value,
    k: Value,
    v: Value,
    bias: Value | None,
    compute_lse: bool,
    dropout: float = 0,
    is_causal: bool = False,
    scale: float | None = None,
) -> list[Value]:
    if dropout or bias is not None:
        raise CannotSay("memory-efficient attention with dropout or a bias")
    made = _attention(
        call, q, k, v, is_causal=is_causal, backend="efficient", **({} if scale is None else {"scale": scale})
    )
    return made[:1]


# knob_35, the kernel for one query and many keys, does not always repeat its bits.
_cudnn_kernels = {
    "sm90_flash_fprop_wgmma": "cudnn",
    "sm80_flash_fprop_wmma_f16_knob_2_": "cudnn_sm80",
    "sm80_flash_fprop_wmma_f16_knob_3_": "cudnn_sm80",
}


@_rule(others, "aten._scaled_dot_product_cudnn_attention.default")
def _cudnn(
    call: Call,
    q: Value,
    k: Value,
    v: Value,
    bias: Value | None,
    compute_lse: bool,
    dropout: float = 0,
    is_causal: bool = False,
    debug: bool = False,
    scale: float | None = None,
) -> list[Value | None]:
    if dropout or bias is not None:
        raise CannotSay("cuDNN's attention with dropout or a bias")
    names = " + ".join(call.kernels or [])
    backend = next((one for kernel, one in _cudnn_kernels.items() if kernel in names), None)
    if backend is None:
        raise CannotSay(f"no rule is known for cuDNN's kernel {names or '(not captured)'}")
    out, lse = _attention(
        call, q, k, v, is_causal=is_causal, backend=backend, **({} if scale is None else {"scale": scale})
    )
    return [out, None if call.outputs[1] is None else _shaped(lse, call.outputs[1])]
