// SPDX-License-Identifier: MIT
// ldmatrix, stmatrix, movmatrix and mma.sync: layer memory supplies the maps, layer instruction the products.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "../core/words.hpp"
#include "../instruction/family.hpp"
#include "../instruction/mma_sync/warp_execution.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "bitmma/memory/smem.hpp"
#include "lane_access.hpp"
#include "lanes.hpp"
#include "matrix.hpp"
#include "unwritten.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

struct MatrixMoveDetails {
  LdMatrix move = {};
  std::vector<uint32_t> slots = {};
  Address address = {};
  /// For register r of lane t, element e: the byte in its row, unpacked, and the lane that supplies the row's address.
  struct Place {
    int address_lane, byte;
  };
  std::vector<Place> places = {};  // (register * 32 + lane) * elements() + element
  size_t elements() const { return static_cast<size_t>(32 / move.element_bits()); }  // of a register
  int rows() const { return move.count * move.rows(); }
  const Place* places_of(size_t reg, int lane) const {
    return &places[(reg * lanes + static_cast<size_t>(lane)) * elements()];
  }
};
constexpr int row_bytes = 16;

/// Exchanges rows and columns of 8 x 8 halves.
void transpose(uint8_t* matrix) {
  Halves rows[8], pairs[8], fours[8];
  for (size_t i = 0; i < 8; ++i) rows[i] = bitmma::load<Halves>(matrix + 16 * i);
  const auto low = [](const Halves& a, const Halves& b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  };
  const auto high = [](const Halves& a, const Halves& b) {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  };
  // Rows i and i + 4 side by side, three times: the bits of an element's number go round, and column and row are
  // exchanged.
  const auto step = [&](const Halves* from, Halves* to) {
    for (size_t i = 0; i < 4; ++i) to[2 * i] = low(from[i], from[i + 4]), to[2 * i + 1] = high(from[i], from[i + 4]);
  };
  step(rows, pairs), step(pairs, fours), step(fours, rows);
  for (size_t i = 0; i < 8; ++i) bitmma::store(rows[i], matrix + 16 * i);
}

/// The bytes of a row of shared memory that nothing wrote: all of one that ends behind the block's memory.
uint32_t unwritten_bytes(const Warp& warp, const uint8_t* row, int bytes) {
  const Cta* const owner = owner_of(*warp.cta->cluster, row);
  if (!owner) return static_cast<uint32_t>(low_mask(bytes));
  uint32_t unwritten_ones = 0;
  for (int i = 0; i < bytes; ++i)
    unwritten_ones |=
        uint32_t{bits_of_state(owner->shared_states[static_cast<size_t>(row - owner->shared.data() + i)]) != 0} << i;
  return unwritten_ones;
}

/// After an ldmatrix: register i has the unwritten bits bits_of(i, lane).
template <typename BitsOf>
void mark_matrices(Warp& warp, const Op& op, const BitsOf& bits_of) {
  const std::span<const Operand> registers = parts_of(instruction_of(warp, op).operands[0]);
  for (size_t i = 0; i < registers.size(); ++i) {
    if (registers[i].kind != Kind::reg) continue;
    for (int lane = 0; lane < lanes; ++lane) set_unwritten_bits(warp, registers[i].reg, lane, bits_of(i, lane));
  }
}

