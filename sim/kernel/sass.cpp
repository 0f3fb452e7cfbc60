// SPDX-License-Identifier: MIT
#include "sass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "../instruction/text/words.hpp"
#include "bitmma/core/error.hpp"

namespace bitmma::kernel {
namespace {

using syntax::trimmed;

enum class Does : uint8_t { adds, multiplies, both };

struct SassOpcode {
  std::string_view name;
  Does does;
};
constexpr auto sass_opcodes = std::to_array<SassOpcode>({
    {"FADD", Does::adds},
    {"HADD2", Does::adds},
    {"DADD", Does::adds},
    {"FMUL", Does::multiplies},
    {"HMUL2", Does::multiplies},
    {"DMUL", Does::multiplies},
    {"FFMA", Does::both},
    {"HFMA2", Does::both},
    {"DFMA", Does::both},
    {"FADD2", Does::adds},  // f32x2
    {"FMUL2", Does::multiplies},
    {"FFMA2", Does::both},
});

/// Returns the text before the first comma, or all of it; `text` keeps the rest.
std::string_view take_operand(std::string_view& text) {
  const size_t end = std::min(text.find(','), text.size());
  const std::string_view operand = trimmed(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return operand;
}

/// What "@!P0 FFMA.FTZ R5, R0, 1, R7 ;" computes. ptxas may encode a sum as an fma with a factor of one, a product as
/// an fma with an addend of zero, and a constant as an fma of zeros.
std::optional<Does> does(std::string_view instruction) {
  if (instruction.starts_with('@'))
    instruction = trimmed(instruction.substr(std::min(instruction.find(' '), instruction.size())));
  const std::string_view word = instruction.substr(0, instruction.find(' '));
  const std::string_view name = word.substr(0, word.find('.'));
  const auto* const row = std::ranges::find(sass_opcodes, name, &SassOpcode::name);
  if (row == sass_opcodes.end()) return std::nullopt;
  if (row->does != Does::both) return row->does;
  std::string_view rest = instruction.substr(word.size());
  rest = rest.substr(0, rest.find(';'));
  std::vector<std::string_view> operands;
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_of("0123456789") == (text[0] == '-' || text[0] == '+' ? 1 : 0);
  };
  while (!trimmed(rest).empty()) {
    const std::string_view operand = take_operand(rest);
    // The two halves of an HFMA2 immediate form one operand, which is 0 or 1 if both halves are.
    if (name == "HFMA2" && !operands.empty() && is_number(operand) && is_number(operands.back())) {
      if (operand != operands.back()) operands.back() = "halves";
    } else {
      operands.push_back(operand);
    }
  }
  const auto is = [&](size_t i, std::string_view number) {
    std::string_view text = i < operands.size() ? operands[i] : std::string_view{};
    if (text.starts_with('-')) text.remove_prefix(1);
    return text == number || (number == "0" && text.substr(0, text.find('.')) == "RZ");  // also RZ.H0_H0
  };
  if (is(1, "0") || is(2, "0")) return std::nullopt;
  if (is(1, "1") || is(2, "1")) return Does::adds;
  if (is(3, "0")) return Does::multiplies;
  return Does::both;
}

[[noreturn]] void refuse(ViolationCode code, std::string seen, std::string expected) {
  throw Error({.code = code,
               .field = "SASS",
               .seen = std::move(seen),
               .expected = std::move(expected),
               .fix = "ptxas -arch=sm_90a -lineinfo kernel.ptx -o kernel.cubin; nvdisasm -gp kernel.cubin"});
}

constexpr std::string_view section = ".text.", mark = "//## File \".nv_debug_ptx_txt\", line ";

}  // namespace

SassLines sass_lines(std::string_view text, std::string_view entry, const std::set<int>& lines) {
  SassLines result;
  bool is_here = false, has_section = false, has_marks = false;
  int line = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.starts_with(section) && row.ends_with(':')) {
      is_here = row.substr(section.size(), row.size() - section.size() - 1) == entry;
      has_section |= is_here;
      line = 0;
    } else if (is_here && row.starts_with(mark)) {
      const std::string_view number = row.substr(mark.size());
      line = 0;
      std::from_chars(number.data(), number.data() + number.size(), line);
      if (line < 1) refuse(ViolationCode::unusable_file, "a mark without a line", "the output of nvdisasm -gp");
      has_marks = true;
    } else if (is_here && row.starts_with("/*") && row.find("*/") != std::string_view::npos) {
      const std::optional<Does> what = does(trimmed(row.substr(row.find("*/") + 2)));
      if (!what || line == 0) continue;
      if (!lines.contains(line)) {
        refuse(ViolationCode::contradiction, fmt::format("a floating-point instruction of line {}", line),
               fmt::format("the SASS of this PTX: kernel {} has no such instruction on that line", entry));
      }
      SassLine& at = result[line];
      if (*what == Does::adds) ++at.sums;
      else if (*what == Does::multiplies) ++at.products;
      else ++at.fmas;
    }
  }
  if (!has_section)
    refuse(ViolationCode::unusable_file, "no section .text." + std::string(entry),
           "the output of nvdisasm for the kernel's cubin");
  if (!has_marks)
    refuse(ViolationCode::unusable_file, "it does not refer to lines of the PTX",
           "the output of nvdisasm -gp for a cubin of ptxas -lineinfo");
  return result;
}

}  // namespace bitmma::kernel
