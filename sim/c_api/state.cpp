// SPDX-License-Identifier: MIT
#include "bitmma/instruction/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bitmma/core/target_names.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

static_assert(Extents::most == 4);  // of bitmma_field and bitmma_array

namespace {

/// Throws Error, which lists the names, for a name that no field has.
Field field_named(const char* name) {
  const std::string_view text = text_given(name, "field");
  const auto row = std::ranges::find(state_fields, text, &FieldInfo::name);
  if (row != state_fields.end()) return row->id;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "field",
               .seen = std::string(text),
               .legal = row_names(state_fields)});
}

/// The buffer with this name, before or after an instruction. Throws Error if the state has none.
const Buffer& buffer_named(const State& state, const char* name) {
  const std::string_view text = text_given(name, "field");
  for (const Buffer& buffer : state.buffers()) {
    const FieldInfo& row = info(buffer.field());
    if (row.name == text || (!row.after.empty() && row.after == text)) return buffer;
  }
  throw Error({.code = ViolationCode::missing_input,
               .field = std::string(text),
               .seen = "(missing)",
               .expected = "a buffer of the state"});
}

size_t element_bytes_of(const Buffer& buffer) {
  return info(buffer.field()).type == ElementType::u8 ? 1 : buffer.is_wide() ? 8 : 4;
}

struct Array {
  Field field = Field::smem;
  const void* elements = nullptr;
  size_t element_bytes = 0, count = 0;
  Extents extents = {};
};

Array array_of(const char* field, const void* elements, size_t element_bytes, size_t rank, const int64_t* extents) {
  Array array{.field = field_named(field), .elements = elements, .element_bytes = element_bytes};
  const FieldInfo& row = info(array.field);
  const bool is_bytes = row.type == ElementType::u8;
  const std::string legal = row.is_number ? "absent: the field is one number" : is_bytes ? "1" : "4, or 8 of f64";
  if (row.is_number || (is_bytes ? element_bytes != 1 : element_bytes != 4 && element_bytes != 8)) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = fmt::format("element_bytes of {}", row.name),
                 .seen = std::to_string(element_bytes),
                 .expected = legal});
  }
  if (rank < 1 || rank > Extents::most) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("rank of {}", row.name),
                 .seen = std::to_string(rank),
                 .expected = "1..4"});
  }
  if (!extents) refuse_null("extents");
  array.extents = Extents(std::span(extents, rank));
  int64_t count = 1;
  for (const int64_t extent : array.extents) {
    if (extent < 0) {
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = fmt::format("extents of {}", row.name),
                   .seen = std::to_string(extent),
                   .expected = "0 or more each"});
    }
    count = size_product(count, extent, row.name);
  }
  size_product(count, static_cast<int64_t>(element_bytes), row.name);
  if (count > 0 && !elements) refuse_null("elements");
  array.count = static_cast<size_t>(count);
  return array;
}

/// A copy of the elements as words or bytes.
template <typename Word>
std::vector<Word> copy_of(const Array& array) {
  std::vector<Word> words(array.count);
  if (array.count > 0) std::memcpy(words.data(), array.elements, array.count * sizeof(Word));
  return words;
}

}  // namespace

