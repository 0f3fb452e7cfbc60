# SPDX-License-Identifier: MIT
"""More than one machine: products, verification and campaigns over Dask.

    import dask.array as da, bitmma.distributed as bd
    d = bd.gemm(a, b, "nvjet-algo2", out_dtype="bf16")  a, b and d are dask arrays; d.compute() has bitmma.gemm's bits
    report = bd.verify("vectors", client=client)        every vector file below a folder
    report = bd.campaign(instructions, check=bd.by_case(mine), seed=7, units=1000, done=bd.Journal("night.jsonl"))

Every task is a pure function of its arguments: if a worker dies, Dask repeats its tasks on another, with the same bits.
Without a client, dask's own scheduler runs everything on this machine. Each task uses one thread, so start a worker
with as many threads as it has cores. Workers need the same bitmma as the client, and the same files under the same
paths.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import tempfile
import time
import uuid
from collections import UserDict
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

try:
    import dask
    import dask.array as da
    import distributed
    from distributed.protocol.numpy import serialize_numpy_ndarray
    from distributed.protocol.serialize import dask_serialize
except ImportError as missing:
    raise ImportError("bitmma.distributed needs Dask: pip install 'bitmma[distributed]'") from missing

from ._arguments import public, target_of, unchecked
from ._arrays import Codes, dtype_of, to_numpy
from ._case import Case
from ._core import Instruction, Plan
from ._errors import Error, Violation, refuse, shown
from ._gemm import gemm as _gemm
from ._gemm_call import GemmCall, operands_of, place_of
from ._mma import _parsed, mma as _mma
from ._vectors import Comparison, VectorFile, _read, compare, files_in, golden, verify as _verify, write

__all__ = ["Journal", "Report", "by_case", "campaign", "distributions", "gemm", "gpu", "gpu_campaign", "mma", "verify"]


def __dir__() -> list[str]:
    return sorted(__all__)


_e5m2 = np.dtype(ml_dtypes.float8_e5m2)


# Dask sends a dtype by its name, which for float8_e5m2 ("<f1") NumPy does not know; a pickled dtype is fine, and any
# receiver takes it. Known with distributed 2026.8; ml_dtypes' other types have kind V, which Dask pickles itself.
@dask_serialize.register(np.ndarray)
def _serialize(array: np.ndarray, context: Any = None) -> Any:
    if array.dtype != _e5m2:
        return serialize_numpy_ndarray(array, context=context)
    header, frames = serialize_numpy_ndarray(array.view(np.uint8), context=context)
    return {**header, "dtype": (1, pickle.dumps(_e5m2))}, frames


def _violation(field: str, seen: object, legal: str, fix: str = "") -> Violation:
    return refuse(field, seen, legal, fix).violations[0]


def _dask_array(value: Any, name: str, chunks: Any) -> tuple[da.Array, str | None]:
    """The operand as a dask array, and its format if it has raw codes. `chunks` is used for operands
    that are not dask arrays."""
    format = None
    if isinstance(value, Codes):
        value, format = value
    if isinstance(value, da.Array):
        if any(math.isnan(extent) for extent in value.shape):
            raise refuse(name, f"shape {value.shape}", "an array whose shape is known", f"{name}.compute_chunk_sizes()")
        return value, format
    array = np.asarray(np.float32(value)) if isinstance(value, (int, float)) else to_numpy(value, name)
    whole = (-1,) * (array.ndim - len(chunks))
    return da.from_array(array, chunks=(*chunks, *whole)[: array.ndim]), format


# ---- Products


class _Operand(NamedTuple):
    """The input of a task: a dask array, with a letter in `axes` per axis: i and j follow D's chunks, others are
    whole."""

    array: da.Array
    format: str | None
    axes: str

    def like(self, extents: Mapping[str, int]) -> Any:
        """Zeros of the same kind, with other extents."""
        shape = [extents.get(axis, extent) for axis, extent in zip(self.axes, self.array.shape, strict=True)]
        zeros = np.zeros(shape, self.array.dtype)
        return zeros if self.format is None else Codes(zeros, self.format)


def _block(value: np.ndarray, format: str | None) -> Any:
    return value if format is None else Codes(value, format)


def _gemm_block(
    *blocks: np.ndarray,
    names: tuple[str, ...],
    formats: tuple[str | None, ...],
    plan: str,
    whole: tuple[int, int] | None,
) -> np.ndarray:
    """One task: a block of D."""
    operands = {name: _block(block, format) for name, block, format in zip(names, blocks, formats, strict=True)}
    return _gemm(operands.pop("a"), operands.pop("b"), Plan(plan), whole=whole, threads=1, **operands)


@public(rows=unchecked, cols=unchecked, renamed={"output": "out_dtype"})
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
    out_dtype: Any = None,
    kernel: str | None = None,
    split_k: int = 0,
    alpha: float = 1.0,
    beta: float = 1.0,
    relu: bool = False,
    rows: Any = None,
    cols: Any = None,
    whole: tuple[int, int] | None = None,
    chunks: int | tuple[int, int] | None = None,
) -> da.Array:
    """bitmma.gemm of dask arrays: D [M, N] as a dask array, every block of rows and columns a task.

    a             [M, K] and b [K, N], dask arrays or what bitmma.gemm takes. Raw codes are bitmma.Codes(array, "e2m1")
    chunks        rows and columns of D in a task. None: the row chunks of `a` and the column chunks of `b`, or 512
                  if an operand is not a dask array
    others        as in bitmma.gemm; c [M, N], bias [N], scales and block scales may be dask arrays too, with any chunks

    K is never cut, because the plan defines the order of the sum along K, including split-K. So a task reads whole rows
    of A and whole columns of B, and chunks along K are joined first. The client resolves the plan once, and every block
    uses it; if the plan depends on rows and columns, each task knows its own. NumPy arrays become part of the graph;
    create large arrays on the workers instead, with da.from_array of a file or da.map_blocks.

    Raises Error with all problems of types, shapes and the plan before any task runs.

    >>> a = da.ones((96, 64), dtype=np.float16, chunks=(32, 16)); b = da.ones((64, 8), dtype=np.float16, chunks=(64, 4))
    >>> d = gemm(a, b, out_dtype="bf16")
    >>> d.chunks, d.dtype
    (((32, 32, 32), (4, 4)), dtype(bfloat16))
    >>> float(d.compute()[0, 0])
    64.0
    """
    size = (chunks, chunks) if isinstance(chunks, int) else chunks
    of_d = size or (512, 512)
    by_name = {"a": a, "b": b, "c": c, "bias": bias, "scale_a": scale_a, "scale_b": scale_b, "sfa": sfa, "sfb": sfb}
    arrays = {
        name: _dask_array(value, name, {"a": of_d[:1], "b": (-1, of_d[1])}.get(name, ()))
        for name, value in by_name.items()
        if value is not None
    }
    for name in ("bias", "scale_a", "scale_b"):  # one number, or a vector
        if name in arrays and arrays[name][0].ndim < 2:
            arrays[name] = (arrays[name][0].reshape(1, -1), arrays[name][1])
    wrong = [
        _violation(
            name,
            f"shape {array.shape}",
            "two axes",
            "for a batch, use da.stack of its products" if array.ndim > 2 else "",
        )
        for name, (array, _) in arrays.items()
        if array.ndim != 2
    ]
    if size is not None and (len(size) != 2 or min(size) < 1):
        wrong.append(_violation("chunks", chunks, "two numbers of 1 or more: rows and columns"))
    if wrong:
        raise Error(wrong)
    (m, k), n = arrays["a"][0].shape, arrays["b"][0].shape[1]
    extents = (0, 0) if whole is None else place_of(whole, "whole")
    whole_m, whole_n = max(m, extents[0]), max(n, extents[1])
    blocks_of_n = -(-whole_n // 128)

    # Letters of axes, by shape: i and j go with D, a scale for all rows or columns goes to every task.
    def axes(name: str, row: Mapping[int, str], col: Mapping[int, str], legal: str) -> None:
        array, format = arrays[name]
        letters = [known.get(extent, known.get(-1)) for known, extent in zip((row, col), array.shape, strict=True)]
        if None in letters:
            wrong.append(_violation(name, f"shape {array.shape}", legal))
        else:
            operands[name] = _Operand(array, format, "".join(map(str, letters)))

    operands: dict[str, _Operand] = {}
    any_extent = {-1: "x"}
    axes("a", {m: "i"}, {k: "x"}, "")
    axes("b", {k: "x"}, {n: "j"}, f"({k}, {n}): as many rows as A has columns")
    shapes: dict[str, tuple[Mapping[int, str], Mapping[int, str], str]] = {
        "c": ({m: "i"}, {n: "j"}, f"({m}, {n}), as D"),
        "bias": ({1: "x"}, {n: "j"}, f"({n},), the columns of D"),
        "scale_a": ({1: "x", m: "i"}, any_extent, f"1 or {m} rows"),
        "scale_b": (any_extent, {blocks_of_n: "y", 1: "y", n: "j"}, f"1, {n} or {blocks_of_n} columns"),
        "sfa": ({m: "i"}, any_extent, f"{m} rows"),
        "sfb": (any_extent, {n: "j"}, f"{n} columns"),
    }
    for name, how in shapes.items():
        if name in arrays:
            axes(name, *how)
    places = {
        name: range(extent) if of is None else place_of(of, name)
        for name, of, extent in (("rows", rows, m), ("cols", cols, n))
    }
    for name, extent in (("rows", m), ("cols", n)):
        if len(places[name]) != extent:
            wrong.append(_violation(name, f"{len(places[name])} numbers", f"{extent}"))
    if wrong:
        raise Error(wrong)

    call = GemmCall({}, plan, kernel, out_dtype, target, split_k, alpha, beta, relu)
    chosen, asks_where = _resolved_plan(call, operands, places, (whole_m, whole_n), (m, n))
    of_i = _chunks(size[0] if size else operands["a"].array.chunks[0], m)
    of_j = _chunks(size[1] if size else operands["b"].array.chunks[1], n)
    if asks_where:
        for name, axis in (("rows", "i"), ("cols", "j")):
            operands[name] = _Operand(da.from_array(np.array(places[name], np.int64), chunks=-1), None, axis)
    by_letter = {"i": of_i, "j": of_j}
    arguments: list[Any] = []
    for name, operand in operands.items():
        cut = {axis: by_letter.get(letter, -1) for axis, letter in enumerate(operand.axes)}
        # Letters of whole axes differ from operand to operand: nothing relates them but the plan.
        letters = tuple(letter if letter in by_letter else f"{name}{axis}" for axis, letter in enumerate(operand.axes))
        arguments += [operand.array.rechunk(cut), letters]
    return da.blockwise(
        _gemm_block,
        "ij",
        *arguments,
        names=tuple(operands),
        formats=tuple(operand.format for operand in operands.values()),
        plan=chosen.json,
        whole=(whole_m, whole_n) if asks_where else None,
        concatenate=True,
        align_arrays=False,
        dtype=dtype_of(chosen.output),
        meta=np.empty((0, 0), dtype_of(chosen.output)),
        token="bitmma-gemm",
    )


def _chunks(of: int | tuple[int, ...], extent: int) -> tuple[int, ...]:
    return da.core.normalize_chunks(of, (extent,))[0] if isinstance(of, int) else of


def _resolved_plan(
    call: GemmCall,
    operands: dict[str, _Operand],
    places: Mapping[str, Sequence[int]],
    whole: tuple[int, int],
    d: tuple[int, int],
) -> tuple[Plan, bool]:
    """The plan of all blocks of `call`, which has no operands yet, and whether it depends on a block's rows and
    columns. Computes a product of zeros with at most two rows and columns, to raise all errors now."""
    small = {"i": min(d[0], 2), "j": min(d[1], 2)}
    zeros = {name: operand.like(small) for name, operand in operands.items()}
    where: dict[str, Any] = {"rows": places["rows"][:2], "cols": places["cols"][:2], "whole": whole}
    fields = json.loads(replace(call, operands=operands_of(**zeros, **where)).only_plan().json)
    asks_where = bool(fields.get("regions"))
    promotion = fields.get("promotion", {})
    scale_b = operands.get("scale_b")
    if promotion.get("scale", "none") != "none" and scale_b is not None and scale_b.array.shape[1] > 1:
        # Scales per column or per 128 columns: the shape of a whole product shows which, for a block the plan must.
        columns, blocks_of_n, scale_block = scale_b.array.shape[1], -(-whole[1] // 128), promotion.get("sb")
        if scale_block is None:
            if columns == d[1] == blocks_of_n:
                raise refuse(
                    "promotion.sb", "(missing)", "[1, 128] or [128, 128]: scale_b could be of columns or of blocks"
                )
            promotion["sb"] = [1 if columns == d[1] else 128, 128]
        elif columns != (legal := blocks_of_n if scale_block[0] == 128 else d[1]):
            raise refuse(
                "scale_b",
                f"shape {scale_b.array.shape}",
                f"{legal} columns, or 1 for all: the plan has promotion.sb = {scale_block}",
            )
        if promotion["sb"][0] == 128:
            asks_where = True
            # Every task gets the whole axis, also if it is as long as D's.
            operands["scale_b"] = scale_b._replace(axes=scale_b.axes[0] + "y")
            zeros["scale_b"] = operands["scale_b"].like(small)
    plan = Plan(json.dumps(fields))
    try:
        _gemm(zeros.pop("a"), zeros.pop("b"), plan, **zeros, **(where if asks_where else {}))
    except Error as error:
        if small == {"i": d[0], "j": d[1]}:
            raise
        raise _named(f"of {small['i']} x {small['j']} outputs", error) from None
    return plan, asks_where


# ---- One instruction


def _spelled(of: str | Instruction) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Text and immediates: they can be pickled, an Instruction cannot."""
    if isinstance(of, str):
        return of, ()
    return str(of), tuple(sorted(of.immediates.items()))


