// The table of a family's fields: what each is called, what it means, and where the named value meets the member.
// make_instruction.cpp reads the tables; a family supplies its own in fields.cpp of its folder.
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
#include "bitmma/instruction/make_instruction.hpp"

namespace bitmma::family {

/// A field of struct T: its row, and the meeting point of the named value and the member.
template <typename T>
struct Field {
  std::string_view name = {};
  std::string_view meaning = {};
  FieldValue (*get)(const T&) = nullptr;
  void (*set)(T&, const FieldValue&) = nullptr;  // the value has the type that `get` gives, words are known
  std::vector<std::string> (*words)() = nullptr;
  bool is_format = false;
  bool (*applies)(const T&) = nullptr;  // nullptr: always. Where it does not, the field may not be given

  constexpr Field where(bool (*condition)(const T&)) const {
    Field row = *this;
    row.applies = condition;
    return row;
  }
};

template <typename Member>
struct StructOf;
template <typename T, typename Value>
struct StructOf<Value T::*> {
  using type = T;
};
template <auto member>
using Owner = typename StructOf<decltype(member)>::type;

template <auto member>
constexpr Field<Owner<member>> number(std::string_view name, std::string_view meaning) {
  using T = Owner<member>;
  return {.name = name,
          .meaning = meaning,
          .get = [](const T& one) -> FieldValue { return static_cast<int64_t>(one.*member); },
          .set =
              [](T& one, const FieldValue& value) {
                using Number = std::remove_reference_t<decltype(one.*member)>;
                constexpr int64_t least = std::numeric_limits<Number>::min(), most = std::numeric_limits<Number>::max();
                one.*member = static_cast<Number>(std::clamp(std::get<int64_t>(value), least, most));
              }};
}

template <auto member>
constexpr Field<Owner<member>> flag(std::string_view name, std::string_view meaning) {
  using T = Owner<member>;
  return {.name = name,
          .meaning = meaning,
          .get = [](const T& one) -> FieldValue { return one.*member; },
          .set = [](T& one, const FieldValue& value) { one.*member = std::get<bool>(value); }};
}

template <auto member>
constexpr Field<Owner<member>> format(std::string_view name, std::string_view meaning) {
  using T = Owner<member>;
  return {.name = name,
          .meaning = meaning,
          .get = [](const T& one) -> FieldValue { return std::string(info(one.*member).name); },
          .set = [](T& one, const FieldValue& value) { one.*member = *format_named(std::get<std::string>(value)); },
          .words = [] { return row_names(formats); },
          .is_format = true};
}

/// A member that is one of an enumeration's values, or, with optional, none of them: `names[i]` is the value i, or i -
/// 1 behind a first empty name.
template <auto member, const auto& names>
constexpr Field<Owner<member>> word(std::string_view name, std::string_view meaning) {
  using T = Owner<member>;
  return {.name = name,
          .meaning = meaning,
          .get = [](const T& one) -> FieldValue {
            using Value = std::remove_cvref_t<decltype(one.*member)>;
            if constexpr (requires { typename Value::value_type; }) {
              const auto& is = one.*member;
              return std::string(names[is ? 1 + static_cast<size_t>(*is) : 0]);
            } else {
              return std::string(names[static_cast<size_t>(one.*member)]);
            }
          },
          .set =
              [](T& one, const FieldValue& value) {
                const auto place =
                    std::ranges::find(names, std::string_view(std::get<std::string>(value))) - names.begin();
                using Value = std::remove_cvref_t<decltype(one.*member)>;
                if constexpr (requires { typename Value::value_type; }) {
                  if (place == 0) one.*member = std::nullopt;
                  else one.*member = static_cast<typename Value::value_type>(place - 1);
                } else {
                  one.*member = static_cast<Value>(place);
                }
              },
          .words = [] { return std::vector<std::string>(names.begin(), names.end()); }};
}

/// Which fields are given.
using IsGiven = std::function<bool(std::string_view)>;

/// The fields of the struct, in its order.
std::span<const Field<Wgmma>> instruction_fields(const Wgmma&);
std::span<const Field<MmaSync>> instruction_fields(const MmaSync&);
std::span<const Field<Tcgen05Mma>> instruction_fields(const Tcgen05Mma&);
std::span<const Field<TmemMove>> instruction_fields(const TmemMove&);

/// Defaults of the other fields, for the values that are given. Members that follow from others are left to the
/// struct's own initialisers.
Wgmma defaults_for(const Wgmma& given, const IsGiven& is_given);
MmaSync defaults_for(const MmaSync& given, const IsGiven& is_given);
Tcgen05Mma defaults_for(const Tcgen05Mma& given, const IsGiven& is_given);
TmemMove defaults_for(const TmemMove& given, const IsGiven& is_given);

// Words of several families.
inline constexpr std::array<std::string_view, 3> bit_operations{"", "and.popc", "xor.popc"};
inline constexpr std::array<std::string_view, 6> scale_vecs{"", "1X", "2X", "4X", "block16", "block32"};
static_assert(static_cast<int>(OperandSource::tmem) + 1 == operand_sources.size());
static_assert(static_cast<int>(BitOperation::xor_popc) + 1 == bit_operations.size());
static_assert(static_cast<int>(ScaleVec::block32) + 1 == scale_vecs.size());

}  // namespace bitmma::family
