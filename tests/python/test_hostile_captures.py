# SPDX-License-Identifier: MIT
"""A capture is a stranger's file: whatever its arguments are, each operator gets a verdict or bitmma refuses the file.

Every rule runs on arguments that it takes, and on changed ones. An exception other than bitmma.Error is a fault of the
rules, and leaves bitmma.replay as it is.
"""

import copy
import json
import random
import warnings

import ml_dtypes
import numpy as np
import pytest

import bitmma
from bitmma import _replay, _replay_rules as rules
from bitmma._captured import CannotSay

T = type("T", (str,), {})  # the name of a tensor among arguments
INF = {"float": "inf"}
NVJET = [{"name": "nvjet_sm90_tst_64x8_64x16_2x4_h_bz_TNT"}]
SGEMM = [{"name": "ampere_sgemm_32x32_sliced1x4_nn"}]
CUDNN = [{"name": "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128"}]


def tensors():
    random_numbers = np.random.default_rng(1)

    def floats(*shape, dtype=np.float32):
        return random_numbers.standard_normal(shape).astype(dtype)

    return {
        "x": floats(4, 6),
        "y": floats(4, 6),
        "v": floats(6),
        "s": np.float32(2).reshape(()),
        "h": floats(4, 6, dtype=np.float16),
        "b": floats(4, 64, dtype=ml_dtypes.bfloat16),
        "w": floats(64, 8, dtype=ml_dtypes.bfloat16),
        "bias": floats(8, dtype=ml_dtypes.bfloat16),
        "c": floats(4, 8, dtype=ml_dtypes.bfloat16),
        "f": floats(64, 8),
        "a": floats(4, 64),
        "q": floats(1, 2, 4, 16, dtype=np.float16),
        "d": floats(4, 6, dtype=np.float64),
        "f8": floats(16, 64, dtype=ml_dtypes.float8_e4m3fn),
        "g8": floats(64, 16, dtype=ml_dtypes.float8_e4m3fn),
        "mask": random_numbers.integers(0, 2, (4, 6)).astype(bool),
        "i": np.array([2, 0, 1], np.int64),
        "i2": random_numbers.integers(0, 4, (4, 6)),
        "n": random_numbers.integers(-3, 3, (4, 6)).astype(np.int32),
        "p": np.abs(floats(1, 6)),
        "empty": np.zeros((0, 6), np.float32),
        "z": floats(3, 6),
    }


