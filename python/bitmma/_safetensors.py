# SPDX-License-Identifier: MIT
"""Reads safetensors files in Python: captures, and what the tools recorded. The library reads those of instructions and products."""
from __future__ import annotations

import math
import os
import struct
from typing import Any

import ml_dtypes
import numpy as np

from ._errors import Error, refuse, shown
from ._json import parse_json

dtypes: dict[str, Any] = {
    "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64, "int8": np.int8,
    "uint8": np.uint8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "bool": np.bool_,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}  # fmt: skip
_stored = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "I8": "int8", "U8": "uint8", "I16": "int16",
           "I32": "int32", "I64": "int64", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}  # fmt: skip


def read_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata, and the tensors of these types as views of the file."""
    try:
        with open(path, "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            if size > 1 << 28:
                raise refuse(str(path), f"a header of {size} bytes", "safetensors")
            header = parse_json(file.read(size).decode(), str(path))
        about = header.pop("__metadata__", {})
        data = np.memmap(path, np.uint8, "r", 8 + size) if os.path.getsize(path) > 8 + size else np.zeros(0, np.uint8)
        found = {}
        for name, one in header.items():
            begin, end = one["data_offsets"]
            if one["dtype"] in _stored:
                dtype = np.dtype(dtypes[_stored[one["dtype"]]])
                if not 0 <= begin <= end <= len(data) or (end - begin) != math.prod(one["shape"]) * dtype.itemsize:
                    raise refuse(str(path), f"tensor {shown(name)} with places {begin} to {end}", "places inside of the file, of its shape")
                found[name] = data[begin:end].view(dtype).reshape(one["shape"])
        return about, found
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, Error):
            raise
        raise refuse(str(path), "not readable", "a safetensors file", str(error)) from None
