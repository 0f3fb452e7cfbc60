#include "bitmma/instruction/state.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "bitmma/instruction/execute.hpp"
#include "support/catch.hpp"
#include "support/instructions.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::refusal_of;

namespace {

constexpr int64_t too_many = int64_t{1} << 62;

std::vector<uint32_t> counted(size_t count) {
  std::vector<uint32_t> words(count);
  std::iota(words.begin(), words.end(), 100u);
  return words;
}

/// An array of these extents for the field, of its type, all zeros.
void set_zeros(State& state, Field field, const Extents& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  if (info(field).type == ElementType::u8) state.set(field, std::vector<uint8_t>(static_cast<size_t>(count)), extents);
  else state.set(field, std::vector<uint32_t>(static_cast<size_t>(count)), extents);
}

Extents with_extent(const Extents& extents, size_t axis, int64_t extent) {
  std::vector<int64_t> values(extents.begin(), extents.end());
  values[axis] = extent;
  return Extents(values);
}

/// Extents that are not those of `extents`: every axis one more, no element, and one axis too many.
std::vector<Extents> wrong_extents(const FieldRule& rule, const Extents& extents) {
  std::vector<Extents> wrong;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (rule.extents[axis] != -1) wrong.push_back(with_extent(extents, axis, extents[axis] + 1));
    wrong.push_back(with_extent(extents, axis, 0));
  }
  std::vector<int64_t> more(extents.begin(), extents.end());
  more.insert(more.begin(), 1);
  wrong.emplace_back(more);
  if (extents.size() > 1) wrong.push_back({extents[0]});
  return wrong;
}

/// The violations of executing the instruction, and whether `state` was left alone.
std::vector<Violation> refusal_of(const Instruction& instruction, State state) {
  const State before = state;
  try {
    execute(instruction, default_target(instruction), state);
  } catch (const Error& error) {
    REQUIRE(state == before);
    return error.violations();
  }
  return {};
}

bool names(const std::vector<Violation>& violations, Field field) {
  return std::ranges::find(violations, info(field).name, &Violation::field) != violations.end();
}

}  // namespace

TEST_CASE("extents hold up to four numbers, and compare by them alone") {
  CHECK(Extents{}.empty());
  CHECK(Extents{}.size() == 0);
  const Extents four{2, 128, 4, 7};
  CHECK(four.size() == 4);
  CHECK(four[0] == 2);
  CHECK(four[3] == 7);
  CHECK(std::vector<int64_t>(four.begin(), four.end()) == std::vector<int64_t>{2, 128, 4, 7});
  CHECK(Extents{128} != Extents{128, 1});
  CHECK(Extents{128, 4} == Extents(std::vector<int64_t>{128, 4}));
  CHECK_THROWS_AS((Extents{1, 2, 3, 4, 5}), Error);
}

TEST_CASE("a number that is set is read back, a missing one is an error, and missing arrays are empty") {
  State state;
  CHECK(state.empty());
  CHECK_FALSE(state.has(Field::b_desc));
  CHECK_THROWS_AS(state.number(Field::b_desc), Error);
  CHECK(state.words(Field::tmem).empty());
  CHECK(state.bytes(Field::smem).empty());
  CHECK(state.extent(Field::tmem, 0) == 0);
  CHECK(state.columns() == 0);
  state.set(Field::b_desc, 0x4000004000010000);
  state.set(Field::taddr, 0xFFFFFFFF);
  state.set(Field::warp, 255);
  CHECK(state.number(Field::b_desc) == 0x4000004000010000);
  CHECK(state.word(Field::taddr) == 0xFFFFFFFF);
  CHECK(state.number(Field::warp) == 255);
  state.set(Field::b_desc, 5);
  CHECK(state.number(Field::b_desc) == 5);
  CHECK(state.buffers().size() == 3);
  state.erase(Field::taddr);
  CHECK_FALSE(state.has(Field::taddr));
  CHECK(state.buffers().size() == 2);
}

