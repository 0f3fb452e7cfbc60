// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
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

/// A row of the form table with the evidence for its arithmetic on each of its targets.
struct ListedForm {
  const Form* form = nullptr;
  const AccumulatorModel* model = nullptr;  // nullptr: the form moves data
  std::optional<Instruction> example = {};
  FormOn on = {};                    // the part of the form that these targets support
  std::vector<Target> targets = {};  // the requested targets
  std::map<Target, std::vector<FormEvidence>> evidence = {};

  int k() const { return on.dense ? form->k_dense : 0; }
  int k_sparse() const { return on.sparse ? form->k_sparse : 0; }
};

/// Every form, or those of one target. A form has a line for each rule by which its
/// targets add, and for each part of it that they support. Throws Error if the target has
/// no form.
std::vector<ListedForm> listed_forms(const std::optional<Target>& asked) {
  std::vector<ListedForm> listed;
  TargetSet known;
  for (const Form& form : forms()) {
    known = known | form.targets;
    if (asked && !form.targets.contains(*asked)) continue;
    const Instruction example = instructions_of(form).front();
    const size_t first = listed.size();
    const std::map<Target, std::vector<FormEvidence>> evidence = evidence_of(form);
    const auto on = form_on_targets(form);
    for (const TargetInfo& target : targets) {
      if (!form.targets.contains(target.id) || (asked && target.id != *asked)) continue;
      const FormOn& here = on[static_cast<size_t>(target.id)];
      const AccumulatorModel* model = is_mma(example) ? &model_for(example, target.id) : nullptr;
      auto row = std::find_if(
          listed.begin() + static_cast<std::ptrdiff_t>(first), listed.end(),
          [&](const ListedForm& listed_form) { return listed_form.model == model && listed_form.on == here; });
      if (row == listed.end())
        row = listed.insert(listed.end(),
                            {.form = &form, .model = model, .example = example, .on = here, .evidence = evidence});
      row->targets.push_back(target.id);
    }
  }
  if (!listed.empty()) return listed;
  throw Error({.field = "--target", .seen = std::string(print(*asked)), .expected = print(known)});
}

std::string print_formats(const ListedForm& row, const FormatSet& set) {
  const std::string names = fmt::format("{}", fmt::join(row_names(rows_of(set)), " "));
  return row.model && !names.empty() ? names : "-";
}

std::string print_k(int k) { return k == 0 ? "-" : std::to_string(k); }

/// "published model; published hardware words for e4m3 x e4m3, e5m2 x e5m2": the most common level comes first.
std::string evidence_on(const ListedForm& row, Target target) {
  if (row.evidence.empty()) return print_evidence(*row.example, target);
  const std::vector<FormEvidence>& levels = row.evidence.at(target);
  std::string text = print(levels.back().level, target);
  for (const FormEvidence& evidence : levels) {
    if (!evidence.of.empty())
      text += fmt::format("; {} for {}", print(evidence.level, target), fmt::join(evidence.of, ", "));
  }
  return text;
}

/// The weakest level among the plain instructions of the row: it holds for all of them.
std::string least_evidence_on(const ListedForm& row, Target target) {
  if (row.evidence.empty()) return print_evidence(*row.example, target);
  std::vector<FormEvidence> levels = row.evidence.at(target);
  if (levels.back().is_plain) std::erase_if(levels, [](const FormEvidence& evidence) { return !evidence.is_plain; });
  return print(std::ranges::max(levels, {}, &FormEvidence::level).level, target);
}

Report describe_evidence(const ListedForm& row, Target target) {
  Report list = Report::list();
  for (const FormEvidence& evidence : row.evidence.at(target)) {
    list.append({{"level", print(evidence.level, target)},
                 {"meaning", info(evidence.level).meaning},
                 {"of", evidence.of.empty() ? Report("all others") : Report(evidence.of)}});
  }
  return list;
}

