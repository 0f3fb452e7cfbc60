// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "arguments.hpp"
#include "bitmma/analysis/words.hpp"
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
    return InstructionWord{.kind = require_kind(flags.kind), .target = flags.target.requested()};
  }
  const Major major = flags.major == "mn" ? Major::mn : Major::k;
  return SmemWord{.target = flags.target.of_smem_descriptor(),
                  .major = flags.major.empty() ? std::nullopt : std::optional(major)};
}

/// A statement that the shell has split into words is one text again: "HMMA.16816.F32", "R4,", "R8,", "R10,", "R4".
std::vector<std::string> joined_statement(const std::vector<std::string>& texts) {
  const bool is_split = texts.size() > 1 && texts[0].find('.') != std::string::npos &&
                        read_pasted(texts[0]).kind == PastedText::Kind::statement &&
                        std::ranges::any_of(texts, [](const std::string& text) { return text.ends_with(','); });
  return is_split ? std::vector{fmt::format("{}", fmt::join(texts, " "))} : texts;
}

/// The command that draws the matrix of a shared-memory descriptor.
std::string layout_command_of(uint64_t word, const DecodeFlags& flags) {
  std::string command = fmt::format("bitmma layout smem --descriptor {:#018x}", word);
  if (!flags.target.name.empty()) command += fmt::format(" --target {}", print(flags.target.of_smem_descriptor()));
  if (!flags.major.empty()) command += fmt::format(" --major {}", flags.major.get());
  return command + " draws it";
}

void run_decode(Context& context, const DecodeFlags& flags) {
  DecodeRequest request{.describe_other = describe_kernel_instruction};
  for (const std::string& text : joined_statement(flags.texts)) request.texts.push_back(read_pasted(text));
  const auto has = [&](PastedText::Kind kind) {
    return std::ranges::find(request.texts, kind, &PastedText::kind) != request.texts.end();
  };
  using Kind = PastedText::Kind;
  if (has(Kind::word)) request.type = word_type_of(flags);
  if (has(Kind::file)) request.with_instructions = flags.json;
  if (has(Kind::file) || has(Kind::statement)) request.target = flags.target.requested();
  const bool is_words = !has(Kind::file) && !has(Kind::statement);
  const std::string_view target_name = is_words ? std::string_view(flags.target.flags) : "target";
  DecodeReport decoded = naming_flag("target", target_name, [&] { return decode(request); });
  context.exit_code = decoded.is_understood ? exit_same : exit_differs;
  if (request.texts.size() == 1 && is_words && std::holds_alternative<SmemWord>(request.type))
    decoded.report.add_text(layout_command_of(request.texts.front().word.value, flags));
  show(context, decoded.report, flags.json);
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
      "bitmma decode dataset:triton_sm90_f16\n  cuobjdump --dump-sass kernel.cubin | bitmma decode "
      "/dev/stdin\nExit codes: 0 decoded; 1 if a file contains an instruction that is illegal on its target or unknown "
      "to bitmma, or if a SASS listing or CUDA C++ file contains no tensor-core instruction; 2 bad request.");
  command->callback([flags, &context] { run_decode(context, *flags); });
}

}  // namespace bitmma::cli
