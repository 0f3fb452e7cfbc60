// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <iterator>

#include "answers.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/tmem.hpp"
#include "bitmma/stimulus/random_case.hpp"

namespace bitmma::survey {
namespace {

using target_sets::hopper;
constexpr TargetSet with_scaled_d{Target::sm_100a, Target::sm_103a, Target::sm_107a},
    with_pairs_of_fp4{Target::sm_100a, Target::sm_103a, Target::sm_110a},
    with_absolute{Target::sm_103a, Target::sm_107a}, with_reduction{Target::sm_103a, Target::sm_107a, Target::sm_110a},
    consumer_blackwell = architecture_specific(target_sets::consumer_blackwell), ampere{Target::sm_80, Target::sm_89};

/// The model's answer for a changed state: what the hardware would return if it read the state that way. Cells that are
/// only read keep their original words.
template <typename Change>
std::function<State(const Trial&)> as_if(Change change) {
  return [change](const Trial& trial) {
    Trial other = trial;
    change(other);
    State after = executed(other);
    const std::span<const uint32_t> before = trial.before.words(Field::tmem), read = other.before.words(Field::tmem);
    for (size_t i = 0; i < before.size(); ++i) {
      if (read[i] != before[i] && after.words(Field::tmem)[i] == read[i])
        after.writable_words(Field::tmem)[i] = before[i];
    }
    return after;
  };
}

/// The same for another tcgen05.mma, which `change` derives from the one in question.
template <typename Change>
std::function<State(const Trial&)> as_if_mma(Change change) {
  return as_if([change](Trial& trial) {
    auto mma = std::get<Tcgen05Mma>(trial.instruction);
    change(mma);
    trial.instruction = mma;
  });
}

/// The same if the change is in D itself, which is written.
template <typename Change>
std::function<State(const Trial&)> as_if_d(Change change) {
  return [change](const Trial& trial) {
    Trial other = trial;
    change(other);
    return executed(other);
  };
}

/// The model's result, modified afterwards.
template <typename Change>
std::function<State(const Trial&)> and_then(Change change) {
  return [change](const Trial& trial) {
    State after = executed(trial);
    change(trial, after);
    return after;
  };
}

/// Operands in their layout, with spare bytes after every image, because another answer may read there. Without a
/// distribution the numbers suit questions about places: sums of small integers are exact under any rule of addition.
/// Hopper's rule is known, and its surveys keep other numbers.
Ask placed(const Placement& placement, std::optional<Distribution> distribution = {}) {
  return [=](const Question& question, Target target, RandomStream& random) {
    const Distribution plain = info(target).adds_as == Target::sm_90a ? Distribution::narrow : Distribution::integers;
    const Operands operands =
        random_operands(question.instruction, target, distribution.value_or(plain), random.word64(), 0);
    Trial trial{question.instruction, target,
                place_operands(question.instruction, placement, operands, {random.word64(), 0})};
    if (!trial.before.has(Field::smem)) return trial;
    const int ctas = trial.before.extent(Field::smem, -2) > 0 ? 2 : 1;
    std::vector<uint8_t> bytes;
    constexpr size_t room = 8192;
    for (int cta = 0; cta < ctas; ++cta) {
      const auto image = trial.before.image(cta, ctas);
      bytes.insert(bytes.end(), image.begin(), image.end());
      for (size_t i = 0; i < room; ++i) bytes.push_back(static_cast<uint8_t>(random.word() & 0xBF));  // finite numbers
    }
    const auto size = static_cast<int64_t>(bytes.size()) / ctas;
    trial.before.set(Field::smem, std::move(bytes), ctas == 2 ? Extents{2, size} : Extents{size});
    return trial;
  };
}

/// With the default layout.
Trial ordinary(const Question& question, Target target, RandomStream& random) {
  return placed({})(question, target, random);
}

/// Applies `change` to the descriptor of B.
template <typename Change>
void change_b(Trial& trial, Change change) {
  SmemDescriptor descriptor = decode_smem_descriptor(trial.target, trial.before.number(Field::b_desc));
  change(descriptor);
  trial.before.set(Field::b_desc, encode(descriptor));
}

/// The model's result with another descriptor of B.
template <typename Change>
std::function<State(const Trial&)> as_if_b(Change change) {
  return as_if([change](Trial& trial) { change_b(trial, change); });
}

/// Calls change(lane, column, word) for the cells of `columns` columns from `address` on, in all CTAs.
template <typename Change>
void for_cells(State& state, int first_column, int columns, Change change) {
  const int width = state.columns();
  const auto ctas = static_cast<int>(state.extent(Field::tmem, 0));
  const std::span<uint32_t> words = state.writable_words(Field::tmem);
  for (int cta = 0; cta < ctas; ++cta) {
    for (int lane = 0; lane < tmem_lanes; ++lane) {
      for (int column = first_column; column < first_column + columns; ++column)
        change(lane, column, words[static_cast<size_t>((cta * tmem_lanes + lane) * width + column)]);
    }
  }
}

/// Applies `change` to every byte of `word`.
template <typename Change>
uint32_t by_byte(uint32_t word, Change change) {
  uint32_t result = 0;
  for (int bit = 0; bit < 32; bit += 8) result |= (change(word >> bit & 0xFF) & 0xFF) << bit;
  return result;
}

/// The bits of Tensor Memory that a move writes: those with the same result whether the cells were all zeros or all
/// ones before.
std::vector<uint32_t> written_mask(const Trial& trial) {
  std::vector<State> after;
  for (const uint32_t filling : {0u, ~0u}) {
    Trial other = trial;
    for (uint32_t& word : other.before.writable_words(Field::tmem)) word = filling;
    after.push_back(executed(other));
  }
  std::vector<uint32_t> mask;
  for (size_t i = 0; i < after[0].words(Field::tmem).size(); ++i)
    mask.push_back(~(after[0].words(Field::tmem)[i] ^ after[1].words(Field::tmem)[i]));
  return mask;
}

// Descriptors.

Question base_offset(std::string_view name, std::optional<Choice> choice, Instruction instruction, TargetSet targets) {
  const auto with = [](auto value) {
    return as_if_b([value](SmemDescriptor& descriptor) { descriptor.base_offset = value(descriptor.base_offset); });
  };
  return {.name = name,
          .choice = choice,
          .instruction = std::move(instruction),
          .targets = targets,
          .ask = placed({.b = {.swizzle = Swizzle::b128, .base_offset = 3}}),
          .answers = {model_answer("it moves where the pattern begins, as measured on Hopper"),
                      {"it is ignored", with([](int) { return 0; })},
                      {"it moves the pattern the other way", with([](int offset) { return (8 - offset) % 8; })}}};
}

Question wide_rows(std::string_view name, std::optional<Choice> choice, Instruction instruction, TargetSet targets) {
  const auto at = [](auto lbo) {
    return as_if_b(
        [lbo](SmemDescriptor& descriptor) { descriptor.strides.leading_dim_byte_offset = lbo(descriptor.strides); });
  };
  return {
      .name = name,
      .choice = choice,
      .instruction = std::move(instruction),
      .targets = targets,
      .ask = placed({.b = {.swizzle = Swizzle::b32, .padding_bytes = 512}}),
      .answers = {model_answer("it goes on at LBO"),
                  {"it goes on behind the eight rows of the swizzle", at([](const Strides&) { return 256; })},
                  {"it goes on in the next bytes of the same row", at([](const Strides&) { return 32; })},
                  {"it goes on at SBO", at([](const Strides& strides) { return strides.stride_dim_byte_offset; })}}};
}

Question absolute_leading_dimension() {
  return {.name = "absolute leading dimension of rows other than 48 bytes",
          .choice = Choice::absolute_leading_dim,
          .instruction = Tcgen05Mma{.n = 16},
          .targets = with_absolute,
          .ask = drawn(ordinary,
                       [](Trial& trial, RandomStream&) {
                         // The last 16 of a row's 32 bytes cross the end of the 128-byte swizzle row.
                         change_b(trial, [](SmemDescriptor& descriptor) {
                           descriptor.start_address_bytes += 112;
                           descriptor.leading_dim_absolute = true;
                           descriptor.strides.leading_dim_byte_offset =
                               descriptor.start_address_bytes / 1024 * 1024 + 4096;
                         });
                       }),
          .answers = {model_answer("the field is an address"),
                      {"bit 52 is ignored: the field is an offset",
                       as_if_b([](SmemDescriptor& descriptor) { descriptor.leading_dim_absolute = false; })}}};
}

Question reserved_bits(std::string_view name, Instruction instruction, TargetSet targets, uint64_t bits) {
  return {.name = name,
          .instruction = std::move(instruction),
          .targets = targets,
          .ask = drawn(ordinary,
                       [bits](Trial& trial, RandomStream&) {
                         trial.before.set(Field::b_desc, trial.before.number(Field::b_desc) | bits);
                       }),
          .answers = {model_answer("they are ignored"),
                      {"bits 54:52 are the base offset",
                       as_if_b([](SmemDescriptor& descriptor) { descriptor.base_offset = 7; })},
                      {"with bit 61 there is no swizzle",
                       as_if_b([](SmemDescriptor& descriptor) { descriptor.swizzle = Swizzle::none; })}}};
}

// Metadata.

/// Replaces the two positions in every nibble by those that `change` returns.
template <typename Change>
void change_positions(std::span<uint32_t> words, Change change) {
  for (uint32_t& word : words) {
    uint32_t result = 0;
    for (int bit = 0; bit < 32; bit += 4) {
      const uint32_t first = word >> bit & 3, second = word >> (bit + 2) & 3;
      const auto [new_first, new_second] = change(first, second);
      result |= (new_first & 3) << bit | (new_second & 3) << (bit + 2);
    }
    word = result;
  }
}

/// Possible selections by undefined positions of this A; read_as(change) is the model's answer for changed positions.
template <typename ReadAs>
std::vector<Answer> answers_about_positions(const Instruction& instruction, ReadAs read_as) {
  const bool selects_pairs = mma_of(instruction).a == Format::e2m1;
  std::vector<Answer> answers{model_answer(selects_pairs ? "the first position is at most 2, the second at least 1"
                                                         : "each position counts by itself"),
                              {"positions are put in rising order", read_as([](uint32_t a, uint32_t b) {
                                 return std::pair(std::min(a, b), std::max(a, b));
                               })},
                              {"of equal positions the second is the next one, modulo 4",
                               read_as([](uint32_t a, uint32_t b) { return std::pair(a, a == b ? b + 1 : b); })}};
  if (mma_of(instruction).a != Format::tf32) return answers;
  // For tf32 a position names half of an element.
  answers.push_back(
      {"the element of the first position", read_as([](uint32_t a, uint32_t) { return std::pair(a & 2, a | 1); })});
  answers.push_back(
      {"the element of the second position", read_as([](uint32_t, uint32_t b) { return std::pair(b & 2, b | 1); })});
  return answers;
}

Question undefined_metadata(std::string_view name, std::optional<Choice> choice, Instruction instruction,
                            TargetSet targets) {
  const auto read_as = [](auto change) {
    return as_if([change](Trial& trial) { change_positions(trial.before.writable_words(Field::metadata), change); });
  };
  std::vector<Answer> answers = answers_about_positions(instruction, read_as);
  return {.name = name,
          .choice = choice,
          .instruction = std::move(instruction),
          .targets = targets,
          .ask = drawn(ordinary,
                       [](Trial& trial, RandomStream& random) {
                         for (uint32_t& word : trial.before.writable_words(Field::metadata)) word = random.word();
                       }),
          .answers = std::move(answers)};
}

/// Calls change(word) for the metadata cells in `columns` columns, in all lanes.
template <typename Change>
void for_metadata_cells(Trial& trial, int columns, Change change) {
  const int first = decode_tmem_address(trial.before.word(Field::metadata_tmem)).column;
  for_cells(trial.before, first, columns, [&](int, int, uint32_t& word) { change(word); });
}

/// Two ascending positions in every nibble: PTX then defines the selection wherever the hardware reads metadata.
void define_metadata(Trial& trial, int columns, RandomStream& random) {
  constexpr std::array<uint32_t, 6> rising{0x4, 0x8, 0x9, 0xC, 0xD, 0xE};
  for_metadata_cells(trial, columns, [&](uint32_t& word) {
    for (int bit = 0; bit < 32; bit += 4) word = word << 4 | rising[random.below(rising.size())];
  });
}

Question metadata_of_half_partitions() {
  const auto lanes = [](auto lane_of_row) {
    return as_if([lane_of_row](Trial& trial) {
      const auto& mma = std::get<Tcgen05Mma>(trial.instruction);
      const TmemAddress address = decode_tmem_address(trial.before.word(Field::metadata_tmem));
      const TmemMetadata metadata{
          .layout = find_tmem_layout(mma.m, mma.cta_group, false, true), .element_bits = 8, .address = address};
      const State original = trial.before;
      const std::span<uint32_t> words = trial.before.writable_words(Field::tmem);
      for (int row = 0; row < mma.m; ++row) {
        for (int column = 0; column < metadata.columns(); ++column) {
          const TmemPlace place = metadata.place_of(row, 32 * column);
          TmemPlace other = place;
          other.lane = lane_of_row(row);
          words[index_of(original, place)] = original.words(Field::tmem)[index_of(original, other)];
        }
      }
    });
  };
  return {.name = "metadata of half partitions",
          .choice = Choice::metadata_half_partitions,
          .instruction = Tcgen05Mma{.kind = MmaKind::f8f6f4, .m = 64, .n = 16, .sparse = true},
          .targets = blackwell,
          .ask = drawn(ordinary,
                       [](Trial& trial, RandomStream& random) {
                         constexpr int columns = 2;
                         define_metadata(trial, columns, random);
                       }),
          .answers = {model_answer("a row's metadata lies in the lane of the row"),
                      {"it lies in lanes 0..63, row after row", lanes([](int row) { return row; })},
                      {"it lies in the upper halves of the partitions",
                       lanes([](int row) { return 32 * (row / 16) + 16 + row % 16; })}}};
}

/// `columns`: metadata columns of a row, one for 16-bit and wider types, two for narrower ones.
Question undefined_metadata_of_tcgen05(std::string_view name, MmaKind kind, int columns,
                                       std::optional<Choice> choice = Choice::undefined_metadata_tcgen05,
                                       TargetSet targets = blackwell) {
  const auto read_as = [columns](auto change) {
    return as_if([=](Trial& trial) {
      for_metadata_cells(trial, columns, [&](uint32_t& word) { change_positions(std::span(&word, 1), change); });
    });
  };
  const Tcgen05Mma sparse{.kind = kind, .n = 16, .sparse = true};
  return {.name = name,
          .choice = choice,
          .instruction = sparse,
          .targets = targets,
          .ask = drawn(ordinary,
                       [columns](Trial& trial, RandomStream& random) {
                         for_metadata_cells(trial, columns, [&](uint32_t& word) { word = random.word(); });
                       }),
          .answers = answers_about_positions(sparse, read_as)};
}

Question selectors_above_one() {
  const auto with_selector = [](int selector) {
    return as_if_mma([selector](Tcgen05Mma& mma) { mma.sparsity_selector = selector; });
  };
  return {.name = "sparsity selector 2 of f16",
          .choice = Choice::metadata_selectors_2_3,
          .instruction = Tcgen05Mma{.n = 16, .sparse = true, .sparsity_selector = 2},
          .targets = blackwell,
          .ask = drawn(ordinary,
                       [](Trial& trial, RandomStream& random) {
                         constexpr int columns = 4;  // one for each selector
                         define_metadata(trial, columns, random);
                       }),
          .answers = {model_answer("it picks the third column"),
                      {"its upper bit is ignored: the first column", with_selector(0)},
                      {"it picks the second column", with_selector(1)}}};
}

// Cells.

Question upper_half_of_f16() {
  const auto cells = [](auto change) {
    return and_then([change](const Trial& trial, State& after) {
      for_cells_of_d(trial, after, [&](uint32_t& word, int, int) { word = change(word); });
    });
  };
  return {.name = "upper half of a cell with an f16 element of D",
          .choice = Choice::f16_d_upper_half,
          .instruction = Tcgen05Mma{.n = 16, .d = Format::f16},
          .targets = blackwell,
          .ask = ordinary,
          .answers = {model_answer("it is kept"),
                      {"it becomes zero", cells([](uint32_t word) { return word & 0xFFFF; })},
                      {"it becomes the element, too", cells([](uint32_t word) { return (word & 0xFFFF) * 0x10001; })},
                      {"it becomes the sign of the element", cells([](uint32_t word) {
                         return (word & 0xFFFF) | ((word & 0x8000) != 0 ? 0xFFFF0000u : 0u);
                       })}}};
}

/// Calls change(lane, column, word) for the cells of A.
template <typename Change>
void for_cells_of_a(Trial& trial, Change change) {
  const Mma mma = mma_of(trial.instruction);
  for_cells(trial.before, decode_tmem_address(trial.before.word(Field::a_tmem)).column,
            mma.stored_k() * mma.a_container_bits / 32, change);
}

/// Applies `change` to the bytes of A in Tensor Memory.
template <typename Change>
std::function<State(const Trial&)> with_bytes_of_a(Change change) {
  return as_if([change](Trial& trial) {
    for_cells_of_a(trial, [&](int, int, uint32_t& word) { word = by_byte(word, change); });
  });
}

Question e2m1_in_its_byte() {
  return {
      .name = "e2m1 of A in Tensor Memory",
      .choice = Choice::e2m1_in_tmem,
      .instruction =
          Tcgen05Mma{
              .kind = MmaKind::f8f6f4, .n = 16, .a = Format::e2m1, .b = Format::e4m3, .a_source = OperandSource::tmem},
      .targets = blackwell,
      .ask = ordinary,
      .answers = {model_answer("in bits 5:2 of its byte"),
                  {"in bits 3:0", with_bytes_of_a([](uint32_t byte) { return byte << 2; })},
                  {"in bits 7:4", with_bytes_of_a([](uint32_t byte) { return byte >> 2; })}}};
}

/// In place of a lane: read zeros.
constexpr int nothing = -1;

uint32_t word_of(const State& state, int lane, int column) {
  return lane == nothing ? 0 : state.words(Field::tmem)[index_of(state, {.lane = lane, .column = column})];
}

Question rows_of_ashift() {
  const auto from = [](auto source_of) {
    return as_if([source_of](Trial& trial) {
      const State original = trial.before;
      for_cells_of_a(trial,
                     [&](int lane, int column, uint32_t& word) { word = word_of(original, source_of(lane), column); });
      trial.instruction = without_ashift(trial.instruction);
    });
  };
  return {.name = "rows that .ashift moves",
          .choice = Choice::ashift_rows,
          .instruction = Tcgen05Mma{.n = 16, .a_source = OperandSource::tmem, .ashift = true},
          .targets = blackwell,
          .ask =
              [](const Question& question, Target target, RandomStream& random) {
                // Every lane must differ: draw the rows of A for the instruction without .ashift.
                Question other = question;
                other.instruction = without_ashift(question.instruction);
                Trial trial = ordinary(other, target, random);
                trial.instruction = question.instruction;
                return trial;
              },
          .answers = {model_answer("down by one in every 32 lanes, the last stays"),
                      {"down by one in all 128 lanes, the last stays",
                       from([](int lane) { return std::min(lane + 1, tmem_lanes - 1); })},
                      {"down by one in every 32 lanes, the last becomes the first",
                       from([](int lane) { return lane / 32 * 32 + (lane + 1) % 32; })},
                      {"down by one in every 32 lanes, the last becomes zero",
                       from([](int lane) { return lane % 32 == 31 ? nothing : lane + 1; })},
                      {"up by one in every 32 lanes, the first stays",
                       from([](int lane) { return lane % 32 == 0 ? lane : lane - 1; })},
                      {"none", from([](int lane) { return lane; })}}};
}

/// Calls change(code, row, k) for every element of a 16-bit A in one CTA's shared memory; it returns the new
/// code.
template <typename Change>
void change_a(Trial& trial, Change change) {
  const PlaceMap map(trial.instruction, trial.target, trial.before, Role::a);
  const std::span<const uint8_t> image = trial.before.bytes(Field::smem);
  std::vector<uint8_t> bytes(image.begin(), image.end());
  for (int row = 0; row < map.rows(); ++row) {
    for (int k = 0; k < map.cols(); ++k) {
      const auto at = static_cast<size_t>(std::get<SmemRead>(map.place_of(row, k)).place.byte);
      const uint32_t code = change(bytes[at] | bytes[at + 1] << 8, row, k);
      bytes[at] = static_cast<uint8_t>(code), bytes[at + 1] = static_cast<uint8_t>(code >> 8);
    }
  }
  const auto size = static_cast<int64_t>(bytes.size());
  trial.before.set(Field::smem, std::move(bytes), {size});
}

Question zeroed_column_and_infinity() {
  // Fills the cells of D in zeroed columns from the state that `source` returns.
  const auto zeroed_from = [](auto source) {
    return and_then([source](const Trial& trial, State& after) {
      const auto& mma = std::get<Tcgen05Mma>(trial.instruction);
      const std::vector<bool> zeroed =
          zeroed_columns(decode_zero_column_mask(trial.before.number(Field::zero_column_mask)), mma.m, mma.n);
      const State from = source(trial);
      const PlaceMap map(trial.instruction, trial.target, trial.before, Role::d);
      for_cells_of_d(trial, after, [&](uint32_t& word, int row, int col) {
        if (zeroed[static_cast<size_t>(col)])
          word = from.words(Field::tmem)[index_of(from, std::get<TmemPlace>(map.place_of(row, col)))];
      });
    });
  };
  // Shifted columns get the same mask bits whether the mask continues past its part of N or restarts.
  const ZeroColumnMask shifted{.non_zero_mask = true, .skip_span = 1, .use_span = 4, .column_shift = 3};
  return {.name = "infinity and a zeroed column",
          .choice = Choice::zero_column_mask,
          .instruction = Tcgen05Mma{.weight_stationary = true, .m = 32, .n = 64, .max_shift_code = 1},
          .targets = blackwell,
          // An infinity in every other row.
          .ask = drawn(placed({.zero_column_mask = encode(shifted)}, Distribution::special),
                       [](Trial& trial, RandomStream&) {
                         change_a(trial, [](uint32_t code, int row, int k) {
                           return row % 2 == 0 && k == 5 ? 0x7C00u : code;
                         });
                       }),
          .answers = {model_answer("infinity times the zero is NaN; the mask counts columns after the shift"),
                      {"infinity times the zero is zero", zeroed_from([](const Trial& trial) {
                         Trial finite = trial;
                         change_a(finite, [](uint32_t code, int, int) { return (code & 0x7FFF) == 0x7C00 ? 0 : code; });
                         return executed(finite);
                       })},
                      {"nothing is multiplied there: D is C, bit for bit",
                       zeroed_from([](const Trial& trial) { return trial.before; })},
                      {"the mask counts columns before the shift", as_if([](Trial& trial) {
                         ZeroColumnMask mask = decode_zero_column_mask(trial.before.number(Field::zero_column_mask));
                         for (int& start : mask.start_count) start += mask.column_shift;
                         trial.before.set(Field::zero_column_mask, encode(mask));
                       })}}};
}

Question two_by_two_scales() {
  return {.name = "scales of B over two CTAs",
          .choice = Choice::scales_of_b_over_two_ctas,
          .instruction = Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .cta_group = 2, .m = 128, .n = 64},
          .targets = blackwell,
          .ask = drawn(ordinary,
                       [](Trial& trial, RandomStream&) {
                         // The hardware might read scales of the second 32 columns of B after those of the first, so
                         // store scales there too. The scales of A are one constant, wherever the hardware reads them.
                         const int of_b = decode_tmem_address(trial.before.word(Field::scale_b_tmem)).column,
                                   of_a = decode_tmem_address(trial.before.word(Field::scale_a_tmem)).column;
                         for_cells(trial.before, of_b + 1, 1, [](int lane, int, uint32_t& word) {
                           word = static_cast<uint32_t>(124 + lane % 32 % 7) * 0x01010101;
                         });
                         for_cells(trial.before, of_a, 2, [](int, int, uint32_t& word) { word = 127 * 0x01010101; });
                       }),
          .answers = {model_answer("two by two, as CUTLASS lays them out"),
                      {"all columns in all four partitions", as_if([](Trial& trial) {
                         const auto& mma = std::get<Tcgen05Mma>(trial.instruction);
                         const TmemLayoutInfo& layout = find_tmem_layout(mma.m, mma.cta_group, false, false);
                         const TmemScales ours =
                             scales_of_b(layout, mma.n, trial.before.word(Field::scale_b_tmem), mma.scale_b_id);
                         TmemScales other = ours;
                         other.parts = 1, other.rows_per_part = 0;
                         const State original = trial.before;
                         const std::span<uint32_t> words = trial.before.writable_words(Field::tmem);
                         for (int cta = 0; cta < 2; ++cta) {
                           for (int col = 0; col < mma.n; ++col) {
                             for (int replica = 0; replica < ours.replicas(); ++replica) {
                               // A lane of D reads the partition that contains it.
                               const int partition = col / ours.rows_per_part * ours.replicas() + replica;
                               TmemPlace to = ours.place_of(col, 0, replica), from = other.place_of(col, 0, partition);
                               to.cta = from.cta = cta;
                               const uint32_t byte =
                                   original.words(Field::tmem)[index_of(original, from)] >> from.bit & 0xFF;
                               uint32_t& word = words[index_of(original, to)];
                               word = (word & ~(uint32_t{0xFF} << to.bit)) | byte << to.bit;
                             }
                           }
                         }
                       })}}};
}

Question bits_above_scale_addresses() {
  return {
      .name = "bits 31:30 of the address of scales",
      .choice = {},
      .instruction = Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .n = 16},
      .targets = blackwell,
      .ask = drawn(ordinary,
                   [](Trial& trial, RandomStream&) {
                     // Finite scales in byte 2, equal in every partition.
                     const int first = decode_tmem_address(trial.before.word(Field::scale_a_tmem)).column;
                     for_cells(trial.before, first, 4, [&](int lane, int column, uint32_t& word) {
                       word = (word & 0xFF00FFFF) | static_cast<uint32_t>(121 + (lane % 32 + 5 * (column - first)) % 13)
                                                        << 16;
                     });
                     trial.before.set(Field::scale_a_tmem, trial.before.number(Field::scale_a_tmem) | 0x80000000u);
                   }),
      .answers = {model_answer("they are ignored"),
                  {"they are the byte of the first scale", as_if_mma([](Tcgen05Mma& mma) { mma.scale_a_id = 2; })}}};
}

