# SPDX-License-Identifier: MIT
"""Errors and warnings: one type for every bad request, with all of its violations."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

__tracebackhide__ = True  # pytest shows the frame of the call, not those that check its arguments


class Violation(NamedTuple):
    """One mistake or, in a warning, one suspicious point."""

    field: str
    """The checked field, in PTX's or the file's own words."""
    seen: str
    legal: str
    fix: str = ""
    source: str = ""
    """Where the rule is documented."""
    severity: str = "error"
    """"error" or "warning"."""
    text: str = ""
    """The whole message in one line."""
    code: str = "illegal_value"
    """The kind of violation, for programs to compare; the sentences may change."""

    def __str__(self) -> str:
        return printable(self.text or f"{self.field} = {self.seen}: must be {self.legal}")


_escapes = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """`text` without control characters: an escape character becomes "\\x1b", so that terminals do not interpret it.
    Line feeds and tabs stay."""
    return text.encode("utf-8", "backslashreplace").decode().translate(_escapes)


def violations_of(rows: list[dict[str, Any]]) -> list[Violation]:
    return [Violation(**row) for row in rows]


class Error(ValueError):
    """A request that cannot be fulfilled. Nothing was written before it is raised.

    `violations` lists all problems, not only the first.
    """

    violations: list[Violation]

    def __init__(self, violations: list[dict[str, Any]] | list[Violation] | str):
        if isinstance(violations, str):
            violations = [Violation("request", "", "", text=violations)]
        self.violations = [
            violation if isinstance(violation, Violation) else Violation(**violation) for violation in violations
        ]
        super().__init__("\n".join(str(violation) for violation in self.violations))


class ArgumentError(Error, TypeError):
    """A call with a missing or unknown argument, or with too many: an Error that is a TypeError too, as Python raises
    for its own functions."""


def shown(value: object, most: int = 80) -> str:
    """A value for a message: short, and with printable characters only."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001 - numbers of thousands of digits, and code of users
        text = type(value).__name__
    text = printable(text)
    return text if len(text) <= most else text[:most] + "..."


def count_of(value: object, field: str, least: int = 0, most: int = 2**31 - 1) -> int:
    """A whole number from `least` to `most`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise refuse(field, shown(value), f"a whole number, {least} or more") from None
    if isinstance(value, bool):
        raise refuse(field, shown(value), f"a whole number, {least} or more", f"use {int(value)} if that is intended")
    if number < least:
        raise refuse(field, shown_number(number), f"a whole number, {least} or more")
    if number > most:
        raise refuse(field, shown_number(number), f"a whole number of at most {most}")
    return number


def shown_number(number: int) -> str:
    """Prints a number: Python refuses to print numbers of thousands of digits in decimal."""
    return str(number) if number.bit_length() < 200 else f"a number of {number.bit_length()} bits"


def threads_of(value: object) -> int:
    """The number of threads; 0: all cores of this machine."""
    return count_of(value, "threads") or os.cpu_count() or 1


def number_of(value: object, field: str) -> float:
    """A number as a float; text and True are not accepted."""
    try:
        if isinstance(value, (str, bytes, bytearray, bool)):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise refuse(field, shown(value), "a number") from None


def flag_of(value: object, field: str) -> bool:
    """True or False, NumPy's and 0 and 1 included."""
    if type(value).__name__ in ("bool", "bool_") or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise refuse(field, shown(value), "True or False")


def text_of(value: object, field: str, example: str) -> str | None:
    """A text in UTF-8, or nothing."""
    if value is None:
        return value
    if not isinstance(value, str):
        raise refuse(field, shown(value), f"a string, such as {example!r}")
    try:
        value.encode()
    except UnicodeError:
        raise refuse(field, ascii(value)[:80], "a string in valid UTF-8") from None
    return value


def near(name: str, names: Iterable[str]) -> str:
    """A hint with the names that were probably meant; empty if none is close."""
    import difflib  # only errors need it

    names = list(names)
    same = [known for known in names if known.lower() == name.lower()]
    if same:
        return f"did you mean {same[0]}?"
    close = difflib.get_close_matches(name.lower(), [known.lower() for known in names], 3, 0.6)
    spelt = [known for known in names if known.lower() in close]
    return f"did you mean {' or '.join(spelt)}?" if spelt else ""


def refuse(
    field: str,
    seen: object,
    legal: str,
    fix: str = "",
    source: str = "",
    code: str = "illegal_value",
    kind: type[Error] = Error,
) -> Error:
    """Makes an Error with one violation, for the caller to raise."""
    text = f"{field} = {seen}: must be {legal}" + (f"; {fix}" if fix else "") + (f" [{source}]" if source else "")
    return kind([Violation(field, str(seen), legal, fix, source, "error", text, code)])


def renamed(error: Error, old: str, new: str) -> Error:
    """The same error, with an argument by the name that it has in Python."""
    return Error(
        [
            violation._replace(field=new, text=violation.text.replace(old, new, 1))
            if violation.field == old
            else violation
            for violation in error.violations
        ]
    )


def no_such_argument(name: str, function: str, names: Iterable[str], fix: str = "") -> Error:
    """Makes an Error for an unknown keyword, for the caller to raise."""
    legal = ", ".join(names)
    text = f"{name}: no such argument of {function}" + (f"; {fix}" if fix else "") + f" (available: {legal})"
    return ArgumentError([Violation(name, "given", legal, fix, "", "error", text, "unknown_name")])
