# SPDX-License-Identifier: MIT
"""States, cases, vector files, and the functions that use them."""

from __future__ import annotations

import json
import operator
import os
import pathlib
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple, Union, overload

import numpy as np

from . import _notebook
from ._arguments import at_least_one, core as _core, path_of, public, target_of, text
from ._arrays import _dtypes, _native, _raw, codes_as, dtype_of, to_numpy
from ._core import Instruction, Plan
from ._errors import Error, Violation, count_of, refuse, shown, violations_of
from ._gemm import PlanSearch, ProductTrace, explain_product, find_plans, gemm
from ._mma import _parsed
from ._types import ArrayLike, Target


def _instruction(of: str | Instruction) -> Instruction:
    return _parsed(of.strip()) if isinstance(of, str) else of


def _typed(pair: Any) -> Any:
    """(format, codes) as an array of the format's dtype."""
    return None if pair is None else pair[1].view(dtype_of(pair[0]))


# Buffers that are arrays hold bytes or words; floats of the same width are taken as their bits.
def _bits(name: str, value: Any) -> Any:
    if isinstance(value, (bool, np.bool_, float, str, bytes)):
        raise refuse(name, shown(value), "an array or a whole number")
    if isinstance(value, (int, np.integer)):
        return int(value)
    if value is None:
        raise refuse(name, "None", "an array or a number")
    array = _native(np.ascontiguousarray(to_numpy(value, name)), name)
    if array.ndim == 0 or (value is not array and np.ndim(value) == 0):
        if array.dtype.kind not in "iu":
            raise refuse(name, value, "an array or a whole number")
        return int(array.reshape(())[()])
    if name == "tmem" and array.ndim == 2:  # of one CTA
        array = array[None]
    size = array.dtype.itemsize
    if array.dtype.kind not in "iuf" or (size != 1 if name == "smem" else size not in (4, 8)):
        raise refuse(
            name,
            array.dtype,
            "bytes" if name == "smem" else "words of 32 bits, or of 64 for f64",
            "use array.view(np.uint8) for the bytes" if name == "smem" else "",
        )
    words = array.view(_raw[size])
    return words if words.flags.aligned else words.copy()


@public(target=lambda value, field: None if value is None else target_of(value))
def execute(
    instruction: str | Instruction, target: Target | None, state: MutableMapping[str, Any]
) -> dict[str, np.ndarray]:
    """Runs one instruction of any family on a state, a dictionary of arrays and numbers.

    The names are those of vector files (`fields(instruction)` lists them with dtypes and shapes), immediates such as
    idesc and scale_d included:
        smem uint8 [bytes], a_desc and b_desc (numbers), c_regs uint32 [threads, registers], a_regs, metadata,
        tmem uint32 [CTAs, 128 lanes, columns] (of one CTA [128, columns]), d_tmem, ...
    The results replace the arrays in `state`, in place if these are writable arrays of the same kind. So a sequence of
    calls acts on one state: after a wgmma, c_regs holds D, which is C of the next wgmma.

    Arrays with one more leading axis are a batch of states; numbers are then arrays of one axis: a_regs
    [batch, 32, 4], a_desc [batch]. Arrays without that axis apply to all states; results always have it.

    Returns the results by name: {"d_regs": ...}. Raises Error with all problems and leaves `state` unchanged; in a
    batch, states before the wrong one may have run.

    >>> state = {"tmem": np.zeros((128, 64), np.uint32), "taddr": 0}
    >>> sorted(execute("tcgen05.shift.cta_group::1.down", None, state))
    ['tmem_after']
    """
    one = _instruction(instruction)
    if not isinstance(state, MutableMapping):
        raise refuse("state", type(state).__name__, "a dictionary of arrays and numbers")
    rows: Any = one._fields()
    ranks = {name: len(row["shape"] or ()) for row in rows if (name := row["name"]) in state}
    batched = [name for name, rank in ranks.items() if np.ndim(state[name]) == rank + 1]
    if batched:
        return _execute_batch(instruction, target, state, batched)
    return _execute(instruction, one, target, state, _results_of(rows))


