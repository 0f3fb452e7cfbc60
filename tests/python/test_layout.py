"""Maps as integer arrays: they agree with what instructions read, and their inverses with them."""

from __future__ import annotations

import numpy as np
import pytest

import bitmma
from bitmma import layout

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def goes_back(places, index) -> bool:
    back = places.back()
    coordinates = np.stack(np.indices(index[0].shape), axis=-1)
    return bool((back[index] == coordinates).all())


@pytest.mark.parametrize("swizzle", ["none", "32", "64", "128"])
@pytest.mark.parametrize("major", ["k-major", "mn-major"])
def test_smem_is_where_the_instruction_reads(swizzle, major):
    case = bitmma.golden(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16",
        cases=1,
        seed=2,
        layout_a=f"{major}:{swizzle}",
        layout_b=f"{major}:{swizzle}",
    )[0]
    state, of = case.state, case.operands
    halves = state["smem"].view(np.uint16)
    for descriptor, matrix in ((state["a_desc"], of["a"]), (state["b_desc"], of["b"].T)):
        places = layout.smem(descriptor, *matrix.shape, major=major)
        assert (halves[places.byte // 2] == matrix.view(np.uint16)).all()
        assert goes_back(places, (places.byte,)) and ":" in places.cute
    read = layout.operand(case, "a")
    assert (halves[read.byte // 2] == of["a"].view(np.uint16)).all()
    assert layout.smem_svg(state["a_desc"], 64, 16, major=major).startswith("<svg")


@pytest.mark.parametrize("operand", ["a", "b", "c", "d"])
def test_fragments_are_where_the_instruction_reads(operand):
    case = bitmma.golden(MMA, cases=1, seed=2, distribution="normal")[0]
    state, of = case.state, {**case.operands, "d": case.computed_d()}
    places = layout.fragment(MMA, operand)
    matrix = of[operand].T if operand == "b" else of[operand]
    registers = case.after["d_regs"] if operand == "d" else state[f"{operand}_regs"]
    words = registers[places.thread, places.register] >> places.bit.astype(np.uint32)
    mask = (1 << 8 * matrix.dtype.itemsize) - 1
    assert ((words & mask) == matrix.view(f"u{matrix.dtype.itemsize}")).all()
    slots = places.bit // min(places.element_bits, 32)
    assert goes_back(places, (places.thread, places.register, slots))
    assert layout.fragment_svg(MMA, operand).startswith("<svg")


@pytest.mark.parametrize(
    "shape", [(128, 64, 1, False), (64, 32, 1, False), (256, 64, 2, False), (128, 64, 2, False), (32, 64, 1, True)]
)
def test_tensor_memory(shape):
    m, n, cta_group, ws = shape
    places = layout.tmem(m, n, cta_group=cta_group, ws=ws)
    assert goes_back(places, (places.cta, places.lane, places.column)) and places.layout in "ABCDEFG"
    instruction = bitmma.tcgen05("f16", m=m, n=n, cta_group=cta_group, ws=ws)
    case = bitmma.golden(instruction, cases=1, seed=1, distribution="normal")[0]
    read = layout.operand(case, "d")
    tmem = case.after["tmem_after"]
    cells = tmem.reshape(-1, 128, tmem.shape[-1])[read.cta, read.lane, read.column]
    assert (cells == case.computed_d().view(np.uint32)).all()
    a = layout.tmem_a(m, 16, cta_group=cta_group, ws=ws)
    assert a.lane.shape == (m, 16)


def test_moves_scales_and_cute():
    ldst = layout.ldst("16x64b", 4)
    assert goes_back(ldst, (ldst.lane, ldst.column))
    ldmatrix = layout.ldmatrix(4, transposed=True)
    assert goes_back(ldmatrix, (ldmatrix.thread, ldmatrix.register, ldmatrix.bit // 16))
    scales = layout.scales(200, 8)
    assert scales.byte[37, 2] == 86 and goes_back(scales, (scales.byte,))
    cute = layout.cute("Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))")
    assert (cute.byte == layout.smem(0x4000004000010000, 64, 16).byte).all()
    for wrong in (
        lambda: layout.cute("(8,"),
        lambda: layout.ldst("9x9", 1),
        lambda: layout.tmem(100, 8),
        lambda: layout.fragment("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "b"),
        lambda: layout.smem(0, -1, 4),
        lambda: layout.smem(0, 8, 8, element_bits=7),
        lambda: layout.ldmatrix(3),
    ):
        with pytest.raises(bitmma.Error):
            wrong()


def test_metadata_scales_and_reprs():
    sparse = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    metadata = layout.fragment(sparse, "metadata")
    assert metadata.thread.shape == (16, 16) and metadata.element_bits == 2 and (metadata.register == 0).all()
    scaled = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"
    scales = layout.fragment(scaled, "scale_a")
    assert (scales.thread[9, 1], scales.bit[9, 1]) == (5, 8)
    assert repr(scales) == "Places(thread, register, bit of 16 x 2 elements)"
    two = layout.tmem_a(64, 16, ws=True, copy=1)
    assert two.lane[0, 0] == 64 and layout.tmem_a(64, 16, ws=True).lane[0, 0] == 0
    with pytest.raises(bitmma.Error):
        layout.tmem_a(64, 16, ws=True, copy=2)


def test_bits_of_codes_that_are_narrower_than_their_containers():
    mixed = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{}.{}.f32"
    for format, first, bits in (("e2m1", 2, 4), ("e2m3", 0, 6), ("e3m2", 0, 6), ("e4m3", 0, 8)):
        file = bitmma.golden(mixed.format(format, format), cases=1, seed=3)
        for name in ("a", "b"):
            places = layout.fragment(mixed.format(format, format), name)
            assert (places.bit % 8 == first).all() and places.element_bits == 8
            words, codes = file.tensors[name + "_regs"][0], file.tensors[name][0].view(np.uint8)
            read = words[places.thread, places.register] >> places.bit.astype(np.uint32) & (1 << bits) - 1
            assert (read == (codes if name == "a" else codes.T)).all()
            assert goes_back(places, (places.thread, places.register, places.bit // 8))
    packed = layout.smem(0x4000004000010000, 8, 32, element_bits=8, code_bits=6)
    assert (packed.byte[0, 5], packed.bit[0, 5]) == (3, 6)
    assert layout.smem(0x4000004000010000, 8, 32, element_bits=8, code_bits=4).byte[0].tolist() == [
        i // 2 for i in range(16)
    ] + [16 + i // 2 for i in range(16)]
    assert layout.tmem_a(128, 16, element_bits=8, code_bits=4).bit[1, 1] == 10
    for wrong in (
        lambda: layout.smem(0, 8, 8, element_bits=8, code_bits=5),
        lambda: layout.smem(0, 8, 8, code_bits=4),
        lambda: layout.tmem_a(128, 16, code_bits=6),
    ):
        with pytest.raises(bitmma.Error) as error:
            wrong()
        assert error.value.violations[0].field == "code bits"


def test_layout_algebra_is_cutes():
    assert layout.algebra("composition", "(6,2):(8,2)", "(4,3):(3,1)") == "((2,2),3):((24,2),8)"
    assert layout.algebra("right_inverse", "(4,8):(8,1)") == "(8,4):(4,1)"
    assert layout.offsets("Swizzle<1,0,1> o 4:1").tolist() == [0, 1, 3, 2]
    with pytest.raises(bitmma.Error):
        layout.algebra("complement", "(2,2):(2,3)", "24")


def test_tma_and_bank_conflicts():
    linear = np.arange(64 * 64).reshape(64, 64) * 2
    assert (layout.tma(64, 64).byte == linear ^ (linear >> 7 & 7) << 4).all()
    assert (layout.tma(64, 64, swizzle="none").byte == linear).all()
    assert layout.bank_conflicts(128 * np.arange(8), 16)[:2] == (8, 1)


def test_metadata_in_memory_is_pytorchs_order() -> None:
    def offsets_of_pytorch(m: int, columns: int, word_bytes: int) -> np.ndarray:
        """torch/sparse/_semi_structured_conversions.py, _calculate_meta_reordering_scatter_offsets, in words."""
        rows, cols = np.mgrid[0:m, 0:columns]
        group, interweave = (32, 4) if word_bytes == 2 else (16, 2)
        rows = rows // group * group + rows % 8 * interweave + rows % group // 8
        top_right = (rows % 2 == 0) & (cols % 2 == 1)
        bottom_left = (rows % 2 == 1) & (cols % 2 == 0)
        rows, cols = rows + top_right - bottom_left, cols - top_right + bottom_left
        return cols // 2 * m * 2 + rows * 2 + cols % 2

    for bits, word_bytes, cols in ((16, 2, 128), (8, 4, 256), (32, 2, 64)):
        places = bitmma.layout.metadata(64, cols, order="sm80", element_bits=bits)
        assert places.one_to_one
        per_word = 2 * word_bytes
        words = offsets_of_pytorch(64, places.byte.shape[1] // per_word, word_bytes)
        expected = np.repeat(words * 8 * word_bytes, per_word, 1) + np.tile(4 * np.arange(per_word), words.shape[1])
        assert (8 * places.byte + places.bit == expected).all()
        assert (places.back()[places.byte[37, 5], places.bit[37, 5] // 4] == [37, 5]).all()
    assert not bitmma.layout.metadata(48, 128).one_to_one


def test_sparse_matrices_compress_and_return() -> None:
    random = np.random.default_rng(2)
    for dtype, pattern in ((np.float16, "2:4"), (np.float32, "1:2"), (np.int8, "2:4")):
        dense = (random.standard_normal((64, 128)) * 9).astype(dtype)
        pruned = bitmma.prune_2_4(dense)
        chunk = 2 if pattern == "1:2" else 4
        kept = np.sort(np.abs(dense.astype(np.float64)).reshape(-1, chunk), 1)[:, chunk // 2 :]
        assert np.abs(pruned.astype(np.float64)).sum() == kept.sum()
        for fill in ("cutlass", "pytorch", "lowest"):
            compressed = bitmma.compress(pruned, fill=fill)
            assert compressed.pattern == pattern and compressed.values.dtype == dtype
            assert compressed.values.shape == (64, 64)
            assert (bitmma.decompress(compressed.values, compressed.metadata) == pruned).all()
            for order in ("sm80", "sm90", "sm100", "row-major"):
                image = compressed.packed(order)
                assert (bitmma.decompress(compressed.values, image, order=order) == pruned).all()
    codes = bitmma.codes(random.integers(0, 16, (16, 64)).astype(np.uint8), "e2m1")
    pairs = bitmma.prune_2_4(codes)
    stored = bitmma.compress(pairs)
    assert stored.pattern == "4:8" and stored.values.format == "e2m1"
    assert (bitmma.decompress(*stored[:2]).array == pairs.array).all()
    with pytest.raises(bitmma.Error, match="prune"):
        bitmma.compress(np.ones((1, 4), np.float16))
    with pytest.raises(bitmma.Error, match="metadata"):
        compressed._replace(metadata=np.zeros(4, np.uint8)).packed()


def test_compressed_matrices_are_operands_of_mma() -> None:
    random = np.random.default_rng(3)
    a = bitmma.prune_2_4(random.integers(-4, 5, (16, 32)).astype(np.float16))
    b = random.integers(-4, 5, (32, 8)).astype(np.float16)
    values, metadata, _ = bitmma.compress(a)
    sparse = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    assert (bitmma.mma(sparse, values, b, metadata=metadata) == a.astype(np.float32) @ b.astype(np.float32)).all()


def test_chains_and_moves_of_bytes() -> None:
    fp8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
    chain = bitmma.layout.chain(fp8, fp8)
    assert chain["cute"] == "(2,2,4,2):(1,8,2,16)" and not chain["keeps_order"]
    assert chain["registers"][0]["elements"] == ["d0.0", "d0.1", "d1.0", "d1.1"]
    f16 = "tcgen05.mma.cta_group::1.kind::f16"
    assert bitmma.layout.chain(f16, f16)["lanes_agree"]
    move = bitmma.layout.matrix_move("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b6x16_p32")
    assert move.registers == 4 and move.thread.shape == (2, 16, 16) and move.row_bit[0, 0, 5] == 30
    assert (move.back()[move.thread[1, 3, 9], move.register[1, 3, 9], move.bit[1, 3, 9] // 8] == [1, 3, 9]).all()
    selected = bitmma.layout.tmem_metadata(128, selector=1)
    assert (selected.column == 1).all() and selected.lane[17, 5] == 25


class LayoutOfAnotherLibrary:
    """What pycute.Layout has."""

    def __init__(self, shape, stride):
        self.shape, self.stride = shape, stride


def test_layouts_of_other_libraries_are_taken_and_made():
    text = "((8,8),(8,2)):((64,512),(1,8))"
    there = LayoutOfAnotherLibrary(*layout.shape_and_stride(text))
    assert (there.shape, there.stride) == (((8, 8), (8, 2)), ((64, 512), (1, 8)))
    assert layout.cute(there).cute == layout.cute(text).cute
    assert np.array_equal(layout.offsets(there), layout.offsets(text))
    assert layout.algebra("coalesce", there) == layout.algebra("coalesce", text)
    assert layout.algebra("composition", text, LayoutOfAnotherLibrary(4, 2)) == layout.algebra(
        "composition", text, "4:2"
    )
    assert layout.shape_and_stride("(_8,16):(_1,8)") == ((8, 16), (1, 8)) and layout.shape_and_stride("8:2") == (8, 2)
    assert layout.shape_and_stride("(8):(2)") in (((8,), (2,)), (8, 2))
    for wrong, why in (
        (LayoutOfAnotherLibrary("8", 1), "whole number"),
        (LayoutOfAnotherLibrary((8, -1), (1, 8)), "0 or more"),
        (np.ones(3), "a layout in CuTe's notation"),
    ):
        with pytest.raises(bitmma.Error, match=why):
            layout.cute(wrong)
    with pytest.raises(bitmma.Error, match="what follows the o"):
        layout.shape_and_stride("Sw<3,4,3> o (8,64):(64,1)")
    with pytest.raises(bitmma.Error):
        layout.shape_and_stride("no layout")
