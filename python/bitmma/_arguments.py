# SPDX-License-Identifier: MIT
"""Checks and converts the arguments of every public function: one table, keyed by the name of the parameter.

    @public
    def explain(case: Case, row: int, col: int) -> Explanation:      row is a whole number because `row` is in the table

An illegal argument raises bitmma.Error, which names the argument, the given value and the legal values.
A missing or unknown argument raises ArgumentError, which is an Error and a TypeError. All other exceptions pass
unchanged.
"""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from . import _core
from ._core import Instruction, Plan
from ._errors import (
    ArgumentError,
    Error,
    count_of,
    flag_of,
    near,
    no_such_argument,
    number_of,
    refuse,
    shown,
    text_of,
    threads_of,
)

core: Any = _core
"""The library, for checked arguments: the public argument types are wider than the library's."""

core.use_datasets(os.path.join(os.path.dirname(__file__), "data"))
set_ieee_environment, restore_environment = core.set_ieee_environment, core.restore_environment

__tracebackhide__ = True  # pytest shows the frame of the call, not those that check its arguments

Check = Callable[[Any, str], Any]
Function = TypeVar("Function", bound=Callable[..., Any])

_known_targets: dict[str, str] = {}


def target_of(value: Any, field: str = "target") -> str:
    """The PTX name of a target that is given as a PTX name, "H100", "9.0", 90 or (9, 0)."""
    if type(value) is str and value in _known_targets:
        return _known_targets[value]
    for number in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(number, int) and abs(number) > 10**6:  # Python refuses to print numbers of thousands of digits
            raise refuse(field, shown(number), 'a target, such as "sm_90a", "H100", "9.0" or (9, 0)')
    name: str = core.target_name(value)
    if type(value) is str and len(_known_targets) < 1000:
        _known_targets[value] = name
    return name


def instruction_of(value: Any, field: str = "instruction") -> Instruction:
    """PTX text, or an Instruction."""
    return Instruction(stated(value, field).strip()) if not isinstance(value, Instruction) else value


def stated(value: Any, field: str) -> Any:
    """The same, but not parsed yet."""
    if isinstance(value, Instruction):
        return value
    if not isinstance(value, str):
        raise refuse(field, type(value).__name__, "a PTX mnemonic, or an Instruction", _fix_of_operand(value))
    return text_of(value, field, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")


def _fix_of_operand(value: Any) -> str:
    """For a matrix in place of the instruction."""
    if not hasattr(value, "shape"):
        return ""
    return (
        "bitmma.mma_sync() and wgmma() make instructions: bitmma.mma(bitmma.mma_sync(), a, b); "
        "bitmma.gemm(a, b) and bitmma.matmul multiply whole matrices"
    )


def stated_or_plan(value: Any, field: str) -> Any:
    if isinstance(value, (Instruction, Plan, str)):
        return value if isinstance(value, Plan) else stated(value, field)
    raise refuse(field, type(value).__name__, "a PTX mnemonic, an Instruction or a Plan", _fix_of_operand(value))


def path_of(value: Any, field: str) -> str:
    """A file name in UTF-8, as the library takes it."""
    try:
        name = os.fsdecode(value)
        name.encode()
    except TypeError:
        raise refuse(field, type(value).__name__, "the path of a file") from None
    except UnicodeError:
        raise refuse(field, ascii(value), "a name in UTF-8") from None
    if "\0" in name:
        raise refuse(field, ascii(value), "a name without zero bytes")
    return name


def word_of(value: Any, field: str) -> int:
    """A 64-bit word: a number, or text in C++ syntax."""
    if isinstance(value, str):
        digits = value.strip().removesuffix("ULL").removesuffix("ull").replace("'", "").replace("_", "")
        if len(digits) == 16 and digits.isdigit():
            raise refuse(field, value, "an unambiguous number", f"0x{digits} in hex, or {int(digits):#x}")
        try:
            value = int(digits, 0)
        except ValueError:
            raise refuse(field, shown(value), "a number, such as 0x4000004000010000") from None
    return count_of(value, field, 0, 2**64 - 1)


def seed_of(value: Any, field: str) -> int:
    return count_of(value, field, 0, 2**64 - 1)


def cases_of(value: Any, field: str) -> int:
    return count_of(value, field, 0, 2**63 - 1)


def at_least_one(value: Any, field: str) -> int:
    return count_of(value, field, 1, 2**63 - 1)


def text(value: Any, field: str) -> str:
    return str(text_of(value, field, "a word"))


def unchecked(value: Any, field: str) -> Any:
    return value


# Keyed by the name of the parameter: one name has the same meaning in all functions.
checks: dict[str, Check] = {
    "target": target_of,
    "rehearse": target_of,
    "instruction": stated,
    "threads": lambda value, field: threads_of(value),
    "path": path_of,
    "ptx": path_of,
    "out": path_of,
    "descriptor": word_of,
    "seed": seed_of,
    "text": text,
    "first_case": cases_of,
    "first": cases_of,
    "count": cases_of,
    "max_cases": at_least_one,
    "cases": unchecked,
    **dict.fromkeys(
        "row col m n k rows cols blocks num copy address element_bits code_bits cta_group max_findings max_lines "
        "max_cols max_nearest device jobs split_k matrices".split(),
        count_of,
    ),
    **dict.fromkeys("start_address leading_byte_offset stride_byte_offset base_offset start lbo sbo".split(), cases_of),
    **dict.fromkeys(
        "operation swizzle operand name shape major kind distribution layout_a layout_b source only kernel stream "
        "rounding".split(),
        text,
    ),
    **dict.fromkeys(
        "ws sparse pack_16b transposed store leading_absolute absolute pairs search retry relu ftz sat nearest "
        "packed return_target".split(),
        flag_of,
    ),
    **dict.fromkeys("alpha beta seconds unit_seconds".split(), number_of),
}


@overload
def public(function: Function) -> Function: ...


@overload
def public(*, renamed: Mapping[str, str] = ..., **own: Check) -> Callable[[Function], Function]: ...


def public(function: Any = None, *, renamed: Mapping[str, str] | None = None, **own: Check) -> Any:
    """Decorates a function: the table checks its arguments, or `own` those with another meaning in this function. It
    runs in the environment of IEEE 754, whatever flush-to-zero, rounding and traps the caller has set. `renamed` has
    the names that keywords had in the release before, and their new ones."""
    if function is None:
        return functools.partial(public, renamed=renamed, **own)
    old_names = dict(renamed or {})
    # inspect.signature would take a third of the time of `import bitmma`.
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    places, keywords = code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount : count]
    defaults = dict(zip(reversed(places), reversed(function.__defaults__ or ()), strict=False))
    defaults |= function.__kwdefaults__ or {}
    by_name = {name: check for name in (*places, *keywords) if (check := own.get(name, checks.get(name)))}
    may_be_none = {name for name, default in defaults.items() if default is None}
    by_place = [(name, by_name.get(name)) for name in places]

    def checked(name: str, check: Check | None, value: Any) -> Any:
        return value if check is None or (value is None and name in may_be_none) else check(value, name)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        environment = set_ieee_environment()
        try:
            if old_names and not old_names.keys().isdisjoint(kwargs):
                _rename(kwargs, old_names, function.__name__)
            values = [checked(name, check, value) for (name, check), value in zip(by_place, args, strict=False)]
            values += args[len(values) :]
            for name, value in kwargs.items():
                if name in by_name:
                    kwargs[name] = checked(name, by_name[name], value)
            return function(*values, **kwargs)
        except TypeError as error:
            # Raised by the call itself, not in the function.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None and not isinstance(error, Error):
                raise misuse(
                    called.__module__, function.__qualname__, inspect.signature(function), args, kwargs, error
                ) from None
            raise
        finally:
            restore_environment(environment)

    return called


