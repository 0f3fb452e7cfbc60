// SPDX-License-Identifier: MIT
#include "numpy_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "foreign_file.hpp"
#include "little_endian.hpp"

namespace bitmma {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY", zip_magic = "PK\x03\x04", empty_zip_magic = "PK\x05\x06";

/// NumPy's types and the safetensors names of the same elements. NumPy writes types that it does not know (bfloat16 and
/// fp8 of ml_dtypes) as raw bytes, V.
struct NumpyType {
  std::string_view descr, dtype;
  bool is_whole = false;  // a number without a fraction
};
constexpr auto numpy_types = std::to_array<NumpyType>({
    {"f8", "F64"},
    {"f4", "F32"},
    {"f2", "F16"},
    {"i8", "I64", true},
    {"i4", "I32", true},
    {"i2", "I16", true},
    {"i1", "I8", true},
    {"u8", "U64", true},
    {"u4", "U32", true},
    {"u2", "U16", true},
    {"u1", "U8", true},
    {"b1", "BOOL", true},
    {"V2", "U16"},
    {"V1", "U8"},
});

std::string text_at(const TensorBytes& bytes, size_t at, size_t size) {
  std::string text(size, '\0');
  bytes.copy_to({reinterpret_cast<uint8_t*>(text.data()), size}, at);
  return text;
}

bool starts_with(const TensorBytes& bytes, std::string_view text) {
  return bytes.size() >= text.size() && text_at(bytes, 0, text.size()) == text;
}

std::string whole_number(const TensorBytes& data, bool is_signed) {
  const uint64_t word = little_endian(data, 0, data.size());
  const auto shift = static_cast<int>(64 - 8 * data.size());
  return is_signed ? std::to_string(static_cast<int64_t>(word << shift) >> shift) : std::to_string(word);
}

/// Reads one file; holds its name for messages.
class NumpyReader {
 public:
  NumpyReader(const std::string& path, std::shared_ptr<const InputFile> file) : path_(path), file_(std::move(file)) {}

  TensorFile read() {
    TensorFile result{.path = path_, .metadata = {}, .tensors = {}, .input = file_};
    const TensorBytes bytes(file_, 0, file_->size());
    if (starts_with(bytes, npy_magic)) add_array(result, std::filesystem::path(path_).stem().string(), bytes);
    else add_archive(result, bytes);
    return result;
  }

 private:
  [[noreturn]] void refuse(std::string_view field, std::string_view seen, std::string legal,
                           std::string fix = {}) const {
    throw Error({.field = fmt::format("{}: {}", path_, shortened(field)),
                 .seen = shortened(seen, 120),
                 .expected = std::move(legal),
                 .fix = std::move(fix),
                 .source = "numpy.lib.format"});
  }

  /// The value of 'key' in the header, which is a Python dictionary with known keys; a string loses its quotes.
  std::string_view value_of(std::string_view header, std::string_view key, std::string_view name) const {
    const std::string quoted = fmt::format("'{}':", key);
    size_t at = header.find(quoted);
    if (at == std::string_view::npos) refuse(name, header, fmt::format("a header with {}", quoted));
    at = header.find_first_not_of(' ', at + quoted.size());
    if (at == std::string_view::npos) refuse(name, header, fmt::format("a value of {}", quoted));
    const char opening = header[at];
    const size_t end = opening == '('    ? header.find(')', at)
                       : opening == '\'' ? header.find('\'', at + 1)
                                         : header.find_first_of(",}", at);
    if (end == std::string_view::npos) refuse(name, header, fmt::format("a value of {}", quoted));
    const bool is_enclosed = opening == '(' || opening == '\'';
    return header.substr(at + is_enclosed, end - at - is_enclosed);
  }

  std::vector<int64_t> shape_of(std::string_view text, std::string_view name) const {
    std::vector<int64_t> shape;
    const char *at = text.data(), *const end = text.data() + text.size();
    while (at < end) {
      if (*at == ' ' || *at == ',') {
        ++at;
        continue;
      }
      int64_t extent = 0;
      const auto [after, error] = std::from_chars(at, end, extent);
      if (error != std::errc{} || extent < 0 || shape.size() == 16) refuse(name, text, "up to 16 extents of 0..2^63-1");
      shape.push_back(extent);
      at = after;
    }
    return shape;
  }