/// D * 2^-s as an f32 that is not scaled any more.
template <typename Round>
std::function<State(const Trial&)> as_if_scaled_before(Round round) {
  return as_if_d([round](Trial& trial) {
    auto mma = std::get<Tcgen05Mma>(trial.instruction);
    const Trial original = trial;
    for_cells_of_d(original, trial.before, [&](uint32_t& word, int, int) {
      const Decoded d = decode(Format::f32, word);
      word = round(Exact{.negative = d.negative,
                         .magnitude = d.significand,
                         .exponent = d.exponent - info(Format::f32).mantissa_bits - mma.scale_input_d});
    });
    mma.scale_input_d = 0;
    trial.instruction = mma;
  });
}

Question scaled_input_d() {
  const auto rounded = [](Rounding rounding) {
    return [rounding](const Exact& value) {
      return static_cast<uint32_t>(round_to(info(Format::f32), value, rounding, 23));
    };
  };
  const auto flushed = [rounded](const Exact& value) {
    const uint32_t code = rounded(Rounding::toward_zero)(value);
    return (code & 0x7F800000) == 0 ? code & 0x80000000 : code;
  };
  return {.name = "scale-input-d",
          .choice = Choice::scale_input_d_exact,
          .instruction = Tcgen05Mma{.kind = MmaKind::tf32, .n = 16, .scale_input_d = 15},
          .targets = with_scaled_d,
          .ask = drawn(placed({}, Distribution::subnormal),
                       [](Trial& trial, RandomStream& random) {
                         // C near the smallest exponents: its scaled value is not representable in f32.
                         const Trial original = trial;
                         for_cells_of_d(original, trial.before,
                                        [&](uint32_t& word, int, int) { word = random.word() & 0x8FFFFFFF; });
                       }),
          .answers = {
              model_answer("D * 2^-s enters the sum exactly"),
              {"D * 2^-s is truncated to f32 first", as_if_scaled_before(rounded(Rounding::toward_zero))},
              {"D * 2^-s is rounded to the nearest f32 first", as_if_scaled_before(rounded(Rounding::nearest_even))},
              {"D * 2^-s is truncated to f32 first, and subnormal numbers become zero", as_if_scaled_before(flushed)},
              {"D is not scaled", as_if_mma([](Tcgen05Mma& mma) { mma.scale_input_d = 0; })}}};
}

