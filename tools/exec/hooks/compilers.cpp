// SPDX-License-Identifier: MIT
// libbitmma_preload.so, preloaded: the compilers that a program calls in its own process, NVRTC and nvJitLink, give PTX
// where it asks for a cubin. Programs and Python's bindings get their functions by dlsym, which this library
// interposes; what it calls of theirs is their documented interface.
//
//   nvrtcGetCUBIN(program, image)     the text of nvrtcGetPTX
//   nvJitLinkCreate(..., {"-lto"})    nvJitLinkCreate(..., {"-lto", "-ptx"})
//   nvJitLinkGetLinkedCubin(...)      with -lto the text of nvJitLinkGetLinkedPtx, otherwise the PTX inputs, joined
//   nvFatbinAddCubin(..., PTX, ...)   nvFatbinAddPTX(..., PTX, ...)
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "driver/link_ptx.hpp"

namespace {

using Handle = void*;

using Dlsym = void* (*)(void*, const char*);
Dlsym next_dlsym() {
  // The C library's own, by one of the versions that x86-64 and 64-bit ARM have.
  static const auto next = [] {
    for (const char* const version : {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"}) {
      if (void* const found = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Dlsym>(found);
    }
    return Dlsym{};
  }();
  return next;
}

/// The library whose functions the program uses: that of its last dlsym, or the next after this one.
void* nvrtc = RTLD_NEXT;
void* nvjitlink = RTLD_NEXT;
void* nvfatbin = RTLD_NEXT;

template <typename... Arguments>
int call(void* library, const char* name, Arguments... arguments) {
  constexpr int internal_error = 6;  // NVJITLINK_ERROR_INTERNAL; NVRTC_ERROR_COMPILATION
  const auto function = reinterpret_cast<int (*)(Arguments...)>(next_dlsym()(library, name));
  return function ? function(arguments...) : internal_error;
}

// A linker's handle, with what became of its inputs.
struct Link {
  bool is_lto = false, has_other_input = false;
  std::vector<std::string> ptx = {};
};
std::mutex links_mutex;
std::map<Handle, Link>& links() {
  static auto& made = *new std::map<Handle, Link>;  // used until the process ends
  return made;
}

enum InputType : int { input_cubin = 1, input_ptx = 2, input_lto_ir = 3, input_any = 10 };

bool has_ptx(std::string_view data) { return data.find(".version") < std::min<std::size_t>(data.size(), 4096); }
bool is_ptx(int type, std::string_view data) {
  return type == input_ptx || ((type == input_any || type == input_cubin) && has_ptx(data));
}

int link_create(Handle* handle, unsigned count, const char** options) {
  std::vector<const char*> all(options, options + count);
  const auto has = [&](std::string_view option) { return std::ranges::find(all, option) != all.end(); };
  const bool is_lto = has("-lto") && !has("-ptx");
  if (is_lto) all.push_back("-ptx");
  const int code = call(nvjitlink, "nvJitLinkCreate", handle, static_cast<unsigned>(all.size()), all.data());
  const std::lock_guard lock(links_mutex);
  if (code == 0) links()[*handle] = {.is_lto = is_lto};
  return code;
}

int link_add_data(Handle handle, int type, const void* data, std::size_t bytes, const char* name) {
  {
    const std::lock_guard lock(links_mutex);
    Link& link = links()[handle];
    const std::string_view text(static_cast<const char*>(data), bytes);
    if (is_ptx(type, text)) {
      link.ptx.emplace_back(text.substr(0, text.find('\0')));
      if (link.is_lto) return 0;  // -ptx takes no input but LTO IR
      type = input_ptx;
    } else if (link.is_lto && type != input_lto_ir && type != input_any) {
      // A library of SASS, as libcudadevrt: a kernel that calls what only it has is refused by the name of the
      // function.
      return 0;
    } else {
      link.has_other_input = true;
    }
  }
  return call(nvjitlink, "nvJitLinkAddData", handle, type, data, bytes, name);
}

int link_add_file(Handle handle, int type, const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return call(nvjitlink, "nvJitLinkAddFile", handle, type, path);  // it says what is wrong
  const std::string data{std::istreambuf_iterator<char>(file), {}};
  return link_add_data(handle, type, data.data(), data.size(), path);
}

int link_complete(Handle handle) {
  {
    const std::lock_guard lock(links_mutex);
    const Link& link = links()[handle];
    if (link.is_lto && !link.has_other_input) return 0;
  }
  return call(nvjitlink, "nvJitLinkComplete", handle);
}

/// What the link gives for a cubin, with a zero at its end; a real cubin if no input was PTX.
int linked(Handle handle, std::string& image) {
  const std::lock_guard lock(links_mutex);
  const Link& link = links()[handle];
  std::vector<std::string> modules = link.ptx;
  if (link.has_other_input && (link.is_lto || modules.empty())) {
    const std::string name = link.is_lto ? "nvJitLinkGetLinkedPtx" : "nvJitLinkGetLinkedCubin";
    std::size_t bytes = 0;
    if (const int code = call(nvjitlink, (name + "Size").c_str(), handle, &bytes); code != 0) return code;
    std::string text(bytes, '\0');
    if (const int code = call(nvjitlink, name.c_str(), handle, static_cast<void*>(text.data())); code != 0) return code;
    if (!link.is_lto) {
      image = std::move(text);
      return 0;
    }
    modules.insert(modules.begin(), text.substr(0, text.find('\0')));
  }
  image = modules.size() == 1 ? modules.front() : bitmma::driver::join_ptx(modules);
  image += '\0';
  return 0;
}
int link_cubin_size(Handle handle, std::size_t* bytes) {
  std::string image;
  const int code = linked(handle, image);
  *bytes = image.size();
  return code;
}
int link_cubin(Handle handle, void* cubin) {
  std::string image;
  const int code = linked(handle, image);
  std::ranges::copy(image, static_cast<char*>(cubin));
  return code;
}
int link_destroy(Handle* handle) {
  {
    const std::lock_guard lock(links_mutex);
    links().erase(*handle);
  }
  return call(nvjitlink, "nvJitLinkDestroy", handle);
}

/// What NVRTC and nvJitLink have given for a cubin goes into the fat binary as what it is.
int fatbin_add_cubin(Handle handle, const void* code, std::size_t bytes, const char* arch, const char* name) {
  if (has_ptx({static_cast<const char*>(code), bytes}))
    return call(nvfatbin, "nvFatbinAddPTX", handle, code, bytes, arch, name, static_cast<const char*>(nullptr));
  return call(nvfatbin, "nvFatbinAddCubin", handle, code, bytes, arch, name);
}

}  // namespace

extern "C" {

// Exported, for programs that are linked with NVRTC.
int nvrtcGetCUBINSize(Handle program, std::size_t* bytes) { return call(nvrtc, "nvrtcGetPTXSize", program, bytes); }
int nvrtcGetCUBIN(Handle program, char* cubin) { return call(nvrtc, "nvrtcGetPTX", program, cubin); }

void* dlsym(void* handle, const char* name) noexcept;
}

namespace {

struct Hook {
  std::string_view name;
  void* function;
  void** library;
};
const Hook hooks[] = {
    {"nvrtcGetCUBINSize", reinterpret_cast<void*>(&nvrtcGetCUBINSize), &nvrtc},
    {"nvrtcGetCUBIN", reinterpret_cast<void*>(&nvrtcGetCUBIN), &nvrtc},
    {"nvJitLinkCreate", reinterpret_cast<void*>(&link_create), &nvjitlink},
    {"nvJitLinkAddData", reinterpret_cast<void*>(&link_add_data), &nvjitlink},
    {"nvJitLinkAddFile", reinterpret_cast<void*>(&link_add_file), &nvjitlink},
    {"nvJitLinkComplete", reinterpret_cast<void*>(&link_complete), &nvjitlink},
    {"nvJitLinkGetLinkedCubinSize", reinterpret_cast<void*>(&link_cubin_size), &nvjitlink},
    {"nvJitLinkGetLinkedCubin", reinterpret_cast<void*>(&link_cubin), &nvjitlink},
    {"nvJitLinkDestroy", reinterpret_cast<void*>(&link_destroy), &nvjitlink},
    {"nvFatbinAddCubin", reinterpret_cast<void*>(&fatbin_add_cubin), &nvfatbin},
};

/// The hook of a name. The header nvJitLink.h calls __nvJitLinkCreate_13_0, bindings nvJitLinkCreate.
const Hook* find_hook(std::string_view name) {
  if (name.starts_with("__nvJitLink")) name = name.substr(2, name.find('_', 2) - 2);
  const auto* const hook = std::ranges::find(hooks, name, &Hook::name);
  return hook == std::end(hooks) ? nullptr : hook;
}

}  // namespace

// The last call is a jump (-foptimize-sibling-calls): the C library takes RTLD_NEXT from the address that it returns
// to.
void* dlsym(void* handle, const char* name) noexcept {
  if (name[0] == 'n' || name[0] == '_') {
    if (const Hook* const hook = find_hook(name); hook && next_dlsym()(handle, name)) {
      *hook->library = handle;
      return hook->function;
    }
  }
  return next_dlsym()(handle, name);
}
