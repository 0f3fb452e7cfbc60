// SPDX-License-Identifier: MIT
// What the files of the binding share: buffers of Python objects as views of codes, errors, JSON.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/files/recorded_file.hpp"
#include "bitmma/formats/codes.hpp"
#include "bitmma/gemm/gemm.hpp"
#include "bitmma/instruction/batch.hpp"
#include "bitmma/instruction/case.hpp"

namespace bitmma::python {

namespace nb = nanobind;

/// The memory of an object that has the buffer protocol, for as long as this lives. It stays where it is made: some
/// exporters point into the view.
class Buffer {
 public:
  /// `name` is for messages. Throws Error when the object has no such memory.
  Buffer(nb::handle object, std::string_view name, bool writable = false);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  int rank() const { return view_.ndim; }
  /// Axes count from the last with negative numbers.
  int64_t extent(int axis) const { return view_.shape[axis < 0 ? axis + view_.ndim : axis]; }
  int64_t stride(int axis) const { return view_.strides[axis < 0 ? axis + view_.ndim : axis]; }
  int64_t item_bytes() const { return view_.itemsize; }
  int64_t bytes() const { return view_.len; }
  void* data() const { return view_.buf; }
  bool is_contiguous() const { return PyBuffer_IsContiguous(&view_, 'C') != 0; }
  std::string shape() const;

 private:
  Py_buffer view_ = {};
};

/// A matrix in an array of two axes. Throws Error when it has another number, or too many elements.
Matrix matrix_in(nb::handle array, Format format, std::string_view name);
/// The matrix of the last two axes that begins at `data`, inside the buffer.
Matrix matrix_at(const Buffer& buffer, const void* data, Format format, std::string_view name);
/// The same of nothing where the object is None.
std::optional<Matrix> optional_matrix_in(nb::handle pair, std::string_view name);
Matrix required_matrix_in(nb::handle pair, std::string_view name);

/// repr of an object for a message, short; its type where it has none.
std::string shown(nb::handle object);
/// Text of a str in UTF-8. Throws Error when it is no str, or has surrogates; `expected` is what the message asks for.
std::string text_in(nb::handle object, std::string_view field, std::string_view expected);
/// The target that Python names: text, a compute capability as a number or as two, or nothing of None.
std::optional<Target> target_in(nb::handle object);

/// Looks for Ctrl-C when called on the thread that made it, which has the GIL and then releases it: long calls of
/// Python's main thread end with KeyboardInterrupt.
std::function<void(int64_t)> interruptible();

Format parse_format(std::string_view name);
MmaKind parse_kind(std::string_view name);

/// An instruction with what every call asks of it.
struct BoundInstruction {
  Instruction value = Wgmma{};
  std::optional<Mma> mma = {};  // nothing for one that moves data

  explicit BoundInstruction(const Instruction& instruction) : value(instruction) {
    if (is_mma(instruction)) mma = mma_of(instruction);
  }
  const Mma& as_mma() const;
  Target target_of(std::optional<std::string_view> name) const {
    return name ? target_from(*name) : default_target(value);
  }
  Target target_of(nb::handle name) const { return target_in(name).value_or(default_target(value)); }
};

/// A case with what its state looks into.
struct BoundCase {
  Case value = {};
  std::shared_ptr<const RecordedFile> file = {};  // whose memory the state looks at
  int64_t index = 0;
};

/// A plan, and how a search found it.
struct BoundPlan {
  GemmPlan plan = {};
  std::optional<int64_t> differing = {};
  std::string pattern = {};
};

/// A fresh array of NumPy's.
nb::object numpy_array(std::span<const int64_t> shape, const char* dtype);
inline nb::object numpy_array(const Extents& extents, const char* dtype) {
  return numpy_array(std::span(extents.begin(), extents.end()), dtype);
}

/// A constructor's one argument, by place or by `name`, None where it is missing; and the other named ones.
struct OnlyArgument {
  nb::object value = nb::none();
  nb::dict named = {};
};
/// Throws Error for more than one.
OnlyArgument only_argument(std::string_view type, const char* name, const nb::args& positional,
                           const nb::kwargs& named);

/// What pickle gave back, in so many parts. Throws Error for anything else.
inline void require_state(const nb::tuple& state, size_t parts) {
  if (nb::len(state) == parts) return;
  throw Error({.field = "state", .seen = std::to_string(nb::len(state)) + " parts", .expected = std::to_string(parts)});
}

/// Text of JSON as Python objects.
nb::object from_json(const std::string& text);
/// The tree of a report, as Python's dictionary or list.
nb::object from_report(const Report& report);
nb::list to_list(const std::vector<Violation>& violations);

void bind_instruction(nb::module_& module);
void bind_gemm(nb::module_& module);
void bind_quantize(nb::module_& module);
void bind_operators(nb::module_& module);
void bind_state(nb::module_& module);
void bind_layout(nb::module_& module);
void bind_math(nb::module_& module);
void bind_kernel(nb::module_& module);
void bind_survey(nb::module_& module);

}  // namespace bitmma::python
