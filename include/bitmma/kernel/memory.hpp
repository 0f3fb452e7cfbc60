// SPDX-License-Identifier: MIT
// The global memory of a device, which lasts over launches.
//
//   const PtxModule module(ptx);
//   Memory memory;
//   const uint64_t x = memory.allocate(4096);                  // or memory.map(address, bytes): in place
//   memory.write(x, bytes);
//   launch(PtxEntry(module, {.entry = "scale"}),
//          {.grid = {4, 1, 1}, .block = {256, 1, 1}, .parameter_bytes = parameters, .memory = &memory});
//   memory.read(x, bytes);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitmma {

class PtxModule;
struct Texels;
struct Texture;

/// An allocation of global memory.
struct Allocation {
  uint64_t address = 0;
  int64_t bytes = 0;
  std::string name = {};         // for messages
  std::span<uint8_t> data = {};  // its bytes on the host
};

/// Allocations at addresses, with the state of each byte: kernels copy bytes that neither a kernel nor the host has
/// written as such, and are at fault where these decide an address or a branch; after a launch without checks all bytes
/// count as written. A launch looks up an address in logarithmic time. One launch at a time may use a Memory, and no
/// other call meanwhile.
class Memory {
 public:
  Memory();
  ~Memory();
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;

  /// Allocates `bytes` bytes that are not written, at a multiple of 512 as cudaMalloc does, and returns their address.
  /// Throws Error for a negative number, for more than 2^47, and if no addresses are left.
  uint64_t allocate(int64_t bytes, std::string name = {});
  /// The same at an address that the caller chooses. Throws Error if another allocation, or the addresses of shared,
  /// local, constant or parameter memory, are in its way.
  void allocate_at(uint64_t address, int64_t bytes, std::string name = {});
  /// Makes memory of the caller an allocation at `address`, which may be its own. Kernels read and write it in place;
  /// it must outlive its use. If `is_output`, a kernel is at fault that stores bytes there which nothing wrote. A
  /// caller that queries the states of bytes before it reads them passes false. Throws Error as allocate_at does.
  void map(uint64_t address, std::span<uint8_t> bytes, bool is_written = true, std::string name = {},
           bool is_output = true);
  /// The same at a free address, which it returns.
  uint64_t map(std::span<uint8_t> bytes, bool is_written = true, std::string name = {});
  /// Throws Error unless an allocation begins at the address, and for the variables of modules, which stay.
  void free(uint64_t address);

  /// Copies between the host and one allocation. Throw Error for bytes that are not all in one allocation; read, for
  /// bytes that are not written, too. .const memory is no allocation: `variable` gives its bytes.
  void write(uint64_t address, std::span<const uint8_t> bytes);
  void fill(uint64_t address, int64_t bytes, uint8_t value);
  void read(uint64_t address, std::span<uint8_t> bytes) const;
  /// Copies bytes of one allocation to one allocation, which may be the same; bytes that are not written stay so.
  void copy(uint64_t to, uint64_t from, int64_t bytes);
  /// Whether all these bytes of one allocation are written. Throws Error as read does for bytes outside.
  bool is_written(uint64_t address, int64_t bytes) const;

  /// The allocation that has the byte at this address; nothing if none has.
  std::optional<Allocation> find(uint64_t address) const;
  /// In ascending order of addresses, those of modules' variables included.
  std::vector<Allocation> allocations() const;
  /// How many bytes of the allocation at this address are written. Throws Error unless one begins there.
  int64_t written_bytes(uint64_t address) const;

  /// A variable of a module in .global or .const memory. The variables of a module get their initial bytes when the
  /// module is first used with this memory, and keep what kernels and the host write. Throws Error for a name that the
  /// module does not have there; of several variables of one name, it is the first. The address of a .const variable is
  /// that which cvta gives.
  Allocation variable(const PtxModule& module, std::string_view name);
  /// Frees the variables of a module; if it is used again, they begin anew.
  void unload(const PtxModule& module);

  /// Makes an object by which kernels fetch from texels in one allocation, and returns its handle. Throws Error for
  /// texels that are not all in one allocation, or that a texture of a GPU cannot have.
  uint64_t add_texture(const Texture& texture);
  /// The same for loads and stores: sust and suld.
  uint64_t add_surface(const Texels& texels);
  /// Throws Error for a handle of no such object.
  void remove_texture(uint64_t handle);
  void remove_surface(uint64_t handle);
  /// Whether this is the handle of a texture or of a surface.
  bool has_object(uint64_t handle) const;

  /// For the library itself.
  struct Contents;
  Contents& contents() { return *contents_; }

 private:
  std::unique_ptr<Contents> contents_;
};

}  // namespace bitmma
