// SPDX-License-Identifier: MIT
// SHA-256. A file's hash serves as its name, so that every change is noticed. `sha256sum FILE` gives the same. Source:
// FIPS 180-4.
#pragma once

#include <string>
#include <string_view>

namespace bitmma {

/// 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace bitmma
