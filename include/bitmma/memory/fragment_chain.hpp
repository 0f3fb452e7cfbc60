// SPDX-License-Identifier: MIT
// D of one product as A of the next, as in attention: S = Q K^T, P = softmax(S) in A's type, O = P V.
//
//   wgmma m64n64 f32 -> A of m64k32 e4m3: thread T0 holds columns 0 1 8 9 16 17 24 25 of row 0 and needs k 0 1 2 3 16
//   17 18 19. If it keeps its own elements, A's k is D's column 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15 16 17 24 25 ...,
//   and the rows of V must have the same order.
//
// Threads hold the same rows in both fragments; their columns agree for 16-bit A, and for others the order of k changes
// or elements move between the threads of a quad.
#pragma once

#include <vector>

#include "bitmma/memory/fragment.hpp"

namespace bitmma {

/// An element of a thread's D: of instruction `instruction` along N, in PTX's numbers of elements, low to high.
struct ChainElement {
  int instruction = 0;
  int element = 0;

  bool operator==(const ChainElement&) const = default;
};

struct [[nodiscard]] FragmentChain {
  int k = 0;             // columns of A
  int instructions = 1;  // of the first product, side by side along N, whose D fills one A
  /// A's column k holds D's column column_of_k[k], if every thread keeps its own elements. Empty if that is impossible:
  /// the threads hold other rows, or an order that differs between them.
  std::vector<int> column_of_k = {};
  /// The elements of a register of A, low to high, if every thread keeps its own. The same for all threads.
  std::vector<std::vector<ChainElement>> registers = {};
  int exchanged = 0;  // elements of a thread that come from other threads, if k keeps its order

  bool keeps_order() const { return exchanged == 0; }
};

/// The first columns of D as A. Throws Error for fragments over different numbers of threads or rows, and unless N is a
/// multiple of K or K of N.
FragmentChain chain_of(const Fragment& d, const Fragment& a);

/// The element of D that position `bit` of register `reg` of A needs, with the thread that holds it, if k keeps its
/// order.
struct ChainSource {
  int thread = 0;
  ChainElement element = {};
};
ChainSource source_of(const Fragment& d, const Fragment& a, int thread, int reg, int bit);

}  // namespace bitmma
