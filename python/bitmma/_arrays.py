"""Arrays of other libraries as codes, and back: NumPy with ml_dtypes, torch, JAX, DLPack.

    format   f16      bf16      tf32, f32  f64      e4m3           e5m2         e2m3 ..   e2m1             s8    s32
    dtype    float16  bfloat16  float32    float64  float8_e4m3fn  float8_e5m2  float6_*  float4_e2m1fn    int8  int32

Raw codes are unsigned integers of the same width: an array of uint16 where an instruction asks for f16. Where nothing
asks for a format, `codes(array, "e4m3")` says it.
"""
from __future__ import annotations

import sys
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from . import _core
from ._errors import near, refuse

# Bytes of a code, as the library counts them.
code_bytes: dict[str, int] = {name: size for name, _, size in _core.formats()}
_raw = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}

# Natural dtypes, the first of each is what results have.
_natural: dict[str, list[Any]] = {
    "f16": [np.float16],
    "bf16": [ml_dtypes.bfloat16],
    "tf32": [np.float32],
    "f32": [np.float32],
    "f64": [np.float64],
    "e4m3": [ml_dtypes.float8_e4m3fn],
    "e5m2": [ml_dtypes.float8_e5m2],
    "e2m3": [ml_dtypes.float6_e2m3fn],
    "e3m2": [ml_dtypes.float6_e3m2fn],
    "e2m1": [ml_dtypes.float4_e2m1fn],
    "ue8m0": [ml_dtypes.float8_e8m0fnu],
    "ue4m3": [ml_dtypes.float8_e4m3fn],
    "s8": [np.int8],
    "u8": [np.uint8],
    "s4": [ml_dtypes.int4, np.int8],
    "u4": [ml_dtypes.uint4, np.uint8],
    "b1": [np.bool_, np.uint8],
    "s32": [np.int32],
    "u32": [np.uint32],
    "ue5m3": [np.uint8],
    "s1z4m11": [np.uint16],
}
_dtypes = {name: np.dtype(kinds[0]) for name, kinds in _natural.items()}

# dtype -> how to see its codes, by format. Dtypes that the buffer protocol knows need no view.
_views: dict[str, dict[Any, Any]] = {}
for _name, _kinds in _natural.items():
    _views[_name] = {np.dtype(kind): _raw[code_bytes[_name]] for kind in _kinds}
    if _name not in ("s8", "s32"):  # unsigned integers would be taken for numbers
        _views[_name][_raw[code_bytes[_name]]] = None

_format_of_dtype = {np.dtype(kinds[0]): name for name, kinds in _natural.items()
                    if name not in ("f32", "ue4m3", "u8", "u32", "b1", "ue5m3", "s1z4m11")}
_format_of_dtype[np.dtype(np.float32)] = "tf32"
_format_of_dtype[np.dtype(np.uint8)] = "u8"
_format_of_dtype[np.dtype(np.bool_)] = "b1"


# What other libraries call the formats.
_aliases = {"fp16": "f16", "half": "f16", "fp32": "f32", "fp64": "f64", "fp8e4m3": "e4m3", "fp8e5m2": "e5m2",
            "fp8e4nv": "e4m3", "fp8e5": "e5m2", "e8m0": "ue8m0", "float32": "f32", "uint32": "u32", "bool": "b1"}


def format_named(format: Any) -> str:
    """A format by its PTX name, by a dtype or by the name that another library has for it."""
    if isinstance(format, str) and format in _dtypes:
        return format
    name = format.lower() if isinstance(format, str) else ""
    if name in _aliases:
        return _aliases[name]
    try:
        dtype = np.dtype(getattr(ml_dtypes, name, format) if name else format)
    except TypeError:
        dtype = None
    if dtype is not None and dtype in _format_of_dtype:
        return "f32" if dtype == np.float32 else _format_of_dtype[dtype]
    raise refuse("format", repr(format), ", ".join(_dtypes), near(name, _dtypes))


