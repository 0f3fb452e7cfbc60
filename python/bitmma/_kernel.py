# SPDX-License-Identifier: MIT
"""Whole PTX kernels on the CPU, with the GPU's bits.

k = bitmma.kernel("softmax.ptx")
k[(64,), 128](x, y, 1000)          grid, block; arrays are read and written in place
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arguments import in_ieee_environment, public, text
from ._arrays import _is_torch
from ._case import Case
from ._errors import count_of, flag_of, refuse, shown, threads_of
from ._module import Entry, Memory, PtxModule, address_of, bytes_of, dtype_named, memory_of, ptx_text, sizes_of

_core_any: Any = _core

# How to convert a number to the bytes of a parameter.
_formats = {"f32": "<f", "f64": "<d"}


def _three(value: Any, field: str, rest: int) -> tuple[int, int, int]:
    """x, y and z of a grid or of a place in it, whose last ones may be left out."""
    x, y, z = (*sizes_of(value, field), rest, rest, rest)[:3]
    if isinstance(value, (tuple, list)) and not 1 <= len(value) <= 3:
        raise refuse(field, shown(value), "a number, or a tuple of up to three")
    return x, y, z


def _scalar(value: Any, name: str, kind: str, size: int) -> bytes:
    if isinstance(value, bytes):
        return value
    if _is_torch(value):
        import torch

        if value.device.type != "cpu":
            raise refuse(name, f"a tensor on {value.device}", "one on the CPU", "use .cpu() to copy it")
        is_word = value.is_floating_point() and value.element_size() == size
        value = value.detach().reshape(1).view(torch.uint8).numpy().tobytes() if is_word else value.item()
        if is_word:
            return bytes(value)
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind not in "iub" and value.dtype.itemsize == size:
        return value.tobytes()
    try:
        if kind in _formats:
            return struct.pack(_formats[kind], float(value))
        if isinstance(value, (float, np.floating)):
            # ".param .b32" may hold a float, as Triton's do.
            if kind == "b32":
                return struct.pack("<f", float(value))
            if kind == "b64":
                return struct.pack("<d", float(value))
        number = int(value)
        if number != value:
            raise ValueError
        return (number % (1 << 8 * size) if -(1 << 8 * size - 1) <= number < 0 else number).to_bytes(size, "little")
    except (TypeError, ValueError, OverflowError, struct.error):
        raise refuse(name, shown(value), f"a number that fits .{kind} of {size} bytes, an array or bytes") from None


# Types of tensor maps; of any other dtype only its size matters.
_map_types = {
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    "int32": "s32",
    "int64": "s64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}


class TensorMap(NamedTuple):
    """A TMA tensor map over an array, as an argument of a kernel. Make one with tensor_map()."""

    array: Any
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    fill: str
    im2col: tuple[tuple[int, ...], tuple[int, ...], int] | None = None

    def _core_arguments(self) -> tuple[Any, ...]:
        """The arguments of the core."""
        memory = memory_of(self.array)
        dtype = str(self.array.dtype).removeprefix("torch.")
        shape, size = (
            tuple(self.array.shape),
            int(self.array.itemsize if isinstance(self.array, np.ndarray) else self.array.element_size()),
        )
        return (memory, *self._in_drivers_order(shape, _contiguous_strides(shape, size), dtype))

    def _in_drivers_order(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> tuple[Any, ...]:
        """The fields of the core, with dimensions in the driver's order: the innermost first."""
        return (
            strides[-1],  # the bytes of an element
            list(shape[::-1]),
            list(strides[-2::-1]),
            list(self.box[::-1]),
            list(self.element_strides[::-1]),
            self.swizzle,
            self.fill == "nan",
            _map_types.get(dtype, ""),
            None if self.im2col is None else (self.im2col[0][::-1], self.im2col[1][::-1], self.im2col[2]),
        )


