// SPDX-License-Identifier: MIT
// Control flow, barriers, and exchanges between the lanes of a warp.
#include <fmt/format.h>

#include "decode.hpp"
#include "lanes.hpp"
#include "matrix.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

void decode_bra(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  words.take(Word::uni);
  decoder.require_operands(instruction, 1, 1);
  Op& op = decoder.emit(nullptr);
  op.control = Control::branch;
  op.target = instruction.operands[0].target;
}

/// The check in front of the branches of a brx.idx.
void check_index(Warp& warp, const Op& op, Mask mask) {
  for_each_lane(mask, [&](int lane) {
    const uint32_t index = warp.lanes_of<const uint32_t>(op.a)[lane];
    if (index >= static_cast<uint64_t>(op.immediate))
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("index {} of {} labels", index, op.immediate),
            "an index of the list");
  });
}
void decode_brx(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (!words.take(Word::idx)) decoder.refuse("without .idx");
  words.take(Word::uni);
  decoder.require_operands(instruction, 2, 2);
  const uint32_t a = decoder.read(instruction.operands[0], Type::u32);
  Op& op = decoder.emit(check_index);
  op.a = a;
  op.immediate = static_cast<int64_t>(instruction.operands[1].value);
}

void decode_leave(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  decoder.require_operands(instruction, 0, 0);
  if (words.name() == Word::ret) words.take(Word::uni);
  Op& op = decoder.emit(nullptr);
  op.control = words.name() == Word::ret && decoder.is_in_subroutine() ? Control::return_ : Control::leave;
}

void run_trap(Warp&, const Op&, Mask mask) {
  fault(ViolationCode::kernel_trap, __builtin_ctz(mask), "trap", "a kernel that ends");
}
void decode_trap(Decoder& decoder, const PtxInstruction& instruction, Words&) {
  decoder.require_operands(instruction, 0, 0);
  decoder.emit(run_trap);
}

/// A call that was not inlined.
void decode_subroutine_call(Decoder& decoder, const PtxInstruction& instruction) {
  SubroutineCall call;
  bool is_behind = false;  // of the function: results come before it
  for (const Operand& operand : instruction.operands) {
    if (operand.kind == Kind::function) call.subroutine = operand.target;
    if (operand.kind == Kind::reg) call.function = decoder.read(operand, Type::b64);
    if (operand.kind != Kind::list) {
      is_behind = true;
      continue;
    }
    for (const Operand& variable : operand.elements) {
      if (variable.kind != Kind::symbol) decoder.refuse("with an argument that is no .param variable");
      const int64_t bytes = decoder.module().variables[static_cast<size_t>(variable.variable)].size_bytes();
      (is_behind ? call.params : call.returns)
          .push_back({decoder.variable_address(variable.variable, variable.offset, 8), bytes});
    }
  }
  const auto* details = decoder.keep(std::move(call));
  Op& op = decoder.emit(nullptr);
  op.control = Control::call;
  op.details = details;
}

/// Calls of functions that the module defines are inlined before decoding, but those of subroutines.
void decode_call(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  words.take(Word::uni);
  for (const Operand& operand : instruction.operands) {
    if (operand.kind == Kind::reg || operand.target >= 0) return decode_subroutine_call(decoder, instruction);
    if (operand.kind != Kind::function) continue;
    if (decode_system_call(decoder, instruction, operand.name)) return;
    decoder.refuse(fmt::format("of {}, which the module does not define", operand.name));
  }
  decoder.refuse("without a function");
}

// --- barriers

