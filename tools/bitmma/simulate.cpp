// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "arguments.hpp"
#include "bitmma/analysis/describe.hpp"
#include "bitmma/analysis/lint.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "recorded_file.hpp"
#include "test_bench.hpp"

namespace bitmma::cli {
namespace {

struct SimulateFlags {
  Flag<std::vector<std::string>> files;
  Flag<std::string> out;
  FileFlags file;
  LayoutFlags layouts;
  BenchFlag bench;
  Flag<std::optional<int64_t>> show_case = {};
  Flag<std::string> after;  // the file with the previous state
  Flag<int> rows = 8, cols = 8;
  Flag<bool> hex = false, lint = false, json = false, replace_d = false;
  Flag<int> threads = 1;
};

/// The meaning of a result's rows and columns: of a matrix, or of the words that a move writes to registers or Tensor
/// Memory.
struct AxisNames {
  std::string_view row = "row", col = "col";
};

AxisNames axis_names(const Case& one) {
  if (is_mma(one.instruction)) return {};
  const Place first = PlaceMap(one.instruction, one.target, one.before, Role::d).place_of(0, 0);
  if (std::holds_alternative<RegisterPlace>(first)) return {.row = "thread", .col = "register"};
  return {.row = "lane", .col = "column"};
}

/// D as a table, and all its codes as data. With `is_words` the words of a move; the last column may be redval.
void add_d(Report& report, const SimulateFlags& flags, const Matrix& d, const AxisNames& names = {},
           bool is_words = false, bool has_redval = false) {
  if (flags.json) {  // all of it, regardless of the limits for text
    Report codes = Report::list();
    for (int row = 0; row < d.rows(); ++row) {
      Report line = Report::list();
      for (int col = 0; col < d.cols(); ++col) line.append(d.code(row, col));
      codes.append(std::move(line));
    }
    report.add("d", {{"format", info(d.format()).name}, {"codes", std::move(codes)}});
    return;
  }
  const int rows = std::min(*flags.rows, d.rows()), cols = std::min(*flags.cols, d.cols());
  std::vector<std::vector<std::string>> table(1, {is_words ? "" : "D"});
  for (int col = 0; col < cols; ++col) {
    const bool is_redval = has_redval && col == d.cols() - 1;
    table[0].push_back(is_redval ? "redval" : fmt::format("{} {}", names.col, col));
  }
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string>& line = table.emplace_back(1, fmt::format("{} {}", names.row, row));
    for (int col = 0; col < cols; ++col) {
      const uint64_t code = d.code(row, col);
      line.push_back(flags.hex || is_words ? print_bits(d.format(), code) : print_value(d.format(), code));
    }
  }
  report.add_text(table);
  if (rows < d.rows() || cols < d.cols()) {
    report.add_text(
        fmt::format("({} x {} of {} x {}; --rows, --cols and --hex show more)", rows, cols, d.rows(), d.cols()));
  }
}

/// The numeric operands of a case: descriptors, addresses, and immediates that may differ between cases.
std::string print_operands(const Case& one) {
  std::string text;
  const auto add = [&](std::string_view name, ElementType type, uint64_t number) {
    const std::string digits =
        type == ElementType::u8 ? fmt::format("{}", number) : fmt::format("{:#0{}x}", number, 2 * bytes_of(type) + 2);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, digits);
  };
  if (!one.has_state()) return text;
  for (const FieldRule& rule : fields_of(one.instruction)) {
    const FieldInfo& row = info(rule.field);
    if (row.is_number && one.before.has(rule.field)) add(row.name, row.type, one.before.number(rule.field));
  }
  for (const ImmediateInfo& row : immediates_of(one.instruction)) {
    if (!row.by_case) continue;
    add(row.name, row.type, static_cast<uint64_t>(immediate_of(one.instruction, row.name)));
  }
  return text;
}

/// Shape and types, if the mnemonic does not have them, and scales.
std::string print_shape_and_types(const Instruction& instruction) {
  if (!is_mma(instruction)) return "";
  const Mma mma = mma_of(instruction);
  std::string text;
  if (has_instruction_descriptor(instruction)) {
    text = fmt::format("M = {}, N = {}, K = {}; D {}, A {}, B {}\n", mma.m, mma.n, mma.k, info(mma.d).name,
                       info(mma.a).name, info(mma.b).name);
  }
  if (mma.scale_count > 0) {
    text +=
        fmt::format("scales: {} {} for each row of A and column of B\n", mma.scale_count, info(mma.scale_type).name);
  }
  return text;
}

