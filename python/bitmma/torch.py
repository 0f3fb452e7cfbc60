# SPDX-License-Identifier: MIT
"""PyTorch on CPU tensors with the bits of an H100 or H200, eager mode.

    import bitmma.torch
    with bitmma.torch.gpu("H100") as used:
        y = model(x)                       # CPU tensors
    print(used)                            # the operators, how often, and their evidence

Every operator of PyTorch inside the block is computed by the rule that `bitmma.replay` has for it. Operators without a
rule raise Error, or run as CPU code and are counted if `strict=False`. docs/torch.md lists the operators.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

from . import _replay_rules as rules, _training_rules  # noqa: F401 - adds its rules to the tables
from ._arguments import flag_of, public, text
from ._arrays import to_numpy
from ._captured import CannotSay, Differs, Tensor, Value, dtypes
from ._errors import Error, printable, refuse, shown, threads_of
from ._matmul import chosen_product
from ._replay_arguments import bound

__all__ = ["Gpu", "Used", "gpu"]

aten = torch.ops.aten
_wrapper_file = os.path.join(os.path.dirname(torch.__file__), "_dynamo", "eval_frame.py")


def __dir__() -> list[str]:
    return sorted(__all__)


class Used:
    """What was computed inside a block."""

    def __init__(self, target: str):
        self.target = target
        self.exact: Counter[str] = Counter()
        """Calls of each operator that have the GPU's bits."""
        self.inexact: Counter[str] = Counter()
        """Calls that ran as CPU code (`strict=False`)."""
        self.unsure: Counter[str] = Counter()
        """Of the exact ones: products in the order of the nearest recorded shape (`nearest=True`)."""
        self.evidence: dict[str, Counter[str]] = {}
        """Of each operator: what its bits were compared with, and how many calls."""
        self.reasons: dict[str, Counter[str]] = {}
        """Of each inexact operator: why it was not computed."""

    def __str__(self) -> str:
        rows = [("operator", "calls", "bits")]
        for name, levels in sorted(self.evidence.items()):
            rows += [(name, str(count), level) for level, count in levels.items()]
        for name, reasons in sorted(self.reasons.items()):
            rows += [(name, str(count), f"of the CPU: {reason}") for reason, count in reasons.items()]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        lines = [f"{name:{widths[0]}}  {calls:>{widths[1]}}  {bits}" for name, calls, bits in rows]
        total = f"{sum(self.exact.values())} calls with the bits of an {self.target}"
        if self.inexact:
            total += f", {sum(self.inexact.values())} as the CPU computes them"
        if self.unsure:
            total += f", {sum(self.unsure.values())} of the former by the kernel of another shape"
        return printable("\n".join([*lines, total]))

    def __repr__(self) -> str:
        return f"<bitmma.torch.Used: {str(self).rpartition(chr(10))[2]}>"


class _Refused(Exception):
    """Why an operator is not computed, and what the caller can do."""

    def __init__(self, why: str, fix: str = ""):
        super().__init__(why)
        self.fix = fix


# ---------------------------------------------------------------------------------------------------------------------
# Which operators

# Operators that move elements, compare or select them, or fill memory: PyTorch on the CPU gives the GPU's bits.
_moved = {f"aten.{name}" for name in """
    cat.default stack.default embedding.default index.Tensor index_select.default gather.default clone.default
    where.self masked_fill.Scalar masked_fill.Tensor tril.default triu.default fill.Scalar fill.Tensor zero.default
    zeros.default zeros_like.default new_zeros.default ones.default ones_like.default new_ones.default full.default
    full_like.default new_full.default scalar_tensor.default empty.memory_format empty_like.default new_empty.default
    empty_strided.default new_empty_strided.default lift_fresh.default _local_scalar_dense.default item.default
    equal.default is_same_size.default isnan.default isinf.default isfinite.default roll.default flip.default
    repeat.default neg.default abs.default logical_not.default logical_and.default logical_or.default
    logical_xor.default any.default any.dim all.default all.dim constant_pad_nd.default nonzero.default
    repeat_interleave.self_int masked_select.default resize.default set.source_Tensor unfold.default
    slice_backward.default select_backward.default _reshape_copy.default slice_scatter.default
    select_scatter.default sgn.default sign.default floor.default ceil.default trunc.default round.default
    expand_copy.default view_copy.default t_copy.default permute_copy.default
""".split()} | {f"aten.{name}.{form}" for name in "eq ne lt le gt ge".split() for form in ("Tensor", "Scalar")}  # fmt: skip

