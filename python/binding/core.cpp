// The module bitmma._core.
#include "binding.hpp"

namespace bitmma::python {
namespace {

/// Raises bitmma.Error, which carries every violation.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    try {
      const nb::object type = nb::module_::import_("bitmma._errors").attr("Error");
      PyErr_SetObject(type.ptr(), type(to_list(error.violations())).ptr());
    } catch (nb::python_error& failed) {
      failed.restore();
    }
  }
}

}  // namespace

Buffer::Buffer(nb::handle object, std::string_view name, bool writable) {
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
    PyErr_Clear();
    throw Error({.field = std::string(name),
                 .seen = nb::cast<std::string>(nb::str(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))))),
                 .expected = writable ? "an array that may be written" : "an array"});
  }
}

Buffer::~Buffer() {
  if (view_.obj) PyBuffer_Release(&view_);
}

Buffer::Buffer(Buffer&& other) noexcept : view_(other.view_) { other.view_ = {}; }

std::string Buffer::shape() const {
  std::string text;
  for (int axis = 0; axis < rank(); ++axis) text += (axis ? ", " : "") + std::to_string(extent(axis));
  return "(" + text + (rank() == 1 ? ",)" : ")");
}

Matrix matrix_in(nb::handle array, Format format, std::string_view name) {
  const Buffer buffer(array, name);
  constexpr int64_t most_elements = int64_t{1} << 31;
  if (buffer.rank() != 2)
    throw Error({.field = std::string(name), .seen = "shape " + buffer.shape(), .expected = "two axes"});
  const int64_t rows = buffer.extent(0), cols = buffer.extent(1);
  if (rows > most_elements - 1 || cols > most_elements - 1 || (cols > 0 && rows > most_elements / cols)) {
    throw Error({.field = std::string(name), .seen = "shape " + buffer.shape(), .expected = "at most 2^31 elements"});
  }
  if (buffer.item_bytes() != code_bytes(format)) {
    throw Error({.field = std::string(name),
                 .seen = std::to_string(buffer.item_bytes()) + " bytes an element",
                 .expected = std::to_string(code_bytes(format)) + " of " + std::string(info(format).name)});
  }
  return matrix_of(format, static_cast<int>(rows), static_cast<int>(cols),
                   {buffer.data(), buffer.stride(0), buffer.stride(1)});
}

std::optional<Matrix> optional_matrix_in(nb::handle pair, std::string_view name) {
  if (pair.is_none()) return std::nullopt;
  return matrix_in(pair[1], parse_format(nb::cast<std::string>(pair[0])), name);
}

Format parse_format(std::string_view name) {
  if (const auto format = format_named(name)) return *format;
  std::string legal;
  for (const FormatInfo& row : formats) legal += (legal.empty() ? "" : ", ") + std::string(row.name);
  throw Error({.field = "format", .seen = std::string(name.substr(0, 80)), .expected = legal});
}

nb::object numpy_array(std::span<const int64_t> shape, const char* dtype) {
  nb::list extents;
  for (const int64_t extent : shape) extents.append(extent);
  return nb::module_::import_("numpy").attr("empty")(nb::tuple(extents), dtype);
}

nb::object from_json(const std::string& text) { return nb::module_::import_("json").attr("loads")(text); }

nb::list to_list(const std::vector<Violation>& violations) {
  nb::list list;
  for (const Violation& one : violations) {
    nb::dict row;
    row["field"] = one.field;
    row["seen"] = one.seen;
    row["legal"] = one.expected;
    row["fix"] = one.fix;
    row["source"] = one.source;
    row["severity"] = one.severity == Severity::error ? "error" : "warning";
    row["text"] = print(one);
    list.append(row);
  }
  return list;
}

}  // namespace bitmma::python

NB_MODULE(_core, module) {
  using namespace bitmma::python;
  nanobind::register_exception_translator(translate);
  module.doc() = "The C++ library; use the functions of bitmma.";
  module.attr("version") = BITMMA_VERSION;
  bind_instruction(module);
  bind_gemm(module);
  bind_state(module);
  bind_layout(module);
}
