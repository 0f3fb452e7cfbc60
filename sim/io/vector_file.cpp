#include "bitmma/io/vector_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/legality.hpp"

namespace bitmma {
namespace {

/// Immediates as metadata keys.
struct ImmediateKey {
  std::string_view key;
  int Instruction::* member;
};
constexpr auto immediate_keys = std::to_array<ImmediateKey>({
    {"imm_scale_a", &Instruction::imm_scale_a},
    {"imm_scale_b", &Instruction::imm_scale_b},
    {"imm_trans_a", &Instruction::imm_trans_a},
    {"imm_trans_b", &Instruction::imm_trans_b},
    {"scale_d", &Instruction::scale_d},
    {"sparsity_selector", &Instruction::sparsity_selector},
});

/// What one tensor of a file must look like. The first extent is the number of cases; -1 takes any positive number.
struct TensorRule {
  std::string_view name;
  std::vector<std::string_view> dtypes;
  std::vector<int64_t> shape;  // without the cases
  bool required = false;
};

/// The natural dtype first, then those that hold raw codes, for libraries that lack the natural one.
std::vector<std::string_view> logical_dtypes(Format format) {
  switch (format) {
    case Format::f16: return {"F16", "U16"};
    case Format::bf16: return {"BF16", "U16"};
    case Format::tf32:
    case Format::f32: return {"F32", "U32"};
    case Format::e4m3: return {"F8_E4M3", "U8"};
    case Format::e5m2: return {"F8_E5M2", "U8"};
    case Format::s8: return {"I8"};
    case Format::s32: return {"I32"};
    case Format::b1: return {"U8", "BOOL"};
    default: return {"U8"};
  }
}

/// Tensors of a tcgen05.mma file.
std::vector<TensorRule> tcgen05_rules(const Instruction& instruction) {
  const bool a_in_tmem = instruction.a_source == OperandSource::tmem;
  const int64_t ctas = instruction.cta_group, lanes = tmem_lanes;
  const std::vector<int64_t> image = ctas == 2 ? std::vector<int64_t>{2, -1} : std::vector<int64_t>{-1};
  return {
      {.name = "smem", .dtypes = {"U8"}, .shape = image, .required = true},
      {.name = "a_desc", .dtypes = {"U64"}, .required = !a_in_tmem},
      {.name = "b_desc", .dtypes = {"U64"}, .required = true},
      {.name = "idesc", .dtypes = {"U32"}, .required = true},
      {.name = "d_tmem", .dtypes = {"U32"}, .required = true},
      {.name = "a_tmem", .dtypes = {"U32"}, .required = a_in_tmem},
      {.name = "tmem", .dtypes = {"U32"}, .shape = {ctas, lanes, -1}, .required = true},
      {.name = "tmem_after", .dtypes = {"U32"}, .shape = {ctas, lanes, -1}},
      {.name = "enable_input_d", .dtypes = {"U8"}, .required = true},
      {.name = "disable_output_lane", .dtypes = {"U32"}, .shape = {4 * ctas}},
      {.name = "a", .dtypes = logical_dtypes(instruction.a), .shape = {instruction.m, instruction.k}},
      {.name = "b", .dtypes = logical_dtypes(instruction.b), .shape = {instruction.k, instruction.n}},
      {.name = "c", .dtypes = logical_dtypes(instruction.d), .shape = {instruction.m, instruction.n}},
      {.name = "d", .dtypes = logical_dtypes(instruction.d), .shape = {instruction.m, instruction.n}},
  };
}

std::vector<TensorRule> tensor_rules(const Instruction& instruction, bool has_images) {
  if (instruction.family == Family::tcgen05) return tcgen05_rules(instruction);
  const int64_t d_registers = d_fragment(instruction).registers();
  const bool a_in_registers = instruction.a_source == OperandSource::registers;
  const bool reads_c = instruction.scale_d == 1;
  std::vector<TensorRule> rules{
      {.name = "a", .dtypes = logical_dtypes(instruction.a), .shape = {instruction.m, instruction.k}, .required = !has_images},
      {.name = "b", .dtypes = logical_dtypes(instruction.b), .shape = {instruction.k, instruction.n}, .required = !has_images},
      {.name = "c", .dtypes = logical_dtypes(instruction.d), .shape = {instruction.m, instruction.n}, .required = !has_images && reads_c},
      {.name = "d", .dtypes = logical_dtypes(instruction.d), .shape = {instruction.m, instruction.n}},
  };
  if (!has_images) return rules;
  rules.push_back({.name = "smem", .dtypes = {"U8"}, .shape = {-1}, .required = true});
  rules.push_back({.name = "b_desc", .dtypes = {"U64"}, .required = true});
  rules.push_back({.name = "a_desc", .dtypes = {"U64"}, .required = !a_in_registers});
  rules.push_back({.name = "a_regs", .dtypes = {"U32"}, .shape = {128, 4}, .required = a_in_registers});
  rules.push_back({.name = "metadata", .dtypes = {"U32"}, .shape = {128}, .required = instruction.sparse});
  rules.push_back({.name = "c_regs", .dtypes = {"U32"}, .shape = {128, d_registers}, .required = reads_c});
  rules.push_back({.name = "d_regs", .dtypes = {"U32"}, .shape = {128, d_registers}});
  return rules;
}

class Checker {
 public:
  explicit Checker(std::string path) : path_(std::move(path)) {}