def _instruction_of(text: str, immediates: Iterable[tuple[str, int]]) -> Instruction:
    instruction = _parsed(text)
    for name, value in immediates:
        instruction = instruction.with_immediate(name, value)
    return instruction


def _mma_block(
    *blocks: np.ndarray,
    names: tuple[str, ...],
    formats: tuple[str | None, ...],
    instruction: str,
    immediates: tuple[tuple[str, int], ...],
    target: str | None,
) -> np.ndarray:
    """One task: some products of a batch."""
    operands = {name: _block(block, format) for name, block, format in zip(names, blocks, formats, strict=True)}
    parsed: str | Instruction = _instruction_of(instruction, immediates) if immediates else instruction
    return _mma(parsed, operands.pop("a"), operands.pop("b"), target=target, threads=1, **operands)


def mma(
    instruction: str | Instruction,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    target: str | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    metadata: Any = None,
    chunks: int = 4096,
) -> da.Array:
    """bitmma.mma of a batch in dask arrays: D [..., M, N] as a dask array, every chunk of the batch a task.

    a             [..., M, K], b [..., K, N], c [..., M, N] and the others as in bitmma.mma, as dask or other arrays.
                  Leading axes are the batch. They broadcast, and tasks follow their chunks; matrices are never cut
    chunks        products in a task along the first axis of the batch, for arrays that are not dask arrays

    Raises Error for types and shapes before any task runs. A task raises Error for wrong values, such as a sparse A
    with too many nonzero elements.

    >>> a = da.ones((100, 16, 16), dtype=np.float16, chunks=(40, 16, 16)); b = np.ones((16, 8), np.float16)
    >>> d = mma("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b)
    >>> d.shape, d.chunks[0]
    ((100, 16, 8), (40, 40, 20))
    """
    target = None if target is None else target_of(target)
    text, immediates = _spelled(instruction)
    products = _parsed(text).products
    tail = 3 if products > 1 else 2
    operands = {"a": a, "b": b, "c": c, "scale_a": scale_a, "scale_b": scale_b, "metadata": metadata}
    arrays: dict[str, tuple[da.Array, str | None]] = {}
    wrong = []
    for name, value in operands.items():
        if value is None:
            continue
        array, format = _dask_array(value, name, (chunks,) if np.ndim(getattr(value, "array", value)) > tail else ())
        if array.ndim < tail:
            wrong.append(_violation(name, f"shape {array.shape}", f"{tail} axes, or a batch before them"))
        arrays[name] = (array.rechunk({array.ndim - 1 - axis: -1 for axis in range(min(tail, array.ndim))}), format)
    if wrong:
        raise Error(wrong)
    batches = [array.shape[:-tail] for array, _ in arrays.values()]
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError:
        raise refuse(
            "batch axes", " and ".join(str(shape) for shape in batches if shape), "shapes that broadcast"
        ) from None
    if 0 in batch:
        raise refuse("batch axes", batch, "a batch of at least one product")
    names, formats = tuple(arrays), tuple(format for _, format in arrays.values())
    task: dict[str, Any] = dict(names=names, formats=formats, instruction=text, immediates=immediates, target=target)
    block = _mma_block(*(np.zeros(array.shape[-tail:], array.dtype) for array, _ in arrays.values()), **task)
    of_matrix = {"a": ("p", "m", "xa"), "b": ("p", "xb", "n")}
    arguments: list[Any] = []
    for name, (array, _) in arrays.items():
        own = of_matrix.get(name, ("p", f"y{name}", f"z{name}"))[-tail:]
        arguments += [array, (*(f"batch{axis}" for axis in reversed(range(array.ndim - tail))), *own)]
    out = (*(f"batch{axis}" for axis in reversed(range(len(batch)))), *("p", "m", "n")[-tail:])
    return da.blockwise(
        _mma_block,
        out,
        *arguments,
        **task,
        concatenate=True,
        dtype=block.dtype,
        meta=np.empty((0,) * len(out), block.dtype),
        token="bitmma-mma",
    )