/// Compares the recorded D with the computed one; nothing if none is recorded.
std::optional<Comparison> recorded_comparison(Context& context, const SimulateFlags& flags, const VectorFile& vectors,
                                              const std::optional<UnrolledK>& loop) {
  if (loop) return loop->recorded;  // this program computed the D of its steps
  if (!vectors.has_recorded_d()) return std::nullopt;
  ProgressLine progress(context, vectors.file.path, vectors.cases);
  return verify(vectors, flags.threads, progress.from(0));
}

/// The case to show: for a K loop its last step.
int64_t shown_case(const SimulateFlags& flags, const VectorFile& vectors, int64_t steps) {
  const int64_t index = flags.show_case.value_or(steps > 0 ? steps - 1 : 0);
  require_case(vectors, index);
  return index;
}

/// Adds the comparison with the recorded D.
void add_recorded(Report& report, const Comparison& comparison, const std::string& source, bool is_loop) {
  report.add("recorded", {{"outputs", comparison.outputs}, {"mismatches", comparison.mismatches}, {"source", source}});
  const std::string of = is_loop ? source + ", of the whole K" : source,
                    outputs = counted(comparison.outputs, "output");
  if (comparison.mismatches == 0) {
    report.add_text(
        fmt::format("all {} of {} match the recorded D ({})", outputs, counted(comparison.cases, "case"), of),
        Tone::good);
  } else {
    report.add_text(fmt::format("{} of {} {} from the recorded D ({})", comparison.mismatches, outputs,
                                differ(comparison.mismatches), of),
                    Tone::bad);
    report.add_text(print(*comparison.first));
  }
}

/// A file to simulate, and how.
struct Simulated {
  VectorFile vectors = {};
  std::string source = {};  // the origin of the recorded D
  std::optional<UnrolledK> loop = {};
  int64_t steps = 0;  // instructions of a K loop, which together make one D; 0 for other files
  std::vector<Violation> warnings = {};
};

/// Warnings about the results that --after drops, because they belong to another initial state.
std::vector<Violation> left_out(const TensorFile& own, const TensorFile& with_state) {
  std::vector<Violation> found;
  const auto look_at = [&](std::string_view name) {
    if (name.empty() || !own.find(name) || with_state.find(name)) return;
    const std::string field = fmt::format("{}: tensor {}", own.path, name);
    if (std::ranges::find(found, field, &Violation::field) != found.end()) return;  // fields may share a name
    found.push_back({.code = ViolationCode::unread_argument,
                     .field = field,
                     .seen = "recorded for another initial state: neither compared nor written",
                     .fix = "to record D for this state, start from a file without results",
                     .severity = Severity::warning});
  };
  look_at("d");
  for (const FieldInfo& field : state_fields) look_at(field.after);
  return found;
}

Report describe_case(Context& context, const SimulateFlags& flags, const Simulated& simulated) {
  const VectorFile& vectors = simulated.vectors;
  const std::optional<UnrolledK>& loop = simulated.loop;
  const int64_t steps = simulated.steps;
  const int64_t index = shown_case(flags, vectors, steps);
  const Case one = case_at(vectors, index);
  const std::string arithmetic = print_arithmetic(vectors.instruction, vectors.target);
  const std::vector<Choice> choices = choices_of(vectors);
  Report report{{"file", vectors.file.path}, {"instruction", vectors.name()},   {"case", index},
                {"cases", vectors.cases},    {"target", print(vectors.target)}, {"arithmetic", arithmetic}};
  report.add_text(
      fmt::format("{}, case {} of {}\ntarget: {}", vectors.name(), index, vectors.cases, print(vectors.target)));
  if (steps > 0) {
    report.add("k_loop", steps);
    report.add_text(fmt::format("K loop: {} instructions per tile; C of each is D of the previous one", steps));
  }
  if (is_mma(one.instruction)) {
    const Mma mma = mma_of(one.instruction);
    report.update({{"m", mma.m},
                   {"n", mma.n},
                   {"k", mma.k},
                   {"a_type", info(mma.a).name},
                   {"b_type", info(mma.b).name},
                   {"d_type", info(mma.d).name}});
  }
  for (const std::string& line : {print_shape_and_types(one.instruction), print_operands(one)}) {
    if (!line.empty()) report.add_text(line);
  }
  report.add_text("arithmetic: " + arithmetic);
  report.add("chosen", describe(choices));
  for (const Choice choice : choices) report.add_text(fmt::format("chosen: {}", print(choice)));
  const std::vector<Violation> warnings = warnings_of(one);
  report.add("warnings", warnings);
  add_d(report, flags, computed_d(one), axis_names(one), !is_mma(one.instruction), ends_with_redval(one.instruction));
  if (const std::optional<Comparison> recorded = recorded_comparison(context, flags, vectors, loop)) {
    add_recorded(report, *recorded, simulated.source, loop.has_value());
    if (recorded->mismatches > 0) context.exit_code = exit_differs;
  }
  if (!flags.json) print_warnings(context, warnings);
  return report;
}

