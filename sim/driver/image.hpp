// SPDX-License-Identifier: MIT
// The PTX in what programs hand the driver as code.
#pragma once

#include <span>
#include <string>

namespace bitmma::driver {

/// The PTX of an image: text that ends with a zero. Throws Error with ViolationCode::missing_input for one without PTX,
/// such as a cubin.
std::string ptx_of_image(const void* image);

/// Several modules as one text, which the driver's linker makes of them: the header of the first, then what each has
/// behind its own.
std::string joined_ptx(std::span<const std::string> modules);

}  // namespace bitmma::driver
