// SPDX-License-Identifier: MIT
// One table of loops per instruction set, all compiled from one source, and the table in use. Only this file includes
// the bodies (chain.hpp, decode.hpp, fma_chain.hpp, fused.hpp, groups.hpp, integers.hpp, warp.hpp), which are therefore
// in an unnamed namespace.
#include <algorithm>
#include <atomic>
#include <vector>

#include "../../core/cpu_level.hpp"
#include "../../math/ieee_environment.hpp"
#include "chain.hpp"
#include "decode.hpp"
#include "fma_chain.hpp"
#include "fused.hpp"
#include "groups.hpp"
#include "integers.hpp"
#include "kernels.hpp"
#include "warp.hpp"

namespace bitmma::kernels {
namespace {

#define BITMMA_CHAIN_LOOPS(space, target, bytes)                                   \
  namespace space {                                                                \
  target void decode_a(const ChainDecoding& job) { decode_chain_a<bytes>(job); }   \
  target void decode_b(const ChainDecoding& job) { decode_chain_b<bytes>(job); }   \
  target void sum_f32(const ChainSum& job) { sum_chain<bytes, Format::f32>(job); } \
  target void sum_f16(const ChainSum& job) { sum_chain<bytes, Format::f16>(job); } \
  constexpr ChainLoop loop{decode_a, decode_b, {sum_f32, sum_f16}, 1, 1};          \
  constexpr ChainLoops loops{bytes / 2, loop, loop, loop};                         \
  }

namespace no_warp {
constexpr LoopsById<SumWarp> loops{};
}
#if defined(BITMMA_X86_BUILTINS)
#define BITMMA_FMA_LOOP(space, target, bytes, Number, narrow)                                                 \
  namespace space {                                                                                           \
  target void decode_a(const ChainDecoding& job) { decode_fma_chain_a<bytes, Number, narrow>(job); }          \
  target void decode_b(const ChainDecoding& job) { decode_fma_chain_b<bytes, Number, narrow>(job); }          \
  BITMMA_IN_ENVIRONMENT target void in_f32(const ChainSum& job) {                                             \
    sum_fma_chain<bytes, Number, narrow, Format::f32>(job);                                                   \
  }                                                                                                           \
  BITMMA_IN_ENVIRONMENT target void in_f16(const ChainSum& job) {                                             \
    sum_fma_chain<bytes, Number, narrow, Format::f16>(job);                                                   \
  }                                                                                                           \
  constexpr Rounding rounding = has_own_rounding<bytes> ? Rounding::nearest_even : Rounding::toward_negative; \
  void sum_f32(const ChainSum& job) {                                                                         \
    const math::IeeeEnvironment environment(rounding);                                                        \
    in_f32(job);                                                                                              \
  }                                                                                                           \
  void sum_f16(const ChainSum& job) {                                                                         \
    const math::IeeeEnvironment environment(rounding);                                                        \
    in_f16(job);                                                                                              \
  }                                                                                                           \
  constexpr ChainLoop loop{decode_a, decode_b, {sum_f32, sum_f16}, sizeof(Number) / 4, fma_sign_words / 2};   \
  }
#define BITMMA_FMA_LOOPS(space, target, bytes)                                         \
  namespace space {                                                                    \
  BITMMA_FMA_LOOP(any, target, bytes, double, false)                                   \
  BITMMA_FMA_LOOP(small, target, bytes, double, true)                                  \
  BITMMA_FMA_LOOP(few_bits, target, bytes, float, true)                                \
  constexpr ChainLoops loops{bytes / 2, any::loop, small::loop, few_bits::loop, true}; \
  }
#define BITMMA_V4 [[gnu::target("arch=x86-64-v4")]]
BITMMA_FMA_LOOPS(v4_chain, BITMMA_V4, 64)
BITMMA_FMA_LOOPS(v3_chain, [[gnu::target("arch=x86-64-v3")]], 32)
namespace v4_warp {
BITMMA_IN_ENVIRONMENT BITMMA_V4 bool in_f32(const WarpSum& job) { return sum_warp<Format::f32>(job); }
BITMMA_IN_ENVIRONMENT BITMMA_V4 bool in_f16(const WarpSum& job) { return sum_warp<Format::f16>(job); }
bool sum_f32(const WarpSum& job) {
  const math::IeeeEnvironment environment;
  return in_f32(job);
}
bool sum_f16(const WarpSum& job) {
  const math::IeeeEnvironment environment;
  return in_f16(job);
}
constexpr LoopsById<SumWarp> loops{sum_f32, sum_f16};
}  // namespace v4_warp
#elif defined(__x86_64__)
BITMMA_CHAIN_LOOPS(v4_chain, [[gnu::target("arch=x86-64-v4")]], 64)
BITMMA_CHAIN_LOOPS(v3_chain, [[gnu::target("arch=x86-64-v3")]], 32)
namespace v4_warp = no_warp;
#endif

// The table of one instruction set: compiles every body again in functions that may use the set.
#define BITMMA_KERNELS(space, name, target, bytes, chain, narrow, warp)                         \
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
  constexpr Kernels table{name,          decode,       {sum_fused_f32, sum_fused_f16},          \
                          warp::loops,   sum_groups,   sum_integers,                            \
                          sum_popcounts, pack_bits,    pack_row,                                \
                          chain::loops,  narrow::loops};                                        \
  }

#if defined(__x86_64__)
BITMMA_KERNELS(v4, "x86-64-v4", [[gnu::target("arch=x86-64-v4")]], 64, v4_chain, v3_chain, v4_warp)
BITMMA_KERNELS(v3, "x86-64-v3", [[gnu::target("arch=x86-64-v3")]], 32, v3_chain, v3_chain, no_warp)
#endif
BITMMA_CHAIN_LOOPS(baseline_chain, , 16)
BITMMA_KERNELS(baseline, "baseline", , 16, baseline_chain, baseline_chain, no_warp)

std::atomic<const Kernels*>& in_use() {
  static std::atomic<const Kernels*> table{supported_kernels().front()};
  return table;
}

}  // namespace

std::span<const Kernels* const> supported_kernels() {
  static const std::vector<const Kernels*> tables = [] {
    std::vector<const Kernels*> supported;
#if defined(__x86_64__)
    if (has(CpuLevel::v4)) supported.push_back(&v4::table);
    if (has(CpuLevel::v3)) supported.push_back(&v3::table);
#endif
    supported.push_back(&baseline::table);
    return supported;
  }();
  return tables;
}

const Kernels& kernels() { return *in_use().load(std::memory_order_relaxed); }

void use_kernels(const Kernels& kernels) { in_use().store(&kernels); }

}  // namespace bitmma::kernels
