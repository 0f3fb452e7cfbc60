// SPDX-License-Identifier: MIT
#include "bitmma/hardware/word_campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstring>
#include <mutex>

#include "../core/seconds.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"

namespace bitmma {
namespace {

constexpr size_t words_of_a_launch = size_t{1} << 24, random_words_of_a_launch = size_t{1} << 20;
constexpr int64_t words_of_a_cta = kernel_threads;
constexpr int64_t most_arguments = int64_t{1} << 40;

/// Random words, half of them special: zeros, infinities, subnormals, extremes, powers of two, numbers near 1.
uint32_t random_argument(RandomStream& random, int bits) {
  const uint32_t word = random.word();
  // Narrower formats have other fields, but random bits hit their special values often enough.
  if (bits < 32) return word & static_cast<uint32_t>(low_mask(bits));
  const uint32_t sign = word & 0x80000000, mantissa = word & 0x007FFFFF;
  switch (random.below(16)) {
    case 0: return sign;
    case 1: return sign | 0x7F800000;
    case 2: return sign | mantissa;
    case 3: return sign | 0x7F7FFFFF;
    case 4: return sign | 0x00800000 | (mantissa & 3);
    case 5: return sign | (word >> 1 & 0x7F800000);
    case 6:
    case 7: return sign | ((word % 48 + 103) << 23) | mantissa;
    default: return word;
  }
}

void draw(std::vector<uint32_t>& words, size_t count, int bits, RandomStream& random) {
  words.resize(count);
  for (uint32_t& word : words) word = random_argument(random, bits);
}

/// The stream of a function's random arguments, by its name (FNV-1a): digests stay the same if functions are added.
uint64_t stream_of(std::string_view name) {
  uint32_t hash = 0x811C9DC5;
  for (const char letter : name) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x01000193;
  return uint64_t{hash} << 32;
}

/// The arguments from `first` on.
WordArguments arguments_of(const WordFunction& function, uint64_t seed, uint64_t first, size_t count) {
  WordArguments arguments{.first = static_cast<uint32_t>(first), .count = count};
  if (function.exhaustive) return arguments;
  RandomStream random(seed ^ 0x6D617468, stream_of(function.name) + first / random_words_of_a_launch);
  draw(arguments.a, count, function.argument_bits, random);
  if (function.operands > 1) draw(arguments.b, count, function.argument_bits, random);
  if (function.operands > 2) draw(arguments.c, count, function.argument_bits, random);
  // In every fourth case c cancels a * b except for the last bits: this is the purpose of fma.
  for (size_t i = 0; i < arguments.c.size(); i += 4) {
    if (function.argument_bits == 32 && i + 1 < count) {
      arguments.b[i] = arguments.b[i] % (1 << 24) + 0x3F000000;
      arguments.c[i] = (arguments.a[i] ^ 0x80000000) + random.below(3);
    }
  }
  return arguments;
}

uint32_t word_at(const std::vector<uint32_t>& words, size_t i) { return words.empty() ? 0 : words[i]; }

uint64_t mixed(uint64_t value) {  // splitmix64
  value += 0x9E3779B97F4A7C15;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

/// Compares one launch.
void compare(const WordFunction& function, const WordArguments& arguments, uint64_t first,
             std::span<const uint32_t> seen, WordCampaignRow& row, uint64_t& first_place) {
  std::vector<uint32_t> expected(arguments.count);
  function.model(arguments, expected);
  row.arguments += static_cast<int64_t>(arguments.count);
  row.digest += word_digest(first, seen);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (seen[i] == expected[i]) continue;
    ++row.differing;
    if (first + i >= first_place) continue;
    first_place = first + i;
    const uint32_t a = function.exhaustive ? arguments.first + static_cast<uint32_t>(i) : word_at(arguments.a, i);
    row.first = {
        .a = a, .b = word_at(arguments.b, i), .c = word_at(arguments.c, i), .gpu = seen[i], .model = expected[i]};
  }
}

void require_valid(const std::vector<WordFunction>& functions, const WordCampaignOptions& options) {
  std::vector<Violation> violations;
  const auto is_wanted = [&](const WordFunction& function) {
    return function.name.find(options.only) != std::string::npos;
  };
  if (std::ranges::none_of(functions, is_wanted)) {
    violations.push_back({.code = ViolationCode::unknown_name,
                          .field = "only",
                          .seen = options.only,
                          .expected = "text that occurs in the name of a function",
                          .fix = functions.empty() ? "" : fmt::format("such as {}", functions.front().name)});
  }
  if (options.arguments < 1 || options.arguments > most_arguments) {
    violations.push_back({.field = "arguments",
                          .seen = std::to_string(options.arguments),
                          .expected = fmt::format("1..{}", most_arguments)});
  }
  if (options.threads < 1 || options.threads > 1024)
    violations.push_back({.field = "threads", .seen = std::to_string(options.threads), .expected = "1..1024"});
  if (!(options.seconds >= 0))
    violations.push_back({.field = "seconds", .seen = fmt::format("{}", options.seconds), .expected = "0 or more"});
  if (!violations.empty()) throw Error(std::move(violations));
}

/// The words of a function with one operand: first + i, or random words.
std::vector<uint32_t> first_operand(const WordArguments& arguments) {
  if (!arguments.a.empty()) return arguments.a;
  std::vector<uint32_t> words(arguments.count);
  for (size_t i = 0; i < words.size(); ++i) words[i] = arguments.first + static_cast<uint32_t>(i);
  return words;
}

/// PTX of one instruction that reads and writes words. 16-bit registers hold the 16-bit formats.
std::string body_of(const MathInstruction& instruction) {
  const std::string name = print(instruction);
  const int operands = operand_count(instruction.operation);
  const auto list = [&](std::string_view prefix) {
    std::string text;
    for (const char letter : std::string_view("abc").substr(0, static_cast<size_t>(operands)))
      text += fmt::format(", {}{}", prefix, letter);
    return text;
  };
  if (result_bits(instruction) == 32) return fmt::format("  {} y{};\n", name, list(""));
  std::string text;
  for (const char letter : std::string_view("abc").substr(0, static_cast<size_t>(operands)))
    text += fmt::format("  cvt.u16.u32 h{0}, {0};\n", letter);
  return text + fmt::format("  {} hy{};\n  cvt.u32.u16 y, hy;\n", name, list("h"));
}

}  // namespace

std::vector<WordFunction> math_word_functions(Target target) {
  std::vector<WordFunction> functions;
  for (const MathInstruction& instruction : math_instructions()) {
    if (instruction.format == Format::f64) continue;  // it needs two words
    if (!targets_of(instruction).contains(target)) continue;
    const int operands = operand_count(instruction.operation), bits = bits_of(instruction.format);
    // Exact rounding of all words would take a CPU minutes and show no more than random words do.
    const bool exhaustive = operands == 1 && instruction.accuracy == MathAccuracy::approx && !instruction.x2;
    functions.push_back({.name = print(instruction),
                         .operands = operands,
                         .argument_bits = instruction.x2 ? 32 : bits,
                         .exhaustive = exhaustive,
                         .body = body_of(instruction),
                         .model = [instruction](const WordArguments& arguments, std::span<uint32_t> results) {
                           compute(instruction, first_operand(arguments), arguments.b, arguments.c, results);
                         }});
  }
  return functions;
}

namespace {

/// Loads an operand of cvt from the words a and b: a 64-bit operand takes both, the second of two operands takes b.
std::string cvt_load(const CvtOperand& operand, std::string_view word) {
  if (operand.bits == 64) return fmt::format("  mov.b64 %{}, {{a, b}};\n", operand.name);
  if (operand.bits == 32) return fmt::format("  mov.b32 %{}, {};\n", operand.name, word);
  return fmt::format("  cvt.u{}.u32 %{}, {};\n", operand.bits, operand.name, word);
}

/// Computes one word of the result: bits 0..31, or 32..63.
std::string cvt_body(const CvtInstruction& instruction, int word) {
  // Two 4-bit codes need 8-bit registers, and so do 8-bit integers beside bf16; others need 16-bit registers.
  const bool may_have_8_bits = instruction.lanes == 2 || instruction.from == CvtType::bf16;
  const int bits = result_bits(instruction), register_bits = may_have_8_bits ? bits : std::max(bits, 16);
  std::string text = fmt::format("  {{\n  .reg .b{} %d;\n  .reg .b32 low, high;\n", register_bits);
  std::string loads;
  int place = 0;
  for (const CvtOperand& operand : operands_of(instruction)) {
    text += fmt::format("  .reg .b{} %{};\n", operand.bits, operand.name);
    loads += cvt_load(operand, place++ == 0 ? "a" : "b");
  }
  text += loads + "  " + cvt_statement(instruction) + "\n";
  if (bits == 64) text += fmt::format("  mov.b64 {{low, high}}, %d;\n  mov.b32 y, {};\n", word == 0 ? "low" : "high");
  else if (bits == 32) text += "  mov.b32 y, %d;\n";
  else text += fmt::format("  cvt.u32.u{} y, %d;\n  and.b32 y, y, {};\n", register_bits, low_mask(bits));
  return text + "  }\n";
}

}  // namespace

std::vector<WordFunction> cvt_word_functions(Target target) {
  std::vector<WordFunction> functions;
  for (const CvtInstruction& instruction : cvt_instructions()) {
    const std::vector<CvtOperand> operands = operands_of(instruction);
    const bool fits = std::ranges::all_of(operands, [](const CvtOperand& x) { return x.name == "a" || x.name == "b"; });
    if (!targets_of(instruction).contains(target) || !fits) continue;
    const bool wide = operands[0].bits == 64;
    const int words = result_bits(instruction) == 64 ? 2 : 1, count = wide ? 2 : static_cast<int>(operands.size());
    for (int word = 0; word < words; ++word) {
      functions.push_back({.name = words == 1 ? print(instruction)
                                              : fmt::format("{} {}", print(instruction), word == 0 ? "low" : "high"),
                           .operands = count,
                           .argument_bits = std::min(operands[0].bits, 32),
                           .exhaustive = count == 1 && operands[0].bits <= 16,
                           .body = cvt_body(instruction, word),
                           .version = std::max(ptx_version_of(instruction), PtxVersion{8, 6}),
                           .model = [=](const WordArguments& arguments, std::span<uint32_t> results) {
                             const std::vector<uint32_t> a = first_operand(arguments);
                             for (size_t i = 0; i < results.size(); ++i) {
                               const uint64_t second = arguments.b.empty() ? 0 : arguments.b[i];
                               const CvtOperands operands =
                                   wide ? CvtOperands{.a = second << 32 | a[i]} : CvtOperands{.a = a[i], .b = second};
                               results[i] = static_cast<uint32_t>(compute(instruction, operands) >> 32 * word);
                             }
                           }});
    }
  }
  return functions;
}

namespace {

/// "bits_of_expf", "bits_of_expf_fast", "bits_of_tl_exp_triton".
std::string entry_of(const CFunction& function) {
  std::string entry = fmt::format("bits_of_{}", function.name);
  std::ranges::replace(entry, '.', '_');
  switch (function.compiler) {
    case CCompiler::cuda_13: return entry;
    case CCompiler::cuda_13_fast_math: return entry + "_fast";
    case CCompiler::triton_3_6: break;
  }
  return entry + "_triton";
}

/// True if a module has a kernel with this name. The name may also be the beginning of a longer one.
bool has_entry(const std::string& module, const std::string& entry) {
  for (size_t at = module.find(entry); at != std::string::npos; at = module.find(entry, at + 1)) {
    const char next = at + entry.size() < module.size() ? module[at + entry.size()] : '\0';
    if (!std::isalnum(static_cast<unsigned char>(next)) && next != '_') return true;
  }
  return false;
}

}  // namespace

std::vector<WordFunction> c_word_functions(const std::vector<std::string>& modules) {
  std::vector<WordFunction> functions;
  for (const std::string& module : modules) {
    const size_t before = functions.size();
    for (const CFunction& function : c_functions()) {
      if (!has_entry(module, entry_of(function))) continue;
      functions.push_back({.name = print(function),
                           .operands = function.operands,
                           .exhaustive = function.operands == 1,
                           .module = module,
                           .entry = entry_of(function),
                           .model = [function](const WordArguments& arguments, std::span<uint32_t> results) {
                             compute(function, first_operand(arguments), arguments.b, results);
                           }});
    }
    if (functions.size() > before) continue;
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "kernels",
                 .seen = "no function of C",
                 .expected = "PTX or a cubin of lab/c_functions.cu or lab/c_functions_triton.py",
                 .fix = "nvcc -arch=sm_90a -cubin lab/c_functions.cu"});
  }
  return functions;
}