/// Suspicious points of all cases, each listed once with the number of its cases.
std::vector<std::pair<Violation, int64_t>> lint_findings(const VectorFile& vectors) {
  std::vector<std::pair<Violation, int64_t>> found;
  for (int64_t index = 0; index < vectors.cases; ++index) {
    for (Violation& finding : lint(case_at(vectors, index))) {
      const auto same = std::ranges::find_if(found, [&](const auto& entry) {
        return entry.first.field == finding.field && entry.first.fix == finding.fix;
      });
      if (same == found.end()) found.emplace_back(std::move(finding), 1);
      else ++same->second;
    }
  }
  return found;
}

/// The file for the GPU that --target requests, if the file names another one. Its recorded D is for its own target.
std::optional<TensorFile> on_other_target(const TensorFile& file, std::optional<Target> asked) {
  const std::string* named = file.find_metadata("target");
  const std::optional<Target> own = named ? target_meant_by(*named) : std::nullopt;
  if (!own || !asked || own == asked) return std::nullopt;
  TensorFile other = file;
  other.set_metadata("target", std::string(print(*asked)));
  other.erase("d");
  for (const FieldInfo& field : state_fields)
    if (!field.after.empty()) other.erase(field.after);
  return other;
}

void run_lint(Context& context, const SimulateFlags& flags, const std::vector<std::string>& files) {
  Report list = Report::list();
  for (const std::string& path : files) {
    TensorFile file = read_tensor_file(path);
    std::optional<TensorFile> elsewhere = on_other_target(file, flags.file.target.asked());
    const bool is_elsewhere = elsewhere.has_value();
    if (elsewhere) file = std::move(*elsewhere);
    const VectorFile vectors = flags.file.read(std::move(file));
    const auto found = lint_findings(known_part(vectors));
    vectors.require_unchanged();
    const std::string cases_of_file = counted(vectors.cases, "case");
    for (const auto& [finding, cases] : found) {
      context.exit_code = exit_differs;
      Report one{{"file", path}, {"target", print(vectors.target)}, {"cases", cases}};
      one.update(std::move(Report(std::vector{finding})[0]));
      list.append(std::move(one));
      list.add_text(fmt::format("{}: suspicious: {} ({} of {})", printable(path), print(finding), cases, cases_of_file),
                    Tone::warning);
    }
    if (found.empty()) {
      list.add_text(fmt::format("{}: nothing suspicious in {}{}", printable(path), cases_of_file,
                                is_elsewhere ? fmt::format(" on {}", print(vectors.target)) : ""));
    }
  }
  show(context, list, flags.json);
}

/// `target` applies if the file does not name one.
Simulated simulated(const SimulateFlags& flags, TensorFile file, std::optional<Target> target) {
  VectorFileDefaults defaults = flags.file.defaults();
  defaults.target = target;
  const std::string* const named = file.find_metadata("source");
  try {
    Simulated result;
    result.source = named ? printable(*named) : "unknown";
    if (!flags.after.empty()) {
      TensorFile with_state = after(read_vector_file(flags.after), file, defaults);
      result.warnings = left_out(file, with_state);
      file = std::move(with_state);
    }
    result.loop = unroll_k(file, defaults, flags.layouts.placement());
    result.vectors = as_vector_file(result.loop ? result.loop->file : std::move(file), defaults);
    result.steps = unrolled_steps(result.vectors);
    return result;
  } catch (const Error& error) {
    throw flags.file.in_flags(error);
  }
}

