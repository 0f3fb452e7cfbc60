// SPDX-License-Identifier: MIT
// One table says which operands and options an operator has; an option that its row does not name is refused.
#include "bitmma/acts/run_operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "bitmma/acts/describe_operator.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/numbers.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/operators/attention.hpp"
#include "bitmma/operators/rows.hpp"
#include "bitmma/operators/trace.hpp"

namespace bitmma {
namespace {

struct OperatorCall {
  const OperatorRequest& request;
  std::vector<OperatorTensor> operands;

  const Matrix& x() const { return operands[0].rows; }
  const std::vector<int64_t>& shape() const { return operands[0].shape; }
  const Matrix* operand(size_t i) const { return i < operands.size() ? &operands[i].rows : nullptr; }
};

using Results = std::vector<OperatorTensor>;
using PlaceInRows = std::vector<int>;

struct OperatorRow {
  OperatorInfo info;
  std::function<Results(const OperatorCall&)> compute;
  std::function<std::vector<int64_t>(const OperatorCall&)> shape;  // of the first result
  std::function<OperatorTrace(const OperatorCall&, const PlaceInRows&)> explain;
  size_t own_axes = 1;  // the last axes of a place that are numbers of their own; those before are one number
  std::function<std::string(const OperatorCall&)> plan = {};
};

/// The keys before and after a query's own: "3,-1".
std::array<int, 2> parse_window(const std::string& text) {
  if (text.empty()) return {-1, -1};
  const std::optional<std::vector<int64_t>> keys = parse_signed_list(text);
  const auto is_count = [](int64_t count) { return count >= -1 && count <= 1 << 30; };
  if (!keys || keys->size() != 2 || !std::ranges::all_of(*keys, is_count))
    throw Error({.field = "window", .seen = shortened(text), .expected = "LEFT,RIGHT; -1: all keys"});
  return {static_cast<int>((*keys)[0]), static_cast<int>((*keys)[1])};
}

struct AttentionCall {
  AttentionShape shape;
  AttentionPlan plan;
};

AttentionCall attention_call(const OperatorCall& call) {
  const OperatorRequest& request = call.request;
  const std::vector<int64_t>& q = call.shape();
  for (const OperatorTensor& tensor : call.operands) {
    // Axes before the heads are the same.
    const bool fits = tensor.shape.size() == q.size() && q.size() >= 2 && tensor.shape.back() == q.back() &&
                      (q.size() < 3 || std::equal(q.begin(), q.end() - 3, tensor.shape.begin()));
    if (!fits || (tensor.name == "v" && tensor.shape != call.operands[1].shape))
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = tensor.name,
                   .seen = print_shape(tensor.shape),
                   .expected = "[..., heads, n, head size]; k and v of one shape, all of one head size and batch"});
  }
  const auto heads_of = [](const OperatorTensor& tensor) {
    return static_cast<int>(tensor.rows.rows() / std::max<int64_t>(tensor.shape[tensor.shape.size() - 2], 1));
  };
  const auto [window_left, window_right] = parse_window(request.window);
  const AttentionShape shape{.heads = heads_of(call.operands[0]),
                             .kv_heads = heads_of(call.operands[1]),
                             .queries = static_cast<int>(q[q.size() - 2]),
                             .keys = static_cast<int>(call.operands[1].shape[q.size() - 2]),
                             .head_size = static_cast<int>(q.back())};
  return {.shape = shape,
          .plan = attention_plan(shape,
                                 {.kernel = parse_attention_kernel(request.backend.empty() ? "flash" : request.backend),
                                  .causal = request.causal,
                                  .scale = request.scale,
                                  .window_left = window_left,
                                  .window_right = window_right,
                                  .splits = request.splits})};
}

Results attend(const OperatorCall& call) {
  const auto [shape, plan] = attention_call(call);
  Attention computed =
      attention(plan, shape, call.x(), call.operands[1].rows, call.operands[2].rows, call.request.threads);
  std::vector<int64_t> lse(call.shape().begin(), call.shape().end() - 1);
  return {{"out", call.shape(), std::move(computed.out)}, {"lse", std::move(lse), std::move(computed.lse)}};
}

OperatorTrace explain_attention(const OperatorCall& call, const PlaceInRows& at) {
  const auto [shape, plan] = attention_call(call);
  return trace_attention(plan, shape, call.x(), call.operands[1].rows, call.operands[2].rows, at[0], at[1], at[2]);
}

SoftmaxOptions softmax_options(const OperatorCall& call) {
  return {
      .to = call.request.output_type, .logarithm = call.request.name == "log_softmax", .threads = call.request.threads};
}

/// The request's epsilon, or PyTorch's default: rms_norm takes the epsilon of the type in which it adds, float32.
float eps_of(const OperatorRequest& request) {
  return request.eps.value_or(request.name == "rms_norm" ? std::numeric_limits<float>::epsilon() : 1e-5F);
}

