// SPDX-License-Identifier: MIT
// The recorded choices of data/choices, whose README explains the files: a table of pairs (N, K) of open models, one of
// their gradients, a grid of N and K in steps of 64, and batches of products of attention.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bitmma {

/// From this M (of gradients: K) on the library takes this kernel.
struct ChoiceRun {
  int32_t m = 0;
  uint32_t kernel = 0;  // from number 1 on; 0: nothing was recorded

  bool operator==(const ChoiceRun&) const = default;
};
/// The last run ends the list.
using ChoiceRuns = std::span<const ChoiceRun>;

/// The kernel from `m` rows on; null if that many were not recorded.
const ChoiceRun* run_at(ChoiceRuns runs, int64_t m);

struct ChoiceKernel {
  std::string names = {};  // of the call's kernels, joined by " + "
  int slices = 0;
};

/// The table of pairs. Calls of a kind and layout that only a grid has are in it, of each GPU, without runs.
struct ChoiceTable {
  struct Call {
    std::string gpu = {}, kind = {}, layout = {};
    std::vector<size_t> lists = {};  // of each pair, its runs; 0: none
  };

  std::vector<std::pair<int64_t, int64_t>> pairs = {};  // (N, K)
  std::vector<ChoiceKernel> kernels = {};
  std::vector<std::vector<ChoiceRun>> lists = {};
  std::vector<Call> calls = {};

  /// Null if no call of the kind and layout was recorded on the GPU.
  const Call* find(std::string_view gpu, std::string_view kind, std::string_view layout) const;

  static const ChoiceTable& get();
  /// Gradients of weights, in layout tn: pairs are (M, N), and runs are of K, the number of rows of a batch.
  static const ChoiceTable& by_k();
};

/// A grid of one GPU, kind of call and layout.
class ChoiceGrid {
 public:
  static constexpr int64_t step = 64, steps = 256, most_m = 16384;

  /// Null if none was recorded. The first call for each decodes it.
  static const ChoiceGrid* find(std::string_view gpu, std::string_view kind, std::string_view layout);

  static bool has(int64_t n, int64_t k) {
    return n >= step && k >= step && n <= step * steps && k <= step * steps && n % step == 0 && k % step == 0;
  }
  /// The runs of a pair that the grid has.
  ChoiceRuns runs(int64_t n, int64_t k) const;
  static const ChoiceKernel& kernel(uint32_t number);

  ChoiceGrid(std::string_view decisions, std::string_view numbers);

 private:
  struct Part {
    uint32_t begin = 0, count = 0;
  };

  std::vector<ChoiceRun> runs_ = {};
  std::vector<Part> parts_ = {};  // of each pair, rows of N
};

/// Batches of products of attention: scores have (M, N, K) = (queries, keys, head), products with the values
/// (queries, head, keys), and their gradients in layout tn (keys, head, queries).
class ChoiceBatches {
 public:
  static constexpr int64_t most_matrices = 1024, most_bytes = int64_t{1} << 30;  // of an operand or D

  static const ChoiceBatches& get();

  /// Null if the shape was not recorded, or not with so many matrices. `bytes`: of an element.
  const ChoiceKernel* find(std::string_view gpu, std::string_view kind, std::string_view layout, int64_t m, int64_t n,
                           int64_t k, int64_t matrices, int bytes) const;
  /// Whether calls of the kind and layout were recorded on the GPU.
  bool has(std::string_view gpu, std::string_view kind, std::string_view layout) const;
  const std::vector<int64_t>& heads() const { return heads_; }

 private:
  struct Row {
    std::string_view gpu, kind, layout, part;
    std::vector<uint32_t> ends = {}, lists = {};  // of each run of equal lists, the index behind it, and the list
  };

  explicit ChoiceBatches(std::string_view text);

  std::vector<ChoiceKernel> kernels_ = {};
  std::vector<int64_t> heads_ = {};
  std::map<std::pair<int64_t, int64_t>, size_t> pairs_ = {};  // (queries, keys) -> number
  std::vector<std::vector<ChoiceRun>> lists_ = {};            // runs of the number of matrices
  std::vector<Row> rows_ = {};
};

}  // namespace bitmma
