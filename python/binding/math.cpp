// SPDX-License-Identifier: MIT
// Floating-point instructions of PTX on arrays of words.
#include <algorithm>

#include "binding.hpp"
#include "bitmma/analysis/describe_math.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/math/math_instruction.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

constexpr int64_t words_at_once = int64_t{1} << 16;

/// Arrays of words, as many as the instruction has operands, and the one that takes the results: contiguous, of one
/// size.
void compute_arrays(std::string_view name, const nb::list& operands, const nb::object& results, int threads) {
  const MathInstruction instruction = parse_math_instruction(name);
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const nb::handle operand : operands) buffers.push_back(std::make_unique<Buffer>(operand, "operand"));
  Buffer out(results, "results", true);
  const int64_t count = out.bytes() / 4;
  const auto is_words = [&](const Buffer& one) {
    return one.item_bytes() == 4 && one.is_contiguous() && one.bytes() == 4 * count;
  };
  bool fit = is_words(out) && std::ssize(buffers) == operand_count(instruction.operation);
  for (const auto& one : buffers) fit = fit && is_words(*one);
  if (!fit) throw Error({.field = "operands", .seen = "other arrays", .expected = "contiguous words, as many in each"});
  const auto words = [](const Buffer& one, int64_t first, int64_t size) {
    return std::span(static_cast<const uint32_t*>(one.data()) + first, static_cast<size_t>(size));
  };
  const nb::gil_scoped_release release;
  parallel_for(static_cast<size_t>((count + words_at_once - 1) / words_at_once), threads, [&](size_t piece) {
    const int64_t first = static_cast<int64_t>(piece) * words_at_once, size = std::min(words_at_once, count - first);
    const auto operand = [&](size_t i) {
      return i < buffers.size() ? words(*buffers[i], first, size) : std::span<const uint32_t>();
    };
    compute(instruction, operand(0), operand(1), operand(2),
            std::span(static_cast<uint32_t*>(out.data()) + first, static_cast<size_t>(size)));
  });
}

}  // namespace

void bind_math(nb::module_& module) {
  module.def("math_compute", compute_arrays, "instruction"_a, "operands"_a, "results"_a, "threads"_a);
  module.def("math_instructions", [] {
    nb::list names;
    for (const MathInstruction& one : math_instructions()) names.append(print(one));
    return names;
  });
  module.def(
      "math_explain",
      [](std::string_view name, const std::vector<uint64_t>& operands) {
        return from_report(describe(parse_math_instruction(name), operands, true));
      },
      "instruction"_a, "operands"_a);
}

}  // namespace bitmma::python
