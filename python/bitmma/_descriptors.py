"""Words taken apart and put together: descriptors, mnemonics."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from . import _core
from ._core import Instruction
from ._errors import count_of, refuse
from ._mma import _parsed, evidence


def decode(what: int | str | Instruction, *, target: str | None = None, kind: str | None = None,
           major: str | None = None) -> dict[str, Any]:
    """What a word or an instruction says, as a dictionary.

    what     a shared-memory descriptor (a number, or text such as "0x4000004000010000"), with `kind` a tcgen05
             instruction descriptor, or PTX text
    target   sm_90a for descriptors where it is left out; instructions mean one themselves
    kind     f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4 or mxf4nvf4: the word is an instruction descriptor
    major    "k" or "mn", for better warnings

    >>> decode(0x4000004000010000)["fields"]["stride_dim_byte_offset"]
    1024
    """
    if isinstance(what, str) and what.strip()[:1].isdigit():
        digits = what.strip().removesuffix("ULL").removesuffix("ull").replace("'", "").replace("_", "")
        if len(digits) == 16 and digits.isdigit():
            raise refuse("word", what, "a number that can be read in one way", f"0x{digits} in hex, or {int(digits):#x}")
        try:
            what = int(digits, 0)
        except ValueError:
            raise refuse("word", what, "a number, such as 0x4000004000010000") from None
    if isinstance(what, (str, Instruction)):
        one = _parsed(what) if isinstance(what, str) else what
        said: dict[str, Any] = {"instruction": str(one), "family": one.family, "targets": one.targets}
        if one.is_mma:
            said |= {"m": one.m, "n": one.n, "k": one.k, "d": one.d, "a": one.a, "b": one.b, "c": one.c,
                     "sparse": one.sparse, "scale_count": one.scale_count, "a_source": one.a_source}
        said["immediates"] = one.immediates
        said["evidence"] = evidence(one, target)._asdict() if not one.violations(target) else None
        said["violations"] = one.violations(target)
        return said
    what = count_of(what, "word")
    if kind is not None:
        kind = kind.removeprefix("kind::")
    if major is not None:
        major = major.lower()
    if not 0 <= what < 1 << (32 if kind else 64):
        raise refuse("word", hex(what), f"a number of {32 if kind else 64} bits")
    fields: Any = _core.decode_smem(what, target or "sm_90a", major) if kind is None else _core.decode_idesc(kind, what)
    return fields


def decode_ptx(ptx: str | os.PathLike[str], *, target: str | None = None) -> dict[str, Any]:
    """What the statements about tensor cores in a PTX file say, and which of them are illegal on its target.

    `ptx` is the path of a file, or PTX text of several lines; CUDA C++ with inline PTX and listings of SASS are read,
    too. Without `target` the file's .target counts.

    >>> decode_ptx(".target sm_90a\\nwgmma.fence.sync.aligned;")["counts"]
    {'wgmma.fence.sync.aligned': 1}
    """
    is_text = isinstance(ptx, str) and "\n" in ptx
    name, text = ("PTX", str(ptx)) if is_text else (os.fspath(ptx), Path(ptx).read_text(errors="replace"))
    said: Any = _core.describe_ptx_file(name, text, target)
    return dict(said)


def encode(instruction: Instruction | None = None, *, target: str = "sm_90a", start_address: int = 0,
           leading_byte_offset: int = 16, stride_byte_offset: int = 1024, base_offset: int = 0, swizzle: str = "128",
           leading_absolute: bool = False) -> int:
    """A shared-memory descriptor from its fields, in bytes; of an instruction of tcgen05 its instruction descriptor.

    `swizzle` is "none", "32", "64", "128" or, on sm_100a, "128-atom32".

    >>> hex(encode(swizzle="128", stride_byte_offset=1024))
    '0x4000004000010000'
    """
    if isinstance(instruction, str):
        instruction = _parsed(instruction.strip())
    if instruction is not None:
        return _core.encode_idesc(instruction)
    return _core.encode_smem(target, start_address, leading_byte_offset, stride_byte_offset, base_offset,
                             str(swizzle).removesuffix("B"), leading_absolute)
