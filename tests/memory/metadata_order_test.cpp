#include "bitmma/memory/metadata_order.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "bitmma/core/random.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/memory/map.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// cute::make_ordered_layout: strides in the order of the steps.
std::vector<int64_t> ordered_strides(const std::vector<int64_t>& shape, const std::vector<int>& step) {
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return step[i]; });
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (const size_t i : order) strides[i] = stride, stride *= shape[i];
  return strides;
}

}  // namespace

// sm1xx_sparse_config.inl, TensorEAtom_MMA_*, read by the parser of CuTe's notation.
TEST_CASE("the order sm100 is the layout of CUTLASS's atoms") {
  const std::map<int, std::string> atoms{{4, "(128,256):(256,1)"},
                                         {8, "(128,128):(128,1)"},
                                         {16, "((8,2,8),(16,2,4)):((128,16,2048),(1,1024,32))"},
                                         {32, "((8,2,8),(8,2,4)):((64,8,1024),(1,512,16))"}};
  for (const auto& [bits, text] : atoms) {
    const CuteLayout atom = parse_cute(text, 8);
    const MetadataImage image{
        .order = MetadataOrder::sm100, .element_bits = bits, .rows = 2 * atom.rows, .cols = 2 * atom.cols};
    const int64_t size = atom.rows * atom.cols;
    for (int64_t row = 0; row < image.rows; ++row) {
      for (int64_t chunk = 0; chunk < image.chunks(); ++chunk) {
        const int64_t col = chunk * image.pattern().chunk;
        const int64_t offset =
            atom.byte_of(static_cast<int>(row % atom.rows), static_cast<int>(col % atom.cols), 8, 0) +
            row / atom.rows * size + col / atom.cols * 2 * size;
        REQUIRE(image.bit_of(row, chunk) == offset * 4 / image.pattern().chunk);
      }
    }
  }
}

// sm90_sparse_config.inl: Shape <<8,2,4>, <k,2,NumK>>, Step <<3,1,5>, <0,4,2>>.
TEST_CASE("the order sm90 is make_ordered_layout of CUTLASS's shapes and steps, for every K of a tile") {
  for (const auto& [bits, k] : {std::pair(16, 16), std::pair(32, 8)}) {
    for (int64_t tile_k = 2 * k; tile_k <= 128; tile_k *= 2) {
      const std::vector<int64_t> shape{8, 2, 4, k, 2, tile_k / (2 * k)};
      const std::vector<int64_t> stride = ordered_strides(shape, {3, 1, 5, 0, 4, 2});
      const MetadataImage image{
          .order = MetadataOrder::sm90, .element_bits = bits, .rows = 64, .cols = tile_k, .tile_k = tile_k};
      for (int64_t row = 0; row < 64; ++row) {
        for (int64_t chunk = 0; chunk < image.chunks(); ++chunk) {
          const int64_t col = chunk * image.pattern().chunk;
          const int64_t offset = row % 8 * stride[0] + row / 8 % 2 * stride[1] + row / 16 * stride[2] +
                                 col % k * stride[3] + col / k % 2 * stride[4] + col / (2 * k) * stride[5];
          REQUIRE(image.bit_of(row, chunk) == offset * 4 / image.pattern().chunk);
        }
      }
    }
  }
}

TEST_CASE("an aligned word of the order sm90 is the metadata register of a thread of wgmma") {
  for (const int bits : {16, 32}) {
    const MetadataImage image{.order = MetadataOrder::sm90, .element_bits = bits, .rows = 64, .cols = 512 / bits};
    const MetadataLayout layout = metadata_layout(bits);
    std::map<int, std::set<int64_t>> words;  // of memory, by thread
    for (int row = 0; row < 64; ++row) {
      for (int chunk = 0; chunk < image.chunks(); ++chunk) {
        const RegisterPlace place = metadata_place_of(layout, row, chunk * layout.pattern.stored_per_chunk, 0);
        const int64_t bit = image.bit_of(row, chunk);
        CHECK(bit % 32 == place.bit);
        words[place.thread].insert(bit / 32);
      }
    }
    for (const auto& [thread, of_thread] : words) CHECK(of_thread.size() == 1);
  }
}

TEST_CASE("tcgen05.cp of 16-byte lines of the order sm100 puts metadata where tcgen05.mma reads it") {
  const TmemLayoutInfo& layout = find_tmem_layout(128, 1, false, true);
  for (const int bits : {4, 8, 16, 32}) {
    const int64_t k = bits == 4 ? 256 : bits == 8 ? 128 : bits == 16 ? 128 : 64;
    const MetadataImage image{.order = MetadataOrder::sm100, .element_bits = bits, .rows = 128, .cols = k};
    const int per_instruction = 512 / bits;
    for (int row = 0; row < 128; ++row) {
      for (int chunk = 0; chunk < image.chunks(); ++chunk) {
        const int col = chunk * image.pattern().chunk, step = col / per_instruction;
        // A selector is a column; 8- and 4-bit types take two columns for an instruction.
        const TmemMetadata in_tmem{.layout = layout,
                                   .element_bits = bits,
                                   .address = {.lane = 0, .column = bits >= 16 ? 0 : 2 * step},
                                   .selector = bits >= 16 ? step : 0,
                                   .k = per_instruction};
        const TmemPlace place = in_tmem.place_of(row, col % per_instruction);
        REQUIRE(image.bit_of(row, chunk) == 128 * place.lane + 32 * place.column + place.bit);
      }
    }
  }
}

