// SPDX-License-Identifier: MIT
// Parses and prints a mnemonic by the parts of its grammar.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "syntax.hpp"
#include "words.hpp"

namespace bitmma::syntax {
namespace {

/// The words of a mnemonic, separated by dots.
class Words {
 public:
  explicit Words(std::string_view text) : left_(text) {}

  bool done() const { return !left_; }
  std::string_view left() const { return left_.value_or(std::string_view{}); }
  std::string_view peek() const { return left().substr(0, left().find('.')); }
  /// The next word; joined with the following one if that begins with `joins`.
  std::string_view peek(std::string_view joins) const {
    const size_t dot = left().find('.');
    if (joins.empty() || dot == std::string_view::npos || !left().substr(dot + 1).starts_with(joins)) return peek();
    return left().substr(0, left().find('.', dot + 1));
  }
  /// Takes a text of whole words.
  bool take(std::string_view text) {
    if (!left_ || !left_->starts_with(text)) return false;
    if (left_->size() == text.size()) {
      left_.reset();
    } else if ((*left_)[text.size()] == '.') {
      left_->remove_prefix(text.size() + 1);
    } else {
      return false;
    }
    return true;
  }
  void skip() { take(peek()); }

 private:
  std::optional<std::string_view> left_;
};

/// Decimal digits without leading zeros, as they are printed.
std::optional<int> decimal(std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || value < 0 || std::to_string(value) != digits) return std::nullopt;
  return value;
}

/// m, n and k of "m64n8k16".
std::optional<std::array<int, 3>> shape(std::string_view text) {
  std::array<int, 3> numbers{};
  for (size_t i = 0; i < 3; ++i) {
    if (!text.starts_with("mnk"[i])) return std::nullopt;
    text.remove_prefix(1);
    const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
    const std::optional<int> number = decimal(digits);
    if (!number) return std::nullopt;
    numbers[i] = *number;
    text.remove_prefix(digits.size());
  }
  return text.empty() ? std::optional(numbers) : std::nullopt;
}

class MnemonicReader {
 public:
  MnemonicReader(const Grammar& grammar, std::string_view mnemonic)
      : grammar_(grammar), words_(mnemonic), instruction_(grammar.start()) {
    words_.take(grammar.head);
  }

  /// Parses part by part, in the order of PTX's grammar.
  Instruction read() {
    for (const Part& part : grammar_.parts) {
      if (stopped_) break;
      read(part);
    }
    if (!stopped_ && !words_.done()) refuse("qualifier", words_.peek(), grammar_.end(instruction_));
    return finished();
  }

  /// Parses word by word: after the name ptxas accepts qualifiers in any order, as long as types and similar parts keep
  /// their order. Nothing if a part is missing: then the grammar's order gives the best error.
  std::optional<Instruction> read_in_any_order() {
    for (const Part& part : grammar_.parts) {
      if (part.in_name) read(part);
    }
    for (; !words_.done(); words_.skip()) left_.push_back(words_.peek());
    constexpr size_t most = 64;  // more than the words of any mnemonic
    if (!violations_.empty() || left_.size() > most) return std::nullopt;
    place_.resize(grammar_.parts.size());
    // The meaning of a word may depend on later words, such as the kind. So repeat until no further word is parsed.
    for (bool progress = true; std::exchange(progress, false);) {
      for (size_t i = 0; i < left_.size();) {
        const bool taken = std::ranges::any_of(grammar_.parts, [&](const Part& part) { return takes(part, i); });
        progress |= taken;
        i += taken ? 0 : 1;
      }
    }
    for (const Part& part : grammar_.parts) {
      if (part.kind == PartKind::implied && place_of(part) && !is_there(part)) refuse(part, "present");
      if (part.in_name || part.kind == PartKind::flag || place_of(part) || !is_there(part)) continue;
      const Spelling* unwritten = find_unwritten(part);
      if (!unwritten) return std::nullopt;
      part.value.set(instruction_, unwritten->value);
    }
    for (const std::string_view word : left_) refuse_left(word);
    return finished();
  }

  std::vector<Violation> violations() && { return std::move(violations_); }

 private:
  bool is_there(const Part& part) const { return !part.when || part.when(instruction_); }
  Instruction finished() { return grammar_.finish ? grammar_.finish(instruction_, violations_) : instruction_; }

  static const Spelling* find_unwritten(const Part& part) {
    const auto row =
        std::ranges::find_if(part.spellings, [](const Spelling& spelling) { return spelling.word.empty(); });
    return row == part.spellings.end() ? nullptr : &*row;
  }

  const char*& place_of(const Part& part) { return place_[static_cast<size_t>(&part - grammar_.parts.data())]; }