void decode_bar(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  words.take(Word::cta);
  // bar is aligned by itself; barrier may say so.
  if (words.name() == Word::barrier) words.take(Word::aligned);
  if (words.name() == Word::bar && words.take(Word::warp)) {
    if (!words.take(Word::sync)) decoder.refuse("without .sync");
    decoder.require_operands(instruction, 1, 1);
    const uint32_t members = decoder.read(instruction.operands[0], Type::b32);
    Op& op = decoder.emit(nullptr);
    op.control = Control::converge;
    op.e = members;
    return;
  }
  if (words.name() == Word::barrier && words.take(Word::cluster)) {
    const Word what = words.take_one({Word::arrive, Word::wait});
    if (what == Word::arrive) words.take_one({Word::release, Word::relaxed});
    if (what == Word::wait) words.take(Word::acquire);
    if (what == Word::none) decoder.refuse("without .arrive or .wait");
    decoder.require_operands(instruction, 0, 0);
    Op& op = decoder.emit(nullptr);
    op.control = what == Word::wait ? Control::cluster_wait : Control::cluster_arrive;
    return;
  }
  BarrierDetails barrier_details;
  size_t next = 0;
  const auto& operands = instruction.operands;
  uint32_t d = 0, predicate = 0;
  if (words.take(Word::red)) {
    barrier_details.kind = BarrierKind::reduce;
    const Word what = words.take_one({Word::popc, Word::and_, Word::or_});
    if (what == Word::none) decoder.refuse("without .popc, .and or .or");
    barrier_details.reduction = what == Word::popc   ? BarrierReduction::popc
                                : what == Word::and_ ? BarrierReduction::and_
                                                     : BarrierReduction::or_;
    if (words.take_type() != (what == Word::popc ? Type::u32 : Type::pred)) decoder.refuse("of another type");
    decoder.require_operands(instruction, 3, 4);
    d = what == Word::popc ? decoder.write(operands[0], Type::u32) : decoder.write_mask(operands[0]);
    predicate = decoder.read_mask(operands.back());
    next = 1;
  } else if (words.take(Word::arrive)) {
    barrier_details.kind = BarrierKind::arrive;
    decoder.require_operands(instruction, 2, 2);
  } else if (words.take(Word::sync)) {
    decoder.require_operands(instruction, 1, 2);
  } else {
    decoder.refuse("without .sync, .arrive or .red");
  }
  const size_t end = operands.size() - (barrier_details.kind == BarrierKind::reduce ? 1 : 0);
  const auto require_number = [&](const Operand& operand, uint64_t most, uint64_t multiple) {
    if (operand.kind == Kind::integer && (operand.value > most || operand.value % multiple != 0))
      decoder.refuse(fmt::format("of {}", static_cast<int64_t>(operand.value)));
  };
  require_number(operands[next], 15, 1);
  barrier_details.id = decoder.read(operands[next], Type::u32);
  if (next + 1 < end) {
    require_number(operands[next + 1], 1024, lanes);
    barrier_details.has_count = true;
    barrier_details.count = decoder.read(operands[next + 1], Type::u32);
  }
  const auto* details = decoder.keep(barrier_details);
  Op& op = decoder.emit(nullptr);
  op.control = Control::barrier;
  op.details = details;
  op.d = d, op.c = predicate;
}

// --- shfl, vote, match, redux, elect

Op& emit_together(Decoder& decoder, Run run, const Operand& members) {
  const uint32_t slot = decoder.read(members, Type::b32);
  Op& op = decoder.emit(run);
  op.control = Control::converge;
  op.e = slot;
  return op;
}

enum class Shuffle : uint8_t { up, down, bfly, idx };
template <Shuffle how>
BITMMA_INLINE void shuffle(Warp& warp, const Op& op, Mask mask) {
  const auto *a = warp.lanes_of<const uint32_t>(op.a), *b = warp.lanes_of<const uint32_t>(op.b),
             *c = warp.lanes_of<const uint32_t>(op.c);
  int sources[lanes];
  bool inside[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    const int delta = static_cast<int>(b[lane] & 31), clamp = static_cast<int>(c[lane] & 31),
              segment = static_cast<int>(c[lane] >> 8 & 31);
    const int last = (lane & segment) | (clamp & ~segment);
    int from = 0;
    if constexpr (how == Shuffle::up) from = lane - delta;
    else if constexpr (how == Shuffle::down) from = lane + delta;
    else if constexpr (how == Shuffle::bfly) from = lane ^ delta;
    else from = (lane & segment) | (delta & ~segment);
    const bool is_inside = how == Shuffle::up ? from >= last : from <= last;
    sources[lane] = is_inside ? from : lane;
    inside[lane] = is_inside;
  }
  uint32_t results[lanes];
  for (int lane = 0; lane < lanes; ++lane) results[lane] = a[sources[lane]];
  set_lanes(warp.lanes_of<uint32_t>(op.d), mask, results);
  if (op.d2 != Op::no_slot) set_mask(warp, op.d2, mask, mask_of(inside));
}

