"""The machine's own way: states, cases, vector files, and what people ask of them."""
from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from . import _core
from ._arrays import Codes, _dtypes, _native, _raw, code_bytes, codes_as, dtype_of, format_of, to_numpy
from ._core import Instruction, Plan
from ._errors import Error, Violation, count_of, refuse, threads_of, violations_of
from ._gemm import find_plans, gemm
from ._mma import _parsed


def _instruction(of: str | Instruction) -> Instruction:
    if isinstance(of, str):
        return _parsed(of.strip())
    if not isinstance(of, Instruction):
        raise refuse("instruction", type(of).__name__, "PTX text, or an Instruction")
    return of


def _typed(pair: Any) -> Any:
    """(format, codes) as an array of the format's dtype."""
    return None if pair is None else pair[1].view(dtype_of(pair[0]))


# Buffers that are arrays hold bytes or words; floats of the same width are taken as their bits.
def _bits(name: str, value: Any) -> Any:
    if isinstance(value, (int, np.integer)):
        return int(value)
    if value is None:
        raise refuse(name, "None", "an array or a number")
    array = _native(np.ascontiguousarray(to_numpy(value, name)), name)
    if array.ndim == 0 or value is not array and np.ndim(value) == 0:
        return int(array.reshape(())[()])
    if name == "tmem" and array.ndim == 2:  # of one CTA
        array = array[None]
    size = array.dtype.itemsize
    if array.dtype.kind not in "iuf" or (size != 1 if name == "smem" else size not in (4, 8)):
        raise refuse(name, array.dtype, "bytes" if name == "smem" else "words of 32 bits, or of 64 for f64",
                     "array.view(np.uint8) gives the bytes" if name == "smem" else "")
    return np.require(array.view(_raw[size]), requirements=["A"])


def execute(instruction: str | Instruction, target: str | None, state: MutableMapping[str, Any]) -> dict[str, np.ndarray]:
    """Runs one instruction of any family on a state, a dictionary of arrays and numbers.

    The names are those of vector files (`fields(instruction)` lists them with dtypes and shapes), immediates such as
    idesc and scale_d included:
        smem uint8 [bytes], a_desc and b_desc (numbers), c_regs uint32 [threads, registers], a_regs, metadata,
        tmem uint32 [CTAs, 128 lanes, columns] (of one CTA [128, columns]), d_tmem, ...
    What the instruction writes replaces the arrays in `state`, in place where they are writable arrays of the same
    kind, so that a sequence of calls acts on one state: c_regs holds D after a wgmma and is C of the next.

    Returns what was written, by the names of results: {"d_regs": ...}. Raises Error with everything that is wrong, and
    `state` as it was.

    >>> state = {"tmem": np.zeros((128, 64), np.uint32), "taddr": 0}
    >>> sorted(execute("tcgen05.shift.cta_group::1.down", None, state))
    ['tmem_after']
    """
    one = _instruction(instruction)
    if not isinstance(state, MutableMapping):
        raise refuse("state", type(state).__name__, "a dictionary of arrays and numbers")
    said = {name for name in state if name in one.immediates}
    if isinstance(instruction, str) and "idesc" in one.immediates and "idesc" not in said:
        raise refuse("idesc", "(missing)", "the instruction descriptor: shape and types are in it",
                     'in the state, or bitmma.instruction(text, idesc=...), or bitmma.tcgen05(...)')
    for name in said:
        one = one.with_immediate(name, count_of(state[name], name, -1))
    given = {name: _bits(name, value) for name, value in state.items() if name not in said}
    written = _core.execute(one, target, given)
    after = {row["name"]: row["after"] or row["name"] for row in one._fields()}
    results = {}
    for name, array in written.items():
        old = state.get(name)
        if isinstance(old, np.ndarray) and old.flags.writeable and old.size == array.size \
                and old.dtype.itemsize == array.dtype.itemsize:
            old[...] = array.view(old.dtype).reshape(old.shape)
            array = old
        else:
            state[name] = array
        results[after[name]] = array
    return results


class FieldRule(NamedTuple):
    """A buffer that an instruction reads or writes."""

    name: str
    after: str
    """The name of what it holds after the instruction; empty where it is only read."""
    access: str
    required: bool
    dtype: str
    shape: tuple[int, ...] | None
    """Of an array, -1 takes any number; None: one number."""
    meaning: str


def fields(instruction: str | Instruction) -> list[FieldRule]:
    """The buffers of a state that the instruction reads and writes."""
    return [FieldRule(**row) for row in _instruction(instruction)._fields()]


