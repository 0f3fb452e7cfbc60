// Instructions and states that several tests run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/state.hpp"

namespace bitmma::test {

/// Types that a tcgen05.mma may have, and the size of its scale vectors. K = 0: what follows from the types.
struct Tcgen05Types {
  MmaKind kind = MmaKind::f16;
  Format d = Format::f32, a = Format::f16, b = Format::f16;
  ScaleVec scale_vec = ScaleVec::unwritten;
  Format scale_type = Format::ue8m0;
  int k = 0;
};

/// Every kind, every container and every size of scale vector at least once. f16 to f32 is the first.
const std::vector<Tcgen05Types>& tcgen05_types();
/// The row of these types. Throws when there is none.
const Tcgen05Types& tcgen05_types(MmaKind kind, Format d, Format a);

/// The tcgen05.mma of these types, legal or not.
Tcgen05Mma tcgen05_mma(const Tcgen05Types& types, int m, int n, int cta_group = 1, bool weight_stationary = false,
                       bool sparse = false);

/// Every legal (types, form, M), at the first, a middle and the last N.
std::vector<Tcgen05Mma> tcgen05_mmas();

/// A few instructions of every family that together read and write every field a state can have.
std::vector<Instruction> sample_instructions();

/// A random case of the instruction on its default target, all distributions in turn by `seed`.
Case sample_case(const Instruction& instruction, uint64_t seed);

/// The words of an array as they are now.
std::vector<uint32_t> words_of(const State& state, Field field);

}  // namespace bitmma::test
