// SPDX-License-Identifier: MIT
// Which products and sums ptxas contracts into one fma. PTX permits it for add, sub and mul without a rounding
// modifier. We read the behaviour of ptxas from SASS; each row of fusion_rows states a rule and its evidence.
//
//   mul.f32 %f3, %f1, %f2;        add.f32 %f5, %f3, %f4     becomes     fma.rn.f32 %f5, %f1, %f2, %f4
#pragma once

#include <map>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "bitmma/kernel/kernel.hpp"
#include "ptx_module.hpp"
#include "sass.hpp"

namespace bitmma::kernel {

/// A sum that becomes an fma: the product with the factors, and which operand of the sum it is.
struct Join {
  int product = -1;  // index of the product's instruction
  int operand = 1;   // which source of the sum is the product, 1 or 2
  bool negate_product = false;
  bool negate_addend = false;
  bool needs_copies = false;  // a factor is overwritten between product and sum
};

struct Fusions {
  std::map<int, Join> of_sum = {};  // by instruction of the sum
  std::vector<KernelFusion> list = {};

  std::set<int> copied = {};  // products whose factors are overwritten before their sums run

  bool copies_factors(int product) const { return copied.contains(product); }
};

/// One case of the rule, and how ptxas compiles it.
struct FusionRow {
  std::string_view name = {};
  std::string_view meaning = {};
  bool joins = false;
  std::string_view evidence = {};
};
std::span<const FusionRow> fusion_rows();

/// The products and sums that ptxas -fmad=true joins in an entry. If the SASS shows a sum's line, the SASS decides.
Fusions fusions_of(const Entry& entry, const SassLines& sass = {});

}  // namespace bitmma::kernel
