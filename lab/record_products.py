#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records what a GPU's libraries give for matrix products, for `bitmma gemm --find`.

Needs PyTorch and a GPU, but not bitmma; Triton where it is installed. Writes one safetensors file a call and
index.json.

  record_products.py -o recorded                    every family
  record_products.py -o recorded --only scaled,bmm  some of them
  record_products.py -o more --random 400 --seed 7  other shapes, drawn at random
  record_products.py -o models --random-models 500 --seed 7
                                                    layers of models with random M, and the slices that the library
                                                    takes
  record_products.py --list                         the families and how many calls each has

Inputs come from the generator of record_common.py. A file therefore holds only the sampled rows and columns of D, and
the seed. Element (row, k) of A [M, K] is number row * K + k of stream 0, element (col, k) of B [N, K] number col * K +
k of stream 1, C [M, N] is stream 2, bias [N] is stream 3. In a batch the rows of all products count through.
"""

import argparse
import itertools
import json
import os
import random
import re
import sys
import time

import torch

from record_choices import pairs
from record_common import GENERATOR, about_this_machine, captured, element_words, kernels_of, values, write_safetensors

A, B, C, BIAS, SCALE_A, SCALE_B = range(6)


def types():
    rows = {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "f64": torch.float64, "s8": torch.int8}
    for name, attribute in (("e4m3", "float8_e4m3fn"), ("e5m2", "float8_e5m2")):
        if hasattr(torch, attribute):
            rows[name] = getattr(torch, attribute)
    return rows


TYPES = types()
OUTPUTS = {**TYPES, "f32": torch.float32, "s32": torch.int32}


# ---------------------------------------------------------------------------------------------------------------------
# Which calls

# (N, K) of layers: GPT-2, Llama 3 8B and 70B, Qwen2.5 7B, Gemma 2 9B, Mixtral, DeepSeek-V3; and a few deep or narrow
# ones.
LAYERS = [
    (2304, 768),
    (768, 3072),
    (3072, 1024),
    (6144, 4096),
    (4096, 4096),
    (28672, 4096),
    (4096, 14336),
    (10240, 8192),
    (8192, 8192),
    (8192, 28672),
    (4608, 3584),
    (3584, 18944),
    (14336, 3584),
    (3584, 14336),
    (1536, 7168),
    (7168, 2048),
    (24576, 1536),
    (7168, 16384),
    (2112, 7168),
    (256, 11528),
    (512, 20480),
    (128, 65536),
    (64, 4096),
    (8, 4096),
]
ROWS = [1, 2, 8, 16, 17, 64, 100, 128, 256, 512, 1024, 2048, 4096, 8192]


def call(api, m, n, k, a="bf16", b=None, d=None, **more):
    return {"api": api, "m": m, "n": n, "k": k, "a": a, "b": b or a, "d": d or a, **more}


def layers():
    chosen = random.Random(1)
    for n, k in LAYERS:
        for m in ROWS:
            if m * n * k > 3e12 or m * k > 3e8:
                continue
            for kind in [("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32"), ("f16", "f16"), ("tf32", "f32")]:
                if chosen.random() < 0.32:
                    yield call("mm", m, n, k, kind[0], d=kind[1])


def odd():
    chosen = random.Random(2)
    for _ in range(150):
        m, n = (chosen.choice([1, 3, 7, 13, 33, 77, 129, 300, 511, 1000, 2049]) for _ in range(2))
        k = chosen.choice([1, 3, 5, 8, 17, 40, 72, 100, 136, 255, 264, 500, 777, 1000, 1001, 2056, 3001, 4104, 6000])
        kind = chosen.choice([("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32"), ("f16", "f16"), ("tf32", "f32")])
        yield call("mm", m, n, k, kind[0], d=kind[1])


def layouts():
    for (m, n, k), (a, d), layout in itertools.product(
        [(128, 256, 4096), (64, 4096, 1024), (2048, 512, 2048), (24, 40, 8200)],
        [("bf16", "f32"), ("f16", "f32"), ("tf32", "f32"), ("bf16", "bf16")],
        ["nn", "tn", "tt"],
    ):
        yield call("mm", m, n, k, a, d=d, layout=layout)


def batches():
    for (batch, m, n, k), (a, d) in itertools.product(
        [
            (32, 128, 128, 64),
            (16, 512, 64, 512),
            (8, 1, 4096, 128),
            (64, 77, 64, 77),
            (4, 1024, 1024, 1024),
            (12, 197, 197, 64),
            (3, 100, 60, 2000),
            (2, 64, 128, 8192),
        ],
        [("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32"), ("f16", "f16"), ("tf32", "f32")],
    ):
        yield call("bmm", m, n, k, a, d=d, batch=batch)


def epilogues():
    shapes = [
        (128, 256, 4096),
        (16, 4096, 4096),
        (1000, 1000, 1000),
        (2048, 768, 3072),
        (512, 512, 11528),
        (64, 64, 64),
    ]
    for (m, n, k), (a, d) in itertools.product(shapes, [("bf16", "bf16"), ("f16", "f16"), ("tf32", "f32")]):
        yield call("linear", m, n, k, a, d=d, bias=True)
        yield call("linear_relu", m, n, k, a, d=d, bias=True)
        yield call("addmm", m, n, k, a, d=d, alpha=1.0, beta=1.0)
    for m, n, k in shapes[:4]:
        for alpha, beta in [(1 / 3, 0.0), (1 / 3, 0.7), (-1.0, 1.0)]:
            yield call("addmm", m, n, k, "tf32", d="f32", alpha=alpha, beta=beta)
            yield call("addmm", m, n, k, "bf16", d="f32", alpha=alpha, beta=beta)


def scaled():
    chosen = random.Random(3)
    for n, k in [
        (256, 256),
        (4096, 4096),
        (28672, 4096),
        (4096, 14336),
        (8192, 8192),
        (7168, 2048),
        (2112, 7168),
        (576, 7168),
        (512, 11536),
        (256, 144),
        (128, 2576),
        (64, 16384),
        (24576, 1536),
        (3584, 18944),
    ]:
        for m in [1, 16, 32, 64, 128, 256, 1024, 4096]:
            for d, fast in itertools.product(["f32", "bf16"], [True, False]):
                if n % 16 or m * n * k > 2e12 or chosen.random() > 0.62:
                    continue
                yield call("scaled_mm", m, n, k, "e4m3", d=d, fast=fast, scales="one")
    for (m, n, k), fast in itertools.product([(128, 256, 4096), (64, 512, 1024), (512, 4096, 2048)], [True, False]):
        for a, b in [("e4m3", "e5m2"), ("e5m2", "e4m3")]:
            yield call("scaled_mm", m, n, k, a, b=b, d="f32", fast=fast, scales="one")
        for d in ["f32", "bf16", "f16", "e4m3"]:
            yield call("scaled_mm", m, n, k, "e4m3", d=d, fast=fast, scales="tensor")
        for d in ["bf16", "f32"]:
            yield call("scaled_mm", m, n, k, "e4m3", d=d, fast=fast, scales="row")
        yield call("scaled_mm", m, n, k, "e4m3", d="bf16", fast=fast, scales="tensor", bias=True)
        yield call("scaled_mm", m, n, k, "e4m3", d="bf16", fast=fast, scales="row", bias=True)
    for m, n, k in [(128, 256, 4096), (64, 512, 1024), (512, 4096, 2048), (256, 7168, 2048), (16, 2048, 7168)]:
        for d in ["bf16", "f32"]:
            yield call("scaled_mm", m, n, k, "e4m3", d=d, fast=False, scales="1x128, 128x128")
            yield call("scaled_mm", m, n, k, "e4m3", d=d, fast=False, scales="1x128, 1x128")


def switches():
    for (m, n, k), a in itertools.product(
        [(1, 4096, 4096), (16, 4096, 14336), (300, 500, 1000), (128, 512, 11528), (256, 256, 4096), (77, 129, 264)],
        ["bf16", "f16"],
    ):
        yield call("mm", m, n, k, a, switch="no reduced precision reduction")
        if a == "f16":
            yield call("mm", m, n, k, a, switch="f16 accumulation")
    for m, n, k in [(64, 64, 64), (256, 512, 1024), (128, 4096, 4096), (100, 200, 1000)]:
        yield call("mm", m, n, k, "tf32", d="f32", switch="no tf32")


def others():
    for m, n, k in [(32, 64, 128), (128, 256, 4096), (17, 32, 64), (1024, 4096, 4096), (64, 1000, 1024), (256, 8, 136)]:
        yield call("int_mm", m, n, k, "s8", d="s32")
    for m, n, k in [
        (8, 8, 4),
        (64, 64, 64),
        (128, 256, 1000),
        (33, 65, 777),
        (512, 512, 512),
        (1024, 1024, 4096),
        (1, 100, 1000),
        (256, 16, 8192),
    ]:
        yield call("mm", m, n, k, "f64", d="f64")
    for n in [256, 512, 1000, 2048, 3000, 4096, 5120, 6000, 8192]:  # segment-K and waves of tiles
        for k in [512, 2048, 4096]:
            yield call("mm", 512, n, k, "tf32", d="f32")
    for (m, n), k in itertools.product(
        [(64, 256), (16, 512), (128, 512), (256, 256)], [11528, 11592, 8200, 23080, 4104]
    ):
        yield call("mm", m, n, k, "bf16", d="f32")  # tails of split-K


def triton_kernels():
    shapes = [(128, 256, 512), (256, 128, 1024), (64, 192, 2080), (512, 512, 4096)]
    for (m, n, k), a, block in itertools.product(
        shapes, ["bf16", "f16", "tf32", "e4m3", "e5m2"], [(64, 64, 64), (128, 128, 128)]
    ):
        if a == "tf32" and block[2] == 128:
            block = (128, 64, 32)
        yield call("triton", m, n, k, a, d="f32", block=block)
    for (m, n, k), imprecise in itertools.product(shapes[:3], [32, 64, 128]):
        yield call("triton", m, n, k, "e4m3", d="f32", block=(64, 64, 128), imprecise=imprecise)
    for (m, n, k), d in itertools.product([(128, 256, 512), (256, 128, 1024), (512, 512, 4096)], ["f32", "bf16"]):
        yield call("triton_scaled", m, n, k, "e4m3", d=d, block=(64, 64, 128), scales="1x128, 128x128")
        yield call("triton_scaled", m, n, k, "e4m3", d=d, block=(64, 64, 128), scales="1x128, 1x128")
    for (m, n, k), split in itertools.product(shapes, [2, 4]):
        yield call("triton_split", m, n, k, "bf16", d="f32", block=(64, 64, 32), split=split)
    for head, keys in [(64, 256), (128, 512), (64, 1000)]:
        for a in ["bf16", "f16"]:
            yield call("attention_qk", 128, keys, head, a, d="f32")
            yield call("attention_pv", 128, head, keys, a, d="f32")


def drawn(count, seed):
    """Calls of random shapes."""
    chosen = random.Random(seed)
    extent = lambda most, step: step * chosen.randint(1, max(1, int(2 ** chosen.uniform(0, most)) // step))
    for _ in range(count):
        kind = chosen.choice(["mm", "mm", "mm", "odd", "scaled", "scaled", "bias", "bmm"])
        step = 1 if kind == "odd" else 16 if kind == "scaled" else 8
        m, n, k = extent(12, 1 if kind != "odd" else step), extent(13.5, step), extent(15, step)
        a, d = chosen.choice([("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32"), ("f16", "f16"), ("tf32", "f32")])
        if kind == "scaled":
            scales = chosen.choice(["one", "tensor", "row"])
            yield call(
                "scaled_mm",
                m,
                n,
                k,
                "e4m3",
                d=chosen.choice(["f32", "bf16"]),
                fast=chosen.random() < 0.5,
                scales=scales,
            )
        elif kind == "bias":
            yield call(chosen.choice(["linear", "linear_relu"]), m, n, k, a, d="f32" if a == "tf32" else a, bias=True)
        elif kind == "bmm":
            yield call("bmm", min(m, 512), min(n, 512), min(k, 4096), a, d=d, batch=chosen.randint(2, 16))
        else:
            yield call("mm", m, n, k, a, d=d)


def drawn_of_models(count, seed):
    """Calls of the kinds and of the pairs (N, K) of record_choices.py with a random M; a tenth has another pair."""
    chosen, known = random.Random(seed), pairs()
    kinds = [("mm", "bf16", "bf16"), ("mm", "f16", "f16"), ("mm", "bf16", "f32"), ("mm", "f16", "f32"),
             ("mm", "tf32", "f32"), ("linear", "bf16", "bf16"), ("linear", "f16", "f16"), ("linear", "tf32", "f32"),
             ("scaled_mm", "e4m3", "bf16"), ("scaled_mm", "e4m3", "bf16")]  # fmt: skip
    for _ in range(count):
        api, a, d = chosen.choice(kinds)
        step, is_known = 16 if a == "e4m3" else 1, chosen.random() < 0.9
        while True:
            n, k = (
                chosen.choice(known)
                if is_known
                else (8 * step * int(2 ** chosen.uniform(0, 11 if a != "e4m3" else 7)) for _ in range(2))
            )
            if n % step == k % step == 0:
                break
        m = int(2 ** chosen.uniform(0, 14))
        m = max(1, min(m, 16384, 3 * 10**12 // (n * k)))
        more = {"bias": True} if api == "linear" else {}
        if a == "e4m3":
            more = {"fast": chosen.random() < 0.5, "scales": chosen.choice(["tensor", "row"])}
        elif a == "tf32" and chosen.random() < 0.5:
            more["switch"] = "no tf32"
        if api == "mm" and d == ("f32" if a == "tf32" else a) and chosen.random() < 0.25:
            more["layout"] = "nn"
        yield call(api, m, n, k, a, d=d, **more)


FAMILIES = {
    "layers": layers,
    "odd": odd,
    "layouts": layouts,
    "batches": batches,
    "epilogues": epilogues,
    "scaled": scaled,
    "switches": switches,
    "others": others,
    "triton": triton_kernels,
}


# ---------------------------------------------------------------------------------------------------------------------
# How each is called


class Inputs:
    """Operands of calls. Caches those of the last shape: the rows of a smaller M are the first rows of a larger one."""

    def __init__(self, device):
        self.device, self.kept = device, {}

    def get(self, stream, seed, rows, cols, dtype):
        key = (stream, seed, cols, dtype)
        found = self.kept.get(key)
        if found is None or found.shape[0] < rows:
            for old in [old for old in self.kept if old[1] != seed]:
                del self.kept[old]
            found = values(stream, seed, 0, rows * cols, dtype, self.device).reshape(rows, cols)
            self.kept[key] = found
        return found[:rows]


def scale_values(stream, seed, shape, device):
    count = 1
    for extent in shape:
        count *= extent
    words = element_words(stream, seed, 0, count, device)
    return ((words & 0x7FFFFF) + 0x400000).to(torch.float32).reshape(shape) * 2.0**-24


def blocks(extent):
    return (extent + 127) // 128


def scales_of(c, seed, device):
    """scale_a [M, ..] and scale_b [.., N], as bitmma reads them."""
    m, n, k, kind = c["m"], c["n"], c["k"], c.get("scales")
    if kind is None:
        return None, None
    if kind == "one":
        return torch.ones((1, 1), device=device), torch.ones((1, 1), device=device)
    if kind == "tensor":
        shapes = (1, 1), (1, 1)
    elif kind == "row":
        shapes = (m, 1), (1, n)
    elif kind == "1x128, 128x128":
        shapes = (m, blocks(k)), (blocks(k), blocks(n))
    else:
        shapes = (m, blocks(k)), (blocks(k), n)
    return scale_values(SCALE_A, seed, shapes[0], device), scale_values(SCALE_B, seed, shapes[1], device)


def column_major(t):
    return t.t().contiguous().t()


def laid_out(c, a, b):
    """A [M, K] and B [K, N] with the strides of the layout; by default B is K-contiguous, as in `tn`."""
    layout = c.get("layout", "nt")
    a = column_major(a) if layout[0] == "t" else a
    b = b.t() if layout[1] == "t" else b.t().contiguous()
    return a, b


def run_scaled(c, a, b, sa, sb, bias):
    options = {"out_dtype": OUTPUTS[c["d"]], "use_fast_accum": c["fast"], "bias": bias}
    tries = [(sa, sb)]
    if "128" in c["scales"]:
        tries = [(column_major(sa), s) for s in (column_major(sb), sb.contiguous())]
    error = None
    for one_a, one_b in tries:
        try:
            return torch._scaled_mm(a, b.t(), scale_a=one_a, scale_b=one_b, **options)
        except (RuntimeError, ValueError) as refused:
            error = refused
    raise error


def runner(c, inputs, seed):
    """Returns a function that makes the call, and the other contents of the file."""
    m, n, k, batch, device = c["m"], c["n"], c["k"], c.get("batch", 1), inputs.device
    api = c["api"]
    a = inputs.get(A, seed, batch * m, k, TYPES[c["a"]])
    b = inputs.get(B, seed, batch * n, k, TYPES[c["b"]])
    out = OUTPUTS[c["d"]]
    extra = {}
    if c.get("bias"):
        extra["bias"] = values(BIAS, seed, 0, n, torch.bfloat16 if c["a"] in ("e4m3", "e5m2") else out, device)
    sa, sb = scales_of(c, seed, device)
    if sa is not None and c["scales"] != "one":
        extra["scale_a"], extra["scale_b"] = sa, sb
    wide = {} if out == a.dtype else {"out_dtype": out}
    if api == "mm":
        x, y = laid_out(c, a, b)
        return lambda: torch.mm(x, y, **wide), extra
    if api == "bmm":
        x, y = a.reshape(batch, m, k), b.reshape(batch, n, k).transpose(1, 2)
        return lambda: torch.bmm(x, y, **wide).reshape(batch * m, n), extra
    if api == "linear":
        return lambda: torch.addmm(extra["bias"], a, b.t()), extra
    if api == "linear_relu":
        return lambda: torch._addmm_activation(extra["bias"], a, b.t()), extra
    if api == "addmm":
        extra["c"] = values(C, seed, 0, m * n, out, device).reshape(m, n)
        return lambda: torch.addmm(extra["c"], a, b.t(), alpha=c["alpha"], beta=c["beta"], **wide), extra
    if api == "scaled_mm":
        return lambda: run_scaled(c, a, b, sa, sb, extra.get("bias")), extra
    if api == "int_mm":
        return lambda: torch._int_mm(a, b.t()), extra
    import_triton()
    if api.startswith("attention"):
        # Two products of one head, P as the kernel before rounds it: recorded whole, since no generator gives it.
        if api == "attention_pv":
            scores = torch.softmax(values(C, seed, 0, m * k, torch.float32, device).reshape(m, k), dim=1)
            a = scores.to(a.dtype)
            extra["a"] = a
        return lambda: triton_product({**c, "block": (64, 64, 64)}, a, b, None, None), extra
    return lambda: triton_product(c, a, b, sa, sb), extra


# ---------------------------------------------------------------------------------------------------------------------
# Triton

TRITON = None


def import_triton():
    """Imports the kernels from a separate file beside the recordings: Triton reads their source."""
    global TRITON  # noqa: PLW0603 - a module, imported once
    if TRITON is not None:
        return
    import importlib.util

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "record_products_triton.py")
    spec = importlib.util.spec_from_file_location("record_products_triton", path)
    TRITON = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(TRITON)


def triton_product(c, a, b, sa, sb):
    return TRITON.product(
        a, b, OUTPUTS[c["d"]], c["block"], split=c.get("split", 1), scale_a=sa, scale_b=sb, imprecise=c.get("imprecise")
    )


# ---------------------------------------------------------------------------------------------------------------------
# What is written


def set_switch(switch):
    """Sets the switches of PyTorch's libraries that this release supports."""
    reduced = switch != "no reduced precision reduction"
    for name, value in (
        ("allow_tf32", switch != "no tf32"),
        ("allow_bf16_reduced_precision_reduction", reduced),
        ("allow_fp16_reduced_precision_reduction", reduced),
        ("allow_fp16_accumulation", switch == "f16 accumulation"),
    ):
        try:
            setattr(torch.backends.cuda.matmul, name, value)
        except (AssertionError, AttributeError):
            if switch is not None:
                raise


