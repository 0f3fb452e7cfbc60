// SPDX-License-Identifier: MIT
#include "bitmma/acts/run_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "bitmma/acts/kernel_argument_text.hpp"
#include "bitmma/acts/launch_plan.hpp"
#include "bitmma/core/numbers.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/kernel/memory.hpp"

namespace bitmma {
namespace {

const ArgumentType* argument_type_of_dtype(std::string_view dtype) {
  const auto row = std::ranges::find(argument_types, dtype, &ArgumentType::dtype);
  return row == argument_types.end() ? nullptr : &*row;
}

std::string shown_value(const ArgumentType& type, const uint8_t* at) {
  uint64_t code = 0;
  std::memcpy(&code, at, static_cast<size_t>(type.bytes));
  if (type.format) return print_value(*type.format, code);
  const int shift = 64 - 8 * type.bytes;
  return type.is_signed ? std::to_string(static_cast<int64_t>(code << shift) >> shift) : std::to_string(code);
}

/// A row of the launch that is done.
Report describe_launch(const PtxEntry& kernel, const Launch& call, const LaunchReport& done, bool prints) {
  Report row{
      {"kernel", kernel.name()}, {"target", print(kernel.target())}, {"thread_instructions", done.thread_instructions}};
  row.add_text(fmt::format("{} on {}: {} blocks of {} threads, {} thread instructions", kernel.name(),
                           print(kernel.target()), call.grid[0] * call.grid[1] * call.grid[2],
                           call.block[0] * call.block[1] * call.block[2], done.thread_instructions));
  if (prints && !done.printed.empty()) {
    row.add("printed", done.printed);
    row.add_text(done.printed);
  }
  return row;
}

/// Adds to `row` what launches changed in a tensor, with its first values. `name`: "argument 2", "x".
Report describe_memory(Report row, const std::string& name, const ParsedArgument& argument,
                       const std::vector<uint8_t>& before, int values) {
  const Tensor& tensor = *argument.tensor;
  const ArgumentType* const type = argument_type_of_dtype(tensor.dtype);
  const size_t bytes = type ? static_cast<size_t>(type->bytes) : 1;
  size_t changed = 0;
  for (size_t at = 0; at + bytes <= before.size(); at += bytes)
    changed += std::memcmp(before.data() + at, argument.memory.data() + at, bytes) != 0;
  row.add("dtype", tensor.dtype);
  row.add("shape", tensor.shape);
  row.add("changed", changed);
  std::string text = fmt::format("{}  {} {}  {} changed", name, tensor.dtype, print_shape(tensor.shape),
                                 counted(static_cast<int64_t>(changed), "element"));
  if (changed > 0 && values > 0 && type) {
    Report first = Report::list();
    text += ":";
    for (size_t i = 0; i < static_cast<size_t>(values) && (i + 1) * bytes <= argument.memory.size(); ++i) {
      first.append(shown_value(*type, argument.memory.data() + i * bytes));
      text += " " + shown_value(*type, argument.memory.data() + i * bytes);
    }
    if (static_cast<size_t>(values) * bytes < argument.memory.size()) text += " ...";
    row.add("values", std::move(first));
  }
  row.add_text(text);
  return row;
}

/// "1,0:5": a block and one of its threads.
ThreadTrace parse_traced_thread(const std::string& text) {
  ThreadTrace trace;
  const size_t colon = text.find(':');
  const auto indices = [&](std::string_view part) {
    std::array<int64_t, 3> place{};
    const std::optional<std::vector<int64_t>> numbers = parse_signed_list(part);
    const auto is_index = [](int64_t number) { return number >= 0 && number <= 0x7FFFFFFF; };
    if (!numbers || numbers->size() > place.size() || !std::ranges::all_of(*numbers, is_index))
      throw Error({.code = ViolationCode::malformed,
                   .field = "trace",
                   .seen = shortened(text),
                   .expected = "BLOCK:THREAD, each of one to three indices, such as 1,0:5"});
    std::ranges::copy(*numbers, place.begin());
    return place;
  };
  trace.block =
      colon == std::string::npos ? std::array<int64_t, 3>{} : indices(std::string_view(text).substr(0, colon));
  trace.thread = indices(std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1));
  return trace;
}

/// "40" or "40-60": the PTX lines to report.
std::pair<int, int> parse_lines(const std::string& text) {
  const size_t dash = std::min(text.find('-'), text.size());
  const auto first = parse_whole(text.substr(0, dash)),
             last = dash < text.size() ? parse_whole(text.substr(dash + 1)) : first;
  if (!first || !last || *first < 1 || *last > 0x7FFFFFFF || *first > *last) {
    throw Error({.code = ViolationCode::malformed,
                 .field = "trace_lines",
                 .seen = shortened(printable(text)),
                 .expected = "a line of the PTX, or a range such as 40-60"});
  }
  return {static_cast<int>(*first), static_cast<int>(*last)};
}

/// "%f3 = 0x3f800000 (1)": floating-point registers with their value.
std::string print_register(const TraceRow& row, const ThreadRegister& reg) {
  const auto type = std::ranges::find(argument_types, reg.type, &ArgumentType::name);
  const bool has_number = type != argument_types.end() && type->format;
  return fmt::format("{} = {}{}", row.name, row.bits,
                     has_number ? fmt::format(" ({})", print_value(*type->format, reg.bits[0])) : "");
}

void append_lines(Report& report, const Report& list) {
  for (const Report& row : std::get<Report::List>(list.value)) {
    for (const Report::Line& line : row.lines) report.add_text(line.text);
  }
}

Launch launch_of(const KernelFileRequest& request) {
  Launch call{.grid = parse_extents("grid", request.grid),
              .block = parse_extents("block", request.block),
              .dynamic_shared_bytes = request.dynamic_shared_bytes,
              .cooperative = request.cooperative,
              .threads = request.threads,
              .checks = request.checks,
              .clock = request.clock,
              .most_steps = request.limits.instructions};
  if (!request.cluster.empty()) call.cluster = parse_extents("cluster", request.cluster);
  return call;
}

/// What a traced thread does, for the report and for files.
ThreadTrace trace_of(const TraceRequest& request, const PtxEntry& kernel, KernelRun& run) {
  ThreadTrace trace = parse_traced_thread(request.thread);
  const auto lines = request.lines.empty() ? std::pair(1, 0x7FFFFFFF) : parse_lines(request.lines);
  std::map<int, int> product_of_sum;
  for (const KernelFusion& fusion : kernel.fusions()) {
    if (fusion.is_joined) product_of_sum[fusion.sum_line] = fusion.product_line;
  }
  trace.step = [&request, &run, product_of_sum = std::move(product_of_sum), lines,
                count = int64_t{0}](const ThreadStep& step) mutable {
    ++count;
    if (step.line < lines.first || step.line > lines.second) return true;
    if (step.product && request.finds_product && !run.product)
      run.product = single_case_file(*step.product, {{"source", "bitmma run"}});
    const std::vector<TraceRow> rows = trace_rows(count, step);
    if (request.keeps_rows) run.rows.insert(run.rows.end(), rows.begin(), rows.end());
    if (!request.prints) return true;
    std::string text = fmt::format("{:5} {}", step.line, step.text);
    if (const auto joined = product_of_sum.find(step.line); joined != product_of_sum.end())
      text += fmt::format("  (one fma with line {})", joined->second);
    Report registers = Report::object();
    for (size_t i = 0; i < rows.size(); ++i) {
      text += (i == 0 ? "    " : ", ") + print_register(rows[i], step.written[i]);
      registers.add(rows[i].name, rows[i].bits);
    }
    Report described{{"line", step.line}, {"statement", std::string(step.text)}, {"registers", std::move(registers)}};
    described.add_text(text);
    run.steps.append(std::move(described));
    return true;
  };
  return trace;
}

/// Runs body; a violation then names the place in the file.
template <typename Body>
auto at_place(const std::string& place, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) {
      const bool reads_on = violation.code == ViolationCode::not_found;  // "z: no such memory in launches[0]"
      violation.field = reads_on ? violation.field + " in " + place : place + ": " + violation.field;
    }
    throw Error(std::move(violations));
  }
}

