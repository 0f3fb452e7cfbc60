// SPDX-License-Identifier: MIT
// tensormap.replace and tensormap.cp_fenceproxy: kernels that create or change tensor maps.
#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/bits.hpp"
#include "decode.hpp"
#include "tensor_map.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

enum class MapField : uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  swizzle_atomicity,
  fill_mode,
};
struct MapFieldInfo {
  MapField id;
  Word name;
  int ordinals = 0;  // 0: the field takes no ordinal
};
constexpr auto map_fields = std::to_array<MapFieldInfo>({
    {MapField::global_address, Word::global_address},
    {MapField::rank, Word::rank},
    {MapField::box_dim, Word::box_dim, 5},
    {MapField::global_dim, Word::global_dim, 5},
    {MapField::global_stride, Word::global_stride, 4},
    {MapField::element_stride, Word::element_stride, 5},
    {MapField::elemtype, Word::elemtype},
    {MapField::interleave_layout, Word::interleave_layout},
    {MapField::swizzle_mode, Word::swizzle_mode},
    {MapField::swizzle_atomicity, Word::swizzle_atomicity},
    {MapField::fill_mode, Word::fill_mode},
});
static_assert(are_in_enum_order(map_fields));

struct ReplaceDetails {
  MapField field = MapField::rank;
  size_t ordinal = 0;
  Address address = {};
  bool wide_value = false;
};

void replace(PackedTensorMap& map, const ReplaceDetails& details, uint64_t value, int lane) {
  const MapFieldInfo& field = map_fields[static_cast<size_t>(details.field)];
  const auto require = [&](bool holds, std::string expected) {
    if (!holds)
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("{} {} of a tensor map", print(field.name), value),
            std::move(expected));
  };
  switch (details.field) {
    case MapField::global_address: map.address = value; break;
    case MapField::rank:
      require(value < 5, "0 to 4, the number of dimensions minus one");
      map.rank = static_cast<uint8_t>(value + 1);
      break;
    case MapField::box_dim:
      require(value >= 1 && value <= 256, "1 to 256");
      map.box[details.ordinal] = static_cast<uint16_t>(value);
      break;
    case MapField::global_dim: map.sizes[details.ordinal] = value; break;
    case MapField::global_stride: map.strides_bytes[details.ordinal] = value; break;
    case MapField::element_stride:
      require(value >= 1 && value <= 8, "1 to 8");
      map.element_strides[details.ordinal] = static_cast<uint8_t>(value);
      break;
    case MapField::elemtype:
      require(value < map_types.size(), fmt::format("0 to {}", map_types.size() - 1));
      map.type = static_cast<uint8_t>(value);
      map.has_type = true;
      break;
    case MapField::interleave_layout: require(value == 0, "0, no interleaving"); break;
    case MapField::swizzle_mode:
      require(value < 4, "0 to 3: none, 32, 64 or 128 bytes");
      map.swizzle = static_cast<uint8_t>(value);
      break;
    case MapField::swizzle_atomicity:
      require(value == 0 || value == 1 || value == 3, "0, 16 bytes, 1, 32 bytes, or 3, 64 bytes");
      map.swizzle_atomicity = static_cast<uint8_t>(value);
      break;
    case MapField::fill_mode:
      require(value < 2, "0, zeros, or 1, NaN");
      map.fills_with_nan = value != 0;
      break;
  }
}

constexpr int unit = 16;  // bytes per access

void run_replace(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const ReplaceDetails*>(op.details);
  for_each_lane(mask, [&](int lane) {
    const uint64_t address = details.address.of(warp, lane);
    const uint64_t value =
        details.wide_value ? warp.lanes_of<const uint64_t>(op.b)[lane] : warp.lanes_of<const uint32_t>(op.b)[lane];
    if (address % tensor_map_bytes != 0)
      fault(ViolationCode::misaligned, lane, fmt::format("a tensor map at {:#x}", address), "a multiple of 128");
    std::array<uint8_t*, used_map_bytes / unit> places{};
    std::array<uint8_t, tensor_map_bytes> bytes{};
    for (size_t i = 0; i < places.size(); ++i) {
      places[i] = locate(warp, op, lane, details.address.space, address + unit * i, unit, AccessKind::atomic);
      std::memcpy(bytes.data() + unit * i, places[i], unit);
    }
    PackedTensorMap map = PackedTensorMap::of(bytes);
    replace(map, details, value, lane);
    bytes = map.bytes();
    for (size_t i = 0; i < places.size(); ++i) std::memcpy(places[i], bytes.data() + unit * i, unit);
  });
}

