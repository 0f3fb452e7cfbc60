// Files of launches that were recorded on a GPU.
#include "bitmma/acts/launch_file.hpp"

#include <fmt/format.h>

#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// y[i] = x[i] * scale + 1 for a block of threads; y may be in the midst of its memory.
constexpr std::string_view ptx =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry scaled(.param .u64 x, .param .u64 y, .param .f32 scale)\n{\n"
    ".reg .b64 %rd<5>;\n.reg .b32 %r<3>;\n.reg .f32 %f<5>;\n"
    "ld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [y];\nld.param.f32 %f1, [scale];\nmov.u32 %r1, %tid.x;\n"
    "mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, %rd3;\nld.global.f32 %f2, [%rd1];\n"
    "fma.rn.f32 %f3, %f2, %f1, 0f3F800000;\nst.global.f32 [%rd2], %f3;\nret;\n}\n";

std::vector<uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(4 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void set(TensorFile& file, const std::string& name, std::vector<uint8_t> bytes) {
  const auto size = std::ssize(bytes);
  file.set(Tensor::from_bytes(name, "U8", {size}, std::move(bytes)));
}

constexpr std::string_view one_launch =
    R"([{"entry": "scaled", "label": "first", "ptx": 0, "grid": [1], "block": [2, 1, 1], "arguments":
        [{"memory": 0}, {"memory": 1, "offset": 4}, {"value": "00000040"}]}])";

TensorFile file_of(std::string_view launches = one_launch) {
  TensorFile file{.path = "launches.safetensors"};
  file.set_metadata("launches", std::string(launches));
  file.set_metadata("target", "H100");
  file.set_metadata("gpu", "NVIDIA H100");
  set(file, "ptx.0", bytes_of(ptx));
  set(file, "before.0.0", bytes_of(std::vector<float>{1, 2}));
  set(file, "before.0.1", bytes_of(std::vector<float>{7, 8, 9}));
  set(file, "after.0.1", bytes_of(std::vector<float>{7, 3, 5}));
  return file;
}

}  // namespace

TEST_CASE("a recorded launch runs again and leaves what the GPU left") {
  CHECK(has_launches(file_of()));
  const LaunchFile file = as_launch_file(file_of());
  REQUIRE(file.launches.size() == 1);
  CHECK(file.launches[0].label == "first");
  CHECK(file.launches[0].memories == 2);
  CHECK(file.target == Target::sm_90a);
  int64_t done = 0;
  const std::vector<LaunchComparison> compared = verify(file, 2, [&](int64_t launches) { done = launches; });
  REQUIRE(compared.size() == 1);
  CHECK(done == 1);
  CHECK(compared[0].refused.empty());
  CHECK(compared[0].changed_bytes > 0);
  CHECK(compared[0].differing_bytes == 0);
  CHECK_FALSE(compared[0].first);
  CHECK(compared[0].thread_instructions == 22);
}

TEST_CASE("a recorded launch that left something else is told with its first byte") {
  TensorFile other = file_of();
  set(other, "after.0.1", bytes_of(std::vector<float>{7, 3, 6}));
  LaunchComparison compared = verify(as_launch_file(other)).front();
  CHECK(compared.differing_bytes == 1);
  REQUIRE(compared.first);
  CHECK(compared.first->memory == 1);
  CHECK(compared.first->offset == 10);
  CHECK(compared.first->expected == 0xC0);
  CHECK(compared.first->actual == 0xA0);
  TensorFile unchanged = file_of();  // without after.0.1 the memory is as before
  unchanged.erase("after.0.1");
  compared = verify(as_launch_file(unchanged)).front();
  CHECK(compared.changed_bytes == 0);
  CHECK(compared.differing_bytes > 0);
}

TEST_CASE("a recorded launch that cannot run is refused with its reason, and the others are compared") {
  TensorFile file = file_of(
      R"([{"entry": "scaled", "ptx": 0, "grid": [1], "block": [2], "arguments": [{"memory": 0}]},
          {"entry": "none", "ptx": 0, "grid": [1], "block": [2], "arguments": []},
          {"entry": "scaled", "ptx": 0, "grid": [1], "block": [1], "arguments":
             [{"scratch": 4}, {"memory": 0}, {"value": "00000040"}]},
          {"entry": "scaled", "ptx": 0, "grid": [1], "block": [2], "arguments":
             [{"scratch": 4}, {"memory": 0}, {"value": "00000040"}]}])");
  file.erase("before.0.1"), file.erase("after.0.1");
  set(file, "before.1.0", {0});
  for (const char* name : {"before.2.0", "before.3.0"}) set(file, name, std::vector<uint8_t>(8));
  const std::vector<LaunchComparison> compared = verify(as_launch_file(file));
  REQUIRE(compared.size() == 4);
  CHECK_FALSE(compared[0].refused.empty());
  CHECK_FALSE(compared[1].refused.empty());
  CHECK(compared[2].refused.empty());
  REQUIRE_FALSE(compared[3].refused.empty());  // the second thread reads beyond the end
  CHECK(compared[3].refused[0].code == ViolationCode::out_of_bounds);
}

