"""bitmma.matmul and library_choice: the kernel that cuBLAS takes, as recorded, and its bits."""

from __future__ import annotations

import sys
import warnings

import ml_dtypes
import numpy as np
import pytest

import bitmma
from conftest import ROOT, same_bits

sys.path.insert(0, str(ROOT / "lab"))
import check_choices


def test_the_choice_is_the_kernel_of_every_recorded_call(recorded_calls):
    """Calls of another day and another process: the names of all kernels agree. Every tenth call: the bits as well."""
    left_out, bits, others = {}, [], []
    calls = 0
    for path in recorded_calls:
        metadata = check_choices.metadata_of(path)
        call, choice = check_choices.choice_for(metadata)
        if isinstance(choice, str):
            left_out[choice] = left_out.get(choice, 0) + 1
            continue
        calls += 1
        assert choice.exact
        assert check_choices.is_class(metadata["kernel"], choice.kernel), (call, choice, metadata["kernel"])
        # Of f32 these kernels have no plan, or one that is not sure: split sgemm, dot, gemvx, segment-K.
        if any(word in choice.kernel for word in ("execute_split_k", "dot_kernel", "gemvx", "segment_k_on")):
            others.append(path)
        elif calls % 10 == 0:
            bits.append(check_choices.has_bits(path, choice))
    assert calls == 625
    assert left_out == {"another shape": 702, "another layout": 32, "another kind of call": 700}
    assert len(bits) >= 50 and all(same for same, _ in bits), bits
    assert len(others) < 20


def test_a_stack_by_one_matrix_is_one_product_of_all_rows():
    """As torch.matmul folds it; vectors, a bias of two axes and stacks of b alone are refused by their names."""
    r = np.random.default_rng(0)
    a, w = (r.standard_normal(shape).astype(np.float16) for shape in ((2, 8, 4096), (4096, 4096)))
    bias = np.ones(4096, np.float16)
    d = bitmma.matmul(a, w.T, bias, target="H100", threads=0)
    assert d.shape == (2, 8, 4096)
    assert same_bits(d.reshape(16, -1), bitmma.matmul(a.reshape(16, -1), w.T, bias, target="H100", threads=0))
    for operands, field in [
        ((np.concatenate([a, a], 1)[:, :8], w.T), "a"),  # its rows are not evenly spaced
        ((a[0], np.stack([w.T, w.T])), "b"),
        ((a[0, 0], w.T), "a"),
        ((a[0], w[0]), "b"),
        ((a[0], w.T, np.ones((8, 4096), np.float16)), "bias"),
        ((a[0], w.T.astype(ml_dtypes.bfloat16)), "b"),
        ((a[0].astype(np.int8), w.T.astype(np.int8)), "a"),
    ]:
        with pytest.raises(bitmma.Error) as refused:
            bitmma.matmul(*operands, target="H100")
        assert refused.value.violations[0].field == field


def test_a_stack_by_a_stack_is_a_batch():
    """As torch.bmm: each matrix has the bits of the kernel for so many matrices."""
    r = np.random.default_rng(0)
    q, k = (r.standard_normal((2, 4, 77, 64)).astype(np.float16) for _ in range(2))
    d, choice = bitmma.matmul(q, k.swapaxes(-1, -2), target="H200", return_choice=True)
    assert d.shape == (2, 4, 77, 77)
    assert choice == bitmma.library_choice(77, 77, 64, "f16", target="H200", matrices=8)
    one = bitmma.gemm(q[1, 2], k[1, 2].T, kernel=choice.kernel)
    assert same_bits(d[1, 2], one)
    # Positions first, as nn.MultiheadAttention has them: rows with gaps. And what broadcasts.
    by_position = np.ascontiguousarray(q.transpose(2, 0, 1, 3)).transpose(1, 2, 0, 3)
    assert same_bits(bitmma.matmul(by_position[0], k[0].swapaxes(-1, -2), target="H200")[2], one) == same_bits(
        bitmma.matmul(q[0], k[0].swapaxes(-1, -2), target="H200")[2], one
    )
    assert bitmma.matmul(q, k[:, :1].swapaxes(-1, -2), target="H200").shape == (2, 4, 77, 77)
    for operands, options, field in [
        ((q, k.swapaxes(-1, -2)), {"target": "H100"}, "matrices"),
        ((q[..., :63], k[..., :63].swapaxes(-1, -2)), {"target": "H200"}, "matrices, m, n, k"),
        ((q, k[:, :3].swapaxes(-1, -2)), {"target": "H200"}, "b"),
        ((q, k.swapaxes(-1, -2), np.ones(77, np.float16)), {"target": "H200"}, "bias"),
        ((q[0], np.broadcast_to(k[0, 0].T, (4, 64, 77))), {"target": "H200"}, "b"),
        ((q[:0], k[:0].swapaxes(-1, -2)), {"target": "H200"}, "a"),
    ]:
        with pytest.raises(bitmma.Error) as refused:
            bitmma.matmul(*operands, **options)
        assert refused.value.violations[0].field == field, (field, refused.value)


