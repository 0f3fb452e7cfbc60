// Tests that can tell right from wrong: every neighbouring hypothesis about the arithmetic must be refuted by dumps of a
// real GPU, and by random cases for every row where it can make a difference at all.
#include <functional>
#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/random_operands.hpp"
#include "bitmma/io/compare.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

struct Mutant {
  std::string name;
  std::function<void(AccumulatorModel&)> change;
};

bool truncates(const AccumulatorModel& row) { return row.rounding == Rounding::toward_zero; }

const std::vector<Mutant> mutants = {
    {"F-1", [](AccumulatorModel& m) { --m.fraction_bits; }},
    {"F+1", [](AccumulatorModel& m) { ++m.fraction_bits; }},
    {"floor-1", [](AccumulatorModel& m) { --m.floor_exponent; }},
    {"floor+1", [](AccumulatorModel& m) { ++m.floor_exponent; }},
    {"no floor", [](AccumulatorModel& m) { m.floor_exponent = no_floor; }},
    {"product normalised", [](AccumulatorModel& m) { m.deviations.product_normalised = true; }},
    {"other rounding", [](AccumulatorModel& m) { m.rounding = truncates(m) ? Rounding::nearest_even : Rounding::toward_zero; }},
    {"all mantissa bits kept", [](AccumulatorModel& m) { m.output_fraction_bits = info(m.output).mantissa_bits; }},
    {"two chained halves", [](AccumulatorModel& m) { m.deviations.two_chained_halves = true; }},
    {"aligned toward minus infinity", [](AccumulatorModel& m) { m.deviations.align_toward_negative = true; }},
    {"zero keeps sign", [](AccumulatorModel& m) { m.deviations.zero_keeps_sign = true; }},
    {"NaN payload of c passed", [](AccumulatorModel& m) { m.deviations.c_nan_payload_passed = true; }},
    {"f16 through f32", [](AccumulatorModel& m) { m.deviations.f16_through_f32 = true; }},
    {"zero product has an exponent", [](AccumulatorModel& m) { m.deviations.zero_product_has_exponent = true; }},
    {"c truncated after the sum", [](AccumulatorModel& m) { m.deviations.c_after_sum = true; }},
};

/// Hypotheses that no input of the row can tell from the hardware's rule, each with its reason.
const std::set<std::pair<std::string, std::string>> invisible = {
    // No product of f16, and none of fp8, lies anywhere near 2^-133, and c brings its own exponent from -126 on.
    {"f16 f32", "floor-1"}, {"f16 f32", "floor+1"}, {"f16 f32", "no floor"},
    {"e4m3 f32", "floor-1"}, {"e4m3 f32", "floor+1"}, {"e4m3 f32", "no floor"},
    // The lowest bit of an fp8 product is 2^-32, the lowest of c 2^-24: floors up to -19 drop nothing (13 below it).
    {"e4m3 f16", "floor-1"}, {"e4m3 f16", "floor+1"}, {"e4m3 f16", "no floor"},
    // They have all 23 mantissa bits already.
    {"tf32 f32", "all mantissa bits kept"}, {"f16 f32", "all mantissa bits kept"}, {"bf16 f32", "all mantissa bits kept"},
    {"f16 f16", "all mantissa bits kept"}, {"e4m3 f16", "all mantissa bits kept"},
    // Only f16 results can be rounded through f32. A sum aligned to 13 fraction bits mostly fits f32 and rounds the same.
    {"tf32 f32", "f16 through f32"}, {"f16 f32", "f16 through f32"}, {"bf16 f32", "f16 through f32"}, {"e4m3 f32", "f16 through f32"},
    {"e4m3 f16", "f16 through f32"},
};

std::string name_of(const AccumulatorModel& row) {
  const std::string_view input = row.inputs.contains(Format::e4m3)   ? "e4m3"
                                 : row.inputs.contains(Format::tf32) ? "tf32"
                                 : row.inputs.contains(Format::bf16) ? "bf16"
                                                                     : "f16";
  return std::string(input) + " " + std::string(info(row.output).name);
}

std::vector<Instruction> instructions_of(const AccumulatorModel& row) {
  std::vector<Instruction> found;
  for (const LegalForm& form : legal_forms()) {
    if (find_accumulator_model(form.family, form.a, form.b, form.d) != &row) continue;
    found.push_back({.n = 32, .k = form.k_dense, .d = form.d, .a = form.a, .b = form.b});
  }
  return found;
}

bool killed_by_random_cases(const AccumulatorModel& row, const AccumulatorModel& mutant) {
  // The sanitizers try fewer where nothing is to be found anyway.
  const uint64_t cases = BITMMA_ORACLE_OUTPUTS < 1000000 ? 12 : 40;
  for (uint64_t seed = 0; seed < cases; ++seed) {
    for (const Instruction& instruction : instructions_of(row)) {
      for (const DistributionInfo& distribution : distributions) {
        const Operands operands = random_operands(instruction, distribution.id, 1, seed);
        if (multiply_accumulate(row, operands) != multiply_accumulate(mutant, operands)) return true;
      }
    }
  }
  return false;
}

}  // namespace

TEST_CASE("every wrong hypothesis is refuted in every row where it can show") {
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.arithmetic != Arithmetic::fused_sum) continue;
    for (const Mutant& mutant : mutants) {
      AccumulatorModel wrong = row;
      mutant.change(wrong);
      const bool expected = !invisible.contains({name_of(row), mutant.name});
      INFO(name_of(row) << ": " << mutant.name);
      if (expected) {
        CHECK(killed_by_random_cases(row, wrong));
      } else {
        CHECK_FALSE(killed_by_random_cases(row, wrong));  // or the list above is out of date
      }
    }
  }
}

TEST_CASE("every wrong hypothesis is refuted by a dump of a real H200") {
  std::vector<VectorFile> files;
  for (const std::string& path : test::golden_files()) files.push_back(read_vector_file(path));
  for (const Mutant& mutant : mutants) {
    int64_t mismatches = 0;
    std::set<std::string> rows;
    for (const VectorFile& file : files) {
      const AccumulatorModel& row = model_for(file.instruction);
      if (row.arithmetic != Arithmetic::fused_sum || file.source() != "NVIDIA H200") continue;
      AccumulatorModel wrong = row;
      mutant.change(wrong);
      if (wrong == row || rows.contains(name_of(row))) continue;
      const int64_t here = verify(file, hardware_threads(), {}, &wrong).mismatches;
      mismatches += here;
      if (here > 0) rows.insert(name_of(row));
    }
    INFO(mutant.name);
    if (mutant.name == "f16 through f32") {
      CHECK(mismatches == 0);  // no dump shows it yet; the random cases above do
    } else {
      CHECK(mismatches > 0);
    }
  }
}
