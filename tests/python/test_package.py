"""The package as such: its examples, its names, its types."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pathlib
import pkgutil
import re
import resource
import subprocess
import sys

import numpy as np
import pytest

import bitmma
from conftest import ROOT

MODULES = ["bitmma"] + [
    f"bitmma.{module.name}"
    for module in pkgutil.iter_modules(bitmma.__path__)
    if module.name not in ("_core", "adapters", "distributed", "torch", "_torch_overrides")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    """Of what is public there, which is not always what doctest takes for the module's own."""
    module = importlib.import_module(name)
    names = {"np": np, **vars(bitmma), **vars(module)}
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for key, var in vars(module).items():
        is_own = (getattr(var, "__module__", None) or "").startswith("bitmma")
        if is_own and callable(var) and inspect.unwrap(var).__doc__ and not key.startswith("_"):
            for example in finder.find(inspect.unwrap(var), key, module=False, globs=dict(names)):
                runner.run(example)
    assert runner.failures == 0
    assert runner.tries > 0 or module is not bitmma


def test_public_names_have_docstrings():
    for module in (bitmma, bitmma.layout):
        for name in module.__all__:
            public = getattr(module, name)
            assert name == "layout" or (public.__doc__ and public.__doc__.strip()), name


def test_version_is_the_projects():
    project = re.search(r"project\(bitmma VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    assert bitmma.__version__ == project


def test_errors_are_value_errors_with_violations():
    with pytest.raises(ValueError, match="n = 12") as error:
        bitmma.wgmma(n=12)
    violation = error.value.violations[0]
    assert (violation.field, violation.seen, violation.severity) == (
        "n",
        "12",
        "error",
    ) and violation.source.startswith("PTX ISA")


def test_nothing_is_left_when_the_interpreter_ends():
    program = """
import pickle, numpy as np, bitmma
bitmma._core.set_leak_warnings(True)
a, b = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16)
name = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
one, plan = bitmma.instruction(name), bitmma.Plan({"instruction": name, "target": "sm_90"})
kept = [bitmma.mma(name, a, b), bitmma.gemm(a, b, plan), bitmma.find_plans(a, b, bitmma.gemm(a, b))]
kept += [bitmma.golden(name)]
kept += [kept[-1][0], bitmma.explain(kept[-1][0], 0, 0), pickle.loads(pickle.dumps(one)), bitmma.all_instructions()]
for wrong in (lambda: bitmma.gemm(a, b, bias=a), lambda: bitmma.execute(name, None, {}),
              lambda: bitmma.mma(name, b, a)):
    try:
        wrong()
    except bitmma.Error:
        pass
"""
    package = str(pathlib.Path(bitmma.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": package},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_memory_is_stable_over_a_million_calls():
    a, b, c = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16), np.ones((16, 8), np.float32)
    name = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    for _ in range(20_000):
        bitmma.mma(name, a, b, c)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for index in range(1_000_000):
        bitmma.mma(name, a, b, c)
        if index % 1000 == 0:
            with pytest.raises(bitmma.Error):
                bitmma.mma(name, b, a)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 2048, f"{grown} KiB more"


PUBLIC = ["", ".datasets", ".layers", ".layout", ".math", ".operators", ".record_triton", ".testing"]
HOSTS = {".adapters.triton": "triton", ".distributed": "dask"}


@pytest.mark.parametrize(
    "name", [*PUBLIC, ".adapters.jax", *(pytest.param(name, marks=pytest.mark.hosts) for name in HOSTS)]
)
def test_a_module_lists_what_is_public_and_nothing_else(name):
    if host := HOSTS.get(name):
        pytest.importorskip(host, reason=f"NOT checked: {host} is not installed")
    module = importlib.import_module(f"bitmma{name}")
    listed = [name for name in dir(module) if not name.startswith("__")]
    assert listed == sorted(module.__all__) and len(set(listed)) == len(listed)
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.ismodule(value):
            assert f".{public}" in PUBLIC
        else:
            assert inspect.getdoc(value) and not public.startswith("_"), public
    star = {}
    exec(f"from bitmma{name} import *", star)
    assert set(star) - {"__builtins__"} == set(module.__all__)


def test_every_module_that_is_not_private_is_in_the_list():
    modules = {f".{module.name}" for module in pkgutil.iter_modules(bitmma.__path__) if not module.name.startswith("_")}
    assert modules | {""} == {*PUBLIC, ".adapters", ".distributed", ".torch"}
    assert "__version__" in dir(bitmma)


def test_datasets_give_their_recorded_bits():
    """Files of the package itself: an installed one has no data folder beside it."""
    assert bitmma.datasets.names()
    for name in bitmma.datasets.names():
        product = bitmma.datasets.load(name)
        assert pathlib.Path(bitmma.__file__).parent in bitmma.datasets.path(name).parents
        assert bitmma.testing.bits_equal(product.gemm(), product.d), name
    with pytest.raises(bitmma.Error, match="did you mean"):
        bitmma.datasets.load("nvjet_algo_e4m3")


def test_the_module_runs_the_program(tmp_path):
    """python -m bitmma: the same program, arguments and exit code; a message if no program is found."""
    program = tmp_path / "bitmma"
    program.write_text('#!/bin/sh\necho "$@"; exit 3\n')
    program.chmod(0o755)
    code = """if True:
        import runpy, sys
        from importlib import metadata
        def none(name): raise metadata.PackageNotFoundError(name)
        metadata.files = none
        sys.argv = ["bitmma", "a b", "-c"]
        runpy.run_module("bitmma", run_name="__main__")
    """
    env = {**os.environ, "PATH": str(tmp_path) + os.pathsep + "/usr/bin:/bin"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert (ended.returncode, ended.stdout) == (3, "a b -c\n"), ended.stderr
    program.unlink()
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**env, "PATH": str(tmp_path)}, check=False
    )
    assert ended.returncode == 1 and "pip install ." in ended.stderr