Question padding_below_e2m1() {
  const auto cleared = [](Trial& trial) {
    for (uint32_t& word : trial.before.writable_words(Field::a_regs)) word &= 0x3C3C3C3C;
  };
  return {.name = "padding bits below e2m1",
          .choice = Choice::padding_of_e2m1,
          .instruction = MmaSync{.kind = MmaKind::mxf8f6f4, .a = Format::e2m1, .b = Format::e4m3},
          .targets = consumer_blackwell,
          .ask = drawn(ordinary,
                       [](Trial& trial, RandomStream& random) {
                         for (uint32_t& word : trial.before.writable_words(Field::a_regs))
                           word = (word & 0x3C3C3C3C) | (random.word() & 0x03030303);
                       }),
          .answers = {model_answer("they count as mantissa"), {"they are ignored", as_if(cleared)}}};
}

// Moves.

Trial random_move(const Question& question, Target target, RandomStream& random) {
  const Case this_case =
      random_case(question.instruction, target, {.a = {.swizzle = Swizzle::none}, .aligned_columns = true},
                  Distribution::bits, random.word64(), 0);
  return {question.instruction, target, this_case.before};
}

Question upper_halves_of_unpack() {
  return {
      .name = "upper halves of the cells of .unpack::16b",
      .choice = Choice::unpack_upper_halves,
      .instruction = TmemMove{.kind = MoveKind::st, .ldst = {.num = 4, .pack_16b = true}},
      .targets = blackwell,
      .ask = random_move,
      .answers = {model_answer("they are kept"), {"they become zero", and_then([](const Trial& trial, State& after) {
                                                    const std::vector<uint32_t> mask = written_mask(trial);
                                                    const std::span<uint32_t> words = after.writable_words(Field::tmem);
                                                    for (size_t i = 0; i < words.size(); ++i) {
                                                      if (mask[i] != 0) words[i] &= 0xFFFF;
                                                    }
                                                  })}}};
}

