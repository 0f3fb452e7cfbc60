# SPDX-License-Identifier: MIT
"""Pallas' Mosaic GPU interpreter computes with bitmma.

    from bitmma.adapters import jax as adapter

    adapter.install()                     # or: with adapter.use(): ...
    out = kernel(a, b)                    # plgpu.kernel(..., interpret=InterpretGPUParams())
    adapter.uninstall()

The interpreter runs a kernel on the CPU. It computes wgmma as one `acc + np.matmul(a, b)`, whose bits are not a tensor
core's. The interpreter of JAX 0.10.2 does not support tcgen05 and Tensor Memory. With the adapter

- `wgmma` is a chain of wgmma instructions of sm_90a along K that starts from the accumulator. A may be in registers,
  A and B may be transposed references, and `acc[...] = value` sets the accumulator;
- `tcgen05_mma` is a chain of tcgen05.mma instructions of sm_100a, with `accumulate`, A in shared or Tensor Memory,
  block scales (mxf8f6f4, mxf4, mxf4nvf4) and sparse A. Kernels can allocate, load and store Tensor Memory, and copy
  into it.

Each instruction of a chain covers 32 bytes of K, or 64 if A is sparse. If bitmma knows no legal instruction for the
types, M, N and K of a tile, tracing the kernel raises bitmma.Error. The adapter does not check tiling, swizzle and
major-ness of operands, because the interpreter keeps every buffer in its logical shape.

Not supported:
- collective (2-CTA) tcgen05, an error when the kernel is traced: the interpreter has no barriers between the blocks of
  a cluster, so a kernel cannot wait for the operands of the other block;
- features that the interpreter does not run: `core_map` over warps, `pl.run_state` and with it `ACC.init`, barriers of
  clusters;
- detection of races of wgmma and tcgen05; the interpreter does not detect those of wgmma either.

The adapter replaces private functions of JAX. `install` first checks each function that it needs, and raises Error with
all differences. It also drops everything that JAX has compiled (jax.clear_caches()), because a compiled kernel keeps
the functions with which it was traced. A kernel compiled ahead of time, by .lower().compile(), keeps them permanently.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._arguments import target_of
from .._errors import Error, refuse
from .._gemm import gemm
from .._mma import Instruction, mma, tcgen05, wgmma
from ._host import Needs, Patches, differences, look_up

__all__ = ["install", "uninstall", "use"]


def __dir__() -> list[str]:
    return sorted(__all__)


_tested = "0.10.2"
_folder = "jax._src.pallas.mosaic_gpu"


class _Settings(NamedTuple):
    target: str | None
    threads: int


# ---------------------------------------------------------------------------------------------------------------------
# Arithmetic: arrays in, arrays out

_formats = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "tf32",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float4_e2m1fn": "e2m1",
    "int8": "s8",
    "uint8": "u8",
}
_accumulators = {"float32": "f32", "float16": "f16", "int32": "s32"}
# Block scales: (type of A and B, of the scales) -> kind. The size of a block follows from it.
_scaled_kinds = {
    ("e4m3", "float8_e8m0fnu"): "mxf8f6f4",
    ("e5m2", "float8_e8m0fnu"): "mxf8f6f4",
    ("e2m1", "float8_e8m0fnu"): "mxf4",
    ("e2m1", "float8_e4m3fn"): "mxf4nvf4",
}


def _named(names: dict[str, str], dtype: Any, what: str) -> str:
    format = names.get(np.dtype(dtype).name)
    if format is None:
        raise refuse(what, np.dtype(dtype).name, ", ".join(names))
    return format


def _legal(instruction: Instruction, settings: _Settings, m: int, k: int) -> Instruction:
    """The instruction, if the target has it, and if rows and K of the tile are multiples of the instruction's."""
    wrong = [row for row in instruction.violations(settings.target) if row.severity == "error"]
    for name, seen, size in (("M", m, instruction.m), ("K", k, instruction.k)):
        if seen == 0 or seen % size:
            wrong += refuse(name, seen, f"a multiple of {size}, {name} of {instruction}").violations
    if wrong:
        raise Error(wrong)
    return instruction


