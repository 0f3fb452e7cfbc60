#include "bitmma/instruction/instruction.hpp"

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

namespace {

void require_complete(const Instruction& instruction) {
  INFO(print(instruction));
  REQUIRE(violations_of(instruction, default_target(instruction)).empty());
  REQUIRE(find_form(instruction) != nullptr);
}

}  // namespace

TEST_CASE("a wgmma that names its types alone is complete and legal") {
  using enum Format;
  require_complete(Wgmma{});
  require_complete(Wgmma{.a = e4m3, .b = e4m3});
  require_complete(Wgmma{.n = 256, .d = f16});
  CHECK(Wgmma{}.k == 16);
  CHECK(Wgmma{.a = e4m3, .b = e4m3}.k == 32);
  CHECK(Wgmma{.a = tf32, .b = tf32, .sparse = true}.k == 16);
  CHECK(Wgmma{.d = s32, .a = b1, .b = b1}.k == 256);
  CHECK(Wgmma{.d = s32, .a = b1, .b = b1}.bit_operation == BitOperation::and_popc);
  int count = 0;
  for (const Form& form : forms()) {
    if (form.family != Family::wgmma) continue;
    for (const FormatInfo& a : formats) {
      for (const FormatInfo& b : formats) {
        if (!form.a.contains(a.id) || !form.b.contains(b.id)) continue;
        for (const bool sparse : {false, true}) {
          if (sparse && form.k_sparse == 0) continue;
          require_complete(Wgmma{.d = form.d, .a = a.id, .b = b.id, .sparse = sparse});
          ++count;
        }
      }
    }
  }
  CHECK(count == 17 * 2 - 1);
}

TEST_CASE("an mma.sync that names its kind alone is complete and legal") {
  require_complete(MmaSync{});
  for (const MmaKind kind : {MmaKind::mxf8f6f4, MmaKind::mxf4, MmaKind::mxf4nvf4}) {
    for (const bool sparse : {false, true}) require_complete(MmaSync{.kind = kind, .sparse = sparse});
  }
  CHECK(MmaSync{.kind = MmaKind::mxf4}.k == 64);
  CHECK(MmaSync{.kind = MmaKind::mxf4nvf4}.scale_type == Format::ue4m3);
  require_complete(MmaSync{.kind = MmaKind::mxf4nvf4, .scale_vec = ScaleVec::x2});
  require_complete(MmaSync{.kind = MmaKind::mxf8f6f4, .a = Format::e2m1});
  CHECK(MmaSync{}.k == 16);
  CHECK(MmaSync{.m = 8}.k == 4);
  CHECK(MmaSync{.m = 8, .d = Format::s32, .a = Format::s4}.k == 32);
  CHECK(MmaSync{.d = Format::s32, .a = Format::b1}.bit_operation == BitOperation::and_popc);
  for (const Format a : {Format::f16, Format::bf16, Format::tf32, Format::e4m3}) require_complete(MmaSync{.a = a});
  for (const Format a : {Format::s8, Format::u4}) require_complete(MmaSync{.d = Format::s32, .a = a, .sparse = true});
  require_complete(MmaSync{.d = Format::f64, .a = Format::f64});
  require_complete(MmaSync{.kind = MmaKind::f8f6f4, .a = Format::e3m2, .b = Format::e2m1, .sparse = true});
}

TEST_CASE("a tcgen05.mma that names its kind and form alone is complete and legal") {
  require_complete(Tcgen05Mma{});
  int count = 0;
  for (const MmaKindInfo& kind : mma_kinds) {
    for (const bool sparse : {false, true}) {
      for (const int cta_group : {1, 2}) {
        require_complete(Tcgen05Mma{.kind = kind.id, .cta_group = cta_group, .sparse = sparse});
        require_complete(
            Tcgen05Mma{.kind = kind.id, .cta_group = cta_group, .sparse = sparse, .a_source = OperandSource::tmem});
        ++count;
      }
      if (!kind.has_block_scales)
        require_complete(Tcgen05Mma{.kind = kind.id, .weight_stationary = true, .sparse = sparse});
    }
  }
  CHECK(count == 8 * 4);
  for (const Format a : {Format::e4m3, Format::e5m2, Format::e2m3, Format::e3m2, Format::e2m1}) {
    require_complete(Tcgen05Mma{.kind = MmaKind::f8f6f4, .a = a});
    require_complete(Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .a = a, .sparse = true});
  }
  require_complete(Tcgen05Mma{.a = Format::bf16});
  require_complete(Tcgen05Mma{.d = Format::f16});
  require_complete(Tcgen05Mma{.kind = MmaKind::mxf4, .k = 96});
  require_complete(Tcgen05Mma{.kind = MmaKind::mxf4nvf4, .k = 96});
}

