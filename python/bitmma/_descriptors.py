# SPDX-License-Identifier: MIT
"""Decodes and encodes descriptors and mnemonics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ._arguments import core as _core, path_of, public, word_of
from ._core import Instruction
from ._errors import Error, count_of, refuse, shown, text_of
from ._mma import _parsed, evidence
from ._types import Target


def _text_or_path(value: Any, field: str) -> str:
    return (
        str(text_of(value, field, "wgmma.fence;\n"))
        if isinstance(value, str) and "\n" in value
        else path_of(value, field)
    )


def _swizzle(value: Any, field: str) -> str:
    """128 and "128B" are "128"."""
    return str(text_of(shown(value) if type(value) is int else value, field, "128")).removesuffix("B")


@public
def decode(
    what: int | str | Instruction, *, target: Target | None = None, kind: str | None = None, major: str | None = None
) -> dict[str, Any]:
    """The fields of a descriptor, or the description of an instruction, as a dictionary.

    what     a shared-memory descriptor (a number, or text such as "0x4000004000010000"), with `kind` a tcgen05
             instruction descriptor, or PTX text, or the name of a CUTLASS atom, or lines of SASS
    target   default: sm_90a for descriptors, the instruction's own for instructions
    kind     f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 or ti16: the word is an instruction descriptor
    major    "k" or "mn", for better warnings

    >>> decode(0x4000004000010000)["fields"]["stride_dim_byte_offset"]
    1024
    """
    if isinstance(what, str) and what.strip()[:1].isdigit():
        what = word_of(what, "word")
    if isinstance(what, str) and _core.is_sass(str(text_of(what, "what", "wgmma..."))):
        return dict(_core.describe_ptx_file("SASS", what, target))
    if isinstance(what, (str, Instruction)):
        parsed = _parsed(str(text_of(what, "what", "wgmma..."))) if isinstance(what, str) else what
        for name, value in (("kind", kind), ("major", major)):
            if value is not None:
                raise refuse(name, value, f"None for an instruction: {name} tells how to decode a word")
        report: dict[str, Any] = {"instruction": str(parsed), "family": parsed.family, "targets": parsed.targets}
        if parsed.is_mma:
            report |= {
                "m": parsed.m,
                "n": parsed.n,
                "k": parsed.k,
                "d": parsed.d,
                "a": parsed.a,
                "b": parsed.b,
                "c": parsed.c,
                "sparse": parsed.sparse,
                "scale_count": parsed.scale_count,
                "a_source": parsed.a_source,
            }
        report["immediates"] = parsed.immediates
        report["evidence"] = evidence(parsed, target)._asdict() if not parsed.violations(target) else None
        report["violations"] = parsed.violations(target)
        return report
    what = word_of(what, "word")
    if kind is not None:
        kind = kind.removeprefix("kind::")
    if major is not None:
        major = major.lower()
    bits = 64 if kind is None else 32
    if not 0 <= what < 1 << bits:
        raise refuse("word", hex(what), f"a number of {bits} bits")
    fields: Any = _core.decode_smem(what, target or "sm_90a", major) if kind is None else _core.decode_idesc(kind, what)
    return fields


@public(ptx=_text_or_path)
def decode_ptx(ptx: str | os.PathLike[str], *, target: Target | None = None) -> dict[str, Any]:
    """Describes the tensor-core statements of a PTX file, and names those that are illegal on its target.

    `ptx` is the path of a file, or PTX text; CUDA C++ with inline PTX and SASS listings are also
    supported. The default `target` is the file's .target.

    >>> decode_ptx(".target sm_90a\\nwgmma.fence.sync.aligned;")["counts"]
    {'wgmma.fence.sync.aligned': 1}
    """
    is_text = isinstance(ptx, str) and ("\n" in ptx or ptx.rstrip().endswith((";", "}")))
    try:
        name = "PTX" if is_text else str(ptx)
        text = str(ptx) if is_text else Path(_core.located(name)).read_text(errors="replace")
    except OSError as error:
        raise refuse(
            str(ptx), str(error.strerror), "a readable file, or PTX text: lines, or a statement with its semicolon"
        ) from error
    description: Any = _core.describe_ptx_file(name, text, target)
    return dict(description)


@public(swizzle=_swizzle, base_offset=count_of)
def encode(
    instruction: str | Instruction | None = None,
    *,
    target: Target | None = None,
    start: int | None = None,
    lbo: int | None = None,
    sbo: int | None = None,
    base_offset: int | None = None,
    swizzle: str | int | None = None,
    absolute: bool | None = None,
    start_address: int | None = None,
    leading_byte_offset: int | None = None,
    stride_byte_offset: int | None = None,
    leading_absolute: bool | None = None,
) -> int:
    """Makes a shared-memory descriptor from its fields, in bytes, or the instruction descriptor of a tcgen05
    instruction.

    The names are those of `bitmma encode descriptor`: start, lbo, sbo, base_offset, swizzle, absolute; the long names
    are aliases. `swizzle` is "none", "32", "64", "128" or, on sm_100a, "128-atom32". Omitted fields default to those
    of a K-major tile with 128-byte swizzle: start 0, lbo 16, sbo 1024, base_offset 0, swizzle "128", absolute
    False. The default `target` is sm_90a. If an instruction is given, fields are an error, and so is a `target` that
    lacks the instruction.

    >>> hex(encode(swizzle="128", sbo=1024))
    '0x4000004000010000'
    """
    stated: dict[str, Any] = {
        "start": start,
        "lbo": lbo,
        "sbo": sbo,
        "base_offset": base_offset,
        "swizzle": swizzle,
        "absolute": absolute,
    }
    for name, long, value in (
        ("start", "start_address", start_address),
        ("lbo", "leading_byte_offset", leading_byte_offset),
        ("sbo", "stride_byte_offset", stride_byte_offset),
        ("absolute", "leading_absolute", leading_absolute),
    ):
        if value is None:
            continue
        if stated[name] not in (None, value):
            raise refuse(
                long, value, f"{stated[name]}, the value of {name}", "both name the same field", code="contradiction"
            )
        stated[name] = value
    stated = {name: value for name, value in stated.items() if value is not None}
    if instruction is not None:
        if stated:
            raise refuse(next(iter(stated)), "given", "None with an instruction: its descriptor has no such field")
        parsed = _parsed(instruction.strip()) if isinstance(instruction, str) else instruction
        if target is not None and (wrong := parsed.violations(target)):
            raise Error(wrong)
        return _core.encode_idesc(parsed)
    if not stated:
        raise refuse(
            "encode",
            "no field",
            "a tcgen05 instruction, or start, lbo, sbo, base_offset, swizzle or absolute",
            code="missing_argument",
        )
    fields = {"start": 0, "lbo": 16, "sbo": 1024, "base_offset": 0, "swizzle": "128", "absolute": False, **stated}
    return _core.encode_smem(target or "sm_90a", *fields.values())
