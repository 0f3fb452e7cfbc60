// SPDX-License-Identifier: MIT
#include "device_runtime.hpp"

#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "link_ptx.hpp"

namespace bitmma::driver {
namespace {

// Block 0 adds what makes the sum of all blocks 0x80000000: the highest bit changes with each barrier, and the others
// are 0 again.
constexpr std::string_view grid_barrier = R"(
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 bitmma_grid_barrier = 0;
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 1;
  st.param.b64 [handle], %rd1;
  ret;
}
.visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
  .reg .pred %p<4>;
  .reg .b32 %r<17>;
  bar.sync 0;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %tid.z;
  or.b32 %r1, %r1, %r2;
  or.b32 %r1, %r1, %r3;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  mov.u32 %r4, %nctaid.x;
  mov.u32 %r5, %nctaid.y;
  mov.u32 %r6, %nctaid.z;
  mul.lo.u32 %r4, %r4, %r5;
  mul.lo.u32 %r4, %r4, %r6;
  sub.u32 %r7, 0x80000001, %r4;
  mov.u32 %r8, %ctaid.x;
  mov.u32 %r9, %ctaid.y;
  mov.u32 %r10, %ctaid.z;
  or.b32 %r8, %r8, %r9;
  or.b32 %r8, %r8, %r10;
  setp.eq.u32 %p2, %r8, 0;
  selp.b32 %r11, %r7, 1, %p2;
  membar.gl;
  atom.global.add.u32 %r12, [bitmma_grid_barrier], %r11;
WAIT:
  ld.volatile.global.u32 %r13, [bitmma_grid_barrier];
  xor.b32 %r14, %r12, %r13;
  setp.ge.s32 %p3, %r14, 0;
  @%p3 bra WAIT;
  membar.gl;
DONE:
  bar.sync 0;
  mov.u32 %r15, 0;
  st.param.b32 [result], %r15;
  ret;
}
)";

// A handle is the address of the condition's value.
constexpr std::string_view graph_condition = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.b64 %rd1, [handle];
  ld.param.b32 %r1, [value];
  st.volatile.global.u32 [%rd1], %r1;
  ret;
}
)";

struct DeviceFunctions {
  std::string_view name, ptx;
};
constexpr DeviceFunctions device_functions[] = {{"cudaCGGetIntrinsicHandle", grid_barrier},
                                                {"cudaGraphSetConditional", graph_condition}};

}  // namespace

std::string with_known_target(std::string ptx) {
  constexpr std::string_view directive = ".target", target = "sm_";
  const size_t line = ptx.find(directive);
  const size_t name = line == std::string::npos ? line : ptx.find_first_not_of(" \t", line + directive.size());
  if (name == std::string::npos || ptx.compare(name, target.size(), target) != 0) return ptx;
  const size_t number = name + target.size();
  size_t end = number;
  while (end < ptx.size() && std::isdigit(static_cast<unsigned char>(ptx[end])) != 0) ++end;
  const bool is_older = end == number + 2 && ptx[number] < '7';  // sm_10 to sm_62
  return is_older ? ptx.replace(number, 2, "70") : ptx;
}

std::string with_device_runtime(std::string ptx) {
  std::vector<std::string> modules;
  for (const auto& [name, functions] : device_functions)
    if (ptx.find(name) != std::string::npos) modules.emplace_back(functions);
  if (modules.empty()) return ptx;
  modules.insert(modules.begin(), std::move(ptx));
  return join_ptx(modules);
}

}  // namespace bitmma::driver
