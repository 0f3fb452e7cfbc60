"""bitmma.torch: operators of PyTorch on CPU tensors have the bits of an H100 or H200."""

from __future__ import annotations

import importlib.util
import json
import lzma
import threading
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="NOT checked: torch is not installed")
if not hasattr(torch, "accelerator"):
    pytest.skip("NOT checked: torch is older than 2.6", allow_module_level=True)

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import bitmma  # noqa: E402
import bitmma.torch  # noqa: E402
from bitmma import operators  # noqa: E402

ROOT = Path(__file__).parents[3]
DATA = ROOT / "data" / "operators"


def module_of(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "lab"))
    spec = importlib.util.spec_from_file_location(name, ROOT / "lab" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def words(tensor):
    size = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.detach().contiguous().view(size).tolist()


def refusal(function, **options):
    with pytest.raises(bitmma.Error) as caught, bitmma.torch.gpu("H100", **options):
        function()
    return str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_linear_layer_has_the_bits_of_matmul(dtype):
    x, layer = drawn(16, 512, dtype=dtype), nn.Linear(512, 1024).to(dtype)
    with bitmma.torch.gpu("H100") as used:
        y = layer(x)
    expected = bitmma.matmul(x, layer.weight.detach().t(), layer.bias.detach(), target="H100")
    assert words(y) == words(expected) and y.requires_grad
    assert used.exact["addmm"] == 1 and not used.inexact and "measured" in str(used)


def test_three_dimensions_are_one_product():
    x, weight = drawn(2, 8, 512), drawn(1024, 512, seed=1)
    with bitmma.torch.gpu("H200") as used:
        y = F.linear(x, weight)
    assert words(y.reshape(16, 1024)) == words(bitmma.matmul(x.reshape(16, 512), weight.t(), target="H200"))
    assert used.exact["mm"] == 1


def test_batches_are_those_of_attention_that_returns_its_weights():
    """nn.MultiheadAttention with need_weights=True multiplies by torch.bmm."""
    attention = nn.MultiheadAttention(256, 4, batch_first=True)
    x = drawn(2, 50, 256)
    q, k, v = (drawn(8, 50, 64, seed=i) for i in (1, 2, 3))
    with bitmma.torch.gpu("H200") as used:
        y, weights = attention(x, x, x, need_weights=True)
        out = torch.bmm(torch.softmax(torch.bmm(q, k.mT), -1), v)
    assert used.exact["bmm"] == 4 and not used.inexact and weights.shape == (2, 50, 50)
    scores = bitmma.matmul(q, k.mT, target="H200")
    assert words(out) == words(bitmma.matmul(operators.softmax(scores), v, target="H200"))
    assert torch.allclose(y, attention(x, x, x, need_weights=True)[0], atol=1e-5)
    assert "recorded" in refusal(lambda: torch.bmm(q, k.mT))


def test_gradients_do_not_change_the_forward_bits():
    block = nn.Sequential(
        nn.LayerNorm(256), nn.Linear(256, 1024), nn.GELU(), nn.RMSNorm(1024, eps=1e-6), nn.Softmax(-1)
    )
    x = drawn(8, 256)
    made = []
    for context in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with context(), bitmma.torch.gpu("H100") as used:
            made.append(words(block(x)))
        assert used.exact["_fused_rms_norm"] == 1, used
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize(
    "dtype, shape, kernel",
    [
        (torch.bfloat16, (2, 4, 40, 64), "cudnn"),
        (torch.float16, (1, 2, 33, 20), "flash"),
        (torch.float32, (1, 2, 33, 32), "efficient"),
    ],
)
def test_attention_takes_the_kernel_of_a_gpu(dtype, shape, kernel):
    q, k, v = (drawn(*shape, dtype=dtype, seed=seed) for seed in range(3))
    with bitmma.torch.gpu("H100") as used:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert used.exact[f"_scaled_dot_product_{kernel}_attention"] == 1
    pad = -shape[-1] % 8
    padded = [F.pad(x, (0, pad)) for x in (q, k, v)]
    expected = operators.attention(*padded, is_causal=True, scale=shape[-1] ** -0.5, backend=kernel)
    assert words(y) == words(expected[..., : shape[-1]])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        if not pad:
            with bitmma.torch.gpu("H100") as used:
                F.scaled_dot_product_attention(q, k, v)
            assert used.exact["_scaled_dot_product_efficient_attention"] == 1


def test_softmax_that_widens_is_one_operator():
    x = drawn(4, 1500, dtype=torch.float16)
    with bitmma.torch.gpu("H100") as used:
        y = torch.softmax(x, -1, dtype=torch.float32)
    assert words(y) == words(operators.softmax(x, dtype=torch.float32)) and dict(used.exact) == {"_softmax": 1}


def test_operators_that_write_their_arguments():
    x, other = drawn(5, 7), drawn(5, 7, seed=1)
    expected = torch.from_numpy(operators.elementwise("silu", x.numpy()))
    out, added = torch.empty(5, 7), x.clone()
    with bitmma.torch.gpu("H100"):
        torch.ops.aten.silu.out(x, out=out)
        written = F.silu(x.clone(), inplace=True)
        assert added.add_(other, alpha=0.3) is added
        torch.add(x, other, out=out[:])
    assert words(written) == words(expected)
    assert words(out) == words(x + other)
    scale = np.full((5, 7), 0.3, np.float32)
    assert words(added) == words(torch.from_numpy(bitmma.math.fma(scale, other.numpy(), x.numpy())))


def test_views_indices_and_integers_are_torch():
    x, at = drawn(6, 8, dtype=torch.bfloat16), torch.tensor([3, 1])
    with bitmma.torch.gpu("H100") as used:
        made = torch.cat([x[at].t().reshape(2, 8), x[:2].flip(0)]), (at * 2 + 1).sum(), torch.arange(4)
    assert words(made[0]) == words(torch.cat([x[at].t().reshape(2, 8), x[:2].flip(0)]))
    assert made[1] == 10 and made[2].tolist() == [0, 1, 2, 3] and not used.inexact


def test_operators_without_a_rule_say_what_to_do():
    x, y, weight, compiled = drawn(4, 8), drawn(8, 24), drawn(2, 4, 3), torch.compile(nn.Linear(8, 8))
    assert "aten._fft_r2c.default(float32 [4, 8]" in refusal(lambda: torch.fft.fft(x))
    assert "strict=False" in refusal(lambda: torch.fft.fft(x))
    assert "recorded (N, K)" in refusal(lambda: x @ y)
    assert "on an H200" in refusal(lambda: torch.bmm(x[None], x.t()[None]))
    assert "draw them before the block" in refusal(lambda: torch.randn(3))
    assert "draw them before" in refusal(lambda: F.dropout(x, 0.5))
    assert "convolutions" in refusal(lambda: F.conv1d(x[None], weight))
    assert "not the last one" in refusal(lambda: torch.softmax(x, 0))
    assert "16 bytes" in refusal(lambda: torch.softmax(x.reshape(-1)[1:], 0))
    assert "without torch.compile" in refusal(lambda: compiled(x))
    encoder, tokens = nn.TransformerEncoderLayer(64, 4, 64, batch_first=True).eval(), drawn(1, 4, 64)
    with torch.no_grad():
        assert "set_fastpath_enabled(False)" in refusal(lambda: encoder(tokens))

    def cast():
        with torch.autocast("cpu", torch.bfloat16):
            return x @ y

    assert "casts the operands" in refusal(cast)
    with torch.autocast("cpu", torch.bfloat16):
        assert "casts the operands" in refusal(lambda: None)
    with bitmma.torch.gpu("H100"), torch.autocast("cpu", enabled=False):
        x + x
    with pytest.raises(bitmma.Error, match="H100"):
        bitmma.torch.gpu("A100")


def test_what_is_not_known_runs_on_the_cpu_and_is_counted():
    x = drawn(4, 8)
    with bitmma.torch.gpu("H100", strict=False) as used:
        made = torch.fft.fft(x), x @ x.t(), F.conv1d(x[None], drawn(2, 4, 3)), x + x
    assert torch.equal(made[0], torch.fft.fft(x)) and torch.equal(made[1], x @ x.t())
    assert used.inexact["_fft_r2c"] == used.inexact["mm"] == used.inexact["convolution"] == 1
    assert used.exact["add.Tensor"] == 1 and "of the CPU" in str(used) and "calls with the bits" in repr(used)


def test_attention_without_a_rule_is_near_that_of_the_cpu():
    q, k, v = (drawn(1, 2, 9, 16, seed=seed).requires_grad_() for seed in range(3))
    mask = torch.ones(9, 9, dtype=torch.bool).tril()
    with bitmma.torch.gpu("H100", strict=False) as used:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        grads = torch.autograd.grad(y.square().sum(), (q, k, v))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    near = torch.autograd.grad(expected.square().sum(), (q, k, v))
    assert torch.allclose(y, expected, atol=1e-6)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(grads, near, strict=True))
    assert used.inexact["_scaled_dot_product_efficient_attention_backward"] == 1


