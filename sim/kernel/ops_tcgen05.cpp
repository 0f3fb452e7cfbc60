// SPDX-License-Identifier: MIT
// tcgen05: Tensor Memory, its products, and moves to and from it. Each completes when it is issued; commit arrives
// immediately.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "../instruction/family.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "matrix.hpp"
#include "mbarrier.hpp"
#include "tensor_memory.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;
using enum Field;

/// Source of a state field that is a number: an operand in brackets, or a register.
struct NumberOperand {
  Field field = taddr;
  Address address = {};      // for operands in brackets
  bool in_brackets = false;  // otherwise a register
  uint32_t slot = 0;
  bool wide = false;

  uint64_t of(const Warp& warp, int lane) const {
    if (in_brackets) return address.of(warp, lane) & low_mask(32);
    return wide ? warp.lanes_of<const uint64_t>(slot)[lane] : warp.lanes_of<const uint32_t>(slot)[lane];
  }
};

struct Tcgen05Details {
  bitmma::Instruction instruction = {};
  std::vector<NumberOperand> numbers = {};
  std::optional<uint32_t> idesc = {}, enable_input_d = {};  // a register's slot, a mask
  std::vector<uint32_t> lane_mask = {};                     // from disable_output_lane
  std::vector<uint32_t> registers = {};                     // of ld and st
  std::optional<uint32_t> redval = {};
  bool reads_shared = false, loads = false;
  bool of_pair = false;  // cta_group::2
};

/// Operands by their PTX names. Registers, the instruction descriptor and the predicate are not numbers of a state.
constexpr auto number_fields = std::to_array<std::pair<std::string_view, Field>>({
    {"d-tmem", d_tmem},
    {"a-tmem", a_tmem},
    {"sp-meta-tmem", metadata_tmem},
    {"scale-A-tmem", scale_a_tmem},
    {"scale-B-tmem", scale_b_tmem},
    {"taddr", taddr},
    {"a-desc", a_desc},
    {"b-desc", b_desc},
    {"s-desc", s_desc},
    {"zero-column-mask-desc", zero_column_mask},
});

/// Refuses addresses in columns that the block has not allocated.
void require_allocated(const TensorMemory& memory, const NumberOperand& operand, uint64_t value, int lane) {
  if (!operand.in_brackets) return;
  const uint64_t column = value & 0xFFFF;
  if (column < memory.allocated.size() && memory.allocated[column] != 0) return;
  fault(ViolationCode::undefined_by_ptx, lane,
        fmt::format("{} {:#x} in Tensor Memory that is not allocated", info(operand.field).name, value),
        "columns of tcgen05.alloc");
}

/// Sets the state for a lane's instruction: it uses the block's Tensor Memory and shared memory.
bitmma::Instruction prepare(const Warp& warp, const Tcgen05Details& details, int lane) {
  TensorMemory& memory = *warp.cta->tensor_memory;
  bitmma::Instruction instruction = details.instruction;
  for (const NumberOperand& number : details.numbers) {
    const uint64_t value = number.of(warp, lane);
    require_allocated(memory, number, value, lane);
    memory.state.set(number.field, value);
  }
  if (details.idesc)
    instruction = with_immediate(instruction, "idesc", warp.lanes_of<const uint32_t>(*details.idesc)[lane]);
  if (details.enable_input_d)
    instruction = with_enable_input_d(instruction, (warp.mask_of(*details.enable_input_d) >> lane & 1) != 0);
  if (!details.lane_mask.empty()) {
    std::vector<uint32_t> words;
    for (const uint32_t slot : details.lane_mask) words.push_back(warp.lanes_of<const uint32_t>(slot)[lane]);
    memory.state.set(disable_output_lane, std::move(words), {std::ssize(details.lane_mask)});
  }
  if (details.reads_shared && warp.cta->launch->checks && !details.of_pair) {
    require_legal(instruction, warp.cta->program->target);
    check_operands(instruction, warp.cta->program->target, memory.state, {&warp, 1});
  }
  return instruction;
}

void forget_numbers(TensorMemory& memory, const Tcgen05Details& details) {
  for (const NumberOperand& number : details.numbers) memory.state.erase(number.field);
  memory.state.erase(disable_output_lane);
}