struct CopyMapDetails {
  Address to = {}, from = {};
};

/// One copy for the warp, ordered before tensor copies that use the map.
void run_copy_map(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const CopyMapDetails*>(op.details);
  const int lane = __builtin_ctz(mask);
  const uint64_t to = details.to.of(warp, lane), from = details.from.of(warp, lane);
  const auto is_written = [&](uint64_t address) {
    const std::vector<uint8_t>& states = warp.cta->shared_states;
    const uint64_t at = address & low_mask(shared_rank_bits);
    return at + unit > states.size() ||
           std::all_of(&states[at], &states[at] + unit, [](uint8_t state) { return state == written; });
  };
  for (uint64_t i = 0; i < tensor_map_bytes; i += unit) {
    // A kernel may have made only the bytes that copies read.
    if (i >= used_map_bytes && !is_written(from + i)) continue;
    std::array<uint8_t, unit> data;
    std::memcpy(data.data(), locate(warp, op, lane, Space::shared, from + i, unit, AccessKind::read), unit);
    std::memcpy(locate(warp, op, lane, Space::global, to + i, unit, AccessKind::write), data.data(), unit);
  }
}

void decode_copy_map(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  for (const Word word :
       {Word::global, Word::shared_cta, Word::tensormap_generic, Word::release, Word::sync, Word::aligned}) {
    if (!words.take(word)) decoder.refuse(fmt::format("without .{}", print(word)));
  }
  words.take_one({Word::cta, Word::cluster, Word::gpu, Word::sys});
  decoder.require_operands(instruction, 3, 3);
  if (instruction.operands[2].kind != Kind::integer || instruction.operands[2].value != tensor_map_bytes)
    decoder.refuse("of another size than 128");
  const auto* details =
      decoder.keep(CopyMapDetails{.to = address_of(decoder, instruction.operands[0], Space::global),
                                  .from = address_of(decoder, instruction.operands[1], Space::shared)});
  const uint32_t members = decoder.constant(all_lanes, 4);
  Op& op = decoder.emit(run_copy_map);
  op.details = details;
  op.control = Control::converge;
  op.e = members;
}

void decode_tensormap(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (words.take(Word::cp_fenceproxy)) return decode_copy_map(decoder, instruction, words);
  if (!words.take(Word::replace) || !words.take(Word::tile)) decoder.refuse("not supported");
  ReplaceDetails replace_details;
  const MapFieldInfo* field = nullptr;
  for (const MapFieldInfo& row : map_fields) {
    if (words.take(row.name)) field = &row;
  }
  if (!field) decoder.refuse("without a field");
  replace_details.field = field->id;
  const Space space = words.take(Word::global)       ? Space::global
                      : words.take(Word::shared_cta) ? Space::shared
                                                     : Space::generic;
  const auto type = words.take_type();
  if (!words.take(Word::b1024) || (type != Type::b32 && type != Type::b64)) decoder.refuse("of another type");
  replace_details.wide_value = type == Type::b64;
  const size_t count = field->ordinals > 0 ? 3 : 2;
  decoder.require_operands(instruction, count, count);
  if (field->ordinals > 0) {
    const Operand& ordinal = instruction.operands[1];
    if (ordinal.kind != Kind::integer || ordinal.value >= static_cast<uint64_t>(field->ordinals))
      decoder.refuse("with an ordinal that is not a constant or not a dimension");
    replace_details.ordinal = ordinal.value;
  }
  replace_details.address = address_of(decoder, instruction.operands[0], space);
  const uint32_t b = decoder.read(instruction.operands.back(), *type);
  const auto* details = decoder.keep(replace_details);
  Op& op = decoder.emit(run_replace);
  op.details = details;
  op.b = b;
}

constexpr auto tensormap_rows = std::to_array<Opcode>({
    {.name = Word::tensormap,
     .does = "changes a field of a tensor map, or publishes one",
     .decode = decode_tensormap,
     .acts = acts},
});

}  // namespace

std::span<const Opcode> tensormap_opcodes() { return tensormap_rows; }

}  // namespace bitmma::kernel
