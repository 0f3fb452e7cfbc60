// SPDX-License-Identifier: MIT
// One floating-point instruction on its operands, as a report: operands, result, and of an approximate one how the
// special function unit makes it.
#pragma once

#include <cstdint>
#include <span>

#include "bitmma/analysis/report.hpp"
#include "bitmma/math/math_instruction.hpp"

namespace bitmma {

/// {"instruction", "operands", "result", "value"}, and with `steps` {"unit"}: argument, table, index, x, c0, c1, c2,
/// square, value. Throws Error unless there are as many operands as the instruction has, each of its width.
Report describe(const MathInstruction& instruction, std::span<const uint64_t> operands, bool steps);

}  // namespace bitmma
