# SPDX-License-Identifier: MIT
"""bitmma: what NVIDIA's tensor cores compute, bit for bit, on a CPU.

    import bitmma, numpy as np
    d = bitmma.mma("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", a, b)          one instruction, an H200's bits
    d = bitmma.gemm(x, w.T, "nvjet-algo2", out_dtype="bf16")                            a product with a library's bits
    plans = bitmma.find_plans(x, w.T, recorded)                                         the additions that give it

Start from what you have:
    two matrices        mma, gemm; matmul: the bits of PyTorch on a GPU, with the kernel that cuBLAS takes
    a recorded D        find_plans, accuracy, evidence
    a machine's state   execute: registers, shared memory, descriptors, Tensor Memory
    a warp's registers  bind: an mma.sync, checked once and then called often
    PTX or a word       instruction, decode, decode_ptx, encode
    a layout            bitmma.layout: the place of each element, as integer arrays
    a vector file       read, write, verify, golden
    wrong bits          explain, diagnose, lint, bitmma.testing: assertions that report which bits differ, and why
    block scales        tiled, tile: cuBLAS's tiles of 128 x 4
    a sparse A          prune_2_4, compress, decompress: CUTLASS's and PyTorch's stored form and metadata
    one function        bitmma.math: ex2, rcp, rsqrt, sin, tanh, fma, ... as the GPU computes them, C's expf as compiled
    one conversion      cvt: between floating-point formats and integers, by its PTX name
    a PTX kernel        kernel, tensor_map: run it on NumPy's or torch's memory, with the GPU's bits
    several launches    PtxModule, Memory, encode_tensor_map: a module's kernels and variables over one global memory
    an operator         bitmma.operators: attention, softmax, norms, ... as PyTorch computes them on an H100
    a whole layer       bitmma.layers: a Llama decoder layer, every intermediate tensor
    operands to round   quantize: the quantisers of Transformer Engine, torchao, FlashInfer, DeepGEMM; quantized_gemm
    two results         bitmma.plot: histogram of the differences, map of the places that differ
    no data yet         bitmma.datasets: small recordings of an H100, which commands and functions read as dataset:NAME

Errors are bitmma.Error, with all violations. You may call all functions from several threads.
bitmma installs no signal handlers.
"""

from typing import TYPE_CHECKING, Any

from ._arguments import name_as_imported
from ._arrays import Codes, Tiled, codes, dtype_of, format_of, tile, tiled
from ._case import Case, Explanation, FieldRule, execute, explain, fields, lint
from ._core import (
    Bound,
    Instruction,
    Plan,
    version as __version__,  # noqa: F401 - no name for `import *`
)
from ._descriptors import decode, decode_ptx, encode
from ._errors import Error, Violation
from ._gemm import (
    Accuracy,
    CatalogueEntry,
    PlanFamily,
    PlanSearch,
    PlanTypes,
    ProductDiagnosis,
    ProductFault,
    ProductFinding,
    ProductTrace,
    accuracy,
    catalogue,
    diagnose_product,
    explain_product,
    faulty_product,
    find_plans,
    gemm,
    generated,
    product_faults,
)
from ._kernel import Kernel, TensorMap, encode_tensor_map, kernel, tensor_map
from ._matmul import ChoiceRange, LibraryChoice, library_choice, library_choices, matmul
from ._mma import Evidence, all_instructions, bind, evidence, instruction, mma, mma_sync, tcgen05, tmem_move, wgmma
from ._module import Memory, PtxModule
from ._names import name_ways, no_such_name
from ._product import Product, read_product
from ._quantize import Quantized, quantize, quantize_recipes, quantized_gemm
from ._sparse import Compressed, compress, decompress, prune_2_4
from ._vectors import (
    Comparison,
    Diagnosis,
    Fault,
    Finding,
    VectorFile,
    compare,
    diagnose,
    fault_catalogue,
    faulty_d,
    golden,
    read,
    verify,
    write,
)

if TYPE_CHECKING:
    from . import datasets, layers, layout, math, operators, plot, testing
    from ._replay import CapturesCompared, Replay, Verdict, compare_captures, replay
    from .math import cvt

__all__ = [
    "Accuracy",
    "Bound",
    "CapturesCompared",
    "Case",
    "CatalogueEntry",
    "ChoiceRange",
    "Codes",
    "Comparison",
    "Compressed",
    "Diagnosis",
    "Error",
    "Evidence",
    "Explanation",
    "Fault",
    "FieldRule",
    "Finding",
    "Instruction",
    "Kernel",
    "LibraryChoice",
    "Memory",
    "Plan",
    "PlanFamily",
    "PlanSearch",
    "PlanTypes",
    "Product",
    "ProductDiagnosis",
    "ProductFault",
    "ProductFinding",
    "ProductTrace",
    "PtxModule",
    "Quantized",
    "Replay",
    "TensorMap",
    "Tiled",
    "VectorFile",
    "Verdict",
    "Violation",
    "accuracy",
    "all_instructions",
    "bind",
    "catalogue",
    "codes",
    "compare",
    "compare_captures",
    "compress",
    "cvt",
    "datasets",
    "decode",
    "decode_ptx",
    "decompress",
    "diagnose",
    "diagnose_product",
    "dtype_of",
    "encode",
    "encode_tensor_map",
    "evidence",
    "execute",
    "explain",
    "explain_product",
    "fault_catalogue",
    "faulty_d",
    "faulty_product",
    "fields",
    "find_plans",
    "format_of",
    "gemm",
    "generated",
    "golden",
    "instruction",
    "kernel",
    "layers",
    "layout",
    "library_choice",
    "library_choices",
    "lint",
    "math",
    "matmul",
    "mma",
    "mma_sync",
    "operators",
    "plot",
    "product_faults",
    "prune_2_4",
    "quantize",
    "quantize_recipes",
    "quantized_gemm",
    "read",
    "read_product",
    "replay",
    "tcgen05",
    "tensor_map",
    "testing",
    "tile",
    "tiled",
    "tmem_move",
    "verify",
    "wgmma",
    "write",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


# Modules that are imported when they are first used, and the names of theirs that bitmma has.
_MODULES = ("datasets", "layers", "layout", "math", "operators", "plot", "testing")
_LATER = {
    **dict.fromkeys(("CapturesCompared", "Replay", "Verdict", "compare_captures", "replay"), "_replay"),
    "cvt": "math",
}
name_as_imported(globals(), [name for name in __all__ if name not in (*_MODULES, *_LATER)])
for _kind in (Case, Instruction, Quantized):
    name_ways(_kind)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"bitmma.{name}")
        if name in _LATER:
            globals()[name] = getattr(import_module(f"bitmma.{_LATER[name]}"), name)
            name_as_imported(globals(), [name])
            return globals()[name]
        hint = ""
        if not name.startswith("_"):
            for module in _MODULES:
                if name in import_module(f"bitmma.{module}").__all__:
                    hint = f"use bitmma.{module}.{name}"
            if not hint and name in import_module("bitmma.operators").elementwise_functions():
                hint = f'use bitmma.operators.elementwise("{name}", x)'
        raise no_such_name("bitmma", name, __all__, hint)
