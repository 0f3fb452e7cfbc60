// States <-> the arrays that a kernel's parameters point to, without a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bitmma/core/error.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

std::vector<State> random_states(const Instruction& instruction, uint64_t count) {
  std::vector<State> states;
  for (uint64_t i = 0; i < count; ++i) {
    states.push_back(random_case(instruction, default_target(instruction), {}, Distribution::bits, 11, i).before);
  }
  return states;
}

size_t index_of(const Kernel& kernel, std::string_view parameter) {
  const auto input = std::ranges::find(kernel.inputs, parameter, &KernelParameter::name);
  REQUIRE(input != kernel.inputs.end());
  return static_cast<size_t>(input - kernel.inputs.begin());
}

uint64_t number_at(const std::vector<uint8_t>& bytes, size_t offset, size_t size) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data() + offset, size);
  return number;
}

/// Where the kernel's text loads `name` from: 24 of "ld.global.u32 NAME, [words32+24];".
size_t offset_in_text(const Kernel& kernel, const std::string& name) {
  for (const std::string type : {"u32", "u64"}) {
    const std::string load = fmt::format("ld.global.{} {}, [words{}+", type, name, type == "u32" ? 32 : 64);
    if (const size_t at = kernel.text.find(load); at != std::string::npos)
      return std::stoul(kernel.text.substr(at + load.size()));
  }
  FAIL("the kernel does not load " << name);
  return 0;
}

}  // namespace

TEST_CASE("wgmma's parameters hold a field each, images padded to 16 bytes and up to the largest") {
  const Instruction instruction =
      Wgmma{.n = 16, .d = Format::f32, .a = Format::f16, .b = Format::f16, .sparse = true, .enable_input_d = false};
  std::vector<State> states = random_states(instruction, 3);
  // Images of several sizes; and C, which is not read, need not be there.
  const auto image = states[1].bytes(Field::smem);
  std::vector<uint8_t> longer(image.begin(), image.end());
  longer.resize(longer.size() + 5, 0xAB);
  const auto bytes = static_cast<int64_t>(longer.size());
  states[1].set(Field::smem, longer, {bytes});
  states[2].erase(Field::accumulator);
  const KernelShape shape = kernel_shape_of(states);
  CHECK(shape.image_bytes == bytes);
  const Kernel kernel = ptx_kernel(instruction, shape);
  CHECK(kernel.ctas == 1);
  const auto inputs = launch_inputs(kernel, states);
  REQUIRE(inputs.size() == kernel.inputs.size());
  const auto stride = static_cast<size_t>(kernel_image_stride(bytes));
  const std::vector<uint8_t>& images = inputs[index_of(kernel, "smem_in")];
  REQUIRE(images.size() == 3 * stride);
  CHECK(std::ranges::equal(longer, std::span(images).subspan(stride, longer.size())));
  CHECK(std::ranges::count(std::span(images).subspan(stride + longer.size(), stride - longer.size()), 0) ==
        static_cast<int64_t>(stride - longer.size()));
  for (size_t i = 0; i < 3; ++i) {
    CHECK(number_at(inputs[index_of(kernel, "b_desc_in")], 8 * i, 8) == states[i].number(Field::b_desc));
    const auto metadata = states[i].words(Field::metadata);
    CHECK(std::memcmp(inputs[index_of(kernel, "metadata_in")].data() + 512 * i, metadata.data(), 512) == 0);
  }
  CHECK(inputs[index_of(kernel, "a_regs_in")].empty());
  const std::vector<uint8_t>& c_regs = inputs[index_of(kernel, "c_regs_in")];
  REQUIRE(c_regs.size() == 3 * 128 * 8 * 4);
  CHECK(std::ranges::count(std::span(c_regs).subspan(2 * c_regs.size() / 3), 0) ==
        static_cast<int64_t>(c_regs.size() / 3));
  // D comes back as the accumulator.
  const std::vector<State> after = launch_results(kernel, states, c_regs);
  REQUIRE(after.size() == 3);
  CHECK(after[0].buffers().size() == 1);
  CHECK(std::ranges::equal(after[0].words(Field::accumulator), states[0].words(Field::accumulator)));
}

