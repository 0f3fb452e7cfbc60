# SPDX-License-Identifier: MIT
"""Runs Triton kernels with the bits of a GPU, on the CPU.

    with bitmma.adapters.triton.use("sm_90a") as used:
        kernel[grid](x, y, out, num_warps=8)        # compiled for the H100, and its PTX runs here
    print(used.launches, used.unsure)

This needs no GPU, and every bit is the GPU's; on sm_100a it depends on the evidence for tcgen05. Clusters and
autotuning among several configurations raise an error, and so does Triton's interpreter (TRITON_INTERPRET=1), which
computes with NumPy.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import bitmma
from bitmma._arguments import target_of
from bitmma._errors import refuse, shown

__all__ = ["Compiled", "Launched", "use"]


def __dir__() -> list[str]:
    return sorted(__all__)


CAPABILITIES = {"sm_80": 80, "sm_86": 86, "sm_89": 89, "sm_90a": 90, "sm_100a": 100, "sm_120a": 120}
SHARED_BYTES = {80: 166912, 86: 101376, 89: 101376, 90: 232448, 100: 232448, 120: 101376}
"""Limit per block. Source: CUDA C++ programming guide, technical specifications by compute capability, less 1 KiB."""
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


class Launched(NamedTuple):
    """A launched kernel, for Compiled.launches."""

    name: str
    grid: tuple[int, int, int]
    instructions: int
    """The sum over all threads."""


class Compiled:
    """The launches of kernels that were compiled for `target`.

    launches   each launch: its name, its grid, and the number of thread instructions
    unsure     joins of a product and a sum that no measured row decides, by kernel: the last bit may differ
    ptx        the compiled text of each kernel, by name
    """

    def __init__(self, target: str, threads: int, checks: bool, strict: bool) -> None:
        self.target, self.threads, self.checks, self.strict = target, threads, checks, strict
        self.launches: list[Launched] = []
        self.unsure: dict[str, list[dict[str, Any]]] = {}
        self.ptx: dict[str, str] = {}

    def note(self, loaded: Loaded) -> None:
        """Records the facts about a kernel before it runs. Raises Error if `strict` refuses it."""
        self.ptx[loaded.kernel.name] = loaded.ptx
        unsure = [fusion for fusion in loaded.kernel.fusions if not fusion["sure"]]
        if unsure and self.strict:
            first = unsure[0]
            raise refuse(
                loaded.kernel.name,
                f"{first['product']} and {first['sum']}",
                "a case that was read from SASS",
                "use strict=False to run it; the last bit may differ",
            )
        if unsure:
            self.unsure[loaded.kernel.name] = unsure


class Loaded(NamedTuple):
    """Triton's object for a kernel, which may outlive use()."""

    kernel: Any
    ptx: str


def memory_of(tensor: Any) -> np.ndarray:
    """The bytes from a tensor's first element to the end of its storage: a kernel may use strides."""
    device = str(getattr(tensor, "device", "cpu"))
    if device != "cpu":
        raise refuse("argument", f"a tensor on {device}", "one on the CPU", "use .cpu() to copy it")
    storage = tensor.untyped_storage()
    bytes_of = (ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr())
    return np.ctypeslib.as_array(bytes_of)[tensor.storage_offset() * tensor.element_size() :]


class Launcher:
    """The launcher of one compiled kernel; Triton keeps it, and calls it with the arguments of the kernel."""

    def __init__(self, config: Any, src: Any, metadata: Any) -> None:
        self.config, self.metadata = config, metadata
        self.kinds = list(src.signature.values())
        if getattr(metadata, "num_ctas", 1) != 1:
            raise refuse("num_ctas", metadata.num_ctas, "1: clusters are not supported here")

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: Any,
        loaded: Loaded,
        packed: Any,
        launch_metadata: Any,
        enter: Any,
        leave: Any,
        *arguments: Any,
    ) -> None:
        used, kernel = self.config.active.used, loaded.kernel
        used.note(loaded)
        values: list[Any] = []
        descriptors = iter(getattr(self.metadata, "tensordesc_meta", None) or ())
        for value, kind in zip(arguments, self.kinds, strict=True):
            values += self._given(value, kind, descriptors)
        grid = (int(x), int(y), int(z))
        blocks = grid[0] * grid[1] * grid[2]
        if blocks == 0:
            return
        for size in (self.metadata.global_scratch_size, self.metadata.profile_scratch_size):
            values.append(np.zeros(blocks * size, np.uint8) if size > 0 else None)
        del values[len(kernel.parameters) :]  # releases before 3.6 pass less scratch memory
        count = kernel[grid, 32 * self.metadata.num_warps, self.metadata.shared](
            *values,
            threads=used.threads,
            checks=used.checks,
            cooperative=bool(getattr(self.metadata, "launch_cooperative_grid", False)),
        )
        used.launches.append(Launched(kernel.name, grid, count))

    def _given(self, value: Any, kind: Any, descriptors: Any) -> list[Any]:
        if kind == "constexpr":
            return []
        if isinstance(kind, tuple):
            return [
                passed for part, of in zip(value, kind, strict=True) for passed in self._given(part, of, descriptors)
            ]
        if kind.startswith("tensordesc"):
            return self._descriptor(value, next(descriptors))
        if kind.startswith("*"):
            return [memory_of(value) if value is not None else None]  # a null pointer
        if kind not in NUMBERS:
            raise refuse("argument", f"{shown(value)} of type {kind}", "a tensor, a number or a tensor descriptor")
        return [struct.pack(NUMBERS[kind], value)]

    @staticmethod
    def _descriptor(value: Any, meta: dict[str, Any]) -> list[Any]:
        """A tensor map, then shape and strides, as Triton's launcher passes a TensorDescriptor."""
        if meta.get("fp4_padded"):
            raise refuse("tensor descriptor", "padded fp4", "other types")
        if not value.base.is_contiguous() or list(value.base.shape) != list(value.shape):
            raise refuse("tensor descriptor", "of a part of a tensor", "one of a whole contiguous tensor")
        box = bitmma.tensor_map(
            value.base,
            tuple(meta["block_size"]),
            swizzle=("none", "32", "64", "128")[meta["swizzle"]],
            fill="nan" if getattr(value, "padding", "zero") == "nan" else "zero",
        )
        return [
            box,
            *(struct.pack("<i", extent) for extent in value.shape),
            *(struct.pack("<q", stride) for stride in value.strides),
        ]


