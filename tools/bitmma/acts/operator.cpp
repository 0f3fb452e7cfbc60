// SPDX-License-Identifier: MIT
// One table says which operands and flags an operator has; a flag that its row does not read is refused.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "bitmma/acts/describe_operator.hpp"
#include "bitmma/acts/operator_file.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/operators/trace.hpp"
#include "flags.hpp"
#include "numbers.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct OperatorFlags {
  Flag<std::string> name, tensor, type, output_type, window, dim = "-1", backend = "flash", out, against, explain;
  Flag<std::vector<std::string>> files;
  Flag<std::optional<float>> scale, eps;
  Flag<std::optional<int>> splits;
  Flag<bool> causal = false, json = false;
  Flag<int> threads = 1;
};

struct OperatorCall {
  std::string name;
  const OperatorFlags& flags;
  std::vector<OperatorTensor> operands;

  const Matrix& x() const { return operands[0].rows; }
  const std::vector<int64_t>& shape() const { return operands[0].shape; }
  const Matrix* operand(size_t i) const { return i < operands.size() ? &operands[i].rows : nullptr; }
};

using Results = std::vector<OperatorTensor>;
using PlaceInRows = std::vector<int>;

struct OperatorRow {
  std::string name;
  std::vector<std::string_view> operands;
  size_t required = 1;
  std::string flags;  // for help: those that the functions below read
  std::function<Results(const OperatorCall&)> compute;
  std::function<std::vector<int64_t>(const OperatorCall&)> shape;  // of the first result
  std::function<OperatorTrace(const OperatorCall&, const PlaceInRows&)> explain;
  size_t own_axes = 1;  // the last axes of a place that are numbers of their own; those before are one number
  std::function<std::string(const OperatorCall&)> plan = {};
};

