"""A NumPy array as Triton wants its arguments, so that tests need no torch."""

from __future__ import annotations

import numpy as np


class Storage:
    """The memory behind arrays; on a CPU the host's copy is the device's."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def nbytes(self) -> int:
        return self.array.nbytes

    def cpu(self) -> Storage:
        return self

    def copy_(self, other: Storage) -> None:
        assert other.array is self.array


class Array:
    """What torch.Tensor is to Triton: data_ptr, dtype, and a view of one storage."""

    def __init__(self, array: np.ndarray):
        assert array.flags.c_contiguous
        self.set_(Storage(array), 0, array.shape, None)

    @property
    def dtype(self) -> str:
        return self.storage.array.dtype.name

    def data_ptr(self) -> int:
        return self.storage.data_ptr()

    def untyped_storage(self) -> Storage:
        return self.storage

    def element_size(self) -> int:
        return self.storage.array.itemsize

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.shape

    def stride(self) -> None:
        return None

    def new_empty(self, count: int, device: str) -> Array:
        return Array(np.empty(count, self.storage.array.dtype))

    def set_(self, storage: Storage, offset: int, shape: tuple[int, ...], stride: None) -> None:
        self.storage, self.shape = storage, shape
