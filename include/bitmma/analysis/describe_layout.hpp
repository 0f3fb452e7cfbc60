// SPDX-License-Identifier: MIT
// Reports about operand layouts: the text that `layout` prints, and the dictionaries that Python gets.
#pragma once

#include <string>
#include <string_view>

#include "bitmma/analysis/picture.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/memory/layout_descriptor.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "bitmma/memory/metadata_order.hpp"
#include "bitmma/memory/tma.hpp"
#include "bitmma/memory/tmem_plan.hpp"

namespace bitmma {

/// {"target", "cute", "element_bits", "rows", "cols", "stages", "remarks", "descriptor", "reasons", "warnings"}. If
/// there is a descriptor, also "major", "swizzle", "canonical", "t", "m", "k", "leading_dim_absolute", "lbo" and "sbo"
/// ({"bytes", "encoded", "counts"}), and "steps", {"stage", "row", "k", "start", "descriptor"}. The text has at most
/// `max_lines` steps and no warnings.
Report describe(const CuteLayout& cute, Target target, const DescriptorAnswer& answer, int max_lines = 32);

/// Whether a descriptor reads the elements from where a layout stores them.
struct [[nodiscard]] LayoutComparison {
  bool is_same = false;  // true too if each instruction reads the same bytes
  Report report = {};
};
/// {"target", "cute", "descriptor_cute", "same", "same_by_instructions", "different_elements", "elements"}, and if
/// elements differ, "first", {"row", "col", "cute_byte", "descriptor_byte"}. The layout starts at the descriptor's
/// start address.
LayoutComparison compare(const CuteLayout& cute, const SmemMatrix& matrix);
/// {"target", "tma_swizzle", "descriptor_swizzle", "same", "different_elements", "elements"}, and if elements differ,
/// "first", {"row", "col", "tma_byte", "descriptor_byte"}.
LayoutComparison compare(const TmaTile& tile, const SmemMatrix& matrix);

/// Whether every chunk of metadata has a place of its own: {"order", "rows", "cols", "one_to_one", "chunks", "shared",
/// "outside"}, and if one has none, "first", {"row", "chunk", "other_row", "other_chunk", "byte", "bit"}.
LayoutComparison describe_places(const MetadataImage& image);

/// The ldmatrix (or with `store` the stmatrix) instructions that move an operand of an mma.sync: "a", "b", "c", or "d",
/// which is always stored. {"fragment", "operand", "rows", "cols", "element_bits", "registers", "moves"}. A move has
/// "instruction", "targets", "stored_rows", "stored_cols" and "matrices", {"matrix", "register", "row", "byte"}. If no
/// such instruction can move it, there is a "reason".
Report describe_moves(const MmaSync& instruction, std::string_view operand, bool store = false);
/// The targets that have an ldmatrix or stmatrix: "sm_75 and later".
std::string print_targets(const LdMatrix& move);

/// What a tcgen05.mma keeps in Tensor Memory: one accumulator, and A, scales and metadata for one instruction.
TmemNeeds tmem_needs_of(const Tcgen05Mma& instruction);
/// Whether a kernel that issues several instructions along K keeps more than this. Accumulators alone do not grow.
bool grows_along_k(const TmemNeeds& needs);

struct [[nodiscard]] TmemPlanReport {
  bool fits = false;
  Report report = {};
  Picture picture = {};  // shows all CTAs
};
/// A plan for `ctas` CTAs (1..32) on an SM: {"pieces", "m", "n", "ctas", "columns", "allocation", "ctas_per_sm",
/// "fits"}. A piece has "name", "column", "columns" and "address".
TmemPlanReport describe(const Tcgen05Mma& instruction, const TmemNeeds& needs, int ctas = 1);

}  // namespace bitmma