class Case:
    """One instruction on one target, and what it reads: a state, or logical matrices.

    Case("wgmma...", a=a, b=b, c=c)                    matrices
    Case("wgmma...", state={"smem": ..., ...})         the machine's own way
    """

    def __init__(self, instruction: str | Instruction, target: str | None = None, *,
                 state: Mapping[str, Any] | None = None, a: Any = None, b: Any = None, c: Any = None, d: Any = None,
                 scale_a: Any = None, scale_b: Any = None):
        one = _instruction(instruction)
        logical = {}
        for name, value in (("a", a), ("b", b), ("c", c), ("d", d), ("scale_a", scale_a), ("scale_b", scale_b)):
            if value is None:
                continue
            format = one.scale_type if name.startswith("scale") else getattr(one, name)
            logical[name] = (format, np.ascontiguousarray(codes_as(value, format, name)))
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
        """What was recorded after the instruction."""
        after: Any = self._value.after()
        return after

    @property
    def operands(self) -> dict[str, np.ndarray | None]:
        """Matrices as the instruction reads them: a, b, c, scale_a, scale_b; of a sparse A also stored_a [M, K/2] and
        metadata [M, chunks], with which its stored zeros count."""
        return {name: pair if name == "metadata" else _typed(pair) for name, pair in self._value.operands().items()}

    @property
    def logical(self) -> dict[str, np.ndarray | None]:
        """The logical matrices that the case holds, d included; None where it has none."""
        return {name: _typed(pair) for name, pair in self._value.logical().items()}

    def computed_d(self) -> np.ndarray:
        """D as the target computes it, [M, N]; of a move the words it leaves."""
        return _typed(self._value.computed_d())

    def recorded_d(self) -> np.ndarray | None:
        """D as recorded."""
        return _typed(self._value.recorded_d())

    def __repr__(self) -> str:
        return f"<bitmma.Case {self.instruction} on {self.target}>"


class Explanation(Mapping[str, Any]):
    """One output, term by term. `print(e)` shows it; it is a mapping with the keys of `explain --json`: `e["terms"]`."""

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


def explain(case: Case, row: int, col: int) -> Explanation:
    """Output (row, col) of a case: where every factor is read, which bits of its product count, the sum, the rounding,
    and what other adders would give."""
    return Explanation(*case._value.explain(row, col))


def lint(case: Case) -> list[Violation]:
    """What is legal but looks wrong in a case with a state, with the reason and the likely fix."""
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
    """Best first; empty when nothing is wrong or nothing fits better than chance."""
    where: list[str] = []
    """What all wrong outputs have in common: "only rows 8..15 of every 16"."""


def diagnose(cases: Case | Sequence[Case], actual: Any, *, max_cases: int = 2, max_findings: int = 5,
             pairs: bool = True) -> Diagnosis:
    """Which wrong program explains these bits?

    `actual` is D [M, N] as a program left it, or one for each of the first `cases`. At most `max_cases` are compared;
    the others are there as neighbours.
    """
    cases = [cases] if isinstance(cases, Case) else list(cases)
    if not isinstance(actual, (list, tuple)):
        array = to_numpy(actual, "actual")
        actual = [array] if array.ndim == 2 else list(array)
    if not cases or len(actual) > len(cases):
        raise refuse("actual", f"{len(actual)} matrices", f"one for each of {len(cases)} cases, or of the first ones")
    wrong = []
    for case, d in zip(cases, actual):
        format = case.instruction.d
        wrong.append((format, np.ascontiguousarray(codes_as(d, format, "actual"))))
    said: Any = _core.diagnose([case._value for case in cases], wrong, max_cases, max_findings, pairs)
    said["findings"] = [Finding([Fault(**fault) for fault in row["faults"]], row["wrong_explained"],
                                row["right_broken"], row["explains_all"]) for row in said["findings"]]
    return Diagnosis(**said)


def fault_catalogue(cases: Case | Sequence[Case]) -> list[Fault]:
    """Every fault that the first case can have."""
    cases = [cases] if isinstance(cases, Case) else list(cases)
    rows: Any = _core.fault_catalogue([case._value for case in cases])
    return [Fault(**row) for row in rows]


class Comparison(NamedTuple):
    cases: int
    outputs: int
    mismatches: int
    cases_with_mismatches: int
    first: str | None
    """Where the first output differs, and both words."""


# Names of safetensors; what NumPy lacks has the dtypes of ml_dtypes.
_file_dtypes = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": _dtypes["bf16"], "F8_E4M3": _dtypes["e4m3"],
    "F8_E5M2": _dtypes["e5m2"], "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U64": np.uint64,
    "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_, "F8_E8M0": _dtypes["ue8m0"],
}


def _tensors(rows: list[Any]) -> dict[str, np.ndarray]:
    return {name: (array.view(_file_dtypes[dtype]) if dtype in _file_dtypes else array).reshape(
        shape if dtype in _file_dtypes else -1) for name, dtype, shape, array in rows}


class VectorFile:
    """Cases of one instruction, as a file holds them. `file[3]` is case 3, `len(file)` their number."""

    def __init__(self, value: Any):
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
    def source(self) -> str:
        """Who computed the recorded D: a GPU, or this program."""
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
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"case {number}: {self.path or 'the file'} has {len(self)} cases")
        return Case._of(self._value.case(number % len(self)))

    def __iter__(self) -> Iterator[Case]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"<bitmma.VectorFile {len(self)} cases of {self.instruction} on {self.target}>"


