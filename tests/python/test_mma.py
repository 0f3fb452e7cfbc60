"""bitmma.mma over every family: against GPUs, against the C++ library, and what it refuses."""

from __future__ import annotations

import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import bitmma
from conftest import DATA, bits, same_bits

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def one_of_each_form() -> list[bitmma.Instruction]:
    """The first legal mnemonic of every combination of family, types, K, sparsity and scales."""
    first: dict[tuple, bitmma.Instruction] = {}
    for instruction in bitmma.all_instructions():
        if instruction.is_mma:
            key = (
                instruction.family,
                instruction.d,
                instruction.a,
                instruction.b,
                instruction.c,
                instruction.k,
                instruction.sparse,
                instruction.scale_count,
                instruction.scale_type,
                instruction.products,
                instruction.default_target,
            )
            first.setdefault(key, instruction)
    return list(first.values())


FORMS = one_of_each_form()


def test_forms_cover_every_family():
    assert {form.family for form in FORMS} == {"wgmma", "mma.sync", "tcgen05"}
    assert len(FORMS) > 150


@pytest.mark.parametrize(
    "instruction", FORMS, ids=lambda instruction: f"{instruction}-{instruction.a}-{instruction.b}-{instruction.k}"[:90]
)
def test_mma_is_the_instruction(instruction):
    """Logical matrices of random cases give what the state gives, through descriptors, registers and Tensor Memory."""
    file = bitmma.golden(instruction, cases=2, seed=11, distribution="special")
    cases = list(file)
    operands = [case.operands for case in cases]

    def stacked(name):
        matrices = [of[name] for of in operands]
        if matrices[0] is None:
            return None
        array = np.stack(matrices)
        if instruction.products == 1 or name.startswith("scale"):
            return array
        return array.reshape(len(matrices), instruction.products, -1, array.shape[-1])

    # Stored zeros of a sparse A meet infinity, too: only its metadata says where.
    a = stacked("stored_a") if instruction.sparse else stacked("a")
    d = bitmma.mma(
        cases[0].instruction,
        a,
        stacked("b"),
        stacked("c"),
        scale_a=stacked("scale_a"),
        scale_b=stacked("scale_b"),
        metadata=stacked("metadata"),
        target=file.target,
    )
    for index, case in enumerate(cases):
        expected = case.recorded_d()
        assert same_bits(d[index].reshape(expected.shape), expected)


def gpu_files():
    files = sorted((DATA / "golden").rglob("*.safetensors"))
    assert len(files) > 500
    return files[::8]


def test_mma_has_the_bits_of_gpus():
    """Recorded by an H200: operands as the instruction reads them, D as it left it."""
    outputs = files = 0
    families = set()
    for path in gpu_files():
        file = bitmma.read(path)
        if "H200" not in file.source and "H100" not in file.source:
            continue
        instruction = file.instruction
        if not instruction.is_mma or instruction.sparse or instruction.products > 1:
            continue
        for case in file:
            of = case.operands
            expected = case.recorded_d()
            d = bitmma.mma(case.instruction, of["a"], of["b"], of["c"], target=file.target)
            assert same_bits(d, expected), path.name
            outputs += d.size
        files += 1
        families.add(instruction.family)
    assert families == {"wgmma", "mma.sync"} and files > 30 and outputs > 30_000
    print(f"{outputs} outputs of {files} files")


def test_a_batch_is_its_products():
    random = np.random.default_rng(1)
    a = random.standard_normal((7, 16, 16)).astype(np.float16)
    b = random.standard_normal((7, 16, 8)).astype(np.float16)
    c = random.standard_normal((7, 16, 8)).astype(np.float32)
    d = bitmma.mma(MMA, a, b, c)
    for index in range(7):
        assert same_bits(d[index], bitmma.mma(MMA, a[index], b[index], c[index]))
    for threads in (2, 5):
        assert same_bits(d, bitmma.mma(MMA, a, b, c, threads=threads))
    many = np.broadcast_to(a[0], (300, 16, 16))
    assert same_bits(bitmma.mma(MMA, many, b[0], threads=3)[299], bitmma.mma(MMA, a[0], b[0]))


