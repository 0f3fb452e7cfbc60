// SPDX-License-Identifier: MIT
#include "image.hpp"

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "bitmma/core/error.hpp"
#include "fatbin.hpp"
#include "link_ptx.hpp"

namespace bitmma::driver {
namespace {

constexpr uint32_t elf_magic = 0x464c457f, wrapper_magic = 0x466243b1;

struct Wrapper {
  uint32_t magic, version;
  const uint8_t* container;
  const uint8_t* const* containers;
};

std::span<const uint8_t> container_at(const uint8_t* address) { return {address, fatbin_bytes(address)}; }

}  // namespace

std::string ptx_of_image(const void* image, Target device) {
  const auto* const text = static_cast<const char*>(image);
  if (strnlen(text, sizeof(uint32_t)) < sizeof(uint32_t)) return text;
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == elf_magic) refuse_without_ptx("a cubin, which is SASS", device);
  if (magic == fatbin_magic) return fatbin_ptx(container_at(static_cast<const uint8_t*>(image)), device);
  if (magic != wrapper_magic) return text;
  Wrapper wrapper{};
  std::memcpy(&wrapper, image, sizeof wrapper);
  if (wrapper.version != 2 || !wrapper.containers) return fatbin_ptx(container_at(wrapper.container), device);

  // A program of -rdc=true: the container of nvlink is empty if all code is PTX, and the list has a container of each
  // file and of libcudadevrt, whose code for Hopper is SASS alone.
  std::vector<std::string> modules;
  std::optional<Error> without_ptx;
  for (const uint8_t* const* container = wrapper.containers; *container; ++container) {
    try {
      modules.push_back(fatbin_ptx(container_at(*container), device));
    } catch (const Error& error) {
      if (error.violations().front().code != ViolationCode::unsupported_target) throw;
      without_ptx = error;
    }
  }
  if (modules.empty() && without_ptx) throw *without_ptx;
  return join_ptx(modules);
}

}  // namespace bitmma::driver
