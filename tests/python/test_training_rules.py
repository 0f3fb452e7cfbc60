"""Backward passes, losses and norms of gradients give what PyTorch gave on an H200, in every recorded bit."""

from __future__ import annotations

import importlib.util
import random
import warnings

import ml_dtypes
import numpy as np
import pytest

from bitmma import _training_rules as training
from bitmma._captured import CannotSay, Differs, Tensor, Value
from bitmma._errors import Error
from bitmma._replay_arguments import bound
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


def made(*shape, dtype=np.float32):
    return Value(np.random.default_rng(1).standard_normal(shape).astype(dtype))


X, Y, ROWS, W = made(4, 8), made(4, 8), made(4, 1), made(8)
CLASSES, ONE = Value(np.array([2, 0, 1, 7], np.int64)), Value(np.float32(2).reshape(()))
SAME, NUMBER = (4, 8), ()
# Of each operator: its arguments, and the shape of its first output.
CALLS = {
    "addcdiv.default": ([X, X, Y, 2], SAME),
    "addcmul.default": ([X, X, Y, 0.5], SAME),
    "binary_cross_entropy_with_logits.default": ([X, Y, None, None, 1], NUMBER),
    "elu.default": ([X, 1.0, 1, 1], SAME),
    "elu_backward.default": ([X, 1.0, 1, 1, False, Y], SAME),
    "embedding_dense_backward.default": ([X, CLASSES, 9, -1, False], (9, 8)),
    "gelu_backward.default": ([X, Y, "tanh"], SAME),
    "hardtanh.default": ([X, 0, 6], SAME),
    "hardtanh_backward.default": ([X, Y, 0, 6], SAME),
    "leaky_relu.default": ([X, 0.1], SAME),
    "leaky_relu_backward.default": ([X, Y, 0.1, False], SAME),
    "lerp.Scalar": ([X, Y, 0.25], SAME),
    "linalg_vector_norm.default": ([X, 2], NUMBER),
    "logsumexp.default": ([X, [-1]], (4,)),
    "mse_loss.default": ([X, Y, 2], NUMBER),
    "mse_loss_backward.default": ([ONE, X, Y, 1], SAME),
    "native_layer_norm_backward.default": ([X, Y, [8], ROWS, ROWS, W, W, [True, True, True]], SAME),
    "_fused_rms_norm_backward.default": ([X, Y, [8], ROWS, W, [True, True]], SAME),
    "nll_loss_forward.default": ([X, CLASSES, None, 1, -100], NUMBER),
    "nll_loss_backward.default": ([ONE, X, CLASSES, None, 1, -100, ONE], SAME),
    "smooth_l1_loss.default": ([X, Y, 1, 1], NUMBER),
    "softplus.default": ([X, 1, 20], SAME),
    "softplus_backward.default": ([X, Y, 1, 20], SAME),
    "threshold_backward.default": ([X, Y, 0], SAME),
    "_foreach_norm.Scalar": ([[X, W], 2], NUMBER),
    "_foreach_lerp.Scalar": ([[X, W], [Y, W], 0.25], SAME),
    "_safe_softmax.default": ([X, -1], SAME),
    "_softmax_backward_data.default": ([X, Y, -1, None], SAME),
    "_log_softmax_backward_data.default": ([X, Y, -1, None], SAME),
}
CALLS |= {f"{name}.default": ([X], SAME) for name in "hardsigmoid hardswish mish log_sigmoid_forward".split()}
CALLS |= {f"{name}_backward.default": ([X, Y], SAME) for name in "silu sigmoid tanh hardswish mish".split()}
for name in ("add", "sub", "mul", "div"):
    CALLS |= {f"_foreach_{name}.List": ([[X, W], [Y, W]], SAME), f"_foreach_{name}.Scalar": ([[X, W], 3], SAME)}
    CALLS[f"_foreach_{name}.ScalarList"] = ([[X, W], [3, 0.5]], SAME)
    CALLS[f"_foreach_{name}.Tensor"] = ([[X, W], ONE], SAME)
for name in ("addcmul", "addcdiv"):
    CALLS[f"_foreach_{name}.Scalar"] = ([[X, W], [X, W], [Y, W], 2], SAME)
    CALLS[f"_foreach_{name}.ScalarList"] = ([[X, W], [X, W], [Y, W], [2, 0.5]], SAME)
CALLS |= {f"_foreach_{name}.default": ([[X, W]], SAME) for name in ("neg", "sqrt")}
CALLS["_foreach_maximum.List"] = ([[X, W], [Y, W]], SAME)
CALLS = {name: call for name, call in CALLS.items() if f"aten.{name}" in training.table}


