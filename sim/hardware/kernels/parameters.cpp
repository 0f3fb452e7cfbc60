// SPDX-License-Identifier: MIT
#include "parameters.hpp"

#include <algorithm>

#include "bitmma/instruction/immediates.hpp"

namespace bitmma::kernels {
namespace {

/// The instruction's row for `field`, or nullptr if it has none.
const FieldRule* find_rule(const Request& request, Field field) {
  const auto rule = std::ranges::find(request.fields, field, &FieldRule::field);
  return rule == request.fields.end() ? nullptr : &*rule;
}

KernelSlot slot_of(const Request& request, const FieldRule& rule, int64_t offset_bytes) {
  KernelSlot slot{.rule = rule, .offset_bytes = offset_bytes};
  const FieldInfo& field = info(rule.field);
  if (field.is_number) return slot;
  const bool is_image = field.type == ElementType::u8;
  const int64_t last = rule.extents[rule.extents.size() - 1];
  slot.row_bytes = last != -1 ? last * (rule.wide ? 8 : bytes_of(field.type))
                   : is_image ? kernel_image_stride(request.shape.image_bytes)
                              : int64_t{4} * kernel_tmem_columns(request.shape.columns);
  return slot;
}

KernelParameter parameter_of(const Request& request, std::string name, const FieldRule& rule) {
  const KernelSlot slot = slot_of(request, rule, 0);
  int64_t bytes = bytes_of(info(rule.field).type);
  if (!info(rule.field).is_number) {
    bytes = slot.row_bytes;
    for (size_t axis = 0; axis + 1 < rule.extents.size(); ++axis) bytes *= rule.extents[axis];
  }
  return {.name = std::move(name), .bytes_per_case = bytes, .slots = {slot}};
}

}  // namespace

KernelParameter input_of(const Request& request, Field field) {
  std::string name = std::string(info(field).name) + "_in";
  const FieldRule* rule = find_rule(request, field);
  if (!rule || rule->access == Access::write) return {.name = std::move(name)};
  return parameter_of(request, std::move(name), *rule);
}

KernelParameter output_of(const Request& request, std::string name) {
  KernelParameter output{.name = std::move(name)};
  for (const FieldRule& rule : request.fields) {
    if (rule.access == Access::read) continue;
    KernelParameter parameter = parameter_of(request, {}, rule);
    parameter.slots.front().offset_bytes = output.bytes_per_case;
    output.slots.push_back(parameter.slots.front());
    output.bytes_per_case += parameter.bytes_per_case;
  }
  return output;
}

void add(KernelParameter& parameter, const Request& request, Field field, int64_t offset_bytes) {
  if (const FieldRule* rule = find_rule(request, field)) {
    parameter.slots.push_back(slot_of(request, *rule, offset_bytes));
  }
}

void add_immediate(KernelParameter& parameter, const Request& request, std::string_view name, int64_t offset_bytes) {
  const auto value = static_cast<uint32_t>(immediate_of(request.instruction, name));
  parameter.numbers.push_back({.number = value, .offset_bytes = offset_bytes});
}

}  // namespace bitmma::kernels
