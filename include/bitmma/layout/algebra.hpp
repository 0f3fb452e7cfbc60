// SPDX-License-Identifier: MIT
// CuTe's layout algebra on layouts given as text.
//
//   composition      (6,2):(8,2)  with  (4,3):(3,1)          ((2,2),3):((24,2),8)
//   complement       4:2          with  24                   (2,3):(1,8)
//   logical_divide   (4,2,3):(2,1,8)  with  4:2              ((2,2),(2,3)):((4,1),(2,8))
//   blocked_product  (2,5):(5,1)  with  (3,4):(1,3)          ((2,3),(5,4)):((5,10),(1,30))
//
// A layout maps an index to an offset: the digits of the index, the first mode fastest, times the strides. Operations
// return, mode by mode, the layout that CuTe 4.7 returns for static integers. Each result is checked against its
// definition, composition(A, B)(i) = A(B(i)); if CuTe's rule gives another layout, or if CuTe does not compile, the
// operation throws Error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// A mode: extent and stride, or several modes.
struct NestedMode {
  int64_t extent = 1, stride = 0;  // only if `modes` is empty
  std::vector<NestedMode> modes = {};

  bool operator==(const NestedMode&) const = default;
};

/// Swizzle<bits, base, shift> on offsets. A negative shift moves bits to the left.
struct OffsetSwizzle {
  int bits = 0, base = 0, shift = 0;

  int64_t apply(int64_t offset) const;
  bool operator==(const OffsetSwizzle&) const = default;
};

/// A layout, or a CuTe tiler, which may also be a tuple of tilers for the modes of a layout, or `_`.
struct [[nodiscard]] AlgebraLayout {
  enum class Kind : uint8_t { layout, by_mode, unchanged } kind = Kind::layout;
  NestedMode mode = {};                                 // for a layout
  std::optional<OffsetSwizzle> swizzle = std::nullopt;  // for a layout
  std::vector<AlgebraLayout> by_mode = {};

  bool operator==(const AlgebraLayout&) const = default;
  /// The number of indices; and one more than the largest offset before the swizzle.
  int64_t size() const;
  int64_t cosize() const;
  /// The offset of an index. The last mode also accepts indices beyond its extent.
  int64_t operator()(int64_t index) const;
};

/// Parses "[Swizzle<B,M,S> o [0 o]] SHAPE[:STRIDE]", CuTe's printed forms, "<LAYOUT, LAYOUT>" and "_". A shape without
/// strides is compact, the first mode fastest; as a tiler, a tuple of numbers has one number per mode. Swizzles act on
/// offsets, whatever their unit. Throws Error with the position of the mistake, and for layouts of more than 2^20
/// indices.
AlgebraLayout parse_algebra_layout(std::string_view text, bool is_tiler = false);
/// "((2,2),3):((24,2),8)"; with a swizzle "Swizzle<3,3,3> o _0 o ...".
std::string print(const AlgebraLayout& layout);

struct LayoutOperation {
  enum class Second : uint8_t { none, layout, tiler, extent, profile } second = Second::none;
  std::string_view name = {};
  bool second_is_optional = false;
  std::string_view meaning = {};
};

/// All operations, by their CuTe names.
std::span<const LayoutOperation> layout_operations();
/// Throws Error, which suggests a name, if there is no operation of this name.
const LayoutOperation& layout_operation_named(std::string_view name);

/// Applies `operation` to `first`. Throws Error if the second operand is missing or superfluous, if CuTe refuses, or
/// if the result is not a layout.
AlgebraLayout apply(const LayoutOperation& operation, const AlgebraLayout& first,
                    const std::optional<AlgebraLayout>& second = std::nullopt);
/// The same on text.
AlgebraLayout apply_layout_operation(std::string_view operation, std::string_view first,
                                     std::optional<std::string_view> second = std::nullopt);

}  // namespace bitmma
