"""The scripts of lab: Python, without circles, and each in lab/README.md."""
from __future__ import annotations

import ast
import graphlib

from conftest import ROOT

LAB = ROOT / "lab"


def imported(path) -> set[str]:
    """The names of modules that a file imports, also inside of functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name.split(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def test_no_scripts_import_each_other_in_a_circle():
    scripts = {path.stem: imported(path) for path in LAB.glob("*.py")}
    assert len(scripts) > 10
    order = graphlib.TopologicalSorter({name: names & scripts.keys() for name, names in scripts.items()}).static_order()
    assert set(order) == scripts.keys()


def test_recorders_of_pytorch_calls_do_not_import_bitmma():
    recorders = [path for path in LAB.glob("record_*.py") if "torch" in imported(path)]
    assert len(recorders) >= 5
    assert [path.name for path in recorders if "bitmma" in imported(path)] == []


def test_readme_names_every_file():
    text = (LAB / "README.md").read_text()
    assert [path.name for path in sorted(LAB.iterdir()) if path.is_file() and path.name != "README.md" and f"`{path.name}`" not in text] == []
