// Fat binaries that nvcc made (data/fatbins), and damaged ones.
#include "driver/fatbin.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "bitmma/core/error.hpp"
#include "driver/image.hpp"
#include "driver/lz4.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;
using namespace bitmma::driver;
using namespace bitmma::test;

namespace {

std::vector<uint8_t> fatbin(const std::string& name) {
  const std::string text = read_text(oracle_path(name + ".fatbin"));
  return {text.begin(), text.end()};
}

std::string target_of(const std::string& ptx) {
  const size_t at = ptx.find(".target ");
  return ptx.substr(at + 8, ptx.find_first_of(",\n", at) - at - 8);
}

std::string entries_of(const std::string& name) {
  std::string text;
  for (const FatbinEntry& entry : fatbin_entries(fatbin(name)))
    text +=
        fmt::format("{} {} {}; ", static_cast<int>(entry.kind), entry.target(), static_cast<int>(entry.compression));
  return text;
}

ViolationCode refusal(const std::vector<uint8_t>& container, Target device = Target::sm_90a) {
  try {
    (void)fatbin_ptx(container, device);
  } catch (const Error& error) {
    return error.violations().front().code;
  }
  return ViolationCode::internal_error;
}

void put32(std::vector<uint8_t>& bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> 8 * i);
}

}  // namespace

TEST_CASE("entries of a fat binary have the kind, target and compression that nvcc was told") {
  // Kinds: 0 PTX, 1 SASS, 2 LTO IR. Compressions: 0 none, 1 LZ4, 2 zstd.
  CHECK(entries_of("default") == "1 sm_75 0; 0 sm_75 2; ");
  CHECK(entries_of("sm_90") == "1 sm_90 0; 0 sm_90 2; ");
  CHECK(entries_of("sm_90a") == "0 sm_90 2; 1 sm_90a 0; 0 sm_90a 2; ");
  CHECK(entries_of("lz4") == "0 sm_90 1; 1 sm_90a 0; 0 sm_90a 1; ");
  CHECK(entries_of("zstd_all") == "0 sm_90 2; 1 sm_90a 2; 0 sm_90a 2; ");
  CHECK(entries_of("uncompressed") == "0 sm_90 0; 1 sm_90a 0; 0 sm_90a 0; ");
  CHECK(entries_of("three") == "0 sm_80 2; 0 sm_90 2; 0 sm_100 2; ");
  CHECK(entries_of("later") == "0 sm_100f 2; 0 sm_103a 2; ");
  CHECK(entries_of("cubin") == "1 sm_90a 0; ");
  CHECK(entries_of("lto_ir") == "2 sm_90a 2; ");
  CHECK(entries_of("named") == "0 sm_90a 2; ");
}

TEST_CASE("every entry of PTX has the target that its header says, whatever its compression") {
  int entries = 0;
  for (const char* const name :
       {"default", "sm_90", "sm_90a", "lz4", "zstd_all", "uncompressed", "three", "later", "named"}) {
    const std::vector<uint8_t> container = fatbin(name);
    for (const FatbinEntry& entry : fatbin_entries(container)) {
      if (entry.kind != FatbinKind::ptx) continue;
      const std::string ptx = fatbin_payload(entry);
      CHECK(target_of(ptx) == entry.target());
      CHECK(ptx.find(".visible .entry scale(") != std::string::npos);
      CHECK(ptx.find('\0') == std::string::npos);
      ++entries;
    }
  }
  CHECK(entries == 16);
  CHECK(fatbin_ptx(fatbin("lz4"), Target::sm_90a) == fatbin_ptx(fatbin("uncompressed"), Target::sm_90a));
  CHECK(fatbin_ptx(fatbin("sm_90a"), Target::sm_90a) == fatbin_ptx(fatbin("uncompressed"), Target::sm_90a));
}

