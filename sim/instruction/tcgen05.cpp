#include "bitmma/instruction/tcgen05.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bitmma/instruction/legality.hpp"

namespace bitmma {
namespace {

using enum MmaKind;

constexpr KindSet floats{f16, tf32, f8f6f4}, integers{i8}, unscaled{f16, tf32, f8f6f4, i8},
    scaled{mxf8f6f4, mxf4, mxf4nvf4};

constexpr auto forms = std::to_array<Tcgen05Form>({
    {.kinds = floats, .cta_group = 1, .m = {64, 128}, .n_first = 8, .n_step = 8, .n_text = "8..256 in steps of 8"},
    {.kinds = floats, .cta_group = 2, .m = {128, 256}, .n_first = 16, .n_step = 16, .n_text = "16..256 in steps of 16"},
    {.kinds = integers,
     .cta_group = 1,
     .m = {64, 128},
     .n_is_i8_list = true,
     .n_text = "8, 16, 24, 32 and 48..256 in steps of 16"},
    {.kinds = integers,
     .cta_group = 2,
     .m = {128, 256},
     .n_first = 32,
     .n_step = 32,
     .n_text = "32..256 in steps of 32"},
    {.kinds = unscaled,
     .ws = true,
     .cta_group = 1,
     .sparse = false,
     .m = {32, 64, 128},
     .n_first = 64,
     .n_last = 256,
     .n_is_power = true,
     .n_text = "64, 128 or 256"},
    {.kinds = unscaled,
     .ws = true,
     .cta_group = 1,
     .dense = false,
     .m = {32, 64, 128},
     .n_first = 64,
     .n_last = 128,
     .n_is_power = true,
     .n_text = "64 or 128"},
    {.kinds = scaled, .cta_group = 1, .m = {128}, .n_first = 8, .n_step = 8, .n_text = "8..256 in steps of 8"},
    {.kinds = scaled,
     .cta_group = 2,
     .sparse = false,
     .m = {128, 256},
     .n_first = 16,
     .n_step = 16,
     .n_text = "16..256 in steps of 16"},
    {.kinds = scaled,
     .cta_group = 2,
     .dense = false,
     .m = {256},
     .n_first = 16,
     .n_step = 16,
     .n_text = "16..256 in steps of 16"},
});

/// Which sizes of scale vectors a kind takes, as they are written; "" where one need not be. ptxas 13.0.
struct ScaleVecs {
  MmaKind kind;
  std::array<std::string_view, 4> texts;
  std::string_view legal;
};
constexpr auto scale_vecs = std::to_array<ScaleVecs>({
    {mxf8f6f4, {"", ".scale_vec::1X", ".block32", ".scale_vec::1X"}, ".scale_vec::1X, .block32 or nothing"},
    {mxf4, {"", ".scale_vec::2X", ".block32", ".block32"}, ".scale_vec::2X, .block32 or nothing"},
    {mxf4nvf4,
     {".scale_vec::2X", ".scale_vec::4X", ".block16", ".block32"},
     ".scale_vec::2X, .scale_vec::4X, .block16 or .block32; it must be written"},
});

constexpr std::string_view table_39 = "PTX ISA 9.7.16.2.1, Table 39";

bool has_n(const Tcgen05Form& form, int n) {
  if (form.n_is_i8_list) return contains(NumberList::multiples_of_16_or_24, n);
  if (n < form.n_first || n > form.n_last) return false;
  return form.n_is_power ? (n & (n - 1)) == 0 : n % form.n_step == 0;
}

/// K of one instruction: 32 bytes of a dense A, or the 48 of K = 96; twice as much when sparse.
int k_of(const Instruction& instruction, bool k_96) {
  if (k_96) return 96;
  return 256 / instruction.container_bits(instruction.a) * (instruction.sparse ? 2 : 1);
}

using Refuse = std::function<void(std::string field, std::string seen, std::string legal, std::string fix,
                                  std::string_view source)>;

void check_shape(const Instruction& instruction, const Refuse& refuse) {
  const auto form = std::ranges::find_if(forms, [&](const Tcgen05Form& row) {
    return row.kinds.contains(instruction.kind) && row.ws == instruction.weight_stationary &&
           row.cta_group == instruction.cta_group && (instruction.sparse ? row.sparse : row.dense);
  });
  if (form == forms.end()) return;  // .ws with two CTAs or with scales: refused by check_qualifiers
  if (std::ranges::find(form->m, instruction.m) == form->m.end() || instruction.m == 0) {
    std::vector<int> legal;
    std::ranges::copy_if(form->m, std::back_inserter(legal), [](int m) { return m != 0; });
    refuse("M", std::to_string(instruction.m),
           fmt::format("{} with cta_group::{}{}{}", fmt::join(legal, " or "), instruction.cta_group,
                       instruction.weight_stationary ? " and .ws" : "",
                       instruction.has_block_scales() ? " and block scales" : ""),
           "", table_39);
  }
  if (!has_n(*form, instruction.n)) refuse("N", std::to_string(instruction.n), std::string(form->n_text), "", table_39);
  const bool in_bytes = instruction.container_bits(instruction.b) == 8;
  const int transposed_step = 16 * instruction.cta_group;
  if (in_bytes && instruction.imm_trans_b == 1 && instruction.n % transposed_step != 0) {
    refuse("N", std::to_string(instruction.n),
           fmt::format("a multiple of {} when an 8-bit B is N-major", transposed_step), "",
           "PTX ISA 9.7.16.10, Table 52");
  }
}

void check_qualifiers(const Instruction& instruction, const Refuse& refuse) {
  constexpr std::string_view syntax = "PTX ISA 9.7.16.10.9; ptxas 13.0";
  if (instruction.weight_stationary && instruction.cta_group != 1)
    refuse("cta_group", std::to_string(instruction.cta_group), "1 with .ws", "", table_39);
  if (instruction.weight_stationary && instruction.has_block_scales())
    refuse(".ws", "present", "absent with block scales", "", syntax);
  if (instruction.ashift) {
    const bool keeps_a = instruction.collector.ends_with("::fill") || instruction.collector.ends_with("::use");
    if (instruction.a_source != OperandSource::tmem)
      refuse(".ashift", "present", "absent unless A is in Tensor Memory", "", syntax);
    if (instruction.weight_stationary || instruction.has_block_scales())
      refuse(".ashift", "present", "absent with .ws or block scales", "", syntax);
    if (instruction.m != 128 && instruction.m != 256)
      refuse(".ashift", fmt::format("M = {}", instruction.m), "M = 128 or 256", "", syntax);
    if (keeps_a) refuse("collector", instruction.collector, "lastuse, discard or none with .ashift", "", syntax);
    if (instruction.sparse && instruction.m == 128 && instruction.cta_group == 2) {
      refuse(".ashift", "rows in halves of 32 lanes (layout C)", "dense, M = 256 or cta_group::1",
             "legal PTX, but no source says which rows move there; bitmma does not guess", "");
    }
  }
  const bool may_scale_d = (instruction.kind == f16 || instruction.kind == tf32) && !instruction.weight_stationary;
  if (instruction.scale_input_d != 0 && !may_scale_d) {
    refuse("scale_input_d", std::to_string(instruction.scale_input_d),
           "0: only kind::f16 and kind::tf32 without .ws scale D", "", "PTX ISA 9.7.16.10.9");
  } else if (instruction.scale_input_d < 0 || instruction.scale_input_d > 15) {
    refuse("scale_input_d", std::to_string(instruction.scale_input_d), "0..15", "", syntax);
  }
  if (instruction.max_shift_code != 0 && !instruction.weight_stationary) {
    refuse("max_shift", std::to_string(instruction.max_shift_code), "0 without .ws", "",
           "PTX ISA 9.7.16.4.2, Table 42");
  }
}

void check_scales(const Instruction& instruction, const Refuse& refuse) {
  constexpr std::string_view source = "PTX ISA 9.7.16.10.7, Tables 56 and 57";
  const auto row = std::ranges::find(scale_vecs, instruction.kind, &ScaleVecs::kind);
  if (row == scale_vecs.end()) return;
  if (std::ranges::find(row->texts, std::string_view(instruction.scale_vec)) == row->texts.end()) {
    refuse("size of the scale vector", instruction.scale_vec.empty() ? "(none)" : instruction.scale_vec,
           std::string(row->legal), "", source);
    return;
  }
  const int count = instruction.scale_count();
  if (instruction.scale_type == Format::ue4m3 && !(instruction.kind == mxf4nvf4 && (count == 4 || count == 6))) {
    refuse("scale type", "ue4m3", "ue8m0; ue4m3 goes with mxf4nvf4 and a scale for every 16 (.scale_vec::4X, .block16)",
           "bit 23 of the instruction descriptor", source);
  }
  // Where the first scale may stand in its cell, by how many there are.
  const int step = count == 4 ? 4 : count == 2 || count == 6 ? 2 : 1;
  for (const auto& [name, id] :
       {std::pair("scale_a_id", instruction.scale_a_id), std::pair("scale_b_id", instruction.scale_b_id)}) {
    if (id % step != 0)
      refuse(name, std::to_string(id), step == 4 ? "0 with four scales" : "0 or 2",
             "it is the byte of the cell that holds the first scale", source);
  }
}

void check_operands(const Instruction& instruction, const Refuse& refuse) {
  for (const auto& [name, format, transpose] : {std::tuple("transpose_a", instruction.a, instruction.imm_trans_a),
                                                std::tuple("transpose_b", instruction.b, instruction.imm_trans_b)}) {
    if (transpose == 1 && info(format).bits < 8)
      refuse(name, "1", fmt::format("0 for {}", info(format).name),
             "the sources disagree about MN-major 4- and 6-bit types", "PTX ISA Table 54");
  }
  if (instruction.a_source == OperandSource::registers)
    refuse("A", "in registers", "in shared or Tensor Memory", "", "PTX ISA 9.7.16.10.9");
  if (instruction.a_source == OperandSource::tmem && instruction.imm_trans_a == 1)
    refuse("transpose_a", "1", "0 when A is in Tensor Memory", "", "PTX ISA 9.7.16.10.4");
}

}  // namespace

std::span<const Tcgen05Form> tcgen05_forms() { return forms; }

Instruction with_idesc(Instruction instruction, uint32_t idesc) {
  const InstructionDescriptor d = decode_instruction_descriptor(instruction.kind, idesc);
  if (d.sparse != instruction.sparse) {
    throw Error({.field = "sparse bit of the instruction descriptor",
                 .seen = d.sparse ? "1" : "0",
                 .legal = instruction.sparse ? "1, as the mnemonic has .sp" : "0, as the mnemonic has no .sp",
                 .fix = "",
                 .source = "PTX ISA 9.7.16.4.2"});
  }
  instruction.m = d.m, instruction.n = d.n;
  instruction.d = d.d, instruction.a = d.a, instruction.b = d.b;
  instruction.k = k_of(instruction, d.k_96);
  instruction.satfinite = d.saturate;
  instruction.imm_scale_a = d.negate_a ? -1 : 1, instruction.imm_scale_b = d.negate_b ? -1 : 1;
  instruction.imm_trans_a = d.transpose_a, instruction.imm_trans_b = d.transpose_b;
  instruction.sparsity_selector = d.sparsity_selector;
  instruction.max_shift_code = d.max_shift_code;
  instruction.scale_type = d.scale_type;
  instruction.scale_a_id = d.scale_a_id, instruction.scale_b_id = d.scale_b_id;
  return instruction;
}

uint32_t idesc_of(const Instruction& instruction) {
  return encode(InstructionDescriptor{.kind = instruction.kind,
                                      .m = instruction.m,
                                      .n = instruction.n,
                                      .d = instruction.d,
                                      .a = instruction.a,
                                      .b = instruction.b,
                                      .sparse = instruction.sparse,
                                      .sparsity_selector = instruction.sparsity_selector,
                                      .saturate = instruction.satfinite,
                                      .negate_a = instruction.imm_scale_a == -1,
                                      .negate_b = instruction.imm_scale_b == -1,
                                      .transpose_a = instruction.imm_trans_a == 1,
                                      .transpose_b = instruction.imm_trans_b == 1,
                                      .max_shift_code = instruction.max_shift_code,
                                      .scale_type = instruction.scale_type,
                                      .scale_a_id = instruction.scale_a_id,
                                      .scale_b_id = instruction.scale_b_id,
                                      .k_96 = instruction.k == 96});
}

std::vector<Violation> tcgen05_violations(const Instruction& instruction) {
  std::vector<Violation> found;
  const Refuse refuse = [&](std::string field, std::string seen, std::string legal, std::string fix,
                            std::string_view source) {
    found.push_back({.field = std::move(field),
                     .seen = std::move(seen),
                     .legal = std::move(legal),
                     .fix = std::move(fix),
                     .source = std::string(source)});
  };
  check_qualifiers(instruction, refuse);
  check_shape(instruction, refuse);
  check_scales(instruction, refuse);
  check_operands(instruction, refuse);
  return found;
}

std::vector<Instruction> all_tcgen05_mnemonics() {
  std::vector<Instruction> all;
  std::vector<std::string> collectors{""};
  for (const char* buffer : {"a", "b0", "b1", "b2", "b3"}) {
    for (const char* operation : {"fill", "use", "lastuse", "discard"})
      collectors.push_back(fmt::format(".collector::{}::{}", buffer, operation));
  }
  for (const MmaKindInfo& kind : mma_kinds) {
    const Format type = kind.table == 44  ? Format::e2m1
                        : kind.id == f16  ? Format::f16
                        : kind.id == tf32 ? Format::tf32
                        : kind.id == i8   ? Format::s8
                                          : Format::e4m3;
    std::vector<std::string> sizes{""};
    if (const auto row = std::ranges::find(scale_vecs, kind.id, &ScaleVecs::kind); row != scale_vecs.end()) {
      sizes.assign(row->texts.begin(), row->texts.end());
      std::ranges::sort(sizes);
      sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
    }
    // ws, sp, cta_group::2 and .ashift in every combination; what is illegal falls out below.
    for (int bits = 0; bits < 16; ++bits) {
      for (const std::string& size : sizes) {
        for (const std::string& collector : collectors) {
          Instruction one{.family = Family::tcgen05,
                          .sparse = (bits & 2) != 0,
                          .m = bits & 4 ? 256 : 128,
                          .n = 64,
                          .d = kind.id == i8 ? Format::s32 : Format::f32,
                          .a = type,
                          .b = type,
                          .kind = kind.id,
                          .cta_group = bits & 4 ? 2 : 1,
                          .weight_stationary = (bits & 1) != 0,
                          .collector = collector,
                          .ashift = (bits & 8) != 0,
                          .scale_vec = size};
          one.a_source = one.ashift ? OperandSource::tmem : OperandSource::smem;
          one.k = k_of(one, false);
          const bool buffer_fits = collector.empty() || collector.starts_with(".collector::a") != one.weight_stationary;
          if (buffer_fits && tcgen05_violations(one).empty()) all.push_back(one);
        }
      }
    }
  }
  return all;
}

std::vector<std::string_view> tcgen05_targets(const Instruction& instruction) {
  if (instruction.kind == i8) return {"sm_100a"};
  if (instruction.k == 96) return {"sm_103a"};
  return {"sm_100a", "sm_103a"};
}

}  // namespace bitmma
