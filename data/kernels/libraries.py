# SPDX-License-Identifier: MIT
"""Kernels of two published libraries, forward and backward, small: liger-kernel 0.8.5 and flash-linear-attention 0.6.0.

python -m bitmma.record_triton -o libraries.safetensors --most-of-kernel 1 data/kernels/libraries.py
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from triton.runtime import autotuner

TYPES = (torch.float32, torch.bfloat16, torch.float16)
BATCH, STEPS, HEADS, WIDTH = 1, 64, 1, 32

init = autotuner.Autotuner.__init__


def first_configuration(self: Any, fn: Any, names: Any, configs: Any, *args: Any, **options: Any) -> None:
    """Timings would choose another each time."""
    init(self, fn, names, configs[:1], *args, **options)


autotuner.Autotuner.__init__ = first_configuration


def given(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype).requires_grad_()


def decays(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return functional.logsigmoid(torch.randn(*shape, device="cuda")).to(dtype).detach().requires_grad_()


def labels(count: int, classes: int) -> torch.Tensor:
    return torch.randint(0, classes, (count,), device="cuda")


def liger(name: str, *args: Any) -> Any:
    """The function of that name of liger_kernel.ops, "rms_norm.LigerRMSNormFunction"."""
    module, function = name.split(".")
    return getattr(importlib.import_module("liger_kernel.ops." + module), function).apply(*args)


def fla(name: str, *args: Any, **options: Any) -> Any:
    module, function = name.rsplit(".", 1)
    return getattr(importlib.import_module("fla." + module), function)(*args, **options)


def cases_of(dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    def x(*shape: int) -> torch.Tensor:
        return given(*shape, dtype=dtype)

    def heads() -> list[torch.Tensor]:
        return [x(BATCH, STEPS, HEADS, WIDTH) for _ in range(3)]

    def unit_heads() -> list[torch.Tensor]:
        return [functional.normalize(one.float(), dim=-1).to(dtype).detach().requires_grad_() for one in heads()]

    def betas() -> torch.Tensor:
        return torch.rand(BATCH, STEPS, HEADS, device="cuda").to(dtype).requires_grad_()

    return {
        "rms_norm llama": lambda: liger("rms_norm.LigerRMSNormFunction", x(8, 512), x(512), 1e-6, 0.0, "llama", False),
        "rms_norm gemma": lambda: liger("rms_norm.LigerRMSNormFunction", x(8, 500), x(500), 1e-6, 1.0, "gemma", False),
        "layer_norm": lambda: liger("layer_norm.LigerLayerNormFunction", x(8, 384), x(384), x(384), 1e-6),
        "softmax": lambda: liger("softmax.LigerSoftmaxFunction", x(6, 700)),
        "softmax of many blocks": lambda: liger("softmax.LigerSoftmaxFunction", x(2, 5000)),
        "sparsemax": lambda: liger("sparsemax.LigerSparsemaxFunction", x(6, 300), -1),
        "swiglu": lambda: liger("swiglu.LigerSiLUMulFunction", x(8, 512), x(8, 512)),
        "geglu": lambda: liger("geglu.LigerGELUMulFunction", x(8, 512), x(8, 512)),
        "relu squared": lambda: liger("relu_squared.LigerReLUSquaredFunction", x(8, 512)),
        "dyt": lambda: liger("dyt.LigerDyTFunction", x(8, 256), x(1), x(256), x(256)),
        "poly_norm": lambda: liger("poly_norm.LigerPolyNormFunction", x(8, 256), x(3), x(1), 1e-6, False),
        "fused_add_rms_norm": lambda: liger(
            "fused_add_rms_norm.LigerFusedAddRMSNormFunction", x(8, 256), x(8, 256), x(256), 1e-6, 0.0, "llama", False
        ),
        "rope": lambda: liger(
            "rope.LigerRopeFunction", x(1, 2, 16, 64), x(1, 1, 16, 64), x(1, 16, 64).detach(), x(1, 16, 64).detach()
        ),
        "cross_entropy": lambda: liger("cross_entropy.LigerCrossEntropyFunction", x(6, 1000), labels(6, 1000))[0],
        "cross_entropy smoothed": lambda: liger(
            "cross_entropy.LigerCrossEntropyFunction", x(6, 1000), labels(6, 1000), None, -100, 1e-4, 0.1, "mean", 30.0
        )[0],
        "kl_div": lambda: liger(
            "kl_div.LigerKLDivLossFunction",
            given(6, 500).log_softmax(-1),
            given(6, 500).softmax(-1),
            "batchmean",
            False,
            1e-10,
        ),
        "jsd": lambda: liger(
            "jsd.LigerJSDFunction", x(6, 500).log_softmax(-1), x(6, 500).log_softmax(-1), None, 0.5, -100
        ),
        "tvd": lambda: liger("tvd.LigerTVDLossFunction", x(6, 500).softmax(-1), x(6, 500).softmax(-1)),
        "gla in chunks": lambda: fla("ops.gla.chunk_gla", *heads(), decays(BATCH, STEPS, HEADS, WIDTH, dtype=dtype))[0],
        "gla recurrent": lambda: fla(
            "ops.gla.fused_recurrent_gla", *heads(), decays(BATCH, STEPS, HEADS, WIDTH, dtype=dtype)
        )[0],
        "retention in chunks": lambda: fla("ops.retention.chunk_retention", *heads())[0],
        "retention parallel": lambda: fla("ops.retention.parallel_retention", *heads())[0],
        "linear attention": lambda: fla("ops.linear_attn.chunk_linear_attn", *heads())[0],
        "simple gla": lambda: fla("ops.simple_gla.chunk_simple_gla", *heads(), decays(BATCH, STEPS, HEADS))[0],
        "delta rule": lambda: fla("ops.delta_rule.chunk_delta_rule", *unit_heads(), betas())[0],
        "gated delta rule": lambda: fla(
            "ops.gated_delta_rule.chunk_gated_delta_rule", *unit_heads(), decays(BATCH, STEPS, HEADS), betas()
        )[0],
        "attention": lambda: fla("ops.attn.parallel_attn", *heads()),
        "forgetting attention": lambda: fla(
            "ops.forgetting_attn.parallel_forgetting_attn", *heads(), decays(BATCH, STEPS, HEADS)
        ),
        "hgrn": lambda: fla("ops.hgrn.chunk_hgrn", x(BATCH, STEPS, 64), decays(BATCH, STEPS, 64, dtype=dtype))[0],
        "rwkv6": lambda: fla(
            "ops.rwkv6.chunk_rwkv6", *heads(), decays(BATCH, STEPS, HEADS, WIDTH, dtype=dtype), x(HEADS, WIDTH)
        )[0],
        "l2_norm": lambda: fla("modules.l2norm.l2_norm", x(16, 64)),
        "fla layer_norm": lambda: fla("modules.layernorm.layer_norm", x(16, 128), x(128), x(128)),
        "fla rms_norm": lambda: fla("modules.layernorm.rms_norm", x(16, 128), x(128), None),
        "swish": lambda: fla("modules.activations.swish", x(2000)),
        "convolution": lambda: fla("modules.convolution.causal_conv1d", x(1, 32, 64), x(64, 4), backend="triton")[0],
        "rotary": lambda: fla(
            "modules.rotary.rotary_embedding", x(1, 16, 2, 32), x(16, 16).detach(), x(16, 16).detach()
        ),
    }


def main() -> None:
    torch.manual_seed(31)
    for dtype in TYPES:
        for name, case in cases_of(dtype).items():
            try:
                y = case()
                if isinstance(y, torch.Tensor) and y.requires_grad:
                    y.backward(torch.randn_like(y))
            except Exception as error:  # noqa: BLE001 - releases differ in what they take
                print(f"{name}, {dtype}: {type(error).__name__}: {str(error).strip().splitlines()[-1][:120]}")


main()
