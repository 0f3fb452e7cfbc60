# SPDX-License-Identifier: MIT
"""A machine's state, and cases: one instruction with its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

import numpy as np

from . import _notebook
from ._arguments import core as _core, public, target_of
from ._arrays import _is_torch, _native, _raw, codes_as, dtype_of, like, to_numpy
from ._core import Instruction
from ._errors import Violation, count_of, refuse, shown, violations_of
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

    Returns the results by name: {"d_regs": ...}, torch tensors if the state has one. Raises Error with all problems and
    leaves `state` unchanged; in a batch, states before the wrong one may have run.

    >>> state = {"tmem": np.zeros((128, 64), np.uint32), "taddr": 0}
    >>> sorted(execute("tcgen05.shift.cta_group::1.down", None, state))
    ['tmem_after']
    """
    parsed = _instruction(instruction)
    if not isinstance(state, MutableMapping):
        raise refuse("state", type(state).__name__, "a dictionary of arrays and numbers")
    rows: Any = parsed._fields()
    ranks = {name: len(row["shape"] or ()) for row in rows if (name := row["name"]) in state}
    batched = [name for name, rank in ranks.items() if np.ndim(state[name]) == rank + 1]
    if batched:
        return _execute_batch(instruction, target, state, batched)
    return _execute(instruction, parsed, target, state, _results_of(rows))


def _execute_batch(
    instruction: str | Instruction, target: Any, state: MutableMapping[str, Any], batched: list[str]
) -> dict[str, np.ndarray]:
    counts = {len(state[name]) for name in batched}
    if len(counts) != 1:
        raise refuse(
            "batch", " and ".join(f"{name} {np.shape(state[name])}" for name in batched), "one number of states"
        )
    parsed = _instruction(instruction)
    after = _results_of(parsed._fields())
    results: dict[str, list[np.ndarray]] = {}
    left: dict[str, list[Any]] = {}
    for index in range(counts.pop()):
        single = {
            name: value[index] if name in batched else np.copy(value) if isinstance(value, np.ndarray) else value
            for name, value in state.items()
        }
        before = dict(single)
        for name, array in _execute(instruction, parsed, target, single, after).items():
            results.setdefault(name, []).append(array)
        for name, value in single.items():
            # An element of a batched array is a view: what was written in place is there already.
            if name not in before or value is not before[name] or name not in batched:
                left.setdefault(name, []).append(value)
    operands = tuple(state.values())
    stacked = {name: like(operands, np.stack(arrays)) for name, arrays in results.items()}
    for name in left:
        if after.get(name) in stacked:
            state[name] = stacked[after[name]]
    return stacked


def _execute(
    instruction: str | Instruction,
    parsed: Instruction,
    target: Any,
    state: MutableMapping[str, Any],
    after: dict[str, str],
) -> dict[str, np.ndarray]:
    immediates = {name for name in state if name in parsed.immediates}
    if isinstance(instruction, str) and "idesc" in parsed.immediates and "idesc" not in immediates:
        raise refuse(
            "idesc",
            "(missing)",
            "given: the instruction descriptor contains shape and types",
            "put idesc into the state, or use bitmma.instruction(text, idesc=...) or bitmma.tcgen05(...)",
        )
    for name in immediates:
        parsed = parsed.with_immediate(name, count_of(state[name], name, -1))
    bits = {name: _bits(name, value) for name, value in state.items() if name not in immediates}
    operands = tuple(state.values())
    written = _core.execute(parsed, target, bits)
    results = {}
    array: Any
    for name, array in written.items():
        old = state.get(name)
        if (memory := _memory_for(old, array)) is not None:
            memory[...] = array.view(memory.dtype).reshape(memory.shape)
            array = old
        else:
            array = state[name] = like(operands, array)
        results[after[name]] = array
    return results


def _memory_for(old: Any, array: np.ndarray) -> np.ndarray | None:
    """The memory of the array that the state has, if the result fits there."""
    if not isinstance(old, np.ndarray) and not (_is_torch(old) and old.device.type == "cpu"):
        return None
    memory = to_numpy(old, "state")
    fits = memory.size == array.size and memory.dtype.itemsize == array.dtype.itemsize
    return memory if fits and memory.flags.writeable else None


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
        parsed = _instruction(instruction)
        logical = {}
        for name, value in (("a", a), ("b", b), ("c", c), ("d", d), ("scale_a", scale_a), ("scale_b", scale_b)):
            if value is None:
                continue
            format = parsed.scale_type if name.startswith("scale") else getattr(parsed, name)
            logical[name] = (format, np.ascontiguousarray(codes_as(value, format, name)))
        if state is not None:
            if not isinstance(state, Mapping):
                raise refuse("state", type(state).__name__, "a dictionary of arrays and numbers")
            for name in logical:
                if name != "d":  # which is a recorded result
                    raise refuse(name, "beside state", f"given once: the state contains {name}", code="contradiction")
        bits = None if state is None else {name: _bits(name, value) for name, value in state.items()}
        self._value = _core.CaseValue.make(parsed, target, bits, logical)

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

    def __init__(self, text: str, fields: dict[str, Any]):
        self.text = text
        self.json = fields

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
    """How to get a case from what is none; the classes of this package tell it themselves."""
    if hasattr(type(value), "_how_to_get_a_case"):
        return str(value._how_to_get_a_case())
    if hasattr(value, "shape"):
        return (
            "use bitmma.Case(instruction, a=a, b=b), or bitmma.explain_product(a, b, plan, row, col) for an "
            "output of a whole product"
        )
    return "use bitmma.Case(instruction, a=a, b=b), or a case of a file: bitmma.read(path)[0]"


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
