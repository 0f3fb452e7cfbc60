#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records what PyTorch's operators give on a GPU: attention, softmax, norms, reductions, activations, a decoder layer.

Needs PyTorch and a GPU, but not bitmma. Writes one safetensors file a call and index.json.

  record_operators.py -o recorded                     every family
  record_operators.py -o recorded --only attention    some of them, with commas
  record_operators.py -o more --random 200 --seed 7   other shapes, drawn at random
  record_operators.py --list                          the families and how many calls each has

Inputs come from the generator of record_common.py: element i of stream s, multiplied in f32 by the call's `gain`,
then rounded to the type. Inputs of the kind "bits" are the low bits of word i, of the kind "all" the
words 0, 1, 2, ... A file holds sampled rows of each output, where `rows` counts in the output as a matrix of its last
dimension.
"""

import argparse
import functools
import json
import os
import random
import sys
import time

import torch
import torch.nn.functional as F

from record_common import GENERATOR, about_this_machine, element_words, kernels_of, values, write_safetensors

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
X, WEIGHT, BIAS, OTHER = range(4)


def call(op, dtype="f32", **more):
    return {"op": op, "dtype": dtype, **more}


# ---------------------------------------------------------------------------------------------------------------------
# Which calls

UNARY = {"exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2, "sqrt": torch.sqrt,
         "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh,
         "erf": torch.erf, "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu,
         "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": torch.relu, "softplus": F.softplus,
         "log1p": torch.log1p, "expm1": torch.expm1, "square": torch.square}  # fmt: skip
BINARY = {"add": torch.add, "mul": torch.mul, "sub": torch.sub, "div": torch.div}
SPREADS = [
    (1, 1000003),
    (1, 4194304),
    (3, 1048577),
    (2, 300000),
    (7, 128256),
    (33, 50257),
    (333, 100),
    (2048, 129),
    (5, 8193),
]
COLUMNS = [
    1,
    5,
    32,
    33,
    100,
    128,
    200,
    512,
    777,
    1000,
    1024,
    1025,
    1536,
    2048,
    3000,
    4096,
    5120,
    8192,
    8193,
    11008,
    32000,
    50257,
    128256,
]


def elementwise():
    for op in UNARY:
        for dtype in TYPES:
            kind = "bits" if dtype == "f32" else "all"
            yield call(op, dtype, shape=[256, 256], input=kind)
        yield call(op, "f32", shape=[64, 257], gain=1.0)
    for op in BINARY:
        for dtype in TYPES:
            yield call(op, dtype, shape=[256, 256], input="bits")


def softmax():
    for op in ("softmax", "log_softmax"):
        for cols in COLUMNS:
            for dtype, to in (("f32", "f32"), ("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32")):
                yield call(op, dtype, to=to, shape=[37, cols], gain=2.0)
        yield call(op, "f32", to="f32", shape=[16, 1000], gain=16.0)
        yield call(op, "f32", to="f32", shape=[4096, 96], gain=1.0)
        for cols in (100, 1024, 1025, 2048, 3000, 8193, 11008, 24000, 32000, 50257):
            yield call(op, "f16", to="f32", shape=[37, cols], gain=2.0)
        for i, cols in enumerate((50257, 50258, 50259, 128255, 12001) * 3):
            yield call(op, "f32", to="f32", shape=[37 + i, cols], gain=2.0)
        for cols in (100, 3000, 12000):
            yield call(op, "f32", to="f32", shape=[5, cols], special=True)


def norms():
    for op in ("layer_norm", "rms_norm"):
        for cols in COLUMNS[1:-2]:
            for dtype in TYPES:
                yield call(op, dtype, shape=[19, cols], affine=True, eps=1e-5)
        yield call(op, "f32", shape=[300, 768], affine=False, eps=1e-6)
        yield call(op, "bf16", shape=[300, 4096], affine=False, eps=1e-6)
        for cols in (33, 777, 1024):
            for dtype in TYPES:
                yield call(op, dtype, shape=[19, cols], affine=False, eps=1e-5)
        for cols in (33, 64):
            yield call(op, "f32", shape=[5, cols], affine=True, eps=1e-5, special=True)
    for dtype in TYPES:
        for cols in (4, 64, 768, 4096, 8192, 1, 99, 1023, 5001):
            yield call("layer_norm", dtype, shape=[300, cols], affine="bias", eps=1e-5)


def reductions():
    for op in ("sum", "mean", "amax", "argmax"):
        for rows in (1, 7, 64, 2048):
            for cols in COLUMNS:
                if rows == 2048 and cols > 8193:
                    continue
                for dtype in ("f32", "bf16") if op in ("sum", "mean") else ("bf16",):
                    yield call(op, dtype, shape=[rows, cols], gain=1.1)  # not a power of two: sums are rounded
        for shape in ([333, 64], [5000, 3], [100000, 64], [700, 1000], [31, 130], [4097, 33]):
            yield call(op, "f32", shape=shape, dim=0, gain=1.1)
        yield call(op, "f32", shape=[10, 64], special=True)
        for rows, cols in SPREADS if op in ("sum", "mean") else ():
            yield call(op, "f32", shape=[rows, cols], gain=1.1)
            for dtype in ("f16", "bf16"):
                yield call(op, dtype, to="f32", shape=[rows, cols], gain=1.1)
    for cols in COLUMNS:
        yield call("mean_f32", "bf16", shape=[33, cols])  # x.float().pow(2).mean(-1), as norms written by hand have it


def losses():
    for rows, cols in ((8, 100), (64, 1000), (33, 32000), (16, 128256)):
        for dtype in TYPES:
            yield call("cross_entropy", dtype, shape=[rows, cols], reduction="none")
            yield call("cross_entropy", dtype, shape=[rows, cols], reduction="mean")


def attends(api, dtype, batch, heads, queries, keys, d, causal=False, gain=1.0, **more):
    return call(
        "attention",
        dtype,
        api=api,
        batch=batch,
        heads=heads,
        queries=queries,
        keys=keys,
        d=d,
        causal=causal,
        gain=gain,
        **more,
    )


def attention():
    for d in (32, 64, 80, 96, 128, 160, 192, 256):
        for dtype in ("bf16", "f16"):
            for causal in (False, True):
                yield attends("flash", dtype, 4, 16, 333, 333, d, causal)
                yield attends("flash", dtype, 2, 4, 200, 1000, d, causal, gain=2.0)
    for queries, keys in (
        (1, 1),
        (1, 64),
        (1, 300),
        (1, 1000),
        (1, 4096),
        (7, 2000),
        (64, 64),
        (100, 5000),
        (512, 128),
        (1024, 1024),
    ):
        for d, causal in ((64, False), (128, False), (128, True), (256, True)):
            yield attends("flash", "bf16", 1, 8, queries, keys, d, causal)
    for window in ((0, 0), (100, 0), (64, 64), (-1, 30)):
        for d, queries, keys in ((64, 300, 300), (128, 300, 300), (128, 77, 500), (128, 1, 900)):
            yield attends("flash_window", "bf16", 8, 32, queries, keys, d, window=list(window))
    for lengths in ([300, 1, 77, 512], [64, 64, 64], [1000, 200]):
        for d, causal in ((64, True), (128, False), (128, True)):
            yield attends(
                "flash_varlen", "bf16", len(lengths), 16, sum(lengths), sum(lengths), d, causal, lengths=lengths
            )
    for api in ("efficient", "cudnn"):
        for d in (32, 64, 96, 128):
            for dtype in ("bf16", "f16", "f32") if api == "efficient" else ("bf16", "f16"):
                for causal in (False, True):
                    yield attends(api, dtype, 2, 8, 333, 333, d, causal)
                    yield attends(api, dtype, 1, 4, 200, 1000, d, causal, gain=2.0)
        yield attends(api, "bf16", 1, 8, 1, 1000, 128)


def cudnn():
    """More calls of cuDNN's attention: head sizes, key heads, scales, decoding."""
    call = functools.partial(attends, "cudnn", gain=2.0)
    for d in (8, 16, 24, 40, 48, 56, 72, 80, 88, 104, 112, 120):
        for dtype in ("bf16", "f16"):
            yield call(dtype, 1, 2, 192, 300, d, causal=dtype == "bf16")
            yield call(dtype, 1, 2, 200, 128, d, causal=True)
    for heads, kv_heads in ((32, 8), (8, 1), (6, 2)):
        yield call("bf16", 2, heads, 256, 256, 64, causal=True, kv_heads=kv_heads)
    for scale in (1.0, 0.1, 1 / 3, 0.07, 1e-3):
        for d, causal in ((64, False), (80, True)):
            yield call("f16", 1, 2, 150, 270, d, causal, scale=scale)
    for queries, keys in ((300, 100), (100, 300), (65, 64), (64, 65), (1000, 129), (128, 1), (256, 4096)):
        for causal in (False, True):
            yield call("bf16", 1, 4, queries, keys, 128, causal, kv_heads=2)
    for queries in (1, 2, 8, 16):
        for keys in (1, 17, 64, 65, 129, 200, 500, 1000, 4096):
            for batch, d, dtype in ((1, 128, "bf16"), (1, 64, "f16"), (8, 128, "bf16")):
                yield call(dtype, batch, 32, queries, keys, d, kv_heads=8)


