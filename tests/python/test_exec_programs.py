"""`nvcc` and `ptxas` under `bitmma exec`: what they make of the arguments of programs that want a cubin."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from conftest import ROOT

HOOKS = ROOT / "tools" / "exec" / "hooks"


@pytest.fixture
def nvcc(tmp_path):
    """Calls the script over an nvcc that prints its arguments."""
    toolkit = tmp_path / "toolkit" / "bin"
    toolkit.mkdir(parents=True)
    real = toolkit / "nvcc"
    real.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    real.chmod(0o755)

    def call(*arguments: str, **environment: str) -> list[str]:
        variables = {"PATH": f"{HOOKS}:{toolkit}:/usr/bin:/bin", **environment}
        done = subprocess.run([HOOKS / "nvcc", *arguments], env=variables, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return call


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        ("x.cu -o x", "x.cu -o x"),
        ("-arch=sm_90a x.cu", "-arch=sm_90a x.cu"),
        ("-cudart static x.cu", "x.cu"),
        ("--cudart=static x.cu -lcudart_static", "x.cu -lcudart"),
        ("-gencode arch=compute_90a,code=sm_90a x.cu", "-gencode arch=compute_90a,code=compute_90a x.cu"),
        ("-gencode=arch=compute_90,code=[sm_90,compute_90]", "-gencode=arch=compute_90,code=compute_90"),
        (
            "--generate-code arch=compute_90,code=[sm_90,sm_90a]",
            "--generate-code arch=compute_90,code=[compute_90,compute_90a]",
        ),
        ("-gencode arch=compute_90a,code=lto_90a", "-gencode arch=compute_90a,code=compute_90a"),
        ("-arch=compute_90 -code=sm_90,compute_90", "-arch=compute_90 -code=compute_90"),
        ("-arch=compute_90 -code sm_90", "-arch=compute_90 -code compute_90"),
        ("-cubin -o k.cubin k.cu", "-ptx -o k.cubin k.cu"),
        ("--cubin dir/k.cu", "-ptx dir/k.cu -o k.cubin"),
    ],
)
def test_nvcc_embeds_ptx_and_links_the_shared_runtime(nvcc, arguments, called):
    assert nvcc(*arguments.split()) == ["-cudart", "shared", *called.split()]


def test_nvcc_keeps_arguments_with_blanks_and_leaves_a_program_without_runtime_alone(nvcc):
    assert nvcc("-cudart", "none", "-DTEXT=a b", "-Xcompiler", "-O1 -g") == [
        "-cudart", "none", "-DTEXT=a b", "-Xcompiler", "-O1 -g",
    ]  # fmt: skip


def test_nvcc_takes_the_toolkit_of_cuda_home_first(nvcc, tmp_path):
    other = tmp_path / "other" / "bin"
    other.mkdir(parents=True)
    (other / "nvcc").write_text("#!/bin/sh\necho other\n")
    (other / "nvcc").chmod(0o755)
    assert nvcc("x.cu", CUDA_HOME=str(other.parent)) == ["other"]


def test_nvcc_without_a_toolkit_says_so():
    if pathlib.Path("/usr/local/cuda/bin/nvcc").exists():
        pytest.skip("NOT checked: this system has nvcc where our own looks last")
    done = subprocess.run(
        [HOOKS / "nvcc", "x.cu"], check=False, env={"PATH": f"{HOOKS}:/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 127
    assert "CUDA_HOME" in done.stderr


def ptxas(*arguments: str) -> str:
    return subprocess.run([HOOKS / "ptxas", *arguments], capture_output=True, text=True, check=True).stdout


def test_ptxas_copies_the_ptx_that_triton_compiles(tmp_path):
    source, output = tmp_path / "k.ptx", tmp_path / "k.ptx.o"
    source.write_text(".version 9.0\n.target sm_90a\n")
    ptxas("-lineinfo", "-v", "--regAllocOptLevel=2", "--gpu-name=sm_90a", str(source), "-o", str(output))
    assert output.read_text() == source.read_text()
    # The only option that changes bits.
    ptxas("-lineinfo", "--fmad=false", "-v", "--opt-level", "0", "--gpu-name=sm_90a", str(source), "-o", str(output))
    assert output.read_text() == "// ptxas --fmad=false\n" + source.read_text()
    ptxas("-fmad", "true", "-arch", "sm_90a", str(source), "-o", str(output))
    assert output.read_text() == source.read_text()


def test_ptxas_says_a_release_and_needs_a_file(tmp_path):
    assert "release 13.0" in ptxas("--version")
    done = subprocess.run([HOOKS / "ptxas", "-v"], check=False, capture_output=True, cwd=tmp_path)
    assert done.returncode == 1
    assert os.listdir(tmp_path) == []
