#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the datasets of the package, python/bitmma/data, from the recordings in data.

  pack_datasets.py           write them, and index.json with a description and the origin of each
  pack_datasets.py --check   exit code 1 if the package has others

Needs NumPy, ml_dtypes and the bitmma package.
"""

import argparse
import json
import pathlib
import struct
import sys
import tarfile

import ml_dtypes
import numpy as np

from bitmma._safetensors import dtypes
from check_operators import values

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA, PACKAGE = ROOT / "data", ROOT / "python" / "bitmma" / "data"

STORED = {
    "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "I32": "int32", "I64": "int64", "BOOL": "bool",
}  # fmt: skip
NAME_OF = {np.dtype(dtypes.get(name, name)): stored for stored, name in STORED.items()}


def read(content):
    """The header's metadata and the tensors of a safetensors file."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, row in header.items():
        begin, end = (8 + size + place for place in row["data_offsets"])
        name_of_type = STORED[row["dtype"]]
        dtype = np.dtype(dtypes.get(name_of_type, name_of_type))
        tensors[name] = np.frombuffer(content[begin:end], dtype).reshape(row["shape"])
    return metadata, tensors


def safetensors(metadata, tensors):
    """The bytes of a file with these tensors, those of large elements first."""
    header, data = {"__metadata__": metadata}, b""
    for name in sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize):
        content = np.ascontiguousarray(tensors[name]).tobytes()
        header[name] = {
            "dtype": NAME_OF[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text.encode() + data


def part_of_product(file, rows, cols):
    """The first rows and columns of a recorded product."""
    metadata, tensors = read((DATA / "products" / file).read_bytes())
    tensors["a"], tensors["b_t"] = tensors["a"][:rows], tensors["b_t"][:cols]
    tensors["d"] = tensors["d"][:rows, :cols]
    tensors["rows"], tensors["cols"] = tensors["rows"][:rows], tensors["cols"][:cols]
    return safetensors(metadata, tensors)


def member(archive, name):
    with tarfile.open(DATA / archive) as packed:
        return packed.extractfile(name).read()


def attention():
    """Two heads of a decoding step, with the operands that the seed of the recording means."""
    metadata, recorded = read(member("operators/recorded.tar.xz", "h100/05068.safetensors"))
    call, seed = json.loads(metadata["call"]), int(metadata["seed"])
    heads, d = recorded["out.rows"][:2], call["d"]

    def operand(stream, rows):
        shape = [call["heads"], rows, d]
        drawn = values(stream, seed, 0, int(np.prod(shape)), ml_dtypes.bfloat16, call["gain"])
        return drawn.reshape(shape)[heads][None]

    q, k, v = (operand(stream, call[rows]) for stream, rows in enumerate(("queries", "keys", "keys")))
    out, lse = recorded["out"][:2].reshape(1, 2, 1, d), recorded["lse"][:2].reshape(1, 2, 1)
    about = {key: metadata[key] for key in ("gpu", "driver", "library", "date", "kernel")}
    return safetensors(about, {"q": q, "k": k, "v": v, "out": out, "lse": lse})


def nvfp4():
    """A matrix, and the codes and scales that torchao made of it on the GPU."""
    _, recorded = read(member("quantize/quantize_h100.tar.xz", "quantize_h100.safetensors"))
    metadata = {
        "recipe": "torchao_nvfp4",
        "gpu": "NVIDIA H100 80GB HBM3",
        "driver": "580.159.04",
        "library": "torchao 0.18.0 (commit 5f2baf9d575c), PyTorch 2.11.0 for CUDA 13.0, Triton 3.6.0",
    }
    tensors = {
        "x": recorded["x.bf16.2"].view(ml_dtypes.bfloat16),
        "codes": recorded["codes.torchao_nvfp4.bf16.2"],
        "scales": recorded["scales.torchao_nvfp4.bf16.2"],
        "tensor_scale": recorded["tensor_scale.torchao_nvfp4.bf16.2"].view(np.float32),
    }
    return safetensors(metadata, tensors)


def capture_of_a_layer(rows):
    """The first decoder layer of the captured Llama model, with at most so many rows of each sampled tensor."""
    folder = DATA / "captures" / "tiny_llama"
    graph = json.loads((folder / "graph.json").read_text())
    metadata, stored = read((folder / "tensors.safetensors").read_bytes())
    second_norm = [i for i, operator in enumerate(graph["operators"]) if operator["op"] == "aten.pow.Tensor_Scalar"][2]
    graph["operators"] = graph["operators"][: second_norm - 1]

    def numbers(value):
        if isinstance(value, dict):
            return {value["tensor"]} if "tensor" in value else set().union(*map(numbers, value.values()))
        return set().union(*map(numbers, value)) if isinstance(value, list) else set()

    used = set()
    for operator in graph["operators"]:
        used |= numbers(operator["args"]) | numbers(operator["kwargs"]) | set(operator["outputs"]) - {None}
    graph["tensors"] = {number: row for number, row in graph["tensors"].items() if number in used}
    tensors = {}
    for number in used & stored.keys():
        tensors[number] = stored[number]
        if sampled := graph["tensors"][number].get("sampled"):
            count = len(sampled["rows"])
            sampled["rows"] = sampled["rows"][:rows]
            tensors[number] = stored[number].reshape(count, -1)[:rows]
    ordered = {number: tensors[number] for number in sorted(tensors, key=int)}
    return {
        "graph.json": (json.dumps(graph, separators=(",", ":")) + "\n").encode(),
        "tensors.safetensors": safetensors(metadata, ordered),
    }


H100 = "recorded on an NVIDIA H100 80GB HBM3, driver 580.159.04"
PRODUCT = f"PyTorch 2.11.0 with CUDA 13.0 and cuBLASLt 13.1; {H100}, 2026-11-22 (lab/record_products.py)"
WHOLE = (8, 16)


def datasets():
    """name: (name of the file, kind, description, origin, content)"""
    products = {
        "nvjet_algo2_e4m3": (
            "nvjet_algo2_e4m3_k1024", WHOLE,
            "fp8 product of torch._scaled_mm, K = 1024, README's picture: an f32 sum takes over after every 128 of K"),
        "nvjet_algo2_e4m3_k4096": (
            "nvjet_algo2_e4m3_k4096", WHOLE, "the same kernel with K = 4096: the fp8 product of the pages on products"),
        "nvjet_fast_e4m3": (
            "nvjet_fast_e4m3_k2560", WHOLE, "fp8 product with use_fast_accum, K = 2560: one chain of wgmma"),
        "nvjet_flat_f16": ("nvjet_flat_f16_k1024", WHOLE, "f16 product, K = 1024: one chain of wgmma"),
        "nvjet_split3_bf16": ("nvjet_split3_bf16_k4096", WHOLE, "bf16 product in three slices of K, K = 4096"),
        "lost_tail_bf16": (
            "lost_tail_bf16_k11528", (4, 4),
            "bf16 product in nine slices of K that end at 11520 of 11528: cuBLAS omits the last eight terms"),
        "cutlass75_bf16": (
            "cutlass75_bf16_k264", WHOLE, "bf16 product of a CUTLASS kernel that adds in chains of mma.sync, K = 264"),
    }  # fmt: skip
    rows = {
        name: (
            f"{name}.safetensors",
            "product",
            f"{about}; A {part[0]} x K, B K x {part[1]}",
            PRODUCT,
            (DATA / "products" / f"{file}.safetensors").read_bytes()
            if part == WHOLE
            else part_of_product(f"{file}.safetensors", *part),
        )
        for name, (file, part, about) in products.items()
    }
    rows["wgmma_f16"] = (
        "wgmma_f16.safetensors",
        "vector file",
        "cases of wgmma m64n8k16 with A and B of f16: inputs in registers and shared memory, and D",
        "recorded on an NVIDIA H200, driver 580.159.04 (data/golden/sm_90a/misc)",
        (DATA / "golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors").read_bytes(),
    )
    rows["flash_attention_bf16"] = (
        "flash_attention_bf16.safetensors",
        "tensors",
        "q, k, v, out and lse of two heads of FlashAttention-2 in bf16: one query, 64 keys, head size 64",
        f"PyTorch 2.11.0 with CUDA 13.0; {H100}, 2026-11-26 (lab/record_operators.py)",
        attention(),
    )
    rows["torchao_nvfp4"] = (
        "torchao_nvfp4.safetensors",
        "tensors",
        "a bf16 matrix x of 16 x 256, and the NVFP4 codes, block scales and tensor scale that torchao makes of it",
        f"torchao 0.18.0 and PyTorch 2.11.0; {H100} (data/quantize/record.py)",
        nvfp4(),
    )
    rows["llama_layers"] = (
        "llama_layers.safetensors",
        "tensors",
        "sampled rows of every intermediate tensor of two Llama decoder layers in bf16, 64 tokens; the weights' seed",
        f"PyTorch 2.11.0 with CUDA 13.0; {H100}, 2026-11-26 (lab/record_operators.py)",
        member("operators/recorded.tar.xz", "h100/06000.safetensors"),
    )
    rows["tiny_llama"] = (
        "tiny_llama",
        "capture",
        "one decoder layer of a Llama model that reads 40 tokens, for bitmma replay; two rows of each large tensor",
        f"PyTorch 2.11.0 with CUDA 13.0; {H100}, 2026-11-26 (lab/record_layers.py)",
        capture_of_a_layer(rows=2),
    )
    rows["triton_sm90_f16"] = (
        "triton_sm90_f16.ptx",
        "PTX",
        "a matrix product for sm_90a with wgmma, as Triton compiles it",
        "Triton 3.9.0 (data/ptx)",
        (DATA / "ptx/triton_sm90_f16.ptx").read_bytes(),
    )
    rows["bulk_kernels"] = (
        "bulk_kernels.ptx",
        "PTX",
        "CUDA kernels of bulk copies that complete on mbarriers, and of a product by tensor maps and wgmma",
        "nvcc of CUDA 13.0 (data/kernels/bulk.cu)",
        (DATA / "kernels/bulk.ptx").read_bytes(),
    )
    rows["cuda_kernels"] = (
        "cuda_kernels.ptx",
        "PTX",
        "nine CUDA kernels as nvcc compiles them: softmax, layer_norm, scan, transpose, a product by mma.sync, ...",
        "nvcc of CUDA 13.0 (data/kernels/cuda.cu)",
        (DATA / "kernels/cuda.ptx").read_bytes(),
    )
    return rows


def files():
    """Every file of the folder, by its path, and its bytes."""
    rows, made = datasets(), {}
    for file, _, _, _, content in rows.values():
        for part, part_content in content.items() if isinstance(content, dict) else [("", content)]:
            made[f"{file}/{part}" if part else file] = part_content
    index = {
        name: {"file": file, "kind": kind, "about": about, "source": source}
        for name, (file, kind, about, source, _) in sorted(rows.items())
    }
    made["index.json"] = (json.dumps(index, indent=1) + "\n").encode()
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    made = files()
    if is_check:
        present = {str(path.relative_to(PACKAGE)): path.read_bytes() for path in PACKAGE.rglob("*") if path.is_file()}
        different = sorted(name for name in made.keys() | present.keys() if made.get(name) != present.get(name))
        sys.exit(f"{PACKAGE}: {', '.join(different)}" if different else 0)
    for name, content in made.items():
        path = PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