Question unpacked_codes_of_cp() {
  const auto shifted = [](auto change) {
    return and_then([change](const Trial& trial, State& after) {
      const std::vector<uint32_t> mask = written_mask(trial);
      const std::span<uint32_t> words = after.writable_words(Field::tmem);
      for (size_t i = 0; i < words.size(); ++i)
        words[i] = (words[i] & ~mask[i]) | (by_byte(words[i], change) & mask[i]);
    });
  };
  return {.name = "4-bit codes of tcgen05.cp",
          .choice = Choice::fp4_codes_of_cp,
          .instruction = TmemMove{.kind = MoveKind::cp, .source_format = CpSourceFormat::b4x16_p64},
          .targets = blackwell,
          .ask = random_move,
          .answers = {model_answer("in bits 5:2 of their bytes"),
                      {"in bits 3:0", shifted([](uint32_t byte) { return byte >> 2; })},
                      {"in bits 7:4", shifted([](uint32_t byte) { return byte << 2; })}}};
}

Question lanes_of_shift() {
  const auto from = [](auto source_of) {
    return [source_of](const Trial& trial) {
      constexpr int shifted_columns = 8;
      State after = trial.before;
      const TmemAddress base = decode_tmem_address(trial.before.word(Field::taddr));
      for_cells(after, base.column, shifted_columns, [&](int lane, int column, uint32_t& word) {
        word = word_of(trial.before, source_of(lane, base.lane), column);
      });
      return after;
    };
  };
  const auto is_own = [](int lane, int base) { return lane >= base && lane < base + 32; };
  return {.name = "lanes of tcgen05.shift",
          .choice = Choice::shift_lanes,
          .instruction = TmemMove{.kind = MoveKind::shift},
          .targets = blackwell,
          .ask = random_move,
          .answers = {
              model_answer("the 32 lanes of the address, down by one, the last stays"),
              {"the 32 lanes of the address, the last becomes zero", from([=](int lane, int base) {
                 return !is_own(lane, base) ? lane : lane == base + 31 ? nothing : lane + 1;
               })},
              {"the 32 lanes of the address, the last becomes the first", from([=](int lane, int base) {
                 return !is_own(lane, base) ? lane : lane == base + 31 ? base : lane + 1;
               })},
              {"all 128 lanes, the last stays", from([](int lane, int) { return std::min(lane + 1, tmem_lanes - 1); })},
              {"every 32 lanes, the last of each stays", from([](int lane, int) { return shifted_lane(lane); })},
              {"the 32 lanes of the address, up by one",
               from([=](int lane, int base) { return !is_own(lane, base) || lane == base ? lane : lane - 1; })}}};
}

