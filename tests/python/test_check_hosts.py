"""tools/check-hosts: what it makes of the reports of pytest, over a `bitmma` that writes such reports."""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import json
import pathlib
import textwrap

import pytest

from conftest import ROOT

LOADER = importlib.machinery.SourceFileLoader("check_hosts", str(ROOT / "tools/check-hosts"))


@pytest.fixture
def tool():
    spec = importlib.util.spec_from_loader("check_hosts", LOADER)
    module = importlib.util.module_from_spec(spec)
    LOADER.exec_module(module)
    return module


@pytest.fixture
def venv(tmp_path) -> pathlib.Path:
    (tmp_path / "venv/lib/python3.11/site-packages/nvidia/cu13/lib").mkdir(parents=True)
    return tmp_path / "venv"


def line(test: str, outcome: str, when: str = "call", message: str = "", printed: str = "") -> str:
    report = {"$report_type": "TestReport", "nodeid": test, "outcome": outcome, "when": when}
    report["longrepr"] = {"reprcrash": {"message": message}} if message else None
    report["sections"] = [["Captured stderr call", printed]] if printed else []
    return json.dumps(report)


def test_a_test_has_the_outcome_of_its_worst_phase_and_a_reason(tool, tmp_path):
    log = tmp_path / "log.jsonl"
    summary = "bitmma exec: 3 launches of 1 kernel on a simulated NVIDIA H100 80GB HBM3"
    log.write_text(
        "\n".join(
            [
                json.dumps({"$report_type": "CollectReport", "nodeid": "t.py", "outcome": "passed"}),
                line("t.py::passes", "passed", "setup"),
                line("t.py::passes", "passed"),
                line("t.py::passes", "passed", "teardown"),
                line("t.py::ends_badly", "passed"),
                line("t.py::ends_badly", "failed", "teardown", message="OSError: gone\nmore"),
                line(
                    "t.py::faults", "failed", message="Error 700", printed=f"bitmma exec: kernel k: bad\n{summary}\nx"
                ),
                line("t.py::is_refused", "failed", message="CUDA_ERROR_NOT_SUPPORTED"),
                line("t.py::is_skipped", "skipped", "setup"),
                json.dumps({"$report_type": "CollectReport", "nodeid": "u.py", "outcome": "failed", "longrepr": "no"}),
                '{"$report_type": "TestRep',
            ]
        )
    )
    outcomes = {outcome.test: (outcome.result, outcome.reason) for outcome in tool.outcomes_of(log, "t.py")}
    assert outcomes == {
        "t.py::passes": ("passed", ""),
        "t.py::ends_badly": ("failed", "OSError: gone"),
        "t.py::faults": ("failed", "bitmma exec: kernel k: bad"),
        "t.py::is_refused": ("refused", "CUDA_ERROR_NOT_SUPPORTED"),
        "t.py::is_skipped": ("skipped", ""),
        "u.py": ("failed", "no"),
    }


def program(folder: pathlib.Path, body: str) -> pathlib.Path:
    """A `bitmma` that runs `body` with the names of the report of pytest, that of exec, and the test."""
    path = folder / "bitmma"
    head = """
        #!/usr/bin/env python3
        import json, sys, time
        words = sys.argv
        log, counts, test = words[words.index("--report-log") + 1], words[words.index("--json") + 1], words[-1]
        def write(*lines, faults=()):
            open(log, "w").write("\\n".join(lines) + "\\n")
            open(counts, "w").write(json.dumps({"faults": list(faults)}))
    """
    path.write_text(textwrap.dedent(head).lstrip() + textwrap.dedent(body))
    path.chmod(0o755)
    return path


def options(bitmma: pathlib.Path, seconds: float = 60, every_test: int = 1) -> argparse.Namespace:
    return argparse.Namespace(bitmma=bitmma, seconds=seconds, exec="--clock 0", again=10, every_test=every_test)


