// SPDX-License-Identifier: MIT
#include "bitmma/memory/map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bitmma/core/interrupt.hpp"

namespace bitmma {
namespace {

constexpr int register_bits = 32;

MapAxis element(std::string_view name, int64_t extent) { return {name, AxisKind::element, extent}; }
MapAxis place(std::string_view name, int64_t extent, int64_t width = 1) {
  return {name, AxisKind::place, extent, width};
}

/// The axis of the bits of a word of 32 in containers of `container_bits`.
MapAxis bits_of_container(int container_bits, CodeBits code = {}) {
  if (code.bits == 0) return place("bit", register_bits, container_bits);
  return {"bit", AxisKind::place, register_bits, code.bits, container_bits};
}

/// Throws Error for a code that does not fit its container.
void require_fits(CodeBits code, int container_bits) {
  if (code.first >= 0 && code.bits >= 0 && code.first + code.bits <= container_bits) return;
  throw Error({.field = "bits of a code",
               .seen = fmt::format("{} from bit {}", code.bits, code.first),
               .expected = fmt::format("at most the {} of its container", container_bits)});
}

/// Adds the three axes of a place in registers, and their values.
void add_register_axes(Map& map, int threads, int registers, const MapAxis& bit) {
  for (const MapAxis& axis : {place("thread", threads), place("register", registers), bit}) map.axes.push_back(axis);
}
void put(MapEntry& entry, size_t first_axis, const RegisterPlace& place) {
  entry[first_axis] = place.thread, entry[first_axis + 1] = place.reg, entry[first_axis + 2] = place.bit;
}
void put(MapEntry& entry, size_t first_axis, const TmemPlace& place) {
  entry[first_axis] = place.cta, entry[first_axis + 1] = place.lane;
  entry[first_axis + 2] = place.column, entry[first_axis + 3] = place.bit;
}

/// Loops nest as in SmemMap and CuteLayout, which index with int.
int index(int64_t value) { return static_cast<int>(value); }

void require_inside(const MapAxis& axis, int64_t value) {
  const bool is_bounded = axis.kind == AxisKind::element || axis.extent > 0;
  if (value >= 0 && (!is_bounded || value < axis.extent)) return;
  throw Error({.field = std::string(axis.name),
               .seen = std::to_string(value),
               .expected = is_bounded ? fmt::format("0..{}", axis.extent - 1) : "0 or more"});
}

void add_warp_note(Map& map, int threads) {
  if (threads > 32) map.notes.emplace_back("rows 16-31, 32-47, 48-63: the same with threads +32, +64, +96");
}

void add_byte_axes(Map& map, int64_t rows, int64_t cols, int element_bits) {
  map.picture = MapPicture::shared_memory;
  map.axes = {element("row", rows), element("col", cols), place("byte", 0, std::max(1, element_bits / 8)),
              place("bit", 8, std::min(element_bits, 8))};
}

}  // namespace

std::optional<std::size_t> Map::find(std::string_view name) const {
  const auto at = std::ranges::find(axes, name, &MapAxis::name);
  if (at == axes.end()) return std::nullopt;
  return static_cast<std::size_t>(at - axes.begin());
}

std::size_t Map::axis(std::string_view name) const {
  if (const auto at = find(name)) return *at;
  std::vector<std::string> names;
  for (const MapAxis& axis : axes) names.emplace_back(axis.name);
  throw Error({.code = ViolationCode::unknown_name, .field = "axis", .seen = std::string(name), .legal = names});
}

std::vector<std::size_t> Map::element_axes() const {
  std::vector<std::size_t> element_axes;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].kind == AxisKind::element) element_axes.push_back(i);
  }
  return element_axes;
}

int64_t Map::size() const {
  int64_t size = 1;
  for (const std::size_t i : element_axes()) size *= axes[i].extent;
  return size;
}

MapEntry Map::place_of(std::initializer_list<int64_t> element) const {
  const std::vector<std::size_t> own = element_axes();
  if (element.size() != own.size())
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "element",
                 .seen = fmt::format("{} coordinates", element.size()),
                 .expected = std::to_string(own.size())});
  MapEntry entry{};
  for (std::size_t i = 0; i < own.size(); ++i) {
    entry[own[i]] = element.begin()[i];
    require_inside(axes[own[i]], entry[own[i]]);
  }
  locate(entry);
  return entry;
}

