// SPDX-License-Identifier: MIT
// wmma.load, wmma.mma and wmma.store. A fragment is one or two fragments of mma.sync side by side, and the product one
// or two mma.sync: m16n16k16 is two m16n8k16 along n, m32n8k16 two along m, and m8n32k16 two of the transposed product.
// The SASS of ptxas 13.0 for sm_80 to sm_120 shows these instructions, and an H200 these fragments and these bits:
// module wmma of data/kernels/instructions.py. PTX leaves the fragments open. For sm_75 ptxas has two m16n8k8 along k
// in place of an m16n8k16 of f16, first the lower half of k, and m8n8k16 in place of one of integers, whose sums are
// exact.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bitmma/instruction/prepared.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/fragment.hpp"
#include "decode.hpp"
#include "lanes.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

/// A shape of wmma, and the mma.sync of which it consists.
struct WmmaShape {
  Word name;
  int m, n, k;
  std::string_view tile;       // shape of the mma.sync
  int tile_m = 16, steps = 1;  // its M; how many along k
  bool is_transposed = false;  // D^T = B^T * A^T
};
constexpr auto wmma_shapes = std::to_array<WmmaShape>({
    {Word::m16n16k16, 16, 16, 16, "m16n8k16"},
    {Word::m32n8k16, 32, 8, 16, "m16n8k16"},
    {Word::m8n32k16, 8, 32, 16, "m16n8k16", 16, 1, true},
    {Word::m16n16k8, 16, 16, 8, "m16n8k4", 16, 2},
    {Word::m8n8k4, 8, 8, 4, "m8n8k4", 8},
    {Word::m8n8k32, 8, 8, 32, "m8n8k32", 8},
    {Word::m8n8k128, 8, 8, 128, "m8n8k128", 8},
});

/// A type of the elements. `of_c`: whether C and D may have it.
struct WmmaType {
  Word name;
  int bits;
  bool of_c = false;
};
constexpr auto wmma_types = std::to_array<WmmaType>({
    {Word::f16, 16, true},
    {Word::f32, 32, true},
    {Word::s32, 32, true},
    {Word::f64, 64, true},
    {Word::bf16, 16},
    {Word::tf32, 32},
    {Word::s8, 8},
    {Word::u8, 8},
    {Word::s4, 4},
    {Word::u4, 4},
    {Word::b1, 1},
});

enum class WmmaOperand : uint8_t { a, b, c };

/// The fragment of an operand: tiles of an mma.sync fragment, and registers that repeat them.
struct WmmaFragment {
  Fragment tile = {};
  int tiles = 1;
  int registers = 0;                 // of a thread
  bool is_transposed = false;        // rows of the fragment are columns of the operand
  int tile_rows = 0, tile_cols = 0;  // distance of a tile from the one before

  /// Row and column of the operand that bit `bit` of register `reg` of a lane holds.
  MatrixPlace place(int lane, int reg, int bit) const {
    const int each = tile.registers(), number = reg / each % tiles;
    MatrixPlace at = element_at(tile, lane, reg % each, bit);
    at.row += number * tile_rows, at.col += number * tile_cols;
    return is_transposed ? MatrixPlace{at.col, at.row} : at;
  }
};

WmmaFragment fragment_of(const WmmaShape& shape, WmmaOperand operand, int bits) {
  // The roles are those of the mma.sync: of a transposed product B has the rows.
  const bool has_rows = operand == (shape.is_transposed ? WmmaOperand::b : WmmaOperand::a);
  const int rows = shape.is_transposed ? shape.n : shape.m, cols = shape.is_transposed ? shape.m : shape.n;
  WmmaFragment fragment;
  if (operand == WmmaOperand::c) {
    fragment.tile = mma_d_fragment(bits, shape.tile_m);
    const bool along_rows = rows > shape.tile_m;
    fragment.tiles = along_rows ? rows / shape.tile_m : cols / 8;
    (along_rows ? fragment.tile_rows : fragment.tile_cols) = along_rows ? shape.tile_m : 8;
    fragment.is_transposed = shape.is_transposed;
  } else {
    fragment.tile = has_rows ? mma_a_fragment(bits, shape.k, shape.tile_m) : mma_b_fragment(bits, shape.k);
    fragment.tile_rows = has_rows ? shape.tile_m : 8;
    fragment.tiles = has_rows ? rows / shape.tile_m : cols / 8;
    // mma.sync has B as n x k, and the operand b is k x n.
    fragment.is_transposed = operand == WmmaOperand::b;
  }
  fragment.registers = fragment.tile.registers() * fragment.tiles;
  return fragment;
}