def test_batch_axes_broadcast_and_strides_are_free():
    random = np.random.default_rng(2)
    a = random.standard_normal((3, 1, 16, 16)).astype(np.float16)
    b = random.standard_normal((4, 16, 8)).astype(np.float16)
    d = bitmma.mma(MMA, a, b)
    assert d.shape == (3, 4, 16, 8)
    assert same_bits(d[2, 3], bitmma.mma(MMA, a[2, 0], b[3]))
    turned = np.asfortranarray(a[0, 0])[::-1]
    assert same_bits(bitmma.mma(MMA, turned, b[0]), bitmma.mma(MMA, turned.copy(), b[0]))
    assert bitmma.mma(MMA, np.zeros((0, 16, 16), np.float16), b[0]).shape == (0, 16, 8)


def test_formats_of_arrays():
    a = np.full((64, 32), 1.5).astype(ml_dtypes.float8_e4m3fn)
    b = np.full((32, 8), 2).astype(ml_dtypes.float8_e5m2)
    instruction = bitmma.wgmma(n=8, a="e4m3", b="e5m2")
    d = bitmma.mma(instruction, a, b)
    assert d.dtype == np.float32 and (d == 96).all()
    assert same_bits(d, bitmma.mma(instruction, a.view(np.uint8), bitmma.codes(b.view(np.uint8), "e5m2")))
    bf16 = bitmma.wgmma(n=8, a="bf16")
    assert (bitmma.mma(bf16, np.ones((64, 16), ml_dtypes.bfloat16), np.ones((16, 8), ml_dtypes.bfloat16)) == 16).all()
    for wrong in (a.astype(np.float32), bitmma.codes(a.view(np.uint8), "e5m2"), [1, 2], "text", None):
        with pytest.raises(bitmma.Error) as error:
            bitmma.mma(instruction, wrong, b)
        assert error.value.violations[0].field == "a"


def test_codes_of_int4_and_bits():
    four = "mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32"
    random = np.random.default_rng(3)
    a, b = random.integers(-8, 8, (16, 64)), random.integers(0, 16, (64, 8))
    for s4, u4 in ((a.astype(np.int8), b.astype(np.uint8)), (a.astype(ml_dtypes.int4), b.astype(ml_dtypes.uint4))):
        d = bitmma.mma(four, s4, u4, target="sm_80")
        assert d.dtype == np.int32 and (d == a @ b).all()
    instruction = "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc"
    x, y = random.integers(0, 2, (16, 256)), random.integers(0, 2, (256, 8))
    assert (bitmma.mma(instruction, x.astype(bool), y.astype(np.uint8), target="sm_80") == x @ y).all()


def test_f64_and_four_products():
    random = np.random.default_rng(4)
    a, b = random.standard_normal((16, 4)), random.standard_normal((4, 8))
    d = bitmma.mma("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64", a, b, target="sm_90")
    assert d.dtype == np.float64 and np.allclose(d, a @ b)
    a = random.integers(-3, 4, (4, 8, 4)).astype(np.float16)
    b = random.integers(-3, 4, (4, 4, 8)).astype(np.float16)
    quad = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"
    assert (bitmma.mma(quad, a, b, target="sm_70") == a.astype(np.float32) @ b.astype(np.float32)).all()
    d = bitmma.mma(
        quad,
        np.ones((5, 1, 4, 8, 4), np.float16),
        np.ones((7, 4, 4, 8), np.float16),
        np.ones((4, 8, 8), np.float32),
        target="sm_70",
    )
    assert d.shape == (5, 7, 4, 8, 8) and (d == 5).all()


def test_errors_of_four_products_name_the_shapes_that_were_given():
    quad = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"
    right = {"a": (2500, 4, 8, 4), "b": (2500, 4, 4, 8), "c": (2500, 4, 8, 8)}

    def refusal(**shapes: tuple[int, ...]) -> bitmma.Violation:
        arrays = {
            name: np.zeros(shape, np.float32 if name == "c" else np.float16)
            for name, shape in {**right, **shapes}.items()
        }
        with pytest.raises(bitmma.Error) as error:
            bitmma.mma(quad, **arrays, target="sm_70")
        (violation,) = error.value.violations
        return violation

    legal = {"a": "(..., 4, 8, 4)", "b": "(..., 4, 4, 8)", "c": "(..., 4, 8, 8)"}
    for name, shape in right.items():
        stacked = (4 * shape[-2], shape[-1])
        wrong_shapes = [
            (2500, 4, 2, 4),
            (2500, 2, *shape[-2:]),
            (2500, *stacked),
            stacked,
            shape[-2:],
            (4, *shape[-2:-1]),
            (*shape[:-1], 5),
            (2500, 4, 32, shape[-1]),
        ]
        for wrong in wrong_shapes:
            violation = refusal(**{name: wrong})
            assert (violation.field, violation.seen) == (name, f"shape {wrong}")
            assert violation.legal == f"{legal[name]}: one matrix per product"
        # One batch with another: the shapes before the products.
        violation = refusal(**{name: (3, *shape[1:])})
        assert violation.field == "batch axes" and "(3,)" in violation.seen and "(2500,)" in violation.seen
    with pytest.raises(bitmma.Error, match="scale_a = given"):
        bitmma.mma(
            quad,
            np.zeros(right["a"], np.float16),
            np.zeros(right["b"], np.float16),
            scale_a=np.zeros((4, 8, 1), np.uint8),
            target="sm_70",
        )


