// What explain says, recomputed by the slow oracle and from the file itself.
#include "bitmma/io/explain.hpp"

#include "bitmma/io/golden.hpp"
#include "oracle/slow_dot.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

struct Subject {
  Instruction instruction;
  Distribution distribution;
};

Instruction tcgen05(const char* text, int m, int n, Format d, Format a, Format b, Format scale = Format::ue8m0) {
  Instruction instruction = parse_instruction(text);
  instruction.m = m, instruction.n = n, instruction.d = d, instruction.a = a, instruction.b = b,
  instruction.scale_type = scale;
  return with_idesc(instruction, idesc_of(instruction));
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const Distribution distribution :
       {Distribution::normal, Distribution::wide, Distribution::ties, Distribution::subnormal, Distribution::special}) {
    for (const char* text :
         {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16",
          "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32", "wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e5m2",
          "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8",
          "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m3.e2m1.f32.ue8m0"}) {
      all.push_back({parse_instruction(text), distribution});
    }
    Instruction scaled = tcgen05("tcgen05.mma.cta_group::2.kind::f16", 128, 16, Format::f32, Format::f16, Format::f16);
    scaled.scale_input_d = 5, scaled.imm_scale_a = -1;
    all.push_back({scaled, distribution});
    all.push_back({tcgen05("tcgen05.mma.sp.cta_group::1.kind::f8f6f4", 64, 8, Format::f32, Format::e2m1, Format::e5m2),
                   distribution});
    all.push_back({tcgen05("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16", 128, 8, Format::f32,
                           Format::e2m1, Format::e2m1, Format::ue4m3),
                   distribution});
    Instruction in_tmem =
        tcgen05("tcgen05.mma.cta_group::1.kind::f8f6f4", 128, 8, Format::f32, Format::e2m1, Format::e4m3);
    in_tmem.a_source = OperandSource::tmem;
    all.push_back({in_tmem, distribution});
  }
  return all;
}

/// The code at a place, read by hand.
uint32_t code_at(const VectorFile& vectors, const ReadPlace& place, Format format, std::string_view registers_tensor) {
  const auto mask = static_cast<uint32_t>(low_mask(info(format).bits));
  const auto words_of = [&](std::string_view name) { return vectors.file.find(name)->bytes; };
  const auto word_at = [](std::span<const uint8_t> bytes, size_t index) {
    return bytes[4 * index] | bytes[4 * index + 1] << 8 | bytes[4 * index + 2] << 16 |
           uint32_t{bytes[4 * index + 3]} << 24;
  };
  if (place.smem) {
    const Tensor& smem = *vectors.file.find("smem");
    const auto image = static_cast<size_t>(smem.shape.back());
    uint64_t word = 0;
    for (size_t i = 0; i < 4 && place.smem->place.byte + i < image; ++i)
      word |= uint64_t{smem.bytes[static_cast<size_t>(place.smem->cta) * image +
                                  static_cast<size_t>(place.smem->place.byte) + i]}
              << 8 * i;
    return static_cast<uint32_t>(word >> place.smem->place.bit) & mask;
  }
  if (place.reg) {
    const Tensor& registers = *vectors.file.find(registers_tensor);
    return word_at(words_of(registers_tensor),
                   static_cast<size_t>(place.reg->thread * registers.shape[2] + place.reg->reg)) >>
               place.reg->bit &
           mask;
  }
  const Tensor& tmem = *vectors.file.find("tmem");
  return word_at(words_of("tmem"), static_cast<size_t>((place.tmem->cta * 128 + place.tmem->lane) * tmem.shape[3] +
                                                       place.tmem->column)) >>
             place.tmem->bit &
         mask;
}

}  // namespace

