"""Where every element is, as integer arrays: (row, column) -> place, and back.

    places = bitmma.layout.fragment("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "a")
    places.thread[3, 5], places.register[3, 5]       who holds A(3, 5)
    places.back()[7, 2, 0]                           thread 7, register 2, first element -> (row, column)

Arrays of `back()` have the shape of the places and a last axis of two, row and column; -1 where nothing lives.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._core import Instruction
from ._errors import refuse
from ._mma import _parsed
from ._state import Case


def _inverse(shape: tuple[int, ...], index: tuple[np.ndarray, ...]) -> np.ndarray:
    """[*shape, axes of the matrix], -1 where no element lives. The first element wins where several share a place."""
    matrix = index[0].shape
    back = np.full((*shape, len(matrix)), -1, np.int64)
    coordinates = np.moveaxis(np.indices(matrix), 0, -1).reshape(-1, len(matrix))[::-1]
    back[tuple(axis.reshape(-1)[::-1] for axis in index)] = coordinates
    return back


class SmemPlaces(NamedTuple):
    """Arrays [rows, columns] of bytes in shared memory."""

    byte: np.ndarray
    bit: np.ndarray
    """Lowest bit of the element in its byte: 0 for elements of 8 bits and more."""
    unswizzled: np.ndarray
    """The byte before the swizzle acts on the address."""
    cute: str
    """The layout in CuTe's notation."""

    def back(self) -> np.ndarray:
        """[bytes, 2]: the element that begins in a byte."""
        size = int(self.byte.max()) + 1 if self.byte.size else 0
        return _inverse((size,), (self.byte,))


def smem(descriptor: int, rows: int, cols: int, *, element_bits: int = 16, major: str = "k",
         target: str = "sm_90a") -> SmemPlaces:
    """A matrix in shared memory, M or N by K, as a descriptor says it lies.

    >>> smem(0x4000004000010000, 64, 16).byte[9, 8]
    np.int64(1152)
    """
    byte, bit, unswizzled = _core.smem_places(descriptor, rows, cols, element_bits, major, target)
    return SmemPlaces(byte, bit, unswizzled, _core.smem_cute(descriptor, rows, cols, element_bits, major, target))


def smem_svg(descriptor: int, rows: int, cols: int, *, element_bits: int = 16, major: str = "k",
             target: str = "sm_90a", max_lines: int = 32) -> str:
    """The same as a picture: lines of 128 bytes, coloured by the place before the swizzle."""
    return _core.smem_svg(descriptor, rows, cols, element_bits, major, target, max_lines)


