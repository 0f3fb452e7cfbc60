// SPDX-License-Identifier: MIT
// The program as a process among others: process.cpp, or without_processes.cpp where the system has none.
#pragma once

namespace bitmma::cli {

/// At the start of the program: holds the descriptors of closed streams, lets signals remove unfinished files, and
/// keeps freed memory for the next case.
void prepare_process();

}  // namespace bitmma::cli
