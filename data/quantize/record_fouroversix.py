"""Records what fouroversix' PyTorch reference makes of rows of one matrix a type, on a CPU: see README.md.

record_fouroversix.py --sources FOLDER -o fouroversix.safetensors

FOLDER is the folder src/fouroversix of a checkout. Its packages import CUDA code; only the reference is imported.
"""

import argparse
import importlib
import sys
import types
from pathlib import Path

import torch

import bitmma

parser = argparse.ArgumentParser()
parser.add_argument("--sources", type=Path, required=True)
parser.add_argument("-o", dest="out", required=True)
parser.add_argument("--rows", type=int, default=8)
arguments = parser.parse_args()
for name, folder in (
    ("", ""),
    (".kernels", "kernels"),
    (".quantize", "quantize"),
    (".quantize.pytorch", "quantize/pytorch"),
):
    package = types.ModuleType("fouroversix" + name)
    package.__path__ = [str(arguments.sources / folder)]
    sys.modules["fouroversix" + name] = package
reference = importlib.import_module("fouroversix.quantize.pytorch.reference")
rules = importlib.import_module("fouroversix.utils").ScaleRule
torch.manual_seed(0)
tensors = {}
for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("f32", torch.float32)):
    # Rows of very different size: small ones have scales that are subnormal in e4m3.
    x = (torch.randn(arguments.rows, 512) * torch.exp(torch.randn(arguments.rows, 1) * 2)).to(dtype)
    tensors[f"x.{name}"] = x
    for rule, recipe in (("mse", ""), ("mae", "_mae"), ("abs_max", "_abs_max")):
        codes, scales, _ = reference.quantize(x, scale_rule=rules(rule), use_blackwell_scale_layout=False)
        tensors[f"codes.fouroversix_nvfp4{recipe}.{name}"] = codes
        tensors[f"scales.fouroversix_nvfp4{recipe}.{name}"] = scales.view(torch.uint8).reshape(arguments.rows, -1)
bitmma.write(arguments.out, tensors)
