// SPDX-License-Identifier: MIT
#include "bitmma/memory/sparse_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/table.hpp"

namespace bitmma {
namespace {

void require_chunks(const Matrix& matrix, int cols) {
  if (matrix.is_wide())
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "a",
                 .seen = std::string(info(matrix.format()).name),
                 .expected = "a format of at most 32 bits"});
  if (matrix.cols() % cols == 0) return;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = "columns of a",
               .seen = std::to_string(matrix.cols()),
               .expected = fmt::format("a multiple of {}", cols)});
}

/// Adds the positions that store zeros. True if the chunk repeats its first position, as CUTLASS's empty chunks do.
bool fill_positions(std::vector<int>& kept, int units, int kept_units, SparseFill fill) {
  const auto add = [&](int unit) {
    if (std::ssize(kept) < kept_units && std::ranges::find(kept, unit) == kept.end()) kept.push_back(unit);
  };
  if (fill == SparseFill::cutlass) {
    if (kept.empty()) {
      kept.assign(static_cast<size_t>(kept_units), 0);
      return true;
    }
    add(units - 1), add(0);
  } else if (fill == SparseFill::pytorch) {
    for (int unit = units / 2; unit < units; ++unit) add(unit);
  } else {
    for (int unit = 0; unit < units; ++unit) add(unit);
  }
  std::ranges::sort(kept);
  return false;
}

BITMMA_IN_ENVIRONMENT Matrix pruned_to(const Matrix& logical, const SparsePattern& pattern) {
  const int units = pattern.chunk / pattern.unit, kept_units = pattern.stored_per_chunk / pattern.unit;
  const std::vector<float> values = to_floats(logical);
  Matrix pruned = logical;
  for (int row = 0; row < logical.rows(); ++row) {
    for (int first = 0; first < logical.cols(); first += pattern.chunk) {
      std::vector<std::pair<double, int>> order;  // the largest magnitude first
      for (int unit = 0; unit < units; ++unit) {
        double magnitude = 0;
        for (int i = 0; i < pattern.unit; ++i) {
          magnitude += std::abs(values[static_cast<size_t>(row) * static_cast<size_t>(logical.cols()) +
                                       static_cast<size_t>(first + unit * pattern.unit + i)]);
        }
        order.emplace_back(std::isnan(magnitude) ? std::numeric_limits<double>::infinity() : magnitude, unit);
      }
      std::ranges::stable_sort(order, std::greater{}, &std::pair<double, int>::first);
      for (int dropped = kept_units; dropped < units; ++dropped) {
        for (int i = 0; i < pattern.unit; ++i)
          pruned(row, first + order[static_cast<size_t>(dropped)].second * pattern.unit + i) = 0;
      }
    }
  }
  return pruned;
}

}  // namespace

SparseFill sparse_fill_named(std::string_view name) {
  const auto row = std::ranges::find(sparse_fills, name, &SparseFillInfo::name);
  if (row != sparse_fills.end()) return row->id;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "fill",
               .seen = std::string(name),
               .legal = row_names(sparse_fills)});
}

const SparsePattern& sparse_pattern_named(std::string_view name) {
  if (name == "1:2") return one_of_two;
  if (name == "2:4") return two_of_four;
  if (name == "4:8") return two_pairs_of_eight;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "pattern",
               .seen = std::string(name),
               .legal = {"1:2", "2:4", "4:8"}});
}

Matrix prune(const Matrix& logical, const SparsePattern& pattern) {
  require_chunks(logical, pattern.chunk);
  return in_ieee_environment([&] { return pruned_to(logical, pattern); });
}

