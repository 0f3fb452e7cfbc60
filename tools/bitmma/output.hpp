// How results are printed: tables, colours, counts, progress, JSON of what several verbs show.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/place.hpp"
#include "commands.hpp"

namespace bitmma::cli {

using Json = nlohmann::ordered_json;

/// "1 case", "2 cases".
std::string counted(int64_t count, std::string_view noun);

/// `text` in a colour when the terminal takes it. Codes: 31 red, 32 green, 33 yellow.
std::string colored(const Context& context, int code, const std::string& text);

/// Prints warnings to stderr, each a line.
void print_warnings(const Context& context, const std::vector<Violation>& warnings);

/// A table with aligned columns; the first row is the heading. Numbers are right-aligned.
std::string print_table(const std::vector<std::vector<std::string>>& rows);

/// [{"field", "seen", "legal", "fix", "source", "severity"}].
Json to_json(const std::vector<Violation>& violations);
/// {"thread", "register", "bit"}, {"cta", "lane", "column", "bit"} or {"cta", "unswizzled_byte", "byte", "bit"}.
Json to_json(const Place& place);
/// Counts, and the first mismatch where there is one.
Json to_json(const Comparison& comparison);
/// The same, and where mismatches are: "where", "mismatches_by_row", "mismatches_by_col", "map".
Json to_json(const Comparison& comparison, const Instruction& instruction);
/// What is chosen, as a list of texts.
Json to_json(const std::vector<Choice>& choices);

/// Where mismatches are, in a line and perhaps a map; empty without any.
std::string print_where(const Comparison& comparison, const Instruction& instruction);

/// What "F = 25, RZ-23, floor -133" means, for help.
extern const std::string meaning_of_rule;

/// What an instruction's results rest on, in a line: the rule and its evidence, or that bits only move.
std::string print_arithmetic(const Instruction& instruction, Target target);
/// True where the instruction writes a redval: the last column of its result.
bool ends_with_redval(const Instruction& instruction);
/// How sure they are: "published hardware words", "documented move of bits".
std::string print_evidence(const Instruction& instruction, Target target);

/// Every choice of this program that can show in results of any case of a file; empty where hardware or its documents
/// decide all.
std::vector<Choice> choices_of(const VectorFile& vectors);

/// Says on stderr how large the file will be and about how long it takes, before either is large. Calls `make_one`,
/// which makes one case and gives its bytes, once and only where there are many cases.
void announce_output(const Context& context, const std::string& path, int64_t cases, int threads,
                     const std::function<uint64_t()>& make_one);

/// A line on stderr that is redrawn a few times a second, on a terminal only; erased at the end.
class ProgressLine {
 public:
  ProgressLine(const Context& context, std::string what, int64_t total);
  ~ProgressLine();
  void update(int64_t done);
  /// Where the total grows while the work goes on.
  void update(int64_t done, int64_t total) {
    total_ = total;
    update(done);
  }
  /// Adds to what update() counts, for work in several pieces.
  Progress from(int64_t base) {
    return [this, base](int64_t done) { update(base + done); };
  }

 private:
  const Context& context_;
  std::string what_;
  int64_t total_;
  double started_, drawn_ = 0;
};

}  // namespace bitmma::cli
