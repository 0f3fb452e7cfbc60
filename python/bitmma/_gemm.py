"""Whole products with a library's own bits, and the plans that give recorded ones."""
from __future__ import annotations

import json
import warnings
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arguments import public, unchecked
from ._arrays import Codes, Tiled, _is_torch, dtype_of, format_named, format_of, like, matrix, to_numpy
from ._core import Plan
from ._errors import count_of, near, refuse, text_of, threads_of




class CatalogueEntry(NamedTuple):
    """What a library is known to do."""

    name: str
    about: str
    evidence: str
    source: str
    target: str
    open_count: bool
    """The number of slices must be given (`split_k`) or found."""


@public
def catalogue() -> list[CatalogueEntry]:
    """The plans that have a name."""
    return [CatalogueEntry(**row) for row in _core.catalogue()]


def _operands(a: Any, b: Any, **others: Any) -> dict[str, Any]:
    operands: dict[str, Any] = {"a": matrix(a, "a", is_input=True), "b": matrix(b, "b", is_input=True)}
    for name, value in others.items():
        if value is None:
            continue
        if name in ("rows", "cols", "whole"):
            if isinstance(value, str) or name == "whole" and len(value) != 2:
                raise refuse(name, repr(value), "two numbers, rows and columns" if name == "whole" else "row numbers")
            operands[name] = [count_of(number, name) for number in value]
            continue
        if name in ("bias", "scale_a", "scale_b"):
            value = _two_axes(value, name)
        for side in ("a", "b"):
            if name in ("sfa", "sfb") and operands[side][0] == "u8":
                raise refuse(side, "uint8, beside block scales", "an operand whose dtype says the format",
                             f'fp4 two a byte is bitmma.codes({side}, "e2m1", packed=True), for B of w and then .T')
        if isinstance(value, Tiled):
            (m, k), n = operands["a"][1].shape[-2:], operands["b"][1].shape[-1]
            value = value.scales_of(name, m if name == "sfa" else n, k)
        if name in ("sfa", "sfb"):
            # Block scales in e4m3 are ue4m3: their sign counts nothing.
            format = "ue4m3" if format_of(value) == "e4m3" else None if not isinstance(value, Codes) else value.format
            operands[name] = matrix(value, name, format=format)
        else:
            operands[name] = matrix(value, name)
    return operands


def _two_axes(value: Any, name: str) -> Any:
    """Scales may be numbers, and a bias a vector."""
    if isinstance(value, Codes):
        return value
    array = np.float32(value) if isinstance(value, (int, float)) else to_numpy(value, name)
    return array.reshape(1, -1) if np.ndim(array) < 2 else array


def _resolved(which: Any, kernel: str | None, operands: dict[str, Any], output: Any, target: str | None,
              split_k: int, alpha: float, beta: float, relu: bool) -> list[Plan]:
    """The plans that the arguments mean; several where the number of slices is open. What they leave unsaid is refused."""
    target = text_of(target, "target", "sm_90a")
    asked = None if output is None else format_named(output)
    # f64 has an accumulator of its own.
    named = asked or ("f64" if operands["a"][0] == "f64" else "f32")
    if kernel is not None and which is not None:
        raise refuse("kernel", "beside plan", "one of the two")
    if which is None:
        which = "flat"
    is_name = isinstance(which, str) and not which.lstrip().startswith("{")
    if is_name and kernel is None:
        names = [entry.name for entry in catalogue()]
        if which not in names:
            raise refuse("plan", repr(which[:80]), ", ".join(names), near(which, names))
    said = ", ".join(name for name, given in (("alpha", alpha != 1), ("relu", relu), ("split_k", split_k)) if given)
    if is_name:
        plans = _core.named_plans(str(text_of(kernel, "kernel", "nvjet_sm90_...") or which), kernel is not None, operands, named,
                                  target, split_k, alpha, beta, relu)
        if split_k and not any(one.slices == split_k for one in plans):
            raise refuse("split_k", split_k, "0: this plan does not cut K, or not in so many slices")
    elif isinstance(which, (str, dict, Plan)):
        if isinstance(which, dict) and "instruction" not in which:
            (flat,) = _core.named_plans("flat", False, operands, named, target, 0, 1.0, 1.0, False)
            which = {"target": flat.target, **{key: value for key, value in json.loads(flat.json).items()
                                               if key in ("instruction", "types")}, **which}
        one = which if isinstance(which, Plan) else Plan(which)
        plans = [one if target is None else one.with_target(target)]
        steps = json.loads(one.json).get("epilogue", [])
        scaled = {step.get("alpha", 1.0) for step in steps if step["op"] == "alpha_beta"}
        if relu or split_k or alpha != 1 and float(np.float32(alpha)) not in scaled:
            raise refuse(said, "given", "none: a plan says it", "alpha_beta and relu in its epilogue, split_k")
    else:
        raise refuse("plan", type(which).__name__, "a Plan, a dictionary, JSON or a name of bitmma.catalogue()")
    if asked is not None and plans and plans[0].output != asked:
        raise refuse("output", asked, f"{plans[0].output}, which this plan gives",
                     'a plan names another in {"output": {"type": ...}}' if said or not isinstance(which, str) else "")
    if beta != 1 and operands.get("c") is None:
        raise refuse("beta", beta, "1 without c")
    return plans


