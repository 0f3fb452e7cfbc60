# SPDX-License-Identifier: MIT
"""Reads JSON of files without trusting its depth: functions that walk a tree are recursive, and Python's stack is finite."""
from __future__ import annotations

import json
from typing import Any

from ._errors import refuse

MOST_DEPTH = 64


def parse_json(text: str, field: str) -> Any:
    """The value of a text. Raises Error, which names `field`, if it is not JSON or nests deeper than MOST_DEPTH."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise refuse(field, "nested too deeply", f"JSON of at most {MOST_DEPTH} levels") from None
    except ValueError as error:
        raise refuse(field, "not readable", "JSON", str(error)) from None
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [child for part in level for child in (part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())]
        if not level:
            return value
    raise refuse(field, "nested too deeply", f"JSON of at most {MOST_DEPTH} levels")
