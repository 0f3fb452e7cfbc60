// SPDX-License-Identifier: MIT
// What a module needs to be loaded as it stands: PTX for older GPUs, and calls of CUDA's device runtime.
#pragma once

#include <string>

namespace bitmma::driver {

/// The module with .target sm_70 in place of a GPU's before it, which runs on all later ones but is no target of
/// bitmma.
std::string with_known_target(std::string ptx);

/// The module with the functions of libcudadevrt that it calls and does not define: the barrier of a cooperative grid
/// (cudaCGGetIntrinsicHandle, cudaCGSynchronize) and the condition of a graph (cudaGraphSetConditional). NVIDIA's
/// library has no PTX for Hopper.
std::string with_device_runtime(std::string ptx);

}  // namespace bitmma::driver
