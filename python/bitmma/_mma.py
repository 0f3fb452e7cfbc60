# SPDX-License-Identifier: MIT
"""Products of one instruction."""

from __future__ import annotations

import atexit
import functools
import inspect
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from ._arguments import core as _core, public, stated, stated_or_plan, unchecked
from ._arrays import Tiled, _dtypes, _is_torch, codes_as, format_named, format_of, like, to_numpy
from ._core import Bound, Instruction, Plan
from ._errors import ArgumentError, Error, refuse, shown
from ._types import MmaOptions, NumPyMatrix, Operand, Target, Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Evidence(NamedTuple):
    """The evidence for a result, with its source."""

    level: str
    """"measured on an NVIDIA H200", "published hardware words", "measured by others", "consistent with published
    words", "published model" or "model choice", the strongest first; `meaning` defines it in a sentence."""
    rule: str
    """The arithmetic in a few words: "F = 25, RZ-23, floor -133"."""
    source: str
    target: str
    choices: list[str]
    """The assumptions that can affect results: points that no source settles and for which bitmma made a choice."""
    plan: dict[str, str]
    """For a plan, the evidence for each of its fields."""
    meaning: str = ""
    """The level's definition."""


def _refusing(of: type, name: str) -> Callable[..., Any]:
    """Makes a method of the library's classes raise Error for wrong arguments."""
    method = getattr(of, name)
    signature = str(method.__nb_signature__[0][0]).removeprefix("def ").replace("self, ", "").replace(", /", "")

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except TypeError as error:
            if "incompatible function arguments" not in str(error):  # raised by what the method calls
                raise
            kinds = [type(arg).__name__ for arg in args] + [
                f"{key}: {type(kwarg).__name__}" for key, kwarg in kwargs.items()
            ]
            raise refuse(f"{of.__name__}.{name}", f"({', '.join(kinds)})", signature, kind=ArgumentError) from error

    return called


for _of in (Instruction, Plan):
    for _name in [name for name in dir(_of) if not name.startswith("_") and callable(getattr(_of, name))]:
        setattr(_of, _name, _refusing(_of, _name))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Instruction:
    return Instruction(text)


@lru_cache(maxsize=1024)
def _with_fields(instruction: Instruction, **fields: Any) -> Instruction:
    return instruction.with_fields(**fields)


# What is still there when the interpreter ends is reported as a leak by nanobind.
atexit.register(_parsed.cache_clear)
atexit.register(_with_fields.cache_clear)


@public(text=stated)
def instruction(text: str | Instruction, **immediates: int) -> Instruction:
    """The instruction of a PTX mnemonic, of a whole statement or of a CUTLASS atom ("SM90_64x128x16_F32F16F16_SS").

    `immediates` are numbers that the mnemonic does not contain, by their names in vector files: imm_scale_a=-1,
    scale_d=0, idesc=0x08100010, sparsity_selector=1.

    >>> instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16").k
    16
    """
    parsed = _parsed(text.strip()) if isinstance(text, str) else text
    for name, value in immediates.items():
        parsed = parsed.with_immediate(name, value)
    return parsed


FieldValue = bool | int | str


@functools.cache
def _fields_of(family: str) -> dict[str, tuple[Any, str, list[str], bool]]:
    """Keyed by name: the default, the meaning, the legal words, and whether these are formats."""
    return {
        name: (default, meaning, words, is_format)
        for name, default, meaning, words, is_format in _core.instruction_fields(family)
    }


def _made(family: str, fields: dict[str, Any]) -> Instruction:
    """The instruction with these fields; None, or an empty format name, omits a field."""
    known = _fields_of(family)
    made = {}
    for name, value in fields.items():
        is_format = name in known and known[name][3]
        if value is not None and not (is_format and isinstance(value, str) and value == ""):
            if not is_format and not isinstance(value, str):
                try:
                    operator.index(value)
                except TypeError:
                    if type(value).__name__ not in ("bool", "bool_"):
                        fix = (
                            f"bitmma.{family} makes an instruction; bitmma.mma(instruction, a, b) multiplies"
                            if hasattr(value, "shape")
                            else ""
                        )
                        raise refuse(name, shown(value), "a flag, a 64-bit number or a word", fix) from None
            made[name] = format_named(value, name) if is_format else value
    return _core.make_instruction(family, made)


