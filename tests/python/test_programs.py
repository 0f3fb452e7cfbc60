"""`bitmma exec`: programs of cuda-python and Triton, unchanged, on the simulated GPU."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.hosts

ADD = """
    import sys
    import numpy as np
    from cuda.bindings import driver as cuda

    ADD = b'''
    .version 8.0
    .target sm_80
    .address_size 64
    .visible .entry add(.param .u64 x, .param .u64 y)
    {
      .reg .b32 %r<2>;
      .reg .b64 %rd<6>;
      .reg .f32 %f<4>;
      ld.param.u64 %rd1, [x];
      ld.param.u64 %rd2, [y];
      mov.u32 %r1, %tid.x;
      mul.wide.u32 %rd3, %r1, 4;
      add.s64 %rd4, %rd1, %rd3;
      add.s64 %rd5, %rd2, %rd3;
      ld.global.f32 %f1, [%rd4];
      ld.global.f32 %f2, [%rd5];
      add.f32 %f3, %f1, %f2;
      st.global.f32 [%rd5], %f3;
      ret;
    }
    '''

    def check(result):
        assert result[0] == cuda.CUresult.CUDA_SUCCESS, result[0].name
        return result[1] if len(result) == 2 else None

    check(cuda.cuInit(0))
    print(check(cuda.cuDeviceGetName(64, 0)).split(b"\\0")[0].decode())
    check(cuda.cuCtxSetCurrent(check(cuda.cuDevicePrimaryCtxRetain(0))))
    add = check(cuda.cuModuleGetFunction(check(cuda.cuModuleLoadData(ADD)), b"add"))
    values = np.arange(64, dtype=np.float32)
    x, y = check(cuda.cuMemAlloc(256)), check(cuda.cuMemAlloc(256))
    for address in (x, y):
        check(cuda.cuMemcpyHtoD(address, values.ctypes.data, values.nbytes))
    threads = int(sys.argv[1])
    check(cuda.cuLaunchKernel(add, 1, 1, 1, threads, 1, 1, 0, 0, ((x, y), (None, None)), 0))
    check(cuda.cuMemcpyDtoH(values.ctypes.data, y, values.nbytes))
    print(values.sum())
"""

TRITON = """
    import sys

    class WithoutTorch:
        def find_spec(self, name, *_):
            if name == "torch":
                raise ModuleNotFoundError(name)

    sys.meta_path.insert(0, WithoutTorch())
    import numpy as np
    import triton
    import triton.language as tl
    from cuda.bindings import driver as cuda

    class Array:
        def __init__(self, values):
            self.dtype = {"float16": "fp16", "float32": "fp32"}[values.dtype.name]
            self.values = values
            error, self.pointer = cuda.cuMemAlloc(values.nbytes)
            assert error == 0, error
            (error,) = cuda.cuMemcpyHtoD(self.pointer, values.ctypes.data, values.nbytes)
            assert error == 0, error

        def data_ptr(self):
            return int(self.pointer)

        def numpy(self):
            (error,) = cuda.cuMemcpyDtoH(self.values.ctypes.data, self.pointer, self.values.nbytes)
            assert error == 0, error
            return self.values

    @triton.jit
    def softmax(x, y, columns, block: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, block)
        v = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + row * columns + i, e / tl.sum(e, 0), mask=i < columns)

    @triton.jit
    def product(a, b, c, k: tl.constexpr):
        i = tl.arange(0, 64)
        j = tl.arange(0, k)
        x = tl.load(a + i[:, None] * k + j[None, :])
        y = tl.load(b + j[:, None] * 64 + i[None, :])
        tl.store(c + i[:, None] * 64 + i[None, :], tl.dot(x, y))

    assert cuda.cuInit(0)[0] == 0
    assert cuda.cuCtxSetCurrent(cuda.cuDevicePrimaryCtxRetain(0)[1])[0] == 0
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 1000)).astype(np.float32)
    gx, gy = Array(x), Array(np.zeros_like(x))
    softmax[(8,)](gx, gy, 1000, 1024)
    e = np.exp(x - x.max(1, keepdims=True))
    assert np.abs(gy.numpy() - e / e.sum(1, keepdims=True)).max() < 1e-8
    a, b = (rng.integers(-8, 8, shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    ga, gb, gc = Array(a), Array(b), Array(np.zeros((64, 64), np.float32))
    product[(1,)](ga, gb, gc, 128)
    assert (gc.numpy() == a.astype(np.float32) @ b.astype(np.float32)).all()
"""

# In place of ptxas: the driver runs the PTX itself.
PTXAS = """\
#!/bin/sh
case "$*" in *--version*) echo "Cuda compilation tools, release 13.0, V13.0.48"; exit;; esac
while [ $# -gt 0 ]; do
  case "$1" in
    -o) output=$2; shift ;;
    *.ptx) input=$1 ;;
  esac
  shift
done
cp "$input" "$output"
"""


def program() -> str:
    """The program with the libraries of `exec`: a build's, or the one that is installed."""
    build = pathlib.Path(__file__).parents[2] / "build" / "test" / "bitmma"
    path = str(build) if build.exists() else shutil.which("bitmma")
    if path is None or subprocess.run([path, "exec", "--", "true"], check=False).returncode != 0:
        pytest.fail("bitmma exec is not built: cmake --build --preset test")
    return path


def run(
    tmp_path: pathlib.Path, text: str, *arguments: str, flags: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(text))
    words = [program(), "exec", *flags, "--", sys.executable, str(file), *arguments]
    return subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False)


def test_cuda_python(tmp_path):
    pytest.importorskip("cuda.bindings")
    done = run(tmp_path, ADD, "64", flags=("--json", str(tmp_path / "report.json")))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "NVIDIA H100 80GB HBM3\n4032.0\n"
    report = json.loads((tmp_path / "report.json").read_text())
    assert [kernel["kernel"] for kernel in report["kernels"]] == ["add"]
    assert report["faults"] == [] and report["refused_calls"] == []


def test_a_fault_is_an_error_of_cuda(tmp_path):
    pytest.importorskip("cuda.bindings")
    done = run(tmp_path, ADD, "65", flags=("--json", str(tmp_path / "report.json"), "--quiet"))
    assert done.returncode == 1
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stderr
    assert "thread (64, 0, 0)" in done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [(fault["code"], fault["result"]) for fault in report["faults"]] == [("out_of_bounds", 700)]


def test_private_functions_are_named_only_by_a_program_that_fails_without_a_launch(tmp_path):
    ask = """
        import _ctypes, ctypes, sys
        table = ctypes.c_void_p()
        driver = ctypes.CDLL("libcuda.so.1")
        assert driver.cuGetExportTable(ctypes.byref(table), ctypes.create_string_buffer(16)) == 801
        _ctypes.dlclose(driver._handle)  # as a static runtime then does
        sys.exit(int(sys.argv[1]))
    """
    for code in (0, 1):
        done = run(tmp_path, ask, str(code))
        assert done.returncode == code, done.stderr
        assert ("private functions" in done.stderr) == (code != 0), done.stderr


def test_triton(tmp_path):
    pytest.importorskip("triton")
    pytest.importorskip("cuda.bindings")
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(PTXAS)
    ptxas.chmod(0o755)
    done = run(
        tmp_path,
        TRITON,
        flags=("--quiet",),
        TRITON_PTXAS_PATH=str(ptxas),
        TRITON_PTXAS_BLACKWELL_PATH=str(ptxas),
        TRITON_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert done.returncode == 0, done.stderr
