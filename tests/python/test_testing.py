"""bitmma.testing: bits are equal or not, and the difference says where, how far, and what would do so."""

from __future__ import annotations

import copy
import functools
import multiprocessing
import pickle

import ml_dtypes
import numpy as np
import pytest

import bitmma
from bitmma.testing import assert_bits_equal, bits_equal, difference
from conftest import DATA, same_bits

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def message(*arguments, **named) -> str:
    with pytest.raises(AssertionError) as error:
        assert_bits_equal(*arguments, **named)
    return str(error.value)


def floats(*words: int) -> np.ndarray:
    return np.array(words, np.uint32).view(np.float32)


def test_equal_bits_are_equal_in_every_format():
    for kind in (
        np.float32,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float4_e2m1fn,
        np.int8,
        np.int32,
        np.float64,
        ml_dtypes.float8_e8m0fnu,
        np.bool_,
        np.uint32,
    ):
        array = np.arange(2).astype(kind)
        assert bits_equal(array, array.copy())
        assert not difference(array, array)
        assert_bits_equal(array, array.copy())
        assert not bits_equal(array, array[::-1])
    nan = floats(0x7FC00000)
    assert bits_equal(nan, nan) and bits_equal(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32))
    assert bits_equal(np.zeros(3, np.float32)[::1], np.zeros(6, np.float32)[::2])
    assert bits_equal(np.float32(1), np.float32(1)) and not bits_equal(np.float32(1), np.float16(1))
    assert not bits_equal(np.zeros(3, np.float32), np.zeros(4, np.float32))


def test_zeros_and_nans_are_told_apart():
    result = difference(
        floats(0x80000000, 0x7FC00001, 0x7F800000, 0x3F800000), floats(0, 0x7FC00000, 0x7FC00000, 0x3F800000)
    )
    assert (result.differing, result.zero_signs, result.nan_payloads, result.specials) == (3, 1, 1, 1)
    assert result.worst is None and result.worst_ulp == 0 and result.first == (0,)
    text = message(floats(0x80000000), floats(0))
    assert "0x80000000" in text and "the sign of zero" in text


@pytest.mark.parametrize(
    "kind, digits",
    [
        (np.float32, 8),
        (np.float16, 4),
        (ml_dtypes.bfloat16, 4),
        (ml_dtypes.float8_e5m2, 2),
        (np.float64, 16),
        (np.int32, 8),
        (ml_dtypes.float8_e4m3fn, 2),
    ],
)
def test_an_ulp_is_a_step_of_the_format_in_both_directions(kind, digits):
    word = np.dtype(f"u{np.dtype(kind).itemsize}")
    ones = np.full((4, 8), 5).astype(kind)
    for steps, sign in ((3, "+3"), (-2, "-2")):
        other = ones.copy()
        other.view(word)[2, 5] += np.array(steps).astype(word)
        result = difference(other, ones)
        assert (result.differing, result.worst_ulp, result.first, result.worst) == (
            1,
            abs(steps),
            (2, 5),
            (2, 5),
        )
        assert (result.above, result.below) == ((1, 0) if steps > 0 else (0, 1))
        text = message(other, ones)
        assert f"{sign} ulp" in text and "1 of 32 outputs differ" in text and "rows 2 alone, columns 5 alone" in text
        assert f"0x{int(other.view(word)[2, 5]):0{digits}x}" in text


def test_across_zero_steps_are_counted_through_both_zeros():
    assert difference(floats(0x00000002), floats(0x80000001)).worst_ulp == 3


@pytest.mark.parametrize(
    "rows, words",
    [
        (range(8, 16), "rows 8..15,"),
        (range(1, 64, 4), "rows 1 of every 4,"),
        ([r for r in range(64) if r % 16 >= 8], "rows 8..15 of every 16,"),
        ([0, 3, 17], "rows 3 of 64, from 0 to 17,"),
        (range(64), "rows all,"),
    ],
)
def test_the_pattern_of_rows_is_said(rows, words):
    expected = np.ones((64, 8), np.float32)
    actual = expected.copy()
    actual[list(rows)] = 2
    assert words + " columns all" in message(actual, expected)


def test_other_formats_and_shapes_are_assertion_errors_and_other_things_errors():
    ones = np.ones((2, 2), np.float32)
    assert "f16" in message(ones.astype(np.float16), ones)
    assert "shape" in message(ones[:1], ones)
    for wrong in (None, [1.0], 1.0, "x", np.array(["x"])):
        with pytest.raises(bitmma.Error):
            assert_bits_equal(wrong, ones)
    with pytest.raises(bitmma.Error, match="case"):
        assert_bits_equal(ones, ones, case=3)


def test_raw_codes_are_compared_as_their_format():
    codes, other = (bitmma.codes(np.array([[code]], np.uint8), "e4m3") for code in (0x38, 0x39))
    assert difference(other, codes).worst_ulp == 1 and "e4m3" in message(other, codes)


