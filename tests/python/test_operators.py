"""Operators give what PyTorch gave on an H100 and an H200, in every bit of the recorded rows."""

from __future__ import annotations

import functools
import importlib.util
import json
import tarfile

import ml_dtypes
import numpy as np
import pytest

import bitmma
from bitmma import operators
from conftest import DATA, ROOT

spec = importlib.util.spec_from_file_location("check_operators", ROOT / "lab" / "check_operators.py")
check_operators = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_operators)

# The least number of calls of each that are packed.
FAMILIES = {
    "attention": (["attention"], 276), "softmax": (["softmax", "log_softmax"], 150),
    "norms": (["layer_norm", "rms_norm"], 160),
    "reductions": (["sum", "mean", "amax", "argmax", "mean_f32", "cross_entropy"], 150), "layers": (["llama"], 4),
    "elementwise": (None, 80),
}  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """(about, call, tensors) of every packed call."""
    folder = tmp_path_factory.mktemp("operators")
    for archive in ("recorded.tar.xz", "bias_alone.tar.xz"):
        with tarfile.open(DATA / "operators" / archive) as packed:
            packed.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else packed.extractall(folder)
    calls = []
    for path in sorted(folder.glob("*/*.safetensors")):
        about, tensors = check_operators.read_safetensors(path)
        calls.append((about, json.loads(about["call"]), tensors))
    return calls


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_calls_agree_in_every_bit(recorded, family):
    named, least = FAMILIES[family]
    others = {op for ops, _ in FAMILIES.values() if ops for op in ops}
    count, gpus = 0, set()
    for about, call, tensors in recorded:
        if call["op"] not in named if named else call["op"] in others:
            continue
        results = check_operators.computed(call, int(about["seed"]), tensors, json.loads(about["kernel"]))
        assert results is not None, call
        for name, tensor in tensors.items():
            if not name.endswith(".rows"):
                words = check_operators.bits_of(tensor)
                mine = check_operators.bits_of(results[name]).reshape(words.shape)
                assert np.array_equal(mine, words), (call, name, int((mine != words).sum()))
        count += 1
        gpus.add(about["gpu"])
    assert count >= least
    assert gpus == {"NVIDIA H100 80GB HBM3", "NVIDIA H200"}


def test_a_wrong_order_is_seen(recorded):
    """The recorded rows tell orders apart: softmax of the columns in another order has other bits."""
    differing = 0
    for about, call, tensors in recorded:
        if call["op"] == "softmax" and call["shape"][1] > 500 and call["dtype"] == call["to"] == "f32":
            x = check_operators.rows_of(call, 0, int(about["seed"]), tensors["out.rows"])
            backwards = np.ascontiguousarray(operators.softmax(np.ascontiguousarray(x[:, ::-1]))[:, ::-1])
            differing += not np.array_equal(backwards.view(np.uint32), tensors["out"].view(np.uint32))
    assert differing >= 5


def test_threads_and_torch_change_no_bit():
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, 4, n, 64)).astype(np.float16) for n in (70, 300, 300))
    expected = operators.attention(q, k, v, is_causal=True)
    assert np.array_equal(
        expected.view(np.uint16), operators.attention(q, k, v, is_causal=True, threads=3).view(np.uint16)
    )
    x = rng.standard_normal((5, 3000)).astype(ml_dtypes.bfloat16)
    for f in (operators.softmax, operators.rms_norm, operators.sum):
        assert np.array_equal(f(x).view(np.uint16), f(x, threads=2).view(np.uint16))
    torch = pytest.importorskip("torch", reason="torch is not installed")
    made = operators.softmax(torch.from_numpy(q))
    assert made.dtype == torch.float16 and np.array_equal(
        made.numpy().view(np.uint16), operators.softmax(q).view(np.uint16)
    )


X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("call, value", [
    (lambda: operators.sum(X), 21), (lambda: operators.mean(X), 3.5), (lambda: operators.amax(X), 6),
    (lambda: operators.argmax(X), 5), (lambda: operators.sum(X, 1), [6, 15]), (lambda: operators.sum(X, [1]), [6, 15]),
    (lambda: operators.sum(X, dim=-1), [6, 15]), (lambda: operators.sum(X, 0), [5, 7, 9]),
    (lambda: operators.sum(X, (0, 1)), 21), (lambda: operators.sum(X, dim=()), 21),
    (lambda: operators.sum(X, 1, True), [[6], [15]]), (lambda: operators.sum(X, None, True), [[21]]),
    (lambda: operators.amax(X, (1,), True), [[3], [6]]), (lambda: operators.argmax(X, keepdim=True), [[5]]),
    (lambda: operators.argmax(X, 1), [2, 2]), (lambda: operators.sum(X[0], (0,)), 6),
])  # fmt: skip
def test_dimensions_are_torchs(call, value):
    made = call()
    assert np.shape(made) == np.shape(value) and np.array_equal(made, value)


