// Files of every family with tensors and keys exchanged, reshaped, renamed, dropped, or with other data in them.
#include <cstring>
#include <numeric>

#include "analyses.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma::fuzz {
namespace {

constexpr std::string_view mnemonics[] = {
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
    "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16",
    "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32",
    "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e5m2",
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8",
    "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc",
    "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16",
    "wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.tf32.tf32",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
    "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s4.u4.s32",
    "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
    "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32",
    "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
    "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
    "tcgen05.mma.cta_group::1.kind::f16",
    "tcgen05.mma.cta_group::2.kind::tf32",
    "tcgen05.mma.cta_group::1.kind::i8",
    "tcgen05.mma.sp.cta_group::1.kind::f8f6f4",
    "tcgen05.mma.ws.cta_group::1.kind::f16",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X",
    "tcgen05.ld.sync.aligned.16x64b.x4.b32",
    "tcgen05.ld.sync.aligned.16x32bx2.x2.pack::16b.b32",
    "tcgen05.st.sync.aligned.32x32b.x8.b32",
    "tcgen05.cp.cta_group::1.32x128b.warpx4",
    "tcgen05.cp.cta_group::2.128x256b.b8x16.b6x16_p32",
    "tcgen05.shift.cta_group::1.down",
};

/// `file` with twice the K: its matrices beside themselves, and nothing that says a shape.
TensorFile with_twice_k(const TensorFile& file) {
  TensorFile wide = file;
  wide.erase("d"), wide.erase("idesc");
  for (Tensor& tensor : wide.tensors) {
    const bool along_cols = tensor.name == "a" || tensor.name == "sfa",
               along_rows = tensor.name == "b" || tensor.name == "sfb";
    if ((!along_cols && !along_rows) || tensor.shape.size() != 3) continue;
    const auto cases = static_cast<std::size_t>(tensor.shape[0]), rows = static_cast<std::size_t>(tensor.shape[1]);
    // What follows itself is a row of A, and a whole matrix B.
    const std::size_t parts = along_cols ? cases * rows : cases,
                      part = tensor.bytes.size() / std::max<std::size_t>(1, parts);
    std::vector<uint8_t> data;
    for (std::size_t i = 0; i < parts; ++i) {
      for (int twice = 0; twice < 2; ++twice) {
        const std::vector<uint8_t> bytes = tensor.bytes.part(i * part, part).copy();
        data.insert(data.end(), bytes.begin(), bytes.end());
      }
    }
    tensor.shape[along_cols ? 2 : 1] *= 2;
    tensor = Tensor::from_bytes(tensor.name, tensor.dtype, tensor.shape, std::move(data));
  }
  return wide;
}

/// Two cases of each, with states and logical matrices; the matrices alone; and matrices of two steps of K.
const std::vector<TensorFile>& seeds() {
  static const std::vector<TensorFile> all = [] {
    std::vector<TensorFile> made;
    for (const std::string_view mnemonic : mnemonics) {
      Instruction instruction = parse_instruction(mnemonic);
      if (shape_and_types_of(instruction)) {
        ShapeAndTypes small = *shape_and_types_of(instruction);
        small.n = 32;
        accepts([&] {
          const Instruction smaller = with_shape_and_types(instruction, small);
          if (violations_of(smaller, default_target(smaller)).empty()) instruction = smaller;
        });
      }
      for (const OperandSource source : {OperandSource::smem, OperandSource::registers, OperandSource::tmem}) {
        if (source != OperandSource::smem && (!is_mma(instruction) || family_of(instruction) == Family::mma_sync))
          continue;
        accepts([&] {
          const Instruction from = is_mma(instruction) ? with_a_source(instruction, source) : instruction;
          require_legal(from, default_target(from));
          const Placement none{.a = {.swizzle = Swizzle::none}, .b = {.swizzle = Swizzle::b32}};
          const TensorFile file = make_golden({.instruction = from, .cases = 2, .placement = none}, 1);
          made.push_back(file);
          if (!is_mma(from)) return;
          TensorFile matrices = file;
          std::erase_if(matrices.tensors, [](const Tensor& tensor) {
            constexpr std::string_view kept[] = {"a", "b", "c", "d", "sfa", "sfb", "scale_a", "scale_b", "idesc"};
            return std::ranges::find(kept, tensor.name) == std::end(kept);
          });
          made.push_back(matrices);
          if (source == OperandSource::smem) made.push_back(with_twice_k(matrices));
        });
      }
    }
    std::fprintf(stderr, "%zu files to begin with\n", made.size());
    return made;
  }();
  return all;
}

/// Every name that a tensor of some file has.
const std::vector<std::string>& names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made{"a", "b", "c", "d", "scale_a", "scale_b", "sfa", "sfb", "other"};
    for (const FieldInfo& field : state_fields) {
      made.emplace_back(field.name);
      if (!field.after.empty()) made.emplace_back(field.after);
    }
    for (const ImmediateInfo& immediate : all_immediates()) made.emplace_back(immediate.name);
    return made;
  }();
  return all;
}

