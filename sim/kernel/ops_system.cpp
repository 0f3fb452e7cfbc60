// SPDX-License-Identifier: MIT
// What the driver supplies to a kernel: vprintf, assertions, a heap, a stack, and the blocks of the grid that have not
// begun.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/text.hpp"
#include "decode.hpp"
#include "lanes.hpp"
#include "mbarrier.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

// --- calls of functions that no module defines

constexpr size_t most_text_bytes = 4096;                 // of a string that a kernel passes
constexpr size_t most_printed_bytes = size_t{64} << 20;  // of a cluster
constexpr uint64_t heap_alignment = 16;                  // CUDA C++ Programming Guide, malloc

/// The .param variables of a call, which are local memory of the thread: their slots, in the order of the call.
struct CallDetails {
  std::vector<uint32_t> arguments = {}, results = {};
};

uint64_t argument_of(Warp& warp, const Op& op, int lane, size_t index, int bytes) {
  const auto& call = *static_cast<const CallDetails*>(op.details);
  const uint64_t at = warp.lanes_of<const uint64_t>(call.arguments[index])[lane];
  uint64_t value = 0;
  std::memcpy(&value, locate(warp, op, lane, Space::local, at, bytes, AccessKind::read), static_cast<size_t>(bytes));
  return value;
}
void set_result(Warp& warp, const Op& op, int lane, uint64_t value, int bytes) {
  const auto& call = *static_cast<const CallDetails*>(op.details);
  const uint64_t at = warp.lanes_of<const uint64_t>(call.results[0])[lane];
  std::memcpy(locate(warp, op, lane, Space::local, at, bytes, AccessKind::write), &value, static_cast<size_t>(bytes));
}

/// The text at a generic address.
std::string text_at(Warp& warp, const Op& op, int lane, uint64_t address) {
  std::string text;
  for (;; ++address) {
    const uint8_t byte = *locate(warp, op, lane, Space::generic, address, 1, AccessKind::read);
    if (byte == 0) return text;
    if (text.size() == most_text_bytes)
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a text of more than {} bytes", most_text_bytes),
            "a text that ends with a zero byte");
    text += static_cast<char>(byte);
  }
}

/// One conversion of a format, "%-8.3lld".
struct Conversion {
  std::string text = {};  // without its length
  char kind = 0;
  int bytes = 4;  // of an integer
  int stars = 0;  // widths and precisions that are arguments
};

/// Reads the conversion that begins at the `%` of format[at], and moves `at` behind it. `kind` is 0 if it is none of
/// those of CUDA's printf.
Conversion read_conversion(std::string_view format, size_t& at) {
  Conversion conversion{.text = "%"};
  const auto take_all = [&](std::string_view characters) {
    while (++at < format.size() && characters.find(format[at]) != std::string_view::npos) {
      conversion.stars += format[at] == '*';
      conversion.text += format[at];
    }
    --at;
  };
  take_all("-+ #0123456789.*");
  int longs = 0;
  while (++at < format.size() && std::string_view("hlLjzt").find(format[at]) != std::string_view::npos)
    longs += std::string_view("ljzt").find(format[at]) != std::string_view::npos;
  if (longs > 0) conversion.bytes = 8;
  if (at >= format.size()) return conversion;
  const char kind = format[at++];
  if (std::string_view("diouxXcsfFeEgGaAp%").find(kind) != std::string_view::npos) conversion.kind = kind;
  return conversion;
}

template <typename... Values>
std::string printed(const std::string& format, const std::vector<int>& stars, Values... values) {
  std::array<char, 512> buffer;
  const auto print = [&](auto... all) { return std::snprintf(buffer.data(), buffer.size(), format.c_str(), all...); };
  const int length = stars.empty()       ? print(values...)
                     : stars.size() == 1 ? print(stars[0], values...)
                                         : print(stars[0], stars[1], values...);
  return std::string(buffer.data(), static_cast<size_t>(std::clamp(length, 0, static_cast<int>(buffer.size()) - 1)));
}

/// The arguments of a vprintf: a buffer with each value at a multiple of its size, as nvcc stores them.
class PrintArguments {
 public:
  PrintArguments(Warp& warp, const Op& op, int lane, uint64_t address)
      : warp_(warp), op_(op), lane_(lane), address_(address) {}

