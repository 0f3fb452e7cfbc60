// SPDX-License-Identifier: MIT
// Whole products: plans, gemm, the search and the catalogue.
#include <fmt/format.h>

#include "../../sim/core/ieee_environment.hpp"
#include "binding.hpp"
#include "bitmma/acts/describe_product.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/gemm/accuracy.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/gemm/library_choice.hpp"
#include "bitmma/gemm/product_faults.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/generated.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

std::vector<int64_t> numbers_in(nb::handle list) {
  return list.is_none() ? std::vector<int64_t>{} : nb::cast<std::vector<int64_t>>(list);
}

/// The operands of one product or of a batch of products, from a dictionary of (format, codes) and numbers. Arrays have
/// the same batch axes before rows and columns.
class BatchInputs {
 public:
  explicit BatchInputs(const nb::dict& from) {
    for (const GemmOperandInfo& row : gemm_operands) {
      const std::string name(row.name);
      const nb::object pair = get(from, name.c_str());
      if (pair.is_none()) continue;
      operands_.push_back(
          {row.id, parse_format(nb::cast<std::string>(pair[0])), std::make_unique<Buffer>(pair[1], name)});
      const Operand& operand = operands_.back();
      if (operand.buffer->rank() < 2) {
        throw Error({.code = ViolationCode::wrong_shape,
                     .field = name,
                     .seen = "shape " + operand.buffer->shape(),
                     .expected = "two axes, rows and columns"});
      }
      if (operand.buffer->rank() != operands_.front().buffer->rank())
        throw Error({.code = ViolationCode::wrong_shape,
                     .field = name,
                     .seen = "shape " + operand.buffer->shape(),
                     .expected = "the batch axes of a"});
    }
    numbers_.rows = numbers_in(get(from, "rows")), numbers_.cols = numbers_in(get(from, "cols"));
    if (const nb::object whole = get(from, "whole"); !whole.is_none())
      numbers_.whole_m = nb::cast<int64_t>(whole[0]), numbers_.whole_n = nb::cast<int64_t>(whole[1]);
  }

  int64_t count() const {
    int64_t count = 1;
    if (operands_.empty()) return count;
    const Buffer& first = *operands_.front().buffer;
    for (int axis = 0; axis + 2 < first.rank(); ++axis) count *= first.extent(axis);
    return count;
  }

  GemmInputs at(int64_t index) const {
    if (count() == 0)
      throw Error(
          {.code = ViolationCode::wrong_shape, .field = "batch axes", .seen = "0 products", .expected = "1 or more"});
    GemmInputs inputs = numbers_;
    for (const Operand& operand : operands_) set_operand(inputs, operand.id, matrix_at(operand, index));
    for (const GemmOperandInfo& row : gemm_operands) {
      const bool is_missing = std::ranges::find(operands_, row.id, &Operand::id) == operands_.end();
      if (!row.optional && is_missing)
        throw Error({.code = ViolationCode::missing_input,
                     .field = std::string(row.name),
                     .seen = "None",
                     .expected = "a matrix"});
    }
    return inputs;
  }

 private:
  struct Operand {
    GemmOperand id;
    Format format;
    std::unique_ptr<Buffer> buffer;
  };

  static nb::object get(const nb::dict& from, const char* name) {
    return from.contains(name) ? nb::object(from[name]) : nb::none();
  }

  static Matrix matrix_at(const Operand& operand, int64_t index) {
    const Buffer& buffer = *operand.buffer;
    const char* data = static_cast<const char*>(buffer.data());
    for (int axis = buffer.rank() - 3; axis >= 0; --axis) {
      data += index % buffer.extent(axis) * buffer.stride(axis);
      index /= buffer.extent(axis);
    }
    return python::matrix_at(buffer, data, operand.format, info(operand.id).name);
  }

  GemmInputs numbers_ = {};  // without operands
  std::vector<Operand> operands_;
};

GemmInputs inputs_of(const nb::dict& from) { return BatchInputs(from).at(0); }

