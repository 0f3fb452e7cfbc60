// SPDX-License-Identifier: MIT
#include "bitmma/files/tensor_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "foreign_file.hpp"
#include "little_endian.hpp"
#include "numpy_file.hpp"
#include "system.hpp"

namespace bitmma {
namespace {

constexpr size_t length_bytes = 8;
constexpr uint64_t largest_header = 100'000'000;  // the limit of the safetensors library
constexpr size_t largest_depth = 16;              // a header nests three deep
constexpr uint64_t most_file_bytes = (uint64_t{1} << 63) - 1 - largest_header - length_bytes;  // the largest offset

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

/// An input file while it is being read.
struct Source {
  const std::string& path;
  TensorBytes data;  // after the header

  [[noreturn]] void refuse(std::string_view field, std::string_view seen, std::string legal,
                           std::string fix = {}) const {
    throw Error({.field = fmt::format("{}: {}", path, field),
                 .seen = shortened(seen, 120),
                 .expected = std::move(legal),
                 .fix = std::move(fix),
                 .source = "safetensors format"});
  }
};

/// Evaluates the header while it is being parsed, so that time and memory grow only linearly with its length.
///
///   {"__metadata__":{KEY:TEXT},  NAME:{"dtype":TEXT,"shape":[NUMBER],"data_offsets":[NUMBER,NUMBER]}}
///   ^ depth 0       ^ depth 1 ^ depth 2                     ^ depth 2 ^ depth 3
class HeaderReader {
 public:
  HeaderReader(const Source& source, TensorFile& file) : source_(source), file_(file) {}

  // The parser calls these functions; it continues if they return true.
  bool null() { return take({.type = "null"}); }
  bool boolean(bool value) { return take({.type = value ? "true" : "false"}); }
  bool number_integer(int64_t value) { return take({.type = std::to_string(value)}); }
  bool number_unsigned(uint64_t value) { return take({.type = std::to_string(value), .number = value}); }
  bool number_float(double, const std::string& text) { return take({.type = text}); }
  bool string(std::string& text) { return take({.type = "a string", .text = &text}); }
  bool binary(std::vector<uint8_t>&) { return false; }  // not in JSON
  bool start_object(size_t) { return take({.type = "an object", .is_object = true}); }
  bool start_array(size_t) { return take({.type = "an array", .is_array = true}); }
  bool end_array() {
    --depth_;
    return true;
  }
  bool end_object() {
    if (--depth_ == 1 && !in_metadata()) finish_tensor();
    return true;
  }
  bool key(std::string& text) {
    if (depth_ == 1) begin_entry(std::move(text));
    else if (depth_ == 2) begin_part(std::move(text));
    return true;
  }
  bool parse_error(size_t position, const std::string& token, const std::exception&) {
    source_.refuse("header",
                   token.empty() ? "(the end)" : fmt::format("\"{}\" before byte {}", shortened(token, 60), position),
                   "JSON");
  }

 private:
  struct Value {
    std::string type;
    std::optional<uint64_t> number = {};
    std::string* text = nullptr;
    bool is_object = false, is_array = false;
  };
  enum class Part { dtype, shape, data_offsets, unknown };

  static constexpr std::string_view metadata_name = "__metadata__",
                                    whole_entry = "an object with dtype, shape and data_offsets";

  bool in_metadata() const { return name_ == metadata_name; }
  std::string field(std::string_view part = {}) const {
    if (in_metadata()) return fmt::format("{}{}{}", metadata_name, part.empty() ? "" : " ", shortened(part));
    return fmt::format("tensor {}{}{}", shortened(name_), part.empty() ? "" : " ", part);
  }
  void require(bool holds, std::string_view part, const Value& seen, std::string_view legal) const {
    if (!holds) source_.refuse(field(part), seen.type, std::string(legal));
  }

  void begin_entry(std::string name) {
    name_ = std::move(name);
    if (in_metadata() && std::exchange(has_metadata_, true)) refuse_twice(name_);
    tensor_ = {.name = name_};
    offsets_.clear();
    has_ = {};
  }

