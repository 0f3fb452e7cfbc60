// Rules about the project itself that a compiler does not check.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench_case.hpp"
#include "cli.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("includes point down: core, formats, layout, descriptor, memory, arithmetic, instruction, io, gpu") {
  const std::vector<std::string> layers{"core",       "formats",     "layout", "descriptor", "memory",
                                        "arithmetic", "instruction", "io",     "gpu"};
  const auto level = [&](const std::string& layer) {
    return std::find(layers.begin(), layers.end(), layer) - layers.begin();
  };
  const std::string include = "#include \"bitmma/";
  int files = 0;
  for (const char* root : {"include/bitmma", "sim"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path(root))) {
      if (!entry.is_regular_file()) continue;
      ++files;
      const std::string layer = entry.path().parent_path().filename().string();
      REQUIRE(level(layer) < static_cast<long>(layers.size()));
      const std::string text = test::read_text(entry.path().string());
      for (size_t at = text.find(include); at != std::string::npos; at = text.find(include, at + 1)) {
        const size_t begin = at + include.size();
        const std::string included = text.substr(begin, text.find('/', begin) - begin);
        INFO(entry.path().string() << " includes " << included);
        CHECK(level(included) <= level(layer));
      }
    }
  }
  CHECK(files > 30);
}

TEST_CASE("the table of instructions in README is what the tables say") {
  std::ostringstream out, err;
  REQUIRE(cli::run({"list", "--markdown"}, {.out = out, .err = err}) == 0);
  INFO("write the output of `bitmma list --markdown` there");
  CHECK_THAT(test::read_text(test::source_path("README.md")), ContainsSubstring(out.str()));
}

TEST_CASE("the campaign's table in docs/evidence.md is what the campaign printed, and the README quotes its total") {
  const auto campaign =
      nlohmann::json::parse(test::read_text(test::source_path("data/evidence/wgmma_campaign_h200.json")));
  const std::string evidence = test::read_text(test::source_path("docs/evidence.md"));
  CHECK(campaign["rows"].size() == 34);
  for (const auto& row : campaign["rows"]) {
    CHECK(row["mismatches"] == 0);
    CHECK_THAT(evidence,
               ContainsSubstring(fmt::format("| {} | {} | {} | {} | {} |\n", row["instruction"].get<std::string>(),
                                             row["cases"].get<int64_t>(), row["outputs"].get<int64_t>(),
                                             row["hard_outputs"].get<int64_t>(), row["mismatches"].get<int64_t>())));
  }
  const auto total = campaign["rows"].back()["outputs"].get<int64_t>();
  CHECK(total >= 10'000'000'000);
  CHECK(campaign["rows"].back()["hard_outputs"].get<int64_t>() >= 100'000'000);
  const std::string grouped = fmt::format("{},{:03},{:03},{:03}", total / 1'000'000'000, total / 1'000'000 % 1000,
                                          total / 1000 % 1000, total % 1000);
  CHECK_THAT(test::read_text(test::source_path("README.md")), ContainsSubstring(grouped + " random outputs"));
}

TEST_CASE("docs/performance.md has a line for every case that the benchmark measures") {
  const std::string text = test::read_text(test::source_path("docs/performance.md"));
  size_t lines = 0;
  for (const cli::BenchCase& one : cli::bench_cases()) {
    CHECK_THAT(text, ContainsSubstring("\n| " + one.name + " | "));
    CHECK_NOTHROW(cli::BenchMachine(one.instruction).simulate());
    ++lines;
  }
  CHECK(lines == 34);
}