def _factory(family: str) -> Callable[[Callable[..., Instruction]], Callable[..., Instruction]]:
    """Adds the library's list of the family's fields to the help and signature of its factory."""

    def decorated(function: Callable[..., Instruction]) -> Callable[..., Instruction]:
        parameters = dict(inspect.signature(function).parameters)
        parameters.pop("fields")
        lines = []
        for name, (default, meaning, words, is_format) in _fields_of(family).items():
            parameters.setdefault(
                name,
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation="FieldValue | None"),
            )
            legal = "" if is_format or not words else f" ({', '.join(word for word in words if word)})"
            lines.append(f"    {name:<18}  {meaning}{legal}" + (f"; {default!r}" if default != "" else ""))
        function.__doc__ = f"{function.__doc__}\n\n    Fields, each with its meaning and its default:\n\n" + "\n".join(
            lines
        )
        function.__signature__ = inspect.Signature(list(parameters.values()), return_annotation=Instruction)  # type: ignore[attr-defined]
        return function

    return decorated


@_factory("wgmma")
@public(n=unchecked)
def wgmma(
    n: int = 8, d: str | None = None, a: str = "f16", b: str | None = None, **fields: FieldValue | None
) -> Instruction:
    """A legal wgmma.mma_async. M is 64, K follows from the types; D is f32, or s32 for integers and bits.

    >>> wgmma(64, a="e4m3").k
    32
    """
    return _made("wgmma", {"n": n, "d": d, "a": a, "b": b, **fields})


@_factory("mma_sync")
@public
def mma_sync(**fields: FieldValue | None) -> Instruction:
    """A legal mma.sync or mma.sp. The default is m16n8 of f16 with the largest K.

    >>> str(mma_sync(kind="mxf4nvf4"))
    'mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3'
    """
    return _made("mma_sync", fields)


@_factory("tcgen05")
@public
def tcgen05(kind: str = "f16", **fields: FieldValue | None) -> Instruction:
    """A legal tcgen05.mma with the fields of its instruction descriptor.

    >>> tcgen05("f8f6f4", m=128, n=64, a="e2m1", b="e4m3").k
    32
    """
    if kind.startswith("tcgen05."):
        raise refuse(
            "kind",
            kind,
            ", ".join(_fields_of("tcgen05")["kind"][2]),
            "for a mnemonic use bitmma.instruction(text), with idesc=... for its shape and types",
        )
    return _made("tcgen05", {"kind": kind.removeprefix("kind::"), **fields})


@_factory("tmem_move")
@public
def tmem_move(kind: str = "ld", **fields: FieldValue | None) -> Instruction:
    """A legal tcgen05.ld, .st, .cp, .shift or .ld.red.

    >>> str(tmem_move("ld", shape="16x64b", num=4))
    'tcgen05.ld.sync.aligned.16x64b.x4.b32'
    """
    return _made("tmem_move", {"kind": kind, **fields})


@public
def all_instructions() -> list[Instruction]:
    """Every legal mnemonic of all families, each once."""
    return _core.all_instructions()


@public(of=stated_or_plan)
def evidence(of: str | Instruction | Plan, target: Target | None = None) -> Evidence:
    """The evidence for results of an instruction or a plan on a target, and bitmma's choices. Raises Error if the
    target lacks the instruction. Plans of the catalogue also have the evidence for each of their fields.

    >>> evidence("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16").level
    'measured on an NVIDIA H200'
    """
    if not isinstance(of, Plan):
        return Evidence(**_core.evidence(_parsed(of) if isinstance(of, str) else of, target), plan={})
    on = str(target or of.target)
    chained: Any = of._instruction
    if chained is None:
        return Evidence("IEEE 754", "fma.rn.f32, rounded once per operation", "CUDA cores", on, [], of.evidence)
    return Evidence(**_core.evidence(chained, on), plan=of.evidence)