def run_rule(name, args, options=None, shape=(4, 8), dtype=np.float32):
    rule = training.table[f"aten.{name}"]
    arguments = bound(rule, (call_of(dtype, shape),), list(args), options or {})
    return rule(*arguments.args, **arguments.kwargs)


def test_every_rule_takes_its_arguments():
    assert {f"aten.{name}" for name in CALLS} == set(training.table)
    for name, (args, shape) in CALLS.items():
        result = run_rule(name, args, shape=shape)
        first = result[0] if isinstance(result, list) else result
        assert first.array.shape == shape and first.array.dtype == np.float32, name


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        ("gelu_backward.default", 2, 1, "approximate is 1, not a string"),
        ("gelu_backward.default", 2, "erf", "approximate is erf, not"),
        ("silu_backward.default", 0, 2.0, "grad is 2.0, not a tensor"),
        ("hardtanh.default", 1, None, "low is None, not "),
        ("leaky_relu_backward.default", 3, 1, "is_result is 1, not true or false"),
        ("lerp.Scalar", 2, X, "weight is a tensor, not a number"),
        ("mse_loss.default", 2, 3, "reduction is 3"),
        ("nll_loss_backward.default", 4, -1, "reduction is -1"),
        ("native_layer_norm_backward.default", 2, 8, "shape is 8, not a list"),
        ("_foreach_add.ScalarList", 1, 3, "y is 3, not a list"),
        ("_foreach_add.Scalar", 0, X, "x is a tensor, not a list"),
        ("_foreach_addcdiv.Scalar", 3, [1, 2], "value is [1, 2], not "),
        ("embedding_dense_backward.default", 2, 2**64, "count is 18446744073709551616, not a whole number"),
        ("linalg_vector_norm.default", 2, 1, "dims is 1, not a list"),
    ],
)
def test_a_refusal_names_the_argument(name, place, value, words):
    args, shape = CALLS[name]
    with pytest.raises(CannotSay) as refusal:
        run_rule(name, [*args[:place], value, *args[place + 1 :]], shape=shape)
    assert words in str(refusal.value), refusal.value
    with pytest.raises(CannotSay, match="not those that the rule expects"):
        run_rule(name, [*args, 1, 2, 3, 4, 5, 6, 7, 8], shape=shape)
    with pytest.raises(CannotSay, match="not those that the rule expects"):
        run_rule(name, args, {"colour": 3}, shape=shape)


STRANGE = [
    *(None, True, False, 0, 1, -1, 3, 7, 64, -7, 2**31, -(2**63), 2**63, 10**40, 0.5, -0.0, 1e300, "", "tanh"),
    *(float("inf"), float("nan"), [], [0], [-1], [[[]]], [8], [1, 2, 3], [None], ["x"], [2**40, 2**40], [1] * 40, {}),
    *([True], [True] * 3, X, ROWS, W, CLASSES, ONE, [X], [X, Y], [Y, CLASSES]),
    *(made(4, 8, dtype=dtype) for dtype in (np.float16, ml_dtypes.bfloat16, np.float64, np.int32, np.bool_)),
    *(made(*shape) for shape in ((0,), (0, 8), (4, 0), (1,), (8, 4), (2, 4, 8), (4, 1024))),
    *(Value(np.array([-1, 9, 2**40, 0])), Value(np.array(2, np.int64)), Value(np.full((4, 8), np.nan, np.float32))),
    *(Value(X.array, X.array > 0), Value(np.full((4, 8), -np.inf, np.float32))),
]


@pytest.mark.parametrize("seed", range(20))
def test_changed_arguments_are_computed_or_refused(seed):
    """PyTorch checks the arguments of a call; those of a rule may come from elsewhere."""
    numbers, refused, computed = random.Random(seed), 0, 0
    for name, (args, shape) in CALLS.items():
        for _ in range(40):
            changed = [list(arg) if isinstance(arg, list) else arg for arg in args]
            for _ in range(numbers.choice((1, 1, 2))):
                place, how = numbers.randrange(len(changed)), numbers.randrange(4)
                if how == 0 and isinstance(changed[place], list) and changed[place]:
                    changed[place][numbers.randrange(len(changed[place]))] = numbers.choice(STRANGE)
                elif how == 1 and isinstance(changed[place], list):
                    changed[place] = numbers.choice(([], [*changed[place], numbers.choice(STRANGE)]))
                else:
                    changed[place] = numbers.choice(STRANGE)
            to = numbers.choice((shape, shape, (), (4,), (8, 4), (4, 8), (0,)))
            dtype = numbers.choice((np.float32, np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int64))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    run_rule(name, changed, shape=to, dtype=dtype)
                    computed += 1
                except (CannotSay, Differs, Error):
                    refused += 1
    assert refused > 1000 and computed > 50
