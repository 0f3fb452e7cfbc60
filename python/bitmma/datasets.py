# SPDX-License-Identifier: MIT
"""Recorded products that are installed with the package, for examples and tests.

    product = bitmma.datasets.load("nvjet_algo2_e4m3")   fp8 of cuBLAS on an H100: A 8 x 1024, B 1024 x 16, recorded D
    (product.gemm() == product.d).all()                  True: every bit

The project's data folder has more; bitmma.read_product reads any.
"""

from pathlib import Path

from ._arguments import public
from ._errors import near, refuse
from ._product import Product, read_product

__all__ = ["load", "names", "path"]


def __dir__() -> list[str]:
    return sorted(__all__)


_folder = Path(__file__).parent / "data"


@public
def names() -> list[str]:
    """The names of the recorded products."""
    return sorted(file.stem for file in _folder.glob("*.safetensors"))


@public
def path(name: str) -> Path:
    """The path of a product's file, for example for `bitmma gemm`. Raises Error if no product has the name."""
    if name not in names():
        raise refuse("name", name, "one of " + ", ".join(names()), near(name, names()))
    return _folder / f"{name}.safetensors"


@public
def load(name: str) -> Product:
    """Reads a product by its name, as bitmma.read_product does. Raises Error if no product has the name."""
    return read_product(path(name))
