# SPDX-License-Identifier: MIT
"""Whole products with the bits of a library, and the plans that reproduce recorded products."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, overload

import numpy as np

from . import _core, _notebook
from ._arguments import public, text, unchecked
from ._arrays import dtype_of, like, matrix
from ._core import Plan
from ._errors import (
    count_of,
    flag_of,
    near,
    no_such_argument,
    number_of,
    refuse,
    shown,
    violations_of,
)
from ._gemm_call import GemmCall, PlanSearchCall, batched, operands_of
from ._types import GemmOptions, NumPyMatrix, Operand, PlanLike, Target, Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


class PlanTypes(NamedTuple):
    """Types of operands and D for which a plan was observed."""

    operands: str
    """"e4m3 x e4m3"; "block scales" means any types with block scales; "any" means all types that the target
    multiplies."""
    d: str
    """"bf16" or "any"; empty if the library accepts these operands, but no D was observed."""
    evidence: str
    """Empty for a model choice."""


class CatalogueEntry(NamedTuple):
    """A plan of the catalogue, and the library that uses it."""

    name: str
    about: str
    evidence: str
    """The strongest of `types`."""
    source: str
    target: str
    open_count: bool
    """The caller must give the number of slices (`split_k`) or find it."""
    gpus: str
    """"sm_90", "sm_90 and later" or "all". Other targets are rejected."""
    types: list[PlanTypes]
    """Other operands are rejected."""
    most_k: int | None
    """The largest K for which the plan was observed; None if there is no limit."""


@cache
def _catalogue() -> tuple[CatalogueEntry, ...]:
    return tuple(
        CatalogueEntry(**{**row, "types": [PlanTypes(*types) for types in row["types"]]}) for row in _core.catalogue()
    )


@public
def catalogue() -> list[CatalogueEntry]:
    """All named plans."""
    return list(_catalogue())


def _array_for_d(out: Any, shape: tuple[int, ...], dtype: np.dtype, operands: dict[str, Any]) -> np.ndarray:
    """The array to compute D in: `out`, or a new one if `out` has gaps or may overlap an operand."""
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        seen = f"{getattr(out, 'dtype', type(out).__name__)} {getattr(out, 'shape', '')}"
        raise refuse("out", seen, f"an array of NumPy, {dtype} {shape}")
    if not out.flags.writeable:
        raise refuse("out", "a read-only array", "an array that can be written")
    arrays = [value[1] for name, value in operands.items() if name not in ("rows", "cols", "whole")]
    if out.flags.c_contiguous and not any(np.may_share_memory(out, array) for array in arrays):
        return out
    return np.empty(shape, dtype)


@overload
def gemm(
    a: NumPyMatrix,
    b: Operand,
    plan: PlanLike = ...,
    *,
    return_plan: Literal[False] = ...,
    **options: Unpack[GemmOptions],
) -> np.ndarray: ...
@overload
def gemm(
    a: NumPyMatrix, b: Operand, plan: PlanLike = ..., *, return_plan: Literal[True], **options: Unpack[GemmOptions]
) -> tuple[np.ndarray, Plan]: ...
@overload
def gemm(
    a: Tensor, b: Operand, plan: PlanLike = ..., *, return_plan: Literal[False] = ..., **options: Unpack[GemmOptions]
) -> Tensor: ...
@overload
def gemm(
    a: Tensor, b: Operand, plan: PlanLike = ..., *, return_plan: Literal[True], **options: Unpack[GemmOptions]
) -> tuple[Tensor, Plan]: ...
@public(
    rows=unchecked,
    cols=unchecked,
    out=unchecked,
    return_plan=flag_of,
    renamed={"output": "out_dtype", "dtype": "out_dtype"},
)
def gemm(
    a: Any,
    b: Any,
    plan: PlanLike = None,
    *,
    c: Any = None,
    bias: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    sfa: Any = None,
    sfb: Any = None,
    target: Target | None = None,
    out_dtype: Any = None,
    out: Any = None,
    kernel: str | None = None,
    split_k: int = 0,
    alpha: float = 1.0,
    beta: float = 1.0,
    relu: bool = False,
    rows: Any = None,
    cols: Any = None,
    whole: tuple[int, int] | None = None,
    return_plan: bool = False,
    threads: int = 1,
) -> Any:
    """A whole matrix product with the bits of a plan.

    a             [M, K], float16, bfloat16, float32, float64, float8_*, int8, or codes(array, format)
    b             [K, N] with any strides: `w.T` of a weight matrix costs nothing
    plan          a Plan, a dictionary, JSON, or a name of the catalogue. None and "flat": one chain of the target's
                  instruction for these types, which is also the default of a dictionary. float32 needs a
                  plan: "sgemm" (CUDA cores), "xmma-tf32" (rounded to tf32, as cuBLAS does) or "flat" (tf32 by dropping
                  low bits, as the instruction does)
    kernel        instead of a plan: a kernel name as a profiler prints it, which also gives the types of A, B and D
    c, bias       [M, N]; [N]
    scale_a       float32: one number, [M, 1] or [M, blocks]; scale_b one number, [1, N] or [blocks, N]
    sfa, sfb      block scales of the instruction, [M, K/size] and [K/size, N]
    target        a GPU by its PTX name. None: the plan's own, else sm_90a, an H100 with wgmma (sm_90 is the same GPU
                  without wgmma, where fp8 results differ), or sm_100a for what sm_90a lacks, such as block scales
    out_dtype     the type of D for plans by name: "f32" (the default; "f64" for float64), "bf16", "f16" ... or a dtype;
                  plans and kernels have their own
    out           an array for D, of its shape and type; nothing is copied if it is contiguous and no operand overlaps
                  it
    split_k       the number of slices, if a named plan leaves it open
    rows, cols    the indices of these rows and columns in a product of `whole` = (M, N), for plans with regions
    return_plan   True: returns (D, plan); `plan.target` and `plan.evidence` name the GPU whose bits these are

    Returns D, [M, N], of the plan's output type; a torch tensor if an operand is one. Leading axes of `a`, `b`, c, bias
    and scales are a batch. K = 0 gives beta C, or zeros. `threads` (0: all cores) changes no bit; the GIL is released
    during the computation. Raises Error with all problems, including arguments that the plan does not read.

    >>> a = np.ones((4, 64), np.float16); b = np.ones((64, 8), np.float16)
    >>> gemm(a, b, "flat", out_dtype="f16")[0, 0]
    np.float16(64.0)
    """
    operands, batch = batched(
        operands_of(
            a, b, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b, sfa=sfa, sfb=sfb, rows=rows, cols=cols, whole=whole
        )
    )
    call = GemmCall(operands, plan, kernel, out_dtype, target, split_k, alpha, beta, relu)
    chosen = call.only_plan()
    if operands["a"][0] == operands["b"][0] == "e2m1":
        for warning in violations_of(_core.warnings_of_plan(chosen, "e2m1", "e2m1")):
            warnings.warn(str(warning), stacklevel=3)
    shape = (*batch, operands["a"][1].shape[-2], operands["b"][1].shape[-1])
    d_type = dtype_of(chosen.output)
    d = np.empty(shape, d_type) if out is None else _array_for_d(out, shape, d_type, operands)
    product_into(d, chosen, operands, threads)
    if out is not None and d is not out:
        out[...] = d
        d = out
    result = like((a, b, c, bias, scale_a, scale_b, sfa, sfb), d) if out is None else d
    return (result, chosen) if return_plan else result


def product_into(d: np.ndarray, plan: Plan, operands: dict[str, Any], threads: int) -> None:
    """Computes D in a contiguous array of its type."""
    if d.size:
        raw = d if d.dtype.kind != "V" and d.dtype.isbuiltin == 1 else d.view(f"u{d.dtype.itemsize}")
        _core.gemm_into(plan, operands, raw, threads)


class ProductTrace:
    """One output of a whole product, operation by operation. `str` shows the steps with the largest losses."""

    def __init__(self, fields: dict[str, Any], text: str):
        self.fields = fields
        """Everything as a dictionary: each of "steps" has "kind", "k", "before", "after" and "error"."""
        self._text = text
        self.d: str = fields["d"]
        """The code of D, in hexadecimal."""
        self.exact: float | None = fields["exact"]
        """The exact sum of exact products; None if an operand is not finite."""
        self.error: float = fields["error"]
        """The error of all steps together."""
        self.steps: list[dict[str, Any]] = fields["steps"]
        self.worst: int | None = fields["worst"]
        """The step with the largest loss; None if no step loses anything."""
        self.k = np.array(fields["curve"]["k"], np.int64)
        """The number of k added after every step."""
        self.errors = np.array(fields["curve"]["error"], np.float64)
        """The error after every step, to plot against `k`."""

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        place = f"D[{self.fields['row']}, {self.fields['col']}]"
        return f"<ProductTrace of {place}, {len(self.steps)} steps, error {self.error:+.4g}>"

    def _repr_svg_(self) -> str:
        return _notebook.curve(self.k, self.errors, "k", "error so far")

    def _repr_html_(self) -> str:
        return f"{self._repr_svg_()}<pre>{escape(str(self))}</pre>"


@public(renamed={"output": "out_dtype"})
def explain_product(
    a: Any,
    b: Any,
    plan: Any = None,
    row: int = 0,
    col: int = 0,
    *,
    kernel: str | None = None,
    target: Target | None = None,
    out_dtype: Any = None,
    split_k: int = 0,
    alpha: float = 1.0,
    beta: float = 1.0,
    relu: bool = False,
    **operands: Any,
) -> ProductTrace:
    """Output (row, col) of a product step by step: the accumulator before and after each step, the loss of each, and
    the error over K. Takes the arguments of gemm."""
    parts = _operands_of_product("explain_product", a, b, operands)
    call = GemmCall(parts, plan, kernel, out_dtype, target, split_k, alpha, beta, relu)
    return ProductTrace(*_core.trace_product(call.only_plan(), call.operands, row, col))


class PlanFamily(NamedTuple):
    """Plans that differ only in the number of slices and in tiles."""

    name: str
    plans: int
    """The number of its plans that match all bits."""
    first: int
    """The first of them in the order of the search."""
    evidence: str
    """The catalogue's evidence for it; empty if no library is known to add like this."""