/// Computes D of every product of a batch.
void gemm_into(const BoundPlan& bound, const nb::dict& operands, nb::handle d, int threads) {
  const BatchInputs batch(operands);
  const Buffer to(d, "d", true);
  const int64_t count = batch.count();
  if (count == 0) return;
  GemmInputs first = batch.at(0);
  if (std::vector<Violation> unread = unread_by(bound.plan, first); !unread.empty()) throw Error(std::move(unread));
  const int64_t outputs = int64_t{first.a.rows()} * first.b.cols(), bytes = outputs * code_bytes(bound.plan.output);
  if (!to.is_contiguous() || to.bytes() != count * bytes)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "d",
                 .seen = "shape " + to.shape(),
                 .expected = fmt::format("{} outputs", count * outputs)});
  const Unlocked unlocked;
  gemm_batch(
      bound.plan, count, [&](int64_t i) { return i == 0 ? std::move(first) : batch.at(i); },  // once for each i
      [&](int64_t i, const Matrix& product) { write_codes(product, static_cast<char*>(to.data()) + i * bytes); },
      threads);
}

std::optional<Target> optional_target(std::optional<std::string_view> name) {
  return name ? std::optional(target_from(*name)) : std::nullopt;
}

/// A field of a Python object, such as a GemmCall of python/bitmma/_gemm_call.py.
template <typename T>
T field(nb::handle object, const char* name) {
  return nb::cast<T>(object.attr(name));
}

using OptionalText = std::optional<std::string>;

/// The plans that a GemmCall asks for, as the library has it.
PlanRequest request_of(nb::handle call) {
  const nb::object plan = call.attr("plan");
  const bool is_value = nb::isinstance<BoundPlan>(plan);
  const auto output = field<OptionalText>(call, "out_dtype");
  return {.plan = is_value || plan.is_none() ? "" : nb::cast<std::string>(plan),
          .kernel = field<OptionalText>(call, "kernel").value_or(""),
          .value = is_value ? std::optional(nb::cast<const BoundPlan&>(plan).plan) : std::nullopt,
          .output = output ? std::optional(parse_format(*output)) : std::nullopt,
          .options = {.target = optional_target(field<OptionalText>(call, "target")),
                      .split_count = field<int>(call, "split_k"),
                      .alpha = field<float>(call, "alpha"),
                      .beta = field<float>(call, "beta"),
                      .relu = field<bool>(call, "relu")}};
}

/// The plans that a GemmCall describes; several if it leaves the number of slices open.
std::vector<BoundPlan> plans(nb::handle call) {
  std::vector<BoundPlan> bound;
  for (GemmPlan& gemm_plan : plans_for(request_of(call), inputs_of(field<nb::dict>(call, "operands"))))
    bound.push_back({.plan = std::move(gemm_plan)});
  return bound;
}

/// The plan that a GemmCall describes. Throws Error if it leaves the number of slices open.
BoundPlan only_plan_of(nb::handle call) {
  return {.plan = only_plan(plans_for(request_of(call), inputs_of(field<nb::dict>(call, "operands"))))};
}

/// `call` is a LibraryCall of python/bitmma/_matmul.py.
LibraryCall call_in(nb::handle call) {
  const auto operand = [&](const char* name) {
    const Format format = parse_format(field<std::string>(call, name));
    return format == Format::f32 ? Format::tf32 : format;
  };
  const auto d = field<OptionalText>(call, "out_dtype");
  const auto scales = field<std::string>(call, "scales");
  const nb::object shape = call.attr("shape");
  return {.library = field<std::string>(call, "library"),
          .gpu = field<std::string>(call, "target"),
          .a = operand("a"),
          .b = operand("b"),
          .d = d ? std::optional(parse_format(*d)) : std::nullopt,
          .layout = field<std::string>(call, "layout"),
          .allow_tf32 = field<bool>(call, "allow_tf32"),
          .bias = field<bool>(call, "bias"),
          .scales = scales == "rows"     ? CallScales::rows
                    : scales == "tensor" ? CallScales::tensor
                                         : CallScales::none,
          .fast_accumulation = field<bool>(call, "use_fast_accum"),
          .m = nb::cast<int64_t>(shape[0]),
          .n = nb::cast<int64_t>(shape[1]),
          .k = nb::cast<int64_t>(shape[2]),
          .matrices = field<int64_t>(call, "matrices"),
          .nearest = field<bool>(call, "nearest")};
}

