// SPDX-License-Identifier: MIT
// Reads a D that was recorded in another type than the instruction's own.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "bitmma/core/error.hpp"
#include "bitmma/formats/round.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

/// The floating-point format of a dtype; nothing if the dtype does not hold floating-point numbers.
std::optional<Format> floats_of(std::string_view dtype) {
  constexpr std::array rows{Format::f16, Format::bf16, Format::f32, Format::f64};
  const auto row = std::ranges::find(rows, dtype, [](Format format) { return info(format).dtype; });
  return row == rows.end() ? std::nullopt : std::optional(*row);
}

/// The code of the same number in `to`, or nothing if `to` does not have this number.
std::optional<uint64_t> same_number(Format from, uint64_t code, Format to) {
  const uint64_t near = convert(from, code, to, Rounding::toward_zero, Overflow::infinity);
  // The bits of a NaN need not agree between the types: any NaN will do.
  const bool is_same = decode(from, code).number == NumberClass::nan
                           ? decode(to, near).number == NumberClass::nan
                           : convert(to, near, from, Rounding::toward_zero, Overflow::infinity) == code;
  return is_same ? std::optional(near) : std::nullopt;
}

uint64_t element(std::span<const uint8_t> bytes, size_t index, size_t size) {
  uint64_t code = 0;
  std::memcpy(&code, bytes.data() + index * size, size);
  return code;
}

}  // namespace

std::optional<Tensor> in_type_of_d(const Tensor& d, Format format, const std::string& path) {
  const FormatInfo& row = info(format);
  if (is_one_of(d.dtype, dtypes_of(format))) return std::nullopt;
  const bool are_long = format == Format::s32 && d.dtype == "I64";
  const std::optional<Format> from = floats_of(d.dtype);
  const bool can_be_read = are_long || (from && row.kind == NumberKind::floating);
  const auto refuse = [&](std::string seen) {
    throw Error({.field = fmt::format("{}: tensor d", path),
                 .seen = std::move(seen),
                 .expected = fmt::format("{} ({}), the type that the instruction writes{}", row.dtype, row.name,
                                         can_be_read ? ", or numbers that are exact in that type" : ""),
                 .fix = fmt::format(
                     "save D as the instruction wrote it: bits that were lost in another type cannot be compared"),
                 .key = "d",
                 .file = path});
  };
  if (!can_be_read) refuse(d.dtype);
  const auto size = static_cast<size_t>(dtype_bytes(d.dtype)), to_size = static_cast<size_t>(dtype_bytes(row.dtype));
  const TensorBytes held = d.bytes.in_memory();
  const std::span<const uint8_t> bytes = held.view();
  const size_t count = bytes.size() / size;
  std::vector<uint8_t> codes(count * to_size);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t code = element(bytes, i, size);
    const auto integer = static_cast<int64_t>(code);
    const bool fits = integer >= std::numeric_limits<int32_t>::min() && integer <= std::numeric_limits<int32_t>::max();
    const std::optional<uint64_t> same = !are_long ? same_number(*from, code, format)
                                         : fits    ? std::optional(code)
                                                   : std::nullopt;
    if (!same)
      refuse(fmt::format("{}: {} in element {}", d.dtype, are_long ? std::to_string(integer) : print_value(*from, code),
                         i));
    std::memcpy(codes.data() + i * to_size, &*same, to_size);
  }
  return Tensor::from_bytes(d.name, std::string(row.dtype), d.shape, std::move(codes));
}

}  // namespace bitmma
