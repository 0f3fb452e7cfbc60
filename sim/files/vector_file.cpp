#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <set>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "vector_parts.hpp"

namespace bitmma {
namespace {

static_assert(std::endian::native == std::endian::little);

/// Every tensor of the format, in the order in which files are made.
constexpr auto known_tensors = std::to_array<std::string_view>({
    // clang-format off
    "smem", "idesc", "d_tmem", "a_tmem", "metadata_tmem", "scale_a_tmem", "scale_b_tmem", "taddr", "warp", "tmem",
    "tmem_after", "enable_input_d", "scale_input_d", "disable_output_lane", "zero_column_mask", "s_desc", "a_desc",
    "b_desc", "regs", "a_regs", "b_regs", "metadata", "scale_a", "scale_b", "c_regs", "d_regs", "redval", "d_redval", "a", "b",
    "c", "d", "sfa", "sfb",
    // clang-format on
});

std::string_view dtype_of(ElementType type) {
  return type == ElementType::u8 ? "U8" : type == ElementType::u32 ? "U32" : "U64";
}

bool is_one_of(std::string_view dtype, const std::vector<std::string_view>& dtypes) {
  return std::ranges::find(dtypes, dtype) != dtypes.end();
}

/// The dtypes that hold the same words: libraries without unsigned types have signed ones, and registers of an f32
/// accumulator may come as floats.
std::vector<std::string_view> word_dtypes(std::string_view dtype) {
  if (dtype == "U64") return {"U64", "I64", "F64"};
  if (dtype == "U32") return {"U32", "I32", "F32"};
  return {dtype};
}

std::vector<std::string_view> dtypes_of(Format format) {
  const FormatInfo& row = info(format);
  if (row.raw_dtype.empty()) return {row.dtype};
  return {row.dtype, row.raw_dtype};
}

/// The logical matrices of an instruction, with where a LogicalMatrices has them.
struct LogicalTensor {
  std::string_view name;
  std::optional<Matrix> LogicalMatrices::*member;
  Format format;
  int rows, cols;
  bool required;     // in a file without a state
  int products = 1;  // stacked; in files they have an extent of their own

  Extents extents() const { return products == 1 ? Extents{rows, cols} : Extents{products, rows / products, cols}; }
};

std::vector<LogicalTensor> logical_tensors(const Instruction& instruction) {
  if (!is_mma(instruction)) return {};
  const Mma mma = mma_of(instruction);
  std::vector<LogicalTensor> tensors{
      {"a", &LogicalMatrices::a, mma.a, mma.m, mma.a_cols(), true, mma.products},
      {"b", &LogicalMatrices::b, mma.b, mma.k, mma.n, true, mma.products},
      {"c", &LogicalMatrices::c, mma.c, mma.m, mma.n, mma.enable_input_d, mma.products},
      {"d", &LogicalMatrices::d, mma.d, mma.m, mma.n, false, mma.products},
  };
  if (mma.scale_count > 0) {
    tensors.push_back({"sfa", &LogicalMatrices::scale_a, mma.scale_type, mma.m, mma.scale_count, true});
    tensors.push_back({"sfb", &LogicalMatrices::scale_b, mma.scale_type, mma.scale_count, mma.n, true});
  }
  return tensors;
}

class Checker {
 public:
  explicit Checker(std::string path) : path_(std::move(path)) {}

  void refuse(std::string_view field, std::string seen, std::string expected, std::string fix = {}) {
    refuse(ViolationCode::illegal_value, field, std::move(seen), std::move(expected), std::move(fix));
  }
  void refuse(ViolationCode code, std::string_view field, std::string seen, std::string expected,
              std::string fix = {}) {
    violations_.push_back({.code = code,
                           .field = named(field),
                           .seen = std::move(seen),
                           .expected = std::move(expected),
                           .fix = std::move(fix),
                           .source = fmt::format("format {}", vector_format)});
  }
  void add(std::vector<Violation> violations) {
    for (Violation& violation : violations) {
      violation.field = named(violation.field);
      violations_.push_back(std::move(violation));
    }
  }
  bool refused() const { return !violations_.empty(); }
  void stop_if_refused() {
    if (!violations_.empty()) throw Error(std::move(violations_));
  }

 private:
  std::string named(std::string_view field) const {
    return path_.empty() ? std::string(field) : fmt::format("{}: {}", path_, field);
  }

