#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Launches of whole kernels, for a GPU to run and for bitmma to compare.

  record_kernels.py make DIR TRITON     DIR/jobs.txt with modules and inputs; TRITON is what data/kernels/triton_kernels.py
                                        wrote, or - for the kernels of nvcc alone
  g++ -std=c++20 -O1 tools/launch_kernels.cpp -o DIR/launch -ldl && DIR/launch DIR/jobs.txt       on the GPU
  record_kernels.py compare DIR         runs every launch here, and counts outputs that differ
  record_kernels.py digests DIR GPU     a CSV of what the GPU gave: GPU is its name, as in data/kernels/h100.csv

`make` needs ptxas (BITMMA_PTXAS), NumPy and ml_dtypes; `compare` the bitmma package.
"""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

import ml_dtypes
import numpy as np

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "kernels")
TYPES = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "s32": np.int32, "u32": np.uint32,
         "u8": np.uint8}


def array(rng, text, how):
    """Numbers of "fp16[8,1000]"."""
    kind, shape = text.rstrip("]").split("[")
    shape, dtype = tuple(int(one) for one in shape.split(",")), TYPES[kind]
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 256 if kind == "u8" else 1000, shape).astype(dtype)
    values = rng.standard_normal(shape)
    if how == "wide":
        values *= np.exp2(rng.integers(-12, 6, shape))
    elif how == "peaked":
        values = np.where(rng.random(shape) < 0.02, 20 * values, 0.1 * values)
    return values.astype(np.float32).astype(dtype)


def cuda_launches():
    n, f = "module cuda", "fp32"
    for how in ("normal", "wide", "peaked"):
        yield n, "reduce", (4, 1, 1), (256, 1, 1), 0, [f"{f}[50000]", f"{f}[4]", 50000], how
        yield n, "softmax", (16, 1, 1), (128, 1, 1), 0, [f"{f}[16,1000]", f"{f}[16,1000]", 1000], how
        yield n, "layer_norm", (16, 1, 1), (128, 1, 1), 0, [f"{f}[16,1000]", f"{f}[1000]", f"{f}[1000]", f"{f}[16,1000]", 1000, 1e-5], how
        yield n, "matmul", (8, 4, 1), (32, 1, 1), 0, ["fp16[64,256]", "fp16[64,256]", f"{f}[64,64]", 64, 256], how
    yield n, "scan", (8, 1, 1), (512, 1, 1), 2048, ["s32[4096]", "s32[4096]"], "normal"
    yield n, "transpose", (7, 5, 1), (32, 8, 1), 0, [f"{f}[150,200]", f"{f}[200,150]", 150, 200], "normal"
    yield n, "histogram", (16, 1, 1), (128, 1, 1), 0, ["u8[100000]", "u32[256]", 100000], "normal"


def fusion_launches():
    with open(os.path.join(DATA, "fusions.txt")) as file:
        names = sorted({line.split()[0] for line in file}, key=lambda name: int(name[1:]))
    for name in names:
        yield "module fusions", name, (1, 1, 1), (1, 1, 1), 0, ["fp32[64]"], "normal"


DRAWN = [(module, kernel) for module in range(16) for kernel in range(25)]


def drawn_launches():
    numbers = ["fp32[64]", "fp32[64]", "s32[64]", "fp32[64]", "s32[64]"]
    for i, (module, kernel) in enumerate(DRAWN):
        yield f"drawn drawn_{module}", f"d{kernel}", (1, 1, 1), (64, 1, 1), 0, numbers, ("normal", "wide", "peaked")[i % 3]


def triton_launches(folder):
    with open(os.path.join(folder, "launches.json")) as file:
        for name, one in json.load(file).items():
            grid = tuple((*one["grid"], 1, 1)[:3])
            for how in ("normal", "wide", "peaked"):
                yield f"triton {name}", one["entry"], grid, (one["block"], 1, 1), one["shared"], one["arguments"], how


def all_launches(triton):
    """Every launch, numbered: its number is the seed of its inputs. `triton`: a folder of Triton's modules, or "-"."""
    yield from enumerate([*cuda_launches(), *fusion_launches(), *([] if triton == "-" else triton_launches(triton))])
    yield from enumerate(drawn_launches(), 1000)


def operands_of(number, entry, arguments, how):
    """What the parameters get: arrays, and numbers of 32 bits as np.uint32."""
    rng, operands = np.random.default_rng(number), []
    for i, argument in enumerate(arguments):
        if isinstance(argument, str):
            operands.append(array(rng, argument, how))
            if entry == "histogram" and i == 1:
                operands[-1][:] = 0
        else:
            operands.append(np.float32(argument).view(np.uint32) if isinstance(argument, float) else np.uint32(argument))
    return operands


def run(kernel, grid, block, shared, operands, extra):
    """Runs a launch with bitmma; arrays are written in place. `extra`: hidden parameters behind those of the launch."""
    given = [one.tobytes() if isinstance(one, np.uint32) else one for one in operands]
    kernel[tuple(grid), tuple(block), shared](*given, *[None] * extra, threads=0)


