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


def test_the_version_is_the_same_wherever_it_stands():
    version = bitmma.__version__.split(".")
    whole, minor = re.escape(bitmma.__version__), rf"{version[0]}\.{version[1]}"
    macros = zip(("MAJOR", "MINOR", "PATCH"), version, strict=True)
    places = {
        "CITATION.cff": f"^version: {whole}$",
        "CHANGELOG.md": rf"^## {whole} - \d{{4}}-\d\d-\d\d$",
        "packaging/debian/changelog": rf"\Abitmma \({whole}\) ",
        "packaging/debian/control": f"^Package: libbitmma{minor}$",
        "tools/test-debian": f"libbitmma{minor} ",
        "include/bitmma.h": "^" + "\n".join(f"#define BITMMA_VERSION_{part} {number}" for part, number in macros),
        "cmake/bitmma-config.cmake.in": rf"find_package\(bitmma {minor} REQUIRED\)",
        "docs/emulators.md": rf"libbitmma\.so\.{minor}",
    }
    wrong = [place for place, line in places.items() if not re.search(line, (ROOT / place).read_text(), re.MULTILINE)]
    assert not wrong
    assert (ROOT / "packaging" / "debian" / f"libbitmma{'.'.join(version[:2])}.install").exists()


def test_sections_of_the_changelog_are_those_of_keep_a_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    first, *releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert first == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", release) for release in releases)
    dates = [release.partition(" - ")[2] for release in releases]
    assert dates == sorted(dates, reverse=True)
    kinds = {"Added", "Changed", "Deprecated", "Fixed", "Removed", "Security", "Bits"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds


def test_the_wheel_has_the_licences_of_what_is_compiled_in():
    """cmake/sbom.cmake lists the libraries."""
    rows = re.findall(r'"(\w+)\|[\w-]+\|[\w.-]+"', (ROOT / "cmake" / "sbom.cmake").read_text())
    assert len(rows) == 5
    files = {path.stem.lower() for path in (ROOT / "packaging" / "licenses").glob("*.txt")}
    assert files == {name.lower().rstrip("3") for name in rows}
    assert "packaging/licenses/*.txt" in (ROOT / "pyproject.toml").read_text()


def test_classifiers_name_the_versions_of_python_that_are_tested():
    classifiers = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text())
    tested = (
        re.search(r"^for version in (.*); do$", (ROOT / "tools" / "test-wheels").read_text(), re.MULTILINE)
        .group(1)
        .split()
    )
    assert classifiers and set(classifiers) <= set(tested)


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


PUBLIC = ["", ".datasets", ".layers", ".layout", ".math", ".operators", ".plot", ".record_triton", ".testing"]
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
    assert len(bitmma.datasets.names()) >= 10
    kinds = {name: bitmma.datasets.about(name)["kind"] for name in bitmma.datasets.names()}
    for name, kind in kinds.items():
        assert pathlib.Path(bitmma.__file__).parent in bitmma.datasets.path(name).parents
        if kind != "product":
            continue
        product = bitmma.datasets.load(name)
        assert product.metadata["gpu"] in bitmma.datasets.about(name)["source"]
        assert bitmma.testing.bits_equal(product.gemm(), product.d), name
        assert bitmma.testing.bits_equal(bitmma.read_product(f"dataset:{name}").d, product.d)
    assert bitmma.verify("dataset:wgmma_f16").mismatches == 0
    replayed = bitmma.replay("dataset:tiny_llama")
    assert replayed.same and replayed.coverage()["flops_recomputed"] == replayed.coverage()["flops"]
    attention = bitmma.datasets.tensors("flash_attention_bf16")
    out, lse = bitmma.operators.attention(*(attention[name] for name in "qkv"), return_lse=True)
    assert bitmma.testing.bits_equal(out, attention["out"]) and bitmma.testing.bits_equal(lse, attention["lse"])
    quantised = bitmma.datasets.tensors("torchao_nvfp4")
    again = bitmma.quantize(quantised["x"], bitmma.datasets.metadata("torchao_nvfp4")["recipe"])
    assert np.array_equal(again.codes.view(np.uint8), quantised["codes"])
    assert np.array_equal(again.scales.view(np.uint8), quantised["scales"])
    for name in ("triton_sm90_f16", "cuda_kernels", "bulk_kernels"):
        assert bitmma.decode_ptx(f"dataset:{name}")["counts"] or name == "cuda_kernels"
    with pytest.raises(bitmma.Error, match="did you mean"):
        bitmma.datasets.load("nvjet_algo_e4m3")
    with pytest.raises(bitmma.Error, match="a dataset of kind PTX"):
        bitmma.datasets.load("cuda_kernels")
    with pytest.raises(bitmma.Error, match="nosuch"):
        bitmma.read("dataset:nosuch")