/// "0,3,5": whole numbers.
std::vector<int64_t> whole_numbers(std::string_view flag, const std::string& text, std::string_view expected) {
  std::vector<int64_t> numbers;
  for (const std::string& piece : split_list(text)) {
    const std::optional<int64_t> number = parse_signed(piece);
    if (!number || *number < -1 || *number > 1 << 30)
      throw Error({.field = std::string(flag), .seen = shortened(text), .expected = std::string(expected)});
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<Format> format_or_none(std::string_view flag, const std::string& name) {
  return name.empty() ? std::nullopt
                      : std::optional(require_format(flag, name, {Format::f32, Format::f16, Format::bf16}));
}

struct AttentionCall {
  AttentionShape shape;
  AttentionPlan plan;
};

AttentionCall attention_call(const OperatorCall& call) {
  const OperatorFlags& flags = call.flags;
  const std::vector<int64_t>& q = call.shape();
  for (const OperatorTensor& tensor : call.operands) {
    // Axes before the heads are the same.
    const bool fits = tensor.shape.size() == q.size() && q.size() >= 2 && tensor.shape.back() == q.back() &&
                      (q.size() < 3 || std::equal(q.begin(), q.end() - 3, tensor.shape.begin()));
    if (!fits || (tensor.name == "v" && tensor.shape != call.operands[1].shape))
      throw Error({.field = tensor.name,
                   .seen = print_shape(tensor.shape),
                   .expected = "[..., heads, n, head size]; k and v of one shape, all of one head size and batch"});
  }
  const auto heads_of = [](const OperatorTensor& tensor) {
    return static_cast<int>(tensor.rows.rows() / std::max<int64_t>(tensor.shape[tensor.shape.size() - 2], 1));
  };
  const auto window = flags.window.empty() ? std::vector<int64_t>{-1, -1}
                                           : whole_numbers("--window", flags.window, "LEFT,RIGHT; -1: all keys");
  if (window.size() != 2)
    throw Error({.field = "--window", .seen = shortened(*flags.window), .expected = "LEFT,RIGHT; -1: all keys"});
  const AttentionShape shape{.heads = heads_of(call.operands[0]),
                             .kv_heads = heads_of(call.operands[1]),
                             .queries = static_cast<int>(q[q.size() - 2]),
                             .keys = static_cast<int>(call.operands[1].shape[q.size() - 2]),
                             .head_size = static_cast<int>(q.back())};
  return {.shape = shape,
          .plan = attention_plan(shape, {.kernel = parse_attention_kernel(*flags.backend),
                                         .causal = flags.causal,
                                         .scale = flags.scale.get(),
                                         .window_left = static_cast<int>(window[0]),
                                         .window_right = static_cast<int>(window[1]),
                                         .splits = flags.splits.get()})};
}

/// Functions of two are of numbers at the same places.
const Matrix* other_operand(const OperatorCall& call) {
  if (call.operands.size() == 2 && call.operands[1].shape != call.shape())
    throw Error({.field = call.operands[1].name,
                 .seen = print_shape(call.operands[1].shape),
                 .expected = fmt::format("{}, as x", print_shape(call.shape()))});
  return call.operand(1);
}

Results attend(const OperatorCall& call) {
  const auto [shape, plan] = attention_call(call);
  Attention made = attention(plan, shape, call.x(), call.operands[1].rows, call.operands[2].rows, call.flags.threads);
  std::vector<int64_t> lse(call.shape().begin(), call.shape().end() - 1);
  return {{"out", call.shape(), std::move(made.out)}, {"lse", std::move(lse), std::move(made.lse)}};
}

OperatorTrace explain_attention(const OperatorCall& call, const PlaceInRows& at) {
  const auto [shape, plan] = attention_call(call);
  return trace_attention(plan, shape, call.x(), call.operands[1].rows, call.operands[2].rows, at[0], at[1], at[2]);
}

SoftmaxOptions softmax_options(const OperatorCall& call) {
  return {.to = format_or_none("--output-type", call.flags.output_type),
          .logarithm = call.name == "log_softmax",
          .threads = call.flags.threads};
}

/// --eps, or PyTorch's default: rms_norm takes the epsilon of the type in which it adds, float32.
float eps_of(const OperatorCall& call) {
  const float usual = call.name == "rms_norm" ? std::numeric_limits<float>::epsilon() : 1e-5F;
  return call.flags.eps.get().value_or(usual);
}

Norm norm_of(const OperatorCall& call) {
  const int threads = call.flags.threads;
  return call.name == "rms_norm" ? rms_norm(call.x(), call.operand(1), eps_of(call), threads)
                                 : layer_norm(call.x(), call.operand(1), call.operand(2), eps_of(call), threads);
}

Results normalise(const OperatorCall& call) {
  Norm made = norm_of(call);
  std::vector<int64_t> moments = call.shape();
  moments.back() = 1;
  Results results{{"out", call.shape(), std::move(made.out)}};
  if (made.mean) results.push_back({"mean", moments, std::move(*made.mean)});
  results.push_back({"rstd", moments, std::move(made.rstd)});
  return results;
}

struct ReduceCall {
  std::optional<Matrix> flat;  // all elements of x as one row, if that is reduced
  ReduceOptions options;
  std::vector<int64_t> shape;  // of the result

  const Matrix& x(const OperatorCall& call) const { return flat ? *flat : call.x(); }
};

ReduceCall reduce_call(const OperatorCall& call) {
  const std::string& dim = call.flags.dim;
  ReduceCall made{.flat = {},
                  .options = {.what = parse_row_reduction(call.name), .threads = call.flags.threads},
                  .shape = {call.shape().begin(), call.shape().end() - 1}};
  if (made.options.what == RowReduction::sum || made.options.what == RowReduction::mean)
    made.options.to = format_or_none("--output-type", call.flags.output_type);
  if (dim == "0" && call.shape().size() == 2) {
    made.options.over_rows = true, made.shape = {call.shape()[1]};
  } else if (dim == "all") {
    if (call.x().size() > static_cast<size_t>(std::numeric_limits<int>::max()))
      throw Error({.field = "--dim", .seen = "all", .expected = "at most 2^31 - 1 elements"});
    made.flat = Matrix(call.x().format(), 1, static_cast<int>(call.x().size()));
    std::ranges::copy(call.x().words(), made.flat->words().begin());
    made.shape = {};
  } else if (dim != "-1") {
    throw Error({.field = "--dim",
                 .seen = shortened(dim),
                 .expected = "-1, all, or 0 of a matrix: other axes are not measured"});
  }
  return made;
}

Results reduce_rows(const OperatorCall& call) {
  const ReduceCall made = reduce_call(call);
  return {{"out", made.shape, reduce(made.x(call), made.options)}};
}

std::vector<OperatorRow> operator_rows() {
  const auto shape_of_x = [](const OperatorCall& call) { return call.shape(); };
  std::vector<OperatorRow> rows{{"attention",
                                 {"q", "k", "v"},
                                 3,
                                 "--causal --scale --window --splits --backend",
                                 attend,
                                 shape_of_x,
                                 explain_attention,
                                 2,
                                 [](const OperatorCall& call) { return print(attention_call(call).plan); }}};
  for (const char* name : {"softmax", "log_softmax"})
    rows.push_back({name,
                    {"x"},
                    1,
                    "--output-type",
                    [](const OperatorCall& call) {
                      return Results{{"out", call.shape(), softmax(call.x(), softmax_options(call))}};
                    },
                    shape_of_x,
                    [](const OperatorCall& call, const PlaceInRows& at) {
                      return trace_softmax(call.x(), softmax_options(call), at[0], at[1]);
                    }});
  rows.push_back({"layer_norm",
                  {"x", "weight", "bias"},
                  1,
                  "--eps",
                  normalise,
                  shape_of_x,
                  [](const OperatorCall& call, const PlaceInRows& at) {
                    return trace_layer_norm(call.x(), call.operand(1), call.operand(2), eps_of(call), at[0], at[1]);
                  }});
  rows.push_back({"rms_norm",
                  {"x", "weight"},
                  1,
                  "--eps",
                  normalise,
                  shape_of_x,
                  [](const OperatorCall& call, const PlaceInRows& at) {
                    return trace_rms_norm(call.x(), call.operand(1), eps_of(call), at[0], at[1]);
                  }});
  for (const char* name : {"sum", "mean", "amax", "argmax"})
    rows.push_back({name,
                    {"x"},
                    1,
                    name[0] == 'a' ? "--dim" : "--dim --output-type",
                    reduce_rows,
                    [](const OperatorCall& call) { return reduce_call(call).shape; },
                    [](const OperatorCall& call, const PlaceInRows& at) {
                      const ReduceCall made = reduce_call(call);
                      return trace_reduce(made.x(call), made.options, at[0]);
                    },
                    0});
  for (const ElementwiseFunction& function : elementwise_functions()) {
    const auto operands =
        function.operands == 2 ? std::vector<std::string_view>{"x", "y"} : std::vector<std::string_view>{"x"};
    rows.push_back({std::string(function.name), operands, operands.size(), "",
                    [](const OperatorCall& call) {
                      return Results{{"out", call.shape(),
                                      elementwise(call.name, call.x(), other_operand(call), call.flags.threads)}};
                    },
                    shape_of_x,
                    [](const OperatorCall& call, const PlaceInRows& at) {
                      return trace_elementwise(call.name, call.x(), other_operand(call), at[0], at[1]);
                    }});
  }
  return rows;
}

const OperatorRow& operator_named(const std::vector<OperatorRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &OperatorRow::name);
  if (found != rows.end()) return *found;
  std::vector<std::string> names;
  for (const OperatorRow& row : rows) names.push_back(row.name);
  throw Error({.code = ViolationCode::unknown_name, .field = "operator", .seen = shortened(name), .legal = names});
}

/// The place of an output in the first result, as the operator counts it.
PlaceInRows place_of(const std::string& text, const std::vector<int64_t>& shape, size_t own_axes) {
  const std::string expected = fmt::format("a place in the result {}: {}", print_shape(shape),
                                           shape.empty() ? "0" : "an index for each axis, such as 0,5");
  std::vector<int64_t> at = whole_numbers("--explain", text, expected);
  if (shape.empty() && at == std::vector<int64_t>{0}) return {0};
  for (size_t axis = 0; axis < at.size() || axis < shape.size(); ++axis) {
    if (at.size() != shape.size() || at[axis] < 0 || at[axis] >= shape[axis])
      throw Error({.field = "--explain", .seen = shortened(text), .expected = expected});
  }
  PlaceInRows place(1, 0);
  for (size_t axis = 0; axis < at.size(); ++axis) {
    if (axis + own_axes >= at.size()) place.push_back(static_cast<int>(at[axis]));
    else place[0] = static_cast<int>(place[0] * shape[axis] + at[axis]);
  }
  return place;
}

void run_operator(Context& context, const OperatorFlags& flags) {
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  const std::vector<OperatorRow> rows = operator_rows();
  const OperatorRow& row = operator_named(rows, flags.name);
  constexpr std::array<FlagOfField, 4> names{
      {{"scale", "--scale"}, {"splits", "--splits"}, {"window", "--window"}, {"type", "--type"}}};
  naming_flags(names, [&] {
    const OperatorCall call{.name = row.name,
                            .flags = flags,
                            .operands = read_operands(flags.files, row.operands, row.required, flags.tensor,
                                                      format_or_none("--type", flags.type))};
    for (const OperatorTensor& tensor : call.operands) {
      if (tensor.shape.empty()) throw Error({.field = tensor.name, .seen = "[]", .expected = "one axis or more"});
    }
    const bool as_json = flags.json;
    std::optional<Report> explanation;
    if (!flags.explain.empty())
      explanation = describe(row.explain(call, place_of(flags.explain, row.shape(call), row.own_axes)));
    if (explanation && flags.out.empty() && flags.against.empty()) return show(context, *explanation, as_json);
    const Results results = row.compute(call);
    std::vector<OperatorComparison> compared;
    if (!flags.against.empty()) compared = compare_results(results, read_tensor_file(flags.against));
    const bool differs = std::ranges::any_of(compared, [](const auto& one) { return one.differing > 0; });
    Report report = describe(row.name, call.operands, results, compared, row.plan ? row.plan(call) : "");
    context.require_flags_acted();
    if (!flags.out.empty()) {
      write_tensor_file(flags.out, operator_file(row.name, results));
      report.add("written", *flags.out);
      report.add_text(fmt::format("wrote {}", *flags.out));
    }
    if (explanation) {
      report.add_text("\n" + print(*explanation));
      report.add("explanation", std::move(*explanation));
    }
    show(context, report, as_json);
    context.exit_code = differs ? exit_differs : exit_same;
  });
}

}  // namespace