def test_tcgen05_takes_its_shape_from_the_arrays():
    random = np.random.default_rng(5)
    a = random.integers(-3, 4, (128, 16)).astype(ml_dtypes.bfloat16)
    b = random.integers(-3, 4, (16, 32)).astype(ml_dtypes.bfloat16)
    d = bitmma.mma("tcgen05.mma.cta_group::1.kind::f16", a, b)
    assert same_bits(d, bitmma.mma(bitmma.tcgen05("f16", m=128, n=32, a="bf16"), a, b))
    assert (d == a.astype(np.float32) @ b.astype(np.float32)).all()
    c = np.ones((128, 32), np.float16)
    f16 = a.astype(np.float16), b.astype(np.float16)
    assert bitmma.mma("tcgen05.mma.cta_group::1.kind::f16", *f16, c).dtype == np.float16
    with pytest.raises(bitmma.Error):
        bitmma.mma("tcgen05.mma.cta_group::1.kind::f16", a[:100], b)
    e2m1 = np.ones((128, 32), ml_dtypes.float4_e2m1fn)
    e4m3 = np.ones((32, 8), ml_dtypes.float8_e4m3fn)
    assert (bitmma.mma("tcgen05.mma.cta_group::1.kind::f8f6f4", e2m1, e4m3) == 32).all()


def test_block_scales():
    a, b = np.ones((128, 64), ml_dtypes.float4_e2m1fn), np.ones((64, 8), ml_dtypes.float4_e2m1fn)
    scale_a = np.full((128, 4), 2, ml_dtypes.float8_e4m3fn)
    scale_b = np.full((4, 8), 0.5, ml_dtypes.float8_e4m3fn)
    name = "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X"
    assert (bitmma.mma(name, a, b, scale_a=scale_a, scale_b=scale_b) == 64).all()
    with pytest.raises(bitmma.Error, match="scale_a"):
        bitmma.mma(name, a, b)
    warp = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0"
    d = bitmma.mma(
        warp,
        np.ones((16, 32), ml_dtypes.float8_e4m3fn),
        np.ones((32, 8), ml_dtypes.float8_e4m3fn),
        scale_a=np.full((16, 1), 4, ml_dtypes.float8_e8m0fnu),
        scale_b=np.full((1, 8), 0.25, ml_dtypes.float8_e8m0fnu),
    )
    assert (d == 32).all()
    with pytest.raises(bitmma.Error, match="scale_a"):
        bitmma.mma(MMA, np.ones((16, 16), np.float16), np.ones((16, 8), np.float16), scale_a=scale_a, scale_b=scale_b)


def test_sparse_a_by_zeros_and_by_metadata():
    random = np.random.default_rng(6)
    instruction = bitmma.wgmma(n=8, sparse=True)
    assert (instruction.k, instruction.stored_k, instruction.metadata_chunks) == (32, 16, 8)
    logical = np.zeros((64, 32), np.float16)
    stored, metadata = np.zeros((64, 16), np.float16), np.zeros((64, 8), np.uint8)
    for row in range(64):
        for chunk in range(8):
            first, second = sorted(random.choice(4, 2, replace=False))
            values = random.standard_normal(2).astype(np.float16)
            logical[row, 4 * chunk + first], logical[row, 4 * chunk + second] = values
            stored[row, 2 * chunk : 2 * chunk + 2] = values
            metadata[row, chunk] = first | second << 2
    b = random.standard_normal((32, 8)).astype(np.float16)
    d = bitmma.mma(instruction, logical, b)
    assert same_bits(d, bitmma.mma(instruction, stored, b, metadata=metadata))
    with pytest.raises(bitmma.Error, match="product 0: a row 0"):
        bitmma.mma(instruction, np.ones((64, 32), np.float16), b)
    with pytest.raises(bitmma.Error, match="metadata"):
        bitmma.mma(instruction, stored, b, metadata=metadata[:, :4])


