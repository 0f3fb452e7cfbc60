"""Requests that are wrong, or easily mistaken: each is refused with what to do, or means what it says."""

from __future__ import annotations

import functools
import json
import os
import signal
import threading
import time
import warnings

import ml_dtypes
import numpy as np
import pytest

import bitmma
from conftest import DATA, same_bits

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
LD = "tcgen05.ld.sync.aligned.32x32b.x8.b32"
X = np.arange(16 * 256, dtype=np.float32).reshape(16, 256).astype(ml_dtypes.bfloat16)
W = np.ones((24, 256), ml_dtypes.bfloat16)
A, B = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16)


def refusal(call) -> str:
    with pytest.raises(bitmma.Error) as error:
        call()
    return str(error.value)


def test_every_named_plan_reads_what_is_given():
    """Bias, C and alpha count by any name that is one chain: "flat" is one of them."""
    bias, c = np.arange(24, dtype=np.float32), np.full((16, 24), 3, np.float32)
    exact = X.astype(np.float64) @ W.T.astype(np.float64)
    for plan in (None, "flat", "triton"):
        assert (bitmma.gemm(X, W.T, plan, bias=bias) == (exact + bias).astype(np.float32)).all()
        assert (bitmma.gemm(X, W.T, plan, c=c) == (exact + c).astype(np.float32)).all()
        assert (bitmma.gemm(X, W.T, plan, alpha=2) == (2 * exact).astype(np.float32)).all()
        assert (bitmma.gemm(-X, W.T, plan, relu=True) <= 0).all()
        assert (bitmma.gemm(X, W.T, plan, scale_a=0.5, scale_b=4.0) == (2 * exact).astype(np.float32)).all()


def test_what_a_plan_does_not_read_is_refused():
    plan = {"instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"}
    vector = np.ones(24, np.float32)
    for arguments, field in (
        ({"bias": vector}, "bias"),
        ({"c": np.ones((16, 24), np.float32)}, "c"),
        ({"scale_a": 2.0, "scale_b": 1.0}, "scale_a"),
        ({"alpha": 2.0}, "alpha"),
        ({"relu": True}, "relu"),
        ({"split_k": 3}, "split_k"),
        ({"out_dtype": "bf16"}, "out_dtype"),
        ({"beta": 2.0}, "beta"),
    ):
        assert refusal(functools.partial(bitmma.gemm, X, W.T, plan, **arguments)).startswith(field), field
    for arguments, field in (({"split_k": 4}, "split_k"), ({"scale_a": 3.0}, "scale_a"), ({"beta": 2.0}, "beta")):
        assert refusal(functools.partial(bitmma.gemm, X, W.T, "flat", **arguments)).startswith(field), field
    assert "out_dtype" in refusal(
        lambda: bitmma.gemm(np.ones((4, 32), np.int8), np.ones((32, 8), np.int8), out_dtype="bf16")
    )
    assert "kernel" in refusal(lambda: bitmma.gemm(X, W.T, "flat", kernel="nvjet_sm90_x"))
    assert "kernel" in refusal(lambda: bitmma.find_plans(X, W.T, bitmma.gemm(X, W.T), kernel="nvjet", among=[]))
    assert bitmma.find_plans(X, W.T, bitmma.gemm(X, W.T), among=[]) == []
    assert "rows" in refusal(lambda: bitmma.gemm(X[None], W.T, rows=[0]))


def test_kernels_say_their_gpu():
    fp8 = np.ones((16, 256), ml_dtypes.float8_e4m3fn)
    other = np.ones((256, 8), ml_dtypes.float8_e4m3fn)
    name = "nvjet_sm100_qqtst_128x64_64x4_1x1_h_bz_TNT"
    operands = bitmma.find_plans(fp8, other, bitmma.gemm(fp8, other, kernel=name), kernel=name)
    assert operands[0].target == "sm_100a"
    assert "sm_100a" in refusal(lambda: bitmma.gemm(fp8, other, kernel=name, target="sm_90a"))
    assert "sm_80" in refusal(
        lambda: bitmma.gemm(X, W.T, kernel="nvjet_sm90_tst_64x8_64x16_1x1_h_bz_TNT", target="sm_80")
    )
    assert (bitmma.gemm(X, W.T, "blackwell") == bitmma.gemm(X, W.T, "flat", target="sm_100a")).all()


