// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>

#include "arguments.hpp"
#include "bitmma/acts/kernel_argument_text.hpp"
#include "bitmma/acts/run_kernel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "flags.hpp"
#include "launch_limit_flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct KernelFlags {
  Flag<std::string> file, entry, grid = "1", block = "1", cluster, out, sass, trace, trace_lines, trace_to,
                                 trace_product;
  Flag<std::vector<std::string>> arguments;
  Flag<int64_t> shared = 0;
  Flag<int> threads = 1;
  Flag<int> values = 4;
  LaunchLimitFlags limits;
  Flag<std::string> launches;
  Flag<bool> no_checks = false, no_fmad = false, fusions = false, list = false, json = false;
  TargetFlag target;
};

/// The flags of the fields that run_kernel_file refuses.
constexpr auto flags_of_kernels = std::to_array<FlagOfField>({{"argument", "--arg"},
                                                              {"grid", "--grid"},
                                                              {"block", "--block"},
                                                              {"cluster", "--cluster"},
                                                              {"trace", "--trace"},
                                                              {"trace_lines", "--trace-lines"},
                                                              {"trace_product", "--trace-product"}});

void list_entries(Context& context, const std::string& ptx, bool as_json) {
  Report names = Report::list();
  for (const std::string& name : kernel_entries(ptx)) {
    names.append(name);
    names.add_text(name);
  }
  show(context, names, as_json);
}

/// Writes a result to the file of a flag, if it is given, and adds it to the report.
void write_memory(Context& context, const std::string& path, const TensorFile& memory, Report& report) {
  if (path.empty()) return;
  context.require_flags_acted();
  write_tensor_file(path, memory);
  report.add("written", path);
  report.add_text(fmt::format("wrote {}", path));
}

void run_plan(Context& context, const KernelFlags& flags, std::string ptx) {
  const std::string out = flags.out;
  const bool as_json = flags.json;
  if (!out.empty()) require_tensor_file_name(out);
  const LaunchPlanRequest request{.ptx = std::move(ptx),
                                  .plan = read_whole(flags.launches),
                                  .target = flags.target.asked(),
                                  .fmad = !flags.no_fmad,
                                  .checks = !flags.no_checks,
                                  .threads = flags.threads,
                                  .values = flags.values,
                                  .limits = flags.limits.limits()};
  context.require_flags_acted();
  LaunchPlanRun run = run_launch_plan(request);
  print_warnings(context, run.warnings);
  write_memory(context, out, run.memory, run.report);
  show(context, run.report, as_json);
}

std::optional<TraceRequest> trace_request(const KernelFlags& flags) {
  if (flags.trace.empty()) return std::nullopt;
  if (!flags.trace_product.empty()) require_tensor_file_name(flags.trace_product);
  return TraceRequest{.thread = flags.trace,
                      .lines = flags.trace_lines,
                      .keeps_rows = !flags.trace_to.empty(),
                      .finds_product = !flags.trace_product.empty(),
                      .prints = flags.trace_to.empty() && flags.trace_product.empty()};
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
  std::string ptx = read_whole(flags.file);
  if (flags.list) return list_entries(context, ptx, flags.json);
  if (!flags.launches.empty()) return run_plan(context, flags, std::move(ptx));
  KernelFileRequest request{.ptx = std::move(ptx),
                            .entry = flags.entry,
                            .target = flags.target.asked(),
                            .fmad = !flags.no_fmad,
                            .sass = flags.sass.empty() ? std::optional<std::string>{} : read_whole(flags.sass)};
  if (flags.fusions) return show(context, describe_fusions(kernel_of(request)), flags.json);
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  request.grid = flags.grid, request.block = flags.block, request.cluster = flags.cluster;
  request.dynamic_shared_bytes = flags.shared;
  request.arguments = flags.arguments;
  request.checks = !flags.no_checks;
  request.threads = flags.threads;
  request.values = flags.values;
  request.limits = flags.limits.limits();
  request.trace = trace_request(flags);
  const bool as_json = flags.json;
  KernelRun run = run_request(context, flags, request);
  print_warnings(context, run.warnings);
  write_memory(context, flags.out, run.memory, run.report);
  if (request.trace && request.trace->keeps_rows) {
    context.require_flags_acted();
    write_trace_file(flags.trace_to, run.rows);
    run.report.add_text(
        fmt::format("wrote {} of registers to {}", counted(std::ssize(run.rows), "row"), *flags.trace_to));
  }
  if (run.product) {
    context.require_flags_acted();
    write_tensor_file(flags.trace_product, *run.product);
    run.report.add_text(fmt::format("wrote {}: bitmma explain shows it term by term", *flags.trace_product));
  }
  show(context, run.report, as_json);
}

}  // namespace

