// SPDX-License-Identifier: MIT
// Modules that are parsed once, memory that lasts over launches, parameters as bytes.
#include "bitmma/kernel/memory.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "bitmma/kernel/kernel.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/violation.hpp"

namespace bitmma {
namespace {

using enum ViolationCode;
using test::refused;

const std::string module_text = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 count = 7;
.visible .global .align 8 .u64 where = generic(count)+0;
.visible .const .align 4 .f32 scale[2] = {0f3F800000, 0f40000000};
// adds n to count, and writes count to *p
.visible .entry add(.param .u64 p, .param .u32 n) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  ld.global.u32 %r2, [count];
  add.u32 %r3, %r1, %r2;
  st.global.u32 [count], %r3;
  st.global.u32 [%rd1], %r3;
  ret;
}
// *p = scale[1]; p[1] = *where
.visible .entry get(.param .u64 p) .reqntid 1, 1, 1 {
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  ld.const.b32 %r1, [scale+4];
  st.global.b32 [%rd1], %r1;
  ld.global.u64 %rd2, [where];
  ld.u32 %r2, [%rd2];
  st.global.b32 [%rd1+4], %r2;
  ret;
}
// A structure by value with a pointer inside: {u32 n; u64 p}
.visible .entry of_struct(.param .align 8 .b8 s[16]) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u32 %r1, [s];
  ld.param.u64 %rd1, [s+8];
  st.global.b32 [%rd1], %r1;
  ret;
}
// Two warps write one byte of shared memory, without a barrier.
.visible .entry race(.param .u64 p) {
  .shared .align 4 .b8 s[4];
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, %tid.x;
  st.shared.u32 [s], %r1;
  ret;
}
)";

template <typename... T>
std::vector<uint8_t> bytes_of(const T&... values) {
  std::vector<uint8_t> bytes;
  const auto append = [&](const auto& value) {
    const size_t at = (bytes.size() + sizeof value - 1) / sizeof value * sizeof value;
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  (append(values), ...);
  return bytes;
}

uint32_t word_at(const Memory& memory, uint64_t address) {
  std::array<uint8_t, 4> bytes;
  memory.read(address, bytes);
  return std::bit_cast<uint32_t>(bytes);
}

}  // namespace

TEST_CASE("a module tells its entries and variables, and is parsed once for all its kernels") {
  const PtxModule module(module_text);
  CHECK(module.target() == Target::sm_90a);
  REQUIRE(module.entries().size() == 4);
  const PtxEntryInfo& add = module.entries()[0];
  CHECK(add.name == "add");
  CHECK(add.parameters == std::vector<PtxParameter>{{"p", "u64", 8, 0, 8}, {"n", "u32", 4, 8, 4}});
  CHECK(add.parameter_bytes() == 12);
  CHECK(module.entries()[1].required_block == std::vector<int64_t>{1, 1, 1});
  CHECK(module.entries()[2].parameters == std::vector<PtxParameter>{{"s", "b8", 16, 0, 8}});
  const std::vector<PtxVariable> variables = module.variables();
  REQUIRE(variables.size() == 3);
  CHECK(variables[0].name == "count");
  CHECK(variables[2].space == "const");
  CHECK(variables[2].bytes == 8);
  CHECK(PtxEntry(module, {.entry = "race"}).shared_bytes() == 4);
  CHECK_THROWS_MATCHES(PtxEntry(module, {}), Error, refused(missing_argument, "entry"));
}

