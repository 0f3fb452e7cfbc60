#include "bitmma/analysis/explain.hpp"

#include <fmt/format.h>

#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct ExplainFlags {
  std::string path;
  FileFlags file;
  int64_t index = 0;
  int row = 0, col = 0;
  bool json = false;
};

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json number_json(Format format, uint64_t code) {
  return {{"bits", print_bits(format, code)}, {"value", print_value(format, code)}};
}

Json aligned_json(const AlignedNumber& number) {
  return {{"exponent", optional_json(number.exponent)}, {"kept", number.kept}, {"bits_dropped", number.loses_bits}};
}

/// Adds what a kind of sum knows of a step to the step's JSON.
class SumJson {
 public:
  SumJson(const Explanation& explanation, const ExplainedStep& step, Json& json)
      : explanation_(explanation), step_(step), json_(json) {}

  void operator()(const SumOfProducts& sum) const {
    for (size_t i = 0; i < sum.terms.size(); ++i) {
      add_product(i);
      json_["terms"][i].update(aligned_json(sum.terms[i]));
    }
    if (step_.c_bits) json_["c"].update(aligned_json(sum.c));
    add_alignment(sum.alignment);
    json_["sum"] = sum.sum;
  }
  void operator()(const SumOfGroups& sum) const {
    for (size_t i = 0; i < step_.terms.size(); ++i) add_product(i);
    json_["groups"] = Json::array();
    for (const ExplainedGroup& group : sum.groups) {
      Json one{{"first_term", group.first_term},
               {"sum_quarters", group.sum_quarters},
               {"scale_a", print_bits(group.scales.format, group.scales.a)},
               {"scale_b", print_bits(group.scales.format, group.scales.b)}};
      one.update(aligned_json(group.aligned));
      json_["groups"].push_back(std::move(one));
    }
    if (step_.c_bits) json_["c"].update(aligned_json(sum.c));
    add_alignment(sum.alignment);
    json_["sum"] = sum.sum;
  }
  void operator()(const SumOfIntegers& sum) const {
    for (size_t i = 0; i < sum.products.size(); ++i) {
      json_["terms"][i].update(Json{{"kept", sum.products[i]}, {"bits_dropped", false}});
    }
    if (step_.c_bits) json_["c"].update(aligned_json({.kept = sum.c}));
    json_["sum"] = sum.sum;
  }
  void operator()(const IeeeOperation& operation) const {
    json_["operation"] = operation.what;
    if (operation.other) json_["other"] = number_json(step_.c_format, *operation.other);
  }
  void operator()(const SpecialResult& special) const {
    for (Json& term : json_["terms"]) term.update(aligned_json({}));
    if (step_.c_bits) json_["c"].update(aligned_json({}));
    json_["special"] = print_value(explanation_.d_format, special.code);
  }

 private:
  void add_product(size_t i) const {
    const Exact& product = step_.terms[i].product;
    json_["terms"][i]["product"] = {
        {"negative", product.negative}, {"magnitude", product.magnitude}, {"exponent", product.exponent}};
  }
  void add_alignment(const Alignment& alignment) const {
    json_["max_exponent"] = alignment.max_exponent;
    json_["max_exponent_by"] = alignment.by;
    json_["quantum_exponent"] = alignment.quantum;
  }

  const Explanation& explanation_;
  const ExplainedStep& step_;
  Json& json_;
};

Json step_json(const Explanation& e, const ExplainedStep& step) {
  Json terms = Json::array();
  for (const ExplainedTerm& term : step.terms) {
    Json one{{"k", term.k},
             {"a", print_bits(e.a, term.a_bits)},
             {"a_value", print_value(e.a, term.a_bits)},
             {"b", print_bits(e.b, term.b_bits)},
             {"b_value", print_value(e.b, term.b_bits)}};
    if (term.a_place) one["a_place"] = to_json(*term.a_place);
    if (term.b_place) one["b_place"] = to_json(*term.b_place);
    if (term.b_high_place) one["b_high_place"] = to_json(*term.b_high_place);
    terms.push_back(std::move(one));
  }
  Json json{{"terms", terms}};
  if (step.c_bits) {
    json["c"] = number_json(step.c_format, *step.c_bits);
    if (step.c_place) json["c"]["place"] = to_json(*step.c_place);
  }
  json["special"] = Json();
  std::visit(SumJson(e, step, json), step.sum);
  return json;
}

Json explanation_json(const Explanation& e, Target target) {
  Json json{{"instruction", e.instruction}, {"target", print(target)}, {"row", e.row}, {"col", e.col}, {"rule", e.rule},
            {"evidence", print(e.evidence)}};
  if (e.scales) {
    json["scale_a"] = print_bits(e.scales->format, e.scales->a);
    json["scale_b"] = print_bits(e.scales->format, e.scales->b);
  }
  if (e.steps.size() == 1) {
    json.update(step_json(e, e.steps.front()));
  } else {
    json["steps"] = Json::array();
    for (const ExplainedStep& step : e.steps) {
      json["steps"].push_back(step_json(e, step));
      json["steps"].back()["d"] = number_json(step.d_format, step.d);
    }
  }
  if (e.exact) {
    json["exact"] = e.exact->text;
    json["exact_value"] = e.exact->value;
    json["error_ulp"] = optional_json(e.exact->error_ulp);
  }
  json["d"] = number_json(e.d_format, e.d);
  if (e.recorded_d) json["recorded_d"] = number_json(e.d_format, *e.recorded_d);
  json["alternatives"] = Json::array();
  for (const Alternative& other : e.alternatives) {
    json["alternatives"].push_back({{"name", other.name},
                                    {"bits", print_bits(e.d_format, other.d)},
                                    {"value", print_value(e.d_format, other.d)},
                                    {"same", other.same},
                                    {"error_ulp", optional_json(other.error_ulp)}});
  }
  return json;
}

void run_explain(Context& context, const ExplainFlags& flags) {
  const VectorFile vectors = flags.file.read(flags.path);
  require_mma(vectors.instruction, "it moves bits and computes nothing; bitmma layout ldst shows where");
  require_case(vectors, flags.index);
  const Case one = case_at(vectors, flags.index);
  const Explanation e = naming_flag("row, col", "--row, --col", [&] { return explain(one, flags.row, flags.col); });
  if (flags.json) context.terminal.out << explanation_json(e, one.target).dump(2) << '\n';
  else context.terminal.out << fmt::format("target: {}\n", print(one.target)) << print(e);
  context.exit_code = !e.recorded_d || *e.recorded_d == e.d ? exit_same : exit_differs;
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "explain", "one output, term by term: addresses, values, bits kept and dropped, rounding, alternatives");
  const auto flags = std::make_shared<ExplainFlags>();
  command->add_option("file", flags->path, "vector file")->required();
  flags->file.add(*command);
  command->add_option("--case", flags->index, "case")->capture_default_str();
  command->add_option("--row", flags->row, "row of D")->capture_default_str();
  command->add_option("--col", flags->col, "column of D")->capture_default_str();
  command->add_flag("--json", flags->json, "the explanation as JSON");
  command->footer(
      "Example:\n  bitmma explain cases.safetensors --case 3 --row 17 --col 5\nExit code 1 when the file records "
      "another D.");
  command->callback([flags, &context] { run_explain(context, *flags); });
}

}  // namespace bitmma::cli
