#include "driver/api.hpp"

#include <cstdlib>

namespace bitmma::driver::test {

void* symbol(const char* name) {
  static void* const library = [] {
    setenv("BITMMA_EXEC_QUIET", "1", 1);
    setenv("BITMMA_EXEC_MEMORY", "1073741824", 1);
    void* const opened = dlopen(BITMMA_CUDA, RTLD_NOW | RTLD_LOCAL);
    if (!opened) throw std::runtime_error(dlerror());
    return opened;
  }();
  return dlsym(library, name);
}

const char* const add_ptx = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<6>;
  .reg .f32 %f<4>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra END;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  ld.global.f32 %f2, [%rd5];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd5], %f3;
END:
  ret;
}
)";

const char* const other_ptx = R"(
.version 8.0
.target sm_90
.address_size 64
.file 1 "faults.cu"
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 4 .u32 counter = 7;
.const .align 4 .u32 factor = 3;
.visible .entry nothing() { ret; }
.visible .entry count(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  ld.global.u32 %r1, [counter];
  add.u32 %r1, %r1, 1;
  st.global.u32 [counter], %r1;
  ld.const.u32 %r2, [factor];
  mul.lo.u32 %r3, %r1, %r2;
  st.global.u32 [%rd1], %r3;
  ret;
}
.visible .entry store(.param .u64 to, .param .u32 value)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [value];
  .loc 1 12 3
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry stop() { trap; }
.visible .entry race()
{
  .shared .align 4 .u32 word;
  .reg .b32 %r<2>;
  mov.u32 %r1, %tid.x;
  st.shared.u32 [word], %r1;
  ret;
}
.visible .entry wait()
{
  .reg .b32 %r<2>;
  .reg .pred %p<2>;
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra END;
  bar.sync 0, 128;
END:
  ret;
}
.visible .entry take(.param .align 8 .b8 pair[16])
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [pair];
  ld.param.u32 %r1, [pair+8];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry dynamic(.param .u64 out)
{
  .extern .shared .align 4 .b8 words[];
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %dynamic_smem_size;
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry rank(.param .u64 out)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r2, %cluster_ctarank;
  st.global.u32 [%rd3], %r2;
  ret;
}
.extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 size);
.visible .entry assert_nothing()
{
  {
    .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
    st.param.b64 [a], 0; st.param.b64 [b], 0; st.param.b32 [c], 7; st.param.b64 [d], 0; st.param.b64 [e], 1;
    call.uni __assertfail, (a, b, c, d, e);
  }
  ret;
}
.visible .entry bounded() .maxntid 64, 1, 1 { ret; }
)";

}  // namespace bitmma::driver::test
