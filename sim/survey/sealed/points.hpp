// SPDX-License-Identifier: MIT
// The points of a sealed prediction: their cases, and the state that each known answer produces.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../questions.hpp"

namespace bitmma::sealed {

using survey::Asked;

/// One known answer.
struct Rival {
  std::string text = {};
  /// The compared words: D for a rule, every written word for a question.
  std::function<std::vector<uint8_t>(const Asked&, uint64_t number)> left = {};
};

struct Point {
  std::string name = {};
  Instruction instruction = Wgmma{};
  Target target = Target::sm_100a;
  std::function<Asked(uint64_t number)> draw = {};
  /// The compared words of a device's state.
  std::function<std::vector<uint8_t>(const Asked&, uint64_t number, const State& after)> left = {};
  std::vector<Rival> rivals = {};  // the first is the model's behaviour
};

/// The points of the target, built on each call.
std::vector<Point> points_of(Target target);

/// A 64-bit hash folded to 32 bits.
uint32_t hash_of(const std::vector<uint8_t>& left);

/// Seed of all cases: the year.
inline constexpr uint64_t sealed_seed = 2026;

}  // namespace bitmma::sealed