  std::string path_;
  std::vector<Violation> violations_;
};

/// Elements of case `index`. Only of tensors that a rule has checked.
TensorBytes slice(const Tensor& tensor, int64_t index) {
  const size_t size = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  return tensor.bytes.part(size * static_cast<size_t>(index), size);
}

bool has_field(const Instruction& instruction, Field field) {
  return std::ranges::any_of(fields_of(instruction), [&](const FieldRule& rule) { return rule.field == field; });
}

uint64_t number_in(const TensorBytes& bytes) {
  uint64_t number = 0;
  bytes.copy_to({reinterpret_cast<uint8_t*>(&number), std::min(bytes.size(), sizeof number)});
  return number;
}

/// Codes narrower than their bytes leave the other bits 0, or repeat their sign. Anything else may be packed pairs.
void require_codes(const Matrix& matrix, const Tensor& tensor) {
  const FormatInfo& row = info(matrix.format());
  if (row.bits >= 8 || row.bits == 1) return;
  for (size_t i = 0; i < matrix.size(); ++i) {
    const uint32_t word = matrix.words()[i];
    if (word >> row.bits == 0) continue;
    throw Error({.field = fmt::format("tensor {}", tensor.name),
                 .seen = fmt::format("{:#x} in element {}", word, i),
                 .expected = fmt::format("0..{:#x}, one code of {} a byte", (1 << row.bits) - 1, row.name),
                 .fix = "two codes in a byte must be taken apart first, the low bits first"});
  }
}

Matrix logical_matrix(const Tensor& tensor, const LogicalTensor& row, int64_t index) {
  const TensorBytes held = slice(tensor, index).in_memory();
  const std::span<const uint8_t> bytes = held.view();
  Matrix matrix(row.format, row.rows, row.cols);
  const size_t size = bytes.size() / std::max<size_t>(1, matrix.size());
  if (matrix.is_wide()) {
    std::memcpy(matrix.words().data(), bytes.data(), bytes.size());
    return matrix;
  }
  const auto read = [&]<typename Word>(Word) {
    uint32_t* code = matrix.words().data();
    for (size_t i = 0; i < matrix.size(); ++i) {
      Word word;
      std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
      // A code of 4 bits may come as a number of 8: -3 is 0xFD, its code 0xD.
      const bool repeats_sign = row.format == Format::s4 && (word & 0xF8) == 0xF8;
      *code++ = row.format == Format::b1 ? word != 0 : repeats_sign ? word & 0xF : word;
    }
  };
  switch (size) {
    case 1: read(uint8_t{}); break;
    case 2: read(uint16_t{}); break;
    default: read(uint32_t{}); break;
  }
  return matrix;
}

/// The extents of a tensor without its cases; a last extent of 1 may have been left out.
Extents extents_of(const Tensor& tensor, const Extents& rule) {
  const auto shape = std::span(tensor.shape).subspan(1);
  if (shape.size() == rule.size()) return Extents(shape);
  std::vector<int64_t> extents(shape.begin(), shape.end());
  extents.push_back(1);
  return Extents(extents);
}

void add_to(State& state, const FieldRule& rule, const Tensor& tensor, int64_t index) {
  const FieldInfo& row = info(rule.field);
  const TensorBytes bytes = slice(tensor, index);
  if (row.is_number) {
    state.set(rule.field, number_in(bytes));
    return;
  }
  const Extents extents = extents_of(tensor, rule.extents);
  const auto copied = [&]<typename Word>(Word) {
    std::vector<Word> words(bytes.size() / sizeof(Word));
    bytes.copy_to({reinterpret_cast<uint8_t*>(words.data()), bytes.size()});
    return words;
  };
  const uint8_t* const data = bytes.is_in_memory() ? bytes.view().data() : nullptr;
  if (row.type == ElementType::u8) {
    if (data) state.borrow(rule.field, bytes.view(), extents);
    else state.set(rule.field, copied(uint8_t{}), extents);
  } else if (data && reinterpret_cast<uintptr_t>(data) % alignof(uint32_t) == 0) {
    state.borrow(rule.field, {reinterpret_cast<const uint32_t*>(data), bytes.size() / 4}, extents, rule.wide);
  } else if (rule.wide) {
    state.set(rule.field, copied(uint64_t{}), extents);
  } else {
    state.set(rule.field, copied(uint32_t{}), extents);
  }
}

/// The mnemonic, the target and the immediates that are metadata keys.
void read_instruction(VectorFile& vectors, const VectorFileDefaults& defaults, Checker& check) {
  const TensorFile& file = vectors.file;
  // Libraries name themselves under this key, or leave it out.
  constexpr auto libraries = std::to_array<std::string_view>({"pt", "np", "tf", "flax", "jax", "mlx"});
  const std::string* format = file.find_metadata("format");
  if (format && *format != vector_format && std::ranges::find(libraries, *format) == libraries.end()) {
    check.refuse("__metadata__ format", *format, std::string(vector_format));
  }
  const std::string* mnemonic = file.find_metadata("instruction");
  if (!mnemonic && defaults.instruction.empty()) {
    check.refuse(ViolationCode::missing_instruction, "__metadata__ instruction", "(missing)", "a PTX mnemonic",
                 "save the key, or give the instruction");
  }
  check.stop_if_refused();
  try {
    vectors.instruction = *named_instruction(file, defaults);
  } catch (const Error& error) {
    check.add(error.violations());
    check.stop_if_refused();
  }
  if (mnemonic && !defaults.instruction.empty()) {
    const Instruction asked = parse_instruction(defaults.instruction);
    if (print(asked) != print(vectors.instruction)) {
      check.refuse(ViolationCode::other_instruction, "__metadata__ instruction", *mnemonic, print(asked),
                   "another instruction was asked for");
      check.stop_if_refused();
    }
  }
  for (const ImmediateInfo& immediate : all_immediates()) {
    const std::string* text = immediate.by_case ? nullptr : file.find_metadata(immediate.name);
    if (!text) continue;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc{} || end != text->data() + text->size()) {
      check.refuse(fmt::format("__metadata__ {}", immediate.name), *text, "a whole number");
      continue;
    }
    try {
      vectors.instruction = with_immediate(vectors.instruction, immediate.name, value);
    } catch (const Error& refused) {
      check.add(refused.violations());
    }
  }
  const auto has = [&](std::string_view name) { return file.find(name) != nullptr; };
  // A tensor of another family's operand means nothing.
  for (const auto& [field, source] :
       {std::pair(Field::a_regs, OperandSource::registers), std::pair(Field::a_tmem, OperandSource::tmem)}) {
    const Instruction other = with_a_source(vectors.instruction, source);
    if (!has(info(field).name) || !has_field(other, field) || other == vectors.instruction) continue;
    if (has("a_desc")) {
      check.refuse("tensors", fmt::format("both {} and a_desc", info(field).name),
                   fmt::format("one of them: A is in {} or in shared memory",
                               source == OperandSource::registers ? "registers" : "Tensor Memory"));
    }
    vectors.instruction = other;
  }
  check.stop_if_refused();
}

/// The target that the file or the caller names, or else the first one that has every case.
void read_target(VectorFile& vectors, const std::vector<Instruction>& instructions, const VectorFileDefaults& defaults,
                 Checker& check) {
  TargetSet common = targets_of(instructions.front());
  for (const Instruction& one : instructions) common = common & targets_of(one);
  const Target usual = default_target(instructions.front());
  vectors.target = common.empty() || common.contains(usual) ? usual : common.first();
  if (defaults.target) vectors.target = *defaults.target;
  const std::string* name = vectors.file.find_metadata("target");
  if (!name) return;
  const std::optional<Target> target = target_named(*name);
  if (!target) {
    check.refuse("__metadata__ target", *name, "a PTX target, such as sm_90a");
  } else if (defaults.target && *defaults.target != *target) {
    check.refuse(ViolationCode::other_target, "__metadata__ target", *name, std::string(print(*defaults.target)),
                 "another target was asked for");
  } else {
    vectors.target = *target;
  }
}

/// What to do about a plain matrix of another shape.
std::string fix_of_shape(const TensorRule& rule, const VectorFile& vectors) {
  const bool has_k = !vectors.has_state && (rule.name == "a" || rule.name == "b");
  if (!has_k) return "the first extent is the number of cases";
  return fmt::format(
      "the first extent is the number of cases; simulate takes any multiple of K = {} as a K loop, and "
      "with -o writes its steps for the other commands",
      mma_of(vectors.instruction).k);
}

void check_tensor(const Tensor& tensor, const TensorRule& rule, const VectorFile& vectors, Checker& check) {
  if (!is_one_of(tensor.dtype, rule.dtypes)) {
    check.refuse(fmt::format("tensor {} dtype", rule.name), tensor.dtype, std::string(rule.dtypes.front()));
  }
  std::vector<int64_t> expected{vectors.cases};
  expected.insert(expected.end(), rule.shape.begin(), rule.shape.end());
  const bool any_last = expected.back() == -1;
  // A last extent of 1 may be left out.
  const bool without_one = expected.back() == 1 && expected.size() > 2 && tensor.shape.size() + 1 == expected.size();
  const bool same = (tensor.shape.size() == expected.size() || without_one) &&
                    std::equal(expected.begin(), expected.end() - (any_last || without_one), tensor.shape.begin()) &&
                    (!any_last || tensor.shape.back() > 0);
  if (same) return;
  std::string legal = print_shape(expected);
  if (any_last) legal = fmt::format("{}...]", legal.substr(0, legal.size() - 3));
  check.refuse(fmt::format("tensor {} shape", rule.name), print_shape(tensor.shape), legal,
               fix_of_shape(rule, vectors));
}

/// The instructions of all cases, each once, that of case 0 first: immediates may differ from case to case.
std::vector<Instruction> distinct_instructions(const VectorFile& vectors, Checker& check) {
  std::vector<std::pair<ImmediateInfo, const Tensor*>> by_case;
  for (const ImmediateInfo& immediate : immediates_of(vectors.instruction)) {
    if (!immediate.by_case) continue;
    const Tensor* tensor = vectors.file.find(immediate.name);
    const bool readable = tensor && is_one_of(tensor->dtype, word_dtypes(dtype_of(immediate.type))) &&
                          tensor->shape.size() == 1 && tensor->shape[0] >= 1;
    if (tensor ? !readable : immediate.required) {
      check.refuse(fmt::format("tensor {}", immediate.name),
                   tensor ? fmt::format("{} {}", tensor->dtype, print_shape(tensor->shape)) : "(missing)",
                   fmt::format("{} [cases], at least one", dtype_of(immediate.type)),
                   immediate.name == "idesc" ? "the instruction descriptor says shape and types" : "");
    }
    if (readable) by_case.emplace_back(immediate, tensor);
  }
  std::vector<Instruction> instructions;
  if (check.refused()) return instructions;
  std::set<std::vector<uint64_t>> seen;
  const int64_t cases = by_case.empty() ? 1 : by_case.front().second->shape[0];
  for (int64_t index = 0; index < cases && !check.refused(); ++index) {
    std::vector<uint64_t> values;
    std::vector<std::string_view> names;
    for (const auto& [immediate, tensor] : by_case) {
      if (index >= tensor->shape[0]) continue;  // too short: said when shapes are checked
      values.push_back(number_in(slice(*tensor, index)));
      names.push_back(immediate.name);
    }
    if (!seen.insert(values).second) continue;
    try {
      Instruction one = vectors.instruction;
      for (size_t i = 0; i < values.size(); ++i) {
        one = with_immediate(one, names[i], static_cast<int64_t>(values[i]));
      }
      instructions.push_back(one);
    } catch (const Error& error) {
      check.add(error.violations());
    }
  }
  return instructions;
}

/// A tensor whose name another instruction uses is not checked: it may have any dtype and shape.
bool comes_by_case(const Tensor& tensor, int64_t cases) {
  return std::ranges::find(known_tensors, tensor.name) != known_tensors.end() && !tensor.shape.empty() &&
         tensor.shape[0] == cases && tensor.bytes.size() % static_cast<size_t>(cases) == 0;
}

/// The tensor that a field is recorded in after the instruction; empty when it is only read.
std::string_view after_name(const FieldRule& rule) {
  return rule.access == Access::read ? std::string_view{} : info(rule.field).after;
}

void append_number(std::vector<uint8_t>& bytes, uint64_t number, int size) {
  for (int byte = 0; byte < size; ++byte) bytes.push_back(static_cast<uint8_t>(number >> 8 * byte));
}

}  // namespace