def _execute_batch(
    instruction: str | Instruction, target: Any, state: MutableMapping[str, Any], batched: list[str]
) -> dict[str, np.ndarray]:
    counts = {len(state[name]) for name in batched}
    if len(counts) != 1:
        raise refuse(
            "batch", " and ".join(f"{name} {np.shape(state[name])}" for name in batched), "one number of states"
        )
    one = _instruction(instruction)
    after = _results_of(one._fields())
    results: dict[str, list[np.ndarray]] = {}
    left: dict[str, list[Any]] = {}
    for index in range(counts.pop()):
        single = {
            name: value[index] if name in batched else np.copy(value) if isinstance(value, np.ndarray) else value
            for name, value in state.items()
        }
        before = dict(single)
        for name, array in _execute(instruction, one, target, single, after).items():
            results.setdefault(name, []).append(array)
        for name, value in single.items():
            # An element of a batched array is a view: what was written in place is there already.
            if name not in before or value is not before[name] or name not in batched:
                left.setdefault(name, []).append(value)
    stacked = {name: np.stack(arrays) for name, arrays in results.items()}
    for name in left:
        if after.get(name) in stacked:
            state[name] = stacked[after[name]]
    return stacked


def _execute(
    instruction: str | Instruction,
    one: Instruction,
    target: Any,
    state: MutableMapping[str, Any],
    after: dict[str, str],
) -> dict[str, np.ndarray]:
    said = {name for name in state if name in one.immediates}
    if isinstance(instruction, str) and "idesc" in one.immediates and "idesc" not in said:
        raise refuse(
            "idesc",
            "(missing)",
            "given: the instruction descriptor contains shape and types",
            "put idesc into the state, or use bitmma.instruction(text, idesc=...) or bitmma.tcgen05(...)",
        )
    for name in said:
        one = one.with_immediate(name, count_of(state[name], name, -1))
    given = {name: _bits(name, value) for name, value in state.items() if name not in said}
    written = _core.execute(one, target, given)
    results = {}
    for name, array in written.items():
        old = state.get(name)
        if (
            isinstance(old, np.ndarray)
            and old.flags.writeable
            and old.size == array.size
            and old.dtype.itemsize == array.dtype.itemsize
        ):
            old[...] = array.view(old.dtype).reshape(old.shape)
            array = old
        else:
            state[name] = array
        results[after[name]] = array
    return results


def _results_of(fields: list[dict[str, Any]]) -> dict[str, str]:
    """Maps the names of buffers to their names after the instruction."""
    return {row["name"]: row["after"] or row["name"] for row in fields}


class FieldRule(NamedTuple):
    """A buffer that an instruction reads or writes."""

    name: str
    after: str
    """Its name after the instruction; empty if the instruction only reads it."""
    access: str
    required: bool
    dtype: str
    shape: tuple[int, ...] | None
    """The extents of an array, where -1 allows any number; None for a single number."""
    meaning: str


@public
def fields(instruction: str | Instruction) -> list[FieldRule]:
    """The buffers of a state that the instruction reads and writes."""
    return [FieldRule(**row) for row in _instruction(instruction)._fields()]


