// SPDX-License-Identifier: MIT
// Maps of all elements as integer arrays; decodes and encodes descriptors.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "binding.hpp"
#include "bitmma/analysis/describe.hpp"
#include "bitmma/analysis/describe_chain.hpp"
#include "bitmma/analysis/draw.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/register_map.hpp"
#include "bitmma/instruction/sass.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/layout/algebra.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/bank_conflicts.hpp"
#include "bitmma/memory/map.hpp"
#include "bitmma/memory/metadata_order.hpp"
#include "bitmma/memory/sparse_matrix.hpp"
#include "bitmma/memory/tma.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

constexpr int64_t most_places = int64_t{1} << 26;

/// The arrays of a map as a dict: the keys are the names of its axes, the shapes are the axes of the elements.
nb::dict arrays_of(const Map& map) {
  std::vector<int64_t> shape;
  for (const size_t axis : map.element_axes()) shape.push_back(map.axes[axis].extent);
  int64_t places = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && places > most_places / extent))
      throw Error({.field = "shape",
                   .seen = std::to_string(extent),
                   .expected = "extents of 0 or more, of at most 2^26 elements"});
    places *= extent;
  }
  nb::dict arrays;
  std::deque<Buffer> buffers;
  std::vector<std::pair<size_t, int64_t*>> columns;
  for (size_t axis = 0; axis < map.axes.size(); ++axis) {
    if (map.axes[axis].kind == AxisKind::element || map.axes[axis].kind == AxisKind::json_only) continue;
    const nb::object array = numpy_array(std::span(shape), "int64");
    arrays[nb::str(map.axes[axis].name.data(), map.axes[axis].name.size())] = array;
    columns.emplace_back(axis, static_cast<int64_t*>(buffers.emplace_back(array, "places", true).data()));
  }
  int64_t next = 0;
  const Unlocked unlocked;
  map.for_each({}, [&](const MapEntry& entry) {
    for (const auto& [axis, values] : columns) values[next] = entry[axis];
    ++next;
  });
  return arrays;
}

std::string svg_of(const Map& map, std::optional<int64_t> lines, std::optional<int64_t> columns) {
  const Unlocked unlocked;
  return to_svg(picture_of(map, {}, {.lines = lines, .columns = columns}));
}

Major parse_major(std::string_view name) {
  if (name == "k" || name == "k-major") return Major::k;
  if (name == "mn" || name == "mn-major") return Major::mn;
  throw Error({.code = ViolationCode::unknown_name, .field = "major", .seen = std::string(name), .legal = {"k", "mn"}});
}

void require_element_bits(int bits) {
  if (bits == 1 || bits == 4 || bits == 6 || bits == 8 || bits == 16 || bits == 32) return;
  throw Error({.field = "element_bits", .seen = std::to_string(bits), .legal = {"1", "4", "6", "8", "16", "32"}});
}

MetadataImage metadata_image(int64_t rows, int64_t cols, std::string_view order, int element_bits, int64_t tile_k) {
  return {
      .order = metadata_order_named(order), .element_bits = element_bits, .rows = rows, .cols = cols, .tile_k = tile_k};
}

/// The image of [rows, chunks] nibbles, one a byte.
MetadataImage image_of_nibbles(const Buffer& nibbles, std::string_view order, int element_bits, int64_t tile_k) {
  if (nibbles.rank() != 2 || nibbles.item_bytes() != 1) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "metadata",
                 .seen = nibbles.shape(),
                 .expected = "uint8 [rows, chunks], four bits each"});
  }
  return metadata_image(nibbles.extent(0), nibbles.extent(1) * sparse_pattern(element_bits).chunk, order, element_bits,
                        tile_k);
}

nb::object bytes_array(const std::vector<uint8_t>& bytes) {
  nb::object array = numpy_array({static_cast<int64_t>(bytes.size())}, "uint8");
  const Buffer to(array, "bytes", true);
  std::ranges::copy(bytes, static_cast<uint8_t*>(to.data()));
  return array;
}