# ---- Units of work

_counts = ("cases", "outputs", "mismatches", "cases_with_mismatches")


def _checked_result(unit: object, result: object) -> dict[str, Any]:
    """The result of a unit, with the fields that reports add up."""
    if not isinstance(unit, str):
        raise refuse("unit", shown(unit), "a string")
    if not isinstance(result, dict):
        raise refuse(unit, shown(result), "a dictionary, as in Report.units")
    wrong = [
        _violation(f"{unit}: {name}", shown(result.get(name, "(missing)")), "a whole number, 0 or more")
        for name in _counts
        if type(result.get(name)) is not int or result[name] < 0
    ]
    for name in ("first", "group"):
        if not isinstance(result.get(name), (str, type(None))):
            wrong.append(_violation(f"{unit}: {name}", shown(result[name]), "a string or None"))
    if wrong:
        raise Error(wrong)
    return result


class Journal(UserDict[str, dict[str, Any]]):
    """Results of finished units that outlive the process: a dictionary, and a file with one line of JSON per unit.

    A campaign that gets the journal of a stopped one runs only the missing units. If the process ended while it wrote
    the last line, that line is ignored, and the next result replaces it. Any other file that is not a journal raises
    Error and is left as it is. Only one process at a time may write.
    """

    def __init__(self, path: str | os.PathLike[str]):
        super().__init__()
        self.path = pathlib.Path(path)
        self._torn_at: int | None = None
        """Where an incomplete last line begins."""
        if not self.path.exists():
            return
        try:
            whole = self.path.read_bytes()
        except OSError as error:
            raise Error(f"{self.path}: {error.strerror}") from None
        lines = whole[: whole.rfind(b"\n") + 1]
        for number, line in enumerate(lines.split(b"\n")[:-1], 1):
            row = _json_of(line)
            if not (isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], dict)):
                raise refuse(f"{self.path}: line {number}", repr(line[:60]), "[unit, result] in JSON, as in a journal")
            try:
                self.data[row[0]] = _checked_result(*row)
            except Error as error:
                raise _named(f"{self.path}: line {number}", error) from None
        torn = whole[len(lines) :]
        if torn:
            # Only a line that this class began may be lost: it follows other units, and it is no whole JSON.
            if not self.data or not torn.startswith(b'["'[: len(torn)]) or _json_of(torn) is not None:
                raise refuse(
                    str(self.path),
                    repr(torn[:60]),
                    "a journal of units, or a new file",
                    "if it is a journal, end its last line, or remove the line",
                )
            self._torn_at = len(lines)

    def __setitem__(self, unit: str, result: dict[str, Any]) -> None:
        _checked_result(unit, result)
        try:
            line = json.dumps([unit, result])
        except (TypeError, ValueError, RecursionError) as error:
            raise refuse(unit, shown(result), "values that JSON supports", str(error)) from None
        if json.dumps(_json_of(line.encode())) != line:
            raise refuse(unit, shown(result), "values that JSON can read again: no deep nesting, keys that are strings")
        with open(self.path, "ab") as file:
            if self._torn_at is not None:
                file.truncate(self._torn_at)
                self._torn_at = None
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        super().__setitem__(unit, result)


