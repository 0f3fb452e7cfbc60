// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "arguments.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/dataset.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"

namespace bitmma::cli {
namespace {

struct PtxFlags {
  Flag<std::string> what, out;
  FileFlags file;
  Flag<int64_t> image_bytes = 0;
  Flag<int> columns = 128;
};

/// A legal instruction for the mnemonic: if it leaves shape, types or the place of A open, any legal choice serves,
/// because these are operands of the kernel. Throws Error if there is none.
Instruction require_mnemonic(const std::string& text, const TargetFlag& target) {
  const Instruction instruction = parse_instruction(text);
  std::vector<Violation> violations = violations_of(instruction, target.of(instruction));
  if (violations.empty()) return instruction;
  const std::string mnemonic = print(instruction);
  for (const Instruction& legal : all_instructions(family_of(instruction))) {
    if (print(legal) == mnemonic && violations_of(legal, target.of(legal)).empty()) return legal;
  }
  if (std::ranges::find(violations, "target", &Violation::field) == violations.end()) {
    violations.push_back(
        {.field = "instruction", .seen = mnemonic, .expected = "a mnemonic from bitmma list --mnemonics"});
  }
  throw Error(std::move(violations));
}

/// Throws Error for text that is neither a file nor the start of a mnemonic: probably a misspelt file name.
void require_mnemonic_or_file(const std::string& what) {
  const std::string first = what.substr(0, what.find('.'));
  if (first == "wgmma" || first == "mma" || first == "tcgen05") return;
  throw Error({.code = ViolationCode::not_found,
               .field = "file",
               .seen = shortened(what),
               .fix = "pass a vector file, or a mnemonic that begins with wgmma.mma_async, mma.sync or tcgen05"});
}

/// The kernel for a file's instruction, or for a mnemonic with the flags about memory.
Kernel kernel_of(const PtxFlags& flags) {
  std::error_code error;
  if (!std::filesystem::exists(located(flags.what), error)) {
    require_mnemonic_or_file(flags.what);
    const Instruction instruction = require_mnemonic(flags.what, flags.file.target);
    KernelShape shape{.image_bytes = flags.image_bytes, .target = flags.file.target.of(instruction)};
    const FieldRules fields = fields_of(instruction);
    if (std::ranges::find(fields, Field::tmem, &FieldRule::field) != fields.end()) shape.columns = flags.columns;
    return ptx_kernel(instruction, shape);
  }
  const VectorFile vectors = laid_out(flags.file.read(flags.what), {});
  const Case this_case = case_at(vectors, 0);  // the others have the same size
  KernelShape shape = kernel_shape_of(std::span(&this_case.before, 1));
  shape.target = vectors.target;
  return ptx_kernel(this_case.instruction, shape);
}

void run_ptx(Context& context, const PtxFlags& flags) {
  if (!flags.out.empty()) require_text_file_name(flags.out, ".ptx");
  const std::string text = kernel_of(flags).text;
  if (flags.out.empty()) {
    context.out() << text;
    return;
  }
  context.require_flags_acted();
  write_whole(flags.out, [&](std::ostream& stream) { stream << text; });
}

}  // namespace

void add_ptx(Command& app, Context& context) {
  Command* command = app.add_command("ptx", "print the PTX kernel that runs the instruction of a file on a GPU");
  const auto flags = std::make_shared<PtxFlags>();
  command->add_input("what", flags->what, "vector file, or PTX mnemonic")->required();
  command->add_output("-o,--output", flags->out, "file to write; default: print the kernel");
  flags->file.target.add(*command, "the GPU by its PTX name; default: the file's, or the instruction's own");
  command->add_option("--columns", flags->columns, "for tcgen05 mnemonics: columns of Tensor Memory")
      ->capture_default_str();
  between(command->get_option("--columns"), 1, 512);
  command->add_option("--image-bytes", flags->image_bytes, "for mnemonics: bytes of the shared-memory image")
      ->capture_default_str();
  between(command->get_option("--image-bytes"), 0, 231408);
  command->footer(
      "Examples:\n"
      "  bitmma ptx case.safetensors -o case.ptx && ptxas -arch=sm_90a case.ptx\n"
      "  bitmma ptx wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16\n"
      "  bitmma ptx tcgen05.mma.cta_group::2.kind::f16 --image-bytes 65536 --columns 256 --target sm_103a");
  command->callback([flags, &context] { run_ptx(context, *flags); });
}

}  // namespace bitmma::cli
