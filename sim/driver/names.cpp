// SPDX-License-Identifier: MIT
// Functions by name, calls of those that bitmma does not have, and the report while the program runs.
#include "names.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "driver.hpp"

using namespace bitmma::driver;

namespace {

/// The newest symbol of this name that `version` has.
CUresult find(const char* name, void** address, int version, uint64_t flags, CUdriverProcAddressQueryResult* status) {
  if (!name || !address) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  bool is_known = false;
  *address = nullptr;
  for (const ApiSymbol& symbol :
       std::ranges::equal_range(api_symbols(), std::string_view(name), {}, &ApiSymbol::name)) {
    is_known = true;
    const bool is_per_thread = symbol.symbol.ends_with("_ptds") || symbol.symbol.ends_with("_ptsz");
    if (symbol.since <= version && (per_thread || !is_per_thread)) *address = symbol.address;
  }
  if (status)
    *status = *address   ? CU_GET_PROC_ADDRESS_SUCCESS
              : is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                         : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *address || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/// Whether code of the program itself has the address, not of one of its libraries.
bool is_of_program(const void* address) {
  Dl_info symbol{};
  void* object = nullptr;
  if (dladdr1(address, &symbol, &object, RTLD_DL_LINKMAP) == 0 || !object) return false;
  return static_cast<const link_map*>(object)->l_prev == nullptr;
}

void tell_of_private_functions() {
  Report::print(
      "the program asked for private functions of NVIDIA's driver, which bitmma does not have: the static CUDA runtime "
      "does. Link it with -cudart shared; kernels of CuPy and CuTe DSL run by bitmma.kernel");
}

/// Runs when the process ends that requested private functions; prints if it failed and launched no kernel.
void tell_if_failed(int status, void* process) {
  if (status == 0 || reinterpret_cast<intptr_t>(process) != getpid()) return;
  const std::unique_lock guard(detail::lock(), std::try_to_lock);
  const Driver* const driver = guard ? detail::initialised() : nullptr;
  if (!driver || !driver->report.has_launches()) tell_of_private_functions();
}

}  // namespace

extern "C" {

int bitmma_refuse_call(const char* symbol) {
  return in_driver([&](Driver& driver) {
    driver.report.add_refused_call(symbol);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

/// Writes the report so far (the JSON of --json) into text[bytes], shortened to fit and ended by 0, and returns the
/// bytes that all of it takes, without that 0. Returns 0 before cuInit. text may be nullptr if bytes is 0.
size_t bitmma_exec_report(char* text, size_t bytes) {
  std::string report;
  in_driver([&](Driver& driver) { report = driver.report.json(driver.gpu.device_name); });
  if (bytes > 0) {
    const size_t copied = std::min(report.size(), bytes - 1);
    std::memcpy(text, report.data(), copied);
    text[copied] = '\0';
  }
  return report.size();
}

CUresult cuGetProcAddress(const char* name, void** address, int version, uint64_t flags) {
  return find(name, address, version, flags, nullptr);
}

CUresult cuGetProcAddress_v2(const char* name, void** address, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return find(name, address, version, flags, status);
}

/// Tables of private functions, by which NVIDIA's static libraries also verify that the driver is NVIDIA's. bitmma has
/// none. A static runtime in the program itself cannot go on; libraries, such as those of cuda-python, often can.
CUresult cuGetExportTable(const void** table, const void*) {
  if (table) *table = nullptr;
  const std::lock_guard guard(detail::lock());
  static bool is_asked = false;
  if (std::exchange(is_asked, true)) return CUDA_ERROR_NOT_SUPPORTED;
  if (is_of_program(__builtin_return_address(0))) tell_of_private_functions();
  else on_exit(tell_if_failed, reinterpret_cast<void*>(intptr_t{getpid()}));
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
