// Loads and stores of all lanes at once, against the same lane by lane.
#include "kernel/lane_access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bitmma/core/random.hpp"
#include "core/cpu_level.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using namespace bitmma::kernel;

namespace {

constexpr size_t warps = 3, memory_bytes = 1024, slot_bytes = 16 * lanes, slots = 10;
constexpr uint64_t global_at = global_begin + 256;
constexpr int instructions = 12;

/// A block of three warps, and an allocation.
struct Machine {
  Program program;
  Launch launch;
  Cluster cluster;
  std::vector<uint8_t> files = std::vector<uint8_t>(warps * slots * slot_bytes);
  std::vector<uint8_t> data = std::vector<uint8_t>(memory_bytes), states = std::vector<uint8_t>(memory_bytes);
  std::unique_ptr<BlockUses> uses = std::make_unique<BlockUses>(memory_bytes);
  std::vector<GlobalRegion> regions;

  explicit Machine(RaceCheck races) {
    launch.block = {warps * lanes, 1, 1};
    launch.races = races;
    program.entry.instructions.resize(instructions);
    for (int i = 0; i < instructions; ++i) {
      program.entry.instructions[static_cast<size_t>(i)].line = i;
      program.entry.instructions[static_cast<size_t>(i)].operands.resize(2);
    }
    regions = {{.begin = global_begin, .size = 16, .data = data.data(), .name = "other"},
               {.begin = global_at,
                .size = memory_bytes,
                .data = data.data(),
                .states = states.data(),
                .uses = uses.get(),
                .name = "memory"}};
    cluster.ctas.resize(1);
    Cta& cta = cluster.ctas[0];
    cta.cluster = &cluster, cta.program = &program, cta.launch = &launch, cta.regions = &regions;
    cta.threads = warps * lanes;
    cta.shared.resize(shared_begin + memory_bytes);
    cta.shared_states.resize(cta.shared.size());
    cta.uses.resize(cta.shared.size(), warps);
    cta.warps.resize(warps);
    for (size_t i = 0; i < warps; ++i) {
      Warp& warp = cta.warps[i];
      warp.file = &files[i * slots * slot_bytes];
      warp.cta = &cta;
      warp.index = warp.number = static_cast<int>(i);
      warp.live = warp.active = all_lanes;
      warp.seen.assign(warps, 0);
    }
  }
  Machine(const Machine&) = delete;

