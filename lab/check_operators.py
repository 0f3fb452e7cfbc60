#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what lab/record_operators.py recorded on a GPU with what bitmma computes.

  check_operators.py DIR                   a table by operator and kernel: calls, outputs, those that differ
  check_operators.py DIR --only softmax    operators, separated by commas
  check_operators.py DIR --list            and print a line for each call

Needs the bitmma package, NumPy and ml_dtypes. Exit code 1: an output differs.
"""

import argparse
import collections
import json
import os
import sys

import ml_dtypes
import numpy as np

import bitmma
from bitmma import operators
from bitmma._philox import philox
from bitmma._safetensors import read_safetensors

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
X, WEIGHT, BIAS, OTHER = range(4)
AFFINE = {True: (WEIGHT, BIAS), False: (), "bias": (BIAS,)}


def element_words(stream, seed, first, count):
    """Words [first, first + count) of a stream, of record_common.py's generator."""
    begin, end = first // 4, (first + count + 3) // 4
    words = np.stack(philox(np.arange(begin, end, dtype=np.uint64), stream, seed), 1).reshape(-1)
    return words[first - 4 * begin : first - 4 * begin + count].astype(np.uint32)


def values(stream, seed, first, count, dtype, gain):
    word = element_words(stream, seed, first, count)
    whole = ((word & 0xFFFF).astype(np.int32) - (word >> 16).astype(np.int32)).astype(np.float32)
    return (whole * np.float32(2.0**-14) * np.float32(gain)).astype(dtype)


