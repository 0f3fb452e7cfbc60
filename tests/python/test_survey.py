"""Surveys from Python: processes of this interpreter, reports, what they say."""
import json
import pathlib

import pytest

import bitmma


def test_a_rehearsal_is_run_in_processes_gone_on_with_and_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "report.safetensors"
    seen: list[tuple[int, int]] = []
    bitmma.survey(path, rehearse="sm_90a", only="m16n8k4.row.col.f32.tf32", jobs=2,
                  progress=lambda done, units: seen.append((done, units)))
    assert seen == [(1, 1)]
    report = bitmma.read_survey(path)
    assert report.rehearsal and report.target == "sm_90a" and report.confirmed == {"rules": [], "choices": []} and report.refuted == []
    (finding,) = report.of_verdict("confirmed")
    assert finding.asked == "rule" and finding.mismatches == 0 and finding.outputs > 1000
    assert finding.found == "F = 25, RZ-23, floor -133"
    assert len(report.of_verdict("not run")) == len(report.findings) - 1
    bitmma.survey(path, rehearse="sm_90a", only="question: base offset")
    report = bitmma.read_survey(path, search=False, threads=1)
    assert len(report.of_verdict("confirmed")) == 2


def _with_header(path: pathlib.Path, out: pathlib.Path, **changes: str) -> pathlib.Path:
    """The report with keys of its header changed; an empty value takes the key away."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header["__metadata__"] = {key: value for key, value in {**header["__metadata__"], **changes}.items() if value}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])
    return out


def test_a_rehearsal_is_no_evidence_under_another_header(tmp_path: pathlib.Path) -> None:
    path, other = tmp_path / "report.safetensors", tmp_path / "other.safetensors"
    bitmma.survey(path, rehearse="sm_89", only="m16n8k4.row.col.f32.tf32")
    with pytest.raises(bitmma.Error) as caught:
        bitmma.read_survey(_with_header(path, other, source="NVIDIA A100", target="sm_80"))
    fields = [one.field.removeprefix(f"{other}: ") for one in caught.value.violations]
    assert fields == ["driver", "cuda", "date", "records", "digest"]
    report = bitmma.read_survey(_with_header(path, other, target="sm_75", digest=""), search=False)
    (stranger,) = report.of_verdict("unreadable")
    assert report.rehearsal and stranger.asked == "rule" and "sm_75 has no such unit" in stranger.found


@pytest.mark.parametrize(("arguments", "message"), [
    ({"rehearse": "sm_91"}, "sm_91"),
    ({"rehearse": "sm_90a", "jobs": 0}, "jobs = 0: must be 1..256"),
    ({"rehearse": "sm_90a", "seconds": -1}, "seconds = -1"),
    ({"rehearse": "sm_90a", "only": "zzz"}, "only = zzz"),
    ({"device": -1}, "device"),
])
def test_bad_requests_are_refused_by_name(tmp_path: pathlib.Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(bitmma.Error, match=message):
        bitmma.survey(tmp_path / "r.safetensors", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "r.safetensors").exists()


def test_other_files_are_no_reports(tmp_path: pathlib.Path) -> None:
    with pytest.raises(bitmma.Error):
        bitmma.read_survey(tmp_path / "none.safetensors")
    bitmma.write(tmp_path / "g.safetensors", bitmma.golden("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"))
    with pytest.raises(bitmma.Error, match="bitmma-survey-1"):
        bitmma.read_survey(tmp_path / "g.safetensors")