class Driver:
    """The value of triton.runtime.driver.active during use(). Its device number is the compute capability, which
    separates the kernels of several targets."""

    def __init__(self, used: Compiled, config: Any, make_target: Callable[..., Any]) -> None:
        self.used, self.make_target = used, make_target
        self.capability = CAPABILITIES[used.target]
        self.utils = self
        self.launcher_cls: Callable[..., Launcher] = lambda src, metadata: Launcher(config, src, metadata)
        self._loading: dict[str, str] = {}

    # The interface of a Triton driver.
    def get_current_device(self) -> int:
        return self.capability

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_capability(self, device: int) -> tuple[int, int]:
        return divmod(self.capability, 10)

    def get_current_target(self) -> Any:
        return self.make_target("cuda", self.capability, 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        raise refuse(
            "triton.autotune",
            "several configurations",
            "one",
            "keep only the configuration that your GPU selects: Triton selects it by timing, and it affects the bits",
        )

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": SHARED_BYTES[self.capability],
            "max_num_regs": 65536,
            "multiprocessor_count": 132,
            "warpSize": 32,
        }

    # kernel_load_start_hook comes before load_binary, and knows where the PTX is.
    def will_load(self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str) -> None:
        paths = [path for file, path in metadata_group.items() if file.endswith(".ptx")]
        with open(paths[0]) as file:
            self._loading[name] = file.read()

    def load_binary(self, name: str, binary: Any, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        ptx = self._loading.pop(name)
        loaded = Loaded(bitmma.kernel(ptx, name, target=self.used.target), ptx)
        return loaded, loaded, 0, 0, 1024


@contextlib.contextmanager
def use(target: str = "sm_90a", *, threads: int = 0, checks: bool = True, strict: bool = False) -> Iterator[Compiled]:
    """For a block: Triton compiles kernels for `target`, and their PTX runs here, with all bits of the GPU.

    target     sm_80, sm_86, sm_89, sm_90a, sm_100a or sm_120a
    threads    of the host; 0: all cores. No bit depends on it
    checks     check for reads of unwritten shared memory, and for races
    strict     raise an error if it is uncertain whether ptxas joins a product and a sum

    Yields the Compiled (its `launches`, `unsure`, `ptx`). Raises ImportError if Triton is missing, and bitmma.Error for
    another target, or if TRITON_INTERPRET is set: then Triton does not compile kernels.
    """
    target = target_of(target)
    if target not in CAPABILITIES:
        raise refuse("target", target, ", ".join(CAPABILITIES))
    if os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y"):
        raise refuse(
            "TRITON_INTERPRET",
            os.environ["TRITON_INTERPRET"],
            "0 or not set",
            "unset it before triton and the kernels are imported: the interpreter computes with NumPy, and has "
            "no GPU's bits; compiled kernels have them",
        )
    try:
        from triton import knobs
        from triton.backends.compiler import GPUTarget
        from triton.runtime.driver import driver as config
    except ImportError as error:
        raise ImportError(f"bitmma.adapters.triton needs Triton: {error}") from error
    used = Compiled(target, threads, checks, strict)
    driver = Driver(used, config, GPUTarget)
    before = config._active
    config.set_active(driver)
    knobs.runtime.kernel_load_start_hook.add(driver.will_load)
    try:
        yield used
    finally:
        knobs.runtime.kernel_load_start_hook.remove(driver.will_load)
        config._active = before