def _json_of(text: bytes) -> Any:
    """None if it is no JSON, or nested too deep to read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class Report(NamedTuple):
    """The result of a verification or a campaign. It does not depend on which worker computed what, or on the order."""

    total: Comparison
    """The total; `first` is the first mismatch of the first unit that has one."""
    table: dict[str, Comparison]
    """The totals by file or by instruction, in the order of the request."""
    units: dict[str, dict[str, Any]]
    """The results by unit, in order, as JSON values. Pass them as `done` to another call to skip these units."""


Progress = Callable[[int, int, str, dict[str, Any]], None]


class _Unit(NamedTuple):
    key: str
    group: str | None  # the row of the table; None: the result's "group"
    arguments: tuple[Any, ...]


_at_once = 1000  # tasks that the scheduler knows at a time
_seconds_of_task, _most_in_task = 0.2, 64  # of short units together: a task costs the scheduler about a millisecond


def _some(
    units: list[_Unit], task: Callable[..., dict[str, Any]]
) -> tuple[list[tuple[str, dict[str, Any]]], float, Exception | None]:
    """One task: the results of units, their seconds, and the error of the last one, if it has no result."""
    began = time.perf_counter()
    results = []
    for unit in units:
        try:
            results.append((unit.key, task(unit.key, *unit.arguments)))
        except Exception as error:  # noqa: BLE001 - the caller raises it, after what was done before it
            return results, time.perf_counter() - began, error
    return results, time.perf_counter() - began, None


def _finished(
    units: list[_Unit], task: Callable[..., dict[str, Any]], client: Any, resources: Mapping[str, float] | None
) -> Generator[tuple[str, dict[str, Any]], None, None]:
    """Yields units with their results as they finish."""
    left = iter(units)
    if client is None:
        try:
            client = distributed.default_client()
        except ValueError:
            while some := list(itertools.islice(left, _at_once)):
                delayed = dask.delayed(task, pure=False, traverse=False)
                results = dask.compute(*(delayed(unit.key, *unit.arguments) for unit in some))
                yield from zip((unit.key for unit in some), results, strict=True)
            return
    running: set[Any] = set()
    unsent = len(units)
    in_task = 1  # units

    # Keys are new each time: a file may have changed since Dask last saw its name.
    def submitted(tasks: int) -> list[Any]:
        nonlocal unsent
        futures: list[Any] = []
        while len(futures) < tasks and (some := list(itertools.islice(left, min(in_task, 1 + unsent // 128)))):
            unsent -= len(some)
            futures.append(
                client.submit(
                    _some,
                    some,
                    task,
                    key=f"{task.__name__.strip('_')}-{uuid.uuid4().hex}",
                    pure=False,
                    resources=resources,
                )
            )
        running.update(futures)
        return futures

    # With results: asking the scheduler for one result after the other would take longer than short units.
    finished = distributed.as_completed(submitted(64), loop=client.loop, with_results=True)
    try:
        for future, result in finished:
            if isinstance(result, BaseException):  # the task was cancelled
                raise result
            results, seconds, error = result
            yield from results
            if error is not None:
                raise error
            running.discard(future)
            in_task = min(max(1, int(len(results) * _seconds_of_task / max(seconds, 1e-6))), _most_in_task)
            finished.update(submitted(_at_once - len(running)))
    finally:
        if running:  # the one that failed, too: its traceback would keep it for ever
            client.cancel(list(running))


_nothing = Comparison(0, 0, 0, 0, None)


def _report(
    units: list[_Unit],
    task: Callable[..., dict[str, Any]],
    client: Any,
    done: MutableMapping[str, dict[str, Any]] | None,
    progress: Progress | None,
    resources: Mapping[str, float] | None,
) -> Report:
    done = {} if done is None else done
    for unit in units:
        if unit.key in done:
            _checked_result(unit.key, done[unit.key])
    missing = [unit for unit in units if unit.key not in done]
    finished = len(units) - len(missing)
    # Closed at once when anything goes wrong, so that no unit is left running.
    with contextlib.closing(_finished(missing, task, client, resources)) as pairs:
        for key, result in pairs:
            done[key] = _checked_result(key, result)
            finished += 1
            if progress is not None:
                progress(finished, len(units), key, result)
    results = {unit.key: dict(done[unit.key]) for unit in units}
    table: dict[str, Comparison] = {}
    total = _nothing
    for unit in units:
        result = results[unit.key]
        comparison = Comparison(*(result[field] for field in Comparison._fields))
        group = result.get("group") if unit.group is None else unit.group
        if group is None:
            raise refuse(f"{unit.key}: group", "(missing)", "a string")
        table[group] = _sum(table.get(group, _nothing), comparison)
        total = _sum(
            total, comparison._replace(first=None if comparison.first is None else f"{group}: {comparison.first}")
        )
    return Report(total, table, results)


def _sum(first: Comparison, other: Comparison) -> Comparison:
    return Comparison(
        first.cases + other.cases,
        first.outputs + other.outputs,
        first.mismatches + other.mismatches,
        first.cases_with_mismatches + other.cases_with_mismatches,
        other.first if first.first is None else first.first,
    )


def _shifted(first: str | None, by: int) -> str | None:
    """Shifts case numbers of a part, which count from its first case; units do not overlap, so these are below `by`."""
    if first is None:
        return None
    return re.sub(r"^case (\d+)", lambda match: f"case {int(match[1]) + (by if int(match[1]) < by else 0)}", first)


def _named(unit: str, error: Error) -> Error:
    return Error([violation._replace(text=f"{unit}: {violation}") for violation in error.violations])


# ---- Verification


def _paths(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The vector files, including those in folders, as absolute paths; sorted within a folder."""
    files: list[str] = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        whole = os.path.abspath(path)
        if not os.path.isdir(whole):
            files.append(whole)
            continue
        files += files_in(whole)
    if not files:
        raise refuse("paths", "none", "a vector file, a folder or several of them")
    return list(dict.fromkeys(files))


