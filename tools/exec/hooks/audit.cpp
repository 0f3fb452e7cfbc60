// SPDX-License-Identifier: MIT
// libbitmma_audit.so, an auditor of the dynamic linker (LD_AUDIT): wherever a program looks for CUDA's driver or
// runtime library, by name, by an absolute path or by the RPATH of a wheel, it gets bitmma's from the folder of this
// library.
//
// It is loaded into a namespace of its own, before all else, so that it uses C alone. Source: rtld-audit(7).
#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace {

constexpr const char* replaced[] = {"libcuda.so", "libcuda.so.1", "libcudart.so.12", "libcudart.so.13"};

/// The path of bitmma's library of this file name, which lasts; nullptr if it has none.
const char* replacement(const char* file) {
  static char paths[std::size(replaced)][4096];
  for (std::size_t i = 0; i < std::size(replaced); ++i) {
    if (std::strcmp(file, replaced[i]) != 0) continue;
    Dl_info own{};
    if (!dladdr(reinterpret_cast<void*>(&replacement), &own) || !own.dli_fname) return nullptr;
    const char* const slash = std::strrchr(own.dli_fname, '/');
    if (!slash) return nullptr;
    const char* const name = i == 0 ? replaced[1] : replaced[i];
    const int folder_bytes = static_cast<int>(slash - own.dli_fname);
    const int written = std::snprintf(paths[i], sizeof paths[i], "%.*s/%s", folder_bytes, own.dli_fname, name);
    return written > 0 && written < static_cast<int>(sizeof paths[i]) ? paths[i] : nullptr;
  }
  return nullptr;
}

}  // namespace

extern "C" {

unsigned la_version(unsigned version) { return version < LAV_CURRENT ? version : LAV_CURRENT; }

char* la_objsearch(const char* name, std::uintptr_t*, unsigned) {
  const char* const slash = std::strrchr(name, '/');
  const char* const path = replacement(slash ? slash + 1 : name);
  return const_cast<char*>(path ? path : name);
}
}
