// SPDX-License-Identifier: MIT
// Modules, libraries, their functions and variables; the driver's linker.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "bitmma/core/text.hpp"
#include "device_runtime.hpp"
#include "driver.hpp"
#include "fatbin.hpp"
#include "image.hpp"
#include "link_ptx.hpp"

namespace bitmma::driver {

void JitLog::write(std::string_view text) const {
  char* buffer = nullptr;
  void** size = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) size = &values[i];
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) values[i] = nullptr;
  }
  if (!buffer || !size) return;
  // The size of the buffer, then that of the text in it.
  const auto room = reinterpret_cast<uintptr_t>(*size);
  if (room == 0) return;
  const size_t written = text.copy(buffer, room - 1);
  buffer[written] = '\0';
  if (written > 0) *size = reinterpret_cast<void*>(written);
}

Module& Driver::load(const void* image, Context* context, JitLog log) {
  require_pointer(image);
  log.write("");
  try {
    return load_text(ptx_of_image(image, gpu.target), context);
  } catch (const Error& error) {
    log.write(error.what());
    report.print_once(fmt::format("a module is not loaded: {}", error.what()));
    throw Failure{error.violations().front().code == ViolationCode::unsupported_target ? CUDA_ERROR_NO_BINARY_FOR_GPU
                  : error.violations().front().code == ViolationCode::missing_input    ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                                                       : CUDA_ERROR_INVALID_PTX};
  }
}

Module& Driver::load_text(std::string ptx, Context* context) {
  ptx = with_device_runtime(with_known_target(std::move(ptx)));
  PtxModule parsed(ptx);
  if (!runs_on(parsed.target(), gpu.target))
    throw Error({.code = ViolationCode::unsupported_target,
                 .field = ".target",
                 .seen = std::string(print(parsed.target())),
                 .expected = fmt::format("PTX that runs on {}", print(gpu.target))});
  auto loaded = std::make_unique<Module>(Module{.ptx = std::move(parsed), .context = context});
  loaded->text = std::move(ptx);
  Module& module = modules.add(std::move(loaded));
  for (const PtxEntryInfo& info : module.ptx.entries()) {
    auto function = std::make_unique<Function>();
    function->module = &module;
    function->info = info;
    functions.insert(function.get());
    module.functions.emplace(info.name, std::move(function));
  }
  return module;
}

void Driver::unload(Module& module) {
  for (const auto& [name, function] : module.functions) functions.erase(function.get());
  for (const auto& [name, constant] : module.constants) free(blocks.at(constant.address));
  memory.unload(module.ptx);
  modules.remove(module);
}

const PtxEntry& decoded(Driver& driver, Function& function) {
  if (function.decoded) return *function.decoded;
  // The first line of what `ptxas` of tools/exec/hooks writes, if the program wants -fmad=false.
  const bool fmad = !function.module->text.starts_with("// ptxas --fmad=false");
  try {
    function.decoded.emplace(function.module->ptx,
                             KernelOptions{.entry = function.info.name, .target = driver.gpu.target, .fmad = fmad});
  } catch (const Error& error) {
    driver.report.add_fault(function.info.name, error.violations(), CUDA_ERROR_NOT_SUPPORTED);
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  }
  for (const Violation& warning : kernel_warnings(*function.decoded))
    driver.report.add_uncertainty(function.info.name, warning);
  const std::string_view varying = function.decoded->varying_register();
  if (!varying.empty() && !driver.settings.clock)
    driver.report.add_uncertainty(
        function.info.name,
        {.code = ViolationCode::undefined_by_ptx,
         .field = std::string(varying),
         .seen = "a value that varies from run to run on a GPU",
         .expected = "one that is the same in every run: clocks begin at 0 in each warp and count its instructions",
         .fix = "--clock 0 says that this is meant",
         .severity = Severity::warning});
  return *function.decoded;
}