  /// Reorders a 'fortran_order' array, whose first extent varies fastest, into C order.
  static std::vector<uint8_t> in_c_order(std::span<const uint8_t> data, const std::vector<int64_t>& shape,
                                         size_t size) {
    std::vector<uint8_t> result(data.size());
    const size_t count = data.size() / size;
    std::vector<int64_t> index(shape.size(), 0);
    for (size_t i = 0; i < count; ++i) {
      size_t to = 0;
      for (size_t axis = 0; axis < shape.size(); ++axis)
        to = to * static_cast<size_t>(shape[axis]) + static_cast<size_t>(index[axis]);
      std::copy_n(data.data() + i * size, size, result.data() + to * size);
      for (size_t axis = 0; axis < shape.size() && ++index[axis] == shape[axis]; ++axis) index[axis] = 0;
    }
    return result;
  }

  /// A string: characters of `size` bytes each, padded with zeros.
  std::string text_of(const TensorBytes& data, size_t size, std::string_view name) const {
    std::string text;
    for (size_t at = 0; at + size <= data.size(); at += size) {
      const uint64_t code = little_endian(data, at, size);
      if (code == 0) break;
      if (code > 126) refuse(name, fmt::format("character {:#x}", code), "ASCII");
      text += static_cast<char>(code);
    }
    return text;
  }

  void add_array(TensorFile& result, const std::string& name, const TensorBytes& bytes) const {
    if (!starts_with(bytes, npy_magic) || bytes.size() < 12)
      refuse(name, fmt::format("{} bytes", bytes.size()), "an array in the format of numpy.save");
    const uint64_t version = little_endian(bytes, 6, 1);
    const size_t length_bytes = version == 1 ? 2 : 4;
    if (version < 1 || version > 3) refuse(name, fmt::format("version {}", version), "version 1, 2 or 3");
    const uint64_t header_bytes = little_endian(bytes, 8, length_bytes);
    const size_t first = 8 + length_bytes;
    if (header_bytes > bytes.size() - first)
      refuse(name, fmt::format("a header of {} bytes", header_bytes), "a header that ends inside the file");
    const std::string header = text_at(bytes, first, header_bytes);
    const TensorBytes data = bytes.part(first + header_bytes, bytes.size() - first - header_bytes);

    const std::string_view descr = value_of(header, "descr", name);
    std::vector<int64_t> shape = shape_of(value_of(header, "shape", name), name);
    const auto set_key = [&](std::string value) {
      if (result.find_metadata(name)) refuse(name, "twice", "unique names");
      result.set_metadata(name, std::move(value));
    };
    if (shape.empty() && descr.starts_with("<U")) return set_key(text_of(data, 4, name));
    if (shape.empty() && descr.starts_with("|S")) return set_key(text_of(data, 1, name));
    const auto type = std::ranges::find_if(numpy_types, [&](const NumpyType& row) {
      return descr.size() == 3 && (descr[0] == '<' || descr[0] == '|') && descr.substr(1) == row.descr;
    });
    if (type == numpy_types.end()) {
      refuse(
          name, fmt::format("dtype {}", descr), "numbers of 1, 2, 4 or 8 bytes, little-endian",
          descr.starts_with(">") ? "save array.astype(array.dtype.newbyteorder('<'))" : "pickled objects are not read");
    }
    auto size = static_cast<uint64_t>(dtype_bytes(type->dtype));
    for (const int64_t extent : shape) {
      if (__builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size))
        refuse(name, print_shape(shape), "an array of less than 2^64 bytes");
    }
    if (size != data.size())
      refuse(name, fmt::format("{} bytes of data", data.size()),
             fmt::format("{} for {} {}", size, descr, print_shape(shape)));
    // In an archive of numpy.savez, scale_d=0 is a key, just as a string is.
    if (shape.empty() && type->is_whole) return set_key(whole_number(data, descr[1] == 'i'));
    if (result.find(name)) refuse(name, "twice", "unique names");
    const bool is_reversed = value_of(header, "fortran_order", name) == "True" && shape.size() > 1 && size > 0;
    if (is_reversed) {
      std::vector<uint8_t> turned =
          in_c_order(data.in_memory().view(), shape, static_cast<size_t>(dtype_bytes(type->dtype)));
      result.tensors.push_back(Tensor::from_bytes(name, std::string(type->dtype), std::move(shape), std::move(turned)));
    } else {
      result.tensors.push_back(
          {.name = name, .dtype = std::string(type->dtype), .shape = std::move(shape), .bytes = data});
    }
  }

