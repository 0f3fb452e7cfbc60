// SPDX-License-Identifier: MIT
// Targets: the GPUs by their PTX names, one row each. The same mnemonic gives other bits on another target, so legality
// and arithmetic are looked up by target, and files, results and evidence name theirs.
//
//   sm_86 adds like sm_80: a target without rows of arithmetic uses those of another target.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "bitmma/core/table.hpp"

namespace bitmma {

enum class Target : uint8_t {
  // clang-format off
  sm_70, sm_72, sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a,
  sm_100, sm_100a, sm_100f, sm_101, sm_101a, sm_101f, sm_103, sm_103a, sm_103f, sm_107, sm_107a, sm_107f,
  sm_110, sm_110a, sm_110f, sm_120, sm_120a, sm_120f, sm_121, sm_121a, sm_121f,
  // clang-format on
};

/// The version of the 64-bit descriptor of a matrix in shared memory, if the target has one.
enum class SmemDescriptorVersion : uint8_t { none, sm_90, sm_100, sm_107 };

/// A version of the PTX ISA, such as 8.7: the `.version` that a module needs for a feature.
struct PtxVersion {
  int major = 0, minor = 0;

  auto operator<=>(const PtxVersion&) const = default;
};

struct TargetInfo {
  Target id;
  std::string_view name;  // as PTX spells it
  PtxVersion ptx;         // that introduced it
  Target chip;            // equal for all names of one GPU: results of one name are results of all
  Target adds_as;         // the target whose rows of arithmetic it uses
  std::string_view gpu;   // a card of this target
  SmemDescriptorVersion smem_descriptor = SmemDescriptorVersion::none;
};

inline constexpr auto targets = [] {
  using enum Target;
  constexpr auto smem_90 = SmemDescriptorVersion::sm_90, smem_100 = SmemDescriptorVersion::sm_100,
                 smem_107 = SmemDescriptorVersion::sm_107;
  return std::to_array<TargetInfo>({
      // one row a target
      // clang-format off
      {.id = sm_70, .name = "sm_70", .ptx = {6, 0}, .chip = sm_70, .adds_as = sm_70, .gpu = "V100"},
      {.id = sm_72, .name = "sm_72", .ptx = {6, 1}, .chip = sm_72, .adds_as = sm_70, .gpu = "Xavier"},
      {.id = sm_75, .name = "sm_75", .ptx = {6, 3}, .chip = sm_75, .adds_as = sm_75, .gpu = "T4, RTX 20"},
      {.id = sm_80, .name = "sm_80", .ptx = {7, 0}, .chip = sm_80, .adds_as = sm_80, .gpu = "A100"},
      {.id = sm_86, .name = "sm_86", .ptx = {7, 1}, .chip = sm_86, .adds_as = sm_80, .gpu = "A2, A40, RTX 30"},
      {.id = sm_87, .name = "sm_87", .ptx = {7, 4}, .chip = sm_87, .adds_as = sm_80, .gpu = "Orin"},
      {.id = sm_88, .name = "sm_88", .ptx = {9, 0}, .chip = sm_88, .adds_as = sm_80, .gpu = ""},
      {.id = sm_89, .name = "sm_89", .ptx = {7, 8}, .chip = sm_89, .adds_as = sm_89, .gpu = "L40S, RTX 40"},
      {.id = sm_90, .name = "sm_90", .ptx = {7, 8}, .chip = sm_90, .adds_as = sm_90a, .gpu = "H100, H200"},
      {.id = sm_90a, .name = "sm_90a", .ptx = {8, 0}, .chip = sm_90, .adds_as = sm_90a, .gpu = "H100, H200", .smem_descriptor = smem_90},
      {.id = sm_100, .name = "sm_100", .ptx = {8, 6}, .chip = sm_100, .adds_as = sm_100a, .gpu = "B200"},
      {.id = sm_100a, .name = "sm_100a", .ptx = {8, 6}, .chip = sm_100, .adds_as = sm_100a, .gpu = "B200", .smem_descriptor = smem_100},
      {.id = sm_100f, .name = "sm_100f", .ptx = {8, 8}, .chip = sm_100, .adds_as = sm_100a, .gpu = "B200", .smem_descriptor = smem_100},
      {.id = sm_101, .name = "sm_101", .ptx = {8, 6}, .chip = sm_110, .adds_as = sm_110a, .gpu = "Thor"},
      {.id = sm_101a, .name = "sm_101a", .ptx = {8, 6}, .chip = sm_110, .adds_as = sm_110a, .gpu = "Thor", .smem_descriptor = smem_100},
      {.id = sm_101f, .name = "sm_101f", .ptx = {8, 8}, .chip = sm_110, .adds_as = sm_110a, .gpu = "Thor", .smem_descriptor = smem_100},
      {.id = sm_103, .name = "sm_103", .ptx = {8, 8}, .chip = sm_103, .adds_as = sm_103a, .gpu = "B300"},
      {.id = sm_103a, .name = "sm_103a", .ptx = {8, 8}, .chip = sm_103, .adds_as = sm_103a, .gpu = "B300", .smem_descriptor = smem_100},
      {.id = sm_103f, .name = "sm_103f", .ptx = {8, 8}, .chip = sm_103, .adds_as = sm_103a, .gpu = "B300", .smem_descriptor = smem_100},
      {.id = sm_107, .name = "sm_107", .ptx = {9, 4}, .chip = sm_107, .adds_as = sm_107a, .gpu = "Rubin"},
      {.id = sm_107a, .name = "sm_107a", .ptx = {9, 4}, .chip = sm_107, .adds_as = sm_107a, .gpu = "Rubin", .smem_descriptor = smem_107},
      {.id = sm_107f, .name = "sm_107f", .ptx = {9, 4}, .chip = sm_107, .adds_as = sm_107a, .gpu = "Rubin", .smem_descriptor = smem_107},
      {.id = sm_110, .name = "sm_110", .ptx = {9, 0}, .chip = sm_110, .adds_as = sm_110a, .gpu = "Thor"},
      {.id = sm_110a, .name = "sm_110a", .ptx = {9, 0}, .chip = sm_110, .adds_as = sm_110a, .gpu = "Thor", .smem_descriptor = smem_100},
      {.id = sm_110f, .name = "sm_110f", .ptx = {9, 0}, .chip = sm_110, .adds_as = sm_110a, .gpu = "Thor", .smem_descriptor = smem_100},
      {.id = sm_120, .name = "sm_120", .ptx = {8, 7}, .chip = sm_120, .adds_as = sm_120a, .gpu = "RTX 50"},
      {.id = sm_120a, .name = "sm_120a", .ptx = {8, 7}, .chip = sm_120, .adds_as = sm_120a, .gpu = "RTX 50"},
      {.id = sm_120f, .name = "sm_120f", .ptx = {8, 8}, .chip = sm_120, .adds_as = sm_120a, .gpu = "RTX 50"},
      {.id = sm_121, .name = "sm_121", .ptx = {8, 8}, .chip = sm_121, .adds_as = sm_120a, .gpu = "GB10"},
      {.id = sm_121a, .name = "sm_121a", .ptx = {8, 8}, .chip = sm_121, .adds_as = sm_120a, .gpu = "GB10"},
      {.id = sm_121f, .name = "sm_121f", .ptx = {8, 8}, .chip = sm_121, .adds_as = sm_120a, .gpu = "GB10"},
      // clang-format on
  });
}();

constexpr const TargetInfo& info(Target target) { return targets[static_cast<std::size_t>(target)]; }

consteval bool targets_refer_to_first_names() {
  for (const TargetInfo& row : targets) {
    if (info(row.adds_as).adds_as != row.adds_as || info(row.chip).chip != row.chip || info(row.chip).gpu != row.gpu)
      return false;
  }
  return true;
}
static_assert(are_in_enum_order(targets) && targets_refer_to_first_names());

/// "sm_90a".
constexpr std::string_view print(Target target) { return info(target).name; }

/// The target PTX calls `name`, or nothing.
std::optional<Target> target_named(std::string_view name);
/// The same, but throws Error, which lists the names, for an unknown one.
Target parse_target(std::string_view name);

/// A set of targets, as a value that tables can hold.
class TargetSet {
 public:
  constexpr TargetSet() = default;
  constexpr TargetSet(std::initializer_list<Target> members) {
    for (const Target member : members) mask_ |= uint64_t{1} << static_cast<int>(member);
  }
  constexpr bool contains(Target target) const { return (mask_ >> static_cast<int>(target) & 1) != 0; }
  constexpr bool empty() const { return mask_ == 0; }
  /// The first member in table order.
  constexpr Target first() const {
    for (const TargetInfo& row : targets) {
      if (contains(row.id)) return row.id;
    }
    return Target::sm_70;
  }
  constexpr TargetSet operator|(const TargetSet& other) const {
    TargetSet both;
    both.mask_ = mask_ | other.mask_;
    return both;
  }
  constexpr TargetSet operator&(const TargetSet& other) const {
    TargetSet common;
    common.mask_ = mask_ & other.mask_;
    return common;
  }
  /// The target and all later ones in the table: PTX's "requires sm_80 or higher".
  static constexpr TargetSet from(Target first) {
    TargetSet set;
    for (const TargetInfo& row : targets) {
      if (row.id >= first) set.mask_ |= uint64_t{1} << static_cast<int>(row.id);
    }
    return set;
  }
  bool operator==(const TargetSet&) const = default;

