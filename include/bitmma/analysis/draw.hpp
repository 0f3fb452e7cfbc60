// Pictures of layouts: as text for a terminal, and as tables of coloured cells for SVG.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/analysis/picture.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma {

/// An element of a matrix and the byte of shared memory where it begins.
struct PlacedElement {
  int row = 0, col = 0;
  int64_t byte = 0;
};
std::vector<PlacedElement> placed_elements(const SmemMap& map);
std::vector<PlacedElement> placed_elements(const CuteLayout& cute, int element_bits);

/// Shared memory in lines of 128 bytes, eight 16-byte units each: which row and which k (or the other way round in
/// MN-major) every unit holds, in the order of its bytes: "r1 k8-15|k0-7" where that is not the matrix's. At most
/// `max_lines` lines, with a note when there are more.
std::string draw_smem(std::span<const PlacedElement> elements, int element_bits, int max_lines = 32);
/// The same for SVG, with the banks of every unit; coloured by the unit's place in its row before the swizzle.
Picture picture_of_smem(std::span<const PlacedElement> elements, int element_bits, int max_lines = 32);
/// The same of a matrix as its descriptor says it lies, with a title, its layout, and LBO and SBO as arrows.
Picture picture_of_smem(const SmemMap& map, int max_lines = 32);
/// Which line of such a picture holds `byte`, were all of them drawn; nothing where no element is in that line.
std::optional<int64_t> line_of(std::span<const PlacedElement> elements, int64_t byte);
/// Frames the units of these (row, col) in a picture of `elements`, and says in a note where each element is.
void mark_elements(Picture& picture, std::span<const PlacedElement> elements,
                   std::span<const std::pair<int, int>> marked);

/// The matrix, rows down and columns across: thread and register of every element, neighbours of one register drawn
/// together. The first 16 rows, which the other warps repeat, and at most `max_cols` columns.
std::string draw_fragment(const Fragment& fragment, int max_cols = 16);
/// Every thread of the warp has its colour. Rows from `first_row` on, a multiple of 16.
Picture picture_of_fragment(const Fragment& fragment, int max_cols = 16, int first_row = 0);

/// tcgen05.ld and .st: lanes down, columns across; thread and register of every cell. At most `max_cols` columns.
Picture picture_of_ldst(const LdSt& move, int max_cols = 16);

/// The image of block scales in shared memory, 128 rows x 4 blocks in 512 bytes: a line of 16 bytes for every 32 rows'
/// same remainder, which one lane of Tensor Memory gets. The first tile.
Picture picture_of_scale_image(const ScaleImage& image);

/// An element of a matrix and its cell of Tensor Memory.
struct TmemElement {
  int row = 0, col = 0;
  TmemPlace place = {};
};

/// Lanes down, 16 at a time: which rows and columns of the matrix they hold, in which columns of Tensor Memory.
std::string draw_tmem(std::span<const TmemElement> elements, int ctas);
/// Coloured by block of 16 rows of the matrix.
Picture picture_of_tmem(std::span<const TmemElement> elements, int ctas);

}  // namespace bitmma
