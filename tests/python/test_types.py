# SPDX-License-Identifier: MIT
"""The types that bitmma tells a type checker: those of results are not Any."""

import inspect
import os
import re
import subprocess
import sys

import pytest

import bitmma
from bitmma import datasets, layers, layout, math, operators, plot, testing
from conftest import ROOT

pytest.importorskip("mypy", reason="NOT checked: mypy is not installed")
FOLDER = ROOT / "tests" / "python" / "typed"


def checked(tmp_path, path):
    """What mypy --strict says of a file of a user, to whom the package is one that is installed."""
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\nfollow_imports = silent\nfollow_imports_for_stubs = True\n")
    package = os.path.dirname(os.path.dirname(bitmma.__file__))
    command = [sys.executable, "-m", "mypy", "--config-file", config, "--python-version", "3.11", path]
    env = {**os.environ, "MYPYPATH": package, "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False).stdout


def test_results_have_types(tmp_path):
    assert checked(tmp_path, FOLDER / "user.py") == "Success: no issues found in 1 source file\n"


def test_results_of_tensors_are_tensors(tmp_path):
    pytest.importorskip("torch", reason="NOT checked: torch is not installed")
    assert checked(tmp_path, FOLDER / "user_of_torch.py") == "Success: no issues found in 1 source file\n"


def test_a_wrong_type_is_seen(tmp_path):
    wrong = tmp_path / "wrong.py"
    text = (FOLDER / "user.py").read_text()
    wrong.write_text(text.replace("assert_type(bitmma.gemm(plain, plain), np.ndarray)", "bitmma.gemm(plain, 3.5)"))
    assert "call-overload" in checked(tmp_path, wrong)


def functions_of(module):
    """The names of a module's public functions, and of the methods of its public classes."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            members = [member for member in vars(value) if not member.startswith("_")]
            yield from (f"{module.__name__}.{name}.{member}" for member in members if callable(getattr(value, member)))
        elif callable(value):
            yield f"{module.__name__}.{name}"


def test_no_public_function_results_in_any(tmp_path):
    modules = (bitmma, datasets, layers, layout, math, operators, plot, testing)
    names = ["untyped", *(name for module in modules for name in functions_of(module))]
    head = ["from typing import Any", *(f"import {module.__name__}" for module in modules), "def untyped() -> Any: ..."]
    path = tmp_path / "revealed.py"
    path.write_text("\n".join([*head, *(f"reveal_type({name})" for name in names)]))
    revealed = re.findall(r"py:(\d+): note: Revealed type is (.*)", checked(tmp_path, path))
    assert len(revealed) == len(names) > 100
    # The end of a signature, or of a signature among overloads.
    assert [
        names[int(line) - len(head) - 1] for line, type in revealed if re.search(r'-> Any("$|\)"$|, def \()', type)
    ] == ["untyped"]
