// Where every element is, as integer arrays; descriptors taken apart and put together.
#include <fmt/format.h>

#include <deque>
#include <initializer_list>

#include "binding.hpp"
#include "bitmma/analysis/draw.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

constexpr int64_t most_places = int64_t{1} << 26;

/// Integer arrays of one shape that are filled place by place.
class Places {
 public:
  Places(std::initializer_list<int64_t> shape, int arrays) {
    int64_t places = 1;
    for (const int64_t extent : shape) {
      if (extent < 0 || (extent > 0 && places > most_places / extent))
        throw Error({.field = "shape",
                     .seen = std::to_string(extent),
                     .expected = "extents of 0 or more, of at most 2^26 elements"});
      places *= extent;
    }
    for (int i = 0; i < arrays; ++i) {
      arrays_.push_back(numpy_array(std::span(shape.begin(), shape.size()), "int64"));
      buffers_.emplace_back(arrays_.back(), "places", true);
    }
  }
  /// The next place, in row-major order.
  void add(std::initializer_list<int64_t> numbers) {
    size_t i = 0;
    for (const int64_t number : numbers) static_cast<int64_t*>(buffers_[i++].data())[next_] = number;
    ++next_;
  }
  nb::tuple arrays() const {
    nb::list all;
    for (const nb::object& array : arrays_) all.append(array);
    return nb::tuple(all);
  }

 private:
  std::vector<nb::object> arrays_ = {};
  std::deque<Buffer> buffers_ = {};
  int64_t next_ = 0;
};

Major parse_major(std::string_view name) {
  if (name == "k" || name == "k-major") return Major::k;
  if (name == "mn" || name == "mn-major") return Major::mn;
  throw Error({.field = "major", .seen = std::string(name), .legal = {"k", "mn"}});
}

void require_element_bits(int bits) {
  if (bits == 1 || bits == 4 || bits == 6 || bits == 8 || bits == 16 || bits == 32) return;
  throw Error({.field = "element_bits", .seen = std::to_string(bits), .legal = {"1", "4", "6", "8", "16", "32"}});
}

SmemMatrix smem_matrix(uint64_t word, int rows, int cols, int element_bits, std::string_view major,
                       std::string_view target) {
  if (rows < 0 || cols < 0 || rows > 1 << 20 || cols > 1 << 20)
    throw Error(
        {.field = "rows, cols", .seen = fmt::format("{}, {}", rows, cols), .expected = "0 or more, at most 2^20"});
  if (int64_t{rows} * cols > most_places)
    throw Error(
        {.field = "rows, cols", .seen = fmt::format("{} x {}", rows, cols), .expected = "at most 2^26 elements"});
  require_element_bits(element_bits);
  return {.descriptor = decode_smem_descriptor(parse_target(target), word),
          .major = parse_major(major),
          .element_bits = element_bits,
          .rows = rows,
          .cols = cols};
}

nb::tuple smem_places(uint64_t word, int rows, int cols, int element_bits, std::string_view major,
                      std::string_view target) {
  const SmemMap map(smem_matrix(word, rows, cols, element_bits, major, target));
  Places places({rows, cols}, 3);
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      const SmemPlace place = map.place_of(row, col);
      places.add({place.byte, place.bit, map.linear_of(row, col)});
    }
  }
  return places.arrays();
}

/// The fragment of an operand in registers.
Fragment fragment_in(const BoundInstruction& instruction, std::string_view operand) {
  const Mma& mma = instruction.as_mma();
  if (const auto* warp = std::get_if<MmaSync>(&instruction.value)) return fragment_of(*warp, operand);
  const bool is_wgmma = std::holds_alternative<Wgmma>(instruction.value);
  if (is_wgmma && operand == "a") return wgmma_a_fragment(mma.a, mma.stored_k());
  if (is_wgmma && (operand == "c" || operand == "d")) return wgmma_d_fragment(mma.d, mma.n);
  throw Error({.field = "operand",
               .seen = std::string(operand),
               .expected = is_wgmma ? "a, c or d: B is in shared memory" : "an instruction with registers",
               .fix = "bitmma.layout.smem, bitmma.layout.tmem"});
}

