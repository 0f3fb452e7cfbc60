# SPDX-License-Identifier: MIT
"""For adapters that change their host: checks the private names that an adapter needs, replaces and restores them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

Needs = Mapping[str, Mapping[str, "str | None"]]
"""Maps a module to dotted names in it, and each name to its parameters in order, separated by spaces; None if only the
name matters."""


def look_up(module: str, name: str) -> Any:
    """The object of a dotted name, or None."""
    try:
        value: Any = importlib.import_module(module)
    except ImportError:
        return None
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def differences(needs: Needs) -> Iterator[tuple[str, str, str]]:
    """For every difference: the name, what the installed host has, and what the adapter needs."""
    for module, names in needs.items():
        for name, parameters in names.items():
            value = look_up(module, name)
            if value is None:
                yield f"{module}.{name}", "nothing", "there" if parameters is None else "a function"
            elif parameters is not None:
                try:
                    seen = ", ".join(inspect.signature(value).parameters)
                except (TypeError, ValueError):
                    seen = f"{type(value).__name__} without a signature"
                if seen != (legal := ", ".join(parameters.split())):
                    yield f"{module}.{name}", f"({seen})", f"({legal})"


class Patches:
    """Replaces attributes of a host, and restores them."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, value)

    def undo(self) -> bool:
        """Restores the attributes, the last one first. Returns whether anything was replaced."""
        replaced = bool(self._before)
        while self._before:
            owner, name, before = self._before.pop()
            if before is None:  # the owner inherited the attribute from its class
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        return replaced
