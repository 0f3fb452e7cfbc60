// SPDX-License-Identifier: MIT
#include "bitmma/gemm/library_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numeric>
#include <string_view>
#include <vector>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "choice_table.hpp"

namespace bitmma {
namespace {

constexpr std::string_view the_library = "cublas 13.1";

/// The distinct values of a field of the recorded calls.
std::vector<std::string> all_of(std::string ChoiceTable::Call::*field, std::string_view gpu = {},
                                std::string_view kind = {}) {
  std::vector<std::string> values;
  for (const ChoiceTable::Call& recorded : ChoiceTable::get().calls) {
    if (!gpu.empty() && recorded.gpu != gpu) continue;
    if (!kind.empty() && recorded.kind != kind) continue;
    if (std::ranges::find(values, recorded.*field) == values.end()) values.push_back(recorded.*field);
  }
  return values;
}

[[noreturn]] void refuse(std::string field, std::string seen, std::vector<std::string> legal, std::string fix = {}) {
  throw Error({.code = ViolationCode::unknown_name,
               .field = std::move(field),
               .seen = shortened(seen),
               .legal = std::move(legal),
               .fix = std::move(fix)});
}

Format output_of(const LibraryCall& call) {
  if (call.d) return *call.d;
  if (call.a == Format::tf32) return Format::f32;
  return info(call.a).bits == 8 ? Format::bf16 : call.a;
}

/// "bf16 bias", "tf32", "e4m3 rows fast": the call in the words of lab/record_choices.py.
std::string kind_of(const LibraryCall& call) {
  const Format d = output_of(call);
  std::string kind(info(call.a).name);
  if (call.a == Format::tf32 && !call.allow_tf32) kind = "f32";
  if (call.a != call.b) kind += fmt::format(" x {}", info(call.b).name);
  const Format own = call.a == Format::tf32 ? Format::f32 : info(call.a).bits == 8 ? Format::bf16 : call.a;
  if (d != own) kind += fmt::format(" to {}", info(d).name);
  if (call.bias) kind += " bias";
  if (info(call.a).bits == 8 && call.scales == CallScales::none) kind += " without scales";
  if (info(call.a).bits != 8 && call.scales != CallScales::none) kind += " with scales";
  if (call.scales == CallScales::rows) kind += " rows";
  if (call.fast_accumulation) kind += " fast";
  return kind;
}

/// 1, 2, 4 or 8 elements: kernels differ by the alignment of rows.
int64_t alignment(int64_t n, int64_t k) { return std::gcd(std::gcd(n, k), int64_t{8}); }

/// How far two pairs are apart, in doublings. Another alignment counts as a factor of 16.
double distance(std::pair<int64_t, int64_t> of, std::pair<int64_t, int64_t> from) {
  const auto apart = [](int64_t x, int64_t y) {
    return std::abs(std::log2(static_cast<double>(x)) - std::log2(static_cast<double>(y)));
  };
  return apart(of.first, from.first) + apart(of.second, from.second) +
         (alignment(of.first, of.second) == alignment(from.first, from.second) ? 0 : 4);
}

/// The recorded pairs of the table, the nearest first, of which `m` rows were recorded.
std::vector<size_t> nearest_pairs(const ChoiceTable::Call& recorded, int64_t m, int64_t n, int64_t k) {
  const ChoiceTable& table = ChoiceTable::get();
  std::vector<size_t> pairs;
  for (size_t pair = 0; pair < table.pairs.size(); ++pair)
    if (run_at(table.lists[recorded.lists[pair]], m)) pairs.push_back(pair);
  std::ranges::stable_sort(pairs, {}, [&](size_t pair) { return distance({n, k}, table.pairs[pair]); });
  return pairs;
}

/// Rows that were recorded of A with contiguous columns: there the last bits of M decide too.
int64_t step_of_m(std::string_view layout, int64_t m) {
  if (layout.front() == 'n') return 1;
  return m < 256 ? 8 : m < 2048 ? 16 : 64;
}

/// Rows of A that the grid has: all, or multiples of 8 if its columns are contiguous.
int64_t grid_step_of_m(std::string_view layout) { return layout.front() == 'n' ? 1 : 8; }

/// How often the choice was right for shapes that nothing was fitted to: lab/check_choices.py --held-out counts them.
struct HitRate {
  struct Count {
    int right = 0, drawn = 0;
  };