def _verify_unit(unit: str, path: str, first: int, count: int, instruction: str, target: str | None) -> dict[str, Any]:
    try:
        comparison = _verify(_read(path, instruction, target, on_demand=True), first=first, count=count)
    except Error as error:
        raise _named(unit, error) from None
    return comparison._replace(first=_shifted(comparison.first, first))._asdict()


def verify(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    instruction: str = "",
    target: str | None = None,
    cases_per_unit: int = 64,
    client: Any = None,
    done: MutableMapping[str, dict[str, Any]] | None = None,
    progress: Progress | None = None,
    resources: Mapping[str, float] | None = None,
) -> Report:
    """bitmma.verify for vector files and folders of them, with some cases of a file per unit.

    instruction, target   for files that do not name them, as in bitmma.read
    cases_per_unit        cases per unit; short units share a task
    client                a distributed.Client; None: the current one, or only this machine if there is none
    done                  results of units that need not run again: `Report.units` of an earlier call, or a Journal.
                          This call adds its results to it. The files must not have changed
    progress              called with (finished units, all units, unit, its result)
    resources             of workers, as in client.submit

    The client first reads every header. Returns a Report, the same for any cluster: `total`, by file, by unit. If a
    unit raises Error, the call ends and units that have not begun are dropped; finished units are in `done`.
    """
    _require_positive("cases_per_unit", cases_per_unit)
    units = []
    for path in _paths(paths):
        cases = len(_read(path, instruction, target, on_demand=True))
        for first in range(0, cases, cases_per_unit):
            count = min(cases_per_unit, cases - first)
            key = f"{path} cases {first}..{first + count - 1}"
            units.append(_Unit(key, path, (path, first, count, instruction, target)))
    return _report(units, _verify_unit, client, done, progress, resources)


