// SPDX-License-Identifier: MIT
#include "image.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "bitmma/core/error.hpp"

namespace bitmma::driver {

std::string ptx_of_image(const void* image) {
  constexpr std::string_view elf = "\177ELF";
  if (std::memcmp(image, elf.data(), elf.size()) == 0)
    throw Error({.code = ViolationCode::missing_input,
                 .field = "image",
                 .seen = "machine code of a GPU (a cubin)",
                 .expected = "PTX",
                 .fix = "compile it to PTX, as code=compute_90a does"});
  return static_cast<const char*>(image);
}

std::string joined_ptx(std::span<const std::string> modules) {
  std::string joined;
  for (const std::string& text : modules) {
    std::string_view rest = text;
    // .version, .target and .address_size come first, each on a line of its own.
    const size_t size = rest.find(".address_size");
    if (!joined.empty() && size != std::string_view::npos)
      rest.remove_prefix(std::min(rest.find('\n', size), rest.size()));
    joined += rest;
    joined += '\n';
  }
  return joined;
}

}  // namespace bitmma::driver
