// SPDX-License-Identifier: MIT
// Several PTX modules as one, as nvlink and cuLinkComplete join them.
//
//   a: .extern .func (.param .b32 r) f (.param .b32 x);   .visible .entry k() { ... call (r), f, (x); ... }
//   b: .visible .func (.param .b32 r) f (.param .b32 x) { ... }
//   joined: b's f, then a's k
#pragma once

#include <string>
#include <vector>

namespace bitmma::driver {

/// One header, with the highest .version and the first module's .target, then the statements of all modules, each name
/// once: a definition rather than a declaration, and of several the first. Variables precede functions. Sections of
/// debug information are left out.
std::string join_ptx(const std::vector<std::string>& modules);

}  // namespace bitmma::driver
