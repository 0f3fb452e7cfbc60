// One instruction with the bits of an H200, of component core alone.
#include <bitmma/descriptor/smem_descriptor.hpp>
#include <bitmma/instruction/execute.hpp>
#include <bitmma/instruction/instruction.hpp>
#include <cstdio>
#include <vector>

int main() {
  using namespace bitmma;
  const SmemDescriptor descriptor = decode_smem_descriptor(Target::sm_90a, 0x4000'0040'0001'0000);
  const Instruction mma = wgmma({.n = 8, .d = Format::f32, .a = Format::f16, .b = Format::f16});
  const Matrix a = from_floats(Format::f16, 64, 16, std::vector<float>(64 * 16, 1.5f));
  const Matrix b = from_floats(Format::f16, 16, 8, std::vector<float>(16 * 8, 2.0f));
  const std::vector<float> d = to_floats(multiply(mma, a, b));
  std::printf("%lld %g\n", static_cast<long long>(descriptor.strides.stride_dim_byte_offset),
              static_cast<double>(d[0]));
  return descriptor.strides.stride_dim_byte_offset == 1024 && d[0] == 48.0f ? 0 : 1;
}
