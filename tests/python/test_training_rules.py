"""Backward passes, losses and norms of gradients give what PyTorch gave on an H200, in every recorded bit."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from bitmma import _training_rules as training
from bitmma._captured import CannotSay, Tensor, Value
from conftest import DATA, ROOT


@pytest.fixture(scope="module")
def check(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "lab"))
        spec = importlib.util.spec_from_file_location("check_training", ROOT / "lab" / "check_training.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def recorded(check):
    about, entries = check.recorded_calls(DATA / "operators" / "training.json.xz")
    assert about["gpu"] == "NVIDIA H200" and "2.11.0" in about["library"]
    return entries


FAMILIES = {
    "norms": ("norm_backward", 260), "softmax": ("softmax_backward", 290), "losses": ("loss", 85),
    "embedding": ("embedding", 70), "sums": (("sum", "mean"), 180), "lists": ("foreach", 150),
}  # fmt: skip


@pytest.mark.parametrize("family", [*FAMILIES, "others"])
def test_recorded_calls_agree_in_every_bit(check, recorded, family):
    def is_of(op, names):
        return op in names if isinstance(names, tuple) else names in op

    outputs, calls = 0, 0
    for entry in recorded:
        op = entry["op"]
        members = [name for name, (names, _) in FAMILIES.items() if is_of(op, names)] or ["others"]
        if op == "optimizer" or family not in members:
            continue
        try:
            total, differing = check.compared(entry)
        except CannotSay as reason:
            assert "no row" in str(reason), (entry["op"], entry["tensors"], entry["call"], reason)
            continue
        assert not differing, (op, entry["tensors"], entry["call"], f"{differing} of {total}")
        outputs, calls = outputs + total, calls + 1
    assert calls >= (FAMILIES[family][1] if family in FAMILIES else 150) and outputs > calls


def test_every_rule_of_the_table_has_a_recording(check, recorded):
    """Or is the same function as one that has."""
    seen = {entry["op"] for entry in recorded}
    assert seen >= set(check.CALLS) - {"sub", "add"}
    assert set(check.CALLS) | {"optimizer"} == seen


def call_of(dtype, shape):
    about = Tensor(np.dtype(dtype), shape)
    return training.Call(about, [about], None, 0, {"multiprocessors": 132}, None, 1, None, None)


def test_what_was_not_recorded_is_refused():
    x = Value(np.ones((4, 8), np.float32))
    call = call_of(np.float32, (4, 8))
    column = Value(np.zeros((70000, 1), np.float32))
    wide, many = Value(np.ones((70000, 8), np.float32)), Value(np.ones((4000, 8), np.float32))
    refused = {
        "elu_backward.default": (x, 2.0, 1, 1, False, x),
        "softplus.default": (x, 2.0),
        "nll_loss_forward.default": (x, Value(np.zeros(4, np.int64)), Value(np.ones(8, np.float32)), 1, -100),
        "embedding_dense_backward.default": (many, Value(np.zeros(4000, np.int64)), 9, -1, False),
        "native_layer_norm_backward.default": (wide, wide, [8], column, column, None, None, [True, True, True]),
        "_softmax_backward_data.default": (x, x, 0, None),
        "mse_loss.default": (Value(np.ones((4, 8))), Value(np.ones((4, 8))), 0),
        "_foreach_norm.Scalar": ([x], 1),
        "linalg_vector_norm.default": (Value(np.ones(600, np.float32)),),
        "_foreach_maximum.List": ([Value(np.float32([0.0]))], [Value(np.float32([-0.0]))]),
    }  # fmt: skip
    for name, args in refused.items():
        with pytest.raises(CannotSay):
            training.rule_of(f"aten.{name}")(call, *args)
