// SPDX-License-Identifier: MIT
// Fat binaries: the container of compiled device code that nvcc embeds in a program and that cuModuleLoadData takes.
//
//   container  magic 0xba55ed50 u32, version u16 = 1, header bytes u16 = 16, bytes of all entries u64
//   entry      kind u16, version u16, header bytes u32, payload bytes u64, compressed bytes u32, options u32,
//              minor u16, major u16, sm u32, name offset u32, name bytes u32, flags u64, 0 u64, uncompressed bytes u64
//
// The payload follows the entry's header. All numbers are little-endian. Source: hexdumps of what nvcc 13.0 writes for
// data/ptx/scale.cu with each target and each --compress-mode; no document describes the container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bitmma/core/target.hpp"

namespace bitmma::driver {

enum class FatbinKind : uint8_t { ptx, cubin, lto_ir, other };
enum class FatbinCompression : uint8_t { none, lz4, zstd };

struct FatbinEntry {
  FatbinKind kind = FatbinKind::other;
  int sm = 0;         // 90
  char suffix = ' ';  // 'a' or 'f' of the target's name; blank: neither
  FatbinCompression compression = FatbinCompression::none;
  uint64_t uncompressed_bytes = 0;
  std::span<const uint8_t> payload = {};

  /// "sm_90a".
  std::string target() const;
};

inline constexpr uint32_t fatbin_magic = 0xba55ed50;

/// The bytes of the container at an address, as its header says.
std::size_t fatbin_bytes(const uint8_t* container);

/// The entries of a container, in order. Throws Error for bytes that are not a whole container.
std::vector<FatbinEntry> fatbin_entries(std::span<const uint8_t> container);

/// The payload without compression. Throws Error for damaged bytes and, if libzstd.so.1 is missing, for zstd.
std::string fatbin_payload(const FatbinEntry& entry);

/// Whether a GPU runs PTX with this `.target`. PTX for sm_100 runs on all later GPUs, for sm_100f on later ones of its
/// family (sm_103, sm_107), for sm_100a on sm_100a alone. Source: PTX ISA, .target; ptxas 13.0, except for sm_107,
/// which it does not know.
bool runs_on(Target code, Target gpu);

/// The PTX of the container for `device`: of the highest target that the device runs, where sm_90a is above sm_90.
/// Throws Error, with the flags of nvcc that embed PTX, if there is none.
std::string fatbin_ptx(std::span<const uint8_t> container, Target device);

/// Throws the Error of an image without PTX that `device` runs; `seen`: what the image has.
[[noreturn]] void refuse_without_ptx(std::string seen, Target device);

}  // namespace bitmma::driver
