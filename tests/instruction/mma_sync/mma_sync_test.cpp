#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/metadata.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("the fragments of mma.sync are those of the PTX figures, value by value", "[rule:fragments]") {
  // As the figures number them: value i of lane l, typed from the sheet and not from the code.
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, q = lane % 4;
    for (int i = 0; i < 16; ++i) {  // bytes: m16n8k32, and the stored A of m16n8k64
      CHECK(element_at(mma_a_fragment(8, 32), lane, i / 4, i % 4 * 8) ==
            MatrixPlace{g + 8 * (i >> 2 & 1), 4 * q + (i & 3) + 16 * (i >> 3)});
      const int chunk = (8 * q + 32 * (i >> 3) + 4 * (i >> 1 & 1)) / 4;
      CHECK(element_at(mma_a_fragment(8, 32), lane, i / 4, i % 4 * 8).col == 2 * chunk + (i & 1));
      CHECK(element_at(mma_b_fragment(8, 64), lane, i / 4, i % 4 * 8) ==
            MatrixPlace{g, 4 * q + (i & 3) + 16 * (i >> 2)});
    }
    for (int i = 0; i < 32; ++i) {  // packed fp4: m16n8k64, and the stored A of m16n8k128
      CHECK(element_at(mma_a_fragment(4, 64), lane, i / 8, i % 8 * 4) ==
            MatrixPlace{g + 8 * (i >> 3 & 1), 8 * q + (i & 7) + 32 * (i >> 4)});
      const int chunk = (16 * q + 64 * (i >> 4) + 8 * (i >> 2 & 1)) / 8;
      CHECK(element_at(mma_a_fragment(4, 64), lane, i / 8, i % 8 * 4).col == 4 * chunk + (i & 3));
      CHECK(element_at(mma_b_fragment(4, 128), lane, i / 8, i % 8 * 4) ==
            MatrixPlace{g, 8 * q + (i & 7) + 32 * (i >> 3)});
    }
    for (int i = 0; i < 4; ++i)
      CHECK(element_at(mma_d_fragment(), lane, i, 0) == MatrixPlace{g + 8 * (i >> 1), 2 * q + (i & 1)});
    for (int nibble = 0; nibble < 8; ++nibble) {
      const int row = g + 8 * (q & 1), chunk = nibble + 8 * (q >> 1);
      CHECK(metadata_place_of(metadata_layout(8, 32), row, 2 * chunk, 0) == RegisterPlace{lane, 0, 4 * nibble});
      CHECK(metadata_place_of(metadata_layout(4, 64), row, 4 * chunk, 0) == RegisterPlace{lane, 0, 4 * nibble});
    }
  }
  // The instruction of a famous question has 4, 2 and 4 registers, not 16 and 8.
  const Instruction instruction = parse_instruction(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3");
  const auto registers = [&](Field field) {
    for (const FieldRule& rule : fields_of(instruction)) {
      if (rule.field == field) return rule.extents;
    }
    return Extents{};
  };
  CHECK(registers(Field::a_regs) == Extents{32, 4});
  CHECK(registers(Field::b_regs) == Extents{32, 2});
  CHECK(registers(Field::accumulator) == Extents{32, 4});
  for (const Fragment& fragment :
       {mma_a_fragment(8, 32), mma_a_fragment(4, 64), mma_b_fragment(8, 32), mma_b_fragment(8, 64),
        mma_b_fragment(4, 64), mma_b_fragment(4, 128), mma_d_fragment()}) {
    for (int row = 0; row < fragment.rows; ++row) {
      for (int col = 0; col < fragment.cols; ++col) {
        const RegisterPlace place = place_of(fragment, row, col);
        REQUIRE(element_at(fragment, place.thread, place.reg, place.bit) == MatrixPlace{row, col});
      }
    }
  }
}

TEST_CASE("block scales of mma.sync are found by every id") {
  for (const MmaKind kind : {MmaKind::mxf8f6f4, MmaKind::mxf4, MmaKind::mxf4nvf4}) {
    for (int ids = 0; ids < 128; ++ids) {
      const MmaSync instruction{.kind = kind,
                                .byte_id_a = ids & 3,
                                .thread_id_a = ids >> 2 & 1,
                                .byte_id_b = ids >> 3 & 3,
                                .thread_id_b = ids >> 5};
      if (!violations_of(instruction, Target::sm_120a).empty()) continue;
      const Operands drawn = random_operands(instruction, Target::sm_120a, Distribution::wide, 5, 0);
      const State state = place_operands(instruction, {}, drawn, filler_stream(5, 0));
      REQUIRE(gather_operands(instruction, Target::sm_120a, state).scales == drawn.scales);
    }
  }
}

