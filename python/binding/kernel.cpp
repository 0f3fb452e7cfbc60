// SPDX-License-Identifier: MIT
// Runs whole PTX kernels on the memory of Python arrays, or on a memory that lasts over launches.
#include "bitmma/kernel/kernel.hpp"

#include <fmt/format.h>

#include "binding.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/kernel/memory.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

std::array<int64_t, 3> extents_in(const nb::tuple& extents) {
  require_state(extents, 3);
  return {nb::cast<int64_t>(extents[0]), nb::cast<int64_t>(extents[1]), nb::cast<int64_t>(extents[2])};
}

std::optional<Im2colBox> im2col_from(nb::handle argument) {
  if (argument.is_none()) return std::nullopt;
  return Im2colBox{.lower = nb::cast<std::vector<int64_t>>(argument[0]),
                   .upper = nb::cast<std::vector<int64_t>>(argument[1]),
                   .pixels = nb::cast<int64_t>(argument[2])};
}

std::vector<std::string> printed(const std::vector<Violation>& violations) {
  std::vector<std::string> texts;
  for (const Violation& violation : violations) texts.push_back(print(violation));
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
  explicit StepKeeper(const nb::tuple& request)
      : first_(nb::cast<int>(request[2])),
        last_(nb::cast<int>(request[3])),
        stop_line_(nb::cast<int>(request[4])),
        times_(nb::cast<int64_t>(request[5])) {
    trace = {.block = extents_in(nb::cast<nb::tuple>(request[0])),
             .thread = extents_in(nb::cast<nb::tuple>(request[1])),
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
      for (const ThreadRegister& reg : step.written) held_[std::string(reg.name)] = {std::string(reg.type), reg.bits};
      return true;
    }
    KeptStep kept{.line = step.line, .source_line = step.source_line, .statement = std::string(step.text)};
    for (const ThreadRegister& reg : step.written) kept.registers.emplace_back(reg.name, reg.type, reg.bits);
    if (step.product && (stop_line_ == 0 || stops)) kept.product = *step.product;
    steps_.push_back(std::move(kept));
    return !stops;
  }

  int first_, last_, stop_line_;
  int64_t times_;
  std::vector<KeptStep> steps_ = {};
  std::map<std::string, std::pair<std::string, std::array<uint64_t, 2>>> held_ = {};
};

/// A Memory, and the arrays that it uses in place.
struct BoundMemory {
  Memory memory = {};
  std::map<uint64_t, std::unique_ptr<Buffer>> buffers = {};

  void map(uint64_t address, const nb::object& array, bool is_written, std::string name) {
    auto buffer = std::make_unique<Buffer>(array, "array", true);
    if (!buffer->is_contiguous())
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = "array",
                   .seen = "an array with gaps",
                   .expected = "a contiguous array",
                   .fix = "numpy.ascontiguousarray makes one"});
    memory.map(address, {static_cast<uint8_t*>(buffer->data()), static_cast<size_t>(buffer->bytes())}, is_written,
               std::move(name));
    buffers[address] = std::move(buffer);
  }
  void free(uint64_t address) {
    memory.free(address);
    buffers.erase(address);
  }
};

std::span<const uint8_t> bytes_in(const nb::bytes& bytes) {
  return {static_cast<const uint8_t*>(bytes.data()), bytes.size()};
}
nb::bytes python_bytes(std::span<const uint8_t> bytes) { return nb::bytes(bytes.data(), bytes.size()); }

nb::tuple described(const Allocation& allocation) {
  return nb::make_tuple(allocation.address, allocation.bytes, allocation.name);
}