  uint64_t take(int bytes) {
    address_ = round_up(static_cast<int64_t>(address_), bytes);
    uint64_t value = 0;
    std::memcpy(&value, locate(warp_, op_, lane_, Space::generic, address_, bytes, AccessKind::read),
                static_cast<size_t>(bytes));
    address_ += static_cast<uint64_t>(bytes);
    ++count_;
    return value;
  }
  uint32_t count() const { return count_; }

 private:
  Warp& warp_;
  const Op& op_;
  int lane_;
  uint64_t address_;
  uint32_t count_ = 0;
};

/// What a thread prints. CUDA C++ Programming Guide, formatted output.
std::string formatted(Warp& warp, const Op& op, int lane, std::string_view format, PrintArguments& arguments) {
  std::string text;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      text += format[at++];
      continue;
    }
    Conversion conversion = read_conversion(format, at);
    std::vector<int> stars;
    for (int i = 0; i < conversion.stars; ++i)
      stars.push_back(std::clamp(static_cast<int32_t>(arguments.take(4)), -256, 256));
    if (conversion.stars > 2 || conversion.kind == 0)
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("the format {}", shortened(printable(format))),
            "a format of printf");
    switch (conversion.kind) {
      case '%': text += '%'; break;
      case 's':
        text += printed(conversion.text + "s", stars, text_at(warp, op, lane, arguments.take(8)).c_str());
        break;
      case 'p': text += fmt::format("{:#x}", arguments.take(8)); break;
      case 'c': text += printed(conversion.text + "c", stars, static_cast<int>(arguments.take(4))); break;
      case 'd':
      case 'i': {
        const uint64_t value = arguments.take(conversion.bytes);
        text += printed(conversion.text + "lld", stars,
                        conversion.bytes == 8 ? static_cast<long long>(value)
                                              : static_cast<long long>(static_cast<int32_t>(value)));
        break;
      }
      case 'o':
      case 'u':
      case 'x':
      case 'X':
        text += printed(conversion.text + "ll" + conversion.kind, stars,
                        static_cast<unsigned long long>(arguments.take(conversion.bytes)));
        break;
      default:
        text += printed(conversion.text + conversion.kind, stars, std::bit_cast<double>(arguments.take(8)));
        break;
    }
  }
  return text;
}

void run_vprintf(Warp& warp, const Op& op, Mask mask) {
  std::string& all = warp.cta->cluster->printed;
  for_each_lane(mask, [&](int lane) {
    const uint64_t format = argument_of(warp, op, lane, 0, 8);
    PrintArguments arguments(warp, op, lane, argument_of(warp, op, lane, 1, 8));
    if (format == 0) return set_result(warp, op, lane, 0xFFFFFFFF, 4);
    all += formatted(warp, op, lane, text_at(warp, op, lane, format), arguments);
    if (all.size() > most_printed_bytes)
      fault(ViolationCode::out_of_bounds, lane, fmt::format("more than {} bytes from printf", most_printed_bytes),
            "a kernel that prints less");
    set_result(warp, op, lane, arguments.count(), 4);
  });
}

/// __assertfail(message, file, line, function, size of a character).
void run_assertion(Warp& warp, const Op& op, Mask mask) {
  const int lane = __builtin_ctz(mask);
  if (static_cast<const CallDetails*>(op.details)->arguments.empty())
    fault(ViolationCode::failed_assertion, lane, "a failed assertion", "a kernel that ends");
  const auto text = [&](size_t index) {
    const uint64_t address = argument_of(warp, op, lane, index, 8);
    return address == 0 ? std::string("?") : shortened(printable(text_at(warp, op, lane, address)));
  };
  fault(ViolationCode::failed_assertion, lane,
        fmt::format("the failed assertion {} of {}:{} in {}", text(0), text(1), argument_of(warp, op, lane, 2, 4),
                    text(3)),
        "a kernel that ends");
}

/// A block of the heap: behind the first gap that is large enough. nullptr if none is.
uint64_t allocate(Heap& heap, uint64_t bytes) {
  bytes = static_cast<uint64_t>(round_up(static_cast<int64_t>(std::max<uint64_t>(bytes, 1)), heap_alignment));
  uint64_t at = 0;
  for (const auto& [offset, size] : heap.blocks) {
    if (offset - at >= bytes) break;
    at = offset + size;
  }
  if (at > heap.bytes || heap.bytes - at < bytes) return 0;
  heap.blocks.emplace(at, bytes);
  return heap.begin + at;
}

