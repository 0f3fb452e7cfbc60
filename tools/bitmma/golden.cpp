#include "bitmma/files/golden.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <climits>
#include <map>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "test_bench.hpp"

namespace bitmma::cli {
namespace {

/// An immediate as a flag. tcgen05.mma says some of them in its instruction descriptor.
struct ImmediateFlag {
  std::string_view name;  // of the immediate
  const char* flags;
  const char* meaning;
};

constexpr auto immediate_flags = std::to_array<ImmediateFlag>({
    {"imm_scale_a", "--imm-scale-a", "1, or -1 to negate A"},
    {"imm_scale_b", "--imm-scale-b", "1, or -1 to negate B"},
    {"scale_d", "--scale-d", "1: D = A*B + C; 0: D = A*B, C is not read"},
    {"sparsity_selector", "--sparsity-selector", "sp-sel of .sp forms"},
    {"scale_input_d", "--scale-input-d", "tcgen05 kind::f16 and tf32: D counts D * 2^-s, s = 0..15"},
    {"byte_id_a", "--scale-a-id,--byte-id-a", "block scales: byte of the cell or register with A's first scale"},
    {"byte_id_b", "--scale-b-id,--byte-id-b", "block scales: the same for B"},
    {"thread_id_a", "--thread-id-a", "mma.sync: which pair of a quad's threads has A's scales, 0 or 1"},
    {"thread_id_b", "--thread-id-b", "mma.sync: which thread of a quad has B's scales, 0..3"},
    {"half_split_offset", "--half-split-offset",
     "ld and st of 16x32bx2: added to the address of threads 16..31; default directly behind"},
});

struct GoldenFlags {
  Flag<std::string> mnemonic, out, distribution = "bits";
  TargetFlag target;
  std::array<Flag<std::optional<int64_t>>, immediate_flags.size()> immediates;  // in the order of their table
  Flag<std::string> a_source, d, a, b, scale_type, zero_column_mask;
  Flag<std::optional<int>> m, n, k;
  Flag<bool> satfinite = false, k_96 = false;
  Flag<int> max_shift = 0, sparsity_version = 0;
  std::vector<CLI::Option*> of_descriptor;  // those that say what an instruction descriptor says
  Flag<int64_t> cases = 4;
  Flag<uint64_t> seed = 0;
  LayoutFlags layouts;
  BenchFlag bench;
  Flag<int> threads = 1;
};

/// What the instruction descriptor of a tcgen05.mma says comes as flags: the mnemonic has neither shape nor types.
/// Takes the immediates that belong to the descriptor out of `immediates`.
void set_descriptor_fields(const GoldenFlags& flags, std::map<std::string_view, int64_t>& immediates,
                           Tcgen05Mma& instruction) {
  std::vector<Violation> violations;
  const auto take_type = [&](const std::string& name, Format& format, auto require) {
    if (name.empty()) return;
    try {
      format = require(name);
    } catch (const Error& error) {
      violations.push_back(error.violations().front());
    }
  };
  for (const auto& [flag, name, format] :
       {std::tuple("--d", &flags.d, &instruction.d), std::tuple("--a", &flags.a, &instruction.a),
        std::tuple("--b", &flags.b, &instruction.b)})
    take_type(*name, *format, [&](const std::string& given) { return require_format(flag, given); });
  take_type(flags.scale_type, instruction.scale_type,
            [&](const std::string& given) { return require_scale_type(given, instruction.kind); });
  // What no int can hold is illegal in any case.
  const auto take = [&](std::string_view name, int64_t usual) {
    const auto given = immediates.extract(name);
    return static_cast<int>(std::clamp<int64_t>(given ? given.mapped() : usual, INT_MIN, INT_MAX));
  };
  for (const auto& [flag, name, negate] : {std::tuple("--imm-scale-a", "imm_scale_a", &instruction.negate_a),
                                           std::tuple("--imm-scale-b", "imm_scale_b", &instruction.negate_b)}) {
    const int scale = take(name, 1);
    *negate = scale == -1;
    if (scale == 1 || scale == -1) continue;
    violations.push_back({.field = flag,
                          .seen = std::to_string(scale),
                          .expected = "1, or -1: the negate bit of the instruction descriptor"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  instruction.m = flags.m.value_or(instruction.m), instruction.n = flags.n.value_or(instruction.n);
  instruction.k = flags.k_96 ? 96 : flags.k.value_or(instruction.k);
  instruction.sparsity_version = flags.sparsity_version;
  instruction.saturate = flags.satfinite;
  instruction.max_shift_code = flags.max_shift;
  instruction.sparsity_selector = take("sparsity_selector", 0);
  instruction.scale_a_id = take("byte_id_a", 0);
  instruction.scale_b_id = take("byte_id_b", 0);
}

/// Refuses what only an instruction descriptor could say.
void refuse_descriptor_flags(const GoldenFlags& flags, const Instruction& instruction) {
  std::vector<Violation> violations;
  for (const CLI::Option* option : flags.of_descriptor) {
    if (option->count() == 0) continue;
    violations.push_back({.field = option->get_name(),
                          .seen = option->results().empty() ? "given" : shortened(option->results().front()),
                          .expected = "absent: it goes into an instruction descriptor",
                          .fix = print(instruction) + " has none"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

/// Throws Error unless enable-input-d can be as asked.
Instruction with_input_d(const Instruction& instruction, int64_t scale_d) {
  const Instruction changed = with_enable_input_d(instruction, scale_d == 1);
  const bool is_taken = is_mma(changed) && mma_of(changed).enable_input_d == (scale_d == 1);
  if (is_taken && (scale_d == 0 || scale_d == 1)) return changed;
  throw Error({.field = "scale_d",
               .seen = std::to_string(scale_d),
               .expected = scale_d != 0          ? "0 or 1"
                           : is_mma(instruction) ? "1: C is always read"
                                                 : "absent: the instruction moves data"});
}

Instruction with_flags(const GoldenFlags& flags, Instruction instruction) {
  std::map<std::string_view, int64_t> immediates;  // those that are given
  for (size_t i = 0; i < immediate_flags.size(); ++i) {
    if (flags.immediates[i]) immediates[immediate_flags[i].name] = *flags.immediates[i];
  }
  if (Tcgen05Mma* mma = std::get_if<Tcgen05Mma>(&instruction)) set_descriptor_fields(flags, immediates, *mma);
  else refuse_descriptor_flags(flags, instruction);
  if (const auto scale_d = immediates.extract("scale_d")) instruction = with_input_d(instruction, scale_d.mapped());
  for (const auto& [name, value] : immediates) instruction = with_immediate(instruction, name, value);
  return instruction;
}

/// Throws Error when the instruction cannot read A from there.
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
               .expected = legal.empty() ? "absent: the instruction has no A"
                                         : fmt::format("{} for {}", fmt::join(legal, " or "),
                                                       form ? std::string(form->name) : print(instruction))});
}

/// Fragments in registers have one order each: only matrices in shared memory can be M- or N-major.
void require_layouts(const Instruction& instruction, const Placement& placement) {
  if (!is_mma(instruction)) return;
  const Mma mma = mma_of(instruction);
  const bool in_registers = mma.a_source == OperandSource::registers && mma.b_source == OperandSource::registers;
  if (!in_registers || (placement.a.major == Major::k && placement.b.major == Major::k)) return;
  throw Error({.field = "major", .seen = "mn-major", .expected = "k-major: .row.col only"});
}

Distribution require_distribution(const std::string& name) {
  if (const auto found = distribution_named(name)) return *found;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "--distribution",
               .seen = name,
               .legal = row_names(distributions)});
}

uint64_t require_mask(const Instruction& instruction, const std::string& text) {
  const std::optional<uint64_t> word = parse_word(text);
  if (!word) {
    throw Error(
        {.field = "--zero-column-mask", .seen = text, .expected = "a 64-bit number, as bitmma encode mask prints it"});
  }
  if (!is_mma(instruction) || !mma_of(instruction).weight_stationary) {
    throw Error({.field = "--zero-column-mask", .seen = text, .expected = "absent without .ws"});
  }
  return *word;
}

/// The cases as text, some at a time.
void write_text(const Context& context, const GoldenFlags& flags, const GoldenRequest& request) {
  constexpr int64_t at_once = 16;
  const BenchFormat format = flags.bench.format();
  require_mma(request.instruction, "--format is for instructions that compute");
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

uint64_t bytes_of_a_case(GoldenRequest request) {
  request.cases = 1;
  uint64_t bytes = 0;
  for (const Tensor& tensor : make_golden(request, 1).tensors) bytes += tensor.bytes.size();
  return bytes;
}

void run_golden(Context& context, const GoldenFlags& flags) {
  GoldenRequest request{.instruction = with_flags(flags, parse_instruction(flags.mnemonic)),
                        .cases = flags.cases,
                        .seed = flags.seed,
                        .distribution = require_distribution(flags.distribution),
                        .placement = flags.layouts.placement()};
  request.target = flags.target.of(request.instruction);
  if (!flags.a_source.empty()) {
    request.instruction = with_source_of_a(request.instruction, *request.target, flags.a_source);
  }
  require_layouts(request.instruction, request.placement);
  flags.layouts.require_used_by(request.instruction);
  if (!flags.zero_column_mask.empty()) {
    request.placement.zero_column_mask = require_mask(request.instruction, flags.zero_column_mask);
  }
  if (flags.bench.is_given()) {
    write_text(context, flags, request);
    return;
  }
  require_tensor_file_name(flags.out);
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
  Command* command = app.add_command("golden", "make cases from a seed, D included");
  const auto flags = std::make_shared<GoldenFlags>();
  command->add_option("instruction", flags->mnemonic, "PTX mnemonic with all qualifiers")->required();
  command->add_option("-o,--output", flags->out, "file to write")->required();
  flags->target.add(*command, "the GPU by its PTX name; default the one that the instruction means");
  command->add_option("--cases", flags->cases, "how many")->capture_default_str();
  command->add_option("--seed", flags->seed, "same seed, same file, on any machine")->capture_default_str();
  std::string meaning = "what to draw from:";
  for (const DistributionInfo& row : distributions) meaning += fmt::format("\n    {:<10} {}", row.name, row.meaning);
  command->add_option("--distribution", flags->distribution, meaning)->capture_default_str();
  flags->of_descriptor = {
      command->add_option("--m", flags->m, "tcgen05: rows of D, over the CTA group; default 128, of two CTAs 256"),
      command->add_option("--n", flags->n, "tcgen05: columns of D; default 64"),
      command->add_option("--d", flags->d, "tcgen05: type of D; default f32, of kind::i8 s32"),
      command->add_option("--a", flags->a, "tcgen05: type of A; default a type of the kind"),
      command->add_option("--b", flags->b, "tcgen05: type of B; default a type of the kind"),
      command->add_flag("--satfinite", flags->satfinite, "tcgen05 kind::i8: the saturate bit"),
      command->add_option("--scale-type", flags->scale_type,
                          "tcgen05, block scales: ue8m0, ue4m3 or ue5m3; default ue8m0"),
      command->add_flag("--k96", flags->k_96, "--k 96"),
      command->add_option("--k", flags->k, "tcgen05: K where the kind has several: 96 of fp4, 64 of fp8 (sm_107a)"),
      command->add_option("--sparsity-version", flags->sparsity_version, "sparse fp4: 1 on sm_107a, 0 elsewhere"),
      command->add_option("--max-shift", flags->max_shift,
                          "tcgen05 .ws: B may be shifted by 0: 0, 1: 8, 2: 16, 3: 32 columns"),
  };
  command->add_option("--zero-column-mask", flags->zero_column_mask,
                      "tcgen05 .ws: the mask descriptor; encode mask makes one");
  command->add_option("--a-source", flags->a_source, "smem, registers (wgmma) or tmem (tcgen05); default smem")
      ->check(CLI::IsMember(std::vector<std::string>(operand_sources.begin(), operand_sources.end())));
  flags->layouts.add(*command);
  flags->bench.add(*command);
  for (size_t i = 0; i < immediate_flags.size(); ++i) {
    command->add_option(immediate_flags[i].flags, flags->immediates[i], immediate_flags[i].meaning);
  }
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n"
      "  bitmma golden wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 -o cases.safetensors\n"
      "  bitmma golden wgmma.mma_async.sp.sync.aligned.m64n64k64.f32.e4m3.e5m2 --cases 100 --seed 7 \\\n"
      "      --distribution ties --a-source registers --layout-b k-major:64 -o sparse.safetensors\n"
      "  bitmma golden tcgen05.mma.cta_group::2.kind::f8f6f4 --m 256 --n 64 --a e2m1 --b e4m3 -o "
      "blackwell.safetensors\n"
      "  bitmma golden tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X --m 128 --n 64 \\\n"
      "      --scale-type ue4m3 --target sm_103a -o nvfp4.safetensors\n"
      "  bitmma golden "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 -o "
      "mma.safetensors\n"
      "  bitmma golden tcgen05.ld.sync.aligned.16x64b.x4.b32 -o ld.safetensors\n"
      "  bitmma golden mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 --format hex -o bench.hex\n"
      "The major-ness in the layouts sets imm-trans-a and imm-trans-b.");
  command->callback([flags, &context] { run_golden(context, *flags); });
}

}  // namespace bitmma::cli