def dtype_of(format: str) -> np.dtype:
    """The dtype of arrays of a format: "bf16" -> ml_dtypes.bfloat16.

    >>> dtype_of("e4m3")
    dtype(float8_e4m3fn)
    """
    return _dtypes[format_named(format)]


def format_of(array: Any) -> str:
    """The format of an array's dtype; float32 is "tf32", as operands of matrix instructions are.

    >>> format_of(np.zeros(3, np.float16))
    'f16'
    """
    if isinstance(array, Codes):
        return array.format
    dtype = to_numpy(array, "array").dtype
    found = _format_of_dtype.get(dtype)
    if found is None:
        raise refuse("dtype", dtype, ", ".join(str(known) for known in _format_of_dtype), _hint(dtype))
    return found


def _hint(dtype: np.dtype) -> str:
    """What to do about an array that has no format."""
    if not dtype.isnative:
        return "big-endian: array.astype(array.dtype.newbyteorder('=')) changes the order of bytes"
    if dtype.kind == "V" and dtype.itemsize in (1, 2):
        kind = "bfloat16" if dtype.itemsize == 2 else "float8_e4m3fn"
        return f"np.save forgets these types: array.view(ml_dtypes.{kind}), or the one that it was"
    if "fnuz" in str(dtype) or str(dtype) in ("float8_e4m3", "float8_e4m3b11fnuz", "float8_e3m4"):
        return "NVIDIA's e4m3 is float8_e4m3fn, e5m2 is float8_e5m2"
    return "raw codes say their format: bitmma.codes(array, \"bf16\")"


class Codes(NamedTuple):
    """Raw codes with the format that gives them meaning."""

    array: np.ndarray
    format: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def T(self) -> Codes:
        return Codes(self.array.T, self.format)


def codes(array: Any, format: str) -> Codes:
    """Raw codes, an array of unsigned integers of the format's width, as an operand.

    `array` has any shape. The bits above the format's are ignored. Raises Error when the width is another. It looks at
    the array; one of Dask is left as it is by `Codes(array, format)`.

    >>> codes(np.array([0x38, 0x40], np.uint8), "e4m3").format
    'e4m3'
    """
    format = format_named(format)
    array = to_numpy(array, "codes")
    size = code_bytes[format]
    if array.dtype.kind not in "iubV" or array.dtype.itemsize != size or array.dtype.names:
        raise refuse("codes", array.dtype, f"{_raw[size]}, raw codes of {format}")
    return Codes(_native(array, "codes").view(_raw[size]), format)


def _native(array: np.ndarray, name: str) -> Any:
    """The array itself; Error where its bytes are in the other order."""
    if array.dtype.isnative:
        return array
    raise refuse(name, f"{array.dtype.str}, big-endian", "this machine's order of bytes",
                 "array.astype(array.dtype.newbyteorder('='))")


_torch_formats = {
    "float16": "f16", "bfloat16": "bf16", "float32": "tf32", "float64": "f64", "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2", "float8_e8m0fnu": "ue8m0", "int8": "s8", "uint8": "u8", "int32": "s32", "bool": "b1",
}


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _torch_to_numpy(tensor: Any) -> np.ndarray:
    """The same memory where it is on the CPU. Types that NumPy lacks go as codes."""
    torch = sys.modules["torch"]
    name = str(tensor.dtype).removeprefix("torch.")
    tensor = tensor.detach().cpu()
    format = _torch_formats.get(name)
    if format is None:
        raise refuse("torch dtype", name, ", ".join(_torch_formats),
                     "packed types go as codes: bitmma.codes(tensor.view(torch.uint8).numpy(), \"e2m1\"), one a byte")
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
        return tensor.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy().view(_dtypes[format])
    return tensor.numpy()