class Launches {
 public:
  Launches(std::string_view ptx, const LaunchPlanRequest& request)
      : request_(request),
        plan_(parse_launch_plan(request.plan)),
        module_(ptx),
        memory_bytes_(request.limits.memory_bytes) {
    allocate();
    set_variables();
  }

  Report run() {
    Report rows = Report::list();
    for (size_t i = 0; i < plan_.launches.size(); ++i)
      rows.append(at_place(fmt::format("launches[{}]", i), [&] { return run(plan_.launches[i]); }));
    return rows;
  }

  /// What the launches changed, in the order of the file.
  Report changes() const {
    Report rows = Report::list();
    for (const Allocated& allocated : allocated_)
      rows.append(describe_memory({{"memory", allocated.name}}, allocated.name, allocated.argument, allocated.before,
                                  request_.values));
    return rows;
  }

  std::vector<Violation> warnings() const {
    std::vector<Violation> all = warnings_;
    for (const auto& [name, kernel] : kernels_) std::ranges::move(kernel_warnings(kernel), std::back_inserter(all));
    return all;
  }

  /// Hands over the memory by its names, and the module's variables by theirs as bytes. Call it last.
  TensorFile after() {
    TensorFile file;
    for (Allocated& allocated : allocated_) {
      const Tensor& tensor = *allocated.argument.tensor;
      file.set(Tensor::from_bytes(allocated.name, tensor.dtype, tensor.shape, std::move(allocated.argument.memory)));
    }
    for (const PtxVariable& variable : module_.variables()) {
      const std::span<const uint8_t> data = memory_.variable(module_, variable.name).data;
      file.set(Tensor::from_bytes("variable." + variable.name, "U8", {variable.bytes}, {data.begin(), data.end()}));
    }
    return file;
  }

