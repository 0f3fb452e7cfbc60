# SPDX-License-Identifier: MIT
"""How each operator of PyTorch is recomputed: the rules of `bitmma.replay`.

A rule is a row of one of four tables: `views` move elements, `pointwise` are functions of one element, `of_rows` of a
row, `others` are products, attention and the rest. It takes and returns `Value`: an array, and which of its elements
are known. Its annotations are the kinds of its arguments, which `_replay_arguments` checks before it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from . import math as functions, operators
from ._captured import CannotSay, Differs, Tensor, Value
from ._errors import Error
from ._gemm import gemm
from ._philox import uniform_of_torch
from ._replay_arguments import (
    Number,
    Rule,
    axes_of,
    axis_of,
    broadcast,
    common_type,
    index_of,
    indices_of,
    new_axis_of,
    refused,
    sizes_of,
    sizes_of_view,
    taking,
)
from ._safetensors import MOST_DIMENSIONS


class Call(NamedTuple):
    """The operator that a rule recomputes."""

    output: Tensor
    """The first one: the capture tells its type and shape, else the operator is not recomputed."""
    outputs: list[Tensor | None]
    kernels: list[str] | None
    slices: int
    machine: dict[str, Any]
    rows: int | None
    threads: int
    generator: dict[str, int] | None
    product: Callable[[np.ndarray, np.ndarray, dict[str, Any], Tensor], np.ndarray] | None = None
    """A @ B with these options of `gemm`, as a library computes it whose kernels the call does not name."""


# ---------------------------------------------------------------------------------------------------------------------
# Elements that move

views: dict[str, Rule] = {}
pointwise: dict[str, Rule] = {}
of_rows: dict[str, Rule] = {}
others: dict[str, Rule] = {}


def rule_of(op: str) -> Rule | None:
    """The rule of an operator that is no view."""
    return pointwise.get(op) or of_rows.get(op) or others.get(op)


def _rule(table: dict[str, Rule], *names: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        table.update(dict.fromkeys(names, function))
        return function

    return add


def _viewed(x: np.ndarray, sizes: list[int]) -> np.ndarray:
    return x.reshape(sizes_of_view(sizes, x.size))


def _expanded(x: np.ndarray, sizes: list[int], implicit: bool = False) -> np.ndarray:
    """-1 keeps an extent."""
    added = len(sizes_of(sizes, -1)) - x.ndim
    old = (1,) * added + x.shape
    if added < 0 or -1 in sizes[:added] or any(old[i] not in (1, size) for i, size in enumerate(sizes) if size != -1):
        raise refused(f"sizes {sizes} of a tensor {list(x.shape)}")
    return np.broadcast_to(x, [old[i] if size == -1 else size for i, size in enumerate(sizes)])


def _sliced(x: np.ndarray, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> np.ndarray:
    if step < 1:
        raise refused(f"a slice with steps of {step}")
    at = axis_of(dim, x.ndim)
    return x[(slice(None),) * at + (slice(start, None if end is None or end > 2**62 else end, step),)]


def _squeezed(x: np.ndarray, dims: int | list[int] | None = None) -> np.ndarray:
    axes = range(x.ndim) if dims is None else axes_of(dims, x.ndim)
    return x.squeeze(tuple(axis for axis in axes if x.shape[axis] == 1))


def _parts(x: np.ndarray, sizes: int | list[int], dim: int) -> list[int]:
    """The extents of the parts that a tensor is split into."""
    extent = x.shape[axis_of(dim, x.ndim)]
    if isinstance(sizes, list):
        if sum(sizes_of_parts := [*sizes]) != extent or any(size < 0 for size in sizes):
            raise refused(f"parts {sizes} of {extent}")
        return sizes_of_parts
    if sizes < 1:
        raise refused(f"parts of {sizes}")
    return [min(sizes, extent - first) for first in range(0, extent, sizes)]


def _split(x: np.ndarray, sizes: int | list[int], dim: int = 0) -> list[np.ndarray]:
    return np.split(x, np.cumsum(_parts(x, sizes, dim))[:-1], dim)


def _unbound(x: np.ndarray, dim: int = 0) -> list[np.ndarray]:
    axis = axis_of(dim, x.ndim)
    return [x.take(i, axis) for i in range(x.shape[axis])]


def _repeated(x: np.ndarray, sizes: list[int]) -> np.ndarray:
    if len(sizes_of(sizes)) < x.ndim:
        raise refused(f"{len(sizes)} numbers of repetitions of a tensor of {x.ndim} dimensions")
    return np.tile(x, sizes)


def _permuted(x: np.ndarray, dims: list[int]) -> np.ndarray:
    axes = axes_of(dims, x.ndim)
    if len(axes) != x.ndim:
        raise refused(f"{len(axes)} dimensions of {x.ndim}")
    return x.transpose(axes)


def _selected(x: np.ndarray, dim: int, index: int) -> np.ndarray:
    axis = axis_of(dim, x.ndim)
    return x.take(index_of(index, x.shape[axis]), axis)


def _as_strided(x: np.ndarray, size: list[int], stride: list[int], offset: int = 0) -> np.ndarray:
    flat = np.ascontiguousarray(x).reshape(-1)
    if len(size) != len(stride) or min([offset, *sizes_of(size), *stride]) < 0:
        raise CannotSay("as_strided outside of its tensor")
    if 0 in size:
        return np.zeros(size, x.dtype)
    last = offset + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    if last >= flat.size:
        raise CannotSay("as_strided outside of its tensor")
    # The step of an extent of 1 is never made.
    steps = [step * flat.itemsize if extent > 1 else 0 for extent, step in zip(size, stride, strict=True)]
    return np.lib.stride_tricks.as_strided(flat[offset:], size, steps, writeable=False)


_array, _memory_format = np.ndarray, str | None
_moves: dict[str, Rule] = {
    "view.default": _viewed,
    "_unsafe_view.default": _viewed,
    "reshape.default": _viewed,
    "t.default": taking(lambda x: x.T, _array),
    "transpose.int": taking(lambda x, a, b: x.swapaxes(axis_of(a, x.ndim), axis_of(b, x.ndim)), _array, int, int),
    "permute.default": _permuted,
    "unsqueeze.default": taking(lambda x, dim: np.expand_dims(x, new_axis_of(dim, x.ndim)), _array, int),
    "squeeze.dim": _squeezed,
    "squeeze.dims": _squeezed,
    "squeeze.default": _squeezed,
    "expand.default": _expanded,
    "slice.Tensor": _sliced,
    "select.int": _selected,
    "detach.default": taking(lambda x: x, _array),
    "alias.default": taking(lambda x: x, _array),
    "clone.default": taking(lambda x, memory_format=None: x, _array, _memory_format),
    "split.Tensor": _split,
    "split_with_sizes.default": _split,
    "unbind.int": _unbound,
    "flip.default": taking(lambda x, dims: np.flip(x, tuple(axes_of(dims, x.ndim))), _array, list[int]),
    "repeat.default": _repeated,
    "_reshape_alias.default": taking(lambda x, sizes, strides: _viewed(x, sizes), _array, list[int], list[int]),
    "lift_fresh.default": taking(lambda x: x, _array),
    "contiguous.default": taking(lambda x, memory_format=None: x, _array, _memory_format),
    "as_strided.default": _as_strided,
}
views |= {f"aten.{name}": move for name, move in _moves.items()}


def require_views(op: str, arguments: dict[str, Any], output: Tensor, outputs: int) -> None:
    """Before they are made: parts that the capture does not list, and copies that are larger than the output, would
    only take memory."""
    x: np.ndarray = arguments["x"].array
    if op in ("aten.repeat.default", "aten.expand.default", "aten.as_strided.default"):
        sizes: list[int] = arguments["size" if "size" in arguments else "sizes"]
        elements = x.size * math.prod(sizes) if op == "aten.repeat.default" else math.prod(sizes)
        if -1 not in sizes and elements != math.prod(output.shape):
            raise Differs(f"the output is {list(output.shape)}, but the operator makes {elements} elements")
    if op in ("aten.unbind.int", "aten.split.Tensor", "aten.split_with_sizes.default"):
        dim, size = arguments.get("dim", 0), arguments.get("sizes", 1)
        extent = x.shape[axis_of(dim, x.ndim)]
        parts = len(size) if isinstance(size, list) else -(-extent // size) if size > 0 else 0
        if parts != outputs:
            raise Differs(f"it makes {parts} tensors, but the capture lists {outputs}")


def _joined(join: Callable[..., np.ndarray], parts: list[Value], axis: int) -> Value:
    known = None if all(part.known is None for part in parts) else join([part.mask() for part in parts], axis)
    return Value(join([part.array for part in parts], axis), known)


@_rule(others, "aten.cat.default")
def _cat(call: Call, parts: list[Value], dim: int = 0) -> Value:
    taken = [part for part in parts if part.array.ndim > 1 or part.array.size] or parts[:1]  # torch skips empty vectors
    if not taken:
        raise refused("cat of no tensor")
    if len({part.array.dtype for part in taken}) > 1:
        raise CannotSay("cat of several types")
    shapes = [part.array.shape for part in taken]
    axis = axis_of(dim, len(shapes[0]))
    if len({(len(shape), shape[:axis], shape[axis + 1 :]) for shape in shapes}) > 1:
        raise refused(f"cat of shapes {', '.join(str(list(shape)) for shape in shapes)}")
    return _joined(np.concatenate, taken, axis)


@_rule(others, "aten.stack.default")
def _stack(call: Call, parts: list[Value], dim: int = 0) -> Value:
    if len({(part.array.shape, part.array.dtype) for part in parts}) != 1:
        raise refused("stack of tensors of one type and shape alone")
    return _joined(np.stack, parts, new_axis_of(dim, parts[0].array.ndim))


@_rule(others, "aten.embedding.default")
def _embedding(
    call: Call, weight: Value, rows: Value, padding: int = -1, scale: bool = False, sparse: bool = False
) -> Value:
    if weight.array.ndim != 2:
        raise refused(f"a table of {weight.array.ndim} dimensions")
    indices_of(rows, weight.array.shape[0])
    return _indexed(call, weight, [rows])


def _places(x: Value, at: list[Value | None]) -> tuple[slice | np.ndarray, ...]:
    """The index of `x[at]`: of places, which may be counted from the end, or masks of one or more dimensions."""
    places: list[slice | np.ndarray] = []
    masks: list[tuple[int, ...]] = []
    axis = 0
    for index in at:
        if index is None:
            places.append(slice(None))
            axis += 1
            continue
        array = index.whole("an index")
        extents = x.array.shape[axis : axis + (array.ndim if array.dtype == bool else 1)]
        if array.dtype == bool:
            if array.ndim == 0 or array.shape != extents:
                raise refused(f"a mask {list(array.shape)} of extents {list(extents)}")
            masks.append((int(array.sum()),))
            axis += array.ndim
        else:
            if array.dtype not in (np.int32, np.int64) or not extents:
                raise refused(f"an index of {array.dtype} for dimension {axis} of {x.array.ndim}")
            if array.size and (array.min() < -extents[0] or array.max() >= extents[0]):
                raise refused(f"an index from {array.min()} to {array.max()}, of {extents[0]} elements")
            masks.append(array.shape)
            axis += 1
        places.append(array)
    if axis > x.array.ndim:
        raise refused(f"{axis} indices of a tensor of {x.array.ndim} dimensions")
    if len(broadcast(masks)) + x.array.ndim > MOST_DIMENSIONS:
        raise refused("indices of too many dimensions")
    return tuple(places)


@_rule(others, "aten.index.Tensor")
def _indexed(call: Call, x: Value, at: list[Value | None]) -> Value:
    where = _places(x, at)
    indices = [index for index in where if isinstance(index, np.ndarray)]
    if not any(index.dtype == bool for index in indices):
        sizes = [size for size, index in zip(x.array.shape, where, strict=False) if isinstance(index, slice)] + list(
            x.array.shape[len(where) :]
        )
        elements = math.prod(np.broadcast_shapes(*(index.shape for index in indices))) * math.prod(sizes)
        if elements != math.prod(call.output.shape):
            raise Differs(f"the output is {list(call.output.shape)}, but the indices give {elements} elements")
    return Value(x.array[where], None if x.known is None else x.known[where])


@_rule(others, "aten.index_select.default")
def _index_select(call: Call, x: Value, dim: int, at: Value) -> Value:
    axis, where = _along(x, dim, at)
    shape = [where.size if i == axis else size for i, size in enumerate(x.array.shape)]
    _require_output(call, shape, "the index gives")
    return Value(x.array.take(where, axis), None if x.known is None else x.known.take(where, axis))


@_rule(others, "aten.gather.default")
def _gather(call: Call, x: Value, dim: int, at: Value, sparse_grad: bool = False) -> Value:
    axis = axis_of(dim, x.array.ndim)
    where = indices_of(at, x.array.shape[axis])
    if where.ndim != x.array.ndim or any(size > x.array.shape[i] for i, size in enumerate(where.shape) if i != axis):
        raise refused(f"an index {list(where.shape)} of a tensor {list(x.array.shape)}")
    part = tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(where.shape))
    return Value(
        np.take_along_axis(x.array[part], where, axis),
        None if x.known is None else np.take_along_axis(x.known[part], where, axis),
    )


def _written(x: Value, where: tuple[Any, ...], values: Value, what: str) -> Value:
    """`x` with `values` at the places `where`."""
    places = np.arange(x.array.size).reshape(x.array.shape)[where]
    if len(np.unique(places)) != places.size:
        raise CannotSay(f"{what} writes a place several times: no order of them is fixed")
    if broadcast([places.shape, values.array.shape]) != places.shape:
        raise refused(f"values {list(values.array.shape)} for places {list(places.shape)}")
    array, known = x.array.copy(), x.mask().copy()
    array[where], known[where] = _rounded(values.array, array.dtype), values.mask()
    return Value(array, known)


def _along(x: Value, dim: int, at: Value) -> tuple[int, np.ndarray]:
    """The axis, and the places along it."""
    axis = axis_of(dim, x.array.ndim)
    where = indices_of(at, x.array.shape[axis])
    if where.ndim > 1:
        raise refused(f"an index of {where.ndim} dimensions")
    return axis, where.reshape(-1)


@_rule(others, "aten.index_put_.default", "aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(call: Call, x: Value, at: list[Value | None], values: Value, accumulate: bool = False) -> Value:
    if accumulate:
        raise CannotSay("index_put adds by atomics: no order of them is fixed")
    return _written(x, _places(x, at), values, "index_put")


@_rule(others, "aten.index_copy_.default", "aten.index_copy.default")
def _index_copy(call: Call, x: Value, dim: int, at: Value, values: Value) -> Value:
    axis, where = _along(x, dim, at)
    return _written(x, (slice(None),) * axis + (where,), values, "index_copy")


@_rule(others, "aten.index_add_.default", "aten.index_add.default")
def _index_add(call: Call, x: Value, dim: int, at: Value, values: Value, alpha: Number = 1) -> Value:
    axis, places = _along(x, dim, at)
    where = (slice(None),) * axis + (places,)
    sums = _binary("add")(
        call._replace(output=Tensor(x.array.dtype, values.array.shape)),
        Value(x.array[where], x.mask()[where]),
        values,
        alpha,
    )
    return _written(x, where, sums, "index_add")


@_rule(others, "aten.copy_.default", "aten._to_copy.default", "aten.to.dtype")
def _copied(call: Call, x: Value, source: Any = None, *more: Any, **options: Any) -> Value:
    """Of `to` the second argument is a type; that of the output is recorded."""
    copied = source if isinstance(source, Value) else x
    to = _require_output(call, x.array.shape, "the tensor is")
    if broadcast([copied.array.shape, to.shape]) != to.shape:
        raise refused(f"a tensor {list(copied.array.shape)} for {list(to.shape)}")
    return Value(
        np.broadcast_to(_rounded(copied.array, to.dtype), to.shape),
        None if copied.known is None else np.broadcast_to(copied.known, to.shape),
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
Operand = Value | Number
"""A tensor or a number."""


def _value(operand: Any) -> Value:
    return operand if isinstance(operand, Value) else Value(np.asarray(operand))


def _require_shape(values: list[Value], to: Tensor) -> None:
    if broadcast(value.array.shape for value in values) != to.shape:
        shapes = ", ".join(str(list(value.array.shape)) for value in values)
        raise Differs(f"the output is {list(to.shape)}, but its inputs are {shapes}")


def _is_whole(dtype: np.dtype) -> bool:
    return dtype.kind in "iub"


def _arithmetic(call: Call, name: str, *operands: Any) -> Value:
    """A function of elements in the type of the output: f32 arithmetic, one rounding to 16 bits."""
    to = call.output
    values = [_value(operand) for operand in operands]
    tensors = [operand.array for operand in operands if isinstance(operand, Value)]
    _require_shape(values, to)
    known = None
    if any(value.known is not None for value in values):
        known = np.logical_and.reduce([np.broadcast_to(value.mask(), to.shape) for value in values])
    if to.dtype.itemsize == 2 and to.dtype.kind not in "iu" and any(_is_whole(tensor.dtype) for tensor in tensors):
        raise CannotSay("integers beside 16-bit numbers")
    if (
        to.shape
        and not _is_whole(to.dtype)
        and any(tensor.ndim == 0 and tensor.dtype != to.dtype for tensor in tensors)
    ):
        raise CannotSay("a tensor of no dimension beside another type")
    if (
        to.dtype != np.float64
        and not _is_whole(to.dtype)
        and any(tensor.ndim and tensor.dtype == np.float64 for tensor in tensors)
    ):
        raise CannotSay("float64 mixed with other types")
    arrays = [np.broadcast_to(value.array, to.shape) for value in values]
    if known is not None:
        arrays = [array[known] for array in arrays]
    else:
        arrays = [np.ascontiguousarray(array) for array in arrays]
    if not arrays[0].size:
        made = np.zeros(arrays[0].shape, to.dtype)
    elif _is_whole(to.dtype):
        made = _of_whole_numbers(name, arrays).astype(to.dtype)
    elif to.dtype == np.float64:
        if name not in ("add", "sub", "mul", "div", "sqrt"):
            raise CannotSay(f"{name} of float64")
        with np.errstate(all="ignore"):
            made = _exact[name](*(array.astype(np.float64) for array in arrays))
    else:
        wide = [np.ascontiguousarray(array.astype(np.float32)) for array in arrays]
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


def _of_whole_numbers(name: str, arrays: list[np.ndarray]) -> np.ndarray:
    if name not in ("add", "sub", "mul") or not all(_is_whole(array.dtype) for array in arrays):
        raise CannotSay(f"{name} of {' and '.join(str(array.dtype) for array in arrays)} to integers")
    if name == "sub" and all(array.dtype == bool for array in arrays):
        raise refused("sub of truth values")
    made: np.ndarray = _exact[name](*arrays)
    if not _is_whole(made.dtype):  # int64 and uint64 become float64
        raise CannotSay(f"{name} of {arrays[0].dtype} and {arrays[1].dtype}")
    return made


def _scaled(call: Call, name: str, x: Any, y: Any, alpha: Number) -> Value:
    """x + alpha * y, or x - alpha * y, rounded once."""
    to, values = call.output, [_value(x), _value(y)]
    _require_shape(values, to)
    tensors = [operand for operand in (x, y) if isinstance(operand, Value)]
    if (
        name not in ("add", "sub")
        or _is_whole(to.dtype)
        or to.dtype == np.float64
        or any(tensor.array.dtype != to.dtype or tensor.known is not None for tensor in tensors)
    ):
        raise CannotSay(f"{name} with alpha = {alpha}")
    wide = [np.ascontiguousarray(np.broadcast_to(value.array.astype(np.float32), to.shape)) for value in values]
    scale = np.float32(alpha if name == "add" else -alpha)
    made = functions.fma(np.full(to.shape, scale), wide[1], wide[0])
    return Value(_rounded(made, to.dtype))


def _binary(name: str) -> Rule:
    def rule(call: Call, x: Operand, y: Operand, alpha: Number = 1) -> Value:
        if alpha != 1:
            return _scaled(call, name, x, y, alpha)
        if name == "div" and not isinstance(y, Value) and not _is_whole(call.output.dtype):
            # On CUDA a tensor is multiplied by the reciprocal of a number, which is computed in float64.
            with np.errstate(all="ignore"):
                inverse = np.float64(1) / np.float64(y)
            return _arithmetic(call, "mul", x, inverse)
        return _arithmetic(call, name, x, y)

    return rule


def _unary(name: str) -> Rule:
    def rule(call: Call, x: Value) -> Value:
        return _arithmetic(call, name, x)

    return rule


for _name in ("add", "sub", "mul", "div"):
    for _form in ("Tensor", "Scalar"):
        pointwise[f"aten.{_name}.{_form}"] = pointwise[f"aten.{_name}_.{_form}"] = _binary(_name)
for _name in "exp exp2 log log2 log1p expm1 sqrt rsqrt reciprocal sin cos tanh erf sigmoid silu relu".split():
    pointwise[f"aten.{_name}.default"] = pointwise[f"aten.{_name}_.default"] = _unary(_name)


@_rule(pointwise, "aten.rsub.Scalar")
def _rsub(call: Call, x: Value, y: Number, alpha: Number = 1) -> Value:
    made: Value = _binary("sub")(call, y, x, alpha)
    return made


@_rule(pointwise, "aten.gelu.default")
def _gelu(call: Call, x: Value, approximate: str = "none") -> Value:
    return _arithmetic(call, "gelu_tanh" if approximate == "tanh" else "gelu", x)


@_rule(pointwise, "aten.pow.Tensor_Scalar", "aten.pow_.Scalar")
def _pow(call: Call, x: Value, exponent: Number) -> Value:
    names = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if exponent in (0, 1) and call.output.dtype == x.array.dtype and not _is_whole(x.array.dtype):
        made = x.array if exponent else np.ones(x.array.shape, x.array.dtype)
        return Value(made, x.known)
    if exponent in (3, -2) and not _is_whole(call.output.dtype):  # each step is rounded to the type
        square = _arithmetic(call, "square", x)
        return _arithmetic(call, "mul", square, x) if exponent == 3 else _arithmetic(call, "reciprocal", square)
    if exponent not in names:
        raise CannotSay(f"pow with exponent {exponent}")
    return _arithmetic(call, names[exponent], x)


def _selecting(function: Callable[..., Any], *kinds: Any) -> Rule:
    """Functions that select, compare, or change a sign: exact in any type. `kinds` are those of the operands."""

    def rule(call: Call, x: Any, y: Any = None, z: Any = None) -> Value:
        to, operands = call.output, (x, y, z)[: len(kinds)]
        values = [None if operand is None else _value(operand) for operand in operands]
        floats = [
            operand.array.dtype
            for operand in operands
            if isinstance(operand, Value) and not _is_whole(operand.array.dtype)
        ]
        if floats:  # a number takes the type of the tensors
            values = [
                value if value is None or isinstance(was, (Value, bool)) else Value(value.array.astype(floats[0]))
                for value, was in zip(values, operands, strict=True)
            ]
        present = [value for value in values if value is not None]
        _require_shape(present, to)
        common_type(value.array for value in present)
        masks = [value.mask() for value in present if value.known is not None]
        known = np.logical_and.reduce([np.broadcast_to(mask, to.shape) for mask in masks]) if masks else None
        with np.errstate(all="ignore"):
            made = np.asarray(function(*(None if value is None else value.array for value in values)))
            return Value(np.broadcast_to(made.astype(to.dtype, copy=False), to.shape), known)

    rule.__annotations__ |= dict(zip("xyz", (*kinds, None, None), strict=False))
    return rule


def _negated(x: np.ndarray) -> np.ndarray:
    if x.dtype == bool:
        raise refused("neg of truth values")
    if x.dtype.kind in "iu":
        return np.negative(x)
    return (x.view(f"u{x.dtype.itemsize}") ^ np.array(_signs[x.dtype.itemsize], f"u{x.dtype.itemsize}")).view(x.dtype)


def _clamped(x: np.ndarray, low: Any = None, high: Any = None) -> np.ndarray:
    bounds = [np.asarray(bound) for bound in (low, high) if bound is not None]
    if np.isnan(x.astype(np.float32)).any() or any((bound == 0).any() and (x == 0).any() for bound in bounds):
        raise CannotSay("clamp of NaN, or of zeros at 0")
    if x.dtype.kind in "iub" and any(bound.dtype.kind not in "iub" for bound in bounds):
        raise CannotSay("clamp of integers at a floating-point number")
    x = x if low is None else np.where(x < low, np.asarray(low).astype(x.dtype), x)
    return x if high is None else np.where(x > high, np.asarray(high).astype(x.dtype), x)


def _greater(x: np.ndarray, y: np.ndarray, sign: int) -> np.ndarray:
    a, b = x.astype(np.float32), y.astype(np.float32)
    if np.isnan(a).any() or np.isnan(b).any() or ((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))).any():
        raise CannotSay("maximum or minimum of NaN or of two zeros")
    return np.where(x > y if sign > 0 else x < y, x, y)


def _chosen(mask: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if mask.dtype != bool:
        raise refused(f"a mask of {mask.dtype}")
    return np.where(mask, x, y)


def _of_whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, of integers and truth values alone."""

    def checked(*arrays: np.ndarray) -> Any:
        if not all(_is_whole(array.dtype) for array in arrays):
            raise refused(f"bits of {' and '.join(str(array.dtype) for array in arrays)}")
        return function(*arrays)

    return checked


