// SPDX-License-Identifier: MIT
// Floating-point instructions of PTX, conversions, and C functions on arrays of words.
#include <fmt/format.h>

#include <algorithm>

#include "binding.hpp"
#include "bitmma/acts/describe_math.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

constexpr int64_t words_at_once = int64_t{1} << 16;

/// Checks the arrays of words, `wanted` of them, and the array for the results: all must be contiguous and of one size.
/// Calls `compute` for pieces of them, with the spans of the operands and of the result.
template <typename Word, typename Compute>
void compute_pieces(size_t wanted, const nb::list& operands, const nb::object& results, int threads,
                    const Compute& compute) {
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const nb::handle operand : operands) buffers.push_back(std::make_unique<Buffer>(operand, "operand"));
  Buffer out(results, "results", true);
  constexpr int64_t word_bytes = sizeof(Word);
  const int64_t count = out.bytes() / word_bytes;
  const auto is_words = [&](const Buffer& buffer) {
    return buffer.item_bytes() == word_bytes && buffer.is_contiguous() && buffer.bytes() == word_bytes * count;
  };
  if (buffers.size() != wanted) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "operands",
                 .seen = counted(std::ssize(buffers), "array"),
                 .expected = counted(static_cast<int64_t>(wanted), "array")});
  }
  bool fit = is_words(out);
  for (const auto& buffer : buffers) fit = fit && is_words(*buffer);
  if (!fit)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "operands",
                 .seen = "other arrays",
                 .expected = "contiguous arrays of words of the same length"});
  const Unlocked unlocked;
  parallel_for(static_cast<size_t>((count + words_at_once - 1) / words_at_once), threads, [&](size_t piece) {
    const int64_t first = static_cast<int64_t>(piece) * words_at_once;
    const auto size = static_cast<size_t>(std::min(words_at_once, count - first));
    std::vector<std::span<const Word>> words;
    for (const auto& buffer : buffers) words.emplace_back(static_cast<const Word*>(buffer->data()) + first, size);
    compute(words, std::span(static_cast<Word*>(out.data()) + first, size));
  });
}

using Words = std::vector<std::span<const uint32_t>>;

void compute_math(std::string_view name, const nb::list& operands, const nb::object& results, int threads) {
  const MathInstruction instruction = parse_math_instruction(name);
  const auto wanted = static_cast<size_t>(operand_count(instruction.operation));
  const auto of_piece = [&](auto& words, const auto& piece) {
    words.resize(3);
    compute(instruction, words[0], words[1], words[2], piece);
  };
  if (bits_of(instruction.format) > 32) compute_pieces<uint64_t>(wanted, operands, results, threads, of_piece);
  else compute_pieces<uint32_t>(wanted, operands, results, threads, of_piece);
}

void compute_c_function(std::string_view name, const nb::list& operands, const nb::object& results, int threads) {
  const CFunction& function = parse_c_function(name);
  const auto wanted = static_cast<size_t>(function.operands);
  compute_pieces<uint32_t>(wanted, operands, results, threads, [&](Words& words, std::span<uint32_t> piece) {
    words.resize(2);
    compute(function, words[0], words[1], piece);
  });
}

void compute_cvt(std::string_view name, const nb::list& operands, const nb::object& results, int threads) {
  const CvtInstruction instruction = parse_cvt(name);
  compute_pieces<uint64_t>(operands_of(instruction).size(), operands, results, threads,
                           [&](const std::vector<std::span<const uint64_t>>& words, std::span<uint64_t> piece) {
                             compute(instruction, std::span(words), piece);
                           });
}

/// Describes a form of cvt; "operands" are pairs of a name and the number of bits of its register.
nb::dict described(const CvtInstruction& instruction) {
  nb::dict row;
  row["instruction"] = print(instruction);
  nb::list operands;
  for (const CvtOperand& operand : operands_of(instruction))
    operands.append(nb::make_tuple(operand.name, operand.bits));
  row["operands"] = operands;
  row["result_bits"] = result_bits(instruction);
  row["targets"] = names_of(targets_of(instruction));
  const PtxVersion ptx = ptx_version_of(instruction);
  row["ptx"] = fmt::format("{}.{}", ptx.major, ptx.minor);
  row["source"] = source_of(instruction);
  row.update(nb::cast<nb::dict>(from_report(evidence_report(instruction))));
  return row;
}

nb::dict described(const CFunction& function) {
  nb::dict row;
  row["function"] = print(function);
  row["operands"] = function.operands;
  row["source"] = function.source;
  row.update(nb::cast<nb::dict>(from_report(evidence_report(function))));
  return row;
}

std::optional<Target> target_asked(std::optional<std::string_view> name) {
  return name ? std::optional(parse_target(*name)) : std::nullopt;
}

}  // namespace

void bind_math(nb::module_& module) {
  module.def("math_compute", compute_math, "instruction"_a, "operands"_a, "results"_a, "threads"_a);
  module.def("math_instructions", [] {
    nb::list names;
    for (const MathInstruction& instruction : math_instructions()) names.append(print(instruction));
    return names;
  });
  module.def("cvt_compute", compute_cvt, "instruction"_a, "operands"_a, "results"_a, "threads"_a);
  module.def(
      "cvt_form", [](std::string_view name) { return described(parse_cvt(name)); }, "instruction"_a);
  module.def("cvt_forms", [] {
    nb::list rows;
    for (const CvtInstruction& instruction : cvt_instructions()) rows.append(described(instruction));
    return rows;
  });
  module.def("c_function_compute", compute_c_function, "function"_a, "operands"_a, "results"_a, "threads"_a);
  module.def(
      "c_function", [](std::string_view name) { return described(parse_c_function(name)); }, "function"_a);
  module.def("c_functions", [] {
    nb::list rows;
    for (const CFunction& function : c_functions()) rows.append(described(function));
    return rows;
  });
  module.def(
      "math_explain",
      [](std::string_view name, const std::vector<uint64_t>& operands, std::optional<std::string_view> target) {
        return from_report(describe(parse_math_function(name), operands, true, target_asked(target)));
      },
      "function"_a, "operands"_a, "target"_a.none());
  module.def(
      "math_evidence",
      [](std::string_view name, std::optional<std::string_view> target) {
        return from_report(evidence_report(parse_math_function(name), target_asked(target)));
      },
      "function"_a, "target"_a.none());
}

}  // namespace bitmma::python
