// SPDX-License-Identifier: MIT
// RuleSearch tests every combination of facts on the outputs of the first cases, which leaves few. It tests these on
// whole matrices, with their floors, signs of zero and NaN; then it draws cases until no case separates the survivors.
#include "bitmma/survey/find_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "../../arithmetic/product.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/execute.hpp"
#include "facts.hpp"
#include "hypotheses.hpp"
#include "outputs.hpp"
#include "probes.hpp"

namespace bitmma {
namespace {

constexpr int outputs_per_case = 128;  // tested per hypothesis; survivors are tested on all
constexpr int quiet_rounds = 3;        // the search ends after so many rounds without a separating case
constexpr int seldom = 24;             // differences rarer than 1 in 24 cases may be missed in three rounds
constexpr int drawn_cases_of_round = 48;
constexpr int compared_rules = 64;  // number of survivors for which cases are drawn
constexpr size_t most_fallen = 24;  // eliminated rules kept to find the nearest rule

constexpr std::string_view sums_beyond = "sums beyond 32 bits", bits_that_count = "bits that count";

/// A fused sum, with the choices that remain open.
struct RuleCandidate {
  AccumulatorModel core = {};           // without floor
  std::array<uint64_t, 2> floors = {};  // remaining floors (bit sets): with +0 zeros, with zeros that keep their sign
  std::array<bool, 2> payload = {true, true};  // remaining NaN rules: C's payload dropped, passed

  bool is_alive() const { return (floors[0] | floors[1]) != 0 && (payload[0] || payload[1]); }
};

uint32_t without_sign_of_zero(Format format, uint32_t code) {
  return (code & ~info(format).sign_bit()) == 0 ? 0 : code;
}

/// Whether the model gives every bit of the output, including the sign of zero.
bool gives(const AccumulatorModel& model, const AnsweredOutput& output) {
  return output.predict(model).code == output.d();
}

/// Mantissa bits of D where C is zero: adding C last changes nothing there.
int bits_needed(const AnsweredCase& answered_case) {
  const Matrix& d = answered_case.d();
  const FormatInfo& format = info(d.format());
  const std::optional<Matrix>& c = answered_case.operands().c;
  int most = 0;
  for (size_t i = 0; i < d.size(); ++i) {
    const uint32_t code = d.words()[i];
    const uint64_t mantissa = code & format.mantissa_mask();
    if (c && (c->words()[i] & ~format.sign_bit()) != 0) continue;
    if (mantissa != 0 && decode(format, code).number == NumberClass::finite)
      most = std::max(most, format.mantissa_bits - std::countr_zero(mantissa));
  }
  return most;
}

/// Some outputs of a case, or all of a small one, in a pseudo-random order.
std::vector<std::pair<int, int>> picked_outputs(const Matrix& d, int count, uint64_t seed) {
  std::vector<std::pair<int, int>> picked;
  const auto size = static_cast<int>(d.size());
  const auto place = [&](int i) { return std::pair(i / d.cols(), i % d.cols()); };
  RandomStream random(seed, 7);
  std::vector<int> order(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) order[static_cast<size_t>(i)] = i;
  for (int i = 0; i < std::min(count, size); ++i) {
    const int other = random.between(i, size - 1);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
    picked.push_back(place(order[static_cast<size_t>(i)]));
  }
  return picked;
}

}  // namespace

class RuleSearch::Search {
 public:
  Search(const Instruction& instruction, Target target, uint64_t seed, int threads, int rows)
      : instruction_(instruction),
        target_(target),
        seed_(seed),
        threads_(std::clamp(threads, 1, 256)),
        observed_rows_(rows),
        mma_(mma_of(instruction)),
        row_(model_for(instruction, target)),
        blank_(blank_model(instruction)),
        floors_(floors_of(mma_.d)),
        others_(other_rules(instruction)) {
    plan_first_cases();
  }

  std::vector<RuleCase> next_cases(int count);
  void observe(std::span<const RuleObservation> observations);
  bool settled() const { return is_settled_; }
  bool is_exhausted() const;
  const std::vector<RuleCase>& first_cases() const { return first_cases_; }
  FoundRule result();

 private:
  struct Survivor {
    int distance = 0;
    AccumulatorModel model = {};
  };

  bool is_fused() const { return info(mma_.a).kind == NumberKind::floating && info(mma_.d).bits <= 32; }
  uint64_t all_floors() const { return (uint64_t{1} << floors_.size()) - 1; }

