// SPDX-License-Identifier: MIT
// The module bitmma._core.
#include <fmt/format.h>

#include <cstring>

#include "../../sim/core/ieee_environment.hpp"
#include "binding.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/dataset.hpp"

namespace bitmma::python {
namespace {

/// Raises bitmma.Error, which carries every violation.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const std::bad_cast&) {
    PyErr_SetString(PyExc_TypeError, "bitmma: a value has the wrong type");
  } catch (const std::length_error& error) {  // more than a vector can hold
    PyErr_SetString(PyExc_MemoryError, error.what());
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
  const auto refuse = [&] {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = std::string(name),
                 .seen = nb::cast<std::string>(nb::str(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))))),
                 .expected = writable ? "a writable array" : "an array of numbers"});
  };
  if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
    PyErr_Clear();
    refuse();
  }
  if (view_.format && std::string_view(view_.format).find('O') != std::string_view::npos) {  // addresses of objects
    PyBuffer_Release(&view_);
    refuse();
  }
}

Buffer::~Buffer() {
  if (view_.obj) PyBuffer_Release(&view_);
}

std::string Buffer::shape() const {
  std::string text;
  for (int axis = 0; axis < rank(); ++axis) text += (axis ? ", " : "") + std::to_string(extent(axis));
  return "(" + text + (rank() == 1 ? ",)" : ")");
}

Matrix matrix_in(nb::handle array, Format format, std::string_view name) {
  const Buffer buffer(array, name);
  if (buffer.rank() != 2)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = std::string(name),
                 .seen = "shape " + buffer.shape(),
                 .expected = "two axes"});
  const Unlocked unlocked;
  return matrix_at(buffer, buffer.data(), format, name);
}

Matrix matrix_at(const Buffer& buffer, const void* data, Format format, std::string_view name) {
  constexpr int64_t most_elements = int64_t{1} << 31;
  const int64_t rows = buffer.extent(-2), cols = buffer.extent(-1);
  if (rows > most_elements - 1 || cols > most_elements - 1 || (cols > 0 && rows > most_elements / cols)) {
    throw Error({.code = ViolationCode::too_large,
                 .field = std::string(name),
                 .seen = "shape " + buffer.shape(),
                 .expected = "at most 2^31 elements"});
  }
  if (buffer.item_bytes() != code_bytes(format)) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = std::string(name),
                 .seen = std::to_string(buffer.item_bytes()) + " bytes per element",
                 .expected = std::to_string(code_bytes(format)) + " of " + std::string(info(format).name)});
  }
  return matrix_of(format, static_cast<int>(rows), static_cast<int>(cols),
                   {data, buffer.stride(-2), buffer.stride(-1)});
}

std::optional<Matrix> optional_matrix_in(nb::handle pair, std::string_view name) {
  if (pair.is_none()) return std::nullopt;
  std::string_view format;
  const nb::object first = pair[0], second = pair[1];
  if (!nb::try_cast(first, format)) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = std::string(name),
                 .seen = shown(first),
                 .expected = "the name of a format"});
  }
  return matrix_in(second, parse_format(format), name);
}

Matrix required_matrix_in(nb::handle pair, std::string_view name) {
  std::optional<Matrix> matrix = optional_matrix_in(pair, name);
  if (!matrix)
    throw Error(
        {.code = ViolationCode::missing_input, .field = std::string(name), .seen = "None", .expected = "a matrix"});
  return std::move(*matrix);
}

std::string shown(nb::handle object) {
  const auto ascii = [](nb::handle from) {
    const nb::object text = nb::steal(PyObject_ASCII(from.ptr()));
    if (!text.is_valid()) PyErr_Clear();  // numbers of thousands of digits, and code of users
    return text.is_valid() ? shortened(nb::cast<std::string>(text)) : std::string();
  };
  const std::string text = ascii(object);
  return text.empty() ? ascii(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())))) : text;
}

std::string text_in(nb::handle object, std::string_view field, std::string_view expected) {
  const auto refuse = [&](std::string seen) {
    throw Error({.field = std::string(field), .seen = shortened(seen), .expected = std::string(expected)});
  };
  if (!PyUnicode_Check(object.ptr())) refuse(shown(object));
  Py_ssize_t bytes = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &bytes);
  if (!text) {  // surrogates
    PyErr_Clear();
    refuse(shown(object));
  }
  return {text, static_cast<size_t>(bytes)};
}

