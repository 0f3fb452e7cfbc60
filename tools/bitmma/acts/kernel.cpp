// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "bitmma/acts/run_kernel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "flags.hpp"
#include "kernel_flags.hpp"
#include "output.hpp"
#include "write_result.hpp"

namespace bitmma::cli {
namespace {

void run_plan(Context& context, const KernelFlags& flags) {
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  const LaunchPlanRequest request = flags.plan_request();
  const bool as_json = flags.json;
  context.require_flags_acted();
  LaunchPlanRun run = naming_flags(flags_of_kernels, [&] { return run_launch_plan(request); });
  print_warnings(context, run.warnings);
  if (!flags.out.empty()) write_result(context, flags.out, run.memory, run.report);
  show(context, run.report, as_json);
}

/// Runs the kernel. A fault is reported after the steps that led to it.
KernelRun run_request(Context& context, const KernelFlags& flags, const KernelFileRequest& request) {
  KernelRun run;
  try {
    naming_flags(flags_of_kernels, [&] { run_kernel_file(request, run); });
  } catch (const Error&) {
    if (!run.rows.empty()) {
      try {
        write_trace_file(flags.trace_to, run.rows);
      } catch (const Error&) {  // report the fault instead
      }
    }
    if (!std::get<Report::List>(run.steps.value).empty() && !flags.json) show(context, run.steps, false);
    throw;
  }
  return run;
}

void run_kernel(Context& context, const KernelFlags& flags) {
  if (flags.list) return show(context, describe_entries(read_whole(flags.file)), flags.json);
  if (!flags.launches.empty()) return run_plan(context, flags);
  if (flags.fusions) return show(context, describe_fusions(kernel_of(flags.kernel())), flags.json);
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  const KernelFileRequest request = flags.request();
  const bool as_json = flags.json;
  KernelRun run = run_request(context, flags, request);
  print_warnings(context, run.warnings);
  if (!flags.out.empty()) write_result(context, flags.out, run.memory, run.report);
  context.require_flags_acted();
  if (request.trace && request.trace->keeps_rows) {
    write_trace_file(flags.trace_to, run.rows);
    run.report.add_text(
        fmt::format("wrote {} of registers to {}", counted(std::ssize(run.rows), "row"), *flags.trace_to));
  }
  if (run.product) {
    write_tensor_file(flags.trace_product, *run.product);
    run.report.add_text(fmt::format("wrote {}: bitmma explain shows it term by term", *flags.trace_product));
  }
  show(context, run.report, as_json);
}

}  // namespace

void add_run(Command& app, Context& context) {
  Command* command = app.add_command("run", "run a whole PTX kernel on the CPU, with the GPU's bits");
  const auto flags = std::make_shared<KernelFlags>();
  flags->add(*command);
  command->footer(
      "Examples:\n  bitmma run dataset:cuda_kernels --list\n  bitmma run dataset:cuda_kernels --entry softmax --grid "
      "2 --block 128 --arg zeros:f32[2,1000] --arg empty:f32[2,1000] --arg u32:1000 -o out.safetensors\n  bitmma run "
      "dataset:cuda_kernels --entry layer_norm --fusions\n  bitmma run dataset:cuda_kernels --entry scan --grid 1 "
      "--block 64 --shared 256 --arg zeros:s32[64] --arg empty:s32[64] --trace 0:5\n  bitmma run dataset:bulk_kernels "
      "--entry tma_product --block 128 --arg map[64,64/128]:zeros:bf16[64,64] --arg map[64,64/128]:zeros:bf16[64,64] "
      "--arg map[64,64]:zeros:f32[64,64] --arg s32:64\nFor a fault of the kernel (an access out of bounds, misaligned "
      "or to unwritten memory, a race, a deadlock), the command reports the thread and the line; the exit code is 2.");
  command->callback([flags, &context] { run_kernel(context, *flags); });
}

}  // namespace bitmma::cli
