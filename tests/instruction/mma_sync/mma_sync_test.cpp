#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/metadata.hpp"
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
      CHECK(ordered_metadata_place(row, chunk) == RegisterPlace{lane, 0, 4 * nibble});
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

TEST_CASE(
    "mma.sync: golden, verify, and the logical matrices give the same D, for every mnemonic, id and distribution") {
  const test::TemporaryFolder folder;
  int index = 0;
  for (const Instruction& plain : all_instructions(Family::mma_sync)) {
    CHECK(print(parse_instruction(print(plain))) == print(plain));
    MmaSync instruction = std::get<MmaSync>(plain);
    const int scales = mma_of(instruction).scale_count, step = scales == 4 ? 4 : scales == 2 ? 2 : 1;
    for (int round = 0; round < 3; ++round, ++index) {
      instruction.byte_id_a = index % (4 / step) * step, instruction.byte_id_b = index / 3 % (4 / step) * step;
      instruction.thread_id_a = index % 2, instruction.thread_id_b = index / 2 % 4;
      REQUIRE(violations_of(instruction, Target::sm_120a).empty());
      const GoldenRequest request{.instruction = instruction,
                                  .cases = 2,
                                  .seed = static_cast<uint64_t>(index),
                                  .distribution = distributions[static_cast<size_t>(index) % distributions.size()].id};
      write_tensor_file(folder.path("x"), make_golden(request, 1));
      const VectorFile vectors = read_vector_file(folder.path("x"));
      INFO(print(instruction));
      REQUIRE(vectors.target == Target::sm_120a);
      REQUIRE(vectors.instruction == Instruction(instruction));
      const Comparison result = verify(vectors, 1);
      REQUIRE(result.mismatches == 0);
      REQUIRE(result.outputs == 2 * 16 * 8);
      // What is in registers is what was drawn; padding bits and other lanes are random and do not matter.
      const Operands drawn = random_operands(instruction, Target::sm_120a, request.distribution, request.seed, 1),
                     read = gather_operands(instruction, Target::sm_120a, case_at(vectors, 1).before);
      REQUIRE(read.a == drawn.a);
      REQUIRE(read.b == drawn.b);
      REQUIRE(*read.c == *drawn.c);
      REQUIRE(read.scales == drawn.scales);
      REQUIRE(read.selected_k == drawn.selected_k);
      // Logical matrices alone are laid out and give the same.
      TensorFile logical = vectors.file;
      for (const char* name : {"a_regs", "b_regs", "c_regs", "d_regs", "scale_a", "scale_b", "metadata", "d"})
        logical.erase(name);
      // A stored zero may move within its chunk; beside NaN or infinity in B that changes D, otherwise it does not.
      if (instruction.sparse &&
          (request.distribution == Distribution::bits || request.distribution == Distribution::special))
        continue;
      write_tensor_file(folder.path("logical"), logical);
      const TensorFile again = with_simulated_d(read_vector_file(folder.path("logical")), {}, 1);
      REQUIRE(std::ranges::equal(again.find("d_regs")->bytes, vectors.file.find("d_regs")->bytes));
    }
  }
  CHECK(index == 3 * 2 * (2 * 25 + 2 + 1 + 1));
}

TEST_CASE("padding bits of mma.sync's registers, and scales of other threads, change nothing") {
  for (const Format type : {Format::e2m1, Format::e2m3, Format::e3m2}) {
    const Instruction instruction = MmaSync{.a = type};
    const Operands operands = random_operands(instruction, Target::sm_120a, Distribution::wide, 2, 0);
    State state = place_operands(instruction, {}, operands, filler_stream(2, 0));
    const Matrix d = result_of(instruction, Target::sm_120a, state);
    const uint32_t used = type == Format::e2m1 ? 0x3C3C3C3C : 0x3F3F3F3F;
    for (const Field field : {Field::a_regs, Field::b_regs}) {
      for (uint32_t& word : state.writable_words(field)) word ^= ~used;
    }
    // Scales are in byte 0 of threads 0 and 1 of a quad for A, and of thread 0 for B.
    for (size_t lane = 0; lane < 32; ++lane) {
      state.writable_words(Field::scale_a)[lane] ^= lane % 4 < 2 ? 0xFFFFFF00 : 0xFFFFFFFF;
      state.writable_words(Field::scale_b)[lane] ^= lane % 4 < 1 ? 0xFFFFFF00 : 0xFFFFFFFF;
    }
    CHECK(result_of(instruction, Target::sm_120a, state) == d);
    CHECK(gather_operands(instruction, Target::sm_120a, state) == operands);
  }
}
