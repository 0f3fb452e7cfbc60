// SPDX-License-Identifier: MIT
#include "fatbin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "bitmma/core/error.hpp"
#include "lz4.hpp"

namespace bitmma::driver {
namespace {

constexpr std::size_t container_header_bytes = 16, entry_header_bytes = 64;
constexpr uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000, flag_a = 0x100000, flag_f = 0x200000;
constexpr uint64_t most_uncompressed_bytes = uint64_t{1} << 28;

[[noreturn]] void refuse(std::string seen, std::string expected) {
  throw Error({.code = ViolationCode::malformed,
               .field = "fat binary",
               .seen = std::move(seen),
               .expected = std::move(expected)});
}

template <typename T>
T read(std::span<const uint8_t> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// 100 of sm_100a. GPUs of a family have the same tens.
int number_of(Target target) {
  const std::string_view name = info(target).name;
  int number = 0;
  std::from_chars(name.data() + std::string_view("sm_").size(), name.data() + name.size(), number);
  return number;
}

/// bitmma knows no target before sm_70, whose PTX runs on every GPU.
bool has_ptx_for(const FatbinEntry& entry, Target device) {
  if (entry.kind != FatbinKind::ptx) return false;
  const std::optional<Target> target = target_named(entry.target());
  return target ? runs_on(*target, device) : entry.sm < 70;
}

const FatbinEntry* best_ptx(const std::vector<FatbinEntry>& entries, Target device) {
  const FatbinEntry* best = nullptr;
  const auto rank = [](const FatbinEntry& entry) {
    return 4 * entry.sm + (entry.suffix == 'a' ? 2 : entry.suffix == 'f' ? 1 : 0);
  };
  for (const FatbinEntry& entry : entries) {
    if (has_ptx_for(entry, device) && (!best || rank(entry) > rank(*best))) best = &entry;
  }
  return best;
}

/// libzstd.so.1 is part of Debian's base system, so that no build and no package needs its headers.
struct Zstd {
  std::size_t (*decompress)(void*, std::size_t, const void*, std::size_t) = nullptr;

  Zstd() {
    if (void* const library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL))
      decompress = reinterpret_cast<decltype(decompress)>(dlsym(library, "ZSTD_decompress"));
  }
};

bool decompress_zstd(std::span<const uint8_t> from, std::span<uint8_t> to) {
  static const Zstd zstd;
  if (!zstd.decompress) {
    throw Error({.code = ViolationCode::not_found,
                 .field = "library",
                 .seen = "libzstd.so.1",
                 .fix = "install libzstd1, or compile with nvcc --compress-mode=none"});
  }
  return zstd.decompress(to.data(), to.size(), from.data(), from.size()) == to.size();
}

std::string targets_of(const std::vector<FatbinEntry>& entries) {
  std::string text;
  for (const FatbinEntry& entry : entries) {
    constexpr std::array<std::string_view, 4> kinds{"PTX", "SASS", "LTO IR", "other code"};
    text += fmt::format("{}{} for {}", text.empty() ? "" : ", ", kinds[static_cast<std::size_t>(entry.kind)],
                        entry.target());
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

std::size_t fatbin_bytes(const uint8_t* container) {
  const std::span<const uint8_t> header(container, container_header_bytes);
  return read<uint16_t>(header, 6) + read<uint64_t>(header, 8);
}

bool runs_on(Target code, Target gpu) {
  const Target code_chip = info(code).chip, gpu_chip = info(gpu).chip;  // sm_101a is sm_110a
  switch (info(code).name.back()) {
    case 'a': return code_chip == gpu_chip && info(gpu).name.ends_with('a');
    case 'f': return number_of(code_chip) / 10 == number_of(gpu_chip) / 10 && code_chip <= gpu_chip;
    default: return number_of(code) <= number_of(gpu_chip);
  }
}

void refuse_without_ptx(std::string seen, Target device) {
  const std::string_view target = print(device).substr(3);
  throw Error({.code = ViolationCode::unsupported_target,
               .field = "image",
               .seen = std::move(seen),
               .expected = fmt::format("PTX for {} or an earlier target; bitmma does not run SASS", print(device)),
               .fix = fmt::format("compile with nvcc -gencode arch=compute_{0},code=compute_{0}", target)});
}

std::string FatbinEntry::target() const {
  return suffix == ' ' ? fmt::format("sm_{}", sm) : fmt::format("sm_{}{}", sm, suffix);
}

std::vector<FatbinEntry> fatbin_entries(std::span<const uint8_t> container) {
  if (container.size() < container_header_bytes || read<uint32_t>(container, 0) != fatbin_magic)
    refuse("no header", "a container that begins with 0xba55ed50");
  const std::size_t header_bytes = read<uint16_t>(container, 6);
  const uint64_t bytes = read<uint64_t>(container, 8);
  if (read<uint16_t>(container, 4) != 1 || header_bytes < container_header_bytes)
    refuse(fmt::format("version {}", read<uint16_t>(container, 4)), "version 1");
  if (header_bytes > container.size() || bytes > container.size() - header_bytes)
    refuse(fmt::format("{} bytes", container.size()), "as many as its header says");

  std::vector<FatbinEntry> entries;
  for (std::span<const uint8_t> rest = container.subspan(header_bytes, bytes); !rest.empty();) {
    if (rest.size() < entry_header_bytes) refuse("a part of an entry", "whole entries");
    const std::size_t entry_bytes = read<uint32_t>(rest, 4);
    const uint64_t payload_bytes = read<uint64_t>(rest, 8);
    const uint64_t compressed_bytes = read<uint32_t>(rest, 16);
    if (entry_bytes < entry_header_bytes || entry_bytes > rest.size() || payload_bytes > rest.size() - entry_bytes)
      refuse("an entry beyond the container", "entries inside of it");
    const uint64_t flags = read<uint64_t>(rest, 40);
    FatbinEntry entry{.sm = static_cast<int>(read<uint32_t>(rest, 28) & 0xffff),
                      .suffix = flags & flag_a   ? 'a'
                                : flags & flag_f ? 'f'
                                                 : ' ',
                      .uncompressed_bytes = payload_bytes,
                      .payload = rest.subspan(entry_bytes, payload_bytes)};
    switch (read<uint16_t>(rest, 0)) {
      case 1: entry.kind = FatbinKind::ptx; break;
      case 2: entry.kind = FatbinKind::cubin; break;
      case 8: entry.kind = FatbinKind::lto_ir; break;
      default: break;
    }
    if (flags & (flag_lz4 | flag_zstd)) {
      entry.compression = flags & flag_zstd ? FatbinCompression::zstd : FatbinCompression::lz4;
      entry.uncompressed_bytes = read<uint64_t>(rest, 56);
      if (compressed_bytes > payload_bytes) refuse("compressed bytes beyond their entry", "bytes inside of it");
      entry.payload = entry.payload.first(compressed_bytes);
    }
    entries.push_back(entry);
    rest = rest.subspan(entry_bytes + payload_bytes);
  }
  return entries;
}

std::string fatbin_payload(const FatbinEntry& entry) {
  if (entry.uncompressed_bytes > most_uncompressed_bytes)
    refuse(fmt::format("an entry of {} bytes", entry.uncompressed_bytes), "at most 2^28");
  std::string text(entry.uncompressed_bytes, '\0');
  const std::span<uint8_t> to(reinterpret_cast<uint8_t*>(text.data()), text.size());
  bool is_whole = true;
  switch (entry.compression) {
    case FatbinCompression::none: std::ranges::copy(entry.payload, to.begin()); break;
    case FatbinCompression::lz4: is_whole = decompress_lz4(entry.payload, to); break;
    case FatbinCompression::zstd: is_whole = decompress_zstd(entry.payload, to); break;
  }
  if (!is_whole) refuse("damaged compressed bytes", "as many bytes as the entry says");
  // Text is padded with zero bytes.
  if (entry.kind == FatbinKind::ptx) text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

std::string fatbin_ptx(std::span<const uint8_t> container, Target device) {
  const std::vector<FatbinEntry> entries = fatbin_entries(container);
  const FatbinEntry* const best = best_ptx(entries, device);
  if (!best) refuse_without_ptx(targets_of(entries), device);
  return fatbin_payload(*best);
}

}  // namespace bitmma::driver
