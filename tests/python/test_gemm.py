"""Whole products: recorded calls of cuBLAS and Triton, plans, the search."""

from __future__ import annotations

import html
import json
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

import bitmma
from conftest import DATA, bits, same_bits

PROMOTED = {"instruction": "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3", "promotion": {"every": 128}}


def test_recorded_products_have_their_bits():
    product = bitmma.read_product(DATA / "products" / "nvjet_algo2_e4m3_k4096.safetensors")
    assert product.kernel.startswith("nvjet") and product.a.shape == (8, 4096) and product.b.shape == (4096, 16)
    for plan in (PROMOTED, json.dumps(PROMOTED), bitmma.Plan(PROMOTED), "nvjet-algo2"):
        assert same_bits(bitmma.gemm(product.a, product.b, plan), product.d)
    assert (bits(bitmma.gemm(product.a, product.b, "flat")) != bits(product.d)).any()
    assert same_bits(bitmma.gemm(product.a, product.b, kernel=product.kernel), product.d)


def test_recorded_calls_of_libraries(recorded_calls):
    """Every 25th of the recorded calls, by the name of its kernel alone, operands made from their seed. Names that the
    catalogue does not know are searched."""
    outputs = computed = searched = 0
    without_a_plan = []
    for path in recorded_calls[::25]:
        product = bitmma.read_product(path)
        a, b, d, operands = product.a, product.b, product.d, product.operands()
        try:
            plans = bitmma.find_plans(a, b, d, kernel=product.kernel, target=product.target, **operands)
        except bitmma.Error as error:
            assert "kernel" in error.violations[0].field
            searched += 1
            plans = bitmma.find_plans(a, b, d, target=product.target, threads=2, **operands)
        if not plans:
            without_a_plan.append(product.kernel)
            continue
        assert same_bits(bitmma.gemm(a, b, plans[0], **operands), d), path.name
        outputs += d.size
        computed += 1
    print(f"{outputs} outputs of {computed} calls, {searched} of them searched; without a plan: {without_a_plan}")
    # The kernels of CUDA cores that docs/products.md names as not understood.
    assert all("gemvx" in name or "dot_kernel" in name for name in without_a_plan) and len(without_a_plan) <= 4
    assert computed >= 78


def test_find_plans_best_first_and_nearest():
    product = bitmma.read_product(DATA / "products" / "lost_tail_bf16_k11528.safetensors")
    plans = bitmma.find_plans(product.a, product.b, product.d)
    assert plans and plans[0].differing == 0 and "nvjet" in str(plans[0])
    assert same_bits(bitmma.gemm(product.a, product.b, plans[0]), product.d)
    wrong = product.d.copy()
    wrong[0, 0] = 0
    among = [plans[0]]
    assert bitmma.find_plans(product.a, product.b, wrong, among=among) == []
    near = bitmma.find_plans(product.a, product.b, wrong, among=among, nearest=True)
    assert [plan.differing for plan in near] == [1] and near[0].pattern


def test_operands_of_any_strides_and_threads():
    random = np.random.default_rng(1)
    x = random.standard_normal((40, 300)).astype(ml_dtypes.bfloat16)
    w = random.standard_normal((24, 300)).astype(ml_dtypes.bfloat16)
    d = bitmma.gemm(x, w.T, "flat", out_dtype="bf16")
    assert d.dtype == ml_dtypes.bfloat16 and d.shape == (40, 24)
    assert same_bits(d, bitmma.gemm(x.copy(order="F"), np.ascontiguousarray(w.T), out_dtype="bf16", threads=2))
    assert same_bits(d[::2, ::-1], bitmma.gemm(x[::2], w.T[:, ::-1], out_dtype="bf16"))


