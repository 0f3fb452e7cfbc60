# SPDX-License-Identifier: MIT
"""Reads JSON of files without trusting its depth: functions that walk a tree are recursive, and Python's stack is
finite."""

from __future__ import annotations

import json
from typing import Any

from ._errors import refuse, shown

MOST_DEPTH = 64


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two fields of one name Python would keep the last one, and other readers the first one."""
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"the name {shown(next(name for name in names if names.count(name) > 1))} appears twice in one object"
        )
    return made


def parse_json(text: str | bytes, field: str) -> Any:
    """The value of a text. Raises Error, which names `field`, if it is not JSON, has two fields of one name in an
    object, or nests deeper than MOST_DEPTH."""
    try:
        value = json.loads(text, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise refuse(field, "nested too deeply", f"JSON of at most {MOST_DEPTH} levels") from None
    except ValueError as error:
        raise refuse(field, "not readable", "JSON", str(error)) from None
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [
            child
            for part in level
            for child in (part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
        ]
        if not level:
            return value
    raise refuse(field, "nested too deeply", f"JSON of at most {MOST_DEPTH} levels")