class PlanSearch(Sequence[Plan]):
    """The result of a search: the plans that match all bits, those with measured evidence first.

    A sequence of Plan. If no plan matches all bits and `nearest` is set, it has the nearest plans.
    """

    def __init__(self, search: dict[str, Any], nearest: bool):
        report = search["report"]
        self.nearest: list[Plan] = search["nearest"]
        """If no plan matches all bits: the plans that miss the fewest outputs, each with `differing` and `pattern`."""
        self.tried: int = report["candidates"]
        self.outputs: int = report["outputs"]
        self.families = [PlanFamily(**family) for family in report["families"]]
        self.ambiguous: bool = report["ambiguous"]
        """True if D cannot distinguish several plans; a D in f32, or with more rows, may distinguish them."""
        self.ended: str = report["ended"]
        """"complete"; after "timeout" or "max_plans" other plans may match, see `untried`."""
        self.untried: int = report["untried"]
        """After an early end: the plans of the stage that it ended in which were not tried."""
        self.untried_stages: list[int] = report["untried_stages"]
        """After an early end: the later stages, as `bitmma gemm --help` numbers them."""
        self._text: str = search["text"]
        self._plans: list[Plan] = search["plans"] or (self.nearest if nearest else [])

    def __len__(self) -> int:
        return len(self._plans)

    @overload
    def __getitem__(self, index: int) -> Plan: ...
    @overload
    def __getitem__(self, index: slice) -> list[Plan]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._plans[index]

    def __iter__(self) -> Iterator[Plan]:
        return iter(self._plans)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PlanSearch):
            return self._plans == other._plans
        return self._plans == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def summary(self) -> str:
        """The result in a few lines."""
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        plans = f"{len(self._plans)} plans" if self._plans and not self._plans[0].differing else "no plan"
        return f"<PlanSearch: {plans} of {self.tried} tried, {len(self.families)} families, {self.ended}>"

    __str__ = summary

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(family.name)}</td><td>{family.plans}</td><td>{escape(family.evidence)}</td></tr>"
            for family in self.families
        )
        head = escape(self.summary().split("\n")[0])
        table = f"<table><tr><th>family</th><th>plans</th><th>evidence</th></tr>{rows}</table>" if rows else ""
        return f"<p>{head}</p>{table}"


