#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/mma_sync.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "bitmma/instruction/tcgen05.hpp"
#include "bitmma/instruction/tmem_move.hpp"
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

/// What a row of accumulators is called and taken by.
struct ListedRow {
  std::string name, inputs, m, k, k_sparse, n, options;
};

ListedRow listed(const AccumulatorModel& model) {
  ListedRow row;
  bool bytes = false, half = false, word = false, integer = false;
  for (const FormatInfo& format : formats) {
    if (!model.inputs.contains(format.id)) continue;
    row.inputs += fmt::format("{}{}", row.inputs.empty() ? "" : " ", format.name);
    integer |= format.kind == NumberKind::integer, word |= format.bits == 32, half |= format.bits == 16,
        bytes |= format.bits == 8;
  }
  const bool grouped = model.scaling == Scaling::groups_of_16, scaled = model.scaling != Scaling::none,
             tcgen05 = model.family == Family::tcgen05;
  const std::string_view kind = grouped   ? "mxf4, mxf4nvf4"
                                : scaled  ? "mxf8f6f4"
                                : integer ? "i8"
                                : word    ? "tf32"
                                : half    ? "f16"
                                : bytes   ? "f8f6f4"
                                          : "";
  row.name = tcgen05 ? fmt::format("tcgen05.mma kind::{}", kind) : fmt::format("mma.sync kind::{}", kind);
  const int k = grouped ? 64 : word ? 8 : half ? 16 : 32;
  row.k = grouped && tcgen05 ? "64, 96" : std::to_string(k);
  row.k_sparse = std::to_string(2 * k);
  row.m = tcgen05 ? scaled ? "128, 256 by form" : "32, 64, 128, 256 by form" : "16";
  row.n = tcgen05 ? integer ? "by form; i8 list" : "by form" : "8";
  if (!tcgen05)
    row.options = grouped ? "2X ue8m0, 4X ue4m3" : "1X ue8m0";
  else if (scaled)
    row.options = grouped ? "negate, 2X ue8m0, 4X ue8m0 ue4m3, cta_group 1 and 2"
                          : "negate, transpose, 1X ue8m0, cta_group 1 and 2";
  else
    row.options = integer ? "saturate, transpose, .ws, cta_group 1 and 2" : "negate, transpose, .ws, cta_group 1 and 2";
  return row;
}

void run_list(Context& context, const ListFlags& flags) {
  std::ostream& out = context.terminal.out;
  if (flags.mnemonics) {
    for (const Instruction& instruction : all_legal_instructions()) out << print(instruction) << '\n';
    for (const Instruction& instruction : all_tcgen05_mnemonics()) out << print(instruction) << '\n';
    for (const Instruction& instruction : all_mma_sync_instructions()) out << print(instruction) << '\n';
    for (const TmemMove& move : all_legal_moves()) out << print(move) << '\n';
    return;
  }
  Json json = Json::array();
  std::vector<std::vector<std::string>> table{
      {"instruction", "D", "A", "B", "K", "K .sp", "N", "options", "arithmetic", "evidence"}};
  for (const LegalForm& form : legal_forms()) {
    const AccumulatorModel& model = *find_accumulator_model(form.family, form.a, form.b, form.d);
    const std::string name = fmt::format("{}.mma_async", print(form.family));
    json.push_back({{"instruction", name},
                    {"d", info(form.d).name},
                    {"a", info(form.a).name},
                    {"b", info(form.b).name},
                    {"m", form.m},
                    {"k", form.k_dense},
                    {"k_sparse", form.k_sparse ? Json(form.k_sparse) : Json()},
                    {"n", print(form.n)},
                    {"options", options_of(form)},
                    {"arithmetic", print_rule(model)},
                    {"evidence", print(model.evidence)},
                    {"evidence_source", model.source},
                    {"legality_source", form.source}});
    table.push_back({name, std::string(info(form.d).name), std::string(info(form.a).name),
                     std::string(info(form.b).name), std::to_string(form.k_dense),
                     form.k_sparse ? std::to_string(form.k_sparse) : "-", std::string(print(form.n)), options_of(form),
                     print_rule(model), std::string(print(model.evidence))});
  }
  // tcgen05 and mma.sync have one mnemonic for many types; a row per accumulator. M and N go by form, not by type.
  for (const AccumulatorModel& model : accumulator_models()) {
    if (model.family == Family::wgmma) continue;
    const ListedRow row = listed(model);
    json.push_back({{"instruction", row.name},
                    {"d", info(model.output).name},
                    {"a", row.inputs},
                    {"b", row.inputs},
                    {"m", row.m},
                    {"k", row.k},
                    {"k_sparse", row.k_sparse},
                    {"n", row.n},
                    {"options", row.options},
                    {"arithmetic", print_rule(model)},
                    {"evidence", print(model.evidence)},
                    {"evidence_source", model.source},
                    {"legality_source", model.family == Family::tcgen05 ? "PTX ISA 9.7.16.2.1, Table 39; ptxas 13.0"
                                                                        : "PTX ISA 9.7.14.3; ptxas 13.0"}});
    table.push_back({row.name, std::string(info(model.output).name), row.inputs, row.inputs, row.k, row.k_sparse, row.n,
                     row.options, print_rule(model), std::string(print(model.evidence))});
  }
  if (flags.json)
    out << json.dump(2) << '\n';
  else
    out << (flags.markdown ? print_markdown(table) : print_table(table));
}

}  // namespace

void add_list(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("list", "legal instructions, with the evidence for their arithmetic");
  const auto flags = std::make_shared<ListFlags>();
  command->add_flag("--json", flags->json, "the table as JSON");
  command->add_flag("--markdown", flags->markdown, "the table as in README");
  command->add_flag("--mnemonics", flags->mnemonics, "every legal mnemonic, a line each");
  command->footer("Examples:\n  bitmma list\n  bitmma list --mnemonics | grep e4m3");
  command->callback([flags, &context] { run_list(context, *flags); });
}

}  // namespace bitmma::cli
