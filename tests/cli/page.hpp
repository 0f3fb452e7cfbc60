// A ```console block of a page is run, and must print what stands there. In such a block a line "$ bitmma
// ..." is a command, and what follows is its output, stdout before stderr; a backslash at the end of a line continues a
// command. Commands run in an empty folder in which `data` is the project's, one page after the other, so that a
// command may use what an earlier one of its page wrote.
//
// BITMMA_UPDATE_DOCS=1 in the environment writes the real output into the pages instead; read the diff before
// committing.
#pragma once

#include <filesystem>

namespace bitmma::test {

/// Checks a page's commands; returns their number. Those of a page run in one folder.
int check_page(const std::filesystem::path& path);

}  // namespace bitmma::test
