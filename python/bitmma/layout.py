# SPDX-License-Identifier: MIT
"""The place of every element of a matrix, as integer arrays: (row, column) -> place, and back.

    places = bitmma.layout.fragment("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "a")
    places.thread[3, 5], places.register[3, 5]       the thread and register that hold A(3, 5)
    places.back()[7, 2, 0]                           thread 7, register 2, first element -> (row, column)

Arrays of `back()` have the shape of the places and a last axis of two, row and column; -1 marks places without an
element.
"""

from __future__ import annotations

from ast import literal_eval
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from ._arguments import core as _core, instruction_of, public, text as _text
from ._case import Case, _case
from ._core import Instruction
from ._errors import count_of, refuse, shown, text_of
from ._names import no_such_name
from ._types import Target


class Places:
    """Integer arrays in the shape of the matrix, one for each coordinate of a place, and properties of the map.

    Registers have `thread`, `register` and `bit`; shared memory has `byte`, `bit` and `unswizzled`, the byte before the
    swizzle acts on the address; Tensor Memory has `cta`, `lane`, `column` and `bit`. `bit` is the lowest bit of the
    element.
    """

    byte: np.ndarray
    bit: np.ndarray
    unswizzled: np.ndarray
    thread: np.ndarray
    register: np.ndarray
    cta: np.ndarray
    lane: np.ndarray
    column: np.ndarray
    cute: str
    """The layout in CuTe's notation; empty if it cannot be expressed in it."""
    threads: int
    registers: int
    element_bits: int
    layout: str
    """The letter that PTX gives to the data path layout of Tensor Memory."""
    bytes: int
    """The size of an image."""
    k: np.ndarray
    """Of metadata: the first column of A of each chunk."""
    one_to_one: bool
    """Of metadata in memory: whether each chunk has a place of its own."""
    row_bit: np.ndarray
    """Of ldmatrix that unpacks codes: the lowest bit of each code in its row in memory."""

    def __init__(self, cute: str, arrays: dict[str, np.ndarray], index: tuple[tuple[str, int, int], ...], **facts: Any):
        vars(self).update(arrays, cute=cute, **facts)
        self._names = tuple(arrays)
        self._index = index
        self._map: Any = None

    def _of(self, map: Any) -> Places:
        """The same, drawn like `map`."""
        self._map = map
        return self

    def _repr_svg_(self) -> str | None:
        """The picture in a notebook; None for maps that have none."""
        return None if self._map is None else str(self._map.svg(lines=32, columns=16))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_map": None}  # the library's map stays here

    def __repr__(self) -> str:
        shape = getattr(self, self._names[0]).shape
        return f"Places({', '.join(self._names)} of {' x '.join(map(str, shape))} elements)"

    def back(self) -> np.ndarray:
        """The inverse: an array over the places, whose last axis has the coordinates of the element that begins there.
        Its other axes are threads, registers and elements of a register; CTAs, lanes and columns; or bytes."""
        where = [getattr(self, name) // width for name, width, _ in self._index]
        matrix = where[0].shape
        extents = [
            size or (int(values.max()) + 1 if values.size else 0)
            for values, (_, _, size) in zip(where, self._index, strict=True)
        ]
        back = np.full((*extents, len(matrix)), -1, np.int64)
        coordinates = np.moveaxis(np.indices(matrix), 0, -1).reshape(-1, len(matrix))[::-1]
        back[tuple(values.reshape(-1)[::-1] for values in where)] = coordinates
        return back


_BYTE = (("byte", 1, 0),)
_CELL = (("cta", 1, 0), ("lane", 1, 128), ("column", 1, 0))


def _in_registers(cute: str, arrays: dict[str, np.ndarray], threads: int, registers: int, element_bits: int) -> Places:
    width = min(element_bits, 32)
    index = (("thread", 1, threads), ("register", 1, registers), ("bit", width, 32 // width))
    return Places(cute, arrays, index, threads=threads, registers=registers, element_bits=element_bits)


def _register_map(instruction: Any, operand: str) -> Any:
    return _core.register_map(instruction, operand)


@public
def smem(
    descriptor: int | str,
    rows: int,
    cols: int,
    *,
    element_bits: int = 16,
    code_bits: int = 0,
    major: str = "k",
    target: Target = "sm_90a",
) -> Places:
    """A matrix in shared memory, M or N by K, in the layout of a descriptor. `code_bits`: 4 of e2m1, 6 of e2m3 and
    e3m2, whose `element_bits` are 8 in kinds that mix types: the codes of 16 bytes follow each other from its start
    (b4x16_p64, b6x16_p32).

    >>> smem(0x4000004000010000, 64, 16).byte[9, 8]
    np.int64(1152)
    """
    places = _core.smem_map(descriptor, rows, cols, element_bits, major, target, code_bits)
    return Places(places.cute, places.arrays(), _BYTE)._of(places)


@public
def smem_svg(
    descriptor: int | str,
    rows: int,
    cols: int,
    *,
    element_bits: int = 16,
    major: str = "k",
    target: Target = "sm_90a",
    max_lines: int = 32,
) -> str:
    """The same as a picture: lines of 128 bytes, coloured by the place before the swizzle."""
    return _core.smem_map(descriptor, rows, cols, element_bits, major, target, 0).svg(lines=max_lines)


@public(instruction=instruction_of)
def fragment(instruction: str | Instruction, operand: str) -> Places:
    """An operand in registers: "a", "b" (as N x K), "c" or "d" of mma.sync, "a", "c" or "d" of wgmma; "metadata" of a
    sparse instruction, "scale_a" and "scale_b" of a block-scaled mma.sync."""
    places = _register_map(instruction, operand)
    return _in_registers(
        places.cute, places.arrays(), places.extent("thread"), places.extent("register"), places.step("bit")
    )._of(places)


@public(instruction=instruction_of)
def fragment_svg(instruction: str | Instruction, operand: str, *, max_cols: int = 16) -> str:
    """The same as a picture."""
    return _register_map(instruction, operand).svg(columns=max_cols)


@public
def tmem(m: int, n: int, *, cta_group: int = 1, ws: bool = False, sparse: bool = False, address: int = 0) -> Places:
    """D of a tcgen05.mma, [M, N]."""
    places, letter = _core.tmem_d_map(m, n, cta_group, ws, sparse, address)
    return Places(places.cute, places.arrays(), _CELL, layout=letter)._of(places)


@public
def tmem_a(
    m: int,
    k: int,
    *,
    element_bits: int = 16,
    code_bits: int = 0,
    cta_group: int = 1,
    ws: bool = False,
    sparse: bool = False,
    address: int = 0,
    copy: int = 0,
) -> Places:
    """A of a tcgen05.mma in Tensor Memory, [M, stored K], in containers of `element_bits`; `code_bits` as in `smem`: an
    e2m1 is in bits 5:2 of its byte. `copy` selects one of the copies that some layouts need."""
    arrays = _core.tmem_a_map(m, k, element_bits, cta_group, ws, sparse, address, code_bits).arrays()
    copies = arrays["lane"].shape[2] if arrays["lane"].ndim == 3 else 1
    if not 0 <= copy < copies:
        raise refuse("copy", str(copy), f"0..{copies - 1}")
    of_copy = {name: array[:, :, copy] if array.ndim == 3 else array for name, array in arrays.items()}
    return Places("", of_copy, _CELL, layout="")


@public
def ldst(shape: str, num: int = 1, *, pack_16b: bool = False) -> Places:
    """tcgen05.ld and .st of one warp: "32x32b", "16x64b", "16x128b", "16x256b" or "16x32bx2". Arrays [threads,
    registers, halves] of lanes and columns relative to the address."""
    arrays = _core.ldst_map(shape, num, pack_16b).arrays()
    halves = {name: array[:, :, : 2 if pack_16b else 1] for name, array in arrays.items()}
    return Places("", halves, (("lane", 1, 0), ("column", 1, 0)))


@public
def ldmatrix(count: int = 4, *, transposed: bool = False, store: bool = False) -> Places:
    """ldmatrix and stmatrix of 8 x 8 matrices of 16 bits: arrays [matrices, 8, 8] of registers."""
    return _in_registers("", _core.ldmatrix_map(count, transposed, store).arrays(), 32, count, 16)


@public(instruction=_text)
def matrix_move(instruction: str) -> Places:
    """ldmatrix and stmatrix of any shape, by the PTX mnemonic: arrays [matrices, rows, columns] of registers; rows are
    those of 16 bytes in memory.

    >>> matrix_move("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64").thread[0, 0, 5]
    np.int64(1)
    """
    places, registers, bits = _core.matrix_move_map(instruction)
    return _in_registers("", places.arrays(), 32, registers, bits)


@public(order=_text, tile_k=count_of)
def metadata(rows: int, cols: int, *, order: str = "sm80", element_bits: int = 16, tile_k: int = 128) -> Places:
    """The metadata of a whole sparse A of `rows` x `cols` elements in memory, [rows, chunks]: "sm80" (CUTLASS's
    reorder_meta, as PyTorch stores it), "sm90", "sm100" (CUTLASS's TensorEAtom) or "row-major". `byte` and `bit` are
    those of the lowest of four bits, `k` is the chunk's first column, `one_to_one` says whether each chunk has a place
    of its own.

    >>> metadata(64, 128, order="sm90").byte[9, 5]
    np.int64(146)
    """
    places, size, one_to_one = _core.metadata_map(rows, cols, order, element_bits, tile_k)
    index = (("byte", 1, size), ("bit", 4, 2))
    return Places(places.cute, places.arrays(), index, bytes=size, one_to_one=one_to_one)._of(places)


@public(selector=count_of)
def tmem_metadata(
    m: int,
    k: int = 32,
    *,
    element_bits: int = 16,
    selector: int = 0,
    cta_group: int = 1,
    ws: bool = False,
    address: int = 0,
    copy: int = 0,
) -> Places:
    """The metadata of a sparse A of a tcgen05.mma in Tensor Memory, [M, chunks of K]. `selector` is the sparsity
    selector of the instruction descriptor; `copy` as in `tmem_a`."""
    arrays = _core.tmem_metadata_map(m, k, element_bits, selector, cta_group, ws, address).arrays()
    copies = arrays["lane"].shape[2] if arrays["lane"].ndim == 3 else 1
    if not 0 <= copy < copies:
        raise refuse("copy", str(copy), f"0..{copies - 1}")
    of_copy = {name: array[:, :, copy] if array.ndim == 3 else array for name, array in arrays.items()}
    return Places("", of_copy, (*_CELL, ("bit", 4, 8)), layout="")


@public(first=instruction_of, second=instruction_of)
def chain(first: str | Instruction, second: str | Instruction) -> dict[str, Any]:
    """D of one instruction as A of the next, as P in attention: a dict with "keeps_order", the order "column_of_k" in
    which A's k takes D's columns if every thread keeps its own elements (None if it cannot), the D elements of each of
    A's "registers", and how many elements are "exchanged" if k keeps its order.

    >>> mma = "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3"
    >>> chain(mma, mma)["column_of_k"][:8]
    [0, 1, 8, 9, 2, 3, 10, 11]
    """
    result: dict[str, Any] = _core.chain(first, second)
    return result


@public
def scales(rows: int, blocks: int) -> Places:
    """Block scales in the image of CUTLASS and cuBLAS: tiles of 128 rows and 4 blocks."""
    places, size = _core.scale_map(rows, blocks)
    return Places("", {"byte": places.arrays()["image_byte"]}, (("byte", 1, size),), bytes=size)._of(places)


class CuteLayout(Protocol):
    """A layout of pycute, of tensor_layouts or of CuTe's Python DSL: nested tuples of whole numbers."""

    @property
    def shape(self) -> Any: ...

    @property
    def stride(self) -> Any: ...


def _modes(modes: Any, field: str) -> str:
    """Nested tuples as CuTe prints them."""
    if isinstance(modes, (tuple, list)):
        return f"({','.join(_modes(mode, field) for mode in modes)})"
    return str(count_of(modes, field, 0, 2**63 - 1))


def _cute_text(value: Any, field: str) -> str | None:
    """A layout as text: text in CuTe's notation, or an object with shape and stride."""
    if value is None or isinstance(value, str):
        return text_of(value, field, "(8,16):(16,1)")
    if not hasattr(value, "shape") or not hasattr(value, "stride") or callable(value.stride):
        raise refuse(
            field,
            shown(value),
            "a layout in CuTe's notation, such as '(8,16):(16,1)', or an object with shape and stride",
        )
    if getattr(value, "swizzle", None) is not None:  # tensor_layouts prints CuTe's notation
        return str(value)
    return f"{_modes(value.shape, field)}:{_modes(value.stride, field)}"


@public(text=_cute_text)
def cute(text: str | CuteLayout, *, element_bits: int = 16) -> Places:
    """A layout in CuTe's notation: "Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))"; or a layout of pycute or another
    library, an object with shape and stride.

    >>> cute("(8,16):(16,1)").byte[1, 2]
    np.int64(36)
    """
    places = _core.cute_map(text, element_bits)
    arrays = places.arrays()
    size = int(arrays["byte"].max()) + places.width("byte") if arrays["byte"].size else 0
    return Places(places.cute, arrays, (("byte", 1, size),), bytes=size)._of(places)


@public(box_inner=count_of, box_outer=count_of)
def tma(
    rows: int,
    cols: int,
    *,
    swizzle: str = "128",
    element_bits: int = 16,
    major: str = "k",
    box_inner: int = 0,
    box_outer: int = 0,
    start: int = 0,
) -> Places:
    """A matrix as TMA writes it to shared memory: in boxes of a tensor map with this swizzle.

    >>> tma(8, 64).byte[1, 0]
    np.int64(144)
    """
    places = _core.tma_map(rows, cols, swizzle, element_bits, major, box_inner, box_outer, start)
    return Places("", places.arrays(), _BYTE)._of(places)


@public(bytes=count_of)
def bank_conflicts(addresses: Any, bytes: int = 4) -> tuple[int, int, list[int]]:
    """The number of wavefronts in which shared memory serves the byte addresses of a warp's threads, the number without
    conflicts, and the words per bank in the request whose maximum is largest.

    >>> bank_conflicts([128 * row for row in range(8)], 16)[:2]
    (8, 1)
    """
    wavefronts, requests, words = _core.bank_use(
        [count_of(address, "addresses", 0, 2**63 - 1) for address in np.asarray(addresses).reshape(-1)], bytes
    )
    return wavefronts, requests, words


@public(first=_cute_text, second=_cute_text)
def algebra(operation: str, first: str | CuteLayout, second: str | CuteLayout | None = None) -> str:
    """CuTe's layout algebra: composition, complement, coalesce, logical_divide, zipped_divide, tiled_divide,
    flat_divide, logical_product, zipped_product, tiled_product, flat_product, blocked_product, raked_product,
    right_inverse or left_inverse, of layouts as `cute` takes them. Returns CuTe's notation.

    >>> algebra("composition", "(6,2):(8,2)", "(4,3):(3,1)")
    '((2,2),3):((24,2),8)'
    """
    result: str = _core.layout_algebra(operation, first, second)
    return result


@public(text=_cute_text)
def offsets(text: str | CuteLayout) -> np.ndarray:
    """The offset of every index of a layout as `cute` takes them; swizzles act on offsets.

    >>> offsets("(2,3):(1,4)")
    array([0, 1, 4, 5, 8, 9])
    """
    return np.array(_core.layout_offsets(text), np.int64)


Modes: TypeAlias = "int | tuple[Modes, ...]"
"""Nested tuples of whole numbers."""


@public(text=_cute_text)
def shape_and_stride(text: str | CuteLayout) -> tuple[Modes, Modes]:
    """The nested tuples of a layout without a swizzle, from which other libraries make theirs:
    pycute.Layout(*shape_and_stride(text)). Raises Error for a layout with a swizzle.

    >>> shape_and_stride("((8,8),2):((1,16),8)")
    (((8, 8), 2), ((1, 16), 8))
    """
    layout = str(text)
    _core.layout_offsets(layout)  # refuses what is no layout
    shape, colon, stride = layout.replace("_", "").replace(" ", "").partition(":")
    if " o " in layout or not colon:
        fix = "pass what follows the o" if " o " in layout else "add strides"
        raise refuse("text", shown(layout), "a layout SHAPE:STRIDE without a swizzle", fix)
    return _parsed_modes(shape), _parsed_modes(stride)


def _parsed_modes(text: str) -> Modes:
    """Text of whole numbers in nested parentheses; (8) is a tuple of one mode."""
    modes: Modes = literal_eval(text.replace(")", ",)"))
    return modes


@public(case=_case)
def operand(case: Case, name: str) -> Places:
    """An operand of a case at the places where its instruction reads it: "a" [M, stored K], "b" [K, N], "c", "d" [M,
    N]."""
    if case.state is None:
        raise refuse("case", "logical matrices without a state", "a case with a state")
    arrays = _core.operand_map(case._value, name).arrays()
    if "byte" in arrays:
        return Places("", arrays, _BYTE)
    if "cta" in arrays:
        return Places("", arrays, _CELL, layout="")
    starts = np.unique(arrays["bit"])
    bits = int(np.diff(starts).min()) if starts.size > 1 else 32
    return _in_registers("", arrays, int(arrays["thread"].max()) + 1, int(arrays["register"].max()) + 1, bits)


__all__ = [
    "Places",
    "algebra",
    "bank_conflicts",
    "chain",
    "cute",
    "fragment",
    "fragment_svg",
    "ldmatrix",
    "ldst",
    "matrix_move",
    "metadata",
    "offsets",
    "operand",
    "scales",
    "shape_and_stride",
    "smem",
    "smem_svg",
    "tma",
    "tmem",
    "tmem_a",
    "tmem_metadata",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # checkers report such names themselves

    def __getattr__(name: str) -> Any:
        raise no_such_name(__name__, name, __all__)