/// The bytes of a variable from `offset` on. Throws Error unless all `bytes` are in it.
std::span<uint8_t> part_of_variable(BoundMemory& memory, const PtxModule& module, const std::string& name,
                                    int64_t offset, int64_t bytes) {
  const Allocation variable = memory.memory.variable(module, name);
  if (offset < 0 || bytes < 0 || offset > variable.bytes || bytes > variable.bytes - offset)
    throw Error({.code = ViolationCode::out_of_bounds,
                 .field = name,
                 .seen = fmt::format("{} bytes from byte {}", bytes, offset),
                 .expected = fmt::format("bytes of the {} of the variable", variable.bytes)});
  return variable.data.subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

nb::list entries_of(const PtxModule& module) {
  nb::list rows;
  for (const PtxEntryInfo& entry : module.entries()) {
    nb::list parameters;
    for (const PtxParameter& parameter : entry.parameters)
      parameters.append(
          nb::make_tuple(parameter.name, parameter.type, parameter.bytes, parameter.offset, parameter.align));
    rows.append(nb::make_tuple(entry.name, parameters, entry.parameter_bytes(), entry.required_block, entry.most_block,
                               entry.required_cluster, entry.most_cluster, entry.grid_of_clusters));
  }
  return rows;
}

nb::list variables_of(const PtxModule& module) {
  nb::list rows;
  for (const PtxVariable& variable : module.variables())
    rows.append(nb::make_tuple(variable.name, variable.space, variable.type, variable.bytes, variable.align));
  return rows;
}

Swizzle swizzle_from(const std::string& name) {
  if (const auto swizzle = swizzle_named(name)) return *swizzle;
  throw Error(
      {.code = ViolationCode::unknown_name, .field = "swizzle", .seen = name, .expected = "none, 32, 64 or 128"});
}

RaceCheck race_check_named(const std::string& name) {
  if (name == "fault") return RaceCheck::fault;
  if (name == "warning") return RaceCheck::warning;
  if (name == "off") return RaceCheck::off;
  throw Error(
      {.code = ViolationCode::unknown_name, .field = "races", .seen = name, .legal = {"fault", "warning", "off"}});
}

/// Arguments are the bytes of a number, or writable contiguous arrays. Returns the number of instructions that threads
/// ran, warnings, whether the trace stopped the launch, and the steps of the trace.
nb::tuple launch_kernel(const PtxEntry& kernel, const nb::tuple& grid, const nb::tuple& block,
                        const std::optional<nb::tuple>& cluster, int64_t shared_bytes, const nb::list& arguments,
                        int threads, bool checks, const std::optional<nb::tuple>& trace, BoundMemory* memory,
                        const std::optional<nb::bytes>& parameters, const std::string& races,
                        const std::optional<uint64_t>& clock, bool cooperative) {
  Launch call{.grid = extents_in(grid),
              .block = extents_in(block),
              .dynamic_shared_bytes = shared_bytes,
              .cooperative = cooperative,
              .threads = threads,
              .checks = checks,
              .races = race_check_named(races),
              .clock = clock};
  if (cluster) call.cluster = extents_in(*cluster);
  if (memory) call.memory = &memory->memory;
  if (parameters) call.parameter_bytes = {bytes_in(*parameters).begin(), bytes_in(*parameters).end()};
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
    const nb::object array = is_map ? nb::object(argument[0]) : nb::borrow<nb::object>(argument);
    buffers.push_back(std::make_unique<Buffer>(array, "argument", true));
    const Buffer& buffer = *buffers.back();
    if (!buffer.is_contiguous()) {
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = fmt::format("argument {}", call.arguments.size()),
                   .seen = "an array with gaps",
                   .expected = "a contiguous array",
                   .fix = "numpy.ascontiguousarray makes one"});
    }
    const std::span bytes(static_cast<uint8_t*>(buffer.data()), static_cast<size_t>(buffer.bytes()));
    if (!is_map) {
      call.arguments.push_back(memory_argument(bytes));
      continue;
    }
    call.arguments.push_back(
        tensor_map_argument(bytes, {.element_bytes = nb::cast<int>(argument[1]),
                                    .sizes = nb::cast<std::vector<int64_t>>(argument[2]),
                                    .strides_bytes = nb::cast<std::vector<int64_t>>(argument[3]),
                                    .box = nb::cast<std::vector<int64_t>>(argument[4]),
                                    .element_strides = nb::cast<std::vector<int64_t>>(argument[5]),
                                    .swizzle = swizzle_from(nb::cast<std::string>(argument[6])),
                                    .fills_with_nan = nb::cast<bool>(argument[7]),
                                    .im2col = im2col_from(argument[9]),
                                    .type = tensor_map_type_named(nb::cast<std::string>(argument[8]))}));
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
                        keeper ? keeper->steps() : nb::list(), nb::bytes(done.printed.data(), done.printed.size()));
}

