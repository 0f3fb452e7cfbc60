# SPDX-License-Identifier: MIT
"""Sealed predictions: what bitmma expects of a GPU at open points, fixed before any such GPU was measured.

    print(bitmma.sealed())                 compares the GPU of this machine with them, in less than a minute
"""
from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ._arguments import core as _core, path_of, public
from ._types import Target


class SealedFinding(NamedTuple):
    """The GPU's answer to one point."""

    point: str
    instruction: str
    verdict: str
    """"as predicted", "another answer", "named" (the file withholds the prediction), "none known", "unreadable" or
    "no answer"."""
    found: str
    """The answer that fits every case, or the reason why there is none."""
    predicted: str | None
    """None where the file withholds it."""
    nearest: str
    """If no known answer matches every case, the answer that matches the most cases; `deciding` then counts these cases."""
    cases: int
    deciding: int
    """Cases in which another answer differs from the found one."""


class SealedReport(NamedTuple):
    """A GPU's answers to all points of a sealed prediction."""

    gpu: str
    target: str
    driver: str
    cuda: str
    date: str
    seconds: float
    rehearsal: bool
    """The model answered in place of a GPU, so the report proves nothing."""
    sha256: str
    """The hash of the prediction's file; docs/sealed.md lists the hashes of data/sealed."""
    findings: list[SealedFinding]
    text: str
    """The text that `bitmma survey sealed` prints."""

    @property
    def holds(self) -> bool:
        """True if every point has an answer that agrees with the prediction, if there is one."""
        return all(one.verdict in ("as predicted", "named") for one in self.findings)

    def __str__(self) -> str:
        return self.text


@public(out=path_of)
def sealed(path: str | os.PathLike[str] | None = None, *, out: str | os.PathLike[str] = "", device: int = 0,
           jobs: int = 4, unit_seconds: float = 10, rehearse: Target | None = None) -> SealedReport:
    """Compares the GPU of this machine with the sealed prediction, each point in its own process.

    Nothing leaves the machine. Raises Error without a GPU, or without a prediction for it.

    Args:
        path: The prediction; default: the built-in one for the GPU.
        out: A safetensors file for the answers, as hashes.
        device: The GPU's number.
        jobs: Processes at a time.
        unit_seconds: A point that takes longer is stopped.
        rehearse: A target, such as "sm_100a", whose model answers in place of a GPU.
    """
    file = str(path or "")
    command = [sys.executable, "-m", "bitmma._sealed", str(device), str(rehearse or ""), file]
    text, said = _core.run_sealed(file, command, unit_seconds, jobs, out)
    findings = [SealedFinding(**{"nearest": "", **point}) for point in said.pop("points")]
    return SealedReport(sha256=said.pop("sealed_sha256"), findings=findings, text=text.rstrip("\n"), **said)


def _main(arguments: Sequence[str]) -> int:
    """Runs one point, in its own process."""
    device, rehearse, file, point, _, path = arguments
    try:
        _core.end_with_survey()
        _core.run_sealed_point(point, path, file, int(device), rehearse or None)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
