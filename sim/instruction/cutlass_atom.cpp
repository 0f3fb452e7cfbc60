// SPDX-License-Identifier: MIT
#include "bitmma/instruction/cutlass_atom.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/statement.hpp"
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

/// The instructions that an atom issues, as bits: a word may belong to several.
enum Issues : uint8_t { wgmma_atom = 1, mma_sync_atom = 2, tcgen05_atom = 4, any_atom = 7 };

struct ArchitectureWord {
  std::string_view word;
  Target target;
  uint8_t issues;
};
constexpr auto architecture_words = std::to_array<ArchitectureWord>({
    {"SM70", Target::sm_70, mma_sync_atom},
    {"SM75", Target::sm_75, mma_sync_atom},
    {"SM80", Target::sm_80, mma_sync_atom},
    {"SM89", Target::sm_89, mma_sync_atom},
    {"SM90", Target::sm_90a, wgmma_atom | mma_sync_atom},
    {"SM100", Target::sm_100a, tcgen05_atom},
    {"SM103", Target::sm_103a, tcgen05_atom},
    {"SM120", Target::sm_120a, mma_sync_atom},
});

/// The meaning of the words of an atom's name.
struct Atom {
  const ArchitectureWord* architecture = nullptr;
  std::array<int, 3> shape = {};  // m, n, k; 0: not given
  std::vector<Format> types = {};
  std::optional<MmaKind> kind = {};
  OperandSource a_source = OperandSource::smem;
  bool sparse = false, saturate = false, weight_stationary = false, a_col = false, b_row = false;
  bool takes_scale_d = false, is_complex = false, is_ultra = false, has_vector_size = false;
  int cta_group = 1;
  BitOperation bit_operation = BitOperation::none;

  bool has_types() const { return !types.empty() || kind.has_value(); }
  Issues issues() const {
    if (kind) return tcgen05_atom;
    return types.size() == 3 ? wgmma_atom : mma_sync_atom;
  }
};

/// What a word decides. A name decides each once, though CUTLASS repeats some: GMMA::SPARSE::GMMA_64x32x32_...
enum class Decides : uint8_t {
  name,
  a_source,
  sparsity,
  saturation,
  stationary,
  ctas,
  bits,
  majors,
  scale_d,
  complex,
  ultra,
  vector_size,
};

struct OptionWord {
  std::string_view word;
  Decides decides;
  uint8_t issues;
  void (*set)(Atom&);
};
constexpr auto option_words = std::to_array<OptionWord>({
    {"MMA", Decides::name, any_atom, [](Atom&) {}},
    {"GMMA", Decides::name, wgmma_atom, [](Atom&) {}},
    {"UMMA", Decides::name, tcgen05_atom, [](Atom&) {}},
    {"BLOCKSCALED", Decides::name, mma_sync_atom, [](Atom&) {}},
    {"SS", Decides::a_source, wgmma_atom | tcgen05_atom, [](Atom& atom) { atom.a_source = OperandSource::smem; }},
    {"RS", Decides::a_source, wgmma_atom, [](Atom& atom) { atom.a_source = OperandSource::registers; }},
    {"TS", Decides::a_source, tcgen05_atom, [](Atom& atom) { atom.a_source = OperandSource::tmem; }},
    {"SPARSE", Decides::sparsity, any_atom, [](Atom& atom) { atom.sparse = true; }},
    {"SATURATE", Decides::saturation, wgmma_atom | mma_sync_atom, [](Atom& atom) { atom.saturate = true; }},
    {"WS", Decides::stationary, tcgen05_atom, [](Atom& atom) { atom.weight_stationary = true; }},
    {"1SM", Decides::ctas, tcgen05_atom, [](Atom& atom) { atom.cta_group = 1; }},
    {"2x1SM", Decides::ctas, tcgen05_atom, [](Atom& atom) { atom.cta_group = 2; }},
    {"SCALED", Decides::scale_d, tcgen05_atom, [](Atom& atom) { atom.takes_scale_d = true; }},
    {"INTERLEAVED", Decides::name, tcgen05_atom, [](Atom&) {}},
    // Real and imaginary parts side by side: to the instruction they are columns like others.
    {"CF32CTF32CTF32CF32", Decides::complex, tcgen05_atom, [](Atom& atom) { atom.is_complex = true; }},
    {"ULTRA", Decides::ultra, tcgen05_atom, [](Atom& atom) { atom.is_ultra = true; }},
    {"VS", Decides::vector_size, tcgen05_atom | mma_sync_atom, [](Atom& atom) { atom.has_vector_size = true; }},
    {"ANDPOPC", Decides::bits, mma_sync_atom, [](Atom& atom) { atom.bit_operation = BitOperation::and_popc; }},
    {"XORPOPC", Decides::bits, mma_sync_atom, [](Atom& atom) { atom.bit_operation = BitOperation::xor_popc; }},
    // For A and B: T is row-major, N column-major. Only mma.sync has other words than TN.
    {"TN", Decides::majors, any_atom, [](Atom& atom) { atom.a_col = false, atom.b_row = false; }},
    {"NT", Decides::majors, mma_sync_atom, [](Atom& atom) { atom.a_col = true, atom.b_row = true; }},
    {"NN", Decides::majors, mma_sync_atom, [](Atom& atom) { atom.a_col = true, atom.b_row = false; }},
    {"TT", Decides::majors, mma_sync_atom, [](Atom& atom) { atom.a_col = false, atom.b_row = true; }},
});

