// What the fuzzers share: bytes become values, a refusal is an Error, and files go to a folder of their own in memory.
//
// A fuzzer fails by a sanitizer's report, an exception other than Error, a promise that does not hold, a hang, or
// memory beyond libFuzzer's limit.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/formats/matrix.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/state.hpp"
#include "bitmma/stimulus/random_operands.hpp"

namespace bitmma::fuzz {

using Bytes = FuzzedDataProvider;

/// Ends the program, which is what libFuzzer takes for a finding, unless `holds`.
void require(bool holds, std::string_view promise);

/// True when `body` returned, false when it refused by an Error that says something. Other exceptions pass.
template <typename Body>
bool accepts(const Body& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    require(!error.violations().empty() && *error.what() != '\0', "an Error says what is wrong");
    return false;
  }
}

template <typename Range>
const auto& pick(Bytes& in, const Range& range) {
  return *(std::begin(range) + in.ConsumeIntegralInRange<std::ptrdiff_t>(0, std::ssize(range) - 1));
}
/// True in one of `n` cases.
inline bool one_in(Bytes& in, int n) { return in.ConsumeIntegralInRange(1, n) == n; }

/// Mostly what is usual, sometimes an end of the type or anything at all.
template <typename T = int>
T number(Bytes& in) {
  constexpr T ends[] = {0, 1, static_cast<T>(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  switch (in.ConsumeIntegralInRange(0, 5)) {
    case 0: return in.ConsumeIntegral<T>();
    case 1: return pick(in, ends);
    case 2: return static_cast<T>(8 * in.ConsumeIntegralInRange(0, 40));
    case 3: return static_cast<T>(in.ConsumeIntegralInRange(-2, 520));
    default: return static_cast<T>(in.ConsumeIntegralInRange(0, 8));
  }
}
inline int between(Bytes& in, int low, int high) { return in.ConsumeIntegralInRange(low, high); }

Format any_format(Bytes& in);
Target any_target(Bytes& in);
Distribution any_distribution(Bytes& in);
/// One of all_instructions().
const Instruction& listed_instruction(Bytes& in);
/// A word for a shared-memory descriptor: usual fields, or any bits.
uint64_t descriptor_word(Bytes& in, Target target);
/// An address in Tensor Memory: usual, or any bits.
uint32_t tmem_word(Bytes& in);

/// Many values from a few bytes: every bit pattern, patterns without NaN, or all the same.
std::vector<uint32_t> words(Bytes& in, std::size_t count);
std::vector<uint8_t> bytes(Bytes& in, std::size_t count);
Matrix matrix(Bytes& in, Format format, int rows, int cols);

/// A state with every buffer that the instruction has: of the right size, unless the input wants another.
State any_state(Bytes& in, const Instruction& instruction, Target target);

/// A path in a folder of this process in memory, which is removed at its end.
std::string path(std::string_view name);
void write(const std::string& to, std::span<const uint8_t> content);

/// Well-formed UTF-8.
bool is_utf8(std::string_view text);

}  // namespace bitmma::fuzz

/// The one function of every fuzzer.
void fuzz_one(bitmma::fuzz::Bytes& in);