std::vector<TensorRule> tensor_rules(const Instruction& instruction, bool has_state) {
  std::vector<TensorRule> rules;
  for (const LogicalTensor& row : logical_tensors(instruction)) {
    rules.push_back({.name = row.name,
                     .dtypes = dtypes_of(row.format),
                     .shape = row.extents(),
                     .required = row.required && !has_state,
                     .meaning = "a logical matrix, for people; the state decides"});
  }
  if (!has_state) return rules;
  for (const FieldRule& field : fields_of(instruction)) {
    const FieldInfo& row = info(field.field);
    const std::string_view dtype = field.wide ? "U64" : dtype_of(row.type);
    if (field.access != Access::write) {
      rules.push_back({.name = row.name,
                       .dtypes = word_dtypes(dtype),
                       .shape = field.extents,
                       .required = field.required,
                       .meaning = field.meaning});
    }
    if (!after_name(field).empty()) {
      rules.push_back({.name = after_name(field),
                       .dtypes = word_dtypes(dtype),
                       .shape = field.extents,
                       .meaning = "the same after it"});
    }
  }
  for (const ImmediateInfo& immediate : immediates_of(instruction)) {
    if (!immediate.by_case) continue;
    rules.push_back({.name = immediate.name,
                     .dtypes = word_dtypes(dtype_of(immediate.type)),
                     .required = immediate.required,
                     .meaning = immediate.legal});
  }
  return rules;
}

