# SPDX-License-Identifier: MIT
"""Compares other tools with what an H100 and an H200 computed, for docs/compared_with.md.

python3 lab/compare_tools.py mma-sim    MMA-Sim (pip install mmasim): equal outputs of the dense floating-point
                                        mma.sync of data/golden/sm_90a/mma_sync, whose registers are unpacked here
python3 lab/compare_tools.py time       the time of one m16n8k16 in MMA-Sim and in bitmma
python3 lab/compare_tools.py torch      products of float32 by PyTorch on this CPU: equal outputs of data/products
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = re.compile(r"mma\.sync\.aligned\.m16n8k(\d+)\.row\.col\.(f32|f16)\.(f16|bf16|tf32|e4m3|e5m2)\.(\w+)\.(f32|f16)$")


def read(path: pathlib.Path) -> tuple[str, dict[str, np.ndarray]]:
    """The instruction of a vector file and its tensors of registers, [cases, lanes, registers]."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, tensor in header.items():
        begin, end = (8 + length + offset for offset in tensor["data_offsets"])
        if tensor["dtype"] == "U32":
            tensors[name] = np.frombuffer(data[begin:end], np.uint32).reshape(tensor["shape"])
    return metadata["instruction"], tensors


def operand(registers: np.ndarray, rows: int) -> np.ndarray:
    """The bytes of A (16 rows) or of B by columns (8 rows) of one case: lane l holds 4 bytes of row l / 4."""
    halves = rows // 8  # the register after the first one is row + 8, then come the next 16 bytes of K
    out = np.zeros((rows, registers.shape[1] // halves * 16), np.uint8)
    for lane in range(32):
        for register in range(registers.shape[1]):
            row, start = lane // 4 + 8 * (register % halves), 16 * (register // halves) + 4 * (lane % 4)
            out[row, start : start + 4] = registers[lane, register : register + 1].view(np.uint8)
    return out


def accumulator(registers: np.ndarray, dtype: Any) -> np.ndarray:
    """C or D of one case, 16 x 8: two neighbouring columns in row l / 4, then in row l / 4 + 8."""
    out = np.zeros((16, 8), dtype)
    for lane in range(32):
        values = registers[lane].view(dtype).reshape(2, 2)
        out[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2] = values[0]
        out[lane // 4 + 8, 2 * (lane % 4) : 2 * (lane % 4) + 2] = values[1]
    return out


def mma_sim() -> None:
    import mmasim.nv_ptx  # type: ignore[import-not-found]
    import torch

    types = {
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "tf32": torch.float32,
        "e4m3": torch.float8_e4m3fn,
        "e5m2": torch.float8_e5m2,
    }
    equal = compared = mnemonics = 0
    for path in sorted((ROOT / "data" / "golden" / "sm_90a" / "mma_sync").glob("mma_sync_*.safetensors")):
        instruction, registers = read(path)
        match = NAME.match(instruction)
        if not match:
            continue
        k, d, a, b, c = match.groups()
        try:
            simulated = mmasim.nv_ptx.MMA("Hopper", f"m16n8k{k}.{d}.{a}.{b}.{c}")
        except (AssertionError, ValueError):
            print(f"{instruction}: not in MMA-Sim")
            continue
        words = np.uint32 if d == "f32" else np.uint16
        same = 0
        cases = len(registers["d_regs"])
        for case in range(cases):
            left = torch.from_numpy(operand(registers["a_regs"][case], 16)).view(types[a])
            right = torch.from_numpy(operand(registers["b_regs"][case], 8)).view(types[b]).T
            added = torch.from_numpy(accumulator(registers["c_regs"][case], np.float32 if c == "f32" else np.float16))
            result = simulated(left, right, added).contiguous().numpy().view(words)
            same += int((result == accumulator(registers["d_regs"][case], words)).sum())
        print(f"{instruction}: {same} of {cases * 128} outputs equal")
        equal, compared, mnemonics = equal + same, compared + cases * 128, mnemonics + 1
    print(f"{mnemonics} instructions, {equal} of {compared} outputs equal")


def times() -> None:
    import mmasim.nv_ptx
    import torch

    import bitmma

    torch.set_num_threads(1)
    a, b, c = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16), np.zeros((16, 8), np.float32)
    simulated = mmasim.nv_ptx.MMA("Hopper", "m16n8k16.f32.f16.f16.f32")
    instruction = bitmma.instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    tensors = [torch.from_numpy(matrix) for matrix in (a, b, c)]

    def best(call: Callable[[], Any]) -> float:
        seconds = []
        for _ in range(1000):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        return 1e6 * min(seconds)

    print(f"MMA-Sim: {best(lambda: simulated(*tensors)):.0f} us, the best of 1000 calls")
    print(f"bitmma: {best(lambda: bitmma.mma(instruction, a, b, c)):.0f} us, the best of 1000 calls")


def products() -> None:
    import torch

    import bitmma

    equal = by_bitmma = compared = files = 0
    for path in sorted((ROOT / "data" / "products").glob("*.safetensors")):
        product = bitmma.read_product(path)
        if product.d is None:
            continue
        a, b = (torch.from_numpy(np.asarray(matrix).astype(np.float32)) for matrix in (product.a, product.b))
        d = np.asarray(product.d)
        result = (a @ b).numpy().astype(d.dtype)
        computed = product.gemm()
        print(f"{path.stem}: PyTorch {int((result == d).sum())}, bitmma {int((computed == d).sum())} of {d.size} equal")
        equal += int((result == d).sum())
        by_bitmma += int((computed == d).sum())
        compared, files = compared + d.size, files + 1
    print(f"{files} products: PyTorch {equal}, bitmma {by_bitmma} of {compared} outputs equal")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["mma-sim", "time", "torch"])
    {"mma-sim": mma_sim, "time": times, "torch": products}[arguments.parse_args().what]()
