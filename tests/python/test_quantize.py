"""Quantisers: what Python sees of them. Their bits are tests/recorded/quantize_test.cpp."""

import json
import pathlib

import ml_dtypes
import numpy as np
import pytest

import bitmma


def safetensors_of(path):
    """The arrays of a file, which is of no product and of no instruction."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    dtypes = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "U8": np.uint8}
    return {
        name: np.frombuffer(data[8 + size :][slice(*row["data_offsets"])], dtypes[row["dtype"]]).reshape(row["shape"])
        for name, row in json.loads(data[8 : 8 + size]).items()
        if name != "__metadata__"
    }


def random(rows, cols, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, cols)).astype(dtype)


def decoded(q):
    """Elements as numbers of float64."""
    scales = np.asarray(q.scales).astype(np.float64)
    rows, cols = q.codes.shape
    whole = np.repeat(np.repeat(scales, q.block[0], 0), q.block[1], 1)[:rows, :cols]
    return np.asarray(q.codes).astype(np.float64) * whole * float(1 if q.tensor_scale is None else q.tensor_scale)


@pytest.mark.parametrize("row", bitmma.quantize_recipes(), ids=lambda row: row["name"])
def test_every_recipe_decodes_to_nearly_the_matrix(row):
    dtype = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}[row["inputs"][0]]
    x = random(128, 256, dtype)
    q = bitmma.quantize(x, row["name"])
    assert q.recipe == row["name"] and q.codes.dtype == bitmma.dtype_of(row["element"])
    assert q.scales.dtype == bitmma.dtype_of(row["scale"])
    assert (q.tensor_scale is not None) == row["two_levels"]
    assert q.scales.shape == (128 // q.block[0], 256 // q.block[1])
    bits = {"e4m3": 3, "e5m2": 2, "e2m3": 3, "e3m2": 2, "e2m1": 1}[row["element"]]
    error = np.abs(decoded(q) - x.astype(np.float64)) / np.abs(x.astype(np.float64)).max()
    assert error.max() <= 2.0**-bits
    assert np.array_equal(bitmma.quantize(x, row["name"], threads=2).codes.view(np.uint8), q.codes.view(np.uint8))


def test_block_scales_go_to_a_product_in_one_call():
    x, w = random(128, 256), random(64, 256, seed=1)
    a, b = bitmma.quantize(x, "te_nvfp4"), bitmma.quantize(w, "te_nvfp4_16x16")
    d = bitmma.quantized_gemm(a, b, target="sm_100a")
    expected = decoded(a) @ decoded(b).T
    assert np.abs(d - expected).max() < 1e-4 * np.abs(expected).max()
    sfb = np.repeat(b.scales, 16, 0)
    alpha = float(a.tensor_scale * b.tensor_scale)
    assert np.array_equal(d, bitmma.gemm(a.codes, b.codes.T, sfa=a.scales, sfb=sfb.T, target="sm_100a", alpha=alpha))
    with pytest.raises(bitmma.Error, match="alpha"):
        bitmma.quantized_gemm(a, b, target="sm_100a", alpha=2.0)


def test_scales_of_f32_go_to_a_plan_that_reads_them():
    a, b = (
        bitmma.quantize(random(128, 256), "deepgemm_1x128"),
        bitmma.quantize(random(256, 256, seed=1), "deepgemm_128x128"),
    )
    plan = {"promotion": {"every": 128, "scale": "mul_fma"}}
    d = bitmma.quantized_gemm(a, b, plan)
    expected = decoded(a) @ decoded(b).T
    assert np.abs(d - expected).max() < 1e-2 * np.abs(expected).max()
    with pytest.raises(bitmma.Error):
        bitmma.quantized_gemm(a, b, "flat")  # would not read them


def test_tiles_and_packed_codes():
    q = bitmma.quantize(random(100, 64), "ocp_mxfp4")
    assert np.array_equal(bitmma.tiled(q.tiled, "ue8m0").scales(100, 2).array, q.scales.view(np.uint8))
    assert np.array_equal(bitmma.codes(q.packed, "e2m1", packed=True).array, q.codes.view(np.uint8))
    for name in ("packed", "tiled"):
        with pytest.raises(bitmma.Error):
            getattr(bitmma.quantize(random(4, 128), "deepgemm_1x128"), name)


def test_the_device_of_pytorch_decides_how_numbers_divide():
    x = random(256, 128)
    cuda, cpu = (bitmma.quantize(x, "deepgemm_1x128", torch_device=device).scales for device in ("cuda", "cpu"))
    amax = np.abs(x).max(1, keepdims=True)
    assert np.array_equal(cpu, amax / np.float32(448))
    assert np.array_equal(cuda, amax * (np.float32(1) / np.float32(448)))


def test_scales_of_powers_of_two_for_128_elements_are_those_of_every_32():
    a = bitmma.quantize(random(128, 256), "deepgemm_1x128_ue8m0")
    b = bitmma.quantize(random(256, 256, seed=1), "deepgemm_128x128_ue8m0")
    d = bitmma.quantized_gemm(a, b, target="sm_100a")
    sfa = bitmma.codes(np.repeat(a.scales.view(np.uint8), 4, 1), "ue8m0")
    sfb = bitmma.codes(np.repeat(np.repeat(b.scales.view(np.uint8), 128, 0), 4, 1), "ue8m0")
    assert np.array_equal(d, bitmma.gemm(a.codes, b.codes.T, sfa=sfa, sfb=sfb.T, target="sm_100a"))
    expected = decoded(a) @ decoded(b).T
    assert np.abs(d - expected).max() < 1e-2 * np.abs(expected).max()
    plan = {"promotion": {"every": 128, "scale": "mul_fma"}}  # as DeepGEMM on sm_90a, which turns them into float32
    f32 = bitmma.gemm(
        a.codes, b.codes.T, plan, scale_a=a.scales.astype(np.float32), scale_b=b.scales.T.astype(np.float32)
    )
    assert np.array_equal(bitmma.quantized_gemm(a, b, plan), f32)


def test_blocks_of_zeros_that_become_nan_are_warned_of():
    x = random(4, 128)
    x[1] = 0
    with pytest.warns(UserWarning, match="128 of 512 are NaN"):
        q = bitmma.quantize(x, "torchao_fp8_row")
    assert (q.codes.view(np.uint8)[1] == 0x7F).all()


def test_evidence_of_the_document_names_what_it_was_compared_with():
    rows = {row["name"]: row for row in bitmma.quantize_recipes()}
    assert rows["ocp_mxfp4"]["evidence"].startswith("document read; compared with microxcaling's code")
    assert rows["te_nvfp4"]["evidence"] == "compared with the project's code on an H100"
    assert rows["te_nvfp4"]["block"] == (1, 16) and not rows["te_nvfp4"]["torch_device"]


def test_what_is_refused():
    x = random(4, 64)
    for call, field in (
        (lambda: bitmma.quantize(x, "nvfp4"), "recipe"),
        (lambda: bitmma.quantize(x, "deepgemm_1x128", torch_device="tpu"), "torch_device"),
        (lambda: bitmma.quantize(x, "te_nvfp4", torch_device="cpu"), "torch_device"),
        (lambda: bitmma.quantize(x, "deepgemm_1x128", torch_device=1), "torch_device"),
        (lambda: bitmma.quantize(bitmma.codes(x.view(np.uint32), "tf32"), "te_nvfp4"), "x"),
        (lambda: bitmma.quantize(x[:, :24], "te_nvfp4"), "columns of x"),
        (lambda: bitmma.quantize(x, "flashinfer_nvfp4"), "type of x"),
        (lambda: bitmma.quantize(x.astype(np.float64), "te_nvfp4"), "type of x"),
        (lambda: bitmma.quantize(x * np.nan, "te_nvfp4"), "x(0, 0)"),
        (lambda: bitmma.quantize(x[0], "te_nvfp4"), "x"),
        (lambda: bitmma.quantized_gemm(x, x), "a"),
    ):
        with pytest.raises(bitmma.Error) as caught:
            call()
        assert caught.value.violations[0].field == field


def test_torch_goes_in_and_comes_out():
    torch = pytest.importorskip("torch", reason="NOT checked: torch is not installed")
    x = random(128, 64)
    q, of_numpy = bitmma.quantize(torch.from_numpy(x), "te_nvfp4"), bitmma.quantize(x, "te_nvfp4")
    assert (
        q.scales.dtype == torch.float8_e4m3fn and q.tensor_scale.dtype == torch.float32 and q.tensor_scale.shape == ()
    )
    assert q.packed.dtype == q.tiled.dtype == torch.uint8
    assert np.array_equal(q.packed.numpy(), of_numpy.packed) and np.array_equal(q.tiled.numpy(), of_numpy.tiled)
    assert q.tensor_scale.item() == of_numpy.tensor_scale
    d, of_numpy_d = (bitmma.quantized_gemm(quantized, quantized, target="sm_100a") for quantized in (q, of_numpy))
    assert np.array_equal(np.asarray(d), of_numpy_d)
    e4m3 = bitmma.quantize(torch.from_numpy(x), "ocp_mxfp8_e4m3")
    assert e4m3.codes.dtype == torch.float8_e4m3fn and e4m3.scales.dtype == torch.float8_e8m0fnu
    assert isinstance(bitmma.quantized_gemm(e4m3, e4m3, target="sm_100a"), torch.Tensor)
    for row in bitmma.quantize_recipes():
        x = random(128, 128)
        dtype, of_torch = (
            (ml_dtypes.bfloat16, torch.bfloat16) if "bf16" in row["inputs"] else (np.float32, torch.float32)
        )
        q, of_numpy = (
            bitmma.quantize(torch.from_numpy(x).to(of_torch), row["name"]),
            bitmma.quantize(x.astype(dtype), row["name"]),
        )
        assert isinstance(q.codes, torch.Tensor) and isinstance(q.scales, torch.Tensor)
        assert np.array_equal(q.codes.view(torch.uint8).numpy(), of_numpy.codes.view(np.uint8))
        assert q.codes.shape == of_numpy.codes.shape and repr(q) == repr(of_numpy)
    assert isinstance(d, torch.Tensor)
    with pytest.raises(bitmma.Error, match="meta"):
        bitmma.quantize(torch.ones((4, 64), device="meta"), "te_nvfp4")


def test_ones_get_the_scale_that_cudnn_documents():
    """cudnn-frontend#148 printed 0x2b on a B200; the documentation's formula gives 0x23 (1 / 6 rounded up)."""
    q = bitmma.quantize(np.ones((32, 32), np.float32), "cudnn_nvfp4")
    assert set(q.scales.view(np.uint8).ravel()) == {0x23} and set(q.packed.ravel()) == {0x77}


def test_four_over_six_lowers_the_error_of_the_matrix():
    x = random(64, 256)
    error = [((decoded(bitmma.quantize(x, name)) - x) ** 2).sum() for name in ("fouroversix_nvfp4", "te_nvfp4")]
    assert error[0] < 0.98 * error[1]


def test_four_over_six_gives_the_recorded_codes_and_scales():
    """data/quantize/README.md; rows of the bf16 matrix have scales that are subnormal, whose largest codes wrap."""
    path = pathlib.Path(__file__).parents[2] / "data" / "quantize" / "fouroversix.safetensors"
    recorded = safetensors_of(path)
    compared = 0
    for name, codes in recorded.items():
        if not name.startswith("codes."):
            continue
        _, recipe, type_ = name.split(".")
        q = bitmma.quantize(recorded[f"x.{type_}"], recipe)
        assert np.array_equal(q.packed, codes), name
        assert np.array_equal(q.scales.view(np.uint8), recorded[f"scales.{recipe}.{type_}"]), name
        compared += codes.size
    assert compared == 9 * 8 * 256
