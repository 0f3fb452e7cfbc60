// SPDX-License-Identifier: MIT
// Which products and sums ptxas joins into one fma. PTX lets it: an add, sub or mul without a rounding may be. What it
// does was read from SASS; the rows of fusion_rows say what, and with which evidence.
//
//   mul.f32 %f3, %f1, %f2;        add.f32 %f5, %f3, %f4     becomes     fma.rn.f32 %f5, %f1, %f2, %f4
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "bitmma/kernel/kernel.hpp"
#include "ptx_module.hpp"
#include "sass.hpp"

namespace bitmma::kernel {

/// A sum that becomes an fma: the product's factors, and what is added.
struct Join {
  int product = -1;  // instruction
  int operand = 1;   // of the sum: which of its sources the product is, 1 or 2
  bool negate_product = false;
  bool negate_addend = false;
  bool needs_copies = false;  // a factor is overwritten between the two
};

struct Fusions {
  std::map<int, Join> of_sum = {};  // by instruction
  std::vector<KernelFusion> list = {};

  bool copies_factors(int product) const {
    for (const auto& [sum, join] : of_sum) {
      if (join.product == product && join.needs_copies) return true;
    }
    return false;
  }
};

/// A case of the rule, and what ptxas makes of it.
struct FusionRow {
  std::string_view name = {};
  std::string_view meaning = {};
  bool joins = false;
  std::string_view evidence = {};
};
std::span<const FusionRow> fusion_rows();

/// What ptxas -fmad=true joins in an entry. Where the SASS has something at a sum's line, it decides.
Fusions fusions_of(const Entry& entry, const SassLines& sass = {});

}  // namespace bitmma::kernel