/// A tile that spans M and N of several instructions; nothing for other files. A loop over K with the M and N of one
/// instruction is not a tile: its steps become cases of a vector file.
std::optional<WholeTile> tile_of(const SimulateFlags& flags, const TensorFile& file, std::optional<Target> target) {
  const bool has_state =
      std::ranges::any_of(state_fields, [&](const FieldInfo& field) { return file.find(field.name) != nullptr; });
  if (has_state || !flags.after.empty()) return std::nullopt;
  VectorFileDefaults defaults = flags.file.defaults();
  defaults.target = target;
  try {
    std::optional<WholeTile> tile = whole_tile(file, defaults);
    if (!tile) return std::nullopt;
    const Mma one = mma_of(tile->instruction);
    const LogicalMatrices& whole = tile->cases.front().logical;
    return whole.a->rows() == one.m && whole.b->cols() == one.n ? std::nullopt : std::move(tile);
  } catch (const Error& error) {
    throw flags.file.in_flags(error);
  }
}

/// The case to show.
int64_t shown_case(const SimulateFlags& flags, const WholeTile& tile) {
  const int64_t index = flags.show_case.value_or(0), cases = static_cast<int64_t>(tile.cases.size());
  if (index >= 0 && index < cases) return index;
  throw Error({.field = "--case", .seen = std::to_string(index), .expected = fmt::format("0..{}", cases - 1)});
}

Report describe_tile(Context& context, const SimulateFlags& flags, const WholeTile& tile) {
  const int64_t index = shown_case(flags, tile);
  const Mma one = mma_of(tile.instruction);
  const LogicalMatrices& whole = tile.cases[static_cast<size_t>(index)].logical;
  const int m = whole.a->rows(), n = whole.b->cols(), k = whole.b->rows();
  const std::string arithmetic = print_arithmetic(tile.instruction, tile.target);
  const std::vector<Choice> choices = choices_of(tile.instruction, tile.target);
  Report report{{"file", tile.file.path},
                {"instruction", print(tile.instruction)},
                {"case", index},
                {"cases", static_cast<int64_t>(tile.cases.size())},
                {"target", print(tile.target)},
                {"arithmetic", arithmetic},
                {"m", m},
                {"n", n},
                {"k", k},
                {"steps", tile.steps()},
                {"a_type", info(one.a).name},
                {"b_type", info(one.b).name},
                {"d_type", info(one.d).name},
                {"chosen", describe(choices)}};
  report.add_text(fmt::format("{}, case {} of {}\ntarget: {}", print(tile.instruction), index, tile.cases.size(),
                              print(tile.target)));
  report.add_text(fmt::format(
      "whole tile: {} x {} x {} in {} x {} blocks of {} x {}, {} of K = {} each; C of each is D of the previous one", m,
      n, k, m / one.m, n / one.n, one.m, one.n, counted(tile.steps(), "instruction"), one.k));
  report.add_text("arithmetic: " + arithmetic);
  for (const Choice choice : choices) report.add_text(fmt::format("chosen: {}", print(choice)));
  add_d(report, flags, computed_d(tile, index, flags.threads));
  if (tile.has_recorded_d()) {
    const Comparison recorded = verify(tile, flags.threads);
    add_recorded(report, recorded, tile.source(), false);
    if (recorded.mismatches > 0) context.exit_code = exit_differs;
  }
  return report;
}

/// Adds `there` to `report`, with a comparison of the results of the two targets.
void add_other_target(Report& report, Report there, const Comparison& comparison, Target own, Target other) {
  Report compared{{"outputs", comparison.outputs}, {"mismatches", comparison.mismatches}};
  there.lines.insert(there.lines.begin(), Report::Line{});
  std::ranges::move(there.lines, std::back_inserter(report.lines));
  report.add("on_target", std::move(there));
  report.add("between_targets", std::move(compared));
  report.add_text(fmt::format("\n{} of {} {} between {} and {}", comparison.mismatches,
                              counted(comparison.outputs, "output"), differ(comparison.mismatches), print(own),
                              print(other)));
  if (comparison.first) report.add_text("first: " + print(*comparison.first));
}

/// Both results, and the number of differing outputs.
Report describe_two_targets(Context& context, const SimulateFlags& flags, const Simulated& own,
                            const Simulated& other) {
  Report report = describe_case(context, flags, own);
  Report there = describe_case(context, flags, other);
  Comparison comparison;
  for (int64_t index = 0; index < own.vectors.cases; ++index) {
    const Case x = case_at(own.vectors, index), y = case_at(other.vectors, index);
    comparison += compare_case(x.instruction, index, computed_d(x), computed_d(y));
  }
  add_other_target(report, std::move(there), comparison, own.vectors.target, other.vectors.target);
  return report;
}

