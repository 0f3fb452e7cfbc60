#include "layout.hpp"

#include <fmt/format.h>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/memory/smem.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct CuteFlags {
  std::string text, descriptor, major = "k";
  TargetFlag target;
  int element_bits = 16, max_lines = 32;
  bool json = false;
  SvgFlag svg;
};

/// Where a layout and a descriptor put different elements.
struct CuteDifference {
  struct Element {
    int row = 0, col = 0;
    int64_t cute_byte = 0, descriptor_byte = 0;
  };
  int64_t elements = 0;
  std::optional<Element> first = {};
};

/// Compares from the descriptor's own start.
CuteDifference difference_of(const CuteLayout& cute, const SmemMatrix& matrix) {
  const SmemMap map(matrix);
  const int64_t start = matrix.descriptor.start_address_bytes;
  CuteDifference found;
  for (int row = 0; row < matrix.rows; ++row) {
    for (int col = 0; col < matrix.cols; ++col) {
      const int64_t by_cute = cute.byte_of(row, col, matrix.element_bits, start), byte = map.place_of(row, col).byte;
      if (by_cute == byte) continue;
      ++found.elements;
      if (!found.first) found.first = CuteDifference::Element{row, col, by_cute, byte};
    }
  }
  return found;
}

/// Whether the descriptor finds every element where the layout says.
void compare_with_descriptor(Context& context, const CuteFlags& flags, const CuteLayout& cute) {
  const Target target = flags.target.of_smem_descriptor();
  const SmemMatrix matrix{.descriptor = decode_smem_descriptor(target, require_word("--descriptor", flags.descriptor)),
                          .major = flags.major == "mn" ? Major::mn : Major::k,
                          .element_bits = flags.element_bits,
                          .rows = static_cast<int>(cute.rows),
                          .cols = static_cast<int>(cute.cols)};
  const CuteDifference difference = difference_of(cute, matrix);
  const std::string means = print_hardware_cute(matrix);
  const int64_t elements = cute.rows * cute.cols;
  context.exit_code = difference.elements == 0 ? exit_same : exit_differs;
  std::ostream& out = context.terminal.out;
  if (flags.json) {
    Json json{{"target", print(target)},
              {"cute", print(cute)},
              {"descriptor_cute", means},
              {"same", difference.elements == 0},
              {"different_elements", difference.elements},
              {"elements", elements}};
    if (const auto& first = difference.first) {
      json["first"] = {{"row", first->row},
                       {"col", first->col},
                       {"cute_byte", first->cute_byte},
                       {"descriptor_byte", first->descriptor_byte}};
    }
    out << json_text(json) << '\n';
    return;
  }
  if (!difference.first) {
    out << colored(context, 32,
                   fmt::format("the descriptor implements this layout: all {}", counted(elements, "element")))
        << '\n';
    return;
  }
  const CuteDifference::Element& first = *difference.first;
  out << colored(context, 31,
                 fmt::format("the descriptor is another layout: {} of {} differ", difference.elements,
                             counted(elements, "element")))
      << '\n'
      << fmt::format("it means {}\nfirst: row {}, col {} is at byte {:#x} in the layout, at {:#x} by the descriptor\n",
                     means, first.row, first.col, first.cute_byte, first.descriptor_byte);
}

