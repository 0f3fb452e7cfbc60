// SPDX-License-Identifier: MIT
// What a Memory holds: allocations by address, and the variables of modules.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "bitmma/kernel/memory.hpp"
#include "bitmma/kernel/texture.hpp"
#include "machine.hpp"

namespace bitmma {

namespace kernel {

/// One ByteState for each byte of an allocation, at first `unwritten`. Pages of states that nothing changes take no
/// memory.
class ByteStates {
 public:
  ByteStates() = default;
  explicit ByteStates(size_t bytes) : size_(bytes), states_(static_cast<uint8_t*>(std::calloc(bytes, 1))) {
    static_assert(unwritten == 0);
    if (!states_ && bytes > 0) throw std::bad_alloc();
  }

  bool empty() const { return size_ == 0; }
  void clear() { *this = ByteStates(); }
  std::span<uint8_t> all() const { return {states_.get(), size_}; }

 private:
  struct Free {
    void operator()(uint8_t* states) const { std::free(states); }
  };
  size_t size_ = 0;
  std::unique_ptr<uint8_t, Free> states_ = {};
};

}  // namespace kernel

struct Memory::Contents {
  struct Block {
    std::span<uint8_t> data = {};
    std::vector<uint8_t> own = {};   // the bytes, unless they are the caller's
    kernel::ByteStates states = {};  // empty: all bytes are written
    std::string name = {};
    bool is_output = false;  // see Memory::map
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
  kernel::TextureObjects objects = {};

  /// Adds an allocation. Throws Error if something is in its way.
  Block& add(uint64_t address, int64_t bytes, std::string name);
  /// An address with room for `bytes` bytes and a gap behind them, which exposes accesses beyond the end.
  uint64_t free_address(int64_t bytes);
  /// The variables of a module, loaded on first use. Throws Error for an initialiser that is the
  /// address of something else than a global variable.
  Variables& variables_of(const std::shared_ptr<const kernel::Module>& module);
  /// The memory of malloc, allocated when a kernel first needs it, of the size that CUDA gives it.
  kernel::Heap& device_heap(Memory& memory);
  /// Removes an allocation; false if none begins at the address.
  bool remove(uint64_t address);
  /// The regions of a launch, in ascending order, until allocations change. `checks`: whether it notes the states of
  /// bytes.
  std::vector<kernel::GlobalRegion>& regions(bool checks);
  /// Call after a launch that noted no states: what it wrote is unknown.
  void forget_states();

 private:
  std::vector<kernel::GlobalRegion> regions_ = {};
  bool regions_are_current_ = false, regions_have_states_ = false;
};

}  // namespace bitmma