void set_states(Warp& warp, uint64_t address, uint64_t bytes, uint8_t state) {
  for (const GlobalRegion& region : *warp.cta->regions) {
    if (region.states && address >= region.begin && address - region.begin < region.size)
      std::memset(region.states + (address - region.begin), state, bytes);
  }
}

void run_malloc(Warp& warp, const Op& op, Mask mask) {
  Heap& heap = *warp.cta->cluster->heap;
  for_each_lane(mask, [&](int lane) {
    const uint64_t bytes = argument_of(warp, op, lane, 0, 8);
    const uint64_t address = bytes > heap.bytes ? 0 : allocate(heap, bytes);
    if (address != 0) set_states(warp, address, heap.blocks.at(address - heap.begin), unwritten);
    set_result(warp, op, lane, address, 8);
  });
}
void run_free(Warp& warp, const Op& op, Mask mask) {
  Heap& heap = *warp.cta->cluster->heap;
  for_each_lane(mask, [&](int lane) {
    const uint64_t address = argument_of(warp, op, lane, 0, 8);
    if (address == 0) return;
    const auto block = heap.blocks.find(address - heap.begin);
    if (block == heap.blocks.end())
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("free({:#x})", address), "an address that malloc gave");
    set_states(warp, address, block->second, unwritten);
    heap.blocks.erase(block);
  });
}

struct SystemFunction {
  std::string_view name;
  Run run;
  size_t arguments, results;
  bool needs_heap = false;
};
constexpr auto system_functions = std::to_array<SystemFunction>({
    {"vprintf", run_vprintf, 2, 1},
    {"__assertfail", run_assertion, 5, 0},
    {"malloc", run_malloc, 1, 1, true},
    {"free", run_free, 1, 0, true},
});

// --- alloca

struct AllocaDetails {
  uint32_t align = 8;
};

template <typename W>
void run_alloca(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const AllocaDetails*>(op.details);
  Cta& cta = *warp.cta;
  const auto variables = static_cast<uint64_t>(cta.local_bytes - most_stack_bytes);
  for_each_lane(mask, [&](int lane) {
    uint32_t& used = warp.stack_bytes[static_cast<size_t>(lane)];
    const uint64_t bytes = warp.lanes_of<const W>(op.a)[lane];
    const auto begin = static_cast<uint64_t>(round_up(static_cast<int64_t>(variables + used), details.align));
    if (bytes > most_stack_bytes || begin + bytes > static_cast<uint64_t>(cta.local_bytes))
      fault(ViolationCode::out_of_bounds, lane, fmt::format("alloca of {} bytes", bytes),
            fmt::format("at most {} bytes of stack a thread", most_stack_bytes));
    used = static_cast<uint32_t>(begin + bytes - variables);
    if (cta.launch->checks)
      std::memset(cta.local_states.data() +
                      static_cast<size_t>(warp.index * lanes + lane) * static_cast<size_t>(cta.local_bytes) + begin,
                  unwritten, bytes);
    warp.lanes_of<W>(op.d)[lane] = static_cast<W>(begin);
  });
}

Type stack_type(Decoder& decoder, Words& words) {
  const auto type = words.take_type();
  if (type != Type::u64 && type != Type::u32) decoder.refuse("of another type than .u32 and .u64");
  decoder.program().has_stack = true;
  return *type;
}

void decode_alloca(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = stack_type(decoder, words);
  decoder.require_operands(instruction, 2, 3);
  AllocaDetails details;
  if (instruction.operands.size() == 3) {
    const Operand& align = instruction.operands[2];
    if (align.kind != Kind::integer || !std::has_single_bit(align.value) || align.value > 1024)
      decoder.refuse("with an alignment that is not a power of two");
    details.align = static_cast<uint32_t>(align.value);
  }
  const uint32_t a = decoder.read(instruction.operands[1], type), d = decoder.write(instruction.operands[0], type);
  const auto* kept = decoder.keep(details);
  Op& op = decoder.emit(type == Type::u64 ? run_alloca<uint64_t> : run_alloca<uint32_t>);
  op.a = a, op.d = d, op.details = kept;
}

