// SPDX-License-Identifier: MIT
#include "bitmma/instruction/cutlass_atom.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "bitmma/core/error.hpp"
#include "text/words.hpp"

namespace bitmma {
namespace {

struct TypeWord {
  std::string_view word;
  Format format;
};
constexpr auto type_words = std::to_array<TypeWord>({
    {"F64", Format::f64},
    {"F32", Format::f32},
    {"F16", Format::f16},
    {"BF16", Format::bf16},
    {"TF32", Format::tf32},
    {"E4M3", Format::e4m3},
    {"E5M2", Format::e5m2},
    {"E2M3", Format::e2m3},
    {"E3M2", Format::e3m2},
    {"E2M1", Format::e2m1},
    {"S32", Format::s32},
    {"S8", Format::s8},
    {"U8", Format::u8},
    {"S4", Format::s4},
    {"U4", Format::u4},
    {"U1", Format::b1},
});

struct KindWord {
  std::string_view word;
  MmaKind kind;
};
constexpr auto kind_words = std::to_array<KindWord>({
    {"F16BF16", MmaKind::f16},
    {"TF32", MmaKind::tf32},
    {"S8", MmaKind::i8},
    {"F8F6F4", MmaKind::f8f6f4},
    {"MXF8F6F4", MmaKind::mxf8f6f4},
    {"MXF4", MmaKind::mxf4},
    {"MXF4NVF4", MmaKind::mxf4nvf4},
});

/// The meaning of the words of an atom's name.
struct Atom {
  std::array<int, 3> shape = {};  // m, n, k; 0: not given
  std::vector<Format> types = {};
  std::optional<MmaKind> kind = {};
  OperandSource a_source = OperandSource::smem;
  bool sparse = false, saturate = false, weight_stationary = false, a_col = false, b_row = false;
  int cta_group = 1;
  BitOperation bit_operation = BitOperation::none;
};

struct OptionWord {
  std::string_view word;
  void (*set)(Atom&);
};
constexpr auto option_words = std::to_array<OptionWord>({
    {"MMA", [](Atom&) {}},
    {"GMMA", [](Atom&) {}},
    {"UMMA", [](Atom&) {}},
    {"SS", [](Atom& atom) { atom.a_source = OperandSource::smem; }},
    {"RS", [](Atom& atom) { atom.a_source = OperandSource::registers; }},
    {"TS", [](Atom& atom) { atom.a_source = OperandSource::tmem; }},
    {"SPARSE", [](Atom& atom) { atom.sparse = true; }},
    {"SATURATE", [](Atom& atom) { atom.saturate = true; }},
    {"WS", [](Atom& atom) { atom.weight_stationary = true; }},
    {"1SM", [](Atom& atom) { atom.cta_group = 1; }},
    {"2x1SM", [](Atom& atom) { atom.cta_group = 2; }},
    {"ANDPOPC", [](Atom& atom) { atom.bit_operation = BitOperation::and_popc; }},
    {"XORPOPC", [](Atom& atom) { atom.bit_operation = BitOperation::xor_popc; }},
    // For A and B: T is row-major, N column-major.
    {"TN", [](Atom& atom) { atom.a_col = false, atom.b_row = false; }},
    {"NT", [](Atom& atom) { atom.a_col = true, atom.b_row = true; }},
    {"NN", [](Atom& atom) { atom.a_col = true, atom.b_row = false; }},
    {"TT", [](Atom& atom) { atom.a_col = false, atom.b_row = true; }},
});

/// The formats of "F32F16F16"; nothing if a part is not a type.
std::optional<std::vector<Format>> types_of(std::string_view word) {
  std::vector<Format> types;
  while (!word.empty() && types.size() < 5) {
    const auto row = std::ranges::find_if(type_words, [&](const TypeWord& one) { return word.starts_with(one.word); });
    if (row == type_words.end()) return std::nullopt;
    types.push_back(row->format);
    word.remove_prefix(row->word.size());
  }
  return types;
}

/// The numbers of "64x128x16"; nothing if it is not a shape.
std::optional<std::array<int, 3>> shape_of(std::string_view word) {
  std::array<int, 3> shape{};
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), shape[i]);
    if (error != std::errc{}) return std::nullopt;
    word.remove_prefix(static_cast<size_t>(end - word.data()));
    if (word.empty() != (i == 2) || (i < 2 && word.front() != 'x')) return std::nullopt;
    word.remove_prefix(i < 2 ? 1 : 0);
  }
  return shape;
}

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  name = name.substr(0, name.find('<'));
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of("_:"), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

