"""Every command of README and the pages runs in an empty folder with what is installed: no checkout, no GPU.

BITMMA_PROGRAM names the program; the default is that of the build, whose datasets are those of the package. Commands of
a page run in one folder, in order, as a reader types them."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

import bitmma
from conftest import ROOT

PROGRAM = os.environ.get("BITMMA_PROGRAM", str(ROOT / "build" / "test" / "bitmma"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# By the beginning of the command: why it cannot run here.
EXCEPTIONS = {
    "bitmma gpu": "needs a GPU",
    "bitmma survey": "component lab, which no package has",
    "bitmma exec": "runs another program of the reader",
    "bitmma bench": "measures for minutes",
    "bitmma run kernels.ptx": "the reader's own kernels",
    "bitmma verify launches.safetensors": "the reader's own recording, made on a GPU",
    "python3 -m bitmma replay captured": "the reader's own capture, made on a GPU",
    "python3 -m bitmma replay first": "the same, twice",
}
# Commands that read data/... of a checkout: a page that lowers their number lowers this one.
MOST_WITH_A_CHECKOUT = 1


def needs_a_checkout(command: str) -> bool:
    return re.search(r"[ =]data/", command) is not None


def is_excepted(command: str) -> bool:
    return command.startswith(tuple(EXCEPTIONS)) or needs_a_checkout(command)


def commands_of(text: str) -> list[tuple[str, str]]:
    """The commands of a page and, of a console block, what they print."""
    found: list[tuple[str, str]] = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language not in ("", "console"):
            continue
        lines = iter(block.splitlines())
        for line in lines:
            command = line.removeprefix("$ ") if language else line
            is_command = command.startswith(("bitmma ", "python3 -m bitmma ")) and (line != command or not language)
            if not is_command:
                if language and found:
                    found[-1] = (found[-1][0], found[-1][1] + line + "\n")
                continue
            while command.endswith("\\"):
                command = command[:-1] + next(lines).strip()
            found.append((command, ""))
    return found


def run(command: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """A line of a page in the reader's shell."""
    (folder / ".bin").mkdir(exist_ok=True)
    for name, program in (("bitmma", PROGRAM), ("python3", sys.executable)):
        script = folder / ".bin" / name
        script.write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
        script.chmod(0o755)
    package = str(pathlib.Path(bitmma.__file__).parents[1])
    env = {**os.environ, "PATH": f"{folder / '.bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": package}
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=300, check=False, env=env
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_run_in_an_empty_folder(page, tmp_path):
    if not pathlib.Path(PROGRAM).exists():
        pytest.skip(f"NOT checked: there is no {PROGRAM}")
    failed = []
    for command, printed in commands_of(page.read_text()):
        if is_excepted(command):
            continue
        done = run(command, tmp_path)
        is_shown = "error:" in printed  # the page shows what is refused
        if (done.returncode not in (0, 1) or "Traceback" in done.stderr) != is_shown:
            failed.append(f"$ {command}\n{done.stderr}")
    assert not failed, "\n".join(failed)


def test_most_commands_of_the_pages_are_run():
    commands = [command for page in PAGES for command, _ in commands_of(page.read_text())]
    of_checkouts = [command for command in commands if needs_a_checkout(command)]
    run_here = [command for command in commands if not is_excepted(command)]
    print(f"{len(run_here)} of {len(commands)} commands run in an empty folder")
    assert len(of_checkouts) <= MOST_WITH_A_CHECKOUT, "\n".join(of_checkouts)
    assert len(run_here) >= 200
    assert all(len(shlex.split(command, comments=True)) > 1 for command in commands)