void Map::for_each(const MapQuestion& question, const std::function<void(const MapEntry&)>& visit) const {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (question[i]) require_inside(axes[i], *question[i]);
  }
  const std::vector<std::size_t> own = element_axes();
  MapEntry entry{};
  const auto fits = [&] {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const bool is_decided = holds && axes[i].kind == AxisKind::place;
      if (question[i] && !is_decided && (*question[i] < entry[i] || *question[i] >= entry[i] + axes[i].width))
        return false;
    }
    return !holds || holds(entry, question);
  };
  const auto visit_from = [&](const auto& self, std::size_t level) -> void {
    if (level == own.size()) {
      locate(entry);
      if (fits()) visit(entry);
      return;
    }
    check_interrupt();
    const std::size_t axis = own[level];
    const int64_t first = question[axis].value_or(0), end = question[axis] ? first + 1 : axes[axis].extent;
    for (int64_t value = first; value < end; ++value) {
      entry[axis] = value;
      self(self, level + 1);
    }
  };
  visit_from(visit_from, 0);
}

std::vector<MapEntry> Map::elements_at(const MapQuestion& question) const {
  std::vector<MapEntry> entries;
  for_each(question, [&](const MapEntry& entry) { entries.push_back(entry); });
  return entries;
}

Map map_of(const Fragment& fragment, bool is_b, CodeBits code) {
  require_fits(code, fragment.element_bits);
  const int per_register = fragment.elements_per_register(), registers = fragment.registers();
  const RegisterPlace first = place_of(fragment, 0, 0), last = place_of(fragment, 0, per_register - 1);
  Map map{.cute = print_cute(fragment),
          .columns_per_cell = first.thread == last.thread && first.reg == last.reg ? per_register : 1};
  map.axes = {element(is_b ? "n" : "row", fragment.rows), element(is_b ? "k" : "col", fragment.cols)};
  if (is_b) {
    map.axes.push_back({"row", AxisKind::json_only, fragment.rows});
    map.axes.push_back({"col", AxisKind::json_only, fragment.cols});
  }
  map.axes.push_back({"element", AxisKind::json_only, int64_t{per_register} * registers});
  const size_t at = map.axes.size();
  add_register_axes(map, fragment.threads, registers, bits_of_container(fragment.element_bits, code));
  map.locate = [fragment, per_register, at, code](MapEntry& entry) {
    RegisterPlace place = place_of(fragment, index(entry[0]), index(entry[1]));
    if (at == 5) entry[2] = entry[0], entry[3] = entry[1];
    entry[at - 1] = place.reg * per_register + (fragment.is_wide() ? 0 : place.bit / fragment.element_bits);
    place.bit += code.first;
    put(entry, at, place);
  };
  map.notes.push_back(fmt::format("CuTe (thread, value) -> row + {} * col: {}", fragment.rows, map.cute));
  map.notes.emplace_back("T thread, r register, as in the register figures of the PTX ISA (9.7.15.5.1.1, 9.7.14.5.14)");
  add_warp_note(map, fragment.threads);
  return map;
}

Map map_of(const MetadataLayout& layout, const Fragment& a, int selector) {
  Map map;
  map.axes = {element("row", a.rows), element("col", a.cols)};
  add_register_axes(map, a.threads, 1, bits_of_container(layout.field_bits));
  map.locate = [layout, selector](MapEntry& entry) {
    put(entry, 2, metadata_place_of(layout, index(entry[0]), index(entry[1]), selector));
  };
  map.notes.emplace_back("T thread, b lowest bit of the field in its register");
  add_warp_note(map, a.threads);
  return map;
}

Map map_of_mma_scales(bool is_a, int rows, int scales, int byte_id, int thread_id) {
  Map map;
  map.axes = {element(is_a ? "row" : "col", rows), element("scale", scales)};
  add_register_axes(map, 32, 1, bits_of_container(8));
  map.locate = [is_a, byte_id, thread_id](MapEntry& entry) {
    const auto place = is_a ? mma_scale_a_place : mma_scale_b_place;
    put(entry, 2, place(index(entry[0]), index(entry[1]), byte_id, thread_id));
  };
  map.notes.emplace_back("T thread, b lowest bit of the scale in its register");
  return map;
}

