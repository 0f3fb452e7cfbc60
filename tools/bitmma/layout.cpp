#include "layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/memory/layout_descriptor.hpp"
#include "bitmma/memory/smem.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct CuteFlags {
  std::string text, descriptor, major = "k";
  TargetFlag target;
  std::optional<int> element_bits;
  std::optional<int64_t> m, k, lbo, sbo, byte;
  int max_lines = 32;
  Query query;
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

/// True when the descriptor is what each instruction reads the layout with, 32 bytes of K at a time. Strides that do
/// not count there may be any.
bool reads_by_steps(CuteLayout cute, const SmemMatrix& matrix) {
  cute.start_bytes = matrix.descriptor.start_address_bytes;
  if (cute.cols * cute.element_bits <= 256 || matrix.descriptor.leading_dim_absolute) return false;
  const DescriptorAnswer answer = descriptors_of(cute, {.target = matrix.descriptor.target, .major = matrix.major});
  if (!answer.found) return false;
  SmemDescriptor seen = matrix.descriptor;
  const Strides& strides = answer.found->first.strides;
  if (!answer.found->leading_counts) seen.strides.leading_dim_byte_offset = strides.leading_dim_byte_offset;
  if (!answer.found->stride_counts) seen.strides.stride_dim_byte_offset = strides.stride_dim_byte_offset;
  return seen == answer.found->first;
}