  void begin_part(std::string name) {
    part_name_ = std::move(name);
    if (in_metadata()) return;
    const auto row = std::ranges::find(parts, std::string_view(part_name_));
    part_ = static_cast<Part>(row - parts.begin());
    if (part_ != Part::unknown && std::exchange(has_[static_cast<size_t>(part_)], true)) refuse_twice(part_name_);
  }

  /// Takes a value, or the beginning of an object or array.
  bool take(const Value& value) {
    if (depth_ == 0 && !value.is_object) source_.refuse("header", value.type, "a JSON object");
    if (depth_ == 1) require(value.is_object, {}, value, in_metadata() ? "an object of strings" : whole_entry);
    if (depth_ == 2 && in_metadata()) {
      require(value.text != nullptr, part_name_, value, "a string");
      file_.metadata.emplace_back(std::move(part_name_), std::move(*value.text));
    } else if (depth_ == 2) {
      if (part_ == Part::dtype) {
        require(value.text != nullptr, part_name_, value, "a string");
        tensor_.dtype = std::move(*value.text);
      } else if (part_ != Part::unknown) {
        require(value.is_array, part_name_, value, "an array");
      }
    } else if (depth_ == 3 && part_ == Part::shape) {
      require(value.number && *value.number <= uint64_t{std::numeric_limits<int64_t>::max()}, part_name_, value,
              "whole numbers, 0..2^63-1");
      tensor_.shape.push_back(static_cast<int64_t>(*value.number));
    } else if (depth_ == 3 && part_ == Part::data_offsets) {
      require(value.number && offsets_.size() < 2, part_name_, value, "[begin, end]");
      offsets_.push_back(*value.number);
    }
    if ((value.is_object || value.is_array) && ++depth_ > largest_depth) {
      source_.refuse("header", "deeply nested JSON", "names, shapes and offsets");
    }
    return true;
  }

  [[noreturn]] void refuse_twice(std::string_view key) const {
    source_.refuse("header", fmt::format("the key \"{}\" twice", shortened(key)), "unique names");
  }

  void finish_tensor() {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!has_[i]) source_.refuse(field(), fmt::format("no {}", parts[i]), std::string(whole_entry));
    }
    const auto element_bytes = static_cast<uint64_t>(dtype_bytes(tensor_.dtype));
    uint64_t size = element_bytes;
    for (const int64_t extent : tensor_.shape) {
      if (__builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size)) {
        source_.refuse(field("shape"), print_shape(tensor_.shape), "a size below 2^64 bytes");
      }
    }
    if (offsets_.size() != 2) source_.refuse(field("data_offsets"), print_offsets(), "[begin, end]");
    const uint64_t begin = offsets_[0], end = offsets_[1];
    if (begin > end || end > source_.data.size()) {
      source_.refuse(field("data_offsets"), print_offsets(),
                     fmt::format("begin <= end <= {}, the bytes after the header", source_.data.size()));
    }
    if (element_bytes != 0 && end - begin != size) {
      source_.refuse(field("data_offsets"), print_offsets(),
                     fmt::format("{} bytes for {} {}", size, tensor_.dtype, print_shape(tensor_.shape)));
    }
    tensor_.bytes = source_.data.part(begin, end - begin);
    file_.tensors.push_back(std::move(tensor_));
  }
  std::string print_offsets() const { return fmt::format("[{}]", fmt::join(offsets_, ", ")); }

  static constexpr auto parts = std::to_array<std::string_view>({"dtype", "shape", "data_offsets"});  // as Part

  const Source& source_;
  TensorFile& file_;
  size_t depth_ = 0;
  bool has_metadata_ = false;
  std::string name_, part_name_;  // the keys whose values are being read
  Part part_ = Part::unknown;
  Tensor tensor_;
  std::vector<uint64_t> offsets_;
  std::array<bool, parts.size()> has_ = {};
};

