#include "bitmma/instruction/tmem_move.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

namespace bitmma {
namespace {

constexpr auto shapes = std::to_array<CpShape>({
    {.name = "128x256b", .multicast = "", .rows = 128, .row_bytes = 32},
    {.name = "128x128b", .multicast = "", .rows = 128, .row_bytes = 16},
    {.name = "4x256b", .multicast = "", .rows = 4, .row_bytes = 32},
    {.name = "64x128b", .multicast = ".warpx2::02_13", .rows = 64, .row_bytes = 16, .copies = 2},
    {.name = "64x128b", .multicast = ".warpx2::01_23", .rows = 64, .row_bytes = 16, .copies = 2},
    {.name = "32x128b", .multicast = ".warpx4", .rows = 32, .row_bytes = 16, .copies = 4},
});

/// How a source format packs sixteen codes into sixteen bytes, and what they become: one byte each.
struct SourceFormat {
  std::string_view name;
  int code_bits = 0;
  int shift = 0;  // of the code in its byte: as A in Tensor Memory wants it (model choice, see container_shift)
};
constexpr auto source_formats = std::to_array<SourceFormat>({{"b4x16_p64", 4, 2}, {"b6x16_p32", 6, 0}});

constexpr int partition_lanes = 32, shift_columns = 8, warp_threads = 32;

[[noreturn]] void refuse(std::string field, std::string seen, std::string legal, std::string fix,
                         std::string_view source) {
  throw Error({.field = std::move(field),
               .seen = std::move(seen),
               .legal = std::move(legal),
               .fix = std::move(fix),
               .source = std::string(source)});
}

std::string_view section(MoveKind kind) {
  return kind == MoveKind::cp      ? "PTX ISA 9.7.16.9.1"
         : kind == MoveKind::shift ? "PTX ISA 9.7.16.9.3"
                                   : "PTX ISA 9.7.16.8";
}

/// Takes `prefix` off the front of `text`.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

TmemMove parse_ldst(MoveKind kind, std::string_view text) {
  TmemMove move{.kind = kind};
  const std::string_view name = kind == MoveKind::ld ? "ld" : "st",
                         packing = kind == MoveKind::ld ? ".pack::16b" : ".unpack::16b";
  const std::string grammar = fmt::format("write tcgen05.{}.sync.aligned.SHAPE.xNUM{{{}}}.b32", name, packing);
  if (!take(text, ".sync.aligned."))
    refuse("qualifier", std::string(text), ".sync.aligned after the name", grammar, section(kind));
  const std::string_view shape = text.substr(0, text.find('.'));
  const auto row = std::ranges::find(ldst_shapes, shape, &LdStInfo::name);
  if (row == ldst_shapes.end())
    refuse("shape", std::string(shape), "32x32b, 16x64b, 16x128b, 16x256b or 16x32bx2", grammar, section(kind));
  move.ldst.shape = row->id;
  text.remove_prefix(shape.size());
  const std::string_view num = text.substr(0, text.find('.', 1));
  if (!take(text, ".x")) refuse(".num", std::string(num), ".x1 .. .x128", grammar, section(kind));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), move.ldst.num);
  if (error != std::errc{}) refuse(".num", std::string(num), ".x1 .. .x128", grammar, section(kind));
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  require_legal(move.ldst);
  move.ldst.pack_16b = take(text, packing);
  if (text != ".b32")
    refuse("qualifier", std::string(text), fmt::format("{{{}}}.b32 at the end", packing), grammar, section(kind));
  return move;
}