/// The template parameters of the atoms.
enum class Parameter : uint8_t {
  a_type,
  b_type,
  d_type,
  scale_type,
  rows,
  cols,
  vector_size,
  a_major,
  b_major,
  scale_d,
  a_sign,
  b_sign,
  saturate,
  selector,
};

struct ParameterInfo {
  Parameter id;
  std::string_view name;  // as the headers call it
};
constexpr auto parameters = std::to_array<ParameterInfo>({
    {Parameter::a_type, "a_type"},
    {Parameter::b_type, "b_type"},
    {Parameter::d_type, "c_type"},
    {Parameter::scale_type, "sf_type"},
    {Parameter::rows, "M"},
    {Parameter::cols, "N"},
    {Parameter::vector_size, "VS"},
    {Parameter::a_major, "a_major"},
    {Parameter::b_major, "b_major"},
    {Parameter::scale_d, "ScaleC"},
    {Parameter::a_sign, "a_neg"},
    {Parameter::b_sign, "b_neg"},
    {Parameter::saturate, "c_sat"},
    {Parameter::selector, "spsel"},
});
static_assert(are_in_enum_order(parameters));

/// The parameter lists of the headers; the first row that matches an atom is its list.
struct ParameterList {
  bool (*matches)(const Atom&);
  std::array<std::optional<Parameter>, 12> parameters;
};
bool issues_tcgen05(const Atom& atom) { return atom.issues() == tcgen05_atom; }
bool is_from_tmem(const Atom& atom) { return atom.a_source == OperandSource::tmem; }
bool is_wgmma_of(const Atom& atom, NumberKind kind, bool has_majors) {
  return atom.issues() == wgmma_atom && info(atom.types[1]).kind == kind &&
         (bits_of(atom.types[1]) == 16) == has_majors;
}
const auto& parameter_lists() {
  using enum Parameter;
  static constexpr auto lists = std::to_array<ParameterList>({
      // wgmma; the selector ends the list of sparse atoms.
      {[](const Atom& atom) { return is_wgmma_of(atom, NumberKind::floating, true); },
       {a_major, b_major, a_sign, b_sign, selector}},
      {[](const Atom& atom) { return is_wgmma_of(atom, NumberKind::floating, false); }, {a_sign, b_sign, selector}},
      {[](const Atom& atom) { return atom.issues() == wgmma_atom; }, {selector}},
      // mma.sync: types are arguments only of SM120's.
      {[](const Atom& atom) { return atom.issues() == mma_sync_atom && !atom.types.empty(); }, {}},
      {[](const Atom& atom) { return atom.issues() == mma_sync_atom && !atom.has_vector_size; },
       {a_type, b_type, d_type}},
      {[](const Atom& atom) { return atom.issues() == mma_sync_atom; },
       {a_type, b_type, d_type, scale_type, vector_size}},
      // tcgen05.mma
      {[](const Atom& atom) { return atom.is_complex; }, {rows, cols, a_major, b_major, a_sign, b_sign, saturate}},
      {[](const Atom& atom) { return atom.kind == MmaKind::i8 && !is_from_tmem(atom); },
       {a_type, b_type, d_type, rows, cols, a_major, b_major, saturate}},
      {[](const Atom& atom) { return issues_tcgen05(atom) && info(*atom.kind).is_fp4; },
       {a_type, b_type, d_type, scale_type, rows, cols, vector_size, a_major, b_major, a_sign, b_sign}},
      {[](const Atom& atom) { return issues_tcgen05(atom) && info(*atom.kind).has_block_scales; },
       {a_type, b_type, d_type, scale_type, rows, cols, a_major, b_major, a_sign, b_sign}},
      {[](const Atom& atom) { return atom.takes_scale_d && is_from_tmem(atom); },
       {a_type, b_type, d_type, rows, cols, a_major, b_major, scale_d, a_sign, b_sign, saturate}},
      {[](const Atom& atom) { return atom.takes_scale_d; },
       {a_type, b_type, d_type, rows, cols, a_major, b_major, scale_d, a_sign, b_sign}},
      {is_from_tmem, {a_type, b_type, d_type, rows, cols, a_major, b_major, a_sign, b_sign, saturate}},
      {issues_tcgen05, {a_type, b_type, d_type, rows, cols, a_major, b_major, a_sign, b_sign}},
  });
  return lists;
}

