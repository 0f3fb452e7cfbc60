#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Captures what a model computes, operator by operator, for `bitmma replay`. Needs PyTorch, and nothing else.

    import capture
    with torch.inference_mode(), capture.Capture("captured", model=model, rows=64):
        model(x)

`captured` is a folder: graph.json has every operator with its arguments, the kernels that it launched and the machine;
tensors.safetensors has the tensors.

- A result of more than `whole` bytes is stored as `rows` of its rows: the last one and others drawn from `seed`. The
  first dimensions, as many as make at least `rows`, count the rows: [1, 512, 32, 128] in memory has 512. Results with
  equally many rows store the same rows.
- Weights of the model that are larger than `whole` are stored by name and SHA-256 alone.
- Inputs from outside, random numbers, and keys and values of attention are stored whole.

Kernel names come from a CUDA graph into which each operator is captured before it runs. The graph also shows the number
of slices of a split-K product, which no profiler shows.

A model of torch.compile runs kernels of Triton that no operator shows. Capture(..., compiled=True) captures the other
operators that the model calls, each with its own inputs, and bitmma's record_triton.py records the kernels with their
PTX, from the first call on:

    with record_triton.recording() as launches:
        compiled_model(x)
    launches.save("launches.safetensors")
    with capture.Capture("captured", model=model, compiled=True):
        compiled_model(x)

What it does not see: the inside of custom operators (they are recorded by name), and other processes.
"""

import ctypes
import hashlib
import json
import os
import random
import struct

import torch
from torch.utils._python_dispatch import TorchDispatchMode

FORMAT = "bitmma-capture/1"
DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64", torch.int8: "I8",
          torch.uint8: "U8", torch.int32: "I32", torch.int64: "I64", torch.int16: "I16",
          torch.bool: "BOOL"}  # fmt: skip
for _name, _code in (("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2")):
    if hasattr(torch, _name):
        DTYPES[getattr(torch, _name)] = _code
KERNEL_NODE = 0


class KernelNode(ctypes.Structure):  # CUDA_KERNEL_NODE_PARAMS_v2
    _fields_ = [("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared", ctypes.c_uint), ("params", ctypes.POINTER(ctypes.c_void_p)), ("extra", ctypes.c_void_p),
                ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p)]  # fmt: skip


def launched(call, stream):
    """The kernels that a call launches, as (name, grid, block), and the slices of a split-K product or None. No kernel
    runs: the stream captures the call into a CUDA graph. Raises OSError if the driver refuses, and what the call
    raises."""
    cuda, graph, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_size_t()

    def driver(function, *arguments):
        if code := getattr(cuda, function)(*arguments):
            raise OSError(f"{function}: error {code} of the CUDA driver")

    with torch.cuda.stream(stream):
        driver("cuStreamBeginCapture_v2", ctypes.c_void_p(stream.cuda_stream), 2)
        try:
            call()
        finally:
            code = cuda.cuStreamEndCapture(ctypes.c_void_p(stream.cuda_stream), ctypes.byref(graph))
    if code:
        raise OSError(f"cuStreamEndCapture: error {code} of the CUDA driver")
    driver("cuGraphGetNodes", graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    driver("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    kernels, slices = [], None
    for node in map(ctypes.c_void_p, nodes):
        kind, params, name = ctypes.c_int(), KernelNode(), ctypes.c_char_p()
        driver("cuGraphNodeGetType", node, ctypes.byref(kind))
        if kind.value != KERNEL_NODE:
            continue
        driver("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(params))
        get_name = "cuFuncGetName" if params.function else "cuKernelGetName"
        driver(get_name, ctypes.byref(name), ctypes.c_void_p(params.function or params.kernel))
        kernels.append((name.value.decode(), list(params.grid), list(params.block)))
        if "splitKreduce" in kernels[-1][0]:  # cublasSplitKParams: the eleventh word
            slices = struct.unpack_from("<i", ctypes.string_at(params.params[0], 60), 40)[0]
    driver("cuGraphDestroy", graph)
    return kernels, slices


class Kernels:
    """Which kernels a call launches."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        try:
            self.demangle = getattr(ctypes.CDLL("libstdc++.so.6"), "__cxa_demangle")
            self.demangle.restype = ctypes.c_void_p
        except (OSError, AttributeError):
            self.demangle = None

    def readable(self, name):
        status = ctypes.c_int(1)
        made = (
            self.demangle and name.startswith("_Z") and self.demangle(name.encode(), None, None, ctypes.byref(status))
        )
        return ctypes.string_at(made).decode() if made and status.value == 0 else name

    def of(self, call):
        """[{"name", "grid", "block"}, ...] and the slices of a split-K product; None if the call cannot be captured."""
        self.stream.wait_stream(torch.cuda.current_stream())
        try:
            kernels, slices = launched(call, self.stream)
        except (OSError, RuntimeError):
            return None
        return [{"name": self.readable(name), "grid": grid, "block": block} for name, grid, block in kernels], slices