class Case:
    """One instruction on one target, and its inputs: a state, or logical matrices.

    Case("wgmma...", a=a, b=b, c=c)                    matrices
    Case("wgmma...", state={"smem": ..., ...})         the machine's state
    """

    @public
    def __init__(
        self,
        instruction: str | Instruction,
        target: Target | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        a: ArrayLike | None = None,
        b: ArrayLike | None = None,
        c: ArrayLike | None = None,
        d: ArrayLike | None = None,
        scale_a: ArrayLike | None = None,
        scale_b: ArrayLike | None = None,
    ):
        one = _instruction(instruction)
        logical = {}
        for name, value in (("a", a), ("b", b), ("c", c), ("d", d), ("scale_a", scale_a), ("scale_b", scale_b)):
            if value is None:
                continue
            format = one.scale_type if name.startswith("scale") else getattr(one, name)
            logical[name] = (format, np.ascontiguousarray(codes_as(value, format, name)))
        if state is not None:
            if not isinstance(state, Mapping):
                raise refuse("state", type(state).__name__, "a dictionary of arrays and numbers")
            for name in logical:
                if name != "d":  # which is a recorded result
                    raise refuse(name, "beside state", f"given once: the state contains {name}", code="contradiction")
        bits = None if state is None else {name: _bits(name, value) for name, value in state.items()}
        self._value = _core.CaseValue.make(one, target, bits, logical)

    @classmethod
    def _of(cls, value: Any) -> Case:
        case = cls.__new__(cls)
        case._value = value
        return case

    @property
    def instruction(self) -> Instruction:
        return self._value.instruction

    @property
    def target(self) -> str:
        return self._value.target

    @property
    def state(self) -> dict[str, Any] | None:
        """The state before the instruction, new arrays; None for a case of logical matrices."""
        state: Any = self._value.state()
        return state

    @property
    def after(self) -> dict[str, Any] | None:
        """The recorded state after the instruction."""
        after: Any = self._value.after()
        return after

    @property
    def operands(self) -> dict[str, np.ndarray | None]:
        """Matrices as the instruction reads them: a, b, c, scale_a, scale_b; for a sparse A also stored_a [M, K/2] and
        metadata [M, chunks], which preserve its stored zeros."""
        return {name: pair if name == "metadata" else _typed(pair) for name, pair in self._value.operands().items()}

    @property
    def logical(self) -> dict[str, np.ndarray | None]:
        """The logical matrices of the case, including d; None if it has none."""
        return {name: _typed(pair) for name, pair in self._value.logical().items()}

    def computed_d(self) -> np.ndarray:
        """D as the target computes it, [M, N]; for a move, the words that it writes."""
        return _typed(self._value.computed_d())

    def recorded_d(self) -> np.ndarray | None:
        """D as recorded."""
        return _typed(self._value.recorded_d())

    def __repr__(self) -> str:
        return f"<bitmma.Case {self.instruction} on {self.target}>"


class Explanation(Mapping[str, Any]):
    """One output, term by term. `print(e)` shows it; it is a mapping with the keys of `explain --json`:
    `e["terms"]`."""

    def __init__(self, text: str, said: dict[str, Any]):
        self.text = text
        self.json = said

    def __getitem__(self, key: str) -> Any:
        return self.json[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.json)

    def __len__(self) -> int:
        return len(self.json)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _notebook.explanation(self.json, self.text)


def _case(value: Any, field: str) -> Case:
    if isinstance(value, Case):
        return value
    raise refuse(field, type(value).__name__, "a Case", _fix_of_case(value))


def _fix_of_case(value: Any) -> str:
    if isinstance(value, VectorFile):
        return "file[0] is its first case"
    if isinstance(value, Product):
        return "a Case is one instruction, but a product is a chain of instructions: use product.explain(row, col)"
    if hasattr(value, "shape"):
        return (
            "use bitmma.Case(instruction, a=a, b=b), or bitmma.explain_product(a, b, plan, row, col) for an "
            "output of a whole product"
        )
    return "use bitmma.Case(instruction, a=a, b=b), or a case of a file: bitmma.read(path)[0]"


def _cases(value: Any, field: str) -> list[Case]:
    """One or more cases, or the file of them."""
    if isinstance(value, VectorFile):
        return list(value)
    if isinstance(value, Case):
        return [value]
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, Case) for one in value):
        raise refuse(field, shown(value), "a Case, or a list of them", _fix_of_case(value))
    if not value:
        raise refuse(field, "none", "one or more")
    return list(value)


@public(case=_case)
def explain(case: Case, row: int, col: int) -> Explanation:
    """Output (row, col) of a case: the place of each factor, the bits of its product that are kept, the sum, the
    rounding,
    and the results of other rules of addition."""
    return Explanation(*case._value.explain(row, col))


@public(case=_case)
def lint(case: Case) -> list[Violation]:
    """Lists what is legal but suspicious in a case with a state, with the reason and the likely fix."""
    return violations_of(case._value.warnings())


class Fault(NamedTuple):
    """What a wrong program does."""

    id: str
    stage: str
    what: str
    fix: str


class Finding(NamedTuple):
    """A fault, or two that act together, that explains wrong outputs."""

    faults: list[Fault]
    wrong_explained: int
    right_broken: int
    explains_all: bool