void load_matrices(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MatrixMoveDetails*>(op.details);
  if (mask != all_lanes) fault_of_lanes(warp, mask);
  const int rows = details.rows();
  MatrixRows data;
  std::array<uint32_t, lanes> unwritten_of_row{};  // bytes
  if (!read_rows(warp, op, static_cast<Mask>(low_mask(rows)), details.address, data)) {
    warp.takes_unwritten = warp.cta->launch->checks;
    for (int lane = 0; lane < rows; ++lane) {
      const uint8_t* const row = locate(warp, op, lane, details.address, row_bytes, AccessKind::read);
      std::memcpy(data[static_cast<size_t>(lane)].data(), row, row_bytes);
      if (warp.unwritten) unwritten_of_row[static_cast<size_t>(lane)] = unwritten_bytes(warp, row, row_bytes);
    }
    warp.takes_unwritten = false;
  }
  // A register holds a matrix, row by row: lane t has the elements 2 * t and 2 * t + 1. See element_at().
  constexpr size_t matrix_bytes = 4 * lanes;
  for (size_t i = 0; i < details.slots.size(); ++i) {
    uint8_t* const matrix = data[8 * i].data();
    if (details.move.transposed) transpose(matrix);
    std::memcpy(warp.lanes_of<uint32_t>(details.slots[i]), matrix, matrix_bytes);
  }
  if (!warp.unwritten || std::exchange(warp.unwritten->loaded, 0) == 0) return;
  mark_matrices(warp, op, [&](size_t i, int lane) {
    uint64_t bits = 0;
    for (size_t half = 0; half < 2; ++half) {
      const auto& place = details.places_of(i, lane)[half];
      const uint32_t bytes = unwritten_of_row[static_cast<size_t>(place.address_lane)] >> place.byte;
      bits |= ((bytes & 1) * uint64_t{0xFF} | (bytes >> 1 & 1) * uint64_t{0xFF00}) << 16 * half;
    }
    return bits;
  });
}

/// Bits of an element in memory.
int bits_in_memory(const LdMatrix& move) { return move.packed_bits == 0 ? move.element_bits() : move.packed_bits; }

/// A row of 16 elements of 4, 6 or 8 bits, a byte each.
std::array<uint8_t, row_bytes> unpacked(int bits, const uint8_t* row) {
  std::array<uint8_t, row_bytes> elements;
  for (int i = 0; i < row_bytes; ++i) {
    const int at = bits * i;
    uint32_t word = row[at / 8];
    if (at % 8 + bits > 8) word |= uint32_t{row[at / 8 + 1]} << 8;
    elements[static_cast<size_t>(i)] = static_cast<uint8_t>(word >> at % 8 & low_mask(bits));
  }
  return elements;
}

void load_byte_matrices(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MatrixMoveDetails*>(op.details);
  if (mask != all_lanes) fault_of_lanes(warp, mask);
  const int bits = bits_in_memory(details.move), bytes = row_bytes * bits / 8;
  MatrixRows data;
  std::array<uint32_t, lanes> unwritten_of_row{};  // bytes
  warp.takes_unwritten = warp.cta->launch->checks;
  for (int lane = 0; lane < details.rows(); ++lane) {
    const uint64_t address = details.address.of(warp, lane);
    if (address % row_bytes != 0)
      fault(ViolationCode::misaligned, lane, fmt::format("a row at address {:#x}", address), "a multiple of 16");
    // The padding is not read.
    std::array<uint8_t, row_bytes> row{};
    for (int at = 0; at < bytes; at += 4) {
      const uint8_t* const from =
          locate(warp, op, lane, details.address.space, address + static_cast<uint64_t>(at), 4, AccessKind::read);
      std::memcpy(&row[static_cast<size_t>(at)], from, 4);
      if (warp.unwritten) unwritten_of_row[static_cast<size_t>(lane)] |= unwritten_bytes(warp, from, 4) << at;
    }
    data[static_cast<size_t>(lane)] = unpacked(bits, row.data());
  }
  warp.takes_unwritten = false;
  for (size_t i = 0; i < details.slots.size(); ++i) {
    auto* const words = warp.lanes_of<uint32_t>(details.slots[i]);
    for (int lane = 0; lane < lanes; ++lane) {
      words[lane] = 0;
      for (size_t byte = 0; byte < details.elements(); ++byte) {
        const auto& place = details.places_of(i, lane)[byte];
        words[lane] |= uint32_t{data[static_cast<size_t>(place.address_lane)][static_cast<size_t>(place.byte)]}
                       << 8 * byte;
      }
    }
  }
  if (!warp.unwritten || std::exchange(warp.unwritten->loaded, 0) == 0) return;
  mark_matrices(warp, op, [&](size_t i, int lane) {
    uint64_t all = 0;
    for (size_t byte = 0; byte < details.elements(); ++byte) {
      const auto& place = details.places_of(i, lane)[byte];
      const int first = bits * place.byte / 8, last = (bits * place.byte + bits - 1) / 8;
      if ((unwritten_of_row[static_cast<size_t>(place.address_lane)] >> first & low_mask(last - first + 1)) != 0)
        all |= uint64_t{0xFF} << 8 * byte;
    }
    return all;
  });
}

