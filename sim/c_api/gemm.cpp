// SPDX-License-Identifier: MIT
#include "bitmma/gemm/gemm.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <memory>

#include "bitmma/core/target_names.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/gemm/find.hpp"
#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

namespace {

struct CMatrixOfOperand {
  GemmOperand operand;
  bitmma_matrix bitmma_gemm_inputs::*matrix;
};
constexpr auto matrices_of_operands = std::to_array<CMatrixOfOperand>({
    {GemmOperand::a, &bitmma_gemm_inputs::a},
    {GemmOperand::b, &bitmma_gemm_inputs::b},
    {GemmOperand::c, &bitmma_gemm_inputs::c},
    {GemmOperand::bias, &bitmma_gemm_inputs::bias},
    {GemmOperand::scale_a, &bitmma_gemm_inputs::scale_a},
    {GemmOperand::scale_b, &bitmma_gemm_inputs::scale_b},
    {GemmOperand::sfa, &bitmma_gemm_inputs::sfa},
    {GemmOperand::sfb, &bitmma_gemm_inputs::sfb},
});
static_assert(matrices_of_operands.size() == gemm_operands.size());

GemmInputs inputs_given(const bitmma_gemm_inputs* inputs) {
  const bitmma_gemm_inputs& from = pointee(inputs, "inputs");
  GemmInputs to{.whole_m = from.whole_m, .whole_n = from.whole_n};
  for (const auto& [operand, matrix] : matrices_of_operands) {
    const GemmOperandInfo& row = info(operand);
    if ((from.*matrix).data || !row.optional) set_operand(to, operand, matrix_given(from.*matrix, row.name));
  }
  if (from.row_numbers) to.rows.assign(from.row_numbers, from.row_numbers + to.a.rows());
  if (from.col_numbers) to.cols.assign(from.col_numbers, from.col_numbers + to.b.cols());
  return to;
}

constexpr bitmma_call usual_call{.target = nullptr, .split_count = 0, .alpha = 1, .beta = 1, .relu = 0};

/// The call with alpha and beta of 1 if it sets neither: if both were 0, D would be 0.
bitmma_call completed(bitmma_call call) {
  if (call.alpha == 0 && call.beta == 0) call.alpha = call.beta = 1;
  return call;
}

CatalogueOptions options_of(const bitmma_call& options) {
  const bitmma_call call = completed(options);
  return {.target = call.target ? std::optional(target_from(call.target)) : std::nullopt,
          .split_count = call.split_count,
          .alpha = call.alpha,
          .beta = call.beta,
          .relu = call.relu != 0};
}

bitmma_plans* plans_from(std::vector<GemmPlan> plans) {
  auto list = std::make_unique<bitmma_plans>();
  for (GemmPlan& plan : plans) list->values.push_back({std::move(plan)});
  return list.release();
}

PlanSearch searched(const bitmma_gemm_inputs* inputs, const bitmma_matrix* d, const bitmma_call* call,
                    FindOptions options, const FindProgress& progress = {}) {
  const bitmma_call of = completed(call ? *call : usual_call);
  const GemmInputs from = inputs_given(inputs);
  options.target = of.target ? target_from(of.target) : default_target(from);
  options.alpha = of.alpha, options.beta = of.beta;
  return find_plans(from, matrix_given(pointee(d, "d"), "d"), options, progress);
}

}  // namespace