  void refuse(std::string_view field, std::string seen, std::string legal, std::string fix = {}) {
    violations_.push_back({.field = fmt::format("{}: {}", path_, field), .seen = std::move(seen), .legal = std::move(legal),
                           .fix = std::move(fix), .source = fmt::format("format {}", vector_format)});
  }
  void add(std::vector<Violation> violations) {
    for (Violation& violation : violations) {
      violation.field = fmt::format("{}: {}", path_, violation.field);
      violations_.push_back(std::move(violation));
    }
  }
  void stop_if_refused() {
    if (!violations_.empty()) throw Error(std::move(violations_));
  }

 private:
  std::string path_;
  std::vector<Violation> violations_;
};

/// Elements of case `index`, as bytes.
std::span<const uint8_t> slice(const Tensor& tensor, int64_t index) {
  const size_t size = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  return tensor.bytes.subspan(size * static_cast<size_t>(index), size);
}

template <typename Word>
std::vector<Word> words(std::span<const uint8_t> bytes) {
  std::vector<Word> result(bytes.size() / sizeof(Word));
  for (size_t i = 0; i < result.size(); ++i) {
    for (size_t byte = 0; byte < sizeof(Word); ++byte) result[i] |= Word{bytes[i * sizeof(Word) + byte]} << 8 * byte;
  }
  return result;
}

template <typename Word>
void append(std::vector<uint8_t>& bytes, Word word, int size = sizeof(Word)) {
  for (int byte = 0; byte < size; ++byte) bytes.push_back(static_cast<uint8_t>(word >> 8 * byte));
}

void append(std::vector<uint8_t>& bytes, std::span<const uint32_t> values) {
  for (const uint32_t value : values) append(bytes, value);
}

void append(std::vector<uint8_t>& bytes, const BitMatrix& matrix) {
  const int size = dtype_bytes(natural_dtype(matrix.format));
  for (int row = 0; row < matrix.rows(); ++row) {
    for (int col = 0; col < matrix.cols(); ++col) append(bytes, matrix(row, col), size);
  }
}

BitMatrix logical_matrix(const VectorFile& vectors, std::string_view name, Format format, int rows, int cols,
                         int64_t index) {
  const Tensor& tensor = *vectors.file.find(name);
  const std::span<const uint8_t> bytes = slice(tensor, index);
  const int size = dtype_bytes(tensor.dtype);
  BitMatrix matrix(format, rows, cols);
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      uint32_t code = 0;
      const size_t at = (static_cast<size_t>(row) * cols + col) * size;
      for (int byte = 0; byte < size; ++byte) code |= uint32_t{bytes[at + byte]} << 8 * byte;
      matrix(row, col) = format == Format::b1 ? code != 0 : code;
    }
  }
  return matrix;
}

Instruction read_instruction(const TensorFile& file, std::string_view stand_in, Checker& check) {
  const std::string* format = file.find_metadata("format");
  if (!format) {
    check.refuse("__metadata__ format", "(missing)", std::string(vector_format), "save the file with this metadata key");
  } else if (*format != vector_format) {
    check.refuse("__metadata__ format", *format, std::string(vector_format));
  }
  const std::string* mnemonic = file.find_metadata("instruction");
  if (!mnemonic && stand_in.empty()) {
    check.refuse("__metadata__ instruction", "(missing)", "a PTX mnemonic", "save the key, or give --instruction");
  }
  check.stop_if_refused();
  Instruction instruction;
  try {
    instruction = parse_instruction(mnemonic ? std::string_view(*mnemonic) : stand_in);
  } catch (const Error& error) {
    check.add(error.violations());
  }
  for (const ImmediateKey& immediate : immediate_keys) {
    const std::string* text = file.find_metadata(immediate.key);
    if (!text || instruction.family == Family::tcgen05) continue;  // tcgen05 says all this in its descriptor
    int& value = instruction.*immediate.member;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc{} || end != text->data() + text->size()) {
      check.refuse(fmt::format("__metadata__ {}", immediate.key), *text, "a whole number");
    }
  }
  check.stop_if_refused();
  return instruction;
}

