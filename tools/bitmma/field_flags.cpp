// SPDX-License-Identifier: MIT
#include "field_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "bitmma/core/text.hpp"
#include "bitmma/core/word.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"

namespace bitmma::cli {

void LayoutFlags::add(Command& command) {
  options = {command
                 .add_option("--layout-a", a,
                             "k-major or mn-major; then :none, :32, :64 or :128, the bytes of swizzle, or :128-atom32 "
                             "for MN-major tf32 of tcgen05; then optionally ,lbo=BYTES ,sbo=BYTES ,base=N to set "
                             "fields of the descriptor; then optionally @BYTES to begin inside the pattern")
                 ->capture_default_str(),
             command.add_option("--layout-b", b, "the same for B")->capture_default_str(),
             command.add_option("--padding", padding_bytes, "bytes added to the smallest strides, a multiple of 16")
                 ->capture_default_str()};
}

void LayoutFlags::require_used(const LayoutUse& use) const {
  const std::array used{use.a, use.b, use.a || use.b};
  std::vector<Violation> violations;
  for (size_t i = 0; i < options.size(); ++i) {
    if (used[i] || options[i]->count() == 0) continue;
    violations.push_back(
        {.field = options[i]->get_name(), .seen = options[i]->as<std::string>(), .expected = "absent", .fix = use.why});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

Placement LayoutFlags::placement() const {
  Placement placement{.a = parse_operand_layout(a, Role::a), .b = parse_operand_layout(b, Role::b)};
  placement.a.padding_bytes = placement.b.padding_bytes = padding_bytes;
  return placement;
}

namespace {

/// Converts the text to a value of the field.
FieldValue value_of(const InstructionField& row, const std::string& flag, const std::string& text) {
  const bool is_sign = row.immediate.first == -1;
  if (std::holds_alternative<bool>(row.default_value)) {
    const bool is_set = is_sign ? text == "-1" : text == "1" || text == "true";
    if (is_set || (is_sign ? text == "1" : text == "0" || text == "false")) return is_set;
    throw Error(
        {.field = flag,
         .seen = shortened(text),
         .legal = is_sign ? std::vector<std::string>{"1", "-1"} : std::vector<std::string>{"0", "1", "false", "true"}});
  }
  if (!std::holds_alternative<int64_t>(row.default_value)) return text;
  const auto word = read_word(text);
  constexpr uint64_t most = std::numeric_limits<int64_t>::max();
  if (!word || word->is_guess || word->value > most)
    throw Error({.field = flag, .seen = shortened(text), .expected = "a whole number, 0..2^63-1"});
  return static_cast<int64_t>(word->value);
}

}  // namespace

void FieldFlags::add(Command& command, const std::vector<Family>& families,
                     bool (*is_wanted)(const InstructionField&)) {
  for (const Family family : families) {
    for (const InstructionField& row : instruction_fields(family)) {
      if (!is_wanted(row)) continue;
      const auto same = std::ranges::find_if(
          flags_, [&](const FieldFlag& flag) { return flag.row.name == row.name || flag.row.name == row.also; });
      if (same == flags_.end()) {
        flags_.push_back({.row = row, .fields = {row.name}, .families = std::string(print(family))});
        continue;
      }
      same->fields.push_back(row.name);
      same->families += fmt::format(", {}", print(family));
    }
  }
  for (FieldFlag& flag : flags_) {
    const InstructionField& row = flag.row;
    flag.flag = dashed(row.immediate.name.empty() ? row.name : row.immediate.name);
    const std::string names = row.also.empty() ? flag.flag : flag.flag + "," + dashed(row.also);
    const bool is_switch = std::holds_alternative<bool>(row.default_value) && row.immediate.name.empty();
    const bool has_several = flag.families.find(',') != std::string::npos;
    const std::string meaning =
        fmt::format("{}{}{}", has_several ? flag.families + ": " : "", row.meaning,
                    is_switch || row.immediate.legal.empty() ? "" : fmt::format(" ({})", row.immediate.legal));
    flag.option =
        is_switch ? command.add_flag(names, flag.is_set, meaning) : command.add_option(names, flag.text, meaning);
    if (families.size() > 1)
      flag.option->group(has_several ? "Fields of several families" : "Fields of " + flag.families);
  }
}

bool FieldFlags::is_given(std::string_view field) const {
  return std::ranges::any_of(flags_,
                             [&](const FieldFlag& flag) { return flag.row.name == field && flag.option->count() > 0; });
}

Instruction FieldFlags::apply(const Instruction& instruction) const {
  const std::vector<InstructionField>& known = instruction_fields(family_of(instruction));
  std::vector<NamedValue> values;
  std::vector<FlagOfField> names;
  std::vector<Violation> wrong;
  for (const FieldFlag& flag : flags_) {
    if (flag.option->count() == 0) continue;
    const auto has_field = [&](std::string_view name) {
      const auto row = std::ranges::find(known, name, &InstructionField::name);
      return row != known.end() && row->is_apart();
    };
    const auto field = std::ranges::find_if(flag.fields, has_field);
    const bool is_switch = flag.option->get_items_expected_max() == 0;
    if (field == flag.fields.end()) {
      wrong.push_back(
          {.code = ViolationCode::no_effect,
           .field = flag.flag,
           .seen = is_switch ? "given" : shortened(flag.text.get()),
           .expected = flag.row.in_descriptor ? "absent: it is a field of an instruction descriptor" : "absent",
           .fix = print(instruction) + " has none"});
      continue;
    }
    names.emplace_back(*field, flag.flag);
    try {
      values.push_back(
          {std::string(*field), is_switch ? FieldValue(flag.is_set.get()) : value_of(flag.row, flag.flag, flag.text)});
    } catch (const Error& error) {
      wrong.insert(wrong.end(), error.violations().begin(), error.violations().end());
    }
  }
  if (!wrong.empty()) throw Error(std::move(wrong));
  try {
    return naming_flags(names, [&] { return with_used_fields(instruction, values); });
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) {  // the library reports -1 for true
      const auto flag = std::ranges::find(flags_, violation.field, &FieldFlag::flag);
      if (flag != flags_.end() && flag->option->get_items_expected_max() > 0)
        violation.seen = shortened(flag->text.get());
    }
    throw Error(std::move(violations));
  }
}

void StateNumberFlags::add(Command& command) {
  for (const FieldInfo& row : state_fields) {
    if (!row.is_number || row.id == Field::zero_column_mask) continue;  // the mask also moves B
    auto& [field, flag] = flags_.emplace_back(row.id, Flag<std::string>{});
    command.add_option(dashed(row.name), flag, fmt::format("{} instead of the generated one", row.name));
  }
}

StateNumbers StateNumberFlags::numbers() const {
  StateNumbers numbers;
  for (const auto& [field, flag] : flags_) {
    if (!flag.empty()) numbers.emplace_back(field, require_word(dashed(info(field).name), flag));
  }
  return numbers;
}

}  // namespace bitmma::cli
