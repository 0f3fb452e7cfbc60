// SPDX-License-Identifier: MIT
#include "bitmma/layout/cute.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "cute_text.hpp"

namespace bitmma {
namespace {

using cute_text::CuteReader;
using cute_text::most_number;
using cute_text::Tuple;

/// CUTLASS's names of the element types of atoms, and their bits in shared memory.
struct ElementType {
  std::string_view name;
  int bits;
};
constexpr auto element_types = std::to_array<ElementType>({
    {"half_t", 16},      {"bfloat16_t", 16},  {"tfloat32_t", 32},   {"float", 32},        {"int32_t", 32},
    {"float_e4m3_t", 8}, {"float_e5m2_t", 8}, {"float_ue8m0_t", 8}, {"float_ue4m3_t", 8}, {"int8_t", 8},
    {"uint8_t", 8},      {"float_e2m1_t", 4}, {"int4b_t", 4},       {"uint4b_t", 4},      {"uint1b_t", 1},
    {"uint128_t", 128},  {"F16", 16},         {"BF16", 16},         {"TF32", 32},         {"F32", 32},
});

/// Appends the digits of one mode with all nesting flattened.
void append_digits(const Tuple& shape, const Tuple& stride, LayoutMode& mode) {
  if (shape.is_number != stride.is_number || shape.children.size() != stride.children.size()) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "CuTe layout",
                 .seen = "shape and stride of different form",
                 .expected = "a stride for every number of the shape"});
  }
  if (shape.is_number) {
    if (shape.value < 1 || shape.value > 1 << 16)
      throw Error({.field = "CuTe shape", .seen = std::to_string(shape.value), .expected = "1..65536"});
    mode.push_back({.extent = shape.value, .stride = stride.value});
    return;
  }
  for (size_t i = 0; i < shape.children.size(); ++i) append_digits(shape.children[i], stride.children[i], mode);
}

/// The number of elements of a mode; an uncountable number exceeds any limit.
int64_t extent_of(const LayoutMode& mode) {
  constexpr int64_t most = int64_t{1} << 40;
  int64_t extent = 1;
  for (const LayoutDigit& digit : mode) extent = digit.extent > most / extent ? most : extent * digit.extent;
  return extent;
}

const SwizzleInfo* mode_of(int64_t bits, int64_t base, int64_t shift) {
  for (const SwizzleInfo& mode : swizzles) {
    if (mode.bits == bits && (bits == 0 || (mode.base == base && mode.shift == shift))) return &mode;
  }
  return nullptr;
}

/// M in bytes of a Swizzle<bits, base, shift> without a unit: bytes if these form a mode; otherwise elements. CuTe
/// counts a smaller M for wide elements and a larger M for narrow ones.
int64_t base_in_bytes(int64_t bits, int64_t base, int64_t shift, int element_bits) {
  if (bits == 0 || mode_of(bits, base, shift) || !std::has_single_bit(static_cast<unsigned>(element_bits))) return base;
  const int64_t converted = base + std::countr_zero(static_cast<unsigned>(element_bits)) - 3;
  if (element_bits > 8) return base < 4 && (converted == 4 || converted == 5) ? converted : base;
  return mode_of(bits, converted, shift) ? converted : base;
}

SwizzleInfo swizzle_in_bytes(int64_t bits, int64_t base, int64_t shift) {
  if (const SwizzleInfo* mode = mode_of(bits, base, shift)) return *mode;
  return {.id = Swizzle::none,
          .name = "other",
          .width_bytes = 16 << bits,
          .bits = static_cast<int>(bits),
          .base = static_cast<int>(base),
          .shift = static_cast<int>(shift)};
}

constexpr std::string_view suffix_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: return "INTER";
    case Swizzle::b32: return "SW32";
    case Swizzle::b64: return "SW64";
    case Swizzle::b128: return "SW128";
    case Swizzle::b128_atom32: return "SW128_32B";
  }
  return {};
}

