// SPDX-License-Identifier: MIT
#include "bitmma/acts/product_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <numeric>

#include "../core/ieee_environment.hpp"
#include "../files/known_names.hpp"
#include "../files/matrix_tensor.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/instruction/state.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/generated.hpp"

namespace bitmma {
namespace {

constexpr int64_t most_extent = int64_t{1} << 30, most_elements = int64_t{1} << 31,
                  most_generated = int64_t{1} << 28;  // a small file must not request all memory

class ProductReader {
 public:
  explicit ProductReader(const TensorFile& file) : file_(file) {}

  [[noreturn]] void refuse(std::string_view field, std::string seen, std::string expected, std::string fix = {}) const {
    throw Error({.field = fmt::format("{}: {}", file_.path, field),
                 .seen = std::move(seen),
                 .expected = std::move(expected),
                 .fix = std::move(fix)});
  }

  /// Parses all of the key's text as a number; returns nothing if the key is missing.
  template <typename Number>
  std::optional<Number> parsed(std::string_view key, std::string_view expected) const {
    const std::string* text = file_.find_metadata(key);
    if (!text) return std::nullopt;
    Number value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc{} || end != text->data() + text->size()) refuse(key, *text, std::string(expected));
    return value;
  }

  std::optional<int64_t> number(std::string_view key) const {
    const std::string expected = fmt::format("a whole number, 1..{}", most_extent);
    const auto value = parsed<int64_t>(key, expected);
    if (value && (*value < 1 || *value > most_extent)) refuse(key, *file_.find_metadata(key), expected);
    return value;
  }
  float factor(std::string_view key) const {
    return in_ieee_environment([&] { return static_cast<float>(parsed<double>(key, "a number").value_or(1)); });
  }
  uint64_t word(std::string_view key) const { return parsed<uint64_t>(key, "a whole number below 2^64").value_or(0); }

  std::optional<Format> type_key(std::string_view key) const {
    const std::string* name = file_.find_metadata(key);
    if (!name) return std::nullopt;
    const std::optional<Format> format = format_named(*name);
    if (!format) refuse(key, *name, "the name of a format, as PTX spells it");
    return format;
  }

  /// The format of a tensor: the one that the key names for raw codes, otherwise that of the dtype.
  Format format_of(const Tensor& tensor, std::optional<Format> named, bool is_input) const {
    if (named) {
      const FormatInfo& row = info(*named);
      const int bytes = std::max(1, row.bits / 8);
      const bool is_other_float =
          (tensor.dtype.starts_with("F") || tensor.dtype.starts_with("BF")) && tensor.dtype != row.dtype;
      if (dtype_bytes(tensor.dtype) == bytes && is_other_float)
        refuse(fmt::format("{}_type", tensor.name.substr(0, 1)), std::string(row.name),
               fmt::format("the type of {}, {}, or absent", tensor.name, tensor.dtype),
               "raw codes have an integer dtype");
      if (dtype_bytes(tensor.dtype) != bytes)
        refuse(tensor.name, tensor.dtype,
               fmt::format("{} byte{} per element of {}", bytes, bytes == 1 ? "" : "s", row.name));
      return *named;
    }
    struct TypeOfDtype {
      std::string_view dtype;
      Format format;
    };
    static constexpr std::array rows{TypeOfDtype{"F16", Format::f16},      TypeOfDtype{"BF16", Format::bf16},
                                     TypeOfDtype{"F64", Format::f64},      TypeOfDtype{"F8_E4M3", Format::e4m3},
                                     TypeOfDtype{"F8_E5M2", Format::e5m2}, TypeOfDtype{"I8", Format::s8},
                                     TypeOfDtype{"I32", Format::s32}};
    if (tensor.dtype == "F32") return is_input ? Format::tf32 : Format::f32;
    const auto row = std::ranges::find(rows, std::string_view(tensor.dtype), &TypeOfDtype::dtype);
    if (row == rows.end())
      refuse(tensor.name, tensor.dtype, "F16, BF16, F32, F64, F8_E4M3, F8_E5M2, I8 or I32",
             fmt::format("raw codes need the key {}_type", tensor.name.substr(0, 1)));
    return row->format;
  }

  Matrix matrix(const Tensor& tensor, Format format, int64_t rows, int64_t cols) const {
    Matrix result(format, static_cast<int>(rows), static_cast<int>(cols));
    const auto size = static_cast<size_t>(dtype_bytes(tensor.dtype));
    const uint64_t mask = low_mask(std::max(info(format).bits, 1));
    const TensorBytes bytes = tensor.bytes.in_memory();
    const uint8_t* from = bytes.view().data();
    for (int row = 0; row < result.rows(); ++row) {
      for (int col = 0; col < result.cols(); ++col, from += size) {
        uint64_t code = 0;
        std::memcpy(&code, from, size);
        result.set_code(row, col, code & mask);
      }
    }
    return result;
  }