/// Prints on stderr how a recorded D compares, if no report is shown. True if it is equal, or if there is none.
bool is_recorded_d_same(Context& context, const std::string& path, const std::string& source,
                        const std::optional<Comparison>& recorded) {
  if (!recorded || recorded->mismatches == 0) return true;
  context.exit_code = exit_differs;
  context.terminal.err << fmt::format("{}: {} of {} {} from the recorded D ({}): {}\n", printable(path),
                                      recorded->mismatches, counted(recorded->outputs, "output"),
                                      differ(recorded->mismatches), source, print(*recorded->first));
  return false;
}
bool is_recorded_d_same(Context& context, const SimulateFlags& flags, const Simulated& one) {
  return is_recorded_d_same(context, one.vectors.file.path, one.source,
                            recorded_comparison(context, flags, one.vectors, one.loop));
}

/// Throws Error if `output` is a file with a D that this program did not compute: it would be lost.
void require_no_loss(const std::string& output, const std::string& input) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(output, error)) return;
  TensorFile old;
  try {
    old = read_tensor_file(output);
  } catch (const Error&) {
    return;  // it contains no results
  }
  const bool has_result = old.find("d") || std::ranges::any_of(state_fields, [&](const FieldInfo& field) {
                            return !field.after.empty() && old.find(field.after);
                          });
  const std::string* source = old.find_metadata("source");
  const bool is_own = source ? source->starts_with("bitmma ") : std::filesystem::equivalent(output, input, error);
  if (!has_result || is_own) return;
  throw Error({.code = ViolationCode::would_replace,
               .field = output,
               .seen = fmt::format("a file with a D of {}", source ? printable(*source) : "unknown source"),
               .expected = "another name",
               .fix = "--replace-d replaces it"});
}

/// False, with a line on stderr, if `output` would replace a recorded D that differs.
bool may_write(Context& context, const SimulateFlags& flags, const std::string& output, bool is_same) {
  if (is_same || *flags.replace_d) return true;
  context.terminal.err << fmt::format("{}: not written: the recorded D would be lost; --replace-d replaces it\n",
                                      printable(output));
  return false;
}

/// Shows D of a tile, or writes it beside the matrices. `elsewhere` is the tile on the GPU that --target requests.
std::optional<Report> simulate_tile(Context& context, const SimulateFlags& flags, const WholeTile& own,
                                    const std::optional<WholeTile>& elsewhere, const std::string& output) {
  constexpr std::string_view of_one =
      "only cases of one instruction have images and operands; for a whole tile only D is computed";
  flags.layouts.require_used(of_one, false, false);
  if (flags.bench.is_given())
    throw Error({.code = ViolationCode::not_together,
                 .field = "--format",
                 .seen = "a whole tile of several instructions",
                 .expected = "cases of one instruction",
                 .fix = "save the matrices of each instruction as a case"});
  if (output.empty()) {
    Report report = describe_tile(context, flags, own);
    if (!elsewhere) return report;
    Comparison comparison;
    for (size_t i = 0; i < own.cases.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      comparison += compare_case(own.instruction, index, computed_d(own, index, flags.threads),
                                 computed_d(*elsewhere, index, flags.threads));
    }
    add_other_target(report, describe_tile(context, flags, *elsewhere), comparison, own.target, elsewhere->target);
    return report;
  }
  if (!*flags.replace_d) require_no_loss(output, own.file.path);
  const auto recorded = own.has_recorded_d() ? std::optional(verify(own, flags.threads)) : std::nullopt;
  if (!may_write(context, flags, output, is_recorded_d_same(context, own.file.path, own.source(), recorded)))
    return std::nullopt;
  const WholeTile& tile = elsewhere ? *elsewhere : own;
  context.require_flags_acted();
  write_tensor_file(output, with_simulated_d(tile, flags.threads));
  context.terminal.err << fmt::format("{}: {}, D of whole tiles by {} on {} ({})\n", printable(output),
                                      counted(static_cast<int64_t>(tile.cases.size()), "case"), print(tile.instruction),
                                      print(tile.target), print_arithmetic(tile.instruction, tile.target));
  return std::nullopt;
}

