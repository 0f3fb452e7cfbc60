// SPDX-License-Identifier: MIT
// Fat binaries: the container of compiled device code that nvcc embeds in a program and that cuModuleLoadData takes.
//
//   wrapper    magic 0x466243b1 u32, version u32, container*, containers** (of version 2: with -rdc=true, up to a null)
//   container  magic 0xba55ed50 u32, version u16 = 1, header bytes u16 = 16, bytes of all entries u64
//   entry      kind u16, version u16, header bytes u32, payload bytes u64, compressed bytes u32, options u32,
//              minor u16, major u16, sm u32, name offset u32, name bytes u32, flags u64, 0 u64, uncompressed bytes u64
//
// The payload follows the entry's header. All numbers are little-endian. Source: hexdumps of what nvcc 13.0 writes for
// data/driver/scale.cu with each target and each --compress-mode; no document describes the container.
#pragma once

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

/// The entries of a container, in order. Throws Error for bytes that are not a whole container.
std::vector<FatbinEntry> fatbin_entries(std::span<const uint8_t> container);

/// The payload without compression. Throws Error for damaged bytes and, if libzstd.so.1 is missing, for zstd.
std::string fatbin_payload(const FatbinEntry& entry);

/// The PTX of the container for `device`: of the highest target that the device runs, where sm_90a is above sm_90.
/// Throws Error, with the flags of nvcc that embed PTX, if there is none.
std::string fatbin_ptx(std::span<const uint8_t> container, Target device);

/// True if the image begins as a wrapper, a container, or an ELF file; otherwise it is PTX text.
bool is_binary_image(const void* image);

/// The PTX of an image as cuModuleLoadData and __cudaRegisterFatBinary take it: text up to a zero byte, a container or
/// a wrapper, whose containers are joined. No length comes with the pointer, so that of a container's header is
/// trusted. Throws Error as fatbin_ptx does, and for a cubin.
std::string image_ptx(const void* image, Target device);

}  // namespace bitmma::driver
