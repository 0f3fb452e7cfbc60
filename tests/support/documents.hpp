// Parts of documents that tests write.
#pragma once

#include <string>

namespace bitmma::test {

/// The text between two marks of a document, which a test writes when BITMMA_UPDATE_DOCS is set and checks otherwise.
void check_generated(const std::string& path, const std::string& begin, const std::string& end,
                     const std::string& generated);

/// The same for a whole file, tools/site/tables/NAME.md: a long table that only the site shows in its page.
void check_table(const std::string& name, const std::string& generated);

}  // namespace bitmma::test