def layers():
    for tokens, cached in ((64, 0), (333, 0), (1, 64), (1, 500)):
        yield call(
            "llama",
            "bf16",
            hidden=512,
            heads=8,
            kv_heads=2,
            d=64,
            intermediate=1408,
            tokens=tokens,
            cached=cached,
            layers=2,
        )
    for tokens, cached in ((128, 0), (1, 200)):
        yield call(
            "llama",
            "bf16",
            hidden=2048,
            heads=32,
            kv_heads=8,
            d=64,
            intermediate=8192,
            tokens=tokens,
            cached=cached,
            layers=1,
        )


def drawn(count, seed):
    """Calls of random shapes."""
    chosen = random.Random(seed)
    extent = lambda most: chosen.randint(1, int(2 ** chosen.uniform(0, most)))
    for _ in range(count):
        family = chosen.choice(
            [
                "softmax",
                "softmax",
                "norms",
                "norms",
                "reductions",
                "reductions",
                "losses",
                "attention",
                "attention",
                "attention",
            ]
        )
        dtype, shape = chosen.choice(list(TYPES)), [extent(9), extent(16)]
        if family == "softmax":
            yield call(
                chosen.choice(["softmax", "log_softmax"]),
                dtype,
                to=chosen.choice([dtype, "f32"]),
                shape=shape,
                gain=chosen.choice([0.5, 1.0, 4.0]),
            )
        elif family == "norms":
            yield call(
                chosen.choice(["layer_norm", "rms_norm"]),
                dtype,
                shape=[extent(7), chosen.choice([extent(13), 4 * extent(11), 64 * extent(7)])],
                affine=chosen.random() < 0.8,
                eps=chosen.choice([1e-5, 1e-6]),
            )
        elif family == "reductions":
            yield call(chosen.choice(["sum", "mean", "amax", "argmax", "mean_f32"]), dtype, shape=shape, gain=1.1)
        elif family == "losses":
            yield call("cross_entropy", dtype, shape=shape, reduction=chosen.choice(["none", "mean"]))
        else:
            dtype = chosen.choice(["bf16", "f16"])
            queries, keys = extent(11), extent(12)
            if chosen.random() < 0.4:
                queries = keys
            yield attends(
                "flash",
                dtype,
                extent(3),
                extent(5),
                queries,
                keys,
                8 * chosen.randint(1, 32),
                chosen.random() < 0.5,
                gain=chosen.choice([0.5, 1.0, 2.0]),
            )