  void plan_first_cases();
  void require_valid(const RuleObservation& observation) const;
  Matrix product(const OtherRule& rule, const Operands& operands) const;
  Matrix product(const AccumulatorModel& model, const Operands& operands) const {
    return product(OtherRule{.model = model}, operands);
  }
  void sieve_all();
  void sieve(std::span<const AnsweredOutput> outputs);
  bool survives(RuleCandidate& candidate, const AnsweredOutput& output) const;
  void check_whole_matrices(size_t first_case);
  void keep_fallen(AccumulatorModel model) {
    if (fallen_.size() < most_fallen) fallen_.push_back(std::move(model));
  }
  AccumulatorModel with(const RuleCandidate& candidate, int floor, bool keeps_sign, bool payload) const;
  std::vector<Survivor> survivors(size_t most) const;
  bool any_left() const { return !candidates_.empty() || !others_.empty(); }
  std::vector<AccumulatorModel> compared() const;
  int separation(const RuleCase& rule_case, std::span<const AccumulatorModel> models) const;
  std::vector<RuleCase> drawn_cases(uint64_t first) const;
  std::vector<int> separations(std::span<const RuleCase> cases) const;
  void draw_cases();
  std::vector<std::string> contradictions() const;
  std::vector<RuleFact> facts(const AccumulatorModel& own) const;
  AccumulatorModel with_best_floor(AccumulatorModel model) const;
  int64_t misses_of(const AccumulatorModel& model) const;

  Instruction instruction_;
  Target target_;
  uint64_t seed_;
  int threads_;
  int observed_rows_;  // 0: all
  Mma mma_;
  AccumulatorModel row_, blank_;
  std::vector<std::optional<int>> floors_;
  std::vector<OtherRule> others_;
  std::vector<std::unique_ptr<AnsweredCase>> cases_;
  std::vector<RuleCandidate> candidates_;
  std::vector<AccumulatorModel> fallen_;  // eliminated models that survived longest
  std::vector<RuleCase> planned_;         // not yet returned to the caller
  std::vector<RuleCase> first_cases_;     // the first cases of the plan, before any elimination
  bool is_sieved_ = false, is_settled_ = false;
  int rounds_ = 0, quiet_rounds_ = 0;
  uint64_t drawn_ = 1000;  // the index of the next case that is drawn
};

void RuleSearch::Search::plan_first_cases() {
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint64_t kind = 0; kind < probe_kinds; ++kind)
      planned_.push_back({.seed = seed_, .case_index = round * probe_kinds + kind});
  }
  for (const DistributionInfo& row : distributions) {
    for (const uint64_t index : {0u, 1u})
      planned_.push_back({.distribution = row.id, .seed = seed_, .case_index = index});
  }
  first_cases_ = planned_;
}

std::vector<RuleCase> RuleSearch::Search::next_cases(int count) {
  if (count < 1)
    throw Error({.field = "count", .seen = std::to_string(count), .expected = "at least 1", .fix = {}, .source = {}});
  if (is_settled_) return {};
  if (planned_.empty()) draw_cases();
  const size_t taken = std::min(planned_.size(), static_cast<size_t>(count));
  std::vector<RuleCase> next(planned_.begin(), planned_.begin() + static_cast<std::ptrdiff_t>(taken));
  planned_.erase(planned_.begin(), planned_.begin() + static_cast<std::ptrdiff_t>(taken));
  return next;
}

