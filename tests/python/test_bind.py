"""bitmma.bind: instructions that are checked once and then run on the registers of a warp."""

import numpy as np
import pytest

import bitmma

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
INSTRUCTIONS = [
    (F16, "sm_90a"),
    (F16, "sm_80"),
    ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_90a"),
    ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "sm_80"),
    ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "sm_90a"),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "sm_90a"),
    (str(bitmma.mma_sync(kind="mxf4nvf4")), "sm_120a"),
]


def states(instruction: str, target: str, count: int = 4) -> list[dict]:
    return [case.state for case in bitmma.golden(instruction, target=target, cases=count, seed=3)]


def operands(state: dict) -> dict:
    return {
        name: state[name] for name in ("a_regs", "b_regs", "c_regs", "metadata", "scale_a", "scale_b") if name in state
    }


def executed(instruction: str, target: str, state: dict) -> np.ndarray:
    # A copy, because execute writes in place.
    copied = {name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in state.items()}
    return bitmma.execute(instruction, target, copied)["d_regs"]


@pytest.mark.parametrize("instruction, target", INSTRUCTIONS)
def test_a_bound_instruction_gives_the_bits_of_execute(instruction, target):
    bound = bitmma.bind(instruction, target)
    assert bound.target == target and str(bound.instruction) == instruction
    all_states = states(instruction, target)
    expected = [executed(instruction, target, state) for state in all_states]
    for state, d in zip(all_states, expected, strict=True):
        result = bound(**operands(state))
        assert result.dtype == d.dtype and np.array_equal(result, d)
    stacked = {name: np.stack([state[name] for state in all_states]) for name in operands(all_states[0])}
    assert np.array_equal(bound(**stacked), np.stack(expected))


def test_one_operand_for_a_batch_and_results_in_place():
    bound = bitmma.bind(F16, "sm_90a")
    all_states = states(F16, "sm_90a")
    a, c = (np.stack([state[name] for state in all_states]) for name in ("a_regs", "c_regs"))
    b = all_states[0]["b_regs"]
    expected = np.stack([executed(F16, "sm_90a", {**state, "b_regs": b}) for state in all_states])
    assert np.array_equal(bound(a, b, c), expected)
    assert np.array_equal(bound(a[::2], b, c[::2]), expected[::2])  # products with gaps between them
    out = bound(a, b, c.view(np.float32), out=c)
    assert out is c and np.array_equal(c, expected)


def test_a_chain_is_one_product_after_the_other():
    bound = bitmma.bind(F16, "sm_90a")
    all_states = states(F16, "sm_90a")
    a, b = (np.stack([state[name] for state in all_states]) for name in ("a_regs", "b_regs"))
    c = all_states[0]["c_regs"].copy()
    d = c
    for state in all_states:
        d = bound(state["a_regs"], state["b_regs"], d)
    assert np.array_equal(bound(a, b, c, chain=True), d)
    assert np.array_equal(bound(a, b, c, out=c, chain=True), d) and np.array_equal(c, d)
    assert np.array_equal(bound(a[:0], b[:0], c, chain=True), c)
    with pytest.raises(bitmma.Error, match="c_regs = a batch"):
        bound(a, b, a, chain=True)


def test_it_refuses_what_it_cannot_run():
    with pytest.raises(bitmma.Error, match="sm_75"):
        bitmma.bind(F16, "sm_75")
    with pytest.raises(bitmma.Error, match=r"mma\.sync or mma\.sp"):
        bitmma.bind("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")(None, None, None)
    bound = bitmma.bind(F16)
    assert bound.target == "sm_90a"
    a, b, c = np.zeros((32, 4), np.uint32), np.zeros((32, 2), np.uint32), np.zeros((32, 4), np.uint32)
    for wrong, named in [
        ((a, a, c), "b_regs"),
        ((a[:, :2], b, c), "a_regs"),
        ((a, b, None), "c_regs"),
        ((a.astype(np.uint64), b, c), "a_regs"),
        ((np.asfortranarray(a + 1), b, c), "a_regs"),
    ]:
        with pytest.raises(bitmma.Error, match=named):
            bound(*wrong)
    with pytest.raises(bitmma.Error, match="metadata = given"):
        bound(a, b, c, metadata=np.zeros((32, 1), np.uint32))
    with pytest.raises(bitmma.Error, match="b_regs = 3 products"):
        bound(np.zeros((2, 32, 4), np.uint32), np.zeros((3, 32, 2), np.uint32), c)
    for arguments, words, named in [
        ((), {}, "a_regs"),
        ((a, b), {}, "c_regs"),
        ((a, b, c, *[None] * 6), {}, "arguments = 1 more argument"),
        ((a, b, c), {"d_regs": c}, "d_regs = given"),
        ((a, b, c), {"chain": "yes"}, "chain = str"),
    ]:
        with pytest.raises(bitmma.Error, match=named):
            bound(*arguments, **words)
    for arguments, words, named in [
        ((), {}, "state = NoneType"),
        ((7,), {}, "state = int"),
        (({}, {}), {}, "arguments = 1 more"),
        (({},), {"target": "sm_90a"}, "target = given"),
    ]:
        with pytest.raises(bitmma.Error, match=named):
            bound.execute(*arguments, **words)
    for out in (np.zeros((2, 32, 4), np.uint32), np.zeros((32, 2), np.uint32), np.zeros((32, 4), np.uint32).tobytes()):
        with pytest.raises(bitmma.Error, match="out"):
            bound(a, b, c, out=out)


@pytest.mark.parametrize(
    "instruction",
    [
        bitmma.wgmma(16),
        bitmma.tcgen05("f16", m=128, n=32),
        bitmma.tmem_move("ld"),
        bitmma.tmem_move("st"),
        bitmma.instruction(F16),
        bitmma.mma_sync(a="f64", m=8),
    ],
)
def test_a_bound_instruction_acts_on_states(instruction):
    bound = bitmma.bind(instruction)
    for case in bitmma.golden(instruction, cases=3):
        before = {
            name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in case.state.items()
        }
        state = {name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in before.items()}
        own = dict(state)
        expected = bitmma.execute(instruction, None, before)
        results = bound.execute(state)
        assert results.keys() == expected.keys()
        assert all(np.array_equal(results[name], array) for name, array in expected.items())
        for name, array in before.items():
            assert np.array_equal(state[name], array)
            assert name not in own or state[name] is own[name] or state[name].shape != own[name].shape


def test_states_of_other_kinds():
    bound = bitmma.bind(bitmma.wgmma(8))
    state = dict(bitmma.golden(bitmma.wgmma(8))[0].state)
    frozen = np.copy(state["c_regs"])
    frozen.flags.writeable = False
    state["c_regs"] = frozen
    kept = frozen.copy()
    results = bound.execute(state)
    assert results["d_regs"] is state["c_regs"] is not frozen and np.array_equal(frozen, kept)
    move = bitmma.bind(bitmma.tmem_move("ld", shape="32x32b", num=8))
    tmem = np.arange(128 * 64, dtype=np.uint32).reshape(128, 64)
    assert move.execute({"tmem": tmem, "taddr": 0, "warp": 0})["d_regs"].shape == (32, 8)
    with pytest.raises(bitmma.Error, match=r"b_desc = \(missing"):
        bound.execute({name: value for name, value in state.items() if name != "b_desc"})
    with pytest.raises(bitmma.Error, match="state = idesc"):
        bound.execute({**state, "idesc": 1})
