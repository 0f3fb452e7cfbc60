// Tests that can tell right from wrong: every neighbouring hypothesis about the arithmetic must be refuted by dumps of
// a real GPU, and by random cases for every row where it can make a difference at all.
#include "support/mutants.hpp"

#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;
using test::name_of;

namespace {

constexpr Target hopper = Target::sm_90a;

/// A dense instruction of every type triple that adds by the row.
std::vector<Instruction> instructions_of(const AccumulatorModel& row) {
  std::vector<Instruction> instructions;
  for (const Form& form : forms()) {
    if (form.family != Family::wgmma) continue;
    for (const FormatInfo& a : formats) {
      for (const FormatInfo& b : formats) {
        if (!form.a.contains(a.id) || !form.b.contains(b.id)) continue;
        if (find_accumulator_model(hopper, form.family, a.id, b.id, form.d) != &row) continue;
        instructions.push_back(Wgmma{.n = 32, .d = form.d, .a = a.id, .b = b.id, .k = form.k_dense});
      }
    }
  }
  return instructions;
}

bool killed_by_random_cases(const AccumulatorModel& row, const AccumulatorModel& mutant) {
  const uint64_t cases = test::amount<uint64_t>(12, 40, 40);
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

TEST_CASE("every wrong hypothesis is refuted in every row where it can show", "[long]") {
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
      if (row.family != Family::wgmma || row.arithmetic != Arithmetic::fused_sum || file.source() != "NVIDIA H200")
        continue;
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

namespace {

/// What no input of a row of mma.sync can show, beside what is_visible says: each with its reason.
bool is_visible_in_warp(const AccumulatorModel& row, const std::string& mutant) {
  if (row.arithmetic == Arithmetic::fma_chain) return mutant == "one NaN for all";
  if (row.arithmetic == Arithmetic::fma_pairs) return mutant == "a tensor core";
  const bool fp8 = row.inputs.contains(Format::e4m3);
  const std::set<std::string> of_fp8{"zero keeps sign",          // the last addition makes +0 of it, unless c is -0 too
                                     "NaN payload of c passed",  // C is not in the sum
                                     "floor-1",
                                     "floor+1",
                                     "no floor",
                                     "all mantissa bits kept"};
  // Products of fp8 have too few bits for what an f16 result keeps.
  const std::set<std::string> of_fp8_to_f16{"zero product has an exponent", "c truncated after the sum"};
  if (fp8 && of_fp8.contains(mutant)) return false;
  if (fp8 && row.output == Format::f16) return !of_fp8_to_f16.contains(mutant);
  if (fp8) return mutant != "f16 through f32";
  return test::is_visible(row, {.name = mutant, .change = {}});
}

}  // namespace

TEST_CASE("every wrong hypothesis about mma.sync is refuted by dumps of a real H200, in every row where it can show",
          "[rule:fused-sum][rule:steps][rule:floor][rule:output-rounding][rule:zero][rule:nan][rule:f64-nan]") {
  std::vector<VectorFile> files;
  for (const std::string& path : test::golden_files()) {
    if (path.find("/mma_sync/") == std::string::npos) continue;
    files.push_back(read_vector_file(path));
    CHECK(files.back().source() == "NVIDIA H200");
  }
  CHECK(files.size() == 212);
  int killed = 0;
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.family != Family::mma_sync || !row.targets.contains(hopper) || row.output == Format::s32) continue;
    for (const test::Mutant& mutant : test::warp_mutants()) {
      AccumulatorModel wrong = row;
      mutant.change(wrong);
      if (wrong == row || !is_visible_in_warp(row, mutant.name)) continue;
      int64_t mismatches = 0;
      for (const VectorFile& file : files) {
        if (mismatches > 0) break;
        if (&model_for(file.instruction, file.target) == &row)
          mismatches += verify(file, hardware_threads(), {}, &wrong).mismatches;
      }
      INFO(name_of(row) << ": " << mutant.name);
      CHECK(mismatches > 0);
      ++killed;
    }
  }
  CHECK(killed > 70);
}
