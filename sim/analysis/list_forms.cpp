// SPDX-License-Identifier: MIT
#include "bitmma/analysis/list_forms.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "bitmma/core/target_names.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma {
namespace {

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
    const auto known = std::ranges::find(levels, evidence, [](const auto& level) { return level.first; });
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

/// What JSON, the wide table and Markdown have of a form.
std::vector<ReportRow> rows_of(const ListedForm& listed) {
  const Form& form = *listed.form;
  Report targets = Report::list(), evidence = Report::object(), details = Report::object();
  for (const Target target : listed.targets) {
    targets.append(print(target));
    evidence.add(std::string(print(target)), least_evidence_on(listed, target));
    if (listed.model) details.add(std::string(print(target)), describe_evidence(listed, target));
  }
  return {
      {"instruction", "instruction", form.name},
      {"targets", "target", targets, print_targets(listed)},
      {"d", "D", listed.model ? info(form.d).name : "-"},
      {"a", "A", print_formats(listed, form.a)},
      {"b", "B", print_formats(listed, form.b)},
      {"m", "", m_of(form)},
      {"k", "K", number_or_null(listed.k()), print_k(listed.k())},
      {"k_sparse", "K .sp", number_or_null(listed.k_sparse()), print_k(listed.k_sparse())},
      {"n", "N", print_n(form)},
      {"scales", "", scales_of(listed)},
      {"options", "options", print_options(form, listed.on)},
      {"arithmetic", "arithmetic", listed.model ? print_rule(*listed.model) : "-"},
      {"evidence", "evidence", least_evidence_on(listed, listed.targets.front()), evidence_on_all(listed)},
      {"evidence_by_target", "", evidence},
      {"evidence_of", "", details},
      {"evidence_source", "", listed.model ? evidence_source(*listed.example, listed.targets.front()) : form.source},
      {"legality_source", "", form.source}};
}

ReportRows rows_of(const std::vector<ListedForm>& forms) {
  ReportRows rows;
  for (const ListedForm& form : forms) rows.push_back(rows_of(form));
  return rows;
}

/// A form in a few lines of 80 columns: name, targets and rule of addition.
std::string print_form(const ListedForm& row) {
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

/// A character that stands for levels of evidence, and its meaning.
struct Sureness {
  std::string_view word, meaning;
  std::vector<Evidence> levels;
};
const std::array<Sureness, 4> surenesses{{
    {"measured", "for this project, bit for bit", {Evidence::measured}},
    {"results",
     "agrees with results that others measured on a GPU of the same target",
     {Evidence::published_words, Evidence::measured_by_others, Evidence::consistent_words}},
    {"model", "as a published model or the PTX ISA states", {Evidence::published_model}},
    {"assumed", "because no source decides it", {Evidence::model_choice}},
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
        all, [&](const auto& other) { return std::equal(other.begin() + 1, other.end(), row.begin() + 1, row.end()); });
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

/// The words of a form that are not in its name: its family, targets and types.
std::set<std::string_view> other_words_of(const ListedForm& row) {
  std::set<std::string_view> others{print(row.form->family)};
  for (const Target target : row.targets) others.insert(print(target));
  for (const FormatInfo& format : formats) {
    const Form& form = *row.form;
    if (row.model && (format.id == form.d || form.a.contains(format.id) || form.b.contains(format.id)))
      others.insert(format.name);
  }
  return others;
}

/// Every form, or those of one target. Throws Error if the target has no form.
std::vector<ListedForm> listed_forms(const std::optional<Target>& chosen) {
  std::vector<ListedForm> listed;
  TargetSet known;
  for (const Form& form : forms()) {
    known = known | form.targets;
    if (chosen && !form.targets.contains(*chosen)) continue;
    const Instruction example = instructions_of(form).front();
    const size_t first = listed.size();
    const std::map<Target, std::vector<FormEvidence>> evidence = evidence_of(form);
    const auto on = form_on_targets(form);
    for (const TargetInfo& target : targets) {
      if (!form.targets.contains(target.id) || (chosen && target.id != *chosen)) continue;
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
  throw Error({.field = "target", .seen = std::string(print(*chosen)), .expected = print(known)});
}

/// The request with its words in small letters, and with the GPU that a word names as its target.
ListRequest resolved(ListRequest request) {
  const std::vector<ListedForm> all = listed_forms({});
  std::vector<std::string> words;
  for (std::string& word : request.words) {
    std::string small = word;
    std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool is_of_row = std::ranges::any_of(
        all, [&](const ListedForm& form) { return has_words({small}, form.form->name, other_words_of(form)); });
    const std::optional<Target> gpu = is_of_row ? std::nullopt : target_meant_by(word);
    if (!gpu) {
      words.push_back(std::move(small));
    } else if (request.target && request.target != gpu) {
      throw Error({.code = ViolationCode::contradiction,
                   .field = "words",
                   .seen = word,
                   .expected = fmt::format("{}, the requested target, or no GPU", print(*request.target))});
    } else {
      request.target = gpu;
    }
  }
  request.words = std::move(words);
  return request;
}

/// What to do where no row has the words.
std::string fix_of(const std::vector<std::string>& words) {
  const bool is_wmma =
      std::ranges::any_of(words, [](const std::string& word) { return word == "wmma" || word.starts_with("wmma."); });
  return is_wmma
             ? "nvcuda::wmma and wmma.mma are compiled to mma.sync, whose fragments PTX defines: bitmma list mma.sync"
             : "bitmma list shows all rows";
}

}  // namespace

bool has_words(const std::vector<std::string>& words, std::string_view name, const std::set<std::string_view>& others) {
  return std::ranges::all_of(words, [&](const std::string& word) {
    return name.find(word) != std::string_view::npos || others.contains(word);
  });
}

void require_listed(const std::vector<std::string>& words, bool is_any) {
  if (is_any) return;
  throw Error({.field = "words",
               .seen = fmt::format("{}", fmt::join(words, " ")),
               .expected = "words of one row: parts of its name, its types, targets or family",
               .fix = fix_of(words)});
}

std::vector<ListedForm> list_of(const ListRequest& unresolved) {
  const ListRequest request = resolved(unresolved);
  std::vector<ListedForm> listed = listed_forms(request.target);
  std::erase_if(
      listed, [&](const ListedForm& form) { return !has_words(request.words, form.form->name, other_words_of(form)); });
  require_listed(request.words, !listed.empty());
  return listed;
}

std::vector<std::string> list_mnemonics(const ListRequest& unresolved) {
  const ListRequest request = resolved(unresolved);
  listed_forms(request.target);
  std::vector<std::string> mnemonics;
  for (const Instruction& instruction : all_instructions()) {
    const TargetSet takers = targets_of(instruction);
    if (request.target && !takers.contains(*request.target)) continue;
    std::set<std::string_view> others{print(family_of(instruction))};
    for (const TargetInfo& target : targets) {
      if (takers.contains(target.id)) others.insert(target.name);
    }
    std::string mnemonic = print(instruction);
    if (has_words(request.words, mnemonic, others)) mnemonics.push_back(std::move(mnemonic));
  }
  require_listed(request.words, !mnemonics.empty());
  return mnemonics;
}

Report describe(const std::vector<ListedForm>& forms) { return objects_of(rows_of(forms)); }

std::vector<std::vector<std::string>> table_of(const std::vector<ListedForm>& forms) {
  return table_of(rows_of(forms));
}

std::string print_folded(const std::vector<ListedForm>& forms) {
  std::string text;
  for (const ListedForm& form : forms) text += print_form(form);
  return text;
}

std::vector<std::vector<std::string>> evidence_matrix_of(const std::vector<ListedForm>& listed) {
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
      const auto family_levels = of_family.find(family);
      std::string& cell = line.emplace_back();
      for (const Sureness& sureness : surenesses) {
        if (family_levels != of_family.end() &&
            std::ranges::any_of(sureness.levels, [&](Evidence level) { return family_levels->second.contains(level); }))
          cell += fmt::format("{}{}", cell.empty() ? "" : ", ", sureness.word);
      }
    }
  }
  return transposed(joined(transposed(joined(table))));
}

std::string meaning_of_evidence_matrix() {
  std::vector<std::string> parts;
  for (const Sureness& sureness : surenesses) parts.push_back(fmt::format("{}: {}", sureness.word, sureness.meaning));
  return fmt::format("{}; empty: the GPU has no such instruction. Several words: it depends on the types.\n",
                     fmt::join(parts, "; "));
}

}  // namespace bitmma
