// Whole products: plans, gemm, the search and the catalogue.
#include <fmt/format.h>

#include <thread>

#include "binding.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/gemm/accuracy.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/generated.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

std::vector<int64_t> numbers_in(nb::handle list) {
  return list.is_none() ? std::vector<int64_t>{} : nb::cast<std::vector<int64_t>>(list);
}

/// What a product reads, from a dictionary of (format, codes) and numbers.
GemmInputs inputs_of(const nb::dict& from) {
  const auto get = [&](const char* name) -> nb::object {
    return from.contains(name) ? nb::object(from[name]) : nb::none();
  };
  GemmInputs inputs{.a = required_matrix_in(get("a"), "a"), .b = required_matrix_in(get("b"), "b")};
  inputs.c = optional_matrix_in(get("c"), "c");
  inputs.bias = optional_matrix_in(get("bias"), "bias");
  inputs.scale_a = optional_matrix_in(get("scale_a"), "scale_a");
  inputs.scale_b = optional_matrix_in(get("scale_b"), "scale_b");
  inputs.sfa = optional_matrix_in(get("sfa"), "sfa");
  inputs.sfb = optional_matrix_in(get("sfb"), "sfb");
  inputs.rows = numbers_in(get("rows"));
  inputs.cols = numbers_in(get("cols"));
  if (const nb::object whole = get("whole"); !whole.is_none()) {
    inputs.whole_m = nb::cast<int64_t>(whole[0]);
    inputs.whole_n = nb::cast<int64_t>(whole[1]);
  }
  return inputs;
}

void gemm_into(const BoundPlan& bound, const nb::dict& operands, nb::handle d, int threads) {
  const GemmInputs inputs = inputs_of(operands);
  if (std::vector<Violation> unread = unread_by(bound.plan, inputs); !unread.empty()) throw Error(std::move(unread));
  const Buffer to(d, "d", true);
  const int64_t outputs = int64_t{inputs.a.rows()} * inputs.b.cols();
  if (!to.is_contiguous() || to.bytes() != outputs * code_bytes(bound.plan.output)) {
    throw Error({.field = "d", .seen = "shape " + to.shape(), .expected = fmt::format("{} outputs", outputs)});
  }
  const std::thread::id caller = std::this_thread::get_id();
  const nb::gil_scoped_release release;
  // Ctrl-C ends a long product: Python's main thread looks now and then.
  const GemmProgress look = [&](int64_t) {
    if (std::this_thread::get_id() != caller) return;
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  };
  write_codes(gemm(bound.plan, inputs, threads, look), to.data());
}

std::optional<Target> optional_target(std::optional<std::string_view> name) {
  return name ? std::optional(target_from(*name)) : std::nullopt;
}

/// The plans that a name, or the name of a kernel, means for these operands.
std::vector<BoundPlan> named_plans(std::string_view name, bool is_kernel, const nb::dict& operands,
                                   std::string_view output, std::optional<std::string_view> target, int split_k,
                                   float alpha, float beta, bool relu) {
  const GemmInputs inputs = inputs_of(operands);
  const Format as = parse_format(output);
  const CatalogueOptions options{
      .target = optional_target(target), .split_count = split_k, .alpha = alpha, .beta = beta, .relu = relu};
  std::vector<GemmPlan> plans;
  if (is_kernel) plans = plans_of_kernel(name, inputs, as, options);
  else plans = plans_named(name, inputs, as, options);
  std::vector<BoundPlan> bound;
  for (GemmPlan& plan : plans) bound.push_back({.plan = std::move(plan)});
  return bound;
}

std::vector<BoundPlan> bound_plans(PlanSearch&& found, bool nearest) {
  std::vector<BoundPlan> plans;
  for (GemmPlan& plan : found.all_bits) plans.push_back({.plan = std::move(plan), .differing = 0});
  if (!nearest) return plans;
  for (NearPlan& near : found.nearest)
    plans.push_back({.plan = std::move(near.plan), .differing = near.differing, .pattern = std::move(near.pattern)});
  return plans;
}

