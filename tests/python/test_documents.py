"""Programs of README and docs are run as they stand there."""

from __future__ import annotations

import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import bitmma
from conftest import ROOT

# Where the library lies; another build's by BITMMA_BUILD.
BUILD = pathlib.Path(os.environ.get("BITMMA_BUILD", ROOT / "build" / "test"))


def blocks(path: str, language: str) -> list[str]:
    text = (ROOT / path).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(arguments: list[str], folder: pathlib.Path, **environment: str) -> str:
    done = subprocess.run(
        arguments,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "LD_LIBRARY_PATH": str(BUILD), **environment},
    )
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout


def word_of_python(tmp_path: pathlib.Path) -> str:
    (tmp_path / "example.py").write_text(blocks("docs/emulators.md", "python")[0])
    package = str(pathlib.Path(bitmma.__file__).parents[1])
    return run([sys.executable, "example.py"], tmp_path, PYTHONPATH=package).strip()


def test_python_of_the_page_for_emulators(tmp_path):
    assert float.fromhex(word_of_python(tmp_path)) > 0
    names: dict = {}
    exec(blocks("docs/emulators.md", "python")[2], names)
    assert names["ld"]["d_regs"].shape == (32, 8)
    places = bitmma.layout.tmem(128, 64)
    assert (names["tmem"][places.lane[0, :8], places.column[0, :8]] == names["ld"]["d_regs"][0]).all()


def needs_library() -> None:
    if not (BUILD / "libbitmma.so").exists():
        pytest.skip(f"NOT checked: there is no libbitmma.so in {BUILD.name}")


def test_c_of_the_page_for_emulators(tmp_path):
    needs_library()
    (tmp_path / "example.c").write_text(blocks("docs/emulators.md", "c")[0])
    run(
        [
            "cc",
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "example.c",
            f"-I{ROOT}/include",
            f"-L{BUILD}",
            "-lbitmma",
            "-o",
            "example",
        ],
        tmp_path,
    )
    assert float.fromhex(run(["./example"], tmp_path).strip()) == float.fromhex(word_of_python(tmp_path))


def test_cpp_of_the_page_for_emulators(tmp_path):
    needs_library()
    (tmp_path / "example.cpp").write_text(blocks("docs/emulators.md", "cpp")[0])
    run(
        [
            "c++",
            "-std=c++20",
            "-Wall",
            "-Wextra",
            "-Werror",
            "example.cpp",
            f"-I{ROOT}/include",
            str(BUILD / "libbitmma.a"),
            "-pthread",
            "-ldl",
            "-o",
            "example",
        ],
        tmp_path,
    )
    assert float.fromhex(run(["./example"], tmp_path).strip()) == float.fromhex(word_of_python(tmp_path))


def test_prepared_instructions_of_the_page_for_emulators(tmp_path, capsys):
    needs_library()
    exec(blocks("docs/emulators.md", "python")[1], {})
    word = capsys.readouterr().out
    assert np.uint32(int(word, 16)).view(np.float32) > 4096 / 2
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}/include"]
    (tmp_path / "example.c").write_text(blocks("docs/emulators.md", "c")[1])
    run(["cc", "-std=c99", *warnings, "example.c", f"-L{BUILD}", "-lbitmma", "-o", "of_c"], tmp_path)
    (tmp_path / "example.cpp").write_text(blocks("docs/emulators.md", "cpp")[1])
    run(
        ["c++", "-std=c++20", *warnings, "example.cpp", str(BUILD / "libbitmma.a"), "-pthread", "-ldl", "-o", "of_cpp"],
        tmp_path,
    )
    assert run(["./of_c"], tmp_path) == run(["./of_cpp"], tmp_path) == word


@pytest.mark.hosts
def test_rust_of_the_page_for_emulators(tmp_path):
    needs_library()
    if not shutil.which("rustc"):
        pytest.skip("NOT checked: rustc is not installed")
    (tmp_path / "example.rs").write_text(blocks("docs/emulators.md", "rust")[0])
    run(["rustc", "--edition=2021", "-L", str(BUILD), "example.rs", "-o", "example"], tmp_path)
    bits = np.float32(float.fromhex(word_of_python(tmp_path))).view(np.uint32)
    assert int(run(["./example"], tmp_path).strip(), 16) == int(bits)