/// `Element`: of 16 or 8 bits.
template <typename Element>
void store_matrices(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MatrixMoveDetails*>(op.details);
  if (mask != all_lanes) fault_of_lanes(warp, mask);
  const auto with_rows = static_cast<Mask>(low_mask(details.rows()));
  // The elements of a word -> their places in rows.
  const auto scatter = [&](size_t reg, int lane, uint64_t word, auto& to) {
    const auto* place = details.places_of(reg, lane);
    for (size_t i = 0; i < 4 / sizeof(Element); ++i, ++place) {
      const auto bits = static_cast<Element>(word >> 8 * sizeof(Element) * i);
      std::memcpy(&to[static_cast<size_t>(place->address_lane)][static_cast<size_t>(place->byte)], &bits, sizeof bits);
    }
  };
  MatrixRows data;
  for (size_t reg = 0; reg < details.slots.size(); ++reg) {
    const auto* words = warp.lanes_of<const uint32_t>(details.slots[reg]);
    for (int lane = 0; lane < lanes; ++lane) scatter(reg, lane, words[lane], data);
  }
  uint8_t* row_of[lanes] = {};
  for (int lane = 0; lane < details.rows(); ++lane)
    row_of[lane] =
        locate(warp, op, lane, details.address, row_bytes, AccessKind::write, data[static_cast<size_t>(lane)].data());
  const std::span<uint8_t* const, lanes> places(row_of);
  write_lanes(warp, op, with_rows, places, data.front().data(), row_bytes, row_bytes);
  if (!warp.unwritten || warp.unwritten->stored == 0) return;
  AccessBits stored{};
  const std::span<const Operand> registers = parts_of(instruction_of(warp, op).operands[1]);
  for (size_t reg = 0; reg < registers.size(); ++reg) {
    for (int lane = 0; lane < lanes && registers[reg].kind == Kind::reg; ++lane)
      scatter(reg, lane, unwritten_bits(warp, registers[reg].reg, lane), stored);
  }
  write_states(warp, with_rows, places, stored, row_bytes);
}

void decode_matrix_move(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  MatrixMoveDetails details{.move = parse_ldmatrix(instruction.opcode)};
  const LdMatrix& move = details.move;
  const bool has_bytes = move.shape != LdMatrixShape::m8n8;
  if (has_bytes && !(target_sets::tcgen05 | target_sets::consumer_blackwell).contains(decoder.target()))
    decoder.refuse("on this target; it needs sm_100a or later");
  const Space space = words.take_one({Word::shared, Word::shared_cta}) == Word::none ? Space::generic : Space::shared;
  words.take_all();
  decoder.require_operands(instruction, 2, 2);
  const Operand& data = instruction.operands[move.store ? 1 : 0];
  if (data.kind != Kind::vector || std::ssize(data.elements) != move.registers()) decoder.refuse("with other operands");
  details.address = address_of(decoder, instruction.operands[move.store ? 0 : 1], space);
  for (const Operand& reg : data.elements)
    details.slots.push_back(move.store ? decoder.read(reg, Type::b32) : decoder.write(reg, Type::b32));
  for (int reg = 0; reg < move.registers(); ++reg) {
    for (int lane = 0; lane < lanes; ++lane) {
      for (int bit = 0; bit < 32; bit += move.element_bits()) {
        const LdMatrixElement element = element_at(move, lane, reg, bit);
        // With .trans a row in memory is a column of the matrix.
        details.places.push_back(
            {address_thread(move, element.matrix, element.row), element.col * move.element_bits() / 8});
      }
    }
  }
  Op& op = decoder.emit(move.store  ? (has_bytes ? store_matrices<uint8_t> : store_matrices<uint16_t>)
                        : has_bytes ? load_byte_matrices
                                    : load_matrices);
  op.details = decoder.keep(std::move(details));
  op.control = Control::converge;
  op.e = decoder.constant(all_lanes, 4);
}

