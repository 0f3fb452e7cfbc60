# SPDX-License-Identifier: MIT
"""Operators as PyTorch 2.11 computes them eagerly on an H100 or H200, bit for bit.

    out = bitmma.operators.attention(q, k, v, is_causal=True)      scaled_dot_product_attention, FlashAttention-2
    p = bitmma.operators.softmax(x, -1)                            over the last dimension
    s = bitmma.operators.sum(x), bitmma.operators.sum(x, -1)       of all elements, of each row
    y = bitmma.operators.elementwise("silu", x)                    functions of single elements
    print(bitmma.operators.explain("softmax", x, output=(0, 5)))   one output, step by step

Arrays are NumPy's or torch's, of float32, float16 or bfloat16; results are of the same kind. Names, arguments and
defaults are torch's where torch has the operator. Every array is read as its contiguous copy.
docs/operators.md lists what was compared with a GPU.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np

from . import _core
from ._arguments import public, unchecked
from ._arrays import Codes, _is_torch, codes_as, dtype_of, format_of, like, to_numpy
from ._errors import (
    ArgumentError,
    count_of,
    flag_of,
    near,
    no_such_argument,
    number_of,
    refuse,
    shown,
    text_of,
    threads_of,
)
from ._names import no_such_name
from ._types import AttentionOptions, LayerNormOptions, NumPyMatrix, NumPyOperand, Tensor, of_array

__all__ = [
    "OperatorTrace",
    "amax",
    "argmax",
    "attention",
    "cross_entropy",
    "elementwise",
    "elementwise_functions",
    "explain",
    "layer_norm",
    "log_softmax",
    "mean",
    "rms_norm",
    "softmax",
    "sum",
]

if TYPE_CHECKING:
    from typing_extensions import Unpack


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # checkers report such names themselves

    def __getattr__(name: str) -> Any:
        is_function = not name.startswith("_") and name in elementwise_functions()
        hint = f'use bitmma.operators.elementwise("{name}", x)' if is_function else ""
        raise no_such_name(__name__, name, __all__, hint)


def _format(array: np.ndarray, name: str, formats: tuple[str, ...]) -> str:
    format = format_of(array) if array.dtype.kind not in "iub" else ""
    format = "f32" if format == "tf32" else format
    if format not in formats:
        raise refuse(
            name,
            array.dtype,
            ", ".join(str(dtype_of(format)) for format in formats),
            f"{name}.astype({dtype_of(formats[0])})",
        )
    return format


def _rows(
    value: Any,
    name: str,
    formats: tuple[str, ...] = ("f32", "f16", "bf16"),
    format: str | None = None,
    reference: str = "x",
    may_be_number: bool = False,
) -> tuple[str, np.ndarray, np.ndarray]:
    """(format, codes as a matrix of the last axis, the array). `format`: that of `reference`, which this one must
    have. A number, an array without axes, is a matrix of one element."""
    array = to_numpy(value, name)
    own = _format(array, name, formats)
    if format is not None and own != format:
        raise refuse(name, own, f"{format}, the type of {reference}")
    if array.ndim == 0 and not may_be_number:
        raise refuse(name, "shape ()", "an array with an axis", f"np.atleast_1d({name})")
    if array.size == 0:
        raise refuse(name, f"shape {array.shape}", "at least one element")
    columns = array.shape[-1] if array.ndim else 1
    return own, np.ascontiguousarray(codes_as(array, own, name)).reshape(-1, columns), array


def _format_of_result(dtype: Any, format: str) -> str:
    """Of `dtype`, NumPy's or torch's: that of x, or f32."""
    if dtype is None:
        return format
    name = getattr(dtype, "__name__", None) or str(dtype).removeprefix("torch.")
    result = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(name)
    if result not in (format, "f32"):
        raise refuse("dtype", shown(dtype), f"float32, or {dtype_of(format)}, the type of x")
    return result


def _numbers(rows: Any, count: int) -> list[int] | None:
    """Numbers of rows of a larger matrix."""
    if rows is None:
        return None
    numbers = np.asarray(rows)
    if numbers.dtype.kind not in "iu" or numbers.shape != (count,):
        raise refuse("rows", shown(rows), f"{count} whole numbers, one for each row of x")
    return [int(number) for number in numbers]


def _result(operands: tuple[Any, ...], codes: Any, format: str, shape: tuple[int, ...]) -> Any:
    return like(operands, codes.view(dtype_of(format)).reshape(shape))


Place = tuple[int, ...]


def _place(output: Place | None, shape: tuple[int, ...], last: int) -> Place | None:
    """The place of an output as the library counts it: one number for all but the `last` dimensions of the result."""
    if output is None:
        return None
    if not isinstance(output, tuple) or len(output) != len(shape):
        raise refuse(
            "output", shown(output), f"{len(shape)} whole numbers, a place in the result of shape {tuple(shape)}"
        )
    numbers = [count_of(index, "output", 0, size - 1) for index, size in zip(output, shape, strict=True)]
    numbers += [0] * (last - len(shape))  # of a number: the element of its matrix
    cut, lead = max(len(shape) - last, 0), 0
    for number, size in zip(numbers[:cut], shape, strict=False):
        lead = lead * size + number
    return (lead, *numbers[cut:])


def _heads(value: Any, name: str, has_f32: bool, format: str | None = None) -> tuple[str, np.ndarray, np.ndarray]:
    """`_rows` of [..., heads, n, head size]."""
    format, words, array = _rows(value, name, ("f16", "bf16", "f32") if has_f32 else ("f16", "bf16"), format, "q")
    if array.ndim < 2:
        raise refuse(name, f"shape {array.shape}", "[..., heads, n, head size] or [n, head size]")
    return format, words, array


def _window(value: Any) -> tuple[int, int]:
    if value is None:
        return -1, -1
    if not isinstance(value, tuple) or len(value) != 2:
        raise refuse(
            "window",
            repr(value),
            "(left, right): the numbers of keys before and after the position of a query; -1 means all",
        )
    left, right = (-1 if side == -1 else count_of(side, "window", 0) for side in value)
    return left, right


def _attention(
    q: Any,
    k: Any,
    v: Any,
    is_causal: bool,
    scale: float | None,
    window: tuple[int, int] | None,
    splits: int | None,
    backend: str,
    return_lse: bool,
    threads: int,
    output: Place | None = None,
) -> Any:
    name = text_of(backend, "backend", "cudnn") or "flash"
    has_f32 = name == "efficient"
    format, q_words, q_array = _heads(q, "q", has_f32)
    _, k_words, k_array = _heads(k, "k", has_f32, format)
    _, v_words, v_array = _heads(v, "v", has_f32, format)
    if k_array.shape != v_array.shape:
        raise refuse("v", f"shape {v_array.shape}", f"{k_array.shape}, as k")
    *lead, queries, head_size = q_array.shape
    if k_array.ndim != q_array.ndim or k_array.shape[-1] != head_size or k_array.shape[:-3] != q_array.shape[:-3]:
        raise refuse(
            "k", f"shape {k_array.shape}", f"{(*lead, 'keys', head_size)}, with the heads of q or a divisor of them"
        )
    left, right = _window(window)
    heads, kv_heads = (int(np.prod(array.shape[:-2], dtype=np.int64)) for array in (q_array, k_array))
    result: Any = _core.attention(
        (format, q_words),
        (format, k_words),
        (format, v_words),
        heads,
        kv_heads,
        name,
        flag_of(is_causal, "is_causal"),
        None if scale is None else number_of(scale, "scale"),
        left,
        right,
        None if splits is None else count_of(splits, "splits", 1, 128),
        threads_of(threads),
        _place(output, q_array.shape, 2),
    )
    if output is not None:
        return result
    out, lse = result
    made = _result((q, k, v), out, format, q_array.shape)
    return (made, _result((q, k, v), lse, "f32", (*lead, queries))) if flag_of(return_lse, "return_lse") else made


@overload
def attention(
    q: NumPyMatrix, k: Any, v: Any, *, return_lse: Literal[False] = ..., **options: Unpack[AttentionOptions]
) -> np.ndarray: ...
@overload
def attention(
    q: NumPyMatrix, k: Any, v: Any, *, return_lse: Literal[True], **options: Unpack[AttentionOptions]
) -> tuple[np.ndarray, np.ndarray]: ...
@overload
def attention(
    q: Tensor, k: Any, v: Any, *, return_lse: Literal[False] = ..., **options: Unpack[AttentionOptions]
) -> Tensor: ...
@overload
def attention(
    q: Tensor, k: Any, v: Any, *, return_lse: Literal[True], **options: Unpack[AttentionOptions]
) -> tuple[Tensor, Tensor]: ...
@public(k=unchecked)
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] | None = None,
    splits: int | None = None,
    backend: str = "flash",
    return_lse: bool = False,
    threads: int = 1,
) -> Any:
    """softmax(q @ k.T * scale) @ v as scaled_dot_product_attention gives it.

    q           [..., heads, queries, head size], float16 or bfloat16, float32 for "efficient"; head sizes are multiples
                of 8 up to 256
    k, v        [..., heads or a divisor of them, keys, head size], of the same type
    is_causal   query i sees the keys up to i + keys - queries: FlashAttention's rule where their numbers differ
    scale       above 0; default 1 / sqrt(head size)
    window      (left, right): keys that a query sees before and after its own; -1: all
    splits      parts that the keys are cut into; default: what the library chooses for this shape on 132
                multiprocessors. 1 is the kernel of sequences of several lengths
    backend     "flash": FlashAttention-2. "efficient": the memory-efficient kernel, of head sizes up to 128 and without
                window and splits; its causal mask starts at the first key: query i sees the keys up to i. "cudnn":
                cuDNN's kernels, with the same mask and without window and splits; docs/operators.md lists which calls
                were measured. "cudnn_sm80": its kernel sdpa_sm80_flash_fprop_wmma_f16_knob_2 or 3 of a single query, if
                a profiler names it
    return_lse  True: (out, lse), lse float32 [..., heads, queries], the logarithm of the sum of exp(score * scale)
    threads     0: all cores. No bit depends on it

    Raises Error for shapes and types that the kernel does not take.

    >>> q = np.ones((1, 2, 8), np.float16)
    >>> attention(q, q, q)[0, 0]
    array([1., 1., 1., 1., 1., 1., 1., 1.], dtype=float16)
    """
    return _attention(q, k, v, is_causal, scale, window, splits, backend, return_lse, threads)


def _last(dim: Any, dimensions: int) -> None:
    """Raises Error unless `dim` is the last dimension."""
    if type(dim) is not int or dim not in (-1, dimensions - 1):
        raise refuse(
            "dim", shown(dim), f"-1 or {dimensions - 1}, the last dimension", "other dimensions are not measured"
        )


def _softmax(
    x: Any, dim: int, dtype: Any, rows: Any, whole: int, threads: int, logarithm: bool, output: Place | None = None
) -> Any:
    format, words, array = _rows(x, "x")
    _last(dim, array.ndim)
    to = _format_of_result(dtype, format)
    made = _core.softmax(
        (format, words),
        to,
        logarithm,
        _numbers(rows, len(words)),
        count_of(whole, "whole"),
        threads_of(threads),
        _place(output, array.shape, 1),
    )
    return made if output is not None else _result((x,), made, to, array.shape)


@of_array
@public(rows=unchecked)
def softmax(x: Any, dim: int = -1, dtype: Any = None, *, rows: Any = None, whole: int = 0, threads: int = 1) -> Any:
    """torch.softmax.

    dim      -1, the last one
    dtype    of the result: that of x, or float32, NumPy's or torch's
    rows     where x has some rows of a larger matrix: the number of each there. Where rows begin in memory decides bits
             of rows whose bytes are no multiple of 16
    whole    rows of that matrix
    threads  0: all cores. No bit depends on it

    >>> softmax(np.zeros((1, 4), np.float32))
    array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """
    return _softmax(x, dim, dtype, rows, whole, threads, False)


@of_array
@public(rows=unchecked)
def log_softmax(x: Any, dim: int = -1, dtype: Any = None, *, rows: Any = None, whole: int = 0, threads: int = 1) -> Any:
    """torch.log_softmax; arguments as `softmax`.

    >>> log_softmax(np.zeros((1, 1), np.float32))
    array([[0.]], dtype=float32)
    """
    return _softmax(x, dim, dtype, rows, whole, threads, True)


def _is_shape(value: Any) -> bool:
    """True for what torch takes as `normalized_shape`: (n,), [n] or torch.Size([n])."""
    return isinstance(value, (tuple, list)) and all(
        isinstance(extent, (int, np.integer)) and not isinstance(extent, bool) for extent in value
    )


def _operands_of_norm(
    function: str, operands: tuple[Any, ...], names: tuple[str, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """The operands of a norm by name: positional ones follow x, with or without torch's normalized_shape before
    them."""
    places = (
        ("normalized_shape", *names) if operands and (_is_shape(operands[0]) or type(operands[0]) is int) else names
    )
    if len(operands) > len(places):
        raise refuse(
            function,
            f"{len(operands) + 1} positional arguments",
            f"{function}(x, normalized_shape, {', '.join(names)})",
        )
    by_name = dict(named)
    for name, value in zip(places, operands, strict=False):
        if named[name] is not None:
            raise refuse(name, "given twice", "one value")
        by_name[name] = value
    shape = by_name.pop("normalized_shape")
    if shape is not None:
        if not _is_shape(shape):
            raise refuse("normalized_shape", shown(shape), "a tuple with the size of the last dimension of x")
        array = to_numpy(by_name["x"], "x")
        if len(shape) != 1 or array.ndim == 0 or int(shape[0]) != array.shape[-1]:
            raise refuse(
                "normalized_shape",
                shown(tuple(shape)),
                f"{tuple(array.shape[-1:])}, the last dimension of x",
                "norms over several dimensions are not measured" if len(shape) > 1 else "",
            )
    return by_name


def _norm(x: Any, weight: Any, bias: Any, eps: float, rms: bool, threads: int, output: Place | None = None) -> Any:
    format, words, array = _rows(x, "x")
    parameters = []
    for name, parameter in (("weight", weight), ("bias", bias)):
        codes = None if parameter is None else _rows(parameter, name, format=format)[1]
        if codes is not None and codes.shape != (1, array.shape[-1]):
            raise refuse(
                name, f"shape {to_numpy(parameter, name).shape}", f"({array.shape[-1]},), the last dimension of x"
            )
        parameters.append(None if codes is None else (format, codes))
    made: Any = _core.norm(
        (format, words),
        parameters[0],
        parameters[1],
        number_of(eps, "eps"),
        rms,
        threads_of(threads),
        _place(output, array.shape, 1),
    )
    if output is not None:
        return made
    out, mean, rstd = made
    rest = (*array.shape[:-1], 1)
    return (
        _result((x, weight, bias), out, format, array.shape),
        None if mean is None else _result((x, weight, bias), mean, "f32", rest),
        _result((x, weight, bias), rstd, "f32", rest),
    )


@overload
def layer_norm(
    x: NumPyMatrix, *operands: Any, return_moments: Literal[False] = ..., **options: Unpack[LayerNormOptions]
) -> np.ndarray: ...
@overload
def layer_norm(
    x: NumPyMatrix, *operands: Any, return_moments: Literal[True], **options: Unpack[LayerNormOptions]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
@overload
def layer_norm(
    x: Tensor, *operands: Any, return_moments: Literal[False] = ..., **options: Unpack[LayerNormOptions]
) -> Tensor: ...
@overload
def layer_norm(
    x: Tensor, *operands: Any, return_moments: Literal[True], **options: Unpack[LayerNormOptions]
) -> tuple[Tensor, Tensor, Tensor]: ...
@public
def layer_norm(
    x: Any,
    *operands: Any,
    normalized_shape: Any = None,
    weight: Any = None,
    bias: Any = None,
    eps: float | None = None,
    return_moments: bool = False,
    threads: int = 1,
) -> Any:
    """torch.nn.functional.layer_norm over the last dimension.

    operands          by position as in torch: normalized_shape, weight, bias, eps; normalized_shape may be left out
    normalized_shape  (n,), the last dimension of x
    weight, bias      one number a column, of the type of x
    eps               default 1e-5
    return_moments    True: (out, mean, rstd), float32 [..., 1]

    >>> layer_norm(np.array([[1, 3]], np.float32), (2,), eps=0)
    array([[-1.,  1.]], dtype=float32)
    """
    result = _layer_norm(x, operands, normalized_shape, weight, bias, eps, return_moments, threads)
    return result if flag_of(return_moments, "return_moments") else result[0]


def _layer_norm(
    x: Any,
    operands: tuple[Any, ...],
    normalized_shape: Any,
    weight: Any,
    bias: Any,
    eps: float | None,
    return_moments: bool,
    threads: int,
    output: Place | None = None,
) -> Any:
    by_name = _operands_of_norm(
        "layer_norm",
        operands,
        ("weight", "bias", "eps"),
        {"x": x, "normalized_shape": normalized_shape, "weight": weight, "bias": bias, "eps": eps},
    )
    eps = by_name.pop("eps")
    return _norm(**by_name, eps=1e-5 if eps is None else eps, rms=False, threads=threads, output=output)


@of_array
@public
def rms_norm(
    x: Any, *operands: Any, normalized_shape: Any = None, weight: Any = None, eps: float | None = None, threads: int = 1
) -> Any:
    """torch.nn.functional.rms_norm over the last dimension.

    operands          by position as in torch: normalized_shape, weight, eps; normalized_shape may be left out
    normalized_shape  (n,), the last dimension of x
    weight            one number a column, of the type of x
    eps               default: the epsilon of float32, 2^-23, for 16-bit types too: PyTorch takes that of the type in
                      which it adds

    >>> rms_norm(np.array([[2, 2, 2, 2]], np.float32), (4,), eps=0)
    array([[1., 1., 1., 1.]], dtype=float32)
    """
    return _rms_norm(x, operands, normalized_shape, weight, eps, threads)[0]


def _rms_norm(
    x: Any,
    operands: tuple[Any, ...],
    normalized_shape: Any,
    weight: Any,
    eps: float | None,
    threads: int,
    output: Place | None = None,
) -> Any:
    by_name = _operands_of_norm(
        "rms_norm",
        operands,
        ("weight", "eps"),
        {"x": x, "normalized_shape": normalized_shape, "weight": weight, "eps": eps},
    )
    eps = by_name.pop("eps")
    return _norm(
        **by_name,
        bias=None,
        eps=float(np.finfo(np.float32).eps) if eps is None else eps,
        rms=True,
        threads=threads,
        output=output,
    )


def rms_norm_with_deviation(x: np.ndarray, weight: np.ndarray | None, eps: float, threads: int) -> Any:
    """(out, 1 / root mean square of each row)."""
    out, _, rstd = _norm(x, weight, None, eps, True, threads)
    return out, rstd


Dims = int | tuple[int, ...] | list[int] | None


def _dimension(dim: Dims, dimensions: int, has_lists: bool) -> int | None:
    """The dimension that a reduction goes over; None for all."""
    stated = dim
    if isinstance(dim, (tuple, list)) and has_lists:
        if not all(type(axis) is int and -dimensions <= axis < dimensions for axis in dim):
            raise refuse("dim", shown(stated), f"whole numbers from {-dimensions} to {dimensions - 1}")
        axes = {axis % dimensions for axis in dim}
        if len(axes) != len(dim):
            raise refuse("dim", shown(stated), "each dimension once")
        if not axes or len(axes) == dimensions > 1:
            dim = None
        elif len(axes) == 1:
            dim = axes.pop()
    is_last = type(dim) is int and dim in (-1, dimensions - 1)
    is_first_of_matrix = type(dim) is int and dimensions == 2 and dim in (0, -2)
    if dim is not None and not is_last and not is_first_of_matrix:
        raise refuse(
            "dim", shown(stated), "None for all elements, -1, or 0 of a matrix", "other dimensions are not measured"
        )
    assert dim is None or isinstance(dim, int)
    return dim


def _reduced(
    x: Any,
    dim: Dims,
    keepdim: bool,
    dtype: Any,
    rows: Any,
    whole: int,
    threads: int,
    what: str,
    output: Place | None = None,
) -> Any:
    if what != "mean" and _is_exact(x):
        if rows is not None or whole or output is not None:
            raise refuse(
                "x", to_numpy(x, "x").dtype, "float32, float16 or bfloat16", "the sum of integers has no order"
            )
        if (
            dtype is not None
            and np.dtype(getattr(dtype, "__name__", None) or str(dtype).removeprefix("torch.")) != np.int64
        ):
            raise refuse("dtype", shown(dtype), "int64, the type of torch's sums of integers")
        return _reduced_exactly(x, dim, keepdim, what)
    format, words, array = _rows(x, "x")
    dim, whole = _dimension(dim, array.ndim, what != "argmax"), count_of(whole, "whole")
    to = _format_of_result(dtype, format)
    over_rows = array.ndim == 2 and dim in (0, -2)
    if (dim is None or over_rows) and (rows is not None or whole):
        raise refuse("rows, whole", "given", "omitted: x must have all rows if the result is not one value per row")
    if dim is None:
        words = words.reshape(1, -1)
    shape = () if dim is None else (array.shape[1],) if over_rows else array.shape[:-1]
    if flag_of(keepdim, "keepdim"):
        shape = (1,) * array.ndim if dim is None else (1, *shape) if over_rows else (*shape, 1)
    place = _place(output, shape, 0)
    made: Any = _core.reduce(
        (format, words),
        what,
        to,
        over_rows,
        _numbers(rows, len(words)),
        whole,
        threads_of(threads),
        place[0] if place else None,
    )
    if output is not None:
        return made
    if what == "argmax":  # torch's type of an index
        return like((x,), made.view(np.int32).astype(np.int64).reshape(shape))
    return _result((x,), made, to, shape)


def _is_exact(x: Any) -> bool:
    """True for whole numbers, whose sum and maximum no order of additions changes."""
    if isinstance(x, Codes):
        return False
    dtype = to_numpy(x, "x").dtype
    return dtype.kind in "ib" or dtype == np.uint8


def _reduced_exactly(x: Any, dim: Dims, keepdim: bool, what: str) -> Any:
    """torch.sum, torch.amax and torch.argmax of whole numbers. Sums are int64 and wrap, indices are the first."""
    array = to_numpy(x, "x")
    if array.size == 0:
        raise refuse("x", f"shape {array.shape}", "at least one element")
    if what == "argmax" and array.dtype.kind == "b":
        raise refuse("x", array.dtype, "numbers, as torch.argmax takes them", "x.astype(np.uint8)")
    axes = [dim] if type(dim) is int else [] if dim is None else list(cast(Any, dim))
    is_list = dim is None or type(dim) is int or (isinstance(dim, (tuple, list)) and what != "argmax")
    if not is_list or not all(type(axis) is int and -array.ndim <= axis < array.ndim for axis in axes):
        raise refuse("dim", shown(dim), f"None, or whole numbers from {-array.ndim} to {array.ndim - 1}")
    if len({axis % array.ndim for axis in axes}) != len(axes):
        raise refuse("dim", shown(dim), "each dimension once")
    axis: Any = tuple(axes) if axes else None
    keeps = flag_of(keepdim, "keepdim")
    if what == "sum":
        made = np.sum(array, axis=axis, dtype=np.int64, keepdims=keeps)
    elif what == "amax":
        made = np.max(array, axis=axis, keepdims=keeps)
    else:
        made = np.argmax(array, axis=axes[0] if axes else None, keepdims=keeps).astype(np.int64)
    return like((x,), np.asarray(made))


def _largest(x: Any, dim: Dims, keepdim: bool, threads: int, what: str, output: Place | None = None) -> Any:
    return _reduced(x, dim, keepdim, None, None, 0, threads, what, output)


@of_array
@public(rows=unchecked)
def sum(
    x: Any,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    rows: Any = None,
    whole: int = 0,
    threads: int = 1,
) -> Any:
    """torch.sum.

    dim      None: all elements, in the order of one row of so many; -1, the last one; 0 of a matrix. Also a tuple of
             one of these, or of all dimensions
    keepdim  True: the result has a dimension of 1 for each one that is gone
    dtype    of the result: that of x, or float32
    rows, whole, threads: as in `softmax`

    Whole numbers and bool are added as int64, as torch adds them; no order of additions changes their sum.

    >>> sum(np.array([[1, 2], [4, 8]], np.float32))
    array(15., dtype=float32)
    >>> sum(np.array([[1, 2], [4, 8]], np.float32), -1)
    array([ 3., 12.], dtype=float32)
    """
    return _reduced(x, dim, keepdim, dtype, rows, whole, threads, "sum")


@of_array
@public(rows=unchecked)
def mean(
    x: Any,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    rows: Any = None,
    whole: int = 0,
    threads: int = 1,
) -> Any:
    """torch.mean; arguments as `sum`.

    >>> mean(np.array([[1, 2, 4, 9]], np.float32), -1)
    array([4.], dtype=float32)
    """
    return _reduced(x, dim, keepdim, dtype, rows, whole, threads, "mean")


@of_array
@public
def amax(x: Any, dim: Dims = None, keepdim: bool = False, *, threads: int = 1) -> Any:
    """torch.amax; arguments as `sum`. A NaN wins, and of equal numbers the second: of -0 and +0 that is the last.

    >>> amax(np.array([[1, 8, 4]], np.float32), -1)
    array([8.], dtype=float32)
    """
    return _largest(x, dim, keepdim, threads, "amax")


@of_array
@public
def argmax(x: Any, dim: int | None = None, keepdim: bool = False, *, threads: int = 1) -> Any:
    """torch.argmax, int64: the first of equal numbers, and the first NaN. `dim` as in `sum`, without tuples; None: the
    index in the flattened x.

    >>> argmax(np.array([[1, 8, 8]], np.float32), -1)
    array([1])
    """
    return _largest(x, dim, keepdim, threads, "argmax")


def _class_indices(target: Any) -> np.ndarray:
    """Whole numbers: of torch tensors int64 and uint8, as torch requires; of other arrays any type."""
    if not _is_torch(target):
        return to_numpy(target, "target")
    name = str(target.dtype).removeprefix("torch.")
    if name not in ("int64", "uint8"):
        raise refuse(
            "target", f"torch.{name}", "int64 or uint8, which torch takes as indices of classes", "target.long()"
        )
    indices: np.ndarray = target.detach().cpu().numpy()
    return indices


@of_array
@public(target=unchecked)
def cross_entropy(x: Any, target: Any, *, reduction: str = "mean", threads: int = 1) -> Any:
    """torch.nn.functional.cross_entropy of x [rows, classes] and whole numbers [rows].

    target     torch tensors of int64 or uint8, as in torch; other arrays of any whole numbers. No index is ignored
    reduction  "mean", "sum", or "none": one loss a row

    >>> cross_entropy(np.zeros((1, 1), np.float32), np.array([0]), reduction="none")
    array([-0.], dtype=float32)
    """
    scores = to_numpy(x, "x")
    if scores.ndim != 2:
        raise refuse("x", f"shape {scores.shape}", "[rows, classes]")
    logarithms = to_numpy(log_softmax(x, threads=threads), "x")
    classes = _class_indices(target)
    if classes.shape != logarithms.shape[:1] or classes.dtype.kind not in "iu":
        raise refuse(
            "target",
            f"{classes.dtype} of shape {classes.shape}",
            f"whole numbers of shape {logarithms.shape[:1]}, one per row",
        )
    if classes.size and (classes.min() < 0 or classes.max() >= logarithms.shape[1]):
        raise refuse("target", f"{classes.min()} to {classes.max()}", f"0 to {logarithms.shape[1] - 1}")
    if reduction not in ("mean", "sum", "none"):
        raise refuse("reduction", repr(reduction), "mean, sum or none")
    picked = logarithms[np.arange(len(classes)), classes]
    if reduction == "none":
        return like((x, target), -picked)
    # One block: each thread takes every `count`th row, and halves of the threads are added to the others until one is
    # left.
    count = min(max(1 << round(math.log2(max(len(picked) // 16, 1))), 32), 1024)
    threads_have = np.zeros(count, np.float32)
    for first in range(0, len(picked), count):
        part = picked[first : first + count].astype(np.float32)
        threads_have[: len(part)] -= part
    while len(threads_have) > 1:
        half = len(threads_have) // 2
        threads_have = threads_have[:half] + threads_have[half:]
    loss = threads_have[0] / np.float32(len(picked)) if reduction == "mean" else threads_have[0]
    return like((x, target), np.asarray(loss).astype(logarithms.dtype))


def _elementwise(name: str, x: Any, y: Any, threads: int, output: Place | None = None) -> Any:
    if not isinstance(name, str):
        raise refuse("name", repr(name), "a name of bitmma.operators.elementwise_functions()")
    format, words, array = _rows(x, "x", may_be_number=True)
    other = None
    if y is not None:
        _, y_words, y_array = _rows(y, "y", format=format, may_be_number=True)
        if y_array.shape != array.shape:
            raise refuse("y", f"shape {y_array.shape}", f"{array.shape}, the shape of x", "np.broadcast_to(y, x.shape)")
        other = (format, y_words)
    made = _core.elementwise(name, (format, words), other, threads_of(threads), _place(output, array.shape, 1))
    return made if output is not None else _result((x, y), made, format, array.shape)


@overload
def elementwise(name: str, x: NumPyOperand, y: Any = ..., *, threads: int = ...) -> np.ndarray: ...
@overload
def elementwise(name: str, x: Tensor, y: Any = ..., *, threads: int = ...) -> Tensor: ...
@public
def elementwise(name: str, x: Any, y: Any = None, *, threads: int = 1) -> Any:
    """A function of each element: a name of `elementwise_functions()`, "silu", "gelu_tanh", "add", ... Functions of two
    take y, of the shape and type of x.

    >>> elementwise("mul", np.float32([3]), np.float32([5]))
    array([15.], dtype=float32)
    """
    return _elementwise(name, x, y, threads)


@public
def elementwise_functions() -> dict[str, str]:
    """The names, and what computes each: a function of `bitmma.math.c`, as nvcc compiles it, or an instruction.

    >>> elementwise_functions()["silu"]
    'silu'
    """
    return {name: computed_by for name, _, computed_by in _core.elementwise_functions()}


class OperatorTrace:
    """One output of an operator, step by step. `str` shows the steps, of many values of a step the first and the
    last."""

    def __init__(self, fields: dict[str, Any], text: str):
        self.fields = fields
        """Everything as a dictionary."""
        self._text = text
        self.word: str = fields["word"]
        """The output's code, in hexadecimal."""
        self.value: str = fields["value"]
        """Its value, as text."""
        self.plan: dict[str, str] = fields["plan"]
        """What the library chose: the kernel, its threads and tiles."""
        self.steps: list[dict[str, Any]] = fields["steps"]
        """Each has "part", "step", "operation", "rounding", "type", and lists "words" and "values": one of each lane,
        thread or key where there are several. The last one is the output."""

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        output = f"{self.fields['operator']}, output {tuple(self.fields['output'])}"
        return f"<OperatorTrace of {output}, {len(self.steps)} steps, {self.value}>"


