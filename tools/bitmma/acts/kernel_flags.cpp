// SPDX-License-Identifier: MIT
#include "kernel_flags.hpp"

#include "arguments.hpp"
#include "bitmma/acts/kernel_argument_text.hpp"
#include "bitmma/files/file.hpp"

namespace bitmma::cli {

void KernelFlags::add(Command& command) {
  command.add_input("file", file, "PTX file, from nvcc -ptx, Triton or NVRTC")->required();
  command.add_option("--entry", entry, "the name of the kernel; default: the only kernel of the file");
  command.add_option("--grid", grid, "blocks: x, x,y or x,y,z")->capture_default_str();
  command.add_option("--block", block, "threads of a block, such as 128 or 32,4")->capture_default_str();
  command.add_option("--cluster", cluster, "blocks of a cluster; default: .reqnctapercluster of the PTX, or 1");
  command.add_option("--shared", shared, "bytes of dynamic shared memory");
  command.add_flag("--cooperative", cooperative,
                   "run all blocks together, as cuLaunchCooperativeKernel: they may wait for each other");
  command.add_input(
      "--arg", arguments,
      "a parameter; repeat it for each, in order: x.npy, file.safetensors:x, zeros:f16[2,64], empty:f32[8] (reading it "
      "before it is written is an error), f32:0.125, or a tensor map with box and swizzle, map[64,64/128]:x.npy",
      paths_of_argument);
  command.add_input("--launches", launches,
                    "several launches over one memory, as a JSON file names them: see docs/run_your_kernel.md");
  for (const char* const other : {"--entry", "--grid", "--block", "--cluster", "--shared", "--cooperative", "--arg"})
    command.get_option("--launches")->excludes(command.get_option(other));
  command.add_output("-o,--output", out,
                     "write the memory of the arguments after the run to this safetensors file: arg0, arg1, ...");
  command.add_option("--values", values, "number of values to show for each changed argument")->capture_default_str();
  between(command.get_option("--values"), 0, 1 << 20);
  target.add(command, "the GPU by its PTX name; default: the .target of the file");
  command.add_flag("--no-fmad", no_fmad, "as ptxas -fmad=false: do not fuse products and sums into fma");
  command.add_input(
      "--sass", sass,
      "the output of nvdisasm -gp for a cubin of ptxas -lineinfo; it determines which products and sums are fused");
  command.add_flag("--fusions", fusions,
                   "show which products and sums ptxas fuses into one fma; do not run the kernel");
  command.add_flag("--list", list, "list the kernels of the file; do not run any");
  command.add_option("--trace", trace,
                     "show each instruction that this thread runs, with its registers; BLOCK:THREAD, such as 1,0:5");
  command.add_option("--trace-lines", trace_lines, "trace only these lines of the PTX: 40, or 40-60");
  command.add_output("--trace-to", trace_to,
                     "write the traced registers to this .csv file instead; bitmma compare finds the first line at "
                     "which two traces differ");
  command.add_output("--trace-product", trace_product,
                     "write the first matrix instruction of the trace (mma.sync, wgmma, tcgen05.mma) to this "
                     "safetensors file, for bitmma explain");
  command.add_option("--clock", clock,
                     "the number at which %clock64, %globaltimer and their like begin; without it a kernel that reads "
                     "them is refused");
  command.add_flag("--no-print", no_print, "do not show what the kernel prints");
  command.add_flag("--no-checks", no_checks, "do not check for races and reads of unwritten memory");
  command.add_flag("--json", json, "print the result as JSON");
  limits.add(command);
  add_threads(command, threads);
}

KernelFileRequest KernelFlags::kernel() const {
  return {.ptx = read_whole(file),
          .entry = entry,
          .target = target.requested(),
          .fmad = !no_fmad,
          .sass = sass.empty() ? std::optional<std::string>{} : read_whole(sass)};
}

KernelFileRequest KernelFlags::request() const {
  KernelFileRequest request = kernel();
  request.grid = grid, request.block = block, request.cluster = cluster;
  request.dynamic_shared_bytes = shared;
  request.cooperative = cooperative;
  request.arguments = arguments;
  request.checks = !no_checks;
  request.prints = !no_print;
  request.clock = clock_number();
  request.threads = threads;
  request.values = values;
  request.limits = limits.limits();
  if (trace.empty()) return request;
  if (!trace_product.empty()) require_tensor_file_name(trace_product);
  request.trace = TraceRequest{.thread = trace,
                               .lines = trace_lines,
                               .keeps_rows = !trace_to.empty(),
                               .finds_product = !trace_product.empty(),
                               .prints = trace_to.empty() && trace_product.empty()};
  return request;
}

std::optional<uint64_t> KernelFlags::clock_number() const {
  if (clock.empty()) return std::nullopt;
  const auto number = parse_word(clock);
  if (!number) throw Error({.field = "--clock", .seen = clock, .expected = "a whole number below 2^64"});
  return number;
}

LaunchPlanRequest KernelFlags::plan_request() const {
  return {.ptx = read_whole(file),
          .plan = read_whole(launches),
          .target = target.requested(),
          .fmad = !no_fmad,
          .checks = !no_checks,
          .prints = !no_print,
          .clock = clock_number(),
          .threads = threads,
          .values = values,
          .limits = limits.limits()};
}

}  // namespace bitmma::cli