TmemMove parse_cp(std::string_view text) {
  constexpr std::string_view grammar =
      "write tcgen05.cp.cta_group::G.SHAPE{.MULTICAST}{.b8x16.b4x16_p64|.b8x16.b6x16_p32}";
  TmemMove move{.kind = MoveKind::cp};
  const auto fail = [&](std::string field, std::string_view seen, std::string legal) {
    refuse(std::move(field), seen.empty() ? "(nothing)" : std::string(seen), std::move(legal), std::string(grammar),
           section(MoveKind::cp));
  };
  if (take(text, ".cta_group::2"))
    move.cta_group = 2;
  else if (!take(text, ".cta_group::1"))
    fail("qualifier", text, ".cta_group::1 or .cta_group::2 here; it is mandatory");
  std::optional<int> shape;
  for (int i = 0; i < static_cast<int>(shapes.size()); ++i) {
    const CpShape& row = shapes[static_cast<size_t>(i)];
    std::string_view rest = text;
    // Where a shape has no multicast, none may follow.
    if (take(rest, fmt::format(".{}{}", row.name, row.multicast)) && !rest.starts_with(".warpx"))
      shape = i, move.cp_shape = i;
  }
  if (!shape) {
    fail("shape", text, "128x256b, 128x128b, 4x256b, 64x128b.warpx2::02_13, 64x128b.warpx2::01_23 or 32x128b.warpx4");
  }
  text.remove_prefix(1 + move.shape().name.size() + move.shape().multicast.size());
  for (const SourceFormat& format : source_formats) {
    if (take(text, fmt::format(".b8x16.{}", format.name))) move.source_format = std::string(format.name);
  }
  if (!text.empty()) fail("qualifier", text, "nothing, .b8x16.b4x16_p64 or .b8x16.b6x16_p32");
  return move;
}

TmemMove parse_shift(std::string_view text) {
  TmemMove move{.kind = MoveKind::shift};
  // ptxas takes both orders, PTX's grammar and its examples having one each.
  if (text == ".cta_group::1.down" || text == ".down.cta_group::1") return move;
  move.cta_group = 2;
  if (text == ".cta_group::2.down" || text == ".down.cta_group::2") return move;
  refuse("qualifier", std::string(text), ".cta_group::1.down or .cta_group::2.down", "", section(MoveKind::shift));
}

/// Ranges that ld and st may touch: the 32 lanes of the warp and the columns that are given.
struct LdStPlaces {
  const TmemMove& move;
  const TmemMoveMachine& machine;
  TmemAddress base;

  TmemAddress place_of(int thread, int reg, int half) const {
    TmemAddress place = move.ldst.place_of(thread, reg, half);
    place.lane += base.lane;
    place.column += base.column;
    if (move.ldst.shape == LdStShape::s16x32bx2 && thread >= 16) {
      place.lane += static_cast<int>(move.half_split_offset >> 16);
      place.column += static_cast<int>(move.half_split_offset & 0xFFFF);
    }
    return place;
  }
  size_t cell_of(int thread, int reg, int half) const {
    const TmemAddress place = place_of(thread, reg, half);
    return static_cast<size_t>(place.lane) * static_cast<size_t>(machine.columns) + static_cast<size_t>(place.column);
  }
};

