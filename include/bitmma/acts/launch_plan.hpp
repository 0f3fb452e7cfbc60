// SPDX-License-Identifier: MIT
// Several launches over one memory, as a JSON file for bitmma run --launches.
//
//   {"memory": {"x": "x.npy", "sums": "zeros:f32[4]"},
//    "variables": {"count": "u32:5"},
//    "launches": [{"entry": "scale", "grid": [4], "block": [128], "arguments": ["x", "f32:2"]},
//                 {"entry": "sum", "block": [256], "shared_bytes": 1024, "arguments": ["x", "sums"]}]}
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bitmma {

struct LaunchPlan {
  /// A name, and its value in the words of bitmma run --arg.
  struct Value {
    std::string name = {}, value = {};
  };
  struct Launch {
    std::string entry = {};  // empty: the only one of the module
    std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
    std::optional<std::array<int64_t, 3>> cluster = {};
    int64_t dynamic_shared_bytes = 0;
    bool cooperative = false;
    std::vector<std::string> arguments = {};  // names of memory, or values
  };
  std::vector<Value> memory = {};     // allocations, which last over the launches
  std::vector<Value> variables = {};  // values that variables of the module get before the first launch
  std::vector<Launch> launches = {};
};

/// Throws Error, with the key, for text that is not such a file: an unknown key, a wrong type, no launch.
LaunchPlan parse_launch_plan(std::string_view json);

}  // namespace bitmma
