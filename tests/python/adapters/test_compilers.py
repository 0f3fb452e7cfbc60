"""The examples of docs/kernels run: kernels of several compilers, where their wheels are installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

EXAMPLES = {
    "from_nvrtc": "cuda.bindings.nvrtc",
    "from_numba": "numba.cuda",
    "from_cute_dsl": "cutlass.cute",
    "from_tilelang": "tilelang",
}


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_every_example_is_here():
    assert {path.stem for path in (ROOT / "docs" / "kernels").glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name, tmp_path):
    if not is_installed(EXAMPLES[name]):
        pytest.skip(f"NOT checked: {EXAMPLES[name]} is not installed")
    if name == "from_tilelang" and not shutil.which("nvcc"):
        pytest.skip("NOT checked: there is no nvcc")
    subprocess.run(
        [sys.executable, ROOT / "docs" / "kernels" / f"{name}.py"],
        check=True,
        timeout=600,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )
