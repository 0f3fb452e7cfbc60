#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Words of the special function unit at the ends of every quadratic, from a GPU: data/math/ends.csv.

  record_math_words.py make > words.csv           function and argument; needs the bitmma package
  record_math_words.py run words.csv > ends.csv   and the GPU's result; needs CuPy and a GPU, nothing of bitmma

The arguments of a function are those between which the quadratic changes, one from the middle of each quadratic, for
ex2 and tanh the same with the sign, for rcp, rsqrt, sqrt and lg2 with other exponents, for sin and cos those beside
quarters of a turn, with both signs.
"""

import sys

BINADES = {  # exponents of 2 whose arguments are walked; -: those of negative arguments as well
    "ex2.approx.f32": ("-", 0, 1),
    "rcp.approx.f32": ("", 0, 1),
    "rsqrt.approx.f32": ("", 0, 2),
    "sqrt.approx.f32": ("", 0, 2),
    "lg2.approx.f32": ("", -1, 1),
    "sin.approx.f32": ("", -3, 3),
    "cos.approx.f32": ("", -3, 3),
    "tanh.approx.f32": ("-", -9, 4),
}
OTHER_EXPONENTS = {"rcp.approx.f32": (-126, -40, 60, 126), "rsqrt.approx.f32": (-126, -40, 60, 126),
                   "sqrt.approx.f32": (-126, -40, 60, 126), "lg2.approx.f32": (-126, -40, 60, 126)}  # fmt: skip


def make():
    import numpy as np

    import bitmma

    for function, (signs, first, end) in BINADES.items():
        words = set()

        def quadratic(word, function=function):
            unit = bitmma.math.explain(function, np.uint32(word).view(np.float32)).get("unit")
            return (unit["table"], unit["index"]) if unit else None

        def walk(low, high, of_low, of_high, words=words):
            """Adds the words on both sides of every change between low and high to `words`."""
            if of_low == of_high:
                words.add((low + high) // 2)
                return
            if high - low == 1:
                words.update((low, high))
                return
            middle = (low + high) // 2
            of_middle = quadratic(middle)
            for a, b, of_a, of_b in ((low, middle, of_low, of_middle), (middle, high, of_middle, of_high)):
                walk(a, b, of_a, of_b)

        for word in range(first + 127 << 23, end + 127 << 23, 1 << 17):
            last = word + (1 << 17) - 1
            words.update((word, last))
            walk(word, last, quadratic(word), quadratic(last))
        for exponent in OTHER_EXPONENTS.get(function, ()):
            words.update(
                exponent + 127 << 23 | word & 0x7FFFFF for word in list(words) if word & 0x1FFFF in (0, 0x1FFFF)
            )
        if function.startswith(("sin", "cos")):  # the quadratic is the same on both sides of a quarter of a turn
            for quarter in range(1, 5):
                near = int(np.float32(quarter * np.pi / 2).view(np.uint32))
                words.update(word | sign for word in range(near - 3, near + 4) for sign in (0, 1 << 31))
        if signs == "-":
            words.update([word | 1 << 31 for word in words])
        for word in sorted(words):
            print(f"{function},{word:08x}")


def run(path):
    import cupy

    asked = {}
    with open(path) as file:
        for line in file:
            function, word = line.split(",")[:2]
            asked.setdefault(function, []).append(int(word, 16))
    print("function,argument,result")
    for function, words in asked.items():
        kernel = cupy.RawKernel(
            'extern "C" __global__ void f(const float* x, float* y, int n) {'
            " int i = blockIdx.x * 256 + threadIdx.x;"
            f' if (i < n) asm volatile("{function} %0, %1;" : "=f"(y[i]) : "f"(x[i])); }}', "f")  # fmt: skip
        x = cupy.asarray(words, dtype=cupy.uint32)
        y = cupy.zeros_like(x)
        kernel(((len(words) + 255) // 256,), (256,), (x, y, cupy.int32(len(words))))
        for word, result in zip(words, y.get().tolist(), strict=True):
            print(f"{function},{word:08x},{result:08x}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"] and len(sys.argv) == 2:
        make()
    elif sys.argv[1:2] == ["run"] and len(sys.argv) == 3:
        run(sys.argv[2])
    else:
        sys.exit(__doc__)
