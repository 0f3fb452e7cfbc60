#include "bitmma/gpu/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/legality.hpp"

namespace bitmma {
namespace {

constexpr uint64_t unit_streams = 1u << 20;  // random streams of one unit: instruction first, then two a case

RandomStream unit_stream(uint64_t seed, int64_t unit, uint64_t stream) {
  return {seed ^ 0x626974'6D6D61, static_cast<uint64_t>(unit) * unit_streams + stream};  // apart from golden's streams
}

constexpr std::array swizzle_modes{Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

OperandLayout random_layout(Major major, RandomStream& random) {
  OperandLayout layout{.major = major, .swizzle = swizzle_modes[random.below(4)]};
  if (random.one_in(2)) layout.padding_bytes = 16 * random.below(16);
  if (random.one_in(2)) layout.start_bytes = 16 * random.below(64);
  if (random.one_in(2)) layout.base_offset = static_cast<int>(random.below(8));
  return layout;
}

/// Any descriptor whose matrix stays inside an image of `image_bytes`.
uint64_t random_descriptor(const Instruction& instruction, bool is_a, int64_t image_bytes, RandomStream& random) {
  SmemDescriptor descriptor{.start_address_bytes = 16 * random.below(256),
                            .strides = {16 * random.below(512), 16 * random.below(512)},
                            .base_offset = static_cast<int>(random.below(8)),
                            .swizzle = swizzle_modes[random.below(4)]};
  for (;;) {
    const uint64_t word = encode(descriptor);
    if (end_byte(SmemMap(is_a ? a_matrix(instruction, word) : b_matrix(instruction, word))) <= image_bytes) return word;
    descriptor.strides.leading_dim_byte_offset = descriptor.strides.leading_dim_byte_offset / 32 * 16;
    descriptor.strides.stride_dim_byte_offset = descriptor.strides.stride_dim_byte_offset / 32 * 16;
  }
}

MachineState random_machine(const Instruction& instruction, const Operands& operands, RandomStream& random) {
  // Registers, metadata and C as laid out; image and descriptors are overwritten.
  const OperandLayout layout{.major = Major::k, .swizzle = Swizzle::none};
  const Instruction k_major = with_majors(instruction, layout, layout);
  MachineState state = place_operands(k_major, plan_placement(k_major, layout, layout), operands, random);
  state.smem.resize(32768);
  // Without bit 6 no byte pattern is NaN or infinity in any format, so that wrong addresses cannot hide behind them.
  const uint32_t mask = random.one_in(4) ? 0xFFFFFFFF : 0xBFBFBFBF;
  for (size_t i = 0; i < state.smem.size(); i += 4) {
    const uint32_t word = random.word() & mask;
    for (size_t byte = 0; byte < 4; ++byte) state.smem[i + byte] = static_cast<uint8_t>(word >> 8 * byte);
  }
  const auto image_bytes = static_cast<int64_t>(state.smem.size());
  if (instruction.a_source == OperandSource::smem)
    state.a_desc = random_descriptor(instruction, true, image_bytes, random);
  state.b_desc = random_descriptor(instruction, false, image_bytes, random);
  return state;
}

bool is_hard(const CampaignCase& one) {
  return !one.random_descriptors &&
         (one.distribution == Distribution::special || one.distribution == Distribution::subnormal ||
          one.distribution == Distribution::ties);
}

}  // namespace

CampaignRow& CampaignRow::operator+=(const CampaignRow& other) {
  units += other.units;
  cases += other.cases;
  outputs += other.outputs;
  mismatches += other.mismatches;
  hard_outputs += other.hard_outputs;
  return *this;
}

std::string instruction_group(const Instruction& instruction) {
  if (instruction.family == Family::mma_sync) return print(instruction);
  if (instruction.family == Family::tcgen05) {
    return fmt::format("{} {}.{}.{}", print(instruction), info(instruction.d).name, info(instruction.a).name,
                       info(instruction.b).name);
  }
  return fmt::format("{}.mma_async{} k{} {}.{}.{}", print(instruction.family), instruction.sparse ? ".sp" : "",
                     instruction.k, info(instruction.d).name, info(instruction.a).name, info(instruction.b).name);
}

Instruction campaign_instruction(uint64_t seed, int64_t unit) {
  static const std::vector<Instruction> mnemonics = all_legal_instructions();
  const auto count = static_cast<int64_t>(mnemonics.size());
  Instruction instruction = mnemonics[static_cast<size_t>(unit % count)];
  const LegalForm& form = *find_legal_form(instruction);
  const int64_t round = unit / count;
  RandomStream random = unit_stream(seed, unit, 0);
  instruction.a_source = round % 2 == 0 ? OperandSource::smem : OperandSource::registers;
  if (form.transpose) {
    instruction.imm_trans_b = static_cast<int>(round / 2 % 2);
    if (instruction.a_source == OperandSource::smem) instruction.imm_trans_a = static_cast<int>(round / 4 % 2);
  }
  if (form.scale) {
    instruction.imm_scale_a = random.one_in(3) ? -1 : 1;
    instruction.imm_scale_b = random.one_in(3) ? -1 : 1;
  }
  instruction.scale_d = !random.one_in(8);
  if (instruction.sparse)
    instruction.sparsity_selector = static_cast<int>(random.below(static_cast<uint32_t>(form.selectors)));
  return instruction;
}

CampaignUnit campaign_unit(uint64_t seed, int64_t unit, int64_t outputs) {
  CampaignUnit result{.instruction = campaign_instruction(seed, unit), .cases = {}};
  const Instruction& instruction = result.instruction;
  const int64_t count = std::max<int64_t>(12, outputs / (int64_t{instruction.m} * instruction.n));
  for (int64_t i = 0; i < count; ++i) {
    RandomStream random = unit_stream(seed, unit, static_cast<uint64_t>(1 + 2 * i));
    CampaignCase one{.distribution = distributions[static_cast<size_t>(i) % distributions.size()].id,
                     .random_descriptors = i % 5 == 4,
                     .state = {}};
    const uint64_t case_index = static_cast<uint64_t>(unit) * unit_streams + static_cast<uint64_t>(i);
    const Operands operands = random_operands(instruction, one.distribution, seed, case_index);
    if (one.random_descriptors) {
      one.state = random_machine(instruction, operands, random);
    } else {
      const OperandLayout a = random_layout(instruction.a_major(), random);
      const OperandLayout b = random_layout(instruction.b_major(), random);
      one.state = place_operands(instruction, plan_placement(instruction, a, b), operands,
                                 unit_stream(seed, unit, static_cast<uint64_t>(2 + 2 * i)));
    }
    result.cases.push_back(std::move(one));
  }
  return result;
}

namespace {

bool is_asked_for(const CampaignOptions& options, int64_t unit) {
  return options.only.empty() ||
         print(campaign_instruction(options.seed, unit)).find(options.only) != std::string::npos;
}

void require_work(const CampaignOptions& options) {
  if (options.only.empty()) return;
  for (int64_t unit = options.first_unit; unit < options.first_unit + options.units; ++unit) {
    if (is_asked_for(options, unit)) return;
  }
  throw Error({.field = "--only",
               .seen = options.only,
               .legal = fmt::format("text that a mnemonic of units {}..{} contains", options.first_unit,
                                    options.first_unit + options.units - 1),
               .fix = fmt::format("{} units meet every mnemonic once", all_legal_instructions().size())});
}

}  // namespace

CampaignReport run_campaign(const CampaignOptions& options, const Executor& execute, const CampaignProgress& progress) {
  require_work(options);
  CampaignReport report{.rows = {}, .total = {}, .next_unit = options.first_unit, .saved = {}};
  std::mutex mutex;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
  std::vector<char> done(static_cast<size_t>(options.units));
  parallel_for(done.size(), options.threads, [&](size_t index) {
    if (options.seconds > 0 && std::chrono::steady_clock::now() > deadline) return;
    const int64_t number = options.first_unit + static_cast<int64_t>(index);
    const Instruction instruction = campaign_instruction(options.seed, number);
    if (!is_asked_for(options, number)) {
      done[index] = 1;
      return;
    }
    const CampaignUnit unit = campaign_unit(options.seed, number, options.outputs_per_unit);
    std::vector<Machine> machines;
    for (const CampaignCase& one : unit.cases) machines.push_back(one.state.view());
    const std::vector<std::vector<uint32_t>> d_regs = execute(instruction, machines);
    CampaignRow row{.units = 1};
    for (size_t i = 0; i < unit.cases.size(); ++i) {
      const BitMatrix expected = simulate_d(instruction, machines[i]);
      const BitMatrix actual = gather(d_regs.at(i), d_fragment(instruction), instruction.d, "d_regs");
      const Comparison comparison = compare_case(static_cast<int64_t>(i), expected, actual, [&](int r, int col) {
        return OutputPlace{.reg = place_of(d_fragment(instruction), r, col), .cell = std::nullopt};
      });
      row.cases += 1;
      row.outputs += comparison.outputs;
      row.mismatches += comparison.mismatches;
      if (is_hard(unit.cases[i])) row.hard_outputs += comparison.outputs;
      if (comparison.mismatches == 0 || options.save_folder.empty()) continue;
      const std::lock_guard lock(mutex);
      if (static_cast<int64_t>(report.saved.size()) >= options.max_saved) continue;
      auto metadata = options.provenance;
      metadata.insert(
          metadata.end(),
          {{"source", options.source},
           {"seed", std::to_string(options.seed)},
           {"campaign_unit", std::to_string(number)},
           {"campaign_case", std::to_string(i)},
           {"distribution", std::string(distributions[static_cast<size_t>(unit.cases[i].distribution)].name)}});
      const std::string path = (std::filesystem::path(options.save_folder) /
                                fmt::format("mismatch_{}_{}_{}.safetensors", options.seed, number, i))
                                   .string();
      write_tensor_file(path, single_case_file(instruction, unit.cases[i].state, actual, std::move(metadata)));
      report.saved.push_back(path);
    }
    const std::lock_guard lock(mutex);
    done[index] = 1;
    report.rows[instruction_group(instruction)] += row;
    report.total += row;
    if (progress) progress(report.total);
  });
  while (report.next_unit - options.first_unit < options.units &&
         done[static_cast<size_t>(report.next_unit - options.first_unit)])
    ++report.next_unit;
  return report;
}

}  // namespace bitmma
