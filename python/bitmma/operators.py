# SPDX-License-Identifier: MIT
"""Operators as PyTorch computes them on an H100 or H200, bit for bit: attention.

    out = bitmma.operators.attention(q, k, v, is_causal=True)      FlashAttention-2, as scaled_dot_product_attention runs it

Arrays are NumPy's or torch's. Names and arguments are torch's where torch has the operator.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._arguments import public, unchecked
from ._arrays import codes_as, format_of, like, to_numpy
from ._errors import count_of, flag_of, number_of, refuse, threads_of

__all__ = ["attention"]


def _heads(value: Any, name: str, format: str | None = None) -> tuple[str, np.ndarray, np.ndarray]:
    """(format, codes as a matrix of the last axis, the array): [..., heads, n, head size]."""
    array = to_numpy(value, name)
    if array.ndim < 2:
        raise refuse(name, f"shape {array.shape}", "[..., heads, n, head size] or [n, head size]")
    found = format_of(array)
    if found not in ("f16", "bf16"):
        raise refuse(name, array.dtype, "float16 or bfloat16", f"{name}.astype(np.float16)")
    if format is not None and found != format:
        raise refuse(name, found, f"{format}, as q")
    words = np.ascontiguousarray(codes_as(array, found, name)).reshape(-1, array.shape[-1])
    return found, words, array


def _window(value: Any) -> tuple[int, int]:
    if value is None:
        return -1, -1
    if not isinstance(value, tuple) or len(value) != 2:
        raise refuse("window", repr(value), "(left, right): keys before and after a query's own; -1: all")
    return tuple(-1 if one == -1 else count_of(one, "window", 0) for one in value)  # type: ignore[return-value]


@public(k=unchecked)
def attention(q: Any, k: Any, v: Any, *, is_causal: bool = False, scale: float | None = None, window: tuple[int, int] | None = None,
              splits: int | None = None, backend: str = "flash", return_lse: bool = False, threads: int = 1) -> Any:
    """softmax(q @ k.T * scale) @ v as FlashAttention-2 in PyTorch 2.11 gives it on an H100 or H200, in every bit.

    q           [..., heads, queries, head size], float16 or bfloat16; head sizes are multiples of 8 up to 256
    k, v        [..., heads or a divisor of them, keys, head size], of the same type
    is_causal   query i sees the keys up to i + keys - queries
    scale       default 1 / sqrt(head size)
    window      (left, right): keys that a query sees before and after its own; -1: all
    splits      parts that the keys are cut into; default: what the library chooses for this shape on 132 multiprocessors.
                1 is the kernel of sequences of several lengths
    backend     "flash": FlashAttention-2. "efficient": the memory-efficient kernel, of head sizes up to 128; its causal
                mask starts at the first key: query i sees the keys up to i
    return_lse  True: (out, lse), lse float32 [..., heads, queries], the logarithm of the sum of exp(score * scale)
    threads     0: all cores. No bit depends on it

    Raises Error for shapes and types that the kernel does not take.

    >>> q = np.ones((1, 2, 8), np.float16)
    >>> attention(q, q, q)[0, 0]
    array([1., 1., 1., 1., 1., 1., 1., 1.], dtype=float16)
    """
    format, q_words, q_array = _heads(q, "q")
    _, k_words, k_array = _heads(k, "k", format)
    _, v_words, v_array = _heads(v, "v", format)
    if k_array.shape != v_array.shape:
        raise refuse("v", f"shape {v_array.shape}", f"{k_array.shape}, as k")
    *lead, queries, head_size = q_array.shape
    if k_array.ndim != q_array.ndim or k_array.shape[-1] != head_size or k_array.shape[:-3] != q_array.shape[:-3]:
        raise refuse("k", f"shape {k_array.shape}", f"{(*lead, 'keys', head_size)}, with the heads of q or a divisor of them")
    for name, array in (("q", q_array), ("k", k_array)):
        if array.size == 0:
            raise refuse(name, f"shape {array.shape}", "one element or more")
    if backend not in ("flash", "efficient"):
        raise refuse("backend", repr(backend), "flash or efficient: torch.nn.attention.SDPBackend's FLASH_ATTENTION, EFFICIENT_ATTENTION")
    left, right = _window(window)
    heads, kv_heads = (int(np.prod(array.shape[:-2], dtype=np.int64)) for array in (q_array, k_array))
    out, lse, _ = _core.attention((format, q_words), (format, k_words), (format, v_words), heads, kv_heads, backend == "efficient", flag_of(is_causal, "is_causal"),
                                  None if scale is None else number_of(scale, "scale"), left, right,
                                  None if splits is None else count_of(splits, "splits", 1, 128), threads_of(threads))
    made = like(q, out.view(q_array.dtype).reshape(q_array.shape))
    return (made, like(q, lse.view(np.float32).reshape(*lead, queries))) if return_lse else made