TEST_CASE("PTX runs on the GPUs for which ptxas takes its target: all pairs") {
  // What `ptxas -arch` of CUDA 13.0 takes for a kernel with each .target, one row a target from sm_80 on. It knows
  // neither sm_107 nor, as a GPU, sm_101, which is a name of sm_110.
  const std::map<std::string_view, std::string_view> after{
      {"sm_80", "80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_86", "86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_87", "87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_88", "88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_89", "89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_90", "90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_90a", "90a"},
      {"sm_100", "100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_100a", "100a"},
      {"sm_100f", "100 100a 100f 103 103a 103f"},
      {"sm_101", "103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_101a", "110a"},
      {"sm_101f", "110 110a 110f"},
      {"sm_103", "103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_103a", "103a"},
      {"sm_103f", "103 103a 103f"},
      {"sm_110", "110 110a 110f 120 120a 120f 121 121a 121f"},
      {"sm_110a", "110a"},
      {"sm_110f", "110 110a 110f"},
      {"sm_120", "120 120a 120f 121 121a 121f"},
      {"sm_120a", "120a"},
      {"sm_120f", "120 120a 120f 121 121a 121f"},
      {"sm_121", "121 121a 121f"},
      {"sm_121a", "121a"},
      {"sm_121f", "121 121a 121f"}};
  int pairs = 0;
  for (const TargetInfo& code : targets) {
    const auto gpus = after.find(code.name);
    if (gpus == after.end()) continue;
    for (const TargetInfo& gpu : targets) {
      if (info(gpu.id).chip == Target::sm_107 || gpu.name.starts_with("sm_101") || gpu.id < Target::sm_80) continue;
      INFO(code.name << " on " << gpu.name);
      const std::string list = " " + std::string(gpus->second) + " ";
      CHECK(runs_on(code.id, gpu.id) == (list.find(" " + std::string(gpu.name.substr(3)) + " ") != std::string::npos));
      ++pairs;
    }
  }
  CHECK(pairs == 25 * 22);

  for (const TargetInfo& code : targets) {
    CHECK(runs_on(code.id, code.id));
    for (const TargetInfo& gpu : targets) {
      INFO(code.name << " on " << gpu.name);
      // Older code, and code for the other name of one GPU.
      if (code.id < Target::sm_80) CHECK(runs_on(code.id, gpu.id) == (code.id <= gpu.id));
      if (gpu.name.starts_with("sm_101"))
        CHECK(runs_on(code.id, gpu.id) == runs_on(code.id, parse_target("sm_110" + std::string(gpu.name.substr(6)))));
    }
  }
  // By the rule of the others; no ptxas that knows sm_107 was at hand.
  for (const Target code : {Target::sm_100f, Target::sm_103f, Target::sm_107f, Target::sm_103})
    CHECK(runs_on(code, Target::sm_107a));
  for (const Target code : {Target::sm_100a, Target::sm_101f, Target::sm_110, Target::sm_120f})
    CHECK_FALSE(runs_on(code, Target::sm_107a));
}

TEST_CASE("a device gets the PTX of the highest target that it runs") {
  const auto chosen = [](const char* name, Target device) { return target_of(fatbin_ptx(fatbin(name), device)); };
  CHECK(chosen("default", Target::sm_90a) == "sm_75");
  CHECK(chosen("sm_90a", Target::sm_90a) == "sm_90a");
  CHECK(chosen("sm_90a", Target::sm_90) == "sm_90");
  CHECK(chosen("sm_90a", Target::sm_100a) == "sm_90");
  CHECK(chosen("three", Target::sm_86) == "sm_80");
  CHECK(chosen("three", Target::sm_90a) == "sm_90");
  CHECK(chosen("three", Target::sm_120a) == "sm_100");
  CHECK(chosen("later", Target::sm_100a) == "sm_100f");
  CHECK(chosen("later", Target::sm_103a) == "sm_103a");
  CHECK(chosen("named", Target::sm_90a) == "sm_90a");
}

TEST_CASE("a fat binary without PTX for the device is refused with the flags that embed it") {
  for (const char* const name : {"cubin", "lto_ir", "later"})
    CHECK(refusal(fatbin(name)) == ViolationCode::unsupported_target);
  CHECK(refusal(fatbin("named"), Target::sm_80) == ViolationCode::unsupported_target);
  try {
    (void)fatbin_ptx(fatbin("cubin"), Target::sm_90a);
    FAIL("a cubin has no PTX");
  } catch (const Error& error) {
    CHECK(error.violations().front().seen == "SASS for sm_90a");
    CHECK(error.violations().front().fix.find("-gencode arch=compute_90a,code=compute_90a") != std::string::npos);
  }
}