extern "C" {

bitmma_status bitmma_state_create(bitmma_state** state) {
  return guarded([&] {
    bitmma_state*& to = pointee(state, "state");
    to = new bitmma_state{};
  });
}

bitmma_status bitmma_state_copy(const bitmma_state* state, bitmma_state** copy) {
  return guarded([&] {
    bitmma_state*& to = pointee(copy, "copy");
    to = new bitmma_state{pointee(state, "state").value};
  });
}

void bitmma_state_destroy(bitmma_state* state) { delete state; }

bitmma_status bitmma_instruction_field_count(const bitmma_instruction* instruction, size_t* count) {
  return guarded([&] {
    size_t& to = pointee(count, "count");
    to = fields_of(pointee(instruction, "instruction").value).size();
  });
}

bitmma_status bitmma_instruction_field_at(const bitmma_instruction* instruction, size_t index, bitmma_field* field) {
  return guarded([&] {
    const FieldRules rules = fields_of(pointee(instruction, "instruction").value);
    bitmma_field& to = pointee(field, "field");
    if (index >= rules.size()) {
      throw Error(
          {.field = "index", .seen = std::to_string(index), .expected = fmt::format("0..{}", rules.size() - 1)});
    }
    const FieldRule& rule = rules.begin()[index];
    const FieldInfo& row = info(rule.field);
    to = {};
    // Names are literals, so they end with a 0.
    to.name = row.name.data();
    to.name_after = rule.access == Access::read || row.after.empty() ? nullptr : row.after.data();
    to.is_number = row.is_number;
    to.is_read = rule.access != Access::write, to.is_written = rule.access != Access::read;
    to.is_required = rule.required;
    to.element_bytes = rule.wide ? 8 : static_cast<size_t>(bytes_of(row.type));
    to.rank = rule.extents.size();
    std::ranges::copy(rule.extents, to.extents);
  });
}

bitmma_status bitmma_state_set_number(bitmma_state* state, const char* field, uint64_t number) {
  return guarded([&] { pointee(state, "state").value.set(field_named(field), number); });
}

bitmma_status bitmma_state_set_array(bitmma_state* state, const char* field, const void* elements, size_t element_bytes,
                                     size_t rank, const int64_t* extents) {
  return guarded([&] {
    State& to = pointee(state, "state").value;
    const Array array = array_of(field, elements, element_bytes, rank, extents);
    if (element_bytes == 1) to.set(array.field, copy_of<uint8_t>(array), array.extents);
    else if (element_bytes == 4) to.set(array.field, copy_of<uint32_t>(array), array.extents);
    else to.set(array.field, copy_of<uint64_t>(array), array.extents);
  });
}

bitmma_status bitmma_state_borrow_array(bitmma_state* state, const char* field, const void* elements,
                                        size_t element_bytes, size_t rank, const int64_t* extents) {
  return guarded([&] {
    State& to = pointee(state, "state").value;
    const Array array = array_of(field, elements, element_bytes, rank, extents);
    if (element_bytes == 1) {
      to.borrow(array.field, std::span(static_cast<const uint8_t*>(elements), array.count), array.extents);
      return;
    }
    if (reinterpret_cast<uintptr_t>(elements) % 4 != 0) {
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = fmt::format("elements of {}", field),
                   .seen = fmt::format("{}", elements),
                   .expected = "a multiple of 4",
                   .fix = "bitmma_state_set_array accepts any address"});
    }
    const bool wide = element_bytes == 8;
    to.borrow(array.field, std::span(static_cast<const uint32_t*>(elements), array.count * (wide ? 2 : 1)),
              array.extents, wide);
  });
}

bitmma_status bitmma_state_erase(bitmma_state* state, const char* field) {
  return guarded([&] { pointee(state, "state").value.erase(field_named(field)); });
}

bitmma_status bitmma_state_get_array(const bitmma_state* state, const char* field, bitmma_array* array) {
  return guarded([&] {
    const Buffer& buffer = buffer_named(pointee(state, "state").value, field);
    bitmma_array& to = pointee(array, "array");
    if (info(buffer.field()).is_number) {
      throw Error({.code = ViolationCode::wrong_type, .field = field, .seen = "one number", .expected = "an array"});
    }
    to = {};
    to.element_bytes = element_bytes_of(buffer);
    to.elements = to.element_bytes == 1 ? static_cast<const void*>(buffer.bytes().data()) : buffer.words().data();
    to.rank = buffer.extents().size();
    std::ranges::copy(buffer.extents(), to.extents);
  });
}

bitmma_status bitmma_state_get_number(const bitmma_state* state, const char* field, uint64_t* number) {
  return guarded([&] {
    const Buffer& buffer = buffer_named(pointee(state, "state").value, field);
    uint64_t& to = pointee(number, "number");
    if (!info(buffer.field()).is_number) {
      throw Error({.code = ViolationCode::wrong_type, .field = field, .seen = "an array", .expected = "one number"});
    }
    to = buffer.number();
  });
}

bitmma_status bitmma_execute(const bitmma_instruction* instruction, const char* target, bitmma_state* state) {
  return guarded([&] {
    const Instruction& statement = pointee(instruction, "instruction").value;
    State& on = pointee(state, "state").value;
    execute(statement, target ? target_from(target) : default_target(statement), on);
  });
}

}  // extern "C"
