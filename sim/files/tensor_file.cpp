#include "bitmma/files/tensor_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "bitmma/core/error.hpp"
#include "bitmma/files/file.hpp"

namespace bitmma {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t length_bytes = 8;
constexpr uint64_t largest_header = 100'000'000;  // the limit of the safetensors library
constexpr size_t largest_depth = 16;              // a header nests three deep

constexpr auto dtypes = std::to_array<std::pair<std::string_view, int>>({
    {"F64", 8},
    {"I64", 8},
    {"U64", 8},
    {"F32", 4},
    {"I32", 4},
    {"U32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"I16", 2},
    {"U16", 2},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"F8_E8M0", 1},
    {"I8", 1},
    {"U8", 1},
    {"BOOL", 1},
});

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(std::make_shared<MappedFile>(path)) {}

  TensorFile read() {
    const auto bytes = file_->bytes();
    if (bytes.size() < length_bytes)
      refuse("header length", fmt::format("a file of {} bytes", bytes.size()), "at least 8 bytes");
    uint64_t header_bytes = 0;
    for (size_t i = 0; i < length_bytes; ++i) header_bytes |= uint64_t{bytes[i]} << 8 * i;
    if (header_bytes > bytes.size() - length_bytes || header_bytes > largest_header) {
      refuse("header length", std::to_string(header_bytes),
             fmt::format("at most {}, what the file holds after it",
                         std::min<uint64_t>(bytes.size() - length_bytes, largest_header)));
    }
    data_ = bytes.subspan(length_bytes + header_bytes);
    const Json header = parse(bytes.subspan(length_bytes, header_bytes));
    if (!header.is_object()) refuse("header", header.type_name(), "a JSON object");
    TensorFile file{.path = path_, .metadata = {}, .tensors = {}, .mapped = file_};
    for (const auto& [key, value] : header.items()) {
      if (key == "__metadata__") {
        read_metadata(value, file);
      } else {
        file.tensors.push_back(read_tensor(key, value));
      }
    }
    require_tiling(file);
    return file;
  }

 private:
  [[noreturn]] void refuse(const std::string& field, const std::string& seen, const std::string& legal) const {
    throw Error({.field = fmt::format("{}: {}", path_, field),
                 .seen = seen.substr(0, 120),
                 .expected = legal,
                 .source = "safetensors format"});
  }

