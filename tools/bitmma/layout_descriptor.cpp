// SPDX-License-Identifier: MIT
#include "bitmma/memory/layout_descriptor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "arguments.hpp"
#include "bitmma/analysis/describe_layout.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct TileFlags {
  Flag<std::string> cute, type;
  Flag<std::optional<std::string>> major, swizzle;
  TargetFlag target;
  Flag<std::optional<int>> element_bits;
  Flag<std::optional<int64_t>> rows, cols, stages, start;
  SymbolFlags symbols;
  Flag<std::optional<int64_t>> instruction_rows, instruction_k;
  Flag<int> max_lines = 32;
  Flag<bool> json = false;
};

/// --type, --element-bits: the bits of an element in memory.
int element_bits_of(const TileFlags& flags) {
  const int type_bits =
      flags.type.empty()
          ? 16
          : static_cast<int>(std::bit_ceil(static_cast<unsigned>(info(require_format("--type", flags.type)).bits)));
  const int bits = flags.element_bits.value_or(type_bits);
  const bool has_wide_container = type_bits < 8 && bits == 8;  // for kind::f8f6f4
  if (!flags.type.empty() && bits != type_bits && !has_wide_container) {
    throw Error(
        {.code = ViolationCode::contradiction,
         .field = "--type, --element-bits",
         .seen = fmt::format("{}, {}", flags.type.get(), bits),
         .expected = fmt::format("{}, the bits of {}, or only one of the two flags", type_bits, flags.type.get())});
  }
  return bits;
}

/// The layout of a tile given by type, major-ness and swizzle.
CuteLayout described_layout(const TileFlags& flags) {
  std::vector<std::string> missing;
  if (!flags.swizzle) missing.emplace_back("--swizzle");
  if (!flags.rows) missing.emplace_back("--rows");
  if (!flags.cols) missing.emplace_back("--cols");
  if (flags.type.empty() && !flags.element_bits) missing.emplace_back("--type or --element-bits");
  if (!missing.empty()) {
    throw Error({.code = ViolationCode::missing_argument,
                 .field = fmt::format("{}", fmt::join(missing, ", ")),
                 .seen = "missing",
                 .expected = "--cute, or all of --swizzle, --rows, --cols and --type or --element-bits",
                 .fix = "bitmma layout descriptor --help shows examples"});
  }
  const int bits = element_bits_of(flags);
  const std::optional<Swizzle> swizzle = swizzle_named(*flags.swizzle);
  if (!swizzle) throw Error({.field = "--swizzle", .seen = *flags.swizzle, .legal = row_names(swizzles)});
  return tile_layout({.swizzle = *swizzle,
                      .major = major_named(flags.major.value_or("k")),
                      .element_bits = bits,
                      .rows = *flags.rows,
                      .cols = *flags.cols,
                      .stages = flags.stages.value_or(1),
                      .lbo = flags.symbols.lbo,
                      .sbo = flags.symbols.sbo});
}

void run_descriptor(Context& context, const TileFlags& flags) {
  const Target target = flags.target.of_smem_descriptor();
  for (const auto& [name, flag] :
       {std::pair("--instruction-rows", &flags.instruction_rows), std::pair("--instruction-k", &flags.instruction_k)}) {
    if (flag->value_or(1) < 1) throw Error({.field = name, .seen = std::to_string(**flag), .expected = "1 or more"});
  }
  if (flags.start && (*flags.start < 0 || *flags.start > 0x3FFFF))
    throw Error({.field = "--start", .seen = std::to_string(*flags.start), .expected = "0..262143"});
  CuteLayout cute =
      flags.cute.empty() ? described_layout(flags) : require_cute(flags.cute, flags.element_bits, flags.symbols);
  if (!flags.cute.empty() && (flags.swizzle || flags.rows || flags.cols || flags.stages || !flags.type.empty())) {
    throw Error({.code = ViolationCode::not_together,
                 .field = "--cute",
                 .seen = "--type, --swizzle, --rows, --cols or --stages",
                 .expected = "only one of the two descriptions"});
  }
  if (flags.start) cute.start_bytes = *flags.start;
  const DescriptorRequest request{.target = target,
                                  .major = flags.major ? std::optional(major_named(*flags.major)) : std::nullopt,
                                  .instruction_rows = flags.instruction_rows.value_or(0),
                                  .instruction_cols = flags.instruction_k.value_or(0)};
  DescriptorAnswer answer = descriptors_of(cute, request);
  if (answer.descriptors) std::ranges::move(warnings_of_extents(cute, request), std::back_inserter(answer.warnings));
  context.exit_code = answer.descriptors ? exit_same : exit_differs;
  const bool has_table = answer.descriptors && !flags.json;
  show(context, describe(cute, target, answer, has_table ? *flags.max_lines : 0), flags.json);
  if (!flags.json) print_warnings(context, answer.warnings);
}

}  // namespace

void add_descriptor_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<TileFlags>();
  Command* command = layout.add_command(
      "descriptor",
      "make the descriptors of a layout: LBO, SBO, and a descriptor for every step along K and every stage");
  command->add_option("--cute", flags->cute, "the layout in CuTe's notation, or the name of an atom");
  command->add_option("--type", flags->type, "instead of --cute: type of an element, such as e4m3");
  command->add_option("--major", flags->major,
                      "k, or mn for transposed operands; with --cute only if the layout does not show it");
  one_of(command->get_option("--major"), {"k", "mn", "m", "n"});
  command->add_option("--swizzle", flags->swizzle, "instead of --cute: none, 32, 64, 128 or 128-atom32");
  command->add_option("--rows", flags->rows, "instead of --cute: extent along M or N");
  command->add_option("--cols", flags->cols, "... extent along K ...");
  command->add_option("--stages", flags->stages, "instead of --cute: number of such tiles, one after the other");
  command->add_option("--lbo", flags->symbols.lbo, "LBO in bytes; default: LBO of a dense tile");
  command->add_option("--sbo", flags->symbols.sbo, "SBO in bytes; default: SBO of a dense tile");
  command->add_option("--m", flags->symbols.m,
                      "--cute: value of m in a canonical layout; those of LBO and SBO are --lbo and --sbo");
  command->add_option("--k", flags->symbols.k, "--cute: value of k in a canonical layout");
  command->add_option("--element-bits", flags->element_bits, "bits of an element in memory; default 16");
  command->add_option("--start", flags->start, "byte of shared memory at which the layout begins");
  flags->target.add(*command, "the GPU by its PTX name; default sm_90a", true);
  command->add_option("--instruction-rows", flags->instruction_rows, "M or N of one instruction; default: all rows");
  command->add_option("--instruction-k", flags->instruction_k,
                      "K of one instruction; default: 32 bytes, as for a dense operand");
  command->add_option("--max-lines", flags->max_lines, "number of lines of the table")->capture_default_str();
  command->add_flag("--json", flags->json, "the answer as JSON");
  command->footer(
      "Exit code 1 if no descriptor has this layout; the output names the mode that does not fit.\n"
      "Examples:\n"
      "  bitmma layout descriptor --cute 'Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))'\n"
      "  bitmma layout descriptor --cute 'tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<_128,_64,_3>{})' "
      "--instruction-rows 64\n"
      "  bitmma layout descriptor --cute 'Swizzle<0,4,3> o ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))' --m 2 --k 2 --lbo "
      "256 --sbo 128\n"
      "  bitmma layout descriptor --type e4m3 --swizzle 64 --rows 128 --cols 128 --stages 2 --target sm_100a");
  command->callback([flags, &context] { naming_flags(context, [&] { run_descriptor(context, *flags); }); });
}

}  // namespace bitmma::cli
