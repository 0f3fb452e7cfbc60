// SPDX-License-Identifier: MIT
#include "bitmma/analysis/simulate_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/analysis/lint.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

/// Warnings about the results that `after` drops, because they belong to another initial state.
std::vector<Violation> left_out(const TensorFile& own, const TensorFile& with_state) {
  std::vector<Violation> warnings;
  for (const std::string_view name : results_of(own)) {
    if (with_state.find(name)) continue;
    warnings.push_back({.code = ViolationCode::unread_argument,
                        .field = fmt::format("{}: tensor {}", own.path, name),
                        .seen = "recorded for another initial state: neither compared nor written",
                        .fix = "to record D for this state, start from a file without results",
                        .severity = Severity::warning});
  }
  return warnings;
}

/// The file for the GPU that the request names, if the file names another one. Its recorded D is for its own target.
std::optional<TensorFile> on_other_target(const TensorFile& file, std::optional<Target> target) {
  const std::string* const named = file.find_metadata("target");
  const std::optional<Target> own = named ? target_meant_by(*named) : std::nullopt;
  if (!own || !target || own == target) return std::nullopt;
  TensorFile other = without_results(file);
  other.set_metadata("target", std::string(print(*target)));
  return other;
}

/// The file and, if they were unrolled, its K loops. `warnings` gets those about results that are left out.
SimulatedFile read(TensorFile file, const VectorFileDefaults& defaults, const SimulateRequest& request,
                   std::vector<Violation>& warnings) {
  if (!request.after.empty()) {
    TensorFile with_state = after(read_vector_file(request.after), file, defaults);
    warnings = left_out(file, with_state);
    return {.file = as_vector_file(std::move(with_state), defaults)};
  }
  const bool has_state =
      std::ranges::any_of(state_fields, [&](const FieldInfo& field) { return file.find(field.name) != nullptr; });
  // One D for all steps of images with descriptors is compared, and not computed.
  if (has_state) return {.file = as_vector_file(std::move(file), defaults)};
  VectorFile tiled = as_tiled_file(std::move(file), defaults);
  if (!is_k_loop(tiled)) return {.file = std::move(tiled)};
  VectorFile steps = unroll_k(tiled, request.placement);
  return {.file = std::move(steps), .loops = std::move(tiled)};
}

struct DescribedCase {
  Report report = {};
  std::vector<Violation> warnings = {};
};

DescribedCase describe_case(const VectorFile& vectors, const ShownCase& shown) {
  const int64_t steps = unrolled_steps(vectors), index = shown.index.value_or(steps > 0 ? steps - 1 : 0);
  if (index < 0 || index >= vectors.cases)
    throw Error({.field = "case", .seen = std::to_string(index), .expected = fmt::format("0..{}", vectors.cases - 1)});
  DescribedCase described{.report = describe(vectors, index, shown.d, shown.threads)};
  if (vectors.tiling.is_one_instruction()) described.warnings = warnings_of(case_at(vectors, index));
  return described;
}

/// Throws Error if `path` is a file with a D that this program did not compute: it would be lost.
void require_no_loss(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;
  TensorFile old;
  try {
    old = read_tensor_file(path);
  } catch (const Error&) {
    return;  // it contains no results
  }
  const std::string* const source = old.find_metadata("source");
  const bool is_own = source && source->starts_with("bitmma ");
  if (results_of(old).empty() || is_own) return;
  throw Error({.code = ViolationCode::would_replace,
               .field = path,
               .seen = fmt::format("a file with a D of {}", source ? printable(*source) : "unknown source"),
               .expected = "another name",
               .fix = "--replace-d replaces it"});
}

}  // namespace

SimulatedFile simulate_file(TensorFile file, const SimulateRequest& request, const FileEvents& events) {
  std::optional<TensorFile> other = on_other_target(file, request.file.target);
  VectorFileDefaults own = request.file;
  if (other) own.target.reset();
  std::vector<Violation> warnings, repeated;
  SimulatedFile simulated = read(file, own, request, warnings);
  if (simulated.file.tiling.is_one_instruction() && !simulated.loops)
    require_consistent(simulated.file, request.threads);
  if (events.warn) events.warn(warnings);
  warn_of_converted_d(file, simulated.file.instruction, events);
  if (other) simulated.on_target = read(std::move(*other), request.file, request, repeated).file;
  return simulated;
}