TEST_CASE("damaged fat binaries are refused: every cut, every length, every byte of the headers") {
  const std::vector<uint8_t> whole = fatbin("named");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    CHECK(refusal({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)}) == ViolationCode::malformed);
  // Magic, versions and the lengths: container's, entry's header, payload, compressed and uncompressed bytes.
  for (const size_t at : {0, 8, 12, 20, 24, 28, 32, 72}) {
    std::vector<uint8_t> damaged = whole;
    put32(damaged, at, 0xfffffff1);
    INFO("offset " << at);
    CHECK(refusal(damaged) == ViolationCode::malformed);
  }
  for (const char* const name : {"named", "lz4"}) {
    const std::vector<uint8_t> container = fatbin(name);
    int accepted = 0;
    for (size_t at = 0; at < container.size(); ++at) {
      std::vector<uint8_t> damaged = container;
      damaged[at] ^= 0x15;
      try {
        (void)fatbin_ptx(damaged, Target::sm_90a);
        ++accepted;  // of another byte of the text, or one that no reader uses
      } catch (const Error&) {
      }
    }
    CHECK(accepted < static_cast<int>(container.size()));
  }
}

TEST_CASE("blocks of LZ4: literals, matches that overlap, long lengths, and what is none") {
  const auto decompressed = [](std::vector<uint8_t> from, size_t bytes) {
    std::string text(bytes, '?');
    const bool is_whole = decompress_lz4(from, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
    return is_whole ? text : "refused";
  };
  CHECK(decompressed({0x30, 'a', 'b', 'c'}, 3) == "abc");
  CHECK(decompressed({0x14, 'a', 1, 0, 0x10, 'b'}, 10) == "aaaaaaaaab");  // 8 of distance 1
  CHECK(decompressed({0x2f, 'a', 'b', 2, 0, 1, 0x10, 'c'}, 23) ==
        "ababababababababababab"
        "c");  // 15 + 1 + 4
  CHECK(decompressed({0x30, 'a', 'b', 'c'}, 4) == "refused");
  CHECK(decompressed({0x30, 'a', 'b', 'c'}, 2) == "refused");
  CHECK(decompressed({0x30, 'a', 'b'}, 3) == "refused");
  CHECK(decompressed({0x14, 'a', 2, 0, 0x10, 'b'}, 10) == "refused");  // before the beginning
  CHECK(decompressed({0x14, 'a', 0, 0, 0x10, 'b'}, 10) == "refused");
  CHECK(decompressed({0x14, 'a', 1}, 9) == "refused");
  CHECK(decompressed({0xf0, 255, 255}, 9) == "refused");
  CHECK(decompressed({}, 0) == "refused");
}

TEST_CASE("an image is text, a container, or nvcc's wrapper of one container or of several to be linked") {
  const std::vector<uint8_t> container = fatbin("named"), cubin = fatbin("cubin");
  const std::string ptx = fatbin_ptx(container, Target::sm_90a);
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const uint8_t* container = nullptr;
    const uint8_t* const* containers = nullptr;
  } wrapper;
  wrapper.container = container.data();
  CHECK(ptx_of_image(container.data(), Target::sm_90a) == ptx);
  CHECK(ptx_of_image(&wrapper, Target::sm_90a) == ptx);
  CHECK(ptx_of_image(ptx.c_str(), Target::sm_90a) == ptx);
  CHECK(ptx_of_image("", Target::sm_90a).empty());
  CHECK(ptx_of_image("//", Target::sm_90a) == "//");
  // With -rdc=true: containers without PTX, as that of libcudadevrt, are left out.
  const uint8_t* const containers[] = {cubin.data(), container.data(), nullptr};
  wrapper.version = 2, wrapper.containers = containers;
  CHECK(ptx_of_image(&wrapper, Target::sm_90a).find(".visible .entry scale(") != std::string::npos);
  wrapper.containers = containers + 2;
  CHECK_THROWS_AS(ptx_of_image("\177ELF\2\1\1", Target::sm_90a), Error);
}
