// SPDX-License-Identifier: MIT
// The layouts of bitmma.h's structures in this minor version. To extend a structure, change its row here and the minor
// version, which is part of the shared library's name: then no old program loads the new library.
#include <cstddef>

#include "bitmma.h"

namespace {

static_assert(BITMMA_VERSION_MAJOR == 0 && BITMMA_VERSION_MINOR == 3, "check the rows below, then this line");

// The enumerations do not depend on -fshort-enums.
static_assert(sizeof(bitmma_status) == 4 && sizeof(bitmma_format) == 4 && sizeof(bitmma_family) == 4 &&
              sizeof(bitmma_evidence) == 4);

// The sizes with 8-byte pointers; with other pointers the members are the same.
template <typename Structure>
constexpr bool has_bytes(std::size_t bytes) {
  return sizeof(void*) != 8 || sizeof(Structure) == bytes;
}

static_assert(has_bytes<bitmma_violation>(48));
static_assert(has_bytes<bitmma_tcgen05>(28));
static_assert(has_bytes<bitmma_named_value>(24));
static_assert(has_bytes<bitmma_instruction_info>(64));
static_assert(has_bytes<bitmma_view>(32));
static_assert(has_bytes<bitmma_operands>(192));
static_assert(has_bytes<bitmma_warp_words>(28));
static_assert(has_bytes<bitmma_registers>(16));
static_assert(has_bytes<bitmma_warp_registers>(96));
static_assert(has_bytes<bitmma_field>(80));
static_assert(has_bytes<bitmma_array>(56));
static_assert(has_bytes<bitmma_matrix>(48));
static_assert(has_bytes<bitmma_gemm_inputs>(416));
static_assert(has_bytes<bitmma_call>(24));
static_assert(has_bytes<bitmma_attention_call>(48));

}  // namespace