def _chain(
    instruction: Instruction,
    settings: _Settings,
    a: np.ndarray,
    b: np.ndarray,
    acc: np.ndarray | None,
    scale_a: np.ndarray | None = None,
    scale_b: np.ndarray | None = None,
    metadata: np.ndarray | None = None,
) -> np.ndarray:
    """Chains the instruction over all of K: D of a step is C of the next; with `acc` None it starts without C.

    a [.., M, K], or a sparse A in stored form [.., M, K / 2], b [K, N], acc [.., M, N]; scale_a [M, K / block], scale_b
    [K / block, N], metadata [M, K / chunk].
    """
    if scale_a is None and metadata is None and instruction.d != "s32":  # plans cannot start s32 from C
        plan = {
            "target": settings.target or ("sm_90a" if instruction.family == "wgmma" else "sm_100a"),
            "instruction": str(instruction),
            "types": {"a": instruction.a, "b": instruction.b, "d": instruction.d},
            "output": {"type": instruction.d},
        }
        if instruction.family == "wgmma":
            del plan["types"]  # its name says them
        return np.asarray(gemm(a, b, plan if acc is None else {**plan, "start": "c"}, c=acc, threads=settings.threads))
    steps = b.shape[0] // instruction.k

    def step(operand: np.ndarray, i: int, name: str) -> np.ndarray:
        size = operand.shape[-1] // steps
        if size * steps != operand.shape[-1]:
            raise refuse(name, f"{operand.shape[-1]} along K", f"a multiple of {steps}, K / {instruction.k}")
        return operand[..., i * size : (i + 1) * size]

    for i in range(steps):
        acc = mma(
            instruction,
            step(a, i, "a"),
            b[i * instruction.k : (i + 1) * instruction.k],
            acc,
            target=settings.target,
            scale_a=None if scale_a is None else step(scale_a, i, "a_scale"),
            scale_b=None if scale_b is None else step(scale_b.T, i, "b_scale").T,
            metadata=None if metadata is None else step(metadata, i, "a_sparse_metadata"),
            threads=settings.threads,
        )
    assert acc is not None  # _legal refuses K = 0
    return acc


class _Tile(NamedTuple):
    """Shape and types of one product of a kernel."""

    m: int
    n: int
    k: int
    d: Any
    a: Any
    b: Any
    scale_a: Any = None
    scale_b: Any = None
    sparse: bool = False


def _wgmma_of(settings: _Settings, tile: _Tile) -> Instruction:
    instruction = wgmma(
        tile.n,
        _named(_accumulators, tile.d, "accumulator"),
        _named(_formats, tile.a, "a"),
        _named(_formats, tile.b, "b"),
    )
    return _legal(instruction, settings, tile.m, tile.k)


def _tcgen05_of(settings: _Settings, tile: _Tile) -> Instruction:
    """The instruction of a tile of at most 256 columns."""
    a, b = _named(_formats, tile.a, "a"), _named(_formats, tile.b, "b")
    scale_type = None
    if tile.scale_a is None:
        kind = {"tf32": "tf32", "f16": "f16", "bf16": "f16", "s8": "i8", "u8": "i8"}.get(a, "f8f6f4")
    else:
        scales = np.dtype(tile.scale_a).name, np.dtype(tile.scale_b).name
        kind = _scaled_kinds.get((a, scales[0]), "")
        if not kind or scales[0] != scales[1]:
            raise refuse(
                "a_scale, b_scale",
                f"{scales[0]} and {scales[1]} of {a}",
                "float8_e8m0fnu of e4m3, e5m2 and e2m1; float8_e4m3fn of e2m1",
            )
        scale_type = "ue4m3" if kind == "mxf4nvf4" else "ue8m0"
    if tile.sparse and (tile.m != 128 or tile.k % 128 or np.dtype(tile.a).itemsize > 2 or a == "e2m1"):
        raise refuse(
            "sparse A",
            f"{tile.m} x {tile.k} of {a}",
            "128 x a multiple of 128, of 16- or 8-bit types",
            source="plgpu.format_tcgen05_sparse_metadata",
        )
    instruction = tcgen05(
        kind,
        m=tile.m,
        n=tile.n,
        d=_named(_accumulators, tile.d, "accumulator"),
        a=a,
        b=b,
        sparse=tile.sparse,
        scale_type=scale_type,
    )
    return _legal(instruction, settings, tile.m, tile.k)


