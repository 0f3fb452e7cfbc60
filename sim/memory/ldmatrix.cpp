// SPDX-License-Identifier: MIT
#include "bitmma/memory/ldmatrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

namespace bitmma {
namespace {

constexpr int warp = 32, matrix_rows = 8, element_bits = 16;

struct Index {
  std::string_view name;
  int value = 0;
  int end = 0;
};

void require_within(const LdMatrix& move, std::initializer_list<Index> indices) {
  require_legal(move);
  std::vector<Violation> violations;
  for (const Index& index : indices) {
    if (index.value >= 0 && index.value < index.end) continue;
    violations.push_back({.field = std::string(index.name),
                          .seen = std::to_string(index.value),
                          .expected = fmt::format("0..{}", index.end - 1)});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

/// The qualifiers after the name, in PTX's order. ptxas accepts any order, and CUTLASS writes .x4.trans.m8n8.
struct LdMatrixQualifier {
  std::string_view legal;
  std::array<std::string_view, 3> words;
  bool optional = false;
};
constexpr auto ldmatrix_qualifiers = std::to_array<LdMatrixQualifier>({
    {.legal = ".sync", .words = {"sync"}},
    {.legal = ".aligned", .words = {"aligned"}},
    {.legal = ".m8n8", .words = {"m8n8"}},
    {.legal = ".x1, .x2 or .x4", .words = {"x1", "x2", "x4"}},
    {.legal = ".trans", .words = {"trans"}, .optional = true},
    {.legal = ".shared", .words = {"shared", "shared::cta"}, .optional = true},  // omitted: a generic address
    {.legal = ".b16", .words = {"b16"}},
});

}  // namespace

void require_legal(const LdMatrix& move) {
  if (move.count == 1 || move.count == 2 || move.count == 4) return;
  throw Error({.field = ".num",
               .seen = fmt::format("x{}", move.count),
               .legal = {"x1", "x2", "x4"},
               .fix = "",
               .source = "PTX ISA 9.7.14.5.15"});
}

std::string print(const LdMatrix& move) {
  return fmt::format("{}.sync.aligned.m8n8.x{}{}.shared.b16", move.store ? "stmatrix" : "ldmatrix", move.count,
                     move.transposed ? ".trans" : "");
}

LdMatrix parse_ldmatrix(std::string_view text) {
  const size_t name_end = std::min(text.find('.'), text.size());
  const std::string name(text.substr(0, name_end));
  std::vector<Violation> violations;
  if (name != "ldmatrix" && name != "stmatrix")
    violations.push_back({.field = "instruction", .seen = name, .legal = {"ldmatrix", "stmatrix"}});
  std::array<std::string_view, ldmatrix_qualifiers.size()> written;
  for (std::string_view left = text.substr(name_end); !left.empty();) {
    const std::string_view word = left.substr(1, left.find('.', 1) - 1);
    left.remove_prefix(word.size() + 1);
    const auto row = std::ranges::find_if(ldmatrix_qualifiers, [&](const LdMatrixQualifier& qualifier) {
      return !word.empty() && std::ranges::find(qualifier.words, word) != qualifier.words.end();
    });
    if (row == ldmatrix_qualifiers.end()) {
      violations.push_back({.field = "qualifier",
                            .seen = fmt::format(".{}", word),
                            .expected = ".sync.aligned.m8n8, .x1, .x2 or .x4, .trans, .shared and .b16",
                            .fix = "shapes of 8-bit elements (sm_100a) are not supported",
                            .source = "PTX ISA 9.7.14.5.15"});
      continue;
    }
    std::string_view& place = written[static_cast<size_t>(row - ldmatrix_qualifiers.begin())];
    if (!place.empty()) {
      violations.push_back({.field = "qualifier",
                            .seen = fmt::format(".{} and .{}", place, word),
                            .expected = fmt::format("{}, once", row->legal)});
    }
    place = word;
  }
  for (size_t i = 0; i < written.size(); ++i) {
    const auto& [legal, words, optional] = ldmatrix_qualifiers[i];
    if (written[i].empty() && !optional)
      violations.push_back({.code = ViolationCode::missing_input,
                            .field = "qualifier",
                            .seen = "(missing)",
                            .expected = std::string(legal)});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return {.count = written[3][1] - '0', .transposed = !written[4].empty(), .store = name == "stmatrix"};
}

RegisterPlace place_of(const LdMatrix& move, const LdMatrixElement& element) {
  const auto [matrix, row, col] = element;
  require_within(move, {{"matrix", matrix, move.count}, {"row", row, matrix_rows}, {"col", col, matrix_rows}});
  const int g = move.transposed ? col : row, along = move.transposed ? row : col;
  return {.thread = 4 * g + along / 2, .reg = matrix, .bit = element_bits * (along % 2)};
}

LdMatrixElement element_at(const LdMatrix& move, int thread, int reg, int bit) {
  require_within(move, {{"thread", thread, warp}, {"register", reg, move.count}, {"bit", bit, 2 * element_bits}});
  const int g = thread / 4, along = 2 * (thread % 4) + bit / element_bits;
  return {.matrix = reg, .row = move.transposed ? along : g, .col = move.transposed ? g : along};
}

int address_thread(const LdMatrix& move, int matrix, int row) {
  require_within(move, {{"matrix", matrix, move.count}, {"row", row, matrix_rows}});
  return matrix_rows * matrix + row;
}

std::optional<std::vector<MatrixBlock>> ldmatrix_blocks(const Fragment& fragment, bool transposed) {
  if (fragment.threads != warp || fragment.is_wide()) return std::nullopt;
  const LdMatrix matrix{.count = 1, .transposed = transposed};
  const int width_bits = fragment.element_bits;
  std::vector<MatrixBlock> blocks;
  for (int reg = 0; reg < fragment.registers(); ++reg) {
    std::optional<MatrixPlace> begin;  // of the block: row and bit
    for (int thread = 0; thread < warp; ++thread) {
      for (int bit = 0; bit < 2 * element_bits; bit += std::min(width_bits, element_bits)) {
        const MatrixPlace held = element_at(fragment, thread, reg, bit);
        const LdMatrixElement moved = element_at(matrix, thread, 0, bit);
        const int row = transposed ? held.col : held.row, col = transposed ? held.row : held.col;
        const MatrixPlace at{
            .row = row - moved.row,
            .col = col * width_bits + bit % width_bits - (moved.col * element_bits + bit % element_bits)};
        if (!begin) begin = at;
        if (at != *begin) return std::nullopt;
      }
    }
    blocks.push_back({.row = begin->row, .byte = begin->col / 8});
  }
  return blocks;
}

std::vector<int> ldmatrix_counts(int registers) {
  std::vector<int> counts;
  for (const int count : {4, 2, 1}) {
    for (; registers >= count; registers -= count) counts.push_back(count);
  }
  return counts;
}

}  // namespace bitmma