TEST_CASE("a move that names its kind and shape alone is complete and legal") {
  require_complete(TmemMove{});
  for (const MoveKind kind : {MoveKind::ld, MoveKind::st, MoveKind::cp, MoveKind::shift})
    require_complete(TmemMove{.kind = kind});
  for (const LdStInfo& shape : ldst_shapes) {
    require_complete(TmemMove{.ldst = {.shape = shape.id}});
    require_complete(
        TmemMove{.kind = MoveKind::st, .ldst = {.shape = shape.id, .num = shape.max_num, .pack_16b = true}});
  }
  // The second piece of 16x32bx2 lies directly behind the first.
  CHECK(TmemMove{.ldst = {.shape = LdStShape::s16x32bx2, .num = 4}}.half_split_offset == 4);
  CHECK(TmemMove{.ldst = {.shape = LdStShape::s16x32bx2, .num = 4, .pack_16b = true}}.half_split_offset == 8);
  CHECK(TmemMove{.ldst = {.shape = LdStShape::s32x32b, .num = 4}}.half_split_offset == 0);
  for (int shape = 0; shape < static_cast<int>(cp_shapes.size()); ++shape)
    require_complete(TmemMove{.kind = MoveKind::cp, .cp_shape = shape});
}

TEST_CASE("the factories give what they are given, or throw every violation") {
  CHECK(wgmma({.n = 16}) == Instruction(Wgmma{.n = 16}));
  CHECK(mma_sync({.kind = MmaKind::mxf4}) == Instruction(MmaSync{.kind = MmaKind::mxf4}));
  CHECK(tcgen05({.kind = MmaKind::i8}) == Instruction(Tcgen05Mma{.kind = MmaKind::i8}));
  CHECK(tmem_move({.kind = MoveKind::shift}) == Instruction(TmemMove{.kind = MoveKind::shift}));
  const auto violations = [](const auto& make) {
    try {
      make();
    } catch (const Error& error) {
      return error.violations().size();
    }
    return size_t{0};
  };
  CHECK(violations([] { wgmma({.m = 128, .n = 12}); }) == 2);
  CHECK(violations([] { mma_sync({.kind = MmaKind::mxf8f6f4, .byte_id_a = 4, .thread_id_a = 2}); }) == 2);
  CHECK(violations([] { tcgen05({.cta_group = 2, .n = 24, .scale_input_d = 16}); }) == 2);
  CHECK(violations([] { tmem_move({.kind = MoveKind::cp, .cta_group = 3, .cp_shape = 6}); }) == 2);
}

TEST_CASE("numbers that are cast to formats and kinds are refused as every other wrong field") {
  const auto refuses = [](const auto& make) {
    try {
      make();
      return false;
    } catch (const Error& error) {
      return !error.violations().empty();
    }
  };
  for (const int number : {static_cast<int>(formats.size()), 64, 200, 255}) {
    const auto format = static_cast<Format>(number);
    INFO(number);
    CHECK(refuses([&] { wgmma({.a = format}); }));
    CHECK(refuses([&] { wgmma({.b = format}); }));
    CHECK(refuses([&] { wgmma({.d = format, .sparse = true}); }));
    for (const int m : {8, 16}) CHECK(refuses([&] { mma_sync({.m = m, .a = format}); }));
    CHECK(refuses([&] { mma_sync({.b = format}); }));
    CHECK(refuses([&] { mma_sync({.d = format}); }));
    CHECK(refuses([&] { mma_sync({.c = format}); }));
    CHECK(refuses([&] { mma_sync({.kind = MmaKind::mxf4, .a = format}); }));
    CHECK(refuses([&] { mma_sync({.kind = MmaKind::mxf4, .scale_type = format}); }));
    for (const MmaKind kind : {MmaKind::f16, MmaKind::f8f6f4, MmaKind::mxf4nvf4}) {
      CHECK(refuses([&] { tcgen05({.kind = kind, .a = format}); }));
      CHECK(refuses([&] { tcgen05({.kind = kind, .b = format}); }));
      CHECK(refuses([&] { tcgen05({.kind = kind, .d = format}); }));
    }
    CHECK(refuses([&] { tcgen05({.kind = MmaKind::mxf4, .scale_type = format}); }));
  }
}