def _parts(n: int) -> list[tuple[int, int]]:
    """Columns of the instructions of a tcgen05 tile. Mosaic splits a wide tile too; columns are independent."""
    return [(at, min(at + 256, n)) for at in range(0, n, 256)]


def _wgmma_product(settings: _Settings, acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """acc [M, N] + a [M, K] b [K, N] by wgmma: one instruction for every 64 rows."""
    (m, n), k = acc.shape, b.shape[0]
    instruction = _wgmma_of(settings, _Tile(m, n, k, acc.dtype, a.dtype, b.dtype))
    blocks = m // instruction.m
    return _chain(
        instruction, settings, a.reshape(blocks, instruction.m, k), b, acc.reshape(blocks, instruction.m, n)
    ).reshape(m, n)


def _tcgen05_product(
    settings: _Settings,
    acc: np.ndarray | None,
    a: np.ndarray,
    b: np.ndarray,
    d: np.dtype,
    *,
    scale_a: np.ndarray | None = None,
    scale_b: np.ndarray | None = None,
    metadata: np.ndarray | None = None,
) -> np.ndarray:
    """acc [M, N] + a [M, K] b [K, N] by tcgen05.mma, or only the product; M is 64 or 128.

    scale_a [M, K / block], scale_b [N or more, K / block]; metadata [M, K / 2] of 2 bits, with a [M, K / 2].
    """
    n = b.shape[1]
    types = None if scale_a is None else scale_a.dtype, None if scale_b is None else scale_b.dtype
    chunks = None if metadata is None else _chunks(metadata, a.dtype)
    done = []
    for first, last in _parts(n):
        tile = _Tile(a.shape[0], last - first, b.shape[0], d, a.dtype, b.dtype, *types, metadata is not None)
        done.append(
            _chain(
                _tcgen05_of(settings, tile),
                settings,
                a,
                b[:, first:last],
                None if acc is None else acc[:, first:last],
                scale_a,
                None if scale_b is None else scale_b[first:last].T,
                chunks,
            )
        )
    return np.concatenate(done, axis=1)


def _chunks(metadata: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Converts metadata from Tensor Memory's form, [M, K / 2] of 2 bits, to one nibble per chunk, [M, K / 4].

    plgpu.format_tcgen05_sparse_metadata permutes that of 16-bit types within blocks of 128 x 64.
    """
    m, cols = metadata.shape
    pairs = metadata.astype(np.uint8)
    if dtype.itemsize == 2:
        extents, axes = (m // 128, 8, 2, 8, cols // 64, 4, 2, 8), (0, 4, 1, 6, 3, 5, 2, 7)
        formatted = pairs.reshape(m // 128, 128, cols // 64, 64).transpose(0, 2, 1, 3)
        permuted = formatted.reshape([extents[axis] for axis in axes])
        pairs = permuted.transpose(np.argsort(axes)).reshape(m, cols)
    return pairs[:, 0::2] | pairs[:, 1::2] << 2


def _scales_of(copied: np.ndarray) -> np.ndarray:
    """Converts scales from shared memory's form for the copy, [rows / 128, blocks / 4, 32, 16], to [rows, blocks]."""
    tiles, fours = copied.shape[:2]
    return copied.reshape(tiles, fours, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(tiles * 128, fours * 4)


def _metadata_of(copied: np.ndarray) -> np.ndarray:
    """Sparse metadata as shared memory has it, [M / 128, K / 128, 128, 64], to [M, K / 2]."""
    tiles, parts = copied.shape[:2]
    return copied.transpose(0, 2, 1, 3).reshape(tiles * 128, parts * 64)


# ---------------------------------------------------------------------------------------------------------------------
# What is needed of JAX

_callbacks = f"{_folder}.interpret.gpu_callbacks"
_interpreter = f"{_folder}.interpret.jaxpr_interpret"
_utilities = "jax._src.pallas.mosaic.interpret.utils"

_needs: Needs = {  # of JAX 0.10.2
    _callbacks: {
        "_barrier_arrive": "token device_id grid_point_coords thread_id allocation_key_as_array source_info",
        "_get_shared_memory": "",
        "_remove_noop_transforms": "transforms",
        "HostAllocationKey.from_array": "request",
        "TOKEN_SHAPE_DTYPE": None,
    },
    _interpreter: {
        "JaxprInterpreter.interpret": "self jaxpr token args",
        "_raise_if_unsupported_memory_space": "space",
        "_get_barrier_allocation_key_from_inval": "inval transforms_treedef transforms_leaves",
        "_SENTINEL": None,
    },
    "jax._src.pallas.mosaic.interpret.shared_memory": {
        "SharedMemory.get_buffer_content": "self key rnge global_core_id increment_clock logging_info",
        "SharedMemory.store_buffer_content": "self key rnge value global_core_id increment_clock logging_info",
    },
    f"{_folder}.interpret.shared_memory": {"GPUSharedMemory.get_global_thread_id": "self device_id local_thread_id"},
    _utilities: {
        "to_range": "transforms",
        "JaxprEnv.__init__": "self vars values sentinel_for_floating_point_values",
        "GPULoggingInfo.__init__": "self source_info device_id grid_point_coords thread_id",
    },
    "jax._src.callback": {"io_callback": "callback result_shape_dtypes args sharding ordered kwargs"},
    "jax._src.core": {"Jaxpr.replace": "self kwargs"},
    "jax._src.source_info_util": {"user_context": None},
    "jax._src.state.indexing": {"NDIndexer": None},
    "jax._src.state.types": {"TransposeTransform": None, "transform_type": "ts ty"},
    f"{_folder}.core": {"MemorySpace.TMEM": None},
    f"{_folder}.primitives": dict.fromkeys(
        (
            "wgmma_ref_p",
            "wgmma_accumulator_store_p",
            "tcgen05_mma_p",
            "tcgen05_commit_arrive_p",
            "async_load_tmem_p",
            "async_store_tmem_p",
            "wait_load_tmem_p",
            "commit_tmem_p",
            "async_copy_smem_to_tmem_p",
            "async_copy_scales_to_tmem_p",
            "async_copy_sparse_metadata_to_tmem_p",
        )
    ),
}


@functools.cache
def _jax() -> types.SimpleNamespace:
    """The modules of JAX that the adapter calls."""
    modules = {
        "callbacks": _callbacks,
        "interpreter": _interpreter,
        "utilities": _utilities,
        "core": "jax._src.core",
        "callback": "jax._src.callback",
        "source_info": "jax._src.source_info_util",
        "indexing": "jax._src.state.indexing",
        "types": "jax._src.state.types",
        "tree": "jax.tree",
        "primitives": f"{_folder}.primitives",
        "numpy": "jax.numpy",
    }
    return types.SimpleNamespace(**{name: importlib.import_module(module) for name, module in modules.items()})


def _check(version: str) -> None:
    """Raises Error with everything that this JAX has otherwise."""
    wrong = list(differences(_needs))
    if look_up(_interpreter, "JaxprInterpreter._interpret_tcgen05_mma_p"):
        wrong.append((f"{_interpreter}.JaxprInterpreter", "a tcgen05 of its own", "an interpreter without tcgen05"))
    if wrong:
        fix = f'the adapter needs the interpreter of JAX {_tested}, this is {version}: pip install "jax=={_tested}"'
        raise Error([refuse(*difference, fix).violations[0] for difference in wrong])


# ---------------------------------------------------------------------------------------------------------------------
# Memory of the interpreter, as a thread of a kernel sees it


_Ref = tuple[Any, Sequence[Any]]
"""A reference, or an array where a reference may be, and its transforms."""


class _Thread:
    """Where a callback runs. Arguments are those that all callbacks of the interpreter have."""

    def __init__(self, token: Any, device_id: Any, grid_point_coords: Any, thread_id: Any, source_info: Any):
        self.token, self.source_info = token, source_info
        self.where = device_id, grid_point_coords, thread_id
        device, thread = int(device_id), int(thread_id)
        self.memory = _jax().callbacks._get_shared_memory()
        self.id = self.memory.get_global_thread_id(device, thread)
        self.logging = _jax().utilities.GPULoggingInfo(
            device_id=device,
            thread_id=thread,
            source_info=source_info,
            grid_point_coords=tuple(int(at) for at in grid_point_coords),
        )

    def _range(self, transforms: Sequence[Any]) -> tuple[slice | int, ...]:
        return _jax().utilities.to_range(_jax().tree.map(int, tuple(transforms)))

    def read(self, ref: Any, transforms: Sequence[Any] = ()) -> np.ndarray:
        """The value of a reference with slices and transposes in any order; an array that is not an allocation
        itself."""
        slices = _jax().indexing.NDIndexer
        left = _jax().callbacks._remove_noop_transforms(tuple(transforms))
        first = list(itertools.takewhile(lambda transform: isinstance(transform, slices), left))
        if np.ndim(ref) == 1:
            key = _jax().callbacks.HostAllocationKey.from_array(ref)
            array, _, _ = self.memory.get_buffer_content(key, self._range(first), self.id, logging_info=self.logging)
            if array is None:
                raise refuse("reference", f"{self._range(first)}", "a slice inside the buffer")
        else:  # A of a wgmma in registers
            array = np.asarray(ref)[self._range(first)]
        for transform in left[len(first) :]:
            if isinstance(transform, _jax().types.TransposeTransform):
                array = array.transpose(transform.permutation)
            elif isinstance(transform, slices):
                array = array[self._range([transform])]
            else:
                raise refuse("reference", type(transform).__name__, "slices and transposes after tiling and swizzle")
        return array

    def write(self, ref: Any, transforms: Sequence[Any], value: np.ndarray) -> None:
        left = _jax().callbacks._remove_noop_transforms(tuple(transforms))
        for transform in left:
            if not isinstance(transform, _jax().indexing.NDIndexer):
                raise refuse("reference", type(transform).__name__, "slices, where it is written")
        key, at = _jax().callbacks.HostAllocationKey.from_array(ref), self._range(left)
        inside, _, _ = self.memory.store_buffer_content(key, at, value, self.id, logging_info=self.logging)
        if not inside:
            raise refuse("reference", f"{at}", "a slice inside the buffer")

    def arrive(self, barriers: Sequence[Any]) -> None:
        for barrier in barriers:
            self.token = _jax().callbacks._barrier_arrive(self.token, *self.where, barrier, self.source_info)


# ---------------------------------------------------------------------------------------------------------------------
# Equations that the adapter interprets


class _Equations:
    """Interprets wgmma and the equations of Tensor Memory; JAX interprets the others."""

    def __init__(self, settings: _Settings, interpret: Callable[..., Any]):
        self.settings = settings
        self.interpret_others = interpret
        primitives = _jax().primitives
        self.rules: dict[Any, Callable[..., Any]] = {
            primitives.wgmma_ref_p: self.wgmma,
            primitives.tcgen05_mma_p: self.mma,
            primitives.tcgen05_commit_arrive_p: self.commit_arrive,
            primitives.async_load_tmem_p: self.load,
            primitives.async_store_tmem_p: self.store,
            primitives.wgmma_accumulator_store_p: self.set_accumulator,
            primitives.async_copy_smem_to_tmem_p: functools.partial(self.copy, lambda copied: copied),
            primitives.async_copy_scales_to_tmem_p: functools.partial(self.copy, _scales_of),
            primitives.async_copy_sparse_metadata_to_tmem_p: functools.partial(self.copy, _metadata_of),
            # Every access is done when its callback returns.
            primitives.wait_load_tmem_p: lambda call, eqn, values: (call.token, []),
            primitives.commit_tmem_p: lambda call, eqn, values: (call.token, []),
        }

    def interpret(self, interpreter: Any, jaxpr: Any, token: Any, *args: Any) -> Any:
        """Replaces JaxprInterpreter.interpret, which still gets the sequences of equations between those of this
        class."""
        if not any(eqn.primitive in self.rules for eqn in jaxpr.eqns):
            return self.interpret_others(interpreter, jaxpr, token, *args)
        skips = interpreter.interpret_params.skip_floating_point_ops
        env = _jax().utilities.JaxprEnv(
            vars=jaxpr.constvars + jaxpr.invars,
            values=args,
            sentinel_for_floating_point_values=_jax().interpreter._SENTINEL if skips else None,
        )
        for known, eqns in itertools.groupby(jaxpr.eqns, lambda eqn: eqn.primitive in self.rules):
            if not known:
                part = _part_of(jaxpr, list(eqns))
                token, values = self.interpret_others(interpreter, part, token, *env.read_many(part.invars))
                env.write_many(part.outvars, values)
                continue
            for eqn in eqns:
                with _jax().source_info.user_context(eqn.source_info.traceback, name_stack=eqn.source_info.name_stack):
                    call = _Call(interpreter, eqn, token)
                    token, values = self.rules[eqn.primitive](call, eqn, env.read_many(eqn.invars))
                env.write_many(eqn.outvars, values if eqn.primitive.multiple_results else [values])
        return token, env.read_many(jaxpr.outvars)

    def wgmma(self, call: _Call, eqn: Any, values: list[Any]) -> Any:
        acc, a, b, *leaves = values
        transforms = [_unflattened(eqn.params[f"{name}_transforms_tree"], leaves) for name in ("acc", "a", "b")]
        d_type, a_type, b_type = (_type_of(var.aval, these) for var, these in zip(eqn.invars, transforms, strict=False))
        m, n = d_type.shape
        _wgmma_of(self.settings, _Tile(m, n, b_type.shape[0], d_type.dtype, a_type.dtype, b_type.dtype))

        def act(thread: _Thread, acc: _Ref, a: _Ref, b: _Ref) -> None:
            thread.write(*acc, _wgmma_product(self.settings, thread.read(*acc), thread.read(*a), thread.read(*b)))

        return call(act, **dict(zip(("acc", "a", "b"), zip((acc, a, b), transforms, strict=True), strict=True))), []

    def mma(self, call: _Call, eqn: Any, values: list[Any]) -> Any:
        params = eqn.params
        _refuse_collective("tcgen05_mma", params)
        acc, a, b, accumulate, *rest = values
        counts = int(params["arrive"]), 2 * int(params["scaled"]), int(params["sparse"])
        barriers, scales, metadata = ([rest.pop(0) for _ in range(count)] for count in counts)
        names = "acc", "a", "b", "barrier", "a_scale", "b_scale", "a_sparse_metadata"
        transforms = {name: _unflattened(params[f"{name}_transforms_tree"], rest) for name in names}
        d_type, a_type, b_type = (
            _type_of(var.aval, transforms[name]) for var, name in zip(eqn.invars[:3], names[:3], strict=True)
        )
        first_scale = 4 + len(barriers)
        scale_types = [var.aval.dtype for var in eqn.invars[first_scale : first_scale + len(scales)]]
        scale_a, scale_b = scale_types or (None, None)
        for first, last in _parts(b_type.shape[1]):
            _tcgen05_of(
                self.settings,
                _Tile(
                    d_type.shape[0],
                    last - first,
                    b_type.shape[0],
                    d_type.dtype,
                    a_type.dtype,
                    b_type.dtype,
                    scale_a,
                    scale_b,
                    params["sparse"],
                ),
            )
        settings, dtype = self.settings, np.dtype(d_type.dtype)

        def act(thread: _Thread, accumulate: Any, barriers: Any, acc: _Ref, **refs: _Ref) -> None:
            read = {name: thread.read(*ref) for name, ref in refs.items()}
            before = thread.read(*acc) if bool(accumulate) else None
            thread.write(*acc, _tcgen05_product(settings, before, d=dtype, **read))
            thread.arrive(barriers)

        refs = {"acc": (acc, "acc"), "a": (a, "a"), "b": (b, "b")}
        if scales:
            refs |= {"scale_a": (scales[0], "a_scale"), "scale_b": (scales[1], "b_scale")}
        if metadata:
            refs["metadata"] = (metadata[0], "a_sparse_metadata")
        return call(
            act,
            accumulate=accumulate,
            barriers=[_barrier_key(barrier, transforms["barrier"]) for barrier in barriers],
            **{name: (ref, transforms[of]) for name, (ref, of) in refs.items()},
        ), []

    def commit_arrive(self, call: _Call, eqn: Any, values: list[Any]) -> Any:
        _refuse_collective("tcgen05_commit_arrive", eqn.params)
        tree = eqn.params["barrier_transforms_tree"]
        key = _barrier_key(values[0], tree.unflatten(values[1:]) if tree else ())
        return call(_Thread.arrive, barriers=[key]), []

    def load(self, call: _Call, eqn: Any, values: list[Any]) -> Any:
        return call(
            _Thread.read, eqn.outvars[0].aval, ref=values[0], transforms=eqn.params["tree"].unflatten(values[1:])
        )

    def store(self, call: _Call, eqn: Any, values: list[Any]) -> Any:
        ref, value, *leaves = values
        return call(_write, ref=ref, transforms=eqn.params["tree"].unflatten(leaves), value=value), []

    def set_accumulator(self, call: _Call, eqn: Any, values: list[Any]) -> Any:
        acc, value = values
        return call(_write, ref=acc, transforms=(), value=value), value

    def copy(self, arranged: Callable[[np.ndarray], np.ndarray], call: _Call, eqn: Any, values: list[Any]) -> Any:
        _refuse_collective(eqn.primitive.name, eqn.params)
        smem, tmem, *leaves = values
        source, destination = (
            (ref, _unflattened(eqn.params[f"{name}_tree"], leaves)) for ref, name in ((smem, "smem"), (tmem, "tmem"))
        )

        def act(thread: _Thread, source: _Ref, destination: _Ref) -> None:
            thread.write(*destination, arranged(thread.read(*source)))

        return call(act, source=source, destination=destination), []


class _Call(NamedTuple):
    """Makes the callback of one equation.

    Callbacks run in the order in which they pass on the token, like those of the interpreter.
    """

    interpreter: Any
    eqn: Any
    token: Any

    def __call__(self, act: Callable[..., Any], result: Any = None, **operands: Any) -> Any:
        """Calls `act` with a _Thread and the operands; returns the token after it, and a value of type `result` if
        there is one."""
        source_info = self.eqn.source_info

        def callback(token: Any, device_id: Any, grid_point_coords: Any, thread_id: Any, **operands: Any) -> Any:
            thread = _Thread(token, device_id, grid_point_coords, thread_id, source_info)
            value = act(thread, **operands)
            return thread.token if result is None else (thread.token, value)

        token_type = _jax().callbacks.TOKEN_SHAPE_DTYPE
        return _jax().callback.io_callback(
            callback,
            token_type if result is None else (token_type, result),
            token=self.token,
            device_id=_jax().numpy.int32(self.interpreter.device_info.device_id),
            grid_point_coords=self.interpreter.grid_point_coords,
            thread_id=self.interpreter.thread_id,
            **operands,
        )


def _write(thread: _Thread, ref: Any, transforms: Any, value: Any) -> None:
    thread.write(ref, transforms, np.asarray(value))


def _unflattened(tree: Any, leaves: list[Any]) -> Any:
    """The transforms of one operand; takes its leaves from the front."""
    return tree.unflatten([leaves.pop(0) for _ in range(tree.num_leaves)]) if tree else ()


def _type_of(aval: Any, transforms: Any) -> Any:
    """Shape and dtype of a reference or an array."""
    return _jax().types.transform_type(transforms, aval)


def _part_of(jaxpr: Any, eqns: list[Any]) -> Any:
    """A jaxpr of consecutive equations: its inputs are the variables that they do not define, its outputs those they
    do."""
    defined: dict[Any, None] = {}
    read: dict[Any, None] = {}
    for eqn in eqns:
        read.update(
            (var, None) for var in eqn.invars if not isinstance(var, _jax().core.Literal) and var not in defined
        )
        defined.update((var, None) for var in eqn.outvars)
    return jaxpr.replace(constvars=[], invars=list(read), outvars=list(defined), eqns=eqns, effects=set())


def _barrier_key(barrier: Any, transforms: Any) -> Any:
    leaves, tree = _jax().tree.flatten(transforms)
    return _jax().interpreter._get_barrier_allocation_key_from_inval(barrier, tree, leaves)


def _refuse_collective(name: str, params: dict[str, Any]) -> None:
    if params["collective_axis"] is not None:
        raise refuse(
            name,
            f"collective_axis {params['collective_axis']!r}",
            "None",
            f"the interpreter of JAX {_tested} has no barriers between the blocks of a cluster; rows of D do "
            "not depend on each other, so a kernel for one block has the same bits",
        )


# ---------------------------------------------------------------------------------------------------------------------
# On and off

_patches = Patches()


def install(target: str | None = None, threads: int = 1) -> None:
    """Makes kernels of the Mosaic GPU interpreter compute with bitmma, in all threads of the process.

    target    the GPU, "sm_90a" or "H100"; None: sm_90a for wgmma and sm_100a for tcgen05
    threads   of one product; changes no bit

    Raises Error if JAX is missing or has other private functions. Drops everything that JAX has compiled. A second
    call replaces the arguments of the first.
    """
    known = sorted({*wgmma().targets, *tcgen05().targets})
    target = None if target is None else target_of(target)
    if target is not None and target not in known:
        raise refuse("target", target, ", ".join(known))
    for module, legal in (("jax", f"jax {_tested}"), ("jax.experimental.pallas.mosaic_gpu", "a module to import")):
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise refuse(module, f"not installed ({error})", legal, f'pip install "jax=={_tested}" absl-py') from error
    import jax

    uninstall()
    _check(jax.__version__)
    interpreter, tmem = _jax().interpreter, look_up(f"{_folder}.core", "MemorySpace.TMEM")
    raise_if_unsupported = interpreter._raise_if_unsupported_memory_space
    equations = _Equations(_Settings(target, threads), interpreter.JaxprInterpreter.interpret)
    _patches.set(
        interpreter,
        "_raise_if_unsupported_memory_space",
        lambda space: None if space == tmem else raise_if_unsupported(space),
    )
    _patches.set(
        interpreter.JaxprInterpreter,
        "interpret",
        lambda self, jaxpr, token, *args: equations.interpret(self, jaxpr, token, *args),
    )
    jax.clear_caches()


def uninstall() -> None:
    """Restores JAX's own functions. Does nothing if the adapter is not installed."""
    if _patches.undo():
        import jax

        jax.clear_caches()


@contextlib.contextmanager
def use(target: str | None = None, threads: int = 1) -> Iterator[None]:
    """Calls `install`, and `uninstall` at the end of the block.

    A kernel may still be running when its call returns, so wait for results inside the block (jax.block_until_ready).
    """
    install(target, threads)
    try:
        yield
    finally:
        uninstall()
