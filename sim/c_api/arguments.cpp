// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "bitmma/core/parallel.hpp"
#include "bitmma/core/target_names.hpp"
#include "c_api.hpp"

namespace bitmma::c_api {
namespace {

[[noreturn]] void refuse_size(std::string_view name) {
  throw Error({.code = ViolationCode::too_large,
               .field = std::string(name),
               .seen = "too large",
               .expected = "small enough that all sizes and distances fit 64 bits"});
}

}  // namespace

void refuse_null(std::string_view name) {
  throw Error({.code = ViolationCode::missing_input,
               .field = std::string(name),
               .seen = "NULL",
               .expected = "a pointer to what bitmma.h describes"});
}

std::string_view text_given(const char* argument, std::string_view name) { return &pointee(argument, name); }

Format format_of(bitmma_format format, std::string_view name) {
  const auto number = static_cast<int64_t>(format);
  if (number >= 0 && number < static_cast<int64_t>(formats.size())) return static_cast<Format>(number);
  throw Error({.field = std::string(name), .seen = std::to_string(number), .expected = "a value of bitmma_format"});
}

Target target_of(const char* target, Target usual) { return target ? target_from(target) : usual; }

int threads_of(int threads) {
  if (threads > 0) return threads;
  if (threads == 0) return hardware_threads();
  throw Error({.field = "threads", .seen = std::to_string(threads), .expected = "1 or more, or 0 for all cores"});
}

int64_t size_product(int64_t x, int64_t y, std::string_view name) {
  int64_t product = 0;
  if (__builtin_mul_overflow(x, y, &product)) refuse_size(name);
  return product;
}

CodeView code_view(const void* data, int64_t row_stride, int64_t col_stride, int64_t rows, int64_t cols, Format format,
                   std::string_view name) {
  if (row_stride == 0 && col_stride == 0) {
    col_stride = code_bytes(format);
    row_stride = size_product(cols, col_stride, name);
  }
  int64_t distance = 0;
  if (__builtin_add_overflow(size_product(std::max<int64_t>(0, rows - 1), row_stride, name),
                             size_product(std::max<int64_t>(0, cols - 1), col_stride, name), &distance)) {
    refuse_size(name);
  }
  return {.data = data, .row_stride = row_stride, .col_stride = col_stride};
}

int extent_of(int64_t extent, std::string_view name) {
  if (extent >= 0 && extent <= INT_MAX) return static_cast<int>(extent);
  throw Error({.field = std::string(name), .seen = std::to_string(extent), .expected = fmt::format("0..{}", INT_MAX)});
}

Matrix matrix_given(const bitmma_matrix& from, std::string_view name) {
  if (!from.data) refuse_null(fmt::format("{}.data", name));
  const int rows = extent_of(from.rows, fmt::format("{}.rows", name)),
            cols = extent_of(from.cols, fmt::format("{}.cols", name));
  const Format format = format_of(from.format, fmt::format("{}.format", name));
  const CodeView view = code_view(from.data, from.row_stride, from.col_stride, from.rows, from.cols, format, name);
  return matrix_of(format, rows, cols, view);
}

void write_text(std::string_view from, char* text, size_t size, size_t* length) {
  if (!text && size > 0) refuse_null("text");
  if (size > 0) {
    const size_t copied = std::min(size - 1, from.size());
    std::memcpy(text, from.data(), copied);
    text[copied] = '\0';
  }
  if (length) *length = from.size();
}

}  // namespace bitmma::c_api
