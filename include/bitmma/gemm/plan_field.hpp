// SPDX-License-Identifier: MIT
// The rows that describe the fields of a plan, beside their structs in plan.hpp: JSON is read, checked, printed and
// documented by them, and print_plan has its phrases from them.
//
//   plan_field(&TensorCoreChain::k_step, {.name = "k_step", .min = 1, .max = 1 << 30, .phrase = "steps of {}"})
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace bitmma {

struct PlanFieldText {
  std::string_view name = {};          // the key in JSON
  int64_t min = 0, max = 0;            // of a number; its default may lie outside
  std::string_view no = {}, yes = {};  // how JSON spells a flag that is not false and true
  std::string_view phrase = {};        // of print_plan for a value that is not the default: "steps of {}"
  bool is_always_printed = false;      // in JSON; otherwise only if it is not the default
  bool is_of_call = false;             // varies from call to call: print_family has no phrase for it
  std::string_view values = {};        // for pages, where the type does not tell them
  std::string_view by_default = {};    // for pages, where it is not a value
  std::string_view meaning = {};
  std::string_view evidence = {};
};

/// A member. A struct that has rows itself is an object of JSON, a vector of them an array of objects.
template <typename Owner, typename Value>
struct PlanField {
  PlanFieldText text = {};
  Value Owner::*member = nullptr;
  bool (*applies)(const Owner&) = nullptr;  // nullptr: always. If false, the field must be absent
};
template <typename Owner, typename Value>
constexpr PlanField<Owner, Value> plan_field(Value Owner::*member, const PlanFieldText& text,
                                             std::type_identity_t<bool (*)(const Owner&)> applies = nullptr) {
  return {.text = text, .member = member, .applies = applies};
}

/// A field whose value in JSON is not that of one member: sim/gemm/plan_fields.cpp has its functions.
template <typename Owner>
struct SpecialPlanField {
  PlanFieldText text = {};
};

/// Members of the owner itself that JSON has in an object.
template <typename Owner, typename... Rows>
struct PlanFieldGroup {
  PlanFieldText text = {};
  std::tuple<Rows...> rows = {};
};
template <typename Owner, typename... Rows>
constexpr PlanFieldGroup<Owner, Rows...> plan_field_group(const PlanFieldText& text, const std::tuple<Rows...>& rows) {
  return {.text = text, .rows = rows};
}

/// An alternative of a variant: an object, or without a name its fields beside those of the owner.
template <typename Owner, typename Variant, typename Alternative>
struct PlanAlternative {
  PlanFieldText text = {};
  Variant Owner::*member = nullptr;
};
template <typename Alternative, typename Owner, typename Variant>
constexpr PlanAlternative<Owner, Variant, Alternative> plan_alternative(Variant Owner::*member,
                                                                        const PlanFieldText& text = {}) {
  return {.text = text, .member = member};
}

}  // namespace bitmma
