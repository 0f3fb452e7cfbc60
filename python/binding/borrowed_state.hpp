// SPDX-License-Identifier: MIT
// States as dictionaries of arrays and numbers.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "binding.hpp"

namespace bitmma::python {

inline nb::str text_of(std::string_view text) { return nb::str(text.data(), text.size()); }

/// A dictionary of arrays and numbers as a state that refers to their memory. The buffers live as long as this object.
class BorrowedState {
 public:
  explicit BorrowedState(const nb::dict& from) {
    // Converting a number may run Python code, which may change the dictionary.
    for (const nb::handle item : nb::list(from.items())) {
      std::string name;
      if (!nb::try_cast(nb::object(item[0]), name)) {
        throw Error({.code = ViolationCode::wrong_type,
                     .field = "state",
                     .seen = shown(nb::object(item[0])),
                     .expected = "names of buffers"});
      }
      const nb::object value = item[1];
      add(name, value);
    }
  }
  State state = {};

 private:
  void add(const std::string& name, nb::handle value) {
    const auto field = std::ranges::find(state_fields, std::string_view(name), &FieldInfo::name);
    if (field == state_fields.end()) {
      throw Error(
          {.code = ViolationCode::unknown_name, .field = "state", .seen = name, .legal = row_names(state_fields)});
    }
    // Two fields share a name only after the instruction.
    if (field->is_number) {
      uint64_t number = 0;
      const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
      if (!index) throw nb::python_error();
      if (!nb::try_cast(index, number))
        throw Error({.code = ViolationCode::wrong_type,
                     .field = name,
                     .seen = nb::cast<std::string>(nb::str(value)),
                     .expected = "a number of up to 64 bits"});
      state.set(field->id, number);
      return;
    }
    const Buffer& buffer = buffers_.emplace_back(value, name);
    if (!buffer.is_contiguous())
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = name,
                   .seen = "strides",
                   .expected = "a contiguous array",
                   .fix = "np.ascontiguousarray"});
    std::vector<int64_t> shape;
    if (field->id == Field::tmem && buffer.rank() == 2) shape.push_back(1);  // of one CTA
    for (int axis = 0; axis < buffer.rank(); ++axis) shape.push_back(buffer.extent(axis));
    const Extents extents(shape);
    if (field->type == ElementType::u8) {
      require_items(name, buffer, 1, 1);
      state.borrow(field->id,
                   std::span(static_cast<const uint8_t*>(buffer.data()), static_cast<size_t>(buffer.bytes())), extents);
    } else {
      require_items(name, buffer, 4, 8);
      state.borrow(field->id,
                   std::span(static_cast<const uint32_t*>(buffer.data()), static_cast<size_t>(buffer.bytes() / 4)),
                   extents, buffer.item_bytes() == 8);
    }
  }
  static void require_items(const std::string& name, const Buffer& buffer, int64_t bytes, int64_t or_bytes) {
    if (buffer.item_bytes() == bytes || buffer.item_bytes() == or_bytes) return;
    throw Error({.code = ViolationCode::wrong_type,
                 .field = name,
                 .seen = fmt::format("{} bytes an element", buffer.item_bytes()),
                 .expected = bytes == or_bytes ? "bytes" : "words of 32 bits, or of 64 for f64"});
  }

  std::deque<Buffer> buffers_ = {};
};

/// A new array of a buffer.
inline nb::object array_of(const bitmma::Buffer& buffer) {
  const bool is_bytes = info(buffer.field()).type == ElementType::u8;
  nb::object array = numpy_array(buffer.extents(), is_bytes ? "uint8" : buffer.is_wide() ? "uint64" : "uint32");
  const Buffer to(array, "array", true);
  if (to.bytes() > 0) {
    if (is_bytes) std::memcpy(to.data(), buffer.bytes().data(), static_cast<size_t>(to.bytes()));
    else std::memcpy(to.data(), buffer.words().data(), static_cast<size_t>(to.bytes()));
  }
  return array;
}

}  // namespace bitmma::python
