// SPDX-License-Identifier: MIT
// Reports about a word function and its operands: a PTX instruction, a conversion, or the code that a compiler emits
// for a C function; with the evidence for the result and its computation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/math/cvt.hpp"
#include "bitmma/math/evidence.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"

namespace bitmma {

using MathFunction = std::variant<MathInstruction, CvtInstruction, CFunction>;

/// Parses the name of an instruction, a conversion or a C function. Throws Error, which suggests near names.
MathFunction parse_math_function(std::string_view text);

/// The type of an operand or a result: lanes of one type, the first lane in the lowest bits.
struct MathWord {
  std::string name = {};  // as PTX spells it: "f32", "e4m3x2"
  int bits = 32;          // bits of the word
  int lanes = 1;
  std::optional<Format> format = {};  // format of a lane; nothing for integers
  bool is_signed = false;             // for integers
};

/// The types of the operands, in order.
std::vector<MathWord> operand_types(const MathFunction& function);

/// The targets that have the function; for a C function all targets.
TargetSet targets_of(const MathFunction& function);

/// {"instruction" or "function", "operands", "result", "value", "target", "evidence",
/// "evidence_source"}; for a conversion also {"targets", "ptx", "source"}, for a C function {"source"}.
/// With `steps`: for an approximate instruction {"unit"}: before, argument, table, index, x, c0, c1,
/// c2, square, value, unit, unit_result, behind; for a rounded one {"below", "above"}; for a conversion
/// {"lanes"}: operand, source, exact, below, above, rounded, result; for a C function {"steps"}:
/// operation, operands, result, value. The default target is sm_90a, or the first that has the
/// function. Throws Error if the number or width of the operands is wrong, or if the target lacks the
/// function.
Report describe(const MathFunction& function, std::span<const uint64_t> operands, bool steps,
                std::optional<Target> target = {});

/// {"target", "evidence", "evidence_source"}, as in describe().
Report evidence_report(const MathFunction& function, std::optional<Target> target = {});

/// The origin of the results in a line: "sm_90a, measured: all 2^32 words of an H100 and an H200".
std::string origin_of(const MathFunction& function, std::optional<Target> target = {});

}  // namespace bitmma
