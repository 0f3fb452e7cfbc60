// SPDX-License-Identifier: MIT
// PTX text as tables. A family lists the parts of its mnemonic and the operands after them, one row each; the same rows
// parse and print, so that printed text can be parsed again.
//
//   tcgen05.mma.ws.cta_group::1.kind::f16    [d-tmem], a-desc, b-desc, idesc, enable-input-d
//   |       |   |  |            choice       |         descriptors            predicate
//   head    |   |  number                    address
//           |   flag
//           literal
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma::syntax {

/// A member of one alternative of Instruction as a number.
struct Member {
  int64_t (*get)(const Instruction&) = nullptr;
  void (*set)(Instruction&, int64_t) = nullptr;
};

using Test = bool (*)(const Instruction&);
using Count = int64_t (*)(const Instruction&);
using Text = std::string (*)(const Instruction&);

// Makes them from members, functions and lambdas, so that a row names only the family's own type:
//   .value = member<&TmemMove::ldst, &LdSt::num>      .when = on<can_negate>      .when = on<&Wgmma::sparse>
template <class T, class Owner>
Owner owner_of(T Owner::*);
template <class R, class Owner>
Owner owner_of(R (*)(const Owner&));
template <class R, class Lambda, class Owner>
Owner owner_of(R (Lambda::*)(const Owner&) const);

template <auto function>
consteval auto called() {
  if constexpr (std::is_member_pointer_v<decltype(function)> || std::is_pointer_v<decltype(function)>) {
    return function;
  } else {
    return &decltype(function)::operator();
  }
}
template <auto function>
using OwnerOf = decltype(owner_of(called<function>()));

template <auto function>
inline constexpr auto on =
    [](const Instruction& instruction) { return std::invoke(function, std::get<OwnerOf<function>>(instruction)); };

template <auto first, auto... rest>
constexpr auto& follow(auto& object) {
  if constexpr (sizeof...(rest) == 0) {
    return object.*first;
  } else {
    return follow<rest...>(object.*first);
  }
}

template <auto first, auto... rest>
inline constexpr Member member{
    .get = [](const Instruction& instruction) -> int64_t {
      return static_cast<int64_t>(follow<first, rest...>(std::get<OwnerOf<first>>(instruction)));
    },
    .set =
        [](Instruction& instruction, int64_t value) {
          auto& target = follow<first, rest...>(std::get<OwnerOf<first>>(instruction));
          target = static_cast<std::remove_reference_t<decltype(target)>>(value);
        }};

/// The spelling of a value: `word` and the text that follows directly. An empty word: the value of an absent word.
struct Spelling {
  std::string_view word = {};
  std::string_view rest = {};
  int64_t value = 0;
};

constexpr Spelling spelled(std::string_view word, auto value) {
  return {.word = word, .value = static_cast<int64_t>(value)};
}

/// Spellings from the rows of a table with id and name.
template <const auto& table>
consteval auto spellings_of() {
  std::array<Spelling, std::size(table)> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = spelled(table[i].name, table[i].id);
  return all;
}

/// Spellings of the enumerators from 0 to `last`, as print() writes them without the dot.
template <auto last>
consteval auto spellings_up_to() {
  std::array<Spelling, static_cast<size_t>(last) + 1> all{};
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string_view text = print(static_cast<decltype(last)>(i));
    all[i] = spelled(text.empty() ? text : text.substr(1), i);
  }
  return all;
}

enum class PartKind : uint8_t {
  literal,  // a mandatory word
  flag,     // an optional word: sets its member to true
  implied,  // a word that must or must not be present, depending on the parts before it
  choice,   // one of the spellings
  number,   // decimal digits
  format,   // the name of a number format
  shape,    // mMnNkK
};

/// Where parsing continues after a refusal: at the same word, after it, or nowhere. It always continues after a word
/// that begins like the part.
enum class Miss : uint8_t { stay, skip, stop };