/// A reducing load of four registers per thread, over cells that `cell` draws.
template <typename Cell>
Question load_that_reduces(std::string_view name, std::optional<Choice> choice, const LoadReduction& reduction,
                           Cell cell, std::vector<Answer> answers) {
  return {.name = name,
          .choice = choice,
          .instruction = TmemMove{.kind = MoveKind::ld_red, .ldst = {.num = 4}, .reduction = reduction},
          .targets = with_reduction,
          .ask = drawn(random_move,
                       [cell](Trial& trial, RandomStream& random) {
                         for (uint32_t& word : trial.before.writable_words(Field::tmem)) word = cell(random);
                       }),
          .answers = std::move(answers)};
}

/// redval, as `pick` selects it from the registers of a thread.
template <typename Pick>
std::function<State(const Trial&)> with_redval(Pick pick) {
  return and_then([pick](const Trial& trial, State& after) {
    const auto registers = static_cast<size_t>(std::get<TmemMove>(trial.instruction).ldst.registers());
    const State loaded = after;
    const std::span<uint32_t> redval = after.writable_words(Field::redval);
    for (size_t thread = 0; thread < redval.size(); ++thread)
      redval[thread] = pick(loaded.words(Field::regs).subspan(thread * registers, registers), redval[thread]);
  });
}