def test_the_nearest_shape_is_a_warning():
    x, weight = drawn(16, 500, dtype=torch.float16), drawn(70, 500, dtype=torch.float16, seed=1)
    with pytest.warns(UserWarning, match="was not recorded"), bitmma.torch.gpu("H100", nearest=True) as used:
        y = x @ weight.t()
    assert used.unsure == {"mm": 1} and used.exact == {"mm": 1} and "of another shape" in str(used)
    assert torch.allclose(y.float(), (x @ weight.t()).float(), atol=0.2)


def test_rows_of_a_wider_matrix_are_the_same_product():
    wide, weight = drawn(16, 1024, dtype=torch.bfloat16), drawn(256, 512, dtype=torch.bfloat16, seed=1)
    with bitmma.torch.gpu("H200"):
        assert words(wide[:, :512] @ weight.t()) == words(wide[:, :512].contiguous() @ weight.t())
    odd = drawn(16, 513, dtype=torch.bfloat16)
    assert "gaps" in refusal(lambda: odd[:, :512] @ weight.t())


def test_the_gradient_of_a_sum_is_an_expanded_number():
    x, layer = drawn(64, 256), nn.Linear(256, 512)
    with bitmma.torch.gpu("H100") as used:
        layer(x).sum().backward()
    ones = torch.ones(64, 512)
    assert words(layer.bias.grad) == words(torch.full((512,), 64.0)) and not used.inexact
    assert words(layer.weight.grad) == words(bitmma.matmul(ones.t(), x, target="H100"))
    assert "not contiguous" in refusal(lambda: torch.full((1, 1), 0.1).expand(64, 512).sum(0))


