// SPDX-License-Identifier: MIT
// D of one product as A of the next (memory/fragment_chain.hpp), as a report.
#pragma once

#include "bitmma/analysis/report.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

struct [[nodiscard]] ChainReport {
  bool keeps_order = false;  // every element of D is where A needs it
  Report report = {};
};
/// D of `first` as A of `second`: two mma.sync, two wgmma with A in registers, or two tcgen05.mma with A in Tensor
/// Memory. {"first", "second", "k", "keeps_order", "exchanged"}; of registers also "instructions", "column_of_k",
/// "cute", "registers" ({"register", "elements"}), of Tensor Memory "lanes_agree" and "elements_per_register". Throws
/// Error for other pairs, shapes that do not fit, and a sparse second product.
ChainReport describe_chain(const Instruction& first, const Instruction& second);

}  // namespace bitmma
