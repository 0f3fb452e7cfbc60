# SPDX-License-Identifier: MIT
"""Reads safetensors files in Python: captures, and what the tools recorded. The library reads those of instructions and
products."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ._arguments import core as _core
from ._errors import Error, refuse, shown
from ._json import parse_json

dtypes: dict[str, Any] = {
    "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64,
    "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "bool": np.bool_,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}  # fmt: skip
_stored = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "I8": "int8", "U8": "uint8",
           "I16": "int16", "I32": "int32", "I64": "int64", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn",
           "F8_E5M2": "float8_e5m2"}  # fmt: skip


MOST_DIMENSIONS = 32
"""Of a tensor: NumPy's limit before 2.0."""


class StoredTensor(NamedTuple):
    """A tensor as the header describes it."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    bytes: int


class Tensors(Mapping[str, np.ndarray]):
    """The tensors of an open file, each of which is read on access. They are not mapped: if another process
    shortens a mapped file, a signal ends this one."""

    def __init__(self, path: str, file: int, about: dict[str, StoredTensor]):
        self.path, self._file, self.about = path, file, about
        self._opened = self._state()

    def __del__(self) -> None:
        os.close(self._file)

    def _state(self) -> tuple[int, int]:
        now = os.fstat(self._file)
        return now.st_size, now.st_mtime_ns

    def __getitem__(self, name: str) -> np.ndarray:
        stored = self.about[name]
        data, done = np.empty(stored.bytes, np.uint8), 0
        while done < stored.bytes:
            read = os.preadv(self._file, [data.data[done:]], stored.begin + done)
            if read == 0:
                break
            done += read
        if done < stored.bytes or self._state() != self._opened:
            raise refuse(
                self.path, "a file that another process changes", "a file that stays as it is while it is read"
            )
        return data.view(stored.dtype).reshape(stored.shape)

    def __contains__(self, name: object) -> bool:
        return name in self.about

    def __iter__(self) -> Iterator[str]:
        return iter(self.about)

    def __len__(self) -> int:
        return len(self.about)


def _whole_numbers(value: Any) -> list[int] | None:
    return value if isinstance(value, list) and all(type(number) is int for number in value) else None


def _stored_tensor(path: str, name: str, row: Any, begins: int, bytes: int) -> StoredTensor | None:
    """What a row of the header tells; None for a type that is not read. The data has so many `bytes`."""
    if not isinstance(row, dict) or not isinstance(row.get("dtype"), str):
        raise refuse(path, f"tensor {shown(name)} without a dtype", "a safetensors file")
    if row["dtype"] not in _stored:
        return None
    places, shape = _whole_numbers(row.get("data_offsets")), _whole_numbers(row.get("shape"))
    if places is None or len(places) != 2 or shape is None or min((0, *shape)) < 0:
        raise refuse(path, f"tensor {shown(name)} with places or extents that are no whole numbers", "whole numbers")
    (begin, end), dtype = places, np.dtype(dtypes[_stored[row["dtype"]]])
    if not 0 <= begin <= end <= bytes or end - begin != math.prod(shape) * dtype.itemsize:
        raise refuse(
            path, f"tensor {shown(name)} with places {shown(begin)} to {shown(end)}", "places in the file, of its shape"
        )
    if len(shape) > MOST_DIMENSIONS or max((0, *shape)) >= 2**40:
        raise refuse(path, f"tensor {shown(name)} with extents {shown(shape)}", f"at most {MOST_DIMENSIONS} extents")
    return StoredTensor(dtype, tuple(shape), begins + begin, end - begin)


def read_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, str], Tensors]:
    """The metadata, and the tensors of these types."""
    path = os.fspath(path)
    try:
        file = os.open(_core.located(path), os.O_RDONLY | os.O_CLOEXEC)
        tensors = Tensors(path, file, {})
        whole = os.fstat(file).st_size
        head = os.pread(file, 8, 0)
        size = int.from_bytes(head, "little")
        if len(head) < 8 or size > min(1 << 28, whole - 8):
            raise refuse(path, f"a file of {whole} bytes with a header of {size}", "a safetensors file")
        header = parse_json(os.pread(file, size, 8), path)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    if not isinstance(header, dict):
        raise refuse(path, f"a header that is {shown(header)}", "a safetensors file")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise refuse(path, f"metadata {shown(metadata)}", "a safetensors file")
    for name, row in header.items():
        if (stored := _stored_tensor(path, name, row, 8 + size, whole - 8 - size)) is not None:
            tensors.about[name] = stored
    return metadata, tensors