def test_immediates_and_statements():
    a, b = np.ones((64, 16), np.float16), np.ones((16, 8), np.float16)
    name = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    assert (bitmma.mma(bitmma.instruction(name, imm_scale_a=-1), a, b) == -16).all()
    statement = bitmma.instruction(f"{name} {{%f1, %f2, %f3, %f4}}, %rd1, %rd2, p, -1, 1, 0, 0;")
    assert statement.immediates["imm_scale_a"] == -1 and (bitmma.mma(statement, a, b) == -16).all()
    assert statement != bitmma.instruction(name) and statement == bitmma.instruction(name, imm_scale_a=-1)
    assert "m64n8k16" in repr(statement)
    with pytest.raises(bitmma.Error):
        bitmma.instruction(name, imm_scale_a=2)
    with pytest.raises(bitmma.Error) as error:
        bitmma.instruction("mma.sync.m16")
    assert [violation.seen for violation in error.value.violations] == ["m16"]  # one mistake, one message


def test_targets_give_other_bits():
    random = np.random.default_rng(7)
    a = random.standard_normal((16, 16)).astype(np.float16)
    b = random.standard_normal((16, 8)).astype(np.float16)
    d = {target: bits(bitmma.mma(MMA, a, b, target=target)) for target in ("sm_80", "sm_90")}
    assert (d["sm_80"] != d["sm_90"]).any()
    with pytest.raises(bitmma.Error, match="sm_90"):
        bitmma.mma(MMA, a, b, target="sm_99")
    with pytest.raises(bitmma.Error):
        bitmma.mma(MMA, a, b, target="sm_70")
    assert bitmma.evidence(MMA, "sm_90a").level.startswith("measured")
    assert bitmma.evidence(bitmma.tcgen05("f16", d="f16"), "sm_103a").level == "model choice"
    fp4 = bitmma.evidence(bitmma.tcgen05("mxf4"), "sm_100a")
    assert fp4.level == "measured by others" and "not public" in fp4.meaning and "statements.csv" in fp4.source


def test_evidence_of_two_instructions_shares_nothing():
    first = bitmma.evidence(MMA)
    first.plan["a field"] = "changed"
    first.choices.append("a choice")
    assert bitmma.evidence(MMA).plan == {} and "a choice" not in bitmma.evidence(MMA).choices


def test_moves_are_refused_by_name():
    with pytest.raises(bitmma.Error, match="execute"):
        bitmma.mma("tcgen05.shift.cta_group::1.down", np.ones((1, 1)), np.ones((1, 1)))


def test_threads_may_call_at_once_and_the_gil_is_free():
    random = np.random.default_rng(8)
    a = random.standard_normal((2000, 16, 16)).astype(np.float16)
    b = random.standard_normal((2000, 16, 8)).astype(np.float16)
    expected = bitmma.mma(MMA, a, b)
    results: list = [None] * 4

    def work(index):
        results[index] = bitmma.mma(MMA, a, b)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same_bits(result, expected) for result in results)
    # Python goes on while a product is computed. With the GIL held the switch interval would never come.
    x, y = np.ones((512, 4096), np.float16), np.ones((4096, 512), np.float16)
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    counter = threading.Thread(target=count)
    counter.start()
    before = counted[0]
    bitmma.gemm(x, y)
    during = counted[0] - before
    done.set()
    counter.join()
    sys.setswitchinterval(interval)
    assert during > 1000


class OnlyDlpack:
    """An array that has DLPack and nothing else."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **arguments):
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_other_libraries_arrays():
    a, b = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16)
    assert (bitmma.mma(MMA, OnlyDlpack(a), OnlyDlpack(b)) == 16).all()
    a.flags.writeable = False
    assert (bitmma.mma(MMA, a, b) == 16).all()


@pytest.mark.hosts
def test_torch_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed: its tensors are NOT checked")
    a, b = torch.ones((16, 16), dtype=torch.bfloat16), torch.ones((16, 8), dtype=torch.bfloat16)
    d = bitmma.mma(MMA.replace("f16.f16", "bf16.bf16"), a, b)
    assert isinstance(d, torch.Tensor) and d.dtype == torch.float32 and bool((d == 16).all())
    out = bitmma.gemm(a, b, "flat", out_dtype="bf16")
    assert out.dtype == torch.bfloat16 and bool((out == 16).all())
    half = torch.ones((8, 16), dtype=torch.float16)
    assert bool((bitmma.gemm(half, half.T, "flat") == 16).all())