def test_slices_must_hold_something():
    assert "10000" in refusal(lambda: bitmma.gemm(X, W.T, "nvjet-splitK", split_k=10000))
    assert "split_k" in refusal(lambda: bitmma.gemm(X, W.T, "nvjet-splitK", split_k=-1))
    lost = bitmma.Plan(
        {
            "instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
            "split_k": {"count": 9, "unit": 64, "rule": "nvjet"},
        }
    )
    assert lost.k_added(4096) == 4096 and lost.k_added(11528) < 11528


def test_plans_without_an_instruction_have_the_flat_one():
    plan = {"promotion": {"every": 128}}
    fp8 = np.ones((4, 512), ml_dtypes.float8_e4m3fn)
    assert (bitmma.gemm(fp8, fp8.T[:, :4], plan) == 512).all()


def test_orders_of_bytes_and_ranges():
    swapped = A.astype(">f2")
    assert "big-endian" in refusal(lambda: bitmma.mma(MMA, swapped, B))
    assert "big-endian" in refusal(lambda: bitmma.codes(np.ones((3, 3), ">u2"), "bf16"))
    state = {"tmem": np.ones((128, 512), ">u4"), "taddr": 0, "warp": 0}
    assert "big-endian" in refusal(lambda: bitmma.execute(LD, "sm_100a", state))
    s4 = "mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32"
    good = np.full((16, 64), -8, np.int8), np.full((64, 8), 15, np.uint8)
    assert (bitmma.mma(s4, *good, target="sm_80") == -8 * 15 * 64).all()
    assert "8" in refusal(lambda: bitmma.mma(s4, np.full((16, 64), 8, np.int8), good[1], target="sm_80"))
    assert "17" in refusal(lambda: bitmma.mma(s4, good[0], np.full((64, 8), 17, np.uint8), target="sm_80"))
    sparse = bitmma.wgmma(n=8, sparse=True)
    assert "0..15" in refusal(
        lambda: bitmma.mma(
            sparse,
            np.ones((64, 16), np.float16),
            np.ones((32, 8), np.float16),
            metadata=np.full((64, 8), 0x44, np.uint8),
        )
    )


