// The C interface: any texts, names, numbers and objects that C allows. Nothing throws, and a status says what it was.
#include <bitmma.h>

#include <cstring>

#include "bitmma/instruction/statement.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

constexpr const char* field_names[] = {"smem",    "tmem",    "a_desc", "b_desc", "s_desc", "d_tmem",
                                       "a_tmem",  "taddr",   "warp",   "a_regs", "regs",   "metadata",
                                       "scale_a", "scale_b", "c_regs", "d_regs", "idesc",  "b_regs"};
constexpr const char* number_names[] = {
    "idesc",     "scale_d",     "imm_scale_a",    "imm_trans_b",   "sparsity_selector",
    "byte_id_a", "thread_id_b", "enable_input_d", "scale_input_d", "half_split_offset",
    "other"};
constexpr const char* instruction_fields[] = {"m",      "n",         "k",     "a",   "kind",
                                              "sparse", "scale_vec", "shape", "num", "other"};
constexpr const char* target_names[] = {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_70", "sm_1"};
constexpr const char* plans[] = {
    R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"})",
    R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", "split_k": {"count": 3, "unit": 8}})",
    R"({"instruction": "fma.rn.f32", "lanes": {"count": 4}})"};

bitmma_status checked(bitmma_status status) {
  require(status == BITMMA_OK || status == BITMMA_ERROR_INVALID, "a call succeeds or was a bad request");
  if (status == BITMMA_ERROR_INVALID) {
    bitmma_violation violation;
    require(*bitmma_last_error() != '\0' && bitmma_error_count() > 0, "an error says what is wrong");
    require(bitmma_error_at(0, &violation) == BITMMA_OK && violation.field && violation.fix, "texts are never NULL");
  }
  return status;
}

/// What the input says, or NULL.
struct Text {
  explicit Text(Bytes& in) : text(in.ConsumeRandomLengthString(80)), is_null(one_in(in, 12)) {}
  const char* get() const { return is_null ? nullptr : text.c_str(); }
  std::string text;
  bool is_null;
};
const char* any_target_name(Bytes& in) { return one_in(in, 4) ? nullptr : pick(in, target_names); }
bitmma_format any_code(Bytes& in) {
  return static_cast<bitmma_format>(one_in(in, 16) ? between(in, 0, 31) : between(in, 0, 18));
}

template <typename Print>
void print_into(Bytes& in, const Print& call) {
  std::vector<char> text(in.ConsumeIntegralInRange<std::size_t>(0, 64), '?');
  std::size_t length = 0;
  if (checked(call(text.empty() ? nullptr : text.data(), text.size(), &length)) != BITMMA_OK || text.empty()) return;
  require(std::memchr(text.data(), 0, text.size()) != nullptr, "a text ends with 0");
  require(std::strlen(text.data()) == std::min(length, text.size() - 1), "as much as there is room for is written");
}

struct Objects {
  ~Objects() {
    bitmma_instruction_destroy(instruction), bitmma_state_destroy(state), bitmma_plan_destroy(plan),
        bitmma_plans_destroy(plans);
  }
  bitmma_instruction* instruction = nullptr;
  bitmma_state* state = nullptr;
  bitmma_plan* plan = nullptr;
  bitmma_plans* plans = nullptr;
  std::vector<std::vector<uint64_t>> lent;
};

void use_instruction(Bytes& in, Objects& objects) {
  bitmma_instruction* const instruction = objects.instruction;
  int64_t value = 0;
  switch (between(in, 0, 7)) {
    case 7: {
      const bitmma_named_value fields[]{
          {pick(in, instruction_fields), one_in(in, 2) ? "e4m3" : nullptr, number<int64_t>(in)},
          {pick(in, instruction_fields), one_in(in, 2) ? "mxf4" : nullptr, number<int64_t>(in)}};
      checked(bitmma_instruction_set_fields(instruction, fields, static_cast<std::size_t>(between(in, 0, 2))));
      break;
    }
    case 0: checked(bitmma_instruction_set(instruction, pick(in, number_names), number<int64_t>(in))); break;
    case 1: checked(bitmma_instruction_get(instruction, pick(in, number_names), &value)); break;
    case 2: {
      const bitmma_tcgen05 fields{.m = 32 << between(in, 0, 3),
                                  .n = number(in),
                                  .k = one_in(in, 4) ? number(in) : 0,
                                  .d = any_code(in),
                                  .a = any_code(in),
                                  .b = any_code(in),
                                  .scale = any_code(in)};
      checked(bitmma_instruction_set_tcgen05(instruction, &fields));
      break;
    }
    case 3: print_into(in, [&](auto... text) { return bitmma_instruction_print(instruction, text...); }); break;
    case 4: {
      const char* target = any_target_name(in);
      const bool legal = checked(bitmma_instruction_check(instruction, target)) == BITMMA_OK;
      bitmma_evidence evidence;
      std::size_t choices = 0;
      if (checked(bitmma_instruction_evidence(instruction, target, &evidence, &choices)) == BITMMA_OK && choices > 0) {
        print_into(in, [&](auto... text) { return bitmma_choice_print(instruction, target, choices - 1, text...); });
      }
      print_into(in, [&](auto... text) { return bitmma_rule_print(instruction, target, text...); });
      if (instruction) require(bitmma_instruction_target(instruction) != nullptr, "an instruction has a usual target");
      (void)legal;
      break;
    }
    case 5: {
      std::size_t count = 0;
      if (checked(bitmma_instruction_field_count(instruction, &count)) != BITMMA_OK) break;
      bitmma_field field;
      for (std::size_t i = 0; i < count; ++i)
        require(bitmma_instruction_field_at(instruction, i, &field) == BITMMA_OK, "a field is there");
      require(bitmma_instruction_field_at(instruction, count, &field) == BITMMA_ERROR_INVALID, "and no more");
      break;
    }
    case 6: {
      bitmma_instruction* copy = nullptr;
      if (checked(bitmma_instruction_copy(instruction, &copy)) == BITMMA_OK) {
        bitmma_instruction_destroy(objects.instruction);
        objects.instruction = copy;
      }
      break;
    }
  }
}

void multiply(Bytes& in, const Objects& objects) {
  bitmma_instruction_info about;
  if (checked(bitmma_instruction_get_info(objects.instruction, &about)) != BITMMA_OK) return;
  if (int64_t{about.m} * about.n * about.k > 128 * 32 * 64 || about.m < 0 || about.n < 0 || about.k < 0) return;
  // Without gaps, and enough for three products.
  const auto memory = [&](bitmma_format format, int rows, int cols) {
    return bytes(in, 3 * bitmma_format_bytes(format) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  };
  const std::vector<uint8_t> a = memory(about.a, about.m, about.k / std::max(1, about.products)),
                             b = memory(about.b, about.k, about.n), c = memory(about.c, about.m, about.n),
                             scales = memory(about.scale, std::max(about.m, about.n), about.scale_count),
                             nibbles = memory(BITMMA_U8, about.m, std::max(1, about.metadata_chunks));
  const auto view = [&](const std::vector<uint8_t>& from, bool there) {
    return bitmma_view{.data = there ? from.data() : nullptr, .batch_stride = 0, .row_stride = 0, .col_stride = 0};
  };
  const bool has_scales = (about.scale_count > 0) != one_in(in, 16);
  const bitmma_operands operands{.a = view(a, !one_in(in, 32)),
                                 .b = view(b, true),
                                 .c = view(c, in.ConsumeBool()),
                                 .scale_a = view(scales, has_scales && !scales.empty()),
                                 .scale_b = view(scales, has_scales && !scales.empty()),
                                 .metadata = view(nibbles, about.sparse ? in.ConsumeBool() : one_in(in, 32))};
  const int64_t count = one_in(in, 12) ? between(in, -2, 0) : between(in, 1, 3);
  std::vector<uint8_t> d(3 * about.d_bytes);
  checked(bitmma_mma(objects.instruction, any_target_name(in), count, &operands, one_in(in, 32) ? nullptr : d.data(),
                     between(in, -1, 2)));
}

void use_state(Bytes& in, Objects& objects) {
  if (!objects.state || one_in(in, 16)) {
    bitmma_state_destroy(objects.state);
    objects.state = nullptr;
    checked(bitmma_state_create(&objects.state));
  }
  const char* name = one_in(in, 24) ? nullptr : pick(in, field_names);
  switch (between(in, 0, 5)) {
    case 0:
      checked(bitmma_state_set_number(objects.state, name,
                                      in.ConsumeBool() ? descriptor_word(in, Target::sm_90a) : number<uint64_t>(in)));
      break;
    case 1:
    case 2: {
      constexpr int64_t usual[] = {128, 4, 32, 2, 1, 8, 64, 4096};
      int64_t extents[4] = {pick(in, usual), pick(in, usual), pick(in, usual), 1};
      const std::size_t rank = in.ConsumeIntegralInRange<std::size_t>(0, 5);
      if (one_in(in, 12)) extents[0] = number<int64_t>(in);
      constexpr std::size_t sizes[] = {4, 1, 8, 4, 2, 0};
      const std::size_t element_bytes = pick(in, sizes);
      // Memory for what is asked, where that much can be there; what asks for more is refused before it is read.
      std::size_t words = 1;
      for (std::size_t i = 0; i < std::min<std::size_t>(rank, 4); ++i) {
        if (extents[i] < 0 || extents[i] > 1 << 20) return;
        words *= static_cast<std::size_t>(extents[i]);
      }
      if (words > 1u << 18) return;
      objects.lent.emplace_back(words + 1, in.ConsumeIntegral<uint64_t>());
      const void* const memory = objects.lent.back().data();
      checked(in.ConsumeBool() ? bitmma_state_set_array(objects.state, name, memory, element_bytes, rank, extents)
                               : bitmma_state_borrow_array(objects.state, name, memory, element_bytes, rank, extents));
      break;
    }
    case 3: checked(bitmma_state_erase(objects.state, name)); break;
    case 4: {
      bitmma_array array;
      uint64_t value = 0;
      checked(bitmma_state_get_array(objects.state, name, &array)),
          checked(bitmma_state_get_number(objects.state, name, &value));
      break;
    }
    case 5: {
      bitmma_state* copy = nullptr;
      if (checked(bitmma_state_copy(objects.state, &copy)) == BITMMA_OK)
        bitmma_state_destroy(objects.state), objects.state = copy;
      break;
    }
  }
}

/// What `instruction` wants, so that it runs.
void fill_state(Bytes& in, Objects& objects) {
  std::size_t count = 0;
  bitmma_instruction_field_count(objects.instruction, &count);
  if (!objects.state) bitmma_state_create(&objects.state);
  for (std::size_t i = 0; i < count; ++i) {
    bitmma_field field;
    bitmma_instruction_field_at(objects.instruction, i, &field);
    if (field.is_number) {
      checked(bitmma_state_set_number(
          objects.state, field.name,
          field.element_bytes == 8 ? descriptor_word(in, Target::sm_90a) : static_cast<uint64_t>(between(in, 0, 3))));
      continue;
    }
    std::size_t size = field.element_bytes;
    for (std::size_t axis = 0; axis < field.rank; ++axis) {
      if (field.extents[axis] < 0) field.extents[axis] = field.element_bytes == 1 ? 16384 : 128;
      size *= static_cast<std::size_t>(field.extents[axis]);
    }
    const std::vector<uint8_t> made = bytes(in, size);
    checked(
        bitmma_state_set_array(objects.state, field.name, made.data(), field.element_bytes, field.rank, field.extents));
  }
}

void use_plans(Bytes& in, Objects& objects) {
  if (one_in(in, 2) || !objects.plan) {
    bitmma_plan_destroy(objects.plan);
    objects.plan = nullptr;
    checked(!one_in(in, 8)
                ? bitmma_plan_parse(one_in(in, 4) ? Text(in).get() : pick(in, plans), &objects.plan)
                : bitmma_plan_flat(any_target_name(in), any_code(in), any_code(in), any_code(in), &objects.plan));
  }
  print_into(in, [&](auto... text) { return bitmma_plan_print_json(objects.plan, text...); });
  print_into(in, [&](auto... text) { return bitmma_plan_print(objects.plan, text...); });
  bitmma_format output = BITMMA_F32;
  checked(bitmma_plan_output(objects.plan, &output));
  const int64_t m = between(in, 1, 4), n = between(in, 1, 4), k = between(in, 1, 200);
  const std::vector<uint8_t> memory = bytes(in, 8 * 8 * 256);
  const auto view = [&](int64_t rows, int64_t cols, bool there) {
    return bitmma_matrix{.data = there ? memory.data() : nullptr,
                         .format = any_code(in),
                         .rows = rows,
                         .cols = cols,
                         .row_stride = 0,
                         .col_stride = 0};
  };
  bitmma_gemm_inputs inputs{};
  inputs.a = view(m, k, true), inputs.b = view(k, n, true);
  if (one_in(in, 2)) inputs.b.format = inputs.a.format = in.ConsumeBool() ? BITMMA_F16 : BITMMA_BF16;
  if (one_in(in, 4)) inputs.c = view(m, n, true);
  if (one_in(in, 4)) inputs.bias = view(1, n, true);
  if (one_in(in, 8)) inputs.scale_a = view(m, 1, true), inputs.scale_b = view(1, n, true);
  if (one_in(in, 16)) inputs.a.rows = number<int16_t>(in) % 8;
  std::vector<uint8_t> d(8 * 8 * 8);
  checked(bitmma_gemm(objects.plan, &inputs, d.data(), 1));
  if (!one_in(in, 4)) return;
  const bitmma_call call{.target = any_target_name(in),
                         .split_count = between(in, -1, 5),
                         .alpha = 1,
                         .beta = static_cast<float>(between(in, 0, 1)),
                         .relu = between(in, 0, 1)};
  const char* name = bitmma_catalogue_name(in.ConsumeIntegralInRange<std::size_t>(0, 50));
  bitmma_plans_destroy(objects.plans);
  objects.plans = nullptr;
  checked(bitmma_plans_named(name, &inputs, any_code(in), in.ConsumeBool() ? &call : nullptr, &objects.plans));
  const std::size_t plans_found = bitmma_plans_count(objects.plans);
  require(bitmma_plans_at(objects.plans, plans_found) == nullptr, "there are as many plans as are counted");
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma::fuzz;
  Objects objects;
  for (int calls = between(in, 1, 12); calls > 0; --calls) {
    switch (between(in, 0, 6)) {
      case 0: {
        bitmma_instruction_destroy(objects.instruction);
        objects.instruction = nullptr;
        if (one_in(in, 6)) checked(bitmma_instruction_parse(Text(in).get(), &objects.instruction));
        else
          checked(bitmma_instruction_parse(bitmma::print(bitmma::fuzz::listed_instruction(in)).c_str(),
                                           &objects.instruction));
        break;
      }
      case 1: use_instruction(in, objects); break;
      case 2: multiply(in, objects); break;
      case 3: use_state(in, objects); break;
      case 4:
        if (objects.instruction && one_in(in, 2)) fill_state(in, objects);
        checked(bitmma_execute(objects.instruction, any_target_name(in), objects.state));
        break;
      case 5: use_plans(in, objects); break;
      case 6: {
        const bitmma_format format = any_code(in);
        const std::size_t count = in.ConsumeIntegralInRange<std::size_t>(0, 20);
        std::vector<float> values(count);
        for (float& value : values)
          value = in.ConsumeBool() ? in.ConsumeFloatingPoint<float>() : static_cast<float>(between(in, -200, 200));
        std::vector<uint8_t> codes(count * 8);
        if (checked(bitmma_from_floats(format, count, values.data(), codes.data())) == BITMMA_OK)
          checked(bitmma_to_floats(format, count, codes.data(), values.data()));
        bitmma_format named;
        checked(bitmma_format_named(Text(in).get(), &named));
        require((bitmma_format_name(format) == nullptr) == (bitmma_format_bytes(format) == 0),
                "a format has a name and a size");
        break;
      }
    }
  }
}
