#include "bitmma/io/golden.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.hpp"

namespace bitmma::cli {
namespace {

struct GoldenFlags {
  std::string mnemonic, out, distribution = "bits", a_source = "smem";
  Instruction immediates;
  int m = 0, n = 0;
  std::string d = "f32", a = "f16", b = "f16";
  bool satfinite = false, k_96 = false;
  std::string scale_type = "ue8m0", zero_column_mask;
  std::optional<uint32_t> half_split_offset;
  int64_t cases = 4;
  uint64_t seed = 0;
  LayoutFlags layouts;
  int threads = 1;
};

/// tcgen05's mnemonic has neither shape nor types; they come as flags and go into the instruction descriptor.
void set_tcgen05_shape(const GoldenFlags& flags, GoldenRequest& request) {
  Instruction& instruction = request.instruction;
  std::vector<Violation> violations;
  if (instruction.a_source == OperandSource::registers)
    violations.push_back({.field = "--a-source", .seen = "registers", .legal = "smem or tmem for tcgen05.mma"});
  for (const auto& [name, text, format] :
       {std::tuple("--d", &flags.d, &instruction.d), std::tuple("--a", &flags.a, &instruction.a),
        std::tuple("--b", &flags.b, &instruction.b),
        std::tuple("--scale-type", &flags.scale_type, &instruction.scale_type)}) {
    const auto found = format_named(*text);
    if (found)
      *format = *found;
    else
      violations.push_back({.field = name, .seen = *text, .legal = "the name of a format, as PTX spells it"});
  }
  for (const auto& [name, value] :
       {std::pair("--imm-scale-a", instruction.imm_scale_a), std::pair("--imm-scale-b", instruction.imm_scale_b)}) {
    if (value != 1 && value != -1)
      violations.push_back({.field = name,
                            .seen = std::to_string(value),
                            .legal = "1, or -1: the negate bit of the instruction descriptor"});
  }
  if (!flags.zero_column_mask.empty()) {
    request.zero_column_mask = parse_word(flags.zero_column_mask);
    if (!request.zero_column_mask)
      violations.push_back({.field = "--zero-column-mask",
                            .seen = flags.zero_column_mask,
                            .legal = "a 64-bit number, as bitmma encode mask prints it"});
    else if (!instruction.weight_stationary)
      violations.push_back(
          {.field = "--zero-column-mask", .seen = flags.zero_column_mask, .legal = "absent without .ws"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  instruction.m = flags.m, instruction.n = flags.n, instruction.satfinite = flags.satfinite,
  instruction.k = flags.k_96 ? 96 : 0;
  instruction.scale_a_id = flags.immediates.scale_a_id, instruction.scale_b_id = flags.immediates.scale_b_id;
  instruction.scale_input_d = flags.immediates.scale_input_d,
  instruction.max_shift_code = flags.immediates.max_shift_code;
  instruction = with_majors(instruction, request.layout_a, request.layout_b);
  instruction = with_idesc(instruction, idesc_of(instruction));  // refuses what the kind does not have
  instruction.scale_d = flags.immediates.scale_d;
}

void run_golden(Context& context, const GoldenFlags& flags) {
  if (is_tmem_move(flags.mnemonic)) {
    TmemMove move = parse_tmem_move(flags.mnemonic);
    if (flags.half_split_offset)
      move.half_split_offset = *flags.half_split_offset;
    else if (move.has_registers() && move.ldst.shape == LdStShape::s16x32bx2)
      move.half_split_offset = static_cast<uint32_t>(move.ldst.num * (move.ldst.pack_16b ? 2 : 1));
    write_golden(flags.out, move, flags.cases, flags.seed, flags.layouts.layout_a().swizzle);
    context.terminal.err << fmt::format("{}: {} cases of {}\n", flags.out, flags.cases, print(move));
    return;
  }
  GoldenRequest request{.instruction = parse_instruction(flags.mnemonic),
                        .cases = flags.cases,
                        .seed = flags.seed,
                        .layout_a = flags.layouts.layout_a(),
                        .layout_b = flags.layouts.layout_b()};
  request.instruction.imm_scale_a = flags.immediates.imm_scale_a;
  request.instruction.imm_scale_b = flags.immediates.imm_scale_b;
  request.instruction.scale_d = flags.immediates.scale_d;
  request.instruction.sparsity_selector = flags.immediates.sparsity_selector;
  request.instruction.a_source = flags.a_source == "registers" ? OperandSource::registers
                                 : flags.a_source == "tmem"    ? OperandSource::tmem
                                                               : OperandSource::smem;
  if (request.instruction.family == Family::mma_sync) {
    Instruction& instruction = request.instruction;
    instruction.a_source = OperandSource::registers;
    instruction.scale_a_id = flags.immediates.scale_a_id, instruction.scale_b_id = flags.immediates.scale_b_id;
    instruction.thread_a_id = flags.immediates.thread_a_id, instruction.thread_b_id = flags.immediates.thread_b_id;
  } else if (request.instruction.family == Family::tcgen05) {
    set_tcgen05_shape(flags, request);
  } else if (request.instruction.a_source == OperandSource::tmem) {
    throw Error({.field = "--a-source", .seen = "tmem", .legal = "smem or registers for wgmma"});
  }
  const std::optional<Distribution> distribution = distribution_named(flags.distribution);
  if (!distribution) {
    std::vector<std::string_view> names;
    for (const DistributionInfo& row : distributions) names.push_back(row.name);
    throw Error(
        {.field = "--distribution", .seen = flags.distribution, .legal = fmt::format("{}", fmt::join(names, ", "))});
  }
  request.distribution = *distribution;
  ProgressLine progress(context, "golden", flags.cases);
  write_golden(flags.out, request, flags.threads, progress.from(0));
  context.terminal.err << fmt::format("{}: {} cases of {}, seed {}, {}\n", flags.out, flags.cases,
                                      print(request.instruction), flags.seed, flags.distribution);
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
  command->add_option("--scale-input-d", flags->immediates.scale_input_d,
                      "tcgen05 kind::f16 and tf32: D counts D * 2^-s, s = 0..15");
  command->add_option("--scale-type", flags->scale_type, "block scales: ue8m0 or ue4m3")->capture_default_str();
  command->add_option("--scale-a-id,--byte-id-a", flags->immediates.scale_a_id,
                      "block scales: byte of the cell or register with A's first scale");
  command->add_option("--scale-b-id,--byte-id-b", flags->immediates.scale_b_id, "block scales: the same for B");
  command->add_option("--thread-id-a", flags->immediates.thread_a_id,
                      "mma.sync: which pair of a quad's threads has A's scales, 0 or 1");
  command->add_option("--thread-id-b", flags->immediates.thread_b_id,
                      "mma.sync: which thread of a quad has B's scales, 0..3");
  command->add_flag("--k96", flags->k_96, "mxf4 kinds: K = 96 (sm_103a)");
  command->add_option("--max-shift", flags->immediates.max_shift_code,
                      "tcgen05 .ws: B may be shifted by 0: 0, 1: 8, 2: 16, 3: 32 columns");
  command->add_option("--zero-column-mask", flags->zero_column_mask,
                      "tcgen05 .ws: the mask descriptor; encode mask makes one");
  command->add_option("--half-split-offset", flags->half_split_offset,
                      "ld and st of 16x32bx2: added to the address of threads 16..31; default directly behind");
  command->add_option("--a-source", flags->a_source, "smem, registers (wgmma) or tmem (tcgen05)")
      ->check(CLI::IsMember({"smem", "registers", "tmem"}))
      ->capture_default_str();
  flags->layouts.add(*command);
  add_immediates(*command, flags->immediates);
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n"
      "  bitmma golden wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 -o cases.safetensors\n"
      "  bitmma golden wgmma.mma_async.sp.sync.aligned.m64n64k64.f32.e4m3.e5m2 --cases 100 --seed 7 \\\n"
      "      --distribution ties --a-source registers --layout-b k-major:64 -o sparse.safetensors\n"
      "  bitmma golden tcgen05.mma.cta_group::2.kind::f8f6f4 --m 256 --n 64 --a e2m1 --b e4m3 -o "
      "blackwell.safetensors\n"
      "  bitmma golden tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X --m 128 --n 64 --a e2m1 --b "
      "e2m1 \\\n"
      "      --scale-type ue4m3 -o nvfp4.safetensors\n"
      "  bitmma golden "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 -o "
      "mma.safetensors\n"
      "  bitmma golden tcgen05.ld.sync.aligned.16x64b.x4.b32 -o ld.safetensors\n"
      "The major-ness in the layouts sets imm-trans-a and imm-trans-b.");
  command->callback([flags, &context] { run_golden(context, *flags); });
}

}  // namespace bitmma::cli