/// Computes one case and returns its bytes in the output file (slightly fewer if D is new).
uint64_t bytes_of_a_case(const VectorFile& vectors) {
  static_cast<void>(computed_d(case_at(vectors, 0)));
  uint64_t bytes = 0;
  for (const Tensor& tensor : vectors.file.tensors) bytes += tensor.bytes.size();
  return bytes / static_cast<uint64_t>(vectors.cases);
}

void simulate_all(Context& context, const SimulateFlags& flags, const std::vector<std::string>& files) {
  if (flags.lint) {
    run_lint(context, flags, files);
    return;
  }
  const bool arrays = are_arrays(files);  // a.npy, b.npy and c.npy are one file
  const std::vector<std::string> names = arrays ? std::vector{files.front()} : files;
  const std::vector<std::string> outputs =
      flags.out.empty() ? std::vector<std::string>{} : output_paths(names, flags.out);
  if (flags.bench.is_given() && names.size() > 1 && outputs.empty()) {
    throw Error({.field = "files",
                 .seen = fmt::format("{} with --format", names.size()),
                 .expected = "one file, or a folder for the outputs of several",
                 .fix = "-o FOLDER"});
  }
  if (flags.json && (flags.bench.is_given() || !outputs.empty())) {
    throw Error({.code = ViolationCode::not_together,
                 .field = "--json",
                 .seen = outputs.empty() ? "--format" : "-o",
                 .expected = "--json prints what is shown on the screen",
                 .fix = "--format jsonl writes all cases as JSON lines"});
  }
  for (const std::string& output : outputs) {
    if (!flags.bench.is_given()) require_tensor_file_name(output);
    else if (flags.out.get() == output) require_text_file_name(output, "." + *flags.bench.name);
  }
  Report shown = Report::list();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& path = names[i];
    const TensorFile file = arrays ? read_arrays(files) : read_tensor_file(path);
    const std::optional<Target> asked = flags.file.target.asked();
    const std::optional<TensorFile> elsewhere = on_other_target(file, asked);
    if (const std::optional<WholeTile> tile = tile_of(flags, file, elsewhere ? std::nullopt : asked)) {
      warn_of_converted_d(context, file, tile->instruction);
      std::optional<Report> report =
          simulate_tile(context, flags, *tile, elsewhere ? tile_of(flags, *elsewhere, asked) : std::nullopt,
                        outputs.empty() ? std::string() : outputs[i]);
      if (report && names.size() > 1 && !flags.json) context.out() << printable(path) << '\n';
      if (report && flags.json) shown.append(std::move(*report));
      else if (report) show(context, *report, false);
      continue;
    }
    const Simulated own = simulated(flags, file, elsewhere ? std::nullopt : asked);
    if (!own.loop) require_consistent(own.vectors, flags.threads);
    print_warnings(context, own.warnings);
    warn_of_converted_d(context, file, own.vectors.instruction);
    const Simulated one = elsewhere ? simulated(flags, *elsewhere, asked) : own;
    const VectorFile& vectors = one.vectors;
    const std::optional<UnrolledK>& loop = one.loop;
    if (flags.bench.is_given()) flags.layouts.require_used("--format writes operands, not images", false, false);
    else if (loop) flags.layouts.require_used_by(vectors.instruction);
    else if (vectors.has_state)
      flags.layouts.require_used(printable(path) + " has its own images, descriptors or registers", false, false);
    else if (outputs.empty()) flags.layouts.require_used("without -o FILE no image is made", false, false);
    else flags.layouts.require_used_by(vectors.instruction);
    if (flags.bench.is_given()) {
      const auto write = [&](std::ostream& out) {
        write_bench_header(out, flags.bench.format(), vectors.instruction, vectors.target);
        write_bench(out, flags.bench.format(), vectors, 0);
        vectors.require_unchanged();
      };
      is_recorded_d_same(context, flags, own);
      context.require_flags_acted();
      if (outputs.empty()) write(context.out());
      else write_whole(outputs[i], write);
      continue;
    }
    if (outputs.empty()) {
      Report report = elsewhere ? describe_two_targets(context, flags, own, one) : describe_case(context, flags, one);
      if (names.size() > 1 && !flags.json) context.out() << printable(path) << '\n';
      if (flags.json) shown.append(std::move(report));
      else show(context, report, false);
      continue;
    }
    const std::string& output = outputs[i];
    if (!*flags.replace_d) require_no_loss(output, path);
    if (!may_write(context, flags, output, is_recorded_d_same(context, flags, own))) continue;
    print_warnings(context, warnings_of(case_at(vectors, 0)));
    announce_output(context, output, vectors.cases, flags.threads, [&] { return bytes_of_a_case(vectors); });
    context.require_flags_acted();
    {
      ProgressLine progress(context, path, vectors.cases);
      write_simulated(output, vectors, flags.layouts.placement(), flags.threads, progress.from(0));
    }
    context.terminal.err << fmt::format("{}: {}, D by {} on {} ({})\n", printable(output),
                                        counted(vectors.cases, "case"), vectors.name(), print(vectors.target),
                                        print_arithmetic(vectors.instruction, vectors.target));
  }
  if (flags.json) show(context, shown, true);
}

