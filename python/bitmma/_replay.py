# SPDX-License-Identifier: MIT
"""Recomputes a capture of tools/capture.py operator by operator, and compares two captures."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from . import _replay_rules as rules, operators
from ._arguments import path_of, public, unchecked
from ._captured import (
    CannotSay,
    Capture,
    Differs,
    OtherWeight,
    Reason,
    Tensor,
    Trust,
    TrustedTensor,
    Value,
    broken,
    bytes_of_operators,
    last_reads,
    reads_of,
    tensors_in,
    trust_of_reads,
)
from ._errors import Error, count_of, flag_of, printable, refuse, shown, threads_of
from ._gemm import find_plans, gemm
from ._replay_arguments import bound, float_of


@dataclass(frozen=True)
class Verdict:
    """Of one operator."""

    index: int
    op: str
    status: str
    """"same", "differs", "cannot say", or "moves": an operator that moves elements, and of whose outputs the capture
    stores none."""
    outputs: int
    """The number of outputs compared."""
    differ: int
    flops: int
    where: str = ""
    why: str = ""
    """What explains a difference, or why nothing can be said."""
    kernels: tuple[str, ...] = ()
    code: Reason | None = None
    """Of "cannot say": "no rule"; "no main output" if the capture leaves out the first output; "not recomputed" for any
    other reason."""

    def __str__(self) -> str:
        text = {
            "same": f"same bits ({self.outputs} outputs)",
            "differs": f"{self.differ} of {self.outputs} outputs differ",
            "cannot say": "cannot say",
            "moves": "moves elements",
        }[self.status]
        more = "; ".join(filter(None, (self.where, self.why)))
        return printable(f"{self.index} {self.op}: {text}{': ' + more if more else ''}")


class Replay(NamedTuple):
    """The verdicts of all operators."""

    verdicts: list[Verdict]
    machine: dict[str, Any]
    seconds: float
    end_to_end: bool
    trusted: dict[str, int]
    """What was taken from the capture without a check, and how many tensors."""
    trusted_tensors: tuple[TrustedTensor, ...] = ()
    """Each of these tensors, with the reason, and what the first operator reads from outside."""

    @property
    def same(self) -> bool:
        """Whether no output differs, something was compared, and the operators belong together: the capture leaves out
        no main output that could be compared, and no operator reads a tensor that is neither an input nor the result of
        an operator before it."""
        is_contradicted = any(
            verdict.status == "differs" or verdict.code == Reason.no_main_output for verdict in self.verdicts
        )
        is_broken = any(tensor.reason in broken for tensor in self.trusted_tensors)
        return any(verdict.outputs for verdict in self.verdicts) and not is_contradicted and not is_broken

    @property
    def first(self) -> Verdict | None:
        """The first operator whose outputs differ."""
        return next((verdict for verdict in self.verdicts if verdict.status == "differs"), None)

    def coverage(self) -> dict[str, Any]:
        """Which share of the operators and of their floating-point operations was recomputed."""
        counted = [verdict for verdict in self.verdicts if verdict.status != "moves"]
        done = [verdict for verdict in counted if verdict.status != "cannot say"]
        flops = sum(verdict.flops for verdict in counted)
        return {
            "operators": len(counted),
            "recomputed": len(done),
            "flops": flops,
            "flops_recomputed": sum(verdict.flops for verdict in done),
            "outputs": sum(verdict.outputs for verdict in done),
            "differ": sum(verdict.differ for verdict in done),
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "same": self.same,
            "machine": self.machine,
            "end_to_end": self.end_to_end,
            "trusted": self.trusted,
            "trusted_tensors": [tensor._asdict() for tensor in self.trusted_tensors],
            "seconds": round(self.seconds, 3),
            "coverage": self.coverage(),
            "operators": [asdict(verdict) | {"kernels": list(verdict.kernels)} for verdict in self.verdicts],
        }

    def __str__(self) -> str:
        c = self.coverage()
        lines = [f"captured on {self.machine.get('gpu', 'a CPU')}, PyTorch {self.machine.get('torch')}"]
        differing = [verdict for verdict in self.verdicts if verdict.status == "differs"]
        lines += [str(verdict) for verdict in differing[:10]]
        lines += [f"... and {len(differing) - 10} more that differ"] if len(differing) > 10 else []
        reasons: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            if verdict.status == "cannot say":
                reasons.setdefault(f"{verdict.op}: {verdict.why}", []).append(verdict)
        lines += [f"cannot say ({len(verdicts)}): {reason}" for reason, verdicts in reasons.items()]
        if any(verdict.code == Reason.no_rule for verdict in self.verdicts):
            lines.append("operators without a rule count as one operation for each output, however large they are")
        lines += [
            f"taken from the capture without a check: {count} {what}{self._names(what)}"
            for what, count in self.trusted.items()
            if count
        ]
        if not c["outputs"]:
            lines.append("no output was compared")
        if self.machine.get("compiled"):
            lines.append(
                "a compiled model: its Triton kernels are not among the operators; "
                "`bitmma verify` repeats those that record_triton.py recorded"
            )
        share = 100 * c["flops_recomputed"] / c["flops"] if c["flops"] else 0
        lines.append(
            f"{c['recomputed']} of {c['operators']} operators recomputed, "
            f"{share:.2f} % of the floating-point operations, {c['outputs']} outputs compared, {c['differ']} differ "
            f"({self.seconds:.1f} s)"
        )
        return printable("\n".join(lines))

    def _names(self, reason: str) -> str:
        names = [shown(trusted.tensor) for trusted in self.trusted_tensors if trusted.reason.value == reason]
        return f" ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''})" if names else ""


def _arguments_of(value: Any, values: Callable[[str], Value]) -> Any:
    if isinstance(value, list):
        return [_arguments_of(part, values) for part in value]
    if isinstance(value, dict):
        if "tensor" in value:
            return values(value["tensor"])
        return float_of(value["float"]) if "float" in value else value.get("other")
    return value


def _operator(name: str) -> str:
    """Operators that write into a given tensor, as compiled models call them, have the rule of those that return
    one."""
    return name.removesuffix("out") + "default" if name.endswith(".out") else name


def _flops(op: str, shapes: list[list[int]], outputs: list[Tensor | None]) -> int:
    size = sum(math.prod(output.shape) for output in outputs[:1] if output)
    # Of tensors without these dimensions the operator is not recomputed.
    if op.startswith(("aten.mm", "aten.bmm", "aten._scaled_mm", "aten._int_mm")) and shapes and shapes[0]:
        return 2 * size * shapes[0][-1]
    if op.startswith(("aten.addmm", "aten._addmm")) and len(shapes) > 1 and shapes[1]:
        return 2 * size * shapes[1][-1]
    if "attention" in op and len(shapes) > 1 and len(shapes[1]) > 1:
        return 4 * size * shapes[1][-2]
    return size


def _compared(made: Value, recorded: Value) -> tuple[int, np.ndarray]:
    """The number of outputs that both know, and the places of those that differ."""
    mask = made.mask() & recorded.mask()
    different = (
        np.ascontiguousarray(made.array).view(_words(made.array))
        != np.ascontiguousarray(recorded.array).view(_words(recorded.array))
    ) & mask
    return int(mask.sum()), np.argwhere(different)


def _words(array: np.ndarray) -> str:
    return f"u{array.dtype.itemsize}"


def _where(places: np.ndarray, shape: tuple[int, ...], compared: int) -> str:
    if len(places) == compared:
        return "all outputs"
    texts = []
    for axis in range(len(shape)):
        seen = np.unique(places[:, axis])
        if len(seen) == 1 and shape[axis] > 1:
            name = "column" if axis == len(shape) - 1 else "row" if axis == len(shape) - 2 else f"index {axis}"
            texts.append(f"{name} {seen[0]}")
    first = ", ".join(str(place) for place in places[0])
    return f"all in {', '.join(texts)}" if texts else f"the first at [{first}]"


_of_memory = ("dtype", "device", "layout", "pin_memory", "non_blocking", "memory_format")


class _Run:
    def __init__(self, capture: Capture, rows: int | None, threads: int, end_to_end: bool, explain: bool):
        self.capture, self.rows, self.threads, self.end_to_end, self.explain = (
            capture,
            rows,
            threads,
            end_to_end,
            explain,
        )
        self.values: dict[str, Value] = {}
        self.reasons: dict[str, str] = {}
        self.recomputed: set[str] = set()
        self.as_recorded: dict[str, int] = {}
        """Results that were not recomputed, with the operator that reads them."""
        self.index = 0
        self.reads = trust_of_reads(capture.tensors, capture.operators)

    def value(self, number: str) -> Value:
        if (
            self.capture.tensors[number]["role"] == "value"
            and number not in self.recomputed
            and number in self.capture.data
        ):
            self.as_recorded.setdefault(number, self.index)
        if number in self.values:
            return self.values[number]
        if self.capture.tensors[number]["role"] == "weight":
            return self.capture.weight(number)
        recorded = self.capture.recorded(number, self.rows)
        if recorded is None:
            raise CannotSay(
                self.reasons.get(number, "an input is not stored, and the operator that made it was not recomputed")
            )
        self.values[number] = recorded
        return recorded

    def trusted(self) -> tuple[TrustedTensor, ...]:
        weights = {
            number: index
            for index, operator in reversed(list(enumerate(self.capture.operators)))
            for number in reads_of(operator)
            if number in self.capture.own_weights
        }
        return tuple(
            sorted(
                [
                    *self.reads.values(),
                    *(
                        TrustedTensor(self.capture.own_weights[number], Trust.own_weight, index)
                        for number, index in weights.items()
                    ),
                    *(TrustedTensor(number, Trust.not_recomputed, index) for number, index in self.as_recorded.items()),
                ],
                key=lambda tensor: tensor.operator,
            )
        )

    def require_memory(self, limit: int) -> None:
        """Throws Error if the tensors that are kept at a time need more than `limit` bytes."""
        for index, size in enumerate(bytes_of_operators(self.capture.tensors, self.capture.operators)):
            if size > limit:
                op = shown(self.capture.operators[index]["op"])
                raise refuse(
                    f"{self.capture.path / 'graph.json'}: operator {index}, {op}",
                    f"tensors of {size} bytes",
                    f"at most {limit} bytes at a time",
                    "memory_limit=... allows more",
                )

    def compute(self, operator: dict[str, Any]) -> list[Value | None]:
        op, outputs = _operator(operator["op"]), [self.capture.about(number) for number in operator["outputs"]]
        if op.startswith(("aten.as_strided.", "aten.mean.", "aten.sum.")) and not all(
            self.is_contiguous(number) for number in list(tensors_in(operator["args"]))[:1]
        ):
            raise CannotSay("its input is not contiguous")
        rule = rules.rule_of(op)
        if rule is None and op not in rules.views:
            raise CannotSay("no rule for this operator", Reason.no_rule)
        main = outputs[0] if outputs else None
        if main is None:
            raise CannotSay("the capture leaves out its main output", Reason.no_main_output)
        args = _arguments_of(operator["args"], self.value)
        # Where the output lies decides no bit; its type and shape are recorded.
        options = {
            name: _arguments_of(value, self.value)
            for name, value in operator["kwargs"].items()
            if name not in _of_memory
        }
        if rule is None:
            return self.viewed(op, args, options, main, len(outputs))
        call = rules.Call(
            main,
            outputs,
            [kernel["name"] for kernel in operator["kernels"]] if "kernels" in operator else None,
            operator.get("slices", 0),
            self.capture.machine,
            self.rows,
            self.threads,
            operator.get("generator"),
        )
        arguments = bound(rule, (call,), args, options)
        made = rule(*arguments.args, **arguments.kwargs)
        return made if isinstance(made, list) else [made]

    def viewed(
        self, op: str, args: list[Any], options: dict[str, Any], output: Tensor, outputs: int
    ) -> list[Value | None]:
        """The elements and, if only some are known, their mask: both move in the same way."""
        move = rules.views[op]
        arguments = bound(move, (), args, options)
        rules.require_views(op, arguments.arguments, output, outputs)
        x: Value = arguments.args[0]
        rest = arguments.args[1:]
        arrays: Any = move(x.array, *rest, **arguments.kwargs)
        masks: Any = None if x.known is None else move(x.known, *rest, **arguments.kwargs)
        if isinstance(arrays, list):
            return [Value(array, None if masks is None else masks[i]) for i, array in enumerate(arrays)]
        return [Value(arrays, masks)]

    def is_contiguous(self, number: str) -> bool:
        """By the captured strides. Extents of 1 do not matter."""
        tensor, expected = self.capture.tensors[number], 1
        for size, stride in zip(reversed(tensor["shape"]), reversed(tensor.get("strides", [])), strict=False):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    def verdict(self, index: int, operator: dict[str, Any]) -> Verdict:
        capture, op, self.index = self.capture, operator["op"], index
        outputs = [capture.about(number) for number in operator["outputs"]]
        flops = _flops(op, [capture.tensors[number]["shape"] for number in tensors_in(operator["args"])], outputs)
        kernels = tuple(kernel["name"] for kernel in operator.get("kernels", ()))
        made: list[Value | None] | None = None
        try:
            made = self.compute(operator)
        except Differs as error:
            return Verdict(index, op, "differs", 1, 1, flops, why=str(error), kernels=kernels)
        except (CannotSay, Error, MemoryError) as error:
            reason = str(error).partition("\n")[0] or "not enough memory"
            code = error.reason if isinstance(error, CannotSay) else Reason.not_recomputed
        if made is None:
            self.reasons |= {number: reason for number in operator["outputs"] if number is not None}
            return Verdict(
                index,
                op,
                "moves" if op in rules.views and code != Reason.no_main_output else "cannot say",
                0,
                0,
                flops,
                why=reason,
                kernels=kernels,
                code=code,
            )
        compared, differ, where, why = 0, 0, "", ""
        stored, main = False, 0
        for number, about, value in zip(operator["outputs"], outputs, made, strict=False):
            if number is None or value is None or about is None:
                continue
            if value.array.shape != about.shape or value.array.dtype != about.dtype:
                return Verdict(
                    index,
                    op,
                    "differs",
                    1,
                    1,
                    flops,
                    why=f"the output is {about.dtype} {list(about.shape)}, not {value.array.dtype} "
                    f"{list(value.array.shape)}",
                    kernels=kernels,
                )
            recorded = capture.recorded(number, self.rows)
            if recorded is not None:
                stored = True
                if not self.end_to_end:
                    self.values[number] = recorded
                count, places = _compared(value, recorded)
                compared, differ = compared + count, differ + len(places)
                main += count if number == operator["outputs"][0] else 0
                if count or not value.array.size:
                    self.recomputed.add(number)
                if len(places) and not where:
                    where = _where(places, about.shape, count)
                    if self.explain and not self.end_to_end:
                        why = self.cause(operator, value, recorded, places)
            if self.end_to_end or recorded is None:
                self.values[number] = value
                self.recomputed.add(number)
        if differ:
            return Verdict(index, op, "differs", compared, differ, flops, where, why, kernels)
        if not stored:
            return (
                Verdict(index, op, "moves", 0, 0, flops, kernels=kernels)
                if op in rules.views
                else Verdict(
                    index,
                    op,
                    "cannot say",
                    0,
                    0,
                    flops,
                    why="the capture stores no output of it",
                    kernels=kernels,
                    code=Reason.not_recomputed,
                )
            )
        if not main and (made[0] is None or made[0].array.size):
            if compared:
                return Verdict(
                    index,
                    op,
                    "cannot say",
                    0,
                    0,
                    flops,
                    why="only outputs beside its main output could be compared",
                    kernels=kernels,
                    code=Reason.not_recomputed,
                )
            return Verdict(
                index,
                op,
                "cannot say",
                0,
                0,
                flops,
                why="no output is known that its inputs give",
                kernels=kernels,
                code=Reason.not_recomputed,
            )
        return Verdict(index, op, "same", compared, 0, flops, kernels=kernels)

    def cause(self, operator: dict[str, Any], made: Value, recorded: Value, places: np.ndarray) -> str:
        """What gives the recorded bits instead."""
        try:
            if _operator(operator["op"]) in ("aten.mm.default", "aten.addmm.default"):
                return self.cause_of_product(operator, made, recorded, places)
            if "dot_product" in operator["op"]:
                return self.cause_of_attention(operator, recorded)
        except (CannotSay, Differs, Error):
            pass
        return ""

    def cause_of_product(self, operator: dict[str, Any], made: Value, recorded: Value, places: np.ndarray) -> str:
        args = _arguments_of(operator["args"], self.value)
        bias, (a, b) = (args[0].array if len(args) == 3 else None), args[-2:]
        known = np.flatnonzero((a.mask().all(-1)) & recorded.mask().all(-1))
        rows, cols = np.union1d(np.unique(places[:, 0])[:12], known[:4]), np.unique(places[:, -1])
        if len(cols) == 1 and 2 * len(places) > np.count_nonzero((recorded.mask() & made.mask())[:, cols[0]]):
            return f"other weights of column {cols[0]}"
        # Columns that do not differ exclude plans too.
        cols = np.union1d(cols[:48], np.linspace(0, made.array.shape[-1] - 1, 16).astype(int))
        left, right = np.ascontiguousarray(a.array[rows]), np.ascontiguousarray(b.array[:, cols])
        d = np.ascontiguousarray(recorded.array[rows][:, cols])
        more = None if bias is None or bias.ndim != 1 else bias[cols]
        plans = find_plans(left, right, d, bias=more, timeout=15, threads=self.threads)
        if len(plans):
            others = f", or of {len(plans.families) - 1} other families" if len(plans.families) > 1 else ""
            return f"the recorded bits are those of another plan: {plans.families[0].name}{others}"
        if not b.array.size:
            return ""
        weights = right.astype(np.float32)
        for text, scale in (
            ("a scale for all", np.abs(b.array.astype(np.float32)).max() / 448),
            ("a scale for each column", np.abs(weights).max(0) / 448),
        ):
            scale = np.float32(scale) if np.ndim(scale) == 0 else np.where(scale == 0, 1, scale).astype(np.float32)
            rounded = ((weights / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale).astype(
                b.array.dtype
            )
            name = " + ".join(kernel["name"] for kernel in operator.get("kernels", ()))
            if (
                gemm(left, rounded, bias=more, kernel=name, split_k=operator.get("slices", 0)).view(_words(d))
                == d.view(_words(d))
            ).all():
                return f"the recorded bits are those of weights that were rounded to e4m3, with {text}"
        for target in ("sm_80", "sm_89", "sm_100a"):
            try:
                other = gemm(
                    left,
                    right,
                    "flat",
                    bias=more,
                    target=target,
                    out_dtype={2: "bf16" if d.dtype != np.float16 else "f16", 4: "f32"}[d.dtype.itemsize],
                )
            except Error:
                continue
            if (other.view(_words(d)) == d.view(_words(d))).all():
                return f"the recorded bits are those of one chain over K on {target}"
        return "no plan of the search gives the recorded bits"

    def cause_of_attention(self, operator: dict[str, Any], recorded: Value) -> str:
        args = _arguments_of(operator["args"], self.value)
        q, k, v = args[:3]
        options = {name: _arguments_of(value, self.value) for name, value in operator["kwargs"].items()}
        causal = (
            args[4]
            if "flash" in operator["op"] and len(args) > 4
            else args[6]
            if "efficient" in operator["op"] and len(args) > 6
            else options.get("is_causal", False)
        )
        scale = {"scale": options["scale"]} if options.get("scale") is not None else {}
        tries = [(f"{splits} parts of the keys", {"splits": splits}) for splits in range(1, 17)] + [
            ("the memory-efficient kernel", {"backend": "efficient"})
        ]
        for text, more in [*tries, ("no causal mask" if causal else "a causal mask", {"is_causal": not causal})]:
            try:
                made = operators.attention(
                    q.array, k.whole("K"), v.whole("V"), **{"is_causal": causal, **scale, **more}, threads=self.threads
                )
            except Error:
                continue
            if not len(_compared(Value(made, q.known), recorded)[1]):
                return f"the recorded bits are those of {text}"
        return (
            "neither another number of splits, nor the memory-efficient kernel, nor another mask gives the recorded "
            "bits"
        )


def _files(weights: Any) -> list[Path]:
    if not isinstance(weights, (str, bytes, os.PathLike, list, tuple)):
        raise refuse("weights", shown(weights), "the path of a safetensors file or of a folder, or a list of them")
    listed = [path_of(name, "weights") for name in (weights if isinstance(weights, (list, tuple)) else [weights])]
    return [
        path
        for name in listed
        for path in (sorted(Path(name).glob("*.safetensors")) if Path(name).is_dir() else [Path(name)])
    ]


@public(capture=path_of, weights=unchecked, rows=unchecked, progress=unchecked)
def replay(
    capture: str | Path,
    *,
    weights: Any = (),
    rows: int | None = None,
    end_to_end: bool = False,
    explain: bool = True,
    threads: int = 0,
    memory_limit: int = 16 << 30,
    progress: Callable[[int, int], object] | None = None,
) -> Replay:
    """Recomputes what tools/capture.py captured on a GPU, operator by operator, and compares every stored bit.

    capture      the folder
    weights      paths of safetensors files with the model's weights, by their names in the model; each is checked by
                 its SHA-256
    rows         at most so many of the stored rows of large tensors, and of products
    end_to_end   True: from the inputs alone. Each operator takes what the one before was computed to give, not what was
                 recorded
    explain      search for what else gives the recorded bits of a product or attention that differs
    threads      0: all cores. No bit depends on it
    memory_limit Error if the capture's tensors need more bytes at a time
    progress     called with the number of operators done and of all

    Returns a Replay: `.same`, `.trusted_tensors` (what was not recomputed, and why), `.first` (the first operator that
    differs), `.verdicts`, `.coverage()`; str() prints a summary.
    """
    threads, begun = threads_of(threads), time.monotonic()
    run = _Run(
        Capture(Path(capture), _files(weights)),
        None if rows is None else count_of(rows, "rows", 1),
        threads,
        flag_of(end_to_end, "end_to_end"),
        flag_of(explain, "explain"),
    )
    if progress is not None and not callable(progress):
        raise refuse("progress", shown(progress), "a function of two numbers")
    run.require_memory(count_of(memory_limit, "memory_limit", 1, 2**63 - 1))
    last: dict[int, list[str]] = {}
    for number, index in last_reads(run.capture.operators).items():
        last.setdefault(index, []).append(number)
    verdicts = []
    for index, operator in enumerate(run.capture.operators):
        verdicts.append(run.verdict(index, operator))
        for number in last.get(index, []):
            run.values.pop(number, None)
        if progress is not None:
            progress(index + 1, len(run.capture.operators))
    trusted = run.trusted()
    counts = {
        reason.value: sum(tensor.reason == reason for tensor in trusted) for reason in Trust if reason != Trust.input
    }
    return Replay(verdicts, run.capture.machine, time.monotonic() - begun, run.end_to_end, counts, trusted)


@dataclass(frozen=True)
class CapturesCompared:
    """Where two captures of the same operators part."""

    index: int | None
    """The first operator whose outputs differ; None: there is none."""
    op: str
    why: str
    """What differs: the inputs, a weight, the kernels; empty if nothing does."""
    verdicts: tuple[Verdict, ...]
    """Of that operator in both captures."""
    outputs: int
    """The number of outputs that were equal before it."""

    @property
    def same(self) -> bool:
        """Whether both captures store outputs of the same rows, and all of them are equal."""
        return self.index is None and self.outputs > 0

    def __str__(self) -> str:
        if self.index is None and not self.outputs:
            return "the captures store no rows in common: nothing was compared"
        if self.index is None:
            return f"all {self.outputs} outputs that both captures store are equal"
        first = f"operator {self.index}, {self.op}, is the first that differs: {self.why}"
        lines = [f"{first} ({self.outputs} outputs before it are equal)"]
        return printable(
            "\n".join(
                lines
                + [
                    f"{name}: {verdict}"
                    for name, verdict in zip(("first capture", "second capture"), self.verdicts, strict=False)
                ]
            )
        )


def _first_input_that_differs(runs: tuple[_Run, _Run], operators_here: tuple[dict[str, Any], dict[str, Any]]) -> str:
    for numbers in zip(*(reads_of(operator) for operator in operators_here), strict=False):
        abouts = [run.capture.tensors[number] for run, number in zip(runs, numbers, strict=True)]
        if abouts[0]["role"] == abouts[1]["role"] == "weight":
            if abouts[0]["sha256"] != abouts[1]["sha256"]:
                return f"the weight {abouts[0]['name']} is another one"
            continue
        values = [run.value(number) for run, number in zip(runs, numbers, strict=True)]
        if values[0].array.shape != values[1].array.shape or values[0].array.dtype != values[1].array.dtype:
            kinds = [f"{value.array.dtype} {list(value.array.shape)}" for value in values]
            return f"an input is {kinds[0]} and {kinds[1]}"
        if len(_compared(*values)[1]):
            return (
                "the captures begin with different inputs"
                if abouts[0]["role"] == "input"
                else "an input differs that no operator before it made"
            )
    return ""


def _plain(operator: dict[str, Any]) -> list[Any]:
    """The arguments without tensors."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(part) for part in value]
        return "a tensor" if isinstance(value, dict) and "tensor" in value else value

    return [
        *plain(operator["args"]),
        *(f"{name} = {plain(value)}" for name, value in sorted(operator["kwargs"].items()) if name not in _of_memory),
    ]


