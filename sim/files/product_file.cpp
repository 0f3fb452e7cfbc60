#include "bitmma/files/product_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <numeric>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/generated.hpp"
#include "known_names.hpp"
#include "matrix_tensor.hpp"

namespace bitmma {
namespace {

constexpr int64_t most_extent = int64_t{1} << 30, most_elements = int64_t{1} << 31,
                  most_generated = int64_t{1} << 28;  // a small file must not ask for all memory

class Reader {
 public:
  explicit Reader(const TensorFile& file) : file_(file) {}

  [[noreturn]] void refuse(std::string_view field, std::string seen, std::string expected, std::string fix = {}) const {
    throw Error({.field = fmt::format("{}: {}", file_.path, field),
                 .seen = std::move(seen),
                 .expected = std::move(expected),
                 .fix = std::move(fix)});
  }

  /// The key's text as a number, all of it; nothing without the key.
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
    constexpr std::string_view expected = "a whole number, 1 or more";
    const auto value = parsed<int64_t>(key, expected);
    if (value && (*value < 1 || *value > most_extent)) refuse(key, *file_.find_metadata(key), std::string(expected));
    return value;
  }
  float factor(std::string_view key) const { return static_cast<float>(parsed<double>(key, "a number").value_or(1)); }
  uint64_t word(std::string_view key) const { return parsed<uint64_t>(key, "a whole number below 2^64").value_or(0); }

  std::optional<Format> type_key(std::string_view key) const {
    const std::string* name = file_.find_metadata(key);
    if (!name) return std::nullopt;
    const std::optional<Format> format = format_named(*name);
    if (!format) refuse(key, *name, "the name of a format, as PTX spells it");
    return format;
  }

