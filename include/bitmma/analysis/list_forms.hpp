// SPDX-License-Identifier: MIT
// The legal instructions with the evidence for their arithmetic: what `list` prints.
//
//   const std::vector<ListedForm> forms = list_of({.target = Target::sm_90a, .words = {"wgmma", "e4m3"}});
//   to_json(describe(forms)), print_table(table_of(forms)), print_folded(forms)
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/form.hpp"

namespace bitmma {

struct ListRequest {
  std::optional<Target> target = {};
  std::vector<std::string> words = {};  // each a part of the name, or a type, a GPU or a family
};

/// A row of the form table with the evidence for its arithmetic on each of its targets. A form has a row for each rule
/// by which its targets add, and for each part of it that they support.
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

/// Throws Error if the target has no form (field target), or if no form has all the words (field words).
std::vector<ListedForm> list_of(const ListRequest& request);
/// Every legal mnemonic instead of the forms, with the same errors.
std::vector<std::string> list_mnemonics(const ListRequest& request);

/// A list of {"instruction", "targets", "d", "a", "b", "m", "k", "k_sparse", "n", "scales", "options", "arithmetic",
/// "evidence", "evidence_by_target", "evidence_of", "evidence_source", "legality_source"}, without text.
Report describe(const std::vector<ListedForm>& forms);
/// A line for each form, about 270 columns wide, below a heading.
std::vector<std::vector<std::string>> table_of(const std::vector<ListedForm>& forms);
/// Each form in a few lines of 80 columns.
std::string print_folded(const std::vector<ListedForm>& forms);

/// A row per GPU, a column per instruction, with words for the evidence of the results: equal GPUs and equal
/// instructions share a row or column.
std::vector<std::vector<std::string>> evidence_matrix_of(const std::vector<ListedForm>& forms);
/// What the words mean, in one line.
std::string meaning_of_evidence_matrix();

/// True if every word is a part of the name, or one of the others.
bool has_words(const std::vector<std::string>& words, std::string_view name, const std::set<std::string_view>& others);
/// Throws Error, which names the words, unless a row has them all.
void require_listed(const std::vector<std::string>& words, bool is_any);

}  // namespace bitmma