def _contiguous_strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(size * math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _fill(value: Any, field: str) -> str:
    if not isinstance(value, str) or value not in ("zero", "nan"):
        raise refuse(field, shown(value), "zero or nan")
    return value


def _im2col(value: Any, field: str) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    if value is None:
        return None
    try:
        lower, upper, pixels = value
        return tuple(int(corner) for corner in lower), tuple(int(corner) for corner in upper), int(pixels)
    except (TypeError, ValueError):
        raise refuse(field, shown(value), "(lower corner, upper corner, pixels)") from None


@public(box=sizes_of, element_strides=sizes_of, fill=_fill, im2col=_im2col)
def tensor_map(
    array: Any,
    box: Any,
    *,
    swizzle: str = "none",
    element_strides: Any = (),
    fill: str = "zero",
    im2col: Any = None,
) -> TensorMap:
    """A TMA tensor map as cuTensorMapEncodeTiled makes it, as an argument of a kernel; with im2col as
    cuTensorMapEncodeIm2col does.

    array            a contiguous NumPy or torch array of 1 to 5 dimensions, the innermost last
    box              elements that one copy spans, in the order of the array's dimensions
    swizzle          "none", "32", "64" or "128": swizzle of the box in shared memory, in bytes
    element_strides  1 to 8 for each dimension, 1 for the last: a copy moves ceil(n / stride) of n in the box; default 1
    fill             "zero" or "nan": the value of elements outside the array
    im2col           (lower corner, upper corner, pixels) for copies in that mode of an array [N, (D, H,) W, C]: the
                     corners have a number for each of D, H and W, the last one for W; box is then the channels alone

    The launch of the kernel raises Error for maps that the driver refuses.

    >>> tensor_map(np.zeros((128, 256), np.float16), (64, 64), swizzle="128").box
    (64, 64)
    """
    memory = memory_of(array, "array")
    if memory is None:
        raise refuse("array", shown(array), "a NumPy array, or a torch tensor on the CPU")
    return TensorMap(array, box, element_strides, swizzle, fill, im2col)


@public(
    address=address_of,
    shape=sizes_of,
    dtype=dtype_named,
    box=sizes_of,
    strides=sizes_of,
    element_strides=sizes_of,
    fill=_fill,
    im2col=_im2col,
)
def encode_tensor_map(
    address: int,
    shape: Any,
    dtype: Any,
    box: Any,
    *,
    strides: Any = None,
    swizzle: str = "none",
    element_strides: Any = (),
    fill: str = "zero",
    im2col: Any = None,
) -> bytes:
    """The 128 bytes of a TMA tensor map over a tensor at an address of a Memory, for parameters or memory of a kernel.

    address   of the tensor, a multiple of 16
    shape     extents of 1 to 5 dimensions, the innermost last
    dtype     a NumPy dtype: np.float16, ml_dtypes.bfloat16
    strides   bytes from an element to the next, for each dimension, as in an array's .strides; default: a contiguous
              tensor

    The others are those of tensor_map. The bytes are those of NVIDIA's driver, except for the swizzle "128-atom32".
    Raises Error for maps that the driver refuses.

    >>> len(encode_tensor_map(0x10000, (128, 256), np.float16, (64, 64), swizzle="128"))
    128
    """
    size = dtype.itemsize
    if size not in (1, 2, 4, 8):
        raise refuse("dtype", dtype, "a type of 1, 2, 4 or 8 bytes")
    if not 1 <= len(shape) <= 5:
        raise refuse("shape", shown(shape), "1 to 5 dimensions")
    if strides is None:
        strides = _contiguous_strides(shape, size)
        if max(strides) >= 2**40:
            raise refuse("shape", shown(shape), "a tensor whose strides are below 2^40 bytes")
    elif len(strides) != len(shape) or strides[-1] != size:
        raise refuse("strides", shown(strides), f"{len(shape)} strides in bytes, the last one the {size} of an element")
    fields = TensorMap(None, box, element_strides, swizzle, fill, im2col)._in_drivers_order(shape, strides, str(dtype))
    data: Any = _core_any.encode_tensor_map(address, *fields)
    return data


class Kernel:
    """A kernel of a PTX module, decoded for a target. Index it with grid and block, then call it with the arguments."""

    def __init__(self, core: Any, entry: Entry) -> None:
        self._core, self._entry = core, entry

    @property
    def name(self) -> str:
        return str(self._core.name)

    @property
    def target(self) -> str:
        return str(self._core.target)

    @property
    def parameters(self) -> list[tuple[str, str, int]]:
        """Name, type and size in bytes of each parameter."""
        return list(self._core.parameters)

    @property
    def fusions(self) -> list[dict[str, Any]]:
        """The products and sums that ptxas may join into one fma: lines, statements, the rule, whether it is sure, and
        what SASS shows: joined, apart, both or none."""
        return list(self._core.fusions)

    @property
    def warnings(self) -> list[str]:
        """Its uncertain points: joins that no rule covers or that SASS contradicts, and floating-point atomics."""
        return list(self._core.warnings)

    @property
    def shared_bytes(self) -> int:
        """Static shared memory per block."""
        return int(self._core.shared_bytes)

    @property
    def local_bytes(self) -> int:
        """Local memory per thread."""
        return int(self._core.local_bytes)

    def __repr__(self) -> str:
        return f"Kernel({self.name} on {self.target}, {len(self.parameters)} parameters)"

    def __getitem__(self, launch: Any) -> Launcher:
        if not isinstance(launch, tuple) or len(launch) not in (2, 3):
            raise refuse("launch", shown(launch), "kernel[grid, block] or kernel[grid, block, shared_bytes]")
        shared = launch[2] if len(launch) == 3 else 0
        if not isinstance(shared, (int, np.integer)) or not 0 <= shared < 2**63:
            raise refuse("shared_bytes", shown(shared), "bytes of dynamic shared memory")
        return Launcher(self, _three(launch[0], "grid", 1), _three(launch[1], "block", 1), int(shared))


_most = 2**31 - 1


def _register(kind: str, low: int, high: int) -> Any:
    if kind == "pred":
        return bool(low)
    if kind == "f32":
        return np.uint32(low).view(np.float32)
    if kind == "f64":
        return np.uint64(low).view(np.float64)
    return low | high << 64


class Step(NamedTuple):
    """An instruction that a thread ran."""

    line: int
    """Line of the PTX."""
    source_line: int
    """Line of the source by .loc, or 0."""
    statement: str
    registers: dict[str, Any]
    """The written registers: np.float32 for .f32, np.float64 for .f64, bool for .pred; for other types the bits as an
    int."""
    case: Case | None
    """For an mma, its inputs: `bitmma.explain(step.case, row, col)` shows an output term by term."""

    @classmethod
    def _of(cls, fields: Any) -> Step:
        line, source_line, statement, registers, case = fields
        return cls(
            line,
            source_line,
            statement,
            {name: _register(kind, low, high) for name, kind, low, high in registers},
            None if case is None else Case._of(case),
        )


class Stop(NamedTuple):
    """Where a thread stopped."""

    step: Step
    """The last instruction that the thread ran."""
    registers: dict[str, Any]
    """All registers that the thread has written, as in `Step`."""


class Launcher:
    """A kernel with its grid and block."""

    def __init__(
        self, kernel: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int
    ) -> None:
        self.kernel, self.grid, self.block, self.shared_bytes = kernel, grid, block, shared_bytes

    def trace(
        self,
        *arguments: Any,
        thread: Any = 0,
        block: Any = 0,
        lines: tuple[int, int] | None = None,
        cluster: Any = None,
        checks: bool = True,
        memory: Memory | None = None,
        parameters: Any = None,
        races: str = "fault",
        clock: int | None = None,
        cooperative: bool = False,
    ) -> list[Step]:
        """Runs the grid, and returns the steps of one thread of one block, instruction by instruction.

        thread, block   indices: one, or up to three
        lines           the first and last PTX line to keep; default: all

        The others are those of the call.
        """
        if lines is not None and (not isinstance(lines, (tuple, list)) or len(lines) != 2):
            raise refuse("lines", shown(lines), "two lines of the PTX: the first and the last")
        first, last = (1, _most) if lines is None else (count_of(line, "lines") for line in lines)
        trace = (_three(block, "block", 0), _three(thread, "thread", 0), first, last, 0, 1)
        launched = self._launch(arguments, cluster, 1, checks, trace, memory, parameters, races, clock, cooperative)
        return [Step._of(step) for step in launched[3]]

    def debug(
        self,
        *arguments: Any,
        line: int,
        thread: Any = 0,
        block: Any = 0,
        time: int = 1,
        cluster: Any = None,
        checks: bool = True,
        memory: Memory | None = None,
        parameters: Any = None,
        races: str = "fault",
        clock: int | None = None,
        cooperative: bool = False,
    ) -> Stop:
        """Runs the grid until a thread has run an instruction of a PTX line, and returns its registers at that point.
        Memory is then as the kernel left it.

        thread, block   indices: one, or up to three
        time            stops when the line runs for this time, for instance in a loop iteration

        The others are those of the call. Raises Error if the thread never runs the line.
        """
        trace = (
            _three(block, "block", 0),
            _three(thread, "thread", 0),
            1,
            _most,
            count_of(line, "line", 1),
            count_of(time, "time", 1),
        )
        _, _, stopped, steps, _ = self._launch(
            arguments, cluster, 1, checks, trace, memory, parameters, races, clock, cooperative
        )
        if not stopped:
            raise refuse("line", shown(line), f"a line that the thread runs {time} time{'' if time == 1 else 's'}")
        registers: dict[str, Any] = {}
        for step in steps:
            registers.update(Step._of(step).registers)
        return Stop(Step._of(steps[-1]), registers)

    def __call__(
        self,
        *arguments: Any,
        cluster: Any = None,
        threads: int = 1,
        checks: bool = True,
        memory: Memory | None = None,
        parameters: Any = None,
        races: str = "fault",
        clock: int | None = None,
        cooperative: bool = False,
        prints: bool = True,
    ) -> int:
        """Runs the grid. Arrays (NumPy, torch on the CPU) are read and written in place; numbers are converted to the
        parameter's type. None is a null pointer, tensor_map() a tensor map. Returns the number of thread instructions.

        cluster      blocks per cluster, in the form of the grid; default: the PTX's .reqnctapercluster, or one
        threads      of the host; 0: all cores. No bit depends on it
        checks       check for reads of unwritten memory, and for races in shared memory
        memory       the global memory. Pointers are then numbers, its addresses; it has the module's variables
        parameters   in place of arguments: the bytes of all parameters, each at its offset, as cuLaunchKernel's extra
                     buffer has them. Pointers, also in structures, are addresses of `memory`
        races        "fault", "warning" or "off": what a race in shared memory causes
        clock        where %clock64, %globaltimer and their like begin; without it a kernel that reads them is refused
        cooperative  all blocks run together, as cuLaunchCooperativeKernel: they may wait for each other
        prints       write what the kernel prints to sys.stdout

        Raises Error for arguments that do not fit, and for faults of the kernel, with the thread and the PTX line: an
        access that is out of bounds, misaligned or unwritten, a race, a deadlock.
        """
        instructions, warned, _, _, printed = self._launch(
            arguments, cluster, threads, checks, None, memory, parameters, races, clock, cooperative
        )
        if printed and prints:
            sys.stdout.write(printed.decode(errors="replace"))
        for warning in [*self.kernel.warnings, *warned]:
            warnings.warn(warning, stacklevel=2)
        return int(instructions)

    def _core_arguments(self, arguments: Any, memory: Memory | None) -> list[Any]:
        """The arguments as the core takes them: bytes, memory, or memory with the fields of a tensor map."""
        parameters = self.kernel.parameters
        if len(arguments) != len(parameters):
            names = ", ".join(f".{kind} {name}" for name, kind, _ in parameters)
            raise refuse("arguments", len(arguments), f"{len(parameters)}: {names}")
        converted: list[Any] = []
        for value, (name, kind, size) in zip(arguments, parameters, strict=True):
            array = None if value is None or isinstance(value, TensorMap) else memory_of(value)
            if memory is not None and isinstance(value, TensorMap):
                raise refuse(
                    name, "tensor_map()", "the bytes of a map of `memory`", "bitmma.encode_tensor_map makes them"
                )
            if memory is not None and array is not None:
                raise refuse(
                    name,
                    "an array",
                    "an address of `memory`",
                    "memory.map(array) makes one and uses the array in place, memory.allocate(array) copies it",
                )
            if isinstance(value, TensorMap):
                converted.append(value._core_arguments())
            else:
                number = 0 if value is None else value
                converted.append(array if array is not None else _scalar(number, name, kind, size))
        return converted

    def _parameter_bytes(self, arguments: Any, parameters: Any) -> bytes:
        if arguments:
            raise refuse("parameters", "given", "None beside arguments", "pass the arguments, or the bytes of all")
        data, entry = bytes_of(parameters, "parameters"), self.kernel._entry
        if len(data) != entry.parameter_bytes:
            places = ", ".join(f".{kind} {name} at {offset}" for name, kind, _, offset, _ in entry.parameters)
            raise refuse("parameters", f"{len(data)} bytes", f"{entry.parameter_bytes} bytes: {places or 'none'}")
        return data

    @in_ieee_environment
    def _launch(
        self,
        arguments: Any,
        cluster: Any,
        threads: int,
        checks: bool,
        trace: Any,
        memory: Memory | None,
        parameters: Any,
        races: str,
        clock: int | None,
        cooperative: bool,
    ) -> tuple[int, list[str], bool, list[Any], bytes]:
        if memory is not None and not isinstance(memory, Memory):
            raise refuse("memory", shown(memory), "a bitmma.Memory")
        if not isinstance(races, str) or races not in ("fault", "warning", "off"):
            raise refuse("races", shown(races), "fault, warning or off")
        data = None if parameters is None else self._parameter_bytes(arguments, parameters)
        converted = self._core_arguments(arguments, memory) if data is None else []
        extents = None if cluster is None else _three(cluster, "cluster", 1)
        with contextlib.nullcontext() if memory is None else memory._lock:
            done: tuple[int, list[str], bool, list[Any], bytes] = _core_any.kernel_launch(
                self.kernel._core,
                self.grid,
                self.block,
                extents,
                self.shared_bytes,
                converted,
                threads_of(threads),
                flag_of(checks, "checks"),
                trace,
                None if memory is None else memory._core,
                data,
                races,
                None if clock is None else count_of(clock, "clock"),
                flag_of(cooperative, "cooperative"),
            )
        return done


def _ptx(value: Any, field: str) -> Any:
    if isinstance(value, PtxModule):
        return value
    if not isinstance(value, (str, os.PathLike)):
        raise refuse(field, shown(value), "the text of a module, its path, or a bitmma.PtxModule")
    return ptx_text(value, field)


@public(ptx=_ptx, entry=text, fmad=flag_of, sass=text)
def kernel(
    ptx: str | os.PathLike[str] | PtxModule,
    entry: str | None = None,
    *,
    target: Any = None,
    fmad: bool = True,
    sass: str | None = None,
) -> Kernel:
    """A kernel of a PTX module, ready to run on NumPy's and torch's memory with the bits of a GPU.

    ptx      the text of the module, from nvcc -ptx, NVRTC or Triton's compiled.asm["ptx"]; the path of its file, which
             ends in .ptx; or a PtxModule
    entry    its name; optional if the module has only one entry
    target   the GPU, "sm_90a" or "H100"; default: the .target of the module
    fmad     as ptxas -fmad: whether products and sums become fma
    sass     the output of nvdisasm -gp for the cubin of ptxas -lineinfo: decides which products and sums become fma

    Raises Error, with every line, for unsupported instructions.

    >>> twice = kernel('''.version 8.0
    ... .target sm_90
    ... .address_size 64
    ... .visible .entry twice(.param .u64 x) {
    ...   .reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .f32 %f<2>;
    ...   ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
    ...   ld.global.f32 %f1, [%rd1]; add.f32 %f1, %f1, %f1; st.global.f32 [%rd1], %f1; ret; }''')
    >>> x = np.arange(4, dtype=np.float32)
    >>> twice[1, 4](x)
    32
    >>> x
    array([0., 2., 4., 6.], dtype=float32)
    """
    module = ptx if isinstance(ptx, PtxModule) else PtxModule(ptx)
    core = _core_any.PtxKernel(module._core, entry or "", target, fmad, sass)
    return Kernel(core, module.entries[core.name])
