# SPDX-License-Identifier: MIT
"""PyTorch on CPU tensors with the bits of an H100 or H200, eager mode.

    import bitmma.torch
    with bitmma.torch.gpu("H100") as used:
        y = model(x)                       # CPU tensors
    print(used)                            # the operators, how often, and their evidence

Every operator of PyTorch inside the block is computed by the rule that `bitmma.replay` has for it. Operators without a
rule raise Error, or run as CPU code and are counted if `strict=False`. docs/torch.md lists the operators.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import _replay_rules as rules
from ._arguments import flag_of, public, text
from ._arrays import to_numpy
from ._captured import CannotSay, Differs, Tensor, Value, dtypes
from ._errors import Error, printable, refuse, shown, threads_of
from ._matmul import chosen_product
from ._replay_arguments import bound
from ._torch_overrides import of_cpu, on_meta, overrides, replaced, unknown
from ._training_rules import evidence_of, rule_of

__all__ = ["Gpu", "Used", "gpu"]

aten = torch.ops.aten
_wrapper_file = os.path.join(os.path.dirname(torch.__file__), "_dynamo", "eval_frame.py")


def __dir__() -> list[str]:
    return sorted(__all__)


class Used:
    """What was computed inside a block."""

    def __init__(self, target: str):
        self.target = target
        self.exact: Counter[str] = Counter()
        """Calls of each operator that have the GPU's bits."""
        self.inexact: Counter[str] = Counter()
        """Calls that ran as CPU code (`strict=False`)."""
        self.unsure: Counter[str] = Counter()
        """Of the exact ones: products in the order of the nearest recorded shape (`nearest=True`)."""
        self.evidence: dict[str, Counter[str]] = {}
        """Of each operator: what its bits were compared with, and how many calls."""
        self.reasons: dict[str, Counter[str]] = {}
        """Of each inexact operator: why it was not computed."""

    def __str__(self) -> str:
        rows = [("operator", "calls", "bits")]
        for name, levels in sorted(self.evidence.items()):
            rows += [(name, str(count), level) for level, count in levels.items()]
        for name, reasons in sorted(self.reasons.items()):
            rows += [(name, str(count), f"of the CPU: {reason}") for reason, count in reasons.items()]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        lines = [f"{name:{widths[0]}}  {calls:>{widths[1]}}  {bits}" for name, calls, bits in rows]
        total = f"{sum(self.exact.values())} calls with the bits of an {self.target}"
        if self.inexact:
            total += f", {sum(self.inexact.values())} as the CPU computes them"
        if self.unsure:
            total += f", {sum(self.unsure.values())} of the former by the kernel of another shape"
        return printable("\n".join([*lines, total]))

    def __repr__(self) -> str:
        return f"<bitmma.torch.Used: {str(self).rpartition(chr(10))[2]}>"


class _Refused(Exception):
    """Why an operator is not computed, and what the caller can do."""

    def __init__(self, why: str, fix: str = ""):
        super().__init__(why)
        self.fix = fix


# ---------------------------------------------------------------------------------------------------------------------
# Which operators

# Operators that move elements, compare or select them, or fill memory: PyTorch on the CPU gives the GPU's bits.
_moved = {f"aten.{name}" for name in """
    cat.default stack.default embedding.default index.Tensor index_select.default gather.default clone.default
    where.self masked_fill.Scalar masked_fill.Tensor tril.default triu.default fill.Scalar fill.Tensor zero.default
    zeros.default zeros_like.default new_zeros.default ones.default ones_like.default new_ones.default full.default
    full_like.default new_full.default scalar_tensor.default empty.memory_format empty_like.default new_empty.default
    empty_strided.default new_empty_strided.default lift_fresh.default _local_scalar_dense.default item.default
    equal.default is_same_size.default isnan.default isinf.default isfinite.default roll.default flip.default
    repeat.default neg.default abs.default logical_not.default logical_and.default logical_or.default
    logical_xor.default any.default any.dim all.default all.dim constant_pad_nd.default nonzero.default
    repeat_interleave.self_int masked_select.default resize.default set.source_Tensor unfold.default
    slice_backward.default select_backward.default _reshape_copy.default slice_scatter.default
    select_scatter.default sgn.default sign.default floor.default ceil.default trunc.default round.default
    expand_copy.default view_copy.default t_copy.default permute_copy.default
""".split()}  # fmt: skip
_moved |= {f"aten.{name}.{form}" for name in "eq ne lt le gt ge".split() for form in ("Tensor", "Scalar")}