/// {"kernel", "slices", "exact", "output", "m", "n", "k", "recorded_on", "right", "drawn"}
nb::dict choice(nb::handle call) {
  const LibraryChoice choice = library_choice(call_in(call));
  nb::dict fields;
  fields["kernel"] = choice.kernel, fields["slices"] = choice.slices, fields["exact"] = choice.exact;
  fields["output"] = std::string(info(choice.d).name);
  fields["m"] = choice.m, fields["n"] = choice.n, fields["k"] = choice.k;
  fields["recorded_on"] = choice.recorded_on, fields["right"] = choice.right, fields["drawn"] = choice.drawn;
  return fields;
}

/// The plan of a choice for these operands.
BoundPlan chosen_plan(std::string_view library, std::string_view kernel, int slices, std::string_view output,
                      const nb::dict& operands) {
  return {
      .plan = plan_of_choice(
          {.kernel = std::string(kernel), .slices = slices, .d = parse_format(output), .library = std::string(library)},
          inputs_of(operands))};
}

/// `call` is a GemmCall without plan and kernel, or with both of D's program.
nb::dict diagnose(nb::handle call, nb::handle d, int threads) {
  const GemmInputs inputs = inputs_of(field<nb::dict>(call, "operands"));
  const Matrix wrong = required_matrix_in(d, "d");
  PlanRequest request = request_of(call);
  const bool names_plan = !call.attr("plan").is_none() || !call.attr("kernel").is_none();
  if (names_plan && !request.output && !request.value) request.output = wrong.format();
  const std::vector<GemmPlan> plans =
      names_plan ? plans_for(request, inputs)
                 : usual_plans(inputs, wrong, request.options.target.value_or(default_target(inputs)));
  const ProductDiagnosis diagnosis = [&] {
    const Unlocked unlocked;
    return diagnose_product(plans, inputs, wrong, threads);
  }();
  nb::dict result;
  result["report"] = from_report(describe(diagnosis));
  result["text"] = print(describe(diagnosis));
  result["plan"] = BoundPlan{.plan = diagnosis.plan};
  return result;
}

nb::object faulty(const BoundPlan& plan, const nb::dict& operands, std::string_view fault, int threads) {
  const GemmInputs inputs = inputs_of(operands);
  const Matrix d = [&] {
    const Unlocked unlocked;
    return faulty_product(plan.plan, inputs, fault, threads);
  }();
  return array_of(d);
}

nb::dict found_in(PlanSearch&& search, const GemmInputs& inputs) {
  nb::dict result;
  result["report"] = from_report(describe(search, inputs));
  result["text"] = print(describe(search, inputs));
  std::vector<BoundPlan> plans, nearest;
  for (GemmPlan& plan : search.all_bits) plans.push_back({.plan = std::move(plan), .differing = 0});
  for (NearPlan& near : search.nearest)
    nearest.push_back({.plan = std::move(near.plan), .differing = near.differing, .pattern = std::move(near.pattern)});
  result["plans"] = plans, result["nearest"] = nearest;
  return result;
}