TEST_CASE("every field takes its own type in the size of its extents and nothing else") {
  for (const FieldInfo& row : state_fields) {
    INFO(row.name);
    State state;
    const std::vector<uint8_t> bytes(6);
    const std::vector<uint32_t> words(6);
    const bool takes_bytes = !row.is_number && row.type == ElementType::u8;
    const bool takes_words = !row.is_number && row.type != ElementType::u8;
    const auto takes = [&](const auto& set) { return refusal_of(set).empty(); };
    CHECK(takes([&] { state.set(row.id, 1); }) == row.is_number);
    CHECK(takes([&] { state.set(row.id, bytes, {2, 3}); }) == takes_bytes);
    CHECK(takes([&] { state.set(row.id, words, {2, 3}); }) == takes_words);
    CHECK(takes([&] { state.borrow(row.id, bytes, {6}); }) == takes_bytes);
    CHECK(takes([&] { state.borrow(row.id, words, {6}); }) == takes_words);
    if (row.is_number) {
      const int width_bits = 8 * bytes_of(row.type);
      const uint64_t largest = width_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << width_bits) - 1;
      CHECK(takes([&] { state.set(row.id, largest); }));
      if (width_bits < 64) {
        CHECK_THAT(refusal_of([&] { state.set(row.id, largest + 1); }),
                   test::refused(illegal_value, std::string(row.name)));
      }
      continue;
    }
    // Six elements are neither 5, 7, 3 nor a product that wraps around to 6.
    for (const Extents& wrong : {Extents{5}, Extents{7}, Extents{3}, Extents{2, 2}, Extents{0}, Extents{-6},
                                 Extents{-2, -3}, Extents{too_many, too_many, 6}}) {
      INFO(wrong[0]);
      const State before = state;
      if (takes_bytes) {
        CHECK_THROWS_AS(state.set(row.id, bytes, wrong), Error);
        CHECK_THROWS_AS(state.borrow(row.id, bytes, wrong), Error);
      } else {
        CHECK_THROWS_AS(state.set(row.id, words, wrong), Error);
        CHECK_THROWS_AS(state.borrow(row.id, words, wrong), Error);
      }
      CHECK(state == before);
    }
  }
}

TEST_CASE("the extents of a buffer are counted from both ends") {
  State state;
  state.set(Field::tmem, std::vector<uint32_t>(2 * 128 * 32), {2, 128, 32});
  CHECK(state.extent(Field::tmem, 0) == 2);
  CHECK(state.extent(Field::tmem, 2) == 32);
  CHECK(state.extent(Field::tmem, -1) == 32);
  CHECK(state.extent(Field::tmem, -3) == 2);
  CHECK(state.extent(Field::tmem, 3) == 0);
  CHECK(state.extent(Field::tmem, -4) == 0);
  CHECK(state.columns() == 32);
}

TEST_CASE("the image of a CTA is all of shared memory, or its half") {
  State state;
  const std::vector<uint8_t> bytes{1, 2, 3, 4, 5, 6};
  state.borrow(Field::smem, bytes, {2, 3});
  CHECK(std::ranges::equal(state.image(0, 1), bytes));
  CHECK(state.image(1, 1).empty());
  CHECK(std::ranges::equal(state.image(0, 2), std::vector<uint8_t>{1, 2, 3}));
  CHECK(std::ranges::equal(state.image(1, 2), std::vector<uint8_t>{4, 5, 6}));
}

TEST_CASE("copies of a state are independent: neither sees what is written to the other") {
  State state;
  state.set(Field::accumulator, counted(6), {2, 3});
  state.set(Field::taddr, 7);
  State other = state;
  CHECK(other == state);
  other.writable_words(Field::accumulator)[1] = 0;
  other.set(Field::taddr, 8);
  CHECK(test::words_of(state, Field::accumulator) == counted(6));
  CHECK(state.number(Field::taddr) == 7);
  CHECK(other != state);
  state.overwrite_words(Field::accumulator, {1})[0] = 3;
  CHECK(other.words(Field::accumulator).size() == 6);
  CHECK(other.words(Field::accumulator)[2] == 102);
}

TEST_CASE("nothing is written through what a state borrows, and a copy of the state looks at it too") {
  const std::vector<uint32_t> owner = counted(6);
  State state;
  state.borrow(Field::tmem, owner, {1, 2, 3});
  const State copy = state;
  CHECK(copy.words(Field::tmem).data() == owner.data());
  state.writable_words(Field::tmem)[0] = 1;
  CHECK(owner == counted(6));
  CHECK(state.words(Field::tmem)[0] == 1);
  CHECK(state.words(Field::tmem)[5] == 105);
  CHECK(copy.words(Field::tmem)[0] == 100);
  State again = copy;
  again.overwrite_words(Field::tmem, {3})[0] = 2;
  CHECK(owner == counted(6));
  CHECK(test::words_of(copy, Field::tmem) == owner);
  CHECK(again.words(Field::tmem).size() == 3);
}

