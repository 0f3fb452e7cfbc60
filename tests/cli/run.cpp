#include "run.hpp"

#include <filesystem>
#include <sstream>

#include "bitmma/files/dataset.hpp"
#include "cli.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace bitmma::test {
namespace {

void replace_all(std::string& text, const std::string& name, const std::string& value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
}

}  // namespace

Outcome run(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  std::vector<Violation> violations;
  use_datasets(source_path("python/bitmma/data"));
  const int code = cli::run(arguments, {.out = out, .err = err, .violations = &violations});
  return {code, out.str(), err.str(), violations};
}

std::vector<std::string> shell_words(std::string line) {
  replace_all(line, "\\\n", " ");
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, any = false;
  for (const char c : line) {
    if (c == '\'') quoted = !quoted, any = true;
    else if (c == ' ' && !quoted) {
      if (any) words.push_back(word);
      word.clear(), any = false;
    } else {
      word += c, any = true;
    }
  }
  if (any) words.push_back(word);
  return words;
}

Outcome run_line(const std::string& line) { return run(shell_words(line)); }

void BadRequests::check() const {
  const TemporaryFolder folder;
  const std::string out = folder.path("out"), other = golden_files().front();
  CHECK_FALSE(rows_.empty());
  for (const BadRequest& row : rows_) {
    std::string line = row.line;
    replace_all(line, "$OUT", "-o " + out);
    replace_all(line, "$FOLDER", folder.path("."));
    replace_all(line, "$GOLDEN", one_golden);
    replace_all(line, "$OTHER", other);
    const Outcome outcome = run_line(line);
    INFO(line << "\n" << outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.violations, refused(row.code, row.field));
    CHECK_FALSE(std::filesystem::exists(out));
  }
}

}  // namespace bitmma::test
