// SPDX-License-Identifier: MIT
// D of the cases of a file: shown, or written beside the inputs; on the file's GPU, and on another one beside it.
//
//   const SimulatedFile simulated = simulate_file(read_tensor_file("cases.safetensors"));
//   print(describe(simulated, {.index = 0}).report);
//   write_simulation(simulated, {.path = "out.safetensors"});
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/analysis/describe_simulation.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/files/recorded_d.hpp"

namespace bitmma {

struct SimulateRequest {
  VectorFileDefaults file = {};  // a target other than the file's: its operands are computed on that GPU, too
  std::string after = {};        // path of a file with results: start from the state after its instruction
  Placement placement = {};      // of the steps of K loops
  int threads = 1;
};

/// What is computed of a file. Plain matrices with K of several instructions, and M and N of one, are unrolled to steps
/// with states; those with M and N of several instructions stay tiles.
struct [[nodiscard]] SimulatedFile {
  VectorFile file = {};                      // or the steps of its K loops
  std::optional<VectorFile> loops = {};      // the file before its K loops were unrolled
  std::optional<VectorFile> on_target = {};  // the same operands, without results, on the GPU of the request

  /// The file whose D is written.
  const VectorFile& output() const { return on_target ? *on_target : file; }
  /// The file whose D is recorded, if one is.
  const VectorFile& recorded() const { return loops ? *loops : file; }
};

/// Throws Error as as_tiled_file, unroll_k, after and require_consistent do. Warns of results that belong to another
/// initial state than that of `after`, and of a converted d.
SimulatedFile simulate_file(TensorFile file, const SimulateRequest& request = {}, const FileEvents& events = {});

/// Which layouts act, and why the others do not: without images none is placed.
LayoutUse layouts_used(const SimulatedFile& simulated, bool makes_images);

/// Compares the recorded D of all cases with the computed one; nothing if none is recorded.
std::optional<Comparison> compare_recorded(const SimulatedFile& simulated, int threads = 1,
                                           const Progress& progress = {});

struct ShownCase {
  std::optional<int64_t> index = {};  // default: 0, or the last step of a K loop
  ShownD d = {};
  int threads = 1;
};

struct [[nodiscard]] SimulationReport {
  /// As of describe() for a case, "recorded" if a D is recorded, and "on_target" and "between_targets" for two GPUs.
  Report report = {};
  std::vector<Violation> warnings = {};     // of the shown cases
  std::optional<Comparison> recorded = {};  // as compare_recorded
  std::optional<Comparison> targets = {};   // D on the two GPUs, if another one is requested
};

/// Throws Error (field case) if the file has no such case.
SimulationReport describe(const SimulatedFile& simulated, const ShownCase& shown = {}, const Progress& progress = {});

struct SimulationOutput {
  std::string path = {};
  Placement placement = {};  // of files with only plain matrices
  int threads = 1;
  bool replaces_d = false;  // a recorded D that differs, and a file at `path` with a D that is not this program's
  std::function<void(const VectorFile&)> before_writing = {};
};

struct [[nodiscard]] WrittenSimulation {
  std::optional<Comparison> recorded = {};
  bool is_written = false;
};

/// Writes D beside the inputs; nothing if the recorded D differs and may not be replaced. Throws Error (code
/// would_replace) for a file at the path that may not be replaced. Warns of the first case.
WrittenSimulation write_simulation(const SimulatedFile& simulated, const SimulationOutput& output,
                                   const FileEvents& events = {});

/// Adds the findings of lint() about a file, on the target of `defaults` if it names another one, to the list: {"file",
/// "target", "cases"} with the finding. True if there is one. Throws Error as as_vector_file does.
bool lint_file(TensorFile file, const VectorFileDefaults& defaults, Report& list);

}  // namespace bitmma