_masked_fill = _selecting(lambda x, mask, value: _chosen(mask, value.astype(x.dtype), x), Value, Value, Operand)
_bound = Operand | None
_selections: dict[str, Rule] = {
    "neg.default": _selecting(_negated, Value),
    "abs.default": _selecting(np.abs, Value),
    "where.self": _selecting(_chosen, Value, Operand, Operand),
    "clamp.default": _selecting(_clamped, Value, _bound, _bound),
    "clamp_min.default": _selecting(_clamped, Value, Operand),
    "clamp_max.default": _selecting(lambda x, high: _clamped(x, None, high), Value, Operand),
    "maximum.default": _selecting(lambda x, y: _greater(x, y, 1), Value, Value),
    "minimum.default": _selecting(lambda x, y: _greater(x, y, -1), Value, Value),
    "masked_fill.Scalar": _masked_fill,
    "masked_fill_.Scalar": _masked_fill,
    "masked_fill.Tensor": _masked_fill,
    "logical_not.default": _selecting(np.logical_not, Value),
    "logical_and.default": _selecting(np.logical_and, Value, Value),
    "logical_or.default": _selecting(np.logical_or, Value, Value),
    "bitwise_not.default": _selecting(_of_whole(np.invert), Value),
    "bitwise_and.Tensor": _selecting(_of_whole(np.bitwise_and), Value, Value),
    "bitwise_or.Tensor": _selecting(_of_whole(np.bitwise_or), Value, Value),
    "fill_.Scalar": _selecting(lambda x, value: value, Value, Number),
    "zero_.default": _selecting(lambda x: np.zeros((), x.dtype), Value),
    "floor_divide.default": _selecting(np.floor_divide, Value, Operand),
    "remainder.Scalar": _selecting(np.remainder, Value, Number),
}
for _name, _function in (
    ("eq", np.equal),
    ("ne", np.not_equal),
    ("lt", np.less),
    ("le", np.less_equal),
    ("gt", np.greater),
    ("ge", np.greater_equal),
):
    _selections |= {f"{_name}.{_form}": _selecting(_function, Value, Operand) for _form in ("Tensor", "Scalar")}
