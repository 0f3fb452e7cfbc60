// Everything about a case that is legal but suspicious, with the reason and the likely fix.
#pragma once

#include <cstdint>
#include <vector>

#include "bitmma/io/vector_file.hpp"

namespace bitmma {

/// What descriptors, metadata and copies say (warnings_at), and what the bytes show: rows that share bytes, bytes that
/// both operands read, reads past the image, strides that change nothing, NaN and infinity among the operands, scales
/// that are NaN or all subnormal. Nothing throws for what it reports.
std::vector<Violation> lint(const VectorFile& vectors, int64_t index);

}  // namespace bitmma