/// Whether the descriptor finds every element where the layout says.
void compare_with_descriptor(Context& context, const CuteFlags& flags, const CuteLayout& cute) {
  const Target target = flags.target.of_smem_descriptor();
  const SmemMatrix matrix{.descriptor = decode_smem_descriptor(target, require_word("--descriptor", flags.descriptor)),
                          .major = flags.major != "k" ? Major::mn : Major::k,
                          .element_bits = cute.element_bits,
                          .rows = static_cast<int>(cute.rows),
                          .cols = static_cast<int>(cute.cols)};
  const CuteDifference difference = difference_of(cute, matrix);
  const std::string means = print_hardware_cute(matrix);
  const int64_t elements = cute.rows * cute.cols;
  const bool by_steps = difference.elements != 0 && reads_by_steps(cute, matrix);
  context.exit_code = difference.elements == 0 || by_steps ? exit_same : exit_differs;
  std::ostream& out = context.terminal.out;
  if (flags.query.json) {
    Json json{{"target", print(target)},
              {"cute", print(cute)},
              {"descriptor_cute", means},
              {"same", difference.elements == 0},
              {"same_by_instructions", difference.elements == 0 || by_steps},
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
  if (by_steps) {
    out << colored(context, 32, "the descriptor implements this layout, 32 bytes of K at a time") << '\n'
        << "layout descriptor --cute prints that of every step\n";
    if (const auto shared = shared_bytes_of(cute)) {
      out << fmt::format("the layout lies over itself: row {}, k {} and row {}, k {} share a byte\n", shared->row,
                         shared->col, shared->other_row, shared->other_col);
    }
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

constexpr std::string_view cute_heading = "row,col,byte,bit\n";

/// Where one element is; sub-byte elements have a bit.
SmemPlace cute_place(const CuteLayout& cute, int row, int col) {
  const int64_t bits = offset_of(cute.layout, row, col) * cute.element_bits;
  return {.byte = apply(cute.swizzle, cute.start_bytes + bits / 8), .bit = static_cast<int>(bits % 8)};
}

Json cute_json(const CuteLayout& cute, int row, int col) {
  const SmemPlace place = cute_place(cute, row, col);
  return {{"row", row}, {"col", col}, {"byte", place.byte}, {"bit", place.bit}};
}

void print_places(Context& context, const CuteView& view, const std::vector<std::pair<int, int>>& elements) {
  std::ostream& out = context.terminal.out;
  if (view.query.json) {
    JsonList list(out);
    for (const auto& [row, col] : elements) list.add(cute_json(view.cute, row, col));
    list.end();
    return;
  }
  out << cute_heading;
  for (const auto& [row, col] : elements) {
    const SmemPlace place = cute_place(view.cute, row, col);
    out << fmt::format("{},{},{},{}\n", row, col, place.byte, place.bit);
  }
}

/// The elements that --row and --col, --byte or --csv ask for; nothing where none of them is given.
std::optional<std::vector<std::pair<int, int>>> asked_elements(const CuteView& view) {
  const int rows = static_cast<int>(view.cute.rows), cols = static_cast<int>(view.cute.cols);
  if (view.byte) view.query.refuse_beside("--byte", "a byte holds");
  if (view.query.one_element(rows, cols)) return {{{*view.query.row, *view.query.col}}};
  if (!view.byte && !view.query.csv) return std::nullopt;
  const int64_t bytes = std::max(1, view.cute.element_bits / 8);
  std::vector<std::pair<int, int>> elements;
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      const int64_t first = view.byte ? cute_place(view.cute, row, col).byte : 0;
      if (!view.byte || (*view.byte >= first && *view.byte < first + bytes)) elements.emplace_back(row, col);
    }
  }
  return elements;
}

void run_cute(Context& context, const CuteFlags& flags) {
  const CuteLayout cute = require_cute(
      flags.text, flags.element_bits,
      {.m = flags.m, .k = flags.k, .leading_dim_byte_offset = flags.lbo, .stride_dim_byte_offset = flags.sbo});
  if (!flags.descriptor.empty()) {
    compare_with_descriptor(context, flags, cute);
    return;
  }
  show_cute(context,
            {.cute = cute, .query = flags.query, .byte = flags.byte, .max_lines = flags.max_lines, .svg = flags.svg});
}

}  // namespace

void show_cute(Context& context, const CuteView& view) {
  const CuteLayout& cute = view.cute;
  const auto asked = asked_elements(view);
  if (asked && asked->empty()) return answer_nothing(context, view.query, fmt::format("byte {}", *view.byte));
  if (asked && !view.svg.asked()) return print_places(context, view, *asked);
  const std::vector<PlacedElement> elements = placed_elements(cute, cute.element_bits);
  const std::string stages = cute.stages() == 1
                                 ? ""
                                 : fmt::format("; the first of {} stages, the next {:+} bytes on", cute.stages(),
                                               cute.stage_offset(1) * cute.element_bits / 8);
  if (view.svg.asked()) {
    Picture picture = picture_of_smem(elements, cute.element_bits, view.max_lines);
    picture.title = fmt::format("{}{} x {} elements of {} bits{}", view.title.empty() ? "" : view.title + ", ",
                                cute.rows, cute.cols, cute.element_bits, stages);
    picture.notes.insert(picture.notes.begin(), {print(cute), "a line is 128 bytes, 32 banks; r rows, k columns"});
    if (asked && !view.query.csv) mark_elements(picture, elements, *asked);
    view.svg.write(context, picture);
    return;
  }
  if (view.query.json) {
    JsonList list(context.terminal.out,
                  {{"cute", print(cute)},
                   {"rows", cute.rows},
                   {"cols", cute.cols},
                   {"element_bits", cute.element_bits},
                   {"stages", cute.stages()},
                   {"remarks", cute.remarks}},
                  "elements");
    for (const PlacedElement& e : elements) list.add({{"row", e.row}, {"col", e.col}, {"byte", e.byte}});
    list.end();
    return;
  }
  std::ostream& out = context.terminal.out;
  if (!view.title.empty()) out << view.title << '\n';
  out << print(cute) << '\n'
      << fmt::format("{} x {} elements of {} bits; strides in elements, the swizzle on byte addresses{}\n", cute.rows,
                     cute.cols, cute.element_bits, stages);
  for (const std::string& remark : cute.remarks) out << "read as: " << remark << '\n';
  out << '\n' << draw_smem(elements, cute.element_bits, view.max_lines);
}

void Query::add(CLI::App& command) {
  CLI::Option* const as_csv = command.add_flag("--csv", csv, "the whole map as CSV");
  command.add_flag("--json", json, "the answer as JSON")->excludes(as_csv);
  command.add_option("--row", row, "row of one element");
  command.add_option("--col", col, "column of one element");
}

CuteLayout require_cute(const std::string& text, std::optional<int> element_bits, const CuteSymbols& symbols) {
  const int bits = element_bits.value_or(16);
  if (bits < 1 || bits > 128 || (bits & (bits - 1)) != 0) {
    throw Error({.field = "--element-bits",
                 .seen = std::to_string(bits),
                 .legal = {"1", "2", "4", "8", "16", "32", "64", "128"}});
  }
  CuteLayout cute = parse_cute(text, bits, symbols);
  if (element_bits && cute.element_bits != bits) {
    throw Error({.field = "--element-bits",
                 .seen = std::to_string(bits),
                 .expected = fmt::format("{}, which the layout says itself, or no flag", cute.element_bits)});
  }
  return cute;
}

void answer_nothing(Context& context, const Query& query, const std::string& place) {
  if (query.json) context.terminal.out << "[]\n";
  context.terminal.err << fmt::format("{} holds no element\n", place);
  context.exit_code = exit_differs;
}

void Query::refuse_beside(std::string_view flags, std::string_view reverse) const {
  if (!row && !col) return;
  throw Error({.field = "--row, --col",
               .seen = fmt::format("beside {}", flags),
               .expected = fmt::format("one question: where an element is, or which elements {}", reverse)});
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
      ->check(CLI::IsMember({"k", "mn", "m", "n"}))
      ->capture_default_str();
  command->add_option("--element-bits", flags->element_bits,
                      "--cute: bits of an element, where the text does not say them; default 16");
  command->add_option("--m", flags->m, "--cute: value of the letter m in a canonical layout ...");
  command->add_option("--k", flags->k, "--cute: ... of k ...");
  command->add_option("--lbo", flags->lbo, "--cute: ... of LBO, in bytes ...");
  command->add_option("--sbo", flags->sbo, "--cute: ... and of SBO, in bytes");
  command->add_option("--byte", flags->byte, "--cute: the reverse: which elements does this byte hold?");
  command->add_option("--max-lines", flags->max_lines, "--cute: lines of the picture")->capture_default_str();
  flags->query.add(*command);
  flags->svg.add(*command);
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
      throw Error(
          {.field = "layout",
           .seen = "nothing",
           .expected = "a subcommand (descriptor, smem, fragment, tmem, tmem-plan, ldst, ldmatrix, scales) or --cute",
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
}

}  // namespace bitmma::cli
