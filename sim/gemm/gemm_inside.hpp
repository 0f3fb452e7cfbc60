// gemm with a choice that users do not have: tests hold the loops of chains against one instruction after the other.
#pragma once

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

enum class ChainBy : uint8_t { loops, updates };

Matrix gemm(const GemmPlan& plan, const GemmInputs& inputs, ChainBy how, int threads = 1,
            const GemmProgress& progress = {});

/// What a plan with this input rounding reads: then it is one without.
GemmInputs rounded_inputs(const GemmInputs& inputs, InputRounding rounding);

}  // namespace bitmma