/// The slots of the registers of an mma.sync.
struct WarpSlots {
  std::array<uint32_t, 4> a = {}, c = {}, d = {};
  std::array<uint32_t, 2> b = {};
};

struct MmaDetails {
  bitmma::Instruction instruction = {}, without_c = {};
  const AccumulatorModel* model = nullptr;
  struct Registers {
    Field field = Field::a_regs;
    std::vector<uint32_t> slots = {};
    bool wide = false;
    bool is_number = false;  // a descriptor, which is equal in all lanes
    Extents extents = {};
  };
  std::vector<Registers> reads = {};
  std::vector<uint32_t> results = {};
  bool wide_results = false;
  bool reads_shared = false;
  bool has_scale_d = false;
  uint32_t scale_d = 0;  // a mask
  size_t warps = 1;
  std::vector<int> accumulators = {};                 // registers of wgmma's D
  std::optional<family::WarpExecution> of_warp = {};  // mma.sync
  std::optional<WarpSlots> warp_slots = {};           // of an mma.sync that takes them
};

/// Registers of a warp -> their words, thread by thread.
void gather_words(const Warp& warp, std::span<const uint32_t> slots, bool wide, uint32_t* to) {
  const size_t count = slots.size(), words = wide ? 2 : 1;
  size_t i = 0;
  for (; !wide && i + 4 <= count; i += 4) {
    for (size_t lane = 0; lane < lanes; lane += 4) {
      bitmma::Words block[4];
      for (size_t k = 0; k < 4; ++k)
        block[k] = bitmma::load<bitmma::Words>(warp.lanes_of<const uint32_t>(slots[i + k]) + lane);
      bitmma::transpose(block);
      for (size_t k = 0; k < 4; ++k) bitmma::store(block[k], to + (lane + k) * count + i);
    }
  }
  if (!wide && count == 2) {
    for (size_t lane = 0; lane < lanes; lane += 4) {
      const auto low = bitmma::load<bitmma::Words>(warp.lanes_of<const uint32_t>(slots[0]) + lane),
                 high = bitmma::load<bitmma::Words>(warp.lanes_of<const uint32_t>(slots[1]) + lane);
      bitmma::store(__builtin_shufflevector(low, high, 0, 4, 1, 5), to + 2 * lane);
      bitmma::store(__builtin_shufflevector(low, high, 2, 6, 3, 7), to + 2 * lane + 4);
    }
    return;
  }
  for (; i < count; ++i) {
    const auto* of_lanes = warp.lanes_of<const uint32_t>(slots[i]);
    for (size_t lane = 0; lane < lanes; ++lane) {
      for (size_t w = 0; w < words; ++w) to[(lane * count + i) * words + w] = of_lanes[lane * words + w];
    }
  }
}

/// The other way.
void scatter_words(const uint32_t* from, const Warp& warp, std::span<const uint32_t> slots, bool wide) {
  const size_t count = slots.size(), words = wide ? 2 : 1;
  size_t i = 0;
  for (; !wide && i + 4 <= count; i += 4) {
    for (size_t lane = 0; lane < lanes; lane += 4) {
      bitmma::Words block[4];
      for (size_t k = 0; k < 4; ++k) block[k] = bitmma::load<bitmma::Words>(from + (lane + k) * count + i);
      bitmma::transpose(block);
      for (size_t k = 0; k < 4; ++k) bitmma::store(block[k], warp.lanes_of<uint32_t>(slots[i + k]) + lane);
    }
  }
  for (; i < count; ++i) {
    auto* of_lanes = warp.lanes_of<uint32_t>(slots[i]);
    for (size_t lane = 0; lane < lanes; ++lane) {
      for (size_t w = 0; w < words; ++w) of_lanes[lane * words + w] = from[(lane * count + i) * words + w];
    }
  }
}

