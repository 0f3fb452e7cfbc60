# SPDX-License-Identifier: MIT
"""Rules of `_replay_rules` for backward passes, losses and optimizers.

The orders are those of PyTorch's CUDA sources. Which products and sums ptxas fused follows from calls that an H200 with
PyTorch 2.11 computed (data/operators/README.md).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import numpy as np

from . import math as functions, operators
from ._captured import CannotSay, Tensor, Value
from ._errors import shown
from ._replay_arguments import Number, Rule, broadcast, indices_of, refused
from ._replay_rules import (
    Call,
    _is_whole,
    _require_last,
    _require_normalized,
    _require_output,
    _require_shape,
    _rounded,
    _rule,
    rule_of as rule_of_replay,
)

f32 = np.float32

table: dict[str, Rule] = {}
"""The rules by their operators. `bitmma.replay` does not use them: no H100 computed what they were compared with."""


def rule_of(op: str) -> Rule | None:
    """The rule of an operator that is no view, here or in `_replay_rules`."""
    return rule_of_replay(op) or table.get(op)


def evidence_of(op: str) -> str:
    """What the rule of an operator was compared with, for reports."""
    return "measured: H200" if op in table else "measured: H100, H200"


def _fma(a: Any, b: Any, c: Any) -> np.ndarray:
    """a * b + c, rounded once."""
    operands = np.broadcast_arrays(f32(a), f32(b), f32(c))
    made: np.ndarray = functions.fma(*(np.ascontiguousarray(operand) for operand in operands))
    return made


def _quotient(a: Any, b: Any) -> np.ndarray:
    operands = np.broadcast_arrays(f32(a), f32(b))
    made: np.ndarray = operators.elementwise("div", *(np.ascontiguousarray(np.atleast_1d(x)) for x in operands))
    return made.reshape(operands[0].shape)


def _c(name: str, x: np.ndarray) -> np.ndarray:
    """A function of C as nvcc compiles it."""
    made: np.ndarray = functions.c(name, np.ascontiguousarray(x, f32))
    return made


def _in(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Rounded to a type and widened again."""
    return _rounded(x, dtype).astype(f32)


_NONE, _MEAN, _SUM = 0, 1, 2


def _require_reduction(reduction: int) -> None:
    if reduction not in (_NONE, _MEAN, _SUM):
        raise refused(f"reduction is {reduction}, not 0, 1 or 2")


def _require_floats(*dtypes: np.dtype) -> None:
    if any(_is_whole(dtype) or dtype == np.float64 for dtype in dtypes):
        raise CannotSay(f"arithmetic of {' and '.join(sorted({str(dtype) for dtype in dtypes}))}")


