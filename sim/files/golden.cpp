// SPDX-License-Identifier: MIT
#include "bitmma/files/golden.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "bitmma/core/parallel.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "vector_parts.hpp"

namespace bitmma {
namespace {

/// How many cases to make at a time: enough for all threads, but at most a few megabytes of file, or a single case if
/// it is larger than that. The first cases tell the size of a case.
class BatchSize {
 public:
  explicit BatchSize(int threads) : most_(16 * std::min<int64_t>(std::max(1, threads), 2 * hardware_threads())) {}

  int64_t of(int64_t cases_left) const { return std::min(cases_, cases_left); }
  void learn_from(const TensorFile& batch) {
    const int64_t bytes = std::accumulate(
        batch.tensors.begin(), batch.tensors.end(), int64_t{0},
        [](int64_t sum, const Tensor& tensor) { return sum + static_cast<int64_t>(tensor.bytes.size()); });
    const int64_t case_bytes = std::max<int64_t>(1, bytes / cases_);
    cases_ = std::clamp<int64_t>(most_bytes / case_bytes, 1, most_);
  }

 private:
  static constexpr int64_t most_bytes = 8 << 20;  // of file; unfinished cases are several times as large
  int64_t most_, cases_ = 1;
};

/// The progress function for a part that begins at case `first`.
Progress from(const Progress& progress, int64_t first) {
  if (!progress) return {};
  return [&progress, first](int64_t done) { progress(first + done); };
}

/// Calls compute(i) for every case on all threads, and reports how many cases are done.
void for_each_case(int64_t cases, int threads, const Progress& progress, const std::function<void(size_t)>& compute) {
  std::mutex mutex;
  int64_t done = 0;
  parallel_for(static_cast<size_t>(cases), threads, [&](size_t i) {
    compute(i);
    const std::lock_guard lock(mutex);
    if (progress) progress(++done);
  });
}

GoldenRequest completed(GoldenRequest request) {
  request.instruction = with_majors(request.instruction, request.placement.a, request.placement.b);
  if (!request.target) request.target = default_target(request.instruction);
  std::vector<Violation> violations = violations_of(request.instruction, *request.target);
  if (request.cases < 1) {
    violations.push_back({.field = "cases", .seen = std::to_string(request.cases), .expected = "at least 1"});
  }
  constexpr int64_t most = int64_t{1} << 48;
  if (request.first_case < 0 || request.first_case > most || request.cases > most) {
    violations.push_back({.field = "cases",
                          .seen = std::to_string(request.cases) + " from " + std::to_string(request.first_case) + " on",
                          .expected = "0 to 2^48"});
  }
  for (const auto& [field, number] : request.placement.numbers) {
    const FieldRules rules = fields_of(request.instruction);
    if (std::ranges::find(rules, field, &FieldRule::field) != rules.end()) continue;
    violations.push_back({.code = ViolationCode::no_effect,
                          .field = std::string(info(field).name),
                          .seen = fmt::format("{:#x}", number),
                          .expected = "absent",
                          .fix = print(request.instruction) + " has none"});
  }
  const bool may_mask = is_mma(request.instruction) && mma_of(request.instruction).weight_stationary;
  if (request.placement.zero_column_mask && !may_mask) {
    violations.push_back({.code = ViolationCode::no_effect,
                          .field = "zero_column_mask",
                          .seen = fmt::format("{:#x}", *request.placement.zero_column_mask),
                          .expected = "absent without .ws"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return request;
}

}  // namespace

State written_part(const Instruction& instruction, State state) {
  const FieldRules rules = fields_of(instruction);
  for (const FieldInfo& row : state_fields) {
    const bool written = std::ranges::any_of(
        rules, [&](const FieldRule& rule) { return rule.field == row.id && rule.access != Access::read; });
    if (!written) state.erase(row.id);
  }
  return state;
}

void execute_case(Case& this_case, bool logical_d_too) {
  State after = this_case.before;
  execute(this_case.instruction, this_case.target, after);
  if (logical_d_too && is_mma(this_case.instruction))
    this_case.logical.d = recorded_result(this_case.instruction, after);
  this_case.after = written_part(this_case.instruction, std::move(after));
}

Instruction with_a_source_named(const Instruction& instruction, Target target, const std::string& name) {
  std::vector<std::string_view> legal;
  for (const OperandSource source : {OperandSource::smem, OperandSource::registers, OperandSource::tmem}) {
    const Instruction changed = with_a_source(instruction, source);
    const bool is_taken = is_mma(changed) && mma_of(changed).a_source == source;
    const auto violations = violations_of(changed, target);
    if (!is_taken || std::ranges::find(violations, "A", &Violation::field) != violations.end()) continue;
    if (print(source) == name) return changed;
    legal.push_back(print(source));
  }
  const Form* const form = find_form(instruction);
  throw Error({.field = "a_source",
               .seen = name,
               .expected = legal.empty() ? "absent: the instruction has no operand A"
                                         : fmt::format("{} for {}", fmt::join(legal, " or "),
                                                       form ? std::string(form->name) : print(instruction))});
}

LayoutUse layouts_used_by(const Instruction& instruction) {
  if (!is_mma(instruction)) {
    const FieldRules rules = fields_of(instruction);
    const bool reads_smem = std::ranges::find(rules, Field::smem, &FieldRule::field) != rules.end();
    return {.a = reads_smem,
            .why = print(instruction) +
                   (reads_smem ? " has only one source, whose place --layout-a sets" : " reads no shared memory")};
  }
  const Mma mma = mma_of(instruction);
  const bool a_in_smem = mma.a_source == OperandSource::smem, b_in_smem = mma.b_source == OperandSource::smem;
  const std::string_view place = mma.a_source == OperandSource::tmem ? "Tensor Memory" : "registers";
  return {
      .a = a_in_smem, .b = b_in_smem, .why = b_in_smem ? fmt::format("A is in {}", place) : "A and B are in registers"};
}

VectorFile first_golden_case(GoldenRequest request) {
  request.cases = 1;
  return as_vector_file(make_golden(request, 1));
}

TensorFile make_golden(const GoldenRequest& incomplete, int threads, const Progress& progress) {
  const GoldenRequest request = completed(incomplete);
  std::vector<Case> cases(static_cast<size_t>(request.cases));
  for_each_case(request.cases, threads, progress, [&](size_t i) {
    cases[i] = random_case(request.instruction, *request.target, request.placement, request.distribution, request.seed,
                           static_cast<uint64_t>(request.first_case) + i);
    execute_case(cases[i], true);
  });
  VectorBuilder builder(request.instruction, *request.target);
  for (const Case& this_case : cases) builder.add(this_case);
  std::vector<std::pair<std::string, std::string>> metadata{{"source", version()},
                                                            {"seed", std::to_string(request.seed)},
                                                            {"first_case", std::to_string(request.first_case)}};
  if (is_mma(request.instruction)) {
    const auto row = std::ranges::find(distributions, request.distribution, &DistributionInfo::id);
    metadata.emplace_back("distribution", row->name);
  }
  return std::move(builder).finish(std::move(metadata));
}

void write_golden(const std::string& path, const GoldenRequest& incomplete, int threads, const Progress& progress) {
  const GoldenRequest request = completed(incomplete);
  BatchSize size(threads);
  write_case_batches(path, request.cases, [&](int64_t first) {
    GoldenRequest part = request;
    part.first_case += first;
    part.cases = size.of(request.cases - first);
    TensorFile batch = make_golden(part, threads, from(progress, first));
    if (first == 0) size.learn_from(batch);
    return batch;
  });
}

VectorFile laid_out(const VectorFile& vectors, const Placement& placement) {
  if (vectors.has_state) return vectors;
  VectorFile result = vectors;
  result.instruction = with_majors(vectors.instruction, placement.a, placement.b);
  result.has_state = true;
  require_legal(result.instruction, result.target);
  VectorBuilder builder(result.instruction, result.target);
  for (int64_t index = 0; index < vectors.cases; ++index) {
    const Operands operands = operands_of(result.instruction, logical_at(vectors, result.instruction, index));
    builder.add({.instruction = result.instruction,
                 .target = result.target,
                 .before = place_operands(result.instruction, placement, operands,
                                          filler_stream(0, static_cast<uint64_t>(vectors.first_case + index)))});
  }
  for (Tensor& tensor : std::move(builder).finish({}).tensors) result.file.set(std::move(tensor));
  for (auto& [key, value] : instruction_metadata(result.instruction, result.target)) {
    result.file.set_metadata(key, std::move(value));
  }
  return result;
}

TensorFile with_simulated_d(const VectorFile& vectors, const Placement& placement, int threads,
                            const Progress& progress) {
  if (!vectors.tiling.is_one_instruction()) return with_simulated_tiles(vectors, threads, progress);
  const VectorFile states = laid_out(vectors, placement);
  const bool logical_d_too = wants_logical_d(vectors);
  std::vector<Case> cases(static_cast<size_t>(states.cases));
  for_each_case(states.cases, threads, progress, [&](size_t i) {
    const auto index = static_cast<int64_t>(i);
    Case this_case{.instruction = instruction_at(states, index), .target = states.target};
    this_case.before = state_before_at(states, this_case.instruction, index);
    execute_case(this_case, logical_d_too);
    this_case.before = {};
    cases[i] = std::move(this_case);
  });
  return with_results(states, cases, version());
}

void write_simulated(const std::string& path, const VectorFile& vectors, const Placement& placement, int threads,
                     const Progress& progress) {
  if (!vectors.tiling.is_one_instruction())
    return write_tensor_file(path, with_simulated_tiles(vectors, threads, progress));
  // The first batch carries everything in the file that is not a case.
  const VectorFile later = known_part(vectors);
  BatchSize size(threads);
  const auto make = [&](int64_t first) {
    const int64_t count = size.of(vectors.cases - first);
    TensorFile batch = with_simulated_d(in_memory(cases_of(first == 0 ? vectors : later, first, count)), placement,
                                        threads, from(progress, first));
    if (first == 0) size.learn_from(batch);
    vectors.require_unchanged();
    return batch;
  };
  write_case_batches(path, vectors.cases, make, tensors_without_cases(vectors));
}

}  // namespace bitmma