  /// Parses the part that begins at remaining word `i`, and removes its words. False if the part is not there.
  bool takes(const Part& part, size_t i) {
    const char* const here = left_[i].data();
    if (part.in_name || place_of(part)) return false;
    if (part.behind_previous) {
      const char* const previous = place_of(*(&part - 1));
      if (!previous || previous > here) return false;
    }
    const std::string_view text(here, static_cast<size_t>(left_.back().data() + left_.back().size() - here));
    const Instruction before = instruction_;
    words_ = Words(text);
    if (part.kind == PartKind::implied) words_.take(part.word);
    else read(part);
    const size_t rest = words_.done() ? 0 : words_.left().size() + 1;  // with a dot; more than the text if none is read
    const std::string_view taken = text.substr(0, text.size() - std::min(rest, text.size()));
    const auto end = left_.begin() + static_cast<ptrdiff_t>(i) + 1 + std::ranges::count(taken, '.');
    // Another part may have taken a word between two words: then they are not one spelling.
    const bool together = end <= left_.end() && std::prev(end)->data() + std::prev(end)->size() == here + taken.size();
    if (!violations_.empty() || rest > text.size() || !together) {
      violations_.clear();
      stopped_ = false;
      instruction_ = before;
      return false;
    }
    place_of(part) = here;
    left_.erase(left_.begin() + static_cast<ptrdiff_t>(i), end);
    return true;
  }

  /// Reports a word that no part took, after all parts were found.
  void refuse_left(std::string_view word) {
    const std::span<const Part> parts = grammar_.parts;
    const auto wrong = std::ranges::find_if(
        parts, [&](const Part& part) { return is_there(part) && !place_of(part) && begins_like(part, word); });
    if (wrong != parts.end()) return refuse(*wrong, word);
    const bool twice = std::ranges::any_of(parts, [&](const Part& part) {
      const bool is_word = part.kind == PartKind::literal || part.kind == PartKind::flag;
      return is_word && place_of(part) && part.word == word;
    });
    refuse("qualifier", word, twice ? fmt::format("one .{}", word) : grammar_.end(instruction_));
  }

  /// The first refusal shows the whole form.
  void refuse(std::string_view field, std::string_view seen, std::string expected,
              std::vector<std::string> legal = {}) {
    violations_.push_back({.code = ViolationCode::malformed,
                           .field = std::string(field),
                           .seen = shown(seen),
                           .expected = std::move(expected),
                           .legal = std::move(legal),
                           .fix = violations_.empty() ? "write " + grammar_.form(instruction_) : "",
                           .source = grammar_.source(instruction_)});
  }
  void refuse(const Part& part, std::string_view seen) {
    std::string expected = part.legal_of        ? part.legal_of(instruction_)
                           : part.legal.empty() ? fmt::format(".{} here; it is mandatory", part.word)
                                                : std::string(part.legal);
    std::vector<std::string> legal;
    for (const Spelling& row : part.spellings) legal.push_back(fmt::format(".{}{}", part.word, row.word));
    if (part.spellings.empty() && !part.word.empty()) legal.push_back(fmt::format(".{}", part.word));
    refuse(part.field, seen, std::move(expected), std::move(legal));
  }
  /// The word starts like a spelling of the part: "kind::f17", "and" without ".popc".
  static bool begins_like(const Part& part, std::string_view word) {
    if (part.kind == PartKind::literal || word.empty()) return false;
    if (!part.word.empty()) return word.starts_with(part.word);
    return std::ranges::any_of(part.spellings, [&](const Spelling& row) {
      return row.word.starts_with(word) && row.word.substr(word.size()).starts_with('.');
    });
  }
  void miss(const Part& part, std::string_view seen) {
    unsure_ = true;
    if (part.miss == Miss::stop) {
      stopped_ = true;
      refuse(part, words_.done() ? "" : fmt::format(".{}", words_.left()));
      return;
    }
    refuse(part, seen);
    // Words after a word that is not understood cannot be judged: report one message per
    // mistake.
    if (part.miss == Miss::skip || begins_like(part, seen)) words_.take(seen);
    else stopped_ = true;
  }

  void read(const Part& part) {
    if (part.kind != PartKind::implied && !is_there(part)) return;
    switch (part.kind) {
      case PartKind::literal:
      case PartKind::flag: return read_word(part);
      case PartKind::implied: return read_implied(part);
      case PartKind::choice: return read_choice(part);
      case PartKind::number: {
        const std::string_view word = words_.peek();
        const std::optional<int> number =
            word.starts_with(part.word) ? decimal(word.substr(part.word.size())) : std::nullopt;
        if (!number) return miss(part, word);
        part.value.set(instruction_, *number);
        if (part.allows && !part.allows(instruction_)) return miss(part, word);
        return words_.skip();
      }
      case PartKind::format: return read_format(part);
      case PartKind::shape: {
        const auto numbers = shape(words_.peek());
        if (!numbers) return miss(part, words_.peek());
        for (size_t i = 0; i < 3; ++i) part.shape[i].set(instruction_, (*numbers)[i]);
        return words_.skip();
      }
    }
  }

