// SPDX-License-Identifier: MIT
// Building blocks of questions and answers: initial states, and the states that the model or another answer produces.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

#include "bitmma/instruction/place.hpp"
#include "bitmma/memory/tmem.hpp"
#include "questions.hpp"

namespace bitmma::survey {

inline constexpr TargetSet blackwell = with_own_rows(target_sets::tcgen05);

/// The state after the model ran the instruction.
State executed(const Trial& trial);

/// The model's behaviour, which is the first answer of a question.
inline Answer model_answer(std::string_view text) { return {text, executed}; }

/// Draws a case with `base`, then applies `change`, which may draw more random words.
template <typename Base, typename Change>
Ask drawn(Base base, Change change) {
  return [base, change](const Question& question, Target target, RandomStream& random) {
    Trial trial = base(question, target, random);
    change(trial, random);
    return trial;
  };
}

/// Index of a cell's word in Tensor Memory.
inline size_t index_of(const State& state, const TmemPlace& place) {
  return static_cast<size_t>((place.cta * tmem_lanes + place.lane) * state.columns() + place.column);
}

/// Calls change(word, row, col) for every cell that holds an element of D.
template <typename Change>
void for_cells_of_d(const Trial& trial, State& after, Change change) {
  const PlaceMap map(trial.instruction, trial.target, trial.before, Role::d);
  const std::span<uint32_t> words = after.writable_words(Field::tmem);
  for (int row = 0; row < map.rows(); ++row) {
    for (int col = 0; col < map.cols(); ++col)
      change(words[index_of(after, std::get<TmemPlace>(map.place_of(row, col)))], row, col);
  }
}

}  // namespace bitmma::survey