void check_tensor(const Tensor& tensor, const TensorRule& rule, int64_t cases, Checker& check) {
  if (std::find(rule.dtypes.begin(), rule.dtypes.end(), tensor.dtype) == rule.dtypes.end()) {
    check.refuse(fmt::format("tensor {} dtype", rule.name), tensor.dtype, std::string(rule.dtypes.front()));
  }
  std::vector<int64_t> expected{cases};
  expected.insert(expected.end(), rule.shape.begin(), rule.shape.end());
  const bool any_last = expected.back() == -1;
  const bool same = tensor.shape.size() == expected.size() &&
                    std::equal(expected.begin(), expected.end() - any_last, tensor.shape.begin());
  if (!same) {
    std::string legal = print_shape(expected);
    if (any_last) legal = fmt::format("{}...]", legal.substr(0, legal.size() - 3));
    check.refuse(fmt::format("tensor {} shape", rule.name), print_shape(tensor.shape), legal,
                 "the first extent is the number of cases");
  }
}

/// Every case's descriptor must be legal; the first stands for the file. What this version does not simulate is refused.
void read_tcgen05_descriptors(VectorFile& vectors, Checker& check) {
  if (vectors.file.find("a_tmem")) vectors.instruction.a_source = OperandSource::tmem;
  if (vectors.file.find("a_tmem") && vectors.file.find("a_desc")) {
    check.refuse("tensors", "both a_tmem and a_desc", "one of them: A is in Tensor Memory or in shared memory");
  }
  for (const std::string_view name : {"scale_input_d", "zero_column_mask"}) {
    const Tensor* tensor = vectors.file.find(name);
    if (tensor && std::any_of(tensor->bytes.begin(), tensor->bytes.end(), [](uint8_t byte) { return byte != 0; })) {
      check.refuse(fmt::format("tensor {}", name), "not zero", "absent or all zero", "this version does not simulate it");
    }
  }
  const Tensor* idesc = vectors.file.find("idesc");
  if (!idesc || idesc->dtype != "U32" || idesc->shape.size() != 1 || idesc->shape[0] < 1) {
    check.refuse("tensor idesc", idesc ? fmt::format("{} {}", idesc->dtype, print_shape(idesc->shape)) : "(missing)", "U32 [cases], at least one",
                 "the instruction descriptor says shape and types");
    return;
  }
  const std::vector<uint32_t> descriptors = words<uint32_t>(idesc->bytes);
  for (size_t i = descriptors.size(); i-- > 0;) {
    if (i > 0 && descriptors[i] == descriptors[0]) continue;
    try {
      const Instruction one = with_idesc(vectors.instruction, descriptors[i]);
      check.add(violations_of(one));
      if (i == 0) vectors.instruction = one;
    } catch (const Error& error) {
      check.add(error.violations());
    }
  }
}

}  // namespace

std::string VectorFile::source() const {
  const std::string* source = file.find_metadata("source");
  return source ? *source : "unknown";
}

std::string_view natural_dtype(Format format) { return logical_dtypes(format).front(); }

