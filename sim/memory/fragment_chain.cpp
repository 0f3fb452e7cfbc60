// SPDX-License-Identifier: MIT
#include "bitmma/memory/fragment_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace bitmma {
namespace {

/// The number of a thread's element in PTX's order.
int element_number(const Fragment& fragment, int reg, int bit) {
  return reg * fragment.elements_per_register() + (fragment.is_wide() ? 0 : bit / fragment.element_bits);
}

/// Calls visit(row, col, reg, bit) for the elements of a thread in PTX's order.
template <typename Visit>
void for_each_element(const Fragment& fragment, int thread, const Visit& visit) {
  for (int reg = 0; reg < fragment.registers(); ++reg) {
    for (int i = 0; i < fragment.elements_per_register(); ++i) {
      const int bit = i * std::min(fragment.element_bits, 32);
      const MatrixPlace place = element_at(fragment, thread, reg, bit);
      visit(place.row, place.col, reg, bit);
    }
  }
}

void require_chain(const Fragment& d, const Fragment& a) {
  if (d.threads != a.threads) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "threads",
                 .seen = fmt::format("D in {}, A in {}", d.threads, a.threads),
                 .expected = "the same number: mma.sync after mma.sync, wgmma after wgmma"});
  }
  if (d.rows != a.rows || d.cols < 1 || a.cols < 1 || (d.cols % a.cols != 0 && a.cols % d.cols != 0)) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "shapes",
                 .seen = fmt::format("D {} x {}, A {} x {}", d.rows, d.cols, a.rows, a.cols),
                 .expected = "the same M, and N a multiple of the next K or K of N"});
  }
}

using Columns = std::map<int, ChainElement>;  // by column

}  // namespace

FragmentChain chain_of(const Fragment& d, const Fragment& a) {
  require_chain(d, a);
  FragmentChain chain{.k = a.cols, .instructions = std::max(1, a.cols / d.cols)};
  chain.column_of_k.assign(static_cast<size_t>(a.cols), -1);
  bool keeps_own = true;
  for (int thread = 0; thread < d.threads; ++thread) {
    std::map<int, Columns> held, needed;  // by row
    for (int instruction = 0; instruction < chain.instructions; ++instruction) {
      for_each_element(d, thread, [&](int row, int col, int reg, int bit) {
        if (col < a.cols) held[row][instruction * d.cols + col] = {instruction, element_number(d, reg, bit)};
      });
    }
    for_each_element(a, thread, [&](int row, int k, int reg, int bit) {
      needed[row][k] = {reg, element_number(a, reg, bit) % a.elements_per_register()};
    });
    std::vector<std::vector<ChainElement>> registers(
        static_cast<size_t>(a.registers()), std::vector<ChainElement>(static_cast<size_t>(a.elements_per_register())));
    int exchanged = 0;
    for (const auto& [row, by_k] : needed) {
      const Columns& of_row = held[row];
      keeps_own = keeps_own && of_row.size() == by_k.size();
      auto from = of_row.begin();
      for (const auto& [k, to] : by_k) {
        exchanged += !of_row.contains(k);
        if (!keeps_own) continue;
        int& column = chain.column_of_k[static_cast<size_t>(k)];
        keeps_own = column == -1 || column == from->first;
        column = from->first;
        registers[static_cast<size_t>(to.instruction)][static_cast<size_t>(to.element)] = from->second;
        ++from;
      }
    }
    chain.exchanged = std::max(chain.exchanged, exchanged);
    if (thread == 0) chain.registers = std::move(registers);
    else keeps_own = keeps_own && registers == chain.registers;
  }
  if (!keeps_own) chain.column_of_k.clear(), chain.registers.clear();
  return chain;
}

ChainSource source_of(const Fragment& d, const Fragment& a, int thread, int reg, int bit) {
  require_chain(d, a);
  const MatrixPlace needed = element_at(a, thread, reg, bit);
  const RegisterPlace place = place_of(d, needed.row, needed.col % d.cols);
  return {.thread = place.thread,
          .element = {.instruction = needed.col / d.cols, .element = element_number(d, place.reg, place.bit)}};
}

}  // namespace bitmma
