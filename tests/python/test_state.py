"""execute, cases, files, and what people ask of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import bitmma
from conftest import DATA
from test_mma import FORMS

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
MOVES = [instruction for instruction in bitmma.all_instructions() if not instruction.is_mma][::9]


@pytest.mark.parametrize("instruction", FORMS[::4] + MOVES, ids=lambda instruction: str(instruction)[:80])
def test_execute_leaves_what_the_file_says(instruction):
    file = bitmma.golden(instruction, cases=2, seed=3)
    for case in file:
        state = case.state
        written = bitmma.execute(case.instruction, file.target, state)
        recorded = case.after
        assert set(written) == set(recorded)
        for name, array in written.items():
            assert (array == recorded[name]).all(), name


def test_execute_works_in_place_and_in_sequence():
    case = bitmma.golden(WGMMA, cases=1, seed=1, distribution="normal")[0]
    state = case.state
    c = state["c_regs"]
    written = bitmma.execute(WGMMA, None, state)
    assert written["d_regs"] is c and state["c_regs"] is c
    again = bitmma.execute(WGMMA, None, state)
    of = case.operands
    d = bitmma.mma(WGMMA, of["a"], of["b"], of["c"])
    two = bitmma.mma(WGMMA, of["a"], of["b"], d)
    places = bitmma.layout.fragment(WGMMA, "d")
    assert (again["d_regs"][places.thread, places.register] == two.view(np.uint32)).all()
    floats = {**case.state, "c_regs": case.state["c_regs"].view(np.float32)}
    assert (
        bitmma.execute(WGMMA, None, floats)["d_regs"].view(np.uint32)[places.thread, places.register]
        == d.view(np.uint32)
    ).all()


def test_an_error_leaves_the_state_as_it_was():
    state = bitmma.golden(WGMMA, cases=1, seed=1)[0].state
    state["b_desc"] = 0x4000004000013FFF
    before = {name: np.copy(value) for name, value in state.items()}
    with pytest.raises(bitmma.Error, match=r"outside|image|byte"):
        bitmma.execute(WGMMA, None, state)
    assert all((np.asarray(state[name]) == value).all() for name, value in before.items())
    for wrong, field in (
        ({"smem": np.zeros(16, np.uint8)}, ""),
        ({"nonsense": 1}, "state"),
        ({**state, "a_desc": -1}, "a_desc"),
        ({**state, "c_regs": np.zeros((2, 2), np.uint32)}, "c_regs"),
        ({**state, "c_regs": np.zeros((128, 4), np.uint16)}, "c_regs"),
    ):
        with pytest.raises(bitmma.Error) as error:
            bitmma.execute(WGMMA, None, wrong)
        assert field in error.value.violations[0].field
    names = {rule.name for rule in bitmma.fields(WGMMA)}
    assert names == {"smem", "a_desc", "b_desc", "c_regs"}


def test_files_come_back(tmp_path):
    file = bitmma.golden(WGMMA, cases=4, seed=9, distribution="ties")
    path = tmp_path / "cases.safetensors"
    bitmma.write(path, file)
    again = bitmma.read(path)
    assert len(again) == 4 and again.target == "sm_90a" and again.instruction == bitmma.instruction(WGMMA)
    assert all((again.tensors[name] == array).all() for name, array in file.tensors.items() if array.dtype.kind == "u")
    picked = tmp_path / "picked.safetensors"
    bitmma.write(picked, [again[1], again[-1]])
    verified = bitmma.verify(picked)
    assert (verified.cases, verified.mismatches, verified.first) == (2, 0, None)
    assert bitmma.verify(path, first=1, count=2).cases == 2
    assert bitmma.compare(path, file).mismatches == 0
    logical = bitmma.Case(WGMMA, a=np.ones((64, 16), np.float16), b=np.ones((16, 8), np.float16))
    assert (logical.computed_d() == 16).all() and logical.recorded_d() is None and logical.state is None
    with pytest.raises(bitmma.Error, match=r"no such|opened|read"):
        bitmma.read(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(bitmma.Error, match=r"bad\.safetensors"):
        bitmma.read(tmp_path / "bad.safetensors")


def test_a_gpus_files_verify():
    files = sorted((DATA / "golden").rglob("*.safetensors"))[::40]
    results = [bitmma.verify(path, threads=2) for path in files]
    assert (
        sum(compared.mismatches for compared in results) == 0 and sum(compared.outputs for compared in results) > 10_000
    )


def test_explain_lint_and_diagnose():
    case = bitmma.golden(WGMMA, cases=1, seed=4, distribution="normal")[0]
    explanation = bitmma.explain(case, 17, 5)
    assert (
        explanation["row"] == 17 and len(explanation["terms"]) == 16 and explanation["evidence"].startswith("measured")
    )
    assert "rule:" in str(explanation) and explanation["terms"][0]["a_place"]["byte"] >= 0
    with pytest.raises(bitmma.Error, match="row"):
        bitmma.explain(case, 64, 0)
    assert bitmma.lint(case) == []
    fault = next(fault for fault in bitmma.fault_catalogue(case) if fault.id.startswith("b."))
    wrong = case._value.faulty_d([fault.id])[1].view(np.float32)
    diagnosis = bitmma.diagnose(case, wrong)
    assert diagnosis.wrong > 0 and fault.id in {candidate.id for candidate in diagnosis.findings[0].faults}
    assert bitmma.diagnose(case, case.computed_d()).findings == []


def test_decode_and_encode():
    decoded = bitmma.decode("0x4000004000010000", major="k")
    assert decoded["fields"]["stride_dim_byte_offset"] == 1024 and decoded["swizzle_mode"] == "128"
    assert bitmma.encode(swizzle="128", leading_byte_offset=16, stride_byte_offset=1024) == 0x4000004000010000
    instruction = bitmma.tcgen05("f16", m=128, n=64)
    assert bitmma.encode(instruction) == 0x08100010
    assert bitmma.decode(0x08100010, kind="f16")["n"] == 64
    assert bitmma.instruction("tcgen05.mma.cta_group::1.kind::f16", idesc=0x08100010) == instruction
    assert bitmma.decode(WGMMA)["evidence"]["level"].startswith("measured")
    for wrong in ("0xG", 1 << 64, -1):
        with pytest.raises(bitmma.Error):
            bitmma.decode(wrong)
    with pytest.raises(bitmma.Error):
        bitmma.encode(stride_byte_offset=8)
    with pytest.raises(bitmma.Error):
        bitmma.decode(0, kind="f17")


def test_cases_that_a_file_does_not_have(tmp_path):
    file = bitmma.golden(WGMMA, cases=6, seed=9)
    for first, count in ((5, 9), (-1, 2), (6, 1), (0, 0)):
        with pytest.raises(bitmma.Error, match=r"cases|first"):
            bitmma.verify(file, first=first, count=count)
    assert file[-1].recorded_d() is not None
    with pytest.raises((bitmma.Error, IndexError)):
        file[6]
    assert len(list(file)) == 6


def test_values_are_pickled():
    for instruction in bitmma.all_instructions()[::7]:
        again = pickle.loads(pickle.dumps(instruction))
        assert again == instruction, instruction
    instruction = bitmma.tcgen05("mxf4nvf4", m=128, n=24, scale_type="ue4m3", negate_a=True)
    assert pickle.loads(pickle.dumps(instruction)) == instruction
    plan = bitmma.Plan({"instruction": WGMMA, "split_k": {"count": 3}})
    assert pickle.loads(pickle.dumps(plan)) == plan
    with pytest.raises(bitmma.Error) as error:
        bitmma.wgmma(n=12)
    assert pickle.loads(pickle.dumps(error.value)).violations == error.value.violations


def test_a_state_takes_whole_numbers_and_no_matrices_beside_it():
    state = bitmma.golden(WGMMA, cases=1, seed=1)[0].state
    for value in (3.7, np.float32(3.7), np.array(3.7), True, np.True_, "5"):
        with pytest.raises(bitmma.Error) as error:
            bitmma.execute(WGMMA, None, {**state, "a_desc": value})
        assert error.value.violations[0].field == "a_desc", value
    with pytest.raises(bitmma.Error) as error:
        bitmma.execute(WGMMA, None, {**state, "scale_d": True})
    assert error.value.violations[0].field == "scale_d"
    a, b, c = np.ones((64, 16), np.float16), np.ones((16, 8), np.float16), np.ones((64, 8), np.float32)
    for name, value in (("a", a), ("b", b), ("c", c)):
        with pytest.raises(bitmma.Error) as error:
            bitmma.Case(WGMMA, state=state, **{name: value})
        assert (error.value.violations[0].field, error.value.violations[0].code) == (name, "contradiction")
    assert (bitmma.Case(WGMMA, state=state, d=c).recorded_d() == c).all()


def test_files_are_what_their_names_say(tmp_path):
    file = bitmma.golden(WGMMA, cases=2)
    for name in ("x.npz", "x.npy", "x.pt", "x.bin"):
        with pytest.raises(bitmma.Error) as error:
            bitmma.write(tmp_path / name, file)
        assert error.value.violations[0].field == "path" and ".safetensors" in error.value.violations[0].legal
        assert not (tmp_path / name).exists()
    bitmma.write(tmp_path / "x.safetensors", file)
    for wrong in ("a", 1.5, None):
        with pytest.raises(bitmma.Error):
            file[wrong]
    with pytest.raises(bitmma.Error):
        bitmma.VectorFile(5)
    image = bitmma.tiled(np.zeros(512, np.uint8), "ue8m0")
    for arguments in ((), ("a", 2), (1, 2, 3)):
        with pytest.raises(bitmma.Error):
            image.scales(*arguments)


def test_a_file_of_whole_tiles_is_read_verified_compared_and_diagnosed(tmp_path):
    random = np.random.default_rng(4)
    a, b = (
        random.standard_normal((2, 128, 64)).astype(np.float16),
        random.standard_normal((2, 64, 64)).astype(np.float16),
    )
    d = np.stack([bitmma.gemm(x, y) for x, y in zip(a, b, strict=True)])
    path, other = tmp_path / "tile.npz", tmp_path / "wrong.npz"
    mnemonic = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
    np.savez(path, a=a, b=b, c=0 * d, d=d, instruction=mnemonic)
    wrong = d.copy()
    wrong[1, 70, 3] += 1
    np.savez(other, a=a, b=b, c=0 * d, d=wrong, instruction=mnemonic)
    file = bitmma.read(path)
    assert (len(file), file.steps, file.has_recorded_d, str(file.instruction)) == (2, 4, True, mnemonic)
    assert "2 whole tiles" in repr(file) and file.tensors["d"].shape == (2, 128, 64)
    assert bitmma.verify(file).mismatches == 0 and bitmma.verify(path, first=1, count=1).cases == 1
    assert bitmma.verify(tmp_path).mismatches == 1
    verified = bitmma.verify(other)
    assert verified.mismatches == 1 and "case 1, row 70, col 3" in verified.first
    assert "case 1" in bitmma.verify(other, first=1, count=1).first
    assert bitmma.compare(path, other).mismatches == 1
    assert bitmma.diagnose(file, list(wrong)).wrong == 1
    tile = file[1]
    assert bitmma.testing.bits_equal(tile.computed_d(), d[1]) and bitmma.testing.bits_equal(tile.recorded_d(), d[1])
    assert tile.operands["a"].shape == (128, 64) and tile.state is None
    explained = bitmma.explain(tile, 70, 3)
    assert (
        len(explained["steps"]) == 4
        and explained["steps"][3]["tile_row"] == 70
        and "instruction 4 of 4" in str(explained)
    )
    again = pickle.loads(pickle.dumps(tile))
    assert bitmma.testing.bits_equal(again.computed_d(), d[1])
    assert bitmma.testing.bits_equal(pickle.loads(pickle.dumps(file))[1].computed_d(), d[1])
    bitmma.write(tmp_path / "again.safetensors", list(file))
    assert bitmma.verify(tmp_path / "again.safetensors") == bitmma.verify(file)
    with pytest.raises(bitmma.Error) as error:
        bitmma.compare(path, bitmma.golden(mnemonic, cases=2))
    assert error.value.violations[0].code == "other_inputs"
    with pytest.raises(bitmma.Error, match="row"):
        bitmma.explain(tile, 128, 0)


@pytest.mark.parametrize(
    "instruction",
    [
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        bitmma.tcgen05("f16", m=128, n=64),
    ],
    ids=["wgmma", "mma_sync", "tcgen05"],
)
def test_a_whole_tile_is_diagnosed(instruction):
    """A, B and D of several instructions, with all of K and one D behind it."""
    random = np.random.default_rng(3)
    a, b = random.standard_normal((128, 256)).astype(np.float16), random.standard_normal((256, 128)).astype(np.float16)
    c = random.standard_normal((128, 128)).astype(np.float32)
    case = bitmma.Case(instruction, a=a, b=b)
    plan = {"instruction": str(case.instruction), "target": case.target}
    if case.instruction.family == "tcgen05":
        plan["types"] = {"a": "f16", "b": "f16"}
    d = bitmma.gemm(a, b, plan)
    right = bitmma.diagnose(case, d)
    assert (right.outputs, right.wrong, right.findings) == (128 * 128, 0, [])
    assert (
        bitmma.diagnose(bitmma.Case(instruction, a=a, b=b, c=c), bitmma.gemm(a, b, {**plan, "start": "c"}, c=c)).wrong
        == 0
    )
    swapped = bitmma.gemm(a, b[:, np.arange(128) ^ 1], plan)
    diagnosis = bitmma.diagnose(case, swapped)
    assert diagnosis.wrong > 16000 and diagnosis.findings[0].explains_all
    assert {"b.rows_1", "d.columns_1"} & {fault.id for finding in diagnosis.findings for fault in finding.faults}
    with pytest.raises(bitmma.Error, match="tile"):
        bitmma.diagnose(bitmma.Case(instruction, a=a[:, :250], b=b[:250]), d)
    with pytest.raises(bitmma.Error, match="128 x 128"):
        bitmma.diagnose(case, d[:64])
