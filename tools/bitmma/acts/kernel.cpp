// SPDX-License-Identifier: MIT
#include "bitmma/kernel/kernel.hpp"

#include <fmt/format.h>

#include <map>

#include "arguments.hpp"
#include "bitmma/acts/trace_file.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/files/vector_file.hpp"
#include "flags.hpp"
#include "kernel_arguments.hpp"
#include "kernel_launches.hpp"
#include "launch_limit_flags.hpp"
#include "numbers.hpp"
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

/// "4,2,1" or "4x2x1": up to three extents of at least 1.
std::array<int64_t, 3> extents_of_flag(std::string_view flag, const std::string& text) {
  std::array<int64_t, 3> extents{1, 1, 1};
  const bool may_be_hex = text.find(',') != std::string::npos || text.find("0x") == 0;  // there x is no separator
  const std::vector<std::string> parts = split_list(text, may_be_hex ? "," : ",x");
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto number = parse_whole(parts[i]);
    if (parts.size() > extents.size() || !number || *number < 1 || *number > 0x7FFFFFFF) {
      throw Error({.field = std::string(flag),
                   .seen = shortened(text),
                   .expected = "one to three extents of 1..2147483647, such as 4,2"});
    }
    extents[i] = static_cast<int64_t>(*number);
  }
  return extents;
}

Report describe_fusions(const PtxEntry& kernel) {
  Report list = Report::list();
  for (const KernelFusion& one : kernel.fusions()) {
    Report row{{"product_line", one.product_line},
               {"sum_line", one.sum_line},
               {"joined", one.is_joined},
               {"sure", one.is_sure},
               {"rule", one.rule},
               {"sass", print(one.sass)}};
    if (one.product_line == 0) {
      row.add_text(fmt::format("line {} {}  fma in SASS, but its product was not found", one.sum_line, one.sum));
    } else {
      row.add_text(fmt::format(
          "line {} {}  {} into line {} {}  [{}{}{}]", one.product_line, one.product,
          one.is_joined ? "joined" : "not joined", one.sum_line, one.sum, one.rule,
          one.sass == SassEvidence::none ? "" : "; SASS: ", one.sass == SassEvidence::none ? "" : print(one.sass)));
    }
    list.append(std::move(row));
  }
  return list;
}

/// "1,0:5": a block and one of its threads.
ThreadTrace trace_of_flag(const std::string& text) {
  ThreadTrace trace;
  const size_t colon = text.find(':');
  const auto indices = [&](std::string_view part) {
    std::array<int64_t, 3> found{};
    const std::vector<std::string> parts = split_list(part);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto number = parse_whole(parts[i]);
      if (parts.size() > found.size() || !number || *number > 0x7FFFFFFF) {
        throw Error({.field = "--trace",
                     .seen = shortened(text),
                     .expected = "BLOCK:THREAD, each of one to three indices, such as 1,0:5"});
      }
      found[i] = static_cast<int64_t>(*number);
    }
    return found;
  };
  trace.block =
      colon == std::string::npos ? std::array<int64_t, 3>{} : indices(std::string_view(text).substr(0, colon));
  trace.thread = indices(std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1));
  return trace;
}

/// "40" or "40-60": the PTX lines to report.
std::pair<int, int> lines_of_flag(const std::string& text) {
  const size_t dash = std::min(text.find('-'), text.size());
  const auto first = parse_whole(text.substr(0, dash)),
             last = dash < text.size() ? parse_whole(text.substr(dash + 1)) : first;
  if (!first || !last || *first < 1 || *last > 0x7FFFFFFF || *first > *last) {
    throw Error({.field = "--trace-lines",
                 .seen = shortened(printable(text)),
                 .expected = "a line of the PTX, or a range such as 40-60"});
  }
  return {static_cast<int>(*first), static_cast<int>(*last)};
}

/// "%f3 = 0x3f800000 (1)": floating-point registers with their value.
std::string print_register(const TraceRow& row, const ThreadRegister& one) {
  const auto type = std::ranges::find(argument_types, one.type, &ArgumentType::name);
  const bool has_number = type != argument_types.end() && type->format;
  return fmt::format("{} = {}{}", row.name, row.bits,
                     has_number ? fmt::format(" ({})", print_value(*type->format, one.bits[0])) : "");
}

