// SPDX-License-Identifier: MIT
#include "bitmma/analysis/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "arguments.hpp"
#include "bitmma/analysis/describe.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "recorded_file.hpp"

namespace bitmma::cli {
namespace {

struct DiagnoseFlags {
  Flag<std::string> expected, actual;
  FileFlags file;
  Flag<int64_t> max_cases = DiagnoseOptions{}.max_cases;
  Flag<int> max_findings = DiagnoseOptions{}.max_findings;
  Flag<bool> json = false, list = false, no_pairs = false;
};

/// The cases with their correct results, and the D to diagnose.
struct Request {
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  std::vector<Case> cases = {};
  std::vector<Matrix> wrong = {};
  Comparison outside = {};                   // what the wrong program changed outside D
  std::vector<InputDifference> inputs = {};  // differences between the inputs of the two files
  TensorFile file = {};                      // the states of the cases are views into it
};

[[noreturn]] void refuse(const std::string& path, std::string_view field, std::string seen, std::string expected,
                         std::string fix = {}) {
  throw Error({.field = fmt::format("{}: {}", path, field),
               .seen = std::move(seen),
               .expected = std::move(expected),
               .fix = std::move(fix)});
}

Request request_of(const WholeTile& right, const WholeTile& recorded) {
  Request request{.instruction = right.instruction, .target = right.target, .cases = right.cases};
  require_same_cases(recorded.file.path, print(right.instruction), static_cast<int64_t>(right.cases.size()),
                     print(recorded.instruction), static_cast<int64_t>(recorded.cases.size()));
  require_recorded(recorded);
  for (const Case& this_case : recorded.cases) request.wrong.push_back(*this_case.logical.d);
  request.inputs = different_inputs(right, recorded);
  return request;
}

/// The recorded D at the place of the right D: the instruction descriptor of a wrong program may give another shape.
/// Other changes in Tensor Memory are added to `outside`.
Matrix d_at_place_of(const Case& right, const Case& recorded, int64_t index, Comparison& outside) {
  if (!recorded.after || !right.has_state() || !has_instruction_descriptor(right.instruction))
    return recorded_d(recorded);
  Case placed{.instruction = right.instruction, .target = right.target, .before = recorded.before};
  State after = *recorded.after;
  for (const Buffer& buffer : right.before.buffers()) {
    if (!info(buffer.field()).is_number) continue;
    placed.before.set(buffer.field(), buffer.number());
    if (!after.has(buffer.field())) after.set(buffer.field(), buffer.number());
  }
  Matrix d = recorded_result(right.instruction, after);
  outside += compare_outside_d(placed, index, recorded.before, after);
  return d;
}

Request request_of(const VectorFile& vectors, const VectorFile& other) {
  require_mma(vectors.instruction, "bitmma verify names the first cell that differs");
  require_consistent(vectors);
  if (&vectors != &other) require_consistent(other);
  Request request{.instruction = vectors.instruction, .target = vectors.target};
  if (!other.has_recorded_d())
    refuse(other.file.path, fmt::format("tensor {}", other.d_tensor()), "(missing)", "the wrong D");
  require_same_cases(other.file.path, vectors.name(), vectors.cases, other.name(), other.cases);
  if (vectors.file.path != other.file.path) request.inputs = different_inputs(vectors, other);
  for (int64_t index = 0; index < vectors.cases; ++index) {
    Case this_case = case_at(vectors, index);
    if (this_case.has_state()) this_case.logical = {};  // the state takes precedence
    request.cases.push_back(std::move(this_case));
    const Case recorded = case_at(other, index);
    request.wrong.push_back(d_at_place_of(request.cases.back(), recorded, index, request.outside));
    // A logical d beside a state is a separate result.
    if (recorded.after && recorded.logical.d && computed_d(request.cases.back()) == request.wrong.back())
      request.wrong.back() = *recorded.logical.d;
  }
  return request;
}

/// The request for one file, or for two with the same inputs.
Request request_of_files(const Context& context, const DiagnoseFlags& flags, TensorFile file,
                         std::optional<TensorFile> other, bool wants_d) {
  const RecordedFile first = read_recorded(context, std::move(file), flags.file);
  if (const WholeTile* const tile = first.tile()) {
    if (!wants_d) return {.instruction = tile->instruction, .target = tile->target, .cases = tile->cases};
    if (!other) return request_of(*tile, *tile);
    const RecordedFile second = read_recorded(context, std::move(*other), flags.file);
    require_same_kind(first, second);
    return request_of(*tile, *second.tile());
  }
  const VectorFile& vectors = *first.vectors();
  Request request;
  if (!wants_d) {
    require_mma(vectors.instruction, "bitmma verify names the first cell that differs");
    request = {.instruction = vectors.instruction, .target = vectors.target};
    for (int64_t index = 0; index < std::min<int64_t>(vectors.cases, 64); ++index)
      request.cases.push_back(case_at(vectors, index));
  } else if (other) {
    const RecordedFile second = read_recorded(context, std::move(*other), flags.file);
    require_same_kind(first, second);
    request = request_of(vectors, *second.vectors());
    second.require_unchanged();
  } else {
    request = request_of(vectors, vectors);
  }
  vectors.require_unchanged();
  request.file = vectors.file;
  return request;
}

/// Reads two files with the same inputs, or one file.
Request read_request(const Context& context, const DiagnoseFlags& flags, bool wants_d) {
  TensorFile file = read_tensor_file(flags.expected);
  require_inputs(file, "diagnose");
  if (!wants_d || flags.actual.empty()) return request_of_files(context, flags, std::move(file), std::nullopt, wants_d);
  TensorFile other = read_tensor_file(flags.actual);
  const Tensor* const d = d_alone(other);
  if (!d) return request_of_files(context, flags, std::move(file), std::move(other), wants_d);
  require_same_instruction(file, other);
  return naming_file_of_d(*flags.expected, *flags.actual, [&] {
    return request_of_files(context, flags, with_d(std::move(file), *d), std::nullopt, wants_d);
  });
}

/// Wraps `text` at `width` characters, and indents all lines but the first by `indent` spaces.
std::string wrapped(const std::string& text, size_t width, size_t indent) {
  std::string lines;
  size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > 0 && column + 1 + word.size() > width) {
      lines += '\n' + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) lines += ' ', ++column;
    lines += word;
    column += word.size();
  }
  return lines;
}

