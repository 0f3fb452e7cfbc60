// SPDX-License-Identifier: MIT
#include "bitmma/gemm/library_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <string_view>
#include <vector>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "choices_data.hpp"

namespace bitmma {
namespace {

constexpr std::string_view the_library = "cublas 13.1";

/// From this M on the library takes this kernel; 0: nothing was recorded.
struct Run {
  int64_t m = 0;
  size_t kernel = 0;
};

struct Recorded {
  std::string gpu, kind, layout;
  std::vector<size_t> lists;  // of each pair, its runs; 0: none
};

/// The table of data/choices, whose README explains it.
struct Choices {
  std::vector<std::pair<int64_t, int64_t>> pairs;    // (N, K)
  std::vector<std::pair<std::string, int>> kernels;  // names and slices, from number 1 on
  std::vector<std::vector<Run>> lists = {{}};        // from number 1 on; the last run of each ends it
  std::vector<Recorded> calls;

  Choices() {
    std::istringstream lines{std::string(choices_text)};
    std::vector<std::string> names;
    std::string section;
    for (std::string line; std::getline(lines, line);) {
      const bool is_section =
          line == "pairs" || line == "names" || line == "kernels" || line == "runs" || line == "choices";
      if (line.empty() || line.front() == '#') continue;
      if (is_section) section = line;
      else if (section == "pairs") read_pairs(line);
      else if (section == "names") names.push_back(line);
      else if (section == "kernels") read_kernels(names, numbers_in(line));
      else if (section == "runs") read_runs(numbers_in(line));
      else read_call(line);
    }
  }

  static const Choices& get() {
    static const Choices choices;
    return choices;
  }

 private:
  /// Base64 VLQ without sign: 5 bits a digit, the lowest first; 32 marks all digits of a number but its last.
  static std::vector<int64_t> numbers_in(std::string_view text) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<int64_t> numbers;
    int64_t number = 0;
    int shift = 0;
    for (const char letter : text) {
      const auto digit = static_cast<int64_t>(digits.find(letter));
      number |= (digit & 31) << shift, shift += 5;
      if (digit > 31) continue;
      numbers.push_back(number);
      number = 0, shift = 0;
    }
    return numbers;
  }

  void read_pairs(const std::string& line) {
    std::istringstream words(line);
    int64_t n = 0, k = 0;
    for (char comma = 0; words >> n >> comma >> k;) pairs.emplace_back(n, k);
  }

  void read_kernels(const std::vector<std::string>& names, const std::vector<int64_t>& numbers) {
    kernels.emplace_back();
    for (size_t i = 0; i + 1 < numbers.size(); i += 2)
      kernels.emplace_back(names[static_cast<size_t>(numbers[i])], static_cast<int>(numbers[i + 1]));
  }

  void read_runs(const std::vector<int64_t>& numbers) {
    std::vector<Run>& runs = lists.emplace_back();
    int64_t m = 0;
    for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
      m += numbers[i];
      runs.push_back({.m = m, .kernel = static_cast<size_t>(numbers[i + 1])});
    }
  }

  void read_call(const std::string& line) {
    Recorded call;
    std::istringstream words(line);
    std::string lists_text;
    std::getline(words, call.gpu, '|'), std::getline(words, call.kind, '|'), std::getline(words, call.layout, '|');
    std::getline(words, lists_text);
    for (const int64_t list : numbers_in(lists_text)) call.lists.push_back(static_cast<size_t>(list));
    calls.push_back(std::move(call));
  }
};

