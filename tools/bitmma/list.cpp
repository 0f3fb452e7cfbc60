// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "bitmma/analysis/list_forms.hpp"
#include "bitmma/files/dataset.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "parts.hpp"

namespace bitmma::cli {
namespace {

struct ListFlags {
  TargetFlag target;
  Flag<std::vector<std::string>> words;
  Flag<bool> json = false, mnemonics = false, markdown = false, wide = false, matrix = false;
};

/// Throws Error for flags that request different outputs.
void require_one_output(const ListFlags& flags) {
  const auto require_alone = [](const Flag<bool>& flag, const char* name,
                                std::initializer_list<std::pair<const char*, const Flag<bool>*>> others) {
    if (!flag) return;
    for (const auto& [other_name, other] : others) {
      if (*other) throw Error({.code = ViolationCode::not_together, .field = name, .seen = other_name});
    }
  };
  const std::pair json("--json", &flags.json), mnemonics("--mnemonics", &flags.mnemonics), wide("--wide", &flags.wide);
  require_alone(flags.markdown, "--markdown", {json, mnemonics, wide});
  require_alone(flags.matrix, "--matrix", {json, mnemonics, wide});
  require_alone(flags.wide, "--wide", {json, mnemonics});
}

/// Lists the quantiser recipes that contain all words after the first.
void show_recipes(const Context& context, const ListFlags& flags) {
  const std::vector<std::string> words(flags.words.begin() + 1, flags.words.end());
  const Report recipes = list_recipes(
      [&](std::string_view name, const std::set<std::string_view>& others) { return has_words(words, name, others); });
  require_listed(flags.words, !std::get<Report::List>(recipes.value).empty());
  show(context, recipes, flags.json);
}

/// Lists the datasets whose name, kind or description contains all words after the first.
void show_datasets(const Context& context, const ListFlags& flags) {
  const std::vector<std::string> words(flags.words.begin() + 1, flags.words.end());
  Report list = Report::list();
  bool is_any = false;
  for (const Dataset& row : datasets()) {
    const std::string text = fmt::format("{} {} {} {}", row.name, row.kind, row.about, row.source);
    if (!std::ranges::all_of(words, [&](const std::string& word) { return text.find(word) != std::string::npos; }))
      continue;
    is_any = true;
    list.append({{"name", row.name}, {"kind", row.kind}, {"about", row.about}, {"source", row.source}})
        .add_text(fmt::format("{}{}: {}\n", dataset_prefix, row.name, row.kind) + folded(row.about, 4) +
                  folded(row.source, 4));
  }
  require_listed(flags.words, is_any);
  show(context, list, flags.json);
}

void run_list(Context& context, const ListFlags& flags) {
  if (!flags.words.empty() && flags.words->front() == "datasets") return show_datasets(context, flags);
  if (!flags.words.empty() && flags.words->front() == "recipes") return show_recipes(context, flags);
  require_one_output(flags);
  const ListRequest request{.target = flags.target.requested(), .words = flags.words};
  if (flags.mnemonics) {
    Report list = Report::list();
    for (const std::string& mnemonic : naming_flag("target", "--target", [&] { return list_mnemonics(request); }))
      list.append(mnemonic).add_text(mnemonic);
    return show(context, list, flags.json);
  }
  const std::vector<ListedForm> forms = naming_flag("target", "--target", [&] { return list_of(request); });
  const auto print_rows = [&](const std::vector<std::vector<std::string>>& rows) {
    return flags.markdown ? print_markdown(rows) : print_table(rows);
  };
  if (flags.json) return show(context, describe(forms), true);
  if (flags.matrix) {
    const std::string matrix = print_rows(evidence_matrix_of(forms));
    context.out() << matrix << '\n' << meaning_of_evidence_matrix();
  } else if (flags.wide || flags.markdown) {
    const std::string table = print_rows(table_of(forms));
    context.out() << table;
  } else {
    context.out() << print_folded(forms);
  }
}

/// The levels of evidence, one sentence each.
std::string meaning_of_levels() {
  std::string text = "Levels of evidence, strongest first:\n";
  for (const EvidenceInfo& level : evidence_levels) text += folded(fmt::format("{}: {}", level.name, level.meaning), 2);
  return text;
}

}  // namespace

void add_list(Command& app, Context& context) {
  Command* command = app.add_command(
      "list", "list the legal instructions with the evidence for their arithmetic, recipes of quantisers, or datasets");
  const auto flags = std::make_shared<ListFlags>();
  command->add_option("words", flags->words,
                      "show only rows with all these words: a part of the name, a type, a GPU or a family; "
                      "`recipes` lists the recipes of quantisers, `datasets` what dataset:NAME can be");
  flags->target.add(*command, "show only instructions of this GPU, by its PTX name");
  command->add_flag("--json", flags->json, "print the table as JSON; with --mnemonics, the names");
  command->add_flag("--markdown", flags->markdown, "print the table in Markdown, as in docs/instructions.md");
  command->add_flag("--matrix", flags->matrix, "show the evidence for each instruction on each GPU, one row per GPU");
  command->add_flag("--wide", flags->wide, "print every row of the table on one line, about 270 columns wide");
  command->add_flag("--mnemonics", flags->mnemonics, "print every legal mnemonic, one per line");
  command->footer(
      "Examples:\n  bitmma list\n  bitmma list wgmma e4m3\n  bitmma list H100 e4m3\n  bitmma list --target sm_103a\n  "
      "bitmma list --matrix\n  "
      "bitmma list recipes nvfp4\n  bitmma list datasets\n  bitmma list --wide | less "
      "-S\n  bitmma list "
      "--mnemonics | grep e4m3\n" +
      meaning_of_rule + meaning_of_levels());
  command->callback([flags, &context] { run_list(context, *flags); });
}

}  // namespace bitmma::cli