@public(rows=unchecked, cols=unchecked, timeout=number_of)
def find_plans(
    a: Any,
    b: Any,
    d: Any,
    *,
    c: Any = None,
    bias: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    sfa: Any = None,
    sfb: Any = None,
    target: Target | None = None,
    kernel: str | None = None,
    among: Sequence[Plan] | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    nearest: bool = False,
    max_nearest: int = 3,
    timeout: float | None = None,
    max_plans: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    rows: Any = None,
    cols: Any = None,
    whole: tuple[int, int] | None = None,
    threads: int = 1,
) -> PlanSearch:
    """The plans that match every bit of a recorded D, as a sequence: measured families first, and the simplest plan
    first within them; empty if no plan matches.

    Operands are those of gemm. `d` is [M, N] in the type in which it was computed: no plan matches bfloat16 results
    saved as float32. `among` restricts the search to these plans, `kernel` to those of a kernel's name. `target` None
    is as in gemm.

    If D cannot distinguish plans, the function returns all of them (`.ambiguous`, `.families`). If no plan matches and
    `nearest` is True, it returns the nearest `max_nearest`, each with its `.differing` outputs and their `.pattern`.

    The search ends after `timeout` seconds or `max_plans` plans (see `.ended`, `.untried`); it then compares the
    nearest plans on a sample of D. A complete search of 64 x 64 x 4096 takes seconds; with a long K or many outputs it
    takes minutes. It calls `progress(tried, of)` occasionally, and an exception from this call ends the search.

    >>> a = np.ones((4, 64), np.float16); b = np.ones((64, 8), np.float16)
    >>> len(find_plans(a, b, gemm(a, b))) > 0
    True
    """
    operands = operands_of(
        a, b, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b, sfa=sfa, sfb=sfb, rows=rows, cols=cols, whole=whole
    )
    recorded: Any = matrix(d, "d")
    if kernel is not None and among is not None:
        raise refuse("kernel", "beside among", "one of the two")
    if among is not None and not (
        isinstance(among, (list, tuple, PlanSearch)) and all(isinstance(plan, Plan) for plan in among)
    ):
        raise refuse("among", shown(among), "a list of Plan")
    if among is not None:
        for name, value, default in (("alpha", alpha, 1.0), ("beta", beta, 1.0), ("target", target, None)):
            if value != default:
                raise refuse(name, "beside among", "omitted: the plans name it themselves")
    if progress is not None and not callable(progress):
        raise refuse("progress", type(progress).__name__, "a function with the parameters (tried, of)")
    if timeout is not None and not timeout > 0:
        raise refuse("timeout", timeout, "a number of seconds above 0")
    call = GemmCall(operands, kernel=kernel, target=target, alpha=alpha, beta=beta)
    search = PlanSearchCall(
        d=recorded,
        among=None if among is None else list(among),
        max_nearest=max_nearest,
        timeout=timeout or 0.0,
        max_plans=0 if max_plans is None else count_of(max_plans, "max_plans", 1),
        progress=progress,
        threads=threads,
    )
    plans = PlanSearch(_core.find_plans(call, search), nearest)
    if not any(plan.differing == 0 for plan in plans):
        _hint_narrow(recorded)
    return plans


