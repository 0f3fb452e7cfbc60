#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "bitmma/io/draw.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/tmem.hpp"
#include "layout.hpp"

namespace bitmma::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TmemFlags {
  std::string operand = "d";
  int m = 128, n = 64, cta_group = 1, cols = 16, element_bits = 16;
  bool ws = false, sparse = false;
  uint32_t address = 0;
  std::optional<int> cta, lane, column;
  Query query;
  SvgFlag svg;
};

std::string csv_line(const TmemElement& e) {
  return fmt::format("{},{},{},{},{},{}\n", e.row, e.col, e.place.cta, e.place.lane, e.place.column, e.place.bit);
}

Json element_json(const TmemElement& e) {
  return {{"row", e.row},      {"col", e.col}, {"cta", e.place.cta}, {"lane", e.place.lane}, {"column", e.place.column},
          {"bit", e.place.bit}};
}

void run_tmem(Context& context, const TmemFlags& flags) {
  const TmemLayoutInfo& layout = find_tmem_layout(flags.m, flags.cta_group, flags.ws, flags.sparse);
  const TmemAddress address = decode_tmem_address(flags.address);
  const bool is_d = flags.operand == "d";
  std::vector<TmemElement> elements;
  int cols = flags.n;
  if (is_d) {
    const TmemD d{.layout = layout, .n = flags.n, .address = address};
    require_fits(d);
    for (int row = 0; row < flags.m; ++row) {
      for (int col = 0; col < cols; ++col) elements.push_back({row, col, d.place_of(row, col)});
    }
  } else {
    const bool power =
        flags.element_bits == 4 || flags.element_bits == 8 || flags.element_bits == 16 || flags.element_bits == 32;
    if (!power || flags.cols < 1 || flags.cols > 128) {
      throw Error({.field = "--element-bits, --cols",
                   .seen = fmt::format("{}, {}", flags.element_bits, flags.cols),
                   .legal = "4, 8, 16 or 32 bits; 1..128 columns"});
    }
    const TmemA a{.layout = layout, .element_bits = flags.element_bits, .address = address};
    require_fits(a, flags.cols);
    cols = flags.cols;
    for (int row = 0; row < flags.m; ++row) {
      for (int col = 0; col < cols; ++col) {
        for (int copy = 0; copy < a.copies(); ++copy) elements.push_back({row, col, a.place_of(row, col, copy)});
      }
    }
  }
  const bool reverse = flags.cta || flags.lane || flags.column;
  const bool forward = flags.query.one_element(flags.m, cols);
  if (reverse) {
    if (!flags.lane || !flags.column) throw Error({.field = "--lane, --column", .seen = "(missing)", .legal = "both"});
    std::erase_if(elements, [&](const TmemElement& e) {
      return e.place.lane != *flags.lane || e.place.column != *flags.column || e.place.cta != flags.cta.value_or(0);
    });
  } else if (forward) {
    std::erase_if(elements,
                  [&](const TmemElement& e) { return e.row != *flags.query.row || e.col != *flags.query.col; });
  }
  std::ostream& out = context.terminal.out;
  if (flags.query.json) {
    Json json = Json::array();
    for (const TmemElement& e : elements) json.push_back(element_json(e));
    out << json.dump(2) << '\n';
    return;
  }
  if (flags.query.csv || reverse || forward) {
    out << "row,col,cta,lane,column,bit\n";
    for (const TmemElement& e : elements) out << csv_line(e);
    if (elements.empty()) context.terminal.err << "that cell holds no element of this matrix\n";
    return;
  }
  const std::string title =
      fmt::format("{} in Tensor Memory, layout {} (M = {}, cta_group::{}{}{}), {} columns of cells", is_d ? "D" : "A",
                  layout.name, flags.m, flags.cta_group, flags.ws ? ", .ws" : "", flags.sparse ? ", .sp" : "",
                  is_d ? flags.n / layout.n_parts : (flags.cols * flags.element_bits + 31) / 32);
  if (flags.svg.asked()) {
    Picture picture = picture_of_tmem(elements, flags.cta_group);
    picture.title = title;
    if (is_d) picture.notes.push_back("CuTe: " + print_cute(TmemD{.layout = layout, .n = flags.n}));
    picture.notes.push_back("lanes down, 16 at a time, as the data path layouts of the PTX ISA (9.7.16.10.5)");
    flags.svg.write(context, picture);
    return;
  }
  if (is_d)
    out << title << "\nCuTe: " << print_cute(TmemD{.layout = layout, .n = flags.n}) << "\n\n"
        << draw_tmem(elements, flags.cta_group);
  else
    out << title << "\n\n" << draw_tmem(elements, flags.cta_group);
  if (!is_d && layout.n_parts > 1) out << "copy p of A feeds the p-th part of N; all must be written\n";
}

