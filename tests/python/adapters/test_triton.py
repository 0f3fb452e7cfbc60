"""bitmma.adapters.triton: the source that Triton compiled for a GPU, in its interpreter, with the same bits."""
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import numpy as np  # noqa: E402
import pytest  # noqa: E402

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install triton==3.9.0")
pytest.importorskip("triton.runtime.interpreter", reason="this Triton has no interpreter")

import bitmma  # noqa: E402
import bitmma.adapters.triton as adapter  # noqa: E402
import triton_cases  # noqa: E402
import triton_kernels  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.runtime import interpreter  # noqa: E402
from triton_arrays import Array  # noqa: E402

RECORDED = Path(__file__).parents[3] / "data" / "triton" / "dots.tar.xz"
CASES = {triton_cases.name_of(case): case for case in triton_cases.cases()}
REFUSED = {"dot used twice": "then used again", "dot from zeros + c": "in doubt", "c c + dot s": "two products",
           "dot s - c c": "two products", "dot s + dot s": "two products"}
TARGETS = {"80": "sm_80", "89": "sm_89", "100": "sm_100a", "120": "sm_120a"}


@pytest.fixture(scope="module")
def recorded() -> tuple[dict, dict]:
    """The index, and sampled outputs by case and hash."""
    with tarfile.open(RECORDED) as archive:
        index = json.load(archive.extractfile("index.json"))
        samples = dict(np.load(io.BytesIO(archive.extractfile("samples.npz").read())))
    return index, samples


@pytest.fixture(autouse=True)
def nothing_installed():
    yield
    adapter.uninstall()


def launched(case: dict, **options) -> np.ndarray:
    """D of a case, from the interpreter as it is now."""
    arrays, constants, grid, _ = triton_cases.arguments(case)
    arguments = {name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()}
    kernel = getattr(triton_kernels, case["kernel"] + "_kernel")
    kernel[grid](**arguments, **constants, num_warps=case["warps"], enable_fp_fusion=case.get("fusion", True),
                 **options)
    return arguments["d"].storage.array


def refused(case: dict) -> str | None:
    """What the adapter says to a case that it cannot follow. The compiler never joins a dot of fp8 with an addition."""
    message = REFUSED.get(case.get("form"))
    return None if case["a"] == "e4m3" and message != "two products" else message


def dot_instructions(case: dict, names: list[str]) -> set[str]:
    """Without the fma of what follows the dot, and of scales."""
    keep = ("mma", "wgmma", "tcgen05") + (("fma.rn.f32",) if case.get("precision") == "ieee" else ()) + ("fma.rn.f64",)
    return {"fma.rn.f32" if name == "fma.rn.f32x2" else name for name in names if name.startswith(keep)}


@pytest.mark.parametrize("run", [0, 1, 2])
def test_recorded_bits(recorded, run):
    """Instructions first, then every bit."""
    index, samples = recorded
    about, outputs, equal, said = index["runs"][run], 0, 0, 0
    for name, row in index["cases"].items():
        case = CASES[name]
        assert row["case"] == case, f"{name}: the recording is of another case"
        for one in [one for one in row["runs"] if one["run"] == run]:
            with adapter.use("sm_90a", compiler=about["triton"][:3]) as used:
                if message := refused(case):
                    with pytest.raises(Exception, match=message):
                        launched(case)
                    said += 1
                    continue
                d = launched(case)
            assert set(used.instructions) == dot_instructions(case, one["instructions"]), name
            raw = d.reshape(-1).view(np.uint8)
            if hashlib.sha256(raw.tobytes()).hexdigest() != one["sha256"]:
                expected = samples[f"{name}.{one['sha256'][:8]}"]
                at = np.unique(np.linspace(0, d.size - 1, len(expected)).astype(np.int64))
                found = raw.reshape(d.size, -1)[at]
                wrong = np.flatnonzero((found != expected).any(axis=1))
                first = f"output {at[wrong[0]]}: {found[wrong[0]][::-1].tobytes().hex()}, the GPU has " \
                    f"{expected[wrong[0]][::-1].tobytes().hex()}; " if len(wrong) else ""
                pytest.fail(f"{name}: {first}{len(wrong)} of {len(at)} sampled outputs differ")
            outputs += d.size
            equal += 1
    print(f"{about['gpu']}, Triton {about['triton']}: {equal} launches, {outputs} outputs equal, {said} refused")
    assert equal >= 340


