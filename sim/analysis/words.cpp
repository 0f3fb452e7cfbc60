// SPDX-License-Identifier: MIT
#include "bitmma/analysis/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "bitmma/core/text.hpp"
#include "bitmma/files/dataset.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/sass.hpp"

namespace bitmma {
namespace {

/// PTX's matrix-descriptor-encode(x) = (x & 0x3FFFF) >> 4; returns the byte value of the resulting field.
int64_t masked(std::vector<Violation>& warnings, std::string_view field, int64_t bytes) {
  constexpr int64_t window = 0x3FFFF;
  if (bytes % 16 != 0) {
    warnings.push_back({.field = std::string(field),
                        .seen = std::to_string(bytes),
                        .expected = "a multiple of 16",
                        .fix = "the formula drops the lower 4 bits"});
  }
  return bytes & window & ~int64_t{15};
}

/// Encodes the word. If an address does not fit the field, the error says what accepts it.
uint64_t encoded(const SmemDescriptor& descriptor) {
  try {
    return encode(descriptor);
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) {
      if (violation.code == ViolationCode::address_beyond_field)
        violation.fix = "--mask-address encodes real addresses as (x & 0x3FFFF) >> 4, as PTX's formula does";
    }
    throw Error(std::move(violations));
  }
}

/// The number of digits after 0x, without leading zeros; 0 for other text.
size_t hexadecimal_digits(std::string_view text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) return 0;
  text.remove_prefix(2);
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  return text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos ? text.size() : 0;
}

/// Strips what debuggers print around a number: "$1 = 0x10," becomes 0x10.
std::string without_surroundings(std::string_view text) {
  if (text.starts_with('$')) {
    const size_t equals = text.find("= ");
    const bool is_history = equals != std::string_view::npos && equals > 1 &&
                            text.substr(1, equals - 1).find_first_not_of("0123456789 ") == std::string_view::npos;
    if (is_history) text.remove_prefix(equals + 2);
  }
  if (text.ends_with(',')) text.remove_suffix(1);
  return std::string(text);
}

/// A word from the command line, and how it was read if that needs a remark.
PastedWord require_pasted_word(const std::string& text) {
  if (auto word = read_word(text)) return *word;
  const size_t digits = hexadecimal_digits(text);
  throw Error(
      {.field = "descriptor",
       .seen = shortened(text),
       .expected =
           digits > 16
               ? fmt::format("a 64-bit number of at most 16 hexadecimal digits; {} digits are more than 64 bits",
                             digits)
               : "a 64-bit number such as 0x4000004000010000",
       .fix = "write hexadecimal or decimal digits, with _ or ' between them and U or L at the end"});
}

/// Extracts the 32 bits of an instruction descriptor: tcgen05.mma takes them from a 32-bit register, and CUTLASS keeps
/// them in the upper half of a 64-bit one.
void take_idesc(PastedWord& word) {
  const uint64_t upper = word.value >> 32, lower = word.value & 0xFFFFFFFF;
  if (word.is_negative && upper == 0xFFFFFFFF && lower >> 31 == 1) {
    word.value = lower;
    word.how = "a signed number of 32 bits, read as two's complement";
  } else if (upper != 0 && lower == 0) {
    word.value = upper;
    word.how += fmt::format("{}the upper half of a 64-bit word", word.how.empty() ? "" : "; ");
  }
}

/// File names end with these; mnemonics do not.
constexpr auto file_ends = std::to_array<std::string_view>(
    {".ptx",    ".cu",  ".cuh", ".cpp",  ".cc",  ".cxx", ".h",           ".hpp", ".inl", ".sass", ".cubin",
     ".fatbin", ".txt", ".log", ".json", ".npy", ".npz", ".safetensors", ".pt",  ".pth", ".bin"});

/// True also for a pipe such as standard input.
bool is_file(const std::string& text) {
  std::error_code error;
  const bool is_name = text.find_first_of(" ;{") == std::string::npos &&
                       (text.find('/') != std::string::npos || text.starts_with(dataset_prefix) ||
                        std::ranges::any_of(file_ends, [&](std::string_view end) { return text.ends_with(end); }));
  return is_name || (text.size() < 256 && std::filesystem::exists(text, error) && !error);
}

/// False for text that starts with a letter, a guard or a brace.
bool is_word(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool begins_as_number = !text.empty() && (is_digit(text[0]) || text[0] == '-' || text[0] == '+');
  return begins_as_number || read_word(text).has_value();
}

/// True for a shape with strides, or the name of a CUTLASS layout.
bool is_cute_layout(std::string_view text) {
  return text.find("):(") != std::string_view::npos || text.starts_with("Sw<") || text.starts_with("Swizzle<") ||
         text.find("Layout_") != std::string_view::npos;
}

/// Describes a word, and how its digits were read.
Report describe_pasted(const WordType& type, const PastedWord& word) {
  Report report = Report::object();
  if (!word.how.empty()) report.add_text(fmt::format("read as {:#x}: {}", word.value, word.how));
  report.update(describe(type, word.value));
  if (!word.how.empty()) report.add("read_as", word.how);
  return report;
}

}  // namespace