// host_reorder.h and ColumnMajorInterleaved<2>; PyTorch's _calculate_meta_reordering_scatter_offsets gives these words.
TEST_CASE("the order sm80 has PyTorch's words") {
  const MetadataImage narrow{.order = MetadataOrder::sm80, .element_bits = 16, .rows = 32, .cols = 64},
      wide{.order = MetadataOrder::sm80, .element_bits = 8, .rows = 32, .cols = 128};
  const auto word = [](const MetadataImage& image, int row, int col, int bits) {
    return image.bit_of(row, col * bits / 4) / bits;
  };
  CHECK(word(narrow, 0, 0, 16) == 0);
  CHECK(word(narrow, 0, 1, 16) == 2);
  CHECK(word(narrow, 8, 0, 16) == 1);
  CHECK(word(narrow, 8, 1, 16) == 3);
  CHECK(word(narrow, 1, 0, 16) == 8);
  CHECK(word(narrow, 31, 3, 16) == 127);
  CHECK(word(narrow, 16, 2, 16) == 68);
  CHECK(word(wide, 1, 0, 32) == 4);
  CHECK(word(wide, 8, 0, 32) == 1);
  CHECK(word(wide, 16, 3, 32) == 98);
  CHECK(narrow.bit_of(5, 6) % 16 == 8);
}

TEST_CASE("every legal order is one-to-one, and sm80 of incomplete groups is not") {
  for (const MetadataOrderInfo& order : metadata_orders) {
    for (const int bits : {4, 8, 16, 32}) {
      if (order.id == MetadataOrder::sm90 && bits == 4) continue;
      const MetadataImage image{.order = order.id, .element_bits = bits, .rows = 96, .cols = 256};
      const MetadataPlaces places = places_of_metadata(image);
      CHECK(places.is_one_to_one());
      CHECK(places.chunks == 96 * image.chunks());
      RandomStream random(1, static_cast<uint64_t>(bits));
      std::vector<uint8_t> nibbles(static_cast<size_t>(places.chunks));
      for (uint8_t& nibble : nibbles) nibble = static_cast<uint8_t>(random.below(16));
      const std::vector<uint8_t> bytes = pack_metadata(image, nibbles);
      CHECK(std::ssize(bytes) == image.bytes());
      CHECK(unpack_metadata(image, bytes) == nibbles);
    }
  }
  const MetadataImage half_group{.order = MetadataOrder::sm80, .element_bits = 16, .rows = 48, .cols = 64};
  const MetadataPlaces clashes = places_of_metadata(half_group);
  CHECK_FALSE(clashes.is_one_to_one());
  CHECK(clashes.shared + clashes.outside > 0);
  REQUIRE(clashes.first);
  CHECK(half_group.bit_of(clashes.first->row, clashes.first->chunk) == clashes.first->bit);
  const MetadataImage odd_words{.order = MetadataOrder::sm80, .element_bits = 8, .rows = 32, .cols = 96};
  CHECK(places_of_metadata(odd_words).outside > 0);
  CHECK_THROWS_MATCHES(pack_metadata(half_group, std::vector<uint8_t>(48 * 16)), Error,
                       refused(illegal_value, "rows, cols"));
}

TEST_CASE("orders refuse widths, columns and tiles that they do not have") {
  CHECK_THROWS_MATCHES(metadata_order_named("sm86"), Error, refused(unknown_name, "order"));
  CHECK_THROWS_MATCHES(
      require_legal(MetadataImage{.order = MetadataOrder::sm90, .element_bits = 4, .rows = 64, .cols = 128}), Error,
      refused(illegal_value, "element bits"));
  CHECK_THROWS_MATCHES(require_legal(MetadataImage{.order = MetadataOrder::sm80, .rows = 32, .cols = 24}), Error,
                       refused(illegal_value, "cols"));
  CHECK_THROWS_MATCHES(require_legal(MetadataImage{.order = MetadataOrder::sm90, .rows = 0, .cols = 32, .tile_k = 48}),
                       Error, refused(illegal_value, "rows") && refused(illegal_value, "tile k"));
  const MetadataImage image{.rows = 8, .cols = 8};
  CHECK_THROWS_MATCHES(image.bit_of(8, 0), Error, refused(illegal_value, "row, chunk"));
  CHECK_THROWS_MATCHES(unpack_metadata(image, std::vector<uint8_t>(7)), Error,
                       refused(wrong_shape, "bytes of metadata"));
}

TEST_CASE("maps of metadata answer in both directions") {
  const Map image = map_of(MetadataImage{.order = MetadataOrder::sm90, .rows = 64, .cols = 128});
  const MapEntry entry = image.place_of({9, 5});
  CHECK(entry[image.axis("byte")] == 146);
  CHECK(entry[image.axis("bit")] == 4);
  CHECK(entry[image.axis("k")] == 20);
  MapQuestion question{};
  question[image.axis("byte")] = 146;
  CHECK(image.elements_at(question).size() == 2);
  const TmemMetadata in_tmem{.layout = find_tmem_layout(128, 1, false, true), .element_bits = 16, .selector = 1};
  const Map tmem = map_of(in_tmem, 32);
  const MapEntry cell = tmem.place_of({17, 5});
  CHECK(cell[tmem.axis("lane")] == 25);
  CHECK(cell[tmem.axis("column")] == 1);
  CHECK(cell[tmem.axis("bit")] == 4);
  CHECK_THROWS_MATCHES(map_of(in_tmem, 3), Error, refused(illegal_value, "k"));
}
