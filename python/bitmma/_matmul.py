# SPDX-License-Identifier: MIT
"""Products with the bits of a library that chooses the kernel itself."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arguments import flag_of, public, text
from ._arrays import _is_torch, dtype_of, format_named, like
from ._errors import refuse, shown, threads_of
from ._gemm import _operands


class LibraryChoice(NamedTuple):
    """The kernel that a library takes for a product."""

    kernel: str
    """The names of its kernels; `*` stands for what decides no bit, such as the tiles of nvjet."""
    slices: int
    """Of K; 0: one."""
    exact: bool
    """This shape was recorded, or the recorded M below and above it take the same kernel."""
    shape: tuple[int, int, int]
    """The recorded M, N and K."""
    output: str
    """The format of D."""


def _format(dtype: Any) -> str:
    name: str = format_named(dtype)
    return "f32" if name == "tf32" else name


def _choice(
    library: str,
    gpu: str,
    a: str,
    b: str,
    output: str | None,
    layout: str,
    allow_tf32: bool,
    bias: bool,
    scales: str,
    fast: bool,
    shape: tuple[int, int, int],
    nearest: bool,
    level: int,
) -> LibraryChoice:
    found: dict[str, Any] = _core.library_choice(
        library, gpu, a, b, output, layout, allow_tf32, bias, scales, fast, *shape, nearest
    )
    choice = LibraryChoice(
        found["kernel"], found["slices"], found["exact"], (found["m"], found["n"], found["k"]), found["output"]
    )
    if not choice.exact:
        warnings.warn(
            f"{library} was not recorded for M, N, K = {shape}: the kernel for {choice.shape} is taken, "
            "and the library may take another",
            stacklevel=level,
        )
    return choice


@public(
    dtype=lambda value, field: value,
    layout=text,
    gpu=text,
    library=text,
    bias=flag_of,
    allow_tf32=flag_of,
    use_fast_accum=flag_of,
)
def library_choice(
    m: int,
    n: int,
    k: int,
    dtype: Any = "bf16",
    *,
    gpu: str,
    library: str = "cublas 13.1",
    layout: str = "nt",
    out_dtype: Any = None,
    bias: bool = False,
    allow_tf32: bool = False,
    scales: str | None = None,
    use_fast_accum: bool = False,
    nearest: bool = False,
) -> LibraryChoice:
    """The kernel that a library takes for a product of [M, K] and [K, N], as recorded on the GPU.

    dtype           of A and B: "bf16", "f16", "f32", "e4m3" or a dtype
    gpu, library    "H100" or "H200"; "cublas 13.1": that of PyTorch 2.11, with PyTorch's workspace
    layout          of A and of B: "n" has contiguous rows, "t" contiguous columns. "nt" is torch.nn.functional.linear
    out_dtype       of D, if it is not PyTorch's
    bias            of torch.addmm(bias, a, b)
    allow_tf32      torch.backends.cuda.matmul.allow_tf32
    scales          "tensor" or "rows", of torch._scaled_mm
    use_fast_accum  of torch._scaled_mm
    nearest         for a shape that was not recorded, the choice for the nearest one, with a warning; else it is an
                    Error

    >>> library_choice(1024, 4096, 4096, "bf16", gpu="H100")
    LibraryChoice(kernel='nvjet_sm90_tst_*', slices=0, exact=True, shape=(1024, 4096, 4096), output='bf16')
    """
    if scales is not None and (not isinstance(scales, str) or scales not in ("tensor", "rows")):
        raise refuse("scales", shown(scales), "'tensor', 'rows' or None")
    name = _format(dtype)
    return _choice(
        library,
        gpu,
        name,
        name,
        None if out_dtype is None else _format(out_dtype),
        layout,
        allow_tf32,
        bias,
        scales or "",
        use_fast_accum,
        (m, n, k),
        nearest,
        4,
    )


def _letter(array: np.ndarray) -> str:
    """How cuBLAS gets a matrix from PyTorch: "t" with contiguous columns, else "n"."""
    rows, size = array.shape[0], array.dtype.itemsize
    return "t" if array.strides[0] == size and array.strides[1] >= max(1, rows) * size else "n"


@public(gpu=text, library=text, allow_tf32=flag_of, use_fast_accum=flag_of, return_choice=flag_of)
def matmul(
    a: Any,
    b: Any,
    bias: Any = None,
    *,
    gpu: str,
    library: str = "cublas 13.1",
    allow_tf32: bool = False,
    out_dtype: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    use_fast_accum: bool = False,
    nearest: bool = False,
    return_choice: bool = False,
    threads: int = 1,
) -> Any:
    """A @ B, plus a bias, with the bits of PyTorch on a GPU: in the order of the kernel that cuBLAS takes for this
    shape, layout, types and epilogue. The choices were recorded for layers of open models and a grid of shapes.

    a, b            [M, K] and [K, N], float16, bfloat16, float32 or float8_e4m3fn, with torch's strides: `w.T` of a
                    weight matrix [N, K] and a copy of it are different calls
    bias            [N], of the type of A: torch.addmm(bias, a, b), torch.nn.functional.linear
    gpu, library    "H100" or "H200"; "cublas 13.1": that of PyTorch 2.11, with PyTorch's workspace
    allow_tf32      torch.backends.cuda.matmul.allow_tf32
    out_dtype       the type of D: by default that of A, for float8 bfloat16, as in torch.nn.functional.scaled_mm
                    (the default of torch._scaled_mm is float8); for bfloat16 and float16, float32 is recorded too
    scale_a         for float8, as in torch._scaled_mm: float32, one number or [M, 1]; scale_b one number or [1, N]
    use_fast_accum  of torch._scaled_mm
    nearest         for a shape that was not recorded, take the kernel for the nearest one, with a warning; else it is
                    an Error
    return_choice   True: returns (D, LibraryChoice)

    Returns D, [M, N]; a torch tensor if A is one. Raises Error for a call that was not recorded, and for a kernel whose
    plan is not known. `threads` (0: all cores) changes no bit.

    >>> a = np.ones((16, 512), np.float16); w = np.ones((64, 512), np.float16)
    >>> matmul(a, w.T, gpu="H100")[0, 0]
    np.float16(512.0)
    """
    threads = threads_of(threads)
    operands = _operands(a, b, bias=bias, scale_a=scale_a, scale_b=scale_b)
    for name in ("a", "b"):
        if operands[name][1].ndim != 2:
            raise refuse(name, f"shape {operands[name][1].shape}", "two axes: batches were not recorded")
    left, right = operands["a"], operands["b"]
    (m, k), n = left[1].shape, right[1].shape[1]
    if right[1].shape[0] != k:
        raise refuse("b", f"shape {right[1].shape}", f"[{k}, N], as a has K = {k}")
    if (scale_a is None) != (scale_b is None):
        raise refuse("scale_b" if scale_b is None else "scale_a", "None", "both scales, or none")
    scales = (
        ""
        if scale_a is None
        else "tensor"
        if operands["scale_a"][1].size == operands["scale_b"][1].size == 1
        else "rows"
    )
    if scales == "rows" and (operands["scale_a"][1].shape, operands["scale_b"][1].shape) != ((m, 1), (1, n)):
        raise refuse(
            "scale_a, scale_b",
            f"shapes {operands['scale_a'][1].shape}, {operands['scale_b'][1].shape}",
            "one number each, or [M, 1] and [1, N]",
        )
    choice = _choice(
        library,
        gpu,
        left[0],
        right[0],
        None if out_dtype is None else _format(out_dtype),
        _letter(left[1]) + _letter(right[1]),
        allow_tf32,
        bias is not None,
        scales,
        use_fast_accum,
        (m, n, k),
        nearest,
        4,
    )
    plan = _core.chosen_plan(library, choice.kernel, choice.slices, choice.output, operands)
    d = np.empty((m, n), dtype_of(plan.output))
    _core.gemm_into(
        plan, operands, d if d.dtype.kind != "V" and d.dtype.isbuiltin == 1 else d.view(f"u{d.dtype.itemsize}"), threads
    )
    found = like(a, d) if _is_torch(a) else d
    return (found, choice) if return_choice else found
