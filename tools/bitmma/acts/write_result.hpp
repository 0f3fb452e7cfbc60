// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/format.h>

#include <string>

#include "bitmma/analysis/report.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// Writes the result of a verb, after all flags acted, and adds the file's name to the report.
inline void write_result(const Context& context, const std::string& path, const TensorFile& result, Report& report) {
  context.require_flags_acted();
  write_tensor_file(path, result);
  report.add("written", path);
  report.add_text(fmt::format("wrote {}", path));
}

}  // namespace bitmma::cli