# What a GPU runs instead of what the CPU runs, or random numbers; with the reason.
_known_gaps = {
    "aten._native_multi_head_attention.default": (
        "the fast path of nn.MultiheadAttention has kernels of its own on a GPU",
        "torch.backends.mha.set_fastpath_enabled(False), here and on the GPU",
    ),
    "aten._transformer_encoder_layer_fwd.default": (
        "the fast path of nn.TransformerEncoderLayer has kernels of its own on a GPU",
        "torch.backends.mha.set_fastpath_enabled(False), here and on the GPU",
    ),
    "aten.convolution.default": ("no rule is known for cuDNN's convolutions", ""),
    "aten._scaled_dot_product_flash_attention_backward.default": ("the gradient of q is added by atomics", ""),
    "aten._scaled_dot_product_efficient_attention_backward.default": ("the gradient of q is added by atomics", ""),
    "aten._scaled_dot_product_cudnn_attention_backward.default": ("no rule is known for cuDNN's gradients", ""),
}

# Reductions of which no rule knows another layout than the contiguous one.
_contiguous = ("aten.mean.", "aten.sum.")

_products = ("aten.mm.", "aten.addmm.", "aten._scaled_mm.", "aten._int_mm.", "aten.bmm.", "aten.baddbmm.")


def _row_name(func: Any) -> str:
    """The name under which `_replay_rules` has an operator: those that write into a tensor have the rule of those that
    return one."""
    namespace, stem, overload = str(func).split(".")
    if overload == "out" or overload.endswith("_out"):
        overload = overload.removesuffix("out").removesuffix("_")
        overload = overload or ("Tensor" if hasattr(getattr(aten, stem), "Tensor") else "default")
    name = f"{namespace}.{stem}.{overload}"
    if rule_of(name) is None and stem.endswith("_") and not stem.endswith("__"):
        return f"{namespace}.{stem[:-1]}.{overload}"
    return name


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_described(item) for item in value)}]"
    return shown(value)


