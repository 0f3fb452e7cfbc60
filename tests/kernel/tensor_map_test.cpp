// SPDX-License-Identifier: MIT
// Tensor maps against those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, driver 580 on an H200:
// lab/record_tensor_maps.py.
#include "bitmma/kernel/tensor_map.hpp"

#include <cstring>
#include <fstream>
#include <sstream>

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

struct RecordedMap {
  int type = 0, interleave = 0, swizzle = 0, promotion = 0, fill = 0, result = 0;
  size_t rank = 0;
  uint64_t address = 0;
  std::vector<int64_t> sizes = {}, strides = {}, box = {}, steps = {};
  std::string bytes = {};  // in hexadecimal; of a map that the driver refused "-"
};

std::vector<int64_t> numbers_of(const std::string& text) {
  std::vector<int64_t> numbers;
  std::istringstream stream(text == "-" ? "" : text);
  for (std::string part; std::getline(stream, part, ',');) numbers.push_back(std::stoll(part));
  return numbers;
}

std::vector<RecordedMap> recorded_maps() {
  std::vector<RecordedMap> maps;
  std::istringstream lines(test::read_text(test::oracle_path("tensor_maps.txt")));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    RecordedMap map;
    std::string address, sizes, strides, box, steps;
    fields >> map.type >> map.rank >> address >> sizes >> strides >> box >> steps >> map.interleave >> map.swizzle >>
        map.promotion >> map.fill >> map.result >> map.bytes;
    map.address = std::stoull(address, nullptr, 16);
    map.sizes = numbers_of(sizes), map.strides = numbers_of(strides);
    map.box = numbers_of(box), map.steps = numbers_of(steps);
    maps.push_back(std::move(map));
  }
  return maps;
}

/// The driver numbers f32_ftz, f64 and bf16 otherwise than .elemtype.
TensorMapType type_of(int driver_type) {
  constexpr std::array types{TensorMapType::u8,      TensorMapType::u16,  TensorMapType::u32,     TensorMapType::s32,
                             TensorMapType::u64,     TensorMapType::s64,  TensorMapType::f16,     TensorMapType::f32,
                             TensorMapType::f64,     TensorMapType::bf16, TensorMapType::f32_ftz, TensorMapType::tf32,
                             TensorMapType::tf32_ftz};
  return types.at(static_cast<size_t>(driver_type));
}

std::string hex_of(const std::array<uint8_t, tensor_map_bytes>& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace

TEST_CASE("each tensor map that a driver made has the driver's bytes, and those that it refused are refused") {
  size_t same = 0, refused = 0;
  for (const RecordedMap& recorded : recorded_maps()) {
    // Elements of 4 and 6 bits, swizzles of larger atoms and interleaved maps are of other GPUs or not supported.
    if (recorded.type > 12 || recorded.swizzle > 3 || recorded.interleave != 0 || recorded.promotion != 0) continue;
    const TensorMap map{.sizes = recorded.sizes,
                        .strides_bytes = recorded.strides,
                        .box = recorded.box,
                        .element_strides = recorded.steps,
                        .swizzle = static_cast<Swizzle>(recorded.swizzle),
                        .fills_with_nan = recorded.fill != 0,
                        .type = type_of(recorded.type)};
    std::string bytes = "-";
    std::string refusal;
    try {
      bytes = hex_of(encode_tensor_map(map, recorded.address));
    } catch (const Error& error) {
      refusal = error.what();
    }
    INFO("type " << recorded.type << ", rank " << recorded.rank << ", box " << recorded.box.front() << ", swizzle "
                 << recorded.swizzle << ": " << refusal);
    // bitmma refuses a step of the innermost dimension, which the driver takes and a GPU ignores.
    if (recorded.steps.front() != 1) continue;
    CHECK(bytes == recorded.bytes);
    ++(recorded.result == 0 ? same : refused);
  }
  CHECK(same > 1500);
  CHECK(refused > 500);
}

TEST_CASE("each im2col map that a driver made has the driver's bytes, and those that it refused are refused") {
  size_t same = 0, refused = 0;
  std::istringstream lines(test::read_text(test::oracle_path("im2col_maps.txt")));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string mode, address, sizes, strides, lower, upper, steps, bytes;
    int type = 0, interleave = 0, swizzle = 0, promotion = 0, fill = 0, result = 0;
    int64_t rank = 0, channels = 0, pixels = 0;
    fields >> mode >> type >> rank >> address >> sizes >> strides >> lower >> upper >> channels >> pixels >> steps >>
        interleave >> swizzle >> promotion >> fill >> result >> bytes;
    const std::vector<int64_t> element_strides = numbers_of(steps);
    if (mode != "im2col" || type > 12 || swizzle > 3 || interleave != 0 || promotion != 0) continue;
    if (element_strides.front() != 1) continue;  // as above
    const TensorMap map{.sizes = numbers_of(sizes),
                        .strides_bytes = numbers_of(strides),
                        .box = {channels},
                        .element_strides = element_strides,
                        .swizzle = static_cast<Swizzle>(swizzle),
                        .fills_with_nan = fill != 0,
                        .im2col = Im2colBox{numbers_of(lower), numbers_of(upper), pixels},
                        .type = type_of(type)};
    INFO(line);
    std::string encoded = "-";
    try {
      encoded = hex_of(encode_tensor_map(map, std::stoull(address, nullptr, 16)));
    } catch (const Error& error) {
      UNSCOPED_INFO(error.what());
    }
    CHECK(encoded == bytes);
    ++(result == 0 ? same : refused);
  }
  CHECK(same > 500);
  CHECK(refused > 500);
}