std::string VectorFile::name() const { return print(instruction); }

std::string_view VectorFile::d_tensor() const {
  if (!has_state) return "d";
  for (const FieldRule& rule : fields_of(instruction)) {
    if (!after_name(rule).empty()) return after_name(rule);
  }
  return "d";
}

std::string VectorFile::source() const {
  const std::string* source = file.find_metadata("source");
  return source ? printable(*source) : "unknown";
}

void VectorFile::require_unchanged() const {
  if (file.input) file.input->require_unchanged();
}

VectorFile cases_of(const VectorFile& vectors, int64_t first, int64_t count) {
  if (first < 0 || count < 1 || first > vectors.cases || count > vectors.cases - first) {
    throw Error({.field = fmt::format("{}: cases", vectors.file.path),
                 .seen = fmt::format("{} from {} on", count, first),
                 .expected = fmt::format("one or more of 0..{}", vectors.cases - 1)});
  }
  VectorFile part = vectors;
  part.cases = count;
  part.first_case = vectors.first_case + first;
  std::erase_if(part.file.tensors, [&](const Tensor& tensor) { return !comes_by_case(tensor, vectors.cases); });
  for (Tensor& tensor : part.file.tensors) {
    const size_t bytes_per_case = tensor.bytes.size() / static_cast<size_t>(vectors.cases);
    tensor.bytes =
        tensor.bytes.part(static_cast<size_t>(first) * bytes_per_case, static_cast<size_t>(count) * bytes_per_case);
    tensor.shape[0] = count;
  }
  return part;
}

std::vector<Tensor> tensors_without_cases(const VectorFile& vectors) {
  std::vector<Tensor> tensors;
  std::ranges::copy_if(vectors.file.tensors, std::back_inserter(tensors),
                       [&](const Tensor& tensor) { return !comes_by_case(tensor, vectors.cases); });
  return tensors;
}

VectorFile in_memory(VectorFile vectors) {
  for (Tensor& tensor : vectors.file.tensors) tensor.bytes = tensor.bytes.in_memory();
  return vectors;
}

VectorFile read_vector_file(const std::string& path, const VectorFileDefaults& defaults) {
  return as_vector_file(read_tensor_file(path), defaults);
}

namespace {

bool is_known(const Tensor& tensor) {
  return std::ranges::find(known_tensors, std::string_view(tensor.name)) != known_tensors.end();
}

bool is_known_key(std::string_view key) {
  constexpr auto keys = std::to_array<std::string_view>(
      {"format", "instruction", "target", "source", "a_type", "b_type", "d_type", "sf_type", "scale_d"});
  static const std::vector<ImmediateInfo> immediates = all_immediates();
  return std::ranges::find(keys, key) != keys.end() ||
         std::ranges::find(immediates, key, &ImmediateInfo::name) != immediates.end();
}

TensorFile known_part(const TensorFile& file) {
  TensorFile part{.path = file.path, .metadata = {}, .tensors = {}, .input = file.input};
  std::ranges::copy_if(file.tensors, std::back_inserter(part.tensors), is_known);
  std::ranges::copy_if(file.metadata, std::back_inserter(part.metadata), is_known_key,
                       &std::pair<std::string, std::string>::first);
  return part;
}

/// True where an instruction descriptor says shape and types, and the file has logical matrices in its place and
/// nothing that the instruction reads.
bool is_of_matrices(const VectorFile& vectors) {
  if (!shape_and_types_of(vectors.instruction)) return false;
  const auto has = [&](std::string_view name) { return vectors.file.find(name) != nullptr; };
  if (!has("a") || !has("b")) return false;
  for (const ImmediateInfo& immediate : immediates_of(vectors.instruction)) {
    if (immediate.required && has(immediate.name)) return false;
  }
  return std::ranges::none_of(fields_of(vectors.instruction), [&](const FieldRule& rule) {
    return !info(rule.field).is_number && has(info(rule.field).name);
  });
}

/// What the instruction descriptor would say, from the logical matrices.
class DescriptorFromMatrices {
 public:
  DescriptorFromMatrices(const VectorFile& vectors, const VectorFileDefaults& defaults, Checker& check)
      : file_(vectors.file),
        defaults_(defaults),
        check_(check),
        named_(vectors.instruction),
        said_(*shape_and_types_of(vectors.instruction)) {}