class RegisterPlaces(NamedTuple):
    """Arrays [rows, columns] of registers; of B of mma.sync [N, K]."""

    thread: np.ndarray
    register: np.ndarray
    bit: np.ndarray
    threads: int
    registers: int
    element_bits: int
    cute: str

    def back(self) -> np.ndarray:
        """[threads, registers, elements of a register, 2]."""
        slots = max(1, 32 // self.element_bits)
        return _inverse((self.threads, self.registers, slots),
                        (self.thread, self.register, self.bit // min(self.element_bits, 32)))


def fragment(instruction: str | Instruction, operand: str) -> RegisterPlaces:
    """An operand in registers: "a", "b", "c" or "d" of mma.sync, "a", "c" or "d" of wgmma."""
    one = _parsed(instruction) if isinstance(instruction, str) else instruction
    (thread, register, bit), threads, registers, bits, cute = _core.fragment_places(one, operand)
    return RegisterPlaces(thread, register, bit, threads, registers, bits, cute)


def fragment_svg(instruction: str | Instruction, operand: str, *, max_cols: int = 16) -> str:
    """The same as a picture."""
    one = _parsed(instruction) if isinstance(instruction, str) else instruction
    return _core.fragment_svg(one, operand, max_cols)


class TmemPlaces(NamedTuple):
    """Arrays [rows, columns] of cells of Tensor Memory."""

    cta: np.ndarray
    lane: np.ndarray
    column: np.ndarray
    bit: np.ndarray
    layout: str
    """PTX's letter of the data path layout."""
    cute: str

    def back(self) -> np.ndarray:
        """[CTAs, lanes, columns, 2]: the element whose lowest bit is in a cell."""
        columns = int(self.column.max()) + 1 if self.column.size else 0
        ctas = int(self.cta.max()) + 1 if self.cta.size else 1
        return _inverse((ctas, 128, columns), (self.cta, self.lane, self.column))


def tmem(m: int, n: int, *, cta_group: int = 1, ws: bool = False, sparse: bool = False,
         address: int = 0) -> TmemPlaces:
    """D of a tcgen05.mma, [M, N]."""
    letter, cute, (cta, lane, column, bit) = _core.tmem_d_places(m, n, cta_group, ws, sparse, address)
    return TmemPlaces(cta, lane, column, bit, letter, cute)


def tmem_a(m: int, k: int, *, element_bits: int = 16, cta_group: int = 1, ws: bool = False, sparse: bool = False,
           address: int = 0, copy: int = 0) -> TmemPlaces:
    """A of a tcgen05.mma in Tensor Memory, [M, stored K], in containers of `element_bits`; `copy` of layouts that need
    several."""
    cta, lane, column, bit = _core.tmem_a_places(m, k, element_bits, cta_group, ws, sparse, address, copy)
    return TmemPlaces(cta, lane, column, bit, "", "")


class CellPlaces(NamedTuple):
    """Arrays [threads, registers, halves] of lanes and columns, from the address on."""

    lane: np.ndarray
    column: np.ndarray

    def back(self) -> np.ndarray:
        """[lanes, columns, 3]: thread, register and half that hold a cell."""
        return _inverse((int(self.lane.max()) + 1, int(self.column.max()) + 1), (self.lane, self.column))


def ldst(shape: str, num: int = 1, *, pack_16b: bool = False) -> CellPlaces:
    """tcgen05.ld and .st of one warp: "32x32b", "16x64b", "16x128b", "16x256b" or "16x32bx2"."""
    return CellPlaces(*_core.ldst_places(shape, num, pack_16b))


class LdMatrixPlaces(NamedTuple):
    """Arrays [matrices, 8, 8] of registers."""

    thread: np.ndarray
    register: np.ndarray
    bit: np.ndarray

    def back(self) -> np.ndarray:
        """[32 threads, registers, halves, 3]: matrix, row, column."""
        return _inverse((32, self.register.shape[0], 2), (self.thread, self.register, self.bit // 16))


def ldmatrix(count: int = 4, *, transposed: bool = False, store: bool = False) -> LdMatrixPlaces:
    """ldmatrix and stmatrix of 8 x 8 matrices of 16 bits."""
    return LdMatrixPlaces(*_core.ldmatrix_places(count, transposed, store))


class BytePlaces(NamedTuple):
    """An array [rows, columns] of bytes in an image."""

    byte: np.ndarray
    bytes: int
    """Size of the image."""

    def back(self) -> np.ndarray:
        """[bytes, 2]."""
        return _inverse((self.bytes,), (self.byte,))


def scales(rows: int, blocks: int) -> BytePlaces:
    """Block scales in the image that CUTLASS and cuBLAS keep: tiles of 128 rows and 4 blocks."""
    size, (byte,) = _core.scale_places(rows, blocks)
    return BytePlaces(byte, size)


def cute(text: str, *, element_bits: int = 16) -> BytePlaces:
    """A layout in CuTe's notation: "Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))".

    >>> cute("(8,16):(16,1)").byte[1, 2]
    np.int64(36)
    """
    (byte,) = _core.cute_places(text, element_bits)
    return BytePlaces(byte, int(byte.max()) + max(1, element_bits // 8) if byte.size else 0)


def operand(case: Case, name: str) -> SmemPlaces | RegisterPlaces | TmemPlaces:
    """An operand of a case where its instruction finds it: "a" [M, stored K], "b" [K, N], "c" or "d" [M, N]."""
    if case.state is None:
        raise refuse("case", "logical matrices alone", "a case with a state")
    kind, (one, two, three, four) = _core.operand_places(case._value, name)
    if kind == "smem":
        return SmemPlaces(two, three, four, "")
    if kind == "registers":
        starts = np.unique(three)
        bits = int(np.diff(starts).min()) if starts.size > 1 else 32
        return RegisterPlaces(one, two, three, int(one.max()) + 1, int(two.max()) + 1, bits, "")
    return TmemPlaces(one, two, three, four, "", "")


__all__ = ["BytePlaces", "CellPlaces", "LdMatrixPlaces", "RegisterPlaces", "SmemPlaces", "TmemPlaces", "cute",
           "fragment", "fragment_svg", "ldmatrix", "ldst", "operand", "scales", "smem", "smem_svg", "tmem", "tmem_a"]