struct WmmaAccess {
  Address address = {};
  WmmaFragment fragment = {};
  std::vector<uint32_t> slots = {};
  int bits = 32;
  bool by_rows = true;  // .row
  bool is_store = false;
  uint32_t stride = Op::no_slot;
  int dense_stride = 0;  // without a stride
};

/// Calls body(lane, register, first bit, address, bytes) for each element, or for each register of elements below a
/// byte.
template <typename Body>
void for_each_element(Warp& warp, const WmmaAccess& access, const Body& body) {
  const uint64_t begin = access.address.of(warp, 0);
  const int64_t stride =
      access.stride == Op::no_slot ? access.dense_stride : warp.lanes_of<const uint32_t>(access.stride)[0];
  for (int lane = 0; lane < lanes; ++lane) {
    if (access.address.of(warp, lane) != begin ||
        (access.stride != Op::no_slot && warp.lanes_of<const uint32_t>(access.stride)[lane] != stride))
      fault(ViolationCode::undefined_by_ptx, lane, "another address or stride than in lane 0",
            "one address and one stride for the warp");
    const int register_bits = access.bits == 64 ? 64 : 32, step = access.bits < 8 ? register_bits : access.bits;
    for (int reg = 0; reg < access.fragment.registers; ++reg) {
      for (int bit = 0; bit < register_bits; bit += step) {
        const MatrixPlace at = access.fragment.place(lane, reg, bit);
        const int64_t element = access.by_rows ? at.row * stride + at.col : at.col * stride + at.row;
        body(lane, reg, bit, begin + static_cast<uint64_t>(element * access.bits / 8), step / 8);
      }
    }
  }
}

void run_wmma_access(Warp& warp, const Op& op, Mask mask) {
  const auto& access = *static_cast<const WmmaAccess*>(op.details);
  if (mask != all_lanes) fault_of_lanes(warp, mask);
  const auto word_of = [&](int lane, int reg) {
    const uint32_t slot = access.slots[static_cast<size_t>(reg)];
    return access.bits == 64 ? reinterpret_cast<uint8_t*>(warp.lanes_of<uint64_t>(slot) + lane)
                             : reinterpret_cast<uint8_t*>(warp.lanes_of<uint32_t>(slot) + lane);
  };
  for_each_element(warp, access, [&](int lane, int reg, int bit, uint64_t address, int bytes) {
    uint8_t* const in_register = word_of(lane, reg) + bit / 8;
    const AccessKind kind = access.is_store ? AccessKind::write : AccessKind::read;
    uint8_t* const place =
        locate(warp, op, lane, access.address.space, address, bytes, kind, access.is_store ? in_register : nullptr);
    if (access.is_store) std::memcpy(place, in_register, static_cast<size_t>(bytes));
    else std::memcpy(in_register, place, static_cast<size_t>(bytes));
  });
}

Op& emit_for_warp(Decoder& decoder, Run run, const void* details) {
  const uint32_t members = decoder.constant(all_lanes, 4);
  Op& op = decoder.emit(run);
  op.details = details;
  op.control = Control::converge;
  op.e = members;
  return op;
}

const WmmaShape& take_shape(Decoder& decoder, Words& words) {
  for (const WmmaShape& shape : wmma_shapes) {
    if (words.take(shape.name)) return shape;
  }
  decoder.refuse("of another shape");
}

