// SPDX-License-Identifier: MIT
#include "calls.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/bits.hpp"

namespace bitmma::kernel {
namespace {

size_t place_of(const Warp& warp, int lane, int64_t offset) {
  const Cta& cta = *warp.cta;
  return static_cast<size_t>((warp.index * lanes + lane) * cta.local_bytes + offset);
}

/// Copies bytes of a thread's local memory, with their states: a value may have parts that nothing wrote.
void copy_local(Warp& warp, int lane, int64_t to, int64_t from, int64_t bytes) {
  Cta& cta = *warp.cta;
  const auto copy = [&](std::vector<uint8_t>& memory) {
    std::copy_n(&memory[place_of(warp, lane, from)], bytes, &memory[place_of(warp, lane, to)]);
  };
  copy(cta.local);
  if (cta.launch->checks) copy(cta.local_states);
}

int64_t address_in_local(const Warp& warp, int lane, const SubroutineCall::Argument& argument) {
  return static_cast<int64_t>(warp.lanes_of<const uint64_t>(argument.slot)[lane]);
}

void require_fitting(const Warp& warp, const std::vector<SubroutineCall::Argument>& arguments,
                     const std::vector<SubroutineCode::Parameter>& parameters, const SubroutineCode& code) {
  const bool fits =
      arguments.size() == parameters.size() &&
      std::equal(arguments.begin(), arguments.end(), parameters.begin(),
                 [](const auto& argument, const auto& parameter) { return argument.bytes >= parameter.bytes; });
  if (!fits)
    fault(ViolationCode::undefined_by_ptx, __builtin_ctz(warp.active),
          fmt::format("a call of {} with arguments of other sizes", code.name), "those that the function has");
}

}  // namespace

void begin_activation(Warp& warp, const SubroutineCode& code, const SubroutineCall& call) {
  require_fitting(warp, call.params, code.params, code);
  require_fitting(warp, call.returns, code.returns, code);
  Activation activation{.code = &code, .call = &call, .stack = warp.stack_bytes};
  const bool is_active =
      std::ranges::any_of(warp.activations, [&](const Activation& other) { return other.code == &code; });
  Cta& cta = *warp.cta;
  const int64_t stack_begin = cta.local_bytes - most_stack_bytes;
  if (is_active) {
    for (const SubroutineCode::Slot& slot : code.slots)
      activation.saved.insert(activation.saved.end(), warp.file + slot.slot, warp.file + slot.slot + slot.bytes);
  }
  for_each_lane(warp.active, [&](int lane) {
    uint32_t& used = warp.stack_bytes[static_cast<size_t>(lane)];
    int64_t frame = code.frame_begin;
    if (is_active) {
      // An activation takes stack also for its registers: an endless recursion ends.
      constexpr int64_t least = 16;
      frame = stack_begin + used;
      const int64_t bytes = round_up(std::max(code.frame_bytes, least), 16);
      if (frame + bytes > cta.local_bytes)
        fault(ViolationCode::out_of_bounds, lane, fmt::format("a call of {} that needs more stack", code.name),
              fmt::format("at most {} bytes of stack a thread", most_stack_bytes));
      used += static_cast<uint32_t>(bytes);
    }
    activation.frame[static_cast<size_t>(lane)] = static_cast<uint32_t>(frame);
    if (cta.launch->checks && code.frame_bytes > 0)
      std::fill_n(&cta.local_states[place_of(warp, lane, frame)], code.frame_bytes, uint8_t{unwritten});
    for (size_t i = 0; i < code.params.size(); ++i)
      copy_local(warp, lane, frame + code.params[i].offset - code.frame_begin,
                 address_in_local(warp, lane, call.params[i]), code.params[i].bytes);
  });
  // The arguments' addresses may be those of the activation before it: they are read by now.
  for (const SubroutineCode::FrameAddress& address : code.addresses) {
    for_each_lane(warp.active, [&](int lane) {
      const uint64_t value = activation.frame[static_cast<size_t>(lane)] + static_cast<uint64_t>(address.offset);
      if (address.bytes == 8) warp.lanes_of<uint64_t>(address.slot)[lane] = value;
      else warp.lanes_of<uint32_t>(address.slot)[lane] = static_cast<uint32_t>(value);
    });
  }
  warp.activations.push_back(std::move(activation));
}

void end_activation(Warp& warp, Mask returned) {
  const Activation activation = std::move(warp.activations.back());
  warp.activations.pop_back();
  const SubroutineCode& code = *activation.code;
  const uint8_t* from = activation.saved.data();
  for (const SubroutineCode::Slot& slot : code.slots) {
    if (activation.saved.empty()) break;
    if (slot.bytes == 4) {
      Mask before = 0;
      std::memcpy(&before, from, 4);
      Mask& mask = warp.mask_of(slot.slot);
      mask = (mask & ~returned) | (before & returned);
    } else {
      const auto size = static_cast<size_t>(slot.bytes) / lanes;
      for_each_lane(returned, [&](int lane) {
        std::memcpy(warp.file + slot.slot + size * static_cast<size_t>(lane), from + size * static_cast<size_t>(lane),
                    size);
      });
    }
    from += slot.bytes;
  }
  // The addresses of the results are those of the caller, which are back.
  for_each_lane(returned, [&](int lane) {
    const int64_t frame = activation.frame[static_cast<size_t>(lane)];
    for (size_t i = 0; i < code.returns.size(); ++i)
      copy_local(warp, lane, address_in_local(warp, lane, activation.call->returns[i]),
                 frame + code.returns[i].offset - code.frame_begin, code.returns[i].bytes);
    warp.stack_bytes[static_cast<size_t>(lane)] = activation.stack[static_cast<size_t>(lane)];
  });
}

}  // namespace bitmma::kernel
