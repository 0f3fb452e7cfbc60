// SPDX-License-Identifier: MIT
#include "vector_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "known_names.hpp"

namespace bitmma {

static_assert(std::endian::native == std::endian::little);

namespace {

/// The fields in the order in which files have them. (Surveys hash the order of the enumeration.)
constexpr auto file_order = std::to_array<Field>({
    // clang-format off
    Field::smem, Field::d_tmem, Field::a_tmem, Field::metadata_tmem, Field::scale_a_tmem, Field::scale_b_tmem,
    Field::taddr, Field::warp, Field::tmem, Field::disable_output_lane, Field::zero_column_mask, Field::s_desc,
    Field::a_desc, Field::b_desc, Field::a_regs, Field::b_regs, Field::metadata, Field::scale_a, Field::scale_b,
    Field::accumulator, Field::regs, Field::redval,
    // clang-format on
});
static_assert(std::ranges::all_of(state_fields,
                                  [](const FieldInfo& row) { return std::ranges::count(file_order, row.id) == 1; }));

}  // namespace

const std::vector<std::string_view>& known_tensors() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> tensors;
    const auto add = [&](std::string_view name) {
      if (!name.empty() && std::ranges::find(tensors, name) == tensors.end()) tensors.push_back(name);
    };
    for (const Field field : file_order) {
      add(info(field).name);
      add(info(field).after);
      // The immediates that vary by case follow shared memory.
      if (field != Field::smem) continue;
      for (const ImmediateInfo& immediate : all_immediates())
        if (immediate.by_case) add(immediate.name);
    }
    for (const std::string_view name : logical_tensor_names) add(name);
    return tensors;
  }();
  return names;
}

bool is_known(const Tensor& tensor) {
  return std::ranges::find(known_tensors(), std::string_view(tensor.name)) != known_tensors().end();
}

std::string_view dtype_of(ElementType type) {
  return type == ElementType::u8 ? "U8" : type == ElementType::u32 ? "U32" : "U64";
}

bool is_one_of(std::string_view dtype, const std::vector<std::string_view>& dtypes) {
  return std::ranges::find(dtypes, dtype) != dtypes.end();
}

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

std::string_view after_name(const FieldRule& rule) {
  return rule.access == Access::read ? std::string_view{} : info(rule.field).after;
}

TensorBytes slice(const Tensor& tensor, int64_t index) {
  const size_t size = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  return tensor.bytes.part(size * static_cast<size_t>(index), size);
}

uint64_t number_in(const TensorBytes& bytes) {
  uint64_t number = 0;
  bytes.copy_to({reinterpret_cast<uint8_t*>(&number), std::min(bytes.size(), sizeof number)});
  return number;
}

std::vector<TensorRule> tensor_rules(const Instruction& instruction, bool has_state) {
  std::vector<TensorRule> rules;
  for (const LogicalTensor& row : logical_tensors(instruction)) {
    rules.push_back({.name = row.name,
                     .dtypes = dtypes_of(row.format),
                     .shape = row.extents(),
                     .required = row.required && !has_state,
                     .meaning = "a logical matrix, for readers; the state takes precedence"});
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

namespace {

/// The keys that have an effect.
const std::vector<std::string_view>& acting_keys() {
  static const std::vector<std::string_view> keys = [] {
    std::vector<std::string_view> acting{"instruction", "target", "a_type", "b_type", "d_type", "sf_type", "k_loop"};
    for (const ImmediateInfo& immediate : all_immediates())
      if (!immediate.by_case) acting.push_back(immediate.name);
    return acting;
  }();
  return keys;
}

bool is_known_key(std::string_view key) {
  return key == "format" || key == "source" || std::ranges::find(acting_keys(), key) != acting_keys().end();
}

}  // namespace

void require_known_names(const TensorFile& file, const Instruction& instruction, bool has_state) {
  KnownNames known{.kind = "a vector file", .keys = acting_keys()};
  for (const TensorRule& rule : tensor_rules(instruction, has_state)) known.tensors.push_back(rule.name);
  const std::string kind = fmt::format("a vector file of {}", print(instruction));
  // The reader would overlook a tensor of another instruction, too.
  const auto is_others = [&](const Tensor& tensor) {
    return is_known(tensor) && std::ranges::find(known.tensors, tensor.name) == known.tensors.end();
  };
  if (std::ranges::any_of(file.tensors, is_others)) known.kind = kind;
  require_known_names(file, known);
}

TensorFile known_part(const TensorFile& file) {
  TensorFile part{.path = file.path, .metadata = {}, .tensors = {}, .input = file.input};
  std::ranges::copy_if(file.tensors, std::back_inserter(part.tensors), is_known);
  std::ranges::copy_if(file.metadata, std::back_inserter(part.metadata), is_known_key,
                       &std::pair<std::string, std::string>::first);
  return part;
}

}  // namespace bitmma
