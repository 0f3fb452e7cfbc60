#include "bitmma/core/target_names.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using enum Target;

TEST_CASE("a target is meant by its PTX name in any spelling, which keeps its letter") {
  for (const TargetInfo& row : targets) {
    const std::string digits(row.name.substr(3));
    for (const std::string& text : {std::string(row.name), "sm" + digits, "SM_" + digits, "SM" + digits,
                                    "compute_" + digits, " sm_" + digits + " "}) {
      INFO("\"" << text << "\"");
      CHECK(target_meant_by(text) == row.id);
      CHECK(target_from(text) == row.id);
    }
  }
  CHECK(target_meant_by("sm90") == sm_90);
  CHECK(target_meant_by("SM_90A") == sm_90a);
}

TEST_CASE("a compute capability is the GPU, with the features of its own") {
  const std::vector<std::pair<std::string, Target>> known{
      {"9.0", sm_90a},    {"(9, 0)", sm_90a}, {"9,0", sm_90a},   {"90", sm_90a},
      {"9.0a", sm_90a},   {"90a", sm_90a},    {"8.6", sm_86},    {"[8, 9]", sm_89},
      {"10.0", sm_100a},  {"100", sm_100a},   {"103", sm_103a},  {"(12, 0)", sm_120a},
      {"12.0f", sm_120f}, {"7.5", sm_75},     {"11.0", sm_110a}, {"12.1", sm_121a}};
  for (const auto& [text, target] : known) {
    INFO(text);
    CHECK(target_meant_by(text) == target);
  }
  for (const char* text : {"-9.0", "-90", "9", "9.00", "9.0.0", "9.9", "0.9", "9-0", "90b", "1e2", "(9, 0, 0)"}) {
    INFO(text);
    CHECK(targets_meant_by(text).empty());
  }
}

