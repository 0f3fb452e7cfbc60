#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records what Triton's compiled tl.dot and tl.dot_scaled give on a GPU, for bitmma.adapters.triton.

  record_triton_dots.py --run OUT             compile and run with the Triton here (needs PyTorch and a GPU)
  record_triton_dots.py --compile DIR         compile alone (needs no GPU): DIR/kernels.npz; --capability 90
  record_triton_dots.py --run OUT --kernels DIR/kernels.npz   run kernels that another Triton compiled (needs CuPy)
  record_triton_dots.py --pack FILE OUT/triton-VERSION..   join them for the tests

Kernels and cases are those of tests/python/adapters/triton_kernels.py and triton_cases.py; the tests compile the
same source and run its PTX. A run is OUT/VERSION.npz, with D of each case, and OUT/VERSION.json: instructions by case,
as the PTX has them, the GPU, its driver and versions.
"""

import argparse
import collections
import hashlib
import io
import json
import os
import re
import sys
import tarfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "python", "adapters"))
import triton_cases

INSTRUCTION = re.compile(r"^\s*(?:@\S+\s+)?((?:wgmma\.mma_async|mma\.sync|tcgen05\.mma|fma\.rn)\S*)", re.M)


def kernel_of(case: dict):
    import triton_kernels

    return getattr(triton_kernels, case["kernel"] + "_kernel")


def instructions(ptx: str) -> dict:
    return dict(collections.Counter(INSTRUCTION.findall(ptx)))


def compile_all(folder: str, capability: int) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    found, about = {}, {"triton": triton.__version__, "capability": capability, "cases": {}}
    for case in triton_cases.cases():
        name = triton_cases.name_of(case)
        arrays, constants, _, kinds = triton_cases.arguments(case)
        function = kernel_of(case)
        types = {key: triton_cases.POINTERS[kinds[key]] for key in arrays} | dict.fromkeys(constants, "constexpr")
        attributes = {(at,): [["tt.divisibility", 16]] for at, key in enumerate(function.arg_names) if key in arrays}
        source = ASTSource(function, {key: types[key] for key in function.arg_names}, constants, attributes)
        try:
            kernel = triton.compile(
                source,
                target=GPUTarget("cuda", capability, 32),
                options={"num_warps": case["warps"], "enable_fp_fusion": case.get("fusion", True)},
            )
        except Exception as error:  # noqa: BLE001 - e4m3 on sm_80
            print(name, repr(error)[-120:])
            continue
        found[name] = np.frombuffer(kernel.asm["cubin"], np.uint8)
        about["cases"][name] = {
            "function": kernel.metadata.name,
            "shared": kernel.metadata.shared,
            "instructions": instructions(kernel.asm["ptx"]),
        }
    os.makedirs(folder, exist_ok=True)
    np.savez_compressed(os.path.join(folder, "kernels.npz"), about=json.dumps(about), **found)
    print(len(found), "kernels of Triton", about["triton"])


def run_all(out: str, kernels: str | None) -> None:
    import torch
    import triton

    types = {
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "f32": torch.float32,
        "f64": torch.float64,
        "e4m3": torch.float8_e4m3fn,
        "e5m2": torch.float8_e5m2,
        "s8": torch.int8,
        "u8": torch.uint8,
        "s32": torch.int32,
    }
    compiled = np.load(kernels) if kernels else None
    about = json.loads(str(compiled["about"])) if kernels else {"triton": triton.__version__, "cases": {}}
    about["gpu"] = torch.cuda.get_device_name()
    about["driver"] = os.popen("nvidia-smi --query-gpu=driver_version --format=csv,noheader").read().split("\n")[0]
    found, refused = {}, {}
    for case in triton_cases.cases():
        name = triton_cases.name_of(case)
        arrays, constants, grid, kinds = triton_cases.arguments(case)
        tensors = {
            key: torch.from_numpy(np.ascontiguousarray(array).view(np.uint8)).cuda().view(types[kinds[key]])
            for key, array in arrays.items()
        }
        try:
            if compiled is None:
                kernel = kernel_of(case)[grid](
                    **tensors, **constants, num_warps=case["warps"], enable_fp_fusion=case.get("fusion", True)
                )
                about["cases"][name] = {"instructions": instructions(kernel.asm["ptx"])}
            else:
                launch_cubin(
                    compiled[name].tobytes(), about["cases"][name], grid, case["warps"], list(tensors.values())
                )
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - one kernel that does not compile keeps the others
            refused[name] = repr(error)[-400:]
            about["cases"].pop(name, None)
            continue
        found[name] = tensors["d"].view(torch.uint8).cpu().numpy()
    os.makedirs(out, exist_ok=True)
    where = os.path.join(out, f"triton-{about['triton']}")
    np.savez_compressed(where + ".npz", **found)
    with open(where + ".json", "w") as file:
        json.dump({**about, "refused": refused}, file)
    print(about["triton"], about["gpu"], about["driver"], len(found), "cases", len(refused), "refused")
    for name, why in list(refused.items())[:5]:
        print(name, why)


def launch_cubin(cubin: bytes, about: dict, grid: tuple, warps: int, tensors: list) -> None:
    """Triton 3.9's kernels have two more pointers, to scratch memory that these kernels do not use."""
    import cupy

    module = cupy.cuda.function.Module()
    module.load(cubin)
    function = module.get_function(about["function"])
    if about["shared"] > 48 * 1024:
        cupy.cuda.driver.funcSetAttribute(function.ptr, 8, about["shared"])  # MAX_DYNAMIC_SHARED_SIZE_BYTES
    pointers = [np.uint64(tensor.data_ptr()) for tensor in tensors] + [np.uint64(0), np.uint64(0)]
    function(grid, (32 * warps, 1, 1), pointers, shared_mem=about["shared"])


def pack(file: str, runs: list[str]) -> None:
    """index.json: versions, GPUs and drivers; by case the instructions and hash of every run."""
    index = {"generator": triton_cases.GENERATOR, "runs": [], "cases": {}}
    cases = {triton_cases.name_of(case): case for case in triton_cases.cases()}
    for path in runs:
        with open(path + ".json") as opened:
            about = json.load(opened)
        d = np.load(path + ".npz")
        index["runs"].append({key: about[key] for key in ("triton", "gpu", "driver", "refused")})
        for name, case in cases.items():
            if name not in d:
                continue
            row = index["cases"].setdefault(name, {"case": case, "runs": []})
            size = triton_cases.TYPES[case["d"]].itemsize
            row["runs"].append(
                {
                    "run": len(index["runs"]) - 1,
                    "sha256": hashlib.sha256(d[name].tobytes()).hexdigest(),
                    "outputs": d[name].size // size,
                    "instructions": sorted(about["cases"][name]["instructions"]),
                }
            )
    data = json.dumps(index).encode()
    entry = tarfile.TarInfo("index.json")
    entry.size = len(data)
    with tarfile.open(file, "w:xz") as archive:
        archive.addfile(entry, io.BytesIO(data))
    print(file, os.path.getsize(file), "bytes,", len(index["cases"]), "cases")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", metavar="OUT")
    parser.add_argument("--kernels")
    parser.add_argument("--compile", metavar="DIR")
    parser.add_argument("--capability", type=int, default=90)
    parser.add_argument("--pack", nargs="+", metavar=("FILE", "OUT"))
    options = parser.parse_args()
    if options.compile:
        compile_all(options.compile, options.capability)
    elif options.pack:
        pack(options.pack[0], options.pack[1:])
    elif options.run:
        run_all(options.run, options.kernels)
    else:
        parser.error("one of --run, --compile, --pack")
