# SPDX-License-Identifier: MIT
"""Reads what tools/capture.py wrote: operators, and tensors of which some elements may be known only."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ._arguments import core as _core
from ._errors import Error, refuse, shown
from ._gemm import generated
from ._json import parse_json
from ._safetensors import MOST_DIMENSIONS, StoredTensor, dtypes, read_safetensors

FORMAT = "bitmma-capture/1"


class Reason(str, Enum):
    """Why nothing can be said about an operator."""

    no_rule = "no rule"
    not_recomputed = "not recomputed"
    no_main_output = "no main output"


class CannotSay(Exception):
    """Why an operator is not recomputed."""

    def __init__(self, why: str, reason: Reason = Reason.not_recomputed) -> None:
        super().__init__(why)
        self.reason = reason


class Trust(str, Enum):
    """Why a tensor was taken from the capture without a check."""

    input = "input"
    """What the first operator reads from outside."""
    later_input = "inputs that appear after the first operator"
    own_weight = "weights that no given file has"
    written_through_another = "tensors whose memory an operator wrote through another tensor"
    not_recomputed = "results that were not recomputed"
    made_by_no_operator = "tensors that no operator made"
    """Read as if they were written through another tensor, but no operator before wrote memory of their shape."""
    overwritten = "tensors that an operator overwrote before they were read"


# With one of these the operators do not belong together.
broken = (Trust.made_by_no_operator, Trust.overwritten)


class TrustedTensor(NamedTuple):
    """A tensor that was taken from the capture without a check."""

    tensor: str
    """Its name in graph.json; for a weight its name in the model."""
    reason: Trust
    operator: int
    """The first operator that reads it."""

    def __str__(self) -> str:
        return f"tensor {shown(self.tensor)}, which operator {self.operator} reads: {self.reason.value}"


class Differs(Exception):
    """What makes an operator differ without a comparison of its outputs."""


class OtherWeight(Differs):
    """A weight of the caller's files that is not the captured one."""


class Value(NamedTuple):
    array: np.ndarray
    known: np.ndarray | None = None
    """Which elements are known, in the shape of `array`; None: all."""

    def mask(self) -> np.ndarray:
        return np.broadcast_to(np.True_, self.array.shape) if self.known is None else self.known

    def whole(self, what: str) -> np.ndarray:
        if self.known is not None and not self.known.all():
            raise CannotSay(f"{what} is not known whole")
        return self.array


class Tensor(NamedTuple):
    """An output as the capture describes it."""

    dtype: np.dtype
    shape: tuple[int, ...]


def tensors_in(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict) and "tensor" in value:
        yield value["tensor"]


def reads_of(operator: dict[str, Any]) -> list[str]:
    """The tensors among the arguments of an operator."""
    return list(tensors_in([operator["args"], *operator["kwargs"].values()]))


roles = ("input", "weight", "value", "changed")

# Their results are the memory of their first argument.
_aliases = ("view", "_unsafe_view", "t", "transpose", "permute", "unsqueeze", "squeeze", "expand", "slice", "select",
            "detach", "alias", "split", "split_with_sizes", "unbind", "as_strided", "_reshape_alias")  # fmt: skip


