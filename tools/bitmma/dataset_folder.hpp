// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace bitmma::cli {

/// The folder of the datasets: beside the program in a build, in share where it is installed, or that of the Python
/// package that pip installs with the program. Empty if none of these exists.
std::string dataset_folder();

}  // namespace bitmma::cli