def test_python_of_the_page_for_python(capsys):
    names: dict = {}
    for block in blocks("docs/python.md", "python"):
        exec(block, names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "float32 measured on an NVIDIA H200" and printed[1] == "True"
    assert "split-K 4" in printed[2] and printed[3].startswith("F = 25")


def test_python_of_the_page_for_comparing(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {"bitmma": bitmma, "np": np}
    for block in blocks("docs/comparing.md", "python")[1:]:  # the first one saves the reader's own arrays
        exec(block, names)
        shown = [line.split("  # ")[1] for line in block.splitlines() if line.startswith("print(")]
        assert shown == capsys.readouterr().out.splitlines()


def test_python_of_the_page_for_kernels(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counter.ptx").write_text(""".version 8.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 count = 7;
.visible .entry add(.param .u64 p, .param .u32 n) {
  .reg .b32 %r<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1; ld.param.u32 %r1, [n];
  ld.global.u32 %r2, [count]; add.s32 %r2, %r2, %r1; st.global.u32 [count], %r2;
  st.global.u32 [%rd2], %r2; ret; }
""")
    (block,) = blocks("docs/run_your_kernel.md", "python")
    exec(block, {})
    shown = [line.split("  # ")[1] for line in block.splitlines() if line.startswith("print(")]
    assert shown == capsys.readouterr().out.splitlines()


def test_the_first_minute_of_readme(capsys, monkeypatch, tmp_path):
    """The lines that a NumPy user reads first, and what they print, without a checkout; then own tensors."""
    monkeypatch.chdir(tmp_path)
    first, second = blocks("README.md", "python")
    names: dict = {}
    exec(first, names)
    printed = "NumPy: 128 of 128 outputs differ from the H100. bitmma: 0."
    assert capsys.readouterr().out == f"{printed}\n" and f"# {printed}\n" in first
    exec(second, names)
    assert f"  # {capsys.readouterr().out}" in second


@pytest.mark.parametrize("page", ["batch_size", "gpus"])
def test_python_of_the_pages_with_examples(page, capsys):
    names: dict = {}
    for block in blocks(f"docs/{page}.md", "python"):
        exec(block, names)
        shown = re.findall(r"^(?:.*  )?# (.*)$", block, re.MULTILINE)
        printed = capsys.readouterr().out.splitlines()
        assert printed and printed == shown[-len(printed) :]


def test_the_pictures_of_readme(monkeypatch):
    """What tools/picture.py draws from README's first example. BITMMA_UPDATE_DOCS=1 draws it anew."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    picture = importlib.import_module("picture")
    readme = (ROOT / "README.md").read_text()
    for scheme in picture.SCHEMES:
        drawn = picture.picture(scheme, picture.example())
        path = ROOT / "docs" / "assets" / scheme.name
        if os.environ.get("BITMMA_UPDATE_DOCS"):
            path.write_text(drawn)
        assert path.read_text() == drawn
        assert f"docs/assets/{scheme.name}" in readme
        assert "NumPy: 128 of 128 outputs differ from the H100. bitmma: 0." in drawn


def test_the_outputs_of_operators_that_pages_count():
    table = (ROOT / "docs" / "evidence.md").read_text().split("## Operators of PyTorch")[1].split("\n###")[0]
    lines = [line for line in table.splitlines() if line.startswith(("| `", "| the same"))]
    rows = [re.split(r" ?\| ?", line)[1:-1] for line in lines]
    assert len(rows) == 12 and all(row[1] == "0" for row in rows)
    outputs = sum(int(row[2].replace(",", "")) for row in rows)
    assert f"{outputs // 10**6} million outputs" in (ROOT / "README.md").read_text()
    assert f"{outputs:,} outputs" in (ROOT / "docs" / "operators.md").read_text()


@pytest.mark.hosts
def test_jax_of_the_page_for_hosts():
    jax = pytest.importorskip("jax", reason="NOT checked: jax is not installed")
    names: dict = {}
    block = next(text for text in blocks("docs/hosts.md", "python") if "import jax" in text)
    exec(block, names)
    expected = bitmma.gemm(names["a"], names["b"].T, "flat")
    assert (jax.numpy.asarray(names["d"]).view("uint32") == expected.view("uint32")).all()


@pytest.mark.hosts
def test_torch_of_the_page_for_torch(capsys):
    pytest.importorskip("torch", reason="NOT checked: torch is not installed")
    block = blocks("docs/torch.md", "python")[0]
    exec(block, {})
    assert f"# {capsys.readouterr().out.strip()}" in block


@pytest.mark.hosts
def test_dask_of_the_page_for_hosts(tmp_path):
    pytest.importorskip("distributed", reason="NOT checked: Dask is not installed")
    first, second = (block for block in blocks("docs/hosts.md", "python") if "client" in block)
    # Workers are processes, which import the program that starts them.
    indented = "".join(f"    {line}\n" for line in f"{first}\n{second}".splitlines())
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / "example.py").write_text(
        "import bitmma\nif __name__ == '__main__':\n"
        + indented
        + "    assert d.shape == (512, 512) and report.total.mismatches == 0 and len(report.units) == 20\n"
        "    client.close()\n"
    )
    package = str(pathlib.Path(bitmma.__file__).parents[1])
    run([sys.executable, "example.py"], tmp_path, PYTHONPATH=package)


def paragraphs(text: str):
    """Paragraphs and items of lists, without code, tables and headings; a link counts as its text."""
    text = re.sub(r"^ *```.*?^ *```$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?:#|\||<| +\|).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda path: path.stem,
)
def test_no_paragraph_is_longer_than_110_words(path):
    """A longer one becomes a list, a table or pseudo-code."""
    long = [text for text in paragraphs(path.read_text()) if len(text.split()) > 110]
    assert not long, "\n\n".join(long)


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.stem
)
def test_programs_fit_the_page(path):
    """90 columns are what a desktop shows; a phone scrolls."""
    wide = [
        line
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if len(line) > 90 and (language in ("python", "cpp", "c", "rust") or line.startswith(("bitmma ", "$ bitmma ")))
    ]
    assert not wide, "\n".join(wide)