namespace {

/// The first violation of the only launch; its field is empty if it was not refused.
Violation refusal_of(const TensorFile& file, const LaunchLimits& limits = {}) {
  const LaunchComparison compared = verify(as_launch_file(file), 1, {}, limits).front();
  CHECK((compared.refused.empty() || compared.compared_bytes == 0));
  return compared.refused.empty() ? Violation{} : compared.refused.front();
}

std::string with_arguments(std::string_view arguments, std::string_view grid = "1") {
  return fmt::format(R"([{{"entry": "scaled", "ptx": 0, "grid": [{}], "block": [2], "arguments": [{}]}}])", grid,
                     arguments);
}

constexpr std::string_view endless =
    ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry scaled(.param .u64 x)\n{\n$L: bra $L;\n}\n";

}  // namespace

TEST_CASE("a recorded launch without memory to compare is refused") {
  TensorFile file = file_of(with_arguments(R"({"scratch": 8}, {"scratch": 8}, {"value": "00000040"})"));
  for (const char* name : {"before.0.0", "before.0.1", "after.0.1"}) file.erase(name);
  CHECK(refusal_of(file).code == ViolationCode::not_found);
  set(file, "before.0.0", {});  // no byte
  CHECK(refusal_of(file).code == ViolationCode::not_found);
  CHECK(verify(as_launch_file(file_of())).front().compared_bytes == 20);
}

TEST_CASE("a recorded launch that needs more memory or instructions than the limits is refused before it runs") {
  for (const auto& [bytes, is_refused] : {std::pair{"7000000000", true}, {"1099511627776", true}, {"100000", false}}) {
    const TensorFile file =
        file_of(with_arguments(fmt::format(R"({{"memory": 0}}, {{"scratch": {}}}, {{"value": "00000040"}})", bytes)));
    CHECK((refusal_of(file).field == "launches[0].arguments[1].scratch") == is_refused);
  }
  // The sum counts, and the recorded memory, 20 bytes.
  const TensorFile file = file_of(with_arguments(R"({"scratch": 1000}, {"scratch": 1000}, {"value": "00000040"})"));
  CHECK(refusal_of(file, {.memory_bytes = 2020}).field.empty());
  CHECK(refusal_of(file, {.memory_bytes = 2019}).field == "launches[0].arguments[1].scratch");
  CHECK(refusal_of(file, {.memory_bytes = 1019}).field == "launches[0].arguments[0].scratch");
  CHECK(refusal_of(file, {.memory_bytes = 19}).field == "launches[0]");
  for (const std::string_view grid : {"2147483647, 65535, 65535", "2147483647, 2147483647, 2147483647", "2147483648"}) {
    std::string field;
    try {
      field = refusal_of(file_of(with_arguments(R"({"memory": 0}, {"memory": 1}, {"value": "00000040"})", grid))).field;
    } catch (const Error& error) {  // refused by the reader, which names the file
      field = error.violations().front().field;
    }
    CHECK((field == "launches[0].grid" || field == "launches.safetensors: launches[0].grid"));
  }
  TensorFile loop = file_of(with_arguments(R"({"memory": 0})"));
  set(loop, "ptx.0", bytes_of(endless));
  CHECK(refusal_of(loop, {.instructions = 100'000}).code == ViolationCode::deadlock);
}

TEST_CASE("the blocks of a recorded cooperative launch may wait for each other") {
  // Block 0 waits for a word that block 1 writes.
  constexpr std::string_view waits =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry waits(.param .u64 p)\n{\n.reg .b64 %rd<2>;\n"
      ".reg .b32 %r<3>;\n.reg .pred %p<3>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, "
      "0;\n@%p1 bra SET;\nWAIT: ld.acquire.gpu.u32 %r2, [%rd1];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra WAIT;\nret;\n"
      "SET: st.release.gpu.u32 [%rd1], 1;\nret;\n}\n";
  for (const bool is_cooperative : {true, false}) {
    TensorFile file{.path = "launches.safetensors"};
    file.set_metadata("target", "H100");
    file.set_metadata("launches", fmt::format(R"([{{"entry": "waits", "ptx": 0, "grid": [2], "block": [1],
                                                  "cooperative": {}, "arguments": [{{"memory": 0}}]}}])",
                                              is_cooperative));
    set(file, "ptx.0", bytes_of(waits));
    set(file, "before.0.0", {0, 0, 0, 0});
    set(file, "after.0.0", {1, 0, 0, 0});
    const LaunchComparison compared = verify(as_launch_file(file)).front();
    CHECK(compared.refused.empty() == is_cooperative);
    CHECK((compared.changed_bytes == 1 && compared.differing_bytes == 0) == is_cooperative);
    if (!is_cooperative) CHECK(compared.refused.front().code == ViolationCode::deadlock);
  }
}

