"""`pytest --bitmma`: sessions of pytest in processes of their own, of tests that call the CUDA driver by ctypes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from conftest import ROOT

PROGRAM = ROOT / "build/test/bitmma"
# `launch("square")` returns what the kernel makes of 0, 1, 2, ... The bits of `sum` depend on the order of its threads.
CUDA = """
    import ctypes
    import numpy as np

    PTX = b'''
    .version 8.0
    .target sm_80
    .address_size 64
    .visible .entry square(.param .u64 x)
    {
      .reg .b32 %r<2>;
      .reg .b64 %rd<4>;
      .reg .f32 %f<3>;
      ld.param.u64 %rd1, [x];
      mov.u32 %r1, %tid.x;
      mul.wide.u32 %rd2, %r1, 4;
      add.s64 %rd3, %rd1, %rd2;
      ld.global.f32 %f1, [%rd3];
      mul.f32 %f2, %f1, %f1;
      st.global.f32 [%rd3], %f2;
      ret;
    }
    .visible .entry sum(.param .u64 x)
    {
      .reg .b64 %rd<2>;
      ld.param.u64 %rd1, [x];
      red.global.add.f32 [%rd1], 0f3F800000;
      ret;
    }
    '''
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        result = getattr(cuda, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def launch(kernel, is_uploaded=True):
        context, module, function, x = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        call("cuCtxSetCurrent", context)
        call("cuModuleLoadData", ctypes.byref(module), PTX)
        call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        values = np.arange(32, dtype=np.float32)
        call("cuMemAlloc_v2", ctypes.byref(x), ctypes.c_size_t(128))
        if is_uploaded:
            call("cuMemcpyHtoD_v2", x, ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(128))
            parameters = (ctypes.c_void_p * 1)(ctypes.addressof(x))
            call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, parameters, None)
        call("cuMemcpyDtoH_v2", ctypes.c_void_p(values.ctypes.data), x, ctypes.c_size_t(128))
        return values
