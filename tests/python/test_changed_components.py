"""tools/changed-components: which components a change can break."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL = ["core", "products", "kernel", "io", "acts", "c_api", "hardware", "lab", "driver"]


def changed(*paths: str) -> list[str]:
    """What the program prints for a change of these files."""
    printed = subprocess.run(
        [sys.executable, ROOT / "tools/changed-components", "-"],
        input="\n".join(paths),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(printed.stdout)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["sim/core/error.cpp"], ALL),
        (["cmake/components.cmake"], ALL),
        (["sim/gemm/plan.cpp"], ["products", "acts", "c_api", "hardware", "lab"]),
        (["tests/kernel/kernel_test.cpp"], ["kernel", "acts", "c_api", "hardware", "lab", "driver"]),
        (["sim/files/golden.cpp"], ["io", "acts", "c_api", "hardware", "lab", "driver"]),
        (["include/bitmma.h"], ["c_api"]),
        (["sim/driver/memory.cpp", "tools/exec/runtime/memory.cpp"], ["driver"]),
        (["tests/recorded/products_test.cpp", "docs/design.md"], ["acts", "c_api", "hardware", "lab"]),
        (["lab/record_products.py"], ["lab"]),
        (["tools/bitmma/lab/survey.cpp"], ["lab"]),
        (["README.md", "docs/design.md", "python/bitmma/_gemm.py", "tools/bitmma/list.cpp"], []),
    ],
)
def test_a_change_breaks_what_it_touches_and_what_uses_that(paths, expected):
    assert changed(*paths) == expected


def test_an_unknown_commit_asks_for_all():
    printed = subprocess.run(
        [sys.executable, ROOT / "tools/changed-components", "0" * 40], capture_output=True, text=True, check=True
    )
    assert json.loads(printed.stdout) == ALL