def test_datasets_are_what_the_recordings_have():
    """lab/pack_datasets.py makes them from data."""
    if not (ROOT / "data").exists():
        pytest.skip("NOT checked: there is no data folder")
    package = str(pathlib.Path(bitmma.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, ROOT / "lab" / "pack_datasets.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": package},
    )
    assert done.returncode == 0, done.stderr


NAMES_OF_OTHERS = """
    bitmma.attention              bitmma.operators.attention
    bitmma.softmax                bitmma.operators.softmax
    bitmma.gelu                   elementwise("gelu"
    bitmma.targets                target="H100"
    bitmma.instructions           bitmma.all_instructions()
    bitmma.dot                    bitmma.matmul
    bitmma.matmull                did you mean matmul
    bitmma.layernorm              bitmma.operators.layer_norm
    bitmma.quantize_nvfp4         bitmma.quantize(x, "te_nvfp4")
    bitmma.version                bitmma.__version__
    bitmma.Descriptor             bitmma.decode
    bitmma.kernels                bitmma.datasets.names()
    bitmma.datasets.list          bitmma.datasets.names()
    bitmma.operators.gelu         bitmma.operators.elementwise("gelu", x)
    bitmma.operators.scaled_dot_product_attention  bitmma.operators.attention
    bitmma.operators.linear       bitmma.matmul
    bitmma.math.exp2              bitmma.math.ex2
    bitmma.math.exp               bitmma.math.c("expf", x)
    bitmma.layout.Layout          bitmma.layout.cute
    bitmma.layout.swizzle         bitmma.encode(swizzle=
    bitmma.layout.composition     bitmma.layout.algebra("composition"
    bitmma.testing.assert_equal   bitmma.testing.assert_bits_equal
    bitmma.plot.error             did you mean errors
"""


@pytest.mark.parametrize("line", NAMES_OF_OTHERS.split("\n")[1:-1], ids=lambda line: line.split()[0])
def test_names_of_other_libraries_lead_to_those_of_bitmma(line):
    name, way = line.split(None, 1)
    with pytest.raises(AttributeError, match=re.escape(way)) as error:
        eval(name)
    assert error.value.name == name.rpartition(".")[2]
    module = sys.modules[name.rpartition(".")[0]]
    assert not hasattr(module, "__wrapped__") and not hasattr(module, "_nosuch")


def test_names_that_objects_do_not_have_lead_to_those_of_bitmma():
    case = bitmma.Case(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        a=np.ones((16, 16), np.float16),
        b=np.ones((16, 8), np.float16),
    )
    quantized = bitmma.quantize(np.ones((16, 128), np.float32), "te_fp8_1x128")
    for thing, name, way in (
        (case, "simulate", "case.computed_d()"),
        (case.instruction, "evidence", "bitmma.evidence(instruction)"),
        (quantized, "dequantize", "quantized.codes"),
    ):
        with pytest.raises(AttributeError, match=re.escape(way)) as error:
            getattr(thing, name)
        assert error.value.name == name and not hasattr(thing, "nosuch")


def test_ways_that_errors_name_exist():
    """Every name of bitmma in a hint is one of bitmma."""
    from bitmma import _names

    for module, hints in _names.ELSEWHERE.items():
        assert not set(hints) & set(importlib.import_module(module).__all__), module
        for hint in hints.values():
            for name in re.findall(r"bitmma(?:\.\w+)+", hint):
                if name.split(".")[1] in ("distributed", "torch", "adapters", "record_triton"):
                    continue
                assert eval(name) is not None


def test_importing_the_package_imports_no_module_that_is_not_used():
    program = "import sys, bitmma; print(*(name for name in sys.modules if name.startswith('bitmma')))"
    package = str(pathlib.Path(bitmma.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": package},
    )
    later = {f"bitmma.{name}" for name in ("operators", "layers", "layout", "math", "plot", "testing", "_replay")}
    assert not later & set(done.stdout.split())


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
