// Matrices in images, registers, Tensor Memory and other programs' memory, of any size and format: what is put
// somewhere is found there, and what does not fit is refused.
#include "bitmma/formats/codes.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "bitmma/memory/metadata.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

void shared_memory(Bytes& in) {
  const Target target = in.ConsumeBool() ? Target::sm_90a : Target::sm_100a;
  const uint64_t word = descriptor_word(in, target);
  const Format format = any_format(in);
  constexpr int usual_bits[] = {1, 4, 8, 16, 32, 64};
  const int element_bits = one_in(in, 4) ? pick(in, usual_bits) : one_in(in, 4) ? 8 : info(format).bits;
  SmemMatrix matrix{.major = in.ConsumeBool() ? Major::k : Major::mn, .element_bits = element_bits};
  matrix.rows = between(in, one_in(in, 16) ? 0 : 1, 80), matrix.cols = between(in, one_in(in, 16) ? 0 : 1, 80);
  std::vector<uint8_t> image = bytes(in, in.ConsumeIntegralInRange<std::size_t>(0, in.ConsumeBool() ? 70000 : 4000));
  const std::vector<uint8_t> before = image;
  accepts([&] {
    matrix.descriptor = decode_smem_descriptor(target, word);
    const SmemMap map(matrix);
    const Matrix values = gather(image, map, format, "A");
    require(gather_transposed(image, map, format, "A") == transposed(values), "rows and columns are exchanged");
    scatter(values, map, image, "A");
    require(image == before, "what is gathered is scattered where it was");
  });
  const Matrix any = matrix.rows < 1 || matrix.cols < 1
                         ? Matrix()
                         : fuzz::matrix(in, format, one_in(in, 8) ? between(in, 1, 90) : matrix.rows, matrix.cols);
  if (!accepts([&] { scatter(any, SmemMap(matrix), image, "A"); }))
    require(image == before, "a refusal writes nothing");
}

Fragment any_fragment(Bytes& in, Format format) {
  const int bits = info(format).bits;
  switch (between(in, 0, 8)) {
    case 0: return wgmma_a_fragment(format, number(in));
    case 1: return wgmma_d_fragment(format, number(in));
    case 2:
      return mma_a_fragment(one_in(in, 8) ? number(in) : bits, number(in),
                            one_in(in, 8) ? number(in) : 8 * between(in, 1, 2));
    case 3: return mma_b_fragment(one_in(in, 8) ? number(in) : bits, number(in));
    case 4:
      return mma_d_fragment(one_in(in, 8) ? number(in) : bits, one_in(in, 8) ? number(in) : 8 * between(in, 1, 2));
    case 5: return quad_a_fragment(in.ConsumeBool());
    case 6: return quad_b_fragment(in.ConsumeBool());
    case 7: return quad_d_fragment(format);
    default: return mma_a_fragment(bits, 256 / std::max(1, bits));
  }
}

void registers(Bytes& in) {
  const Format format = any_format(in);
  accepts([&] {
    const Fragment fragment = any_fragment(in, format);
    if (fragment.rows < 1 || fragment.cols < 1 || int64_t{fragment.rows} * fragment.cols > 1 << 14) return;
    const int row = between(in, 0, fragment.rows - 1), col = between(in, 0, fragment.cols - 1);
    const RegisterPlace place = place_of(fragment, row, col);
    require(element_at(fragment, place.thread, place.reg, place.bit) == MatrixPlace{row, col},
            "an element is where it is");
    (void)print_cute(fragment);
    const auto size =
        static_cast<std::size_t>(std::max<int64_t>(0, fragment.words()) + (one_in(in, 8) ? between(in, 0, 3) : 0));
    std::vector<uint32_t> words = fuzz::words(in, size);
    const std::vector<uint32_t> before = words;
    accepts([&] {
      const Matrix values = gather(words, fragment, format, "A");
      require(gather_transposed(words, fragment, format, "A") == transposed(values), "rows and columns are exchanged");
      scatter(values, fragment, words, "A");
      require(gather(words, fragment, format, "A") == values, "what is scattered is gathered");
    });
    const Matrix any = matrix(in, format, between(in, 1, 70), between(in, 1, 70));
    words = before;
    if (!accepts([&] { scatter(any, fragment, words, "A"); })) require(words == before, "a refusal writes nothing");
    (void)ldmatrix_blocks(fragment, in.ConsumeBool());
  });
}

