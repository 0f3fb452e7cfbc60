# SPDX-License-Identifier: MIT
"""Types of arguments, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Union,
    cast,
    overload,
)

import numpy as np

if TYPE_CHECKING:
    from ._arrays import Codes, Tiled
    from ._core import Plan


class SupportsArray(Protocol):
    """Arrays of torch, JAX and others."""

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray: ...


class SupportsDLPack(Protocol):
    """Arrays that other libraries can access."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


ArrayLike = np.ndarray | SupportsArray | SupportsDLPack
"""Types of operands: arrays of NumPy, torch and JAX, bitmma.Codes, and objects with DLPack."""

# A function that gets a torch tensor returns torch tensors, else NumPy arrays. To a type checker the first operand
# tells which; operands of other types, and results of keywords such as return_plan, have overloads of their own.
NumPyOperand = Union[np.ndarray, np.generic, float, "JaxArray"]
NumPyMatrix = Union[np.ndarray, "Codes", "JaxArray"]
Operand = Union[np.ndarray, "Codes", "JaxArray", "TorchTensor", SupportsArray, SupportsDLPack]
PlanLike = Union[str, dict[str, Any], "Plan", None]
Parameters = ParamSpec("Parameters")


class JaxArray(Protocol):
    """An array of JAX. Results of its functions are NumPy's; torch's tensors lack this method."""

    def addressable_data(self, index: int) -> Any: ...


class TorchTensor(Protocol):
    """What torch.Tensor has; torch need not be installed."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def untyped_storage(self) -> Any: ...

    def data_ptr(self) -> int: ...


class Axes(Protocol):
    """Axes of matplotlib, which need not be installed."""

    figure: Any

    def set_title(self, label: str) -> Any: ...


Tensor = TypeVar("Tensor", bound=TorchTensor)
Array = TypeVar("Array", bound=np.ndarray | TorchTensor)


class ArrayFunction(Protocol[Parameters]):
    """A function of arrays, whose first one is `x`."""

    @overload
    def __call__(self, x: NumPyOperand, *args: Parameters.args, **kwargs: Parameters.kwargs) -> np.ndarray: ...
    @overload
    def __call__(self, x: Tensor, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Tensor: ...


class BinaryFunction(Protocol[Parameters]):
    """A function of arrays, whose first one is `a`."""

    @overload
    def __call__(self, a: NumPyOperand, *args: Parameters.args, **kwargs: Parameters.kwargs) -> np.ndarray: ...
    @overload
    def __call__(self, a: Tensor, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Tensor: ...


class OperandsFunction(Protocol):
    """A function that a name selects, of any number of operands."""

    @overload
    def __call__(self, name: str, /, *operands: NumPyOperand, threads: int = 1) -> np.ndarray: ...
    @overload
    def __call__(self, name: str, /, *operands: Codes, threads: int = 1) -> Codes: ...
    @overload
    def __call__(self, name: str, first: Tensor, /, *operands: Tensor | float, threads: int = 1) -> Tensor: ...


class StepsFunction(Protocol[Parameters]):
    """A layer: its intermediate arrays by name."""

    @overload
    def __call__(self, x: np.ndarray, *args: Parameters.args, **kwargs: Parameters.kwargs) -> dict[str, np.ndarray]: ...
    @overload
    def __call__(self, x: Tensor, *args: Parameters.args, **kwargs: Parameters.kwargs) -> dict[str, Tensor]: ...


def of_array(function: Callable[Concatenate[Any, Parameters], Any]) -> ArrayFunction[Parameters]:
    return cast(Any, function)


def of_arrays(function: Callable[Concatenate[Any, Parameters], Any]) -> BinaryFunction[Parameters]:
    return cast(Any, function)


def of_operands(function: Callable[..., Any]) -> OperandsFunction:
    return cast(Any, function)


def of_steps(function: Callable[Concatenate[Any, Parameters], Any]) -> StepsFunction[Parameters]:
    return cast(Any, function)


class GemmOptions(TypedDict, total=False):
    """The keywords of gemm but `return_plan`, which changes the result."""

    c: Operand | None
    bias: Operand | None
    scale_a: Operand | float | None
    scale_b: Operand | float | None
    sfa: Operand | Tiled | None
    sfb: Operand | Tiled | None
    target: Target | None
    out_dtype: Any
    out: np.ndarray | None
    kernel: str | None
    split_k: int
    alpha: float
    beta: float
    relu: bool
    rows: Any
    cols: Any
    whole: tuple[int, int] | None
    threads: int


class MatmulOptions(TypedDict, total=False):
    """The keywords of matmul but `target`, which is required, and `return_choice`, which changes the result."""

    library: str
    allow_tf32: bool
    out_dtype: Any
    scale_a: Operand | float | None
    scale_b: Operand | float | None
    use_fast_accum: bool
    nearest: bool
    threads: int


class MmaOptions(TypedDict, total=False):
    """The keywords of mma but `return_target`, which changes the result."""

    target: Target | None
    scale_a: Operand | Tiled | None
    scale_b: Operand | Tiled | None
    metadata: Operand | None
    threads: int


class AttentionOptions(TypedDict, total=False):
    """The keywords of attention but `return_lse`, which changes the result."""

    is_causal: bool
    scale: float | None
    window: tuple[int, int] | None
    splits: int | None
    backend: str
    threads: int


class LayerNormOptions(TypedDict, total=False):
    """The keywords of layer_norm but `return_moments`, which changes the result."""

    normalized_shape: Any
    weight: Operand | None
    bias: Operand | None
    eps: float | None
    threads: int


TargetName = Literal[
    "sm_70",
    "sm_72",
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_88",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100",
    "sm_100a",
    "sm_100f",
    "sm_101",
    "sm_101a",
    "sm_101f",
    "sm_103",
    "sm_103a",
    "sm_103f",
    "sm_107",
    "sm_107a",
    "sm_107f",
    "sm_110",
    "sm_110a",
    "sm_110f",
    "sm_120",
    "sm_120a",
    "sm_120f",
    "sm_121",
    "sm_121a",
    "sm_121f",
]

Target = TargetName | str | float | tuple[int, int]
"""A GPU: its PTX name, "H100", a compute capability as "9.0", 90 or (9, 0)."""
