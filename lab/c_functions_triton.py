#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles the functions that bitmma knows of Triton: one kernel each, as those of c_functions.cu.

  c_functions_triton.py DIR        DIR/NAME.ptx and DIR/NAME.cubin for sm_90a; no GPU is needed

The kernel of the row tl.exp is bits_of_tl_exp_triton(first, results): results[i] is the word that the function gives
for the word *first + i, in blocks of 128 threads. With two operands, (a, b, results): for a[i] and b[i]. Triton adds
parameters of its own behind these, pointers that may be null.
"""

import importlib.util
import os
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

BLOCK = 128
EXPRESSIONS = {
    name: f"{name}(x)"
    for name in (
        "tl.exp tl.exp2 tl.log tl.log2 tl.sin tl.cos tl.erf tl.sqrt tl.sqrt_rn tl.rsqrt tl.sigmoid libdevice.exp "
        "libdevice.exp10 libdevice.expm1 libdevice.log10 libdevice.log1p libdevice.tanh libdevice.fast_expf "
        "libdevice.fast_logf"
    ).split()
}
EXPRESSIONS |= {"silu": "x * tl.sigmoid(x)", "reciprocal": "1.0 / x"}
EXPRESSIONS_OF_TWO = {
    "division": "x / y",
    "tl.div_rn": "tl.div_rn(x, y)",
    "libdevice.pow": "libdevice.pow(x, y)",
    "libdevice.fast_powf": "libdevice.fast_powf(x, y)",
}


def entry(name):
    return "bits_of_" + name.replace(".", "_") + "_triton"


def source():
    text = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"
    for name, expression in (EXPRESSIONS | EXPRESSIONS_OF_TWO).items():
        two = name in EXPRESSIONS_OF_TWO
        load = "tl.load({} + i).to(tl.float32, bitcast=True)"
        x = load.format("a") if two else "(tl.load(first) + i).to(tl.float32, bitcast=True)"
        text += f"""

@triton.jit
def {entry(name)}({"a, b" if two else "first"}, results):
    i = tl.program_id(0) * {BLOCK} + tl.arange(0, {BLOCK})
    x = {x}
"""
        text += f"    y = {load.format('b')}\n" if two else ""
        text += f"    tl.store(results + i, ({expression}).to(tl.int32, bitcast=True))\n"
    return text


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "kernels.py")
    with open(path, "w") as out:
        out.write(source())
    spec = importlib.util.spec_from_file_location("kernels", path)
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    for name in EXPRESSIONS | EXPRESSIONS_OF_TWO:
        two = name in EXPRESSIONS_OF_TWO
        signature = dict.fromkeys(["a", "b", "results"] if two else ["first", "results"], "*i32")
        compiled = triton.compile(ASTSource(getattr(kernels, entry(name)), signature), target=GPUTarget("cuda", 90, 32))
        with open(os.path.join(folder, name + ".ptx"), "w") as out:
            out.write(compiled.asm["ptx"])
        with open(os.path.join(folder, name + ".cubin"), "wb") as out:
            out.write(compiled.asm["cubin"])


if __name__ == "__main__":
    main()