  Json parse(std::span<const uint8_t> text) const {
    // Duplicate keys would make two readers see two files, and deep nesting only serves attacks.
    std::vector<std::set<std::string>> keys;
    std::string duplicate;
    bool too_deep = false;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
      too_deep |= static_cast<size_t>(depth) > largest_depth;
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.empty() && !keys.back().insert(value.get<std::string>()).second) {
        duplicate = value.get<std::string>();
      }
      return !too_deep;
    };
    try {
      Json header = Json::parse(text.begin(), text.end(), watch);
      if (too_deep) refuse("header", "deeply nested JSON", "names, shapes and offsets");
      if (!duplicate.empty()) refuse("header", fmt::format("the key \"{}\" twice", duplicate), "each name once");
      return header;
    } catch (const nlohmann::json::exception& error) {
      refuse("header", error.what(), "JSON");
    }
  }

  void read_metadata(const Json& value, TensorFile& file) const {
    if (!value.is_object()) refuse("__metadata__", value.type_name(), "an object of strings");
    for (const auto& [key, entry] : value.items()) {
      if (!entry.is_string()) refuse(fmt::format("__metadata__ {}", key), entry.type_name(), "a string");
      file.metadata.emplace_back(key, entry.get<std::string>());
    }
  }

  Tensor read_tensor(const std::string& name, const Json& value) const {
    const std::string field = fmt::format("tensor {}", name);
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets")) {
      refuse(field, value.dump(-1, ' ', false, Json::error_handler_t::replace),
             "an object with dtype, shape and data_offsets");
    }
    const Json& dtype = value["dtype"];
    if (!dtype.is_string()) refuse(field + " dtype", dtype.dump(), "a string");
    Tensor tensor{.name = name, .dtype = dtype.get<std::string>(), .shape = {}, .bytes = {}, .owner = file_};
    const int element_bytes = dtype_bytes(tensor.dtype);
    if (!value["shape"].is_array()) refuse(field + " shape", value["shape"].dump(), "an array");
    uint64_t size = static_cast<uint64_t>(element_bytes);
    for (const Json& extent : value["shape"]) {
      if (!extent.is_number_unsigned() || extent.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
        refuse(field + " shape", value["shape"].dump(), "whole numbers from 0 on");
      }
      tensor.shape.push_back(extent.get<int64_t>());
      if (__builtin_mul_overflow(size, extent.get<uint64_t>(), &size)) {
        refuse(field + " shape", value["shape"].dump(), "a size below 2^64 bytes");
      }
    }
    const Json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      refuse(field + " data_offsets", offsets.dump(), "[begin, end]");
    }
    const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > data_.size()) {
      refuse(field + " data_offsets", offsets.dump(),
             fmt::format("begin <= end <= {}, the bytes after the header", data_.size()));
    }
    if (element_bytes != 0 && end - begin != size) {
      refuse(field + " data_offsets", offsets.dump(),
             fmt::format("{} bytes for {} {}", size, tensor.dtype, print_shape(tensor.shape)));
    }
    tensor.bytes = data_.subspan(begin, end - begin);
    return tensor;
  }

  /// Tensors lie end to end: no byte belongs to two of them or to none.
  void require_tiling(const TensorFile& file) const {
    std::vector<const Tensor*> order;
    for (const Tensor& tensor : file.tensors) order.push_back(&tensor);
    std::stable_sort(order.begin(), order.end(), [](const Tensor* x, const Tensor* y) {
      return std::pair(x->bytes.data(), x->bytes.size()) < std::pair(y->bytes.data(), y->bytes.size());
    });
    size_t next = 0;
    for (const Tensor* tensor : order) {
      const auto begin = static_cast<size_t>(tensor->bytes.data() - data_.data());
      if (begin != next) {
        refuse(fmt::format("tensor {} data_offsets", tensor->name), fmt::format("begin {}", begin),
               fmt::format("{}: tensors {}", next, begin < next ? "must not overlap" : "must leave no hole"));
      }
      next = begin + tensor->bytes.size();
    }
    if (next != data_.size()) {
      refuse("size", fmt::format("{} bytes after the last tensor", data_.size() - next), "none");
    }
  }

  std::string path_;
  std::shared_ptr<MappedFile> file_;
  std::span<const uint8_t> data_;
};

}  // namespace

Tensor Tensor::from_bytes(std::string name, std::string dtype, std::vector<int64_t> shape, std::vector<uint8_t> data) {
  auto owned = std::make_shared<const std::vector<uint8_t>>(std::move(data));
  return {.name = std::move(name),
          .dtype = std::move(dtype),
          .shape = std::move(shape),
          .bytes = {owned->data(), owned->size()},
          .owner = owned};
}