_explained: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "attention": (attention, _attention),
    "softmax": (softmax, functools.partial(_softmax, logarithm=False)),
    "log_softmax": (log_softmax, functools.partial(_softmax, logarithm=True)),
    "layer_norm": (layer_norm, _layer_norm),
    "rms_norm": (rms_norm, _rms_norm),
    "sum": (sum, functools.partial(_reduced, what="sum")),
    "mean": (mean, functools.partial(_reduced, what="mean")),
    "amax": (amax, functools.partial(_largest, what="amax")),
    "argmax": (argmax, functools.partial(_largest, what="argmax")),
}
"""The function of each name, and the code behind it, which takes the function's arguments in their order."""


@public
def explain(operator: str, *operands: Any, output: tuple[int, ...], **arguments: Any) -> OperatorTrace:
    """One output of an operator, step by step, with the rounding of each step.

    operator   a function of this module, "attention", "softmax", ..., or a name of elementwise_functions(), such as
               "silu"
    operands   and arguments: those of the function
    output     the place of the output in the function's result, a tuple

    >>> trace = explain("sum", np.array([[1, 2, 4, 8]], np.float32), -1, output=(0,))
    >>> trace.steps[-1]["values"], trace.steps[-1]["rounding"]
    (['15'], 'exact')
    """
    name = str(text_of(operator, "operator", "softmax"))
    names = [*_explained, *elementwise_functions()]
    if name not in names:
        raise refuse("operator", shown(operator), ", ".join(names), near(name, names))
    function, code = _explained.get(name, (functools.partial(elementwise, name), functools.partial(_elementwise, name)))
    signature = inspect.signature(function)
    acting = [
        parameter for parameter in signature.parameters if parameter not in ("threads", "return_lse", "return_moments")
    ]
    for argument in arguments:
        if argument not in acting:
            raise no_such_argument(argument, f"bitmma.operators.explain of {name}", acting, near(argument, acting))
    try:
        bound = signature.bind(*operands, **arguments)
    except TypeError as error:
        raise refuse("operands", str(error), f"those of {name}: {', '.join(acting)}", kind=ArgumentError) from None
    bound.apply_defaults()
    return OperatorTrace(*code(*bound.arguments.values(), output=output))
