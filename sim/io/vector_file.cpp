#include "bitmma/io/vector_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/legality.hpp"

namespace bitmma {
namespace {

/// Immediates as metadata keys.
struct ImmediateKey {
  std::string_view key;
  int Instruction::*member;
  bool of_mma_sync = false;  // it alone has it; the others are wgmma's
};
constexpr auto immediate_keys = std::to_array<ImmediateKey>({
    {"imm_scale_a", &Instruction::imm_scale_a},
    {"imm_scale_b", &Instruction::imm_scale_b},
    {"imm_trans_a", &Instruction::imm_trans_a},
    {"imm_trans_b", &Instruction::imm_trans_b},
    {"scale_d", &Instruction::scale_d},
    {"sparsity_selector", &Instruction::sparsity_selector},
    {"byte_id_a", &Instruction::scale_a_id, true},
    {"thread_id_a", &Instruction::thread_a_id, true},
    {"byte_id_b", &Instruction::scale_b_id, true},
    {"thread_id_b", &Instruction::thread_b_id, true},
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
    case Format::f16:
      return {"F16", "U16"};
    case Format::bf16:
      return {"BF16", "U16"};
    case Format::tf32:
    case Format::f32:
      return {"F32", "U32"};
    case Format::e4m3:
      return {"F8_E4M3", "U8"};
    case Format::e5m2:
      return {"F8_E5M2", "U8"};
    case Format::s8:
      return {"I8"};
    case Format::s32:
      return {"I32"};
    case Format::b1:
      return {"U8", "BOOL"};
    default:
      return {"U8"};
  }
}

/// Tensor Memory addresses of tcgen05.mma as tensors, and which forms have them.
struct AddressTensor {
  std::string_view name;
  uint32_t Tcgen05Registers::*member;
  bool (*needed)(const Instruction&);
};
constexpr auto address_tensors = std::to_array<AddressTensor>({
    {"d_tmem", &Tcgen05Registers::d_tmem, [](const Instruction&) { return true; }},
    {"a_tmem", &Tcgen05Registers::a_tmem, [](const Instruction& i) { return i.a_source == OperandSource::tmem; }},
    {"metadata_tmem", &Tcgen05Registers::metadata_tmem, [](const Instruction& i) { return i.sparse; }},
    {"scale_a_tmem", &Tcgen05Registers::scale_a_tmem, [](const Instruction& i) { return i.has_block_scales(); }},
    {"scale_b_tmem", &Tcgen05Registers::scale_b_tmem, [](const Instruction& i) { return i.has_block_scales(); }},
});

std::vector<int64_t> image_shape(int ctas, int64_t bytes) {
  return ctas == 2 ? std::vector<int64_t>{2, bytes} : std::vector<int64_t>{bytes};
}

/// Tensors of a tcgen05.mma file.
std::vector<TensorRule> tcgen05_rules(const Instruction& instruction) {
  const bool a_in_tmem = instruction.a_source == OperandSource::tmem;
  const int64_t ctas = instruction.cta_group, lanes = tmem_lanes, scales = instruction.scale_count();
  std::vector<TensorRule> rules{
      {.name = "smem", .dtypes = {"U8"}, .shape = image_shape(instruction.cta_group, -1), .required = true},
      {.name = "a_desc", .dtypes = {"U64"}, .required = !a_in_tmem},
      {.name = "b_desc", .dtypes = {"U64"}, .required = true},
      {.name = "idesc", .dtypes = {"U32"}, .required = true},
      {.name = "tmem", .dtypes = {"U32"}, .shape = {ctas, lanes, -1}, .required = true},
      {.name = "tmem_after", .dtypes = {"U32"}, .shape = {ctas, lanes, -1}},
      {.name = "enable_input_d", .dtypes = {"U8"}, .required = true},
      {.name = "scale_input_d", .dtypes = {"U8"}},
      {.name = "disable_output_lane", .dtypes = {"U32"}, .shape = {4 * ctas}},
      {.name = "zero_column_mask", .dtypes = {"U64"}},
      {.name = "a", .dtypes = logical_dtypes(instruction.a), .shape = {instruction.m, instruction.k}},
      {.name = "b", .dtypes = logical_dtypes(instruction.b), .shape = {instruction.k, instruction.n}},
      {.name = "c", .dtypes = logical_dtypes(instruction.d), .shape = {instruction.m, instruction.n}},
      {.name = "d", .dtypes = logical_dtypes(instruction.d), .shape = {instruction.m, instruction.n}},
  };
  for (const AddressTensor& row : address_tensors)
    rules.push_back({.name = row.name, .dtypes = {"U32"}, .required = row.needed(instruction)});
  if (scales > 0) {
    rules.push_back({.name = "sfa", .dtypes = {"U8"}, .shape = {instruction.m, scales}});
    rules.push_back({.name = "sfb", .dtypes = {"U8"}, .shape = {scales, instruction.n}});
  }
  return rules;
}

/// Tensors of a file of tcgen05.ld, .st, .cp or .shift.
std::vector<TensorRule> move_rules(const TmemMove& move) {
  const int64_t ctas = move.cta_group, lanes = tmem_lanes, registers = move.ldst.registers();
  const bool is_cp = move.kind == MoveKind::cp, is_ld = move.kind == MoveKind::ld;
  std::vector<TensorRule> rules{
      {.name = "taddr", .dtypes = {"U32"}, .required = true},
      {.name = "tmem", .dtypes = {"U32"}, .shape = {ctas, lanes, -1}, .required = true},
  };
  if (is_cp) {
    rules.push_back({.name = "s_desc", .dtypes = {"U64"}, .required = true});
    rules.push_back({.name = "smem", .dtypes = {"U8"}, .shape = image_shape(move.cta_group, -1), .required = true});
  }
  if (move.has_registers()) rules.push_back({.name = "warp", .dtypes = {"U8"}, .required = true});
  if (move.kind == MoveKind::st)
    rules.push_back({.name = "regs", .dtypes = {"U32"}, .shape = {32, registers}, .required = true});
  if (is_ld)
    rules.push_back({.name = "d_regs", .dtypes = {"U32"}, .shape = {32, registers}});
  else
    rules.push_back({.name = "tmem_after", .dtypes = {"U32"}, .shape = {ctas, lanes, -1}});
  return rules;
}

std::vector<TensorRule> tensor_rules(const Instruction& instruction, bool has_images) {
  if (instruction.family == Family::tcgen05) return tcgen05_rules(instruction);
  const int64_t d_registers = d_fragment(instruction).registers();
  const bool a_in_registers = instruction.a_source == OperandSource::registers;
  const bool reads_c = instruction.scale_d == 1;
  std::vector<TensorRule> rules{
      {.name = "a",
       .dtypes = logical_dtypes(instruction.a),
       .shape = {instruction.m, instruction.k},
       .required = !has_images},
      {.name = "b",
       .dtypes = logical_dtypes(instruction.b),
       .shape = {instruction.k, instruction.n},
       .required = !has_images},
      {.name = "c",
       .dtypes = logical_dtypes(instruction.d),
       .shape = {instruction.m, instruction.n},
       .required = !has_images && reads_c},
      {.name = "d", .dtypes = logical_dtypes(instruction.d), .shape = {instruction.m, instruction.n}},
  };
  if (const int64_t scales = instruction.scale_count(); scales > 0) {
    rules.push_back({.name = "sfa", .dtypes = {"U8"}, .shape = {instruction.m, scales}, .required = !has_images});
    rules.push_back({.name = "sfb", .dtypes = {"U8"}, .shape = {scales, instruction.n}, .required = !has_images});
  }
  if (!has_images) return rules;
  if (instruction.family == Family::mma_sync) {
    rules.push_back(
        {.name = "a_regs", .dtypes = {"U32"}, .shape = {32, a_fragment(instruction).registers()}, .required = true});
    rules.push_back(
        {.name = "b_regs", .dtypes = {"U32"}, .shape = {32, b_fragment(instruction).registers()}, .required = true});
    rules.push_back({.name = "c_regs", .dtypes = {"U32"}, .shape = {32, d_registers}, .required = true});
    rules.push_back({.name = "d_regs", .dtypes = {"U32"}, .shape = {32, d_registers}});
    rules.push_back({.name = "scale_a", .dtypes = {"U32"}, .shape = {32, 1}, .required = true});
    rules.push_back({.name = "scale_b", .dtypes = {"U32"}, .shape = {32, 1}, .required = true});
    rules.push_back({.name = "metadata", .dtypes = {"U32"}, .shape = {32, 1}, .required = instruction.sparse});
    return rules;
  }
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
    violations_.push_back({.field = fmt::format("{}: {}", path_, field),
                           .seen = std::move(seen),
                           .legal = std::move(legal),
                           .fix = std::move(fix),
                           .source = fmt::format("format {}", vector_format)});
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

BitMatrix logical_matrix(const VectorFile& vectors, std::string_view name, Format format, int rows, int cols,
                         int64_t index) {
  const Tensor& tensor = *vectors.file.find(name);
  const std::span<const uint8_t> bytes = slice(tensor, index);
  BitMatrix matrix = BitMatrix::unfilled(format, rows, cols);
  uint32_t* const codes = matrix.bits.data();
  const auto read = [&]<typename Word>(Word) {
    for (size_t i = 0; i < static_cast<size_t>(rows) * cols; ++i) {
      Word word;
      std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
      codes[i] = format == Format::b1 ? word != 0 : word;
    }
  };
  static_assert(std::endian::native == std::endian::little);
  switch (dtype_bytes(tensor.dtype)) {
    case 1:
      read(uint8_t{});
      break;
    case 2:
      read(uint16_t{});
      break;
    case 4:
      read(uint32_t{});
      break;
    default:
      throw Error(
          {.field = fmt::format("tensor {}", name), .seen = tensor.dtype, .legal = "elements of 1, 2 or 4 bytes"});
  }
  return matrix;
}

/// The mnemonic and its immediates: an instruction, or a move.
void read_mnemonic(VectorFile& vectors, std::string_view stand_in, Checker& check) {
  const TensorFile& file = vectors.file;
  Instruction& instruction = vectors.instruction;
  const std::string* format = file.find_metadata("format");
  if (!format) {
    check.refuse("__metadata__ format", "(missing)", std::string(vector_format),
                 "save the file with this metadata key");
  } else if (*format != vector_format) {
    check.refuse("__metadata__ format", *format, std::string(vector_format));
  }
  const std::string* mnemonic = file.find_metadata("instruction");
  if (!mnemonic && stand_in.empty()) {
    check.refuse("__metadata__ instruction", "(missing)", "a PTX mnemonic", "save the key, or give --instruction");
  }
  check.stop_if_refused();
  const std::string_view text = mnemonic ? std::string_view(*mnemonic) : stand_in;
  const auto read_number = [&](std::string_view key, auto& value) {
    const std::string* number = file.find_metadata(key);
    if (!number) return;
    const auto [end, error] = std::from_chars(number->data(), number->data() + number->size(), value);
    if (error != std::errc{} || end != number->data() + number->size())
      check.refuse(fmt::format("__metadata__ {}", key), *number, "a whole number");
  };
  try {
    if (is_tmem_move(text)) {
      vectors.move = parse_tmem_move(text);
      read_number("half_split_offset", vectors.move->half_split_offset);
    } else {
      instruction = parse_instruction(text);
    }
  } catch (const Error& error) {
    check.add(error.violations());
  }
  for (const ImmediateKey& immediate : immediate_keys) {
    if (vectors.move || instruction.family == Family::tcgen05) break;  // tcgen05 says all this in its descriptor
    if (immediate.of_mma_sync && instruction.family != Family::mma_sync) continue;
    read_number(immediate.key, instruction.*immediate.member);
  }
  check.stop_if_refused();
}

void check_tensor(const Tensor& tensor, const TensorRule& rule, int64_t cases, Checker& check) {
  if (std::find(rule.dtypes.begin(), rule.dtypes.end(), tensor.dtype) == rule.dtypes.end()) {
    check.refuse(fmt::format("tensor {} dtype", rule.name), tensor.dtype, std::string(rule.dtypes.front()));
  }
  std::vector<int64_t> expected{cases};
  expected.insert(expected.end(), rule.shape.begin(), rule.shape.end());
  const bool any_last = expected.back() == -1;
  // A last extent of 1 may be left out.
  const bool without_one = expected.back() == 1 && expected.size() > 2 && tensor.shape.size() + 1 == expected.size();
  const bool same = (tensor.shape.size() == expected.size() || without_one) &&
                    std::equal(expected.begin(), expected.end() - (any_last || without_one), tensor.shape.begin());
  if (!same) {
    std::string legal = print_shape(expected);
    if (any_last) legal = fmt::format("{}...]", legal.substr(0, legal.size() - 3));
    check.refuse(fmt::format("tensor {} shape", rule.name), print_shape(tensor.shape), legal,
                 "the first extent is the number of cases");
  }
}

/// Values of a tensor with one element a case, when it is such a tensor; check_tensor says so when it is not.
template <typename Word>
std::vector<Word> per_case(const TensorFile& file, std::string_view name, std::string_view dtype) {
  const Tensor* tensor = file.find(name);
  return tensor && tensor->dtype == dtype && tensor->shape.size() == 1 ? words<Word>(tensor->bytes)
                                                                       : std::vector<Word>{};
}

/// Every case's descriptor and immediates must be legal; the first case's stand for the file.
void read_tcgen05_descriptors(VectorFile& vectors, Checker& check) {
  if (vectors.file.find("a_tmem")) vectors.instruction.a_source = OperandSource::tmem;
  if (vectors.file.find("a_tmem") && vectors.file.find("a_desc")) {
    check.refuse("tensors", "both a_tmem and a_desc", "one of them: A is in Tensor Memory or in shared memory");
  }
  const Tensor* idesc = vectors.file.find("idesc");
  if (!idesc || idesc->dtype != "U32" || idesc->shape.size() != 1 || idesc->shape[0] < 1) {
    check.refuse("tensor idesc", idesc ? fmt::format("{} {}", idesc->dtype, print_shape(idesc->shape)) : "(missing)",
                 "U32 [cases], at least one", "the instruction descriptor says shape and types");
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
  // Immediates that differ from case to case: all values are checked, each once.
  std::vector<uint8_t> scale_input_d = per_case<uint8_t>(vectors.file, "scale_input_d", "U8");
  std::ranges::sort(scale_input_d);
  scale_input_d.erase(std::ranges::unique(scale_input_d).begin(), scale_input_d.end());
  for (const uint8_t scale : scale_input_d) {
    Instruction one = vectors.instruction;
    one.scale_input_d = scale;
    if (scale != 0) check.add(violations_of(one));
  }
  for (const uint64_t mask : per_case<uint64_t>(vectors.file, "zero_column_mask", "U64")) {
    if (mask == 0 || vectors.instruction.weight_stationary) continue;
    check.refuse("tensor zero_column_mask", fmt::format("{:#018x}", mask), "absent or 0 without .ws");
    break;
  }
}

}  // namespace

std::string VectorFile::source() const {
  const std::string* source = file.find_metadata("source");
  return source ? *source : "unknown";
}

std::string_view natural_dtype(Format format) { return logical_dtypes(format).front(); }

namespace {

/// Every tensor of the format, in the order in which files are made.
constexpr std::array<std::string_view, 32> known_tensors{"smem",
                                                         "idesc",
                                                         "d_tmem",
                                                         "a_tmem",
                                                         "metadata_tmem",
                                                         "scale_a_tmem",
                                                         "scale_b_tmem",
                                                         "taddr",
                                                         "warp",
                                                         "tmem",
                                                         "tmem_after",
                                                         "enable_input_d",
                                                         "scale_input_d",
                                                         "disable_output_lane",
                                                         "zero_column_mask",
                                                         "s_desc",
                                                         "a_desc",
                                                         "b_desc",
                                                         "regs",
                                                         "a_regs",
                                                         "b_regs",
                                                         "metadata",
                                                         "scale_a",
                                                         "scale_b",
                                                         "c_regs",
                                                         "d_regs",
                                                         "a",
                                                         "b",
                                                         "c",
                                                         "d",
                                                         "sfa",
                                                         "sfb"};

/// A tensor whose name another instruction uses is not checked: it may have any dtype and shape.
bool comes_by_case(const Tensor& tensor, int64_t cases) {
  return std::ranges::find(known_tensors, tensor.name) != known_tensors.end() && !tensor.shape.empty() &&
         tensor.shape[0] == cases && tensor.bytes.size() % static_cast<size_t>(cases) == 0;
}

}  // namespace

VectorFile cases_of(const VectorFile& vectors, int64_t first, int64_t count) {
  VectorFile part = vectors;
  part.cases = count;
  part.first_case = vectors.first_case + first;
  std::erase_if(part.file.tensors, [&](const Tensor& tensor) { return !comes_by_case(tensor, vectors.cases); });
  for (Tensor& tensor : part.file.tensors) {
    const size_t bytes_per_case = tensor.bytes.size() / static_cast<size_t>(vectors.cases);
    tensor.bytes =
        tensor.bytes.subspan(static_cast<size_t>(first) * bytes_per_case, static_cast<size_t>(count) * bytes_per_case);
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

VectorFile read_vector_file(const std::string& path, std::string_view instruction) {
  VectorFile vectors{.file = read_tensor_file(path)};
  Checker check(path);
  read_mnemonic(vectors, instruction, check);
  const auto has = [&](std::string_view name) { return vectors.file.find(name) != nullptr; };
  constexpr std::array image_tensors{"smem", "a_desc", "b_desc", "a_regs", "b_regs", "metadata", "c_regs", "d_regs"};
  vectors.has_images =
      vectors.move || vectors.is_tcgen05() || std::any_of(image_tensors.begin(), image_tensors.end(), has);
  if (!vectors.has_images && !has("a") && !has("b")) {
    check.refuse("tensors", "neither images nor logical matrices", "smem, a_desc, b_desc, c_regs, or a, b, c");
    check.stop_if_refused();
  }
  if (!vectors.move && has("a_regs") && has("a_desc")) {
    check.refuse("tensors", "both a_regs and a_desc", "one of them: A is in registers or in shared memory");
  }
  if (has("a_regs")) vectors.instruction.a_source = OperandSource::registers;
  if (vectors.is_tcgen05()) {
    read_tcgen05_descriptors(vectors, check);
  } else if (!vectors.move) {
    check.add(violations_of(vectors.instruction));
  }
  check.stop_if_refused();

  const std::vector<TensorRule> rules =
      vectors.move ? move_rules(*vectors.move) : tensor_rules(vectors.instruction, vectors.has_images);
  vectors.cases = -1;
  for (const TensorRule& rule : rules) {
    const Tensor* tensor = vectors.file.find(rule.name);
    if (tensor && !tensor->shape.empty() && vectors.cases < 0) vectors.cases = tensor->shape[0];
    if (!tensor && rule.required) {
      check.refuse(fmt::format("tensor {}", rule.name), "(missing)", fmt::format("required by {}", vectors.name()),
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
  if (vectors.instruction.family == Family::wgmma) result.registers.b_desc = words<uint64_t>(bytes("b_desc")).front();
  result.registers.b_regs = words<uint32_t>(bytes("b_regs"));
  result.registers.scale_a = words<uint32_t>(bytes("scale_a"));
  result.registers.scale_b = words<uint32_t>(bytes("scale_b"));
  if (vectors.instruction.a_source == OperandSource::smem) {
    result.registers.a_desc = words<uint64_t>(bytes("a_desc")).front();
  }
  result.registers.a_regs = words<uint32_t>(bytes("a_regs"));
  result.registers.metadata = words<uint32_t>(bytes("metadata"));
  result.registers.c_regs = words<uint32_t>(bytes("c_regs"));
  return result;
}

namespace {

/// Reads the tensors of one case.
class CaseReader {
 public:
  CaseReader(const VectorFile& vectors, int64_t index) : vectors_(vectors), index_(index) {}

  std::span<const uint8_t> bytes(std::string_view name) const {
    const Tensor* tensor = vectors_.file.find(name);
    return tensor ? slice(*tensor, index_) : std::span<const uint8_t>{};
  }
  /// The one number of the case, 0 without the tensor.
  template <typename Word>
  Word number(std::string_view name) const {
    const auto found = words<Word>(bytes(name));
    return found.empty() ? 0 : found.front();
  }
  std::array<std::span<const uint8_t>, 2> images(int ctas) const {
    const std::span<const uint8_t> all = bytes("smem");
    if (ctas == 1) return {all, {}};
    return {all.first(all.size() / 2), all.subspan(all.size() / 2)};
  }
  int columns() const { return static_cast<int>(vectors_.file.find("tmem")->shape[3]); }

 private:
  const VectorFile& vectors_;
  int64_t index_;
};

}  // namespace

Tcgen05Case tcgen05_case_at(const VectorFile& vectors, int64_t index) {
  const CaseReader reader(vectors, index);
  Tcgen05Case result;
  result.instruction = with_idesc(vectors.instruction, reader.number<uint32_t>("idesc"));
  result.instruction.scale_d = reader.number<uint8_t>("enable_input_d") != 0;
  result.instruction.scale_input_d = reader.number<uint8_t>("scale_input_d");
  result.smem = reader.images(vectors.instruction.cta_group);
  Tcgen05Registers& registers = result.state.registers;
  registers.a_desc = reader.number<uint64_t>("a_desc");
  registers.b_desc = reader.number<uint64_t>("b_desc");
  for (const AddressTensor& row : address_tensors) registers.*row.member = reader.number<uint32_t>(row.name);
  const std::vector<uint32_t> lanes = words<uint32_t>(reader.bytes("disable_output_lane"));
  std::copy(lanes.begin(), lanes.end(), registers.disable_output_lane.begin());
  if (vectors.file.find("zero_column_mask") && vectors.instruction.weight_stationary)
    registers.zero_column_mask = reader.number<uint64_t>("zero_column_mask");
  result.state.tmem = words<uint32_t>(reader.bytes("tmem"));
  result.state.columns = reader.columns();
  return result;
}

TmemMoveCase move_case_at(const VectorFile& vectors, int64_t index) {
  const CaseReader reader(vectors, index);
  TmemMoveCase result;
  result.smem = reader.images(vectors.move->cta_group);
  result.state.machine = {.taddr = reader.number<uint32_t>("taddr"),
                          .s_desc = reader.number<uint64_t>("s_desc"),
                          .warp = reader.number<uint8_t>("warp"),
                          .columns = reader.columns()};
  result.state.regs = words<uint32_t>(reader.bytes("regs"));
  result.state.tmem = words<uint32_t>(reader.bytes("tmem"));
  return result;
}

OutputPlace output_place(const VectorFile& vectors, const BitMatrix& d, int64_t index, int row, int col) {
  if (vectors.move && vectors.move->kind == MoveKind::ld)
    return {.reg = RegisterPlace{.thread = row, .reg = col, .bit = 0}, .cell = std::nullopt};
  if (vectors.move)
    return {.reg = std::nullopt,
            .cell = TmemPlace{.cta = row / tmem_lanes, .lane = row % tmem_lanes, .column = col, .bit = 0}};
  if (!vectors.is_tcgen05()) return {.reg = place_of(d_fragment(vectors.instruction), row, col), .cell = std::nullopt};
  const Instruction& one = vectors.has_images ? tcgen05_case_at(vectors, index).instruction : vectors.instruction;
  const TmemLayoutInfo& layout = find_tmem_layout(one.m, one.cta_group, one.weight_stationary, one.sparse);
  return {.reg = std::nullopt, .cell = TmemD{.layout = layout, .n = d.cols()}.place_of(row, col)};
}

BitMatrix result_words(const VectorFile& vectors, std::span<const uint32_t> result) {
  const int rows = vectors.move->kind == MoveKind::ld ? 32 : tmem_lanes * vectors.move->cta_group;
  BitMatrix matrix(Format::u32, rows, static_cast<int>(result.size()) / rows);
  for (size_t i = 0; i < result.size(); ++i)
    matrix.bits(static_cast<Eigen::Index>(i) / matrix.cols(), static_cast<Eigen::Index>(i) % matrix.cols()) = result[i];
  return matrix;
}

std::vector<Violation> warnings_at(const VectorFile& vectors, int64_t index) {
  if (!vectors.has_images) return {};
  if (vectors.move) return warnings(*vectors.move, move_case_at(vectors, index).view());
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
  if (const int scales = instruction.scale_count()) {
    operands.scales =
        BlockScales{.a = logical_matrix(vectors, "sfa", instruction.scale_type, instruction.m, scales, index),
                    .b = logical_matrix(vectors, "sfb", instruction.scale_type, scales, instruction.n, index)};
  }
  if (instruction.scale_d == 1) {
    operands.c = logical_matrix(vectors, "c", instruction.d, instruction.m, instruction.n, index);
  }
  return operands;
}

BitMatrix recorded_d(const VectorFile& vectors, int64_t index) {
  const Instruction& instruction = vectors.instruction;
  if (vectors.move) return result_words(vectors, words<uint32_t>(slice(*vectors.file.find(vectors.d_tensor()), index)));
  if (!vectors.has_images) return logical_matrix(vectors, "d", instruction.d, instruction.m, instruction.n, index);
  if (vectors.is_tcgen05()) {
    const Tcgen05Case one = tcgen05_case_at(vectors, index);
    const Tensor& after = *vectors.file.find("tmem_after");
    return gather_d(one.instruction, one.state.registers.d_tmem, words<uint32_t>(slice(after, index)),
                    static_cast<int>(after.shape[3]));
  }
  return gather(words<uint32_t>(slice(*vectors.file.find("d_regs"), index)), d_fragment(instruction), instruction.d,
                "d_regs");
}

BitMatrix computed_d(const VectorFile& vectors, int64_t index, const AccumulatorModel* model) {
  if (vectors.move) {
    const TmemMoveResult result = simulate(*vectors.move, move_case_at(vectors, index).view());
    return result_words(vectors, vectors.move->kind == MoveKind::ld ? result.regs : result.tmem);
  }
  if (vectors.is_tcgen05()) {
    // What Tensor Memory holds afterwards: lanes that are disabled keep what they had.
    Tcgen05Case one = tcgen05_case_at(vectors, index);
    simulate_in_place(one.instruction, one.view(), one.state.tmem, model);
    return gather_d(one.instruction, one.state.registers.d_tmem, one.state.tmem, one.state.columns);
  }
  if (vectors.has_images) return simulate_d(vectors.instruction, case_at(vectors, index).view(), model);
  return multiply_accumulate(model ? *model : model_for(vectors.instruction), logical_operands(vectors, index));
}

std::vector<std::pair<std::string, std::string>> instruction_metadata(const Instruction& instruction) {
  std::vector<std::pair<std::string, std::string>> metadata{{"format", std::string(vector_format)},
                                                            {"instruction", print(instruction)}};
  for (const ImmediateKey& immediate : immediate_keys) {
    if (instruction.family == Family::tcgen05) break;
    if (immediate.of_mma_sync != (instruction.family == Family::mma_sync)) continue;
    if (immediate.key == "sparsity_selector" && !instruction.sparse) continue;
    metadata.emplace_back(immediate.key, std::to_string(instruction.*immediate.member));
  }
  return metadata;
}

std::vector<std::pair<std::string, std::string>> instruction_metadata(const TmemMove& move) {
  std::vector<std::pair<std::string, std::string>> metadata{{"format", std::string(vector_format)},
                                                            {"instruction", print(move)}};
  if (move.has_registers() && move.ldst.shape == LdStShape::s16x32bx2)
    metadata.emplace_back("half_split_offset", std::to_string(move.half_split_offset));
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
  for (auto& [key, value] :
       vectors.move ? instruction_metadata(*vectors.move) : instruction_metadata(vectors.instruction))
    result.set_metadata(key, std::move(value));
  result.set_metadata("source", std::move(source));
  for (const std::string_view of_the_source : {"driver", "cuda", "date"}) result.erase_metadata(of_the_source);
  return result;
}

std::vector<uint8_t>& VectorBuilder::column(std::string_view name, std::string_view dtype, std::vector<int64_t> shape) {
  auto found = std::ranges::find(columns_, name, &Column::name);
  if (found == columns_.end())
    found = columns_.insert(columns_.end(), {.name = name, .dtype = dtype, .shape = std::move(shape), .bytes = {}});
  return found->bytes;
}

void VectorBuilder::add_images(const std::array<std::vector<uint8_t>, 2>& smem, int ctas) {
  std::vector<uint8_t>& bytes = column("smem", "U8", image_shape(ctas, static_cast<int64_t>(smem[0].size())));
  for (int cta = 0; cta < ctas; ++cta)
    bytes.insert(bytes.end(), smem[static_cast<size_t>(cta)].begin(), smem[static_cast<size_t>(cta)].end());
}

void VectorBuilder::add_words(std::string_view name, std::vector<int64_t> shape, std::span<const uint32_t> values) {
  std::vector<uint8_t>& bytes = column(name, "U32", std::move(shape));
  for (const uint32_t value : values) append(bytes, value);
}

void VectorBuilder::add_matrix(std::string_view name, const BitMatrix& matrix) {
  std::vector<uint8_t>& bytes = column(name, natural_dtype(matrix.format), {matrix.rows(), matrix.cols()});
  const int size = dtype_bytes(natural_dtype(matrix.format));
  for (int row = 0; row < matrix.rows(); ++row) {
    for (int col = 0; col < matrix.cols(); ++col) append(bytes, matrix(row, col), size);
  }
}

void VectorBuilder::add_machine(const MachineState& state) {
  if (instruction_.family == Family::mma_sync) {
    const auto add = [&](std::string_view name, const std::vector<uint32_t>& values) {
      if (!values.empty()) add_words(name, {32, static_cast<int64_t>(values.size()) / 32}, values);
    };
    add("a_regs", state.a_regs), add("b_regs", state.b_regs), add("c_regs", state.c_regs);
    add("scale_a", state.scale_a), add("scale_b", state.scale_b), add("metadata", state.metadata);
    return;
  }
  std::vector<uint8_t>& images = column("smem", "U8", {static_cast<int64_t>(state.smem.size())});
  images.insert(images.end(), state.smem.begin(), state.smem.end());
  if (instruction_.a_source == OperandSource::smem) append(column("a_desc", "U64", {}), state.a_desc);
  append(column("b_desc", "U64", {}), state.b_desc);
  if (!state.a_regs.empty()) add_words("a_regs", {128, 4}, state.a_regs);
  if (!state.metadata.empty()) add_words("metadata", {128}, state.metadata);
  add_words("c_regs", {128, static_cast<int64_t>(state.c_regs.size()) / 128}, state.c_regs);
}

void VectorBuilder::add_machine(const Tcgen05State& state) {
  const Tcgen05Registers& registers = state.registers;
  const int64_t ctas = instruction_.cta_group;
  add_images(state.smem, instruction_.cta_group);
  if (instruction_.a_source == OperandSource::smem) append(column("a_desc", "U64", {}), registers.a_desc);
  append(column("b_desc", "U64", {}), registers.b_desc);
  append(column("idesc", "U32", {}), idesc_of(instruction_));
  for (const AddressTensor& row : address_tensors) {
    if (row.needed(instruction_)) append(column(row.name, "U32", {}), registers.*row.member);
  }
  add_words("tmem", {ctas, tmem_lanes, state.columns}, state.tmem);
  column("enable_input_d", "U8", {}).push_back(instruction_.scale_d == 1);
  if (instruction_.scale_input_d != 0)
    column("scale_input_d", "U8", {}).push_back(static_cast<uint8_t>(instruction_.scale_input_d));
  if (registers.zero_column_mask) append(column("zero_column_mask", "U64", {}), *registers.zero_column_mask);
  if (!instruction_.weight_stationary && !instruction_.has_block_scales()) {
    add_words("disable_output_lane", {4 * ctas},
              std::span(registers.disable_output_lane).first(static_cast<size_t>(4 * ctas)));
  }
}

void VectorBuilder::add_machine(const TmemMoveState& state) {
  append(column("taddr", "U32", {}), state.machine.taddr);
  add_words("tmem", {move_->cta_group, tmem_lanes, state.machine.columns}, state.tmem);
  if (move_->kind == MoveKind::cp) {
    append(column("s_desc", "U64", {}), state.machine.s_desc);
    add_images(state.smem, move_->cta_group);
  }
  if (move_->has_registers()) column("warp", "U8", {}).push_back(static_cast<uint8_t>(state.machine.warp));
  if (move_->kind == MoveKind::st) add_words("regs", {32, move_->ldst.registers()}, state.regs);
}

void VectorBuilder::add_tmem_after(std::span<const uint32_t> tmem, int columns) {
  add_words("tmem_after", {move_ ? move_->cta_group : instruction_.cta_group, tmem_lanes, columns}, tmem);
}

void VectorBuilder::add_result(const TmemMoveResult& result, int columns) {
  if (move_->kind == MoveKind::ld)
    add_words("d_regs", {32, move_->ldst.registers()}, result.regs);
  else
    add_tmem_after(result.tmem, columns);
}

void VectorBuilder::add_logical(const Operands& operands) {
  add_matrix("a", logical_a(instruction_, operands));
  add_matrix("b", operands.b);
  if (operands.c) add_matrix("c", *operands.c);
  if (!operands.scales) return;
  add_matrix("sfa", operands.scales->a);
  add_matrix("sfb", operands.scales->b);
}

void VectorBuilder::add_d_regs(const BitMatrix& d) {
  const Fragment fragment = d_fragment(instruction_);
  std::vector<uint32_t> d_regs(fragment.words());
  scatter(d, fragment, d_regs, "d_regs");
  add_words("d_regs", {fragment.threads, fragment.registers()}, d_regs);
}

void VectorBuilder::add_logical_d(const BitMatrix& d) { add_matrix("d", d); }

TensorFile VectorBuilder::finish(std::vector<std::pair<std::string, std::string>> metadata) && {
  TensorFile file{
      .path = {}, .metadata = move_ ? instruction_metadata(*move_) : instruction_metadata(instruction_), .tensors = {}};
  for (auto& [key, value] : metadata) file.set_metadata(key, std::move(value));
  // Always the same order, however the parts came.
  std::ranges::stable_sort(columns_, {}, [](const Column& one) {
    return std::ranges::find(known_tensors, one.name) - known_tensors.begin();
  });
  for (Column& one : columns_) {
    one.shape.insert(one.shape.begin(), cases_);
    file.tensors.push_back(
        Tensor::from_bytes(std::string(one.name), std::string(one.dtype), std::move(one.shape), std::move(one.bytes)));
  }
  return file;
}

}  // namespace bitmma
