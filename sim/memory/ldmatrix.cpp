// SPDX-License-Identifier: MIT
#include "bitmma/memory/ldmatrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "bitmma/core/table.hpp"

namespace bitmma {
namespace {

constexpr int warp = 32, element_bits = 16;  // of m8n8

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
  std::array<std::string_view, 4> words;
  bool optional = false;
};
struct Qualifier {
  enum Index : uint8_t { sync, aligned, shape, number, trans, space, type, packing };
};
constexpr auto ldmatrix_qualifiers = std::to_array<LdMatrixQualifier>({
    {.legal = ".sync", .words = {"sync"}},
    {.legal = ".aligned", .words = {"aligned"}},
    {.legal = ".m8n8, .m8n16, .m16n16 or .m16n8", .words = {"m8n8", "m8n16", "m16n16", "m16n8"}},
    {.legal = ".x1, .x2 or .x4", .words = {"x1", "x2", "x4"}},
    {.legal = ".trans", .words = {"trans"}, .optional = true},
    {.legal = ".shared", .words = {"shared", "shared::cta"}, .optional = true},  // omitted: a generic address
    {.legal = ".b16, .b8 or .b8x16", .words = {"b16", "b8", "b8x16"}},
    {.legal = ".b4x16_p64 or .b6x16_p32", .words = {"b4x16_p64", "b6x16_p32"}, .optional = true},
});

/// What PTX has, one row a shape.
struct LdMatrixForm {
  LdMatrixShape shape;
  std::string_view name;
  bool loads, stores;
  std::optional<bool> transposed;  // nothing: with and without
  int most = 4;
  bool is_plain = true, is_packed = false;  // legal without and with unpacking
  std::string_view legal;
};
constexpr auto ldmatrix_forms = std::to_array<LdMatrixForm>({
    {LdMatrixShape::m8n8, "m8n8", true, true, std::nullopt, 4, true, false, ".m8n8.xN{.trans}.b16"},
    {LdMatrixShape::m8n16, "m8n16", true, false, false, 4, false, true, ".m8n16.xN.b8x16.{b4x16_p64|b6x16_p32}"},
    {LdMatrixShape::m16n16, "m16n16", true, false, true, 2, true, true,
     ".m16n16.{x1|x2}.trans, and .b8 or .b8x16.{b4x16_p64|b6x16_p32}"},
    {LdMatrixShape::m16n8, "m16n8", false, true, true, 4, true, false, ".m16n8.xN.trans.b8"},
});

const LdMatrixForm& form_of(LdMatrixShape shape) {
  const auto index = static_cast<size_t>(shape);
  if (index < ldmatrix_forms.size()) return ldmatrix_forms[index];
  throw Error({.field = "shape", .seen = std::to_string(index), .legal = row_names(ldmatrix_forms)});
}

std::string_view source_of(bool store) { return store ? "PTX ISA 9.7.14.5.16" : "PTX ISA 9.7.14.5.15"; }

}  // namespace

void require_legal(const LdMatrix& move) {
  if (move.count != 1 && move.count != 2 && move.count != 4) {
    throw Error({.field = ".num",
                 .seen = fmt::format("x{}", move.count),
                 .legal = {"x1", "x2", "x4"},
                 .fix = "",
                 .source = "PTX ISA 9.7.14.5.15"});
  }
  const LdMatrixForm& form = form_of(move.shape);
  const bool is_packed = move.packed_bits != 0;
  const bool fits = (move.store ? form.stores : form.loads) &&
                    form.transposed.value_or(move.transposed) == move.transposed && move.count <= form.most &&
                    (is_packed ? form.is_packed : form.is_plain) &&
                    (!is_packed || move.packed_bits == 4 || move.packed_bits == 6);
  if (fits) return;
  throw Error({.code = ViolationCode::contradiction,
               .field = "shape, .trans, .num, type",
               .seen = print(move),
               .expected = fmt::format("{}{}",
                                       form.stores && form.loads ? ""
                                       : form.loads              ? "ldmatrix"
                                                                 : "stmatrix",
                                       form.legal),
               .source = std::string(source_of(move.store))});
}