std::string print_shape(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int dtype_bytes(std::string_view dtype) {
  const auto row = std::find_if(dtypes.begin(), dtypes.end(), [&](const auto& entry) { return entry.first == dtype; });
  return row == dtypes.end() ? 0 : row->second;
}

const Tensor* TensorFile::find(std::string_view name) const {
  const auto row = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
  return row == tensors.end() ? nullptr : &*row;
}

const std::string* TensorFile::find_metadata(std::string_view key) const {
  const auto row =
      std::find_if(metadata.begin(), metadata.end(), [&](const auto& entry) { return entry.first == key; });
  return row == metadata.end() ? nullptr : &row->second;
}

void TensorFile::set_metadata(std::string_view key, std::string value) {
  erase_metadata(key);
  metadata.emplace_back(key, std::move(value));
}

void TensorFile::erase_metadata(std::string_view key) {
  std::erase_if(metadata, [&](const auto& entry) { return entry.first == key; });
}

void TensorFile::set(Tensor tensor) {
  erase(tensor.name);
  tensors.push_back(std::move(tensor));
}

void TensorFile::erase(std::string_view name) {
  std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
}

TensorFile read_tensor_file(const std::string& path) { return Reader(path).read(); }

namespace {

/// A tensor on its way into a file. `bytes` are those of a tensor that is written whole.
struct Place {
  std::string name, dtype;
  std::vector<int64_t> shape;
  size_t size = 0, offset = 0;  // bytes; counted from the end of the header
  std::span<const uint8_t> bytes;
};

Place place_of(const Tensor& tensor) {
  return {.name = tensor.name,
          .dtype = tensor.dtype,
          .shape = tensor.shape,
          .size = tensor.bytes.size(),
          .bytes = tensor.bytes};
}

/// Puts `places` into the order of the file, says where each begins, and gives all bytes before them.
std::string header_of(std::vector<std::pair<std::string, std::string>> metadata, std::vector<Place>& places) {
  std::ranges::stable_sort(places, std::greater<>(), [](const Place& place) { return dtype_bytes(place.dtype); });
  Json header = Json::object();
  Json& keys = header["__metadata__"] = Json::object();
  std::ranges::sort(metadata);
  for (const auto& [key, value] : metadata) keys[key] = value;
  size_t offset = 0;
  for (Place& place : places) {
    place.offset = offset;
    offset += place.size;
    header[place.name] = {{"dtype", place.dtype}, {"shape", place.shape}, {"data_offsets", {place.offset, offset}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors begin on a multiple of 8
  std::string length;
  for (size_t i = 0; i < length_bytes; ++i) length.push_back(static_cast<char>(text.size() >> 8 * i));
  return length + text;
}

void write_bytes(std::ostream& stream, std::span<const uint8_t> bytes) {
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

void write_tensor_file(const std::string& path, const TensorFile& file) {
  std::vector<Place> places;
  for (const Tensor& tensor : file.tensors) places.push_back(place_of(tensor));
  const std::string header = header_of(file.metadata, places);
  write_whole(path, [&](std::ostream& stream) {
    stream << header;
    for (const Place& place : places) write_bytes(stream, place.bytes);
  });
}

void write_case_batches(const std::string& path, int64_t cases, const std::function<TensorFile(int64_t first)>& make,
                        const std::vector<Tensor>& whole) {
  write_whole(path, [&](std::ostream& stream) {
    std::string header;
    std::vector<Place> places;
    const auto seek = [&](const Place& place, size_t skipped) {
      stream.seekp(static_cast<std::streamoff>(header.size() + place.offset + skipped));
    };
    for (int64_t first = 0; first < cases;) {
      const TensorFile batch = make(first);
      const int64_t count = batch.tensors.at(0).shape.at(0);
      if (first == 0) {
        for (const Tensor& tensor : batch.tensors) {
          Place& place = places.emplace_back(place_of(tensor));
          place.size = place.size / static_cast<size_t>(count) * static_cast<size_t>(cases);
          place.shape[0] = cases;
          place.bytes = {};
        }
        for (const Tensor& tensor : whole) places.push_back(place_of(tensor));
        header = header_of(batch.metadata, places);
        stream << header;
      }
      for (const Place& place : places) {
        if (!place.bytes.empty() || place.size == 0) continue;
        const Tensor* const part = batch.find(place.name);
        std::vector<int64_t> expected = place.shape;
        expected[0] = count;
        if (!part || part->shape != expected || part->dtype != place.dtype) {
          throw Error({.field = fmt::format("{}: tensor {}", path, place.name),
                       .seen = part ? fmt::format("{} {} from case {} on", part->dtype, print_shape(part->shape), first)
                                    : fmt::format("missing from case {} on", first),
                       .expected = fmt::format("{} {}, as before", place.dtype, print_shape(expected))});
        }
        seek(place, part->bytes.size() / static_cast<size_t>(count) * static_cast<size_t>(first));
        write_bytes(stream, part->bytes);
      }
      first += count;
    }
    for (const Place& place : places) {
      if (place.bytes.empty()) continue;
      seek(place, 0);
      write_bytes(stream, place.bytes);
    }
  });
}

}  // namespace bitmma
