// SPDX-License-Identifier: MIT
// Control flow, barriers, and exchanges between the lanes of a warp.
#include <fmt/format.h>

#include "decode.hpp"
#include "lanes.hpp"
#include "matrix.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

void decode_bra(Decoder& decoder, const Instruction& instruction, Words& words) {
  words.take("uni");
  decoder.require_operands(instruction, 1, 1);
  Op& op = decoder.emit(nullptr);
  op.control = Control::branch;
  op.target = instruction.operands[0].target;
}

void decode_leave(Decoder& decoder, const Instruction& instruction, Words& words) {
  decoder.require_operands(instruction, 0, 0);
  if (words.name() == "ret") words.take("uni");
  Op& op = decoder.emit(nullptr);
  op.control = Control::leave;
}

void run_trap(Warp&, const Op& op, Mask mask) {
  fault(ViolationCode::kernel_trap, __builtin_ctz(mask), op.flag ? "a failed assertion" : "trap", "a kernel that ends");
}
void decode_trap(Decoder& decoder, const Instruction& instruction, Words&) {
  decoder.require_operands(instruction, 0, 0);
  decoder.emit(run_trap);
}

/// Calls of functions that the module defines are inlined before decoding.
void decode_call(Decoder& decoder, const Instruction& instruction, Words& words) {
  words.take("uni");
  for (const Operand& operand : instruction.operands) {
    if (operand.kind != Kind::function) continue;
    if (operand.name == "__assertfail") {
      decoder.emit(run_trap).flag = true;
      return;
    }
    decoder.refuse(fmt::format("of {}, which the module does not define", operand.name));
  }
  decoder.refuse("of a function whose address is in a register");
}

// --- barriers

void decode_bar(Decoder& decoder, const Instruction& instruction, Words& words) {
  words.take("cta");
  // "bar" is aligned by itself; "barrier" may say so.
  if (words.name() == "barrier") words.take("aligned");
  if (words.name() == "bar" && words.take("warp")) {
    if (!words.take("sync")) decoder.refuse("without .sync");
    decoder.require_operands(instruction, 1, 1);
    const uint32_t members = decoder.read(instruction.operands[0], Type::b32);
    Op& op = decoder.emit(nullptr);
    op.control = Control::converge;
    op.e = members;
    return;
  }
  if (words.name() == "barrier" && words.take("cluster")) {
    const std::string_view what = words.take_one({"arrive", "wait"});
    if (what == "arrive") words.take_one({"release", "relaxed"});
    if (what == "wait") words.take("acquire");
    if (what.empty()) decoder.refuse("without .arrive or .wait");
    decoder.require_operands(instruction, 0, 0);
    Op& op = decoder.emit(nullptr);
    op.control = Control::cluster;
    op.flag = what == "wait";
    return;
  }
  BarrierDetails one;
  size_t next = 0;
  const auto& operands = instruction.operands;
  uint32_t d = 0, predicate = 0;
  if (words.take("red")) {
    one.kind = BarrierKind::reduce;
    const std::string_view what = words.take_one({"popc", "and", "or"});
    if (what.empty()) decoder.refuse("without .popc, .and or .or");
    one.reduction = what == "popc" ? 0 : what == "and" ? 1 : 2;
    if (words.take_type() != (what == "popc" ? Type::u32 : Type::pred)) decoder.refuse("of another type");
    decoder.require_operands(instruction, 3, 4);
    d = what == "popc" ? decoder.write(operands[0], Type::u32) : decoder.write_mask(operands[0]);
    predicate = decoder.read_mask(operands.back());
    next = 1;
  } else if (words.take("arrive")) {
    one.kind = BarrierKind::arrive;
    decoder.require_operands(instruction, 2, 2);
  } else if (words.take("sync")) {
    decoder.require_operands(instruction, 1, 2);
  } else {
    decoder.refuse("without .sync, .arrive or .red");
  }
  const size_t end = operands.size() - (one.kind == BarrierKind::reduce ? 1 : 0);
  const auto require_number = [&](const Operand& operand, uint64_t most, uint64_t multiple) {
    if (operand.kind == Kind::integer && (operand.value > most || operand.value % multiple != 0))
      decoder.refuse(fmt::format("of {}", static_cast<int64_t>(operand.value)));
  };
  require_number(operands[next], 15, 1);
  one.id = decoder.read(operands[next], Type::u32);
  if (next + 1 < end) {
    require_number(operands[next + 1], 1024, lanes);
    one.has_count = true;
    one.count = decoder.read(operands[next + 1], Type::u32);
  }
  const auto* details = decoder.keep(one);
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
void shuffle(Warp& warp, const Op& op, Mask mask) {
  const auto *a = warp.lanes_of<const uint32_t>(op.a), *b = warp.lanes_of<const uint32_t>(op.b),
             *c = warp.lanes_of<const uint32_t>(op.c);
  uint32_t results[lanes];
  Mask inside = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const int delta = static_cast<int>(b[lane] & 31), clamp = static_cast<int>(c[lane] & 31),
              segment = static_cast<int>(c[lane] >> 8 & 31);
    const int last = (lane & segment) | (clamp & ~segment);
    int from = 0;
    bool is_inside = false;
    if constexpr (how == Shuffle::up) from = lane - delta, is_inside = from >= last;
    else if constexpr (how == Shuffle::down) from = lane + delta, is_inside = from <= last;
    else if constexpr (how == Shuffle::bfly) from = lane ^ delta, is_inside = from <= last;
    else from = (lane & segment) | (delta & ~segment), is_inside = from <= last;
    results[lane] = a[is_inside ? from : lane];
    inside |= Mask{is_inside} << lane;
  }
  auto* d = warp.lanes_of<uint32_t>(op.d);
  for_each_lane(mask, [&](int lane) { d[lane] = results[lane]; });
  if (op.flag) set_mask(warp, op.d2, mask, inside);
}