void run_simulate(Context& context, const SimulateFlags& flags) {
  std::vector<std::string> files = vector_files(flags.files);
  // Check that all named files exist before showing results. A dangling link below a folder does not end the run.
  std::vector<Violation> dangling;
  std::erase_if(files, [&](const std::string& path) {
    try {
      require_file(path);
    } catch (const Error& error) {
      if (std::ranges::find(flags.files, path) != flags.files.end()) throw;
      std::ranges::copy(error.violations(), std::back_inserter(dangling));
      return true;
    }
    return false;
  });
  if (files.empty()) throw Error(std::move(dangling));
  simulate_all(context, flags, files);
  if (!dangling.empty()) throw Error(std::move(dangling));
}

}  // namespace

void add_simulate(Command& app, Context& context) {
  Command* command = app.add_command("simulate", "compute D of every case of a vector file");
  const auto flags = std::make_shared<SimulateFlags>();
  command
      ->add_option("files", flags->files,
                   "vector files (safetensors or .npz): images and descriptors, or plain matrices a, b, c; or a.npy, "
                   "b.npy and c.npy")
      ->required();
  command->add_option("-o,--output", flags->out, "file to write, or folder for several files; default: show D");
  flags->file.add(*command);
  flags->file.add_types(*command);
  flags->layouts.add(*command);
  flags->bench.add(*command);
  command->add_option("--after", flags->after, "file with results: start from the state after its instruction");
  command->add_option("--case", flags->show_case, "case to show; default: 0, or the last step of a K loop");
  command->add_option("--rows", flags->rows, "number of rows of D to show")->capture_default_str();
  between(command->get_option("--rows"), 1, 1 << 24);
  command->add_option("--cols", flags->cols, "number of columns of D to show")->capture_default_str();
  between(command->get_option("--cols"), 1, 1 << 24);
  command->add_flag("--hex", flags->hex, "show bits instead of values");
  command->add_flag("--replace-d", flags->replace_d,
                    "with -o: replace a recorded D that differs, and overwrite a file whose D is from hardware");
  command->add_flag("--lint", flags->lint,
                    "report what is legal but suspicious, without computing D; exit code 1 if anything is");
  command->add_flag("--json", flags->json, "print JSON with all of D as codes; with --lint, print the findings");
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n  bitmma simulate case.safetensors                     # show D, and whether it matches a recorded "
      "one\n  bitmma simulate case.safetensors -o out.safetensors  # write D beside the inputs\n  bitmma simulate "
      "numpy.safetensors --layout-b mn-major:64 -o out.safetensors\n  bitmma simulate case.safetensors --lint\n  "
      "bitmma simulate mma_sync.safetensors --target sm_90a  # the same operands on another GPU, side by side\n  "
      "bitmma simulate a.npy b.npy --instruction tcgen05.mma.cta_group::1.kind::f16\n  bitmma simulate "
      "case.safetensors --format csv\n  bitmma simulate next.safetensors --after mma.safetensors -o d.safetensors  # "
      "starts from the state after the mma\nPlain matrices with M and N of several instructions are a whole tile with "
      "one D; -o writes D and the matrices.\nIf K of plain matrices is longer than the instruction's, they are a K "
      "loop over one tile: the output file has a case for each step, with advancing descriptors. The layouts apply "
      "only to files with only plain matrices. A recorded D is compared first. If it differs, -o writes nothing and "
      "the exit code is 1, unless --replace-d is given.");
  command->callback([flags, &context] { run_simulate(context, *flags); });
}

}  // namespace bitmma::cli