def _shaped(mnemonic: Instruction, a: Any, b: Any, c: Any, scale_a: Any, stored: bool) -> Instruction:
    """A tcgen05.mma given by its mnemonic: M, N, K and types come from the arrays."""
    a_format, b_format = format_of(a), format_of(b)
    if (a_format == "u8" and mnemonic.a not in ("s8", "u8")) or (b_format == "u8" and mnemonic.b not in ("s8", "u8")):
        raise refuse(
            "a and b",
            "uint8",
            "arrays whose dtype defines the format",
            'name the format: bitmma.codes(array, "e2m1"), with packed=True for two codes per byte; or use an '
            "instruction of bitmma.tcgen05(...)",
        )
    fields: dict[str, Any] = {"a": a_format, "b": b_format}
    if np.ndim(a) >= 2:
        fields["m"] = np.shape(a)[-2]
    if np.ndim(b) >= 2:
        fields["k"], fields["n"] = np.shape(b)[-2:]
    if c is not None:
        fields["d"] = {"tf32": "f32"}.get(format_of(c), format_of(c))
    if scale_a is not None:
        of = scale_a.format if isinstance(scale_a, Tiled) else format_of(scale_a)
        scale_type = {"e4m3": "ue4m3"}.get(of, of)
        if scale_type != "u8":
            fields["scale_type"] = scale_type
    return _with_fields(mnemonic, **fields)