Kernel word_kernel(const WordFunction& function, Target target, bool with_arrays) {
  Kernel kernel;
  if (!function.module.empty()) {
    const int inputs = with_arrays ? function.operands : 1;
    for (int i = 0; i < inputs; ++i)
      kernel.inputs.push_back({.name = "in", .bytes_per_case = with_arrays ? 4 * words_of_a_cta : 0});
    kernel.output = {.name = "y_out", .bytes_per_case = 4 * words_of_a_cta};
    kernel.text = function.module;
    kernel.entry = function.entry;
    return kernel;
  }
  std::string parameters, loads;
  const auto add_input = [&](char letter, int64_t bytes_per_case) {
    kernel.inputs.push_back({.name = fmt::format("{}_in", letter), .bytes_per_case = bytes_per_case});
    parameters += fmt::format("  .param .b64 {}_in,\n", letter);
    loads += fmt::format("  ld.param.u64 pointer, [{0}_in];\n  cvta.to.global.u64 pointer, pointer;\n", letter);
  };
  if (with_arrays) {
    for (const char letter : std::string_view("abc").substr(0, static_cast<size_t>(function.operands))) {
      add_input(letter, 4 * words_of_a_cta);
      loads += fmt::format("  add.s64 pointer, pointer, offset;\n  ld.global.b32 {}, [pointer];\n", letter);
    }
  } else {
    add_input('a', 0);
    loads += "  ld.global.b32 a, [pointer];\n  add.u32 a, a, index;\n";
  }
  kernel.output = {.name = "y_out", .bytes_per_case = 4 * words_of_a_cta};
  kernel.text = fmt::format(
      "// {0}: a thread an argument\n"
      ".version {1}.{2}\n"
      ".target {3}\n"
      ".address_size 64\n"
      "\n"
      ".visible .entry {4}(\n"
      "{5}"
      "  .param .b64 y_out\n"
      ")\n"
      "{{\n"
      "  .reg .b16 ha, hb, hc, hy;\n"
      "  .reg .b32 cta, index, a, b, c, y;\n"
      "  .reg .b64 pointer, offset;\n"
      "\n"
      "  mov.u32 index, %tid.x;\n"
      "  mov.u32 cta, %ctaid.x;\n"
      "  mad.lo.u32 index, cta, {6}, index;\n"
      "  mul.wide.u32 offset, index, 4;\n"
      "{7}"
      "{8}"
      "  ld.param.u64 pointer, [y_out];\n"
      "  cvta.to.global.u64 pointer, pointer;\n"
      "  add.s64 pointer, pointer, offset;\n"
      "  st.global.b32 [pointer], y;\n"
      "  ret;\n"
      "}}\n",
      function.name, function.version.major, function.version.minor, print(target), kernel_name, parameters,
      words_of_a_cta, loads, function.body);
  return kernel;
}