[[noreturn]] void refuse(std::string_view seen, std::string expected, std::string fix = {}) {
  throw Error({.field = "name of an MMA operation of CUTLASS",
               .seen = syntax::shown(seen),
               .expected = std::move(expected),
               .fix = std::move(fix),
               .source = "CUTLASS, include/cute/arch"});
}

/// Reads one word; throws Error if it is unknown.
void read_word(std::string_view word, Atom& atom) {
  if (const auto option = std::ranges::find(option_words, word, &OptionWord::word); option != option_words.end())
    return option->set(atom);
  if (const auto kind = std::ranges::find(kind_words, word, &KindWord::word); kind != kind_words.end()) {
    atom.kind = kind->kind;
    return;
  }
  if (const auto shape = shape_of(word)) {
    atom.shape = *shape;
    return;
  }
  const auto types = types_of(word);
  if (!types || (types->size() != 3 && types->size() != 4)) {
    refuse(word,
           "a shape such as 64x128x16, types such as F32F16F16, a kind such as F16BF16, SS, RS, TS, TN, SPARSE, "
           "SATURATE, 2x1SM",
           "alternatively pass a PTX mnemonic");
  }
  atom.types = *types;
}

}  // namespace

bool looks_like_cutlass_atom(std::string_view name) {
  constexpr std::string_view space = "cute::";
  if (name.starts_with(space)) name.remove_prefix(space.size());
  return name.size() > 2 && name.starts_with("SM") && name[2] >= '0' && name[2] <= '9';
}

std::optional<Target> target_of_cutlass_atom(std::string_view name) {
  for (const std::string_view word : words_of(name)) {
    if (!looks_like_cutlass_atom(word)) continue;
    const std::string plain = fmt::format("sm_{}", word.substr(2));
    const std::optional<Target> with_a = target_named(plain + "a");
    return with_a ? with_a : target_named(plain);
  }
  return std::nullopt;
}

Instruction parse_cutlass_atom(std::string_view name) {
  Atom atom;
  for (const std::string_view word : words_of(name)) {
    if (word == "cute" || looks_like_cutlass_atom(word)) continue;
    read_word(word, atom);
  }
  const bool has_shape = atom.shape[2] != 0;
  if (atom.kind && atom.types.empty()) {
    return Tcgen05Mma{.kind = *atom.kind,
                      .cta_group = atom.cta_group,
                      .weight_stationary = atom.weight_stationary,
                      .sparse = atom.sparse,
                      .a_source = atom.a_source};
  }
  if (!has_shape || atom.types.empty()) {
    refuse(name, "a shape and types, or a kind of tcgen05.mma",
           has_shape ? "the types are template arguments; pass the PTX mnemonic instead" : "");
  }
  const auto [m, n, k] = atom.shape;
  if (atom.types.size() == 3) {
    return Wgmma{.m = m,
                 .n = n,
                 .d = atom.types[0],
                 .a = atom.types[1],
                 .b = atom.types[2],
                 .sparse = atom.sparse,
                 .k = k,
                 .saturate = atom.saturate,
                 .a_source = atom.a_source};
  }
  MmaSync mma{.m = m,
              .n = n,
              .d = atom.types[0],
              .a = atom.types[1],
              .b = atom.types[2],
              .c = atom.types[3],
              .sparse = atom.sparse,
              .k = k,
              .a_col = atom.a_col,
              .b_row = atom.b_row,
              .saturate = atom.saturate};
  if (atom.bit_operation != BitOperation::none) mma.bit_operation = atom.bit_operation;
  return mma;
}

}  // namespace bitmma
