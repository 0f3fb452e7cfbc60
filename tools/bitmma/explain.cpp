// SPDX-License-Identifier: MIT
#include "bitmma/analysis/explain.hpp"

#include <array>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/files/recorded_d.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "parts.hpp"

namespace bitmma::cli {
namespace {

struct ExplainFlags {
  Flag<std::string> path;
  FileFlags file;
  ExplainedProduct product;
  Flag<int64_t> index = 0;
  Flag<int> row = 0, col = 0;
  Flag<bool> json = false;
};

void run_explain(Context& context, const ExplainFlags& flags) {
  if (flags.product.is_asked())
    return flags.product.explain(context, flags.path, flags.file.target, flags.row, flags.col, flags.json);
  const VectorFile vectors = flags.file.naming([&] {
    return as_recorded_file(read_tensor_file(flags.path), flags.file.defaults(), {.warn = warnings_to(context)});
  });
  flags.file.naming([&] { require_consistent(vectors); });
  require_mma(vectors.instruction, "it moves bits and does no arithmetic; bitmma layout ldst shows where they go");
  require_case(vectors.cases, flags.index);
  const Case this_case = case_at(vectors, flags.index);
  constexpr std::array<FlagOfField, 3> names{{{"row", "--row"}, {"col", "--col"}, {"row, col", "--row, --col"}}};
  const std::vector<Explanation> steps =
      naming_flags(names, [&] { return explain_steps(this_case, flags.row, flags.col); });
  vectors.require_unchanged();
  const bool is_tile = !vectors.tiling.is_one_instruction();
  show(context, is_tile ? describe(steps, this_case, flags.row, flags.col) : describe(steps.front(), this_case.target),
       flags.json);
  const Explanation& last = steps.back();
  context.exit_code = !last.recorded_d || *last.recorded_d == last.d ? exit_same : exit_differs;
}

}  // namespace

void add_explain(Command& app, Context& context) {
  Command* command = app.add_command(
      "explain", "show one output, term by term: addresses, values, kept and dropped bits, rounding, alternatives");
  const auto flags = std::make_shared<ExplainFlags>();
  command->add_input("file", flags->path, "vector file or whole tile; with --plan or --kernel, a product")->required();
  flags->file.add(*command);
  flags->file.add_types(*command);
  flags->product.add(*command);
  command->add_option("--case", flags->index, "case")->capture_default_str();
  command->add_option("--row", flags->row, "row of D")->capture_default_str();
  command->add_option("--col", flags->col, "column of D")->capture_default_str();
  command->add_flag("--json", flags->json, "print the explanation as JSON");
  command->footer(
      "Examples:\n"
      "  bitmma explain cases.safetensors --case 3 --row 17 --col 5\n"
      "  bitmma explain cases.safetensors --json  # row 0, column 0 of case 0\n"
      "  bitmma explain product.safetensors --plan nvjet-algo2 --row 3 --col 5  # all of K, step by step\n" +
      meaning_of_rule +
      "Dropped bits are counted in units of the last kept bit and in units in the last place (ulp) of D. Exit code 1 "
      "if the file records another D.");
  command->callback([flags, &context] { run_explain(context, *flags); });
}

}  // namespace bitmma::cli