def test_other_threads_and_code_after_the_block_are_torch():
    x, norm, made = drawn(4, 16), nn.RMSNorm(16), []
    expected = norm(x)
    with bitmma.torch.gpu("H100"):
        other = threading.Thread(target=lambda: made.append(norm(x)))
        other.start()
        other.join()
        with pytest.raises(bitmma.Error, match="one block at a time"), bitmma.torch.gpu("H200"):
            pass
    assert torch.equal(made[0], expected) and torch.equal(norm(x), expected)
    q = drawn(1, 2, 8, 16)
    assert torch.allclose(F.scaled_dot_product_attention(q, q, q), torch.softmax(q @ q.transpose(-1, -2) / 4, -1) @ q)


def test_two_layers_are_trained_step_by_step():
    """No operator of two steps of AdamW is computed by the CPU, and no bit depends on the number of threads."""
    made = []
    for threads in (1, 2):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(256, 1024), nn.LayerNorm(1024), nn.SiLU(), nn.Linear(1024, 256))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=True)
        x, target = drawn(64, 256), drawn(64, 256, seed=1)
        with bitmma.torch.gpu("H200", threads=threads) as used:
            for _ in range(2):
                optimizer.zero_grad()
                F.mse_loss(model(x), target).backward()
                optimizer.step()
        assert not used.inexact and used.exact["_foreach_addcdiv_.ScalarList"] == used.exact["silu_backward"] == 2, used
        made.append([words(parameter) for parameter in model.parameters()])
    assert made[0] == made[1]