def machine():
    about = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "allow_tf32": torch.backends.cuda.matmul.allow_tf32,
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        about |= {
            "gpu": properties.name,
            "sm": f"{properties.major}{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
        }
        try:
            version = ctypes.CDLL(f"libcublasLt.so.{str(torch.version.cuda).split('.')[0]}").cublasLtGetVersion
            version.restype = ctypes.c_size_t
            about["cublaslt"] = version()
        except (OSError, AttributeError):
            pass
    return about


def bytes_of(tensor):
    return tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def is_composite(func):
    """Whether PyTorch makes an operator of others. `silu_backward` and others have kernels beside, `_fused_rms_norm`
    on a GPU alone."""

    def has_kernel(key):
        return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)

    return has_kernel("CompositeImplicitAutograd") and not has_kernel("CPU") and not has_kernel("CUDA")


class Capture(TorchDispatchMode):
    """model: its parameters and buffers are weights, with their names. sources: {name of a weight: anything that JSON
    can hold}, where a reader finds or makes it. compiled: the model is torch.compile's."""

    def __init__(self, path, *, model=None, rows=64, whole=1 << 16, seed=0, sources=None, compiled=False):
        super().__init__()
        self.compiled = compiled
        self.ignore_compile_internals = lambda: compiled  # else a compiled model runs its operators one by one
        self.path, self.rows, self.whole, self.seed, self.sources = path, rows, whole, seed, sources or {}
        self.names, self.bases, self.kept, self.depth = {}, {}, [], 0
        if model is not None:
            for name, one in [*model.named_parameters(), *model.named_buffers()]:
                self.names.setdefault(id(one), name)
                self.kept.append(one)  # an id is that of one tensor only while the tensor lives
                if one.is_contiguous() and one.storage_offset() == 0:
                    self.bases[one.untyped_storage().data_ptr()] = one
        self.tensors, self.stored, self.operators, self.changed = {}, {}, [], {}
        self.kernels = Kernels() if torch.cuda.is_available() else None

    # Tensors ---------------------------------------------------------------------------------------------------------

    def store(self, number, tensor, whole=False):
        about, tensor = self.tensors[number], tensor.detach()
        about.pop("sampled", None)
        if not whole and tensor.numel() * tensor.element_size() > self.whole:
            order = (
                sorted(range(tensor.dim()), key=lambda one: -tensor.stride(one))
                if 0 not in tensor.stride()
                else range(tensor.dim())
            )
            in_memory, count, leading = tensor.permute(*order), 1, 0
            while count < self.rows and leading < tensor.dim() - 1:
                count *= in_memory.shape[leading]
                leading += 1
            if count > self.rows:
                rows = sorted(
                    [*random.Random(f"{self.seed}:{count}").sample(range(count - 1), self.rows - 1), count - 1]
                )
                about["sampled"] = {"order": list(order), "leading": leading, "rows": rows}
                tensor = in_memory.reshape(count, -1)[torch.tensor(rows, device=tensor.device)]
        self.stored[number] = (DTYPES[tensor.dtype], list(tensor.shape), bytes_of(tensor))

    def add(self, tensor, role, store=True, whole=True):
        number = str(len(self.tensors))
        self.tensors[number] = {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "role": role,
        }
        tensor._bitmma_number = (self, number, len(self.operators))
        if role == "weight":
            name, data = self.names[id(tensor)], bytes_of(tensor)
            self.tensors[number] |= {"name": name, "sha256": hashlib.sha256(data).hexdigest()}
            if name in self.sources:
                self.tensors[number]["source"] = self.sources[name]
            if len(data) <= self.whole:
                self.stored[number] = (DTYPES[tensor.dtype], list(tensor.shape), data)
        elif store:
            self.store(number, tensor, whole)
        return number

    def number(self, tensor):
        """The number of an argument. A tensor gets a new number if another operator wrote its memory since."""
        owner, number, when = getattr(tensor, "_bitmma_number", (None, None, 0))
        if self.compiled and id(tensor) not in self.names:
            return self.of_compiled(tensor)
        if owner is self and self.changed.get(tensor.untyped_storage().data_ptr(), -1) < when:
            return number
        if id(tensor) in self.names and owner is not self:
            return self.add(tensor, "weight")
        return self.add(tensor, "input" if owner is not self else "changed")

    def of_compiled(self, tensor):
        """A view of a weight, or a tensor as it is now: kernels that are not seen may have written it."""
        base = self.bases.get(tensor.untyped_storage().data_ptr())
        if base is None:
            return self.add(tensor, "input", whole=False)
        view = [{"tensor": self.number(base)}, list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]
        number = self.add(tensor, "value", store=False)
        self.operators.append({"op": "aten.as_strided.default", "args": view, "kwargs": {}, "outputs": [number]})
        return number

    def written(self, value):
        if isinstance(value, torch.Tensor):
            return {"tensor": self.number(value)}
        if isinstance(value, (list, tuple)):
            return [self.written(one) for one in value]
        if isinstance(value, float):
            return {"float": value.hex()}
        if value is None or isinstance(value, (bool, int, str)):
            return value
        return {"other": str(value).removeprefix("torch.")}

    # Operators -------------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if is_composite(func):
            with self:  # inference mode hands such operators over as they are
                made = func.decompose(*args, **kwargs)
            if made is not NotImplemented:
                return made
        schema = func._schema
        is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
        is_random = torch.Tag.nondeterministic_seeded in func.tags and "attention" not in func.name()
        given = (
            [self.written(arg) for arg in args],
            {name: self.written(kwarg) for name, kwarg in kwargs.items() if name != "out"},
        )
        launched = None
        if self.kernels is not None and not is_view and not is_random:
            launched = self.kernels.of(lambda: func(*args, **kwargs))
        about = {"op": str(func), "args": given[0], "kwargs": given[1], "outputs": []}
        if is_random and self.kernels is not None:
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            about["generator"] = {"seed": generator.initial_seed(), "offset": generator.get_offset()}
        if launched is not None:
            about["kernels"] = launched[0]
            # Some kernels of f32 add their slices themselves: the third extent of the grid.
            own = max(
                [
                    kernel["grid"][2]
                    for kernel in launched[0]
                    if "cutlass" in kernel["name"] or "xmma" in kernel["name"]
                ],
                default=1,
            )
            slices = launched[1] or (own if func.name().startswith(("aten::mm", "aten::addmm")) and own > 1 else None)
            if slices:
                about["slices"] = slices
        if "attention" in about["op"]:
            for arg, written in zip(args[1:3], given[0][1:3], strict=True):
                self.store(written["tensor"], arg, whole=True)
        result = func(*args, **kwargs)
        self.operators.append(about)
        values = [*args, *(kwargs.get(argument.name) for argument in schema.arguments[len(args) :])]
        for argument, value in zip(schema.arguments, values, strict=True):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for one in value if isinstance(value, (list, tuple)) else [value]:
                    if isinstance(one, torch.Tensor):
                        self.changed[one.untyped_storage().data_ptr()] = len(self.operators) - 1
        outputs = result if isinstance(result, (list, tuple)) else [result]
        for output in outputs:
            is_tensor = isinstance(output, torch.Tensor)
            about["outputs"].append(
                self.add(output, "value", store=not is_view, whole=is_random)
                if is_tensor and output.dtype in DTYPES
                else None
            )
        return result

    # The files -------------------------------------------------------------------------------------------------------

    def __enter__(self):
        self.depth += 1
        return super().__enter__()

    def __exit__(self, kind, error, trace):
        super().__exit__(kind, error, trace)
        self.depth -= 1
        if kind is None and self.depth == 0:
            self.save()

    def save(self):
        os.makedirs(self.path, exist_ok=True)
        header, at = {"__metadata__": {"format": FORMAT}}, 0
        for number, (dtype, shape, data) in self.stored.items():
            header[number] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
            at += len(data)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(self.path, "tensors.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, _, data in self.stored.values():
                file.write(data)
        graph = {
            "format": FORMAT,
            "machine": machine() | ({"compiled": True} if self.compiled else {}),
            "seed": self.seed,
            "tensors": self.tensors,
            "operators": self.operators,
        }
        with open(os.path.join(self.path, "graph.json"), "w") as file:
            json.dump(graph, file, separators=(",", ":"))