extern "C" {

bitmma_status bitmma_plan_parse(const char* json, bitmma_plan** plan) {
  return guarded([&] {
    bitmma_plan*& to = pointee(plan, "plan");
    to = new bitmma_plan{parse_plan(text_given(json, "json"))};
  });
}

bitmma_status bitmma_plan_flat(const char* target, bitmma_format a, bitmma_format b, bitmma_format output,
                               bitmma_plan** plan) {
  return guarded([&] {
    bitmma_plan*& to = pointee(plan, "plan");
    to = new bitmma_plan{flat_plan(target_of(target, Target::sm_90a), format_of(a, "a"), format_of(b, "b"),
                                   format_of(output, "output"))};
  });
}

void bitmma_plan_destroy(bitmma_plan* plan) { delete plan; }

bitmma_status bitmma_plan_print_json(const bitmma_plan* plan, char* text, size_t size, size_t* length) {
  return guarded([&] { write_text(print_json(pointee(plan, "plan").value), text, size, length); });
}

bitmma_status bitmma_plan_print(const bitmma_plan* plan, char* text, size_t size, size_t* length) {
  return guarded([&] { write_text(print_plan(pointee(plan, "plan").value), text, size, length); });
}

bitmma_status bitmma_plan_output(const bitmma_plan* plan, bitmma_format* output) {
  return guarded([&] {
    const GemmPlan& gemm_plan = pointee(plan, "plan").value;
    pointee(output, "output") = c_format(gemm_plan.output);
  });
}

bitmma_status bitmma_gemm(const bitmma_plan* plan, const bitmma_gemm_inputs* inputs, void* d, int threads) {
  return guarded([&] {
    const GemmPlan& gemm_plan = pointee(plan, "plan").value;
    const GemmInputs from = inputs_given(inputs);
    if (!d) refuse_null("d");
    if (std::vector<Violation> unread = unread_by(gemm_plan, from); !unread.empty()) throw Error(std::move(unread));
    write_codes(gemm(gemm_plan, from, threads_of(threads)), d);
  });
}

bitmma_status bitmma_plans_named(const char* name, const bitmma_gemm_inputs* inputs, bitmma_format output,
                                 const bitmma_call* call, bitmma_plans** plans) {
  return guarded([&] {
    bitmma_plans*& to = pointee(plans, "plans");
    to = plans_from(plans_for({.plan = name ? name : "",
                               .output = format_of(output, "output"),
                               .options = options_of(call ? *call : usual_call)},
                              inputs_given(inputs)));
  });
}

bitmma_status bitmma_plans_of_kernel(const char* kernel, const bitmma_gemm_inputs* inputs, bitmma_format output,
                                     const bitmma_call* call, bitmma_plans** plans) {
  return guarded([&] {
    bitmma_plans*& to = pointee(plans, "plans");
    to = plans_from(plans_for({.kernel = std::string(text_given(kernel, "kernel")),
                               .output = format_of(output, "output"),
                               .options = options_of(call ? *call : usual_call)},
                              inputs_given(inputs)));
  });
}

bitmma_status bitmma_find_plans(const bitmma_gemm_inputs* inputs, const bitmma_matrix* d, const bitmma_call* call,
                                int threads, bitmma_plans** plans) {
  return guarded([&] {
    bitmma_plans*& to = pointee(plans, "plans");
    to = plans_from(searched(inputs, d, call, {.threads = threads_of(threads)}).all_bits);
  });
}

bitmma_status bitmma_find_plans_until(const bitmma_gemm_inputs* inputs, const bitmma_matrix* d, const bitmma_call* call,
                                      int threads, double timeout_s, bitmma_search_progress progress, void* context,
                                      bitmma_plans** plans, int* complete) {
  return guarded([&] {
    bitmma_plans*& to = pointee(plans, "plans");
    if (!(timeout_s >= 0)) {
      throw Error({.field = "timeout_s",
                   .seen = fmt::format("{}", timeout_s),
                   .expected = "0 or more seconds; 0 means no limit"});
    }
    std::atomic<int64_t> tried{0}, of_all{0};
    FindOptions options{.threads = threads_of(threads), .timeout_s = timeout_s};
    if (progress) options.stop = [&] { return progress(tried, of_all, context) != 0; };
    PlanSearch search =
        searched(inputs, d, call, std::move(options), [&](int64_t done, int64_t all) { tried = done, of_all = all; });
    if (complete) *complete = search.end == SearchEnd::complete ? 1 : 0;
    to = plans_from(std::move(search.all_bits));
  });
}

const char* bitmma_catalogue_name(size_t index) {
  const char* name = nullptr;
  static_cast<void>(guarded([&] {
    if (index < catalogue().size()) name = catalogue()[index].name.c_str();
  }));
  return name;
}

size_t bitmma_plans_count(const bitmma_plans* plans) { return plans ? plans->values.size() : 0; }

const bitmma_plan* bitmma_plans_at(const bitmma_plans* plans, size_t index) {
  return index < bitmma_plans_count(plans) ? &plans->values[index] : nullptr;
}

void bitmma_plans_destroy(bitmma_plans* plans) { delete plans; }

}  // extern "C"