uint64_t word_digest(uint64_t first_place, std::span<const uint32_t> results) {
  uint64_t sum = 0;
  for (size_t i = 0; i < results.size(); ++i) sum += mixed((first_place + i) << 32 | results[i]);
  return sum;
}

WordCampaignReport run_word_campaign(const std::vector<WordFunction>& functions, const WordCampaignOptions& options,
                                     const WordExecutor& execute, const WordCampaignProgress& progress) {
  require_valid(functions, options);
  const auto begin = std::chrono::steady_clock::now();
  const auto is_late = [&] { return options.seconds > 0 && seconds_since(begin) > options.seconds; };
  WordCampaignReport report;
  for (const WordFunction& function : functions) {
    if (function.name.find(options.only) == std::string::npos) continue;
    if (is_late() || (options.stop && options.stop())) {
      report.stopped = true;
      break;
    }
    const uint64_t words =
        function.exhaustive ? uint64_t{1} << function.argument_bits : static_cast<uint64_t>(options.arguments);
    const size_t at_once = function.exhaustive ? words_of_a_launch : random_words_of_a_launch;
    const size_t launches = static_cast<size_t>((words + at_once - 1) / at_once);
    WordCampaignRow row{.name = function.name, .exhaustive = function.exhaustive};
    uint64_t first_place = ~uint64_t{0};
    std::mutex mutex;
    std::atomic<bool> stopped = false;
    parallel_for(launches, options.threads, [&](size_t launch) {
      if (stopped || (options.stop && options.stop())) {
        stopped = true;
        return;
      }
      const uint64_t first = launch * at_once;
      const auto count = static_cast<size_t>(std::min<uint64_t>(at_once, words - first));
      const WordArguments arguments = arguments_of(function, options.seed, first, count);
      const std::vector<uint32_t> seen = execute(function, arguments);
      if (seen.size() != count) {
        throw Error({.code = ViolationCode::wrong_shape,
                     .field = function.name,
                     .seen = counted(static_cast<int64_t>(seen.size()), "result"),
                     .expected = counted(static_cast<int64_t>(count), "result")});
      }
      WordCampaignRow part;
      uint64_t part_place = ~uint64_t{0};
      compare(function, arguments, first, seen, part, part_place);
      const std::lock_guard lock(mutex);
      row.arguments += part.arguments;
      row.differing += part.differing;
      row.digest += part.digest;
      if (part_place < first_place) {
        first_place = part_place;
        row.first = part.first;
      }
      if (progress) progress(function, row.arguments, static_cast<int64_t>(words));
    });
    report.rows.push_back(row);
    if (stopped) {
      report.stopped = true;
      break;
    }
  }
  return report;
}

