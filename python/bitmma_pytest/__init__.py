# SPDX-License-Identifier: MIT
"""The plug-in of pytest: `pytest --bitmma H100` runs the session under `bitmma exec --gpu H100`.

A failed test that launched kernels gets a section with them, their warnings and what is uncertain in their bits;
`--bitmma-strict` also fails a test whose launches had warnings or uncertain bits.

A package of its own, since pytest imports the plug-ins of all installed packages: bitmma itself imports NumPy.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import sys
from collections.abc import Generator
from typing import Any, NamedTuple

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bitmma", "CUDA kernels on the CPU, with a GPU's bits")
    group.addoption("--bitmma", metavar="GPU", help="run the session under `bitmma exec --gpu GPU`, as with H100")
    text = 'further options of `bitmma exec`, as with "--threads 2 --clock 0"'
    group.addoption("--bitmma-exec", metavar="OPTIONS", help=text)
    group.addoption(
        "--bitmma-strict",
        action="store_true",
        help="fail a test if its launches had warnings, or if some of their bits are uncertain",
    )
    parser.addini("bitmma_exec", text, default="")


def _is_under_exec() -> bool:
    return bool(os.environ.get("BITMMA_EXEC_FOLDER"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """Starts pytest anew under `bitmma exec`: before conftest.py files import what loads CUDA's driver, and before the
    output is captured."""
    options = early_config.known_args_namespace
    if options.bitmma and not _is_under_exec():
        _restart(early_config)
    if options.bitmma and options.bitmma.lower() != os.environ["BITMMA_EXEC_GPU"].lower():
        raise pytest.UsageError(
            f"--bitmma {options.bitmma}: pytest runs under `bitmma exec --gpu {os.environ['BITMMA_EXEC_GPU']}`"
        )
    for name, value in (("--bitmma-exec", options.bitmma_exec), ("--bitmma-strict", options.bitmma_strict)):
        if value and not _is_under_exec():
            raise pytest.UsageError(f"{name} has an effect with --bitmma GPU only")
    return (yield)


def _restart(config: pytest.Config) -> None:
    if list(config.invocation_params.args) != sys.argv[1:]:  # pytest.main() of another program
        raise pytest.UsageError("--bitmma needs pytest as the command; run the program by `bitmma exec -- PROGRAM`")
    from bitmma.__main__ import program

    further = config.known_args_namespace.bitmma_exec or config.getini("bitmma_exec")
    words = [program(), "exec", "--gpu", config.known_args_namespace.bitmma, *shlex.split(further), "--"]
    words += [sys.executable, *sys.orig_argv[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(words[0], words)


def pytest_configure(config: pytest.Config) -> None:
    if _is_under_exec():
        config.pluginmanager.register(_Launches(config.getoption("bitmma_strict")), "bitmma-launches")


def pytest_report_header() -> str | None:
    return f"bitmma: CUDA kernels run on a simulated {os.environ['BITMMA_EXEC_GPU']}" if _is_under_exec() else None


class _Report(NamedTuple):
    """What the driver of this process counts."""

    launches: dict[str, int]
    warnings: dict[tuple[str, str], int]
    uncertain: dict[tuple[str, str], int]
    faults: list[str]


def _report() -> _Report:
    """The report so far; empty before the process has used CUDA."""
    library = ctypes.CDLL(os.path.join(os.environ["BITMMA_EXEC_FOLDER"], "libcuda.so.1"))
    function = library.bitmma_exec_report
    function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_size_t
    text = ctypes.create_string_buffer(1 << 16)
    while (size := function(text, len(text))) >= len(text):  # another thread may launch meanwhile
        text = ctypes.create_string_buffer(2 * size)
    if size == 0:
        return _Report({}, {}, {}, [])
    counts = json.loads(text.value)
    return _Report(
        {row["kernel"]: row["launches"] for row in counts["kernels"]},
        {(row["kernel"], row["warning"]): row["count"] for row in counts["warnings"]},
        {(row["kernel"], row["uncertain"]): row["count"] for row in counts["uncertain"]},
        [f"{row['kernel']}: {row['text']}; the program got error {row['result']}" for row in counts["faults"]],
    )


def _since(before: _Report, after: _Report) -> _Report:
    """What was counted between two reports. A kernel's uncertain bits are counted when it is loaded: they are those of
    every later launch."""

    def added(earlier: dict, later: dict) -> dict:
        return {key: count - earlier.get(key, 0) for key, count in later.items() if count > earlier.get(key, 0)}

    launches = added(before.launches, after.launches)
    return _Report(
        launches,
        added(before.warnings, after.warnings),
        {key: launches[key[0]] for key in after.uncertain if key[0] in launches},
        after.faults[len(before.faults) :],
    )


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}{'es' if thing.endswith('ch') else 's'}"


def _lines(counts: _Report) -> list[str]:
    def texts(what: str, rows: dict[tuple[str, str], int]) -> list[str]:
        return [
            f"{what}: {f'{kernel}: ' if kernel else ''}{text} ({_counted(count, 'time')})"
            for (kernel, text), count in rows.items()
        ]

    return texts("warning", counts.warnings) + texts("uncertain bits", counts.uncertain)


class _Launches:
    """Says which kernels a failed test launched; with `is_strict`, fails tests with warnings or uncertain bits."""

    def __init__(self, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._test_start = self._phase_start = _Report({}, {}, {}, [])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        self._test_start = self._phase_start = _report()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        now = _report()
        lines = _lines(_since(self._phase_start, now))
        self._phase_start = now
        if self._is_strict and lines and report.passed and not hasattr(report, "wasxfail"):
            report.outcome = "failed"
            report.longrepr = "--bitmma-strict: launches of this test had warnings, or some of their bits are uncertain"
        counts = _since(self._test_start, now)
        if report.failed and any(counts):
            report.sections.append(("bitmma: kernels of this test", _section(counts)))
        return report


def _section(counts: _Report) -> str:
    lines = [f"{kernel}: {_counted(count, 'launch')}" for kernel, count in counts.launches.items()]
    lines += [f"fault: {text}" for text in counts.faults]
    return "\n".join(lines + (_lines(counts) or ["no warnings; no bits are known to be uncertain"]))