def _hint_narrow(recorded: tuple[str, np.ndarray]) -> None:
    """Hints that no plan matches a narrow D saved as float32, because f32 results have other low bits."""
    if recorded[0] != "f32":
        return
    words = recorded[1].view(np.uint32)
    values = words.view(np.float32)
    with np.errstate(all="ignore"):
        is_f16 = bool((values.astype(np.float16).astype(np.float32).view(np.uint32) == words).all())
    for name, exact in (("ml_dtypes.bfloat16", not (words & 0xFFFF).any()), ("np.float16", is_f16)):
        if exact and words.any():
            warnings.warn(
                f"no plan gives d. All values of d are exact in {name}: if d was computed in that type, "
                f"pass d.astype({name})",
                stacklevel=3,
            )
            return


class Accuracy(NamedTuple):
    """Errors in units in the last place of D's format at the exact value."""

    outputs: int
    not_finite: int
    """The number of outputs that are not counted, because they or their operands are NaN or infinity."""
    max_ulp: float
    mean_ulp: float
    bias_ulp: float
    """The mean error; negative if D is too small in magnitude, positive if it is too large."""
    max_relative_error: float


@public
def accuracy(a: Any, b: Any, d: Any, *, threads: int = 1) -> Accuracy:
    """The error of D [M, N] against the exact product of A [M, K] and B [K, N], summed in integers."""
    return Accuracy(**_core.accuracy(operands_of(a, b), matrix(d, "d"), threads))


@public(shape=unchecked, rows=unchecked, stream=unchecked)
def generated(format: str, shape: tuple[int, int], seed: int, stream: str | int, rows: Any = None) -> np.ndarray:
    """An operand of recorded products, [rows, columns], from its seed: the same on every machine.

    `stream` is "a" ([M, K]), "b" ([N, K]), "c" or "bias", or the number of another stream of the seed; `rows` selects
    rows of a larger operand.
    """
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise refuse("shape", shown(shape), "(rows, columns)")
    if rows is not None and (not isinstance(rows, Iterable) or np.ndim(cast(Any, rows)) == 0):
        raise refuse("rows", shown(rows), "numbers of rows")
    streams = ("a", "b", "c", "bias")
    if isinstance(stream, str) and stream not in streams:
        raise refuse("stream", shown(stream), ", ".join(streams) + ", or the number of a stream")
    number = streams.index(stream) if isinstance(stream, str) else count_of(stream, "stream")
    shape = (count_of(shape[0], "rows"), count_of(shape[1], "columns"))
    picked = list(range(shape[0])) if rows is None else [count_of(row, "rows") for row in rows]
    d = np.empty((len(picked), shape[1]), dtype_of(format))
    _core.generated(format, picked, shape[1], seed, number, d.view(f"u{d.dtype.itemsize}"))
    return d