@overload
def mma(
    instruction: str | Instruction,
    a: NumPyMatrix,
    b: Operand,
    c: Operand | None = ...,
    *,
    return_target: Literal[False] = ...,
    **options: Unpack[MmaOptions],
) -> np.ndarray: ...
@overload
def mma(
    instruction: str | Instruction,
    a: NumPyMatrix,
    b: Operand,
    c: Operand | None = ...,
    *,
    return_target: Literal[True],
    **options: Unpack[MmaOptions],
) -> tuple[np.ndarray, str]: ...
@overload
def mma(
    instruction: str | Instruction,
    a: Tensor,
    b: Operand,
    c: Operand | None = ...,
    *,
    return_target: Literal[False] = ...,
    **options: Unpack[MmaOptions],
) -> Tensor: ...
@overload
def mma(
    instruction: str | Instruction,
    a: Tensor,
    b: Operand,
    c: Operand | None = ...,
    *,
    return_target: Literal[True],
    **options: Unpack[MmaOptions],
) -> tuple[Tensor, str]: ...
@public
def mma(
    instruction: str | Instruction,
    a: Operand,
    b: Operand,
    c: Operand | None = None,
    *,
    target: Target | None = None,
    scale_a: Operand | Tiled | None = None,
    scale_b: Operand | Tiled | None = None,
    metadata: Operand | None = None,
    threads: int = 1,
    return_target: bool = False,
) -> Any:
    """D = A * B + C of one matrix instruction, bit for bit: logical matrices in, D out.

    instruction   a PTX mnemonic, the name of a CUTLASS atom or an Instruction. For the mnemonic of a tcgen05.mma, M, N,
                  K and types come from the arrays.
    a             [..., M, K]. A sparse A has at most the allowed number of nonzero codes in each chunk.
    b             [..., K, N]
    c             [..., M, N] in C's type; None: D = A * B
    scale_a       [..., M, scales] and scale_b [..., scales, N], for instructions with block scales; or
                  bitmma.tiled(...)
    metadata      [..., M, chunks], four bits each as uint8, for a sparse A in stored form, [..., M, K/2]
    target        a GPU: its PTX name, "H100", "9.0", (9, 0). None: `Instruction.default_target`. For mma.sync,
                  results may differ between targets
    threads       0: all cores
    return_target   True: returns (D, target), with the PTX name of the GPU whose bits these are

    The formats are those of the instruction: float16, bfloat16, float32 (tf32 and f32), float8_*, int8 ...; arrays of
    unsigned integers of the same width are raw codes. Leading axes are a batch and broadcast. m8n8k4 of f16, which is
    four products, takes [..., 4, 8, 4], [..., 4, 4, 8] and [..., 4, 8, 8].

    Returns D, [..., M, N], a NumPy array of D's type, or a torch tensor if an operand is one. Raises Error with all
    problems. `threads` changes no bit; the GIL is released during the computation.

    >>> a = np.ones((16, 16), np.float16); b = np.ones((16, 8), np.float16)
    >>> mma("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b)[0, 0]
    np.float32(16.0)
    """
    parsed: Any
    arrays = (a, b, c, scale_a, scale_b, metadata)
    for name, operand in (("a", a), ("b", b)):
        if operand is None:
            raise refuse(name, "None", "a matrix")
    if any(
        _is_torch(operand) and "_x2" in str(getattr(operand, "dtype")) for operand in (a, b)
    ):  # their shapes count bytes
        a, b = to_numpy(a, "a"), to_numpy(b, "b")
    if isinstance(instruction, str):
        parsed = _parsed(instruction.strip())
        if parsed.family == "tcgen05" and "<" not in instruction:  # template arguments of an atom say them
            parsed = _shaped(parsed, a, b, c, scale_a, metadata is not None)
    else:
        parsed = instruction
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        if scale is not None and not parsed.scale_count:
            raise refuse(
                name,
                "given",
                "None: the instruction has no block scales",
                "instructions with .block_scale in their name have them",
            )
    of_a: Any = scale_a.scales(parsed.m, parsed.scale_count) if isinstance(scale_a, Tiled) else scale_a
    of_b: Any = scale_b.scales(parsed.n, parsed.scale_count).T if isinstance(scale_b, Tiled) else scale_b
    a_codes = codes_as(a, parsed.a, "a")
    b_codes = codes_as(b, parsed.b, "b")
    c_codes = None if c is None else codes_as(c, parsed.c, "c")
    scale_a_codes = None if of_a is None else codes_as(of_a, parsed.scale_type, "scale_a")
    scale_b_codes = None if of_b is None else codes_as(of_b, parsed.scale_type, "scale_b")
    nibbles = None if metadata is None else codes_as(metadata, "u8", "metadata")
    operands: tuple[np.ndarray | None, ...] = (a_codes, b_codes, c_codes, scale_a_codes, scale_b_codes, nibbles)
    m, n, products = parsed.m, parsed.n, parsed.products
    if products > 1:
        shapes = {
            "a": (m, parsed.k),
            "b": (parsed.k, n),
            "c": (m, n),
            "scale_a": None,
            "scale_b": None,
            "metadata": None,
        }
        operands = tuple(
            _stacked(array, products, name, shape)
            for array, (name, shape) in zip(operands, shapes.items(), strict=True)
        )
    batch: tuple[int, ...] = ()
    if any(array is not None and array.ndim > 2 for array in operands):
        operands, batch = _batched(operands)
    d = np.empty((*batch, products, m, n) if products > 1 else (*batch, m, n), _dtypes[parsed.d])
    x, y, z, scales_x, scales_y, chosen = operands
    if chosen is not None and chosen.size and chosen.max() > 15:
        raise refuse("metadata", f"numbers up to {chosen.max()}", "0..15: the four bits of a chunk, one chunk per byte")
    try:
        _core.multiply_into(parsed, target, x, y, z, scales_x, scales_y, chosen, d, threads)
    except Error:
        # An instruction that the target lacks has no right shapes.
        if wrong := parsed.violations(target):
            raise Error(wrong) from None
        for name, array, stored in (("a", a_codes, parsed.a), ("b", b_codes, parsed.b)):
            if stored == "e2m1" and array.dtype == np.uint8 and parsed.k // 2 in array.shape[-2:]:
                raise refuse(
                    name,
                    f"shape {array.shape}, half of K",
                    f"K = {parsed.k} codes of e2m1, one per byte",
                    f'for two codes per byte, use bitmma.codes({name}, "e2m1", packed=True)',
                ) from None
        if max(a_codes.shape[-2:], default=0) > 2 * max(parsed.m, parsed.k) or b_codes.shape[-1:] > (2 * n,):
            raise _whole(parsed, a, b) from None
        raise
    d = like(arrays, d)
    return (d, target or parsed.default_target) if return_target else d


