// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "arguments.hpp"
#include "bitmma/analysis/describe.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/word.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/files/file.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "parts.hpp"

namespace bitmma::cli {
namespace {

struct DecodeFlags {
  Flag<std::vector<std::string>> texts;
  TargetFlag target;
  Flag<std::string> major, kind;
  Flag<bool> json = false, mask = false;
  Flag<int> m = 128, n = 256;
};

/// The type of word that the flags select.
WordType word_type_of(const DecodeFlags& flags) {
  if (flags.mask) {
    if ((flags.m != 32 && flags.m != 64 && flags.m != 128) || flags.n < 8 || flags.n > 256) {
      throw Error({.field = "--m, --n",
                   .seen = fmt::format("{}, {}", flags.m, flags.n),
                   .expected = "32, 64 or 128, and 8..256",
                   .fix = "the shape of the .ws instruction determines the parts of the mask"});
    }
    return ZeroColumnWord{.m = flags.m, .n = flags.n};
  }
  if (!flags.kind.empty()) {
    if (flags.kind->find("wgmma") != std::string::npos || flags.kind->find("mma.sync") != std::string::npos) {
      throw Error({.code = ViolationCode::unknown_name,
                   .field = "--kind",
                   .seen = flags.kind,
                   .expected = fmt::format("{}: the kind of a tcgen05.mma", print_mma_kinds()),
                   .fix = "wgmma has no instruction descriptor; without --kind the word is decoded as a shared-memory "
                          "descriptor"});
    }
    return InstructionWord{.kind = require_kind(flags.kind), .target = flags.target.asked()};
  }
  const Major major = flags.major == "mn" ? Major::mn : Major::k;
  return SmemWord{.target = flags.target.of_smem_descriptor(),
                  .major = flags.major.empty() ? std::nullopt : std::optional(major)};
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
PastedWord require_pasted(const std::string& text) {
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
                       (text.find('/') != std::string::npos ||
                        std::ranges::any_of(file_ends, [&](std::string_view end) { return text.ends_with(end); }));
  return is_name || (text.size() < 256 && std::filesystem::exists(text, error) && !error);
}

/// Describes a descriptor, and how its digits were read.
Report describe_word(const DecodeFlags& flags, const PastedWord& word) {
  const WordType type = word_type_of(flags);
  Report report = Report::object();
  if (!word.how.empty()) report.add_text(fmt::format("read as {:#x}: {}", word.value, word.how));
  report.update(describe(type, word.value));
  if (const auto* idesc = std::get_if<InstructionWord>(&type))
    require_kind_on(flags.target, decode_instruction_descriptor(idesc->kind, static_cast<uint32_t>(word.value)));
  if (!word.how.empty()) report.add("read_as", word.how);
  return report;
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

void run_decode(Context& context, const DecodeFlags& flags) {
  Report all = Report::list();
  std::vector<uint64_t> words;
  for (const std::string& given : flags.texts) {
    const std::string bare = without_surroundings(given);
    const std::string& text = is_word(bare) ? bare : given;
    if (is_file(text)) {
      PtxFileReport file = describe_file(text, read_whole(text), flags.target.asked(), flags.json);
      const bool is_ptx = file.report.find("sass") == nullptr && file.report.find("asm_statements") == nullptr;
      if (file.illegal + file.not_read > 0 || (!is_ptx && file.described == 0)) context.exit_code = exit_differs;
      all.append(std::move(file.report));
    } else if (is_word(text)) {
      PastedWord word = require_pasted(text);
      if (!flags.mask && !flags.kind.empty()) take_idesc(word);
      all.append(describe_word(flags, word));
      words.push_back(word.value);
    } else if (is_cute_layout(text)) {
      throw Error({.field = "words",
                   .seen = shortened(text),
                   .expected = "a descriptor, a mnemonic or a file",
                   .fix = "bitmma layout --cute draws a layout in CuTe's notation and compares it with a descriptor"});
    } else {
      const std::optional<Target> target = flags.target.asked();
      std::optional<Report> of_kernels = describe_kernel_instruction(text, target);
      Report statements = of_kernels ? std::move(*of_kernels) : describe_ptx(text, target);
      auto& elements = std::get<Report::List>(statements.value);
      elements.front().lines.insert(elements.front().lines.begin(), statements.lines.begin(), statements.lines.end());
      for (Report& row : elements) all.append(std::move(row));
    }
  }
  if (words.size() == 2 && flags.texts.size() == 2) {
    all[1].update(describe_difference(word_type_of(flags), words[0], words[1]));
  }
  const auto& found = std::get<Report::List>(all.value);
  show(context, found.size() == 1 ? found.front() : all, flags.json);
}

}  // namespace

void add_decode(Command& app, Context& context) {
  Command* command =
      app.add_command("decode", "explain descriptors, PTX statements, and files of PTX, CUDA C++ or SASS");
  const auto flags = std::make_shared<DecodeFlags>();
  command
      ->add_input("words", flags->texts,
                  "64-bit descriptors, PTX mnemonics or statements, names of CUTLASS atoms; or files with PTX, CUDA "
                  "C++ with inline PTX, or SASS listings. Two descriptors are also compared")
      ->required();
  flags->target.add(*command,
                    "the GPU by its PTX name; default: sm_90a for descriptors, the instruction's own for "
                    "mnemonics",
                    true);
  command->add_option("--major", flags->major, "k or mn: the instruction's transpose bit; makes warnings more precise");
  one_of(command->get_option("--major"), {"k", "mn"});
  command->add_option("--kind", flags->kind,
                      "decode the words as instruction descriptors of this kind of tcgen05.mma: " + print_mma_kinds());
  command->add_flag("--zero-column-mask", flags->mask, "decode the words as zero-column masks of tcgen05.mma.ws");
  command->add_option("--m", flags->m, "zero-column mask: M of the instruction")->capture_default_str();
  command->add_option("--n", flags->n, "zero-column mask: N of the instruction")->capture_default_str();
  command->add_flag("--json", flags->json, "print the result as JSON");
  command->footer(
      "Examples:\n  bitmma decode 0x4000004000010000 --major k\n  bitmma decode 0x4000404000010000 --target sm_103a\n  "
      "bitmma decode 0x08100010 --kind f16\n  bitmma decode 0x4000004000010000 0x4000004000010002 --major k\n  bitmma "
      "decode SM90_64x128x16_F32F16F16_SS\n  bitmma decode wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16\n  "
      "bitmma decode '@p wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, %rd1, %rd2, q, 1, -1, 0, 1;'\n  "
      "bitmma decode data/ptx/triton_sm90_f16.ptx\n  cuobjdump --dump-sass kernel.cubin | bitmma decode "
      "/dev/stdin\nExit codes: 0 decoded; 1 if a file contains an instruction that is illegal on its target or unknown "
      "to bitmma, or if a SASS listing or CUDA C++ file contains no tensor-core instruction; 2 bad request.");
  command->callback([flags, &context] { run_decode(context, *flags); });
}

}  // namespace bitmma::cli
