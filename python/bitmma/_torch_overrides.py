# SPDX-License-Identifier: MIT
"""What PyTorch does on a GPU where a CPU does something else before `bitmma.torch` sees an operator.

Some functions of PyTorch are made of operators, and of others on a CPU than on a GPU. Inside of a block of
`bitmma.torch.gpu`, CPU tensors take the GPU's.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import _disable_current_modes

from ._errors import refuse

aten = torch.ops.aten


def on_meta(value: Any) -> Any:
    """A tensor of the same shape and type without memory; other values as they are."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return torch.device("meta") if isinstance(value, torch.device) else value


def unknown(output: Any) -> Any:
    """A result that no rule gives: NaN, so that no number comes of it."""
    if not isinstance(output, torch.Tensor):
        return output
    made = torch.empty_strided(output.shape, output.stride(), dtype=output.dtype)
    return made.fill_(math.nan if made.is_floating_point() else 0)


class _Active(threading.local):
    """The modes that this thread entered, the innermost last."""

    def __init__(self) -> None:
        self.modes: list[Any] = []


_active = _Active()


def _call(operator: Any, *args: Any) -> Any:
    """An operator that has no kernel of the CPU, by its rule."""
    if not _active.modes:
        raise refuse("backward", f"outside of the block that computed {operator}", "inside of it")
    with _disable_current_modes():
        return _active.modes[-1].run(operator, args, {})


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
    @once_differentiable
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
    """The kernel of PyTorch 2.11 with cuDNN 9.19 on an H100 or H200, "cudnn", "flash", "efficient" or "math": the first
    that can compute the call and that torch.nn.attention.sdpa_kernel allows."""
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
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:  # products and a softmax
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return plain(q, k, v, mask, dropout, is_causal, scale=scale, enable_gqa=enable_gqa)
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
        return aten._scaled_dot_product_efficient_attention(q, k, v, mask, needs_lse, dropout, is_causal, scale=scale)[
            0
        ]
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
    made = [unknown(item) for item in operator(*pytree.tree_map(on_meta, (q, k, v, *args)))]
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


of_cpu: dict[str, Callable[..., Any]] = {
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


# ---------------------------------------------------------------------------------------------------------------------

replaced: dict[Any, Callable[..., Any]] = {
    aten.softmax.int: _softmax,
    aten.log_softmax.int: _log_softmax,
    aten.rms_norm.default: _rms_norm,
    aten.scaled_dot_product_attention.default: _attention,
}
"""Operators that are made of others, and what they are on a GPU."""


def _guarded(operator: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Other threads, which entered no block, get what PyTorch does."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if _active.modes else operator.decompose(*args, **kwargs)

    return call


_autocast = "casts the operands of other operators on a CPU than on a GPU"


def _entered_autocast(context: Any) -> Any:
    """`torch.autocast.__enter__` while any thread is inside of a block."""
    if _active.modes and context._enabled:
        legal = f"outside of the block: it {_autocast}"
        raise refuse(f'torch.autocast("{context.device}")', "entered", legal, "convert the model and its inputs")
    return _enter_autocast(context)


_enter_autocast = torch.autocast.__enter__


class Overrides:
    """Kernels of the dispatch key AutogradCPU while any thread is inside of a block."""

    def __init__(self) -> None:
        self.blocks = 0
        self.lock = threading.Lock()
        self.library: Any = None

    def enter(self, mode: Any) -> None:
        """Raises Error inside of a block of this thread."""
        if _active.modes:
            raise refuse("bitmma.torch.gpu", "a block inside of another one", "one block at a time in a thread")
        if any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda")):
            raise refuse(
                "torch.autocast", "enabled", f"disabled: it {_autocast}", "convert the model and its inputs to the type"
            )
        with self.lock:
            self.blocks += 1
            if self.blocks == 1:
                self.library = torch.library.Library("aten", "IMPL", "AutogradCPU")
                for operator, function in replaced.items():
                    self.library.impl(operator, _guarded(operator, function))
                torch.autocast.__enter__ = _entered_autocast
        _active.modes.append(mode)

    def leave(self) -> None:
        _active.modes.pop()
        with self.lock:
            self.blocks -= 1
            if self.blocks == 0:
                torch.autocast.__enter__ = _enter_autocast
                self.library._destroy()
                self.library = None


overrides = Overrides()