template <typename W>
void save_stack(Warp& warp, const Op& op, Mask mask) {
  for_each_lane(mask, [&](int lane) { warp.lanes_of<W>(op.d)[lane] = warp.stack_bytes[static_cast<size_t>(lane)]; });
}
template <typename W>
void restore_stack(Warp& warp, const Op& op, Mask mask) {
  for_each_lane(mask, [&](int lane) {
    const uint64_t saved = warp.lanes_of<const W>(op.a)[lane];
    if (saved > warp.stack_bytes[static_cast<size_t>(lane)])
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("stackrestore of {:#x}", saved),
            "a value of stacksave that is not older than the stack");
    warp.stack_bytes[static_cast<size_t>(lane)] = static_cast<uint32_t>(saved);
  });
}
void decode_stack(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const Type type = stack_type(decoder, words);
  decoder.require_operands(instruction, 1, 1);
  const bool saves = words.name() == Word::stacksave, wide = type == Type::u64;
  const uint32_t slot =
      saves ? decoder.write(instruction.operands[0], type) : decoder.read(instruction.operands[0], type);
  Op& op = decoder.emit(saves ? (wide ? save_stack<uint64_t> : save_stack<uint32_t>)
                              : (wide ? restore_stack<uint64_t> : restore_stack<uint32_t>));
  (saves ? op.d : op.a) = slot;
}

// --- clusterlaunchcontrol: a cluster takes over the work of one that has not begun

/// The response of try_cancel. PTX does not define its bits.
struct CancelResponse {
  std::array<uint32_t, 3> first_block{};
  uint32_t is_canceled = 0;
};
static_assert(sizeof(CancelResponse) == 16);

struct CancelDetails {
  Address to = {}, barrier = {};
  bool to_all = false;
};

void run_try_cancel(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const CancelDetails*>(op.details);
  Cluster& cluster = *warp.cta->cluster;
  const Launch& launch = *warp.cta->launch;
  for_each_lane(mask, [&](int lane) {
    CancelResponse response;
    if (const auto next = cluster.queue->take()) {
      uint64_t left = *next;
      for (size_t i = 0; i < 3; ++i) {
        const auto extent = static_cast<uint64_t>((*launch.cluster)[i]),
                   clusters = static_cast<uint64_t>(launch.grid[i]) / extent;
        response.first_block[i] = static_cast<uint32_t>(left % clusters * extent);
        left /= clusters;
      }
      response.is_canceled = 1;
    }
    const uint64_t to = details.to.of(warp, lane), barrier = details.barrier.of(warp, lane);
    const auto deliver = [&](uint64_t to_there, uint64_t barrier_there) {
      const MbarrierObject object = object_of(warp, op, lane, details.barrier.space, barrier_there, AccessKind::atomic);
      const uint8_t* const place = locate(warp, op, lane, details.to.space, to_there, 16, AccessKind::bulk_write);
      Cta* const cta = owner_of(cluster, place);
      BulkCopy::Piece bytes{.cta = cta, .to = static_cast<uint32_t>(place - cta->shared.data())};
      std::memcpy(bytes.bytes.data(), &response, 16);
      if (cta->launch->checks) std::memset(cta->shared_states.data() + bytes.to, in_flight, 16);
      object.cta->bulk_copies.push_back({.barrier = object.address, .bytes = 16, .pieces = {bytes}});
    };
    if (!details.to_all) return deliver(to, barrier);
    for (int rank = 0; rank < std::ssize(cluster.ctas); ++rank)
      deliver(address_in(rank, to), address_in(rank, barrier));
  });
}

struct QueryDetails {
  std::array<uint32_t, 3> slots{Op::no_slot, Op::no_slot, Op::no_slot};
};
void run_is_canceled(Warp& warp, const Op& op, Mask mask) {
  Mask canceled = 0;
  for_each_lane(mask, [&](int lane) {
    CancelResponse response;
    std::memcpy(static_cast<void*>(&response), warp.lanes_of<const uint64_t>(op.a) + 2 * lane, 16);
    canceled |= Mask{response.is_canceled != 0} << lane;
  });
  set_mask(warp, op.d, mask, canceled);
}
void run_first_block(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const QueryDetails*>(op.details);
  for_each_lane(mask, [&](int lane) {
    CancelResponse response;
    std::memcpy(static_cast<void*>(&response), warp.lanes_of<const uint64_t>(op.a) + 2 * lane, 16);
    if (response.is_canceled == 0)
      fault(ViolationCode::undefined_by_ptx, lane, "get_first_ctaid of a request that failed",
            "a response for which is_canceled is true");
    for (size_t i = 0; i < 3; ++i) {
      if (details.slots[i] != Op::no_slot) warp.lanes_of<uint32_t>(details.slots[i])[lane] = response.first_block[i];
    }
  });
}