  std::string_view kind = {}, layout = {};
  Count of_grid = {};         // on an H200, N and K multiples of 64
  Count of_eights = {};       // on an H200, N and K other multiples of 8 (e4m3: of 16), by the nearest pair
  Count of_others = {};       // on an H200, other N and K
  Count of_another_gpu = {};  // an H100's choice by the H200's, of the pairs that were recorded on both
  Count of_gradients = {};    // on an H200, M and N of the pairs, any K
};

constexpr std::array hit_rates = {
    HitRate{"bf16", "nt", {396, 404}, {286, 300}, {46, 196}, {5970, 6672}},
    HitRate{"bf16 bias", "nt", {402, 404}, {293, 297}, {69, 199}, {6105, 6672}},
    HitRate{"f16", "nt", {399, 405}, {291, 299}, {49, 196}, {5748, 6672}},
    HitRate{"f16 bias", "nt", {400, 401}, {293, 301}, {62, 198}, {5937, 6672}},
    HitRate{"e4m3", "nt", {423, 423}, {274, 277}, {}, {6479, 6672}},
    HitRate{"f32", "nt", {401, 407}, {233, 296}, {83, 197}, {6672, 6672}},
    HitRate{"f32 bias", "nt", {409, 409}, {260, 293}, {149, 198}, {6672, 6672}},
    HitRate{"tf32", "nt", {404, 405}, {235, 298}, {60, 197}, {6672, 6672}},
    HitRate{"tf32 bias", "nt", {411, 411}, {276, 292}, {79, 197}, {6672, 6672}},
    HitRate{"bf16", "nn", {395, 404}, {285, 300}, {40, 196}},
    HitRate{"bf16 bias", "nn", {406, 407}, {295, 297}, {0, 196}},
    HitRate{"f16", "nn", {400, 405}, {293, 299}, {46, 196}},
    HitRate{"f16 bias", "nn", {407, 407}, {292, 296}, {0, 197}},
    HitRate{"f32", "nn", {399, 404}, {216, 297}, {58, 199}},
    HitRate{"tf32", "nn", {398, 401}, {223, 301}, {55, 198}},
    HitRate{"bf16", "tn", {409, 411}, {283, 292}, {36, 197}, {}, {950, 955}},
    HitRate{"f16", "tn", {403, 405}, {293, 299}, {22, 196}, {}, {938, 946}},
    HitRate{"f32", "tn", {406, 410}, {235, 294}, {72, 196}, {}, {921, 927}},
    HitRate{"tf32", "tn", {411, 412}, {216, 292}, {60, 196}, {}, {916, 917}},
};

/// The kernel of a recorded shape.
struct Chosen {
  const ChoiceKernel* kernel = nullptr;
  int64_t m = 0, n = 0, k = 0;
  std::string gpu = {};
  bool is_gradient = false;  // by K
};

[[noreturn]] void refuse_shape(const ChoiceTable::Call& recorded, const LibraryCall& call, ChoiceRuns runs_of_pair,
                               const ChoiceGrid* grid) {
  const ChoiceTable& table = ChoiceTable::get();
  const int64_t step = step_of_m(call.layout, call.m);
  Violation violation{.field = "m, n, k", .seen = fmt::format("{} x {} x {}", call.m, call.n, call.k)};
  const std::vector<size_t> near = nearest_pairs(recorded, std::min(call.m, int64_t{1024}), call.n, call.k);
  if (grid && ChoiceGrid::has(call.n, call.k)) {
    const int64_t grid_step = grid_step_of_m(call.layout);
    violation.expected = fmt::format("M of {}..{}{}", grid->runs(call.n, call.k).front().m, ChoiceGrid::most_m,
                                     grid_step == 1 ? "" : fmt::format(", in steps of {}", grid_step));
  } else if (!runs_of_pair.empty()) {
    violation.expected = fmt::format("M of 1..{}{}", runs_of_pair.back().m - 1,
                                     step == 1 ? "" : ", in steps of 8; of 16 from 256 on; of 64 from 2048 on");
  } else {
    violation.expected = "a recorded (N, K)";
    if (grid)
      violation.expected += fmt::format(", which are all multiples of {} up to {}{}", ChoiceGrid::step,
                                        ChoiceGrid::step * ChoiceGrid::steps, near.empty() ? "" : "; others are");
    else if (near.empty()) violation.expected += fmt::format("; on an {} none of this kind and layout was", call.gpu);
    else violation.expected += ", the nearest are";
    for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i)
      violation.expected +=
          fmt::format("{} ({}, {})", i == 0 ? "" : ",", table.pairs[near[i]].first, table.pairs[near[i]].second);
  }
  violation.fix = "`nearest` takes the choice of the nearest recorded shape, which may be another kernel";
  throw Error(std::move(violation));
}

/// The rate of a choice; 0 of 0 where none was measured.
HitRate::Count hit_rate(std::string_view kind, const LibraryCall& call, const Chosen& choice) {
  const auto row = std::ranges::find_if(
      hit_rates, [&](const HitRate& rate) { return rate.kind == kind && rate.layout == call.layout; });
  if (row == hit_rates.end() || call.m > ChoiceGrid::most_m) return {};
  const bool has_pair = choice.n == call.n && choice.k == call.k;
  if (choice.gpu != call.gpu) return has_pair ? row->of_another_gpu : HitRate::Count{};
  if (call.gpu != "H200") return {};
  if (choice.is_gradient) return row->of_gradients;
  if (has_pair) return ChoiceGrid::has(call.n, call.k) ? row->of_grid : HitRate::Count{};
  if (std::max(call.n, call.k) > ChoiceGrid::step * ChoiceGrid::steps) return {};
  return call.n % 8 == 0 && call.k % 8 == 0 ? row->of_eights : row->of_others;
}

/// The grid's choice for the nearest pair that it has.
Chosen of_grid(const ChoiceGrid& grid, const LibraryCall& call, std::string gpu) {
  const auto nearest = [](int64_t size) {
    return std::clamp((size + ChoiceGrid::step / 2) / ChoiceGrid::step, int64_t{1}, ChoiceGrid::steps) *
           ChoiceGrid::step;
  };
  const int64_t step = grid_step_of_m(call.layout);
  const int64_t m = std::clamp(call.m / step * step, step, ChoiceGrid::most_m), n = nearest(call.n),
                k = nearest(call.k);
  const ChoiceRuns runs = grid.runs(n, k);
  const ChoiceRun* const run = run_at(runs, m);
  // Some lists of an A with contiguous columns begin at M = 16.
  const ChoiceRun& known = run ? *run : runs.front();
  return {&ChoiceGrid::kernel(known.kernel), run ? m : known.m, n, k, std::move(gpu)};
}

/// The kernel of a gradient of weights that was recorded.
std::optional<Chosen> by_k(const ChoiceTable::Call& recorded, const LibraryCall& call) {
  const ChoiceTable& table = ChoiceTable::by_k();
  const ChoiceTable::Call* const row = table.find(recorded.gpu, recorded.kind, recorded.layout);
  const auto pair = std::ranges::find(table.pairs, std::pair(call.m, call.n));
  if (!row || pair == table.pairs.end()) return std::nullopt;
  const size_t list = row->lists[static_cast<size_t>(pair - table.pairs.begin())];
  const ChoiceRun* const run = run_at(table.lists[list], call.k);
  if (!run) return std::nullopt;
  return Chosen{&table.kernels[run->kernel], call.m, call.n, call.k, recorded.gpu, true};
}

/// The kernel of the requested shape, or with `nearest` of the nearest recorded one.
Chosen chosen(const ChoiceTable::Call& recorded, const LibraryCall& call) {
  const ChoiceTable& table = ChoiceTable::get();
  const int64_t step = step_of_m(call.layout, call.m);
  const auto of_table = [&](int64_t m, size_t pair) {
    const ChoiceRun* const run = run_at(table.lists[recorded.lists[pair]], m);
    return Chosen{&table.kernels[run->kernel], m, table.pairs[pair].first, table.pairs[pair].second, recorded.gpu};
  };
  const auto pair = std::ranges::find(table.pairs, std::pair(call.n, call.k));
  const auto at = static_cast<size_t>(pair - table.pairs.begin());
  const ChoiceRuns runs = pair == table.pairs.end() ? ChoiceRuns{} : ChoiceRuns(table.lists[recorded.lists[at]]);
  if (call.m % step == 0 && run_at(runs, call.m)) return of_table(call.m, at);
  const ChoiceGrid* const grid = ChoiceGrid::find(recorded.gpu, recorded.kind, recorded.layout);
  if (grid && ChoiceGrid::has(call.n, call.k) && call.m <= ChoiceGrid::most_m &&
      call.m % grid_step_of_m(call.layout) == 0 && run_at(grid->runs(call.n, call.k), call.m))
    return of_grid(*grid, call, recorded.gpu);
  if (std::optional<Chosen> of_gradient = by_k(recorded, call)) return *std::move(of_gradient);
  if (!call.nearest) refuse_shape(recorded, call, runs, grid);

  int64_t end = ChoiceGrid::most_m + 1;
  for (const size_t list : recorded.lists) {
    if (!table.lists[list].empty()) end = std::max(end, int64_t{table.lists[list].back().m});
  }
  const int64_t m = std::clamp(call.m / step * step, step, (end - 1) / step * step);
  if (run_at(runs, m)) return of_table(m, at);
  // Of another GPU, the same pair says more than the nearest pair of this one.
  const ChoiceGrid* other = grid;
  std::string gpu = recorded.gpu;
  for (const ChoiceTable::Call& row : table.calls) {
    if (other) break;
    other = ChoiceGrid::find(row.gpu, recorded.kind, recorded.layout), gpu = row.gpu;
  }
  const std::vector<size_t> near = nearest_pairs(recorded, m, call.n, call.k);
  if (other) {
    Chosen of_other = of_grid(*other, call, gpu);
    const std::pair<int64_t, int64_t> shape{call.n, call.k};
    if (near.empty() || distance(shape, {of_other.n, of_other.k}) <= distance(shape, table.pairs[near.front()]))
      return of_other;
  }
  if (near.empty()) refuse_shape(recorded, call, runs, grid);
  return of_table(m, near.front());
}

/// Throws Error for a bias or scales of types that PyTorch refuses: it converts none of them.
void require_types_of_pytorch(const GemmInputs& inputs, Format d) {
  std::vector<Violation> violations;
  const auto require = [&](std::string_view name, const std::optional<Matrix>& operand, Format type,
                           std::string_view reason) {
    if (!operand || operand->format() == type || (operand->format() == Format::tf32 && type == Format::f32)) return;
    violations.push_back({.field = std::string(name),
                          .seen = std::string(info(operand->format()).name),
                          .expected = fmt::format("{}, {}", info(type).name, reason),
                          .fix = "PyTorch refuses other types; convert the values"});
  };
  const Format a = inputs.a.format() == Format::tf32 ? Format::f32 : inputs.a.format();
  if (info(a).bits >= 16) require("bias", inputs.bias, a, "the type of a and b");
  else require("bias", inputs.bias, d == Format::f16 ? Format::f16 : Format::bf16, "which this output takes");
  require("scale_a", inputs.scale_a, Format::f32, "as torch._scaled_mm takes them");
  require("scale_b", inputs.scale_b, Format::f32, "as torch._scaled_mm takes them");
  if (!violations.empty()) throw Error(std::move(violations));
}

}  // namespace

