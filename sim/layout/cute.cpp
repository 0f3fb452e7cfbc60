#include "bitmma/layout/cute.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

/// Numbers and tuples of them; a number is a tuple without children.
struct Tuple {
  int64_t value = 0;
  std::vector<Tuple> children;
  bool is_number = true;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  [[noreturn]] void refuse(std::string legal) const {
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    throw Error({.field = fmt::format("CuTe layout, character {}", at_ + 1),
                 .seen = rest.empty() ? "(the end)" : shortened(rest, 20),
                 .expected = std::move(legal),
                 .fix = "for example Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))"});
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
    if (!take(word)) refuse(std::string(word));
  }
  int64_t number() {
    skip_spaces();
    take("_");  // CuTe prints static integers so
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{} || value < 0 || value > int64_t{1} << 32) refuse("a number in 0..4294967296, or (");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  Tuple tuple(int depth = 0) {
    if (depth > 8) refuse("fewer than nine nested tuples");
    Tuple result;
    if (!take("(")) {
      result.value = number();
      return result;
    }
    result.is_number = false;
    do result.children.push_back(tuple(depth + 1));
    while (take(","));
    expect(")");
    return result;
  }
  bool done() {
    skip_spaces();
    return at_ == text_.size();
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

/// The digits of one mode, outermost nesting flattened.
void append_digits(const Tuple& shape, const Tuple& stride, LayoutMode& mode) {
  if (shape.is_number != stride.is_number || shape.children.size() != stride.children.size()) {
    throw Error({.field = "CuTe layout",
                 .seen = "shape and stride of different form",
                 .expected = "a stride for every number of the shape"});
  }
  if (shape.is_number) {
    if (shape.value < 1 || shape.value > 1 << 16)
      throw Error({.field = "CuTe shape", .seen = std::to_string(shape.value), .expected = "1..65536"});
    mode.push_back({.extent = shape.value, .stride = stride.value});
    return;
  }
  for (size_t i = 0; i < shape.children.size(); ++i) append_digits(shape.children[i], stride.children[i], mode);
}

/// Elements of a mode; what cannot be counted is more than any limit.
int64_t extent_of(const LayoutMode& mode) {
  constexpr int64_t most = int64_t{1} << 40;
  int64_t extent = 1;
  for (const LayoutDigit& digit : mode) extent = digit.extent > most / extent ? most : extent * digit.extent;
  return extent;
}

}  // namespace

CuteLayout parse_cute(std::string_view text, int element_bits) {
  if (element_bits < 1 || element_bits > 128)  // bytes of all elements then fit 64 bits
    throw Error({.field = "element bits", .seen = std::to_string(element_bits), .expected = "1..128"});
  Reader reader(text);
  CuteLayout cute{.swizzle = info(Swizzle::none), .layout = {}};
  if (reader.take("Swizzle<") || reader.take("Sw<")) {
    const int64_t bits = reader.number();
    reader.expect(",");
    int64_t base = reader.number();
    reader.expect(",");
    const int64_t shift = reader.number();
    reader.expect(">");
    if (!reader.take("o") && !reader.take("\u2218")) reader.refuse("o between the swizzle and the layout");
    if (bits > 4 || base > 8 || shift > 8) reader.refuse("Swizzle<0..4,0..8,0..8>");
    // In elements of several bytes CuTe counts M from the element.
    const int element_shift = element_bits > 8 ? std::countr_zero(static_cast<unsigned>(element_bits / 8)) : 0;
    if (base < 4 && (base + element_shift == 4 || base + element_shift == 5)) base += element_shift;
    for (const SwizzleInfo& mode : swizzles) {
      if (mode.bits == bits && (bits == 0 || (mode.base == base && mode.shift == shift))) cute.swizzle = mode;
    }
    if (cute.swizzle.bits != bits)
      cute.swizzle = {.id = Swizzle::none,
                      .name = "other",
                      .width_bytes = 16 << bits,
                      .bits = static_cast<int>(bits),
                      .base = static_cast<int>(base),
                      .shift = static_cast<int>(shift)};
  }
  const Tuple shape = reader.tuple();
  reader.expect(":");
  const Tuple stride = reader.tuple();
  if (!reader.done()) reader.refuse("nothing more");
  if (shape.children.size() != 2) {
    throw Error({.field = "CuTe layout",
                 .seen = fmt::format("{} modes", shape.children.size()),
                 .expected = "two modes: rows (M or N) and columns (K)"});
  }
  if (stride.children.size() != 2)
    throw Error({.field = "CuTe layout",
                 .seen = "shape and stride of different form",
                 .expected = "a stride for every number of the shape"});
  append_digits(shape.children[0], stride.children[0], cute.layout.row);
  append_digits(shape.children[1], stride.children[1], cute.layout.col);
  cute.rows = extent_of(cute.layout.row), cute.cols = extent_of(cute.layout.col);
  if (cute.rows > 65536 || cute.cols > 65536 || cute.rows * cute.cols > 1 << 20) {
    throw Error({.field = "CuTe layout",
                 .seen = fmt::format("{} x {} elements", cute.rows, cute.cols),
                 .expected = "at most 1048576 of them"});
  }
  return cute;
}

std::string print(const CuteLayout& cute) { return fmt::format("{} o {}", print(cute.swizzle), print(cute.layout)); }

}  // namespace bitmma