TEST_CASE("explain's places, terms, exact sum and D are those of the file and of the oracle") {
  const test::TemporaryFolder folder;
  int explained = 0, special = 0;
  for (const Subject& subject : subjects()) {
    write_tensor_file(
        folder.path("x"),
        make_golden({.instruction = subject.instruction, .cases = 1, .seed = 3, .distribution = subject.distribution},
                    1));
    const VectorFile vectors = read_vector_file(folder.path("x"));
    for (int i = 0; i < 12; ++i) {
      const int row = i * 7 % subject.instruction.m, col = i * 5 % subject.instruction.n;
      const Explanation e = explain(vectors, 0, row, col);
      INFO(e.instruction << " row " << row << " col " << col << "\n" << print(e));
      REQUIRE(e.recorded_d == e.d);
      std::vector<uint32_t> a, b;
      for (const ExplainedTerm& term : e.terms) {
        REQUIRE(code_at(vectors, *term.a_place, e.a, "a_regs") == term.a_bits);
        REQUIRE(code_at(vectors, *term.b_place, e.b, "b_regs") == term.b_bits);
        a.push_back(term.a_bits), b.push_back(term.b_bits);
      }
      REQUIRE(code_at(vectors, *e.c_place, e.d_format, "c_regs") == *e.c_bits);
      ++explained;
      if (e.integer) {
        REQUIRE(static_cast<uint32_t>(e.sum) == e.d);
        continue;
      }
      if (e.special) {
        REQUIRE(*e.special == e.d);
        ++special;
        continue;
      }
      // The sum of what is kept is the sum of its parts, and rounds to D.
      const AccumulatorModel& model = model_for(vectors.instruction);
      int64_t sum = e.c_kept;
      for (const ExplainedTerm& term : e.terms) sum += term.kept;
      for (const ExplainedGroup& group : e.groups) sum += group.kept;
      REQUIRE(sum == e.sum);
      const uint32_t rounded =
          round_to(info(e.d_format),
                   {.negative = sum < 0, .magnitude = static_cast<uint64_t>(std::abs(sum)), .exponent = e.quantum},
                   model.rounding, model.output_fraction_bits);
      REQUIRE((rounded == e.d || (rounded & ~info(e.d_format).sign_bit()) == e.d));  // a zero has no sign
      if (!e.groups.empty()) continue;  // their exact sum has other scales in every group; grouped_dot judges D
      oracle::Scaling scaling{.c_shift = vectors.instruction.scale_input_d};
      if (vectors.is_tcgen05()) scaling.c_shift = subject.instruction.scale_input_d;
      if (e.scale_type) scaling.power = static_cast<int>(e.scale_a + e.scale_b) - 254;
      REQUIRE(e.exact == oracle::exact_dot(scaling, std::string(info(e.a).name), std::string(info(e.b).name),
                                           std::string(info(e.d_format).name), a, b,
                                           vectors.instruction.imm_scale_a == -1, vectors.instruction.imm_scale_b == -1,
                                           e.c_bits));
      // The correctly rounded alternative is within half a last place of it.
      const auto exact = std::ranges::find_if(
          e.alternatives, [](const Alternative& other) { return other.name.starts_with("exact sum"); });
      REQUIRE(exact != e.alternatives.end());
      if (exact->error_ulp) CHECK(std::abs(*exact->error_ulp) <= 0.5);
    }
  }
  CHECK(explained == 12 * 5 * 10);
  CHECK(special > 20);
}

TEST_CASE("exact sums add, subtract, print and round") {
  ExactSum sum;
  CHECK(sum.print() == "0");
  sum.add({.negative = false, .magnitude = 5, .exponent = -3});
  CHECK(sum.print() == "0x5 * 2^-3");
  sum.add({.negative = true, .magnitude = 1, .exponent = 200});
  CHECK(sum.approximate() < -1e60);
  CHECK(round_to(Format::f32, sum.rounded_source(), Rounding::toward_zero) == 0xFF800000);
  sum.add({.negative = false, .magnitude = 1, .exponent = 200});
  CHECK(sum.print() == "0x5 * 2^-3");
  ExactSum same;
  same.add({.negative = false, .magnitude = uint64_t{5} << 60, .exponent = -63});
  sum -= same;
  CHECK(sum.is_zero());
  ExactSum tie;  // 1 + 2^-24, and a little more far below
  tie.add({.negative = false, .magnitude = 1, .exponent = 0});
  tie.add({.negative = false, .magnitude = 1, .exponent = -24});
  CHECK(round_to(Format::f32, tie.rounded_source(), Rounding::nearest_even) == 0x3F800000);
  tie.add({.negative = false, .magnitude = 1, .exponent = -300});
  CHECK(round_to(Format::f32, tie.rounded_source(), Rounding::nearest_even) == 0x3F800001);
}

TEST_CASE("explain refuses what is not there") {
  const test::TemporaryFolder folder;
  write_tensor_file(
      folder.path("x"),
      make_golden({.instruction = parse_instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")}, 1));
  const VectorFile vectors = read_vector_file(folder.path("x"));
  CHECK_THROWS_WITH(explain(vectors, 1, 0, 0), ContainsSubstring("--case = 1: legal is 0..0"));
  CHECK_THROWS_WITH(explain(vectors, 0, 64, 0), ContainsSubstring("64, 0: legal is 0..63, 0..7"));
  write_tensor_file(folder.path("m"),
                    make_golden(parse_tmem_move("tcgen05.shift.cta_group::1.down"), 1, 0, Swizzle::none));
  CHECK_THROWS_WITH(explain(read_vector_file(folder.path("m")), 0, 0, 0),
                    ContainsSubstring("it moves bits and computes nothing"));
}
