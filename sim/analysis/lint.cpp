// SPDX-License-Identifier: MIT
#include "bitmma/analysis/lint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/place.hpp"

namespace bitmma {
namespace {

constexpr std::string_view from_map = "the layout of the operand", from_values = "the values that are read";

std::string count(int64_t number, std::string_view singular, std::string_view plural) {
  return fmt::format("{} {}", number, number == 1 ? singular : plural);
}
std::string count_bytes(int64_t number) { return count(number, "byte", "bytes"); }

std::string_view name_of(Role role) { return role == Role::a ? "A" : "B"; }

std::set<int64_t> bytes_of(const SmemMatrix& matrix) {
  const SmemMap map(matrix);
  std::set<int64_t> bytes;
  const int width = std::max(1, matrix.element_bits / 8);
  for (int row = 0; row < matrix.rows; ++row) {
    for (int col = 0; col < matrix.cols; ++col) {
      for (int i = 0; i < width; ++i) bytes.insert(map.place_of(row, col).byte + i);
    }
  }
  return bytes;
}

bool same_map(const SmemMatrix& x, const SmemMatrix& y) {
  const SmemMap a(x), b(y);
  for (int row = 0; row < x.rows; ++row) {
    for (int col = 0; col < x.cols; ++col) {
      if (!(a.place_of(row, col) == b.place_of(row, col))) return false;
    }
  }
  return true;
}

/// Collects the findings.
class Findings {
 public:
  void advise(std::string field, std::string seen, std::string expected, std::string fix, std::string_view source) {
    add({.field = std::move(field),
         .seen = std::move(seen),
         .expected = std::move(expected),
         .fix = std::move(fix),
         .source = std::string(source),
         .severity = Severity::warning});
  }
  /// Drops duplicates.
  void add(const Violation& violation) {
    if (std::ranges::find(found_, violation) == found_.end()) found_.push_back(violation);
  }
  void add_all(std::span<const Violation> violations) {
    for (const Violation& violation : violations) add(violation);
  }
  std::vector<Violation> take() && { return std::move(found_); }

