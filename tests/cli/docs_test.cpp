#include <filesystem>
#include <vector>

#include "page.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("every command in docs prints what stands there", "[long]") {
  int commands = 0;
  std::vector<std::filesystem::path> pages{test::source_path("README.md")};
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("docs"))) {
    if (entry.path().filename() == "survey.md") continue;  // tests/survey: it needs the laboratory
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  for (const std::filesystem::path& path : pages) commands += test::check_page(path);
  CHECK(commands >= 10);
}
