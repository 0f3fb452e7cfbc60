#include "output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "bitmma/analysis/report.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/execute.hpp"

namespace bitmma::cli {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string colored(const Context& context, int code, const std::string& text) {
  return context.terminal.color ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

void print_warnings(const Context& context, const std::vector<Violation>& warnings) {
  for (const Violation& warning : warnings) context.terminal.err << "warning: " << print(warning) << '\n';
}

std::string print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool right = rows.size() > 1 && i < rows[1].size() && is_number(rows[1][i]);
      line += i ? "  " : "";
      line += right ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + '\n';
  }
  return text;
}

Json to_json(const std::vector<Violation>& violations) { return Json::parse(report(violations)); }

Json to_json(const Place& place) { return Json::parse(report(place)); }

Json to_json(const Comparison& comparison) {
  Json json{{"cases", comparison.cases}, {"outputs", comparison.outputs}, {"mismatches", comparison.mismatches}};
  if (!comparison.first) return json;
  const Mismatch& first = *comparison.first;
  Json mismatch{{"case", first.case_index}, {"row", first.row}, {"col", first.col}};
  mismatch.update(to_json(first.place));
  mismatch["expected"] = print_bits(first.format, first.expected);
  mismatch["actual"] = print_bits(first.format, first.actual);
  json["first_mismatch"] = std::move(mismatch);
  return json;
}

Json to_json(const Comparison& comparison, const Instruction& instruction) {
  Json json = to_json(comparison);
  if (comparison.map.empty()) return json;
  const DrawnMap drawn = draw(comparison.map);
  json["where"] = patterns_of(comparison.map, instruction);
  json["mismatches_by_row"] = counts_by_row(comparison.map);
  json["mismatches_by_col"] = counts_by_col(comparison.map);
  json["map"] = {
      {"rows_per_line", drawn.rows_per_line}, {"cols_per_character", drawn.cols_per_character}, {"lines", drawn.lines}};
  return json;
}

std::string print_where(const Comparison& comparison, const Instruction& instruction) {
  if (comparison.map.empty()) return "";
  const std::vector<std::string> patterns = patterns_of(comparison.map, instruction);
  std::string text = fmt::format("where: {}\n", fmt::join(patterns, "; "));
  const bool is_everywhere = std::ranges::find(comparison.map.counts, 0) == comparison.map.counts.end();
  const bool is_scattered = patterns.size() == 1 && patterns[0].starts_with("scattered");
  if (is_everywhere || is_scattered || comparison.mismatches < 2) return text;
  const DrawnMap drawn = draw(comparison.map);
  text += fmt::format("map: {} a line, {} a character; . same, + some differ, # all differ\n",
                      counted(drawn.rows_per_line, "row"), counted(drawn.cols_per_character, "column"));
  for (const std::string& line : drawn.lines) text += fmt::format("  {}\n", line);
  return text;
}

const std::string meaning_of_rule =
    "F = 25, RZ-23, floor -133 means: products and C are aligned to the largest exponent among them, never below the\n"
    "floor, cut toward zero to F bits behind the point and added exactly; the sum is rounded once, RZ-23 toward zero "
    "to\n"
    "23 bits behind the point, RNE-10 to nearest even to 10.\n";

Json to_json(const std::vector<Choice>& choices) {
  Json json = Json::array();
  for (const Choice choice : choices) json.push_back(print(choice));
  return json;
}

bool ends_with_redval(const Instruction& instruction) {
  const FieldRules rules = fields_of(instruction);
  return std::ranges::find(rules, Field::redval, &FieldRule::field) != rules.end();
}

std::string print_arithmetic(const Instruction& instruction, Target target) {
  if (is_mma(instruction)) {
    return fmt::format("{}; {}", print_rule(model_for(instruction, target)),
                       print(evidence_of(instruction, target), target));
  }
  const bool is_documented = choices_of(instruction, target).empty();
  return fmt::format("{}; {}", ends_with_redval(instruction) ? "moves bits, and compares them" : "moves bits",
                     is_documented ? "as PTX documents it" : "model choice");
}

std::string print_evidence(const Instruction& instruction, Target target) {
  const bool decides = std::ranges::any_of(choices_of(instruction, target), is_arithmetic);
  return is_mma(instruction) || decides ? print(evidence_of(instruction, target), target) : "documented move of bits";
}

std::vector<Choice> choices_of(const VectorFile& vectors) {
  // No choice depends on the logical matrices beside a state, which take long to read.
  VectorFile states = known_part(vectors);
  for (const std::string_view name : logical_tensor_names) {
    if (vectors.has_state) states.file.erase(name);
  }
  std::vector<Choice> all;
  for (int64_t index = 0; index < states.cases; ++index) {
    const Case one = case_at(states, index);
    for (const Choice& choice : choices_of(one.instruction, one.target, one.before)) {
      if (std::ranges::find(all, choice) == all.end()) all.push_back(choice);
    }
  }
  return all;
}

namespace {

std::string print_duration(double seconds) {
  return seconds < 120    ? fmt::format("{:.0f} s", seconds)
         : seconds < 7200 ? fmt::format("{:.0f} minutes", seconds / 60)
                          : fmt::format("{:.0f} hours", seconds / 3600);
}

std::string print_gigabytes(double bytes) {
  return bytes < 1e12 ? fmt::format("{:.1f} GB", bytes / 1e9) : fmt::format("{:.1f} TB", bytes / 1e12);
}

}  // namespace

void announce_output(const Context& context, const std::string& path, int64_t cases, int threads,
                     const std::function<uint64_t()>& make_one) {
  constexpr int64_t few_cases = 64;
  constexpr double large_bytes = 500e6, long_seconds = 30, refused_bytes = 9e18;
  if (cases < few_cases) return;
  const double started = seconds_now();
  const double bytes = static_cast<double>(make_one()) * static_cast<double>(cases);
  const double seconds = (seconds_now() - started) * static_cast<double>(cases) / std::min(threads, hardware_threads());
  if ((bytes < large_bytes && seconds < long_seconds) || bytes > refused_bytes) return;
  context.terminal.err << fmt::format("{}: {}, {}, at most about {}\n", printable(path), counted(cases, "case"),
                                      print_gigabytes(bytes), print_duration(seconds));
}

ProgressLine::ProgressLine(const Context& context, std::string what, int64_t total)
    : context_(context), what_(std::move(what)), total_(total), started_(seconds_now()) {}

ProgressLine::~ProgressLine() {
  if (drawn_ > 0) context_.terminal.err << "\r\033[K" << std::flush;
}

void ProgressLine::update(int64_t done) {
  const double now = seconds_now();
  if (!context_.terminal.progress || now - started_ < 0.5 || now - drawn_ < 0.2) return;
  drawn_ = now;
  const double rate = static_cast<double>(done) / (now - started_);
  const double left = rate > 0 ? static_cast<double>(total_ - done) / rate : 0;
  context_.terminal.err << fmt::format("\r\033[K{}: {} of {}, {:.0f} cases/s, {:.0f} s left", what_, done,
                                       counted(total_, "case"), rate, left)
                        << std::flush;
}

}  // namespace bitmma::cli
