// SPDX-License-Identifier: MIT
// wgmma.mma_async: its rows of the form table, its further rules, and every mnemonic.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../family.hpp"

namespace bitmma::family {
namespace {

constexpr std::string_view syntax = "PTX ISA 9.7.15.5.2", shapes = "PTX ISA 9.7.15.2";

std::string types(Format d, Format a, Format b) {
  return fmt::format(".{}.{}.{}", info(d).name, info(a).name, info(b).name);
}

Format only(const FormatSet& set) {
  return std::ranges::find_if(formats, [&](const FormatInfo& format) { return set.contains(format.id); })->id;
}

/// The legal type triples nearest to the given one, for a message.
std::string legal_types_near(const Wgmma& instruction) {
  std::vector<std::string> near, all;
  for (const Form& form : forms()) {
    if (form.family != Family::wgmma) continue;
    const std::string name = types(form.d, only(form.a), only(form.b));
    all.push_back(name);
    if (form.a.contains(instruction.a) || form.b.contains(instruction.b)) near.push_back(name);
  }
  return fmt::format("{}", fmt::join(near.empty() ? all : near, ", "));
}

std::string fix_for_n(const LegalN& legal, int n) {
  if (n <= 0) return "";
  if (n >= legal.last) return "split the tile into several instructions";
  for (int next = n + 1; next <= legal.last; ++next) {
    if (legal.contains(next)) return fmt::format("use n = {} and zero the extra columns of B", next);
  }
  return "";
}

}  // namespace

const Form* find(const Wgmma& instruction) {
  const auto row = std::ranges::find_if(forms(), [&](const Form& form) {
    return form.family == Family::wgmma && form.d == instruction.d && form.a.contains(instruction.a) &&
           form.b.contains(instruction.b);
  });
  return row == forms().end() ? nullptr : &*row;
}

std::vector<Violation> violations(const Wgmma& instruction, Target) {
  const Form* form = find(instruction);
  InstructionChecker check(form ? form->source : "PTX ISA 9.7.15.3");
  const auto refuse_number = [&](std::string_view field, int64_t seen, std::string expected, std::string fix = {},
                                 std::optional<std::string_view> source = std::nullopt) {
    check.refuse(field, std::to_string(seen), std::move(expected), std::move(fix), source);
  };
  if (instruction.m != 64) refuse_number("m", instruction.m, "64", "a warpgroup always computes 64 rows");
  if (!form) {
    check.refuse("types", types(instruction.d, instruction.a, instruction.b), legal_types_near(instruction));
    return check.take();
  }
  const LegalN& n = form->shapes.front().n;
  if (!n.contains(instruction.n)) {
    refuse_number("n", instruction.n, std::string(n.text), fix_for_n(n, instruction.n), shapes);
  }
  const int k = instruction.sparse ? form->k_sparse : form->k_dense;
  if (k == 0) {
    check.refuse(".sp", "present", fmt::format("no sparse form for .{}", info(instruction.a).name), "remove .sp",
                 "PTX ISA 9.7.15.6");
  } else if (instruction.k != k) {
    refuse_number("k", instruction.k, std::to_string(k),
                  fmt::format("{} bytes of K per instruction", instruction.sparse ? 64 : 32));
  }
  if (instruction.bit_operation != form->bit_operation) {
    const bool none = form->bit_operation == BitOperation::none;
    check.refuse(
        "operation",
        instruction.bit_operation == BitOperation::none ? "(none)" : std::string(print(instruction.bit_operation)),
        none ? "none" : std::string(print(form->bit_operation)), none ? "only b1 has one" : "Hopper has no xor",
        syntax);
  }
  if (instruction.saturate && !form->saturate) {
    check.refuse(".satfinite", "present", "absent for these types", "only s8 and u8 have it", syntax);
  }
  for (const auto& [name, value] :
       {std::pair("imm_scale_a", instruction.negate_a), std::pair("imm_scale_b", instruction.negate_b)}) {
    if (value && !form->negate) refuse_number(name, -1, "1: these types have no such immediate", "", syntax);
  }
  for (const auto& [name, value] :
       {std::pair("imm_trans_a", instruction.transpose_a), std::pair("imm_trans_b", instruction.transpose_b)}) {
    if (value && !form->transpose) {
      refuse_number(name, 1, "0: these types are K-major only",
                    "store the matrix K-major; only f16 and bf16 can be transposed", syntax);
    }
  }
  if (instruction.a_source == OperandSource::tmem)
    check.refuse("A", "in Tensor Memory", "in shared memory or registers");
  if (instruction.a_source == OperandSource::registers && instruction.transpose_a) {
    refuse_number("imm_trans_a", 1, "0 if A is in registers", "", syntax);
  }
  const int selectors = instruction.sparse ? form->selectors : 1;
  if (instruction.sparsity_selector < 0 || instruction.sparsity_selector >= selectors) {
    refuse_number("sparsity_selector", instruction.sparsity_selector,
                  selectors == 2       ? "0 or 1"
                  : instruction.sparse ? "0 for 8-bit types"
                                       : "0 without .sp",
                  "", "ptxas 13.0; PTX ISA 9.7.15.6.2");
  }
  return check.take();
}

std::vector<Instruction> instances_of_wgmma(const Form& form) {
  std::vector<Instruction> all;
  const LegalShape& shape = form.shapes.front();
  for (const bool sparse : {false, true}) {
    if (sparse && form.k_sparse == 0) continue;
    for (const bool saturate : {false, true}) {
      if (saturate && !form.saturate) continue;
      for (int n = shape.n.first; n <= shape.n.last; n += shape.n.step) {
        if (!shape.n.contains(n)) continue;
        all.push_back(
            Wgmma{.n = n, .d = form.d, .a = only(form.a), .b = only(form.b), .sparse = sparse, .saturate = saturate});
      }
    }
  }
  return all;
}

Instruction vary(const Wgmma& mnemonic, Target, int64_t round, RandomStream& random) {
  const Form& form = *find(mnemonic);
  Wgmma wgmma = mnemonic;
  wgmma.a_source = round % 2 == 0 ? OperandSource::smem : OperandSource::registers;
  if (form.transpose) {
    wgmma.transpose_b = round / 2 % 2 != 0;
    if (wgmma.a_source == OperandSource::smem) wgmma.transpose_a = round / 4 % 2 != 0;
  }
  if (form.negate) {
    wgmma.negate_a = random.one_in(3);
    wgmma.negate_b = random.one_in(3);
  }
  wgmma.enable_input_d = !random.one_in(8);
  if (wgmma.sparse) wgmma.sparsity_selector = static_cast<int>(random.below(static_cast<uint32_t>(form.selectors)));
  return wgmma;
}

}  // namespace bitmma::family