struct Part {
  PartKind kind = PartKind::literal;
  std::string_view word = {};  // of a choice or a number: the text before the spelling or the digits, "kind::"
  Member value = {};
  std::array<Member, 3> shape = {};  // m, n, k
  std::span<const Spelling> spellings = {};
  std::string_view joins = {};   // for a choice: the next word belongs to the spelling if it begins with this
  Test when = nullptr;           // the part exists only if true; for an implied part: the word must be present
  Test allows = nullptr;         // called after the value is set
  bool in_name = false;          // comes first, in the order of the rows
  bool behind_previous = false;  // follows the part before it. The order of the other parts is free
  bool repeats = false;          // a format that is written twice
  Miss miss = Miss::stay;
  std::string_view field = "qualifier";  // name of the field in messages
  std::string_view legal = {};
  Text legal_of = nullptr;  // in place of `legal`
};

/// An integer constant that sets a member.
struct Immediate {
  std::string_view name = {};  // empty: the operand's name
  Member value = {};
  int64_t first = 0, last = 1, step = 1;
};

/// A bool that PTX writes as -1 for true and 1 for false.
template <auto negate>
inline constexpr Immediate sign{
    .value = {.get = [](const Instruction& instruction) -> int64_t {
                return std::get<OwnerOf<negate>>(instruction).*negate ? -1 : 1;
              },
              .set = [](Instruction& instruction,
                        int64_t value) { std::get<OwnerOf<negate>>(instruction).*negate = value < 0; }},
    .first = -1,
    .step = 2};

struct OperandRow {
  std::string_view name = {};  // in PTX's words
  OperandKind kind = OperandKind::registers;
  std::string_view as = {};  // its name in statement_of
  Test when = nullptr;       // PTX has it only in such statements
  /// The operand's form tells its place: parsing sets the member to `written_value`, and only then is it printed.
  Member written = {};
  int64_t written_value = 0;
  bool optional = false;  // may be omitted. statement_of omits immediates that are 0, and writes the others
  bool bare = false;      // a single register, which needs no braces
  Count count = nullptr;  // of registers; nullptr: one
  /// For immediates one, or two in braces. For predicates the immediate that may replace it.
  std::array<Immediate, 2> immediates = {};
  std::string_view absent = {};  // why an instruction may have none: "without .sp"
  std::string_view fix = {};     // a hint for mistakes
};

/// The grammar of a family.
struct Grammar {
  std::string_view head = {};  // the first word
  Instruction (*start)() = nullptr;
  std::span<const Part> parts = {};
  std::span<const OperandRow> operands = {};
  Text form = nullptr;    // the whole mnemonic, for messages
  Text source = nullptr;  // its PTX section
  Text end = nullptr;     // the text that may follow the last part
  /// Builds the value from the parsed parts; nullptr: the parts set it themselves. May add violations.
  Instruction (*finish)(const Instruction& read, std::vector<Violation>& violations) = nullptr;
};

extern const Grammar wgmma_grammar, mma_sync_grammar, tcgen05_grammar, tmem_move_grammar;

std::string print_mnemonic(const Grammar& grammar, const Instruction& instruction);
/// Appends to `violations`; the returned value is valid only if there are none.
Instruction parse_mnemonic(const Grammar& grammar, std::string_view mnemonic, std::vector<Violation>& violations);
/// True if the mnemonic's second word is the first word of the grammar after the head.
bool begins(const Grammar& grammar, std::string_view mnemonic);

std::vector<StatementOperand> operands_of(const Grammar& grammar, const Instruction& instruction);
/// Parses operands, one per text, and applies them to `instruction`. With `may_have_register_ids`, immediates in braces
/// may be registers, which leave the instruction unchanged.
std::vector<StatementOperand> parse_operands(const Grammar& grammar, std::span<const std::string_view> texts,
                                             Instruction& instruction, std::vector<Violation>& violations,
                                             bool may_have_register_ids = false);

}  // namespace bitmma::syntax
