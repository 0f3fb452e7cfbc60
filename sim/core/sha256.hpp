// SPDX-License-Identifier: MIT
// SHA-256, by which a file is named so that it cannot be changed unnoticed. `sha256sum FILE` gives the same.
// Source: FIPS 180-4.
#pragma once

#include <string>
#include <string_view>

namespace bitmma {

/// 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace bitmma
