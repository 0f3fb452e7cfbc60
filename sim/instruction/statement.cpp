// SPDX-License-Identifier: MIT
#include "bitmma/instruction/statement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/ptx_file.hpp"
#include "bitmma/instruction/sass.hpp"
#include "bitmma/instruction/support_instruction.hpp"
#include "family.hpp"
#include "text/syntax.hpp"
#include "text/words.hpp"

namespace bitmma {
namespace {

using syntax::Grammar;

const Grammar& grammar_of(const Wgmma&) { return syntax::wgmma_grammar; }
const Grammar& grammar_of(const MmaSync&) { return syntax::mma_sync_grammar; }
const Grammar& grammar_of(const Tcgen05Mma&) { return syntax::tcgen05_grammar; }
const Grammar& grammar_of(const TmemMove&) { return syntax::tmem_move_grammar; }
const Grammar& grammar_of(const Instruction& instruction) {
  return family::dispatch([](const auto& alternative) -> const Grammar& { return grammar_of(alternative); },
                          instruction);
}

/// The grammar whose first words match the mnemonic, else one whose first word matches; that one reports what is wrong
/// with the second. Throws Error if there is none.
const Grammar& find_grammar(std::string_view mnemonic) {
  static constexpr std::array grammars{&syntax::tmem_move_grammar, &syntax::wgmma_grammar, &syntax::mma_sync_grammar,
                                       &syntax::tcgen05_grammar};
  if (const SupportInstructionInfo* row = find_support_instruction(mnemonic)) {
    throw Error({.code = ViolationCode::wrong_instruction,
                 .field = "instruction",
                 .seen = row->word.empty() ? std::string(row->name) : fmt::format("{} with .{}", row->name, row->word),
                 .expected = "an instruction that bitmma executes",
                 .fix = "bitmma decode describes it",
                 .source = std::string(row->source)});
  }
  const std::string_view word = mnemonic.substr(0, mnemonic.find('.'));
  const Grammar* match = nullptr;
  for (const Grammar* grammar : grammars) {
    if (syntax::begins(*grammar, mnemonic)) return *grammar;
    if (grammar->head == word) match = grammar;
  }
  if (match) return *match;
  const Instruction example = Wgmma{};
  std::string small(mnemonic);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Grammar* grammar : grammars) {
    if (small == mnemonic || grammar->head != small.substr(0, word.size())) continue;
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "instruction",
                 .seen = syntax::shown(word),
                 .expected = fmt::format("{}: PTX's mnemonics have small letters", grammar->head),
                 .fix = fmt::format("write {}", shortened(small))});
  }
  // Suggests the instruction for a word of another API or a shape.
  if (const SassInfo* sass = find_sass(word)) {
    throw Error(
        {.code = ViolationCode::unknown_name,
         .field = "instruction",
         .seen = syntax::shown(word),
         .expected = fmt::format("a PTX mnemonic: this is an opcode of SASS, to which ptxas compiles {}", sass->ptx),
         .fix = "bitmma decode describes lines of SASS"});
  }
  if (word == "wmma") {
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "instruction",
                 .seen = syntax::shown(word),
                 .expected = "mma.sync, of which a wmma consists: m16n16k16 is two m16n8k16 along n",
                 .fix = "write " + syntax::mma_sync_grammar.form(MmaSync{}) +
                        "; bitmma decode describes a wmma, and bitmma run executes kernels with it",
                 .source = "docs/kernel_semantics.md"});
  }
  if (const bool is_wgmma = word.starts_with("m64n");
      is_wgmma || word.starts_with("m16n8k") || word.starts_with("m8n8k")) {
    const Instruction of_shape = is_wgmma ? Instruction(Wgmma{}) : MmaSync{};
    throw Error({.code = ViolationCode::malformed,
                 .field = "instruction",
                 .seen = syntax::shown(word),
                 .expected = "a whole mnemonic: this is a shape of " + std::string(is_wgmma ? "wgmma" : "mma.sync"),
                 .fix = "for example " + print(of_shape)});
  }
  throw Error({.code = ViolationCode::unknown_name,
               .field = "instruction",
               .seen = syntax::shown(word),
               .expected = "a mnemonic that begins with wgmma.mma_async, tcgen05.mma or mma.sync",
               .fix = "write " + syntax::wgmma_grammar.form(example),
               .source = syntax::wgmma_grammar.source(example)});
}

}  // namespace

std::string print(const Instruction& instruction) {
  return syntax::print_mnemonic(grammar_of(instruction), instruction);
}

