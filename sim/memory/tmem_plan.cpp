// SPDX-License-Identifier: MIT
#include "bitmma/memory/tmem_plan.hpp"

#include <fmt/format.h>

#include <bit>

namespace bitmma {
namespace {

constexpr int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

TmemPlan plan_tmem(const TmemNeeds& needs, int base_column) {
  constexpr int group = 4;         // columns that tcgen05.cp writes at a time
  constexpr int least_alloc = 32;  // columns of the smallest allocation
  constexpr int scales_of_cell = 4, cell_bits = 32, most_blocks = 1024;
  std::vector<Violation> violations;
  const auto require = [&](bool holds, std::string_view field, int seen, std::string_view expected) {
    if (holds) return;
    violations.push_back(
        {.field = std::string(field), .seen = std::to_string(seen), .expected = std::string(expected)});
  };
  require(needs.n >= 8 && needs.n <= 256 && needs.n % 8 == 0 && needs.n % needs.layout.n_parts == 0, "N", needs.n,
          "8..256 in steps of 8");
  require(needs.accumulators >= 1 && needs.accumulators <= 64, "accumulators", needs.accumulators, "1..64");
  require(needs.k_blocks >= 1 && needs.k_blocks <= most_blocks, "K blocks", needs.k_blocks, "1..1024");
  require(needs.a_row_bits >= 0 && needs.a_row_bits <= 4096, "bits of a row of A", needs.a_row_bits, "0..4096");
  require(needs.scale_count >= 0 && needs.scale_count <= 8, "scales", needs.scale_count, "0..8");
  require(needs.metadata_columns >= 0 && needs.metadata_columns <= 8, "metadata columns", needs.metadata_columns,
          "0..8");
  require(base_column >= 0 && base_column < tmem_columns && base_column % least_alloc == 0, "base column", base_column,
          "0..480 in steps of 32, as for allocations");
  if (!violations.empty()) throw Error(std::move(violations));

  TmemPlan plan;
  const auto add = [&](std::string name, int columns) {
    if (columns == 0) return;
    plan.columns = round_up(plan.columns, group);
    const int column = base_column + plan.columns;
    plan.pieces.push_back(
        {.name = std::move(name), .column = column, .columns = columns, .address = static_cast<std::uint32_t>(column)});
    plan.columns += columns;
  };
  for (int i = 0; i < needs.accumulators; ++i)
    add(needs.accumulators == 1 ? "D" : fmt::format("D {}", i), TmemD{.layout = needs.layout, .n = needs.n}.columns());
  add("A", round_up(needs.a_row_bits * needs.k_blocks, cell_bits) / cell_bits);
  // Four scales of all rows fill a group of columns; the next four fill the next group.
  const int scale_groups = round_up(needs.scale_count * needs.k_blocks, scales_of_cell) / scales_of_cell;
  add("scale_A", scale_groups * group);
  const int group_of_b = scales_of_b(needs.layout, needs.n, 0, 0).group_columns;
  add("scale_B", round_up(scale_groups * group_of_b, group));
  add("metadata", needs.metadata_columns * needs.k_blocks);
  if (plan.columns > (needs.exclusive ? tmem_columns_exclusive : tmem_columns)) return plan;
  if (needs.exclusive) {  // no other warp allocates meanwhile
    plan.allocation = std::max(least_alloc, round_up(plan.columns, least_alloc));
    plan.ctas_per_sm = 1;
    return plan;
  }
  plan.allocation = std::max(least_alloc, static_cast<int>(std::bit_ceil(static_cast<unsigned>(plan.columns))));
  plan.ctas_per_sm = tmem_columns / plan.allocation;
  return plan;
}

}  // namespace bitmma
