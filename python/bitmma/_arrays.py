# SPDX-License-Identifier: MIT
"""Converts arrays of other libraries to codes and back: NumPy with ml_dtypes, torch, JAX, DLPack.

    format   f16      bf16      tf32, f32  f64      e4m3           e5m2         e2m3 ..   e2m1             s8    s32
    dtype    float16  bfloat16  float32    float64  float8_e4m3fn  float8_e5m2  float6_*  float4_e2m1fn    int8  int32

Raw codes are unsigned integers of the same width: an array of uint16 if an instruction expects f16. If no format is
expected, `codes(array, "e4m3")` sets it.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, overload

import ml_dtypes
import numpy as np

from . import _core
from ._arguments import public
from ._errors import near, refuse, shown
from ._types import NumPyMatrix, Tensor

# Bytes of a code, as the library counts them.
code_bytes: dict[str, int] = {name: size for name, _, size in _core.formats()}
_raw = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}

# Natural dtypes; results have the first one of each format.
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
_dtypes: dict[str, np.dtype[Any]] = {name: np.dtype(kinds[0]) for name, kinds in _natural.items()}

# dtype -> how to view its codes, by format. Dtypes of the buffer protocol need no view.
_views: dict[str, dict[Any, Any]] = {}
for _name, _kinds in _natural.items():
    _views[_name] = {np.dtype(kind): _raw[code_bytes[_name]] for kind in _kinds}
    if _name not in ("s8", "s32"):  # unsigned integers would be taken for numbers
        _views[_name][_raw[code_bytes[_name]]] = None

_format_of_dtype = {
    np.dtype(kinds[0]): name
    for name, kinds in _natural.items()
    if name not in ("f32", "ue4m3", "u8", "u32", "b1", "ue5m3", "s1z4m11")
}
_format_of_dtype[np.dtype(np.float32)] = "tf32"
_format_of_dtype[np.dtype(np.uint8)] = "u8"
_format_of_dtype[np.dtype(np.bool_)] = "b1"


# The names of formats in other libraries.
_aliases = {
    "fp16": "f16",
    "half": "f16",
    "fp32": "f32",
    "fp64": "f64",
    "fp8e4m3": "e4m3",
    "fp8e5m2": "e5m2",
    "fp8e4nv": "e4m3",
    "fp8e5": "e5m2",
    "e8m0": "ue8m0",
    "float32": "f32",
    "uint32": "u32",
    "bool": "b1",
}


# Names of several formats.
_families = {
    "fp8": "fp8 is e4m3 or e5m2",
    "float8": "float8 is e4m3 or e5m2",
    "fp6": "fp6 is e2m3 or e3m2",
    "fp4": "fp4 is e2m1",
    "nvfp4": "nvfp4 is e2m1 with scales in ue4m3",
    "mxfp4": "mxfp4 is e2m1 with scales in ue8m0",
    "mxfp8": "mxfp8 is e4m3 or e5m2 with scales in ue8m0",
}


def format_named(format: Any, field: str = "format") -> str:
    """The format with this PTX name, or of this dtype (or dtype name) of NumPy, ml_dtypes, torch or JAX."""
    if isinstance(format, str) and format in _dtypes:
        return format
    # torch's dtypes are recognised by name, so that torch need not be installed.
    is_torch = type(format).__module__.split(".")[0] == "torch"
    name = str(format).lower().rpartition(".")[2] if isinstance(format, str) or is_torch else ""
    if name in _dtypes:
        return name
    if name in _aliases or name in _torch_packed:
        return _aliases.get(name) or _torch_packed[name]
    if is_torch and name not in _torch_formats:
        raise refuse(field, shown(format), ", ".join(f"torch.{known}" for known in (*_torch_formats, *_torch_packed)))
    try:
        # JAX's scalar types carry their dtype, classes of NumPy a descriptor; None would be float64.
        own = getattr(format, "dtype", None)
        kind = getattr(ml_dtypes, name, name) if name else own if isinstance(own, np.dtype) else format
        dtype = None if kind is None else np.dtype(kind)
    except (TypeError, ValueError):
        dtype = None
    if dtype is not None and dtype in _format_of_dtype:
        return "f32" if dtype == np.float32 else _format_of_dtype[dtype]
    fix = _families.get(name) or near(name, [*_dtypes, *_aliases])
    raise refuse(field, shown(format), ", ".join(_dtypes), fix, code="unknown_name")


@public
def dtype_of(format: Any) -> np.dtype:
    """The dtype of arrays of a format: "bf16" -> ml_dtypes.bfloat16.

    >>> dtype_of("e4m3")
    dtype(float8_e4m3fn)
    """
    return _dtypes[format_named(format)]


@public
def format_of(array: Any) -> str:
    """The format of an array's dtype; float32 is "tf32", as in operands of matrix instructions.

    >>> format_of(np.zeros(3, np.float16))
    'f16'
    """
    if isinstance(array, Codes):
        return array.format
    dtype = to_numpy(array, "array").dtype
    format = _format_of_dtype.get(dtype)
    if format is None:
        raise refuse("dtype", dtype, ", ".join(str(known) for known in _format_of_dtype), _hint(dtype))
    return format


def _hint(dtype: np.dtype) -> str:
    """A hint for an array without a format."""
    if not dtype.isnative:
        return "big-endian: array.astype(array.dtype.newbyteorder('=')) changes the order of bytes"
    if remedy := _array_remedy(dtype):
        return remedy
    if dtype.type is np.void and dtype.itemsize in (1, 2):
        kind = "bfloat16" if dtype.itemsize == 2 else "float8_e4m3fn"
        return f"np.save loses these types: use array.view(ml_dtypes.{kind}), or the original type"
    if dtype.kind in "iu":
        return 'convert numbers: array.astype(np.int8); name the format of raw codes: bitmma.codes(array, "bf16")'
    return 'name the format of raw codes: bitmma.codes(array, "bf16")'


# Types of 8 bits that NVIDIA's tensor cores lack: the nearest one that they have, and why a view would be wrong.
_other_float8 = {
    "float8_e4m3fnuz": ("float8_e4m3fn", "its exponents have the bias 8, not 7"),
    "float8_e5m2fnuz": ("float8_e5m2", "its exponents have the bias 16, not 15"),
    "float8_e4m3b11fnuz": ("float8_e4m3fn", "its exponents have the bias 11, not 7"),
    "float8_e4m3": ("float8_e4m3fn", "its largest codes are infinities and NaN, not 256 to 448"),
    "float8_e3m4": ("float8_e4m3fn", "its codes have 3 bits of exponent and 4 of mantissa"),
}


def _remedy_of_float8(name: str, rounds: str, keeps: str) -> str:
    """How to convert: by values, as the same codes mean other numbers. `rounds` is the prefix of the call that converts
    to the nearest type, `keeps` the call that keeps all values. Empty for other types."""
    if name not in _other_float8:
        return ""
    nearest, reason = _other_float8[name]
    return (
        f"the codes mean other numbers ({reason}): {rounds}{nearest}) converts the values and rounds those that it "
        f"lacks, {keeps} keeps all"
    )


def _array_remedy(dtype: np.dtype) -> str:
    return _remedy_of_float8(str(dtype), "array.astype(ml_dtypes.", "array.astype(np.float16)")


class Codes(NamedTuple):
    """Raw codes with their format."""

    array: np.ndarray
    format: str

    def __repr__(self) -> str:
        return f"Codes({self.format} {list(np.shape(self.array))})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def T(self) -> Codes:
        return Codes(self.array.T, self.format)


@public
def codes(array: Any, format: Any, *, packed: bool = False) -> Codes:
    """Raw codes, an array of unsigned integers of the format's width, as an operand.

    `array` has any shape. Raises Error if the width differs, if the array's dtype is that of another format, and
    for e2m1, e2m3 and e3m2 if a byte has bits above those of the format. The check reads the array; pass
    a Dask array as `Codes(array, format)` to leave it lazy.

    With `packed`, each byte holds two 4-bit codes along the last axis, the first in the low bits, as in
    torch.float4_e2m1fn_x2 and NVFP4 checkpoints: [..., K / 2] bytes become a new array of [..., K] codes.

    >>> codes(np.array([0x38, 0x40], np.uint8), "e4m3").format
    'e4m3'
    >>> codes(np.array([[0x21, 0x43]], np.uint8), "e2m1", packed=True).array
    array([[1, 2, 3, 4]], dtype=uint8)
    """
    format = format_named(format)
    array = to_numpy(array, "codes")
    if packed:
        return _unpacked(array, format)
    size = code_bytes[format]
    if array.dtype.kind not in "iubV" or array.dtype.itemsize != size or array.dtype.names:
        raise refuse("codes", array.dtype, f"{_raw[size]}, raw codes of {format}", _array_remedy(array.dtype))
    if array.dtype.kind == "V" and array.dtype.type is not np.void and array.dtype != _dtypes.get(format):
        raise refuse("codes", array.dtype, f"{_raw[size]}, or the dtype of {format}", _array_remedy(array.dtype))
    if format in _below_a_byte and array.dtype.kind in "iu" and (array.view(np.uint8) >> _below_a_byte[format]).any():
        raise refuse(
            "codes",
            "bits above those of the format",
            f"codes of {_below_a_byte[format]} bits, one per byte",
            "use packed=True for two codes per byte" if format == "e2m1" else "",
        )
    return Codes(_native(array, "codes").view(_raw[size]), format)


_below_a_byte = {"e2m1": 4, "e2m3": 6, "e3m2": 6}


def _unpacked(array: np.ndarray, format: str) -> Codes:
    if format not in ("e2m1", "s4", "u4"):
        raise refuse("packed", format, "e2m1, s4 or u4, which have two codes per byte")
    if array.dtype in (_dtypes["e2m1"], _dtypes["s4"], _dtypes["u4"]):
        raise refuse("packed", array.dtype, "bytes of two codes", "this array has one code per element: omit packed")
    if array.dtype.itemsize != 1 or array.dtype.kind not in "iuV" or array.ndim == 0:
        raise refuse("codes", array.dtype, "uint8, with two codes per byte")
    if array.ndim > 1 and array.shape[-1] > 1 and array.strides[-1] != 1:
        raise refuse(
            "codes",
            f"strides {array.strides}",
            "bytes that are contiguous along the last axis",
            'pairs lie along K: use bitmma.codes(w, "e2m1", packed=True).T, not codes of w.T',
        )
    return Codes(_pairs(array.view(np.uint8), -1), format)


def _pairs(array: np.ndarray, axis: int) -> np.ndarray:
    """Unpacks two codes from every byte, the low one first, along `axis`."""
    shape = list(array.shape)
    shape[axis] *= 2
    axis %= array.ndim
    return np.stack([array & 15, array >> 4], axis + 1).reshape(shape)


class Tiled(NamedTuple):
    """Block scales in the order of cuBLAS and CUTLASS: tiles of 128 rows and 4 blocks of K."""

    array: np.ndarray
    """The image, as bytes."""
    format: str

    def __repr__(self) -> str:
        return f"Tiled({self.format}, {self.array.size} bytes)"

    @public
    def scales(self, rows: int, blocks: int) -> Codes:
        """Codes of [rows, blocks] scales in row-major order. Raises Error if the image has another size."""
        where, size = _core.scale_map(rows, blocks)
        if self.array.size != size:
            raise refuse(
                "scales",
                f"{self.array.size} bytes in tiles",
                f"{size}: whole tiles of 128 x 4 for {rows} rows and {blocks} blocks",
            )
        return Codes(self.array[where.arrays()["image_byte"]], self.format)

    @public(name=lambda value, field: value)
    def scales_of(self, name: str, rows: int, k: int) -> Codes:
        """The same as sfa or sfb of a product, by its M or N and K: a block has 32 elements, or 16."""
        fitting = [
            k // size
            for size in (16, 32)
            if k % size == 0 and -(-rows // 128) * 128 * -(-(k // size) // 4) * 4 == self.array.size
        ]
        if not fitting:
            raise refuse(
                name,
                f"{self.array.size} bytes in tiles",
                f"tiles of 128 x 4 for {rows} rows and {k} / 16 or {k} / 32 blocks",
            )
        if len(fitting) == 2:  # so small a K that both fill the same tiles
            fitting = fitting[:1] if self.format == "ue4m3" else fitting[1:]
        scales = self.scales(rows, fitting[0])
        return scales.T if name.endswith("b") else scales


def _scale_format(array: Any, format: Any) -> str:
    if format is not None:
        return format_named(format)
    known = format_of(array)
    known = "ue4m3" if known == "e4m3" else known  # their sign counts nothing
    if known not in ("ue8m0", "ue4m3"):
        raise refuse(
            "scales", known, "float8_e8m0fnu or float8_e4m3fn", 'name the format of raw bytes: "ue8m0" or "ue4m3"'
        )
    return known


@public
def tiled(scales: Any, format: Any = None) -> Tiled:
    """Block scales in tiles of 128 x 4, for `sfa` and `sfb` of gemm and `scale_a` and `scale_b` of mma.

    `scales` is the image for cuBLAS, CUTLASS and torch.nn.functional.scaled_mm, in any shape. Its dtype gives the
    format; for raw bytes `format` does: "ue8m0" or "ue4m3". Both operands have rows (M, or N) by blocks.
    `tiled(image).scales(rows, blocks)` returns the scales in row-major order; `tile` is the inverse.

    >>> image = tile(np.full((128, 4), 127, np.uint8))
    >>> tiled(image, "ue8m0").scales(128, 4).shape
    (128, 4)
    """
    of = _scale_format(scales, format)
    array = np.ascontiguousarray(scales.array if isinstance(scales, Codes) else to_numpy(scales, "scales"))
    if array.dtype.itemsize != 1:
        raise refuse("scales", array.dtype, f"bytes, codes of {of}")
    return Tiled(array.view(np.uint8).reshape(-1), of)


@overload
def tile(scales: NumPyMatrix) -> np.ndarray: ...
@overload
def tile(scales: Tensor) -> Tensor: ...
@public
def tile(scales: Any) -> Any:
    """Arranges block scales [rows, blocks] of A, or the transposed ones of B, as an image in tiles of 128 x 4: bytes,
    with zeros in the unused part of tiles; a torch tensor if the scales are one.

    >>> tile(np.ones((1, 1), np.uint8)).shape
    (512,)
    """
    array = scales.array if isinstance(scales, Codes) else to_numpy(scales, "scales")
    if array.ndim != 2 or array.dtype.itemsize != 1:
        raise refuse("scales", f"{array.dtype} of shape {array.shape}", "[rows, blocks] of bytes, or of 8-bit floats")
    where, size = _core.scale_map(*array.shape)
    image = np.zeros(size, np.uint8)
    image[where.arrays()["image_byte"]] = np.ascontiguousarray(array).view(np.uint8)
    return like((scales,), image)


def _native(array: np.ndarray, name: str) -> Any:
    """Returns the array itself; raises Error if its byte order is not native."""
    if array.dtype.isnative:
        return array
    raise refuse(
        name,
        f"{array.dtype.str}, big-endian",
        "this machine's order of bytes",
        "array.astype(array.dtype.newbyteorder('='))",
    )


_torch_formats = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "tf32",
    "float64": "f64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float8_e8m0fnu": "ue8m0",
    "int8": "s8",
    "uint8": "u8",
    "int32": "s32",
    "bool": "b1",
}
_torch_packed = {"float4_e2m1fn_x2": "e2m1"}  # two a byte


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def require_memory_of(tensor: Any, name: str) -> None:
    """A torch tensor whose elements are in memory that it owns or shares."""
    torch = sys.modules["torch"]
    if not hasattr(tensor, "untyped_storage"):
        raise refuse(name, f"a tensor of torch {torch.__version__}", "torch 2.0 or newer", "or pass tensor.numpy()")
    if tensor.is_nested:
        raise refuse(
            name, "a nested tensor", "a tensor of one shape", "torch.nested.to_padded_tensor, or one call for each part"
        )
    if tensor.is_meta:
        raise refuse(name, "on the device meta, without elements", "a tensor with elements")
    if tensor.layout is not torch.strided:
        raise refuse(name, shown(tensor.layout), "a strided tensor", "tensor.to_dense()")
    last = tensor.storage_offset() + sum(
        (extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    if tensor.numel() and (last + 1) * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise refuse(name, "a tensor whose storage was freed or resized", "a tensor with its memory")


def _torch_to_numpy(tensor: Any) -> np.ndarray:
    """The same memory, if it is on the CPU. Types that NumPy lacks become codes."""
    torch = sys.modules["torch"]
    name = str(tensor.dtype).removeprefix("torch.")
    require_memory_of(tensor, "torch tensor")
    if tensor.is_complex() or tensor.is_quantized:
        raise refuse(
            "torch dtype",
            name,
            ", ".join((*_torch_formats, *_torch_packed)),
            "pass tensor.real and tensor.imag separately" if tensor.is_complex() else "tensor.dequantize()",
        )
    # The imaginary part of a conjugate is a view whose signs are changed when it is read.
    tensor = tensor.detach().resolve_neg().cpu()
    if name in _torch_packed:
        raw = tensor.view(torch.uint8).numpy()
        # A transposed weight has its pairs along the other axis, the one whose bytes follow each other.
        is_turned = raw.ndim > 1 and raw.strides[-1] != 1 and raw.strides[-2] == 1
        return _pairs(raw, -2 if is_turned else -1).view(_dtypes[_torch_packed[name]])
    if name in ("int16", "int64", "uint16", "uint32", "uint64"):
        return tensor.numpy()  # raw codes, as NumPy's
    format = _torch_formats.get(name)
    if format is None:
        raise refuse(
            "torch dtype",
            name,
            ", ".join((*_torch_formats, *_torch_packed)),
            _remedy_of_float8(name, "tensor.float().to(torch.", "tensor.half()"),
        )
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
        return tensor.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy().view(_dtypes[format])
    return tensor.numpy()


def refuse_mask(value: Any, name: str) -> None:
    if isinstance(value, np.ma.MaskedArray):
        raise refuse(name, "a masked array", "an array without a mask", "use array.filled(0), or another fill value")


def to_numpy(value: Any, name: str) -> np.ndarray:
    """Any array as a NumPy array, without a copy if possible."""
    refuse_mask(value, name)
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
            raise refuse(
                name, type(value).__name__, "an array that NumPy can read through DLPack", str(error)
            ) from None
    if isinstance(value, (list, tuple, int, float)):
        raise refuse(
            name,
            type(value).__name__,
            "an array with a dtype",
            "np.array(values, np.float16), for example: the format of the codes comes from the dtype",
        )
    raise refuse(name, type(value).__name__, "a NumPy array, a torch tensor, an array of JAX or an object with DLPack")


def codes_as(value: Any, format: str, name: str, *, is_exact: bool = False) -> np.ndarray:
    """The codes of `value`, which must have `format`, as an array for the buffer protocol. tf32 and f32 codes are
    interchangeable, as in operands of matrix instructions, unless `is_exact`: tf32 has fewer bits."""
    if type(value) is not np.ndarray:
        if isinstance(value, Codes):
            if value.format != format and not ({value.format, format} <= {"f32", "tf32"} and not is_exact):
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
    is_known = dtype in _format_of_dtype
    fix = _hint(dtype) if not dtype.isnative or (dtype.kind == "V" and not is_known) else ""
    if not fix and is_known and format in ("ue8m0", "ue4m3"):  # the type of an instruction's block scales
        fix = f"the instruction's scales are {format}" + (
            ': scale_type="ue4m3" selects the other format'
            if (format, _format_of_dtype[dtype]) == ("ue8m0", "e4m3")
            else ""
        )
    if not fix and dtype.kind == "i" and dtype.itemsize == code_bytes[format]:
        fix = f'if these are codes, use bitmma.codes(array, "{format}")'
    if not fix and dtype.kind == "f" and format not in ("ue8m0", "ue4m3"):
        fix = f"array.astype({_dtypes[format]})" + (" rounds" if dtype.itemsize > code_bytes[format] else "")
    raise refuse(name, dtype, " or ".join(str(view) for view in views) + f", for {format}", fix)


_narrow = {"s4": (-8, 7), "u4": (0, 15)}


def _require_range(array: np.ndarray, format: str, name: str) -> None:
    """4-bit numbers in a wider dtype must be in their range."""
    if array.dtype.itemsize != 1 or array.dtype.kind not in "iu" or array.size == 0:
        return
    low, high = _narrow[format]
    if array.dtype.kind == "u" and format == "s4":
        low, high = 0, 15  # raw codes
    least, most = int(array.min()), int(array.max())
    if least < low or most > high:
        raise refuse(name, f"numbers from {least} to {most}", f"{low}..{high}, for {format}")


def matrix(value: Any, name: str, *, is_input: bool = False, format: str | None = None) -> tuple[str, np.ndarray]:
    """(format, codes) of a two-dimensional matrix, for whole products. float32 is tf32 as an input A or B."""
    if isinstance(value, Codes):
        return (format_named(value.format), _native(to_numpy(value.array, name), name))
    array = to_numpy(value, name)
    if format is None:
        format = format_of(array)
        if format == "tf32" and not is_input:
            format = "f32"
    return (format, codes_as(array, format, name))


def like(operands: tuple[Any, ...], array: np.ndarray) -> Any:
    """The result of a function of these operands: a torch tensor if one of them is one and torch has the type, else
    `array` itself."""
    if not any(_is_torch(operand) for operand in operands):
        return array
    torch = sys.modules["torch"]
    names = {np.dtype(_dtypes[format]): name for name, format in _torch_formats.items()}
    # Torch calls whole numbers as NumPy does.
    name = array.dtype.name if array.dtype.kind in "iuf" and array.dtype.isbuiltin == 1 else names.get(array.dtype)
    if name is None or not hasattr(torch, name):
        return array
    if array.dtype.kind == "V" or name.startswith(("bfloat", "float8")):
        raw = array.view(np.int16 if name == "bfloat16" else np.uint8)
        return torch.from_numpy(raw).view(getattr(torch, name))
    return torch.from_numpy(array)
