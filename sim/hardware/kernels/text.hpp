// SPDX-License-Identifier: MIT
// Pieces of PTX that kernels of several families share.
#pragma once

#include <string>
#include <string_view>

#include "kernels.hpp"

namespace bitmma::kernels {

/// "{d0, d1, d2}".
std::string register_list(std::string_view prefix, int count);

/// The number of registers of the statement's operand `name`, 0 if it has no such operand.
int registers_of(const Statement& statement, std::string_view name);

/// The entry with its parameters, up to the closing parenthesis.
std::string entry_text(const Kernel& kernel);

/// Puts the address of the image into `base`: the first 1024-byte boundary of dynamic shared memory.
std::string align_image();

/// Copies the image, 16 bytes per thread and iteration; register `index` counts images.
std::string copy_image(std::string_view index, int64_t stride);

/// Loads or stores registers prefix0, prefix1 ... of this thread, beginning at `pointer`.
std::string load_lines(std::string_view prefix, std::string_view type, int count, int bytes = 4);
std::string store_lines(std::string_view prefix, std::string_view type, int count, int bytes = 4);

/// The same from and to a [cases, threads, count] parameter, indexed by `flat_thread`.
std::string load_registers(std::string_view parameter, std::string_view prefix, std::string_view type, int count,
                           int bytes = 4);
std::string store_registers(std::string_view parameter, std::string_view prefix, std::string_view type, int count,
                            int bytes = 4);

}  // namespace bitmma::kernels