void set_registers(State& state, const MmaDetails::Registers& registers, std::span<Warp> warps) {
  if (registers.is_number) {
    state.set(registers.field, warps.front().lanes_of<const uint64_t>(registers.slots.front())[0]);
    return;
  }
  const size_t words_of_warp = lanes * registers.slots.size() * (registers.wide ? 2 : 1);
  std::vector<uint32_t> words(warps.size() * words_of_warp);
  for (size_t w = 0; w < warps.size(); ++w)
    gather_words(warps[w], registers.slots, registers.wide, &words[w * words_of_warp]);
  if (!registers.wide) return state.set(registers.field, std::move(words), registers.extents);
  std::vector<uint64_t> elements(words.size() / 2);
  std::memcpy(elements.data(), words.data(), words.size() * 4);
  state.set(registers.field, elements, registers.extents);
}

/// Computes the product of a warp, or of the four warps of a warpgroup.
void run_mma(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MmaDetails*>(op.details);
  if (mask != all_lanes) fault_of_lanes(warp, mask);
  Cta& cta = *warp.cta;
  const size_t first = static_cast<size_t>(warp.index) / details.warps * details.warps;
  const std::span<Warp> warps = std::span(cta.warps).subspan(first, details.warps);
  State state;
  for (const MmaDetails::Registers& registers : details.reads) set_registers(state, registers, warps);
  if (details.reads_shared) state.borrow(Field::smem, cta.shared, {std::ssize(cta.shared)});
  if (details.reads_shared && cta.launch->checks)
    check_operands(details.instruction, cta.program->target, state, warps);
  const bool reads_c = !details.has_scale_d || (warps.front().mask_of(details.scale_d) & 1) != 0;
  if (Tracer* const tracer = cta.tracer; tracer && tracer->warp >= &warps.front() && tracer->warp <= &warps.back()) {
    tracer->product = Case{.instruction = reads_c ? details.instruction : details.without_c,
                           .target = cta.program->target,
                           .before = state};
    tracer->product_op = &op;
    if (details.reads_shared) tracer->product->before.set(Field::smem, cta.shared, {std::ssize(cta.shared)});
  }
  for (Warp& each : warps) {
    if (details.accumulators.empty()) break;
    each.newest_group = each.committed_groups + 1;
    if (each.group_of_register.empty()) each.group_of_register.resize(cta.program->entry.registers.size());
    for (const int reg : details.accumulators) each.group_of_register[static_cast<size_t>(reg)] = each.newest_group;
  }
  family::run(reads_c ? details.instruction : details.without_c, details.model, state);
  const std::span<const uint32_t> words = state.words(Field::accumulator);
  const size_t words_of_warp = lanes * details.results.size() * (details.wide_results ? 2 : 1);
  for (size_t w = 0; w < warps.size(); ++w)
    scatter_words(&words[w * words_of_warp], warps[w], details.results, details.wide_results);
}

/// Operands of mma.sync that were decoded last, by the slot of their first register.
class DecodedOperands {
 public:
  WarpProduct::Decoded of(uint32_t slot_of_a, uint32_t slot_of_b) {
    constexpr size_t register_bytes = 4 * lanes;
    return {.a = a_[slot_of_a / register_bytes % a_.size()], .b = b_[slot_of_b / register_bytes % b_.size()]};
  }

 private:
  std::array<kernels::WarpColumns, 16> a_ = {};
  std::array<kernels::WarpRows, 64> b_ = {};
};

/// The same for mma.sync, without a State, unless a tracer wants one.
void run_warp_mma(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MmaDetails*>(op.details);
  if (mask != all_lanes || warp.cta->tracer) return run_mma(warp, op, mask);
  if (details.warp_slots) {
    const WarpSlots& of = *details.warp_slots;
    WarpProduct::Slots slots;
    for (size_t i = 0; i < of.a.size(); ++i) {
      slots.a[i] = warp.lanes_of<uint32_t>(of.a[i]);
      slots.c[i] = warp.lanes_of<uint32_t>(of.c[i]);
      slots.d[i] = warp.lanes_of<uint32_t>(of.d[i]);
    }
    for (size_t i = 0; i < of.b.size(); ++i) slots.b[i] = warp.lanes_of<uint32_t>(of.b[i]);
    thread_local const auto decoded = std::make_unique<DecodedOperands>();
    if (details.of_warp->execute(slots, decoded->of(of.a.front(), of.b.front()))) return;
  }
  constexpr size_t most_words = 32 * 16, operands = 6;  // f64 has the most, 16 words a lane
  std::array<std::array<uint32_t, most_words>, operands> words;
  WarpRegisters registers;
  for (size_t i = 0; i < details.reads.size(); ++i) {
    const MmaDetails::Registers& read = details.reads[i];
    gather_words(warp, read.slots, read.wide, words[i].data());
    RegisterView& view = read.field == Field::a_regs     ? registers.a
                         : read.field == Field::b_regs   ? registers.b
                         : read.field == Field::metadata ? registers.metadata
                         : read.field == Field::scale_a  ? registers.scale_a
                         : read.field == Field::scale_b  ? registers.scale_b
                                                         : registers.c;
    view = words[i].data();
  }
  std::array<uint32_t, most_words> d;
  details.of_warp->execute(registers, d.data());
  scatter_words(d.data(), warp, details.results, details.wide_results);
}

