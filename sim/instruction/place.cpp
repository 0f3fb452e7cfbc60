#include "bitmma/instruction/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "bitmma/core/bits.hpp"
#include "bitmma/instruction/mma_sync.hpp"

namespace bitmma {
namespace {

constexpr int64_t pattern_alignment = 1024;  // base offset 0 in every swizzle mode
constexpr int64_t window_bytes = 1 << 18;    // what the 14 stored bits of an address reach

SmemDescriptor plan_operand(std::string_view operand, const OperandLayout& layout, int element_bits, int rows, int cols,
                            int64_t start, std::vector<Violation>& violations) {
  const SwizzleInfo& swizzle = info(layout.swizzle);
  if (layout.padding_bytes < 0 || layout.padding_bytes % 16 != 0) {
    violations.push_back({.field = fmt::format("padding of {}", operand),
                          .seen = std::to_string(layout.padding_bytes),
                          .legal = "a multiple of 16 bytes, 0 or more",
                          .fix = "strides are stored in units of 16 bytes"});
  }
  return {.start_address_bytes = start + layout.start_bytes,
          .strides = minimal_strides(layout.major, swizzle, element_bits, rows, cols, layout.padding_bytes),
          .base_offset = layout.base_offset,
          .swizzle = layout.swizzle};
}

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int64_t end_of(const SmemDescriptor& descriptor, Major major, int element_bits, int rows, int cols) {
  return end_byte(
      SmemMap({.descriptor = descriptor, .major = major, .element_bits = element_bits, .rows = rows, .cols = cols}));
}

}  // namespace

OperandLayout parse_operand_layout(std::string_view text) {
  const size_t at = text.find('@'), colon = text.find(':');
  const std::string_view layout = text.substr(0, at), major = layout.substr(0, colon);
  const std::optional<Swizzle> mode =
      swizzle_named(colon == std::string_view::npos ? "" : layout.substr(std::min(colon + 1, layout.size())));
  int64_t start = 0;
  bool start_is_number = true;
  if (at != std::string_view::npos) {
    const std::string_view number = text.substr(at + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), start);
    start_is_number = error == std::errc{} && end == number.data() + number.size() && start >= 0 && start % 16 == 0 &&
                      start < window_bytes;
  }
  if ((major != "k-major" && major != "mn-major") || !mode || !start_is_number) {
    throw Error({.field = "layout",
                 .seen = std::string(text),
                 .legal = "k-major or mn-major, a colon, then none, 32, 64, 128 or 128-atom32; then perhaps @ and a "
                          "start in bytes, a multiple of 16",
                 .fix = "for example k-major:128 or k-major:128@32"});
  }
  return {.major = major == "k-major" ? Major::k : Major::mn, .swizzle = *mode, .start_bytes = start};
}

Instruction with_majors(Instruction instruction, const OperandLayout& a, const OperandLayout& b) {
  if (instruction.a_source == OperandSource::smem) instruction.imm_trans_a = a.major == Major::mn;
  instruction.imm_trans_b = b.major == Major::mn;
  return instruction;
}

