// Bytes of a file of tensors: as they are; a safetensors header as text behind its true length, and data after it;
// arrays as NumPy saves them, one by one or in an archive.
#pragma once

#include <string>
#include <string_view>

#include "fuzz.hpp"

namespace bitmma::fuzz {

inline void append(std::vector<uint8_t>& bytes, std::string_view text) {
  bytes.insert(bytes.end(), text.begin(), text.end());
}
inline void append(std::vector<uint8_t>& bytes, uint64_t number, int size) {
  for (int i = 0; i < size; ++i) bytes.push_back(i < 8 ? static_cast<uint8_t>(number >> 8 * i) : uint8_t{0});
}

/// An array of at most 4 KiB, whose header mostly says the truth.
inline std::vector<uint8_t> npy_file(Bytes& in) {
  constexpr std::string_view types[] = {"<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4",
                                        "<u2", "|u1", "|b1", "|V2", "|V1", "<U4", ">f4", "|O"};
  const std::string_view type = pick(in, types);
  std::string shape;
  uint64_t bytes = static_cast<uint64_t>(type.back() - '0') * (type[1] == 'U' ? 4 : 1);
  for (int extents = type[1] == 'U' ? 0 : between(in, 0, 4); extents > 0; --extents) {
    const int64_t extent = one_in(in, 12) ? number<int64_t>(in) : between(in, 0, 4) * (in.ConsumeBool() ? 16 : 1);
    shape += std::to_string(extent) + ",";
    bytes *= static_cast<uint64_t>(extent);
  }
  std::string header = "{'descr': '" + std::string(type) +
                       "', 'fortran_order': " + (in.ConsumeBool() ? "True" : "False") + ", 'shape': (" + shape + "), }";
  if (one_in(in, 12))
    header.replace(in.ConsumeIntegralInRange<std::size_t>(0, header.size() - 1), 2, in.ConsumeRandomLengthString(6));
  const int version = one_in(in, 12) ? between(in, 0, 4) : between(in, 1, 2);
  std::vector<uint8_t> made;
  append(made, "\x93NUMPY");
  append(made, static_cast<uint64_t>(version), 2);
  append(made, header.size() + (one_in(in, 16) ? number<uint32_t>(in) : 0), version == 1 ? 2 : 4);
  append(made, header);
  if (one_in(in, 16)) bytes += in.ConsumeIntegralInRange<uint64_t>(0, 9);
  const bool is_text = type[1] == 'U';
  for (uint64_t i = 0; i < bytes % 4097; ++i)
    made.push_back(is_text ? (i % 4 == 0 ? 'a' : 0) : static_cast<uint8_t>(37 * i));
  return made;
}

/// An archive of arrays without compression, with some of its numbers wrong.
inline std::vector<uint8_t> npz_file(Bytes& in) {
  constexpr std::string_view names[] = {"a.npy", "b.npy", "c.npy", "d.npy", "instruction.npy", "smem.npy", "x"};
  const auto wrong = [&](uint64_t right) { return one_in(in, 40) ? number<uint32_t>(in) : right; };
  std::vector<uint8_t> made, directory;
  const int entries = between(in, 0, 4);
  for (int i = 0; i < entries; ++i) {
    const std::string_view name = pick(in, names);
    const std::vector<uint8_t> array = npy_file(in);
    const uint64_t first = made.size();
    append(made, "PK\x03\x04");
    append(made, 20, 2), append(made, 0, 16), append(made, array.size(), 4);
    append(made, wrong(name.size()), 2), append(made, wrong(0), 2), append(made, name);
    made.insert(made.end(), array.begin(), array.end());
    append(directory, "PK\x01\x02");
    append(directory, 20, 2), append(directory, 20, 2), append(directory, 0, 2), append(directory, wrong(0), 2);
    append(directory, 0, 8), append(directory, wrong(array.size()), 4), append(directory, wrong(array.size()), 4);
    append(directory, wrong(name.size()), 2), append(directory, wrong(0), 2), append(directory, wrong(0), 2);
    append(directory, 0, 8), append(directory, wrong(first), 4), append(directory, name);
  }
  const uint64_t start = made.size();
  made.insert(made.end(), directory.begin(), directory.end());
  append(made, "PK\x05\x06");
  append(made, 0, 4), append(made, static_cast<uint64_t>(entries), 2);
  append(made, wrong(static_cast<uint64_t>(entries)), 2), append(made, directory.size(), 4);
  append(made, wrong(start), 4), append(made, wrong(0), 2);
  return made;
}

inline std::vector<uint8_t> raw_file(Bytes& in) {
  if (one_in(in, 4)) return in.ConsumeRemainingBytes<uint8_t>();
  const auto data_bytes = in.ConsumeIntegralInRange<std::size_t>(0, one_in(in, 8) ? 70000 : 64);
  const std::string header = in.ConsumeRemainingBytesAsString();
  // No header begins with a letter: what follows one makes arrays of NumPy.
  if (!header.empty() && header.front() >= 'A' && header.front() <= 'Z') {
    Bytes rest(reinterpret_cast<const uint8_t*>(header.data()) + 1, header.size() - 1);
    return header.front() < 'N' ? npy_file(rest) : npz_file(rest);
  }
  std::vector<uint8_t> made(8);
  for (std::size_t i = 0; i < 8; ++i) made[i] = static_cast<uint8_t>(header.size() >> 8 * i);
  made.insert(made.end(), header.begin(), header.end());
  for (std::size_t i = 0; i < data_bytes; ++i) made.push_back(static_cast<uint8_t>(37 * i + i / 256));
  return made;
}

}  // namespace bitmma::fuzz
