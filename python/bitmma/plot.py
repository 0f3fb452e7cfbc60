# SPDX-License-Identifier: MIT
"""Pictures of how two results differ, drawn by matplotlib, which is not a dependency of the package.

    bitmma.plot.errors(numpy_d, call.d)        how many outputs differ by how many ulp
    bitmma.plot.mismatches(numpy_d, call.d)    which outputs of a matrix differ, and by how much

Each function draws into `axes`, or into a figure of its own, and returns the axes: `.figure.savefig("errors.png")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._arguments import public
from ._errors import Error, refuse
from ._names import no_such_name
from ._types import ArrayLike, Axes
from .testing import _both, _order, _values

__all__ = ["errors", "mismatches"]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # checkers report such names themselves

    def __getattr__(name: str) -> Any:
        raise no_such_name(__name__, name, __all__)


def _axes(axes: Any) -> Any:
    if axes is not None:
        if not hasattr(axes, "set_xlabel"):
            raise refuse("axes", type(axes).__name__, "axes of matplotlib", "figure, axes = plt.subplots()")
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise Error(
            f"bitmma.plot needs matplotlib: pip install matplotlib ({error}); bitmma.testing.difference describes the "
            "same in words"
        ) from None
    return plt.subplots(layout="constrained")[1]


def _ulps(actual: Any, expected: Any) -> tuple[np.ndarray, np.ndarray, str]:
    """The difference of each output in ulp, whether its bits differ, and the format. NaN if only one is a number."""
    format, codes, other = _both(actual, expected)
    wrong = codes != other
    flat, flat_other = codes.reshape(-1), other.reshape(-1)
    steps = (_order(flat, format) - _order(flat_other, format)).astype(np.float64)
    finite = np.isfinite(_values(flat, format)) & np.isfinite(_values(flat_other, format))
    steps[~finite & wrong.reshape(-1)] = np.nan
    return steps.reshape(codes.shape), wrong, format


def _count(wrong: np.ndarray, steps: np.ndarray) -> str:
    text = f"{int(wrong.sum())} of {wrong.size} outputs differ"
    unordered = int(np.isnan(steps).sum())
    return text + (f", {unordered} of them NaN or infinity" if unordered else "")


def _ticks(most: float) -> list[float]:
    """0, and at most three powers of ten on either side: the labels of more overlap."""
    powers = range(len(str(int(most))))
    chosen = [10.0**power for power in powers[:: -max(1, -(-len(powers) // 3))]]
    return sorted([*(-tick for tick in chosen), 0.0, *chosen])


@public
def errors(actual: ArrayLike, expected: ArrayLike, axes: Any = None) -> Axes:
    """A histogram: the difference of each output from the expected one in ulp, the steps between neighbouring numbers.
    Equal outputs are the bar at 0; both axes are logarithmic away from it.

    actual, expected   arrays of one format and shape: NumPy, torch, JAX, or bitmma.codes(array, format)
    axes               of matplotlib, to draw into

    Raises Error if formats or shapes differ, and if matplotlib is not installed.
    """
    steps, wrong, format = _ulps(actual, expected)
    axes = _axes(axes)
    numbers = steps[~np.isnan(steps)]
    most = max(1.0, float(np.abs(numbers).max(initial=0)))
    # Bars of one ulp up to 4, and of a power of two beyond.
    ends = [0.5, 1.5, 2.5, 3.5, 4.5]
    while ends[-1] < most:
        ends.append(2 * ends[-1] - 0.5)
    edges = np.array([*(-end for end in reversed(ends)), *ends])
    counts, _ = np.histogram(numbers, edges)
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color="#3b6ea5", edgecolor="white", linewidth=0.5)
    axes.set_xscale("symlog", linthresh=4.5)
    axes.set_xticks(_ticks(most))
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"difference in ulp of {format}")
    axes.set_ylabel("outputs")
    axes.set_title(_count(wrong, steps))
    drawn: Axes = axes
    return drawn


@public
def mismatches(actual: ArrayLike, expected: ArrayLike, axes: Any = None) -> Axes:
    """A map of a matrix: white where the bits are equal, otherwise the difference in ulp, red above and blue below the
    expected number; black where it is NaN or infinity.

    actual, expected   matrices of one format and shape
    axes               of matplotlib, to draw into

    Raises Error if formats or shapes differ, for arrays that have not two axes, and if matplotlib is not installed.
    """
    steps, wrong, format = _ulps(actual, expected)
    if steps.ndim != 2:
        raise refuse("actual", f"shape {steps.shape}", "a matrix", "reshape it to (rows, columns)")
    axes = _axes(axes)
    import matplotlib
    from matplotlib.colors import SymLogNorm

    most = max(1.0, float(np.nanmax(np.abs(steps), initial=0)))
    shown = np.ma.masked_invalid(np.where(wrong & (steps == 0), np.nan, steps))
    colours = matplotlib.colormaps["bwr"].with_extremes(bad="black")
    image = axes.imshow(shown, cmap=colours, norm=SymLogNorm(1, vmin=-most, vmax=most), interpolation="nearest")
    axes.figure.colorbar(image, ax=axes, label=f"difference in ulp of {format}", ticks=_ticks(most))
    axes.set_xlabel("column")
    axes.set_ylabel("row")
    axes.set_title(_count(wrong, steps))
    drawn: Axes = axes
    return drawn