class TensorReader {
 public:
  TensorReader(const std::string& path, uint64_t most_in_memory)
      : file_(std::make_shared<const InputFile>(path, most_in_memory)), source_{path, {}} {}

  TensorFile read() {
    const TensorBytes bytes(file_, 0, file_->size());
    if (is_numpy_file(bytes)) {
      TensorFile file = read_numpy_file(source_.path, file_);
      file_->require_unchanged();
      return file;
    }
    refuse_foreign_file(source_.path, bytes);
    if (source_.path.ends_with(".npy") || source_.path.ends_with(".npz"))
      source_.refuse("first bytes", bytes.empty() ? "an empty file" : "neither an array nor an archive",
                     "a file written by numpy.save or numpy.savez");
    constexpr const char* begins = "the length of a header in 8 bytes, with which a safetensors file begins";
    if (bytes.size() < length_bytes) {
      source_.refuse("first bytes", bytes.empty() ? "an empty file" : fmt::format("a file of {} bytes", bytes.size()),
                     begins);
    }
    const uint64_t header_bytes = little_endian(bytes, 0, length_bytes);
    if (header_bytes > largest_header) {
      source_.refuse("first bytes", fmt::format("{:#018x}", header_bytes), begins,
                     "the file is of another kind: bitmma reads safetensors, .npy and .npz");
    }
    if (header_bytes > bytes.size() - length_bytes) {
      source_.refuse("header length", std::to_string(header_bytes),
                     fmt::format("at most {}, the number of bytes after it", bytes.size() - length_bytes),
                     "the file is cut: write or copy it again");
    }
    const size_t data = length_bytes + header_bytes;
    source_.data = bytes.part(data, bytes.size() - data);
    TensorFile file{.path = source_.path, .metadata = {}, .tensors = {}, .input = file_};
    const TensorBytes header = bytes.part(length_bytes, header_bytes).in_memory();
    parse(header.view(), file);
    require_unique(file);
    require_tiling(file);
    file_->require_unchanged();
    return file;
  }

 private:
  void parse(std::span<const uint8_t> header, TensorFile& file) const {
    // The parser skips a byte order mark and stops at a zero byte. The safetensors library accepts neither.
    constexpr auto mark = std::to_array<uint8_t>({0xEF, 0xBB, 0xBF});
    if (header.size() >= mark.size() && std::ranges::equal(header.first(mark.size()), mark)) {
      source_.refuse("header", "a byte order mark", "JSON from the first byte on");
    }
    if (const auto zero = std::ranges::find(header, 0); zero != header.end()) {
      source_.refuse("header", fmt::format("a zero byte at byte {}", zero - header.begin()),
                     "JSON, followed by spaces");
    }
    HeaderReader reader(source_, file);
    // Of char: a library need not have char_traits of any other type. strtod computes as the host does.
    const auto* const text = reinterpret_cast<const char*>(header.data());
    in_ieee_environment([&] { nlohmann::json::sax_parse(text, text + header.size(), &reader); });
  }

  /// If two tensors or keys had the same name, two readers might see different contents.
  void require_unique(const TensorFile& file) const {
    std::vector<std::string_view> names, keys;
    for (const Tensor& tensor : file.tensors) names.push_back(tensor.name);
    for (const auto& [key, value] : file.metadata) keys.push_back(key);
    for (auto* list : {&names, &keys}) {
      std::ranges::sort(*list);
      const auto twice = std::ranges::adjacent_find(*list);
      if (twice == list->end()) continue;
      source_.refuse("header", fmt::format("the key \"{}\" twice", shortened(*twice)), "unique names");
    }
  }

