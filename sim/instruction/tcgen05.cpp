#include "bitmma/instruction/tcgen05.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/memory/smem.hpp"

namespace bitmma {
namespace {

constexpr std::array<bool, 4> floats{true, true, true, false}, integers{false, false, false, true}, all_kinds{true, true, true, true};

constexpr auto forms = std::to_array<Tcgen05Form>({
    {.kinds = floats, .cta_group = 1, .m = {64, 128}, .n_first = 8, .n_step = 8, .n_text = "8..256 in steps of 8"},
    {.kinds = floats, .cta_group = 2, .m = {128, 256}, .n_first = 16, .n_step = 16, .n_text = "16..256 in steps of 16"},
    {.kinds = integers, .cta_group = 1, .m = {64, 128}, .n_is_i8_list = true, .n_text = "8, 16, 24, 32 and 48..256 in steps of 16"},
    {.kinds = integers, .cta_group = 2, .m = {128, 256}, .n_first = 32, .n_step = 32, .n_text = "32..256 in steps of 32"},
    {.kinds = all_kinds, .ws = true, .cta_group = 1, .m = {32, 64, 128}, .n_is_power = true, .n_text = "64, 128 or 256"},
});

constexpr std::string_view table_39 = "PTX ISA 9.7.16.2.1, Table 39";
constexpr int64_t image_alignment = 1024;

bool has_n(const Tcgen05Form& form, int n) {
  if (form.n_is_power) return n == 64 || n == 128 || n == 256;
  if (form.n_is_i8_list) return contains(NumberList::multiples_of_16_or_24, n);
  return n >= form.n_first && n <= 256 && n % form.n_step == 0;
}

bool is_simulated(MmaKind kind) { return kind == MmaKind::f16 || kind == MmaKind::tf32 || kind == MmaKind::f8f6f4 || kind == MmaKind::i8; }

/// Bits of an element's container in shared memory: kind::f8f6f4 keeps all its types in 16-byte groups of sixteen.
int smem_container_bits(const Instruction& instruction, Format format) {
  return instruction.kind == MmaKind::f8f6f4 ? 8 : info(format).bits;
}

int ctas(const Instruction& instruction) { return instruction.cta_group; }

SmemMatrix a_part(const Instruction& instruction, uint64_t a_desc) {
  return {.descriptor = decode_smem_descriptor(Arch::sm_100a, a_desc), .major = instruction.a_major(),
          .element_bits = smem_container_bits(instruction, instruction.a), .rows = instruction.m / ctas(instruction), .cols = instruction.k};
}

SmemMatrix b_part(const Instruction& instruction, uint64_t b_desc) {
  return {.descriptor = decode_smem_descriptor(Arch::sm_100a, b_desc), .major = instruction.b_major(),
          .element_bits = smem_container_bits(instruction, instruction.b), .rows = instruction.n / ctas(instruction), .cols = instruction.k};
}

/// Table 54: tf32 in MN-major has the mode with 32-byte atoms alone, the other types every mode but it.
void require_swizzle(const Instruction& instruction, std::string_view operand, const SmemMatrix& matrix) {
  const bool atom32 = matrix.descriptor.swizzle == Swizzle::b128_atom32, tf32 = instruction.kind == MmaKind::tf32;
  const bool legal = matrix.major == Major::k ? !atom32 : tf32 ? atom32 : !atom32;
  if (legal) return;
  throw Error({.field = fmt::format("{} swizzle", operand), .seen = std::string(info(matrix.descriptor.swizzle).name),
               .legal = matrix.major == Major::mn && tf32 ? "128-atom32 (code 1)" : "none, 32, 64 or 128 (codes 0, 6, 4, 2)",
               .fix = "", .source = "PTX ISA 9.7.16.10, Table 54"});
}

const TmemLayoutInfo& layout_of(const Instruction& instruction) {
  return find_tmem_layout(instruction.m, instruction.cta_group, instruction.weight_stationary, instruction.sparse);
}

TmemD d_in_tmem(const Instruction& instruction, uint32_t d_tmem) {
  const TmemD d{.layout = layout_of(instruction), .n = instruction.n, .address = decode_tmem_address(d_tmem)};
  require_fits(d);
  return d;
}

TmemA a_in_tmem(const Instruction& instruction, uint32_t a_tmem) {
  const TmemA a{.layout = layout_of(instruction), .element_bits = smem_container_bits(instruction, instruction.a), .address = decode_tmem_address(a_tmem)};
  require_fits(a, instruction.k);
  return a;
}

/// Lowest bit of a code in its container in Tensor Memory: e2m1 sits in bits 5:2 of its byte (as mma.sync documents; for
/// Tensor Memory a model choice), the others from bit 0.
int tmem_code_shift(const Instruction& instruction, Format format) {
  return instruction.kind == MmaKind::f8f6f4 && format == Format::e2m1 ? 2 : 0;
}

size_t cell(const TmemPlace& place, int columns) {
  return (static_cast<size_t>(place.cta) * tmem_lanes + static_cast<size_t>(place.lane)) * static_cast<size_t>(columns) + static_cast<size_t>(place.column);
}

void require_columns(std::string_view operand, int first, int count, int columns) {
  if (first + count <= columns) return;
  throw Error({.field = fmt::format("{} columns", operand), .seen = fmt::format("{}..{}", first, first + count - 1),
               .legal = fmt::format("inside the {} columns of Tensor Memory that are given", columns), .fix = "give more columns"});
}

BitMatrix gather_a(const Instruction& instruction, const Tcgen05Machine& machine, int copy) {
  BitMatrix a(instruction.a, instruction.m, instruction.k);
  if (instruction.a_source == OperandSource::tmem) {
    const TmemA map = a_in_tmem(instruction, machine.a_tmem);
    require_columns("A", map.address.column, instruction.k * map.element_bits / 32, machine.columns);
    const auto mask = static_cast<uint32_t>(low_mask(info(instruction.a).bits));
    for (int row = 0; row < instruction.m; ++row) {
      for (int k = 0; k < instruction.k; ++k) {
        const TmemPlace place = map.place_of(row, k, copy);
        a(row, k) = machine.tmem[cell(place, machine.columns)] >> (place.bit + tmem_code_shift(instruction, instruction.a)) & mask;
      }
    }
    return a;
  }
  const SmemMatrix part = a_part(instruction, machine.a_desc);
  require_swizzle(instruction, "A", part);
  for (int cta = 0; cta < ctas(instruction); ++cta) {
    a.bits.middleRows(cta * part.rows, part.rows) = gather(machine.smem[static_cast<size_t>(cta)], SmemMap(part), instruction.a, cta ? "A (odd CTA)" : "A").bits;
  }
  return a;
}

BitMatrix gather_b(const Instruction& instruction, const Tcgen05Machine& machine) {
  const SmemMatrix part = b_part(instruction, machine.b_desc);
  require_swizzle(instruction, "B", part);
  BitMatrix b(instruction.b, instruction.k, instruction.n);
  for (int cta = 0; cta < ctas(instruction); ++cta) {
    b.bits.middleCols(cta * part.rows, part.rows) = gather(machine.smem[static_cast<size_t>(cta)], SmemMap(part), instruction.b, cta ? "B (odd CTA)" : "B").bits.transpose();
  }
  return b;
}

void require_tmem(const Instruction& instruction, const Tcgen05Machine& machine) {
  const size_t expected = static_cast<size_t>(ctas(instruction)) * tmem_lanes * static_cast<size_t>(machine.columns);
  if (machine.columns >= 1 && machine.columns <= tmem_columns && machine.tmem.size() == expected) return;
  throw Error({.field = "Tensor Memory", .seen = fmt::format("{} cells, {} columns", machine.tmem.size(), machine.columns),
               .legal = fmt::format("{} CTAs of 128 lanes of 1..512 columns", ctas(instruction))});
}

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::span<const Tcgen05Form> tcgen05_forms() { return forms; }

Instruction with_idesc(Instruction instruction, uint32_t idesc) {
  const InstructionDescriptor d = decode_instruction_descriptor(instruction.kind, idesc);
  instruction.m = d.m, instruction.n = d.n;
  instruction.d = d.d, instruction.a = d.a, instruction.b = d.b;
  instruction.k = 256 / smem_container_bits(instruction, d.a);
  instruction.satfinite = d.saturate;
  instruction.imm_scale_a = d.negate_a ? -1 : 1, instruction.imm_scale_b = d.negate_b ? -1 : 1;
  instruction.imm_trans_a = d.transpose_a, instruction.imm_trans_b = d.transpose_b;
  instruction.sparsity_selector = d.sparsity_selector;
  if (d.sparse != instruction.sparse) {
    throw Error({.field = "sparse bit of the instruction descriptor", .seen = d.sparse ? "1" : "0", .legal = instruction.sparse ? "1, as the mnemonic has .sp" : "0, as the mnemonic has no .sp",
                 .fix = "", .source = "PTX ISA 9.7.16.4.2"});
  }
  return instruction;
}

uint32_t idesc_of(const Instruction& instruction) {
  return encode(InstructionDescriptor{.kind = instruction.kind, .m = instruction.m, .n = instruction.n, .d = instruction.d, .a = instruction.a, .b = instruction.b,
                                      .sparse = instruction.sparse, .sparsity_selector = instruction.sparsity_selector, .saturate = instruction.satfinite,
                                      .negate_a = instruction.imm_scale_a == -1, .negate_b = instruction.imm_scale_b == -1,
                                      .transpose_a = instruction.imm_trans_a == 1, .transpose_b = instruction.imm_trans_b == 1});
}

std::vector<Violation> tcgen05_violations(const Instruction& instruction) {
  std::vector<Violation> found;
  const auto refuse = [&](std::string field, std::string seen, std::string legal, std::string fix = {}, std::string_view source = table_39) {
    found.push_back({.field = std::move(field), .seen = std::move(seen), .legal = std::move(legal), .fix = std::move(fix), .source = std::string(source)});
  };
  if (!is_simulated(instruction.kind)) refuse("kind", std::string(info(instruction.kind).name), "f16, tf32, f8f6f4 or i8", "block scales are not in this version", "");
  if (instruction.sparse) refuse(".sp", "present", "absent", "sparse tcgen05 is not in this version", "");
  if (!found.empty()) return found;
  if (instruction.weight_stationary && instruction.cta_group != 1) refuse("cta_group", std::to_string(instruction.cta_group), "1 with .ws");
  const auto form = std::ranges::find_if(forms, [&](const Tcgen05Form& row) {
    return row.kinds[static_cast<size_t>(instruction.kind)] && row.ws == instruction.weight_stationary && row.cta_group == instruction.cta_group;
  });
  if (form == forms.end()) return found;
  if (std::ranges::find(form->m, instruction.m) == form->m.end() || instruction.m == 0) {
    std::vector<int> legal;
    std::ranges::copy_if(form->m, std::back_inserter(legal), [](int m) { return m != 0; });
    refuse("M", std::to_string(instruction.m), fmt::format("{} with cta_group::{}{}", fmt::join(legal, " or "), instruction.cta_group, instruction.weight_stationary ? " and .ws" : ""));
  }
  if (!has_n(*form, instruction.n)) refuse("N", std::to_string(instruction.n), std::string(form->n_text));
  const bool eight_bit = instruction.kind == MmaKind::f8f6f4 || instruction.kind == MmaKind::i8;
  const int transposed_step = 16 * instruction.cta_group;
  if (eight_bit && instruction.imm_trans_b == 1 && instruction.n % transposed_step != 0) {
    refuse("N", std::to_string(instruction.n), fmt::format("a multiple of {} when an 8-bit B is N-major", transposed_step), "", "PTX ISA 9.7.16.10, Table 52");
  }
  for (const auto& [name, format, transpose] : {std::tuple("transpose_a", instruction.a, instruction.imm_trans_a), std::tuple("transpose_b", instruction.b, instruction.imm_trans_b)}) {
    if (transpose == 1 && info(format).bits < 8) refuse(name, "1", fmt::format("0 for {}", info(format).name), "the sources disagree about MN-major 4- and 6-bit types", "PTX ISA Table 54");
  }
  if (instruction.a_source == OperandSource::tmem && instruction.imm_trans_a == 1) refuse("transpose_a", "1", "0 when A is in Tensor Memory", "", "PTX ISA 9.7.16.10.4");
  return found;
}

Operands gather_operands(const Instruction& instruction, const Tcgen05Machine& machine) {
  Operands operands{.a = gather_a(instruction, machine, 0), .b = gather_b(instruction, machine), .c = std::nullopt, .selected_k = {}, .mixed = {},
                    .negate_a = instruction.imm_scale_a == -1, .negate_b = instruction.imm_scale_b == -1, .saturate = instruction.satfinite};
  if (instruction.scale_d == 1) operands.c = gather_d(instruction, machine.d_tmem, machine.tmem, machine.columns);
  return operands;
}

BitMatrix gather_d(const Instruction& instruction, uint32_t d_tmem, std::span<const uint32_t> tmem, int columns) {
  const TmemD map = d_in_tmem(instruction, d_tmem);
  require_columns("D", map.address.column, map.columns(), columns);
  BitMatrix d(instruction.d, instruction.m, instruction.n);
  const auto mask = static_cast<uint32_t>(low_mask(info(instruction.d).bits));
  for (int row = 0; row < instruction.m; ++row) {
    for (int col = 0; col < instruction.n; ++col) d(row, col) = tmem[cell(map.place_of(row, col), columns)] & mask;
  }
  return d;
}

std::vector<uint32_t> simulate(const Instruction& instruction, const Tcgen05Machine& machine, const AccumulatorModel* model) {
  std::vector<Violation> violations = tcgen05_violations(instruction);
  if (!violations.empty()) throw Error(std::move(violations));
  require_tmem(instruction, machine);
  const AccumulatorModel& row_model = model ? *model : model_for(instruction);
  Operands operands = gather_operands(instruction, machine);
  BitMatrix d = multiply_accumulate(row_model, operands);
  const TmemD map = d_in_tmem(instruction, machine.d_tmem);
  if (instruction.a_source == OperandSource::tmem) {
    // Each part of N reads its own copy of A; unequal copies give each part its own product.
    for (int part = 1; part < map.layout.n_parts; ++part) {
      operands.a = gather_a(instruction, machine, part);
      const BitMatrix other = multiply_accumulate(row_model, operands);
      d.bits.middleCols(part * map.columns(), map.columns()) = other.bits.middleCols(part * map.columns(), map.columns());
    }
  }
  std::vector<uint32_t> after(machine.tmem.begin(), machine.tmem.end());
  const auto mask = static_cast<uint32_t>(low_mask(info(instruction.d).bits));
  for (int row = 0; row < instruction.m; ++row) {
    for (int col = 0; col < instruction.n; ++col) {
      const TmemPlace place = map.place_of(row, col);
      if (machine.disable_output_lane[static_cast<size_t>(4 * place.cta + place.lane / 32)] >> place.lane % 32 & 1) continue;
      uint32_t& target = after[cell(place, machine.columns)];
      target = (target & ~mask) | (d(row, col) & mask);
    }
  }
  return after;
}

std::vector<Violation> warnings(const Instruction& instruction, const Tcgen05Machine& machine) {
  std::vector<Violation> found = warnings(decode_instruction_descriptor(instruction.kind, idesc_of(instruction)));
  if (instruction.a_source == OperandSource::smem) append_warnings(found, "A", a_part(instruction, machine.a_desc));
  append_warnings(found, "B", b_part(instruction, machine.b_desc));
  return found;
}

Tcgen05State place_tcgen05(const Instruction& instruction, const OperandLayout& layout_a, const OperandLayout& layout_b, const Operands& operands, RandomStream filler) {
  const bool a_in_smem = instruction.a_source == OperandSource::smem;
  const auto plan = [&](const OperandLayout& layout, SmemMatrix matrix, int64_t start) {
    matrix.major = layout.major;
    matrix.descriptor = {.arch = Arch::sm_100a, .start_address_bytes = start + layout.start_bytes,
                         .strides = minimal_strides(layout.major, info(layout.swizzle), matrix.element_bits, matrix.rows, matrix.cols, layout.padding_bytes),
                         .base_offset = layout.base_offset, .swizzle = layout.swizzle, .reserved = uint64_t{1} << 46};
    return matrix;
  };
  // The shapes of the parts do not depend on the descriptor; any legal word will do to ask for them.
  const uint64_t any_descriptor = uint64_t{1} << 46;
  const SmemMatrix a = plan(layout_a, a_part(instruction, any_descriptor), 0);
  const int64_t b_start = a_in_smem ? round_up(end_byte(SmemMap(a)), image_alignment) : 0;
  const SmemMatrix b = plan(layout_b, b_part(instruction, any_descriptor), b_start);
  const int64_t image_bytes = round_up(end_byte(SmemMap(b)), image_alignment);

  Tcgen05State state;
  if (a_in_smem) state.a_desc = encode(a.descriptor);
  state.b_desc = encode(b.descriptor);
  for (int cta = 0; cta < ctas(instruction); ++cta) {
    std::vector<uint8_t>& image = state.smem[static_cast<size_t>(cta)];
    image.resize(static_cast<size_t>(image_bytes));
    for (uint8_t& byte : image) byte = static_cast<uint8_t>(filler.word());
    if (a_in_smem) {
      BitMatrix part(instruction.a, a.rows, a.cols);
      part.bits = operands.a.bits.middleRows(cta * a.rows, a.rows);
      scatter(part, SmemMap(a), image, "A");
    }
    BitMatrix part(instruction.b, b.cols, b.rows);
    part.bits = operands.b.bits.middleCols(cta * b.rows, b.rows);
    scatter(transposed(part), SmemMap(b), image, "B");
  }

  const TmemLayoutInfo& layout = layout_of(instruction);
  const int d_columns = instruction.n / layout.n_parts;
  const int a_columns = a_in_smem ? 0 : instruction.k * smem_container_bits(instruction, instruction.a) / 32;
  state.columns = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(32, d_columns + a_columns))));  // as alloc gives them
  state.tmem.resize(static_cast<size_t>(ctas(instruction)) * tmem_lanes * static_cast<size_t>(state.columns));
  for (uint32_t& word : state.tmem) word = filler.word();
  const TmemD d{.layout = layout, .n = instruction.n};
  if (operands.c) {
    const auto mask = static_cast<uint32_t>(low_mask(info(instruction.d).bits));
    for (int row = 0; row < instruction.m; ++row) {
      for (int col = 0; col < instruction.n; ++col) {
        uint32_t& target = state.tmem[cell(d.place_of(row, col), state.columns)];
        target = (target & ~mask) | ((*operands.c)(row, col) & mask);
      }
    }
  }
  if (!a_in_smem) {
    state.a_tmem = encode(TmemAddress{0, d_columns});
    const TmemA map = a_in_tmem(instruction, state.a_tmem);
    const auto container = static_cast<uint32_t>(low_mask(map.element_bits));
    for (int row = 0; row < instruction.m; ++row) {
      for (int k = 0; k < instruction.k; ++k) {
        for (int copy = 0; copy < map.copies(); ++copy) {
          const TmemPlace place = map.place_of(row, k, copy);
          uint32_t& target = state.tmem[cell(place, state.columns)];
          const uint32_t value = operands.a(row, k) << tmem_code_shift(instruction, instruction.a);
          target = (target & ~(container << place.bit)) | value << place.bit;
        }
      }
    }
  }
  return state;
}

}  // namespace bitmma