nb::tuple fragment_places(const BoundInstruction& instruction, std::string_view operand) {
  const Fragment fragment = fragment_in(instruction, operand);
  Places places({fragment.rows, fragment.cols}, 3);
  for (int row = 0; row < fragment.rows; ++row) {
    for (int col = 0; col < fragment.cols; ++col) {
      const RegisterPlace place = place_of(fragment, row, col);
      places.add({place.thread, place.reg, place.bit});
    }
  }
  return nb::make_tuple(places.arrays(), fragment.threads, fragment.registers(), fragment.element_bits,
                        print_cute(fragment));
}

template <typename PlaceOf>
nb::tuple tmem_places(int rows, int cols, const PlaceOf& place_of) {
  Places places({rows, cols}, 4);
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      const TmemPlace place = place_of(row, col);
      places.add({place.cta, place.lane, place.column, place.bit});
    }
  }
  return places.arrays();
}

/// Arrays of the places of one operand as the instruction finds it in a state.
nb::tuple places_in(const Case& one, std::string_view operand) {
  const Mma mma = mma_of(one.instruction);
  const Role role = operand == "a" ? Role::a : operand == "b" ? Role::b : Role::d;
  if (operand != "a" && operand != "b" && operand != "c" && operand != "d")
    throw Error({.field = "operand", .seen = std::string(operand), .legal = {"a", "b", "c", "d"}});
  const PlaceMap map(one.instruction, one.target, one.before, role);
  const int rows = role == Role::b ? mma.k : mma.m, cols = role == Role::a ? mma.stored_k() : mma.n;
  Places places({rows, cols}, 4);
  std::string kind;
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      const Place place = map.place_of(row, col);
      if (const auto* smem = std::get_if<SmemRead>(&place)) {
        kind = "smem", places.add({smem->cta, smem->place.byte, smem->place.bit, smem->linear});
      } else if (const auto* in = std::get_if<RegisterPlace>(&place)) {
        kind = "registers", places.add({in->thread, in->reg, in->bit, 0});
      } else {
        const auto& cell = std::get<TmemPlace>(place);
        kind = "tmem", places.add({cell.cta, cell.lane, cell.column, cell.bit});
      }
    }
  }
  return nb::make_tuple(kind, places.arrays());
}

LdSt ldst_of(std::string_view shape, int num, bool pack_16b) {
  for (const LdStInfo& row : ldst_shapes) {
    if (row.name != shape) continue;
    LdSt move{.shape = row.id, .num = num, .pack_16b = pack_16b};
    require_legal(move);
    if (row.id == LdStShape::s16x32bx2) move.split_columns = num << pack_16b;
    return move;
  }
  throw Error({.code = ViolationCode::unknown_name,
               .field = "shape",
               .seen = std::string(shape),
               .legal = row_names(ldst_shapes)});
}

SmemDescriptor descriptor_of(std::string_view target, int64_t start, int64_t leading, int64_t stride, int base_offset,
                             std::string_view swizzle, bool leading_absolute) {
  const auto mode = swizzle_named(swizzle);
  if (!mode) throw Error({.field = "swizzle", .seen = std::string(swizzle), .legal = row_names(swizzles)});
  const Target on = parse_target(target);
  SmemDescriptor descriptor{.target = on,
                            .start_address_bytes = start,
                            .strides = {.leading_dim_byte_offset = leading, .stride_dim_byte_offset = stride},
                            .base_offset = base_offset,
                            .swizzle = *mode,
                            .leading_dim_absolute = leading_absolute};
  return descriptor;
}

}  // namespace