SmemMatrix smem_matrix(uint64_t word, int rows, int cols, int element_bits, std::string_view major,
                       std::string_view target) {
  if (rows < 0 || cols < 0 || rows > 1 << 20 || cols > 1 << 20)
    throw Error(
        {.field = "rows, cols", .seen = fmt::format("{}, {}", rows, cols), .expected = "0 or more, at most 2^20"});
  if (int64_t{rows} * cols > most_places)
    throw Error({.code = ViolationCode::too_large,
                 .field = "rows, cols",
                 .seen = fmt::format("{} x {}", rows, cols),
                 .expected = "at most 2^26 elements"});
  require_element_bits(element_bits);
  return {.descriptor = decode_smem_descriptor(target_from(target), word),
          .major = parse_major(major),
          .element_bits = element_bits,
          .rows = rows,
          .cols = cols};
}

/// The places of one operand where the instruction reads or writes it in a state.
Map map_in(const Case& this_case, std::string_view operand) {
  if (operand != "a" && operand != "b" && operand != "c" && operand != "d")
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "operand",
                 .seen = std::string(operand),
                 .legal = {"a", "b", "c", "d"}});
  const Role role = operand == "a" ? Role::a : operand == "b" ? Role::b : Role::d;
  const Mma mma = mma_of(this_case.instruction);
  const PlaceMap places(this_case.instruction, this_case.target, this_case.before, role);
  const auto axis = [](std::string_view name) { return MapAxis{.name = name}; };
  Map map;
  map.axes = {{.name = "row", .kind = AxisKind::element, .extent = role == Role::b ? mma.k : mma.m},
              {.name = "col", .kind = AxisKind::element, .extent = role == Role::a ? mma.stored_k() : mma.n}};
  const Place first = places.place_of(0, 0);
  if (std::holds_alternative<SmemRead>(first)) {
    for (const char* name : {"byte", "bit", "unswizzled"}) map.axes.push_back(axis(name));
  } else if (std::holds_alternative<RegisterPlace>(first)) {
    for (const char* name : {"thread", "register", "bit"}) map.axes.push_back(axis(name));
  } else {
    for (const char* name : {"cta", "lane", "column", "bit"}) map.axes.push_back(axis(name));
  }
  map.locate = [places](MapEntry& entry) {
    const Place place = places.place_of(static_cast<int>(entry[0]), static_cast<int>(entry[1]));
    if (const auto* smem = std::get_if<SmemRead>(&place)) {
      entry[2] = smem->place.byte, entry[3] = smem->place.bit, entry[4] = smem->linear;
    } else if (const auto* in = std::get_if<RegisterPlace>(&place)) {
      entry[2] = in->thread, entry[3] = in->reg, entry[4] = in->bit;
    } else {
      const auto& cell = std::get<TmemPlace>(place);
      entry[2] = cell.cta, entry[3] = cell.lane, entry[4] = cell.column, entry[5] = cell.bit;
    }
  };
  return map;
}

SmemDescriptor descriptor_of(std::string_view target, int64_t start, int64_t leading, int64_t stride, int base_offset,
                             std::string_view swizzle, bool leading_absolute) {
  const auto mode = swizzle_named(swizzle);
  if (!mode)
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "swizzle",
                 .seen = std::string(swizzle),
                 .legal = row_names(swizzles)});
  const Target on = target_from(target);
  SmemDescriptor descriptor{.target = on,
                            .start_address_bytes = start,
                            .strides = {.leading_dim_byte_offset = leading, .stride_dim_byte_offset = stride},
                            .base_offset = base_offset,
                            .swizzle = *mode,
                            .leading_dim_absolute = leading_absolute};
  return descriptor;
}

}  // namespace