 private:
  struct Allocated {
    std::string name = {};
    ParsedArgument argument = {};
    std::vector<uint8_t> before = {};
    uint64_t address = 0;
  };

  void allocate() {
    allocated_.reserve(plan_.memory.size());  // the memory keeps pointers into it
    for (const auto& [name, text] : plan_.memory) {
      ParsedArgument argument = at_place("memory." + name, [&] { return parse_kernel_argument(text, memory_bytes_); });
      if (!argument.tensor || argument.map)
        throw Error({.code = ViolationCode::malformed,
                     .field = "memory." + name,
                     .seen = shortened(printable(text)),
                     .expected = "memory, such as x.npy, zeros:f32[4] or empty:f32[4]"});
      Allocated& allocated = allocated_.emplace_back(Allocated{.name = name, .argument = std::move(argument)});
      allocated.before = allocated.argument.memory;
      allocated.address = memory_.map(allocated.argument.memory, !allocated.argument.is_unwritten, name);
    }
  }

  void set_variables() {
    for (const auto& [name, text] : plan_.variables) {
      at_place("variables." + name, [&] {
        const Allocation variable = memory_.variable(module_, name);
        const ParsedArgument argument = parse_kernel_argument(text, memory_bytes_);
        const std::vector<uint8_t>& bytes = argument.tensor ? argument.memory : argument.value;
        if (std::ssize(bytes) != variable.bytes)
          throw Error({.code = ViolationCode::wrong_shape,
                       .field = "value",
                       .seen = counted(std::ssize(bytes), "byte"),
                       .expected = counted(variable.bytes, "byte")});
        std::ranges::copy(bytes, variable.data.begin());
      });
    }
  }

  const Allocated* find(const std::string& name) const {
    const auto allocated = std::ranges::find(allocated_, name, &Allocated::name);
    return allocated == allocated_.end() ? nullptr : &*allocated;
  }

  /// A name of memory is its address, map[64,64]:NAME a tensor map over it; everything else is a number.
  KernelArgument argument(const std::string& text) {
    if (const Allocated* const memory = find(text)) return scalar_argument(memory->address, 8);
    if (text.starts_with("map[")) {
      const MapText map = parse_map(text);
      const Allocated* const memory = find(map.over);
      if (!memory) refuse_name(map.over);
      const auto bytes = encode_tensor_map(map_of(map, *memory->argument.tensor), memory->address);
      return {.value = {bytes.begin(), bytes.end()}};
    }
    if (text.find(':') == std::string::npos) refuse_name(text);
    ParsedArgument number = parse_kernel_argument(text, memory_bytes_);
    if (number.tensor)
      throw Error({.code = ViolationCode::malformed,
                   .field = "argument",
                   .seen = shortened(printable(text)),
                   .expected = "a number, or a name under \"memory\"",
                   .fix = "memory of several launches stands under \"memory\""});
    return {.value = std::move(number.value)};
  }

  [[noreturn]] void refuse_name(const std::string& name) const {
    throw Error({.code = ViolationCode::not_found,
                 .field = "memory",
                 .seen = shortened(printable(name)),
                 .legal = row_names(allocated_),
                 .fix = "a number is written as f32:0.125"});
  }

  Report run(const LaunchPlan::Launch& planned) {
    const auto kernel = kernels_.find(planned.entry);
    const PtxEntry& entry =
        kernel != kernels_.end()
            ? kernel->second
            : kernels_
                  .emplace(
                      planned.entry,
                      PtxEntry(module_, {.entry = planned.entry, .target = request_.target, .fmad = request_.fmad}))
                  .first->second;
    Launch call{.grid = planned.grid,
                .block = planned.block,
                .cluster = planned.cluster,
                .dynamic_shared_bytes = planned.dynamic_shared_bytes,
                .cooperative = planned.cooperative,
                .memory = &memory_,
                .threads = request_.threads,
                .checks = request_.checks,
                .clock = request_.clock,
                .most_steps = request_.limits.instructions};
    for (const std::string& text : planned.arguments) call.arguments.push_back(argument(text));
    const LaunchReport done = launch(entry, call);
    for (const Violation& warning : done.warnings) {  // the same launch again has the same
      if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(warning);
    }
    return describe_launch(entry, call, done, request_.prints);
  }