int function_attribute(Driver& driver, Function& function, CUfunction_attribute attribute) {
  const auto set = function.attributes.find(attribute);
  if (set != function.attributes.end()) return set->second;
  const PtxEntryInfo& info = function.info;
  const auto product = [](const std::vector<int64_t>& extents) {
    int64_t all = 1;
    for (const int64_t extent : extents) all *= extent;
    return static_cast<int>(all);
  };
  const auto cluster = [&](size_t i) {
    return i < info.required_cluster.size() ? static_cast<int>(info.required_cluster[i]) : 0;
  };
  const TargetInfo& target = bitmma::info(driver.gpu.target);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return !info.required_block.empty() ? product(info.required_block)
             : !info.most_block.empty()   ? product(info.most_block)
                                          : 1024;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return static_cast<int>(decoded(driver, function).shared_bytes());
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
      int64_t bytes = 0;
      for (const PtxVariable& variable : function.module->ptx.variables())
        bytes += variable.space == "const" ? variable.bytes : 0;
      return static_cast<int>(bytes);
    }
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return static_cast<int>(decoded(driver, function).local_bytes());
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return 32;  // ptxas allocates registers: bitmma does not know how many
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: {
      int digits = 0;
      for (const char c : target.name) digits = c >= '0' && c <= '9' ? 10 * digits + (c - '0') : digits;
      return digits;
    }
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: return 0;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return std::max(*bitmma::driver::attribute(driver.gpu, shared_of_block) -
                          static_cast<int>(decoded(driver, function).shared_bytes()),
                      0);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return -1;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: return info.required_cluster.empty() ? 0 : 1;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return cluster(0);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return cluster(1);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return cluster(2);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return 0;
  }
  throw Failure{CUDA_ERROR_INVALID_VALUE};
}

namespace {

void get_function(Driver& driver, Function** function, Module* module, const char* name) {
  require_pointer(function), require_pointer(name);
  const auto& functions = driver.modules.at(module).functions;
  const auto entry = functions.find(name);
  require(entry != functions.end(), CUDA_ERROR_NOT_FOUND);
  *function = entry->second.get();
}

/// `is_managed`: the program uses it on the host too.
void get_variable(Driver& driver, CUdeviceptr* address, size_t* bytes, Module* handle, const char* name,
                  bool is_managed = false) {
  require_pointer(name);
  Module& module = driver.modules.at(handle);
  Allocation variable;
  try {
    variable = driver.memory.variable(module.ptx, name);
  } catch (const Error&) {
    throw Failure{CUDA_ERROR_NOT_FOUND};
  }
  const std::vector<PtxVariable> variables = module.ptx.variables();
  const auto declared = std::ranges::find(variables, name, &PtxVariable::name);
  if (is_managed || (declared != variables.end() && declared->space == "const")) {
    // Constants of all modules have the same addresses: the program gets those of their bytes on the host, which
    // kernels may use too.
    const auto place = module.constants.find(name);
    if (place == module.constants.end()) {
      variable.address = reinterpret_cast<uint64_t>(variable.data.data());
      driver.add_block({.address = variable.address,
                        .bytes = variable.data.size(),
                        .kind = is_managed ? Block::Kind::managed : Block::Kind::constant},
                       true, variable.name);
      module.constants.emplace(name, variable);
    } else {
      variable = place->second;
    }
  }
  if (address) *address = variable.address;
  if (bytes) *bytes = static_cast<size_t>(variable.bytes);
}

std::string text_of_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Handle>
CUresult list_functions(Handle* to, unsigned count, Module* module) {
  return in_driver([&](Driver& driver) {
    require_pointer(to);
    unsigned i = 0;
    for (const auto& [name, function] : driver.modules.at(module).functions) {
      if (i < count) to[i++] = function.get();
    }
  });
}

CUresult count_functions(unsigned* count, Module* module) {
  return in_driver([&](Driver& driver) {
    require_pointer(count);
    *count = static_cast<unsigned>(driver.modules.at(module).functions.size());
  });
}

CUresult name_of(const char** name, Function* function) {
  return in_driver([&](Driver& driver) {
    require_pointer(name), require_pointer(function);
    *name = driver.function(function).info.name.c_str();
  });
}

CUresult parameter_of(Function* function, size_t index, size_t* offset, size_t* bytes) {
  return in_context([&](Driver& driver, Context&) {
    const std::vector<PtxParameter>& parameters = driver.function(function).info.parameters;
    require_pointer(offset);
    require(index < parameters.size(), CUDA_ERROR_INVALID_VALUE);
    *offset = static_cast<size_t>(parameters[index].offset);
    if (bytes) *bytes = static_cast<size_t>(parameters[index].bytes);
  });
}

CUresult get_attribute(int* value, CUfunction_attribute attribute, Function* function) {
  return in_driver([&](Driver& driver) {
    require_pointer(value);
    *value = function_attribute(driver, driver.function(function), attribute);
  });
}

CUresult set_attribute(Function* handle, CUfunction_attribute attribute, int value) {
  return in_driver([&](Driver& driver) {
    Function& function = driver.function(handle);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
      require(value >= 0 && value + function_attribute(driver, function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) <=
                                *bitmma::driver::attribute(driver.gpu, shared_of_block_optin),
              CUDA_ERROR_INVALID_VALUE);
    else
      require(attribute >= CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
                  attribute <= CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
              CUDA_ERROR_INVALID_VALUE);
    function.attributes[attribute] = value;
  });
}

}  // namespace
}  // namespace bitmma::driver

