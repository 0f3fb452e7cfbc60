# SPDX-License-Identifier: MIT
"""Whole products with the bits of a library, and the plans that reproduce recorded products."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any, NamedTuple, cast, overload

import numpy as np

from . import _core, _notebook
from ._arguments import public, unchecked
from ._arrays import Codes, Tiled, _is_torch, dtype_of, format_named, format_of, like, matrix, to_numpy
from ._core import Plan
from ._errors import (
    count_of,
    flag_of,
    near,
    no_such_argument,
    number_of,
    refuse,
    shown,
    text_of,
    threads_of,
    violations_of,
)


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
        CatalogueEntry(**{**row, "types": [PlanTypes(*one) for one in row["types"]]}) for row in _core.catalogue()
    )


@public
def catalogue() -> list[CatalogueEntry]:
    """All named plans."""
    return list(_catalogue())


def _place(value: Any, name: str) -> list[int]:
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


def _operands(a: Any, b: Any, **others: Any) -> dict[str, Any]:
    operands: dict[str, Any] = {"a": matrix(a, "a", is_input=True), "b": matrix(b, "b", is_input=True)}
    for name, value in others.items():
        if value is None:
            continue
        if name in ("rows", "cols", "whole"):
            operands[name] = _place(value, name)
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


def _resolved(
    which: Any,
    kernel: str | None,
    operands: dict[str, Any],
    output: Any,
    target: str | None,
    split_k: int,
    alpha: float,
    beta: float,
    relu: bool,
) -> list[Plan]:
    """The plans that the arguments select; several if the number of slices is unknown."""
    if which is not None and not isinstance(which, (str, dict, Plan)):
        raise refuse("plan", type(which).__name__, "a Plan, a dictionary, JSON or a name of bitmma.catalogue()")
    if beta != 1 and operands.get("c") is None:
        raise refuse("beta", beta, "1 without c")
    if isinstance(output, str) and output == "tf32":
        raise refuse("output", "tf32", "f32, f16, bf16, e4m3, e5m2, f64 or s32: tf32 is a type of A and B")
    try:
        text = json.dumps(which) if isinstance(which, dict) else None if isinstance(which, Plan) else which
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse("plan", "a dictionary", "a value that JSON can represent", str(error)) from None
    if isinstance(text_of(text, "plan", "nvjet-algo2"), str) and not text:
        raise refuse("plan", "''", "a name of bitmma.catalogue(), or none")
    return list(
        _core.plans_for(
            text,
            text_of(kernel, "kernel", "nvjet_sm90_..."),
            which if isinstance(which, Plan) else None,
            operands,
            None if output is None else format_named(output),
            text_of(target, "target", "sm_90a"),
            split_k,
            alpha,
            beta,
            relu,
        )
    )


def _one_plan(plans: list[Plan]) -> Plan:
    if len(plans) == 1:
        return plans[0]
    raise refuse(
        "split_k",
        "(missing)",
        "given: the name does not determine the number of slices",
        "if a D was recorded, bitmma.find_plans(a, b, d) finds the number",
    )


def _batched(operands: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, ...]]:
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


@public(rows=unchecked, cols=unchecked, out=unchecked, return_plan=flag_of)
def gemm(
    a: Any,
    b: Any,
    plan: str | dict[str, Any] | Plan | None = None,
    *,
    c: Any = None,
    bias: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    sfa: Any = None,
    sfb: Any = None,
    target: str | None = None,
    output: Any = None,
    dtype: Any = None,
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
    output        the type of D for plans by name: "f32" (the default; "f64" for float64), "bf16", "f16" ...; plans and
                  kernels have their own. `dtype` is an alias
    out           an array for D, of its shape and type; nothing is copied if it is contiguous and no operand overlaps
                  it
    split_k       the number of slices, if a named plan leaves it open
    rows, cols    the indices of these rows and columns in a product of `whole` = (M, N), for plans with regions
    return_plan   True: returns (D, plan); `plan.target` and `plan.evidence` name the GPU whose bits these are

    Returns D, [M, N], of the plan's output type; a torch tensor if A is one. Leading axes of `a`, `b`, c, bias and
    scales are a batch. K = 0 gives beta C, or zeros. `threads` (0: all cores) changes no bit; the GIL is released
    during the computation. Raises Error with all problems, including arguments that the plan does not read.

    >>> a = np.ones((4, 64), np.float16); b = np.ones((64, 8), np.float16)
    >>> gemm(a, b, "flat", output="f16")[0, 0]
    np.float16(64.0)
    """
    threads, split_k = threads_of(threads), count_of(split_k, "split_k")
    if dtype is not None:
        if output is not None:
            raise refuse("dtype", "given together with output", "one of the two")
        output = dtype
    operands, batch = _batched(
        _operands(
            a, b, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b, sfa=sfa, sfb=sfb, rows=rows, cols=cols, whole=whole
        )
    )
    one = _one_plan(_resolved(plan, kernel, operands, output, target, split_k, alpha, beta, relu))
    if operands["a"][0] == operands["b"][0] == "e2m1":
        for warning in violations_of(_core.warnings_of_plan(one, "e2m1", "e2m1")):
            warnings.warn(str(warning), stacklevel=3)
    shape = (*batch, operands["a"][1].shape[-2], operands["b"][1].shape[-1])
    d_type = dtype_of(one.output)
    if out is None:
        d = np.empty(shape, d_type)
    else:
        d = _array_for_d(out, shape, d_type, operands)
    if 0 not in shape:
        raw = d if d.dtype.kind != "V" and d.dtype.isbuiltin == 1 else d.view(f"u{d.dtype.itemsize}")
        _core.gemm_into(one, operands, raw, threads)
    if out is not None and d is not out:
        out[...] = d
        d = out
    found = like(a, d) if _is_torch(a) and out is None else d
    return (found, one) if return_plan else found


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


