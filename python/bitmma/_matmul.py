# SPDX-License-Identifier: MIT
"""Products with the bits of a library that chooses the kernel itself."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from . import _core
from ._arguments import flag_of, public, text
from ._arrays import dtype_of, format_named, like
from ._errors import Error, refuse, renamed, shown
from ._gemm import product_into
from ._gemm_call import operands_of
from ._types import MatmulOptions, NumPyMatrix, Operand, Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LibraryChoice(NamedTuple):
    """The kernel that a library takes for a product."""

    kernel: str
    """The names of its kernels; `*` stands for what decides no bit, such as the tiles of nvjet."""
    slices: int
    """Of K."""
    exact: bool
    """This shape was recorded, or the recorded M below and above it take the same kernel."""
    shape: tuple[int, int, int]
    """The recorded M, N and K."""
    output: str
    """The format of D."""
    recorded_on: str = ""
    """The GPU; with `nearest` it may be another one."""
    right: int = 0
    drawn: int = 0
    """Of `drawn` shapes like this one, drawn after the recording, `right` had this choice; 0: not measured."""


def _format(dtype: Any) -> str:
    name: str = format_named(dtype)
    return "f32" if name == "tf32" else name


@dataclass(frozen=True)
class LibraryCall:
    """A product as a program asks a library for it; the library of bitmma reads it by these names."""

    library: str
    target: str
    shape: tuple[int, int, int]
    """M, N and K."""
    a: str
    b: str
    """Formats."""
    out_dtype: str | None
    layout: str
    allow_tf32: bool
    bias: bool
    scales: str
    """"tensor", "rows" or empty."""
    use_fast_accum: bool
    nearest: bool
    matrices: int = 0
    """Of torch.bmm; 0: another call."""

    def choice(self, stacklevel: int) -> LibraryChoice:
        """The kernel that the library takes. Warns the caller's caller, and so on by `stacklevel`, of another shape."""
        try:
            row: dict[str, Any] = _core.library_choice(self)
        except Error as error:
            raise renamed(error, "gpu", "target") from None
        choice = LibraryChoice(
            row["kernel"],
            row["slices"],
            row["exact"],
            (row["m"], row["n"], row["k"]),
            row["output"],
            row["recorded_on"],
            row["right"],
            row["drawn"],
        )
        if not choice.exact:
            rate = f" (of {choice.drawn} such shapes {choice.right} had the predicted kernel)" if choice.drawn else ""
            warnings.warn(
                f"{self.library} was not recorded for M, N, K = {self.shape} on an {self.target}: the kernel for "
                f"{choice.shape} on an {choice.recorded_on} is taken, and the library may take another{rate}",
                stacklevel=stacklevel,
            )
        return choice


@public(
    dtype=lambda value, field: value,
    layout=text,
    target=text,
    library=text,
    bias=flag_of,
    allow_tf32=flag_of,
    use_fast_accum=flag_of,
    renamed={"gpu": "target"},
)
def library_choice(
    m: int,
    n: int,
    k: int,
    dtype: Any = "bf16",
    *,
    target: str,
    library: str = "cublas 13.1",
    layout: str = "nt",
    out_dtype: Any = None,
    bias: bool = False,
    allow_tf32: bool = False,
    scales: str | None = None,
    use_fast_accum: bool = False,
    matrices: int = 0,
    nearest: bool = False,
) -> LibraryChoice:
    """The kernel that a library takes for a product of [M, K] and [K, N], as recorded on the GPU.

    dtype           of A and B: "bf16", "f16", "f32", "tf32" (f32 with allow_tf32), "e4m3" or a dtype
    target          "H100" or "H200": the choice depends on the board, not only on sm_90a
    library         "cublas 13.1": that of PyTorch 2.11, with PyTorch's workspace
    layout          of A and of B: "n" has contiguous rows, "t" contiguous columns. "nt" is torch.nn.functional.linear
    out_dtype       of D, if it is not PyTorch's
    bias            of torch.addmm(bias, a, b)
    allow_tf32      torch.backends.cuda.matmul.allow_tf32
    scales          "tensor" or "rows", of torch._scaled_mm
    use_fast_accum  of torch._scaled_mm
    matrices        of torch.bmm, whose choice depends on their number; 0: torch.mm and its like
    nearest         for a shape that was not recorded, the choice for the nearest one, with a warning; else it is an
                    Error. Batches have none

    Recorded are on the H200 all N and K that are multiples of 64 up to 16384, with M up to 16384: of bf16, f16, f32 and
    tf32 in layouts "nt", "nn" and "tn" (there M is a multiple of 8), with bias in "nt", of bf16 and f16 also in "nn",
    and of e4m3 with one scale each in "nt"; in "tn", as gradients of weights are, also any K up to 2048 of many pairs
    (M, N); on both GPUs, in more kinds, 393 pairs (N, K) of open models' layers. Batches on the H200: the products of
    attention with 2 to 512 positions, and more in larger steps, for 7 sizes of heads.

    >>> library_choice(1024, 4096, 4096, "bf16", target="H100").kernel
    'nvjet_sm90_tst_*'
    """
    if scales is not None and (not isinstance(scales, str) or scales not in ("tensor", "rows")):
        raise refuse("scales", shown(scales), "'tensor', 'rows' or None")
    name = _format(dtype)
    allow_tf32 = allow_tf32 or (isinstance(dtype, str) and dtype == "tf32")
    call = LibraryCall(
        library=library,
        target=target,
        shape=(m, n, k),
        a=name,
        b=name,
        out_dtype=None if out_dtype is None else _format(out_dtype),
        layout=layout,
        allow_tf32=allow_tf32,
        bias=bias,
        scales=scales or "",
        use_fast_accum=use_fast_accum,
        nearest=nearest,
        matrices=matrices,
    )
    return call.choice(4)