 private:
  uint64_t mask_ = 0;
};

/// Sets that several tables use. A set of only one table is defined beside that table.
namespace target_sets {
using enum Target;
inline constexpr TargetSet hopper{sm_90a};  // wgmma
// Tensor Memory and tcgen05. ptxas 13.0 and 13.5; sm_101 is the name of sm_110 in CUDA 12.
inline constexpr TargetSet tcgen05{sm_100a, sm_100f, sm_101a, sm_101f, sm_103a,
                                   sm_103f, sm_107a, sm_107f, sm_110a, sm_110f};
inline constexpr TargetSet rubin{sm_107a, sm_107f};
inline constexpr TargetSet consumer_blackwell{sm_120a, sm_120f, sm_121a, sm_121f};  // mma.sync with block scales
}  // namespace target_sets

/// The members whose name ends in a: architecture-specific features that no later architecture guarantees.
constexpr TargetSet architecture_specific(const TargetSet& set) {
  TargetSet members;
  for (const TargetInfo& row : targets) {
    if (set.contains(row.id) && row.name.ends_with('a')) members = members | TargetSet{row.id};
  }
  return members;
}
/// The members with their own rows of arithmetic; the others add like one of these.
constexpr TargetSet with_own_rows(const TargetSet& set) {
  TargetSet members;
  for (const TargetInfo& row : targets) {
    if (set.contains(row.id) && row.adds_as == row.id) members = members | TargetSet{row.id};
  }
  return members;
}

/// "sm_100a or sm_103a", "sm_80 and later".
std::string print(const TargetSet& set);

}  // namespace bitmma
