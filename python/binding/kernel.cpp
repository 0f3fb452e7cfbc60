// SPDX-License-Identifier: MIT
// Runs whole PTX kernels on the memory of Python arrays.
#include "bitmma/kernel/kernel.hpp"

#include <fmt/format.h>

#include "binding.hpp"
#include "bitmma/core/target_names.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

std::array<int64_t, 3> extents_in(const nb::tuple& extents) {
  require_state(extents, 3);
  return {nb::cast<int64_t>(extents[0]), nb::cast<int64_t>(extents[1]), nb::cast<int64_t>(extents[2])};
}

std::vector<std::string> printed(const std::vector<Violation>& violations) {
  std::vector<std::string> texts;
  for (const Violation& one : violations) texts.push_back(print(one));
  return texts;
}

/// The steps of a thread, kept until the launch ends: Python's objects are made then.
struct KeptStep {
  int line = 0, source_line = 0;
  std::string statement = {};
  std::vector<std::tuple<std::string, std::string, std::array<uint64_t, 2>>> registers = {};
  std::optional<Case> product = {};
};

class StepKeeper {
 public:
  /// (block, thread, first line, last line, line after which to stop or 0, the run of that line after which to stop)
  explicit StepKeeper(const nb::tuple& asked)
      : first_(nb::cast<int>(asked[2])),
        last_(nb::cast<int>(asked[3])),
        stop_line_(nb::cast<int>(asked[4])),
        times_(nb::cast<int64_t>(asked[5])) {
    trace = {.block = extents_in(nb::cast<nb::tuple>(asked[0])),
             .thread = extents_in(nb::cast<nb::tuple>(asked[1])),
             .step = [this](const ThreadStep& step) { return take(step); }};
  }
  StepKeeper(const StepKeeper&) = delete;
  StepKeeper& operator=(const StepKeeper&) = delete;

  nb::list steps() const {
    nb::list rows;
    KeptStep held;
    for (const auto& [name, value] : held_) held.registers.emplace_back(name, value.first, value.second);
    std::vector<KeptStep> all = steps_;
    if (stop_line_ != 0) all.insert(all.begin(), held);
    for (const KeptStep& step : all) {
      nb::list registers;
      for (const auto& [name, type, bits] : step.registers)
        registers.append(nb::make_tuple(name, type, bits[0], bits[1]));
      nb::object product = nb::none();
      if (step.product) product = nb::cast(BoundCase{.value = *step.product});
      rows.append(nb::make_tuple(step.line, step.source_line, step.statement, registers, product));
    }
    return rows;
  }

  ThreadTrace trace = {};

 private:
  bool take(const ThreadStep& step) {
    const bool stops = step.line == stop_line_ && --times_ == 0;
    if (step.line < first_ || step.line > last_) return !stops;
    if (stop_line_ != 0 && !stops) {  // the caller needs only the final registers
      for (const ThreadRegister& one : step.written) held_[std::string(one.name)] = {std::string(one.type), one.bits};
      return true;
    }
    KeptStep kept{.line = step.line, .source_line = step.source_line, .statement = std::string(step.text)};
    for (const ThreadRegister& one : step.written) kept.registers.emplace_back(one.name, one.type, one.bits);
    if (step.product && (stop_line_ == 0 || stops)) kept.product = *step.product;
    steps_.push_back(std::move(kept));
    return !stops;
  }

  int first_, last_, stop_line_;
  int64_t times_;
  std::vector<KeptStep> steps_ = {};
  std::map<std::string, std::pair<std::string, std::array<uint64_t, 2>>> held_ = {};
};

