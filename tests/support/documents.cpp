#include "documents.hpp"

#include <cstdlib>

#include "catch.hpp"
#include "files.hpp"

namespace bitmma::test {

void check_generated(const std::string& path, const std::string& begin, const std::string& end,
                     const std::string& generated) {
  const std::string file = source_path(path), text = read_text(file);
  const size_t first = text.find(begin), last = text.find(end);
  INFO(path << ": BITMMA_UPDATE_DOCS=1 writes what stands between the marks");
  REQUIRE(first != std::string::npos);
  REQUIRE(last != std::string::npos);
  const std::string wanted = text.substr(0, first + begin.size()) + "\n" + generated + text.substr(last);
  if (std::getenv("BITMMA_UPDATE_DOCS")) write_text(file, wanted);
  else CHECK(text == wanted);
}

void check_table(const std::string& name, const std::string& generated) {
  const std::string file = source_path("tools/site/tables/" + name + ".md");
  INFO(file << ": BITMMA_UPDATE_DOCS=1 writes it");
  if (std::getenv("BITMMA_UPDATE_DOCS")) write_text(file, generated);
  else CHECK(read_text(file) == generated);
}

}  // namespace bitmma::test