Map map_of(const LdMatrix& move) {
  require_legal(move);
  const bool is_packed = move.packed_bits != 0;
  Map map{.title = print(move), .columns_per_cell = move.transposed ? 1 : 32 / move.element_bits()};
  map.axes = {element("matrix", move.count), element("row", move.rows()), element("col", move.cols())};
  if (is_packed) map.axes.push_back({"row_bit", AxisKind::derived, 128});
  const size_t at = map.axes.size();
  add_register_axes(map, 32, move.registers(),
                    bits_of_container(move.element_bits(), {.first = 0, .bits = move.packed_bits}));
  map.locate = [move, at, is_packed](MapEntry& entry) {
    if (is_packed) entry[3] = entry[2] * move.packed_bits;
    put(entry, at, bitmma::place_of(move, {.matrix = index(entry[0]), .row = index(entry[1]), .col = index(entry[2])}));
  };
  map.notes.emplace_back("T thread, r register, b lowest bit");
  const int used = move.rows() * move.count;
  map.notes.push_back(fmt::format("thread {} * matrix + row supplies the address of a row{}", move.rows(),
                                  used == 32 ? ""
                                             : fmt::format("; the addresses of threads {}-31 are not used{}", used,
                                                           move.store || move.shape != LdMatrixShape::m8n8
                                                               ? ""
                                                               : "; sm_75 requires them to be valid, too")));
  if (is_packed) {
    map.notes.push_back(
        fmt::format("code c of a row is in its bits {0} c .. {0} c + {1} in memory, and in bits {1}:0 "
                    "of its byte in the register",
                    move.packed_bits, move.packed_bits - 1));
    map.notes.emplace_back(move.packed_bits == 4
                               ? "mma.sync .kind::f8f6f4 reads an e2m1 in bits 5:2: shift the registers left by 2"
                               : "mma.sync .kind::f8f6f4 reads 6-bit codes in bits 5:0: no shift");
  }
  return map;
}

Map map_of(const SmemMatrix& matrix, int code_bits) {
  const bool is_packed = code_bits != 0 && code_bits != matrix.element_bits;
  if (is_packed && (matrix.element_bits != 8 || (code_bits != 4 && code_bits != 6))) {
    throw Error({.field = "code bits",
                 .seen = std::to_string(code_bits),
                 .expected = matrix.element_bits == 8 ? "4, 6 or 8" : std::to_string(matrix.element_bits),
                 .fix = "4- and 6-bit codes have containers of 8 bits"});
  }
  const auto places = std::make_shared<const SmemMap>(matrix);
  Map map{.title = fmt::format("{}, {} x {} elements of {} bits", print(matrix.major), matrix.rows, matrix.cols,
                               matrix.element_bits),
          .cute = print_cute(matrix)};
  add_byte_axes(map, matrix.rows, matrix.cols, matrix.element_bits);
  map.axes.push_back({"unswizzled", AxisKind::array_only});
  if (is_packed) {
    map.title += fmt::format(", codes of {}", code_bits);
    map.axes[3].width = code_bits, map.axes[3].spacing = 8;
    map.holds = [code_bits](const MapEntry& entry, const MapQuestion& question) {
      const int64_t first = 8 * entry[2] + entry[3], last = first + code_bits - 1;
      if (!question[2]) return !question[3] || (*question[3] - first % 8 + 8) % 8 < code_bits;
      const int64_t bit = 8 * *question[2] + question[3].value_or(0), end = question[3] ? bit : bit + 7;
      return bit <= last && end >= first;
    };
    map.notes.push_back(
        fmt::format("the 16 codes of every 16 bytes follow each other from bit 0 of its first byte; "
                    "its last {} bytes are padding",
                    16 - 2 * code_bits));
  }
  map.locate = [places, is_packed, code_bits](MapEntry& entry) {
    SmemPlace place = places->place_of(index(entry[0]), index(entry[1]));
    if (is_packed) place = code_place(place, 8, code_bits);
    entry[2] = place.byte, entry[3] = place.bit;
    entry[4] = places->linear_of(index(entry[0]), index(entry[1]));
  };
  map.notes.push_back(fmt::format("{}   (in elements, from byte {:#x}; the swizzle acts on the byte address)", map.cute,
                                  matrix.descriptor.start_address_bytes));
  if (map.cute != print_hardware_cute(matrix)) {
    map.notes.push_back(fmt::format("{}   (K continues at LBO; the maps show it)", print_hardware_cute(matrix)));
    map.notes.push_back(wide_row_evidence(matrix));
  }
  map.notes.push_back(
      fmt::format("descriptor {:#018x} of {}", encode(matrix.descriptor), print(matrix.descriptor.target)));
  if (matrix.descriptor.leading_dim_absolute) return map;
  const SwizzleInfo& swizzle = info(matrix.descriptor.swizzle);
  const int width = swizzle.width_bytes * 8 / matrix.element_bits, atom = swizzle.rows_per_atom;
  const bool along_k = matrix.major == Major::k, plain = swizzle.bits == 0;
  const auto add_arrow = [&](std::string_view name, int64_t bytes, int row, int col) {
    if (row < matrix.rows && col < matrix.cols) map.arrows.push_back({fmt::format("{} {}", name, bytes), row, col});
  };
  const Strides& strides = matrix.descriptor.strides;
  const bool columns_lead = along_k || plain;
  add_arrow("LBO", strides.leading_dim_byte_offset, columns_lead ? 0 : width, along_k ? width : plain ? atom : 0);
  add_arrow("SBO", strides.stride_dim_byte_offset, along_k ? 8 : plain ? width : 0, columns_lead ? 0 : atom);
  return map;
}