TEST_CASE("what the kernel of a tcgen05.mma loads is where its text says, and Tensor Memory keeps its columns") {
  Tcgen05Mma scaled{.kind = MmaKind::mxf8f6f4, .cta_group = 2, .sparse = true, .enable_input_d = false};
  Tcgen05Mma masked{.kind = MmaKind::f16, .a_source = OperandSource::tmem};
  Tcgen05Mma shifted{.kind = MmaKind::f16, .weight_stationary = true};
  for (const Tcgen05Mma& instruction : {scaled, masked, shifted}) {
    std::vector<State> states = random_states(instruction, 2);
    if (instruction == masked) states[1].set(Field::disable_output_lane, std::vector<uint32_t>{1, 2, 3, 4}, {4});
    if (instruction == shifted) states[1].set(Field::zero_column_mask, 0x0123456789ABCDEF);
    const Kernel kernel = ptx_kernel(instruction, kernel_shape_of(states));
    CHECK(kernel.ctas == instruction.cta_group);
    const auto inputs = launch_inputs(kernel, states);
    const auto &words64 = inputs[index_of(kernel, "words64_in")], &words32 = inputs[index_of(kernel, "words32_in")];
    REQUIRE(words64.size() == 2 * 32);
    REQUIRE(words32.size() == 2 * 80);
    for (size_t i = 0; i < 2; ++i) {
      for (const FieldRule& rule : fields_of(instruction)) {
        const FieldInfo& field = info(rule.field);
        if (!field.is_number) continue;
        if (rule.field == Field::zero_column_mask && instruction != shifted) continue;  // the statement has none
        INFO(field.name);
        const size_t offset = offset_in_text(kernel, std::string(field.name));
        const bool wide = field.type == ElementType::u64;
        CHECK(number_at(wide ? words64 : words32, (wide ? 32 : 80) * i + offset, wide ? 8 : 4) ==
              (states[i].has(rule.field) ? states[i].number(rule.field) : 0));
      }
      CHECK(number_at(words32, 80 * i + offset_in_text(kernel, "idesc"), 4) == idesc_of(instruction));
      CHECK(number_at(words32, 80 * i + offset_in_text(kernel, "flag"), 4) == instruction.enable_input_d);
    }
    if (instruction == masked) {
      for (uint32_t mask = 0; mask < 4; ++mask)
        CHECK(number_at(words32, 80 + offset_in_text(kernel, fmt::format("mask{}", mask)), 4) == mask + 1);
    }
    const std::vector<State> after = launch_results(kernel, states, inputs[index_of(kernel, "tmem_in")]);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(after[i].columns() == states[i].columns());
      CHECK(std::ranges::equal(after[i].words(Field::tmem), states[i].words(Field::tmem)));
    }
  }
}