void bind_layout(nb::module_& module) {
  module.def("smem_places", smem_places);
  module.def("smem_cute",
             [](uint64_t word, int rows, int cols, int element_bits, std::string_view major, std::string_view target) {
               return print_cute(smem_matrix(word, rows, cols, element_bits, major, target));
             });
  module.def("smem_svg", [](uint64_t word, int rows, int cols, int element_bits, std::string_view major,
                            std::string_view target, int max_lines) {
    const SmemMap map(smem_matrix(word, rows, cols, element_bits, major, target));
    return to_svg(picture_of_smem(map, max_lines));
  });
  module.def("fragment_places", fragment_places);
  module.def("fragment_svg", [](const BoundInstruction& instruction, std::string_view operand, int max_cols) {
    const Fragment fragment = fragment_in(instruction, operand);
    Picture picture = picture_of_fragment(fragment, max_cols);
    picture.title = fmt::format("{} of {}", operand, print(instruction.value));
    picture.notes.insert(picture.notes.begin(), "CuTe (thread, value) -> row + rows * column: " + print_cute(fragment));
    return to_svg(picture);
  });
  module.def("tmem_d_places", [](int m, int n, int cta_group, bool ws, bool sparse, uint32_t address) {
    const TmemD d{
        .layout = find_tmem_layout(m, cta_group, ws, sparse), .n = n, .address = decode_tmem_address(address)};
    require_fits(d);
    return nb::make_tuple(std::string(1, d.layout.name), print_cute(d),
                          tmem_places(m, n, [&](int row, int col) { return d.place_of(row, col); }));
  });
  module.def("tmem_a_places", [](int m, int k, int element_bits, int cta_group, bool ws, bool sparse, uint32_t address,
                                 int copy) {
    require_element_bits(element_bits);
    const TmemA a{.layout = find_tmem_layout(m, cta_group, ws, sparse),
                  .element_bits = element_bits,
                  .address = decode_tmem_address(address)};
    require_fits(a, k);
    if (copy < 0 || copy >= a.copies())
      throw Error({.field = "copy", .seen = std::to_string(copy), .expected = fmt::format("0..{}", a.copies() - 1)});
    return tmem_places(m, k, [&](int row, int col) { return a.place_of(row, col, copy); });
  });
  module.def("ldst_places", [](std::string_view shape, int num, bool pack_16b) {
    const LdSt move = ldst_of(shape, num, pack_16b);
    const int halves = pack_16b ? 2 : 1;
    Places places({32, move.registers(), halves}, 2);
    for (int thread = 0; thread < 32; ++thread) {
      for (int reg = 0; reg < move.registers(); ++reg) {
        for (int half = 0; half < halves; ++half) {
          const TmemAddress cell = move.place_of(thread, reg, half);
          places.add({cell.lane, cell.column});
        }
      }
    }
    return places.arrays();
  });
  module.def("ldmatrix_places", [](int count, bool transposed, bool store) {
    const LdMatrix move{.count = count, .transposed = transposed, .store = store};
    require_legal(move);
    Places places({count, 8, 8}, 3);
    for (int matrix = 0; matrix < count; ++matrix) {
      for (int row = 0; row < 8; ++row) {
        for (int col = 0; col < 8; ++col) {
          const RegisterPlace place = place_of(move, LdMatrixElement{matrix, row, col});
          places.add({place.thread, place.reg, place.bit});
        }
      }
    }
    return places.arrays();
  });
  module.def("scale_places", [](int64_t rows, int64_t blocks) {
    const ScaleImage image{.rows = rows, .blocks = blocks};
    Places places({rows, blocks}, 1);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t block = 0; block < blocks; ++block) places.add({image.offset_of(row, block)});
    }
    return nb::make_tuple(image.bytes(), places.arrays());
  });
  module.def("cute_places", [](std::string_view text, int element_bits) {
    require_element_bits(element_bits);
    const CuteLayout cute = parse_cute(text, element_bits);
    Places places({cute.rows, cute.cols}, 1);
    for (int64_t row = 0; row < cute.rows; ++row) {
      for (int64_t col = 0; col < cute.cols; ++col) places.add({cute.byte_of(row, col, cute.element_bits)});
    }
    return places.arrays();
  });
  module.def("operand_places",
             [](const BoundCase& one, std::string_view operand) { return places_in(one.value, operand); });

  module.def(
      "decode_smem",
      [](uint64_t word, std::string_view target, std::optional<std::string_view> major) {
        return from_json(report_smem_descriptor(parse_target(target), word,
                                                major ? std::optional(parse_major(*major)) : std::nullopt));
      },
      "word"_a, "target"_a, "major"_a.none());
  module.def("decode_idesc", [](std::string_view kind, uint32_t word) {
    return from_json(report_instruction_descriptor(parse_kind(kind), word));
  });
  module.def("encode_smem", [](std::string_view target, int64_t start, int64_t leading, int64_t stride, int base_offset,
                               std::string_view swizzle, bool leading_absolute) {
    return encode(descriptor_of(target, start, leading, stride, base_offset, swizzle, leading_absolute));
  });
  module.def("encode_idesc", [](const BoundInstruction& instruction) {
    const auto* one = std::get_if<Tcgen05Mma>(&instruction.value);
    if (!one)
      throw Error({.field = "instruction",
                   .seen = print(instruction.value),
                   .expected = "a tcgen05.mma: others have no instruction descriptor"});
    return idesc_of(*one);
  });
}

}  // namespace bitmma::python