std::string print(const LdMatrix& move) {
  const std::string_view type = move.shape == LdMatrixShape::m8n8 ? "b16"
                                : move.packed_bits == 4           ? "b8x16.b4x16_p64"
                                : move.packed_bits == 6           ? "b8x16.b6x16_p32"
                                                                  : "b8";
  return fmt::format("{}.sync.aligned.{}.x{}{}.shared.{}", move.store ? "stmatrix" : "ldmatrix",
                     form_of(move.shape).name, move.count, move.transposed ? ".trans" : "", type);
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
                            .expected = ".sync.aligned, a shape, .x1, .x2 or .x4, .trans, .shared and a type",
                            .fix = "for example ldmatrix.sync.aligned.m8n8.x4.shared.b16",
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
  LdMatrix move{.count = written[Qualifier::number][1] - '0',
                .transposed = !written[Qualifier::trans].empty(),
                .store = name == "stmatrix",
                .shape = std::ranges::find(ldmatrix_forms, written[Qualifier::shape], &LdMatrixForm::name)->shape};
  if (!written[Qualifier::packing].empty()) move.packed_bits = written[Qualifier::packing][1] - '0';
  const std::string_view expected_type = move.shape == LdMatrixShape::m8n8 ? "b16" : move.packed_bits ? "b8x16" : "b8";
  if (written[Qualifier::type] != expected_type) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "type",
                 .seen = fmt::format(".{}{}{}", written[Qualifier::type],
                                     written[Qualifier::packing].empty() ? "" : ".", written[Qualifier::packing]),
                 .expected = fmt::format("{}{}", name, form_of(move.shape).legal),
                 .source = std::string(source_of(move.store))});
  }
  require_legal(move);
  return move;
}

RegisterPlace place_of(const LdMatrix& move, const LdMatrixElement& element) {
  const auto [matrix, row, col] = element;
  require_within(move, {{"matrix", matrix, move.count}, {"row", row, move.rows()}, {"col", col, move.cols()}});
  switch (move.shape) {
    case LdMatrixShape::m8n16: return {.thread = 4 * row + col / 4, .reg = matrix, .bit = 8 * (col % 4)};
    case LdMatrixShape::m16n16:
      return {.thread = 4 * (col % 8) + row / 4, .reg = 2 * matrix + col / 8, .bit = 8 * (row % 4)};
    case LdMatrixShape::m16n8:
      return {.thread = 4 * (col % 8) + row / 2, .reg = matrix, .bit = 8 * (row % 2 + 2 * (col / 8))};
    case LdMatrixShape::m8n8: break;
  }
  const int g = move.transposed ? col : row, along = move.transposed ? row : col;
  return {.thread = 4 * g + along / 2, .reg = matrix, .bit = element_bits * (along % 2)};
}

LdMatrixElement element_at(const LdMatrix& move, int thread, int reg, int bit) {
  require_within(move, {{"thread", thread, warp}, {"register", reg, move.registers()}, {"bit", bit, 2 * element_bits}});
  if (move.shape != LdMatrixShape::m8n8) {
    const int each = move.registers_per_matrix();
    const MatrixPlace place = byte_place(move.shape, thread, reg % each, bit / 8);
    return {.matrix = reg / each, .row = place.row, .col = place.col};
  }
  const int g = thread / 4, along = 2 * (thread % 4) + bit / element_bits;
  return {.matrix = reg, .row = move.transposed ? along : g, .col = move.transposed ? g : along};
}

int address_thread(const LdMatrix& move, int matrix, int row) {
  require_within(move, {{"matrix", matrix, move.count}, {"row", row, move.rows()}});
  return move.rows() * matrix + row;
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
