#include "bitmma/hardware/campaign.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <limits>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "bitmma/core/error.hpp"
#include "bitmma/files/compare.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// A device that is right.
std::vector<State> model_device(const Instruction& instruction, Target target, std::span<const State> cases) {
  std::vector<State> after(cases.begin(), cases.end());
  for (State& state : after) execute(instruction, target, state);
  return after;
}

}  // namespace

TEST_CASE("eight rounds of units cover every mnemonic, source and major-ness") {
  std::set<std::string> seen, expected;
  const auto name = [](const Instruction& instruction) {
    const Mma mma = mma_of(instruction);
    return print(instruction) + (mma.a_source == OperandSource::smem ? " smem" : " registers") +
           (mma.a_major == Major::mn ? "1" : "0") + (mma.b_major == Major::mn ? "1" : "0");
  };
  const auto mnemonics = all_instructions(Family::wgmma);
  for (const Instruction& mnemonic : mnemonics) {
    for (const OperandSource source : {OperandSource::smem, OperandSource::registers}) {
      for (int bits = 0; bits < 4; ++bits) {
        Wgmma wgmma = std::get<Wgmma>(mnemonic);
        wgmma.a_source = source, wgmma.transpose_a = bits & 1, wgmma.transpose_b = bits >> 1;
        if (violations_of(wgmma, Target::sm_90a).empty()) expected.insert(name(wgmma));
      }
    }
  }
  for (size_t unit = 0; unit < mnemonics.size() * 8; ++unit) {
    const Instruction instruction = campaign_instruction(5, static_cast<int64_t>(unit));
    REQUIRE(violations_of(instruction, Target::sm_90a).empty());
    seen.insert(name(instruction));
  }
  CHECK(seen == expected);
}

TEST_CASE("a unit is the same every time, and its cases can be simulated") {
  for (const int64_t unit : {int64_t{0}, int64_t{700}, int64_t{5000}}) {
    const CampaignUnit first = campaign_unit(1, unit, 30000), again = campaign_unit(1, unit, 30000);
    REQUIRE(first.cases.size() == again.cases.size());
    REQUIRE(first.cases.size() >= 12);
    std::set<uint64_t> modes;
    for (size_t i = 0; i < first.cases.size(); ++i) {
      CHECK(first.cases[i].state == again.cases[i].state);
      modes.insert(first.cases[i].state.number(Field::b_desc) >> 62);
      CHECK_NOTHROW(result_of(first.instruction, first.target, first.cases[i].state));
    }
    CHECK(modes.size() >= 3);
    CHECK(campaign_unit(2, unit, 30000).cases[0].state != first.cases[0].state);
  }
}

TEST_CASE("a right device ends without mismatches, and the report counts everything") {
  const CampaignReport report =
      run_campaign({.seed = 3, .first_unit = 100, .units = 6, .outputs_per_unit = 5000, .threads = 2}, model_device);
  CHECK(report.total.units == 6);
  CHECK(report.total.mismatches == 0);
  CHECK(report.total.outputs >= 6 * 5000);
  CHECK(report.total.hard_outputs > 0);
  CHECK(report.next_unit == 106);
  int64_t outputs = 0;
  for (const auto& [name, row] : report.rows) outputs += row.outputs;
  CHECK(outputs == report.total.outputs);
  CHECK_THROWS_MATCHES(run_campaign({.seed = 3, .units = 40, .only = ".b1."}, model_device), Error,
                       refused(illegal_value, "only"));
}

TEST_CASE("a wrong device is caught, and every mismatching case is saved as a file that shows it") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("save"));
  const auto wrong_device = [](const Instruction& instruction, Target target, std::span<const State> cases) {
    auto after = model_device(instruction, target, cases);
    after[3].writable_words(Field::accumulator)[17] ^= 0x8000;
    after[7].writable_words(Field::accumulator)[0] ^= 1;
    return after;
  };
  const CampaignReport report = run_campaign({.seed = 4,
                                              .units = 2,
                                              .outputs_per_unit = 5000,
                                              .save_folder = folder.path("save"),
                                              .max_saved = 3,
                                              .source = "a wrong device",
                                              .threads = 2},
                                             wrong_device);
  CHECK(report.total.mismatches == 4);
  REQUIRE(report.saved.size() == 3);
  for (const std::string& path : report.saved) {
    const VectorFile file = read_vector_file(path);
    CHECK(file.cases == 1);
    CHECK(file.source() == "a wrong device");
    CHECK(verify(file, 1).mismatches == 1);
    CHECK(file.file.find_metadata("campaign_unit") != nullptr);
  }
}