def _stem(op: str) -> str:
    """Of "aten.add_.Tensor": "add_"."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else op


def writes_its_argument(op: str) -> bool:
    stem = _stem(op)
    return stem.endswith("_") and not stem.endswith("__")


def trust_of_reads(tensors: dict[str, Any], operators: list[dict[str, Any]]) -> dict[str, TrustedTensor]:
    """The tensors that the operators read and none of them made, apart from weights."""
    trusted: dict[str, TrustedTensor] = {}
    memory: dict[str, str] = {}  # of a view: the tensor whose memory it is
    families: dict[str, set[str]] = {}  # the tensors of one memory
    stale: set[str] = set()
    written: set[tuple[Any, ...]] = set()  # type and shape of the tensors whose memory an operator wrote

    def look(number: str) -> tuple[Any, ...]:
        about = tensors[number]
        return about["dtype"], tuple(about["shape"])

    for index, operator in enumerate(operators):
        for number in reads_of(operator):
            role = tensors[number]["role"]
            if number in trusted:
                continue
            if number in stale:
                trusted[number] = TrustedTensor(number, Trust.overwritten, index)
            elif role == "input":
                trusted[number] = TrustedTensor(number, Trust.input if index == 0 else Trust.later_input, index)
            elif role == "changed":
                reason = Trust.written_through_another if look(number) in written else Trust.made_by_no_operator
                trusted[number] = TrustedTensor(number, reason, index)
        first = next(iter(tensors_in(operator["args"][:1])), None)
        outputs = [number for number in operator["outputs"] if number is not None]
        if first is not None and (_stem(operator["op"]) in _aliases or writes_its_argument(operator["op"])):
            base = memory.get(first, first)
            family = families.setdefault(base, {base})
            family.add(first)
            if writes_its_argument(operator["op"]):
                stale |= family
                written |= {look(number) for number in family}
            for number in outputs:
                memory[number] = base
                family.add(number)
    return trusted


def bytes_of_operators(tensors: dict[str, Any], operators: list[dict[str, Any]]) -> Iterator[int]:
    """The bytes of the tensors that are kept while each operator runs, its operands and outputs included."""
    last = last_reads(operators)
    kept: dict[str, int] = {}
    for index, operator in enumerate(operators):
        for number in _touched(operator):
            about = tensors[number]
            # One byte per element: whether it is known.
            kept[number] = math.prod(about["shape"]) * (np.dtype(dtypes.get(about["dtype"], np.float64)).itemsize + 1)
        yield sum(kept.values())
        kept = {number: size for number, size in kept.items() if last[number] > index}


def _touched(operator: dict[str, Any]) -> list[str]:
    return [*reads_of(operator), *(number for number in operator["outputs"] if number is not None)]


def last_reads(operators: list[dict[str, Any]]) -> dict[str, int]:
    """The last operator that reads or makes each tensor."""
    return {number: index for index, operator in enumerate(operators) for number in _touched(operator)}


def _is_list_of_int(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _is_shape(value: Any) -> bool:
    return (
        _is_list_of_int(value)
        and len(value) < MOST_DIMENSIONS
        and all(0 <= extent < 2**40 for extent in value)
        and math.prod(value) < 2**36
    )


def _is_sampled(tensor: dict[str, Any], stored: StoredTensor | None) -> bool:
    """Whether the rows that a tensor stores are rows of it, and those of the file."""
    sampled, shape = tensor.get("sampled"), tensor["shape"]
    if sampled is None:
        return stored is None or list(stored.shape) == shape
    order, leading, rows = (sampled.get(name) for name in ("order", "leading", "rows"))
    if stored is None or not _is_list_of_int(order) or not _is_list_of_int(rows) or type(leading) is not int:
        return False
    if sorted(order) != [*range(len(shape))] or not 0 < leading < len(shape):
        return False
    count = math.prod(shape[at] for at in order[:leading])
    if not all(0 <= row < count for row in rows):
        return False
    return list(stored.shape) == [len(rows), math.prod(shape) // max(count, 1)]


def _checked(
    graph: dict[str, Any], data: dict[str, StoredTensor]
) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """The parts of graph.json, with fields of the types that are read below."""

    def need(is_right: bool, field: str, seen: Any, legal: str) -> None:
        if not is_right:
            raise refuse(f"graph.json: {field}", shown(seen), legal)

    def part(name: str, kind: type, legal: str) -> Any:
        need(isinstance(graph.get(name), kind), name, graph.get(name), legal)
        return graph[name]

    machine: dict[str, Any] = part("machine", dict, "an object")
    tensors: dict[str, Any] = part("tensors", dict, "an object")
    operators: list[dict[str, Any]] = part("operators", list, "a list")
    need(
        type(machine.get("multiprocessors", 132)) is int and machine.get("multiprocessors", 132) > 0,
        "multiprocessors",
        machine.get("multiprocessors"),
        "a whole number above 0",
    )
    for number, tensor in tensors.items():
        field = f"tensor {shown(number)}"
        need(
            isinstance(tensor, dict)
            and isinstance(tensor.get("dtype"), str)
            and isinstance(tensor.get("role"), str)
            and _is_shape(tensor.get("shape")),
            field,
            tensor,
            "dtype, role and a shape of whole numbers",
        )
        strides = tensor.get("strides", [])
        need(_is_list_of_int(strides), f"{field}: strides", strides, "whole numbers")
        need(tensor["role"] in roles, f"{field}: role", tensor["role"], ", ".join(roles))
        need(
            tensor["role"] != "weight"
            or (isinstance(tensor.get("name"), str) and isinstance(tensor.get("sha256"), str)),
            field,
            tensor,
            "a weight's name and sha256",
        )
        stored = data.get(number)
        if stored is not None and tensor["dtype"] in dtypes:
            need(
                stored.dtype == np.dtype(dtypes[tensor["dtype"]]),
                field,
                f"{stored.dtype} in tensors.safetensors",
                tensor["dtype"],
            )
        need(
            not isinstance(tensor.get("sampled", {}), dict) or _is_sampled(tensor, stored),
            field,
            tensor,
            "rows of its shape, stored in tensors.safetensors",
        )
        need(isinstance(tensor.get("sampled", {}), dict), field, tensor, "sampled: order, leading and rows")
    hashes: dict[str, str] = {}
    for weight in tensors.values():
        if weight["role"] == "weight":
            need(
                hashes.setdefault(weight["name"], weight["sha256"]) == weight["sha256"],
                f"weight {shown(weight['name'])}",
                weight["sha256"],
                "one SHA-256 for all tensors of this name",
            )
    made: set[str] = set()
    for index, operator in enumerate(operators):
        field = f"operator {index}"
        need(
            isinstance(operator, dict)
            and isinstance(operator.get("op"), str)
            and isinstance(operator.get("args"), list)
            and isinstance(operator.get("kwargs"), dict)
            and isinstance(operator.get("outputs"), list),
            field,
            operator,
            "op, args, kwargs and outputs",
        )
        outputs = [number for number in operator["outputs"] if isinstance(number, str)]
        read = [*outputs, *reads_of(operator)]
        need(
            all(isinstance(number, str) and number in tensors for number in read),
            field,
            read,
            "tensors that graph.json describes",
        )
        operator["outputs"] = [number if isinstance(number, str) else None for number in operator["outputs"]]
        need(
            all(tensors[number]["role"] != "value" or number in made for number in read[len(outputs) :]),
            field,
            read,
            "results of operators before it, weights and inputs",
        )
        need(
            all(tensors[number]["role"] == "value" and number not in made for number in outputs)
            and len(set(outputs)) == len(outputs),
            field,
            outputs,
            "outputs that no operator before it made",
        )
        made |= set(outputs)
        kernels = operator.get("kernels", [])
        need(
            isinstance(kernels, list)
            and all(isinstance(kernel, dict) and isinstance(kernel.get("name"), str) for kernel in kernels),
            field,
            kernels,
            "kernels with names",
        )
        need(
            type(operator.get("slices", 0)) is int and 0 <= operator.get("slices", 0) < 2**20,
            field,
            operator.get("slices"),
            "slices: a whole number",
        )
        state = operator.get("generator", {"seed": 0, "offset": 0})
        need(
            isinstance(state, dict)
            and all(type(state.get(name)) is int and 0 <= state[name] < 2**64 for name in ("seed", "offset")),
            field,
            state,
            "a generator with seed and offset",
        )
    return machine, tensors, operators


def _generated(source: dict[str, Any], about: Tensor) -> np.ndarray:
    """A weight that the capture tells how to make."""
    seed, stream, gain = source.get("seed"), source.get("stream"), source.get("gain", 1)
    if type(seed) is not int or not isinstance(stream, str) or type(gain) not in (int, float) or abs(gain) > 2**64:
        raise CannotSay("a weight is generated from what is no seed, stream and gain")
    format = "bf16" if about.dtype == ml_dtypes.bfloat16 else "f16" if about.dtype == np.float16 else "f32"
    made = generated(format, (about.shape[0], about.shape[1]), seed, stream)
    scaled: np.ndarray = made.astype(np.float32) * np.float32(gain)
    return scaled.astype(about.dtype)


class Capture:
    """What tools/capture.py wrote."""

    def __init__(self, path: Path, weights: Iterable[Path] = ()):
        self.path = path = Path(_core.located(os.fspath(path)))
        try:
            text = (path / "graph.json").read_text()
        except OSError as error:
            raise Error(
                f"{path / 'graph.json'}: {error.strerror}. tools/capture.py writes a folder with this file"
            ) from None
        except ValueError as error:
            raise refuse(str(path / "graph.json"), "not readable", "JSON", str(error)) from None
        graph = parse_json(text, str(path / "graph.json"))
        if not isinstance(graph, dict) or graph.get("format") != FORMAT:
            raise refuse("format", shown(graph.get("format") if isinstance(graph, dict) else graph), FORMAT)
        self.data = read_safetensors(path / "tensors.safetensors")[1]
        self.machine, self.tensors, self.operators = _checked(graph, self.data.about)
        self.weights: dict[str, Mapping[str, np.ndarray]] = {}
        """By name the file that has the weight."""
        for file in weights:
            tensors = read_safetensors(file)[1]
            self.weights |= dict.fromkeys(tensors, tensors)
        self.loaded: dict[str, np.ndarray] = {}
        self.own_weights: dict[str, str] = {}
        """Names of weights, by their tensors, that no file of the caller has: the capture stores them, or describes how
        they are made."""

    def about(self, number: str | None) -> Tensor | None:
        if number is None:
            return None
        tensor = self.tensors[number]
        return Tensor(np.dtype(dtypes[tensor["dtype"]]), tuple(tensor["shape"])) if tensor["dtype"] in dtypes else None

    def weight(self, number: str) -> Value:
        if number not in self.loaded:
            self.loaded[number] = self.load(number)
        return Value(self.loaded[number])

    def load(self, number: str) -> np.ndarray:
        tensor, about = self.tensors[number], self.about(number)
        name, source = tensor["name"], tensor.get("source")
        is_given = name in self.weights
        if about is None:
            raise CannotSay(f"the weight {name} is of an unknown type, {shown(tensor['dtype'])}")
        if is_given:
            made = self.weights[name][name]
        elif number in self.data:
            self.own_weights[number] = name
            made = self.data[number]
        elif isinstance(source, dict) and source.get("generator") == "philox4x32-10/triangle" and len(about.shape) == 2:
            made = _generated(source, about)
            self.own_weights[number] = name
        else:
            raise CannotSay(f"the weight {name} is not in the capture: give the file that has it (weights)")
        if made.shape != about.shape or made.dtype != about.dtype:
            raise (OtherWeight if is_given else CannotSay)(
                f"the weight {name} is {made.dtype} {list(made.shape)} in the file, "
                f"{about.dtype} {list(about.shape)} in the capture"
            )
        if hashlib.sha256(np.ascontiguousarray(made).view(np.uint8).data).hexdigest() != tensor["sha256"]:
            raise (OtherWeight if is_given else CannotSay)(
                f"the weight {name} is not the captured one: its SHA-256 differs"
            )
        return made

    def recorded(self, number: str, most: int | None = None) -> Value | None:
        """The stored value; None if nothing of it is stored."""
        if number not in self.data:
            return None
        stored, about, sampled = self.data[number], self.about(number), self.tensors[number].get("sampled")
        if about is None:
            return None
        if sampled is None:
            return Value(stored.reshape(about.shape))
        order, rows = sampled["order"], sampled["rows"][:most]
        shape = [about.shape[axis] for axis in order]
        count = math.prod(shape[: sampled["leading"]])
        array, known = np.zeros((count, math.prod(shape) // max(count, 1)), about.dtype), np.zeros(count, bool)
        array[rows], known[rows] = stored[: len(rows)].reshape(len(rows), -1), True
        back = np.argsort(order)
        mask = np.broadcast_to(known[:, None], array.shape).reshape(shape).transpose(back)
        return Value(array.reshape(shape).transpose(back), mask)