def digest_of_all(operands):
    sums = [hashlib.sha256(operand.tobytes()).digest() for operand in operands]
    return hashlib.sha256(b"".join(sums)).hexdigest()[:16]


def parameters_of(ptx, entry):
    """How many parameters an entry has, without bitmma."""
    text = ptx.split(f".entry {entry}(")[1].split(")")[0]
    return text.count(".param")


def make(folder, triton):
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(os.path.join(DATA, "drawn.tar.xz")) as packed:
        packed.extractall(folder)
    ptx_files = [os.path.join(DATA, "cuda.ptx"), os.path.join(DATA, "fusions.ptx"), *glob.glob(os.path.join(folder, "drawn", "*.ptx"))]
    for source in ptx_files:
        ptx = os.path.join(folder, os.path.basename(source))
        shutil.copy(source, ptx)
        subprocess.run([os.environ.get("BITMMA_PTXAS", "ptxas"), "-arch=sm_90a", "-o", ptx[:-3] + "cubin", ptx], check=True)
    jobs, rows, last = [], [], None
    for number, (module, entry, grid, block, shared, arguments, how) in all_launches(triton):
        source, name = module.split()
        if source == "triton":
            for ending in ("ptx", "cubin"):
                shutil.copy(os.path.join(triton, f"{name}.{ending}"), folder)
        if name != last:
            # Triton's cubins for sm_80 do not load on later GPUs: the driver compiles their PTX.
            jobs.append(f"module {name}." + ("ptx" if name.endswith("_sm80") else "cubin"))
            last = name
        with open(os.path.join(folder, name + ".ptx")) as file:
            extra = parameters_of(file.read(), entry) - len(arguments)
        jobs.append(f"launch {entry} " + " ".join(str(one) for one in (*grid, *block, shared)))
        files = []
        for i, operand in enumerate(operands_of(number, entry, arguments, how)):
            if isinstance(operand, np.uint32):
                jobs.append(f"value {int(operand):x} 4")
                files.append(None)
            else:
                files.append(f"{number}_{i}.bin")
                operand.tofile(os.path.join(folder, files[-1]))
                jobs.append(f"memory {files[-1]}")
        jobs += ["value 0 8"] * extra + ["run"]
        rows.append({"number": number, "module": name, "entry": entry, "grid": grid, "block": block, "shared": shared,
                     "arguments": arguments, "files": files, "extra": extra, "how": how})
    with open(os.path.join(folder, "jobs.txt"), "w") as out:
        out.write("\n".join(jobs) + "\n")
    with open(os.path.join(folder, "launches.json"), "w") as out:
        json.dump(rows, out, indent=1)
    print(len(rows), "launches")


def read_launches(folder):
    with open(os.path.join(folder, "launches.json")) as file:
        return json.load(file)


def compare(folder):
    import bitmma

    kernels, total, differing, refused = {}, 0, 0, 0
    for row in read_launches(folder):
        where = f"{row['module']} {row['entry']} {row['how']}"
        key = row["module"], row["entry"]
        operands = operands_of(row["number"], row["entry"], row["arguments"], row["how"])
        try:
            if key not in kernels:
                with open(os.path.join(folder, row["module"] + ".ptx")) as file:
                    kernels[key] = bitmma.kernel(file.read(), row["entry"], target="sm_90a")
            run(kernels[key], row["grid"], row["block"], row["shared"], operands, row["extra"])
        except bitmma.Error as error:
            print("REFUSED", where, str(error).splitlines()[0])
            refused += 1
            continue
        for i, (operand, file) in enumerate(zip(operands, row["files"])):
            if file is None:
                continue
            gpu = np.fromfile(os.path.join(folder, f"{file}.gpu"), np.uint8).reshape(-1, operand.dtype.itemsize)
            wrong = int((gpu != operand.reshape(-1).view(np.uint8).reshape(gpu.shape)).any(1).sum())
            total, differing = total + len(gpu), differing + wrong
            if wrong:
                print("DIFFERS", where, f"argument {i}: {wrong} of {len(gpu)}")
    print(f"{differing} of {total} elements differ; {refused} launches are refused")
    raise SystemExit(1 if differing or refused else 0)


def digests(folder, gpu):
    """A row for each launch: digests of its inputs, and of the memory that the GPU left."""
    with open(os.path.join(DATA, gpu + ".csv"), "w") as out:
        out.write("module,entry,inputs,operands before,operands after\n")
        for row in read_launches(folder):
            before = operands_of(row["number"], row["entry"], row["arguments"], row["how"])
            after = [np.fromfile(os.path.join(folder, f"{file}.gpu"), np.uint8) if file else operand
                     for operand, file in zip(before, row["files"])]
            out.write(",".join([row["module"], row["entry"], row["how"], digest_of_all(before), digest_of_all(after)]) + "\n")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "make":
        return make(sys.argv[2], sys.argv[3])
    if len(sys.argv) == 3 and sys.argv[1] == "compare":
        return compare(sys.argv[2])
    if len(sys.argv) == 4 and sys.argv[1] == "digests":
        return digests(sys.argv[2], sys.argv[3])
    raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