Results normalise(const OperatorCall& call) {
  const float eps = eps_of(call.request);
  const int threads = call.request.threads;
  Norm norm = call.request.name == "rms_norm" ? rms_norm(call.x(), call.operand(1), eps, threads)
                                              : layer_norm(call.x(), call.operand(1), call.operand(2), eps, threads);
  std::vector<int64_t> moments = call.shape();
  moments.back() = 1;
  Results results{{"out", call.shape(), std::move(norm.out)}};
  if (norm.mean) results.push_back({"mean", moments, std::move(*norm.mean)});
  results.push_back({"rstd", moments, std::move(norm.rstd)});
  return results;
}

struct ReduceCall {
  std::optional<Matrix> flat;  // all elements of x as one row, if that is reduced
  ReduceOptions options;
  std::vector<int64_t> shape;  // of the result

  const Matrix& x(const OperatorCall& call) const { return flat ? *flat : call.x(); }
};

ReduceCall reduce_call(const OperatorCall& call) {
  const OperatorRequest& request = call.request;
  ReduceCall reduction{
      .flat = {},
      .options = {.what = parse_row_reduction(request.name), .to = request.output_type, .threads = request.threads},
      .shape = {call.shape().begin(), call.shape().end() - 1}};
  if (request.dim == "0" && call.shape().size() == 2) {
    reduction.options.over_rows = true, reduction.shape = {call.shape()[1]};
  } else if (request.dim == "all") {
    if (call.x().size() > static_cast<size_t>(std::numeric_limits<int>::max()))
      throw Error({.field = "dim", .seen = "all", .expected = "at most 2^31 - 1 elements"});
    reduction.flat = Matrix(call.x().format(), 1, static_cast<int>(call.x().size()));
    std::ranges::copy(call.x().words(), reduction.flat->words().begin());
    reduction.shape = {};
  } else if (!request.dim.empty() && request.dim != "-1") {
    throw Error({.field = "dim",
                 .seen = shortened(request.dim),
                 .expected = "-1, all, or 0 of a matrix: other axes are not measured"});
  }
  return reduction;
}

/// Functions of two are of numbers at the same places.
const Matrix* other_operand(const OperatorCall& call) {
  if (call.operands.size() == 2 && call.operands[1].shape != call.shape())
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = call.operands[1].name,
                 .seen = print_shape(call.operands[1].shape),
                 .expected = fmt::format("{}, as x", print_shape(call.shape()))});
  return call.operand(1);
}

std::vector<int64_t> shape_of_x(const OperatorCall& call) { return call.shape(); }

OperatorRow softmax_row(std::string name) {
  return {
      .info = {.name = std::move(name), .operands = {"x"}, .options = {"output_type"}},
      .compute =
          [](const OperatorCall& call) {
            return Results{{"out", call.shape(), softmax(call.x(), softmax_options(call))}};
          },
      .shape = shape_of_x,
      .explain = [](const OperatorCall& call,
                    const PlaceInRows& at) { return trace_softmax(call.x(), softmax_options(call), at[0], at[1]); }};
}

OperatorRow reduction_row(std::string name, std::vector<std::string_view> options) {
  return {.info = {.name = std::move(name), .operands = {"x"}, .options = std::move(options)},
          .compute =
              [](const OperatorCall& call) {
                const ReduceCall reduction = reduce_call(call);
                return Results{{"out", reduction.shape, reduce(reduction.x(call), reduction.options)}};
              },
          .shape = [](const OperatorCall& call) { return reduce_call(call).shape; },
          .explain =
              [](const OperatorCall& call, const PlaceInRows& at) {
                const ReduceCall reduction = reduce_call(call);
                return trace_reduce(reduction.x(call), reduction.options, at[0]);
              },
          .own_axes = 0};
}

OperatorRow elementwise_row(const ElementwiseFunction& function) {
  OperatorRow row{
      .info = {.name = std::string(function.name), .operands = {"x"}},
      .compute =
          [](const OperatorCall& call) {
            return Results{{"out", call.shape(),
                            elementwise(call.request.name, call.x(), other_operand(call), call.request.threads)}};
          },
      .shape = shape_of_x,
      .explain =
          [](const OperatorCall& call, const PlaceInRows& at) {
            return trace_elementwise(call.request.name, call.x(), other_operand(call), at[0], at[1]);
          }};
  if (function.operands == 2) row.info.operands.emplace_back("y"), row.info.required = 2;
  return row;
}