def test_layout_types_and_bias_decide():
    a, w = np.ones((16, 4096), ml_dtypes.bfloat16), np.ones((4096, 4096), ml_dtypes.bfloat16)
    bias = np.ones(4096, ml_dtypes.bfloat16)
    d, choice = bitmma.matmul(a, w.T, target="H100", return_choice=True, threads=0)
    assert choice == bitmma.library_choice(16, 4096, 4096, "bf16", target="H100")
    assert (
        choice.exact and choice.shape == (16, 4096, 4096) and choice.output == "bf16" and d.dtype == ml_dtypes.bfloat16
    )
    assert same_bits(d, bitmma.gemm(a, w.T, kernel=choice.kernel, split_k=choice.slices, threads=0))
    for operands, fields in [
        ((a, w), {"layout": "nn"}),
        ((np.asfortranarray(a), w), {"layout": "tn"}),
        ((np.asfortranarray(a), w.T), {"layout": "tt"}),
        ((a, w.T, bias), {"bias": True}),
    ]:
        choice = bitmma.matmul(*operands, target="H200", return_choice=True, threads=0)[1]
        assert choice == bitmma.library_choice(16, 4096, 4096, "bf16", target="H200", **fields)
    assert bitmma.matmul(a, w.T, target="H100", out_dtype=np.float32, threads=0).dtype == np.float32
    one = np.float32(1)
    codes = np.ones((16, 4096), ml_dtypes.float8_e4m3fn), np.ones((64, 4096), ml_dtypes.float8_e4m3fn)
    d, choice = bitmma.matmul(
        codes[0], codes[1].T, target="H100", scale_a=one, scale_b=one, use_fast_accum=True, return_choice=True
    )
    assert choice == bitmma.library_choice(16, 64, 4096, "e4m3", target="H100", scales="tensor", use_fast_accum=True)
    assert d.dtype == ml_dtypes.bfloat16 and "algo2" not in choice.kernel
    rows = np.ones((16, 1), np.float32), np.ones((1, 64), np.float32)
    choice = bitmma.matmul(codes[0], codes[1].T, target="H100", scale_a=rows[0], scale_b=rows[1], return_choice=True)[1]
    assert choice.kernel == "nvjet_sm90_qqtst_*_algo2_ovscale"


def test_float32_with_and_without_tf32():
    a, b = np.ones((128, 1024), np.float32), np.ones((1024, 1024), np.float32)
    exact, rounded = (
        bitmma.library_choice(128, 1024, 1024, np.float32, target="H100", layout="nn", allow_tf32=allowed)
        for allowed in (False, True)
    )
    assert "tf32" in rounded.kernel or "tensorop" in rounded.kernel
    assert bitmma.library_choice(128, 1024, 1024, "tf32", target="H100", layout="nn") == rounded
    assert "f32f32_f32f32" in exact.kernel or "simt" in exact.kernel or "sgemm" in exact.kernel
    assert bitmma.matmul(a, b, target="H100", allow_tf32=True, threads=0)[0, 0] == 1024


def test_other_shapes_are_an_error_or_the_nearest_with_a_warning():
    a, b = np.ones((3, 4104), np.float16), np.ones((4096, 4104), np.float16)
    with pytest.raises(bitmma.Error, match=r"\(4096, 4096\)"):
        bitmma.matmul(a, b.T, target="H100")
    with pytest.warns(UserWarning, match=r"\(3, 4096, 4104\).*\(3, 4096, 4096\)"):
        _, choice = bitmma.matmul(a, b.T, target="H100", nearest=True, return_choice=True)
    assert not choice.exact and choice.shape == (3, 4096, 4096)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bitmma.library_choice(3, 4096, 4096, np.float16, target="H100", nearest=True)


