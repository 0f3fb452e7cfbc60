#include "bitmma/instruction/mma_sync.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace bitmma {
namespace {

constexpr FormatSet f8f6f4{Format::e4m3, Format::e5m2, Format::e2m3, Format::e3m2, Format::e2m1};
constexpr FormatSet fp4{Format::e2m1};

// PTX's table also has mxf4nvf4 with 4X and ue8m0; ptxas 13.0 refuses it on every target, and so does this table.
constexpr auto forms = std::to_array<MmaSyncForm>({
    {.kind = MmaKind::mxf8f6f4,
     .inputs = f8f6f4,
     .k_dense = 32,
     .scale_vec = ".scale_vec::1X",
     .scale_vec_optional = true,
     .scales = 1},
    {.kind = MmaKind::mxf4,
     .inputs = fp4,
     .k_dense = 64,
     .scale_vec = ".scale_vec::2X",
     .scale_vec_optional = true,
     .scales = 2},
    {.kind = MmaKind::mxf4nvf4, .inputs = fp4, .k_dense = 64, .scale_vec = ".scale_vec::2X", .scales = 2},
    {.kind = MmaKind::mxf4nvf4,
     .inputs = fp4,
     .k_dense = 64,
     .scale_vec = ".scale_vec::4X",
     .scale_type = Format::ue4m3,
     .scales = 4},
});

constexpr std::string_view source = "PTX ISA 9.7.14.3; ptxas 13.0";

bool fits(const MmaSyncForm& form, const Instruction& instruction) {
  return form.kind == instruction.kind && form.scale_type == instruction.scale_type &&
         (form.scale_vec == instruction.scale_vec || (form.scale_vec_optional && instruction.scale_vec.empty()));
}

}  // namespace

std::span<const MmaSyncForm> mma_sync_forms() { return forms; }

std::vector<Violation> mma_sync_violations(const Instruction& instruction) {
  std::vector<Violation> found;
  const auto refuse = [&](std::string field, std::string seen, std::string legal, std::string fix = {}) {
    found.push_back({.field = std::move(field),
                     .seen = std::move(seen),
                     .legal = std::move(legal),
                     .fix = std::move(fix),
                     .source = std::string(source)});
  };
  const auto require_id = [&](std::string_view name, int id, int last, int step) {
    if (id >= 0 && id <= last && id % step == 0) return;
    refuse(std::string(name), std::to_string(id), last == 0 ? "0" : step == 2 ? "0 or 2" : fmt::format("0..{}", last));
  };
  const auto form = std::ranges::find_if(forms, [&](const MmaSyncForm& row) { return fits(row, instruction); });
  if (form == forms.end()) {
    std::string legal;
    for (const MmaSyncForm& row : forms) {
      if (row.kind == instruction.kind)
        legal += fmt::format("{}{}{} with {}", legal.empty() ? "" : ", ", row.scale_vec,
                             row.scale_vec_optional ? " or nothing" : "", info(row.scale_type).name);
    }
    refuse("scale vector and type",
           fmt::format("{} with {}", instruction.scale_vec.empty() ? "(none)" : instruction.scale_vec,
                       info(instruction.scale_type).name),
           legal.empty() ? "kind::mxf8f6f4, mxf4 or mxf4nvf4: no other kind has block scales" : legal);
    return found;
  }
  const int k = form->k_dense * (instruction.sparse ? 2 : 1);
  if (instruction.m != 16 || instruction.n != 8 || instruction.k != k) {
    refuse("shape", fmt::format("m{}n{}k{}", instruction.m, instruction.n, instruction.k), fmt::format("m16n8k{}", k));
  }
  if (instruction.d != Format::f32) refuse("dtype", std::string(info(instruction.d).name), "f32");
  for (const auto& [name, format] : {std::pair("atype", instruction.a), std::pair("btype", instruction.b)}) {
    if (!form->inputs.contains(format))
      refuse(name, std::string(info(format).name), form->scales == 1 ? "e4m3, e5m2, e2m3, e3m2 or e2m1" : "e2m1");
  }
  const int last = form->scales == 1 ? 3 : form->scales == 2 ? 2 : 0, step = form->scales == 2 ? 2 : 1;
  require_id("byte_id_a", instruction.scale_a_id, last, step);
  require_id("byte_id_b", instruction.scale_b_id, last, step);
  require_id("thread_id_a", instruction.thread_a_id, 1, 1);
  require_id("thread_id_b", instruction.thread_b_id, 3, 1);
  if (instruction.sparsity_selector != 0)
    refuse("sparsity_selector", std::to_string(instruction.sparsity_selector), "0");
  if (instruction.imm_trans_a != 0 || instruction.imm_trans_b != 0)
    refuse("major", "mn-major", "k-major: .row.col only");
  if (instruction.imm_scale_a != 1 || instruction.imm_scale_b != 1) refuse("sign", "-1", "1: mma.sync negates nothing");
  if (instruction.scale_d != 1) refuse("scale_d", std::to_string(instruction.scale_d), "1: C is always read");
  return found;
}

std::vector<Instruction> all_mma_sync_instructions() {
  std::vector<Instruction> all;
  for (const MmaSyncForm& form : forms) {
    for (const bool sparse : {false, true}) {
      for (const bool written : {true, false}) {
        if (!written && !form.scale_vec_optional) continue;
        for (const FormatInfo& a : formats) {
          for (const FormatInfo& b : formats) {
            if (!form.inputs.contains(a.id) || !form.inputs.contains(b.id)) continue;
            all.push_back({.family = Family::mma_sync,
                           .sparse = sparse,
                           .m = 16,
                           .n = 8,
                           .k = form.k_dense * (sparse ? 2 : 1),
                           .d = Format::f32,
                           .a = a.id,
                           .b = b.id,
                           .kind = form.kind,
                           .scale_vec = written ? std::string(form.scale_vec) : "",
                           .scale_type = form.scale_type,
                           .a_source = OperandSource::registers});
          }
        }
      }
    }
  }
  return all;
}

RegisterPlace scale_a_place(const Instruction& instruction, int row, int j) {
  return {.thread = 4 * (row % 8) + 2 * instruction.thread_a_id + row / 8,
          .reg = 0,
          .bit = 8 * (instruction.scale_a_id + j)};
}

RegisterPlace scale_b_place(const Instruction& instruction, int col, int j) {
  return {.thread = 4 * col + instruction.thread_b_id, .reg = 0, .bit = 8 * (instruction.scale_b_id + j)};
}

RegisterPlace ordered_metadata_place(int row, int chunk) {
  return {.thread = 4 * (row % 8) + row / 8 + 2 * (chunk / 8), .reg = 0, .bit = 4 * (chunk % 8)};
}

}  // namespace bitmma
