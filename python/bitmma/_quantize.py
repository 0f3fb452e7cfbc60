# SPDX-License-Identifier: MIT
"""Quantisers of libraries: what becomes of a matrix before it is multiplied."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arguments import public, threads_of
from ._arrays import Codes, dtype_of, format_of, like, matrix, tile
from ._errors import refuse
from ._gemm import gemm


class Quantized(NamedTuple):
    """A matrix as a recipe makes it: element = code * scale of its block * tensor_scale."""

    codes: Any
    """[rows, cols] of the recipe's element format: float8_*, or float4_e2m1fn, one an element."""
    scales: Any
    """[rows / block rows, cols / block cols]: float8_e8m0fnu, float8_e4m3fn, or float32."""
    tensor_scale: np.float32 | None
    """Of recipes with two levels."""
    recipe: str
    block: tuple[int, int]
    """Rows and columns of a block."""

    def __repr__(self) -> str:
        return f"Quantized({self.recipe} {list(self.codes.shape)}, blocks of {self.block[0]} x {self.block[1]})"

    @property
    def packed(self) -> np.ndarray:
        """Codes of e2m1 two a byte, the first in the lower half: [rows, cols / 2]."""
        if format_of(self.codes) != "e2m1":
            raise refuse("codes", format_of(self.codes), "e2m1: two codes a byte")
        raw = np.asarray(self.codes).view(np.uint8)
        if raw.shape[1] % 2:
            raise refuse("columns", raw.shape[1], "an even number: two codes a byte")
        return raw[:, ::2] | raw[:, 1::2] << 4

    @property
    def tiled(self) -> np.ndarray:
        """Scales of one byte in tiles of 128 x 4, as cuBLAS reads them, a row of scales for every row of codes."""
        return tile(self._scales_by_row())

    def _scales_by_row(self) -> Codes:
        scales = _as_codes(self.scales, "ue4m3")
        if scales.format not in ("ue8m0", "ue4m3"):
            raise refuse("scales", scales.format, "ue8m0 or ue4m3: tiles hold bytes")
        return Codes(np.repeat(scales.array, self.block[0], 0)[:self.codes.shape[0]], scales.format)


def _matrix(values: Any, name: str) -> tuple[str, np.ndarray]:
    found = matrix(values, name)
    if found is None:
        raise refuse(name, "None", "a matrix")
    return found


def _as_codes(values: Any, e4m3: str) -> Codes:
    format, array = _matrix(values, "scales")
    return Codes(array, e4m3 if format == "e4m3" else format)


@public
def quantize(x: Any, recipe: str, *, torch_device: str = "cuda", threads: int = 1) -> Quantized:
    """What a library makes of `x` before it multiplies it, bit for bit.

    x             [rows, cols], float32, bfloat16 or float16, as the recipe takes them; blocks lie along the columns, which
                  are K: a weight [N, K] is quantised as it is
    recipe        a name of `quantize_recipes()`: "te_nvfp4", "flashinfer_nvfp4", "torchao_mxfp8_e4m3", "deepgemm_1x128" ...
    torch_device  where eager PyTorch runs recipes that are written in it: "cuda" multiplies by the reciprocal of a number
                  that it should divide by, "cpu" divides
    threads       0: all cores. No bit depends on it

    Returns codes, scales and the tensor's scale; codes and scales are torch tensors where `x` is one and torch has the
    type. Raises Error for types, shapes and numbers that the recipe does not take.

    >>> quantize(np.full((1, 32), 6, np.float32), "ocp_mxfp4").scales.view(np.uint8)
    array([[127]], dtype=uint8)
    """
    if not isinstance(recipe, str):
        raise refuse("recipe", repr(recipe), "a name of bitmma.quantize_recipes()")
    if not isinstance(torch_device, str):
        raise refuse("torch_device", repr(torch_device), "cuda or cpu")
    format, array = _matrix(x, "x")
    codes, scales, tensor_scale, element, scale, *block = _core.quantize(
        ("f32" if format == "tf32" else format, array), recipe, torch_device, threads_of(threads))
    return Quantized(like(x, codes.view(dtype_of(element))), like(x, scales.view(dtype_of(scale))),
                     None if tensor_scale is None else tensor_scale.view(np.float32)[0, 0], recipe, tuple(block))


@public
def quantize_recipes() -> list[dict[str, Any]]:
    """Every recipe as a dictionary: name, what, project, version, commit, path, licence, evidence, inputs, block, element,
    scale, two_levels, torch, and `steps`, its f32 operations in their order.

    >>> [row["name"] for row in quantize_recipes() if row["project"] == "deepseek-ai/DeepGEMM"][0]
    'deepgemm_1x128'
    """
    return _core.quantize_recipes()


@public
def quantized_gemm(a: Quantized, b: Quantized, plan: Any = None, **keywords: Any) -> Any:
    """The product of two quantised matrices, A [M, K] and B [N, K]: `gemm` with their codes and scales.

    Scales of one byte are block scales of the instruction, sfa and sfb; scales of float32 go to the plan as scale_a and
    scale_b, which it has to read. The tensors' scales are alpha: their product in float32. `keywords` are those of gemm.

    >>> one = quantize(np.ones((2, 64), np.float32), "ocp_mxfp8_e4m3")
    >>> quantized_gemm(one, one, target="sm_100a")
    array([[64., 64.],
           [64., 64.]], dtype=float32)
    """
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, Quantized):
            raise refuse(name, type(given).__name__, "what bitmma.quantize returns")
    levels = [one.tensor_scale for one in (a, b) if one.tensor_scale is not None]
    if levels:
        if "alpha" in keywords:
            raise refuse("alpha", keywords["alpha"], "no alpha: it is the product of the tensors' scales")
        keywords["alpha"] = float(np.prod(np.array(levels, np.float32), dtype=np.float32))
    scales: dict[str, Any] = {}
    one: Quantized
    for name, one in (("a", a), ("b", b)):
        is_f32 = _as_codes(one.scales, "ue4m3").format in ("f32", "tf32")
        value: Any = one.scales if is_f32 else one._scales_by_row()
        scales[("scale_" if is_f32 else "sf") + name] = value if name == "a" else value.T
    return gemm(a.codes, b.codes.T, plan, **scales, **keywords)