Placement plan_placement(const Instruction& instruction, const OperandLayout& a, const OperandLayout& b) {
  std::vector<Violation> violations;
  Placement placement;
  if (instruction.family == Family::mma_sync) return placement;  // everything is in registers
  const int a_bits = info(instruction.a).bits, b_bits = info(instruction.b).bits;
  int64_t a_end = 0;
  if (instruction.a_source == OperandSource::smem) {
    placement.a = plan_operand("A", a, a_bits, instruction.m, instruction.stored_k(), 0, violations);
    a_end = end_of(placement.a, a.major, a_bits, instruction.m, instruction.stored_k());
  }
  const int64_t b_start = round_up(a_end, pattern_alignment);
  placement.b = plan_operand("B", b, b_bits, instruction.n, instruction.k, b_start, violations);
  const int64_t b_end = end_of(placement.b, b.major, b_bits, instruction.n, instruction.k);
  placement.image_bytes = round_up(b_end, pattern_alignment);
  if (placement.image_bytes > window_bytes) {
    violations.push_back({.field = "image",
                          .seen = fmt::format("{} bytes", placement.image_bytes),
                          .legal = fmt::format("at most {} bytes, the reach of a descriptor", window_bytes),
                          .fix = "use less padding"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return placement;
}

namespace {

/// Codes in their containers, with random padding bits around them.
BitMatrix containers_of(BitMatrix codes, int container_bits, RandomStream& filler) {
  const FormatInfo& format = info(codes.format);
  const auto all = static_cast<uint32_t>(low_mask(container_bits)),
             used = static_cast<uint32_t>(low_mask(format.bits)) << container_shift(format.id, container_bits);
  for (int row = 0; row < codes.rows(); ++row) {
    for (int col = 0; col < codes.cols(); ++col)
      codes(row, col) = codes(row, col) << container_shift(format.id, container_bits) | (filler.word() & all & ~used);
  }
  return codes;
}

void set_bits(std::vector<uint32_t>& words, const RegisterPlace& place, int width_bits, uint32_t value) {
  uint32_t& word = words[static_cast<size_t>(place.thread)];
  const auto mask = static_cast<uint32_t>(low_mask(width_bits)) << place.bit;
  word = (word & ~mask) | (value << place.bit & mask);
}

MachineState place_mma_sync(const Instruction& instruction, const Operands& operands, RandomStream filler) {
  MachineState state;
  const auto fill = [&](std::vector<uint32_t>& words, int64_t count) {
    words.resize(static_cast<size_t>(count));
    for (uint32_t& word : words) word = filler.word();
  };
  fill(state.a_regs, a_fragment(instruction).words());
  fill(state.b_regs, b_fragment(instruction).words());
  fill(state.c_regs, d_fragment(instruction).words());
  fill(state.scale_a, 32);
  fill(state.scale_b, 32);
  scatter(containers_of(operands.a, instruction.container_bits(instruction.a), filler), a_fragment(instruction),
          state.a_regs, "a_regs");
  scatter(containers_of(transposed(operands.b), instruction.container_bits(instruction.b), filler),
          b_fragment(instruction), state.b_regs, "b_regs");
  scatter(*operands.c, d_fragment(instruction), state.c_regs, "c_regs");
  for (int j = 0; j < instruction.scale_count(); ++j) {
    for (int row = 0; row < instruction.m; ++row)
      set_bits(state.scale_a, scale_a_place(instruction, row, j), 8, operands.scales->a(row, j));
    for (int col = 0; col < instruction.n; ++col)
      set_bits(state.scale_b, scale_b_place(instruction, col, j), 8, operands.scales->b(j, col));
  }
  if (!instruction.sparse) return state;
  fill(state.metadata, 32);
  const SparsePattern& pattern = sparse_pattern(instruction.container_bits(instruction.a));
  const auto per_chunk = static_cast<size_t>(pattern.stored_per_chunk);
  for (int row = 0; row < instruction.m; ++row) {
    for (int chunk = 0; chunk * pattern.chunk < instruction.k; ++chunk) {
      const size_t first = static_cast<size_t>(row) * static_cast<size_t>(instruction.stored_k()) +
                           static_cast<size_t>(chunk) * per_chunk;
      set_bits(state.metadata, ordered_metadata_place(row, chunk), 4,
               nibble_of(pattern, std::span(operands.selected_k).subspan(first, per_chunk)));
    }
  }
  return state;
}

}  // namespace

MachineState place_operands(const Instruction& instruction, const Placement& placement, const Operands& operands,
                            RandomStream filler) {
  if (instruction.family == Family::mma_sync) return place_mma_sync(instruction, operands, filler);
  MachineState state;
  state.smem.resize(placement.image_bytes);
  for (size_t i = 0; i < state.smem.size(); i += 4) {
    const uint32_t word = filler.word();
    for (size_t byte = 0; byte < 4; ++byte) state.smem[i + byte] = static_cast<uint8_t>(word >> 8 * byte);
  }
  if (instruction.a_source == OperandSource::registers) {
    state.a_regs.resize(a_fragment(instruction).words());
    scatter(operands.a, a_fragment(instruction), state.a_regs, "a_regs");
  } else {
    state.a_desc = encode(placement.a);
    scatter(operands.a, SmemMap(a_matrix(instruction, state.a_desc)), state.smem, "A");
  }
  state.b_desc = encode(placement.b);
  scatter(transposed(operands.b), SmemMap(b_matrix(instruction, state.b_desc)), state.smem, "B");
  if (instruction.sparse) {
    state.metadata = encode_metadata(metadata_layout(info(instruction.a).bits), operands.selected_k, instruction.m,
                                     instruction.sparsity_selector);
  }
  state.c_regs.resize(d_fragment(instruction).words());
  if (operands.c) {
    scatter(*operands.c, d_fragment(instruction), state.c_regs, "c_regs");
  } else {
    for (uint32_t& word : state.c_regs) word = filler.word();  // never read
  }
  return state;
}

BitMatrix logical_a(const Instruction& instruction, const Operands& operands) {
  if (!instruction.sparse) return operands.a;
  BitMatrix logical(instruction.a, instruction.m, instruction.k);
  const int stored_k = instruction.stored_k();
  for (int row = 0; row < instruction.m; ++row) {
    for (int j = 0; j < stored_k; ++j) {
      logical(row, operands.selected_k[static_cast<size_t>(row) * stored_k + j]) = operands.a(row, j);
    }
  }
  return logical;
}

void compress_a(const Instruction& instruction, const BitMatrix& logical, Operands& operands) {
  operands.selected_k.clear();
  if (!instruction.sparse) {
    operands.a = logical;
    return;
  }
  const SparsePattern& pattern = sparse_pattern(instruction.container_bits(instruction.a));
  const int kept_units = pattern.stored_per_chunk / pattern.unit, units = pattern.chunk / pattern.unit;
  operands.a = BitMatrix(instruction.a, instruction.m, instruction.stored_k());
  for (int row = 0; row < instruction.m; ++row) {
    for (int chunk = 0; chunk < instruction.k / pattern.chunk; ++chunk) {
      const int first_k = chunk * pattern.chunk;
      std::vector<int> kept;
      for (int unit = 0; unit < units; ++unit) {
        if ((logical.bits.row(row).segment(first_k + unit * pattern.unit, pattern.unit) != 0).any())
          kept.push_back(unit);
      }
      if (static_cast<int>(kept.size()) > kept_units) {
        throw Error({.field = fmt::format("a row {}, columns {}..{}", row, first_k, first_k + pattern.chunk - 1),
                     .seen = fmt::format("{} non-zero {}", kept.size(), pattern.unit == 1 ? "codes" : "pairs"),
                     .legal = fmt::format("at most {} of {}", kept_units, units),
                     .fix = "prune A to the sparsity of this type",
                     .source = "PTX ISA 9.7.15.6"});
      }
      // Fill up with the lowest free positions, then keep the order the metadata demands.
      for (int unit = 0; static_cast<int>(kept.size()) < kept_units; ++unit) {
        if (std::find(kept.begin(), kept.end(), unit) == kept.end()) kept.push_back(unit);
      }
      std::sort(kept.begin(), kept.end());
      for (int i = 0; i < pattern.stored_per_chunk; ++i) {
        const int k = first_k + kept[static_cast<size_t>(i / pattern.unit)] * pattern.unit + i % pattern.unit;
        operands.a(row, chunk * pattern.stored_per_chunk + i) = logical(row, k);
        operands.selected_k.push_back(static_cast<uint16_t>(k));
      }
    }
  }
}

}  // namespace bitmma