TEST_CASE("variables of a module keep over launches what kernels and the host write, by name") {
  const PtxModule module(module_text);
  const PtxEntry add(module, {.entry = "add"}), get(module, {.entry = "get"});
  Memory memory;
  const uint64_t p = memory.allocate(8);
  launch(add, {.parameter_bytes = bytes_of(p, uint32_t{5}), .memory = &memory});
  CHECK(word_at(memory, p) == 12);
  launch(add, {.arguments = {scalar_argument(p, 8), scalar_argument(1, 4)}, .memory = &memory});
  CHECK(word_at(memory, p) == 13);
  const Allocation count = memory.variable(module, "count");
  CHECK(word_at(memory, count.address) == 13);
  memory.write(count.address, bytes_of(uint32_t{100}));
  const Allocation scale = memory.variable(module, "scale");
  REQUIRE(scale.data.size() == 8);
  std::memcpy(scale.data.data() + 4, "\x01\x02\x03\x04", 4);
  launch(get, {.parameter_bytes = bytes_of(p), .memory = &memory});
  CHECK(word_at(memory, p) == 0x04030201);
  CHECK(word_at(memory, p + 4) == 100);  // by the address of count in an initialiser
  // Another memory, and a launch without one, begin with the initial bytes.
  Memory other;
  CHECK(word_at(other, other.variable(module, "count").address) == 7);
  std::vector<uint32_t> words(2);
  launch(add, {.arguments = {test::memory(words), scalar_argument(1, 4)}});
  CHECK(words[0] == 8);
  CHECK_THROWS_MATCHES(memory.variable(module, "nothing"), Error, refused(not_found, "variable of the module"));
}

TEST_CASE("allocations are where the caller wants them, and keep the state of each byte") {
  const PtxModule module(module_text);
  const PtxEntry of_struct(module, {.entry = "of_struct"}), get(module, {.entry = "get"});
  Memory memory;
  // The address of the host is that of the device.
  std::vector<uint32_t> host(4);
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(host.data()));
  memory.map(address, {reinterpret_cast<uint8_t*>(host.data()), 16});
  launch(of_struct, {.parameter_bytes = bytes_of(uint32_t{42}, address + 8), .memory = &memory});
  CHECK(host == std::vector<uint32_t>{0, 0, 42, 0});
  memory.allocate_at(0x10000, 64, "mine");
  CHECK(memory.written_bytes(0x10000) == 0);
  launch(of_struct, {.parameter_bytes = bytes_of(uint32_t{9}, uint64_t{0x10004}), .memory = &memory});
  CHECK(memory.written_bytes(0x10000) == 4);
  CHECK(word_at(memory, 0x10004) == 9);
  std::array<uint8_t, 8> bytes;
  CHECK_THROWS_MATCHES(memory.read(0x10000, bytes), Error, refused(unwritten_read, "mine"));
  memory.fill(0x10000, 4, 0xFF);
  CHECK(word_at(memory, 0x10000) == 0xFFFFFFFF);
  REQUIRE(memory.find(0x1003F));
  CHECK(memory.find(0x1003F)->name == "mine");
  CHECK_FALSE(memory.find(0x10040));
  // Nothing may be in the way.
  CHECK_THROWS_MATCHES(memory.allocate_at(0x1003F, 1), Error, refused(out_of_bounds, "address"));
  CHECK_THROWS_MATCHES(memory.allocate_at(0xFFFF, 2), Error, refused(out_of_bounds, "address"));
  CHECK_THROWS_MATCHES(memory.allocate_at(0x6000'0000'0000, 1), Error, refused(out_of_bounds, "address"));
  CHECK_THROWS_MATCHES(memory.allocate_at(0, 1), Error, refused(out_of_bounds, "address"));
  CHECK_THROWS_MATCHES(memory.allocate(-1), Error, refused(illegal_value, "bytes"));
  CHECK_THROWS_MATCHES(memory.allocate(int64_t{1} << 62), Error, refused(illegal_value, "bytes"));
  CHECK_THROWS_MATCHES(memory.write(0x1003C, bytes), Error, refused(out_of_bounds, "address"));
  CHECK_THROWS_MATCHES(memory.free(0x10004), Error, refused(out_of_bounds, "address"));
  memory.free(0x10000);
  memory.allocate_at(0x1003F, 1);
  // A kernel faults outside of allocations, with its code.
  try {
    (void)launch(of_struct, {.parameter_bytes = bytes_of(uint32_t{9}, uint64_t{0x10004}), .memory = &memory});
    FAIL("no fault");
  } catch (const Error& error) {
    CHECK(error.violations().front().code == ViolationCode::out_of_bounds);
  }
  // An empty allocation has an address, and is nowhere inside of another.
  const uint64_t empty = memory.allocate(0);
  CHECK(memory.written_bytes(empty) == 0);
  CHECK_THROWS_MATCHES(memory.allocate_at(empty, 4), Error, refused(out_of_bounds, "address"));
  CHECK_THROWS_MATCHES(memory.allocate_at(0x1003F, 0), Error, refused(out_of_bounds, "address"));
  // Of many allocations each is found.
  std::vector<uint64_t> all;
  for (int i = 0; i < 300; ++i) all.push_back(memory.allocate(4 + i));
  for (const uint64_t allocation : all) {
    launch(of_struct, {.parameter_bytes = bytes_of(uint32_t{1}, allocation), .memory = &memory});
    CHECK(memory.written_bytes(allocation) == 4);
  }
}

