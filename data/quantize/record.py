"""Records what projects' own quantisers make of one matrix a type: see README.md for the versions and how to run it.

record.py --sources FOLDER [--device cuda] -o outputs.safetensors

FOLDER holds microxcaling's folder mx, DeepGEMM's deep_gemm/utils/math.py as deepgemm_math.py, Transformer Engine's
transformer_engine/pytorch/custom_recipes/reference_nvfp4.py as te_nvfp4.py and its tests/pytorch/references as
references; with --device cuda also DeepSeek-V3's inference/kernel.py as deepseek_kernel.py and vLLM's
vllm/model_executor/layers/quantization/input_quant_fp8.py as vllm_input_quant.py, and not microxcaling. torchao and
nvidia-modelopt are installed. Nothing of them is copied here. What a project refuses to run is named, and the exit code
is 1.
"""

import argparse
import ast
import importlib
import json
import sys
import types
from pathlib import Path
from unittest import mock

import numpy as np
import torch

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def stub(name, **members):
    module = types.ModuleType(name)
    module.__path__ = []
    for key, value in members.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module


def import_modelopt():
    """The files of quantized tensors alone: the package imports transformers, huggingface_hub and more."""
    root = Path(importlib.util.find_spec("modelopt").submodule_search_locations[0]) / "torch" / "quantization"
    for name in ("modelopt.torch", "modelopt.torch.quantization"):
        stub(name)
    stub("modelopt.torch.quantization.backends")
    stub("modelopt.torch.quantization.backends.utils", fp4_compatible=lambda: False)
    qtensor = stub("modelopt.torch.quantization.qtensor")
    qtensor.__path__ = [str(root / "qtensor")]
    utils = stub("modelopt.torch.quantization.utils", fsdp2_aware_weight_update=None, patch_fsdp_mp_dtypes=None)
    utils.__path__ = [str(root / "utils")]
    core = (root / "utils" / "core_utils.py").read_text()
    space = {"torch": torch, "F": torch.nn.functional, "_FP8_DTYPES": (torch.float8_e4m3fn, torch.float8_e5m2)}
    for function in ("reduce_block_amax", "reduce_block_padding", "reduce_amax"):
        start = core.index(f"def {function}(")
        end = min(i for i in (core.find("\ndef ", start), core.find("\n@", start), len(core)) if i > 0)
        exec(core[start:end], space)
        setattr(utils, function, space[function])
    names = ("nvfp4_tensor", "mxfp4_tensor", "mxfp8_tensor")
    return [importlib.import_module("modelopt.torch.quantization.qtensor." + name) for name in names]


def import_transformer_engine():
    for name in ("transformer_engine", "transformer_engine.pytorch"):
        stub(name)
    stub("transformer_engine.pytorch.custom_recipes", gemm=mock.MagicMock(), reference_utils=mock.MagicMock())
    stub("transformer_engine.pytorch.quantized_tensor", QuantizedTensorStorage=object, Quantizer=object)
    return importlib.import_module("te_nvfp4"), importlib.import_module("references.blockwise_quantizer_reference")


def import_vllm(path):
    """QuantFP8.forward_native alone: the file imports all of vLLM. Rows and tensors broadcast their scales by
    themselves."""
    tree = ast.parse(Path(path).read_text())
    layer = next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "QuantFP8")
    layer.decorator_list, layer.bases = [], []
    layer.body = [one for one in layer.body if isinstance(one, ast.FunctionDef) and one.name == "forward_native"]
    shapes = types.SimpleNamespace(PER_TOKEN="token", PER_TENSOR="tensor")
    space = {
        "torch": torch,
        "GroupShape": shapes,
        "group_broadcast": lambda scale, shape: scale,
        "_FP8_MAX": 448.0,
        "_FP8_MIN": -448.0,
        "_FP8_MIN_SCALING_FACTOR": 1.0 / (448.0 * 512.0),
        "_FP8_DTYPE": torch.float8_e4m3fn,
    }
    exec(compile(ast.Module([layer], []), path, "exec"), space)
    return space["QuantFP8"]


