# SPDX-License-Identifier: MIT
"""Runs Triton kernels with the bits of a GPU, on the CPU.

    with bitmma.adapters.triton.use("sm_90a") as used:
        kernel[grid](x, y, out, num_warps=8)        # compiled for the H100, and its PTX runs here
    print(used.launches, used.unsure)

This needs no GPU, and every bit is the GPU's; on sm_100a it depends on the evidence for tcgen05. Clusters and
autotuning among several configurations raise an error.

For these, and to step through a kernel in Python, use the interpreter. There only tl.dot and tl.dot_scaled have the
bits of a GPU:

    os.environ["TRITON_INTERPRET"] = "1"            # before triton is imported
    import triton
    import bitmma.adapters.triton
    with bitmma.adapters.triton.use("sm_90a") as used:
        kernel[grid](x, y, out, num_warps=8)
    print(used.instructions)                        # what the compiled kernel would run, and how many dots of each
    print(used.inexact)                             # the operations without a GPU's bits

The interpreter multiplies with NumPy. With the adapter, every dot is the chain of instructions that Triton's compiler
emits for it, which depends on target, types, block shape and num_warps. The adapter also applies these rules of the
compiler, because they decide bits of dots:

    x + tl.dot(a, b)         is one dot that starts from x, if max_num_imprecise_acc is 0 (not the default of fp8 on sm_90)
    tl.dot(a, b) * s + c     is one fma, which rounds once, unless enable_fp_fusion is False
    max_num_imprecise_acc    partial sums of fp8 on sm_90; if it is below 32, the dot is widened to f16
    tf32x3, bf16x3, bf16x6   several dots of rounded parts, in the compiler's order
    tl.dot_scaled            block-scaled instructions if the target has them, else scaled operands of 16 bits
    narrow operands          mma.sync adds K in another order if operands were loaded in a narrower type (k_order)
    .to(tl.bfloat16)         rounds to nearest even (the interpreter truncates)

The interpreter runs line by line and does not see the whole kernel as the compiler does. If this leaves the bits open,
the adapter raises an error: for a dot's result that is added to something and used again; for
`tl.dot(a, b, tl.zeros(..)) + x` (see constant_zeros); and, with enable_fp_fusion, for a sum of two products of which one
has a dot's result as a factor. All other arithmetic is the interpreter's own, in NumPy: `used.inexact` counts
operations that may have other bits on a GPU, and strict=True makes them errors.
"""
from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import inspect
import os
from typing import Any, Callable, Iterator, NamedTuple

import ml_dtypes
import numpy as np

import bitmma
from bitmma._arguments import target_of
from bitmma._errors import refuse
from bitmma.adapters import _triton_driver
from bitmma.adapters._host import Needs, Patches, differences, look_up

__all__ = ["Adapter", "install", "instruction_for", "uninstall", "use"]

TRITON = "triton/runtime/interpreter.py of Triton 3.9"


class Gpu(NamedTuple):
    """Triton's code generation for one compute capability. Source: Triton 3.9 compiled for each; AccelerateMatmul."""

    target: str
    wide: str
    """The instruction of whole warpgroups: "wgmma", "tcgen05" or empty."""
    fp8: str
    """How mma.sync multiplies fp8: "fp8" (directly), "f16" (widened first), or "e5m2" (widened first, without e4m3)."""
    imprecise: int
    """max_num_imprecise_acc if the kernel does not set it."""
    f64: str
    scaled: str
    """Block-scaled instructions for tl.dot_scaled."""


GPUS = {gpu.target: gpu for gpu in [
    Gpu("sm_80", wide="", fp8="e5m2", imprecise=0, f64="dmma", scaled=""),
    Gpu("sm_86", wide="", fp8="e5m2", imprecise=0, f64="fma", scaled=""),
    Gpu("sm_89", wide="", fp8="fp8", imprecise=0, f64="fma", scaled=""),
    Gpu("sm_90a", wide="wgmma", fp8="f16", imprecise=2**30, f64="dmma", scaled=""),
    Gpu("sm_100a", wide="tcgen05", fp8="f16", imprecise=0, f64="dmma", scaled="tcgen05"),
    Gpu("sm_120a", wide="", fp8="fp8", imprecise=0, f64="fma", scaled="mma.sync"),
]}


class Compiler(NamedTuple):
    """Differences between Triton releases. Measured on an H100 with kernels of both."""

    version: str
    wgmma_min_n: int
    zero_scale: int
    """The bits of bf16 that the e8m0 scale 0 becomes: 0, or 2^-127."""
    adds_scaled: bool
    """True if x + tl.dot_scaled(..) is compiled as one dot that starts from x."""
    hopper_f64: str


COMPILERS = {row.version: row for row in [
    Compiler("3.6", wgmma_min_n=16, zero_scale=0x0000, adds_scaled=False, hopper_f64="m16n8k16"),
    Compiler("3.9", wgmma_min_n=8, zero_scale=0x0040, adds_scaled=True, hopper_f64="m8n8k4"),
]}

TYPES = {"fp16": ("f16", np.dtype(np.float16)), "bf16": ("bf16", np.dtype(ml_dtypes.bfloat16)),
         "fp32": ("tf32", np.dtype(np.float32)), "fp64": ("f64", np.dtype(np.float64)),
         "int8": ("s8", np.dtype(np.int8)), "fp8e4nv": ("e4m3", np.dtype(ml_dtypes.float8_e4m3fn)),
         "fp8e5": ("e5m2", np.dtype(ml_dtypes.float8_e5m2))}
ACCUMULATORS = {"fp16": "f16", "fp32": "f32", "fp64": "f64", "int32": "s32"}
FP8 = ("e4m3", "e5m2")
WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "e4m3": 8, "e5m2": 8}
PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


# ---------------------------------------------------------------------------------------------------------------------
# Which instruction


