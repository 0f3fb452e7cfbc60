# SPDX-License-Identifier: MIT
"""What the recorders of PyTorch's calls share: the generator of operands, the kernels of a call, the files.

Operands come from a counter-based generator (Philox4x32-10) that bitmma has as well, so that a recording holds a seed
instead of them. Element i of a stream is word i mod 4 of block i / 4: low half - high half, times 2^-14, rounded to f32
and then to the type. s8 is the top byte; f64 the whole signed word times 2^-29.
"""

import datetime
import importlib.util
import json
import os
import struct

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def module_of(path):
    """A file of the checkout as a module, without the package that it may be part of."""
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], os.path.join(ROOT, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


capture = module_of("tools/capture.py")
rounds = module_of("python/bitmma/_philox.py").rounds

# ---------------------------------------------------------------------------------------------------------------------
# Operands

GENERATOR = "philox4x32-10/triangle"


def element_words(stream, seed, first, count, device):
    begin, end = first // 4, (first + count + 3) // 4
    blocks = torch.arange(begin, end, dtype=torch.int64, device=device)
    counters = [blocks & 0xFFFFFFFF, blocks >> 32, torch.full_like(blocks, stream), torch.zeros_like(blocks)]
    words = torch.stack(rounds(counters, seed, int), dim=1).reshape(-1)
    return words[first - 4 * begin : first - 4 * begin + count]


def values(stream, seed, first, count, dtype, device):
    """Elements [first, first + count) of a stream."""
    out = torch.empty(count, dtype=dtype, device=device)
    chunk = 1 << 24
    for at in range(0, count, chunk):
        w = element_words(stream, seed, first + at, min(chunk, count - at), device)
        if dtype == torch.float64:
            x = (w - ((w >> 31) << 32)).to(torch.float64) * 2.0**-29
        elif dtype == torch.int8:
            w = w >> 24
            x = w - ((w >> 7) << 8)
        else:
            x = ((w & 0xFFFF) - (w >> 16)).to(torch.float32) * 2.0**-14
        out[at : at + w.numel()] = x.to(dtype)
    return out


# ---------------------------------------------------------------------------------------------------------------------
# The kernels of a call


def kernels_of(run, device):
    if device == "cpu":
        return []
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        run()
        torch.cuda.synchronize()
    names = [event.name for event in recorded.events() if str(event.device_type).endswith("CUDA")]
    return [name for name in names if not name.startswith(("Memcpy", "Memset", "cuda", "cu"))] or names


def captured(run, stream):
    """The names of the kernels of a call, and its number of slices along K (0: one). No kernel runs."""
    kernels, slices = capture.launched(run, stream)
    # If no kernel reduces the slices, cuBLAS launches one layer of blocks per slice, so gridDim.z is their number.
    if slices is None:
        slices = next((grid[2] for _, grid, _ in kernels if grid[2] > 1), 0)
    return [name for name, _, _ in kernels], slices


# ---------------------------------------------------------------------------------------------------------------------
# What is written

DTYPES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float64: "F64",
    torch.int8: "I8",
    torch.int32: "I32",
}
for _name, _dtype in (("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2")):
    if hasattr(torch, _name):
        DTYPES[getattr(torch, _name)] = _dtype


def write_safetensors(path, tensors, metadata):
    header, payload, at = {"__metadata__": {key: str(value) for key, value in metadata.items()}}, [], 0
    for name, t in tensors.items():
        data = t.detach().cpu().contiguous().reshape(-1)
        data = data.view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        payload.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(payload))


def about_this_machine(device):
    about = {"date": datetime.date.today().isoformat(), "library": f"PyTorch {torch.__version__}"}
    if device != "cpu":
        about["gpu"] = torch.cuda.get_device_name()
        major, minor = torch.cuda.get_device_capability()
        about["target"] = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        about["library"] += f", CUDA {torch.version.cuda}"
        about["driver"] = os.popen("nvidia-smi --query-gpu=driver_version --format=csv,noheader").read().split("\n")[0]
        try:
            import ctypes

            for name in ("libcublasLt.so.13", "libcublasLt.so.12"):
                try:
                    version = ctypes.CDLL(name).cublasLtGetVersion
                    version.restype = ctypes.c_size_t
                    about["library"] += f", cuBLASLt {version()}"
                    break
                except OSError:
                    continue
        except AttributeError:
            pass
    try:
        import triton

        about["library"] += f", Triton {triton.__version__}"
    except ImportError:
        pass
    return about