  Instruction instruction() {
    set_type(said_.a, "a", "a_type", defaults_.a_type,
             types([](const Form& form, Format f) { return form.a.contains(f); }));
    set_type(said_.b, "b", "b_type", defaults_.b_type,
             types([](const Form& form, Format f) { return form.b.contains(f); }));
    const std::string_view of_d = file_.find("c") ? "c" : "d";
    if (file_.find(of_d) || defaults_.d_type || file_.find_metadata("d_type"))
      set_type(said_.d, of_d, "d_type", defaults_.d_type,
               types([](const Form& form, Format f) { return form.d == f; }));
    if (mma_of(named_).scale_count > 0 && file_.find("sfa")) {
      set_type(said_.scale_type, "sfa", "sf_type", defaults_.sf_type, types([&](const Form& form, Format f) {
                 ShapeAndTypes with = *shape_and_types_of(named_);
                 with.scale_type = f;
                 return std::ranges::any_of(form.scales,
                                            [&](const LegalScales& row) { return row.types.contains(f); }) &&
                        violations_of(with_shape_and_types(named_, with), form.targets.first()).empty();
               }));
    }
    const std::vector<int64_t>&a = file_.find("a")->shape, &b = file_.find("b")->shape;
    constexpr int64_t most = 1 << 16;
    const bool has_extents = a.size() == 3 && b.size() == 3 && std::ranges::all_of(a, in_range) &&
                             std::ranges::all_of(b, in_range) && a[1] <= most && a[2] <= most && b[2] <= most;
    if (!has_extents) {
      check_.refuse("tensors a, b", print_shape(a) + ", " + print_shape(b), "[cases, M, K], [cases, K, N]");
      return named_;
    }
    said_.m = static_cast<int>(a[1]), said_.n = static_cast<int>(b[2]);
    // 96 where the kind knows it; every other K follows from the types.
    said_.k = a[2] == 96 && mma_of(named_).k == 64 ? 96 : 0;
    const std::string* scale_d = file_.find_metadata("scale_d");
    if (scale_d && *scale_d != "0" && *scale_d != "1") check_.refuse("__metadata__ scale_d", *scale_d, "0 or 1");
    return with_enable_input_d(with_shape_and_types(named_, said_),
                               scale_d ? *scale_d == "1" : file_.find("c") != nullptr);
  }

 private:
  static bool in_range(int64_t extent) { return extent >= 1; }

  /// The formats that some form of the kind takes there.
  template <typename Takes>
  std::vector<Format> types(const Takes& takes) const {
    const Form* own = find_form(named_);
    std::vector<Format> found;
    if (!own) return found;
    for (const FormatInfo& format : formats) {
      const bool is_taken = std::ranges::any_of(
          forms(), [&](const Form& form) { return form.name == own->name && takes(form, format.id); });
      if (is_taken) found.push_back(format.id);
    }
    return found;
  }

  /// The type that a key, the caller or the dtype of the tensor says.
  void set_type(Format& type, std::string_view name, std::string_view key, std::optional<Format> asked,
                const std::vector<Format>& legal) {
    const Tensor* tensor = file_.find(name);
    const std::string* text = file_.find_metadata(key);
    if (text || asked) {
      const std::optional<Format> said = text ? format_named(*text) : asked;
      if (said && std::ranges::find(legal, *said) != legal.end() && (!text || !asked || *asked == *said)) {
        type = *said;
        return;
      }
      check_.refuse(fmt::format("__metadata__ {}", key), text ? *text : std::string(info(*asked).name),
                    text && asked && said ? fmt::format("{}, as asked for", info(*asked).name) : names(legal));
      return;
    }
    // The dtype that is the type's own, or the one type whose raw codes it may hold.
    std::vector<Format> own, raw;
    for (const Format format : legal) {
      if (info(format).dtype == tensor->dtype) own.push_back(format);
      if (is_one_of(tensor->dtype, dtypes_of(format))) raw.push_back(format);
    }
    if (own.size() == 1 || raw.size() == 1) {
      type = own.size() == 1 ? own.front() : raw.front();
    } else {
      check_.refuse(ViolationCode::missing_type, fmt::format("__metadata__ {}", key), "(missing)", names(legal),
                    fmt::format("the dtype {} of tensor {} does not tell", tensor->dtype, name));
    }
  }

  static std::string names(const std::vector<Format>& legal) {
    std::string text;
    for (const Format format : legal) text += fmt::format("{}{}", text.empty() ? "" : ", ", info(format).name);
    return text;
  }

