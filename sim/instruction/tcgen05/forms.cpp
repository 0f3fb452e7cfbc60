// SPDX-License-Identifier: MIT
// tcgen05.mma: its instruction descriptor, its rows of the form table, its further rules, its unpublished points, and
// every mnemonic.
//
//   tcgen05.mma.cta_group::2.kind::f16  +  idesc 0x10100010  =  M 256, N 64, K 16, D f32, A and B f16
//
// Sources: PTX ISA 9.7.16; ptxas 13.0 for the contents of the mnemonic.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "../family.hpp"
#include "bitmma/memory/metadata.hpp"

namespace bitmma {

Tcgen05Mma with_idesc(Tcgen05Mma instruction, uint32_t idesc) {
  const InstructionDescriptor d = decode_instruction_descriptor(instruction.kind, idesc);
  if (d.sparse != instruction.sparse) {
    throw Error(
        {.field = "sparse bit of the instruction descriptor",
         .seen = d.sparse ? "1" : "0",
         .expected = instruction.sparse ? "1, because the mnemonic has .sp" : "0, because the mnemonic has no .sp",
         .source = "PTX ISA 9.7.16.4.2"});
  }
  instruction.m = d.m, instruction.n = d.n;
  instruction.d = d.d, instruction.a = d.a, instruction.b = d.b;
  instruction.k = d.k();
  instruction.sparsity_version = d.sparsity_version;
  instruction.saturate = d.saturate;
  instruction.negate_a = d.negate_a, instruction.negate_b = d.negate_b;
  instruction.transpose_a = d.transpose_a, instruction.transpose_b = d.transpose_b;
  instruction.sparsity_selector = d.sparsity_selector;
  instruction.max_shift_code = d.max_shift_code;
  instruction.scale_type = d.scale_type;
  instruction.scale_a_id = d.scale_a_id, instruction.scale_b_id = d.scale_b_id;
  return instruction;
}

uint32_t idesc_of(const Tcgen05Mma& instruction) {
  return encode(InstructionDescriptor{.kind = instruction.kind,
                                      .m = instruction.m,
                                      .n = instruction.n,
                                      .d = instruction.d,
                                      .a = instruction.a,
                                      .b = instruction.b,
                                      .sparse = instruction.sparse,
                                      .sparsity_selector = instruction.sparsity_selector,
                                      .saturate = instruction.saturate,
                                      .negate_a = instruction.negate_a,
                                      .negate_b = instruction.negate_b,
                                      .transpose_a = instruction.transpose_a,
                                      .transpose_b = instruction.transpose_b,
                                      .max_shift_code = instruction.max_shift_code,
                                      .scale_type = instruction.scale_type,
                                      .scale_a_id = instruction.scale_a_id,
                                      .scale_b_id = instruction.scale_b_id,
                                      .k_code = k_code_of(instruction.kind, instruction.sparse, instruction.k),
                                      .sparsity_version = instruction.sparsity_version});
}

namespace family {
namespace {

constexpr std::string_view table_39 = "PTX ISA 9.7.16.2.1, Table 39", syntax = "PTX ISA 9.7.16.10.9; ptxas 13.0";

bool is_scaled(const Tcgen05Mma& instruction) { return info(instruction.kind).has_block_scales; }

using target_sets::rubin;
constexpr TargetSet numbered_sizes = architecture_specific(target_sets::tcgen05),
                    rubin_a = architecture_specific(rubin);

bool is_fp4(const Tcgen05Mma& i) { return info(i.kind).is_fp4; }
bool is_numbered(const Tcgen05Mma& i) {
  return i.scale_vec == ScaleVec::x1 || i.scale_vec == ScaleVec::x2 || i.scale_vec == ScaleVec::x4;
}

// The parts that some targets of a form lack.
constexpr auto parts_of_targets =
    std::to_array<TargetRow<Tcgen05Mma>>({
        {.what = ".scale_vec::NX",
         .targets = numbered_sizes,
         .source = "PTX ISA 9.7.16.10.9; ptxas 13.0 and 13.5",
         .applies = is_numbered},
        {.what = ".sp",
         .targets = numbered_sizes,
         .source = "PTX ISA 9.7.16.10.9; ptxas 13.0 and 13.5",
         .applies = [](const Tcgen05Mma& i) { return is_fp4(i) && i.sparse; }},
        {.what = "sparse metadata of pairs (version 0)",
         .targets = {Target::sm_100a, Target::sm_101a, Target::sm_103a, Target::sm_110a},
         .source = "PTX ISA 9.4, 9.7.18.10.9.3 and Table 53",
         .applies = [](const Tcgen05Mma& i) { return is_fp4(i) && i.sparse && i.sparsity_version == 0; }},
        {.what = "sparse metadata of single elements (version 1)",
         .targets = rubin_a,
         .ptx = {9, 4},
         .source = "PTX ISA 9.4, 9.7.18.10.9.3 and Table 53",
         .applies = [](const Tcgen05Mma& i) { return is_fp4(i) && i.sparse && i.sparsity_version == 1; }},
        // A dense A has no metadata: NVIDIA's compiler writes 0, while CUTLASS's descriptors start with 1. Other kinds
        // reserve the bit.
        {.what = "bit 12 of the instruction descriptor",
         .targets = rubin,
         .ptx = {9, 4},
         .source = "PTX ISA 9.4, Table 53",
         .applies = [](const Tcgen05Mma& i) { return is_fp4(i) && !i.sparse && i.sparsity_version == 1; }},
        {.what = "a sparse K of 192",
         .targets = rubin_a,
         .ptx = {9, 4},
         .source = "PTX ISA 9.4, 9.7.18.2.1, Table 48",
         .applies = [](const Tcgen05Mma& i) { return i.sparse && i.k == 192; }},
        {.what = "scales of ue5m3",
         .targets = rubin,
         .ptx = {9, 4},
         .source = "PTX ISA 9.4, 9.7.18.10.7.1",
         .applies = [](const Tcgen05Mma& i) { return info(i.kind).has_block_scales && i.scale_type == Format::ue5m3; }},
        {.what = "a scale of ue4m3 for every 32",
         .targets = rubin,
         .ptx = {9, 4},
         .source = "PTX ISA 9.4, 9.7.18.10.7.1",
         .applies =
             [](const Tcgen05Mma& i) {
               return i.scale_type == Format::ue4m3 &&
                      (i.scale_vec == ScaleVec::x2 || i.scale_vec == ScaleVec::block32);
             }},
        // The ISA's text has no such exception; ptxas 13.0 and 13.5 reject it on this target.
        {.what = "scale-input-d",
         .targets = {Target::sm_100a, Target::sm_100f, Target::sm_103a, Target::sm_103f, Target::sm_107a,
                     Target::sm_107f},
         .source = "ptxas 13.0 and 13.5",
         .applies = [](const Tcgen05Mma& i) { return i.scale_input_d != 0; }},
        {.what = "collector::b",
         .targets = rubin,
         .ptx = {9, 4},
         .source = "PTX ISA 9.4, 9.7.18.10.10; ptxas 13.5",
         .applies = [](const Tcgen05Mma& i) { return i.collector_b.has_value(); }},
    });

int k_of(const Form& form, bool sparse) { return sparse ? form.k_sparse : form.k_dense; }

/// The kind's row with the instruction's K, or else any row, for properties that they share.
const Form* find_kind(const Tcgen05Mma& instruction) {
  const Form* match = nullptr;
  for (const Form& form : forms()) {
    if (form.family != Family::tcgen05 || form.kind != instruction.kind) continue;
    if (k_of(form, instruction.sparse) == instruction.k) return &form;
    if (!match) match = &form;
  }
  return match;
}

/// Every K of the kind, for messages: "64, 96 or 128".
std::string print_k(const Tcgen05Mma& instruction) {
  std::vector<std::string> all;
  for (const Form& form : forms()) {
    if (form.family != Family::tcgen05 || form.kind != instruction.kind) continue;
    const int k = k_of(form, instruction.sparse);
    if (k != 0 && std::ranges::find(all, std::to_string(k)) == all.end()) all.push_back(std::to_string(k));
  }
  return alternatives(all);
}

void check_shape(const Tcgen05Mma& instruction, const Form& form, InstructionChecker& check) {
  const auto is_of_form = [&](const LegalShape& row) {
    return row.weight_stationary == instruction.weight_stationary && row.cta_group == instruction.cta_group &&
           (instruction.sparse ? row.sparse : row.dense);
  };
  const auto has_m = [&](const LegalShape& row) {
    return instruction.m != 0 && std::ranges::find(row.m, instruction.m) != row.m.end();
  };
  auto shape = std::ranges::find_if(form.shapes, [&](const LegalShape& row) { return is_of_form(row) && has_m(row); });
  if (shape == form.shapes.end()) {
    shape = std::ranges::find_if(form.shapes, is_of_form);
    if (shape == form.shapes.end()) return;  // .ws with two CTAs or with scales: check_qualifiers refuses it
    std::vector<int> legal;
    for (const LegalShape& row : form.shapes) {
      if (!is_of_form(row)) continue;
      std::ranges::copy_if(row.m, std::back_inserter(legal), [](int m) { return m != 0; });
    }
    check.refuse("M", std::to_string(instruction.m),
                 fmt::format("{} with cta_group::{}{}{}", fmt::join(legal, " or "), instruction.cta_group,
                             instruction.weight_stationary ? " and .ws" : "",
                             is_scaled(instruction) ? " and block scales" : ""));
  }
  if (!shape->n.contains(instruction.n)) check.refuse("N", std::to_string(instruction.n), std::string(shape->n.text));
  const int transposed_step = 16 * instruction.cta_group;
  const bool in_bytes = kind_container_bits(instruction.kind, instruction.b) == 8;
  if (in_bytes && instruction.transpose_b && instruction.n % transposed_step != 0) {
    check.refuse("N", std::to_string(instruction.n),
                 fmt::format("a multiple of {} if an 8-bit B is N-major", transposed_step), "",
                 "PTX ISA 9.7.16.10, Table 52");
  }
  if (instruction.k != k_of(form, instruction.sparse)) {
    check.refuse("K", std::to_string(instruction.k), print_k(instruction),
                 instruction.k == 96               ? "only the dense mxf4 kinds have K = 96"
                 : !form.a.contains(instruction.a) ? "K follows from the type of A"
                                                   : "",
                 syntax);
  } else if (!form.a.contains(instruction.a) || !form.b.contains(instruction.b)) {
    // The descriptor takes the types with the kind's usual K. CUTLASS's DSL accepts narrow types for K = 64 of f8f6f4.
    if (instruction.kind == MmaKind::f8f6f4 && instruction.k == k_of_code(instruction.kind, instruction.sparse, 1)) {
      check.refuse("types", fmt::format("{} x {}", info(instruction.a).name, info(instruction.b).name),
                   fmt::format("e4m3 or e5m2 with K = {}", instruction.k),
                   "the sources disagree about 4- and 6-bit types there", "PTX ISA 9.4, 9.7.18.2.1, Table 48");
    }
  }
}

void check_qualifiers(const Tcgen05Mma& instruction, InstructionChecker& check) {
  if (instruction.weight_stationary && instruction.cta_group != 1) {
    check.refuse("cta_group", std::to_string(instruction.cta_group), "1 with .ws", "", table_39);
  }
  if (instruction.cta_group != 1 && instruction.cta_group != 2) {
    check.refuse("cta_group", std::to_string(instruction.cta_group), "1 or 2", "", table_39);
  }
  if (instruction.weight_stationary && is_scaled(instruction)) {
    check.refuse(".ws", "present", "absent with block scales", "", syntax);
  }
  if (instruction.collector && (instruction.collector->buffer == CollectorBuffer::a) == instruction.weight_stationary) {
    check.refuse("collector", instruction.weight_stationary ? "a" : "b0..b3",
                 instruction.weight_stationary ? "b0..b3 with .ws" : "a without .ws", "", syntax);
  }
  if (instruction.collector_b && (instruction.weight_stationary || instruction.kind == MmaKind::i8)) {
    check.refuse("collector::b", "present",
                 instruction.weight_stationary ? "absent: .ws has b0..b3" : "absent with kind::i8", "",
                 "PTX ISA 9.4, 9.7.18.10.10; ptxas 13.5");
  }
  if (instruction.ashift) {
    if (instruction.a_source != OperandSource::tmem) {
      check.refuse(".ashift", "present", "absent unless A is in Tensor Memory", "", syntax);
    }
    if (instruction.weight_stationary || is_scaled(instruction)) {
      check.refuse(".ashift", "present", "absent with .ws or block scales", "", syntax);
    }
    if (instruction.m != 128 && instruction.m != 256) {
      check.refuse(".ashift", fmt::format("M = {}", instruction.m), "M = 128 or 256", "", syntax);
    }
    if (instruction.collector && (instruction.collector->operation == CollectorOperation::fill ||
                                  instruction.collector->operation == CollectorOperation::use)) {
      check.refuse("collector", instruction.collector->operation == CollectorOperation::fill ? "fill" : "use",
                   "lastuse, discard or none with .ashift", "", syntax);
    }
    if (instruction.sparse && instruction.m == 128 && instruction.cta_group == 2) {
      check.refuse(".ashift", "rows in halves of 32 lanes (layout C)", "dense, M = 256 or cta_group::1",
                   "these sections define how rows move in 32 lanes, but not in 16 lanes; bitmma does not guess it",
                   "PTX ISA 9.7.16.9.3 and 9.7.16.10.9");
    }
  }
  const bool may_scale_d = info(instruction.kind).has_scale_input_d && !instruction.weight_stationary;
  if (instruction.scale_input_d != 0 && !may_scale_d) {
    check.refuse("scale_input_d", std::to_string(instruction.scale_input_d),
                 "0: only kind::f16 and kind::tf32 without .ws scale D", "", "PTX ISA 9.7.16.10.9");
  } else if (instruction.scale_input_d < 0 || instruction.scale_input_d > 15) {
    check.refuse("scale_input_d", std::to_string(instruction.scale_input_d), "0..15", "", syntax);
  }
  if (instruction.max_shift_code != 0 && !instruction.weight_stationary) {
    check.refuse("max_shift", std::to_string(instruction.max_shift_code), "0 without .ws", "",
                 "PTX ISA 9.7.16.4.2, Table 42");
  }
}

/// ".scale_vec::1X, .block32 or nothing".
std::string print_sizes(const Form& form) {
  std::vector<std::string_view> names;
  bool optional = false;
  for (const LegalScales& row : form.scales) {
    if (row.scale_vec == ScaleVec::unwritten) optional = true;
    else names.push_back(print(row.scale_vec));
  }
  if (optional) return fmt::format("{} or nothing", fmt::join(names, ", "));
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}; it must be written", fmt::join(names, ", "), last);
}

void check_scales(const Tcgen05Mma& instruction, const Form& form, InstructionChecker& check) {
  constexpr std::string_view source = "PTX ISA 9.7.16.10.7, Tables 56 and 57";
  if (form.scales.empty()) {
    if (instruction.scale_vec != ScaleVec::unwritten) {
      check.refuse("size of the scale vector", std::string(print(instruction.scale_vec)),
                   "absent: the kind has no scales");
    }
    return;
  }
  const auto row = std::ranges::find(form.scales, instruction.scale_vec, &LegalScales::scale_vec);
  if (row == form.scales.end()) {
    check.refuse("size of the scale vector",
                 instruction.scale_vec == ScaleVec::unwritten ? "(none)" : std::string(print(instruction.scale_vec)),
                 print_sizes(form), "", source);
    return;
  }
  if (!row->types.contains(instruction.scale_type)) {
    check.refuse(
        "scale type", std::string(info(instruction.scale_type).name),
        info(instruction.kind).is_fp4 && instruction.kind == MmaKind::mxf4nvf4 ? "ue8m0, ue4m3 or ue5m3" : "ue8m0",
        "only mxf4nvf4 has ue4m3 and ue5m3", source);
  }
  for (const auto& [name, id] :
       {std::pair("scale_a_id", instruction.scale_a_id), std::pair("scale_b_id", instruction.scale_b_id)}) {
    const bool is_byte = id >= 0 && id <= 3;  // the descriptor cannot encode others
    if (!is_byte || (id % row->id_step == 0 && id <= row->last_id)) continue;
    check.refuse(name, std::to_string(id), row->id_step == 4 ? "0 with four scales" : "0 or 2",
                 "the id is the byte of the cell that holds the first scale", source);
  }
}

void check_operands(const Tcgen05Mma& instruction, InstructionChecker& check) {
  for (const auto& [name, format, transpose] : {std::tuple("transpose_a", instruction.a, instruction.transpose_a),
                                                std::tuple("transpose_b", instruction.b, instruction.transpose_b)}) {
    if (transpose && info(format).bits < 8) {
      check.refuse(name, "1", fmt::format("0 for {}", info(format).name),
                   "only types of 8, 16 and 32 bits can be MN-major", "PTX ISA 9.4, Table 65");
    }
  }
  if (instruction.a_source == OperandSource::registers) {
    check.refuse("A", "in registers", "in shared or Tensor Memory", "", "PTX ISA 9.7.16.10.9");
  }
  if (instruction.a_source == OperandSource::tmem && instruction.transpose_a) {
    check.refuse("transpose_a", "1", "0 if A is in Tensor Memory", "", "PTX ISA 9.7.16.10.4");
  }
}

}  // namespace

const Form* find(const Tcgen05Mma& instruction) {
  const Form* match = nullptr;
  for (const Form& form : forms()) {
    const bool fits = form.family == Family::tcgen05 && form.kind == instruction.kind && form.d == instruction.d &&
                      form.a.contains(instruction.a) && form.b.contains(instruction.b);
    if (!fits) continue;
    // A longer K has its own rows; a K without a row falls under the ordinary one.
    if (k_of(form, instruction.sparse) == instruction.k) return &form;
    if (!match) match = &form;
  }
  return match;
}

template <>
std::span<const TargetRow<Tcgen05Mma>> target_rows(const Tcgen05Mma&) {
  return parts_of_targets;
}

/// Whether the instruction descriptor might reject a value that the checks above do not cover. Encoding it to find out
/// takes as long as a small product, so it is done only then.
bool descriptor_might_refuse(const Tcgen05Mma& instruction, const Form& form) {
  const auto is_id = [](int id) { return id >= 0 && id <= 3; };
  return !find(instruction) || (info(instruction.kind).input == Format::f16 && instruction.a != instruction.b) ||
         ((instruction.negate_a || instruction.negate_b) && !form.negate) ||
         ((instruction.transpose_a || instruction.transpose_b) && !form.transpose) ||
         (instruction.saturate && !form.saturate) || instruction.sparsity_selector < 0 ||
         instruction.sparsity_selector >= form.selectors || !is_id(instruction.scale_a_id) ||
         !is_id(instruction.scale_b_id) || !is_id(instruction.max_shift_code) || instruction.sparsity_version < 0 ||
         instruction.sparsity_version > (info(instruction.kind).is_fp4 ? 1 : 0) ||
         (instruction.sparse && info(instruction.kind).is_fp4 && instruction.sparsity_version == 0 &&
          k_code_of(instruction.kind, true, instruction.k) == 1) ||
         (form.scales.empty() &&
          (instruction.scale_type != Format::ue8m0 || instruction.scale_a_id != 0 || instruction.scale_b_id != 0));
}

std::vector<Violation> violations(const Tcgen05Mma& instruction, Target) {
  const Form* form = find_kind(instruction);
  InstructionChecker check(table_39);
  check_qualifiers(instruction, check);
  check_shape(instruction, *form, check);
  check_scales(instruction, *form, check);
  check_operands(instruction, check);
  std::vector<Violation> of_form = check.take();
  if (of_form.empty() && !descriptor_might_refuse(instruction, *form)) return of_form;
  // First the values that the descriptor cannot encode: types, signs, numbers that do not fit.
  std::vector<Violation> result;
  try {
    static_cast<void>(idesc_of(instruction));
  } catch (const Error& error) {
    result = error.violations();
  }
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  const std::vector<Violation> of_descriptor = result;
  for (Violation& violation : of_form) {
    const bool is_known = std::ranges::any_of(of_descriptor, [&](const Violation& known) {
      return std::ranges::equal(known.field, violation.field, {}, lower, lower);
    });
    if (!is_known) result.push_back(std::move(violation));
  }
  return result;
}

std::vector<Choice> choices(const Tcgen05Mma& instruction, Target target, const State* state) {
  const Mma mma = describe(instruction);
  const bool scaled = mma.scale_count > 0;
  const bool half_lanes = (mma.m == 64 && !instruction.weight_stationary) || (mma.m == 128 && mma.cta_group == 2);
  const bool unpacked_fp4 = mma.a_source == OperandSource::tmem && mma.a == Format::e2m1 && mma.a_container_bits == 8;
  const bool selects_pairs = sparse_pattern(mma.a_container_bits, mma.sparsity_version) == two_pairs_of_eight;
  const int k_code = k_code_of(instruction.kind, instruction.sparse, instruction.k);
  const bool is_longer = k_code == 2 || (k_code == 1 && (mma.sparse || !info(instruction.kind).is_fp4));
  bool has_base_offset = false, has_wide_rows = false, has_other_absolute_rows = false;
  // K of an illegal instruction may be any number.
  const auto row_bits_of = [](int64_t k, int bits) {
    return static_cast<int>(std::clamp<int64_t>(k * bits, 0, 1 << 20));
  };
  const int a_row_bits = row_bits_of(mma.stored_k(), mma.a_container_bits),
            b_row_bits = row_bits_of(mma.k, mma.b_container_bits);
  for (const auto& [field, major, row_bits] :
       {std::tuple(Field::a_desc, mma.a_major, a_row_bits), std::tuple(Field::b_desc, mma.b_major, b_row_bits)}) {
    if (!state || !state->has(field)) continue;
    const SmemDescriptor descriptor = decode_smem_descriptor(target, state->number(field));
    has_base_offset |= descriptor.base_offset != 0;
    has_wide_rows |= is_wider_than_swizzle(major, info(descriptor.swizzle), row_bits, 1);
    has_other_absolute_rows |= descriptor.leading_dim_absolute && row_bits != 48 * 8;
  }
  // Layout C, D of a sparse M = 128 over two CTAs, comes from TVM and the ISA; CUTLASS's lack of it is not our choice.
  const std::pair<bool, Choice> rows[]{
      {mma.sparse, Choice::sparse_as_dense_tcgen05},
      {mma.scale_input_d != 0, Choice::scale_input_d_exact},
      {mma.k == 96 && !mma.sparse && scaled, Choice::k_96_groups},
      {is_longer && mma.scaling == Scaling::exact_groups, Choice::fp4_longer_k_groups},
      {is_longer && mma.scaling == Scaling::none, Choice::f8f6f4_twice_k},
      {is_longer && mma.scaling == Scaling::whole_k, Choice::mxf8f6f4_twice_k},
      {instruction.kind == MmaKind::ti16, Choice::ti16_wraps},
      {mma.sparse && !selects_pairs, Choice::undefined_metadata_tcgen05},
      {mma.sparse && selects_pairs, Choice::undefined_metadata_mma_sync_fp4},
      {mma.d == Format::f16, Choice::f16_d_upper_half},
      {unpacked_fp4, Choice::e2m1_in_tmem},
      {instruction.ashift, Choice::ashift_rows},
      {instruction.weight_stationary, Choice::zero_column_mask},
      {mma.sparse && half_lanes, Choice::metadata_half_partitions},
      {mma.sparse && mma.sparsity_selector >= 2, Choice::metadata_selectors_2_3},
      {scaled && mma.m == 128 && mma.cta_group == 2, Choice::scales_of_b_over_two_ctas},
      {std::max(instruction.scale_a_id, instruction.scale_b_id) > 4 - mma.scale_count, Choice::scales_behind_byte_3},
      {has_base_offset, Choice::base_offset},
      {has_wide_rows, Choice::rows_wider_than_swizzle},
      {has_other_absolute_rows, Choice::absolute_leading_dim},
  };
  std::vector<Choice> result;
  for (const auto& [applies, choice] : rows) {
    if (applies) result.push_back(choice);
  }
  return result;
}

std::vector<Instruction> instances_of_tcgen05(const Form& form) {
  std::vector<Instruction> all;
  std::vector<std::optional<Collector>> collectors{std::nullopt};
  for (const auto buffer :
       {CollectorBuffer::a, CollectorBuffer::b0, CollectorBuffer::b1, CollectorBuffer::b2, CollectorBuffer::b3}) {
    for (const auto operation : {CollectorOperation::fill, CollectorOperation::use, CollectorOperation::lastuse,
                                 CollectorOperation::discard}) {
      collectors.push_back(Collector{buffer, operation});
    }
  }
  std::vector<ScaleVec> sizes;
  for (const LegalScales& row : form.scales) sizes.push_back(row.scale_vec);
  if (sizes.empty()) sizes.push_back(ScaleVec::unwritten);
  const Format input = info(*form.kind).input;
  // All combinations of ws, sp, cta_group::2 and .ashift; illegal ones are removed below.
  const std::array<std::optional<CollectorOperation>, 5> of_b{std::nullopt, CollectorOperation::fill,
                                                              CollectorOperation::use, CollectorOperation::lastuse,
                                                              CollectorOperation::discard};
  const TargetSet modern = form.targets & rubin;
  for (int bits = 0; bits < 16; ++bits) {
    const bool sparse = (bits & 2) != 0, two = (bits & 4) != 0, ashift = (bits & 8) != 0;
    if ((sparse ? form.k_sparse : form.k_dense) == 0) continue;
    const bool has_versions = sparse && info(*form.kind).is_fp4;
    for (const ScaleVec size : sizes) {
      for (const std::optional<Collector>& collector : collectors) {
        for (const std::optional<CollectorOperation>& collector_b : of_b) {
          if (collector_b && modern.empty()) break;
          Tcgen05Mma instruction{.kind = *form.kind,
                                 .cta_group = two ? 2 : 1,
                                 .weight_stationary = (bits & 1) != 0,
                                 .d = form.d,
                                 .a = input,
                                 .b = input,
                                 .sparse = sparse,
                                 .k = sparse ? form.k_sparse : form.k_dense,
                                 .a_source = ashift ? OperandSource::tmem : OperandSource::smem,
                                 .scale_vec = size,
                                 .ashift = ashift,
                                 .collector = collector,
                                 .collector_b = collector_b};
          // If only sm_107a has the collector or K, its metadata version applies.
          instruction.sparsity_version = has_versions && targets_of(Instruction(instruction)).empty() ? 1 : 0;
          // A combination that is illegal without a collector of B is illegal with one.
          if (!violations(instruction, form.targets.first()).empty()) break;
          all.push_back(instruction);
        }
      }
    }
  }
  return all;
}

namespace {

template <typename T>
const T& one_of(const std::vector<T>& values, RandomStream& random) {
  return values[random.below(static_cast<uint32_t>(values.size()))];
}

std::vector<LegalShape> shapes_of(const Form& form, const Tcgen05Mma& instruction) {
  std::vector<LegalShape> shapes;
  for (const LegalShape& shape : form.shapes) {
    const bool fits = shape.weight_stationary == instruction.weight_stationary &&
                      shape.cta_group == instruction.cta_group && (instruction.sparse ? shape.sparse : shape.dense);
    if (fits) shapes.push_back(shape);
  }
  return shapes;
}

/// One random instruction, legal or not.
Tcgen05Mma drawn(const Tcgen05Mma& mnemonic, const Form& form, RandomStream& random) {
  Tcgen05Mma instruction = mnemonic;
  instruction.a = one_of(rows_of(form.a), random).id;
  instruction.b = one_of(rows_of(form.b), random).id;
  if (!instruction.ashift) instruction.a_source = random.one_in(2) ? OperandSource::smem : OperandSource::tmem;
  const LegalShape shape = one_of(shapes_of(form, instruction), random);
  std::vector<int> all_m, all_n;
  for (const int m : shape.m) {
    if (m != 0) all_m.push_back(m);
  }
  for (int n = shape.n.first; n <= shape.n.last; n += shape.n.step) {
    if (shape.n.contains(n)) all_n.push_back(n);
  }
  instruction.m = one_of(all_m, random);
  instruction.n = one_of(all_n, random);
  if (form.transpose) {
    instruction.transpose_a = instruction.a_source == OperandSource::smem && random.one_in(3);
    instruction.transpose_b = random.one_in(3);
  }
  if (form.negate) {
    instruction.negate_a = random.one_in(3);
    instruction.negate_b = random.one_in(3);
  }
  if (form.saturate) instruction.saturate = random.one_in(2);
  if (instruction.sparse)
    instruction.sparsity_selector = static_cast<int>(random.below(static_cast<uint32_t>(form.selectors)));
  for (const LegalScales& row : form.scales) {
    if (row.scale_vec != instruction.scale_vec) continue;
    instruction.scale_type = one_of(rows_of(row.types), random).id;
    const auto steps = static_cast<uint32_t>(row.last_id / row.id_step + 1);
    instruction.scale_a_id = row.id_step * static_cast<int>(random.below(steps));
    instruction.scale_b_id = row.id_step * static_cast<int>(random.below(steps));
  }
  const bool may_scale_d = info(*form.kind).has_scale_input_d;
  if (may_scale_d && !instruction.weight_stationary && random.one_in(4))
    instruction.scale_input_d = random.between(1, 15);
  instruction.enable_input_d = !random.one_in(8);
  return instruction;
}

}  // namespace

Instruction vary(const Tcgen05Mma& mnemonic, Target target, int64_t, RandomStream& random) {
  const Form& form = *find(mnemonic);
  constexpr int draws = 64;  // some shapes reject some types: a few draws find a legal combination
  for (int i = 0; i < draws; ++i) {
    const Tcgen05Mma instruction = drawn(mnemonic, form, random);
    if (violations_of(instruction, target).empty()) return instruction;
  }
  return mnemonic;
}

}  // namespace family
}  // namespace bitmma