/// PTX ISA, wmma.mma: the first target that has a type.
Target first_target(Word type) {
  using enum Word;
  switch (type) {
    case f16:
    case f32: return Target::sm_70;
    case s8:
    case u8:
    case s32: return Target::sm_72;
    case s4:
    case u4:
    case b1: return Target::sm_75;
    default: return Target::sm_80;
  }
}
void require_target(const Decoder& decoder, Word type) {
  const Target first = first_target(type);
  if (decoder.target() < first) decoder.refuse(fmt::format("of .{} before {}", print(type), print(first)));
}

/// PTX ISA, wmma.mma: the types of A and B of a shape.
bool has_type(const WmmaShape& shape, Word type) {
  using enum Word;
  switch (shape.name) {
    case m16n16k8: return type == tf32;
    case m8n8k4: return type == f64;
    case m8n8k32: return type == s4 || type == u4;
    case m8n8k128: return type == b1;
    default: return type == f16 || type == bf16 || type == s8 || type == u8;
  }
}

std::vector<uint32_t> slots_for(Decoder& decoder, const Operand& operand, int count, int bits, bool writes) {
  const std::span<const Operand> registers = parts_of(operand);
  if (std::ssize(registers) != count) decoder.refuse(fmt::format("with another number of registers than {}", count));
  std::vector<uint32_t> slots;
  const Type type = bits == 64 ? Type::b64 : Type::b32;
  for (const Operand& reg : registers) slots.push_back(writes ? decoder.write(reg, type) : decoder.read(reg, type));
  return slots;
}

/// Registers of a fragment: A and B of f16 have eight in every shape, in which the tiles repeat. PTX ISA, wmma.load.
int registers_of(const WmmaFragment& fragment, WmmaOperand operand, Word type) {
  return operand != WmmaOperand::c && type == Word::f16 ? 8 : fragment.registers;
}

void decode_wmma_access(Decoder& decoder, const PtxInstruction& instruction, Words& words, bool is_store) {
  WmmaAccess access{.is_store = is_store};
  const Word matrix = words.take_one({Word::a, Word::b, Word::c, Word::d});
  if (is_store != (matrix == Word::d) || matrix == Word::none) decoder.refuse("of another matrix");
  const WmmaOperand operand = matrix == Word::a ? WmmaOperand::a : matrix == Word::b ? WmmaOperand::b : WmmaOperand::c;
  const WmmaShape& shape = take_shape(decoder, words);
  const Word layout = words.take_one({Word::row, Word::col});
  if (layout == Word::none) decoder.refuse("without .row or .col");
  access.by_rows = layout == Word::row;
  Space space = Space::generic;
  if (words.take(Word::global)) space = Space::global;
  else if (words.take(Word::shared) || words.take(Word::shared_cta)) space = Space::shared;
  const auto type = std::ranges::find_if(wmma_types, [&](const WmmaType& row) { return words.take(row.name); });
  if (type == wmma_types.end() || (operand == WmmaOperand::c ? !type->of_c : !has_type(shape, type->name)))
    decoder.refuse("of another type");
  require_target(decoder, type->name);
  if (type->bits < 8 && access.by_rows != (operand == WmmaOperand::a)) decoder.refuse("with this layout");
  access.bits = type->bits;
  access.fragment = fragment_of(shape, operand, type->bits);
  access.fragment.registers = registers_of(access.fragment, operand, type->name);
  decoder.require_operands(instruction, 2, 3);
  const auto& operands = instruction.operands;
  access.address = address_of(decoder, operands[is_store ? 0 : 1], space);
  access.slots = slots_for(decoder, operands[is_store ? 1 : 0], access.fragment.registers, type->bits, !is_store);
  const int rows = operand == WmmaOperand::b ? shape.k : shape.m, cols = operand == WmmaOperand::a ? shape.k : shape.n;
  access.dense_stride = access.by_rows ? cols : rows;
  if (operands.size() == 3) access.stride = decoder.read(operands[2], Type::u32);
  emit_for_warp(decoder, run_wmma_access, decoder.keep(std::move(access)));
}

