// SPDX-License-Identifier: MIT
#include "bitmma/acts/describe_kernel_instruction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "../analysis/statement_text.hpp"
#include "../instruction/text/words.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/instruction/cutlass_atom.hpp"
#include "bitmma/instruction/ptx_file.hpp"
#include "bitmma/instruction/support_instruction.hpp"
#include "bitmma/kernel/opcode_info.hpp"

namespace bitmma {

std::optional<Report> describe_kernel_instruction(std::string_view text, std::optional<Target> target) {
  const std::string_view statement = without_guard(text), mnemonic = mnemonic_in(statement);
  const std::string_view guard = syntax::trimmed(text.substr(0, text.size() - statement.size()));
  const std::string_view name = mnemonic.substr(0, mnemonic.find('.'));
  const bool is_wmma = name == "wmma";
  if (looks_like_cutlass_atom(text) || (!is_wmma && !scan_ptx(text).statements.empty())) return std::nullopt;
  if (name == "wgmma" || name == "mma" || name == "tcgen05" || find_support_instruction(mnemonic)) return std::nullopt;
  const std::optional<KernelOpcode> opcode = find_kernel_opcode(mnemonic);
  if (!opcode) return std::nullopt;
  const std::string_view of_target = print(target.value_or(Target::sm_90a));
  std::vector<std::vector<std::string>> rows{{"does", std::string(opcode->does)}};
  if (!opcode->types.empty()) rows.push_back({"types", fmt::format("{}", fmt::join(opcode->types, " "))});
  if (!opcode->folded.empty())
    rows.push_back({"numbers", fmt::format("if all operands are numbers, ptxas computes its plain form for {}",
                                           fmt::join(opcode->folded, " "))});
  if (may_be_contracted(mnemonic))
    rows.push_back(
        {"fma", fmt::format("ptxas may join it as the {}; bitmma run --fusions shows where", opcode->contraction)});
  if (is_wmma)
    rows.push_back({"consists",
                    "of one or two mma.sync, or of m16n8k4 of tf32 four: m16n16k16 is two m16n8k16 along n "
                    "(docs/kernel_semantics.md)"});
  rows.push_back({"runs", "in bitmma run KERNEL.ptx; the words behind its name are checked only there"});
  Report report{{"instruction", mnemonic}, {"target", of_target}};
  if (!guard.empty()) report.add("guard", guard);
  report.add_text(fmt::format("{}{}{}\ntarget: {}", guard, guard.empty() ? "" : " ", mnemonic, of_target));
  report.update({{"does", opcode->does},
                 {"types", opcode->types},
                 {"folded", opcode->folded},
                 {"contraction", opcode->contraction},
                 {"acts", opcode->acts}});
  report.add_text(rows);
  Report list = Report::list();
  list.append(std::move(report));
  return list;
}

}  // namespace bitmma
