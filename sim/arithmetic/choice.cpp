#include "bitmma/arithmetic/choice.hpp"

#include <algorithm>

namespace bitmma {
namespace {

consteval bool choices_are_in_enum_order() {
  for (size_t i = 0; i < choice_table.size(); ++i) {
    if (static_cast<size_t>(choice_table[i].id) != i) return false;
  }
  return true;
}
static_assert(choices_are_in_enum_order());

}  // namespace

std::optional<Choice> choice_named(std::string_view name) {
  const auto row = std::ranges::find(choice_table, name, &ChoiceInfo::name);
  if (row == choice_table.end()) return std::nullopt;
  return row->id;
}

}  // namespace bitmma