def sample(c, seed):
    """Rows and columns of D. A D with few bits hides wrong plans, so it gets more outputs."""
    rows, cols = (8, 16) if c["d"] in ("f32", "f64", "s32") else (16, 32)
    chosen = random.Random(seed)
    m, n = c["m"], c["n"]
    return sorted(chosen.sample(range(m), min(m, rows))), sorted(chosen.sample(range(n), min(n, cols)))


def slices_of(run):
    """Into how many slices the library splits K; 0: it does not."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()  # gets the stream's workspace and memory of D, outside of the capture
    torch.cuda.synchronize()
    return captured(run, stream)[1]


def record(c, number, inputs, folder, about, with_slices=False):
    seed = 1000 + (c["n"] * 1000003 + c["k"]) % 1000000 if c["api"] == "mm" else 2000000 + number
    set_switch(c.get("switch"))
    run, extra = runner(c, inputs, seed)
    first = run()
    kernels = kernels_of(run, inputs.device)
    slices = slices_of(run) if with_slices else None
    again = run()
    rows, cols = sample(c, number)
    batch, which = c.get("batch", 1), number % c.get("batch", 1)
    whole_rows = [which * c["m"] + row for row in rows]

    def sampled(d):
        return d[whole_rows][:, cols]

    d = sampled(first)
    same = torch.equal(d.contiguous().view(torch.uint8), sampled(again).contiguous().view(torch.uint8))
    text = json.dumps(c)
    # cuBLAS's names of templates are long; their first 400 characters say what matters.
    kernel = " + ".join(re.sub(r"\s+", " ", name)[:400] for name in kernels)
    metadata = {
        "generator": GENERATOR,
        "seed": seed,
        "m": c["m"],
        "n": c["n"],
        "k": c["k"],
        "a_type": c["a"],
        "b_type": c["b"],
        "call": text,
        "kernel": kernel,
        **about,
    }
    if batch > 1:
        metadata["batch"] = which
    if slices is not None:
        metadata["slices"] = slices
    for key in ("alpha", "beta"):
        if key in c:
            metadata[key] = float(torch.tensor(c[key], dtype=torch.float32))
    if not same:
        metadata["deterministic"] = "no"
    integers = lambda numbers: torch.tensor(numbers, dtype=torch.int32)
    tensors = {"d": d, "rows": integers(rows), "cols": integers(cols)}
    for name, t in extra.items():
        if name == "c":
            tensors["c"] = t[rows][:, cols]
        elif name == "a":
            tensors["a"] = t[rows]
        elif name == "bias":
            tensors["bias"] = t[cols]
        elif name == "scale_a":
            tensors["scale_a"] = t[rows] if t.shape[0] > 1 else t
        else:
            tensors["scale_b"] = t[:, cols] if t.shape[1] == c["n"] and c["n"] > 1 else t
    file = f"{number:04d}.safetensors"
    write_safetensors(os.path.join(folder, file), tensors, metadata)
    return {
        "file": file,
        "call": c,
        "kernels": kernels,
        "deterministic": same,
        **({"slices": slices} if with_slices else {}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", help="folder to write")
    parser.add_argument("--only", help="families, separated by commas")
    parser.add_argument("--list", action="store_true", help="the families")
    parser.add_argument("--part", default="0/1", help="I/N: record every N-th call, starting with the I-th")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="record N calls with random shapes instead")
    parser.add_argument(
        "--random-models", type=int, default=0, metavar="N", help="record N calls of layers with random M instead"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random shapes")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after this many seconds")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to test the script")
    options = parser.parse_args()
    if options.list:
        for name, family in FAMILIES.items():
            print(f"{name:10} {len(list(family()))}")
        return 0
    if not options.out:
        parser.error("-o is missing: the folder to write")
    names = options.only.split(",") if options.only else list(FAMILIES)
    for name in names:
        if name not in FAMILIES:
            parser.error(f"--only {name}: legal are {', '.join(FAMILIES)}")
    which, parts = (int(number) for number in options.part.split("/"))
    calls = []
    for name, family in FAMILIES.items():  # numbers do not depend on --only
        for c in family():
            calls.append((len(calls), name, c))
    if options.random:
        calls = [(10000 + i, "random", c) for i, c in enumerate(drawn(options.random, options.seed))]
        names = ["random"]
    if options.random_models:
        calls = [
            (20000 + i, "random models", c) for i, c in enumerate(drawn_of_models(options.random_models, options.seed))
        ]
        names = ["random models"]
    calls = [one for one in calls if one[1] in names and one[0] % parts == which]
    os.makedirs(options.out, exist_ok=True)
    about, inputs = about_this_machine(options.device), Inputs(options.device)
    index = {**about, "generator": GENERATOR, "calls": []}
    begin = time.time()
    for done, (number, family, c) in enumerate(calls):
        if time.time() - begin > options.seconds:
            index["not_recorded"] = len(calls) - done
            break
        try:
            entry = record(c, number, inputs, options.out, about, with_slices=family == "random models")
        except Exception as refused:  # noqa: BLE001 - a call that this library refuses is a result too
            entry = {"call": c, "refused": f"{type(refused).__name__}: {str(refused)[:300]}"}
        index["calls"].append({"family": family, **entry})
        if sys.stderr.isatty() or done % 100 == 0:
            print(f"{done + 1} of {len(calls)}, {time.time() - begin:.0f} s", file=sys.stderr)
    with open(os.path.join(options.out, "index.json"), "w") as file:
        json.dump(index, file, indent=1)
    recorded = sum("file" in entry for entry in index["calls"])
    refused = len(index["calls"]) - recorded
    print(f"{recorded} calls recorded, {refused} refused by the library, {time.time() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
