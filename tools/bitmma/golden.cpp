// SPDX-License-Identifier: MIT
#include "bitmma/files/golden.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "arguments.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/word.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "test_bench.hpp"

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

/// Throws Error if the instruction cannot read A from there.
Instruction with_source_of_a(const Instruction& instruction, Target target, const std::string& name) {
  std::vector<std::string_view> legal;
  for (const OperandSource source : {OperandSource::smem, OperandSource::registers, OperandSource::tmem}) {
    const Instruction changed = with_a_source(instruction, source);
    const bool is_taken = is_mma(changed) && mma_of(changed).a_source == source;
    const auto violations = violations_of(changed, target);
    if (!is_taken || std::ranges::find(violations, "A", &Violation::field) != violations.end()) continue;
    if (print(source) == name) return changed;
    legal.push_back(print(source));
  }
  const Form* form = find_form(instruction);
  throw Error({.field = "--a-source",
               .seen = name,
               .expected = legal.empty() ? "absent: the instruction has no operand A"
                                         : fmt::format("{} for {}", fmt::join(legal, " or "),
                                                       form ? std::string(form->name) : print(instruction))});
}

/// A fragment in registers has a fixed order: only matrices in shared memory can be M- or N-major.
void require_layouts(const Instruction& instruction, const Placement& placement) {
  if (!is_mma(instruction)) return;
  const Mma mma = mma_of(instruction);
  const bool in_registers = mma.a_source == OperandSource::registers && mma.b_source == OperandSource::registers;
  if (!in_registers || (placement.a.major == Major::k && placement.b.major == Major::k)) return;
  throw Error({.field = "major", .seen = "mn-major", .expected = "k-major: only .row.col is supported"});
}

Distribution require_distribution(const std::string& name) {
  if (const auto found = distribution_named(name)) return *found;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "--distribution",
               .seen = name,
               .legal = row_names(distributions)});
}

uint64_t require_mask(const Instruction& instruction, const std::string& text) {
  if (!read_word(text)) {
    throw Error(
        {.field = "--zero-column-mask", .seen = text, .expected = "a 64-bit number, as bitmma encode mask prints it"});
  }
  const uint64_t word = require_word("--zero-column-mask", text);
  if (!is_mma(instruction) || !mma_of(instruction).weight_stationary) {
    throw Error({.field = "--zero-column-mask", .seen = text, .expected = "absent without .ws"});
  }
  return word;
}

/// Writes the cases as text, in batches.
void write_text(const Context& context, const GoldenFlags& flags, const GoldenRequest& request) {
  constexpr int64_t at_once = 16;
  const BenchFormat format = flags.bench.format();
  require_mma(request.instruction, "use --format only for instructions that compute");
  require_text_file_name(flags.out, "." + *flags.bench.name);
  ProgressLine progress(context, "golden", flags.cases);
  context.require_flags_acted();
  write_whole(flags.out, [&](std::ostream& out) {
    for (int64_t first = 0; first < request.cases; first += at_once) {
      GoldenRequest part = request;
      part.first_case += first;
      part.cases = std::min(at_once, request.cases - first);
      const VectorFile vectors = as_vector_file(make_golden(part, flags.threads));
      if (first == 0) write_bench_header(out, format, vectors.instruction, vectors.target);
      write_bench(out, format, vectors, first);
      progress.from(first)(part.cases);
    }
  });
}

/// Warnings about the instruction and its layouts: those of simulate for the first case.
std::vector<Violation> doubts_about(GoldenRequest request) {
  request.cases = 1;
  const VectorFile vectors = as_vector_file(make_golden(request, 1));
  return warnings_of(case_at(vectors, 0));
}

uint64_t bytes_of_a_case(GoldenRequest request) {
  request.cases = 1;
  uint64_t bytes = 0;
  for (const Tensor& tensor : make_golden(request, 1).tensors) bytes += tensor.bytes.size();
  return bytes;
}

void run_golden(Context& context, const GoldenFlags& flags) {
  GoldenRequest request{.instruction = with_flags(flags),
                        .cases = flags.cases,
                        .seed = flags.seed,
                        .placement = flags.layouts.placement()};
  if (is_mma(request.instruction)) request.distribution = require_distribution(flags.distribution);
  request.target = flags.target.of(request.instruction);
  const bool is_text = flags.bench.is_given();  // only operands, without places
  if (!is_text) {
    request.placement.numbers = flags.numbers.numbers();
    if (!flags.a_source.empty()) {
      request.instruction = with_source_of_a(request.instruction, *request.target, flags.a_source);
    }
  }
  require_layouts(request.instruction, request.placement);
  if (is_text) flags.layouts.require_used("--format writes operands, not images", false, false);
  else flags.layouts.require_used_by(request.instruction);
  if (!flags.zero_column_mask.empty()) {
    request.placement.zero_column_mask = require_mask(request.instruction, flags.zero_column_mask);
  }
  if (is_text) {
    print_warnings(context, doubts_about(request));
    write_text(context, flags, request);
    return;
  }
  require_tensor_file_name(flags.out);
  print_warnings(context, doubts_about(request));
  announce_output(context, flags.out, flags.cases, flags.threads, [&] { return bytes_of_a_case(request); });
  context.require_flags_acted();
  {
    ProgressLine progress(context, "golden", flags.cases);
    write_golden(flags.out, request, flags.threads, progress.from(0));
  }
  context.terminal.err << fmt::format("{}: {} of {}, target {}, seed {}{}\n", printable(flags.out),
                                      counted(flags.cases, "case"), print(request.instruction), print(*request.target),
                                      flags.seed, is_mma(request.instruction) ? ", " + *flags.distribution : "");
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
  command->add_flag("--k96", flags->k_96, "--k 96")->excludes(command->get_option("--k"));
  flags->numbers.add(*command);
  command->add_option("--zero-column-mask", flags->zero_column_mask,
                      "tcgen05 .ws: the zero-column mask; bitmma encode mask makes one");
  command->add_option("--a-source", flags->a_source,
                      "where A is read: smem, registers (wgmma) or tmem (tcgen05); default smem");
  one_of(command->get_option("--a-source"), std::vector<std::string>(operand_sources.begin(), operand_sources.end()));
  flags->layouts.add(*command);
  flags->bench.add(*command);
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