  void forget_blocks() {
    uses = std::make_unique<BlockUses>(memory_bytes);
    regions[1].uses = uses.get();
  }
  Cta& cta() { return cluster.ctas[0]; }
  Warp& warp(size_t i) { return cta().warps[i]; }
  void pass_barrier() {
    std::vector<uint32_t> known;
    for (const Warp& each : cta().warps) tell(each, known);
    for (Warp& each : cta().warps) learn(each, known), ++each.epoch;
  }
};

/// What a step says.
std::string outcome(Machine& machine, Run run, size_t warp, const Op& op, Mask mask) {
  std::string text;
  try {
    run(machine.warp(warp), op, mask);
  } catch (const KernelFault& fault) {
    text =
        fmt::format("{} {} {} {} {}", static_cast<int>(fault.code), fault.lane, fault.seen, fault.expected, fault.fix);
  }
  machine.warp(warp).takes_unwritten = false;
  Warnings& warnings = machine.cluster.warnings;
  if (warnings.block_race) machine.forget_blocks();  // after the first warning no use is noted
  for (std::optional<Violation>* warning : {&warnings.same_address, &warnings.block_race, &warnings.shared_race}) {
    if (*warning) text += fmt::format("; {} {}", (*warning)->field, (*warning)->seen);
    warning->reset();
  }
  return text;
}

/// Addresses of the lanes from one on, as kernels compute them and as they do not.
std::array<uint64_t, lanes> addresses(RandomStream& random, uint64_t begin, uint64_t bytes) {
  std::array<uint64_t, lanes> all;
  const uint64_t places = memory_bytes / bytes, first = random.below(static_cast<uint32_t>(places)),
                 flip = random.below(lanes), stride = random.below(5);
  const int pattern = random.between(0, 6);
  for (size_t i = 0; i < lanes; ++i) {
    uint64_t place = 0;
    switch (pattern) {
      case 0:
      case 1: place = first / lanes * lanes + i; break;
      case 2: place = first / lanes * lanes + (i ^ flip); break;
      case 3: place = first; break;
      case 4: place = first + i / 4; break;
      case 5: place = first + i * stride; break;
      default: place = random.below(static_cast<uint32_t>(places));
    }
    all[i] = begin + bytes * (random.one_in(20'000) ? place : place % places);
  }
  if (random.one_in(500)) all[random.below(lanes)] += 1;
  return all;
}

}  // namespace

TEST_CASE("all lanes at once load, store, fault and warn as they do one by one, at each level of processors") {
  const CpuLevel level_before = cpu_level();
  size_t quiet = 0, loud = 0;
  for (const CpuLevelInfo& level : cpu_levels) {
    if (!has(level.id)) continue;
    use_cpu_level(level.id);
    CAPTURE(level.name);
    for (uint64_t round = 0; round < test::amount<uint64_t>(12, 60, 60); ++round) {
      CAPTURE(round);
      RandomStream random(9, round);
      const RaceCheck races = round % 3 == 0 ? RaceCheck::fault : round % 3 == 1 ? RaceCheck::warning : RaceCheck::off;
      Machine together(races), apart(races);
      for (int step = 0; step < 400; ++step) {
        CAPTURE(step);
        if (random.one_in(4)) together.pass_barrier(), apart.pass_barrier();
        const bool is_store = random.between(0, 1) == 1;
        MemoryDetails details;
        constexpr std::array element_types{Type::u8,  Type::s8,  Type::u16, Type::s16, Type::b32,
                                           Type::b32, Type::s32, Type::b64, Type::b128};
        details.type = element_types[random.below(static_cast<uint32_t>(element_types.size()))];
        details.bytes = bytes_of(details.type);
        const int most_parts = details.bytes == 16 ? 1 : details.bytes >= 4 ? 32 / details.bytes : 4;
        const int parts = std::min(most_parts, 1 << random.between(0, 3));
        for (int i = 0; i < parts; ++i)
          details.parts.push_back({.slot = static_cast<uint32_t>((2 + static_cast<size_t>(i)) * slot_bytes),
                                   .bits = details.bytes == 16  ? 128
                                           : details.bytes == 8 ? 64
                                           : random.one_in(4)   ? 64
                                                                : 32});
        const bool is_shared = random.between(0, 2) != 0, is_generic = random.one_in(4);
        details.address.space = is_generic ? Space::generic : is_shared ? Space::shared : Space::global;
        details.address.wide = is_generic || !is_shared || random.one_in(2);
        details.address.offset = 8 * random.between(-2, 2);
        const auto bytes = static_cast<uint64_t>(details.total());
        const uint64_t begin = is_shared ? shared_begin + (is_generic ? shared_window : 0) : global_at;
        const std::array<uint64_t, lanes> at = addresses(random, begin, bytes);
        const Mask mask = random.one_in(4) ? random.word() | 1 : all_lanes;
        const size_t warp = random.below(warps);
        std::vector<uint32_t> values(slots * slot_bytes / 4);
        for (uint32_t& value : values) value = random.one_in(8) ? 0 : random.word();
        for (Machine* machine : {&together, &apart}) {
          Warp& of = machine->warp(warp);
          std::memcpy(of.file + 2 * slot_bytes, values.data(), (slots - 2) * slot_bytes);
          for (size_t i = 0; i < lanes; ++i) {
            const uint64_t base = at[i] - static_cast<uint64_t>(details.address.offset);
            if (details.address.wide) of.lanes_of<uint64_t>(0)[i] = base;
            else of.lanes_of<uint32_t>(0)[i] = static_cast<uint32_t>(base);
          }
          machine->cluster.index = static_cast<size_t>(step / 40 % 3);
        }
        Op op;
        op.details = &details;
        op.instruction = random.between(0, instructions - 1);
        const std::string expected = outcome(apart, is_store ? store_by_lanes : load_by_lanes, warp, op, mask),
                          actual = outcome(together, is_store ? store_run() : load_run(), warp, op, mask);
        ++(expected.empty() ? quiet : loud);
        CAPTURE(is_store, details.bytes, parts, is_shared, mask);
        REQUIRE(actual == expected);
        REQUIRE(together.files == apart.files);
        REQUIRE(together.cta().shared == apart.cta().shared);
        REQUIRE(together.cta().shared_states == apart.cta().shared_states);
        REQUIRE(together.data == apart.data);
        REQUIRE(together.states == apart.states);
        for (Machine* machine : {&together, &apart}) machine->warp(warp).unwritten.reset();
        if (races == RaceCheck::fault && !expected.empty() && random.one_in(8))
          together.pass_barrier(), apart.pass_barrier();
      }
    }
  }
  use_cpu_level(level_before);
  REQUIRE(quiet > test::amount<size_t>(2'000, 10'000, 10'000));
  REQUIRE(loud > test::amount<size_t>(200, 1'000, 1'000));
}