/// Lists in 80 columns: id, what the wrong program does, and a hint, printed once for adjacent faults that share it.
void list_faults(Context& context, const DiagnoseFlags& flags, std::span<const Case> cases) {
  const std::vector<Fault> faults = fault_catalogue(cases);
  constexpr size_t columns = 80, id_columns = 26;
  Report list = Report::list();
  for (size_t i = 0; i < faults.size(); ++i) {
    const Fault& fault = faults[i];
    Report row = describe(fault);
    row.add_text(
        fmt::format("{:<{}}{}", fault.id + " ", id_columns, wrapped(fault.what, columns - id_columns, id_columns)));
    if (i + 1 == faults.size() || faults[i + 1].fix != fault.fix) {
      row.add_text(fmt::format("{:{}}look at: {}", "", id_columns,
                               wrapped(fault.fix, columns - id_columns - 9, id_columns + 9)));
    }
    list.append(std::move(row));
  }
  show(context, list, flags.json);
}

void run_diagnose(Context& context, const DiagnoseFlags& flags) {
  if (flags.list) {
    list_faults(context, flags, read_request(context, flags, false).cases);
    return;
  }
  const Request request = read_request(context, flags, true);
  const DiagnoseOptions options{
      .max_cases = flags.max_cases, .max_findings = flags.max_findings, .pairs = !flags.no_pairs};
  const Diagnosis diagnosis = diagnose(request.cases, request.wrong, options);
  Comparison comparison;
  for (size_t i = 0; i < request.wrong.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    comparison +=
        compare_case(request.cases[i].instruction, index, faulty_d(request.cases, index, {}), request.wrong[i]);
  }
  comparison += request.outside;
  context.exit_code = comparison.mismatches == 0 && request.inputs.empty() ? exit_same : exit_differs;
  Report report{{"instruction", print(request.instruction)}, {"target", print(request.target)}};
  report.add_text(fmt::format("{}\ntarget: {}", print(request.instruction), print(request.target)));
  report.update(describe(request.inputs, diagnosis.cases));
  report.update(describe(diagnosis, comparison, request.instruction));
  report.add("outside_d", comparison.outside_d);
  show(context, report, flags.json);
}

}  // namespace

void add_diagnose(Command& app, Context& context) {
  Command* command = app.add_command("diagnose", "find the mistake that explains wrong bits");
  const auto flags = std::make_shared<DiagnoseFlags>();
  command->add_input("expected", flags->expected, "vector file with the inputs, from which D is recomputed")
      ->required();
  command->add_input(
      "actual", flags->actual,
      "vector file with the same cases and the wrong D, or with only the wrong D; default: the D of the first file");
  flags->file.add(*command);
  flags->file.add_types(*command);
  command
      ->add_option("--cases", flags->max_cases,
                   "search faults in at most this many wrong cases; all cases are compared")
      ->capture_default_str();
  between(command->get_option("--cases"), 1, 64);
  command->add_option("--findings", flags->max_findings, "show at most this many faults")->capture_default_str();
  between(command->get_option("--findings"), 1, 100);
  command->add_flag("--no-pairs", flags->no_pairs, "try only single faults, not pairs");
  command->add_flag("--list", flags->list, "list the faults that are possible in this file");
  command->add_flag("--json", flags->json, "print the result as JSON");
  command->footer(
      "Examples:\n  bitmma diagnose golden.safetensors from_kernel.safetensors\n  bitmma diagnose "
      "dump_with_wrong_d.safetensors --json\n  bitmma diagnose golden.safetensors --list  # which faults it "
      "tries\nPlain matrices that need several instructions, with one D after all of K, are a whole tile.\nIf the "
      "cases of a file may be the steps of one loop over K, diagnose also tries sums of them. Exit code 1 if anything "
      "is wrong or the inputs of the files differ.");
  command->callback([flags, &context] { run_diagnose(context, *flags); });
}

}  // namespace bitmma::cli
