#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Launches of whole kernels, for a GPU to run and for bitmma to compare.

  record_kernels.py make DIR TRITON     DIR/jobs.txt with modules and inputs; TRITON is what
                                        data/kernels/triton_kernels.py wrote, or - for the kernels of nvcc alone
  record_kernels.py draw DIR SEED COUNT the same for COUNT modules of 25 kernels each that data/kernels/drawn.py draws
                                        from SEED on; every other one has -use_fast_math
  record_kernels.py im2col DIR          the same for copies in mode im2col; a GPU stops at some, so that each launch has
                                        a file jobs_N.txt of its own
  g++ -std=c++20 -O1 lab/launch_kernels.cpp -o DIR/launch -ldl && DIR/launch DIR/jobs.txt       on the GPU
  record_kernels.py compare DIR [--sass]   runs every launch here, and counts outputs that differ; with --sass, SASS
                                        decides which products and sums are joined
  record_kernels.py digests DIR GPU     a CSV of what the GPU gave: GPU is its name, as in data/kernels/h100.csv

`make` needs ptxas (BITMMA_PTXAS), NumPy and ml_dtypes; `draw` nvcc (BITMMA_NVCC) as well; `compare` the bitmma package,
and with --sass ptxas and nvdisasm (BITMMA_NVDISASM).
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
# Types of arrays, and their numbers in the driver's CUtensorMapDataType.
TYPES = {
    "fp64": np.float64,
    "fp32": np.float32,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "s32": np.int32,
    "u32": np.uint32,
    "u8": np.uint8,
    "u16": np.uint16,
    "u64": np.uint64,
}
DRIVER_TYPES = {"u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "fp16": 6, "fp32": 7, "fp64": 8, "bf16": 9}
# The kernels of data/kernels/reduce.cu.
REDUCTIONS = {
    "add_f16",
    "add_bf16",
    "add_f32",
    "add_f64",
    "add_u32",
    "add_u64",
    "min_f16",
    "max_f16",
    "min_bf16",
    "max_bf16",
    "min_s32",
    "max_s32",
    "min_s64",
    "max_u64",
    "inc_u32",
    "dec_u32",
    "and_b32",
    "or_b64",
    "xor_b32",
}
SWIZZLES = {"none": 0, "32": 1, "64": 2, "128": 3}


def array(rng, text, how):
    """Numbers of "fp16[8,1000]"."""
    kind, shape = text.rstrip("]").split("[")
    shape, dtype = tuple(int(word) for word in shape.split(",")), TYPES[kind]
    if how in ("bits", "tiny"):
        octets = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
        if how == "tiny":
            octets[..., -1] &= 0x80  # f16, bf16 and f32: subnormal, or nearly
        return octets.view(dtype)[..., 0]
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
        yield (
            n,
            "layer_norm",
            (16, 1, 1),
            (128, 1, 1),
            0,
            [f"{f}[16,1000]", f"{f}[1000]", f"{f}[1000]", f"{f}[16,1000]", 1000, 1e-5],
            how,
        )
        yield n, "matmul", (8, 4, 1), (32, 1, 1), 0, ["fp16[64,256]", "fp16[64,256]", f"{f}[64,64]", 64, 256], how
    yield n, "scan", (8, 1, 1), (512, 1, 1), 2048, ["s32[4096]", "s32[4096]"], "normal"
    yield n, "transpose", (7, 5, 1), (32, 8, 1), 0, [f"{f}[150,200]", f"{f}[200,150]", 150, 200], "normal"
    yield n, "histogram", (16, 1, 1), (128, 1, 1), 0, ["u8[100000]", "u32[256]", 100000], "normal"


def fusion_launches():
    with open(os.path.join(DATA, "fusions.txt")) as file:
        names = sorted({line.split()[0] for line in file}, key=lambda name: int(name[1:]))
    for name in names:
        yield "module fusions", name, (1, 1, 1), (1, 1, 1), 0, ["fp32[64]"], "normal"


DRAWN = [(module, kernel) for module in range(24) for kernel in range(25)]


def drawn_launches(drawn=DRAWN):
    numbers = ["fp32[64]", "fp32[64]", "s32[64]", "fp32[64]", "s32[64]"]
    for i, (module, kernel) in enumerate(drawn):
        yield (
            f"drawn drawn_{module}",
            f"d{kernel}",
            (1, 1, 1),
            (64, 1, 1),
            0,
            numbers,
            ("normal", "wide", "peaked")[i % 3],
        )


def bulk_launches():
    for how in ("normal", "wide"):
        yield "module bulk", "bulk_scale", (1, 1, 1), (160, 1, 1), 0, ["fp32[1280]", "fp32[1280]", 1.7, 1280, 0], how
        operand = {"map": "bf16[64,192]", "box": [64, 64], "swizzle": "128"}
        result = {"map": "fp32[64,80]", "box": [64, 64]}
        yield "module bulk", "tma_product", (1, 1, 1), (128, 1, 1), 0, [operand, operand, result, 192], how


def cluster_launches():
    for how in ("normal", "wide", "peaked"):
        yield "module cluster", "cluster_sum", (16, 1, 1), (128, 1, 1), 0, ["fp32[8000]", "fp32[4]", 2000, 0], how
        tiles = [{"map": "bf16[192,320]", "box": box, "swizzle": "128"} for box in ([32, 64], [64, 64])]
        yield "module cluster", "cluster_product", (2, 3, 1), (160, 1, 1), 0, [*tiles, "fp32[192,128]", 128, 320], how
    yield "module cluster", "cluster_ranks", (4, 6, 3), (32, 1, 1), 0, ["u32[72,16]"], "normal"
    yield "module cluster", "cluster_histogram", (12, 1, 1), (128, 1, 1), 0, ["u32[5000]", "u32[512]", 5000], "normal"
    yield "module cluster", "cluster_ring", (12, 1, 1), (128, 1, 1), 0, ["u32[1536]", 9], "normal"
    yield "module cluster", "cluster_copy", (6, 1, 1), (128, 1, 1), 0, ["u32[768]", "u32[768]"], "normal"


def reduce_launches():
    for operation in ("add", "min", "max", "inc", "dec", "and", "or", "xor"):
        for kind, name in (
            ("fp16", "f16"),
            ("bf16", "bf16"),
            ("fp32", "f32"),
            ("fp64", "f64"),
            ("u32", "u32"),
            ("s32", "s32"),
            ("u64", "u64"),
            ("u64", "s64"),
            ("u32", "b32"),
            ("u64", "b64"),
        ):
            if f"{operation}_{name}" in REDUCTIONS:
                values = f"{kind}[{64 * 512 // np.dtype(TYPES[kind]).itemsize}]"
                for how in ("bits", "tiny"):
                    yield (
                        "module reduce",
                        f"reduce_{operation}_{name}",
                        (64, 1, 1),
                        (128, 1, 1),
                        0,
                        [values, values],
                        how,
                    )


def drawn_row(rng, least_rank, most_units):
    """Rank, type, bytes of an element, swizzle and bytes of the innermost dimension: multiples of 16, of which there
    are up to `most_units` without a swizzle."""
    rank, kind = int(rng.integers(least_rank, 6)), str(rng.choice(list(DRIVER_TYPES)))
    swizzle = str(rng.choice(list(SWIZZLES)))
    row = 16 * int(rng.integers(1, 1 + (most_units if swizzle == "none" else int(swizzle) // 16)))
    return rank, kind, np.dtype(TYPES[kind]).itemsize, swizzle, row


def tma_launches():
    """Random boxes: some extend beyond the edges of the tensor, or skip elements."""
    rng = np.random.default_rng(3)
    for _ in range(400):
        rank, kind, size, swizzle, row = drawn_row(rng, 1, 16)
        box, sizes = [min(row // size, 256)], [16 // size * int(rng.integers(1, 20))]
        strides = [1] + [int(rng.choice([1, 1, 1, 2, 3, 8])) for _ in range(rank - 1)]
        for _ in range(1, rank):
            box.append(int(rng.integers(1, 1 + max(1, min(16, 4096 // (size * int(np.prod(box))))))))
            sizes.append(int(rng.integers(1, 20 if rank < 4 else 6)))
        at = [int(rng.integers(-one // 2, max(1, n))) for one, n in zip(box, sizes, strict=True)]
        at[0] -= at[0] % (16 // size)  # elsewhere, and where a store begins in front of the tensor, the GPU stops
        fill = "nan" if kind in ("fp16", "fp32", "fp64", "bf16") and rng.random() < 0.5 else "zero"
        # A copy moves ceil(box / stride) elements of a dimension. In shared memory a swizzled row has the swizzle's
        # width.
        rows = int(np.prod([-(-one // stride) for one, stride in zip(box[1:], strides[1:], strict=True)]))
        moved, shared = rows * size * box[0], rows * (size * box[0] if swizzle == "none" else int(swizzle))
        shared += -shared % 1024
        tensor = {
            "map": f"{kind}[{','.join(map(str, sizes[::-1]))}]",
            "box": box[::-1],
            "swizzle": swizzle,
            "element_strides": strides[::-1],
            "fill": fill,
        }
        loads = bool(rng.integers(0, 2))
        if not loads:
            at = [max(0, one) for one in at]
        counts = [moved, shared] if loads else [shared]
        yield (
            "module tma",
            f"{'load' if loads else 'store'}_{rank}",
            (1, 1, 1),
            (64, 1, 1),
            1024 + shared,
            [tensor, at, f"u8[{shared}]", *counts],
            "bits",
        )


def im2col_launches():
    """Random columns of pixels: some begin outside of the corners' box, or reach beyond the tensor."""
    rng = np.random.default_rng(5)
    for _ in range(400):
        rank, kind, size, swizzle, row = drawn_row(rng, 3, 8)
        channels, sizes = row // size, [16 // size * int(rng.integers(1, 20))]
        sizes += [int(rng.integers(1, 12)) for _ in range(rank - 2)] + [int(rng.integers(1, 4))]
        steps = [1] + [int(rng.choice([1, 1, 1, 2, 3])) for _ in range(rank - 2)] + [1]
        lower = [int(rng.integers(-3, 3)) for _ in range(rank - 2)]
        upper = [max(int(rng.integers(-4, 4)), 1 + low - n) for low, n in zip(lower, sizes[1:], strict=False)]
        pixels = int(rng.integers(1, 1 + min(256, 16384 // max(row, 1 if swizzle == "none" else int(swizzle)))))
        at = [16 // size * int(rng.integers(0, 1 + sizes[0] * size // 16))]
        for low, high, n in zip(lower, upper, sizes[1:], strict=False):
            at.append(int(rng.integers(low, n + high)) if rng.random() < 0.8 else int(rng.integers(-4, n + 4)))
        at.append(int(rng.integers(0, sizes[-1])))
        offsets = [int(rng.integers(0, 5)) for _ in range(rank - 2)]
        fill = "nan" if kind in ("fp16", "fp32", "fp64", "bf16") and rng.random() < 0.5 else "zero"
        shared = pixels * (row if swizzle == "none" else int(swizzle))
        shared += -shared % 1024
        tensor = {
            "map": f"{kind}[{','.join(map(str, sizes[::-1]))}]",
            "box": [channels],
            "swizzle": swizzle,
            "element_strides": steps[::-1],
            "fill": fill,
            "im2col": [lower[::-1], upper[::-1], pixels],
        }
        loads = bool(rng.random() < 0.75)
        if not loads:
            at = [max(0, index) for index in at]
        counts = [pixels * row, shared] if loads else [shared]
        yield (
            "module im2col",
            f"{'load' if loads else 'store'}_{rank}",
            (1, 1, 1),
            (64, 1, 1),
            1024 + shared,
            [tensor, [*at, *offsets], f"u8[{shared}]", *counts],
            "bits",
        )


def triton_launches(folder):
    with open(os.path.join(folder, "launches.json")) as file:
        for name, one in json.load(file).items():
            grid = tuple((*one["grid"], 1, 1)[:3])
            for how in ("normal", "wide", "peaked"):
                yield f"triton {name}", one["entry"], grid, (one["block"], 1, 1), one["shared"], one["arguments"], how


def all_launches(triton):
    """Every launch with its number, the seed of its inputs. `triton`: a folder of Triton's modules, or "-"."""
    yield from enumerate([*cuda_launches(), *fusion_launches(), *([] if triton == "-" else triton_launches(triton))])
    yield from enumerate(drawn_launches(), 1000)
    yield from enumerate([*bulk_launches(), *tma_launches()], 3000)
    yield from enumerate([*cluster_launches(), *reduce_launches()], 4000)


def operands_of(number, entry, arguments, how):
    """The arguments: arrays (also those of tensor maps), and 32-bit numbers as np.uint32."""
    rng, operands = np.random.default_rng(number), []
    for i, argument in enumerate(arguments):
        if isinstance(argument, list):
            operands.append(np.array(argument, np.int32))
        elif isinstance(argument, (str, dict)):
            operands.append(array(rng, argument["map"] if isinstance(argument, dict) else argument, how))
            if entry == "histogram" and i == 1:
                operands[-1][:] = 0
        else:
            operands.append(
                np.float32(argument).view(np.uint32) if isinstance(argument, float) else np.uint32(argument)
            )
    return operands


def run(kernel, grid, block, shared, operands, arguments, extra):
    """Runs a launch with bitmma, which writes arrays in place. `extra`: hidden parameters after those of the launch."""
    import bitmma

    given = []
    for one, argument in zip(operands, arguments, strict=True):
        if isinstance(argument, dict):
            fields = {key: value for key, value in argument.items() if key not in ("map", "box")}
            one = bitmma.tensor_map(
                one, tuple(argument["box"]), **{**fields, "element_strides": tuple(fields.get("element_strides", ()))}
            )
        given.append(one.tobytes() if isinstance(one, np.uint32) else one)
    kernel[tuple(grid), tuple(block), shared](*given, *[None] * extra, threads=0)


def digest_of_all(operands):
    sums = [hashlib.sha256(operand.tobytes()).digest() for operand in operands]
    return hashlib.sha256(b"".join(sums)).hexdigest()[:16]


def pixels_of(im2col):
    return [*im2col[0][::-1], *im2col[1][::-1]]


def map_line(file, argument, operand):
    """A tensor map's line for lab/launch_kernels.cpp: cuTensorMapEncodeTiled's arguments, innermost first."""
    rank, is_im2col = operand.ndim, "im2col" in argument
    numbers = [
        DRIVER_TYPES[argument["map"].split("[")[0]],
        rank,
        *operand.shape[::-1],
        *operand.strides[-2::-1],
        *(pixels_of(argument["im2col"]) if is_im2col else ()),
        *argument["box"][::-1],
        *([argument["im2col"][2]] if is_im2col else ()),
        *argument.get("element_strides", [1] * rank)[::-1],
        SWIZZLES[argument.get("swizzle", "none")],
        int(argument.get("fill") == "nan"),
    ]
    return " ".join(["im2col" if is_im2col else "map", file, *map(str, numbers)])


def parameters_of(ptx, entry):
    """The number of parameters of an entry, found without bitmma."""
    text = ptx.split(f".entry {entry}(")[1].split(")")[0]
    return text.count(".param")


def assemble(ptx):
    cubin = ptx[:-3] + "cubin"
    subprocess.run([os.environ.get("BITMMA_PTXAS", "ptxas"), "-arch=sm_90a", "-o", cubin, ptx], check=True)


def make(folder, triton):
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(os.path.join(DATA, "drawn.tar.xz")) as packed:
        packed.extractall(folder)
    ptx_files = [*glob.glob(os.path.join(DATA, "*.ptx")), *glob.glob(os.path.join(folder, "drawn", "*.ptx"))]
    for source in ptx_files:
        assemble(shutil.copy(source, os.path.join(folder, os.path.basename(source))))
    write_jobs(folder, all_launches(triton), triton)


def draw(folder, seed, count):
    os.makedirs(folder, exist_ok=True)
    for module in range(count):
        source = os.path.join(folder, f"drawn_{module}.cu")
        with open(source, "w") as out:
            subprocess.run(
                [sys.executable, os.path.join(DATA, "drawn.py"), str(seed + module), "25"], stdout=out, check=True
            )
        ptx = source[:-2] + "ptx"
        fast = ["-use_fast_math"] * (module % 2)
        nvcc = os.environ.get("BITMMA_NVCC", "nvcc")
        subprocess.run([nvcc, "-ptx", "-arch=sm_90a", *fast, "-o", ptx, source], check=True)
        assemble(ptx)
    drawn = [(module, kernel) for module in range(count) for kernel in range(25)]
    write_jobs(folder, enumerate(drawn_launches(drawn), 100_000 * seed), "-")


def make_im2col(folder):
    os.makedirs(folder, exist_ok=True)
    assemble(shutil.copy(os.path.join(DATA, "im2col.ptx"), folder))
    write_jobs(folder, enumerate(im2col_launches(), 5000), "-", apart=True)


def write_jobs(folder, launches, triton, apart=False):
    jobs, rows, last = [], [], None
    for number, (module, entry, grid, block, shared, arguments, how) in launches:
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
                argument = arguments[i]
                jobs.append(
                    map_line(files[-1], argument, operand) if isinstance(argument, dict) else f"memory {files[-1]}"
                )
        jobs += ["value 0 8"] * extra + ["run"]
        if apart:
            with open(os.path.join(folder, f"jobs_{number}.txt"), "w") as out:
                out.write("\n".join(jobs) + "\n")
            jobs, last = [], None
        rows.append(
            {
                "number": number,
                "module": name,
                "entry": entry,
                "grid": grid,
                "block": block,
                "shared": shared,
                "arguments": arguments,
                "files": files,
                "extra": extra,
                "how": how,
            }
        )
    if not apart:
        with open(os.path.join(folder, "jobs.txt"), "w") as out:
            out.write("\n".join(jobs) + "\n")
    with open(os.path.join(folder, "launches.json"), "w") as out:
        json.dump(rows, out, indent=1)
    print(len(rows), "launches")


def read_launches(folder):
    with open(os.path.join(folder, "launches.json")) as file:
        return json.load(file)


def sass_of(ptx):
    """What ptxas makes of a module, as bitmma.kernel reads it."""
    cubin = ptx[:-3] + "lines.cubin"
    subprocess.run([os.environ.get("BITMMA_PTXAS", "ptxas"), "-arch=sm_90a", "-lineinfo", "-o", cubin, ptx], check=True)
    listing = subprocess.run(
        [os.environ.get("BITMMA_NVDISASM", "nvdisasm"), "-gp", cubin], check=True, capture_output=True, text=True
    )
    return listing.stdout


def compare(folder, with_sass):
    import bitmma

    kernels, modules, total, differing, refused = {}, {}, 0, 0, 0
    launches, launches_warned, launches_differing, differing_warned = 0, 0, 0, 0
    for row in read_launches(folder):
        where = f"{row['module']} {row['entry']} {row['how']}"
        key = row["module"], row["entry"]
        operands = operands_of(row["number"], row["entry"], row["arguments"], row["how"])
        try:
            if row["module"] not in modules:
                path = os.path.join(folder, row["module"] + ".ptx")
                with open(path) as file:
                    modules[row["module"]] = file.read(), sass_of(path) if with_sass else None
            if key not in kernels:
                ptx, sass = modules[row["module"]]
                kernels[key] = bitmma.kernel(ptx, row["entry"], target="sm_90a", sass=sass)
            run(kernels[key], row["grid"], row["block"], row["shared"], operands, row["arguments"], row["extra"])
        except bitmma.Error as error:
            print("REFUSED", where, str(error).splitlines()[0])
            refused += 1
            continue
        wrong_of_launch = 0
        for i, (operand, file) in enumerate(zip(operands, row["files"], strict=True)):
            if file is None:
                continue
            gpu = np.fromfile(os.path.join(folder, f"{file}.gpu"), np.uint8).reshape(-1, operand.dtype.itemsize)
            wrong = int((gpu != operand.reshape(-1).view(np.uint8).reshape(gpu.shape)).any(1).sum())
            total, wrong_of_launch = total + len(gpu), wrong_of_launch + wrong
            if wrong:
                print("DIFFERS", where, f"argument {i}: {wrong} of {len(gpu)}")
        is_warned = bool(kernels[key].warnings)
        launches += 1
        launches_warned += is_warned
        launches_differing += wrong_of_launch > 0
        differing_warned += wrong_of_launch > 0 and is_warned
        differing += wrong_of_launch
    print(f"{differing} of {total} elements differ; {refused} launches are refused")
    print(
        f"launches: {launches - launches_differing} equal, {launches_differing} differing; warned of as "
        f"uncertain: {launches_warned}, of which {differing_warned} differ"
    )
    raise SystemExit(1 if differing or refused else 0)


def digests(folder, gpu):
    """A row for each launch: digests of its inputs, and of the memory after the GPU's launch, or that it stopped."""
    with open(os.path.join(DATA, gpu + ".csv"), "w") as out:
        out.write("module,entry,inputs,operands before,operands after\n")
        for row in read_launches(folder):
            before = operands_of(row["number"], row["entry"], row["arguments"], row["how"])
            written = [os.path.join(folder, f"{file}.gpu") if file else None for file in row["files"]]
            if all(path is None or os.path.exists(path) for path in written):
                after = digest_of_all(
                    [
                        np.fromfile(path, np.uint8) if path else operand
                        for operand, path in zip(before, written, strict=True)
                    ]
                )
            else:
                after = "stopped"
            out.write(",".join([row["module"], row["entry"], row["how"], digest_of_all(before), after]) + "\n")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "make":
        return make(sys.argv[2], sys.argv[3])
    if len(sys.argv) == 3 and sys.argv[1] == "im2col":
        return make_im2col(sys.argv[2])
    if len(sys.argv) == 5 and sys.argv[1] == "draw":
        return draw(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    if len(sys.argv) in (3, 4) and sys.argv[1] == "compare" and sys.argv[3:] in ([], ["--sass"]):
        return compare(sys.argv[2], with_sass=len(sys.argv) == 4)
    if len(sys.argv) == 4 and sys.argv[1] == "digests":
        return digests(sys.argv[2], sys.argv[3])
    raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
