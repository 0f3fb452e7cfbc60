#include "bitmma/analysis/report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bitmma/descriptor/zero_column_mask.hpp"

namespace bitmma {
namespace {

using Json = nlohmann::ordered_json;

/// Texts may come from anywhere; bytes that are not UTF-8 become U+FFFD.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

struct PlaceJson {
  Json operator()(const SmemRead& read) const {
    return {{"cta", read.cta}, {"unswizzled_byte", read.linear}, {"byte", read.place.byte}, {"bit", read.place.bit}};
  }
  Json operator()(const RegisterPlace& place) const {
    return {{"thread", place.thread}, {"register", place.reg}, {"bit", place.bit}};
  }
  Json operator()(const TmemPlace& place) const {
    return {{"cta", place.cta}, {"lane", place.lane}, {"column", place.column}, {"bit", place.bit}};
  }
};

Json to_json(const Place& place) { return std::visit(PlaceJson{}, place); }

Json to_json(const std::vector<Violation>& violations) {
  Json json = Json::array();
  for (const Violation& one : violations) {
    json.push_back({{"field", one.field},
                    {"seen", one.seen},
                    {"legal", expected_of(one)},
                    {"fix", one.fix},
                    {"source", one.source},
                    {"severity", one.severity == Severity::error ? "error" : "warning"}});
  }
  return json;
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json number_json(Format format, uint64_t code) {
  return {{"bits", print_bits(format, code)}, {"value", print_value(format, code)}};
}

Json aligned_json(const AlignedNumber& number) {
  return {{"exponent", optional_json(number.exponent)},
          {"kept", number.kept},
          {"bits_dropped", number.loses_bits},
          {"dropped", number.dropped}};
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
      json_["terms"][i].update(Json{{"kept", sum.products[i]}, {"bits_dropped", false}, {"dropped", 0.0}});
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
    // Where bits are ignored, those that are computed with.
    if (info(e.a).ignored_bits > 0) one["a_used"] = print_bits(e.a, used_bits(e.a, term.a_bits));
    if (info(e.b).ignored_bits > 0) one["b_used"] = print_bits(e.b, used_bits(e.b, term.b_bits));
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
  if (step.loss) {
    json["dropped"] = {{"by_aligning", step.loss->aligning},
                       {"by_aligning_ulp", optional_json(step.loss->aligning_ulp)},
                       {"by_rounding_ulp", optional_json(step.loss->rounding_ulp)}};
  }
  return json;
}

Json to_json(const Explanation& e, Target target) {
  Json json{{"instruction", e.instruction},
            {"target", print(target)},
            {"row", e.row},
            {"col", e.col},
            {"rule", e.rule},
            {"evidence", print(e.evidence, e.target)}};
  if (e.scales.size() == 1) {
    const ExplainedScales& scales = e.scales.front().scales;
    json["scale_a"] = print_bits(scales.format, scales.a);
    json["scale_b"] = print_bits(scales.format, scales.b);
  } else if (!e.scales.empty()) {
    json["scales"] = Json::array();
    for (const auto& [first_k, last_k, scales] : e.scales) {
      json["scales"].push_back({{"first_k", first_k},
                                {"last_k", last_k},
                                {"scale_a", print_bits(scales.format, scales.a)},
                                {"scale_b", print_bits(scales.format, scales.b)}});
    }
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

/// The raw numbers of a word's fields.
template <typename Rows>
Json fields_json(const Rows& rows, uint64_t word) {
  Json json = Json::object();
  for (const auto& row : rows) json[std::string(row.bits.name)] = extract(word, row.bits);
  return json;
}

}  // namespace

std::string report(const std::vector<Violation>& violations) { return text_of(to_json(violations)); }
std::string report(const Place& place) { return text_of(to_json(place)); }
std::string report(const Explanation& explanation, Target target) { return text_of(to_json(explanation, target)); }

std::string report_smem_descriptor(Target target, uint64_t word, std::optional<Major> major) {
  const SmemDescriptor descriptor = decode_smem_descriptor(target, word);
  Json fields = Json::object();
  for (const DescriptorField& field : smem_descriptor_fields(target)) {
    const uint64_t raw = extract(word, field.bits);
    fields[std::string(field.bits.name)] = field.unit == DescriptorField::Unit::bytes_16 ? raw * 16 : raw;
  }
  return Json{{"descriptor", fmt::format("{:#018x}", word)},
              {"target", print(target)},
              {"arch", print(target)},
              {"fields", fields},
              {"swizzle_mode", info(descriptor.swizzle).name},
              {"warnings", to_json(as_warnings(warnings(descriptor, major)))}}
      .dump();
}

std::string report_instruction_descriptor(MmaKind kind, uint32_t word) {
  const InstructionDescriptor descriptor = decode_instruction_descriptor(kind, word);
  Json json{{"idesc", fmt::format("{:#010x}", word)},
            {"kind", info(kind).name},
            {"m", descriptor.m},
            {"n", descriptor.n},
            {"d", info(descriptor.d).name},
            {"a", info(descriptor.a).name},
            {"b", info(descriptor.b).name}};
  if (info(kind).has_block_scales) json["scale_type"] = info(descriptor.scale_type).name;
  json["fields"] = fields_json(instruction_descriptor_fields(kind), word);
  json["warnings"] = to_json(as_warnings(warnings(descriptor)));
  return text_of(json);
}

std::string report_zero_column_mask(uint64_t word, int m, int n) {
  const ZeroColumnMask mask = decode_zero_column_mask(word);
  std::string columns;
  for (const bool zeroed : zeroed_columns(mask, m, n)) columns += zeroed ? '1' : '0';
  return Json{{"zero_column_mask", fmt::format("{:#018x}", word)},
              {"m", m},
              {"n", n},
              {"fields", fields_json(zero_column_mask_fields(), word)},
              {"columns", columns}}
      .dump();
}

}  // namespace bitmma