TEST_CASE("blocks that write the same bytes are told, whatever allocations and empty variables lie before") {
  const std::string_view variables = ".visible .global .align 4 .u32 count";
  std::string text = module_text;
  text.insert(text.find(variables), ".global .align 1 .b8 nothing[0];\n");
  const PtxModule module(text);
  const PtxEntry add(module, {.entry = "add"});
  Memory memory;
  memory.allocate(0);
  const uint64_t p = memory.allocate(4);
  const Launch two_blocks{.grid = {2, 1, 1}, .parameter_bytes = bytes_of(p, uint32_t{1}), .memory = &memory};
  const std::vector<Violation> warnings = launch(add, two_blocks).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings, test::refused(undefined_by_ptx, warnings[0].field));
  CHECK(word_at(memory, p) == 9);
  CHECK(memory.variable(module, "nothing").bytes == 0);
}

TEST_CASE("a launch takes the bytes of parameters or arguments, and says which do not fit") {
  const PtxModule module(module_text);
  const PtxEntry add(module, {.entry = "add"});
  Memory memory;
  std::vector<uint32_t> words(1);
  const auto refusal = [&](const Launch& call) { return test::refusal_of([&] { launch(add, call); }); };
  CHECK_THAT(refusal({.parameter_bytes = bytes_of(uint64_t{1})}), refused(illegal_value, "parameter_bytes"));
  CHECK_THAT(refusal({.arguments = {scalar_argument(1, 8), scalar_argument(1, 4)},
                      .parameter_bytes = bytes_of(uint64_t{1}, uint32_t{1})}),
             refused(not_together, "arguments"));
  CHECK_THAT(refusal({.arguments = {test::memory(words), scalar_argument(1, 4)}, .memory = &memory}),
             refused(illegal_value, "argument 0"));
}

TEST_CASE("an access to local memory may be volatile, as nvJitLink writes it") {
  CHECK(test::run_words(".local .align 8 .b8 place[8];\nmov.u64 %rd2, place;\nst.volatile.local.u64 [%rd2], 42;\n"
                        "ld.volatile.local.u32 %r2, [%rd2];\nst.global.u32 [%rd1], %r2;",
                        {7}, 1) == std::vector<uint32_t>{42});
}

TEST_CASE("races in shared memory are faults, warnings or nothing") {
  const PtxEntry race(PtxModule(module_text), {.entry = "race"});
  const auto call = [&](RaceCheck races) {
    return launch(race, {.block = {64, 1, 1}, .arguments = {scalar_argument(0, 8)}, .races = races});
  };
  try {
    (void)call(RaceCheck::fault);
    FAIL("no fault");
  } catch (const Error& error) {
    CHECK(error.violations().front().code == ViolationCode::shared_memory_race);
  }
  const auto codes = [](const LaunchReport& report) {
    std::vector<ViolationCode> all;
    for (const Violation& warning : report.warnings) all.push_back(warning.code);
    return all;
  };
  CHECK(codes(call(RaceCheck::warning)) ==
        std::vector{ViolationCode::undefined_by_ptx, ViolationCode::shared_memory_race});
  CHECK(codes(call(RaceCheck::off)) == std::vector{ViolationCode::undefined_by_ptx});
}

