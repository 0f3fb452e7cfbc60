# SPDX-License-Identifier: MIT
"""Small recordings that are installed with the package, for examples and tests.

    product = bitmma.datasets.load("nvjet_algo2_e4m3")   fp8 of cuBLAS on an H100: A 8 x 1024, B 1024 x 16, recorded D
    (product.gemm() == product.d).all()                  True: every bit
    bitmma.verify("dataset:wgmma_f16")                   the name of a file may be that of a dataset

The program reads them too: `bitmma gemm dataset:nvjet_fast_e4m3 --find`, and `bitmma list datasets` describes them.
The project's data folder has more recordings.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arguments import public
from ._errors import near, refuse
from ._names import no_such_name
from ._product import Product, read_product
from ._safetensors import read_safetensors

__all__ = ["about", "load", "metadata", "names", "path", "tensors"]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # checkers report such names themselves

    def __getattr__(name: str) -> Any:
        raise no_such_name(__name__, name, __all__)


_folder = Path(__file__).parent / "data"


def _index() -> dict[str, dict[str, str]]:
    index: dict[str, dict[str, str]] = json.loads((_folder / "index.json").read_text())
    return index


def _row(name: str, kinds: tuple[str, ...] = ()) -> dict[str, str]:
    index = _index()
    if name not in index:
        raise refuse("name", name, "one of " + ", ".join(index), near(name, index))
    row = index[name]
    if kinds and row["kind"] not in kinds:
        reader = {"PTX": "path(name).read_text()", "capture": f'bitmma.replay("dataset:{name}")'}
        legal = "one of " + ", ".join(known for known in index if index[known]["kind"] in kinds)
        seen = f"{name}, a dataset of kind {row['kind']}"
        raise refuse("name", seen, legal, f"use {reader.get(row['kind'], f'tensors({name!r})')}")
    return row


@public
def names() -> list[str]:
    """The names of the datasets."""
    return sorted(_index())


@public
def about(name: str) -> dict[str, str]:
    """What a dataset is: "kind" (product, vector file, tensors, PTX or capture), "about", "source" (what computed it,
    and when) and "file". Raises Error if no dataset has the name."""
    return _row(name)


@public
def path(name: str) -> Path:
    """The path of a dataset's file, or of a capture's folder. Raises Error if no dataset has the name."""
    return _folder / _row(name)["file"]


@public
def load(name: str) -> Product:
    """Reads a product by its name, as bitmma.read_product does. Raises Error if no product has the name."""
    return read_product(_folder / _row(name, ("product",))["file"])


@public
def tensors(name: str) -> dict[str, np.ndarray]:
    """The arrays of a product, a vector file or a file of tensors, by their names. Raises Error for other datasets."""
    file = _row(name, ("product", "vector file", "tensors"))["file"]
    return dict(read_safetensors(_folder / file)[1])


@public
def metadata(name: str) -> dict[str, str]:
    """What the file of a product, a vector file or of tensors says about itself, such as the GPU, the driver and the
    call. Raises Error for other datasets."""
    file = _row(name, ("product", "vector file", "tensors"))["file"]
    return read_safetensors(_folder / file)[0]