  /// The format of a tensor: what the key says of raw codes, or what its dtype says.
  Format format_of(const Tensor& tensor, std::optional<Format> named, bool is_input) const {
    if (named) {
      const FormatInfo& row = info(*named);
      const int bytes = std::max(1, row.bits / 8);
      if (dtype_bytes(tensor.dtype) != bytes)
        refuse(tensor.name, tensor.dtype,
               fmt::format("{} byte{} an element of {}", bytes, bytes == 1 ? "" : "s", row.name));
      return *named;
    }
    struct Row {
      std::string_view dtype;
      Format format;
    };
    static constexpr std::array rows{
        Row{"F16", Format::f16},      Row{"BF16", Format::bf16}, Row{"F64", Format::f64}, Row{"F8_E4M3", Format::e4m3},
        Row{"F8_E5M2", Format::e5m2}, Row{"I8", Format::s8},     Row{"I32", Format::s32}};
    if (tensor.dtype == "F32") return is_input ? Format::tf32 : Format::f32;
    const auto row = std::ranges::find(rows, std::string_view(tensor.dtype), &Row::dtype);
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

  /// A tensor of two extents, or of one or none where they are 1.
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

  /// Throws Error for an operand that is not there, with the names of the tensors that are.
  [[noreturn]] void refuse_missing(std::string_view name) const {
    std::string names;
    for (const Tensor& tensor : file_.tensors) names += fmt::format("{}{}", names.empty() ? "" : ", ", tensor.name);
    refuse(fmt::format("tensor {}", name),
           names.empty() ? "(missing)" : fmt::format("(missing); the file has {}", shortened(names)),
           "a product's operands: a [M, K], and b [K, N] or b_t [N, K]",
           fmt::format("rename the tensors; or generated operands: the key generator = {}, with seed, m, n and k",
                       generator_name));
  }

  Matrix required(std::string_view name, std::optional<Format> named) const {
    const Tensor* tensor = file_.find(name);
    if (!tensor) refuse_missing(name);
    if (tensor->shape.size() != 2) refuse(name, print_shape(tensor->shape), "two extents");
    return *optional_matrix(name, named, true);
  }

  /// Rows of A, or columns of B, that the file does not hold: what its generator makes of its seed.
  Matrix generated(std::string_view name, std::optional<Format> type, const std::vector<int64_t>& picks,
                   std::string_view extent) const {
    const std::string* generator = file_.find_metadata("generator");
    if (!generator) refuse_missing(name);
    if (*generator != generator_name) refuse("generator", *generator, std::string(generator_name));
    for (const std::string_view key : {std::string_view("seed"), std::string_view("k"), extent}) {
      if (!file_.find_metadata(key)) refuse(key, "(missing)", "a whole number: operands are generated");
    }
    if (!type) refuse(fmt::format("{}_type", name), "(missing)", "the type of a generated operand");
    if (info(*type).kind == NumberKind::integer && *type != Format::s8)
      refuse(fmt::format("{}_type", name), std::string(info(*type).name), "s8 or a floating-point type");
    const int64_t k = *number("k"), whole = *number(extent);
    // Numbers of a batch count through all of its products.
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

/// What acts in a product file.
const KnownNames& product_names() {
  static const KnownNames names{
      .kind = "a product file",
      .keys = {"a_type", "b_type", "d_type", "sf_type", "m", "n", "k", "alpha", "beta", "batch", "generator", "target",
               "plan"},
      .tensors = {"a", "b", "b_t", "c", "d", "bias", "rows", "cols", "scale_a", "scale_b", "sfa", "sfb"}};
  return names;
}

}  // namespace

std::optional<Format> ProductFile::output() const { return d ? std::optional(d->format()) : output_type; }

ProductFile read_product_file(const std::string& path) { return read_product_file(read_tensor_file(path)); }

ProductFile read_product_file(TensorFile file) {
  ProductFile product{.file = std::move(file)};
  require_known_names(product.file, product_names());
  const Reader reader(product.file);
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
                  fmt::format("K = {}, as A has", inputs.a.cols()));
  inputs.c = reader.optional_matrix("c", std::nullopt);
  inputs.bias = reader.optional_matrix("bias", std::nullopt);
  inputs.scale_a = reader.optional_matrix("scale_a", std::nullopt);
  inputs.scale_b = reader.optional_matrix("scale_b", std::nullopt);
  inputs.sfa = reader.optional_matrix("sfa", reader.type_key("sf_type").value_or(Format::ue8m0));
  inputs.sfb = reader.optional_matrix("sfb", reader.type_key("sf_type").value_or(Format::ue8m0));
  product.d = reader.optional_matrix("d", product.output_type);
  if (product.d && (product.d->rows() != inputs.a.rows() || product.d->cols() != inputs.b.cols()))
    reader.refuse("d", fmt::format("[{}, {}]", product.d->rows(), product.d->cols()),
                  fmt::format("[{}, {}]", inputs.a.rows(), inputs.b.cols()));
  product.alpha = reader.factor("alpha"), product.beta = reader.factor("beta");
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
  // D of a part stands alone: the operands in the file are those of the whole product.
  const bool is_part = !product.inputs.rows.empty() && !product.file.find("rows");
  TensorFile file = product.file;
  if (is_part) file.tensors.clear();
  file.set(tensor_of("d", d, {d.rows(), d.cols()}));
  // The key of the file may ask for another type than the plan has: products of integers are s32.
  if (file.find_metadata("d_type")) file.set_metadata("d_type", std::string(info(d.format()).name));
  const auto set_numbers = [&](std::string_view name, std::string_view key, const std::vector<int64_t>& numbers,
                               int64_t whole) {
    if (numbers.empty()) return;
    std::vector<uint8_t> words;
    for (const int64_t number : numbers) {
      for (int byte = 0; byte < 4; ++byte) words.push_back(static_cast<uint8_t>(number >> 8 * byte));
    }
    file.set(Tensor::from_bytes(std::string(name), "I32", {static_cast<int64_t>(numbers.size())}, std::move(words)));
    if (whole > 0) file.set_metadata(key, std::to_string(whole));  // 0: the file of the part did not say
  };
  set_numbers("rows", "m", product.inputs.rows, product.inputs.whole_m);
  set_numbers("cols", "n", product.inputs.cols, product.inputs.whole_n);
  file.set_metadata("target", std::string(print(plan.target)));
  file.set_metadata("plan", print_json(plan));
  file.set_metadata("source", version());
  return file;
}

}  // namespace bitmma
