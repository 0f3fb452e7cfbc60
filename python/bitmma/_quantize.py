# SPDX-License-Identifier: MIT
"""Quantisers of libraries: how they round a matrix before they multiply it."""

from __future__ import annotations

import functools
import json
import warnings
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, cast, overload

import numpy as np

from . import _core
from ._arguments import public, text, threads_of
from ._arrays import Codes, _is_torch, dtype_of, format_of, like, matrix, tile, to_numpy
from ._core import Plan
from ._errors import refuse, shown, text_of
from ._gemm import gemm
from ._types import Array, GemmOptions, NumPyMatrix, PlanLike, Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Fields(NamedTuple):
    """The fields of Quantized: Python 3.10 has no generic NamedTuple."""

    codes: Any
    scales: Any
    tensor_scale: Any
    recipe: str
    block: tuple[int, int]


class Quantized(_Fields, Generic[Array]):
    """A quantised matrix: element = code * scale of its block * tensor_scale. `Array` is np.ndarray or torch.Tensor."""

    __slots__ = ()
    codes: Array
    """[rows, cols] in the recipe's element format: float8_*, or float4_e2m1fn, one code per element. For torch tensors:
    uint8 for types that torch lacks."""
    scales: Array
    """[rows / block rows, cols / block cols]: float8_e8m0fnu, float8_e4m3fn, or float32."""
    tensor_scale: np.float32 | Array | None
    """A float32 for recipes with two levels; else None."""
    recipe: str
    block: tuple[int, int]
    """Rows and columns of a block."""

    def __repr__(self) -> str:
        return f"Quantized({self.recipe} {list(self.codes.shape)}, blocks of {self.block[0]} x {self.block[1]})"

    @property
    def packed(self) -> Array:
        """Two e2m1 codes per byte, the first in the lower half: [rows, cols / 2]."""
        codes = self._codes()
        if codes.format != "e2m1":
            raise refuse("codes", codes.format, "e2m1, which has two codes per byte")
        raw = np.asarray(codes.array).view(np.uint8)
        if raw.shape[1] % 2:
            raise refuse("columns", raw.shape[1], "an even number, because each byte has two codes")
        return like((self.codes, self.scales), raw[:, ::2] | raw[:, 1::2] << 4)

    @property
    def tiled(self) -> Array:
        """One-byte scales in cuBLAS' tiles of 128 x 4, with a row of scales for every row of codes."""
        return like((self.codes, self.scales), tile(self._scales_by_row()))

    def _codes(self) -> Codes:
        """The codes with the recipe's format, which the type of a torch tensor may not show."""
        if not isinstance(self.codes, Codes) and _is_torch(self.codes) and format_of(self.codes) == "u8":
            return Codes(to_numpy(self.codes, "codes"), _elements()[self.recipe])
        format, raw = matrix(self.codes, "codes")
        return Codes(raw, format)

    def _scales_by_row(self) -> Codes:
        scales = _as_codes(self.scales, "ue4m3")
        if scales.format not in ("ue8m0", "ue4m3"):
            raise refuse("scales", scales.format, "ue8m0 or ue4m3: tiles hold bytes")
        return Codes(np.repeat(scales.array, self.block[0], 0)[: self.codes.shape[0]], scales.format)

    def _scales_by_k(self) -> Codes:
        """A scale for every row and every 32 or fewer elements of K, as instructions read them."""
        scales, most = self._scales_by_row(), 32
        if self.block[1] <= most:
            return scales
        if self.block[1] % most or self.codes.shape[1] % most:
            raise refuse("blocks", f"{self.block[1]} of {self.codes.shape[1]} columns", f"multiples of {most}")
        repeated = np.repeat(scales.array, self.block[1] // most, 1)
        return Codes(repeated[:, : self.codes.shape[1] // most], scales.format)


@functools.cache
def _elements() -> dict[str, str]:
    """The element format of each recipe."""
    return {row["name"]: row["element"] for row in cast(Any, _core.quantize_recipes())}


def _codes_like(x: Any, codes: np.ndarray, element: str) -> Any:
    """Codes as the type of `x`: bytes of one code where torch lacks the type."""
    made = like((x,), codes.view(dtype_of(element)))
    return like((x,), codes.view(np.uint8)) if _is_torch(x) and not _is_torch(made) else made


def _reads_f32_scales(plan: Any) -> bool:
    """True for a plan that multiplies by scales between instructions, as libraries do on sm_90a."""
    if isinstance(plan, Plan):
        plan = plan.json
    if isinstance(plan, str):
        plan = json.loads(plan) if plan.lstrip().startswith("{") else {}
    return isinstance(plan, dict) and "scale" in (plan.get("promotion") or {})


def _as_codes(values: Any, e4m3: str) -> Codes:
    format, array = matrix(values, "scales")
    return Codes(array, e4m3 if format == "e4m3" else format)


@overload
def quantize(
    x: NumPyMatrix, recipe: str, *, torch_device: str | None = ..., threads: int = ...
) -> Quantized[np.ndarray]: ...
@overload
def quantize(x: Tensor, recipe: str, *, torch_device: str | None = ..., threads: int = ...) -> Quantized[Tensor]: ...
@public
def quantize(x: Any, recipe: str, *, torch_device: str | None = None, threads: int = 1) -> Quantized[Any]:
    """Quantises `x` as a library does before it multiplies it, bit for bit.

    x             [rows, cols], float32, bfloat16 or float16, if the recipe accepts it; blocks extend along the columns,
                  which are K: a weight [N, K] needs no transposition
    recipe        a name of `quantize_recipes()`: "te_nvfp4", "flashinfer_nvfp4", "torchao_mxfp8_e4m3", "deepgemm_1x128"
                  ...
    torch_device  the device for recipes in eager PyTorch: "cuda", the default, divides by a number by multiplying by
                  its reciprocal, "cpu" divides. Refused if the recipe has no such division
    threads       0: all cores. No bit depends on it

    Returns codes, scales and the tensor's scale, as torch tensors if `x` is one and torch has the type. Warns of NaN
    codes: some projects divide 0 by 0 for blocks of zeros. Raises Error for types, shapes and numbers that the recipe
    does not accept.

    >>> quantize(np.full((1, 32), 6, np.float32), "ocp_mxfp4").scales.view(np.uint8)
    array([[127]], dtype=uint8)
    """
    if not isinstance(recipe, str):
        raise refuse("recipe", shown(recipe), "a name of bitmma.quantize_recipes()")
    if torch_device is not None and not isinstance(torch_device, str):
        raise refuse("torch_device", shown(torch_device), "cuda or cpu")
    recipe, torch_device = text(recipe, "recipe"), text_of(torch_device, "torch_device", "cuda")
    format, array = matrix(x, "x")
    if format == "tf32" and isinstance(x, Codes):
        raise refuse(
            "x",
            "codes of tf32",
            "f32, bf16 or f16",
            "tf32 ignores 13 bits of each word: clear them and quantise as f32",
        )
    codes, scales, tensor_scale, element, scale, warned, *block = _core.quantize(
        ("f32" if format == "tf32" else format, array), recipe, torch_device, threads_of(threads)
    )
    for warning in warned:
        warnings.warn(warning, stacklevel=3)
    if tensor_scale is not None:
        number = tensor_scale.view(np.float32).reshape(())
        tensor_scale = number[()] if (made := like((x,), number)) is number else made
    return Quantized(
        _codes_like(x, codes, element),
        like((x,), scales.view(dtype_of(scale))),
        tensor_scale,
        recipe,
        (block[0], block[1]),
    )


@public
def quantize_recipes() -> list[dict[str, Any]]:
    """Every recipe as a dictionary: name, what, project, version, commit, path, licence, evidence, inputs, block
    (rows and columns, 0: all), element, scale, two_levels, torch, torch_device (whether the device matters), and
    `steps`, its f32 operations in order.

    >>> [row["name"] for row in quantize_recipes() if row["project"] == "deepseek-ai/DeepGEMM"][0]
    'deepgemm_1x128'
    """
    return [{**row, "block": tuple(row["block"])} for row in cast(Any, _core.quantize_recipes())]


@overload
def quantized_gemm(
    a: Quantized[Array],
    b: Quantized[Array],
    plan: PlanLike = ...,
    *,
    return_plan: Literal[False] = ...,
    **keywords: Unpack[GemmOptions],
) -> Array: ...
@overload
def quantized_gemm(
    a: Quantized[Array],
    b: Quantized[Array],
    plan: PlanLike = ...,
    *,
    return_plan: Literal[True],
    **keywords: Unpack[GemmOptions],
) -> tuple[Array, Plan]: ...
@public(renamed={"output": "out_dtype", "dtype": "out_dtype"})
def quantized_gemm(a: Quantized[Any], b: Quantized[Any], plan: PlanLike = None, **keywords: Any) -> Any:
    """The product of two quantised matrices, A [M, K] and B [N, K]: `gemm` with their codes and scales.

    One-byte scales become block scales of the instruction, sfa and sfb; a scale for more than 32 elements of K, such as
    DeepGEMM's ue8m0 for 128, is repeated for each 32. float32 scales go to the plan as scale_a and scale_b, which it
    must read; ue8m0 scales do too if the plan's promotion has a scale. alpha is the product of the tensors' scales in
    float32.
    `keywords` are those of gemm.

    >>> one = quantize(np.ones((2, 64), np.float32), "ocp_mxfp8_e4m3")
    >>> quantized_gemm(one, one, target="sm_100a")
    array([[64., 64.],
           [64., 64.]], dtype=float32)
    """
    for name, operand in (("a", a), ("b", b)):
        if not isinstance(operand, Quantized):
            raise refuse(name, type(operand).__name__, "a result of bitmma.quantize")
    levels = [quantized.tensor_scale for quantized in (a, b) if quantized.tensor_scale is not None]
    if levels:
        if "alpha" in keywords:
            raise refuse("alpha", keywords["alpha"], "omitted: alpha is the product of the tensors' scales")
        keywords["alpha"] = float(np.prod(np.array([float(level) for level in levels], np.float32), dtype=np.float32))
    scales: dict[str, Any] = {}
    reads_f32 = _reads_f32_scales(plan)
    for name, quantized in (("a", a), ("b", b)):
        codes = _as_codes(quantized.scales, "ue4m3")
        is_f32 = codes.format in ("f32", "tf32")
        value: Any
        if is_f32:
            value = quantized.scales
        elif reads_f32 and codes.format == "ue8m0":
            is_f32, value = True, codes.array.view(dtype_of("ue8m0")).astype(np.float32)
        else:
            value = quantized._scales_by_k()
        scales[("scale_" if is_f32 else "sf") + name] = value if name == "a" else value.T
    left, right = (operand._codes() if _is_torch(operand.codes) else operand.codes for operand in (a, b))
    made = gemm(left, right.T, plan, **scales, **keywords)
    operands = (a.codes, a.scales, b.codes, b.scales)
    return (like(operands, made[0]), *made[1:]) if isinstance(made, tuple) else like(operands, made)
