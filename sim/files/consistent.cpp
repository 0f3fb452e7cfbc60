// SPDX-License-Identifier: MIT
// Refuses files that contradict themselves: the program cannot know which of two statements the user meant.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "../instruction/copies.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/files/golden.hpp"
#include "vector_parts.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

/// How one matrix differs from its copy, over all cases of a file.
struct DifferentMatrix {
  DifferentCopy first = {};
  int64_t first_case = 0, cases = 0, codes = 0;
};

bool has_copies(const VectorFile& vectors) {
  return vectors.has_state && is_mma(vectors.instruction) &&
         std::ranges::any_of(logical_tensor_names,
                             [&](std::string_view name) { return name != "d" && vectors.file.find(name); });
}

void require_same_copies(const VectorFile& vectors, int threads) {
  if (!has_copies(vectors)) return;
  std::vector<DifferentMatrix> differences;
  std::mutex mutex;
  parallel_for(static_cast<size_t>(vectors.cases), threads, [&](size_t i) {
    const auto index = static_cast<int64_t>(i);
    for (const DifferentCopy& copy : different_copies(case_at(vectors, index))) {
      const std::lock_guard lock(mutex);
      auto row = std::ranges::find_if(differences, [&](const auto& known) { return known.first.name == copy.name; });
      if (row == differences.end()) row = differences.insert(differences.end(), {.first = copy, .first_case = index});
      if (index < row->first_case) row->first = copy, row->first_case = index;
      ++row->cases, row->codes += copy.codes;
    }
  });
  std::ranges::sort(differences, {}, [](const DifferentMatrix& matrix) { return matrix.first.name; });
  std::vector<Violation> violations;
  for (const auto& [copy, index, cases, codes] : differences) {
    violations.push_back(
        {.code = ViolationCode::contradiction,
         .field = fmt::format("{}: tensor {}", vectors.file.path, copy.name),
         .seen = fmt::format("{} in case {} at ({}, {})", copy.print(copy.plain), index, copy.row, copy.col),
         .expected =
             fmt::format("{}, which the instruction reads there: {} of {} codes differ, in {} of {}",
                         copy.print(copy.read), codes, copy.of * vectors.cases, cases, counted(vectors.cases, "case")),
         .fix = "say which is meant: `inputs` state (images, registers, Tensor Memory) or `inputs` matrices; or save "
                "only one of them"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

}  // namespace

void require_k_loop(const VectorFile& vectors, int64_t steps, bool c_may_repeat) {
  if (steps <= 1) return;
  const auto refuse = [&](const std::string& seen, std::string expected) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = fmt::format("{}: __metadata__ k_loop", vectors.file.path),
                 .seen = fmt::format("{}: {}", steps, seen),
                 .expected = std::move(expected),
                 .fix = "omit the key if the cases are independent of each other"});
  };
  if (!is_mma(vectors.instruction)) refuse(vectors.name(), "a matrix instruction: other instructions have no K");
  const VectorFile known = known_part(vectors);
  constexpr std::string_view rule = "steps of a loop: C of each step is D of the previous step";
  std::optional<Matrix> first_c;
  std::optional<Case> before;
  for (int64_t index = 0; index < known.cases; ++index) {
    Case this_case = case_at(known, index);
    const std::optional<Matrix> c = operands_of(this_case).c;
    // A part of a file may begin in the middle of a loop.
    if ((known.first_case + index) % steps == 0 || !before) {
      first_c = c;
    } else if (!c) {
      refuse(fmt::format("case {}, which reads no C", index), std::string(rule));
    } else if (const Matrix d = computed_d(*before); *c != d) {
      // A step may continue from the recorded D, even if that D is wrong.
      const bool goes_on = (before->has_recorded_d() && *c == recorded_d(*before)) || (c_may_repeat && c == first_c);
      if (!goes_on && (c->format() != d.format() || c->rows() != d.rows() || c->cols() != d.cols()))
        refuse(fmt::format("case {}, whose C has another type or shape than D of case {}", index, index - 1),
               std::string(rule));
      if (!goes_on) {
        const Comparison different = compare_case(this_case.instruction, index, d, *c);
        refuse(fmt::format("case {}, whose C is not D of case {} in {} of {}, first at row {}, col {}", index,
                           index - 1, different.mismatches, counted(different.outputs, "output"), different.first->row,
                           different.first->col),
               std::string(rule));
      }
    }
    before = std::move(this_case);
  }
}

void require_consistent(const VectorFile& vectors, int threads) {
  if (is_of_steps(vectors)) return require_k_loop(steps_of(vectors), vectors.tiling.k, true);
  require_same_copies(known_part(vectors), threads);
  require_k_loop(vectors, unrolled_steps(vectors), false);
}

}  // namespace bitmma