class ChoiceRange(NamedTuple):
    """M of first..last, for which a library takes one kernel."""

    first: int
    last: int
    kernel: str
    slices: int
    bits: int | None
    """Ranges with one number have equal plans: a row of A gets the same bits. None: not known, see `why`."""
    why: str


@public(
    dtype=lambda value, field: value,
    layout=text,
    target=text,
    library=text,
    bias=flag_of,
    allow_tf32=flag_of,
    use_fast_accum=flag_of,
    renamed={"gpu": "target"},
)
def library_choices(
    n: int,
    k: int,
    dtype: Any = "bf16",
    *,
    target: str,
    library: str = "cublas 13.1",
    layout: str = "nt",
    out_dtype: Any = None,
    bias: bool = False,
    allow_tf32: bool = False,
    scales: str | None = None,
    use_fast_accum: bool = False,
) -> list[ChoiceRange]:
    """The kernels that a library takes for all M of one N and K: whether a row's bits depend on the batch. Arguments
    are those of `library_choice`.

    >>> [(row.first, row.last, row.bits) for row in library_choices(4096, 4096, "f32", target="H100")][:1]
    [(1, 1, 0)]
    """
    if scales is not None and (not isinstance(scales, str) or scales not in ("tensor", "rows")):
        raise refuse("scales", shown(scales), "'tensor', 'rows' or None")
    name = _format(dtype)
    allow_tf32 = allow_tf32 or (isinstance(dtype, str) and dtype == "tf32")
    call = LibraryCall(
        library=library,
        target=target,
        shape=(1, n, k),
        a=name,
        b=name,
        out_dtype=None if out_dtype is None else _format(out_dtype),
        layout=layout,
        allow_tf32=allow_tf32,
        bias=bias,
        scales=scales or "",
        use_fast_accum=use_fast_accum,
        nearest=False,
    )
    try:
        rows: Any = _core.library_choices(call)
    except Error as error:
        raise renamed(error, "gpu", "target") from None
    return [ChoiceRange(**row) for row in rows]


def _letter(array: np.ndarray) -> str:
    """How cuBLAS gets a matrix from PyTorch: "t" with contiguous columns, else "n"."""
    rows, size = array.shape[0], array.dtype.itemsize
    return "t" if array.strides[0] == size and array.strides[1] >= max(1, rows) * size else "n"


def _evidence_of_all(parts: list[str]) -> str:
    """The GPUs on which every part of a plan was measured."""
    measured = [part.removeprefix("measured: ").split(", ") for part in parts if part.startswith("measured: ")]
    common = [gpu for gpu in measured[0] if all(gpu in gpus for gpus in measured)] if measured else []
    if common and len(measured) == len(parts):
        return f"measured: {', '.join(common)}"
    return "; ".join(dict.fromkeys(parts))


# Of the operands of recorded calls.
_recorded_formats = ("bf16", "f16", "f32", "tf32", "e4m3", "e5m2")


def _is_integer(format: str) -> bool:
    return format in ("s8", "u8", "s4", "u4", "b1", "s32")


