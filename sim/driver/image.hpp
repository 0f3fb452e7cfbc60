// SPDX-License-Identifier: MIT
// The PTX in what programs hand the driver as code: text, a fat binary, or nvcc's wrapper of fat binaries.
//
//   wrapper  magic 0x466243b1 u32, version u32, container*, containers** (of version 2, from -rdc=true, up to a null)
//
// Source: the section .nvFatBinSegment of programs that nvcc 13.0 built; no document describes it.
#pragma once

#include <string>

#include "bitmma/core/target.hpp"

namespace bitmma::driver {

/// The PTX of an image for `device`: text up to its zero byte, that of a container or of a wrapper, whose containers
/// are joined. No length comes with the pointer, so that of a container's header is trusted. Throws Error as fatbin_ptx
/// does, and for a cubin.
std::string ptx_of_image(const void* image, Target device);

}  // namespace bitmma::driver