VectorFile read_vector_file(const std::string& path, std::string_view instruction) {
  VectorFile vectors{.file = read_tensor_file(path)};
  Checker check(path);
  vectors.instruction = read_instruction(vectors.file, instruction, check);
  const auto has = [&](std::string_view name) { return vectors.file.find(name) != nullptr; };
  constexpr std::array image_tensors{"smem", "a_desc", "b_desc", "a_regs", "metadata", "c_regs", "d_regs"};
  vectors.has_images = vectors.is_tcgen05() || std::any_of(image_tensors.begin(), image_tensors.end(), has);
  if (!vectors.has_images && !has("a") && !has("b")) {
    check.refuse("tensors", "neither images nor logical matrices", "smem, a_desc, b_desc, c_regs, or a, b, c");
    check.stop_if_refused();
  }
  if (has("a_regs") && has("a_desc")) {
    check.refuse("tensors", "both a_regs and a_desc", "one of them: A is in registers or in shared memory");
  }
  if (has("a_regs")) vectors.instruction.a_source = OperandSource::registers;
  if (vectors.is_tcgen05()) {
    read_tcgen05_descriptors(vectors, check);
  } else {
    check.add(violations_of(vectors.instruction));
  }
  check.stop_if_refused();

  const std::vector<TensorRule> rules = tensor_rules(vectors.instruction, vectors.has_images);
  vectors.cases = -1;
  for (const TensorRule& rule : rules) {
    const Tensor* tensor = vectors.file.find(rule.name);
    if (tensor && !tensor->shape.empty() && vectors.cases < 0) vectors.cases = tensor->shape[0];
    if (!tensor && rule.required) {
      check.refuse(fmt::format("tensor {}", rule.name), "(missing)", fmt::format("required by {}", print(vectors.instruction)),
                   rule.name == "c" || rule.name == "c_regs" ? "without C, save scale_d = 0 in the metadata" : "");
    }
  }
  if (vectors.cases == 0) check.refuse("cases", "0", "at least 1", "an empty file proves nothing");
  for (const TensorRule& rule : rules) {
    if (const Tensor* tensor = vectors.file.find(rule.name)) check_tensor(*tensor, rule, vectors.cases, check);
  }
  check.stop_if_refused();
  return vectors;
}

VectorCase case_at(const VectorFile& vectors, int64_t index) {
  VectorCase result;
  const auto bytes = [&](std::string_view name) {
    const Tensor* tensor = vectors.file.find(name);
    return tensor ? slice(*tensor, index) : std::span<const uint8_t>{};
  };
  result.smem = bytes("smem");
  result.registers.b_desc = words<uint64_t>(bytes("b_desc")).front();
  if (vectors.instruction.a_source == OperandSource::smem) {
    result.registers.a_desc = words<uint64_t>(bytes("a_desc")).front();
  }
  result.registers.a_regs = words<uint32_t>(bytes("a_regs"));
  result.registers.metadata = words<uint32_t>(bytes("metadata"));
  result.registers.c_regs = words<uint32_t>(bytes("c_regs"));
  return result;
}

Tcgen05Case tcgen05_case_at(const VectorFile& vectors, int64_t index) {
  Tcgen05Case result;
  const auto bytes = [&](std::string_view name) {
    const Tensor* tensor = vectors.file.find(name);
    return tensor ? slice(*tensor, index) : std::span<const uint8_t>{};
  };
  const auto word = [&](std::string_view name) {
    const auto found = words<uint32_t>(bytes(name));
    return found.empty() ? 0 : found.front();
  };
  result.instruction = with_idesc(vectors.instruction, word("idesc"));
  result.instruction.scale_d = bytes("enable_input_d").front() != 0;
  const std::span<const uint8_t> images = bytes("smem");
  const size_t image_bytes = images.size() / static_cast<size_t>(vectors.instruction.cta_group);
  for (int cta = 0; cta < vectors.instruction.cta_group; ++cta) result.smem[static_cast<size_t>(cta)] = images.subspan(image_bytes * static_cast<size_t>(cta), image_bytes);
  Tcgen05State& state = result.state;
  if (vectors.instruction.a_source == OperandSource::smem) state.a_desc = words<uint64_t>(bytes("a_desc")).front();
  state.b_desc = words<uint64_t>(bytes("b_desc")).front();
  state.d_tmem = word("d_tmem");
  state.a_tmem = word("a_tmem");
  state.tmem = words<uint32_t>(bytes("tmem"));
  state.columns = static_cast<int>(vectors.file.find("tmem")->shape[3]);
  const std::vector<uint32_t> lanes = words<uint32_t>(bytes("disable_output_lane"));
  std::copy(lanes.begin(), lanes.end(), state.disable_output_lane.begin());
  return result;
}

std::vector<Violation> warnings_at(const VectorFile& vectors, int64_t index) {
  if (!vectors.has_images) return {};
  if (!vectors.is_tcgen05()) return warnings(vectors.instruction, case_at(vectors, index).view());
  const Tcgen05Case one = tcgen05_case_at(vectors, index);
  return warnings(one.instruction, one.view());
}