def to_numpy(value: Any, name: str) -> np.ndarray:
    """Any array as NumPy's, without a copy where that can be."""
    if isinstance(value, np.ma.MaskedArray):
        raise refuse(name, "a masked array", "an array without a mask", "array.filled(0), or what is meant")
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Codes):
        return value.array
    if _is_torch(value):
        return _torch_to_numpy(value)
    if hasattr(value, "__array__"):  # JAX's arrays have ml_dtypes here
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, TypeError, RuntimeError) as error:
            raise refuse(name, type(value).__name__, "an array that NumPy can read through DLPack", str(error)) from None
    if isinstance(value, (list, tuple, int, float)):
        raise refuse(name, type(value).__name__, "an array with a dtype",
                     "np.array(values, np.float16), for example: the format of the codes comes from the dtype")
    raise refuse(name, type(value).__name__, "a NumPy array, a torch tensor, an array of JAX or an object with DLPack")


def codes_as(value: Any, format: str, name: str) -> np.ndarray:
    """The codes of `value`, which must be of `format`, as an array that the buffer protocol knows."""
    if type(value) is not np.ndarray:
        if isinstance(value, Codes):
            if value.format != format and not {value.format, format} <= {"f32", "tf32"}:
                raise refuse(name, f"codes of {value.format}", f"{format}")
            return value.array
        value = to_numpy(value, name)
    views = _views[format]
    dtype = value.dtype
    if dtype in views:
        view = views[dtype]
        if format in _narrow:
            _require_range(value, format, name)
        return value if view is None else value.view(view)
    fix = _hint(dtype) if not dtype.isnative or dtype.kind == "V" else ""
    if not fix and dtype.kind == "i" and dtype.itemsize == code_bytes[format]:
        fix = f'if these are codes: bitmma.codes(array, "{format}")'
    if not fix and dtype.kind == "f":
        fix = f"array.astype({_dtypes[format]})" + (" rounds" if dtype.itemsize > code_bytes[format] else "")
    raise refuse(name, dtype, " or ".join(str(one) for one in views) + f", for {format}", fix)


_narrow = {"s4": (-8, 7), "u4": (0, 15)}


def _require_range(array: np.ndarray, format: str, name: str) -> None:
    """Numbers of 4 bits in a wider dtype must be such numbers."""
    if array.dtype.itemsize != 1 or array.dtype.kind not in "iu" or array.size == 0:
        return
    low, high = _narrow[format]
    if array.dtype.kind == "u" and format == "s4":
        low, high = 0, 15  # raw codes
    least, most = int(array.min()), int(array.max())
    if least < low or most > high:
        raise refuse(name, f"numbers from {least} to {most}", f"{low}..{high}, for {format}")


def matrix(value: Any, name: str, *, is_input: bool = False, format: str | None = None) -> tuple[str, np.ndarray] | None:
    """(format, codes) of a matrix of two axes, for whole products. float32 is tf32 where it is an input of A or B."""
    if value is None:
        return None
    if isinstance(value, Codes):
        return (format_named(value.format), _native(to_numpy(value.array, name), name))
    array = to_numpy(value, name)
    if format is None:
        format = format_of(array)
        if format == "tf32" and not is_input:
            format = "f32"
    return (format, codes_as(array, format, name))


def like(reference: Any, array: np.ndarray) -> Any:
    """`array` as the library of `reference` has it: a torch tensor for a torch tensor, else as it is."""
    if not _is_torch(reference):
        return array
    torch = sys.modules["torch"]
    names = {np.dtype(_dtypes[format]): name for name, format in _torch_formats.items()}
    name = "float32" if array.dtype == np.float32 else names.get(array.dtype)
    if name is None or not hasattr(torch, name):
        return array
    if array.dtype.kind == "V" or name.startswith(("bfloat", "float8")):
        raw = array.view(np.int16 if name == "bfloat16" else np.uint8)
        return torch.from_numpy(raw).view(getattr(torch, name))
    return torch.from_numpy(array)
