// Every ```console block in docs/ and README is run, and must print what stands there. In such a block a line "$ bitmma
// ..." is a command, and what follows is its output, stdout before stderr; a backslash at the end of a line continues a
// command. Commands run in an empty folder in which `data` is the project's, one page after the other, so that a
// command may use what an earlier one of its page wrote.
//
// BITMMA_UPDATE_DOCS=1 in the environment writes the real output into the pages instead; read the diff before
// committing.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "cli.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

std::string output_of(const std::string& command) {
  std::vector<std::string> words = test::shell_words(command);
  std::ostringstream out, err;
  cli::run({words.begin() + 1, words.end()}, {.out = out, .err = err});
  return out.str() + err.str();
}

struct Page {
  std::string rewritten, differences;
  int commands = 0;
};

Page run_page(const std::string& text) {
  Page page;
  std::istringstream lines(text);
  std::string line, command, expected;
  bool in_block = false;
  const auto finish = [&] {
    if (command.empty()) return;
    const std::string seen = output_of(command);
    ++page.commands;
    page.rewritten += seen;
    if (seen != expected) page.differences += "$ " + command + "\nexpected:\n" + expected + "seen:\n" + seen;
    command.clear(), expected.clear();
  };
  while (std::getline(lines, line)) {
    if (command.ends_with('\\')) {
      command += "\n" + line;
      page.rewritten += line + "\n";
      continue;
    }
    const bool fence = line.starts_with("```");
    if (in_block && (fence || line.starts_with("$ "))) finish();
    if (fence) in_block = !in_block && line == "```console";
    if (in_block && line.starts_with("$ bitmma ")) command = line.substr(2);
    if (!in_block || fence || line.starts_with("$ ")) page.rewritten += line + "\n";
    else expected += line + "\n";
  }
  return page;
}

}  // namespace

TEST_CASE("every command in docs prints what stands there", "[long]") {
  const std::filesystem::path before = std::filesystem::current_path();
  const bool update = std::getenv("BITMMA_UPDATE_DOCS") != nullptr;
  int commands = 0;
  std::vector<std::filesystem::path> pages{test::source_path("README.md")};
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("docs"))) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  for (const std::filesystem::path& path : pages) {
    const test::TemporaryFolder folder;
    std::filesystem::create_symlink(test::source_path("data"), folder.path("data"));
    std::filesystem::current_path(folder.path("."));
    const Page page = run_page(test::read_text(path.string()));
    std::filesystem::current_path(before);
    commands += page.commands;
    if (update) test::write_text(path.string(), page.rewritten);
    INFO(path.filename().string() << "\n"
                                  << page.differences
                                  << "run with BITMMA_UPDATE_DOCS=1 to write the real output there");
    CHECK((update || page.differences.empty()));
  }
  CHECK(commands >= 10);
}
