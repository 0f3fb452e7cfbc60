# SPDX-License-Identifier: MIT
"""PTX modules that are parsed once, and the global memory of a device, which lasts over launches.

module, memory = bitmma.PtxModule(ptx), bitmma.Memory()
x = memory.allocate(array)                       an address; memory.map(array) uses the array in place
bitmma.kernel(module, "scale")[4, 256](x, 1024, memory=memory)
memory.array(x, (1024,), np.float32)
"""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from . import _core
from ._arguments import path_of, public, text
from ._arrays import _is_torch, refuse_mask, require_memory_of
from ._errors import count_of, flag_of, refuse, shown

_core_any: Any = _core


def memory_of(value: Any, field: str = "argument") -> np.ndarray | None:
    """The memory of a NumPy or torch array as writable bytes; None for a number."""
    refuse_mask(value, field)
    if _is_torch(value):
        import torch

        require_memory_of(value, field)
        if value.is_conj() or value.is_neg():
            raise refuse(
                field,
                "a tensor that is conjugated or negated when it is read",
                "one in memory",
                "use .resolve_conj().resolve_neg()",
            )
        if value.is_quantized:
            raise refuse(field, "a quantized tensor", "a tensor of numbers", "use .int_repr()")
        if value.ndim == 0:
            return None
        if value.device.type != "cpu":
            raise refuse(field, f"a tensor on {value.device}", "one on the CPU", "use .cpu() to copy it")
        if not value.is_contiguous():
            raise refuse(field, "a tensor with gaps", "a contiguous one", "use .contiguous() to copy it")
        array: np.ndarray = value.detach().view(-1).view(torch.uint8).numpy()
        return array
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return None
    if value.dtype.hasobject:
        raise refuse(field, f"an array of {value.dtype}", "an array of numbers")
    if not value.flags.c_contiguous:
        raise refuse(field, "an array with gaps", "a contiguous one", "use numpy.ascontiguousarray to copy it")
    if not value.flags.writeable:
        raise refuse(field, "a read-only array", "a writable array", "copy it")
    return value.reshape(-1).view(np.uint8)


def bytes_of(value: Any, field: str) -> bytes:
    """A copy of the bytes of a bytes-like object, or of the elements of an array in row-major order."""
    refuse_mask(value, field)
    if _is_torch(value):
        require_memory_of(value, field)
        memory = memory_of(value.contiguous().reshape(-1), field)
        return b"" if memory is None else memory.tobytes()
    if not isinstance(value, np.ndarray) and hasattr(value, "__array__") and not isinstance(value, type):
        value = np.asarray(value)  # NumPy's scalars, JAX's arrays
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise refuse(field, f"an array of {value.dtype}", "an array of numbers")
        return value.tobytes()
    try:
        return memoryview(value).tobytes()
    except TypeError:
        fix = "struct.pack makes the bytes of a number" if isinstance(value, (int, float)) else ""
        raise refuse(field, shown(value), "bytes, or a NumPy or torch array", fix) from None


def sizes_of(value: Any, field: str) -> tuple[int, ...]:
    """A number, or a tuple of numbers, of 0 or more."""
    sizes = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(count_of(size, field, 0, 2**63 - 1) for size in sizes)


def dtype_named(value: Any, field: str) -> np.dtype:
    """A NumPy dtype, its type or its whole name. Not NumPy's short names: "u4" and "f16" are other types in PTX."""
    dtype = None
    try:
        if isinstance(value, (np.dtype, type)):
            dtype = np.dtype(value)
        elif isinstance(value, str) and isinstance(named := getattr(ml_dtypes, value, value), (str, type)):
            dtype = np.dtype(named)
            dtype = dtype if dtype.name == value else None
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.hasobject or dtype.itemsize == 0:
        raise refuse(field, shown(value), 'a NumPy dtype of numbers, such as np.float32, "int64" or "bfloat16"')
    return dtype


def address_of(value: Any, field: str) -> int:
    return count_of(value, field, 0, 2**64 - 1)