/// State fields by the PTX names of the operands. d is C before the product and D after it.
constexpr auto operand_fields = std::to_array<std::pair<std::string_view, Field>>({
    {"a", Field::a_regs},
    {"b", Field::b_regs},
    {"c", Field::accumulator},
    {"e", Field::metadata},
    {"sp-meta", Field::metadata},
    {"scale-a-data", Field::scale_a},
    {"scale-b-data", Field::scale_b},
    {"a-desc", Field::a_desc},
    {"b-desc", Field::b_desc},
});

/// The number of a byte-id or thread-id. PTX takes a register there; ptxas wants to know its value.
std::string id_text(Decoder& decoder, const Operand& id) {
  const Operand* const number = decoder.constant_of(id);
  if (!number || number->kind != Kind::integer) decoder.refuse("with an id of scales that is not a constant");
  return std::to_string(number->value);
}

/// The texts of the operands as layer instruction reads them: registers where the kernel has numbers or `_` as elements
/// of a matrix, and numbers where it has registers as ids of scales.
std::vector<std::string> texts_of(Decoder& decoder, const PtxInstruction& instruction) {
  std::vector<std::string> texts = instruction.operand_texts;
  constexpr size_t matrices = 4;  // D, A, B and C come first
  const bool has_scales = instruction.opcode.find(".block_scale") != std::string::npos;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Operand& operand = instruction.operands[i];
    if (operand.kind != Kind::vector) continue;
    const bool is_ids = has_scales && i >= matrices && operand.elements.size() == 2;
    std::string text;
    for (size_t e = 0; e < operand.elements.size(); ++e)
      text += (e == 0 ? "" : ", ") + (is_ids ? id_text(decoder, operand.elements[e]) : fmt::format("%r{}", e));
    texts[i] = "{" + text + "}";
  }
  return texts;
}