void run_kernel(Context& context, const KernelFlags& flags) {
  const std::string ptx = read_whole(flags.file);
  if (flags.list) {
    Report names = Report::list();
    for (const std::string& name : kernel_entries(ptx)) {
      names.append(name);
      names.add_text(name);
    }
    return show(context, names, flags.json);
  }
  if (!flags.launches.empty()) {
    return run_launches(context, ptx,
                        {.plan = read_whole(flags.launches),
                         .output = flags.out,
                         .target = flags.target.asked(),
                         .fmad = !flags.no_fmad,
                         .checks = !flags.no_checks,
                         .threads = flags.threads,
                         .values = flags.values,
                         .limits = flags.limits.limits(),
                         .as_json = flags.json});
  }
  const PtxEntry kernel(ptx, {.entry = flags.entry,
                              .target = flags.target.asked(),
                              .fmad = !flags.no_fmad,
                              .sass = flags.sass.empty() ? std::optional<std::string>{} : read_whole(flags.sass)});
  if (flags.fusions) return show(context, describe_fusions(kernel), flags.json);
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  Launch call{.grid = extents_of_flag("--grid", flags.grid),
              .block = extents_of_flag("--block", flags.block),
              .dynamic_shared_bytes = flags.shared,
              .threads = flags.threads,
              .checks = !flags.no_checks,
              .most_steps = flags.limits.instructions};
  if (!flags.cluster.empty()) call.cluster = extents_of_flag("--cluster", flags.cluster);
  std::vector<GivenArgument> arguments;
  int64_t memory_bytes = flags.limits.memory_bytes;
  for (const std::string& text : *flags.arguments) arguments.push_back(kernel_argument(text, memory_bytes));
  std::vector<std::vector<uint8_t>> before;
  for (GivenArgument& given : arguments) {
    before.push_back(given.memory);
    if (given.map) call.arguments.push_back(tensor_map_argument(given.memory, *given.map));
    else if (given.tensor) call.arguments.push_back(memory_argument(given.memory, given.is_unwritten));
    else call.arguments.push_back({.value = given.value});
  }
  const int values = flags.values;
  const bool as_json = flags.json;
  std::string trace_to, trace_product;
  Report steps = Report::list();
  std::vector<TraceRow> rows;
  std::optional<TensorFile> product;
  ThreadTrace trace;
  if (!flags.trace.empty()) {
    trace_to = flags.trace_to.get(), trace_product = flags.trace_product.get();
    if (!trace_product.empty()) require_tensor_file_name(trace_product);
    trace = trace_of_flag(flags.trace);
    const auto lines = flags.trace_lines.empty() ? std::pair(1, 0x7FFFFFFF) : lines_of_flag(flags.trace_lines);
    const bool prints = trace_to.empty() && trace_product.empty();
    std::map<int, int> product_of_sum;
    for (const KernelFusion& one : kernel.fusions()) {
      if (one.is_joined) product_of_sum[one.sum_line] = one.product_line;
    }
    trace.step = [&, product_of_sum = std::move(product_of_sum), lines, prints,
                  count = int64_t{0}](const ThreadStep& step) mutable {
      ++count;
      if (step.line < lines.first || step.line > lines.second) return true;
      if (step.product && !trace_product.empty() && !product)
        product = single_case_file(*step.product, {{"source", "bitmma run"}});
      const std::vector<TraceRow> of_step = trace_rows(count, step);
      if (!trace_to.empty()) rows.insert(rows.end(), of_step.begin(), of_step.end());
      if (!prints) return true;
      std::string text = fmt::format("{:5} {}", step.line, step.text);
      if (const auto joined = product_of_sum.find(step.line); joined != product_of_sum.end())
        text += fmt::format("  (one fma with line {})", joined->second);
      Report registers = Report::object();
      for (size_t i = 0; i < of_step.size(); ++i) {
        text += (i == 0 ? "    " : ", ") + print_register(of_step[i], step.written[i]);
        registers.add(of_step[i].name, of_step[i].bits);
      }
      Report one{{"line", step.line}, {"statement", std::string(step.text)}, {"registers", std::move(registers)}};
      one.add_text(text);
      steps.append(std::move(one));
      return true;
    };
    call.trace = &trace;
  }
  LaunchReport done;
  try {
    done = launch(kernel, call);
  } catch (const Error&) {
    // Print the steps that led to the fault, if there are any.
    if (!rows.empty()) {
      try {
        write_trace_file(trace_to, rows);
      } catch (const Error&) {  // report the fault instead
      }
    }
    if (!std::get<Report::List>(steps.value).empty() && !as_json) show(context, steps, false);
    throw;
  }
  std::vector<Violation> warnings = done.warnings;
  std::ranges::move(kernel_warnings(kernel), std::back_inserter(warnings));
  print_warnings(context, warnings);
  Report report = describe_launch(kernel, call, done);
  Report list = Report::list();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].tensor)
      list.append(describe_memory({{"argument", i}}, fmt::format("argument {}", i), arguments[i], before[i], values));
  }
  report.add("arguments", list);
  if (!std::get<Report::List>(steps.value).empty()) report.add("trace", steps);
  for (const Report& one : std::get<Report::List>(steps.value)) {
    for (const Report::Line& line : one.lines) report.add_text(line.text);
  }
  for (const Report& one : std::get<Report::List>(list.value)) {
    for (const Report::Line& line : one.lines) report.add_text(line.text);
  }
  if (!flags.out.empty()) {
    context.require_flags_acted();
    TensorFile file;
    file.set_metadata("kernel", kernel.name());
    file.set_metadata("target", std::string(print(kernel.target())));
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].tensor) continue;
      const Tensor& tensor = *arguments[i].tensor;
      file.set(Tensor::from_bytes(fmt::format("arg{}", i), tensor.dtype, tensor.shape, arguments[i].memory));
    }
    write_tensor_file(flags.out, file);
    report.add("written", *flags.out);
    report.add_text(fmt::format("wrote {}", *flags.out));
  }
  if (!trace_to.empty()) {
    context.require_flags_acted();
    write_trace_file(trace_to, rows);
    report.add_text(fmt::format("wrote {} of registers to {}", counted(std::ssize(rows), "row"), trace_to));
  }
  if (!trace_product.empty()) {
    if (!product)
      throw Error({.code = ViolationCode::not_found,
                   .field = "--trace-product",
                   .seen = "the traced instructions contain no matrix product",
                   .expected = "a thread and lines that execute one"});
    context.require_flags_acted();
    write_tensor_file(trace_product, *product);
    report.add_text(fmt::format("wrote {}: bitmma explain shows it term by term", trace_product));
  }
  show(context, report, as_json);
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