struct WmmaProduct {
  std::optional<Prepared> tile = {};
  std::vector<uint32_t> a = {}, b = {}, c = {}, d = {};  // in the roles of the mma.sync
  int a_tiles = 1, b_tiles = 1, steps = 1;
  int a_registers = 0, b_registers = 0, c_registers = 0, d_registers = 0;  // of a tile, and for A and B of a step
  bool wide = false;
};

/// Copies registers of all lanes, thread-major, from or to their slots.
template <bool writes>
void move_words(Warp& warp, std::span<const uint32_t> slots, bool wide, uint32_t* words) {
  const size_t count = slots.size(), size = wide ? 2 : 1;
  for (size_t i = 0; i < count; ++i) {
    auto* const of_lanes = warp.lanes_of<uint32_t>(slots[i]);
    for (size_t lane = 0; lane < lanes; ++lane) {
      uint32_t* const word = words + (lane * count + i) * size;
      if constexpr (writes) std::copy_n(word, size, of_lanes + lane * size);
      else std::copy_n(of_lanes + lane * size, size, word);
    }
  }
}

void run_wmma(Warp& warp, const Op& op, Mask mask) {
  const auto& product = *static_cast<const WmmaProduct*>(op.details);
  if (mask != all_lanes) fault_of_lanes(warp, mask);
  constexpr size_t most_words = 32 * 8;
  std::array<uint32_t, most_words> a, b, c, d;
  const auto part = [](const std::vector<uint32_t>& slots, int first, int count) {
    return std::span(slots).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  };
  // D may be in the registers of A and B: nothing is written before all is computed.
  const int tiles = product.a_tiles * product.b_tiles;
  std::vector<std::array<uint32_t, most_words>> results(static_cast<size_t>(tiles));
  for (int tile = 0; tile < tiles; ++tile) {
    const int row = tile / product.b_tiles, col = tile % product.b_tiles;
    move_words<false>(warp, part(product.c, tile * product.c_registers, product.c_registers), product.wide, c.data());
    for (int step = 0; step < product.steps; ++step) {
      move_words<false>(warp, part(product.a, (row * product.steps + step) * product.a_registers, product.a_registers),
                        product.wide, a.data());
      move_words<false>(warp, part(product.b, (col * product.steps + step) * product.b_registers, product.b_registers),
                        product.wide, b.data());
      product.tile->execute({.a = a.data(), .b = b.data(), .c = c.data()}, d.data());
      c = d;
    }
    results[static_cast<size_t>(tile)] = d;
  }
  for (int tile = 0; tile < tiles; ++tile)
    move_words<true>(warp, part(product.d, tile * product.d_registers, product.d_registers), product.wide,
                     results[static_cast<size_t>(tile)].data());
}