def _require_positive(name: str, value: int, least: int = 1) -> None:
    if value < least:
        raise refuse(name, value, f"a number from {least} on")


# ---- Campaigns

distributions = ("bits", "normal", "wide", "narrow", "cancel", "subnormal", "ties", "special", "integers")
"""The distributions of bitmma.golden; the units of a campaign use them in turn."""

Check = Callable[[VectorFile], "Comparison | Mapping[str, Any]"]


def _campaign_unit(
    unit: str,
    check: Check,
    instruction: str,
    immediates: tuple[tuple[str, int], ...],
    target: str,
    seed: int,
    first: int,
    count: int,
    distribution: str,
) -> dict[str, Any]:
    try:
        parsed = _instruction_of(instruction, immediates)
        file = golden(
            parsed,
            target=target,
            cases=count,
            first_case=first,
            seed=seed,
            distribution=distribution if parsed.is_mma else None,
        )
        checked = check(file)
    except Error as error:
        raise _named(unit, error) from None
    result = dict(
        checked._asdict() if isinstance(checked, Comparison) else checked if isinstance(checked, Mapping) else {}
    )
    if type(result.get("mismatches")) is not int or result["mismatches"] < 0:
        raise refuse(unit, f"check gave {checked!r:.80}", 'a Comparison, or a dictionary with "mismatches"')
    whole = {
        "cases": len(file),
        "outputs": 0,
        "cases_with_mismatches": int(result["mismatches"] > 0),
        "first": None,
        **result,
    }
    if isinstance(checked, Comparison):
        whole["first"] = _shifted(checked.first, first)
    try:
        return json.loads(json.dumps(whole))
    except (TypeError, ValueError) as error:
        raise refuse(
            unit,
            f"check gave {checked!r:.80}",
            "numbers, strings, lists and dictionaries that JSON supports",
            str(error),
        ) from None