def _is_exact_type(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex


# ---------------------------------------------------------------------------------------------------------------------
# Tensors of torch as values of the rules, and back


def _value(tensor: torch.Tensor) -> Value:
    return Value(to_numpy(tensor.detach(), "a tensor"))


def _tensor(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of its own memory; `dtype` is that of the array."""
    array = np.array(array, order="C", copy=True)
    if array.dtype.isbuiltin != 1:  # bfloat16 and float8
        raw = array.view(np.int16 if array.dtype.itemsize == 2 else np.uint8)
        return torch.from_numpy(raw).view(dtype)
    return torch.from_numpy(array)


def _argument(value: Any) -> Any:
    """An argument as a rule takes it."""
    if isinstance(value, torch.Tensor):
        return _value(value)
    if isinstance(value, (list, tuple)):
        return [_argument(item) for item in value]
    return value


_of_memory = ("dtype", "device", "layout", "pin_memory", "non_blocking", "memory_format", "out")


def _about(output: Any) -> Tensor | None:
    """Type and shape of a result; None for what is no tensor, or of a type that NumPy and ml_dtypes lack."""
    if not isinstance(output, torch.Tensor):
        return None
    dtype = dtypes.get(str(output.dtype).removeprefix("torch."))
    return None if dtype is None else Tensor(np.dtype(dtype), tuple(output.shape))


def _laid_out(array: np.ndarray, output: Any) -> torch.Tensor:
    """A tensor with the strides of `output`."""
    made = _tensor(array, output.dtype if isinstance(output, torch.Tensor) else torch.float32)
    if not isinstance(output, torch.Tensor) or output.shape != made.shape or output.device.type != "meta":
        return made
    if output.stride() == made.stride():
        return made
    strided = torch.empty_strided(output.shape, output.stride(), dtype=made.dtype)
    return strided.copy_(made)


def _require_dense(operand: np.ndarray, may_have_gaps: bool) -> None:
    """Raises CannotSay for a matrix with gaps between its rows or columns.

    On an H200, gaps of A changed the choice in 0 of 54 calls whose rows begin at multiples of 16 bytes, and in 4 of 6
    others.
    """
    size = operand.dtype.itemsize
    (rows, columns), (row, column) = operand.shape, operand.strides
    if column == size or columns == 1:
        is_good = row == columns * size or rows == 1 or (may_have_gaps and row % 16 == 0 and row > columns * size)
    else:
        is_good = row == size and column == rows * size
    if not is_good:
        raise CannotSay("the library's choice was not recorded for matrices with gaps between their rows")


def _has_exact_sums(tensor: torch.Tensor) -> bool:
    """Whether all elements are one number whose multiples are exact in f32: no order of additions changes the sum. The
    gradient of a sum is like that."""
    if not tensor.numel() or any(tensor.stride()) or not tensor.is_floating_point():
        return False
    number = abs(float(tensor.reshape(-1)[0]))
    if not math.isfinite(number):
        return False
    significand = int(math.ldexp(math.frexp(number)[0], 24))
    trailing = (significand & -significand).bit_length() - 1 if significand else 24
    return math.ldexp(1, trailing) >= tensor.numel()


def _as_cublas(operand: np.ndarray) -> np.ndarray:
    """PyTorch copies matrices of which neither the rows nor the columns are contiguous, such as expanded ones."""
    size, (rows, columns), (row, column) = operand.dtype.itemsize, operand.shape, operand.strides
    is_column_major = row == size and column >= max(1, rows) * size
    is_row_major = column == size and row >= max(1, columns) * size
    is_vector = 1 in (rows, columns) and size in (row, column)
    return operand if is_column_major or is_row_major or is_vector else np.ascontiguousarray(operand)


def _require_aligned(name: str, tensors: list[torch.Tensor]) -> None:
    """Kernels read vectors of 16 bytes: what they do elsewhere was not measured."""
    if (
        name not in rules.pointwise
        and not name.startswith("aten._foreach")
        and any(tensor.storage_offset() * tensor.element_size() % 16 and tensor.numel() for tensor in tensors)
    ):
        raise _Refused("a tensor does not begin at a multiple of 16 bytes", "pass x.clone(), here and on the GPU")


def _is_composite(func: Any) -> bool:
    """Whether PyTorch makes an operator of others on a GPU. `silu_backward` and others have kernels beside."""

    def has_kernel(key: str) -> bool:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))

    return (
        has_kernel("CompositeImplicitAutograd") and not has_kernel("CPU") and func is not aten._fused_rms_norm.default
    )


def _is_compiled() -> bool:
    """Whether a compiled function calls, which the mode makes run operator by operator."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper" and frame.f_code.co_filename == _wrapper_file:
            return True
        frame = frame.f_back
    return False


# ---------------------------------------------------------------------------------------------------------------------
# The mode


class Gpu(TorchDispatchMode):
    """The context of `gpu`."""

    def __init__(self, target: str, strict: bool, nearest: bool, library: str, threads: int):
        super().__init__()
        self.target, self.strict, self.nearest, self.library, self.threads = target, strict, nearest, library, threads
        self.used = Used(target)
        self._evidence = ""

    def __enter__(self) -> Any:
        overrides.enter(self)
        super().__enter__()
        return self.used

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        overrides.leave()

    @contextlib.contextmanager
    def _again(self) -> Iterator[None]:
        """For the parts of an operator: PyTorch leaves the mode while it handles one."""
        super().__enter__()
        try:
            yield
        finally:
            super().__exit__(None, None, None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in replaced:
            with self._again():  # inference mode hands such operators over as they are
                return replaced[func](*args, **kwargs)
        if _is_composite(func):
            with self._again():
                made = func.decompose(*args, **kwargs)
            if made is not NotImplemented:
                return made
        return self.run(func, args, kwargs)

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator without parts, computed and counted."""
        tensors = [item for item in pytree.tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
        if func.namespace in ("prim", "profiler") or any(tensor.device.type == "meta" for tensor in tensors):
            return func(*args, **kwargs)
        name = _row_name(func)
        self._evidence = "exact: moves elements"
        try:
            self._require_settings(tensors)
            made = self._computed(func, name, args, kwargs, tensors)
        except (_Refused, CannotSay, Differs, Error, MemoryError) as error:
            return self._inexact(func, args, kwargs, error)
        short = str(func).removeprefix("aten.").removesuffix(".default")
        if not func.is_view:
            self.used.exact[short] += 1
            self.used.evidence.setdefault(short, Counter())[self._evidence] += 1
        return made

    def _inexact(self, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        """Runs it as CPU code, unless the mode is strict."""
        name, why = str(func), str(error).partition("\n")[0] or "not enough memory"
        if self.strict:
            fix = getattr(error, "fix", "") or "gpu(..., strict=False) runs such operators as the CPU does"
            described = [_described(arg) for arg in args] + [
                f"{key}={_described(value)}" for key, value in kwargs.items()
            ]
            text = f"{name}({', '.join(described)}): no bits of an {self.target}: {why}; {fix}"
            failure = refuse(name, ", ".join(described), f"a call whose bits on an {self.target} are known", fix)
            violation = failure.violations[0]._replace(text=text, code="not_implemented")
            raise Error([violation]) from None
        short = name.removeprefix("aten.").removesuffix(".default")
        self.used.inexact[short] += 1
        self.used.reasons.setdefault(short, Counter())[why] += 1
        try:
            return of_cpu.get(str(func), func)(*args, **kwargs)
        except NotImplementedError:
            legal = f"an operator that a CPU has, or whose bits on an {self.target} are known"
            raise refuse(name, why, legal) from None

    def _require_settings(self, tensors: list[torch.Tensor]) -> None:
        """What changes the kernels of a GPU and is not modelled."""
        if _is_compiled():
            raise _Refused("torch.compile runs kernels of Triton on a GPU", "call the model without torch.compile")
        for tensor in tensors:
            if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.dtype.is_complex:
                raise _Refused(f"a tensor of {tensor.layout}, {tensor.device}, {tensor.dtype}", "a real CPU tensor")

    def _computed(self, func: Any, name: str, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> Any:
        if func.is_view or name in _moved or name in rules.views:
            return func(*args, **kwargs)
        if name in _known_gaps:
            raise _Refused(*_known_gaps[name])
        if torch.Tag.nondeterministic_seeded in func.tags and "attention" not in name:
            raise _Refused("random numbers", "draw them before the block")
        schema = func._schema
        written = [
            (args[i] if i < len(args) else kwargs.get(argument.name))
            for i, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        whole = all(_is_exact_type(tensor.dtype) for tensor in tensors)
        if name == "aten.copy.default" and args[0].dtype == args[1].dtype:
            return func(*args, **kwargs)
        outputs = self._outputs(func, name, args, kwargs, written)
        if whole and all(_is_exact_type(output.dtype) for output in outputs if isinstance(output, torch.Tensor)):
            return func(*args, **kwargs)
        if name.startswith(_contiguous) and not args[0].is_contiguous() and not _has_exact_sums(args[0]):
            raise _Refused("its input is not contiguous", "pass x.contiguous(), here and on the GPU")
        _require_aligned(name, tensors)
        made = self._by_rule(name, args, kwargs, outputs)
        if isinstance(made, torch.Tensor):
            made = [made]
        if written:
            # Operators on lists write one list.
            targets = written[0] if isinstance(written[0], (list, tuple)) else written
            for tensor, value in zip(targets, made, strict=True):
                if "out" in kwargs and tensor.shape != value.shape:
                    tensor.resize_(value.shape)
                tensor.copy_(value)
            if not schema.returns:
                return None
            return written[0] if len(written) == 1 else tuple(written)
        if len(schema.returns) == 1 and str(schema.returns[0].type) == "Tensor":
            return made[0]
        if len(schema.returns) == 1:
            return list(made)
        return tuple(made)

    def _outputs(self, func: Any, name: str, args: Any, kwargs: Any, written: list[Any]) -> list[Any]:
        """Tensors without memory, of the types and shapes of the results."""
        if written and "out" not in kwargs and not any(isinstance(item, (list, tuple)) for item in written):
            return written
        kernels = {key: value for key, value in kwargs.items() if key != "out"}
        if "out" in kwargs:
            functional = getattr(getattr(aten, name.split(".")[1]), name.split(".")[2], None)
            if functional is None:
                raise CannotSay("no rule for this operator")
            func = functional
        try:
            made = func(*pytree.tree_map(on_meta, args), **pytree.tree_map(on_meta, kernels))
        except (NotImplementedError, RuntimeError) as error:
            raise CannotSay(f"no rule for this operator ({str(error).partition(chr(10))[0][:80]})") from None
        if written:
            return [item for part in written for item in (part if isinstance(part, (list, tuple)) else [part])]
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def _by_rule(self, name: str, args: Any, kwargs: Any, outputs: list[Any]) -> list[Any]:
        """The results of the rule, as tensors with the strides of `outputs`."""
        rule = rule_of(name)
        if rule is None:
            raise CannotSay("no rule for this operator")
        abouts = [_about(output) for output in outputs]
        main = next((about for about in abouts if about is not None), None)
        if main is None:
            raise CannotSay("no rule for this operator")
        call = rules.Call(main, abouts, None, 0, {"multiprocessors": 132}, None, self.threads, None, self._product)
        options = {key: _argument(value) for key, value in kwargs.items() if key not in _of_memory}
        arguments = bound(rule, (call,), [_argument(value) for value in args], options)
        self._evidence = evidence_of(name)
        values = rule(*arguments.args, **arguments.kwargs)
        values = values if isinstance(values, list) else [values]
        made: list[Any] = []
        for i, output in enumerate(outputs):
            value = values[i] if i < len(values) else None
            if value is not None and value.known is not None and not value.known.all():
                raise CannotSay("its results depend on the order of equal numbers")
            made.append(unknown(output) if value is None else _laid_out(value.array, output))
        return made

    def _product(self, a: np.ndarray, b: np.ndarray, options: dict[str, Any], to: Tensor) -> np.ndarray:
        """As the library of the GPU adds it."""
        wrong = [name for name in options if name not in ("bias", "scale_a", "scale_b", "use_fast_accum")]
        if wrong:
            raise CannotSay("the library's choice was not recorded for a matrix C, alpha and beta, nor for relu")
        if a.ndim == 2:
            a, b = _as_cublas(a), _as_cublas(b)
            _require_dense(a, True)
            _require_dense(b, False)
        for backend in ("allow_fp16_accumulation",):
            if getattr(torch.backends.cuda.matmul, backend, False):
                raise CannotSay(f"torch.backends.cuda.matmul.{backend} is set")
        made, choice, evidence = chosen_product(
            a,
            b,
            target=self.target,
            library=self.library,
            allow_tf32=torch.backends.cuda.matmul.allow_tf32,
            out_dtype=to.dtype,
            nearest=self.nearest,
            threads=self.threads,
            **options,
        )
        self._evidence = evidence
        if not choice.exact:
            self.used.unsure["mm" if "bias" not in options else "addmm"] += 1
        return made


@public(target=text, strict=flag_of, nearest=flag_of, library=text)
def gpu(
    target: str, *, strict: bool = True, nearest: bool = False, library: str = "cublas 13.1", threads: int = 0
) -> Gpu:
    """A context in which operators of PyTorch on CPU tensors have the bits of a GPU, computed eagerly.

    target    "H100" or "H200"
    strict    True: an operator whose bits are not known raises Error. False: it runs as CPU code, and `used.inexact`
              counts it
    nearest   for a product of a shape that was not recorded, take the kernel for the nearest one, with a warning, and
              count it in `used.unsure`; else it is such an operator
    library   "cublas 13.1": that of PyTorch 2.11
    threads   0: all cores. No bit depends on it

    The context gives a `Used`, which counts the operators.

    >>> with gpu("H100") as used:
    ...     y = torch.softmax(torch.zeros(1, 4), -1)
    >>> used.exact
    Counter({'_softmax': 1})
    """
    if target not in ("H100", "H200"):
        raise refuse("target", shown(target), "'H100' or 'H200'")
    return Gpu(target, strict, nearest, library, threads_of(threads))
