// mma.sync with block scales: which rows of the form table are its own, what else must hold, every mnemonic.
#include <fmt/format.h>

#include <algorithm>

#include "../family.hpp"

namespace bitmma::family {
namespace {

constexpr std::string_view source = "PTX ISA 9.7.14.3; ptxas 13.0";

const LegalScales* find_scales(const Form& form, const MmaSync& instruction) {
  const auto row = std::ranges::find_if(form.scales, [&](const LegalScales& scales) {
    return scales.scale_vec == instruction.scale_vec && scales.types.contains(instruction.scale_type);
  });
  return row == form.scales.end() ? nullptr : &*row;
}

const Form* find_kind(MmaKind kind) {
  const auto row = std::ranges::find_if(
      forms(), [&](const Form& form) { return form.family == Family::mma_sync && form.kind == kind; });
  return row == forms().end() ? nullptr : &*row;
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

}  // namespace

const Form* find(const MmaSync& instruction) {
  const Form* form = find_kind(instruction.kind);
  return form && form->a.contains(instruction.a) && form->b.contains(instruction.b) && form->d == instruction.d
             ? form
             : nullptr;
}

std::vector<Violation> violations(const MmaSync& instruction, Target) {
  Checker check(source);
  const Form* form = find_kind(instruction.kind);
  const LegalScales* scales = form ? find_scales(*form, instruction) : nullptr;
  if (!scales) {
    check.refuse("scale vector and type",
                 fmt::format("{} with {}",
                             instruction.scale_vec == ScaleVec::unwritten ? "(none)" : print(instruction.scale_vec),
                             info(instruction.scale_type).name),
                 form ? print_scales(*form) : "kind::mxf8f6f4, mxf4 or mxf4nvf4: no other kind has block scales");
    return check.take();
  }
  const int k = instruction.sparse ? form->k_sparse : form->k_dense;
  if (instruction.m != 16 || instruction.n != 8 || instruction.k != k) {
    check.refuse("shape", fmt::format("m{}n{}k{}", instruction.m, instruction.n, instruction.k),
                 fmt::format("m16n8k{}", k));
  }
  if (instruction.d != form->d) check.refuse("dtype", std::string(info(instruction.d).name), "f32");
  for (const auto& [name, format, legal] :
       {std::tuple("atype", instruction.a, form->a), std::tuple("btype", instruction.b, form->b)}) {
    if (legal.contains(format)) continue;
    check.refuse(name, std::string(info(format).name),
                 legal.contains(Format::e4m3) ? "e4m3, e5m2, e2m3, e3m2 or e2m1" : "e2m1");
  }
  const auto require_id = [&](std::string_view name, int id, int last, int step) {
    if (id >= 0 && id <= last && id % step == 0) return;
    check.refuse(name, std::to_string(id), last == 0 ? "0" : step == 2 ? "0 or 2" : fmt::format("0..{}", last));
  };
  require_id("byte_id_a", instruction.byte_id_a, scales->last_id, scales->id_step);
  require_id("byte_id_b", instruction.byte_id_b, scales->last_id, scales->id_step);
  require_id("thread_id_a", instruction.thread_id_a, 1, 1);
  require_id("thread_id_b", instruction.thread_id_b, 3, 1);
  if (instruction.sparsity_selector != 0) {
    check.refuse("sparsity_selector", std::to_string(instruction.sparsity_selector), "0");
  }
  return check.take();
}

std::vector<Instruction> instances_of_mma_sync(const Form& form) {
  std::vector<Instruction> all;
  for (const LegalScales& scales : form.scales) {
    for (const bool sparse : {false, true}) {
      for (const FormatInfo& a : formats) {
        for (const FormatInfo& b : formats) {
          if (!form.a.contains(a.id) || !form.b.contains(b.id)) continue;
          const Format scale_type = scales.types.contains(Format::ue8m0) ? Format::ue8m0 : Format::ue4m3;
          all.push_back(MmaSync{.kind = form.kind,
                                .d = form.d,
                                .a = a.id,
                                .b = b.id,
                                .sparse = sparse,
                                .scale_vec = scales.scale_vec,
                                .scale_type = scale_type});
        }
      }
    }
  }
  return all;
}

}  // namespace bitmma::family
