// SPDX-License-Identifier: MIT
// What a Memory holds: allocations by address, and the variables of modules.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "bitmma/kernel/memory.hpp"
#include "machine.hpp"

namespace bitmma {

struct Memory::Contents {
  struct Block {
    std::span<uint8_t> data = {};
    std::vector<uint8_t> own = {};     // the bytes, unless they are the caller's
    std::vector<uint8_t> states = {};  // one ByteState for each byte; empty: all bytes are written
    std::string name = {};
  };
  /// The variables of a module.
  struct Variables {
    std::shared_ptr<const kernel::Module> module = {};  // holds the key
    std::vector<uint64_t> addresses = {};               // of each variable in .global memory
    std::vector<uint8_t> constants = {};                // of all variables in .const memory
  };

  uint64_t next = kernel::global_begin;  // where allocate() looks first
  std::map<uint64_t, Block> blocks = {};
  std::map<const kernel::Module*, Variables> modules = {};
  kernel::Heap heap = {};

  /// Adds an allocation. Throws Error if something is in its way.
  Block& add(uint64_t address, int64_t bytes, std::string name);
  /// An address with room for `bytes` bytes and a gap behind them, which exposes accesses beyond the end.
  uint64_t free_address(int64_t bytes);
  /// The variables of a module, loaded on first use. Throws Error for an initialiser that is the
  /// address of something else than a global variable.
  Variables& variables_of(const std::shared_ptr<const kernel::Module>& module);
  /// The memory of malloc, allocated when a kernel first needs it, of the size that CUDA gives it.
  kernel::Heap& device_heap(Memory& memory);
  /// The regions of a launch, in ascending order. `checks`: whether it notes the states of bytes.
  std::vector<kernel::GlobalRegion> regions(bool checks);
  /// Call after a launch that noted no states: what it wrote is unknown.
  void forget_states();
};

}  // namespace bitmma
