# SPDX-License-Identifier: MIT
"""Displays results in a notebook: HTML tables and SVG curves."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """An HTML table of texts; Marked cells are red."""

    def cell(value: Any) -> str:
        style = " style='color:#c00'" if isinstance(value, Marked) else ""
        return f"<td{style}>{html.escape(str(value))}</td>"

    above = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(cell(value) for value in row)}</tr>" for row in rows)
    return f"<table>{above}<tr>{names}</tr>{body}</table>"


class Marked(str):
    """A highlighted text."""


def explanation(fields: dict[str, Any], text: str) -> str:
    """The terms as a table, with dropped parts in red; below it the sum and the results of other adders."""
    rows = []
    for term in fields.get("terms", []):
        dropped = term.get("dropped", 0)
        rows.append(
            (
                term.get("k", ""),
                f"{term.get('a', '')} ({term.get('a_value', '')})",
                f"{term.get('b', '')} ({term.get('b_value', '')})",
                term.get("exponent", ""),
                term.get("kept", ""),
                Marked(f"{dropped:.4g}") if term.get("bits_dropped") else "",
            )
        )
    head, _, rest = text.partition("\n\n")
    below = rest.partition("\n\n")[2] or rest
    if not rows:
        return f"<pre>{html.escape(text)}</pre>"
    return table(("k", "a", "b", "exponent", "kept", "dropped"), rows, head) + f"<pre>{html.escape(below)}</pre>"


def curve(x: np.ndarray, y: np.ndarray, x_name: str, y_name: str) -> str:
    """An SVG of y over x with a line at y = 0; it starts at (0, 0), before the first addition, and shows its bounds."""
    xs, ys = np.concatenate([[0.0], x]), np.concatenate([[0.0], y])
    least, most, last = ys.min(), ys.max(), xs.max()
    # Scaled before it is subtracted: the span of two errors may exceed a double's greatest.
    span = most / 2 - least / 2 or 1.0
    across = 90 + xs / (last or 1.0) * 480
    down = 20 + (most / 2 - ys / 2) / span * 140
    zero = 20 + most / 2 / span * 140
    points = " ".join(f"{right:.1f},{below:.1f}" for right, below in zip(across, down, strict=True))

    def word(right: int, below: int, anchor: str, text: str) -> str:
        return f"<text x='{right}' y='{below}' text-anchor='{anchor}'>{html.escape(text)}</text>"

    return (
        "<svg xmlns='http://www.w3.org/2000/svg' width='600' height='200' font-family='sans-serif' font-size='11'>"
        f"<path d='M90 20V160M90 {zero:.1f}H570' stroke='#999'/>"
        f"<polyline points='{points}' fill='none' stroke='#c00'/>"
        + word(90, 12, "middle", y_name)
        + word(84, 24, "end", f"{most:.4g}")
        + (word(84, 164, "end", f"{least:.4g}") if least < most else "")
        + word(90, 180, "middle", "0")
        + word(570, 180, "middle", f"{x_name} = {last:g}")
        + "</svg>"
    )


def plan(text: str, fields: dict[str, Any], evidence: dict[str, str]) -> str:
    """A plan, one row per field, with its evidence."""
    return table(
        ("field", "value", "evidence"), ((name, value, evidence.get(name, "")) for name, value in fields.items()), text
    )


def diagnosis(result: Any) -> str:
    """The findings that explain wrong outputs, one per row."""
    tried = f"{result.tried} faults were tried"
    caption = f"{result.wrong} of {result.outputs} outputs in {result.cases} cases are wrong; {tried}"
    rows = [
        (
            " and ".join(fault.what for fault in finding.faults),
            finding.wrong_explained,
            finding.right_broken,
            "; ".join(fault.fix for fault in finding.faults),
        )
        for finding in result.findings
    ]
    return table(("what fits", "wrong outputs explained", "right ones broken", "fix"), rows, caption)


def arrays(name: str, fields: dict[str, Any]) -> str:
    """A short repr: type and shape of arrays, without absent parts."""

    def short(value: Any) -> str:
        if isinstance(value, np.ndarray) and value.ndim:
            return f"{value.dtype} {list(value.shape)}"
        if isinstance(value, dict):
            return f"{len(value)} keys"
        return f"{len(value)} numbers" if isinstance(value, list) else repr(value)

    shown = ", ".join(
        f"{key}={short(value)}"
        for key, value in fields.items()
        if value is not None and not (isinstance(value, (list, dict)) and not value)
    )
    return f"{name}({shown})"
