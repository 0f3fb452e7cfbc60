// SPDX-License-Identifier: MIT
// Places the operands of a tcgen05.mma: images of both CTAs, descriptors, and D, A, metadata and scales one after
// another in Tensor Memory, with all copies filled.
#include <algorithm>
#include <bit>

#include "../../formats/matrix_inside.hpp"
#include "../family.hpp"
#include "../image_plan.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/memory/metadata.hpp"
#include "operands.hpp"

namespace bitmma::family {
namespace {

/// Allocates Tensor Memory, and then fills it.
class TmemPlan {
 public:
  TmemPlan(int ctas, const StateNumbers& numbers) : ctas_(ctas), given_(numbers) {}

  /// The address of an operand whose last column is end_of(address) - 1: the given address, or the next free one.
  template <typename EndOf>
  uint32_t take(Field field, const EndOf& end_of) {
    const auto number = std::ranges::find(given_, field, &StateNumbers::value_type::first);
    const uint32_t address = number != given_.end()
                                 ? static_cast<uint32_t>(number->second)
                                 : encode(TmemAddress{0, static_cast<int>(round_up(next_column_, 4))});
    next_column_ = std::max<int>(next_column_, end_of(address));
    return address;
  }
  /// Initially everything is filler. The number of columns is a power of two, at least 32, as for alloc.
  void allocate(RandomStream& filler) {
    columns_ = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(32, next_column_))));
    words_ = filled(int64_t{ctas_} * tmem_lanes * columns_, filler);
  }
  void write(const TmemPlace& place, int width_bits, uint32_t value) {
    uint32_t& target = words_[cell_index(place, columns_)];
    const auto mask = static_cast<uint32_t>(low_mask(width_bits)) << place.bit;
    target = (target & ~mask) | (value << place.bit & mask);
  }
  void store(State& state) && { state.set(Field::tmem, std::move(words_), {ctas_, tmem_lanes, columns_}); }

 private:
  int ctas_, next_column_ = 0, columns_ = 0;
  const StateNumbers& given_;
  std::vector<uint32_t> words_;
};

void place_images(const Tcgen05Mma& instruction, const Placement& placement, const Operands& operands, State& state,
                  RandomStream& filler) {
  const Mma mma = describe(instruction);
  const bool a_in_smem = instruction.a_source == OperandSource::smem;
  const ZeroColumnMask mask = mask_of(instruction, state);
  const int ctas = mma.cta_group, b_columns = mma.n / ctas;
  ImagePlan plan(Target::sm_100a);
  if (a_in_smem) {
    plan.add("A", placement.a, {.element_bits = mma.a_container_bits, .rows = mma.m / ctas, .cols = mma.stored_k()});
  }
  plan.add("B", placement.b,
           {.element_bits = mma.b_container_bits, .rows = b_columns + mask.column_shift, .cols = mma.k});
  plan.require_fits();
  if (a_in_smem) state.set(Field::a_desc, encode(plan.matrix(0).descriptor));
  const SmemMatrix& b = plan.matrix(a_in_smem ? 1 : 0);
  state.set(Field::b_desc, encode(b.descriptor));
  const std::vector<bool> zeroed = zeroed_columns(mask, mma.m, mma.n);
  std::vector<uint8_t> images;
  for (int cta = 0; cta < ctas; ++cta) {
    std::vector<uint8_t> image(static_cast<size_t>(plan.image_bytes()));
    for (uint8_t& byte : image) byte = static_cast<uint8_t>(filler.word());
    if (a_in_smem) {
      const SmemMatrix& a = plan.matrix(0);
      bitmma::scatter(block_of(operands.a, cta * a.rows, a.rows, 0, a.cols), SmemMap(a), image, "A");
    }
    Matrix stored = bitmma::gather(image, SmemMap(b), instruction.b, "B");  // keeps filler
    for (int col = 0; col < b_columns; ++col) {
      const int of_d = cta * b_columns + col;
      if (zeroed[static_cast<size_t>(of_d)]) continue;
      for (int k = 0; k < mma.k; ++k) stored(mask.column_shift + col, k) = operands.b(k, of_d);
    }
    bitmma::scatter(stored, SmemMap(b), image, "B");
    images.insert(images.end(), image.begin(), image.end());
  }
  state.set(Field::smem, std::move(images), ctas == 2 ? Extents{2, plan.image_bytes()} : Extents{plan.image_bytes()});
}

}  // namespace

