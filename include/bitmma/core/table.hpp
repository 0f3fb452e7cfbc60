// SPDX-License-Identifier: MIT
// What tables of rows have in common: a row has an `id`, an enumerator, or a `name`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// True when row i has the enumerator of value i: info(id) is then the row at that place.
template <typename Rows>
consteval bool are_in_enum_order(const Rows& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<std::size_t>(rows[i].id) != i) return false;
  }
  return true;
}

/// The names of the rows, in their order.
template <typename Rows>
std::vector<std::string> row_names(Rows&& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace bitmma
