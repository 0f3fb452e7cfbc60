// SPDX-License-Identifier: MIT
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"
#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

namespace {

/// The words of one operand. Refuses a pointer for an operand that the function does not have.
template <typename Word>
std::span<const Word> words_of(const Word* from, std::string_view name, bool is_operand, size_t count,
                               const std::string& function) {
  if (is_operand && count > 0 && !from) refuse_null(name);
  if (!is_operand && from) {
    throw Error({.code = ViolationCode::no_effect,
                 .field = std::string(name),
                 .seen = "given",
                 .expected = "NULL",
                 .fix = function + " has no such operand"});
  }
  return is_operand ? std::span(from, count) : std::span<const Word>();
}

template <typename Word>
std::span<Word> results_of(Word* results, size_t count) {
  if (count > 0 && !results) refuse_null("results");
  return {results, count};
}

template <typename Word>
void compute_math(const char* instruction, size_t count, const Word* a, const Word* b, const Word* c, Word* results) {
  const MathInstruction parsed = parse_math_instruction(text_given(instruction, "instruction"));
  const int operands = operand_count(parsed.operation);
  const std::string name = print(parsed);
  const auto first = words_of(a, "a", true, count, name), second = words_of(b, "b", operands > 1, count, name),
             third = words_of(c, "c", operands > 2, count, name);
  compute(parsed, first, second, third, results_of(results, count));
}

}  // namespace

extern "C" {

bitmma_status bitmma_math(const char* instruction, size_t count, const uint32_t* a, const uint32_t* b,
                          const uint32_t* c, uint32_t* results) {
  return guarded([&] { compute_math(instruction, count, a, b, c, results); });
}

bitmma_status bitmma_math_64(const char* instruction, size_t count, const uint64_t* a, const uint64_t* b,
                             const uint64_t* c, uint64_t* results) {
  return guarded([&] { compute_math(instruction, count, a, b, c, results); });
}

bitmma_status bitmma_cvt(const char* instruction, size_t count, size_t operand_count, const uint64_t* const* operands,
                         uint64_t* results) {
  return guarded([&] {
    const CvtInstruction parsed = parse_cvt(text_given(instruction, "instruction"));
    if (operand_count > 0 && !operands) refuse_null("operands");
    std::vector<std::span<const uint64_t>> words;
    for (size_t i = 0; i < operand_count; ++i)
      words.push_back(words_of(operands[i], "operands", true, count, print(parsed)));
    compute(parsed, std::span(std::as_const(words)), results_of(results, count));
  });
}

bitmma_status bitmma_c_function(const char* function, size_t count, const uint32_t* a, const uint32_t* b,
                                uint32_t* results) {
  return guarded([&] {
    const CFunction& parsed = parse_c_function(text_given(function, "function"));
    const std::string name = print(parsed);
    const auto first = words_of(a, "a", true, count, name), second = words_of(b, "b", parsed.operands > 1, count, name);
    compute(parsed, first, second, results_of(results, count));
  });
}

}  // extern "C"
