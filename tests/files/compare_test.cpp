#include "bitmma/files/compare.hpp"

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

TensorFile golden_of(std::string_view mnemonic, int64_t cases, uint64_t seed = 1) {
  return make_golden(
      {.instruction = parse_instruction(mnemonic), .cases = cases, .seed = seed, .distribution = Distribution::normal},
      2);
}

/// The file with one bit of a tensor flipped.
VectorFile with_flipped_bit(const VectorFile& vectors, std::string_view name, size_t byte, int bit) {
  TensorFile file = vectors.file;
  const Tensor& tensor = *file.find(name);
  std::vector<uint8_t> bytes = tensor.bytes.copy();
  bytes.at(byte) ^= static_cast<uint8_t>(1 << bit);
  file.set(Tensor::from_bytes(tensor.name, tensor.dtype, tensor.shape, std::move(bytes)));
  return as_vector_file(std::move(file));
}

constexpr std::string_view f16_mma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
                           load = "tcgen05.ld.sync.aligned.32x32b.x2.b32";

}  // namespace

TEST_CASE("every recorded D of the H200 is reproduced bit for bit",
          "[rule:fused-sum][rule:swizzle][rule:base-offset][rule:selection][rule:lbo-of-wide-rows][rule:state]") {
  Comparison total;
  const std::vector<std::string> files = test::golden_files();
  for (const std::string& path : files) {
    const Comparison comparison = verify(read_vector_file(path), hardware_threads());
    INFO(path);
    REQUIRE(comparison.mismatches == 0);
    REQUIRE(comparison.outputs > 0);
    total += comparison;
  }
  constexpr size_t dumped_files = 197;
  constexpr int64_t dumped_cases = 283, dumped_outputs = 543232;
  CHECK(files.size() >= dumped_files);
  CHECK(total.cases >= dumped_cases);
  CHECK(total.outputs >= dumped_outputs);
}