struct LdStFlags {
  std::string shape = "32x32b";
  LdSt move;
  std::optional<int> lane, column, thread, reg;
  bool csv = false, json = false;
};

void run_ldst(Context& context, LdStFlags flags) {
  const auto row = std::ranges::find_if(ldst_shapes, [&](const LdStInfo& r) { return r.name == flags.shape; });
  if (row == ldst_shapes.end())
    throw Error({.field = "--shape", .seen = flags.shape, .legal = "32x32b, 16x64b, 16x128b, 16x256b or 16x32bx2"});
  flags.move.shape = row->id;
  require_legal(flags.move);
  if (row->id == LdStShape::s16x32bx2 && flags.move.split_columns == 0)
    flags.move.split_columns = flags.move.num;  // the second piece follows the first
  struct Entry {
    int thread, reg, half;
    TmemAddress cell;
  };
  std::vector<Entry> entries;
  for (int thread = 0; thread < 32; ++thread) {
    for (int reg = 0; reg < flags.move.registers(); ++reg) {
      for (int half = 0; half < 2; ++half)
        entries.push_back({thread, reg, half, flags.move.place_of(thread, reg, half)});
    }
  }
  const bool asked = flags.lane || flags.column || flags.thread || flags.reg;
  std::erase_if(entries, [&](const Entry& e) {
    return (flags.lane && e.cell.lane != *flags.lane) || (flags.column && e.cell.column != *flags.column) ||
           (flags.thread && e.thread != *flags.thread) || (flags.reg && e.reg != *flags.reg);
  });
  std::ostream& out = context.terminal.out;
  if (flags.json) {
    Json json = Json::array();
    for (const Entry& e : entries)
      json.push_back({{"thread", e.thread},
                      {"register", e.reg},
                      {"half", e.half},
                      {"lane", e.cell.lane},
                      {"column", e.cell.column}});
    out << json.dump(2) << '\n';
    return;
  }
  if (flags.csv || asked) {
    out << "thread,register,half,lane,column\n";
    for (const Entry& e : entries)
      out << fmt::format("{},{},{},{},{}\n", e.thread, e.reg, e.half, e.cell.lane, e.cell.column);
    return;
  }
  std::map<std::pair<int, int>, std::string> cells;
  int columns = 0;
  for (const Entry& e : entries) {
    if (!flags.move.pack_16b && e.half == 1) continue;
    cells[{e.cell.lane, e.cell.column}] =
        fmt::format("T{}:r{}{}", e.thread, e.reg, flags.move.pack_16b ? (e.half ? "h" : "l") : "");
    columns = std::max(columns, e.cell.column + 1);
  }
  const int shown = std::min(columns, 16);
  std::vector<std::vector<std::string>> table(1, {"lane"});
  for (int column = 0; column < shown; ++column) table[0].push_back(fmt::format("col {}", column));
  for (int lane = 0; lane < 32; ++lane) {
    if (!cells.contains({lane, 0})) continue;
    std::vector<std::string> line{std::to_string(lane)};
    for (int column = 0; column < shown; ++column) line.push_back(cells[{lane, column}]);
    table.push_back(std::move(line));
  }
  out << fmt::format(
             "tcgen05.ld/.st {}.x{}{}: {} registers a thread; lanes of one warp's partition, columns from the "
             "address\n\n",
             flags.shape, flags.move.num,
             flags.move.pack_16b ? " packed (l, h: lower and upper half of the register)" : "", flags.move.registers())
      << print_table(table);
  if (columns > shown) out << fmt::format("columns {}-{}: --csv shows them\n", shown, columns - 1);
}

struct ScalesFlags {
  std::string operand = "a", pack, unpack, out;
  int64_t rows = 128, blocks = 4;
  int m = 128, n = 0, cta_group = 1, id = 0;
  uint32_t address = 0;
  std::optional<int64_t> row, block;
  bool csv = false, json = false;
  SvgFlag svg;
};