def test_indices_are_of_torchs_type():
    assert operators.argmax(X).dtype == operators.argmax(X, 0).dtype == np.int64


def test_a_sum_of_all_elements_has_the_order_of_one_row():
    x = np.random.default_rng(3).standard_normal((37, 411)).astype(np.float32)
    for f in (operators.sum, operators.mean):
        assert f(x).view(np.uint32) == f(x.reshape(1, -1), -1).view(np.uint32)[0]


def test_norms_take_torchs_arguments():
    x = np.random.default_rng(4).standard_normal((3, 8)).astype(np.float32)
    w, b = x[0], x[1]

    def same(actual, expected):
        return np.array_equal(actual.view(np.uint32), expected.view(np.uint32))

    assert same(operators.layer_norm(x, (8,), w, b, 1e-3), operators.layer_norm(x, weight=w, bias=b, eps=1e-3))
    assert same(operators.layer_norm(x, [8], w), operators.layer_norm(x, w))
    assert same(operators.layer_norm(x, normalized_shape=(8,), bias=b), operators.layer_norm(x, None, b))
    assert same(operators.layer_norm(x, (8,)), operators.layer_norm(x, eps=1e-5))
    assert same(operators.rms_norm(x, (8,), w, 0.5), operators.rms_norm(x, w, 0.5))
    assert same(operators.softmax(x, -1), operators.softmax(x, dim=1)) and same(
        operators.log_softmax(x, 1), operators.log_softmax(x)
    )
    assert operators.softmax(x.astype(np.float16), -1, np.float32).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_default_eps_of_rms_norm_is_the_epsilon_of_float32(dtype):
    """PyTorch takes the epsilon of the type in which it adds: float32 for 16-bit types too."""
    x = (X * 1e-4).astype(dtype)
    made = operators.rms_norm(x, (3,))
    assert np.array_equal(made, operators.rms_norm(x, eps=2.0**-23))
    assert np.allclose(made[0].astype(np.float32), [0.2455, 0.4911, 0.7366], atol=3e-3)  # torch 2.15 on a CPU


def test_torchs_types_of_class_indices():
    torch = pytest.importorskip("torch", reason="NOT checked: torch is not installed")
    x = torch.from_numpy(X)
    of_numpy = operators.cross_entropy(X, np.array([0, 1]))
    for dtype in (torch.int64, torch.uint8):
        made = operators.cross_entropy(x, torch.tensor([0, 1], dtype=dtype))
        assert isinstance(made, torch.Tensor) and made.numpy().view(np.uint32) == of_numpy.view(np.uint32)
    for dtype in (torch.int32, torch.int16, torch.int8, torch.bool):
        with pytest.raises(bitmma.Error) as error:
            operators.cross_entropy(x, torch.tensor([0, 1], dtype=dtype))
        assert error.value.violations[0].field == "target"
    assert operators.argmax(x, -1).dtype == torch.int64 and operators.sum(x).shape == torch.Size([])
    assert isinstance(operators.layer_norm(x, x.shape[-1:], torch.ones(3)), torch.Tensor)
    for function in (torch.sum, torch.mean, torch.amax, torch.argmax):
        mine = getattr(operators, function.__name__)
        for dim in (None, -1, 0):
            made, theirs = (f(x) if dim is None else f(x, dim) for f in (mine, function))
            assert made.dtype == theirs.dtype and made.shape == theirs.shape and torch.equal(made, theirs)