TEST_CASE("verify sees a single wrong bit and says where it is") {
  VectorFile vectors =
      read_vector_file(test::source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors"));
  const Tensor d_regs = *vectors.file.find("d_regs");
  std::vector<uint8_t> bytes = d_regs.bytes.copy();
  const size_t word = 512 + 37 * 4 + 2;  // case 1, thread 37, register 2 of 4
  bytes[word * 4 + 3] ^= 0x10;
  vectors.file.set(Tensor::from_bytes("d_regs", "U32", d_regs.shape, bytes));
  const Comparison result = verify(vectors, 2);
  CHECK(result.mismatches == 1);
  CHECK(result.cases_with_mismatches == 1);
  REQUIRE(result.first);
  CHECK(result.first->case_index == 1);
  CHECK(result.first->place == Place(RegisterPlace{37, 2, 0}));
  CHECK(result.first->row == 16 + 1 + 8);
  CHECK(result.first->col == 2);
  CHECK((result.first->expected ^ result.first->actual) == 0x10000000);
}

TEST_CASE("reading outside the image is an error of that file, not a result") {
  VectorFile vectors =
      read_vector_file(test::source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors"));
  const std::vector<uint8_t> descriptor{0xFF, 0x3F, 0, 0, 0, 0, 0, 0, 0xFF, 0x3F, 0, 0, 0, 0, 0, 0};
  vectors.file.set(Tensor::from_bytes("b_desc", "U64", {2}, descriptor));
  CHECK_THROWS_MATCHES(verify(vectors, 2), Error, refused(illegal_value, "B element row 0, k 0"));
}

TEST_CASE("verify sees a wrong cell of Tensor Memory and says where it is in D") {
  const Instruction instruction = tcgen05({.m = 128, .n = 16});
  const VectorFile vectors = as_vector_file(make_golden({.instruction = instruction, .cases = 2, .seed = 3}, 2));
  REQUIRE(verify(vectors, 2).mismatches == 0);
  const Case this_case = case_at(vectors, 1);
  const TmemAddress d = decode_tmem_address(this_case.before.word(Field::d_tmem));
  const auto columns = static_cast<size_t>(this_case.before.columns());
  const size_t lane = static_cast<size_t>(d.lane) + 37, column = static_cast<size_t>(d.column) + 5;
  const size_t cell = (tmem_lanes + lane) * columns + column;  // of case 1
  const Comparison result = verify(with_flipped_bit(vectors, "tmem_after", 4 * cell, 7), 2);
  CHECK(result.mismatches == 1);
  REQUIRE(result.first);
  CHECK(result.first->case_index == 1);
  CHECK(result.first->row == 37);
  CHECK(result.first->col == 5);
  CHECK(result.first->relative_to_d);
  CHECK(result.first->place == Place(TmemPlace{.cta = 0, .lane = 37, .column = 5, .bit = 0}));
  CHECK((result.first->expected ^ result.first->actual) == 0x80);
  CHECK_THAT(print(*result.first), ContainsSubstring("case 1, row 37, col 5 (cta 0, lane 37, column 5 of D)"));
}

TEST_CASE("a mismatch prints case, row, column, place, and both values as bits and as numbers") {
  const Mismatch mismatch{.case_index = 3,
                          .row = 17,
                          .col = 5,
                          .place = RegisterPlace{.thread = 38, .reg = 3, .bit = 0},
                          .format = Format::f32,
                          .expected = 0x3F800000,
                          .actual = 0x3F800001};
  CHECK(print(mismatch) ==
        "case 3, row 17, col 5 (thread 38, register 3, bit 0): expected 0x3f800000 (1), actual 0x3f800001 "
        "(1.0000001192092896)");
}

TEST_CASE("two files of the same cases are the same, and a single bit is found in either order") {
  for (const std::string_view mnemonic : {f16_mma, load}) {
    const VectorFile vectors = as_vector_file(golden_of(mnemonic, 3));
    const Comparison same = compare(vectors, vectors);
    INFO(mnemonic);
    CHECK(same.cases == 3);
    CHECK(same.mismatches == 0);
    CHECK(same.outputs == 3 * (mnemonic == f16_mma ? 64 * 8 : 32 * 2));
    CHECK_FALSE(same.first);
    const size_t bytes_per_case = vectors.file.find("d_regs")->bytes.size() / 3;
    const VectorFile other = with_flipped_bit(vectors, "d_regs", 2 * bytes_per_case + 4 * 2 + 1, 0);
    const Comparison there = compare(vectors, other), back = compare(other, vectors);
    CHECK(there.mismatches == 1);
    CHECK(there.cases_with_mismatches == 1);
    REQUIRE(there.first);
    REQUIRE(back.first);
    CHECK(there.first->case_index == 2);
    CHECK((there.first->expected ^ there.first->actual) == 0x100);
    CHECK(there.first->expected == back.first->actual);
    CHECK(there.first->actual == back.first->expected);
  }
}

TEST_CASE("files of other instructions, of other numbers of cases, or without D are not compared") {
  const VectorFile three = as_vector_file(golden_of(f16_mma, 3)), two = as_vector_file(golden_of(f16_mma, 2)),
                   move = as_vector_file(golden_of(load, 3));
  CHECK_THROWS_MATCHES(compare(three, two), Error, refused(illegal_value, ": cases"));
  CHECK_THROWS_MATCHES(compare(three, move), Error, refused(illegal_value, ": instruction"));
  TensorFile without = golden_of(f16_mma, 3);
  without.erase("d_regs"), without.erase("d");
  const VectorFile nothing = as_vector_file(without);
  CHECK_THROWS_MATCHES(compare(three, nothing), Error, refused(missing_input, ": tensor d_regs"));
  CHECK_THROWS_MATCHES(compare(nothing, three), Error, refused(missing_input, ": tensor d_regs"));
  CHECK_THROWS_MATCHES(verify(nothing, 1), Error, refused(missing_input, ": tensor d_regs"));
}

TEST_CASE("the sum of two comparisons counts both and keeps the mismatch of the lower case") {
  Comparison comparison{
      .cases = 2, .outputs = 20, .mismatches = 3, .cases_with_mismatches = 1, .first = Mismatch{.case_index = 5}};
  comparison +=
      {.cases = 1, .outputs = 10, .mismatches = 1, .cases_with_mismatches = 1, .first = Mismatch{.case_index = 4}};
  comparison += {.cases = 1, .outputs = 10};
  comparison +=
      {.cases = 1, .outputs = 10, .mismatches = 1, .cases_with_mismatches = 1, .first = Mismatch{.case_index = 6}};
  CHECK(comparison.cases == 5);
  CHECK(comparison.outputs == 50);
  CHECK(comparison.mismatches == 5);
  CHECK(comparison.cases_with_mismatches == 3);
  REQUIRE(comparison.first);
  CHECK(comparison.first->case_index == 4);
}

TEST_CASE("another model in place of the hardware's row is what verify then compares with") {
  const VectorFile vectors = as_vector_file(golden_of(f16_mma, 2));
  AccumulatorModel wrong = model_for(vectors.instruction, vectors.target);
  wrong.fraction_bits -= 8;
  CHECK(verify(vectors, 1).mismatches == 0);
  CHECK(verify(vectors, 1, {}, &wrong).mismatches > 0);
}

TEST_CASE("verify reports every case that is done, for any number of threads") {
  const VectorFile vectors = as_vector_file(golden_of(f16_mma, 5));
  for (const int threads : {1, 3}) {
    std::vector<int64_t> done;
    verify(vectors, threads, [&](int64_t cases) { done.push_back(cases); });
    CHECK(done == std::vector<int64_t>{1, 2, 3, 4, 5});
  }
}