"""


@pytest.fixture
def session(tmp_path):
    """Runs pytest on a file of tests: exit code and output."""
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing: build target bitmma_program and bitmma_cuda")

    def run(tests: str, *arguments: str, before: tuple[str, ...] = (), plugin: bool = True) -> tuple[int, str]:
        (tmp_path / "cuda.py").write_text(textwrap.dedent(CUDA))
        (tmp_path / "test_kernels.py").write_text("import numpy as np\nimport pytest\n" + textwrap.dedent(tests))
        (tmp_path / "pytest.ini").touch()
        words = [*before, sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        words += ["-p", "bitmma_pytest"] if plugin else []
        environment = {name: text for name, text in os.environ.items() if not name.startswith(("BITMMA_", "PYTEST_"))}
        environment["PYTHONPATH"] = f"{ROOT / 'python'}:{tmp_path}"
        environment["PATH"] = f"{PROGRAM.parent}:{environment['PATH']}"
        done = subprocess.run(
            [*words, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_runs_the_session_under_exec_with_its_arguments_and_exit_code(session):
    tests = """
        import os
        from cuda import launch

        def test_gpu():
            assert os.environ["BITMMA_EXEC_GPU"] == "H200"
            assert os.environ["BITMMA_EXEC_THREADS"] == "3"

        def test_square():
            assert (launch("square") == np.arange(32) ** 2).all()

        def test_of_another_name():
            raise AssertionError
    """
    code, output = session(tests, "--bitmma", "H200", "--bitmma-exec", "--threads 3", "-k", "gpu or square", "-q")
    assert code == 0, output
    assert "2 passed, 1 deselected" in output
    assert "1 launch of 1 kernel on a simulated NVIDIA H200" in output
    code, output = session(tests, "--bitmma", "H200", "--bitmma-exec", "--threads 3")
    assert code == 1
    assert "bitmma: CUDA kernels run on a simulated H200" in output
    assert session(tests, "--bitmma", "H200", "-k", "nothing")[0] == 5


def test_options_of_exec_may_stand_in_pytest_ini(session, tmp_path):
    tests = "import os\ndef test_threads(): assert os.environ['BITMMA_EXEC_THREADS'] == '5'"
    assert session(tests, "--bitmma", "H100", "-o", "bitmma_exec=--threads 5")[0] == 0


def test_conftest_is_read_once_and_under_exec(session, tmp_path):
    (tmp_path / "conftest.py").write_text(
        "import os\nopen('read', 'a').write(os.environ.get('BITMMA_EXEC_GPU', 'none'))\n"
    )
    assert session("def test_nothing(): pass", "--bitmma", "H100")[0] == 0
    assert (tmp_path / "read").read_text() == "H100"


def test_a_failed_test_names_its_kernels(session):
    tests = """
        from bitmma.testing import assert_bits_equal
        from cuda import launch

        def test_other():
            launch("square")

        def test_wrong():
            launch("square")
            assert_bits_equal(launch("square"), np.arange(32, dtype=np.float32))

        def test_without_launches():
            raise AssertionError
    """
    code, output = session(tests, "--bitmma", "H100")
    assert code == 1
    sections = output.split("bitmma: kernels of this test")
    assert len(sections) == 2, output
    assert "square: 2 launches\nno warnings; no bits are known to be uncertain" in sections[1]


def test_strict_fails_each_test_with_warnings_or_uncertain_bits_and_no_other(session):
    tests = """
        from cuda import launch

        def test_warned():
            launch("square", is_uploaded=False)

        def test_certain():
            launch("square")

        def test_uncertain():
            assert launch("sum")[0] == 32

        def test_uncertain_again():
            launch("sum")

        @pytest.mark.xfail
        def test_expected_to_fail():
            launch("square", is_uploaded=False)
            raise AssertionError
    """
    assert session(tests, "--bitmma", "H100")[0] == 0
    code, output = session(tests, "--bitmma", "H100", "--bitmma-strict")
    assert code == 1
    assert "3 failed, 1 passed, 1 xfailed" in output
    assert output.count("uncertain bits: sum: ") == 2
    assert "floating-point atomics" in output
    assert "have not been written" in output.split("test_warned")[1].split("test_uncertain")[0]


def test_workers_of_xdist_are_under_exec(session):
    pytest.importorskip("xdist")
    tests = """
        from cuda import launch

        @pytest.mark.parametrize("number", range(6))
        def test_square(number):
            assert launch("square")[number] == (number ** 2 if number != 4 else 0)
    """
    code, output = session(tests, "--bitmma", "H100", "-n", "2")
    assert code == 1
    assert "1 failed, 5 passed" in output
    assert "square: 1 launch" in output.split("bitmma: kernels of this test")[1]


def test_under_exec_already_the_session_is_not_started_again(session):
    tests = "import os\ndef test_gpu(): assert os.environ['BITMMA_EXEC_GPU'] == 'H200'"
    under = (str(PROGRAM), "exec", "--gpu", "H200", "--")
    assert session(tests, "--bitmma", "H200", before=under)[0] == 0
    assert session(tests, before=under)[0] == 0
    code, output = session(tests, "--bitmma", "H100", before=under)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "--gpu H200" in output


@pytest.mark.parametrize("arguments", [["--bitmma-strict"], ["--bitmma-exec", "--quiet"]])
def test_options_without_a_gpu_are_refused(session, arguments):
    code, output = session("def test_nothing(): pass", *arguments)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert arguments[0] in output


def test_a_gpu_that_bitmma_does_not_have_is_refused(session):
    code, output = session("def test_nothing(): pass", "--bitmma", "V100")
    assert code == 2
    assert "V100" in output


def test_without_options_it_does_nothing_and_imports_nothing(session):
    tests = """
        import os, sys

        def test_nothing():
            assert "bitmma_pytest" in sys.modules
            assert "bitmma" not in sys.modules
            assert "LD_AUDIT" not in os.environ
    """
    code, output = session(tests.replace("import numpy as np", ""))
    assert code == 0, output
    assert "bitmma" not in output.replace("test_kernels", "")


def test_a_program_that_calls_pytest_is_not_started_again(session, tmp_path):
    (tmp_path / "program.py").write_text(
        "import pytest\nprint(int(pytest.main(['-p', 'bitmma_pytest', '--bitmma', 'H100'])))\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == str(int(pytest.ExitCode.USAGE_ERROR))
    assert "bitmma exec -- PROGRAM" in done.stderr


def test_pytest_finds_it_where_the_package_is_installed_and_leaves_it_out_by_name(session, tmp_path):
    installed = tmp_path / "bitmma-0.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: bitmma\nVersion: 0.0\n")
    (installed / "entry_points.txt").write_text("[pytest11]\nbitmma = bitmma_pytest\n")
    tests = "import os\ndef test_gpu(): assert os.environ['BITMMA_EXEC_GPU'] == 'H100'"
    assert session(tests, "--bitmma", "H100", plugin=False)[0] == 0
    code, output = session(tests, "--bitmma", "H100", "-p", "no:bitmma", plugin=False)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "unrecognized arguments" in output


def test_the_package_has_it_as_a_plug_in_by_the_name_bitmma():
    if sys.version_info < (3, 11):
        pytest.skip("tomllib is new in Python 3.11")
    import tomllib

    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)
    assert project["project"]["entry-points"]["pytest11"] == {"bitmma": "bitmma_pytest"}
    for package in project["tool"]["scikit-build"]["wheel"]["packages"]:
        assert pathlib.Path(ROOT / package / "__init__.py").exists()
