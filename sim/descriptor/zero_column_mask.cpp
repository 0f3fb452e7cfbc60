// SPDX-License-Identifier: MIT
#include "bitmma/descriptor/zero_column_mask.hpp"

#include <fmt/format.h>

namespace bitmma {
namespace {

constexpr auto fields = std::to_array<ZeroColumnMaskField>({
    {{"start_count_0", 0, 8}, "columns of the pattern skipped before sub-mask 0"},
    {{"start_count_1", 8, 8}, "... sub-mask 1 (M = 64, 32)"},
    {{"start_count_2", 16, 8}, "... sub-mask 2 (M = 32)"},
    {{"start_count_3", 24, 8}, "... sub-mask 3 (M = 32)"},
    {{"first_span_0", 32, 1}, "1: the pattern of sub-mask 0 begins with zeroed columns"},
    {{"first_span_1", 33, 1}, "... of sub-mask 1"},
    {{"first_span_2", 34, 1}, "... of sub-mask 2"},
    {{"first_span_3", 35, 1}, "... of sub-mask 3"},
    {{"non_zero_mask", 39, 1}, "0: every column is used"},
    {{"skip_span", 40, 8}, "zeroed columns in a run, less one"},
    {{"use_span", 48, 8}, "used columns in a run, less one"},
    {{"column_shift", 56, 6}, "first column of the stored B that is used"},
});
static_assert(disjoint(fields, 64));

constexpr std::string_view mask_section = "PTX ISA 9.7.16.4.3, Table 45";

/// The member that holds a field.
template <typename Mask>
auto& member(Mask& mask, std::string_view field) {
  if (field.starts_with("start_count_")) return mask.start_count[static_cast<size_t>(field.back() - '0')];
  if (field.starts_with("first_span_")) return mask.first_span[static_cast<size_t>(field.back() - '0')];
  return field == "skip_span" ? mask.skip_span : field == "use_span" ? mask.use_span : mask.column_shift;
}

}  // namespace

std::span<const ZeroColumnMaskField> zero_column_mask_fields() { return fields; }

ZeroColumnMask decode_zero_column_mask(uint64_t word) {
  ZeroColumnMask mask;
  uint64_t reserved = word;
  for (const ZeroColumnMaskField& field : fields) {
    const auto value = static_cast<int>(extract(word, field.bits));
    reserved &= ~field.bits.mask();
    if (field.bits.name == "non_zero_mask") mask.non_zero_mask = value != 0;
    else member(mask, field.bits.name) = value;
  }
  if (reserved != 0) {
    throw Error({.field = "reserved bits of the zero-column mask",
                 .seen = fmt::format("{:#018x}", reserved),
                 .expected = "0",
                 .fix = "",
                 .source = std::string(mask_section)});
  }
  return mask;
}

uint64_t encode(const ZeroColumnMask& mask) {
  uint64_t word = 0;
  std::vector<Violation> violations;
  for (const ZeroColumnMaskField& field : fields) {
    const int value = field.bits.name == "non_zero_mask" ? int{mask.non_zero_mask} : member(mask, field.bits.name);
    if (value < 0 || static_cast<uint64_t>(value) > field.bits.largest()) {
      violations.push_back({.field = std::string(field.bits.name),
                            .seen = std::to_string(value),
                            .expected = fmt::format("0..{}", field.bits.largest()),
                            .fix = "",
                            .source = std::string(mask_section)});
    }
    word = insert(word, field.bits, static_cast<uint64_t>(value));
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return word;
}

std::vector<bool> zeroed_columns(const ZeroColumnMask& mask, int m, int n) {
  (void)encode(mask);  // refuses values that do not fit
  const int sub_masks = m >= 128 ? 1 : m == 64 ? 2 : 4, columns = n / sub_masks;
  if (n < 1 || n > 256 || n % sub_masks != 0) {
    throw Error({.field = "n",
                 .seen = std::to_string(n),
                 .expected = fmt::format("1..256, a multiple of the {} sub-masks of M = {}", sub_masks, m),
                 .fix = "",
                 .source = std::string(mask_section)});
  }
  std::vector<bool> zeroed(static_cast<size_t>(n));
  if (!mask.non_zero_mask) return zeroed;
  const int used = mask.use_span + 1, skipped = mask.skip_span + 1;
  for (int column = 0; column < n; ++column) {
    const auto sub = static_cast<size_t>(column / columns);
    const int position = (column % columns + mask.start_count[sub]) % (used + skipped);
    zeroed[static_cast<size_t>(column)] = mask.first_span[sub] ? position < skipped : position >= used;
  }
  return zeroed;
}

}  // namespace bitmma
