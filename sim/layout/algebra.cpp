// SPDX-License-Identifier: MIT
#include "bitmma/layout/algebra.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "cute_text.hpp"

namespace bitmma {
namespace {

using Kind = AlgebraLayout::Kind;
using Second = LayoutOperation::Second;

constexpr int64_t most_indices = 1 << 20, most_offset = int64_t{1} << 40;

[[noreturn]] void refuse(std::string field, std::string seen, std::string expected, std::string fix = {}) {
  throw Error(
      {.field = std::move(field), .seen = std::move(seen), .expected = std::move(expected), .fix = std::move(fix)});
}

/// The product of two non-negative numbers. Throws Error if it is too large for any layout.
int64_t times(int64_t factor, int64_t other) {
  int64_t product = 0;
  if (__builtin_mul_overflow(factor, other, &product) || product > most_offset)
    refuse("layout", fmt::format("{} x {}", factor, other), "extents and strides whose products stay below 2^40");
  return product;
}

NestedMode leaf(int64_t extent, int64_t stride) { return {.extent = extent, .stride = stride}; }
NestedMode tuple_of(std::vector<NestedMode> modes) { return {.modes = std::move(modes)}; }
bool is_tuple(const NestedMode& mode) { return !mode.modes.empty(); }

/// The modes of a tuple; a leaf is its own only mode.
std::vector<NestedMode> modes_of(const NestedMode& mode) {
  return is_tuple(mode) ? mode.modes : std::vector<NestedMode>{mode};
}

void append_leaves(const NestedMode& mode, std::vector<NestedMode>& leaves) {
  if (!is_tuple(mode)) leaves.push_back(mode);
  for (const NestedMode& nested_mode : mode.modes) append_leaves(nested_mode, leaves);
}
std::vector<NestedMode> leaves_of(const NestedMode& mode) {
  std::vector<NestedMode> leaves;
  append_leaves(mode, leaves);
  return leaves;
}

int64_t size_of(const NestedMode& mode) {
  int64_t size = 1;
  for (const NestedMode& nested_mode : leaves_of(mode)) size = times(size, nested_mode.extent);
  return size;
}
int64_t cosize_of(const NestedMode& mode) {
  int64_t last = 0;
  for (const NestedMode& nested_mode : leaves_of(mode)) last += times(nested_mode.extent - 1, nested_mode.stride);
  return last + 1;
}
int64_t offset_at(const std::vector<NestedMode>& leaves, int64_t index) {
  int64_t offset = 0;
  for (size_t i = 0; i + 1 < leaves.size(); ++i) {
    offset += index % leaves[i].extent * leaves[i].stride;
    index /= leaves[i].extent;
  }
  return offset + times(index, leaves.back().stride);
}

/// A leaf if there is only one mode.
NestedMode unwrapped(std::vector<NestedMode> modes) {
  return modes.size() == 1 ? modes.front() : tuple_of(std::move(modes));
}

/// The same function with as few modes as it needs. If `keeps_end`, a last mode of extent 1 remains with extent 2: its
/// stride applies to all indices beyond the layout.
NestedMode coalesced(const NestedMode& mode, bool keeps_end = false) {
  const std::vector<NestedMode> leaves = leaves_of(mode);
  std::vector<NestedMode> kept{leaves.back()};
  if (keeps_end && kept.front().extent == 1) kept.front().extent = 2;
  for (size_t i = leaves.size() - 1; i-- > 0;) {
    NestedMode& front = kept.front();
    if (leaves[i].extent == 1) continue;
    if (front.extent == 1) front = leaves[i];
    else if (times(leaves[i].extent, leaves[i].stride) == front.stride)
      front = leaf(times(leaves[i].extent, front.extent), leaves[i].stride);
    else kept.insert(kept.begin(), leaves[i]);
  }
  if (kept.size() == 1 && kept.front().extent == 1) return leaf(1, 0);
  return unwrapped(std::move(kept));
}

/// Coalesced, without modes of stride 0.
NestedMode filtered(const NestedMode& mode) {
  std::vector<NestedMode> leaves = leaves_of(mode);
  for (NestedMode& nested_mode : leaves) {
    if (nested_mode.stride == 0) nested_mode.extent = 1;
  }
  return coalesced(tuple_of(std::move(leaves)));
}

/// Checks that `result` maps each of its indices as `expected` does.
void require_same(std::string_view operation, const NestedMode& result,
                  const std::function<int64_t(int64_t)>& expected) {
  const std::vector<NestedMode> leaves = leaves_of(result);
  const int64_t size = size_of(result);
  for (int64_t index = 0; index < size; ++index) {
    const int64_t wanted = expected(index), offset = offset_at(leaves, index);
    if (wanted == offset) continue;
    refuse(std::string(operation), fmt::format("index {}: {}, but CuTe's rule gives {}", index, wanted, offset),
           "operands whose result is a layout: extents and strides must divide each other");
  }
}

/// A o B for one leaf of B. `modes` are the coalesced modes of A. Follows composition_impl of cute/layout.hpp.
NestedMode composed_leaf(const std::vector<NestedMode>& modes, const NestedMode& by) {
  if (by.stride == 0) return by;
  if (modes.size() == 1) return leaf(by.extent, times(by.stride, modes.front().stride));
  std::vector<NestedMode> result;
  int64_t rest = by.extent, stride = by.stride;
  for (size_t i = 0; i + 1 < modes.size(); ++i) {
    const int64_t extent = modes[i].extent;
    if (stride % extent != 0 && stride > extent)
      refuse("composition", fmt::format("a stride of {} over an extent of {}", stride, extent),
             "a stride and an extent of which one divides the other");
    const int64_t next_extent = ceil_div(extent, stride), next_stride = ceil_div(stride, extent);
    if (next_extent != 1 && rest != 1) {
      const int64_t taken = std::min(next_extent, rest);
      if (rest % taken != 0)
        refuse("composition", fmt::format("an extent of {} over an extent of {}", rest, taken), "a multiple of it");
      result.push_back(leaf(taken, times(stride, modes[i].stride)));
      rest /= taken;
    }
    stride = next_stride;
  }
  if (result.empty() || rest != 1) result.push_back(leaf(rest, times(stride, modes.back().stride)));
  return unwrapped(std::move(result));
}

NestedMode composed_with(const std::vector<NestedMode>& modes, const NestedMode& by) {
  if (!is_tuple(by)) return composed_leaf(modes, by);
  std::vector<NestedMode> result;
  for (const NestedMode& mode : by.modes) result.push_back(composed_with(modes, mode));
  return tuple_of(std::move(result));
}

NestedMode composition(const NestedMode& first, const NestedMode& by) {
  const NestedMode result = composed_with(modes_of(coalesced(first, true)), by);
  const std::vector<NestedMode> outer = leaves_of(first), inner = leaves_of(by);
  require_same("composition", result, [&](int64_t index) { return offset_at(outer, offset_at(inner, index)); });
  return result;
}

/// Divides a shape by a number, mode by mode, as CuTe divides tuples; returns the product of the rest.
int64_t divided_shape(const std::vector<NestedMode>& shape, int64_t by) {
  int64_t product = 1;
  for (const NestedMode& mode : shape) {
    product = times(product, ceil_div(mode.extent, by));
    by = ceil_div(by, mode.extent);
  }
  return product;
}

/// The layout of the part of a shape that `first` does not cover.
NestedMode complement(const NestedMode& first, const std::vector<NestedMode>& shape) {
  std::vector<NestedMode> leaves = leaves_of(filtered(first));
  if (leaves.size() == 1 && leaves.front().stride == 0) {
    const int64_t size = divided_shape(shape, 1);
    return size == 1 ? leaf(1, 0) : leaf(size, 1);
  }
  std::ranges::stable_sort(leaves, {}, &NestedMode::stride);
  std::vector<NestedMode> result;
  int64_t stride = 1;
  for (const NestedMode& mode : leaves) {
    if (mode.stride < stride)
      refuse("complement", fmt::format("a stride of {} below {}", mode.stride, stride),
             "a layout whose modes do not overlap");
    result.push_back(leaf(mode.stride / stride, stride));
    stride = times(mode.stride, mode.extent);
  }
  result.push_back(leaf(divided_shape(shape, stride), stride));
  return coalesced(tuple_of(std::move(result)));
}

/// The modes sorted by stride, each with the product of the extents before it.
std::vector<std::pair<NestedMode, int64_t>> by_stride(const NestedMode& mode) {
  std::vector<std::pair<NestedMode, int64_t>> sorted;
  int64_t before = 1;
  for (const NestedMode& nested_mode : modes_of(coalesced(mode))) {
    sorted.emplace_back(nested_mode, before);
    before = times(before, nested_mode.extent);
  }
  std::ranges::stable_sort(sorted, {}, [](const auto& row) { return row.first.stride; });
  return sorted;
}

NestedMode right_inverse(const NestedMode& mode) {
  std::vector<NestedMode> result{leaf(1, 0)};
  int64_t next = 1;
  for (const auto& [leaf_mode, before] : by_stride(mode)) {
    if (leaf_mode.stride != next) continue;
    result.push_back(leaf(leaf_mode.extent, before));
    next = times(leaf_mode.extent, leaf_mode.stride);
  }
  return coalesced(tuple_of(std::move(result)));
}

NestedMode left_inverse(const NestedMode& mode) {
  std::vector<NestedMode> result;
  const auto sorted = by_stride(mode);
  int64_t size = 1, stride = 0;
  for (const auto& [leaf_mode, before] : sorted) {
    if (leaf_mode.stride == 0) continue;
    if (leaf_mode.stride < size || leaf_mode.stride % size != 0)
      refuse("left_inverse", fmt::format("a stride of {} after {} offsets", leaf_mode.stride, size),
             "a multiple of them");
    result.push_back(leaf(leaf_mode.stride / size, stride));
    size = leaf_mode.stride, stride = before;
  }
  result.push_back(leaf(sorted.back().first.extent, stride));
  const NestedMode inverse = coalesced(tuple_of(std::move(result)));
  const std::vector<NestedMode> outer = leaves_of(mode), inner = leaves_of(inverse);
  const int64_t indices = size_of(mode);
  for (int64_t index = 0; index < indices; ++index) {
    const int64_t offset = offset_at(outer, index), again = offset_at(outer, offset_at(inner, offset));
    if (again != offset)
      refuse("left_inverse", fmt::format("offset {} comes back as {}", offset, again), "a layout that can be inverted");
  }
  return inverse;
}

NestedMode logical_divide(const NestedMode& first, const NestedMode& tiler) {
  return composition(first, tuple_of({tiler, complement(tiler, leaves_of(coalesced(first)))}));
}
NestedMode logical_product(const NestedMode& first, const NestedMode& tiler) {
  const NestedMode target = leaf(times(size_of(first), cosize_of(tiler)), 1);
  return tuple_of({first, composition(complement(first, {target}), tiler)});
}

using Splitter = NestedMode (*)(const NestedMode&, const NestedMode&);

void require_modes(const NestedMode& mode, const AlgebraLayout& tiler) {
  if (tiler.by_mode.size() > modes_of(mode).size())
    refuse("tiler", counted(static_cast<int64_t>(tiler.by_mode.size()), "mode"),
           fmt::format("at most the {} of the layout", modes_of(mode).size()));
}

/// Applies `operation` to the layout, or mode by mode. Modes that the tiler does not name stay, or disappear as in
/// composition.
NestedMode by_tiler(const NestedMode& mode, const AlgebraLayout& tiler, Splitter operation, bool keeps_others = true) {
  if (tiler.kind == Kind::unchanged) return mode;
  if (tiler.kind == Kind::layout) return operation(mode, tiler.mode);
  require_modes(mode, tiler);
  std::vector<NestedMode> modes = modes_of(mode);
  for (size_t i = 0; i < tiler.by_mode.size(); ++i)
    modes[i] = by_tiler(modes[i], tiler.by_mode[i], operation, keeps_others);
  if (!keeps_others) modes.resize(tiler.by_mode.size());
  return tuple_of(std::move(modes));
}

/// ((A,a),(B,b),c) with a tiler of two modes becomes ((A,B),(a,b,c)).
std::pair<NestedMode, NestedMode> unzipped(const NestedMode& mode, const AlgebraLayout& tiler) {
  if (tiler.kind == Kind::unchanged)
    refuse("tiler", "_", "one tile for each mode, if tiles are gathered", "omit the last modes");
  if (tiler.kind == Kind::layout) return {mode.modes.at(0), mode.modes.at(1)};
  std::vector<NestedMode> tiles, rests;
  for (size_t i = 0; i < mode.modes.size(); ++i) {
    if (i >= tiler.by_mode.size()) {
      rests.push_back(mode.modes[i]);
      continue;
    }
    auto [tile, rest] = unzipped(mode.modes[i], tiler.by_mode[i]);
    tiles.push_back(std::move(tile)), rests.push_back(std::move(rest));
  }
  return {tuple_of(std::move(tiles)), tuple_of(std::move(rests))};
}

/// How divides and products arrange the two halves that they make of every mode.
enum class Gather : uint8_t { logical, zipped, tiled, flat };

NestedMode gathered(const NestedMode& mode, const AlgebraLayout& tiler, Splitter operation, Gather gather) {
  const NestedMode split = by_tiler(mode, tiler, operation);
  if (gather == Gather::logical) return split;
  auto [tiles, rests] = unzipped(split, tiler);
  if (gather == Gather::zipped) return tuple_of({std::move(tiles), std::move(rests)});
  std::vector<NestedMode> modes{tiles};
  if (gather == Gather::flat && tiles.modes.size() > 1) modes = tiles.modes;
  // A tuple with one mode stays a tuple.
  if (rests.modes.size() > 1) modes.insert(modes.end(), rests.modes.begin(), rests.modes.end());
  else modes.push_back(rests);
  return tuple_of(std::move(modes));
}

/// blocked_product, and raked_product with `tile_first`: puts the modes of block and tiler side by side.
NestedMode product_by_rank(const NestedMode& first, const NestedMode& tiler, bool tile_first) {
  const size_t rank = std::max(modes_of(first).size(), modes_of(tiler).size());
  const auto padded = [&](const NestedMode& mode) {
    std::vector<NestedMode> modes = modes_of(mode);
    if (modes.size() == rank) return mode;
    modes.resize(rank, leaf(1, 0));
    return tuple_of(std::move(modes));
  };
  const NestedMode product = logical_product(padded(first), padded(tiler));
  const NestedMode &outer = product.modes[tile_first ? 1 : 0], &inner = product.modes[tile_first ? 0 : 1];
  if (!is_tuple(outer)) return tuple_of({tuple_of({outer, inner})});
  if (!is_tuple(inner))
    refuse(tile_first ? "raked_product" : "blocked_product", "a tuple of one mode and a number",
           "two tuples, or two numbers");
  std::vector<NestedMode> modes;
  for (size_t i = 0; i < rank; ++i) modes.push_back(tuple_of({outer.modes[i], inner.modes[i]}));
  return tuple_of(std::move(modes));
}

NestedMode coalesced_by(const NestedMode& mode, const AlgebraLayout& profile) {
  return by_tiler(mode, profile,
                  [](const NestedMode& nested_mode, const NestedMode&) { return coalesced(nested_mode); });
}

/// The swizzle S' with S'(L(i)) = L(S(i)): moves a swizzle from the right of a layout to its left.
OffsetSwizzle swizzle_through(const NestedMode& layout, const OffsetSwizzle& swizzle) {
  const std::vector<NestedMode> leaves = leaves_of(layout);
  const int64_t mask = (int64_t{1} << swizzle.bits) - 1;
  const int low = swizzle.base, high = swizzle.base + std::abs(swizzle.shift);
  const auto y = static_cast<uint64_t>(offset_at(leaves, mask << (swizzle.shift < 0 ? low : high)));
  const auto z = static_cast<uint64_t>(offset_at(leaves, mask << (swizzle.shift < 0 ? high : low)));
  const int y_low = std::countr_zero(y), z_low = std::countr_zero(z);
  const OffsetSwizzle moved{.bits = std::popcount(y), .base = std::min(y_low, z_low) % 64, .shift = y_low - z_low};
  const auto is_block = [](uint64_t bits, int low_bit) { return std::has_single_bit((bits >> (low_bit % 64)) + 1); };
  if (y == 0 || std::popcount(y) != std::popcount(z) || !is_block(y, y_low) || !is_block(z, z_low))
    refuse("swizzle", "bits that the layout separates", "a layout that moves the bits of the swizzle as a unit");
  return moved;
}

void require_swizzle_alike(std::string_view operation, const AlgebraLayout& result,
                           const std::function<int64_t(int64_t)>& expected) {
  const int64_t size = result.size();
  for (int64_t index = 0; index < size; ++index) {
    if (result(index) == expected(index)) continue;
    refuse(std::string(operation),
           fmt::format("index {}: {}, but CuTe's rule gives {}", index, expected(index), result(index)),
           "operands whose result is a swizzled layout");
  }
}

AlgebraLayout layout_of(NestedMode mode, const std::optional<OffsetSwizzle>& swizzle = std::nullopt) {
  return {.mode = std::move(mode), .swizzle = swizzle};
}

AlgebraLayout composition(const AlgebraLayout& first, const AlgebraLayout& by) {
  if (!by.swizzle) {
    const auto compose = [](const NestedMode& mode, const NestedMode& other) { return composition(mode, other); };
    return layout_of(by_tiler(first.mode, by, compose, false), first.swizzle);
  }
  if (first.swizzle) refuse("composition", "two swizzles", "a swizzle on at most one side");
  const AlgebraLayout result = layout_of(composition(first.mode, by.mode), swizzle_through(first.mode, *by.swizzle));
  require_swizzle_alike("composition", result, [&](int64_t index) { return first(by(index)); });
  return result;
}

AlgebraLayout inverse(const AlgebraLayout& layout, bool is_right) {
  const NestedMode mode = is_right ? right_inverse(layout.mode) : left_inverse(layout.mode);
  if (!layout.swizzle) return layout_of(mode);
  const AlgebraLayout result = layout_of(mode, swizzle_through(mode, *layout.swizzle));
  const std::string_view name = is_right ? "right_inverse" : "left_inverse";
  if (is_right) {
    const AlgebraLayout identity = layout_of(leaf(result.size(), 1));
    require_swizzle_alike(name, identity, [&](int64_t index) { return layout(result(index)); });
  } else {
    const int64_t size = layout.size();
    for (int64_t index = 0; index < size; ++index) {
      if (layout(result(layout(index))) != layout(index))
        refuse(std::string(name), fmt::format("offset {} does not come back", layout(index)),
               "a layout that can be inverted");
    }
  }
  return result;
}

struct OperationRow {
  LayoutOperation operation;
  AlgebraLayout (*apply)(const AlgebraLayout& first, const AlgebraLayout& second);
};

template <Splitter operation, Gather gather>
AlgebraLayout gathered_by(const AlgebraLayout& first, const AlgebraLayout& tiler) {
  return layout_of(gathered(first.mode, tiler, operation, gather), first.swizzle);
}

// clang-format off
constexpr auto rows = std::to_array<OperationRow>({
    {{.second = Second::tiler, .name = "composition", .meaning = "A(B(i))"}, [](const AlgebraLayout& a, const AlgebraLayout& b) { return composition(a, b); }},
    {{.second = Second::extent, .name = "complement", .second_is_optional = true, .meaning = "the offsets below B (default: below A's largest) that A does not reach; A and its complement reach all"},
     [](const AlgebraLayout& a, const AlgebraLayout& b) { return layout_of(complement(a.mode, leaves_of(b.mode))); }},
    {{.second = Second::profile, .name = "coalesce", .second_is_optional = true, .meaning = "A with as few modes as possible; with B = (1,1) each of two modes is simplified separately"},
     [](const AlgebraLayout& a, const AlgebraLayout& b) { return layout_of(coalesced_by(a.mode, b), a.swizzle); }},
    {{.second = Second::tiler, .name = "logical_divide", .meaning = "A in tiles B: ((tile,rest),(tile,rest)) of every mode that B names"}, gathered_by<logical_divide, Gather::logical>},
    {{.second = Second::tiler, .name = "zipped_divide", .meaning = "the same as ((tile,tile),(rest,rest))"}, gathered_by<logical_divide, Gather::zipped>},
    {{.second = Second::tiler, .name = "tiled_divide", .meaning = "the same as ((tile,tile),rest,rest)"}, gathered_by<logical_divide, Gather::tiled>},
    {{.second = Second::tiler, .name = "flat_divide", .meaning = "the same as (tile,tile,rest,rest)"}, gathered_by<logical_divide, Gather::flat>},
    {{.second = Second::tiler, .name = "logical_product", .meaning = "A repeated according to B: (A, places of the copies)"}, gathered_by<logical_product, Gather::logical>},
    {{.second = Second::tiler, .name = "zipped_product", .meaning = "the same for each mode: ((A,A),(copies,copies))"}, gathered_by<logical_product, Gather::zipped>},
    {{.second = Second::tiler, .name = "tiled_product", .meaning = "the same as ((A,A),copies,copies)"}, gathered_by<logical_product, Gather::tiled>},
    {{.second = Second::tiler, .name = "flat_product", .meaning = "the same as (A,A,copies,copies)"}, gathered_by<logical_product, Gather::flat>},
    {{.second = Second::layout, .name = "blocked_product", .meaning = "copies of A side by side in every mode: ((A,copies),(A,copies))"},
     [](const AlgebraLayout& a, const AlgebraLayout& b) { return layout_of(product_by_rank(a.mode, b.mode, false), a.swizzle); }},
    {{.second = Second::layout, .name = "raked_product", .meaning = "copies of A interleaved in every mode: ((copies,A),(copies,A))"},
     [](const AlgebraLayout& a, const AlgebraLayout& b) { return layout_of(product_by_rank(a.mode, b.mode, true), a.swizzle); }},
    {{.name = "right_inverse", .meaning = "R with A(R(i)) = i, for as many of 0, 1, 2 ... as A reaches"}, [](const AlgebraLayout& a, const AlgebraLayout&) { return inverse(a, true); }},
    {{.name = "left_inverse", .meaning = "L with A(L(A(i))) = A(i), and L(A(i)) = i for values that A has only once"}, [](const AlgebraLayout& a, const AlgebraLayout&) { return inverse(a, false); }},
});
// clang-format on

constexpr auto operations = [] {
  std::array<LayoutOperation, rows.size()> list{};
  for (size_t i = 0; i < rows.size(); ++i) list[i] = rows[i].operation;
  return list;
}();

/// Compact strides for a shape; the first mode varies fastest.
NestedMode compact(const cute_text::Tuple& shape, int64_t& stride) {
  if (shape.is_number) {
    const NestedMode mode = leaf(shape.value, shape.value == 1 ? 0 : stride);
    stride = times(stride, shape.value);
    return mode;
  }
  std::vector<NestedMode> modes;
  for (const cute_text::Tuple& tuple : shape.children) modes.push_back(compact(tuple, stride));
  return tuple_of(std::move(modes));
}

NestedMode joined(const cute_text::Tuple& shape, const cute_text::Tuple& stride) {
  if (shape.is_number != stride.is_number || shape.children.size() != stride.children.size())
    refuse("layout", "shape and stride of different form", "a stride for every number of the shape");
  if (shape.is_number) return leaf(shape.value, stride.value);
  std::vector<NestedMode> modes;
  for (size_t i = 0; i < shape.children.size(); ++i) modes.push_back(joined(shape.children[i], stride.children[i]));
  return tuple_of(std::move(modes));
}

void require_extents(const cute_text::Tuple& shape) {
  if (shape.is_number && (shape.value < 1 || shape.value > most_indices))
    refuse("shape", std::to_string(shape.value), fmt::format("1..{}", most_indices));
  for (const cute_text::Tuple& tuple : shape.children) require_extents(tuple);
}

void require_size(const NestedMode& mode) {
  if (const int64_t size = size_of(mode); size > most_indices)
    refuse("layout", fmt::format("{} indices", size), fmt::format("at most {}", most_indices));
  static_cast<void>(cosize_of(mode));
}

/// True for a tuple of tilers: a parenthesis whose partner has no strides after it.
bool is_tuple_of_tilers(cute_text::CuteReader& reader) {
  if (!reader.take("(")) return false;
  const std::string_view text = reader.text();
  size_t at = reader.at();
  reader.go_back(at - 1);
  for (int depth = 1; at < text.size() && depth > 0; ++at) depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
  while (at < text.size() && text[at] == ' ') ++at;
  return at >= text.size() || text[at] != ':';
}

OffsetSwizzle read_swizzle(cute_text::CuteReader& reader) {
  const auto number = [&] {
    const bool is_negative = reader.take("-");
    const int64_t value = reader.number();
    return static_cast<int>(is_negative ? -std::min<int64_t>(value, 64) : std::min<int64_t>(value, 64));
  };
  OffsetSwizzle swizzle{.bits = number()};
  reader.expect(",");
  swizzle.base = number();
  reader.expect(",");
  swizzle.shift = number();
  reader.expect(">");
  reader.take("{}");
  if (swizzle.bits < 0 || swizzle.base < 0 || swizzle.bits + swizzle.base + std::abs(swizzle.shift) > 32 ||
      std::abs(swizzle.shift) < swizzle.bits)
    reader.refuse("Swizzle<B,M,S> with B <= |S| and B + M + |S| <= 32");
  return swizzle;
}

AlgebraLayout read_layout(cute_text::CuteReader& reader, bool is_tiler, int depth) {
  if (depth > 4) reader.refuse("fewer nested tilers");
  if (is_tiler && reader.take("_,")) {  // "_8" is a number
    reader.go_back(reader.at() - 1);
    return {.kind = Kind::unchanged};
  }
  if (is_tiler && (reader.take("_>") || reader.take("_)"))) {
    reader.go_back(reader.at() - 1);
    return {.kind = Kind::unchanged};
  }
  if (is_tiler && (is_tuple_of_tilers(reader) ? reader.take("(")
                                              : reader.take_any({"<", "cute::make_tile(", "make_tile(", "cute::Tile<",
                                                                 "Tile<", "make_shape(", "Shape<"}))) {
    AlgebraLayout tiler{.kind = Kind::by_mode};
    do tiler.by_mode.push_back(read_layout(reader, true, depth + 1));
    while (reader.take(","));
    if (!reader.take_any({">", ")"})) reader.refuse(", or > after the last layout");
    reader.take_any({"{}", "()"});
    return tiler;
  }
  AlgebraLayout layout;
  if (reader.take_any({"cute::Swizzle<", "Swizzle<", "Sw<", "S<"})) {
    layout.swizzle = read_swizzle(reader);
    if (!reader.take_any({"o", "\u2218"})) reader.refuse("o between the swizzle and the layout");
    const size_t before = reader.at();
    const bool is_zero = reader.take("_0") || reader.take("0");
    if (!is_zero || !reader.take_any({"o", "\u2218"})) reader.go_back(before);
  }
  const bool in_angles = reader.take_any({"cute::Layout<", "Layout<"});
  const bool in_call = !in_angles && reader.take_any({"cute::make_layout(", "make_layout("});
  const cute_text::Tuple shape = reader.tuple(0);
  require_extents(shape);
  if (reader.take(in_angles || in_call ? "," : ":")) {
    layout.mode = joined(shape, reader.tuple(0));
  } else {
    int64_t stride = 1;
    layout.mode = compact(shape, stride);
  }
  if (in_angles || in_call) reader.expect(in_angles ? ">" : ")");
  reader.take("{}");
  require_size(layout.mode);
  return layout;
}

std::string print_part(const NestedMode& mode, int64_t NestedMode::*member) {
  if (!is_tuple(mode)) return std::to_string(mode.*member);
  std::vector<std::string> parts;
  for (const NestedMode& nested_mode : mode.modes) parts.push_back(print_part(nested_mode, member));
  return fmt::format("({})", fmt::join(parts, ","));
}

const OperationRow& row_of(std::string_view name) {
  const auto row =
      std::ranges::find(rows, name, [](const OperationRow& candidate) { return candidate.operation.name; });
  if (row != rows.end()) return *row;
  std::vector<std::string> names;
  for (const OperationRow& known : rows) names.emplace_back(known.operation.name);
  const std::string meant = name == "compose" ? "composition" : nearest(name, names);
  throw Error({.code = ViolationCode::unknown_name,
               .field = "operation",
               .seen = shortened(name),
               .legal = names,
               .fix = meant.empty() ? "" : fmt::format("did you mean {}?", meant)});
}

}  // namespace

int64_t OffsetSwizzle::apply(int64_t offset) const {
  const int64_t mask = (int64_t{1} << bits) - 1;
  return shift < 0 ? offset ^ ((offset >> base & mask) << (base - shift))
                   : offset ^ ((offset >> (base + shift) & mask) << base);
}

int64_t AlgebraLayout::size() const { return size_of(mode); }
int64_t AlgebraLayout::cosize() const { return cosize_of(mode); }
int64_t AlgebraLayout::operator()(int64_t index) const {
  if (index < 0) refuse("index", std::to_string(index), "0 or more");
  const int64_t offset = offset_at(leaves_of(mode), index);
  return swizzle ? swizzle->apply(offset) : offset;
}

AlgebraLayout parse_algebra_layout(std::string_view text, bool is_tiler) {
  if (is_tiler && text == "_") return {.kind = Kind::unchanged};
  cute_text::CuteReader reader(text);
  AlgebraLayout layout = read_layout(reader, is_tiler, 0);
  if (!reader.done()) reader.refuse("nothing more");
  return layout;
}

std::string print(const AlgebraLayout& layout) {
  if (layout.kind == Kind::unchanged) return "_";
  if (layout.kind == Kind::by_mode) {
    std::vector<std::string> parts;
    for (const AlgebraLayout& algebra_layout : layout.by_mode) parts.push_back(print(algebra_layout));
    return fmt::format("<{}>", fmt::join(parts, ", "));
  }
  const std::string text =
      print_part(layout.mode, &NestedMode::extent) + ":" + print_part(layout.mode, &NestedMode::stride);
  if (!layout.swizzle) return text;
  return fmt::format("Swizzle<{},{},{}> o _0 o {}", layout.swizzle->bits, layout.swizzle->base, layout.swizzle->shift,
                     text);
}

std::span<const LayoutOperation> layout_operations() { return operations; }

const LayoutOperation& layout_operation_named(std::string_view name) {
  return operations[static_cast<size_t>(&row_of(name) - rows.data())];
}

AlgebraLayout apply(const LayoutOperation& operation, const AlgebraLayout& first,
                    const std::optional<AlgebraLayout>& second) {
  const OperationRow& row = row_of(operation.name);
  if (first.kind != Kind::layout) refuse("first operand", print(first), "a layout");
  const Second wanted = row.operation.second;
  if (second && wanted == Second::none)
    refuse("second operand", print(*second), fmt::format("absent: {} has one operand", operation.name));
  if (!second && wanted != Second::none && !row.operation.second_is_optional)
    refuse("second operand", "(missing)", fmt::format("the second operand of {}", operation.name));
  AlgebraLayout other = second.value_or(AlgebraLayout{});
  if (!second && wanted == Second::extent) other = layout_of(leaf(cosize_of(filtered(first.mode)), 1));
  if (other.swizzle && wanted != Second::none && operation.name != "composition")
    refuse("second operand", print(other), "a layout without a swizzle");
  if (wanted == Second::layout && other.kind != Kind::layout) refuse("second operand", print(other), "a layout");
  AlgebraLayout result = row.apply(first, other);
  require_size(result.mode);
  return result;
}

AlgebraLayout apply_layout_operation(std::string_view name, std::string_view first,
                                     std::optional<std::string_view> second) {
  const LayoutOperation& operation = layout_operation_named(name);
  const bool is_tiler = operation.second == Second::tiler || operation.second == Second::profile;
  std::optional<AlgebraLayout> other;
  if (second) other = parse_algebra_layout(*second, is_tiler);
  return apply(operation, parse_algebra_layout(first), other);
}

}  // namespace bitmma