std::vector<BoundPlan> find(const nb::dict& operands, nb::handle d, std::optional<std::string_view> target, float alpha,
                            float beta, bool nearest, int max_nearest, const std::vector<BoundPlan>& among,
                            int threads) {
  const GemmInputs inputs = inputs_of(operands);
  const Matrix recorded = required_matrix_in(d, "d");
  const FindOptions options{.target = optional_target(target).value_or(Target::sm_90a),
                            .threads = threads,
                            .max_nearest = max_nearest,
                            .alpha = alpha,
                            .beta = beta};
  std::vector<GemmPlan> given;
  for (const BoundPlan& one : among) given.push_back(one.plan);
  PlanSearch found = [&] {
    const nb::gil_scoped_release release;
    return given.empty() ? find_plans(inputs, recorded, options) : try_plans(given, inputs, recorded, options);
  }();
  return bound_plans(std::move(found), nearest);
}

nb::dict accuracy(const nb::dict& operands, nb::handle d, int threads) {
  const GemmInputs inputs = inputs_of(operands);
  const Matrix computed = required_matrix_in(d, "d");
  const Accuracy found = [&] {
    const nb::gil_scoped_release release;
    return accuracy_of(inputs, computed, threads);
  }();
  nb::dict said;
  said["outputs"] = found.outputs;
  said["not_finite"] = found.not_finite;
  said["max_ulp"] = found.max_ulp;
  said["mean_ulp"] = found.mean_ulp;
  said["bias_ulp"] = found.bias_ulp;
  said["max_relative_error"] = found.max_relative_error;
  return said;
}

nb::list catalogue_rows() {
  nb::list rows;
  for (const CataloguePlan& row : catalogue()) {
    nb::dict one;
    one["name"] = row.name;
    one["about"] = row.about;
    one["evidence"] = row.evidence;
    one["source"] = row.source;
    one["target"] = print(row.target);
    one["open_count"] = row.open_count;
    rows.append(one);
  }
  return rows;
}

}  // namespace