/// `call` is a GemmCall, `search` a PlanSearchCall.
nb::dict find(nb::handle call, nb::handle search) {
  const GemmInputs inputs = inputs_of(field<nb::dict>(call, "operands"));
  const Matrix recorded = required_matrix_in(search.attr("d"), "d");
  PlanRequest request = request_of(call);
  const FindOptions options{.target = request.options.target.value_or(default_target(inputs)),
                            .threads = field<int>(search, "threads"),
                            .max_nearest = field<int>(search, "max_nearest"),
                            .alpha = request.options.alpha,
                            .beta = request.options.beta,
                            .timeout_s = field<double>(search, "timeout"),
                            .max_plans = field<int64_t>(search, "max_plans"),
                            .stop = [] {
                              check_interrupt();
                              return false;
                            }};
  FindProgress report;
  const nb::object progress = search.attr("progress");
  if (!progress.is_none()) {
    report = [&](int64_t done, int64_t total) {
      const nb::gil_scoped_acquire acquire;
      progress(done, total);
    };
  }
  std::optional<std::vector<GemmPlan>> plans;
  if (const nb::object among = search.attr("among"); !among.is_none()) {
    plans.emplace();
    for (const BoundPlan& bound : nb::cast<std::vector<BoundPlan>>(among)) {
      if (std::vector<Violation> unread = unread_by(bound.plan, inputs); !unread.empty())
        throw Error(std::move(unread));
      plans->push_back(bound.plan);
    }
  } else if (!call.attr("kernel").is_none()) {
    request.output = recorded.format();
    request.may_clamp = has_no_sign(recorded);
    plans = plans_for(request, inputs);
  }
  PlanSearch result = [&] {
    const Unlocked unlocked;
    return plans ? try_plans(*plans, inputs, recorded, options, report) : find_plans(inputs, recorded, options, report);
  }();
  return found_in(std::move(result), inputs);
}

nb::dict accuracy(const nb::dict& operands, nb::handle d, int threads) {
  const GemmInputs inputs = inputs_of(operands);
  const Matrix computed = required_matrix_in(d, "d");
  const Accuracy accuracy = [&] {
    const Unlocked unlocked;
    return accuracy_of(inputs, computed, threads);
  }();
  nb::dict fields;
  fields["outputs"] = accuracy.outputs;
  fields["not_finite"] = accuracy.not_finite;
  fields["max_ulp"] = accuracy.max_ulp;
  fields["mean_ulp"] = accuracy.mean_ulp;
  fields["bias_ulp"] = accuracy.bias_ulp;
  fields["max_relative_error"] = accuracy.max_relative_error;
  return fields;
}

/// "Plan('split-K 6 (nvjet, unit 64)', wgmma f32.bf16.bf16, sm_90a)"; adds the type of D if the chain has another type.
std::string repr_of_plan(const BoundPlan& bound) {
  const GemmPlan& plan = bound.plan;
  std::string chain = "fma.rn.f32";
  Format d = Format::f32;
  if (const TensorCoreChain* tensor = plan.tensor_cores()) {
    const Mma mma = mma_of(tensor->instruction);
    d = mma.d;
    chain = fmt::format("{} {}.{}.{}", bitmma::print(family_of(tensor->instruction)), info(mma.d).name,
                        info(mma.a).name, info(mma.b).name);
  }
  std::string text = fmt::format("Plan('{}', {}, {}", print_plan(plan), chain, bitmma::print(plan.target));
  if (plan.output != d) text += fmt::format(", D {}", info(plan.output).name);
  if (bound.differing.value_or(0) > 0) text += fmt::format(", {} outputs differ", *bound.differing);
  return text + ")";
}

nb::list catalogue_rows() {
  nb::list rows;
  for (const CataloguePlan& row : catalogue()) {
    nb::dict fields;
    fields["name"] = row.name;
    fields["about"] = row.about;
    fields["evidence"] = print(row.evidence);
    fields["source"] = row.source;
    fields["target"] = print(row.target);
    fields["open_count"] = row.open_count;
    fields["gpus"] = row.gpus.empty() ? "all" : row.gpus;
    nb::list types;
    for (const PlanTypes& seen : row.types) types.append(nb::make_tuple(seen.operands, seen.d, print(seen.evidence)));
    fields["types"] = types;
    fields["most_k"] = row.most_k > 0 ? nb::object(nb::int_(row.most_k)) : nb::none();
    rows.append(fields);
  }
  return rows;
}

}  // namespace