Operands logical_operands(const VectorFile& vectors, int64_t index) {
  const Instruction& instruction = vectors.instruction;
  Operands operands{.a = {},
                    .b = logical_matrix(vectors, "b", instruction.b, instruction.k, instruction.n, index),
                    .c = std::nullopt,
                    .selected_k = {},
                    .negate_a = instruction.imm_scale_a == -1,
                    .negate_b = instruction.imm_scale_b == -1,
                    .saturate = instruction.satfinite};
  compress_a(instruction, logical_matrix(vectors, "a", instruction.a, instruction.m, instruction.k, index), operands);
  if (instruction.scale_d == 1) {
    operands.c = logical_matrix(vectors, "c", instruction.d, instruction.m, instruction.n, index);
  }
  return operands;
}

BitMatrix recorded_d(const VectorFile& vectors, int64_t index) {
  const Instruction& instruction = vectors.instruction;
  if (!vectors.has_images) return logical_matrix(vectors, "d", instruction.d, instruction.m, instruction.n, index);
  if (vectors.is_tcgen05()) {
    const Tcgen05Case one = tcgen05_case_at(vectors, index);
    const Tensor& after = *vectors.file.find("tmem_after");
    return gather_d(one.instruction, one.state.d_tmem, words<uint32_t>(slice(after, index)), static_cast<int>(after.shape[3]));
  }
  return gather(words<uint32_t>(slice(*vectors.file.find("d_regs"), index)), d_fragment(instruction), instruction.d, "d_regs");
}

BitMatrix computed_d(const VectorFile& vectors, int64_t index, const AccumulatorModel* model) {
  if (vectors.is_tcgen05()) {
    // What Tensor Memory holds afterwards: lanes that are disabled keep what they had.
    const Tcgen05Case one = tcgen05_case_at(vectors, index);
    return gather_d(one.instruction, one.state.d_tmem, simulate(one.instruction, one.view(), model), one.state.columns);
  }
  if (vectors.has_images) return simulate_d(vectors.instruction, case_at(vectors, index).view(), model);
  return multiply_accumulate(model ? *model : model_for(vectors.instruction), logical_operands(vectors, index));
}

std::vector<std::pair<std::string, std::string>> instruction_metadata(const Instruction& instruction) {
  std::vector<std::pair<std::string, std::string>> metadata{{"format", std::string(vector_format)},
                                                            {"instruction", print(instruction)}};
  for (const ImmediateKey& immediate : immediate_keys) {
    if (instruction.family == Family::tcgen05) break;
    if (immediate.key == "sparsity_selector" && !instruction.sparse) continue;
    metadata.emplace_back(immediate.key, std::to_string(instruction.*immediate.member));
  }
  return metadata;
}

TensorFile single_case_file(const Instruction& instruction, const MachineState& state, const BitMatrix& d,
                            std::vector<std::pair<std::string, std::string>> metadata) {
  VectorBuilder builder(instruction);
  builder.begin_case();
  builder.add_machine(state);
  builder.add_d_regs(d);
  return std::move(builder).finish(std::move(metadata));
}

bool wants_logical_d(const VectorFile& vectors) {
  const auto has = [&](std::string_view name) { return vectors.file.find(name) != nullptr; };
  return has("d") || (has("a") && has("b"));
}

TensorFile with_d(const VectorFile& vectors, std::span<const BitMatrix> d, std::string source) {
  const bool logical_d_too = wants_logical_d(vectors);
  VectorBuilder builder(vectors.instruction);
  for (const BitMatrix& one : d) {
    builder.begin_case();
    builder.add_d_regs(one);
    if (logical_d_too) builder.add_logical_d(one);
  }
  return with_results(vectors, std::move(builder).finish({}).tensors, std::move(source));
}

TensorFile with_results(const VectorFile& vectors, std::vector<Tensor> results, std::string source) {
  TensorFile result = vectors.file;
  for (Tensor& tensor : results) result.set(std::move(tensor));
  for (auto& [key, value] : instruction_metadata(vectors.instruction)) result.set_metadata(key, std::move(value));
  result.set_metadata("source", std::move(source));
  for (const std::string_view of_the_source : {"driver", "cuda", "date"}) result.erase_metadata(of_the_source);
  return result;
}

void VectorBuilder::add_machine(const MachineState& state) {
  smem_.insert(smem_.end(), state.smem.begin(), state.smem.end());
  if (instruction_.a_source == OperandSource::smem) append(a_desc_, state.a_desc);
  append(b_desc_, state.b_desc);
  append(a_regs_, std::span<const uint32_t>(state.a_regs));
  append(metadata_, std::span<const uint32_t>(state.metadata));
  append(c_regs_, std::span<const uint32_t>(state.c_regs));
}