def _fold(operands: dict[str, Any]) -> tuple[int, ...]:
    """The axes of D in front of N. torch.matmul multiplies a stack of A by one B as a matrix of all their rows, and a
    stack by a stack with torch.bmm: then the operands have three axes."""
    (format, a), (format_of_b, b) = operands["a"], operands["b"]
    for name, array in (("a", a), ("b", b)):
        if array.ndim < 2:
            raise refuse(
                name,
                f"shape {array.shape}",
                "two axes or more: products with a vector were not recorded",
                "bitmma.gemm multiplies it as a matrix: a[None, :], b[:, None]",
            )
    if b.ndim > 2:
        if a.ndim == 2:
            raise refuse(
                "b",
                f"shape {b.shape}",
                f"two axes, as a has: torch multiplies b as {b.swapaxes(-1, -2).shape} by a.T, which was not recorded",
                "bitmma.gemm(a, b) multiplies stacks in the order of a plan",
            )
        try:
            lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            raise refuse("b", f"shape {b.shape}", f"a stack that broadcasts with {a.shape[:-2]}") from None
        operands["a"], operands["b"] = (format, _stack(a, lead)), (format_of_b, _stack(b, lead))
        return (*lead, a.shape[-2])
    if a.ndim == 2:
        return a.shape[:1]
    strides, lead = a.strides, a.shape[:-1]
    if any(strides[i] != strides[i + 1] * lead[i + 1] for i in range(len(lead) - 1)):
        raise refuse(
            "a",
            f"strides {strides} of shape {a.shape}",
            "a stack whose rows are evenly spaced: torch multiplies others as a batch, which was not recorded",
            "a copy has such strides: np.ascontiguousarray(a), a.contiguous()",
        )
    operands["a"] = (format, a.reshape(-1, a.shape[-1]))
    return lead


