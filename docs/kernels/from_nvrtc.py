"""CUDA C++ by NVRTC, whose wheels need no GPU: pip install cuda-python nvidia-cuda-nvrtc-cu12."""

import numpy as np
from cuda.bindings import nvrtc

import bitmma

SOURCE = b"""
extern "C" __global__ void scaled(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""


def ptx_of(source: bytes, *options: bytes) -> str:
    _, program = nvrtc.nvrtcCreateProgram(source, b"kernel.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), list(options))
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.rstrip(b"\0").decode()


kernel = bitmma.kernel(ptx_of(SOURCE, b"--gpu-architecture=compute_90a"), "scaled", target="sm_90a")
x, y = np.linspace(-1, 1, 1000, dtype=np.float32), np.full(1000, 0.1, np.float32)
expected = np.float32(2.5) * x.astype(np.float64) + y.astype(np.float64)  # one rounding: ptxas makes an fma
kernel[8, 128](x, y, 2.5, 1000)
assert (y == expected.astype(np.float32)).all()
print(kernel, y[:3])