@public
def bind(instruction: str | Instruction, target: Target | None = None) -> Bound:
    """An instruction, checked once, for programs that execute it often. `mma` takes logical matrices.

    Its method execute(state) runs an instruction of any family on a state, like `bitmma.execute`. An mma.sync or mma.sp
    is also a function from the registers of a warp to the registers of D.

    The function takes arrays of 32-bit words, [32, registers], with the shapes that `fields` lists; f64 has words of 64
    bits. float32 arrays count as their words.
        a_regs, b_regs, c_regs
        metadata               [32, 1], for a sparse A
        scale_a, scale_b       [32, 1], for block scales
        out                    an array for D, which may be c_regs. None: a new array, uint32 or uint64
        chain                  True: D of each product is C of the next, and the result is the last D
    Arrays of [products, 32, registers] are a batch; the others apply to all of its products.

    Raises Error if the target lacks the instruction, and for operands that it does not have. It takes NumPy's arrays
    alone, for the sake of speed: of a torch tensor pass tensor.numpy().

    >>> run = bind("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_90a")
    >>> ones = np.full((32, 4), 0x3C003C00, np.uint32)
    >>> run(ones, ones[:, :2].copy(), np.zeros((32, 4), np.float32)).view(np.float32)[0]
    array([16., 16., 16., 16.], dtype=float32)
    """
    parsed: Any = _parsed(instruction.strip()) if isinstance(instruction, str) else instruction
    bound: Bound = _core.bind(parsed, target)
    return bound


def _whole(parsed: Instruction, a: Any, b: Any) -> Error:
    return refuse(
        "a and b",
        f"{np.shape(a)} and {np.shape(b)}",
        f"(..., {parsed.m}, {parsed.k}) and (..., {parsed.k}, {parsed.n}): one instruction",
        "bitmma.gemm computes a whole product",
    )


def _stacked(array: np.ndarray | None, products: int, name: str, shape: tuple[int, int] | None) -> np.ndarray | None:
    """[..., products, *shape] in the library's form: products stacked one below the other."""
    if array is None:
        return None
    if shape is None:
        raise refuse(name, f"shape {array.shape}", f"None: an instruction of {products} products has no such operand")
    if array.shape[-3:] != (products, *shape):
        raise refuse(name, f"shape {array.shape}", f"(..., {products}, {shape[0]}, {shape[1]}): one matrix per product")
    return array.reshape(*array.shape[:-3], products * array.shape[-2], array.shape[-1])


def _batched(operands: tuple[np.ndarray | None, ...]) -> tuple[tuple[np.ndarray | None, ...], tuple[int, ...]]:
    """All arrays with a single batch axis, and the shape of the batch. An array without batch axes applies to all."""
    shapes = [array.shape[:-2] for array in operands if array is not None and array.ndim > 2]
    try:
        batch = np.broadcast_shapes(*shapes)
    except ValueError:
        raise refuse("batch axes", " and ".join(map(str, shapes)), "shapes that broadcast") from None
    flat: list[np.ndarray | None] = []
    for array in operands:
        if array is None or array.ndim <= 2 or (len(batch) == 1 and array.shape[:-2] == batch):
            flat.append(array)
        else:
            whole = np.broadcast_to(array, (*batch, *array.shape[-2:]))
            flat.append(whole if len(batch) == 1 else whole.reshape(-1, *array.shape[-2:]))
    return tuple(flat), batch
