# SPDX-License-Identifier: MIT
"""Philox4x32-10 (Salmon et al., 2011), the generator of recorded operands and, as cuRAND has it, of PyTorch on a
GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_low = np.uint64(0xFFFFFFFF)


def rounds(c: list[Any], seed: int, integer: Callable[[int], Any]) -> list[Any]:
    """The four words of counters `c`, arrays of 64-bit integers; `integer` makes a constant that acts on them. The
    recorders of lab call it with signed tensors of PyTorch: their products wrap, and both halves are right all the
    same."""
    low, half = integer(0xFFFFFFFF), integer(32)
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        p0, p1 = c[0] * integer(0xD2511F53), c[2] * integer(0xCD9E8D57)
        c = [
            ((p1 >> half) & low) ^ c[1] ^ integer(key[0]),
            p1 & low,
            ((p0 >> half) & low) ^ c[3] ^ integer(key[1]),
            p0 & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def philox(block: Any, stream: Any, seed: int) -> list[np.ndarray]:
    """The four words, uint64 below 2^32, of each counter: `block` is its lower half, `stream` its upper one."""
    block, stream = (np.asarray(array, np.uint64) for array in np.broadcast_arrays(block, stream))
    return rounds([block & _low, block >> np.uint64(32), stream & _low, stream >> np.uint64(32)], seed, np.uint64)


def uniform_of_torch(count: int, seed: int, offset: int, multiprocessors: int) -> np.ndarray:
    """float32 [count] in (0, 1]: the numbers that a kernel of PyTorch draws for the elements of a tensor, such as
    `exponential_`. `offset` is that of the generator before the call
    (torch.cuda.default_generators[0].get_offset())."""
    grid = min(8 * multiprocessors, -(-count // 256))  # blocks of 256 threads, 2,048 threads on a multiprocessor
    stride, element = 256 * grid, np.arange(count)
    loop, place = element // (4 * stride), element % (4 * stride)
    words = np.stack(philox(loop + offset // 4, place % stride, seed))[place // stride, element]
    return (words.astype(np.float32).astype(np.float64) * 2.0**-32 + 2.0**-33).astype(np.float32)