def test_a_case_says_what_fits():
    case = bitmma.golden(WGMMA, cases=1, distribution="normal")[0]
    wrong = case._value.faulty_d([bitmma.fault_catalogue(case)[0].id])[1].view(np.float32)
    text = message(wrong, case.computed_d(), case=case)
    assert "what fits: " in text and bitmma.fault_catalogue(case)[0].what in text
    assert "actual is what the case computes" in message(case.computed_d(), wrong, case=case)


def _computed(case):
    return case.computed_d()


def test_cases_and_files_are_pickled_and_copied(tmp_path):
    for instruction in (
        WGMMA,
        MMA,
        bitmma.tcgen05("mxf4nvf4", m=128, n=8),
        bitmma.tmem_move("ld", num=4),
        bitmma.instruction(WGMMA, imm_scale_a=-1, scale_d=0),
        bitmma.wgmma(n=8, sparse=True),
    ):
        file = bitmma.golden(instruction, cases=3, seed=5)
        for again in (pickle.loads(pickle.dumps(file)), copy.deepcopy(file)):
            assert (again.metadata, again.instruction, again.target, len(again)) == (
                file.metadata,
                file.instruction,
                file.target,
                3,
            )
            assert all(same_bits(again.tensors[name], array) for name, array in file.tensors.items())
        case = file[1]
        for again in (pickle.loads(pickle.dumps(case)), copy.deepcopy(case)):
            assert (again.instruction, again.target) == (case.instruction, case.target)
            assert same_bits(again.computed_d(), case.computed_d()) and same_bits(again.recorded_d(), case.recorded_d())
            assert bitmma.verify(again_file(tmp_path, again)).mismatches == 0
    matrices = bitmma.Case(MMA, "A100", a=np.ones((16, 16), np.float16), b=np.ones((16, 8), np.float16))
    again = pickle.loads(pickle.dumps(matrices))
    assert again.target == "sm_80" and same_bits(again.computed_d(), matrices.computed_d()) and again.state is None
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert same_bits(pool.apply(_computed, (case,)), case.computed_d())


def again_file(folder, case):
    path = folder / "again.safetensors"
    bitmma.write(path, case)
    return path


def test_a_file_without_its_instruction_is_pickled_with_it(tmp_path):
    bitmma.write(tmp_path / "x.safetensors", bitmma.golden(MMA, cases=2))
    file = bitmma.read(tmp_path / "x.safetensors")
    bitmma._core.write_tensors(str(tmp_path / "y.safetensors"), file._value.tensors(), {})
    bare = bitmma.read(tmp_path / "y.safetensors", instruction=MMA, target="A100")
    again = pickle.loads(pickle.dumps(bare))
    assert (again.instruction, again.target, again.path) == (bare.instruction, "sm_80", bare.path)


def test_reprs_of_instructions_give_the_instruction_back():
    made = [
        bitmma.tcgen05("f16", m=64),
        bitmma.tcgen05("f16", m=128, n=128),
        bitmma.tcgen05("f16", m=128, a="bf16"),
        bitmma.tcgen05("f16", negate_a=True),
        bitmma.instruction(WGMMA, imm_scale_a=-1),
        bitmma.instruction(WGMMA, scale_d=0),
        bitmma.wgmma(n=8, a_source="registers"),
        bitmma.mma_sync(kind="mxf4nvf4", byte_id_a=0),
        *bitmma.all_instructions(),
    ]
    for instruction in made:
        assert eval(repr(instruction), {"Instruction": bitmma.Instruction}) == instruction
    assert len({repr(instruction) for instruction in made}) == len(set(made))
    assert "m=64" in repr(made[0]) and "a='bf16'" in repr(made[2])


def test_names_are_those_that_users_import():
    for name in bitmma.__all__:
        value = getattr(bitmma, name)
        assert (
            name in ("datasets", "layers", "layout", "math", "operators", "plot", "testing")
            or value.__module__ == "bitmma"
        ), name
    assert pickle.loads(pickle.dumps(bitmma.evidence(WGMMA))) == bitmma.evidence(WGMMA)


def test_a_folder_is_verified_as_its_files_are(tmp_path):
    (tmp_path / "inner").mkdir()
    bitmma.write(tmp_path / "a.safetensors", bitmma.golden(MMA, cases=2))
    bitmma.write(tmp_path / "inner" / "b.safetensors", bitmma.golden(WGMMA, cases=3))
    verified = bitmma.verify(tmp_path, threads=2)
    assert (verified.cases, verified.mismatches, verified.first) == (5, 0, None)
    file = bitmma.golden(MMA, cases=1)
    rows = [
        (name, dtype, shape, array ^ 1 if name == "d_regs" else array)
        for name, dtype, shape, array in file._value.tensors()
        if name != "d"
    ]
    bitmma._core.write_tensors(str(tmp_path / "inner" / "c.safetensors"), rows, file.metadata)
    verified = bitmma.verify(tmp_path)
    assert verified.cases == 6 and verified.cases_with_mismatches == 1 and "c.safetensors" in verified.first
    for wrong in (
        lambda: bitmma.verify(tmp_path, first=1),
        lambda: bitmma.verify(tmp_path / "none"),
        lambda: bitmma.verify(DATA.parent / "python" / "binding"),
    ):
        with pytest.raises(bitmma.Error):
            wrong()