std::string instruction_group(const Instruction& instruction) {
  const std::string mnemonic = print(instruction);
  if (!is_mma(instruction)) return mnemonic;
  const Mma mma = mma_of(instruction);
  const std::string types = fmt::format("{}.{}.{}", info(mma.d).name, info(mma.a).name, info(mma.b).name);
  // The instruction descriptor sets shape and types that are not in the mnemonic.
  if (mnemonic.find(types) == std::string::npos) return fmt::format("{} {}", mnemonic, types);
  const Form* form = find_form(instruction);
  const bool one_n = form && form->shapes.size() == 1 && form->shapes[0].n.first == form->shapes[0].n.last;
  // All N form one group.
  return one_n ? mnemonic : fmt::format("{} k{} {}", mnemonic.substr(0, mnemonic.find(".sync")), mma.k, types);
}

Instruction parse_instruction(std::string_view mnemonic) {
  std::vector<Violation> violations;
  Instruction instruction = syntax::parse_mnemonic(find_grammar(mnemonic), mnemonic, violations);
  if (!violations.empty()) throw Error(std::move(violations));
  return instruction;
}

namespace {

/// Reads the mnemonic and its operands into the statement. Adds to `violations`.
void read_parts(std::string_view mnemonic, const std::optional<std::vector<std::string_view>>& operands,
                bool may_have_register_ids, Statement& statement, std::vector<Violation>& violations) {
  const Grammar& grammar = find_grammar(mnemonic);
  const size_t before = violations.size();
  statement.instruction = syntax::parse_mnemonic(grammar, mnemonic, violations);
  if (!operands || violations.size() > before) return;  // then the operands are unknown
  statement.operands =
      syntax::parse_operands(grammar, *operands, statement.instruction, violations, may_have_register_ids);
  if (violations.size() == before) return;
  // The number of registers follows from the shape: check that it is legal.
  for (Violation& illegal : violations_of(statement.instruction, default_target(statement.instruction)))
    if (illegal.field != "target") violations.push_back(std::move(illegal));
}

Statement read_statement(std::string_view text, bool may_have_register_ids) {
  std::vector<Violation> violations;
  const auto refuse = [&](std::string field, std::string_view seen, std::string expected) {
    violations.push_back({.code = ViolationCode::malformed,
                          .field = std::move(field),
                          .seen = syntax::shown(seen),
                          .expected = std::move(expected)});
  };
  constexpr std::string_view spaces = " \t\n\v\f\r";
  Statement statement;
  text = syntax::trimmed(text);
  if (const size_t end = text.find(';'); end != std::string_view::npos) {
    if (const std::string_view more = syntax::trimmed(text.substr(end + 1)); !more.empty())
      refuse("text after the semicolon", more, "absent: pass a single statement");
    text = text.substr(0, end);
  }
  if (text.starts_with('@')) {
    const std::string_view guard = text.substr(0, text.find_first_of(spaces));
    const std::string_view name = guard.substr(guard.starts_with("@!") ? 2 : 1);
    if (!syntax::is_name(name)) refuse("guard", guard, "@ or @! and a predicate register");
    statement.guard = std::string(guard);
    text = syntax::trimmed(text.substr(guard.size()));
  }
  const std::string_view mnemonic = text.substr(0, text.find_first_of(std::string(spaces) + "{[,"));
  const auto operands = syntax::split_list(text.substr(mnemonic.size()));
  read_parts(mnemonic, operands, may_have_register_ids, statement, violations);
  if (!operands)
    refuse("operands", syntax::trimmed(text.substr(mnemonic.size())), "a partner of each brace and bracket");
  if (!violations.empty()) throw Error(std::move(violations));
  return statement;
}

}  // namespace

Statement parse_statement(std::string_view text) { return read_statement(text, false); }
Statement parse_statement(std::string_view mnemonic, std::span<const std::string> operands) {
  std::vector<Violation> violations;
  Statement statement;
  read_parts(mnemonic, std::vector<std::string_view>(operands.begin(), operands.end()), false, statement, violations);
  if (!violations.empty()) throw Error(std::move(violations));
  return statement;
}
Statement parse_ptx_statement(std::string_view text) { return read_statement(text, true); }

std::string print(const Statement& statement) {
  std::string text = statement.guard.empty() ? "" : statement.guard + " ";
  text += print(statement.instruction);
  for (size_t i = 0; i < statement.operands.size(); ++i) text += (i == 0 ? " " : ", ") + statement.operands[i].text;
  return text + ";";
}

Statement statement_of(const Instruction& instruction) {
  return {
      .guard = {}, .instruction = instruction, .operands = syntax::operands_of(grammar_of(instruction), instruction)};
}

}  // namespace bitmma
