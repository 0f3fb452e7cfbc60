#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The 128 bytes that the driver's cuTensorMapEncodeTiled makes of a tensor map, one field varied at a time, and random
ones; and which maps it refuses.

  record_tensor_maps.py -o maps.txt                     needs a GPU's driver
  record_tensor_maps.py --im2col -o im2col_maps.txt     those of cuTensorMapEncodeIm2col and ...Im2colWide

A line: type, rank, address, sizes, strides, box, element strides, interleave, swizzle, promotion, fill; then the result
and the bytes in hex. With --im2col it begins with "im2col", "wide" or "wide128" (the mode), and in place of the box are
the lower corner, the upper corner, the channels per pixel and the pixels per column; the corners of a wide map have one
number. A result of -1: the driver has no such function.
"""

import argparse
import ctypes
import random

TYPES = {
    0: 8,
    1: 16,
    2: 32,
    3: 32,
    4: 64,
    5: 64,
    6: 16,
    7: 32,
    8: 64,
    9: 16,
    10: 32,
    11: 32,
    12: 32,
    13: 4,
    14: 4,
    15: 6,
}


def encode(cuda, m):
    out = (ctypes.c_uint8 * 256)()
    at = (ctypes.addressof(out) + 63) // 64 * 64
    rank = m["rank"]
    sizes = (ctypes.c_uint64 * 5)(*m["sizes"])
    strides = (ctypes.c_uint64 * 5)(*m["strides"])
    box = (ctypes.c_uint32 * 5)(*m["box"])
    steps = (ctypes.c_uint32 * 5)(*m["steps"])
    result = cuda.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), m["type"], rank, ctypes.c_void_p(m["address"]), sizes, strides, box, steps,
        m["interleave"], m["swizzle"], m["promotion"], m["fill"],
    )  # fmt: skip
    return result, bytes((ctypes.c_uint8 * 128).from_address(at))


def encode_im2col(cuda, m):
    out = (ctypes.c_uint8 * 256)()
    at = (ctypes.addressof(out) + 63) // 64 * 64
    sizes, strides = (ctypes.c_uint64 * 5)(*m["sizes"]), (ctypes.c_uint64 * 5)(*m["strides"])
    steps = (ctypes.c_uint32 * 5)(*m["steps"])
    lower, upper = m["lower"], m["upper"]
    is_wide = m["mode"] != "im2col"
    function = getattr(cuda, "cuTensorMapEncodeIm2colWide" if is_wide else "cuTensorMapEncodeIm2col", None)
    if function is None:
        return -1, b""
    corners = (lower[0], upper[0]) if is_wide else ((ctypes.c_int * 3)(*lower), (ctypes.c_int * 3)(*upper))
    mode = ({"wide": 0, "wide128": 1}[m["mode"]],) if is_wide else ()
    result = function(
        ctypes.c_void_p(at), m["type"], m["rank"], ctypes.c_void_p(m["address"]), sizes, strides, *corners,
        m["channels"], m["pixels"], steps, m["interleave"], *mode, m["swizzle"], m["promotion"], m["fill"],
    )  # fmt: skip
    return result, bytes((ctypes.c_uint8 * 128).from_address(at))


def base(rank=3, kind=6):
    bits = TYPES[kind]
    m = {
        "type": kind,
        "rank": rank,
        "address": 0x7F0000000000,
        "sizes": [256, 128, 64, 32, 16][:rank],
        "strides": [],
        "box": [16, 8, 4, 2, 1][:rank],
        "steps": [1] * rank,
        **dict.fromkeys(("interleave", "swizzle", "promotion", "fill"), 0),
    }
    if kind in (14, 15):
        m["box"][0] = 128
    stride = 256 * bits // 8 if bits >= 4 else 256
    for i in range(1, rank):
        m["strides"].append(stride)
        stride *= m["sizes"][i]
    return m


def variations():
    for rank in range(1, 6):
        yield base(rank)
    for kind in range(16):
        yield base(3, kind)
        yield base(2, kind)
    for rank in (2, 3, 5):
        for bit in list(range(4, 47)):
            yield base(rank) | {"address": 1 << bit}
        for axis in range(rank):
            for bit in range(33):
                m = base(rank)
                m["sizes"][axis] = (1 << bit) if bit < 32 else (1 << 32)
                yield m
                m = base(rank)
                m["sizes"][axis] = (1 << bit) + 1 if bit < 32 else (1 << 32) - 1
                yield m
            for value in list(range(1, 257)) if axis < 2 else (1, 2, 3, 4, 7, 8, 16, 31, 64, 128, 129, 255, 256):
                m = base(rank, 0)
                m["box"][axis] = value
                yield m
            for value in range(1, 9):
                m = base(rank)
                m["steps"][axis] = value
                yield m
        for axis in range(rank - 1):
            for bit in range(4, 41):
                for extra in (0, 16):
                    m = base(rank)
                    m["strides"][axis] = (1 << bit) + extra
                    yield m
    for interleave in range(3):
        for swizzle in range(8):
            for kind in (0, 6, 7, 13, 14, 15):
                for rank in (2, 3):
                    yield base(rank, kind) | {"interleave": interleave, "swizzle": swizzle}
    for promotion in range(4):
        yield base() | {"promotion": promotion}
    for fill in range(2):
        for kind in range(16):
            yield base(3, kind) | {"fill": fill}
    # The box's inner extent for each swizzle.
    for swizzle in range(8):
        for kind in (0, 1, 2, 4, 13, 14, 15):
            for inner in (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256):
                m = base(2, kind) | {"swizzle": swizzle}
                m["box"][0] = inner
                yield m
    draw = random.Random(5)
    for _ in range(3000):
        rank, kind = draw.randint(1, 5), draw.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
        m = base(rank, kind)
        m["address"] = draw.getrandbits(draw.randint(5, 43)) << 4
        m["sizes"] = [draw.getrandbits(draw.randint(1, 32)) + 1 for _ in range(rank)]
        m["strides"] = [(draw.getrandbits(draw.randint(1, 35)) + 1) * 16 for _ in range(rank - 1)]
        m["box"] = [draw.choice([1, 2, 4, 8, 16, draw.randint(1, 256)]) for _ in range(rank)]
        m["steps"] = [draw.randint(1, 8) for _ in range(rank)]
        m["swizzle"] = draw.choice([0, 0, 1, 2, 3, 4, 5, 6])
        m["promotion"] = draw.randint(0, 3)
        m["fill"] = draw.randint(0, 1)
        yield m


def im2col_base(rank=4, kind=6, mode="im2col"):
    m = base(rank, kind) | {"mode": mode, "channels": 16, "pixels": 32}
    del m["box"]
    corners = 1 if mode != "im2col" else rank - 2
    m["lower"], m["upper"] = [0] * corners, [0] * corners
    if kind in (14, 15):
        m["channels"] = 128
    if mode != "im2col":
        m["swizzle"] = 3
        m["channels"] = 64 if mode == "wide" else 32
    return m


def im2col_variations():
    for mode in ("im2col", "wide", "wide128"):
        for rank in range(1, 6):
            yield im2col_base(max(rank, 2), 6, mode) | {"rank": rank}
        for kind in range(16):
            yield im2col_base(4, kind, mode)
        for rank in (3, 4, 5):
            start = im2col_base(rank, 6, mode)
            for corner in ("lower", "upper"):
                for axis in range(len(start[corner])):
                    # The range of a corner depends on the rank: 16, 8 or 5 bits.
                    for value in [*range(-40, 41), *(sign << bit for bit in range(6, 17) for sign in (1, -1)),
                                  -129, -128, -127, 126, 127, 129, -32769, 32767]:  # fmt: skip
                        m = im2col_base(rank, 6, mode)
                        m[corner][axis] = value
                        yield m
            for value in range(1, 258):
                yield im2col_base(rank, 0, mode) | {"channels": value}
            for value in [*range(1, 34), *(1 << bit for bit in range(6, 12)), 127, 255, 257, 511, 513, 1023, 1025]:
                yield im2col_base(rank, 6, mode) | {"pixels": value}
            for axis in range(rank):
                for value in range(1, 9):
                    m = im2col_base(rank, 6, mode)
                    m["steps"][axis] = value
                    yield m
                for bit in range(33):
                    m = im2col_base(rank, 6, mode)
                    m["sizes"][axis] = 1 << bit
                    yield m
            for axis in range(rank - 1):
                for bit in range(4, 41):
                    m = im2col_base(rank, 6, mode)
                    m["strides"][axis] = 1 << bit
                    yield m
            for bit in range(4, 47):
                yield im2col_base(rank, 6, mode) | {"address": 1 << bit}
            for interleave in range(3):
                for swizzle in range(8):
                    for kind in (0, 6, 7):
                        for channels in (16, 32, 64):
                            yield im2col_base(rank, kind, mode) | {
                                "interleave": interleave, "swizzle": swizzle, "channels": channels,
                            }  # fmt: skip
            for promotion in range(4):
                yield im2col_base(rank, 6, mode) | {"promotion": promotion}
            for fill in range(2):
                yield im2col_base(rank, 6, mode) | {"fill": fill}
    draw = random.Random(6)
    for _ in range(3000):
        mode = draw.choice(["im2col", "im2col", "wide", "wide128"])
        rank, kind = draw.randint(3, 5), draw.randint(0, 12)
        m = im2col_base(rank, kind, mode)
        most = {3: 32767, 4: 127, 5: 15}[rank]
        for corner in ("lower", "upper"):
            m[corner] = [draw.randint(-draw.randint(1, most), draw.randint(1, most)) for _ in m[corner]]
        m["address"] = draw.getrandbits(draw.randint(5, 43)) << 4
        m["sizes"] = [draw.getrandbits(draw.randint(4, 20)) + 64 for _ in range(rank)]
        m["strides"] = [(draw.getrandbits(draw.randint(1, 35)) + 1) * 16 for _ in range(rank - 1)]
        m["channels"] = draw.choice([8, 16, 32, 64, 128, 256])
        m["pixels"] = draw.randint(1, 1024)
        m["steps"] = [draw.randint(1, 8) for _ in range(rank)]
        m["swizzle"] = draw.choice([0, 1, 2, 3])
        m["promotion"], m["fill"] = draw.randint(0, 3), draw.randint(0, 1)
        yield m


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", required=True, metavar="FILE")
    parser.add_argument("--im2col", action="store_true")
    options = parser.parse_args()
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuInit(0)
    context = ctypes.c_void_p()
    device = ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)
    with open(options.o, "w") as file:
        for m in im2col_variations() if options.im2col else variations():
            result, data = (encode_im2col if options.im2col else encode)(cuda, m)
            fields = [*([m["mode"]] if options.im2col else []), m["type"], m["rank"], hex(m["address"])]
            lists = ["sizes", "strides", *(["lower", "upper"] if options.im2col else ["box"])]
            fields += [",".join(map(str, m[name])) or "-" for name in lists]
            if options.im2col:
                fields += [m["channels"], m["pixels"]]
            fields.append(",".join(map(str, m["steps"])))
            fields += [m["interleave"], m["swizzle"], m["promotion"], m["fill"], result]
            print(*fields, data.hex() if result == 0 else "-", file=file)


if __name__ == "__main__":
    main()