def _taking_those_of(rule: Rule, function: Callable[..., np.ndarray], tensors: int, kinds: tuple[Any, Any]) -> Rule:
    """Gives the rule the parameters of a function behind its type, for `bound`: tensors of the first kind, then numbers
    of the second or of what the function's annotations name."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    hints, (of_tensor, of_number) = get_type_hints(function), kinds
    rule.__annotations__ = {
        parameter.name: of_tensor if place < tensors else of_number or hints.get(parameter.name, Number)
        for place, parameter in enumerate(parameters)
    }
    call = inspect.Parameter("call", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rule.__dict__["__signature__"] = inspect.Signature([call, *parameters])
    return rule


def _elements(function: Callable[..., np.ndarray], tensors: int) -> Rule:
    """The rule of a function of elements: of `tensors` tensors of one type, then of numbers. It takes the type, widened
    operands and the numbers."""

    def rule(call: Call, *args: Any, **options: Any) -> Value:
        values, numbers = args[:tensors], args[tensors:]
        to = call.output
        _require_floats(to.dtype, *(value.array.dtype for value in values))
        if any(value.array.dtype != to.dtype for value in values):
            raise CannotSay("tensors of several types")
        _require_shape(list(values), to)
        wide = [
            np.ascontiguousarray(np.broadcast_to(value.whole("an operand").astype(f32), to.shape)) for value in values
        ]
        with np.errstate(all="ignore"):
            made = function(to.dtype, *wide, *numbers, **options) if wide[0].size else wide[0]
        return Value(_rounded(np.ascontiguousarray(made, f32), to.dtype).reshape(to.shape))

    return _taking_those_of(rule, function, tensors, (Value, None))


_kappa = f32(0.044715)
_sqrt_half, _two_over_root_pi, _sqrt_two = 0.70710678118654752440, 1.12837916709551257390, 1.41421356237309504880
_beta_erf = f32(f32(_two_over_root_pi * _sqrt_half) * f32(0.5))
_beta_tanh = f32(_sqrt_two * _two_over_root_pi * 0.5)


def _gelu_backward(dtype: np.dtype, grad: np.ndarray, x: np.ndarray, approximate: str = "none") -> np.ndarray:
    if approximate not in ("none", "tanh"):
        raise refused(f"approximate is {shown(approximate)}, not 'none' or 'tanh'")
    if approximate == "none":
        density = _c("expf", (f32(-0.5) * x) * x) * _beta_erf
        return grad * _fma(f32(0.5), 1 + _c("erff", x * f32(_sqrt_half)), x * density)
    square = x * x
    tangent = _c("tanhf", _beta_tanh * _fma(_kappa, square * x, x))
    left = (f32(0.5) * x) * _fma(-tangent, tangent, 1)
    inner = _beta_tanh * _fma(f32(3) * _kappa, square, 1)
    return grad * (left * inner + f32(0.5) * (1 + tangent))


def _silu_backward(dtype: np.dtype, grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    sigmoid = f32(1) / (1 + _c("expf", -x))
    return (grad * sigmoid) * _fma(x, 1 - sigmoid, 1)


def _sigmoid_backward(dtype: np.dtype, grad: np.ndarray, y: np.ndarray) -> np.ndarray:
    """In 16-bit types each operation is rounded."""
    return _in(grad * _in(1 - y, dtype), dtype) * y


def _tanh_backward(dtype: np.dtype, grad: np.ndarray, y: np.ndarray) -> np.ndarray:
    if dtype == f32:
        return grad * _fma(-y, y, 1)
    return grad * _in(1 - _in(y * y, dtype), dtype)


def _elu(dtype: np.dtype, x: np.ndarray, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> np.ndarray:
    if input_scale != 1:
        raise CannotSay("elu with a scale of its input")
    return np.where(x < 0, _c("expm1f", x) * f32(alpha * scale), x * f32(scale))


def _elu_backward(
    dtype: np.dtype, grad: np.ndarray, x: np.ndarray, alpha: float, scale: float, input_scale: float, is_result: bool
) -> np.ndarray:
    if (alpha, scale, input_scale) != (1, 1, 1) or is_result:
        raise CannotSay("the backward pass of elu with other numbers than 1")
    return np.where(x <= 0, grad * _c("expf", x), grad)


def _softplus_backward(
    dtype: np.dtype, grad: np.ndarray, x: np.ndarray, beta: float = 1, threshold: float = 20
) -> np.ndarray:
    if beta != 1 or threshold != 20:
        raise CannotSay("softplus with another beta than 1 or another threshold than 20")
    power = _c("expf", x)
    return np.where(x > 20, grad, _quotient(grad * power, power + 1))


def _softplus(dtype: np.dtype, x: np.ndarray, beta: float = 1, threshold: float = 20) -> np.ndarray:
    if beta != 1 or threshold != 20:
        raise CannotSay("softplus with another beta than 1 or another threshold than 20")
    made: np.ndarray = operators.elementwise("softplus", x)
    return made


def _require_numbers(*arrays: np.ndarray) -> None:
    if any(np.isnan(array).any() for array in arrays):
        raise CannotSay("NaN")


def _clipped(x: np.ndarray, low: float, high: float) -> np.ndarray:
    _require_numbers(x)
    return np.minimum(np.maximum(x, f32(low)), f32(high))


def _leaky_relu_backward(dtype: np.dtype, grad: np.ndarray, x: np.ndarray, slope: float, is_result: bool) -> np.ndarray:
    return np.where(x > 0, grad, grad * f32(slope))


def _hardtanh_backward(dtype: np.dtype, grad: np.ndarray, x: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.where((x <= f32(low)) | (x >= f32(high)), f32(0), grad)


def _hardswish_backward(dtype: np.dtype, grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    inside = grad * (_quotient(x, f32(3)) + f32(0.5))
    return np.where(x <= -3, f32(0), np.where(x < 3, inside, grad))


def _mish_backward(dtype: np.dtype, grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    tangent = _c("tanhf", _c("log1pf", _c("expf", x)))
    return grad * _fma(x * operators.elementwise("sigmoid", x), _fma(-tangent, tangent, 1), tangent)


def _lerp(dtype: np.dtype, a: np.ndarray, b: np.ndarray, weight: float) -> np.ndarray:
    w = f32(weight)
    return _fma(w, b - a, a) if abs(w) < 0.5 else _fma(-(b - a), 1 - w, b)


def _addcmul(dtype: np.dtype, x: np.ndarray, a: np.ndarray, b: np.ndarray, value: float = 1) -> np.ndarray:
    return _fma(a, b, x) if value == 1 else _fma(f32(value), a * b, x)


def _addcdiv(dtype: np.dtype, x: np.ndarray, a: np.ndarray, b: np.ndarray, value: float = 1) -> np.ndarray:
    return _fma(f32(value), _quotient(a, b), x)


def _squared_error(dtype: np.dtype, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    difference = _in(a - b, dtype)
    return difference * difference


_functions: dict[str, Rule] = {
    "gelu_backward.default": _elements(_gelu_backward, 2),
    "silu_backward.default": _elements(_silu_backward, 2),
    "sigmoid_backward.default": _elements(_sigmoid_backward, 2),
    "tanh_backward.default": _elements(_tanh_backward, 2),
    "threshold_backward.default": _elements(
        lambda dtype, grad, x, threshold: np.where(x <= f32(threshold), f32(0), grad), 2
    ),
    "leaky_relu.default": _elements(lambda dtype, x, slope=0.01: np.where(x > 0, x, x * f32(slope)), 1),
    "leaky_relu_backward.default": _elements(_leaky_relu_backward, 2),
    "elu.default": _elements(_elu, 1),
    "softplus.default": _elements(_softplus, 1),
    "softplus_backward.default": _elements(_softplus_backward, 2),
    "hardtanh.default": _elements(lambda dtype, x, low=-1, high=1: _clipped(x, low, high), 1),
    "hardtanh_backward.default": _elements(_hardtanh_backward, 2),
    "hardsigmoid.default": _elements(lambda dtype, x: _clipped(x + 3, 0, 6) * f32(1 / 6), 1),
    "hardswish.default": _elements(lambda dtype, x: x * _clipped(x + 3, 0, 6) * f32(1 / 6), 1),
    "hardswish_backward.default": _elements(_hardswish_backward, 2),
    "mish_backward.default": _elements(_mish_backward, 2),
    "mish.default": _elements(lambda dtype, x: x * _c("tanhf", _c("log1pf", _c("expf", x))), 1),
    "lerp.Scalar": _elements(_lerp, 2),
    "addcmul.default": _elements(_addcmul, 3),
    "addcdiv.default": _elements(_addcdiv, 3),
}
table.update({f"aten.{name}": rule for name, rule in _functions.items()})


@_rule(table, "aten.elu_backward.default")
def _elu_backward_rule(
    call: Call, grad: Value, alpha: float, scale: float, input_scale: float, is_result: bool, x: Value
) -> Value:
    made: Value = _elements(_elu_backward, 2)(call, grad, x, alpha, scale, input_scale, is_result)
    return made


def _log_sigmoid(x: np.ndarray) -> np.ndarray:
    return np.minimum(f32(0), x) - _c("log1pf", _c("expf", -np.abs(x)))


@_rule(table, "aten.log_sigmoid_forward.default")
def _log_sigmoid_forward(call: Call, x: Value) -> list[Value | None]:
    return [_elements(lambda dtype, x: _log_sigmoid(x), 1)(call, x), None]


def _mean_or_sum(call: Call, each: Value, reduction: int) -> Value:
    _require_reduction(reduction)
    if reduction == _NONE:
        return each
    total = (operators.mean if reduction == _MEAN else operators.sum)(each.array, threads=call.threads)
    return Value(np.asarray(total).reshape(()))


def _loss_of_elements(function: Callable[..., np.ndarray]) -> Callable[[Call, Value, Value, int], Value]:
    def compute(call: Call, x: Value, target: Value, reduction: int) -> Value:
        shape = broadcast([x.array.shape, target.array.shape])
        each = _elements(function, 2)(call._replace(output=Tensor(x.array.dtype, shape)), x, target)
        return _mean_or_sum(call, each, reduction)

    return compute


def _smooth_error(dtype: np.dtype, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    distance = np.abs(_in(a - b, dtype))
    return np.where(distance < 1, _in(f32(0.5) * distance, dtype) * distance, distance - f32(0.5))


@_rule(table, "aten.smooth_l1_loss.default")
def _smooth_l1_loss(call: Call, x: Value, target: Value, reduction: int = 1, beta: float = 1) -> Value:
    if beta != 1:
        raise CannotSay("smooth_l1_loss with another beta than 1")
    return _loss_of_elements(_smooth_error)(call, x, target, reduction)


@_rule(table, "aten.binary_cross_entropy_with_logits.default")
def _binary_cross_entropy(
    call: Call, x: Value, target: Value, weight: Value | None = None, positive: Value | None = None, reduction: int = 1
) -> Value:
    if weight is not None or positive is not None:
        raise CannotSay("binary_cross_entropy_with_logits with weights")

    def function(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _in(_in(1 - y, dtype) * x, dtype) - _in(_log_sigmoid(x), dtype)

    return _loss_of_elements(function)(call, x, target, reduction)


@_rule(table, "aten.logsumexp.default")
def _logsumexp(call: Call, x: Value, dims: int | list[int], keepdim: bool = False) -> Value:
    _require_last(x, dims)
    array, to = x.whole("the input"), call.output
    _require_floats(array.dtype, to.dtype)
    _require_output(call, (*array.shape[:-1], 1) if keepdim else array.shape[:-1])
    if not np.isfinite(array.astype(f32)).all() or not array.size:
        raise CannotSay("logsumexp of infinity or NaN")
    wide = array.astype(f32)
    largest = wide.max(-1, keepdims=True)
    powers = _rounded(_c("expf", _in(wide - largest, array.dtype)), array.dtype)
    sums = np.asarray(operators.sum(powers, -1, threads=call.threads))
    made = _in(_c("logf", sums.astype(f32)), array.dtype) + largest[..., 0]
    return Value(_rounded(made, array.dtype).reshape(to.shape))


@_rule(table, "aten._safe_softmax.default")
def _safe_softmax(call: Call, x: Value, dim: int, dtype: Any = None) -> Value:
    _require_last(x, dim)
    array = x.whole("the input")
    if dtype is not None or (array == -np.inf).all(-1).any():
        raise CannotSay("_safe_softmax of a row of -inf, or to another type")
    return Value(np.asarray(operators.softmax(array, threads=call.threads)))


@_rule(table, "aten.mse_loss.default")
def _mse_loss(call: Call, x: Value, target: Value, reduction: int = 1) -> Value:
    return _loss_of_elements(_squared_error)(call, x, target, reduction)


@_rule(table, "aten.mse_loss_backward.default")
def _mse_loss_backward(call: Call, grad: Value, x: Value, target: Value, reduction: int) -> Value:
    _require_reduction(reduction)
    norm = 2 / max(x.array.size, 1) if reduction == _MEAN else 2

    def function(dtype: np.dtype, gradient: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _in(_in(np.full(1, norm, f32), dtype) * _in(a - b, dtype), dtype) * gradient

    made: Value = _elements(function, 3)(call, grad, x, target)
    return made


# ---------------------------------------------------------------------------------------------------------------------
# Functions of lists of tensors: the first one of each list, then of the second one, ...

_of_lists: dict[str, tuple[Callable[..., np.ndarray], int]] = {
    "add.Scalar": (lambda dtype, x, y: x + f32(y), 1),
    "add.ScalarList": (lambda dtype, x, y: x + f32(y), 1),
    "add.List": (lambda dtype, x, y, alpha=1: _fma(f32(alpha), y, x), 2),
    "sub.Scalar": (lambda dtype, x, y: x - f32(y), 1),
    "sub.List": (lambda dtype, x, y, alpha=1: _fma(f32(-alpha), y, x), 2),
    "mul.Scalar": (lambda dtype, x, y: x * f32(y), 1),
    "mul.ScalarList": (lambda dtype, x, y: x * f32(y), 1),
    "mul.List": (lambda dtype, x, y: x * y, 2),
    # Of one number a reciprocal is multiplied, which is computed in float64.
    "div.Scalar": (lambda dtype, x, y: x * f32(np.float64(1) / float(y)), 1),
    "div.ScalarList": (lambda dtype, x, y: _quotient(x, y), 1),
    "div.List": (lambda dtype, x, y: _quotient(x, y), 2),
    "sqrt.default": (lambda dtype, x: operators.elementwise("sqrt", x), 1),
    "neg.default": (lambda dtype, x: -x, 1),
    "lerp.Scalar": (_lerp, 2),
    "addcmul.Scalar": (_addcmul, 3),
    "addcmul.ScalarList": (_addcmul, 3),
    "addcdiv.Scalar": (_addcdiv, 3),
    "addcdiv.ScalarList": (_addcdiv, 3),
    "maximum.List": (lambda dtype, x, y: _larger(x, y), 2),
}


def _larger(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    _require_numbers(x, y)
    if ((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))).any():
        raise CannotSay("the larger of two zeros")
    return np.maximum(x, y)


def _foreach(name: str) -> Rule:
    function, tensors = _of_lists[name]

    def rule(call: Call, *args: Any, **options: Any) -> list[Value | None]:
        lists, numbers = args[:tensors], args[tensors:]
        if len({len(part) for part in args if isinstance(part, list)}) != 1:
            raise refused(f"lists of {', '.join(str(len(part)) for part in args if isinstance(part, list))}")
        dtypes = {value.array.dtype for values in lists for value in values}
        if len(dtypes) != 1:
            raise CannotSay("lists of tensors of several types")
        made: list[Value | None] = []
        for i, operands in enumerate(zip(*lists, strict=True)):
            if len({value.array.shape for value in operands}) != 1:
                raise CannotSay("lists of tensors that broadcast")
            scalars = [number[i] if isinstance(number, list) else number for number in numbers]
            first = operands[0].array
            of_one = call._replace(output=Tensor(first.dtype, first.shape))
            made.append(_elements(function, tensors)(of_one, *operands, *scalars, **options))
        return made

    of_number = list[Number] if name.endswith(".ScalarList") else Number
    return _taking_those_of(rule, function, tensors, (list[Value], of_number))


def _with_tensor(name: str) -> Rule:
    def rule(call: Call, x: list[Value], y: Value, alpha: Number = 1) -> list[Value | None]:
        if alpha != 1 or y.array.ndim:
            raise CannotSay("a list and a tensor with alpha or dimensions")
        made: list[Value | None] = _foreach(name)(call, x, float(y.whole("the number")))
        return made

    return rule


# The counters of steps of optimizers, and the factor of clip_grad_norm_.
table.update({f"aten._foreach_{name}.Tensor": _with_tensor(f"{name}.Scalar") for name in ("add", "mul")})


table.update({f"aten._foreach_{name}": _foreach(name) for name in _of_lists})


# ---------------------------------------------------------------------------------------------------------------------
# Sums of a warp and of a block


def _warp_sum(lanes: np.ndarray) -> np.ndarray:
    """Of 32 lanes, the last dimension: each adds the one 16 above it, then 8, ... Lane 0 has the sum."""
    distance = 16
    while distance:
        lanes = lanes[..., :distance] + lanes[..., distance : 2 * distance]
        distance //= 2
    return lanes[..., 0]


def _butterfly_sum(lanes: np.ndarray) -> np.ndarray:
    """Of a power of two of lanes, the last dimension; the same sum in each lane, as addition commutes."""
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes[..., 0]


def _block_sum(threads: np.ndarray) -> np.ndarray:
    """Of the threads of a block, the last dimension: each warp's sum, then of up to 32 warps."""
    warps = _warp_sum(threads.reshape(*threads.shape[:-1], -1, 32))
    padded = np.zeros((*warps.shape[:-1], 32), f32)
    padded[..., : warps.shape[-1]] = warps
    return _warp_sum(padded)