  const TensorFile& file_;
  const VectorFileDefaults& defaults_;
  Checker& check_;
  Instruction named_;
  ShapeAndTypes said_;
};

bool has_scale_d(const Instruction& instruction) {
  return std::ranges::any_of(immediates_of(instruction),
                             [](const ImmediateInfo& one) { return one.name == "scale_d"; });
}

/// Types that the caller gives for an instruction that says its own.
void require_same_types(const Instruction& instruction, const VectorFileDefaults& defaults, Checker& check) {
  const std::optional<Mma> mma = is_mma(instruction) ? std::optional(mma_of(instruction)) : std::nullopt;
  const auto require = [&](std::string_view key, std::optional<Format> asked, std::optional<Format> own) {
    if (!asked || asked == own) return;
    check.refuse(key, std::string(info(*asked).name),
                 own ? fmt::format("{}, the type that the instruction says", info(*own).name)
                     : fmt::format("absent: {} has no such operand", print(instruction)));
  };
  const auto own = [&](Format Mma::*type) { return mma ? std::optional((*mma).*type) : std::nullopt; };
  require("a_type", defaults.a_type, own(&Mma::a));
  require("b_type", defaults.b_type, own(&Mma::b));
  require("d_type", defaults.d_type, own(&Mma::d));
  require("sf_type", defaults.sf_type, mma && mma->scale_count > 0 ? own(&Mma::scale_type) : std::nullopt);
}

/// A file that has no tensors and keys but those of the format.
VectorFile checked(const TensorFile& all, const VectorFileDefaults& defaults) {
  VectorFile vectors{.file = known_part(all)};
  Checker check(vectors.file.path);
  read_instruction(vectors, defaults, check);
  const auto has = [&](std::string_view name) { return vectors.file.find(name) != nullptr; };
  const bool of_matrices = is_of_matrices(vectors);
  if (of_matrices) {
    vectors.instruction = DescriptorFromMatrices(vectors, defaults, check).instruction();
    check.stop_if_refused();
  }
  // A file of logical matrices alone has none of the fields. Descriptors and moves cannot do without.
  vectors.has_state = !is_mma(vectors.instruction);
  for (const ImmediateInfo& immediate : immediates_of(vectors.instruction))
    vectors.has_state |= immediate.required && !of_matrices;
  for (const FieldRule& rule : fields_of(vectors.instruction)) {
    if (of_matrices) break;
    vectors.has_state |= has(info(rule.field).name) || (!after_name(rule).empty() && has(after_name(rule)));
  }
  if (!vectors.has_state && !has("a") && !has("b")) {
    std::string seen;
    for (const Tensor& tensor : all.tensors)
      if (seen.size() < 80) seen += (seen.empty() ? "" : ", ") + shortened(tensor.name);
    check.refuse("tensors", seen.empty() ? "none" : seen,
                 "images (smem, a_desc, b_desc, c_regs, ...) or plain matrices a, b, c");
    check.stop_if_refused();
  }
  const std::vector<Instruction> instructions =
      of_matrices ? std::vector{vectors.instruction} : distinct_instructions(vectors, check);
  check.stop_if_refused();
  vectors.instruction = instructions.front();
  require_same_types(vectors.instruction, defaults, check);
  read_target(vectors, instructions, defaults, check);
  check.stop_if_refused();
  for (const Instruction& one : instructions) {
    check.add(violations_of(one, vectors.target));
    check.stop_if_refused();
  }

  const std::vector<TensorRule> rules = tensor_rules(vectors.instruction, vectors.has_state);
  vectors.cases = -1;
  for (const TensorRule& rule : rules) {
    const Tensor* tensor = vectors.file.find(rule.name);
    if (tensor && !tensor->shape.empty() && vectors.cases < 0) vectors.cases = tensor->shape[0];
    if (!tensor && rule.required) {
      const bool is_c = rule.name == "c" || rule.name == "c_regs";
      check.refuse(fmt::format("tensor {}", rule.name), "(missing)", fmt::format("required by {}", vectors.name()),
                   !is_c                              ? ""
                   : has_scale_d(vectors.instruction) ? "without C, save scale_d = 0 in the metadata"
                                                      : "without C, save zeros");
    }
  }
  if (vectors.cases == 0) check.refuse("cases", "0", "at least 1", "an empty file proves nothing");
  for (const TensorRule& rule : rules) {
    if (const Tensor* tensor = vectors.file.find(rule.name)) check_tensor(*tensor, rule, vectors, check);
  }
  check.stop_if_refused();
  // Cases of other shapes and types have the same tensors, as far as the file has them.
  for (const Instruction& one : instructions) {
    for (const TensorRule& rule : tensor_rules(one, vectors.has_state)) {
      if (const Tensor* tensor = vectors.file.find(rule.name)) check_tensor(*tensor, rule, vectors, check);
    }
    check.stop_if_refused();
  }
  return vectors;
}

/// Immediates that a whole file has are keys. As a tensor such a one would be overlooked.
void require_keys(const TensorFile& file) {
  for (const ImmediateInfo& immediate : all_immediates()) {
    const Tensor* tensor = immediate.by_case ? nullptr : file.find(immediate.name);
    if (!tensor || is_known(*tensor)) continue;
    throw Error({.field = fmt::format("{}: tensor {}", file.path, tensor->name),
                 .seen = fmt::format("{} {}", tensor->dtype, print_shape(tensor->shape)),
                 .expected = fmt::format("a metadata key {} = {}", immediate.name, immediate.legal),
                 .fix = "save it as a string, or as a whole number with numpy.savez"});
  }
}

}  // namespace

std::optional<Instruction> named_instruction(const TensorFile& file, const VectorFileDefaults& defaults) {
  const std::string* mnemonic = file.find_metadata("instruction");
  if (!mnemonic && defaults.instruction.empty()) return std::nullopt;
  return parse_instruction(mnemonic ? std::string_view(*mnemonic) : defaults.instruction);
}

