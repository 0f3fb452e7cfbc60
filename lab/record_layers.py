#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Captures decoder layers and small models on a GPU, for `bitmma replay`: of the sizes of Llama 3 8B and of a mixture
of experts. Attention runs in FlashAttention-2, in captures named *_default in what PyTorch chooses, which is cuDNN on
an H100.

Needs PyTorch and a GPU. Weights come from the generator of record_common.py, so that a capture holds only their seeds.

  record_layers.py -o captured                 every capture, a folder each
  record_layers.py -o captured --only tiny     those whose names begin so
  record_layers.py --list                      the names
"""

import argparse
import contextlib
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

from record_common import GENERATOR, capture, values


class Norm(nn.Module):
    """LlamaRMSNorm of transformers."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


class Mlp(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(hidden, inter, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inter, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """MixtralSparseMoeBlock of transformers: each expert takes its tokens."""

    def __init__(self, hidden, inter, count, top):
        super().__init__()
        self.count, self.top = count, top
        self.gate = nn.Linear(hidden, count, bias=False)
        self.experts = nn.ModuleList(Mlp(hidden, inter) for _ in range(count))

    def forward(self, x):
        shape = x.shape
        x = x.view(-1, shape[-1])
        weights = F.softmax(self.gate(x), dim=1, dtype=torch.float)
        weights, chosen = torch.topk(weights, self.top, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            if token.numel():
                result.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return result.view(shape)


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads, size):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, size
        self.q_proj = nn.Linear(hidden, heads * size, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(hidden, kv_heads * size, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(heads * size, hidden, bias=False)

    def forward(self, x, rotary, cache):
        batch, tokens = x.shape[:2]
        q, k, v = (
            one(x).view(batch, tokens, -1, self.size).transpose(1, 2) for one in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = (one * rotary[0] + self.rotated(one) * rotary[1] for one in (q, k))
        if cache is not None:
            k, v = (torch.cat((old, new), 2) for old, new in zip(cache, (k, v), strict=True))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=tokens > 1, enable_gqa=self.heads != self.kv_heads)
        return self.o_proj(out.transpose(1, 2).reshape(batch, tokens, -1)), (k, v)

    @staticmethod
    def rotated(x):
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), -1)


class Layer(nn.Module):
    def __init__(self, hidden, inter, heads, kv_heads, size, experts=0, top=2):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(hidden), Norm(hidden)
        self.self_attn = Attention(hidden, heads, kv_heads, size)
        self.mlp = Experts(hidden, inter, experts, top) if experts else Mlp(hidden, inter)

    def forward(self, x, rotary, cache=None):
        out, cache = self.self_attn(self.input_layernorm(x), rotary, cache)
        x = x + out
        return x + self.mlp(self.post_attention_layernorm(x)), cache


class Model(nn.Module):
    """Embeddings, layers, the last norm and logits; f32 cos and sin, as transformers computes them."""

    def __init__(self, vocabulary, layers, hidden, inter, heads, kv_heads, size, **more):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(Layer(hidden, inter, heads, kv_heads, size, **more) for _ in range(layers))
        self.norm, self.lm_head = Norm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        self.register_buffer("inv_freq", rates(size))

    def forward(self, tokens, position, caches):
        x = self.embed_tokens(tokens)
        turns = rotary(self.inv_freq, position, tokens.shape[1], x.dtype)
        made = []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, one = layer(x, turns, cache)
            made.append(one)
        return self.lm_head(self.norm(x[:, -1:])), made


def rates(size):
    return 1.0 / (500000.0 ** (torch.arange(0, size, 2, dtype=torch.int64).to(dtype=torch.float) / size))


def rotary(inv_freq, position, tokens, dtype):
    at = torch.arange(position, position + tokens, device=inv_freq.device)
    angles = (inv_freq[None, :, None].float() @ at[None, None, :].float()).transpose(1, 2)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(dtype)[:, None], angles.sin().to(dtype)[:, None]


def with_weights(make, first_seed, gain, device):
    """The module on the device in bfloat16, and where its weights come from."""
    with torch.device("meta"):
        module = make()
    module = module.to_empty(device=device).to(torch.bfloat16)
    sources = {}
    for i, (name, one) in enumerate(module.named_parameters()):
        seed = first_seed + i
        if one.dim() == 2:
            sources[name] = {"generator": GENERATOR, "stream": "b", "seed": seed, "gain": gain}
            made = values(1, seed, 0, one.numel(), one.dtype, device).reshape(one.shape) * gain
        else:
            made = 1 + values(1, seed, 0, one.numel(), one.dtype, device) * 0.0625
        one.data.copy_(made)
    for name, one in module.named_buffers():
        setattr(module, name, rates(2 * one.numel()).to(device))
    return module.eval(), sources


LLAMA_8B = (4096, 14336, 32, 8, 128)
TINY = (512, 1408, 8, 2, 64)


def layer(path, shape, batch, tokens, cached, device, rows, gain=2.0**-6, **more):
    module, sources = with_weights(lambda: Layer(*shape, **more), 91000, gain, device)
    x = values(0, 92000, 0, batch * tokens * shape[0], torch.bfloat16, device).reshape(batch, tokens, shape[0])
    cache = None
    if cached:
        cache = tuple(
            values(0, 92001 + i, 0, batch * shape[3] * cached * shape[4], torch.bfloat16, device).reshape(
                batch, shape[3], cached, shape[4]
            )
            for i in range(2)
        )
    turns = rotary(rates(shape[4]).to(device), cached, tokens, torch.bfloat16)
    module(x, turns, cache)
    with capture.Capture(path, model=module, rows=rows, whole=1 << 14, sources=sources):
        module(x, turns, cache)


def generation(path, shape, prompt, count, device, gain, **more):
    """A prompt, and tokens that follow: greedy ones, then sampled ones."""
    module, sources = with_weights(lambda: Model(1000, 2, *shape, **more), 93000, gain, device)
    tokens, caches, at = (torch.arange(prompt, device=device) * 37 % 1000)[None], [None, None], 0
    module(tokens, 0, caches)
    torch.manual_seed(1234)
    with capture.Capture(path, model=module, rows=8, whole=1 << 14, sources=sources):
        for step in range(count):
            logits, caches = module(tokens, at, caches)
            at += tokens.shape[1]
            if step % 2:
                tokens = torch.multinomial(F.softmax(logits[:, -1].float(), -1), 1)
            else:
                tokens = logits[:, -1].argmax(-1, keepdim=True)


CAPTURES = {
    "tiny_llama": lambda path, device: generation(path, TINY, 40, 4, device, 2.0**-5),
    "tiny_experts": lambda path, device: generation(
        path, (256, 512, 4, 2, 64), 24, 2, device, 2.0**-4, experts=8, top=2
    ),
    "tiny_llama_default": lambda path, device: generation(path, TINY, 40, 4, device, 2.0**-5),
    "experts_layer": lambda path, device: layer(path, (2048, 768, 32, 4, 128), 1, 96, 0, device, 8, experts=64, top=8),
    "llama_8b_prefill": lambda path, device: layer(path, LLAMA_8B, 1, 128, 0, device, 8),
    "llama_8b_prefill_512": lambda path, device: layer(path, LLAMA_8B, 1, 512, 0, device, 4),
    "llama_8b_prefill_512_default": lambda path, device: layer(path, LLAMA_8B, 1, 512, 0, device, 4),
    "llama_8b_decode": lambda path, device: layer(path, LLAMA_8B, 1, 1, 200, device, 8),
    "llama_8b_decode_8": lambda path, device: layer(path, LLAMA_8B, 8, 1, 50, device, 8),
    "llama_8b_decode_64": lambda path, device: layer(path, LLAMA_8B, 64, 1, 7, device, 8),
}


def attention_of(name):
    if name.endswith("_default"):
        return contextlib.nullcontext()
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", help="the folder to write into")
    parser.add_argument("--only", default="", help="the beginning of names")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--list", action="store_true", help="print the names")
    options = parser.parse_args()
    chosen = [name for name in CAPTURES if name.startswith(options.only)]
    if options.list or not options.output or not chosen:
        print("\n".join(CAPTURES))
        return 0 if options.list else 2
    for name in chosen:
        path = os.path.join(options.output, name)
        with torch.inference_mode(), attention_of(name):
            CAPTURES[name](path, options.device)
        print(name, sum(os.path.getsize(os.path.join(path, file)) for file in os.listdir(path)), "bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
