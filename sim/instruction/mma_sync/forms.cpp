// SPDX-License-Identifier: MIT
// mma.sync: its rows of the form table, its further rules, and every mnemonic.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "../family.hpp"

namespace bitmma::family {
namespace {

constexpr std::string_view syntax = "PTX ISA 9.7.14.5.14; ptxas 13.5";

const LegalScales* find_scales(const Form& form, const MmaSync& instruction) {
  const auto row = std::ranges::find_if(form.scales, [&](const LegalScales& scales) {
    return scales.scale_vec == instruction.scale_vec && scales.types.contains(instruction.scale_type);
  });
  return row == form.scales.end() ? nullptr : &*row;
}

/// ".scale_vec::2X with ue8m0, .scale_vec::4X with ue4m3".
std::string print_scales(const Form& form) {
  const bool optional =
      std::ranges::find(form.scales, ScaleVec::unwritten, &LegalScales::scale_vec) != form.scales.end();
  std::string text;
  for (const LegalScales& scales : form.scales) {
    if (scales.scale_vec == ScaleVec::unwritten) continue;
    for (const FormatInfo& format : formats) {
      if (!scales.types.contains(format.id)) continue;
      text += fmt::format("{}{}{} with {}", text.empty() ? "" : ", ", print(scales.scale_vec),
                          optional ? " or nothing" : "", format.name);
    }
  }
  return text;
}

std::string print_set(const FormatSet& set) { return fmt::format("{}", fmt::join(row_names(rows_of(set)), "|")); }

std::string print_kind(const std::optional<MmaKind>& kind) {
  return kind ? fmt::format("kind::{}", info(*kind).name) : "(none)";
}

int m_of(const Form& form) { return form.shapes.front().m.front(); }

/// Counts the properties that a row and an instruction share. A property with more weight is more likely intended.
struct Property {
  std::string_view field;
  int weight = 1;
  bool (*fits)(const Form&, const MmaSync&);
  std::string (*seen)(const MmaSync&);
  std::string (*legal)(const Form&, const MmaSync&);
};

constexpr auto properties = std::to_array<Property>({
    {.field = "kind",
     .weight = 9,
     .fits = [](const Form& form, const MmaSync& i) { return form.kind == i.kind; },
     .seen = [](const MmaSync& i) { return print_kind(i.kind); },
     .legal = [](const Form& form, const MmaSync&) { return print_kind(form.kind); }},
    {.field = "atype",
     .weight = 4,
     .fits = [](const Form& form, const MmaSync& i) { return form.a.contains(i.a); },
     .seen = [](const MmaSync& i) { return std::string(info(i.a).name); },
     .legal = [](const Form& form, const MmaSync&) { return print_set(form.a); }},
    {.field = "btype",
     .weight = 4,
     .fits = [](const Form& form, const MmaSync& i) { return form.b.contains(i.b); },
     .seen = [](const MmaSync& i) { return std::string(info(i.b).name); },
     .legal = [](const Form& form, const MmaSync&) { return print_set(form.b); }},
    {.field = "dtype",
     .weight = 2,
     .fits = [](const Form& form, const MmaSync& i) { return form.d == i.d; },
     .seen = [](const MmaSync& i) { return std::string(info(i.d).name); },
     .legal = [](const Form& form, const MmaSync&) { return std::string(info(form.d).name); }},
    {.field = ".sp",
     .weight = 3,
     .fits = [](const Form& form, const MmaSync& i) { return (i.sparse ? form.k_sparse : form.k_dense) != 0; },
     .seen = [](const MmaSync& i) -> std::string { return i.sparse ? "present" : "absent"; },
     .legal = [](const Form& form, const MmaSync&) -> std::string {
       return form.k_dense != 0 ? "absent: these types have no sparse form" : "present: these types are sparse only";
     }},
    {.field = "shape",
     .fits =
         [](const Form& form, const MmaSync& i) {
           return m_of(form) == i.m && i.n == 8 && (i.sparse ? form.k_sparse : form.k_dense) == i.k;
         },
     .seen = [](const MmaSync& i) { return fmt::format("m{}n{}k{}", i.m, i.n, i.k); },
     .legal =
         [](const Form& form, const MmaSync& i) {
           return fmt::format("m{}n8k{}", m_of(form), i.sparse ? form.k_sparse : form.k_dense);
         }},
    {.field = "ctype",
     .fits = [](const Form& form, const MmaSync& i) { return form.c == i.c; },
     .seen = [](const MmaSync& i) { return std::string(info(i.c).name); },
     .legal = [](const Form& form, const MmaSync&) { return std::string(info(form.c).name); }},
    {.field = "operation",
     .fits = [](const Form& form, const MmaSync& i) { return form.bit_operation == i.bit_operation; },
     .seen =
         [](const MmaSync& i) {
           return i.bit_operation == BitOperation::none ? "(none)" : std::string(print(i.bit_operation));
         },
     .legal = [](const Form& form, const MmaSync&) -> std::string {
       return form.bit_operation == BitOperation::none ? "absent: only b1 has one"
                                                       : std::string(print(form.bit_operation));
     }},
});

/// The family's rows that share most properties with the instruction.
std::vector<const Form*> nearest_rows(const MmaSync& instruction) {
  std::vector<const Form*> nearest;
  int most = 0;
  for (const Form& form : forms()) {
    if (form.family != Family::mma_sync) continue;
    int weight = 0;
    for (const Property& property : properties) weight += property.fits(form, instruction) ? property.weight : 0;
    if (weight < most) continue;
    if (weight > most) nearest.clear();
    most = weight;
    nearest.push_back(&form);
  }
  return nearest;
}

bool fits(const Form& form, const MmaSync& instruction) {
  return std::ranges::all_of(properties, [&](const Property& property) { return property.fits(form, instruction); });
}

/// Refuses every property in which the instruction differs from the nearest row, with the values of such rows.
void refuse_misfits(InstructionChecker& check, const MmaSync& instruction, std::span<const Form* const> nearest) {
  for (const Property& wrong : properties) {
    if (wrong.fits(*nearest.front(), instruction)) continue;
    std::vector<std::string> legal;
    for (const Form* form : nearest) {
      std::string value = wrong.legal(*form, instruction);
      if (!wrong.fits(*form, instruction) && std::ranges::find(legal, value) == legal.end())
        legal.push_back(std::move(value));
    }
    const bool needs_kind = wrong.field == "atype" && !instruction.kind && info(instruction.a).bits < 8 &&
                            info(instruction.a).kind == NumberKind::floating;
    check.refuse(wrong.field, wrong.seen(instruction), fmt::format("{}", fmt::join(legal, ", ")),
                 needs_kind ? "these types need .kind::f8f6f4 or a kind with block scales" : "");
  }
}

}  // namespace

template <>
std::span<const TargetRow<MmaSync>> target_rows(const MmaSync&) {
  static constexpr auto rows = std::to_array<TargetRow<MmaSync>>({
      {.what = ".sp",
       .targets = architecture_specific(target_sets::consumer_blackwell),
       .source = "PTX ISA 9.7.14.6.3; ptxas 13.5",
       .applies = [](const MmaSync& i) { return i.sparse && i.has_scales() && info(*i.kind).is_fp4; }},
  });
  return rows;
}

template <>
PtxVersion ptx_version(const MmaSync& instruction, const Form* form) {
  const LegalScales* scales = form ? find_scales(*form, instruction) : nullptr;
  PtxVersion version = scales ? scales->ptx : PtxVersion{};
  if (instruction.ordered_metadata) version = std::max(version, PtxVersion{8, 5});
  return version;
}

const Form* find(const MmaSync& instruction) {
  const auto row = std::ranges::find_if(
      forms(), [&](const Form& form) { return form.family == Family::mma_sync && fits(form, instruction); });
  return row == forms().end() ? nullptr : &*row;
}

std::vector<Violation> violations(const MmaSync& instruction, Target) {
  const Form* form = find(instruction);
  InstructionChecker check(form ? form->source : syntax);
  if (!form) {
    const std::vector<const Form*> nearest = nearest_rows(instruction);
    refuse_misfits(check, instruction, nearest);
    form = nearest.front();
  }
  if (!form->any_layout && (instruction.a_col || instruction.b_row)) {
    check.refuse("layout", fmt::format(".{}.{}", instruction.a_col ? "col" : "row", instruction.b_row ? "row" : "col"),
                 ".row.col", "only m8n8k4 of f16 has others");
  }
  check.require(!instruction.saturate || form->saturate, ".satfinite", "present", "absent for these types",
                "only 8- and 4-bit integers have it");
  if (instruction.rounding) {
    check.require(form->rounds, "rounding", "present", "absent for these types", "only f64 has it");
    check.require(*instruction.rounding != Rounding::nearest_away, "rounding", ".rna", ".rn, .rz, .rm or .rp");
  }
  if (instruction.sparse) {
    check.require(instruction.ordered_metadata || !form->ordered_only, ".sp", ".sp", ".sp::ordered_metadata");
  } else {
    check.require(!instruction.ordered_metadata, "::ordered_metadata", "present", "absent without .sp");
  }
  const int selectors = instruction.sparse ? form->selectors : 1;
  check.require(instruction.sparsity_selector >= 0 &&
                        instruction.sparsity_selector<selectors, "sparsity_selector",
                                                      std::to_string(instruction.sparsity_selector), selectors> 1
                    ? fmt::format("0..{}", selectors - 1)
                : instruction.sparse ? "0"
                                     : "0 without .sp");
  const auto require_id = [&](std::string_view name, int id, int last, int step) {
    check.require(id >= 0 && id <= last && id % step == 0, name, std::to_string(id),
                  last == 0   ? "0"
                  : step == 2 ? "0 or 2"
                              : fmt::format("0..{}", last));
  };
  if (!instruction.has_scales()) {
    check.require(instruction.scale_vec == ScaleVec::unwritten, "scale vector and type",
                  std::string(print(instruction.scale_vec)), "absent without block scales");
    for (const int id :
         {instruction.byte_id_a, instruction.byte_id_b, instruction.thread_id_a, instruction.thread_id_b})
      require_id("byte_id, thread_id", id, 0, 1);
    return check.take();
  }
  const LegalScales* scales = find_scales(*form, instruction);
  if (!scales) {
    check.refuse("scale vector and type",
                 fmt::format("{} with {}",
                             instruction.scale_vec == ScaleVec::unwritten ? "(none)" : print(instruction.scale_vec),
                             info(instruction.scale_type).name),
                 print_scales(*form));
    return check.take();
  }
  require_id("byte_id_a", instruction.byte_id_a, scales->last_id, scales->id_step);
  require_id("byte_id_b", instruction.byte_id_b, scales->last_id, scales->id_step);
  require_id("thread_id_a", instruction.thread_id_a, 1, 1);
  require_id("thread_id_b", instruction.thread_id_b, 3, 1);
  return check.take();
}

namespace {

/// The parts of a mnemonic other than types and shape, in every legal combination of the form.
std::vector<MmaSync> with_qualifiers(const Form& form, const MmaSync& plain) {
  std::vector<MmaSync> all;
  for (const bool saturate : {false, true}) {
    for (const bool a_col : {false, true}) {
      for (const bool b_row : {false, true}) {
        for (const bool ordered : {true, false}) {
          for (const std::optional<Rounding> rounding :
               {std::optional<Rounding>{}, std::optional(Rounding::nearest_even), std::optional(Rounding::toward_zero),
                std::optional(Rounding::toward_negative), std::optional(Rounding::toward_positive)}) {
            if ((saturate && !form.saturate) || ((a_col || b_row) && !form.any_layout) || (rounding && !form.rounds) ||
                (!ordered && (!plain.sparse || form.ordered_only)))
              continue;
            MmaSync instruction = plain;
            instruction.saturate = saturate, instruction.a_col = a_col, instruction.b_row = b_row,
            instruction.rounding = rounding;
            instruction.ordered_metadata = instruction.sparse && ordered;
            all.push_back(instruction);
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

std::vector<Instruction> instances_of_mma_sync(const Form& form) {
  static constexpr LegalScales none{};
  std::vector<Instruction> all;
  for (const LegalScales& scales : form.scales.empty() ? std::span(&none, 1) : form.scales) {
    for (const bool sparse : {false, true}) {
      const int k = sparse ? form.k_sparse : form.k_dense;
      for (const FormatInfo& a : formats) {
        for (const FormatInfo& b : formats) {
          if (k == 0 || !form.a.contains(a.id) || !form.b.contains(b.id)) continue;
          const bool has_ue4m3 = !form.scales.empty() && !scales.types.contains(Format::ue8m0);
          const MmaSync plain{.kind = form.kind,
                              .m = m_of(form),
                              .d = form.d,
                              .a = a.id,
                              .b = b.id,
                              .c = form.c,
                              .sparse = sparse,
                              .k = k,
                              .bit_operation = form.bit_operation,
                              .scale_vec = scales.scale_vec,
                              .scale_type = has_ue4m3 ? Format::ue4m3 : Format::ue8m0};
          for (const MmaSync& instruction : with_qualifiers(form, plain)) all.push_back(instruction);
        }
      }
    }
  }
  return all;
}

Instruction vary(const MmaSync& mnemonic, Target, int64_t, RandomStream& random) {
  MmaSync instruction = mnemonic;
  if (instruction.sparse)
    instruction.sparsity_selector = static_cast<int>(random.below(static_cast<uint32_t>(find(instruction)->selectors)));
  return instruction;
}

}  // namespace bitmma::family