  /// The position of the central directory: its end record ends a file, except for a comment of up to 64 KiB.
  size_t end_record(const TensorBytes& bytes) const {
    constexpr size_t record_bytes = 22, most_comment = 65535;
    const size_t first = bytes.size() - std::min(bytes.size(), record_bytes + most_comment);
    const std::string end = text_at(bytes, first, bytes.size() - first);
    for (size_t at = end.rfind(empty_zip_magic); at != std::string::npos; at = end.rfind(empty_zip_magic, at - 1)) {
      const size_t back = end.size() - at;
      if (back >= record_bytes && little_endian(bytes, first + at + 20, 2) == back - record_bytes) return first + at;
      if (at == 0) break;
    }
    refuse("zip archive", "no end", "an archive in the format of numpy.savez", "the file may have been cut");
  }

  void add_archive(TensorFile& result, const TensorBytes& bytes) const {
    constexpr size_t entry_bytes = 46, local_bytes = 30, most_entries = 4096;
    const size_t end = end_record(bytes);
    const size_t entries = little_endian(bytes, end + 10, 2);
    size_t at = little_endian(bytes, end + 16, 4);
    if (entries > most_entries)
      refuse("zip archive", fmt::format("{} arrays", entries), fmt::format("at most {}", most_entries));
    uint64_t all_bytes = 0;
    for (size_t i = 0; i < entries; ++i) {
      if (at > bytes.size() || bytes.size() - at < entry_bytes || little_endian(bytes, at, 4) != 0x02014b50)
        refuse("zip archive", fmt::format("no entry {} at byte {}", i, at), "an archive in the format of numpy.savez");
      const uint64_t method = little_endian(bytes, at + 10, 2), packed = little_endian(bytes, at + 20, 4),
                     size = little_endian(bytes, at + 24, 4), local = little_endian(bytes, at + 42, 4);
      const size_t name_bytes = little_endian(bytes, at + 28, 2);
      const size_t next =
          at + entry_bytes + name_bytes + little_endian(bytes, at + 30, 2) + little_endian(bytes, at + 32, 2);
      if (next > bytes.size()) refuse("zip archive", "a name beyond the end of the file", "a name inside the file");
      std::string name = text_at(bytes, at + entry_bytes, name_bytes);
      if (method != 0 && !name.ends_with(".npy")) refuse_foreign_archive(path_, shortened(name, 120));
      if (method != 0)
        refuse(name, "compressed", "an archive without compression",
               "use numpy.savez instead of numpy.savez_compressed");
      if (size == 0xFFFFFFFF || local == 0xFFFFFFFF)
        refuse(name, "4 GiB or more", "less than 4 GiB in an archive", "save larger arrays with safetensors");
      if (packed != size || local > bytes.size() || bytes.size() - local < local_bytes ||
          little_endian(bytes, local, 4) != 0x04034b50)
        refuse(name, fmt::format("no array at byte {}", local), "an archive in the format of numpy.savez");
      const size_t data =
          local + local_bytes + little_endian(bytes, local + 26, 2) + little_endian(bytes, local + 28, 2);
      if (data > bytes.size() || size > bytes.size() - data)
        refuse(name, fmt::format("{} bytes from byte {} on", size, data), "bytes inside the file");
      all_bytes += size;  // entries that share bytes could make a small file expand enormously
      if (all_bytes > bytes.size()) refuse(name, "shares bytes with another array", "separate bytes");
      if (!name.ends_with(".npy") && !starts_with(bytes.part(data, size), npy_magic))
        refuse_foreign_archive(path_, shortened(name, 120));
      if (name.ends_with(".npy")) name.resize(name.size() - 4);
      add_array(result, name, bytes.part(data, size));
      at = next;
    }
  }

  const std::string& path_;
  std::shared_ptr<const InputFile> file_;
};

}  // namespace

bool is_numpy_file(const TensorBytes& bytes) {
  // A zip archive needs a non-zero version to be read; with 0 it could be the length of a safetensors header.
  return starts_with(bytes, npy_magic) ||
         (starts_with(bytes, zip_magic) && bytes.size() > 4 && little_endian(bytes, 4, 1) != 0) ||
         starts_with(bytes, empty_zip_magic);
}

TensorFile read_numpy_file(const std::string& path, std::shared_ptr<const InputFile> file) {
  return NumpyReader(path, std::move(file)).read();
}

}  // namespace bitmma
