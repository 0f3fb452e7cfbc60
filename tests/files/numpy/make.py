"""Makes the files beside it, with NumPy 2.4."""

import numpy as np

rng = np.random.default_rng(7)
instruction = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
a = rng.integers(-8, 9, (16, 16)).astype(np.float16)
b = rng.integers(-8, 9, (16, 8)).astype(np.float16)
c = np.arange(128, dtype=np.float32).reshape(16, 8)
np.savez("plain.npz", a=a, b=b, c=c, instruction=instruction)
# Keys as strings, bytes and whole numbers.
wgmma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
tall = np.tile(a, (4, 1))
np.savez("keys.npz", a=tall, b=b, instruction=wgmma.encode(), scale_d=0, imm_scale_a=np.int8(-1))
np.savez("float_key.npz", a=tall, b=b, instruction=wgmma, scale_d=np.float32(0))
np.savez("fortran.npz", a=np.asfortranarray(a[None]), b=np.asfortranarray(b[None]), c=c[None], instruction=instruction)
np.savez_compressed("compressed.npz", a=a, b=b, c=c, instruction=instruction)
np.savez("big_endian.npz", a=a.astype(">f2"), b=b)
np.savez("objects.npz", a=np.array([None, {}], dtype=object))
for name, array in (("a", a), ("b", b), ("c", c)):
    np.save(name + ".npy", array)
