# SPDX-License-Identifier: MIT
"""A state that is not that of a pickle raises an error of its own: nothing reads beyond it."""

import numpy as np
import pytest

import bitmma
from bitmma import _core

CLASSES = [_core.VectorFileValue, _core.CaseValue, _core.Plan, _core.Instruction]
PART = ("a", "U8", [0], np.zeros(0, np.uint8))
STATES = [
    (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5), None, 5, "text", [1, 2], {}, ((), "", "", "sm_90a"),
    (([],), "", "", "sm_90a"), (([PART],), "", "", "sm_90a"), (([PART], {}, {}), "", "", "sm_90a"),
    (([PART[:3]], {}), "", "", "sm_90a"), (([()], {}), "", "", "sm_90a"), (([5], {}), "", "", "sm_90a"),
    (([(*PART, 1)], {}), "", "", "sm_90a"), (([(1, 2, 3, 4)], {}), "", "", "sm_90a"),
    (([("a", "U8", [5], PART[3])], {}), "", "", "sm_90a"), (([("a", "U8", [-1], PART[3])], {}), "", "", "sm_90a"),
    (([PART], {1: 2}), "", "", "sm_90a"), (([PART], []), "", "", "sm_90a"), (({}, {}), "", "", "sm_90a"),
    ((5, 5), 5, 5, 5), ((), ()), ([], {}), ([()], {}), ([PART], {}), ("{}", None, ""), ("", 5, 5), (0, {}), (10**9, {}),
    (-1, {}), (3, {"m": 5}), (0, {1: 2}), (None, None)]  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_malformed_state_is_refused(kind):
    for state in STATES:
        fresh = kind.__new__(kind)
        try:
            fresh.__setstate__(state)
        except (bitmma.Error, TypeError):
            continue
        repr(fresh)  # a whole state
