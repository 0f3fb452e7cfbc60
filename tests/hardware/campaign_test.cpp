#include "bitmma/hardware/campaign.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>

#include "bitmma/core/error.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "cli.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// A device that is right.
std::vector<State> model_device(const Instruction& instruction, Target target, std::span<const State> cases) {
  std::vector<State> after(cases.begin(), cases.end());
  for (State& state : after) execute(instruction, target, state);
  return after;
}

}  // namespace

TEST_CASE("eight rounds of units cover every mnemonic, source and major-ness") {
  std::set<std::string> seen, expected;
  const auto name = [](const Instruction& instruction) {
    const Mma mma = mma_of(instruction);
    return print(instruction) + (mma.a_source == OperandSource::smem ? " smem" : " registers") +
           (mma.a_major == Major::mn ? "1" : "0") + (mma.b_major == Major::mn ? "1" : "0");
  };
  const auto mnemonics = all_instructions(Family::wgmma);
  for (const Instruction& mnemonic : mnemonics) {
    for (const OperandSource source : {OperandSource::smem, OperandSource::registers}) {
      for (int bits = 0; bits < 4; ++bits) {
        Wgmma one = std::get<Wgmma>(mnemonic);
        one.a_source = source, one.transpose_a = bits & 1, one.transpose_b = bits >> 1;
        if (violations_of(one, Target::sm_90a).empty()) expected.insert(name(one));
      }
    }
  }
  for (size_t unit = 0; unit < mnemonics.size() * 8; ++unit) {
    const Instruction instruction = campaign_instruction(5, static_cast<int64_t>(unit));
    REQUIRE(violations_of(instruction, Target::sm_90a).empty());
    seen.insert(name(instruction));
  }
  CHECK(seen == expected);
}

TEST_CASE("a unit is the same every time, and its cases can be simulated") {
  for (const int64_t unit : {int64_t{0}, int64_t{700}, int64_t{5000}}) {
    const CampaignUnit first = campaign_unit(1, unit, 30000), again = campaign_unit(1, unit, 30000);
    REQUIRE(first.cases.size() == again.cases.size());
    REQUIRE(first.cases.size() >= 12);
    std::set<uint64_t> modes;
    for (size_t i = 0; i < first.cases.size(); ++i) {
      CHECK(first.cases[i].state == again.cases[i].state);
      modes.insert(first.cases[i].state.number(Field::b_desc) >> 62);
      CHECK_NOTHROW(result_of(first.instruction, first.target, first.cases[i].state));
    }
    CHECK(modes.size() >= 3);
    CHECK(campaign_unit(2, unit, 30000).cases[0].state != first.cases[0].state);
  }
}

TEST_CASE("a right device ends without mismatches, and the report counts everything") {
  const CampaignReport report =
      run_campaign({.seed = 3, .first_unit = 100, .units = 6, .outputs_per_unit = 5000, .threads = 2}, model_device);
  CHECK(report.total.units == 6);
  CHECK(report.total.mismatches == 0);
  CHECK(report.total.outputs >= 6 * 5000);
  CHECK(report.total.hard_outputs > 0);
  CHECK(report.next_unit == 106);
  int64_t outputs = 0;
  for (const auto& [name, row] : report.rows) outputs += row.outputs;
  CHECK(outputs == report.total.outputs);
  CHECK_THROWS_WITH(run_campaign({.seed = 3, .units = 40, .only = ".b1."}, model_device),
                    ContainsSubstring("units 0..39") && ContainsSubstring("1074 units meet every mnemonic once"));
}

TEST_CASE("a wrong device is caught, and every mismatching case is saved as a file that shows it") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("save"));
  const auto wrong_device = [](const Instruction& instruction, Target target, std::span<const State> cases) {
    auto after = model_device(instruction, target, cases);
    after[3].writable_words(Field::accumulator)[17] ^= 0x8000;
    after[7].writable_words(Field::accumulator)[0] ^= 1;
    return after;
  };
  const CampaignReport report = run_campaign({.seed = 4,
                                              .units = 2,
                                              .outputs_per_unit = 5000,
                                              .save_folder = folder.path("save"),
                                              .max_saved = 3,
                                              .source = "a wrong device",
                                              .threads = 2},
                                             wrong_device);
  CHECK(report.total.mismatches == 4);
  REQUIRE(report.saved.size() == 3);
  for (const std::string& path : report.saved) {
    const VectorFile file = read_vector_file(path);
    CHECK(file.cases == 1);
    CHECK(file.source() == "a wrong device");
    CHECK(verify(file, 1).mismatches == 1);
    CHECK(file.file.find_metadata("campaign_unit") != nullptr);
  }
}

TEST_CASE("a device that fails ends the campaign with its error") {
  const auto broken = [](const Instruction&, Target, std::span<const State>) -> std::vector<State> {
    throw Error(Violation{.field = "GPU", .seen = "gone"});
  };
  CHECK_THROWS_WITH(run_campaign({.units = 3, .outputs_per_unit = 1000}, broken), ContainsSubstring("GPU = gone"));
}

TEST_CASE("the help of gpu knows how many units meet every mnemonic, and no units are no work") {
  std::ostringstream out, err;
  CHECK(cli::run({"gpu", "--help"}, {.out = out, .err = err}) == 0);
  std::string words = out.str();
  words.erase(
      std::unique(words.begin(), words.end(), [](char a, char b) { return std::isspace(a) && std::isspace(b); }),
      words.end());
  std::ranges::replace(words, '\n', ' ');
  CHECK_THAT(words,
             ContainsSubstring(std::to_string(all_instructions(Family::wgmma).size()) + " meet every mnemonic once"));
  CHECK(run_campaign({.units = 0}, model_device).total.units == 0);
}

TEST_CASE("without a GPU, gpu says so and exits with 2") {
  const auto run = [](std::vector<std::string> arguments) {
    std::ostringstream out, err;
    const int code = cli::run(arguments, {.out = out, .err = err});
    return std::pair(code, err.str());
  };
  const test::TemporaryFolder folder;
  const std::string file = test::golden_files().front();
  CHECK(run({"gpu"}).second == "error: gpu = neither files nor --campaign: legal is one of them\n");
  CHECK(run({"gpu", "--campaign", file}).first == 2);
  CHECK_THAT(run({"gpu", file}).second, ContainsSubstring("-o = (missing)"));
  try {
    const Gpu gpu;
    WARN("this machine has " << gpu.name() << ": the message without a GPU was NOT checked");
  } catch (const Error&) {
    for (const auto& arguments :
         {std::vector<std::string>{"gpu", file, "-o", folder.path("out")},
          std::vector<std::string>{"gpu", "--campaign", "--units", "1", "--save", folder.path(".")}}) {
      const auto [code, message] = run(arguments);
      CHECK(code == 2);
      CHECK_THAT(message, ContainsSubstring("error: GPU") && ContainsSubstring("NVIDIA"));
      CHECK_FALSE(std::filesystem::exists(folder.path("out")));
    }
  }
}