void RuleSearch::Search::require_valid(const RuleObservation& observation) const {
  const Matrix &a = observation.operands.a, &b = observation.operands.b, &d = observation.d;
  const auto refuse = [](const char* field, const Matrix& seen, int rows, int cols, Format format) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = field,
                 .seen = fmt::format("{} x {} of {}", seen.rows(), seen.cols(), info(seen.format()).name),
                 .expected = fmt::format("{} x {} of {}", rows, cols, info(format).name),
                 .fix = {},
                 .source = {}});
  };
  if (a.rows() < 1 || a.cols() != mma_.stored_k() || a.format() != mma_.a)
    refuse("A", a, mma_.m, mma_.stored_k(), mma_.a);
  if (b.cols() < 1 || b.rows() != mma_.k || b.format() != mma_.b) refuse("B", b, mma_.k, mma_.n, mma_.b);
  if (d.rows() != a.rows() || d.cols() != b.cols() || d.format() != mma_.d) refuse("D", d, a.rows(), b.cols(), mma_.d);
  if (const auto& c = observation.operands.c;
      c && (c->rows() != d.rows() || c->cols() != d.cols() || c->format() != mma_.c))
    refuse("C", *c, d.rows(), d.cols(), mma_.c);
  if (observation.operands.scales.has_value() != (mma_.scale_count > 0)) {
    throw Error({.field = "scales",
                 .seen = observation.operands.scales ? "present" : "(missing)",
                 .expected = mma_.scale_count > 0 ? "those of A and B" : "none"});
  }
  if (const auto& scales = observation.operands.scales) {
    const Matrix &of_a = scales->a, &of_b = scales->b;
    if (of_a.rows() != a.rows() || of_a.cols() != mma_.scale_count || of_a.format() != mma_.scale_type)
      refuse("scales of A", of_a, a.rows(), mma_.scale_count, mma_.scale_type);
    if (of_b.rows() != mma_.scale_count || of_b.cols() != b.cols() || of_b.format() != mma_.scale_type)
      refuse("scales of B", of_b, mma_.scale_count, b.cols(), mma_.scale_type);
  }
  const auto& selected = observation.operands.selected_k;
  const bool has_places = mma_.sparse || mma_.products > 1;
  if (selected.size() != (has_places ? a.size() : 0) ||
      std::ranges::any_of(selected, [&](uint16_t k) { return k >= b.rows(); })) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "positions",
                 .seen = fmt::format("{}", selected.size()),
                 .expected = fmt::format("{} of rows of B", has_places ? a.size() : 0)});
  }
}

Matrix RuleSearch::Search::product(const OtherRule& rule, const Operands& operands) const {
  if (rule.is_model()) return multiply_accumulate_unchecked(rule.model, operands);
  Operands other = operands;
  other.exclusive_or ^= rule.other_bits;
  if (rule.overflow != IntegerOverflow::as_told) other.saturate = rule.overflow != IntegerOverflow::wraps;
  if (rule.overflow != IntegerOverflow::clamps_every_step) return multiply_accumulate_unchecked(rule.model, other);
  return product_by_steps(rule.model, other, [&](const Operands& step, const KStep&) {
    return multiply_accumulate_unchecked(step_model(rule.model), step);
  });
}

void RuleSearch::Search::observe(std::span<const RuleObservation> observations) {
  for (const RuleObservation& observation : observations) require_valid(observation);
  const size_t first = cases_.size();
  for (const RuleObservation& observation : observations)
    cases_.push_back(std::make_unique<AnsweredCase>(blank_, observation.operands, observation.d));
  std::erase_if(others_, [&](const OtherRule& rule) {
    for (size_t i = first; i < cases_.size(); ++i) {
      if (product(rule, cases_[i]->operands()) == cases_[i]->d()) continue;
      if (rule.is_model()) keep_fallen(rule.model);
      return true;
    }
    return false;
  });
  if (!is_fused()) {
    is_sieved_ = true;
  } else if (!is_sieved_ && cases_.size() >= first_cases_.size()) {
    sieve_all();
  } else if (is_sieved_ && !candidates_.empty()) {
    std::vector<AnsweredOutput> outputs;
    for (size_t i = first; i < cases_.size(); ++i) {
      for (const auto& [row, col] : picked_outputs(cases_[i]->d(), outputs_per_case, i))
        outputs.emplace_back(*cases_[i], blank_, row, col);
    }
    sieve(outputs);
    check_whole_matrices(first);
  }
  if (is_sieved_ && cases_.size() >= first_cases_.size() && !any_left()) is_settled_ = true;
}

