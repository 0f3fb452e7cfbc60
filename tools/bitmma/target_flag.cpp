// SPDX-License-Identifier: MIT
#include "target_flag.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ranges>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/instruction/form.hpp"
#include "flags.hpp"

namespace bitmma::cli {

void TargetFlag::add(Command& command, const std::string& meaning, bool and_arch) {
  flags = and_arch ? "--target, --arch" : "--target";
  command.add_option(and_arch ? "--target,--arch" : "--target", name, meaning);
}

std::optional<Target> TargetFlag::requested() const {
  if (name.empty()) return std::nullopt;
  return target_from(name, flags);
}

Target TargetFlag::of(const Instruction& instruction) const {
  const std::optional<Target> target = requested();
  return target ? *target : default_target(instruction);
}

Target TargetFlag::of_smem_descriptor() const {
  const Target target = requested().value_or(Target::sm_90a);
  const auto has_descriptors = [](const TargetInfo& row) { return row.smem_descriptor != SmemDescriptorVersion::none; };
  if (has_descriptors(info(target))) return target;
  throw Error({.field = flags,
               .seen = name,
               .legal = row_names(targets | std::views::filter(has_descriptors)),
               .fix = "other targets have no shared-memory descriptors"});
}

void CpuTargetFlag::add(Command& command) {
  command.add_speed_option(
      "--cpu-target", name,
      fmt::format("instruction set of the hot loops; it does not affect the bits. This processor supports {}",
                  fmt::join(cpu_targets(), ", ")));
}

void CpuTargetFlag::use() const {
  if (!name.empty()) naming_flag("cpu target", "--cpu-target", [&] { use_cpu_target(name); });
}

}  // namespace bitmma::cli
