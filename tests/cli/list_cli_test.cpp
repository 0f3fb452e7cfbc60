#include <nlohmann/json.hpp>
#include <sstream>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::run;

namespace {

const test::BadRequests bad_requests({
    {"list --target sm_60", "--target = sm_60: legal is sm_70"},
    {"list --target Hopper", "--target = Hopper"},
    {"list --json --markdown", "--markdown = beside --json: legal is one of them"},
    {"list --mnemonics --wide", "--wide = beside --mnemonics"},
});

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
  std::istringstream mnemonics(run({"list", "--mnemonics"}).out);
  size_t count = 0;
  for (std::string line; std::getline(mnemonics, line); ++count) {
    INFO(line);
    CHECK(print(parse_instruction(line)) == line);
  }
  CHECK(count == all_instructions().size());
  // wgmma, tcgen05.mma, mma.sync, and the moves
  CHECK(count >= 1074 + 464 + 412 + 186);
}

TEST_CASE("list names the targets of a form, the evidence on each, and shows one target alone") {
  const auto json = nlohmann::json::parse(run({"list", "--json"}).out);
  size_t of_b300 = 0, moves = 0;
  for (const auto& row : json) {
    INFO(row.dump());
    REQUIRE_FALSE(row["targets"].empty());
    CHECK(row["targets"].size() == row["evidence_by_target"].size());
    for (const auto& target : row["targets"]) of_b300 += target == "sm_103a";
    moves += row["arithmetic"] == "-";
  }
  CHECK(moves == 5);  // ld, st, cp, shift, ld.red
  const auto filtered = nlohmann::json::parse(run({"list", "--target", "sm_103a", "--json"}).out);
  CHECK(filtered.size() == of_b300);
  for (const auto& row : filtered) CHECK(row["targets"] == nlohmann::json::array({"sm_103a"}));
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

TEST_CASE("list fits 80 columns, and leaves out nothing of the wide table") {
  const std::string text = run({"list"}).out;
  std::istringstream lines(text);
  std::string joined;
  for (std::string line; std::getline(lines, line); joined += line.substr(line.find_first_not_of(' ')) + " ") {
    INFO(line);
    CHECK(line.size() <= 80);
  }
  const auto json = nlohmann::json::parse(run({"list", "--json"}).out);
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