@pytest.mark.parametrize(
    "change, field",
    [
        ({"target": "B200"}, "target"),
        ({"library": "cublas 12"}, "library"),
        ({"scale_a": 1.0}, "scale_b"),
        ({"out_dtype": np.float16}, "types"),
        ({"target": None}, "target"),
        ({"nearest": 2}, "nearest"),
        ({"scale_a": 1.0, "scale_b": 1.0}, "types"),
        ({"use_fast_accum": True}, "types"),
    ],
)
def test_wrong_requests_name_the_argument(change, field):
    a, w = np.ones((16, 64), ml_dtypes.bfloat16), np.ones((64, 64), ml_dtypes.bfloat16)
    with pytest.raises(bitmma.Error) as error:
        bitmma.matmul(a, w.T, **{"target": "H100", **change})
    assert error.value.violations[0].field == field


def test_a_board_is_named_in_any_case_but_not_by_its_architecture():
    a, w = np.ones((16, 64), ml_dtypes.bfloat16), np.ones((64, 64), ml_dtypes.bfloat16)
    bitmma.testing.assert_bits_equal(bitmma.matmul(a, w.T, target="h200"), bitmma.matmul(a, w.T, target="H200"))
    with pytest.raises(bitmma.Error) as error:
        bitmma.matmul(a, w.T, target="sm_90a")
    assert error.value.violations[0].fix.endswith("name the board")


def test_types_that_pytorch_refuses_are_refused():
    a, w = np.ones((16, 4096), np.float16), np.ones((4096, 4096), np.float16)
    e4m3 = np.ones((16, 4096), ml_dtypes.float8_e4m3fn), np.ones((64, 4096), ml_dtypes.float8_e4m3fn)
    scale = np.ones((1, 1), np.float32)
    for call, field in [
        (lambda: bitmma.matmul(a, w.T, np.ones(4096, np.float32), target="H100"), "bias"),
        (lambda: bitmma.matmul(a, w.T, np.ones(4096, ml_dtypes.bfloat16), target="H100"), "bias"),
        (lambda: bitmma.matmul(a, w.T, 1.0, target="H100"), "bias"),
        (
            lambda: bitmma.matmul(
                a.astype(np.float32), w.T.astype(np.float32), np.ones(4096, np.float16), target="H100", allow_tf32=True
            ),
            "bias",
        ),
        (lambda: bitmma.matmul(a, w.T.astype(ml_dtypes.bfloat16), target="H100"), "b"),
        (lambda: bitmma.matmul(a.astype(np.float64), w.T.astype(np.float64), target="H100"), "a"),
        (
            lambda: bitmma.matmul(e4m3[0], e4m3[1].T, target="H100", scale_a=scale.astype(np.float16), scale_b=scale),
            "scale_a",
        ),
        (
            lambda: bitmma.matmul(e4m3[0], e4m3[1].T, target="H100", scale_a=scale, scale_b=scale.astype(np.float64)),
            "scale_b",
        ),
        (
            lambda: bitmma.matmul(
                e4m3[0], e4m3[1].T, target="H100", scale_a=np.ones((16, 1), np.float32), scale_b=scale
            ),
            "scale_a, scale_b",
        ),
        (
            lambda: bitmma.matmul(
                e4m3[0], e4m3[1].T, target="H100", scale_a=scale, scale_b=scale, out_dtype=np.float32
            ),
            "types",
        ),
    ]:
        with pytest.raises(bitmma.Error) as error:
            call()
        assert error.value.violations[0].field == field


def test_batches_and_shapes_are_refused():
    a, w = np.ones((16, 64), ml_dtypes.bfloat16), np.ones((64, 64), ml_dtypes.bfloat16)
    for wrong, field in [((a, np.stack([w, w])), "b"), ((a, w[:32]), "b")]:
        with pytest.raises(bitmma.Error) as error:
            bitmma.matmul(*wrong, target="H100")
        assert error.value.violations[0].field == field
    with pytest.raises(bitmma.Error):
        bitmma.library_choice(16, 64, 64, target="H100", scales="blocks")
