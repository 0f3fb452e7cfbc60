"""The composite action of packaging/github, and the workflow of docs/programs.md with it: GitHub alone can run them."""

from __future__ import annotations

import re
import subprocess

import pytest

from conftest import ROOT

yaml = pytest.importorskip("yaml", reason="NOT checked: PyYAML is not installed")

ACTION = ROOT / "packaging/github/action.yml"
PAGE = ROOT / "docs/programs.md"


def workflows() -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def check_shell(text: str) -> None:
    # Expressions are replaced before the shell reads a line.
    done = subprocess.run(
        ["bash", "-n"], input=re.sub(r"\$\{\{.*?\}\}", "x", text), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def expressions(text: str) -> set[str]:
    return {
        name
        for inner in re.findall(r"\$\{\{(.*?)\}\}", text)
        for name in re.findall(r"\b(?:inputs|steps)\.[\w.-]+", inner)
    }


def test_the_action_is_a_composite_of_steps_that_bash_reads():
    action = yaml.safe_load(ACTION.read_text())
    assert set(action) == {"name", "description", "inputs", "outputs", "runs"}
    assert action["runs"]["using"] == "composite"
    for field in action["inputs"].values():
        assert set(field) == {"description", "default"}
    for step in action["runs"]["steps"]:
        assert set(step) <= {"id", "name", "if", "shell", "env", "run", "working-directory"}
        assert step["shell"] == "bash"  # required in a composite action
        check_shell(step["run"])
        assert "${{" not in step["run"]  # an input would be code; variables carry it
    assert expressions(ACTION.read_text()) == {"inputs.version", "inputs.python", "steps.install.outputs.version"}
    assert {step.get("id") for step in action["runs"]["steps"]} == {"install"}


def test_the_action_installs_this_checkout_without_a_version():
    environment = yaml.safe_load(ACTION.read_text())["runs"]["steps"][0]["env"]
    assert "'{0}/../..', github.action_path" in environment["PACKAGE"]
    assert (ACTION.parent / "../../pyproject.toml").resolve() == ROOT / "pyproject.toml"


def test_the_workflow_of_the_page_uses_the_action():
    (text,) = workflows()
    workflow = yaml.safe_load(text)
    # YAML 1.1 reads the key `on` as true.
    assert set(workflow) == {"name", True, "permissions", "jobs"}
    uses = []
    for job in workflow["jobs"].values():
        assert {"runs-on", "steps"} <= set(job) <= {"runs-on", "steps", "timeout-minutes"}
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            uses.append(step.get("uses", ""))
            check_shell(step.get("run", ""))
    (own,) = [use for use in uses if "packaging/github" in use]
    assert re.fullmatch(r"OWNER/bitmma/packaging/github@v[\d.]+", own)
