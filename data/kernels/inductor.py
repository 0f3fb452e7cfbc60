# SPDX-License-Identifier: MIT
"""Kernels that torch.compile writes: a decoder layer, a convolutional net, a loss and an optimizer, forward and
backward, small.

    python -m bitmma.record_triton -o inductor.safetensors --most-of-kernel 1 data/kernels/inductor.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class DecoderLayer(nn.Module):
    """As Llama's: RMS norms, rotary positions, causal attention, gated SiLU."""

    def __init__(self, width: int = 64, heads: int = 2, inner: int = 160) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ParameterList([nn.Parameter(torch.ones(width)) for _ in range(2)])
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = (
            nn.Linear(*shape, bias=False) for shape in ((width, inner), (width, inner), (inner, width))
        )

    @staticmethod
    def norm(x: Tensor, weight: Tensor) -> Tensor:
        y = x.float()
        return weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    @staticmethod
    def rotated(x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[-2], device=x.device)[:, None] * 10000.0 ** (
            -torch.arange(half, device=x.device) / half
        )
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return torch.cat((x[..., :half] * cos - x[..., half:] * sin, x[..., half:] * cos + x[..., :half] * sin), -1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            one.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for one in self.qkv(self.norm(x, self.norms[0])).chunk(3, -1)
        )
        scores = self.rotated(q) @ self.rotated(k).transpose(-1, -2) * q.shape[-1] ** -0.5
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
        attended = torch.softmax(scores.masked_fill(~mask, float("-inf")).float(), -1).to(x.dtype) @ v
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        y = self.norm(x, self.norms[1])
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
        nn.Dropout(0.3),
        nn.LogSoftmax(-1),
    )


def losses(x: Tensor, y: Tensor) -> Tensor:
    smoothed = functional.cross_entropy(x, y, label_smoothing=0.1)
    other = functional.kl_div(
        functional.log_softmax(x / 2, -1), functional.softmax(x.roll(1, 0) / 2, -1), reduction="batchmean"
    )
    return (
        smoothed
        + other
        + functional.smooth_l1_loss(torch.tanh(x), torch.sigmoid(x))
        + torch.logsumexp(x, -1).var()
        + torch.erf(x).mean()
        + functional.softplus(x).amax(-1).mean()
        + torch.cumsum(x, -1).abs().mean()
    )


def main() -> None:
    torch.manual_seed(32)
    device = "cuda"
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        layer = torch.compile(DecoderLayer().to(device, dtype))
        for length in (24, 48):
            layer(torch.randn(2, length, 64, device=device, dtype=dtype, requires_grad=True)).square().mean().backward()
        loss = torch.compile(losses)
        x = torch.randn(6, 300, device=device, dtype=dtype, requires_grad=True)
        loss(x, torch.randint(0, 300, (6,), device=device)).backward()
        torch.compiler.reset()
    net = torch.compile(convolutional().to(device))
    net(torch.randn(4, 3, 16, 16, device=device)).mean().backward()
    parameters = [nn.Parameter(torch.randn(n, device=device)) for n in (100, 1000)]
    for optimizer in (
        torch.optim.AdamW(parameters, lr=0.01),
        torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        torch.optim.RMSprop(parameters, lr=0.01),
    ):
        for one in parameters:
            one.grad = torch.randn_like(one)
        step = torch.compile(optimizer.step)
        step()
        step()


main()