/// Arguments are the bytes of a number, or writable contiguous arrays. Returns the number of instructions that threads
/// ran, warnings, whether the trace stopped the launch, and the steps of the trace.
nb::tuple launch_kernel(const PtxEntry& kernel, const nb::tuple& grid, const nb::tuple& block,
                        const std::optional<nb::tuple>& cluster, int64_t shared_bytes, const nb::list& arguments,
                        int threads, bool checks, const std::optional<nb::tuple>& trace) {
  Launch call{.grid = extents_in(grid),
              .block = extents_in(block),
              .dynamic_shared_bytes = shared_bytes,
              .threads = threads,
              .checks = checks};
  if (cluster) call.cluster = extents_in(*cluster);
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const nb::handle argument : arguments) {
    if (nb::isinstance<nb::bytes>(argument)) {
      const auto value = nb::cast<nb::bytes>(argument);
      const auto* const data = static_cast<const uint8_t*>(value.data());
      call.arguments.push_back({.value = {data, data + value.size()}});
      continue;
    }
    // A tensor map gives its memory, then its fields.
    const bool is_map = nb::isinstance<nb::tuple>(argument);
    const nb::object memory = is_map ? nb::object(argument[0]) : nb::borrow<nb::object>(argument);
    buffers.push_back(std::make_unique<Buffer>(memory, "argument", true));
    const Buffer& buffer = *buffers.back();
    if (!buffer.is_contiguous()) {
      throw Error({.field = fmt::format("argument {}", call.arguments.size()),
                   .seen = "an array with gaps",
                   .expected = "a contiguous array",
                   .fix = "numpy.ascontiguousarray makes one"});
    }
    const std::span bytes(static_cast<uint8_t*>(buffer.data()), static_cast<size_t>(buffer.bytes()));
    if (!is_map) {
      call.arguments.push_back(memory_argument(bytes));
      continue;
    }
    const auto swizzle = swizzle_named(nb::cast<std::string>(argument[6]));
    if (!swizzle)
      throw Error({.field = "swizzle", .seen = nb::cast<std::string>(argument[6]), .expected = "none, 32, 64 or 128"});
    call.arguments.push_back(tensor_map_argument(bytes, {.element_bytes = nb::cast<int>(argument[1]),
                                                         .sizes = nb::cast<std::vector<int64_t>>(argument[2]),
                                                         .strides_bytes = nb::cast<std::vector<int64_t>>(argument[3]),
                                                         .box = nb::cast<std::vector<int64_t>>(argument[4]),
                                                         .element_strides = nb::cast<std::vector<int64_t>>(argument[5]),
                                                         .swizzle = *swizzle,
                                                         .fills_with_nan = nb::cast<bool>(argument[7])}));
  }
  std::optional<StepKeeper> keeper;
  if (trace) {
    require_state(*trace, 6);
    call.trace = &keeper.emplace(*trace).trace;
  }
  LaunchReport done;
  {
    const Unlocked unlocked;
    done = launch(kernel, call);
  }
  return nb::make_tuple(done.thread_instructions, printed(done.warnings), done.was_stopped,
                        keeper ? keeper->steps() : nb::list());
}

nb::list parameters_of(const PtxEntry& kernel) {
  nb::list rows;
  for (const PtxParameter& one : kernel.parameters()) rows.append(nb::make_tuple(one.name, one.type, one.bytes));
  return rows;
}

nb::list fusions_in(const PtxEntry& kernel) {
  nb::list rows;
  for (const KernelFusion& one : kernel.fusions()) {
    nb::dict row;
    row["product_line"] = one.product_line;
    row["sum_line"] = one.sum_line;
    row["product"] = one.product;
    row["sum"] = one.sum;
    row["rule"] = one.rule;
    row["joined"] = one.is_joined;
    row["sure"] = one.is_sure;
    row["sass"] = print(one.sass);
    rows.append(row);
  }
  return rows;
}

}  // namespace

void bind_kernel(nb::module_& module) {
  nb::class_<PtxEntry>(module, "PtxKernel")
      .def(
          "__init__",
          [](PtxEntry* self, std::string_view ptx, const std::string& entry, std::optional<std::string> target,
             bool fmad, std::optional<std::string> sass) {
            KernelOptions options{.entry = entry, .fmad = fmad, .sass = std::move(sass)};
            if (target) options.target = target_from(*target);
            const Unlocked unlocked;
            new (self) PtxEntry(ptx, options);
          },
          "ptx"_a, "entry"_a, "target"_a.none(), "fmad"_a, "sass"_a.none())
      .def_prop_ro("name", &PtxEntry::name)
      .def_prop_ro("target", [](const PtxEntry& kernel) { return print(kernel.target()); })
      .def_prop_ro("parameters", parameters_of)
      .def_prop_ro("fusions", fusions_in)
      .def_prop_ro("warnings", [](const PtxEntry& kernel) { return printed(kernel_warnings(kernel)); })
      .def_prop_ro("shared_bytes", &PtxEntry::shared_bytes);
  module.def("kernel_launch", launch_kernel, "kernel"_a, "grid"_a, "block"_a, "cluster"_a.none(), "shared_bytes"_a,
             "arguments"_a, "threads"_a, "checks"_a, "trace"_a.none());
  module.def(
      "kernel_entries",
      [](std::string_view ptx) {
        const Unlocked unlocked;
        return kernel_entries(ptx);
      },
      "ptx"_a);
}

}  // namespace bitmma::python