void convert_scales(Context& context, const ScalesFlags& flags, const ScaleImage& image) {
  if (flags.out.empty()) throw Error({.field = "-o", .seen = "(missing)", .legal = "the file to write"});
  if (!flags.pack.empty() && !flags.unpack.empty())
    throw Error({.field = "--pack, --unpack", .seen = "both", .legal = "one of them"});
  const MappedFile file(flags.pack.empty() ? flags.unpack : flags.pack);
  const std::vector<uint8_t> bytes =
      flags.pack.empty() ? unpack_scales(image, file.bytes()) : pack_scales(image, file.bytes());
  write_whole(flags.out, [&](std::ostream& stream) {
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  context.terminal.err << fmt::format("{}: {} bytes, {} rows x {} blocks {}\n", flags.out, bytes.size(), image.rows,
                                      image.blocks, flags.pack.empty() ? "row-major" : "in tiles of 128 x 4");
}

void run_scales(Context& context, const ScalesFlags& flags) {
  const ScaleImage image{flags.rows, flags.blocks};
  if (!flags.pack.empty() || !flags.unpack.empty()) {
    convert_scales(context, flags, image);
    return;
  }
  std::vector<Violation> violations;
  if (flags.rows < 1 || flags.rows > 256)
    violations.push_back({.field = "--rows",
                          .seen = std::to_string(flags.rows),
                          .legal = "1..256: what one instruction reads; more with --pack"});
  if (flags.blocks < 1 || flags.blocks > 8)
    violations.push_back(
        {.field = "--blocks", .seen = std::to_string(flags.blocks), .legal = "1..8; more with --pack"});
  if (flags.id < 0 || flags.id > 3)
    violations.push_back({.field = "--id", .seen = std::to_string(flags.id), .legal = "0..3"});
  if (flags.row.has_value() != flags.block.has_value())
    violations.push_back({.field = "--row, --block", .seen = "one", .legal = "both or none"});
  if (!violations.empty()) throw Error(std::move(violations));
  // Where they stand in Tensor Memory: by the form of the instruction that reads them.
  const bool two_by_two = flags.cta_group == 2 && flags.m == 128, is_b = flags.operand == "b";
  const int rows = static_cast<int>(flags.rows), half = (rows + 1) / 2;
  TmemScales scales{.address = decode_tmem_address(flags.address & tmem_address_mask),
                    .id = flags.id,
                    .group_columns = is_b         ? (rows <= 128 ? 4 : 8)
                                     : two_by_two ? 2
                                                  : 4};
  if (is_b && two_by_two) scales.parts = 2, scales.rows_per_part = half, scales.group_columns = (half + 31) / 32;
  require_fits(scales, rows, static_cast<int>(flags.blocks), is_b ? "scale_B" : "scale_A");
  struct Entry {
    int64_t row, block;
    int replica;
    TmemPlace place;
  };
  std::vector<Entry> entries;
  for (int64_t row = 0; row < flags.rows; ++row) {
    for (int64_t block = 0; block < flags.blocks; ++block) {
      if (flags.row && (row != *flags.row || block != *flags.block)) continue;
      for (int replica = 0; replica < scales.replicas(); ++replica)
        entries.push_back(
            {row, block, replica, scales.place_of(static_cast<int>(row), static_cast<int>(block), replica)});
    }
  }
  std::ostream& out = context.terminal.out;
  if (flags.json) {
    Json json = Json::array();
    for (const Entry& e : entries) {
      json.push_back({{"row", e.row},
                      {"block", e.block},
                      {"tile", image.tile_of(e.row, e.block)},
                      {"image_byte", image.offset_of(e.row, e.block)},
                      {"replica", e.replica},
                      {"lane", e.place.lane},
                      {"column", e.place.column},
                      {"byte", e.place.bit / 8}});
    }
    out << json.dump(2) << '\n';
    return;
  }
  if (flags.csv || flags.row) {
    out << "row,block,row_major_byte,tile,image_byte,replica,lane,column,byte\n";
    for (const Entry& e : entries) {
      out << fmt::format("{},{},{},{},{},{},{},{},{}\n", e.row, e.block, e.row * flags.blocks + e.block,
                         image.tile_of(e.row, e.block), image.offset_of(e.row, e.block), e.replica, e.place.lane,
                         e.place.column, e.place.bit / 8);
    }
    if (entries.empty()) context.terminal.err << "no such row and block\n";
    return;
  }
  std::map<std::pair<int, int>, std::array<std::string, 4>> cells;  // band of 32 lanes, column
  for (const Entry& e : entries) {
    auto& cell = cells[{e.place.lane / 32, e.place.column}][static_cast<size_t>(e.place.bit / 8)];
    const int64_t first = e.row / 32 * 32;
    if (cell.empty())
      cell =
          fmt::format("row {}..{} block {}", std::max<int64_t>(first, two_by_two && is_b && e.row >= half ? half : 0),
                      std::min<int64_t>(first + 31, flags.rows - 1), e.block);
  }
  const std::string title = fmt::format("scales of {}: {} rows x {} blocks along K, one byte each", is_b ? "B" : "A",
                                        flags.rows, flags.blocks);
  const std::string image_rule = fmt::format(
      "{} bytes: tiles of 128 rows x 4 blocks; 512 * tile + 16 * (row % 32) + 4 * (row / 32 % 4) + block % 4",
      image.bytes());
  if (flags.svg.asked()) {
    Picture picture{
        .title = title,
        .notes = {fmt::format("image in shared memory: {}", image_rule),
                  "CuTe of a tile, (row, block) -> byte: ((32,4),4):((16,4),1)",
                  "Tensor Memory by lanes and columns, as the scale factor layouts of the PTX ISA (9.7.16.10.7)"},
        .corner = "lanes, column"};
    for (int byte = 0; byte < 4; ++byte) picture.column_heads.push_back(fmt::format("byte {}", byte));
    for (const auto& [where, bytes] : cells) {
      std::vector<PictureCell> row;
      for (const std::string& text : bytes)
        row.push_back({text, text.empty() ? -1 : std::stoi(text.substr(4)) / 32 % picture_colors});
      picture.rows.emplace_back(fmt::format("{}-{}, {}", 32 * where.first, 32 * where.first + 31, where.second),
                                std::move(row));
    }
    for (int block = 0; block * 32 < flags.rows; ++block)
      picture.legend.emplace_back(
          block, fmt::format("rows {}-{}", 32 * block, std::min<int64_t>(32 * block + 31, flags.rows - 1)));
    flags.svg.write(context, picture);
    return;
  }
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
      << fmt::format("4  Tensor Memory                 the {} replicas of a scale, {} lanes apart\n\n",
                     scales.replicas(), 32);
  std::vector<std::vector<std::string>> table{{"lanes", "column", "byte 0", "byte 1", "byte 2", "byte 3"}};
  for (const auto& [where, bytes] : cells) {
    table.push_back({fmt::format("{}-{}", 32 * where.first, 32 * where.first + 31), std::to_string(where.second)});
    for (const std::string& text : bytes) table.back().push_back(text.empty() ? "." : text);
  }
  out << print_table(table);
}

}  // namespace

void add_tmem_layouts(CLI::App& parent, Context& context) {
  CLI::App* command = &parent;
  const auto tmem_flags = std::make_shared<TmemFlags>();
  CLI::App* tmem = command->add_subcommand("tmem", "Tensor Memory of tcgen05.mma: D, and A where it lies there");
  tmem->add_option("--operand", tmem_flags->operand, "d or a")->check(CLI::IsMember({"d", "a"}))->capture_default_str();
  tmem->add_option("--m", tmem_flags->m, "rows, over the CTA group")->capture_default_str();
  tmem->add_option("--n", tmem_flags->n, "columns of D")->capture_default_str();
  tmem->add_option("--cta-group", tmem_flags->cta_group, "1 or 2")->check(CLI::Range(1, 2))->capture_default_str();
  tmem->add_flag("--ws", tmem_flags->ws, "weight-stationary form");
  tmem->add_flag("--sparse", tmem_flags->sparse, ".sp form");
  tmem->add_option("--cols", tmem_flags->cols, "A: stored k")->capture_default_str();
  tmem->add_option("--element-bits", tmem_flags->element_bits, "A: bits of a container: 4, 8, 16 or 32")
      ->capture_default_str();
  tmem->add_option("--address", tmem_flags->address, "Tensor Memory address, lane << 16 | column");
  tmem->add_option("--cta", tmem_flags->cta, "the reverse: CTA of the pair (0) ...");
  tmem->add_option("--lane", tmem_flags->lane, "... lane ...");
  tmem->add_option("--column", tmem_flags->column, "... and column: which elements are there?");
  tmem_flags->query.add(*tmem);
  tmem_flags->svg.add(*tmem);
  tmem->footer(
      "Examples:\n  bitmma layout tmem --m 64 --n 32                            where is row 17 at M = 64?\n  bitmma "
      "layout tmem --m 128 --n 64 --cta-group 2 --row 70 --col 40\n  bitmma layout tmem --operand a --m 64 --ws --csv");
  tmem->callback([tmem_flags, &context] { run_tmem(context, *tmem_flags); });
  const auto scales_flags = std::make_shared<ScalesFlags>();
  CLI::App* scales = command->add_subcommand(
      "scales", "block scales: row-major, image of 128 x 4 tiles, Tensor Memory; and converts between the first two");
  scales->add_option("--operand", scales_flags->operand, "a: rows are M, of one CTA; b: rows are N")
      ->check(CLI::IsMember({"a", "b"}))
      ->capture_default_str();
  scales->add_option("--rows", scales_flags->rows, "rows of A in the CTA, or columns of B")->capture_default_str();
  scales
      ->add_option("--blocks", scales_flags->blocks,
                   "scales along K: of one instruction, or of the whole matrix with --pack")
      ->capture_default_str();
  scales
      ->add_option("--m", scales_flags->m,
                   "M of the instruction, over the CTA group; 128 over two CTAs is the two-by-two case")
      ->capture_default_str();
  scales->add_option("--cta-group", scales_flags->cta_group, "1 or 2")->check(CLI::Range(1, 2))->capture_default_str();
  scales->add_option("--id", scales_flags->id, "byte of the first scale, from the instruction descriptor")
      ->capture_default_str();
  scales->add_option("--address", scales_flags->address, "Tensor Memory address of the scales");
  scales->add_option("--row", scales_flags->row, "one scale: its row ...");
  scales->add_option("--block", scales_flags->block, "... and block");
  scales->add_option("--pack", scales_flags->pack, "file with rows x blocks bytes, row-major: write the image to -o");
  scales->add_option("--unpack", scales_flags->unpack, "file with an image: write the row-major bytes to -o");
  scales->add_option("-o,--output", scales_flags->out, "file that --pack or --unpack writes");
  scales_flags->svg.add(*scales);
  scales->add_flag("--csv", scales_flags->csv, "the whole map as CSV");
  scales->add_flag("--json", scales_flags->json, "the answer as JSON");
  scales->footer(
      "Examples:\n"
      "  bitmma layout scales --operand b --rows 64 --blocks 4\n"
      "  bitmma layout scales --row 37 --block 2\n"
      "  bitmma layout scales --rows 4096 --blocks 256 --pack row_major.bin -o image.bin");
  scales->callback([scales_flags, &context] { run_scales(context, *scales_flags); });
  const auto ldst_flags = std::make_shared<LdStFlags>();
  CLI::App* ldst = command->add_subcommand("ldst", "registers of tcgen05.ld and tcgen05.st");
  ldst->add_option("--shape", ldst_flags->shape, "32x32b, 16x64b, 16x128b, 16x256b or 16x32bx2")->capture_default_str();
  ldst->add_option("--num", ldst_flags->move.num, "of .xNUM, a power of two")->capture_default_str();
  ldst->add_flag("--pack", ldst_flags->move.pack_16b, ".pack::16b, or .unpack::16b of st");
  ldst->add_option("--split", ldst_flags->move.split_columns, "16x32bx2: columns between the pieces; default NUM");
  ldst->add_option("--thread", ldst_flags->thread, "only this thread of the warp");
  ldst->add_option("--register", ldst_flags->reg, "only this register");
  ldst->add_option("--lane", ldst_flags->lane, "the reverse: only this lane of the partition");
  ldst->add_option("--column", ldst_flags->column, "and this column");
  ldst->add_flag("--csv", ldst_flags->csv, "the whole map as CSV");
  ldst->add_flag("--json", ldst_flags->json, "the answer as JSON");
  ldst->footer(
      "Examples:\n  bitmma layout ldst --shape 16x64b --num 4\n  bitmma layout ldst --shape 16x256b --num 2 --lane 9 "
      "--column 3");
  ldst->callback([ldst_flags, &context] { run_ldst(context, *ldst_flags); });
}

}  // namespace bitmma::cli