def _rename(kwargs: dict[str, Any], old_names: Mapping[str, str], function: str) -> None:
    """Keywords by their names of the release before, with a warning at the caller's line."""
    for old in old_names.keys() & kwargs.keys():
        new = old_names[old]
        if new in kwargs:
            raise refuse(old, f"given together with {new}", "one of the two")
        warnings.warn(f"{old} of bitmma.{function} is called {new}", DeprecationWarning, stacklevel=3)
        kwargs[new] = kwargs.pop(old)


def in_ieee_environment(function: Function) -> Function:
    """Decorates a method that is called directly and computes with the host's floats."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        environment = set_ieee_environment()
        try:
            return function(*args, **kwargs)
        finally:
            restore_environment(environment)

    return called  # type: ignore[return-value]


# Words of PTX and of libraries that other functions have, or another argument says.
_part = "mma computes one instruction; for rows and cols of a product of `whole` = (M, N) use bitmma.gemm"
_words_of_others = {
    ("mma", "scale_d"): "c=None means scale-d = 0; or use bitmma.instruction(text, scale_d=0)",
    ("gemm", "scale_d"): "to leave C out, omit c or pass beta=0; the scale of an fp8 D is d_scale in a plan's epilogue",
    ("mma", "whole"): _part,
    ("mma", "rows"): _part,
    ("mma", "cols"): _part,
    ("mma", "alpha"): "alpha and beta are arguments of bitmma.gemm",
    ("mma", "beta"): "alpha and beta are arguments of bitmma.gemm",
    ("mma", "sfa"): "use scale_a for the block scales of one instruction",
    ("mma", "sfb"): "use scale_b for the block scales of one instruction",
    ("mma", "output"): "the mnemonic determines the type of D",
    ("mma", "out_dtype"): "the mnemonic determines the type of D",
    ("gemm", "instruction"): 'plan={"instruction": ...}',
}


_values = dict.fromkeys((("matmul", "target"), ("library_choice", "target")), 'target="H100" or target="H200"')
"""Values of required arguments."""


def misuse(
    module: str,
    name: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: Exception,
) -> Exception:
    """The mistake of a call that Python rejected: wrong names, or number of arguments."""
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    usage = f"{name}{inspect.Signature(bare)}"
    legal = [parameter for parameter in signature.parameters if parameter != "self"]
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    for keyword in kwargs:
        if keyword not in legal and not is_open:
            meant = _words_of_others.get((name, keyword)) or near(keyword, legal)
            return no_such_argument(keyword, f"{module}.{name}", legal, meant)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [
        parameter for parameter in bare if parameter.default is parameter.empty and parameter.kind not in variadic
    ]
    by_place = [parameter.name for parameter in bare if parameter.kind is not parameter.KEYWORD_ONLY][: len(args)]
    missing = [parameter.name for parameter in needed if parameter.name not in (*by_place, *kwargs)]
    if missing:
        fix = "; ".join(_values[name, word] for word in missing if (name, word) in _values)
        return refuse(", ".join(missing), "(missing)", f"an argument of {usage}", fix, kind=ArgumentError)
    return refuse(name, str(error).removeprefix(f"{name}() "), usage, kind=ArgumentError)


def name_as_imported(names: dict[str, Any], public_names: list[str]) -> None:
    """Makes tracebacks, help and pickles show the public name, bitmma.mma, instead of the file."""
    for name in public_names:
        if getattr(names[name], "__module__", "").startswith("bitmma."):
            names[name].__module__ = "bitmma"
