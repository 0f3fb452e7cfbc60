#include "bitmma/layout/algebra.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

std::string result_of(std::string_view operation, std::string_view first, std::string_view second = {}) {
  return print(apply_layout_operation(operation, first,
                                      second.empty() ? std::nullopt : std::optional<std::string_view>(second)));
}

/// A layout whose offset at an index is found by counting: every digit of every mode is a wheel. Shares no code with
/// the library.
struct Wheels {
  std::vector<int64_t> extents, strides;

  std::vector<int64_t> offsets(int64_t count) const {
    std::vector<int64_t> result, digits(extents.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
      int64_t offset = 0;
      for (size_t d = 0; d < digits.size(); ++d) offset += digits[d] * strides[d];
      result.push_back(offset);
      for (size_t d = 0; d < digits.size(); ++d) {
        if (++digits[d] < extents[d] || d + 1 == digits.size()) break;  // the last wheel has no end
        digits[d] = 0;
      }
    }
    return result;
  }
  int64_t size() const {
    int64_t product = 1;
    for (const int64_t extent : extents) product *= extent;
    return product;
  }
  std::string text() const {
    std::string shape, stride;
    for (size_t d = 0; d < extents.size(); ++d) {
      shape += fmt::format("{}{}", d == 0 ? "(" : ",", extents[d]);
      stride += fmt::format("{}{}", d == 0 ? "(" : ",", strides[d]);
    }
    return shape + "):" + stride + ")";
  }
};

Wheels any_wheels(RandomStream& random, bool is_compact) {
  Wheels wheels;
  const auto modes = 1 + random.below(4);
  int64_t stride = 1;
  for (uint64_t i = 0; i < modes; ++i) {
    constexpr std::array<int64_t, 8> extents{1, 2, 2, 3, 4, 4, 6, 8};
    wheels.extents.push_back(extents[random.below(extents.size())]);
    wheels.strides.push_back(is_compact || random.below(2) ? stride : static_cast<int64_t>(random.below(20)));
    stride *= wheels.extents.back();
  }
  return wheels;
}

std::vector<int64_t> offsets_of(const AlgebraLayout& layout) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < layout.size(); ++i) offsets.push_back(layout(i));
  return offsets;
}

}  // namespace

TEST_CASE("layout algebra gives CuTe's results, mode for mode", "[rule:cute-algebra]") {
  std::set<std::string> operations;
  const int64_t rows = test::for_each_csv_row(test::oracle_path("cute_algebra.csv"), [&](const test::CsvRow& row) {
    INFO(row.at("operation") << " " << row.at("first") << " " << row.at("second"));
    REQUIRE(result_of(row.at("operation"), row.at("first"), row.at("second")) == row.at("result"));
    CHECK(print(parse_algebra_layout(row.at("result"))) == row.at("result"));
    operations.insert(row.at("operation"));
  });
  CHECK(rows == 441);
  CHECK(operations.size() == layout_operations().size());
}

TEST_CASE("composition, coalesce, complement and inverses do what their definitions say, counted by wheels") {
  RandomStream random(28, 0);
  int composed = 0, complements = 0, inverses = 0;
  const int trials = test::amount(300, 3000, 3000);
  for (int trial = 0; trial < trials; ++trial) {
    const Wheels a = any_wheels(random, trial % 2 == 0), b = any_wheels(random, trial % 3 == 0);
    INFO(a.text() << " " << b.text());
    const std::vector<int64_t> of_a = a.offsets(20000);
    CHECK(offsets_of(apply_layout_operation("coalesce", a.text())) == a.offsets(a.size()));
    try {
      const AlgebraLayout result = apply_layout_operation("composition", a.text(), b.text());
      std::vector<int64_t> expected = b.offsets(b.size());
      for (int64_t& offset : expected) offset = of_a.at(static_cast<size_t>(offset));
      CHECK(offsets_of(result) == expected);
      ++composed;
    } catch (const Error&) {
    }
    try {
      const std::vector<int64_t> rest = offsets_of(apply_layout_operation("complement", a.text(), "4096"));
      const std::vector<int64_t> own = a.offsets(a.size());
      const std::set<int64_t> offsets(own.begin(), own.end());
      CHECK(std::ranges::is_sorted(rest));
      for (const int64_t offset : rest) CHECK((offset == 0 || !offsets.contains(offset)));
      ++complements;
    } catch (const Error&) {
    }
    const AlgebraLayout right = apply_layout_operation("right_inverse", a.text());
    for (int64_t i = 0; i < right.size(); ++i) CHECK(of_a.at(static_cast<size_t>(right(i))) == i);
    try {
      const AlgebraLayout left = apply_layout_operation("left_inverse", a.text());
      for (const int64_t offset : a.offsets(a.size())) CHECK(of_a.at(static_cast<size_t>(left(offset))) == offset);
      ++inverses;
    } catch (const Error&) {
    }
  }
  for (const int count : {composed, complements, inverses}) CHECK(count > trials / 3);
}

