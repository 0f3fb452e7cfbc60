#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bitmma/io/golden.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

struct GoldenFlags {
  std::string mnemonic, out, distribution = "bits", a_source = "smem";
  Instruction immediates;
  int m = 0, n = 0;
  std::string d = "f32", a = "f16", b = "f16";
  bool satfinite = false;
  int64_t cases = 4;
  uint64_t seed = 0;
  LayoutFlags layouts;
  int threads = 1;
};

/// tcgen05's mnemonic has neither shape nor types; they come as flags and go into the instruction descriptor.
void set_tcgen05_shape(const GoldenFlags& flags, GoldenRequest& request) {
  Instruction& instruction = request.instruction;
  std::vector<Violation> violations;
  if (instruction.a_source == OperandSource::registers) violations.push_back({.field = "--a-source", .seen = "registers", .legal = "smem or tmem for tcgen05.mma"});
  for (const auto& [name, text, format] : {std::tuple("--d", &flags.d, &instruction.d), std::tuple("--a", &flags.a, &instruction.a), std::tuple("--b", &flags.b, &instruction.b)}) {
    const auto found = format_named(*text);
    if (found) *format = *found;
    else violations.push_back({.field = name, .seen = *text, .legal = "the name of a format, as PTX spells it"});
  }
  for (const auto& [name, value] : {std::pair("--imm-scale-a", instruction.imm_scale_a), std::pair("--imm-scale-b", instruction.imm_scale_b)}) {
    if (value != 1 && value != -1) violations.push_back({.field = name, .seen = std::to_string(value), .legal = "1, or -1: the negate bit of the instruction descriptor"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  instruction.m = flags.m, instruction.n = flags.n, instruction.satfinite = flags.satfinite;
  instruction = with_majors(instruction, request.layout_a, request.layout_b);
  instruction = with_idesc(instruction, idesc_of(instruction));  // refuses what the kind does not have
  instruction.scale_d = flags.immediates.scale_d;
}

void run_golden(Context& context, const GoldenFlags& flags) {
  GoldenRequest request{.instruction = parse_instruction(flags.mnemonic), .cases = flags.cases, .seed = flags.seed,
                        .layout_a = flags.layouts.layout_a(), .layout_b = flags.layouts.layout_b()};
  request.instruction.imm_scale_a = flags.immediates.imm_scale_a;
  request.instruction.imm_scale_b = flags.immediates.imm_scale_b;
  request.instruction.scale_d = flags.immediates.scale_d;
  request.instruction.sparsity_selector = flags.immediates.sparsity_selector;
  request.instruction.a_source = flags.a_source == "registers" ? OperandSource::registers : flags.a_source == "tmem" ? OperandSource::tmem : OperandSource::smem;
  if (request.instruction.family == Family::tcgen05) {
    set_tcgen05_shape(flags, request);
  } else if (request.instruction.a_source == OperandSource::tmem) {
    throw Error({.field = "--a-source", .seen = "tmem", .legal = "smem or registers for wgmma"});
  }
  const std::optional<Distribution> distribution = distribution_named(flags.distribution);
  if (!distribution) {
    std::vector<std::string_view> names;
    for (const DistributionInfo& row : distributions) names.push_back(row.name);
    throw Error({.field = "--distribution", .seen = flags.distribution, .legal = fmt::format("{}", fmt::join(names, ", "))});
  }
  request.distribution = *distribution;
  ProgressLine progress(context, "golden", flags.cases);
  const TensorFile file = make_golden(request, flags.threads, progress.from(0));
  write_tensor_file(flags.out, file);
  context.terminal.err << fmt::format("{}: {} cases of {}, seed {}, {}\n", flags.out, flags.cases, print(request.instruction), flags.seed, flags.distribution);
}

}  // namespace

void add_golden(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("golden", "make cases from a seed, D included");
  const auto flags = std::make_shared<GoldenFlags>();
  command->add_option("instruction", flags->mnemonic, "PTX mnemonic with all qualifiers")->required();
  command->add_option("-o,--output", flags->out, "file to write")->required();
  command->add_option("--cases", flags->cases, "how many")->capture_default_str();
  command->add_option("--seed", flags->seed, "same seed, same file, on any machine")->capture_default_str();
  std::string meaning = "what to draw from:";
  for (const DistributionInfo& row : distributions) meaning += fmt::format("\n    {:<10} {}", row.name, row.meaning);
  command->add_option("--distribution", flags->distribution, meaning)->capture_default_str();
  command->add_option("--m", flags->m, "tcgen05: rows of D, over the CTA group");
  command->add_option("--n", flags->n, "tcgen05: columns of D");
  command->add_option("--d", flags->d, "tcgen05: type of D")->capture_default_str();
  command->add_option("--a", flags->a, "tcgen05: type of A")->capture_default_str();
  command->add_option("--b", flags->b, "tcgen05: type of B")->capture_default_str();
  command->add_flag("--satfinite", flags->satfinite, "tcgen05 kind::i8: the saturate bit");
  command->add_option("--a-source", flags->a_source, "smem, registers (wgmma) or tmem (tcgen05)")->check(CLI::IsMember({"smem", "registers", "tmem"}))->capture_default_str();
  flags->layouts.add(*command);
  add_immediates(*command, flags->immediates);
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n"
      "  bitmma golden wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 -o cases.safetensors\n"
      "  bitmma golden wgmma.mma_async.sp.sync.aligned.m64n64k64.f32.e4m3.e5m2 --cases 100 --seed 7 \\\n"
      "      --distribution ties --a-source registers --layout-b k-major:64 -o sparse.safetensors\n"
      "  bitmma golden tcgen05.mma.cta_group::2.kind::f8f6f4 --m 256 --n 64 --a e2m1 --b e4m3 -o blackwell.safetensors\n"
      "The major-ness in the layouts sets imm-trans-a and imm-trans-b.");
  command->callback([flags, &context] { run_golden(context, *flags); });
}

}  // namespace bitmma::cli
