// SPDX-License-Identifier: MIT
// Reads CuTe's notation: numbers, names and nested tuples.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/layout/cute.hpp"

namespace bitmma::cute_text {

/// A number, or a tuple of numbers and tuples; a number is a tuple without children.
struct Tuple {
  int64_t value = 0;
  std::vector<Tuple> children;
  bool is_number = true;
};

inline constexpr int64_t most_number = int64_t{1} << 32;

class CuteReader {
 public:
  explicit CuteReader(std::string_view text, CuteSymbolValue value_of = {})
      : text_(text), value_of_(std::move(value_of)) {}

  [[noreturn]] void refuse(std::string legal) const {
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    const bool lacks_brackets = rest.starts_with(',') && legal == "':'";
    throw Error({.code = ViolationCode::malformed,
                 .field = fmt::format("CuTe layout, character {}", at_ + 1),
                 .seen = rest.empty() ? "the end of the text" : fmt::format("'{}'", shortened(rest, 20)),
                 .expected = std::move(legal),
                 .fix = lacks_brackets ? "write brackets around several extents: (8,2):(2,1)"
                                       : "for example Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))"});
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) refuse(fmt::format("'{}'", word));
  }
  /// Takes the first of `words` that the text here begins with.
  bool take_any(std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) {
      if (take(word)) return true;
    }
    return false;
  }
  /// Takes letters, digits and underscores.
  std::string_view name() {
    skip_spaces();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  /// A number in any C++ notation: 8, _8, _8{}, Int<8>{}. Symbols such as 2T count in elements of `element_bits`.
  int64_t number(int element_bits = 0) {
    skip_spaces();
    const bool wrapped = take_any({"cute::Int<", "Int<", "cute::C<", "C<"});
    take("_");  // CuTe prints static integers this way
    int64_t value = 1;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    const bool has_digits = error == std::errc{};
    if (has_digits ? value < 0 || value > most_number : error == std::errc::result_out_of_range)
      refuse("a number in 0..4294967296, or (");
    if (has_digits) at_ = static_cast<size_t>(end - text_.data());
    const std::optional<int64_t> symbol = element_bits > 0 ? symbol_here(element_bits) : std::nullopt;
    if (!has_digits && !symbol) refuse("a number in 0..4294967296, or (");
    if (symbol && (__builtin_mul_overflow(value, *symbol, &value) || value > most_number))
      refuse("a product in 0..4294967296");
    if (wrapped) expect(">");
    take("{}");
    return value;
  }
  Tuple tuple(int element_bits, int depth = 0) {
    if (depth > 8) refuse("fewer than nine nested tuples");
    Tuple result;
    const bool in_angles = take_any({"cute::Shape<", "Shape<", "cute::Stride<", "Stride<", "cute::Step<", "Step<"});
    if (!in_angles && !take_any({"(", "make_shape(", "make_stride(", "cute::make_shape(", "cute::make_stride("})) {
      result.value = number(element_bits);
      return result;
    }
    result.is_number = false;
    do result.children.push_back(tuple(element_bits, depth + 1));
    while (take(","));
    expect(in_angles ? ">" : ")");
    take("{}");
    return result;
  }
  bool done() {
    skip_spaces();
    return at_ == text_.size();
  }
  size_t at() const { return at_; }
  void go_back(size_t at) { at_ = at; }
  std::string_view text() const { return text_; }

 private:
  /// The value of a letter from PTX's canonical layouts, if the text here is one.
  std::optional<int64_t> symbol_here(int element_bits) {
    if (take("T")) return std::max(1, 128 / element_bits);
    const auto value = [&](std::string_view symbol, int64_t unit_bits) {
      const std::optional<int64_t> symbol_value = value_of_ ? value_of_(symbol) : std::nullopt;
      if (!symbol_value || *symbol_value < 0 || *symbol_value > most_number) {
        throw Error({.code = symbol_value ? ViolationCode::illegal_value : ViolationCode::missing_input,
                     .field = fmt::format("{} of the CuTe layout", symbol),
                     .seen = symbol_value ? std::to_string(*symbol_value) : "(no value)",
                     .expected = "0..4294967296",
                     .fix = "pass values for T, m, k, LBO and SBO, or write numbers"});
      }
      if (*symbol_value * unit_bits % element_bits != 0) {
        throw Error({.field = fmt::format("{} of the CuTe layout", symbol),
                     .seen = fmt::format("{} bytes", *symbol_value),
                     .expected = fmt::format("whole elements of {} bits", element_bits)});
      }
      return unit_bits == element_bits ? *symbol_value : *symbol_value * unit_bits / element_bits;
    };
    for (const std::string_view stride : {"LBO", "SBO"})
      if (take(stride)) return value(stride, 8);  // bytes
    for (const std::string_view extent : {"m", "k"})
      if (take(extent)) return value(extent, element_bits);
    return std::nullopt;
  }

  std::string_view text_;
  CuteSymbolValue value_of_;
  size_t at_ = 0;
};

}  // namespace bitmma::cute_text