TEST_CASE("a device that fails ends the campaign with its error, and what was done before is kept") {
  const auto broken = [](const Instruction&, Target, std::span<const State>) -> std::vector<State> {
    throw Error(Violation{.field = "GPU", .seen = "gone"});
  };
  CHECK_THROWS_MATCHES(run_campaign({.units = 3, .outputs_per_unit = 1000}, broken), Error,
                       refused(illegal_value, "GPU"));

  // The third unit fails, each time in another way.
  const std::vector<std::pair<test::Refusal, std::function<std::vector<State>()>>> failures{
      {{illegal_value, "GPU"}, [&] { return broken(Wgmma{}, Target::sm_90a, {}); }},
      {{gpu_failed, "unit 12"}, []() -> std::vector<State> { throw std::bad_alloc(); }},
      {{wrong_shape, "states after the instruction"}, [] { return std::vector<State>(1); }}};
  for (const auto& [refusal, fail] : failures) {
    int calls = 0;
    const auto third = [&](const Instruction& instruction, Target target, std::span<const State> cases) {
      return ++calls == 3 ? fail() : model_device(instruction, target, cases);
    };
    try {
      run_campaign({.first_unit = 10, .units = 100, .outputs_per_unit = 1000}, third);
      FAIL("a unit failed");
    } catch (const CampaignError& error) {
      CHECK_THAT(error, refused(refusal));
      CHECK(error.report.total.units == 2);
      CHECK(error.report.total.outputs > 0);
      CHECK(error.report.next_unit == 12);
      CHECK(calls == 3);
    }
  }
}

TEST_CASE("units beside one that fails are counted, and going on begins with the one that failed") {
  std::mutex mutex;
  std::condition_variable other_is_done;
  bool done = false;
  // The second unit that comes waits for the first: each thread has one.
  int calls = 0;
  const auto device = [&](const Instruction& instruction, Target target, std::span<const State> cases) {
    const bool first = [&] {
      const std::lock_guard lock(mutex);
      return ++calls == 1;
    }();
    if (!first) return model_device(instruction, target, cases);
    std::unique_lock lock(mutex);
    // Without a second thread it would never come.
    if (!other_is_done.wait_for(lock, std::chrono::minutes(5), [&] { return done; })) throw std::runtime_error("alone");
    throw Error(Violation{.field = "GPU", .seen = "gone"});
  };
  const auto progress = [&](const CampaignRow& total) {
    const std::lock_guard lock(mutex);
    done = total.units == 3;
    if (done) other_is_done.notify_one();
  };
  try {
    run_campaign({.units = 4, .outputs_per_unit = 1000, .threads = 2}, device, progress);
    FAIL("a unit failed");
  } catch (const CampaignError& error) {
    CHECK(error.report.total.units == 3);
    CHECK(error.report.next_unit <= 1);  // whichever unit came first
  }
}

TEST_CASE("a campaign that is asked to stop ends its units, leaves no gap, and goes on to the same table") {
  for (const int threads : {1, 3}) {
    CampaignOptions options{.seed = 9, .units = campaign_units, .outputs_per_unit = 1000, .threads = threads};
    std::atomic<int> done = 0;
    options.stop = [&] { return done >= 5; };
    const CampaignReport first = run_campaign(options, model_device, [&](const CampaignRow&) { ++done; });
    CHECK(first.total.units >= 5);
    CHECK(first.total.units <= 5 + threads);
    REQUIRE(first.next_unit == first.total.units);  // no gap

    options.stop = {};
    options.first_unit = first.next_unit, options.units = 10 - first.next_unit;
    CampaignReport second = run_campaign(options, model_device);
    CHECK(second.next_unit == 10);
    options.first_unit = 0, options.units = 10;
    const CampaignReport whole = run_campaign(options, model_device);
    for (const auto& [name, row] : first.rows) second.rows[name] += row;
    CHECK(second.rows == whole.rows);
  }
  const CampaignReport nothing =
      run_campaign({.first_unit = 3, .outputs_per_unit = 1000, .stop = [] { return true; }}, model_device);
  CHECK(nothing.total.units == 0);
  CHECK(nothing.next_unit == 3);
}

TEST_CASE("mismatches that cannot be saved are counted with their reason and do not end a campaign") {
  const test::TemporaryFolder folder;
  const auto zeros = [](const Instruction& instruction, Target target, std::span<const State> cases) {
    auto after = model_device(instruction, target, cases);
    for (State& state : after) {
      for (uint32_t& word : state.writable_words(Field::accumulator)) word ^= 0x10001;
    }
    return after;
  };
  for (const int64_t max_saved : {0, 1, 20, 1000}) {
    const CampaignReport report = run_campaign({.seed = 4,
                                                .units = 2,
                                                .outputs_per_unit = 1000,
                                                .save_folder = folder.path("there is no such folder"),
                                                .max_saved = max_saved},
                                               zeros);
    CHECK(report.total.units == 2);
    CHECK(report.total.cases == 24);
    CHECK(report.total.mismatches > 24);
    CHECK(report.saved.empty());
    if (max_saved == 0) {
      CHECK(report.not_saved.empty());
      continue;
    }
    REQUIRE(report.not_saved.size() == 1);
    CHECK(report.not_saved[0].unit == 0);
    CHECK(report.not_saved[0].case_index == 0);
    CHECK(report.not_saved[0].cases == std::min<int64_t>(max_saved, 24));
    CHECK_THAT(report.not_saved[0].reason, ContainsSubstring("folder"));
  }
}

