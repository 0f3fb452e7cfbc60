#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "bitmma/instruction/tcgen05.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ListFlags {
  bool json = false, mnemonics = false, markdown = false;
};

std::string options_of(const LegalForm& form) {
  std::string options;
  const auto add = [&](bool has, std::string_view name) {
    if (has) options += fmt::format("{}{}", options.empty() ? "" : ", ", name);
  };
  add(form.scale, "negate");
  add(form.transpose, "transpose");
  add(form.satfinite, ".satfinite");
  add(!form.bit_operation.empty(), form.bit_operation);
  return options;
}

std::string print_markdown(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("| {} |\n", fmt::join(rows[i], " | "));
    if (i == 0) {
      text += "|";
      for (size_t j = 0; j < rows[i].size(); ++j) text += "---|";
      text += '\n';
    }
  }
  return text;
}

void run_list(Context& context, const ListFlags& flags) {
  std::ostream& out = context.terminal.out;
  if (flags.mnemonics) {
    for (const Instruction& instruction : all_legal_instructions()) out << print(instruction) << '\n';
    return;
  }
  Json json = Json::array();
  std::vector<std::vector<std::string>> table{{"instruction", "D", "A", "B", "K", "K .sp", "N", "options", "arithmetic", "evidence"}};
  for (const LegalForm& form : legal_forms()) {
    const AccumulatorModel& model = *find_accumulator_model(form.family, form.a, form.b, form.d);
    const std::string name = fmt::format("{}.mma_async", print(form.family));
    json.push_back({{"instruction", name}, {"d", info(form.d).name}, {"a", info(form.a).name}, {"b", info(form.b).name}, {"m", form.m},
                    {"k", form.k_dense}, {"k_sparse", form.k_sparse ? Json(form.k_sparse) : Json()}, {"n", print(form.n)},
                    {"options", options_of(form)}, {"arithmetic", print_rule(model)}, {"evidence", print(model.evidence)},
                    {"evidence_source", model.source}, {"legality_source", form.source}});
    table.push_back({name, std::string(info(form.d).name), std::string(info(form.a).name), std::string(info(form.b).name),
                     std::to_string(form.k_dense), form.k_sparse ? std::to_string(form.k_sparse) : "-", std::string(print(form.n)),
                     options_of(form), print_rule(model), std::string(print(model.evidence))});
  }
  // tcgen05 has one mnemonic for many types; a row per accumulator. M and N go by form, not by type.
  for (const AccumulatorModel& model : accumulator_models()) {
    if (model.family != Family::tcgen05) continue;
    std::string inputs;
    MmaKind kind = MmaKind::f8f6f4;
    int k = 32;
    for (const FormatInfo& format : formats) {
      if (!model.inputs.contains(format.id)) continue;
      inputs += fmt::format("{}{}", inputs.empty() ? "" : " ", format.name);
      if (format.kind == NumberKind::integer) kind = MmaKind::i8;
      else if (format.bits == 16) kind = MmaKind::f16, k = 16;
      else if (format.id == Format::tf32) kind = MmaKind::tf32, k = 8;
    }
    const std::string name = fmt::format("tcgen05.mma kind::{}", info(kind).name);
    const std::string n = kind == MmaKind::i8 ? "by form; i8 list" : "by form";
    const std::string options = kind == MmaKind::i8 ? "saturate, transpose, .ws, cta_group 1 and 2" : "negate, transpose, .ws, cta_group 1 and 2";
    json.push_back({{"instruction", name}, {"d", info(model.output).name}, {"a", inputs}, {"b", inputs}, {"m", "32, 64, 128, 256 by form"}, {"k", k}, {"k_sparse", nullptr}, {"n", n},
                    {"options", options}, {"arithmetic", print_rule(model)}, {"evidence", print(model.evidence)}, {"evidence_source", model.source},
                    {"legality_source", "PTX ISA 9.7.16.2.1, Table 39"}});
    table.push_back({name, std::string(info(model.output).name), inputs, inputs, std::to_string(k), "-", n, options, print_rule(model), std::string(print(model.evidence))});
  }
  if (flags.json) out << json.dump(2) << '\n';
  else out << (flags.markdown ? print_markdown(table) : print_table(table));
}

}  // namespace

void add_list(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("list", "legal instructions, with the evidence for their arithmetic");
  const auto flags = std::make_shared<ListFlags>();
  command->add_flag("--json", flags->json, "the table as JSON");
  command->add_flag("--markdown", flags->markdown, "the table as in README");
  command->add_flag("--mnemonics", flags->mnemonics, "every legal wgmma mnemonic, a line each");
  command->footer("Examples:\n  bitmma list\n  bitmma list --mnemonics | grep e4m3");
  command->callback([flags, &context] { run_list(context, *flags); });
}

}  // namespace bitmma::cli
