// Makes small directed cases for a GPU to run; D in the files is the model's and is replaced by the GPU's.
//
//   bitmma_directed_cases OUT && bitmma gpu OUT/mutants -o data/golden/sm_90a/mutants
//
// mutants/  for every wrong hypothesis and every row where it can show, the first smallest case that refutes it
// rows/     every type triple, dense and sparse, with every distribution; layouts, sources and immediates in turn
// probes/   what no document says: reserved descriptor bits, addresses past 2^18, strides of 0, undefined metadata,
//           imm-scale with NaN and zero
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iostream>

#include "bitmma/instruction/legality.hpp"
#include "bitmma/io/golden.hpp"
#include "support/mutants.hpp"

using namespace bitmma;

namespace {

const OperandLayout tight{.major = Major::k, .swizzle = Swizzle::b32};

std::string file_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return text + ".safetensors";
}

void make_mutant_cases(const std::string& folder) {
  for (const AccumulatorModel& row : accumulator_models()) {
    if (row.arithmetic != Arithmetic::fused_sum || row.family != Family::wgmma) continue;
    const auto form = std::find_if(legal_forms().begin(), legal_forms().end(), [&](const LegalForm& f) {
      return find_accumulator_model(f.family, f.a, f.b, f.d) == &row;
    });
    const Instruction instruction{.n = 8, .k = form->k_dense, .d = form->d, .a = form->a, .b = form->b};
    for (const test::Mutant& mutant : test::mutants()) {
      if (!test::is_visible(row, mutant)) continue;
      AccumulatorModel wrong = row;
      mutant.change(wrong);
      const auto find = [&] {
        for (int64_t case_index = 0; case_index < 2000; ++case_index) {
          for (const DistributionInfo& distribution : distributions) {
            const Operands operands =
                random_operands(instruction, distribution.id, 1, static_cast<uint64_t>(case_index));
            if (multiply_accumulate(row, operands) == multiply_accumulate(wrong, operands)) continue;
            TensorFile images = make_golden({.instruction = instruction,
                                             .cases = 1,
                                             .first_case = case_index,
                                             .seed = 1,
                                             .distribution = distribution.id,
                                             .layout_a = tight,
                                             .layout_b = tight},
                                            1);
            for (const char* logical : {"a", "b", "c", "d"}) images.erase(logical);
            write_tensor_file(folder + "/" + file_name(test::name_of(row) + " " + mutant.name), images);
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
  for (const LegalForm& form : legal_forms()) {
    for (const bool is_sparse : {false, true}) {
      if (is_sparse && form.k_sparse == 0) continue;
      for (const DistributionInfo& distribution : distributions) {
        ++turn;
        Instruction instruction{.sparse = is_sparse,
                                .n = turn % 2 ? 8 : 24,
                                .k = is_sparse ? form.k_sparse : form.k_dense,
                                .d = form.d,
                                .a = form.a,
                                .b = form.b,
                                .satfinite = form.satfinite && turn % 2 == 0,
                                .bit_operation = std::string(form.bit_operation)};
        instruction.a_source = turn % 3 == 0 ? OperandSource::registers : OperandSource::smem;
        if (form.scale)
          instruction.imm_scale_a = turn % 4 == 1 ? -1 : 1, instruction.imm_scale_b = turn % 5 == 1 ? -1 : 1;
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
                                 std::string(info(form.a).name) + " " + std::string(info(form.b).name) + " " +
                                 std::string(distribution.name);
        const TensorFile file = make_golden({.instruction = instruction,
                                             .cases = 1,
                                             .first_case = turn % 6,
                                             .seed = 11,
                                             .distribution = distribution.id,
                                             .layout_a = a,
                                             .layout_b = b},
                                            1);
        TensorFile images = file;
        for (const char* logical : {"a", "b", "c", "d"})
          images.erase(logical);  // the images decide, and the repository stays small
        write_tensor_file(folder + "/" + file_name(name), images);
      }
    }
  }
}

/// Cases of one instruction whose machines a function has changed; D is what the model makes of them, if it does.
void write_probe(const std::string& path, const Instruction& instruction, Distribution distribution, int cases,
                 const OperandLayout& a, const OperandLayout& b,
                 const std::function<void(MachineState&, RandomStream&, int)>& change,
                 const std::function<void(Operands&, RandomStream&)>& change_operands = {}) {
  const Instruction with = with_majors(instruction, a, b);
  const Placement placement = plan_placement(with, a, b);
  VectorBuilder builder(with);
  for (int i = 0; i < cases; ++i) {
    RandomStream random(77, static_cast<uint64_t>(i));
    Operands operands = random_operands(with, distribution, 7, static_cast<uint64_t>(i));
    if (change_operands) change_operands(operands, random);
    MachineState state = place_operands(with, placement, operands, filler_stream(7, static_cast<uint64_t>(i)));
    change(state, random, i);
    builder.begin_case();
    builder.add_machine(state);
    BitMatrix d(with.d, with.m, with.n);
    try {
      d = simulate_d(with, state.view());
    } catch (const Error& error) {
      std::cerr << path << " case " << i << ": " << error.what() << '\n';
    }
    builder.add_d_regs(d);
  }
  write_tensor_file(path, std::move(builder).finish({{"source", "bitmma"}, {"distribution", "probe"}}));
}

Instruction dense(Format d, Format a, int n) {
  const Instruction types{.d = d, .a = a, .b = a};
  return {.n = n, .k = find_legal_form(types)->k_dense, .d = d, .a = a, .b = a};
}

Instruction sparse(Format d, Format a, int n) {
  const Instruction types{.d = d, .a = a, .b = a};
  return {.sparse = true, .n = n, .k = find_legal_form(types)->k_sparse, .d = d, .a = a, .b = a};
}

void make_probes(const std::string& folder) {
  constexpr uint64_t reserved = 0x3FF1C000C000C000;  // bits 14-15, 30-31, 46-48, 52-61
  for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    const OperandLayout k_major{.major = Major::k, .swizzle = mode}, mn_major{.major = Major::mn, .swizzle = mode};
    const std::string name(info(mode).name);
    const auto set_reserved = [&](MachineState& state, RandomStream& random, int) {
      state.a_desc |= random.word64() & reserved;
      state.b_desc |= random.word64() & reserved;
    };
    write_probe(folder + "/reserved_bits_k_major_" + name + ".safetensors", dense(Format::f32, Format::e4m3, 8),
                Distribution::integers, 8, k_major, k_major, set_reserved);
    write_probe(folder + "/reserved_bits_mn_major_" + name + ".safetensors", dense(Format::f32, Format::f16, 8),
                Distribution::integers, 8, mn_major, mn_major, set_reserved);

    // A stride of 2^18 - s goes back by s if addresses wrap at 2^18 bytes. Start far enough in to stay inside the
    // image.
    const auto wrap = [&](MachineState& state, RandomStream& random, int i) {
      state.smem.resize(24576);
      for (uint8_t& byte : state.smem) byte = static_cast<uint8_t>(random.word() & 0xBB);
      for (uint64_t* const word : {&state.a_desc, &state.b_desc}) {
        SmemDescriptor descriptor = decode_smem_descriptor(Arch::sm_90a, *word);
        descriptor.start_address_bytes = 12288 + 16 * random.below(64);
        const int64_t back = (1 << 18) - 16 * random.between(1, 20);
        if (i % 2 == 0) descriptor.strides.stride_dim_byte_offset = back;
        if (i % 4 >= 2 || i % 2 == 1) descriptor.strides.leading_dim_byte_offset = back;
        *word = encode(descriptor);
      }
    };
    write_probe(folder + "/wrap_k_major_" + name + ".safetensors", dense(Format::f32, Format::f16, 16),
                Distribution::integers, 4, k_major, k_major, wrap);
    write_probe(folder + "/wrap_mn_major_" + name + ".safetensors", dense(Format::f32, Format::f16, 64),
                Distribution::integers, 4, mn_major, mn_major, wrap);

    const auto zero = [&](MachineState& state, RandomStream&, int i) {
      for (uint64_t* const word : {&state.a_desc, &state.b_desc}) {
        SmemDescriptor descriptor = decode_smem_descriptor(Arch::sm_90a, *word);
        if (i % 4 != 1) descriptor.strides.stride_dim_byte_offset = 0;
        if (i % 4 != 2) descriptor.strides.leading_dim_byte_offset = 0;
        *word = encode(descriptor);
      }
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
    const Instruction instruction = sparse(d, a, 8);
    const auto code = [&, format = a](int value) {
      return info(format).kind == NumberKind::integer
                 ? static_cast<uint32_t>(value)
                 : round_to(format, {.magnitude = static_cast<uint64_t>(value)}, Rounding::toward_zero);
    };
    int next = 0;
    const auto one_hot = [&](Operands& operands, RandomStream&) {
      const int which = next++;
      operands.a.bits.setZero();
      operands.c->bits.setZero();
      for (int row = 0; row < 64; ++row) operands.a(row, which % operands.a.cols()) = code(1);
      for (int k = 0; k < operands.b.rows(); ++k) {
        for (int col = 0; col < 8; ++col) {
          // e5m2 has three significant bits: number the k inside their chunk, by column the chunk itself
          operands.b(k, col) = code(col == 0 ? k % 4 + 1 : col == 1 ? k / 4 % 4 + 1 : col == 2 ? k / 16 + 1 : 1);
        }
      }
    };
    const auto random_metadata = [](MachineState& state, RandomStream& random, int) {
      for (uint32_t& word : state.metadata) word = random.word();
    };
    const std::string name(info(a).name);
    write_probe(folder + "/metadata_one_hot_" + name + ".safetensors", instruction, Distribution::integers,
                instruction.stored_k(), k128, k128, random_metadata, one_hot);
    write_probe(folder + "/metadata_random_" + name + ".safetensors", instruction, Distribution::integers, 4, k128,
                k128, random_metadata);
  }

  // Where a sparse B is read: row r of A meets k = r alone, and every 16-byte unit of the image holds its own number,
  // low byte in even cases, high byte in odd ones. So D is the map from (k, n) to addresses.
  for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    Instruction instruction = sparse(Format::s32, Format::u8, 16);
    instruction.a_source = OperandSource::registers;
    instruction.scale_d = 0;
    const auto single_k = [](Operands& operands, RandomStream&) {
      operands.a.bits.setZero();
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
    const auto number_units = [&](MachineState& state, RandomStream&, int i) {
      RandomStream random(78, static_cast<uint64_t>(i / 2));
      state.smem.resize(32768);
      for (size_t byte = 0; byte < state.smem.size(); ++byte)
        state.smem[byte] = static_cast<uint8_t>(byte / 16 >> (i % 2 ? 8 : 0));
      state.b_desc = encode({.start_address_bytes = 16 * random.below(256),
                             .strides = {16 * random.below(256), 16 * random.below(256)},
                             .base_offset = static_cast<int>(random.below(8)),
                             .swizzle = mode});
    };
    write_probe(folder + "/sparse_b_" + std::string(info(mode).name) + ".safetensors", instruction,
                Distribution::integers, 12, k128, k128, number_units, single_k);
  }

  for (const auto& [d, a] : {std::pair(Format::f32, Format::f16), std::pair(Format::f16, Format::e4m3),
                             std::pair(Format::f32, Format::tf32)}) {
    for (const auto& [scale_a, scale_b] : {std::pair(-1, 1), std::pair(1, -1), std::pair(-1, -1)}) {
      Instruction instruction = dense(d, a, 8);
      instruction.imm_scale_a = scale_a, instruction.imm_scale_b = scale_b;
      for (const Distribution distribution : {Distribution::special, Distribution::bits}) {
        const std::string name = std::string(info(a).name) + "_" + std::string(info(d).name) + "_" +
                                 (scale_a < 0 ? "a" : "") + (scale_b < 0 ? "b" : "") +
                                 (distribution == Distribution::bits ? "_bits" : "_special");
        write_tensor_file(folder + "/imm_scale_" + name + ".safetensors", make_golden({.instruction = instruction,
                                                                                       .cases = 2,
                                                                                       .seed = 3,
                                                                                       .distribution = distribution,
                                                                                       .layout_a = tight,
                                                                                       .layout_b = tight},
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
  for (const char* name : {"/mutants", "/rows", "/probes"}) std::filesystem::create_directories(folder + name);
  make_mutant_cases(folder + "/mutants");
  make_row_cases(folder + "/rows");
  make_probes(folder + "/probes");
  return 0;
}