  /// Throws Error if the key states another extent than the tensors have.
  void require_extent(std::string_view key, int64_t extent, std::string_view of) const {
    const std::optional<int64_t> stated = number(key);
    if (!stated || *stated == extent) return;
    throw Error({.code = ViolationCode::contradiction,
                 .field = fmt::format("{}: {}", file_.path, key),
                 .seen = std::to_string(*stated),
                 .expected = fmt::format("{}, {}", extent, of)});
  }
  /// Throws Error for a key that has no effect in this file.
  void refuse_key(std::string_view key, std::string why, std::string fix) const {
    const std::string* text = file_.find_metadata(key);
    if (!text) return;
    throw Error({.code = ViolationCode::no_effect,
                 .field = fmt::format("{}: {}", file_.path, key),
                 .seen = shortened(*text),
                 .expected = std::move(why),
                 .fix = std::move(fix)});
  }

  /// The extents of a tensor with two, or with one or none if the missing ones are 1.
  std::pair<int64_t, int64_t> extents(const Tensor& tensor) const {
    const std::vector<int64_t>& shape = tensor.shape;
    if (shape.size() > 2) refuse(tensor.name, print_shape(shape), "at most two extents");
    const int64_t rows = shape.size() == 2 ? shape[0] : 1, cols = shape.empty() ? 1 : shape.back();
    const bool fits =
        rows >= 1 && cols >= 1 && rows <= most_extent && cols <= most_extent && rows <= most_elements / cols;
    if (!fits) refuse(tensor.name, print_shape(shape), "extents of 1 or more, of at most 2^31 elements");
    return {rows, cols};
  }

  std::optional<Matrix> optional_matrix(std::string_view name, std::optional<Format> named,
                                        bool is_input = false) const {
    const Tensor* tensor = file_.find(name);
    if (!tensor) return std::nullopt;
    const auto [rows, cols] = extents(*tensor);
    return matrix(*tensor, format_of(*tensor, named, is_input), rows, cols);
  }

  /// Throws Error for a missing operand and lists the names of the tensors in the file.
  [[noreturn]] void refuse_missing(std::string_view name) const {
    std::string names;
    for (const Tensor& tensor : file_.tensors) names += fmt::format("{}{}", names.empty() ? "" : ", ", tensor.name);
    refuse(
        fmt::format("tensor {}", name),
        names.empty() ? "(missing)" : fmt::format("(missing) in a file with {}", shortened(names)),
        "the operands of a product: a [M, K], and b [K, N] or b_t [N, K]",
        fmt::format("rename the tensors, or request generated operands with the keys generator = {}, seed, m, n and k",
                    generator_name));
  }

  Matrix required(std::string_view name, std::optional<Format> named) const {
    const Tensor* tensor = file_.find(name);
    if (!tensor) refuse_missing(name);
    if (tensor->shape.size() != 2) refuse(name, print_shape(tensor->shape), "two extents");
    return *optional_matrix(name, named, true);
  }

  /// Rows of A, or columns of B, that the file does not hold: the generator makes them from the seed.
  Matrix generated(std::string_view name, std::optional<Format> type, const std::vector<int64_t>& picks,
                   std::string_view extent) const {
    const std::string* generator = file_.find_metadata("generator");
    if (!generator) refuse_missing(name);
    if (*generator != generator_name) refuse("generator", *generator, std::string(generator_name));
    for (const std::string_view key : {std::string_view("seed"), std::string_view("k"), extent}) {
      if (!file_.find_metadata(key)) refuse(key, "(missing)", "a whole number, because the operands are generated");
    }
    if (!type) refuse(fmt::format("{}_type", name), "(missing)", "the type of a generated operand");
    if (info(*type).kind == NumberKind::integer && *type != Format::s8)
      refuse(fmt::format("{}_type", name), std::string(info(*type).name), "s8 or a floating-point type");
    const int64_t k = *number("k"), whole = *number(extent);
    // The row and column numbers of a batch count through all of its products.
    const auto batch = static_cast<int64_t>(std::min<uint64_t>(word("batch"), 1u << 20));
    std::vector<int64_t> rows = picks;
    if (rows.empty()) {
      if (whole > most_generated) refuse(extent, std::to_string(whole), fmt::format("at most {}", most_generated));
      rows.resize(static_cast<size_t>(whole));
      std::iota(rows.begin(), rows.end(), int64_t{0});
    }
    for (int64_t& row : rows) {
      if (row >= whole)
        refuse(extent == "m" ? "rows" : "cols", std::to_string(row),
               fmt::format("numbers below {} = {}", extent, whole));
      row += batch * whole;
    }
    if (k > most_generated / static_cast<int64_t>(rows.size()))
      refuse("k", fmt::format("{} x {} elements of {}", rows.size(), k, name),
             fmt::format("at most {} generated elements", most_generated));
    return generated_rows(*type, rows, static_cast<int>(k), word("seed"),
                          name == "a" ? GeneratedStream::a : GeneratedStream::b);
  }

