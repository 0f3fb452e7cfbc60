// SPDX-License-Identifier: MIT
// What a rule of addition says, fact by fact, for people.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/analysis/find_rule.hpp"
#include "bitmma/arithmetic/accumulator_model.hpp"

namespace bitmma {

struct FactValue {
  std::string_view name = {};
  std::string text = {};
  std::optional<int> number = {};  // values that are numbers are said as ranges

  bool operator==(const FactValue&) const = default;
};

/// In the order in which people read them. `terms`: of one output.
std::vector<FactValue> facts_of(const AccumulatorModel& model, int terms);

/// How many facts differ.
int distance(const AccumulatorModel& x, const AccumulatorModel& y, int terms);

/// Values of facts by name.
class FactValues {
 public:
  void add(const FactValue& value);
  bool contains(const FactValue& value) const;
  /// All but the fact's own value: "20..24", "none".
  std::vector<std::string> without(const FactValue& own) const;

 private:
  struct Values {
    std::set<int> numbers = {};
    std::set<std::string> texts = {};
  };
  std::map<std::string, Values, std::less<>> values_;
};

}  // namespace bitmma
