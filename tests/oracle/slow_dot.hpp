// The second opinion: a fused dot product written from the rules in docs/numerics.md with big integers, slowly. It
// shares no code with the library, down to its own decoding of the formats.
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
  int kept_bits;    // fraction bits of the result
  bool nearest;     // nearest even, otherwise toward zero
  bool f16_result;  // otherwise f32
};

/// D of one output from raw codes. `type_a` and `type_b` as PTX spells them. Nothing for c: it is not read. `narrow_c`:
/// c is f16 also where D is f32.
uint32_t fused_dot(const Rule& rule, const std::string& type_a, const std::string& type_b,
                   const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, bool negate_a, bool negate_b,
                   std::optional<uint32_t> c, bool narrow_c = false);

/// The same where every product is scaled by powers of two, 2^scale_a and 2^scale_b, or where one of the scales is NaN;
/// and where c counts c * 2^-c_shift.
struct Scaling {
  int power = 0;
  bool nan = false;
  int c_shift = 0;
  bool narrow_c = false;
};
uint32_t scaled_dot(const Rule& rule, const Scaling& scaling, const std::string& type_a, const std::string& type_b,
                    const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, bool negate_a, bool negate_b,
                    std::optional<uint32_t> c);

/// mxf4 and mxf4nvf4: e2m1 codes in groups of 16, or `group`, `scales` codes of `scale_type` for each of A and B,
/// spread evenly.
uint32_t grouped_dot(const std::string& scale_type, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                     bool negate, const std::vector<uint32_t>& scale_a, const std::vector<uint32_t>& scale_b,
                     std::optional<uint32_t> c, size_t group = 16);

/// The exact sum of all products, times 2^power, and c * 2^-c_shift, as "-0xHEX * 2^E" with an odd number in front;
/// "0".
std::string exact_dot(const Scaling& scaling, const std::string& type_a, const std::string& type_b,
                      const std::string& type_c, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                      bool negate_a, bool negate_b, std::optional<uint32_t> c);

/// mma.sync without fp8 tensor cores: fp8 as f16, one step of k % 4 < 2 without c and one of the others, then + c.
uint32_t two_step_dot(const Rule& rule, const std::string& type_a, const std::string& type_b,
                      const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, bool negate_a, bool negate_b,
                      std::optional<uint32_t> c);

/// c, then a fused multiply-add a k by the host, which rounds as IEEE 754 says. Modes: 'n', 'z', 'p' and 'm'.
uint64_t f64_chain(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b, uint64_t c, char mode);
/// m8n8k4 of f16 from sm_80 on, in the host's f32. A c of f16 is given as f32.
uint32_t f16_quad(bool f16_result, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                  std::optional<uint32_t> c);

/// Integer and b1 rows: exact sum, then wrap or clamp.
uint32_t integer_dot(const std::string& type_a, const std::string& type_b, const std::vector<uint32_t>& a,
                     const std::vector<uint32_t>& b, bool clamp, std::optional<uint32_t> c);

}  // namespace oracle
