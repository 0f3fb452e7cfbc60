// SPDX-License-Identifier: MIT
// Parses and creates operands by the rows of a grammar.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "syntax.hpp"
#include "words.hpp"

namespace bitmma::syntax {
namespace {

/// statement_of creates at most this many registers, whatever n an illegal instruction has.
constexpr int64_t most_registers = 4096;

bool has(const OperandRow& row, const Instruction& instruction) { return !row.when || row.when(instruction); }
int64_t count_of(const OperandRow& row, const Instruction& instruction) {
  return row.count ? row.count(instruction) : 1;
}
bool is_pair(const OperandRow& row) { return row.immediates[1].value.get != nullptr; }

std::string registers_text(int64_t count) { return fmt::format("{} register{}", count, count == 1 ? "" : "s"); }

/// "0..3", "1 or -1".
std::string range_text(const Immediate& immediate) {
  if (immediate.last - immediate.first == immediate.step) {
    return immediate.first < 0 ? fmt::format("{} or {}", immediate.last, immediate.first)
                               : fmt::format("{} or {}", immediate.first, immediate.last);
  }
  return fmt::format("{}..{}", immediate.first, immediate.last);
}

bool contains(const Immediate& immediate, int64_t value) {
  return value >= immediate.first && value <= immediate.last && (value - immediate.first) % immediate.step == 0;
}

std::string expected_text(const OperandRow& row, const Instruction& instruction) {
  switch (row.kind) {
    case OperandKind::registers:
      return row.bare ? "a register" : fmt::format("{} in braces", registers_text(count_of(row, instruction)));
    case OperandKind::descriptor: return "a register";
    case OperandKind::address: return "an address in brackets";
    case OperandKind::predicate: return "a predicate register, 0 or 1";
    case OperandKind::immediate: break;
  }
  if (!is_pair(row)) return range_text(row.immediates[0]);
  return fmt::format("{{{}, {}}}", range_text(row.immediates[0]), range_text(row.immediates[1]));
}

/// How well a text matches an operand, best first.
enum class Fit : uint8_t {
  right,
  number,  // a number in place of a register
  near,    // the right form with a wrong detail: too few registers, out of range
  name,    // a name in place of a number
  other,   // another form: braces, brackets or none
};

/// The text between the first and the last character.
std::string_view inside(std::string_view text) { return text.size() < 2 ? "" : text.substr(1, text.size() - 2); }

/// A register, a variable or a number, perhaps with an offset.
bool is_address(std::string_view text) {
  const size_t sign = text.find_last_of("+-");
  const bool offset = sign != std::string_view::npos && sign > 0 && integer(trimmed(text.substr(sign + 1)));
  const std::string_view base = trimmed(offset ? text.substr(0, sign) : text);
  return is_name(base) || integer(base);
}

bool is_predicate(std::string_view text) { return is_name(text.substr(text.starts_with('!') ? 1 : 0)); }

Fit fit_of(const OperandRow& row, std::string_view text, const Instruction& instruction) {
  const bool braces = text.starts_with('{'), brackets = text.starts_with('['), plain = !braces && !brackets;
  const std::optional<int64_t> value = integer(text);
  switch (row.kind) {
    case OperandKind::registers: {
      const int64_t count = count_of(row, instruction);
      if (!braces) return brackets || !row.bare ? Fit::other : is_name(text) ? Fit::right : Fit::near;
      const auto names = split_list(inside(text));
      return names && static_cast<int64_t>(names->size()) == count ? Fit::right : Fit::near;
    }
    case OperandKind::address: return brackets ? Fit::right : Fit::other;
    case OperandKind::descriptor:
    case OperandKind::predicate: {
      const bool right = row.kind == OperandKind::predicate ? is_predicate(text) : is_name(text);
      return !plain ? Fit::other : right ? Fit::right : value ? Fit::number : Fit::near;
    }
    case OperandKind::immediate: break;
  }
  if (is_pair(row)) return braces ? Fit::right : Fit::other;
  if (!plain) return Fit::other;
  return is_name(text) ? Fit::name : value && contains(row.immediates[0], *value) ? Fit::right : Fit::near;
}

class OperandReader {
 public:
  OperandReader(const Grammar& grammar, std::span<const std::string_view> texts, Instruction& instruction,
                std::vector<Violation>& violations, bool may_have_register_ids)
      : grammar_(grammar),
        texts_(texts),
        instruction_(instruction),
        violations_(violations),
        may_have_register_ids_(may_have_register_ids) {}