/// The evidence on the targets, grouped by level: "words on sm_100; model choice on sm_103a".
std::string evidence_on_all(const ListedForm& row) {
  std::vector<std::pair<std::string, std::vector<std::string_view>>> levels;
  for (const Target target : row.targets) {
    const std::string evidence = evidence_on(row, target);
    const auto known = std::ranges::find(levels, evidence, [](const auto& one) { return one.first; });
    if (known == levels.end()) levels.push_back({evidence, {print(target)}});
    else known->second.push_back(print(target));
  }
  if (levels.size() == 1) return levels.front().first;
  std::vector<std::string> parts;
  for (const auto& [evidence, names] : levels)
    parts.push_back(fmt::format("on {}: {}", fmt::join(names, ", "), evidence));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string print_targets(const ListedForm& row) {
  std::vector<std::string_view> names;
  for (const Target target : row.targets) names.push_back(print(target));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The only M, or "32, 64, 128, 256 by shape"; null for moves.
Report m_of(const Form& form) {
  std::set<int> all;
  for (const LegalShape& shape : form.shapes) all.insert(shape.m.begin(), shape.m.end());
  all.erase(0);
  if (all.empty()) return {};
  return all.size() == 1 ? Report(*all.begin()) : Report(fmt::format("{} by shape", fmt::join(all, ", ")));
}

Report number_or_null(int number) { return number == 0 ? Report() : Report(number); }

/// The scale-vector sizes as written, each with its types; null without scales.
Report scales_of(const ListedForm& row) {
  if (row.on.scales.empty()) return {};
  Report list = Report::list();
  for (const LegalScales& scales : row.on.scales) {
    Report types = Report::list();
    for (const FormatInfo& format : formats) {
      if (scales.types.contains(format.id)) types.append(format.name);
    }
    list.append({{"size", print(scales.scale_vec)}, {"types", types}});
  }
  return list;
}

Report describe_form(const ListedForm& row) {
  const Form& form = *row.form;
  Report targets = Report::list(), evidence = Report::object(), details = Report::object();
  for (const Target target : row.targets) {
    targets.append(print(target));
    evidence.add(std::string(print(target)), least_evidence_on(row, target));
    if (row.model) details.add(std::string(print(target)), describe_evidence(row, target));
  }
  return {{"instruction", form.name},
          {"targets", targets},
          {"d", row.model ? info(form.d).name : "-"},
          {"a", print_formats(row, form.a)},
          {"b", print_formats(row, form.b)},
          {"m", m_of(form)},
          {"k", number_or_null(row.k())},
          {"k_sparse", number_or_null(row.k_sparse())},
          {"n", print_n(form)},
          {"scales", scales_of(row)},
          {"options", print_options(form, row.on)},
          {"arithmetic", row.model ? print_rule(*row.model) : "-"},
          {"evidence", least_evidence_on(row, row.targets.front())},
          {"evidence_by_target", evidence},
          {"evidence_of", details},
          {"evidence_source", row.model ? evidence_source(*row.example, row.targets.front()) : form.source},
          {"legality_source", form.source}};
}

std::vector<std::string> form_line(const ListedForm& row) {
  const Form& form = *row.form;
  return {std::string(form.name),
          print_targets(row),
          row.model ? std::string(info(form.d).name) : "-",
          print_formats(row, form.a),
          print_formats(row, form.b),
          print_k(row.k()),
          print_k(row.k_sparse()),
          print_n(form),
          print_options(form, row.on),
          row.model ? print_rule(*row.model) : "-",
          evidence_on_all(row)};
}

/// Wraps `text` at 80 columns; the first line starts `first` columns to the right, the others further.
std::string folded(std::string_view text, size_t first) {
  constexpr size_t width = 80, further = 4;
  std::string lines, line(first, ' ');
  bool is_empty = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!is_empty && line.size() + 1 + word.size() > width) {
      lines += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
      line = std::string(first + further, ' ');
    } else if (!is_empty) {
      line += ' ';
    }
    line += word;
    is_empty = false;
  }
  return lines + line + '\n';
}

/// A form in a few lines of 80 columns: name, targets and rule of addition.
std::string print_folded(const ListedForm& row) {
  constexpr size_t indent = 4;
  const Form& form = *row.form;
  std::string text(form.name);
  if (row.model) {
    text += fmt::format("   D {}   A {}   B {}   K {}", info(form.d).name, print_formats(row, form.a),
                        print_formats(row, form.b), print_k(row.k()));
    if (row.k_sparse() != 0) text += fmt::format(" (.sp {})", row.k_sparse());
  }
  const std::string options = print_options(form, row.on), n = row.model ? fmt::format("N {}; ", print_n(form)) : "";
  const std::string rule = row.model ? print_rule(*row.model) + "; " : "";
  return folded(text, 0) + folded("target " + print_targets(row), indent) +
         folded(n + (options.empty() ? "no options" : options), indent) + folded(rule + evidence_on_all(row), indent);
}

std::string print_markdown(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("| {} |\n", fmt::join(rows[i], " | "));
    if (i > 0) continue;
    text += "|";
    for (size_t j = 0; j < rows[i].size(); ++j) text += "---|";
    text += '\n';
  }
  return text;
}