Map map_of(const CuteLayout& cute) {
  if (cute.element_bits < 1 || cute.element_bits > 128)
    throw Error({.field = "element bits", .seen = std::to_string(cute.element_bits), .expected = "1..128"});
  Map map{.title = print(cute), .cute = print(cute)};
  add_byte_axes(map, cute.rows, cute.cols, cute.element_bits);
  map.locate = [cute](MapEntry& entry) {
    const int64_t bits = offset_of(cute.layout, entry[0], entry[1]) * cute.element_bits;
    entry[2] = apply(cute.swizzle, cute.start_bytes + bits / 8), entry[3] = bits % 8;
  };
  const std::string stages = cute.stages() == 1
                                 ? ""
                                 : fmt::format("; the first of {} stages, the next {:+} bytes on", cute.stages(),
                                               cute.stage_offset(1) * cute.element_bits / 8);
  map.notes.push_back(fmt::format("{} x {} elements of {} bits; strides in elements, the swizzle on byte addresses{}",
                                  cute.rows, cute.cols, cute.element_bits, stages));
  for (const std::string& remark : cute.remarks) map.notes.push_back("read as: " + remark);
  return map;
}

Map map_of(const TmemD& d) {
  require_fits(d);
  Map map{.cute = print_cute(TmemD{.layout = d.layout, .n = d.n}), .picture = MapPicture::tensor_memory};
  map.axes = {element("row", d.layout.m), element("col", d.n),           place("cta", d.layout.cta_group),
              place("lane", tmem_lanes),  place("column", tmem_columns), place("bit", 32, 32)};
  map.notes.push_back("CuTe: " + map.cute);
  map.locate = [d](MapEntry& entry) { put(entry, 2, d.place_of(index(entry[0]), index(entry[1]))); };
  return map;
}

Map map_of(const TmemA& a, int k, CodeBits code) {
  require_fits(a, k);
  require_fits(code, a.element_bits);
  Map map{.picture = MapPicture::tensor_memory};
  map.axes = {element("row", a.layout.m), element("col", k)};
  const bool has_copies = a.copies() > 1;
  if (has_copies) map.axes.push_back(element("copy", a.copies()));
  const size_t at = map.axes.size();
  for (const MapAxis& axis : {place("cta", a.layout.cta_group), place("lane", tmem_lanes),
                              place("column", tmem_columns), bits_of_container(a.element_bits, code)})
    map.axes.push_back(axis);
  map.locate = [a, at, has_copies, code](MapEntry& entry) {
    TmemPlace tmem_place = a.place_of(index(entry[0]), index(entry[1]), has_copies ? index(entry[2]) : 0);
    tmem_place.bit += code.first;
    put(entry, at, tmem_place);
  };
  if (has_copies) map.notes.emplace_back("copy p of A is for the p-th part of N; all copies must be written");
  return map;
}

