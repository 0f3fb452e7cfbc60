# SPDX-License-Identifier: MIT
"""Whole layers of models as PyTorch computes them eagerly on an H100 or H200: the operators of `bitmma.operators` and
products of cuBLAS, in the order and with the roundings of the model's source.

    steps = bitmma.layers.llama(x, weights, heads=32, kv_heads=8)      every intermediate tensor by name; steps["out"]

Arrays are NumPy's or torch's, of bfloat16.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arguments import public
from ._arrays import format_of, like, to_numpy
from ._errors import count_of, number_of, refuse, shown
from ._gemm import gemm
from ._types import of_array, of_steps
from .operators import attention, elementwise, mean

__all__ = ["llama", "llama_norm"]


def __dir__() -> list[str]:
    return sorted(__all__)


_products = ("q", "k", "v", "o", "gate", "up", "down")


def _bf16(value: Any, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    array = to_numpy(value, name)
    if format_of(array) != "bf16":
        raise refuse(name, array.dtype, "bfloat16")
    if array.ndim != len(shape) or any(want not in (None, have) for want, have in zip(shape, array.shape, strict=True)):
        raise refuse(
            name, f"shape {array.shape}", f"({', '.join('any' if extent is None else str(extent) for extent in shape)})"
        )
    return array


@of_array
@public
def llama_norm(x: Any, weight: Any, *, eps: float = 1e-5, threads: int = 1) -> Any:
    """LlamaRMSNorm of transformers, written out in PyTorch's operators: x [..., hidden] and weight [hidden] in
    bfloat16. It rounds to bfloat16 before the weight; `bitmma.operators.rms_norm` is torch's own, which does not."""
    whole = to_numpy(x, "x")
    array = _bf16(whole, "x", (None,) * whole.ndim)
    scale = _bf16(weight, "weight", (array.shape[-1],))
    wide = array.astype(np.float32)
    squares = mean(elementwise("square", wide), -1, keepdim=True, threads=threads)
    inverse = elementwise("rsqrt", elementwise("add", squares, np.full_like(squares, number_of(eps, "eps"))))
    scaled = elementwise("mul", wide, np.broadcast_to(inverse, wide.shape)).astype(array.dtype)
    return like((x, weight), elementwise("mul", np.broadcast_to(scale, array.shape), scaled, threads=threads))


