"""Instructions from named fields."""

import inspect
import pickle

import numpy as np
import pytest

import bitmma


def test_every_instruction_is_what_its_fields_make():
    makers = {
        "wgmma": bitmma.wgmma,
        "mma.sync": bitmma.mma_sync,
        "tcgen05": bitmma.tcgen05,
        "tcgen05 moves": bitmma.tmem_move,
    }
    seen = set()
    for instruction in bitmma.all_instructions()[::17]:
        fields = {name: value for name, value in instruction.fields.items() if value != ""}
        assert makers[instruction.family](**fields) == instruction
        assert pickle.loads(pickle.dumps(instruction)) == instruction and instruction.with_fields() == instruction
        seen.add(instruction.family)
    assert seen == set(makers)


def test_factories_say_their_fields():
    for factory in (bitmma.wgmma, bitmma.mma_sync, bitmma.tcgen05, bitmma.tmem_move):
        names = set(inspect.signature(factory).parameters)
        made = factory()
        assert names == set(made.fields)
        for name in names:
            assert f"\n    {name} " in factory.__doc__


def test_fields_follow_from_others():
    assert bitmma.mma_sync(a="e4m3", d="f16", k=16).k == 16
    assert bitmma.mma_sync(a=np.float16).a == "f16"
    assert bitmma.tmem_move("ld.red", num=4).fields["reduction"] == "min"
    instruction = bitmma.tcgen05("mxf8f6f4", m=128, n=64, a="e2m1")
    assert (instruction.b, instruction.k, instruction.with_fields(sparse=True).k) == ("e2m1", 32, 64)
    assert instruction.with_fields(n=np.int64(128)).n == 128


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bitmma.wgmma(n=12), "n = 12: must be 8..256"),
        (lambda: bitmma.wgmma(n="8"), "n = 8: must be a number"),
        (lambda: bitmma.wgmma(n=8.5), "n = 8.5: must be a flag, a 64-bit number or a word"),
        (lambda: bitmma.wgmma(n=1 << 70), "n = "),
        (lambda: bitmma.wgmma(kind="f16"), "field = kind: must be m, n, d"),
        (lambda: bitmma.tcgen05("f17"), "kind = f17: must be f16"),
        (lambda: bitmma.tcgen05(sparse=1), "sparse = 1: must be true or false"),
        (lambda: bitmma.mma_sync(a="f17"), "f17"),
        (lambda: bitmma.tmem_move("ld", num=3), "num = 3|.num"),
        (lambda: bitmma.wgmma().with_fields(m=64, x=1), "field = x"),
    ],
)
def test_what_is_wrong_is_refused_by_name(make, message):
    with pytest.raises(bitmma.Error, match=message):
        make()