class Diagnosis(NamedTuple):
    cases: int
    outputs: int
    wrong: int
    tried: int
    findings: list[Finding]
    """Best first; empty if nothing is wrong, or if no fault fits better than chance."""
    where: list[str]
    """The pattern of all wrong outputs, such as "only rows 8..15 of every 16"."""
    wrong_cases: int = 0
    searched_cases: int = 0
    """The number of wrong cases in which faults were searched."""
    searched_wrong: int = 0
    """The wrong outputs of those cases, to which the counts of `findings` refer."""

    def _repr_html_(self) -> str:
        return _notebook.diagnosis(self)


@public
def diagnose(
    cases: Case | Sequence[Case] | VectorFile,
    actual: Any,
    *,
    max_cases: int = 2,
    max_findings: int = 5,
    pairs: bool = True,
) -> Diagnosis:
    """Finds the mistake of a program that explains its wrong bits.

    `actual` is the program's D [M, N], or one for each of the first `cases`. All are compared; faults are searched
    in at most `max_cases` of the wrong ones.

    A case of matrices may be a whole tile: a [M, K] and b [K, N] of several instructions, M, N and K multiples of the
    instruction's, and one D after all of K.

    >>> tile = np.eye(64, 128, dtype=np.float16); w = np.arange(128 * 8, dtype=np.float16).reshape(128, 8)
    >>> found = diagnose(Case("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", a=tile, b=w), gemm(tile, w))
    >>> found.outputs, found.wrong
    (512, 0)
    """
    if not isinstance(actual, (list, tuple)):
        array = to_numpy(actual, "actual")
        if array.ndim < 2:
            raise refuse("actual", f"shape {array.shape}", "matrices")
        actual = [array] if array.ndim == 2 else list(array)
    listed = _cases(cases, "cases")
    if len(actual) > len(listed):
        raise refuse(
            "actual", f"{len(actual)} matrices", f"one for each of {len(listed)} cases, or for the first of them"
        )
    wrong = []
    for case, d in zip(listed, actual, strict=False):
        format = case.instruction.d
        wrong.append((format, np.ascontiguousarray(codes_as(d, format, "actual"))))
    said: Any = _core.diagnose([case._value for case in listed], wrong, max_cases, max_findings, pairs)
    said["findings"] = [
        Finding(
            [Fault(**fault) for fault in row["faults"]],
            row["wrong_explained"],
            row["right_broken"],
            row["explains_all"],
        )
        for row in said["findings"]
    ]
    return Diagnosis(**said)


@public
def fault_catalogue(cases: Case | Sequence[Case] | VectorFile) -> list[Fault]:
    """Every fault that the first case can have."""
    rows: Any = _core.fault_catalogue([case._value for case in _cases(cases, "cases")])
    return [Fault(**row) for row in rows]


class Comparison(NamedTuple):
    cases: int
    outputs: int
    mismatches: int
    cases_with_mismatches: int
    first: str | None
    """The place of the first output that differs, and its expected and actual bits."""


# Names of safetensors; what NumPy lacks has the dtypes of ml_dtypes.
_file_dtypes = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": _dtypes["bf16"],
    "F8_E4M3": _dtypes["e4m3"],
    "F8_E5M2": _dtypes["e5m2"],
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
    "F8_E8M0": _dtypes["ue8m0"],
}


def _tensors(rows: list[Any]) -> dict[str, np.ndarray]:
    return {
        name: (array.view(_file_dtypes[dtype]) if dtype in _file_dtypes else array).reshape(
            shape if dtype in _file_dtypes else -1
        )
        for name, dtype, shape, array in rows
    }