/// cta_group::2: shared memory and Tensor Memory of the even-rank block and of the next block, as one state.
void execute_of_pair(const Warp& warp, const bitmma::Instruction& instruction, int lane) {
  std::vector<Cta>& ctas = warp.cta->cluster->ctas;
  const auto even = static_cast<size_t>(warp.cta->rank) & ~size_t{1};
  if (even + 1 >= ctas.size())
    fault(ViolationCode::undefined_by_ptx, lane, "cta_group::2 in a cluster of one block", "a cluster of pairs");
  State pair = warp.cta->tensor_memory->state;  // copies the numbers
  std::vector<uint32_t> words;
  std::vector<uint8_t> bytes;
  for (const size_t rank : {even, even + 1}) {
    const std::span<const uint32_t> of_block = ctas[rank].tensor_memory->state.words(tmem);
    words.insert(words.end(), of_block.begin(), of_block.end());
    bytes.insert(bytes.end(), ctas[rank].shared.begin(), ctas[rank].shared.end());
  }
  const std::ptrdiff_t size = std::ssize(words) / 2;
  pair.set(tmem, std::move(words), {2, tensor_memory_lanes, tensor_memory_columns});
  pair.set(smem, std::move(bytes), {2, std::ssize(warp.cta->shared)});
  execute(instruction, warp.cta->program->target, pair);
  const std::span<const uint32_t> after = pair.words(tmem);
  for (const size_t rank : {even, even + 1}) {
    const auto from = after.begin() + static_cast<std::ptrdiff_t>(rank - even) * size;
    std::copy_n(from, size, ctas[rank].tensor_memory->state.writable_words(tmem).begin());
  }
}

/// mma, cp and shift: each lane issues its own.
void run_issued(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const Tcgen05Details*>(op.details);
  TensorMemory& memory = *warp.cta->tensor_memory;
  for_each_lane(mask, [&](int lane) {
    const bitmma::Instruction instruction = prepare(warp, details, lane);
    Tracer* const tracer = warp.cta->tracer;
    if (tracer && tracer->warp == &warp && tracer->lane == lane && details.idesc && !details.of_pair) {
      tracer->product = Case{.instruction = instruction, .target = warp.cta->program->target, .before = memory.state};
      tracer->product_op = &op;
    }
    if (details.of_pair) execute_of_pair(warp, instruction, lane);
    else execute(instruction, warp.cta->program->target, memory.state);
    forget_numbers(memory, details);
  });
}

/// ld and st: each warp accesses its quarter of the lanes.
void run_move(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const Tcgen05Details*>(op.details);
  if (mask != all_lanes) fault_of_lanes(warp, mask);
  TensorMemory& memory = *warp.cta->tensor_memory;
  const bitmma::Instruction instruction = prepare(warp, details, 0);
  const size_t count = details.registers.size();
  memory.state.set(Field::warp, static_cast<uint64_t>(warp.index % 4));
  if (!details.loads) {
    std::vector<uint32_t> words(lanes * count);
    for (size_t i = 0; i < count; ++i) {
      for (size_t lane = 0; lane < lanes; ++lane)
        words[lane * count + i] = warp.lanes_of<const uint32_t>(details.registers[i])[lane];
    }
    memory.state.set(regs, std::move(words), {lanes, static_cast<int64_t>(count)});
  }
  execute(instruction, warp.cta->program->target, memory.state);
  if (details.loads) {
    const std::span<const uint32_t> words = memory.state.words(regs);
    for (size_t i = 0; i < count; ++i) {
      for (size_t lane = 0; lane < lanes; ++lane)
        warp.lanes_of<uint32_t>(details.registers[i])[lane] = words[lane * count + i];
    }
  }
  if (details.redval) std::ranges::copy(memory.state.words(redval), warp.lanes_of<uint32_t>(*details.redval));
  for (const Field field : {regs, redval, Field::warp}) memory.state.erase(field);
  forget_numbers(memory, details);
}

struct AllocationDetails {
  Address to = {};       // destination of alloc, in shared memory
  uint32_t address = 0;  // slot of dealloc's address
  uint32_t columns = 0;  // slot of the number of columns
};

uint32_t require_columns(uint32_t columns, int lane) {
  if (columns < 32 || columns > tensor_memory_columns || (columns & (columns - 1)) != 0)
    fault(ViolationCode::undefined_by_ptx, lane, fmt::format("{} columns", columns), "a power of two from 32 to 512");
  return columns;
}