TEST_CASE("an encoded tensor map in the bytes of parameters is the map of an argument") {
  std::vector<uint8_t> tensor(256);
  const TensorMap map{.element_bytes = 1, .sizes = {16, 16}, .strides_bytes = {16}, .box = {16, 16}};
  const auto encoded = encode_tensor_map(map, 0x1000);
  CHECK(encoded.size() == 128);
  CHECK(encoded != encode_tensor_map(map, 0x2000));
  CHECK_THROWS_MATCHES(encode_tensor_map(map, 0x1008), Error, refused(illegal_value, "tensor map: address"));
  TensorMap wrong = map;
  wrong.box = {512, 1};
  CHECK_THROWS_MATCHES(encode_tensor_map(wrong, 0x1000), Error, refused(illegal_value, "tensor map: box[0]"));
}

TEST_CASE("a race with the asynchronous proxy is a fault, a warning or nothing") {
  // Thread 0 writes what thread 32 copies, and no barrier is between them.
  const PtxEntry race(PtxModule(R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry race(.param .u64 p)
{
.reg .pred %q<3>;
.reg .b32 %r<4>;
.reg .b64 %rd<3>;
.shared .align 16 .b8 s[16];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
setp.eq.u32 %q1, %r1, 0;
setp.eq.u32 %q2, %r1, 32;
@%q1 st.shared.v4.b32 [%r2], {%r1, %r1, %r1, %r1};
@!%q2 bra done;
fence.proxy.async;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
done:
ret;
}
)"),
                      {.entry = "race"});
  const auto codes = [&](RaceCheck races) {
    std::vector<uint32_t> words(4, 7);
    std::vector<ViolationCode> all;
    try {
      const LaunchReport done = launch(race, {.block = {64, 1, 1}, .arguments = {test::memory(words)}, .races = races});
      for (const Violation& warning : done.warnings) all.push_back(warning.code);
      CHECK(words == std::vector<uint32_t>(4, 0));
    } catch (const Error& error) {
      for (const Violation& violation : error.violations()) all.push_back(violation.code);
    }
    return all;
  };
  CHECK(codes(RaceCheck::fault) == std::vector{ViolationCode::shared_memory_race});
  CHECK(codes(RaceCheck::warning) == std::vector{ViolationCode::shared_memory_race});
  CHECK(codes(RaceCheck::off).empty());
}

TEST_CASE("copies within a memory carry which bytes are written") {
  Memory memory;
  const uint64_t one = memory.allocate(8), other = memory.allocate(8);
  const std::array<uint8_t, 2> bytes{5, 6};
  memory.write(one + 1, bytes);
  CHECK_FALSE(memory.is_written(one, 3));
  CHECK(memory.is_written(one + 1, 2));
  memory.fill(other, 8, 9);
  memory.copy(other + 4, one, 4);
  CHECK(memory.is_written(other, 4));
  CHECK_FALSE(memory.is_written(other + 4, 1));
  CHECK(memory.is_written(other + 5, 2));
  CHECK(memory.written_bytes(other) == 6);
  std::array<uint8_t, 2> copied{};
  memory.read(other + 5, copied);
  CHECK(copied == bytes);
  memory.copy(one, one + 1, 3);  // overlaps
  CHECK(memory.is_written(one, 2));
  CHECK_THROWS_AS(memory.copy(other + 5, one, 4), Error);
  CHECK_THROWS_AS(memory.is_written(other, 9), Error);
}

}  // namespace bitmma
