// Bytes of a safetensors file: as they are, or a header as text behind its true length, and data after it.
#pragma once

#include "fuzz.hpp"

namespace bitmma::fuzz {

inline std::vector<uint8_t> raw_file(Bytes& in) {
  if (one_in(in, 4)) return in.ConsumeRemainingBytes<uint8_t>();
  const auto data_bytes = in.ConsumeIntegralInRange<std::size_t>(0, one_in(in, 8) ? 70000 : 64);
  const std::string header = in.ConsumeRemainingBytesAsString();
  std::vector<uint8_t> made(8);
  for (std::size_t i = 0; i < 8; ++i) made[i] = static_cast<uint8_t>(header.size() >> 8 * i);
  made.insert(made.end(), header.begin(), header.end());
  for (std::size_t i = 0; i < data_bytes; ++i) made.push_back(static_cast<uint8_t>(37 * i + i / 256));
  return made;
}

}  // namespace bitmma::fuzz
