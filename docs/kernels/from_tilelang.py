"""TileLang: pip install tilelang, and nvcc for the CUDA C++ that it makes."""

import pathlib
import subprocess
import tempfile

import numpy as np
import tilelang
import tilelang.language as T

import bitmma

M = N = K = 256


@T.prim_func
def product(a: T.Tensor((M, K), "float16"), b: T.Tensor((K, N), "float16"), c: T.Tensor((M, N), "float16")):
    with T.Kernel(N // 128, M // 128, threads=128) as (column, row):
        tile_a, tile_b = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 128), "float16")
        sums = T.alloc_fragment((128, 128), "float32")
        T.clear(sums)
        for step in T.Pipelined(K // 32, num_stages=2):
            T.copy(a[row * 128, step * 32], tile_a)
            T.copy(b[step * 32, column * 128], tile_b)
            T.gemm(tile_a, tile_b, sums)
        T.copy(sums, c[row * 128, column * 128])


with tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}):
    source = tilelang.lower(product).kernel_source
with tempfile.TemporaryDirectory() as folder:
    wheel, file = pathlib.Path(tilelang.__file__).parent, pathlib.Path(folder) / "k.cu"
    file.write_text(source)
    subprocess.run(
        [
            "nvcc",
            "-ptx",
            "-arch=sm_90a",
            "-std=c++17",
            "-w",
            f"-I{wheel / 'src'}",
            f"-I{wheel / '3rdparty/cutlass/include'}",
            file,
            "-o",
            file.with_suffix(".ptx"),
        ],
        check=True,
    )
    ptx = file.with_suffix(".ptx").read_text()
kernel = bitmma.kernel(ptx, target="sm_90a")
rng = np.random.default_rng(0)
a, b = (rng.standard_normal((256, 256)).astype(np.float16) for _ in range(2))
c = np.zeros((M, N), np.float16)
# Its maps: boxes of A with 32 columns, of B with 64.
maps = bitmma.tensor_map(a, (128, 32), swizzle="64"), bitmma.tensor_map(b, (32, 64), swizzle="128")
kernel[(2, 2), 256, 49152](*maps, c)
plan = {"instruction": "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", "output": {"type": "f16"}}
bitmma.testing.assert_bits_equal(c, bitmma.gemm(a, b, plan))
print(c[0, :3])
