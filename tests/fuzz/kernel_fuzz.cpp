// Modules of PTX, with SASS behind a line "//SASS": whatever the text, its entries are refused, or run a little and end
// or are stopped by a fault.
#include "bitmma/kernel/kernel.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

void run(const PtxEntry& kernel) {
  std::vector<std::vector<uint8_t>> memory;
  std::vector<KernelArgument> arguments;
  for (const PtxParameter& parameter : kernel.parameters()) {
    if (parameter.bytes == 8) {
      memory.emplace_back(512, uint8_t{1});
      arguments.push_back(memory_argument(memory.back()));
    } else {
      arguments.push_back({.value = std::vector<uint8_t>(static_cast<size_t>(parameter.bytes), uint8_t{2})});
    }
  }
  accepts([&] {
    launch(kernel, {.grid = {2, 1, 1},
                    .block = {40, 1, 1},
                    .dynamic_shared_bytes = 256,
                    .arguments = arguments,
                    .most_steps = 2000});
  });
}

constexpr std::string_view divider = "//SASS\n";

void read(const std::string& whole) {
  const size_t end = std::min(whole.find(divider), whole.size());
  const std::string text = whole.substr(0, end);
  std::optional<std::string> sass;
  if (end < whole.size()) sass = whole.substr(end + divider.size());
  std::optional<PtxModule> module;
  if (!accepts([&] { module.emplace(text); })) return;
  // A module that names sm_100 runs as one of sm_100a, which has tcgen05.
  const Target target = text.find("sm_100") != std::string::npos ? Target::sm_100a : Target::sm_90a;
  for (const PtxEntryInfo& entry : std::span(module->entries()).first(std::min<size_t>(module->entries().size(), 3))) {
    accepts([&] {
      const PtxEntry kernel(*module, {.entry = entry.name, .target = target, .sass = sass});
      require(kernel.name() == entry.name, "the entry is the one that was named");
      run(kernel);
    });
  }
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) { bitmma::fuzz::read(in.ConsumeRemainingBytesAsString()); }