SAME, INTS, TRUTH = ((4, 6), "float32"), ((4, 6), "int64"), ((4, 6), "bool")
# Of each operator: its arguments, its outputs (shape and type), and other fields. T names a tensor.
CALLS = {
    "view.default": ([T("x"), [2, -1]], [((2, 12), "float32")]),
    "_unsafe_view.default": ([T("x"), [24]], [((24,), "float32")]),
    "reshape.default": ([T("x"), [24]], [((24,), "float32")]),
    "t.default": ([T("x")], [((6, 4), "float32")]),
    "transpose.int": ([T("x"), 0, -1], [((6, 4), "float32")]),
    "permute.default": ([T("x"), [1, 0]], [((6, 4), "float32")]),
    "unsqueeze.default": ([T("x"), 0], [((1, 4, 6), "float32")]),
    "squeeze.dim": ([T("p"), 0], [((6,), "float32")]),
    "squeeze.dims": ([T("p"), [0]], [((6,), "float32")]),
    "squeeze.default": ([T("p")], [((6,), "float32")]),
    "expand.default": ([T("p"), [4, -1]], [SAME]),
    "slice.Tensor": ([T("x"), 1, 0, 4, 2], [((4, 2), "float32")]),
    "select.int": ([T("x"), 0, 1], [((6,), "float32")]),
    "detach.default": ([T("x")], [SAME]),
    "alias.default": ([T("x")], [SAME]),
    "clone.default": ([T("x")], [SAME]),
    "split.Tensor": ([T("x"), 4, 1], [((4, 4), "float32"), ((4, 2), "float32")]),
    "split_with_sizes.default": ([T("x"), [1, 5], 1], [((4, 1), "float32"), ((4, 5), "float32")]),
    "unbind.int": ([T("z"), 0], [((6,), "float32")] * 3),
    "flip.default": ([T("x"), [0, 1]], [SAME]),
    "repeat.default": ([T("p"), [4, 1]], [SAME]),
    "_reshape_alias.default": ([T("x"), [24], [1]], [((24,), "float32")]),
    "lift_fresh.default": ([T("x")], [SAME]),
    "contiguous.default": ([T("x")], [SAME]),
    "as_strided.default": ([T("x"), [2, 3], [6, 1], 1], [((2, 3), "float32")]),
    "cat.default": ([[T("x"), T("y")], 0], [((8, 6), "float32")]),
    "stack.default": ([[T("x"), T("y")], 0], [((2, 4, 6), "float32")]),
    "embedding.default": ([T("x"), T("i"), -1, False, False], [((3, 6), "float32")]),
    "index.Tensor": ([T("x"), [T("i"), None]], [((3, 6), "float32")]),
    "index_select.default": ([T("x"), 0, T("i")], [((3, 6), "float32")]),
    "gather.default": ([T("x"), 0, T("i2")], [SAME]),
    "index_put_.default": ([T("x"), [T("i")], T("z")], [SAME]),
    "index_put.default": ([T("x"), [T("mask")], T("s")], [SAME]),
    "_unsafe_index_put.default": ([T("x"), [T("i")], T("z"), False], [SAME]),
    "index_copy_.default": ([T("x"), 0, T("i"), T("z")], [SAME]),
    "index_copy.default": ([T("x"), 0, T("i"), T("z")], [SAME]),
    "index_add_.default": ([T("x"), 0, T("i"), T("z")], [SAME]),
    "index_add.default": ([T("x"), 0, T("i"), T("z")], [SAME]),
    "copy_.default": ([T("x"), T("h")], [SAME]),
    "_to_copy.default": ([T("x")], [((4, 6), "bfloat16")]),
    "to.dtype": ([T("x"), {"other": "float16"}], [((4, 6), "float16")]),
    "rsub.Scalar": ([T("x"), 1], [SAME]),
    "gelu.default": ([T("x"), "tanh"], [SAME]),
    "pow.Tensor_Scalar": ([T("x"), 2], [SAME]),
    "pow_.Scalar": ([T("x"), {"float": "0x1.0p-1"}], [SAME]),
    "neg.default": ([T("x")], [SAME]),
    "abs.default": ([T("x")], [SAME]),
    "where.self": ([T("mask"), T("x"), T("y")], [SAME]),
    "clamp.default": ([T("x"), {"float": "-0x1.0p-2"}, 1], [SAME]),
    "clamp_min.default": ([T("x"), 1], [SAME]),
    "clamp_max.default": ([T("x"), 1], [SAME]),
    "maximum.default": ([T("x"), T("y")], [SAME]),
    "minimum.default": ([T("x"), T("y")], [SAME]),
    "masked_fill.Scalar": ([T("x"), T("mask"), INF], [SAME]),
    "masked_fill_.Scalar": ([T("x"), T("mask"), 0], [SAME]),
    "masked_fill.Tensor": ([T("x"), T("mask"), T("s")], [SAME]),
    "logical_not.default": ([T("mask")], [TRUTH]),
    "logical_and.default": ([T("mask"), T("mask")], [TRUTH]),
    "logical_or.default": ([T("mask"), T("mask")], [TRUTH]),
    "bitwise_not.default": ([T("mask")], [TRUTH]),
    "bitwise_and.Tensor": ([T("mask"), T("mask")], [TRUTH]),
    "bitwise_or.Tensor": ([T("n"), T("n")], [((4, 6), "int32")]),
    "fill_.Scalar": ([T("x"), 3], [SAME]),
    "zero_.default": ([T("x")], [SAME]),
    "floor_divide.default": ([T("n"), 2], [((4, 6), "int32")]),
    "remainder.Scalar": ([T("n"), 2], [((4, 6), "int32")]),
    "triu.default": ([T("x"), 1], [SAME]),
    "tril.default": ([T("x")], [SAME]),
    "zeros.default": ([[4, 6]], [SAME]),
    "ones.default": ([[4, 6]], [SAME]),
    "zeros_like.default": ([T("x")], [SAME]),
    "ones_like.default": ([T("x")], [SAME]),
    "new_zeros.default": ([T("x"), [4, 6]], [SAME]),
    "new_ones.default": ([T("x"), [4, 6]], [SAME]),
    "full.default": ([[4, 6], 7], [INTS]),
    "full_like.default": ([T("x"), {"float": "nan"}], [SAME]),
    "scalar_tensor.default": ([3], [((), "float32")]),
    "arange.default": ([6], [((6,), "int64")]),
    "arange.start": ([2, 6], [((4,), "int64")]),
    "arange.start_step": ([0, 6, 2], [((3,), "int64")]),
    "_softmax.default": ([T("x"), -1, False], [SAME]),
    "_log_softmax.default": ([T("x"), 1, False], [SAME]),
    "mean.dim": ([T("x"), [-1], True], [((4, 1), "float32")]),
    "sum.dim_IntList": ([T("n"), [0]], [((6,), "int64")]),
    "sum.default": ([T("x")], [((), "float32")]),
    "mean.default": ([T("x")], [((), "float32")]),
    "amax.default": ([T("x"), [-1]], [((4,), "float32")]),
    "argmax.default": ([T("x"), -1], [((4,), "int64")]),
    "max.dim": ([T("x"), -1], [((4,), "float32"), ((4,), "int64")]),
    "topk.default": ([T("x"), 2, -1, True, True], [((4, 2), "float32"), ((4, 2), "int64")]),
    "sort.default": ([T("x"), -1, True], [SAME, INTS]),
    "native_layer_norm.default": (
        [T("x"), [6], T("v"), T("v"), {"float": "0x1.0p-16"}],
        [SAME, ((4, 1), "float32"), ((4, 1), "float32")],
    ),
    "_fused_rms_norm.default": ([T("x"), [6], T("v"), None], [SAME, ((4, 1), "float32")]),
    "nonzero.default": ([T("mask")], [((12, 2), "int64")]),
    "cumsum.default": ([T("n"), 0], [INTS]),
    "exponential_.default": ([T("x")], [SAME], {"generator": {"seed": 7, "offset": 4}}),
    "multinomial.default": ([T("p"), 1], [((1, 1), "int64")], {"generator": {"seed": 7, "offset": 4}}),
    "mm.default": ([T("b"), T("w")], [((4, 8), "bfloat16")], {"kernels": NVJET}),
    "bmm.default": ([T("b"), T("w")], [((4, 8), "bfloat16")], {"kernels": NVJET}),
    "mm.dtype": ([T("b"), T("w"), {"other": "float32"}], [((4, 8), "float32")], {"kernels": NVJET, "slices": 2}),
    "bmm.dtype": ([T("b"), T("w"), {"other": "float32"}], [((4, 8), "float32")], {"kernels": NVJET}),
    "_int_mm.default": ([T("n"), T("n")], [((4, 8), "int32")], {"kernels": NVJET}),
    "addmm.default": ([T("bias"), T("b"), T("w")], [((4, 8), "bfloat16")], {"kernels": NVJET}),
    "_addmm_activation.default": ([T("c"), T("b"), T("w")], [((4, 8), "bfloat16")], {"kernels": NVJET}),
    "_scaled_mm.default": ([T("f8"), T("g8"), T("s"), T("s")], [((16, 16), "bfloat16")], {"kernels": NVJET}),
    "_scaled_dot_product_flash_attention.default": (
        [T("q"), T("q"), T("q"), 0, True],
        [((1, 2, 4, 16), "float16"), ((1, 2, 4), "float32")],
    ),
    "_scaled_dot_product_efficient_attention.default": (
        [T("q"), T("q"), T("q"), None, False],
        [((1, 2, 4, 16), "float16")],
    ),
    "_scaled_dot_product_cudnn_attention.default": (
        [T("q"), T("q"), T("q"), None, False],
        [((1, 2, 4, 16), "float16"), ((1, 2, 4, 1), "float32")],
        {"kernels": CUDNN},
    ),
}
for name in ("add", "sub", "mul", "div"):
    for form in ("Tensor", "Scalar"):
        CALLS[f"{name}.{form}"] = CALLS[f"{name}_.{form}"] = ([T("x"), T("y") if form == "Tensor" else 3], [SAME])
