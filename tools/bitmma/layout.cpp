// SPDX-License-Identifier: MIT
#include "layout.hpp"

#include <fmt/format.h>

#include "arguments.hpp"
#include "bitmma/analysis/describe_layout.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/memory/smem.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct CuteFlags {
  Flag<std::string> text, descriptor, major = "k";
  TargetFlag target;
  Flag<std::optional<int>> element_bits;
  SymbolFlags symbols;
  MapFlags map;
};

/// Compares the layout with the descriptor, element by element.
void compare_with_descriptor(Context& context, const CuteFlags& flags, const CuteLayout& cute) {
  const Target target = flags.target.of_smem_descriptor();
  const SmemMatrix matrix{.descriptor = decode_smem_descriptor(target, require_word("--descriptor", flags.descriptor)),
                          .major = major_named(flags.major),
                          .element_bits = cute.element_bits,
                          .rows = static_cast<int>(cute.rows),
                          .cols = static_cast<int>(cute.cols)};
  const LayoutComparison comparison = compare(cute, matrix);
  context.exit_code = comparison.is_same ? exit_same : exit_differs;
  show(context, comparison.report, flags.map.json);
}

void run_cute(Context& context, const CuteFlags& flags) {
  const CuteLayout cute = require_cute(flags.text, flags.element_bits, flags.symbols);
  if (!flags.descriptor.empty()) return compare_with_descriptor(context, flags, cute);
  flags.map.show(context, shown_layout(cute));
}

}  // namespace

Major major_named(const std::string& name) { return name == "k" ? Major::k : Major::mn; }

void answer_nothing(Context& context, bool json, const std::string& place) {
  if (json) context.out() << "[]\n";
  context.terminal.err << fmt::format("{} holds no element\n", place);
  context.exit_code = exit_differs;
}

void SvgFlag::write(const Context& context, const Picture& picture) const {
  const std::string& name = path;
  const size_t end = name.find_last_of("./");
  if (end != std::string::npos && name[end] == '.' && !name.ends_with(".svg") && !name.ends_with(".SVG"))
    throw Error({.field = "--svg", .seen = name, .expected = "a name that ends in .svg: pictures are always SVG"});
  context.require_flags_acted();
  write_whole(path, [&](std::ostream& stream) { stream << to_svg(picture); });
  context.terminal.err << fmt::format("{}: {}\n", printable(path), picture.title);
}

CuteLayout require_cute(const std::string& text, std::optional<int> element_bits, const SymbolFlags& symbols) {
  const int bits = element_bits.value_or(16);
  if (bits < 1 || bits > 128 || (bits & (bits - 1)) != 0) {
    throw Error({.field = "--element-bits",
                 .seen = std::to_string(bits),
                 .legal = {"1", "2", "4", "8", "16", "32", "64", "128"}});
  }
  CuteLayout cute = parse_cute(text, bits, [&](std::string_view letter) -> std::optional<int64_t> {
    return letter == "m" ? symbols.m : letter == "k" ? symbols.k : letter == "LBO" ? symbols.lbo : symbols.sbo;
  });
  if (element_bits && cute.element_bits != bits) {
    throw Error({.field = "--element-bits",
                 .seen = std::to_string(bits),
                 .expected = fmt::format("{}, which the layout itself defines, or no flag", cute.element_bits)});
  }
  return cute;
}

void add_layout(Command& app, Context& context) {
  Command* command = app.add_command("layout", "show where the elements of a matrix are");
  command->require_subcommand(0, 1);
  const auto flags = std::make_shared<CuteFlags>();
  command->add_option("--cute", flags->text, "draw this layout, in CuTe's notation [Swizzle<B,M,S> o] shape:stride");
  command->add_option("--descriptor", flags->descriptor, "--cute: compare the layout with this descriptor");
  flags->target.add(*command, "--cute: the GPU of the descriptor, by its PTX name; default sm_90a", true);
  command->add_option("--major", flags->major, "--cute: k, or mn for transposed operands")->capture_default_str();
  one_of(command->get_option("--major"), {"k", "mn", "m", "n"});
  command->add_option("--element-bits", flags->element_bits,
                      "--cute: bits of an element, if the text does not contain them; default 16");
  command->add_option("--m", flags->symbols.m, "--cute: value of m in a canonical layout");
  command->add_option("--k", flags->symbols.k, "--cute: ... of k ...");
  command->add_option("--lbo", flags->symbols.lbo, "--cute: value of LBO in a canonical layout, in bytes");
  command->add_option("--sbo", flags->symbols.sbo, "--cute: value of SBO in a canonical layout, in bytes");
  flags->map.ask(*command, {.flag = "--byte", .is_place = true, .axis = "byte"},
                 "--cute: show the elements at this byte");
  flags->map.lines = 32;
  command->add_option("--max-lines", flags->map.lines, "--cute: number of lines of the picture")->capture_default_str();
  flags->map.add_row_and_col(*command);
  flags->map.add_outputs(*command);
  command->footer(
      "Examples:\n"
      "  bitmma layout --cute 'Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))'\n"
      "  bitmma layout --cute 'Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))' --descriptor 0x4000004000010000\n"
      "  bitmma layout --cute 'Sw<3,4,3> o smem_ptr[16b](unset) o ((_8,_8),(_8,_2)):((_64,_512),(_1,_8))' --row 9 "
      "--col 3\n"
      "  bitmma layout --cute 'GMMA::Layout_MN_SW64_Atom<bfloat16_t>'\n"
      "  bitmma layout --cute 'Swizzle<0,4,3> o ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))' --m 2 --k 2 --lbo 256 --sbo 128");
  command->callback([flags, command, &context] {
    if (!command->get_subcommands().empty()) return;
    if (flags->text.empty()) {
      throw Error({.code = ViolationCode::missing_input,
                   .field = "layout",
                   .seen = "nothing",
                   .expected = "a subcommand (descriptor, smem, fragment, tmem, tmem-plan, ldst, ldmatrix, scales, "
                               "metadata, chain, algebra, banks, swizzles) or --cute",
                   .fix = "bitmma layout --help shows examples"});
    }
    run_cute(context, *flags);
  });
  add_descriptor_layout(*command, context);
  add_smem_layout(*command, context);
  add_fragment_layout(*command, context);
  add_tmem_layout(*command, context);
  add_tmem_plan_layout(*command, context);
  add_scales_layout(*command, context);
  add_ldst_layout(*command, context);
  add_ldmatrix_layout(*command, context);
  add_metadata_layout(*command, context);
  add_chain_layout(*command, context);
  add_algebra_layout(*command, context);
  add_banks_layout(*command, context);
  add_swizzles_layout(*command, context);
}

}  // namespace bitmma::cli
