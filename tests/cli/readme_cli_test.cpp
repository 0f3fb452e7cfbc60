#include <sstream>

#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::Outcome, test::run;

namespace {

/// Runs the commands of a page in order, in an empty folder, and returns how many there are. Those of `$ bitmma` are
/// run by docs_test.cpp.
int run_commands(const std::string& page) {
  const test::TemporaryFolder folder;
  std::istringstream readme(test::read_text(test::source_path(page)));
  std::string line;
  int commands = 0;
  bool in_block = false;
  while (std::getline(readme, line)) {
    if (line.starts_with("```")) in_block = !in_block;
    if (!in_block || !line.starts_with("bitmma ")) continue;
    for (std::string next; line.ends_with('\\') && std::getline(readme, next);) line += "\n" + next;
    line = line.substr(7, line.find(" #") == std::string::npos ? std::string::npos : line.find(" #") - 7);
    if (line.starts_with("gpu ") || line.starts_with("survey run ")) continue;  // need one, and have tests of their own
    std::vector<std::string> arguments;
    for (std::string word : test::shell_words(line)) {
      const bool is_data = word.starts_with("data/");
      if (is_data) word = test::source_path(word);
      else if (word.ends_with(".safetensors") || word.ends_with(".ptx") || word.ends_with(".svg"))
        word = folder.path(word);
      arguments.push_back(word);
    }
    const Outcome outcome = run(arguments);
    INFO(line << "\n" << outcome.err);
    CHECK(outcome.code == 0);
    CHECK_FALSE((outcome.out.empty() && outcome.err.empty() && arguments[0] != "ptx"));
    ++commands;
  }
  return commands;
}

}  // namespace

TEST_CASE("every command in README and docs/commands.md runs", "[unsanitized]") {
  CHECK(run_commands("README.md") >= 4);
  CHECK(run_commands("docs/commands.md") >= 30);
}