void add_case_extent(TensorFile& file) {
  const auto is_plain = [&](std::string_view name) {
    const Tensor* tensor = file.find(name);
    return tensor && tensor->shape.size() == 2;
  };
  if (!is_plain("a") || !is_plain("b")) return;
  for (Tensor& tensor : file.tensors) {
    if (std::ranges::find(logical_tensor_names, std::string_view(tensor.name)) != logical_tensor_names.end() &&
        tensor.shape.size() == 2)
      tensor.shape.insert(tensor.shape.begin(), 1);
  }
}

VectorFile as_vector_file(TensorFile file, const VectorFileDefaults& defaults) {
  add_case_extent(file);
  require_keys(file);
  // Numbers are asked for case by case, and are few bytes.
  for (Tensor& tensor : file.tensors) {
    if (tensor.shape.size() == 1 && is_known(tensor)) tensor.bytes = tensor.bytes.in_memory();
  }
  VectorFile vectors = checked(file, defaults);
  vectors.file = std::move(file);
  return vectors;
}

VectorFile known_part(const VectorFile& vectors) {
  return {.file = known_part(vectors.file),
          .instruction = vectors.instruction,
          .target = vectors.target,
          .cases = vectors.cases,
          .first_case = vectors.first_case,
          .has_state = vectors.has_state};
}

namespace {

void require_case(const VectorFile& vectors, int64_t index) {
  if (index >= 0 && index < vectors.cases) return;
  throw Error({.field = fmt::format("{}case", vectors.file.path.empty() ? "" : vectors.file.path + ": "),
               .seen = std::to_string(index),
               .expected = fmt::format("0..{}", vectors.cases - 1)});
}

}  // namespace

Instruction instruction_at(const VectorFile& vectors, int64_t index) {
  require_case(vectors, index);
  Instruction instruction = vectors.instruction;
  for (const ImmediateInfo& immediate : immediates_of(vectors.instruction)) {
    const Tensor* tensor = immediate.by_case && vectors.has_state ? vectors.file.find(immediate.name) : nullptr;
    if (!tensor) continue;
    instruction = with_immediate(instruction, immediate.name, static_cast<int64_t>(number_in(slice(*tensor, index))));
  }
  return instruction;
}

State state_before_at(const VectorFile& vectors, const Instruction& instruction, int64_t index) {
  State state;
  for (const FieldRule& rule : fields_of(instruction)) {
    const Tensor* tensor = rule.access == Access::write ? nullptr : vectors.file.find(info(rule.field).name);
    if (tensor) add_to(state, rule, *tensor, index);
  }
  return state;
}

State state_after_at(const VectorFile& vectors, const Instruction& instruction, int64_t index) {
  State state;
  for (const FieldRule& rule : fields_of(instruction)) {
    const bool is_number = info(rule.field).is_number;
    const std::string_view name = is_number ? info(rule.field).name : after_name(rule);
    const Tensor* tensor = name.empty() ? nullptr : vectors.file.find(name);
    if (tensor) add_to(state, rule, *tensor, index);
  }
  return state;
}

LogicalMatrices logical_at(const VectorFile& vectors, const Instruction& instruction, int64_t index) {
  LogicalMatrices logical;
  for (const LogicalTensor& row : logical_tensors(instruction)) {
    const Tensor* tensor = vectors.file.find(row.name);
    if (!tensor) continue;
    logical.*row.member = logical_matrix(*tensor, row, index);
    require_codes(*(logical.*row.member), *tensor);
  }
  return logical;
}

Case case_at(const VectorFile& vectors, int64_t index) {
  require_case(vectors, index);
  Case one{.instruction = instruction_at(vectors, index), .target = vectors.target};
  one.logical = logical_at(vectors, one.instruction, index);
  if (!vectors.has_state) return one;
  one.before = state_before_at(vectors, one.instruction, index);
  if (vectors.has_recorded_d()) one.after = state_after_at(vectors, one.instruction, index);
  return one;
}

std::vector<std::pair<std::string, std::string>> instruction_metadata(const Instruction& instruction, Target target) {
  std::vector<std::pair<std::string, std::string>> metadata{{"format", std::string(vector_format)},
                                                            {"instruction", print(instruction)},
                                                            {"target", std::string(print(target))}};
  for (const ImmediateInfo& immediate : immediates_of(instruction)) {
    if (!immediate.by_case) {
      metadata.emplace_back(immediate.name, std::to_string(immediate_of(instruction, immediate.name)));
    }
  }
  return metadata;
}

TensorFile single_case_file(const Case& one, std::vector<std::pair<std::string, std::string>> metadata) {
  VectorBuilder builder(one.instruction, one.target);
  builder.add(one);
  return std::move(builder).finish(std::move(metadata));
}

bool wants_logical_d(const VectorFile& vectors) {
  const auto has = [&](std::string_view name) { return vectors.file.find(name) != nullptr; };
  return is_mma(vectors.instruction) && (has("d") || (has("a") && has("b")));
}

TensorFile with_results(const VectorFile& vectors, std::vector<Tensor> results, std::string source) {
  TensorFile result = vectors.file;
  for (Tensor& tensor : results) result.set(std::move(tensor));
  for (auto& [key, value] : instruction_metadata(vectors.instruction, vectors.target)) {
    result.set_metadata(key, std::move(value));
  }
  result.set_metadata("source", std::move(source));
  for (const std::string_view of_the_source : {"driver", "cuda", "date"}) result.erase_metadata(of_the_source);
  return result;
}

