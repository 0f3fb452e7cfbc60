// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "arguments.hpp"
#include "bitmma/acts/run_operator.hpp"
#include "bitmma/core/text.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "write_result.hpp"

namespace bitmma::cli {
namespace {

struct OperatorFlags {
  Flag<std::string> name, tensor, type, output_type, window, dim, backend, out, against, explain;
  Flag<std::vector<std::string>> files;
  Flag<std::optional<float>> scale, eps;
  Flag<std::optional<int>> splits;
  Flag<bool> causal = false, json = false;
  Flag<int> threads = 1;
};

constexpr auto flags_of_operators = std::to_array<FlagOfField>({{"type", "--type"},
                                                                {"causal", "--causal"},
                                                                {"scale", "--scale"},
                                                                {"window", "--window"},
                                                                {"splits", "--splits"},
                                                                {"backend", "--backend"},
                                                                {"output_type", "--output-type"},
                                                                {"eps", "--eps"},
                                                                {"dim", "--dim"},
                                                                {"explain", "--explain"}});

std::optional<Format> format_or_none(std::string_view flag, const std::string& name) {
  return name.empty() ? std::nullopt
                      : std::optional(require_format(flag, name, {Format::f32, Format::f16, Format::bf16}));
}

/// "x [weight] [bias]".
std::string print_operands(const OperatorInfo& info) {
  std::vector<std::string> operands;
  for (size_t i = 0; i < info.operands.size(); ++i) {
    const std::string operand(info.operands[i]);
    operands.push_back(i < info.required ? operand : "[" + operand + "]");
  }
  return fmt::format("{}", fmt::join(operands, " "));
}

void run_operator_command(Context& context, const OperatorFlags& flags) {
  if (flags.files->empty()) {
    const std::vector<OperatorInfo> infos = operator_infos();
    throw Error(
        {.code = ViolationCode::missing_argument,
         .field = "file",
         .seen = "(missing)",
         .expected = fmt::format("{}: a file each, or one safetensors with all of them by name",
                                 print_operands(*std::ranges::find(infos, flags.name.get(), &OperatorInfo::name))),
         .fix = "bitmma operator --help shows examples"});
  }
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  OperatorRequest request{.name = flags.name,
                          .files = flags.files,
                          .tensor = flags.tensor,
                          .type = format_or_none("--type", flags.type),
                          .causal = flags.causal,
                          .scale = flags.scale.get(),
                          .window = flags.window,
                          .splits = flags.splits.get(),
                          .backend = flags.backend,
                          .output_type = format_or_none("--output-type", flags.output_type),
                          .eps = flags.eps.get(),
                          .dim = flags.dim,
                          .explain = flags.explain,
                          .computes = flags.explain.empty() || !flags.out.empty(),
                          .threads = flags.threads};
  if (!flags.against.empty()) request.recorded = read_tensor_file(flags.against);
  OperatorRun run = naming_flags(flags_of_operators, [&] { return run_operator(request); });
  if (!flags.out.empty()) write_result(context, flags.out, run.results, run.report);
  show(context, run.report, flags.json);
  context.exit_code = run.differs ? exit_differs : exit_same;
}

/// The flag of an option of the library.
std::string_view flag_of_option(std::string_view option) {
  return std::ranges::find(flags_of_operators, option, &FlagOfField::first)->second;
}

/// The operators with their operands and flags.
std::string table_of_operators() {
  std::vector<std::vector<std::string>> table{{"  operator", "operands", "flags"}};
  std::string functions, functions_of_two;
  for (const OperatorInfo& info : operator_infos()) {
    if (info.options.empty()) {
      (info.required == 2 ? functions_of_two : functions) += " " + info.name;
      continue;
    }
    std::vector<std::string> flags;
    for (const std::string_view option : info.options) flags.emplace_back(flag_of_option(option));
    table.push_back({"  " + info.name, print_operands(info), fmt::format("{}", fmt::join(flags, " "))});
  }
  return print_table(table) + "Functions of x:" + functions + "; of x and y:" + functions_of_two + ".\n";
}

/// "attention, softmax, ..., or a function of elements such as silu".
std::string names_of_operators() {
  std::string names;
  for (const OperatorInfo& info : operator_infos())
    if (!info.options.empty()) names += info.name + ", ";
  return names + "or a function of elements such as silu";
}

}  // namespace

void add_operator(Command& app, Context& context) {
  Command* command = app.add_command(
      "operator", "attention, softmax, norms, sums and functions of elements as PyTorch computes them, bit for bit");
  const auto flags = std::make_shared<OperatorFlags>();
  command->add_option("operator", flags->name, names_of_operators())->required();
  std::vector<std::string> names;
  for (const OperatorInfo& info : operator_infos()) names.push_back(info.name);
  one_of(command->get_option("operator"), names, false);
  command->add_input("file", flags->files,
                     "the operands in the table's order, a file each, or one safetensors with all of them by name");
  command->add_option("--tensor", flags->tensor, "another name of the first operand in its file");
  command->add_option("--type", flags->type, "the type of tensors of raw codes: f16, bf16 or f32");
  command->add_option("--output-type", flags->output_type, "f32, or the type of x, the default");
  command->add_option("--eps", flags->eps,
                      "epsilon of a norm; default 1e-5; for rms_norm 2^-23, the epsilon of float32");
  command->add_option("--dim", flags->dim,
                      "-1: the last axis, the default; 0: the first axis of a matrix; all: all elements");
  command->add_flag("--causal", flags->causal,
                    "query i sees the keys up to i + keys - queries; efficient, cudnn: up to i");
  command->add_option("--scale", flags->scale, "factor of the scores; default 1 / sqrt(head size)");
  command->add_option("--window", flags->window, "LEFT,RIGHT: keys seen before and after a query's own; -1: all");
  command->add_option("--splits", flags->splits, "parts of the keys; default: what the library chooses");
  command->add_option("--backend", flags->backend,
                      "flash, the default: FlashAttention-2; efficient: memory-efficient; cudnn, cudnn_sm80");
  command->add_output("-o,--output", flags->out, "file to write: out, and lse of attention, mean and rstd of norms");
  command->add_input("--against", flags->against, "compare the result, bit for bit, with a recorded one in this file");
  command->add_option("--explain", flags->explain, "one output, step by step: its place in out, such as 0,5");
  command->add_flag("--json", flags->json, "print the result as JSON");
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n"
      "  bitmma operator softmax x.npy -o p.safetensors\n"
      "  bitmma operator softmax x.npy --explain 0,5  # row 0, column 5\n"
      "  bitmma operator attention q.npy k.npy v.npy --causal -o out.safetensors\n"
      "  bitmma operator softmax x.npy --against p.safetensors\n"
      "  bitmma operator layer_norm x.npy weight.npy bias.npy -o norm.safetensors\n"
      "  bitmma operator silu recorded.safetensors --tensor a\n"
      "\n" +
      table_of_operators() +
      "What was compared with a GPU: docs/operators.md. Exit code 1 if outputs differ from those of --against, 2 for a "
      "bad request.");
  command->callback([flags, &context] { run_operator_command(context, *flags); });
}

}  // namespace bitmma::cli
