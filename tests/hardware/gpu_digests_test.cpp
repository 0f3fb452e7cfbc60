// All arguments of functions of words, against the digests of what an H100 and an H200 gave (data/math).
#include <chrono>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "bitmma/core/parallel.hpp"
#include "bitmma/hardware/word_campaign.hpp"
#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

struct Recorded {
  std::string function;
  uint64_t arguments = 0, digest = 0;
};

/// Rows of a table of data/math, without the names of the columns.
std::vector<std::vector<std::string>> table_of(const std::string& name) {
  std::istringstream lines(test::read_text(test::source_path("data/math/" + name)));
  std::vector<std::vector<std::string>> rows;
  std::string line, cell;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    rows.emplace_back();
    while (std::getline(cells, cell, ',')) rows.back().push_back(cell);
  }
  return rows;
}

/// What the H100 gave, then what the H200 alone was asked. Both gave the same where both were asked.
const std::vector<Recorded>& recorded() {
  static const std::vector<Recorded> rows = [] {
    std::vector<Recorded> functions;
    for (const char* file : {"h100.csv", "h200.csv"}) {
      for (const std::vector<std::string>& row : table_of(file)) {
        const Recorded digest_row{
            .function = row[0], .arguments = std::stoull(row[1]), .digest = std::stoull(row[2], nullptr, 16)};
        const auto same = std::ranges::find(functions, digest_row.function, &Recorded::function);
        if (same == functions.end()) functions.push_back(digest_row);
        else if (same->digest != digest_row.digest)
          throw std::runtime_error(digest_row.function + " differs between GPUs");
      }
    }
    return functions;
  }();
  return rows;
}

/// The model of a function by its name in the file.
WordFunction function_named(const std::string& name) {
  static const std::vector<WordFunction> instructions = math_word_functions(Target::sm_90a),
                                         conversions = cvt_word_functions(Target::sm_90a);
  for (const std::vector<WordFunction>* all : {&instructions, &conversions}) {
    const auto function = std::ranges::find(*all, name, &WordFunction::name);
    if (function != all->end()) return *function;
  }
  return {.name = name,
          .model = [function = parse_c_function(name)](const WordArguments& arguments, std::span<uint32_t> y) {
            std::vector<uint32_t> words(arguments.count);
            for (size_t i = 0; i < words.size(); ++i) words[i] = arguments.first + static_cast<uint32_t>(i);
            compute(function, words, {}, y);
          }};
}

