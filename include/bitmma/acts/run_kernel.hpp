// SPDX-License-Identifier: MIT
// A kernel of a PTX file, with arguments as text; several launches over one memory; the fusions of a kernel.
//
//   KernelRun run;
//   run_kernel_file({.ptx = read_whole("cuda.ptx"), .entry = "softmax", .grid = "2", .block = "128",
//                    .arguments = {"x.npy", "empty:f32[2,1000]", "u32:1000"}}, run);
//   print(run.report);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bitmma/acts/launch_file.hpp"
#include "bitmma/acts/trace_file.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/kernel/kernel.hpp"

namespace bitmma {

/// What of one thread to follow.
struct TraceRequest {
  std::string thread = {};     // BLOCK:THREAD, such as 1,0:5, or THREAD alone
  std::string lines = {};      // of the PTX: 40, or 40-60; empty: all
  bool keeps_rows = false;     // for a file of registers
  bool finds_product = false;  // the first matrix instruction, as a vector file
  bool prints = true;          // as lines of the report
};

struct KernelFileRequest {
  std::string ptx = {};    // the text
  std::string entry = {};  // empty: the only one
  std::optional<Target> target = {};
  bool fmad = true;
  std::optional<std::string> sass = {};               // of nvdisasm, which decides fusions
  std::string grid = "1", block = "1", cluster = {};  // "4,2" or "4x2"; empty cluster: the kernel's
  int64_t dynamic_shared_bytes = 0;
  bool cooperative = false;                 // Launch::cooperative
  std::vector<std::string> arguments = {};  // as in kernel_argument_text.hpp
  bool checks = true;
  bool prints = true;                  // shows what the kernel prints
  std::optional<uint64_t> clock = {};  // Launch::clock
  int threads = 1;
  int values = 4;  // to show of each changed argument
  LaunchLimits limits = {};
  std::optional<TraceRequest> trace = {};
};

struct KernelRun {
  Report report = {};      // {"kernel", "target", "thread_instructions", "printed", "arguments", "trace"}
  TensorFile memory = {};  // after the run: arg0, arg1, ...
  std::vector<Violation> warnings = {};
  Report steps = Report::list();    // of the traced thread
  std::vector<TraceRow> rows = {};  // if the trace keeps them
  std::optional<TensorFile> product = {};
};

/// Fills `run`. Throws Error for a bad request (fields grid, block, cluster, argument, trace, trace_lines,
/// trace_product) and for a fault of the kernel; `run` then has the steps and rows that led to it.
void run_kernel_file(const KernelFileRequest& request, KernelRun& run);

/// The kernel of a request. Throws Error as PtxEntry does.
PtxEntry kernel_of(const KernelFileRequest& request);
/// The names of the entries of a module, as a list.
Report describe_entries(const std::string& ptx);
/// A list of {"product_line", "sum_line", "joined", "sure", "rule", "sass"}.
Report describe_fusions(const PtxEntry& kernel);

struct LaunchPlanRequest {
  std::string ptx = {}, plan = {};  // the texts; the plan as in launch_plan.hpp
  std::optional<Target> target = {};
  bool fmad = true, checks = true, prints = true;
  std::optional<uint64_t> clock = {};
  int threads = 1, values = 4;
  LaunchLimits limits = {};
};

struct [[nodiscard]] LaunchPlanRun {
  Report report = {};      // {"launches", "memory"}
  TensorFile memory = {};  // after the last launch, and the module's variables as variable.NAME
  std::vector<Violation> warnings = {};
};

/// Throws Error, which names the place in the plan.
LaunchPlanRun run_launch_plan(const LaunchPlanRequest& request);

}  // namespace bitmma
