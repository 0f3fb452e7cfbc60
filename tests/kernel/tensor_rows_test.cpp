// SPDX-License-Identifier: MIT
// Copies of four rows of a tensor by their numbers: .tile::gather4 and .tile::scatter4; and forms of im2col that are
// refused.
#include <fmt/format.h>

#include <numeric>

#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/violation.hpp"

using namespace bitmma;
using test::memory;

namespace {

/// A kernel (map, out) of 32 threads with 256 bytes of shared memory, in which word i is i + 1000. %r1 is the thread,
/// %r2 the shared memory, %r3 an mbarrier, %rd1 the map; at the end thread i stores words 2 i and 2 i + 1 to out.
std::string module_of(std::string_view body, std::string_view target = "sm_100a") {
  return fmt::format(
      ".version 8.8\n.target {}\n.address_size 64\n.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)\n"
      "{{\n.reg .b32 %r<30>;\n.reg .b64 %rd<10>;\n.reg .pred %p<4>;\n.shared .align 128 .b8 words[256];\n"
      ".shared .align 8 .b64 barrier;\nmov.b64 %rd1, map;\nld.param.u64 %rd2, [out];\ncvta.param.u64 %rd1, %rd1;\n"
      "mov.u32 %r1, %tid.x;\nmov.u32 %r2, words;\nmov.u32 %r3, barrier;\nshl.b32 %r4, %r1, 3;\nadd.u32 %r4, %r4, %r2;\n"
      "shl.b32 %r5, %r1, 1;\nadd.u32 %r5, %r5, 1000;\nadd.u32 %r6, %r5, 1;\nst.shared.v2.u32 [%r4], {{%r5, %r6}};\n"
      "fence.proxy.async;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [%r3], 1;\nbar.sync 0;\n"
      "@!%p1 bra DONE;\n{}\nDONE:\nbar.sync 0;\nmul.wide.u32 %rd3, %r1, 8;\nadd.u64 %rd2, %rd2, %rd3;\n"
      "ld.shared.v2.u32 {{%r5, %r6}}, [%r4];\nst.global.v2.u32 [%rd2], {{%r5, %r6}};\nret;\n}}\n",
      target, body);
}

constexpr std::string_view wait = "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;\n@!%p2 bra WAIT;\n";

std::string gather(std::string_view coordinates) {
  return module_of(fmt::format(
      "mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;\ncp.async.bulk.tensor.2d.shared::cta.global.tile::gather4"
      ".mbarrier::complete_tx::bytes [%r2], [%rd1, {{{}}}], [%r3];\n{}",
      coordinates, wait));
}

/// 10 rows of 32 words; a box has 16 of a row.
constexpr int64_t columns = 32, rows = 10;
const TensorMap map{.element_bytes = 4, .sizes = {columns, rows}, .strides_bytes = {columns * 4}, .box = {16, 1}};

std::vector<uint32_t> run(const std::string& text, std::vector<uint32_t>& tensor, const TensorMap& used = map) {
  std::vector<uint32_t> out(64);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(tensor.data()), tensor.size() * 4);
  (void)launch(PtxEntry(text), {.block = {32, 1, 1}, .arguments = {tensor_map_argument(bytes, used), memory(out)}});
  return out;
}

std::vector<uint32_t> counted() {
  std::vector<uint32_t> words(static_cast<size_t>(columns * rows));
  std::iota(words.begin(), words.end(), 1U);
  return words;
}

}  // namespace

TEST_CASE("gather4 loads a part of four rows, in the order of the coordinates, with zeros outside of the tensor") {
  std::vector<uint32_t> tensor = counted();
  const std::vector<uint32_t> out = run(gather("20, 3, 0, 9, 10"), tensor);
  const std::array<int64_t, 4> numbers{3, 0, 9, 10};
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t row = numbers[static_cast<size_t>(i / 16)], column = 20 + i % 16;
    const bool is_in = row < rows && column < columns;
    CHECK(out[static_cast<size_t>(i)] == (is_in ? static_cast<uint32_t>(row * columns + column + 1) : 0));
  }
  TensorMap two_rows = map;
  two_rows.box[1] = 2;
  CHECK(test::violation_of([&] { run(gather("20, 3, 0, 9, 10"), tensor, two_rows); })->code ==
        ViolationCode::undefined_by_ptx);
}

TEST_CASE("scatter4 stores four rows, and nothing outside of the tensor") {
  std::vector<uint32_t> tensor = counted();
  run(module_of("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {24, 7, 1, 4, 11}], "
                "[%r2];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"),
      tensor);
  std::vector<uint32_t> expected = counted();
  const std::array<int64_t, 3> numbers{7, 1, 4};
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t column = 0; column < 8; ++column)
      expected[static_cast<size_t>(numbers[static_cast<size_t>(i)] * columns + 24 + column)] =
          static_cast<uint32_t>(1000 + 16 * i + column);
  }
  CHECK(tensor == expected);
}

TEST_CASE("four rows belong to two dimensions from sm_100 on, and pixels of im2col to three or more") {
  const auto refuses = [](std::string_view statement, std::string_view target = "sm_100a") {
    CHECK_THROWS_MATCHES(PtxEntry(module_of(statement, target)), Error,
                         test::refused(ViolationCode::unsupported_ptx, "PTX line 28"));
  };
  constexpr std::string_view completes = ".mbarrier::complete_tx::bytes [%r2], [%rd1, {1, 2, 3, 4, 5}], [%r3]";
  refuses(fmt::format("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4{};", completes), "sm_90a");
  refuses(fmt::format("cp.async.bulk.tensor.3d.shared::cta.global.tile::gather4{};", completes));
  refuses(fmt::format("cp.async.bulk.tensor.2d.shared::cta.global.tile::scatter4{};", completes));
  refuses(
      "cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%r2], [%rd1, {1, 2, 3, 4}], "
      "[%r3], {1};");
  refuses(
      "cp.async.bulk.tensor.3d.shared::cta.global.im2col_no_offs.mbarrier::complete_tx::bytes [%r2], "
      "[%rd1, {1, 2, 3}], [%r3];");
  refuses(
      "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%r2], [%rd1, {1, 2, 3}], "
      "[%r3], {1, 2};");
  refuses(
      "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w::128.mbarrier::complete_tx::bytes [%r2], "
      "[%rd1, {1, 2, 3}], [%r3], {1, 2};");
  refuses("cp.async.bulk.tensor.2d.global.shared::cta.im2col_no_offs.bulk_group [%rd1, {1, 2}], [%r2];");
}

TEST_CASE("st.bulk stores zeros in shared memory") {
  std::vector<uint32_t> tensor = counted();
  const std::vector<uint32_t> out =
      run(module_of("add.u32 %r7, %r2, 8;\nst.bulk.weak.shared::cta [%r7], 24, 0;"), tensor);
  for (uint32_t i = 0; i < 64; ++i) CHECK(out[i] == (i >= 2 && i < 8 ? 0 : 1000 + i));
  CHECK(test::violation_of([&] { run(module_of("st.bulk.shared::cta [%r2], 20, 0;"), tensor); })->code ==
        ViolationCode::undefined_by_ptx);
  CHECK(test::violation_of([&] { run(module_of("st.bulk.shared::cta [%r2], 512, 0;"), tensor); })->code ==
        ViolationCode::out_of_bounds);
}