/// "[GMMA::]Layout_K_SW128[_Atom][<half_t>]", or nothing if no such name exists.
std::optional<CuteLayout> read_atom(CuteReader& reader, int element_bits) {
  const size_t before = reader.at();
  while (reader.take_any({"cute::", "SM90::", "SM100::", "GMMA::", "UMMA::"})) {
  }
  std::string_view name = reader.name();
  if (!name.starts_with("Layout_")) {
    reader.go_back(before);
    return std::nullopt;
  }
  bool in_bits = false;
  if (name.ends_with("_Bits")) in_bits = true, name.remove_suffix(5);
  if (name.ends_with("_Atom")) name.remove_suffix(5);
  const SwizzleInfo* mode = nullptr;
  Major major = Major::k;
  for (const SwizzleInfo& row : swizzles) {
    for (const Major candidate : {Major::k, Major::mn}) {
      if (cute_atom_name(candidate, row.id) == name) mode = &row, major = candidate;
    }
  }
  if (!mode) {
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "CuTe layout",
                 .seen = shortened(name, 40),
                 .expected = "Layout_K_ or Layout_MN_, then INTER, SW32, SW64, SW128, or SW128_32B of UMMA"});
  }
  bool says_bits = in_bits;
  if (in_bits) element_bits = 1;
  if (reader.take("<")) {
    while (reader.take_any({"cutlass::", "cute::", "type::", "detail::"})) {
    }
    const std::string_view type = reader.name();
    const auto row = std::ranges::find(element_types, type, &ElementType::name);
    if (row == element_types.end() || in_bits) {
      throw Error({.code = ViolationCode::unknown_name,
                   .field = "element type of the atom",
                   .seen = shortened(type, 40),
                   .expected = "half_t, bfloat16_t, tfloat32_t, float_e4m3_t, float_e5m2_t, int8_t, uint8_t, "
                               "float_e2m1_t or uint1b_t",
                   .fix = "or omit <...> and pass the bits of an element"});
    }
    reader.expect(">");
    element_bits = row->bits;
    says_bits = true;
  }
  reader.take_any({"{}", "()"});
  CuteLayout atom = cute_atom(major, mode->id, element_bits);
  atom.says_element_bits = says_bits;
  return atom;
}

[[noreturn]] void refuse_size(std::string seen) {
  throw Error({.code = ViolationCode::too_large,
               .field = "CuTe layout",
               .seen = std::move(seen),
               .expected = "at most 1048576 of them"});
}

/// Counts rows and columns. Throws Error if there are too many.
void count(CuteLayout& cute) {
  cute.rows = extent_of(cute.layout.row), cute.cols = extent_of(cute.layout.col);
  if (cute.rows > 65536 || cute.cols > 65536 || cute.rows * cute.cols > 1 << 20)
    refuse_size(fmt::format("{} x {} elements", cute.rows, cute.cols));
  if (cute.stages() > 65536) refuse_size(fmt::format("{} stages", cute.stages()));
}

/// "tile_to_shape(ATOM, SHAPE[, STEP])": atoms side by side, by default along the rows first.
std::optional<CuteLayout> read_tiled_atom(CuteReader& reader, int element_bits) {
  if (!reader.take_any({"tile_to_shape(", "cute::tile_to_shape("})) return std::nullopt;
  std::optional<CuteLayout> atom = read_atom(reader, element_bits);
  if (!atom) reader.refuse("the name of an atom, Layout_K_SW128");
  reader.expect(",");
  const Tuple shape = reader.tuple(0);
  const size_t modes = shape.children.size();
  std::vector<int64_t> order;
  if (reader.take(",")) {
    for (const Tuple& tuple : reader.tuple(0).children) order.push_back(tuple.value);
  } else {
    for (size_t i = 0; i < modes; ++i) order.push_back(static_cast<int64_t>(i));
  }
  reader.expect(")");
  reader.take("{}");
  if (modes < 2 || modes > 8 || order.size() != modes)
    reader.refuse("a shape of two to eight modes, and as many numbers in the step");
  std::vector<size_t> by_order(modes);
  for (size_t i = 0; i < modes; ++i) by_order[i] = i;
  std::ranges::stable_sort(by_order, {}, [&](size_t i) { return order[i]; });
  CuteLayout cute = *atom;
  cute.more.resize(modes - 2);
  int64_t stride = atom->rows * atom->cols;
  for (const size_t i : by_order) {
    const int64_t atom_extent = i == 0 ? atom->rows : i == 1 ? atom->cols : 1, extent = shape.children[i].value;
    if (!shape.children[i].is_number || extent < 1 || extent > 65536 || extent % atom_extent != 0) {
      throw Error({.field = fmt::format("mode {} of tile_to_shape", i),
                   .seen = std::to_string(extent),
                   .expected = fmt::format("a multiple of the atom's {}, at most 65536", atom_extent)});
    }
    LayoutMode& mode = i == 0 ? cute.layout.row : i == 1 ? cute.layout.col : cute.more[i - 2];
    mode.push_back({.extent = extent / atom_extent, .stride = extent == atom_extent ? 0 : stride});
    if (__builtin_mul_overflow(stride, extent / atom_extent, &stride) || stride > most_number)
      refuse_size("more elements than 64 bits can count");
  }
  count(cute);
  return cute;
}