/// Searches the grid on outputs where the floor cannot matter, then tests the survivors on all outputs.
void RuleSearch::Search::sieve_all() {
  is_sieved_ = true;
  std::vector<std::vector<std::pair<int, int>>> picked;
  int least_bits = 0;
  for (size_t i = 0; i < cases_.size(); ++i) {
    picked.push_back(picked_outputs(cases_[i]->d(), outputs_per_case, i));
    least_bits = std::max(least_bits, bits_needed(*cases_[i]));
  }
  // Interleave the cases, one output of each in turn: a wrong rule fails early.
  std::vector<AnsweredOutput> outputs;
  for (size_t turn = 0; turn < outputs_per_case; ++turn) {
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (turn < picked[i].size())
        outputs.emplace_back(*cases_[i], blank_, picked[i][turn].first, picked[i][turn].second);
    }
  }
  const FusedGrid grid(instruction_, least_bits);
  struct Chunk {
    std::vector<AccumulatorModel> left = {};
    std::vector<std::pair<size_t, AccumulatorModel>> fallen = {};  // with the number of outputs they matched
  };
  const size_t chunks = static_cast<size_t>(threads_) * 16, chunk_size = (grid.size() + chunks - 1) / chunks;
  std::vector<Chunk> per_chunk(chunks);
  const int highest_floor = *floors_.back();
  parallel_for(chunks, threads_, [&](size_t c) {
    Chunk& chunk = per_chunk[c];
    for (size_t index = c * chunk_size; index < std::min((c + 1) * chunk_size, grid.size()); ++index) {
      const std::optional<AccumulatorModel> model = grid.at(index);
      if (!model) continue;
      const auto refuting = std::ranges::find_if(outputs, [&](const AnsweredOutput& output) {
        if (output.is_special()) return false;
        const Prediction prediction = output.predict(*model);
        return prediction.highest_idle_floor >= highest_floor &&
               without_sign_of_zero(mma_.d, prediction.code) != without_sign_of_zero(mma_.d, output.d());
      });
      if (refuting == outputs.end()) {
        chunk.left.push_back(*model);
        continue;
      }
      const auto reached = static_cast<size_t>(refuting - outputs.begin());
      if (chunk.fallen.size() < most_fallen || reached > chunk.fallen.back().first) {
        const auto after =
            std::ranges::upper_bound(chunk.fallen, reached, std::greater{}, [](const auto& row) { return row.first; });
        chunk.fallen.insert(after, {reached, *model});
        if (chunk.fallen.size() > most_fallen) chunk.fallen.pop_back();
      }
    }
  });
  std::vector<std::pair<size_t, AccumulatorModel>> fallen;
  for (Chunk& chunk : per_chunk) {
    for (AccumulatorModel& model : chunk.left)
      candidates_.push_back({.core = std::move(model), .floors = {all_floors(), all_floors()}});
    std::ranges::move(chunk.fallen, std::back_inserter(fallen));
  }
  std::ranges::stable_sort(fallen, std::greater{}, [](const auto& row) { return row.first; });
  sieve(outputs);
  check_whole_matrices(0);
  for (auto& [reached, model] : fallen) keep_fallen(std::move(model));
}

void RuleSearch::Search::sieve(std::span<const AnsweredOutput> outputs) {
  parallel_for(candidates_.size(), threads_, [&](size_t i) {
    for (const AnsweredOutput& output : outputs) {
      if (!survives(candidates_[i], output)) return;
    }
  });
  for (const RuleCandidate& candidate : candidates_) {
    if (!candidate.is_alive()) keep_fallen(candidate.core);
  }
  std::erase_if(candidates_, [](const RuleCandidate& candidate) { return !candidate.is_alive(); });
}

bool RuleSearch::Search::survives(RuleCandidate& candidate, const AnsweredOutput& output) const {
  AccumulatorModel model = candidate.core;
  if (output.is_special()) {
    for (const bool passed : {false, true}) {
      model.overrides.c_nan_payload_passed = passed;
      candidate.payload[passed] = candidate.payload[passed] && gives(model, output);
    }
    return candidate.is_alive();
  }
  const Prediction without_floor = output.predict(model);
  const auto judge = [&](const AccumulatorModel& with_floor, uint32_t code, uint64_t floors) {
    if (without_sign_of_zero(mma_.d, code) != without_sign_of_zero(mma_.d, output.d())) {
      for (uint64_t& left : candidate.floors) left &= ~floors;
      return;
    }
    if (without_sign_of_zero(mma_.d, code) != 0) return;
    AccumulatorModel keeps_sign = with_floor;
    keeps_sign.overrides.zero_keeps_sign = true;
    if (code != output.d()) candidate.floors[0] &= ~floors;
    if ((candidate.floors[1] & floors) != 0 && !gives(keeps_sign, output)) candidate.floors[1] &= ~floors;
  };
  uint64_t same = 0;  // floors that change nothing
  for (size_t i = 0; i < floors_.size(); ++i) {
    if (floors_[i] <= without_floor.highest_idle_floor) same |= uint64_t{1} << i;
  }
  judge(model, without_floor.code, same);
  uint64_t others = (candidate.floors[0] | candidate.floors[1]) & ~same;
  for (; others != 0; others &= others - 1) {
    const int i = std::countr_zero(others);
    model.floor_exponent = floors_[static_cast<size_t>(i)];
    judge(model, output.predict(model).code, uint64_t{1} << i);
  }
  return candidate.is_alive();
}