@pytest.mark.parametrize("capability", TARGETS)
def test_instructions_of_other_targets(recorded, capability):
    """No such GPU ran these; the instructions are those of compiled kernels."""
    compiled = recorded[0]["compiled"][capability]
    known = {**CASES, **{triton_cases.name_of(case): case for case in triton_cases.blackwell_cases()}}
    counted = 0
    for name, instructions in compiled["cases"].items():
        case = known[name]
        if case["distribution"] != "triangle" or case["kernel"] in ("epilogue", "scaled", "added"):
            continue
        with adapter.use(TARGETS[capability], compiler=compiled["triton"][:3]) as used:
            d = launched(case)
        assert set(used.instructions) == dot_instructions(case, instructions), name
        assert np.isfinite(d.astype(np.float64)).all(), name
        counted += 1
    print(f"{TARGETS[capability]}: {counted} launches")
    assert counted >= 40


def test_interpreter_alone_has_other_bits(recorded):
    """What the adapter is for; and that the comparison can fail."""
    differ = []
    for name, row in recorded[0]["cases"].items():
        if row["case"]["kernel"] == "chain" and row["case"]["distribution"] == "triangle" and \
                row["case"]["a"] != "s8" and not row["case"]["precision"].startswith("bf16"):
            d = launched(row["case"])
            differ.append(hashlib.sha256(d.tobytes()).hexdigest() != row["runs"][-1]["sha256"])
    print(f"{sum(differ)} of {len(differ)} launches differ without the adapter")
    assert sum(differ) > len(differ) * 3 // 4


def test_num_warps_decides():
    """64 x 64 blocks of e4m3: four warps run wgmma, two mma.sync, which widens to f16."""
    case = triton_cases.product("e4m3", 64, 64, 64, (64, 64, 64), seed=3)
    results = {}
    for warps in [4, 2]:
        with adapter.use() as used:
            results[warps] = launched({**case, "warps": warps})
        assert len(used.instructions) == 1 and ("wgmma" in next(iter(used.instructions))) == (warps == 4)
    assert (results[4].view(np.uint32) != results[2].view(np.uint32)).any()


@pytest.mark.parametrize("k, narrow, first", [
    (32, 8, [0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29]),
    (64, 4, [0, 1, 8, 9, 16, 17, 24, 25, 32, 33, 40, 41, 48, 49, 56, 57]),
    (32, 4, [0, 1, 8, 9, 16, 17, 24, 25, 2, 3, 10, 11, 18, 19, 26, 27]),
])
def test_k_order(k, narrow, first):
    order = adapter.k_order(k, 16, narrow)
    assert list(order[:16]) == first
    assert sorted(order) == list(range(k))
    assert adapter.k_order(k, 16, 16) is None


def test_threads_change_no_bit():
    case = triton_cases.product("f16", 128, 128, 256, (128, 128, 64), warps=8, seed=4)
    found = []
    for threads in [1, 3]:
        with adapter.use(threads=threads):
            found.append(launched(case).tobytes())
    assert found[0] == found[1]


@triton.jit
def _softmax_kernel(x, y, n: tl.constexpr):
    index = tl.arange(0, n)
    values = tl.load(x + index)
    powers = tl.exp2(values - tl.max(values, 0))
    tl.store(y + index, powers / tl.sum(powers, 0) * 0.5 + 0.25)


@triton.jit
def _sums_kernel(x, y, n: tl.constexpr):
    index = tl.arange(0, n)
    values = tl.load(x + index)
    tl.store(y + index, tl.cumsum(values, 0))
    tl.atomic_add(y + index, values)


@triton.jit
def _exact_kernel(x, y, n: tl.constexpr):
    index = tl.arange(0, n)
    values = tl.load(x + index)
    tl.store(y + index, tl.maximum(values, 0.5) + tl.max(values, 0) + tl.sum(index, 0))


@pytest.mark.parametrize("kernel, fusion, inexact", [
    (_softmax_kernel, True, {"exp2": 1, "reduce": 1, "fdiv": 1, "mul+add": 1}),
    (_softmax_kernel, False, {"exp2": 1, "reduce": 1, "fdiv": 1}),
    (_sums_kernel, True, {"scan": 1, "atomic add": 1}),
    (_exact_kernel, True, {}),
])
def test_what_has_other_bits_is_counted(kernel, fusion, inexact):
    x, y = Array(np.linspace(0, 1, 64, dtype=np.float32)), Array(np.zeros(64, np.float32))
    with adapter.use() as used:
        kernel[(1,)](x, y, 64, enable_fp_fusion=fusion)
    assert used.inexact == inexact and not used.instructions
    with adapter.use(strict=True):
        if not inexact:
            kernel[(1,)](x, y, 64, enable_fp_fusion=fusion)
            return
        first = next(iter(inexact))
        with pytest.raises(Exception, match=f"operation = {first}: must be .* because of strict=True"):
            kernel[(1,)](x, y, 64, enable_fp_fusion=fusion)