State place(const Tcgen05Mma& instruction, const Placement& placement, const Operands& operands, RandomStream& filler) {
  const Mma mma = describe(instruction);
  const bool a_in_smem = instruction.a_source == OperandSource::smem;
  State state;
  if (placement.zero_column_mask) state.set(Field::zero_column_mask, *placement.zero_column_mask);
  place_images(instruction, placement, operands, state, filler);

  // D, A, metadata, scales of A and of B, from column 0. All addresses are known before the allocation.
  TmemPlan tmem(mma.cta_group, placement.numbers);
  const auto take = [&](Field field, const auto& end_of) { state.set(field, tmem.take(field, end_of)); };
  take(Field::d_tmem, [&](uint32_t address) {
    const TmemD d = d_in_tmem(instruction, address);
    return d.address.column + d.columns();
  });
  const TmemD d = d_in_tmem(instruction, state.word(Field::d_tmem));
  if (!a_in_smem) {
    take(Field::a_tmem, [&](uint32_t address) {
      return a_in_tmem(instruction, address).address.column + mma.stored_k() * mma.a_container_bits / 32;
    });
  }
  if (mma.sparse) {  // room for every selector
    take(Field::metadata_tmem, [&](uint32_t address) {
      const TmemMetadata metadata = metadata_in_tmem(instruction, address);
      return metadata.address.column + std::max(4, metadata.columns());
    });
  }
  if (mma.scale_count > 0) {
    const auto end_of = [&](const TmemScales& scales, int rows) {
      return scales.place_of(rows - 1, mma.scale_count - 1, 0).column + 1;
    };
    take(Field::scale_a_tmem,
         [&](uint32_t address) { return end_of(scale_a_in_tmem(instruction, address), d.layout.rows_per_cta); });
    take(Field::scale_b_tmem, [&](uint32_t address) { return end_of(scale_b_in_tmem(instruction, address), mma.n); });
  }
  tmem.allocate(filler);
  for (int row = 0; row < mma.m && operands.c; ++row) {
    for (int col = 0; col < mma.n; ++col) tmem.write(d.place_of(row, col), info(mma.d).bits, (*operands.c)(row, col));
  }
  if (!a_in_smem) {
    const TmemA map = a_in_tmem(instruction, state.word(Field::a_tmem));
    const int shift = container_shift(mma.a, map.element_bits);
    for (int row = 0; row < mma.m; ++row) {
      for (int k = 0; k < mma.stored_k(); ++k) {
        for (int copy = 0; copy < map.copies(); ++copy) {
          TmemPlace place = map.place_of(row, k, copy);
          if (instruction.ashift) place.lane = shifted_lane(place.lane);
          tmem.write(place, map.element_bits, operands.a(row, k) << shift);
        }
      }
    }
  }
  if (mma.sparse) {
    const TmemMetadata map = metadata_in_tmem(instruction, state.word(Field::metadata_tmem));
    const SparsePattern& pattern = sparse_pattern(map.element_bits, instruction.sparsity_version);
    const auto per_chunk = static_cast<size_t>(pattern.stored_per_chunk);
    for (int row = 0; row < mma.m; ++row) {
      for (int chunk = 0; chunk * pattern.chunk < mma.k; ++chunk) {
        const size_t first =
            static_cast<size_t>(row) * static_cast<size_t>(mma.stored_k()) + static_cast<size_t>(chunk) * per_chunk;
        const uint32_t nibble = nibble_of(pattern, std::span(operands.selected_k).subspan(first, per_chunk));
        for (int copy = 0; copy < d.layout.n_parts; ++copy) {
          tmem.write(map.place_of(row, chunk * pattern.chunk, copy), 4, nibble);
        }
      }
    }
  }
  if (operands.scales) {
    const auto write_all = [&](const TmemScales& map, int cta, int row, int j, uint32_t code) {
      for (int replica = 0; replica < map.replicas(); ++replica) {
        TmemPlace place = map.place_of(row, j, replica);
        place.cta = cta;
        tmem.write(place, 8, code);
      }
    };
    const TmemScales a = scale_a_in_tmem(instruction, state.word(Field::scale_a_tmem)),
                     b = scale_b_in_tmem(instruction, state.word(Field::scale_b_tmem));
    const int rows_per_cta = d.layout.rows_per_cta;
    for (int j = 0; j < mma.scale_count; ++j) {
      for (int row = 0; row < mma.m; ++row) {
        write_all(a, row / rows_per_cta, row % rows_per_cta, j, operands.scales->a(row, j));
      }
      for (int cta = 0; cta < mma.cta_group; ++cta) {
        for (int col = 0; col < mma.n; ++col) write_all(b, cta, col, j, operands.scales->b(j, col));
      }
    }
  }
  std::move(tmem).store(state);
  if (has_lane_masks(instruction)) {
    state.set(Field::disable_output_lane, std::vector<uint32_t>(static_cast<size_t>(4 * mma.cta_group)),
              {4 * mma.cta_group});
  }
  return state;
}

}  // namespace bitmma::family