void decode_wmma_product(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Word bit_operation = words.take_one({Word::xor_, Word::and_});
  if (bit_operation != Word::none && !words.take(Word::popc)) decoder.refuse("without .popc");
  const WmmaShape& shape = take_shape(decoder, words);
  // The layouts say how the fragments were loaded; they hold the same elements for both.
  for (int i = 0; i < 2; ++i) {
    if (words.take_one({Word::row, Word::col}) == Word::none) decoder.refuse("without the layouts of A and B");
  }
  const bool saturates = words.take(Word::satfinite);
  const Word rounding = words.take_one({Word::rn, Word::rz, Word::rm, Word::rp});
  std::vector<Word> types;  // .dtype.ctype of f16, .dtype.atype.btype.ctype of the others
  for (size_t i = 1; i < instruction.words.size(); ++i) {
    if (std::ranges::find(wmma_types, instruction.words[i], &WmmaType::name) == wmma_types.end()) continue;
    types.push_back(instruction.words[i]);
    words.take(instruction.words[i]);
  }
  if (types.size() == 2) types = {types[0], Word::f16, Word::f16, types[1]};
  if (types.size() != 4 || types[1] != types[2] || !has_type(shape, types[1])) decoder.refuse("of these types");
  require_target(decoder, types[1]);
  const bool is_early = decoder.target() < Target::sm_80, is_f16 = types[1] == Word::f16;
  if (is_early && is_f16 && decoder.target() < Target::sm_75)
    decoder.refuse("of .f16 before sm_75: the order in which ptxas adds is not known", "sm_75 and later targets run");
  if (is_early && bit_operation == Word::and_) decoder.refuse("before sm_80");
  const bool halves_k = is_early && is_f16;
  const int steps = halves_k ? 2 : shape.steps;
  std::string mnemonic = fmt::format("mma.sync.aligned.{}.row.col", halves_k ? "m16n8k8" : shape.tile);
  if (saturates) mnemonic += ".satfinite";
  if (rounding != Word::none) mnemonic.append(".").append(print(rounding));
  for (const Word type : types) mnemonic.append(".").append(print(type));
  if (bit_operation != Word::none) mnemonic.append(".").append(print(bit_operation)).append(".popc");
  WmmaProduct product{.steps = steps, .wide = types[0] == Word::f64};
  // Sums of integers are exact, so that those of a later target have the same bits.
  const bool has_tile = !is_early || halves_k || shape.tile_m == 8;
  product.tile.emplace(parse_instruction(mnemonic), has_tile ? decoder.target() : Target::sm_80);
  const auto bits_of = [](Word type) { return std::ranges::find(wmma_types, type, &WmmaType::name)->bits; };
  decoder.require_operands(instruction, 4, 4);
  const auto slots = [&](size_t index, WmmaOperand operand, Word type, bool writes) {
    const WmmaFragment fragment = fragment_of(shape, operand, bits_of(type));
    return slots_for(decoder, instruction.operands[index], registers_of(fragment, operand, type), bits_of(type),
                     writes);
  };
  const auto registers = [&](WmmaOperand operand, Word type) {
    return fragment_of(shape, operand, bits_of(type)).tile.registers();
  };
  product.a = slots(1, WmmaOperand::a, types[1], false);
  product.b = slots(2, WmmaOperand::b, types[2], false);
  product.c = slots(3, WmmaOperand::c, types[3], false);
  product.d = slots(0, WmmaOperand::c, types[0], true);
  const WmmaOperand with_rows = shape.is_transposed ? WmmaOperand::b : WmmaOperand::a,
                    with_cols = shape.is_transposed ? WmmaOperand::a : WmmaOperand::b;
  product.a_registers = registers(with_rows, types[1]) / steps;
  product.b_registers = registers(with_cols, types[1]) / steps;
  product.c_registers = registers(WmmaOperand::c, types[3]);
  product.d_registers = registers(WmmaOperand::c, types[0]);
  product.a_tiles = fragment_of(shape, with_rows, bits_of(types[1])).tiles;
  product.b_tiles = fragment_of(shape, with_cols, bits_of(types[1])).tiles;
  if (shape.is_transposed) std::swap(product.a, product.b);
  emit_for_warp(decoder, run_wmma, decoder.keep(std::move(product)));
}

void decode_wmma(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Word what = words.take_one({Word::load, Word::store, Word::mma});
  if (what == Word::none || !words.take(Word::sync) || !words.take(Word::aligned))
    decoder.refuse("of another operation");
  if (what == Word::mma) return decode_wmma_product(decoder, instruction, words);
  decode_wmma_access(decoder, instruction, words, what == Word::store);
}

constexpr auto wmma_rows = std::to_array<Opcode>({
    {.name = Word::wmma,
     .does = "loads and stores fragments of matrices, and D = A * B + C of them, by a warp",
     .decode = decode_wmma,
     .acts = acts,
     .exchanges = exchanges},
});

}  // namespace

std::span<const Opcode> wmma_opcodes() { return wmma_rows; }

}  // namespace bitmma::kernel