def campaign(
    instructions: str | Instruction | Iterable[str | Instruction],
    *,
    check: Check,
    seed: int = 0,
    units: int = 1,
    first_unit: int = 0,
    cases_per_unit: int = 64,
    target: str | None = None,
    distribution: str | Sequence[str] = distributions,
    client: Any = None,
    done: MutableMapping[str, dict[str, Any]] | None = None,
    progress: Progress | None = None,
    resources: Mapping[str, float] | None = None,
) -> Report:
    """Random cases of instructions, generated on the workers from a seed, and compared with another source by `check`.

    instructions     mnemonics, statements or Instructions; each has units first_unit .. first_unit + units - 1
    check            called on a worker with the VectorFile of a unit, including D as bitmma computes it. Returns a
                     Comparison, or a dictionary with "mismatches" and other values that JSON can hold.
                     by_case(function) compares your own implementation with bitmma, gpu() the GPU of the worker
    cases_per_unit   unit u has cases u n .. (u + 1) n - 1 of the seed: those of bitmma.golden(instruction, seed=seed,
                     first_case=u n, cases=n, distribution=...)
    distribution     one, or several that the units use in turn; default: all nine. Moves of Tensor Memory have none
    resources        of workers, as in client.submit: {"GPU": 1} for workers that were started with --resources GPU=1
    others           as in verify

    Returns a Report by instruction and by unit. The name of a unit determines its cases, so a restart with `done` runs
    only the missing units, on the same cases; use the same `check`. If a check raises Error, the campaign ends;
    finished units are in `done`.

    >>> report = campaign("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", check=by_case(Case.computed_d), units=2)
    >>> report.total.cases, report.total.mismatches
    (128, 0)
    """
    _require_positive("cases_per_unit", cases_per_unit)
    _require_positive("units", units)
    _require_positive("first_unit", first_unit, 0)
    drawn = [distribution] if isinstance(distribution, str) else list(distribution)
    if not drawn or not set(drawn) <= set(distributions):
        raise refuse("distribution", ", ".join(map(str, drawn)) or "none", ", ".join(distributions))
    every = []
    for stated in [instructions] if isinstance(instructions, (str, Instruction)) else instructions:
        text, immediates = _spelled(stated)
        parsed = _instruction_of(text, immediates)
        if isinstance(stated, Instruction) and parsed != stated:
            raise refuse(
                "instruction",
                text,
                "an instruction that its text and immediates fully describe",
                "pass a PTX statement with its operands, as text",
            )
        on = parsed.default_target if target is None else target_of(target)
        if wrong := parsed.violations(on):
            raise Error(wrong)
        words = " ".join([text, *(f"{name}={value}" for name, value in immediates)])
        for unit in range(first_unit, first_unit + units):
            how = drawn[unit % len(drawn)]
            first = unit * cases_per_unit
            key = f"{words} on {on} seed {seed} {how} cases {first}..{first + cases_per_unit - 1}"
            arguments = (check, text, immediates, on, seed, first, cases_per_unit, how)
            every.append(_Unit(key, f"{words} on {on}", arguments))
    return _report(list({unit.key: unit for unit in every}.values()), _campaign_unit, client, done, progress, resources)


def _check_by_case(file: VectorFile, compute: Callable[[Case], Any]) -> Comparison:
    total = _nothing
    for index, case in enumerate(file):
        expected = case.recorded_d()
        if expected is None:
            raise refuse(f"case {index}", "no D", "a recorded D to compare with")
        d = to_numpy(compute(case), "D")
        if d.shape != expected.shape or d.dtype.itemsize != expected.dtype.itemsize:
            raise refuse(f"D of case {index}", f"{d.dtype} {d.shape}", f"{expected.dtype} {expected.shape}")
        size = expected.dtype.itemsize
        recorded, computed = (np.ascontiguousarray(matrix).view(f"u{size}") for matrix in (expected, d))
        wrong = np.argwhere(recorded != computed)
        first = None
        if len(wrong):
            row, col = map(int, wrong[0])
            codes = (f"0x{int(words[row, col]):0{2 * size}x}" for words in (recorded, computed))
            first = "case {}, row {}, col {}: expected {}, actual {}".format(index, row, col, *codes)
        total = _sum(total, Comparison(1, expected.size, len(wrong), int(len(wrong) > 0), first))
    return total


def by_case(compute: Callable[[Case], Any]) -> Check:
    """The check for a function that computes D [M, N] of a Case: compares its bits with the recorded ones, including
    NaN payloads and signs of zeros. D may be an array of D's type or raw codes of its width.

    >>> by_case(Case.computed_d)(golden("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", cases=3)).mismatches
    0
    """
    return functools.partial(_check_by_case, compute=compute)