void run_cute(Context& context, const CuteFlags& flags) {
  const bool power =
      flags.element_bits >= 4 && flags.element_bits <= 32 && (flags.element_bits & (flags.element_bits - 1)) == 0;
  if (!power) {
    throw Error({.field = "--element-bits", .seen = std::to_string(flags.element_bits), .expected = "4, 8, 16 or 32"});
  }
  const CuteLayout cute = parse_cute(flags.text, flags.element_bits);
  if (!flags.descriptor.empty()) {
    compare_with_descriptor(context, flags, cute);
    return;
  }
  const std::vector<PlacedElement> elements = placed_elements(cute, flags.element_bits);
  if (flags.svg.asked()) {
    Picture picture = picture_of_smem(elements, flags.element_bits, flags.max_lines);
    picture.title = fmt::format("{} x {} elements of {} bits", cute.rows, cute.cols, flags.element_bits);
    picture.notes.insert(picture.notes.begin(), {print(cute), "a line is 128 bytes, 32 banks; r rows, k columns"});
    flags.svg.write(context, picture);
    return;
  }
  if (flags.json) {
    JsonList list(context.terminal.out, {{"cute", print(cute)}, {"rows", cute.rows}, {"cols", cute.cols}}, "elements");
    for (const PlacedElement& e : elements) list.add({{"row", e.row}, {"col", e.col}, {"byte", e.byte}});
    list.end();
    return;
  }
  context.terminal.out << fmt::format(
                              "{}\n{} x {} elements of {} bits; strides in elements, the swizzle on byte addresses\n\n",
                              print(cute), cute.rows, cute.cols, flags.element_bits)
                       << draw_smem(elements, flags.element_bits, flags.max_lines);
}

}  // namespace

void Query::add(CLI::App& command) {
  command.add_flag("--csv", csv, "the whole map as CSV");
  command.add_flag("--json", json, "the answer as JSON");
  command.add_option("--row", row, "row of one element");
  command.add_option("--col", col, "column of one element");
}

bool Query::one_element(int rows, int cols) const {
  if (row.has_value() != col.has_value()) {
    throw Error({.field = row ? "--col" : "--row", .seen = "(missing)", .expected = "both --row and --col"});
  }
  if (row && (*row < 0 || *row >= rows || *col < 0 || *col >= cols)) {
    throw Error({.field = "--row, --col",
                 .seen = fmt::format("{}, {}", *row, *col),
                 .expected = fmt::format("0..{}, 0..{}", rows - 1, cols - 1)});
  }
  return row.has_value();
}

void SvgFlag::write(const Context& context, const Picture& picture) const {
  write_whole(path, [&](std::ostream& stream) { stream << to_svg(picture); });
  context.terminal.err << fmt::format("{}: {}\n", printable(path), picture.title);
}

void add_layout(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("layout", "where the elements of a matrix are");
  command->require_subcommand(0, 1);
  const auto flags = std::make_shared<CuteFlags>();
  command->add_option("--cute", flags->text,
                      "a layout in CuTe's notation, [Swizzle<B,M,S> o] shape:stride, to draw or compare");
  command->add_option("--descriptor", flags->descriptor, "--cute: does this descriptor implement the layout?");
  flags->target.add(*command, "--cute: whose descriptor, by the GPU's PTX name; default sm_90a", true);
  command->add_option("--major", flags->major, "--cute: k, or mn for transposed operands")
      ->check(CLI::IsMember({"k", "mn"}))
      ->capture_default_str();
  command->add_option("--element-bits", flags->element_bits, "--cute: bits of an element")->capture_default_str();
  command->add_option("--max-lines", flags->max_lines, "--cute: lines of the picture")->capture_default_str();
  command->add_flag("--json", flags->json, "--cute: the answer as JSON");
  flags->svg.add(*command);
  command->footer(
      "Examples:\n"
      "  bitmma layout --cute 'Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))'\n"
      "  bitmma layout --cute 'Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))' --descriptor 0x4000004000010000");
  command->callback([flags, command, &context] {
    if (!command->get_subcommands().empty()) return;
    if (flags->text.empty()) {
      throw Error({.field = "layout",
                   .seen = "nothing",
                   .expected = "a subcommand (smem, fragment, tmem, ldst, ldmatrix, scales) or --cute",
                   .fix = "bitmma layout --help shows examples"});
    }
    run_cute(context, *flags);
  });
  add_smem_layout(*command, context);
  add_fragment_layout(*command, context);
  add_tmem_layout(*command, context);
  add_scales_layout(*command, context);
  add_ldst_layout(*command, context);
  add_ldmatrix_layout(*command, context);
}

}  // namespace bitmma::cli
