// SPDX-License-Identifier: MIT
#include "bitmma/descriptor/smem_descriptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bitmma/descriptor/descriptor_meaning.hpp"

namespace bitmma {
namespace {

using Unit = DescriptorField::Unit;

constexpr std::string_view lut_k_segment = "lut_k_segment";

constexpr auto fields_sm_90a = std::to_array<DescriptorField>({
    {.bits = {"start_address", 0, 14}, .unit = Unit::bytes_16, .meaning = "first byte of the matrix in shared memory"},
    {.bits = {"leading_dim_byte_offset", 16, 14}, .unit = Unit::bytes_16, .meaning = "LBO"},
    {.bits = {"stride_dim_byte_offset", 32, 14},
     .unit = Unit::bytes_16,
     .meaning = "SBO, between groups of 8 rows in K-major"},
    {.bits = {"base_offset", 49, 3}, .meaning = "row phase of the first row of the swizzle pattern"},
    {.bits = {"swizzle", 62, 2}, .meaning = "0 none, 1 128B, 2 64B, 3 32B"},
});
static_assert(disjoint(fields_sm_90a, 64));

constexpr auto fields_sm_100a = std::to_array<DescriptorField>({
    {.bits = {"start_address", 0, 14}, .unit = Unit::bytes_16, .meaning = "first byte of the matrix in shared memory"},
    {.bits = {"leading_dim_byte_offset", 16, 14}, .unit = Unit::bytes_16, .meaning = "LBO, or an address (mode 1)"},
    {.bits = {"stride_dim_byte_offset", 32, 14},
     .unit = Unit::bytes_16,
     .meaning = "SBO, between groups of 8 rows in K-major"},
    {.bits = {"fixed_001", 46, 3}, .meaning = "must be 0b001", .fixed = 1},
    {.bits = {"base_offset", 49, 3}, .meaning = "row phase of the first row of the swizzle pattern"},
    {.bits = {"leading_dim_mode", 52, 1}, .meaning = "0 byte offset, 1 absolute address (sm_103a)"},
    {.bits = {"fixed_0", 53, 8}, .meaning = "must be 0", .fixed = 0},
    {.bits = {"swizzle", 61, 3}, .meaning = "0 none, 1 128B with 32B atoms, 2 128B, 4 64B, 6 32B"},
});
static_assert(disjoint(fields_sm_100a, 64));

/// The same with one more bit in the addresses: 334848 bytes of shared memory do not fit 14 bits. ISA 9.4 still writes
/// the 14-bit encoding, (x & 0x3FFFF) >> 4; its table has 15 bits. Bit 53 is new.
constexpr auto fields_sm_107a = [] {
  std::array<DescriptorField, fields_sm_100a.size() + 1> fields{};
  auto next = fields.begin();
  for (DescriptorField field : fields_sm_100a) {
    if (field.bits.name == "start_address" || field.bits.name == "leading_dim_byte_offset") ++field.bits.width_bits;
    if (field.bits.name == "leading_dim_mode") field.meaning = "0 byte offset, 1 absolute address";
    if (field.bits.name == "fixed_0") {
      *next++ = {.bits = {lut_k_segment, 53, 1},
                 .meaning = ".decompress::lut::b: 0 the first, 1 the second 24 bytes of 48; else 0",
                 .fixed = 0};
      ++field.bits.low_bit, --field.bits.width_bits;
    }
    *next++ = field;
  }
  return fields;
}();
static_assert(disjoint(fields_sm_107a, 64));

constexpr std::string_view section(Target target) {
  switch (info(target).smem_descriptor) {
    case SmemDescriptorVersion::sm_90: return "PTX ISA 9.7.15.5.1.2.2";
    case SmemDescriptorVersion::sm_107: return "PTX ISA 9.4, 9.7.18.4.1, Table 49";
    default: return "PTX ISA 9.7.16.4.1, Table 40";
  }
}

/// Targets whose leading field may be an address. Source: PTX ISA 9.7.16.3.1.2; for sm_107a, CUTLASS's CuTe DSL.
constexpr TargetSet has_absolute_leading_dim{Target::sm_103a, Target::sm_103f, Target::sm_107a, Target::sm_107f};

constexpr const DescriptorField* find(std::span<const DescriptorField> fields, std::string_view name) {
  for (const DescriptorField& field : fields) {
    if (field.bits.name == name) return &field;
  }
  return nullptr;
}

/// One row per field name: connects the word with the struct.
struct SmemBinding {
  std::string_view name;
  int64_t (*get)(const SmemDescriptor&);
  void (*set)(SmemDescriptor&, int64_t);
};

constexpr auto smem_bindings = std::to_array<SmemBinding>({
    {"start_address", [](const SmemDescriptor& d) { return d.start_address_bytes; },
     [](SmemDescriptor& d, int64_t v) { d.start_address_bytes = v; }},
    {"leading_dim_byte_offset", [](const SmemDescriptor& d) { return d.strides.leading_dim_byte_offset; },
     [](SmemDescriptor& d, int64_t v) { d.strides.leading_dim_byte_offset = v; }},
    {"stride_dim_byte_offset", [](const SmemDescriptor& d) { return d.strides.stride_dim_byte_offset; },
     [](SmemDescriptor& d, int64_t v) { d.strides.stride_dim_byte_offset = v; }},
    {"base_offset", [](const SmemDescriptor& d) { return int64_t{d.base_offset}; },
     [](SmemDescriptor& d, int64_t v) { d.base_offset = static_cast<int>(v); }},
    {"leading_dim_mode", [](const SmemDescriptor& d) { return int64_t{d.leading_dim_absolute}; },
     [](SmemDescriptor& d, int64_t v) { d.leading_dim_absolute = v != 0; }},
});

}  // namespace

std::span<const DescriptorField> smem_descriptor_fields(Target target) {
  switch (info(target).smem_descriptor) {
    case SmemDescriptorVersion::sm_90: return fields_sm_90a;
    case SmemDescriptorVersion::sm_100: return fields_sm_100a;
    case SmemDescriptorVersion::sm_107: return fields_sm_107a;
    default: break;
  }
  throw Error({.code = ViolationCode::unsupported_target,
               .field = "target",
               .seen = std::string(print(target)),
               .expected = "a target with shared-memory descriptors",
               .fix = "sm_90a for wgmma, sm_100a or sm_103a for tcgen05"});
}

SmemDescriptor decode_smem_descriptor(Target target, uint64_t word) {
  const auto fields = smem_descriptor_fields(target);
  SmemDescriptor descriptor{.target = target, .reserved = word};
  for (const SmemBinding& binding : smem_bindings) {
    const DescriptorField* field = find(fields, binding.name);
    if (!field) continue;
    const auto value = static_cast<int64_t>(extract(word, field->bits));
    binding.set(descriptor, field->unit == Unit::bytes_16 ? value * 16 : value);
    descriptor.reserved &= ~field->bits.mask();
  }
  const DescriptorField& swizzle_field = *find(fields, "swizzle");
  const int code = static_cast<int>(extract(word, swizzle_field.bits));
  const std::optional<Swizzle> swizzle = swizzle_of_code(target, code);
  if (!swizzle) {
    throw Error({.field = fmt::format("swizzle of descriptor {:#018x}", word),
                 .seen = std::to_string(code),
                 .expected = std::string(swizzle_field.meaning),
                 .fix = "sm_90a and sm_100a have different codes; check for which of them the descriptor was made",
                 .source = std::string(section(target))});
  }
  descriptor.swizzle = *swizzle;
  descriptor.reserved &= ~swizzle_field.bits.mask();
  return descriptor;
}

uint64_t encode(const SmemDescriptor& descriptor) {
  const auto fields = smem_descriptor_fields(descriptor.target);
  std::vector<Violation> violations;
  uint64_t word = descriptor.reserved;
  for (const SmemBinding& binding : smem_bindings) {
    const DescriptorField* field = find(fields, binding.name);
    const int64_t value = binding.get(descriptor);
    if (!field) {
      if (value != 0) {
        violations.push_back({.code = ViolationCode::unsupported_target,
                              .field = std::string(binding.name),
                              .seen = std::to_string(value),
                              .expected = fmt::format("0 on {}", print(descriptor.target)),
                              .fix = "only descriptors of sm_100a and later have this field",
                              .source = std::string(section(descriptor.target))});
      }
      continue;
    }
    const bool in_bytes = field->unit == Unit::bytes_16;
    const int64_t unit = in_bytes ? 16 : 1;
    const auto largest = static_cast<int64_t>(field->bits.largest()) * unit;
    if (value < 0 || value > largest || value % unit != 0) {
      const bool is_beyond = in_bytes && value > largest && value % unit == 0;
      violations.push_back(
          {.code = is_beyond ? ViolationCode::address_beyond_field : ViolationCode::illegal_value,
           .field = std::string(binding.name),
           .seen = std::to_string(value),
           .expected =
               in_bytes ? fmt::format("a multiple of 16 bytes in 0..{}", largest) : fmt::format("0..{}", largest),
           .fix =
               in_bytes
                   ? "pass bytes, not the encoded value; the field stores bytes >> 4, so that 8 or 100 have no encoding"
                   : "",
           .source = std::string(section(descriptor.target))});
      continue;
    }
    word = insert(word, field->bits, static_cast<uint64_t>(value / unit));
  }
  const int code = info(descriptor.swizzle).code(descriptor.target);
  if (code < 0) {
    violations.push_back({.code = ViolationCode::unsupported_target,
                          .field = "swizzle",
                          .seen = std::string(info(descriptor.swizzle).name),
                          .legal = {"none", "32", "64", "128"},
                          .fix = "128-atom32 exists only on sm_100a",
                          .source = std::string(section(descriptor.target))});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return insert(word, find(fields, "swizzle")->bits, static_cast<uint64_t>(code));
}

namespace {

/// A descriptor with the properties that its warnings need.
struct Examined {
  const SmemDescriptor& descriptor;
  std::optional<Major> major;
  int row_bytes;
  const SwizzleInfo& swizzle = info(descriptor.swizzle);
  bool is_swizzled = swizzle.bits != 0;
  int base_offset = descriptor.base_offset;
  int64_t start = descriptor.start_address_bytes;
  bool is_absolute = descriptor.leading_dim_absolute;
  int64_t lbo = descriptor.strides.leading_dim_byte_offset, sbo = descriptor.strides.stride_dim_byte_offset;
  int64_t pattern_bytes = swizzle.pattern_bytes();
  /// The row of the pattern that contains the start.
  int phase = base_offset_of_start(descriptor), phases = 1 << swizzle.bits;
  int64_t phase_of_address = (start >> 7) & 7;
  bool is_wider = is_swizzled && row_bytes > swizzle.width_bytes;
  bool is_measured = info(descriptor.target).smem_descriptor == SmemDescriptorVersion::sm_90;
  int64_t group_bytes = int64_t{8} * swizzle.width_bytes;  // of 8 rows in K-major
  bool groups_overlap = is_swizzled && major != Major::mn && sbo > 0 && sbo < group_bytes;
  /// The distance of neighbouring atoms in a dense layout.
  int64_t atom_bytes = is_swizzled ? int64_t{swizzle.rows_per_atom} * swizzle.width_bytes : 128;

  /// From the start of the piece of the swizzle's width that contains the start address.
  int64_t bytes_inside() const { return start % swizzle.width_bytes; }
  bool has_absolute_mode() const { return has_absolute_leading_dim.contains(descriptor.target); }
};

/// The value seen, the expected value, the fix, and the source if it is not the section on descriptors.
struct Text {
  std::string seen, expected, fix, source = {};
};

struct Warning {
  std::string_view field;
  bool (*applies)(const Examined&);
  Text (*text)(const Examined&);
};

// A sparse B has rows of 64 bytes; only the 32-byte swizzle is narrower.
constexpr int sparse_b_bytes = 64;
constexpr int absolute_row_bytes = 48;
constexpr std::string_view absolute_source = "PTX ISA 9.7.16.3.1.2.1";

constexpr auto warning_rows = std::to_array<Warning>({
    {.field = "base_offset",
     .applies = [](const Examined& e) { return !e.is_swizzled && e.base_offset != 0; },
     .text = [](const Examined& e) -> Text {
       return {.seen = std::to_string(e.base_offset),
               .expected = "0 without swizzling",
               .fix = "it has no effect there; clear it"};
     }},
    // The pattern begins at the start, or the start is inside a pattern that begins on its own boundary.
    {.field = "start_address",
     .applies = [](const Examined& e) { return e.is_swizzled && e.phase != 0 && e.base_offset == 0; },
     .text = [](const Examined& e) -> Text {
       return {.seen = fmt::format("{:#x}", e.start),
               .expected = fmt::format("in the first row of a {}-byte pattern, or combined with a base offset",
                                       e.pattern_bytes),
               .fix = fmt::format("rows start in phase {} of the pattern; if phase 0 of the data is here, set "
                                  "base_offset = (start >> 7) & 7 = {}",
                                  e.phase, e.phase_of_address)};
     }},
    // A piece of the swizzle's width along M or N ends at its own boundary; what follows in memory is the next k.
    {.field = "start_address",
     .applies = [](const Examined& e) { return e.major == Major::mn && e.is_swizzled && e.bytes_inside() != 0; },
     .text = [](const Examined& e) -> Text {
       return {
           .seen = fmt::format("{:#x}, {} bytes inside a piece of {} bytes along M or N", e.start, e.bytes_inside(),
                               e.swizzle.width_bytes),
           .expected = fmt::format("the start of a piece, a multiple of {}", e.swizzle.width_bytes),
           .fix = fmt::format("from {} bytes on, rows are read from the next k; begin tiles at whole pieces, or use "
                              "a swizzle of {} bytes or less",
                              e.swizzle.width_bytes - e.bytes_inside(), e.bytes_inside() & -e.bytes_inside())};
     }},
    {.field = "base_offset",
     .applies =
         [](const Examined& e) {
           const int own = e.base_offset % e.phases;
           return e.is_swizzled && own != 0 && own != e.phase;
         },
     .text = [](const Examined& e) -> Text {
       return {.seen = std::to_string(e.base_offset),
               .expected = e.phase == 0 ? fmt::format("0: the start {:#x} is in the first row of a {}-byte pattern",
                                                      e.start, e.pattern_bytes)
                                        : fmt::format("{} = (start >> 7) & 7 if the pattern begins at the start {:#x}, "
                                                      "or 0 if it begins at a multiple of {}",
                                                      e.phase_of_address, e.start, e.pattern_bytes),
               .fix = fmt::format("with {} the pattern begins {} rows before the start", e.base_offset,
                                  (e.phase - e.base_offset % e.phases + e.phases) % e.phases)};
     }},
    {.field = "leading_dim_byte_offset",
     .applies = [](const Examined& e) { return e.major == Major::k && e.is_wider && e.lbo <= 16; },
     .text = [](const Examined& e) -> Text {
       return {.seen = std::to_string(e.lbo),
               .expected = fmt::format("the distance to the next {} bytes of K", e.swizzle.width_bytes),
               .fix = fmt::format("a row of K has {} bytes and continues at LBO; alternatively use a wider swizzle",
                                  e.row_bytes),
               .source = fmt::format("{}; docs/evidence.md",
                                     evidence_of_wide_rows(e.descriptor.target, e.swizzle, e.row_bytes))};
     }},
    {.field = "leading_dim_byte_offset",
     .applies =
         [](const Examined& e) {
           return e.major == Major::k && e.is_swizzled && !e.is_wider && e.lbo > 16 && !e.is_absolute;
         },
     .text = [](const Examined& e) -> Text {
       const bool may_be_wider = e.row_bytes == 0 && e.swizzle.width_bytes < sparse_b_bytes;
       const std::string_view ignored =
           e.is_measured ? "the hardware ignores it there" : "PTX documents that it is not used there";
       return {
           .seen = std::to_string(e.lbo),
           .expected = "16 (encoded 1) by convention in swizzled K-major",
           .fix = may_be_wider
                      ? fmt::format("{} if a row of K fits into {} bytes; the {} of a sparse B continue at LBO ({})",
                                    ignored, e.swizzle.width_bytes, sparse_b_bytes,
                                    evidence_of_wide_rows(e.descriptor.target, e.swizzle, sparse_b_bytes))
                      : fmt::format("{}; to advance along K, move the start address", ignored),
           .source = e.is_measured ? "measured on an H200 (docs/evidence.md)" : ""};
     }},
    {.field = "swizzle",
     .applies = [](const Examined& e) { return e.swizzle.id == Swizzle::b128_atom32 && e.major != Major::mn; },
     .text = [](const Examined&) -> Text {
       return {
           .seen = "1 (128B with 32-byte atoms)",
           .expected = "2 for plain 128B",
           .fix = "code 1 is intended for MN-major tf32; no source shows it in K-major. For 128B kernels use code 2"};
     }},
    {.field = "stride_dim_byte_offset",
     .applies = [](const Examined& e) { return e.groups_overlap; },
     .text = [](const Examined& e) -> Text {
       const bool of_plain_layout = e.sbo == 128 && e.lbo > 16;
       return {.seen = std::to_string(e.sbo),
               .expected =
                   fmt::format("{} or more: SBO steps over 8 rows of {} bytes", e.group_bytes, e.swizzle.width_bytes),
               .fix = of_plain_layout                   ? "LBO and SBO look like those of the layout without swizzle"
                      : e.sbo * 16 % e.group_bytes == 0 ? "was the stride shifted right by 4 twice?"
                                                        : "groups of 8 rows overlap, unless the matrix has 8 rows or "
                                                          "fewer"};
     }},
    {.field = "leading_dim_mode",
     .applies =
         [](const Examined& e) {
           return e.is_absolute && (e.swizzle.id != Swizzle::b128 || e.base_offset != 0 || e.major == Major::mn);
         },
     .text = [](const Examined&) -> Text {
       return {.seen = "1 (absolute address)",
               .expected = "128B swizzle, K-major, base offset 0",
               .fix = "the mode is for the 48-byte rows of K = 96 on sm_103a",
               .source = std::string(absolute_source)};
     }},
    {.field = "leading_dim_mode",
     .applies = [](const Examined& e) { return e.is_absolute && !e.has_absolute_mode(); },
     .text = [](const Examined& e) -> Text {
       return {.seen = "1 (absolute address)",
               .expected = fmt::format("0 on {}, which lacks the mode", print(e.descriptor.target)),
               .fix = fmt::format("{} has the mode, for rows of 48 bytes of K = 96", print(has_absolute_leading_dim))};
     }},
    {.field = "leading_dim_mode",
     .applies =
         [](const Examined& e) {
           return e.is_absolute && e.has_absolute_mode() && e.row_bytes != 0 && e.row_bytes != absolute_row_bytes;
         },
     .text = [](const Examined& e) -> Text {
       return {.seen = fmt::format("1 (absolute address) with {} bytes of K in a row", e.row_bytes),
               .expected = fmt::format("0, or K = 96, which has {} bytes in a row", absolute_row_bytes),
               .fix = "the mode is for the 48-byte rows of K = 96; its effect on others is an assumption of the model",
               .source = std::string(absolute_source)};
     }},
    // The stride is sixteen times the natural one: the program stored bytes instead of bytes >> 4.
    {.field = "stride_dim_byte_offset",
     .applies = [](const Examined& e) { return e.is_swizzled && e.major != Major::mn && e.sbo == 16 * e.group_bytes; },
     .text = [](const Examined& e) -> Text {
       return {.seen = std::to_string(e.sbo),
               .expected = fmt::format("{} between dense groups of 8 rows", e.group_bytes),
               .fix = fmt::format("was {} written without the shift right by 4?", e.group_bytes)};
     }},
    // Without swizzling, and in MN-major, one of the strides is that of neighbouring atoms in a dense layout: if both
    // are multiples of sixteen times that, both look unshifted. Programs write 0 or 16 for an unused stride.
    {.field = "leading_dim_byte_offset, stride_dim_byte_offset",
     .applies =
         [](const Examined& e) {
           const auto looks_unshifted = [&](int64_t stride) {
             return stride != 0 && stride != 16 && stride % (16 * e.atom_bytes) == 0;
           };
           return (!e.is_swizzled || e.major == Major::mn) && !e.is_absolute && looks_unshifted(e.lbo) &&
                  looks_unshifted(e.sbo);
         },
     .text = [](const Examined& e) -> Text {
       return {.seen = fmt::format("{}, {}", e.lbo, e.sbo),
               .expected = fmt::format("{} for one of the two, between dense {}", e.atom_bytes,
                                       e.is_swizzled ? "atoms" : "core matrices"),
               .fix = fmt::format("were {} and {} written without the shift right by 4?", e.lbo / 16, e.sbo / 16)};
     }},
    {.field = "stride_dim_byte_offset",
     .applies = [](const Examined& e) { return !e.groups_overlap && e.is_swizzled && e.sbo % e.pattern_bytes != 0; },
     .text = [](const Examined& e) -> Text {
       return {
           .seen = std::to_string(e.sbo),
           .expected = fmt::format("a multiple of the {}-byte swizzle pattern in ordinary layouts", e.pattern_bytes),
           .fix = e.sbo * 16 % e.pattern_bytes == 0 && e.sbo > 0
                      ? "was the stride shifted right by 4 twice?"
                      : "the XOR depends on the address, so that each group of rows has a different phase"};
     }},
});

/// Warns about bits that belong to no field, and about fields that have only one legal value.
std::vector<Violation> reserved_warnings(const SmemDescriptor& descriptor, const std::string& source) {
  std::vector<Violation> violations;
  uint64_t fixed = 0;
  for (const DescriptorField& field : smem_descriptor_fields(descriptor.target)) {
    if (field.fixed < 0) continue;
    const auto expected = static_cast<uint64_t>(field.fixed);
    fixed |= field.bits.mask();
    if (extract(descriptor.reserved, field.bits) == expected) continue;
    violations.push_back(
        {.field = fmt::format("bits {}-{}", field.bits.low_bit, field.bits.low_bit + field.bits.width_bits - 1),
         .seen = fmt::format("{:#b}", extract(descriptor.reserved, field.bits)),
         .expected = fmt::format("{:#b}", expected),
         .fix = expected == 1 ? "a descriptor made for sm_90a lacks these bits"
                : field.bits.name == lut_k_segment
                    ? "only .decompress::lut::b has it; bitmma decodes that instruction but does not execute it"
                    : "zeros: Table 40's 0xb00000000 is a misprint of 0b00000000",
         .source = source});
  }
  if (const uint64_t stray = descriptor.reserved & ~fixed) {
    violations.push_back({.field = "reserved bits",
                          .seen = fmt::format("{:#018x}", stray),
                          .expected = "0",
                          .fix = "check the shifts that built the descriptor",
                          .source = source});
  }
  return violations;
}

}  // namespace

std::vector<Violation> warnings(const SmemDescriptor& descriptor, std::optional<Major> major, int row_bytes) {
  const std::string source(section(descriptor.target));
  std::vector<Violation> violations = reserved_warnings(descriptor, source);
  const Examined examined{.descriptor = descriptor, .major = major, .row_bytes = row_bytes};
  for (const Warning& row : warning_rows) {
    if (!row.applies(examined)) continue;
    Text text = row.text(examined);
    violations.push_back({.field = std::string(row.field),
                          .seen = std::move(text.seen),
                          .expected = std::move(text.expected),
                          .fix = std::move(text.fix),
                          .source = text.source.empty() ? source : std::move(text.source)});
  }
  return violations;
}

}  // namespace bitmma
