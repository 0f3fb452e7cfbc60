// SPDX-License-Identifier: MIT
// softmax(Q K^T * scale) V, bit for bit: the forward kernels of PyTorch 2.11 behind scaled_dot_product_attention, which
// are FlashAttention-2, the memory-efficient kernel and two kernels of cuDNN.
//
//   const AttentionShape shape{.heads = 8, .kv_heads = 8, .queries = 1024, .keys = 1024, .head_size = 128};
//   const Attention result = attention(attention_plan(shape, {.causal = true}), shape, q, k, v);
//
// A thread block takes a tile of queries and goes through tiles of keys. FlashAttention-2 takes the last ones first,
// and computes for one query:
//
//   s = chain of m16n8k16 over the head size         m = the largest s so far
//   p = exp2f(s * scale2 - m * scale2)               two products and a difference, each rounded
//   sum = p0 + p1 + ... in each of four lanes        o = chain of m16n8k16 over the keys of the tile
//   at a new largest score: r = exp2f((m_old - m) * scale2), sum = fma(sum, r, p0) + p1 + ..., o = o * r
//
// then sum = (lane 0 + lane 2) + (lane 1 + lane 3), and the output is o * (1 / sum), rounded to the type of Q. With few
// queries the keys are split: each part gives such outputs in f32, and a second kernel joins them. The steps of the
// other kernels differ in order and rounding (docs/operators.md). Source: measured on an H100 and an H200.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bitmma/formats/matrix.hpp"

namespace bitmma {

struct AttentionShape {
  int heads = 1;     // of Q, those of all sequences of a batch
  int kv_heads = 1;  // of K and V; a divisor of heads: head h reads head h / (heads / kv_heads)
  int queries = 1, keys = 1, head_size = 64;

  bool operator==(const AttentionShape&) const = default;
};

/// Backends of scaled_dot_product_attention: "flash", "efficient", "cudnn", and a kernel that cuDNN chooses,
/// "cudnn_sm80".
enum class AttentionKernel : uint8_t {
  flash_2,           // FLASH_ATTENTION: pytorch_flash::flash_fwd_kernel, flash_fwd_splitkv_kernel
  memory_efficient,  // EFFICIENT_ATTENTION: fmha_cutlassF_*_aligned_*_rf_sm80, of head sizes up to 128
  cudnn,             // CUDNN_ATTENTION: cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x*
                     // of several queries; else the next kernel, if recordings decide it
  cudnn_sm80,        // of one query: *_sdpa_sm80_flash_fprop_wmma_f16_knob_{2_64x32,3_64x64}x{64,128}
};

std::string_view print(AttentionKernel kernel);
AttentionKernel parse_attention_kernel(std::string_view name);

struct AttentionOptions {
  AttentionKernel kernel = AttentionKernel::flash_2;
  bool causal = false;              // query i sees the keys up to i + keys - queries
  std::optional<float> scale = {};  // default: 1 / sqrt(head_size), in f64, rounded to f32
  int window_left = -1;             // keys that a query sees before its own; -1: all
  int window_right = -1;            // and after it
  std::optional<int> splits = {};   // parts of the keys; default: the library's choice
  int multiprocessors = 132;        // of the GPU: an H100 SXM and an H200 have 132. The choice of splits reads it

  bool operator==(const AttentionOptions&) const = default;
};

/// What a kernel chooses for a shape.
struct AttentionPlan {
  AttentionKernel kernel = AttentionKernel::flash_2;
  int tile_queries = 128, tile_keys = 64;
  int splits = 1;
  float scale = 1;
  int window_left = -1, window_right = -1;  // causal: right is 0
  bool masks = false;                       // keys of other places than the end may be masked

  bool operator==(const AttentionPlan&) const = default;
};

struct [[nodiscard]] Attention {
  Matrix out;  // heads * queries x head_size, of the type of Q
  Matrix lse;  // heads x queries, f32: the logarithm of the sum of exp(score * scale)

  bool operator==(const Attention&) const = default;
};

/// Throws Error if the kernel does not take the shape: head sizes are multiples of 8 up to 256.
AttentionPlan attention_plan(const AttentionShape& shape, const AttentionOptions& options = {});

/// "FlashAttention-2: flash_fwd_kernel, 128 queries x 64 keys, 1 split, scale 0.125".
std::string print(const AttentionPlan& plan);

/// Q is heads * queries x head_size, K and V are kv_heads * keys x head_size, all f16 or all bf16, or with the
/// memory-efficient kernel all f32. The same bits for any number of threads. Throws Error when shapes or types do not
/// agree.
Attention attention(const AttentionPlan& plan, const AttentionShape& shape, const Matrix& q, const Matrix& k,
                    const Matrix& v, int threads = 1);

}  // namespace bitmma