void add_run(Command& app, Context& context) {
  Command* command = app.add_command("run", "run a whole PTX kernel on the CPU, with the GPU's bits");
  const auto flags = std::make_shared<KernelFlags>();
  command->add_input("file", flags->file, "PTX file, from nvcc -ptx, Triton or NVRTC")->required();
  command->add_option("--entry", flags->entry, "the name of the kernel; default: the only kernel of the file");
  command->add_option("--grid", flags->grid, "blocks: x, x,y or x,y,z")->capture_default_str();
  command->add_option("--block", flags->block, "threads of a block, such as 128 or 32,4")->capture_default_str();
  command->add_option("--cluster", flags->cluster, "blocks of a cluster; default: .reqnctapercluster of the PTX, or 1");
  command->add_option("--shared", flags->shared, "bytes of dynamic shared memory");
  command->add_input(
      "--arg", flags->arguments,
      "a parameter; repeat it for each, in order: x.npy, file.safetensors:x, zeros:f16[2,64], empty:f32[8] (reading it "
      "before it is written is an error), f32:0.125, or a tensor map with box and swizzle, map[64,64/128]:x.npy",
      paths_of_argument);
  command->add_input("--launches", flags->launches,
                     "several launches over one memory, as a JSON file names them: see docs/run_your_kernel.md");
  for (const char* const other : {"--entry", "--grid", "--block", "--cluster", "--shared", "--arg"})
    command->get_option("--launches")->excludes(command->get_option(other));
  command->add_output("-o,--output", flags->out,
                      "write the memory of the arguments after the run to this safetensors file: arg0, arg1, ...");
  command->add_option("--values", flags->values, "number of values to show for each changed argument")
      ->capture_default_str();
  between(command->get_option("--values"), 0, 1 << 20);
  flags->target.add(*command, "the GPU by its PTX name; default: the .target of the file");
  command->add_flag("--no-fmad", flags->no_fmad, "as ptxas -fmad=false: do not fuse products and sums into fma");
  command->add_input(
      "--sass", flags->sass,
      "the output of nvdisasm -gp for a cubin of ptxas -lineinfo; it determines which products and sums are fused");
  command->add_flag("--fusions", flags->fusions,
                    "show which products and sums ptxas fuses into one fma; do not run the kernel");
  command->add_flag("--list", flags->list, "list the kernels of the file; do not run any");
  command->add_option("--trace", flags->trace,
                      "show each instruction that this thread runs, with its registers; BLOCK:THREAD, such as 1,0:5");
  command->add_option("--trace-lines", flags->trace_lines, "trace only these lines of the PTX: 40, or 40-60");
  command->add_output("--trace-to", flags->trace_to,
                      "write the traced registers to this .csv file instead; bitmma compare finds the first line at "
                      "which two traces differ");
  command->add_output("--trace-product", flags->trace_product,
                      "write the first matrix instruction of the trace (mma.sync, wgmma, tcgen05.mma) to this "
                      "safetensors file, for bitmma explain");
  command->add_flag("--no-checks", flags->no_checks, "do not check for races and reads of unwritten memory");
  command->add_flag("--json", flags->json, "print the result as JSON");
  flags->limits.add(*command);
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n  bitmma run data/kernels/cuda.ptx --list\n  bitmma run data/kernels/cuda.ptx --entry softmax --grid "
      "2 --block 128 --arg zeros:f32[2,1000] --arg empty:f32[2,1000] --arg u32:1000 -o out.safetensors\n  bitmma run "
      "data/kernels/cuda.ptx --entry layer_norm --fusions\n  bitmma run data/kernels/cuda.ptx --entry scan --grid 1 "
      "--block 64 --shared 256 --arg zeros:s32[64] --arg empty:s32[64] --trace 0:5\n  bitmma run data/kernels/bulk.ptx "
      "--entry tma_product --block 128 --arg map[64,64/128]:zeros:bf16[64,64] --arg map[64,64/128]:zeros:bf16[64,64] "
      "--arg map[64,64]:zeros:f32[64,64] --arg s32:64\nFor a fault of the kernel (an access out of bounds, misaligned "
      "or to unwritten memory, a race, a deadlock), the command reports the thread and the line; the exit code is 2.");
  command->callback([flags, &context] { run_kernel(context, *flags); });
}

}  // namespace bitmma::cli