uint64_t digest_of(const WordFunction& function, uint64_t arguments) {
  constexpr uint64_t at_once = uint64_t{1} << 20;
  const size_t pieces = static_cast<size_t>((arguments + at_once - 1) / at_once);
  std::vector<uint64_t> sums(pieces);
  parallel_for(pieces, hardware_threads(), [&](size_t piece) {
    const uint64_t first = piece * at_once;
    std::vector<uint32_t> results(static_cast<size_t>(std::min(at_once, arguments - first)));
    function.model({.first = static_cast<uint32_t>(first), .count = results.size()}, results);
    sums[piece] = word_digest(first, results);
  });
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

TEST_CASE("all words of 16 bits give the digests of an H100", "[rule:mufu][rule:cvt]") {
  int tried = 0;
  for (const Recorded& row : recorded()) {
    if (row.arguments > 65536 || row.function.find("f64 ") != std::string::npos) continue;
    INFO(row.function);
    CHECK(digest_of(function_named(row.function), row.arguments) == row.digest);
    ++tried;
  }
  CHECK(tried > 100);
}

TEST_CASE("all 2^32 words of a function give the digest of a GPU, another each day", "[rule:mufu][daily]") {
  std::vector<Recorded> rows;
  for (const Recorded& row : recorded()) {
    if (row.arguments == uint64_t{1} << 32) rows.push_back(row);
  }
  REQUIRE(rows.size() > 10);
  const auto days =
      std::chrono::duration_cast<std::chrono::hours>(std::chrono::system_clock::now().time_since_epoch()).count() / 24;
  const Recorded& row = rows[static_cast<size_t>(days % std::ssize(rows))];
  INFO(row.function);
  CHECK(digest_of(function_named(row.function), row.arguments) == row.digest);
}

TEST_CASE("every quadratic gives the words of an H100 at both of its ends", "[rule:mufu]") {
  std::set<std::tuple<std::string_view, int, bool>> ends;  // of a table and a quadratic: the last end, or the first
  int words = 0;
  for (const std::vector<std::string>& row : table_of("ends.csv")) {
    const MathInstruction instruction = parse_math_instruction(row.at(0));
    const auto word = static_cast<uint32_t>(std::stoul(row.at(1), nullptr, 16));
    INFO(row[0] << " " << row[1]);
    REQUIRE(compute(instruction, word) == std::stoul(row.at(2), nullptr, 16));
    ++words;
    const std::optional<MufuSteps> steps = mufu_steps(instruction, word);
    if (!steps) continue;
    const uint32_t last = steps->table == "rcp" ? 0x1FFFE : 0x1FFFF;
    if (steps->x == 0 || steps->x == last) ends.emplace(steps->table, steps->index, steps->x == last);
  }
  CHECK(words == 22874);
  CHECK(ends.size() == 2 * 627);
}

TEST_CASE("rcp and rsqrt of f64 give the upper words of an H100", "[rule:mufu]") {
  int tried = 0;
  for (const Recorded& row : recorded()) {
    const size_t end = row.function.find(' ');
    if (end == std::string::npos || row.function.find("f64 ") == std::string::npos) continue;
    std::vector<uint32_t> words;
    if (row.arguments == 12288) {
      for (const uint32_t mantissa : {0u, 1u, 0x9ABCDu}) {
        for (uint32_t i = 0; i < 4096; ++i) words.push_back((i << 20) + mantissa);
      }
    } else {
      const auto first = static_cast<uint32_t>(std::stoul(row.function.substr(row.function.rfind(' ')), nullptr, 16));
      for (uint32_t i = 0; i < 1u << 20; ++i) words.push_back(first + i);
    }
    const MathInstruction instruction = parse_math_instruction(row.function.substr(0, end));
    bool lower_words_are_zero = true;
    for (uint32_t& word : words) {
      const uint64_t result = compute(instruction, uint64_t{word} << 32 | 0x12345678);
      lower_words_are_zero = lower_words_are_zero && static_cast<uint32_t>(result) == 0;
      word = static_cast<uint32_t>(result >> 32);
    }
    INFO(row.function);
    CHECK(word_digest(0, words) == row.digest);
    CHECK(lower_words_are_zero);
    ++tried;
  }
  CHECK(tried == 6);
}

TEST_CASE("PyTorch's eager functions are CUDA's, and of 16-bit formats CUDA's between two conversions", "[rule:mufu]") {
  int tried = 0;
  for (const std::vector<std::string>& row : table_of("pytorch.csv")) {
    INFO(row[0]);
    const auto all = std::ranges::find(recorded(), row[1], &Recorded::function);
    REQUIRE(all != recorded().end());
    CHECK(std::stoull(row[2], nullptr, 16) == all->digest);
    for (const int column : {3, 4}) {
      const std::string format = column == 3 ? "f16" : "bf16";
      const CvtInstruction widen = parse_cvt("cvt.f32." + format), narrow = parse_cvt("cvt.rn." + format + ".f32");
      std::vector<uint32_t> words(65536), results(65536);
      for (uint32_t i = 0; i < 65536; ++i) words[i] = static_cast<uint32_t>(compute(widen, {.a = i}));
      compute(parse_c_function(row[1]), words, {}, results);
      for (uint32_t& word : results) word = static_cast<uint32_t>(compute(narrow, {.a = word}));
      INFO(format);
      CHECK(word_digest(0, results) == std::stoull(row[static_cast<size_t>(column)], nullptr, 16));
    }
    ++tried;
  }
  CHECK(tried == 18);
}