def instruction_for(gpu: Gpu, compiler: Compiler, a: str, b: str, d: str, shape: tuple[int, ...], warps: int,
                    precision: str = "tf32", imprecise: int = 0) -> str:
    """The mnemonic that Triton's compiler emits for one tl.dot.

    a, b       f16, bf16, tf32 (f32), f64, s8, e4m3 or e5m2; d: f32, f16, f64 or s32
    shape      M, N, K of the block, after the batch axes
    precision  for f32: "tf32" or "ieee"

    Source: getMMAVersionSafe, supportMMA and mmaVersionToInstrShape of Triton; PTX of both releases.
    """
    m, n, k = shape[-3:]
    if a == "f64":
        tile = compiler.hopper_f64 if gpu.target == "sm_90a" else "m8n8k4"
        return f"mma.sync.aligned.{tile}.row.col.f64.f64.f64.f64" if gpu.f64 == "dmma" else "fma.rn.f64"
    if a == "tf32" and precision == "ieee":
        return "fma.rn.f32"
    flat = len(shape) == 3
    if gpu.wide == "tcgen05" and flat and warps in (4, 8) and m % 64 == 0 and n % 8 == 0:
        kind = {"tf32": "tf32", "f16": "f16", "bf16": "f16", "s8": "i8"}.get(a, "f8f6f4")
        return f"tcgen05.mma.cta_group::1.kind::{kind}"
    low_k = k < 256 // WIDTH[a]
    exact_fp8 = a in FP8 and d == "f32" and imprecise < 32
    if gpu.wide == "wgmma" and flat and not low_k and not exact_fp8:
        if warps % 4 == 0 and m % 64 == 0 and n >= compiler.wgmma_min_n:
            return f"wgmma.mma_async.sync.aligned.m64n{_wgmma_n(a, m, n, warps)}k{256 // WIDTH[a]}.{d}.{a}.{b}"
    if a == "s8":
        return "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32"
    if a in FP8 and gpu.fp8 != "fp8":
        a = b = "f16"
    return f"mma.sync.aligned.m16n8k{256 // WIDTH[a]}.row.col.{d}.{a}.{b}.{d}"