Map map_of(const TmemMetadata& metadata, int k) {
  require_fits(metadata);
  const int chunk = sparse_pattern(metadata.element_bits, metadata.single_elements ? 1 : 0).chunk;
  if (k < chunk || k % chunk != 0)
    throw Error({.field = "k", .seen = std::to_string(k), .expected = fmt::format("a multiple of {}", chunk)});
  Map map{.picture = MapPicture::tensor_memory};
  map.axes = {element("row", metadata.layout.m), element("chunk", k / chunk)};
  const bool has_copies = metadata.layout.n_parts > 1;
  if (has_copies) map.axes.push_back(element("copy", metadata.layout.n_parts));
  map.axes.push_back({"k", AxisKind::derived, k});
  const size_t at = map.axes.size();
  for (const MapAxis& axis : {place("cta", metadata.layout.cta_group), place("lane", tmem_lanes),
                              place("column", tmem_columns), bits_of_container(4)})
    map.axes.push_back(axis);
  map.locate = [metadata, chunk, at, has_copies](MapEntry& entry) {
    entry[at - 1] = entry[1] * chunk;
    put(entry, at, metadata.place_of(index(entry[0]), index(entry[1]) * chunk, has_copies ? index(entry[2]) : 0));
  };
  if (has_copies)
    map.notes.emplace_back("copy p of the metadata is for the p-th part of N; all copies must be written");
  return map;
}

Map map_of(const MetadataImage& image) {
  require_legal(image);
  Map map{.cute = print_cute(image), .picture = MapPicture::metadata};
  map.axes = {element("row", image.rows),
              element("chunk", image.chunks()),
              {"k", AxisKind::derived, image.cols},
              place("byte", 0),
              place("bit", 8, 4)};
  map.locate = [image](MapEntry& entry) {
    const int64_t bit = image.bit_of(entry[0], entry[1]);
    entry[2] = entry[1] * image.pattern().chunk, entry[3] = bit / 8, entry[4] = bit % 8;
  };
  return map;
}

Map map_of(const LdSt& move) {
  require_legal(move);
  Map map{.picture = MapPicture::cells};
  map.axes = {element("thread", 32), element("register", move.registers()), element("half", 2), place("lane", 32),
              place("column", 0)};
  map.locate = [move](MapEntry& entry) {
    const TmemAddress cell = move.place_of(index(entry[0]), index(entry[1]), index(entry[2]));
    entry[3] = cell.lane, entry[4] = cell.column;
  };
  map.notes.emplace_back(
      "lanes of one warp's partition, columns from the address; T thread, r register (PTX ISA 9.7.16.2.3)");
  if (move.pack_16b) map.notes.emplace_back("l, h: lower and upper half of the register");
  return map;
}

Map map_of(const ScaleImage& image) {
  Map map{.title = fmt::format("scales in shared memory: {} bytes of {} rows x {} blocks", image.bytes(), image.rows,
                               image.blocks),
          .notes = {"CuTe of a tile, (row, block) -> byte: ((32,4),4):((16,4),1)",
                    "a line is 16 bytes, which tcgen05.cp .32x128b.warpx4 copies to one lane; R row, b block"},
          .picture = MapPicture::scale_image};
  map.axes = {element("row", image.rows),
              element("block", image.blocks),
              {"tile", AxisKind::derived, image.row_tiles() * image.block_tiles()},
              place("image_byte", 0)};
  map.locate = [image](MapEntry& entry) {
    entry[2] = image.tile_of(entry[0], entry[1]), entry[3] = image.offset_of(entry[0], entry[1]);
  };
  return map;
}

Map map_of(const TmemScales& scales, const ScaleImage& image) {
  Map map{.picture = MapPicture::scales};
  map.axes = {element("row", image.rows),  element("block", image.blocks),    {"row_major_byte", AxisKind::derived},
              {"tile", AxisKind::derived}, {"image_byte", AxisKind::derived}, element("replica", scales.replicas()),
              place("lane", tmem_lanes),   place("column", tmem_columns),     place("byte", 4)};
  map.locate = [scales, image](MapEntry& entry) {
    const TmemPlace tmem_place = scales.place_of(index(entry[0]), index(entry[1]), index(entry[5]));
    entry[2] = entry[0] * image.blocks + entry[1];
    entry[3] = image.tile_of(entry[0], entry[1]), entry[4] = image.offset_of(entry[0], entry[1]);
    entry[6] = tmem_place.lane, entry[7] = tmem_place.column, entry[8] = tmem_place.bit / 8;
  };
  return map;
}

}  // namespace bitmma