namespace {

std::string spaced(std::string library) {
  std::ranges::replace(library, '-', ' ');
  return library;
}

bool are_equal_words(std::string_view word, std::string_view other) {
  return std::ranges::equal(word, other,
                            [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// The recorded GPU that the text names, in upper or lower case.
std::string recorded_gpu(const std::string& text) {
  const std::vector<std::string> gpus = all_of(&ChoiceTable::Call::gpu);
  const auto gpu = std::ranges::find_if(gpus, [&](const std::string& name) { return are_equal_words(name, text); });
  if (gpu != gpus.end()) return *gpu;
  const std::optional<Target> target = target_meant_by(text);
  refuse("gpu", text.empty() ? "(missing)" : text, gpus,
         target && info(*target).chip == Target::sm_90
             ? "sm_90a is an H100 or an H200, which take other kernels: name the board"
             : "the choices on other GPUs were not recorded: gemm takes the name of the kernel that a profiler prints, "
               "or a plan");
}

/// The recorded calls of the kind and layout.
const ChoiceTable::Call& recorded_of(const LibraryCall& call) {
  if (spaced(call.library) != the_library) refuse("library", call.library, {std::string(the_library)});
  const std::string gpu = recorded_gpu(call.gpu);
  if (call.m < 1 || call.n < 1 || call.k < 1) {
    throw Error({.field = "m, n, k",
                 .seen = fmt::format("{} x {} x {}", call.m, call.n, call.k),
                 .expected = "1 or more of each"});
  }
  const std::string kind = kind_of(call);
  const std::vector<std::string> kinds = all_of(&ChoiceTable::Call::kind, gpu);
  if (std::ranges::find(kinds, kind) == kinds.end())
    refuse("types", kind, kinds,
           info(call.a).bits == 8 && call.scales == CallScales::none
               ? "float8 needs scale_a and scale_b, as torch._scaled_mm does"
               : "the choices for these calls were recorded");
  const ChoiceTable::Call* const recorded = ChoiceTable::get().find(gpu, kind, call.layout);
  if (!recorded)
    refuse("layout", call.layout, all_of(&ChoiceTable::Call::layout, gpu, kind),
           "of A and B: n has contiguous rows, t contiguous columns");
  return *recorded;
}

/// The recorded choice for torch.bmm.
LibraryChoice choice_of_batch(const LibraryCall& call) {
  if (spaced(call.library) != the_library) refuse("library", call.library, {std::string(the_library)});
  const std::string gpu = recorded_gpu(call.gpu), kind = kind_of(call);
  const ChoiceBatches& batches = ChoiceBatches::get();
  if (call.matrices < 1 || call.m < 1 || call.n < 1 || call.k < 1) {
    throw Error({.field = "matrices, m, n, k",
                 .seen = fmt::format("{} of {} x {} x {}", call.matrices, call.m, call.n, call.k),
                 .expected = "1 or more of each"});
  }
  const auto what = [&] { return fmt::format("a batch of {} on an {}, layout {}", kind, gpu, call.layout); };
  if (!batches.has(gpu, kind, call.layout)) {
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "matrices",
                 .seen = what(),
                 .expected =
                     "a call of torch.bmm that was recorded: bf16, f16, f32 or tf32 on an H200 in layouts nt, nn "
                     "and tn",
                 .fix = "gemm multiplies stacks in the order of a plan or a kernel"});
  }
  const ChoiceKernel* const kernel = batches.find(gpu, kind, call.layout, call.m, call.n, call.k, call.matrices,
                                                  output_of(call) == Format::f32 ? 4 : 2);
  if (!kernel) {
    throw Error(
        {.field = "matrices, m, n, k",
         .seen = fmt::format("{} of {} x {} x {}, {}", call.matrices, call.m, call.n, call.k, what()),
         .expected = fmt::format("a recorded batch of up to {} matrices: N or K is the size of a head, {}; the "
                                 "lengths are equal, 2 to 512, or multiples of 16 up to 256, of 64 up to 1024, of "
                                 "256 up to 4096",
                                 ChoiceBatches::most_matrices, fmt::join(batches.heads(), ", ")),
         .fix = "gemm multiplies stacks in the order of a plan or a kernel; `nearest` predicts no batches"});
  }
  return {.kernel = kernel->names,
          .slices = kernel->slices,
          .d = output_of(call),
          .exact = true,
          .m = call.m,
          .n = call.n,
          .k = call.k,
          .library = spaced(call.library),
          .gpu = gpu,
          .kind = kind,
          .layout = call.layout,
          .recorded_on = gpu};
}

}  // namespace

LibraryChoice library_choice(const LibraryCall& request) {
  if (request.matrices != 0) return choice_of_batch(request);
  const ChoiceTable::Call& recorded = recorded_of(request);
  LibraryCall call = request;
  call.gpu = recorded.gpu;
  Chosen choice = in_ieee_environment([&] { return chosen(recorded, call); });
  const HitRate::Count rate = hit_rate(recorded.kind, call, choice);
  return {.kernel = choice.kernel->names,
          .slices = std::max(1, choice.kernel->slices),
          .d = output_of(call),
          .exact = choice.m == call.m && choice.n == call.n && choice.k == call.k && choice.gpu == call.gpu,
          .m = choice.m,
          .n = choice.n,
          .k = choice.k,
          .library = spaced(call.library),
          .gpu = call.gpu,
          .kind = recorded.kind,
          .layout = call.layout,
          .recorded_on = std::move(choice.gpu),
          .right = rate.right,
          .drawn = rate.drawn};
}

namespace {

/// One row and column of a product with these extents, from which a plan follows.
GemmInputs corner_of(const LibraryCall& call) {
  const auto k = static_cast<int>(call.k);
  GemmInputs inputs{.a = Matrix(call.a, 1, k), .b = Matrix(call.b, k, 1)};
  const Format a = call.a == Format::tf32 ? Format::f32 : call.a;
  if (call.bias) inputs.bias = Matrix(info(a).bits >= 16 ? a : Format::bf16, 1, 1);
  if (call.scales != CallScales::none) inputs.scale_a = inputs.scale_b = Matrix(Format::f32, 1, 1);
  inputs.rows = inputs.cols = {0};
  inputs.whole_m = call.m, inputs.whole_n = call.n;
  return inputs;
}

}  // namespace

std::vector<ChoiceRange> library_choices(const LibraryCall& asked) {
  LibraryCall call = asked;
  call.m = 1, call.matrices = 0, call.nearest = false;
  const ChoiceTable::Call& recorded = recorded_of(call);
  const ChoiceTable& table = ChoiceTable::get();
  const auto pair = std::ranges::find(table.pairs, std::pair(call.n, call.k));
  ChoiceRuns of_table, of_grid;
  if (pair != table.pairs.end())
    of_table = table.lists[recorded.lists[static_cast<size_t>(pair - table.pairs.begin())]];
  const ChoiceGrid* const grid = ChoiceGrid::find(recorded.gpu, recorded.kind, recorded.layout);
  if (grid && ChoiceGrid::has(call.n, call.k)) of_grid = grid->runs(call.n, call.k);
  if (of_table.empty() && of_grid.empty()) refuse_shape(recorded, call, {}, grid);
  std::vector<int64_t> begins;
  int64_t end = of_grid.empty() ? 0 : ChoiceGrid::most_m + 1;
  for (const ChoiceRuns runs : {of_table, of_grid})
    for (const ChoiceRun& run : runs) begins.push_back(run.m);
  if (!of_table.empty()) end = std::max(end, int64_t{of_table.back().m});
  std::ranges::sort(begins);
  std::vector<ChoiceRange> ranges;
  std::vector<std::optional<GemmPlan>> plans;
  for (size_t i = 0; i < begins.size(); ++i) {
    const int64_t step = step_of_m(call.layout, begins[i]);
    call.m = (begins[i] + step - 1) / step * step;
    const int64_t last = (i + 1 < begins.size() ? begins[i + 1] : end) - 1;
    if (call.m > last) continue;
    const LibraryChoice choice = library_choice(call);
    if (!ranges.empty() && ranges.back().choice.kernel == choice.kernel &&
        ranges.back().choice.slices == choice.slices) {
      ranges.back().last = last;
      continue;
    }
    ranges.push_back({.choice = choice, .first = call.m, .last = last});
    std::optional<GemmPlan>& plan = plans.emplace_back();
    ChoiceRange& range = ranges.back();
    try {
      plan = plan_of_choice(choice, corner_of(call));
      plan->name.clear(), plan->evidence.clear();
    } catch (const Error& error) {
      range.why = error.violations().front().expected;
      continue;
    }
    if (!plan->regions.empty()) {
      range.why = "the slices of the last tiles follow M";
      plan.reset();
      continue;
    }
    range.bits = static_cast<int>(std::ranges::find(plans, plan) - plans.begin());
  }
  return ranges;
}

LibraryCall call_of(const GemmInputs& inputs) {
  std::vector<Violation> violations;
  for (const GemmOperand operand : {GemmOperand::c, GemmOperand::sfa, GemmOperand::sfb}) {
    if (find_operand(inputs, operand))
      violations.push_back({.code = ViolationCode::contradiction,
                            .field = std::string(info(operand).name),
                            .seen = "given",
                            .expected = "absent: no call with it was recorded",
                            .fix = "name the kernel or the plan"});
  }
  if (inputs.scale_a.has_value() != inputs.scale_b.has_value()) {
    violations.push_back({.code = ViolationCode::contradiction,
                          .field = inputs.scale_a ? "scale_b" : "scale_a",
                          .seen = "missing",
                          .expected = "both scales, or none"});
  }
  LibraryCall call{.a = inputs.a.format(),
                   .b = inputs.b.format(),
                   .bias = inputs.bias.has_value(),
                   .m = inputs.whole_m > 0 ? inputs.whole_m : inputs.a.rows(),
                   .n = inputs.whole_n > 0 ? inputs.whole_n : inputs.b.cols(),
                   .k = inputs.a.cols()};
  if (inputs.scale_a && inputs.scale_b) {
    const bool of_tensor = inputs.scale_a->size() == 1 && inputs.scale_b->size() == 1,
               of_rows = inputs.scale_a->cols() == 1 && inputs.scale_b->rows() == 1 &&
                         inputs.scale_a->rows() == inputs.a.rows() && inputs.scale_b->cols() == inputs.b.cols();
    if (!of_tensor && !of_rows) {
      violations.push_back({.code = ViolationCode::wrong_shape,
                            .field = "scale_a, scale_b",
                            .seen = fmt::format("{} x {}, {} x {}", inputs.scale_a->rows(), inputs.scale_a->cols(),
                                                inputs.scale_b->rows(), inputs.scale_b->cols()),
                            .expected = "one number each, or one a row of A and one a column of B"});
    }
    call.scales = of_tensor ? CallScales::tensor : CallScales::rows;
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return call;
}

GemmPlan plan_of_choice(const LibraryChoice& choice, const GemmInputs& inputs) {
  require_types_of_pytorch(inputs, choice.d);
  const bool has_segments = choice.kernel.find("segment_k_on") != std::string::npos;  // slices of the last tiles
  // Calls whose kernels more often have plans.
  const std::string other_call = choice.layout != "nt" && !choice.layout.empty()
                                     ? "layout nt (w.T of a weight [N, K]) may take another kernel; "
                                 : choice.kind.starts_with("f32") ? "allow_tf32 may take another kernel; "
                                                                  : "";
  const auto refused = [&](std::string why) {
    return Error({.code = ViolationCode::unknown_kernel,
                  .field = "kernel",
                  .seen = fmt::format("{}, {}", choice.kernel, counted(choice.slices, "slice")),
                  .expected = fmt::format("a kernel whose plan is known: {} takes this one, but {}", choice.library,
                                          std::move(why)),
                  .fix = fmt::format("{}with bits of a GPU, a search (find_plans) looks for the plan", other_call)});
  };
  std::string kernel = choice.kernel;
  if (kernel.starts_with("sm80_xmma_gemm_f32f32_f32f32_f32") && choice.slices > 1 &&
      kernel.find("execute_split_k") == std::string::npos) {
    // A sum of two has no order.
    if (choice.slices > 2) throw refused("it adds its slices in the order in which its blocks end");
    kernel += " + execute_split_k";
  }
  try {
    std::vector<GemmPlan> plans =
        plans_of_kernel(kernel, inputs, choice.d, {.split_count = has_segments ? 0 : choice.slices});
    const auto is_first = [&](const GemmPlan& plan) { return plan == plans.front(); };
    if (in_ieee_environment([&] { return std::ranges::all_of(plans, is_first); })) return std::move(plans.front());
  } catch (const Error& error) {
    const Violation& first = error.violations().front();
    if (first.code == ViolationCode::unknown_kernel) throw refused("no pattern matches its name");
    if (first.field == "split_k") throw refused("it adds its slices in an unknown order");
    throw;
  }
  throw refused("the number of slices of its last tiles is unknown");
}

}  // namespace bitmma
