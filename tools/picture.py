"""The picture of README: a product by NumPy, the same product by an H100, and the difference.

    python3 tools/picture.py > docs/assets/h100_numpy.svg

The H100's bits are the recorded ones, data/products/nvjet_fast_e4m3_k2560.safetensors: 8 x 16 outputs of an fp8 product
with K = 2560, by cuBLAS. Below: how many outputs of `bitmma.gemm` equal those of the H100.
"""

from __future__ import annotations

import pathlib

import numpy as np

import bitmma

PRODUCT = "nvjet_fast_e4m3_k2560"
_root = pathlib.Path(__file__).resolve().parents[1]
_cell, _gap, _top = 18, 26, 44


def _mixed(low: tuple[int, int, int], high: tuple[int, int, int], share: float) -> str:
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(low, high, strict=True))


def _colour(value: float, most: float) -> str:
    """White at zero, blue below, orange above."""
    share = min(abs(value) / most, 1.0)
    return _mixed((255, 255, 255), (214, 96, 20) if value > 0 else (33, 102, 172), share)


def _panel(left: int, title: str, below: str, values: np.ndarray) -> list[str]:
    rows, cols = values.shape
    most = float(abs(values).max())
    out = [f'<text x="{left}" y="28" class="title">{title}</text>']
    for row in range(rows):
        for col in range(cols):
            out.append(
                f'<rect x="{left + col * _cell}" y="{_top + row * _cell}" width="{_cell - 1}" height="{_cell - 1}" '
                f'fill="{_colour(float(values[row, col]), most)}"/>'
            )
    out.append(f'<text x="{left}" y="{_top + rows * _cell + 20}">{below}</text>')
    return out


def picture() -> str:
    product = bitmma.read_product(_root / "data" / "products" / f"{PRODUCT}.safetensors")
    numpy = product.a.astype(np.float32) @ product.b.astype(np.float32)
    h100 = np.asarray(product.d)
    simulated = bitmma.gemm(product.a, product.b, kernel=product.kernel)
    difference = h100.astype(np.float64) - numpy
    differ, same = int((numpy != h100).sum()), int((simulated.view(np.uint32) == h100.view(np.uint32)).sum())
    (rows, cols), of = h100.shape, h100.size
    step = cols * _cell + _gap
    width, height = 3 * step - _gap + 32, _top + rows * _cell + 64
    most = float(abs(h100).max())
    spread = float(abs(difference).max())
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{differ} of {of} outputs of NumPy differ from the H100's; bitmma gives {same} of {of}</title>",
        "<style>text{font:14px system-ui,sans-serif;fill:#333}.title{font-size:17px;font-weight:600}</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_panel(16, "NumPy, float32", f"-{most:.0f} (blue) to {most:.0f} (orange)", numpy),
        *_panel(16 + step, "NVIDIA H100, cuBLAS fp8", "the same colours", h100),
        *_panel(16 + 2 * step, "H100 minus NumPy", f"-{spread:.2f} to {spread:.2f}", difference),
        (
            f'<text x="16" y="{height - 14}" class="title">{differ} of {of} outputs of NumPy differ from the H100. '
            f"bitmma gives the H100's bits in {same} of {of}.</text>"
        ),
        "</svg>",
    ]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(picture(), end="")
