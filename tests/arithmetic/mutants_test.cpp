// Tests that can tell right from wrong: every neighbouring hypothesis about the arithmetic must be refuted by dumps of
// a real GPU, and by random cases for every row where it can make a difference at all.
#include "support/mutants.hpp"

#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;
using test::name_of;

namespace {

constexpr Target hopper = Target::sm_90a;

/// A dense instruction of every type triple that adds by the row.
std::vector<Instruction> instructions_of(const AccumulatorModel& row) {
  std::vector<Instruction> found;
  for (const Form& form : forms()) {
    if (form.family != Family::wgmma) continue;
    for (const FormatInfo& a : formats) {
      for (const FormatInfo& b : formats) {
        if (!form.a.contains(a.id) || !form.b.contains(b.id)) continue;
        if (find_accumulator_model(hopper, form.family, a.id, b.id, form.d) != &row) continue;
        found.push_back(Wgmma{.n = 32, .d = form.d, .a = a.id, .b = b.id, .k = form.k_dense});
      }
    }
  }
  return found;
}

bool killed_by_random_cases(const AccumulatorModel& row, const AccumulatorModel& mutant) {
  // The sanitizers try fewer where nothing is to be found anyway.
  const uint64_t cases = BITMMA_ORACLE_OUTPUTS < 1000000 ? 12 : 40;
  for (uint64_t seed = 0; seed < cases; ++seed) {
    for (const Instruction& instruction : instructions_of(row)) {
      for (const DistributionInfo& distribution : distributions) {
        const Operands operands = random_operands(instruction, hopper, distribution.id, 1, seed);
        if (multiply_accumulate(row, operands) != multiply_accumulate(mutant, operands)) return true;
      }
    }
  }
  return false;
}

}  // namespace

TEST_CASE("every wrong hypothesis is refuted in every row where it can show") {
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.arithmetic != Arithmetic::fused_sum || row.family != Family::wgmma) continue;
    for (const test::Mutant& mutant : test::mutants()) {
      AccumulatorModel wrong = row;
      mutant.change(wrong);
      const bool expected = test::is_visible(row, mutant);
      INFO(name_of(row) << ": " << mutant.name);
      if (expected) {
        CHECK(killed_by_random_cases(row, wrong));
      } else {
        CHECK_FALSE(killed_by_random_cases(row, wrong));  // or the list above is out of date
      }
    }
  }
}

TEST_CASE("every wrong hypothesis is refuted by dumps of a real H200, in every row where it can show",
          "[rule:fused-sum][rule:product-exponent][rule:floor][rule:output-rounding][rule:fp8-13-bits][rule:zero][rule:"
          "nan][rule:integers]") {
  std::vector<VectorFile> files;
  for (const std::string& path : test::golden_files()) files.push_back(read_vector_file(path));
  for (const test::Mutant& mutant : test::mutants()) {
    int64_t mismatches = 0;
    std::set<std::string> rows, expected_rows;
    for (const AccumulatorModel& row : accumulator_models()) {
      if (row.family == Family::wgmma && row.arithmetic == Arithmetic::fused_sum && test::is_visible(row, mutant))
        expected_rows.insert(name_of(row));
    }
    for (const VectorFile& file : files) {
      const AccumulatorModel& row = model_for(file.instruction, file.target);
      if (row.arithmetic != Arithmetic::fused_sum || file.source() != "NVIDIA H200") continue;
      AccumulatorModel wrong = row;
      mutant.change(wrong);
      if (wrong == row || rows.contains(name_of(row))) continue;
      const int64_t here = verify(file, hardware_threads(), {}, &wrong).mismatches;
      mismatches += here;
      if (here > 0) rows.insert(name_of(row));
    }
    INFO(mutant.name);
    CHECK(mismatches > 0);
    CHECK(rows == expected_rows);
  }
}