  void read_word(const Part& part) {
    const bool present = words_.take(part.word);
    if (!present && part.kind == PartKind::literal) miss(part, words_.peek());
    if (present && part.kind == PartKind::flag) part.value.set(instruction_, 1);
  }

  void read_implied(const Part& part) {
    const bool present = words_.take(part.word);
    if (present != part.when(instruction_) && !unsure_) refuse(part, present ? "present" : "absent");
  }

  void read_choice(const Part& part) {
    const std::string_view word = words_.peek(part.joins);
    const auto is_word = [&](const Spelling& row) {
      return !row.word.empty() && word.size() == part.word.size() + row.word.size() + row.rest.size() &&
             word.starts_with(part.word) && word.substr(part.word.size()).starts_with(row.word) &&
             word.ends_with(row.rest);
    };
    if (const auto row = std::ranges::find_if(part.spellings, is_word); row != part.spellings.end()) {
      part.value.set(instruction_, row->value);
      if (part.allows && !part.allows(instruction_)) return miss(part, word);
      words_.take(word);
      return;
    }
    const Spelling* unwritten = find_unwritten(part);
    if (!unwritten || begins_like(part, word)) return miss(part, word);
    part.value.set(instruction_, unwritten->value);
  }

  void read_format(const Part& part) {
    const std::optional<Format> format = format_named(words_.peek());
    const bool differs = part.repeats && format && static_cast<int64_t>(*format) != part.value.get(instruction_);
    if (!format || differs) return miss(part, words_.peek());
    part.value.set(instruction_, static_cast<int64_t>(*format));
    if (part.allows && !part.allows(instruction_)) return miss(part, words_.peek());
    words_.skip();
  }

  const Grammar& grammar_;
  Words words_;
  Instruction instruction_;
  std::vector<Violation> violations_;
  std::vector<std::string_view> left_;  // words that no part has taken
  std::vector<const char*> place_;      // positions of the words of each part
  bool stopped_ = false;
  bool unsure_ = false;  // a part was not understood, so its consequences are unknown
};

}  // namespace

std::string print_mnemonic(const Grammar& grammar, const Instruction& instruction) {
  std::string text(grammar.head);
  for (const Part& part : grammar.parts) {
    if (part.when && !part.when(instruction)) continue;
    switch (part.kind) {
      case PartKind::literal:
      case PartKind::implied: text += fmt::format(".{}", part.word); break;
      case PartKind::flag:
        if (part.value.get(instruction) != 0) text += fmt::format(".{}", part.word);
        break;
      case PartKind::choice: {
        const auto row = std::ranges::find(part.spellings, part.value.get(instruction), &Spelling::value);
        if (row != part.spellings.end() && !row->word.empty())
          text += fmt::format(".{}{}{}", part.word, row->word, row->rest);
        break;
      }
      case PartKind::number: text += fmt::format(".{}{}", part.word, part.value.get(instruction)); break;
      case PartKind::format:
        text += fmt::format(".{}", info(static_cast<Format>(part.value.get(instruction))).name);
        break;
      case PartKind::shape:
        text += fmt::format(".m{}n{}k{}", part.shape[0].get(instruction), part.shape[1].get(instruction),
                            part.shape[2].get(instruction));
        break;
    }
  }
  return text;
}

Instruction parse_mnemonic(const Grammar& grammar, std::string_view mnemonic, std::vector<Violation>& violations) {
  MnemonicReader in_order(grammar, mnemonic);
  Instruction instruction = in_order.read();
  std::vector<Violation> warnings = std::move(in_order).violations();
  if (!warnings.empty()) {
    MnemonicReader in_any_order(grammar, mnemonic);
    if (const std::optional<Instruction> read = in_any_order.read_in_any_order()) {
      instruction = *read;
      warnings = std::move(in_any_order).violations();
    }
  }
  std::ranges::move(warnings, std::back_inserter(violations));
  return instruction;
}

bool begins(const Grammar& grammar, std::string_view mnemonic) {
  Words words(mnemonic);
  if (!words.take(grammar.head)) return false;
  const Part& first = grammar.parts.front();
  if (first.kind == PartKind::literal) return words.peek() == first.word;
  return std::ranges::find(first.spellings, words.peek(), &Spelling::word) != first.spellings.end();
}

}  // namespace bitmma::syntax