LayoutUse layouts_used(const SimulatedFile& simulated, bool makes_images) {
  const VectorFile& vectors = simulated.output();
  if (!vectors.tiling.is_one_instruction())
    return {.why = "only cases of one instruction have images and operands; for a whole tile only D is computed"};
  if (simulated.loops) return layouts_used_by(vectors.instruction);
  if (vectors.has_state) return {.why = printable(vectors.file.path) + " has its own images, descriptors or registers"};
  if (!makes_images) return {.why = "without -o FILE no image is made"};
  return layouts_used_by(vectors.instruction);
}

std::optional<Comparison> compare_recorded(const SimulatedFile& simulated, int threads, const Progress& progress) {
  if (!simulated.recorded().has_recorded_d()) return std::nullopt;
  return verify(simulated.recorded(), threads, progress);
}

SimulationReport describe(const SimulatedFile& simulated, const ShownCase& shown, const Progress& progress) {
  auto [report, warnings] = describe_case(simulated.file, shown);
  SimulationReport result{.warnings = std::move(warnings),
                          .recorded = compare_recorded(simulated, shown.threads, progress)};
  if (result.recorded)
    report.update(
        describe_recorded(*result.recorded, simulated.recorded().source(), simulated.loops ? ", of the whole K" : ""));
  if (simulated.on_target) {
    const VectorFile &own = simulated.file, &other = *simulated.on_target;
    DescribedCase described = describe_case(other, shown);
    std::ranges::move(described.warnings, std::back_inserter(result.warnings));
    result.targets = compare_computed(own, other, shown.threads);
    report =
        describe_two_targets(std::move(report), std::move(described.report), *result.targets, own.target, other.target);
  }
  result.report = std::move(report);
  return result;
}

WrittenSimulation write_simulation(const SimulatedFile& simulated, const SimulationOutput& output,
                                   const FileEvents& events) {
  if (!output.replaces_d) require_no_loss(output.path);
  WrittenSimulation written{.recorded = compare_recorded(simulated, output.threads, events.progress)};
  if (written.recorded && written.recorded->mismatches > 0 && !output.replaces_d) return written;
  const VectorFile& vectors = simulated.output();
  if (vectors.tiling.is_one_instruction() && events.warn) events.warn(warnings_of(case_at(vectors, 0)));
  if (output.before_writing) output.before_writing(vectors);
  write_simulated(output.path, vectors, output.placement, output.threads, events.progress);
  written.is_written = true;
  return written;
}

bool lint_file(TensorFile file, const VectorFileDefaults& defaults, Report& list) {
  const std::string path = file.path;
  std::optional<TensorFile> other = on_other_target(file, defaults.target);
  const bool is_on_target = other.has_value();
  const VectorFile vectors = as_vector_file(is_on_target ? std::move(*other) : std::move(file), defaults);
  const std::vector<LintFinding> findings = lint(vectors);
  vectors.require_unchanged();
  const std::string cases_of_file = counted(vectors.cases, "case");
  for (const auto& [finding, cases] : findings) {
    Report row{{"file", path}, {"target", print(vectors.target)}, {"cases", cases}};
    row.update(std::move(Report(std::vector{finding})[0]));
    list.append(std::move(row));
    list.add_text(fmt::format("{}: suspicious: {} ({} of {})", printable(path), print(finding), cases, cases_of_file),
                  Tone::warning);
  }
  if (findings.empty()) {
    list.add_text(fmt::format("{}: nothing suspicious in {}{}", printable(path), cases_of_file,
                              is_on_target ? fmt::format(" on {}", print(vectors.target)) : ""));
  }
  return !findings.empty();
}

}  // namespace bitmma
