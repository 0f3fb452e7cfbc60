// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "bitmma/analysis/describe_layout.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct PlanFlags {
  Flag<std::string> instruction, a;
  Flag<int> m = 128, n = 64, accumulators = 1, k_blocks = 1, ctas = 1;
  Flag<std::optional<int>> k;
  Flag<bool> a_in_tmem = false, exclusive = false, json = false;
  SvgFlag svg;
};

/// The instruction to plan for. Throws Error unless it is a legal tcgen05.mma.
Tcgen05Mma require_instruction(const PlanFlags& flags) {
  const Instruction parsed = parse_instruction(flags.instruction);
  const auto* named = std::get_if<Tcgen05Mma>(&parsed);
  if (!named) {
    throw Error({.field = "--instruction",
                 .seen = flags.instruction,
                 .expected = "tcgen05.mma",
                 .fix = "no other instruction keeps operands in Tensor Memory"});
  }
  Tcgen05Mma instruction = *named;
  instruction.m = flags.m, instruction.n = flags.n;
  if (!flags.a.empty()) instruction.a = instruction.b = require_format("--a", flags.a);
  if (flags.k) {
    instruction.k = *flags.k;
    require_k_code(instruction.kind, instruction.sparse, instruction.k);
  }
  if (flags.a_in_tmem) instruction.a_source = OperandSource::tmem;
  require_legal(Instruction(instruction), default_target(instruction));
  return instruction;
}

void run_plan(Context& context, const PlanFlags& flags) {
  const Tcgen05Mma instruction = require_instruction(flags);
  TmemNeeds needs = tmem_needs_of(instruction);
  needs.accumulators = flags.accumulators;
  needs.exclusive = flags.exclusive;
  if (grows_along_k(needs)) needs.k_blocks = flags.k_blocks;
  const TmemPlanReport plan = describe(instruction, needs, flags.ctas);
  context.exit_code = plan.fits ? exit_same : exit_differs;
  if (!flags.json && flags.svg.is_given()) return flags.svg.write(context, plan.picture);
  show(context, plan.report, flags.json);
}

}  // namespace

void add_tmem_plan_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<PlanFlags>();
  Command* plan = layout.add_command(
      "tmem-plan",
      "plan the columns of Tensor Memory for D, A, scales and metadata: how many to allocate, and whether they fit");
  plan->add_option("--instruction", flags->instruction, "mnemonic of a tcgen05.mma")->required();
  plan->add_option("--m", flags->m, "rows, over the CTA group")->capture_default_str();
  plan->add_option("--n", flags->n, "columns of D")->capture_default_str();
  plan->add_option("--k", flags->k, "96 if the kind has it; default: the K of the type");
  plan->add_option("--a", flags->a, "type of A and B, if the kind has several");
  plan->add_flag("--a-in-tmem", flags->a_in_tmem, "A is read from Tensor Memory");
  plan->add_option("--accumulators", flags->accumulators,
                   "number of D that exist at the same time; 2 if the epilogue overlaps the next tile")
      ->capture_default_str();
  plan->add_option("--k-blocks", flags->k_blocks,
                   "number of instructions along K whose A, scales and metadata are in Tensor Memory at the same time")
      ->capture_default_str();
  plan->add_option("--ctas", flags->ctas, "number of CTAs on an SM that make the same allocation")
      ->capture_default_str();
  plan->add_flag(
      "--exclusive", flags->exclusive,
      "sm_107a: use tcgen05.alloc.exclusive, with a multiple of 32 columns up to 576 and no other CTA on the SM");
  flags->svg.add(*plan);
  plan->add_flag("--json", flags->json, "the answer as JSON");
  plan->footer(
      "Exit code 1 if the plan does not fit 512 columns, or 576 with --exclusive.\n"
      "Examples:\n"
      "  bitmma layout tmem-plan --instruction tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 256 --accumulators 2\n"
      "  bitmma layout tmem-plan --instruction "
      "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X --n 128 --k-blocks 4 --ctas 2");
  plan->callback([flags, &context] { naming_flags(context, [&] { run_plan(context, *flags); }); });
}

}  // namespace bitmma::cli