def _size(value: Any, field: str) -> int:
    return count_of(value, field, 0, 2**63 - 1)


def _name(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise refuse(field, shown(value), "a string")
    return text(value, field)


def ptx_text(value: Any, field: str) -> str:
    """The text of a PTX module, which may be given as the path of its file: a path object, or a name that ends in
    .ptx or begins with dataset:."""
    is_path = isinstance(value, os.PathLike) or (
        isinstance(value, str) and "\n" not in value and (value.endswith(".ptx") or value.startswith("dataset:"))
    )
    if not is_path:
        return _name(value, field)
    path = path_of(value, field)
    try:
        return Path(_core_any.located(path)).read_text(errors="replace")
    except OSError as error:
        raise refuse(field, f"{path}: {error.strerror}", "a readable file, or the text of a module") from error


_most_bytes = 2**47  # of a process on the host: larger numbers would use up the addresses


class Parameter(NamedTuple):
    """A parameter of an entry, in PTX's words."""

    name: str
    type: str
    """The type of an element: "u64", "f32", "b8"."""
    bytes: int
    offset: int
    """In the bytes of all parameters."""
    align: int


class Entry(NamedTuple):
    """An entry of a module, with its performance-tuning directives."""

    name: str
    parameters: list[Parameter]
    parameter_bytes: int
    """The bytes of all parameters together."""
    required_block: tuple[int, ...]
    """.reqntid; empty: none."""
    most_block: tuple[int, ...]
    """.maxntid; empty: none."""
    required_cluster: tuple[int, ...]
    """.reqnctapercluster; empty: none."""
    most_cluster: int
    """.maxclusterrank, in blocks; 0: none."""
    grid_of_clusters: bool
    """.blocksareclusters: the grid counts clusters."""


class Variable(NamedTuple):
    """A variable of a module."""

    name: str
    space: str
    """"global" or "const"."""
    type: str
    """The type of an element."""
    bytes: int
    align: int


class Allocation(NamedTuple):
    """An allocation of a Memory."""

    address: int
    bytes: int
    name: str


class PtxModule:
    """A PTX module, parsed once for all its kernels.

    ptx   the text of the module, from nvcc -ptx, NVRTC or Triton's compiled.asm["ptx"]; or the path of its file, which
          ends in .ptx

    A Memory holds the module's variables: they keep their values over the launches that use this Memory. A launch
    without a Memory begins with the initial values.

    Raises Error, with the line, for text that is not PTX.

    >>> module = PtxModule('''.version 8.0
    ... .target sm_90
    ... .address_size 64
    ... .visible .global .align 4 .u32 count = 7;
    ... .visible .entry add(.param .u64 p, .param .u32 n) {
    ...   .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ...   ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.global.u32 %r2, [count]; add.u32 %r2, %r1, %r2;
    ...   st.global.u32 [count], %r2; st.global.u32 [%rd1], %r2; ret; }''')
    >>> [(parameter.name, parameter.offset) for parameter in module.entries["add"].parameters]
    [('p', 0), ('n', 8)]
    >>> memory = Memory()
    >>> p, add = memory.allocate(4), kernel(module, "add")
    >>> add[1, 1](p, 5, memory=memory), add[1, 1](p, 1, memory=memory)
    (7, 7)
    >>> memory.array(p, 1, np.uint32)
    array([13], dtype=uint32)
    """

    @public(ptx=ptx_text)
    def __init__(self, ptx: str | os.PathLike[str]):
        self._core = _core_any.PtxModule(ptx)
        self._entries: dict[str, Entry] = {}
        for name, parameters, size, *blocks, most_cluster, grid_of_clusters in self._core.entries:
            required_block, most_block, required_cluster = (tuple(extents) for extents in blocks)
            self._entries[name] = Entry(
                name,
                [Parameter(*parameter) for parameter in parameters],
                size,
                required_block,
                most_block,
                required_cluster,
                most_cluster,
                grid_of_clusters,
            )

    @property
    def target(self) -> str:
        """The .target. Raises Error if bitmma does not know it."""
        return str(self._core.target)

    @property
    def entries(self) -> dict[str, Entry]:
        """The kernels by name, in the order of the PTX."""
        return dict(self._entries)

    @property
    def variables(self) -> dict[str, Variable]:
        """The variables in .global and .const memory by name."""
        return {variable[0]: Variable(*variable) for variable in self._core.variables}

    def __repr__(self) -> str:
        return f"PtxModule({len(self._entries)} entries, {len(self._core.variables)} variables)"


def _ptx_module(value: Any, field: str) -> PtxModule:
    if not isinstance(value, PtxModule):
        raise refuse(field, shown(value), "a bitmma.PtxModule")
    return value


class Memory:
    """The global memory of a device, which lasts over launches: `kernel[grid, block](..., memory=memory)`.

    Addresses are numbers. If a kernel or the host reads a byte that neither of them has written, bitmma raises Error.
    After a launch with checks=False all bytes count as written. Threads may share a Memory; its launches run one after
    another.

    Methods raise Error for bytes that are not all in one allocation.

    >>> memory = Memory()
    >>> x = memory.allocate(np.arange(4, dtype=np.float32), name="x")
    >>> memory.write(x + 4, np.float32(7))
    >>> memory.array(x, (2, 2), np.float32)
    array([[0., 7.],
           [2., 3.]], dtype=float32)
    """

    @public
    def __init__(self) -> None:
        self._core = _core_any.Memory()
        # A launch runs without the interpreter's lock; no other thread may free memory that its kernel uses.
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Memory({len(self.allocations)} allocations)"

    @public(at=address_of, name=_name)
    def allocate(self, bytes: Any, *, at: int | None = None, name: str = "") -> int:
        """Allocates memory, and returns its address.

        bytes   the number of bytes, which count as unwritten; or a NumPy or torch array, or bytes, to copy
        at      the address; default: a free multiple of 512, as cudaMalloc returns
        name    for messages

        Raises Error if another allocation is in the way.

        >>> memory = Memory()
        >>> memory.allocate(64, at=0x10000, name="weights")
        65536
        >>> memory.find(0x10001)
        Allocation(address=65536, bytes=64, name='weights')
        """
        is_array = isinstance(bytes, np.ndarray) or _is_torch(bytes)
        is_number = isinstance(bytes, (int, np.generic)) or (is_array and bytes.ndim == 0)
        data = None if is_number else bytes_of(bytes, "bytes")
        size = count_of(bytes, "bytes", 0, _most_bytes) if data is None else len(data)
        with self._lock:
            address = at
            if address is None:
                address = int(self._core.allocate(size, name))
            else:
                self._core.allocate_at(address, size, name)
            if data is not None:
                self._core.write(address, data)
        return address

    @public(at=address_of, name=_name, written=flag_of)
    def map(self, array: Any, *, at: int | None = None, name: str = "", written: bool = True) -> int:
        """Makes a NumPy or torch array an allocation, and returns its address. Kernels read and write the array in
        place. The Memory keeps the array alive until `free`.

        array     contiguous and writable, on the CPU
        at        the address; default: that of the array on the host
        written   whether its bytes count as written

        Raises Error if another allocation is in the way.

        >>> x = np.zeros(4, np.float32)
        >>> Memory().map(x) == x.ctypes.data
        True
        """
        memory = memory_of(array, "array")
        if memory is None:
            raise refuse("array", shown(array), "a NumPy array, or a torch tensor on the CPU, with dimensions")
        address = int(memory.ctypes.data) if at is None else at
        with self._lock:
            self._core.map(address, memory, written, name)
        return address

    @public(address=address_of)
    def free(self, address: int) -> None:
        """Frees an allocation. Raises Error unless one begins at the address, and for variables of modules."""
        with self._lock:
            self._core.free(address)

    @public(address=address_of, data=bytes_of)
    def write(self, address: int, data: Any) -> None:
        """Copies bytes, or the elements of a NumPy or torch array in row-major order, to an address."""
        with self._lock:
            self._core.write(address, data)

    @public(address=address_of, bytes=_size)
    def fill(self, address: int, bytes: int, value: int) -> None:
        """Writes one value, 0 to 255, to `bytes` bytes, as cudaMemset does."""
        value = count_of(value, "value", 0, 255)
        with self._lock:
            self._core.fill(address, bytes, value)

    @public(address=address_of, bytes=_size)
    def read(self, address: int, bytes: int) -> bytes:
        """A copy of `bytes` bytes. Raises Error for those that are not written."""
        with self._lock:
            if bytes == 0:  # nothing to copy, also at the end of an allocation
                self._core.write(address, b"")
                return b""
            data: Any = self._core.read(address, bytes)
            return data

    @public(address=address_of, shape=sizes_of, dtype=dtype_named)
    def array(self, address: int, shape: Any, dtype: Any) -> np.ndarray:
        """A copy of the memory as an array.

        shape   a number, or a tuple of numbers
        dtype   a NumPy dtype: np.float32, ml_dtypes.bfloat16, "int64"

        Raises Error for bytes that are not written.

        >>> memory = Memory()
        >>> memory.array(memory.allocate(b"\\1\\0\\2\\0"), 2, np.int16)
        array([1, 2], dtype=int16)
        """
        size = math.prod(shape) * dtype.itemsize
        if size >= 2**63:
            raise refuse("shape", shown(shape), "a shape of less than 2^63 bytes")
        data = self.read(address, size)
        try:
            return np.frombuffer(bytearray(data), np.uint8).view(dtype).reshape(shape)
        except ValueError as error:  # of too many dimensions
            raise refuse("shape", shown(shape), "a shape of NumPy", str(error)) from None

    @public(address=address_of)
    def find(self, address: int) -> Allocation | None:
        """The allocation that has the byte at this address; None if none has."""
        with self._lock:
            allocation = self._core.find(address)
        return None if allocation is None else Allocation(*allocation)

    @property
    def allocations(self) -> list[Allocation]:
        """In ascending order of addresses, with the variables of modules in .global memory."""
        with self._lock:
            return [Allocation(*allocation) for allocation in self._core.allocations()]

    @public(address=address_of)
    def written_bytes(self, address: int) -> int:
        """How many bytes of the allocation at this address are written. Raises Error unless one begins there.

        >>> memory = Memory()
        >>> x = memory.allocate(64)
        >>> memory.fill(x + 16, 8, 0xFF)
        >>> memory.written_bytes(x)
        8
        """
        with self._lock:
            return int(self._core.written_bytes(address))

    @public(module=_ptx_module, name=_name)
    def variable(self, module: PtxModule, name: str) -> Allocation:
        """A variable of a module in .global or .const memory. It gets its initial value when the module is first used
        with this memory. The address of a .const variable is its generic address, as cvta returns it: kernels can use
        it, and the host uses read_variable and write_variable.

        Raises Error, with the names, if the module has no such variable.
        """
        with self._lock:
            return Allocation(*self._core.variable(module._core, name))

    @public(module=_ptx_module, name=_name, offset=_size, bytes=_size)
    def read_variable(self, module: PtxModule, name: str, offset: int = 0, bytes: int | None = None) -> bytes:
        """A copy of the bytes of a variable, as cudaMemcpyFromSymbol makes it.

        offset   of the first byte
        bytes    default: all from `offset` on
        """
        with self._lock:
            size = max(self._core.variable(module._core, name)[1] - offset, 0) if bytes is None else bytes
            data: Any = self._core.read_variable(module._core, name, offset, size)
            return data

    @public(module=_ptx_module, name=_name, data=bytes_of, offset=_size)
    def write_variable(self, module: PtxModule, name: str, data: Any, offset: int = 0) -> None:
        """Copies bytes, or the elements of a NumPy or torch array, to a variable, as cudaMemcpyToSymbol does."""
        with self._lock:
            self._core.write_variable(module._core, name, offset, data)
