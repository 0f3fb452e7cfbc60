// SPDX-License-Identifier: MIT
#include "bitmma/core/bits.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

extern "C" {

bitmma_status bitmma_math(const char* instruction, size_t count, const uint32_t* a, const uint32_t* b,
                          const uint32_t* c, uint32_t* results) {
  return guarded([&] {
    const MathInstruction parsed = parse_math_instruction(text_given(instruction, "instruction"));
    const int operands = operand_count(parsed.operation);
    // A caller's pointer for an operand that the instruction has not would be ignored.
    const auto words = [&](const uint32_t* from, int place, const char* name) {
      if (place < operands && count > 0 && !from) refuse_null(name);
      if (place >= operands && from) {
        throw Error({.code = ViolationCode::no_effect,
                     .field = name,
                     .seen = "given",
                     .expected = "NULL",
                     .fix = print(parsed) + " has no such operand"});
      }
      return place < operands ? std::span(from, count) : std::span<const uint32_t>();
    };
    const auto first = words(a, 0, "a"), second = words(b, 1, "b"), third = words(c, 2, "c");
    if (count > 0 && !results) refuse_null("results");
    compute(parsed, first, second, third, std::span(results, count));
  });
}

}  // extern "C"
