# SPDX-License-Identifier: MIT
"""Recorded whole products."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from . import _notebook
from ._arguments import core as _core, public
from ._case import _typed
from ._core import Plan
from ._errors import Error, refuse
from ._gemm import PlanSearch, ProductTrace, explain_product, find_plans, gemm
from ._vectors import Path


def _plan_html(plan: Plan) -> str:
    return _notebook.plan(str(plan), json.loads(plan.json), plan.evidence)


setattr(Plan, "_repr_html_", _plan_html)


class Product(NamedTuple):
    """A recorded product: A [M, K], B [K, N] and further operands; None for operands that the file lacks."""

    a: np.ndarray
    b: np.ndarray
    d: np.ndarray | None
    c: np.ndarray | None
    bias: np.ndarray | None
    scale_a: np.ndarray | None
    scale_b: np.ndarray | None
    sfa: np.ndarray | None
    sfb: np.ndarray | None
    target: str | None
    output: str | None
    alpha: float
    beta: float
    rows: list[int]
    cols: list[int]
    whole: tuple[int, int]
    metadata: dict[str, str]

    @staticmethod
    def _how_to_get_a_case() -> str:
        return "a Case is one instruction, but a product is a chain of instructions: use product.explain(row, col)"

    def __repr__(self) -> str:
        return _notebook.arrays("Product", self._asdict())

    @property
    def kernel(self) -> str | None:
        """The name of the kernel that computed D."""
        return self.metadata.get("kernel")

    @public
    def find_plans(self, *, threads: int = 1) -> PlanSearch:
        """The plans that match every bit of D, among those for the kernel's name, else among all."""
        if self.d is None:
            raise refuse("d", "(missing)", "a recorded D")
        if self.kernel is not None:
            try:
                return find_plans(
                    self.a, self.b, self.d, kernel=self.kernel, target=self.target, threads=threads, **self.operands()
                )
            except Error as error:
                if error.violations[0].code != "unknown_kernel":
                    raise
        return find_plans(self.a, self.b, self.d, target=self.target, threads=threads, **self.operands())

    @public
    def gemm(self, plan: str | dict[str, Any] | Plan | None = None, *, threads: int = 1) -> np.ndarray:
        """Computes D by a plan, with all operands of the file: type of D, scales, bias, C. Without a plan it uses the
        first one that matches the recorded D, and raises Error if none does."""
        if plan is None:
            plans = self.find_plans(threads=threads)
            if not plans:
                raise refuse(
                    "kernel",
                    self.kernel,
                    "one whose plan gives the recorded D",
                    "pass a plan, which tells how K is added up",
                )
            plan = plans[0]
        output = None if isinstance(plan, (dict, Plan)) else self.output
        return gemm(
            self.a,
            self.b,
            plan,
            target=None if isinstance(plan, Plan) else self.target,
            out_dtype=output,
            threads=threads,
            **self.operands(),
        )

    @public
    def explain(self, row: int, col: int, plan: str | dict[str, Any] | Plan | None = None) -> ProductTrace:
        """Output (row, col) step by step: the accumulator before and after each step, the loss of each, and the error
        over K. Without a plan it uses the first one that matches the recorded D."""
        if plan is None:
            plans = self.find_plans()
            if not plans:
                raise refuse("plan", "(missing)", "a plan: no known plan gives the recorded D")
            plan = plans[0]
        is_plan = isinstance(plan, (dict, Plan))
        return explain_product(
            self.a,
            self.b,
            plan,
            row,
            col,
            target=None if is_plan else self.target,
            out_dtype=None if is_plan else self.output,
            **self.operands(),
        )

    def operands(self) -> dict[str, Any]:
        """The keyword arguments of gemm and find_plans besides a and b."""
        names = {name: getattr(self, name) for name in ("c", "bias", "scale_a", "scale_b", "sfa", "sfb")}
        places = {"rows": self.rows or None, "cols": self.cols or None, "whole": self.whole if self.whole[0] else None}
        return {**names, **places, "alpha": self.alpha, "beta": self.beta}


@public
def read_product(path: Path) -> Product:
    """Reads a file of one whole product (docs/vectors.md); generates the operands of recorded calls from their
    seed."""
    fields = _core.read_product(path)
    for name in ("a", "b", "c", "d", "bias", "scale_a", "scale_b", "sfa", "sfb"):
        fields[name] = _typed(fields[name])
    return Product(**fields)
