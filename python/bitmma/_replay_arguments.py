# SPDX-License-Identifier: MIT
"""Reads the arguments of captured operators.

A capture is a stranger's file. The annotations of a rule say what its operator takes; `bound` refuses all else before
the rule runs, and the other functions here refuse places and extents that a tensor does not have. They raise CannotSay.
So any other exception of a rule is a fault of the rule, and is not caught.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ._captured import CannotSay, Value
from ._errors import shown
from ._safetensors import MOST_DIMENSIONS

Number = bool | int | float
"""A number of Python; a whole one has 64 bits."""

Rule = Callable[..., Any]


def refused(what: str) -> CannotSay:
    return CannotSay(f"its arguments are not those that the rule expects: {what}")


def taking(rule: Rule, *kinds: Any) -> Rule:
    """Annotates the parameters of a lambda, in their order."""
    names = [parameter.name for parameter in inspect.signature(rule).parameters.values()]
    rule.__annotations__ = dict(zip(names, kinds, strict=True))
    return rule


_words: dict[Any, str] = {
    Value: "a tensor", np.ndarray: "a tensor", bool: "true or false", int: "a whole number of 64 bits",
    float: "a number", str: "a string", NoneType: "none", list: "a list",
}  # fmt: skip


def _described(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(dict.fromkeys(_described(part) for part in get_args(kind)))
    if get_origin(kind) is list:
        return f"a list of {_described(get_args(kind)[0]).removeprefix('a ')}"
    return _words.get(kind, "any value")


def _is_of(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if get_origin(kind) in (Union, UnionType):
        return any(_is_of(value, part) for part in get_args(kind))
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_is_of(item, get_args(kind)[0]) for item in value)
    if kind is np.ndarray:
        return isinstance(value, Value)
    if kind is float:
        return type(value) is float or _is_of(value, int)
    if kind is int:
        return type(value) is int and -(2**63) <= value < 2**63
    return isinstance(value, kind)


@functools.cache
def _kinds(rule: Rule) -> tuple[inspect.Signature, dict[str, Any]]:
    signature = inspect.signature(rule)
    hints = get_type_hints(rule)
    return signature, {name: hints[name] for name in signature.parameters if name != "call"}


def bound(rule: Rule, before: tuple[Any, ...], args: list[Any], options: dict[str, Any]) -> inspect.BoundArguments:
    """The arguments of a rule, each of which has the kind that the rule's annotation names. `before` precedes those of
    the operator."""
    signature, kinds = _kinds(rule)
    try:
        arguments = signature.bind(*before, *args, **options)
    except TypeError as error:  # of bind alone: too few, too many, or of another name
        raise refused(str(error)) from None
    arguments.apply_defaults()
    for name, value in arguments.arguments.items():
        if name not in kinds:
            continue
        kind, parameter = kinds[name], signature.parameters[name]
        values = (
            value
            if parameter.kind is parameter.VAR_POSITIONAL
            else value.values()
            if parameter.kind is parameter.VAR_KEYWORD
            else (value,)
        )
        for item in values:
            if not _is_of(item, kind):
                seen = "a tensor" if isinstance(item, Value) else shown(item)
                raise refused(f"{name} is {seen}, not {_described(kind)}")
    return arguments


def float_of(text: Any) -> float:
    """A number in the hexadecimal form that captures have."""
    try:
        if isinstance(text, str):
            return float.fromhex(text)
    except (ValueError, OverflowError):
        pass
    raise refused(f"{shown(text)} is not a number in hexadecimal")


def axis_of(dim: int, dimensions: int) -> int:
    """A dimension of a tensor, counted from the first; it may be given from the last, as -1."""
    if not -dimensions <= dim < dimensions:
        raise refused(f"dimension {dim} of a tensor of {dimensions}")
    return dim % dimensions


def axes_of(dims: int | list[int], dimensions: int) -> list[int]:
    axes = [axis_of(dim, dimensions) for dim in (dims if isinstance(dims, list) else [dims])]
    if len(set(axes)) != len(axes):
        raise refused(f"dimensions {dims}, of which two are the same")
    return axes


def new_axis_of(dim: int, dimensions: int) -> int:
    """The place of a dimension that is added."""
    if dimensions >= MOST_DIMENSIONS:
        raise refused(f"a tensor of more than {MOST_DIMENSIONS} dimensions")
    return axis_of(dim, dimensions + 1)


def index_of(index: int, extent: int) -> int:
    if not -extent <= index < extent:
        raise refused(f"index {index} of {extent} elements")
    return index % extent


def sizes_of(sizes: list[int], least: int = 0) -> list[int]:
    """Extents, of `least` or more: -1 has a meaning in some operators."""
    if len(sizes) > MOST_DIMENSIONS or any(size < least for size in sizes):
        raise refused(f"sizes {shown(sizes)}")
    return sizes


def sizes_of_view(sizes: list[int], elements: int) -> list[int]:
    """Extents of a view of so many elements: -1 stands for what the others leave."""
    rest = math.prod(size for size in sizes_of(sizes, -1) if size != -1)
    fits = rest == elements if -1 not in sizes else rest > 0 and elements % rest == 0
    if sizes.count(-1) > 1 or not fits:
        raise refused(f"sizes {sizes} of a tensor of {elements} elements")
    return sizes


def broadcast(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    listed = list(shapes)
    try:
        return np.broadcast_shapes(*listed)
    except ValueError:  # its only one: they do not broadcast
        raise refused(f"shapes {', '.join(str(list(shape)) for shape in listed)}, which do not broadcast") from None


def indices_of(value: Value, extent: int, what: str = "the index") -> np.ndarray:
    """A tensor of places along a dimension of this extent, as int64; torch takes none from the end here."""
    places = value.whole(what)
    if places.dtype not in (np.int32, np.int64):
        raise refused(f"{what} is of {places.dtype}")
    if places.size and (places.min() < 0 or places.max() >= extent):
        raise refused(f"{what} is from {places.min()} to {places.max()}, of {extent} elements")
    return places.astype(np.int64, copy=False)


def common_type(arrays: Iterable[np.ndarray]) -> np.dtype:
    """The type that has the numbers of all arrays."""
    dtypes = {array.dtype for array in arrays}
    try:
        return np.result_type(*dtypes)
    except TypeError:  # such as bfloat16 and float16, which have none
        raise CannotSay(f"{' and '.join(sorted(map(str, dtypes)))} together") from None
