#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "bitmma/core/error.hpp"
#include "bitmma/hardware/device.hpp"
#include "bitmma/instruction/form.hpp"
#include "cli.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;

namespace {

const test::BadRequests bad_requests({
    {"gpu", missing_argument, "command of bitmma gpu"},
    {"gpu campaign $GOLDEN", unread_argument, "$SOURCE/data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors"},
    {"gpu run", missing_argument, "--output"},
    {"gpu run $GOLDEN", missing_argument, "--output"},
    {"gpu run $GOLDEN $GOLDEN $OUT", illegal_value, "-o"},
    // The spellings of earlier versions are answered with the new ones.
    {"gpu $GOLDEN $OUT", not_found, "command of bitmma gpu"},
    {"gpu --campaign --units 3", not_found, "flag of bitmma gpu"},
    {"gpu --survey $OUT", not_found, "flag of bitmma gpu"},
    {"gpu campaign --units 0", illegal_value, "--units"},
    {"gpu campaign --units -1", illegal_value, "--units"},
    {"gpu campaign --units 4611686018427387904", illegal_value, "--units"},
    {"gpu campaign --units 10 --outputs 1e9", not_together, "--outputs"},
    {"gpu campaign --first-unit -1", illegal_value, "--first-unit"},
    {"gpu campaign --first-unit 9223372036854775807 --units 2", illegal_value, "--first-unit"},
    {"gpu campaign --first-unit 1099511627775 --units 2", illegal_value, "--units"},
    {"gpu campaign --outputs 1e300", illegal_value, "--outputs"},
    {"gpu campaign --outputs nan", illegal_value, "--outputs"},
    {"gpu campaign --outputs inf", illegal_value, "--outputs"},
    {"gpu campaign --outputs -1e9", illegal_value, "--outputs"},
    {"gpu campaign --outputs 0", illegal_value, "--outputs"},
    {"gpu campaign --first-unit 1099511627775 --outputs 1e9", illegal_value, "--outputs"},
    {"gpu campaign --unit-outputs 0", illegal_value, "--unit-outputs"},
    {"gpu campaign --unit-outputs -1", illegal_value, "--unit-outputs"},
    {"gpu campaign --unit-outputs 100000000000", illegal_value, "--unit-outputs"},
    {"gpu campaign --seconds nan", illegal_value, "--seconds"},
    {"gpu campaign --seconds 1e308", illegal_value, "--seconds"},
    {"gpu campaign --seconds -1", illegal_value, "--seconds"},
    {"gpu campaign --max-saved -5", illegal_value, "--max-saved"},
    {"gpu campaign --save $FOLDER/none", illegal_value, "--save"},
    {"gpu campaign --units 0 --max-saved -1", illegal_value, "--max-saved"},
});

}  // namespace

TEST_CASE("gpu refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("the help of gpu campaign knows how many units cover every mnemonic") {
  std::ostringstream out, err;
  CHECK(cli::run({"gpu", "campaign", "--help"}, {.out = out, .err = err}) == 0);
  std::string words = out.str();
  words.erase(
      std::unique(words.begin(), words.end(), [](char a, char b) { return std::isspace(a) && std::isspace(b); }),
      words.end());
  std::ranges::replace(words, '\n', ' ');
  CHECK_THAT(words, ContainsSubstring(std::to_string(all_instructions(Family::wgmma).size()) +
                                      " cover every mnemonic of wgmma once"));
}

TEST_CASE("without a GPU, gpu says so and exits with 2") {
  const auto run = [](std::vector<std::string> arguments) {
    std::ostringstream out, err;
    const int code = cli::run(arguments, {.out = out, .err = err});
    return std::pair(code, err.str());
  };
  const test::TemporaryFolder folder;
  const std::string file = test::golden_files().front();
  CHECK(run({"gpu", "campaign", file}).first == 2);
  try {
    const Gpu gpu;
    WARN("this machine has " << gpu.name() << ": the message without a GPU was NOT checked");
  } catch (const Error&) {
    for (const auto& arguments :
         {std::vector<std::string>{"gpu", "run", file, "-o", folder.path("out")},
          std::vector<std::string>{"gpu", "campaign", "--units", "1", "--save", folder.path(".")}}) {
      const auto [code, message] = run(arguments);
      CHECK(code == 2);
      CHECK_THAT(message, ContainsSubstring("error: GPU") && ContainsSubstring("NVIDIA"));
      CHECK_FALSE(std::filesystem::exists(folder.path("out")));
    }
  }
}