  std::vector<int64_t> numbers(std::string_view name) const {
    const Tensor* tensor = file_.find(name);
    if (!tensor) return {};
    if (tensor->dtype != "I32" || tensor->shape.size() != 1 || tensor->shape[0] < 1)
      refuse(name, tensor->dtype + " " + print_shape(tensor->shape), "I32 [count], count of 1 or more");
    std::vector<int32_t> words(tensor->bytes.size() / 4);
    tensor->bytes.copy_to({reinterpret_cast<uint8_t*>(words.data()), 4 * words.size()});
    for (const int32_t word : words) {
      if (word < 0) refuse(name, std::to_string(word), "numbers of rows or columns");
    }
    return {words.begin(), words.end()};
  }

 private:
  const TensorFile& file_;
};

/// Throws Error for keys that the tensors contradict, or that have no effect beside them.
void require_acting_keys(const ProductFile& product, const ProductReader& reader) {
  const GemmInputs& inputs = product.inputs;
  const TensorFile& file = product.file;
  const bool has_a = file.find("a"), has_b = file.find("b") || file.find("b_t");
  reader.require_extent("k", inputs.a.cols(), "the K of a and b");
  if (inputs.rows.empty()) reader.require_extent("m", inputs.a.rows(), "the rows of a");
  if (inputs.cols.empty()) reader.require_extent("n", inputs.b.cols(), "the columns of b");
  if (has_a && has_b) {
    for (const std::string_view key : {"generator", "batch"})
      reader.refuse_key(key, "absent if the file has a and b", "omit a or b to generate it");
  }
  if (!file.find("c") && product.beta != 0)
    reader.refuse_key("beta", "absent or 0 without c, which it multiplies", "save c, or omit the key");
  if (!inputs.sfa && !inputs.sfb)
    reader.refuse_key("sf_type", "absent without sfa and sfb, because it names their type",
                      "save them, or omit the key");
}

/// Makes the computed part of a product a separate product: its operands replace those of the whole product.
void set_operands(TensorFile& file, const GemmInputs& inputs) {
  const auto replace = [&](std::string_view name, const Matrix& matrix, std::string_view type_key) {
    const Tensor* const tensor = file.find(name);
    if (!tensor) return;
    const bool is_line = tensor->shape.size() == 1;
    file.set(
        tensor_of(std::string(name), matrix,
                  is_line ? std::vector<int64_t>{matrix.cols()} : std::vector<int64_t>{matrix.rows(), matrix.cols()}));
    if (!type_key.empty()) file.set_metadata(type_key, std::string(info(matrix.format()).name));
  };
  for (const GemmOperandInfo& row : gemm_operands) {
    if (const Matrix* const operand = find_operand(inputs, row.id)) replace(row.name, *operand, row.type_key);
  }
  replace("b_t", transposed(inputs.b), info(GemmOperand::b).type_key);
}

/// The keys and tensors that have an effect in a product file.
const KnownNames& product_names() {
  static const KnownNames names = [] {
    KnownNames known{.kind = "a product file",
                     .keys = {"d_type", "m", "n", "k", "alpha", "beta", "batch", "generator", "target", "plan"},
                     .tensors = {"b_t", "d", "rows", "cols"}};
    for (const GemmOperandInfo& row : gemm_operands) {
      known.tensors.push_back(row.name);
      const bool is_new = std::ranges::find(known.keys, row.type_key) == known.keys.end();
      if (!row.type_key.empty() && is_new) known.keys.push_back(row.type_key);
    }
    return known;
  }();
  return names;
}

/// Throws Error if the file holds cases of one instruction.
void require_product(const TensorFile& file) {
  const std::string* instruction = file.find_metadata("instruction");
  const std::vector<std::string_view>& own = product_names().tensors;  // mma.sync also has registers called scale_a
  const bool has_state = std::ranges::any_of(state_fields, [&](const FieldInfo& field) {
    return file.find(field.name) && std::ranges::find(own, field.name) == own.end();
  });
  if (!instruction && !has_state) return;
  throw Error({.code = ViolationCode::unusable_file,
               .field = file.path,
               .seen = instruction ? fmt::format("a vector file of {}", shortened(*instruction))
                                   : "a vector file, with images, descriptors or registers of instructions",
               .expected = "a product: a and b without an instruction",
               .fix = "use bitmma simulate, verify, explain or diagnose for it; in a product, the key plan names the "
                      "instruction"});
}

}  // namespace