/// A character that stands for levels of evidence, and its meaning.
struct Sureness {
  std::string_view symbol, meaning;
  std::vector<Evidence> levels;
};
const std::array<Sureness, 4> surenesses{{
    {"●", "measured for this project, bit for bit", {Evidence::measured}},
    {"◐",
     "agrees with results that others measured",
     {Evidence::published_words, Evidence::measured_by_others, Evidence::consistent_words}},
    {"○", "as a published model or the PTX ISA states", {Evidence::published_model}},
    {"?", "assumed, because no source decides it", {Evidence::model_choice}},
}};

/// The levels of the row's instructions on the target. The PTX ISA documents moves.
std::set<Evidence> levels_on(const ListedForm& row, Target target) {
  std::set<Evidence> levels;
  if (row.model) {
    for (const FormEvidence& evidence : row.evidence.at(target)) levels.insert(evidence.level);
  } else {
    const bool decides = std::ranges::any_of(choices_of(*row.example, target), is_arithmetic);
    levels.insert(decides ? Evidence::model_choice : Evidence::published_model);
  }
  return levels;
}

/// Merges rows that differ only in their first cell.
std::vector<std::vector<std::string>> joined(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> all;
  for (const auto& row : rows) {
    const auto same = std::ranges::find_if(
        all, [&](const auto& one) { return std::equal(one.begin() + 1, one.end(), row.begin() + 1, row.end()); });
    if (same == all.end()) all.push_back(row);
    else same->front() += ", " + row.front();
  }
  return all;
}

std::vector<std::vector<std::string>> transposed(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> columns(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) columns[i].push_back(row[i]);
  }
  return columns;
}

/// A row per GPU, a column per instruction, with the evidence of the results: equal GPUs and equal instructions share a
/// row or column.
std::vector<std::vector<std::string>> matrix_of(const std::vector<ListedForm>& listed) {
  std::vector<std::string> instructions;
  std::map<Target, std::map<std::string, std::set<Evidence>>> levels;  // by chip
  for (const ListedForm& row : listed) {
    const std::string family(row.form->name.substr(0, row.form->name.find(' ')));
    if (std::ranges::find(instructions, family) == instructions.end()) instructions.push_back(family);
    for (const Target target : row.targets) levels[info(target).chip][family].merge(levels_on(row, target));
  }
  std::vector<std::vector<std::string>> table{{"GPU"}};
  table.front().insert(table.front().end(), instructions.begin(), instructions.end());
  for (const auto& [chip, of_family] : levels) {
    const std::string_view gpu = info(chip).gpu;
    std::vector<std::string>& line = table.emplace_back();
    line.emplace_back(gpu.empty() ? print(chip) : gpu);
    for (const std::string& family : instructions) {
      const auto found = of_family.find(family);
      std::string& cell = line.emplace_back();
      for (const Sureness& sureness : surenesses) {
        if (found != of_family.end() &&
            std::ranges::any_of(sureness.levels, [&](Evidence level) { return found->second.contains(level); }))
          cell += sureness.symbol;
      }
    }
  }
  return transposed(joined(transposed(joined(table))));
}

std::string meaning_of_symbols() {
  std::vector<std::string> parts;
  for (const Sureness& sureness : surenesses) parts.push_back(fmt::format("{} {}", sureness.symbol, sureness.meaning));
  return fmt::format("{}; empty: the GPU has no such instruction. Several symbols: it depends on the types.\n",
                     fmt::join(parts, "; "));
}

/// True if every word is part of the name, or one of the others.
bool has_words(const std::vector<std::string>& words, std::string_view name, const std::set<std::string_view>& others) {
  return std::ranges::all_of(words, [&](const std::string& word) {
    return name.find(word) != std::string_view::npos || others.contains(word);
  });
}

bool has_words(const std::vector<std::string>& words, const ListedForm& row) {
  std::set<std::string_view> others{print(row.form->family)};
  for (const Target target : row.targets) others.insert(print(target));
  for (const FormatInfo& format : formats) {
    const Form& form = *row.form;
    if (row.model && (format.id == form.d || form.a.contains(format.id) || form.b.contains(format.id)))
      others.insert(format.name);
  }
  return has_words(words, row.form->name, others);
}

/// Throws Error if no row contains the words.
void require_found(const ListFlags& flags, bool found) {
  if (found) return;
  throw Error({.field = "words",
               .seen = fmt::format("{}", fmt::join(flags.words.get(), " ")),
               .expected = "parts of a name, types, targets or a family that occur together in a row",
               .fix = "bitmma list shows all rows"});
}

