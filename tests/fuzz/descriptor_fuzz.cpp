// Words of descriptors: what is taken apart goes together to the same word; matrices that they describe have places.
#include "bitmma/analysis/describe.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

void smem(Bytes& in, uint64_t word) {
  const Target target = any_target(in);
  const int row_bytes = number(in);
  SmemDescriptor descriptor;
  if (!accepts([&] { descriptor = decode_smem_descriptor(target, word); })) return;
  require(encode(descriptor) == word, "a descriptor goes together as it was");
  (void)warnings(descriptor), (void)warnings(descriptor, Major::k, row_bytes), (void)warnings(descriptor, Major::mn);
  const Report report = describe(SmemWord{target}, word);
  require(is_utf8(to_json(report)) && is_utf8(print(report)), "a report is UTF-8");
  (void)print(describe(SmemWord{target, Major::mn}, word));

  constexpr int usual_bits[] = {1, 4, 8, 16, 32};
  const SmemMatrix matrix{.descriptor = descriptor,
                          .major = in.ConsumeBool() ? Major::k : Major::mn,
                          .element_bits = one_in(in, 12) ? number(in) : pick(in, usual_bits),
                          .rows = one_in(in, 12) ? between(in, -2, 5000) : between(in, 1, 64),
                          .cols = one_in(in, 12) ? between(in, -2, 5000) : between(in, 1, 64)};
  accepts([&] {
    const SmemMap map(matrix);
    (void)print_cute(matrix), (void)print_hardware_cute(matrix);
    if (matrix.rows < 1 || matrix.cols < 1 || matrix.rows * matrix.cols > 1 << 12) return;
    const int64_t end = end_byte(map);
    for (int i = 0; i < 3; ++i) {
      const int row = between(in, 0, matrix.rows - 1), col = between(in, 0, matrix.cols - 1);
      const SmemPlace place = map.place_of(row, col);
      require(place.byte >= 0 && place.byte < end, "an element is inside what its matrix uses");
      const auto elements = map.elements_at(place.byte);
      require(std::ranges::find(elements, std::pair(row, col)) != elements.end(), "the element of a byte is the one");
    }
    for (const int per_unit : {1, 8, 16}) (void)map.units(per_unit);
  });
}

void idesc(Bytes& in, uint32_t word) {
  const MmaKind kind = pick(in, mma_kinds).id;
  InstructionDescriptor descriptor;
  const bool legal = accepts([&] { descriptor = decode_instruction_descriptor(kind, word); });
  if (legal) {
    require(encode(descriptor) == word, "an instruction descriptor goes together as it was");
    (void)warnings(descriptor), (void)print(describe(InstructionWord{kind}, word));
  }
  Tcgen05Mma instruction{.kind = kind, .cta_group = between(in, 1, 2), .weight_stationary = in.ConsumeBool()};
  instruction.sparse = legal ? descriptor.sparse : in.ConsumeBool();
  if (accepts([&] { instruction = with_idesc(instruction, word); })) {
    require(idesc_of(instruction) == word, "an instruction says its descriptor");
    (void)violations_of(instruction, any_target(in));
  }
}

void fields(Bytes& in) {
  InstructionDescriptor any{.kind = pick(in, mma_kinds).id, .m = number(in), .n = number(in)};
  any.d = any_format(in), any.a = any_format(in), any.b = any_format(in), any.scale_type = any_format(in);
  any.sparse = in.ConsumeBool(), any.sparsity_selector = number(in), any.saturate = in.ConsumeBool();
  any.negate_a = in.ConsumeBool(), any.transpose_b = in.ConsumeBool(), any.max_shift_code = number(in);
  any.scale_a_id = number(in), any.scale_b_id = number(in), any.k_code = number(in);
  any.sparsity_version = number(in), any.wide_scale_a = in.ConsumeBool();
  uint32_t word = 0;
  if (accepts([&] { word = encode(any); })) (void)decode_instruction_descriptor(any.kind, word);
  (void)warnings(any);
  SmemDescriptor smem{.target = any_target(in), .start_address_bytes = number<int64_t>(in)};
  smem.strides = {number<int64_t>(in), number<int64_t>(in)};
  smem.base_offset = number(in), smem.swizzle = pick(in, swizzles).id, smem.leading_dim_absolute = in.ConsumeBool();
  smem.reserved = number<uint64_t>(in);
  uint64_t wide = 0;
  if (accepts([&] { wide = encode(smem); })) {
    require(encode(decode_smem_descriptor(smem.target, wide)) == wide, "a descriptor goes together as it was");
  }
  ZeroColumnMask mask{.non_zero_mask = in.ConsumeBool(), .skip_span = number(in), .use_span = number(in)};
  for (int& count : mask.start_count) count = number(in);
  for (int& span : mask.first_span) span = number(in);
  mask.column_shift = number(in);
  if (accepts([&] { wide = encode(mask); })) {
    require(decode_zero_column_mask(wide) == mask, "fields that are taken come back");
  }
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  const auto word = in.ConsumeIntegral<uint64_t>();
  smem(in, word);
  idesc(in, static_cast<uint32_t>(word));
  accepts([&] {
    const ZeroColumnMask mask = decode_zero_column_mask(word);
    require(encode(mask) == word, "a mask goes together as it was");
    const int m = 32 << between(in, 0, 3), n = one_in(in, 8) ? number<int16_t>(in) : 8 * between(in, 1, 32);
    accepts([&] { (void)zeroed_columns(mask, m, n); });
    accepts([&] { (void)print(describe(ZeroColumnWord{m, n}, word)); });
  });
  accepts([&] {
    const TmemAddress address = decode_tmem_address(static_cast<uint32_t>(word));
    require(encode(address) == static_cast<uint32_t>(word), "an address goes together as it was");
  });
  if (in.remaining_bytes() > 0) fields(in);
}