def _block_sum_in_order(threads: np.ndarray) -> np.ndarray:
    """Of the threads of a block: those of each warp in order, then the warps in order."""
    lanes: Any = threads.reshape(*threads.shape[:-1], -1, 32)
    warps: Any = np.zeros(lanes.shape[:-1], f32)
    for i in range(32):
        warps = warps + lanes[..., i]
    total: Any = np.zeros(warps.shape[:-1], f32)
    for i in range(warps.shape[-1]):
        total = total + warps[..., i]
    return np.asarray(total)


def _strided(totals: Any, terms: Any) -> np.ndarray:
    """Adds to the totals of threads [..., threads] the terms [..., n] in the order of the threads, again and again."""
    threads = totals.shape[-1]
    for first in range(0, terms.shape[-1], threads):
        part = terms[..., first : first + threads]
        totals[..., : part.shape[-1]] += part
    return totals


# ---------------------------------------------------------------------------------------------------------------------
# Norms of gradients


def _square_sum(terms: np.ndarray, has_vectors: bool) -> np.ndarray:
    """Of up to 65,536 elements: 512 threads with 4 sums each."""
    sums: Any = np.zeros((4, 512), f32)
    for first in range(0, len(terms), 2048):
        part = terms[first : first + 2048]
        padded = np.pad(part, (0, 2048 - len(part)))
        split = padded.reshape(512, 4).T if has_vectors else padded.reshape(4, 512)
        sums = _fma(split, split, sums)
    return _block_sum(((sums[0] + sums[1]) + sums[2]) + sums[3])


