// One function per verb: adds the subcommand to the app. Flags become values, values one library call, then print.
#pragma once

#include <CLI/CLI.hpp>

#include "cli.hpp"

namespace bitmma::cli {

/// What every command shares: where to print, and the exit code it leaves.
struct Context {
  Terminal terminal;
  int exit_code = exit_same;
};

void add_simulate(CLI::App& app, Context& context);
void add_gemm(CLI::App& app, Context& context);
void add_golden(CLI::App& app, Context& context);
void add_verify(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_decode(CLI::App& app, Context& context);
void add_encode(CLI::App& app, Context& context);
void add_layout(CLI::App& app, Context& context);
void add_list(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_diagnose(CLI::App& app, Context& context);
void add_ptx(CLI::App& app, Context& context);
void add_gpu(CLI::App& app, Context& context);
void add_survey(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);

}  // namespace bitmma::cli