void list_mnemonics(const Context& context, const std::optional<Target>& asked, const ListFlags& flags) {
  Report list = Report::list();
  bool found = false;
  for (const Instruction& instruction : all_instructions()) {
    if (asked && !targets_of(instruction).contains(*asked)) continue;
    const std::string mnemonic = print(instruction);
    std::set<std::string_view> others{print(family_of(instruction))};
    for (const TargetInfo& row : targets) {
      if (targets_of(instruction).contains(row.id)) others.insert(row.name);
    }
    if (!has_words(flags.words, mnemonic, others)) continue;
    found = true;
    list.append(mnemonic).add_text(mnemonic);
  }
  require_found(flags, found);
  show(context, list, flags.json);
}

/// Throws Error for flags that request different outputs.
void require_one_output(const ListFlags& flags) {
  const auto refuse = [](const char* one, const char* other) {
    throw Error({.code = ViolationCode::not_together, .field = one, .seen = other});
  };
  if (flags.markdown && flags.json) refuse("--markdown", "--json");
  if (flags.markdown && flags.mnemonics) refuse("--markdown", "--mnemonics");
  if (flags.markdown && flags.wide) refuse("--markdown", "--wide");
  if (flags.matrix && flags.json) refuse("--matrix", "--json");
  if (flags.matrix && flags.mnemonics) refuse("--matrix", "--mnemonics");
  if (flags.matrix && flags.wide) refuse("--matrix", "--wide");
  if (flags.wide && flags.json) refuse("--wide", "--json");
  if (flags.wide && flags.mnemonics) refuse("--wide", "--mnemonics");
}

/// Lists the quantiser recipes that contain all words after the first.
void show_recipes(const Context& context, const ListFlags& flags) {
  const std::vector<std::string> words(flags.words.begin() + 1, flags.words.end());
  const Report recipes = list_recipes(
      [&](std::string_view name, const std::set<std::string_view>& others) { return has_words(words, name, others); });
  require_found(flags, !std::get<Report::List>(recipes.value).empty());
  show(context, recipes, flags.json);
}

void run_list(Context& context, const ListFlags& flags) {
  if (!flags.words.empty() && flags.words->front() == "recipes") return show_recipes(context, flags);
  require_one_output(flags);
  const std::optional<Target> asked = flags.target.asked();
  std::vector<ListedForm> listed = listed_forms(asked);
  if (flags.mnemonics) {
    list_mnemonics(context, asked, flags);
    return;
  }
  std::erase_if(listed, [&](const ListedForm& row) { return !has_words(flags.words, row); });
  require_found(flags, !listed.empty());
  if (flags.json) {
    Report list = Report::list();
    for (const ListedForm& row : listed) list.append(describe_form(row));
    show(context, list, true);
    return;
  }
  if (flags.matrix) {
    const std::vector<std::vector<std::string>> matrix = matrix_of(listed);
    context.out() << (flags.markdown ? print_markdown(matrix) : print_table(matrix)) << '\n' << meaning_of_symbols();
    return;
  }
  if (!flags.wide && !flags.markdown) {
    for (const ListedForm& row : listed) context.out() << print_folded(row);
    return;
  }
  std::vector<std::vector<std::string>> table{
      {"instruction", "target", "D", "A", "B", "K", "K .sp", "N", "options", "arithmetic", "evidence"}};
  for (const ListedForm& row : listed) table.push_back(form_line(row));
  context.out() << (flags.markdown ? print_markdown(table) : print_table(table));
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
      "list", "list the legal instructions with the evidence for their arithmetic, or the recipes of quantisers");
  const auto flags = std::make_shared<ListFlags>();
  command->add_option("words", flags->words,
                      "show only rows with all these words: a part of the name, a type, a target or a family; "
                      "`recipes` lists the recipes of quantisers");
  flags->target.add(*command, "show only instructions of this GPU, by its PTX name");
  command->add_flag("--json", flags->json, "print the table as JSON; with --mnemonics, the names");
  command->add_flag("--markdown", flags->markdown, "print the table in Markdown, as in docs/instructions.md");
  command->add_flag("--matrix", flags->matrix, "show the evidence for each instruction on each GPU, one row per GPU");
  command->add_flag("--wide", flags->wide, "print every row of the table on one line, about 270 columns wide");
  command->add_flag("--mnemonics", flags->mnemonics, "print every legal mnemonic, one per line");
  command->footer(
      "Examples:\n  bitmma list\n  bitmma list wgmma e4m3\n  bitmma list --target sm_103a\n  bitmma list --matrix\n  "
      "bitmma list recipes nvfp4\n  bitmma list --wide | less "
      "-S\n  bitmma list "
      "--mnemonics | grep e4m3\n" +
      meaning_of_rule + meaning_of_levels());
  command->callback([flags, &context] { run_list(context, *flags); });
}

}  // namespace bitmma::cli