/// The distinct values of a field of the recorded calls.
std::vector<std::string> all_of(std::string Recorded::*field, std::string_view gpu = {}, std::string_view kind = {}) {
  std::vector<std::string> values;
  for (const Recorded& recorded : Choices::get().calls) {
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

/// The recorded pairs, the nearest first, of which `m` rows were recorded. Another alignment counts as 16 times as far.
std::vector<size_t> nearest_pairs(const Recorded& recorded, int64_t m, int64_t n, int64_t k) {
  const Choices& all = Choices::get();
  const auto distance = [&](size_t pair) {
    const auto [other_n, other_k] = all.pairs[pair];
    const auto apart = [](int64_t x, int64_t y) {
      return std::abs(std::log2(static_cast<double>(x)) - std::log2(static_cast<double>(y)));
    };
    return apart(n, other_n) + apart(k, other_k) + (alignment(n, k) == alignment(other_n, other_k) ? 0 : 4);
  };
  std::vector<size_t> pairs;
  for (size_t pair = 0; pair < all.pairs.size(); ++pair) {
    const std::vector<Run>& runs = all.lists[recorded.lists[pair]];
    if (!runs.empty() && runs.front().m <= m && m < runs.back().m) pairs.push_back(pair);
  }
  std::ranges::stable_sort(pairs, {}, distance);
  return pairs;
}

/// Rows that were recorded of A with contiguous columns: there the last bits of M decide too.
int64_t step_of_m(std::string_view layout, int64_t m) {
  if (layout.front() == 'n') return 1;
  return m < 256 ? 8 : m < 2048 ? 16 : 64;
}

/// The kernel from `m` rows on; nothing if that many were not recorded.
const Run* run_at(const std::vector<Run>& runs, int64_t m) {
  const auto after = std::ranges::upper_bound(runs, m, {}, &Run::m);
  return after == runs.begin() || after == runs.end() ? nullptr : &*(after - 1);
}

/// The recorded shape from which the choice for the requested one is taken: (M, number of the pair).
std::pair<int64_t, size_t> recorded_shape(const Recorded& recorded, const LibraryCall& call) {
  const Choices& all = Choices::get();
  const int64_t step = step_of_m(call.layout, call.m);
  const auto pair = std::ranges::find(all.pairs, std::pair(call.n, call.k));
  const size_t at = static_cast<size_t>(pair - all.pairs.begin());
  const std::vector<Run>* const runs = pair == all.pairs.end() ? nullptr : &all.lists[recorded.lists[at]];
  const bool has_pair = runs && !runs->empty();
  if (has_pair && call.m % step == 0 && run_at(*runs, call.m)) return {call.m, at};
  int64_t end = 0;
  for (const size_t list : recorded.lists) end = std::max(end, all.lists[list].empty() ? 0 : all.lists[list].back().m);
  const int64_t m = std::clamp(call.m / step * step, step, (end - 1) / step * step);
  if (has_pair && run_at(*runs, m) && call.nearest) return {m, at};
  const std::vector<size_t> near = nearest_pairs(recorded, m, call.n, call.k);
  if (call.nearest && !near.empty()) return {m, near.front()};
  Violation violation{.field = "m, n, k", .seen = fmt::format("{} x {} x {}", call.m, call.n, call.k)};
  if (has_pair) {
    violation.expected = fmt::format("M of 1..{}{}", runs->back().m - 1,
                                     step == 1 ? "" : ", in steps of 8; of 16 from 256 on; of 64 from 2048 on");
  } else {
    violation.expected = "a recorded (N, K), the nearest are ";
    for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i)
      violation.expected +=
          fmt::format("{}({}, {})", i == 0 ? "" : ", ", all.pairs[near[i]].first, all.pairs[near[i]].second);
  }
  violation.fix = "`nearest` takes the choice of the nearest recorded shape, which may be another kernel";
  throw Error(std::move(violation));
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

LibraryChoice library_choice(const LibraryCall& call) {
  std::string library = call.library;
  std::ranges::replace(library, '-', ' ');
  if (library != the_library) refuse("library", call.library, {std::string(the_library)});
  const std::vector<std::string> gpus = all_of(&Recorded::gpu);
  if (std::ranges::find(gpus, call.gpu) == gpus.end()) refuse("gpu", call.gpu.empty() ? "(missing)" : call.gpu, gpus);
  if (call.m < 1 || call.n < 1 || call.k < 1) {
    throw Error({.field = "m, n, k",
                 .seen = fmt::format("{} x {} x {}", call.m, call.n, call.k),
                 .expected = "1 or more of each"});
  }
  const std::string kind = kind_of(call);
  const std::vector<std::string> kinds = all_of(&Recorded::kind, call.gpu);
  if (std::ranges::find(kinds, kind) == kinds.end())
    refuse("types", kind, kinds,
           info(call.a).bits == 8 && call.scales == CallScales::none
               ? "float8 needs scale_a and scale_b, as torch._scaled_mm does"
               : "the choices for these calls were recorded");
  const auto recorded = std::ranges::find_if(Choices::get().calls, [&](const Recorded& row) {
    return row.gpu == call.gpu && row.kind == kind && row.layout == call.layout;
  });
  if (recorded == Choices::get().calls.end())
    refuse("layout", call.layout, all_of(&Recorded::layout, call.gpu, kind),
           "of A and B: n has contiguous rows, t contiguous columns");
  const auto [m, pair] = in_ieee_environment([&] { return recorded_shape(*recorded, call); });
  const auto [n, k] = Choices::get().pairs[pair];
  const Run* const run = run_at(Choices::get().lists[recorded->lists[pair]], m);
  const auto& [kernel, slices] = Choices::get().kernels[run->kernel];
  return {.kernel = kernel,
          .slices = slices,
          .d = output_of(call),
          .exact = m == call.m && n == call.n && k == call.k,
          .m = m,
          .n = n,
          .k = k,
          .library = library,
          .gpu = call.gpu,
          .kind = kind,
          .layout = call.layout};
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
  const auto refused = [&](std::string why) {
    return Error({.code = ViolationCode::unknown_kernel,
                  .field = "kernel",
                  .seen = fmt::format("{}, {}", choice.kernel, counted(std::max(1, choice.slices), "slice")),
                  .expected = fmt::format("a kernel whose plan is known: {} takes this one, but {}", choice.library,
                                          std::move(why)),
                  .fix = "a search (find_plans) looks for the plan in recorded bits"});
  };
  if (choice.kernel.find("gemvx::kernel") != std::string::npos && choice.d == Format::f32)
    throw refused("no plan gives all recorded calls of it");
  // A kernel that adds its slices itself adds them as another kernel would.
  std::string kernel = choice.kernel;
  if (kernel.starts_with("sm80_xmma_gemm_f32f32_f32f32_f32") && choice.slices > 1) kernel += " + execute_split_k";
  try {
    std::vector<GemmPlan> plans =
        plans_of_kernel(kernel, inputs, choice.d, {.split_count = has_segments ? 0 : std::max(1, choice.slices)});
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
