"""The picture of README: the product of its first example by NumPy and by an H100, and how NumPy and bitmma differ.

    python3 tools/picture.py        writes docs/assets/h100_numpy.svg and h100_numpy_dark.svg

The script runs the first Python example of README.md and draws its arrays, so that picture and example are one product.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any, NamedTuple

import numpy as np

_root = pathlib.Path(__file__).resolve().parents[1]
_cell, _gap, _title, _below = 20, 28, 30, 44
_left = 16


class Scheme(NamedTuple):
    """Colours as (red, green, blue); `zero` is the colour of the number 0."""

    name: str
    background: str
    text: str
    line: str
    zero: tuple[int, int, int]
    low: tuple[int, int, int]
    high: tuple[int, int, int]


SCHEMES = (
    Scheme("h100_numpy.svg", "#ffffff", "#1f2328", "#d9dee3", (255, 255, 255), (33, 102, 172), (214, 96, 20)),
    Scheme("h100_numpy_dark.svg", "#0d1117", "#e6edf3", "#30363d", (22, 27, 34), (88, 166, 255), (247, 129, 60)),
)


def _colour(scheme: Scheme, value: float, most: float) -> str:
    share = min(abs(value) / most, 1.0) if most else 0.0
    end = scheme.high if value > 0 else scheme.low
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(scheme.zero, end, strict=True))


def _panel(scheme: Scheme, left: int, top: int, title: str, below: str, values: np.ndarray, most: float) -> list[str]:
    rows, cols = values.shape
    out = [f'<text x="{left}" y="{top + 20}" class="title">{title}</text>']
    for row in range(rows):
        for col in range(cols):
            out.append(
                f'<rect x="{left + col * _cell}" y="{top + _title + row * _cell}" width="{_cell - 1}" '
                f'height="{_cell - 1}" fill="{_colour(scheme, float(values[row, col]), most)}"/>'
            )
    out.append(f'<text x="{left}" y="{top + _title + rows * _cell + 20}">{below}</text>')
    return out


def example() -> dict[str, Any]:
    """The names that the first Python example of README defines."""
    (block, *_) = re.findall(r"^```python\n(.*?)^```$", (_root / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"print": lambda *_: None}
    exec(block, names)
    return names


def picture(scheme: Scheme, names: dict[str, Any]) -> str:
    h100 = np.asarray(names["call"].d, np.float64)
    by_numpy, by_bitmma = (np.asarray(names[name], np.float64) for name in ("by_numpy", "by_bitmma"))
    numpy_error, bitmma_error = by_numpy - h100, by_bitmma - h100
    most, spread = float(abs(h100).max()), float(abs(numpy_error).max())
    differ = [int((error != 0).sum()) for error in (numpy_error, bitmma_error)]
    none = f"{differ[1]} of {h100.size} differ"
    rows, cols = h100.shape
    across, down = cols * _cell + _gap, _title + rows * _cell + _below
    width, height = 2 * across - _gap + 2 * _left, 2 * down + 36
    words = f"NumPy: {differ[0]} of {h100.size} outputs differ from the H100. bitmma: {differ[1]}."
    right = _left + across
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{words}</title>",
        (
            f"<style>text{{font:15px system-ui,sans-serif;fill:{scheme.text}}}.title{{font-size:18px;font-weight:600}}"
            f"rect{{stroke:{scheme.line};stroke-width:1}}</style>"
        ),
        f'<rect width="{width}" height="{height}" fill="{scheme.background}" style="stroke:none"/>',
        *_panel(scheme, _left, 4, "NumPy", f"{-most:.0f} (blue) to {most:.0f} (orange)", by_numpy, most),
        *_panel(scheme, right, 4, "H100", "the same colours", h100, most),
        *_panel(scheme, _left, 4 + down, "NumPy minus H100", f"{-spread:.3f} to {spread:.3f}", numpy_error, spread),
        *_panel(scheme, right, 4 + down, "bitmma minus H100", none, bitmma_error, spread),
        f'<text x="{_left}" y="{height - 14}" class="title">{words}</text>',
        "</svg>",
    ]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    for scheme in SCHEMES:
        (_root / "docs" / "assets" / scheme.name).write_text(picture(scheme, example()))