def bits_of(array):
    """The words of a recorded or computed array, of which NaN and the sign of zero are compared as well."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def whole_tensor(call, stream, shape, seed, gain=None):
    gain = call.get("gain", 1.0) if gain is None else gain
    return values(stream, seed, 0, int(np.prod(shape)), TYPES[call["dtype"]], gain).reshape(shape)


def attention(call, seed, tensors, kernels):
    """The outputs of the heads that the file samples."""
    if call["api"] not in ("flash", "flash_window", "flash_varlen", "efficient", "cudnn"):
        return None
    heads, d, queries, keys = call["heads"], call["d"], call["queries"], call["keys"]
    names = " ".join(kernels)
    if call["api"] == "flash_varlen":
        q, k, v = (np.swapaxes(whole_tensor(call, s, [queries, heads, d], seed), 0, 1) for s in range(3))
        out, lse, at = np.empty((queries, heads, d), q.dtype), np.empty((heads, queries), np.float32), 0
        for length in call["lengths"]:
            part = slice(at, at + length)
            one = operators.attention(
                q[:, part], k[:, part], v[:, part], is_causal=call["causal"], splits=1, return_lse=True
            )
            out[part], lse[:, part], at = np.swapaxes(one[0], 0, 1), one[1], at + length
        return {"out": out, "lse": lse}
    if call["api"] == "cudnn" and (
        "knob_35" in names or "lean_reduction" in names
    ):  # its bits differ from call to call
        return None
    batch = call["batch"]
    q = whole_tensor(call, 0, [batch, heads, queries, d], seed)
    k, v = (whole_tensor(call, s, [batch, call.get("kv_heads", heads), keys, d], seed) for s in (1, 2))
    options = {"scale": call.get("scale")}
    if "window" in call:
        options["window"] = tuple(call["window"])
    if call["api"] in ("efficient", "cudnn"):
        options["backend"] = "cudnn_sm80" if "sdpa_sm80" in names else call["api"]
    out, lse = operators.attention(q, k, v, is_causal=call["causal"], return_lse=True, threads=0, **options)
    if call["api"] == "efficient":  # PyTorch fills rows up to multiples of 32
        lse = np.pad(lse, ((0, 0), (0, 0), (0, -queries % 32)), constant_values=np.inf)
    if call["api"] == "cudnn":
        lse = lse[..., None]
    return {"out": out, "lse": lse}


def rows_of(call, stream, seed, rows, shape=None):
    """Rows of an input."""
    shape, dtype = shape or call["shape"], TYPES[call["dtype"]]
    made = np.empty((len(rows), shape[-1]), dtype)
    for i, row in enumerate(rows):
        first = int(row) * shape[-1]
        if call.get("input") in ("bits", "all"):
            word = (
                element_words(stream, seed, first, shape[-1])
                if call["input"] == "bits"
                else np.arange(first, first + shape[-1])
            )
            bits = np.uint32 if dtype == np.float32 else np.uint16
            made[i] = (word & np.iinfo(bits).max).astype(bits).view(dtype)
        else:
            made[i] = values(stream, seed, first, shape[-1], dtype, call.get("gain", 1.0))
    if call.get("special") and stream == X:
        for i, row in enumerate(rows):
            make_special(made[i], int(row))
    return made


def make_special(x, row):
    """All -inf, one +inf, one NaN, half -inf, as they are."""
    kind = row % 5
    if kind == 0:
        x[:] = -np.inf
    elif kind in (1, 2):
        x[row % len(x)] = np.inf if kind == 1 else np.nan
    elif kind == 3:
        x[: len(x) // 2] = -np.inf


def row_operator(call, seed, tensors):
    op, rows = call["op"], tensors["out.rows"]
    shape, to = call["shape"], {"dtype": TYPES[call["to"]]} if "to" in call else {}
    if op in ("softmax", "log_softmax"):
        return {"out": getattr(operators, op)(rows_of(call, X, seed, rows), rows=rows, whole=shape[0], **to)}
    if op in ("layer_norm", "rms_norm"):
        weight, bias = (
            rows_of({**call, "special": False}, s, seed, [0], [1, shape[1]])[0] if s in AFFINE[call["affine"]] else None
            for s in (WEIGHT, BIAS)
        )
        x = rows_of(call, X, seed, rows)
        if op == "rms_norm":
            return {"out": operators.rms_norm(x, weight, eps=call["eps"])}
        return dict(
            zip(
                ("out", "mean", "rstd"),
                operators.layer_norm(x, weight, bias, eps=call["eps"], return_moments=True),
                strict=True,
            )
        )
    if op in ("sum", "mean", "amax", "argmax", "mean_f32"):
        x = rows_of(call, X, seed, range(shape[0]))
        if op == "mean_f32":
            x, op = operators.elementwise("square", x.astype(np.float32)), "mean"
        return {"out": getattr(operators, op)(x, dim=call.get("dim", -1), threads=0, **to)[None]}
    if op == "cross_entropy":
        target = (element_words(OTHER, seed, 0, shape[0]) % shape[1]).astype(np.int64)
        loss = operators.cross_entropy(
            rows_of(call, X, seed, range(shape[0])), target, reduction=call["reduction"], threads=0
        )
        return {"out": loss.reshape(1, -1)}
    if op in operators.elementwise_functions():
        other = rows_of(call, OTHER, seed, rows) if op in ("add", "sub", "mul", "div") else None
        return {"out": operators.elementwise(op, rows_of(call, X, seed, rows), other)}
    return None


def llama(call, seed, tensors, kernels):
    """{step: rows}: every layer from its input on, as the recording computed it."""
    hidden, heads, kv, d, inter, tokens, cached = (
        call[key] for key in ("hidden", "heads", "kv_heads", "d", "intermediate", "tokens", "cached")
    )
    gain = 2.0**-5 if hidden <= 1024 else 2.0**-6
    kernels = {one["step"]: one["kernels"] for one in kernels}
    found = {"x0": whole_tensor(call, X, [tokens, hidden], seed, 1.0)}
    for i in range(call["layers"]):
        s = 16 * (i + 1)
        shapes = {
            "q": (1, heads * d, hidden),
            "k": (2, kv * d, hidden),
            "v": (3, kv * d, hidden),
            "o": (4, hidden, heads * d),
            "gate": (6, inter, hidden),
            "up": (7, inter, hidden),
            "down": (8, hidden, inter),
        }
        weights = {name: whole_tensor(call, s + n, shape, seed, gain) for name, (n, *shape) in shapes.items()}
        weights |= {
            "norm": whole_tensor(call, s, [hidden], seed, 0.25),
            "norm2": whole_tensor(call, s + 5, [hidden], seed, 0.25),
        }
        options = {"heads": heads, "kv_heads": kv, "position": cached, "threads": 0}
        if cached:
            options["cache"] = tuple(whole_tensor(call, s + n, [kv, cached, d], seed, 1.0) for n in (10, 11))
        names = {
            name: " + ".join(one for one in kernels[f"{i}.{name}"] if "nvjet" in one or "splitK" in one)
            for name in shapes
        }
        plans = {name: {"kernel": kernel} for name, kernel in names.items() if "splitK" not in kernel}
        steps = bitmma.layers.llama(found[f"x{i}"], weights, plans=plans, **options)
        for name in (name for name in shapes if name not in plans):  # the count is not in the kernel's name
            inputs = {"q": "norm", "k": "norm", "v": "norm", "gate": "norm2", "up": "norm2", "down": "product"}
            source = (
                steps[inputs[name]]
                if name in inputs
                else np.ascontiguousarray(steps["attention"].swapaxes(0, 1)).reshape(tokens, -1)
            )
            at = f"{i}.{name}"
            recorded = tensors[at].view(ml_dtypes.bfloat16)
            plans[name] = bitmma.find_plans(
                source[tensors[at + ".rows"]], weights[name].T, recorded, kernel=names[name]
            )[0]
            steps = bitmma.layers.llama(found[f"x{i}"], weights, plans=plans, **options)
        found |= {f"{i}.{name}": step for name, step in steps.items() if name != "out"}
        found[f"x{i + 1}"] = steps["out"]
    last = f"x{call['layers']}"
    found["final"] = bitmma.layers.llama_norm(found[last], whole_tensor(call, 1, [hidden], seed, 0.25), threads=0)
    found["logits"] = bitmma.gemm(
        found["final"],
        whole_tensor(call, 2, [1000, hidden], seed, gain).T,
        kernel=kernels["logits"][-1],
        out_dtype="bf16",
        threads=0,
    )
    found["token"] = operators.argmax(found["logits"], -1)[None]
    return {name: one.reshape(-1, one.shape[-1])[tensors[name + ".rows"]] for name, one in found.items()}


def computed(call, seed, tensors, kernels):
    """{name: array of the sampled rows}, or None for an operator that bitmma does not claim."""
    if call["op"] == "llama":
        return llama(call, seed, tensors, kernels)
    if call["op"] != "attention":
        return row_operator(call, seed, tensors) if "shape" in call else None
    found = attention(call, seed, tensors, kernels)
    if found is None:
        return None
    return {name: one.reshape(-1, one.shape[-1])[tensors[name + ".rows"]] for name, one in found.items()}


def kernel_of(about):
    """The first kernel's name without its types."""
    names = json.loads(about["kernel"])
    return (
        names[0].replace("void ", "").split("<")[0].split("(")[0].split("::")[-1]
        if names and isinstance(names[0], str)
        else ""
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", help="folder of recorded calls")
    parser.add_argument("--only", help="operators, separated by commas")
    parser.add_argument("--list", action="store_true", help="print a line for each call")
    options = parser.parse_args()
    rows = collections.OrderedDict()
    for name in sorted(os.listdir(options.dir)):
        if not name.endswith(".safetensors"):
            continue
        about, tensors = read_safetensors(os.path.join(options.dir, name))
        call = json.loads(about["call"])
        if options.only and not {call["op"], call.get("api")} & set(options.only.split(",")):
            continue
        key = (call.get("api") or call["op"], kernel_of(about))
        row = rows.setdefault(key, [0, 0, 0, 0, 0])
        row[0] += 1
        try:
            found = computed(call, int(about["seed"]), tensors, json.loads(about["kernel"]))
        except bitmma.Error as error:
            print(f"{name}: {error}", file=sys.stderr)
            found = None
        if found is None:
            row[1] += 1
            continue
        missing = [output for output in tensors if not output.endswith(".rows") and output not in found]
        if missing and call["op"] != "llama":  # of a layer, the steps inside a norm are recorded as well
            raise SystemExit(f"{name}: {', '.join(missing)} of {call} is recorded and not computed")
        differing = total = 0
        for output, recorded in tensors.items():
            if output in found:
                mine = bits_of(found[output]).reshape(recorded.shape)
                differing += int((mine != bits_of(recorded)).sum())
                total += recorded.size
        row[2] += total
        row[3] += differing
        row[4] += differing > 0
        if options.list:
            print(name, call, f"{differing} of {total} differ", flush=True)
    if not rows:
        raise SystemExit(f"{options.dir}: no recorded call of these operators")
    print("| operator | kernel | calls | not claimed | outputs | differ | in calls |\n|---|---|---|---|---|---|---|")
    for (op, kernel), (calls, refused, total, differing, bad) in rows.items():
        print(f"| {op} | `{kernel}` | {calls} | {refused} | {total:,} | {differing:,} | {bad} |")
    return int(any(row[3] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
