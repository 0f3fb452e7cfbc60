// Makes small directed cases for a GPU to run; D in the files is the model's and is replaced by the GPU's.
//
//   bitmma_directed_cases OUT && bitmma gpu OUT/mutants -o data/golden/sm_90a/mutants
//
// mutants/  for every wrong hypothesis and every row where it can show, the first smallest case that refutes it
// rows/     every type triple, dense and sparse, with every distribution; layouts, sources and immediates in turn
// mma_sync/ the same two for mma.sync, a file an instruction: every distribution, then what refutes hypotheses
// probes/   what no document says: reserved descriptor bits, addresses past 2^18, strides of 0, undefined metadata,
//           imm-scale with NaN and zero
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>

#include "arithmetic/product.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/mutants.hpp"

using namespace bitmma;

namespace {

constexpr Target hopper = Target::sm_90a;
const OperandLayout tight{.major = Major::k, .swizzle = Swizzle::b32};
const Placement tight_placement{.a = tight, .b = tight};

std::string file_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return text + ".safetensors";
}

/// The only member: wgmma's forms have a row for every pair of types.
Format only(const FormatSet& set) {
  return std::ranges::find_if(formats, [&](const FormatInfo& format) { return set.contains(format.id); })->id;
}

std::vector<Form> wgmma_forms() {
  std::vector<Form> rows;
  std::ranges::copy_if(forms(), std::back_inserter(rows),
                       [](const Form& form) { return form.family == Family::wgmma; });
  return rows;
}

/// Without logical matrices: the state decides, and the repository stays small.
TensorFile states_alone(TensorFile file) {
  for (const char* logical : {"a", "b", "c", "d"}) file.erase(logical);
  return file;
}

void make_mutant_cases(const std::string& folder) {
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.arithmetic != Arithmetic::fused_sum || row.family != Family::wgmma) continue;
    const std::vector<Form> all = wgmma_forms();
    const auto form = std::ranges::find_if(all, [&](const Form& f) {
      return find_accumulator_model(hopper, f.family, only(f.a), only(f.b), f.d) == &row;
    });
    const Instruction instruction = Wgmma{.n = 8, .d = form->d, .a = only(form->a), .b = only(form->b)};
    for (const test::Mutant& mutant : test::mutants()) {
      if (!test::is_visible(row, mutant)) continue;
      AccumulatorModel wrong = row;
      mutant.change(wrong);
      const auto find = [&] {
        for (int64_t case_index = 0; case_index < 2000; ++case_index) {
          for (const DistributionInfo& distribution : distributions) {
            const Operands operands =
                random_operands(instruction, hopper, distribution.id, 1, static_cast<uint64_t>(case_index));
            if (multiply_accumulate(row, operands) == multiply_accumulate(wrong, operands)) continue;
            const TensorFile file = states_alone(make_golden({.instruction = instruction,
                                                              .target = hopper,
                                                              .cases = 1,
                                                              .first_case = case_index,
                                                              .seed = 1,
                                                              .distribution = distribution.id,
                                                              .placement = tight_placement},
                                                             1));
            write_tensor_file(folder + "/" + file_name(test::name_of(row) + " " + mutant.name), file);
            return true;
          }
        }
        return false;
      };
      if (!find()) std::cerr << "nothing found: " << test::name_of(row) << ", " << mutant.name << '\n';
    }
  }
}

void make_row_cases(const std::string& folder) {
  constexpr std::array modes{Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};
  int turn = 0;
  for (const Form& form : wgmma_forms()) {
    for (const bool is_sparse : {false, true}) {
      if (is_sparse && form.k_sparse == 0) continue;
      for (const DistributionInfo& distribution : distributions) {
        ++turn;
        Wgmma instruction{.n = turn % 2 ? 8 : 24,
                          .d = form.d,
                          .a = only(form.a),
                          .b = only(form.b),
                          .sparse = is_sparse,
                          .saturate = form.saturate && turn % 2 == 0,
                          .a_source = turn % 3 == 0 ? OperandSource::registers : OperandSource::smem};
        if (form.negate) instruction.negate_a = turn % 4 == 1, instruction.negate_b = turn % 5 == 1;
        if (is_sparse) instruction.sparsity_selector = turn % form.selectors;
        const auto major = [&](int period) { return form.transpose && turn % period == 0 ? Major::mn : Major::k; };
        const OperandLayout a{.major = major(2),
                              .swizzle = modes[static_cast<size_t>(turn) % 4],
                              .padding_bytes = 16 * (turn % 3),
                              .start_bytes = 16 * (turn % 7),
                              .base_offset = turn % 8};
        const OperandLayout b{.major = major(5),
                              .swizzle = modes[static_cast<size_t>(turn) / 4 % 4],
                              .padding_bytes = 16 * (turn % 2),
                              .start_bytes = 16 * (turn % 11),
                              .base_offset = turn / 3 % 8};
        const std::string name = std::string(is_sparse ? "sp " : "") + std::string(info(form.d).name) + " " +
                                 std::string(info(only(form.a)).name) + " " + std::string(info(only(form.b)).name) +
                                 " " + std::string(distribution.name);
        const TensorFile file = states_alone(make_golden({.instruction = instruction,
                                                          .target = hopper,
                                                          .cases = 1,
                                                          .first_case = turn % 6,
                                                          .seed = 11,
                                                          .distribution = distribution.id,
                                                          .placement = {.a = a, .b = b}},
                                                         1));
        write_tensor_file(folder + "/" + file_name(name), file);
      }
    }
  }
}