bool is_nan(uint32_t word) { return (word & 0x7FFFFFFF) > 0x7F800000; }

Question nan_of_reduction(std::string_view name, ReduceOperation operation) {
  return load_that_reduces(
      name, Choice::redval_ignores_nan, {.operation = operation},
      [](RandomStream& random) { return random.one_in(2) ? 0x7FC00000 | random.word() : random.word() & 0xBFFFFFFF; },
      {model_answer("it is ignored; of nothing but NaN redval is 0x7fffffff"),
       {"one makes redval 0x7fffffff", with_redval([](std::span<const uint32_t> words, uint32_t redval) {
          return std::ranges::any_of(words, is_nan) ? 0x7FFFFFFF : redval;
        })},
       {"it is ignored; of nothing but NaN redval is the last",
        with_redval([](std::span<const uint32_t> words, uint32_t redval) {
          return std::ranges::all_of(words, is_nan) ? words.back() : redval;
        })},
       {"it is ignored; of nothing but NaN redval is the first",
        with_redval([](std::span<const uint32_t> words, uint32_t redval) {
          return std::ranges::all_of(words, is_nan) ? words.front() : redval;
        })}});
}

Question sign_of_absolute_reduction(std::string_view name, ReduceOperation operation) {
  return load_that_reduces(name, Choice::redval_absolute, {.operation = operation, .absolute = true},
                           [](RandomStream& random) { return random.word() & 0xBFFFFFFF; },
                           {model_answer("none: it is the absolute value"),
                            {"that of the register", with_redval([](std::span<const uint32_t> words, uint32_t redval) {
                               for (const uint32_t word : words) {
                                 if ((word & 0x7FFFFFFF) == redval) return word;
                               }
                               return redval;
                             })}});
}

