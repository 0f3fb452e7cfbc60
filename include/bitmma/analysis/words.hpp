// SPDX-License-Identifier: MIT
// Descriptors and statements that people write and paste: what `encode` and `decode` do.
//
//   const EncodedWord encoded = encode_word({.lbo = 16, .sbo = 1024, .swizzle = Swizzle::b128});   //
//   0x4000004000010000 print(decode({.texts = {read_pasted("$1 = 0x4000004000010000,")}, .type = SmemWord{}}).report);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/core/word.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"

namespace bitmma {

/// A shared-memory descriptor by its fields, in bytes. A stride that is not given is 0, with a warning if it is used.
struct SmemDescriptorRequest {
  Target target = Target::sm_90a;
  int64_t start = 0;
  std::optional<int64_t> lbo = {}, sbo = {};
  int base_offset = 0;
  Swizzle swizzle = Swizzle::none;
  bool leading_dim_absolute = false;
  bool mask_address = false;  // start, LBO and SBO are encoded as (x & 0x3FFFF) >> 4, as PTX's formula does
};
struct [[nodiscard]] EncodedWord {
  uint64_t word = 0;
  std::vector<Violation> warnings = {};  // fields start, lbo, sbo, and those of the descriptor
};
/// Throws Error for values that the fields cannot hold.
EncodedWord encode_word(const SmemDescriptorRequest& request);

/// Throws Error (field target) if no tcgen05.mma of the target has the descriptor's kind and K, or the other fields
/// that only some targets have.
void require_kind_on(Target target, const InstructionDescriptor& idesc);

/// A pasted text, without what debuggers print around a number.
struct PastedText {
  enum class Kind : uint8_t { word, file, statement };
  Kind kind = Kind::statement;
  std::string text = {};
  PastedWord word = {};
};
/// Throws Error for a number that is no word of 64 bits, and for a layout in CuTe's notation (field words).
PastedText read_pasted(const std::string& text);

struct DecodeRequest {
  std::vector<PastedText> texts = {};
  WordType type = SmemWord{};         // of the words
  std::optional<Target> target = {};  // of files and statements
  bool with_instructions = true;      // of a file: every instruction in the tree
  /// Describes a statement that describe_ptx does not know, as a list; nothing for other texts.
  std::function<std::optional<Report>(std::string_view statement, std::optional<Target> target)> describe_other = {};
};
struct [[nodiscard]] DecodeReport {
  Report report = {};         // of the only text, or a list
  bool is_understood = true;  // false: a file has instructions that are illegal or unknown, or none
};
/// Describes each text; two words are also compared. Throws Error if a word or a statement is illegal, and like
/// require_kind_on for instruction descriptors of a target.
DecodeReport decode(const DecodeRequest& request);

}  // namespace bitmma