def test_explain_ends_with_the_bits_of_the_operator():
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal((2, 3, 60)).astype(np.float32) for _ in range(2))
    weight, bias = x[0, 0], y[0, 0]
    calls = [
        ("softmax", (x,), {}), ("softmax", (x.astype(np.float16),), {"dtype": np.float32}), ("log_softmax", (x,), {}),
        ("softmax", (x[0],), {"rows": [4, 1, 2], "whole": 9}), ("layer_norm", (x, weight, bias), {"eps": 1e-3}),
        ("layer_norm", (x, None, bias), {}), ("rms_norm", (x,), {}),
        ("sum", (x, -1), {}), ("sum", (x, None), {}), ("sum", (x,), {}), ("layer_norm", (x, (60,), weight, bias), {}),
        ("rms_norm", (x, (60,)), {"weight": weight}), ("softmax", (x, 2), {}), ("argmax", (x, -1), {}),
        ("mean", (x[0], 0), {"keepdim": True}), ("amax", (x,), {"keepdim": True}), ("argmax", (x,), {}),
        ("silu", (x,), {}), ("add", (x, y), {}), ("mul", (x,), {"y": y}), ("softmax", (x[0, 0],), {}),
    ]  # fmt: skip
    q, k = (rng.standard_normal((2, heads, n, 16)).astype(ml_dtypes.bfloat16) for heads, n in ((4, 20), (2, 300)))
    calls += [
        ("attention", (q, k, k), {"is_causal": True}),
        ("attention", (q, k, k), {"splits": 2}),
        ("attention", (q[0, 0], k[0, 0], k[0, 0]), {}),
    ]
    for name, operands, arguments in calls:
        function = getattr(operators, name, None) or functools.partial(operators.elementwise, name)
        result = function(*operands, **arguments)
        for _ in range(3):
            output = tuple(int(rng.integers(size)) for size in result.shape)
            trace = operators.explain(name, *operands, output=output, **arguments)
            bits = result[output].view(f"u{result.itemsize}")
            assert int(trace.word, 16) == bits, (name, arguments, output)
            assert trace.steps[-1]["words"] == [trace.word] and trace.fields["operator"] == name
            assert all(
                step["rounding"] and step["operation"] and len(step["words"]) == len(step["values"])
                for step in trace.steps
            )
            assert trace.value in str(trace) and name in repr(trace)
    softmax = operators.explain("softmax", x, output=(0, 0, 0))
    assert [step["step"] for step in softmax.steps] == [
        "x",
        "largest",
        "difference",
        "exponential",
        "lanes",
        *(f"offset {n}" for n in (16, 8, 4, 2, 1)),
        "sum",
        "quotient",
        "output",
    ]
    assert softmax.plan == {"kernel": "softmax_warp_forward, 32 lanes", "join": "a + b"}


@pytest.mark.parametrize("arguments, field", [
    (dict(operator="sofmax", output=(0, 0)), "operator"),
    (dict(operator=3, output=(0, 0)), "operator"),
    (dict(operator="softmax", output=(0,)), "output"),
    (dict(operator="softmax", output=[0, 0]), "output"),
    (dict(operator="softmax", output=(3, 0)), "output"),
    (dict(operator="softmax", output=(0, -1)), "output"),
    (dict(operator="softmax", output=(0, 0), threads=2), "threads"),
    (dict(operator="layer_norm", output=(0, 0), return_moments=True), "return_moments"),
    (dict(operator="softmax", output=(0, 0), y=3), "y"),
    (dict(operator="add", output=(0, 0)), "y"),
    (dict(operator="attention", output=(0, 0)), "operands"),
    (dict(operator="softmax", output=(0, 0), dtype=np.float64), "dtype"),
    (dict(operator="softmax", output=(0, 0), dim=0), "dim"),
])  # fmt: skip
def test_explain_refuses_what_does_not_fit(arguments, field):
    fields = dict(arguments)
    with pytest.raises(bitmma.Error) as error:
        operators.explain(fields.pop("operator"), np.ones((3, 8), np.float16), **fields)
    assert error.value.violations[0].field == field


