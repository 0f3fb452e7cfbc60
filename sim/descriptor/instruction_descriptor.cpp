// SPDX-License-Identifier: MIT
#include "bitmma/descriptor/instruction_descriptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

namespace bitmma {
namespace {

constexpr auto table_42 = std::to_array<InstructionDescriptorField>({
    {{"sparsity_selector", 0, 2}, "of sparse metadata"},
    {{"sparse", 2, 1}, "1: A is sparse"},
    {{"saturate", 3, 1}, "1: clamp integers (i8)"},
    {{"d_type", 4, 2}, "f16 0, f32 1, s32 2"},
    {{"a_type", 7, 3}, "by kind"},
    {{"b_type", 10, 3}, "by kind"},
    {{"negate_a", 13, 1}, "1: -A"},
    {{"negate_b", 14, 1}, "1: -B"},
    {{"transpose_a", 15, 1}, "1: M-major"},
    {{"transpose_b", 16, 1}, "1: N-major"},
    {{"n", 17, 6}, "N >> 3"},
    {{"m", 24, 5}, "M >> 4"},
    {{"k", 29, 1}, "f8f6f4 of sm_107: 1: K = 64 (sparse 128)", 1u << 29},
    {{"max_shift", 30, 2}, ".ws: shift of B by up to 0, 8, 16, 32 columns"},
});
static_assert(disjoint(table_42, 32));

constexpr auto table_43 = std::to_array<InstructionDescriptorField>({
    {{"sparse", 2, 1}, "1: A is sparse"},
    {{"scale_b_id", 4, 2}, "byte of the Tensor Memory cell with B's first scale"},
    {{"a_type", 7, 3}, "as f8f6f4"},
    {{"b_type", 10, 3}, "as f8f6f4"},
    {{"negate_a", 13, 1}, "1: -A"},
    {{"negate_b", 14, 1}, "1: -B"},
    {{"transpose_a", 15, 1}, "1: M-major"},
    {{"transpose_b", 16, 1}, "1: N-major"},
    {{"n", 17, 6}, "N >> 3"},
    {{"scale_type", 23, 1}, "1: ue8m0"},
    {{"wide_scale_a", 26, 1}, "sm_107: 1: scales of A over 128 lanes", 1u << 26},
    {{"m", 27, 2}, "M >> 7"},
    {{"scale_a_id", 29, 2}, "byte of the Tensor Memory cell with A's first scale"},
    {{"k", 31, 1}, "sm_107: 1: K = 64 (sparse 128)", 1u << 31},
});
static_assert(disjoint(table_43, 32));

constexpr auto table_44 = std::to_array<InstructionDescriptorField>({
    {{"sparse", 2, 1}, "1: A is sparse"},
    {{"k_high", 3, 1}, "sm_107: 1: K = 128", 1u << 3},
    {{"scale_b_id", 4, 2}, "byte of the Tensor Memory cell with B's first scale"},
    {{"a_type", 7, 3}, "e2m1 1"},
    {{"b_type", 10, 2}, "e2m1 1"},
    {{"sparsity_version", 12, 1}, "sparse: 0 pairs, 1 single elements (sm_107a)", 1u << 12},
    {{"negate_a", 13, 1}, "1: -A"},
    {{"negate_b", 14, 1}, "1: -B"},
    {{"n", 17, 6}, "N >> 3"},
    {{"scale_type", 23, 2}, "ue4m3 0, ue8m0 1, ue5m3 2", 1u << 24},
    {{"wide_scale_a", 26, 1}, "sm_107: 1: scales of A over 128 lanes", 1u << 26},
    {{"m", 27, 2}, "M >> 7"},
    {{"scale_a_id", 29, 2}, "byte of the Tensor Memory cell with A's first scale"},
    {{"k_96", 31, 1}, "0: K = 64 (sparse 128); 1: K = 96 (sparse 192)"},
});
static_assert(disjoint(table_44, 32));

/// The codes of types for each kind. A code without a row is reserved.
struct TypeCode {
  MmaKind kind;
  char operand;  // 'd', or 'a' for A and B
  int code;
  Format format;
};
constexpr auto type_codes = std::to_array<TypeCode>({
    {MmaKind::tf32, 'd', 1, Format::f32},
    {MmaKind::tf32, 'a', 2, Format::tf32},
    {MmaKind::f16, 'd', 0, Format::f16},
    {MmaKind::f16, 'd', 1, Format::f32},
    {MmaKind::f16, 'a', 0, Format::f16},
    {MmaKind::f16, 'a', 1, Format::bf16},
    {MmaKind::f8f6f4, 'd', 0, Format::f16},
    {MmaKind::f8f6f4, 'd', 1, Format::f32},
    {MmaKind::f8f6f4, 'a', 0, Format::e4m3},
    {MmaKind::f8f6f4, 'a', 1, Format::e5m2},
    {MmaKind::f8f6f4, 'a', 3, Format::e2m3},
    {MmaKind::f8f6f4, 'a', 4, Format::e3m2},
    {MmaKind::f8f6f4, 'a', 5, Format::e2m1},
    {MmaKind::i8, 'd', 2, Format::s32},
    {MmaKind::i8, 'a', 0, Format::u8},
    {MmaKind::i8, 'a', 1, Format::s8},
    {MmaKind::mxf8f6f4, 'a', 0, Format::e4m3},
    {MmaKind::mxf8f6f4, 'a', 1, Format::e5m2},
    {MmaKind::mxf8f6f4, 'a', 3, Format::e2m3},
    {MmaKind::mxf8f6f4, 'a', 4, Format::e3m2},
    {MmaKind::mxf8f6f4, 'a', 5, Format::e2m1},
    // The code is 1, not 5: the mxf4 kinds have separate codes.
    {MmaKind::mxf4, 'a', 1, Format::e2m1},
    {MmaKind::mxf4nvf4, 'a', 1, Format::e2m1},
    {MmaKind::ti16, 'd', 2, Format::s32},
    {MmaKind::ti16, 'a', 3, Format::s1z4m11},
});

/// The types of scales in the order of their codes in Table 44.
constexpr std::array scale_codes{Format::ue4m3, Format::ue8m0, Format::ue5m3};

/// The code of a scale type; -1, which is illegal, if the table lacks the type.
constexpr int scale_code_of(Format type) {
  for (size_t code = 0; code < scale_codes.size(); ++code) {
    if (scale_codes[code] == type) return static_cast<int>(code);
  }
  return -1;
}

std::string section(MmaKind kind) {
  if (kind == MmaKind::ti16) return "PTX ISA 9.4, 9.7.18.4.2, Table 51 (Table 42 before)";
  return fmt::format("PTX ISA 9.7.16.4.2, Table {}", info(kind).table);
}

class InstructionDescriptorChecker {
 public:
  explicit InstructionDescriptorChecker(MmaKind kind) : kind_(kind) {}
  /// Refuses each field only once.
  void require(bool holds, std::string_view field, auto seen, std::string legal, std::string fix = {}) {
    if (!holds && std::ranges::find(found_, field, &Violation::field) == found_.end()) {
      found_.push_back({.field = std::string(field),
                        .seen = fmt::format("{}", seen),
                        .expected = fmt::format("{} in kind::{}", legal, info(kind_).name),
                        .fix = std::move(fix),
                        .source = section(kind_)});
    }
  }
  void stop_if_violated() {
    if (!found_.empty()) throw Error(std::move(found_));
  }