class ProductFault(NamedTuple):
    """What a wrong program reads."""

    id: str
    what: str
    fix: str


class ProductFinding(NamedTuple):
    """A fault that explains wrong outputs of a product."""

    fault: ProductFault
    wrong_explained: int
    right_broken: int
    explains_all: bool


class ProductDiagnosis:
    """The mistake that explains the wrong D of a product. `str` shows it."""

    def __init__(self, found: dict[str, Any]):
        report = found["report"]
        self.plan: Plan = found["plan"]
        """The plan of the findings."""
        self.outputs: int = report["outputs"]
        self.wrong: int = report["wrong"]
        self.tried: int = report["tried"]
        self.findings = [
            ProductFinding(
                ProductFault(row["id"], row["what"], row["fix"]),
                row["wrong_explained"],
                row["right_broken"],
                row["explains_all"],
            )
            for row in report["findings"]
        ]
        """Best first; if one explains every bit, only such."""
        self.factor: dict[str, Any] | None = report["factor"]
        """{"of": "product", "rows" or "cols", "factors", "scale_from"}: D is the right one times constants."""
        self._text: str = found["text"]

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _operands_of_product(function: str, a: Any, b: Any, operands: dict[str, Any]) -> dict[str, Any]:
    known = ("c", "bias", "scale_a", "scale_b", "sfa", "sfb", "rows", "cols", "whole")
    if unknown := set(operands) - set(known):
        wrong = sorted(unknown)[0]
        raise no_such_argument(wrong, f"bitmma.{function}", known, near(wrong, known))
    return operands_of(a, b, **operands)


@public
def diagnose_product(
    a: Any,
    b: Any,
    d: Any,
    plan: Any = None,
    *,
    kernel: str | None = None,
    target: Target | None = None,
    split_k: int = 0,
    threads: int = 1,
    **operands: Any,
) -> ProductDiagnosis:
    """The mistake of a program that explains its wrong D of a whole product.

    `a`, `b`, `plan` and the other operands are those of gemm, `d` is the program's result. Without `plan` and `kernel`
    the plans that libraries usually have are tried. If no fault explains every bit, `.factor` tells whether D is the
    right one times a constant for the product, each row or each column.

    >>> a = np.ones((8, 64), np.float16); b = np.arange(64 * 8).reshape(64, 8).astype(np.float16)
    >>> diagnose_product(a, b, faulty_product(a, b, "b.column.+1")).findings[0].fault.what
    'b: that of column c + 1'
    """
    call = GemmCall(
        _operands_of_product("diagnose_product", a, b, operands), plan, kernel, target=target, split_k=split_k
    )
    return ProductDiagnosis(_core.diagnose_product(call, matrix(d, "d"), threads))


@overload
def faulty_product(a: NumPyMatrix, b: Operand, fault: str, plan: PlanLike = ..., **options: Any) -> np.ndarray: ...
@overload
def faulty_product(a: Tensor, b: Operand, fault: str, plan: PlanLike = ..., **options: Any) -> Tensor: ...
@public
def faulty_product(
    a: Any,
    b: Any,
    fault: str,
    plan: Any = None,
    *,
    kernel: str | None = None,
    target: Target | None = None,
    out_dtype: Any = None,
    split_k: int = 0,
    threads: int = 1,
    **operands: Any,
) -> Any:
    """D of a program with a fault of `product_faults(a, b, ...)`; the other arguments are those of gemm."""
    call = GemmCall(_operands_of_product("faulty_product", a, b, operands), plan, kernel, out_dtype, target, split_k)
    chosen = call.only_plan()
    codes: Any = _core.faulty_product(chosen, call.operands, text(fault, "fault"), threads)
    return like((a, b, *operands.values()), codes.view(dtype_of(chosen.output)))


@public
def product_faults(a: Any, b: Any, **operands: Any) -> list[ProductFault]:
    """The faults that a product with these operands can have; the operands are those of gemm."""
    rows: Any = _core.product_faults(_operands_of_product("product_faults", a, b, operands))
    return [ProductFault(*row) for row in rows]