void bind_gemm(nb::module_& module) {
  nb::class_<BoundPlan>(module, "Plan",
                        "How a library adds up K, from a dictionary or JSON text; docs/products.md has the fields. "
                        "Raises Error that names a field which is wrong.")
      .def(
          "__init__",
          [](BoundPlan* self, nb::handle fields) {
            const nb::object text = [&] {
              if (!nb::isinstance<nb::dict>(fields)) return nb::borrow(fields);
              try {
                return nb::object(nb::module_::import_("json").attr("dumps")(fields));
              } catch (const nb::python_error& error) {  // a dictionary in itself, what JSON has no word for
                throw Error(
                    {.field = "plan", .seen = shown(error.value()), .expected = "a dictionary, as JSON has it"});
              }
            }();
            std::string_view json;
            if (!nb::try_cast(text, json)) {
              throw Error({.field = "plan",
                           .seen = shown(fields),
                           .expected = "a dictionary, or JSON",
                           .fix = "names of plans go to bitmma.gemm(a, b, \"nvjet-algo2\")"});
            }
            new (self) BoundPlan{.plan = parse_plan(json)};
          },
          "fields"_a)
      .def_prop_ro(
          "json", [](const BoundPlan& one) { return print_json(one.plan); }, "The plan as JSON.")
      .def_prop_ro(
          "fields", [](const BoundPlan& one) { return nb::cast<nb::dict>(from_json(print_json(one.plan))); },
          "The plan as a dictionary.")
      .def("__repr__", [](const BoundPlan& one) { return "Plan('" + print_json(one.plan) + "')"; })
      .def("__str__", [](const BoundPlan& one) { return print_plan(one.plan); })
      .def(
          "__eq__",
          [](const BoundPlan& one, nb::handle other) {
            const BoundPlan* another = nullptr;
            return nb::try_cast(other, another) && another && one.plan == another->plan;
          },
          nb::arg("other").none())
      .def("__getstate__",
           [](const BoundPlan& one) { return nb::make_tuple(print_json(one.plan), one.differing, one.pattern); })
      .def("__setstate__",
           [](BoundPlan& self, const nb::tuple& state) {
             require_state(state, 3);
             new (&self) BoundPlan{.plan = parse_plan(nb::cast<std::string>(state[0])),
                                   .differing = nb::cast<std::optional<int64_t>>(state[1]),
                                   .pattern = nb::cast<std::string>(state[2])};
           })
      .def("__hash__",
           [](const BoundPlan& one) {
             return static_cast<int64_t>(std::hash<std::string>{}(print_json(one.plan)) >> 1);
           })
      .def_prop_ro(
          "name", [](const BoundPlan& one) { return one.plan.name; }, "As it was given; may be empty.")
      .def_prop_ro(
          "target", [](const BoundPlan& one) { return std::string(print(one.plan.target)); }, "Whose arithmetic.")
      .def_prop_ro(
          "output", [](const BoundPlan& one) { return std::string(info(one.plan.output).name); }, "Format of D.")
      .def_prop_ro(
          "instruction",
          [](const BoundPlan& one) {
            return one.plan.cuda_cores() ? std::string("fma.rn.f32") : print(one.plan.tensor().instruction);
          },
          "The mnemonic that is chained, or fma.rn.f32: CUDA cores.")
      .def_prop_ro(
          "evidence",
          [](const BoundPlan& one) {
            nb::dict said;
            for (const auto& [field, how] : one.plan.evidence) said[nb::str(field.data(), field.size())] = how;
            return said;
          },
          "Field -> how it is known.")
      .def_ro("differing", &BoundPlan::differing, "Outputs that the plan misses; None without a search.")
      .def_ro("pattern", &BoundPlan::pattern, "Where the outputs are that it misses.")
      .def_prop_ro(
          "slices", [](const BoundPlan& one) { return std::max(1, one.plan.split_k.count); },
          "Slices that K is cut into; 1: none. Of plans that name their cuts or regions, of the others.")
      .def(
          "k_added",
          [](const BoundPlan& one, int64_t k) {
            if (k < 0 || k > int64_t{1} << 40)
              throw Error({.field = "k", .seen = std::to_string(k), .expected = "0 to 2^40"});
            return k_added(one.plan, k);
          },
          "k"_a, "K that the plan adds up of a product's K: less where its way of cutting loses the tail.")
      .def_prop_ro("_instruction",
                   [](const BoundPlan& one) {
                     return one.plan.cuda_cores() ? nb::none()
                                                  : nb::cast(BoundInstruction(one.plan.tensor().instruction));
                   })
      .def("with_target", [](const BoundPlan& one, std::string_view target) {
        BoundPlan other = one;
        other.plan.target = target_from(target);
        return other;
      });
  module.def("gemm_into", gemm_into, "plan"_a, "operands"_a, "d"_a, "threads"_a);
  module.def("named_plans", named_plans, "name"_a, "is_kernel"_a, "operands"_a, "output"_a, "target"_a.none(),
             "split_k"_a, "alpha"_a, "beta"_a, "relu"_a);
  module.def("find_plans", find, "operands"_a, "d"_a, "target"_a.none(), "alpha"_a, "beta"_a, "nearest"_a,
             "max_nearest"_a, "among"_a, "threads"_a);
  module.def("accuracy", accuracy, "operands"_a, "d"_a, "threads"_a);
  module.def("catalogue", catalogue_rows);
  module.def("generated", [](std::string_view format, const std::vector<int64_t>& rows, int cols, uint64_t seed,
                             int stream, nb::handle out) {
    const Buffer to(out, "out", true);
    const Matrix made = generated_rows(parse_format(format), rows, cols, seed, static_cast<GeneratedStream>(stream));
    if (!to.is_contiguous() || to.bytes() != static_cast<int64_t>(made.size()) * code_bytes(made.format()))
      throw Error({.field = "out", .seen = to.shape(), .expected = "rows x cols codes"});
    write_codes(made, to.data());
  });
}

}  // namespace bitmma::python