void decode_mma(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  words.take_all();
  const Statement statement = parse_statement(instruction.opcode, texts_of(decoder, instruction));
  const bool is_warpgroup = words.name() == Word::wgmma;
  MmaDetails mma_details{.instruction = statement.instruction,
                         .without_c = statement.instruction,
                         .warps = is_warpgroup ? size_t{4} : size_t{1}};
  // The registers of D hold C: if the instruction can read C, it does unless scale-d is false.
  if (is_warpgroup) {
    mma_details.instruction = with_enable_input_d(statement.instruction, true);
    mma_details.without_c = with_enable_input_d(statement.instruction, false);
  }
  require_legal(mma_details.instruction, decoder.target());
  mma_details.model = &model_for(mma_details.instruction, decoder.target());
  const FieldRules rules = fields_of(mma_details.instruction);
  const auto rule_of = [&](Field field) -> const FieldRule* {
    for (const FieldRule& rule : rules) {
      if (rule.field == field) return &rule;
    }
    return nullptr;
  };
  const auto add_read = [&](Field field, const Operand& source) {
    const FieldRule* const rule = rule_of(field);
    if (!rule) decoder.refuse(fmt::format("with operand {}", info(field).name));
    const bool is_number = info(field).is_number, wide = rule->wide || is_number;
    mma_details.reads.push_back({.field = field,
                                 .slots = slots_of(decoder, source, wide, false),
                                 .wide = wide,
                                 .is_number = is_number,
                                 .extents = rule->extents});
  };
  size_t at = 0;
  for (const StatementOperand& operand : statement.operands) {
    const Operand& register_operand = instruction.operands.at(at++);
    const auto field = std::ranges::find(operand_fields, operand.name, &std::pair<std::string_view, Field>::first);
    if (operand.name == "d") {
      const FieldRule* const rule = rule_of(Field::accumulator);
      mma_details.wide_results = rule && rule->wide;
      mma_details.results = slots_of(decoder, register_operand, mma_details.wide_results, true);
      if (is_warpgroup) {
        add_read(Field::accumulator, register_operand);
        for (const Operand& reg : register_operand.elements) {
          if (reg.kind == Kind::reg) mma_details.accumulators.push_back(reg.reg);
        }
      }
    } else if (field != operand_fields.end()) {
      add_read(field->second, register_operand);
    } else if (operand.name == "scale-d") {
      mma_details.has_scale_d = true;
      mma_details.scale_d = decoder.read_mask(register_operand);
    } else if (operand.kind != OperandKind::immediate) {
      decoder.refuse(fmt::format("with operand {}", operand.name));
    }
  }
  mma_details.reads_shared = rule_of(Field::smem) != nullptr;
  for (const FieldRule& rule : rules) {
    const bool is_there = rule.field == Field::smem || std::ranges::any_of(mma_details.reads, [&](const auto& read) {
                            return read.field == rule.field;
                          });
    if (rule.required && !is_there) decoder.refuse(fmt::format("with {}", info(rule.field).name));
  }
  if (!is_warpgroup) mma_details.of_warp = family::warp_execution_of(mma_details.instruction, mma_details.model);
  if (mma_details.of_warp && mma_details.of_warp->takes_slots()) {
    WarpSlots& slots = mma_details.warp_slots.emplace();
    for (const MmaDetails::Registers& read : mma_details.reads) {
      if (read.field == Field::b_regs) std::ranges::copy(read.slots, slots.b.begin());
      else std::ranges::copy(read.slots, (read.field == Field::a_regs ? slots.a : slots.c).begin());
    }
    std::ranges::copy(mma_details.results, slots.d.begin());
  }
  const auto* details = decoder.keep(std::move(mma_details));
  const uint32_t members = decoder.constant(all_lanes, 4);
  Op& op = decoder.emit(is_warpgroup ? run_mma : run_warp_mma);
  op.details = details;
  op.control = is_warpgroup ? Control::warpgroup : Control::converge;
  op.e = members;
}

void commit_group(Warp& warp, const Op&, Mask) { ++warp.committed_groups; }
void wait_group(Warp& warp, const Op& op, Mask) {
  const auto left = static_cast<uint32_t>(op.immediate);
  if (warp.committed_groups > left)
    warp.completed_groups = std::max(warp.completed_groups, warp.committed_groups - left);
}

/// The product is complete when wgmma.mma_async ends. Groups decide whose accumulators may be read.
void decode_wgmma(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (instruction.words.size() > 1 && instruction.words[1] == Word::mma_async)
    return decode_mma(decoder, instruction, words);
  const Word what = words.take_one({Word::fence, Word::commit_group, Word::wait_group});
  if (what == Word::none || !words.take(Word::sync) || !words.take(Word::aligned)) decoder.refuse("not supported");
  const bool waits = what == Word::wait_group;
  decoder.require_operands(instruction, waits ? 1 : 0, waits ? 1 : 0);
  if (waits && (instruction.operands[0].kind != Kind::integer || instruction.operands[0].value > INT32_MAX))
    decoder.refuse("with a number that is not constant, or negative");
  Op& op = decoder.emit(waits ? wait_group : what == Word::fence ? nothing : commit_group);
  if (waits) op.immediate = static_cast<int64_t>(instruction.operands[0].value);
}

