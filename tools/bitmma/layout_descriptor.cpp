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

/// The layout of a tile given by type, major-ness and swizzle: atoms side by side, rows first, or at the given
/// strides.
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
  const Major major = flags.major.value_or("k") != "k" ? Major::mn : Major::k;
  const std::optional<Swizzle> mode = swizzle_named(*flags.swizzle);
  std::vector<Violation> violations;
  if (!mode) violations.push_back({.field = "--swizzle", .seen = *flags.swizzle, .legal = row_names(swizzles)});
  if (bits < 1 || bits > 128 || !std::has_single_bit(static_cast<unsigned>(bits)))
    violations.push_back({.field = "--element-bits",
                          .seen = std::to_string(bits),
                          .legal = {"1", "2", "4", "8", "16", "32", "64", "128"}});
  for (const auto& [name, value, most] :
       {std::tuple("--rows", *flags.rows, int64_t{65536}), std::tuple("--cols", *flags.cols, int64_t{65536}),
        std::tuple("--stages", flags.stages.value_or(1), int64_t{1024}),
        std::tuple("--lbo", flags.symbols.lbo.value_or(1), int64_t{0x3FFFF}),
        std::tuple("--sbo", flags.symbols.sbo.value_or(1), int64_t{0x3FFFF})}) {
    if (value >= 1 && value <= most) continue;
    violations.push_back({.field = name, .seen = std::to_string(value), .expected = fmt::format("1..{}", most)});
  }
  if (violations.empty() && *flags.rows > (1 << 20) / *flags.cols)
    violations.push_back({.field = "--rows, --cols",
                          .seen = fmt::format("{} x {}", *flags.rows, *flags.cols),
                          .expected = "at most 1048576 elements"});
  if (!violations.empty()) throw Error(std::move(violations));
  const int rows = static_cast<int>(*flags.rows), cols = static_cast<int>(*flags.cols);
  Strides strides = minimal_strides(major, info(*mode), bits, rows, cols);
  strides.leading_dim_byte_offset = flags.symbols.lbo.value_or(strides.leading_dim_byte_offset);
  strides.stride_dim_byte_offset = flags.symbols.sbo.value_or(strides.stride_dim_byte_offset);
  for (const auto& [name, bytes] :
       {std::pair("--lbo", strides.leading_dim_byte_offset), std::pair("--sbo", strides.stride_dim_byte_offset)}) {
    if (bytes * 8 % bits != 0)
      throw Error(
          {.field = name, .seen = std::to_string(bytes), .expected = fmt::format("whole elements of {} bits", bits)});
  }
  const auto layout_with = [&](const Strides& some) {
    return hardware_layout(major, info(*mode), some, bits, rows, cols);
  };
  for (const auto& [name, flag, stride] : {std::tuple("--lbo", &flags.symbols.lbo, &Strides::leading_dim_byte_offset),
                                           std::tuple("--sbo", &flags.symbols.sbo, &Strides::stride_dim_byte_offset)}) {
    if (!*flag) continue;
    Strides other = strides;
    other.*stride += 16 * bits;
    if (layout_with(other) == layout_with(strides)) {
      throw Error({.code = ViolationCode::unread_argument,
                   .field = fmt::format("{} {}", name, **flag),
                   .seen = "has no effect here: no element of this tile is a stride away; omit it"});
    }
  }
  CuteLayout cute{
      .swizzle = info(*mode), .layout = layout_with(strides), .rows = rows, .cols = cols, .element_bits = bits};
  if (flags.stages.value_or(1) > 1) {
    const int64_t last = offset_of(cute.layout, rows - 1, cols - 1) * bits / 8;
    const int64_t pattern = cute.swizzle.pattern_bytes();
    const int64_t bytes = (last / pattern + 1) * pattern;
    cute.more = {{{.extent = *flags.stages, .stride = bytes * 8 / bits}}};
  }
  return cute;
}

/// Warns of extents that no instruction reads at once: M and N are multiples of 8, K is 32 bytes; wider instructions
/// are rare.
std::vector<Violation> extents_of_no_instruction(const TileFlags& flags, const CuteLayout& cute) {
  std::vector<Violation> found;
  const int64_t rows = flags.instruction_rows.value_or(cute.rows);
  if (rows % 8 != 0 || flags.instruction_rows.value_or(0) > 256) {
    found.push_back({.field = "rows of an instruction",
                     .seen = std::to_string(rows),
                     .expected = "a multiple of 8, at most 256: M or N",
                     .fix = "set it with --instruction-rows"});
  }
  const int64_t instruction_k = flags.instruction_k.value_or(0), bits = instruction_k * cute.element_bits;
  const bool is_k_96 = bits == 384 && cute.element_bits == 4;
  if (instruction_k > 0 && bits != 256 && !is_k_96) {
    found.push_back(
        {.field = "K of an instruction",
         .seen = std::to_string(instruction_k),
         .expected = bits == 512 ? fmt::format("{} if the operand is not B of a sparse instruction", instruction_k / 2)
                                 : fmt::format("{}, or {} for B of a sparse instruction", 256 / cute.element_bits,
                                               512 / cute.element_bits)});
  }
  return found;
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
  DescriptorAnswer answer = descriptors_of(
      cute, {.target = target,
             .major = flags.major ? std::optional(*flags.major != "k" ? Major::mn : Major::k) : std::nullopt,
             .instruction_rows = flags.instruction_rows.value_or(0),
             .instruction_cols = flags.instruction_k.value_or(0)});
  if (answer.found) {
    const std::vector<Violation> unusual = as_warnings(extents_of_no_instruction(flags, cute));
    answer.warnings.insert(answer.warnings.end(), unusual.begin(), unusual.end());
  }
  context.exit_code = answer.found ? exit_same : exit_differs;
  const bool has_table = answer.found && !flags.json;
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
  command->callback([flags, &context] { run_descriptor(context, *flags); });
}

}  // namespace bitmma::cli
