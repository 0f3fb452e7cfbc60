#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what lab/record_training.py recorded on a GPU with the rules of bitmma.

  check_training.py recorded.json.xz           a table by operator: calls, outputs, those that differ
  check_training.py recorded.json.xz --list    and a line for each call that differs or is refused

Needs the bitmma package, NumPy and ml_dtypes. Exit code 1: an output differs.
"""

import argparse
import base64
import collections
import json
import lzma
import sys

import ml_dtypes
import numpy as np

import bitmma
from bitmma import _replay_rules as rules, operators
from bitmma._captured import CannotSay, Tensor, Value
from bitmma._replay_arguments import bound
from bitmma._training_rules import rule_of
from check_operators import element_words, values

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
f32 = np.float32


def applied(name, outputs, *args, **options):
    """The results of a rule; `outputs` are arrays or (type, shape)."""

    def argument(value):
        if isinstance(value, np.ndarray):
            return Value(value)
        return [argument(item) for item in value] if isinstance(value, list) else value

    rule = rule_of(f"aten.{name}")
    about = [Tensor(np.dtype(out[0]), tuple(out[1])) if isinstance(out, tuple) else None for out in outputs]
    call = rules.Call(about[0], about, None, 0, {"multiprocessors": 132}, None, 0, None, lambda *operands: None)
    given = {key: argument(value) for key, value in options.items()}
    arguments = bound(rule, (call,), [argument(arg) for arg in args], given)
    made = rule(*arguments.args, **arguments.kwargs)
    return [None if value is None else value.array for value in (made if isinstance(made, list) else [made])]


def of(array):
    return array.dtype, array.shape


def elements(name, *numbers, **options):
    """A function of elements of its tensors, then of numbers."""
    return lambda call, *x: applied(name, [of(x[0])], *x, *numbers, **options)


def with_value(name, place=None):
    def compute(call, *x):
        more = {} if place is None else {place: call["value"]}
        return applied(name, [of(x[0])], *x, *([call["value"]] if place is None else []), **more)

    return compute


def of_lists(name, *, is_list=False, place=None):
    def compute(call, *x):
        value = [call["value"]] if is_list else call["value"]
        more = {place: value} if place else {}
        return applied(f"_foreach_{name}", [of(x[0])], *([part] for part in x), *([] if place else [value]), **more)

    return compute


def softmax_backward(call, gradient, x, name):
    forward = operators.log_softmax if name == "_log_softmax" else operators.softmax
    y = forward(x, dtype=np.float32 if call.get("wide") else None)
    return applied(f"{name}_backward_data.default", [of(x)], gradient, y, -1, None)


def layer_norm_backward(call, gradient, x, weight, bias):
    w, b = (weight, bias) if call["affine"] else (None, None)
    _, mean, rstd = operators.layer_norm(x, w, b, 1e-5, return_moments=True)
    mask = [True, call["affine"], call["affine"]]
    return applied(
        "native_layer_norm_backward.default", [of(x), None, None], gradient, x, [x.shape[-1]], mean, rstd, w, b, mask
    )


def rms_norm_backward(call, gradient, x, weight):
    w = weight if call["affine"] else None
    out, rstd = operators.rms_norm_with_deviation(x, w, 1e-6, 1)
    made = applied(
        "_fused_rms_norm_backward.default", [of(x), None], gradient, x, [x.shape[-1]], rstd, w, [True, call["affine"]]
    )
    return [out, rstd, *made]


def nll_loss(call, x, target):
    logarithms, reduction, ignored = operators.log_softmax(x), call["reduction"], call["ignored"]
    shape = (len(target),) if reduction == 0 else ()
    loss, total = applied(
        "nll_loss_forward.default", [(x.dtype, shape), (x.dtype, ())], logarithms, target, None, reduction, ignored
    )
    gradient = applied("mul.Tensor", [(x.dtype, shape)], np.ones(shape, x.dtype), 0.7)[0]
    of_x = applied("nll_loss_backward.default", [of(x)], gradient, logarithms, target, None, reduction, ignored, total)
    return [loss, total, *of_x]


def mse_loss(call, x, y):
    return applied("mse_loss.default", [(x.dtype, x.shape if call["reduction"] == 0 else ())], x, y, call["reduction"])


def mse_loss_backward(call, x, y):
    gradient = applied("mul.Tensor", [(x.dtype, ())], np.ones((), x.dtype), call.get("gradient", 0.7))[0]
    return applied("mse_loss_backward.default", [of(x)], gradient, x, y, call["reduction"])


def reduced(call, x, name):
    shape = [1 if i in call["dims"] else size for i, size in enumerate(x.shape)]
    if name == "mean.dim":
        shape = [size for i, size in enumerate(x.shape) if i not in call["dims"]]
    return applied(name, [(x.dtype, shape)], x, call["dims"], name != "mean.dim")


# The operator `optimizer` is made of others: tests/python/adapters/test_torch.py compares it.
CALLS = {
    "gelu_backward": elements("gelu_backward.default"),
    "gelu_tanh_backward": elements("gelu_backward.default", approximate="tanh"),
    "silu_backward": elements("silu_backward.default"),
    "sigmoid_backward": elements("sigmoid_backward.default"),
    "tanh_backward": elements("tanh_backward.default"),
    "threshold_backward": elements("threshold_backward.default", 0),
    "leaky_relu": elements("leaky_relu.default"),
    "leaky_relu_backward": elements("leaky_relu_backward.default", 0.01, False),
    "elu": elements("elu.default"),
    "selu": elements("elu.default", 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1),
    "elu_backward": lambda call, g, x: applied("elu_backward.default", [of(x)], g, 1.0, 1, 1, False, x),
    "softplus": elements("softplus.default"),
    "softplus_backward": elements("softplus_backward.default", 1, 20),
    "relu6": elements("hardtanh.default", 0, 6),
    "hardtanh_backward": elements("hardtanh_backward.default", 0, 6),
    "hardsigmoid": elements("hardsigmoid.default"),
    "hardswish": elements("hardswish.default"),
    "mish": elements("mish.default"),
    "hardswish_backward": elements("hardswish_backward.default"),
    "mish_backward": elements("mish_backward.default"),
    "mse_loss": mse_loss,
    "mse_loss_backward": mse_loss_backward,
    "add": with_value("add.Tensor", "alpha"),
    "sub": with_value("sub.Tensor", "alpha"),
    "div_number": with_value("div.Tensor"),
    "lerp": with_value("lerp.Scalar"),
    "addcmul": with_value("addcmul.default", "value"),
    "addcdiv": with_value("addcdiv.default", "value"),
    "foreach_add_list": of_lists("add.List", place="alpha"),
    "foreach_add": of_lists("add.Scalar"),
    "foreach_mul": of_lists("mul.Scalar"),
    "foreach_div": of_lists("div.Scalar"),
    "foreach_div_list": of_lists("div.ScalarList", is_list=True),
    "foreach_lerp": of_lists("lerp.Scalar"),
    "foreach_addcmul": of_lists("addcmul.Scalar"),
    "foreach_addcdiv": of_lists("addcdiv.ScalarList", is_list=True),
    "foreach_sqrt": lambda call, x: applied("_foreach_sqrt.default", [of(x)], [np.abs(x)]),
    "foreach_norm": lambda call, x: applied("_foreach_norm.Scalar", [(x.dtype, ())], [x]),
    "vector_norm": lambda call, x: applied("linalg_vector_norm.default", [(x.dtype, ())], x),
    "pow": with_value("pow.Tensor_Scalar"),
    "log_sigmoid": lambda call, x: applied("log_sigmoid_forward.default", [of(x)], x)[:1],
    "binary_cross_entropy": lambda call, x: applied(
        "binary_cross_entropy_with_logits.default", [of(x)], x, (x > 0).astype(x.dtype), None, None, 0
    ),
    "logsumexp": lambda call, x: applied("logsumexp.default", [(x.dtype, (64,))], x.reshape(64, 64), [-1]),
    "softmax_backward": lambda call, g, x: softmax_backward(call, g, x, "_softmax"),
    "log_softmax_backward": lambda call, g, x: softmax_backward(call, g, x, "_log_softmax"),
    "layer_norm_backward": layer_norm_backward,
    "rms_norm_backward": rms_norm_backward,
    "nll_loss": nll_loss,
    "embedding_backward": lambda call, g, at: applied(
        "embedding_dense_backward.default", [(g.dtype, (call["count"], g.shape[1]))], g, at, call["count"],
        call["padding"], False,
    ),
    "sum": lambda call, x: reduced(call, x, "sum.dim_IntList"),
    "mean": lambda call, x: reduced(call, x, "mean.dim"),
}  # fmt: skip


def made_tensor(about, stream, seed):
    count = int(np.prod(about["shape"]))
    if about["dtype"] == "i64":
        return (element_words(stream, seed, 0, count) % about["below"]).astype(np.int64).reshape(about["shape"])
    if about.get("kind") == "words":
        return (np.arange(count) & 0xFFFF).astype(np.uint16).view(TYPES[about["dtype"]]).reshape(about["shape"])
    made = values(stream, seed, 0, count, np.float32, 1.0) * f32(about["gain"]) + f32(about.get("offset", 0.0))
    return made.astype(TYPES[about["dtype"]]).reshape(about["shape"])


def compared(entry):
    """(outputs compared, those that differ). Raises CannotSay if no rule computes the call."""
    x = [made_tensor(about, stream, entry["seed"]) for stream, about in enumerate(entry["tensors"])]
    made = CALLS[entry["op"]](entry["call"], *x)
    total = differing = 0
    for out, recorded in zip(made, entry["outputs"], strict=True):
        if recorded is None or out is None:
            continue
        word = f"u{out.dtype.itemsize}"
        words = np.frombuffer(base64.b64decode(recorded["words"]), word)
        if out.dtype != np.dtype(recorded["dtype"]) or list(out.shape) != recorded["shape"]:
            return 1, 1
        flat = np.ascontiguousarray(out).reshape(-1)
        if "rows" in recorded:  # the first words of a row
            first = recorded["rows"][0] * out.shape[-1]
            mine = flat[first : first + len(words)].view(word)
        else:
            mine = flat[:: recorded["step"]].view(word)
        total, differing = total + len(words), differing + int((mine != words).sum())
    return total, differing


def recorded_calls(path):
    with lzma.open(path, "rt") as file:
        recorded = json.load(file)
    return recorded["about"], [entry for entry in recorded["calls"] if "outputs" in entry and entry["repeats"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="recorded.json.xz")
    parser.add_argument("--list", action="store_true", help="print a line for each call that differs or is refused")
    options = parser.parse_args()
    rows = collections.OrderedDict()
    for entry in recorded_calls(options.file)[1]:
        if entry["op"] not in CALLS:
            continue
        row = rows.setdefault(entry["op"], [0, 0, 0, 0])
        row[0] += 1
        try:
            total, differing = compared(entry)
        except (CannotSay, bitmma.Error) as error:
            row[3] += 1
            if options.list:
                print(entry["op"], entry["tensors"], entry["call"], error)
            continue
        row[1], row[2] = row[1] + total, row[2] + differing
        if options.list and differing:
            print(entry["op"], entry["tensors"], entry["call"], f"{differing} of {total} differ")
    print("| operator | calls | outputs | differ | refused |\n|---|---|---|---|---|")
    for name, (calls, total, differing, refused) in rows.items():
        print(f"| {name} | {calls} | {total:,} | {differing:,} | {refused} |")
    return int(any(row[2] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