using namespace bitmma::driver;

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(module);
    *module = &driver.load(image, &context);
  });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(module);
    *module = &driver.load(image, &context, {count, options, values});
  });
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(module), require_pointer(path);
    *module = &driver.load(text_of_file(path).c_str(), &context);
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return in_driver([&](Driver& driver) { driver.unload(driver.modules.at(module)); });
}

CUresult cuModuleGetLoadingMode(int* mode) {
  return in_driver([&](Driver&) {
    require_pointer(mode);
    *mode = 2;  // CU_MODULE_LAZY_LOADING
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return in_driver([&](Driver& driver) { get_function(driver, function, module, name); });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  return in_driver([&](Driver& driver) { get_variable(driver, address, bytes, module, name); });
}

CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) { return count_functions(count, module); }
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  return list_functions(functions, count, module);
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  return in_driver([&](Driver& driver) {
    require_pointer(library);
    *library = &driver.load(code, nullptr);
  });
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**, unsigned, CUlibraryOption*,
                               void**, unsigned) {
  return in_driver([&](Driver& driver) {
    require_pointer(library), require_pointer(path);
    *library = &driver.load(text_of_file(path).c_str(), nullptr);
  });
}

CUresult cuLibraryUnload(CUlibrary library) { return cuModuleUnload(library); }

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return cuModuleGetFunction(kernel, library, name);
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return in_driver([&](Driver& driver) {
    require_pointer(module);
    *module = &driver.modules.at(library);
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  return cuModuleGetGlobal_v2(address, bytes, library, name);
}
CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  return in_driver([&](Driver& driver) { get_variable(driver, address, bytes, library, name, true); });
}

CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) { return count_functions(count, library); }
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return list_functions(kernels, count, library);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return in_driver([&](Driver& driver) {
    require_pointer(function);
    *function = &driver.function(kernel);
  });
}

CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return in_driver([&](Driver& driver) {
    require_pointer(library);
    *library = driver.function(kernel).module;
  });
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) { return cuKernelGetLibrary(module, function); }

CUresult cuFuncGetName(const char** name, CUfunction function) { return name_of(name, function); }
CUresult cuKernelGetName(const char** name, CUkernel kernel) { return name_of(name, kernel); }

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  return parameter_of(function, index, offset, bytes);
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return parameter_of(kernel, index, offset, bytes);
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return get_attribute(value, attribute, function);
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return set_attribute(function, attribute, value);
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
  return get_attribute(value, attribute, kernel);
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
  return set_attribute(kernel, attribute, value);
}

// Advice that changes no result.
CUresult cuFuncSetCacheConfig(CUfunction function, int) {
  return in_driver([&](Driver& driver) { driver.function(function); });
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, int, CUdevice) { return cuFuncSetCacheConfig(kernel, 0); }
CUresult cuFuncSetSharedMemConfig(CUfunction function, int) { return cuFuncSetCacheConfig(function, 0); }
CUresult cuFuncLoad(CUfunction function) { return cuFuncSetCacheConfig(function, 0); }
CUresult cuFuncIsLoaded(int* state, CUfunction function) {
  return in_driver([&](Driver& driver) {
    require_pointer(state);
    driver.function(function);
    *state = 1;  // CU_FUNCTION_LOADING_STATE_LOADED
  });
}

CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState* state) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(state);
    *state = &driver.links.add();
  });
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType, void* data, size_t bytes, const char*, unsigned,
                          CUjit_option*, void**) {
  return in_context([&](Driver& driver, Context&) {
    require_pointer(data);
    // PTX with or without its final zero, or an image with PTX in it.
    std::string copy(static_cast<const char*>(data), bytes);
    driver.links.at(state).inputs.push_back(ptx_of_image(copy.c_str(), driver.gpu.target));
  });
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned, CUjit_option*, void**) {
  return in_context([&](Driver&, Context&) {
    require_pointer(path);
    std::string text = text_of_file(path);
    return cuLinkAddData_v2(state, type, text.data(), text.size(), path, 0, nullptr, nullptr);
  });
}

CUresult cuLinkComplete(CUlinkState state, void** image, size_t* bytes) {
  return in_context([&](Driver& driver, Context&) {
    Link& link = driver.links.at(state);
    require_pointer(image);
    link.image = join_ptx(link.inputs);
    *image = link.image.data();
    if (bytes) *bytes = link.image.size() + 1;
  });
}

CUresult cuLinkDestroy(CUlinkState state) {
  return in_driver([&](Driver& driver) { driver.links.remove(driver.links.at(state)); });
}

}  // extern "C"
