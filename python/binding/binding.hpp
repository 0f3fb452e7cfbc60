// SPDX-License-Identifier: MIT
// Shared by the files of the binding: buffers of Python objects as views of codes, errors, JSON.
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
#include "bitmma/core/interrupt.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/formats/codes.hpp"
#include "bitmma/gemm/gemm.hpp"
#include "bitmma/instruction/batch.hpp"
#include "bitmma/instruction/case.hpp"

namespace bitmma::python {

namespace nb = nanobind;

/// Holds the memory of an object that supports the buffer protocol. It cannot move, because some exporters keep a
/// pointer to the view.
class Buffer {
 public:
  /// Messages use `name`. Throws Error if the object has no such memory.
  Buffer(nb::handle object, std::string_view name, bool writable = false);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  int rank() const { return view_.ndim; }
  /// A negative axis counts from the last one.
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

/// A matrix from an array with two axes. Throws Error for another number of axes, or too many elements.
Matrix matrix_in(nb::handle array, Format format, std::string_view name);
/// The matrix of the last two axes that begins at `data`, inside the buffer.
Matrix matrix_at(const Buffer& buffer, const void* data, Format format, std::string_view name);
/// The same; nothing if the object is None.
std::optional<Matrix> optional_matrix_in(nb::handle pair, std::string_view name);
Matrix required_matrix_in(nb::handle pair, std::string_view name);

/// A short repr of an object for a message; its type if it has no repr.
std::string shown(nb::handle object);
/// The UTF-8 text of a str. Throws Error if it is not a str or has surrogates; the message names `expected`.
std::string text_in(nb::handle object, std::string_view field, std::string_view expected);
/// The target that Python names: text, or a compute capability as one number or two; nothing for None.
std::optional<Target> target_in(nb::handle object);

/// Releases the GIL while it exists. Every call that may take long has one: Ctrl-C ends the work of Python's main
/// thread with KeyboardInterrupt.
class Unlocked {
 public:
  Unlocked();

 private:
  nb::gil_scoped_release release_;
  InterruptScope scope_;
};

Format parse_format(std::string_view name);
MmaKind parse_kind(std::string_view name);

/// An instruction with the values that every call needs.
struct BoundInstruction {
  Instruction value = Wgmma{};
  std::optional<Mma> mma = {};  // nothing for an instruction that moves data

  explicit BoundInstruction(const Instruction& instruction) : value(instruction) {
    if (is_mma(instruction)) mma = mma_of(instruction);
  }
  const Mma& as_mma() const;
  Target target_of(std::optional<std::string_view> name) const {
    return name ? target_from(*name) : default_target(value);
  }
  Target target_of(nb::handle name) const { return target_in(name).value_or(default_target(value)); }
};

/// A case, and the memory that its state refers to.
struct BoundCase {
  Case value = {};
  std::shared_ptr<const VectorFile> file = {};  // owns the memory of the state
  int64_t index = 0;
};

/// A plan, and how a search found it.
struct BoundPlan {
  GemmPlan plan = {};
  std::optional<int64_t> differing = {};
  std::string pattern = {};
};

/// A new NumPy array.
nb::object numpy_array(std::span<const int64_t> shape, const char* dtype);
inline nb::object numpy_array(const Extents& extents, const char* dtype) {
  return numpy_array(std::span(extents.begin(), extents.end()), dtype);
}

/// The only argument of a constructor, by position or by `name` (None if it is missing), and the other named ones.
struct OnlyArgument {
  nb::object value = nb::none();
  nb::dict named = {};
};
/// Throws Error for more than one positional argument.
OnlyArgument only_argument(std::string_view type, const char* name, const nb::args& positional,
                           const nb::kwargs& named);

/// Checks that pickle returned a tuple with this many parts. Throws Error for anything else.
inline void require_state(const nb::tuple& state, size_t parts) {
  if (nb::len(state) == parts) return;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = "state",
               .seen = std::to_string(nb::len(state)) + " parts",
               .expected = std::to_string(parts)});
}

/// JSON text as Python objects.
nb::object from_json(const std::string& text);
/// The tree of a report as a Python dict or list.
nb::object from_report(const Report& report);
nb::list to_list(const std::vector<Violation>& violations);

/// A fresh array of a matrix's codes: unsigned integers of 1, 2 or 4 bytes.
nb::object array_of(const Matrix& matrix);

void bind_instruction(nb::module_& module);
void bind_gemm(nb::module_& module);
void bind_quantize(nb::module_& module);
void bind_operators(nb::module_& module);
void bind_state(nb::module_& module);
void bind_layout(nb::module_& module);
void bind_math(nb::module_& module);
void bind_kernel(nb::module_& module);
void bind_prepared(nb::module_& module);

}  // namespace bitmma::python
