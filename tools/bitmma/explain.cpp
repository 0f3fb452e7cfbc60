#include "bitmma/io/explain.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands.hpp"

namespace bitmma::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ExplainFlags {
  std::string path, instruction;
  int64_t index = 0;
  int row = 0, col = 0;
  bool json = false;
};

Json to_json(const ReadPlace& place) {
  if (place.smem)
    return {{"cta", place.smem->cta},
            {"unswizzled_byte", place.smem->linear},
            {"byte", place.smem->place.byte},
            {"bit", place.smem->place.bit}};
  if (place.reg) return {{"thread", place.reg->thread}, {"register", place.reg->reg}, {"bit", place.reg->bit}};
  return {
      {"cta", place.tmem->cta}, {"lane", place.tmem->lane}, {"column", place.tmem->column}, {"bit", place.tmem->bit}};
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const Explanation& e) {
  Json terms = Json::array();
  for (const ExplainedTerm& term : e.terms) {
    Json one{{"k", term.k},
             {"a", print_bits(e.a, term.a_bits)},
             {"a_value", print_value(e.a, term.a_bits)},
             {"b", print_bits(e.b, term.b_bits)},
             {"b_value", print_value(e.b, term.b_bits)}};
    if (term.a_place) one["a_place"] = to_json(*term.a_place);
    if (term.b_place) one["b_place"] = to_json(*term.b_place);
    if (!e.integer) {
      one["product"] = {{"negative", term.product.negative},
                        {"magnitude", term.product.magnitude},
                        {"exponent", term.product.exponent}};
      one["exponent"] = optional_json(term.exponent);
    }
    if (e.groups.empty()) one["kept"] = term.kept, one["bits_dropped"] = term.loses_bits;
    terms.push_back(std::move(one));
  }
  Json json{{"instruction", e.instruction},  {"row", e.row},  {"col", e.col}, {"rule", e.rule},
            {"evidence", print(e.evidence)}, {"terms", terms}};
  if (!e.groups.empty()) {
    json["groups"] = Json::array();
    for (const ExplainedGroup& group : e.groups) {
      json["groups"].push_back({{"first_term", group.first_term},
                                {"sum_quarters", group.sum_quarters},
                                {"scale_a", print_bits(*e.scale_type, group.scale_a)},
                                {"scale_b", print_bits(*e.scale_type, group.scale_b)},
                                {"exponent", optional_json(group.exponent)},
                                {"kept", group.kept},
                                {"bits_dropped", group.loses_bits}});
    }
  } else if (e.scale_type) {
    json["scale_a"] = print_bits(*e.scale_type, e.scale_a), json["scale_b"] = print_bits(*e.scale_type, e.scale_b);
  }
  if (e.c_bits) {
    json["c"] = {{"bits", print_bits(e.d_format, *e.c_bits)},
                 {"value", print_value(e.d_format, *e.c_bits)},
                 {"exponent", optional_json(e.c_exponent)},
                 {"kept", e.c_kept},
                 {"bits_dropped", e.c_loses_bits}};
    if (e.c_place) json["c"]["place"] = to_json(*e.c_place);
  }
  json["special"] = e.special ? Json(print_value(e.d_format, *e.special)) : Json();
  if (!e.special && !e.integer) {
    json["max_exponent"] = e.max_exponent, json["max_exponent_by"] = e.max_exponent_by,
    json["quantum_exponent"] = e.quantum;
    json["exact"] = e.exact, json["exact_value"] = e.exact_value, json["error_ulp"] = optional_json(e.error_ulp);
  }
  if (!e.special) json["sum"] = e.sum;
  json["d"] = {{"bits", print_bits(e.d_format, e.d)}, {"value", print_value(e.d_format, e.d)}};
  if (e.recorded_d)
    json["recorded_d"] = {{"bits", print_bits(e.d_format, *e.recorded_d)},
                          {"value", print_value(e.d_format, *e.recorded_d)}};
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

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "explain", "one output, term by term: addresses, values, bits kept and dropped, rounding, alternatives");
  const auto flags = std::make_shared<ExplainFlags>();
  command->add_option("file", flags->path, "vector file")->required();
  command->add_option("--instruction", flags->instruction, "the mnemonic, for files that do not say");
  command->add_option("--case", flags->index, "case")->capture_default_str();
  command->add_option("--row", flags->row, "row of D")->capture_default_str();
  command->add_option("--col", flags->col, "column of D")->capture_default_str();
  command->add_flag("--json", flags->json, "the explanation as JSON");
  command->footer(
      "Example:\n  bitmma explain cases.safetensors --case 3 --row 17 --col 5\nExit code 1 when the file records "
      "another D.");
  command->callback([flags, &context] {
    const Explanation e =
        explain(read_vector_file(flags->path, flags->instruction), flags->index, flags->row, flags->col);
    context.terminal.out << (flags->json ? to_json(e).dump(2) + "\n" : print(e));
    context.exit_code = !e.recorded_d || *e.recorded_d == e.d ? exit_same : exit_differs;
  });
}

}  // namespace bitmma::cli
