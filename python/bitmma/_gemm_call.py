# SPDX-License-Identifier: MIT
"""A product below the keywords of its functions: the operands as codes, and how they are added up."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from . import _core
from ._arrays import Codes, Tiled, format_named, format_of, matrix, to_numpy
from ._core import Plan
from ._errors import Error, count_of, number_of, refuse, renamed, shown, text_of


def place_of(value: Any, name: str) -> list[int]:
    """`rows`, `cols` or `whole`: where the given part lies in the whole product."""
    is_list = (
        isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping)) and np.ndim(cast(Any, value))
    )
    if not is_list or (name == "whole" and len(value) != 2):
        raise refuse(
            name,
            shown(value),
            "(M, N) of the whole product"
            if name == "whole"
            else f"the index in the whole product of each of the {name}",
        )
    return [count_of(number, name) for number in value]


def operands_of(a: Any, b: Any, **others: Any) -> dict[str, Any]:
    operands: dict[str, Any] = {"a": matrix(a, "a", is_input=True), "b": matrix(b, "b", is_input=True)}
    for name, value in others.items():
        if value is None:
            continue
        if name in ("rows", "cols", "whole"):
            operands[name] = place_of(value, name)
            continue
        if name in ("bias", "scale_a", "scale_b"):
            value = _two_axes(value, name)
        for side in ("a", "b"):
            if name in ("sfa", "sfb") and operands[side][0] == "u8":
                raise refuse(
                    side,
                    "uint8 with block scales",
                    "an operand whose dtype defines the format",
                    f'for fp4 with two codes per byte, use bitmma.codes({side}, "e2m1", packed=True); '
                    "for B, pass w and then take .T",
                )
        if isinstance(value, Tiled):
            (m, k), n = operands["a"][1].shape[-2:], operands["b"][1].shape[-1]
            value = value.scales_of(name, m if name == "sfa" else n, k)
        if name in ("sfa", "sfb"):
            if not isinstance(value, Codes):
                value = to_numpy(value, name)
                if value.dtype in (np.uint8, np.float32, np.float16):
                    raise refuse(
                        name,
                        value.dtype,
                        "float8_e8m0fnu or float8_e4m3fn",
                        f'bitmma.codes({name}, "ue8m0") names the format of bytes'
                        if value.dtype == np.uint8
                        else "use scale_a and scale_b for a library's scales, in float32",
                    )
            # Block scales in e4m3 are ue4m3: their sign counts nothing.
            format = "ue4m3" if format_of(value) == "e4m3" else None if not isinstance(value, Codes) else value.format
            operands[name] = matrix(value, name, format=format)
        else:
            operands[name] = matrix(value, name)
            shape = operands[name][1].shape
            if name == "bias" and len(shape) == 3 and shape[0] != 1 and operands["a"][1].ndim == 2:
                raise refuse(
                    "bias",
                    f"shape {np.shape(others['bias'])}",
                    f"({operands['b'][1].shape[-1]},), one number a column",
                    "a matrix that is added to D is c",
                )
            if name in ("scale_a", "scale_b") and operands[name][0] in ("ue8m0", "ue4m3", "e4m3"):
                raise refuse(
                    name, operands[name][0], "float32", "use sfa and sfb for the block scales of the instruction"
                )
    return operands


def _two_axes(value: Any, name: str) -> Any:
    """Scales may be numbers, and a bias a vector, or one vector per product of a batch."""
    if isinstance(value, Codes):
        return Codes(_two_axes(value.array, name), value.format) if value.ndim < 2 else value
    array = np.float32(number_of(value, name)) if isinstance(value, (int, float)) else to_numpy(value, name)
    if name == "scale_a" and np.ndim(array) == 1 and np.size(array) > 1:
        raise refuse(
            name, f"shape {np.shape(array)}", "one number, [M, 1] or [M, blocks]", "scale_a[:, None] has one per row"
        )
    if np.ndim(array) < 2:
        return array.reshape(1, -1)
    return array[..., None, :] if name == "bias" and array.shape[-2] != 1 else array


def batched(operands: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, ...]]:
    """The operands, broadcast over the batch axes of a, b and c."""
    arrays = {name: value[1] for name, value in operands.items() if name not in ("rows", "cols", "whole")}
    if all(array.ndim == 2 for array in arrays.values()):
        return operands, ()
    for name in ("rows", "cols", "whole"):
        if name in operands:
            raise refuse(name, "given", "None with a batch of products")
    shapes = [arrays[name].shape[:-2] for name in ("a", "b", "c") if name in arrays]
    try:
        batch = np.broadcast_shapes(*shapes)
        spread = {
            name: (operands[name][0], np.broadcast_to(array, (*batch, *array.shape[-2:])))
            for name, array in arrays.items()
        }
    except ValueError:
        raise refuse(
            "batch axes",
            ", ".join(f"{name} {array.shape[:-2]}" for name, array in arrays.items()),
            "shapes that broadcast to those of a, b and c",
        ) from None
    if 0 in batch:
        raise refuse("batch axes", batch, "a batch of at least one product")
    return spread, batch


@dataclass(frozen=True)
class GemmCall:
    """What gemm, find_plans, explain_product, matmul and distributed.gemm ask of the library, which reads it by these
    names."""

    operands: dict[str, Any]
    """`operands_of`: (format, codes) of each, and numbers."""
    plan: Any = None
    """A Plan, or text: JSON or a name; a dictionary becomes JSON."""
    kernel: str | None = None
    out_dtype: Any = None
    """The format of D."""
    target: Any = None
    split_k: int = 0
    alpha: float = 1.0
    beta: float = 1.0
    relu: bool = False

    def __post_init__(self) -> None:
        plan, out_dtype = self.plan, self.out_dtype
        if plan is not None and not isinstance(plan, (str, dict, Plan)):
            raise refuse("plan", type(plan).__name__, "a Plan, a dictionary, JSON or a name of bitmma.catalogue()")
        if isinstance(out_dtype, str) and out_dtype == "tf32":
            raise refuse("out_dtype", "tf32", "f32, f16, bf16, e4m3, e5m2, f64 or s32: tf32 is a type of A and B")
        try:
            plan = json.dumps(plan) if isinstance(plan, dict) else plan
        except (TypeError, ValueError, RecursionError) as error:
            raise refuse("plan", "a dictionary", "a value that JSON can represent", str(error)) from None
        if not isinstance(plan, Plan) and isinstance(text_of(plan, "plan", "nvjet-algo2"), str) and not plan:
            raise refuse("plan", "''", "a name of bitmma.catalogue(), or none")
        object.__setattr__(self, "plan", plan)
        object.__setattr__(self, "kernel", text_of(self.kernel, "kernel", "nvjet_sm90_..."))
        object.__setattr__(self, "out_dtype", None if out_dtype is None else format_named(out_dtype, "out_dtype"))
        object.__setattr__(self, "target", text_of(self.target, "target", "sm_90a"))

    def plans(self) -> list[Plan]:
        """The plans that it selects; several if the number of slices is unknown."""
        return list(self._answer(_core.plans_for))

    def only_plan(self) -> Plan:
        """The plan of a call without a recorded D."""
        plan: Plan = self._answer(_core.only_plan)
        return plan

    def _answer(self, function: Callable[[GemmCall], Any]) -> Any:
        if self.beta != 1 and self.operands.get("c") is None:
            raise refuse("beta", self.beta, "1 without c")
        try:
            return function(self)
        except Error as error:
            # In a plan this is "output".
            raise error if self.out_dtype is None else renamed(error, "output", "out_dtype") from None


@dataclass(frozen=True)
class PlanSearchCall:
    """What find_plans searches, for the product of a GemmCall."""

    d: Any
    """(format, codes)"""
    among: list[Plan] | None
    max_nearest: int
    timeout: float
    """In seconds; 0: none."""
    max_plans: int
    """0: all."""
    progress: Callable[[int, int], object] | None
    threads: int