@public
def explain_product(
    a: Any,
    b: Any,
    plan: Any = None,
    row: int = 0,
    col: int = 0,
    *,
    kernel: str | None = None,
    target: str | None = None,
    output: Any = None,
    split_k: int = 0,
    alpha: float = 1.0,
    beta: float = 1.0,
    relu: bool = False,
    **operands: Any,
) -> ProductTrace:
    """Output (row, col) of a product step by step: the accumulator before and after each step, the loss of each, and
    the error over K. Takes the arguments of gemm."""
    known = ("c", "bias", "scale_a", "scale_b", "sfa", "sfb", "rows", "cols", "whole")
    if unknown := set(operands) - set(known):
        wrong = sorted(unknown)[0]
        raise no_such_argument(wrong, "bitmma.explain_product", known, near(wrong, known))
    given = _operands(a, b, **operands)
    one = _one_plan(_resolved(plan, kernel, given, output, target, count_of(split_k, "split_k"), alpha, beta, relu))
    return ProductTrace(*_core.trace_product(one, given, count_of(row, "row"), count_of(col, "col")))


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

    def __init__(self, found: dict[str, Any], nearest: bool):
        report = found["report"]
        self.nearest: list[Plan] = found["nearest"]
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
        self._text: str = found["text"]
        self._plans: list[Plan] = found["plans"] or (self.nearest if nearest else [])

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
        found = f"{len(self._plans)} plans" if self._plans and not self._plans[0].differing else "no plan"
        return f"<PlanSearch: {found} of {self.tried} tried, {len(self.families)} families, {self.ended}>"

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
    target: str | None = None,
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
    operands = _operands(
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
        for name, given, default in (("alpha", alpha, 1.0), ("beta", beta, 1.0), ("target", target, None)):
            if given != default:
                raise refuse(name, "beside among", "omitted: the plans name it themselves")
    if progress is not None and not callable(progress):
        raise refuse("progress", type(progress).__name__, "a function with the parameters (tried, of)")
    if timeout is not None and not timeout > 0:
        raise refuse("timeout", timeout, "a number of seconds above 0")
    found = PlanSearch(
        _core.find_plans(
            operands,
            recorded,
            text_of(target, "target", "sm_90a"),
            text_of(kernel, "kernel", "nvjet_sm90_..."),
            alpha,
            beta,
            count_of(max_nearest, "max_nearest"),
            None if among is None else list(among),
            timeout or 0.0,
            0 if max_plans is None else count_of(max_plans, "max_plans", 1),
            progress,
            threads_of(threads),
        ),
        nearest,
    )
    if not any(one.differing == 0 for one in found):
        _hint_narrow(recorded)
    return found


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
    return Accuracy(**_core.accuracy(_operands(a, b), matrix(d, "d"), threads_of(threads)))


@public(shape=unchecked, rows=unchecked)
def generated(format: str, shape: tuple[int, int], seed: int, stream: str, rows: Any = None) -> np.ndarray:
    """An operand of recorded products, [rows, columns], from its seed: the same on every machine.

    `stream` is "a" ([M, K]), "b" ([N, K]), "c" or "bias"; `rows` selects rows of a larger operand.
    """
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise refuse("shape", shown(shape), "(rows, columns)")
    if rows is not None and (not isinstance(rows, Iterable) or np.ndim(cast(Any, rows)) == 0):
        raise refuse("rows", shown(rows), "numbers of rows")
    streams = ("a", "b", "c", "bias")
    if stream not in streams:
        raise refuse("stream", shown(stream), ", ".join(streams))
    shape = (count_of(shape[0], "rows"), count_of(shape[1], "columns"))
    picked = list(range(shape[0])) if rows is None else [count_of(row, "rows") for row in rows]
    d = np.empty((len(picked), shape[1]), dtype_of(format))
    _core.generated(format, picked, shape[1], seed, streams.index(stream), d.view(f"u{d.dtype.itemsize}"))
    return d
