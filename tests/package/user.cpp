// A user of the installed library: floats in, the H200's bits out; the same through shared memory, made by hand.
#include <bitmma/bitmma.hpp>
#include <cstdint>
#include <cstdio>
#include <vector>

using namespace bitmma;

namespace {

/// The program that docs/install.md shows: two matrices of floats, one instruction, D as floats.
bool multiplies_floats() {
  const Instruction mma = wgmma({.n = 8, .d = Format::f32, .a = Format::f16, .b = Format::f16});
  const std::vector<float> a(64 * 16, 1.05859375f), b(16 * 8, 1.05859375f);
  const Matrix d = multiply(mma, from_floats(Format::f16, 64, 16, a), from_floats(Format::f16, 16, 8, b));
  for (const float value : to_floats(d)) {
    if (value != 17.929931640625f) return false;  // 16 * 1.05859375^2, exactly
  }
  return transposed(transposed(d)) == d && block_of(d, 8, 8, 0, 4).rows() == 8;
}

/// The same from an image of shared memory and two descriptors.
bool executes_a_state() {
  State state;
  state.set(Field::smem, std::vector<uint8_t>(4096, 0x3C), {4096});  // every f16 is 0x3C3C = 1.05859375
  state.set(Field::a_desc, 0);
  state.set(Field::b_desc, 128);
  state.set(Field::accumulator, std::vector<uint32_t>(128 * 4), {128, 4});
  const Instruction instruction = parse_instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16");
  execute(instruction, Target::sm_90a, state);
  return state.words(Field::accumulator)[0] == 0x418F7080;
}

bool says_what_is_wrong() {
  try {
    static_cast<void>(wgmma({.n = 12}));
  } catch (const Error& error) {
    return error.violations().front().field == "n";
  }
  return false;
}

}  // namespace

int main() {
  const bool ok = multiplies_floats() && executes_a_state() && says_what_is_wrong();
  std::puts(ok ? "ok" : "wrong");
  return ok ? 0 : 1;
}