def _recorded_outputs(run: _Run, operator: dict[str, Any]) -> list[Value | None]:
    return [None if number is None else run.capture.recorded(number, run.rows) for number in operator["outputs"]]


@public(first=path_of, second=path_of, weights=unchecked)
def compare_captures(first: str | Path, second: str | Path, *, weights: Any = (), threads: int = 0) -> CapturesCompared:
    """The first operator whose outputs differ in two captures of the same operators, and why: other inputs, another
    weight, another kernel. Each capture's own verdict about this operator shows which of the two follows from its
    inputs.

    `weights` are paths of safetensors files, as in `replay`.
    """
    files = _files(weights)
    runs = tuple(_Run(Capture(Path(path), files), None, threads_of(threads), False, True) for path in (first, second))
    both = (runs[0], runs[1])
    outputs = 0
    for index, operators_here in enumerate(zip(both[0].capture.operators, both[1].capture.operators, strict=False)):
        if operators_here[0]["op"] != operators_here[1]["op"]:
            return CapturesCompared(
                index, operators_here[0]["op"], f"the other capture has {operators_here[1]['op']} here", (), outputs
            )
        stored = [_recorded_outputs(run, operator) for run, operator in zip(both, operators_here, strict=True)]
        moved = [
            number
            for number, value in zip(operators_here[0]["outputs"], stored[0], strict=True)
            if number is not None and value is None
        ]
        differ = len(stored[0]) != len(stored[1])
        for pair in zip(*stored, strict=False):
            if pair[0] is not None and pair[1] is not None:
                if pair[0].array.shape != pair[1].array.shape or pair[0].array.dtype != pair[1].array.dtype:
                    differ = True
                    continue
                count, places = _compared(*pair)
                differ, outputs = differ or bool(len(places)), outputs + (0 if len(places) else count)
        if differ:
            try:
                why = _first_input_that_differs(both, operators_here)
            except (CannotSay, OtherWeight) as reason:
                why = f"whether its inputs do cannot be said: {reason}"
            if not why and _plain(operators_here[0]) != _plain(operators_here[1]):
                why = f"the arguments are {_plain(operators_here[0])} and {_plain(operators_here[1])}"
            if not why and len(stored[0]) != len(stored[1]):
                why = f"the captures list {len(stored[0])} and {len(stored[1])} outputs of it"
            if not why:
                names = [
                    " + ".join(kernel["name"] for kernel in operator.get("kernels", ())) for operator in operators_here
                ]
                slices = [operator.get("slices", 1) for operator in operators_here]
                why = "its inputs agree; " + (
                    f"the kernels are {names[0]} and {names[1]}"
                    if names[0] != names[1]
                    else f"the kernel splits K into {slices[0]} and {slices[1]}"
                    if slices[0] != slices[1]
                    else "the captures name the same kernels"
                )
            return CapturesCompared(
                index,
                operators_here[0]["op"],
                why,
                tuple(run.verdict(index, operator) for run, operator in zip(both, operators_here, strict=True)),
                outputs,
            )
        if moved:
            for run, operator in zip(both, operators_here, strict=True):
                run.verdict(index, operator)
    if len(both[0].capture.operators) != len(both[1].capture.operators):
        shorter = min(len(run.capture.operators) for run in both)
        return CapturesCompared(
            shorter,
            "(none)",
            f"the captures have {' and '.join(str(len(run.capture.operators)) for run in both)} operators",
            (),
            outputs,
        )
    return CapturesCompared(None, "", "", (), outputs)