/// Tests the best rule on all outputs of the cases from `first_case` on. If it fails, tests all candidates on the
/// outputs that it missed, and repeats with the next best.
void RuleSearch::Search::check_whole_matrices(size_t first_case) {
  constexpr size_t most_missed = 16;
  while (!candidates_.empty()) {
    const AccumulatorModel best = survivors(1).front().model;
    std::vector<AnsweredOutput> missed;
    for (size_t i = first_case; i < cases_.size() && missed.size() < most_missed; ++i) {
      const Matrix expected = product(best, cases_[i]->operands());
      for (int row = 0; row < expected.rows(); ++row) {
        for (int col = 0; col < expected.cols() && missed.size() < most_missed; ++col) {
          if (expected(row, col) != cases_[i]->d()(row, col)) missed.emplace_back(*cases_[i], blank_, row, col);
        }
      }
    }
    if (missed.empty()) return;
    sieve(missed);
  }
}

AccumulatorModel RuleSearch::Search::with(const RuleCandidate& candidate, int floor, bool keeps_sign,
                                          bool payload) const {
  AccumulatorModel model = candidate.core;
  model.floor_exponent = floors_[static_cast<size_t>(floor)];
  model.overrides.zero_keeps_sign = keeps_sign;
  model.overrides.c_nan_payload_passed = payload;
  return model;
}

/// Nearest to the target's row first; among equals, rules without a floor first, then in the order of the grid.
std::vector<RuleSearch::Search::Survivor> RuleSearch::Search::survivors(size_t most) const {
  const int terms = mma_.stored_k();
  using Key = std::tuple<int, size_t, int, bool, bool>;
  std::vector<Key> keys;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const RuleCandidate& candidate = candidates_[i];
    AccumulatorModel as_row = candidate.core;
    as_row.floor_exponent = row_.floor_exponent;
    as_row.overrides.zero_keeps_sign = row_.overrides.zero_keeps_sign;
    as_row.overrides.c_nan_payload_passed = row_.overrides.c_nan_payload_passed;
    const int core_distance = distance(as_row, row_, terms);
    for (const bool keeps_sign : {false, true}) {
      for (uint64_t left = candidate.floors[keeps_sign]; left != 0; left &= left - 1) {
        const int floor = std::countr_zero(left);
        for (const bool payload : {false, true}) {
          if (!candidate.payload[payload]) continue;
          const int own = (floors_[static_cast<size_t>(floor)] != row_.floor_exponent) +
                          (keeps_sign != row_.overrides.zero_keeps_sign) +
                          (payload != row_.overrides.c_nan_payload_passed);
          keys.emplace_back(core_distance + own, i, floor, keeps_sign, payload);
        }
      }
    }
  }
  const size_t count = std::min(most, keys.size());
  std::ranges::partial_sort(keys, keys.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<Survivor> survivors;
  for (const auto& [differing, i, floor, keeps_sign, payload] : std::span(keys).first(count))
    survivors.push_back({differing, with(candidates_[i], floor, keeps_sign, payload)});
  for (const OtherRule& rule : others_) {
    if (rule.is_model()) survivors.push_back({distance(rule.model, row_, terms), rule.model});
  }
  std::ranges::stable_sort(survivors, {}, &Survivor::distance);
  if (survivors.size() > most) survivors.resize(most);
  return survivors;
}

/// A subset of survivors that covers every open value.
std::vector<AccumulatorModel> RuleSearch::Search::compared() const {
  std::vector<AccumulatorModel> chosen;
  std::map<std::string_view, std::set<std::string>> seen;
  for (const Survivor& survivor : survivors(4096)) {
    bool is_new = chosen.empty();
    for (const FactValue& fact : facts_of(survivor.model, mma_.stored_k()))
      is_new |= seen[fact.name].insert(fact.text).second;
    if (is_new) chosen.push_back(survivor.model);
    if (chosen.size() == compared_rules) break;
  }
  return chosen;
}

/// The number of different answers of the models at the output where they differ most.
int RuleSearch::Search::separation(const RuleCase& rule_case, std::span<const AccumulatorModel> models) const {
  const RuleRows rows = rows_of(instruction_, rule_case, observed_rows_);
  const Operands operands = block_of(operands_of(instruction_, target_, rule_case), rows.first, rows.count, 0, mma_.n);
  if (!is_fused() || models.empty() || models.front().arithmetic != Arithmetic::fused_sum) {
    int differing = 1;
    if (others_.empty()) return differing;
    const Matrix first = product(others_.front(), operands);
    for (const OtherRule& rule : others_) differing += product(rule, operands) != first;
    return differing;
  }
  const Matrix unknown(mma_.d, operands.a.rows(), operands.b.cols());
  const AnsweredCase answered(blank_, operands, unknown);
  int most = 1;
  for (const auto& [row, col] : picked_outputs(unknown, outputs_per_case, rule_case.case_index)) {
    const AnsweredOutput output(answered, blank_, row, col);
    std::set<uint32_t> codes;
    for (const AccumulatorModel& model : models) {
      if (model.arithmetic == Arithmetic::fused_sum) codes.insert(output.predict(model).code);
    }
    most = std::max(most, static_cast<int>(codes.size()));
  }
  return most;
}