void decode_query(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  decoder.require_operands(instruction, 2, 2);
  const Operand& result = instruction.operands[0];
  if (!words.take(Word::b128)) decoder.refuse("without .b128");
  const uint32_t a = decoder.read(instruction.operands[1], Type::b128);
  if (words.take(Word::is_canceled)) {
    if (!words.take(Word::pred)) decoder.refuse("without .pred");
    const uint32_t d = decoder.write_mask(result);
    Op& op = decoder.emit(run_is_canceled);
    op.a = a, op.d = d;
    return;
  }
  QueryDetails query;
  constexpr std::array dimensions{Word::get_first_ctaid_x, Word::get_first_ctaid_y, Word::get_first_ctaid_z};
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (words.take(dimensions[i])) query.slots[i] = decoder.write(result, Type::b32);
  }
  if (words.take(Word::get_first_ctaid)) {
    if (!words.take(Word::v4) || result.kind != Kind::vector || result.elements.size() != 4)
      decoder.refuse("without a vector of four registers");
    for (size_t i = 0; i < query.slots.size(); ++i) query.slots[i] = decoder.write(result.elements[i], Type::b32);
    if (result.elements[3].kind != Kind::sink) decoder.write(result.elements[3], Type::b32);
  }
  if (!words.take(Word::b32)) decoder.refuse("without .b32");
  const auto* details = decoder.keep(query);
  Op& op = decoder.emit(run_first_block);
  op.a = a, op.details = details;
}

void decode_cluster_control(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (decoder.target() < Target::sm_100) decoder.refuse("before sm_100");
  if (words.take(Word::query_cancel)) return decode_query(decoder, instruction, words);
  if (!words.take(Word::try_cancel) || !words.take(Word::async)) decoder.refuse("not supported");
  words.take(Word::shared_cta);
  CancelDetails cancel{.to_all = words.take(Word::multicast_cluster_all)};
  if (!words.take(Word::mbarrier_complete_tx_bytes) || !words.take(Word::b128))
    decoder.refuse("with another completion");
  decoder.require_operands(instruction, 2, 2);
  cancel.to = address_of(decoder, instruction.operands[0], Space::shared);
  cancel.barrier = address_of(decoder, instruction.operands[1], Space::shared);
  decoder.program().takes_clusters = true;
  const auto* details = decoder.keep(cancel);
  decoder.emit(run_try_cancel).details = details;
}

constexpr auto system_rows = std::to_array<Opcode>({
    {.name = Word::alloca_, .does = "takes local memory of the thread's stack", .decode = decode_alloca, .acts = acts},
    {.name = Word::stacksave, .does = "the thread's stack pointer", .decode = decode_stack, .acts = acts},
    {.name = Word::stackrestore, .does = "sets the thread's stack pointer", .decode = decode_stack, .acts = acts},
    {.name = Word::clusterlaunchcontrol,
     .does = "takes over the work of a cluster of the grid that has not begun",
     .decode = decode_cluster_control,
     .acts = acts},
});

}  // namespace

std::span<const Opcode> system_opcodes() { return system_rows; }

bool decode_system_call(Decoder& decoder, const PtxInstruction& instruction, std::string_view name) {
  const auto row = std::ranges::find(system_functions, name, &SystemFunction::name);
  if (row == system_functions.end()) return false;
  CallDetails call;
  bool is_behind = false;  // of the function's name: results come before it
  for (const Operand& operand : instruction.operands) {
    if (operand.kind == Kind::function) is_behind = true;
    for (const Operand& variable : operand.elements) {
      if (variable.kind != Kind::symbol) decoder.refuse("with an argument that is no .param variable");
      (is_behind ? call.arguments : call.results)
          .push_back(decoder.variable_address(variable.variable, variable.offset, 8));
    }
  }
  const bool has_none = row->results == 0 && call.arguments.empty();  // an assertion without its text
  if ((call.arguments.size() != row->arguments && !has_none) || call.results.size() != row->results)
    decoder.refuse(fmt::format("of {} with other arguments", name));
  if (row->needs_heap) decoder.program().has_heap = true;
  const auto* details = decoder.keep(std::move(call));
  decoder.emit(row->run).details = details;
  return true;
}

}  // namespace bitmma::kernel
