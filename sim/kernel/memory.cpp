// SPDX-License-Identifier: MIT
// Translates a lane's address to memory, and checks that the lane may read or write there.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "../core/words.hpp"
#include "bitmma/core/bits.hpp"
#include "lane_access.hpp"
#include "machine.hpp"
#include "unwritten.hpp"

namespace bitmma::kernel {
namespace {

/// Whether a memory of `size` bytes has `bytes` bytes from `at`. No sum may wrap: a kernel computes any address.
constexpr bool holds(uint64_t size, uint64_t at, uint64_t bytes) { return at <= size && size - at >= bytes; }

/// The newest epoch of warp `other` that is visible to `warp`: later accesses are not ordered before the current one.
bool is_ordered(const Warp& warp, int other, uint32_t epoch) {
  return other == warp.number || epoch <= warp.seen[static_cast<size_t>(other)];
}

std::string line_of(const Cta& cta, int instruction) {
  if (instruction < 0) return "the kernel's start";
  const PtxInstruction& statement = cta.program->entry.instructions[static_cast<size_t>(instruction)];
  return fmt::format("PTX line {}, {}", statement.line, statement.text);
}

/// "thread (3, 0, 0)", or for another block "thread (3, 0, 0) of block 1 of the cluster".
std::string print_writer(const Warp& warp, int writer, int lane) {
  const int warps = static_cast<int>(warp.cta->warps.size()), rank = writer / warps;
  std::string text = print_thread(*warp.cta, writer % warps, lane);
  if (rank != warp.cta->rank) text += fmt::format(" of block {} of the cluster", rank);
  return text;
}

/// Notes a race that is no fault, if it is the first.
void warn_of_race(const Cta& cta, std::string place, KernelFault race) {
  std::optional<Violation>& warning = cta.cluster->warnings.shared_race;
  if (warning) return;
  warning = Violation{.code = race.code,
                      .field = fmt::format("{}, {}", print_block(cta), place),
                      .seen = std::move(race.seen),
                      .expected = std::move(race.expected),
                      .fix = std::move(race.fix),
                      .severity = Severity::warning};
}

/// Ends the kernel for a race at byte `at` of a block, or warns of the first one, as the launch says. `earlier`: the
/// other access, and where it stands.
[[gnu::cold, gnu::noinline]] void report_race(const Warp& warp, const Cta& cta, const Op& op, int lane, size_t at,
                                              const std::string& earlier, int instruction, std::string fix) {
  KernelFault race{.code = ViolationCode::shared_memory_race,
                   .lane = lane,
                   .seen = fmt::format("byte {} of shared memory, which {} at {}", at - shared_begin, earlier,
                                       line_of(cta, instruction)),
                   .expected = "a barrier between the two",
                   .fix = std::move(fix)};
  if (cta.launch->races == RaceCheck::fault) throw race;
  warn_of_race(*warp.cta, print_thread(*warp.cta, warp.index, lane) + ", " + line_of(*warp.cta, op.instruction),
               std::move(race));
}
[[gnu::cold, gnu::noinline]] void report_write(const Warp& warp, const Cta& cta, const Op& op, int lane, size_t at,
                                               const SharedUse& use) {
  if (cta.launch->races == RaceCheck::off) return;
  report_race(warp, cta, op, lane, at, print_writer(warp, use.writer, use.write_lane) + " wrote", use.write_instruction,
              "put bar.sync between the write and this access");
}
[[gnu::cold, gnu::noinline]] void report_read(const Warp& warp, const Cta& cta, const Op& op, int lane, size_t at,
                                              const SharedUse& use, int reader) {
  if (cta.launch->races == RaceCheck::off) return;
  report_race(warp, cta, op, lane, at, fmt::format("warp {} read", reader), use.read_instruction,
              "put bar.sync between the read and this write");
}

uint32_t reader_bit(const Warp& warp) { return uint32_t{1} << (static_cast<uint32_t>(warp.index) % 32); }

/// Whether a warp of the block read the place, and no barrier is between that and an access of `warp`; -1: none.
int unordered_reader(const Warp& warp, const Cta& cta, const SharedUse& use, const SharedUses::ReadEpochs& epochs,
                     uint32_t own) {
  for (uint32_t readers = use.readers & ~own; readers != 0; readers &= readers - 1) {
    const int reader = __builtin_ctz(readers);
    if (!is_ordered(warp, cta.warps[static_cast<size_t>(reader)].number, epochs[reader])) return reader;
  }
  return -1;
}

void note_read(Warp& warp, const Op& op, SharedUse& use, const SharedUses::ReadEpochs& epochs) {
  use.readers |= reader_bit(warp);
  use.read_instruction = op.instruction;
  epochs[warp.index] = warp.epoch;
}
void note_write(Warp& warp, const Op& op, int lane, SharedUse& use, bool by_atomic) {
  use.readers = 0;
  use.writer = static_cast<int16_t>(warp.number);
  use.write_epoch = warp.epoch;
  use.write_lane = static_cast<uint8_t>(lane);
  use.write_instruction = op.instruction;
  use.by_atomic = by_atomic;
  use.is_generic = true;
}

/// Records the warp's access to bytes of a block, and reports a conflicting access without a barrier in between. Reads
/// of other blocks are not recorded.
void note_use(Warp& warp, Cta& cta, const Op& op, int lane, size_t at, size_t bytes, AccessKind kind,
              const uint8_t* data) {
  const bool is_own = &cta == warp.cta;
  if (kind == AccessKind::bulk_write && !cta.uses.is_unit_used(at)) return;  // 16 bytes at most
  cta.uses.use_units(at, bytes);
  if (is_own && kind == AccessKind::read) cta.uses.expect_read(warp.index, warp.epoch);
  cta.uses.for_each(at, bytes, [&](SharedUse& use, const SharedUses::ReadEpochs& epochs, size_t first) {
    const size_t count = std::min(SharedUses::word - first % SharedUses::word, at + bytes - first);
    const bool both_atomic = kind == AccessKind::atomic && use.by_atomic;
    const bool same_value = data && std::memcmp(data + (first - at), &cta.shared[first], count) == 0;
    if (use.writer >= 0 && !both_atomic && !same_value && !is_ordered(warp, use.writer, use.write_epoch))
      report_write(warp, cta, op, lane, first, use);
    if (kind == AccessKind::read) {
      if (is_own) note_read(warp, op, use, epochs);
      return;
    }
    const int reader = unordered_reader(warp, cta, use, epochs, is_own ? reader_bit(warp) : 0);
    if (reader >= 0) report_read(warp, cta, op, lane, first, use, reader);
    note_write(warp, op, lane, use, kind == AccessKind::atomic);
  });
}

[[noreturn]] void fault_of_state(uint8_t state, int lane, std::string_view where) {
  if (state == in_flight) {
    fault(ViolationCode::unwritten_read, lane, fmt::format("{}: a cp.async to it may not have finished", where),
          "cp.async.wait_group, and a barrier if other threads copied", "wait before the read");
  }
  fault(ViolationCode::unwritten_read, lane, fmt::format("{}: it has not been written", where), "initialised memory",
        "write it first, or run without checks to read it anyway");
}

/// `where` formats the place; it is called only for a fault.
template <typename Where>
void require_written(const uint8_t* states, size_t bytes, int lane, const Where& where) {
  for (size_t i = 0; i < bytes; ++i) {
    if (states[i] != written) fault_of_state(states[i], lane, where());
  }
}

template <typename Where>
void check_states(Warp& warp, const Op& op, uint8_t* states, size_t bytes, int lane, AccessKind kind,
                  const Where& where) {
  if (warp.takes_unwritten && (kind == AccessKind::read || kind == AccessKind::atomic) &&
      std::none_of(states, states + bytes, [](uint8_t state) { return state == in_flight; })) {
    const std::span of_access(states, bytes);
    if (std::ranges::any_of(of_access, [](uint8_t state) { return state != written; }))
      note_unwritten(warp, op, lane, of_access, where());
  } else if (kind == AccessKind::read || kind == AccessKind::atomic) {
    require_written(states, bytes, lane, where);
  }
  if (kind != AccessKind::read) std::memset(states, written, bytes);
}

/// Memory with an end, from the place of an access on.
struct EndOfMemory {
  std::string name = {};
  uint64_t at = 0, size = 0;        // of the access, and of the memory
  uint64_t aligned_size = 0;        // a GPU reads until here
  const uint8_t* data = nullptr;    // of the access
  const uint8_t* states = nullptr;  // nullptr: all bytes are written
};

/// Compilers widen loads: of three elements at the end of a memory they load four, and a GPU reads what follows. The
/// bytes of such a load, with zeros beyond the end, which count as unwritten; nullptr if it ends beyond `aligned_size`.
uint8_t* widened(Warp& warp, const Op& op, int lane, size_t bytes, const EndOfMemory& memory) {
  if (memory.at >= memory.size || memory.aligned_size - memory.at < bytes) return nullptr;
  Cta& cta = *warp.cta;
  const auto inside = static_cast<size_t>(memory.size - memory.at);
  warp.widened = {};
  std::memcpy(warp.widened.data(), memory.data, inside);
  if (!cta.launch->checks) return warp.widened.data();
  std::array<uint8_t, most_access_bytes> states{};
  if (memory.states) std::copy_n(memory.states, inside, states.begin());
  else std::fill_n(states.begin(), inside, uint8_t{written});
  const std::string where = fmt::format("byte {} of {}, which has {} bytes", memory.size, memory.name, memory.size);
  note_unwritten(warp, op, lane, std::span(states).first(bytes), where);
  std::optional<Violation>& warning = cta.cluster->warnings.widened_read;
  if (!warning)
    warning = Violation{
        .code = ViolationCode::out_of_bounds,
        .field = fmt::format("{}, {}, {}", print_block(cta), print_thread(cta, warp.index, lane),
                             line_of(cta, op.instruction)),
        .seen = fmt::format("{} bytes from byte {} of {}, which has {}", bytes, memory.at, memory.name, memory.size),
        .expected = "an access within the memory",
        .fix = fmt::format("a GPU reads the bytes behind it, up to byte {}", memory.aligned_size),
        .severity = Severity::warning};
  return warp.widened.data();
}

/// Such a load in a block's shared memory, which GPUs give in units of 128 bytes.
uint8_t* widened_shared_load(Warp& warp, Cta& cta, const Op& op, int lane, size_t at, size_t bytes) {
  constexpr int64_t unit = 128;
  const size_t size = cta.shared.size();
  if (at < shared_begin || at >= size || at + bytes > static_cast<size_t>(round_up(static_cast<int64_t>(size), unit)))
    return nullptr;
  if (cta.launch->checks) {
    for (size_t i = at; i < size; ++i) {
      if (cta.shared_states[i] == in_flight)
        fault_of_state(in_flight, lane, fmt::format("byte {} of shared memory", i - shared_begin));
    }
    note_use(warp, cta, op, lane, at, size - at, AccessKind::read, nullptr);
  }
  return widened(warp, op, lane, bytes,
                 {.name = "shared memory",
                  .at = at - shared_begin,
                  .size = size - shared_begin,
                  .aligned_size = static_cast<uint64_t>(round_up(static_cast<int64_t>(size), unit)) - shared_begin,
                  .data = cta.shared.data() + at,
                  .states = cta.launch->checks ? cta.shared_states.data() + at : nullptr});
}

uint8_t* in_shared(Warp& warp, const Op& op, int lane, uint64_t address, int bytes, AccessKind kind,
                   const uint8_t* data) {
  const uint64_t rank = address >> shared_rank_bits;
  std::vector<Cta>& ctas = warp.cta->cluster->ctas;
  if (rank >= ctas.size() && ctas.size() > 1) {
    fault(ViolationCode::out_of_bounds, lane, fmt::format("shared memory of block {} of the cluster", rank),
          fmt::format("blocks 0 to {}", ctas.size() - 1));
  }
  const bool is_in_cluster = rank < ctas.size();
  Cta& cta = is_in_cluster ? ctas[rank] : *warp.cta;
  const uint64_t at = is_in_cluster ? address & low_mask(shared_rank_bits) : address, size = cta.shared.size();
  if (&cta != warp.cta && std::ranges::all_of(cta.warps, [](const Warp& other) { return other.live == 0; })) {
    fault(ViolationCode::undefined_by_ptx, lane,
          fmt::format("shared memory of block {} of the cluster, whose threads have ended", rank),
          "a block that is still running", "use barrier.cluster before the block ends");
  }
  if (at < shared_begin || !holds(size, at, static_cast<uint64_t>(bytes))) {
    if (kind == AccessKind::read && warp.takes_unwritten) {
      if (uint8_t* const load = widened_shared_load(warp, cta, op, lane, at, static_cast<size_t>(bytes))) return load;
    }
    fault(ViolationCode::out_of_bounds, lane,
          fmt::format("{} bytes at {} of shared memory", bytes, static_cast<int64_t>(at - shared_begin)),
          fmt::format("an address below {}", size - shared_begin),
          size == shared_begin ? "for extern shared memory, pass the dynamic size with the launch" : "");
  }
  if (cta.launch->checks) {
    check_states(warp, op, cta.shared_states.data() + at, static_cast<size_t>(bytes), lane, kind,
                 [&] { return fmt::format("byte {} of shared memory", at - shared_begin); });
    note_use(warp, cta, op, lane, at, static_cast<size_t>(bytes), kind, data);
  }
  return cta.shared.data() + at;
}

uint8_t* in_local(Warp& warp, const Op& op, int lane, uint64_t address, int bytes, AccessKind kind) {
  Cta& cta = *warp.cta;
  if (!holds(static_cast<uint64_t>(cta.local_bytes), address, static_cast<uint64_t>(bytes))) {
    fault(ViolationCode::out_of_bounds, lane, fmt::format("{} bytes at {} of local memory", bytes, address),
          fmt::format("an address below {}", cta.local_bytes));
  }
  const size_t at = static_cast<size_t>(warp.index * lanes + lane) * static_cast<size_t>(cta.local_bytes) + address;
  if (cta.launch->checks) {
    check_states(warp, op, cta.local_states.data() + at, static_cast<size_t>(bytes), lane, kind,
                 [&] { return fmt::format("byte {} of local memory", address); });
  }
  return cta.local.data() + at;
}

std::string nearest_region(const Cta& cta, uint64_t address) {
  const GlobalRegion* nearest = nullptr;
  uint64_t least = ~uint64_t{0};
  for (const GlobalRegion& region : *cta.regions) {
    const uint64_t end = region.begin + region.size;
    const uint64_t distance = address < region.begin ? region.begin - address : address >= end ? address - end : 0;
    if (distance < least) least = distance, nearest = &region;
  }
  if (!nearest || least > window_bytes) return fmt::format("{:#x}, which is outside of all arguments", address);
  if (address < nearest->begin) return fmt::format("{} bytes before {}", nearest->begin - address, nearest->name);
  return fmt::format("byte {} of {}, which has {} bytes", address - nearest->begin, nearest->name, nearest->size);
}

bool differ(const uint8_t* x, const uint8_t* y, size_t bytes) {
  switch (bytes) {  // a compiler compares the usual sizes without a call
    case 2: return std::memcmp(x, y, 2) != 0;
    case 4: return std::memcmp(x, y, 4) != 0;
    case 8: return std::memcmp(x, y, 8) != 0;
    case 16: return std::memcmp(x, y, 16) != 0;
    default: return std::memcmp(x, y, bytes) != 0;
  }
}

[[gnu::cold, gnu::noinline]] void warn_of_blocks(const Warp& warp, const Op& op, const GlobalRegion& region) {
  Cluster& cluster = *warp.cta->cluster;
  if (cluster.warnings.block_race) return;
  const bool of_clusters = cluster.ctas.size() > 1;
  cluster.warnings.block_race = Violation{
      .code = ViolationCode::undefined_by_ptx,
      .field = region.name,
      .seen = fmt::format("{} that use the same bytes, and one writes: {}", of_clusters ? "clusters" : "blocks",
                          line_of(*warp.cta, op.instruction)),
      .expected = region.uses->order() ? "a barrier of the grid or an atomic of each block between the accesses"
                                       : "memory that only one of them writes and no other reads, or atomics",
      .fix = "their order decides the bits, here and on a GPU",
      .severity = Severity::warning};
}

/// The same in global memory: cudaMalloc aligns allocations to 256 bytes. nullptr for a load that does not begin in an
/// allocation, or ends beyond its aligned end.
uint8_t* widened_load(Warp& warp, const Op& op, int lane, uint64_t address, size_t bytes) {
  constexpr int64_t alignment = 256;
  Cta& cta = *warp.cta;
  const GlobalRegion* const region = region_of(cta, address, 1);
  if (!region || region_of(cta, address + bytes - 1, 1)) return nullptr;
  const uint64_t at = address - region->begin;
  const auto inside = static_cast<size_t>(region->size - at);
  if (region->uses) note_block_use(warp, op, *region, at, inside, false, false);
  return widened(
      warp, op, lane, bytes,
      {.name = region->name,
       .at = at,
       .size = region->size,
       .aligned_size = static_cast<uint64_t>(round_up(static_cast<int64_t>(region->begin + region->size), alignment)) -
                       region->begin,
       .data = region->data + at,
       .states = region->states ? region->states + at : nullptr});
}

uint8_t* in_global(Warp& warp, const Op& op, int lane, uint64_t address, int bytes, AccessKind kind,
                   const uint8_t* data) {
  Cta& cta = *warp.cta;
  const GlobalRegion* const match = region_of(cta, address, static_cast<uint64_t>(bytes));
  if (!match) {
    if (kind == AccessKind::read && warp.takes_unwritten) {
      if (uint8_t* const bytes_of_load = widened_load(warp, op, lane, address, static_cast<size_t>(bytes)))
        return bytes_of_load;
    }
    fault(ViolationCode::out_of_bounds, lane, fmt::format("{} bytes at {}", bytes, nearest_region(cta, address)),
          "an address in one of the arguments");
  }
  const GlobalRegion& region = *match;
  const uint64_t at = address - region.begin;
  if (region.states) {
    check_states(warp, op, region.states + at, static_cast<size_t>(bytes), lane, kind,
                 [&] { return fmt::format("byte {} of {}", at, region.name); });
  }
  if (region.uses && !cta.cluster->warnings.block_race) {
    const auto size = static_cast<size_t>(bytes);
    const bool is_write = kind != AccessKind::read;
    const bool changes = is_write && (!data || differ(data, region.data + at, size));
    note_block_use(warp, op, region, at, size, is_write, changes);
  }
  return region.data + at;
}

}  // namespace

void fault(ViolationCode code, int lane, std::string seen, std::string expected, std::string fix) {
  throw KernelFault{
      .code = code, .lane = lane, .seen = std::move(seen), .expected = std::move(expected), .fix = std::move(fix)};
}

void fault_of_lanes(const Warp& warp, Mask mask) {
  const std::string expected = "all 32 lanes, as .aligned requires";
  const auto& block = warp.cta->launch->block;
  const int64_t threads = int64_t{block[0]} * block[1] * block[2],
                threads_of_warp = std::min<int64_t>(lanes, threads - int64_t{warp.index} * lanes);
  const Mask existing = static_cast<Mask>(low_mask(static_cast<int>(threads_of_warp))), missing = existing & ~mask;
  if (missing == 0) {
    fault(ViolationCode::undefined_by_ptx, 0, fmt::format("a warp of {}: the block has {}", threads_of_warp, threads),
          expected,
          fmt::format("launch a multiple of 32 threads, such as a block of {}", (threads + lanes - 1) / lanes * lanes));
  }
  fault(ViolationCode::undefined_by_ptx, __builtin_ctz(missing), "a lane that is missing", expected);
}

Cta* owner_of(Cluster& cluster, const uint8_t* byte) {
  for (Cta& cta : cluster.ctas) {
    if (byte >= cta.shared.data() && byte < cta.shared.data() + cta.shared.size()) return &cta;
  }
  return nullptr;
}

std::string print_block(const Cta& cta) { return fmt::format("block ({}, {}, {})", cta.id[0], cta.id[1], cta.id[2]); }

std::string print_thread(const Cta& cta, int warp, int lane) {
  const int64_t thread = int64_t{warp} * lanes + lane;
  const auto& block = cta.launch->block;
  return fmt::format("thread ({}, {}, {})", thread % block[0], thread / block[0] % block[1],
                     thread / (block[0] * block[1]));
}

uint8_t* locate(Warp& warp, const Op& op, int lane, Space space, uint64_t address, int bytes, AccessKind kind,
                const uint8_t* data) {
  if (address % static_cast<uint64_t>(bytes) != 0) {
    fault(ViolationCode::misaligned, lane, fmt::format("{} bytes at address {:#x}", bytes, address),
          fmt::format("a multiple of {}", bytes));
  }
  if (space == Space::generic) {
    const uint64_t window = address & ~(window_bytes - 1);
    if (window == shared_window) space = Space::shared, address -= window;
    else if (window == local_window) space = Space::local, address -= window;
    else if (window == constant_window) space = Space::constant, address -= window;
    else if (window == param_window) space = Space::param, address -= window;
    else space = Space::global;
  }
  Cta& cta = *warp.cta;
  cta.cluster->changes += kind != AccessKind::read;
  switch (space) {
    case Space::shared: return in_shared(warp, op, lane, address, bytes, kind, data);
    case Space::local: return in_local(warp, op, lane, address, bytes, kind);
    case Space::param:
    case Space::constant: {
      const std::span<uint8_t> memory = space == Space::param ? std::span(cta.params) : cta.constants;
      if (!holds(memory.size(), address, static_cast<uint64_t>(bytes))) {
        fault(ViolationCode::out_of_bounds, lane,
              fmt::format("{} bytes at {} of .{} memory", bytes, address, print(space)),
              fmt::format("an address below {}", memory.size()));
      }
      if (kind != AccessKind::read)
        fault(ViolationCode::out_of_bounds, lane, fmt::format("a write to .{} memory", print(space)),
              "writable memory");
      return memory.data() + address;
    }
    default: return in_global(warp, op, lane, address, bytes, kind, data);
  }
}

const GlobalRegion* region_of(Cta& cta, uint64_t address, uint64_t bytes) {
  const std::vector<GlobalRegion>& regions = *cta.regions;
  const auto is_in = [&](const GlobalRegion& region) {
    return address >= region.begin && holds(region.size, address - region.begin, bytes);
  };
  if (cta.last_region < regions.size() && is_in(regions[cta.last_region])) return &regions[cta.last_region];
  const auto behind = std::ranges::upper_bound(regions, address, {}, &GlobalRegion::begin);
  if (behind == regions.begin() || !is_in(*std::prev(behind))) return nullptr;
  cta.last_region = static_cast<size_t>(std::prev(behind) - regions.begin());
  return &regions[cta.last_region];
}

void note_block_use(Warp& warp, const Op& op, const GlobalRegion& region, size_t at, size_t bytes, bool is_write,
                    bool changes) {
  Cluster& cluster = *warp.cta->cluster;
  if (op.orders_blocks && region.uses->order()) return region.uses->order()->meet(cluster.index);
  if (!cluster.warnings.block_race && region.uses->note(cluster.index, at, bytes, is_write, changes))
    warn_of_blocks(warp, op, region);
}

void write_lanes(Warp& warp, const Op& op, Mask mask, std::span<uint8_t* const, lanes> places, const uint8_t* data,
                 size_t stride, size_t bytes) {
  const auto data_of = [&](int lane) { return data + stride * static_cast<size_t>(lane); };
  bool ascends = true;
  const uint8_t* previous = nullptr;
  for_each_lane(mask, [&](int lane) {
    const uint8_t* const place = places[static_cast<size_t>(lane)];
    ascends = ascends && (!previous || place > previous);
    previous = place;
    if (ascends) copy_element(places[static_cast<size_t>(lane)], data_of(lane), bytes);
  });
  if (ascends) return;
  for_each_in_write_order(mask, bytes,
                          [&](int lane) { std::memcpy(places[static_cast<size_t>(lane)], data_of(lane), bytes); });
  std::optional<Violation>& warning = warp.cta->cluster->warnings.same_address;
  if (warning) return;
  for_each_lane(mask, [&](int lane) {
    if (warning || std::memcmp(places[static_cast<size_t>(lane)], data_of(lane), bytes) == 0) return;
    warning = Violation{.code = ViolationCode::undefined_by_ptx,
                        .field = line_of(*warp.cta, op.instruction),
                        .seen = fmt::format("lanes of one warp that store different values to the address of {}",
                                            print_thread(*warp.cta, warp.index, lane)),
                        .expected = "one value, or an address for each lane",
                        .fix = "PTX leaves open which value stays; bitmma keeps that which an H100 keeps",
                        .severity = Severity::warning};
  });
}

void check_async_reads(std::span<const Warp> warps, Cta& cta, std::span<const uint32_t> places) {
  constexpr size_t bytes = 16, words = bytes / SharedUses::word;
  if (!cta.launch->checks) return;
  // Up to this epoch, every write of every warp is visible and fenced.
  const std::vector<uint32_t>& fenced = cta.cluster->fenced;
  uint32_t clear_epoch = 0;
  if (fenced.size() == warps.front().seen.size()) {
    for (const Warp& warp : warps) clear_epoch = std::max(clear_epoch, warp.seen_of_all);
    clear_epoch = std::min(clear_epoch, std::ranges::min(fenced));
  }
  const auto is_clear = [&](size_t at) {
    if (at >= cta.shared.size() || cta.shared.size() - at < bytes) return false;
    const auto states =
        bitmma::load<bitmma::Doubles>(cta.shared_states.data() + at) ^ 0x0101010101010101 * uint64_t{written};
    const SharedUses::Row row = cta.uses.row(at);
    const auto epochs = bitmma::load<bitmma::Words>(row.write_epochs);
    const auto kinds = bitmma::load<uint32_t>(row.bytes);
    static_assert(sizeof kinds == words && static_cast<uint8_t>(SharedBytes::apart) == 2);
    return (states[0] | states[1]) == 0 && (kinds & 0x02020202) == 0 &&
           std::max(std::max(epochs[0], epochs[1]), std::max(epochs[2], epochs[3])) <= clear_epoch;
  };
  for (const uint32_t place : places) {
    if (!is_clear(place)) check_async_read(warps, -1, cta, place);
  }
}

void check_async_read(std::span<const Warp> warps, int lane, Cta& cta, size_t at) {
  constexpr size_t bytes = 16;
  if (!cta.launch->checks || at >= cta.shared.size() || cta.shared.size() - at < bytes) return;
  if (const uint8_t* const states = cta.shared_states.data() + at;
      !std::all_of(states, states + bytes, [](uint8_t state) { return state == written; }))
    require_written(states, bytes, lane, [&] {
      return fmt::format("bytes from {} of shared memory", static_cast<int64_t>(at) - shared_begin);
    });
  if (!cta.uses.is_unit_used(at)) return;
  const std::vector<uint32_t>& fenced = cta.cluster->fenced;
  const auto is_fenced = [&](int writer, uint32_t epoch) {
    return static_cast<size_t>(writer) < fenced.size() && epoch <= fenced[static_cast<size_t>(writer)];
  };
  const auto is_known = [&](int writer, uint32_t epoch) {
    return std::ranges::any_of(warps, [&](const Warp& warp) { return is_ordered(warp, writer, epoch); });
  };
  // Mostly a warp wrote all of them at once.
  const SharedUses::Row row = cta.uses.row(at);
  const uint32_t writer = row.writers[0], epoch = row.write_epochs[0];
  bool is_alike = true;
  for (size_t i = 0; i < bytes / SharedUses::word; ++i)
    is_alike =
        is_alike && row.writers[i] == writer && row.write_epochs[i] == epoch && row.bytes[i] != SharedBytes::apart;
  if (is_alike) {
    if (writer == 0 || (writer & SharedUses::generic_bit) == 0) return;
    const int number = static_cast<int>(writer & SharedUses::writer_bits) - 1;
    if (is_fenced(number, epoch) && is_known(number, epoch)) return;
  }
  bool is_reported = false;
  cta.uses.for_each(at, bytes, [&](const SharedUse& use, const SharedUses::ReadEpochs&, size_t i) {
    if (is_reported || use.writer < 0 || !use.is_generic) return;
    const bool known = is_known(use.writer, use.write_epoch);
    if (known && is_fenced(use.writer, use.write_epoch)) return;
    if (!known && cta.launch->races == RaceCheck::off) return;
    KernelFault race{.code = known ? ViolationCode::undefined_by_ptx : ViolationCode::shared_memory_race,
                     .lane = lane,
                     .seen = fmt::format(
                         "byte {} of shared memory, which {} wrote at {}", static_cast<int64_t>(i) - shared_begin,
                         print_writer(warps.front(), use.writer, use.write_lane), line_of(cta, use.write_instruction)),
                     .expected = known ? "a fence between the write and the async proxy" : "a barrier between the two",
                     .fix = known ? "put fence.proxy.async after the write and before the barrier"
                                  : "put bar.sync between the write and this access"};
    if (known || cta.launch->races == RaceCheck::fault) throw race;
    warn_of_race(*warps.front().cta, "a read by the async proxy", std::move(race));
    is_reported = true;
  });
}

void fence_async(Warp& warp) {
  tell(warp, warp.cta->cluster->fenced);
  ++warp.epoch;
}

namespace {

void tell(const Warp& warp, uint32_t epoch, std::vector<uint32_t>& known) {
  known.resize(warp.seen.size());
  for (size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], warp.seen[i]);
  uint32_t& own = known[static_cast<size_t>(warp.number)];
  own = std::max(own, epoch);
}

}  // namespace

void tell(const Warp& warp, std::vector<uint32_t>& known) { tell(warp, warp.epoch, known); }
void tell_released(const Warp& warp, std::vector<uint32_t>& known) {
  if (warp.released_epoch > 0) tell(warp, warp.released_epoch, known);
}

void learn(Warp& warp, std::span<const uint32_t> known) {
  for (size_t i = 0; i < known.size(); ++i) warp.seen[i] = std::max(warp.seen[i], known[i]);
  warp.seen_of_all = std::ranges::min(warp.seen);
}

void complete_copies(Warp& warp, size_t groups_left) {
  Cta& cta = *warp.cta;
  while (warp.groups.size() > groups_left) {
    for (const AsyncCopy& copy : warp.groups.front()) {
      std::memcpy(cta.shared.data() + copy.to, copy.data.data(), static_cast<size_t>(copy.bytes));
      if (cta.launch->checks) std::memset(cta.shared_states.data() + copy.to, written, static_cast<size_t>(copy.bytes));
    }
    warp.groups.erase(warp.groups.begin());
  }
}

}  // namespace bitmma::kernel