void decode_shfl(Decoder& decoder, const Instruction& instruction, Words& words) {
  if (!words.take("sync")) decoder.refuse("without .sync");
  const std::string_view how = words.take_one({"up", "down", "bfly", "idx"});
  const auto type = words.take_type();
  if (how.empty() || type != Type::b32) decoder.refuse("of another mode or type");
  decoder.require_operands(instruction, 5, 5);
  const auto& operands = instruction.operands;
  const bool has_two = operands[0].kind == Kind::pair;
  if (has_two && operands[0].elements[0].kind == Kind::sink) decoder.refuse("with _ for its result");
  const uint32_t a = decoder.read(operands[1], Type::b32), b = decoder.read(operands[2], Type::b32),
                 c = decoder.read(operands[3], Type::b32);
  const uint32_t d = decoder.write(has_two ? operands[0].elements[0] : operands[0], Type::b32),
                 d2 = has_two ? decoder.write_mask(operands[0].elements[1]) : 0;
  Op& op = emit_together(decoder,
                         how == "up"     ? shuffle<Shuffle::up>
                         : how == "down" ? shuffle<Shuffle::down>
                         : how == "bfly" ? shuffle<Shuffle::bfly>
                                         : shuffle<Shuffle::idx>,
                         operands[4]);
  op.a = a, op.b = b, op.c = c, op.d = d, op.d2 = d2, op.flag = has_two;
}

void vote(Warp& warp, const Op& op, Mask mask) {
  const Mask yes = warp.mask_of(op.a) & mask;
  switch (op.small) {
    case 0: set_mask(warp, op.d, mask, yes == mask ? all_lanes : 0); break;
    case 1: set_mask(warp, op.d, mask, yes != 0 ? all_lanes : 0); break;
    case 2: set_mask(warp, op.d, mask, yes == mask || yes == 0 ? all_lanes : 0); break;
    default: for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = yes; });
  }
}
void decode_vote(Decoder& decoder, const Instruction& instruction, Words& words) {
  if (!words.take("sync")) decoder.refuse("without .sync");
  const std::string_view how = words.take_one({"all", "any", "uni", "ballot"});
  if (how.empty()) decoder.refuse("of another mode");
  const bool is_ballot = how == "ballot";
  if (!words.take(is_ballot ? "b32" : "pred")) decoder.refuse("of another type");
  decoder.require_operands(instruction, 3, 3);
  const uint32_t a = decoder.read_mask(instruction.operands[1]);
  const uint32_t d =
      is_ballot ? decoder.write(instruction.operands[0], Type::b32) : decoder.write_mask(instruction.operands[0]);
  Op& op = emit_together(decoder, vote, instruction.operands[2]);
  op.a = a, op.d = d;
  op.small = how == "all" ? 0 : how == "any" ? 1 : how == "uni" ? 2 : 3;
}

