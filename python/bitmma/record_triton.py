# SPDX-License-Identifier: MIT
"""Records a GPU's results for the Triton kernels of a program, including those of torch.compile: PTX, arguments,
memory.

Run it on the machine with the GPU; it needs only this file, PyTorch and Triton, not an installed bitmma:

    python record_triton.py -o launches.safetensors train.py --steps 3

Then, on any machine:

    bitmma verify launches.safetensors

Each distinct kernel is recorded a few times, if its memory is not too large. In your own program:

    with record_triton.recording() as launches:
        layer(x)
    launches.save("launches.safetensors")
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import runpy
import struct
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["Launches", "recording"]


def __dir__() -> list[str]:
    return sorted(__all__)


NUMBERS = {
    "i1": "<?",
    "u1": "<?",
    "i8": "<b",
    "u8": "<B",
    "i16": "<h",
    "u16": "<H",
    "i32": "<i",
    "u32": "<I",
    "i64": "<q",
    "u64": "<Q",
    "fp32": "<f",
    "fp64": "<d",
}
"""How Triton's launcher passes a number."""


class Launches:
    """The recorded launches, and the reasons why others were not recorded."""

    def __init__(self, most_of_kernel: int, most_bytes: int, most_total: int) -> None:
        self.most_of_kernel, self.most_bytes, self.most_total = most_of_kernel, most_bytes, most_total
        self.label = ""
        """The label of each following launch."""
        self.is_recording = True
        self.total_bytes = 0
        self.left_out: dict[str, int] = {}
        self.gpu = self.triton = ""
        self.capability = 0
        """90 for sm_90a."""
        self.modules: dict[str, int] = {}
        """The index of each PTX."""
        self.launches: list[dict[str, Any]] = []
        self.tensors: dict[str, bytes] = {}
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.launches)

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def wants(self, ptx: str, entry: str, size: int) -> bool:
        name = hashlib.sha256(ptx.encode()).hexdigest() + entry
        if self._counts.get(name, 0) >= self.most_of_kernel:
            self.leave_out(f"more than {self.most_of_kernel} launches of a kernel")
            return False
        if size > self.most_bytes or self.total_bytes + size > self.most_total:
            self.leave_out(f"more than {self.most_bytes} bytes of memory, or {self.most_total} in all")
            return False
        self._counts[name] = self._counts.get(name, 0) + 1
        return True

    def add(self, ptx: str, launch: dict[str, Any], before: list[bytes], after: list[bytes]) -> None:
        index = len(self.launches)
        launch["ptx"] = self.modules.setdefault(ptx, len(self.modules))
        self.launches.append(launch)
        for j, (old, new) in enumerate(zip(before, after, strict=True)):
            self.tensors[f"before.{index}.{j}"] = old
            if new != old:
                self.tensors[f"after.{index}.{j}"] = new
            self.total_bytes += len(old)

    def save(self, path: str) -> None:
        """Writes a file of launches, which bitmma verify reads."""
        tensors = {f"ptx.{index}": text.encode() for text, index in self.modules.items()} | self.tensors
        target = f"sm_{self.capability}" + ("a" if self.capability >= 90 else "")
        header: dict[str, Any] = {
            "__metadata__": {
                "launches": json.dumps(self.launches),
                "target": target,
                "gpu": self.gpu,
                "triton": self.triton,
                "source": "bitmma.record_triton",
            }
        }
        at = 0
        for name, data in tensors.items():
            header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
            at += len(data)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for data in tensors.values():
                file.write(data)


class NotRecorded(Exception):
    """Why a launch cannot be written to a file."""


class Arguments:
    """The arguments of one launch for a file: tensors are stored by their underlying memory."""

    def __init__(self) -> None:
        self.memories: list[Any] = []
        self.values: list[dict[str, Any]] = []

    def memory_of(self, tensor: Any) -> int:
        storage = tensor.untyped_storage()
        for index, memory in enumerate(self.memories):
            if memory.untyped_storage().data_ptr() == storage.data_ptr():
                return index
        self.memories.append(tensor)
        return len(self.memories) - 1

    def size(self) -> int:
        return sum(int(memory.untyped_storage().nbytes()) for memory in self.memories)

    def add(self, value: Any, kind: Any, descriptors: Iterator[dict[str, Any]]) -> None:
        """Raises NotRecorded for an argument that cannot be recorded."""
        if kind == "constexpr":
            return
        if isinstance(kind, tuple):
            for part, of in zip(value, kind, strict=True):
                self.add(part, of, descriptors)
        elif kind.startswith("tensordesc"):
            self._add_descriptor(value, next(descriptors))
        elif kind.startswith("*"):
            if value is None:
                self.values.append({"value": "00" * 8})
            elif hasattr(value, "untyped_storage"):
                offset = int(value.storage_offset() * value.element_size())
                self.values.append({"memory": self.memory_of(value), "offset": offset})
            else:
                raise NotRecorded(f"a pointer that is a {type(value).__name__}")
        elif kind in NUMBERS:
            self.values.append({"value": struct.pack(NUMBERS[kind], value).hex()})
        else:
            raise NotRecorded(f"an argument of type {kind}")

    def _add_descriptor(self, value: Any, meta: dict[str, Any]) -> None:
        """A tensor map, then shape and strides, as Triton's launcher passes a TensorDescriptor."""
        base, size = value.base, value.base.element_size()
        if meta.get("fp4_padded") or list(base.shape) != list(value.shape):
            raise NotRecorded("a tensor descriptor of a part of a tensor, or of padded fp4")
        tensor_map = {
            "element_bytes": size,
            "sizes": [int(n) for n in value.shape[::-1]],
            "strides_bytes": [int(n) * size for n in value.strides[-2::-1]],
            "box": [int(n) for n in meta["block_size"][::-1]],
            "swizzle": ("none", "32", "64", "128")[meta["swizzle"]],
            "fill": getattr(value, "padding", "zero"),
        }
        self.values.append(
            {"memory": self.memory_of(base), "offset": int(base.storage_offset() * size), "map": tensor_map}
        )
        self.values += [{"value": struct.pack("<i", n).hex()} for n in value.shape]
        self.values += [{"value": struct.pack("<q", n).hex()} for n in value.strides]