def test_a_chain_is_its_instructions():
    """gemm from C on is one mma after the other."""
    random = np.random.default_rng(2)
    a = random.standard_normal((64, 64)).astype(np.float16)
    b = random.standard_normal((64, 8)).astype(np.float16)
    c = random.standard_normal((64, 8)).astype(np.float32)
    instruction = bitmma.wgmma(n=8)
    d = c
    for k in range(0, 64, 16):
        d = bitmma.mma(instruction, a[:, k : k + 16], b[k : k + 16], d)
    assert same_bits(bitmma.gemm(a, b, {"instruction": str(instruction), "start": "c"}, c=c), d)


def test_batches():
    random = np.random.default_rng(3)
    a = random.standard_normal((2, 3, 8, 32)).astype(np.float16)
    b = random.standard_normal((3, 32, 8)).astype(np.float16)
    d = bitmma.gemm(a, b)
    assert d.shape == (2, 3, 8, 8) and same_bits(d[1, 2], bitmma.gemm(a[1, 2], b[2]))


def test_epilogues_and_outputs():
    a, b = np.ones((4, 64), np.float16), np.ones((64, 8), np.float16)
    plan = {
        "instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16",
        "epilogue": [{"op": "scale_ab"}, {"op": "bias"}],
        "output": {"type": "e4m3"},
    }
    d = bitmma.gemm(a, b, plan, scale_a=0.5, scale_b=np.full((1, 8), 0.25, np.float32), bias=np.ones(8, np.float32))
    assert d.dtype == ml_dtypes.float8_e4m3fn and (d.astype(np.float32) == 9).all()
    with pytest.raises(bitmma.Error, match="bias"):
        bitmma.gemm(a, b, plan, scale_a=0.5, scale_b=0.25)


def test_what_is_wrong_is_said():
    a, b = np.ones((4, 64), np.float16), np.ones((64, 8), np.float16)
    for arguments, field in (
        ((a, b[:32]), "b"),
        ((a, b, "nvjet-lago2"), "plan"),
        ((a, b, {"instruction": "x"}), ""),
        ((a, b, {"instructoin": 1}), "instructoin"),
        ((a, b, 7), "plan"),
        ((a[0], b), "a"),
        ((a.astype(np.float64), b), ""),
        ((np.ones((4, 4096), np.float16), np.ones((4096, 8), np.float16), "nvjet-splitK"), "split_k"),
    ):
        try:
            bitmma.gemm(*arguments)
        except bitmma.Error as raised:
            error = raised
        else:
            pytest.fail(f"{field} is not refused: {arguments[2:]}")
        assert field in error.violations[0].field, error
    with pytest.raises(bitmma.Error):
        bitmma.gemm(a, b, target="sm_12")
    with pytest.raises(bitmma.Error, match="d"):
        bitmma.find_plans(a, b, np.ones((3, 8), np.float32))
    assert same_bits(bitmma.gemm(a, b, "nvjet-splitK", split_k=2), np.full((4, 8), 64, np.float32))


def test_plans_are_values():
    plan = bitmma.Plan(PROMOTED)
    assert plan == bitmma.Plan(plan.json) and hash(plan) == hash(bitmma.Plan(plan.json))
    assert plan.target == "sm_90a" and plan.output == "f32" and plan.differing is None
    assert json.loads(plan.json)["promotion"]["every"] == 128 and "promotion" in str(plan)
    assert plan.with_target("sm_90a") == plan
    names = {entry.name for entry in bitmma.catalogue()}
    assert {"flat", "nvjet-algo2", "triton"} <= names
    assert bitmma.evidence(plan).level == "measured on an NVIDIA H200"
    product = bitmma.read_product(DATA / "products" / "nvjet_algo2_e4m3_k4096.safetensors")
    plans = bitmma.find_plans(product.a, product.b, product.d, kernel=product.kernel)
    assert "H100" in "".join(bitmma.evidence(plans[0]).plan.values())
    assert bitmma.evidence(bitmma.Plan({"instruction": "fma.rn.f32"})).level == "IEEE 754"
    assert bitmma.Plan({**PROMOTED, "evidence": {"promotion": "H100"}}).evidence == {"promotion": "H100"}