FAMILIES = {"elementwise": elementwise, "softmax": softmax, "norms": norms, "reductions": reductions, "losses": losses,
            "attention": attention, "layers": layers, "cudnn": cudnn}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# How each is called


def tensor(c, stream, shape, seed, device, gain=None, dtype=None):
    count, dtype = 1, dtype or TYPES[c["dtype"]]
    for one in shape:
        count *= one
    if c.get("input") in ("bits", "all") and stream in (X, OTHER):
        words = (
            torch.arange(count, device=device) if c["input"] == "all" else element_words(stream, seed, 0, count, device)
        )
        integers, bits = (torch.int32, 32) if dtype == torch.float32 else (torch.int16, 16)
        words = words & ((1 << bits) - 1)
        words = words - ((words >> (bits - 1)) << bits)
        return words.to(integers).view(dtype).reshape(shape)
    gain = c.get("gain", 1.0) if gain is None else gain
    made = (values(stream, seed, 0, count, torch.float32, device) * gain).to(dtype).reshape(shape)
    if c.get("special") and stream == X:
        for i, row in enumerate(made):
            make_special(row, i)
    return made


def make_special(x, row):
    """All -inf, one +inf, one NaN, half -inf, as they are."""
    kind = row % 5
    if kind == 0:
        x[:] = -torch.inf
    elif kind in (1, 2):
        x[row % len(x)] = torch.inf if kind == 1 else torch.nan
    elif kind == 3:
        x[: len(x) // 2] = -torch.inf


def run_attention(c, seed, device):
    batch, heads, d = c["batch"], c["heads"], c["d"]
    api, causal = c["api"], c["causal"]
    if api == "flash_varlen":
        q, k, v = (tensor(c, s, [c["queries"], heads, d], seed, device) for s in range(3))
        ends = torch.tensor([0, *torch.tensor(c["lengths"]).cumsum(0).tolist()], dtype=torch.int32, device=device)
        longest = max(c["lengths"])
        run = lambda: torch.ops.aten._flash_attention_forward(
            q, k, v, ends, ends, longest, longest, 0.0, causal, False
        )[:2]
        return run, ("out", "lse")
    q = tensor(c, 0, [batch, heads, c["queries"], d], seed, device)
    k, v = (tensor(c, s, [batch, c.get("kv_heads", heads), c["keys"], d], seed, device) for s in (1, 2))
    if api == "flash":
        return lambda: torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[:2], ("out", "lse")
    if api == "flash_window":
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        left, right = (None if one < 0 else one for one in c["window"])

        def run():
            out, lse = torch.ops.aten._flash_attention_forward(
                q,
                k,
                v,
                None,
                None,
                c["queries"],
                c["keys"],
                0.0,
                causal,
                False,
                window_size_left=left,
                window_size_right=right,
            )[:2]
            return out.transpose(1, 2), lse

        return run, ("out", "lse")
    if api == "efficient":
        return lambda: torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal)[:2], (
            "out",
            "lse",
        )
    scale = c.get("scale")
    return lambda: torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, scale=scale)[
        :2
    ], ("out", "lse")