@public(rows=unchecked, cols=unchecked)
def gemm(a: Any, b: Any, plan: str | dict[str, Any] | Plan | None = None, *, c: Any = None, bias: Any = None,
         scale_a: Any = None, scale_b: Any = None, sfa: Any = None, sfb: Any = None, target: str | None = None,
         output: str | None = None, kernel: str | None = None, split_k: int = 0, alpha: float = 1.0,
         beta: float = 1.0, relu: bool = False, rows: Any = None, cols: Any = None,
         whole: tuple[int, int] | None = None, threads: int = 1) -> Any:
    """A whole matrix product with the bits that a plan gives.

    a             [M, K], float16, bfloat16, float32 (read as tf32), float64, float8_*, int8, or codes(array, format)
    b             [K, N] with any strides: `w.T` of a weight matrix costs nothing
    plan          a Plan, a dictionary, JSON, or a name of the catalogue. None and "flat": one chain of the instruction
                  that the target has for these types. A dictionary without "instruction" has that one
    kernel        instead of a plan: the name of a kernel as a profiler prints it
    c, bias       [M, N]; [N]
    scale_a       float32: one number, [M, 1] or [M, blocks]; scale_b one number, [1, N] or [blocks, N]
    sfa, sfb      block scales of the instruction, [M, K/size] and [K/size, N]
    target        a GPU by its PTX name; None: the plan's own, or sm_90a, which is an H100 with wgmma (sm_90 is the same
                  GPU without: its fp8 has other bits)
    output        the type of D for plans by name: "f32" (the default; of float64 "f64"), "bf16", "f16" ...; others
                  name theirs
    split_k       the number of slices where a named plan leaves it open
    rows, cols    which rows and columns of a product of `whole` = (M, N) these are, for plans with regions

    Returns D, [M, N], of the plan's output type; a torch tensor where A is one. Leading axes of `a` and `b` are a
    batch. `threads` (0: all cores) changes no bit; the GIL is free while it computes. Raises Error with everything that
    is wrong, arguments that the plan does not read included.

    >>> a = np.ones((4, 64), np.float16); b = np.ones((64, 8), np.float16)
    >>> gemm(a, b, "flat", output="f16")[0, 0]
    np.float16(64.0)
    """
    threads, split_k = threads_of(threads), count_of(split_k, "split_k")
    if max(np.ndim(a), np.ndim(b)) > 2:
        for name, value in (("rows", rows), ("cols", cols), ("whole", whole)):
            if value is not None:
                raise refuse(name, "given", "none with a batch of products")
        return _batch(a, b, plan, c, dict(bias=bias, scale_a=scale_a, scale_b=scale_b, sfa=sfa, sfb=sfb, target=target,
                                          output=output, kernel=kernel, split_k=split_k, alpha=alpha, beta=beta,
                                          relu=relu, threads=threads))
    operands = _operands(a, b, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b, sfa=sfa, sfb=sfb, rows=rows,
                         cols=cols, whole=whole)
    m, n = operands["a"][1].shape[0], operands["b"][1].shape[-1]
    plans = _resolved(plan, kernel, operands, output, target, split_k, alpha, beta, relu)
    if len(plans) != 1:
        raise refuse("split_k", "(missing)", "the number of slices: no name tells it",
                     "bitmma.find_plans(a, b, d) finds it where a D was recorded")
    one = plans[0]
    if 0 in (m, n):
        return np.empty((m, n), dtype_of(one.output))
    d = np.empty((m, n), dtype_of(one.output))
    raw = d if d.dtype.kind != "V" and d.dtype.isbuiltin == 1 else d.view(f"u{d.dtype.itemsize}")
    _core.gemm_into(one, operands, raw, threads)
    return like(a, d) if _is_torch(a) else d


