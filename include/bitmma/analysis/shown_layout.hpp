// SPDX-License-Identifier: MIT
// What `layout` shows: a map for each kind of layout, with its title and what JSON has beside its elements.
//
//   const ShownLayout shown = shown_layout(LdMatrix{.count = 2});
//   to_text(picture_of(shown.map))       ldmatrix.sync.aligned.m8n8.x2.shared.b16, sm_75 and later: 2 matrices ...
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/layout_descriptor.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "bitmma/memory/map.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tma.hpp"

namespace bitmma {

struct [[nodiscard]] ShownLayout {
  Map map = {};
  Report header = {};                  // members before "elements" in the JSON of the whole map
  bool has_object_of_element = false;  // the JSON of one element is an object, not a list
  bool has_object_of_place = false;    // the same for a place
  std::string where = {};              // " of 64 x 16 elements": of what a place holds no element
  std::string fix = {};                // for coordinates outside the map
  std::vector<Violation> warnings = {};
};

/// Without a title, the layout's own.
ShownLayout shown_layout(const CuteLayout& cute, const std::string& title = "");
ShownLayout shown_layout(const LdMatrix& move);

/// What a descriptor's matrix occupies; codes of `code_bits` in wider elements. Throws Error for code bits that
/// elements of this width do not have (field code bits).
ShownLayout shown_layout(const SmemMatrix& matrix, int code_bits = 0);
/// Of the descriptor, and of the bytes that it reads.
std::vector<Violation> warnings_of(const SmemMatrix& matrix);
/// What is illegal in the sizes: fields element bits (1, 2, 4, 8, 16, 32), rows and cols (1..4096).
std::vector<Violation> size_violations_of(const SmemMatrix& matrix);

/// The swizzle atom of a mode, without a descriptor. With `target` throws Error if that GPU lacks the mode (field
/// atom), and if no atom has the mode and major-ness (field atom, major) or elements of this width (field element
/// bits).
ShownLayout shown_atom(Swizzle mode, Major major, int element_bits, std::optional<Target> target = {});

/// What a tensor map's box writes: "64x16" elements, or "64" along the inner dimension. Throws Error, which names the
/// field, for others than 1..65536 each.
void read_box(TmaTile& tile, std::string_view field, std::string_view text);

/// Registers of tcgen05.ld and .st by the name of the shape, such as "16x64b".
struct LdStRequest {
  std::string shape = "32x32b";
  int num = LdSt{}.num;
  bool pack_16b = false;
  std::optional<int> split_columns = {};  // 16x32bx2 alone: from one piece to the other
};
/// Throws Error for other shapes, numbers (field shape) and splits (field split).
ShownLayout shown_layout(const LdStRequest& request);

/// D of tcgen05.mma in Tensor Memory, A, or the metadata of a sparse A.
struct TmemRequest {
  int m = 128, cta_group = 1;
  bool weight_stationary = false, sparse = false;
  TmemAddress address = {};
  struct D {
    int n = 64;
  };
  struct A {
    int cols = 16, element_bits = 16, code_bits = 0;  // cols: the stored k
  };
  struct Metadata {
    int element_bits = 16, selector = 0;  // bits of A's container
    std::optional<int> k = {};            // columns of A; nothing: those of an instruction
  };
  std::variant<D, A, Metadata> operand = D{};
};
/// Throws Error for layouts that the instruction does not have, widths and columns of A (field element bits, cols), its
/// codes (field code bits), metadata (fields element bits, k, selector), and operands that do not fit.
ShownLayout shown_layout(const TmemRequest& request);

/// Block scales of the operand that one instruction reads: of `rows` rows of A in the CTA, or columns of B, `blocks`
/// along K.
struct ScalesRequest {
  bool is_b = false;
  int64_t rows = 128, blocks = 4;
  int m = 128, cta_group = 1;
  int id = 0;  // byte of the first scale
  uint32_t address = 0;
};
/// Throws Error for rows, blocks and an id that no instruction has, and for scales that do not fit.
ShownLayout shown_layout(const ScalesRequest& request);
/// The metadata of a whole sparse A in memory. Throws Error like require_legal.
ShownLayout shown_layout(const MetadataImage& image);
/// The image in shared memory: all of it, or the first tile. Throws Error for extents above 1048576.
ShownLayout shown_layout(const ScaleImage& image, bool is_whole);

/// A tile in shared memory: atoms of a swizzle side by side, rows first, or at the given strides.
struct TileRequest {
  Swizzle swizzle = Swizzle::none;
  Major major = Major::k;
  int element_bits = 16;
  int64_t rows = 0, cols = 0, stages = 1;
  std::optional<int64_t> lbo = {}, sbo = {};  // in bytes; nothing: those of a dense tile
};
/// Throws Error for illegal values (fields element bits, rows, cols, stages, lbo, sbo), and for a stride that no
/// element of the tile is away (lbo or sbo with its value).
CuteLayout tile_layout(const TileRequest& tile);
/// Warns of extents that no instruction reads at once: M and N are multiples of 8, K is 32 bytes; wider instructions
/// are rare.
std::vector<Violation> warnings_of_extents(const CuteLayout& cute, const DescriptorRequest& request);

/// An entry as JSON has it, and as CSV has it below a heading.
Report describe_entry(const Map& map, const MapEntry& entry);
std::string csv_heading(const Map& map);
std::string csv_line(const Map& map, const MapEntry& entry);

}  // namespace bitmma