constexpr auto matrix_rows = std::to_array<Opcode>({
    {.name = Word::ldmatrix,
     .does = "reads 8 x 8 matrices of shared memory into the registers of a warp",
     .decode = decode_matrix_move,
     .acts = acts},
    {.name = Word::stmatrix,
     .does = "writes 8 x 8 matrices from the registers of a warp to shared memory",
     .decode = decode_matrix_move,
     .acts = acts},
    {.name = Word::mma,
     .does = "D = A * B + C, by a warp",
     .decode = decode_mma,
     .acts = acts,
     .exchanges = exchanges,
     .is_matrix = true},
    {.name = Word::wgmma,
     .does = "D = A * B + D, by a warpgroup with operands in shared memory",
     .decode = decode_wgmma,
     .acts = acts,
     .is_async = true,
     .is_matrix = true},
});

}  // namespace

std::span<const Opcode> matrix_opcodes() { return matrix_rows; }

void follow_product(Warp& warp, const Op& op) {
  const auto& details = *static_cast<const MmaDetails*>(op.details);
  const std::span<const Operand> operands = instruction_of(warp, op).operands;
  /// Calls body(register of the operand, lane, the element's bits in it, its place) for the elements of an operand.
  const auto for_each_element = [&](size_t operand, std::string_view name, const auto& body) {
    const Fragment fragment = register_fragment_of(details.instruction, name);
    const std::span<const Operand> registers = parts_of(operands[operand]);
    for (size_t i = 0; i < registers.size(); ++i) {
      if (registers[i].kind != Kind::reg) continue;
      for (int lane = 0; lane < lanes; ++lane) {
        for (int bit = 0; bit < (fragment.is_wide() ? 64 : 32); bit += fragment.element_bits)
          body(registers[i].reg, lane, low_mask(fragment.element_bits) << bit,
               element_at(fragment, lane, static_cast<int>(i), bit));
      }
    }
  };
  const auto holds = [&](int reg, int lane, uint64_t bits) { return (unwritten_bits(warp, reg, lane) & bits) != 0; };
  std::set<int> rows, columns;
  std::set<std::pair<int, int>> elements;
  for_each_element(1, "a", [&](int reg, int lane, uint64_t bits, MatrixPlace at) {
    if (holds(reg, lane, bits)) rows.insert(at.row);
  });
  for_each_element(2, "b", [&](int reg, int lane, uint64_t bits, MatrixPlace at) {
    if (holds(reg, lane, bits)) columns.insert(at.row);
  });
  for_each_element(3, "c", [&](int reg, int lane, uint64_t bits, MatrixPlace at) {
    if (holds(reg, lane, bits)) elements.emplace(at.row, at.col);
  });
  // Metadata and scales: the whole product.
  bool all = false;
  for_each_register(operands.subspan(4), [&](const Operand& operand) {
    all = all || warp.unwritten->lanes_of_register[static_cast<size_t>(operand.reg)] != 0;
  });
  std::map<int, std::array<uint64_t, lanes>> results;
  for_each_element(0, "d", [&](int reg, int lane, uint64_t bits, MatrixPlace at) {
    const bool is_affected =
        all || rows.contains(at.row) || columns.contains(at.col) || elements.contains({at.row, at.col});
    results[reg][static_cast<size_t>(lane)] |= is_affected ? bits : 0;
  });
  for (const auto& [reg, bits] : results)
    for (int lane = 0; lane < lanes; ++lane) set_unwritten_bits(warp, reg, lane, bits[static_cast<size_t>(lane)]);
}

void check_operands(const bitmma::Instruction& instruction, Target target, const State& state,
                    std::span<const Warp> warps) {
  for (const SmemOperand& operand : smem_operands(instruction, target, state)) {
    const auto units = SmemMap(operand.matrix).units(128 / operand.matrix.element_bits);
    if (units) check_async_reads(warps, *warps.front().cta, *units);
  }
}

std::vector<uint32_t> slots_of(Decoder& decoder, const Operand& operand, bool wide, bool writes) {
  std::vector<uint32_t> slots;
  const Type type = wide ? Type::b64 : Type::b32;
  for (const Operand& reg : parts_of(operand)) {
    const Type of_element = !wide && reg.kind == Kind::real ? Type::f32 : type;
    slots.push_back(writes ? decoder.write(reg, of_element) : decoder.read(reg, of_element));
  }
  return slots;
}

}  // namespace bitmma::kernel
