#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Launches of whole kernels, for a GPU to run and for bitmma to compare.

  record_kernels.py make DIR TRITON     DIR/jobs.txt with modules and inputs; TRITON is what data/kernels/triton_kernels.py
                                        wrote, or - for the kernels of nvcc alone
  g++ -std=c++20 -O1 tools/launch_kernels.cpp -o DIR/launch -ldl && DIR/launch DIR/jobs.txt       on the GPU
  record_kernels.py compare DIR         runs every launch here, and counts outputs that differ

`make` needs ptxas (BITMMA_PTXAS), NumPy and ml_dtypes; `compare` the bitmma package.
"""
import json
import os
import shutil
import subprocess
import sys

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


def triton_launches(folder):
    with open(os.path.join(folder, "launches.json")) as file:
        for name, one in json.load(file).items():
            grid = tuple((*one["grid"], 1, 1)[:3])
            for how in ("normal", "wide", "peaked"):
                yield f"triton {name}", one["entry"], grid, (one["block"], 1, 1), one["shared"], one["arguments"], how


def parameters_of(ptx, entry):
    """How many parameters an entry has, without bitmma."""
    text = ptx.split(f".entry {entry}(")[1].split(")")[0]
    return text.count(".param")


def make(folder, triton):
    os.makedirs(folder, exist_ok=True)
    launches = [*cuda_launches(), *fusion_launches(), *([] if triton == "-" else triton_launches(triton))]
    for name in ("cuda", "fusions"):
        ptx = os.path.join(folder, name + ".ptx")
        shutil.copy(os.path.join(DATA, name + ".ptx"), ptx)
        subprocess.run([os.environ.get("BITMMA_PTXAS", "ptxas"), "-arch=sm_90a", "-o", ptx[:-3] + "cubin", ptx], check=True)
    jobs, rows, last = [], [], None
    for number, (module, entry, grid, block, shared, arguments, how) in enumerate(launches):
        source, name = module.split()
        if source == "triton":
            for ending in ("ptx", "cubin"):
                shutil.copy(os.path.join(triton, f"{name}.{ending}"), folder)
        if name != last:
            jobs.append(f"module {name}.cubin")
            last = name
        with open(os.path.join(folder, name + ".ptx")) as file:
            extra = parameters_of(file.read(), entry) - len(arguments)
        jobs.append(f"launch {entry} " + " ".join(str(one) for one in (*grid, *block, shared)))
        rng, files = np.random.default_rng(number), []
        for i, argument in enumerate(arguments):
            if isinstance(argument, str):
                files.append(f"{number}_{i}.bin")
                values = array(rng, argument, how)
                if entry == "histogram" and i == 1:
                    values[:] = 0
                values.tofile(os.path.join(folder, files[-1]))
                jobs.append(f"memory {files[-1]}")
            else:
                word = np.float32(argument).view(np.uint32) if isinstance(argument, float) else np.uint32(argument)
                jobs.append(f"value {int(word):x} 4")
                files.append(int(word))
        jobs += ["value 0 8"] * extra + ["run"]
        rows.append({"module": name, "entry": entry, "grid": grid, "block": block, "shared": shared, "arguments": arguments,
                     "files": files, "extra": extra, "how": how})
    with open(os.path.join(folder, "jobs.txt"), "w") as out:
        out.write("\n".join(jobs) + "\n")
    with open(os.path.join(folder, "launches.json"), "w") as out:
        json.dump(rows, out, indent=1)
    print(len(rows), "launches")


def compare(folder):
    import bitmma

    with open(os.path.join(folder, "launches.json")) as file:
        rows = json.load(file)
    kernels, total, differing = {}, 0, 0
    for row in rows:
        where = f"{row['module']} {row['entry']} {row['how']}"
        key = row["module"], row["entry"]
        try:
            if key not in kernels:
                with open(os.path.join(folder, row["module"] + ".ptx")) as file:
                    kernels[key] = bitmma.kernel(file.read(), row["entry"], target="sm_90a")
            given = []
            for argument, file in zip(row["arguments"], row["files"]):
                given.append(np.fromfile(os.path.join(folder, file), TYPES[argument.split("[")[0]])
                             if isinstance(argument, str) else np.uint32(file))
            kernels[key][tuple(row["grid"]), tuple(row["block"]), row["shared"]](
                *(one.tobytes() if isinstance(one, np.uint32) else one for one in given), *[None] * row["extra"], threads=0)
        except bitmma.Error as error:
            print("REFUSED", where, str(error).splitlines()[0])
            continue
        for i, (argument, file) in enumerate(zip(row["arguments"], row["files"])):
            path = os.path.join(folder, f"{file}.gpu")
            if not isinstance(argument, str) or not os.path.exists(path):
                continue
            gpu = np.fromfile(path, np.uint8).reshape(-1, given[i].dtype.itemsize)
            own = given[i].view(np.uint8).reshape(gpu.shape)
            wrong = int((gpu != own).any(1).sum())
            total, differing = total + len(gpu), differing + wrong
            if wrong:
                print("DIFFERS", where, f"argument {i}: {wrong} of {len(gpu)}")
    print(f"{differing} of {total} elements differ")
    raise SystemExit(1 if differing else 0)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "make":
        return make(sys.argv[2], sys.argv[3])
    if len(sys.argv) == 3 and sys.argv[1] == "compare":
        return compare(sys.argv[2])
    raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