TEST_CASE("what the families have in common is the same, however it is asked") {
  for (const Instruction& instruction : test::sample_instructions()) {
    CHECK(is_mma(instruction) == (family_of(instruction) != Family::tmem_move));
    if (!is_mma(instruction)) {
      CHECK_THROWS_AS(mma_of(instruction), Error);
      continue;
    }
    const Mma mma = mma_of(instruction);
    INFO(print(instruction));
    CHECK(mma.family == family_of(instruction));
    CHECK(mma.stored_k() == (mma.sparse ? mma.k / 2 : mma.k / mma.products));
    CHECK((mma.scale_count > 0) == (mma.scaling != Scaling::none));
    // mma.sync has shorter K too.
    if (mma.family != Family::mma_sync) CHECK(mma.k * mma.a_container_bits == (mma.sparse ? 512 : 256));
    std::visit(
        [&](const auto& fields) {
          if constexpr (requires { fields.m; }) {
            CHECK(std::tuple(mma.m / mma.products, mma.n, mma.k / mma.products, mma.d, mma.a, mma.b, mma.sparse) ==
                  std::tuple(fields.m, fields.n, fields.k, fields.d, fields.a, fields.b, fields.sparse));
          }
        },
        instruction);
  }
}

TEST_CASE("changes that a family has are made, others leave it as it was") {
  for (const Instruction& instruction : test::sample_instructions()) {
    INFO(print(instruction));
    const Family family = family_of(instruction);
    const bool has_smem = family == Family::wgmma || family == Family::tcgen05;
    for (const bool enable : {false, true}) {
      const Instruction changed = with_enable_input_d(instruction, enable);
      if (has_smem) CHECK(mma_of(changed).enable_input_d == enable);
      else CHECK(changed == instruction);
      CHECK(with_enable_input_d(changed, true) == with_enable_input_d(instruction, true));
    }
    const Instruction mn = with_majors(instruction, Major::mn, Major::mn);
    if (!has_smem) CHECK(mn == instruction);
    else {
      CHECK(mma_of(mn).b_major == Major::mn);
      CHECK((mma_of(mn).a_major == Major::mn) == (mma_of(instruction).a_source == OperandSource::smem));
      CHECK(with_majors(mn, Major::k, Major::k) == instruction);
    }
    const Instruction in_smem = with_a_source(instruction, OperandSource::smem);
    if (has_smem) CHECK(mma_of(in_smem).a_source == OperandSource::smem);
    else CHECK(in_smem == instruction);
    if (is_mma(instruction)) CHECK(mma_of(with_sparsity_selector(instruction, 3)).sparsity_selector == 3);
    else CHECK(with_sparsity_selector(instruction, 3) == instruction);
  }
}

TEST_CASE("a K-major matrix in registers or Tensor Memory stays so") {
  const Instruction registers = Wgmma{.a_source = OperandSource::registers};
  CHECK(mma_of(with_majors(registers, Major::mn, Major::mn)).a_major == Major::k);
  const Instruction tmem = Tcgen05Mma{.a_source = OperandSource::tmem};
  CHECK(mma_of(with_majors(tmem, Major::mn, Major::mn)).a_major == Major::k);
}

TEST_CASE("e2m1 sits in bits 5:2 of a byte, and everything else at the bottom of its container") {
  for (const FormatInfo& format : formats) {
    CHECK(container_shift(format.id, 8) == (format.id == Format::e2m1 ? 2 : 0));
    CHECK(container_shift(format.id, 4) == 0);
  }
}

TEST_CASE("the number of scales of a row follows from the kind, the size of their vector and K") {
  using enum ScaleVec;
  CHECK(scale_count_of(MmaKind::f16, unwritten, 16, false) == 0);
  for (const bool sparse : {false, true}) {
    const int twice = sparse ? 2 : 1;
    for (const ScaleVec size : {unwritten, x1, block32})
      CHECK(scale_count_of(MmaKind::mxf8f6f4, size, 32 * twice, sparse) == 1);
    for (const ScaleVec size : {unwritten, x2, block32})
      CHECK(scale_count_of(MmaKind::mxf4, size, 64 * twice, sparse) == 2);
    for (const ScaleVec size : {x4, block16}) CHECK(scale_count_of(MmaKind::mxf4nvf4, size, 64 * twice, sparse) == 4);
  }
  CHECK(scale_count_of(MmaKind::mxf4, unwritten, 96, false) == 3);
  CHECK(scale_count_of(MmaKind::mxf4nvf4, block16, 96, false) == 6);
}