std::vector<Parameter> parameters_of(const Atom& atom) {
  std::vector<Parameter> parameters_of_atom;
  const auto row =
      std::ranges::find_if(parameter_lists(), [&](const ParameterList& list) { return list.matches(atom); });
  for (const std::optional<Parameter>& parameter : row->parameters) {
    if (parameter && (*parameter != Parameter::selector || atom.sparse)) parameters_of_atom.push_back(*parameter);
  }
  return parameters_of_atom;
}

/// The enumerations of the parameters. UMMA::ScaleIn and GMMA::ScaleIn have different numbers.
struct Enumerator {
  std::string_view space, type, word;
  int64_t number;
  bool value;
};
constexpr auto enumerators = std::to_array<Enumerator>({
    {"GMMA", "Major", "K", 0, false},
    {"GMMA", "Major", "MN", 1, true},
    {"GMMA", "ScaleIn", "One", 1, false},
    {"GMMA", "ScaleIn", "Neg", -1, true},
    {"GMMA", "SparseSel", "Zero", 0, false},
    {"GMMA", "SparseSel", "One", 1, true},
    {"UMMA", "Major", "K", 0, false},
    {"UMMA", "Major", "MN", 1, true},
    {"UMMA", "ScaleIn", "One", 0, false},
    {"UMMA", "ScaleIn", "Neg", 1, true},
    {"UMMA", "Saturate", "False", 0, false},
    {"UMMA", "Saturate", "True", 1, true},
});

struct TypeName {
  std::string_view name;
  Format format;
};
constexpr auto type_names = std::to_array<TypeName>({
    {"half_t", Format::f16},
    {"__half", Format::f16},
    {"bfloat16_t", Format::bf16},
    {"__nv_bfloat16", Format::bf16},
    {"tfloat32_t", Format::tf32},
    {"float", Format::f32},
    {"double", Format::f64},
    {"int", Format::s32},
    {"int32_t", Format::s32},
    {"signed char", Format::s8},
    {"int8_t", Format::s8},
    {"unsigned char", Format::u8},
    {"uint8_t", Format::u8},
    {"float_e4m3_t", Format::e4m3},
    {"float_e5m2_t", Format::e5m2},
    {"float_e2m3_t", Format::e2m3},
    {"float_e3m2_t", Format::e3m2},
    {"float_e2m1_t", Format::e2m1},
    // The same codes; the words tell TMA how to place them in shared memory.
    {"float_e2m3_unpacksmem_t", Format::e2m3},
    {"float_e3m2_unpacksmem_t", Format::e3m2},
    {"float_e2m1_unpacksmem_t", Format::e2m1},
    {"float_e2m3_unpack8bits_t", Format::e2m3},
    {"float_e3m2_unpack8bits_t", Format::e3m2},
    {"float_ue8m0_t", Format::ue8m0},
    {"float_ue4m3_t", Format::ue4m3},
});

