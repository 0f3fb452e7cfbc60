#include "../../sim/arithmetic/steps.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

using namespace bitmma;

namespace {

using Steps = std::vector<std::vector<int>>;

Steps steps_of(const AccumulatorModel& model, int terms) {
  Steps steps;
  for_each_step(model, terms, [&](const KStep& step) {
    steps.emplace_back();
    for (int i = 0; i < step.count; ++i) steps.back().push_back(step.term(i));
  });
  return steps;
}

}  // namespace

TEST_CASE("steps take neighbours, the last one what is left, or two of every four", "[rule:steps]") {
  CHECK(steps_of({}, 3) == Steps{{0, 1, 2}});
  CHECK(steps_of({.terms_per_step = 2}, 5) == Steps{{0, 1}, {2, 3}, {4}});
  CHECK(steps_of({.terms_per_step = 8}, 3) == Steps{{0, 1, 2}});
  const AccumulatorModel pairs{.step_order = StepOrder::byte_pairs};
  CHECK(steps_of(pairs, 8) == Steps{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(steps_of(pairs, 7) == Steps{{0, 1, 4, 5}, {2, 3, 6}});
  CHECK(steps_of(pairs, 1) == Steps{{0}, {}});
  CHECK(steps_of({}, 0) == Steps{{}});
  CHECK(steps_of({.terms_per_step = 4}, 0) == Steps{{}});
  CHECK(steps_of(pairs, 0) == Steps{{}, {}});
}

TEST_CASE("every term is in one step, and a row is chained where there are several", "[rule:steps]") {
  for (const AccumulatorModel& row : accumulator_models()) {
    for (int terms = 1; terms <= 128; ++terms) {
      const Steps steps = steps_of(row, terms);
      std::vector<int> taken;
      for (const std::vector<int>& step : steps) taken.insert(taken.end(), step.begin(), step.end());
      std::ranges::sort(taken);
      std::vector<int> all(static_cast<size_t>(terms));
      std::iota(all.begin(), all.end(), 0);
      REQUIRE(taken == all);
      REQUIRE((steps.size() > 1) == is_chained(row, terms));
      if (terms % 4 == 0) REQUIRE(static_cast<int>(steps.front().size()) == terms_of_step(row, terms));
    }
    CHECK(steps_of(step_model(row), 128).size() == 1);
  }
}