pointwise |= {f"aten.{name}": rule for name, rule in _selections.items()}


def _triangle(function: Callable[..., np.ndarray]) -> Rule:
    def rule(call: Call, x: Value, diagonal: int = 0) -> Value:
        to = _require_output(call, x.array.shape, "the tensor is")
        if x.array.ndim < 2:
            raise refused(f"a triangle of a tensor of {x.array.ndim} dimensions")
        offset = max(-(2**31), min(diagonal, 2**31))
        return Value(function(x.array, offset).astype(to.dtype, copy=False), x.known)

    return rule


pointwise |= {"aten.triu.default": _triangle(np.triu), "aten.tril.default": _triangle(np.tril)}


def _require_output(call: Call, shape: Iterable[int], what: str = "its arguments give") -> Tensor:
    """Before memory is allocated for it."""
    wanted = tuple(shape)
    if wanted != call.output.shape:
        raise Differs(f"the output is {list(call.output.shape)}, but {what} {list(wanted)}")
    return call.output


def _filled(call: Call, shape: Iterable[int], value: Number) -> Value:
    to = _require_output(call, shape)
    if _is_whole(to.dtype) and not (
        float(value).is_integer() and (to.dtype == bool or np.iinfo(to.dtype).min <= value <= np.iinfo(to.dtype).max)
    ):
        raise refused(f"{value} as {to.dtype}")
    with np.errstate(all="ignore"):
        return Value(np.broadcast_to(np.asarray(value).astype(to.dtype), to.shape).copy())


