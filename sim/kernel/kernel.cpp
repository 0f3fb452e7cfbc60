// SPDX-License-Identifier: MIT
#include "bitmma/kernel/kernel.hpp"

#include <fmt/format.h>

#include <set>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/text.hpp"
#include "decode.hpp"
#include "fold.hpp"
#include "sass.hpp"
#include "webs.hpp"

namespace bitmma {
namespace {

size_t entry_index(const kernel::Module& module, const std::string& name) {
  std::vector<std::string> names;
  for (const kernel::Entry& entry : module.entries) names.push_back(entry.name);
  if (names.empty()) {
    throw Error({.code = ViolationCode::not_found,
                 .field = "entry",
                 .seen = name.empty() ? "(none)" : shortened(printable(name)),
                 .expected = "a module with an .entry"});
  }
  if (name.empty() && names.size() == 1) return 0;
  if (name.empty()) {
    throw Error({.code = ViolationCode::missing_argument,
                 .field = "entry",
                 .seen = counted(std::ssize(names), "kernel"),
                 .legal = names,
                 .fix = "name one"});
  }
  if (const kernel::Entry* const entry = module.find(name)) return static_cast<size_t>(entry - module.entries.data());
  throw Error({.code = ViolationCode::not_found, .field = "entry", .seen = shortened(printable(name)), .legal = names});
}

PtxEntryInfo info_of(const kernel::Module& module, const kernel::Entry& entry) {
  PtxEntryInfo info{.name = entry.name,
                    .required_block = entry.required_block,
                    .most_block = entry.most_block,
                    .required_cluster = entry.required_cluster,
                    .most_cluster = entry.most_cluster,
                    .grid_of_clusters = entry.grid_of_clusters};
  int64_t end = 0;
  for (const int param : entry.params) {
    const kernel::Variable& variable = module.variables[static_cast<size_t>(param)];
    const int64_t offset = round_up(end, variable.align);
    info.parameters.push_back({.name = variable.name,
                               .type = std::string(kernel::info(variable.type).name),
                               .bytes = variable.size_bytes(),
                               .offset = offset,
                               .align = variable.align});
    end = offset + variable.size_bytes();
  }
  return info;
}

}  // namespace

int64_t PtxEntryInfo::parameter_bytes() const {
  return parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes;
}

PtxModule::PtxModule(std::string_view ptx) : module_(std::make_shared<const kernel::Module>(kernel::read_module(ptx))) {
  for (const kernel::Entry& entry : module_->entries) entries_.push_back(info_of(*module_, entry));
}

Target PtxModule::target() const { return parse_target(module_->target); }

std::vector<PtxVariable> PtxModule::variables() const {
  std::vector<PtxVariable> all;
  for (const kernel::Variable& variable : module_->variables) {
    if (variable.is_extern_array ||
        (variable.space != kernel::Space::global && variable.space != kernel::Space::constant))
      continue;
    all.push_back({.name = variable.name,
                   .space = std::string(print(variable.space)),
                   .type = std::string(kernel::info(variable.type).name),
                   .bytes = variable.size_bytes(),
                   .align = variable.align});
  }
  return all;
}

PtxEntry::PtxEntry(std::string_view ptx, const KernelOptions& options) : PtxEntry(PtxModule(ptx), options) {}

PtxEntry::PtxEntry(const PtxModule& ptx, const KernelOptions& options) : module_(ptx.module()) {
  const size_t index = entry_index(*module_, options.entry);
  kernel::Module module = *module_;  // the calls of the entry are inlined in this copy
  kernel::inline_calls(module, static_cast<int>(index));
  kernel::Entry& entry = module.entries[index];
  info_ = ptx.entries()[index];
  target_ = options.target ? *options.target : parse_target(module.target);
  if (!options.fmad && options.sass) {
    throw Error({.code = ViolationCode::not_together,
                 .field = "sass",
                 .seen = "fmad = false",
                 .fix = "the SASS itself shows what is fused"});
  }
  kernel::SassLines sass;
  if (options.sass) {
    std::set<int> lines;
    for (const kernel::PtxInstruction& instruction : entry.instructions) lines.insert(instruction.line);
    sass = kernel::sass_lines(*options.sass, entry.name, lines);
  }
  kernel::assign_roles(module, entry, target_);
  kernel::split_webs(entry);
  entry = kernel::folded(entry, target_);
  kernel::Fusions fusions = options.fmad ? kernel::fusions_of(entry, sass) : kernel::Fusions{};
  fusions_ = fusions.list;
  kernel::Decoder decoder(module, entry, target_, std::move(fusions));
  program_ = std::make_shared<const kernel::Program>(decoder.decode());
}

int64_t PtxEntry::local_bytes() const { return program_->local_bytes; }
int64_t PtxEntry::shared_bytes() const { return program_->shared_bytes; }

bool PtxEntry::order_matters() const { return program_->order_matters; }

std::string_view PtxEntry::varying_register() const { return program_->chance; }

std::string_view print(SassEvidence evidence) {
  switch (evidence) {
    case SassEvidence::none: return "none";
    case SassEvidence::joined: return "joined";
    case SassEvidence::apart: return "apart";
    case SassEvidence::both: return "both";
  }
  return {};
}

std::vector<Violation> kernel_warnings(const PtxEntry& kernel) {
  std::vector<Violation> warnings;
  for (const KernelFusion& fusion : kernel.fusions()) {
    if (fusion.is_sure && !fusion.contradicts_rule()) continue;
    Violation warning{.code = ViolationCode::undefined_by_ptx,
                      .field = fmt::format("PTX lines {} and {}", fusion.product_line, fusion.sum_line),
                      .seen = fusion.is_joined ? "computed as one fma" : "computed with two roundings",
                      .expected = "a case that is confirmed by SASS",
                      .fix = "the last bit may differ; pass the SASS of your ptxas",
                      .severity = Severity::warning};
    if (fusion.product_line == 0) {
      warning.field = fmt::format("PTX line {}", fusion.sum_line);
      warning.expected = "an fma as in the SASS; its product was not found";
      warning.fix = "the last bit may differ";
    } else if (fusion.sass == SassEvidence::both) {
      warning.expected = "one or the other: ptxas duplicated the line, and the SASS has both";
      warning.fix = "the last bit may differ";
    } else if (fusion.contradicts_rule()) {
      warning.seen += " as in the SASS";
      warning.expected =
          fmt::format("{} by the rule '{}'", fusion.rule_joins ? "one fma" : "two roundings", fusion.rule);
      warning.fix = "the SASS takes precedence";
    }
    warnings.push_back(std::move(warning));
  }
  if (kernel.order_matters()) {
    warnings.push_back({.code = ViolationCode::undefined_by_ptx,
                        .field = kernel.name(),
                        .seen = "floating-point atomics on global memory",
                        .expected = "integers",
                        .fix = "their order determines the bits: bitmma adds in ascending order of threads",
                        .severity = Severity::warning});
  }
  return warnings;
}

std::vector<std::string> kernel_entries(std::string_view ptx) {
  std::vector<std::string> names;
  for (const kernel::Entry& entry : kernel::read_module(ptx).entries) names.push_back(entry.name);
  return names;
}

}  // namespace bitmma