void decode_shfl(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (!words.take(Word::sync)) decoder.refuse("without .sync");
  const Word how = words.take_one({Word::up, Word::down, Word::bfly, Word::idx});
  const auto type = words.take_type();
  if (how == Word::none || type != Type::b32) decoder.refuse("of another mode or type");
  decoder.require_operands(instruction, 5, 5);
  const auto& operands = instruction.operands;
  const bool has_two = operands[0].kind == Kind::pair;
  if (has_two && operands[0].elements[0].kind == Kind::sink) decoder.refuse("with _ for its result");
  const uint32_t a = decoder.read(operands[1], Type::b32), b = decoder.read(operands[2], Type::b32),
                 c = decoder.read(operands[3], Type::b32);
  const uint32_t d = decoder.write(has_two ? operands[0].elements[0] : operands[0], Type::b32),
                 d2 = has_two ? decoder.write_mask(operands[0].elements[1]) : Op::no_slot;
  Op& op = emit_together(decoder,
                         how == Word::up     ? at_levels<shuffle<Shuffle::up>>
                         : how == Word::down ? at_levels<shuffle<Shuffle::down>>
                         : how == Word::bfly ? at_levels<shuffle<Shuffle::bfly>>
                                             : at_levels<shuffle<Shuffle::idx>>,
                         operands[4]);
  op.a = a, op.b = b, op.c = c, op.d = d, op.d2 = d2;
}

void vote_all(Warp& warp, const Op& op, Mask mask) {
  set_mask(warp, op.d, mask, (warp.mask_of(op.a) & mask) == mask ? all_lanes : 0);
}
void vote_any(Warp& warp, const Op& op, Mask mask) {
  set_mask(warp, op.d, mask, (warp.mask_of(op.a) & mask) != 0 ? all_lanes : 0);
}
void vote_uni(Warp& warp, const Op& op, Mask mask) {
  const Mask yes = warp.mask_of(op.a) & mask;
  set_mask(warp, op.d, mask, yes == mask || yes == 0 ? all_lanes : 0);
}
void vote_ballot(Warp& warp, const Op& op, Mask mask) {
  const Mask yes = warp.mask_of(op.a) & mask;
  for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = yes; });
}
void decode_vote(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (!words.take(Word::sync)) decoder.refuse("without .sync");
  const Word how = words.take_one({Word::all, Word::any, Word::uni, Word::ballot});
  if (how == Word::none) decoder.refuse("of another mode");
  const bool is_ballot = how == Word::ballot;
  if (!words.take(is_ballot ? Word::b32 : Word::pred)) decoder.refuse("of another type");
  decoder.require_operands(instruction, 3, 3);
  const uint32_t a = decoder.read_mask(instruction.operands[1]);
  const uint32_t d =
      is_ballot ? decoder.write(instruction.operands[0], Type::b32) : decoder.write_mask(instruction.operands[0]);
  const Run run = is_ballot ? vote_ballot : how == Word::all ? vote_all : how == Word::any ? vote_any : vote_uni;
  Op& op = emit_together(decoder, run, instruction.operands[2]);
  op.a = a, op.d = d;
}

template <typename W, bool asks_all>
void match(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const W>(op.a);
  uint32_t results[lanes] = {};
  bool all = true;
  for_each_lane(mask, [&](int lane) {
    for_each_lane(mask, [&](int other) { results[lane] |= Mask{a[lane] == a[other]} << other; });
    all = all && results[lane] == mask;
  });
  for_each_lane(mask, [&](int lane) {
    warp.lanes_of<uint32_t>(op.d)[lane] = !asks_all ? results[lane] : all ? mask : 0;
  });
  if (op.d2 != Op::no_slot) set_mask(warp, op.d2, mask, all ? all_lanes : 0);
}
void decode_match(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Word how = words.take_one({Word::any, Word::all});
  const auto type = words.take_type();
  if (how == Word::none || !words.take(Word::sync) || (type != Type::b32 && type != Type::b64))
    decoder.refuse("of another mode or type");
  decoder.require_operands(instruction, 3, 3);
  const Operand& result = instruction.operands[0];
  const bool has_two = result.kind == Kind::pair, wide = bytes_of(*type) == 8;
  const uint32_t a = decoder.read(instruction.operands[1], *type);
  const uint32_t d = decoder.write(has_two ? result.elements[0] : result, Type::b32),
                 d2 = has_two ? decoder.write_mask(result.elements[1]) : Op::no_slot;
  const Run run = how == Word::all ? (wide ? match<uint64_t, true> : match<uint32_t, true>)
                                   : (wide ? match<uint64_t, false> : match<uint32_t, false>);
  Op& op = emit_together(decoder, run, instruction.operands[2]);
  op.a = a, op.d = d, op.d2 = d2;
}