WordExecutor word_executor(const Gpu& gpu) {
  return [&gpu](const WordFunction& function, const WordArguments& arguments) { return gpu.run(function, arguments); };
}

Report describe(const WordCampaignReport& report, const WordCampaignOptions& options, double seconds) {
  Report rows = Report::list();
  std::vector<std::vector<std::string>> table{{"function", "arguments", "differing", "digest"}};
  int64_t arguments = 0, differing = 0;
  Report summary{{"gpu", options.source}};
  for (const auto& [name, value] : options.provenance) summary.add(name, value);
  for (const WordCampaignRow& row : report.rows) {
    arguments += row.arguments;
    differing += row.differing;
    const bool all = row.exhaustive && row.arguments >= int64_t{1} << 16;
    table.push_back({row.name, all ? fmt::format("all {}", row.arguments) : fmt::format("{} random", row.arguments),
                     std::to_string(row.differing), fmt::format("{:016x}", row.digest)});
    Report entry{{"function", row.name},
                 {"all", row.exhaustive},
                 {"arguments", row.arguments},
                 {"differing", row.differing},
                 {"digest", fmt::format("{:016x}", row.digest)}};
    if (row.first) {
      entry.add("first", {{"a", fmt::format("{:#010x}", row.first->a)},
                          {"b", fmt::format("{:#010x}", row.first->b)},
                          {"c", fmt::format("{:#010x}", row.first->c)},
                          {"gpu", fmt::format("{:#010x}", row.first->gpu)},
                          {"model", fmt::format("{:#010x}", row.first->model)}});
    }
    rows.append(std::move(entry));
  }
  table.push_back({"total", std::to_string(arguments), std::to_string(differing), ""});
  summary.add("seed", options.seed).add("seconds", seconds).add("stopped", report.stopped).add("rows", std::move(rows));
  std::string who = options.source;
  for (const auto& [name, value] : options.provenance) who += fmt::format(", {} {}", name, value);
  summary.add_text(fmt::format("{}; seed {}; {} s", who, options.seed, print_seconds(seconds)))
      .add_text("")
      .add_text(table);
  for (const WordCampaignRow& row : report.rows) {
    if (!row.first) continue;
    summary.add_text(fmt::format("{}: first of {:#010x} {:#010x} {:#010x}: the GPU gives {:#010x}, the model {:#010x}",
                                 row.name, row.first->a, row.first->b, row.first->c, row.first->gpu, row.first->model),
                     Tone::bad);
  }
  return summary;
}

}  // namespace bitmma
