// SPDX-License-Identifier: MIT
// `bitmma exec`: runs a program, with libraries that take the place of NVIDIA's.
#pragma once

#include <string>
#include <vector>

namespace bitmma::cli {

/// The words behind the first `--` of `bitmma exec ... -- COMMAND`, which are another program's; they leave
/// `arguments`. Empty for other verbs.
std::vector<std::string> take_command(std::vector<std::string>& arguments);

}  // namespace bitmma::cli
