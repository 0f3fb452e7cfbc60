// SPDX-License-Identifier: MIT
#include "bitmma/instruction/immediates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"
#include "family.hpp"
#include "field.hpp"

namespace bitmma {
namespace {

/// Calls body(value, row) for every immediate field of the instruction's family.
template <typename AnyInstruction, typename Body>
void for_each_row(AnyInstruction& instruction, const Body& body) {
  family::dispatch(
      [&](auto& alternative) {
        for (const auto& table : {family::descriptor_field(alternative), family::instruction_fields(alternative)}) {
          for (const auto& row : table) {
            if (!row.immediate.name.empty()) body(alternative, row);
          }
        }
      },
      instruction);
}

}  // namespace

std::vector<ImmediateInfo> immediates_of(const Instruction& instruction) {
  std::vector<ImmediateInfo> immediates;
  for_each_row(instruction, [&](const auto& alternative, const auto& row) {
    if (!row.has_immediate || row.has_immediate(alternative)) immediates.push_back(row.immediate);
  });
  return immediates;
}

std::vector<ImmediateInfo> all_immediates() {
  std::vector<ImmediateInfo> all;
  const Instruction of_each_family[]{Wgmma{}, MmaSync{}, Tcgen05Mma{}, TmemMove{}};
  static_assert(std::size(of_each_family) == std::variant_size_v<Instruction>);
  for (const Instruction& instruction : of_each_family) {
    for_each_row(instruction, [&](const auto&, const auto& row) {
      if (std::ranges::find(all, row.immediate.name, &ImmediateInfo::name) == all.end()) all.push_back(row.immediate);
    });
  }
  return all;
}

int64_t immediate_of(const Instruction& instruction, std::string_view name) {
  std::optional<int64_t> value;
  for_each_row(instruction, [&](const auto& alternative, const auto& row) {
    if (row.immediate.name == name) value = family::number_in(row, alternative);
  });
  if (value) return *value;
  const std::vector<ImmediateInfo> all = all_immediates();
  const auto row = std::ranges::find(all, name, &ImmediateInfo::name);
  return row == all.end() ? 0 : row->default_value;
}

Instruction with_immediate(const Instruction& instruction, std::string_view name, int64_t value) {
  Instruction changed = instruction;
  bool known = false;
  for_each_row(changed, [&](auto& alternative, const auto& row) {
    if (row.immediate.name != name || (row.has_immediate && !row.has_immediate(alternative))) return;
    known = true;
    const bool between = row.immediate.first == -1 && value == 0;  // for 1 or -1
    if (value < row.immediate.first || value > row.immediate.last || between) {
      throw Error(
          {.field = std::string(name), .seen = std::to_string(value), .expected = std::string(row.immediate.legal)});
    }
    row.set(alternative, family::value_of(row.get(alternative), row.immediate, value));
  });
  if (known) return changed;
  const std::vector<ImmediateInfo> all = all_immediates();
  const auto row = std::ranges::find(all, name, &ImmediateInfo::name);
  if (row == all.end()) {
    std::vector<std::string_view> names;
    for (const ImmediateInfo& immediate : immediates_of(instruction)) names.push_back(immediate.name);
    constexpr auto shapes_and_types = std::to_array<std::string_view>({"m", "n", "k", "a", "b", "c", "d"});
    const bool is_shape = std::ranges::find(shapes_and_types, name) != shapes_and_types.end();
    throw Error(
        {.code = ViolationCode::unknown_name,
         .field = "immediate",
         .seen = shortened(name),
         .expected =
             names.empty() ? "absent" : fmt::format("{}, which {} has", fmt::join(names, ", "), print(instruction)),
         .fix = is_shape ? "functions that make an instruction take its shape and types: tcgen05(m=128, ...)" : ""});
  }
  if (value == row->default_value) return changed;
  throw Error({.code = ViolationCode::no_effect,
               .field = std::string(name),
               .seen = std::to_string(value),
               .expected = row->absent.empty() ? std::to_string(row->default_value) : std::string(row->absent),
               .fix = print(instruction) + " has no such immediate"});
}

bool has_instruction_descriptor(const Instruction& instruction) {
  const std::vector<ImmediateInfo> immediates = immediates_of(instruction);
  return std::ranges::find(immediates, "idesc", &ImmediateInfo::name) != immediates.end();
}

}  // namespace bitmma
