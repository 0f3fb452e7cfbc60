# SPDX-License-Identifier: MIT
"""Structured sparsity: pruning, the stored form of a sparse A with its metadata, and back."""

from __future__ import annotations

from typing import Any, NamedTuple, cast, overload

import numpy as np

from . import _core
from ._arguments import public, text
from ._arrays import Codes, dtype_of, like, matrix, to_numpy
from ._errors import refuse
from ._types import JaxArray, Tensor

_FOUR_BITS = ("e2m1", "s4", "u4")


class Compressed(NamedTuple):
    """The stored form of a sparse matrix [M, K]."""

    values: Any
    """[M, K / 2]: the stored elements, in the type of the matrix."""
    metadata: np.ndarray
    """uint8 [M, chunks]: four bits for every chunk of a row, as `bitmma.mma` takes them."""
    pattern: str
    """"1:2", "2:4" or "4:8"."""

    def packed(self, order: str = "sm80", *, tile_k: int = 128) -> np.ndarray:
        """The bytes of the metadata in a library's order: "sm80" (CUTLASS, PyTorch), "sm90" or "sm100" (CUTLASS), or
        "row-major". `tile_k`: for sm90, K of the kernel's tile. Raises Error for sizes that the order does not map
        one-to-one."""
        packed = _core.pack_metadata(
            np.ascontiguousarray(self.metadata), order, _container_bits(self.pattern, self.values), tile_k
        )
        return cast(np.ndarray, packed)


def _container_bits(pattern: str, values: Any) -> int:
    """The width whose orders hold this pattern: 2:4 of 8 and of 16 bits differ."""
    if pattern != "2:4":
        return 32 if pattern == "1:2" else 4
    format, _ = matrix(values, "values")
    return 8 if dtype_of(format).itemsize == 1 else 16


def _pattern_of(format: str, pattern: str | None) -> str:
    if pattern is not None:
        return pattern
    return "4:8" if format in _FOUR_BITS else "1:2" if dtype_of(format).itemsize == 4 else "2:4"


def _like(a: Any, codes: Any, format: str) -> Any:
    return Codes(codes, format) if isinstance(a, Codes) else like((a,), codes.view(dtype_of(format)))


@overload
def prune_2_4(a: Codes, *, pattern: str | None = ...) -> Codes: ...
@overload
def prune_2_4(a: np.ndarray | JaxArray, *, pattern: str | None = ...) -> np.ndarray: ...
@overload
def prune_2_4(a: Tensor, *, pattern: str | None = ...) -> Tensor: ...
@public(pattern=text)
def prune_2_4(a: Any, *, pattern: str | None = None) -> Any:
    """The matrix [M, K] with zeros for all but the largest magnitudes of each chunk along K; of equal ones the first
    stay. `pattern`: "2:4", "1:2" (the default of 32-bit types) or "4:8" (of 4-bit types: two of four pairs).

    >>> prune_2_4(np.array([[1, -3, 2, 0]], np.float16))
    array([[ 0., -3.,  2.,  0.]], dtype=float16)
    """
    format, raw = matrix(a, "a")
    return _like(a, _core.prune((format, raw), _pattern_of(format, pattern)), format)


@public(pattern=text, fill=text)
def compress(a: Any, *, fill: str = "cutlass", pattern: str | None = None) -> Compressed:
    """The stored elements and the metadata of a matrix [M, K] that is already sparse. Libraries differ in chunks with
    fewer non-zero elements than they store: `fill` is "cutlass" (its compressor for sm_90 and later), "pytorch"
    (torch.sparse.to_sparse_semi_structured) or "lowest" (the lowest free positions, as bitmma.mma fills them). Raises
    Error for a chunk with too many non-zero elements: `prune_2_4` makes it sparse. `pattern` as there.

    >>> values, metadata, pattern = compress(np.array([[0, 5, 0, -3]], np.float16))
    >>> values, f"{metadata[0, 0]:04b}", pattern
    (array([[ 5., -3.]], dtype=float16), '1101', '2:4')
    """
    format, raw = matrix(a, "a")
    pattern = _pattern_of(format, pattern)
    values, metadata = _core.compress((format, raw), pattern, fill)
    return Compressed(_like(a, values, format), metadata.reshape(raw.shape[0], -1), pattern)


@overload
def decompress(
    values: Codes, metadata: Any, *, order: str | None = ..., tile_k: int = ..., pattern: str | None = ...
) -> Codes: ...
@overload
def decompress(
    values: np.ndarray | JaxArray,
    metadata: Any,
    *,
    order: str | None = ...,
    tile_k: int = ...,
    pattern: str | None = ...,
) -> np.ndarray: ...
@overload
def decompress(
    values: Tensor, metadata: Any, *, order: str | None = ..., tile_k: int = ..., pattern: str | None = ...
) -> Tensor: ...
@public(pattern=text, order=text)
def decompress(
    values: Any, metadata: Any, *, order: str | None = None, tile_k: int = 128, pattern: str | None = None
) -> Any:
    """The matrix [M, K] of stored values [M, K / 2]. `metadata` has four bits for every chunk, uint8 [M, chunks]; with
    `order` it is a library's image of any shape and type, such as the int16 matrix of PyTorch with "sm80".

    >>> decompress(np.array([[5, -3]], np.float16), np.array([[0b1101]], np.uint8))
    array([[ 0.,  5.,  0., -3.]], dtype=float16)
    """
    format, raw = matrix(values, "values")
    pattern = _pattern_of(format, pattern)
    nibbles: Any = np.ascontiguousarray(to_numpy(metadata, "metadata"))
    if order is not None:
        nibbles = _core.unpack_metadata(
            nibbles.reshape(-1).view(np.uint8),
            raw.shape[0],
            2 * raw.shape[1],
            order,
            _container_bits(pattern, values),
            tile_k,
        )
    elif nibbles.dtype != np.uint8:
        raise refuse("metadata", nibbles.dtype, "uint8, four bits a chunk, or an order")
    return _like(values, _core.decompress((format, raw), nibbles, pattern), format)