def test_accuracy_is_exact():
    a, b = np.full((1, 4), 0.1, np.float16), np.ones((4, 1), np.float16)
    exact = float(np.float16(0.1)) * 4
    accuracy = bitmma.accuracy(a, b, np.array([[exact]], np.float32))
    assert accuracy.outputs == 1 and accuracy.max_ulp == 0
    off = bitmma.accuracy(a, b, np.nextafter(np.array([[exact]], np.float32), np.float32(1)))
    assert off.max_ulp == 1 and off.bias_ulp == 1


def test_generated_operands_are_those_of_recorded_calls(recorded_calls):
    product = bitmma.read_product(recorded_calls[0])
    keys = product.metadata
    whole = bitmma.generated(
        bitmma.format_of(product.a),
        (1, int(keys["k"])),
        int(keys["seed"]),
        "a",
        rows=product.rows or range(product.a.shape[0]),
    )
    assert same_bits(whole, product.a)


def test_integers_and_doubles():
    random = np.random.default_rng(5)
    a, b = random.integers(-9, 9, (64, 96)), random.integers(-9, 9, (96, 8))
    c = random.integers(-99, 99, (64, 8)).astype(np.int32)
    plan = {"instruction": "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8", "start": "c", "output": {"type": "s32"}}
    assert (bitmma.gemm(a.astype(np.int8), b.astype(np.int8), plan, c=c) == a @ b + c).all()
    assert (bitmma.gemm(a.astype(np.int8), b.astype(np.int8)) == a @ b).all()
    d = bitmma.gemm(a.astype(np.float64), b.astype(np.float64))
    assert d.dtype == np.float64 and (d == a @ b).all()


def test_types_of_tcgen05_travel_with_the_plan():
    a, b = np.ones((4, 64), ml_dtypes.float8_e5m2), np.ones((64, 8), ml_dtypes.float4_e2m1fn)
    (plan, *_) = bitmma.find_plans(a, b, np.full((4, 8), 64, np.float32), target="sm_100a")
    assert json.loads(plan.json)["types"] == {"a": "e5m2", "b": "e2m1"}
    assert (bitmma.gemm(a, b, plan.json) == 64).all()


def test_scales_of_blocks_have_their_shape():
    """A scale a column does not stand for one a block of 128 columns."""
    a, b = np.ones((2, 128), ml_dtypes.float8_e4m3fn), np.ones((128, 300), ml_dtypes.float8_e4m3fn)
    plan = {
        "instruction": "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3",
        "promotion": {"every": 128, "scale": "fma", "sb": [128, 128]},
    }
    scale_a = np.ones((2, 1), np.float32)
    good = bitmma.gemm(a, b, plan, scale_a=scale_a, scale_b=np.array([[1, 2, 4]], np.float32))
    assert (good[0, [0, 127, 128, 256, 299]] == [128, 128, 256, 512, 512]).all()
    with pytest.raises(bitmma.Error, match="scale_b"):
        bitmma.gemm(a, b, plan, scale_a=scale_a, scale_b=np.ones((1, 300), np.float32))


def test_names_of_kernels_say_types_and_that_of_d():
    random = np.random.default_rng(7)
    x = random.standard_normal((4, 256)).astype(ml_dtypes.bfloat16)
    w = random.standard_normal((256, 8)).astype(ml_dtypes.bfloat16)
    name = "nvjet_sm90_tst_64x32_64x16_4x2_h_bz_TNT"
    d, plan = bitmma.gemm(x, w, kernel=name, return_plan=True)
    assert d.dtype == ml_dtypes.bfloat16 and same_bits(d, bitmma.gemm(x, w, "flat", out_dtype="bf16"))
    assert plan.target == "sm_90a" and plan.evidence
    for arguments in (dict(out_dtype="f32"), dict(plan="flat")):
        with pytest.raises(bitmma.Error) as error:
            bitmma.gemm(x, w, kernel=name, **arguments)
        assert error.value.violations[0].code == "contradiction"
    with pytest.raises(bitmma.Error) as error:
        bitmma.gemm(x.astype(np.float16), w.astype(np.float16), kernel=name)
    assert error.value.violations[0].field == "a, b"