LdStPlaces require_ldst(const TmemMove& move, const TmemMoveMachine& machine) {
  const LdStPlaces places{move, machine, decode_tmem_address(machine.taddr)};
  std::vector<Violation> violations;
  const auto check = [&](bool holds, std::string field, std::string seen, std::string legal, std::string fix) {
    if (!holds)
      violations.push_back({.field = std::move(field),
                            .seen = std::move(seen),
                            .legal = std::move(legal),
                            .fix = std::move(fix),
                            .source = std::string(section(move.kind))});
  };
  check(machine.warp >= 0 && machine.warp < 4, "warp", std::to_string(machine.warp), "0..3",
        "the index of the warp in its warpgroup");
  check(places.base.lane / partition_lanes == machine.warp, "taddr lane", std::to_string(places.base.lane),
        fmt::format("{}..{}", partition_lanes * machine.warp, partition_lanes * machine.warp + partition_lanes - 1),
        fmt::format("warp {} of a warpgroup reaches these lanes only", machine.warp));
  const bool whole = move.ldst.shape == LdStShape::s32x32b;
  check(places.base.lane % (whole ? partition_lanes : 16) == 0, "taddr lane", std::to_string(places.base.lane),
        whole ? "a multiple of 32" : "a multiple of 16", "");
  if (violations.empty()) {
    int last_column = 0;
    bool lanes_fit = true;
    const int half = move.ldst.pack_16b ? 1 : 0;
    for (int thread = 0; thread < warp_threads; ++thread) {
      for (int reg = 0; reg < move.ldst.registers(); ++reg) {
        const TmemAddress place = places.place_of(thread, reg, half);
        last_column = std::max(last_column, place.column);
        lanes_fit &= place.lane / partition_lanes == machine.warp;
      }
    }
    check(lanes_fit, "half-split offset", fmt::format("{:#x}", move.half_split_offset), "lanes of the same warp",
          "the upper half of the offset counts lanes");
    check(last_column < machine.columns, "columns", fmt::format("{}..{}", places.base.column, last_column),
          fmt::format("inside the {} columns of Tensor Memory that are given", machine.columns), "");
  }
  if (move.kind == MoveKind::st) {
    const size_t expected = static_cast<size_t>(warp_threads * move.ldst.registers());
    check(machine.regs.size() == expected, "regs", std::to_string(machine.regs.size()), std::to_string(expected),
          "32 threads, thread-major");
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return places;
}

TmemMoveResult load(const TmemMove& move, const TmemMoveMachine& machine) {
  const LdStPlaces places = require_ldst(move, machine);
  TmemMoveResult result;
  for (int thread = 0; thread < warp_threads; ++thread) {
    for (int reg = 0; reg < move.ldst.registers(); ++reg) {
      uint32_t word = machine.tmem[places.cell_of(thread, reg, 0)];
      if (move.ldst.pack_16b) word = (word & 0xFFFF) | machine.tmem[places.cell_of(thread, reg, 1)] << 16;
      result.regs.push_back(word);
    }
  }
  return result;
}

TmemMoveResult store(const TmemMove& move, const TmemMoveMachine& machine) {
  const LdStPlaces places = require_ldst(move, machine);
  TmemMoveResult result{.regs = {}, .tmem = {machine.tmem.begin(), machine.tmem.end()}};
  for (int thread = 0; thread < warp_threads; ++thread) {
    for (int reg = 0; reg < move.ldst.registers(); ++reg) {
      const uint32_t word = machine.regs[static_cast<size_t>(thread * move.ldst.registers() + reg)];
      uint32_t& first = result.tmem[places.cell_of(thread, reg, 0)];
      if (!move.ldst.pack_16b) {
        first = word;
        continue;
      }
      uint32_t& second = result.tmem[places.cell_of(thread, reg, 1)];
      first = (first & 0xFFFF0000) | (word & 0xFFFF);
      second = (second & 0xFFFF0000) | word >> 16;
    }
  }
  return result;
}

SmemMatrix source_matrix(const TmemMove& move, uint64_t s_desc) {
  return {.descriptor = decode_smem_descriptor(Arch::sm_100a, s_desc),
          .major = Major::k,
          .element_bits = 8,
          .rows = move.shape().rows,
          .cols = move.shape().row_bytes};
}

/// Sixteen packed codes as sixteen bytes.
std::array<uint8_t, 16> unpack(const SourceFormat& format, std::span<const uint8_t, 16> packed) {
  std::array<uint8_t, 16> bytes{};
  for (int i = 0; i < 16; ++i) {
    const int bit = i * format.code_bits;
    const uint32_t word =
        packed[static_cast<size_t>(bit / 8)] | uint32_t{packed[static_cast<size_t>(std::min(bit / 8 + 1, 15))]} << 8;
    bytes[static_cast<size_t>(i)] =
        static_cast<uint8_t>((word >> bit % 8 & low_mask(format.code_bits)) << format.shift);
  }
  return bytes;
}

TmemMoveResult copy(const TmemMove& move, const TmemMoveMachine& machine) {
  const CpShape& shape = move.shape();
  const TmemAddress base = decode_tmem_address(machine.taddr);
  const int columns = shape.row_bytes / 4, last_lane = lane_of(shape, shape.rows - 1, shape.copies - 1);
  std::vector<Violation> violations;
  if (base.lane + last_lane >= tmem_lanes) {
    violations.push_back(
        {.field = "taddr lane",
         .seen = std::to_string(base.lane),
         .legal =
             fmt::format("0{}", last_lane == tmem_lanes - 1 ? "" : fmt::format("..{}", tmem_lanes - 1 - last_lane)),
         .fix = fmt::format("{} reaches {} lanes further", shape.name, last_lane),
         .source = std::string(section(move.kind))});
  }
  if (base.column + columns > machine.columns) {
    violations.push_back(
        {.field = "columns",
         .seen = fmt::format("{}..{}", base.column, base.column + columns - 1),
         .legal = fmt::format("inside the {} columns of Tensor Memory that are given", machine.columns),
         .fix = "",
         .source = std::string(section(move.kind))});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const auto format = std::ranges::find(source_formats, std::string_view(move.source_format), &SourceFormat::name);
  const SmemMap map(source_matrix(move, machine.s_desc));
  TmemMoveResult result{.regs = {}, .tmem = {machine.tmem.begin(), machine.tmem.end()}};
  for (int cta = 0; cta < move.cta_group; ++cta) {
    const BitMatrix rows = gather(machine.smem[static_cast<size_t>(cta)], map, Format::u8,
                                  cta ? "the source of the odd CTA" : "the source");
    for (int row = 0; row < shape.rows; ++row) {
      for (int group = 0; group < shape.row_bytes; group += 16) {
        std::array<uint8_t, 16> bytes{};
        for (int i = 0; i < 16; ++i) bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(rows(row, group + i));
        if (format != source_formats.end()) bytes = unpack(*format, bytes);
        for (int copy = 0; copy < shape.copies; ++copy) {
          const int lane = base.lane + lane_of(shape, row, copy);
          for (int word = 0; word < 4; ++word) {
            uint32_t value = 0;
            for (int byte = 0; byte < 4; ++byte)
              value |= uint32_t{bytes[static_cast<size_t>(4 * word + byte)]} << 8 * byte;
            result.tmem[static_cast<size_t>((cta * tmem_lanes + lane) * machine.columns + base.column + group / 4 +
                                            word)] = value;
          }
        }
      }
    }
  }
  return result;
}

TmemMoveResult shift_down(const TmemMove& move, const TmemMoveMachine& machine) {
  const TmemAddress base = decode_tmem_address(machine.taddr);
  std::vector<Violation> violations;
  if (base.lane % partition_lanes != 0) {
    violations.push_back({.field = "taddr lane",
                          .seen = std::to_string(base.lane),
                          .legal = "a multiple of 32",
                          .fix = "",
                          .source = std::string(section(move.kind))});
  }
  if (base.column + shift_columns > machine.columns) {
    violations.push_back(
        {.field = "columns",
         .seen = fmt::format("{}..{}", base.column, base.column + shift_columns - 1),
         .legal = fmt::format("inside the {} columns of Tensor Memory that are given", machine.columns),
         .fix = "it moves 32 bytes of every lane",
         .source = std::string(section(move.kind))});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  TmemMoveResult result{.regs = {}, .tmem = {machine.tmem.begin(), machine.tmem.end()}};
  for (int cta = 0; cta < move.cta_group; ++cta) {
    for (int lane = base.lane; lane < base.lane + partition_lanes; ++lane) {
      for (int column = base.column; column < base.column + shift_columns; ++column) {
        result.tmem[static_cast<size_t>((cta * tmem_lanes + lane) * machine.columns + column)] =
            machine.tmem[static_cast<size_t>((cta * tmem_lanes + shifted_lane(lane)) * machine.columns + column)];
      }
    }
  }
  return result;
}

void require_tmem(const TmemMove& move, const TmemMoveMachine& machine) {
  const size_t expected = static_cast<size_t>(move.cta_group) * tmem_lanes * static_cast<size_t>(machine.columns);
  if (machine.columns >= 1 && machine.columns <= tmem_columns && machine.tmem.size() == expected) return;
  refuse("Tensor Memory", fmt::format("{} cells, {} columns", machine.tmem.size(), machine.columns),
         fmt::format("{} CTAs of 128 lanes of 1..512 columns", move.cta_group), "", "PTX ISA 9.7.16.1");
}

}  // namespace

std::span<const CpShape> cp_shapes() { return shapes; }

int lane_of(const CpShape& shape, int row, int copy) {
  if (shape.rows == 4) return partition_lanes * row;
  if (shape.multicast == ".warpx2::02_13") return row + 64 * copy;
  if (shape.multicast == ".warpx2::01_23") return 64 * (row / 32) + row % 32 + 32 * copy;
  return row + 32 * copy;  // .warpx4; without multicast there is copy 0 alone
}

bool TmemMove::operator==(const TmemMove& other) const {
  return print(*this) == print(other) && half_split_offset == other.half_split_offset;
}

bool is_tmem_move(std::string_view text) {
  return text.starts_with("tcgen05.ld.") || text.starts_with("tcgen05.st.") || text.starts_with("tcgen05.cp.") ||
         text.starts_with("tcgen05.shift.");
}

std::string print(const TmemMove& move) {
  if (move.has_registers()) {
    const bool load = move.kind == MoveKind::ld;
    const LdStInfo& shape = ldst_shapes[static_cast<size_t>(move.ldst.shape)];
    return fmt::format("tcgen05.{}.sync.aligned.{}.x{}{}.b32", load ? "ld" : "st", shape.name, move.ldst.num,
                       move.ldst.pack_16b ? (load ? ".pack::16b" : ".unpack::16b") : "");
  }
  if (move.kind == MoveKind::shift) return fmt::format("tcgen05.shift.cta_group::{}.down", move.cta_group);
  return fmt::format("tcgen05.cp.cta_group::{}.{}{}{}", move.cta_group, move.shape().name, move.shape().multicast,
                     move.source_format.empty() ? "" : ".b8x16." + move.source_format);
}

TmemMove parse_tmem_move(std::string_view text) {
  if (take(text, "tcgen05.ld")) return parse_ldst(MoveKind::ld, text);
  if (take(text, "tcgen05.st")) return parse_ldst(MoveKind::st, text);
  if (take(text, "tcgen05.cp")) return parse_cp(text);
  if (take(text, "tcgen05.shift")) return parse_shift(text);
  refuse("instruction", std::string(text.substr(0, 80)), "tcgen05.ld, .st, .cp or .shift", "", "PTX ISA 9.7.16");
}

std::vector<TmemMove> all_legal_moves() {
  std::vector<TmemMove> all;
  for (const MoveKind kind : {MoveKind::ld, MoveKind::st}) {
    for (const LdStInfo& shape : ldst_shapes) {
      for (int num = 1; num <= shape.max_num; num *= 2) {
        for (const bool pack : {false, true}) {
          TmemMove move{.kind = kind, .ldst = {.shape = shape.id, .num = num, .pack_16b = pack}};
          if (shape.id == LdStShape::s16x32bx2) move.half_split_offset = static_cast<uint32_t>(num * (pack ? 2 : 1));
          all.push_back(move);
        }
      }
    }
  }
  for (const int cta_group : {1, 2}) {
    for (int shape = 0; shape < static_cast<int>(shapes.size()); ++shape) {
      for (const char* format : {"", "b4x16_p64", "b6x16_p32"})
        all.push_back({.kind = MoveKind::cp, .cta_group = cta_group, .cp_shape = shape, .source_format = format});
    }
    all.push_back({.kind = MoveKind::shift, .cta_group = cta_group});
  }
  return all;
}

TmemMoveResult simulate(const TmemMove& move, const TmemMoveMachine& machine) {
  require_tmem(move, machine);
  switch (move.kind) {
    case MoveKind::ld:
      return load(move, machine);
    case MoveKind::st:
      return store(move, machine);
    case MoveKind::cp:
      return copy(move, machine);
    default:
      return shift_down(move, machine);
  }
}

std::vector<Violation> warnings(const TmemMove& move, const TmemMoveMachine& machine) {
  std::vector<Violation> found;
  if (move.kind != MoveKind::cp) return found;
  append_warnings(found, "source", source_matrix(move, machine.s_desc));
  if (const int column = decode_tmem_address(machine.taddr).column; column % 4 != 0) {
    found.push_back({.field = "taddr column",
                     .seen = std::to_string(column),
                     .legal = "a multiple of 4 in known kernels",
                     .fix = "no source says what else does",
                     .source = "TVM"});
  }
  return found;
}

TmemMoveState random_machine(const TmemMove& move, Swizzle swizzle, RandomStream random) {
  TmemMoveState state;
  TmemMoveMachine& machine = state.machine;
  TmemAddress base;
  int span = shift_columns;
  if (move.has_registers()) {
    const LdStInfo& shape = ldst_shapes[static_cast<size_t>(move.ldst.shape)];
    machine.warp = static_cast<int>(random.below(4));
    base.lane =
        partition_lanes * machine.warp + (shape.id == LdStShape::s32x32b ? 0 : 16 * static_cast<int>(random.below(2)));
    span = 0;
    for (int thread = 0; thread < warp_threads; ++thread) {
      for (int reg = 0; reg < move.ldst.registers(); ++reg)
        span = std::max(span, move.ldst.place_of(thread, reg, move.ldst.pack_16b).column + 1);
    }
    span += static_cast<int>(move.half_split_offset & 0xFFFF);
  } else if (move.kind == MoveKind::cp) {
    span = move.shape().row_bytes / 4;
    if (move.shape().rows == 4) base.lane = static_cast<int>(random.below(partition_lanes));
    SmemMatrix matrix = source_matrix(move, uint64_t{1} << 46);
    matrix.descriptor = {.arch = Arch::sm_100a,
                         .start_address_bytes = 16 * static_cast<int64_t>(random.below(8)),
                         .strides = minimal_strides(Major::k, info(swizzle), 8, std::max(matrix.rows, 8), matrix.cols,
                                                    16 * static_cast<int64_t>(random.below(2))),
                         .swizzle = swizzle,
                         .reserved = uint64_t{1} << 46};
    machine.s_desc = encode(matrix.descriptor);
    for (int cta = 0; cta < move.cta_group; ++cta) {
      std::vector<uint8_t>& image = state.smem[static_cast<size_t>(cta)];
      image.resize(static_cast<size_t>((end_byte(SmemMap(matrix)) + 1023) / 1024 * 1024));
      for (uint8_t& byte : image) byte = static_cast<uint8_t>(random.word());
    }
  } else {
    base.lane = partition_lanes * static_cast<int>(random.below(4));
  }
  const int step = move.kind == MoveKind::cp ? 4 : 1;
  machine.columns =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(32, std::min(span + 8, tmem_columns)))));
  base.column = step * static_cast<int>(random.below(static_cast<uint32_t>((machine.columns - span) / step + 1)));
  machine.taddr = encode(base);
  state.tmem.resize(static_cast<size_t>(move.cta_group * tmem_lanes * machine.columns));
  for (uint32_t& word : state.tmem) word = random.word();
  if (move.kind == MoveKind::st) {
    state.regs.resize(static_cast<size_t>(warp_threads * move.ldst.registers()));
    for (uint32_t& word : state.regs) word = random.word();
  }
  return state;
}

}  // namespace bitmma