def test_arrays_that_lost_their_type(tmp_path):
    np.save(tmp_path / "x.npy", X)
    loaded = np.load(tmp_path / "x.npy")
    assert "view(ml_dtypes.bfloat16)" in refusal(lambda: bitmma.gemm(loaded, W.T))
    assert same_bits(bitmma.gemm(loaded.view(ml_dtypes.bfloat16), W.T), bitmma.gemm(X, W.T))
    assert same_bits(bitmma.gemm(bitmma.codes(loaded, "bf16"), W.T), bitmma.gemm(X, W.T))
    assert same_bits(bitmma.gemm(bitmma.codes(X.view(np.int16), "bfloat16"), W.T), bitmma.gemm(X, W.T))
    assert "codes(array" in refusal(lambda: bitmma.mma(MMA, A.view(np.int16), B))
    assert "masked" in refusal(lambda: bitmma.mma(MMA, np.ma.masked_equal(A, 1), B))
    assert "float8_e4m3fn" in refusal(lambda: bitmma.gemm(X.astype(ml_dtypes.float8_e4m3fnuz), W.T))
    for name, nearest in (
        ("float8_e4m3fnuz", "float8_e4m3fn"),
        ("float8_e5m2fnuz", "float8_e5m2"),
        ("float8_e4m3b11fnuz", "float8_e4m3fn"),
        ("float8_e4m3", "float8_e4m3fn"),
        ("float8_e3m4", "float8_e4m3fn"),
    ):
        other = np.ones((16, 32), np.float32).astype(getattr(ml_dtypes, name))
        for function, *arguments in (
            (bitmma.gemm, other, other.T),
            (bitmma.codes, other, "e4m3"),
            (bitmma.codes, other, "e5m2"),
            (bitmma.mma, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", other, other[:8].T),
        ):
            with pytest.raises(bitmma.Error) as error:
                function(*arguments)
            fix = error.value.violations[0].fix
            assert "view" not in fix and f"astype(ml_dtypes.{nearest})" in fix
        assert (other.astype(getattr(ml_dtypes, nearest)).astype(np.float32) == 1).all()  # the advice keeps the values


def test_results_saved_as_float32_are_recognised():
    d = bitmma.gemm(X, W.T, out_dtype="bf16") + np.array(0, ml_dtypes.bfloat16)
    noisy = (d.astype(np.float32) * np.float32(1.5)).astype(ml_dtypes.bfloat16)
    with pytest.warns(UserWarning, match="astype"):
        assert bitmma.find_plans(X, W.T, noisy.astype(np.float32)) == []


def test_types_that_go_together_are_listed():
    message = refusal(lambda: bitmma.gemm(X, W.T.astype(np.float16)))
    assert "bf16 x bf16" in message and "e4m3 x e5m2" in message and "sm_90a" in message
    fp4 = np.ones((16, 64), ml_dtypes.float4_e2m1fn)
    assert "bf16 x bf16" in refusal(lambda: bitmma.gemm(fp4, fp4.T))
    assert (bitmma.gemm(fp4, fp4.T, target="sm_120a") == 64).all() and (
        bitmma.gemm(fp4, fp4.T, target="sm_100a") == 64
    ).all()
    assert bitmma.gemm(X[:0], W.T).shape == (0, 24)
    assert bitmma.Plan({"instruction": MMA, "target": "sm_90"}).fields["target"] == "sm_90"


def test_products_know_what_they_need():
    for name in (
        "nvjet_fast_e4m3_bf16_k1024",
        "nvjet_split3_bf16_k4096",
        "cutlass80_tf32_k512",
        "lost_tail_bf16_k11528",
    ):
        product = bitmma.read_product(DATA / "products" / f"{name}.safetensors")
        assert same_bits(product.gemm(), product.d), name
    assert product.find_plans() and (product.gemm("flat") != product.d).any()
    path = DATA / "products" / "nvjet_flat_f16_k1024.safetensors"
    assert "read_product" in refusal(lambda: bitmma.read(path))


def test_words_are_read_in_one_way():
    assert "0x4000004000010000" in refusal(lambda: bitmma.decode("4000004000010000"))
    assert bitmma.decode("0x4000004000010000ULL") == bitmma.decode(0x4000004000010000)
    assert bitmma.decode(0x08100010, kind="kind::f16")["n"] == 64
    assert bitmma.encode(swizzle="128B") == bitmma.encode(swizzle="128")


def test_an_instruction_descriptor_is_asked_for():
    state = {
        "smem": np.zeros(49152, np.uint8),
        "tmem": np.zeros((128, 512), np.uint32),
        "d_tmem": 0,
        "a_desc": 0x4000404000010000,
        "b_desc": 0x4000404000010400,
    }
    name = "tcgen05.mma.cta_group::1.kind::f16"
    assert "idesc = (missing)" in refusal(lambda: bitmma.execute(name, "sm_100a", dict(state)))
    assert "tmem_after" in bitmma.execute(name, "sm_100a", {**state, "idesc": 0x08100010})
    with pytest.raises(bitmma.Error, match="smem"):
        bitmma.execute(name, "sm_100a", {**state, "idesc": 0x08100010, "smem": np.zeros(49152, np.int64)})


@pytest.mark.parametrize("wrong", ["2", None, 2.0, -1])
def test_numbers_of_threads(wrong):
    assert "threads" in refusal(lambda: bitmma.gemm(X, W.T, threads=wrong))
    assert "threads" in refusal(lambda: bitmma.mma(MMA, A, B, threads=wrong))
    assert same_bits(bitmma.mma(MMA, A, B, threads=0), bitmma.mma(MMA, A, B))


def test_mistaken_arguments():
    assert "instruction" in refusal(lambda: bitmma.mma(A, B, MMA))
    assert "bitmma.gemm" in refusal(
        lambda: bitmma.mma(MMA, np.ones((64, 64), np.float16), np.ones((64, 64), np.float16))
    )
    assert "m16n8k18" in refusal(
        lambda: bitmma.mma("mma.sync.aligned.m16n8k18.row.col.f32.f16.f16.f32", A, B)
    ) or "K" in refusal(lambda: bitmma.mma("mma.sync.aligned.m16n8k18.row.col.f32.f16.f16.f32", A, B))
    assert "target" in refusal(lambda: bitmma.gemm(X, W.T, target=81))
    assert same_bits(bitmma.gemm(X, W.T, target=80), bitmma.gemm(X, W.T, target="sm_80"))
    assert "nvjet-splitK" in refusal(lambda: bitmma.gemm(X, W.T, "nvjet-splitk"))
    assert same_bits(bitmma.gemm(X, W.T, out_dtype=ml_dtypes.bfloat16), bitmma.gemm(X, W.T, out_dtype="bfloat16"))
    assert bitmma.wgmma(n=8, a="float8_e4m3fn").a == "e4m3" and bitmma.instruction(f"  {MMA} ").k == 16
    assert "among" in refusal(lambda: bitmma.find_plans(X, W.T, bitmma.gemm(X, W.T), among=["flat"]))
    case = bitmma.golden(MMA, cases=1)[0]
    d = case.computed_d()
    assert "actual" in refusal(lambda: bitmma.diagnose(case, [d, d]))
    explanation = bitmma.explain(case, 0, 0)
    assert "rule" in explanation and dict(explanation)["row"] == 0 and json.dumps(explanation.json)
    file = bitmma.golden(MMA, cases=3)
    assert len(file[1:]) == 2
    with pytest.raises(IndexError):
        file[3]


def test_hostile_values_are_refused(tmp_path):
    for state in ((MMA,), (MMA, {}), (1, {}, None), (MMA, None, None)):
        with pytest.raises((bitmma.Error, TypeError)):
            bitmma.Instruction.__new__(bitmma.Instruction).__setstate__(state)
    for state in (("{}",), (1, 2, 3), ("{}", 2**70, "")):
        with pytest.raises((bitmma.Error, TypeError)):
            bitmma.Plan.__new__(bitmma.Plan).__setstate__(state)
    with pytest.raises((bitmma.Error, TypeError)):
        bitmma.Plan(5)
    objects = np.full((16, 16), object(), object)
    for call in (
        lambda: bitmma.mma(MMA, bitmma.Codes(objects, "f16"), B),
        lambda: bitmma.gemm(bitmma.Codes(objects, "f64"), np.ones((16, 8))),
        lambda: bitmma.gemm(X, W.T, rows="1234"),
        lambda: bitmma.gemm(X, W.T, rows=[1.9] * 16),
        lambda: bitmma.gemm(X, W.T, whole=(1,)),
        lambda: bitmma.gemm(X, W.T, alpha=1e300),
        lambda: bitmma.gemm(X, W.T, alpha=float("nan")),
        lambda: bitmma.layout.smem_svg(0, 2**20, 2**20),
        lambda: bitmma.layout.cute("(8,16):(16,1)", element_bits=-1),
        lambda: bitmma.layout.tmem_a(128, 16, element_bits=0),
        lambda: bitmma.instruction("a" + "\u00e9" * 60),
        lambda: bitmma.execute(MMA, None, {1: 5}),
        lambda: bitmma.execute(MMA, None, {"a_regs": None}),
        lambda: bitmma.golden(MMA, cases=1, first_case=2**62),
        lambda: bitmma.write(tmp_path / "a\0b", bitmma.golden(MMA)),
        lambda: bitmma.read("files/\udcff"),
    ):
        refusal(call)
    assert not (tmp_path / "a").exists()
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # AddressSanitizer ends the process where memory is out
        with pytest.raises((MemoryError, bitmma.Error)):
            bitmma.golden(MMA, cases=2**47)


def test_a_file_that_becomes_shorter(tmp_path):
    path = tmp_path / "cases.safetensors"
    bitmma.write(path, bitmma.golden(MMA, cases=50))
    file = bitmma.read(path)
    case = file[40]
    with open(path, "r+b") as cut:
        cut.truncate(4000)
    assert bitmma.verify(file).mismatches == 0 and same_bits(case.computed_d(), case.recorded_d())


def test_many_threads_and_few():
    x, y = np.ones((1024, 16), np.float16), np.ones((16, 1024), np.float16)
    assert (bitmma.gemm(x, y, threads=10**6) == 16).all()


def interrupted(call) -> None:
    """Ctrl-C while `call` runs, again and again, ends it soon."""
    # A process that a script starts in the background ignores interrupts; Python then installs no handler.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    sent = []
    try:
        timer = threading.Timer(0.3, lambda: (sent.append(time.monotonic()), signal.raise_signal(signal.SIGINT)))
        timer.start()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it comes in one of the calls
            for _ in range(50):
                call()
        timer.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert time.monotonic() - sent[0] < 10  # a busy machine's; about a tenth of a second else


def test_an_interrupt_ends_a_long_product():
    x, y = np.ones((2048, 8192), np.float16), np.ones((8192, 2048), np.float16)
    interrupted(lambda: bitmma.gemm(x, y))


def test_a_plan_by_name_is_refused_for_types_and_gpus_that_it_is_not_for():
    half, fp8 = np.ones((4, 256), np.float16), np.ones((4, 256), ml_dtypes.float8_e4m3fn)
    single, brain = half.astype(np.float32), half.astype(ml_dtypes.bfloat16)
    for plan, x in (
        ("nvjet-algo2", half),
        ("nvjet-algo2", single),
        ("nvjet-algo2", brain),
        ("nvjet-algo2", half.astype(np.int8)),
        ("sgemm", brain),
        ("xmma-tf32", half),
        ("h16816", brain),
        ("deepgemm", half),
        ("nvjet-splitK", half.astype(np.int8)),
    ):
        with pytest.raises(bitmma.Error) as error:
            bitmma.gemm(x, x.T, plan, split_k=2 if "split" in plan else 0)
        assert error.value.violations[0].field == "types" and " x " in error.value.violations[0].legal, (plan, x.dtype)
    for target in ("A100", "B200"):
        with pytest.raises(bitmma.Error) as error:
            bitmma.gemm(fp8, fp8.T, "nvjet-algo2", target=target)
        assert error.value.violations[0].field == "target"

    def how(x, plan, **arguments):
        return bitmma.gemm(x, x.T, plan, return_plan=True, **arguments)[1].evidence["plan"]

    assert (
        how(fp8, "nvjet-algo2", out_dtype="bf16") == "measured: H100, H200"
        and how(fp8, "nvjet-algo2", out_dtype="f16") == "measured: H100"
    )
    assert how(fp8, "nvjet-algo2", out_dtype="e5m2").startswith("model choice: D e5m2")
    assert how(half.astype(np.uint8), "flat").startswith("model choice: u8 x u8")
    assert how(single, "sgemm", target="V100").startswith("model choice on sm_70")
    assert how(fp8, "flat", target="sm_90").startswith("model choice on sm_90")
    row = next(entry for entry in bitmma.catalogue() if entry.name == "nvjet-algo2")
    assert row.gpus == "sm_90" and ("e4m3 x e4m3", "f16", "measured: H100") in row.types and row.most_k is None


def test_what_is_given_among_plans_acts_or_is_refused():
    d, plan = bitmma.gemm(X, W.T, return_plan=True)
    for operands in (dict(bias=np.ones(d.shape[1], np.float32)), dict(c=d), dict(scale_a=1.0), dict(kernel="nvjet")):
        with pytest.raises(bitmma.Error) as error:
            bitmma.find_plans(X, W.T, d, among=[plan], **operands)
        assert error.value.violations[0].field == next(iter(operands))
    assert list(bitmma.find_plans(X, W.T, d, among=[plan])) == [plan]


def test_loose_values_are_refused():
    d = bitmma.gemm(X, W.T)
    for call, field in (
        (lambda: bitmma.gemm(X, W.T, split_k=True), "split_k"),
        (lambda: bitmma.gemm(X, W.T, alpha="2"), "alpha"),
        (lambda: bitmma.gemm(X, W.T, alpha=True), "alpha"),
        (lambda: bitmma.gemm(X, W.T, threads=True), "threads"),
        (lambda: bitmma.find_plans(X, W.T, d, timeout="5"), "timeout"),
        (lambda: bitmma.find_plans(X, W.T, d, progress=3), "progress"),
        (lambda: bitmma.find_plans(X, W.T, d, progress=print, foo=3), "foo"),
        (lambda: bitmma.gemm(X, W.T, out_dtype="tf32"), "out_dtype"),
        (
            lambda: bitmma.Plan('{"instruction": "fma.rn.f32", "split_k": {"count": 2}, "split_k": {"count": 3}}'),
            "plan: split_k",
        ),
        (lambda: bitmma.Instruction(), "instruction"),
        (lambda: bitmma.Plan(), "plan"),
    ):
        with pytest.raises(bitmma.Error) as error:
            call()
        assert error.value.violations[0].field == field
    product = bitmma.read_product(DATA / "products" / "nvjet_algo2_e4m3_k1024.safetensors")
    for wrong in (lambda: product.find_plans(5), lambda: product.gemm("flat", 7), lambda: product.gemm(x=3)):
        with pytest.raises(bitmma.Error):
            wrong()


def test_wrong_block_scales_are_told_what_is_legal():
    e2m1 = bitmma.codes(np.ones((8, 128), np.uint8), "e2m1")
    fp8, half = np.ones((8, 128), ml_dtypes.float8_e4m3fn), np.ones((8, 128), np.float16)
    ue4m3, ue8m0 = np.ones((8, 8), ml_dtypes.float8_e4m3fn), np.ones((8, 4), ml_dtypes.float8_e8m0fnu)
    for x, sfa, sfb, field, legal in (
        (e2m1, ue4m3[:, :4], ue4m3, "sfa", "8 x 8 ue4m3"),
        (e2m1, ue4m3, None, "sfb", "both operands"),
        (e2m1, None, ue4m3, "sfa", "both operands"),
        (e2m1, ue4m3.view(np.uint8), ue4m3, "sfa", "float8_e8m0fnu"),
        (fp8, ue4m3, ue4m3, "sfa", "8 x 4 ue8m0"),
        (fp8, ue8m0, ue8m0, "sfb", "4 x 8 ue8m0"),
        (half, ue8m0, ue8m0.T, "types", "8 bits and less"),
        (fp8, 2.0, ue8m0.T, "sfa", "an array"),
    ):
        with pytest.raises(bitmma.Error) as error:
            bitmma.gemm(x, x.T, sfa=sfa, sfb=sfb)
        assert (error.value.violations[0].field, legal in error.value.violations[0].legal) == (field, True), str(
            error.value
        )
    with pytest.raises(bitmma.Error) as error:
        bitmma.gemm(fp8, fp8.T, sfa=ue8m0, sfb=ue8m0.T, target="H100")
    assert error.value.violations[0].seen == "sm_90a"
    with pytest.raises(bitmma.Error, match="sfa and sfb"):
        bitmma.gemm(fp8, fp8.T, scale_a=ue8m0, scale_b=ue8m0.T)
    with pytest.raises(bitmma.Error, match="one per row"):
        bitmma.gemm(fp8, fp8.T, scale_a=np.ones(8, np.float32), scale_b=1.0)
    instruction = bitmma.tcgen05("mxf4nvf4", m=128, n=8)
    a, b = bitmma.codes(np.zeros((128, 64), np.uint8), "e2m1"), bitmma.codes(np.zeros((64, 8), np.uint8), "e2m1")
    with pytest.raises(bitmma.Error, match='scale_type="ue4m3"') as error:
        bitmma.mma(
            instruction,
            a,
            b,
            scale_a=np.ones((128, 4), ml_dtypes.float8_e4m3fn),
            scale_b=np.ones((4, 8), ml_dtypes.float8_e4m3fn),
        )
    assert "np.save" not in str(error.value)
    with pytest.raises(bitmma.Error, match="no block scales"):
        bitmma.mma(
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
            np.ones((64, 16), np.float16),
            np.ones((16, 8), np.float16),
            scale_a=ue8m0,
        )


def test_accuracy_ends_at_ctrl_c():
    x, d = np.ones((2048, 8192), np.float16), np.ones((2048, 2048), np.float32)
    interrupted(lambda: bitmma.accuracy(x, x.T, d))


RENAMED = {
    "gemm output": (lambda **how: bitmma.gemm(X, W.T, **how), "output", "out_dtype", "bf16"),
    "gemm dtype": (lambda **how: bitmma.gemm(X, W.T, **how), "dtype", "out_dtype", "bf16"),
    "explain_product output": (
        lambda **how: bitmma.explain_product(X, W.T, "flat", 1, 1, **how).fields,
        "output",
        "out_dtype",
        "f16",
    ),
    "quantized_gemm output": (
        lambda **how: bitmma.quantized_gemm(*[bitmma.quantize(X, "ocp_mxfp8_e4m3")] * 2, target="sm_100a", **how),
        "output",
        "out_dtype",
        "bf16",
    ),
    "matmul gpu": (lambda **how: bitmma.matmul(X, W.T, nearest=True, **how), "gpu", "target", "H100"),
    "library_choice gpu": (lambda **how: bitmma.library_choice(16, 4096, 4096, **how), "gpu", "target", "H200"),
}


@pytest.mark.filterwarnings("ignore:cublas:UserWarning")
@pytest.mark.parametrize("what", RENAMED)
def test_keywords_of_the_release_before_still_act_and_are_warned_of(what):
    call, old, new, value = RENAMED[what]
    with pytest.warns(DeprecationWarning, match=f"{old} of bitmma.* is called {new}") as warned:
        before = call(**{old: value})
    assert [warning.filename for warning in warned if warning.category is DeprecationWarning] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        after = call(**{new: value})
    assert same_bits(before, after) if isinstance(after, np.ndarray) else before == after
    assert old in refusal(lambda: call(**{old: value, new: value}))
