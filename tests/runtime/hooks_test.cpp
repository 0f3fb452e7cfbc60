// The hooks of compilers and the auditor of `bitmma exec`, over libraries that stand for NVIDIA's.
#include <dlfcn.h>

#include <cstring>

#include "support/catch.hpp"
#include "support/files.hpp"

namespace {

/// A function of the compilers as a program gets it that runs with the hooks preloaded: by their dlsym.
// As in programs, the type has other pointers than the library's, which -fsanitize=function would report.
template <typename... Arguments>
__attribute__((no_sanitize("undefined"))) int call(const char* name, Arguments... arguments) {
  using Dlsym = void* (*)(void*, const char*);
  static void* const hooks = dlopen(BITMMA_PRELOAD, RTLD_NOW);
  static void* const compilers = dlopen(BITMMA_FAKE_COMPILERS, RTLD_NOW);
  REQUIRE((hooks && compilers));
  const auto hooked = reinterpret_cast<Dlsym>(dlsym(hooks, "dlsym"));
  const auto function = reinterpret_cast<int (*)(Arguments...)>(hooked(compilers, name));
  REQUIRE(function != nullptr);
  return function(arguments...);
}

struct Linker {
  void* handle = nullptr;

  explicit Linker(std::vector<const char*> options) {
    CHECK(call("nvJitLinkCreate", &handle, uint32_t(options.size()), options.data()) == 0);
  }
  ~Linker() { CHECK(call("nvJitLinkDestroy", &handle) == 0); }
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  int add(int type, const std::string& data) {
    return call("nvJitLinkAddData", handle, type, static_cast<const void*>(data.data()), data.size(), "name");
  }
  std::string cubin() {
    size_t bytes = 0;
    CHECK(call("nvJitLinkGetLinkedCubinSize", handle, &bytes) == 0);
    std::string text(bytes, '?');
    CHECK(call("nvJitLinkGetLinkedCubin", handle, static_cast<void*>(text.data())) == 0);
    CHECK(text.back() == '\0');
    text.pop_back();
    return text;
  }
};

constexpr int cubin_input = 1, ptx_input = 2, lto_input = 3, library_input = 6, any_input = 10;
const std::string module_a = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry a() { ret; }\n";
const std::string module_b = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry b() { ret; }\n";

}  // namespace

TEST_CASE("NVRTC gives its PTX as the cubin") {
  size_t bytes = 0;
  CHECK(call("nvrtcGetCUBINSize", nullptr, &bytes) == 0);
  REQUIRE(bytes == 13);
  std::string text(bytes, '?');
  CHECK(call("nvrtcGetCUBIN", nullptr, text.data()) == 0);
  CHECK(text == std::string("PTX of NVRTC\0", 13));
}

TEST_CASE("a fat binary takes PTX that a compiler has given for a cubin, and cubins as they are") {
  const auto add = [](const std::string& code) {
    return call("nvFatbinAddCubin", nullptr, static_cast<const void*>(code.data()), code.size(), "90", "name");
  };
  CHECK(add(module_a) == 'P');
  CHECK(add("\177ELF") == 'C');
}

TEST_CASE("nvJitLink links LTO IR into PTX, and joins it with inputs that are PTX") {
  Linker alone({"-arch=sm_90a", "-lto"});
  CHECK(alone.add(lto_input, "ir") == 0);
  CHECK(call("nvJitLinkComplete", alone.handle) == 0);
  CHECK(alone.cubin() == "// -arch=sm_90a -lto -ptx input3");
  // A library of machine code has no part in it.
  CHECK(alone.add(library_input, "!<arch>") == 0);
  CHECK(call("nvJitLinkComplete", alone.handle) == 0);
  CHECK(alone.cubin() == "// -arch=sm_90a -lto -ptx input3");

  Linker both({"-lto", "-arch=sm_90a"});
  CHECK(both.add(ptx_input, module_a) == 0);
  CHECK(both.add(ptx_input, module_b + '\0') == 0);
  CHECK(call("nvJitLinkComplete", both.handle) == 0);
  const std::string joined = both.cubin();
  CHECK(joined.find(".entry a") < joined.find(".entry b"));
  CHECK(joined.find("input") == std::string::npos);
  CHECK(joined.starts_with(".version 9.0\n"));
}

TEST_CASE(
    "without LTO the PTX inputs are the result, which the linker itself checked; inputs without PTX stay a cubin") {
  Linker ptx({"-arch=sm_90a"});
  CHECK(ptx.add(any_input, module_a) == 0);
  CHECK(call("nvJitLinkComplete", ptx.handle) == 0);
  CHECK(ptx.cubin() == module_a);
  Linker given({"-arch=sm_90a"});  // PTX of NVRTC, which the program takes for a cubin
  CHECK(given.add(cubin_input, module_a) == 0);
  CHECK(call("nvJitLinkComplete", given.handle) == 0);
  CHECK(given.cubin() == module_a);
  Linker sass({"-arch=sm_90a"});
  CHECK(sass.add(cubin_input, "\177ELF") == 0);
  CHECK(call("nvJitLinkComplete", sass.handle) == 5);  // an error of the linker is the program's
  CHECK(sass.cubin() == "cubin");
}

TEST_CASE("names that the hooks do not know come from the library, also by the names of nvJitLink.h") {
  unsigned major = 0, minor = 1;
  CHECK(call("nvJitLinkVersion", &major, &minor) == 0);
  CHECK((major == 13 && minor == 0));
}

// An auditor is loaded before the sanitizers' library.
TEST_CASE("wherever a program looks for CUDA's libraries, it gets those of the auditor's folder", "[unsanitized]") {
  // The program prints the path of what dlopen gives for its argument.
  const auto opened = [](const std::string& name) {
    return bitmma::test::output_of_command("LD_AUDIT=" BITMMA_AUDIT " " BITMMA_OPENS " " + name + " 2>&1");
  };
  const std::string folder = std::string(BITMMA_AUDIT).substr(0, std::string(BITMMA_AUDIT).rfind('/') + 1);
  CHECK(opened("libcuda.so.1") == folder + "libcuda.so.1\n");
  CHECK(opened("libcuda.so") == folder + "libcuda.so.1\n");
  CHECK(opened("/nowhere/nvidia/lib/libcudart.so.13") == folder + "libcudart.so.13\n");
  CHECK(opened("libcudart.so.12") == folder + "libcudart.so.12\n");
  CHECK(opened("libcudart.so.11") == "none\n");
  CHECK(opened("/nowhere/libm.so.6") == "none\n");
}