/// "smem_ptr[16b](unset) o", the address of a pointer as in descriptors. True if the text here is one.
bool read_pointer(CuteReader& reader, CuteLayout& cute) {
  if (!reader.take_any({"_smem_ptr[", "smem_ptr[", "ptr["})) return false;
  const int64_t bits = reader.number();
  if (bits < 1 || bits > 128) reader.refuse("1..128 bits of an element");
  reader.expect("b](");
  cute.element_bits = static_cast<int>(bits), cute.says_element_bits = true;
  if (!reader.take("unset")) {
    const std::string_view digits = reader.take("0x") ? reader.name() : std::string_view{};
    uint64_t address = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address, 16);
    if (error != std::errc{} || end != digits.data() + digits.size()) reader.refuse("unset, or an address 0x...");
    cute.start_bytes = static_cast<int64_t>(address & 0x3FFFF);
  }
  reader.expect(")");
  if (!reader.take_any({"o", "\u2218"})) reader.refuse("o between the pointer and the layout");
  return true;
}

/// "Swizzle<3,4,3> o" and the text that CuTe prints between it and the layout: a pointer, on whose bytes the swizzle
/// acts, or an offset of zero.
void read_swizzle(CuteReader& reader, CuteLayout& cute) {
  if (!reader.take_any({"cute::Swizzle<", "Swizzle<", "Sw<", "S<"})) {
    read_pointer(reader, cute);
    return;
  }
  const int64_t bits = reader.number();
  reader.expect(",");
  const int64_t base = reader.number();
  reader.expect(",");
  const int64_t shift = reader.number();
  reader.expect(">");
  reader.take("{}");
  if (bits > 4 || base > 8 || shift > 8) reader.refuse("Swizzle<0..4,0..8,0..8>");
  cute.swizzle = swizzle_in_bytes(bits, base, shift);
  if (read_pointer(reader, cute)) return;
  if (!reader.take_any({"o", "\u2218"})) reader.refuse("o between the swizzle and the layout");
  if (read_pointer(reader, cute)) return;
  // "_0 o": the swizzle acts on the layout itself.
  const size_t before = reader.at();
  std::string_view offset = reader.name();
  if (offset.starts_with("_")) offset.remove_prefix(1);
  const bool is_number = !offset.empty() && std::ranges::all_of(offset, [](char c) { return c >= '0' && c <= '9'; });
  const bool is_offset = is_number && reader.take_any({"o", "\u2218"});
  if (!is_offset || offset != "0") reader.go_back(before);
  if (is_offset && offset != "0") reader.refuse("an offset of 0");
  const int64_t in_bytes = base_in_bytes(bits, base, shift, cute.element_bits);
  if (in_bytes == base) return;
  const SwizzleInfo converted = swizzle_in_bytes(bits, in_bytes, shift);
  cute.remarks.push_back(fmt::format("{} counts elements of {} bits; on byte addresses it is {}", print(cute.swizzle),
                                     cute.element_bits, print(converted)));
  cute.swizzle = converted;
}

}  // namespace

int64_t CuteLayout::stages() const {
  constexpr int64_t most = int64_t{1} << 40;
  int64_t count = 1;
  for (const LayoutMode& mode : more) {
    const int64_t extent = extent_of(mode);
    count = extent > most / count ? most : count * extent;
  }
  return count;
}

int64_t CuteLayout::stage_offset(int64_t stage) const {
  LayoutMode digits;
  for (const LayoutMode& mode : more) digits.insert(digits.end(), mode.begin(), mode.end());
  return offset_of(digits, stage);
}

CuteLayout parse_cute(std::string_view text, int element_bits, const CuteSymbols& symbols) {
  return parse_cute(text, element_bits, [&](std::string_view letter) {
    return letter == "m"     ? symbols.m
           : letter == "k"   ? symbols.k
           : letter == "LBO" ? symbols.leading_dim_byte_offset
                             : symbols.stride_dim_byte_offset;
  });
}

