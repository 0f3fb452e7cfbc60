# SPDX-License-Identifier: MIT
"""The types that bitmma tells a type checker: those of results are not Any."""

import os
import subprocess
import sys

import pytest

import bitmma
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
