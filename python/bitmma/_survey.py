# SPDX-License-Identifier: MIT
"""Surveys measure a GPU and compare the results with the rules of bitmma.

    bitmma.survey("report.safetensors")                measures the GPU of this machine in 8 minutes
    report = bitmma.read_survey("report.safetensors")
    report.refuted                                     rules of bitmma that the GPU refutes, with the wrong facts
"""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ._arguments import core as _core, public
from ._errors import refuse, threads_of
from ._types import Target


class SurveyFinding(NamedTuple):
    """The result of one unit of a survey."""

    unit: str
    """Its name, such as "rule: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"."""
    asked: str
    """"rule", "question" or "bits"."""
    verdict: str
    """"confirmed", "refuted", "unknown", "undecided", "not run" or "unreadable"."""
    found: str
    """The rule or answer that fits the results."""
    details: list[str]
    """Facts of the model that the results refute, followed by facts that no case decides."""
    outputs: int
    """The number of outputs that were compared with the model."""
    mismatches: int
    evidence_before: str
    """The evidence that this version has without the report."""
    choice: str
    """The model's choice that the unit settles; empty if it settles none."""


class SurveyReport(NamedTuple):
    """A verified report: its recorded verdicts are not used."""

    gpu: str
    target: str
    driver: str
    cuda: str
    date: str
    seed: int
    seconds: float
    rehearsal: bool
    """The model answered in place of a GPU, so the report proves nothing."""
    confirmed: dict[str, list[dict[str, Any]]]
    """What the report would add to the measured facts: rows of "rules" and "choices" as in data/surveys/confirmed.json.
    Rows of arithmetic require read_survey with `search`."""
    findings: list[SurveyFinding]

    def of_verdict(self, verdict: str) -> list[SurveyFinding]:
        """The findings with this verdict."""
        return [one for one in self.findings if one.verdict == verdict]

    @property
    def refuted(self) -> list[SurveyFinding]:
        """Findings in which the GPU differs from the model."""
        return [one for one in self.findings if one.verdict in ("refuted", "unknown")]


@public
def survey(path: str | os.PathLike[str], *, seconds: float = 480, device: int = 0, seed: int = 0, only: str = "",
           jobs: int = 4, unit_seconds: float = 60, retry: bool = False, rehearse: Target | None = None,
           progress: Callable[[int, int], Any] | None = None) -> None:
    """Measures all rules and open questions on the GPU of this machine, each in its own process, and writes a report.

    An existing report is resumed. Nothing leaves the machine. Raises Error without a GPU.

    Args:
        path: The report, a safetensors file.
        seconds: Starts no unit after this time; 0 for no limit. Another call resumes.
        device: The GPU's number.
        seed: Of the random cases.
        only: Runs only units whose name contains this text.
        jobs: Processes at a time.
        unit_seconds: Stops a unit that takes longer.
        retry: Repeats units that got no answer.
        rehearse: A target, such as "sm_100a", whose model answers in place of a GPU.
        progress: Called with the number of finished units and of all units.
    """
    if not path:
        raise refuse("path", "(empty)", "a file for the report")
    if progress is not None and not callable(progress):
        raise refuse("progress", type(progress).__name__, "a function of two numbers")
    command = [sys.executable, "-m", "bitmma._survey", str(seed), str(device), str(rehearse or "")]
    _core.run_survey(path, command, seed, seconds, unit_seconds, jobs, only, retry, progress)


@public
def read_survey(path: str | os.PathLike[str], *, search: bool = True, threads: int = 0) -> SurveyReport:
    """Reads a report: regenerates its cases and compares the results with the model of this version.

    Args:
        path: The report.
        search: Also searches each rule from the results again. If False, results are only compared: no row becomes
            measured, and the open facts are taken from the report.
        threads: 0 for all cores.
    """
    said = _core.read_survey(path, search, threads_of(threads))
    said["findings"] = [SurveyFinding(**{"choice": "", **one}) for one in said["findings"]]
    return SurveyReport(**{name: said[name] for name in SurveyReport._fields})


def _main(arguments: Sequence[str]) -> int:
    """Runs one unit, in the process that a survey started for it."""
    seed, device, rehearse, unit, _, path = arguments
    try:
        _core.end_with_survey()
        _core.run_survey_unit(unit, path, int(seed), int(device), rehearse or None)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
