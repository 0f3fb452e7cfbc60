// The functions of NVRTC and nvJitLink that the hooks of tools/exec call, each with a result that tells what was
// called.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace {

std::string linked;
int give(std::string text, std::size_t* bytes, char* to) {
  text += '\0';
  if (bytes) *bytes = text.size();
  if (to) std::memcpy(to, text.data(), text.size());
  return 0;
}

}  // namespace

extern "C" {

int nvrtcGetPTXSize(void*, std::size_t* bytes) { return give("PTX of NVRTC", bytes, nullptr); }
int nvrtcGetPTX(void*, char* ptx) { return give("PTX of NVRTC", nullptr, ptx); }
int nvrtcGetCUBINSize(void*, std::size_t* bytes) { return give("cubin", bytes, nullptr); }
int nvrtcGetCUBIN(void*, char* cubin) { return give("cubin", nullptr, cubin); }

int nvJitLinkCreate(void** handle, uint32_t count, const char** options) {
  *handle = &linked;
  linked = "//";
  for (uint32_t i = 0; i < count; ++i) linked += std::string(" ") + options[i];
  return 0;
}
int nvJitLinkAddData(void*, int type, const void*, std::size_t, const char*) {
  linked += " input" + std::to_string(type);
  return 0;
}
int nvJitLinkComplete(void*) { return linked.ends_with(" input1") ? 5 : 0; }
int nvJitLinkGetLinkedCubinSize(void*, std::size_t* bytes) { return give("cubin", bytes, nullptr); }
int nvJitLinkGetLinkedCubin(void*, void* cubin) { return give("cubin", nullptr, static_cast<char*>(cubin)); }
int nvJitLinkGetLinkedPtxSize(void*, std::size_t* bytes) { return give(linked, bytes, nullptr); }
int nvJitLinkGetLinkedPtx(void*, char* ptx) { return give(linked, nullptr, ptx); }
int nvJitLinkDestroy(void** handle) {
  *handle = nullptr;
  return 0;
}
int nvFatbinAddPTX(void*, const void*, std::size_t, const char*, const char*, const char*) { return 'P'; }
int nvFatbinAddCubin(void*, const void*, std::size_t, const char*, const char*) { return 'C'; }
int nvJitLinkVersion(unsigned* major, unsigned* minor) {
  *major = 13, *minor = 0;
  return 0;
}
}