  const LaunchPlanRequest& request_;
  LaunchPlan plan_;
  PtxModule module_;
  int64_t memory_bytes_ = 0;  // that arguments may still ask for
  std::vector<Allocated> allocated_ = {};
  Memory memory_;
  std::map<std::string, PtxEntry> kernels_ = {};
  std::vector<Violation> warnings_ = {};
};

}  // namespace

PtxEntry kernel_of(const KernelFileRequest& request) {
  return PtxEntry(request.ptx,
                  {.entry = request.entry, .target = request.target, .fmad = request.fmad, .sass = request.sass});
}

Report describe_entries(const std::string& ptx) {
  Report names = Report::list();
  for (const std::string& name : kernel_entries(ptx)) {
    names.append(name);
    names.add_text(name);
  }
  return names;
}

Report describe_fusions(const PtxEntry& kernel) {
  Report list = Report::list();
  for (const KernelFusion& fusion : kernel.fusions()) {
    Report row{{"product_line", fusion.product_line},
               {"sum_line", fusion.sum_line},
               {"joined", fusion.is_joined},
               {"sure", fusion.is_sure},
               {"rule", fusion.rule},
               {"sass", print(fusion.sass)}};
    if (fusion.product_line == 0) {
      row.add_text(fmt::format("line {} {}  fma in SASS, but its product was not found", fusion.sum_line, fusion.sum));
    } else {
      row.add_text(fmt::format("line {} {}  {} into line {} {}  [{}{}{}]", fusion.product_line, fusion.product,
                               fusion.is_joined ? "joined" : "not joined", fusion.sum_line, fusion.sum, fusion.rule,
                               fusion.sass == SassEvidence::none ? "" : "; SASS: ",
                               fusion.sass == SassEvidence::none ? "" : print(fusion.sass)));
    }
    list.append(std::move(row));
  }
  return list;
}

void run_kernel_file(const KernelFileRequest& request, KernelRun& run) {
  const PtxEntry kernel = kernel_of(request);
  Launch call = launch_of(request);
  std::vector<ParsedArgument> arguments;
  int64_t memory_bytes = request.limits.memory_bytes;
  for (const std::string& text : request.arguments) arguments.push_back(parse_kernel_argument(text, memory_bytes));
  std::vector<std::vector<uint8_t>> before;
  for (ParsedArgument& argument : arguments) {
    before.push_back(argument.memory);
    if (argument.map) call.arguments.push_back(tensor_map_argument(argument.memory, *argument.map));
    else if (argument.tensor) call.arguments.push_back(memory_argument(argument.memory, argument.is_unwritten));
    else call.arguments.push_back({.value = argument.value});
  }
  ThreadTrace trace;
  if (request.trace) {
    trace = trace_of(*request.trace, kernel, run);
    call.trace = &trace;
  }
  const LaunchReport done = launch(kernel, call);
  if (request.trace && request.trace->finds_product && !run.product)
    throw Error({.code = ViolationCode::not_found,
                 .field = "trace_product",
                 .seen = "the traced instructions contain no matrix product",
                 .expected = "a thread and lines that execute one"});
  run.warnings = done.warnings;
  std::ranges::move(kernel_warnings(kernel), std::back_inserter(run.warnings));
  run.report = describe_launch(kernel, call, done, request.prints);
  Report changes = Report::list();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].tensor) continue;
    changes.append(
        describe_memory({{"argument", i}}, fmt::format("argument {}", i), arguments[i], before[i], request.values));
  }
  run.report.add("arguments", changes);
  if (!std::get<Report::List>(run.steps.value).empty()) run.report.add("trace", run.steps);
  append_lines(run.report, run.steps);
  append_lines(run.report, changes);
  run.memory.set_metadata("kernel", kernel.name());
  run.memory.set_metadata("target", std::string(print(kernel.target())));
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].tensor) continue;
    const Tensor& tensor = *arguments[i].tensor;
    run.memory.set(
        Tensor::from_bytes(fmt::format("arg{}", i), tensor.dtype, tensor.shape, std::move(arguments[i].memory)));
  }
}

LaunchPlanRun run_launch_plan(const LaunchPlanRequest& request) {
  Launches launches(request.ptx, request);
  const Report rows = launches.run(), changes = launches.changes();
  LaunchPlanRun run{.report = {{"launches", rows}, {"memory", changes}}, .warnings = launches.warnings()};
  append_lines(run.report, rows);
  append_lines(run.report, changes);
  run.memory = launches.after();
  return run;
}

}  // namespace bitmma