CompressedMatrix compress(const Matrix& logical, const SparsePattern& pattern, SparseFill fill) {
  require_chunks(logical, pattern.chunk);
  const FormatInfo& format = info(logical.format());
  const bool is_float = format.exponent_bits > 0;
  const auto sign = static_cast<uint32_t>(fill != SparseFill::lowest && is_float ? format.sign_bit() : 0);
  const int units = pattern.chunk / pattern.unit, kept_units = pattern.stored_per_chunk / pattern.unit;
  const int chunks = logical.cols() / pattern.chunk;
  CompressedMatrix result{.stored = Matrix(logical.format(), logical.rows(), chunks * pattern.stored_per_chunk)};
  result.nibbles.reserve(static_cast<size_t>(logical.rows()) * static_cast<size_t>(chunks));
  std::vector<int> kept;
  std::vector<uint16_t> positions(static_cast<size_t>(pattern.stored_per_chunk));
  for (int row = 0; row < logical.rows(); ++row) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int first_k = chunk * pattern.chunk;
      kept.clear();
      for (int unit = 0; unit < units; ++unit) {
        bool has_code = false;
        for (int i = 0; i < pattern.unit; ++i)
          has_code |= (logical(row, first_k + unit * pattern.unit + i) & ~sign) != 0;
        if (has_code) kept.push_back(unit);
      }
      if (static_cast<int>(kept.size()) > kept_units) {
        throw Error({.code = ViolationCode::contradiction,
                     .field = fmt::format("a row {}, columns {}..{}", row, first_k, first_k + pattern.chunk - 1),
                     .seen = fmt::format("{} non-zero {}", kept.size(), pattern.unit == 1 ? "codes" : "pairs"),
                     .expected = fmt::format("at most {} of {}", kept_units, units),
                     .fix = "prune A to the sparsity of this type",
                     .source = "PTX ISA 9.7.15.6"});
      }
      const std::vector<int> own = kept;
      const bool repeats = fill_positions(kept, units, kept_units, fill);
      for (int i = 0; i < pattern.stored_per_chunk; ++i) {
        const int unit = kept[static_cast<size_t>(i / pattern.unit)];
        const int k = unit * pattern.unit + i % pattern.unit;
        // CUTLASS stores +0 where PyTorch keeps a -0.
        const bool is_filler = fill == SparseFill::cutlass && std::ranges::find(own, unit) == own.end();
        result.stored(row, chunk * pattern.stored_per_chunk + i) = is_filler ? 0 : logical(row, first_k + k);
        positions[static_cast<size_t>(i)] = static_cast<uint16_t>(k);
      }
      const bool is_empty = repeats && pattern.stored_per_chunk > 1;
      result.nibbles.push_back(is_empty ? uint8_t{0} : static_cast<uint8_t>(nibble_of(pattern, positions)));
    }
  }
  return result;
}

Matrix decompress(const Matrix& stored, std::span<const uint8_t> nibbles, const SparsePattern& pattern) {
  require_chunks(stored, pattern.stored_per_chunk);
  const int chunks = stored.cols() / pattern.stored_per_chunk;
  if (nibbles.size() != static_cast<size_t>(stored.rows()) * static_cast<size_t>(chunks)) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "metadata",
                 .seen = std::to_string(nibbles.size()),
                 .expected = fmt::format("{} x {} chunks", stored.rows(), chunks)});
  }
  Matrix logical(stored.format(), stored.rows(), chunks * pattern.chunk);
  for (int row = 0; row < stored.rows(); ++row) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const uint32_t nibble =
          nibbles[static_cast<size_t>(row) * static_cast<size_t>(chunks) + static_cast<size_t>(chunk)];
      if (nibble > 0xF || (pattern.stored_per_chunk == 1 && nibble != 0x4 && nibble != 0xE)) {
        throw Error({.field = fmt::format("metadata row {}, chunk {}", row, chunk),
                     .seen = fmt::format("{:#06b}", nibble),
                     .expected = pattern.stored_per_chunk == 1 ? "0b0100 or 0b1110" : "four bits"});
      }
      for (int i = pattern.stored_per_chunk - 1; i >= 0; --i) {  // the first of two at one position stays
        const int unit = pattern.stored_per_chunk == 1 ? (nibble == 0x4 ? 0 : 1)
                                                       : static_cast<int>(nibble >> 2 * (i / pattern.unit) & 3);
        logical(row, chunk * pattern.chunk + unit * pattern.unit + i % pattern.unit) =
            stored(row, chunk * pattern.stored_per_chunk + i);
      }
    }
  }
  return logical;
}

}  // namespace bitmma
