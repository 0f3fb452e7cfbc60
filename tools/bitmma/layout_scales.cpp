#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/tmem.hpp"
#include "json_list.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct ScalesFlags {
  std::string operand = "a", pack, unpack, out;
  int64_t rows = 128, blocks = 4;
  int m = 128, cta_group = 1, id = 0;
  uint32_t address = 0;
  std::optional<int64_t> row, block, byte;
  bool csv = false, json = false, image = false;
  SvgFlag svg;

  bool is_b() const { return operand == "b"; }
};

/// One scale in one of its copies.
struct ScaleEntry {
  int64_t row, block;
  int replica;
  TmemPlace place;
};

void convert_scales(Context& context, const ScalesFlags& flags, const ScaleImage& image) {
  if (flags.out.empty()) throw Error({.field = "-o", .seen = "(missing)", .expected = "the file to write"});
  if (!flags.pack.empty() && !flags.unpack.empty()) {
    throw Error({.field = "--pack, --unpack", .seen = "both", .expected = "one of them"});
  }
  const std::string file = read_whole(flags.pack.empty() ? flags.unpack : flags.pack);
  const std::span input(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  const std::vector<uint8_t> bytes = flags.pack.empty() ? unpack_scales(image, input) : pack_scales(image, input);
  write_whole(flags.out, [&](std::ostream& stream) {
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  context.terminal.err << fmt::format("{}: {} bytes, {} rows x {} blocks {}\n", printable(flags.out), bytes.size(),
                                      image.rows, image.blocks,
                                      flags.pack.empty() ? "row-major" : "in tiles of 128 x 4");
}

/// Where they stand in Tensor Memory, by the form of the instruction that reads them.
TmemScales require_scales(const ScalesFlags& flags) {
  std::vector<Violation> violations;
  if (flags.rows < 1 || flags.rows > 256) {
    violations.push_back({.field = "--rows",
                          .seen = std::to_string(flags.rows),
                          .expected = "1..256: what one instruction reads; more with --pack"});
  }
  if (flags.blocks < 1 || flags.blocks > 8) {
    violations.push_back(
        {.field = "--blocks", .seen = std::to_string(flags.blocks), .expected = "1..8; more with --pack"});
  }
  if (flags.id < 0 || flags.id > 3) {
    violations.push_back({.field = "--id", .seen = std::to_string(flags.id), .expected = "0..3"});
  }
  if (flags.row.has_value() != flags.block.has_value()) {
    violations.push_back({.field = "--row, --block", .seen = "one", .expected = "both or none"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const TmemLayoutInfo& layout = find_tmem_layout(flags.m, flags.cta_group, false, false);
  const auto rows = static_cast<int>(flags.rows);
  const TmemScales scales =
      flags.is_b() ? scales_of_b(layout, rows, flags.address, flags.id) : scales_of_a(layout, flags.address, flags.id);
  if (scales.parts == 2 && rows % 2 != 0) {
    throw Error({.field = "--rows",
                 .seen = std::to_string(rows),
                 .expected = "an even number: the halves of N are in different lanes"});
  }
  require_fits(scales, rows, static_cast<int>(flags.blocks), flags.is_b() ? "scale_B" : "scale_A");
  return scales;
}

std::vector<ScaleEntry> scale_entries(const ScalesFlags& flags, const TmemScales& scales) {
  std::vector<ScaleEntry> entries;
  for (int64_t row = 0; row < flags.rows; ++row) {
    for (int64_t block = 0; block < flags.blocks; ++block) {
      if (flags.row && (row != *flags.row || block != *flags.block)) continue;
      for (int replica = 0; replica < scales.replicas(); ++replica) {
        entries.push_back(
            {row, block, replica, scales.place_of(static_cast<int>(row), static_cast<int>(block), replica)});
      }
    }
  }
  return entries;
}

void print_image_json(Context& context, const ScaleImage& image, std::span<const ScaleEntry> entries) {
  JsonList list(context.terminal.out);
  for (const ScaleEntry& e : entries) {
    list.add({{"row", e.row},
              {"block", e.block},
              {"tile", image.tile_of(e.row, e.block)},
              {"image_byte", image.offset_of(e.row, e.block)},
              {"replica", e.replica},
              {"lane", e.place.lane},
              {"column", e.place.column},
              {"byte", e.place.bit / 8}});
  }
  list.end();
}

void print_csv(Context& context, const ScaleImage& image, std::span<const ScaleEntry> entries) {
  context.terminal.out << "row,block,row_major_byte,tile,image_byte,replica,lane,column,byte\n";
  for (const ScaleEntry& e : entries) {
    context.terminal.out << fmt::format("{},{},{},{},{},{},{},{},{}\n", e.row, e.block, e.row * image.blocks + e.block,
                                        image.tile_of(e.row, e.block), image.offset_of(e.row, e.block), e.replica,
                                        e.place.lane, e.place.column, e.place.bit / 8);
  }
}

/// What the four bytes of a cell hold, by band of 32 lanes and column: "row 0..31 block 2".
using ScaleCells = std::map<std::pair<int, int>, std::array<std::string, 4>>;

ScaleCells cells_of(const ScalesFlags& flags, const TmemScales& scales, std::span<const ScaleEntry> entries) {
  ScaleCells cells;
  for (const ScaleEntry& e : entries) {
    std::string& cell = cells[{e.place.lane / 32, e.place.column}][static_cast<size_t>(e.place.bit / 8)];
    if (!cell.empty()) continue;
    const int64_t band = e.row / 32 * 32;
    const int64_t first =
        scales.parts == 2 && e.row >= scales.rows_per_part ? std::max<int64_t>(band, scales.rows_per_part) : band;
    cell = fmt::format("row {}..{} block {}", first, std::min<int64_t>(band + 31, flags.rows - 1), e.block);
  }
  return cells;
}

void write_svg(const Context& context, const ScalesFlags& flags, const std::string& title,
               const std::string& image_rule, const TmemScales& scales, const ScaleCells& cells) {
  Picture picture{
      .title = title,
      .notes = {fmt::format("image in shared memory: {}", image_rule),
                "CuTe of a tile, (row, block) -> byte: ((32,4),4):((16,4),1)",
                "Tensor Memory by lanes and columns, as the scale factor layouts of the PTX ISA (9.7.16.10.7)"},
      .corner = "lanes, column"};
  for (int byte = 0; byte < 4; ++byte) picture.column_heads.push_back(fmt::format("byte {}", byte));
  for (const auto& [where, bytes] : cells) {
    std::vector<PictureCell> row;
    for (const std::string& text : bytes) {
      row.push_back({.text = text, .color = text.empty() ? -1 : std::stoi(text.substr(4)) / 32 % picture_colors});
    }
    for (int replica = 0; flags.row && replica < scales.replicas(); ++replica) {
      const TmemPlace place = scales.place_of(static_cast<int>(*flags.row), static_cast<int>(*flags.block), replica);
      if (std::pair(place.lane / 32, place.column) == where) row[static_cast<size_t>(place.bit / 8)].is_marked = true;
    }
    picture.rows.emplace_back(fmt::format("{}-{}, {}", 32 * where.first, 32 * where.first + 31, where.second),
                              std::move(row));
  }
  for (int block = 0; block * 32 < flags.rows; ++block) {
    picture.legend.emplace_back(
        block, fmt::format("rows {}-{}", 32 * block, std::min<int64_t>(32 * block + 31, flags.rows - 1)));
  }
  flags.svg.write(context, picture);
}

/// The image in shared memory: a line for every 16 bytes, four scales of a row in each word.
void draw_image(Context& context, const ScalesFlags& flags, const ScaleImage& image) {
  if (flags.rows < 1 || flags.blocks < 1 || flags.rows > 1 << 20 || flags.blocks > 1 << 20)
    throw Error({.field = "--rows, --blocks",
                 .seen = fmt::format("{}, {}", flags.rows, flags.blocks),
                 .expected = "1..1048576 each"});
  if (flags.svg.asked()) {
    Picture picture = picture_of_scale_image(image);
    if (flags.row && *flags.row < 128 && *flags.block < 4) {
      const auto byte = static_cast<size_t>(image.offset_of(*flags.row, *flags.block));
      picture.rows[byte / 16].second[byte % 16].is_marked = true;
    }
    if (flags.byte && *flags.byte < 512)
      picture.rows[static_cast<size_t>(*flags.byte / 16)].second[static_cast<size_t>(*flags.byte % 16)].is_marked =
          true;
    return flags.svg.write(context, picture);
  }
  std::vector<std::vector<std::string>> table{{"byte", "+0", "+4", "+8", "+12"}};
  for (int line = 0; line < 32; ++line) {
    table.push_back({fmt::format("{:#x}", 16 * line)});
    for (int row = line; row < 128; row += 32) {
      table.back().push_back(row < image.rows ? fmt::format("R{} b0-{}", row, std::min<int64_t>(image.blocks, 4) - 1)
                                              : "0");
    }
  }
  context.terminal.out << fmt::format("{} x {} scales: {} bytes, tiles of 512 for 128 rows x 4 blocks; the first:\n\n",
                                      image.rows, image.blocks, image.bytes())
                       << print_table(table);
}

/// The scale at a byte of the image.
void answer_image_byte(Context& context, const ScalesFlags& flags, const ScaleImage& image) {
  if (flags.rows < 1 || flags.blocks < 1 || flags.rows > 1 << 20 || flags.blocks > 1 << 20 || *flags.byte < 0)
    throw Error({.field = "--rows, --blocks, --byte",
                 .seen = fmt::format("{}, {}, {}", flags.rows, flags.blocks, *flags.byte),
                 .expected = "1..1048576 each, and 0 or more"});
  const int64_t tile = *flags.byte / 512, inside = *flags.byte % 512;
  const int64_t row = tile / image.block_tiles() * 128 + inside / 16 + 32 * (inside % 16 / 4);
  const int64_t block = tile % image.block_tiles() * 4 + inside % 4;
  if (row >= image.rows || block >= image.blocks)
    return answer_nothing(context, {.json = flags.json}, fmt::format("byte {} of the image", *flags.byte));
  std::ostream& out = context.terminal.out;
  if (flags.json)
    out << json_text(Json::array({{{"row", row}, {"block", block}, {"tile", tile}, {"image_byte", *flags.byte}}}))
        << '\n';
  else out << fmt::format("row,block,tile,image_byte\n{},{},{},{}\n", row, block, tile, *flags.byte);
}

void run_scales(Context& context, const ScalesFlags& flags) {
  const ScaleImage image{flags.rows, flags.blocks};
  if (!flags.pack.empty() || !flags.unpack.empty()) return convert_scales(context, flags, image);
  if (flags.row.has_value() != flags.block.has_value())
    throw Error({.field = "--row, --block", .seen = "one", .expected = "both or none"});
  if (flags.row && (*flags.row < 0 || *flags.row >= flags.rows || *flags.block < 0 || *flags.block >= flags.blocks))
    return answer_nothing(context, {.json = flags.json}, fmt::format("row {}, block {}", *flags.row, *flags.block));
  if (flags.byte && !flags.svg.asked()) return answer_image_byte(context, flags, image);
  if (flags.image || flags.byte) return draw_image(context, flags, image);
  const TmemScales scales = require_scales(flags);
  std::vector<ScaleEntry> entries = scale_entries(flags, scales);
  if (flags.svg.asked()) {
    ScalesFlags all = flags;
    all.row = std::nullopt;
    entries = scale_entries(all, scales);
  } else if (flags.json) return print_image_json(context, image, entries);
  if (!flags.svg.asked() && (flags.csv || flags.row)) return print_csv(context, image, entries);
  const ScaleCells cells = cells_of(flags, scales, entries);
  const std::string title = fmt::format("scales of {}: {} rows x {} blocks along K, one byte each",
                                        flags.is_b() ? "B" : "A", flags.rows, flags.blocks);
  const std::string image_rule = fmt::format(
      "{} bytes: tiles of 128 rows x 4 blocks; 512 * tile + 16 * (row % 32) + 4 * (row / 32 % 4) + block % 4",
      image.bytes());
  if (flags.svg.asked()) return write_svg(context, flags, title, image_rule, scales, cells);
  std::ostream& out = context.terminal.out;
  out << title << "\n\n"
      << "1  row-major                     byte row * blocks + block\n"
      << fmt::format(
             "2  image in shared memory        {}\n                                 CuTe of a tile: "
             "((32,4),4):((16,4),1)\n",
             image_rule)
      << (scales.parts == 1
              ? fmt::format("3  tcgen05.cp .32x128b.warpx4    each tile to 4 columns, from column {} on; a 16-byte "
                            "line to a lane\n",
                            scales.address.column)
              : "3  two by two: columns of B from N / 2 on go to lanes 64 and up, which .warpx4 does not do\n")
      << fmt::format("4  Tensor Memory                 the {} replicas of a scale, 32 lanes apart\n\n",
                     scales.replicas());
  std::vector<std::vector<std::string>> table{{"lanes", "column", "byte 0", "byte 1", "byte 2", "byte 3"}};
  for (const auto& [where, bytes] : cells) {
    table.push_back({fmt::format("{}-{}", 32 * where.first, 32 * where.first + 31), std::to_string(where.second)});
    for (const std::string& text : bytes) table.back().push_back(text.empty() ? "." : text);
  }
  out << print_table(table);
}

}  // namespace

void add_scales_layout(CLI::App& layout, Context& context) {
  const auto flags = std::make_shared<ScalesFlags>();
  CLI::App* scales = layout.add_subcommand(
      "scales", "block scales: row-major, image of 128 x 4 tiles, Tensor Memory; and converts between the first two");
  scales->add_option("--operand", flags->operand, "a: rows are M, of one CTA; b: rows are N")
      ->check(CLI::IsMember({"a", "b"}))
      ->capture_default_str();
  scales->add_option("--rows", flags->rows, "rows of A in the CTA, or columns of B")->capture_default_str();
  scales
      ->add_option("--blocks", flags->blocks, "scales along K: of one instruction, or of the whole matrix with --pack")
      ->capture_default_str();
  scales
      ->add_option("--m", flags->m,
                   "M of the instruction, over the CTA group; 128 over two CTAs is the two-by-two case")
      ->capture_default_str();
  scales->add_option("--cta-group", flags->cta_group, "1 or 2")->check(CLI::Range(1, 2))->capture_default_str();
  scales->add_option("--id", flags->id, "byte of the first scale, from the instruction descriptor")
      ->capture_default_str();
  scales->add_option("--address", flags->address, "Tensor Memory address of the scales");
  scales->add_option("--row", flags->row, "one scale: its row ...");
  scales->add_option("--block", flags->block, "... and block");
  scales->add_flag("--image", flags->image, "the image in shared memory, as text or with --svg as a picture");
  scales->add_option("--byte", flags->byte, "the reverse: which scale does this byte of the image hold?");
  scales->add_option("--pack", flags->pack, "file with rows x blocks bytes, row-major: write the image to -o");
  scales->add_option("--unpack", flags->unpack, "file with an image: write the row-major bytes to -o");
  scales->add_option("-o,--output", flags->out, "file that --pack or --unpack writes");
  flags->svg.add(*scales);
  scales->add_flag("--csv", flags->csv, "the whole map as CSV");
  scales->add_flag("--json", flags->json, "the answer as JSON");
  scales->footer(
      "Examples:\n"
      "  bitmma layout scales --operand b --rows 64 --blocks 4\n"
      "  bitmma layout scales --row 37 --block 2\n"
      "  bitmma layout scales --image --svg image.svg\n"
      "  bitmma layout scales --rows 4096 --blocks 256 --pack row_major.bin -o image.bin");
  scales->callback([flags, &context] { run_scales(context, *flags); });
}

}  // namespace bitmma::cli