std::vector<RuleCase> RuleSearch::Search::drawn_cases(uint64_t first) const {
  std::vector<RuleCase> drawn;
  // Few rows separate fewer rules, so draw more cases.
  const int draws = observed_rows_ > 0 && observed_rows_ < mma_.m ? 5 * drawn_cases_of_round : drawn_cases_of_round;
  for (int i = 0; i < draws; ++i) {
    const uint64_t index = first + static_cast<uint64_t>(i);
    RuleCase rule_case{.seed = seed_, .case_index = index};
    if (i % 3 == 1) rule_case.case_index = index * probe_kinds + (i % 2 == 0 ? ties_probe : floor_probe);
    if (i % 3 == 2) rule_case.distribution = distributions[index / 3 % distributions.size()].id;
    drawn.push_back(rule_case);
  }
  return drawn;
}

std::vector<int> RuleSearch::Search::separations(std::span<const RuleCase> cases) const {
  const std::vector<AccumulatorModel> models = compared();
  std::vector<int> separated(cases.size());
  parallel_for(cases.size(), threads_, [&](size_t i) { separated[i] = separation(cases[i], models); });
  return separated;
}

bool RuleSearch::Search::is_exhausted() const {
  if (!any_left()) return true;
  constexpr uint64_t fresh = uint64_t{1} << 40;  // beyond the indices of any search
  const std::vector<int> separated = separations(drawn_cases(fresh));
  return std::ranges::count_if(separated, [](int answers) { return answers > 1; }) * seldom <= std::ssize(separated);
}

/// Draws one round: cases that separate the survivors; if there are none, a few cases that test the rule itself.
void RuleSearch::Search::draw_cases() {
  if (!is_sieved_ && is_fused()) sieve_all();
  if (!any_left()) {
    is_settled_ = true;
    return;
  }
  constexpr size_t cases_of_round = 8, cases_of_quiet_round = 4;
  const std::vector<RuleCase> drawn = drawn_cases(drawn_);
  drawn_ += drawn.size();
  const std::vector<int> separated = separations(drawn);
  std::vector<size_t> order(drawn.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return separated[i]; });
  const bool quiet = separated[order.front()] == 1;
  constexpr int most_rounds = 40;
  quiet_rounds_ = quiet ? quiet_rounds_ + 1 : 0;
  if (quiet_rounds_ == quiet_rounds || ++rounds_ == most_rounds) {
    is_settled_ = true;
    return;
  }
  for (const size_t i : std::span(order).first(quiet ? cases_of_quiet_round : cases_of_round)) {
    if (quiet || separated[i] > 1) planned_.push_back(drawn[i]);
  }
}

std::vector<RuleFact> RuleSearch::Search::facts(const AccumulatorModel& own) const {
  const int terms = mma_.stored_k();
  FactValues values;
  const auto add = [&](const AccumulatorModel& model) {
    for (const FactValue& fact : facts_of(model, terms)) values.add(fact);
  };
  for (const RuleCandidate& candidate : candidates_) {
    for (const bool keeps_sign : {false, true}) {
      for (uint64_t left = candidate.floors[keeps_sign]; left != 0; left &= left - 1)
        add(with(candidate, std::countr_zero(left), keeps_sign, candidate.payload[1]));
      if (candidate.floors[keeps_sign] != 0 && candidate.payload[0])
        add(with(candidate, std::countr_zero(candidate.floors[keeps_sign]), keeps_sign, false));
    }
  }
  for (const OtherRule& rule : others_) {
    if (rule.is_model()) add(rule.model);
  }
  std::vector<RuleFact> facts;
  for (const FactValue& fact : facts_of(own, terms))
    facts.push_back({.name = std::string(fact.name), .value = fact.text, .open = values.without(fact)});
  if (mma_.d != Format::s32) return facts;
  RuleFact overflow{.name = std::string(sums_beyond)}, bits{.name = std::string(bits_that_count)};
  const auto add_value = [](RuleFact& fact, const std::string& value) {
    if (fact.value.empty()) fact.value = value;
    else if (fact.value != value && std::ranges::find(fact.open, value) == fact.open.end()) fact.open.push_back(value);
  };
  for (const OtherRule& rule : others_) {
    const bool wraps =
        rule.overflow == IntegerOverflow::wraps || (rule.overflow == IntegerOverflow::as_told && !mma_.saturate);
    add_value(overflow, rule.overflow == IntegerOverflow::clamps_every_step
                            ? fmt::format("are clamped every {} terms", rule.model.terms_per_step)
                        : wraps ? "wrap"
                                : "are clamped once");
    const bool differ = (mma_.bit_operation == BitOperation::xor_popc) != rule.other_bits;
    add_value(bits, differ ? "those that differ" : "those that both have");
  }
  if (others_.empty()) return facts;
  facts.push_back(overflow);
  if (mma_.a == Format::b1) facts.push_back(bits);
  return facts;
}