void bind_layout(nb::module_& module) {
  nb::class_<Map>(module, "Map")
      .def_ro("cute", &Map::cute)
      .def("arrays", arrays_of)
      .def("extent", [](const Map& map, std::string_view axis) { return map.axes[map.axis(axis)].extent; })
      .def("width", [](const Map& map, std::string_view axis) { return map.axes[map.axis(axis)].width; })
      .def("step", [](const Map& map, std::string_view axis) { return map.axes[map.axis(axis)].step(); })
      .def("svg", svg_of, "lines"_a.none() = nb::none(), "columns"_a.none() = nb::none());
  module.def("smem_map", [](uint64_t word, int rows, int cols, int element_bits, std::string_view major,
                            std::string_view target, int code_bits) {
    return map_of(smem_matrix(word, rows, cols, element_bits, major, target), code_bits);
  });
  module.def("register_map", [](const BoundInstruction& instruction, std::string_view operand) {
    return register_map(instruction.value, default_target(instruction.value), operand);
  });
  module.def("tmem_d_map", [](int m, int n, int cta_group, bool ws, bool sparse, uint32_t address) {
    const TmemD d{
        .layout = find_tmem_layout(m, cta_group, ws, sparse), .n = n, .address = decode_tmem_address(address)};
    return nb::make_tuple(map_of(d), std::string(1, d.layout.name));
  });
  module.def("tmem_a_map",
             [](int m, int k, int element_bits, int cta_group, bool ws, bool sparse, uint32_t address, int code_bits) {
               require_element_bits(element_bits);
               return map_of(TmemA{.layout = find_tmem_layout(m, cta_group, ws, sparse),
                                   .element_bits = element_bits,
                                   .address = decode_tmem_address(address)},
                             k, code_bits_in_container(code_bits, element_bits));
             });
  module.def("ldst_map",
             [](std::string_view shape, int num, bool pack_16b) { return map_of(ldst_of(shape, num, pack_16b)); });
  module.def("ldmatrix_map", [](int count, bool transposed, bool store) {
    return map_of(LdMatrix{.count = count, .transposed = transposed, .store = store});
  });
  module.def("matrix_move_map", [](std::string_view text) {
    const LdMatrix move = parse_ldmatrix(text);
    return nb::make_tuple(map_of(move), move.registers(), move.element_bits());
  });
  module.def("tmem_metadata_map",
             [](int m, int k, int element_bits, int selector, int cta_group, bool ws, uint32_t address) {
               return map_of(TmemMetadata{.layout = find_tmem_layout(m, cta_group, ws, true),
                                          .element_bits = element_bits,
                                          .address = decode_tmem_address(address),
                                          .selector = selector,
                                          .k = k},
                             k);
             });
  module.def("metadata_map", [](int64_t rows, int64_t cols, std::string_view order, int element_bits, int64_t tile_k) {
    const MetadataImage image = metadata_image(rows, cols, order, element_bits, tile_k);
    return nb::make_tuple(map_of(image), image.bytes(), places_of_metadata(image).is_one_to_one());
  });
  module.def("pack_metadata", [](nb::handle nibbles, std::string_view order, int element_bits, int64_t tile_k) {
    const Buffer codes(nibbles, "metadata");
    const MetadataImage image = image_of_nibbles(codes, order, element_bits, tile_k);
    const auto* data = static_cast<const uint8_t*>(codes.data());
    return bytes_array(pack_metadata(image, std::span(data, static_cast<size_t>(codes.bytes()))));
  });
  module.def("unpack_metadata", [](nb::handle packed, int64_t rows, int64_t cols, std::string_view order,
                                   int element_bits, int64_t tile_k) {
    const Buffer bytes(packed, "metadata");
    const MetadataImage image = metadata_image(rows, cols, order, element_bits, tile_k);
    const auto* data = static_cast<const uint8_t*>(bytes.data());
    return bytes_array(unpack_metadata(image, std::span(data, static_cast<size_t>(bytes.bytes()))));
  });
  module.def("prune", [](nb::handle a, std::string_view pattern) {
    return array_of(prune(required_matrix_in(a, "a"), sparse_pattern_named(pattern)));
  });
  module.def("compress", [](nb::handle a, std::string_view pattern, std::string_view fill) {
    const CompressedMatrix compressed =
        compress(required_matrix_in(a, "a"), sparse_pattern_named(pattern), sparse_fill_named(fill));
    return nb::make_tuple(array_of(compressed.stored), bytes_array(compressed.nibbles));
  });
  module.def("decompress", [](nb::handle stored, nb::handle nibbles, std::string_view pattern) {
    const Buffer codes(nibbles, "metadata");
    const auto* data = static_cast<const uint8_t*>(codes.data());
    return array_of(decompress(required_matrix_in(stored, "values"),
                               std::span(data, static_cast<size_t>(codes.bytes())), sparse_pattern_named(pattern)));
  });
  module.def("chain", [](const BoundInstruction& first, const BoundInstruction& second) {
    return from_report(describe_chain(first.value, second.value).report);
  });
  module.def("scale_map", [](int64_t rows, int64_t blocks) {
    const ScaleImage image{.rows = rows, .blocks = blocks};
    return nb::make_tuple(map_of(image), image.bytes());
  });
  module.def("cute_map", [](std::string_view text, int element_bits) {
    require_element_bits(element_bits);
    return map_of(parse_cute(text, element_bits));
  });
  module.def("tma_map", [](int64_t rows, int64_t cols, std::string_view swizzle, int element_bits,
                           std::string_view major, int64_t box_inner, int64_t box_outer, int64_t start) {
    const auto mode = swizzle_named(swizzle);
    if (!mode)
      throw Error({.code = ViolationCode::unknown_name,
                   .field = "swizzle",
                   .seen = std::string(swizzle),
                   .legal = row_names(swizzles)});
    return map_of(TmaTile{.swizzle = *mode,
                          .major = parse_major(major),
                          .element_bits = element_bits,
                          .rows = rows,
                          .cols = cols,
                          .box_inner = box_inner,
                          .box_outer = box_outer,
                          .start_bytes = start});
  });
  module.def("bank_use", [](const std::vector<int64_t>& addresses, int bytes) {
    const BankUse use = bank_use(addresses, bytes);
    return nb::make_tuple(use.wavefronts, use.requests, std::vector<int>(use.words.begin(), use.words.end()));
  });
  module.def(
      "layout_algebra",
      [](std::string_view operation, std::string_view first, std::optional<std::string_view> second) {
        const Unlocked unlocked;
        return print(apply_layout_operation(operation, first, second));
      },
      "operation"_a, "first"_a, "second"_a.none());
  module.def("layout_offsets", [](std::string_view text) {
    const Unlocked unlocked;
    const AlgebraLayout layout = parse_algebra_layout(text);
    std::vector<int64_t> offsets;
    for (int64_t index = 0; index < layout.size(); ++index) offsets.push_back(layout(index));
    return offsets;
  });
  module.def("operand_map",
             [](const BoundCase& bound, std::string_view operand) { return map_in(bound.value, operand); });

  module.def(
      "decode_smem",
      [](uint64_t word, std::string_view target, std::optional<std::string_view> major) {
        SmemWord type{.target = target_from(target)};
        if (major) type.major = parse_major(*major);
        return from_report(describe(type, word));
      },
      "word"_a, "target"_a, "major"_a.none());
  module.def(
      "describe_ptx_file",
      [](std::string_view name, std::string_view text, std::optional<std::string_view> target) {
        const Report report = [&] {
          const Unlocked unlocked;
          return describe_file(name, text, target ? std::optional(target_from(*target)) : std::nullopt).report;
        }();
        return from_report(report);
      },
      "name"_a, "text"_a, "target"_a.none());
  module.def(
      "is_sass", [](std::string_view text) { return scan_sass(text).has_value(); }, "text"_a);
  module.def("decode_idesc", [](std::string_view kind, uint32_t word) {
    return from_report(describe(InstructionWord{.kind = parse_kind(kind)}, word));
  });
  module.def("encode_smem", [](std::string_view target, int64_t start, int64_t leading, int64_t stride, int base_offset,
                               std::string_view swizzle, bool leading_absolute) {
    return encode(descriptor_of(target, start, leading, stride, base_offset, swizzle, leading_absolute));
  });
  module.def("encode_idesc", [](const BoundInstruction& instruction) {
    const auto* mma = std::get_if<Tcgen05Mma>(&instruction.value);
    if (!mma)
      throw Error({.code = ViolationCode::wrong_instruction,
                   .field = "instruction",
                   .seen = print(instruction.value),
                   .expected = "a tcgen05.mma: other instructions have no instruction descriptor"});
    return idesc_of(*mma);
  });
}

}  // namespace bitmma::python