/// The formats of "F32F16F16"; nothing if a part is not a type.
std::optional<std::vector<Format>> types_of(std::string_view word) {
  std::vector<Format> types;
  while (!word.empty() && types.size() < 5) {
    const auto row =
        std::ranges::find_if(type_words, [&](const TypeWord& type_word) { return word.starts_with(type_word.word); });
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

/// A name in front of its template arguments, and the arguments.
struct NameAndArguments {
  std::string_view name;
  std::optional<std::vector<std::string_view>> arguments = {};  // nothing: no angle brackets
};

[[noreturn]] void refuse_argument(std::string field, std::string_view seen, std::string expected,
                                  std::string fix = {}) {
  throw Error({.code = ViolationCode::malformed,
               .field = std::move(field),
               .seen = syntax::shown(seen),
               .expected = std::move(expected),
               .fix = std::move(fix),
               .source = "CUTLASS, include/cute/arch"});
}
[[noreturn]] void refuse(std::string_view seen, std::string expected, std::string fix = {}) {
  refuse_argument("name of an MMA operation of CUTLASS", seen, std::move(expected), std::move(fix));
}

/// Splits "X<A, (T)1>" at the outermost angle brackets and their commas. `{}` or `()` may follow, as in C++ code.
NameAndArguments split(std::string_view text) {
  text = syntax::trimmed(text);
  for (const std::string_view value : {"{}", "()"}) {
    if (text.ends_with(value)) text = syntax::trimmed(text.substr(0, text.size() - 2));
  }
  const size_t begin = text.find('<');
  if (begin == std::string_view::npos) return {text};
  NameAndArguments parts{syntax::trimmed(text.substr(0, begin)), std::vector<std::string_view>{}};
  std::string closes;
  size_t from = begin + 1;
  for (size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(') {
      closes += c == '<' ? '>' : ')';
    } else if ((c == '>' || c == ')') && !closes.empty()) {
      if (closes.back() != c) break;
      closes.pop_back();
    } else if (closes.empty() && (c == ',' || c == '>')) {
      const std::string_view argument = syntax::trimmed(text.substr(from, i - from));
      const bool is_last = c == '>';
      if (argument.empty() && !(is_last && parts.arguments->empty())) break;
      if (!argument.empty()) parts.arguments->push_back(argument);
      from = i + 1;
      if (!is_last) continue;
      if (i + 1 != text.size()) refuse(text.substr(i + 1), "the end of the name after its template arguments");
      return parts;
    }
  }
  refuse(text.substr(begin), "template arguments between < and >, with commas between them");
}

/// The atom inside of MMA_Atom<...> and MMA_Traits<...>.
NameAndArguments atom_in(std::string_view text) {
  NameAndArguments parts = split(text);
  for (int depth = 0; depth < 2; ++depth) {
    if (parts.name != "cute::MMA_Atom" && parts.name != "MMA_Atom" && parts.name != "cute::MMA_Traits" &&
        parts.name != "MMA_Traits")
      return parts;
    if (!parts.arguments || parts.arguments->size() != 1)
      refuse(text, "one operation in MMA_Atom or MMA_Traits", "pass the operation alone");
    parts = split(parts.arguments->front());
  }
  return parts;
}

/// The words between underscores, colons and brackets.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of("_:<>,() "), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

bool is_architecture(std::string_view word) {
  return word.size() > 2 && word.starts_with("SM") && word[2] >= '0' && word[2] <= '9';
}

const ArchitectureWord* architecture_of(std::string_view word) {
  const auto row = std::ranges::find(architecture_words, word, &ArchitectureWord::word);
  return row == architecture_words.end() ? nullptr : &*row;
}

/// Reads one word; throws Error if it is unknown.
void read_word(std::string_view word, Atom& atom) {
  if (is_architecture(word)) {
    const ArchitectureWord* row = architecture_of(word);
    if (!row) refuse(word, "SM70, SM75, SM80, SM89, SM90, SM100, SM103 or SM120");
    if (atom.architecture && atom.architecture != row)
      refuse(word, fmt::format("{}, as the name begins", atom.architecture->word));
    atom.architecture = row;
    return;
  }
  if (const auto option = std::ranges::find(option_words, word, &OptionWord::word); option != option_words.end())
    return option->set(atom);
  if (const auto kind = std::ranges::find(kind_words, word, &KindWord::word); kind != kind_words.end()) {
    if (atom.kind && atom.kind != kind->kind) refuse(word, "one kind");
    atom.kind = kind->kind;
    return;
  }
  if (const auto shape = shape_of(word)) {
    if (atom.shape[2] != 0) refuse(word, "one shape");
    atom.shape = *shape;
    return;
  }
  const auto types = types_of(word);
  if (!types || (types->size() != 3 && types->size() != 4)) {
    refuse(word,
           "a shape such as 64x128x16, types such as F32F16F16, a kind such as F16BF16, SS, RS, TS, TN, SPARSE, "
           "SATURATE, SCALED, VS, 2x1SM",
           "alternatively pass a PTX mnemonic");
  }
  if (!atom.types.empty()) refuse(word, "types once");
  atom.types = *types;
}

std::string_view name_of(Issues issues) {
  return issues == wgmma_atom ? "wgmma" : issues == mma_sync_atom ? "mma.sync" : "tcgen05.mma";
}

/// Throws Error for words that the atom's instruction has no use for, and for two words that decide the same.
void require_consistent(std::string_view name, const std::vector<std::string_view>& words, const Atom& atom) {
  const Issues issues = atom.issues();
  if (atom.architecture && (atom.architecture->issues & issues) == 0) {
    std::vector<std::string_view> able;
    for (const ArchitectureWord& row : architecture_words) {
      if ((row.issues & issues) != 0) able.push_back(row.word);
    }
    refuse(atom.architecture->word, fmt::format("{}, whose atoms issue {}", fmt::join(able, ", "), name_of(issues)));
  }
  std::vector<const OptionWord*> options;
  for (const std::string_view word : words) {
    const auto option = std::ranges::find(option_words, word, &OptionWord::word);
    if (option == option_words.end()) continue;
    if ((option->issues & issues) == 0) refuse(word, fmt::format("absent: {} has no such atom", name_of(issues)));
    for (const OptionWord* other : options) {
      if (option->decides != Decides::name && option->decides == other->decides && option->word != other->word)
        refuse(word, fmt::format("absent after {}", other->word));
    }
    options.push_back(&*option);
  }
  const auto has = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  if (has("BLOCKSCALED") && !atom.has_vector_size) refuse("BLOCKSCALED", "with VS, as in SM120_16x8x64_TN_VS");
  if (atom.is_complex != has("INTERLEAVED"))
    refuse(name, "INTERLEAVED with CF32CTF32CTF32CF32, as in SM100_MMA_TF32_TS_INTERLEAVED_CF32CTF32CTF32CF32_TN");
  if (issues == tcgen05_atom) {
    if (atom.shape[2] != 0 || !atom.types.empty()) refuse(name, "either a kind, or a shape and types");
    const bool is_plain = *atom.kind == MmaKind::f16 || *atom.kind == MmaKind::tf32;
    if (atom.takes_scale_d && !is_plain) refuse("SCALED", "absent: only F16BF16 and TF32 scale D");
    if (atom.is_complex && *atom.kind != MmaKind::tf32) refuse("INTERLEAVED", "absent without TF32");
    if (atom.is_ultra != atom.has_vector_size || (atom.is_ultra && *atom.kind != MmaKind::mxf4))
      refuse(name, "ULTRA and VS together, as in SM103_MXF4_ULTRA_SS_VS");
    if (has("TN") && !atom.is_complex) refuse("TN", "absent: the majors are template arguments");
  }
  if (issues == wgmma_atom && has("TN") && bits_of(atom.types[1]) == 16)
    refuse("TN", "absent: the majors are template arguments");
  if (issues == mma_sync_atom && atom.has_vector_size && !atom.types.empty())
    refuse("VS", "absent: the types are in the name");
}

/// Without the namespaces that CUTLASS and the standard library put in front of a type.
std::string_view without_namespaces(std::string_view text) {
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (const std::string_view space : {"cutlass::", "cute::", "detail::", "std::", "::"}) {
      if (!text.starts_with(space)) continue;
      text.remove_prefix(space.size());
      is_changed = true;
    }
  }
  return text;
}

Format type_in(std::string field, std::string_view text) {
  const std::string_view name = without_namespaces(text);
  const auto row = std::ranges::find(type_names, name, &TypeName::name);
  if (row != type_names.end()) return row->format;
  if (name.starts_with("type_erased_dynamic_"))
    refuse_argument(std::move(field), text, "a type such as float_e4m3_t", "the kernel chooses this type at run time");
  std::vector<std::string_view> names;
  for (const TypeName& known : type_names) names.push_back(known.name);
  refuse_argument(std::move(field), text, fmt::format("{}", fmt::join(names, ", ")));
}

/// An enumerator or number as C++ code or a compiler's message spells it.
struct Spelling {
  std::string_view type;  // "cute::SM90::GMMA::Major"; empty of a number or word alone
  std::string_view value;
};

/// "(T)1", "(T)(-1)", "static_cast<T>(1)", "T::MN", "MN", "1".
Spelling spelling_of(std::string_view text) {
  constexpr std::string_view cast = "static_cast<";
  Spelling spelling{{}, text};
  if (text.starts_with('(') && text.find(')') != std::string_view::npos) {
    const size_t close = text.find(')');
    spelling = {syntax::trimmed(text.substr(1, close - 1)), syntax::trimmed(text.substr(close + 1))};
    if (spelling.value.empty()) spelling = {{}, spelling.type};  // "(1)"
  } else if (text.starts_with(cast) && text.find('>') != std::string_view::npos) {
    const size_t close = text.find('>');
    spelling = {syntax::trimmed(text.substr(cast.size(), close - cast.size())),
                syntax::trimmed(text.substr(close + 1))};
  } else if (const size_t colons = text.rfind("::"); colons != std::string_view::npos) {
    spelling = {text.substr(0, colons), text.substr(colons + 2)};
  }
  if (spelling.value.size() > 2 && spelling.value.starts_with('(') && spelling.value.ends_with(')'))
    spelling.value = syntax::trimmed(spelling.value.substr(1, spelling.value.size() - 2));
  return spelling;
}

int64_t integer_in(std::string field, std::string_view text, std::string expected) {
  Spelling spelling = spelling_of(text);
  while (!spelling.value.empty() && std::string_view("uUlL").find(spelling.value.back()) != std::string_view::npos)
    spelling.value.remove_suffix(1);
  const bool is_integer_type = spelling.type.empty() || spelling.type == "int" || spelling.type == "unsigned int" ||
                               without_namespaces(spelling.type) == "uint32_t";
  const auto number = is_integer_type ? syntax::integer(spelling.value) : std::nullopt;
  if (!number) refuse_argument(std::move(field), text, std::move(expected));
  return *number;
}

/// The value of an enumerator of `type` in the namespace `space`.
bool enumerator_in(std::string field, std::string_view text, std::string_view space, std::string_view type) {
  const Spelling spelling = spelling_of(text);
  std::vector<std::string_view> path;
  for (std::string_view rest = spelling.type; !rest.empty();) {
    const size_t end = std::min(rest.find("::"), rest.size());
    const std::string_view word = syntax::trimmed(rest.substr(0, end));
    if (!word.empty() && word != "cute" && !(word == "SM90" && space == "GMMA")) path.push_back(word);
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  const bool is_of_type =
      path.empty() || (path.back() == type && (path.size() == 1 || (path.size() == 2 && path.front() == space)));
  std::vector<std::string> spellings;
  for (const Enumerator& row : enumerators) {
    if (row.space != space || row.type != type) continue;
    if (is_of_type && (spelling.value == row.word || syntax::integer(spelling.value) == row.number)) return row.value;
    spellings.push_back(fmt::format("{}::{}::{} ({})", space, type, row.word, row.number));
  }
  refuse_argument(std::move(field), text, fmt::format("{}", fmt::join(spellings, " or ")));
}

/// The values of an atom's template arguments; absent ones keep their defaults.
struct Values {
  std::optional<Format> a, b, d, scale_type;
  std::optional<int64_t> m, n, vector_size;
  int64_t scale_d = 0;
  bool transpose_a = false, transpose_b = false, negate_a = false, negate_b = false, saturate = false, selector = false;
};

void read_argument(Parameter parameter, std::string_view text, std::string_view space, Values& values) {
  const auto field = [&] { return fmt::format("template argument {}", parameters[size_t(parameter)].name); };
  const auto enumerator = [&](std::string_view type) { return enumerator_in(field(), text, space, type); };
  using enum Parameter;
  switch (parameter) {
    case a_type: values.a = type_in(field(), text); return;
    case b_type: values.b = type_in(field(), text); return;
    case d_type: values.d = type_in(field(), text); return;
    case scale_type: values.scale_type = type_in(field(), text); return;
    case rows: values.m = integer_in(field(), text, "a number of rows, such as 128"); return;
    case cols: values.n = integer_in(field(), text, "a number of columns, such as 256"); return;
    case vector_size: values.vector_size = integer_in(field(), text, "the elements that share a scale"); return;
    case a_major: values.transpose_a = enumerator("Major"); return;
    case b_major: values.transpose_b = enumerator("Major"); return;
    case scale_d: values.scale_d = integer_in(field(), text, "0..15: D * 2^-ScaleC is added"); return;
    case a_sign: values.negate_a = enumerator("ScaleIn"); return;
    case b_sign: values.negate_b = enumerator("ScaleIn"); return;
    case saturate: values.saturate = enumerator("Saturate"); return;
    case selector: values.selector = enumerator("SparseSel"); return;
  }
}

/// A number that fits into an instruction's field; legality is checked later.
int number(Parameter parameter, int64_t value) {
  if (value < 0 || value > 4096)
    refuse_argument(fmt::format("template argument {}", parameters[size_t(parameter)].name), std::to_string(value),
                    "0..4096");
  return static_cast<int>(value);
}

/// Whether a scale is shared by 16 or 32 elements of a dense product. VS counts the elements of a sparse A before
/// compression, twice as many.
bool has_scale_for_16(const Atom& atom, int64_t vector_size) {
  const int64_t dense = atom.sparse ? vector_size / 2 : vector_size;
  if (vector_size == 16 * (atom.sparse ? 2 : 1) || vector_size == 32 * (atom.sparse ? 2 : 1)) return dense == 16;
  refuse_argument("template argument VS", std::to_string(vector_size), atom.sparse ? "32 or 64" : "16 or 32");
}

Instruction wgmma_of(const Atom& atom, const Values& values) {
  const auto [m, n, k] = atom.shape;
  return Wgmma{.m = m,
               .n = n,
               .d = atom.types[0],
               .a = atom.types[1],
               .b = atom.types[2],
               .sparse = atom.sparse,
               .k = k,
               .saturate = atom.saturate,
               .a_source = atom.a_source,
               .negate_a = values.negate_a,
               .negate_b = values.negate_b,
               .transpose_a = values.transpose_a,
               .transpose_b = values.transpose_b,
               .sparsity_selector = values.selector ? 1 : 0};
}

Instruction mma_sync_of(const Atom& atom) {
  const auto [m, n, k] = atom.shape;
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

/// SM120's atoms. The shape decides the kind: K = 32 holds bytes, K = 64 packed 4-bit codes; twice as many of sparse.
Instruction mma_sync_of_types(std::string_view name, const Atom& atom, const Values& values) {
  const auto [m, n, k] = atom.shape;
  if (!values.a || !values.b || !values.d)
    refuse(name, "a_type, b_type and c_type as template arguments", "the types are template arguments");
  if (!atom.has_vector_size) {
    return MmaSync{.kind = MmaKind::f8f6f4,
                   .m = m,
                   .n = n,
                   .d = *values.d,
                   .a = *values.a,
                   .b = *values.b,
                   .sparse = atom.sparse,
                   .k = k,
                   .a_col = atom.a_col,
                   .b_row = atom.b_row,
                   .saturate = atom.saturate};
  }
  if (!values.scale_type || !values.vector_size)
    refuse(name, "sf_type and VS as template arguments", "they decide the size of the scale vector");
  const bool is_fp4 = k == (atom.sparse ? 128 : 64);
  const bool is_for_16 = has_scale_for_16(atom, *values.vector_size);
  if (!is_fp4 && is_for_16)
    refuse_argument("template argument VS", std::to_string(*values.vector_size), atom.sparse ? "64" : "32");
  return MmaSync{.kind = is_fp4 ? MmaKind::mxf4nvf4 : MmaKind::mxf8f6f4,
                 .m = m,
                 .n = n,
                 .d = *values.d,
                 .a = *values.a,
                 .b = *values.b,
                 .sparse = atom.sparse,
                 .k = k,
                 .a_col = atom.a_col,
                 .b_row = atom.b_row,
                 .saturate = atom.saturate,
                 .scale_vec = !is_fp4     ? ScaleVec::x1
                              : is_for_16 ? ScaleVec::x4
                                          : ScaleVec::x2,
                 .scale_type = *values.scale_type};
}

Instruction tcgen05_of(std::string_view name, const Atom& atom, const Values& values) {
  MmaKind kind = *atom.kind;
  ScaleVec scale_vec = Tcgen05Mma{.kind = kind}.scale_vec;
  if (values.vector_size) {
    // VS decides the kind of MXF4's atoms and of MXF4NVF4's sparse ones: 16 is NVFP4, 32 is MXFP4.
    const bool is_for_16 = has_scale_for_16(atom, *values.vector_size);
    if (is_for_16 || atom.is_ultra) kind = MmaKind::mxf4nvf4;
    else if (atom.sparse) kind = MmaKind::mxf4;
    scale_vec = is_for_16 ? ScaleVec::block16 : ScaleVec::block32;
  } else if (atom.is_ultra) {
    refuse(name, "template arguments with VS, 16 or 32", "VS decides the size of the scale vector");
  }
  Tcgen05Mma mma{.kind = kind,
                 .cta_group = atom.cta_group,
                 .weight_stationary = atom.weight_stationary,
                 .sparse = atom.sparse,
                 .saturate = values.saturate,
                 .a_source = atom.a_source,
                 .scale_input_d = number(Parameter::scale_d, values.scale_d),
                 .negate_a = values.negate_a,
                 .negate_b = values.negate_b,
                 .transpose_a = values.transpose_a,
                 .transpose_b = values.transpose_b,
                 .scale_vec = scale_vec};
  if (values.m) mma.m = number(Parameter::rows, *values.m);
  if (values.n) mma.n = number(Parameter::cols, *values.n);
  mma.d = values.d.value_or(mma.d);
  mma.a = values.a.value_or(mma.a);
  mma.b = values.b.value_or(values.a.value_or(mma.b));
  mma.scale_type = values.scale_type.value_or(mma.scale_type);
  if (atom.is_ultra) mma.k = 96;
  return mma;
}

}  // namespace

bool looks_like_cutlass_atom(std::string_view name) {
  for (const std::string_view prefix : {"cute::", "MMA_Atom<", "cute::", "MMA_Traits<", "cute::"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  return is_architecture(name);
}

std::optional<Target> target_of_cutlass_atom(std::string_view name) {
  for (const std::string_view word : words_of(name)) {
    if (const ArchitectureWord* row = architecture_of(word)) return row->target;
  }
  return std::nullopt;
}

CutlassAtom read_cutlass_atom(std::string_view name) {
  const NameAndArguments parts = atom_in(name);
  Atom atom;
  const std::vector<std::string_view> words = words_of(parts.name);
  for (const std::string_view word : words) {
    if (word != "cute") read_word(word, atom);
  }
  const bool has_shape = atom.shape[2] != 0;
  const bool takes_types = atom.architecture && atom.architecture->target == Target::sm_120a && has_shape;
  if (!atom.has_types() && !takes_types) {
    refuse(name, "a shape and types, or a kind of tcgen05.mma",
           has_shape ? "only SM120's types are template arguments; pass the PTX mnemonic instead" : "");
  }
  if (!atom.kind && !has_shape) refuse(name, "a shape and types, or a kind of tcgen05.mma");
  require_consistent(name, words, atom);

  const std::vector<Parameter> list = parameters_of(atom);
  CutlassAtom result;
  Values values;
  const std::vector<std::string_view> arguments = parts.arguments.value_or(std::vector<std::string_view>{});
  if (arguments.size() > list.size()) {
    std::vector<std::string_view> names;
    for (const Parameter parameter : list) names.push_back(parameters[size_t(parameter)].name);
    refuse_argument("template arguments", arguments[list.size()],
                    list.empty() ? "none" : fmt::format("no more than {}", fmt::join(names, ", ")));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    read_argument(list[i], arguments[i], atom.issues() == tcgen05_atom ? "UMMA" : "GMMA", values);
    result.arguments.push_back({std::string(parameters[size_t(list[i])].name), std::string(arguments[i])});
  }
  if (atom.architecture) result.target = atom.architecture->target;
  switch (atom.issues()) {
    case wgmma_atom: result.instruction = wgmma_of(atom, values); break;
    case tcgen05_atom: result.instruction = tcgen05_of(name, atom, values); break;
    default: result.instruction = atom.types.empty() ? mma_sync_of_types(name, atom, values) : mma_sync_of(atom);
  }
  return result;
}

Instruction parse_cutlass_atom(std::string_view name) { return read_cutlass_atom(name).instruction; }

Instruction parse_mnemonic_or_atom(std::string_view text) {
  return looks_like_cutlass_atom(text) ? parse_cutlass_atom(text) : parse_instruction(text);
}

}  // namespace bitmma