 private:
  std::vector<Violation> found_;
};

void lint_strides(Findings& findings, std::string_view name, const SmemMatrix& matrix) {
  struct StrideField {
    std::string_view field;
    int64_t Strides::*member;
  };
  constexpr StrideField rows[]{{"leading_dim_byte_offset", &Strides::leading_dim_byte_offset},
                               {"stride_dim_byte_offset", &Strides::stride_dim_byte_offset}};
  if (matrix.descriptor.leading_dim_absolute) return;
  const Strides natural =
      minimal_strides(matrix.major, info(matrix.descriptor.swizzle), matrix.element_bits, matrix.rows, matrix.cols);
  // Without swizzle, core matrices may be ordered along K first or along the rows first.
  const bool has_two_orders = matrix.major == Major::k && info(matrix.descriptor.swizzle).bits == 0;
  const Strides along_rows{.leading_dim_byte_offset = int64_t{16} * matrix.rows, .stride_dim_byte_offset = 128};
  for (const auto& [field, member] : rows) {
    const int64_t value = matrix.descriptor.strides.*member;
    if (has_two_orders && value == along_rows.*member) continue;
    SmemMatrix other = matrix;
    other.descriptor.strides.*member = value + 4096;
    if (value <= 16 || value == natural.*member || !same_map(matrix, other)) continue;
    findings.advise(
        fmt::format("{} {}", name, field), std::to_string(value),
        natural.*member > 16 ? fmt::format("{} or at most 16", natural.*member) : "at most 16",
        "it has no effect here: the tile has a single step in that direction, or the mode ignores the field", from_map);
  }
}

/// The mode exists for K = 96 of 4-bit elements, whose rows are longer than 128 bytes.
void lint_leading_mode(Findings& findings, std::string_view name, const SmemMatrix& matrix) {
  constexpr int documented_bytes = 48;
  const int row_bytes = matrix.cols * matrix.element_bits / 8;
  if (!matrix.descriptor.leading_dim_absolute || row_bytes == documented_bytes) return;
  findings.advise(
      fmt::format("{} leading_dim_mode", name), fmt::format("1 with rows of {} bytes of K", row_bytes), "0",
      "the absolute address is documented only for rows of 48 bytes of K; for others the result rests on an assumption",
      "PTX ISA 9.7.16.3.1.2");
}

void lint_operand(Findings& findings, std::string_view name, const SmemMatrix& matrix, const std::set<int64_t>& bytes,
                  int64_t image_bytes) {
  lint_leading_mode(findings, name, matrix);
  const int64_t needed = int64_t{matrix.rows} * matrix.cols * matrix.element_bits / 8;
  const auto used = static_cast<int64_t>(bytes.size());
  if (used < needed) {
    findings.advise(fmt::format("{} bytes", name), fmt::format("{} for {} of elements", used, count_bytes(needed)),
                    "a separate byte for every element", "rows overlap: a stride is too small", from_map);
  }
  if (!bytes.empty() && *bytes.rbegin() >= image_bytes) {
    const auto beyond = std::distance(bytes.lower_bound(image_bytes), bytes.end());
    findings.add({.field = fmt::format("{} reads", name),
                  .seen = fmt::format("{} past the image of {}", count_bytes(beyond), image_bytes),
                  .expected = "inside the image",
                  .fix = "a stride or the start address is too large, or the image too small",
                  .source = std::string(from_map)});
  }
  lint_strides(findings, name, matrix);
}

void lint_smem(Findings& findings, const Case& this_case) {
  const int64_t image_bytes = this_case.before.extent(Field::smem, -1);
  std::vector<std::set<int64_t>> bytes;
  for (const SmemOperand& operand : smem_operands(this_case.instruction, this_case.target, this_case.before)) {
    bytes.push_back(bytes_of(operand.matrix));
    lint_operand(findings, name_of(operand.role), operand.matrix, bytes.back(), image_bytes);
  }
  if (bytes.size() < 2) return;
  std::vector<int64_t> both;
  std::ranges::set_intersection(bytes[0], bytes[1], std::back_inserter(both));
  if (both.empty()) return;
  findings.advise("A and B",
                  fmt::format("{} read as both A and B, from byte {:#x}",
                              count_bytes(static_cast<int64_t>(both.size())), both.front()),
                  "separate tiles", "a start address is wrong, or a tile is larger than intended",
                  "the layouts of both operands");
}

void lint_numbers(Findings& findings, const Matrix& matrix, std::string_view name) {
  if (info(matrix.format()).kind != NumberKind::floating) return;
  int64_t nan = 0, infinite = 0;
  for (int row = 0; row < matrix.rows(); ++row) {
    for (int col = 0; col < matrix.cols(); ++col) {
      const NumberClass number = decode(matrix.format(), matrix(row, col)).number;
      nan += number == NumberClass::nan, infinite += number == NumberClass::infinity;
    }
  }
  if (nan + infinite == 0) return;
  findings.advise(fmt::format("{} values", name),
                  fmt::format("{} NaN, {}", nan, count(infinite, "infinity", "infinities")), "finite numbers",
                  "memory may be uninitialised, or the bits were written in another type", from_values);
}

void lint_scales(Findings& findings, const Matrix& scales, std::string_view name) {
  const FormatInfo& format = info(scales.format());
  int64_t nan = 0, tiny = 0;
  for (int row = 0; row < scales.rows(); ++row) {
    for (int col = 0; col < scales.cols(); ++col) {
      const Decoded value = decode(format, scales(row, col));
      nan += value.number == NumberClass::nan;
      tiny += value.number == NumberClass::finite &&
              (format.has_zero ? value.significand < 1u << format.mantissa_bits : scales(row, col) == 0);
    }
  }
  const auto all = static_cast<int64_t>(scales.size());
  const std::string field = fmt::format("scales of {}", name);
  if (nan > 0) {
    findings.advise(field, fmt::format("{} of {} NaN", nan, all), "numbers", "every product of their blocks is NaN",
                    from_values);
  }
  if (tiny == all) {
    findings.advise(field, format.has_zero ? "all zero or subnormal" : "all 2^-127", "numbers around 1",
                    "the scales may never have been written, or ue8m0 and ue4m3 are confused", from_values);
  }
}

void lint_values(Findings& findings, const Operands& operands) {
  lint_numbers(findings, operands.a, "A");
  lint_numbers(findings, operands.b, "B");
  if (operands.c) lint_numbers(findings, *operands.c, "C");
  if (!operands.scales) return;
  lint_scales(findings, operands.scales->a, "A");
  lint_scales(findings, operands.scales->b, "B");
}

bool has_every_buffer(const Case& this_case) {
  return std::ranges::all_of(fields_of(this_case.instruction), [&](const FieldRule& rule) {
    return !rule.required || rule.access == Access::write || this_case.before.has(rule.field);
  });
}

}  // namespace

std::vector<Violation> lint(const Case& this_case) {
  if (std::vector<Violation> illegal = violations_of(this_case.instruction, this_case.target); !illegal.empty())
    return illegal;
  Findings findings;
  const auto try_to = [&](const auto& look) {
    try {
      look();
    } catch (const Error& error) {
      findings.add_all(error.violations());
    }
  };
  try_to([&] { findings.add_all(warnings_of(this_case)); });
  if (is_mma(this_case.instruction)) {
    if (this_case.has_state() && has_every_buffer(this_case)) try_to([&] { lint_smem(findings, this_case); });
    try_to([&] { lint_values(findings, operands_of(this_case)); });
  }
  return std::move(findings).take();
}

std::vector<LintFinding> lint(const VectorFile& vectors) {
  const VectorFile known = known_part(vectors);
  std::vector<LintFinding> findings;
  for (int64_t index = 0; index < known.cases; ++index) {
    for (Violation& finding : lint(case_at(known, index))) {
      const auto same = std::ranges::find_if(findings, [&](const LintFinding& lint_finding) {
        return lint_finding.finding.field == finding.field && lint_finding.finding.fix == finding.fix;
      });
      if (same == findings.end()) findings.push_back({.finding = std::move(finding), .cases = 1});
      else ++same->cases;
    }
  }
  return findings;
}

}  // namespace bitmma