@pytest.mark.parametrize("call, field", [
    (lambda x: operators.attention(x[0, 0, 0], x, x), "q"),
    (lambda x: operators.attention(x.astype(np.float32), x, x), "q"),
    (lambda x: operators.attention(x, x[:, :1], x), "v"),
    (lambda x: operators.attention(x, x, x, backend="math"), "backend"),
    (lambda x: operators.attention(x, x, x, window=3), "window"),
    (lambda x: operators.attention(x, x, x, splits=0), "splits"),
    (lambda x: operators.attention(x, x, x, backend="efficient", window=(1, 1)), "window or splits"),
    (lambda x: operators.attention(x, x, x, backend="cudnn", splits=2), "window or splits"),
    (lambda x: operators.attention(x[..., :7], x[..., :7], x[..., :7]), "head_size"),
    (lambda x: operators.softmax(np.zeros((2, 0), np.float32)), "x"),
    (lambda x: operators.softmax(x, dtype=np.float64), "dtype"),
    (lambda x: operators.softmax(np.ones((2, 3), np.int64)), "x"),
    (lambda x: operators.mean(np.ones((2, 3), np.int64)), "x"),
    (lambda x: operators.elementwise("exp", np.ones(3, np.int64)), "x"),
    (lambda x: operators.sum(np.ones((2, 3), np.int64), 2), "dim"),
    (lambda x: operators.sum(np.ones((2, 3), np.int64), (0, -2)), "dim"),
    (lambda x: operators.sum(np.ones((2, 3), np.int64), dtype=np.float32), "dtype"),
    (lambda x: operators.sum(np.ones((2, 3), np.int64), rows=[0, 1]), "x"),
    (lambda x: operators.argmax(np.ones((2, 3), bool)), "x"),
    (lambda x: operators.argmax(np.ones((2, 3), np.int8), (0,)), "dim"),
    (lambda x: operators.amax(np.ones((2, 0), np.int8)), "x"),
    (lambda x: operators.layer_norm(x, x[0, 0]), "weight"),
    (lambda x: operators.layer_norm(np.zeros((1, 4), np.float32), None, np.zeros(5, np.float32)), "bias"),
    (lambda x: operators.sum(x, dim=0), "dim"),
    (lambda x: operators.sum(x, (0, 1)), "dim"),
    (lambda x: operators.sum(x, (0, 0)), "dim"),
    (lambda x: operators.sum(x, (4,)), "dim"),
    (lambda x: operators.argmax(x, (3,)), "dim"),
    (lambda x: operators.softmax(x, 0), "dim"),
    (lambda x: operators.softmax(x, True), "dim"),
    (lambda x: operators.layer_norm(x, (7,)), "normalized_shape"),
    (lambda x: operators.layer_norm(x, (3, 8)), "normalized_shape"),
    (lambda x: operators.layer_norm(x, 8), "normalized_shape"),
    (lambda x: operators.rms_norm(x, ()), "normalized_shape"),
    (lambda x: operators.rms_norm(x, (8,), x[0, 0, 0], weight=x[0, 0, 0]), "weight"),
    (lambda x: operators.rms_norm(x, (8,), None, 1e-6, 3), "rms_norm"),
    (lambda x: operators.elementwise("slu", x), "function"),
    (lambda x: operators.elementwise("add", x), "y"),
    (lambda x: operators.elementwise("exp", x, x), "y"),
    (lambda x: operators.cross_entropy(x[0, 0][:1], np.array([9])), "target"),
    (lambda x: operators.cross_entropy(x[0, 0], np.zeros(3, np.int32), reduction="max"), "reduction"),
    (lambda x: operators.attention(x, x, x, scale=-1.0), "scale"),
    (lambda x: operators.attention(x, x, x, scale=float("inf")), "scale"),
    (lambda x: operators.softmax(x[0, 0], rows=[0, 1]), "rows"),
    (lambda x: operators.softmax(x[0, 0], rows=5), "rows"),
    (lambda x: operators.softmax(x[0, 0], rows=[0, 1, 9], whole=5), "rows"),
    (lambda x: operators.softmax(x, dtype="bogus"), "dtype"),
    (lambda x: operators.mean(x[0, 0], whole=2**61), "whole"),
    (lambda x: operators.sum(x[0, 0], 0, rows=[0, 1, 2]), "rows, whole"),
    (lambda x: operators.sum(x[0, 0], True), "dim"),
    (lambda x: operators.cross_entropy(x, np.zeros(3, np.int32)), "x"),
    (lambda x: bitmma.layers.llama(x, {}, heads=1, kv_heads=1), "x"),
    (lambda x: bitmma.layers.llama(x, 5, heads=1, kv_heads=1), "weights"),
    (lambda x: bitmma.layers.llama(x, {}, heads=1, kv_heads=1, cache=(x,)), "cache"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(call, field):
    with pytest.raises(bitmma.Error) as error:
        call(np.ones((1, 2, 3, 8), np.float16))
    assert error.value.violations[0].field == field


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8, np.uint8, bool])
@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2)])
def test_whole_numbers_are_reduced_as_in_torch(dtype, dim):
    """Sums are int64, maxima have the type of x, indices are int64 and the first of equal numbers."""
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 4)).astype(dtype)
    for keepdim in (False, True):
        total = operators.sum(x, dim, keepdim)
        assert total.dtype == np.int64
        assert np.array_equal(total, x.sum(axis=dim, dtype=np.int64, keepdims=keepdim))
        largest = operators.amax(x, dim, keepdim)
        assert largest.dtype == x.dtype
        assert np.array_equal(largest, x.max(axis=dim, keepdims=keepdim))
        if dtype is not bool and not isinstance(dim, tuple):
            assert np.array_equal(operators.argmax(x, dim, keepdim), x.argmax(axis=dim, keepdims=keepdim))


def test_elementwise_takes_numbers():
    x = np.float32([0.3, 1.5])
    made = bitmma.operators.elementwise("exp2", x[0])
    assert made.shape == () and made == bitmma.operators.elementwise("exp2", x)[0]
    assert bitmma.operators.elementwise("add", x[0], x[1]).shape == ()
    assert bitmma.operators.explain("exp2", x[0], output=()).word == f"0x{int(made.view(np.uint32)):08x}"
    with pytest.raises(bitmma.Error, match="atleast_1d"):
        bitmma.operators.softmax(x[0])
