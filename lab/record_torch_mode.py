#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records calls of PyTorch and small models on a GPU, for `check_torch_mode.py`, which runs the same calls on CPU
tensors under `bitmma.torch.gpu`.

Needs PyTorch and a GPU, but not bitmma. A recording holds seeds and, of each output, its SHA-256 and some words.

  record_torch_mode.py -o recorded.json               300 drawn calls and 12 models
  record_torch_mode.py -o recorded.json --calls 1000 --seed 2
  record_torch_mode.py --list                         the names of the models

A model runs forward, and then one step of training: loss, gradients, and a step of SGD or AdamW with foreach=True, as
PyTorch does by default on a GPU.
"""

import argparse
import hashlib
import json
import random
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from record_common import GENERATOR, about_this_machine, values

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Inputs:
    """Tensors of one case, each of a stream of its own."""

    def __init__(self, seed, dtype, device):
        self.seed, self.dtype, self.device, self.stream = seed, TYPES[dtype], device, 0

    def __call__(self, *shape, gain=1.0, offset=0.0):
        count = 1
        for size in shape:
            count *= size
        self.stream += 1
        made = values(self.stream, self.seed, 0, count, torch.float32, "cpu") * (1.1 * gain) + offset
        return made.to(self.dtype).reshape(shape).to(self.device)

    def indices(self, below, *shape):
        count = 1
        for size in shape:
            count *= size
        self.stream += 1
        made = values(self.stream, self.seed, 0, count, torch.float64, "cpu")
        return (made.abs() * below).to(torch.int64).clamp(0, below - 1).reshape(shape).to(self.device)


# ---------------------------------------------------------------------------------------------------------------------
# Calls: a dictionary that JSON can hold, and a function that makes it

WIDTHS = [(768, 3072), (3072, 768), (768, 768), (768, 2304), (1024, 4096), (1024, 1024), (512, 2048), (2048, 512),
          (512, 512), (256, 1024), (256, 256), (128, 512), (64, 256), (384, 1536), (384, 384), (4096, 4096),
          (4096, 1024), (2048, 2048), (896, 4864), (768, 1000), (512, 10), (784, 128), (100, 50), (1600, 6400),
          (1280, 5120)]  # fmt: skip
ROWS = [1, 2, 4, 7, 8, 16, 32, 50, 64, 100, 128, 197, 256, 512, 1024, 2048]
ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "softplus": F.softplus,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "relu6": F.relu6,
    "exp": torch.exp,
    "log": lambda x: torch.log(x.abs() + 0.1),
    "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.1),
    "square": lambda x: x**2,
    "scaled": lambda x: (x * 0.125 + 1.5 - x / 3) * 2,
    "broadcast": lambda x: x * x[..., :1] + x.mean(-1, keepdim=True),
    "glu": lambda x: F.glu(x),
}  # fmt: skip


def drawn(count, seed):
    """`count` calls as people make them: widths of models, batches, sequences."""
    chosen = random.Random(seed)
    kinds = ["linear"] * 4 + ["attention"] * 3 + ["activation"] * 3 + ["norm"] * 3 + ["softmax"] * 2 + ["loss"] * 2
    kinds += ["reduction"] * 2 + ["matmul", "embedding", "moves", "optimizer"]
    for _ in range(count):
        kind, dtype = chosen.choice(kinds), chosen.choice(["f32", "bf16", "bf16", "f16"])
        call = {"kind": kind, "dtype": dtype, "grad": chosen.random() < 0.5}
        batch, tokens = chosen.choice([1, 1, 2, 4, 8]), chosen.choice([1, 7, 16, 32, 64, 100, 128, 197, 256])
        width = chosen.choice([64, 100, 128, 256, 384, 512, 768, 777, 1000, 1024, 1600, 2048, 4096])
        if kind == "linear":
            k, n = chosen.choice(WIDTHS)
            rows = [chosen.choice(ROWS)] if chosen.random() < 0.5 else [batch, tokens]
            call |= {"rows": rows, "in": k, "out": n, "bias": chosen.random() < 0.5}
        elif kind == "attention":
            heads = chosen.choice([1, 4, 8, 12, 16, 32])
            keys = tokens if chosen.random() < 0.8 else chosen.choice([20, 50, 100, 300])
            call |= {
                "batch": batch,
                "heads": heads,
                "kv_heads": chosen.choice([heads, heads, max(1, heads // 4)]),
                "queries": tokens,
                "keys": keys,
                "size": chosen.choice([32, 64, 64, 64, 80, 96, 128, 128, 256]),
                "causal": keys == tokens and chosen.random() < 0.6,
                "grad": False,
            }
        elif kind == "activation":
            call |= {"name": chosen.choice(list(ACTIVATIONS)), "shape": [batch, tokens, 2 * width]}
        elif kind == "norm":
            call |= {
                "name": chosen.choice(["layer_norm", "rms_norm"]),
                "shape": [batch, tokens, width],
                "affine": chosen.random() < 0.9,
                "eps": chosen.choice([1e-5, 1e-6]),
            }
        elif kind == "softmax":
            shape = chosen.choice([[batch, 4, tokens, tokens], [tokens, width], [batch, 32000], [tokens, 1000]])
            call |= {"name": chosen.choice(["softmax", "log_softmax"]), "shape": shape, "wide": chosen.random() < 0.3}
        elif kind == "loss":
            classes = chosen.choice([2, 10, 100, 1000, 32000, 50257])
            call |= {
                "name": chosen.choice(["cross_entropy", "cross_entropy", "mse"]),
                "shape": [chosen.choice(ROWS), classes],
                "reduction": chosen.choice(["mean", "mean", "sum", "none"]),
                "ignored": chosen.choice([-100, -100, 1]),
            }
        elif kind == "reduction":
            call |= {
                "name": chosen.choice(["sum", "mean", "amax", "argmax"]),
                "shape": [batch, tokens, width],
                "dims": chosen.choice([None, [-1], [-1], [0, 1], [1]]),
            }
        elif kind == "matmul":
            call |= {"heads": chosen.choice([1, 4, 12]), "shape": [tokens, 64, chosen.choice([64, tokens])]}
        elif kind == "embedding":
            call |= {"rows": [batch, tokens], "count": chosen.choice([10, 1000, 50257]), "width": width}
        elif kind == "moves":
            call |= {"shape": [batch, tokens, width]}
        else:
            call |= {
                "grad": False,
                "shape": [chosen.choice([10, 1000, 65536])],
                "name": chosen.choice(list(OPTIMIZERS)),
            }
        yield call


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, foreach=True),
    "momentum": lambda p: torch.optim.SGD(p, 0.01, 0.9, weight_decay=0.1, nesterov=True, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, 1e-3, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, 3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True),
    "adamw_loop": lambda p: torch.optim.AdamW(p, 1e-3, foreach=False),
}


def moved(x):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    mask = torch.tril(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device))
    scores = (x[:, :, None, :1] * x[:, None, :, :1]).squeeze(-1).masked_fill(~mask, -1e4)
    return turned.flip(1), scores, torch.stack([x, x.neg()]).where(x > 0, x.abs())


def prepared(call, seed, device):
    """The tensors of a call, those whose gradient is taken first, and a function of them."""
    t, kind = Inputs(seed, call["dtype"], device), call["kind"]
    if kind == "linear":
        operands = [t(*call["rows"], call["in"]), t(call["out"], call["in"], gain=call["in"] ** -0.5)]
        operands += [t(call["out"])] if call["bias"] else []
        return operands, F.linear
    if kind == "attention":
        q = t(call["batch"], call["heads"], call["queries"], call["size"])
        k, v = (t(call["batch"], call["kv_heads"], call["keys"], call["size"]) for _ in range(2))
        gqa = call["heads"] != call["kv_heads"]
        return [q, k, v], lambda *x: F.scaled_dot_product_attention(*x, is_causal=call["causal"], enable_gqa=gqa)
    if kind == "activation":
        return [t(*call["shape"], gain=2.0)], ACTIVATIONS[call["name"]]
    if kind == "norm":
        shape = call["shape"][-1:]
        x = [t(*call["shape"])] + ([t(*shape, gain=0.25, offset=1.0)] if call["affine"] else [])
        if call["name"] == "rms_norm":
            return x, lambda x, w=None: F.rms_norm(x, shape, w, call["eps"])
        return x + ([t(*shape)] if call["affine"] else []), lambda x, w=None, b=None: F.layer_norm(
            x, shape, w, b, call["eps"]
        )
    if kind == "softmax":
        dtype = torch.float32 if call["wide"] else None
        return [t(*call["shape"], gain=3.0)], lambda x: getattr(torch, call["name"])(x, -1, dtype=dtype)
    if kind == "loss":
        x = t(*call["shape"], gain=3.0)
        if call["name"] == "mse":
            return [x, t(*call["shape"])], lambda x, y: F.mse_loss(x, y, reduction=call["reduction"])
        target = t.indices(call["shape"][1], call["shape"][0])
        return [x], lambda x: F.cross_entropy(x, target, reduction=call["reduction"], ignore_index=call["ignored"])
    if kind == "reduction":
        function, dims = getattr(torch, call["name"]), call["dims"]
        if call["name"] == "argmax":
            call["grad"] = False
            return [t(*call["shape"])], lambda x: function(x, None if dims is None else dims[-1])
        dims = () if dims is None and call["name"] == "amax" else dims
        return [t(*call["shape"])], lambda x: function(x) if dims is None else function(x, dims)
    if kind == "matmul":
        m, k, n = call["shape"]
        return [t(call["heads"], m, k), t(call["heads"], k, n)], torch.matmul
    if kind == "embedding":
        at = t.indices(call["count"], *call["rows"])
        return [t(call["count"], call["width"])], lambda w: F.embedding(at, w)
    if kind == "moves":
        return [t(*call["shape"])], moved
    gradients = [t(*call["shape"], gain=0.1) for _ in range(3)]

    def steps(p):
        parameter = nn.Parameter(p.clone())
        optimizer = OPTIMIZERS[call["name"]]([parameter])
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
        return parameter.detach()

    return [t(*call["shape"])], steps


def outputs_of_call(call, seed, device):
    """A function that makes the call and returns its outputs, and the gradients of its operands."""
    operands, function = prepared(call, seed, device)
    upstream = Inputs(seed + 1, call["dtype"], device)

    def run():
        x = [operand.clone().requires_grad_(call["grad"]) for operand in operands]
        made = function(*x)
        outs = list(made) if isinstance(made, (tuple, list)) else [made]
        if not call["grad"]:
            return outs
        of = [out for out in outs if out.requires_grad]
        grads = torch.autograd.grad(of, x, [gradients[i] for i in range(len(of))], allow_unused=True)
        return [*outs, *(grad for grad in grads if grad is not None)]

    gradients = []
    if call["grad"]:  # as many as the call has outputs, of their shapes and types
        gradients = [upstream(*shape).to(dtype) for shape, dtype in shapes_of(function, operands)]
    return run


def shapes_of(function, operands):
    """Shapes and types of the outputs that have a gradient, from a run of ordinary PyTorch."""
    made = function(*(operand.clone().requires_grad_() for operand in operands))
    outs = made if isinstance(made, (tuple, list)) else [made]
    return [(out.shape, out.dtype) for out in outs if out.requires_grad]


# ---------------------------------------------------------------------------------------------------------------------
# Models


class Mlp(nn.Module):
    def __init__(self, width, inner, out, activation=nn.GELU):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, inner), activation(), nn.LayerNorm(inner), nn.Linear(inner, out))

    def forward(self, x):
        return self.layers(x)


class Gpt2(nn.Module):
    """Two blocks of GPT-2."""

    def __init__(self, width=256, heads=4, layers=2, vocabulary=1000, tokens=64):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(width),
                    "q": nn.Linear(width, width),
                    "k": nn.Linear(width, width),
                    "v": nn.Linear(width, width),
                    "o": nn.Linear(width, width),
                    "norm2": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                }
            )
            for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.words(tokens) + self.places(torch.arange(length, device=tokens.device))
        for block in self.blocks:
            h = block["norm1"](x)
            q, k, v = (block[name](h).view(batch, length, self.heads, -1).transpose(1, 2) for name in "qkv")
            h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block["o"](h.transpose(1, 2).reshape(batch, length, -1))
            x = x + block["down"](F.gelu(block["up"](block["norm2"](x)), approximate="tanh"))
        return self.head(self.norm(x))


class Llama(nn.Module):
    """Two blocks of Llama."""

    def __init__(self, width=512, inner=1536, heads=8, kv_heads=2, layers=2, vocabulary=1000):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.words = nn.Embedding(vocabulary, width)

        def linear(k, n):
            return nn.Linear(k, n, bias=False)

        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.RMSNorm(width, eps=1e-5),
                    "q": linear(width, width),
                    "k": linear(width, kv_heads * self.size),
                    "v": linear(width, kv_heads * self.size),
                    "o": linear(width, width),
                    "norm2": nn.RMSNorm(width, eps=1e-5),
                    "gate": linear(width, inner),
                    "up": linear(width, inner),
                    "down": linear(inner, width),
                }
            )
            for _ in range(layers)
        )
        self.norm, self.head = nn.RMSNorm(width, eps=1e-5), linear(width, vocabulary)

    def forward(self, tokens, turns):
        batch, length = tokens.shape
        x = self.words(tokens)
        for block in self.blocks:
            h = block["norm1"](x)
            q, k, v = (block[name](h).view(batch, length, -1, self.size).transpose(1, 2) for name in "qkv")
            q, k = (part * turns[0] + self.turned(part) * turns[1] for part in (q, k))
            h = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] != self.heads)
            x = x + block["o"](h.transpose(1, 2).reshape(batch, length, -1))
            h = block["norm2"](x)
            x = x + block["down"](F.silu(block["gate"](h)) * block["up"](h))
        return self.head(self.norm(x))

    @staticmethod
    def turned(x):
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), -1)


class Vit(nn.Module):
    """A vision transformer whose patches come as rows."""

    def __init__(self, width=256, heads=4, layers=1, classes=1000):
        super().__init__()
        self.patches = nn.Linear(768, width)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 65, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = torch.cat((self.first.expand(len(x), -1, -1), self.patches(x)), 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x[:, 0]))


def tokens_of(t, batch, length):
    return t.indices(1000, batch, length), t.indices(1000, batch * length)


def turns_of(length, size, dtype, device):
    angle = torch.arange(length, dtype=torch.float64)[:, None] * 10000.0 ** (
        -torch.arange(0, size, 2, dtype=torch.float64) / size
    )
    return tuple(torch.cat((f(angle), f(angle)), -1).to(dtype).to(device) for f in (torch.cos, torch.sin))


def language(make, dtype, batch, length, optimizer):
    def prepare(device, seed):
        t = Inputs(seed, dtype, device)
        model = filled(make(), seed, dtype, device)
        tokens, targets = tokens_of(t, batch, length)
        more = (turns_of(length, model.size, TYPES[dtype], device),) if isinstance(model, Llama) else ()
        return (
            model,
            (tokens, *more),
            lambda out: F.cross_entropy(out.view(-1, out.shape[-1]).float(), targets),
            optimizer,
        )

    return prepare


def vectors(make, dtype, shape, optimizer, classes=0):
    def prepare(device, seed):
        t = Inputs(seed, dtype, device)
        model, x = filled(make(), seed, dtype, device), t(*shape)
        if classes:
            targets = t.indices(classes, shape[0])
            return model, (x,), lambda out: F.cross_entropy(out, targets), optimizer
        target = t(*shape[:-1], model(x).shape[-1])
        return model, (x,), lambda out: F.mse_loss(out, target), optimizer

    return prepare


def filled(model, seed, dtype, device):
    """Weights of the generator, in the type and on the device."""
    t = Inputs(seed + 1000, "f32", "cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.copy_(t(*parameter.shape, gain=0.1, offset=1.0))
            else:
                parameter.copy_(t(*parameter.shape, gain=parameter.shape[-1] ** -0.5))
    return model.to(TYPES[dtype]).to(device)


MODELS = {
    "mlp_f32": vectors(lambda: Mlp(256, 1024, 256), "f32", [64, 256], "adamw"),
    "mlp_bf16": vectors(lambda: Mlp(512, 2048, 512, nn.SiLU), "bf16", [128, 512], "adamw"),
    "mlp_f16": vectors(lambda: Mlp(512, 2048, 1000, nn.ReLU), "f16", [256, 512], "momentum", 1000),
    "classifier_bf16": vectors(lambda: Mlp(768, 3072, 1000), "bf16", [32, 768], "sgd", 1000),
    "gpt2_f32": language(Gpt2, "f32", 2, 32, "adamw"),
    "gpt2_bf16": language(Gpt2, "bf16", 2, 64, "adamw"),
    "gpt2_f16": language(Gpt2, "f16", 1, 64, "sgd"),
    "llama_bf16": language(Llama, "bf16", 1, 64, "adamw"),
    "llama_f16": language(Llama, "f16", 2, 32, "adamw"),
    "llama_f32": language(lambda: Llama(kv_heads=8), "f32", 1, 32, "adamw"),
    "vit_bf16": vectors(Vit, "bf16", [4, 64, 768], "adamw", 1000),
    "vit_f32": vectors(Vit, "f32", [2, 64, 768], "adamw", 1000),
}


def forward(prepared_model):
    model, x, _, _ = prepared_model
    with torch.inference_mode():
        return [model.eval()(*x)]


def training(prepared_model):
    """The loss, the gradients, and the weights after a step."""
    model, x, loss_of, name = prepared_model
    optimizer = OPTIMIZERS[name](list(model.parameters()))
    out = model.train()(*x)
    loss = loss_of(out)
    loss.backward()
    optimizer.step()
    parameters = list(model.parameters())
    return [out, loss, *(parameter.grad for parameter in parameters), *parameters]


# ---------------------------------------------------------------------------------------------------------------------
# What is written


def summary(out):
    """Shape, type, SHA-256, and up to 16 words."""
    out = out.detach().cpu().contiguous()
    raw = out.reshape(-1).view(torch.uint8) if out.numel() else torch.zeros(0, dtype=torch.uint8)
    words = raw.reshape(out.numel(), -1)[:: max(1, out.numel() // 16)][:16] if out.numel() else raw.reshape(0, 1)
    return {
        "shape": list(out.shape),
        "dtype": str(out.dtype).removeprefix("torch."),
        "sha256": hashlib.sha256(raw.numpy().tobytes()).hexdigest(),
        "words": [bytes(reversed(word.tolist())).hex() for word in words],
    }


def cases(count, seed):
    """(name, what JSON holds, seed, a function of a device that prepares a run)."""
    for i, call in enumerate(drawn(count, seed)):
        number = 100000 * seed + i
        yield call["kind"], call, number, lambda device, call=call, number=number: outputs_of_call(call, number, device)
    for i, (name, prepare) in enumerate(MODELS.items()):
        for step in (forward, training):
            number = 7000 + i

            def make(device, prepare=prepare, step=step, number=number):
                prepared_model = prepare(device, number)
                return lambda: step(prepared_model)

            yield f"{name} {step.__name__}", {"model": name, "step": step.__name__}, number, make


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", help="the file to write, *.json")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to test the script")
    parser.add_argument("--list", action="store_true", help="the models")
    options = parser.parse_args()
    if options.list or not options.output:
        print("\n".join(MODELS))
        return 0 if options.list else 2
    entries, begun = [], time.time()
    for name, about, number, prepare in cases(options.calls, options.seed):
        entry = {"name": name, "about": about, "seed": number}
        try:
            entry["outputs"] = [summary(out) for out in prepare(options.device)()]
            again = [summary(out) for out in prepare(options.device)()]
            entry["repeats"] = entry["outputs"] == again
        except RuntimeError as error:  # a call that PyTorch refuses is a result too
            entry["refused"] = str(error)[:300]
        entries.append(entry)
        if sys.stderr.isatty() or len(entries) % 50 == 0:
            print(f"{len(entries)}, {time.time() - begun:.0f} s", file=sys.stderr)
    about = {**about_this_machine(options.device), "generator": GENERATOR, "calls": options.calls, "seed": options.seed}
    with open(options.output, "w") as file:
        json.dump({**about, "cases": entries}, file)
    print(f"{len(entries)} cases, {sum('refused' in entry for entry in entries)} refused by PyTorch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