def _turned(x: np.ndarray, rotary: tuple[np.ndarray, np.ndarray], threads: int) -> np.ndarray:
    """Rotary embedding of [heads, tokens, head size]."""
    size = x.shape[-1]
    cos, sin = (np.broadcast_to(table, x.shape) for table in rotary)
    negative = x[..., size // 2 :].copy()
    negative.view(np.uint16)[...] ^= 0x8000
    rotated = np.concatenate((negative, x[..., : size // 2]), -1)
    return elementwise("add", elementwise("mul", x, cos), elementwise("mul", rotated, sin), threads=threads)


def _rotary(
    rotary: Any, tokens: int, size: int, position: int, theta: float, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    if rotary is not None:
        if not isinstance(rotary, tuple) or len(rotary) != 2:
            raise refuse("rotary", shown(rotary), "(cos, sin)")
        return _bf16(rotary[0], "cos", (tokens, size)), _bf16(rotary[1], "sin", (tokens, size))
    angle = np.arange(position, position + tokens)[:, None] * theta ** (-np.arange(0, size, 2) / size)[None, :]
    cos, sin = (np.concatenate((f(angle), f(angle)), -1).astype(dtype) for f in (np.cos, np.sin))
    return cos, sin


@of_steps
@public
def llama(
    x: Any,
    weights: dict[str, Any],
    *,
    heads: int,
    kv_heads: int,
    position: int = 0,
    cache: tuple[Any, Any] | None = None,
    eps: float = 1e-5,
    theta: float = 10000.0,
    rotary: tuple[Any, Any] | None = None,
    plans: dict[str, Any] | None = None,
    threads: int = 1,
) -> dict[str, Any]:
    """One decoder layer of a Llama model in bfloat16: RMS norm, projections, rotary embedding, FlashAttention-2,
    SwiGLU, residuals, in the order of transformers' LlamaDecoderLayer with sdpa attention.

    x         [tokens, hidden]
    weights   norm [hidden], q [heads * size, hidden], k and v [kv_heads * size, hidden], o [hidden, heads * size],
              norm2 [hidden], gate and up [intermediate, hidden], down [hidden, intermediate]
    position  of the first token; with a cache: the tokens that it has
    theta     base of the rotary embedding; cos and sin are computed in f64 and rounded to bfloat16
    rotary    (cos, sin) instead, [tokens, size]: transformers computes the angles in f32, whose roundings differ at far
              positions
    cache     (k, v) of earlier tokens, [kv_heads, tokens, size], keys turned already. A single token sees all of them
    plans     how cuBLAS computed a product: {"down": plan}, a name of `bitmma.catalogue()`, a plan, or the name of the
              kernel as the profiler shows it, as {"down": {"kernel": name}}. Default: "flat", one chain over K

    Returns every step by name, in order: norm, q, k, v, q_turned, k_turned, attention, o, mid, norm2, gate, up, silu,
    product, down, out; q_turned, k_turned and attention are [heads, tokens, size], the others [tokens, ...].
    """
    for name, value in (("weights", weights), ("plans", plans)):
        if not isinstance(value, dict) and (name == "weights" or value is not None):
            raise refuse(name, shown(value), "a dictionary")
    if cache is not None and (not isinstance(cache, tuple) or len(cache) != 2):
        raise refuse("cache", shown(cache), "(k, v)")
    if rotary is not None and (position or theta != 10000.0):
        raise refuse("position, theta", "given together with rotary", "omitted: rotary contains the positions")
    operands, by_name = (x, *weights.values(), *(cache or ()), *(rotary or ())), dict(plans or {})
    for name in by_name:
        if name not in _products:
            raise refuse("plans", repr(name), ", ".join(_products))
    x = _bf16(x, "x", (None, None))
    tokens, hidden = x.shape
    heads, kv_heads = count_of(heads, "heads", 1), count_of(kv_heads, "kv_heads", 1)
    missing = [name for name in ("norm", "norm2", *_products) if name not in weights]
    if missing:
        raise refuse("weights", f"no {', '.join(missing)}", "norm, q, k, v, o, norm2, gate, up, down")
    w = {
        "norm": _bf16(weights["norm"], "norm", (hidden,)),
        "norm2": _bf16(weights["norm2"], "norm2", (hidden,)),
        "q": _bf16(weights["q"], "q", (None, hidden)),
    }
    size = w["q"].shape[0] // heads
    if size * heads != w["q"].shape[0] or size % 2:
        raise refuse("q", f"shape {w['q'].shape}", f"{heads} heads of an even size")
    inter = _bf16(weights["gate"], "gate", (None, hidden)).shape[0]
    for name, shape in {
        "k": (kv_heads * size, hidden),
        "v": (kv_heads * size, hidden),
        "o": (hidden, heads * size),
        "gate": (inter, hidden),
        "up": (inter, hidden),
        "down": (hidden, inter),
    }.items():
        w[name] = _bf16(weights[name], name, shape)
    position = count_of(position, "position", 0)
    if number_of(theta, "theta") <= 0:
        raise refuse("theta", theta, "a number above 0")
    turns = _rotary(rotary, tokens, size, position, theta, x.dtype)

    def linear(name: str, source: np.ndarray) -> np.ndarray:
        plan = by_name.get(name, "flat")
        how = {"kernel": plan["kernel"]} if isinstance(plan, dict) and set(plan) == {"kernel"} else {"plan": plan}
        return gemm(source, w[name].T, out_dtype="bf16", threads=threads, **how)

    def split(t: np.ndarray, n: int) -> np.ndarray:
        return np.ascontiguousarray(t.reshape(tokens, n, size).swapaxes(0, 1))

    s: dict[str, np.ndarray] = {}
    s["norm"] = llama_norm(x, w["norm"], eps=eps, threads=threads)
    for name in ("q", "k", "v"):
        s[name] = linear(name, s["norm"])
    s["q_turned"] = _turned(split(s["q"], heads), turns, threads)
    s["k_turned"] = _turned(split(s["k"], kv_heads), turns, threads)
    keys, values = s["k_turned"], split(s["v"], kv_heads)
    if cache is not None:
        keys, values = (
            np.concatenate((_bf16(cached, "cache", (kv_heads, None, size)), new), 1)
            for cached, new in zip(cache, (keys, values), strict=True)
        )
    s["attention"] = attention(s["q_turned"], keys, values, is_causal=tokens > 1, threads=threads)
    s["o"] = linear("o", np.ascontiguousarray(s["attention"].swapaxes(0, 1)).reshape(tokens, heads * size))
    s["mid"] = elementwise("add", x, s["o"], threads=threads)
    s["norm2"] = llama_norm(s["mid"], w["norm2"], eps=eps, threads=threads)
    s["gate"], s["up"] = linear("gate", s["norm2"]), linear("up", s["norm2"])
    s["silu"] = elementwise("silu", s["gate"], threads=threads)
    s["product"] = elementwise("mul", s["silu"], s["up"], threads=threads)
    s["down"] = linear("down", s["product"])
    s["out"] = elementwise("add", s["mid"], s["down"], threads=threads)
    return {name: like(operands, step) for name, step in s.items()}