def test_recorded_calls_and_models_agree_in_every_bit(monkeypatch):
    """A part of what lab/record_torch_mode.py recorded: calls, forward passes, and steps of training."""
    if not (DATA / "torch_mode.json.xz").exists():
        pytest.skip("NOT checked: data/operators has no torch_mode.json.xz")
    check = module_of("check_torch_mode", monkeypatch)
    with lzma.open(DATA / "torch_mode.json.xz", "rt") as file:
        recorded = json.load(file)
    entries = {(entry["name"], entry["seed"]): entry for entry in recorded["cases"]}
    verdicts = {"equal": 0, "refused": 0}
    for name, _, number, prepare in check.cases(recorded["calls"], recorded["seed"]):
        entry = entries.get((name, number))
        if entry is not None:
            verdict, why, _ = check.checked(prepare, entry, "H200", False)
            assert verdict in verdicts, (name, entry["about"], why)
            verdicts[verdict] += 1
    assert verdicts["equal"] >= 100, verdicts


def test_optimizers_agree_in_every_bit(monkeypatch):
    check = module_of("check_training", monkeypatch)
    count = 0
    for entry in check.recorded_calls(DATA / "training.json.xz")[1]:
        if entry["op"] != "optimizer":
            continue
        call = entry["call"]
        x = [torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if a.dtype.itemsize == 2 and a.dtype != np.float16
             else torch.from_numpy(a) for a in (check.made_tensor(about, stream, entry["seed"])
                                                for stream, about in enumerate(entry["tensors"]))]  # fmt: skip
        parameter = nn.Parameter(x[0].clone())
        optimizer = getattr(torch.optim, call["name"])([parameter], **call["options"])
        for gradient, recorded in zip(x[1:], entry["outputs"], strict=True):
            parameter.grad = gradient.clone()
            with bitmma.torch.gpu("H200"):
                optimizer.step()
            mine = parameter.detach().reshape(-1)[:: recorded["step"]].contiguous().view(torch.uint8).numpy().tobytes()
            assert mine == check.base64.b64decode(recorded["words"]), call
        count += 1
    assert count >= 40


def test_compressed_matrices_are_those_of_semi_structured_tensors():
    from torch.sparse._semi_structured_conversions import (
        sparse_semi_structured_from_dense_cutlass,
        sparse_semi_structured_to_dense_cutlass,
    )

    random = np.random.default_rng(4)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int8):
        dense = torch.from_numpy((random.standard_normal((64, 128)) * 9).round().astype(np.float32)).to(dtype)
        pruned = bitmma.prune_2_4(dense)
        pruned[random.random((64, 128)) < 0.3] = 0  # chunks with one element and with none
        values, meta = sparse_semi_structured_from_dense_cutlass(pruned)
        compressed = bitmma.compress(pruned, fill="pytorch")
        assert torch.equal(compressed.values, values)
        assert (compressed.packed("sm80") == meta.numpy().reshape(-1).view(np.uint8)).all()
        assert torch.equal(bitmma.decompress(values, meta, order="sm80"), pruned)
        assert torch.equal(sparse_semi_structured_to_dense_cutlass(values, meta), pruned)


def test_a_capture_keeps_operators_that_have_kernels_beside_their_parts(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    capture = importlib.import_module("capture")
    x, weight = drawn(4, 8), drawn(8, 8, seed=1).requires_grad_()
    with capture.Capture(tmp_path / "captured") as seen:
        F.silu(F.linear(x, weight)).sum().backward()
    names = [operator["op"] for operator in seen.operators]
    assert "aten.silu_backward.default" in names and "aten.mm.default" in names, names
    assert not [name for name in names if "sigmoid" in name or "linear" in name], names


def test_amax_without_dimensions_is_that_of_all_elements():
    x = drawn(7, 33)
    with bitmma.torch.gpu("H200"):
        largest, of_columns = torch.amax(x), torch.amax(x, 0)
    assert torch.equal(largest, x.max()) and torch.equal(of_columns, x.amax(0))
