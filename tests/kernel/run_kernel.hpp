// Kernels of data/kernels, and small ones that are written in a test.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/random.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "support/files.hpp"

namespace bitmma::test {

inline PtxEntry kernel_of_data(const std::string& file, const std::string& entry) {
  return PtxEntry(read_text(source_path("data/kernels/" + file)), {.entry = entry});
}

template <typename T>
KernelArgument memory(std::vector<T>& values) {
  return memory_argument({reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(T)});
}
inline KernelArgument number(int32_t value) { return scalar_argument(static_cast<uint32_t>(value), 4); }
inline KernelArgument number(float value) { return scalar_argument(std::bit_cast<uint32_t>(value), 4); }

/// A module of one kernel whose parameter p points to words: %rd1 is p, %r1 ... are loaded from it where `loads` asks.
inline std::string module_of(std::string_view body, int loads = 0) {
  std::string text =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<40>;\n"
      ".reg .b64 %rd<40>;\n.reg .f32 %f<40>;\n.reg .b16 %h<40>;\n.reg .pred %p<10>;\nld.param.u64 %rd1, [p];\n";
  for (int i = 1; i <= loads; ++i)
    text += "ld.global.b32 %r" + std::to_string(i) + ", [%rd1+" + std::to_string(4 * (i - 1)) + "];\n";
  return text + std::string(body) + "\nret;\n}\n";
}

/// What one thread leaves in the words that p points to.
inline std::vector<uint32_t> run_words(std::string_view body, std::vector<uint32_t> words, int loads) {
  const PtxEntry kernel(module_of(body, loads));
  launch(kernel, {.arguments = {memory(words)}});
  return words;
}

}  // namespace bitmma::test