TEST_CASE("layouts are read in every way that CuTe prints and people write") {
  CHECK(print(parse_algebra_layout("(_8,(_2,_2)):(_1,(_8,_16))")) == "(8,(2,2)):(1,(8,16))");
  CHECK(print(parse_algebra_layout("Layout<Shape<_8,_2>,Stride<_1,_8>>{}")) == "(8,2):(1,8)");
  CHECK(print(parse_algebra_layout("make_layout(make_shape(Int<8>{},2),make_stride(1,8))")) == "(8,2):(1,8)");
  CHECK(print(parse_algebra_layout("(4,1,8)")) == "(4,1,8):(1,0,4)");
  CHECK(print(parse_algebra_layout("Sw<3,3,3> o _0 o (_8,_64):(_64,_1)")) == "Swizzle<3,3,3> o _0 o (8,64):(64,1)");
  CHECK(print(parse_algebra_layout("<4:1, _, (2,2):(1,4)>", true)) == "<4:1, _, (2,2):(1,4)>");
  CHECK(print(parse_algebra_layout("(4,_)", true)) == "<4:1, _>");
  CHECK(print(parse_algebra_layout("(2,(2,4))", true)) == "<2:1, <2:1, 4:1>>");
  CHECK(print(parse_algebra_layout("make_tile(Layout<_4,_2>{},_8{})", true)) == "<4:2, 8:1>");
  CHECK(parse_algebra_layout("Swizzle<3,0,-3> o 64:1")(1) == 9);
}

TEST_CASE("what CuTe does not compile, and what is no layout, is refused") {
  const auto is_refused = [](std::string_view operation, std::string_view first, std::string_view second = {}) {
    try {
      static_cast<void>(result_of(operation, first, second));
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  CHECK(is_refused("composition", "(6,2):(1,10)", "3:4"));     // 3 over 2
  CHECK(is_refused("composition", "(6,2):(1,10)", "4:4"));     // CuTe's rule gives another function
  CHECK(is_refused("composition", "(4,6,8):(2,3,5)", "6:3"));  // the failing example of CuTe's own text
  CHECK(is_refused("complement", "(2,2):(2,3)", "24"));
  CHECK(is_refused("logical_divide", "(8,8)", "(4,4,4)"));
  CHECK(is_refused("zipped_divide", "(8,8)", "(_,4)"));
  CHECK(is_refused("blocked_product", "(8):(1)", "2:1"));
  CHECK(is_refused("composition", "8:1"));
  CHECK(is_refused("right_inverse", "8:1", "4"));
  CHECK(is_refused("logical_product", "8:1", "Swizzle<1,0,1> o 4:1"));
  CHECK(is_refused("composition", "(1048576,2)", "2"));
  CHECK(is_refused("composition", "8:4294967296", "1024:1024"));
  CHECK(is_refused("composition", "Swizzle<4,0,3> o 8:1", "2"));
  CHECK(is_refused("composition", "(8,8):(1", "2"));
  try {
    static_cast<void>(layout_operation_named("logical_devide"));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.violations().front().code == ViolationCode::unknown_name);
    CHECK_THAT(error.violations().front().fix, ContainsSubstring("logical_divide"));
  }
}