template <typename W>
void match(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const W>(op.a);
  uint32_t results[lanes] = {};
  bool all = true;
  for_each_lane(mask, [&](int lane) {
    for_each_lane(mask, [&](int other) { results[lane] |= Mask{a[lane] == a[other]} << other; });
    all = all && results[lane] == mask;
  });
  for_each_lane(mask, [&](int lane) {
    warp.lanes_of<uint32_t>(op.d)[lane] = op.small == 0 ? results[lane] : all ? mask : 0;
  });
  if (op.flag) set_mask(warp, op.d2, mask, all ? all_lanes : 0);
}
void decode_match(Decoder& decoder, const Instruction& instruction, Words& words) {
  const std::string_view how = words.take_one({"any", "all"});
  const auto type = words.take_type();
  if (how.empty() || !words.take("sync") || (type != Type::b32 && type != Type::b64))
    decoder.refuse("of another mode or type");
  decoder.require_operands(instruction, 3, 3);
  const Operand& result = instruction.operands[0];
  const bool has_two = result.kind == Kind::pair, wide = bytes_of(*type) == 8;
  const uint32_t a = decoder.read(instruction.operands[1], *type);
  const uint32_t d = decoder.write(has_two ? result.elements[0] : result, Type::b32),
                 d2 = has_two ? decoder.write_mask(result.elements[1]) : 0;
  Op& op = emit_together(decoder, wide ? match<uint64_t> : match<uint32_t>, instruction.operands[2]);
  op.a = a, op.d = d, op.d2 = d2, op.flag = has_two, op.small = how == "all";
}

