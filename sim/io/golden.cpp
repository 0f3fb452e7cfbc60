#include "bitmma/io/golden.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "bitmma/core/parallel.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/instruction/legality.hpp"

namespace bitmma {
namespace {

struct Made {
  MachineState state;
  Tcgen05State tcgen05;
  std::vector<uint32_t> tmem_after;
  BitMatrix d;
  Operands operands;
};

/// Cases made in parallel, handed to `take` in order, a few at a time.
void make_in_order(int64_t cases, int threads, const Progress& progress, const std::function<Made(int64_t)>& make,
                   const std::function<void(Made&&)>& take) {
  const int64_t batch = std::max(1, threads) * int64_t{8};
  for (int64_t first = 0; first < cases; first += batch) {
    const int64_t count = std::min(batch, cases - first);
    std::vector<Made> made(static_cast<size_t>(count));
    parallel_for(made.size(), threads, [&](size_t i) { made[i] = make(first + static_cast<int64_t>(i)); });
    for (Made& one : made) take(std::move(one));
    if (progress) progress(first + count);
  }
}

}  // namespace

TensorFile make_golden(const GoldenRequest& request, int threads, const Progress& progress) {
  const Instruction instruction = with_majors(request.instruction, request.layout_a, request.layout_b);
  std::vector<Violation> violations = violations_of(instruction);
  if (request.cases < 1)
    violations.push_back({.field = "cases", .seen = std::to_string(request.cases), .legal = "at least 1"});
  if (!violations.empty()) throw Error(std::move(violations));
  const bool is_tcgen05 = instruction.family == Family::tcgen05;
  const Placement placement =
      is_tcgen05 ? Placement{} : plan_placement(instruction, request.layout_a, request.layout_b);
  VectorBuilder builder(instruction);
  make_in_order(
      request.cases, threads, progress,
      [&](int64_t index) {
        const auto case_index = static_cast<uint64_t>(request.first_case + index);
        Made made{.state = {},
                  .d = {},
                  .operands = random_operands(instruction, request.distribution, request.seed, case_index)};
        if (is_tcgen05) {
          made.tcgen05 = place_tcgen05(instruction, request.layout_a, request.layout_b, made.operands,
                                       filler_stream(request.seed, case_index), request.zero_column_mask);
          if (request.zero_column_mask)
            made.operands = gather_operands(instruction, made.tcgen05.view());  // with the columns that count as zero
          made.tmem_after = simulate(instruction, made.tcgen05.view());
          made.d = gather_d(instruction, made.tcgen05.registers.d_tmem, made.tmem_after, made.tcgen05.columns);
          return made;
        }
        made.state = place_operands(instruction, placement, made.operands, filler_stream(request.seed, case_index));
        made.d = simulate_d(instruction, made.state.view());
        return made;
      },
      [&](Made&& made) {
        builder.begin_case();
        builder.add_logical(made.operands);
        if (is_tcgen05) {
          builder.add_machine(made.tcgen05);
          builder.add_tmem_after(made.tmem_after, made.tcgen05.columns);
        } else {
          builder.add_machine(made.state);
          builder.add_d_regs(made.d);
        }
        builder.add_logical_d(made.d);
      });
  const auto name = std::find_if(distributions.begin(), distributions.end(), [&](const DistributionInfo& row) {
                      return row.id == request.distribution;
                    })->name;
  return std::move(builder).finish({{"source", version()},
                                    {"seed", std::to_string(request.seed)},
                                    {"first_case", std::to_string(request.first_case)},
                                    {"distribution", std::string(name)}});
}

TensorFile make_golden(const TmemMove& move, int64_t cases, uint64_t seed, Swizzle swizzle, int64_t first_case) {
  if (cases < 1) throw Error({.field = "cases", .seen = std::to_string(cases), .legal = "at least 1"});
  VectorBuilder builder(move);
  const TmemMoveState first = random_machine(move, swizzle, filler_stream(seed, 0));
  for (int64_t index = first_case; index < first_case + cases; ++index) {
    TmemMoveState state = random_machine(move, swizzle, filler_stream(seed, static_cast<uint64_t>(index)));
    // One file has images of one size: the start address inside the pattern is that of the first case.
    state.machine.s_desc = first.machine.s_desc;
    for (size_t cta = 0; cta < state.smem.size(); ++cta) state.smem[cta].resize(first.smem[cta].size());
    builder.begin_case();
    builder.add_machine(state);
    builder.add_result(simulate(move, state.view()), state.machine.columns);
  }
  return std::move(builder).finish({{"source", version()}, {"seed", std::to_string(seed)}});
}

namespace {

/// Calls compute(i) for every case on all threads, and reports how many are done.
void for_each_case(int64_t cases, int threads, const Progress& progress, const std::function<void(size_t)>& compute) {
  std::mutex mutex;
  int64_t done = 0;
  parallel_for(static_cast<size_t>(cases), threads, [&](size_t i) {
    compute(i);
    const std::lock_guard lock(mutex);
    if (progress) progress(++done);
  });
}

TensorFile with_simulated_move(const VectorFile& vectors, int threads, const Progress& progress) {
  std::vector<TmemMoveResult> results(static_cast<size_t>(vectors.cases));
  for_each_case(vectors.cases, threads, progress, [&](size_t i) {
    results[i] = simulate(*vectors.move, move_case_at(vectors, static_cast<int64_t>(i)).view());
  });
  VectorBuilder builder(*vectors.move);
  for (const TmemMoveResult& result : results) {
    builder.begin_case();
    builder.add_result(result, static_cast<int>(vectors.file.find("tmem")->shape[3]));
  }
  return with_results(vectors, std::move(builder).finish({}).tensors, version());
}

TensorFile with_simulated_tmem(const VectorFile& vectors, int threads, const Progress& progress) {
  const bool logical_d_too = wants_logical_d(vectors);
  const auto columns = static_cast<int>(vectors.file.find("tmem")->shape[3]);
  std::vector<std::vector<uint32_t>> after(static_cast<size_t>(vectors.cases));
  std::vector<BitMatrix> d(after.size());
  for_each_case(vectors.cases, threads, progress, [&](size_t i) {
    const Tcgen05Case one = tcgen05_case_at(vectors, static_cast<int64_t>(i));
    after[i] = simulate(one.instruction, one.view());
    if (logical_d_too) d[i] = gather_d(one.instruction, one.state.registers.d_tmem, after[i], columns);
  });
  VectorBuilder builder(vectors.instruction);
  for (size_t i = 0; i < after.size(); ++i) {
    builder.begin_case();
    builder.add_tmem_after(after[i], columns);
    if (logical_d_too) builder.add_logical_d(d[i]);
  }
  return with_results(vectors, std::move(builder).finish({}).tensors, version());
}

}  // namespace

VectorFile laid_out(const VectorFile& vectors, const OperandLayout& layout_a, const OperandLayout& layout_b) {
  if (vectors.has_images) return vectors;
  VectorFile result = vectors;
  result.instruction = with_majors(vectors.instruction, layout_a, layout_b);
  result.has_images = true;
  require_legal(result.instruction);
  const Placement placement = plan_placement(result.instruction, layout_a, layout_b);
  VectorBuilder builder(result.instruction);
  for (int64_t index = 0; index < vectors.cases; ++index) {
    builder.begin_case();
    builder.add_machine(place_operands(result.instruction, placement, logical_operands(vectors, index),
                                       filler_stream(0, static_cast<uint64_t>(vectors.first_case + index))));
  }
  for (Tensor& tensor : std::move(builder).finish({}).tensors) result.file.set(std::move(tensor));
  for (auto& [key, value] : instruction_metadata(result.instruction)) result.file.set_metadata(key, std::move(value));
  return result;
}

TensorFile with_simulated_d(const VectorFile& vectors, const OperandLayout& layout_a, const OperandLayout& layout_b,
                            int threads, const Progress& progress) {
  if (vectors.move) return with_simulated_move(vectors, threads, progress);
  if (vectors.is_tcgen05()) return with_simulated_tmem(vectors, threads, progress);
  const VectorFile images = laid_out(vectors, layout_a, layout_b);
  std::vector<BitMatrix> d(static_cast<size_t>(images.cases));
  for_each_case(images.cases, threads, progress, [&](size_t i) { d[i] = computed_d(images, static_cast<int64_t>(i)); });
  return with_d(images, d, version());
}

namespace {

/// Cases that are held at once: enough for all threads, and few megabytes.
int64_t batch_of(int threads) { return std::max(1, threads) * int64_t{16}; }

/// `progress` of a part that begins at case `first`.
Progress from(const Progress& progress, int64_t first) {
  if (!progress) return {};
  return [&progress, first](int64_t done) { progress(first + done); };
}

}  // namespace

void write_golden(const std::string& path, const GoldenRequest& request, int threads, const Progress& progress) {
  if (request.cases < 1) static_cast<void>(make_golden(request, threads));  // says what is wrong
  write_case_batches(path, request.cases, [&](int64_t first) {
    GoldenRequest part = request;
    part.first_case += first;
    part.cases = std::min(batch_of(threads), request.cases - first);
    return make_golden(part, threads, from(progress, first));
  });
}

void write_golden(const std::string& path, const TmemMove& move, int64_t cases, uint64_t seed, Swizzle swizzle) {
  if (cases < 1) static_cast<void>(make_golden(move, cases, seed, swizzle));
  write_case_batches(path, cases, [&](int64_t first) {
    return make_golden(move, std::min(batch_of(1), cases - first), seed, swizzle, first);
  });
}

void write_simulated(const std::string& path, const VectorFile& vectors, const OperandLayout& layout_a,
                     const OperandLayout& layout_b, int threads, const Progress& progress) {
  const auto make = [&](int64_t first) {
    const TensorFile batch =
        with_simulated_d(cases_of(vectors, first, std::min(batch_of(threads), vectors.cases - first)), layout_a,
                         layout_b, threads, from(progress, first));
    if (vectors.file.mapped) vectors.file.mapped->forget();
    return batch;
  };
  write_case_batches(path, vectors.cases, make, tensors_without_cases(vectors));
}

}  // namespace bitmma
