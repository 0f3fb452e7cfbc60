// The library against the slow oracle: a million outputs of every accumulator row, from every distribution, dense and
// sparse, with and without C, negated and saturated.
#include <atomic>
#include <map>

#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/random_operands.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "oracle/slow_dot.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

/// The rules again, typed a second time from the prose: F, floor, kept bits, nearest, f16 result.
const std::map<std::string, oracle::Rule> rules = {
    {"tf32 f32", {25, -133, 23, false, false}}, {"f16 f32", {25, -133, 23, false, false}}, {"bf16 f32", {25, -133, 23, false, false}},
    {"f16 f16", {25, -21, 10, true, true}},     {"e4m3 f32", {13, -133, 13, false, false}}, {"e4m3 f16", {13, -21, 10, true, true}},
};

uint32_t expected(const Instruction& instruction, const Operands& operands, int row, int col) {
  std::vector<uint32_t> a, b;
  for (int j = 0; j < operands.a.cols(); ++j) {
    const int k = operands.selected_k.empty() ? j : operands.selected_k[static_cast<size_t>(row * operands.a.cols() + j)];
    a.push_back(operands.a(row, j));
    b.push_back(operands.b(k, col));
  }
  const std::optional<uint32_t> c = operands.c ? std::optional((*operands.c)(row, col)) : std::nullopt;
  const std::string type_a(info(instruction.a).name), type_b(info(instruction.b).name), type_d(info(instruction.d).name);
  if (instruction.d == Format::s32) return oracle::integer_dot(type_a, type_b, a, b, operands.saturate, c);
  const std::string family = type_a == "e5m2" ? "e4m3" : type_a;
  return oracle::fused_dot(rules.at(family + " " + type_d), type_a, type_b, a, b, operands.negate_a, operands.negate_b, c);
}

void require_row_agrees(const AccumulatorModel& row) {
  std::vector<Instruction> instructions;
  for (const LegalForm& form : legal_forms()) {
    if (find_accumulator_model(form.family, form.a, form.b, form.d) != &row) continue;
    for (int variant = 0; variant < 4; ++variant) {
      const bool sparse = variant % 2 == 1 && form.k_sparse != 0;
      instructions.push_back({.sparse = sparse, .n = 16, .k = sparse ? form.k_sparse : form.k_dense, .d = form.d, .a = form.a, .b = form.b,
                              .satfinite = form.satfinite && variant >= 2, .bit_operation = std::string(form.bit_operation),
                              .imm_scale_a = form.scale && variant == 1 ? -1 : 1, .imm_scale_b = form.scale && variant == 2 ? -1 : 1,
                              .scale_d = variant == 3 ? 0 : 1});
    }
  }
  const int64_t outputs_per_case = 64 * 16;
  const int64_t cases = BITMMA_ORACLE_OUTPUTS / outputs_per_case + 1;
  std::atomic<int64_t> outputs{0}, wrong{0};
  parallel_for(static_cast<size_t>(cases), hardware_threads(), [&](size_t index) {
    const Instruction& instruction = instructions[index % instructions.size()];
    const Distribution distribution = distributions[index / instructions.size() % distributions.size()].id;
    const Operands operands = random_operands(instruction, distribution, 2026, index);
    const BitMatrix d = multiply_accumulate(row, operands);
    for (int r = 0; r < d.rows(); ++r) {
      for (int col = 0; col < d.cols(); ++col) wrong += d(r, col) != expected(instruction, operands, r, col);
    }
    outputs += d.rows() * d.cols();
  });
  CHECK(wrong == 0);
  CHECK(outputs >= BITMMA_ORACLE_OUTPUTS);
}

const AccumulatorModel& row_of(Format a, Format d) { return *find_accumulator_model(Family::wgmma, a, a, d); }

}  // namespace

TEST_CASE("oracle: wgmma tf32 to f32") { require_row_agrees(row_of(Format::tf32, Format::f32)); }
TEST_CASE("oracle: wgmma f16 to f32") { require_row_agrees(row_of(Format::f16, Format::f32)); }
TEST_CASE("oracle: wgmma bf16 to f32") { require_row_agrees(row_of(Format::bf16, Format::f32)); }
TEST_CASE("oracle: wgmma f16 to f16") { require_row_agrees(row_of(Format::f16, Format::f16)); }
TEST_CASE("oracle: wgmma fp8 to f32") { require_row_agrees(row_of(Format::e4m3, Format::f32)); }
TEST_CASE("oracle: wgmma fp8 to f16") { require_row_agrees(row_of(Format::e4m3, Format::f16)); }
TEST_CASE("oracle: wgmma s8 and u8") { require_row_agrees(row_of(Format::s8, Format::s32)); }
TEST_CASE("oracle: wgmma b1") { require_row_agrees(row_of(Format::b1, Format::s32)); }
TEST_CASE("oracle: these are all accumulator rows") { CHECK(accumulator_models().size() == 8); }
