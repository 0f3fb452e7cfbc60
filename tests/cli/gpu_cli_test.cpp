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

namespace {

const test::BadRequests bad_requests({
    {"gpu", "command of bitmma gpu: missing; expected run or campaign"},
    {"gpu campaign $GOLDEN", "unexpected argument"},
    {"gpu run", "usage: bitmma gpu run [OPTIONS]"},
    {"gpu run $GOLDEN", "--output: missing"},
    {"gpu run $GOLDEN $GOLDEN $OUT", "an existing folder"},
    // The spellings of earlier versions are answered with the new ones.
    {"gpu $GOLDEN $OUT", "did you mean bitmma gpu run "},
    {"gpu --campaign --units 3", "did you mean bitmma gpu campaign?"},
    {"gpu --survey $OUT", "did you mean bitmma survey run?"},
    {"gpu campaign --units 0", "--units = 0: must be 1.."},
    {"gpu campaign --units -1", "--units = -1: must be 1.."},
    {"gpu campaign --units 4611686018427387904", "--units = 4611686018427387904: must be 1.."},
    {"gpu campaign --units 10 --outputs 1e9", "--outputs and --units: cannot be combined"},
    {"gpu campaign --first-unit -1", "--first-unit = -1: must be 0.."},
    {"gpu campaign --first-unit 9223372036854775807 --units 2", "--first-unit = 9223372036854775807: must be 0.."},
    {"gpu campaign --first-unit 1099511627775 --units 2", "--units = 2: must be 1..1, beginning with the first unit"},
    {"gpu campaign --outputs 1e300", "--outputs = 1e+300: must be 1..1.1e+18"},
    {"gpu campaign --outputs nan", "--outputs = nan"},
    {"gpu campaign --outputs inf", "--outputs = inf"},
    {"gpu campaign --outputs -1e9", "--outputs = -1000000000"},
    {"gpu campaign --outputs 0", "--outputs = 0"},
    {"gpu campaign --first-unit 1099511627775 --outputs 1e9", "must be outputs of 1 unit;"},
    {"gpu campaign --unit-outputs 0", "--unit-outputs = 0: must be 1.."},
    {"gpu campaign --unit-outputs -1", "--unit-outputs = -1: must be 1.."},
    {"gpu campaign --unit-outputs 100000000000", "--unit-outputs = 100000000000: must be 1.."},
    {"gpu campaign --seconds nan", "--seconds = nan: must be a number such as"},
    {"gpu campaign --seconds 1e308", "--seconds = 1e+308: must be 0..1e9"},
    {"gpu campaign --seconds -1", "--seconds = -1: must be 0..1e9"},
    {"gpu campaign --max-saved -5", "--max-saved = -5: must be 0 or more"},
    {"gpu campaign --save $FOLDER/none", "must be an existing folder; mkdir "},
    {"gpu campaign --units 0 --max-saved -1", "--max-saved = -1"},
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
