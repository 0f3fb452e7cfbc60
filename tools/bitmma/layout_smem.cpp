#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/descriptor/descriptor_meaning.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/memory/smem.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct SmemFlags {
  std::string descriptor, major = "k";
  std::optional<std::string> atom;
  TargetFlag target;
  int element_bits = 16, rows = 8, cols = 16, max_lines = 32;
  std::optional<int64_t> byte;
  Query query;
  SvgFlag svg;
};

SmemMatrix require_matrix(const SmemFlags& flags) {
  std::vector<Violation> violations;
  const bool power =
      flags.element_bits >= 1 && flags.element_bits <= 32 && (flags.element_bits & (flags.element_bits - 1)) == 0;
  if (!power) {
    violations.push_back({.field = "--element-bits",
                          .seen = std::to_string(flags.element_bits),
                          .legal = {"1", "2", "4", "8", "16", "32"}});
  }
  for (const auto& [name, value] : {std::pair("--rows", flags.rows), std::pair("--cols", flags.cols)}) {
    if (value >= 1 && value <= 4096) continue;
    violations.push_back({.field = name, .seen = std::to_string(value), .expected = "1..4096"});
  }
  if (flags.descriptor.empty()) {
    violations.push_back(
        {.field = "--descriptor", .seen = "(missing)", .expected = "a 64-bit descriptor, or --atom MODE"});
  } else if (!parse_word(flags.descriptor)) {
    violations.push_back(
        {.field = "--descriptor", .seen = flags.descriptor, .expected = "a 64-bit number such as 0x4000004000010000"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return {.descriptor = decode_smem_descriptor(flags.target.of_smem_descriptor(), *parse_word(flags.descriptor)),
          .major = flags.major != "k" ? Major::mn : Major::k,
          .element_bits = flags.element_bits,
          .rows = flags.rows,
          .cols = flags.cols};
}

Json smem_json(const SmemMap& map, int row, int col) {
  const SmemPlace place = map.place_of(row, col);
  return {{"row", row}, {"col", col}, {"byte", place.byte}, {"bit", place.bit}};
}

constexpr std::string_view smem_heading = "row,col,byte,bit\n";

std::string smem_line(const SmemMap& map, int row, int col) {
  const SmemPlace place = map.place_of(row, col);
  return fmt::format("{},{},{},{}\n", row, col, place.byte, place.bit);
}

/// A byte, and of how many elements: a wider matrix may have one there.
std::string place_of_byte(const SmemFlags& flags) {
  return fmt::format("byte {} of {} x {} elements (--rows, --cols)", *flags.byte, flags.rows, flags.cols);
}

/// Lines of the picture that show the elements: as many as are asked for, or more, while it stays a picture.
int lines_for(const SmemFlags& flags, const SmemMap& map, std::span<const PlacedElement> elements,
              const std::vector<std::pair<int, int>>& asked) {
  constexpr int64_t most = 256;
  int64_t needed = flags.max_lines;
  for (const auto& [row, col] : asked) {
    const std::optional<int64_t> line = line_of(elements, map.place_of(row, col).byte);
    if (line && *line < most) needed = std::max(needed, *line + 1);
  }
  return static_cast<int>(needed);
}

/// The reverse: which elements does a byte hold?
void answer_byte(Context& context, const SmemFlags& flags, const SmemMap& map) {
  const auto elements = map.elements_at(*flags.byte);
  if (elements.empty()) return answer_nothing(context, flags.query, place_of_byte(flags));
  std::ostream& out = context.terminal.out;
  if (flags.query.json) {
    JsonList list(out);
    for (const auto& [row, col] : elements) list.add(smem_json(map, row, col));
    list.end();
    return;
  }
  out << smem_heading;
  for (const auto& [row, col] : elements) out << smem_line(map, row, col);
}

void write_svg(Context& context, const SmemFlags& flags, const SmemMap& map) {
  std::vector<std::pair<int, int>> asked;
  if (flags.byte) asked = map.elements_at(*flags.byte);
  if (flags.query.row) asked.emplace_back(*flags.query.row, *flags.query.col);
  const std::vector<PlacedElement> elements = asked.empty() ? std::vector<PlacedElement>{} : placed_elements(map);
  Picture picture = picture_of_smem(map, lines_for(flags, map, elements, asked));
  if (!asked.empty()) mark_elements(picture, elements, asked);
  else if (flags.byte) return answer_nothing(context, {}, place_of_byte(flags));
  flags.svg.write(context, picture);
}

/// The swizzle atom of a mode, without a descriptor.
void show_atom(Context& context, const SmemFlags& flags) {
  const std::optional<Swizzle> mode = swizzle_named(*flags.atom);
  std::vector<Violation> violations;
  if (!mode) violations.push_back({.field = "--atom", .seen = *flags.atom, .legal = row_names(swizzles)});
  if (!flags.descriptor.empty())
    violations.push_back({.field = "--atom", .seen = "beside --descriptor", .expected = "one of them"});
  if (const auto target = flags.target.asked(); target && mode == Swizzle::b128_atom32) {
    if (info(flags.target.of_smem_descriptor()).smem_descriptor == SmemDescriptorVersion::sm_90)
      violations.push_back({.field = "--atom",
                            .seen = *flags.atom,
                            .expected = fmt::format("none, 32, 64 or 128 on {}", print(*target)),
                            .fix = "128-byte swizzling with 32-byte atoms is Blackwell's"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const Major major = flags.major != "k" ? Major::mn : Major::k;
  const SwizzleInfo& swizzle = info(*mode);
  const CuteLayout atom =
      naming_flag("element bits", "--element-bits", [&] { return cute_atom(major, *mode, flags.element_bits); });
  const int units = swizzle.width_bytes / 16;
  show_cute(context, {.cute = atom,
                      .title = fmt::format("{}, {}: atom of {} x {} units of 128 bits", cute_atom_name(major, *mode),
                                           print(major), major == Major::k ? 8 : units,
                                           major == Major::k ? units : swizzle.rows_per_atom),
                      .query = flags.query,
                      .byte = flags.byte,
                      .max_lines = flags.max_lines,
                      .svg = flags.svg});
}

void draw(Context& context, const SmemFlags& flags, const SmemMap& map) {
  const SmemMatrix& matrix = map.matrix();
  const std::string picture = draw_smem(placed_elements(map), flags.element_bits, flags.max_lines);
  std::ostream& out = context.terminal.out;
  out << fmt::format("{}, {} x {} elements of {} bits\n", print(matrix.major), flags.rows, flags.cols,
                     flags.element_bits)
      << fmt::format("{}   (in elements, from byte {:#x}; the swizzle acts on the byte address)\n", print_cute(matrix),
                     matrix.descriptor.start_address_bytes);
  const int row_bytes = matrix.cols * matrix.element_bits / 8;
  if (print_cute(matrix) != print_hardware_cute(matrix)) {
    out << fmt::format("{}   (K goes on at LBO; the maps follow it)\n", print_hardware_cute(matrix))
        << wide_row_evidence(matrix) << '\n';
  }
  out << '\n' << picture;
  print_warnings(context, as_warnings(warnings(matrix.descriptor, matrix.major, row_bytes)));
}

void run_smem(Context& context, const SmemFlags& flags) {
  if (flags.byte) flags.query.refuse_beside("--byte", "a byte holds");
  if (flags.atom) return show_atom(context, flags);
  const SmemMap map(require_matrix(flags));
  const SmemMatrix& matrix = map.matrix();
  std::ostream& out = context.terminal.out;
  const bool asks_element = flags.query.one_element(flags.rows, flags.cols);
  if (flags.svg.asked()) return write_svg(context, flags, map);
  if (flags.byte) return answer_byte(context, flags, map);
  if (asks_element) {
    const int row = *flags.query.row, col = *flags.query.col;
    if (flags.query.json) out << json_text(smem_json(map, row, col)) << '\n';
    else out << smem_heading << smem_line(map, row, col);
    return;
  }
  if (flags.query.csv) {
    out << smem_heading;
    for (int row = 0; row < flags.rows; ++row) {
      for (int col = 0; col < flags.cols; ++col) out << smem_line(map, row, col);
    }
    return;
  }
  if (!flags.query.json) {
    draw(context, flags, map);
    return;
  }
  JsonList elements(out,
                    {{"target", print(matrix.descriptor.target)},
                     {"cute", print_cute(matrix)},
                     {"hardware_cute", print_hardware_cute(matrix)},
                     {"wide_row_evidence", wide_row_evidence(matrix)},
                     {"start_address", matrix.descriptor.start_address_bytes}},
                    "elements");
  for (int row = 0; row < flags.rows; ++row) {
    for (int col = 0; col < flags.cols; ++col) elements.add(smem_json(map, row, col));
  }
  elements.end();
}

}  // namespace

void add_smem_layout(CLI::App& layout, Context& context) {
  const auto flags = std::make_shared<SmemFlags>();
  CLI::App* smem = layout.add_subcommand("smem", "shared memory, by descriptor");
  smem->add_option("--descriptor", flags->descriptor, "64-bit matrix descriptor");
  smem->add_option("--atom", flags->atom,
                   "or the swizzle atom of a mode: none, 32, 64, 128 or 128-atom32; --element-bits up to 128");
  flags->target.add(*smem, "the GPU by its PTX name; default sm_90a", true);
  smem->add_option("--major", flags->major, "k, or mn (also m, n) for transposed operands")
      ->check(CLI::IsMember({"k", "mn", "m", "n"}))
      ->capture_default_str();
  smem->add_option("--element-bits", flags->element_bits, "bits of an element in memory")->capture_default_str();
  smem->add_option("--rows", flags->rows, "extent along M or N")->capture_default_str();
  smem->add_option("--cols", flags->cols, "extent along K")->capture_default_str();
  smem->add_option("--byte", flags->byte, "the reverse: which elements does this byte hold?");
  smem->add_option("--max-lines", flags->max_lines, "lines of the picture")->capture_default_str();
  flags->query.add(*smem);
  flags->svg.add(*smem);
  smem->footer(
      "Examples:\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --cols 16\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --row 9 --col 8\n"
      "  bitmma layout smem --descriptor 0x4000004000010000 --rows 64 --cols 64 --byte 1184\n"
      "  bitmma layout smem --atom 128 --major mn --element-bits 128");
  smem->callback([flags, &context] { run_smem(context, *flags); });
}

}  // namespace bitmma::cli