  std::vector<StatementOperand> read() {
    const std::span<const OperandRow> rows = grammar_.operands;
    for (size_t i = 0; i < std::min(rows.size(), texts_.size()); ++i) {
      const OperandRow& row = rows[i];
      if (row.written.get && fit_of(row, texts_[i], instruction_) != Fit::other)
        row.written.set(instruction_, row.written_value);
    }
    const std::vector<std::optional<size_t>> text_of = align();
    std::vector<bool> used(texts_.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      if (text_of[i]) used[*text_of[i]] = true;
      read(rows[i], text_of[i] ? std::optional(texts_[*text_of[i]]) : std::nullopt);
    }
    if (const auto extra = std::ranges::count(used, false); extra > 0) {
      const size_t first = static_cast<size_t>(std::ranges::find(used, false) - used.begin());
      refuse("operand", shown(texts_[first]) + (extra == 1 ? "" : fmt::format(" and {} more", extra - 1)),
             "nothing there", list_text());
    }
    return std::move(operands_);
  }

 private:
  void refuse(std::string_view field, std::string seen, std::string expected, std::string fix) {
    violations_.push_back({.code = ViolationCode::malformed,
                           .field = std::string(field),
                           .seen = std::move(seen),
                           .expected = std::move(expected),
                           .fix = std::move(fix),
                           .source = grammar_.source(instruction_)});
  }

  bool is_present(const OperandRow& row) const {
    return row.written.get ? row.written.get(instruction_) == row.written_value : has(row, instruction_);
  }

  /// "the operands are d, a-desc, b-desc, scale-d", only once.
  std::string list_text() {
    if (std::exchange(listed_, true)) return "";
    std::string text = "the operands are ";
    std::string_view comma = "";
    for (const OperandRow& row : grammar_.operands) {
      if (!is_present(row)) continue;
      const std::string name = row.kind == OperandKind::address ? fmt::format("[{}]", row.name) : std::string(row.name);
      text += row.optional ? fmt::format("{{{}{}}}", comma, name) : fmt::format("{}{}", comma, name);
      comma = ", ";
    }
    return text;
  }

  /// Assigns texts to rows: texts keep their order, and mismatches are minimal. A text without a row is superfluous. So
  /// the error for a wrong statement names missing operands, and superfluous ones by name.
  std::vector<std::optional<size_t>> align() const {
    constexpr int lacks = 4, too_many = 4, never = 1000;
    constexpr size_t most = 64;  // more than any statement; texts beyond them are superfluous anyway
    const std::span<const OperandRow> rows = grammar_.operands;
    const size_t texts = std::min(texts_.size(), most);
    const auto cost_of = [&](const OperandRow& row, std::string_view text) {
      const Fit fit = fit_of(row, text, instruction_);
      if (is_present(row)) {
        constexpr std::array cost_of_fit{0, 1, 2, 4, 5};
        return cost_of_fit[static_cast<size_t>(fit)];
      }
      if (row.written.get || row.absent.empty() || fit == Fit::other) return never;
      return fit == Fit::right ? 3 : 4;
    };
    const auto cost_without = [&](const OperandRow& row) { return is_present(row) && !row.optional ? lacks : 0; };
    // least[r][t]: of rows r and up with texts t and up.
    std::vector<std::vector<int>> least(rows.size() + 1, std::vector<int>(texts + 1));
    std::vector<std::vector<int>> taking(rows.size(), std::vector<int>(texts, never));
    for (size_t t = 0; t <= texts; ++t) least[rows.size()][t] = too_many * static_cast<int>(texts - t);
    for (size_t r = rows.size(); r-- > 0;) {
      for (size_t t = texts + 1; t-- > 0;) {
        least[r][t] = least[r + 1][t] + cost_without(rows[r]);
        if (t == texts) continue;
        taking[r][t] = least[r + 1][t + 1] + cost_of(rows[r], texts_[t]);
        least[r][t] = std::min({least[r][t], taking[r][t], least[r][t + 1] + too_many});
      }
    }
    std::vector<std::optional<size_t>> text_of(rows.size());
    for (size_t r = 0, t = 0; r < rows.size() && t < texts;) {
      if (least[r][t] == taking[r][t]) {
        text_of[r++] = t++;
      } else if (least[r][t] == least[r + 1][t] + cost_without(rows[r])) {
        ++r;
      } else {
        ++t;
      }
    }
    return text_of;
  }

  void read(const OperandRow& row, std::optional<std::string_view> text) {
    if (!is_present(row)) {
      if (text) refuse(row.name, shown(*text), fmt::format("absent {}", row.absent), "");
      return;
    }
    if (!text) {
      if (!row.optional) refuse(row.name, "(nothing)", expected_text(row, instruction_), list_text());
      return;
    }
    if (fit_of(row, *text, instruction_) == Fit::other)
      return refuse(row.name, shown(*text), expected_text(row, instruction_), list_text());
    operands_.push_back({.name = row.name, .kind = row.kind, .text = std::string(*text)});
    switch (row.kind) {
      case OperandKind::registers: return read_registers(row, *text);
      case OperandKind::predicate:
      case OperandKind::immediate: return read_immediates(row, *text);
      case OperandKind::descriptor:
        if (!is_name(*text) && !integer(*text)) refuse(row.name, shown(*text), expected_text(row, instruction_), "");
        return;
      case OperandKind::address:
        if (!text->ends_with(']') || !is_address(inside(*text)))
          refuse(row.name, shown(*text), expected_text(row, instruction_), "");
        return;
    }
  }

