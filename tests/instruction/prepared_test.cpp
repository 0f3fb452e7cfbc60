#include "bitmma/instruction/prepared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "instruction/mma_sync/warp_execution.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::refusal_of;
using test::words_of;

namespace {

const uint32_t* words_or_null(const State& state, Field field) {
  return state.has(field) ? state.words(field).data() : nullptr;
}

WarpRegisters registers_in(const State& state) {
  return {.a = words_or_null(state, Field::a_regs),
          .b = words_or_null(state, Field::b_regs),
          .c = words_or_null(state, Field::accumulator),
          .metadata = words_or_null(state, Field::metadata),
          .scale_a = words_or_null(state, Field::scale_a),
          .scale_b = words_or_null(state, Field::scale_b)};
}

std::vector<uint32_t> executed(const Instruction& instruction, Target target, State state) {
  execute(instruction, target, state);
  return words_of(state, Field::accumulator);
}

/// Replaces `count` words of an array, or all of them, by random bits: NaN, infinity, subnormals, padding.
void disturb(State& state, Field field, int count, RandomStream& random) {
  const std::span<uint32_t> words = state.writable_words(field);
  if (count == 0) std::ranges::generate(words, [&] { return random.word(); });
  for (int i = 0; i < count; ++i) words[random.below(static_cast<uint32_t>(words.size()))] = random.word();
}

/// One target for each rule of addition.
std::vector<Target> targets_with_rules(const Instruction& instruction) {
  std::vector<Target> result;
  std::set<const AccumulatorModel*> rules;
  for (const TargetInfo& row : targets) {
    if (targets_of(instruction).contains(row.id) && rules.insert(&model_for(instruction, row.id)).second)
      result.push_back(row.id);
  }
  return result;
}

/// Random cases of every distribution, then with some words and with all words at random.
std::vector<State> states_of(const Instruction& instruction, Target target) {
  std::vector<State> states;
  RandomStream random(3, 0);
  for (size_t i = 0; i < distributions.size(); ++i) {
    states.push_back(random_case(instruction, target, {}, static_cast<Distribution>(i), 5, i).before);
    const State state = states.back();
    for (const Field field : {Field::a_regs, Field::b_regs, Field::accumulator, Field::scale_a, Field::scale_b}) {
      if (!state.has(field)) continue;
      states.push_back(state);
      disturb(states.back(), field, 2, random);
    }
  }
  State all = states.front();
  for (const Field field :
       {Field::a_regs, Field::b_regs, Field::accumulator, Field::metadata, Field::scale_a, Field::scale_b}) {
    if (all.has(field)) disturb(all, field, 0, random);
  }
  states.push_back(std::move(all));
  return states;
}

const Instruction f16_product = parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");

/// D of the state's registers, by a prepared instruction.
std::vector<uint32_t> prepared_d(const Prepared& prepared, const State& state) {
  std::vector<uint32_t> d(static_cast<size_t>(prepared.words().d));
  prepared.execute(registers_in(state), d.data());
  return d;
}

}  // namespace

