// SPDX-License-Identifier: MIT
#include "kernel_launches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bitmma/acts/launch_plan.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "bitmma/kernel/memory.hpp"
#include "kernel_arguments.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

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
  Launches(std::string_view ptx, const LaunchesRequest& request)
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
      rows.append(describe_memory({{"memory", allocated.name}}, allocated.name, allocated.given, allocated.before,
                                  request_.values));
    return rows;
  }

  std::vector<Violation> warnings() const {
    std::vector<Violation> all = warnings_;
    for (const auto& [name, kernel] : kernels_) std::ranges::move(kernel_warnings(kernel), std::back_inserter(all));
    return all;
  }

  /// The memory by its names, and the module's variables by theirs as bytes.
  TensorFile after() {
    TensorFile file;
    for (const Allocated& allocated : allocated_) {
      const Tensor& tensor = *allocated.given.tensor;
      file.set(Tensor::from_bytes(allocated.name, tensor.dtype, tensor.shape, allocated.given.memory));
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
    GivenArgument given = {};
    std::vector<uint8_t> before = {};
    uint64_t address = 0;
  };

  void allocate() {
    allocated_.reserve(plan_.memory.size());  // the memory keeps pointers into it
    for (const auto& [name, text] : plan_.memory) {
      GivenArgument given = at_place("memory." + name, [&] { return kernel_argument(text, memory_bytes_); });
      if (!given.tensor || given.map)
        throw Error({.field = "memory." + name,
                     .seen = shortened(printable(text)),
                     .expected = "memory, such as x.npy, zeros:f32[4] or empty:f32[4]"});
      Allocated& allocated = allocated_.emplace_back(Allocated{.name = name, .given = std::move(given)});
      allocated.before = allocated.given.memory;
      allocated.address = memory_.map(allocated.given.memory, !allocated.given.is_unwritten, name);
    }
  }

  void set_variables() {
    for (const auto& [name, text] : plan_.variables) {
      at_place("variables." + name, [&] {
        const Allocation variable = memory_.variable(module_, name);
        const GivenArgument given = kernel_argument(text, memory_bytes_);
        const std::vector<uint8_t>& bytes = given.tensor ? given.memory : given.value;
        if (std::ssize(bytes) != variable.bytes)
          throw Error({.field = "value",
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
      const auto bytes = encode_tensor_map(map_of(map, *memory->given.tensor), memory->address);
      return {.value = {bytes.begin(), bytes.end()}};
    }
    if (text.find(':') == std::string::npos) refuse_name(text);
    GivenArgument given = kernel_argument(text, memory_bytes_);
    if (given.tensor)
      throw Error({.field = "argument",
                   .seen = shortened(printable(text)),
                   .expected = "a number, or a name under \"memory\"",
                   .fix = "memory of several launches stands under \"memory\""});
    return {.value = std::move(given.value)};
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
                .memory = &memory_,
                .threads = request_.threads,
                .checks = request_.checks,
                .most_steps = request_.limits.instructions};
    for (const std::string& text : planned.arguments) call.arguments.push_back(argument(text));
    const LaunchReport done = launch(entry, call);
    for (const Violation& warning : done.warnings) {  // the same launch again has the same
      if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(warning);
    }
    return describe_launch(entry, call, done);
  }

  const LaunchesRequest& request_;
  LaunchPlan plan_;
  PtxModule module_;
  int64_t memory_bytes_ = 0;  // that arguments may still ask for
  std::vector<Allocated> allocated_ = {};
  Memory memory_;
  std::map<std::string, PtxEntry> kernels_ = {};
  std::vector<Violation> warnings_ = {};
};

void append_lines(Report& report, const Report& list) {
  for (const Report& row : std::get<Report::List>(list.value)) {
    for (const Report::Line& line : row.lines) report.add_text(line.text);
  }
}

}  // namespace

void run_launches(Context& context, std::string_view ptx, const LaunchesRequest& request) {
  if (!request.output.empty()) require_tensor_file_name(request.output);
  Launches launches(ptx, request);
  context.require_flags_acted();
  const Report rows = launches.run(), changes = launches.changes();
  print_warnings(context, launches.warnings());
  Report report{{"launches", rows}, {"memory", changes}};
  append_lines(report, rows);
  append_lines(report, changes);
  if (!request.output.empty()) {
    write_tensor_file(request.output, launches.after());
    report.add("written", request.output);
    report.add_text(fmt::format("wrote {}", request.output));
  }
  show(context, report, request.as_json);
}

}  // namespace bitmma::cli
