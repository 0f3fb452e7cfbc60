// SPDX-License-Identifier: MIT
#include "row_lanes.hpp"

#include <fmt/format.h>

#include "../math/f32.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma::operators {

void require_floats(std::string_view name, const Matrix& x) {
  const Format format = x.format();
  if (format != Format::f32 && format != Format::f16 && format != Format::bf16)
    throw Error({.field = fmt::format("type of {}", name),
                 .seen = std::string(info(format).name),
                 .expected = "f32, f16 or bf16"});
  if (x.size() == 0)
    throw Error({.field = fmt::format("shape of {}", name),
                 .seen = fmt::format("{} x {}", x.rows(), x.cols()),
                 .expected = "one element or more"});
}

namespace {

/// An f16 code as f32; a NaN keeps its payload, which amax and relu pass on.
uint32_t widened(uint32_t code) {
  if ((code & 0x7C00) == 0x7C00) return (code & 0x8000) << 16 | 0x7F800000 | (code & 0x3FF) << 13;
  return static_cast<uint32_t>(convert(Format::f16, code, Format::f32, Rounding::nearest_even, Overflow::infinity));
}

}  // namespace

std::vector<float> row_of(const Matrix& x, int row) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(x.cols()));
  for (const uint32_t code : x.row(row)) {
    uint32_t wide = code;
    if (x.format() == Format::bf16) wide = code << 16;
    if (x.format() == Format::f16) wide = widened(code);
    values.push_back(value(wide));
  }
  return values;
}

void store_row(Matrix& out, int row, std::span<const float> values) {
  const std::span<uint32_t> to = out.row(row);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const uint32_t canonical = math::canonical(word(values[i]));
    to[i] = out.format() == Format::f32 ? canonical
                                        : static_cast<uint32_t>(convert(Format::f32, canonical, out.format(),
                                                                        Rounding::nearest_even, Overflow::infinity));
  }
}

void require_rows(const RowsOf& of, const Matrix& x) {
  const auto rows = static_cast<std::size_t>(x.rows());
  if (!of.rows.empty() && of.rows.size() != rows)
    throw Error(
        {.field = "rows", .seen = std::to_string(of.rows.size()), .expected = fmt::format("{}, as x has", rows)});
  for (const int64_t row : of.rows) {
    if (row < 0) throw Error({.field = "rows", .seen = std::to_string(row), .expected = "0 or more"});
  }
  if (of.whole != 0 && of.whole < x.rows())
    throw Error({.field = "whole", .seen = std::to_string(of.whole), .expected = fmt::format("{} or more", rows)});
}

void for_each_row(int rows, int threads, const std::function<void(int)>& body) {
  parallel_for(static_cast<std::size_t>(rows), threads, [&](std::size_t row) {
    const math::IeeeEnvironment environment;
    body(static_cast<int>(row));
  });
}

}  // namespace bitmma::operators