  /// Tensors follow each other without gaps: every byte belongs to exactly one of them.
  void require_tiling(const TensorFile& file) const {
    std::vector<const Tensor*> order;
    for (const Tensor& tensor : file.tensors) order.push_back(&tensor);
    std::stable_sort(order.begin(), order.end(), [](const Tensor* x, const Tensor* y) {
      return std::pair(x->bytes.offset(), x->bytes.size()) < std::pair(y->bytes.offset(), y->bytes.size());
    });
    size_t next = 0;
    for (const Tensor* tensor : order) {
      const size_t begin = tensor->bytes.offset() - source_.data.offset();
      if (begin != next) {
        source_.refuse(fmt::format("tensor {} data_offsets", shortened(tensor->name)), fmt::format("begin {}", begin),
                       fmt::format("{}: tensors {}", next, begin < next ? "must not overlap" : "must not leave gaps"));
      }
      next = begin + tensor->bytes.size();
    }
    if (next != source_.data.size()) {
      source_.refuse("size", fmt::format("{} bytes after the last tensor", source_.data.size() - next), "none");
    }
  }

  std::shared_ptr<const InputFile> file_;
  Source source_;
};

}  // namespace

namespace {

void require_part(uint64_t offset, uint64_t size, uint64_t whole) {
  if (offset <= whole && size <= whole - offset) return;
  throw Error({.field = "bytes of a tensor",
               .seen = fmt::format("{} from byte {} on", size, offset),
               .expected = fmt::format("a part of {} bytes", whole)});
}

}  // namespace

TensorBytes::TensorBytes(std::vector<uint8_t> bytes)
    : file_(std::make_shared<const InputFile>(std::move(bytes))), size_(memory_size(file_->size())) {}

TensorBytes::TensorBytes(std::shared_ptr<const InputFile> file, uint64_t offset, uint64_t size)
    : file_(std::move(file)), offset_(offset), size_(memory_size(size)) {
  require_part(offset, size, file_ ? file_->size() : 0);
}

TensorBytes TensorBytes::part(size_t offset, size_t size) const {
  require_part(offset, size, size_);
  return {file_, offset_ + offset, size};
}

void TensorBytes::copy_to(std::span<uint8_t> to, size_t offset) const {
  const TensorBytes bytes = part(offset, to.size());
  if (file_) file_->read(bytes.offset_, to);
}

std::vector<uint8_t> TensorBytes::copy() const {
  std::vector<uint8_t> bytes(size_);
  copy_to(bytes);
  return bytes;
}

TensorBytes TensorBytes::in_memory() const { return is_in_memory() ? *this : TensorBytes(copy()); }

std::span<const uint8_t> TensorBytes::view() const {
  if (!is_in_memory())
    throw Error({.field = "bytes of a tensor",
                 .seen = "bytes that are not in memory: the file has more than 64 MiB",
                 .expected = "bytes in memory",
                 .fix = "use in_memory() or copy() to read them"});
  return file_ ? file_->memory().subspan(offset_, size_) : std::span<const uint8_t>();
}

bool TensorBytes::operator==(const TensorBytes& other) const {
  const TensorBytes own = in_memory(), others = other.in_memory();
  return std::ranges::equal(own.view(), others.view());
}

Tensor Tensor::from_bytes(std::string name, std::string dtype, std::vector<int64_t> shape, std::vector<uint8_t> data) {
  return {.name = std::move(name),
          .dtype = std::move(dtype),
          .shape = std::move(shape),
          .bytes = TensorBytes(std::move(data))};
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

TensorFile read_tensor_file(const std::string& path, uint64_t most_in_memory) {
  return TensorReader(path, most_in_memory).read();
}

namespace {

[[noreturn]] void refuse_to_write(const std::string& path, std::string field, std::string seen, std::string legal) {
  throw Error({.field = fmt::format("{}: {}", path, field), .seen = std::move(seen), .expected = std::move(legal)});
}

/// A tensor to be written to a file. A tensor that is written as a whole has its bytes here.
struct TensorPlace {
  std::string name, dtype;
  std::vector<int64_t> shape;
  uint64_t size = 0, offset = 0;  // bytes; counted from the end of the header
  TensorBytes bytes;
};

/// Throws Error for a tensor that no reader would accept.
TensorPlace place_of(const std::string& path, const Tensor& tensor) {
  const std::string field = fmt::format("tensor {}", shortened(tensor.name));
  auto size = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
  const bool is_known = size != 0;
  for (const int64_t extent : tensor.shape) {
    if (extent < 0 || __builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size)) {
      refuse_to_write(path, field, print_shape(tensor.shape), "extents from 0 on, of less than 2^64 bytes");
    }
  }
  if (is_known && size != tensor.bytes.size()) {
    refuse_to_write(path, field, fmt::format("{} bytes", tensor.bytes.size()),
                    fmt::format("{} for {} {}", size, tensor.dtype, print_shape(tensor.shape)));
  }
  return {.name = tensor.name,
          .dtype = tensor.dtype,
          .shape = tensor.shape,
          .size = tensor.bytes.size(),
          .bytes = tensor.bytes};
}

/// A JSON string.
std::string json_string(const std::string& path, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    refuse_to_write(path, "header", shortened(text), "names and values in UTF-8");
  }
}