void VectorBuilder::add_machine(const Tcgen05State& state) {
  for (int cta = 0; cta < instruction_.cta_group; ++cta) {
    const std::vector<uint8_t>& image = state.smem[static_cast<size_t>(cta)];
    smem_.insert(smem_.end(), image.begin(), image.end());
  }
  if (instruction_.a_source == OperandSource::smem) append(a_desc_, state.a_desc);
  else append(a_tmem_, state.a_tmem);
  append(b_desc_, state.b_desc);
  append(idesc_, idesc_of(instruction_));
  append(d_tmem_, state.d_tmem);
  append(tmem_, std::span<const uint32_t>(state.tmem));
  columns_ = state.columns;
  enable_input_d_.push_back(instruction_.scale_d == 1);
  append(disable_output_lane_, std::span<const uint32_t>(state.disable_output_lane).first(static_cast<size_t>(4 * instruction_.cta_group)));
}

void VectorBuilder::add_tmem_after(std::span<const uint32_t> tmem, int columns) {
  append(tmem_after_, tmem);
  columns_ = columns;
}

void VectorBuilder::add_logical(const Operands& operands) {
  append(a_, logical_a(instruction_, operands));
  append(b_, operands.b);
  if (operands.c) append(c_, *operands.c);
}

void VectorBuilder::add_d_regs(const BitMatrix& d) {
  std::vector<uint32_t> d_regs(d_fragment(instruction_).words());
  scatter(d, d_fragment(instruction_), d_regs, "d_regs");
  append(d_regs_, std::span<const uint32_t>(d_regs));
}

void VectorBuilder::add_logical_d(const BitMatrix& d) { append(d_, d); }

TensorFile VectorBuilder::finish(std::vector<std::pair<std::string, std::string>> metadata) && {
  TensorFile file{.path = {}, .metadata = instruction_metadata(instruction_), .tensors = {}};
  for (auto& [key, value] : metadata) file.set_metadata(key, std::move(value));
  const auto add_tensor = [&](std::string_view name, std::string_view dtype, std::vector<int64_t> shape, std::vector<uint8_t>& data) {
    if (data.empty()) return;
    shape.insert(shape.begin(), cases_);
    file.tensors.push_back(Tensor::from_bytes(std::string(name), std::string(dtype), std::move(shape), std::move(data)));
  };
  const int64_t d_registers = d_fragment(instruction_).registers();
  const int64_t m = instruction_.m, n = instruction_.n, k = instruction_.k, ctas = instruction_.cta_group;
  const int64_t image_bytes = static_cast<int64_t>(smem_.size()) / std::max<int64_t>(cases_, 1) / ctas;
  add_tensor("smem", "U8", ctas == 2 ? std::vector<int64_t>{2, image_bytes} : std::vector<int64_t>{image_bytes}, smem_);
  add_tensor("idesc", "U32", {}, idesc_);
  add_tensor("d_tmem", "U32", {}, d_tmem_);
  add_tensor("a_tmem", "U32", {}, a_tmem_);
  add_tensor("tmem", "U32", {ctas, tmem_lanes, columns_}, tmem_);
  add_tensor("tmem_after", "U32", {ctas, tmem_lanes, columns_}, tmem_after_);
  add_tensor("enable_input_d", "U8", {}, enable_input_d_);
  add_tensor("disable_output_lane", "U32", {4 * ctas}, disable_output_lane_);
  add_tensor("a_desc", "U64", {}, a_desc_);
  add_tensor("b_desc", "U64", {}, b_desc_);
  add_tensor("a_regs", "U32", {128, 4}, a_regs_);
  add_tensor("metadata", "U32", {128}, metadata_);
  add_tensor("c_regs", "U32", {128, d_registers}, c_regs_);
  add_tensor("d_regs", "U32", {128, d_registers}, d_regs_);
  add_tensor("a", natural_dtype(instruction_.a), {m, k}, a_);
  add_tensor("b", natural_dtype(instruction_.b), {k, n}, b_);
  add_tensor("c", natural_dtype(instruction_.d), {m, n}, c_);
  add_tensor("d", natural_dtype(instruction_.d), {m, n}, d_);
  return file;
}

}  // namespace bitmma