  void read_registers(const OperandRow& row, std::string_view text) {
    std::vector<std::string>& names = operands_.back().registers;
    // The braces match, but the last character need not be one of them: "{a} b".
    const bool in_braces = text.starts_with('{');
    const auto pieces = split_list(in_braces ? inside(text) : text);
    const bool whole = pieces && (!in_braces || text.ends_with('}'));
    const auto bad = whole ? std::ranges::find_if_not(*pieces, is_name) : decltype(pieces->begin()){};
    if (!whole || bad != pieces->end()) {
      return refuse(row.name, shown(whole ? *bad : text), expected_text(row, instruction_), std::string(row.fix));
    }
    names.assign(pieces->begin(), pieces->end());
    if (const int64_t count = count_of(row, instruction_); static_cast<int64_t>(names.size()) != count) {
      refuse(row.name, registers_text(static_cast<int64_t>(names.size())), registers_text(count), std::string(row.fix));
    }
  }

  void read_immediates(const OperandRow& row, std::string_view text) {
    StatementOperand& operand = operands_.back();
    std::vector<std::string_view> pieces{text};
    if (is_pair(row)) {
      pieces = text.ends_with('}') ? split_list(inside(text)).value_or(pieces) : pieces;
      if (pieces.size() != 2) return refuse(row.name, shown(text), expected_text(row, instruction_), "");
    }
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Immediate& immediate = row.immediates[i];
      const std::optional<int64_t> value = integer(pieces[i]);
      if (row.kind == OperandKind::predicate && is_predicate(pieces[i])) return;
      if (is_pair(row) && may_have_register_ids_ && is_name(pieces[i])) continue;
      if (!value || !contains(immediate, *value)) {
        const bool predicate = row.kind == OperandKind::predicate;
        refuse(immediate.name.empty() ? row.name : immediate.name, shown(pieces[i]),
               predicate ? expected_text(row, instruction_) : range_text(immediate),
               is_name(pieces[i]) ? "write the number itself: it is part of the instruction" : std::string(row.fix));
        continue;
      }
      immediate.value.set(instruction_, *value);
      if (!is_pair(row)) operand.value = value;
    }
  }

  const Grammar& grammar_;
  std::span<const std::string_view> texts_;
  Instruction& instruction_;
  std::vector<Violation>& violations_;
  std::vector<StatementOperand> operands_;
  bool may_have_register_ids_ = false, listed_ = false;
};

}  // namespace

std::vector<StatementOperand> operands_of(const Grammar& grammar, const Instruction& instruction) {
  std::vector<StatementOperand> operands;
  for (const OperandRow& row : grammar.operands) {
    const auto value = [&](size_t i) { return row.immediates[i].value.get(instruction); };
    if (row.written.get && row.written.get(instruction) != row.written_value) continue;
    const bool zero_left_out = row.kind == OperandKind::immediate && row.optional;
    if (zero_left_out ? value(0) == 0 : !has(row, instruction)) continue;
    StatementOperand operand{.name = row.name, .kind = row.kind, .text = std::string(row.as)};
    switch (row.kind) {
      case OperandKind::registers: {
        const int64_t count = std::min(count_of(row, instruction), most_registers);
        for (int64_t i = 0; i < count; ++i) operand.registers.push_back(fmt::format("{}{}", row.as, i));
        const std::string list = fmt::format("{}", fmt::join(operand.registers, ", "));
        operand.text = row.bare ? list : fmt::format("{{{}}}", list);
        break;
      }
      case OperandKind::address: operand.text = fmt::format("[{}]", row.as); break;
      case OperandKind::immediate:
        operand.text = is_pair(row) ? fmt::format("{{{}, {}}}", value(0), value(1)) : std::to_string(value(0));
        if (!is_pair(row)) operand.value = value(0);
        break;
      default: break;
    }
    operands.push_back(std::move(operand));
  }
  return operands;
}

std::vector<StatementOperand> parse_operands(const Grammar& grammar, std::span<const std::string_view> texts,
                                             Instruction& instruction, std::vector<Violation>& violations,
                                             bool may_have_register_ids) {
  return OperandReader(grammar, texts, instruction, violations, may_have_register_ids).read();
}

}  // namespace bitmma::syntax