def _filling(number: int) -> tuple[Rule, Rule, Rule]:
    def of_sizes(call: Call, size: list[int], **options: Any) -> Value:
        return _filled(call, size, number)

    def like(call: Call, x: Value, **options: Any) -> Value:
        return _filled(call, x.array.shape, number)

    def new(call: Call, x: Value, size: list[int], **options: Any) -> Value:
        return _filled(call, size, number)

    return of_sizes, like, new


for _name, _number in (("zeros", 0), ("ones", 1)):
    others[f"aten.{_name}.default"], others[f"aten.{_name}_like.default"], others[f"aten.new_{_name}.default"] = (
        _filling(_number)
    )


@_rule(others, "aten.full.default")
def _full(call: Call, size: list[int], value: Number, **options: Any) -> Value:
    return _filled(call, size, value)


@_rule(others, "aten.full_like.default")
def _full_like(call: Call, x: Value, value: Number, **options: Any) -> Value:
    return _filled(call, x.array.shape, value)


@_rule(others, "aten.scalar_tensor.default")
def _scalar_tensor(call: Call, value: Number, **options: Any) -> Value:
    return _filled(call, (), value)


@_rule(others, "aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def _arange(call: Call, *bounds: Number, **options: Any) -> Value:
    to = call.output
    if not 1 <= len(bounds) <= 3 or not all(abs(bound) <= 2**53 for bound in bounds):  # NaN is not either
        raise refused(f"arange of {len(bounds)} numbers, or of numbers above 2^53")
    if to.dtype.kind not in "iu" and not all(float(bound).is_integer() for bound in bounds):
        raise CannotSay("arange with steps that are no whole numbers")
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if step == 0:
        raise refused("arange with steps of 0")
    _require_output(call, [max(0, math.ceil((end - start) / step))])
    return Value(np.arange(start, end, step).astype(to.dtype))


# ---------------------------------------------------------------------------------------------------------------------
# Functions of a row


def _by_rows(call: Call, x: Value, compute: Callable[[np.ndarray, list[int], int], list[np.ndarray]]) -> list[Value]:
    """`compute` takes known rows, their numbers and the number of all rows, and returns arrays with these rows."""
    if x.array.ndim == 0 or not x.array.size:
        raise refused(f"rows of a tensor {list(x.array.shape)}")
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


def _shaped(value: Value, to: Tensor) -> Value:
    if value.array.size != math.prod(to.shape):
        raise Differs(f"the output is {list(to.shape)}, but the operator makes {value.array.size} elements")
    return Value(value.array.reshape(to.shape), None if value.known is None else value.known.reshape(to.shape))


def _all_shaped(made: list[Value], call: Call) -> list[Value | None]:
    """Those of the outputs that the capture describes."""
    return [None if to is None else _shaped(value, to) for value, to in zip(made, call.outputs, strict=False)]


def _require_last(x: Value, dims: int | list[int]) -> None:
    if axes_of(dims, x.array.ndim) != [x.array.ndim - 1]:
        raise CannotSay(f"over dimension {dims}, not the last one")


def _softmax_of(call: Call, x: Value, dim: int, function: Callable[..., Any]) -> Value:
    _require_last(x, dim)
    to = call.output
    made = _by_rows(
        call,
        x,
        lambda rows, at, whole: [function(rows, dtype=to.dtype.type, rows=at, whole=whole, threads=call.threads)],
    )
    return _shaped(made[0], to)


@_rule(of_rows, "aten._softmax.default")
def _softmax(call: Call, x: Value, dim: int, half_to_float: bool = False) -> Value:
    return _softmax_of(call, x, dim, operators.softmax)


@_rule(of_rows, "aten._log_softmax.default")
def _log_softmax(call: Call, x: Value, dim: int, half_to_float: bool = False) -> Value:
    return _softmax_of(call, x, dim, operators.log_softmax)


def _of_columns(call: Call, x: Value, axes: list[int], function: Callable[..., Any]) -> Value | None:
    """A sum over neighbouring dimensions before the last one: in the order of a matrix whose columns are all outputs.
    None if the last dimension is among them. A thread takes up to 4 neighbouring outputs, as many as divide the extent
    of the dimensions behind."""
    shape = x.array.shape
    if axes != list(range(axes[0], axes[-1] + 1)) or x.known is not None or not x.array.size:
        return None
    behind, before = math.prod(shape[axes[-1] + 1 :]), math.prod(shape[: axes[0]])
    if behind == 1 and axes[-1] < x.array.ndim - 1:  # dimensions of 1 do not count
        rows = np.ascontiguousarray(x.array).reshape(before, -1)
        return Value(np.asarray(function(rows, -1, dtype=call.output.dtype.type, threads=call.threads)))
    if behind == 1 or math.gcd(behind, 4) != math.gcd(before * behind, 4):
        return None
    terms = np.moveaxis(np.ascontiguousarray(x.array).reshape(before, -1, behind), 1, 0)
    matrix = np.ascontiguousarray(terms).reshape(len(terms), -1)
    return Value(np.asarray(function(matrix, 0, dtype=call.output.dtype.type, threads=call.threads)))


def _reduction(name: str) -> Rule:
    function = getattr(operators, name)

    def rule(
        call: Call, x: Value, dims: int | list[int] | None = None, keepdim: bool = False, dtype: Any = None
    ) -> Value:
        to = call.output
        if _is_whole(x.array.dtype):
            if name != "sum" or to.dtype.kind not in "iu":
                raise CannotSay(f"{name} of {x.array.dtype} as {to.dtype}")
            axes = None if dims is None or dims == [] else tuple(axes_of(dims, x.array.ndim))
            return _shaped(Value(np.asarray(np.sum(x.whole("its input"), axes, dtype=to.dtype))), to)
        if dims is None or dims == []:
            total = function(np.ascontiguousarray(x.whole("its input")), None, dtype=to.dtype.type)
            return _shaped(Value(np.asarray(total)), to)
        of_columns = _of_columns(call, x, sorted(axes_of(dims, x.array.ndim)), function)
        if of_columns is not None:
            return _shaped(of_columns, to)
        _require_last(x, dims)
        made = _by_rows(
            call,
            x,
            lambda rows, at, whole: [
                function(rows, -1, dtype=to.dtype.type, rows=at, whole=whole, threads=call.threads)
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


def _ordered_largest(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The largest elements, in any order of comparisons."""
    wide = x.astype(np.float64)
    if np.isnan(wide).any() or _is_whole(x.dtype):
        raise CannotSay("amax of NaN or of integers over another dimension than the last one")
    largest: np.ndarray = wide.max(axes)
    if (largest == 0).any() and np.signbit(wide[wide == 0]).any():
        raise CannotSay("amax of two zeros")
    return largest.astype(x.dtype)


@_rule(of_rows, "aten.amax.default")
def _amax(call: Call, x: Value, dims: int | list[int] | None = None, keepdim: bool = False) -> Value:
    dims = dims if dims or dims == 0 else list(range(x.array.ndim))
    axes = axes_of(dims, x.array.ndim)
    if axes != [x.array.ndim - 1] and axes and x.known is None and x.array.size:
        largest = np.asarray(_ordered_largest(x.array, tuple(axes)))
        return _shaped(Value(largest), call.output)
    _require_last(x, dims)
    made = _by_rows(call, x, lambda rows, at, whole: [operators.amax(rows, -1, threads=call.threads)])
    return _shaped(made[0], call.output)


@_rule(of_rows, "aten.argmax.default")
def _argmax(call: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    if dim is None:
        x = Value(x.whole("its input").reshape(1, x.array.size))
    elif x.known is None and x.array.ndim:  # the first of equal numbers, in any order
        x = Value(np.moveaxis(x.array, axis_of(dim, x.array.ndim), -1))
    else:
        _require_last(x, dim)
    made = _by_rows(call, x, lambda rows, at, whole: [operators.argmax(rows, -1, threads=call.threads)])
    return _shaped(made[0], call.output)


@_rule(of_rows, "aten.max.dim")
def _max(call: Call, x: Value, dim: int, keepdim: bool = False) -> list[Value | None]:
    _require_last(x, dim)
    made = _by_rows(call, x, lambda rows, at, whole: [operators.amax(rows, -1), operators.argmax(rows, -1)])
    return _all_shaped(made, call)


@_rule(of_rows, "aten.topk.default")
def _topk(
    call: Call, x: Value, count: int, dim: int = -1, largest: bool = True, is_sorted: bool = True
) -> list[Value | None]:
    _require_last(x, dim)
    if not largest or not is_sorted:
        raise CannotSay("topk of the smallest, or unsorted")
    return _largest(call, x, count)


def _largest(call: Call, x: Value, columns: int) -> list[Value | None]:
    if not 0 <= columns <= x.array.shape[-1]:
        raise refused(f"the {columns} largest of {x.array.shape[-1]}")

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
    return _all_shaped([values, places], call)


@_rule(of_rows, "aten.sort.default")
def _sort(call: Call, x: Value, dim: int = -1, descending: bool = False) -> list[Value | None]:
    if not descending:
        raise CannotSay("sort of ascending order")
    _require_last(x, dim)
    return _largest(call, x, x.array.shape[-1])


def _require_normalized(x: Value, shape: list[int]) -> None:
    if len(shape) != 1:
        raise CannotSay("a norm over several dimensions")
    if x.array.shape[-1:] != (shape[0],):
        raise refused(f"a norm over {shape} of a tensor {list(x.array.shape)}")


@_rule(of_rows, "aten.native_layer_norm.default")
def _layer_norm(
    call: Call, x: Value, shape: list[int], weight: Value | None, bias: Value | None, eps: float
) -> list[Value | None]:
    _require_normalized(x, shape)
    w, b = (None if operand is None else operand.whole("a weight") for operand in (weight, bias))
    made = _by_rows(
        call,
        x,
        lambda rows, at, whole: list(operators.layer_norm(rows, w, b, eps, return_moments=True, threads=call.threads)),
    )
    return _all_shaped(made, call)


@_rule(of_rows, "aten._fused_rms_norm.default")
def _rms_norm(call: Call, x: Value, shape: list[int], weight: Value | None, eps: float | None) -> list[Value | None]:
    _require_normalized(x, shape)
    w = None if weight is None else weight.whole("the weight")
    if eps is None and x.array.dtype != np.float32:
        raise CannotSay("rms_norm without eps of 16-bit numbers")
    epsilon = float(np.finfo(np.float32).eps) if eps is None else eps

    def compute(rows: np.ndarray, at: list[int], whole: int) -> list[np.ndarray]:
        out, rstd = operators.rms_norm_with_deviation(rows, w, epsilon, call.threads)
        return [out, rstd]

    out, rstd = _by_rows(call, x, compute)
    # Captures compare the first output alone: the second one was recorded on an H200 only.
    to = call.outputs[1] if call.product and len(call.outputs) > 1 else None
    return [_shaped(out, call.output), None if to is None else _shaped(rstd, to)]


@_rule(others, "aten.nonzero.default")
def _nonzero(call: Call, x: Value) -> Value:
    return Value(np.argwhere(x.whole("its input")).astype(np.int64))


@_rule(others, "aten.cumsum.default")
def _cumsum(call: Call, x: Value, dim: int, dtype: Any = None) -> Value:
    if not _is_whole(x.array.dtype) or call.output.dtype.kind not in "iu":
        raise CannotSay("cumsum of floating-point numbers")
    return Value(np.cumsum(x.whole("its input"), axis_of(dim, x.array.ndim), dtype=call.output.dtype))


def _exponential_numbers(call: Call, shape: tuple[int, ...]) -> np.ndarray:
    if call.generator is None or "multiprocessors" not in call.machine:
        raise CannotSay("the state of the random generator was not captured")
    if 0 in shape:
        raise refused(f"random numbers of a tensor {list(shape)}")
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
    if count != 1 or p.dtype != np.float32 or p.ndim not in (1, 2):
        raise CannotSay("multinomial of several samples, or of another type than float32")
    with np.errstate(all="ignore"):
        quotients = p / _exponential_numbers(call, p.shape)
    return Value(np.argmax(quotients, -1, keepdims=True).astype(np.int64))


# ---------------------------------------------------------------------------------------------------------------------
# Products and attention


def _product_names(call: Call) -> str:
    if not call.kernels:
        raise CannotSay("the capture has no kernel names of it")
    return " + ".join(call.kernels)


def _product(call: Call, a: Value, b: Value, **options: Any) -> Value:
    to = call.output
    names, right = "" if call.product else _product_names(call), b.whole("B")
    shapes = a.array.shape, b.array.shape
    if (
        len(shapes[0]) not in (2, 3)
        or len(shapes[0]) != len(shapes[1])
        or shapes[0][:-2] != shapes[1][:-2]
        or shapes[0][-1] != shapes[1][-2]
    ):
        raise refused(f"a product of {list(shapes[0])} and {list(shapes[1])}")
    _require_output(call, (*a.array.shape[:-1], b.array.shape[-1]), "the product is")
    if call.product is not None:
        return Value(call.product(a.whole("A"), right, options, to))
    options.pop("use_fast_accum", None)  # the kernel's name says it
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
        operand = options.get(name)
        if operand is not None and np.ndim(operand) == 2 and len(operand) == len(a.array):
            options[name] = operand[numbers]
    made = _gemm(call, names, np.ascontiguousarray(a.array[numbers]), right, options)
    if len(numbers) == len(a.array):
        return Value(made)
    array, mask = np.zeros(to.shape, made.dtype), np.zeros(to.shape, bool)
    array[numbers], mask[numbers] = made, True
    return Value(array, mask)


def _gemm(call: Call, names: str, a: np.ndarray, b: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    try:
        made: np.ndarray = gemm(a, b, kernel=names, split_k=call.slices, threads=call.threads, **options)
    except Error as error:
        raise CannotSay(f"no plan is known: {str(error).splitlines()[0]}") from None
    if made.dtype != call.output.dtype:
        raise CannotSay(f"the kernel's D is {made.dtype}, the output {call.output.dtype}")
    return made


@_rule(others, "aten.mm.default", "aten.bmm.default", "aten.mm.dtype", "aten.bmm.dtype", "aten._int_mm.default")
def _mm(call: Call, a: Value, b: Value, out_dtype: Any = None) -> Value:
    return _product(call, a, b)


def _added(c: Value, beta: float, alpha: float) -> dict[str, Any]:
    """What `gemm` adds; as in torch, a C with beta = 0 is not read."""
    numbers = {} if alpha == 1 else {"alpha": alpha}
    if beta == 0:
        return numbers
    array = c.whole("C")
    return {"bias" if array.ndim == 1 else "c": array, **numbers, **({} if beta == 1 else {"beta": beta})}


@_rule(others, "aten.addmm.default")
def _addmm(call: Call, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    return _product(call, a, b, **_added(c, beta, alpha))


@_rule(others, "aten._addmm_activation.default")
def _addmm_activation(
    call: Call, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1, use_gelu: bool = False
) -> Value:
    if use_gelu:
        raise CannotSay("the gelu of cuBLAS' epilogue")
    return _product(call, a, b, **_added(c, beta, alpha), relu=True)


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
    more = {"use_fast_accum": True} if use_fast_accum else {}
    return _product(call, a, b, **scales, **more, **({} if bias is None else {"bias": bias.whole("the bias")}))


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
) -> list[Value]:
    if dropout:
        raise CannotSay("attention with dropout")
    return _attention(call, q, k, v, is_causal=is_causal, **({} if scale is None else {"scale": scale}))


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
    # Without names the shape decides, and `attention` refuses the shapes of kernels that it does not know.
    backend = (
        "cudnn"
        if call.product
        else next((backend for kernel, backend in _cudnn_kernels.items() if kernel in names), None)
    )
    if backend is None:
        raise CannotSay(f"no rule is known for cuDNN's kernel {names or '(not captured)'}")
    out, lse = _attention(
        call, q, k, v, is_causal=is_causal, backend=backend, **({} if scale is None else {"scale": scale})
    )
    to = call.outputs[1] if len(call.outputs) > 1 else None
    return [out, None if to is None else _shaped(lse, to)]
