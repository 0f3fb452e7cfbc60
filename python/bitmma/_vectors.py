# SPDX-License-Identifier: MIT
"""Many cases: vector files, their verification, and the diagnosis of wrong bits."""

from __future__ import annotations

import operator
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union, cast, overload

import numpy as np

from . import _notebook
from ._arguments import at_least_one, core as _core, path_of, public, text
from ._arrays import _dtypes, codes_as, to_numpy
from ._case import Case, _fix_of_case, _instruction, fields
from ._core import Instruction
from ._errors import Error, count_of, refuse, shown
from ._types import ArrayLike, Target


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

    @staticmethod
    def _how_to_get_a_case() -> str:
        return "file[0] is its first case"

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
            return [self[number] for number in range(*index.indices(len(self)))]
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
        if hasattr(type(value), "_how_to_get_a_case")
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
    paths = sorted(
        str(path)
        for path in pathlib.Path(folder).rglob("*")
        if path.suffix.lower() in (".safetensors", ".npz") and (path.is_file() or not path.exists())
    )
    if not paths:
        raise refuse(folder, "a folder without vector files", "*.safetensors in the folder or its subfolders")
    return paths


@public(instruction=text)
def read(path: Path, *, instruction: str = "", target: Target | None = None, inputs: str | None = None) -> VectorFile:
    """Reads a vector file (docs/vectors.md). `instruction` and `target` are defaults for keys that it lacks.

    `inputs` tells which operands are meant if a file has both: "state" (images, registers, Tensor Memory) or
    "matrices" (a, b, c). The others are left out, so that an edited copy contradicts nothing.
    """
    if inputs is not None and (not isinstance(inputs, str) or inputs not in ("state", "matrices")):
        raise refuse("inputs", shown(inputs), '"state", "matrices" or None')
    return _read(path, instruction, target, inputs=inputs or "")


def _read(path: Path, instruction: str, target: Target | None, on_demand: bool = False, inputs: str = "") -> VectorFile:
    """`on_demand`: reads only the header, and tensors when they are used; otherwise files up to 64 MiB at once."""
    try:
        return VectorFile(_core.read(path, instruction, target, on_demand, inputs))
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


_file_names: dict[Any, str] = {np.dtype(cast(Any, dtype)): name for name, dtype in _file_dtypes.items()}


def _rows_of(tensors: Mapping[str, Any]) -> list[Any]:
    """The tensors as rows of a file; arrays of NumPy, ml_dtypes or torch."""
    rows = []
    for name, value in tensors.items():
        array = np.ascontiguousarray(to_numpy(value, str(name)))
        dtype = _file_names.get(array.dtype)
        if dtype is None:
            raise refuse(str(name), array.dtype, " or ".join(sorted(_file_names.values())))
        rows.append((str(name), dtype, list(array.shape), array.reshape(-1).view(np.uint8)))
    return rows