def _wgmma_n(a: str, m: int, n: int, warps: int) -> int:
    """N of one wgmma: the largest that divides a warpgroup's columns. It changes no bit."""
    most = max(n // max(warps // max(m // 16, 1), 1), 8)
    legal = [8, 16, 24, 32, *range(48, 225, 16)] if a == "s8" else range(8, 257, 8)
    return max(size for size in legal if n % size == 0 and size <= most)


def k_order(k: int, bits: int, narrow: int) -> np.ndarray | None:
    """The order in which mma.sync takes K if operands of `bits` were widened from `narrow`; None: ascending.

    A thread loads 32 bits of the narrow type at once: kwidth elements of each half of 8 kwidth. An instruction takes
    32 bits of a thread's wide elements, the next instruction the next 32 bits. With e4m3 widened to f16, kwidth is 4,
    and the first instruction of K = 0..31 adds 0, 1, 4, 5, 8, 9, .., 28, 29, the second the others. wgmma and tcgen05
    take K in order. Source: computeOrigBitWidth in AccelerateMatmul.cpp, MMAv2.cpp; the bits of an H100.
    """
    kwidth, taken = 32 // narrow, 32 // bits
    if kwidth <= taken:
        return None
    if k == 4 * kwidth:  # half of a chunk: an instruction takes twice as much of each thread
        return np.arange(k).reshape(4, kwidth // taken, taken).transpose(1, 0, 2).reshape(-1)
    if k % (8 * kwidth):
        raise refuse("K of tl.dot", k, f"a multiple of {4 * kwidth} for operands widened from {narrow} bits",
                     "Triton's order for a shorter K is not known")
    #           chunk           half of it     thread         element of a thread, by instruction
    places = np.arange(k).reshape(-1, 2, 4, kwidth // taken, taken)
    return places.transpose(0, 3, 1, 2, 4).reshape(-1)


# ---------------------------------------------------------------------------------------------------------------------
# f32 on CUDA cores


def _canonical(x: np.ndarray) -> np.ndarray:
    if x.dtype in (np.float32, np.float16) and np.isnan(x).any():
        bits = np.uint32 if x.dtype == np.float32 else np.uint16
        return np.where(np.isnan(x), bits(np.iinfo(bits).max >> 1), x.view(bits)).view(x.dtype)
    return x


def _add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return _canonical(x + y)


def _rna_tf32(x: np.ndarray) -> np.ndarray:
    """cvt.rna.tf32.f32: ties away from zero. Infinity and NaN are unchanged, even 0x7F800001, which an instruction then
    reads as infinity (measured)."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return np.where(np.isfinite(x), (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits).view(np.float32)


def _bf16_parts(x: np.ndarray, count: int) -> list[np.ndarray]:
    """Splits x into part 0 + part 1 + ..., where each part is the remainder rounded to nearest even."""
    parts = []
    with np.errstate(all="ignore"):
        for _ in range(count):
            parts.append(x.astype(ml_dtypes.bfloat16))
            x = x - parts[-1].astype(np.float32)
    return parts


def _without_nan(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), np.float32(0), x)


def _e2m1(packed: np.ndarray, axis: int) -> np.ndarray:
    """Unpacks two e2m1 per byte, the low one first, along `axis`."""
    both = np.stack([packed & 15, packed >> 4], axis=axis % packed.ndim + 1)
    shape = list(packed.shape)
    shape[axis] *= 2
    return both.reshape(shape).astype(np.uint8).view(ml_dtypes.float4_e2m1fn)


# ---------------------------------------------------------------------------------------------------------------------
# The interpreter


class Host(NamedTuple):
    """The parts of an installed Triton that the adapter needs, after checking them."""

    triton: Any
    interpreter: Any
    builder: Any
    semantic: Any


WANTED = {  # of the builder, and replaced there
    "create_dot": "self a b d input_precision max_num_imprecise_acc",
    "create_dot_scaled": "self lhs lhs_scale_handle lhs_format_enum rhs rhs_scale_handle rhs_format_enum fast_math "
                         "lhs_k_pack rhs_k_pack acc_handle",
    **dict.fromkeys(("create_fadd", "create_fsub", "create_fmul", "create_add"), "self lhs rhs"),
    **dict.fromkeys(("create_fp_trunc", "create_si_to_fp", "create_ui_to_fp"), "self src dst_type"),
    "create_splat": "self ret_ty arg",
    "create_atomic_rmw": "self rmwOp ptr val mask sem scope",
}
INTERPRETER = "triton.runtime.interpreter"
NEEDS: Needs = {INTERPRETER: {
    **{f"InterpreterBuilder.{name}": parameters for name, parameters in WANTED.items()},
    **dict.fromkeys(("interpreter_builder.options", "interpreter_semantic", "TensorHandle", "GridExecutor",
                     "_interpreter.fma_fp32", "_interpreter.fma_fp64", "_patch_lang_tensor", "TritonSemantic.dot",
                     "TritonSemantic.dot_scaled", "InterpreterOptions.max_num_imprecise_acc_default",
                     "InterpreterOptions.allowed_dot_input_precisions")),
    **dict.fromkeys(("ReduceOps.apply_impl", "ScanOps.apply_impl"), "self input"),
}}
NOT_ELEMENTWISE = ("dot", "splat", "histogram", "gather", "program", "range", "tensor_descriptor", "store", "atomic",
                   "print", "assert", "assume", "barrier", "inline_asm", "extern", "policy")
"""Parts of the names of the builder's functions that the compiler's search for narrow loads does not pass."""
INEXACT = tuple(f"create_{name}" for name in
                ("cos", "erf", "exp", "exp2", "fdiv", "log", "log2", "rsqrt", "sin", "sqrt"))
"""The compiler uses approximate instructions or functions of a device library for these; the interpreter uses NumPy's."""
# Attributes of handles.
LOADED = "bitmma.loaded_bits"  # of the narrowest load behind a value
JOINED = "bitmma.joined"  # by tl.join, after which the compiler orders K in a way that is not known
ZEROS = "bitmma.zeros"  # made by tl.zeros
PRODUCT = "bitmma.product"  # which the compiler joins with an addition to an fma
FROM_DOT = "bitmma.from_dot"  # f32 arithmetic on a dot's result


def _interprets() -> bool:
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def _host() -> Host:
    """The installed Triton. Raises ImportError if Triton is not installed, not interpreting, or of another version."""
    if not _interprets():
        raise ImportError("bitmma.adapters.triton needs Triton's interpreter: set TRITON_INTERPRET=1 before triton and "
                          "the kernels are imported")
    try:
        import triton
        from triton.runtime import interpreter
    except ImportError as error:
        raise ImportError(f"bitmma.adapters.triton needs Triton: {error}") from error
    wrong = [f"{name}{legal if legal[0] == '(' else ''}, which is {seen}" for name, seen, legal in differences(NEEDS)]
    for name in ("dot", "dot_scaled"):
        function = look_up(INTERPRETER, f"TritonSemantic.{name}")
        if function is not None and "acc" not in inspect.signature(function).parameters:
            wrong.append(f"TritonSemantic.{name} has no acc")
    if wrong:
        raise ImportError(f"bitmma.adapters.triton knows {TRITON}; the Triton found is {triton.__version__} and differs: "
                          + "; ".join(wrong))
    return Host(triton, interpreter, interpreter.interpreter_builder, interpreter.interpreter_semantic)


class Adapter:
    """One installation: its GPU, the instructions of its dots, and the operations without a GPU's bits."""

    def __init__(self, host: Host, gpu: Gpu, compiler: Compiler, warps: int, fp_fusion: bool | None,
                 constant_zeros: bool | None, threads: int, strict: bool):
        self.host, self.gpu, self.compiler, self.threads = host, gpu, compiler, threads
        self.constant_zeros = constant_zeros
        self.default_warps, self.default_fusion = warps, fp_fusion
        self.warps, self.fusion = warps, self._fusion(None)
        self.instructions: collections.Counter[str] = collections.Counter()
        """The number of dots for each instruction of a chain; a tf32x3 counts as three."""
        self.inexact: collections.Counter[str] = collections.Counter()
        """The number of floating-point operations that may have other bits on a GPU:

        "exp2", "fdiv" ...   functions that the compiler approximates
        "mul+add"            one fma in the compiled kernel, which rounds once; not seen if another operation is between
        "reduce", "scan"     of functions other than minimum and maximum: a GPU uses another order
        "atomic add"         a GPU has no defined order
        """
        self.strict = strict
        self._patches = Patches()
        self.unpatch = self._patches.undo
        self._fresh = False  # inside of tl.dot without an accumulator
        self._pending = _pending_class(host.interpreter.TensorHandle)

    def _fusion(self, requested: bool | None) -> bool:
        """enable_fp_fusion of a launch, else of install, else the compiler's default."""
        chosen = self.default_fusion if requested is None else requested
        if chosen is not None:
            return bool(chosen)
        language = getattr(getattr(self.host.triton, "knobs", None), "language", None)
        return bool(getattr(language, "default_fp_fusion", True)) and not getattr(
            language, "force_disable_fp_fusion", False)

    # -- patching

    def patch(self) -> None:
        builder, semantic, executor = self.host.builder, self.host.semantic, self.host.interpreter.GridExecutor
        patch = self._patches.set
        options = dataclasses.replace(builder.options, max_num_imprecise_acc_default=self.gpu.imprecise,
                                      allowed_dot_input_precisions=PRECISIONS)
        patch(builder, "options", options)
        for name in WANTED:
            patch(builder, name, getattr(self, name))
        for owner, name in ((self.host.interpreter.ReduceOps, "reduce"), (self.host.interpreter.ScanOps, "scan")):
            patch(owner, "apply_impl", self._reducing(name, owner.apply_impl))
        for name in dir(builder):
            if name.startswith("create_") and not any(part in name for part in NOT_ELEMENTWISE):
                patch(builder, name, self._following(name, getattr(builder, name)))
        patch(self.host.interpreter, "_patch_lang_tensor", self._patching(self.host.interpreter._patch_lang_tensor))
        patch(semantic, "dot", self._noting_acc(semantic.dot))
        patch(semantic, "dot_scaled", self._noting_acc(semantic.dot_scaled))
        patch(executor, "__call__", self._launching(executor.__call__))

    def _noting_acc(self, function: Callable) -> Callable:
        """tl.dot without an accumulator creates zeros itself; only then may an addition become the accumulator."""
        signature = inspect.signature(function)

        def noting(*arguments: Any, **named: Any) -> Any:
            acc = signature.bind(*arguments, **named).arguments.get("acc")
            self._fresh = acc is None or (hasattr(acc, "value") and acc.value is None)
            try:
                return function(*arguments, **named)
            finally:
                self._fresh = False

        return noting

    def _note(self, operation: str) -> None:
        self.inexact[operation] += 1
        if self.strict:
            raise refuse("operation", operation, "one with a GPU's bits, because of strict=True",
                         "use bitmma.kernel to run the compiled PTX of a whole kernel")

    def _reducing(self, name: str, apply: Callable) -> Callable:

        @functools.wraps(apply)  # with its signature, which a second installation checks
        def reducing(operation: Any, values: Any) -> Any:
            combine = getattr(operation.combine_fn, "fn", operation.combine_fn).__name__
            if values[0].dtype.scalar.is_floating() and not any(word in combine for word in ("min", "max")):
                self._note(name)
            return apply(operation, values)

        return reducing

    def _launching(self, call: Callable) -> Callable:
        """The interpreter drops launch options; two of them affect bits."""

        def launching(executor: Any, *arguments: Any, **named: Any) -> Any:
            if (named.get("num_ctas") or 1) != 1:
                raise refuse("num_ctas", named["num_ctas"], "1", "the layout of blocks that several CTAs share is not known")
            _require_warps(named.get("num_warps") or self.default_warps)
            self.warps = named.get("num_warps") or self.default_warps
            self.fusion = self._fusion(named.get("enable_fp_fusion"))
            try:
                return call(executor, *arguments, **named)
            finally:
                self.warps, self.fusion = self.default_warps, self._fusion(None)

        return launching

    # -- the builder's functions

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: int) -> Any:
        x, y = self._operand(a), self._operand(b)
        precision = getattr(input_precision, "name", str(input_precision)).lower()
        kind = self._accumulator(d)
        imprecise, narrow = int(max_num_imprecise_acc or 0), min(self._narrow(a), self._narrow(b))
        compute = lambda c: self.dot(x, y, c, kind, precision, imprecise, narrow)
        return self._result(d, compute, imprecise == 0 or kind == "s32")

    def create_dot_scaled(self, lhs: Any, lhs_scale_handle: Any, lhs_format_enum: Any, rhs: Any, rhs_scale_handle: Any,
                          rhs_format_enum: Any, fast_math: bool, lhs_k_pack: bool, rhs_k_pack: bool,
                          acc_handle: Any) -> Any:
        formats = lhs_format_enum.name, rhs_format_enum.name
        x = self._scaled_operand(lhs, formats[0], -1 if lhs_k_pack else -2)
        y = self._scaled_operand(rhs, formats[1], -2 if rhs_k_pack else -1)
        scales = [None if one is None else self._scales(one) for one in (lhs_scale_handle, rhs_scale_handle)]
        compute = lambda c: self.dot_scaled(x, scales[0], y, scales[1], c, bool(fast_math), lhs_k_pack and rhs_k_pack)
        return self._result(acc_handle, compute, self.compiler.adds_scaled)

    def create_fadd(self, lhs: Any, rhs: Any) -> Any:
        return self._one_dot(lhs, rhs) or self._sum("create_fadd", lhs, rhs, 1)

    def create_add(self, lhs: Any, rhs: Any) -> Any:
        return self._one_dot(lhs, rhs) or self._plain("create_add", lhs, rhs)

    def create_splat(self, ret_ty: Any, arg: Any) -> Any:
        found = self._plain("create_splat", ret_ty, arg)
        if not np.asarray(arg.data).tobytes().strip(b"\0"):
            found.attr[ZEROS] = True
        return found

    def _one_dot(self, lhs: Any, rhs: Any) -> Any:
        """The sum if it is a dot that starts from the other value, else None."""
        for dot, other in [(rhs, lhs), (lhs, rhs)]:  # CombineDotAddPattern looks at the right one first
            if isinstance(dot, self._pending) and dot.may_fuse():
                if dot.from_zeros and self.constant_zeros is None and lhs.dtype.scalar.is_floating():
                    raise refuse("a sum with tl.dot(a, b, zeros)", "in doubt",
                                 "install(constant_zeros=..), or tl.dot(a, b)",
                                 "in a loop over K the compiler keeps the addition; elsewhere it starts the dot from the sum")
                if not dot.from_zeros or self.constant_zeros:
                    return self._from_dot(self._done(dot.fuse(self._value(other)), dot.dtype))
        return None

    def create_fsub(self, lhs: Any, rhs: Any) -> Any:
        return self._sum("create_fsub", lhs, rhs, -1)

    def create_fmul(self, lhs: Any, rhs: Any) -> Any:
        if lhs.dtype.scalar.name != "fp32":
            other = self._plain("create_fmul", lhs, rhs)
            other.attr[PRODUCT] = self.fusion
            return other
        x, y, followed = self._value(lhs), self._value(rhs), self._is_from_dot(lhs, rhs)

        def product(_: Any) -> np.ndarray:
            with np.errstate(all="ignore"):
                return _canonical(x * y) if followed else x * y

        pending = self._pending(lhs.dtype.scalar, product)
        pending.factors = (x, y) if self.fusion else None
        pending.attr[PRODUCT] = self.fusion
        return self._from_dot(pending) if followed else pending

    def _sum(self, name: str, lhs: Any, rhs: Any, sign: int) -> Any:
        """lhs + sign rhs. If a product of a dot's result is added in f32, both are one fma."""
        if not self._is_from_dot(lhs, rhs):
            if lhs.attr.get(PRODUCT) or rhs.attr.get(PRODUCT):
                self._note("mul+add")
            return self._plain(name, lhs, rhs)
        products = [one for one in (lhs, rhs) if getattr(one, "factors", None) is not None]
        if len(products) == 2:
            raise refuse("a sum", "of two products, one of them of a dot's result", "one product and another value",
                         "it is not known which of them the compiler fuses: use tl.fma, or enable_fp_fusion=False")
        if products:
            (x, y), first = products[0].factors, products[0] is lhs
            z = self._value(rhs if first else lhs)
            if sign < 0:
                x, z = (x, -z) if first else (-x, z)
            return self._from_dot(self._done(self._fma(x, y, z), lhs.dtype.scalar))
        found = self._plain(name, lhs, rhs)
        return self._from_dot(self._done(_canonical(found.data), lhs.dtype.scalar))

    def create_atomic_rmw(self, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        if "FADD" in str(rmwOp):
            self._note("atomic add")
        return self._plain("create_atomic_rmw", rmwOp, ptr, val, mask, sem, scope)

    def _plain(self, name: str, *arguments: Any) -> Any:
        """The interpreter's own function."""
        with np.errstate(all="ignore"):
            return getattr(type(self.host.builder), name)(self.host.builder, *arguments)

    def _is_from_dot(self, *handles: Any) -> bool:
        return any(FROM_DOT in handle.attr for handle in handles)

    def _from_dot(self, handle: Any) -> Any:
        handle.attr[FROM_DOT] = True
        return handle

    def create_fp_trunc(self, src: Any, dst_type: Any) -> Any:
        to_bf16 = dst_type.scalar.name == "bf16" and src.dtype.scalar.name == "fp32"
        return self._to_bf16(src, dst_type) if to_bf16 else self._plain("create_fp_trunc", src, dst_type)

    def create_si_to_fp(self, src: Any, dst_type: Any) -> Any:
        to_bf16 = dst_type.scalar.name == "bf16"
        return self._to_bf16(src, dst_type) if to_bf16 else self._plain("create_si_to_fp", src, dst_type)

    create_ui_to_fp = create_si_to_fp

    def _to_bf16(self, src: Any, dst_type: Any) -> Any:
        """The interpreter stores bf16 as uint16, truncates f32, and treats integers as bits."""
        with np.errstate(all="ignore"):
            return self._done(_as_bf16(self._value(src).astype(np.float32)).view(np.uint16), dst_type.scalar)

    def _following(self, name: str, function: Callable) -> Callable:
        """Wraps the builder's function: its result records the narrowest load from which it derives
        (computeOrigBitWidth)."""
        loads, is_inexact = "load" in name, name in INEXACT

        def following(*arguments: Any, **named: Any) -> Any:
            if is_inexact:
                self._note(name.removeprefix("create_"))
            result = function(*arguments, **named)
            behind = [one.attr for one in arguments if hasattr(one, "attr")]
            for handle in result if isinstance(result, tuple) else (result,):
                if not hasattr(handle, "attr"):
                    continue
                bits = [attr[LOADED] for attr in behind if LOADED in attr]
                if loads and np.ndim(handle.data) > 0:
                    bits.append(max(handle.dtype.scalar.primitive_bitwidth, 8))
                if bits:
                    handle.attr[LOADED] = min(bits)
                if name == "create_join" or any(JOINED in attr for attr in behind):
                    handle.attr[JOINED] = True
            return result

        return following

    def _patching(self, patch_lang_tensor: Callable) -> Callable:
        """The interpreter's tensor.T makes a handle without the attributes; this one keeps them."""

        def patching(tensor: Any, scope: Any) -> None:
            patch_lang_tensor(tensor, scope)
            plain = tensor.T

            def transposed(value: Any) -> Any:
                found = plain.__get__(value)
                found.handle.attr.update(value.handle.attr)
                return found

            scope.set_attr(tensor, "T", property(transposed))

        return patching

    def _narrow(self, handle: Any) -> int:
        """Bits of the narrowest load from which an operand derives, or its own."""
        if JOINED in handle.attr:
            return 0
        return min(handle.attr.get(LOADED, 64), handle.dtype.scalar.primitive_bitwidth)

    def _fma(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        fma = self.host.interpreter._interpreter.fma_fp64 if z.dtype == np.float64 else \
            self.host.interpreter._interpreter.fma_fp32
        x, y, z = (np.ascontiguousarray(one, z.dtype) for one in np.broadcast_arrays(x, y, z))
        return _canonical(np.asarray(fma(x, y, z)))

    # -- handles

    def _value(self, handle: Any) -> np.ndarray:
        return np.asarray(handle.data)

    def _done(self, value: np.ndarray, dtype: Any) -> Any:
        return self.host.interpreter.TensorHandle(value, dtype)

    def _result(self, acc: Any, compute: Callable, fuses: bool) -> Any:
        """A dot's result; if it may become part of an addition, it is computed on first use."""
        c = self._value(acc)
        if not fuses or not (self._fresh or ZEROS in acc.attr):
            return self._from_dot(self._done(compute(c), acc.dtype.scalar))
        pending = self._pending(acc.dtype.scalar, lambda other: compute(c if other is None else other))
        pending.fuses, pending.from_zeros = True, not self._fresh
        return self._from_dot(pending)

    def _operand(self, handle: Any) -> tuple[str, np.ndarray]:
        name = handle.get_element_ty().name
        if name not in TYPES:
            raise refuse("type of a tl.dot operand", name, ", ".join(TYPES), "NVIDIA GPUs have no other types")
        kind, dtype = TYPES[name]
        if kind == "e4m3" and self.gpu.fp8 == "e5m2":
            raise refuse("type of a tl.dot operand", name, f"fp8e5 on {self.gpu.target}",
                         "Triton does not compile e4m3 for that GPU")
        return kind, np.ascontiguousarray(handle.data).view(dtype)

    def _accumulator(self, handle: Any) -> str:
        name = handle.get_element_ty().name
        if name not in ACCUMULATORS:
            raise refuse("type of tl.dot's result", name, ", ".join(ACCUMULATORS))
        return ACCUMULATORS[name]

    def _scaled_operand(self, handle: Any, format: str, packed_axis: int) -> tuple[str, np.ndarray]:
        if format == "E2M1":
            return "e2m1", _e2m1(np.asarray(handle.data).view(np.uint8), packed_axis)
        return self._operand(handle)

    def _scales(self, handle: Any) -> np.ndarray:
        """[rows, K / size] as e8m0, or e4m3 (nvfp4's)."""
        name = handle.get_element_ty().name
        if name not in ("uint8", "int8", "fp8e4nv"):
            raise refuse("type of tl.dot_scaled's scales", name, "uint8 (e8m0) or fp8e4nv")
        dtype = ml_dtypes.float8_e4m3fn if name == "fp8e4nv" else ml_dtypes.float8_e8m0fnu
        return np.ascontiguousarray(handle.data).view(np.uint8).view(dtype)

    # -- arithmetic

    def dot(self, a: tuple[str, np.ndarray], b: tuple[str, np.ndarray], c: np.ndarray, d: str, precision: str,
            imprecise: int, narrow: int = 32, swapped: bool = False) -> np.ndarray:
        """One tl.dot. a [.., M, K] and b [.., K, N] with their formats, c [.., M, N] of the type `d`.

        narrow   bits of the type that the operands were widened from; swapped: the compiler multiplies transposed
        """
        (a_kind, x), (b_kind, y) = a, b
        if a_kind == "tf32" and precision == "tf32x3":
            return self._tf32x3(x, y, c, imprecise)
        if a_kind == "tf32" and precision.startswith("bf16"):
            return self._bf16xn(x, y, c, 2 if precision == "bf16x3" else 3)
        m, n, k = x.shape[-2], y.shape[-1], x.shape[-1]
        shape = (*x.shape[:-2], n, m, k) if swapped else (*x.shape[:-2], m, n, k)
        mnemonic = instruction_for(self.gpu, self.compiler, a_kind, b_kind, d, shape, self.warps, precision, imprecise)
        self.instructions[mnemonic] += 1
        if mnemonic.startswith("fma"):
            return self._fma_chain(x, y, c)
        if mnemonic.startswith("mma") and a_kind not in ("s8", "f64"):
            if a_kind in FP8 and f".{a_kind}." not in mnemonic:
                x, y, narrow = x.astype(np.float16), y.astype(np.float16), 8
            if narrow == 0:
                raise refuse("an operand of tl.dot", "made by tl.join", "loads and elementwise operations",
                             "the order in which mma.sync then adds K is not known")
            order = k_order(k, 8 * x.dtype.itemsize, narrow)
            if order is not None:
                x, y = x[..., order], y[..., order, :]
        c = np.ascontiguousarray(c)
        if d in ("s32", "f64"):
            return self._steps(mnemonic, x, y, c)
        plan: dict[str, Any] = {"instruction": mnemonic, "target": self.gpu.target, "output": {"type": d}}
        if mnemonic.startswith("tcgen05"):  # whose mnemonic does not say the types
            plan["types"] = {"a": a_kind, "b": b_kind, "d": d}
        if mnemonic.startswith("wgmma") and a_kind in FP8 and d == "f32" and imprecise <= k:
            # WGMMA.cpp: partial sums of `imprecise`, rounded up to instructions, each added in f32.
            every = -(-imprecise // 32) * 32
            for first in range(0, k, every):
                part = slice(first, first + every)
                c = _add(c, bitmma.gemm(x[..., part], y[..., part, :], plan, threads=self.threads))
            return c
        return bitmma.gemm(x, y, {**plan, "start": "c"}, c=c, threads=self.threads)

    def _fma_chain(self, x: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
        """CUDA cores: one chain of fma over ascending K, starting from c."""
        for k in range(x.shape[-1]):
            c = self._fma(x[..., :, k, None], y[..., k, None, :], c)
        return c

    def _steps(self, mnemonic: str, x: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
        """One instruction at a time: s8 with .satfinite clamps after each, and plans cannot start s32 or f64 from C."""
        one = bitmma.instruction(mnemonic.replace("tcgen05.mma.cta_group::1.kind::i8",
                                                  "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"))
        rows, cols, step = one.m, one.n, one.k
        m, n, k = x.shape[-2], y.shape[-1], x.shape[-1]
        up = lambda extent, size: -(-extent // size) * size
        pad = lambda array, *extents: np.pad(array, [(0, 0)] * (array.ndim - 2) + [
            (0, extent - had) for extent, had in zip(extents, array.shape[-2:])])
        x, y, c = pad(x, up(m, rows), up(k, step)), pad(y, up(k, step), up(n, cols)), pad(c, up(m, rows), up(n, cols))
        tiles = lambda array, high, wide: np.ascontiguousarray(np.moveaxis(array.reshape(
            *array.shape[:-2], array.shape[-2] // high, high, array.shape[-1] // wide, wide), -3, -2))
        xs, ys, cs = tiles(x, rows, step), tiles(y, step, cols), tiles(c, rows, cols)
        target = self.gpu.target
        for at in range(xs.shape[-3]):
            a_tiles = np.broadcast_to(xs[..., :, None, at, :, :], (*cs.shape[:-2], rows, step))
            b_tiles = np.broadcast_to(ys[..., at, :, :, :][..., None, :, :, :], (*cs.shape[:-2], step, cols))
            cs = np.asarray(bitmma.mma(one, np.ascontiguousarray(a_tiles), np.ascontiguousarray(b_tiles), cs,
                                       target=target, threads=self.threads))
        return np.ascontiguousarray(np.moveaxis(cs, -2, -3).reshape(c.shape)[..., :m, :n])

    def _tf32x3(self, x: np.ndarray, y: np.ndarray, c: np.ndarray, imprecise: int) -> np.ndarray:
        """F32DotTC.cpp: small parts first, with their NaN dropped; C is added at the end."""
        with np.errstate(all="ignore"):
            big_x, big_y = _rna_tf32(x), _rna_tf32(y)
            small_x, small_y = _canonical(x - big_x), _canonical(y - big_y)
        one = lambda p, q, start: self.dot(("tf32", p), ("tf32", q), start, "f32", "tf32", imprecise)
        total = one(big_x, small_y, one(small_x, big_y, np.zeros_like(c)))
        return _add(one(big_x, big_y, _without_nan(total)), c)

    def _bf16xn(self, x: np.ndarray, y: np.ndarray, c: np.ndarray, count: int) -> np.ndarray:
        """F32DotTC.cpp: products of bf16 parts, the smallest first; C is added at the end."""
        xs, ys = _bf16_parts(x, count), _bf16_parts(y, count)
        high, mid, low = 0, 1, 2
        order = [(mid, high), (high, mid)] if count == 2 else \
            [(mid, mid), (low, high), (high, low), (mid, high), (high, mid)]
        one = lambda i, j, start: self.dot(("bf16", xs[i]), ("bf16", ys[j]), start, "f32", "ieee", 0)
        total = np.zeros_like(c)
        for i, j in order:
            total = one(i, j, total)
        return _add(one(high, high, _without_nan(total)), c)

    def dot_scaled(self, a: tuple[str, np.ndarray], sa: np.ndarray | None, b: tuple[str, np.ndarray],
                   sb: np.ndarray | None, c: np.ndarray, fast_math: bool, k_packed: bool) -> np.ndarray:
        """One tl.dot_scaled. sa [.., M, K / size] and sb [.., N, K / size], size 32, or 16 of e4m3 scales."""
        m, n = a[1].shape[-2], b[1].shape[-1]
        mnemonic = self._scaled_instruction(a, sa, b, sb, m, n, k_packed)
        if mnemonic:
            self.instructions[mnemonic] += 1
            plan: dict[str, Any] = {"instruction": mnemonic, "target": self.gpu.target, "start": "c"}
            if mnemonic.startswith("tcgen05"):
                scale = "ue4m3" if sa.dtype == ml_dtypes.float8_e4m3fn else "ue8m0"
                plan["types"] = {"a": a[0], "b": b[0], "scale": scale}
            return bitmma.gemm(a[1], b[1], plan, c=np.ascontiguousarray(c), sfa=sa, sfb=np.swapaxes(sb, -1, -2),
                               threads=self.threads)
        # DecomposeScaledBlocked.cpp: operands of 16 bits, scaled and rounded there, then a dot of them.
        kind, dtype = ("f16", np.dtype(np.float16)) if "f16" in (a[0], b[0]) else ("bf16", np.dtype(ml_dtypes.bfloat16))
        x = self._scaled_values(a[1], sa, dtype, fast_math)
        y = np.swapaxes(self._scaled_values(np.swapaxes(b[1], -1, -2), sb, dtype, fast_math), -1, -2)
        swapped = sa is None and sb is not None  # transposed, so that the scaled operand is on the left
        narrow = min(4 if one == "e2m1" else 8 if one in FP8 else 16 for one in (a[0], b[0]))
        return self.dot((kind, x), (kind, np.ascontiguousarray(y)), c, "f32", "ieee", 0, narrow, swapped)

    def _scaled_instruction(self, a: tuple[str, np.ndarray], sa: np.ndarray | None, b: tuple[str, np.ndarray],
                            sb: np.ndarray | None, m: int, n: int, k_packed: bool) -> str:
        """The block-scaled instruction; empty if Triton scales the operands instead."""
        kinds = {a[0], b[0]}
        if not self.gpu.scaled or sa is None or sb is None or not kinds <= {*FP8, "e2m1"} or a[1].ndim != 2:
            return ""
        if self.gpu.scaled == "tcgen05" and (m % 128 or n % 16 or self.warps not in (4, 8)):
            return ""
        if self.gpu.scaled == "mma.sync" and "e2m1" in kinds and kinds != {"e2m1"}:
            return ""
        fine = sa.dtype == ml_dtypes.float8_e4m3fn
        if not k_packed or fine and kinds != {"e2m1"}:
            raise refuse("tl.dot_scaled", "packed along M or N" if not k_packed else "e4m3 scales of fp8",
                         f"packed along K, with e8m0 scales, on {self.gpu.target}",
                         "it is not known how Triton compiles it")
        if self.gpu.scaled == "mma.sync":
            if kinds == {"e2m1"}:
                return "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::" + \
                    ("4X.f32.e2m1.e2m1.f32.ue4m3" if fine else "2X.f32.e2m1.e2m1.f32.ue8m0")
            return "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X." + \
                f"f32.{a[0]}.{b[0]}.f32.ue8m0"
        if kinds == {"e2m1"}:
            kind = "mxf4nvf4.block_scale.block16" if fine else "mxf4.block_scale.block32"
            return f"tcgen05.mma.cta_group::1.kind::{kind}"
        return "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32"

    def _scaled_values(self, values: np.ndarray, scales: np.ndarray | None, dtype: np.dtype,
                       fast_math: bool) -> np.ndarray:
        """values [.., rows, K] times scales [.., rows, K / size], rounded to `dtype`."""
        with np.errstate(all="ignore"):
            wide = values.astype(np.float32).astype(dtype)
            if values.dtype == ml_dtypes.float8_e5m2 and dtype == ml_dtypes.bfloat16:
                # Fp8E5M2_to_Bf16 moves the exponent by a multiplication, which has no infinity: 0x7C becomes 65536.
                bits = values.view(np.uint8)
                beyond = (1 + (bits & 3) / 4.0) * np.where(bits >> 7, -65536.0, 65536.0)
                wide = np.where((bits & 0x7C) == 0x7C, beyond.astype(np.float32).astype(dtype), wide)
            if scales is None:
                return wide
            size = values.shape[-1] // scales.shape[-1]
            factor = np.repeat(self._scale_values(scales, dtype, fast_math), size, axis=-1)
            return (wide.astype(np.float32) * factor.astype(np.float32)).astype(dtype)

    def _scale_values(self, scales: np.ndarray, dtype: np.dtype, fast_math: bool) -> np.ndarray:
        """Scales in bf16 or f16. e8m0's NaN, 255, is infinity with fast_math."""
        if scales.dtype == ml_dtypes.float8_e4m3fn:
            return scales.astype(np.float32).astype(dtype)
        code = scales.view(np.uint8)
        bits = code.astype(np.uint32) << 23
        if dtype == ml_dtypes.bfloat16 and self.compiler.zero_scale:
            bits = np.maximum(bits, np.uint32(self.compiler.zero_scale << 16))
        factor = bits.view(np.float32)
        if not fast_math:
            factor = np.where(code == 0xFF, np.float32(np.nan), factor)
        return factor.astype(dtype)


def _as_bf16(x: np.ndarray) -> np.ndarray:
    """cvt.rn.bf16.f32: to nearest even, subnormals kept, NaN is 0x7FFF."""
    rounded = x.astype(ml_dtypes.bfloat16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), rounded.view(np.uint16)).view(ml_dtypes.bfloat16)


def _pending_class(handle_class: type) -> type:
    class Pending(handle_class):
        """A value that is computed on first use. A dot may become part of an addition before that."""

        def __init__(self, dtype: Any, compute: Callable):
            self.dtype, self.attr, self.compute = dtype, {}, compute
            self.value: np.ndarray | None = None
            self.fuses, self.fused, self.from_zeros = False, False, False
            self.factors: tuple[np.ndarray, np.ndarray] | None = None

        @property
        def data(self) -> np.ndarray:
            if self.fused:
                raise refuse("a result of tl.dot", "added to something, then used again", "used once, or not added",
                             "the compiler keeps that addition separate from the dot, but the interpreter, which "
                             "runs line by line, merged them: read the result before the addition, as in x = "
                             "product * 1.0")
            if self.value is None:
                self.value = self.compute(None)
            return self.value

        def may_fuse(self) -> bool:
            return self.fuses and not self.fused and self.value is None

        def fuse(self, acc: np.ndarray) -> np.ndarray:
            value = self.compute(acc)
            self.fused = True
            return value

    return Pending


# ---------------------------------------------------------------------------------------------------------------------
# Installing

_installed: list[Adapter] = []


def _require_warps(warps: int) -> None:
    if warps < 1 or warps & (warps - 1):
        raise refuse("num_warps", warps, "a power of 2")


def install(target: str = "sm_90a", *, num_warps: int = 4, fp_fusion: bool | None = None, compiler: str | None = None,
            constant_zeros: bool | None = None, threads: int = 1, strict: bool = False) -> Adapter:
    """Gives the interpreter's dots the bits of `target` until uninstall(); a second call replaces the first.

    target     sm_80, sm_86, sm_89, sm_90a, sm_100a or sm_120a; only sm_90a was compared with hardware
    num_warps  for launches that do not give it; the choice of instructions depends on it
    fp_fusion  enable_fp_fusion for launches that do not give it; None: Triton's default
    compiler   the Triton release whose kernels these are: "3.6" or "3.9"; None: the installed one
    constant_zeros  whether the zeros in `tl.dot(a, b, zeros) + x` are a constant for the compiler (True) or change in
               a loop (False); None: such a sum is an error
    threads    of the simulator; changes no bit
    strict     operations that Adapter.inexact counts are errors

    Returns the Adapter; `instructions` counts the instructions of all dots, `inexact` the operations without a GPU's
    bits. Raises ImportError if Triton is missing, is not interpreting or has other private functions, and bitmma.Error
    for unsupported arguments.
    """
    host = _host()
    target = target_of(target)
    if target not in GPUS:
        raise refuse("target", target, ", ".join(GPUS))
    found = compiler or ".".join(host.triton.__version__.split(".")[:2])
    if found not in COMPILERS:
        raise refuse("compiler", found, ", ".join(COMPILERS), "the releases whose kernels were compared with a GPU's")
    _require_warps(num_warps)
    uninstall()
    adapter = Adapter(host, GPUS[target], COMPILERS[found], num_warps, fp_fusion, constant_zeros, threads, strict)
    adapter.patch()
    _installed.append(adapter)
    return adapter


def uninstall() -> None:
    """Restores the interpreter's own arithmetic. Does nothing if the adapter is not installed."""
    while _installed:
        _installed.pop().unpatch()


@contextlib.contextmanager
def use(target: str = "sm_90a", **options: Any) -> Iterator[Any]:
    """For a block: without TRITON_INTERPRET=1, kernels are compiled for `target` and their PTX runs here, with all bits of
    the GPU; with it, calls install(target, **options), and restores the earlier installation after the block.

    Options for compiled kernels:
    threads    of the host; 0: all cores. No bit depends on it
    checks     check for reads of unwritten shared memory, and for races
    strict     raise an error if it is uncertain whether ptxas joins a product and a sum

    Yields the Compiled (its `launches`, `unsure`, `ptx`), or the Adapter of the interpreter.
    """
    if not _interprets():
        used, restore = _triton_driver.install(target, **options)
        try:
            yield used
        finally:
            restore()
        return
    before = list(_installed)
    adapter = install(target, **options)
    try:
        yield adapter
    finally:
        uninstall()
        for one in before:
            one.patch()
            _installed.append(one)
