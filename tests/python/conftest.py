"""What the tests share: where the data is, bits that are equal or not."""

from __future__ import annotations

import pathlib
import tarfile

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "data"


def bits(array) -> np.ndarray:
    """The codes of an array; NaN payloads and zero signs count."""
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.dtype.itemsize}")


def same_bits(array, other) -> bool:
    return array.dtype == other.dtype and array.shape == other.shape and bool((bits(array) == bits(other)).all())


@pytest.fixture(scope="session")
def recorded_calls(tmp_path_factory) -> list[pathlib.Path]:
    """The files of the recorded calls of libraries, unpacked."""
    folder = tmp_path_factory.mktemp("recorded")
    for archive in sorted((DATA / "products").glob("recorded*.tar.xz")):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else packed.extractall(folder)
    files = sorted(folder.rglob("*.safetensors"))
    assert files, "the archive holds calls"
    return files