/// Allocates the first free columns. PTX blocks until another block frees some; here blocks of other clusters never run
/// at the same time, so a full Tensor Memory is a deadlock.
void run_alloc(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const AllocationDetails*>(op.details);
  const int lane = __builtin_ctz(mask);
  TensorMemory& memory = *warp.cta->tensor_memory;
  const uint32_t columns = require_columns(warp.lanes_of<const uint32_t>(details.columns)[lane], lane);
  const std::vector<uint16_t> free(columns, 0);
  const auto free_columns = std::ranges::search(memory.allocated, free);
  if (free_columns.empty())
    fault(ViolationCode::deadlock, lane, fmt::format("tcgen05.alloc of {} columns, which are not free", columns),
          fmt::format("at most {} columns allocated by a block at the same time", tensor_memory_columns));
  const auto address = static_cast<uint32_t>(free_columns.begin() - memory.allocated.begin());
  std::ranges::fill(free_columns, static_cast<uint16_t>(address + 1));
  uint8_t data[4];
  std::memcpy(data, &address, 4);
  std::memcpy(locate(warp, op, lane, details.to, 4, AccessKind::write, data), data, 4);
}

void run_dealloc(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const AllocationDetails*>(op.details);
  const int lane = __builtin_ctz(mask);
  TensorMemory& memory = *warp.cta->tensor_memory;
  const uint32_t columns = require_columns(warp.lanes_of<const uint32_t>(details.columns)[lane], lane),
                 address = warp.lanes_of<const uint32_t>(details.address)[lane];
  if (address >= memory.allocated.size() ||
      std::cmp_not_equal(std::ranges::count(memory.allocated, address + 1), columns))
    fault(ViolationCode::undefined_by_ptx, lane,
          fmt::format("tcgen05.dealloc of {} columns at {:#x}", columns, address),
          "an address and a size of tcgen05.alloc");
  std::ranges::replace(memory.allocated, static_cast<uint16_t>(address + 1), uint16_t{0});
}

struct CommitDetails {
  Address barrier = {};
  uint32_t blocks = Op::no_slot;  // slot of the mask of .multicast::cluster
};

void commit_to_mbarrier(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const CommitDetails*>(op.details);
  for_each_lane(mask, [&](int lane) {
    const uint64_t address = details.barrier.of(warp, lane);
    if (details.blocks == Op::no_slot) return arrive_once(warp, op, lane, details.barrier.space, address);
    for_each_lane(blocks_of_mask(warp, details.blocks, lane),
                  [&](int rank) { arrive_once(warp, op, lane, details.barrier.space, address_in(rank, address)); });
  });
  ++warp.epoch;
}

/// One execution for the whole warp.
void converge(Decoder& decoder, Op& op) {
  op.control = Control::converge;
  op.e = decoder.constant(all_lanes, 4);
}

void decode_allocation(Decoder& decoder, const PtxInstruction& instruction, Words& words, bool allocates) {
  if (!words.take(Word::sync) || !words.take(Word::aligned) || !words.take(Word::b32))
    decoder.refuse("of another type");
  AllocationDetails allocation_details;
  decoder.require_operands(instruction, 2, 2);
  if (allocates) {
    const Space space = words.take(Word::shared_cta) ? Space::shared : Space::generic;
    allocation_details.to = address_of(decoder, instruction.operands[0], space);
  } else {
    allocation_details.address = decoder.read(instruction.operands[0], Type::b32);
  }
  allocation_details.columns = decoder.read(instruction.operands[1], Type::u32);
  const auto* details = decoder.keep(allocation_details);
  Op& op = decoder.emit(allocates ? run_alloc : run_dealloc);
  op.details = details;
  converge(decoder, op);
}

void decode_commit(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (!words.take(Word::mbarrier_arrive_one) || !words.take(Word::b64)) decoder.refuse("with another completion");
  const Space space = words.take(Word::shared_cluster) ? Space::shared : Space::generic;
  const bool to_many = words.take(Word::multicast_cluster);
  decoder.require_operands(instruction, to_many ? 2 : 1, to_many ? 2 : 1);
  CommitDetails commit_details;
  commit_details.barrier = address_of(decoder, instruction.operands[0], space);
  if (to_many) commit_details.blocks = decoder.read(instruction.operands[1], Type::b16);
  const auto* details = decoder.keep(commit_details);
  Op& op = decoder.emit(commit_to_mbarrier);
  op.details = details;
}

/// Operands that are no numbers of the state.
enum class OtherOperand : uint8_t { idesc, enable_input_d, lane_mask, registers, redval };
constexpr auto other_operands = std::to_array<std::pair<std::string_view, OtherOperand>>({
    {"idesc", OtherOperand::idesc},
    {"enable-input-d", OtherOperand::enable_input_d},
    {"disable-output-lane", OtherOperand::lane_mask},
    {"r", OtherOperand::registers},
    {"redval", OtherOperand::redval},
});