void bind_gemm(nb::module_& module) {
  nb::class_<BoundPlan>(module, "Plan",
                        "How a library adds up K, from a dictionary or JSON text; docs/products.md has the fields. "
                        "Raises Error, which names the wrong field.")
      .def(
          "__init__",
          [](BoundPlan* self, const nb::args& positional, const nb::kwargs& named) {
            const OnlyArgument argument = only_argument("Plan", "fields", positional, named);
            for (const auto& [key, value] : argument.named)
              throw Error({.code = ViolationCode::unknown_name,
                           .field = "Plan",
                           .seen = nb::cast<std::string>(key),
                           .legal = {"fields"},
                           .fix = "pass one dictionary: Plan({\"instruction\": ...})"});
            const nb::object& fields = argument.value;
            const nb::object text = [&] {
              if (!nb::isinstance<nb::dict>(fields)) return nb::borrow(fields);
              try {
                return in_ieee_environment(
                    [&] { return nb::object(nb::module_::import_("json").attr("dumps")(fields)); });
              } catch (const nb::python_error& error) {  // a dictionary that contains itself, or a type that JSON lacks
                throw Error({.code = ViolationCode::wrong_type,
                             .field = "plan",
                             .seen = shown(error.value()),
                             .expected = "a dictionary of values that JSON supports"});
              }
            }();
            std::string_view json;
            if (!nb::try_cast(text, json)) {
              throw Error({.code = ViolationCode::wrong_type,
                           .field = "plan",
                           .seen = shown(fields),
                           .expected = "a dictionary, or JSON",
                           .fix = "pass the name of a plan to bitmma.gemm: bitmma.gemm(a, b, \"nvjet-algo2\")"});
            }
            new (self) BoundPlan{.plan = parse_plan(json)};
          },
          nb::arg("positional"), nb::arg("named"), nb::sig("def __init__(self, fields: object) -> None"))
      .def_prop_ro(
          "json", [](const BoundPlan& bound) { return print_json(bound.plan); }, "The plan as JSON.")
      .def_prop_ro(
          "fields", [](const BoundPlan& bound) { return nb::cast<nb::dict>(from_json(print_json(bound.plan))); },
          "The plan as a dictionary.")
      .def("__repr__", repr_of_plan)
      .def("__str__", [](const BoundPlan& bound) { return print_plan(bound.plan); })
      .def(
          "__eq__",
          [](const BoundPlan& bound, nb::handle other) {
            const BoundPlan* another = nullptr;
            return nb::try_cast(other, another) && another && bound.plan == another->plan;
          },
          nb::arg("other").none())
      .def(
          "__getstate__",
          [](const BoundPlan& bound) { return nb::make_tuple(print_json(bound.plan), bound.differing, bound.pattern); })
      .def("__setstate__",
           [](BoundPlan& self, const nb::tuple& state) {
             require_state(state, 3);
             new (&self) BoundPlan{.plan = parse_plan(nb::cast<std::string>(state[0])),
                                   .differing = nb::cast<std::optional<int64_t>>(state[1]),
                                   .pattern = nb::cast<std::string>(state[2])};
           })
      .def("__hash__",
           [](const BoundPlan& bound) {
             return static_cast<int64_t>(std::hash<std::string>{}(print_json(bound.plan)) >> 1);
           })
      .def_prop_ro(
          "name", [](const BoundPlan& bound) { return bound.plan.name; }, "The name as it was given; may be empty.")
      .def_prop_ro(
          "target", [](const BoundPlan& bound) { return std::string(print(bound.plan.target)); },
          "The GPU whose arithmetic the plan has.")
      .def_prop_ro(
          "output", [](const BoundPlan& bound) { return std::string(info(bound.plan.output).name); }, "Format of D.")
      .def_prop_ro(
          "instruction", [](const BoundPlan& bound) { return print_instruction(bound.plan); },
          "The mnemonic of the instruction in the chain; fma.rn.f32 means CUDA cores.")
      .def_prop_ro(
          "evidence",
          [](const BoundPlan& bound) {
            nb::dict levels;
            for (const auto& [field, evidence] : bound.plan.evidence)
              levels[nb::str(field.data(), field.size())] = print(evidence, bound.plan.target);
            return levels;
          },
          "Field -> how it is known.")
      .def_ro("differing", &BoundPlan::differing,
              "The number of outputs that the plan does not reproduce; None without a search.")
      .def_ro("pattern", &BoundPlan::pattern, "The places of the outputs that the plan does not reproduce.")
      .def_prop_ro(
          "slices", [](const BoundPlan& bound) { return std::max(1, bound.plan.split_k.count); },
          "The number of slices of split-K; 1 if K is not split. If the plan names cuts or regions, the slices of the "
          "other outputs.")
      .def(
          "k_added",
          [](const BoundPlan& bound, int64_t k) {
            if (k < 0 || k > int64_t{1} << 40)
              throw Error({.field = "k", .seen = std::to_string(k), .expected = "0 to 2^40"});
            return k_added(bound.plan, k);
          },
          "k"_a,
          "How much of a product's K the plan adds up; less than all of K if its way of splitting loses the tail.")
      .def_prop_ro("_instruction",
                   [](const BoundPlan& bound) {
                     return bound.plan.cuda_cores() ? nb::none()
                                                    : nb::cast(BoundInstruction(bound.plan.tensor().instruction));
                   })
      .def("with_target", [](const BoundPlan& bound, std::string_view target) {
        BoundPlan other = bound;
        other.plan = on_target(bound.plan, target_from(target));
        return other;
      });
  module.def("gemm_into", gemm_into, "plan"_a, "operands"_a, "d"_a, "threads"_a);
  module.def("warnings_of_plan", [](const BoundPlan& plan, std::string_view a, std::string_view b) {
    return to_list(warnings_of(plan.plan, parse_format(a), parse_format(b)));
  });
  module.def("plans_for", plans, "call"_a);
  module.def("only_plan", only_plan_of, "call"_a);
  module.def("library_choice", choice, "call"_a);
  module.def(
      "library_choices",
      [](nb::handle call) {
        const LibraryCall value = call_in(call);
        return from_report(describe(value, library_choices(value)));
      },
      "call"_a);
  module.def("chosen_plan", chosen_plan, "library"_a, "kernel"_a, "slices"_a, "output"_a, "operands"_a);
  module.def("find_plans", find, "call"_a, "search"_a);
  module.def("diagnose_product", diagnose, "call"_a, "d"_a, "threads"_a);
  module.def("faulty_product", faulty, "plan"_a, "operands"_a, "fault"_a, "threads"_a);
  module.def(
      "product_faults",
      [](const nb::dict& operands) {
        nb::list faults;
        for (const ProductFault& fault : product_faults(inputs_of(operands)))
          faults.append(nb::make_tuple(fault.id, fault.what, fault.fix));
        return faults;
      },
      "operands"_a);
  module.def(
      "trace_product",
      [](const BoundPlan& bound, const nb::dict& operands, int row, int col) {
        const GemmInputs inputs = inputs_of(operands);
        if (std::vector<Violation> unread = unread_by(bound.plan, inputs); !unread.empty())
          throw Error(std::move(unread));
        const Report report = describe(trace_product(bound.plan, inputs, row, col));
        return nb::make_tuple(from_report(report), print(report));
      },
      "plan"_a, "operands"_a, "row"_a, "col"_a);
  module.def("accuracy", accuracy, "operands"_a, "d"_a, "threads"_a);
  module.def("catalogue", catalogue_rows);
  module.def("generated", [](std::string_view format, const std::vector<int64_t>& rows, int cols, uint64_t seed,
                             int stream, nb::handle out) {
    const Buffer to(out, "out", true);
    const Matrix made = generated_rows(parse_format(format), rows, cols, seed, static_cast<GeneratedStream>(stream));
    if (!to.is_contiguous() || to.bytes() != static_cast<int64_t>(made.size()) * code_bytes(made.format()))
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = "out",
                   .seen = to.shape(),
                   .expected = "a contiguous array of rows x cols codes"});
    write_codes(made, to.data());
  });
}

}  // namespace bitmma::python