void ldmatrix(Bytes& in) {
  const LdMatrix move{.count = one_in(in, 4) ? number(in) : 1 << between(in, 0, 2),
                      .transposed = in.ConsumeBool(),
                      .store = in.ConsumeBool()};
  accepts([&] { (void)print(move); });
  const LdMatrixElement element{.matrix = number(in), .row = number(in), .col = number(in)};
  accepts([&] {
    const RegisterPlace place = place_of(move, element);
    require(element_at(move, place.thread, place.reg, place.bit) == element, "an element is where it is");
    (void)address_thread(move, element.matrix, element.row);
  });
  const int thread = number(in), reg = number(in), bit = number(in);
  accepts([&] { (void)element_at(move, thread, reg, bit); });
  accepts([&] { (void)address_thread(move, thread, reg); });
  accepts([&] { (void)ldmatrix_counts(between(in, -2, 200)); });
}

void tensor_memory(Bytes& in) {
  const int m = one_in(in, 8) ? number(in) : 32 << between(in, 0, 3),
            n = one_in(in, 8) ? number(in) : 8 * between(in, 1, 32);
  const bool ws = in.ConsumeBool(), sparse = in.ConsumeBool();
  const uint32_t address = tmem_word(in);
  accepts([&] {
    const TmemLayoutInfo& layout = find_tmem_layout(m, one_in(in, 8) ? number(in) : between(in, 1, 2), ws, sparse);
    const TmemD d{.layout = layout, .n = n, .address = decode_tmem_address(address)};
    require_fits(d);
    const TmemPlace place = d.place_of(between(in, 0, layout.m - 1), between(in, 0, n - 1));
    require(place.lane >= 0 && place.lane < tmem_lanes && place.column >= 0 && place.column < tmem_columns,
            "D that fits lies inside");
    (void)print_cute(d);
    constexpr int bits[] = {4, 8, 16, 32};
    const TmemA a{.layout = layout, .element_bits = pick(in, bits), .address = d.address};
    const int k = one_in(in, 8) ? number(in) : 8 * between(in, 1, 32);
    accepts([&] {
      require_fits(a, k);
      if (k > 0) (void)a.place_of(layout.m - 1, k - 1, a.copies() - 1);
    });
    const TmemMetadata metadata{
        .layout = layout, .element_bits = a.element_bits, .address = d.address, .selector = between(in, 0, 3)};
    accepts([&] { require_fits(metadata), (void)metadata.place_of(layout.m - 1, 0); });
    const TmemScales scales = in.ConsumeBool() ? scales_of_a(layout, address, between(in, 0, 3))
                                               : scales_of_b(layout, n, address, between(in, 0, 3));
    const int rows = number(in), count = number(in);
    accepts([&] { require_fits(scales, rows, count, "A"); });
  });
  LdSt move{.shape = pick(in, ldst_shapes).id,
            .num = one_in(in, 4) ? number(in) : 1 << between(in, 0, 7),
            .pack_16b = in.ConsumeBool(),
            .split_columns = number(in)};
  accepts([&] {
    require_legal(move);
    require(move.registers() > 0, "a legal move has registers");
    (void)move.place_of(between(in, 0, 31), between(in, 0, move.registers() - 1), between(in, 0, 1));
  });
}

void scale_image(Bytes& in) {
  const ScaleImage image{.rows = one_in(in, 4) ? number<int64_t>(in) : between(in, 0, 300),
                         .blocks = one_in(in, 4) ? number<int64_t>(in) : between(in, 0, 20)};
  const bool small = image.rows >= 0 && image.rows <= 300 && image.blocks >= 0 && image.blocks <= 20;
  const std::vector<uint8_t> scales =
      bytes(in, small && !one_in(in, 8) ? static_cast<std::size_t>(image.rows * image.blocks)
                                        : in.ConsumeIntegralInRange<std::size_t>(0, 600));
  accepts([&] { require(unpack_scales(image, pack_scales(image, scales)) == scales, "scales survive packing"); });
  accepts([&] { (void)unpack_scales(image, scales); });
}