TEST_CASE("bits above a code in its byte, and scales of other threads, change nothing") {
  for (const Format type : {Format::e2m1, Format::e2m3, Format::e3m2}) {
    const Instruction instruction = MmaSync{.kind = MmaKind::mxf8f6f4, .a = type};
    const Operands operands = random_operands(instruction, Target::sm_120a, Distribution::wide, 2, 0);
    State state = place_operands(instruction, {}, operands, filler_stream(2, 0));
    const Matrix d = result_of(instruction, Target::sm_120a, state);
    const Operands read = gather_operands(instruction, Target::sm_120a, state);
    for (const Field field : {Field::a_regs, Field::b_regs}) {
      for (uint32_t& word : state.writable_words(field)) word ^= 0xC0C0C0C0;
    }
    // Scales are in byte 0 of threads 0 and 1 of a quad for A, and of thread 0 for B.
    for (size_t lane = 0; lane < 32; ++lane) {
      state.writable_words(Field::scale_a)[lane] ^= lane % 4 < 2 ? 0xFFFFFF00 : 0xFFFFFFFF;
      state.writable_words(Field::scale_b)[lane] ^= lane % 4 < 1 ? 0xFFFFFF00 : 0xFFFFFFFF;
    }
    CHECK(result_of(instruction, Target::sm_120a, state) == d);
    CHECK(gather_operands(instruction, Target::sm_120a, state) == read);
  }
}

TEST_CASE("the two padding bits below e2m1 count as mantissa, and golden cases leave them clear", "[rule:padding]") {
  for (const MmaKind kind : {MmaKind::f8f6f4, MmaKind::mxf8f6f4}) {
    const Instruction instruction = MmaSync{.kind = kind, .a = Format::e2m1};
    const Operands operands = random_operands(instruction, Target::sm_120a, Distribution::narrow, 3, 0);
    State state = place_operands(instruction, {}, operands, filler_stream(3, 0));
    for (const uint32_t word : state.words(Field::a_regs)) CHECK((word & 0x03030303) == 0);
    CHECK(gather_operands(instruction, Target::sm_120a, state).a == operands.a);
    state.writable_words(Field::a_regs)[0] |= 3;  // element (0, 0)
    const Operands read = gather_operands(instruction, Target::sm_120a, state);
    CHECK(read.a.format() == Format::e2m3);
    for (int row = 0; row < 16; ++row) {
      for (int j = 0; j < 32; ++j) CHECK(read.a(row, j) == (operands.a(row, j) << 2 | (row + j == 0 ? 3 : 0)));
    }
    const PlaceMap places(instruction, Target::sm_120a, state, Role::a);
    CHECK(std::get<RegisterPlace>(places.place_of(0, 1)).bit == 8);
  }
}

TEST_CASE("codes of 64 bits are where the fragments of f64 say", "[rule:fragments]") {
  for (const int k : {4, 8, 16}) {
    const Instruction instruction = MmaSync{.d = Format::f64, .a = Format::f64, .k = k};
    const Operands operands = random_operands(instruction, Target::sm_90a, Distribution::bits, 6, 0);
    const State state = place_operands(instruction, {}, operands, filler_stream(6, 0));
    // Value i of lane l, typed from the sheet: row g + 8 (i & 1), k = q + 4 (i >> 1).
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, q = lane % 4, registers = k / 2;
      for (int i = 0; i < registers; ++i) {
        const auto at = static_cast<size_t>(2 * (lane * registers + i));
        const uint64_t code = state.words(Field::a_regs)[at] | uint64_t{state.words(Field::a_regs)[at + 1]} << 32;
        REQUIRE(code == operands.a.code(g + 8 * (i & 1), q + 4 * (i >> 1)));
      }
    }
    const PlaceMap of_b(instruction, Target::sm_90a, state, Role::b);
    CHECK(std::get<RegisterPlace>(of_b.place_of(k - 1, 7)) == RegisterPlace{.thread = 31, .reg = k / 4 - 1, .bit = 0});
  }
}

TEST_CASE("only m8n8k4 is four products, and another K of m8 is described as it is, however large") {
  CHECK(mma_of(MmaSync{.m = 8}).k == 16);
  CHECK(mma_of(MmaSync{.m = 8}).products == 4);
  constexpr int large = 0x7FFFFFFF;
  CHECK(mma_of(MmaSync{.m = 8, .k = large}).k == large);
  CHECK(mma_of(MmaSync{.m = 8, .k = large}).products == 1);
}

TEST_CASE("four products of m8n8k4 are independent, in all layouts") {
  for (const bool a_col : {false, true}) {
    for (const bool b_row : {false, true}) {
      const Instruction instruction = MmaSync{.m = 8, .a_col = a_col, .b_row = b_row};
      const Operands operands = random_operands(instruction, Target::sm_70, Distribution::integers, 8, 0);
      const State state = place_operands(instruction, {}, operands, filler_stream(8, 0));
      const Matrix d = result_of(instruction, Target::sm_70, state);
      REQUIRE(d.rows() == 32);
      for (int product = 0; product < 4; ++product) {
        const auto sum_at = [&](int row, int col) {
          Operands dot{.a = block_of(operands.a, 8 * product + row, 1, 0, 4),
                       .b = block_of(operands.b, 4 * product, 4, col, 1),
                       .c = block_of(*operands.c, 8 * product + row, 1, col, 1)};
          return multiply_accumulate(model_for(instruction, Target::sm_70), dot)(0, 0);
        };
        for (int row = 0; row < 8; ++row) {
          for (int col = 0; col < 8; ++col) REQUIRE(d(8 * product + row, col) == sum_at(row, col));
        }
      }
    }
  }
}
