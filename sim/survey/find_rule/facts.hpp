// SPDX-License-Identifier: MIT
// States a rule of addition fact by fact, in words.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/survey/find_rule.hpp"

namespace bitmma {

struct FactValue {
  std::string_view name = {};
  std::string text = {};
  std::optional<int> number = {};  // set for numeric values, which are printed as ranges

  bool operator==(const FactValue&) const = default;
};

/// Facts in the order for readers. `terms`: the number of terms of an output.
std::vector<FactValue> facts_of(const AccumulatorModel& model, int terms);

/// The number of facts in which the models differ.
int distance(const AccumulatorModel& x, const AccumulatorModel& y, int terms);

/// Values of facts by name.
class FactValues {
 public:
  void add(const FactValue& value);
  bool contains(const FactValue& value) const;
  /// All values except the fact's own: "20..24", "none".
  std::vector<std::string> without(const FactValue& own) const;

 private:
  struct Values {
    std::set<int> numbers = {};
    std::set<std::string> texts = {};
  };
  std::map<std::string, Values, std::less<>> values_;
};

}  // namespace bitmma