/// Every mma.sync of Hopper in every distribution, and for each row of arithmetic what refutes wrong hypotheses.
void make_warp_cases(const std::string& folder) {
  const auto add = [](VectorBuilder& builder, const Instruction& instruction, Distribution distribution, uint64_t seed,
                      uint64_t index) {
    State before = place_operands(instruction, {}, random_operands(instruction, hopper, distribution, seed, index),
                                  filler_stream(seed, index));
    State after = before;
    execute(instruction, hopper, after);
    builder.add({.instruction = instruction, .target = hopper, .before = before, .after = after});
  };
  uint64_t turn = 0;
  for (const Instruction& plain : all_instructions(Family::mma_sync)) {
    if (!targets_of(plain).contains(hopper)) continue;
    MmaSync instruction = std::get<MmaSync>(plain);
    if (instruction.sparse)
      instruction.sparsity_selector = static_cast<int>(turn % static_cast<uint64_t>(find_form(plain)->selectors));
    VectorBuilder builder(instruction, hopper);
    for (const DistributionInfo& distribution : distributions) add(builder, instruction, distribution.id, 13, turn++);
    write_tensor_file(folder + "/" + file_name(print(instruction)), std::move(builder).finish({{"source", "bitmma"}}));
  }
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.family != Family::mma_sync || !row.targets.contains(hopper)) continue;
    const std::vector<Instruction> instructions = test::warp_instructions(row, hopper);
    std::map<std::string, VectorBuilder> builders;
    for (const test::Mutant& mutant : test::warp_mutants()) {
      AccumulatorModel wrong = row;
      mutant.change(wrong);
      if (wrong == row) continue;
      const auto find = [&] {
        for (uint64_t index = 0; index < 300; ++index) {
          for (const DistributionInfo& distribution : distributions) {
            for (const Instruction& instruction : instructions) {
              const Operands operands = random_operands(instruction, hopper, distribution.id, 1, index);
              if (multiply_accumulate(row, operands) == multiply_accumulate_unchecked(wrong, operands)) continue;
              VectorBuilder& builder = builders.try_emplace(print(instruction), instruction, hopper).first->second;
              add(builder, instruction, distribution.id, 1, index);
              return true;
            }
          }
        }
        return false;
      };
      if (!find() && row.arithmetic != Arithmetic::integer && row.arithmetic != Arithmetic::popcount)
        std::cerr << "nothing found: mma.sync " << test::name_of(row) << ", " << mutant.name << '\n';
    }
    for (auto& [name, builder] : builders)
      write_tensor_file(folder + "/mutants_" + file_name(name), std::move(builder).finish({{"source", "bitmma"}}));
  }
}

/// Cases of one instruction whose states a function has changed; D is what the model makes of them, if it does.
void write_probe(const std::string& path, const Instruction& instruction, Distribution distribution, int cases,
                 const OperandLayout& a, const OperandLayout& b,
                 const std::function<void(State&, RandomStream&, int)>& change,
                 const std::function<void(Operands&, RandomStream&)>& change_operands = {}) {
  const Instruction with = with_majors(instruction, a, b);
  const Mma mma = mma_of(with);
  VectorBuilder builder(with, hopper);
  for (int i = 0; i < cases; ++i) {
    RandomStream random(77, static_cast<uint64_t>(i));
    Operands operands = random_operands(with, hopper, distribution, 7, static_cast<uint64_t>(i));
    if (change_operands) change_operands(operands, random);
    State before = place_operands(with, {.a = a, .b = b}, operands, filler_stream(7, static_cast<uint64_t>(i)));
    change(before, random, i);
    State after = before;
    try {
      execute(with, hopper, after);
    } catch (const Error& error) {
      std::cerr << path << " case " << i << ": " << error.what() << '\n';
      std::ranges::fill(after.overwrite_words(Field::accumulator, {128, wgmma_d_fragment(mma.d, mma.n).registers()}),
                        0);
    }
    builder.add({.instruction = with, .target = hopper, .before = before, .after = after});
  }
  write_tensor_file(path, std::move(builder).finish({{"source", "bitmma"}, {"distribution", "probe"}}));
}

