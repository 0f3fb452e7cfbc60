// The approved file, tests/messages.txt: every message that a test provokes, for a reader to review. Tests compare
// codes and values; a reworded message changes this file alone.
//
//   == cli/verify_cli_test.cpp: verify refuses bad requests
//   error: $FOLDER/absent: no such file
//
// When a test case ends, its section must list the messages that it made. BITMMA_UPDATE_MESSAGES=1 writes the sections
// of the test cases that run.
#pragma once

#include <string>
#include <string_view>

namespace bitmma::test {

/// Adds the lines of `text` to the section of the current test case. Lines that differ in their numbers alone are
/// listed once. Paths are replaced as in `approved_form`.
void note_message(std::string_view text);

/// The text with $FOLDER for a temporary folder, $SOURCE for the folder of the sources and $BUILD for that of the
/// tests.
std::string approved_form(std::string text);

// For the main program:

void begin_messages(const std::string& file, const std::string& test_case);
/// `is_complete`: the test case made all of its messages. False when it failed or could NOT check something.
void end_messages(bool is_complete);
/// Compares the sections with those of the approved file, or writes them. Returns the differences; empty when there are
/// none. `exists` tells whether a file still has a test case.
std::string check_messages(bool (*exists)(const std::string& file, const std::string& test_case));

}  // namespace bitmma::test