std::vector<OperatorRow> operator_rows() {
  std::vector<OperatorRow> rows;
  rows.push_back({.info = {.name = "attention",
                           .operands = {"q", "k", "v"},
                           .required = 3,
                           .options = {"causal", "scale", "window", "splits", "backend"}},
                  .compute = attend,
                  .shape = shape_of_x,
                  .explain = explain_attention,
                  .own_axes = 2,
                  .plan = [](const OperatorCall& call) { return print(attention_call(call).plan); }});
  for (const char* const name : {"softmax", "log_softmax"}) rows.push_back(softmax_row(name));
  rows.push_back({.info = {.name = "layer_norm", .operands = {"x", "weight", "bias"}, .options = {"eps"}},
                  .compute = normalise,
                  .shape = shape_of_x,
                  .explain = [](const OperatorCall& call, const PlaceInRows& at) {
                    return trace_layer_norm(call.x(), call.operand(1), call.operand(2), eps_of(call.request), at[0],
                                            at[1]);
                  }});
  rows.push_back({.info = {.name = "rms_norm", .operands = {"x", "weight"}, .options = {"eps"}},
                  .compute = normalise,
                  .shape = shape_of_x,
                  .explain = [](const OperatorCall& call, const PlaceInRows& at) {
                    return trace_rms_norm(call.x(), call.operand(1), eps_of(call.request), at[0], at[1]);
                  }});
  for (const char* const name : {"sum", "mean"}) rows.push_back(reduction_row(name, {"dim", "output_type"}));
  for (const char* const name : {"amax", "argmax"}) rows.push_back(reduction_row(name, {"dim"}));
  for (const ElementwiseFunction& function : elementwise_functions()) rows.push_back(elementwise_row(function));
  return rows;
}

OperatorRow operator_named(const std::string& name) {
  std::vector<std::string> names;
  for (OperatorRow& row : operator_rows()) {
    if (row.info.name == name) return std::move(row);
    names.push_back(std::move(row.info.name));
  }
  throw Error({.code = ViolationCode::unknown_name, .field = "operator", .seen = shortened(name), .legal = names});
}

/// Throws Error for options of the request that the operator does not read.
void require_options_act(const OperatorInfo& info, const OperatorRequest& request) {
  std::vector<Violation> unread;
  for (const auto& [option, is_set] :
       {std::pair("causal", request.causal), std::pair("scale", request.scale.has_value()),
        std::pair("window", !request.window.empty()), std::pair("splits", request.splits.has_value()),
        std::pair("backend", !request.backend.empty()), std::pair("output_type", request.output_type.has_value()),
        std::pair("eps", request.eps.has_value()), std::pair("dim", !request.dim.empty())}) {
    if (is_set && std::ranges::find(info.options, option) == info.options.end())
      unread.push_back(
          {.code = ViolationCode::unread_argument, .field = option, .seen = "has no effect here; omit it"});
  }
  if (!unread.empty()) throw Error(std::move(unread));
}

/// The place of an output in the first result, as the operator counts it.
PlaceInRows place_of(const std::string& text, const std::vector<int64_t>& shape, size_t own_axes) {
  const std::optional<std::vector<int64_t>> at = parse_signed_list(text);
  if (shape.empty() && at == std::vector<int64_t>{0}) return {0};
  bool is_inside = at && !shape.empty() && at->size() == shape.size();
  for (size_t axis = 0; is_inside && axis < shape.size(); ++axis)
    is_inside = (*at)[axis] >= 0 && (*at)[axis] < shape[axis];
  if (!is_inside)
    throw Error({.field = "explain",
                 .seen = shortened(text),
                 .expected = fmt::format("a place in the result {}: {}", print_shape(shape),
                                         shape.empty() ? "0" : "an index for each axis, such as 0,5")});
  PlaceInRows place(1, 0);
  for (size_t axis = 0; axis < at->size(); ++axis) {
    if (axis + own_axes >= at->size()) place.push_back(static_cast<int>((*at)[axis]));
    else place[0] = static_cast<int>(place[0] * shape[axis] + (*at)[axis]);
  }
  return place;
}

}  // namespace

std::vector<OperatorInfo> operator_infos() {
  std::vector<OperatorInfo> infos;
  for (OperatorRow& row : operator_rows()) infos.push_back(std::move(row.info));
  return infos;
}

OperatorRun run_operator(const OperatorRequest& request) {
  const OperatorRow row = operator_named(request.name);
  require_options_act(row.info, request);
  const OperatorCall call{
      .request = request,
      .operands = read_operands(request.files, row.info.operands, row.info.required, request.tensor, request.type)};
  for (const OperatorTensor& tensor : call.operands) {
    if (tensor.shape.empty()) throw Error({.field = tensor.name, .seen = "[]", .expected = "one axis or more"});
  }
  OperatorRun run;
  std::optional<Report> explanation;
  if (!request.explain.empty())
    explanation = describe(row.explain(call, place_of(request.explain, row.shape(call), row.own_axes)));
  if (explanation && !request.computes && !request.recorded) {
    run.report = std::move(*explanation);
    return run;
  }
  const Results results = row.compute(call);
  std::vector<OperatorComparison> comparisons;
  if (request.recorded) comparisons = compare_results(results, *request.recorded);
  run.differs = std::ranges::any_of(comparisons, [](const auto& comparison) { return comparison.differing > 0; });
  run.report = describe(request.name, call.operands, results, comparisons, row.plan ? row.plan(call) : "");
  run.results = operator_file(request.name, results);
  if (explanation) {
    run.report.add_text("\n" + print(*explanation));
    run.report.add("explanation", std::move(*explanation));
  }
  return run;
}

}  // namespace bitmma