TEST_CASE("a state that owns, borrows or orders its buffers otherwise is equal when it holds the same") {
  const std::vector<uint32_t> owner = counted(6);
  State owning, looking;
  owning.set(Field::regs, owner, {2, 3});
  owning.set(Field::taddr, 1);
  looking.set(Field::taddr, 1);
  looking.borrow(Field::regs, owner, {2, 3});
  CHECK(owning == looking);
  looking.borrow(Field::regs, owner, {3, 2});
  CHECK(owning != looking);
  looking.borrow(Field::regs, owner, {2, 3});
  looking.set(Field::warp, 0);
  CHECK(owning != looking);
}

TEST_CASE("a buffer that is not there cannot be written, and one that is set again is replaced") {
  State state;
  CHECK_THAT(refusal_of([&] { state.writable_words(Field::tmem); }), test::refused(missing_input, "tmem"));
  State other;
  other.set(Field::smem, std::vector<uint8_t>(16), {16});
  other.set(Field::a_desc, 7);
  CHECK_THAT(refusal_of([&] { other.writable_words(Field::smem); }), test::refused(wrong_type, "smem"));
  CHECK_THAT(refusal_of([&] { other.writable_words(Field::a_desc); }), test::refused(wrong_type, "a_desc"));
  CHECK(state.empty());
  const std::vector<uint32_t> owner = counted(6);
  state.borrow(Field::regs, owner, {6});
  state.set(Field::regs, std::vector<uint32_t>{9}, {1});
  CHECK(test::words_of(state, Field::regs) == std::vector<uint32_t>{9});
  state.borrow(Field::regs, owner, {6});
  CHECK(test::words_of(state, Field::regs) == owner);
  state.set(Field::regs, std::vector<uint32_t>{}, {0});
  CHECK(state.words(Field::regs).empty());
}

TEST_CASE("an array of 64-bit elements has two words an element, the low one first, and is not an array of words") {
  const std::vector<uint64_t> elements{0x1122334455667788, 0x99AABBCCDDEEFF00};
  State wide, narrow;
  wide.set(Field::accumulator, elements, {2});
  CHECK(wide.buffers()[0].is_wide());
  CHECK(test::words_of(wide, Field::accumulator) ==
        std::vector<uint32_t>{0x55667788, 0x11223344, 0xDDEEFF00, 0x99AABBCC});
  narrow.set(Field::accumulator, test::words_of(wide, Field::accumulator), {4});
  CHECK_FALSE(narrow.buffers()[0].is_wide());
  CHECK(wide != narrow);
  CHECK_THROWS_AS(wide.set(Field::accumulator, elements, {4}), Error);
  CHECK_THROWS_AS(wide.set(Field::smem, elements, {2}), Error);
  CHECK_THROWS_AS(wide.set(Field::taddr, elements, {2}), Error);
  wide.set(Field::accumulator, test::words_of(narrow, Field::accumulator), {4});
  CHECK(wide == narrow);
  // An instruction whose accumulator is of 32 bits refuses one of 64, and says which it is.
  const Instruction instruction = MmaSync{.kind = MmaKind::mxf8f6f4};
  State state = test::sample_case(instruction, 0).before;
  state.set(Field::accumulator, std::vector<uint64_t>(32 * 4), {32, 4});
  const std::vector<Violation> violations = refusal_of(instruction, state);
  REQUIRE(violations.size() == 1);
  CHECK(violations[0].field == "c_regs");
  CHECK(violations[0].seen != violations[0].expected);
}

TEST_CASE("names of fields are those of tensors: before and after, each once but d_regs") {
  std::set<std::string_view> names;
  for (const FieldInfo& row : state_fields) CHECK(names.insert(row.name).second);
  CHECK(info(Field::accumulator).name == "c_regs");
  CHECK(info(Field::accumulator).after == "d_regs");
  CHECK(info(Field::tmem).after == "tmem_after");
  CHECK(info(Field::regs).after == "d_regs");
}

TEST_CASE("every instruction lists its fields once, numbers without extents and arrays with them") {
  for (const Instruction& instruction : all_instructions()) {
    std::set<std::pair<Field, Access>> seen;
    int written = 0;
    for (const FieldRule& rule : fields_of(instruction)) {
      // An accumulator that changes its type is read by one row and written by another.
      REQUIRE(seen.insert({rule.field, rule.access}).second);
      REQUIRE(rule.extents.empty() == info(rule.field).is_number);
      REQUIRE_FALSE(rule.meaning.empty());
      if (rule.access == Access::read) continue;
      REQUIRE_FALSE(info(rule.field).after.empty());
      ++written;
    }
    const auto* move = std::get_if<TmemMove>(&instruction);
    REQUIRE(written == (move && move->kind == MoveKind::ld_red ? 2 : 1));  // redval
  }
}

