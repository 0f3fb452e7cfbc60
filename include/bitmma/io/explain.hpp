// One output, term by term: where every factor was read, what it is worth, which bits of its product are kept, the sum,
// the rounding; beside it the exact result and what other adders would give.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/arithmetic/what_if.hpp"
#include "bitmma/io/vector_file.hpp"

namespace bitmma {

/// Where a code was read. One of the three.
struct ReadPlace {
  struct Smem {
    int cta = 0;
    int64_t linear = 0;  // start + canonical offset, before the XOR
    SmemPlace place;     // after it
  };
  std::optional<Smem> smem;
  std::optional<RegisterPlace> reg;
  std::optional<TmemPlace> tmem;
};
std::string print(const ReadPlace& place);

/// Where element (row, stored column) of A, (k, col) of B and (row, col) of C were read; nothing for logical files.
std::optional<ReadPlace> a_place(const VectorFile& vectors, int64_t index, int row, int stored);
std::optional<ReadPlace> b_place(const VectorFile& vectors, int64_t index, int k, int col);
std::optional<ReadPlace> c_place(const VectorFile& vectors, int64_t index, int row, int col);

struct ExplainedTerm {
  int k = 0;
  uint32_t a_bits = 0, b_bits = 0;  // as read, before negation
  std::optional<ReadPlace> a_place, b_place;
  bool special = false;         // NaN or infinity takes part
  Exact product;                // exact, signs and scales applied
  std::optional<int> exponent;  // e_k, by which it is aligned; nothing for a zero. In groups of 16, of the group
  int64_t kept = 0;             // in units of 2^quantum; in groups the group's first term carries it
  bool loses_bits = false;
};

/// A group of 16 fp4 products.
struct ExplainedGroup {
  int first_term = 0;
  int64_t sum_quarters = 0;           // P_g, in quarters
  uint32_t scale_a = 0, scale_b = 0;  // codes
  std::optional<int> exponent;        // of both scales; nothing when the group counts as nothing
  int64_t kept = 0;
  bool loses_bits = false;
};

struct Alternative {
  std::string name;
  uint32_t d = 0;
  bool same = false;
  std::optional<double> error_ulp;  // against the exact result; nothing for NaN and infinity
};

struct Explanation {
  std::string instruction, rule;
  Evidence evidence = Evidence::model_choice;
  Format a, b, d_format;
  int row = 0, col = 0;
  std::vector<ExplainedTerm> terms;
  std::vector<ExplainedGroup> groups;  // mxf4 kinds
  uint32_t scale_a = 0, scale_b = 0;   // mxf8f6f4: the two codes
  std::optional<Format> scale_type;
  std::optional<uint32_t> c_bits;
  std::optional<ReadPlace> c_place;
  std::optional<int> c_exponent;
  int64_t c_kept = 0;
  bool c_loses_bits = false;

  std::optional<uint32_t> special;  // the code that NaN and infinity force; then the rest is left at zero
  bool integer = false;             // exact integers: `sum` is all there is to say
  int max_exponent = 0, quantum = 0;
  std::string max_exponent_by;  // "k = 3", "C", "group 2", "the floor"
  int64_t sum = 0;              // of what is kept, in units of 2^quantum
  uint32_t d = 0;
  std::optional<uint32_t> recorded_d;  // where the file has one
  std::string exact;                   // the exact real result as hex * 2^e
  double exact_value = 0;
  std::optional<double> error_ulp;  // of D, in units of its last place
  std::vector<Alternative> alternatives;
};

/// Explains output (row, col) of case `index`. Throws Error when there is no such case, row or column, or the file is
/// of a move, which computes nothing.
Explanation explain(const VectorFile& vectors, int64_t index, int row, int col);

/// As text for people.
std::string print(const Explanation& explanation);

}  // namespace bitmma
