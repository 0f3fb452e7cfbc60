#include "bitmma/analysis/wrong_program.hpp"

#include <array>

#include "bitmma/analysis/diagnose_files.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/case_files.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::refused;

namespace {

constexpr const char *warp = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
                     *group = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16",
                     *fifth = "tcgen05.mma.cta_group::1.kind::f16";

/// The cases read the file's memory.
std::vector<Case> cases_of_file(VectorFile&&) = delete;
std::vector<Case> cases_of_file(const VectorFile& vectors) {
  std::vector<Case> cases;
  for (int64_t index = 0; index < vectors.cases; ++index) {
    Case& this_case = cases.emplace_back(case_at(vectors, index));
    if (this_case.has_state()) this_case.logical = {};
  }
  return cases;
}

}  // namespace

TEST_CASE("changes are read as a name, an index for each axis, and a code") {
  CHECK(parse_change("a[3,4]=0x3c00") == CodeChange{"a", {3, 4}, 0x3c00});
  CHECK(parse_change("smem[0x400]=255") == CodeChange{"smem", {0x400}, 255});
  CHECK(parse_change("a_desc=0x4000404000010000") == CodeChange{"a_desc", {}, 0x4000404000010000});
  for (const char* wrong : {"", "a", "a[3]", "a[3=1", "a3]=1", "[3]=1", "=1", "a[x]=1", "a[1]=x", "a[-1]=1"})
    CHECK_THROWS_MATCHES(parse_change(wrong), Error, refused(malformed, "set"));
}

TEST_CASE("the D of a wrong program is written with the inputs of the right one, and diagnosed from them") {
  for (const char* instruction : {warp, group, fifth}) {
    const TensorFile file = test::golden_file("right", instruction);
    const VectorFile right = as_vector_file(file);
    for (const std::string fault : {"a.zero", "c.cleared", "d.cols_1"}) {
      const WrongFile wrong = with_wrong_d(right, {.faults = {fault}});
      INFO(instruction << " " << fault);
      CHECK(wrong.wrong > 0);
      const VectorFile written = as_vector_file(wrong.file);
      const std::vector<Case> cases = cases_of_file(right);
      for (int64_t index = 0; index < right.cases; ++index) {
        const Matrix expected = faulty_d(cases, index, std::array{fault});
        const Case recorded = case_at(written, index);
        CHECK(recorded.logical.d == expected);  // d beside the state, which has it too
        CHECK(recorded_d({.instruction = recorded.instruction, .before = recorded.before, .after = recorded.after}) ==
              expected);
      }
      for (const Tensor& tensor : file.tensors) {
        const auto results = results_of(file);
        if (std::ranges::find(results, tensor.name) == results.end())
          CHECK(wrong.file.find(tensor.name)->bytes == tensor.bytes);
      }
      const DiagnosedFiles diagnosed = diagnose_files(file, wrong.file);
      CHECK(diagnosed.comparison.mismatches == wrong.wrong);
      REQUIRE_FALSE(diagnosed.diagnosis.findings.empty());
      CHECK(diagnosed.diagnosis.findings.front().explains_all);
    }
  }
}

TEST_CASE("a changed code is that of the element, in a matrix, a register and a byte of the image") {
  const VectorFile vectors = as_vector_file(test::golden_file("right", warp));
  const std::vector<Case> cases = cases_of_file(vectors);
  Operands operands = operands_of(cases[0]);
  operands.a.set_code(3, 4, 0x3c00);
  const Matrix expected = multiply(cases[0].instruction, cases[0].target, operands.a, operands.b, &*operands.c);
  CHECK(wrong_d(cases, 0, {.changes = {parse_change("a[3,4]=0x3c00")}}) == expected);
  // Row 3, k 4 is in thread 4 * 3 + 4 / 2, register 0, the lower half: PTX ISA, m16n8k16.
  const uint32_t word = cases[0].before.words(Field::a_regs)[14 * 4];
  const uint64_t changed = (word & 0xFFFF0000) | 0x3c00;
  CHECK(wrong_d(cases, 0, {.changes = {CodeChange{"a_regs", {14, 0}, changed}}}) == expected);
  const VectorFile of_group = as_vector_file(test::golden_file("right", group));
  const std::vector<Case> with_image = cases_of_file(of_group);
  Case other = with_image[0];
  std::vector<uint8_t> bytes(other.before.bytes(Field::smem).begin(), other.before.bytes(Field::smem).end());
  bytes[1] ^= 0x40;
  const uint64_t code = bytes[1];
  const Extents extents{std::ssize(bytes)};
  other.before.set(Field::smem, std::move(bytes), extents);
  const Matrix of_image = wrong_d(with_image, 0, {.changes = {CodeChange{"smem", {1}, code}}});
  CHECK(of_image == computed_d(other));
  CHECK(of_image != computed_d(with_image[0]));
}

TEST_CASE("what a case does not have is refused") {
  const VectorFile vectors = as_vector_file(test::golden_file("right", warp));
  const std::vector<Case> cases = cases_of_file(vectors);
  const auto set = [&](CodeChange change) { return wrong_d(cases, 0, {.changes = {std::move(change)}}); };
  CHECK_THROWS_MATCHES(set({"smem", {0}, 1}), Error, refused(unknown_name, "set"));
  CHECK_THROWS_MATCHES(set({"sfa", {0, 0}, 1}), Error, refused(no_effect, "set"));
  CHECK_THROWS_MATCHES(set({"a", {16, 0}, 1}), Error, refused(wrong_shape, "set"));
  CHECK_THROWS_MATCHES(set({"a", {1}, 1}), Error, refused(wrong_shape, "set"));
  CHECK_THROWS_MATCHES(set({"a_regs", {32, 0}, 1}), Error, refused(wrong_shape, "set"));
  CHECK_THROWS_MATCHES(set({"a", {0, 0}, 0x10000}), Error, refused(illegal_value, "set"));
  CHECK_THROWS_MATCHES(wrong_d(cases, 0, {.faults = {"a.nothing"}}), Error, refused(unknown_name, "fault"));
  CHECK_THROWS_MATCHES(wrong_d(cases, 0, {.faults = {"d.rounded.f16"}, .changes = {parse_change("a[0,0]=0")}}), Error,
                       refused(not_together, "set"));
}

TEST_CASE("of two copies of the operands the one that is meant is read") {
  TensorFile file = test::golden_file("edited", warp);
  std::vector<uint8_t> registers = file.find("a_regs")->bytes.copy();
  registers[0] ^= 1;
  file.set(Tensor::from_bytes("a_regs", "U32", file.find("a_regs")->shape, std::move(registers)));
  CHECK_THROWS_MATCHES(require_consistent(as_vector_file(file)), Error, refused(contradiction, "edited: tensor a"));
  const VectorFile of_state = as_vector_file(file, {.inputs = OperandCopy::state}),
                   of_matrices = as_vector_file(file, {.inputs = OperandCopy::matrices});
  CHECK_NOTHROW(require_consistent(of_state));
  CHECK_NOTHROW(require_consistent(of_matrices));
  CHECK(verify(of_state, 1).mismatches > 0);      // D is that of the other register
  CHECK(verify(of_matrices, 1).mismatches == 0);  // the matrices were not edited
  CHECK_THROWS_MATCHES(as_vector_file(test::plain_file("plain", warp, 16, 8, 16), {.inputs = OperandCopy::state}),
                       Error, refused(no_effect, "inputs"));
}