# What a GPU runs instead of what the CPU runs, or random numbers; with the reason.
_known_gaps = {
    "aten._native_multi_head_attention.default": (
        "the fast path of nn.MultiheadAttention has kernels of its own on a GPU",
        "torch.backends.mha.set_fastpath_enabled(False), here and on the GPU",
    ),
    "aten._transformer_encoder_layer_fwd.default": (
        "the fast path of nn.TransformerEncoderLayer has kernels of its own on a GPU",
        "torch.backends.mha.set_fastpath_enabled(False), here and on the GPU",
    ),
    "aten.convolution.default": ("no rule is known for cuDNN's convolutions", ""),
    "aten._scaled_dot_product_flash_attention_backward.default": ("the gradient of q is added by atomics", ""),
    "aten._scaled_dot_product_efficient_attention_backward.default": ("the gradient of q is added by atomics", ""),
    "aten._scaled_dot_product_cudnn_attention_backward.default": ("no rule is known for cuDNN's gradients", ""),
}

# Reductions of which no rule knows another layout than the contiguous one.
_contiguous = ("aten.mean.", "aten.sum.")

_products = ("aten.mm.", "aten.addmm.", "aten._scaled_mm.", "aten._int_mm.", "aten.bmm.", "aten.baddbmm.")


def _row_name(func: Any) -> str:
    """The name under which `_replay_rules` has an operator: those that write into a tensor have the rule of those that
    return one."""
    namespace, stem, overload = str(func).split(".")
    if overload == "out" or overload.endswith("_out"):
        overload = overload.removesuffix("out").removesuffix("_")
        overload = overload or ("Tensor" if hasattr(getattr(aten, stem), "Tensor") else "default")
    name = f"{namespace}.{stem}.{overload}"
    if rules.rule_of(name) is None and stem.endswith("_") and not stem.endswith("__"):
        return f"{namespace}.{stem[:-1]}.{overload}"
    return name


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_described(item) for item in value)}]"
    return shown(value)