constexpr std::string_view dtypes[] = {"U8",  "U16", "U32", "U64",     "F16",     "BF16", "F32",
                                       "F64", "I8",  "I32", "F8_E4M3", "F8_E5M2", "BOOL", "I64"};

/// The tensor with as many bytes as its dtype and shape ask for, unless they are too many.
void fit(Tensor& tensor, std::vector<uint8_t> data) {
  std::size_t size = static_cast<std::size_t>(dtype_bytes(tensor.dtype));
  for (const int64_t extent : tensor.shape) size *= static_cast<std::size_t>(extent);
  if (size > 1u << 21) return;
  data.resize(size);
  tensor = Tensor::from_bytes(tensor.name, tensor.dtype, tensor.shape, std::move(data));
}

void change(Bytes& in, TensorFile& file) {
  if (file.tensors.empty()) return;
  const auto index = in.ConsumeIntegralInRange<std::size_t>(0, file.tensors.size() - 1);
  Tensor tensor = file.tensors[index];
  std::vector<uint8_t> data = tensor.bytes.copy();
  const TensorFile& other = pick(in, seeds());
  switch (between(in, 0, 11)) {
    case 0:
      for (int i = between(in, 1, 8); i > 0 && !data.empty(); --i) {
        data[in.ConsumeIntegralInRange<std::size_t>(0, data.size() - 1)] = in.ConsumeIntegral<uint8_t>();
      }
      break;
    case 1:
      if (data.size() >= 8) {
        const uint64_t word = in.ConsumeBool() ? descriptor_word(in, any_target(in)) : in.ConsumeIntegral<uint64_t>();
        std::memcpy(&data[8 * in.ConsumeIntegralInRange<std::size_t>(0, data.size() / 8 - 1)], &word, 8);
      }
      break;
    case 2: data = bytes(in, data.size()); break;
    case 3: file.tensors.erase(file.tensors.begin() + static_cast<std::ptrdiff_t>(index)); return;
    case 4: tensor.name = pick(in, names()); break;
    case 5: tensor.dtype = pick(in, dtypes); break;
    case 6:
      if (!tensor.shape.empty()) {
        tensor.shape[in.ConsumeIntegralInRange<std::size_t>(0, tensor.shape.size() - 1)] =
            between(in, 0, in.ConsumeBool() ? 5 : 600);
      }
      break;
    case 7: tensor.shape.resize(in.ConsumeIntegralInRange<std::size_t>(0, 5), 1); break;
    case 8: {
      const std::vector<ImmediateInfo> immediates = all_immediates();
      const std::string key(pick(in, immediates).name);
      file.set_metadata(key, in.ConsumeBool() ? std::to_string(number<int64_t>(in)) : in.ConsumeRandomLengthString(12));
      return;
    }
    case 9:
      tensor = pick(in, other.tensors);
      data = tensor.bytes.copy();
      break;
    case 10: file.set_metadata("instruction", *other.find_metadata("instruction")); return;
    case 11: file.set_metadata("target", std::string(print(any_target(in)))); return;
  }
  fit(tensor, std::move(data));
  file.tensors.erase(file.tensors.begin() + static_cast<std::ptrdiff_t>(index));
  file.set(std::move(tensor));
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  const Point point = any_point(in);
  TensorFile file = pick(in, seeds());
  for (int changes = between(in, 0, 6); changes > 0 && in.remaining_bytes() > 0; --changes) change(in, file);
  accepts([&] {
    const VectorFile whole = as_tiled_file(file);
    if (!is_k_loop(whole)) return;
    const VectorFile steps = unroll_k(whole, placement_of(point.layout));
    require(verify(steps, 1).mismatches == 0, "a K loop is verified");
    require(computed_tile(case_at(whole, 0)) == computed_d(case_at(steps, whole.tiling.k - 1)), "a tile is its steps");
  });
  VectorFile vectors;
  if (!accepts([&] { vectors = as_vector_file(file); })) return;
  analyse(vectors, point);
  accepts([&] {
    const TensorFile next = after(vectors, pick(in, seeds()), {});
    (void)with_simulated_d(as_vector_file(next), placement_of(point.layout), 1);
  });
}