enum class Reduce : uint8_t { add, min, max, and_, or_, xor_ };
template <typename T, Reduce how>
void reduce(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const uint32_t>(op.a);
  uint32_t result = a[__builtin_ctz(mask)];
  for_each_lane(mask & (mask - 1), [&](int lane) {
    const uint32_t one = a[lane];
    switch (how) {
      case Reduce::add: result += one; break;
      case Reduce::min: result = static_cast<T>(one) < static_cast<T>(result) ? one : result; break;
      case Reduce::max: result = static_cast<T>(one) > static_cast<T>(result) ? one : result; break;
      case Reduce::and_: result &= one; break;
      case Reduce::or_: result |= one; break;
      case Reduce::xor_: result ^= one; break;
    }
  });
  for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = result; });
}
/// f32, where the order does not matter. op.flag: .abs; op.small: .NaN. Source: PTX ISA, redux.sync.
template <bool is_max>
void reduce_f32(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const uint32_t>(op.a);
  const uint32_t kept = op.flag ? 0x7FFFFFFF : 0xFFFFFFFF;
  uint32_t result = a[__builtin_ctz(mask)] & kept;
  bool any_nan = false;
  for_each_lane(mask, [&](int lane) {
    any_nan = any_nan || (a[lane] & 0x7FFFFFFF) > 0x7F800000;
    result = static_cast<uint32_t>(least_or_greatest(Type::f32, is_max, result, a[lane] & kept));
  });
  if (op.small != 0 && any_nan) result = 0x7FFFFFFF;
  for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = result; });
}
void decode_redux(Decoder& decoder, const Instruction& instruction, Words& words) {
  if (!words.take("sync")) decoder.refuse("without .sync");
  const std::string_view how = words.take_one({"add", "min", "max", "and", "or", "xor"});
  const auto type = words.take_type();
  const bool of_f32 = type == Type::f32 && (how == "min" || how == "max");
  const bool of_bits = how == "and" || how == "or" || how == "xor";
  if (how.empty() || !type || !(of_f32 || (of_bits ? type == Type::b32 : type == Type::u32 || type == Type::s32)))
    decoder.refuse("of another operation or type");
  decoder.require_operands(instruction, 3, 3);
  if (of_f32) {
    // PTX ISA: sm_100a and the family of sm_100f. Exactly these GPUs have Tensor Memory.
    if (!has_tensor_memory(decoder.target())) decoder.refuse("on a GPU other than sm_100a");
    const bool absolute = words.take("abs"), propagates = words.take("NaN");
    const uint32_t from = decoder.read(instruction.operands[1], *type),
                   to = decoder.write(instruction.operands[0], *type);
    Op& op = emit_together(decoder, how == "max" ? reduce_f32<true> : reduce_f32<false>, instruction.operands[2]);
    op.a = from, op.d = to, op.flag = absolute, op.small = propagates;
    return;
  }
  const uint32_t a = decoder.read(instruction.operands[1], Type::b32),
                 d = decoder.write(instruction.operands[0], Type::b32);
  const bool s = is_signed(*type);
  const Run run = how == "add"   ? reduce<uint32_t, Reduce::add>
                  : how == "min" ? (s ? reduce<int32_t, Reduce::min> : reduce<uint32_t, Reduce::min>)
                  : how == "max" ? (s ? reduce<int32_t, Reduce::max> : reduce<uint32_t, Reduce::max>)
                  : how == "and" ? reduce<uint32_t, Reduce::and_>
                  : how == "or"  ? reduce<uint32_t, Reduce::or_>
                                 : reduce<uint32_t, Reduce::xor_>;
  Op& op = emit_together(decoder, run, instruction.operands[2]);
  op.a = a, op.d = d;
}

void elect(Warp& warp, const Op& op, Mask mask) {
  const int leader = __builtin_ctz(mask);
  for_each_lane(mask, [&](int lane) { warp.lanes_of<uint32_t>(op.d)[lane] = static_cast<uint32_t>(leader); });
  set_mask(warp, op.d2, mask, Mask{1} << leader);
}
void decode_elect(Decoder& decoder, const Instruction& instruction, Words& words) {
  if (!words.take("sync")) decoder.refuse("without .sync");
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
void decode_movmatrix(Decoder& decoder, const Instruction& instruction, Words& words) {
  for (const std::string_view word : {"sync", "aligned", "m8n8", "trans", "b16"}) {
    if (!words.take(word)) decoder.refuse(fmt::format("without .{}", word));
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
void decode_activemask(Decoder& decoder, const Instruction& instruction, Words& words) {
  if (words.take_type() != Type::b32) decoder.refuse("without .b32");
  decoder.require_operands(instruction, 1, 1);
  const uint32_t d = decoder.write(instruction.operands[0], Type::b32);
  decoder.emit(activemask).d = d;
}

void decode_brkpt(Decoder& decoder, const Instruction& instruction, Words&) {
  decoder.require_operands(instruction, 0, 0);
  decoder.emit(nothing);
}

constexpr auto warp_rows = std::to_array<Opcode>({
    {"bra", decode_bra, acts},
    {"ret", decode_leave, acts},
    {"exit", decode_leave, acts},
    {"trap", decode_trap, acts},
    {"call", decode_call, acts},
    {"brkpt", decode_brkpt, acts},
    {"bar", decode_bar, acts},
    {"barrier", decode_bar, acts},
    {"shfl", decode_shfl, acts},
    {"vote", decode_vote, acts},
    {"match", decode_match, acts},
    {"redux", decode_redux, acts},
    {"elect", decode_elect, acts},
    {"activemask", decode_activemask, acts},
    {"movmatrix", decode_movmatrix},
});

}  // namespace

std::span<const Opcode> warp_opcodes() { return warp_rows; }

}  // namespace bitmma::kernel