TEST_CASE("campaigns, units and instructions that cannot be are refused, each field by name") {
  const auto refusal = [](const CampaignOptions& options) {
    const auto nothing = [](const Instruction&, Target, std::span<const State>) -> std::vector<State> {
      FAIL("nothing is to run");
      return {};
    };
    return test::refusal_of([&] { run_campaign(options, nothing); });
  };
  constexpr int64_t largest = std::numeric_limits<int64_t>::max(), smallest = std::numeric_limits<int64_t>::min();
  const std::string last = std::to_string(campaign_units - 1);
  for (const int64_t first : {int64_t{-1}, int64_t{-1074}, smallest, campaign_units, largest}) {
    CHECK_THAT(refusal({.first_unit = first, .units = 2}), refused(illegal_value, "first_unit"));
    CHECK_THROWS_MATCHES(campaign_instruction(0, first), Error, refused(illegal_value, "unit"));
    CHECK_THROWS_MATCHES(campaign_unit(0, first, 1000), Error, refused(illegal_value, "unit"));
  }
  CHECK_NOTHROW(campaign_instruction(0, campaign_units - 1));
  for (const int64_t units : {int64_t{0}, int64_t{-1}, smallest, campaign_units, largest}) {
    CHECK_THAT(refusal({.first_unit = 1, .units = units}), refused(illegal_value, "units"));
  }
  for (const int64_t outputs : {int64_t{0}, int64_t{-1'000'000'000}, campaign_unit_outputs + 1, largest}) {
    CHECK_THAT(refusal({.outputs_per_unit = outputs}), refused(illegal_value, "outputs_per_unit"));
    CHECK_THROWS_MATCHES(campaign_unit(0, 0, outputs), Error, refused(illegal_value, "outputs"));
  }
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {-1.0, 1e308, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THAT(refusal({.seconds = seconds}), refused(illegal_value, "seconds"));
  CHECK_THAT(refusal({.max_saved = -5}), refused(illegal_value, "max_saved"));
  CHECK_THAT(refusal({.threads = 0}), refused(illegal_value, "threads"));
  CHECK_THAT(refusal({.family = Family::tcgen05}), refused(unsupported_target, "family"));
  CHECK_THAT(refusal({.family = Family::tmem_move}), refused(unsupported_target, "family"));
  CHECK_THAT(refusal({.target = Target::sm_100a}), refused(unsupported_target, "family"));
  CHECK_THAT(refusal({.first_unit = -1, .units = 0, .max_saved = -1}), refused(illegal_value, "first_unit") &&
                                                                           refused(illegal_value, "units") &&
                                                                           refused(illegal_value, "max_saved"));
}

TEST_CASE("every family has campaigns: tcgen05.mma of all kinds, block-scaled mma.sync, and moves", "[long]") {
  const std::vector<std::pair<Family, Target>> campaigns{{Family::tcgen05, Target::sm_100a},
                                                         {Family::tcgen05, Target::sm_103a},
                                                         {Family::tmem_move, Target::sm_100a},
                                                         {Family::mma_sync, Target::sm_120a}};
  for (const auto& [family, target] : campaigns) {
    // A few units of each mnemonic's neighbourhood: all of them take minutes.
    const auto mnemonics = all_instructions(family);
    std::set<std::string> shapes, sources;
    int64_t compared = 0;
    for (size_t unit = 0; unit < mnemonics.size(); unit += 23) {
      const auto number = static_cast<int64_t>(unit);
      const CampaignUnit first = campaign_unit(9, number, 1, family, target);
      INFO(print(first.instruction) << " on " << print(target));
      CHECK(violations_of(first.instruction, target).empty());
      CHECK(first.cases.size() == 12);
      CHECK_FALSE(reads_kept_operand(first.instruction));
      for (const CampaignCase& campaign_case : first.cases)
        CHECK_NOTHROW(result_of(first.instruction, target, campaign_case.state));
      CHECK(campaign_unit(9, number, 1, family, target).cases[11].state == first.cases[11].state);
      if (is_mma(first.instruction)) {
        const Mma mma = mma_of(first.instruction);
        shapes.insert(std::to_string(mma.m) + "x" + std::to_string(mma.n));
        sources.insert(mma.a_source == OperandSource::tmem ? "tmem" : "other");
      }
      ++compared;
    }
    CHECK(compared > 10);
    if (family == Family::tcgen05) {
      CHECK(shapes.size() > 20);
      CHECK(sources.size() == 2);
    }
  }
}

TEST_CASE("random moves of campaigns begin at whole repetitions of their shape") {
  for (const auto& [text, columns] :
       std::vector<std::pair<std::string, uint64_t>>{{"tcgen05.ld.sync.aligned.32x32b.x2.b32", 1},
                                                     {"tcgen05.ld.sync.aligned.16x64b.x4.b32", 2},
                                                     {"tcgen05.ld.sync.aligned.16x128b.x2.b32", 4},
                                                     {"tcgen05.st.sync.aligned.16x256b.x1.b32", 8},
                                                     {"tcgen05.st.sync.aligned.16x256b.x2.unpack::16b.b32", 16},
                                                     {"tcgen05.ld.sync.aligned.16x32bx2.x4.b32", 1},
                                                     {"tcgen05.cp.cta_group::1.128x256b", 8},
                                                     {"tcgen05.cp.cta_group::1.4x256b", 8},
                                                     {"tcgen05.cp.cta_group::2.32x128b.warpx4", 4},
                                                     {"tcgen05.shift.cta_group::1.down", 8}}) {
    INFO(text);
    uint64_t bits = 0, any = 0;
    for (uint64_t i = 0; i < 200; ++i) {
      const Instruction instruction = parse_instruction(text);
      const Placement aligned{.a = {.swizzle = Swizzle::none}, .aligned_columns = true};
      bits |= random_case(instruction, Target::sm_100a, aligned, Distribution::bits, 5, i).before.number(Field::taddr);
      any |= random_case(instruction, Target::sm_100a, {.a = aligned.a}, Distribution::bits, 5, i)
                 .before.number(Field::taddr);
    }
    CHECK((bits & (columns - 1)) == 0);
    CHECK((bits & 0xFFFF) != 0);
    if (columns == 8 && text.find(".cp") == std::string::npos) CHECK((any & 7) == 7);
  }
  // What an instruction before must have kept is run by nobody.
  CHECK(reads_kept_operand(parse_instruction("tcgen05.mma.cta_group::1.kind::f16.collector::a::use")));
  CHECK(reads_kept_operand(parse_instruction("tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::lastuse")));
  CHECK(reads_kept_operand(parse_instruction("tcgen05.mma.cta_group::1.kind::f16.collector::b::use")));
  CHECK_FALSE(reads_kept_operand(parse_instruction("tcgen05.mma.cta_group::1.kind::f16.collector::a::fill")));
  CHECK_FALSE(reads_kept_operand(parse_instruction("tcgen05.mma.cta_group::1.kind::f16")));
}

TEST_CASE("units that nobody asks for are passed over without making them, however many there are") {
  // Mnemonics repeat with their count: one round says whether any unit is meant.
  const int64_t count = std::ssize(all_instructions(Family::wgmma));
  for (int64_t unit = 0; unit < count; unit += 97) {
    CHECK(print(campaign_instruction(3, unit)) == print(campaign_instruction(3, unit + 5 * count)));
    CHECK(print(campaign_instruction(3, unit)) == print(all_instructions(Family::wgmma)[static_cast<size_t>(unit)]));
  }
  CHECK_THROWS_MATCHES(run_campaign({.units = campaign_units, .only = "zzz"}, model_device), Error,
                       refused(illegal_value, "only"));
  const std::string rare = print(campaign_instruction(0, 700));
  int64_t calls = 0;
  const auto device = [&](const Instruction& instruction, Target target, std::span<const State> cases) {
    ++calls;
    CHECK(print(instruction) == rare);
    return model_device(instruction, target, cases);
  };
  const CampaignReport report = run_campaign(
      {.units = campaign_units, .outputs_per_unit = 1000, .stop = [&] { return calls == 3; }, .only = rare}, device);
  CHECK(report.total.units == 3);
  CHECK(report.next_unit == 700 + 3 * count);  // the next that is meant
}

TEST_CASE("no two units draw the same random numbers: their sizes and their number are bounded") {
  for (const Family family : {Family::wgmma, Family::mma_sync}) {
    for (const Instruction& instruction : all_instructions(family)) {
      const Mma mma = mma_of(instruction);
      // Streams of a unit: the instruction's, and two for each case, of 1 << 20.
      CHECK(1 + 2 * (campaign_unit_outputs / (int64_t{mma.m} * mma.n)) < int64_t{1} << 20);
    }
  }
}
