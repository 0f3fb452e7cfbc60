// SPDX-License-Identifier: MIT
// The types of PTX registers, variables and instructions, one row each.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "bitmma/core/table.hpp"

namespace bitmma::kernel {

enum class Type : uint8_t {
  // clang-format off
  pred, b8, b16, b32, b64, b128, u8, u16, u32, u64, s8, s16, s32, s64,
  f16, bf16, f16x2, bf16x2, f32, f32x2, f64, tf32,
  // clang-format on
};

enum class TypeClass : uint8_t { predicate, bits, unsigned_integer, signed_integer, floating };

struct TypeInfo {
  Type id;
  std::string_view name;
  int bits;
  TypeClass kind;
};

inline constexpr auto types = std::to_array<TypeInfo>({
    {Type::pred, "pred", 1, TypeClass::predicate},
    {Type::b8, "b8", 8, TypeClass::bits},
    {Type::b16, "b16", 16, TypeClass::bits},
    {Type::b32, "b32", 32, TypeClass::bits},
    {Type::b64, "b64", 64, TypeClass::bits},
    {Type::b128, "b128", 128, TypeClass::bits},
    {Type::u8, "u8", 8, TypeClass::unsigned_integer},
    {Type::u16, "u16", 16, TypeClass::unsigned_integer},
    {Type::u32, "u32", 32, TypeClass::unsigned_integer},
    {Type::u64, "u64", 64, TypeClass::unsigned_integer},
    {Type::s8, "s8", 8, TypeClass::signed_integer},
    {Type::s16, "s16", 16, TypeClass::signed_integer},
    {Type::s32, "s32", 32, TypeClass::signed_integer},
    {Type::s64, "s64", 64, TypeClass::signed_integer},
    {Type::f16, "f16", 16, TypeClass::floating},
    {Type::bf16, "bf16", 16, TypeClass::floating},
    {Type::f16x2, "f16x2", 32, TypeClass::floating},
    {Type::bf16x2, "bf16x2", 32, TypeClass::floating},
    {Type::f32, "f32", 32, TypeClass::floating},
    {Type::f32x2, "f32x2", 64, TypeClass::floating},
    {Type::f64, "f64", 64, TypeClass::floating},
    {Type::tf32, "tf32", 32, TypeClass::floating},
});
static_assert(are_in_enum_order(types));

constexpr const TypeInfo& info(Type type) { return types[static_cast<std::size_t>(type)]; }
constexpr int bytes_of(Type type) { return (info(type).bits + 7) / 8; }
constexpr bool is_signed(Type type) { return info(type).kind == TypeClass::signed_integer; }

constexpr std::optional<Type> type_named(std::string_view name) {
  for (const TypeInfo& row : types) {
    if (row.name == name) return row.id;
  }
  return std::nullopt;
}

/// A set of types, one bit each.
class TypeSet {
 public:
  constexpr TypeSet() = default;
  constexpr TypeSet(std::initializer_list<Type> of_types) {
    for (const Type type : of_types) bits_ |= uint32_t{1} << static_cast<int>(type);
  }
  constexpr bool contains(Type type) const { return (bits_ >> static_cast<int>(type) & 1) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr TypeSet operator|(TypeSet a, TypeSet b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  uint32_t bits_ = 0;
};

namespace type_sets {
using enum Type;
inline constexpr TypeSet integers{u16, s16, u32, s32, u64, s64}, wide_integers{u32, s32, u64, s64},
    signed_integers{s16, s32, s64}, bits_16_to_64{b16, b32, b64}, bits_32_and_64{b32, b64},
    floats{f16, bf16, f16x2, bf16x2, f32, f64}, sums_of_floats = floats | TypeSet{f32x2}, singles{f32, f64},
                                                scalars = bits_16_to_64 | integers | singles;
}  // namespace type_sets

enum class Space : uint8_t { generic, param, constant, global, shared, local };
inline constexpr std::array<std::string_view, 6> space_names{"generic", "param", "const", "global", "shared", "local"};
constexpr std::string_view print(Space space) { return space_names[static_cast<std::size_t>(space)]; }

}  // namespace bitmma::kernel