@pytest.mark.parametrize("instruction", [MMA, WGMMA, "tcgen05.ld.sync.aligned.32x32b.x8.b32"])
def test_a_batch_of_states_is_each_state(instruction):
    file = bitmma.golden(instruction, cases=4, seed=3)
    states = [case.state for case in file]
    batch = {name: np.stack([np.asarray(state[name]) for state in states]) for name in states[0]}
    results = bitmma.execute(instruction, file.target, batch)
    for index, state in enumerate(states):
        for name, array in bitmma.execute(instruction, file.target, state).items():
            assert same_bits(results[name][index], array)
    assert results


def test_arrays_without_the_axis_are_for_all_states():
    file = bitmma.golden(MMA, cases=3, seed=1)
    states = [case.state for case in file]
    batch = {name: states[0][name] for name in states[0]}
    batch["a_regs"] = np.stack([state["a_regs"] for state in states])
    kept = {name: np.copy(array) for name, array in batch.items()}
    d = bitmma.execute(MMA, file.target, batch)["d_regs"]
    assert d.shape[0] == 3 and same_bits(batch["c_regs"], d) and same_bits(batch["b_regs"], kept["b_regs"])
    for index, state in enumerate(states):
        single = {**{name: np.copy(array) for name, array in states[0].items()}, "a_regs": state["a_regs"]}
        assert same_bits(bitmma.execute(MMA, file.target, single)["d_regs"], d[index])
    batch = {**kept, "b_regs": np.stack([kept["b_regs"]] * 2)}
    with pytest.raises(bitmma.Error, match="batch"):
        bitmma.execute(MMA, file.target, batch)


def test_golden_ends_on_ctrl_c_and_takes_linear_time(request):
    import signal
    import threading
    import time

    # A shell starts background jobs with SIGINT ignored, and Python then keeps it so.
    request.addfinalizer(
        functools.partial(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
    )
    begun = time.monotonic()
    bitmma.golden("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", cases=20)
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        bitmma.golden("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", cases=20000)
    timer.join()
    assert time.monotonic() - begun < 30


def test_notebooks_show_pictures_and_tables():
    pictures = [
        bitmma.layout.smem(0x4000004000010000, 16, 16),
        bitmma.layout.fragment(MMA, "a"),
        bitmma.layout.tmem(128, 8),
        bitmma.layout.scales(128, 4),
        bitmma.layout.cute("(8,16):(16,1)"),
    ]
    for picture in pictures:
        assert picture._repr_svg_().startswith("<svg") and pickle.loads(pickle.dumps(picture))._repr_svg_() is None
    case = bitmma.golden(WGMMA, cases=1, distribution="normal")[0]
    shown = bitmma.explain(case, 0, 0)._repr_html_()
    assert shown.count("<tr>") > 10 and "color:#c00" in shown and "exact: " in shown and "<script" not in shown
    wrong = case._value.faulty_d([bitmma.fault_catalogue(case)[0].id])[1].view(np.float32)
    assert bitmma.fault_catalogue(case)[0].what in bitmma.diagnose(case, wrong)._repr_html_().replace("&#x27;", "'")
    plan = bitmma.find_plans(
        np.ones((4, 64), np.float16), np.ones((64, 8), np.float16), np.full((4, 8), 64, np.float32)
    )[0]
    assert "<table>" in plan._repr_html_() and "instruction" in plan._repr_html_()
    assert repr(bitmma.codes(np.zeros((2, 3), np.uint8), "e4m3")) == "Codes(e4m3 [2, 3])"
    product = bitmma.read_product(next((DATA / "products").glob("*.safetensors")))
    assert len(repr(product)) < 700 and f"{list(product.a.shape)}" in repr(product)


def test_what_is_not_all_does_not_read_as_100_percent():
    right = np.zeros((100, 100), np.float32)
    wrong = np.ones((100, 100), np.float32)
    assert "10000 of 10000 outputs differ (100 %)" in str(difference(wrong, right))
    wrong[3, 4] = 0
    assert "9999 of 10000 outputs differ (99.99 %)" in str(difference(wrong, right))
    right[:, :] = 1
    assert "1 of 10000 outputs differs (0.01 %)" in str(difference(wrong, right))