Question zeros_of_reduction(std::string_view name, ReduceOperation operation) {
  const auto zero_at = [](bool last) {
    return with_redval([last](std::span<const uint32_t> words, uint32_t redval) {
      if ((redval & 0x7FFFFFFF) != 0) return redval;
      for (size_t i = 0; i < words.size(); ++i) {
        const uint32_t word = words[last ? words.size() - 1 - i : i];
        if ((word & 0x7FFFFFFF) == 0) return word;
      }
      return redval;
    });
  };
  return load_that_reduces(
      name, Choice::redval_negative_zero, {.operation = operation},
      [operation](RandomStream& random) {
        const uint32_t other = random.word() & 0x3FFFFFFF;
        const uint32_t beside = operation == ReduceOperation::min ? other : other | 0x80000000;
        return random.one_in(2) ? random.word() & 0x80000000 : beside;
      },
      {model_answer("-0 is less than +0"),
       {"they are equal, and the first counts", zero_at(false)},
       {"they are equal, and the last counts", zero_at(true)},
       {"+0 is less than -0", with_redval([operation](std::span<const uint32_t> words, uint32_t redval) {
          const uint32_t preferred = operation == ReduceOperation::min ? 0 : 0x80000000;
          const bool is_zero = (redval & 0x7FFFFFFF) == 0;
          return is_zero && std::ranges::find(words, preferred) != words.end() ? preferred : redval;
        })},
       {"a zero comes out as +0, whatever its sign",
        with_redval([](std::span<const uint32_t>, uint32_t redval) { return redval == 0x80000000 ? 0 : redval; })}});
}

}  // namespace

