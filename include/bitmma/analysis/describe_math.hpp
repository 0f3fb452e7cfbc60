// SPDX-License-Identifier: MIT
// A function of words on its operands, as a report: an instruction of PTX, a conversion, or what a compiler makes of a
// function of C; how sure the result is, and how it is made.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/math/c_function.hpp"
#include "bitmma/math/cvt.hpp"
#include "bitmma/math/evidence.hpp"
#include "bitmma/math/math_instruction.hpp"

namespace bitmma {

using MathFunction = std::variant<MathInstruction, CvtInstruction, CFunction>;

/// Of an instruction's, a conversion's or a C function's name, as each prints its own. Throws Error, with near names.
MathFunction parse_math_function(std::string_view text);

/// What an operand or a result is: lanes of one type, the first in the lowest bits.
struct MathWord {
  std::string name = {};  // as PTX spells it: "f32", "e4m3x2"
  int bits = 32;          // of the word
  int lanes = 1;
  std::optional<Format> format = {};  // of a lane; nothing of integers
  bool is_signed = false;             // of integers
};

/// In the order of the operands.
std::vector<MathWord> operand_types(const MathFunction& function);

/// The targets that have it; of a function of C all.
TargetSet targets_of(const MathFunction& function);

/// {"instruction" or "function", "operands", "result", "value", "target", "evidence", "evidence_source"}; of a
/// conversion
/// {"targets", "ptx", "source"}, of a function of C {"source"}. With `steps`: of an approximate instruction {"unit"}:
/// before, argument, table, index, x, c0, c1, c2, square, value, unit, unit_result, behind; of a rounded one {"below",
/// "above"}; of a conversion {"lanes"}: operand, source, exact, below, above, rounded, result; of a function of C
/// {"steps"}: operation, operands, result, value. The target is sm_90a, or the first that has the function, unless one
/// is given. Throws Error unless there are as many operands as the function has, each of its width, and when the target
/// lacks the function.
Report describe(const MathFunction& function, std::span<const uint64_t> operands, bool steps,
                std::optional<Target> target = {});

/// {"target", "evidence", "evidence_source"}, as above.
Report evidence_report(const MathFunction& function, std::optional<Target> target = {});

/// From where the results are known, in a line: "sm_90a, measured: all 2^32 words of an H100 and an H200".
std::string origin_of(const MathFunction& function, std::optional<Target> target = {});

}  // namespace bitmma