class VectorFile:
    """A file of cases of one instruction. `file[3]` is case 3, `len(file)` their number.

    Plain matrices that span several instructions, with one D after all of K, are cases too: whole tiles.
    """

    @public
    def __init__(self, value: Any):
        if not isinstance(value, _core.VectorFileValue):
            raise refuse(
                "VectorFile", type(value).__name__, "what bitmma.read and bitmma.golden return", "bitmma.read(path)"
            )
        self._value = value

    @property
    def path(self) -> str:
        return self._value.path

    @property
    def instruction(self) -> Instruction:
        return self._value.instruction

    @property
    def target(self) -> str:
        return self._value.target

    @property
    def steps(self) -> int:
        """Instructions along K per case: 1, or more for whole tiles."""
        return self._value.steps

    @property
    def source(self) -> str:
        """The origin of the recorded D: a GPU, or this program."""
        return self._value.source

    @property
    def has_recorded_d(self) -> bool:
        return self._value.has_recorded_d

    @property
    def tensors(self) -> dict[str, np.ndarray]:
        """All tensors as new arrays, [cases, ...]."""
        return _tensors(self._value.tensors())

    @property
    def metadata(self) -> dict[str, str]:
        return self._value.metadata()

    def __len__(self) -> int:
        return self._value.cases

    @overload
    def __getitem__(self, index: int) -> Case: ...

    @overload
    def __getitem__(self, index: slice) -> list[Case]: ...

    def __getitem__(self, index: int | slice) -> Case | list[Case]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        try:
            number = operator.index(index)
        except TypeError:
            raise refuse(
                "case",
                repr(index),
                f"a number of 0..{len(self) - 1}, or a slice",
                "for a tensor use .tensors[name], for a key .metadata[name]",
            ) from None
        if not -len(self) <= number < len(self):
            raise IndexError(f"case {number}: {self.path or 'the file'} has {len(self)} cases")
        return Case._of(self._value.case(number % len(self)))

    def __iter__(self) -> Iterator[Case]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        what = "whole tiles" if self._value.is_tile else "cases"
        return f"<bitmma.VectorFile {len(self)} {what} of {self.instruction} on {self.target}>"


Path = Union[str, "os.PathLike[str]"]


def _file(value: Any, field: str) -> Any:
    """A file that was read, or its path."""
    if isinstance(value, VectorFile):
        return value
    if isinstance(value, (str, bytes, os.PathLike)):
        return path_of(value, field)
    what = f"{type(value).__name__}"
    raise refuse(
        field,
        what,
        "a VectorFile, or the path of one",
        "to compare arrays, use bitmma.testing.assert_bits_equal(actual, expected)"
        if hasattr(value, "dtype")
        else _fix_of_case(value)
        if isinstance(value, Product)
        else "bitmma.read(path)",
    )


def _path_before_cases(value: Any, field: str) -> str:
    if isinstance(value, (VectorFile, Case, list)):
        raise refuse(
            field, type(value).__name__, "the path of a file", "the path comes first: bitmma.write(path, cases)"
        )
    path = path_of(value, field)
    if (suffix := pathlib.PurePath(path).suffix) not in ("", ".safetensors"):
        raise refuse(
            field,
            suffix,
            "NAME.safetensors: bitmma writes that format",
            "for .npz, pass file.tensors to np.savez" if suffix == ".npz" else "",
        )
    return path


def files_in(folder: str) -> list[str]:
    """The vector files in a folder and its subfolders, sorted."""
    found = sorted(
        str(path)
        for path in pathlib.Path(folder).rglob("*")
        if path.suffix.lower() in (".safetensors", ".npz") and (path.is_file() or not path.exists())
    )
    if not found:
        raise refuse(folder, "a folder without vector files", "*.safetensors in the folder or its subfolders")
    return found


@public(instruction=text)
def read(path: Path, *, instruction: str = "", target: Target | None = None) -> VectorFile:
    """Reads a vector file (docs/vectors.md). `instruction` and `target` are defaults for keys that it lacks."""
    return _read(path, instruction, target)


def _read(path: Path, instruction: str, target: Target | None, on_demand: bool = False) -> VectorFile:
    """`on_demand`: reads only the header, and tensors when they are used; otherwise files up to 64 MiB at once."""
    try:
        return VectorFile(_core.read(path, instruction, target, on_demand))
    except Error as error:
        if any(violation.code == "missing_instruction" for violation in error.violations) and {"b", "b_t", "a"} & set(
            _names(str(path))
        ):
            raise refuse(
                str(path),
                "a file without the key instruction",
                "a vector file",
                "to read files of whole products, use bitmma.read_product",
            ) from None
        raise