def _memory_of(arguments: Arguments) -> list[bytes]:
    """All memory that contains the tensors, after the GPU has finished."""
    import torch

    if any(tensor.is_cuda for tensor in arguments.memories):
        torch.cuda.synchronize()
    copies = []
    for tensor in arguments.memories:
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        copies.append(whole.cpu().numpy().tobytes())
    return copies


def _parameters_of(ptx: str, entry: str) -> int:
    """The number of parameters of an entry: Triton releases differ in scratch memory."""
    begin = ptx.index(f".entry {entry}(")
    return ptx.count(".param ", begin, ptx.index(")", begin))


class Recorded:
    """Launches a compiled kernel as `run` does, and records it. Triton and Inductor both launch through it."""

    def __init__(self, kernel: Any, run: Any, launches: Launches) -> None:
        self.kernel, self.run, self.launches = kernel, run, launches

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: Any,
        function: Any,
        packed: Any,
        launch_metadata: Any,
        enter: Any,
        leave: Any,
        *arguments: Any,
    ) -> Any:
        def launch() -> Any:
            return self.run(x, y, z, stream, function, packed, launch_metadata, enter, leave, *arguments)

        kernel, meta, launches = self.kernel, self.kernel.metadata, self.launches
        ptx, recorded, count = kernel.asm["ptx"], Arguments(), int(x) * int(y) * int(z)
        if not launches.is_recording or count == 0:
            return launch()
        try:
            descriptors = iter(getattr(meta, "tensordesc_meta", None) or ())
            for value, kind in zip(arguments, kernel.src.signature.values(), strict=True):
                recorded.add(value, kind, descriptors)
        except NotRecorded as error:
            launches.leave_out(str(error))
            return launch()
        if not launches.wants(ptx, meta.name, recorded.size()):
            return launch()
        for size in (getattr(meta, "global_scratch_size", 0), getattr(meta, "profile_scratch_size", 0)):
            recorded.values.append({"scratch": count * size} if size > 0 else {"value": "00" * 8})
        del recorded.values[_parameters_of(ptx, meta.name) :]
        before = _memory_of(recorded)
        result = launch()
        blocks = getattr(meta, "num_ctas", 1)  # of a cluster, along x; the grid counts clusters
        launches.add(
            ptx,
            {
                "entry": meta.name,
                "label": launches.label,
                "grid": [int(x) * blocks, int(y), int(z)],
                "block": [32 * meta.num_warps],
                "cluster": [blocks],
                "shared_bytes": meta.shared,
                "arguments": recorded.values,
            },
            before,
            _memory_of(recorded),
        )
        return result


@contextlib.contextmanager
def recording(most_of_kernel: int = 4, most_bytes: int = 8 << 20, most_total: int = 512 << 20) -> Iterator[Launches]:
    """Records the launches of Triton's kernels, each with its memory copied from the GPU before and after.

    most_of_kernel   limit of launches per PTX and entry
    most_bytes       limit of memory per launch: a tensor is recorded with its whole storage
    most_total       limit of bytes for all launches
    """
    import torch
    import torch._inductor.config as inductor
    import triton
    from triton.compiler import CompiledKernel

    launches = Launches(most_of_kernel, most_bytes, most_total)
    launches.gpu, launches.triton = (
        torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        triton.__version__,
    )
    launches.capability = int(triton.runtime.driver.active.get_current_target().arch)
    run: Any = CompiledKernel.run
    launcher = getattr(inductor, "use_static_cuda_launcher", None)
    CompiledKernel.run = property(lambda kernel: Recorded(kernel, run.fget(kernel), launches))
    if launcher is not None:
        inductor.use_static_cuda_launcher = False  # else Inductor launches past Triton
    try:
        yield launches
    finally:
        launches.is_recording = False  # Inductor keeps what it launches with
        CompiledKernel.run = run
        if launcher is not None:
            inductor.use_static_cuda_launcher = launcher


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="record_triton",
        description="Runs a program and records its launches of Triton kernels.",
        epilog="Then: bitmma verify launches.safetensors",
    )
    parser.add_argument("-o", "--output", default="launches.safetensors", help="the file to write; default %(default)s")
    parser.add_argument(
        "--most-of-kernel",
        type=int,
        default=4,
        help="record at most this many launches of a kernel; default %(default)s",
    )
    parser.add_argument(
        "--most-mib",
        type=int,
        default=8,
        help="record only launches with at most this many MiB of memory; default %(default)s",
    )
    parser.add_argument(
        "--most-total-mib", type=int, default=512, help="record at most this many MiB in all; default %(default)s"
    )
    parser.add_argument("program", help="a Python program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args()
    sys.argv = [options.program, *options.arguments]
    # As Python does for a program; and beside this file may be modules with names of Python's own.
    sys.path[0] = os.path.dirname(os.path.abspath(options.program))
    with recording(options.most_of_kernel, options.most_mib << 20, options.most_total_mib << 20) as launches:
        try:
            runpy.run_path(options.program, run_name="__main__")
        finally:
            launches.save(options.output)
            print(
                f"{options.output}: {len(launches)} launches of {len(launches.modules)} kernels, "
                f"{launches.total_bytes} bytes of memory",
                file=sys.stderr,
            )
            for reason, count in launches.left_out.items():
                print(f"not recorded: {count}, {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
