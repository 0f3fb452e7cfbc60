// SPDX-License-Identifier: MIT
#include "bitmma/instruction/prepared.hpp"

#include "bitmma/instruction/form.hpp"
#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

struct bitmma_prepared {
  Prepared value;
};

extern "C" {

bitmma_status bitmma_prepared_create(const bitmma_instruction* instruction, const char* target,
                                     bitmma_prepared** prepared) {
  return guarded([&] {
    const Instruction& statement = pointee(instruction, "instruction").value;
    bitmma_prepared*& to = pointee(prepared, "prepared");
    to = new bitmma_prepared{Prepared(statement, target_of(target, default_target(statement)))};
  });
}

void bitmma_prepared_destroy(bitmma_prepared* prepared) { delete prepared; }

bitmma_status bitmma_prepared_get_words(const bitmma_prepared* prepared, bitmma_warp_words* words) {
  return guarded([&] {
    const WarpWords& from = pointee(prepared, "prepared").value.words();
    pointee(words, "words") = {.a = from.a,
                               .b = from.b,
                               .c = from.c,
                               .metadata = from.metadata,
                               .scale_a = from.scale_a,
                               .scale_b = from.scale_b,
                               .d = from.d};
  });
}

bitmma_status bitmma_prepared_execute(const bitmma_prepared* prepared, int64_t count,
                                      const bitmma_warp_registers* registers, uint32_t* d, int64_t d_stride) {
  return guarded([&] {
    const bitmma_warp_registers& from = pointee(registers, "registers");
    const auto view = [](const bitmma_registers& operand) { return RegisterView(operand.words, operand.stride); };
    pointee(prepared, "prepared")
        .value.execute_batch(count,
                             {.a = view(from.a),
                              .b = view(from.b),
                              .c = view(from.c),
                              .metadata = view(from.metadata),
                              .scale_a = view(from.scale_a),
                              .scale_b = view(from.scale_b)},
                             d, d_stride);
  });
}

bitmma_status bitmma_prepared_execute_state(const bitmma_prepared* prepared, bitmma_state* state) {
  return guarded([&] {
    State& on = pointee(state, "state").value;
    pointee(prepared, "prepared").value.execute(on);
  });
}

}  // extern "C"