def runner(c, seed, device):
    """A function that makes the call, and the names of its outputs."""
    op = c["op"]
    if op == "attention":
        return run_attention(c, seed, device)
    x = tensor(c, X, c["shape"], seed, device)
    cols = c["shape"][-1]
    if op in UNARY:
        return lambda: (UNARY[op](x),), ("out",)
    if op in BINARY:
        other = tensor(c, OTHER, c["shape"], seed, device)
        return lambda: (BINARY[op](x, other),), ("out",)
    if op in ("softmax", "log_softmax"):
        to = None if c["to"] == c["dtype"] else TYPES[c["to"]]
        return lambda: (getattr(torch, op)(x, -1, dtype=to),), ("out",)
    if op == "layer_norm":
        given = {True: (WEIGHT, BIAS), False: (), "bias": (BIAS,)}[c["affine"]]
        weight, bias = (tensor(c, s, [cols], seed, device) if s in given else None for s in (WEIGHT, BIAS))
        return lambda: torch.native_layer_norm(x, [cols], weight, bias, c["eps"]), ("out", "mean", "rstd")
    if op == "rms_norm":
        weight = tensor(c, WEIGHT, [cols], seed, device) if c["affine"] else None
        return lambda: (F.rms_norm(x, [cols], weight, c["eps"]),), ("out",)
    if op == "mean_f32":
        return lambda: (x.float().pow(2).mean(-1),), ("out",)
    if op == "cross_entropy":
        target = (element_words(OTHER, seed, 0, c["shape"][0], device) % cols).to(torch.int64)
        return lambda: (F.cross_entropy(x, target, reduction=c["reduction"]),), ("out",)
    to = {"dtype": TYPES[c["to"]]} if "to" in c else {}
    return lambda: (getattr(torch, op)(x, dim=c.get("dim", -1), **to),), ("out",)


