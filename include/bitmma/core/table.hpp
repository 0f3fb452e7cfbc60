// SPDX-License-Identifier: MIT
// Shared by tables of rows: a row has an `id`, which is an enumerator, or a `name`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// True if row i has the enumerator with value i, so that info(id) can index the table.
template <typename Rows>
consteval bool are_in_enum_order(const Rows& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<std::size_t>(rows[i].id) != i) return false;
  }
  return true;
}

/// The names of the rows, in table order.
template <typename Rows>
std::vector<std::string> row_names(Rows&& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace bitmma
