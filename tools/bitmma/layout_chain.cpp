// SPDX-License-Identifier: MIT
#include "bitmma/analysis/describe_chain.hpp"
#include "bitmma/instruction/cutlass_atom.hpp"
#include "bitmma/instruction/make_instruction.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct ChainFlags {
  Flag<std::string> first, second;
  Flag<std::optional<int>> m, n;
  Flag<bool> json = false;
};

/// M and N, which the mnemonic of a tcgen05.mma lacks.
Instruction with_shape(const Instruction& instruction, std::optional<int> m, std::optional<int> n) {
  std::vector<NamedValue> fields;
  if (m) fields.push_back({"m", int64_t{*m}});
  if (n) fields.push_back({"n", int64_t{*n}});
  return fields.empty() ? instruction : with_used_fields(instruction, fields);
}

void run_chain(Context& context, const ChainFlags& flags) {
  const ChainReport chain =
      describe_chain(with_shape(parse_mnemonic_or_atom(flags.first.get()), flags.m, flags.n),
                     with_shape(parse_mnemonic_or_atom(flags.second.get()), flags.m, std::nullopt));
  context.exit_code = chain.keeps_order ? exit_same : exit_differs;
  show(context, chain.report, flags.json);
}

}  // namespace

void add_chain_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<ChainFlags>();
  Command* chain = layout.add_command("chain",
                                      "show how D of one instruction becomes A of the next, as P does in attention: "
                                      "the elements of each register, the order of k, or the exchange");
  chain->add_option("first", flags->first, "PTX mnemonic, or the name of a CUTLASS atom, of the first product")
      ->required();
  chain->add_option("second", flags->second, "the same of the second product, of the same family")->required();
  chain->add_option("--m", flags->m, "tcgen05.mma: M of both");
  chain->add_option("--n", flags->n, "tcgen05.mma: N of the first");
  chain->add_flag("--json", flags->json, "the answer as JSON");
  chain->footer(
      "Exit code 1 if the order of k changes or elements move to other threads.\n"
      "Examples:\n"
      "  bitmma layout chain wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 \\\n"
      "      wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16\n"
      "  bitmma layout chain wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 \\\n"
      "      wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3\n"
      "  bitmma layout chain tcgen05.mma.cta_group::1.kind::f16 tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 128");
  chain->callback([flags, &context] { naming_flags(context, [&] { run_chain(context, *flags); }); });
}

}  // namespace bitmma::cli