Wgmma dense(Format d, Format a, int n) { return {.n = n, .d = d, .a = a, .b = a}; }
Wgmma sparse(Format d, Format a, int n) { return {.n = n, .d = d, .a = a, .b = a, .sparse = true}; }

/// Shared memory of `count` bytes, each as `make` has it.
void set_smem(State& state, size_t count, const std::function<uint8_t(size_t byte)>& make) {
  std::vector<uint8_t> bytes(count);
  for (size_t byte = 0; byte < count; ++byte) bytes[byte] = make(byte);
  state.set(Field::smem, std::move(bytes), {static_cast<int64_t>(count)});
}

/// Changes the descriptors of A and B one after the other.
void change_descriptors(State& state, const std::function<void(SmemDescriptor&)>& change) {
  for (const Field field : {Field::a_desc, Field::b_desc}) {
    SmemDescriptor descriptor = decode_smem_descriptor(hopper, state.number(field));
    change(descriptor);
    state.set(field, encode(descriptor));
  }
}

void make_probes(const std::string& folder) {
  constexpr uint64_t reserved = 0x3FF1C000C000C000;  // bits 14-15, 30-31, 46-48, 52-61
  for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    const OperandLayout k_major{.major = Major::k, .swizzle = mode}, mn_major{.major = Major::mn, .swizzle = mode};
    const std::string name(info(mode).name);
    const auto set_reserved = [&](State& state, RandomStream& random, int) {
      for (const Field field : {Field::a_desc, Field::b_desc}) {
        state.set(field, state.number(field) | (random.word64() & reserved));
      }
    };
    write_probe(folder + "/reserved_bits_k_major_" + name + ".safetensors", dense(Format::f32, Format::e4m3, 8),
                Distribution::integers, 8, k_major, k_major, set_reserved);
    write_probe(folder + "/reserved_bits_mn_major_" + name + ".safetensors", dense(Format::f32, Format::f16, 8),
                Distribution::integers, 8, mn_major, mn_major, set_reserved);

    // A stride of 2^18 - s goes back by s if addresses wrap at 2^18 bytes. Start far enough in to stay inside the
    // image.
    const auto wrap = [&](State& state, RandomStream& random, int i) {
      set_smem(state, 24576, [&](size_t) { return static_cast<uint8_t>(random.word() & 0xBB); });
      change_descriptors(state, [&](SmemDescriptor& descriptor) {
        descriptor.start_address_bytes = 12288 + 16 * random.below(64);
        const int64_t back = (1 << 18) - 16 * random.between(1, 20);
        if (i % 2 == 0) descriptor.strides.stride_dim_byte_offset = back;
        if (i % 4 >= 2 || i % 2 == 1) descriptor.strides.leading_dim_byte_offset = back;
      });
    };
    write_probe(folder + "/wrap_k_major_" + name + ".safetensors", dense(Format::f32, Format::f16, 16),
                Distribution::integers, 4, k_major, k_major, wrap);
    write_probe(folder + "/wrap_mn_major_" + name + ".safetensors", dense(Format::f32, Format::f16, 64),
                Distribution::integers, 4, mn_major, mn_major, wrap);

    const auto zero = [&](State& state, RandomStream&, int i) {
      change_descriptors(state, [&](SmemDescriptor& descriptor) {
        if (i % 4 != 1) descriptor.strides.stride_dim_byte_offset = 0;
        if (i % 4 != 2) descriptor.strides.leading_dim_byte_offset = 0;
      });
    };
    write_probe(folder + "/zero_strides_k_major_" + name + ".safetensors", dense(Format::f32, Format::bf16, 24),
                Distribution::integers, 3, k_major, k_major, zero);
    write_probe(folder + "/zero_strides_mn_major_" + name + ".safetensors", dense(Format::f32, Format::bf16, 24),
                Distribution::integers, 3, mn_major, mn_major, zero);
  }

  // Random metadata, legal or not. Every row of A has a single one, and B(k, n) = k + 1: D says which k was met.
  const OperandLayout k128{.major = Major::k, .swizzle = Swizzle::b128};
  for (const auto& [d, a] : {std::pair(Format::f32, Format::f16), std::pair(Format::f32, Format::tf32),
                             std::pair(Format::f16, Format::e5m2), std::pair(Format::s32, Format::s8)}) {
    const Wgmma instruction = sparse(d, a, 8);
    const auto code = [&, format = a](int value) {
      return info(format).kind == NumberKind::integer
                 ? static_cast<uint32_t>(value)
                 : static_cast<uint32_t>(
                       round_to(format, {.magnitude = static_cast<uint64_t>(value)}, Rounding::toward_zero));
    };
    int next = 0;
    const auto one_hot = [&](Operands& operands, RandomStream&) {
      const int which = next++;
      operands.a.fill(0);
      operands.c->fill(0);
      for (int row = 0; row < 64; ++row) operands.a(row, which % operands.a.cols()) = code(1);
      for (int k = 0; k < operands.b.rows(); ++k) {
        for (int col = 0; col < 8; ++col) {
          // e5m2 has three significant bits: number the k inside their chunk, by column the chunk itself
          operands.b(k, col) = code(col == 0 ? k % 4 + 1 : col == 1 ? k / 4 % 4 + 1 : col == 2 ? k / 16 + 1 : 1);
        }
      }
    };
    const auto random_metadata = [](State& state, RandomStream& random, int) {
      for (uint32_t& word : state.writable_words(Field::metadata)) word = random.word();
    };
    const std::string name(info(a).name);
    write_probe(folder + "/metadata_one_hot_" + name + ".safetensors", instruction, Distribution::integers,
                mma_of(instruction).stored_k(), k128, k128, random_metadata, one_hot);
    write_probe(folder + "/metadata_random_" + name + ".safetensors", instruction, Distribution::integers, 4, k128,
                k128, random_metadata);
  }

  // Where a sparse B is read: row r of A meets k = r alone, and every 16-byte unit of the image holds its own number,
  // low byte in even cases, high byte in odd ones. So D is the map from (k, n) to addresses.
  for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    Wgmma instruction = sparse(Format::s32, Format::u8, 16);
    instruction.a_source = OperandSource::registers;
    instruction.enable_input_d = false;
    const auto single_k = [](Operands& operands, RandomStream&) {
      operands.a.fill(0);
      for (int row = 0; row < 64; ++row) {
        for (int chunk = 0; chunk < 16; ++chunk) {
          const bool last = chunk == row / 4 && row % 4 == 3;
          const auto at = [&](int slot) -> uint16_t& {
            return operands.selected_k[static_cast<size_t>(row * 32 + 2 * chunk + slot)];
          };
          at(0) = static_cast<uint16_t>(4 * chunk + (chunk == row / 4 && !last ? row % 4 : 0));
          at(1) = static_cast<uint16_t>(4 * chunk + 3);
          if (chunk == row / 4) operands.a(row, 2 * chunk + last) = 1;
        }
      }
    };
    const auto number_units = [&](State& state, RandomStream&, int i) {
      RandomStream random(78, static_cast<uint64_t>(i / 2));
      set_smem(state, 32768, [&](size_t byte) { return static_cast<uint8_t>(byte / 16 >> (i % 2 ? 8 : 0)); });
      const int64_t start = 16 * random.below(256), leading = 16 * random.below(256), stride = 16 * random.below(256);
      const int base_offset = static_cast<int>(random.below(8));
      state.set(Field::b_desc, encode({.start_address_bytes = start,
                                       .strides = {leading, stride},
                                       .base_offset = base_offset,
                                       .swizzle = mode}));
    };
    write_probe(folder + "/sparse_b_" + std::string(info(mode).name) + ".safetensors", instruction,
                Distribution::integers, 12, k128, k128, number_units, single_k);
  }

  for (const auto& [d, a] : {std::pair(Format::f32, Format::f16), std::pair(Format::f16, Format::e4m3),
                             std::pair(Format::f32, Format::tf32)}) {
    for (const auto& [scale_a, scale_b] : {std::pair(-1, 1), std::pair(1, -1), std::pair(-1, -1)}) {
      Wgmma instruction = dense(d, a, 8);
      instruction.negate_a = scale_a < 0, instruction.negate_b = scale_b < 0;
      for (const Distribution distribution : {Distribution::special, Distribution::bits}) {
        const std::string name = std::string(info(a).name) + "_" + std::string(info(d).name) + "_" +
                                 (scale_a < 0 ? "a" : "") + (scale_b < 0 ? "b" : "") +
                                 (distribution == Distribution::bits ? "_bits" : "_special");
        write_tensor_file(folder + "/imm_scale_" + name + ".safetensors", make_golden({.instruction = instruction,
                                                                                       .target = hopper,
                                                                                       .cases = 2,
                                                                                       .seed = 3,
                                                                                       .distribution = distribution,
                                                                                       .placement = tight_placement},
                                                                                      1));
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bitmma_directed_cases FOLDER\n";
    return 2;
  }
  const std::string folder = argv[1];
  for (const char* name : {"/mutants", "/rows", "/probes", "/mma_sync"})
    std::filesystem::create_directories(folder + name);
  make_mutant_cases(folder + "/mutants");
  make_row_cases(folder + "/rows");
  make_probes(folder + "/probes");
  make_warp_cases(folder + "/mma_sync");
  return 0;
}
