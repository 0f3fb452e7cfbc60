#include "page.hpp"

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "bitmma/files/dataset.hpp"
#include "cli.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace bitmma::test {
namespace {

std::string output_of(const std::string& command) {
  std::vector<std::string> words = shell_words(command);
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

int check_page(const std::filesystem::path& path) {
  const std::filesystem::path before = std::filesystem::current_path();
  const bool update = std::getenv("BITMMA_UPDATE_DOCS") != nullptr;
  const TemporaryFolder folder;
  use_datasets(source_path("python/bitmma/data"));
  std::filesystem::create_symlink(source_path("data"), folder.path("data"));
  std::filesystem::current_path(folder.path("."));
  const Page page = run_page(read_text(path.string()));
  std::filesystem::current_path(before);
  if (update) write_text(path.string(), page.rewritten);
  INFO(path.filename().string() << "\n"
                                << page.differences << "run with BITMMA_UPDATE_DOCS=1 to write the real output there");
  CHECK((update || page.differences.empty()));
  return page.commands;
}

}  // namespace bitmma::test