TEST_CASE("A prepared mma.sync gives the bits of execute, for every form and rule", "[prepared]") {
  size_t compared = 0, number = 0;
  for (const Instruction& instruction : all_instructions(Family::mma_sync)) {
    if (number++ % test::amount<size_t>(5, 1, 1) != 0) continue;
    for (const Target target : targets_with_rules(instruction)) {
      const Prepared prepared(instruction, target);
      for (const State& state : states_of(instruction, target)) {
        INFO(print(instruction) << " on " << print(target));
        // The second time execute takes the way of prepared instructions; result_of goes through matrices.
        State after = state;
        execute(instruction, target, after);
        if (prepared_d(prepared, state) != words_of(after, Field::accumulator)) FAIL_CHECK("another D");
        if (recorded_result(instruction, after) != result_of(instruction, target, state)) FAIL_CHECK("another result");
        ++compared;
      }
    }
  }
  REQUIRE(compared > test::amount<size_t>(2'000, 10'000, 10'000));
}

TEST_CASE("A prepared mma.sync gives the same bits on every instruction set", "[prepared]") {
  struct BestAgain {
    ~BestAgain() { use_cpu_target(cpu_targets().front()); }
  } best_again;
  for (const std::string_view name :
       {"m16n8k16.row.col.f32.f16.f16.f32", "m16n8k16.row.col.f16.f16.f16.f16", "m8n8k4.row.col.f64.f64.f64.f64",
        "m16n8k16.row.col.f64.f64.f64.f64.rm", "m8n8k4.col.row.f32.f16.f16.f16", "m8n8k4.row.col.f16.f16.f16.f16",
        "m16n8k32.row.col.f32.e4m3.e5m2.f32", "m16n8k16.row.col.f32.e4m3.e4m3.f32", "m16n8k32.row.col.s32.s8.u8.s32",
        "m8n8k32.row.col.satfinite.s32.u4.s4.s32", "m16n8k256.row.col.s32.b1.b1.s32.and.popc",
        "m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
        "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e5m2.e2m1.f32.ue8m0",
        "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3",
        "kind::mxf4nvf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0"}) {
    const Instruction instruction = parse_instruction(fmt::format("mma.sync.aligned.{}", name));
    for (const Target target : targets_with_rules(instruction)) {
      const Prepared prepared(instruction, target);
      for (const State& state : states_of(instruction, target)) {
        const std::vector<uint32_t> expected = executed(instruction, target, state);
        for (const std::string_view set : cpu_targets()) {
          use_cpu_target(set);
          INFO(print(instruction) << " on " << print(target) << ", " << set);
          REQUIRE(prepared_d(prepared, state) == expected);
        }
      }
    }
  }
}

TEST_CASE("From the slots of a kernel, mma.sync gives the same bits, whatever was decoded before", "[prepared]") {
  // Registers of a kernel: the words of all lanes side by side.
  using Registers = std::array<std::array<uint32_t, WarpProduct::Slots::lanes>, 4>;
  const auto registers_of = [](std::span<const uint32_t> words) {
    Registers registers{};
    const size_t count = words.size() / WarpProduct::Slots::lanes;
    for (size_t i = 0; i < words.size(); ++i) registers[i % count][i / count] = words[i];
    return registers;
  };
  const auto decoded_a = std::make_unique<kernels::WarpColumns>();
  const auto decoded_b = std::make_unique<kernels::WarpRows>();
  int products = 0, refused_products = 0;
  for (const Instruction& instruction : all_instructions(Family::mma_sync)) {
    for (const Target target : targets_with_rules(instruction)) {
      const std::optional<family::WarpExecution> execution =
          family::warp_execution_of(instruction, &model_for(instruction, target));
      if (!execution->takes_slots()) continue;
      const Prepared prepared(instruction, target);
      const std::vector<State> states = states_of(instruction, target);
      for (size_t i = 0; i < states.size(); ++i) {
        State state = states[i];
        for (int turn = 0; turn < 4; ++turn) {  // new operands, then a new A, a new B, and none
          const State& other = states[(i + 1) % states.size()];
          for (const Field field : {Field::a_regs, Field::b_regs})
            if (turn == (field == Field::a_regs ? 1 : 2))
              std::ranges::copy(other.words(field), state.writable_words(field).begin());
          const Registers a = registers_of(state.words(Field::a_regs)), b = registers_of(state.words(Field::b_regs));
          Registers d = registers_of(state.words(Field::accumulator));  // in the slots of C
          WarpProduct::Slots slots;
          for (size_t r = 0; r < 4; ++r) slots.a[r] = a[r].data(), slots.c[r] = slots.d[r] = d[r].data();
          for (size_t r = 0; r < 2; ++r) slots.b[r] = b[r].data();
          const bool is_computed = execution->execute(slots, {.a = *decoded_a, .b = *decoded_b});
          INFO(print(instruction) << " on " << print(target));
          REQUIRE(d == registers_of(is_computed ? prepared_d(prepared, state)
                                                : std::vector(state.words(Field::accumulator).begin(),
                                                              state.words(Field::accumulator).end())));
          ++products, refused_products += !is_computed;
        }
      }
    }
  }
  REQUIRE(products > 100);
  // NaN and infinity are for the other form.
  if (kernels::kernels().sum_warp.f32) REQUIRE(refused_products < products / 2);
}

TEST_CASE("A batch is its products one after the other, and a chain if D is C of the next", "[prepared]") {
  constexpr int64_t count = 5;
  const Prepared prepared(f16_product, Target::sm_90a);
  const WarpWords words = prepared.words();
  REQUIRE(words.a == 128);
  REQUIRE(words.b == 64);
  REQUIRE(words.c == 128);
  REQUIRE(words.d == 128);
  std::vector<uint32_t> a, b, c;
  std::vector<State> states;
  const auto append = [](std::vector<uint32_t>& to, std::span<const uint32_t> from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (int64_t i = 0; i < count; ++i) {
    states.push_back(
        random_case(f16_product, Target::sm_90a, {}, Distribution::normal, 1, static_cast<uint64_t>(i)).before);
    append(a, states.back().words(Field::a_regs)), append(b, states.back().words(Field::b_regs));
    append(c, states.back().words(Field::accumulator));
  }
  SECTION("products, of which the first three words of each D belong to the caller") {
    constexpr int64_t stride = 131;
    std::vector<uint32_t> d(count * stride, 0xABCD);
    prepared.execute_batch(count, {.a = {a.data(), 128}, .b = {b.data(), 64}, .c = {c.data(), 128}}, d.data() + 3,
                           stride);
    std::vector<uint32_t> expected;
    for (const State& state : states) {
      append(expected, std::vector<uint32_t>(3, 0xABCD));
      append(expected, executed(f16_product, Target::sm_90a, state));
    }
    REQUIRE(d == expected);
  }
  SECTION("one B for all") {
    std::vector<uint32_t> d(count * 128), expected;
    prepared.execute_batch(count, {.a = {a.data(), 128}, .b = b.data(), .c = {c.data(), 128}}, d.data(), 128);
    for (State state : states) {
      state.set(Field::b_regs, std::vector<uint32_t>(b.begin(), b.begin() + 64), {32, 2});
      append(expected, executed(f16_product, Target::sm_90a, state));
    }
    REQUIRE(d == expected);
  }
  SECTION("a chain in place") {
    std::vector<uint32_t> d(c.begin(), c.begin() + 128), expected = d;
    prepared.execute_batch(count, {.a = {a.data(), 128}, .b = {b.data(), 64}, .c = d.data()}, d.data(), 0);
    for (State state : states) {
      state.set(Field::accumulator, expected, {32, 4});
      expected = executed(f16_product, Target::sm_90a, state);
    }
    REQUIRE(d == expected);
  }
  SECTION("none") {
    std::vector<uint32_t> d(128, 7);
    prepared.execute_batch(0, {.a = a.data(), .b = b.data(), .c = c.data()}, d.data(), 128);
    REQUIRE(d == std::vector<uint32_t>(128, 7));
  }
}

TEST_CASE("Prepared refuses what it cannot execute", "[prepared]") {
  const auto prepare_refusal = [](std::string_view text, Target target) {
    return refusal_of([&] { const Prepared prepared(parse_instruction(text), target); });
  };
  REQUIRE_THAT(prepare_refusal("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", Target::sm_75),
               refused(unsupported_target, "target"));
  const Prepared of_warpgroup(parse_instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"), Target::sm_90a);
  REQUIRE(of_warpgroup.words().d == 0);
  REQUIRE_THAT(refusal_of([&] { of_warpgroup.execute(WarpRegisters{}, nullptr); }),
               refused(wrong_instruction, "instruction"));
  const Prepared prepared(f16_product, Target::sm_90a);
  std::vector<uint32_t> words(128), d(128, 7);
  const auto execute_refusal = [&](int64_t count, const WarpRegisters& registers, uint32_t* to) {
    return refusal_of([&] { prepared.execute_batch(count, registers, to, 128); });
  };
  const WarpRegisters complete{.a = words.data(), .b = words.data(), .c = words.data()};
  REQUIRE(execute_refusal(1, complete, d.data()).empty());
  std::ranges::fill(d, 7u);
  WarpRegisters without_c = complete, with_metadata = complete, with_scale = complete;
  without_c.c = {}, with_metadata.metadata = words.data(), with_scale.scale_b = words.data();
  REQUIRE_THAT(execute_refusal(1, without_c, d.data()), refused(missing_input, "c"));
  REQUIRE_THAT(execute_refusal(1, with_metadata, d.data()), refused(no_effect, "metadata"));
  REQUIRE_THAT(execute_refusal(1, with_scale, d.data()), refused(no_effect, "scale_b"));
  REQUIRE_THAT(execute_refusal(-1, complete, d.data()), refused(illegal_value, "count"));
  REQUIRE_THAT(execute_refusal(1, complete, nullptr), refused(missing_input, "d"));
  REQUIRE(d == std::vector<uint32_t>(128, 7));
}

TEST_CASE("A prepared instruction acts on a state like execute, for every family", "[prepared]") {
  for (const Instruction& instruction : test::sample_instructions()) {
    const Prepared prepared(instruction, default_target(instruction));
    for (uint64_t seed = 0; seed < 4; ++seed) {
      INFO(print(instruction) << ", " << seed);
      State state = test::sample_case(instruction, seed).before, expected = state;
      execute(instruction, default_target(instruction), expected);
      prepared.execute(state);
      REQUIRE(state == expected);
    }
  }
}

TEST_CASE("A prepared instruction checks every state", "[prepared]") {
  const Instruction wgmma = parse_instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16");
  const Prepared prepared(wgmma, Target::sm_90a);
  State state = test::sample_case(wgmma, 1).before;
  state.set(Field::a_desc, 0x3FFF);  // the last 16 bytes of 256 KiB
  const State before = state;
  REQUIRE_THAT(refusal_of([&] { prepared.execute(state); }), refused(illegal_value, "A element row 0, k 0"));
  REQUIRE(state == before);
  state.erase(Field::b_desc);
  REQUIRE_THAT(refusal_of([&] { prepared.execute(state); }), refused(missing_input, "b_desc"));
}
