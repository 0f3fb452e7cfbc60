// SPDX-License-Identifier: MIT
// The table of a family's fields: for each its name, its meaning, and the conversion between named value and member.
// make_instruction.cpp reads the tables; each family has its own in fields.cpp of its folder.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "bitmma/core/table.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/make_instruction.hpp"

namespace bitmma::family {

/// A field of struct T: its row, and the conversion between named value and member.
template <typename T>
struct NamedField {
  std::string_view name = {};
  std::string_view meaning = {};
  FieldValue (*get)(const T&) = nullptr;
  void (*set)(T&, const FieldValue&) = nullptr;  // the value has the type that `get` returns; words are already checked
  std::vector<std::string> (*words)() = nullptr;
  bool is_format = false;
  bool (*applies)(const T&) = nullptr;        // nullptr: always. If false, the field must not be given
  bool in_descriptor = false;                 // part of the instruction descriptor, not of the mnemonic
  std::string_view also = {};                 // an alternative name for flags
  ImmediateInfo immediate = {};               // the field as a separate number; without a name there is none
  bool (*has_immediate)(const T&) = nullptr;  // nullptr: always
  bool (*has_use)(const T&) = nullptr;        // nullptr: always. If false, a flag must not give it

  constexpr NamedField where(bool (*condition)(const T&)) const {
    NamedField row = *this;
    row.applies = condition;
    return row;
  }
  constexpr NamedField used_by(bool (*condition)(const T&)) const {
    NamedField row = *this;
    row.has_use = condition;
    return row;
  }
  constexpr NamedField among(std::vector<std::string> (*names)()) const {
    NamedField row = *this;
    row.words = names;
    return row;
  }
  constexpr NamedField described() const {
    NamedField row = *this;
    row.in_descriptor = true;
    return row;
  }
  constexpr NamedField called(std::string_view name_of_flag) const {
    NamedField row = *this;
    row.also = name_of_flag;
    return row;
  }
  constexpr NamedField as_immediate(const ImmediateInfo& info, bool (*condition)(const T&) = nullptr) const {
    NamedField row = *this;
    row.immediate = info, row.has_immediate = condition;
    return row;
  }
};

/// A flag as an immediate with values 1 and -1 (negate), or 0 and 1.
constexpr ImmediateInfo sign(std::string_view name) {
  return {.name = name, .first = -1, .last = 1, .default_value = 1, .legal = "1 or -1"};
}
constexpr ImmediateInfo bit(std::string_view name, int64_t default_value = 0) {
  return {.name = name, .default_value = default_value, .legal = "0 or 1"};
}
/// A two-bit number.
constexpr ImmediateInfo two_bits(std::string_view name, std::string_view absent = {}) {
  return {.name = name, .last = 3, .legal = "0..3", .absent = absent};
}

/// Converts between the number of an immediate and the value of its field.
template <typename T>
int64_t number_in(const NamedField<T>& row, const T& t) {
  const FieldValue value = row.get(t);
  if (const bool* is = std::get_if<bool>(&value)) return row.immediate.first == -1 ? (*is ? -1 : 1) : int64_t{*is};
  return std::get<int64_t>(value);
}
inline FieldValue value_of(const FieldValue& like, const ImmediateInfo& info, int64_t number) {
  if (std::holds_alternative<bool>(like)) return info.first == -1 ? number == -1 : number != 0;
  return number;
}

template <typename Member>
struct StructOf;
template <typename T, typename Value>
struct StructOf<Value T::*> {
  using type = T;
};
template <auto member>
using Owner = typename StructOf<decltype(member)>::type;

template <auto member>
constexpr NamedField<Owner<member>> number(std::string_view name, std::string_view meaning) {
  using T = Owner<member>;
  return {.name = name,
          .meaning = meaning,
          .get = [](const T& t) -> FieldValue { return static_cast<int64_t>(t.*member); },
          .set =
              [](T& t, const FieldValue& value) {
                using Number = std::remove_reference_t<decltype(t.*member)>;
                constexpr int64_t least = std::numeric_limits<Number>::min(), most = std::numeric_limits<Number>::max();
                t.*member = static_cast<Number>(std::clamp(std::get<int64_t>(value), least, most));
              }};
}

template <auto member>
constexpr NamedField<Owner<member>> flag(std::string_view name, std::string_view meaning) {
  using T = Owner<member>;
  return {.name = name,
          .meaning = meaning,
          .get = [](const T& t) -> FieldValue { return t.*member; },
          .set = [](T& t, const FieldValue& value) { t.*member = std::get<bool>(value); }};
}

template <auto member>
constexpr NamedField<Owner<member>> format(std::string_view name, std::string_view meaning) {
  using T = Owner<member>;
  return {.name = name,
          .meaning = meaning,
          .get = [](const T& t) -> FieldValue { return std::string(info(t.*member).name); },
          .set = [](T& t, const FieldValue& value) { t.*member = *format_named(std::get<std::string>(value)); },
          .words = [] { return row_names(formats); },
          .is_format = true};
}

/// A member with the values of an enumeration, or with `optional` possibly none: `names[i]` is value i, or i - 1 if the
/// first name is empty.
template <auto member, const auto& names>
constexpr NamedField<Owner<member>> word(std::string_view name, std::string_view meaning) {
  using T = Owner<member>;
  return {.name = name,
          .meaning = meaning,
          .get = [](const T& t) -> FieldValue {
            using Value = std::remove_cvref_t<decltype(t.*member)>;
            if constexpr (requires { typename Value::value_type; }) {
              const auto& is = t.*member;
              return std::string(names[is ? 1 + static_cast<size_t>(*is) : 0]);
            } else {
              return std::string(names[static_cast<size_t>(t.*member)]);
            }
          },
          .set =
              [](T& t, const FieldValue& value) {
                const auto place =
                    std::ranges::find(names, std::string_view(std::get<std::string>(value))) - names.begin();
                using Value = std::remove_cvref_t<decltype(t.*member)>;
                if constexpr (requires { typename Value::value_type; }) {
                  if (place == 0) t.*member = std::nullopt;
                  else t.*member = static_cast<typename Value::value_type>(place - 1);
                } else {
                  t.*member = static_cast<Value>(place);
                }
              },
          .words = [] { return std::vector<std::string>(names.begin(), names.end()); }};
}

/// Tests whether a field is given.
using IsGiven = std::function<bool(std::string_view)>;

/// The fields of the struct, in its order.
std::span<const NamedField<Wgmma>> instruction_fields(const Wgmma&);
std::span<const NamedField<MmaSync>> instruction_fields(const MmaSync&);
std::span<const NamedField<Tcgen05Mma>> instruction_fields(const Tcgen05Mma&);
std::span<const NamedField<TmemMove>> instruction_fields(const TmemMove&);

/// The instruction descriptor as a number, for families that have one: it sets many fields at once.
template <typename T>
std::span<const NamedField<T>> descriptor_field(const T&) {
  return {};
}
template <>
std::span<const NamedField<Tcgen05Mma>> descriptor_field(const Tcgen05Mma&);

/// Defaults of the other fields for the given values. Members that follow from others keep the struct's own
/// initialisers.
Wgmma defaults_for(const Wgmma& fields, const IsGiven& is_given);
MmaSync defaults_for(const MmaSync& fields, const IsGiven& is_given);
Tcgen05Mma defaults_for(const Tcgen05Mma& fields, const IsGiven& is_given);
TmemMove defaults_for(const TmemMove& fields, const IsGiven& is_given);

// Words shared by several families.
inline std::vector<std::string> scale_types() { return {"ue8m0", "ue4m3", "ue5m3"}; }
inline constexpr std::array<std::string_view, 3> bit_operations{"", "and.popc", "xor.popc"};
inline constexpr std::array<std::string_view, 6> scale_vecs{"", "1X", "2X", "4X", "block16", "block32"};
static_assert(static_cast<int>(OperandSource::tmem) + 1 == operand_sources.size());
static_assert(static_cast<int>(BitOperation::xor_popc) + 1 == bit_operations.size());
static_assert(static_cast<int>(ScaleVec::block32) + 1 == scale_vecs.size());

}  // namespace bitmma::family
