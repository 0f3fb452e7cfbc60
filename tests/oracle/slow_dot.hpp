// The second opinion: a fused dot product written from the rules in docs/numerics.md with big integers, slowly. It shares
// no code with the library, down to its own decoding of the formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace oracle {

/// A number +-integer / 2^scale_bits, or something that is none; and the exponent by which it is aligned.
struct Rule {
  int fraction_bits;
  int floor;
  int kept_bits;     // fraction bits of the result
  bool nearest;      // nearest even, otherwise toward zero
  bool f16_result;   // otherwise f32
};

/// D of one output from raw codes. `type_a` and `type_b` as PTX spells them. Nothing for c: it is not read.
uint32_t fused_dot(const Rule& rule, const std::string& type_a, const std::string& type_b, const std::vector<uint32_t>& a,
                   const std::vector<uint32_t>& b, bool negate_a, bool negate_b, std::optional<uint32_t> c);

/// Integer and b1 rows: exact sum, then wrap or clamp.
uint32_t integer_dot(const std::string& type_a, const std::string& type_b, const std::vector<uint32_t>& a,
                     const std::vector<uint32_t>& b, bool clamp, std::optional<uint32_t> c);

}  // namespace oracle
