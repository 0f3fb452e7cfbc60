// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string_view>

#include "bitmma/analysis/report.hpp"
#include "bitmma/core/target.hpp"

namespace bitmma {

/// Describes an instruction of kernels, a mnemonic or a statement, by the row that runs it: a list of one object
/// {"instruction", "target", "guard", "does", "types", "folded", "contraction", "acts", "runs"}. Nothing for what
/// describe_ptx (analysis/describe.hpp) describes, and for names that no kernel has.
std::optional<Report> describe_kernel_instruction(std::string_view text, std::optional<Target> target = {});

}  // namespace bitmma