def unpacked(packed):
    """Codes of two a byte, the first in the lower half."""
    packed = packed.view(torch.uint8)
    return torch.stack((packed & 15, packed >> 4), -1).reshape(packed.shape[0], -1)


def codes_of(values, shape):
    return values.reshape(shape).view(torch.uint8)


def recipes_of_gpu(sources):
    """The recipes of recipes() that run on a GPU alone, or are kernels."""
    deepseek, vllm = importlib.import_module("deepseek_kernel"), import_vllm(f"{sources}/vllm_input_quant.py")

    def deepseek_rows(x):
        codes, scales = deepseek.act_quant(x)
        return codes_of(codes, x.shape), scales.to(torch.float32), None

    def vllm_fp8(group):
        def run(x):
            layer = vllm()
            layer.is_group_quant, layer.static, layer.group_shape, layer.num_token_padding = False, False, group, None
            codes, scales = layer.forward_native(x)
            return codes_of(codes, x.shape), scales.reshape(-1, 1), None

        return run

    return {
        "deepseek_v3_1x128": deepseek_rows,
        "vllm_fp8_row": vllm_fp8("token"),
        "vllm_fp8_tensor": vllm_fp8("tensor"),
    }


def recipes():
    """name -> function of a matrix: codes, scales as they are kept, and the tensor's scale or nothing."""
    from torchao.float8.config import ScalingGranularity
    from torchao.float8.float8_utils import tensor_to_scale, to_fp8_saturated
    from torchao.prototype.mx_formats.config import ScaleCalculationMode as Mode
    from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
    from torchao.quantization.quant_primitives import _choose_scale_float8, _quantize_affine_float8

    deepgemm = importlib.import_module("deepgemm_math")
    te_nvfp4, te_block = import_transformer_engine()
    nvfp4, mxfp4, mxfp8 = import_modelopt()
    e4m3, e5m2, e2m1 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2

    def torchao_mx(element, mode):
        def run(x):
            scales, codes = to_mx(x, element, 32, mode)
            codes = unpacked(codes.reshape(x.shape[0], -1)) if element == e2m1 else codes_of(codes, x.shape)
            return codes, scales.view(torch.uint8), None

        return run

    def torchao_nvfp4(x):
        scale = per_tensor_amax_to_scale(torch.max(torch.abs(x)))
        scales, codes = nvfp4_quantize(x, 16, scale)
        return unpacked(codes), scales.view(torch.uint8), scale

    def torchao_nvfp4_one_level(x):
        scales, codes = nvfp4_quantize(x, 16)
        return unpacked(codes), scales.view(torch.uint8), None

    def torchao_fp8(element, by_row):
        def run(x):
            block = [1 if by_row else x.shape[0], x.shape[1]]
            scale = _choose_scale_float8(x, block, element)
            return codes_of(_quantize_affine_float8(x, scale, element), x.shape), scale.reshape(-1, 1), None

        return run

    def torchao_float8(element, by_row, power):
        def run(x):
            granularity = ScalingGranularity.AXISWISE if by_row else ScalingGranularity.TENSORWISE
            axis = -1 if by_row else None
            scale = tensor_to_scale(
                x, element, scaling_granularity=granularity, axiswise_dim=axis, round_scales_to_power_of_2=power
            )
            codes = to_fp8_saturated(x.to(torch.float32) * scale, element)
            return codes_of(codes, x.shape), scale.reciprocal().reshape(-1, 1), None

        return run

    def modelopt_nvfp4(x):
        tensor, scales, scale = nvfp4.NVFP4QTensor.quantize(x, 16)
        return unpacked(tensor._quantized_data), scales.view(torch.uint8), scale

    def modelopt_mxfp4(x):
        tensor, scales = mxfp4.MXFP4QTensor.quantize(x, 32)
        return unpacked(tensor._quantized_data), scales.reshape(x.shape[0], -1), None

    def modelopt_mxfp8(x):
        tensor, scales = mxfp8.MXFP8QTensor.quantize(x)
        return codes_of(tensor._quantized_data, x.shape), scales, None

    def deepgemm_rows(power):
        def run(x):
            codes, scales = deepgemm.per_token_cast_to_fp8(x, power)
            return codes_of(codes, x.shape), scales, None

        return run

    def deepgemm_blocks(power):
        def run(x):
            codes, scales = deepgemm.per_block_cast_to_fp8(x, power)
            return codes_of(codes, x.shape), scales, None

        return run

    def te_fp4(rows):
        def run(x):
            amax = torch.max(torch.abs(x)).to(torch.float32).view(1)
            packed, scales = te_nvfp4.NVFP4QuantizerRef._quantize_blockwise_reference(
                x, amax, 16, rows, pow_2_scales=False, eps=0.0
            )
            return unpacked(packed), scales.view(torch.uint8)[::rows], None

        return run

    def te_fp8(rows, power):
        def run(x):
            result = te_block.BlockwiseQuantizerReference().quantize(
                x, e4m3, quant_tile_shape=(rows, 128), pow_2_scales=power, munge_scale_shapes=False
            )
            return codes_of(result.data, x.shape), result.scale, None

        return run

    return {
        "torchao_mxfp8_e4m3": torchao_mx(e4m3, Mode.FLOOR),
        "torchao_mxfp8_e5m2": torchao_mx(e5m2, Mode.FLOOR),
        "torchao_mxfp8_e4m3_rceil": torchao_mx(e4m3, Mode.RCEIL),
        "torchao_mxfp8_e5m2_rceil": torchao_mx(e5m2, Mode.RCEIL),
        "torchao_mxfp6_e2m3": torchao_mx(DTYPE_FP6_E2M3, Mode.FLOOR),
        "torchao_mxfp6_e3m2": torchao_mx(DTYPE_FP6_E3M2, Mode.FLOOR),
        "torchao_mxfp4": torchao_mx(e2m1, Mode.FLOOR),
        "torchao_mxfp4_even": torchao_mx(e2m1, Mode.EVEN),
        "torchao_mxfp4_rceil": torchao_mx(e2m1, Mode.RCEIL),
        "torchao_nvfp4": torchao_nvfp4,
        "torchao_nvfp4_one_level": torchao_nvfp4_one_level,
        "torchao_fp8_row": torchao_fp8(e4m3, True),
        "torchao_fp8_tensor": torchao_fp8(e4m3, False),
        "torchao_fp8_e5m2_row": torchao_fp8(e5m2, True),
        "torchao_fp8_e5m2_tensor": torchao_fp8(e5m2, False),
        "torchao_float8_tensorwise": torchao_float8(e4m3, False, False),
        "torchao_float8_e5m2_tensorwise": torchao_float8(e5m2, False, False),
        "torchao_float8_rowwise": torchao_float8(e4m3, True, True),
        "modelopt_nvfp4": modelopt_nvfp4,
        "modelopt_mxfp4": modelopt_mxfp4,
        "modelopt_mxfp8": modelopt_mxfp8,
        "deepgemm_1x128": deepgemm_rows(False),
        "deepgemm_128x128": deepgemm_blocks(False),
        "deepgemm_1x128_ue8m0": deepgemm_rows(True),
        "deepgemm_128x128_ue8m0": deepgemm_blocks(True),
        "te_nvfp4": te_fp4(1),
        "te_nvfp4_16x16": te_fp4(16),
        "te_fp8_1x128": te_fp8(1, False),
        "te_fp8_128x128": te_fp8(128, False),
        "te_fp8_1x128_power": te_fp8(1, True),
        "te_fp8_128x128_power": te_fp8(128, True),
    }


