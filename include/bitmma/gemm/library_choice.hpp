// SPDX-License-Identifier: MIT
// Which kernel a library takes for a product. cuBLAS's choices for PyTorch's calls were recorded on an H100 and an H200
// for the layers of open models, and on the H200 for all N and K that are multiples of 64 up to 16384, and for batches
// of products as attention has them (data/choices); they are compiled in.
//
//   LibraryCall call = call_of(inputs);                 types, shape, bias and scales
//   call.gpu = "H100";
//   const LibraryChoice choice = library_choice(call);  nvjet_sm90_tst_*_splitK + cublasLt::splitKreduce_kernel<..>, 3
//   gemm(plan_of_choice(choice, inputs), inputs)        its bits
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

enum class CallScales : uint8_t { none, tensor, rows };

/// A call of PyTorch: torch.mm, addmm with a bias, _scaled_mm; torch.bmm.
struct LibraryCall {
  std::string library = "cublas 13.1", gpu = {};  // "cublas-13.1" is the same
  Format a = Format::bf16, b = Format::bf16;      // tf32: float32
  std::optional<Format> d = {};                   // nothing: that of PyTorch, which is A's; bf16 of fp8
  std::string layout = "nt";  // of A [M, K] and of B [K, N]: "n" has contiguous rows, "t" contiguous columns
  bool allow_tf32 = false;    // torch.backends.cuda.matmul.allow_tf32
  bool bias = false;
  CallScales scales = CallScales::none;
  bool fast_accumulation = false;  // use_fast_accum of _scaled_mm
  int64_t m = 0, n = 0, k = 0;
  int64_t matrices = 0;  // of torch.bmm, whose choice depends on their number; 0: torch.mm, addmm or _scaled_mm
  bool nearest = false;  // if the shape was not recorded, take the choice of the nearest one; batches have none

  bool operator==(const LibraryCall&) const = default;
};

struct [[nodiscard]] LibraryChoice {
  std::string kernel = {};  // names of the call's kernels; `*` stands for what decides no bit, such as tiles of nvjet
  int slices = 1;           // of K
  Format d = Format::bf16;
  bool exact = false;           // the shape was recorded, or the recorded M below and above it take the same kernel
  int64_t m = 0, n = 0, k = 0;  // the recorded shape
  std::string library = {}, gpu = {}, kind = {}, layout = {};  // "cublas 13.1", "H100", "bf16 bias", "nt"
  std::string recorded_on = {};  // the GPU; with `nearest` it may be another one than `gpu`
  /// How often such choices were right, for shapes that were drawn after the recording (data/choices/README.md):
  /// `right` of `drawn`; drawn 0: not measured.
  int right = 0, drawn = 0;

  bool operator==(const LibraryChoice&) const = default;
};

/// The recorded choice. Throws Error for a library, GPU, types or a layout without recordings, with what is legal, and
/// for a shape that was not recorded, with the nearest recorded ones.
LibraryChoice library_choice(const LibraryCall& call);

/// M of first..last for which the library takes one kernel.
struct [[nodiscard]] ChoiceRange {
  LibraryChoice choice = {};  // for `first` rows
  int64_t first = 1, last = 1;
  /// The number of the first range whose plan is equal: in both, a row of A gets the same bits. Empty without a plan,
  /// or if the plan's slices follow the tiles of the whole product: then bits change with M inside the range.
  std::optional<int> bits = {};
  std::string why = {};  // why there are none

  bool operator==(const ChoiceRange&) const = default;
};

/// The recorded choices for all M of the call's N and K; its m is not read. Throws Error as library_choice does.
std::vector<ChoiceRange> library_choices(const LibraryCall& call);

/// Types, shape, bias and scales of the product. Throws Error for inputs that no recorded call has: C, block scales.
LibraryCall call_of(const GemmInputs& inputs);

/// The plan of the kernel. Throws Error, which names the kernel, if no plan is known for it.
GemmPlan plan_of_choice(const LibraryChoice& choice, const GemmInputs& inputs);

}  // namespace bitmma