/// Throws Error if two names are the same. `names` are sorted.
void require_unique(const std::string& path, const std::vector<std::string_view>& names) {
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) {
    refuse_to_write(path, "header", fmt::format("the key \"{}\" twice", shortened(*twice)), "unique names");
  }
}

/// Puts `places` into the order of the file, sets where each begins, and returns all bytes that precede them.
std::string header_of(const std::string& path, std::vector<std::pair<std::string, std::string>> metadata,
                      std::vector<TensorPlace>& places) {
  std::ranges::stable_sort(places, std::greater<>(), [](const TensorPlace& place) { return dtype_bytes(place.dtype); });
  std::ranges::sort(metadata);
  std::vector<std::string_view> keys, names{"__metadata__"};
  for (const auto& [key, value] : metadata) keys.push_back(key);
  for (const TensorPlace& place : places) names.push_back(place.name);
  std::ranges::sort(names);
  require_unique(path, keys);
  require_unique(path, names);
  std::string text = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (text.back() != '{') text += ',';
    text += json_string(path, key) + ':' + json_string(path, value);
  }
  text += '}';
  uint64_t offset = 0;
  for (TensorPlace& place : places) {
    place.offset = offset;
    if (__builtin_add_overflow(offset, place.size, &offset) || offset > most_file_bytes) {
      refuse_to_write(path, fmt::format("tensor {}", shortened(place.name)),
                      fmt::format("{} bytes behind {}", place.size, place.offset),
                      fmt::format("a file of at most {} bytes", most_file_bytes));
    }
    text += fmt::format(",{}:{{\"dtype\":{},\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_string(path, place.name),
                        json_string(path, place.dtype), fmt::join(place.shape, ","), place.offset, offset);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors begin on a multiple of 8
  if (text.size() > largest_header) {
    refuse_to_write(path, "header", fmt::format("{} bytes of names and keys", text.size()),
                    fmt::format("at most {}, the limit of the safetensors library", largest_header));
  }
  std::string length;
  for (size_t i = 0; i < length_bytes; ++i) length.push_back(static_cast<char>(uint64_t{text.size()} >> 8 * i));
  return length + text;
}

void write_bytes(std::ostream& stream, const TensorBytes& bytes) {
  constexpr size_t most = size_t{16} << 20;  // in memory at a time
  for (size_t at = 0; at < bytes.size(); at += most) {
    const TensorBytes block = bytes.part(at, std::min(most, bytes.size() - at)).in_memory();
    stream.write(reinterpret_cast<const char*>(block.view().data()), static_cast<std::streamsize>(block.size()));
  }
}

/// The size of the whole file in bytes.
uint64_t bytes_of(const std::string& header, const std::vector<TensorPlace>& places) {
  return header.size() + (places.empty() ? 0 : places.back().offset + places.back().size);
}

