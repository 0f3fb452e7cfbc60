// SPDX-License-Identifier: MIT
#include "bitmma/analysis/compare_arrays.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/formats/format.hpp"

namespace bitmma {
namespace {

/// The format of the dtype's numbers; nothing for raw codes.
std::optional<Format> format_of(const std::string& dtype) {
  const auto has_dtype = [&](const FormatInfo& row) {
    return row.dtype == dtype && row.id != Format::tf32 && row.bits == 8 * dtype_bytes(dtype);
  };
  const auto row = std::ranges::find_if(formats, has_dtype);
  return row == formats.end() ? std::nullopt : std::optional(row->id);
}

/// The number of a code, counted in steps from zero.
int64_t steps_from_zero(const FormatInfo& format, uint64_t code) {
  if (!format.is_signed || (code & format.sign_bit()) == 0) return static_cast<int64_t>(code);
  const uint64_t magnitude =
      format.kind == NumberKind::floating ? code & ~format.sign_bit() : (format.sign_bit() << 1) - code;
  return -static_cast<int64_t>(magnitude);
}

/// How many numbers of the format lie between two codes; nothing if one of them is a NaN.
std::optional<uint64_t> ulp_between(Format format, uint64_t code, uint64_t other) {
  if (info(format).kind == NumberKind::floating) {
    for (const uint64_t word : {code, other})
      if (decode(format, word).number == NumberClass::nan) return std::nullopt;
  }
  const int64_t x = steps_from_zero(info(format), code), y = steps_from_zero(info(format), other);
  return static_cast<uint64_t>(std::max(x, y)) - static_cast<uint64_t>(std::min(x, y));
}

/// An element that differs.
struct Element {
  int64_t index = 0;  // in row-major order
  uint64_t expected = 0, actual = 0;
  std::optional<uint64_t> ulp = {};
};

std::vector<int64_t> place_of(int64_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> place(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; index /= shape[axis]) place[axis] = index % shape[axis];
  return place;
}

std::string print(const Element& element, const Tensor& tensor, std::optional<Format> format) {
  const auto printed = [&](uint64_t code) {
    return format ? fmt::format("{} ({})", print_bits(*format, code), print_value(*format, code))
                  : fmt::format("{:#0{}x}", code, 2 + 2 * dtype_bytes(tensor.dtype));
  };
  return fmt::format("({}): expected {}, actual {}{}", fmt::join(place_of(element.index, tensor.shape), ", "),
                     printed(element.expected), printed(element.actual),
                     element.ulp ? fmt::format(", {} ulp", *element.ulp) : "");
}

Report list_of(const std::vector<int64_t>& numbers) {
  Report list = Report::list();
  for (const int64_t number : numbers) list.append(number);
  return list;
}

}  // namespace

bool are_arrays(const TensorFile& expected, const TensorFile& actual) {
  const auto is_array = [](const TensorFile& file) {
    return file.tensors.size() == 1 && !file.find_metadata("instruction") &&
           dtype_bytes(file.tensors.front().dtype) > 0;
  };
  return is_array(expected) && is_array(actual);
}

ComparedArrays compare_arrays(const TensorFile& expected_file, const TensorFile& actual_file) {
  const Tensor &expected = expected_file.tensors.front(), &actual = actual_file.tensors.front();
  const auto printed_type = [](const Tensor& tensor) {
    return fmt::format("{} {}", tensor.dtype, print_shape(tensor.shape));
  };
  if (expected.dtype != actual.dtype || expected.shape != actual.shape)
    throw Error({.code = ViolationCode::contradiction,
                 .field = actual_file.path,
                 .seen = printed_type(actual),
                 .expected = fmt::format("{}, as {} has", printed_type(expected), printable(expected_file.path))});
  const std::optional<Format> format = format_of(expected.dtype);
  const auto size = static_cast<size_t>(dtype_bytes(expected.dtype));
  const TensorBytes expected_bytes = expected.bytes.in_memory(), actual_bytes = actual.bytes.in_memory();
  const auto code_at = [size](const TensorBytes& bytes, int64_t index) {
    uint64_t code = 0;
    std::memcpy(&code, bytes.view().data() + static_cast<size_t>(index) * size, size);
    return code;
  };
  ComparedArrays compared{.outputs = static_cast<int64_t>(expected.bytes.size() / size)};
  std::optional<Element> first, worst;
  for (int64_t index = 0; index < compared.outputs; ++index) {
    Element element{.index = index, .expected = code_at(expected_bytes, index), .actual = code_at(actual_bytes, index)};
    if (element.expected == element.actual) continue;
    if (format) element.ulp = ulp_between(*format, element.expected, element.actual);
    if (compared.mismatches++ == 0) first = element;
    if (element.ulp.value_or(0) > compared.worst_ulp) compared.worst_ulp = *element.ulp, worst = element;
  }
  Report& report = compared.report;
  const std::string outputs = counted(compared.outputs, "output");
  if (!first) {
    report.add_text(fmt::format("same: {}, {}", outputs, printed_type(expected)), Tone::good);
  } else {
    report.add_text(fmt::format("differ: {} of {} (expected {}, actual {}), {}", compared.mismatches, outputs,
                                printable(expected_file.path), printable(actual_file.path), printed_type(expected)),
                    Tone::bad);
    report.add_text("first: " + print(*first, expected, format), Tone::bad);
    if (worst) report.add_text("worst: " + print(*worst, expected, format), Tone::bad);
  }
  report.update({{"outputs", compared.outputs},
                 {"mismatches", compared.mismatches},
                 {"dtype", expected.dtype},
                 {"shape", list_of(expected.shape)},
                 {"worst_ulp", compared.worst_ulp}});
  if (first) report.add("first", list_of(place_of(first->index, expected.shape)));
  if (worst) report.add("worst", list_of(place_of(worst->index, expected.shape)));
  return compared;
}

}  // namespace bitmma
