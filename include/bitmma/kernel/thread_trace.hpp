// SPDX-License-Identifier: MIT
// Follows one thread of a launch instruction by instruction, with the registers that each instruction wrote.
//
//   ThreadTrace trace{.block = {0, 0, 0}, .thread = {5, 0, 0}};
//   trace.step = [](const ThreadStep& step) { fmt::print("{} {}\n", step.line, step.text); return true; };
//   launch(kernel, {.grid = ..., .trace = &trace});
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "bitmma/instruction/case.hpp"

namespace bitmma {

struct ThreadRegister {
  std::string_view name = {}, type = {};  // "%f3", "f32", in PTX's words
  std::array<uint64_t, 2> bits = {};      // the second word only for a 128-bit register; a predicate is 0 or 1
};

/// An instruction that the thread ran.
struct ThreadStep {
  int line = 0, source_line = 0;  // line in the PTX; line in the source by .loc, or 0
  std::string_view text = {};
  std::vector<ThreadRegister> written = {};  // in the order of the operands
  const Case* product = nullptr;             // for an mma: the state before it, of the whole warp, warpgroup or block
};

struct [[nodiscard]] ThreadTrace {
  std::array<int64_t, 3> block{}, thread{};
  /// Called after each instruction; returning false ends the launch. Blocks run in ascending order, on one host thread.
  /// The step's names and product are valid only during the call.
  std::function<bool(const ThreadStep&)> step = {};
};

}  // namespace bitmma