def _stack(array: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    """[matrices, rows, columns] as torch.matmul gives it to torch.bmm: a view of the array, or else a copy."""
    return np.broadcast_to(array, (*lead, *array.shape[-2:])).reshape(-1, *array.shape[-2:])


def _as_batch(name: str, stack: np.ndarray) -> np.ndarray:
    """The stack as torch.bmm gives it to cuBLAS: matrices without contiguous rows or columns are copied. Gaps between
    rows changed the kernel in none of 12,000 recorded batches."""
    size, (rows, columns), (row, column) = stack.dtype.itemsize, stack.shape[-2:], stack.strides[-2:]
    if not (column == size and row >= columns * size) and not (row == size and column >= rows * size):
        return np.ascontiguousarray(stack)
    if len(stack) > 1 and stack.strides[0] <= 0:
        raise refuse(
            name,
            f"strides {stack.strides} of {stack.shape}",
            "matrices at ascending addresses: a batch of one repeated matrix was not recorded",
            f"a copy has such strides: np.ascontiguousarray({name}), {name}.contiguous()",
        )
    return stack


def chosen_product(
    a: Any,
    b: Any,
    bias: Any = None,
    *,
    target: str,
    library: str,
    allow_tf32: bool,
    out_dtype: Any,
    scale_a: Any = None,
    scale_b: Any = None,
    use_fast_accum: bool = False,
    nearest: bool,
    threads: int,
    stacklevel: int = 4,
) -> tuple[np.ndarray, LibraryChoice, str]:
    """D as `matmul` computes it, the kernel, and the evidence of its plan."""
    operands = operands_of(a, b, bias=bias, scale_a=scale_a, scale_b=scale_b)
    lead = _fold(operands)
    left, right = operands["a"], operands["b"]
    for name, (format, _) in (("a", left), ("b", right)):
        if _is_integer(format):
            raise refuse(
                name,
                format,
                "float16, bfloat16, float32 or float8_e4m3fn, as torch.matmul takes them on a GPU",
                "bitmma.gemm multiplies integers, whose sums are exact in any order",
            )
        if format not in _recorded_formats:
            raise refuse(
                name,
                dtype_of(format),
                "float16, bfloat16, float32 or float8_e4m3fn: calls with other types were not recorded",
                f"{name}.astype(np.float32)" if format == "f64" else "bitmma.gemm multiplies other formats",
            )
    if left[0] != right[0] and not {left[0], right[0]} <= {"e4m3", "e5m2"}:
        raise refuse("b", right[0], f"{left[0]}, the type of a", "PyTorch refuses other types; convert the values")
    (m, k), n = left[1].shape[-2:], right[1].shape[-1]
    if right[1].shape[-2] != k:
        raise refuse("b", f"shape {right[1].shape}", f"[{k}, N], as a has K = {k}")
    matrices = 0
    if right[1].ndim > 2:
        matrices = len(left[1])
        others = [name for name in ("bias", "scale_a", "scale_b") if name in operands]
        if others or m * n * k * matrices == 0:
            raise refuse(
                others[0] if others else "a",
                "given" if others else f"shape {left[1].shape}",
                "absent: of batches torch.bmm alone was recorded" if others else "1 or more of each extent",
                "bitmma.gemm multiplies stacks in the order of a plan",
            )
        left, right = (left[0], _as_batch("a", left[1])), (right[0], _as_batch("b", right[1]))
        operands["a"], operands["b"] = left, right
    first, second = (left[1][0], right[1][0]) if matrices else (left[1], right[1])
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
    if bias is not None and operands["bias"][1].shape != (1, n):
        raise refuse(
            "bias",
            f"shape {np.shape(bias)}",
            f"({n},), one number a column",
            "torch.addmm of a matrix was not recorded: bitmma.gemm(a, b, c=matrix) adds one",
        )
    call = LibraryCall(
        library=library,
        target=target,
        shape=(m, n, k),
        a=left[0],
        b=right[0],
        out_dtype=None if out_dtype is None else _format(out_dtype),
        layout=_letter(first) + _letter(second),
        allow_tf32=allow_tf32,
        bias=bias is not None,
        scales=scales,
        use_fast_accum=use_fast_accum,
        nearest=nearest,
        matrices=matrices,
    )
    choice = call.choice(stacklevel)
    of_a_matrix = {**operands, "a": (left[0], first), "b": (right[0], second)}
    plan = _core.chosen_plan(library, choice.kernel, choice.slices, choice.output, of_a_matrix)
    d = np.empty((*left[1].shape[:-1], n), dtype_of(plan.output))
    product_into(d, plan, operands, threads)
    return d.reshape(*lead, n), choice, _evidence_of_all(list(plan.evidence.values()))


@overload
def matmul(
    a: NumPyMatrix,
    b: Operand,
    bias: Operand | None = ...,
    *,
    target: str,
    return_choice: Literal[False] = ...,
    **options: Unpack[MatmulOptions],
) -> np.ndarray: ...
@overload
def matmul(
    a: NumPyMatrix,
    b: Operand,
    bias: Operand | None = ...,
    *,
    target: str,
    return_choice: Literal[True],
    **options: Unpack[MatmulOptions],
) -> tuple[np.ndarray, LibraryChoice]: ...
@overload
def matmul(
    a: Tensor,
    b: Operand,
    bias: Operand | None = ...,
    *,
    target: str,
    return_choice: Literal[False] = ...,
    **options: Unpack[MatmulOptions],
) -> Tensor: ...
@overload
def matmul(
    a: Tensor,
    b: Operand,
    bias: Operand | None = ...,
    *,
    target: str,
    return_choice: Literal[True],
    **options: Unpack[MatmulOptions],
) -> tuple[Tensor, LibraryChoice]: ...
@public(
    target=text,
    library=text,
    allow_tf32=flag_of,
    use_fast_accum=flag_of,
    return_choice=flag_of,
    renamed={"gpu": "target"},
)
def matmul(
    a: Any,
    b: Any,
    bias: Any = None,
    *,
    target: str,
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
    shape, layout, types and epilogue. Known shapes: on the H200, in layouts nt, nn and tn, all N and K that are
    multiples of 64 up to 16384, with M up to 16384; on both GPUs 393 pairs (N, K) of open models' layers; batches of
    products of attention on the H200.

    a, b            [M, K] and [K, N], float16, bfloat16, float32 or float8_e4m3fn, with torch's strides: `w.T` of a
                    weight matrix [N, K] and a copy of it are different calls. As in torch.matmul, a stack [..., M, K]
                    by one b is one product of all its rows, and a stack by a stack is torch.bmm
    bias            [N], of the type of A: torch.addmm(bias, a, b), torch.nn.functional.linear
    target          "H100" or "H200": the choice depends on the board, not only on sm_90a
    library         "cublas 13.1": that of PyTorch 2.11, with PyTorch's workspace
    allow_tf32      torch.backends.cuda.matmul.allow_tf32
    out_dtype       the type of D: by default that of A, for float8 bfloat16, as in torch.nn.functional.scaled_mm
                    (the default of torch._scaled_mm is float8); for bfloat16 and float16, float32 is recorded too
    scale_a         for float8, as in torch._scaled_mm: float32, one number or [M, 1]; scale_b one number or [1, N]
    use_fast_accum  of torch._scaled_mm
    nearest         for a shape that was not recorded, take the kernel for the nearest one, with a warning; else it is
                    an Error
    return_choice   True: returns (D, LibraryChoice)

    Returns D, [..., M, N]; a torch tensor if an operand is one. Raises Error for a call that was not recorded, and for
    a kernel whose plan is not known. `threads` (0: all cores) changes no bit.

    >>> a = np.ones((16, 512), np.float16); w = np.ones((64, 512), np.float16)
    >>> matmul(a, w.T, target="H100")[0, 0]
    np.float16(512.0)
    """
    d, choice, _ = chosen_product(
        a,
        b,
        bias,
        target=target,
        library=library,
        allow_tf32=allow_tf32,
        out_dtype=out_dtype,
        scale_a=scale_a,
        scale_b=scale_b,
        use_fast_accum=use_fast_accum,
        nearest=nearest,
        threads=threads,
        stacklevel=5,
    )
    result = like((a, b, bias, scale_a, scale_b), d)
    return (result, choice) if return_choice else result