void add_operator(Command& app, Context& context) {
  Command* command = app.add_command(
      "operator", "attention, softmax, norms, sums and functions of elements as PyTorch computes them, bit for bit");
  const auto flags = std::make_shared<OperatorFlags>();
  command->add_option("operator", flags->name, "attention, softmax, ...: a row of the table below")->required();
  command
      ->add_input("file", flags->files,
                  "the operands in the table's order, a file each, or one safetensors with all of them by name")
      ->required();
  command->add_option("--tensor", flags->tensor, "another name of the first operand in its file");
  command->add_option("--type", flags->type, "the type of tensors of raw codes: f16, bf16 or f32");
  command->add_option("--output-type", flags->output_type, "f32, or the type of x, the default");
  command->add_option("--eps", flags->eps,
                      "epsilon of a norm; default 1e-5; for rms_norm 2^-23, the epsilon of float32");
  command->add_option("--dim", flags->dim, "-1: the last axis; 0: the first axis of a matrix; all: all elements")
      ->capture_default_str();
  command->add_flag("--causal", flags->causal,
                    "query i sees the keys up to i + keys - queries; efficient, cudnn: up to i");
  command->add_option("--scale", flags->scale, "factor of the scores; default 1 / sqrt(head size)");
  command->add_option("--window", flags->window, "LEFT,RIGHT: keys seen before and after a query's own; -1: all");
  command->add_option("--splits", flags->splits, "parts of the keys; default: what the library chooses");
  command
      ->add_option("--backend", flags->backend,
                   "flash: FlashAttention-2; efficient: memory-efficient; cudnn, cudnn_sm80")
      ->capture_default_str();
  command->add_output("-o,--output", flags->out, "file to write: out, and lse of attention, mean and rstd of norms");
  command->add_input("--against", flags->against, "compare the result, bit for bit, with a recorded one in this file");
  command->add_option("--explain", flags->explain, "one output, step by step: its place in out, such as 0,5");
  command->add_flag("--json", flags->json, "print the result as JSON");
  add_threads(*command, flags->threads);
  std::vector<std::vector<std::string>> table{{"  operator", "operands", "flags"}};
  std::string functions, of_two;
  for (const OperatorRow& row : operator_rows()) {
    std::string operands;
    for (size_t i = 0; i < row.operands.size(); ++i)
      operands += (i == 0 ? "" : " ") +
                  (i < row.required ? std::string(row.operands[i]) : fmt::format("[{}]", row.operands[i]));
    if (row.flags.empty()) (row.required == 2 ? of_two : functions) += " " + row.name;
    else table.push_back({"  " + row.name, operands, row.flags});
  }
  command->footer(
      "Examples:\n"
      "  bitmma operator softmax x.npy -o p.safetensors\n"
      "  bitmma operator softmax x.npy --explain 0,5  # row 0, column 5\n"
      "  bitmma operator attention q.npy k.npy v.npy --causal -o out.safetensors\n"
      "  bitmma operator softmax x.npy --against p.safetensors\n"
      "  bitmma operator layer_norm x.npy weight.npy bias.npy -o norm.safetensors\n"
      "  bitmma operator silu recorded.safetensors --tensor a\n"
      "\n" +
      print_table(table) + "Functions of x:" + functions + "; of x and y:" + of_two +
      ".\n"
      "What was compared with a GPU: docs/operators.md. Exit code 1 if outputs differ from those of --against, 2 for a "
      "bad request.");
  command->callback([flags, &context] { run_operator(context, *flags); });
}

}  // namespace bitmma::cli