TEST_CASE("a file of launches that is not as it must be is refused with the key") {
  struct Row {
    std::string launches;
    test::Refusal refusal;
  };
  const auto with = [](std::string_view from, std::string_view to) {
    std::string text(one_launch);
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  for (const Row& row : std::initializer_list<Row>{
           {"", {malformed, "launches.safetensors: launches"}},
           {"{}", {malformed, "launches.safetensors: launches"}},
           {with("\"ptx\": 0", "\"ptx\": 1"), {illegal_value, "launches.safetensors: launches[0].ptx"}},
           {with("\"entry\"", "\"name\""), {unknown_name, "launches.safetensors: launches[0]"}},
           {with("[2, 1, 1]", "[0]"), {illegal_value, "launches.safetensors: launches[0].block"}},
           {with("[2, 1, 1]", "[1, 1, 1, 1]"), {illegal_value, "launches.safetensors: launches[0].block"}},
           {with("\"memory\": 0", "\"memory\": 2"),
            {illegal_value, "launches.safetensors: scaled.arguments[0].memory"}},
           {with("\"memory\": 0", "\"memory\": -1"),
            {illegal_value, "launches.safetensors: scaled.arguments[0].memory"}},
           {with("\"memory\": 0", "\"scratch\": -1"),
            {illegal_value, "launches.safetensors: scaled.arguments[0].scratch"}},
           {with("\"value\": \"00000040\"", "\"value\": \"0000004\""),
            {illegal_value, "launches.safetensors: scaled.arguments[2].value"}},
           {with("\"value\": \"00000040\"", "\"value\": \"0000004g\""),
            {illegal_value, "launches.safetensors: scaled.arguments[2].value"}},
           {with("\"value\": \"00000040\"", "\"value\": \"00\", \"offset\": 1"),
            {illegal_value, "launches.safetensors: scaled.arguments[2].offset"}},
           {with("\"value\": \"00000040\"", "\"value\": \"00\", \"memory\": 0"),
            {illegal_value, "launches.safetensors: scaled.arguments[2]"}},
           {with("\"memory\": 0", "\"memory\": 0, \"map\": {\"sizes\": [4]}"),
            {missing_input, "launches.safetensors: scaled.arguments[0].map.element_bytes"}}}) {
    INFO(row.launches);
    try {
      as_launch_file(file_of(row.launches));
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK_THAT(error, refused(row.refusal));
      CHECK(error.violations().front().field.starts_with("launches.safetensors: "));
    }
  }
  TensorFile file = file_of();
  file.erase_metadata("target");
  CHECK_THROWS_MATCHES(as_launch_file(file), Error, refused(missing_input, "launches.safetensors: target"));
  file = file_of();
  set(file, "after.0.1", {1, 2});
  CHECK_THROWS_MATCHES(as_launch_file(file), Error, refused(wrong_shape, "launches.safetensors: after.0.1"));
  file = file_of();
  set(file, "before.1.0", {1, 2});
  CHECK_THROWS_MATCHES(as_launch_file(file), Error,
                       refused(unknown_key, "launches.safetensors: tensor of a file of launches"));
  file = file_of();
  file.set_metadata("targets", "sm_90a");
  CHECK_THROWS_MATCHES(as_launch_file(file), Error,
                       refused(unknown_key, "launches.safetensors: key of a file of launches"));
  file = file_of();
  file.erase("ptx.0");
  CHECK_THROWS_MATCHES(as_launch_file(file), Error, refused(missing_input, "launches.safetensors: ptx.0"));
}

TEST_CASE(
    "launches of published libraries, of torch.compile and of single instructions leave what an H100 or an H200 left") {
  for (const auto& [name, launches] : {std::pair{"libraries", 93},
                                       {"inductor", 69},
                                       {"descriptors", 2},
                                       {"instructions", 1154},
                                       {"programs", 678},
                                       {"scalar_video", 514}}) {
    LaunchFile file = as_launch_file(read_tensor_file(test::oracle_path(fmt::format("{}.safetensors", name))));
    CHECK(std::ssize(file.launches) == launches);
    file.launches.resize(std::min<size_t>(file.launches.size(), test::amount(40, 10'000, 10'000)));
    int64_t changed = 0;
    const std::vector<LaunchComparison> compared = verify(file, 2);
    for (size_t i = 0; i < compared.size(); ++i) {
      INFO(name << ": launch " << i << ", " << file.launches[i].entry);
      CHECK(compared[i].refused.empty());
      CHECK(compared[i].differing_bytes == 0);
      changed += compared[i].changed_bytes;
    }
    CHECK(changed > 40 * std::ssize(compared));
  }
}
