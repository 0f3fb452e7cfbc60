// SPDX-License-Identifier: MIT
#include "bitmma/hardware/campaign.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>

#include "../core/seconds.hpp"
#include "../instruction/family.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/stimulus/random_case.hpp"

namespace bitmma {
namespace {

constexpr uint64_t unit_streams = 1u << 20;  // random streams of one unit: first the instruction's, then two per case

RandomStream unit_stream(uint64_t seed, int64_t unit, uint64_t stream) {
  return {seed ^ 0x626974'6D6D61, static_cast<uint64_t>(unit) * unit_streams + stream};  // apart from golden's streams
}

constexpr std::array swizzle_modes{Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

/// Each draw is a statement, so that the language fixes the order: a seed gives the same case with every compiler.
OperandLayout random_layout(Major major, RandomStream& random) {
  OperandLayout layout{.major = major, .swizzle = swizzle_modes[random.below(4)]};
  if (random.one_in(2)) layout.padding_bytes = 16 * random.below(16);
  if (random.one_in(2)) layout.start_bytes = 16 * random.below(64);
  if (random.one_in(2)) layout.base_offset = static_cast<int>(random.below(8));
  return layout;
}

/// Any descriptor that keeps the matrix inside an image of `image_bytes`.
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

/// Places registers, metadata and C as usual, but fills the image with random bytes and draws random descriptors.
State random_image_state(const Instruction& instruction, Target target, const Operands& operands,
                         RandomStream& random) {
  const OperandLayout layout{.major = Major::k, .swizzle = Swizzle::none};
  State state = place_operands(with_majors(instruction, layout, layout), {.a = layout, .b = layout}, operands, random);
  constexpr int64_t image_bytes = 32768;
  std::vector<uint8_t> image(image_bytes);
  // Without bit 6 no byte pattern is NaN or infinity in any format, so NaN and infinity cannot mask wrong addresses.
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

/// Fills the metadata with arbitrary bits, whose meaning PTX leaves undefined.
void use_any_metadata(State& state, RandomStream& random) {
  for (uint32_t& word : state.writable_words(Field::metadata)) word = random.word();
}

bool is_hard(const CampaignCase& campaign_case) {
  return !campaign_case.random_descriptors &&
         (campaign_case.distribution == Distribution::special ||
          campaign_case.distribution == Distribution::subnormal || campaign_case.distribution == Distribution::ties);
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

namespace {

/// The instructions of the family that the device supports. Units take them in turn.
const std::vector<Instruction>& campaign_mnemonics(Family family, Target target) {
  static std::mutex mutex;
  static std::map<std::pair<Family, Target>, std::vector<Instruction>> known;
  const std::lock_guard lock(mutex);
  std::vector<Instruction>& instructions = known[{family, target}];
  if (instructions.empty()) {
    instructions = all_instructions(family);
    std::erase_if(instructions, [&](const Instruction& instruction) {
      return !targets_of(instruction).contains(target) || reads_kept_operand(instruction);
    });
  }
  if (instructions.empty())
    throw Error({.code = ViolationCode::unsupported_target,
                 .field = "family",
                 .seen = fmt::format("{} on {}", print(family), print(target)),
                 .expected = "instructions of the device"});
  return instructions;
}

void require_unit(int64_t unit) {
  if (unit >= 0 && unit < campaign_units) return;
  throw Error({.field = "unit", .seen = std::to_string(unit), .expected = fmt::format("0..{}", campaign_units - 1)});
}

std::string outputs_text() { return fmt::format("1..{}", campaign_unit_outputs); }

}  // namespace

Instruction campaign_instruction(uint64_t seed, int64_t unit, Family family, Target target) {
  require_unit(unit);
  const std::vector<Instruction>& mnemonics = campaign_mnemonics(family, target);
  const auto count = static_cast<int64_t>(mnemonics.size());
  const Instruction& mnemonic = mnemonics[static_cast<size_t>(unit % count)];
  RandomStream random = unit_stream(seed, unit, 0);
  return family::dispatch(
      [&](const auto& alternative) { return family::vary(alternative, target, unit / count, random); }, mnemonic);
}

namespace {

/// Where the operands of a case are in shared memory. Base offsets are drawn only on targets where they were measured.
Placement random_placement(const Mma& mma, bool with_base_offset, RandomStream& random) {
  Placement placement{.a = random_layout(mma.a_major, random), .b = random_layout(mma.b_major, random)};
  if (with_base_offset) return placement;
  placement.a.base_offset = placement.b.base_offset = 0;
  // tcgen05 reads MN-major 32-bit elements under only one mode (PTX ISA 9.7.16.10, Table 54).
  for (const auto& [layout, bits] :
       {std::pair(&placement.a, mma.a_container_bits), std::pair(&placement.b, mma.b_container_bits)}) {
    if (layout->major == Major::mn && bits == 32) layout->swizzle = Swizzle::b128_atom32;
  }
  return placement;
}

CampaignCase campaign_case(const Instruction& instruction, Target target, uint64_t seed, int64_t unit, int64_t i) {
  const auto stream = [&](int64_t which) { return unit_stream(seed, unit, static_cast<uint64_t>(which + 2 * i)); };
  RandomStream random = stream(1);
  CampaignCase campaign_case{.distribution = distributions[static_cast<size_t>(i) % distributions.size()].id};
  const uint64_t case_index = static_cast<uint64_t>(unit) * unit_streams + static_cast<uint64_t>(i);
  if (!is_mma(instruction)) {
    const Placement placement{.a = {.swizzle = swizzle_modes[random.below(4)]}, .aligned_columns = true};
    // This takes case 0 of a new seed, because all cases of one seed begin at one address.
    campaign_case.state =
        random_case(instruction, target, placement, campaign_case.distribution, stream(2).word64(), 0).before;
    return campaign_case;
  }
  const Mma mma = mma_of(instruction);
  const Operands operands = random_operands(instruction, target, campaign_case.distribution, seed, case_index);
  RandomStream filler = stream(2);
  if (mma.b_source == OperandSource::registers) {
    campaign_case.state = place_operands(instruction, {}, operands, filler);
    // The effect of undefined metadata was measured only on sm_90a; a survey question covers other targets.
    if (mma.sparse && i % 8 == 7 && info(target).adds_as == Target::sm_90a)
      use_any_metadata(campaign_case.state, filler);
    return campaign_case;
  }
  const bool hopper = info(target).smem_descriptor == SmemDescriptorVersion::sm_90;
  campaign_case.random_descriptors = hopper && i % 5 == 4;
  if (campaign_case.random_descriptors) {
    campaign_case.state = random_image_state(instruction, target, operands, random);
    return campaign_case;
  }
  const Placement placement = random_placement(mma, hopper, random);
  try {
    campaign_case.state = place_operands(instruction, placement, operands, filler);
  } catch (const Error&) {  // not every layout can hold rows of K = 96 or rows wider than the swizzle
    campaign_case.state =
        place_operands(instruction, {.a = {.major = mma.a_major}, .b = {.major = mma.b_major}}, operands, filler);
  }
  return campaign_case;
}

/// The number of outputs of one case; for a move, the number of words that it leaves.
int64_t outputs_of(const CampaignUnit& unit) {
  const Matrix d = result_of(unit.instruction, unit.target, unit.cases.front().state);
  return int64_t{d.rows()} * d.cols();
}

}  // namespace

CampaignUnit campaign_unit_of(const Instruction& instruction, Target target, uint64_t seed, int64_t unit,
                              int64_t outputs) {
  require_unit(unit);
  if (outputs < 1 || outputs > campaign_unit_outputs)
    throw Error({.field = "outputs", .seen = std::to_string(outputs), .expected = outputs_text()});
  require_legal(instruction, target);
  CampaignUnit result{.instruction = instruction, .target = target};
  result.cases.push_back(campaign_case(instruction, target, seed, unit, 0));
  const int64_t count = std::max<int64_t>(12, outputs / outputs_of(result));
  for (int64_t i = 1; i < count; ++i) result.cases.push_back(campaign_case(instruction, target, seed, unit, i));
  return result;
}

CampaignUnit campaign_unit(uint64_t seed, int64_t unit, int64_t outputs, Family family, Target target) {
  return campaign_unit_of(campaign_instruction(seed, unit, family, target), target, seed, unit, outputs);
}

namespace {

/// Hands out the requested units one by one, so that the started units never leave a gap.
class Units {
 public:
  explicit Units(const CampaignOptions& options) : next_(options.first_unit), end_(next_ + options.units) {
    const std::vector<Instruction>& mnemonics = campaign_mnemonics(options.family, options.target);
    for (const Instruction& instruction : mnemonics) {
      const std::string mnemonic = print(instruction);
      wanted_.push_back(options.only.empty() || mnemonic.find(options.only) != std::string::npos);
    }
    find_wanted();
    if (next_ < end_) return;
    throw Error(
        {.field = "only",
         .seen = options.only,
         .expected = fmt::format("text that occurs in a mnemonic of units {}..{}", options.first_unit, end_ - 1),
         .fix = fmt::format("{} units cover every mnemonic once", mnemonics.size())});
  }

  bool has_next() const { return next_ < end_; }
  int64_t next() const { return next_; }
  int64_t take() {
    const int64_t unit = next_++;
    find_wanted();
    return unit;
  }

 private:
  /// Mnemonics repeat, so one round finds all of them.
  void find_wanted() {
    for (size_t tried = 0; tried < wanted_.size() && next_ < end_; ++tried, ++next_) {
      if (wanted_[static_cast<size_t>(next_) % wanted_.size()]) return;
    }
    next_ = end_;
  }

  int64_t next_, end_;
  std::vector<bool> wanted_ = {};  // by mnemonic
};

/// What one unit found: its row, and the cases whose bits differ, each with its number in the unit.
struct UnitResult {
  CampaignRow row = {.units = 1};
  std::vector<std::pair<size_t, Case>> mismatching = {};
};

/// Runs and checks the unit and takes over its states. Keeps up to `most` cases whose bits differ.
UnitResult run_unit(CampaignUnit& unit, const Executor& execute, size_t most) {
  std::vector<State> states;
  for (CampaignCase& campaign_case : unit.cases) states.push_back(std::move(campaign_case.state));
  std::vector<State> after = execute(unit.instruction, unit.target, states);
  if (after.size() != states.size()) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "states after the instruction",
                 .seen = std::to_string(after.size()),
                 .expected = fmt::format("{}, the number of states before it", states.size())});
  }
  UnitResult result;
  for (size_t i = 0; i < unit.cases.size(); ++i) {
    Case this_case{.instruction = unit.instruction,
                   .target = unit.target,
                   .before = std::move(states[i]),
                   .after = std::move(after[i])};
    const Comparison comparison =
        compare_case(this_case.instruction, static_cast<int64_t>(i), computed_d(this_case), recorded_d(this_case));
    result.row.cases += 1;
    result.row.outputs += comparison.outputs;
    result.row.mismatches += comparison.mismatches;
    if (is_hard(unit.cases[i])) result.row.hard_outputs += comparison.outputs;
    if (comparison.mismatches > 0 && result.mismatching.size() < most)
      result.mismatching.emplace_back(i, std::move(this_case));
  }
  return result;
}

void save(const CampaignOptions& options, const std::string& path, int64_t unit, size_t index,
          Distribution distribution, const Case& this_case) {
  auto metadata = options.provenance;
  metadata.insert(metadata.end(),
                  {{"source", options.source},
                   {"seed", std::to_string(options.seed)},
                   {"campaign_unit", std::to_string(unit)},
                   {"campaign_case", std::to_string(index)},
                   {"distribution", std::string(distributions[static_cast<size_t>(distribution)].name)}});
  write_tensor_file(path, single_case_file(this_case, std::move(metadata)));
}

/// Saves the case, or records in the report why it could not.
void save_or_count(const CampaignOptions& options, int64_t unit, size_t index, Distribution distribution,
                   const Case& this_case, CampaignReport& report) {
  const std::string name = fmt::format("mismatch_{}_{}_{}.safetensors", options.seed, unit, index);
  std::string path = (std::filesystem::path(options.save_folder) / name).string();
  std::string reason;
  try {
    save(options, path, unit, index, distribution, this_case);
    report.saved.push_back(std::move(path));
    return;
  } catch (const Error& error) {
    reason = error.violations().front().seen;  // the field names the file
  } catch (const std::exception& error) {
    reason = error.what();
  }
  auto known = std::ranges::find(report.not_saved, reason, &CampaignNotSaved::reason);
  if (known == report.not_saved.end()) {
    report.not_saved.push_back({.unit = unit, .case_index = static_cast<int64_t>(index), .reason = reason});
    known = report.not_saved.end() - 1;
  }
  known->cases += 1;
}

/// Why a unit failed. Errors of the device describe it themselves.
std::vector<Violation> reasons_of(const std::exception& failure, int64_t unit) {
  if (const auto* const error = dynamic_cast<const Error*>(&failure)) return error->violations();
  return {{.code = ViolationCode::gpu_failed,
           .field = fmt::format("unit {}", unit),
           .seen = failure.what(),
           .expected = "a unit that the device can run",
           .fix = "use fewer outputs per unit, or fewer threads, which need less memory"}};
}

}  // namespace

void require_valid(const CampaignOptions& options) {
  std::vector<Violation> wrong;
  const auto check = [&](bool right, const char* field, std::string seen, std::string expected) {
    if (!right) wrong.push_back({.field = field, .seen = std::move(seen), .expected = std::move(expected)});
  };
  const bool first_right = options.first_unit >= 0 && options.first_unit < campaign_units;
  check(first_right, "first_unit", std::to_string(options.first_unit), fmt::format("0..{}", campaign_units - 1));
  const int64_t most = campaign_units - (first_right ? options.first_unit : 0);
  check(options.units >= 1 && options.units <= most, "units", std::to_string(options.units),
        fmt::format("1..{}{}", most, options.first_unit > 0 && first_right ? ", beginning with the first unit" : ""));
  check(options.outputs_per_unit >= 1 && options.outputs_per_unit <= campaign_unit_outputs, "outputs_per_unit",
        std::to_string(options.outputs_per_unit), outputs_text());
  constexpr double most_seconds = 1e9;  // 30 years, which clocks of nanoseconds can hold
  check(options.seconds >= 0 && options.seconds <= most_seconds, "seconds",
        in_ieee_environment([&] { return fmt::format("{}", options.seconds); }), "0..1e9, where 0 means no limit");
  check(options.max_saved >= 0, "max_saved", std::to_string(options.max_saved), "0 or more");
  check(options.threads >= 1, "threads", std::to_string(options.threads), "1 or more");
  if (!wrong.empty()) throw Error(std::move(wrong));
}

CampaignReport run_campaign(const CampaignOptions& options, const Executor& execute, const CampaignProgress& progress) {
  require_valid(options);
  Units units(options);
  const int64_t most_saved = options.save_folder.empty() ? 0 : options.max_saved;
  const auto begin = std::chrono::steady_clock::now();
  // The mutex guards all variables below.
  std::mutex mutex;
  CampaignReport report;
  int64_t tried_to_save = 0;
  std::map<int64_t, std::vector<Violation>> failed;  // at most one per thread

  /// The next unit, or nothing if no more units may begin.
  const auto take = [&]() -> std::optional<int64_t> {
    const std::lock_guard lock(mutex);
    const bool too_late = options.seconds > 0 && seconds_since(begin) > options.seconds;
    if (!failed.empty() || !units.has_next() || too_late || (options.stop && options.stop())) return std::nullopt;
    return units.take();
  };
  const auto add = [&](int64_t number, const CampaignUnit& unit, const UnitResult& result) {
    const std::lock_guard lock(mutex);
    for (const auto& [i, this_case] : result.mismatching) {
      if (tried_to_save == most_saved) break;
      ++tried_to_save;
      save_or_count(options, number, i, unit.cases[i].distribution, this_case, report);
    }
    report.rows[instruction_group(unit.instruction)] += result.row;
    report.total += result.row;
    if (progress) progress(report.total);
  };
  const auto run_units = [&](size_t) {
    while (const std::optional<int64_t> number = take()) {
      try {
        CampaignUnit unit =
            campaign_unit(options.seed, *number, options.outputs_per_unit, options.family, options.target);
        const UnitResult result = run_unit(unit, execute, static_cast<size_t>(most_saved));
        add(*number, unit, result);
      } catch (const std::exception& failure) {
        const std::lock_guard lock(mutex);
        failed.emplace(*number, reasons_of(failure, *number));
      }
    }
  };
  parallel_for(static_cast<size_t>(options.threads), options.threads, run_units);
  report.next_unit = failed.empty() ? units.next() : failed.begin()->first;
  if (failed.empty()) return report;
  // Threads share the context of a device, and an error stays in it: another thread may have caused it.
  std::vector<Violation> wrong = std::move(failed.begin()->second);
  if (failed.size() > 1) {
    std::vector<int64_t> units_failed;
    for (const auto& [unit, reasons] : failed) units_failed.push_back(unit);
    wrong.front().fix += fmt::format("{}units {} failed together: one of them caused it; --threads 1 shows which",
                                     wrong.front().fix.empty() ? "" : "; ", fmt::join(units_failed, ", "));
  }
  throw CampaignError(std::move(wrong), std::move(report));
}

}  // namespace bitmma