nb::list parameters_of(const PtxEntry& kernel) {
  nb::list rows;
  for (const PtxParameter& parameter : kernel.parameters())
    rows.append(nb::make_tuple(parameter.name, parameter.type, parameter.bytes));
  return rows;
}

nb::list fusions_in(const PtxEntry& kernel) {
  nb::list rows;
  for (const KernelFusion& fusion : kernel.fusions()) {
    nb::dict row;
    row["product_line"] = fusion.product_line;
    row["sum_line"] = fusion.sum_line;
    row["product"] = fusion.product;
    row["sum"] = fusion.sum;
    row["rule"] = fusion.rule;
    row["joined"] = fusion.is_joined;
    row["sure"] = fusion.is_sure;
    row["sass"] = print(fusion.sass);
    rows.append(row);
  }
  return rows;
}

}  // namespace

void bind_kernel(nb::module_& module) {
  nb::class_<PtxModule>(module, "PtxModule")
      .def(
          "__init__",
          [](PtxModule* self, std::string_view ptx) {
            const Unlocked unlocked;
            new (self) PtxModule(ptx);
          },
          "ptx"_a)
      .def_prop_ro("target", [](const PtxModule& ptx) { return print(ptx.target()); })
      .def_prop_ro("entries", entries_of)
      .def_prop_ro("variables", variables_of);
  nb::class_<BoundMemory>(module, "Memory")
      .def(nb::init<>())
      .def(
          "allocate",
          [](BoundMemory& self, int64_t bytes, const std::string& name) { return self.memory.allocate(bytes, name); },
          "bytes"_a, "name"_a)
      .def(
          "allocate_at",
          [](BoundMemory& self, uint64_t address, int64_t bytes, const std::string& name) {
            self.memory.allocate_at(address, bytes, name);
          },
          "address"_a, "bytes"_a, "name"_a)
      .def("map", &BoundMemory::map, "address"_a, "array"_a, "written"_a, "name"_a)
      .def("free", &BoundMemory::free, "address"_a)
      .def(
          "write",
          [](BoundMemory& self, uint64_t address, const nb::bytes& bytes) {
            self.memory.write(address, bytes_in(bytes));
          },
          "address"_a, "bytes"_a)
      .def(
          "fill",
          [](BoundMemory& self, uint64_t address, int64_t bytes, uint8_t value) {
            self.memory.fill(address, bytes, value);
          },
          "address"_a, "bytes"_a, "value"_a)
      .def(
          "read",
          [](const BoundMemory& self, uint64_t address, int64_t bytes) {
            const auto allocation = self.memory.find(address);
            if (bytes < 0 || !allocation || bytes > allocation->bytes) {
              throw Error({.code = ViolationCode::out_of_bounds,
                           .field = "address",
                           .seen = fmt::format("{} bytes at {:#x}", bytes, address),
                           .expected = "bytes of one allocation"});
            }
            std::vector<uint8_t> copy(static_cast<size_t>(bytes));
            self.memory.read(address, copy);
            return python_bytes(copy);
          },
          "address"_a, "bytes"_a)
      .def(
          "find",
          [](const BoundMemory& self, uint64_t address) -> std::optional<nb::tuple> {
            const auto allocation = self.memory.find(address);
            if (!allocation) return std::nullopt;
            return described(*allocation);
          },
          "address"_a)
      .def("allocations",
           [](const BoundMemory& self) {
             nb::list rows;
             for (const Allocation& allocation : self.memory.allocations()) rows.append(described(allocation));
             return rows;
           })
      .def(
          "written_bytes", [](const BoundMemory& self, uint64_t address) { return self.memory.written_bytes(address); },
          "address"_a)
      .def(
          "variable",
          [](BoundMemory& self, const PtxModule& ptx, const std::string& name) {
            return described(self.memory.variable(ptx, name));
          },
          "module"_a, "name"_a)
      .def(
          "read_variable",
          [](BoundMemory& self, const PtxModule& ptx, const std::string& name, int64_t offset, int64_t bytes) {
            return python_bytes(part_of_variable(self, ptx, name, offset, bytes));
          },
          "module"_a, "name"_a, "offset"_a, "bytes"_a)
      .def(
          "write_variable",
          [](BoundMemory& self, const PtxModule& ptx, const std::string& name, int64_t offset, const nb::bytes& bytes) {
            const auto from = bytes_in(bytes);
            std::ranges::copy(from, part_of_variable(self, ptx, name, offset, std::ssize(from)).begin());
          },
          "module"_a, "name"_a, "offset"_a, "bytes"_a);
  nb::class_<PtxEntry>(module, "PtxKernel")
      .def(
          "__init__",
          [](PtxEntry* self, const PtxModule& ptx, const std::string& entry, std::optional<std::string> target,
             bool fmad, std::optional<std::string> sass) {
            KernelOptions options{.entry = entry, .fmad = fmad, .sass = std::move(sass)};
            if (target) options.target = target_from(*target);
            const Unlocked unlocked;
            new (self) PtxEntry(ptx, options);
          },
          "module"_a, "entry"_a, "target"_a.none(), "fmad"_a, "sass"_a.none())
      .def_prop_ro("name", &PtxEntry::name)
      .def_prop_ro("target", [](const PtxEntry& kernel) { return print(kernel.target()); })
      .def_prop_ro("parameters", parameters_of)
      .def_prop_ro("fusions", fusions_in)
      .def_prop_ro("warnings", [](const PtxEntry& kernel) { return printed(kernel_warnings(kernel)); })
      .def_prop_ro("shared_bytes", &PtxEntry::shared_bytes)
      .def_prop_ro("local_bytes", &PtxEntry::local_bytes);
  module.def("kernel_launch", launch_kernel, "kernel"_a, "grid"_a, "block"_a, "cluster"_a.none(), "shared_bytes"_a,
             "arguments"_a, "threads"_a, "checks"_a, "trace"_a.none(), "memory"_a.none(), "parameters"_a.none(),
             "races"_a, "clock"_a.none(), "cooperative"_a);
  module.def(
      "encode_tensor_map",
      [](uint64_t address, int element_bytes, std::vector<int64_t> sizes, std::vector<int64_t> strides_bytes,
         std::vector<int64_t> box, std::vector<int64_t> element_strides, const std::string& swizzle,
         bool fills_with_nan, const std::string& type, const nb::object& im2col) {
        return python_bytes(encode_tensor_map({.element_bytes = element_bytes,
                                               .sizes = std::move(sizes),
                                               .strides_bytes = std::move(strides_bytes),
                                               .box = std::move(box),
                                               .element_strides = std::move(element_strides),
                                               .swizzle = swizzle_from(swizzle),
                                               .fills_with_nan = fills_with_nan,
                                               .im2col = im2col_from(im2col),
                                               .type = tensor_map_type_named(type)},
                                              address));
      },
      "address"_a, "element_bytes"_a, "sizes"_a, "strides_bytes"_a, "box"_a, "element_strides"_a, "swizzle"_a,
      "fills_with_nan"_a, "type"_a, "im2col"_a.none());
  module.def(
      "kernel_entries",
      [](std::string_view ptx) {
        const Unlocked unlocked;
        return kernel_entries(ptx);
      },
      "ptx"_a);
}

}  // namespace bitmma::python
