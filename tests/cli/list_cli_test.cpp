#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/make_instruction.hpp"
#include "bitmma/instruction/statement.hpp"
#include "run.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::run;

namespace {

const test::BadRequests bad_requests({
    {"list --target sm_60", unknown_name, "--target"},
    {"list --target blackwell", unknown_name, "--target"},
    {"list --json --markdown", not_together, "--markdown"},
    {"list --mnemonics --wide", not_together, "--wide"},
    {"list --matrix --json", not_together, "--matrix"},
    {"list --matrix --mnemonics", not_together, "--matrix"},
    {"list --matrix --wide", not_together, "--matrix"},
    {"list wgmma e2m1", illegal_value, "words"},
    {"list --mnemonics sm_60", illegal_value, "words"},
    {"list h100 --target sm_80", contradiction, "words"},
    {"list wmma", illegal_value, "words"},
});

/// Under sanitizers lists are asked for a GPU without tcgen05.mma, whose forms take most of the time.
const bool is_whole = test::amount(false, true, true);
std::string listed(std::vector<std::string> words) {
  words.insert(words.begin(), "list");
  if (!is_whole) words.insert(words.end(), {"--target", "sm_90a"});
  return run(words).out;
}

}  // namespace

TEST_CASE("list refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("list shows every legal form with its evidence, and all mnemonics") {
  const auto json = nlohmann::json::parse(run({"list", "--json"}).out);
  // A line for every rule of a form: the same mma.sync adds differently from GPU to GPU.
  CHECK(json.size() > forms().size());
  for (const Form& form : forms()) {
    CHECK(std::any_of(json.begin(), json.end(), [&](const auto& row) { return row["instruction"] == form.name; }));
  }
  for (const auto& row : json) CHECK_FALSE(row["evidence"].get<std::string>().empty());
  const std::vector<std::string> of_all{"--mnemonics"}, of_wgmma{"--mnemonics", "wgmma"};
  std::istringstream mnemonics(listed(is_whole ? of_all : of_wgmma));
  size_t count = 0;
  for (std::string line; std::getline(mnemonics, line); ++count) {
    INFO(line);
    CHECK(print(parse_instruction(line)) == line);
  }
  CHECK(count == (is_whole ? all_instructions() : all_instructions(Family::wgmma)).size());
  // wgmma, tcgen05.mma, mma.sync, and the moves
  CHECK(count >= (is_whole ? 1074 + 464 + 412 + 186 : 1074));
}

TEST_CASE("list names the targets of a form, the evidence on each, and shows one target alone") {
  const auto json = nlohmann::json::parse(run({"list", "--json"}).out);
  const std::string gpu = is_whole ? "sm_103a" : "sm_120a";
  size_t of_gpu = 0, moves = 0;
  for (const auto& row : json) {
    INFO(row.dump());
    REQUIRE_FALSE(row["targets"].empty());
    CHECK(row["targets"].size() == row["evidence_by_target"].size());
    for (const auto& target : row["targets"]) of_gpu += target == gpu;
    moves += row["arithmetic"] == "-";
  }
  CHECK(moves == 5);  // ld, st, cp, shift, ld.red
  const auto filtered = nlohmann::json::parse(run({"list", "--target", gpu, "--json"}).out);
  CHECK(filtered.size() == of_gpu);
  for (const auto& row : filtered) CHECK(row["targets"] == nlohmann::json::array({gpu}));
  if (!is_whole) return;
  const std::string table = run({"list", "--wide"}).out;
  CHECK_THAT(table,
             ContainsSubstring("instruction") && ContainsSubstring("target") &&
                 ContainsSubstring("measured on an NVIDIA H200") &&
                 ContainsSubstring("on sm_80, sm_86, sm_89: published hardware words; on sm_87: published model; "
                                   "on sm_88: model choice") &&
                 ContainsSubstring("published hardware words; published model for e4m3 x e5m2, e5m2 x e4m3"));
  CHECK_THAT(run({"list", "--markdown"}).out, ContainsSubstring("| instruction | target | D | A | B | K | K .sp |"));
  CHECK_THAT(run({"list", "--target", "sm_120a", "--mnemonics"}).out,
             ContainsSubstring("mma.sync") && !ContainsSubstring("tcgen05"));
}

TEST_CASE("list --matrix has a word for every level that a GPU's instructions have, and follows words and target") {
  CHECK_THAT(run({"list", "--matrix", "--markdown", "wgmma"}).out,
             ContainsSubstring("| GPU | wgmma.mma_async |\n|---|---|\n| H100, H200 | measured |\n\nmeasured: "));
  const std::string b300 = run({"list", "--matrix", "--target", "sm_103a"}).out;
  CHECK_THAT(b300, ContainsSubstring("B300") && !ContainsSubstring("B200"));
  CHECK(b300.substr(0, b300.find("\n\n")).find("measured") == std::string::npos);
  if (!is_whole) return;
  CHECK_THAT(run({"list", "--matrix", "tcgen05.ld.red"}).out, ContainsSubstring("B300, Rubin, Thor"));
  CHECK_THAT(run({"list", "--matrix", "mma.sync"}).out,
             ContainsSubstring("T4, RTX 20") && ContainsSubstring("results"));
}