def _batch(a: Any, b: Any, plan: Any, c: Any, others: dict[str, Any]) -> Any:
    first, second = to_numpy(a, "a"), to_numpy(b, "b")
    third = None if c is None else to_numpy(c, "c")
    shapes = [array.shape[:-2] for array in (first, second, third) if array is not None]
    try:
        batch = np.broadcast_shapes(*shapes)
    except ValueError:
        raise refuse("batch axes", " and ".join(map(str, shapes)), "shapes that broadcast") from None

    def at(array: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(array, (*batch, *array.shape[-2:]))[index]

    def said(array: np.ndarray, given: Any) -> Any:
        return Codes(array, given.format) if isinstance(given, Codes) else array

    pieces = [gemm(said(at(first, index), a), said(at(second, index), b), plan,
                   c=None if third is None else said(at(third, index), c), **others) for index in np.ndindex(batch)]
    if not pieces:
        raise refuse("batch axes", batch, "a batch of at least one product")
    d = np.stack(pieces).reshape(*batch, *pieces[0].shape)
    return like(a, d) if _is_torch(a) else d


@public(rows=unchecked, cols=unchecked)
def find_plans(a: Any, b: Any, d: Any, *, c: Any = None, bias: Any = None, scale_a: Any = None, scale_b: Any = None,
               sfa: Any = None, sfb: Any = None, target: str | None = None, kernel: str | None = None,
               among: list[Plan] | None = None, alpha: float = 1.0, beta: float = 1.0, nearest: bool = False,
               max_nearest: int = 3, rows: Any = None, cols: Any = None, whole: tuple[int, int] | None = None,
               threads: int = 1) -> list[Plan]:
    """The plans that give every bit of a recorded D, simplest first; an empty list when none does.

    Operands are those of gemm, `d` is [M, N] in the type in which it was computed: bfloat16 results saved as float32 have
    no plan. Several plans come when D cannot tell them apart. With `nearest` and no
    plan for all bits, the nearest `max_nearest` come, each with `.differing` outputs and where they are (`.pattern`).
    `among` tries these plans alone, `kernel` those that a kernel's name allows. `target` None is sm_90a.

    >>> a = np.ones((4, 64), np.float16); b = np.ones((64, 8), np.float16)
    >>> len(find_plans(a, b, gemm(a, b))) > 0
    True
    """
    operands = _operands(a, b, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b, sfa=sfa, sfb=sfb, rows=rows,
                         cols=cols, whole=whole)
    recorded: Any = matrix(d, "d")
    threads = threads_of(threads)
    if kernel is not None:
        if among is not None:
            raise refuse("kernel", "beside among", "one of the two")
        among = _core.named_plans(str(text_of(kernel, "kernel", "nvjet_sm90_...")), True, operands, recorded[0], target, 0,
                                  alpha, beta, False)
    elif among is not None and (not among or not all(isinstance(one, Plan) for one in among)):
        if not among:
            return []
        raise refuse("among", [type(one).__name__ for one in among], "a list of Plan")
    found = _core.find_plans(operands, recorded, text_of(target, "target", "sm_90a"), alpha, beta, nearest, max_nearest,
                             among or [], threads)
    if not any(one.differing == 0 for one in found):
        _hint_narrow(recorded)
    return found


def _hint_narrow(recorded: tuple[str, np.ndarray]) -> None:
    """D of a narrow type that was saved as float32 has no plan: f32 results have other low bits."""
    if recorded[0] != "f32":
        return
    words = recorded[1].view(np.uint32)
    values = words.view(np.float32)
    with np.errstate(all="ignore"):
        is_f16 = bool((values.astype(np.float16).astype(np.float32).view(np.uint32) == words).all())
    for name, exact in (("ml_dtypes.bfloat16", not (words & 0xFFFF).any()), ("np.float16", is_f16)):
        if exact and words.any():
            warnings.warn(f"no plan gives d, whose values are all exact in {name}: if it was of that type, "
                          f"d.astype({name}) finds the plan", stacklevel=3)
            return


class Accuracy(NamedTuple):
    """Errors in units in the last place of D's format at the exact value."""

    outputs: int
    not_finite: int
    """Outputs or operands that are NaN or infinity: left out."""
    max_ulp: float
    mean_ulp: float
    bias_ulp: float
    """Mean, counted away from zero: negative where D is too small."""
    max_relative_error: float


@public
def accuracy(a: Any, b: Any, d: Any, *, threads: int = 1) -> Accuracy:
    """How far D [M, N] is from the exact product of A [M, K] and B [K, N]; the sum is exact, in integers."""
    return Accuracy(**_core.accuracy(_operands(a, b), matrix(d, "d"), threads_of(threads)))


@public(shape=unchecked, rows=unchecked)
def generated(format: str, shape: tuple[int, int], seed: int, stream: str, rows: Any = None) -> np.ndarray:
    """An operand of recorded products, [rows, columns], from its seed: the same on every machine.

    `stream` is "a" ([M, K]), "b" ([N, K]), "c" or "bias"; `rows` picks rows of a larger one.
    """
    shape = (count_of(shape[0], "rows"), count_of(shape[1], "columns"))
    picked = list(range(shape[0])) if rows is None else [count_of(row, "rows") for row in rows]
    d = np.empty((len(picked), shape[1]), dtype_of(format))
    _core.generated(format, picked, shape[1], seed, ("a", "b", "c", "bias").index(stream), d.view(f"u{d.dtype.itemsize}"))
    return d