for name in "exp exp2 log log2 log1p expm1 sqrt rsqrt reciprocal sin cos tanh erf sigmoid silu relu".split():
    CALLS[f"{name}.default"] = CALLS[f"{name}_.default"] = ([T("x")], [SAME])
for name in "eq ne lt le gt ge".split():
    for form in ("Tensor", "Scalar"):
        CALLS[f"{name}.{form}"] = ([T("x"), T("y") if form == "Tensor" else 3], [TRUTH])


def named(value):
    if isinstance(value, T):
        return {"tensor": str(value)}
    return [named(part) for part in value] if isinstance(value, list) else value


def capture_of(folder, names):
    """A capture of these operators; x has rows that are not known."""
    folder.mkdir(exist_ok=True)
    arrays = tensors()
    stored = {"float8_e4m3fn": "F8_E4M3", "bool": "BOOL", "bfloat16": "BF16"}
    header, data = {}, b""
    about = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape), "strides": [], "role": "input"}
        for name, array in arrays.items()
    }
    about["x"]["sampled"] = {"order": [0, 1], "leading": 1, "rows": [0, 2]}
    arrays["x"] = arrays["x"][[0, 2]]
    for name, array in arrays.items():
        kind = array.dtype.name
        kind = stored.get(kind) or f"{kind[0].upper()}{array.dtype.itemsize * 8}"
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    operators = []
    for name in names:
        args, outputs, *more = CALLS[name]
        listed = [f"{name} {place}" for place in range(len(outputs))]
        for number, (shape, dtype) in zip(listed, outputs, strict=True):
            about[number] = {"dtype": dtype, "shape": list(shape), "role": "value"}
        operators.append(
            {"op": f"aten.{name}", "args": named(args), "kwargs": {}, "outputs": listed, **(more or [{}])[0]}
        )
    text = json.dumps(header).encode()
    (folder / "tensors.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    machine = {"gpu": "NVIDIA H100 80GB HBM3", "torch": "2.11.0", "multiprocessors": 132}
    return {"format": "bitmma-capture/1", "machine": machine, "tensors": about, "operators": operators}


def replayed(folder, graph):
    """The verdicts; None if the file is refused."""
    (folder / "graph.json").write_text(json.dumps(graph))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of codes that are NaN, and the like
        try:
            return bitmma.replay(folder, threads=1).verdicts
        except bitmma.Error:
            return None


def test_every_rule_is_here_and_takes_its_arguments(tmp_path):
    known = {op for table in (rules.views, rules.pointwise, rules.of_rows, rules.others) for op in table}
    assert known == {f"aten.{name}" for name in CALLS}
    verdicts = replayed(tmp_path, capture_of(tmp_path, CALLS))
    for verdict in verdicts:
        assert (verdict.status != "differs" and "not those that the rule expects" not in verdict.why) or (
            verdict.op in ("aten.bmm.default", "aten.bmm.dtype", "aten._int_mm.default")
        ), str(verdict)
    computed = [verdict for verdict in verdicts if verdict.status == "moves" or "stores no output" in verdict.why]
    assert len(computed) > 0.9 * len(verdicts), [str(verdict) for verdict in verdicts if verdict not in computed]


STRANGE = [
    *(None, True, False, 0, 1, -1, 2, 7, 64, -7, 2**31, -(2**63), 2**63, 10**40, 0.5, -0.0, 1e300, "", "x", "tanh"),
    *([], [0], [-1], [[[]]], [1, 2, 3], [None], ["x"], [2**40, 2**40], [-1, -1], [1] * 40, {}),
    *({"other": "float64"}, {"float": "nan"}, {"float": "inf"}, {"float": "zzz"}, {"float": "0x1p99999"}),
    *({"float": 3}, {"float": None}),
]


def strange(numbers, names):
    return {"tensor": numbers.choice(names)} if numbers.random() < 0.4 else copy.deepcopy(numbers.choice(STRANGE))


def change(graph, numbers):
    """Changes the arguments of every operator, or what the capture tells about its tensors."""
    names = list(tensors())
    for operator in graph["operators"]:
        for _ in range(numbers.choice((1, 1, 1, 2, 3))):
            args, kwargs = operator["args"], operator["kwargs"]
            how = numbers.randrange(9)
            place = numbers.randrange(len(args)) if args else 0
            if how == 0 and args:
                del args[place]
            elif how == 1:
                args.insert(place, strange(numbers, names))
            elif how == 2 and args and isinstance(args[place], list) and args[place]:
                args[place][numbers.randrange(len(args[place]))] = strange(numbers, names)
            elif how == 3 and args and isinstance(args[place], list):
                args[place].append(strange(numbers, names))
            elif how == 4:
                kwargs[numbers.choice("dim dims alpha x at scale is_causal number memory_format values".split())] = (
                    strange(numbers, names)
                )
            elif how == 5 and args and type(args[place]) is int:
                args[place] += numbers.choice((-5, -1, 1, 3, 100))
            elif how == 6 and operator["outputs"]:
                about = graph["tensors"][operator["outputs"][0]]
                if numbers.random() < 0.5:
                    about["dtype"] = numbers.choice(
                        "float32 float16 bfloat16 float64 int8 uint8 int16 int64 bool float8_e5m2 complex64".split()
                    )
                else:
                    about["shape"] = numbers.choice(([], [0], [1], [24], [4, 6], [6, 4], [1] * 20, [2, 3, 4], [4, 0]))
            elif how == 7:
                operator |= numbers.choice(
                    (
                        {"slices": 5},
                        {"kernels": []},
                        {"kernels": SGEMM},
                        {"kernels": CUDNN},
                        {"outputs": operator["outputs"][:1]},
                    )
                )
            elif args:
                args[place] = strange(numbers, names)


@pytest.mark.parametrize("seed", range(12))
def test_changed_arguments_give_a_verdict(seed, tmp_path):
    numbers = random.Random(seed)
    whole = capture_of(tmp_path, CALLS)
    refused = unsure = 0
    for _ in range(4):
        graph = copy.deepcopy(whole)
        change(graph, numbers)
        verdicts = replayed(tmp_path, graph)
        refused += verdicts is None
        unsure += sum(verdict.status == "cannot say" for verdict in verdicts or [])
    assert refused < 4 and unsure > 100, (refused, unsure)


@pytest.mark.parametrize("seed", range(4))
def test_changed_files_are_refused_or_get_verdicts(seed, tmp_path):
    """Any field of graph.json."""
    numbers = random.Random(seed)
    names = [name for place, name in enumerate(CALLS) if place % 4 == seed % 4]
    whole = capture_of(tmp_path, names)
    refused = 0
    for _ in range(150):
        graph = copy.deepcopy(whole)
        for _ in range(numbers.choice((1, 1, 2))):
            part = graph
            while True:
                keys = list(part) if isinstance(part, dict) else range(len(part))
                if not keys:
                    break
                key = numbers.choice(keys)
                if not isinstance(part[key], (dict, list)) or not part[key] or numbers.random() < 0.1:
                    if numbers.random() < 0.2:
                        del part[key]
                    else:
                        part[key] = strange(numbers, list(tensors()))
                    break
                part = part[key]
        refused += replayed(tmp_path, graph) is None
    assert 0 < refused < 150


@pytest.mark.parametrize("seed", range(4))
def test_changed_headers_of_tensors_are_refused_or_read(seed, tmp_path):
    numbers = random.Random(seed)
    graph = capture_of(tmp_path, ["relu.default", "t.default"])
    path = tmp_path / "tensors.safetensors"
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    refused = 0
    for _ in range(100):
        header = json.loads(whole[8 : 8 + size])
        row = header[numbers.choice(list(header))]
        field = numbers.choice(list(row))
        where, key = (row[field], 0) if isinstance(row[field], list) and row[field] else (row, field)
        where[numbers.choice((key, -1)) if isinstance(where, list) else key] = copy.deepcopy(numbers.choice(STRANGE))
        text = json.dumps(numbers.choice((header, header, header, [header], {**header, "__metadata__": 3}))).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + size :])
        refused += replayed(tmp_path, graph) is None
    path.write_bytes(whole[:4])
    assert 50 < refused < 100 and replayed(tmp_path, graph) is None


def test_a_fault_of_a_rule_is_not_a_verdict(tmp_path, monkeypatch):
    def wrong(call, x: rules.Value):
        raise TypeError("a fault of the rule")

    monkeypatch.setitem(rules.pointwise, "aten.silu.default", wrong)
    with pytest.raises(TypeError, match="a fault of the rule"):
        replayed(tmp_path, capture_of(tmp_path, ["silu.default"]))


def test_the_sentence_names_the_argument():
    value = rules.Value(np.ones((2, 3), np.float32))
    for rule, args, words in (
        (rules.views["aten.select.int"], [value, "0", 1], "dim is 0, not a whole number"),
        (rules.views["aten.permute.default"], [value, [0, 1.5]], "not a list of whole number"),
        (rules.others["aten.mm.default"], [value], "'b'"),
        (rules.pointwise["aten.where.self"], [value, None, 1], "y is None, not a tensor or"),
    ):
        with pytest.raises(CannotSay) as refused:
            _replay.bound(rule, () if rule in rules.views.values() else (None,), args, {})
        assert words in str(refused.value)