namespace {

/// The instruction that a row of `list --json` promises, with these types.
Instruction promised(const nlohmann::json& row, const std::string& a, const std::string& b, bool sparse,
                     const nlohmann::json& scales, const std::string& scale_type) {
  const auto name = row["instruction"].get<std::string>(), options = row["options"].get<std::string>();
  const auto has = [&](std::string_view word) { return options.find(word) != std::string::npos; };
  const Family family = name.starts_with("wgmma")     ? Family::wgmma
                        : name.starts_with("tcgen05") ? Family::tcgen05
                                                      : Family::mma_sync;
  std::vector<NamedValue> values{{"d", row["d"].get<std::string>()},
                                 {"a", a},
                                 {"b", b},
                                 {"sparse", sparse},
                                 {"k", row[sparse ? "k_sparse" : "k"].get<int64_t>()}};
  if (const size_t kind = name.find("kind::"); kind != std::string::npos)
    values.push_back({"kind", name.substr(kind + 6)});
  if (family == Family::mma_sync) values.push_back({"m", int64_t{name.find(" m8n8") != std::string::npos ? 8 : 16}});
  if (has("C f16")) values.push_back({"c", "f16"});
  if (has(".and.popc")) values.push_back({"bit_operation", "and.popc"});
  if (has(".xor.popc")) values.push_back({"bit_operation", "xor.popc"});
  if (!scales.is_null()) {
    auto size = scales["size"].get<std::string>();
    size = size.substr(size.starts_with(".scale_vec::") ? 12 : size.empty() ? 0 : 1);
    values.push_back({"scale_vec", size});
    values.push_back({"scale_type", scale_type});
  }
  if (sparse && has("sparsity version 1")) values.push_back({"sparsity_version", int64_t{1}});
  return instruction_of(family, values);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

}  // namespace

TEST_CASE("every target, type, K and scale that list promises exists, and golden makes a case of it") {
  const auto json = nlohmann::json::parse(run({"list", "--json"}).out);
  std::set<std::pair<std::string, Target>> made;
  const int every = test::amount(41, 1, 1);
  int promises = 0;
  for (const auto& row : json) {
    if (row["arithmetic"] == "-") continue;  // the moves have no types
    const bool are_alike = row["options"].get<std::string>().find("A and B of one type") != std::string::npos;
    const auto scale_rows = row["scales"].is_null() ? nlohmann::json::array({nullptr}) : row["scales"];
    for (const auto& scales : scale_rows) {
      const auto scale_types = scales.is_null() ? nlohmann::json::array({"ue8m0"}) : scales["types"];
      for (const std::string& a : words_of(row["a"])) {
        for (const std::string& b : words_of(row["b"])) {
          for (const bool sparse : {false, true}) {
            if (row[sparse ? "k_sparse" : "k"].is_null() || (are_alike && a != b)) continue;
            for (const auto& scale_type : scale_types) {
              const Instruction instruction = promised(row, a, b, sparse, scales, scale_type);
              for (const auto& name : row["targets"]) {
                if (++promises % every != 0) continue;
                const Target target = parse_target(name.get<std::string>());
                INFO(print(instruction) << " of " << a << " x " << b << ", scales " << scale_type << " on " << name);
                const std::vector<Violation> wrong = violations_of(instruction, target);
                REQUIRE_THAT(wrong.empty() ? "" : Error(wrong).what(), Catch::Matchers::Equals(""));
                if (!made.emplace(print(instruction) + a + b + scale_type.get<std::string>(), info(target).adds_as)
                         .second)
                  continue;
                CHECK_NOTHROW(make_golden({.instruction = instruction, .target = target, .cases = 1}, 1));
              }
            }
          }
        }
      }
    }
  }
  CHECK(promises > 3000);
}

TEST_CASE("list takes a GPU by its name, and words in any case") {
  CHECK(run({"list", "h100", "WGMMA"}).out == run({"list", "wgmma", "--target", "sm_90a"}).out);
  CHECK(run({"list", "RTX 5090", "--mnemonics"}).out == run({"list", "--mnemonics", "--target", "sm_120a"}).out);
}

TEST_CASE("list with words shows the rows that have all of them") {
  const auto rows = [](std::vector<std::string> words) {
    words.insert(words.begin(), "--json");
    return nlohmann::json::parse(listed(words));
  };
  for (const auto& row : rows({"wgmma", "e4m3"})) {
    CHECK(row["instruction"] == "wgmma.mma_async");
    CHECK((row["a"] == "e4m3" || row["b"] == "e4m3"));
  }
  CHECK(rows({"wgmma"}).size() == 17);
  if (is_whole) CHECK(rows({"kind::mxf4", "sm_103a"}).size() < rows({"kind::mxf4"}).size());
  CHECK_THAT(listed({"--mnemonics", "sm_90a", "wgmma", ".sp."}),
             ContainsSubstring("wgmma.mma_async.sp.") && !ContainsSubstring("mma_async.sync"));
}

TEST_CASE("list fits 80 columns, and leaves out nothing of the wide table") {
  const std::string text = listed({});
  std::istringstream lines(text);
  std::string joined;
  for (std::string line; std::getline(lines, line); joined += line.substr(line.find_first_not_of(' ')) + " ") {
    INFO(line);
    CHECK(line.size() <= 80);
  }
  const auto json = nlohmann::json::parse(listed({"--json"}));
  for (const auto& row : json) {
    for (const char* key : {"instruction", "options", "evidence"}) {
      INFO(row.dump());
      CHECK_THAT(joined, ContainsSubstring(row[key].get<std::string>()));
    }
    if (row["arithmetic"] != "-") CHECK_THAT(joined, ContainsSubstring(row["arithmetic"].get<std::string>()));
  }
  CHECK_THAT(
      run({"list", "--target", "sm_90a"}).out,
      ContainsSubstring("wgmma.mma_async   D f32   A f16   B f16   K 16 (.sp 32)\n    target sm_90a\n    N 8..256 in "
                        "steps of 8; negate, transpose\n    F = 25, RZ-23, floor -133; measured on an NVIDIA H200\n"));
}