TensorFile with_results(const VectorFile& vectors, const std::vector<Case>& cases, std::string source) {
  const bool logical_d_too = wants_logical_d(vectors);
  VectorBuilder builder(vectors.instruction, vectors.target);
  for (const Case& one : cases) {
    Case result{.instruction = one.instruction, .target = one.target, .after = one.after};
    if (logical_d_too) result.logical.d = one.logical.d;
    builder.add(result);
  }
  TensorFile built = std::move(builder).finish({});
  // The immediates that come by case are the file's own already.
  for (const ImmediateInfo& immediate : immediates_of(vectors.instruction)) {
    if (immediate.by_case) built.erase(immediate.name);
  }
  return with_results(vectors, std::move(built.tensors), std::move(source));
}

VectorBuilder::VectorBuilder(const Instruction& instruction, Target target)
    : instruction_(instruction), target_(target) {}

VectorBuilder::Column& VectorBuilder::column(std::string_view name, std::string_view dtype,
                                             std::vector<int64_t> shape) {
  const auto found = std::ranges::find(columns_, name, &Column::name);
  if (found != columns_.end()) return *found;
  columns_.push_back({.name = std::string(name), .dtype = std::string(dtype), .shape = std::move(shape), .bytes = {}});
  return columns_.back();
}

void VectorBuilder::add_buffer(std::string_view name, const Buffer& buffer) {
  const FieldInfo& row = info(buffer.field());
  std::vector<uint8_t>& bytes =
      column(name, buffer.is_wide() ? "U64" : dtype_of(row.type), {buffer.extents().begin(), buffer.extents().end()})
          .bytes;
  if (row.is_number) {
    append_number(bytes, buffer.number(), bytes_of(row.type));
  } else if (row.type == ElementType::u8) {
    bytes.insert(bytes.end(), buffer.bytes().begin(), buffer.bytes().end());
  } else {
    const auto* first = reinterpret_cast<const uint8_t*>(buffer.words().data());
    bytes.insert(bytes.end(), first, first + buffer.words().size_bytes());
  }
}

void VectorBuilder::add_matrix(std::string_view name, const std::optional<Matrix>& matrix, const Extents& extents) {
  if (!matrix) return;
  const std::string_view dtype = info(matrix->format()).dtype;
  const int size = dtype_bytes(dtype);
  std::vector<uint8_t>& bytes = column(name, dtype, {extents.begin(), extents.end()}).bytes;
  bytes.reserve(bytes.size() + matrix->size() * static_cast<size_t>(size));
  if (matrix->is_wide()) {
    for (const uint32_t word : matrix->words()) append_number(bytes, word, 4);
    return;
  }
  for (const uint32_t code : matrix->words()) append_number(bytes, code, size);
}

void VectorBuilder::add(const Case& one) {
  for (const FieldRule& rule : fields_of(one.instruction)) {
    for (const Buffer& buffer : one.before.buffers()) {
      if (buffer.field() == rule.field && rule.access != Access::write) add_buffer(info(rule.field).name, buffer);
    }
    if (!one.after || after_name(rule).empty()) continue;
    for (const Buffer& buffer : one.after->buffers()) {
      if (buffer.field() == rule.field) add_buffer(after_name(rule), buffer);
    }
  }
  for (const ImmediateInfo& immediate : immediates_of(one.instruction)) {
    if (!immediate.by_case) continue;
    const int64_t value = immediate_of(one.instruction, immediate.name);
    const bool known = std::ranges::find(columns_, immediate.name, &Column::name) != columns_.end();
    if (!immediate.required && !known && value == immediate.usual) continue;
    std::vector<uint8_t>& bytes = column(immediate.name, dtype_of(immediate.type), {}).bytes;
    const int size = bytes_of(immediate.type);
    // Earlier cases had the usual value.
    while (static_cast<int64_t>(bytes.size()) < cases_ * size) {
      append_number(bytes, static_cast<uint64_t>(immediate.usual), size);
    }
    append_number(bytes, static_cast<uint64_t>(value), size);
  }
  for (const LogicalTensor& row : logical_tensors(one.instruction))
    add_matrix(row.name, one.logical.*row.member, row.extents());
  ++cases_;
}

TensorFile VectorBuilder::finish(std::vector<std::pair<std::string, std::string>> metadata) && {
  TensorFile file{.path = {}, .metadata = instruction_metadata(instruction_, target_), .tensors = {}};
  for (auto& [key, value] : metadata) file.set_metadata(key, std::move(value));
  // Always the same order, however the parts came.
  std::ranges::stable_sort(columns_, {}, [](const Column& one) {
    return std::ranges::find(known_tensors, std::string_view(one.name)) - known_tensors.begin();
  });
  for (Column& one : columns_) {
    one.shape.insert(one.shape.begin(), cases_);
    int64_t expected = dtype_bytes(one.dtype);
    for (const int64_t extent : one.shape) expected *= extent;
    if (expected != static_cast<int64_t>(one.bytes.size())) {
      throw Error({.field = fmt::format("tensor {}", one.name),
                   .seen = fmt::format("{} bytes for {} cases", one.bytes.size(), cases_),
                   .expected = "the same parts of the same shape in every case"});
    }
    file.tensors.push_back(
        Tensor::from_bytes(std::move(one.name), std::move(one.dtype), std::move(one.shape), std::move(one.bytes)));
  }
  return file;
}

}  // namespace bitmma