@public(path=_path_before_cases)
def write(
    path: Path,
    cases: Case | Sequence[Case] | VectorFile | Mapping[str, ArrayLike],
    *,
    source: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes cases of one instruction on one target as a vector file, completely or not at all. `source` names their
    origin, by default "python"; a VectorFile keeps its own.

    A dictionary of arrays is written as it is, with `metadata` as its keys; arrays may have types of ml_dtypes. So a
    file with one other register is `write(path, {**file.tensors, "a_regs": a_regs}, metadata=file.metadata)`, which
    `read(path, inputs="state")` reads.
    """
    if isinstance(cases, Mapping):
        if source is not None:
            raise refuse("source", source, "None with tensors: metadata has it")
        _core.write_tensors(path, _rows_of(cases), dict(metadata or {}))
        return
    if metadata is not None:
        raise refuse("metadata", shown(metadata), "None with cases, which have their own")
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
        compared = verify(read(path), threads=threads)
        total = Comparison(
            total.cases + compared.cases,
            total.outputs + compared.outputs,
            total.mismatches + compared.mismatches,
            total.cases_with_mismatches + compared.cases_with_mismatches,
            total.first or (f"{path}: {compared.first}" if compared.first else None),
        )
    return total


@public(expected=_file, actual=_file)
def compare(expected: VectorFile | Path, actual: VectorFile | Path) -> Comparison:
    """Compares the recorded D of two files bit for bit. bitmma.testing compares arrays."""
    first, other = (file if isinstance(file, VectorFile) else read(file) for file in (expected, actual))
    return Comparison(**first._value.compare(other._value))


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
    parsed = _instruction(instruction)
    state = {rule.name for rule in fields(parsed)}
    for name, value, acts in (
        ("distribution", distribution, parsed.is_mma),
        ("layout_a", layout_a, not state.isdisjoint(("a_desc", "s_desc"))),
        ("layout_b", layout_b, "b_desc" in state),
    ):
        if value and not acts:
            raise refuse(name, value, "absent", f"it has no effect on {parsed}", code="no_effect")
    return VectorFile(
        _core.golden(parsed, target, cases, first_case, seed, distribution or "normal", layout_a, layout_b, threads)
    )


def _cases(value: Any, field: str) -> list[Case]:
    """One or more cases, or the file of them."""
    if isinstance(value, VectorFile):
        return list(value)
    if isinstance(value, Case):
        return [value]
    if not isinstance(value, (list, tuple)) or not all(isinstance(case, Case) for case in value):
        raise refuse(field, shown(value), "a Case, or a list of them", _fix_of_case(value))
    if not value:
        raise refuse(field, "none", "one or more")
    return list(value)


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
    if hasattr(cases, "shape"):
        way = "a product of matrices: bitmma.diagnose_product(a, b, d); two results: bitmma.testing.difference"
        raise refuse("cases", "an array", "a Case, or a list of them", way)
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
    report: Any = _core.diagnose([case._value for case in listed], wrong, max_cases, max_findings, pairs)
    report["findings"] = [
        Finding(
            [Fault(**fault) for fault in row["faults"]],
            row["wrong_explained"],
            row["right_broken"],
            row["explains_all"],
        )
        for row in report["findings"]
    ]
    return Diagnosis(**report)


@public
def fault_catalogue(cases: Case | Sequence[Case] | VectorFile) -> list[Fault]:
    """Every fault that the first case can have."""
    rows: Any = _core.fault_catalogue([case._value for case in _cases(cases, "cases")])
    return [Fault(**row) for row in rows]


@public
def faulty_d(
    cases: Case | Sequence[Case] | VectorFile,
    faults: str | Sequence[str] = (),
    *,
    changes: Mapping[str, int] | None = None,
) -> np.ndarray:
    """D of a wrong program, [cases, M, N]: what `diagnose` explains.

    `faults` are ids of `fault_catalogue(cases)`, one or two of different stages. `changes` are other codes at single
    places, in every case: {"a[3,4]": 0x3c00} in a matrix, {"a_regs[0,1]": 0x3c003c00} in a register (thread, register),
    {"smem[0x400]": 0xff} in a byte of the image, {"a_desc": 0x4000404000010000} in a descriptor.

    >>> file = golden("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> diagnose(file, faulty_d(file, "a.register_1_is_2")).findings[0].faults[0].what
    'A: register 2 is passed twice, register 1 never'
    """
    listed = _cases(cases, "cases")
    if changes is not None and not isinstance(changes, Mapping):
        raise refuse("changes", shown(changes), 'a dictionary such as {"a[3,4]": 0x3c00}')
    if not isinstance(faults, (str, list, tuple)):
        raise refuse("faults", shown(faults), "an id of fault_catalogue(cases), or a list of them")
    ids = [text(fault, "faults") for fault in ([faults] if isinstance(faults, str) else faults)]
    texts = [
        f"{text(place, 'changes')}={count_of(code, 'changes', 0, 2**64 - 1):#x}"
        for place, code in (changes or {}).items()
    ]
    matrices: Any = _core.wrong_d([case._value for case in listed], ids, texts)
    return np.stack([codes.view(_dtypes[format]) for format, codes in matrices])
