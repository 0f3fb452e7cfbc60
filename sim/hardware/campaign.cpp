#include "bitmma/hardware/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>

#include "../instruction/family.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/smem.hpp"

namespace bitmma {
namespace {

constexpr uint64_t unit_streams = 1u << 20;  // random streams of one unit: instruction first, then two a case

RandomStream unit_stream(uint64_t seed, int64_t unit, uint64_t stream) {
  return {seed ^ 0x626974'6D6D61, static_cast<uint64_t>(unit) * unit_streams + stream};  // apart from golden's streams
}

constexpr std::array swizzle_modes{Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

/// Draws are statements: a seed means the same with every compiler only where the language orders them.
OperandLayout random_layout(Major major, RandomStream& random) {
  OperandLayout layout{.major = major, .swizzle = swizzle_modes[random.below(4)]};
  if (random.one_in(2)) layout.padding_bytes = 16 * random.below(16);
  if (random.one_in(2)) layout.start_bytes = 16 * random.below(64);
  if (random.one_in(2)) layout.base_offset = static_cast<int>(random.below(8));
  return layout;
}

/// Any descriptor with which the matrix stays inside an image of `image_bytes`.
uint64_t random_descriptor(SmemMatrix matrix, int64_t image_bytes, RandomStream& random) {
  SmemDescriptor& descriptor = matrix.descriptor;
  Strides& strides = descriptor.strides;
  descriptor.start_address_bytes = 16 * random.below(256);
  strides.leading_dim_byte_offset = 16 * random.below(512);
  strides.stride_dim_byte_offset = 16 * random.below(512);
  descriptor.base_offset = static_cast<int>(random.below(8));
  descriptor.swizzle = swizzle_modes[random.below(4)];
  while (end_byte(SmemMap(matrix)) > image_bytes) {
    strides.leading_dim_byte_offset = strides.leading_dim_byte_offset / 32 * 16;
    strides.stride_dim_byte_offset = strides.stride_dim_byte_offset / 32 * 16;
  }
  return encode(descriptor);
}

/// Registers, metadata and C as laid out, but random bytes as the image, and random descriptors.
State random_image_state(const Instruction& instruction, Target target, const Operands& operands,
                         RandomStream& random) {
  const OperandLayout layout{.major = Major::k, .swizzle = Swizzle::none};
  State state = place_operands(with_majors(instruction, layout, layout), {.a = layout, .b = layout}, operands, random);
  constexpr int64_t image_bytes = 32768;
  std::vector<uint8_t> image(image_bytes);
  // Without bit 6 no byte pattern is NaN or infinity in any format, so that wrong addresses cannot hide behind them.
  const uint32_t mask = random.one_in(4) ? 0xFFFFFFFF : 0xBFBFBFBF;
  for (size_t i = 0; i < image.size(); i += 4) {
    const uint32_t word = random.word() & mask;
    for (size_t byte = 0; byte < 4; ++byte) image[i + byte] = static_cast<uint8_t>(word >> 8 * byte);
  }
  state.set(Field::smem, std::move(image), {image_bytes});
  const Mma mma = mma_of(instruction);
  const SmemDescriptor descriptor{.target = target};
  if (mma.a_source == OperandSource::smem) {
    const SmemMatrix a{.descriptor = descriptor,
                       .major = mma.a_major,
                       .element_bits = mma.a_container_bits,
                       .rows = mma.m,
                       .cols = mma.stored_k()};
    state.set(Field::a_desc, random_descriptor(a, image_bytes, random));
  }
  const SmemMatrix b{.descriptor = descriptor,
                     .major = mma.b_major,
                     .element_bits = mma.b_container_bits,
                     .rows = mma.n,
                     .cols = mma.k};
  state.set(Field::b_desc, random_descriptor(b, image_bytes, random));
  return state;
}

/// Metadata that PTX leaves undefined: any bits.
void use_any_metadata(State& state, RandomStream& random) {
  for (uint32_t& word : state.writable_words(Field::metadata)) word = random.word();
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
  const std::string mnemonic = print(instruction);
  if (!is_mma(instruction)) return mnemonic;
  const Mma mma = mma_of(instruction);
  const std::string types = fmt::format("{}.{}.{}", info(mma.d).name, info(mma.a).name, info(mma.b).name);
  // The instruction descriptor says shape and types where the mnemonic does not.
  if (mnemonic.find(types) == std::string::npos) return fmt::format("{} {}", mnemonic, types);
  const Form* form = find_form(instruction);
  const bool one_n = form && form->shapes.size() == 1 && form->shapes[0].n.first == form->shapes[0].n.last;
  // One group for all N.
  return one_n ? mnemonic : fmt::format("{} k{} {}", mnemonic.substr(0, mnemonic.find(".sync")), mma.k, types);
}

namespace {

/// What the device has of the family.
const std::vector<Instruction>& campaign_mnemonics(Family family, Target target) {
  static std::mutex mutex;
  static std::map<std::pair<Family, Target>, std::vector<Instruction>> known;
  const std::lock_guard lock(mutex);
  std::vector<Instruction>& found = known[{family, target}];
  if (found.empty()) {
    found = all_instructions(family);
    std::erase_if(found, [&](const Instruction& one) { return !targets_of(one).contains(target); });
  }
  if (found.empty())
    throw Error({.field = "family",
                 .seen = fmt::format("{} on {}", print(family), print(target)),
                 .expected = "instructions that the device has"});
  return found;
}

}  // namespace

Instruction campaign_instruction(uint64_t seed, int64_t unit, Family family, Target target) {
  const std::vector<Instruction>& mnemonics = campaign_mnemonics(family, target);
  const auto count = static_cast<int64_t>(mnemonics.size());
  const Instruction& mnemonic = mnemonics[static_cast<size_t>(unit % count)];
  const Form& form = *find_form(mnemonic);
  const int64_t round = unit / count;
  RandomStream random = unit_stream(seed, unit, 0);
  Instruction instruction = mnemonic;
  family::dispatch(
      [&](auto& one) {
        if constexpr (requires { one.transpose_a; }) {
          one.a_source = round % 2 == 0 ? OperandSource::smem : OperandSource::registers;
          if (form.transpose) {
            one.transpose_b = round / 2 % 2 != 0;
            if (one.a_source == OperandSource::smem) one.transpose_a = round / 4 % 2 != 0;
          }
          if (form.negate) {
            one.negate_a = random.one_in(3);
            one.negate_b = random.one_in(3);
          }
          one.enable_input_d = !random.one_in(8);
        }
        if constexpr (requires { one.sparsity_selector; }) {
          if (one.sparse) one.sparsity_selector = static_cast<int>(random.below(static_cast<uint32_t>(form.selectors)));
        }
      },
      instruction);
  return instruction;
}

CampaignUnit campaign_unit(uint64_t seed, int64_t unit, int64_t outputs, Family family, Target target) {
  CampaignUnit result{.instruction = campaign_instruction(seed, unit, family, target), .target = target};
  const Instruction& instruction = result.instruction;
  const Mma mma = mma_of(instruction);
  const bool in_registers = mma.b_source == OperandSource::registers;
  const int64_t count = std::max<int64_t>(12, outputs / (int64_t{mma.m} * mma.n));
  for (int64_t i = 0; i < count; ++i) {
    RandomStream random = unit_stream(seed, unit, static_cast<uint64_t>(1 + 2 * i));
    CampaignCase one{.distribution = distributions[static_cast<size_t>(i) % distributions.size()].id,
                     .random_descriptors = !in_registers && i % 5 == 4};
    const uint64_t case_index = static_cast<uint64_t>(unit) * unit_streams + static_cast<uint64_t>(i);
    const Operands operands = random_operands(instruction, result.target, one.distribution, seed, case_index);
    if (in_registers) {
      RandomStream filler = unit_stream(seed, unit, static_cast<uint64_t>(2 + 2 * i));
      one.state = place_operands(instruction, {}, operands, filler);
      if (mma.sparse && i % 8 == 7) use_any_metadata(one.state, filler);
    } else if (one.random_descriptors) {
      one.state = random_image_state(instruction, result.target, operands, random);
    } else {
      const OperandLayout a = random_layout(mma.a_major, random);
      const OperandLayout b = random_layout(mma.b_major, random);
      one.state = place_operands(instruction, {.a = a, .b = b}, operands,
                                 unit_stream(seed, unit, static_cast<uint64_t>(2 + 2 * i)));
    }
    result.cases.push_back(std::move(one));
  }
  return result;
}

namespace {

bool is_asked_for(const CampaignOptions& options, int64_t unit) {
  return options.only.empty() ||
         print(campaign_instruction(options.seed, unit, options.family, options.target)).find(options.only) !=
             std::string::npos;
}

void require_work(const CampaignOptions& options) {
  if (options.only.empty()) return;
  for (int64_t unit = options.first_unit; unit < options.first_unit + options.units; ++unit) {
    if (is_asked_for(options, unit)) return;
  }
  throw Error({.field = "only",
               .seen = options.only,
               .expected = fmt::format("text that a mnemonic of units {}..{} contains", options.first_unit,
                                       options.first_unit + options.units - 1),
               .fix = fmt::format("{} units meet every mnemonic once",
                                  campaign_mnemonics(options.family, options.target).size())});
}

/// What was found in one unit: its row, and cases whose bits differ, each with its number in the unit.
struct UnitResult {
  CampaignRow row = {.units = 1};
  std::vector<std::pair<size_t, Case>> mismatching = {};
};

/// Runs and checks the unit, whose states are taken. Keeps up to `most` cases whose bits differ.
UnitResult run_unit(CampaignUnit& unit, const Executor& execute, size_t most) {
  std::vector<State> states;
  for (CampaignCase& one : unit.cases) states.push_back(std::move(one.state));
  std::vector<State> after = execute(unit.instruction, unit.target, states);
  UnitResult result;
  for (size_t i = 0; i < unit.cases.size(); ++i) {
    Case one{.instruction = unit.instruction,
             .target = unit.target,
             .before = std::move(states[i]),
             .after = std::move(after.at(i))};
    const Comparison comparison =
        compare_case(one.instruction, static_cast<int64_t>(i), computed_d(one), recorded_d(one));
    result.row.cases += 1;
    result.row.outputs += comparison.outputs;
    result.row.mismatches += comparison.mismatches;
    if (is_hard(unit.cases[i])) result.row.hard_outputs += comparison.outputs;
    if (comparison.mismatches > 0 && result.mismatching.size() < most)
      result.mismatching.emplace_back(i, std::move(one));
  }
  return result;
}

/// The path of the new file.
std::string save(const CampaignOptions& options, int64_t unit, size_t index, Distribution distribution,
                 const Case& one) {
  auto metadata = options.provenance;
  metadata.insert(metadata.end(),
                  {{"source", options.source},
                   {"seed", std::to_string(options.seed)},
                   {"campaign_unit", std::to_string(unit)},
                   {"campaign_case", std::to_string(index)},
                   {"distribution", std::string(distributions[static_cast<size_t>(distribution)].name)}});
  const std::string name = fmt::format("mismatch_{}_{}_{}.safetensors", options.seed, unit, index);
  std::string path = (std::filesystem::path(options.save_folder) / name).string();
  write_tensor_file(path, single_case_file(one, std::move(metadata)));
  return path;
}

}  // namespace

CampaignReport run_campaign(const CampaignOptions& options, const Executor& execute, const CampaignProgress& progress) {
  require_work(options);
  CampaignReport report{.next_unit = options.first_unit};
  const size_t most_saved =
      options.save_folder.empty() ? 0 : static_cast<size_t>(std::max<int64_t>(options.max_saved, 0));
  std::mutex mutex;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
  std::vector<char> done(static_cast<size_t>(options.units));
  parallel_for(done.size(), options.threads, [&](size_t index) {
    if (options.seconds > 0 && std::chrono::steady_clock::now() > deadline) return;
    const int64_t number = options.first_unit + static_cast<int64_t>(index);
    if (!is_asked_for(options, number)) {
      done[index] = 1;
      return;
    }
    CampaignUnit unit = campaign_unit(options.seed, number, options.outputs_per_unit, options.family, options.target);
    const UnitResult result = run_unit(unit, execute, most_saved);
    const std::lock_guard lock(mutex);
    for (const auto& [i, one] : result.mismatching) {
      if (report.saved.size() >= most_saved) break;
      report.saved.push_back(save(options, number, i, unit.cases[i].distribution, one));
    }
    done[index] = 1;
    report.rows[instruction_group(unit.instruction)] += result.row;
    report.total += result.row;
    if (progress) progress(report.total);
  });
  const auto undone = std::ranges::find(done, 0);
  report.next_unit += undone - done.begin();
  return report;
}

}  // namespace bitmma
