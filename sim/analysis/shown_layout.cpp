// SPDX-License-Identifier: MIT
#include "bitmma/analysis/shown_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/analysis/describe_layout.hpp"
#include "bitmma/core/numbers.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/descriptor/descriptor_meaning.hpp"
#include "bitmma/instruction/register_map.hpp"

namespace bitmma {
namespace {

constexpr const char* whole_matrix =
    "for the scales of a whole matrix, use --row and --block, --byte, --image or --pack";

/// The scales' place in Tensor Memory, by the form of the instruction that reads them.
TmemScales require_scales(const ScalesRequest& request) {
  std::vector<Violation> violations;
  if (request.rows < 1 || request.rows > 256) {
    violations.push_back({.field = "rows",
                          .seen = std::to_string(request.rows),
                          .expected = "1..256, the number that one instruction reads",
                          .fix = whole_matrix});
  }
  if (request.blocks < 1 || request.blocks > 8) {
    violations.push_back({.field = "blocks",
                          .seen = std::to_string(request.blocks),
                          .expected = "1..8, the number that one instruction reads",
                          .fix = whole_matrix});
  }
  if (request.id < 0 || request.id > 3) {
    violations.push_back({.field = "id", .seen = std::to_string(request.id), .expected = "0..3"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const TmemLayoutInfo& layout = find_tmem_layout(request.m, request.cta_group, false, false);
  const auto rows = static_cast<int>(request.rows);
  const TmemScales scales = request.is_b ? scales_of_b(layout, rows, request.address, request.id)
                                         : scales_of_a(layout, request.address, request.id);
  if (scales.parts == 2 && rows % 2 != 0) {
    throw Error({.field = "rows",
                 .seen = std::to_string(rows),
                 .expected = "an even number: the halves of N are in different lanes"});
  }
  require_fits(scales, rows, static_cast<int>(request.blocks), request.is_b ? "scale_B" : "scale_A");
  return scales;
}

bool is_power_of_two(int number, int most) {
  return number >= 1 && number <= most && std::has_single_bit(static_cast<unsigned>(number));
}

/// Metadata of one instruction in Tensor Memory.
ShownLayout shown_metadata(const TmemRequest& request, const TmemLayoutInfo& layout,
                           const TmemRequest::Metadata& metadata) {
  const int bits = metadata.element_bits;
  if (bits < 4 || !is_power_of_two(bits, 32))
    throw Error({.field = "element bits", .seen = std::to_string(bits), .legal = {"4", "8", "16", "32"}});
  const int selectors = bits >= 16 ? 4 : 1, k = metadata.k.value_or(512 / bits);
  if (metadata.selector < 0 || metadata.selector >= selectors) {
    throw Error({.field = "selector",
                 .seen = std::to_string(metadata.selector),
                 .expected = fmt::format("0..{}", selectors - 1),
                 .fix = bits < 16 ? "8- and 4-bit types use whole cells" : "",
                 .source = "PTX ISA 9.7.16.10.8"});
  }
  const TmemMetadata place{
      .layout = layout, .element_bits = bits, .address = request.address, .selector = metadata.selector, .k = k};
  ShownLayout shown{.map = map_of(place, k)};
  shown.map.title = fmt::format(
      "metadata of a sparse A in Tensor Memory, layout {} (M = {}, cta_group::{}{}), K = {} of {} bits, "
      "selector {}",
      layout.name, request.m, request.cta_group, request.weight_stationary ? ", .ws" : "", k, bits, metadata.selector);
  const int chunk = sparse_pattern(bits).chunk;
  shown.map.notes.insert(
      shown.map.notes.begin(),
      {fmt::format("a chunk is {} columns of A and has four bits: chunk c describes columns {} c .. {} c + {}", chunk,
                   chunk, chunk, chunk - 1),
       bits >= 16 ? fmt::format("rows r and r + 8 share a cell; K's halves are in lanes 8 apart. The selector adds to "
                                "the column: 0 reads column {}, 1 column {}",
                                request.address.column, request.address.column + 1)
                  : fmt::format("a row has a cell for every {} columns of A, in its own lane", place.k_per_cell())});
  return shown;
}

bool is_in_csv(const MapAxis& axis) { return axis.kind != AxisKind::json_only && axis.kind != AxisKind::array_only; }

}  // namespace

ShownLayout shown_layout(const CuteLayout& cute, const std::string& title) {
  ShownLayout shown{.map = map_of(cute),
                    .header = {{"cute", print(cute)},
                               {"rows", cute.rows},
                               {"cols", cute.cols},
                               {"element_bits", cute.element_bits},
                               {"stages", cute.stages()},
                               {"remarks", cute.remarks}}};
  if (!title.empty()) {
    shown.map.notes.insert(shown.map.notes.begin(), shown.map.title);
    shown.map.title = title;
  }
  return shown;
}

ShownLayout shown_layout(const LdMatrix& move) {
  Map map = map_of(move);
  const std::string rows = move.packed_bits == 0 ? "16 bytes"
                                                 : fmt::format("16 codes of {} bits ({} of 16 bytes)", move.packed_bits,
                                                               2 * move.packed_bits);
  map.title = fmt::format("{}, {}: {} of {} rows of {}, {} per thread", print(move), print_targets(move),
                          move.count == 1 ? "1 matrix" : fmt::format("{} matrices", move.count), move.rows(), rows,
                          counted(move.registers(), "register"));
  Report addresses = Report::list();
  for (int i = 0; i < move.rows() * move.count; ++i) {
    const int matrix = i / move.rows(), row = i % move.rows();
    addresses.append({{"matrix", matrix}, {"row", row}, {"thread", address_thread(move, matrix, row)}});
  }
  return {.map = std::move(map),
          .header = {{"instruction", print(move)}, {"targets", print_targets(move)}, {"addresses", addresses}},
          .has_object_of_element = true,
          .has_object_of_place = true};
}

std::vector<Violation> size_violations_of(const SmemMatrix& matrix) {
  std::vector<Violation> violations;
  if (!is_power_of_two(matrix.element_bits, 32)) {
    violations.push_back({.field = "element bits",
                          .seen = std::to_string(matrix.element_bits),
                          .legal = {"1", "2", "4", "8", "16", "32"}});
  }
  for (const auto& [name, extent] : {std::pair("rows", matrix.rows), std::pair("cols", matrix.cols)}) {
    if (extent < 1 || extent > 4096)
      violations.push_back({.field = name, .seen = std::to_string(extent), .expected = "1..4096"});
  }
  return violations;
}

std::vector<Violation> warnings_of(const SmemMatrix& matrix) {
  std::vector<Violation> all = doubts_about(matrix.descriptor.target, encode(matrix.descriptor));
  const int row_bytes = matrix.cols * matrix.element_bits / 8;
  for (const std::vector<Violation>& more :
       {as_warnings(bitmma::warnings(matrix.descriptor, matrix.major, row_bytes)), reach_warnings(SmemMap(matrix))})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

ShownLayout shown_layout(const SmemMatrix& matrix, int code_bits) {
  std::vector<Violation> warnings = warnings_of(matrix);
  return {.map = map_of(matrix, code_bits),
          .header = {{"target", print(matrix.descriptor.target)},
                     {"cute", print_cute(matrix)},
                     {"hardware_cute", print_hardware_cute(matrix)},
                     {"wide_row_evidence", wide_row_evidence(matrix)},
                     {"start_address", matrix.descriptor.start_address_bytes},
                     {"warnings", warnings}},
          .has_object_of_element = true,
          .where = fmt::format(" of {} x {} elements (--rows, --cols), which end at byte {},", matrix.rows, matrix.cols,
                               end_byte(SmemMap(matrix)) - 1),
          .warnings = std::move(warnings)};
}

ShownLayout shown_atom(Swizzle mode, Major major, int element_bits, std::optional<Target> target) {
  const SwizzleInfo& swizzle = info(mode);
  const bool is_blackwell = mode == Swizzle::b128_atom32;
  if (is_blackwell && target && info(*target).smem_descriptor == SmemDescriptorVersion::sm_90) {
    throw Error({.field = "atom",
                 .seen = std::string(swizzle.name),
                 .expected = fmt::format("none, 32, 64 or 128 on {}", print(*target)),
                 .fix = "128-byte swizzling with 32-byte atoms is Blackwell's"});
  }
  if (is_blackwell && major == Major::k) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "atom, major",
                 .seen = "128-atom32, k",
                 .expected = "mn with 128-atom32: CUTLASS has no K-major atom with it",
                 .source = "PTX ISA 9.7.16.3, Table 55"});
  }
  const int units = swizzle.width_bytes / 16;
  return shown_layout(
      cute_atom(major, mode, element_bits),
      fmt::format("{}, {}: atom of {} x {} units of 128 bits", cute_atom_name(major, mode), print(major),
                  major == Major::k ? 8 : units, major == Major::k ? units : swizzle.rows_per_atom));
}

void read_box(TmaTile& tile, std::string_view field, std::string_view text) {
  const std::vector<std::string> extents = split_list(text, "x");
  std::vector<int64_t> sizes;
  for (const std::string& extent : extents) {
    const std::optional<uint64_t> size = parse_whole(extent);
    if (size && *size >= 1 && *size <= 65536) sizes.push_back(static_cast<int64_t>(*size));
  }
  if (sizes.size() != extents.size() || sizes.size() > 2) {
    throw Error({.field = std::string(field),
                 .seen = std::string(text),
                 .expected = "INNER or INNERxOUTER elements, each 1..65536: 64x16"});
  }
  tile.box_inner = sizes.front();
  if (sizes.size() == 2) tile.box_outer = sizes.back();
}

ShownLayout shown_layout(const LdStRequest& request) {
  const bool has_pieces = request.shape == "16x32bx2";
  if (request.split_columns && (!has_pieces || *request.split_columns == 0)) {
    throw Error({.code = ViolationCode::no_effect,
                 .field = "split",
                 .seen = std::to_string(*request.split_columns),
                 .expected = has_pieces ? "1 or more" : "absent",
                 .fix = has_pieces ? "omit it if the second piece follows the first" : "only 16x32bx2 has two pieces"});
  }
  const LdSt move = ldst_of(request.shape, request.num, request.pack_16b, request.split_columns.value_or(0));
  ShownLayout shown{.map = map_of(move)};
  shown.map.title = fmt::format("tcgen05.ld/.st {}.x{}{}: {} per thread", request.shape, move.num,
                                move.pack_16b ? " packed" : "", counted(move.registers(), "register"));
  return shown;
}

ShownLayout shown_layout(const TmemRequest& request) {
  const TmemLayoutInfo& layout =
      find_tmem_layout(request.m, request.cta_group, request.weight_stationary, request.sparse);
  ShownLayout shown;
  int columns = 0;
  if (const auto* metadata = std::get_if<TmemRequest::Metadata>(&request.operand))
    return shown_metadata(request, layout, *metadata);
  const auto* a = std::get_if<TmemRequest::A>(&request.operand);
  if (!a) {
    const TmemD d{.layout = layout, .n = std::get<TmemRequest::D>(request.operand).n, .address = request.address};
    shown.map = map_of(d), columns = d.columns();
  } else {
    const bool is_width = a->element_bits >= 4 && is_power_of_two(a->element_bits, 32);
    if (!is_width || a->cols < 1 || a->cols > 128) {
      throw Error({.field = "element bits, cols",
                   .seen = fmt::format("{}, {}", a->element_bits, a->cols),
                   .expected = "4, 8, 16 or 32 bits; 1..128 columns"});
    }
    shown.map = map_of(TmemA{.layout = layout, .element_bits = a->element_bits, .address = request.address}, a->cols,
                       code_bits_in_container(a->code_bits, a->element_bits));
    columns = (a->cols * a->element_bits + 31) / 32;
  }
  shown.map.title =
      fmt::format("{} in Tensor Memory, layout {} (M = {}, cta_group::{}{}{}), {} of cells", a ? "A" : "D", layout.name,
                  request.m, request.cta_group, request.weight_stationary ? ", .ws" : "", request.sparse ? ", .sp" : "",
                  counted(columns, "column"));
  return shown;
}

ShownLayout shown_layout(const ScalesRequest& request) {
  const TmemScales scales = require_scales(request);
  const ScaleImage image{request.rows, request.blocks};
  ShownLayout shown{.map = map_of(scales, image)};
  shown.map.title = fmt::format("scales of {}: {} x {} along K, one byte each", request.is_b ? "B" : "A",
                                counted(request.rows, "row"), counted(request.blocks, "block"));
  shown.map.notes = {
      "1  row-major                     byte row * blocks + block",
      fmt::format("2  image in shared memory        {} bytes: tiles of 128 rows x 4 blocks", image.bytes()),
      "                                 byte 512 * tile + 16 * (row % 32) + 4 * (row / 32 % 4) + block % 4",
      "                                 CuTe of a tile: ((32,4),4):((16,4),1)",
      scales.parts == 1
          ? fmt::format("3  tcgen05.cp .32x128b.warpx4    each tile to 4 columns, from column {} on; a 16-byte line to "
                        "a lane",
                        scales.address.column)
          : "3  two by two: columns of B from N / 2 on go to lanes 64 and up, which .warpx4 cannot do",
      fmt::format("4  Tensor Memory                 the {} replicas of a scale, 32 lanes apart: row r in lanes with "
                  "lane % 32 = r % 32",
                  scales.replicas())};
  return shown;
}

ShownLayout shown_layout(const MetadataImage& image) {
  require_legal(image);
  ShownLayout shown{.map = map_of(image)};
  const MetadataOrderInfo& order = info(image.order);
  const SparsePattern& pattern = image.pattern();
  shown.map.title = fmt::format("metadata of a sparse A of {} x {} elements of {} bits, order {}: {} bytes", image.rows,
                                image.cols, image.element_bits, order.name, image.bytes());
  shown.map.notes = {std::string(order.meaning),
                     fmt::format("a chunk is {} columns and has four bits, {} of {}; r rows, k columns of A",
                                 pattern.chunk, pattern.stored_per_chunk / pattern.unit, pattern.chunk / pattern.unit)};
  if (!shown.map.cute.empty()) {
    shown.map.notes.push_back(fmt::format("CuTe (row, k) -> element of A, {} bit{} of metadata each: {}",
                                          pattern.chunk == 8 ? "1/2" : std::to_string(4 / pattern.chunk),
                                          pattern.chunk == 2 ? "s" : "", shown.map.cute));
  }
  if (!places_of_metadata(image).is_one_to_one())
    shown.warnings = as_warnings({{.field = "rows, cols",
                                   .seen = fmt::format("{}, {}", image.rows, image.cols),
                                   .expected = "sizes that the order maps one-to-one",
                                   .fix = "--check counts the chunks without a place of their own"}});
  shown.header = {{"order", order.name},       {"element_bits", image.element_bits},
                  {"rows", image.rows},        {"cols", image.cols},
                  {"bytes", image.bytes()},    {"cute", shown.map.cute},
                  {"warnings", shown.warnings}};
  return shown;
}

ShownLayout shown_layout(const ScaleImage& image, bool is_whole) {
  constexpr int64_t most = 1 << 20;
  if (image.rows < 1 || image.blocks < 1 || image.rows > most || image.blocks > most) {
    throw Error({.field = "rows, blocks",
                 .seen = fmt::format("{}, {}", image.rows, image.blocks),
                 .expected = "1..1048576 each"});
  }
  ShownLayout shown{.map = map_of(image)};
  if (is_whole) return shown;
  shown.map.axes[0].extent = std::min<int64_t>(128, image.rows);
  shown.map.axes[1].extent = std::min<int64_t>(4, image.blocks);
  if (image.bytes() > 512)
    shown.map.notes.push_back(
        fmt::format("the first of {} tiles, which are ordered by blocks first, then by rows", image.bytes() / 512));
  return shown;
}

CuteLayout tile_layout(const TileRequest& tile) {
  const SwizzleInfo& swizzle = info(tile.swizzle);
  const int bits = tile.element_bits;
  std::vector<Violation> violations;
  if (!is_power_of_two(bits, 128))
    violations.push_back({.field = "element bits",
                          .seen = std::to_string(bits),
                          .legal = {"1", "2", "4", "8", "16", "32", "64", "128"}});
  for (const auto& [name, value, most] :
       {std::tuple("rows", tile.rows, int64_t{65536}), std::tuple("cols", tile.cols, int64_t{65536}),
        std::tuple("stages", tile.stages, int64_t{1024}), std::tuple("lbo", tile.lbo.value_or(1), int64_t{0x3FFFF}),
        std::tuple("sbo", tile.sbo.value_or(1), int64_t{0x3FFFF})}) {
    if (value >= 1 && value <= most) continue;
    violations.push_back({.field = name, .seen = std::to_string(value), .expected = fmt::format("1..{}", most)});
  }
  if (violations.empty() && tile.rows > (1 << 20) / tile.cols)
    violations.push_back({.code = ViolationCode::too_large,
                          .field = "rows, cols",
                          .seen = fmt::format("{} x {}", tile.rows, tile.cols),
                          .expected = "at most 1048576 elements"});
  if (!violations.empty()) throw Error(std::move(violations));
  const int rows = static_cast<int>(tile.rows), cols = static_cast<int>(tile.cols);
  Strides strides = minimal_strides(tile.major, swizzle, bits, rows, cols);
  strides.leading_dim_byte_offset = tile.lbo.value_or(strides.leading_dim_byte_offset);
  strides.stride_dim_byte_offset = tile.sbo.value_or(strides.stride_dim_byte_offset);
  for (const auto& [name, bytes] :
       {std::pair("lbo", strides.leading_dim_byte_offset), std::pair("sbo", strides.stride_dim_byte_offset)}) {
    if (bytes * 8 % bits != 0)
      throw Error(
          {.field = name, .seen = std::to_string(bytes), .expected = fmt::format("whole elements of {} bits", bits)});
  }
  const auto layout_with = [&](const Strides& of_tile) {
    return hardware_layout(tile.major, swizzle, of_tile, bits, rows, cols);
  };
  for (const auto& [name, bytes, stride] : {std::tuple("lbo", tile.lbo, &Strides::leading_dim_byte_offset),
                                            std::tuple("sbo", tile.sbo, &Strides::stride_dim_byte_offset)}) {
    Strides longer = strides;
    longer.*stride += 16 * bits;
    if (bytes && layout_with(longer) == layout_with(strides)) {
      throw Error({.code = ViolationCode::no_effect,
                   .field = name,
                   .seen = std::to_string(*bytes),
                   .expected = "absent",
                   .fix = "no element of this tile is a stride away"});
    }
  }
  CuteLayout cute{.swizzle = swizzle, .layout = layout_with(strides), .rows = rows, .cols = cols, .element_bits = bits};
  if (tile.stages > 1) {
    const int64_t last = offset_of(cute.layout, rows - 1, cols - 1) * bits / 8;
    const int64_t pattern = cute.swizzle.pattern_bytes();
    const int64_t bytes = (last / pattern + 1) * pattern;
    cute.more = {{{.extent = tile.stages, .stride = bytes * 8 / bits}}};
  }
  return cute;
}

std::vector<Violation> warnings_of_extents(const CuteLayout& cute, const DescriptorRequest& request) {
  std::vector<Violation> unusual;
  const int64_t rows = request.instruction_rows == 0 ? cute.rows : request.instruction_rows;
  if (rows % 8 != 0 || request.instruction_rows > 256) {
    unusual.push_back({.field = "rows of an instruction",
                       .seen = std::to_string(rows),
                       .expected = "a multiple of 8, at most 256: M or N",
                       .fix = "set it with --instruction-rows"});
  }
  const int64_t k = request.instruction_cols, bits = k * cute.element_bits;
  const bool is_k_96 = bits == 384 && cute.element_bits == 4;
  if (k > 0 && bits != 256 && !is_k_96) {
    unusual.push_back({.field = "K of an instruction",
                       .seen = std::to_string(k),
                       .expected = bits == 512
                                       ? fmt::format("{} if the operand is not B of a sparse instruction", k / 2)
                                       : fmt::format("{}, or {} for B of a sparse instruction", 256 / cute.element_bits,
                                                     512 / cute.element_bits)});
  }
  return as_warnings(std::move(unusual));
}

Report describe_entry(const Map& map, const MapEntry& entry) {
  Report report = Report::object();
  for (size_t i = 0; i < map.axes.size(); ++i) {
    if (map.axes[i].kind != AxisKind::array_only) report.add(std::string(map.axes[i].name), entry[i]);
  }
  return report;
}

std::string csv_heading(const Map& map) {
  std::string line;
  for (const MapAxis& axis : map.axes) {
    if (is_in_csv(axis)) line += fmt::format("{}{}", line.empty() ? "" : ",", axis.name);
  }
  return line + "\n";
}

std::string csv_line(const Map& map, const MapEntry& entry) {
  std::string line;
  for (size_t i = 0; i < map.axes.size(); ++i) {
    if (is_in_csv(map.axes[i])) line += fmt::format("{}{}", line.empty() ? "" : ",", entry[i]);
  }
  return line + "\n";
}

}  // namespace bitmma
