// SPDX-License-Identifier: MIT
// One table of loops per instruction set, all compiled from one source, and the table in use. Only this file includes
// the bodies (byte_chain.hpp, chain.hpp, decode.hpp, fused.hpp, groups.hpp, integers.hpp), which are therefore in an
// unnamed namespace.
#include <algorithm>
#include <atomic>
#include <vector>

#include "../../core/cpu_level.hpp"
#include "byte_chain.hpp"
#include "chain.hpp"
#include "decode.hpp"
#include "fused.hpp"
#include "groups.hpp"
#include "integers.hpp"
#include "kernels.hpp"

namespace bitmma::kernels {
namespace {

#define BITMMA_CHAIN_LOOPS(space, target, bytes, of_bytes)                                   \
  namespace space {                                                                          \
  target void decode_a(const ChainDecoding& job) { decode_chain_a<bytes>(job); }             \
  target void decode_b(const ChainDecoding& job) { decode_chain_b<bytes>(job); }             \
  target void sum_f32(const ChainSum& job) { sum_chain<bytes, Format::f32>(job); }           \
  target void sum_f16(const ChainSum& job) { sum_chain<bytes, Format::f16>(job); }           \
  constexpr ChainLoops loops{bytes / 2, {decode_a, decode_b, {sum_f32, sum_f16}}, of_bytes}; \
  }

#if defined(BITMMA_X86_BUILTINS)
// Only AVX-512 can shift 16-bit numbers by a count per lane.
#define BITMMA_V4 [[gnu::target("arch=x86-64-v4")]]
namespace byte_chain {
BITMMA_V4 void decode_a(const ChainDecoding& job) { decode_byte_chain_a<64>(job); }
BITMMA_V4 void decode_b(const ChainDecoding& job) { decode_byte_chain_b<64>(job); }
BITMMA_V4 void sum_f32(const ChainSum& job) { sum_byte_chain<64, Format::f32>(job); }
BITMMA_V4 void sum_f16(const ChainSum& job) { sum_byte_chain<64, Format::f16>(job); }
constexpr ChainLoop loop{decode_a, decode_b, {sum_f32, sum_f16}};
}  // namespace byte_chain
constexpr const ChainLoop* bytes_of_v4 = &byte_chain::loop;
#else
constexpr const ChainLoop* bytes_of_v4 = nullptr;
#endif

// The table of one instruction set: compiles every body again in functions that may use the set.
#define BITMMA_KERNELS(space, name, target, bytes, of_bytes, narrow)                            \
  namespace space {                                                                             \
  target bool decode(const Decoding& job) { return kernels::decode<bytes>(job); }               \
  target bool sum_fused_f32(const FusedSum& job) { return sum_fused<bytes, Format::f32>(job); } \
  target bool sum_fused_f16(const FusedSum& job) { return sum_fused<bytes, Format::f16>(job); } \
  target bool sum_groups(const GroupSum& job) { return kernels::sum_groups<bytes>(job); }       \
  target void sum_integers(const IntegerSum& job) { kernels::sum_integers<bytes>(job); }        \
  target void sum_popcounts(const PopcountSum& job) { kernels::sum_popcounts<bytes>(job); }     \
  target void pack_bits(const uint32_t* codes, int count, int bit, uint32_t* words) {           \
    kernels::pack_bits<bytes>(codes, count, bit, words);                                        \
  }                                                                                             \
  target void pack_row(const uint32_t* codes, int count, uint32_t* words) {                     \
    kernels::pack_row<bytes>(codes, count, words);                                              \
  }                                                                                             \
  BITMMA_CHAIN_LOOPS(chain, target, bytes, of_bytes)                                            \
  constexpr Kernels table{name,         decode,       {sum_fused_f32, sum_fused_f16},           \
                          sum_groups,   sum_integers, sum_popcounts,                            \
                          pack_bits,    pack_row,     chain::loops,                             \
                          narrow::loops};                                                       \
  }

#if defined(__x86_64__)
BITMMA_CHAIN_LOOPS(v4_narrow_chain, [[gnu::target("arch=x86-64-v4")]], 32, nullptr)
BITMMA_KERNELS(v4, "x86-64-v4", [[gnu::target("arch=x86-64-v4")]], 64, bytes_of_v4, v4_narrow_chain)
BITMMA_KERNELS(v3, "x86-64-v3", [[gnu::target("arch=x86-64-v3")]], 32, nullptr, chain)
#endif
BITMMA_KERNELS(baseline, "baseline", , 16, nullptr, chain)

std::atomic<const Kernels*>& in_use() {
  static std::atomic<const Kernels*> table{supported_kernels().front()};
  return table;
}

}  // namespace

std::span<const Kernels* const> supported_kernels() {
  static const std::vector<const Kernels*> tables = [] {
    std::vector<const Kernels*> found;
#if defined(__x86_64__)
    if (has(CpuLevel::v4)) found.push_back(&v4::table);
    if (has(CpuLevel::v3)) found.push_back(&v3::table);
#endif
    found.push_back(&baseline::table);
    return found;
  }();
  return tables;
}

const Kernels& kernels() { return *in_use().load(std::memory_order_relaxed); }

void use_kernels(const Kernels& kernels) { in_use().store(&kernels); }

}  // namespace bitmma::kernels