def _run_program(program: str, arguments: list[str], seconds: float) -> str:
    """The output of the command line program. Exit code 1 means that bits differ, which is not an error."""
    path = shutil.which(program)
    if path is None:
        raise refuse(
            "program",
            program,
            "the program bitmma on this worker",
            "put the program on PATH, or pass its path; it is part of the C++ library, not of the Python package",
        )
    try:
        ran = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise refuse(
            program,
            f"not finished after {seconds} s",
            "an answer within the time limit",
            "use smaller units, or more seconds",
        ) from None
    if ran.returncode not in (0, 1):
        message = ran.stderr.strip() or f"exit code {ran.returncode}"
        raise Error([Violation(program, message, "a GPU that has the instruction", text=f"{program} gpu: {message}")])
    return ran.stdout


def _check_on_gpu(file: VectorFile, program: str, device: int, seconds: float) -> Comparison:
    with tempfile.TemporaryDirectory(prefix="bitmma-") as folder:
        cases, from_gpu = (os.path.join(folder, name) for name in ("cases.safetensors", "gpu.safetensors"))
        write(cases, file)
        _run_program(program, ["gpu", "run", cases, "-o", from_gpu, "--device", str(device), "--threads", "1"], seconds)
        return compare(cases, from_gpu)


def gpu(*, program: str = "bitmma", device: int = 0, seconds: float = 600) -> Check:
    """The check for a worker's GPU: `bitmma gpu` runs the cases of a unit there, and D is compared bit for bit.

    `program` is the command line program, `device` the GPU's number, `seconds` the time limit of a unit. Raises Error
    if the worker has no such program or no GPU with the instruction.
    """
    return functools.partial(_check_on_gpu, program=program, device=device, seconds=seconds)


def _gpu_unit(
    unit: str,
    family: str,
    seed: int,
    number: int,
    outputs: int,
    program: str,
    device: int,
    save: str | None,
    seconds: float,
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bitmma-") as folder:
        try:
            text = _run_program(
                program,
                [
                    "gpu",
                    "campaign",
                    "--family",
                    family,
                    "--seed",
                    str(seed),
                    "--first-unit",
                    str(number),
                    "--units",
                    "1",
                    "--unit-outputs",
                    str(outputs),
                    "--device",
                    str(device),
                    "--save",
                    save or folder,
                    "--json",
                    "--threads",
                    "1",
                ],
                seconds,
            )
        except Error as error:
            raise _named(unit, error) from None
    report = json.loads(text)
    rows = [row for row in report["rows"] if row["instruction"] != "total"]
    total = {name: sum(row[name] for row in rows) for name in ("cases", "outputs", "hard_outputs", "mismatches")}
    again = (
        f"bitmma gpu campaign --family {family} --seed {seed} --first-unit {number} --units 1 --unit-outputs {outputs}"
    )
    return {
        **total,
        "cases_with_mismatches": len(report["saved"]),
        "first": again if total["mismatches"] else None,
        "group": f"{', '.join(row['instruction'] for row in rows)} on {report['gpu']}",
        **{name: report[name] for name in ("gpu", "target", "driver", "cuda")},
    }


def gpu_campaign(
    family: str = "wgmma",
    *,
    seed: int = 0,
    units: int = 1,
    first_unit: int = 0,
    outputs_per_unit: int = 1_000_000,
    program: str = "bitmma",
    device: int = 0,
    save: str | os.PathLike[str] | None = None,
    seconds: float = 3600,
    client: Any = None,
    done: MutableMapping[str, dict[str, Any]] | None = None,
    progress: Progress | None = None,
    resources: Mapping[str, float] | None = None,
) -> Report:
    """The campaign of docs/evidence.md over many GPUs: every unit is `bitmma gpu campaign` of one unit on a worker.

    family             "wgmma" or "mma.sync": every legal instruction, any descriptors, all distributions
    outputs_per_unit   approximate number of outputs per unit; the cases of a seed depend on it
    program, device    the command line program and the GPU's number on the workers
    save               a folder for mismatching cases that the workers can access; None: they are not kept, but
                       `total.first` is the command that regenerates them
    seconds            the time limit of a unit
    others             as in campaign

    Returns a Report by instruction group and GPU. `cases_with_mismatches` of a unit is at most 100; its result also
    names GPU, target, driver and CUDA.
    """
    _require_positive("units", units)
    _require_positive("first_unit", first_unit, 0)
    _require_positive("outputs_per_unit", outputs_per_unit)
    if family not in ("wgmma", "mma.sync"):
        raise refuse("family", family, "wgmma or mma.sync")
    folder = None if save is None else os.path.abspath(save)
    every = [
        _Unit(
            f"gpu {family} seed {seed} outputs {outputs_per_unit} unit {unit}",
            None,
            (family, seed, unit, outputs_per_unit, program, device, folder, seconds),
        )
        for unit in range(first_unit, first_unit + units)
    ]
    return _report(every, _gpu_unit, client, done, progress, resources)