def rotate(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def llama_steps(c, seed, device):
    """(name, function of the tensors so far) for every operator; a model of transformers, written out."""
    hidden, heads, kv, d, inter, tokens, cached = (
        c[key] for key in ("hidden", "heads", "kv_heads", "d", "intermediate", "tokens", "cached")
    )
    # Kept: what is profiled is a step, not what makes its weights.
    small = functools.cache(
        lambda stream, *shape: tensor(c, stream, shape, seed, device, gain=2.0**-5 if hidden <= 1024 else 2.0**-6)
    )
    weight = functools.cache(lambda stream: tensor(c, stream, [hidden], seed, device, gain=0.25))
    cache = functools.cache(lambda stream: tensor(c, stream, [1, kv, cached, d], seed, device, gain=1.0))
    position = torch.arange(cached, cached + tokens, dtype=torch.float64)
    angle = position[:, None] * 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)[None, :]
    cos, sin = (torch.cat((f(angle), f(angle)), -1).to(torch.bfloat16).to(device) for f in (torch.cos, torch.sin))
    # The tokens as heads: [1, tokens, heads, d] -> [1, heads, tokens, d].
    split = lambda t, n: t.view(1, tokens, n, d).transpose(1, 2)
    turn = lambda t: t * cos + rotate(t) * sin

    def norm(name, source, stream):
        yield name + ".float", lambda t: t[source].float()
        yield name + ".square", lambda t: t[name + ".float"].pow(2)
        yield name + ".mean", lambda t: t[name + ".square"].mean(-1, keepdim=True)
        yield name + ".rsqrt", lambda t: torch.rsqrt(t[name + ".mean"] + 1e-5)
        yield name + ".scaled", lambda t: (t[name + ".float"] * t[name + ".rsqrt"]).to(torch.bfloat16)
        yield name, lambda t: weight(stream) * t[name + ".scaled"]

    x0 = tensor(c, 0, [1, tokens, hidden], seed, device, gain=1.0)
    yield "x0", lambda t: x0
    for i in range(c["layers"]):
        s = 16 * (i + 1)  # the first stream of this layer
        at = f"{i}."
        yield from norm(at + "norm", f"x{i}", s)
        for j, (name, n) in enumerate((("q", heads), ("k", kv), ("v", kv))):
            yield at + name, lambda t, j=j, n=n, s=s, at=at: F.linear(t[at + "norm"], small(s + 1 + j, n * d, hidden))
        yield at + "q_turned", lambda t, at=at: turn(split(t[at + "q"], heads))
        yield at + "k_turned", lambda t, at=at: turn(split(t[at + "k"], kv))

        def attend(t, s=s, at=at):
            k, v = t[at + "k_turned"], split(t[at + "v"], kv)
            if cached:
                k, v = (torch.cat((cache(s + n), one), 2) for n, one in ((10, k), (11, v)))
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
                return F.scaled_dot_product_attention(t[at + "q_turned"], k, v, is_causal=tokens > 1, enable_gqa=True)

        yield at + "attention", attend
        yield (
            at + "o",
            lambda t, s=s, at=at: F.linear(
                t[at + "attention"].transpose(1, 2).reshape(1, tokens, heads * d), small(s + 4, hidden, heads * d)
            ),
        )
        yield at + "mid", lambda t, i=i, at=at: t[f"x{i}"] + t[at + "o"]
        yield from norm(at + "norm2", at + "mid", s + 5)
        yield at + "gate", lambda t, s=s, at=at: F.linear(t[at + "norm2"], small(s + 6, inter, hidden))
        yield at + "up", lambda t, s=s, at=at: F.linear(t[at + "norm2"], small(s + 7, inter, hidden))
        yield at + "silu", lambda t, at=at: F.silu(t[at + "gate"])
        yield at + "product", lambda t, at=at: t[at + "silu"] * t[at + "up"]
        yield at + "down", lambda t, s=s, at=at: F.linear(t[at + "product"], small(s + 8, hidden, inter))
        yield f"x{i + 1}", lambda t, i=i, at=at: t[at + "mid"] + t[at + "down"]
    yield from norm("final", f"x{c['layers']}", 1)
    yield "logits", lambda t: F.linear(t["final"], small(2, 1000, hidden))
    yield "token", lambda t: t["logits"].argmax(-1)


