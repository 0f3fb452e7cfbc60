// SPDX-License-Identifier: MIT
#include "bitmma/kernel/kernel.hpp"

#include <fmt/format.h>

#include "bitmma/core/text.hpp"
#include "decode.hpp"
#include "fold.hpp"

namespace bitmma {
namespace {

const kernel::Entry& entry_of(const kernel::Module& module, const std::string& name) {
  std::vector<std::string> names;
  for (const kernel::Entry& entry : module.entries) names.push_back(entry.name);
  if (names.empty()) {
    throw Error({.code = ViolationCode::not_found,
                 .field = "entry",
                 .seen = name.empty() ? "(none)" : shortened(printable(name)),
                 .expected = "a module with an .entry"});
  }
  if (name.empty() && names.size() == 1) return module.entries.front();
  if (name.empty()) {
    throw Error({.code = ViolationCode::missing_argument,
                 .field = "entry",
                 .seen = counted(std::ssize(names), "kernel"),
                 .legal = names,
                 .fix = "name one"});
  }
  if (const kernel::Entry* const entry = module.find(name)) return *entry;
  throw Error({.code = ViolationCode::not_found, .field = "entry", .seen = shortened(printable(name)), .legal = names});
}

}  // namespace

PtxEntry::PtxEntry(std::string_view ptx, const KernelOptions& options) {
  kernel::Module module = kernel::read_module(ptx);
  const int index = static_cast<int>(&entry_of(module, options.entry) - module.entries.data());
  kernel::inline_calls(module, index);
  kernel::Entry& entry = module.entries[static_cast<size_t>(index)];
  name_ = entry.name;
  target_ = options.target ? *options.target : parse_target(module.target);
  for (const int param : entry.params) {
    const kernel::Variable& variable = module.variables[static_cast<size_t>(param)];
    parameters_.push_back(
        {.name = variable.name, .type = std::string(kernel::info(variable.type).name), .bytes = variable.size_bytes()});
  }
  entry = kernel::folded(entry, target_);
  kernel::Decoder decoder(module, entry, target_, options.fmad);
  fusions_ = decoder.fusions().list;
  program_ = std::make_shared<const kernel::Program>(decoder.decode());
}

int64_t PtxEntry::shared_bytes() const { return program_->shared_bytes; }

bool PtxEntry::order_matters() const { return program_->order_matters; }

std::vector<std::string> kernel_entries(std::string_view ptx) {
  std::vector<std::string> names;
  for (const kernel::Entry& entry : kernel::read_module(ptx).entries) names.push_back(entry.name);
  return names;
}

}  // namespace bitmma