void read_other(Decoder& decoder, const StatementOperand& operand, const Operand& register_operand,
                Tcgen05Details& details) {
  const auto row = std::ranges::find(other_operands, operand.name, &std::pair<std::string_view, OtherOperand>::first);
  if (row == other_operands.end()) {
    if (operand.kind != OperandKind::immediate) decoder.refuse(fmt::format("with operand {}", operand.name));
    return;
  }
  switch (row->second) {
    case OtherOperand::idesc: details.idesc = decoder.read(register_operand, Type::b32); break;
    case OtherOperand::enable_input_d: details.enable_input_d = decoder.read_mask(register_operand); break;
    case OtherOperand::lane_mask: details.lane_mask = slots_of(decoder, register_operand, false, false); break;
    case OtherOperand::registers: details.registers = slots_of(decoder, register_operand, false, details.loads); break;
    case OtherOperand::redval: details.redval = decoder.write(register_operand, Type::b32); break;
  }
}

/// mma, ld, st, cp and shift: executed by layer instruction.
void decode_executed(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  words.take_all();
  const Statement statement = parse_statement(instruction.opcode, instruction.operand_texts);
  const Word what = instruction.words[1];
  Tcgen05Details tcgen05_details{.instruction = statement.instruction, .loads = what == Word::ld};
  tcgen05_details.of_pair = has_word(instruction, Word::cta_group_2);
  const auto number_of = [&](Field field, const Operand& source) {
    NumberOperand number{.field = field, .wide = info(field).type == ElementType::u64};
    number.in_brackets = source.kind == Kind::address;
    if (number.in_brackets) number.address = address_of(decoder, source, Space::generic);
    else number.slot = decoder.read(source, number.wide ? Type::b64 : Type::b32);
    return number;
  };
  size_t at = 0;
  for (const StatementOperand& operand : statement.operands) {
    const Operand& register_operand = instruction.operands.at(at++);
    const auto field = std::ranges::find(number_fields, operand.name, &std::pair<std::string_view, Field>::first);
    if (field != number_fields.end()) tcgen05_details.numbers.push_back(number_of(field->second, register_operand));
    else read_other(decoder, operand, register_operand, tcgen05_details);
  }
  tcgen05_details.reads_shared = what == Word::mma || what == Word::cp;
  if (!tcgen05_details.idesc)
    require_legal(tcgen05_details.instruction, decoder.target());  // a product has its descriptor at run time
  const bool is_of_warp = what == Word::ld || what == Word::st;
  const auto* details = decoder.keep(std::move(tcgen05_details));
  Op& op = decoder.emit(is_of_warp ? run_move : run_issued);
  op.details = details;
  if (is_of_warp) converge(decoder, op);
}

void decode_tcgen05(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  decoder.program().has_tensor_memory = true;
  if (!has_tensor_memory(decoder.target())) decoder.refuse("on a GPU without Tensor Memory");
  const Word what = instruction.words.size() > 1 ? instruction.words[1] : Word::none;
  if (what == Word::mma || what == Word::ld || what == Word::st || what == Word::cp || what == Word::shift)
    return decode_executed(decoder, instruction, words);
  words.take(what);
  words.take_one({Word::cta_group_1, Word::cta_group_2});
  if (what == Word::alloc || what == Word::dealloc)
    return decode_allocation(decoder, instruction, words, what == Word::alloc);
  if (what == Word::commit) return decode_commit(decoder, instruction, words);
  const bool is_order = what == Word::wait_ld || what == Word::wait_st || what == Word::relinquish_alloc_permit ||
                        what == Word::fence_before_thread_sync || what == Word::fence_after_thread_sync;
  if (!is_order) decoder.refuse("not supported");
  words.take(Word::sync);
  words.take(Word::aligned);
  decoder.emit(nothing);
}

constexpr auto tcgen05_rows = std::to_array<Opcode>({
    {.name = Word::tcgen05,
     .does = "matrix products, copies and loads of Tensor Memory",
     .decode = decode_tcgen05,
     .acts = acts,
     .is_matrix = true},
});

}  // namespace

std::span<const Opcode> tcgen05_opcodes() { return tcgen05_rows; }

bool has_tensor_memory(Target target) { return violations_of(bitmma::Instruction(TmemMove{}), target).empty(); }

}  // namespace bitmma::kernel