MICROXCALING = {
    "mxfp8_e4m3": "fp8_e4m3",
    "mxfp8_e5m2": "fp8_e5m2",
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp4": "fp4",
}


def microxcaling_values(x, element, rounding):
    """What microxcaling gives: decoded values, no codes."""
    from mx.mx_ops import _quantize_mx

    return _quantize_mx(x.clone(), 8, element, axes=[-1], block_size=32, round=rounding)


def inputs(kind, seed, rows=32, cols=256):
    """Random numbers of many sizes, and rows at the boundaries of scales and codes; far ones for odd seeds."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    x *= np.exp2(rng.integers(-12, 12, (rows, 1))).astype(np.float32)
    x[rows // 4 : rows // 2] *= np.exp2(rng.integers(-6, 6, (rows // 2 - rows // 4, cols))).astype(np.float32)
    # Block maxima beside powers of two and beside what an element format ends at; elements beside midpoints.
    for i, row in enumerate(x[: rows // 4]):
        top = np.float32(rng.choice([1, 1.25, 1.75, 1.5, 448 / 256, 6 / 4, 57344 / 32768])) * np.float32(2.0) ** (i - 4)
        word = top.view(np.uint32) + np.uint32(rng.integers(0, 40)) - np.uint32(20)
        halves = rng.choice([0.25, 0.5, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 0.0, -0.0], cols).astype(np.float32)
        row[:] = halves * (top / 6) * rng.choice(np.array([-1, 1], np.float32), cols)
        row[:: 16 * rng.integers(1, 4)] = word.view(np.float32)
    x[-1] = 0
    x[-2, ::2] = -0.0
    x[-2, 64:96] = 2.0**-130
    if seed % 2 == 1:  # beside these, everything else is small for a scale of the whole matrix
        x[-3] *= np.float32(2.0**-100)
        x[-4] = x[-4] * np.float32(2.0**100)
    if kind == "f16":
        x = np.clip(x, -65504, 65504)
    return torch.from_numpy(x).to(TYPES[kind])


def as_array(tensor):
    kind = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}[tensor.element_size()]
    return tensor.contiguous().view(kind).cpu().numpy()


def save(path, arrays):
    """A safetensors file of integers."""
    header, offset = {}, 0
    for name, array in arrays.items():
        kind = {"uint8": "U8", "uint16": "U16", "uint32": "U32"}[array.dtype.name]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sources", required=True)
    parser.add_argument("-o", required=True)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.sources)
    known, arrays, refused = recipes(), {}, 0
    if arguments.device == "cuda":
        known |= recipes_of_gpu(arguments.sources)
    stub("mx").__path__ = [f"{arguments.sources}/mx"]
    for kind in TYPES:
        for seed in (2, 3):
            x = inputs(kind, seed, rows=16).to(arguments.device)
            arrays[f"x.{kind}.{seed}"] = as_array(x)
            for name, run in known.items():
                if kind == "f16" and name.startswith(("torchao_mx", "torchao_nv", "te_nv")):
                    continue  # refused by the project, or not read
                try:
                    codes, scales, tensor_scale = run(x.clone())
                except Exception as error:  # noqa: BLE001 - from code that is not ours: the other recipes are recorded
                    print(f"{name} {kind}: {error}", file=sys.stderr)
                    refused += 1
                    continue
                end = f"{name}.{kind}.{seed}"
                arrays["codes." + end] = as_array(codes)
                arrays["scales." + end] = as_array(scales)
                if tensor_scale is not None:
                    arrays["tensor_scale." + end] = as_array(tensor_scale.reshape(1, 1))
            for format, element in MICROXCALING.items() if kind == "f32" and arguments.device == "cpu" else ():
                values = microxcaling_values(x, element, "nearest")
                arrays[f"values.microxcaling_{format}.f32.{seed}"] = as_array(values)
    save(arguments.o, arrays)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