/// For integers and bits: the surviving behaviours that contradict the instruction.
std::vector<std::string> RuleSearch::Search::contradictions() const {
  std::vector<std::string> lines;
  const bool has_model = std::ranges::any_of(others_, [](const OtherRule& rule) { return rule.is_model(); });
  if (mma_.d != Format::s32 || others_.empty() || has_model || cases_.empty()) return lines;
  const auto add = [&](std::string_view name, std::string_view told) {
    for (const RuleFact& fact : facts(others_.front().model)) {
      if (fact.name != name || fact.value == told || std::ranges::find(fact.open, told) != fact.open.end()) continue;
      std::string results = fact.value;
      for (const std::string& open : fact.open) results += " or " + open;
      lines.push_back(fmt::format("{}: the row says {}, the results say {}", name, told, results));
    }
  };
  add(sums_beyond, mma_.saturate ? "are clamped once" : "wrap");
  add(bits_that_count, mma_.bit_operation == BitOperation::xor_popc ? "those that differ" : "those that both have");
  return lines;
}

/// The number of outputs of all cases that the model misses.
int64_t RuleSearch::Search::misses_of(const AccumulatorModel& model) const {
  int64_t misses = 0;
  for (const auto& this_case : cases_) {
    const Matrix expected = product(model, this_case->operands());
    for (int row = 0; row < expected.rows(); ++row) {
      for (int col = 0; col < expected.cols(); ++col)
        misses += expected.code(row, col) != this_case->d().code(row, col);
    }
  }
  return misses;
}

/// Eliminated models have no floor, +0 zeros and one NaN: choose the values that match most outputs of a sample.
AccumulatorModel RuleSearch::Search::with_best_floor(AccumulatorModel model) const {
  if (model.arithmetic != Arithmetic::fused_sum) return model;
  std::vector<AnsweredOutput> outputs;
  for (size_t i = 0; i < cases_.size(); ++i) {
    for (const auto& [row, col] : picked_outputs(cases_[i]->d(), outputs_per_case, i))
      outputs.emplace_back(*cases_[i], blank_, row, col);
  }
  const auto take_best = [&](std::span<const AccumulatorModel> choices) {
    std::vector<std::ptrdiff_t> misses(choices.size());
    parallel_for(choices.size(), threads_, [&](size_t i) {
      misses[i] = std::ranges::count_if(
          outputs, [&](const AnsweredOutput& output) { return output.predict(choices[i]).code != output.d(); });
    });
    model = choices[static_cast<size_t>(std::ranges::min_element(misses) - misses.begin())];
  };
  std::vector<AccumulatorModel> choices(floors_.size() + 2, model);
  choices[1].floor_exponent = row_.floor_exponent;
  for (size_t i = 0; i < floors_.size(); ++i) choices[i + 2].floor_exponent = floors_[i];
  take_best(choices);
  choices.assign(4, model);
  choices[1].overrides.zero_keeps_sign = choices[3].overrides.zero_keeps_sign = !model.overrides.zero_keeps_sign;
  choices[2].overrides.c_nan_payload_passed = choices[3].overrides.c_nan_payload_passed =
      !model.overrides.c_nan_payload_passed;
  take_best(choices);
  return model;
}

