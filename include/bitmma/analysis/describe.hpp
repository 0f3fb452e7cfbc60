// SPDX-License-Identifier: MIT
// Reports about words and results: the text that `decode` and `explain` print, and the dictionaries that Python gets.
//
//   print(describe(SmemWord{.target = Target::sm_90a}, 0x4000004000010000))
//
//     0x4000004000010000, shared-memory descriptor of sm_90a
//     bits   field                     raw  bytes  meaning
//     0-13   start_address               0      0  ...
//
// In the data, codes of numbers are hex strings, sizes are in bytes, and places are objects that depend on their kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bitmma/analysis/diagnose.hpp"
#include "bitmma/analysis/explain.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/evidence.hpp"

namespace bitmma {

/// A shared-memory descriptor. The instruction's major-ness allows more warnings.
struct SmemWord {
  Target target = Target::sm_90a;
  std::optional<Major> major = {};
};
/// An instruction descriptor of tcgen05.mma.
struct InstructionWord {
  MmaKind kind = MmaKind::f16;
  std::optional<Target> target = {};  // without a target, set bits that most targets reserve are warnings
};
/// A zero-column mask of a tcgen05.mma.ws with this shape.
struct ZeroColumnWord {
  int m = 128, n = 256;
};
/// The type of a 32- or 64-bit word.
using WordType = std::variant<SmemWord, InstructionWord, ZeroColumnWord>;

/// Throws Error if `word` is not legal for its type. Data:
/// SmemWord: {"descriptor", "target", "arch", "fields", "swizzle_mode", "warnings", "meanings"}.
/// InstructionWord: {"idesc", "kind", "m", "n", "d", "a", "b", "fields", "warnings"}, and "scale_type" with scales.
/// ZeroColumnWord: {"zero_column_mask", "m", "n", "fields", "columns"}; a character for each column of D, 1 where the
/// column of B counts as zero.
Report describe(const WordType& type, uint64_t word);

/// Doubts about a word that is read as a shared-memory descriptor: it would also be an instruction descriptor or a
/// descriptor of another GPU, or it starts beyond the shared memory of a CTA.
std::vector<Violation> doubts_about(Target target, uint64_t word);

/// The fields in which `second` differs from `first`: {"difference_from_first": {field: [first, second]}}. For
/// shared-memory descriptors also whether an instruction reads the same bytes: {"read_alike": {"k-major", "mn-major"}}.
Report describe_difference(const WordType& type, uint64_t first, uint64_t second);

/// "M = 128, N = 64; D f32, A f16, B f16; A K-major, B K-major".
std::string print_shape_and_types(const InstructionDescriptor& descriptor);

/// {"thread", "register", "bit"}, {"cta", "lane", "column", "bit"} or {"cta", "unswizzled_byte", "byte", "bit"}.
Report describe(const Place& place);
/// {"instruction", "target", "row", "col", "rule", "evidence", "terms" or "steps", "exact", "d", "alternatives", ...}.
/// The text is print(explanation).
Report describe(const Explanation& explanation, Target target);
/// A list: an explanation for each instruction of output (row, col) of `whole`, which several instructions compute,
/// with "step", "steps", "tile_row" and "tile_col".
Report describe(const std::vector<Explanation>& steps, const Case& whole, int row, int col);

/// A list of texts.
Report describe(const std::vector<Choice>& choices);
/// {"cases", "outputs", "mismatches", "cases_with_mismatches", "outside_d"}, "first_mismatch" if there is one, and
/// "where", "mismatches_by_row", "mismatches_by_col", "map". The text locates the mismatches.
Report describe(const Comparison& comparison, const Instruction& instruction);
/// {"different_inputs": [{"name", "cases"}]}; the text names them.
Report describe(const std::vector<InputDifference>& inputs, int64_t cases);
/// {"id", "stage", "what", "fix"}.
Report describe(const Fault& fault);
/// {"cases", "outputs", "wrong", "tried", "where", "findings"}. `comparison` covers the diagnosed outputs.
Report describe(const Diagnosis& diagnosis, const Comparison& comparison, const Instruction& instruction);

/// Describes a mnemonic, one or several PTX statements, or the name of a CUTLASS atom. Returns a list with an object
/// for each instruction: {"instruction", "target", ...}. Without `target`, each instruction gets its default target.
/// Throws Error if an instruction is illegal or unknown.
Report describe_ptx(std::string_view text, std::optional<Target> target = {});

/// The tensor-core statements of a PTX file: {"file", "version", "target", "instructions", "counts", "legal",
/// "illegal", "not_read"}. An illegal or unknown instruction has "violations". Without `target`, the file's .target
/// applies.
struct [[nodiscard]] PtxFileReport {
  Report report = {};
  int64_t legal = 0, illegal = 0, not_read = 0;  // numbers of instructions
  int64_t described = 0;                         // statements, or instructions of a SASS listing, that were described
};
PtxFileReport describe_ptx_file(std::string_view name, std::string_view text, std::optional<Target> target = {},
                                bool with_instructions = true);

/// The same for any kind of file: PTX, CUDA C++ with inline PTX, or a SASS listing: {"file", "sass", "arch",
/// "instructions", "counts", "all_instructions"}. Throws Error for other files, with their type and the command that
/// reads it, and for CUDA C++ without asm statements.
PtxFileReport describe_file(std::string_view name, std::string_view text, std::optional<Target> target = {},
                            bool with_instructions = true);

}  // namespace bitmma