@public(path=_path_before_cases)
def write(path: Path, cases: Case | Sequence[Case] | VectorFile, *, source: str | None = None) -> None:
    """Writes cases of one instruction on one target as a vector file, completely or not at all. `source` names their
    origin, by default "python"; a VectorFile keeps its own."""
    if isinstance(cases, VectorFile):
        if source is not None:
            raise refuse("source", source, "None with a VectorFile, which has its own")
        _core.write_tensors(path, cases._value.tensors(), cases.metadata)
        return
    _core.write_cases(path, [case._value for case in _cases(cases, "cases")], source or "python")


def _names(path: str) -> list[str]:
    return [row[0] for row in _core.read_tensors(path)[0]]


@public(file=_file)
def verify(file: VectorFile | Path, *, threads: int = 1, first: int = 0, count: int | None = None) -> Comparison:
    """Recomputes every case, or `count` of them from `first` on, and compares with the recorded D, bit for bit.

    `file` may be a folder: all .safetensors and .npz files in it and its subfolders are verified together.
    """
    if isinstance(file, VectorFile):
        return Comparison(**file._value.verify(threads, first, -1 if count is None else count))
    if not os.path.isdir(file):
        return verify(read(file), threads=threads, first=first, count=count)
    if first or count is not None:
        raise refuse("first" if first else "count", "given", "None for a folder: all cases of every file are compared")
    total = Comparison(0, 0, 0, 0, None)
    for path in files_in(os.fspath(file)):
        one = verify(read(path), threads=threads)
        total = Comparison(
            total.cases + one.cases,
            total.outputs + one.outputs,
            total.mismatches + one.mismatches,
            total.cases_with_mismatches + one.cases_with_mismatches,
            total.first or (f"{path}: {one.first}" if one.first else None),
        )
    return total


@public(expected=_file, actual=_file)
def compare(expected: VectorFile | Path, actual: VectorFile | Path) -> Comparison:
    """Compares the recorded D of two files bit for bit. bitmma.testing compares arrays."""
    one, other = (file if isinstance(file, VectorFile) else read(file) for file in (expected, actual))
    return Comparison(**one._value.compare(other._value))


@public(cases=at_least_one)
def golden(
    instruction: str | Instruction,
    *,
    target: Target | None = None,
    cases: int = 1,
    first_case: int = 0,
    seed: int = 0,
    distribution: str | None = None,
    layout_a: str = "",
    layout_b: str = "",
    threads: int = 1,
) -> VectorFile:
    """Random cases from a seed, with D: the same on any machine.

    `distribution` is "bits", "normal" (the default), "wide", "narrow", "cancel", "subnormal", "ties", "special" or
    "integers"; layouts are as on the command line: "k-major:128", "mn-major:64". An argument without effect on the
    instruction is an error: a distribution for tcgen05.ld, a layout for an operand in registers.
    """
    one = _instruction(instruction)
    state = {rule.name for rule in fields(one)}
    for name, value, acts in (
        ("distribution", distribution, one.is_mma),
        ("layout_a", layout_a, not state.isdisjoint(("a_desc", "s_desc"))),
        ("layout_b", layout_b, "b_desc" in state),
    ):
        if value and not acts:
            raise refuse(name, value, "absent", f"it has no effect on {one}", code="no_effect")
    return VectorFile(
        _core.golden(one, target, cases, first_case, seed, distribution or "normal", layout_a, layout_b, threads)
    )


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
            output=output,
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
            output=None if is_plan else self.output,
            **self.operands(),
        )

    def operands(self) -> dict[str, Any]:
        """The keyword arguments of gemm and find_plans besides a and b."""
        names = {name: getattr(self, name) for name in ("c", "bias", "scale_a", "scale_b", "sfa", "sfb")}
        places = {"rows": self.rows or None, "cols": self.cols or None, "whole": self.whole if self.whole[0] else None}
        return {**names, **places, "alpha": self.alpha, "beta": self.beta}


@public
def read_product(path: Path) -> Product:
    """Reads a file of one whole product (docs/plans.md); generates the operands of recorded calls from their
    seed."""
    said = _core.read_product(path)
    for name in ("a", "b", "c", "d", "bias", "scale_a", "scale_b", "sfa", "sfb"):
        said[name] = _typed(said[name])
    return Product(**said)
