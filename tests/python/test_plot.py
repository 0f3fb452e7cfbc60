"""Pictures of differences: what the axes show. Without matplotlib, an error that says what to install."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

import bitmma


def axes_of(function, *arrays):
    matplotlib = pytest.importorskip("matplotlib", reason="NOT checked: matplotlib is not installed")
    matplotlib.use("Agg")
    axes = function(*arrays)
    axes.figure.canvas.draw()
    return axes


def test_the_histogram_counts_the_outputs_by_their_difference():
    expected = np.float32([1, 1, 1, 1, np.nan])
    actual = expected.copy()
    actual[1] = np.nextafter(np.float32(1), np.float32(2))
    actual[2:4] += np.float32(2) ** -20
    axes = axes_of(bitmma.plot.errors, actual, expected)
    counts = {(bar.get_x(), bar.get_x() + bar.get_width()): bar.get_height() for bar in axes.patches}
    ulps = {edges: count for edges, count in counts.items() if count}
    assert ulps == {(-0.5, 0.5): 2, (0.5, 1.5): 1, (4.5, 8.5): 2}
    assert axes.get_title() == "3 of 5 outputs differ" and axes.get_xlabel() == "difference in ulp of f32"


def test_the_map_shows_where_outputs_differ_and_what_is_no_number():
    expected = np.ones((4, 6), np.float16)
    actual = expected.copy()
    actual[1, 2] = 1.5
    actual[3, 5] = np.nan
    axes = axes_of(bitmma.plot.mismatches, actual, expected)
    (image,) = axes.get_images()
    shown = image.get_array()
    assert shown.shape == (4, 6) and shown[1, 2] == 512 and shown[0, 0] == 0 and shown.mask[3, 5]
    assert np.count_nonzero(shown.filled(1)) == 2
    assert axes.get_title() == "2 of 24 outputs differ, 1 of them NaN or infinity"
    assert axes_of(bitmma.plot.mismatches, expected, expected).get_title() == "0 of 24 outputs differ"


def test_axes_of_the_caller_are_drawn_into():
    plt = pytest.importorskip("matplotlib.pyplot", reason="NOT checked: matplotlib is not installed")
    figure, both = plt.subplots(2)
    x = np.ones((2, 2), np.float32)
    assert bitmma.plot.errors(x, x, both[0]) is both[0] and bitmma.plot.mismatches(x, x, axes=both[1]) is both[1]
    assert both[0].figure is figure


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    x = np.ones((2, 2), np.float32)
    for function in (bitmma.plot.errors, bitmma.plot.mismatches):
        with pytest.raises(bitmma.Error, match="pip install matplotlib"):
            function(x, x)
    with pytest.raises(bitmma.Error, match="a matrix"):
        bitmma.plot.mismatches(x[0], x[0])
    with pytest.raises(bitmma.Error, match="shape of expected"):
        bitmma.plot.errors(x, x[0])