void metadata(Bytes& in) {
  constexpr int usual_bits[] = {4, 8, 16, 32};
  accepts([&] {
    const int bits = one_in(in, 12) ? number(in) : pick(in, usual_bits);
    const MetadataLayout layout = in.ConsumeBool()
                                      ? metadata_layout(bits)
                                      : metadata_layout(bits, one_in(in, 8) ? number(in) : 4 << between(in, 0, 4));
    const int rows = one_in(in, 8) ? number(in) : 16 << between(in, 0, 2),
              selector = one_in(in, 8) ? number(in) : between(in, 0, std::max(0, layout.selectors - 1));
    const std::vector<uint32_t> registers =
        words(in, one_in(in, 8) ? in.ConsumeIntegralInRange<std::size_t>(0, 200)
                                : static_cast<std::size_t>(std::clamp(rows, 0, 128)) * 2);
    const Selection selection = select(layout, registers, rows, selector, in.ConsumeBool());
    accepts([&] {
      const auto encoded = encode_metadata(layout, selection.k, rows, selector);
      if (selection.undefined_chunks == 0)
        require(select(layout, encoded, rows, selector).k == selection.k, "a selection survives");
    });
  });
}

void formats(Bytes& in) {
  const Format from = any_format(in), to = any_format(in);
  const auto bits = in.ConsumeIntegral<uint64_t>(), more = in.ConsumeIntegral<uint64_t>();
  const auto rounding = static_cast<Rounding>(between(in, 0, 4));
  (void)print_value(from, bits), (void)print_bits(from, bits);
  accepts([&] { (void)convert(from, bits, to, rounding, in.ConsumeBool() ? Overflow::infinity : Overflow::saturate); });
  accepts([&] { (void)ieee_fma(from, bits, more, bits ^ more, rounding); });
  accepts([&] { (void)ieee_add(from, bits, more, rounding); });
  const Decoded any{.number = static_cast<NumberClass>(between(in, 0, 2)),
                    .negative = in.ConsumeBool(),
                    .significand = bits >> between(in, 0, 63),
                    .exponent = number(in)};
  accepts([&] { (void)encode(from, any); });
  const int rows = between(in, -1, 9), cols = between(in, -1, 9);
  std::vector<float> values(in.ConsumeIntegralInRange<std::size_t>(0, 81));
  if (!one_in(in, 6)) values.resize(static_cast<std::size_t>(std::max(0, rows * cols)));
  for (float& value : values)
    value = in.ConsumeBool() ? static_cast<float>(between(in, -130, 130)) : in.ConsumeFloatingPoint<float>();
  accepts([&] {
    const Matrix matrix = from_floats(to, rows, cols, values);
    (void)to_floats(matrix);
    (void)count_differing(matrix, matrix);
    accepts([&] { (void)matrix.as(from); });
    const int row = number(in), height = number(in), col = number(in), width = number(in);
    Matrix other = matrix;
    accepts([&] { set_block(other, row, col, block_of(matrix, row, height, col, width)); });
    require(other == matrix, "a block goes back to where it was");
    std::vector<uint8_t> codes(matrix.size() * static_cast<std::size_t>(code_bytes(to)));
    write_codes(matrix, codes.data());
    const CodeView view{codes.data(), int64_t{cols} * code_bytes(to), code_bytes(to)};
    require(matrix_of(to, rows, cols, view) == matrix, "codes survive");
  });
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma::fuzz;
  switch (between(in, 0, 6)) {
    case 0: return shared_memory(in);
    case 1: return registers(in);
    case 2: return ldmatrix(in);
    case 3: return tensor_memory(in);
    case 4: return scale_image(in);
    case 5: return metadata(in);
    default: return bitmma::fuzz::formats(in);
  }
}
