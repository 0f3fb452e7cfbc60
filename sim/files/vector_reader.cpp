// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "bitmma/core/error.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "vector_parts.hpp"
#include "vector_schema.hpp"

namespace bitmma {
namespace {

/// What a violation is about: `text` for its reader, `key` for the program.
struct Place {
  Place(const char* name) : text(name) {}
  Place(std::string name, std::string_view of_key) : text(std::move(name)), key(of_key) {}
  std::string text, key;
};

Place metadata_key(std::string_view key) { return {fmt::format("__metadata__ {}", key), key}; }
Place tensor_place(std::string_view name) { return {fmt::format("tensor {}", name), name}; }
Place shape_place(std::string_view name) { return {fmt::format("tensor {} shape", name), name}; }
Place dtype_place(std::string_view name) { return {fmt::format("tensor {} dtype", name), name}; }

class FileChecker {
 public:
  explicit FileChecker(std::string path) : path_(std::move(path)) {}

  void refuse(const Place& place, std::string seen, std::string expected, std::string fix = {}) {
    refuse(ViolationCode::illegal_value, place, std::move(seen), std::move(expected), std::move(fix));
  }
  void refuse(ViolationCode code, const Place& place, std::string seen, std::string expected, std::string fix = {}) {
    violations_.push_back({.code = code,
                           .field = named(place.text),
                           .seen = std::move(seen),
                           .expected = std::move(expected),
                           .fix = std::move(fix),
                           .source = fmt::format("format {}", vector_format),
                           .key = place.key,
                           .file = path_});
  }
  void add(std::vector<Violation> violations) {
    for (Violation& violation : violations) {
      violation.field = named(violation.field);
      violation.file = path_;
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

bool has_field(const Instruction& instruction, Field field) {
  return std::ranges::any_of(fields_of(instruction), [&](const FieldRule& rule) { return rule.field == field; });
}

/// Reads the mnemonic, the target and the immediates that are metadata keys.
void read_instruction(VectorFile& vectors, const TensorFile& all, const VectorFileDefaults& defaults,
                      FileChecker& check) {
  const TensorFile& file = vectors.file;
  // Libraries write their name under this key, or omit it.
  constexpr auto libraries = std::to_array<std::string_view>({"pt", "np", "tf", "flax", "jax", "mlx"});
  const std::string* format = file.find_metadata("format");
  if (format && *format != vector_format && std::ranges::find(libraries, *format) == libraries.end()) {
    check.refuse(metadata_key("format"), *format, std::string(vector_format));
  }
  const std::string* mnemonic = file.find_metadata("instruction");
  if (!mnemonic && defaults.instruction.empty()) {
    const bool has_operands = all.find("a") && (all.find("b") || all.find("b_t")),
               is_product = has_operands || all.find_metadata("plan") || all.find_metadata("generator");
    check.refuse(
        ViolationCode::missing_instruction, metadata_key("instruction"),
        is_product ? "(missing); a file without it is a product, for bitmma gemm or explain --plan" : "(missing)",
        "a PTX mnemonic", "save the key, or pass the instruction");
  }
  check.stop_if_refused();
  try {
    vectors.instruction = *named_instruction(file, defaults);
  } catch (const Error& error) {
    check.add(error.violations());
    check.stop_if_refused();
  }
  if (mnemonic && !defaults.instruction.empty()) {
    const Instruction requested = parse_instruction(defaults.instruction);
    if (print(requested) != print(vectors.instruction)) {
      check.refuse(ViolationCode::other_instruction, metadata_key("instruction"), *mnemonic, print(requested),
                   "another instruction was requested");
      check.stop_if_refused();
    }
  }
  for (const ImmediateInfo& immediate : all_immediates()) {
    const std::string* text = immediate.by_case ? nullptr : file.find_metadata(immediate.name);
    if (!text) continue;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc{} || end != text->data() + text->size()) {
      check.refuse(metadata_key(immediate.name), *text, "a whole number, -2^63..2^63-1");
      continue;
    }
    try {
      vectors.instruction = with_immediate(vectors.instruction, immediate.name, value);
    } catch (const Error& refused) {
      check.add(refused.violations());
    }
  }
  const auto has = [&](std::string_view name) { return file.find(name) != nullptr; };
  // An operand tensor of another instruction family has no meaning here.
  for (const auto& [field, source] :
       {std::pair(Field::a_regs, OperandSource::registers), std::pair(Field::a_tmem, OperandSource::tmem)}) {
    const Instruction other = with_a_source(vectors.instruction, source);
    if (!has(info(field).name) || !has_field(other, field) || other == vectors.instruction) continue;
    if (has("a_desc")) {
      check.refuse("tensors", fmt::format("both {} and a_desc", info(field).name),
                   fmt::format("one of the two: A is in {} or in shared memory",
                               source == OperandSource::registers ? "registers" : "Tensor Memory"));
    }
    vectors.instruction = other;
  }
  check.stop_if_refused();
}

/// Reads the target that the file or the caller names; otherwise chooses the first target that supports every case.
void read_target(VectorFile& vectors, const std::vector<Instruction>& instructions, const VectorFileDefaults& defaults,
                 FileChecker& check) {
  TargetSet common = targets_of(instructions.front());
  for (const Instruction& instruction : instructions) common = common & targets_of(instruction);
  const Target usual = default_target(instructions.front());
  vectors.target = common.empty() || common.contains(usual) ? usual : common.first();
  if (defaults.target) vectors.target = *defaults.target;
  const std::string* name = vectors.file.find_metadata("target");
  if (!name) return;
  const std::optional<Target> target = target_meant_by(*name);
  if (!target) {
    check.refuse(metadata_key("target"), *name, "a target, such as sm_90a or H100");
  } else if (defaults.target && *defaults.target != *target) {
    check.refuse(ViolationCode::other_target, metadata_key("target"), *name, std::string(print(*defaults.target)),
                 "another target was requested");
  } else {
    vectors.target = *target;
  }
}

void check_tensor(const Tensor& tensor, const TensorRule& rule, const VectorFile& vectors, FileChecker& check) {
  if (!is_one_of(tensor.dtype, rule.dtypes)) {
    check.refuse(ViolationCode::wrong_type, dtype_place(rule.name), tensor.dtype, std::string(rule.dtypes.front()));
  }
  std::vector<int64_t> expected{vectors.cases};
  expected.insert(expected.end(), rule.shape.begin(), rule.shape.end());
  const bool any_last = expected.back() == -1;
  // The file may omit a last extent of 1.
  const bool without_one = expected.back() == 1 && expected.size() > 2 && tensor.shape.size() + 1 == expected.size();
  const bool same = (tensor.shape.size() == expected.size() || without_one) &&
                    std::equal(expected.begin(), expected.end() - (any_last || without_one), tensor.shape.begin()) &&
                    (!any_last || tensor.shape.back() > 0);
  if (same) return;
  std::string legal = print_shape(expected);
  if (any_last) legal = fmt::format("{}...]", legal.substr(0, legal.size() - 3));
  check.refuse(ViolationCode::wrong_shape, shape_place(rule.name), print_shape(tensor.shape), legal,
               "the first extent is the number of cases");
}

/// The distinct instructions of all cases, beginning with case 0: immediates may differ from case to case.
std::vector<Instruction> distinct_instructions(const VectorFile& vectors, FileChecker& check) {
  std::vector<std::pair<ImmediateInfo, const Tensor*>> by_case;
  for (const ImmediateInfo& immediate : immediates_of(vectors.instruction)) {
    if (!immediate.by_case) continue;
    const Tensor* tensor = vectors.file.find(immediate.name);
    const bool has_type = tensor && is_one_of(tensor->dtype, word_dtypes(dtype_of(immediate.type)));
    const bool readable = has_type && tensor->shape.size() == 1 && tensor->shape[0] >= 1;
    if (tensor ? !readable : immediate.required) {
      const ViolationCode code = !tensor    ? ViolationCode::missing_input
                                 : has_type ? ViolationCode::wrong_shape
                                            : ViolationCode::wrong_type;
      check.refuse(code, tensor_place(immediate.name),
                   tensor ? fmt::format("{} {}", tensor->dtype, print_shape(tensor->shape)) : "(missing)",
                   fmt::format("{} [cases], at least one", dtype_of(immediate.type)),
                   immediate.name == "idesc" ? "the instruction descriptor determines shape and types" : "");
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
      if (index >= tensor->shape[0]) continue;  // too short: the check of shapes reports it
      values.push_back(number_in(slice(*tensor, index)));
      names.push_back(immediate.name);
    }
    if (!seen.insert(values).second) continue;
    try {
      Instruction instruction = vectors.instruction;
      for (size_t i = 0; i < values.size(); ++i) {
        instruction = with_immediate(instruction, names[i], static_cast<int64_t>(values[i]));
      }
      instructions.push_back(instruction);
    } catch (const Error& error) {
      check.add(error.violations());
    }
  }
  return instructions;
}

/// True if an instruction descriptor sets shape and types, and the file has logical matrices in its place and nothing
/// else that the instruction reads.
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

/// The fields of the instruction descriptor that follow from the logical matrices.
class DescriptorFromMatrices {
 public:
  DescriptorFromMatrices(const VectorFile& vectors, const VectorFileDefaults& defaults, FileChecker& check)
      : file_(vectors.file),
        defaults_(defaults),
        check_(check),
        named_(vectors.instruction),
        fields_(*shape_and_types_of(vectors.instruction)) {}

  Instruction instruction() {
    set_type(fields_.a, "a", "a_type", defaults_.a_type,
             types([](const Form& form, Format f) { return form.a.contains(f); }));
    set_type(fields_.b, "b", "b_type", defaults_.b_type,
             types([](const Form& form, Format f) { return form.b.contains(f); }));
    const std::string_view of_d = file_.find("c") ? "c" : "d";
    if (file_.find(of_d) || defaults_.d_type || file_.find_metadata("d_type"))
      set_type(fields_.d, of_d, "d_type", defaults_.d_type,
               types([](const Form& form, Format f) { return form.d == f; }));
    if (mma_of(named_).scale_count > 0 && file_.find("sfa")) {
      set_type(fields_.scale_type, "sfa", "sf_type", defaults_.sf_type, types([&](const Form& form, Format f) {
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
    fields_.m = static_cast<int>(a[1]), fields_.n = static_cast<int>(b[2]);
    // K is 96 if the kind supports it; every other K follows from the types.
    fields_.k = a[2] == 96 && mma_of(named_).k == 64 ? 96 : 0;
    const std::string* scale_d = file_.find_metadata("scale_d");
    if (scale_d && *scale_d != "0" && *scale_d != "1") check_.refuse(metadata_key("scale_d"), *scale_d, "0 or 1");
    return with_enable_input_d(with_shape_and_types(named_, fields_),
                               scale_d ? *scale_d == "1" : file_.find("c") != nullptr);
  }

 private:
  static bool in_range(int64_t extent) { return extent >= 1; }

  /// The formats that some form of the kind accepts for this operand.
  template <typename Takes>
  std::vector<Format> types(const Takes& takes) const {
    const Form* own = find_form(named_);
    std::vector<Format> accepted;
    if (!own) return accepted;
    for (const FormatInfo& format : formats) {
      const bool is_taken = std::ranges::any_of(
          forms(), [&](const Form& form) { return form.name == own->name && takes(form, format.id); });
      if (is_taken) accepted.push_back(format.id);
    }
    return accepted;
  }

  /// Sets the type that a key, the caller or the dtype of the tensor names.
  void set_type(Format& type, std::string_view name, std::string_view key, std::optional<Format> requested,
                const std::vector<Format>& legal) {
    const Tensor* tensor = file_.find(name);
    const std::string* text = file_.find_metadata(key);
    if (text || requested) {
      const std::optional<Format> chosen = text ? format_named(*text) : requested;
      if (chosen && std::ranges::find(legal, *chosen) != legal.end() &&
          (!text || !requested || *requested == *chosen)) {
        type = *chosen;
        return;
      }
      check_.refuse(
          metadata_key(key), text ? *text : std::string(info(*requested).name),
          text && requested && chosen ? fmt::format("{}, as requested", info(*requested).name) : names(legal));
      return;
    }
    // The type whose dtype this is, or the only type whose raw codes it may hold.
    std::vector<Format> own, raw;
    for (const Format format : legal) {
      if (info(format).dtype == tensor->dtype) own.push_back(format);
      if (is_one_of(tensor->dtype, dtypes_of(format))) raw.push_back(format);
    }
    if (own.size() == 1 || raw.size() == 1) {
      type = own.size() == 1 ? own.front() : raw.front();
    } else {
      check_.refuse(ViolationCode::missing_type, metadata_key(key), "(missing)", names(legal),
                    fmt::format("the dtype {} of tensor {} is ambiguous", tensor->dtype, name));
    }
  }

  static std::string names(const std::vector<Format>& legal) {
    std::string text;
    for (const Format format : legal) text += fmt::format("{}{}", text.empty() ? "" : ", ", info(format).name);
    return text;
  }

  const TensorFile& file_;
  const VectorFileDefaults& defaults_;
  FileChecker& check_;
  Instruction named_;
  ShapeAndTypes fields_;
};

bool has_scale_d(const Instruction& instruction) {
  return std::ranges::any_of(immediates_of(instruction),
                             [](const ImmediateInfo& immediate) { return immediate.name == "scale_d"; });
}

/// Checks types that the caller or a key gives for an instruction that fixes its types.
void require_same_types(const VectorFile& vectors, const VectorFileDefaults& defaults, bool lacks_scales,
                        FileChecker& check) {
  const Instruction& instruction = vectors.instruction;
  const std::optional<Mma> mma = is_mma(instruction) ? std::optional(mma_of(instruction)) : std::nullopt;
  const auto require = [&](std::string_view key, std::optional<Format> requested, std::optional<Format> own) {
    const std::string* text = vectors.file.find_metadata(key);
    const std::optional<Format> of_key = text ? format_named(*text) : std::nullopt;
    const bool is_other = text && (!of_key || of_key != own);
    if (!is_other && (!requested || requested == own)) return;
    check.refuse(is_other ? metadata_key(key) : Place(std::string(key), key),
                 is_other ? *text : std::string(info(*requested).name),
                 own ? fmt::format("{}, the type that the instruction determines", info(*own).name)
                     : fmt::format("absent: {} has no such operand", print(instruction)));
  };
  const auto own = [&](Format Mma::*type) { return mma ? std::optional((*mma).*type) : std::nullopt; };
  require("a_type", defaults.a_type, own(&Mma::a));
  require("b_type", defaults.b_type, own(&Mma::b));
  require("d_type", defaults.d_type, own(&Mma::d));
  const bool has_scales = mma && mma->scale_count > 0;
  if (!has_scales || !lacks_scales)
    require("sf_type", defaults.sf_type, has_scales ? own(&Mma::scale_type) : std::nullopt);
}

/// Throws Error for plain matrices with wrong extents along K or in the wrong order, and names the matrix to fix. If
/// only other extents are wrong, a later check of all tensors finds them.
void require_operand_shapes(const TensorFile& file, const Instruction& instruction, FileChecker& check) {
  const Tensor *a = file.find("a"), *b = file.find("b");
  if (!a || !b || !is_mma(instruction)) return;
  const Mma mma = mma_of(instruction);
  const auto has_bytes_of = [](const Tensor* tensor, Format format) {
    return dtype_bytes(tensor->dtype) == std::max(1, bits_of(format) / 8);
  };
  const bool are_cubes = a->shape.size() == 3 && b->shape.size() == 3 && mma.products == 1;
  // Another check refuses operands of other types; K follows from the type.
  if (!are_cubes || !has_bytes_of(a, mma.a) || !has_bytes_of(b, mma.b)) return;
  const int64_t m = a->shape[1], k_a = a->shape[2], k_b = b->shape[1], n = b->shape[2], k = mma.k;
  const auto is_whole = [&](int64_t extent) {
    return extent > 0 && (extent % k == 0 || (extent == 96 && shape_and_types_of(instruction) && k == 64));
  };
  const auto are_bytes = [](const Tensor* tensor) { return dtype_bytes(tensor->dtype) == 1; };
  const bool may_be_packed = bits_of(mma.a) <= 4 && bits_of(mma.b) <= 4 && bits_of(mma.a) > 1;
  constexpr std::string_view unpack = "bytes with two codes must be split into one code per byte, low bits first";
  const auto refuse = [&](const Tensor* tensor, std::string expected, std::string fix) {
    check.refuse(ViolationCode::wrong_shape, shape_place(tensor->name), print_shape(tensor->shape), std::move(expected),
                 std::move(fix));
  };
  if (k_a == k_b) {
    if (is_whole(k_a)) return;
    if (may_be_packed && are_bytes(a) && are_bytes(b) && is_whole(2 * k_a)) {
      for (const Tensor* tensor : {a, b})
        refuse(tensor, fmt::format("K = {}, with one code per byte", 2 * k_a), std::string(unpack));
    } else if (is_whole(m) && is_whole(n) && k_a != k) {
      for (const Tensor* tensor : {a, b})
        refuse(tensor, tensor == a ? "[cases, M, K]" : "[cases, K, N]", fmt::format("transpose {}", tensor->name));
    } else {
      check.refuse("tensors a, b", fmt::format("K = {}", k_a), fmt::format("a multiple of K = {}", k),
                   fmt::format("pad both with zeros to K = {}", (k_a / k + 1) * k));
    }
  } else if (n == k_a && is_whole(k_a)) {
    refuse(b, print_shape(std::vector<int64_t>{b->shape[0], n, k_b}), "b is [cases, K, N]: transpose it");
  } else if (m == k_b && is_whole(k_b)) {
    refuse(a, print_shape(std::vector<int64_t>{a->shape[0], k_a, m}), "a is [cases, M, K]: transpose it");
  } else if (may_be_packed && are_bytes(a) && 2 * k_a == k_b) {
    refuse(a, fmt::format("K = {} as in b, with one code per byte", k_b), std::string(unpack));
  } else if (may_be_packed && are_bytes(b) && 2 * k_b == k_a) {
    refuse(b, fmt::format("K = {} as in a, with one code per byte", k_a), std::string(unpack));
  } else if (!is_whole(k_a) && is_whole(k_b)) {
    refuse(a, fmt::format("[cases, M, K] with K = {} as in b", k_b), "");
  } else {
    refuse(b, fmt::format("[cases, K, N] with K = {} as in a", k_a), "");
  }
}

/// Throws Error if plain matrices fill several instructions but the caller asks for one.
void require_one_instruction(const TensorFile& file, const Instruction& instruction, FileChecker& check) {
  const Tensor *a = file.find("a"), *b = file.find("b");
  if (!a || !b || !is_mma(instruction) || a->shape.size() != 3 || b->shape.size() != 3) return;
  const Mma mma = mma_of(instruction);
  const bool says_shape = !shape_and_types_of(instruction).has_value();
  const int64_t m = a->shape[1], k = a->shape[2], n = b->shape[2];
  const bool is_longer = k > mma.k && k % mma.k == 0 && !(k == 96 && mma.k == 64),
             is_larger = says_shape && (m > mma.m || n > mma.n);
  const bool is_tile = mma.products == 1 && k % mma.k == 0 && b->shape[1] == k && (is_longer || is_larger) &&
                       (!says_shape || (m % mma.m == 0 && n % mma.n == 0));
  if (!is_tile) return;
  check.refuse(
      "tile", fmt::format("M = {}, N = {}, K = {}", m, n, k),
      says_shape ? fmt::format("one instruction of {} x {} x {}", mma.m, mma.n, mma.k)
                 : fmt::format("one instruction of K = {}", mma.k),
      fmt::format("the commands verify, compare, diagnose, explain and simulate accept a whole tile{}",
                  is_larger ? "; for D of any size, use bitmma gemm with a and b in a file without an instruction"
                            : ", simulate accepts it as a K loop, whose steps -o writes"));
}

/// Checks that the file has only tensors and keys of the format.
VectorFile checked(TensorFile& all, const VectorFileDefaults& defaults) {
  VectorFile vectors{.file = known_part(all)};
  FileChecker check(vectors.file.path);
  read_instruction(vectors, all, defaults, check);
  const auto has = [&](std::string_view name) { return vectors.file.find(name) != nullptr; };
  const bool of_matrices = is_of_matrices(vectors);
  if (of_matrices) {
    require_operand_shapes(vectors.file, vectors.instruction, check);
    check.stop_if_refused();
    const Instruction of_shape = DescriptorFromMatrices(vectors, defaults, check).instruction();
    check.stop_if_refused();
    require_one_instruction(vectors.file, vectors.instruction, check);
    check.stop_if_refused();
    vectors.instruction = of_shape;
  }
  // A file with only logical matrices has none of these fields. Descriptors and moves need them.
  vectors.has_state = !is_mma(vectors.instruction);
  for (const ImmediateInfo& immediate : immediates_of(vectors.instruction))
    vectors.has_state |= immediate.required && !of_matrices;
  for (const FieldRule& rule : fields_of(vectors.instruction)) {
    if (of_matrices) break;
    vectors.has_state |= has(info(rule.field).name) || (!after_name(rule).empty() && has(after_name(rule)));
  }
  if (!vectors.has_state) {
    require_operand_shapes(vectors.file, vectors.instruction, check);
    if (!check.refused()) require_one_instruction(vectors.file, vectors.instruction, check);
    check.stop_if_refused();
  }
  if (!vectors.has_state && !has("a") && !has("b")) {
    std::string seen;
    for (const Tensor& tensor : all.tensors)
      if (seen.size() < 80) seen += (seen.empty() ? "" : ", ") + shortened(tensor.name);
    check.refuse("tensors", seen.empty() ? "none" : seen,
                 "images (smem, a_desc, b_desc, c_regs, ...) or plain matrices a, b, c");
    check.stop_if_refused();
  }
  std::vector<Instruction> instructions =
      of_matrices ? std::vector{vectors.instruction} : distinct_instructions(vectors, check);
  check.stop_if_refused();
  // Plain matrices without C mean D = A*B, as they do for tcgen05.mma.
  const bool is_product_alone = !vectors.has_state && !of_matrices && !has("c") &&
                                !vectors.file.find_metadata("scale_d") && has_scale_d(instructions.front());
  if (is_product_alone) {
    for (Instruction& instruction : instructions) instruction = with_enable_input_d(instruction, false);
  }
  vectors.instruction = instructions.front();
  require_known_names(all, vectors.instruction, vectors.has_state);
  const bool lacks_scales = !vectors.has_state && !has("sfa");  // no type yet: a check below requires it
  require_same_types(vectors, defaults, lacks_scales, check);
  read_target(vectors, instructions, defaults, check);
  check.stop_if_refused();
  for (const Instruction& instruction : instructions) {
    check.add(violations_of(instruction, vectors.target));
    check.stop_if_refused();
  }

  const Tensor* const one_d = vectors.has_state && is_mma(vectors.instruction) ? vectors.file.find("d") : nullptr;
  if (one_d && vectors.file.find_metadata("k_loop")) {
    int64_t steps = 0;
    for (const FieldRule& rule : fields_of(vectors.instruction)) {
      const Tensor* tensor = rule.access == Access::write ? nullptr : vectors.file.find(info(rule.field).name);
      if (tensor && !tensor->shape.empty()) steps = std::max(steps, tensor->shape[0]);
    }
    const int64_t tiles = one_d->shape.size() == 3 ? one_d->shape[0] : 1;
    if (tiles < steps)
      check.refuse(ViolationCode::wrong_shape, tensor_place("d"),
                   fmt::format("{} for {} steps of a K loop", tiles, steps), "a D for each step",
                   "verify, compare, diagnose and explain require one D, after all steps");
    check.stop_if_refused();
  }
  vectors.cases = -1;
  for (const TensorRule& rule : tensor_rules(vectors.instruction, vectors.has_state)) {
    const Tensor* tensor = vectors.file.find(rule.name);
    if (tensor && !tensor->shape.empty() && vectors.cases < 0) vectors.cases = tensor->shape[0];
    if (!tensor && rule.required) {
      const bool is_c = rule.name == "c" || rule.name == "c_regs";
      check.refuse(ViolationCode::missing_input, tensor_place(rule.name), "(missing)",
                   fmt::format("a tensor: {} reads it", vectors.name()),
                   !is_c                              ? ""
                   : has_scale_d(vectors.instruction) ? "without C, save scale_d = 0 in the metadata"
                                                      : "without C, save zeros");
    }
  }
  if (vectors.cases == 0) check.refuse(Place("cases", "cases"), "0", "at least 1", "an empty file proves nothing");
  const std::string* const k_loop = vectors.file.find_metadata("k_loop");
  if (k_loop && *k_loop != "0" && vectors.cases > 0 && unrolled_steps(vectors) == 0)
    check.refuse(metadata_key("k_loop"), *k_loop,
                 fmt::format("a number of steps that divides {}", counted(vectors.cases, "case")));
  if (const Tensor* d = vectors.file.find("d"); d && is_mma(vectors.instruction)) {
    if (std::optional<Tensor> same = in_type_of_d(*d, mma_of(vectors.instruction).d, vectors.file.path))
      vectors.file.set(*same), all.set(std::move(*same));
  }
  // Cases of other shapes and types have the same tensors, if the file has them.
  for (const Instruction& instruction : instructions) {
    for (const TensorRule& rule : tensor_rules(instruction, vectors.has_state)) {
      if (const Tensor* tensor = vectors.file.find(rule.name)) check_tensor(*tensor, rule, vectors, check);
    }
    check.stop_if_refused();
  }
  return vectors;
}

/// Immediates that apply to a whole file are keys. The reader would overlook such an immediate as a tensor.
void require_keys(const TensorFile& file) {
  for (const ImmediateInfo& immediate : all_immediates()) {
    const Tensor* tensor = immediate.by_case ? nullptr : file.find(immediate.name);
    if (!tensor || is_known(*tensor)) continue;
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("{}: tensor {}", file.path, tensor->name),
                 .seen = fmt::format("{} {}", tensor->dtype, print_shape(tensor->shape)),
                 .expected = fmt::format("a metadata key {} = {}", immediate.name, immediate.legal),
                 .fix = "save it as a string, or with numpy.savez as a whole number"});
  }
}

}  // namespace

std::optional<Instruction> named_instruction(const TensorFile& file, const VectorFileDefaults& defaults) {
  const std::string* mnemonic = file.find_metadata("instruction");
  if (!mnemonic && defaults.instruction.empty()) return std::nullopt;
  return parse_instruction(mnemonic ? std::string_view(*mnemonic) : defaults.instruction);
}

void add_case_extent(TensorFile& file) {
  const Tensor *a = file.find("a"), *b = file.find("b");
  const auto is_plain = [](const Tensor* tensor) { return tensor && tensor->shape.size() == 2; };
  const bool has_state =
      std::ranges::any_of(state_fields, [&](const FieldInfo& field) { return file.find(field.name) != nullptr; });
  // If one of the two is missing, the error should not blame the shape of the other.
  if (!(is_plain(a) && is_plain(b)) && (has_state || !(is_plain(a) ? !b : is_plain(b) && !a))) return;
  for (Tensor& tensor : file.tensors) {
    if (std::ranges::find(logical_tensor_names, std::string_view(tensor.name)) != logical_tensor_names.end() &&
        tensor.shape.size() == 2)
      tensor.shape.insert(tensor.shape.begin(), 1);
  }
}

TensorFile with_inputs(TensorFile file, std::optional<OperandCopy> inputs) {
  if (!inputs) return file;
  const bool of_state = *inputs == OperandCopy::state;
  const bool has_state =
      std::ranges::any_of(state_fields, [&](const FieldInfo& field) { return file.find(field.name) != nullptr; });
  if (of_state ? !has_state : !(file.find("a") && file.find("b"))) {
    throw Error({.code = ViolationCode::no_effect,
                 .field = "inputs",
                 .seen = of_state ? "state" : "matrices",
                 .expected = fmt::format("absent: {} has {}", file.path,
                                         of_state ? "no images, registers or Tensor Memory" : "no matrices a and b")});
  }
  if (of_state) {
    for (const std::string_view name : logical_tensor_names)
      if (name != "d") file.erase(name);
    return file;
  }
  for (const FieldInfo& field : state_fields) {
    file.erase(field.name);
    if (!field.after.empty()) file.erase(field.after);
  }
  return file;
}

VectorFile as_vector_file(TensorFile file, const VectorFileDefaults& defaults) {
  file = with_inputs(std::move(file), defaults.inputs);
  add_case_extent(file);
  require_keys(file);
  // The reader fetches numbers case by case, and they are few bytes.
  for (Tensor& tensor : file.tensors) {
    if (tensor.shape.size() == 1 && is_known(tensor)) tensor.bytes = tensor.bytes.in_memory();
  }
  VectorFile vectors = checked(file, defaults);
  vectors.file = std::move(file);
  return vectors;
}

VectorFile read_vector_file(const std::string& path, const VectorFileDefaults& defaults) {
  return as_vector_file(read_tensor_file(path), defaults);
}

}  // namespace bitmma
