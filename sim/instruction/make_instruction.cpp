// SPDX-License-Identifier: MIT
#include "bitmma/instruction/make_instruction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"
#include "family.hpp"
#include "field.hpp"

namespace bitmma {
namespace {

bool is_given(std::span<const NamedValue> values, std::string_view name) {
  return std::ranges::find(values, name, &NamedValue::name) != values.end();
}

/// Throws Error for every value that is illegal for its field.
template <typename T>
void require_known(std::span<const family::NamedField<T>> table, Family family, std::span<const NamedValue> values) {
  std::vector<Violation> wrong;
  for (size_t i = 0; i < values.size(); ++i) {
    const NamedValue& value = values[i];
    const auto seen = [&] { return shortened(printable(print(value.value))); };
    const auto field = std::ranges::find(table, value.name, &family::NamedField<T>::name);
    if (field == table.end()) {
      wrong.push_back({.code = ViolationCode::unknown_name,
                       .field = "field",
                       .seen = shortened(printable(value.name)),
                       .legal = row_names(table),
                       .fix = fmt::format("the fields of {}", print(family))});
      continue;
    }
    if (is_given(values.first(i), value.name))
      wrong.push_back(
          {.code = ViolationCode::contradiction, .field = value.name, .seen = "given twice", .expected = "one value"});
    if (const size_t type = field->get(T{}).index(); type != value.value.index()) {
      constexpr std::array<std::string_view, 3> types{"true or false", "a number", "a word"};
      wrong.push_back({.code = ViolationCode::wrong_type,
                       .field = value.name,
                       .seen = seen(),
                       .expected = std::string(types[type])});
    } else if (field->words) {
      std::vector<std::string> words = field->words();
      if (std::ranges::find(words, std::get<std::string>(value.value)) != words.end()) continue;
      std::erase(words, "");
      wrong.push_back(
          {.code = ViolationCode::unknown_name, .field = value.name, .seen = seen(), .legal = std::move(words)});
    }
  }
  if (!wrong.empty()) throw Error(std::move(wrong));
}

/// Sets the given fields, whose values are already checked.
template <typename T>
void set_given(T& t, std::span<const NamedValue> values) {
  for (const NamedValue& named : values)
    std::ranges::find(family::instruction_fields(t), named.name, &family::NamedField<T>::name)->set(t, named.value);
}

template <typename T>
bool is_used(const family::NamedField<T>& field, const T& t) {
  for (const auto condition : {field.applies, field.has_use, field.has_immediate})
    if (condition && !condition(t)) return false;
  return true;
}

/// For an illegal value: the legal values by the rules of `t`, which has the nearest value, or the range of the
/// field.
template <typename T>
Violation beyond(const family::NamedField<T>& field, const T& t, const NamedValue& named) {
  const Instruction instruction(t);
  for (Violation& violation : violations_of(instruction, default_target(instruction))) {
    if (violation.field != named.name) continue;
    violation.seen = print(named.value);
    return violation;
  }
  Violation wrong{.field = named.name, .seen = print(named.value)};
  if (!std::holds_alternative<int64_t>(named.value)) {
    wrong.expected = "a value that " + print(instruction) + " may have";
    return wrong;
  }
  T least = t, most = t;
  field.set(least, std::numeric_limits<int64_t>::min());
  field.set(most, std::numeric_limits<int64_t>::max());
  wrong.expected = fmt::format("{} to {}", print(field.get(least)), print(field.get(most)));
  return wrong;
}

/// Throws Error for values that `t` did not accept or does not use: every such value if only some fields are given,
/// and values other than the default if all fields may be given.
template <typename T>
void require_taken(const T& t, std::span<const NamedValue> values, bool is_asked_for) {
  const std::span<const family::NamedField<T>> table = family::instruction_fields(t);
  std::vector<Violation> wrong;
  for (const NamedValue& named : values) {
    const auto& field = *std::ranges::find(table, named.name, &family::NamedField<T>::name);
    const bool is_refused =
        is_asked_for ? !is_used(field, t) : field.applies && !field.applies(t) && named.value != field.get(T{});
    if (is_refused)
      wrong.push_back({.code = ViolationCode::no_effect,
                       .field = named.name,
                       .seen = print(named.value),
                       .expected = "absent",
                       .fix = fmt::format("{} has none ({})", print(Instruction(t)), field.meaning)});
    else if (field.get(t) != named.value)  // a number out of range, or a shape of another kind
      wrong.push_back(beyond(field, t, named));
  }
  if (!wrong.empty()) throw Error(std::move(wrong));
}

template <typename T>
T struct_of(Family family, std::span<const NamedValue> values) {
  const std::span<const family::NamedField<T>> table = family::instruction_fields(T{});
  require_known(table, family, values);
  T fields;
  set_given(fields, values);
  T t = family::defaults_for(fields, [&](std::string_view name) { return is_given(values, name); });
  set_given(t, values);
  require_taken(t, values, false);
  return t;
}

/// Calls body with a default value of the family's struct.
template <typename Body>
auto with_struct(Family family, const Body& body) {
  switch (family) {
    case Family::wgmma: return body(Wgmma{});
    case Family::mma_sync: return body(MmaSync{});
    case Family::tcgen05: return body(Tcgen05Mma{});
    case Family::tmem_move: return body(TmemMove{});
  }
  throw Error({.field = "family", .seen = fmt::format("{}", static_cast<int>(family)), .expected = "0..3"});
}

}  // namespace

std::string print(const FieldValue& value) {
  if (const bool* is = std::get_if<bool>(&value)) return *is ? "true" : "false";
  if (const int64_t* is = std::get_if<int64_t>(&value)) return std::to_string(*is);
  return std::get<std::string>(value);
}

const std::vector<InstructionField>& instruction_fields(Family family) {
  static const std::array<std::vector<InstructionField>, 4> all = [] {
    std::array<std::vector<InstructionField>, 4> by_family;
    for (size_t i = 0; i < by_family.size(); ++i) {
      with_struct(static_cast<Family>(i), [&](const auto& alternative) {
        const auto fields = struct_of<std::remove_cvref_t<decltype(alternative)>>(static_cast<Family>(i), {});
        for (const auto& row : family::instruction_fields(alternative)) {
          by_family[i].push_back({.name = row.name,
                                  .meaning = row.meaning,
                                  .default_value = row.get(fields),
                                  .words = row.words ? row.words() : std::vector<std::string>{},
                                  .is_format = row.is_format,
                                  .in_descriptor = row.in_descriptor,
                                  .immediate = row.immediate,
                                  .also = row.also});
        }
      });
    }
    return by_family;
  }();
  if (static_cast<size_t>(family) < all.size()) return all[static_cast<size_t>(family)];
  throw Error({.field = "family", .seen = fmt::format("{}", static_cast<int>(family)), .expected = "0..3"});
}

Instruction instruction_of(Family family, std::span<const NamedValue> values) {
  return with_struct(family, [&](const auto& alternative) -> Instruction {
    return struct_of<std::remove_cvref_t<decltype(alternative)>>(family, values);
  });
}

Instruction make_instruction(Family family, std::span<const NamedValue> fields) {
  const Instruction instruction = instruction_of(family, fields);
  require_legal(instruction, default_target(instruction));
  return instruction;
}

std::vector<NamedValue> named_fields(const Instruction& instruction) {
  return family::dispatch(
      [](const auto& alternative) {
        std::vector<NamedValue> values;
        for (const auto& row : family::instruction_fields(alternative))
          values.push_back({std::string(row.name), row.get(alternative)});
        return values;
      },
      instruction);
}

Instruction with_fields(const Instruction& instruction, std::span<const NamedValue> fields) {
  const Family family = family_of(instruction);
  // The explicit fields: those whose value does not follow from others.
  std::vector<NamedValue> explicit_fields;
  for (bool is_settled = false; !is_settled;) {
    const std::vector<NamedValue> is = named_fields(instruction),
                                  follows = named_fields(instruction_of(family, explicit_fields));
    const size_t before = explicit_fields.size();
    for (size_t i = 0; i < is.size() && explicit_fields.size() == before; ++i) {
      if (!is_given(explicit_fields, is[i].name) && is[i] != follows[i]) explicit_fields.push_back(is[i]);
    }
    is_settled = explicit_fields.size() == before;
  }
  for (const NamedValue& value : fields) {
    std::erase_if(explicit_fields, [&](const NamedValue& is) { return is.name == value.name; });
  }
  explicit_fields.insert(explicit_fields.end(), fields.begin(), fields.end());
  return instruction_of(family, explicit_fields);
}

Instruction with_used_fields(const Instruction& instruction, std::span<const NamedValue> fields) {
  family::dispatch(
      [&](auto alternative) {
        require_known(family::instruction_fields(alternative), family_of(instruction), fields);
        set_given(alternative, fields);
        require_taken(alternative, fields, true);
      },
      instruction);
  return with_fields(instruction, fields);
}

}  // namespace bitmma