@_rule(table, "aten._foreach_norm.Scalar")
def _foreach_norm(call: Call, x: list[Value], order: float = 2, dtype: Any = None) -> list[Value | None]:
    made: list[Value | None] = []
    for value in x:
        array = value.whole("a tensor")
        _require_floats(array.dtype)
        if order != 2 or dtype is not None or not array.size or array.size > 65536 * 512:
            raise CannotSay("a norm of another order than 2, of another type, or of too many elements")
        flat = np.ascontiguousarray(array.astype(f32)).reshape(-1)
        chunks = [
            _square_sum(flat[first : first + 65536], (len(flat) - first) % 4 == 0)
            for first in range(0, len(flat), 65536)
        ]
        total = _block_sum(np.pad(np.array(chunks, f32), (0, 512 - len(chunks))))
        made.append(Value(_rounded(operators.elementwise("sqrt", np.atleast_1d(total)), array.dtype).reshape(())))
    return made


@_rule(table, "aten.linalg_vector_norm.default")
def _vector_norm(
    call: Call, x: Value, order: float = 2, dims: list[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    """Of few elements: each thread squares one."""
    array = x.whole("the tensor")
    _require_floats(array.dtype)
    if order != 2 or dims is not None or dtype is not None or not 1 <= array.size <= 512:
        raise CannotSay("a norm of another order than 2, over dimensions, or of more than 512 elements")
    _require_output(call, (1,) * array.ndim if keepdim else ())
    wide = np.ascontiguousarray(array.astype(f32)).reshape(-1)
    total = np.atleast_1d(operators.sum(wide * wide, threads=call.threads))
    return Value(_rounded(operators.elementwise("sqrt", total), array.dtype).reshape(call.output.shape))


# ---------------------------------------------------------------------------------------------------------------------
# Softmax


def _sum_of_long_rows(terms: np.ndarray, size: int) -> np.ndarray:
    """The sum of each row of more than 1,024 elements, which have `size` bytes in memory."""
    rows, columns = terms.shape
    vector = 16 // size
    most, threads = min(columns // vector, 1024), 1
    while threads < most // 2:
        threads *= 2
    threads = max(threads, 32)
    if columns % vector == 0 and columns * size < 49152 - threads // 32 * 4:  # the row fits in shared memory
        totals = np.zeros((rows, threads), f32)
        vectors = terms.reshape(rows, -1, vector)
        for first in range(0, vectors.shape[1], threads):
            part = vectors[:, first : first + threads]
            for i in range(vector):
                totals[:, : part.shape[1]] += part[:, :, i]
        return _block_sum(totals)
    sums = np.zeros(rows, f32)
    for row in range(rows):
        of_row: Any = np.zeros(threads, f32)
        rest = terms[row]
        shift = row * columns * size % 16 // size
        if shift:  # the elements before a multiple of 16 bytes
            head = rest[: threads - shift]
            of_row[shift : shift + len(head)] += head
            rest = rest[threads - shift :]
        whole = len(rest) - len(rest) % (vector * threads)
        vectors = rest[:whole].reshape(-1, threads, vector)
        for part in vectors:
            for i in range(vector):
                of_row += part[:, i]
        sums[row] = _block_sum_in_order(_strided(of_row, rest[whole:]))
    return sums


def _softmax_backward(call: Call, grad: Value, y: Value, dim: int, is_log: bool) -> Value:
    _require_last(y, dim)
    gradient, outputs = grad.whole("the gradient"), y.whole("the output")
    if gradient.shape != outputs.shape or gradient.dtype != outputs.dtype or not gradient.size:
        raise refused(f"a gradient {gradient.dtype} {list(gradient.shape)}")
    _require_floats(gradient.dtype, call.output.dtype)
    columns = gradient.shape[-1]
    wide, out = (np.ascontiguousarray(array.astype(f32)).reshape(-1, columns) for array in (gradient, outputs))
    with np.errstate(all="ignore"):
        terms = wide if is_log else _in(wide * out, gradient.dtype)
        if columns <= 1024:
            lanes = min(1 << (columns - 1).bit_length(), 32)
            totals = _strided(np.zeros((len(terms), lanes), f32), terms)
            sums = _butterfly_sum(totals)
        else:
            sums = _sum_of_long_rows(terms, gradient.dtype.itemsize)
        made = _fma(-(_c("expf", out) if is_log else out), sums[:, None], terms)
    return Value(_rounded(made, call.output.dtype).reshape(gradient.shape))


@_rule(table, "aten._softmax_backward_data.default")
def _softmax_backward_data(call: Call, grad: Value, y: Value, dim: int, dtype: Any) -> Value:
    return _softmax_backward(call, grad, y, dim, False)


@_rule(table, "aten._log_softmax_backward_data.default")
def _log_softmax_backward_data(call: Call, grad: Value, y: Value, dim: int, dtype: Any) -> Value:
    return _softmax_backward(call, grad, y, dim, True)


# ---------------------------------------------------------------------------------------------------------------------
# Norms


def _input_gradient(
    grad: np.ndarray, centred: np.ndarray, rstd: np.ndarray, weight: np.ndarray | None, is_rms: bool
) -> np.ndarray:
    """A block of 128 threads for each row: a thread takes 4 neighbours, then those 512 further on."""
    rows, columns = grad.shape
    scales = np.ones(columns, f32) if weight is None else weight
    weighted = grad * scales
    sum_1, sum_2 = np.zeros((rows, 128), f32), np.zeros((rows, 128), f32)

    def add(at: np.ndarray, threads: np.ndarray) -> None:
        sum_1[:, threads] = sum_1[:, threads] + weighted[:, at]
        sum_2[:, threads] = _fma(weighted[:, at] * centred[:, at], rstd, sum_2[:, threads])

    whole = columns // 4 * 4
    for first in range(0, whole, 512):
        threads = np.arange(min(512, whole - first) // 4)
        for i in range(4):
            add(first + 4 * threads + i, threads)
    for column in range(whole, columns):  # the thread that reaches them adds them all
        add(np.array([column]), np.array([whole // 4 % 128]))
    n = f32(columns)
    made = _fma(n * scales, grad, -((centred * rstd) * _block_sum(sum_2)[:, None]))
    if not is_rms:
        made = made - _block_sum(sum_1)[:, None]
    return made * ((f32(1) / n) * rstd)


def _weight_gradients(grad: np.ndarray, centred: np.ndarray, rstd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the weight and of the bias: groups of rows, whose sums a butterfly adds. M decides how many groups."""
    rows, columns = grad.shape
    if rows > 64 * 1024 and columns // 32 < 66:
        raise CannotSay("the gradients of the weights of a norm of more than 65,536 rows")
    groups, tile = (1, 8) if rows < 64 else (8, 64) if rows < 128 else (16, 128) if rows < 256 else (32, 256)
    empty = ((0, -rows % tile), (0, 0))
    shape = (-1, groups, tile // groups)
    products, grads = (np.pad(array, empty).reshape(*shape, columns) for array in (grad * centred, grad))
    scales = np.pad(rstd, empty).reshape(*shape, 1)
    of_weight, of_bias = np.zeros((groups, columns), f32), np.zeros((groups, columns), f32)
    for i in range(len(products)):
        for j in range(tile // groups):
            of_weight = _fma(products[i, :, j], scales[i, :, j], of_weight)
            of_bias = of_bias + grads[i, :, j]
    return _butterfly_sum(of_weight.T), _butterfly_sum(of_bias.T)


def _norm_backward(
    grad: Value, x: Value, shape: list[int], mean: Value | None, rstd: Value, weight: Value | None, mask: list[bool]
) -> list[Value | None]:
    _require_normalized(x, shape)
    array = x.whole("the input")
    dtype, columns = array.dtype, shape[0]
    w = None if weight is None else weight.whole("the weight")
    _require_floats(dtype)
    if grad.array.shape != array.shape or any(
        operand is not None and operand.dtype != dtype for operand in (grad.array, w)
    ):
        raise CannotSay("a gradient or a weight of another type or shape than the input")
    rows = array.size // columns if columns else 0
    if not rows or rstd.array.size != rows or (mean is not None and mean.array.size != rows):
        raise refused(f"moments of {rstd.array.size} rows, of {rows}")
    if w is not None and w.shape != (columns,):
        raise refused(f"a weight {list(w.shape)} of rows of {columns}")
    if rstd.array.dtype != f32 or (mean is not None and mean.array.dtype != f32):
        raise refused(f"moments of {rstd.array.dtype}")
    gradient = np.ascontiguousarray(grad.whole("the gradient").astype(f32)).reshape(rows, columns)
    wide = np.ascontiguousarray(array.astype(f32)).reshape(rows, columns)
    deviation = rstd.whole("1 / deviation").reshape(rows, 1)
    with np.errstate(all="ignore"):
        centred = wide if mean is None else wide - mean.whole("the mean").reshape(rows, 1)
        scales = None if w is None else w.astype(f32)
        made: list[Value | None] = [None] * len(mask)
        if mask[0]:
            dx = _input_gradient(gradient, centred, deviation, scales, mean is None)
            made[0] = Value(_rounded(dx, dtype).reshape(array.shape))
        if any(mask[1:]):
            of_weight, of_bias = _weight_gradients(gradient, centred, deviation)
            made[1] = Value(_rounded(of_weight, dtype)) if mask[1] else None
            if len(mask) > 2:
                made[2] = Value(_rounded(of_bias, dtype)) if mask[2] else None
    return made


@_rule(table, "aten.native_layer_norm_backward.default")
def _layer_norm_backward(
    call: Call,
    grad: Value,
    x: Value,
    shape: list[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    mask: list[bool],
) -> list[Value | None]:
    if len(mask) != 3:
        raise refused(f"a mask of {len(mask)}")
    return _norm_backward(grad, x, shape, mean, rstd, weight, mask)


@_rule(table, "aten._fused_rms_norm_backward.default")
def _rms_norm_backward(
    call: Call, grad: Value, x: Value, shape: list[int], rstd: Value, weight: Value | None, mask: list[bool]
) -> list[Value | None]:
    if len(mask) != 2:
        raise refused(f"a mask of {len(mask)}")
    return _norm_backward(grad, x, shape, None, rstd, weight, mask)


# ---------------------------------------------------------------------------------------------------------------------
# Losses and embeddings


def _classes(
    x: Value, target: Value, weight: Value | None, reduction: int, ignored: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of logarithms, the class of each, and which rows count."""
    _require_reduction(reduction)
    if weight is not None:
        raise CannotSay("a loss with weights of classes")
    array = x.whole("the logarithms")
    _require_floats(array.dtype)
    if array.ndim != 2 or target.array.ndim != 1 or len(target.array) != len(array) or not len(array):
        raise CannotSay(f"a loss of {list(array.shape)} with targets {list(target.array.shape)}")
    places = target.whole("the targets")
    counts = places != ignored
    return array, indices_of(Value(np.where(counts, places, 0)), array.shape[1], "the targets"), counts


def _halved(threads: np.ndarray) -> np.ndarray:
    while len(threads) > 1:
        half = len(threads) // 2
        threads = threads[:half] + threads[half:]
    return threads


@_rule(table, "aten.nll_loss_forward.default")
def _nll_loss(
    call: Call, x: Value, target: Value, weight: Value | None, reduction: int, ignored: int
) -> list[Value | None]:
    array, places, counts = _classes(x, target, weight, reduction, ignored)
    rows, dtype = len(array), array.dtype
    picked = array[np.arange(rows), places].astype(f32)
    if reduction == _NONE:
        return [Value(_rounded(np.where(counts, -picked, f32(0)), dtype)), Value(np.zeros((), dtype))]
    # One block: a thread takes every `threads`th row.
    threads = min(max(1 << round(np.log2(max(rows // 16, 1))), 32), 1024)
    losses, numbers = np.zeros(threads, f32), np.zeros(threads, f32)
    for first in range(0, rows, threads):
        part, is_counted = picked[first : first + threads], counts[first : first + threads]
        losses[: len(part)] = np.where(is_counted, losses[: len(part)] - part, losses[: len(part)])
        numbers[: len(part)] += is_counted
    loss, number = _halved(losses), _halved(numbers)
    if reduction == _MEAN:
        loss = _quotient(loss, number)
    if number[0] == 0 and reduction == _MEAN:
        raise CannotSay("the mean loss of no row")
    return [Value(_rounded(loss, dtype).reshape(())), Value(_rounded(number, dtype).reshape(()))]


@_rule(table, "aten.nll_loss_backward.default")
def _nll_loss_backward(
    call: Call,
    grad: Value,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignored: int,
    total_weight: Value,
) -> Value:
    array, places, counts = _classes(x, target, weight, reduction, ignored)
    gradient = grad.whole("the gradient").astype(f32)
    if gradient.shape != (call.output.shape[:1] if reduction == _NONE else ()):
        raise refused(f"a gradient {list(gradient.shape)}")
    if total_weight.array.ndim:
        raise refused(f"total_weight is a tensor {list(total_weight.array.shape)}, not a number")
    with np.errstate(all="ignore"):
        if reduction == _MEAN:
            gradient = _quotient(gradient, total_weight.whole("the number of rows").astype(f32).reshape(()))
        each = np.broadcast_to(_rounded(-gradient, array.dtype), places.shape)
    made = np.zeros(array.shape, array.dtype)
    made[np.flatnonzero(counts), places[counts]] = each[counts]
    return Value(made)


@_rule(table, "aten.embedding_dense_backward.default")
def _embedding_backward(
    call: Call, grad: Value, at: Value, count: int, padding: int, scale_by_frequency: bool
) -> Value:
    """Chunks of 32 indices: the gradients of equal ones are added, rounded, and added to the row of the weight."""
    gradient = grad.whole("the gradient")
    _require_floats(gradient.dtype)
    if scale_by_frequency or not gradient.ndim or count < 1:
        raise CannotSay("gradients of an embedding that are scaled by frequency")
    columns, dtype = gradient.shape[-1], gradient.dtype
    places = indices_of(at, count, "the indices").reshape(-1)
    if len(places) > 3072:
        raise CannotSay("the gradients of more than 3,072 indices: a GPU may add those of equal ones by atomics")
    if gradient.size != len(places) * columns:
        raise refused(f"a gradient {list(gradient.shape)} of {len(places)} indices")
    _require_output(call, (count, columns))
    wide = gradient.reshape(len(places), columns).astype(f32)
    made = np.zeros((count, columns), f32)
    for first in range(0, len(places), 32):
        sums: dict[int, np.ndarray] = {}
        for row in range(first, min(first + 32, len(places))):
            place = int(places[row])
            if place != padding:
                sums[place] = sums[place] + wide[row] if place in sums else wide[row]
        for place, total in sums.items():
            made[place] = _in(made[place] + _in(total, dtype), dtype)
    return Value(_rounded(made, dtype))