def _is_exact_type(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex


# ---------------------------------------------------------------------------------------------------------------------
# Tensors of torch as values of the rules, and back


def _value(tensor: torch.Tensor) -> Value:
    array = to_numpy(tensor.detach(), "a tensor")
    return Value(array)


def _tensor(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of its own memory; `dtype` is that of the array."""
    array = np.array(array, order="C", copy=True)
    if array.dtype.isbuiltin != 1:  # bfloat16 and float8
        raw = array.view(np.int16 if array.dtype.itemsize == 2 else np.uint8)
        return torch.from_numpy(raw).view(dtype)
    return torch.from_numpy(array)


def _on_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return torch.device("meta") if isinstance(value, torch.device) else value


def _argument(value: Any) -> Any:
    """An argument as a rule takes it."""
    if isinstance(value, torch.Tensor):
        return _value(value)
    if isinstance(value, (list, tuple)):
        return [_argument(item) for item in value]
    return value


_of_memory = ("dtype", "device", "layout", "pin_memory", "non_blocking", "memory_format", "out")


def _numpy_type(dtype: torch.dtype) -> np.dtype:
    name = str(dtype).removeprefix("torch.")
    if name not in dtypes:
        raise CannotSay(f"tensors of {name}")
    return np.dtype(dtypes[name])


def _laid_out(array: np.ndarray, output: Any) -> torch.Tensor:
    """A tensor with the strides of `output`."""
    made = _tensor(array, output.dtype if isinstance(output, torch.Tensor) else torch.float32)
    if not isinstance(output, torch.Tensor) or output.shape != made.shape or output.device.type != "meta":
        return made
    if output.stride() == made.stride():
        return made
    strided = torch.empty_strided(output.shape, output.stride(), dtype=made.dtype)
    return strided.copy_(made)


def _unknown(output: Any) -> Any:
    """A result that no rule gives: NaN, so that no number comes of it."""
    if not isinstance(output, torch.Tensor):
        return output
    made = torch.empty_strided(output.shape, output.stride(), dtype=output.dtype)
    return made.fill_(math.nan if made.is_floating_point() else 0)


def _require_dense(operand: np.ndarray) -> None:
    """Raises CannotSay for a matrix with gaps between its rows or columns: the recorded ones have none."""
    size = operand.dtype.itemsize
    (rows, columns), (row, column) = operand.shape, operand.strides
    is_row_major = (column == size or columns == 1) and (row == columns * size or rows == 1)
    is_column_major = (row == size or rows == 1) and (column == rows * size or columns == 1)
    if not is_row_major and not is_column_major:
        raise CannotSay("the library's choice was not recorded for matrices with gaps between their rows")


def _is_compiled() -> bool:
    """Whether a compiled function calls, which the mode makes run operator by operator."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper" and frame.f_code.co_filename == _wrapper_file:
            return True
        frame = frame.f_back
    return False


# ---------------------------------------------------------------------------------------------------------------------
# Operators that PyTorch replaces by others on a CPU before the mode sees them


def _active() -> Any:
    """The innermost mode of this thread, or None."""
    return next((mode for mode in reversed(_get_current_dispatch_mode_stack()) if isinstance(mode, Gpu)), None)


def _call(operator: Any, *args: Any) -> Any:
    """An operator that has no kernel of the CPU, by its rule."""
    mode = _active()
    if mode is None:
        raise refuse("backward", f"outside of the block that computed {operator}", "inside of it")
    with _disable_current_modes():
        return mode.run(operator, args, {})


_halves = (torch.float16, torch.bfloat16)


def _softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """The CPU converts the input first."""
    if dtype == torch.float32 and x.dtype in _halves:
        return aten._softmax(x, dim, True)
    return aten.softmax.int.decompose(x, dim, dtype)


def _log_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    if dtype == torch.float32 and x.dtype in _halves:
        return aten._log_softmax(x, dim, True)
    return aten.log_softmax.int.decompose(x, dim, dtype)


class _RmsNorm(torch.autograd.Function):
    """The operator of a GPU, which has no kernel of the CPU, and its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Any, shape: Any, weight: Any, eps: float) -> Any:
        out, rstd = _call(aten._fused_rms_norm.default, x, shape, weight, eps)
        ctx.save_for_backward(x, rstd, weight)
        ctx.shape = shape
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, rstd, weight = ctx.saved_tensors
        mask = [ctx.needs_input_grad[0], weight is not None and ctx.needs_input_grad[2]]
        grads = _call(aten._fused_rms_norm_backward.default, grad, x, ctx.shape, rstd, weight, mask)
        return grads[0] if mask[0] else None, None, grads[1] if mask[1] else None, None


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    if weight is not None and weight.dtype != x.dtype:
        return aten.rms_norm.default.decompose(x, shape, weight, eps)
    return _RmsNorm.apply(x, list(shape), weight, float(np.finfo(np.float32).eps) if eps is None else eps)


class Attention(NamedTuple):
    """A call of scaled_dot_product_attention, as far as it decides the kernel."""

    dtype: torch.dtype
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_size: int
    value_size: int
    is_causal: bool
    has_mask: bool


def _can_cudnn(call: Attention) -> bool:
    return call.dtype in _halves and call.head_size <= 256 and call.head_size % 8 == 0 and call.keys > 1


def _can_flash(call: Attention) -> bool:
    return (
        call.dtype in _halves
        and not call.has_mask
        and call.head_size <= 256
        and (not call.is_causal or call.queries == call.keys)
    )


def _can_efficient(call: Attention) -> bool:
    return call.heads == call.kv_heads and call.head_size % (8 if call.dtype in _halves else 4) == 0


_cuda = torch.backends.cuda
_kernels_of_attention: list[tuple[str, Callable[[], bool], Callable[[Attention], bool]]] = [
    ("cudnn", _cuda.cudnn_sdp_enabled, _can_cudnn),
    ("flash", _cuda.flash_sdp_enabled, _can_flash),
    ("efficient", _cuda.mem_efficient_sdp_enabled, _can_efficient),
    ("math", _cuda.math_sdp_enabled, lambda call: True),
]


def attention_kernel(call: Attention) -> str:
    """The kernel of PyTorch 2.11 with cuDNN 9.19 on an H100 or H200: "cudnn", "flash", "efficient" or "math". It honours
    torch.nn.attention.sdpa_kernel."""
    for name, is_enabled, can in _kernels_of_attention:
        if is_enabled() and can(call):
            return name
    raise refuse("scaled_dot_product_attention", str(call), "a call for which an enabled backend has a kernel")


def _attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    plain = aten.scaled_dot_product_attention.default.decompose
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise Error(
            [
                refuse(
                    "q, k, v",
                    f"{q.dim()}, {k.dim()} and {v.dim()} dimensions",
                    "four dimensions: a GPU computes others as separate products",
                    "unsqueeze(0) has four",
                ).violations[0]
            ]
        )
    call = Attention(
        q.dtype,
        q.shape[1],
        k.shape[1],
        q.shape[2],
        k.shape[2],
        q.shape[3],
        v.shape[3],
        is_causal,
        mask is not None,
    )
    kernel = attention_kernel(call)
    if mask is not None and mask.dtype == torch.bool:
        minus = torch.full((), -math.inf, dtype=q.dtype)
        mask = torch.where(mask, torch.zeros((), dtype=q.dtype), minus)
    needs_lse = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (q, k, v))
    if kernel == "cudnn":
        return aten._scaled_dot_product_cudnn_attention(
            q, k, v, mask, needs_lse, dropout, is_causal, False, scale=scale
        )[0]
    if kernel == "flash":
        size = q.shape[3]
        scale = 1 / math.sqrt(size) if scale is None else scale
        pad = -size % 8
        if pad:
            q, k, v = (torch.nn.functional.pad(tensor, (0, pad)) for tensor in (q, k, v))
        out = aten._scaled_dot_product_flash_attention(q, k, v, dropout, is_causal, False, scale=scale)[0]
        return out[..., :size] if pad else out
    if kernel == "efficient":
        return aten._scaled_dot_product_efficient_attention(
            q, k, v, mask, needs_lse, dropout, is_causal, scale=scale
        )[0]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return plain(q, k, v, mask, dropout, is_causal, scale=scale, enable_gqa=enable_gqa)


# ---------------------------------------------------------------------------------------------------------------------
# Attention of a GPU as the CPU computes it, for `strict=False`


def _scores(q: Any, k: Any, bias: Any, is_causal: bool, scale: float | None) -> Any:
    scores = q.float() @ k.float().transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias.float()
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).tril().logical_not(), -math.inf)
    return scores


def _grouped(k: Any, heads: int) -> Any:
    return k.repeat_interleave(heads // k.shape[1], 1)


def _attention_of_cpu(operator: Any, q: Any, k: Any, v: Any, bias: Any, is_causal: bool, scale: Any, args: Any) -> Any:
    scores = _scores(q, _grouped(k, q.shape[1]), bias, is_causal, scale)
    out = (torch.softmax(scores, -1) @ _grouped(v, q.shape[1]).float()).to(q.dtype)
    made = [_unknown(item) for item in operator(*pytree.tree_map(_on_meta, (q, k, v, *args)))]
    return (out, *made[1:])


def _flash_of_cpu(
    q: Any, k: Any, v: Any, dropout: float = 0.0, is_causal: bool = False, debug: bool = False, *, scale: Any = None
) -> Any:
    operator = aten._scaled_dot_product_flash_attention.default
    return _attention_of_cpu(operator, q, k, v, None, is_causal, scale, ())


def _biased_of_cpu(operator: Any) -> Callable[..., Any]:
    def compute(
        q: Any,
        k: Any,
        v: Any,
        bias: Any,
        needs_lse: bool,
        dropout: float = 0.0,
        is_causal: bool = False,
        *debug: bool,
        scale: Any = None,
    ) -> Any:
        return _attention_of_cpu(operator, q, k, v, bias, is_causal, scale, (bias, needs_lse))

    return compute


def _gradients_of_cpu(grad: Any, q: Any, k: Any, v: Any, bias: Any, is_causal: bool, scale: Any) -> Any:
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    keys, values = _grouped(k, q.shape[1]).float(), _grouped(v, q.shape[1]).float()
    p, upstream = torch.softmax(_scores(q, keys, bias, is_causal, scale), -1), grad.float()
    of_p = upstream @ values.transpose(-1, -2)
    of_scores = p * (of_p - (of_p * p).sum(-1, keepdim=True))
    of_q = of_scores @ keys * factor
    of_k, of_v = of_scores.transpose(-1, -2) @ q.float() * factor, p.transpose(-1, -2) @ upstream
    groups = q.shape[1] // k.shape[1]
    of_k, of_v = (t.unflatten(1, (k.shape[1], groups)).sum(2) for t in (of_k, of_v))
    return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype)


def _flash_backward_of_cpu(grad: Any, q: Any, k: Any, v: Any, *args: Any, scale: Any = None) -> Any:
    return _gradients_of_cpu(grad, q, k, v, None, args[7], scale)


def _cudnn_backward_of_cpu(grad: Any, q: Any, k: Any, v: Any, *args: Any, scale: Any = None) -> Any:
    return _gradients_of_cpu(grad, q, k, v, args[4], args[10], scale)


def _efficient_backward_of_cpu(grad: Any, q: Any, k: Any, v: Any, bias: Any, *args: Any, scale: Any = None) -> Any:
    return (*_gradients_of_cpu(grad, q, k, v, bias, args[6] if len(args) > 6 else False, scale), None)


_of_cpu: dict[str, Callable[..., Any]] = {
    f"aten._scaled_dot_product_{name}.default": function
    for name, function in (
        ("flash_attention", _flash_of_cpu),
        ("efficient_attention", _biased_of_cpu(aten._scaled_dot_product_efficient_attention.default)),
        ("cudnn_attention", _biased_of_cpu(aten._scaled_dot_product_cudnn_attention.default)),
        ("flash_attention_backward", _flash_backward_of_cpu),
        ("efficient_attention_backward", _efficient_backward_of_cpu),
        ("cudnn_attention_backward", _cudnn_backward_of_cpu),
    )
}


class _Overrides:
    """Kernels of AutogradCPU while a block is entered, for blocks of this thread alone."""

    of_operators: dict[Any, Callable[..., Any]] = {
        aten.softmax.int: _softmax,
        aten.log_softmax.int: _log_softmax,
        aten.rms_norm.default: _rms_norm,
        aten.scaled_dot_product_attention.default: _attention,
    }

    def __init__(self) -> None:
        self.depth = 0
        self.library: Any = None

    def enter(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.library = torch.library.Library("aten", "IMPL", "AutogradCPU")
            for operator, function in self.of_operators.items():
                self.library.impl(operator, self.guarded(operator, function))

    def leave(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.library._destroy()
            self.library = None

    @staticmethod
    def guarded(operator: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) if _active() is not None else operator.decompose(*args, **kwargs)

        return call


_overrides = _Overrides()


# ---------------------------------------------------------------------------------------------------------------------
# The mode


class Gpu(TorchDispatchMode):
    """The context of `gpu`."""

    def __init__(self, target: str, strict: bool, nearest: bool, library: str, threads: int):
        super().__init__()
        self.target, self.strict, self.nearest, self.library, self.threads = target, strict, nearest, library, threads
        self.used = Used(target)
        self._evidence = ""

    def __enter__(self) -> Any:
        _overrides.enter()
        super().__enter__()
        return self.used

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _overrides.leave()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _overrides.of_operators:
            with self:  # inference mode hands such operators over as they are
                return _overrides.of_operators[func](*args, **kwargs)
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:
                made = func.decompose(*args, **kwargs)
            if made is not NotImplemented:
                return made
        return self.run(func, args, kwargs)

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator without parts, computed and counted."""
        tensors = [item for item in pytree.tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
        if func.namespace in ("prim", "profiler") or any(tensor.device.type == "meta" for tensor in tensors):
            return func(*args, **kwargs)
        name = _row_name(func)
        self._evidence = "exact: moves elements"
        try:
            self._require_settings(tensors)
            made = self._computed(func, name, args, kwargs, tensors)
        except (_Refused, CannotSay, Differs, Error, MemoryError) as error:
            return self._inexact(func, args, kwargs, error)
        short = str(func).removeprefix("aten.").removesuffix(".default")
        if not func.is_view:
            self.used.exact[short] += 1
            self.used.evidence.setdefault(short, Counter())[self._evidence] += 1
        return made

    def _inexact(self, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        """Runs it as CPU code, unless the mode is strict."""
        name, why = str(func), str(error).partition("\n")[0] or "not enough memory"
        if self.strict:
            fix = getattr(error, "fix", "") or "gpu(..., strict=False) runs such operators as the CPU does"
            described = [_described(arg) for arg in args] + [
                f"{key}={_described(value)}" for key, value in kwargs.items()
            ]
            text = f"{name}({', '.join(described)}): no bits of an {self.target}: {why}; {fix}"
            failure = refuse(name, ", ".join(described), f"a call whose bits on an {self.target} are known", fix)
            violation = failure.violations[0]._replace(text=text, code="not_implemented")
            raise Error([violation]) from None
        short = name.removeprefix("aten.").removesuffix(".default")
        self.used.inexact[short] += 1
        self.used.reasons.setdefault(short, Counter())[why] += 1
        try:
            return _of_cpu.get(str(func), func)(*args, **kwargs)
        except NotImplementedError:
            raise refuse(name, why, f"an operator that a CPU has, or whose bits on an {self.target} are known") from None

    def _require_settings(self, tensors: list[torch.Tensor]) -> None:
        """What changes the kernels of a GPU and is not modelled."""
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                raise _Refused(
                    f'torch.autocast("{device}") casts the operands of other operators on a CPU than on a GPU',
                    "convert the model and its inputs to the type",
                )
        if _is_compiled():
            raise _Refused("torch.compile runs kernels of Triton on a GPU", "call the model without torch.compile")
        for tensor in tensors:
            if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.dtype.is_complex:
                raise _Refused(f"a tensor of {tensor.layout}, {tensor.device}, {tensor.dtype}", "a real CPU tensor")

    def _computed(self, func: Any, name: str, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> Any:
        if func.is_view or name in _moved or name in rules.views:
            return func(*args, **kwargs)
        if name in _known_gaps:
            raise _Refused(*_known_gaps[name])
        if torch.Tag.nondeterministic_seeded in func.tags and "attention" not in name:
            raise _Refused("random numbers", "draw them before the block")
        schema = func._schema
        written = [
            (args[i] if i < len(args) else kwargs.get(argument.name))
            for i, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        whole = all(_is_exact_type(tensor.dtype) for tensor in tensors)
        if name == "aten.copy.default" and args[0].dtype == args[1].dtype:
            return func(*args, **kwargs)
        outputs = self._outputs(func, name, args, kwargs, written)
        if whole and all(_is_exact_type(output.dtype) for output in outputs if isinstance(output, torch.Tensor)):
            return func(*args, **kwargs)
        if name.startswith(_contiguous) and not args[0].is_contiguous():
            raise _Refused("its input is not contiguous", "pass x.contiguous(), here and on the GPU")
        made = self._by_rule(name, args, kwargs, outputs)
        if isinstance(made, torch.Tensor):
            made = [made]
        if written:
            # Operators on lists write one list.
            targets = written[0] if isinstance(written[0], (list, tuple)) else written
            for tensor, value in zip(targets, made, strict=True):
                if "out" in kwargs and tensor.shape != value.shape:
                    tensor.resize_(value.shape)
                tensor.copy_(value)
            if not schema.returns:
                return None
            return written[0] if len(written) == 1 else tuple(written)
        if len(schema.returns) == 1 and str(schema.returns[0].type) == "Tensor":
            return made[0]
        if len(schema.returns) == 1:
            return list(made)
        return tuple(made)

    def _outputs(self, func: Any, name: str, args: Any, kwargs: Any, written: list[Any]) -> list[Any]:
        """Tensors without memory, of the types and shapes of the results."""
        if written and "out" not in kwargs and not any(isinstance(item, (list, tuple)) for item in written):
            return written
        kernels = {key: value for key, value in kwargs.items() if key != "out"}
        if "out" in kwargs:
            functional = getattr(getattr(aten, name.split(".")[1]), name.split(".")[2], None)
            if functional is None:
                raise CannotSay("no rule for this operator")
            func = functional
        try:
            made = func(*pytree.tree_map(_on_meta, args), **pytree.tree_map(_on_meta, kernels))
        except (NotImplementedError, RuntimeError) as error:
            raise CannotSay(f"no rule for this operator ({str(error).partition(chr(10))[0][:80]})") from None
        if written:
            return [item for part in written for item in (part if isinstance(part, (list, tuple)) else [part])]
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def _by_rule(self, name: str, args: Any, kwargs: Any, outputs: list[Any]) -> list[Any]:
        """The results of the rule, as tensors with the strides of `outputs`."""
        rule = rules.rule_of(name)
        if rule is None:
            raise CannotSay("no rule for this operator")
        abouts = [
            Tensor(_numpy_type(output.dtype), tuple(output.shape)) if isinstance(output, torch.Tensor) else None
            for output in outputs
        ]
        if not abouts or abouts[0] is None:
            raise CannotSay("no rule for this operator")
        call = rules.Call(
            abouts[0], abouts, None, 0, {"multiprocessors": 132}, None, self.threads, None, self._product
        )
        options = {key: _argument(value) for key, value in kwargs.items() if key not in _of_memory}
        arguments = bound(rule, (call,), [_argument(value) for value in args], options)
        self._evidence = rules.evidence_of(name)
        values = rule(*arguments.args, **arguments.kwargs)
        values = values if isinstance(values, list) else [values]
        made: list[Any] = []
        for i, output in enumerate(outputs):
            value = values[i] if i < len(values) else None
            if value is not None and value.known is not None and not value.known.all():
                raise CannotSay("its results depend on the order of equal numbers")
            made.append(_unknown(output) if value is None else _laid_out(value.array, output))
        return made

    def _product(self, a: np.ndarray, b: np.ndarray, options: dict[str, Any], to: Tensor) -> np.ndarray:
        """As the library of the GPU adds it."""
        wrong = [name for name in options if name not in ("bias", "scale_a", "scale_b", "use_fast_accum")]
        if wrong or a.ndim != 2:
            raise CannotSay(
                "the library's choice was recorded for neither batches nor a matrix C, alpha and beta, nor relu"
            )
        for operand in (a, b):
            _require_dense(operand)
        for backend in ("allow_fp16_accumulation",):
            if getattr(torch.backends.cuda.matmul, backend, False):
                raise CannotSay(f"torch.backends.cuda.matmul.{backend} is set")
        made, choice, evidence = chosen_product(
            a,
            b,
            target=self.target,
            library=self.library,
            allow_tf32=torch.backends.cuda.matmul.allow_tf32,
            out_dtype=to.dtype,
            nearest=self.nearest,
            threads=self.threads,
            **options,
        )
        self._evidence = evidence
        if not choice.exact:
            self.used.unsure["mm" if "bias" not in options else "addmm"] += 1
        return made


@public(target=text, strict=flag_of, nearest=flag_of, library=text)
def gpu(
    target: str, *, strict: bool = True, nearest: bool = False, library: str = "cublas 13.1", threads: int = 0
) -> Gpu:
    """A context in which operators of PyTorch on CPU tensors have the bits of a GPU, computed eagerly.

    target    "H100" or "H200"
    strict    True: an operator whose bits are not known raises Error. False: it runs as CPU code, and `used.inexact`
              counts it
    nearest   for a product of a shape that was not recorded, take the kernel for the nearest one, with a warning, and
              count it in `used.unsure`; else it is such an operator
    library   "cublas 13.1": that of PyTorch 2.11
    threads   0: all cores. No bit depends on it

    The context gives a `Used`, which counts the operators.

    >>> with gpu("H100") as used:
    ...     y = torch.softmax(torch.zeros(1, 4), -1)
    >>> used.exact
    Counter({'_softmax': 1})
    """
    if target not in ("H100", "H200"):
        raise refuse("target", shown(target), "'H100' or 'H200'")
    return Gpu(target, strict, nearest, library, threads_of(threads))