def _path(path: str | bytes | os.PathLike[Any]) -> str:
    """A file's name as the library has it: UTF-8."""
    name = os.fsdecode(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise refuse("path", ascii(name), "a name in UTF-8") from None
    return name


def read(path: str | os.PathLike[str], *, instruction: str = "", target: str | None = None) -> VectorFile:
    """A vector file (docs/vectors.md). `instruction` and `target` stand in for keys that it lacks."""
    try:
        return VectorFile(_core.read(_path(path), instruction, target))
    except Error as error:
        if any(one.code == "missing_instruction" for one in error.violations) \
                and {"b", "b_t", "a"} & set(_names(_path(path))):
            raise refuse(_path(path), "a file without the key instruction", "a vector file",
                         "bitmma.read_product reads files of whole products") from None
        raise


def write(path: str | os.PathLike[str], cases: Case | Sequence[Case] | VectorFile, *, source: str = "python") -> None:
    """Cases of one instruction on one target as a vector file, whole or not at all."""
    if isinstance(cases, VectorFile):
        rows = cases._value.tensors()
        _core.write_tensors(_path(path), rows, cases.metadata)
        return
    cases = [cases] if isinstance(cases, Case) else list(cases)
    _core.write_cases(_path(path), [case._value for case in cases], source)


def _names(path: str) -> list[str]:
    return [row[0] for row in _core.read_tensors(path)[0]]


def verify(file: VectorFile | str | os.PathLike[str], *, threads: int = 1, first: int = 0,
           count: int | None = None) -> Comparison:
    """Recomputes every case, or `count` of them from `first` on, and compares with the recorded D, bit for bit."""
    file = file if isinstance(file, VectorFile) else read(file)
    return Comparison(**file._value.verify(threads_of(threads), count_of(first, "first"),
                                           -1 if count is None else count_of(count, "count")))


def compare(expected: VectorFile | str | os.PathLike[str], actual: VectorFile | str | os.PathLike[str]) -> Comparison:
    """The recorded D of two files, bit for bit."""
    one, other = (file if isinstance(file, VectorFile) else read(file) for file in (expected, actual))
    return Comparison(**one._value.compare(other._value))


def golden(instruction: str | Instruction, *, target: str | None = None, cases: int = 1, first_case: int = 0,
           seed: int = 0, distribution: str = "normal", layout_a: str = "", layout_b: str = "",
           threads: int = 1) -> VectorFile:
    """Random cases from a seed, with D: the same on any machine.

    `distribution` is "bits", "normal", "wide", "narrow", "cancel", "subnormal", "ties", "special" or "integers";
    layouts are as on the command line: "k-major:128", "mn-major:64".
    """
    return VectorFile(_core.golden(_instruction(instruction), target, count_of(cases, "cases", 1),
                                   count_of(first_case, "first_case"), count_of(seed, "seed"), distribution, layout_a,
                                   layout_b, threads_of(threads)))


class Product(NamedTuple):
    """A recorded product: A [M, K], B [K, N], and what goes with them; None for what the file lacks."""

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

    @property
    def kernel(self) -> str | None:
        """The name of the kernel that computed it."""
        return self.metadata.get("kernel")

    def find_plans(self, *, threads: int = 1) -> list[Plan]:
        """The plans that give every bit of D: those that the kernel's name allows, else all that are known."""
        if self.d is None:
            raise refuse("d", "(missing)", "a recorded D")
        if self.kernel is not None:
            try:
                return find_plans(self.a, self.b, self.d, kernel=self.kernel, target=self.target, threads=threads,
                                  **self.operands())
            except Error as error:
                if error.violations[0].code != "unknown_kernel":
                    raise
        return find_plans(self.a, self.b, self.d, target=self.target, threads=threads, **self.operands())

    def gemm(self, plan: str | dict[str, Any] | Plan | None = None, *, threads: int = 1) -> np.ndarray:
        """D by a plan, with everything that the file has: type of D, scales, bias, C. Without a plan, the first one
        that gives the recorded D; Error where none does."""
        if plan is None:
            plans = self.find_plans(threads=threads)
            if not plans:
                raise refuse("kernel", self.kernel, "one whose plan gives the recorded D", "a plan says how to add K")
            plan = plans[0]
        output = None if isinstance(plan, (dict, Plan)) else self.output
        return gemm(self.a, self.b, plan, target=None if isinstance(plan, Plan) else self.target, output=output,
                    threads=threads, **self.operands())

    def operands(self) -> dict[str, Any]:
        """What gemm and find_plans take by name, beside a and b."""
        names = {name: getattr(self, name) for name in ("c", "bias", "scale_a", "scale_b", "sfa", "sfb")}
        places = {"rows": self.rows or None, "cols": self.cols or None, "whole": self.whole if self.whole[0] else None}
        return {**names, **places, "alpha": self.alpha, "beta": self.beta}


def read_product(path: str | os.PathLike[str]) -> Product:
    """A file of one whole product (docs/products.md); operands of recorded calls are made from their seed."""
    said = _core.read_product(_path(path))
    for name in ("a", "b", "c", "d", "bias", "scale_a", "scale_b", "sfa", "sfb"):
        said[name] = _typed(said[name])
    return Product(**said)
