#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records backward passes, losses, sums and optimizers of PyTorch on a GPU, for check_training.py.

Needs PyTorch and a GPU, but not bitmma. A recording holds the seeds of the inputs and sampled words of each output.

  record_training.py -o recorded.json.xz
  record_training.py --list                the operators, and how many calls of each
"""

import argparse
import base64
import collections
import json
import lzma
import random
import sys

import torch
import torch.nn.functional as F

from record_common import GENERATOR, about_this_machine, capture, element_words, values

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
aten = torch.ops.aten
SAMPLED = 256
"""Words of an output that a recording holds."""


def one(x):
    return torch.ones((), device=x.device, dtype=x.dtype)


def softmax(name, x, call):
    return getattr(torch, name)(x, -1, dtype=torch.float32 if call.get("wide") else None)


def layer_norm_backward(call, g, x, w, b):
    w, b = (w, b) if call["affine"] else (None, None)
    shape, mask = [x.shape[-1]], [True, call["affine"], call["affine"]]
    _, mean, rstd = torch.native_layer_norm(x, shape, w, b, 1e-5)
    return aten.native_layer_norm_backward(g, x, shape, mean, rstd, w, b, mask)


def rms_norm_backward(call, g, x, w):
    w = w if call["affine"] else None
    out, rstd = aten._fused_rms_norm(x, [x.shape[-1]], w, 1e-6)
    return out, rstd, *aten._fused_rms_norm_backward(g, x, [x.shape[-1]], rstd, w, [True, call["affine"]])


def nll_loss(call, x, target):
    logarithms = torch.log_softmax(x, -1)
    loss, total = aten.nll_loss_forward(logarithms, target, None, call["reduction"], call["ignored"])
    gradient = torch.ones_like(loss) * 0.7
    return (
        loss,
        total,
        aten.nll_loss_backward(gradient, logarithms, target, None, call["reduction"], call["ignored"], total),
    )


def optimizer_steps(call, p, *gradients):
    parameter = torch.nn.Parameter(p.clone())
    optimizer = getattr(torch.optim, call["name"])([parameter], **call["options"])
    made = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        made.append(parameter.detach().clone())
    return made


# By operator: a function of the call and its tensors.
CALLS = {
    "gelu_backward": lambda c, g, x: aten.gelu_backward(g, x),
    "gelu_tanh_backward": lambda c, g, x: aten.gelu_backward(g, x, approximate="tanh"),
    "silu_backward": lambda c, g, x: aten.silu_backward(g, x),
    "sigmoid_backward": lambda c, g, x: aten.sigmoid_backward(g, x),
    "tanh_backward": lambda c, g, x: aten.tanh_backward(g, x),
    "threshold_backward": lambda c, g, x: aten.threshold_backward(g, x, 0),
    "leaky_relu": lambda c, x: F.leaky_relu(x),
    "leaky_relu_backward": lambda c, g, x: aten.leaky_relu_backward(g, x, 0.01, False),
    "elu": lambda c, x: F.elu(x),
    "selu": lambda c, x: F.selu(x),
    "elu_backward": lambda c, g, x: aten.elu_backward(g, 1.0, 1, 1, False, x),
    "softplus": lambda c, x: F.softplus(x),
    "softplus_backward": lambda c, g, x: aten.softplus_backward(g, x, 1, 20),
    "relu6": lambda c, x: F.relu6(x),
    "hardtanh_backward": lambda c, g, x: aten.hardtanh_backward(g, x, 0, 6),
    "hardsigmoid": lambda c, x: F.hardsigmoid(x),
    "hardswish": lambda c, x: F.hardswish(x),
    "mish": lambda c, x: F.mish(x),
    "hardswish_backward": lambda c, g, x: aten.hardswish_backward(g, x),
    "mish_backward": lambda c, g, x: aten.mish_backward(g, x),
    "mse_loss": lambda c, x, y: F.mse_loss(x, y, reduction=("none", "mean", "sum")[c["reduction"]]),
    "mse_loss_backward": lambda c, x, y: aten.mse_loss_backward(one(x) * c["gradient"], x, y, c["reduction"]),
    "add": lambda c, x, y: torch.add(x, y, alpha=c["value"]),
    "sub": lambda c, x, y: torch.sub(x, y, alpha=c["value"]),
    "div_number": lambda c, x: x / c["value"],
    "lerp": lambda c, x, y: torch.lerp(x, y, c["value"]),
    "addcmul": lambda c, x, y, z: torch.addcmul(x, y, z, value=c["value"]),
    "addcdiv": lambda c, x, y, z: torch.addcdiv(x, y, z, value=c["value"]),
    "foreach_add_list": lambda c, x, y: torch._foreach_add([x], [y], alpha=c["value"])[0],
    "foreach_add": lambda c, x: torch._foreach_add([x], c["value"])[0],
    "foreach_mul": lambda c, x: torch._foreach_mul([x], c["value"])[0],
    "foreach_div": lambda c, x: torch._foreach_div([x], c["value"])[0],
    "foreach_div_list": lambda c, x: torch._foreach_div([x], [c["value"]])[0],
    "foreach_lerp": lambda c, x, y: torch._foreach_lerp([x], [y], c["value"])[0],
    "foreach_addcmul": lambda c, x, y, z: torch._foreach_addcmul([x], [y], [z], c["value"])[0],
    "foreach_addcdiv": lambda c, x, y, z: torch._foreach_addcdiv([x], [y], [z], [c["value"]])[0],
    "foreach_sqrt": lambda c, x: torch._foreach_sqrt([x.abs()])[0],
    "foreach_norm": lambda c, x: torch._foreach_norm([x])[0],
    "vector_norm": lambda c, x: torch.linalg.vector_norm(x),
    "pow": lambda c, x: x ** c["value"],
    "log_sigmoid": lambda c, x: F.logsigmoid(x),
    "binary_cross_entropy": lambda c, x: F.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype), reduction="none"),
    "logsumexp": lambda c, x: torch.logsumexp(x.reshape(64, 64), -1),
    "softmax_backward": lambda c, g, x: aten._softmax_backward_data(g, softmax("softmax", x, c), -1, x.dtype),
    "log_softmax_backward": lambda c, g, x: aten._log_softmax_backward_data(
        g, softmax("log_softmax", x, c), -1, x.dtype
    ),
    "layer_norm_backward": layer_norm_backward,
    "rms_norm_backward": rms_norm_backward,
    "nll_loss": nll_loss,
    "embedding_backward": lambda c, g, at: aten.embedding_dense_backward(g, at, c["count"], c["padding"], False),
    "sum": lambda c, x: x.sum(c["dims"], keepdim=True),
    "mean": lambda c, x: x.mean(c["dims"]),
    "optimizer": optimizer_steps,
}

VALUES = (1, -1, 0.5, -0.013, 2, 0.001, 1.7)
COLUMNS = (1, 2, 3, 7, 31, 32, 33, 64, 100, 257, 768, 1000, 1023, 1024, 1025, 1152, 2000, 2048, 2049, 3000, 4096, 4097,
           5000, 8192, 12272, 12276, 12289, 32000, 50257)  # fmt: skip
ROWS = (1, 2, 7, 16, 33, 63, 64, 100, 127, 128, 200, 255, 256, 257, 700, 1024, 2048)
EMBEDDINGS = [(1, 10, 8), (16, 10, 64), (64, 1000, 256), (500, 50, 33), (777, 5, 100), (3072, 100, 64)]
SUMS = [((64, 256), [0]), ((7, 512), [0]), ((2048, 768), [0]), ((8, 32, 256), [0, 1]), ((8, 197, 768), [0]),
        ((4, 100, 3), [0, 1]), ((16384, 64), [0]), ((3, 50257), [0]), ((5000, 1), [0])]  # fmt: skip
OPTIMIZERS = [("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}),
              ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
              ("AdamW", {"lr": 1e-3}), ("AdamW", {"lr": 3e-4, "weight_decay": 0.1, "betas": (0.9, 0.95)}),
              ("Adam", {"lr": 1e-3, "weight_decay": 0.01}), ("AdamW", {"lr": 1e-2, "amsgrad": True})]  # fmt: skip


def calls():
    """Dictionaries that JSON can hold. Gains of 1.1 give numbers whose sums round."""
    chosen = random.Random(1)

    def tensor(dtype, *shape, gain=1.1, **more):
        return {"dtype": dtype, "shape": list(shape), "gain": gain, **more}

    def index(count, below):
        return {"dtype": "i64", "shape": [count], "below": below}

    for dtype in TYPES:
        for name in ("leaky_relu", "elu", "selu", "softplus", "relu6", "hardsigmoid", "hardswish", "mish"):
            yield name, [tensor(dtype, 4096, gain=4.0)], {}
        for name in CALLS:
            if name.endswith("_backward") and name.split("_")[0] in (
                "gelu", "silu", "sigmoid", "tanh", "threshold", "leaky", "elu", "softplus", "hardtanh",
                "hardswish", "mish",
            ):  # fmt: skip
                yield name, [tensor(dtype, 4096), tensor(dtype, 4096, gain=3.0)], {}
        for reduction in range(3):
            yield "mse_loss", [tensor(dtype, 64, 100), tensor(dtype, 64, 100)], {"reduction": reduction}
            if reduction:
                more = {"reduction": reduction, "gradient": 0.7}
                yield "mse_loss_backward", [tensor(dtype, 64, 100), tensor(dtype, 64, 100)], more
        for value in VALUES:
            x = tensor(dtype, 2048)
            for name, count in (("add", 2), ("sub", 2), ("div_number", 1), ("lerp", 2), ("addcmul", 3), ("addcdiv", 3),
                                ("foreach_add_list", 2), ("foreach_add", 1), ("foreach_mul", 1), ("foreach_div", 1),
                                ("foreach_div_list", 1), ("foreach_lerp", 2), ("foreach_addcmul", 3),
                                ("foreach_addcdiv", 3)):  # fmt: skip
                yield name, [x] * count, {"value": value}
        yield "foreach_sqrt", [tensor(dtype, 2048)], {}
        for name in ("log_sigmoid", "binary_cross_entropy", "logsumexp"):
            yield name, [tensor(dtype, 4096)], {}
        for value in (3, -2):
            yield "pow", [tensor(dtype, 2048)], {"value": value}
        yield "vector_norm", [tensor(dtype, 200)], {}
        for count in (100, 5000, 70001):
            yield "foreach_norm", [tensor(dtype, count)], {}
        for columns in COLUMNS:
            shape = (chosen.choice((2, 3, 5)) if columns < 8000 else 2, columns)
            for name in ("softmax_backward", "log_softmax_backward"):
                yield name, [tensor(dtype, *shape), tensor(dtype, *shape, gain=2.2)], {}
            if dtype == "f16":
                yield "softmax_backward", [tensor("f32", *shape), tensor(dtype, *shape, gain=2.2)], {"wide": True}
        for rows in ROWS:
            columns = chosen.choice([3, 33, 64, 100, 384, 512, 768, 777, 1000, 1024, 4096])
            x, weight = tensor(dtype, rows, columns), tensor(dtype, columns, gain=0.25, offset=1.0)
            for affine in (True, False):
                yield "layer_norm_backward", [x, x, weight, tensor(dtype, columns)], {"affine": affine}
                yield "rms_norm_backward", [x, x, weight], {"affine": affine}
        for rows, classes in ((1, 10), (16, 64), (33, 100), (64, 1000), (1000, 10), (1024, 37), (5000, 10)):
            for reduction in range(3):
                for ignored in (-100, 3):
                    yield (
                        "nll_loss",
                        [tensor(dtype, rows, classes, gain=2.2), index(rows, classes)],
                        {
                            "reduction": reduction,
                            "ignored": ignored,
                        },
                    )
        for count, below, width in EMBEDDINGS:
            for padding in (-1, 3):
                yield (
                    "embedding_backward",
                    [tensor(dtype, count, width), index(count, below)],
                    {
                        "count": below,
                        "padding": padding,
                    },
                )
        for shape, dims in SUMS:
            yield "sum", [tensor(dtype, *shape)], {"dims": dims}
            yield "mean", [tensor(dtype, *shape)], {"dims": dims}
        for name, options in OPTIMIZERS:
            for foreach in (True, False):
                yield (
                    "optimizer",
                    [tensor(dtype, 1500, gain=0.5), *[tensor(dtype, 1500, gain=0.11)] * 3],
                    {
                        "name": name,
                        "options": {**options, "foreach": foreach},
                    },
                )


def made_tensor(about, stream, seed, device):
    count = 1
    for size in about["shape"]:
        count *= size
    if about["dtype"] == "i64":
        words = element_words(stream, seed, 0, count, device) % about["below"]
        return words.to(torch.int64).reshape(about["shape"])
    made = values(stream, seed, 0, count, torch.float32, device) * about["gain"] + about.get("offset", 0.0)
    return made.to(TYPES[about["dtype"]]).reshape(about["shape"])


def sampled(out):
    """Every nth word, up to SAMPLED of them."""
    step = max(1, -(-out.numel() // SAMPLED))
    words = out.detach().reshape(-1)[::step].cpu().contiguous()
    return {
        "shape": list(out.shape),
        "dtype": str(out.dtype).removeprefix("torch."),
        "step": step,
        "words": base64.b64encode(words.view(torch.uint8).numpy().tobytes()).decode(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", help="the file to write, *.json.xz")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to test the script")
    parser.add_argument("--list", action="store_true", help="the operators, and how many calls of each")
    options = parser.parse_args()
    work = list(calls())
    if options.list or not options.output:
        for name, count in collections.Counter(name for name, _, _ in work).items():
            print(f"{name:24} {count}")
        return 0 if options.list else 2
    kernels = capture.Kernels() if options.device != "cpu" else None
    entries = []
    for number, (name, tensors, call) in enumerate(work):
        seed = 5000000 + number
        entry = {"op": name, "seed": seed, "tensors": tensors, "call": call}

        def run(name=name, tensors=tensors, call=call, seed=seed):
            made = CALLS[name](
                call, *(made_tensor(about, stream, seed, options.device) for stream, about in enumerate(tensors))
            )
            return list(made) if isinstance(made, (list, tuple)) else [made]

        try:
            entry["outputs"] = [None if out is None else sampled(out) for out in run()]
            entry["repeats"] = entry["outputs"] == [None if out is None else sampled(out) for out in run()]
        except (NotImplementedError, RuntimeError) as error:  # a call that PyTorch refuses is a result too
            entry["refused"] = str(error)[:200]
        else:
            launched = kernels.of(run) if kernels is not None else None
            entry["kernel"] = launched[0][-1]["name"][:120] if launched and launched[0] else ""
        entries.append(entry)
    about = {**about_this_machine(options.device), "generator": GENERATOR}
    with lzma.open(options.output, "wt") as file:
        file.write(json.dumps({"about": about, "calls": entries}, separators=(",", ":")))
    print(f"{len(entries)} calls, {sum('refused' in entry for entry in entries)} refused by PyTorch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