EncodedWord encode_word(const SmemDescriptorRequest& request) {
  EncodedWord encoded_word;
  const auto taken = [&](std::string_view field, int64_t bytes) {
    return request.mask_address ? masked(encoded_word.warnings, field, bytes) : bytes;
  };
  const SmemDescriptor descriptor{.target = request.target,
                                  .start_address_bytes = taken("start", request.start),
                                  .strides = {.leading_dim_byte_offset = taken("lbo", request.lbo.value_or(0)),
                                              .stride_dim_byte_offset = taken("sbo", request.sbo.value_or(0))},
                                  .base_offset = request.base_offset,
                                  .swizzle = request.swizzle,
                                  .leading_dim_absolute = request.leading_dim_absolute};
  encoded_word.word = encoded(descriptor);
  std::ranges::move(warnings(descriptor), std::back_inserter(encoded_word.warnings));
  const auto require_stride = [&](std::string_view field, const std::optional<int64_t>& stride, std::string expected) {
    if (stride) return;
    encoded_word.warnings.push_back({.code = ViolationCode::missing_input,
                                     .field = std::string(field),
                                     .seen = "(missing)",
                                     .expected = std::move(expected),
                                     .fix = "with 0 they all coincide"});
  };
  require_stride("sbo", request.sbo, "the bytes from one group of rows to the next");
  if (descriptor.swizzle == Swizzle::none)
    require_stride("lbo", request.lbo,
                   "the bytes between core matrices along K, or along M or N of a transposed operand");
  encoded_word.warnings = as_warnings(std::move(encoded_word.warnings));
  return encoded_word;
}

void require_kind_on(Target target, const InstructionDescriptor& idesc) {
  // The mnemonic gives the scale-vector size: accept any size that exists.
  TargetSet known;
  std::optional<Violation> wrong;
  for (const ScaleVec size : {ScaleVec::unwritten, ScaleVec::block16, ScaleVec::block32}) {
    const Tcgen05Mma mma{.kind = idesc.kind,
                         .a = natural_input(idesc.kind),
                         .sparse = idesc.sparse,
                         .k = idesc.k(),
                         .scale_vec = size,
                         .scale_type = idesc.scale_type,
                         .sparsity_version = idesc.sparsity_version};
    const TargetSet targets = targets_of(mma);
    known = known | targets;
    if (wrong && targets.empty()) continue;  // the violation of a size that some target has is more useful
    for (const Violation& violation : violations_of(mma, target)) {
      if (violation.field == "target") wrong = violation;
    }
  }
  if (known.contains(target) || !wrong) return;
  if (!known.empty()) wrong->expected = print(known);
  throw Error(*wrong);
}

PastedText read_pasted(const std::string& text) {
  const std::string bare = without_surroundings(text);
  PastedText pasted{.text = is_word(bare) ? bare : text};
  if (is_file(pasted.text)) {
    pasted.kind = PastedText::Kind::file;
  } else if (is_word(pasted.text)) {
    pasted.kind = PastedText::Kind::word;
    pasted.word = require_pasted_word(pasted.text);
  } else if (is_cute_layout(pasted.text)) {
    throw Error({.field = "words",
                 .seen = shortened(pasted.text),
                 .expected = "a descriptor, a mnemonic or a file",
                 .fix = "bitmma layout --cute draws a layout in CuTe's notation and compares it with a descriptor"});
  }
  return pasted;
}

DecodeReport decode(const DecodeRequest& request) {
  DecodeReport decoded;
  Report all = Report::list();
  std::vector<uint64_t> words;
  for (const PastedText& pasted : request.texts) {
    if (pasted.kind == PastedText::Kind::file) {
      PtxFileReport file =
          describe_file(pasted.text, read_whole(pasted.text), request.target, request.with_instructions);
      const bool is_ptx = !file.report.find("sass") && !file.report.find("asm_statements");
      if (file.illegal + file.not_read > 0 || (!is_ptx && file.described == 0)) decoded.is_understood = false;
      all.append(std::move(file.report));
    } else if (pasted.kind == PastedText::Kind::word) {
      PastedWord word = pasted.word;
      if (std::holds_alternative<InstructionWord>(request.type)) take_idesc(word);
      all.append(describe_pasted(request.type, word));
      if (const auto* idesc = std::get_if<InstructionWord>(&request.type); idesc && idesc->target)
        require_kind_on(*idesc->target, decode_instruction_descriptor(idesc->kind, static_cast<uint32_t>(word.value)));
      words.push_back(word.value);
    } else if (scan_sass(pasted.text)) {
      all.append(describe_file("SASS", pasted.text, request.target, request.with_instructions).report);
    } else {
      std::optional<Report> other =
          request.describe_other ? request.describe_other(pasted.text, request.target) : std::nullopt;
      Report statements = other ? std::move(*other) : describe_ptx(pasted.text, request.target);
      auto& elements = std::get<Report::List>(statements.value);
      elements.front().lines.insert(elements.front().lines.begin(), statements.lines.begin(), statements.lines.end());
      for (Report& statement : elements) all.append(std::move(statement));
    }
  }
  if (words.size() == 2 && request.texts.size() == 2)
    all[1].update(describe_difference(request.type, words[0], words[1]));
  auto& reports = std::get<Report::List>(all.value);
  decoded.report = reports.size() == 1 ? std::move(reports.front()) : std::move(all);
  return decoded;
}

}  // namespace bitmma