State executed(const Trial& trial) {
  State after = trial.before;
  execute(trial.instruction, trial.target, after);
  return after;
}

std::vector<Question> questions() {
  const Wgmma sparse_wgmma{.sparse = true};
  const Tcgen05Mma small{.n = 16}, sparse_small{.n = 16, .sparse = true};
  constexpr TargetSet not_hopper = blackwell | consumer_blackwell | ampere;
  const MmaSync sparse_warp{.sparse = true, .ordered_metadata = false};
  constexpr uint64_t reserved_90 = uint64_t{3} << 14 | uint64_t{3} << 30 | uint64_t{7} << 46 | uint64_t{0x3FF} << 52;
  std::vector<Question> all{
      base_offset("base offset, wgmma", {}, Wgmma{}, hopper),
      base_offset("base offset, tcgen05", Choice::base_offset, small, blackwell),
      wide_rows("K beyond the swizzle, wgmma", {}, sparse_wgmma, hopper),
      wide_rows("K beyond the swizzle, tcgen05", Choice::rows_wider_than_swizzle, sparse_small, blackwell),
      absolute_leading_dimension(),
      reserved_bits("reserved descriptor bits, wgmma", Wgmma{}, hopper, reserved_90),
      undefined_metadata("undefined metadata, wgmma", {}, sparse_wgmma, hopper),
      undefined_metadata("undefined metadata, mma.sp", {}, sparse_warp, hopper),
      undefined_metadata("undefined metadata, mma.sp of other targets", Choice::undefined_metadata_mma_sync,
                         sparse_warp, not_hopper),
      undefined_metadata("undefined metadata, mma.sp of 8 bits, other targets", Choice::undefined_metadata_mma_sync,
                         parse_instruction("mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32"), not_hopper),
      undefined_metadata("undefined metadata, mma.sp of tf32, other targets", Choice::undefined_metadata_mma_sync,
                         parse_instruction("mma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32"), not_hopper),
      undefined_metadata_of_tcgen05("undefined metadata, tcgen05.mma.sp", MmaKind::f8f6f4, 2),
      undefined_metadata_of_tcgen05("undefined metadata, tcgen05.mma.sp of tf32", MmaKind::tf32, 1),
      undefined_metadata_of_tcgen05("undefined metadata, tcgen05.mma.sp of f16", MmaKind::f16, 1),
      undefined_metadata_of_tcgen05("undefined metadata, tcgen05.mma.sp of mxf4", MmaKind::mxf4, 2,
                                    Choice::undefined_metadata_mma_sync_fp4, with_pairs_of_fp4),
      metadata_of_half_partitions(),
      selectors_above_one(),
      upper_half_of_f16(),
      e2m1_in_its_byte(),
      rows_of_ashift(),
      zeroed_column_and_infinity(),
      two_by_two_scales(),
      bits_above_scale_addresses(),
      scaled_input_d(),
      padding_below_e2m1(),
      upper_halves_of_unpack(),
      unpacked_codes_of_cp(),
      lanes_of_shift(),
      nan_of_reduction("NaN in tcgen05.ld.red.min without .NaN", ReduceOperation::min),
      nan_of_reduction("NaN in tcgen05.ld.red.max without .NaN", ReduceOperation::max),
      sign_of_absolute_reduction("sign of redval of tcgen05.ld.red.min.abs", ReduceOperation::min),
      sign_of_absolute_reduction("sign of redval of tcgen05.ld.red.max.abs", ReduceOperation::max),
      zeros_of_reduction("zeros in tcgen05.ld.red.min", ReduceOperation::min),
      zeros_of_reduction("zeros in tcgen05.ld.red.max", ReduceOperation::max)};
  std::ranges::move(questions_of_places(), std::back_inserter(all));
  return all;
}

std::vector<uint8_t> written_bytes(const Instruction& instruction, const State& after) {
  std::vector<uint8_t> bytes;
  for (const FieldRule& rule : fields_of(instruction)) {
    if (rule.access == Access::read) continue;
    for (const uint32_t word : after.words(rule.field)) {
      for (int bit = 0; bit < 32; bit += 8) bytes.push_back(static_cast<uint8_t>(word >> bit));
    }
  }
  return bytes;
}

}  // namespace bitmma::survey
