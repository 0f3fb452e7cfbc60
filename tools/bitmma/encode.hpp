// SPDX-License-Identifier: MIT
// Shared by the verbs of `bitmma encode`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"

namespace bitmma::cli {

/// Prints a word or mnemonic: as a line, or as JSON under `key` with the warnings; for text the warnings go to stderr.
void print_encoded(Context& context, bool as_json, std::string_view key, const std::string& text,
                   const std::vector<Violation>& warnings = {});
/// Throws Error unless one of the flags, which give the fields of the encoded value, is on the command line.
void require_any(const Command& command, const std::vector<std::string>& flags);

// One function per verb.
void add_encode_descriptor(Command& encode, Context& context);
void add_encode_idesc(Command& encode, Context& context);

}  // namespace bitmma::cli