 private:
  MmaKind kind_;
  std::vector<Violation> found_;
};

std::string legal_types(MmaKind kind, char operand) {
  std::string text;
  for (const TypeCode& row : type_codes) {
    if (row.kind == kind && row.operand == operand)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", info(row.format).name, row.code);
  }
  return text;
}

std::optional<int> code_of(MmaKind kind, char operand, Format format) {
  const auto row = std::ranges::find_if(
      type_codes, [&](const TypeCode& r) { return r.kind == kind && r.operand == operand && r.format == format; });
  return row == type_codes.end() ? std::nullopt : std::optional(row->code);
}

/// Connects a field with the members of the struct, for numbers and flags.
struct InstructionBinding {
  std::string_view name;
  int (*get)(const InstructionDescriptor&);
  void (*set)(InstructionDescriptor&, int);
};

constexpr int m_unit(const InstructionDescriptor& d) { return info(d.kind).has_block_scales ? 128 : 16; }

constexpr auto instruction_bindings = std::to_array<InstructionBinding>({
    {"sparsity_selector", [](const auto& d) { return d.sparsity_selector; },
     [](auto& d, int v) { d.sparsity_selector = v; }},
    {"sparse", [](const auto& d) { return int{d.sparse}; }, [](auto& d, int v) { d.sparse = v != 0; }},
    {"saturate", [](const auto& d) { return int{d.saturate}; }, [](auto& d, int v) { d.saturate = v != 0; }},
    {"negate_a", [](const auto& d) { return int{d.negate_a}; }, [](auto& d, int v) { d.negate_a = v != 0; }},
    {"negate_b", [](const auto& d) { return int{d.negate_b}; }, [](auto& d, int v) { d.negate_b = v != 0; }},
    {"transpose_a", [](const auto& d) { return int{d.transpose_a}; }, [](auto& d, int v) { d.transpose_a = v != 0; }},
    {"transpose_b", [](const auto& d) { return int{d.transpose_b}; }, [](auto& d, int v) { d.transpose_b = v != 0; }},
    {"n", [](const auto& d) { return d.n / 8; }, [](auto& d, int v) { d.n = 8 * v; }},
    {"m", [](const auto& d) { return d.m / m_unit(d); }, [](auto& d, int v) { d.m = m_unit(d) * v; }},
    {"max_shift", [](const auto& d) { return d.max_shift_code; }, [](auto& d, int v) { d.max_shift_code = v; }},
    {"scale_type",
     [](const auto& d) {
       return info(d.kind).is_fp4 ? std::max(0, scale_code_of(d.scale_type)) : int{d.scale_type == Format::ue8m0};
     },
     [](auto& d, int v) {
       d.scale_type = v < int{scale_codes.size()} ? scale_codes[static_cast<size_t>(v)] : Format::u32;
     }},
    {"scale_a_id", [](const auto& d) { return d.scale_a_id; }, [](auto& d, int v) { d.scale_a_id = v; }},
    {"scale_b_id", [](const auto& d) { return d.scale_b_id; }, [](auto& d, int v) { d.scale_b_id = v; }},
    {"wide_scale_a", [](const auto& d) { return int{d.wide_scale_a}; },
     [](auto& d, int v) { d.wide_scale_a = v != 0; }},
    {"sparsity_version", [](const auto& d) { return d.sparsity_version; },
     [](auto& d, int v) { d.sparsity_version = v; }},
    {"k", [](const auto& d) { return d.k_code; }, [](auto& d, int v) { d.k_code = v; }},
    // The K code of the mxf4 kinds has two separate bits: 2 * bit 3 + bit 31.
    {"k_96", [](const auto& d) { return d.k_code & 1; }, [](auto& d, int v) { d.k_code |= v; }},
    {"k_high", [](const auto& d) { return d.k_code >> 1; }, [](auto& d, int v) { d.k_code |= 2 * v; }},
});

/// The same for types, which use the table of codes.
struct TypeBinding {
  std::string_view name;
  char operand;
  Format InstructionDescriptor::*format;
};
constexpr auto type_bindings = std::to_array<TypeBinding>({
    {"d_type", 'd', &InstructionDescriptor::d},
    {"a_type", 'a', &InstructionDescriptor::a},
    {"b_type", 'a', &InstructionDescriptor::b},
});

consteval bool every_field_is_bound() {
  const auto bound = [](std::string_view name) {
    for (const InstructionBinding& row : instruction_bindings) {
      if (row.name == name) return true;
    }
    for (const TypeBinding& row : type_bindings) {
      if (row.name == name) return true;
    }
    return false;
  };
  for (const auto& field : table_42)
    if (!bound(field.bits.name)) return false;
  for (const auto& field : table_43)
    if (!bound(field.bits.name)) return false;
  for (const auto& field : table_44)
    if (!bound(field.bits.name)) return false;
  return true;
}
static_assert(every_field_is_bound());

/// Checks values, no matter where they came from.
void check_values(const InstructionDescriptor& d, InstructionDescriptorChecker& check) {
  const MmaKindInfo& kind = info(d.kind);
  const bool scaled = kind.has_block_scales;
  const bool m_legal = scaled ? d.m == 128 || d.m == 256 : d.m == 32 || d.m == 64 || d.m == 128 || d.m == 256;
  check.require(m_legal, "m", d.m, scaled ? "128 or 256" : "32 (.ws), 64, 128 or 256",
                scaled ? "the field holds M >> 7" : "the field holds M >> 4; only Tables 43 and 44 use M >> 7");
  check.require(d.n >= 8 && d.n <= 256 && d.n % 8 == 0, "n", d.n, "8..256 in steps of 8", "the field holds N >> 3");
  check.require(kind.has_negate || (!d.negate_a && !d.negate_b), "negate", "1", "0");
  check.require(kind.has_transpose || (!d.transpose_a && !d.transpose_b), "transpose", "1", "0",
                d.kind == MmaKind::ti16 ? "Table 51 of ISA 9.4 requires 0, although its Table 62 lists transposed ti16"
                                        : "packed fp4 is K-major only");
  check.require(kind.has_saturate || !d.saturate, "saturate", "1", "0", "only integers saturate");
  check.require(d.sparsity_selector >= 0 && d.sparsity_selector < kind.sparsity_selectors, "sparsity_selector",
                d.sparsity_selector, kind.sparsity_selectors == 1 ? "0" : "0..3");
  if (d.kind == MmaKind::f16) {
    check.require(d.a == d.b, "types", fmt::format("{} x {}", info(d.a).name, info(d.b).name),
                  "f16 x f16 or bf16 x bf16", "no source allows other combinations");
    check.require(d.d == Format::f32 || d.a == Format::f16, "d_type", "f16 with bf16", "f32 for bf16");
  }
  if (kind.has_block_scales) {
    const bool takes_all = d.kind == MmaKind::mxf4nvf4;
    const bool is_code = scale_code_of(d.scale_type) >= 0;  // decode() gives none of these for a code without a type
    check.require(is_code && (takes_all || d.scale_type == Format::ue8m0), "scale_type",
                  is_code || info(d.scale_type).bits <= 8 ? info(d.scale_type).name : "3",
                  takes_all ? "ue8m0 (1), ue4m3 (0) or on sm_107 ue5m3 (2)" : "ue8m0 (1)");
  }
  const int k = k_of_code(d.kind, d.sparse, d.k_code);
  if (kind.is_fp4) {
    check.require(k != 0, "k", d.k_code,
                  d.sparse ? "0 (K = 128) or 1 (K = 192) with sparse" : "0 (K = 64), 1 (K = 96) or 2 (K = 128)",
                  "the code is 2 * bit 3 + bit 31");
  } else {
    check.require(k != 0, "k", d.k_code, "0", "only kind::f8f6f4, mxf8f6f4, mxf4 and mxf4nvf4 have a second K");
  }
  check.require(!d.wide_scale_a, "wide_scale_a", "1", "0: scales of A in all four partitions of 32 lanes",
                "PTX ISA 9.4 shows the layout over 128 lanes only in figures; bitmma does not guess it");
  check.require(d.sparsity_version == 0 || (kind.is_fp4 && d.sparsity_version == 1), "sparsity_version",
                d.sparsity_version, kind.is_fp4 ? "0 or 1" : "0");
  check.require(!kind.is_fp4 || !d.sparse || d.k_code != 1 || d.sparsity_version == 1, "sparsity_version",
                d.sparsity_version, fmt::format("1 with a sparse K = {}", k),
                "only sm_107a has that K, and only with metadata of single elements (version 1)");
  // The number of scales, and so the vector size in the mnemonic, determines which bytes may hold a first scale: a byte
  // is legal here if some size accepts it on some target. Twice the K of mxf8f6f4 has two scales.
  int step = 1;
  if (d.kind == MmaKind::mxf8f6f4) step = d.k_code == 1 ? 2 : 1;
  if (kind.is_fp4) step = d.k_code == 2 ? 4 : d.k_code == 1 ? 1 : 2;
  for (const auto& [name, id] : {std::pair("scale_a_id", d.scale_a_id), std::pair("scale_b_id", d.scale_b_id)}) {
    if (!scaled || k == 0) continue;
    const std::string_view legal = step == 4 ? "0" : step == 2 ? "0 or 2" : "0..3";
    check.require(id >= 0 && id <= 3 && id % step == 0, name, id, fmt::format("{} with K = {}", legal, k),
                  "the id is the byte of the cell that holds the first scale");
  }
}

}  // namespace

std::optional<MmaKind> mma_kind_named(std::string_view name) {
  for (const MmaKindInfo& row : mma_kinds) {
    if (row.name == name) return row.id;
  }
  return std::nullopt;
}

int require_k_code(MmaKind kind, bool sparse, int k) {
  std::vector<std::string> legal;
  for (const int code : {0, 1, 2}) {
    const int known = k_of_code(kind, sparse, code);
    if (known == k && k != 0) return code;
    if (known != 0) legal.push_back(std::to_string(known));
  }
  throw Error({.field = "k",
               .seen = std::to_string(k),
               .legal = std::move(legal),
               .fix = fmt::format("{}kind::{} has no other type", sparse ? "a sparse " : "", info(kind).name),
               .source = "PTX ISA 9.4, 9.7.18.2.1, Table 48"});
}

std::string print_mma_kinds() { return alternatives(row_names(mma_kinds)); }

std::span<const InstructionDescriptorField> instruction_descriptor_fields(MmaKind kind) {
  if (info(kind).is_fp4) return table_44;
  return info(kind).has_block_scales ? table_43 : table_42;
}

InstructionDescriptor decode_instruction_descriptor(MmaKind kind, uint32_t word) {
  InstructionDescriptor descriptor{.kind = kind};
  InstructionDescriptorChecker check(kind);
  uint64_t reserved = word;
  for (const InstructionDescriptorField& field : instruction_descriptor_fields(kind)) {
    const int value = static_cast<int>(extract(word, field.bits));
    reserved &= ~field.bits.mask();
    for (const InstructionBinding& binding : instruction_bindings) {
      if (binding.name == field.bits.name) binding.set(descriptor, value);
    }
    for (const TypeBinding& binding : type_bindings) {
      if (binding.name != field.bits.name) continue;
      const auto row = std::ranges::find_if(type_codes, [&](const TypeCode& code) {
        return code.kind == kind && code.operand == binding.operand && code.code == value;
      });
      const bool is_code_without_scales = info(kind).is_fp4 && value == 5;
      check.require(row != type_codes.end(), binding.name, value, legal_types(kind, binding.operand),
                    is_code_without_scales ? "5 is e2m1 in Tables 42 and 43 only" : "");
      if (row != type_codes.end()) descriptor.*binding.format = row->format;
    }
  }
  check.require(reserved == 0, "reserved bits", fmt::format("{:#010x}", reserved), "0");
  check_values(descriptor, check);
  check.stop_if_violated();
  return descriptor;
}

namespace {

/// The number in the field; nothing if a type has no code there.
std::optional<int> value_in(const InstructionDescriptorField& field, const InstructionDescriptor& descriptor) {
  for (const InstructionBinding& binding : instruction_bindings)
    if (binding.name == field.bits.name) return binding.get(descriptor);
  for (const TypeBinding& binding : type_bindings) {
    if (binding.name == field.bits.name) return code_of(descriptor.kind, binding.operand, descriptor.*binding.format);
  }
  return std::nullopt;  // every_field_is_bound
}

}  // namespace

uint32_t encode(const InstructionDescriptor& descriptor) {
  const MmaKind kind = descriptor.kind;
  InstructionDescriptorChecker check(kind);
  check_values(descriptor, check);
  if (info(kind).has_block_scales) {  // the tables of these kinds have no such fields
    check.require(descriptor.d == Format::f32, "d_type", info(descriptor.d).name, "f32");
    check.require(descriptor.max_shift_code == 0, "max_shift", descriptor.max_shift_code, "0");
  }
  uint64_t word = 0;
  for (const InstructionDescriptorField& field : instruction_descriptor_fields(kind)) {
    for (const TypeBinding& binding : type_bindings) {
      if (binding.name != field.bits.name) continue;
      check.require(value_in(field, descriptor).has_value(), binding.name, info(descriptor.*binding.format).name,
                    legal_types(kind, binding.operand));
    }
    const int value = value_in(field, descriptor).value_or(0);
    check.require(value >= 0 && static_cast<uint64_t>(value) <= field.bits.largest(), field.bits.name, value,
                  fmt::format("0..{}", field.bits.largest()));
    word = insert(word, field.bits, static_cast<uint64_t>(value));
  }
  check.stop_if_violated();
  return static_cast<uint32_t>(word);
}

std::vector<Violation> warnings(const InstructionDescriptor& descriptor, std::optional<Target> target) {
  std::vector<Violation> violations;
  const std::string source = section(descriptor.kind);
  for (const InstructionDescriptorField& field : instruction_descriptor_fields(descriptor.kind)) {
    const auto value = static_cast<uint64_t>(value_in(field, descriptor).value_or(0)) & field.bits.largest();
    const auto set = static_cast<uint32_t>(insert(0, field.bits, value)) & field.sm_107_bits;
    if (target || set == 0) continue;
    violations.push_back({.field = std::string(field.bits.name),
                          .seen = fmt::format("bit {} set", std::countr_zero(set)),
                          .expected = fmt::format("0 except on {}", print(target_sets::rubin)),
                          .fix = "all other targets reserve the bit; name the target with --target",
                          .source = source});
  }
  if (!descriptor.sparse && descriptor.sparsity_selector != 0) {
    violations.push_back({.field = "sparsity_selector",
                          .seen = std::to_string(descriptor.sparsity_selector),
                          .expected = "0 without sparse",
                          .source = source});
  }
  if (descriptor.max_shift_code != 0) {
    violations.push_back({.code = ViolationCode::shift_without_ws,
                          .field = "max_shift",
                          .seen = std::to_string(descriptor.max_shift_code),
                          .expected = "0 unless the instruction is .ws",
                          .source = source});
  }
  if (descriptor.kind == MmaKind::mxf4nvf4 && descriptor.scale_type == Format::ue8m0) {
    violations.push_back(
        {.field = "scale_type",
         .seen = "ue8m0 (1)",
         .expected = "ue4m3 (0) for NVFP4",
         .fix = "bit 23 selects the type of the scales, not their number; ue8m0 is legal with 2X and 4X",
         .source = source});
  }
  if (descriptor.kind == MmaKind::mxf4nvf4 && (descriptor.scale_a_id != 0 || descriptor.scale_b_id != 0)) {
    const bool is_power = descriptor.scale_type == Format::ue8m0;
    violations.push_back(
        {.code = ViolationCode::scale_id_of_vector,
         .field = "scale_a_id, scale_b_id",
         .seen = fmt::format("{}, {}", descriptor.scale_a_id, descriptor.scale_b_id),
         .expected = descriptor.k_code == 1 ? "0 or 2 if the mnemonic has .scale_vec::4X or .block16"
                                            : "0 if the mnemonic has .scale_vec::4X or .block16",
         .fix = is_power ? "other values are legal only with .scale_vec::2X and .block32"
                         : fmt::format("other values are legal only with .block32, which has {} on sm_107a and sm_107f",
                                       info(descriptor.scale_type).name),
         .source = "PTX ISA 9.7.16.10.7"});
  }
  const bool is_float = !info(descriptor.kind).has_block_scales && natural_output(descriptor.kind) == Format::f32;
  if (is_float && descriptor.m == 128 && descriptor.n % 16 != 0) {
    const bool is_asserted_sparse = descriptor.kind == MmaKind::f8f6f4 && descriptor.sparse;
    violations.push_back(
        {.field = "n",
         .seen = std::to_string(descriptor.n),
         .expected = fmt::format("a multiple of 16 with M = 128{}, as CUTLASS asserts",
                                 is_asserted_sparse ? "" : " if A is in Tensor Memory"),
         .fix = "Table 39 allows steps of 8 with cta_group::1; no hardware result is published",
         .source = "PTX ISA Table 39; CUTLASS of 2026, SM100_MMA_*_TS and SM100_MMA_F8F6F4_SS_SPARSE"});
  }
  if (descriptor.kind == MmaKind::i8 && descriptor.n == 24) {
    violations.push_back({.field = "n",
                          .seen = "24",
                          .expected = "8, or a multiple of 16, in CUTLASS",
                          .fix = "Table 39 allows 24; no hardware result is published",
                          .source = "PTX ISA Table 39"});
  }
  return violations;
}

}  // namespace bitmma
