"""The scripts of lab: Python, without circles, and each in lab/README.md."""

from __future__ import annotations

import ast
import graphlib
import importlib.util
import sys

import numpy as np
import pytest

import bitmma
from conftest import ROOT

LAB = ROOT / "lab"


def imported(path) -> set[str]:
    """The names of modules that a file imports, also inside of functions."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(node.module.split(".")[0])
    return modules


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
    assert [
        path.name
        for path in sorted(LAB.iterdir())
        if path.is_file() and path.name != "README.md" and f"`{path.name}`" not in text
    ] == []


def test_the_generator_of_the_package_gives_recorders_the_same_words():
    """Recorders call it with signed integers of PyTorch, whose products wrap."""
    spec = importlib.util.spec_from_file_location("philox", ROOT / "python" / "bitmma" / "_philox.py")
    philox = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(philox)
    blocks, seed = np.arange(1000, dtype=np.int64), 0xFEDCBA9876543210
    signed = philox.rounds([blocks, blocks * 0, blocks * 0 + 3, blocks * 0], seed, int)
    for words, other in zip(signed, philox.philox(blocks, 3, seed), strict=True):
        assert words.dtype == np.int64 and other.dtype == np.uint64 and (words == other.astype(np.int64)).all()
    # Of the Random123 distribution (kat_vectors, philox4x32-10).
    known = [int(words) for words in philox.philox(0x85A308D3243F6A88, 0x0370734413198A2E, 0x299F31D0A4093822)]
    assert known == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


@pytest.mark.filterwarnings("ignore:cublas")
def test_choices_for_shapes_that_were_drawn_later_are_right_as_often_as_they_say(monkeypatch):
    monkeypatch.syspath_prepend(str(LAB))
    check_choices = importlib.import_module("check_choices")
    rates = check_choices.hit_rates(ROOT / "data" / "choices" / "held_out.tar.xz")
    assert len(rates) == 19
    lines = (ROOT / "docs" / "evidence.md").read_text().splitlines()
    for (kind, layout), of_steps in rates.items():
        line = next(line for line in lines if line.startswith(f"| {kind}{'' if layout == 'nt' else ', ' + layout} | "))
        for step, (right, drawn) in of_steps.items():
            n = {"multiples of 64": 4160, "of 8": 4112, "any": 4163}[step]
            of_kind = check_choices.KINDS[kind]
            choice = bitmma.library_choice(1000, n, n, target="H200", layout=layout, nearest=True, **of_kind)
            assert (choice.right, choice.drawn) == (right, drawn), (kind, step)
            assert f"{right} of {drawn}" in line
    gradients = check_choices.hit_rates(ROOT / "data" / "choices" / "held_out_gradients.tar.xz", gradients=True)
    for (kind, layout), rate in gradients.items():
        choice = bitmma.library_choice(768, 768, 100, target="H200", layout=layout, **check_choices.KINDS[kind])
        assert [choice.right, choice.drawn] == rate["gradients"] and choice.exact
    verdicts = check_choices.words_of_products(ROOT / "data" / "choices" / "products.json.xz")
    recorded = [(verdict, call) for is_exact, verdict, call in verdicts if is_exact]
    # Between two recorded M cuBLAS takes another number of slices.
    assert [call[:5] for verdict, call in recorded if verdict == "other bits"] == [("f16", "nt", 484, 960, 9280)]
    assert sum(verdict == "same bits" for verdict, _ in recorded) == 2216
    assert {call[0] for verdict, call in recorded if verdict == "refused"} == {"f32", "f32 bias", "tf32", "tf32 bias"}
    verdicts = check_choices.words_of_products(ROOT / "data" / "choices" / "gradients.json.xz")
    verdicts = [verdict for _, verdict, _ in verdicts]
    assert (verdicts.count("same bits"), verdicts.count("refused"), len(verdicts)) == (1976, 24, 2000)
    verdicts = check_choices.words_of_products(ROOT / "data" / "choices" / "batched.json.xz")
    assert all(is_exact for is_exact, _, _ in verdicts)
    verdicts = [verdict for _, verdict, _ in verdicts]
    assert (verdicts.count("same bits"), verdicts.count("refused"), len(verdicts)) == (1693, 3, 1696)
    sys.modules.pop("check_choices")