/// The cases of a batch that begins at case `first`.
int64_t cases_of_batch(const std::string& path, const TensorFile& batch, int64_t first, int64_t cases) {
  const bool has_cases = !batch.tensors.empty() && !batch.tensors.front().shape.empty();
  const int64_t count = has_cases ? batch.tensors.front().shape[0] : 0;
  if (count < 1 || count > cases - first) {
    refuse_to_write(path, fmt::format("cases from {} on", first), std::to_string(count),
                    fmt::format("1..{}", cases - first));
  }
  return count;
}

/// Turns a tensor of some cases into one of all cases.
TensorPlace grown(const std::string& path, TensorPlace place, int64_t count, int64_t cases) {
  if (place.shape.empty() || place.shape[0] != count) {
    refuse_to_write(path, fmt::format("tensor {}", shortened(place.name)), print_shape(place.shape),
                    fmt::format("{} cases, the number in the other tensors", count));
  }
  const uint64_t case_bytes = place.size / static_cast<uint64_t>(count);
  if (__builtin_mul_overflow(case_bytes, static_cast<uint64_t>(cases), &place.size)) {
    refuse_to_write(path, fmt::format("tensor {}", shortened(place.name)),
                    fmt::format("{} cases of {} bytes", cases, case_bytes),
                    fmt::format("a file of at most {} bytes", most_file_bytes));
  }
  place.shape[0] = cases, place.bytes = {};
  return place;
}

}  // namespace

void write_tensor_file(const std::string& path, const TensorFile& file) {
  std::vector<TensorPlace> places;
  for (const Tensor& tensor : file.tensors) places.push_back(place_of(path, tensor));
  const std::string header = header_of(path, file.metadata, places);
  const auto write = [&](std::ostream& stream) {
    stream << header;
    for (const TensorPlace& place : places) write_bytes(stream, place.bytes);
  };
  write_whole(path, write, bytes_of(header, places));
}

void write_case_batches(const std::string& path, int64_t cases, const std::function<TensorFile(int64_t first)>& make,
                        const std::vector<Tensor>& whole) {
  if (cases < 1) refuse_to_write(path, "cases", std::to_string(cases), "at least 1");
  TensorFile batch = make(0);
  int64_t count = cases_of_batch(path, batch, 0, cases);
  std::vector<TensorPlace> places;
  for (const Tensor& tensor : batch.tensors) places.push_back(grown(path, place_of(path, tensor), count, cases));
  for (const Tensor& tensor : whole) places.push_back(place_of(path, tensor));
  const std::string header = header_of(path, std::move(batch.metadata), places);
  const auto write = [&](std::ostream& stream) {
    stream << header;
    const auto write_at = [&](const TensorPlace& place, uint64_t skipped, const TensorBytes& bytes) {
      stream.seekp(static_cast<std::streamoff>(header.size() + place.offset + skipped));
      write_bytes(stream, bytes);
    };
    for (int64_t first = 0; first < cases; first += count) {
      if (first > 0) {
        batch = make(first);
        count = cases_of_batch(path, batch, first, cases);
      }
      for (const TensorPlace& place : places) {
        if (!place.bytes.empty() || place.size == 0) continue;
        const Tensor* const part = batch.find(place.name);
        std::vector<int64_t> expected = place.shape;
        expected[0] = count;
        const uint64_t case_bytes = place.size / static_cast<uint64_t>(cases);
        if (!part || part->shape != expected || part->dtype != place.dtype ||
            part->bytes.size() != case_bytes * static_cast<uint64_t>(count)) {
          refuse_to_write(path, fmt::format("tensor {}", place.name),
                          part ? fmt::format("{} {} from case {} on", part->dtype, print_shape(part->shape), first)
                               : fmt::format("missing from case {} on", first),
                          fmt::format("{} {}, as before", place.dtype, print_shape(expected)));
        }
        write_at(place, case_bytes * static_cast<uint64_t>(first), part->bytes);
      }
    }
    for (const TensorPlace& place : places) {
      if (!place.bytes.empty()) write_at(place, 0, place.bytes);
    }
  };
  write_whole(path, write, bytes_of(header, places));
}

}  // namespace bitmma
