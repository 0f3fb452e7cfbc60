// SPDX-License-Identifier: MIT
#include "row_lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "../formats/sixteen_bits.hpp"
#include "../math/f32.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"

namespace bitmma::operators {

void require_floats(std::string_view name, const Matrix& x) {
  const Format format = x.format();
  if (format != Format::f32 && format != Format::f16 && format != Format::bf16)
    throw Error({.code = ViolationCode::wrong_type,
                 .field = fmt::format("type of {}", name),
                 .seen = std::string(info(format).name),
                 .expected = "f32, f16 or bf16"});
  if (x.size() == 0)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("shape of {}", name),
                 .seen = fmt::format("{} x {}", x.rows(), x.cols()),
                 .expected = "at least one element"});
}

std::vector<float> row_of(const Matrix& x, int row) {
  const std::span<const uint32_t> codes = x.row(row);
  std::vector<float> values(codes.size());
  const auto widen = [&](const auto& function) {
    for (std::size_t i = 0; i < codes.size(); ++i) values[i] = value(function(codes[i]));
  };
  if (x.format() == Format::f32) widen([](uint32_t code) { return code; });
  else if (x.format() == Format::bf16) widen(f32_of_bf16);
  else widen(f32_of_f16);
  return values;
}

void narrow(std::span<const uint32_t> from, Format format, std::span<uint32_t> to) {
  const auto each = [&](const auto& function) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = function(from[i]);
  };
  if (format == Format::f32) each(math::canonical);
  else if (format == Format::bf16) each(bf16_code);
  else each(f16_code);
}

void store_row(Matrix& out, int row, std::span<const float> values) {
  std::vector<uint32_t> words(values.size());
  std::ranges::transform(values, words.begin(), word);
  narrow(words, out.format(), out.row(row));
}

void require_rows(const RowsOf& of, const Matrix& x) {
  const auto rows = static_cast<std::size_t>(x.rows());
  if (!of.rows.empty() && of.rows.size() != rows)
    throw Error(
        {.field = "rows", .seen = std::to_string(of.rows.size()), .expected = fmt::format("{}, as x has", rows)});
  for (const int64_t row : of.rows) {
    if (row < 0 || (of.whole != 0 && row >= of.whole))
      throw Error({.field = "rows",
                   .seen = std::to_string(row),
                   .expected = of.whole == 0 ? "0 or more" : fmt::format("0 to {}", of.whole - 1)});
  }
  constexpr int64_t most = std::numeric_limits<int>::max();
  if (of.whole != 0 && (of.whole < x.rows() || of.whole > most))
    throw Error({.field = "whole", .seen = std::to_string(of.whole), .expected = fmt::format("{} to {}", rows, most)});
}

void for_each_row(int rows, int threads, const std::function<void(int)>& body) {
  parallel_for(static_cast<std::size_t>(rows), threads, [&](std::size_t row) {
    const math::IeeeEnvironment environment;
    body(static_cast<int>(row));
  });
}

void require_place(std::string_view field, int seen, int count) {
  if (seen < 0 || seen >= count)
    throw Error(
        {.field = std::string(field), .seen = std::to_string(seen), .expected = fmt::format("0..{}", count - 1)});
}

OperatorTrace trace_of(std::string_view name, const Matrix& out, int row, int col,
                       const std::function<void(Notes&)>& run) {
  require_place("row", row, out.rows());
  require_place("col", col, out.cols());
  OperatorTrace trace{.name = std::string(name), .output = {row, col}};
  Notes notes(trace);
  const math::IeeeEnvironment environment;
  run(notes);
  const bool is_narrow = out.format() == Format::f16 || out.format() == Format::bf16;
  notes.add("output", fmt::format("as {}", info(out.format()).name), is_narrow ? to_nearest : is_exact, {out(row, col)},
            out.format());
  return trace;
}

}  // namespace bitmma::operators