enum class Reduce : uint8_t { add, min, max, and_, or_, xor_ };
template <typename T, Reduce how>
void reduce(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const uint32_t>(op.a);
  uint32_t result = a[__builtin_ctz(mask)];
  for_each_lane(mask & (mask - 1), [&](int lane) {
    const uint32_t word = a[lane];
    switch (how) {
      case Reduce::add: result += word; break;
      case Reduce::min: result = static_cast<T>(word) < static_cast<T>(result) ? word : result; break;
      case Reduce::max: result = static_cast<T>(word) > static_cast<T>(result) ? word : result; break;
      case Reduce::and_: result &= word; break;
      case Reduce::or_: result |= word; break;
      case Reduce::xor_: result ^= word; break;
    }
  });
  for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = result; });
}
struct ReduceF32 {
  bool is_max = false, absolute = false, propagates_nan = false;
};
/// f32, where the order does not matter. Source: PTX ISA, redux.sync.
void reduce_f32(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const uint32_t>(op.a);
  const auto& details = *static_cast<const ReduceF32*>(op.details);
  const uint32_t kept = details.absolute ? 0x7FFFFFFF : 0xFFFFFFFF;
  uint32_t result = a[__builtin_ctz(mask)] & kept;
  bool any_nan = false;
  for_each_lane(mask, [&](int lane) {
    any_nan = any_nan || (a[lane] & 0x7FFFFFFF) > 0x7F800000;
    result = static_cast<uint32_t>(least_or_greatest(Type::f32, details.is_max, result, a[lane] & kept));
  });
  if (details.propagates_nan && any_nan) result = 0x7FFFFFFF;
  for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = result; });
}
void decode_redux(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (!words.take(Word::sync)) decoder.refuse("without .sync");
  const Word how = words.take_one({Word::add, Word::min, Word::max, Word::and_, Word::or_, Word::xor_});
  const auto type = words.take_type();
  const bool of_f32 = type == Type::f32 && (how == Word::min || how == Word::max);
  const bool of_bits = how == Word::and_ || how == Word::or_ || how == Word::xor_;
  if (how == Word::none || !type || !(of_f32 || (of_bits ? type == Type::b32 : type == Type::u32 || type == Type::s32)))
    decoder.refuse("of another operation or type");
  decoder.require_operands(instruction, 3, 3);
  if (of_f32) {
    // PTX ISA: sm_100a and the family of sm_100f. Exactly these GPUs have Tensor Memory.
    if (!has_tensor_memory(decoder.target())) decoder.refuse("on a GPU other than sm_100a");
    const auto* details = decoder.keep(ReduceF32{
        .is_max = how == Word::max, .absolute = words.take(Word::abs), .propagates_nan = words.take(Word::NaN)});
    const uint32_t from = decoder.read(instruction.operands[1], *type),
                   to = decoder.write(instruction.operands[0], *type);
    Op& op = emit_together(decoder, reduce_f32, instruction.operands[2]);
    op.a = from, op.d = to, op.details = details;
    return;
  }
  const uint32_t a = decoder.read(instruction.operands[1], Type::b32),
                 d = decoder.write(instruction.operands[0], Type::b32);
  const bool s = is_signed(*type);
  const Run run = how == Word::add    ? reduce<uint32_t, Reduce::add>
                  : how == Word::min  ? (s ? reduce<int32_t, Reduce::min> : reduce<uint32_t, Reduce::min>)
                  : how == Word::max  ? (s ? reduce<int32_t, Reduce::max> : reduce<uint32_t, Reduce::max>)
                  : how == Word::and_ ? reduce<uint32_t, Reduce::and_>
                  : how == Word::or_  ? reduce<uint32_t, Reduce::or_>
                                      : reduce<uint32_t, Reduce::xor_>;
  Op& op = emit_together(decoder, run, instruction.operands[2]);
  op.a = a, op.d = d;
}

void elect(Warp& warp, const Op& op, Mask mask) {
  const int leader = __builtin_ctz(mask);
  for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = static_cast<uint32_t>(leader); });
  set_mask(warp, op.d2, mask, Mask{1} << leader);
}
void decode_elect(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (!words.take(Word::sync)) decoder.refuse("without .sync");
  decoder.require_operands(instruction, 2, 2);
  const Operand& result = instruction.operands[0];
  if (result.kind != Kind::pair) decoder.refuse("without d|p");
  const uint32_t d = decoder.write(result.elements[0], Type::b32), d2 = decoder.write_mask(result.elements[1]);
  Op& op = emit_together(decoder, elect, instruction.operands[1]);
  op.d = d, op.d2 = d2;
}

