"""Numba's kernels: pip install "numba-cuda[cu12]". An array is seven parameters in its ABI, for one dimension."""

import math

import numpy as np
from numba import cuda, float32

import bitmma


def grow(x, y, a):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.exp(a * x[i])


def numba_array(x: np.ndarray) -> list:
    """What Numba passes for an array: two pointers that kernels do not read, sizes, the data, the shape, the
    strides."""
    return [None, None, x.size, x.itemsize, x, *x.shape, *x.strides]


ptx, _ = cuda.compile_ptx(grow, (float32[::1], float32[::1], float32), cc=(9, 0))
kernel = bitmma.kernel(ptx, target="sm_90a")
x, y = np.linspace(-1, 1, 1000, dtype=np.float32), np.zeros(1000, np.float32)
kernel[8, 128](*numba_array(x), *numba_array(y), 2.0)
assert (y == bitmma.math.c("expf", np.float32(2) * x)).all()  # CUDA's expf, word for word
print(y[:3])