std::optional<Format> ProductFile::output() const { return d ? std::optional(d->format()) : output_type; }

ProductFile read_product_file(const std::string& path) { return read_product_file(read_tensor_file(path)); }

ProductFile read_product_file(TensorFile file) {
  ProductFile product{.file = std::move(file)};
  require_product(product.file);
  require_known_names(product.file, product_names());
  const ProductReader reader(product.file);
  const auto a_type = reader.type_key("a_type"), b_type = reader.type_key("b_type");
  product.output_type = reader.type_key("d_type");
  GemmInputs& inputs = product.inputs;
  inputs.rows = reader.numbers("rows"), inputs.cols = reader.numbers("cols");
  inputs.whole_m = reader.number("m").value_or(0), inputs.whole_n = reader.number("n").value_or(0);
  inputs.a = product.file.find("a") ? reader.required("a", a_type) : reader.generated("a", a_type, inputs.rows, "m");
  const bool transposed_b = product.file.find("b_t") != nullptr;
  if (transposed_b && product.file.find("b")) reader.refuse("tensors", "both b and b_t", "one of them");
  inputs.b = transposed_b             ? transposed(reader.required("b_t", b_type))
             : product.file.find("b") ? reader.required("b", b_type)
                                      : transposed(reader.generated("b", b_type, inputs.cols, "n"));
  if (inputs.a.cols() != inputs.b.rows())
    reader.refuse(transposed_b ? "b_t" : "b", fmt::format("K = {}", inputs.b.rows()),
                  fmt::format("K = {}, as A has", inputs.a.cols()),
                  !transposed_b && inputs.b.cols() == inputs.a.cols() ? "B transposed is called b_t (b_t.npy)" : "");
  for (const GemmOperandInfo& row : gemm_operands) {
    if (!row.optional) continue;
    std::optional<Format> type;  // block scales have ue8m0 unless the key names another
    if (!row.type_key.empty()) type = reader.type_key(row.type_key).value_or(Format::ue8m0);
    inputs.*row.optional = reader.optional_matrix(row.name, type);
  }
  product.d = reader.optional_matrix("d", product.output_type);
  if (product.d && (product.d->rows() != inputs.a.rows() || product.d->cols() != inputs.b.cols()))
    reader.refuse("d", fmt::format("[{}, {}]", product.d->rows(), product.d->cols()),
                  fmt::format("[{}, {}]", inputs.a.rows(), inputs.b.cols()));
  product.alpha = reader.factor("alpha"), product.beta = reader.factor("beta");
  require_acting_keys(product, reader);
  if (const std::string* name = product.file.find_metadata("target")) {
    product.target = target_meant_by(*name);
    if (!product.target) reader.refuse("target", *name, "a target, such as sm_90a or H100");
  }
  return product;
}

ProductFile part_of(const ProductFile& product, std::span<const int> rows, std::span<const int> cols) {
  ProductFile part = product;
  part.inputs = part_of(product.inputs, rows, cols);
  if (product.d) part.d = cols_of(rows_of(*product.d, rows, "d"), cols, "d");
  return part;
}

TensorFile with_d(const ProductFile& product, const GemmPlan& plan, const Matrix& d) {
  TensorFile file = product.file;
  const ProductReader reader(product.file);
  const bool is_part = product.inputs.rows != reader.numbers("rows") || product.inputs.cols != reader.numbers("cols");
  if (is_part) set_operands(file, product.inputs);
  file.set(tensor_of("d", d, {d.rows(), d.cols()}));
  // The file's key may name another type than the plan has: products of integers are s32.
  if (file.find_metadata("d_type")) file.set_metadata("d_type", std::string(info(d.format()).name));
  const auto set_numbers = [&](std::string_view name, std::string_view key, const std::vector<int64_t>& numbers,
                               int64_t whole) {
    if (numbers.empty()) return;
    std::vector<uint8_t> words;
    for (const int64_t number : numbers) {
      for (int byte = 0; byte < 4; ++byte) words.push_back(static_cast<uint8_t>(number >> 8 * byte));
    }
    file.set(Tensor::from_bytes(std::string(name), "I32", {static_cast<int64_t>(numbers.size())}, std::move(words)));
    if (whole > 0) file.set_metadata(key, std::to_string(whole));  // 0: the file of the part does not state it
  };
  set_numbers("rows", "m", product.inputs.rows, product.inputs.whole_m);
  set_numbers("cols", "n", product.inputs.cols, product.inputs.whole_n);
  file.set_metadata("target", std::string(print(plan.target)));
  file.set_metadata("plan", print_json(plan));
  set_origin(file, version());
  return file;
}

}  // namespace bitmma
