"""CuTe DSL: pip install nvidia-cutlass-dsl. Tensors without memory stand for the arguments when it compiles."""

import os
import tempfile

os.environ["CUTE_DSL_ARCH"], os.environ["CUTE_DSL_KEEP_PTX"] = "sm_90a", "1"
os.environ["CUTE_DSL_DUMP_DIR"] = tempfile.mkdtemp()  # it writes files, too

import cutlass  # noqa: E402
import cutlass.cute as cute  # noqa: E402
import numpy as np  # noqa: E402
from cutlass.cute.runtime import make_fake_compact_tensor  # noqa: E402

import bitmma  # noqa: E402


@cute.kernel
def multiply_add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = 128 * block + thread
    c[i] = a[i] * b[i] + a[i]


@cute.jit
def run(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    multiply_add(a, b, c).launch(grid=[8, 1, 1], block=[128, 1, 1])


ptx = cute.compile(run, *[make_fake_compact_tensor(cutlass.Float32, (1024,)) for _ in range(3)]).__ptx__.rstrip("\0")
kernel = bitmma.kernel(ptx, target="sm_90a")
rng = np.random.default_rng(0)
a, b, c = (rng.standard_normal(1024).astype(np.float32) for _ in range(3))
kernel[8, 128](a, b, c)
assert (c == (a.astype(np.float64) * b + a).astype(np.float32)).all()  # an fma
print(c[:3])