FoundRule RuleSearch::Search::result() {
  if (!is_sieved_ && is_fused() && !cases_.empty()) sieve_all();
  FoundRule result{.terms = mma_.stored_k()};
  for (const auto& this_case : cases_) result.outputs += static_cast<int64_t>(this_case->d().size());
  for (Survivor& survivor : survivors(FoundRule::max_survivors)) {
    // If the row itself gives every bit, return it: it has a name and a source.
    const bool is_row = survivor.distance == 0;
    result.survivors.push_back(is_row ? row_ : std::move(survivor.model));
  }
  if (cases_.empty()) result.survivors.clear();
  if (!result.survivors.empty()) {
    result.rule = result.survivors.front();
    result.facts = facts(*result.rule);
    return result;
  }
  result.contradictions = contradictions();
  std::vector<AccumulatorModel> near = fallen_;
  near.insert(near.begin(), row_);
  if (cases_.empty()) return result;
  std::vector<int64_t> misses(near.size());
  parallel_for(near.size(), threads_, [&](size_t i) { misses[i] = misses_of(near[i]); });
  const auto best = std::ranges::min_element(misses);
  result.nearest = near[static_cast<size_t>(best - misses.begin())];
  result.nearest_mismatches = *best;
  AccumulatorModel refined = with_best_floor(*result.nearest);
  if (const int64_t left = misses_of(refined); left < result.nearest_mismatches)
    result.nearest = std::move(refined), result.nearest_mismatches = left;
  result.facts = facts(*result.nearest);
  return result;
}

std::string print(const RuleCase& rule_case) {
  std::string_view name = "probe";
  for (const DistributionInfo& row : distributions) {
    if (rule_case.distribution == row.id) name = row.name;
  }
  return fmt::format("{}, seed {}, case {}", name, rule_case.seed, rule_case.case_index);
}

Operands operands_of(const Instruction& instruction, Target target, const RuleCase& rule_case) {
  if (rule_case.distribution)
    return random_operands(instruction, target, *rule_case.distribution, rule_case.seed, rule_case.case_index);
  return probe_operands(instruction, target, rule_case.seed, rule_case.case_index);
}

RuleRows rows_of(const Instruction& instruction, const RuleCase& rule_case, int rows) {
  const int all = mma_of(instruction).m;
  if (rows <= 0 || rows >= all) return {.first = 0, .count = all};
  return {.first = rows * static_cast<int>(rule_case.case_index % static_cast<uint64_t>(all / rows)), .count = rows};
}

RuleSearch::RuleSearch(const Instruction& instruction, Target target, uint64_t seed, int threads, int rows)
    : search_(std::make_unique<Search>(instruction, target, seed, threads, rows)) {}
RuleSearch::~RuleSearch() = default;
RuleSearch::RuleSearch(RuleSearch&&) noexcept = default;
RuleSearch& RuleSearch::operator=(RuleSearch&&) noexcept = default;

std::vector<RuleCase> RuleSearch::next_cases(int count) { return search_->next_cases(count); }
void RuleSearch::observe(std::span<const RuleObservation> observations) { search_->observe(observations); }
bool RuleSearch::settled() const { return search_->settled(); }
bool RuleSearch::is_exhausted() const { return search_->is_exhausted(); }
const std::vector<RuleCase>& RuleSearch::first_cases() const { return search_->first_cases(); }
FoundRule RuleSearch::result() const { return search_->result(); }

std::vector<std::string> differences(const AccumulatorModel& row, const FoundRule& result) {
  if (!result.contradictions.empty()) return result.contradictions;
  std::vector<std::string> lines;
  const AccumulatorModel* nearest = result.nearest ? &*result.nearest : nullptr;
  FactValues values;
  int smallest = std::numeric_limits<int>::max();
  for (const AccumulatorModel& survivor : result.survivors) {
    for (const FactValue& fact : facts_of(survivor, result.terms)) values.add(fact);
    const int differing = distance(survivor, row, result.terms);
    if (differing < smallest) smallest = differing, nearest = &survivor;
  }
  if (!nearest) return lines;
  const std::vector<FactValue> of_row = facts_of(row, result.terms);
  for (const FactValue& fact : facts_of(*nearest, result.terms)) {
    const auto same = std::ranges::find(of_row, fact.name, &FactValue::name);
    if (same == of_row.end() || same->text == fact.text) continue;
    std::string results = fact.text;
    // If the row's value survives in combination with other facts, do not list the other values.
    if (!values.contains(*same)) {
      for (const std::string& open : values.without(fact)) results += " or " + open;
    }
    lines.push_back(fmt::format("{}: the row says {}, the results say {}", fact.name, same->text, results));
  }
  return lines;
}

}  // namespace bitmma
