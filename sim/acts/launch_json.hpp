// SPDX-License-Identifier: MIT
// What the files of launches have in common, those recorded on a GPU and those of bitmma run --launches.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "../core/json_reader.hpp"

namespace bitmma {

constexpr int64_t most_launches = 100'000, most_launch_arguments = 4096, most_launch_extent = 0x7FFFFFFF;

/// One to three extents of a grid, a block or a cluster.
inline std::array<int64_t, 3> launch_extents(const JsonReader& reader, const char* key) {
  const std::vector<int64_t> numbers = reader.numbers(key, 3, most_launch_extent);
  if (numbers.empty() || std::ranges::find(numbers, 0) != numbers.end())
    reader.refuse(key, "one to three numbers of at least 1");
  std::array<int64_t, 3> extents{1, 1, 1};
  std::ranges::copy(numbers, extents.begin());
  return extents;
}

}  // namespace bitmma
