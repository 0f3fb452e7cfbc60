// Small files of cases for tests of what acts make of files.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma::test {

inline constexpr const char* small_mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";

inline TensorFile golden_file(std::string path, const std::string& mnemonic = small_mma, int64_t cases = 2) {
  TensorFile file = make_golden(
      {.instruction = parse_instruction(mnemonic), .cases = cases, .seed = 3, .distribution = Distribution::normal}, 1);
  file.path = std::move(path);
  return file;
}

/// `file` with one bit of a tensor changed.
inline TensorFile with_flipped_bit(TensorFile file, std::string_view name, size_t byte, int bit = 0) {
  Tensor tensor = *file.find(name);
  std::vector<uint8_t> bytes = tensor.bytes.copy();
  bytes.at(byte) ^= static_cast<uint8_t>(1 << bit);
  file.set(Tensor::from_bytes(tensor.name, tensor.dtype, tensor.shape, std::move(bytes)));
  return file;
}

/// Plain matrices a and b of f16 with small numbers, [M, K] and [K, N], that repeat in no block.
inline TensorFile plain_file(std::string path, const std::string& mnemonic, int m, int n, int k) {
  const auto codes = [](int count, uint32_t seed) {
    std::vector<uint8_t> bytes;
    for (int i = 0; i < count; ++i) {
      seed = seed * 1664525 + 1013904223;
      const uint32_t code = (seed >> 16 & 0x83FF) | 0x3C00;  // +-1 to 2
      bytes.push_back(static_cast<uint8_t>(code)), bytes.push_back(static_cast<uint8_t>(code >> 8));
    }
    return bytes;
  };
  TensorFile file{.path = std::move(path), .metadata = {{"instruction", mnemonic}}, .tensors = {}};
  file.set(Tensor::from_bytes("a", "F16", {m, k}, codes(m * k, 1)));
  file.set(Tensor::from_bytes("b", "F16", {k, n}, codes(k * n, 2)));
  return file;
}

}  // namespace bitmma::test
