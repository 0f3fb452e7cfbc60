// SPDX-License-Identifier: MIT
// Records launches in the form of bitmma/acts/launch_file.hpp: `bitmma verify FILE` runs them again, and files of a GPU
// have the same form.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../core/json.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "bitmma/kernel/memory.hpp"

namespace bitmma::driver {

class Recorder {
 public:
  /// Keeps what a launch begins with. A launch that the form cannot express is only counted: one with addresses in a
  /// structure, with a tensor map, a texture or a surface, or of a module with variables.
  void begin(const std::string& ptx, const PtxModule& module, const PtxEntryInfo& entry, const Launch& launch);
  /// Keeps what it has changed; `is_done`: it had no fault.
  void end(const Memory& memory, bool is_done);
  /// Writes the file, if there is a launch.
  void write(const std::string& path, Target target);

 private:
  struct Pending {
    Json json = {};
    std::vector<Allocation> memories = {};
    std::vector<std::vector<uint8_t>> before = {};
  };
  bool take(const PtxEntryInfo& entry, const Launch& launch, Pending& pending) const;

  std::map<std::string, size_t> modules_ = {};  // texts, and their numbers
  Json launches_ = Json::array();
  TensorFile file_ = {};
  std::optional<Pending> pending_ = {};
  uint64_t bytes_ = 0;
  int missing_ = 0;
};

}  // namespace bitmma::driver
