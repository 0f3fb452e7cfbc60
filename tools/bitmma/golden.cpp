// SPDX-License-Identifier: MIT
#include "bitmma/files/golden.hpp"

#include <fmt/format.h>

#include "arguments.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/word.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "test_bench.hpp"
#include "wrong_flags.hpp"

namespace bitmma::cli {
namespace {

struct GoldenFlags {
  Flag<std::string> mnemonic, out, distribution = "normal";
  TargetFlag target;
  FieldFlags fields;
  Flag<bool> k_96 = false;
  Flag<std::string> a_source, zero_column_mask;
  StateNumberFlags numbers;
  Flag<int64_t> cases = 4;
  Flag<uint64_t> seed = 0;
  LayoutFlags layouts;
  BenchFlag bench;
  WrongFlags wrong;
  Flag<int> threads = 1;
};

/// A field that the mnemonic leaves open. The layouts set transposition, and --a-source is checked separately.
bool is_open(const InstructionField& field) {
  return field.is_apart() && field.name != "transpose_a" && field.name != "transpose_b";
}

Instruction with_flags(const GoldenFlags& flags) {
  Instruction instruction = flags.fields.apply(parse_instruction(flags.mnemonic));
  if (!flags.k_96) return instruction;
  return naming_flag("k", "--k96", [&] { return with_used_fields(instruction, {{{"k", int64_t{96}}}}); });
}

Distribution require_distribution(const std::string& name) {
  if (const auto distribution = distribution_named(name)) return *distribution;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "--distribution",
               .seen = name,
               .legal = row_names(distributions)});
}

uint64_t require_mask(const std::string& text) {
  if (read_word(text)) return require_word("--zero-column-mask", text);
  throw Error(
      {.field = "--zero-column-mask", .seen = text, .expected = "a 64-bit number, as bitmma encode mask prints it"});
}

GoldenRequest request_of(const GoldenFlags& flags) {
  GoldenRequest request{.instruction = with_flags(flags),
                        .cases = flags.cases,
                        .seed = flags.seed,
                        .placement = flags.layouts.placement()};
  if (is_mma(request.instruction)) request.distribution = require_distribution(flags.distribution);
  request.target = flags.target.of(request.instruction);
  if (!flags.zero_column_mask.empty()) request.placement.zero_column_mask = require_mask(flags.zero_column_mask);
  if (flags.bench.is_given()) {  // only operands, without places
    flags.layouts.require_used({.why = "--format writes operands, not images"});
    return request;
  }
  request.placement.numbers = flags.numbers.numbers();
  if (!flags.a_source.empty())
    request.instruction = naming_flag("a_source", "--a-source", [&] {
      return with_a_source_named(request.instruction, *request.target, flags.a_source);
    });
  flags.layouts.require_used(layouts_used_by(request.instruction));
  return request;
}

void write_text(const Context& context, const GoldenFlags& flags, const GoldenRequest& request) {
  require_text_file_name(flags.out, "." + *flags.bench.name);
  ProgressLine progress(context, "golden", request.cases);
  context.require_flags_acted();
  write_whole(flags.out, [&](std::ostream& out) {
    write_golden_test_bench(out, flags.bench.format(), request, flags.threads, progress.from(0));
  });
}

void run_golden(Context& context, const GoldenFlags& flags) {
  const GoldenRequest request = request_of(flags);
  if (!flags.bench.is_given()) require_tensor_file_name(flags.out);
  const VectorFile first =
      naming_flag("zero_column_mask", "--zero-column-mask", [&] { return first_golden_case(request); });
  print_warnings(context, warnings_of(case_at(first, 0)));
  if (flags.bench.is_given()) return naming_flag("format", "--format", [&] { write_text(context, flags, request); });
  announce_output(context, flags.out, request.cases, flags.threads, [&] {
    uint64_t bytes = 0;
    for (const Tensor& tensor : first_golden_case(request).file.tensors) bytes += tensor.bytes.size();
    return bytes;
  });
  if (flags.wrong.are_given())
    return flags.wrong.write(context, as_vector_file(make_golden(request, flags.threads)), flags.out);
  context.require_flags_acted();
  {
    ProgressLine progress(context, "golden", request.cases);
    write_golden(flags.out, request, flags.threads, progress.from(0));
  }
  context.terminal.err << fmt::format("{}: {} of {}, target {}, seed {}{}\n", printable(flags.out),
                                      counted(request.cases, "case"), print(request.instruction),
                                      print(*request.target), request.seed,
                                      is_mma(request.instruction) ? ", " + *flags.distribution : "");
}

}  // namespace

void add_golden(Command& app, Context& context) {
  Command* command = app.add_command("golden", "make random cases with their D from a seed");
  const auto flags = std::make_shared<GoldenFlags>();
  command->add_option("instruction", flags->mnemonic, "PTX mnemonic with all qualifiers")->required();
  command->add_output("-o,--output", flags->out, "file to write")->required();
  flags->target.add(*command, "the GPU by its PTX name; default: the instruction's own");
  command->add_option("--cases", flags->cases, "number of cases")->capture_default_str();
  command->add_option("--seed", flags->seed, "seed of the operands; the same seed gives the same file on any machine")
      ->capture_default_str();
  std::string meaning = "distribution of the operands:";
  for (const DistributionInfo& row : distributions) meaning += fmt::format("\n    {:<10} {}", row.name, row.meaning);
  command->add_option("--distribution", flags->distribution, meaning)->capture_default_str();
  flags->fields.add(*command, {Family::wgmma, Family::tcgen05, Family::mma_sync, Family::tmem_move}, is_open);
  CLI::Option* const k = command->get_option("--k");
  command->add_flag("--k96", flags->k_96, "--k 96")->excludes(k)->group(k->get_group());
  add_group(*command, "State before the instruction", [&] {
    flags->numbers.add(*command);
    command->add_option("--zero-column-mask", flags->zero_column_mask,
                        "tcgen05 .ws: the zero-column mask; bitmma encode mask makes one");
  });
  add_group(*command, "Places of the operands", [&] {
    command->add_option("--a-source", flags->a_source,
                        "where A is read: smem, registers (wgmma) or tmem (tcgen05); default smem");
    one_of(command->get_option("--a-source"), std::vector<std::string>(operand_sources.begin(), operand_sources.end()));
    flags->layouts.add(*command);
  });
  add_group(*command, "What is written", [&] {
    flags->bench.add(*command);
    flags->wrong.add(*command);
  });
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n  bitmma golden wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 -o cases.safetensors\n  bitmma "
      "golden wgmma.mma_async.sp.sync.aligned.m64n64k64.f32.e4m3.e5m2 --cases 100 --seed 7 \\\n      --distribution "
      "ties --a-source registers --layout-b k-major:64 -o sparse.safetensors\n  bitmma golden "
      "tcgen05.mma.cta_group::2.kind::f8f6f4 --m 256 --n 64 --a e2m1 --b e4m3 -o blackwell.safetensors\n  bitmma "
      "golden tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X --m 128 --n 64 \\\n      --scale-type "
      "ue4m3 --target sm_103a -o nvfp4.safetensors\n  bitmma golden "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 -o mma.safetensors\n  bitmma "
      "golden tcgen05.ld.sync.aligned.16x64b.x4.b32 --warp 1 --taddr 0x200000 -o ld.safetensors\n  bitmma golden "
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 --format hex -o bench.hex\nThe layouts' major-ness determines "
      "imm-trans-a and imm-trans-b.");
  command->callback([flags, &context] { run_golden(context, *flags); });
}

}  // namespace bitmma::cli