def test_tests_that_failed_after_a_fault_run_again(tool, venv, tmp_path):
    bad, dead = line("t.py::bad", "failed", message="e"), line("t.py::dead", "failed", message="e")
    bitmma = program(
        tmp_path,
        f"""
        if "::" not in test: write({bad!r}, {dead!r}, faults=[1])
        elif "dead" in test and not any("bad" in word for word in words): write({line("t.py::dead", "passed")!r})
        else: write({bad!r}, faults=[1])
        """,
    )
    host = tool.HOSTS["tinygrad"]
    outcomes, is_whole = tool.run_file(host, venv, tmp_path, "t.py", options(bitmma))
    assert is_whole
    assert {outcome.test: outcome.result for outcome in outcomes} == {"t.py::bad": "failed", "t.py::dead": "passed"}
    row = {"host": "h", "version": "1", "files": 1, "of_files": 3, "stopped": []}
    row["tests"] = [outcome._asdict() for outcome in outcomes]
    assert tool.table([row]).splitlines()[-1] == "| h | 1 | 1 of 3 | 1 | 1 | 0 | 0 | 0 |"
    assert tool.reasons(row) == ["h: 1 failed: e"]


def test_a_file_that_does_not_end_is_stopped_and_its_tests_so_far_count(tool, venv, tmp_path):
    bitmma = program(tmp_path, f"write({line('t.py::first', 'passed')!r})\ntime.sleep(60)")
    outcomes, is_whole = tool.run_file(tool.HOSTS["tinygrad"], venv, tmp_path, "t.py", options(bitmma, seconds=3))
    assert not is_whole
    assert [outcome.test for outcome in outcomes] == ["t.py::first"]


def test_every_second_test_of_a_file(tool, venv, tmp_path):
    bitmma = program(
        tmp_path,
        f"""
        if "--collect-only" in words: print("t.py::a\\nt.py::b\\nt.py::c")
        open({str(tmp_path / "tests")!r}, "w").write(" ".join(word for word in words if "::" in word))
        write({line("t.py::a", "passed")!r})
        """,
    )
    tool.run_file(tool.HOSTS["tinygrad"], venv, tmp_path, "t.py", options(bitmma, every_test=2))
    assert (tmp_path / "tests").read_text() == "t.py::a t.py::c"


def test_the_tests_after_one_that_hangs_run(tool, venv, tmp_path):
    begun = json.dumps({"$report_type": "TestReport", "nodeid": "t.py::b", "outcome": "passed", "when": "setup"})
    bitmma = program(
        tmp_path,
        f"""
        if any("--deselect" in word for word in words): write({line("t.py::c", "passed")!r})
        else:
            write({line("t.py::a", "passed")!r}, {begun!r})
            time.sleep(60)
        """,
    )
    outcomes, _ = tool.run_file(tool.HOSTS["tinygrad"], venv, tmp_path, "t.py", options(bitmma, seconds=3))
    assert {outcome.test: outcome.result for outcome in outcomes} == {"t.py::a": "passed", "t.py::c": "passed"}


def test_tests_of_an_installed_package_go_by_their_module(tool, venv, tmp_path):
    bitmma = program(tmp_path, f"write({line('::x', 'passed')!r})\nopen({str(tmp_path / 'test')!r}, 'w').write(test)")
    (tmp_path / "testing").mkdir()
    file = "numba_cuda/numba/cuda/tests/cudapy/test_sm.py"
    outcomes, _ = tool.run_file(tool.HOSTS["numba-cuda"], venv, tmp_path, file, options(bitmma))
    assert (tmp_path / "test").read_text() == "numba.cuda.tests.cudapy.test_sm"
    assert outcomes[0].file == file


def test_the_table_of_the_page_is_of_the_tool(tool):
    page = (ROOT / "docs/programs.md").read_text().splitlines()
    head = tool.table([]).splitlines()
    start = page.index(head[0])
    assert page[start + 1] == head[1]
    hosts = [row.split(" | ")[0].removeprefix("| ") for row in page[start + 2 : page.index("", start)]]
    assert hosts
    assert set(hosts) <= set(tool.HOSTS)