TEST_CASE("a GPU is meant by the names that shops, drivers and torch.cuda.get_device_name() have for it") {
  const std::vector<std::pair<std::string, Target>> known{
      {"H100", sm_90a},
      {"h100", sm_90a},
      {"NVIDIA H100 80GB HBM3", sm_90a},
      {"H200 NVL", sm_90a},
      {"GH200", sm_90a},
      {"NVIDIA GH200 480GB", sm_90a},
      {"H100 Hopper", sm_90a},
      {"H100-SXM5", sm_90a},
      {"DGX H100", sm_90a},
      {"A100", sm_80},
      {"NVIDIA A100-SXM4-40GB", sm_80},
      {"NVIDIA A100 80GB PCIe", sm_80},
      {"A30", sm_80},
      {"V100", sm_70},
      {"Tesla V100-SXM2-16GB", sm_70},
      {"TITAN V", sm_70},
      {"Xavier", sm_72},
      {"T4", sm_75},
      {"Tesla T4", sm_75},
      {"NVIDIA GeForce RTX 2080 Ti", sm_75},
      {"Quadro RTX 6000", sm_75},
      {"A10G", sm_86},
      {"RTX 3090", sm_86},
      {"rtx3080ti", sm_86},
      {"NVIDIA RTX A6000", sm_86},
      {"A40", sm_86},
      {"Jetson AGX Orin", sm_87},
      {"L4", sm_89},
      {"L40S", sm_89},
      {"RTX 4090", sm_89},
      {"NVIDIA GeForce RTX 4070 Ti SUPER", sm_89},
      {"rtx-4090", sm_89},
      {"NVIDIA GeForce RTX 4090 Laptop GPU", sm_89},
      {"NVIDIA RTX 6000 Ada Generation", sm_89},
      {"RTX 5000 Ada", sm_89},
      {"B200", sm_100a},
      {"GB200", sm_100a},
      {"GB200 NVL72", sm_100a},
      {"B300", sm_103a},
      {"GB300", sm_103a},
      {"Rubin", sm_107a},
      {"Vera Rubin", sm_107a},
      {"Thor", sm_110a},
      {"Jetson Thor", sm_110a},
      {"RTX 5090", sm_120a},
      {"rtx5090", sm_120a},
      {"RTX 5060 Ti", sm_120a},
      {"RTX PRO 6000", sm_120a},
      {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", sm_120a},
      {"GB10", sm_121a},
      {"DGX Spark", sm_121a},
      {"Spark", sm_121a},
      {"hopper", sm_90a},
      {"Ada", sm_89},
      {"Ada Lovelace", sm_89},
      {"turing", sm_75},
      {"VOLTA", sm_70}};
  for (const auto& [text, target] : known) {
    INFO(text);
    CHECK(target_meant_by(text) == target);
  }
}

TEST_CASE("every name of the table means its target, and every card of the table of targets has a name") {
  for (const GpuNames& row : gpu_names()) {
    for (const std::string& name : row.names) {
      INFO(name);
      CHECK(targets_meant_by(name).contains(row.target));
    }
  }
  for (const TargetInfo& row : targets) {
    const std::string cards(row.gpu);
    for (size_t from = 0; from < cards.size();) {
      const size_t end = std::min(cards.find(", ", from), cards.size());
      INFO(cards.substr(from, end - from));
      const std::optional<Target> target = target_meant_by(cards.substr(from, end - from));
      REQUIRE(target.has_value());
      CHECK(info(*target).chip == row.chip);
      from = end + 2;
    }
  }
}

TEST_CASE("a name of several GPUs is refused with all of them") {
  const std::vector<std::pair<std::string, TargetSet>> known{
      {"blackwell", {sm_100a, sm_103a, sm_110a, sm_120a, sm_121a}},
      {"Ampere", {sm_80, sm_86, sm_87}},
      {"RTX 6000", {sm_75, sm_89, sm_120a}}};
  for (const auto& [text, meant] : known) {
    INFO(text);
    CHECK(targets_meant_by(text) == meant);
    CHECK_FALSE(target_meant_by(text));
    try {
      target_from(text, "--target");
      FAIL("one target?");
    } catch (const Error& error) {
      const Violation& violation = error.violations().front();
      CHECK(violation.code == ViolationCode::unknown_name);
      CHECK(violation.field == "--target");
      REQUIRE_FALSE(violation.legal.empty());
      for (const std::string& name : violation.legal) CHECK(meant.contains(*target_named(name)));
    }
  }
}

TEST_CASE("what names no target is refused with the nearest name and with all of them") {
  const std::vector<std::pair<std::string, std::string>> slips{
      {"H10O", "H100"}, {"RTX 4O90", "RTX 4090"}, {"sm_09a", "sm_90a"}, {"hoper", "hopper"}, {"L40s0", "L40S"}};
  for (const auto& [text, meant] : slips) {
    INFO(text);
    try {
      target_from(text);
      FAIL("a target?");
    } catch (const Error& error) {
      CHECK_THAT(error.violations().front().fix, ContainsSubstring(meant));
    }
  }
  for (const char* text : {"", " ", "sm_91", "sm_", "sm", "H100 Ampere", "RTX", "NVIDIA", "GTX 1080", "P100",
                           "Jetson Nano", "H100 and A100", "MI300X", "sm_90a!", "H100\n", "\xED\xB2\x80"}) {
    INFO("\"" << text << "\"");
    CHECK(targets_meant_by(text).empty());
    try {
      target_from(text);
      FAIL("a target?");
    } catch (const Error& error) {
      const Violation& violation = error.violations().front();
      CHECK(violation.code == ViolationCode::unknown_name);
      CHECK(violation.field == "target");
      CHECK(violation.legal == row_names(targets));
      CHECK_FALSE(violation.fix.empty());
    }
  }
  try {
    target_from(std::string(100000, 'x'));
    FAIL("a target?");
  } catch (const Error& error) {
    CHECK(error.violations().front().seen.size() <= 83);
  }
}