# ---------------------------------------------------------------------------------------------------------------------
# What is written


def sampled(out, number, most):
    """Rows of an output as a matrix of its last dimension, and their numbers."""
    matrix = out.reshape(-1, out.shape[-1]) if out.dim() > 1 else out.reshape(1, -1)
    rows = sorted(random.Random(number).sample(range(matrix.shape[0]), min(matrix.shape[0], most)))
    return matrix[rows], torch.tensor(rows, dtype=torch.int32)


def words(t):
    return t.to(torch.int32) if t.dtype == torch.int64 else t.contiguous()


def record(c, number, folder, about, device):
    seed = 3000000 + number
    metadata = {"generator": GENERATOR, "seed": seed, "call": json.dumps(c), **about}
    tensors, kernels, same = {}, [], True
    if c["op"] == "llama":
        made = {}
        for name, step in llama_steps(c, seed, device):
            made[name] = step(made)
            names = kernels_of(functools.partial(step, made), device)
            kernels.append({"step": name, "kernels": names})
            tensors[name], tensors[name + ".rows"] = sampled(words(made[name]), number, 16)
    else:
        run, names = runner(c, seed, device)
        first, kernels, again = run(), kernels_of(run, device), run()
        for name, out, other in zip(names, first, again, strict=True):
            out, other = torch.atleast_1d(out), torch.atleast_1d(other)
            same = same and torch.equal(words(out).view(torch.uint8), words(other).view(torch.uint8))
            most = 24 if c["op"] == "attention" else 256 if "input" in c else 4 if c["shape"][-1] <= 8192 else 1
            tensors[name], tensors[name + ".rows"] = sampled(words(out), number, most)
    metadata["kernel"] = json.dumps(kernels)
    if not same:
        metadata["deterministic"] = "no"
    file = f"{number:05d}.safetensors"
    write_safetensors(os.path.join(folder, file), tensors, metadata)
    return {"file": file, "call": c, "kernels": kernels, "deterministic": same}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", help="folder to write")
    parser.add_argument("--only", help="families, separated by commas")
    parser.add_argument("--list", action="store_true", help="the families")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="record N calls with random shapes instead")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random shapes")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to test the script")
    options = parser.parse_args()
    if options.list:
        for name, family in FAMILIES.items():
            print(f"{name:12} {len(list(family()))}")
        return 0
    if not options.out:
        parser.error("-o is missing: the folder to write")
    names = options.only.split(",") if options.only else list(FAMILIES)
    for name in names:
        if name not in FAMILIES:
            parser.error(f"--only {name}: legal are {', '.join(FAMILIES)}")
    calls = []
    for i, (name, family) in enumerate(FAMILIES.items()):  # numbers do not depend on --only
        calls += [(1000 * i + j, name, c) for j, c in enumerate(family()) if name in names]
    if options.random:
        calls = [(10000 * options.seed + i, "random", c) for i, c in enumerate(drawn(options.random, options.seed))]
    os.makedirs(options.out, exist_ok=True)
    about = about_this_machine(options.device)
    index, begin = {**about, "generator": GENERATOR, "calls": []}, time.time()
    for done, (number, family, c) in enumerate(calls):
        try:
            entry = record(c, number, options.out, about, options.device)
        except Exception as refused:  # noqa: BLE001 - a call that PyTorch refuses is a result too
            entry = {"call": c, "refused": f"{type(refused).__name__}: {str(refused)[:300]}"}
        index["calls"].append({"family": family, **entry})
        if sys.stderr.isatty() or done % 100 == 0:
            print(f"{done + 1} of {len(calls)}, {time.time() - begin:.0f} s", file=sys.stderr)
    with open(os.path.join(options.out, "index.json"), "w") as file:
        json.dump(index, file, indent=1)
    recorded = sum("file" in entry for entry in index["calls"])
    print(
        f"{recorded} calls recorded, {len(index['calls']) - recorded} refused by PyTorch, {time.time() - begin:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