TEST_CASE("moves: an ld returns registers, the others Tensor Memory, of fewer columns than the kernel allocates, too") {
  for (const MoveKind kind : {MoveKind::ld, MoveKind::st, MoveKind::cp, MoveKind::shift}) {
    const TmemMove move{.kind = kind};
    std::vector<State> states = random_states(move, 2);
    states[1].set(Field::tmem, std::vector<uint32_t>(128 * 20, 7), {1, 128, 20});
    const Kernel kernel = ptx_kernel(move, kernel_shape_of(states));
    const auto inputs = launch_inputs(kernel, states);
    const auto columns = static_cast<size_t>(kernel_tmem_columns(states[0].columns()));
    const std::vector<uint8_t>& tmem = inputs[index_of(kernel, "tmem_in")];
    REQUIRE(tmem.size() == 2 * 128 * columns * 4);
    CHECK(number_at(inputs[index_of(kernel, "words32_in")], offset_in_text(kernel, "taddr"), 4) ==
          states[0].number(Field::taddr));
    if (kind == MoveKind::ld) {
      CHECK(inputs[index_of(kernel, "regs_in")].empty());
      const std::vector<uint8_t> output(2 * 32 * 4 * static_cast<size_t>(move.ldst.registers()), 0x5A);
      const std::vector<State> after = launch_results(kernel, states, output);
      CHECK(after[1].extent(Field::regs, 1) == move.ldst.registers());
      CHECK(after[1].words(Field::regs)[31] == 0x5A5A5A5A);
      continue;
    }
    const std::vector<State> after = launch_results(kernel, states, tmem);
    CHECK(std::ranges::equal(after[0].words(Field::tmem), states[0].words(Field::tmem)));
    CHECK(after[1].columns() == 20);
    CHECK(std::ranges::equal(after[1].words(Field::tmem), states[1].words(Field::tmem)));
    if (kind == MoveKind::st) CHECK(inputs[index_of(kernel, "regs_in")].size() == 2 * 32 * 4);
    if (kind == MoveKind::cp) {
      CHECK(number_at(inputs[index_of(kernel, "words64_in")], offset_in_text(kernel, "a_desc"), 8) ==
            states[0].number(Field::s_desc));
    }
  }
}

TEST_CASE("ld.red returns its registers and redval, each where the kernel stores it", "[rule:ld-red]") {
  const TmemMove move{.kind = MoveKind::ld_red, .ldst = {.num = 4}};
  const std::vector<State> states = random_states(move, 3);
  const Kernel kernel = ptx_kernel(move, kernel_shape_of(states));
  constexpr size_t bytes_per_case = 32 * 4 * 4 + 32 * 4;
  REQUIRE(kernel.output.bytes_per_case == bytes_per_case);
  CHECK(kernel.text.find("mul.wide.u32 offset, case_index, 640;") != std::string::npos);
  CHECK(kernel.text.find("add.s64 pointer, pointer, 512;\n  st.global.u32 [pointer], redval0;") != std::string::npos);
  std::vector<uint32_t> output(3 * bytes_per_case / 4);
  for (size_t i = 0; i < output.size(); ++i) output[i] = static_cast<uint32_t>(i);
  const std::vector<State> after =
      launch_results(kernel, states, {reinterpret_cast<const uint8_t*>(output.data()), 4 * output.size()});
  for (size_t i = 0; i < 3; ++i) {
    CHECK(after[i].words(Field::regs)[4 * 31 + 3] == 160 * i + 127);
    CHECK(after[i].words(Field::redval)[31] == 160 * i + 159);
  }
}

TEST_CASE("states that lack what the kernel reads, or hold it in another size, are refused by name") {
  const Instruction instruction = Wgmma{.n = 16};
  std::vector<State> states = random_states(instruction, 1);
  const Kernel kernel = ptx_kernel(instruction, kernel_shape_of(states));
  State other = states[0];
  other.erase(Field::b_desc);
  CHECK_THROWS_MATCHES(launch_inputs(kernel, std::span(&other, 1)), Error, refused(missing_input, "b_desc"));
  other = states[0];
  other.set(Field::accumulator, std::vector<uint32_t>(128 * 4), {128, 4});
  CHECK_THROWS_MATCHES(launch_inputs(kernel, std::span(&other, 1)), Error, refused(wrong_shape, "c_regs"));
  other = states[0];
  other.set(Field::smem, std::vector<uint8_t>(1 << 16), {1 << 16});
  CHECK_THROWS_MATCHES(launch_inputs(kernel, std::span(&other, 1)), Error, refused(wrong_shape, "smem"));
  CHECK_THROWS_MATCHES(launch_results(kernel, states, std::vector<uint8_t>(12)), Error,
                       refused(wrong_shape, "d_regs_out"));
}