def test_zeros_can_be_said_to_be_constant(recorded):
    index, _ = recorded
    name, row = next((name, row) for name, row in index["cases"].items()
                     if row["case"].get("form") == "dot from zeros + c" and row["case"]["a"] == "f16")
    with adapter.use(constant_zeros=True, compiler="3.9"):
        assert hashlib.sha256(launched(CASES[name]).tobytes()).hexdigest() == row["runs"][1]["sha256"]
    with adapter.use(constant_zeros=False, compiler="3.9"):
        assert hashlib.sha256(launched(CASES[name]).tobytes()).hexdigest() != row["runs"][1]["sha256"]


def test_uninstall_restores():
    builder, semantic = interpreter.interpreter_builder, interpreter.interpreter_semantic
    state = lambda: (dict(vars(builder)), dict(vars(semantic)), interpreter.GridExecutor.__call__,
                     interpreter._patch_lang_tensor, interpreter.ReduceOps.apply_impl, interpreter.ScanOps.apply_impl)
    before = state()
    case = triton_cases.product("f16", 64, 64, 64, (64, 64, 64), seed=1)
    plain = launched(case).tobytes()
    adapter.install("sm_90a")
    with adapter.use("sm_80"):
        on_sm_80 = launched(case).tobytes()
    on_sm_90a = launched(case).tobytes()
    adapter.uninstall()
    adapter.uninstall()  # nothing is installed: nothing happens
    after = state()
    assert launched(case).tobytes() == plain
    assert len({plain, on_sm_80, on_sm_90a}) == 3
    for key in ("grid_dim", "grid_idx"):  # of the last launch
        before[0].pop(key, None), after[0].pop(key, None)
    assert before == after


def test_an_error_in_a_kernel_uninstalls_too():
    case = triton_cases.product("e4m3", 64, 64, 64, (64, 64, 64), seed=1)
    with pytest.raises(Exception, match="Triton does not compile e4m3 for that GPU"), adapter.use("sm_80"):
        launched(case)
    assert "create_dot" not in vars(interpreter.interpreter_builder)


@pytest.mark.parametrize("options, words", [
    ({"target": "sm_70"}, "target = sm_70: must be sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a"),
    ({"compiler": "3.2"}, "compiler = 3.2: must be 3.6, 3.9"),
    ({"num_warps": 3}, "num_warps = 3: must be a power of 2"),
])
def test_bad_requests(options, words):
    with pytest.raises(bitmma.Error, match=words.replace(".", r"\.")):
        adapter.install(**options)
    assert "create_dot" not in vars(interpreter.interpreter_builder)


def test_blocks_of_several_ctas_are_refused():
    case = triton_cases.product("f16", 64, 64, 64, (64, 64, 64), seed=1)
    with pytest.raises(bitmma.Error, match="num_ctas = 2"), adapter.use():
        launched(case, num_ctas=2)


def test_another_triton_is_named(monkeypatch):
    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", lambda self, a, b, d: None)
    monkeypatch.delattr(interpreter, "TensorHandle")
    monkeypatch.setattr(triton, "__version__", "9.9.0")
    with pytest.raises(ImportError) as error:
        adapter.install()
    text = str(error.value)
    assert "Triton found is 9.9.0" in text and "TensorHandle" in text
    assert "create_dot(self, a, b, d, input_precision, max_num_imprecise_acc), which is (self, a, b, d)" in text


def test_the_interpreter_must_be_on(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(ImportError, match="TRITON_INTERPRET=1 before triton"):
        adapter.install()


def test_compiled_kernels_run_with_the_gpus_bits():
    """Without the interpreter: also the launches that the interpreter's adapter refuses. Argument 12 takes each twelfth launch."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, str(Path(__file__).with_name("triton_compiled.py")), "12"], env=environment,
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    print(found["dots"]["launches"], "launches")
    assert found["dots"]["launches"] >= 28 and found["dots"]["differing"] == []
    for one in found["sums"].values():
        assert one == {"as_fma": True, "grid": [4, 1, 1], "ptx": True}
    assert found["tensor_memory"] == {"differing": 0, "tcgen05": True}
    assert "several configurations" in found["autotune"]
    assert "sm_90a" in found["target"]