/// Transposes an 8 x 8 matrix of 16-bit elements; each lane holds two elements of a row.
void movmatrix(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const uint32_t>(op.a);
  const auto element = [&](int row, int col) { return a[4 * row + col / 2] >> 16 * (col % 2) & 0xFFFF; };
  uint32_t results[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    const int row = lane / 4, col = 2 * (lane % 4);
    results[lane] = element(col, row) | element(col + 1, row) << 16;
  }
  for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = results[lane]; });
}
void decode_movmatrix(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  for (const Word word : {Word::sync, Word::aligned, Word::m8n8, Word::trans, Word::b16}) {
    if (!words.take(word)) decoder.refuse(fmt::format("without .{}", print(word)));
  }
  decoder.require_operands(instruction, 2, 2);
  const uint32_t a = decoder.read(instruction.operands[1], Type::b32),
                 d = decoder.write(instruction.operands[0], Type::b32);
  Op& op = emit_together(decoder, movmatrix, {.kind = Kind::integer, .value = all_lanes});
  op.a = a, op.d = d;
}

void activemask(Warp& warp, const Op& op, Mask mask) {
  for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = mask; });
}
void decode_activemask(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (words.take_type() != Type::b32) decoder.refuse("without .b32");
  decoder.require_operands(instruction, 1, 1);
  const uint32_t d = decoder.write(instruction.operands[0], Type::b32);
  decoder.emit(activemask).d = d;
}

void decode_brkpt(Decoder& decoder, const PtxInstruction& instruction, Words&) {
  decoder.require_operands(instruction, 0, 0);
  decoder.emit(nothing);
}

constexpr auto warp_rows = std::to_array<Opcode>({
    {.name = Word::bra, .does = "continues at a label", .decode = decode_bra, .acts = acts, .jump = Jump::branch},
    {.name = Word::brx,
     .does = "continues at a label of a list",
     .decode = decode_brx,
     .acts = acts,
     .jump = Jump::table},
    {.name = Word::ret,
     .does = "returns from a function, or ends the thread",
     .decode = decode_leave,
     .acts = acts,
     .jump = Jump::ret},
    {.name = Word::exit, .does = "ends the thread", .decode = decode_leave, .acts = acts, .jump = Jump::exit},
    {.name = Word::trap,
     .does = "stops the kernel with an error",
     .decode = decode_trap,
     .acts = acts,
     .jump = Jump::exit},
    {.name = Word::call, .does = "calls a function", .decode = decode_call, .acts = acts, .jump = Jump::call},
    {.name = Word::brkpt, .does = "stops in a debugger", .decode = decode_brkpt, .acts = acts},
    {.name = Word::bar, .does = "waits for the threads of the block", .decode = decode_bar, .acts = acts},
    {.name = Word::barrier,
     .does = "waits for the threads of the block or of the cluster",
     .decode = decode_bar,
     .acts = acts},
    {.name = Word::shfl,
     .does = "the register of another lane",
     .decode = decode_shfl,
     .acts = acts,
     .exchanges = exchanges,
     .passing_operands = 1},
    {.name = Word::vote,
     .does = "a predicate or mask of the predicates of all lanes",
     .decode = decode_vote,
     .acts = acts,
     .exchanges = exchanges},
    {.name = Word::match,
     .does = "the lanes that have the same value",
     .decode = decode_match,
     .acts = acts,
     .exchanges = exchanges},
    {.name = Word::redux,
     .does = "an operation over the registers of all lanes",
     .decode = decode_redux,
     .acts = acts,
     .exchanges = exchanges},
    {.name = Word::elect, .does = "one lane of those that take part", .decode = decode_elect, .acts = acts},
    {.name = Word::activemask, .does = "the lanes that run", .decode = decode_activemask, .acts = acts},
    {.name = Word::movmatrix,
     .does = "the transpose of an 8 x 8 matrix in the registers of a warp",
     .decode = decode_movmatrix,
     .exchanges = exchanges},
});

}  // namespace

std::span<const Opcode> warp_opcodes() { return warp_rows; }

}  // namespace bitmma::kernel
