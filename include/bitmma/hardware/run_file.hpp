// Vector files on a GPU: the same file with what the GPU computed.
#pragma once

#include <string>

#include "bitmma/files/vector_file.hpp"
#include "bitmma/hardware/device.hpp"

namespace bitmma {

/// `vectors` with the results of `execute`, and `source` as who computed them. Cases of the same instruction and
/// immediates go in one call. A file of logical matrices alone gets its states, laid out as by default.
TensorFile run_file(const VectorFile& vectors, const Executor& execute, std::string source);

/// The same on a GPU, whose name and provenance the file keeps.
TensorFile run_file(const VectorFile& vectors, const Gpu& gpu);

}  // namespace bitmma
