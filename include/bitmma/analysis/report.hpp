// Answers as JSON, for programs in any language: what `--json` of the command line prints, and what Python gets as
// dictionaries. Numbers of codes are hex strings, places are objects by their kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/analysis/explain.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"

namespace bitmma {

/// [{"field", "seen", "legal", "fix", "source", "severity"}].
std::string report(const std::vector<Violation>& violations);
/// {"thread", "register", "bit"}, {"cta", "lane", "column", "bit"} or {"cta", "unswizzled_byte", "byte", "bit"}.
std::string report(const Place& place);
/// {"instruction", "target", "row", "col", "rule", "evidence", "terms" or "steps", "exact", "d", "alternatives", ...}.
std::string report(const Explanation& explanation, Target target);

/// {"descriptor", "target", "fields", "swizzle_mode", "warnings"}; sizes in bytes. Throws Error for a word that is
/// none.
std::string report_smem_descriptor(Target target, uint64_t word, std::optional<Major> major = std::nullopt);
/// {"idesc", "kind", "m", "n", "d", "a", "b", "fields", "warnings"}. Throws Error for a word that is none.
std::string report_instruction_descriptor(MmaKind kind, uint32_t word);
/// {"zero_column_mask", "m", "n", "fields", "columns"}: a character a column of D, 1 where that of B counts as zero.
std::string report_zero_column_mask(uint64_t word, int m, int n);

}  // namespace bitmma