OnlyArgument only_argument(std::string_view type, const char* name, const nb::args& positional,
                           const nb::kwargs& named) {
  OnlyArgument argument;
  size_t count = positional.size();
  if (count > 0) argument.value = nb::borrow(positional[0]);
  for (const auto& [key, value] : named) {
    if (nb::cast<std::string_view>(key) != name) argument.named[key] = value;
    else argument.value = nb::borrow(value), ++count;
  }
  if (count <= 1) return argument;
  throw Error({.field = std::string(type),
               .seen = fmt::format("{} arguments", count),
               .expected = fmt::format("{} as the only positional argument, and keyword arguments", name)});
}

std::optional<Target> target_in(nb::handle object) {
  constexpr std::string_view expected = "a target, such as \"sm_90a\", \"H100\", \"9.0\" or (9, 0)";
  if (object.is_none()) return std::nullopt;
  const auto is_number = [](nb::handle value) {
    return (PyIndex_Check(value.ptr()) || PyFloat_Check(value.ptr())) && !PyBool_Check(value.ptr());
  };
  if (is_number(object)) return target_from(text_in(nb::str(object), "target", expected));
  const bool is_pair = (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) && nb::len(object) == 2 &&
                       is_number(object[0]) && is_number(object[1]);
  if (!is_pair) return target_from(text_in(object, "target", expected));
  return target_from(text_in(nb::str(nb::object(object[0])), "target", expected) + "." +
                     text_in(nb::str(nb::object(object[1])), "target", expected));
}

Unlocked::Unlocked()
    : scope_([] {
        const nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
      }) {}

Format parse_format(std::string_view name) {
  if (const auto format = format_named(name)) return *format;
  throw Error(
      {.code = ViolationCode::unknown_name, .field = "format", .seen = shortened(name), .legal = row_names(formats)});
}

MmaKind parse_kind(std::string_view name) {
  if (const auto kind = mma_kind_named(name)) return *kind;
  throw Error(
      {.code = ViolationCode::unknown_name, .field = "kind", .seen = std::string(name), .legal = row_names(mma_kinds)});
}

nb::object numpy_array(std::span<const int64_t> shape, const char* dtype) {
  nb::list extents;
  for (const int64_t extent : shape) extents.append(extent);
  return nb::module_::import_("numpy").attr("empty")(nb::tuple(extents), dtype);
}

nb::object array_of(const Matrix& matrix) {
  constexpr const char* dtypes[] = {"", "uint8", "uint16", "", "uint32"};
  nb::object array = numpy_array({matrix.rows(), matrix.cols()}, dtypes[code_bytes(matrix.format())]);
  const Buffer to(array, "codes", true);
  const Unlocked unlocked;
  write_codes(matrix, to.data());
  return array;
}

nb::object from_json(const std::string& text) {
  return in_ieee_environment([&]() -> nb::object { return nb::module_::import_("json").attr("loads")(text); });
}

nb::object from_report(const Report& report) { return from_json(to_json(report)); }

nb::list to_list(const std::vector<Violation>& violations) {
  // Long names are cut at a byte count, which may split a character.
  const auto text = [](const std::string& bytes) {
    return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
  };
  nb::list list;
  for (const Violation& violation : violations) {
    nb::dict row;
    row["field"] = text(violation.field);
    row["seen"] = text(violation.seen);
    row["legal"] = text(expected_of(violation));
    row["fix"] = text(violation.fix);
    row["source"] = text(violation.source);
    row["code"] = std::string(print(violation.code));
    row["severity"] = violation.severity == Severity::error ? "error" : "warning";
    row["text"] = text(print(violation));
    list.append(row);
  }
  return list;
}

}  // namespace bitmma::python

NB_MODULE(_core, module) {
  using namespace bitmma::python;
  nanobind::register_exception_translator(translate);
  // Programs may keep values until they exit, for example in caches, which is legitimate. A test turns the warnings on.
  nanobind::set_leak_warnings(false);
  module.def("set_leak_warnings", nanobind::set_leak_warnings);
  module.doc() = "The C++ library; use the functions of bitmma.";
  module.attr("version") = BITMMA_VERSION;
  // The environment of the calling thread, as one number that restore_environment takes.
  using bitmma::HostSettings;
  static_assert(sizeof(HostSettings) <= sizeof(uint64_t));
  module.def("set_ieee_environment", [] {
    const HostSettings before = bitmma::set_ieee_environment();
    uint64_t number = 0;
    std::memcpy(&number, &before, sizeof before);
    return number;
  });
  module.def("restore_environment", [](uint64_t number) {
    HostSettings before;
    std::memcpy(&before, &number, sizeof before);
    bitmma::restore_environment(before);
  });
  module.def("use_datasets", bitmma::use_datasets);
  module.def("located", bitmma::located);
  bind_instruction(module);
  bind_gemm(module);
  bind_quantize(module);
  bind_operators(module);
  bind_state(module);
  bind_layout(module);
  bind_math(module);
  bind_kernel(module);
  bind_prepared(module);
}
