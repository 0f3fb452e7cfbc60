#include "support/instructions.hpp"

#include <algorithm>
#include <stdexcept>

#include "bitmma/stimulus/random_case.hpp"

namespace bitmma::test {

const std::vector<Tcgen05Types>& tcgen05_types() {
  using enum Format;
  static const std::vector<Tcgen05Types> types{
      {MmaKind::f16, f32, f16, f16},
      {MmaKind::f16, f16, f16, f16},
      {MmaKind::f16, f32, bf16, bf16},
      {MmaKind::tf32, f32, tf32, tf32},
      {MmaKind::f8f6f4, f32, e4m3, e5m2},
      {MmaKind::f8f6f4, f16, e2m3, e3m2},
      {MmaKind::f8f6f4, f32, e2m1, e4m3},
      {MmaKind::f8f6f4, f32, e3m2, e2m1},
      {MmaKind::i8, s32, s8, u8},
      {MmaKind::mxf8f6f4, f32, e4m3, e5m2},
      {MmaKind::mxf8f6f4, f32, e2m1, e3m2, ScaleVec::block32},
      {MmaKind::mxf4, f32, e2m1, e2m1},
      {MmaKind::mxf4nvf4, f32, e2m1, e2m1, ScaleVec::x2},
      {MmaKind::mxf4nvf4, f32, e2m1, e2m1, ScaleVec::x4, ue4m3},
      {MmaKind::mxf4nvf4, f32, e2m1, e2m1, ScaleVec::block16},
      {MmaKind::mxf4, f32, e2m1, e2m1, ScaleVec::block32, ue8m0, 96},
      {MmaKind::mxf4nvf4, f32, e2m1, e2m1, ScaleVec::block16, ue4m3, 96},
  };
  return types;
}

const Tcgen05Types& tcgen05_types(MmaKind kind, Format d, Format a) {
  for (const Tcgen05Types& types : tcgen05_types()) {
    if (types.kind == kind && types.d == d && types.a == a) return types;
  }
  throw std::runtime_error("no such types");
}

Tcgen05Mma tcgen05_mma(const Tcgen05Types& types, int m, int n, int cta_group, bool weight_stationary, bool sparse) {
  Tcgen05Mma instruction{.kind = types.kind,
                         .cta_group = cta_group,
                         .weight_stationary = weight_stationary,
                         .m = m,
                         .n = n,
                         .d = types.d,
                         .a = types.a,
                         .b = types.b,
                         .sparse = sparse,
                         .scale_vec = types.scale_vec,
                         .scale_type = types.scale_type};
  if (types.k != 0) instruction.k = types.k;
  return instruction;
}

std::vector<Tcgen05Mma> tcgen05_mmas() {
  struct Form {
    bool weight_stationary;
    int cta_group;
  };
  std::vector<Tcgen05Mma> all;
  for (const Tcgen05Types& types : tcgen05_types()) {
    for (const auto& [weight_stationary, cta_group] : {Form{false, 1}, Form{false, 2}, Form{true, 1}}) {
      for (const bool sparse : {false, true}) {
        for (const int m : {32, 64, 128, 256}) {
          std::vector<Tcgen05Mma> of_m;
          for (int n = 8; n <= 256; n += 8) {
            const Tcgen05Mma instruction = tcgen05_mma(types, m, n, cta_group, weight_stationary, sparse);
            if (violations_of(instruction, default_target(instruction)).empty()) of_m.push_back(instruction);
          }
          if (of_m.empty()) continue;
          all.push_back(of_m.front());
          all.push_back(of_m[of_m.size() / 2]);
          all.push_back(of_m.back());
        }
      }
    }
  }
  return all;
}

std::vector<Instruction> sample_instructions() {
  using enum Format;
  constexpr auto registers = OperandSource::registers, tmem = OperandSource::tmem;
  constexpr LdSt wide{.shape = LdStShape::s16x64b, .num = 4}, packed{.shape = LdStShape::s16x256b, .pack_16b = true},
      split{.shape = LdStShape::s16x32bx2, .num = 2};
  return {
      Wgmma{},
      Wgmma{.n = 16, .sparse = true, .a_source = registers, .sparsity_selector = 1},
      Wgmma{.n = 24, .d = f16, .a = e4m3, .b = e5m2, .sparse = true},
      Wgmma{.d = s32, .a = s8, .b = u8, .saturate = true, .a_source = registers},
      Wgmma{.d = s32, .a = b1, .b = b1},
      MmaSync{},
      MmaSync{.d = f16, .k = 8},
      MmaSync{.m = 8, .a_col = true},
      MmaSync{.m = 8, .c = f16},
      MmaSync{.a = tf32, .sparse = true, .ordered_metadata = false},
      MmaSync{.a = e4m3, .b = e5m2},
      MmaSync{.d = f64, .a = f64, .rounding = Rounding::toward_negative},
      MmaSync{.m = 8, .d = s32, .a = u8, .b = s8, .saturate = true},
      MmaSync{.d = s32, .a = s4, .sparse = true},
      MmaSync{.d = s32, .a = b1, .bit_operation = BitOperation::xor_popc},
      MmaSync{.kind = MmaKind::f8f6f4, .a = e2m1, .b = e3m2},
      MmaSync{.kind = MmaKind::mxf8f6f4},
      MmaSync{.kind = MmaKind::mxf8f6f4, .a = e2m3, .b = e3m2, .sparse = true},
      MmaSync{.kind = MmaKind::mxf4nvf4},
      MmaSync{.kind = MmaKind::mxf4, .sparse = true},
      Tcgen05Mma{.n = 16},
      Tcgen05Mma{.m = 64, .n = 16, .d = f16, .sparse = true, .a_source = tmem},
      Tcgen05Mma{.kind = MmaKind::tf32, .cta_group = 2, .n = 32},
      Tcgen05Mma{.kind = MmaKind::i8, .weight_stationary = true, .m = 32},
      Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .n = 16},
      Tcgen05Mma{.kind = MmaKind::mxf4, .cta_group = 2, .n = 32, .sparse = true, .a_source = tmem},
      Tcgen05Mma{.kind = MmaKind::mxf4nvf4, .n = 24},
      TmemMove{.kind = MoveKind::ld},
      TmemMove{.kind = MoveKind::ld, .ldst = packed},
      TmemMove{.kind = MoveKind::ld_red, .reduction = {.operation = ReduceOperation::max, .type = s32}},
      TmemMove{.kind = MoveKind::st, .ldst = wide},
      TmemMove{.kind = MoveKind::st, .ldst = split},
      TmemMove{.kind = MoveKind::cp, .cp_shape = 5},
      TmemMove{.kind = MoveKind::cp, .cta_group = 2, .cp_shape = 2, .source_format = CpSourceFormat::b6x16_p32},
      TmemMove{.kind = MoveKind::shift},
      TmemMove{.kind = MoveKind::shift, .cta_group = 2},
  };
}

Case sample_case(const Instruction& instruction, uint64_t seed) {
  return random_case(instruction, default_target(instruction), {}, distributions[seed % distributions.size()].id, seed,
                     0);
}

std::vector<uint32_t> words_of(const State& state, Field field) {
  const auto words = state.words(field);
  return {words.begin(), words.end()};
}

}  // namespace bitmma::test