def test_float32_needs_a_plan():
    x = np.ones((4, 64), np.float32)
    with pytest.raises(bitmma.Error) as error:
        bitmma.gemm(x, x.T)
    assert error.value.violations[0].code == "missing_plan"
    for name in ("sgemm", "xmma-tf32", "flat"):
        assert name in str(error.value) and (bitmma.gemm(x, x.T, name) == 64).all()


def test_plans_refuse_what_contradicts_them():
    x = np.ones((4, 64), np.float16)
    plan = bitmma.gemm(x, x.T, return_plan=True)[1]
    for arguments in (dict(target="sm_80"), dict(out_dtype="bf16"), dict(split_k=2), dict(relu=True), dict(alpha=2)):
        with pytest.raises(bitmma.Error) as error:
            bitmma.gemm(x, x.T, plan, **arguments)
        assert error.value.violations[0].field == next(iter(arguments))
    assert "model choice on sm_80" in "".join(plan.with_target("sm_80").evidence.values())


def test_batches_take_every_operand_and_out_takes_d():
    random = np.random.default_rng(8)
    a = random.standard_normal((3, 2, 4, 64)).astype(np.float16)
    b = random.standard_normal((2, 64, 8)).astype(np.float16)
    bias = random.standard_normal((3, 2, 8)).astype(np.float32)
    scale_a = random.standard_normal((3, 1, 4, 1)).astype(np.float32)
    scale_b = np.ones((1, 8), np.float32)
    out = np.empty((3, 2, 4, 8), np.float32)
    d = bitmma.gemm(a, b, bias=bias, scale_a=scale_a, scale_b=scale_b, out=out, threads=2)
    assert d is out
    for i in range(3):
        for j in range(2):
            product = bitmma.gemm(a[i, j], b[j], bias=bias[i, j], scale_a=scale_a[i, 0], scale_b=scale_b)
            assert same_bits(d[i, j], product)
    with pytest.raises(bitmma.Error, match="batch axes"):
        bitmma.gemm(a, b, bias=np.ones((5, 2, 8), np.float32))
    with pytest.raises(bitmma.Error, match="out"):
        bitmma.gemm(a, b, out=np.empty((3, 2, 4, 8), np.float64))
    assert bitmma.gemm(a, b, out_dtype=ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16


def test_out_may_overlap_an_operand_or_have_gaps_and_must_be_writable():
    c = np.random.default_rng(12).standard_normal((5, 8, 8)).astype(np.float32)
    a, b = c.astype(np.float16), c[::-1].astype(np.float16)
    expected = bitmma.gemm(a, b, c=c[::-1])
    gaps = np.zeros((5, 8, 16), np.float32)
    assert bitmma.gemm(a, b, c=c[::-1], out=gaps[..., ::2]).base is gaps and same_bits(gaps[..., ::2].copy(), expected)
    half = np.zeros((5, 8, 8), ml_dtypes.bfloat16)
    assert bitmma.gemm(a, b, out_dtype="bf16", out=half) is half and same_bits(
        half, bitmma.gemm(a, b, out_dtype="bf16")
    )
    over = c.copy()
    assert bitmma.gemm(a, b, c=over[::-1], out=over) is over and same_bits(over, expected)
    over.flags.writeable = False
    with pytest.raises(bitmma.Error, match="read-only"):
        bitmma.gemm(a, b, out=over)


def test_no_k_gives_zeros_or_beta_c():
    a, b = np.ones((4, 0), np.float16), np.ones((0, 8), np.float16)
    assert (bitmma.gemm(a, b) == 0).all()
    assert (bitmma.gemm(a, b, c=np.ones((4, 8), np.float32), beta=3) == 3).all()


def test_a_search_says_how_ambiguous_it_is_and_ends_in_time():
    random = np.random.default_rng(9)
    x = random.standard_normal((4, 1024)).astype(ml_dtypes.bfloat16)
    w = random.standard_normal((1024, 8)).astype(ml_dtypes.bfloat16)
    search = bitmma.find_plans(x, w, bitmma.gemm(x, w, out_dtype="bf16"))
    assert (
        search.ambiguous
        and search.ended == "complete"
        and len(search) == sum(family.plans for family in search.families)
    )
    assert search.families[0].name == "flat" and search.families[0].evidence.startswith("measured")
    assert (
        "cannot distinguish them" in search.summary()
        and "families" in repr(search)
        and "<table>" in search._repr_html_()
    )
    noise = random.standard_normal((4, 8)).astype(np.float32)
    seen = []
    few = bitmma.find_plans(x, w, noise, max_plans=100, progress=lambda tried, of: seen.append((tried, of)))
    assert few == [] and few.tried == 100 and few.ended == "max_plans" and few.nearest and seen
    assert few.untried > 0 and few.untried_stages == [2, 3] and "not tried: " in few.summary()
    assert bitmma.find_plans(x, w, noise, timeout=1e-6).ended == "timeout"

    def stop(tried, of):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bitmma.find_plans(x, w, noise, progress=stop)


def test_one_output_of_a_product_is_explained():
    product = bitmma.read_product(DATA / "products" / "nvjet_split3_bf16_k4096.safetensors")
    trace = product.explain(3, 5)
    assert int(trace.d, 16) == int(bits(product.d)[3, 5])
    assert trace.k[-1] == 4096 and len(trace.errors) == len(trace.steps) == len(trace.k)
    assert abs(float(product.d[3, 5]) - trace.exact - trace.error) <= 1e-12 * abs(trace.exact)
    assert abs(trace.steps[trace.worst]["error"]) == max(abs(step["error"]) for step in trace.steps)
    curve = ElementTree.fromstring(trace._repr_svg_())
    line = curve.find("{http://www.w3.org/2000/svg}polyline")
    assert line is not None
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert len(points) == len(trace.steps) + 1
    assert [point[1] for point in points].index(20.0) == np.argmax([0, *trace.errors])
    assert "<svg" in trace._repr_html_() and html.escape(str(trace)) in trace._repr_html_()
    zeros = bitmma.explain_product(np.zeros((1, 16), np.float16), np.zeros((16, 1), np.float16), "flat", 0, 0)
    ElementTree.fromstring(zeros._repr_svg_())
    flat = bitmma.explain_product(product.a, product.b, "flat", 3, 5)
    assert len(flat.steps) == 4096 // 16 and "K 0..15" in str(flat)
    with pytest.raises(bitmma.Error, match="row"):
        bitmma.explain_product(product.a, product.b, "flat", 99, 0)


def test_block_scales_mean_a_target_that_has_them():
    x, scales = np.ones((4, 64), ml_dtypes.float4_e2m1fn), np.ones((4, 4), ml_dtypes.float8_e4m3fn)
    d, plan = bitmma.gemm(x, x.T, sfa=scales, sfb=scales.T, return_plan=True)
    assert plan.target == "sm_100a" and (d == 64).all()
    with pytest.raises(bitmma.Error, match="sm_100a"):
        bitmma.gemm(x, x.T, sfa=scales, sfb=scales.T, target="sm_90a")


def test_explain_of_what_is_no_case_names_the_function_for_products() -> None:
    a, b = np.ones((8, 64), np.float16), np.ones((64, 16), np.float16)
    with pytest.raises(bitmma.Error) as wrong:
        bitmma.explain(a, b, 3)  # type: ignore[arg-type]
    fix = wrong.value.violations[0].fix
    assert fix is not None and "explain_product" in fix
