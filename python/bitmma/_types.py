# SPDX-License-Identifier: MIT
"""Types of arguments, for editors and type checkers."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np


class SupportsArray(Protocol):
    """Arrays of torch, JAX and others."""

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray: ...


class SupportsDLPack(Protocol):
    """Arrays that other libraries can access."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


ArrayLike = np.ndarray | SupportsArray | SupportsDLPack
"""Types of operands: arrays of NumPy, torch and JAX, bitmma.Codes, and objects with DLPack."""

TargetName = Literal[
    "sm_70",
    "sm_72",
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_88",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100",
    "sm_100a",
    "sm_100f",
    "sm_101",
    "sm_101a",
    "sm_101f",
    "sm_103",
    "sm_103a",
    "sm_103f",
    "sm_107",
    "sm_107a",
    "sm_107f",
    "sm_110",
    "sm_110a",
    "sm_110f",
    "sm_120",
    "sm_120a",
    "sm_120f",
    "sm_121",
    "sm_121a",
    "sm_121f",
]

Target = TargetName | str | float | tuple[int, int]
"""A GPU: its PTX name, "H100", a compute capability as "9.0", 90 or (9, 0)."""
