#include <fmt/format.h>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/tmem_plan.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct PlanFlags {
  Flag<std::string> instruction, a;
  Flag<int> m = 128, n = 64, k = 0, accumulators = 1, k_blocks = 1, ctas = 1;
  Flag<bool> a_in_tmem = false, exclusive = false, json = false;
  SvgFlag svg;
};

/// The instruction that is planned for. Throws Error unless it is a legal tcgen05.mma.
Tcgen05Mma require_instruction(const PlanFlags& flags) {
  const Instruction parsed = parse_instruction(flags.instruction);
  const auto* named = std::get_if<Tcgen05Mma>(&parsed);
  if (!named) {
    throw Error({.field = "--instruction",
                 .seen = flags.instruction,
                 .expected = "tcgen05.mma",
                 .fix = "nothing else keeps operands in Tensor Memory"});
  }
  Tcgen05Mma one = *named;
  one.m = flags.m, one.n = flags.n;
  if (!flags.a.empty()) one.a = one.b = require_format("--a", flags.a);
  if (flags.k != 0) one.k = flags.k;
  if (flags.a_in_tmem) one.a_source = OperandSource::tmem;
  require_legal(Instruction(one), default_target(one));
  return one;
}

Json plan_json(const PlanFlags& flags, const TmemPlan& plan) {
  Json pieces = Json::array();
  for (const TmemPiece& piece : plan.pieces) {
    pieces.push_back({{"name", piece.name},
                      {"column", piece.column},
                      {"columns", piece.columns},
                      {"address", fmt::format("{:#010x}", piece.address)}});
  }
  return {{"pieces", std::move(pieces)},
          {"m", *flags.m},
          {"n", *flags.n},
          {"ctas", *flags.ctas},
          {"columns", plan.columns},
          {"allocation", plan.allocation == 0 ? Json() : Json(plan.allocation)},
          {"ctas_per_sm", plan.ctas_per_sm},
          {"fits", plan.allocation != 0 && flags.ctas <= plan.ctas_per_sm}};
}

void run_plan(Context& context, const PlanFlags& flags) {
  if (flags.ctas < 1 || flags.ctas > 32)
    throw Error({.field = "--ctas", .seen = std::to_string(flags.ctas), .expected = "1..32"});
  const Tcgen05Mma one = require_instruction(flags);
  const Mma mma = mma_of(one);
  const TmemLayoutInfo& layout = find_tmem_layout(one.m, one.cta_group, one.weight_stationary, one.sparse);
  TmemNeeds needs{.layout = layout,
                  .n = one.n,
                  .accumulators = flags.accumulators,
                  .a_row_bits = one.a_source == OperandSource::tmem ? mma.stored_k() * mma.a_container_bits : 0,
                  .scale_count = mma.scale_count,
                  .metadata_columns = one.sparse ? TmemMetadata{.layout = layout,
                                                                .element_bits = mma.a_container_bits,
                                                                .k = mma.k,
                                                                .single_elements = mma.sparsity_version == 1}
                                                       .columns()
                                                 : 0};
  // Accumulators alone do not grow along K.
  if (needs.a_row_bits > 0 || needs.scale_count > 0 || needs.metadata_columns > 0) needs.k_blocks = flags.k_blocks;
  needs.exclusive = flags.exclusive;
  const TmemPlan plan = plan_tmem(needs);
  const int most_columns = needs.exclusive ? tmem_columns_exclusive : tmem_columns;
  const bool fits = plan.allocation != 0 && flags.ctas <= plan.ctas_per_sm;
  context.exit_code = fits ? exit_same : exit_differs;
  if (flags.json) {
    context.out() << json_text(plan_json(flags, plan)) << '\n';
    return;
  }
  Picture picture{
      .title = fmt::format("{}, M = {}, N = {}, K = {}: layout {}{}", print(Instruction(one)), one.m, one.n, one.k,
                           layout.name, one.cta_group == 2 ? "; columns of each CTA of the pair" : ""),
      .corner = "piece",
      .column_heads = {"columns", "first", "address"}};
  for (int cta = 0; cta < (fits ? *flags.ctas : 1); ++cta) {
    const TmemPlan placed = cta == 0 ? plan : plan_tmem(needs, cta * plan.allocation);
    for (const TmemPiece& piece : placed.pieces) {
      const int color = static_cast<int>(picture.rows.size() % placed.pieces.size()) % picture_colors;
      picture.rows.push_back({flags.ctas > 1 && fits ? fmt::format("CTA {} {}", cta, piece.name) : piece.name,
                              {{.text = std::to_string(piece.columns), .color = color},
                               {.text = std::to_string(piece.column), .color = color},
                               {.text = fmt::format("{:#010x}", piece.address), .color = color}}});
    }
  }
  if (flags.svg.asked()) return flags.svg.write(context, picture);
  context.out() << to_text(picture) << '\n';
  if (plan.allocation == 0) {
    context.out() << colored(context, Tone::bad,
                             fmt::format("does not fit: {} of {} columns", plan.columns, most_columns))
                  << '\n';
    return;
  }
  context.out() << fmt::format("tcgen05.alloc{} of {} columns for {}; {} of them on an SM\n",
                               needs.exclusive ? ".exclusive" : "", plan.allocation, plan.columns,
                               counted(plan.ctas_per_sm, "CTA"));
  if (!fits) context.out() << colored(context, Tone::bad, fmt::format("{} CTAs do not fit", flags.ctas)) << '\n';
  if (layout.half_lanes && flags.accumulators > 1)
    context.out() << "M of 64 rows a CTA fills 16 of every 32 lanes: another D fits the same columns at lane 16\n";
  context.out()
      << "chosen: which columns tcgen05.alloc returns is not documented; addresses count from the first of them\n";
}

}  // namespace

void add_tmem_plan_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<PlanFlags>();
  Command* plan = layout.add_command(
      "tmem-plan", "columns of Tensor Memory for D, A, scales and metadata: what to allocate, and whether it fits");
  plan->add_option("--instruction", flags->instruction, "tcgen05.mma by its mnemonic")->required();
  plan->add_option("--m", flags->m, "rows, over the CTA group")->capture_default_str();
  plan->add_option("--n", flags->n, "columns of D")->capture_default_str();
  plan->add_option("--k", flags->k, "96 where the kind has it; default what the type has");
  plan->add_option("--a", flags->a, "type of A and B, where the kind has several");
  plan->add_flag("--a-in-tmem", flags->a_in_tmem, "A is read from Tensor Memory");
  plan->add_option("--accumulators", flags->accumulators, "Ds at a time, 2 for an epilogue that overlaps")
      ->capture_default_str();
  plan->add_option("--k-blocks", flags->k_blocks,
                   "instructions along K whose A, scales and metadata stand there at a time")
      ->capture_default_str();
  plan->add_option("--ctas", flags->ctas, "CTAs on an SM that allocate the same")->capture_default_str();
  plan->add_flag("--exclusive", flags->exclusive,
                 "sm_107a: tcgen05.alloc.exclusive, a multiple of 32 columns up to 576, and no other CTA on the SM");
  flags->svg.add(*plan);
  plan->add_flag("--json", flags->json, "the answer as JSON");
  plan->footer(
      "Exit code 1 when it does not fit 512 columns, or 576 with --exclusive.\n"
      "Examples:\n"
      "  bitmma layout tmem-plan --instruction tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 256 --accumulators 2\n"
      "  bitmma layout tmem-plan --instruction "
      "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X --n 128 --k-blocks 4 --ctas 2");
  plan->callback([flags, &context] { run_plan(context, *flags); });
}

}  // namespace bitmma::cli
