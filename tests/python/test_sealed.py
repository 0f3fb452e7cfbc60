"""The sealed prediction through Python, with the model in place of a GPU."""
import json
from pathlib import Path

import bitmma
import pytest


def test_a_rehearsal_is_as_predicted_and_says_what_it_asked(tmp_path: Path) -> None:
    report = bitmma.sealed(rehearse="sm_90a", out=tmp_path / "answers.safetensors")
    assert report.rehearsal and report.holds
    assert report.target == "sm_90a" and len(report.sha256) == 64
    assert {one.verdict for one in report.findings} == {"as predicted"}
    assert all(one.found == one.predicted for one in report.findings)
    assert f"{len(report.findings)} as predicted" in str(report) == report.text
    assert (tmp_path / "answers.safetensors").exists()


def test_a_file_that_withholds_predictions_is_answered_all_the_same(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "data/sealed/sm_120a.json"
    sealed = json.loads(source.read_text(encoding="utf-8"))
    expected = {point["point"]: point["predicted"] for point in sealed["points"]}
    for point in sealed["points"]:
        point["predicted"] = None
    blind = tmp_path / "blind.json"
    blind.write_text(json.dumps(sealed), encoding="utf-8")
    report = bitmma.sealed(blind, rehearse="sm_120a")
    assert {one.point: one.found for one in report.findings} == expected
    assert {one.verdict for one in report.findings} == {"named"}


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(bitmma.Error, match="sm_91"):
        bitmma.sealed(rehearse="sm_91")
    with pytest.raises(bitmma.Error, match="sm_90a"):
        bitmma.sealed(Path(__file__).parents[2] / "data/sealed/sm_90a.json", rehearse="sm_120a")
