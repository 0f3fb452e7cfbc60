#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kernels that CuTe DSL compiles from CUTLASS' examples, for a GPU and for bitmma. CuTe DSL needs no GPU for that.

  cute_dsl.py DIR EXAMPLES     DIR/jobs.txt with modules and inputs; EXAMPLES is examples/python/CuTeDSL/cute of CUTLASS
  g++ -std=c++20 -O1 lab/launch_kernels.cpp -o DIR/launch -ldl && DIR/launch DIR/jobs.txt       on the GPU
  lab/record_kernels.py compare DIR

Needs the wheel nvidia-cutlass-dsl, and what lab/record_kernels.py needs.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("CUTE_DSL_ARCH", "sm_90a")
os.environ["CUTE_DSL_KEEP_PTX"] = "1"
os.environ["CUTE_DSL_DUMP_DIR"] = tempfile.mkdtemp()  # it writes files, too

import cutlass
import cutlass.cute as cute
from cutlass.cute import runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]
f16, bf16, f32 = cutlass.Float16, cutlass.BFloat16, cutlass.Float32


def module_of(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensor(dtype, *shape, order=None):
    order = order or tuple(range(len(shape) - 1, -1, -1))
    return runtime.make_fake_compact_tensor(dtype, shape, stride_order=order, assumed_align=16)


def matrix(dtype, rows, cols):
    """Row by row, in a batch of one."""
    return tensor(dtype, rows, cols, 1, order=(1, 0, 2))


def compiled(examples):
    """Each kernel as (name, PTX)."""
    stream = runtime.make_fake_stream()
    hopper = module_of(examples / "hopper/kernel/dense_gemm/dense_gemm.py", "hopper_gemm").HopperWgmmaGemmKernel
    sgemm = module_of(examples / "ampere/kernel/dense_gemm/sgemm.py", "sgemm").SGemm
    tensorop = module_of(examples / "ampere/kernel/dense_gemm/tensorop_gemm.py", "tensorop").TensorOpGemm
    attention = module_of(examples / "ampere/kernel/attention/flash_attention_v2.py", "fa2").FlashAttentionForwardAmpere
    norm = module_of(examples / "hopper/kernel/cta_norm/cta_norm.py", "norm").CtaNorm

    def product(dtype, out, tile, cluster, m, n, k):
        return hopper(f32, tile, cluster), matrix(dtype, m, k), matrix(dtype, n, k), matrix(out, m, n), stream

    def fused(dtype, causal):
        return attention(64, 64, 64, 128, causal), *[tensor(dtype, 1, 256, 2, 64) for _ in range(4)], f32(0.125), stream

    def normed(kind):
        x, weight = (tensor(f16, 64, 1024) for _ in range(2)), [tensor(f16, 1024) for _ in range(2)]
        return norm(1024, kind), *x, weight[0], weight[1] if kind == "layer" else None

    rows = [tensor(f32, 256, cols, order=(1, 0)) for cols in (128, 128, 256)]
    for name, (function, *arguments) in {
        "hopper_f16": product(f16, f16, (128, 128), (1, 1), 256, 256, 256),
        "hopper_f16_cluster": product(f16, f16, (128, 256), (2, 1), 512, 512, 256),
        "hopper_bf16_f32": product(bf16, f32, (64, 64), (1, 1), 128, 128, 192),
        "sgemm": (sgemm(), *rows),
        "tensorop_f16": (
            tensorop(f16, f16, f32, (2, 2, 1)),
            matrix(f16, 256, 128),
            matrix(f16, 256, 128),
            matrix(f16, 256, 256),
            stream,
        ),
        "attention_f16": fused(f16, False),
        "attention_bf16_causal": fused(bf16, True),
        "layer_norm_f16": normed("layer"),
        "rms_norm_f16": normed("rms"),
    }.items():
        ptx = cute.compile(function, *arguments).__ptx__.rstrip("\0")
        if name.endswith("cluster"):  # the launch says it, not the kernel
            ptx = ptx.replace(".reqntid", ".reqnctapercluster 2, 1, 1\n.reqntid", 1)
        yield name, ptx


def launches():
    """As in lab/record_kernels.py: arrays, tensor maps and numbers of 32 bits."""

    def operand(kind, rows, cols, box, swizzle="128"):
        return {"map": f"{kind}[{rows},{cols}]", "box": box, "swizzle": swizzle}

    most, scale = 230400, 0.125 * 1.4426950408889634
    for how in ("normal", "wide", "peaked"):
        yield (
            "hopper_f16",
            (2, 2, 1),
            128,
            most,
            [
                operand("fp16", 256, 256, [128, 64]),
                operand("fp16", 256, 256, [128, 64]),
                operand("fp16", 256, 256, [64, 32], "64"),
            ],
            1,
            how,
        )
        yield (
            "hopper_f16_cluster",
            (4, 2, 1),
            256,
            most,
            [
                operand("fp16", 512, 256, [128, 64]),
                operand("fp16", 512, 256, [128, 64]),
                operand("fp16", 512, 512, [64, 32], "64"),
            ],
            1,
            how,
        )
        yield (
            "hopper_bf16_f32",
            (2, 2, 1),
            128,
            most,
            [
                operand("bf16", 128, 192, [64, 64]),
                operand("bf16", 128, 192, [64, 64]),
                operand("fp32", 128, 128, [64, 32]),
            ],
            1,
            how,
        )
        yield "sgemm", (2, 2, 1), 256, 49152, ["fp32[256,128]", "fp32[256,128]", "fp32[256,256]"], 0, how
        yield "tensorop_f16", (4, 1, 1), 128, 98304, ["fp16[256,128]", "fp16[256,128]", "fp16[256,256]", 2], 0, how
        for name, kind in (("attention_f16", "fp16"), ("attention_bf16_causal", "bf16")):
            yield name, (4, 1, 2), 128, 49152, [f"{kind}[256,2,64]"] * 4 + [scale], 0, how
        yield (
            "layer_norm_f16",
            (64, 1, 1),
            64,
            1024,
            ["fp16[64,1024]", "fp16[64,1024]", "fp16[1024]", "fp16[1024]", 1e-6],
            0,
            how,
        )
        yield "rms_norm_f16", (64, 1, 1), 64, 1024, ["fp16[64,1024]", "fp16[64,1024]", "fp16[1024]", 1e-6], 0, how


def main(folder, examples):
    record = module_of(ROOT / "lab" / "record_kernels.py", "record_kernels")
    os.makedirs(folder, exist_ok=True)
    entries = {}
    for name, ptx in compiled(pathlib.Path(examples)):
        # Names of CuTe DSL's kernels hold all their types.
        entries[name] = re.search(r"\.entry ([\w$]+)", ptx)[1]
        path = os.path.join(folder, f"{name}.ptx")
        with open(path, "w") as file:
            file.write(ptx)
        subprocess.run(
            [os.environ.get("BITMMA_PTXAS", "ptxas"), "-arch=sm_90a", "-o", path[:-3] + "cubin", path], check=True
        )
    jobs, rows = [], []
    for number, (name, grid, block, shared, arguments, tail, how) in enumerate(launches(), 6000):
        jobs += [f"module {name}.cubin", f"launch {entries[name]} " + " ".join(map(str, (*grid, block, 1, 1, shared)))]
        files = []
        for i, (operand, argument) in enumerate(
            zip(record.operands_of(number, name, arguments, how), arguments, strict=True)
        ):
            if not hasattr(operand, "tofile") or operand.ndim == 0:
                jobs.append(f"value {int(operand):x} 4")
                files.append(None)
                continue
            files.append(f"{number}_{i}.bin")
            operand.tofile(os.path.join(folder, files[-1]))
            jobs.append(
                record.map_line(files[-1], argument, operand) if isinstance(argument, dict) else f"memory {files[-1]}"
            )
        jobs += ["value 0 1"] * tail + ["run"]
        rows.append(
            {
                "number": number,
                "module": name,
                "entry": entries[name],
                "grid": grid,
                "block": [block, 1, 1],
                "shared": shared,
                "arguments": arguments,
                "files": files,
                "extra": tail,
                "how": how,
            }
        )
    with open(os.path.join(folder, "jobs.txt"), "w") as file:
        file.write("\n".join(jobs) + "\n")
    with open(os.path.join(folder, "launches.json"), "w") as file:
        json.dump(rows, file, indent=1)
    print(len(rows), "launches")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