CuteLayout parse_cute(std::string_view text, int element_bits, const CuteSymbolValue& value_of) {
  if (element_bits < 1 || element_bits > 128)  // then the bytes of all elements fit 64 bits
    throw Error({.field = "element bits", .seen = std::to_string(element_bits), .expected = "1..128"});
  CuteReader reader(text, value_of);
  std::optional<CuteLayout> named = read_tiled_atom(reader, element_bits);
  if (!named) named = read_atom(reader, element_bits);
  if (named) {
    if (!reader.done()) reader.refuse("nothing more");
    return *named;
  }
  CuteLayout cute{.swizzle = info(Swizzle::none), .layout = {}, .element_bits = element_bits};
  read_swizzle(reader, cute);
  const bool in_angles = reader.take_any({"cute::Layout<", "Layout<"});
  const bool in_call = !in_angles && reader.take_any({"cute::make_layout(", "make_layout("});
  const Tuple shape = reader.tuple(cute.element_bits);
  reader.expect(in_angles || in_call ? "," : ":");
  const Tuple stride = reader.tuple(cute.element_bits);
  if (in_angles || in_call) reader.expect(in_angles ? ">" : ")");
  reader.take("{}");
  if (!reader.done()) reader.refuse("nothing more");
  if (shape.is_number != stride.is_number || shape.children.size() != stride.children.size())
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "CuTe layout",
                 .seen = "shape and stride of different form",
                 .expected = "a stride for every number of the shape"});
  if (shape.is_number || shape.children.size() == 1) {
    append_digits(shape, stride, cute.layout.row);
    cute.layout.col = {{1, 0}};
    cute.remarks.push_back("one mode: treated as the rows of one column");
  } else {
    for (size_t i = 0; i < shape.children.size(); ++i) {
      LayoutMode& mode = i == 0 ? cute.layout.row : i == 1 ? cute.layout.col : cute.more.emplace_back();
      append_digits(shape.children[i], stride.children[i], mode);
    }
  }
  count(cute);
  return cute;
}

std::string cute_atom_name(Major major, Swizzle swizzle) {
  return fmt::format("Layout_{}_{}", major == Major::k ? "K" : "MN", suffix_of(swizzle));
}

CuteLayout cute_atom(Major major, Swizzle swizzle, int element_bits) {
  if (static_cast<size_t>(swizzle) >= swizzles.size())
    throw Error(
        {.field = "swizzle", .seen = std::to_string(static_cast<int>(swizzle)), .expected = "one of the modes"});
  if (element_bits < 1 || element_bits > 128 || 128 % element_bits != 0)
    throw Error({.field = "element bits",
                 .seen = std::to_string(element_bits),
                 .expected = "1, 2, 4, 8, 16, 32, 64 or 128: whole elements in 16 bytes"});
  const SwizzleInfo& mode = info(swizzle);
  const int64_t width = int64_t{mode.width_bytes} * 8 / element_bits;
  CuteLayout atom{.swizzle = mode, .layout = {}, .element_bits = element_bits};
  if (major == Major::k) atom.layout = {.row = {{8, width}}, .col = {{width, 1}}};
  else atom.layout = {.row = {{width, 1}}, .col = {{mode.rows_per_atom, width}}};
  atom.rows = extent_of(atom.layout.row), atom.cols = extent_of(atom.layout.col);
  return atom;
}

std::string print(const CuteLayout& cute) {
  const SwizzleInfo& swizzle = cute.swizzle;
  const bool is_plain = cute.start_bytes == 0 &&
                        base_in_bytes(swizzle.bits, swizzle.base, swizzle.shift, cute.element_bits) == swizzle.base;
  const std::string pointer =
      is_plain ? ""
               : fmt::format("smem_ptr[{}b]({}) o ", cute.element_bits,
                             cute.start_bytes == 0 ? std::string("unset") : fmt::format("{:#x}", cute.start_bytes));
  if (cute.more.empty()) return fmt::format("{} o {}{}", print(swizzle), pointer, print(cute.layout));
  std::vector<std::string> shapes, strides;
  const auto add = [&](const LayoutMode& mode) {
    std::vector<int64_t> extents, steps;
    for (const LayoutDigit& digit : mode) extents.push_back(digit.extent), steps.push_back(digit.stride);
    shapes.push_back(fmt::format("({})", fmt::join(extents, ",")));
    strides.push_back(fmt::format("({})", fmt::join(steps, ",")));
  };
  add(cute.layout.row), add(cute.layout.col);
  for (const LayoutMode& mode : cute.more) add(mode);
  return fmt::format("{} o {}({}):({})", print(swizzle), pointer, fmt::join(shapes, ","), fmt::join(strides, ","));
}

std::string print_canonical(Major major, const SwizzleInfo& swizzle) {
  const int width = swizzle.width_bytes / 16;
  if (major == Major::k)
    return fmt::format("((8,m),(T,2k)):(({}T,SBO),(1,{}))", width, swizzle.bits == 0 ? "LBO" : "T");
  return fmt::format("((T,{},m),({},k)):((1,T,{}),({}T,{}))", width, swizzle.rows_per_atom,
                     swizzle.bits == 0 ? "SBO" : "LBO", width, swizzle.bits == 0 ? "LBO" : "SBO");
}

}  // namespace bitmma