TEST_CASE("the samples of the tests read every field that there is") {
  std::set<Field> seen;
  for (const Instruction& instruction : test::sample_instructions()) {
    for (const FieldRule& rule : fields_of(instruction)) seen.insert(rule.field);
  }
  CHECK(seen.size() == state_fields.size());
}

TEST_CASE("an empty state lacks every buffer that the instruction must read, and all are named at once") {
  for (const Instruction& instruction : test::sample_instructions()) {
    const std::vector<Violation> violations = refusal_of(instruction, {});
    size_t required = 0;
    for (const FieldRule& rule : fields_of(instruction)) {
      if (!rule.required || rule.access == Access::write) continue;
      ++required;
      CHECK(names(violations, rule.field));
    }
    CHECK(violations.size() == required);
    for (const Violation& violation : violations) CHECK(violation.seen == "(missing)");
  }
}

TEST_CASE("a state without one of the buffers is refused by the buffer's name, and stays as it was") {
  uint64_t seed = 0;
  for (const Instruction& instruction : test::sample_instructions()) {
    const State good = test::sample_case(instruction, seed++).before;
    REQUIRE(refusal_of(instruction, good).empty());
    for (const FieldRule& rule : fields_of(instruction)) {
      INFO(info(rule.field).name);
      const bool has_own_c = is_mma(instruction) && mma_of(instruction).c != mma_of(instruction).d;
      if (has_own_c && rule.access == Access::write) continue;  // C is there in another row
      State lacking = good;
      lacking.erase(rule.field);
      const std::vector<Violation> violations = refusal_of(instruction, lacking);
      if (rule.required && rule.access != Access::write) {
        REQUIRE(violations.size() == 1);
        CHECK(violations[0].field == info(rule.field).name);
        CHECK(violations[0].seen == "(missing)");
        CHECK(violations[0].expected == rule.meaning);
      } else {
        CHECK(violations.empty());
      }
    }
  }
}

TEST_CASE("a buffer of other extents is refused by its name, axis by axis, and the state stays as it was") {
  uint64_t seed = 0;
  int refused = 0;
  for (const Instruction& instruction : test::sample_instructions()) {
    const State good = test::sample_case(instruction, seed++).before;
    for (const FieldRule& rule : fields_of(instruction)) {
      if (info(rule.field).is_number || rule.access == Access::write) continue;
      std::vector<int64_t> extents(rule.extents.begin(), rule.extents.end());
      if (good.has(rule.field)) {
        for (size_t axis = 0; axis < extents.size(); ++axis)
          extents[axis] = good.extent(rule.field, static_cast<int>(axis));
      }
      for (const Extents& wrong : wrong_extents(rule, Extents(extents))) {
        State bad = good;
        set_zeros(bad, rule.field, wrong);
        const std::vector<Violation> violations = refusal_of(instruction, bad);
        INFO(info(rule.field).name);
        REQUIRE(violations.size() == 1);
        CHECK(violations[0].field == info(rule.field).name);
        ++refused;
      }
    }
  }
  CHECK(refused > 150);
}

TEST_CASE("what an instruction only writes may be there in any size before") {
  const Instruction load = TmemMove{.kind = MoveKind::ld};
  State state = test::sample_case(load, 0).before;
  State odd = state;
  odd.set(Field::regs, counted(5), {5});
  execute(load, Target::sm_100a, state);
  execute(load, Target::sm_100a, odd);
  CHECK(odd == state);
  CHECK(odd.extent(Field::regs, 0) == 32);
}

TEST_CASE("an instruction writes the buffers that its fields say, and no other") {
  uint64_t seed = 0;
  for (const Instruction& instruction : test::sample_instructions()) {
    const State before = test::sample_case(instruction, seed++).before;
    State after = before;
    execute(instruction, default_target(instruction), after);
    for (const FieldRule& rule : fields_of(instruction)) {
      if (rule.access == Access::read) continue;
      CHECK(after.has(rule.field));
      after.erase(rule.field);
    }
    for (const Buffer& buffer : after.buffers()) {
      const auto twin = std::ranges::find(before.buffers(), buffer.field(), &Buffer::field);
      REQUIRE(twin != before.buffers().end());
      CHECK(*twin == buffer);
    }
  }
}
