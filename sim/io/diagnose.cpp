#include "bitmma/io/diagnose.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/mma_sync.hpp"

namespace bitmma {
namespace {

/// What an output is computed from, taken apart by stage.
struct Parts {
  Operands operands;
  WhatIf adder;
  /// D(row, col) of the wrong program is D of the right one at source(row, col), or of another case.
  std::function<std::pair<int, int>(int row, int col)> source;
  int other_case = 0;      // D of case index + other_case
  bool unwritten = false;  // D is what was there before
};

/// Everything about one case that a fault may look at.
struct Subject {
  const VectorFile& vectors;
  int64_t index = 0;
  Instruction instruction;
  std::optional<VectorCase> of_registers;  // wgmma and mma.sync
  std::optional<Tcgen05Case> of_tmem;
  Operands truth;
  std::array<std::vector<uint8_t>, 2> images;  // with room behind them: a wrong descriptor reads zeros there

  explicit Subject(const VectorFile& file, int64_t case_index)
      : vectors(file), index(case_index), instruction(file.instruction) {
    const auto pad = [](std::span<const uint8_t> image) {
      constexpr size_t reach = size_t{1} << 20;
      std::vector<uint8_t> padded(image.begin(), image.end());
      padded.resize(std::max(padded.size(), reach));
      return padded;
    };
    if (!file.has_images) {
      truth = logical_operands(file, index);
    } else if (file.is_tcgen05()) {
      of_tmem = tcgen05_case_at(file, index);
      instruction = of_tmem->instruction;
      truth = gather_operands(instruction, of_tmem->view());
      for (size_t cta = 0; cta < static_cast<size_t>(instruction.cta_group); ++cta)
        images[cta] = pad(of_tmem->smem[cta]);
    } else {
      of_registers = case_at(file, index);
      truth = gather_operands(instruction, of_registers->view());
      if (instruction.family == Family::wgmma) images[0] = pad(of_registers->smem);
    }
  }
  bool in_smem(char operand) const {
    if (!vectors.has_images || instruction.family == Family::mma_sync) return false;
    return operand == 'b' || instruction.a_source == OperandSource::smem;
  }
  SmemMatrix matrix(char operand) const {
    if (of_tmem)
      return operand == 'a' ? a_matrix(instruction, of_tmem->state.registers)
                            : b_matrix(instruction, of_tmem->state.registers);
    return operand == 'a' ? a_matrix(instruction, of_registers->registers.a_desc)
                          : b_matrix(instruction, of_registers->registers.b_desc);
  }
  /// The operand as `matrix` finds it: A as M x L, B as K x N.
  BitMatrix read(char operand, const SmemMatrix& matrix, Format format, int64_t image_offset = 0) const {
    const bool is_a = operand == 'a';
    const int ctas = instruction.family == Family::tcgen05 ? instruction.cta_group : 1;
    const int rows = (is_a ? instruction.m : instruction.n) / ctas, shifted = matrix.rows - rows;
    BitMatrix whole(format, is_a ? instruction.m : instruction.k, is_a ? instruction.stored_k() : instruction.n);
    for (int cta = 0; cta < ctas; ++cta) {
      const BitMatrix part =
          gather(std::span<const uint8_t>(images[static_cast<size_t>(cta)]).subspan(static_cast<size_t>(image_offset)),
                 SmemMap(matrix), format, "operand");
      if (is_a)
        whole.bits.middleRows(cta * rows, rows) = part.bits;
      else
        whole.bits.middleCols(cta * rows, rows) = part.bits.bottomRows(part.rows() - shifted).transpose();
    }
    return whole;
  }
};

/// A fault with what it does. `apply` returns false where it cannot be, for this case.
struct Row {
  Fault fault;
  std::function<bool(const Subject&, Parts&)> apply;
};

class Catalogue {
 public:
  explicit Catalogue(const Subject& subject)
      : s_(subject), i_(subject.instruction), model_(model_for(subject.instruction)) {
    memory('a');
    memory('b');
    numbers('a');
    numbers('b');
    accumulator();
    scales();
    metadata();
    adders();
    outputs();
  }
  std::vector<Row> take() && { return std::move(rows_); }

 private:
  static FaultStage stage_of(char operand) { return operand == 'a' ? FaultStage::a : FaultStage::b; }
  static std::string upper(char operand) { return operand == 'a' ? "A" : "B"; }
  static BitMatrix& operand_of(Parts& parts, char operand) {
    return operand == 'a' ? parts.operands.a : parts.operands.b;
  }
  Format format_of(char operand) const { return operand == 'a' ? i_.a : i_.b; }

  void add(std::string id, FaultStage stage, std::string what, std::string fix,
           std::function<bool(const Subject&, Parts&)> apply) {
    rows_.push_back({.fault = {.id = std::move(id), .stage = stage, .what = std::move(what), .fix = std::move(fix)},
                     .apply = std::move(apply)});
  }
  /// A descriptor changed by `change`, and the operand read again.
  void reread(char operand, std::string id, std::string what, std::string fix,
              std::function<bool(SmemMatrix&)> change) {
    add(fmt::format("{}.{}", operand, id), stage_of(operand), fmt::format("{}: {}", upper(operand), what),
        std::move(fix), [operand, change = std::move(change)](const Subject& s, Parts& parts) {
          SmemMatrix matrix = s.matrix(operand);
          if (!change(matrix)) return false;
          operand_of(parts, operand) = s.read(operand, matrix, operand_of(parts, operand).format);
          return true;
        });
  }

  void memory(char x) {
    if (!s_.in_smem(x)) return;
    const SmemMatrix matrix = s_.matrix(x);
    for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
      if (mode == matrix.descriptor.swizzle) continue;
      reread(x, fmt::format("swizzle.{}", info(mode).name),
             fmt::format("read with swizzle {} instead of {}", info(mode).name, info(matrix.descriptor.swizzle).name),
             "the swizzle field of the descriptor, or of the TMA map that wrote the tile",
             [mode](SmemMatrix& m) { return m.descriptor.swizzle = mode, true; });
      // With the whole layout of that mode, as a kernel has it that chose another mode on one side.
      reread(x, fmt::format("layout.{}", info(mode).name),
             fmt::format("read as a dense {} tile of swizzle {}", print(matrix.major), info(mode).name),
             "the tile was written in one layout and is read in another", [mode](SmemMatrix& m) {
               m.descriptor.swizzle = mode;
               m.descriptor.strides = minimal_strides(m.major, info(mode), m.element_bits, m.rows, m.cols);
               return true;
             });
    }
    add(fmt::format("{}.xor_on_offset", x), stage_of(x),
        fmt::format("{}: the swizzle XORs the offset from the start, not the address", upper(x)),
        "swizzle address bits after adding the start address", [x](const Subject& s, Parts& parts) {
          SmemMatrix m = s.matrix(x);
          const int64_t start = m.descriptor.start_address_bytes;
          if (info(m.descriptor.swizzle).bits == 0 || m.descriptor.leading_dim_absolute) return false;
          m.descriptor.start_address_bytes = 0, m.descriptor.base_offset = 0;
          operand_of(parts, x) = s.read(x, m, operand_of(parts, x).format, start);
          return true;
        });
    reread(x, "strides_exchanged", "LBO and SBO exchanged",
           "in K-major LBO steps along K and SBO over 8 rows; in MN-major it depends on the swizzle",
           [](SmemMatrix& m) {
             std::swap(m.descriptor.strides.leading_dim_byte_offset, m.descriptor.strides.stride_dim_byte_offset);
             return true;
           });
    for (const auto& [id, what, lbo, sbo] :
         {std::tuple("sbo_not_shifted", "SBO in bytes where bytes >> 4 belong", 1, 16),
          std::tuple("lbo_not_shifted", "LBO in bytes where bytes >> 4 belong", 16, 1),
          std::tuple("strides_not_shifted", "LBO and SBO in bytes where bytes >> 4 belong", 16, 16)}) {
      reread(x, id, what, "the descriptor stores (x & 0x3FFFF) >> 4", [lbo = lbo, sbo = sbo](SmemMatrix& m) {
        Strides& strides = m.descriptor.strides;
        strides.leading_dim_byte_offset = strides.leading_dim_byte_offset * lbo & 0x3FFF0,
        strides.stride_dim_byte_offset = strides.stride_dim_byte_offset * sbo & 0x3FFF0;
        return !m.descriptor.leading_dim_absolute;
      });
    }
    reread(x, "sbo_zero", "SBO is 0: every 8 rows are the first 8", "the stride field was never set",
           [](SmemMatrix& m) { return m.descriptor.strides.stride_dim_byte_offset = 0, true; });
    reread(x, "lbo_zero", "LBO is 0", "the leading dimension field was never set", [](SmemMatrix& m) {
      return m.descriptor.strides.leading_dim_byte_offset = 0, !m.descriptor.leading_dim_absolute;
    });
    reread(x, "major",
           fmt::format("read as {} with the same strides", matrix.major == Major::k ? "MN-major" : "K-major"),
           "the transpose bit of the instruction", [](SmemMatrix& m) {
             m.major = m.major == Major::k ? Major::mn : Major::k;
             return m.element_bits >= 8 && !m.descriptor.leading_dim_absolute;
           });
    reread(x, "major_dense", fmt::format("read as a dense {} tile", matrix.major == Major::k ? "MN-major" : "K-major"),
           "the transpose bit, and the strides that go with it", [](SmemMatrix& m) {
             m.major = m.major == Major::k ? Major::mn : Major::k;
             if (m.element_bits < 8 || m.descriptor.leading_dim_absolute) return false;
             m.descriptor.strides =
                 minimal_strides(m.major, info(m.descriptor.swizzle), m.element_bits, m.rows, m.cols);
             return true;
           });
    for (int base = 0; base < 8; ++base) {
      if (base == matrix.descriptor.base_offset || info(matrix.descriptor.swizzle).bits == 0) continue;
      reread(x, fmt::format("base_offset.{}", base),
             base == 0 ? fmt::format("base offset {} dropped", matrix.descriptor.base_offset)
                       : fmt::format("base offset {} instead of {}", base, matrix.descriptor.base_offset),
             "base offset is (pattern start >> 7) & 7, and 0 for aligned tiles",
             [base](SmemMatrix& m) { return m.descriptor.base_offset = base, true; });
    }
    for (const int64_t step : {32, -32, 64, -64, 96, 16, -16, 128, -128, 256, 512, 1024, -1024}) {
      reread(x, fmt::format("start.{:+}", step),
             fmt::format("the start address is {} bytes off: a wrong advance along K, or another stage", step),
             "advance the start field by (bytes of K) >> 4, inside the swizzle atom too", [step](SmemMatrix& m) {
               m.descriptor.start_address_bytes += step;
               return m.descriptor.start_address_bytes >= 0;
             });
    }
  }

  /// Elements moved within an operand: `from(row, col)` in its own M x L or K x N.
  void moved(char x, std::string id, std::string what, std::string fix,
             std::function<std::pair<int, int>(int, int)> from) {
    add(fmt::format("{}.{}", x, id), stage_of(x), fmt::format("{}: {}", upper(x), what), std::move(fix),
        [x, from = std::move(from)](const Subject&, Parts& parts) {
          BitMatrix& target = operand_of(parts, x);
          const BitMatrix before = target;
          for (int row = 0; row < before.rows(); ++row) {
            for (int col = 0; col < before.cols(); ++col) {
              const auto [r, c] = from(row, col);
              if (r < 0 || c < 0 || r >= before.rows() || c >= before.cols()) return false;
              target(row, col) = before(r, c);
            }
          }
          return true;
        });
  }

  void numbers(char x) {
    const FormatInfo& format = info(format_of(x));
    const bool is_a = x == 'a';
    for (const FormatInfo& other : formats) {
      if (other.bits != format.bits || other.id == format.id || other.kind == NumberKind::bits ||
          (other.kind == NumberKind::integer) != (format.kind == NumberKind::integer))
        continue;
      if (other.id == Format::ue8m0 || other.id == Format::ue4m3 || other.id == Format::s32 || other.id == Format::u32)
        continue;
      add(fmt::format("{}.type.{}", x, other.name), stage_of(x),
          fmt::format("{}: {} taken for {}", upper(x), format.name, other.name),
          "the type in the mnemonic or the instruction descriptor",
          [x, id = other.id](const Subject&, Parts& parts) { return operand_of(parts, x).format = id, true; });
    }
    if (format.kind == NumberKind::floating) {
      add(fmt::format("{}.negate", x), stage_of(x),
          fmt::format("{}: its sign is not flipped, or flipped where it should not be", upper(x)),
          "imm-scale, or the negate bit of the instruction descriptor", [x](const Subject&, Parts& parts) {
            bool& negate = x == 'a' ? parts.operands.negate_a : parts.operands.negate_b;
            negate = !negate;
            return true;
          });
    }
    if (format.bits == 4) {
      moved(x, "nibbles", "the two nibbles of every byte exchanged", "element 2j is the low nibble of byte j",
            [is_a](int row, int col) { return is_a ? std::pair(row, col ^ 1) : std::pair(row ^ 1, col); });
    }
    const int rows = is_a ? i_.m : i_.k, cols = is_a ? i_.stored_k() : i_.n;
    if (rows == cols)
      moved(x, "transposed", "transposed", "which of its two extents runs along K?",
            [](int row, int col) { return std::pair(col, row); });
    const auto outer = [&](std::string id, std::string what, int flip) {
      const int extent = is_a ? rows : cols;
      if (extent % (2 * flip) != 0) return;
      moved(x, std::move(id), std::move(what), "the order in which rows were written",
            [is_a, flip](int row, int col) { return is_a ? std::pair(row ^ flip, col) : std::pair(row, col ^ flip); });
    };
    outer("rows_8", fmt::format("{} r and r + 8 of every 16 exchanged", is_a ? "rows" : "columns"), 8);
    outer("rows_1", fmt::format("neighbouring {} exchanged", is_a ? "rows" : "columns"), 1);
    outer("rows_64", fmt::format("{} in blocks of 64 exchanged", is_a ? "rows" : "columns"), 64);
    const auto inner = [&](std::string id, std::string what, int flip) {
      const int extent = is_a ? cols : rows;
      if (extent % (2 * flip) != 0 || i_.sparse) return;
      moved(x, std::move(id), std::move(what), "the order along K must be the same in A and B",
            [is_a, flip](int row, int col) { return is_a ? std::pair(row, col ^ flip) : std::pair(row ^ flip, col); });
    };
    if (format.bits != 4) inner("k_pairs", "neighbouring elements of K exchanged", 1);
    const int half = (is_a ? cols : rows) / 2;
    if ((half & (half - 1)) == 0) inner("k_halves", "the two halves of K exchanged", half);
    if (is_a && i_.a_source == OperandSource::registers) {
      const Fragment fragment = a_fragment(i_);
      moved(x, "registers_1_2", "registers 1 and 2 exchanged",
            "register 1 is row + 8, register 2 is the second half of K", [fragment](int row, int col) {
              RegisterPlace place = place_of(fragment, row, col);
              if (place.reg == 1 || place.reg == 2) place.reg = 3 - place.reg;
              const MatrixPlace from = element_at(fragment, place.thread, place.reg, place.bit);
              return std::pair(from.row, from.col);
            });
    }
    add(fmt::format("{}.zero", x), stage_of(x),
        fmt::format("{}: all zero: not loaded yet, or waited for the wrong barrier", upper(x)),
        "the wait before the instruction",
        [x](const Subject&, Parts& parts) { return operand_of(parts, x).bits.setZero(), true; });
    if (s_.vectors.cases > 1) {
      add(fmt::format("{}.other_case", x), stage_of(x),
          fmt::format("{}: that of the next case: another stage or iteration", upper(x)),
          "the index of the pipeline stage", [x](const Subject& s, Parts& parts) {
            const Subject other(s.vectors, (s.index + 1) % s.vectors.cases);
            operand_of(parts, x) = x == 'a' ? other.truth.a : other.truth.b;
            return true;
          });
    }
    if (is_a && i_.ashift) {
      add("a.no_ashift", FaultStage::a, "A: .ashift left out", "the qualifier", [](const Subject& s, Parts& parts) {
        Instruction plain = s.instruction;
        plain.ashift = false;
        parts.operands.a = gather_operands(plain, s.of_tmem->view()).a;
        return true;
      });
    }
    if (!is_a && s_.of_tmem && s_.of_tmem->state.registers.zero_column_mask) {
      add("b.no_mask", FaultStage::b, "B: the zero-column mask left out", "bit 39 of the mask descriptor",
          [](const Subject& s, Parts& parts) {
            Tcgen05Machine machine = s.of_tmem->view();
            ZeroColumnMask mask = decode_zero_column_mask(*machine.registers.zero_column_mask);
            mask.non_zero_mask = false;
            machine.registers.zero_column_mask = encode(mask);
            parts.operands.b = gather_operands(s.instruction, machine).b;
            return true;
          });
    }
  }

  void accumulator() {
    if (i_.scale_d == 1) {
      add("c.cleared", FaultStage::c, "C is not added: the accumulator was cleared",
          "scale-d, or enable-input-d, must be 1 here",
          [](const Subject&, Parts& parts) { return parts.operands.c.reset(), true; });
    } else if (s_.vectors.has_images) {
      add("c.not_cleared", FaultStage::c, "C is added: the accumulator was not cleared",
          "scale-d, or enable-input-d, must be 0 in the first step of K", [](const Subject& s, Parts& parts) {
            Instruction adds = s.instruction;
            adds.scale_d = 1;
            if (s.of_tmem) {
              parts.operands.c =
                  gather_d(adds, s.of_tmem->state.registers.d_tmem, s.of_tmem->state.tmem, s.of_tmem->state.columns);
              return true;
            }
            const std::vector<uint32_t>& registers = s.of_registers->registers.c_regs;
            if (registers.empty()) return false;
            parts.operands.c = gather(registers, d_fragment(adds), adds.d, "c_regs");
            return true;
          });
    }
    if (i_.scale_d == 1 && s_.vectors.cases > 1) {
      add("c.other_case", FaultStage::c, "C of the next case: instructions in another order, or another accumulator",
          "which accumulator each instruction adds to", [](const Subject& s, Parts& parts) {
            parts.operands.c = Subject(s.vectors, (s.index + 1) % s.vectors.cases).truth.c;
            return parts.operands.c.has_value();
          });
    }
    if (i_.scale_d == 1) {
      for (const auto& [id, what, row_flip, col_flip] :
           {std::tuple("rows_8", "C: rows r and r + 8 exchanged: registers 0, 1 and 2, 3", 8, 0),
            std::tuple("cols_1", "C: neighbouring columns exchanged", 0, 1),
            std::tuple("cols_8", "C: columns in groups of 8 exchanged", 0, 8)}) {
        if (col_flip && i_.n % (2 * col_flip) != 0) continue;
        add(fmt::format("c.{}", id), FaultStage::c, what, "how the accumulator was loaded into registers",
            [row_flip = row_flip, col_flip = col_flip](const Subject&, Parts& parts) {
              const BitMatrix before = *parts.operands.c;
              for (int row = 0; row < before.rows(); ++row) {
                for (int col = 0; col < before.cols(); ++col)
                  (*parts.operands.c)(row, col) = before(row ^ row_flip, col ^ col_flip);
              }
              return true;
            });
      }
    }
    if (i_.scale_input_d != 0) {
      add("c.no_scale", FaultStage::c, "scale-input-d left out", "the immediate after enable-input-d",
          [](const Subject&, Parts& parts) { return parts.operands.scale_input_d = 0, true; });
    }
  }

  void scales() {
    if (i_.scale_count() == 0) return;
    for (const char x : {'a', 'b'}) {
      const std::string name = fmt::format("scales of {}", upper(x));
      const auto matrix = [x](Parts& parts) -> BitMatrix& {
        return x == 'a' ? parts.operands.scales->a : parts.operands.scales->b;
      };
      const auto put = [&](std::string id, std::string what, std::string fix, std::function<bool(BitMatrix&)> change) {
        add(fmt::format("scale_{}.{}", x, id), FaultStage::scales, fmt::format("{}: {}", name, what), std::move(fix),
            [matrix, change = std::move(change)](const Subject&, Parts& parts) { return change(matrix(parts)); });
      };
      put("ignored", "not applied", "the scales were never copied to Tensor Memory", [](BitMatrix& m) {
        return m.bits.setConstant(static_cast<uint32_t>(info(m.format).bias) << info(m.format).mantissa_bits), true;
      });
      if (i_.has_block_scales() && i_.kind == MmaKind::mxf4nvf4) {
        put("type", "ue8m0 taken for ue4m3, or the other way round", "bit 23 of the instruction descriptor",
            [](BitMatrix& m) { return m.format = m.format == Format::ue8m0 ? Format::ue4m3 : Format::ue8m0, true; });
      }
      // Along rows of A or columns of B, and along the blocks of K.
      const auto permute = [&](std::string id, std::string what, std::string fix, bool along_k,
                               std::function<int(int position, int extent)> from) {
        put(std::move(id), std::move(what), std::move(fix), [x, along_k, from = std::move(from)](BitMatrix& m) {
          const BitMatrix before = m;
          const bool rows = along_k == (x == 'b');
          for (int row = 0; row < m.rows(); ++row) {
            for (int col = 0; col < m.cols(); ++col)
              m(row, col) = rows ? before(from(row, m.rows()), col) : before(row, from(col, m.cols()));
          }
          return m != before;
        });
      };
      permute("next_row", "those of the next row", "the row that a scale belongs to", false,
              [](int p, int n) { return (p + 1) % n; });
      permute("rows_32", "blocks of 32 rows exchanged", "row / 32 picks the 4-byte word of a line, or the column",
              false, [](int p, int n) { return (p ^ 32) < n ? p ^ 32 : p; });
      permute("rows_untiled", "the image is row-major, not in tiles of 128 x 4",
              "pack them: bitmma layout scales --pack", false,
              [](int p, int n) { return n == 128 ? p % 32 * 4 + p / 32 : p; });
      permute("first_row", "those of row 0 for all", "a broadcast that should not be", false,
              [](int, int) { return 0; });
      if (i_.scale_count() > 1) {
        permute("first_block", "that of the first block for all of K", "the ids, or the size of the scale vector", true,
                [](int, int) { return 0; });
        permute("next_block", "those of the next block", "the id in the instruction descriptor", true,
                [](int p, int n) { return (p + 1) % n; });
        permute("blocks_reversed", "blocks in the other order", "byte 0 of a cell is the first block", true,
                [](int p, int n) { return n - 1 - p; });
        permute("blocks_of_32", "one scale for two blocks: a vector of 32 where 16 is meant",
                "scale_vec::4X or block16 has a scale for every 16", true, [](int p, int) { return p / 2 * 2; });
      }
      if (s_.of_tmem) {
        for (int id = 0; id < 4; ++id) {
          if (id == (x == 'a' ? i_.scale_a_id : i_.scale_b_id)) continue;
          add(fmt::format("scale_{}.id.{}", x, id), FaultStage::scales, fmt::format("{}: data id {}", name, id),
              "bits 29-30 and 4-5 of the instruction descriptor", [x, id](const Subject& s, Parts& parts) {
                Instruction other = s.instruction;
                (x == 'a' ? other.scale_a_id : other.scale_b_id) = id;
                try {
                  const Operands read = gather_operands(other, s.of_tmem->view());
                  (x == 'a' ? parts.operands.scales->a : parts.operands.scales->b) =
                      x == 'a' ? read.scales->a : read.scales->b;
                } catch (const Error&) {
                  return false;  // behind the last column that the file has
                }
                return true;
              });
        }
      }
    }
    if (i_.m == i_.n) {
      add("scales.exchanged", FaultStage::scales, "scales of A and B exchanged", "the order of the two addresses",
          [](const Subject&, Parts& parts) {
            const BitMatrix a = parts.operands.scales->a;
            parts.operands.scales->a.bits = parts.operands.scales->b.bits.transpose().eval();
            parts.operands.scales->b.bits = a.bits.transpose();
            return true;
          });
    }
  }

  void metadata() {
    if (!i_.sparse) return;
    const SparsePattern pattern = sparse_pattern(i_.container_bits(i_.a));
    const auto chunks = [pattern](Parts& parts, const std::function<void(std::span<uint16_t>, int base)>& change) {
      for (size_t first = 0; first < parts.operands.selected_k.size();
           first += static_cast<size_t>(pattern.stored_per_chunk)) {
        const std::span<uint16_t> chunk =
            std::span(parts.operands.selected_k).subspan(first, static_cast<size_t>(pattern.stored_per_chunk));
        change(chunk, chunk[0] / pattern.chunk * pattern.chunk);
      }
      parts.operands.mixed.clear();
    };
    add("metadata.ignored", FaultStage::metadata, "metadata ignored: the first elements of every chunk",
        "the metadata operand was never written", [chunks](const Subject&, Parts& parts) {
          chunks(parts, [](std::span<uint16_t> chunk, int base) {
            for (size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<uint16_t>(base + static_cast<int>(i));
          });
          return true;
        });
    add("metadata.reversed", FaultStage::metadata, "positions counted from the other end of the chunk",
        "the lowest bits of a nibble are the first stored element", [chunks, pattern](const Subject&, Parts& parts) {
          chunks(parts, [&](std::span<uint16_t> chunk, int base) {
            for (uint16_t& k : chunk) k = static_cast<uint16_t>(base + (pattern.chunk - 1 - (k - base)));
          });
          return true;
        });
    add("metadata.next_row", FaultStage::metadata, "metadata of the next row",
        "which thread or lane supplies a row's metadata", [](const Subject& s, Parts& parts) {
          const auto stored = static_cast<std::ptrdiff_t>(s.instruction.stored_k());
          std::rotate(parts.operands.selected_k.begin(), parts.operands.selected_k.begin() + stored,
                      parts.operands.selected_k.end());
          return parts.operands.mixed.empty();
        });
    add("metadata.rows_8", FaultStage::metadata, "metadata of rows r and r + 8 exchanged",
        "rows r and r + 8 share a register or cell in 16-bit types", [](const Subject& s, Parts& parts) {
          const auto stored = static_cast<size_t>(s.instruction.stored_k());
          const std::vector<uint16_t> before = parts.operands.selected_k;
          for (size_t i = 0; i < before.size(); ++i)
            parts.operands.selected_k[i] = before[((i / stored) ^ 8) * stored + i % stored];
          return parts.operands.mixed.empty();
        });
    for (int selector = 0; selector < 4; ++selector) {
      if (selector == i_.sparsity_selector || !s_.vectors.has_images || i_.family == Family::mma_sync) continue;
      add(fmt::format("metadata.selector.{}", selector), FaultStage::metadata,
          fmt::format("sparsity selector {} instead of {}", selector, i_.sparsity_selector),
          "sp-sel, or bits 0-1 of the instruction descriptor", [selector](const Subject& s, Parts& parts) {
            Instruction other = s.instruction;
            other.sparsity_selector = selector;
            if (!violations_of(other).empty()) return false;
            const Operands read =
                s.of_tmem ? gather_operands(other, s.of_tmem->view()) : gather_operands(other, s.of_registers->view());
            parts.operands.selected_k = read.selected_k;
            parts.operands.mixed = read.mixed;
            return true;
          });
    }
  }

  void adders() {
    for (const WhatIf& what_if : what_ifs(model_, i_.a, i_.b)) {
      const std::string id = what_if.kind == WhatIf::Kind::fma_chain ? "fma_chain"
                             : what_if.kind == WhatIf::Kind::correctly_rounded
                                 ? "correctly_rounded"
                                 : fmt::format("row.{}", print(what_if.model.family));
      add("adder." + id, FaultStage::arithmetic, "another adder: " + what_if.name,
          "who computed D? a GPU of another generation, or a CPU reference",
          [what_if](const Subject&, Parts& parts) { return parts.adder = what_if, true; });
    }
    const auto variant = [&](std::string id, std::string what, std::function<bool(AccumulatorModel&)> change) {
      add("adder." + std::move(id), FaultStage::arithmetic, "another adder: " + what,
          "a model or GPU with other internal precision",
          [change = std::move(change)](const Subject&, Parts& parts) { return change(parts.adder.model); });
    };
    if (model_.arithmetic != Arithmetic::fused_sum) {
      add("adder.saturate", FaultStage::arithmetic,
          i_.satfinite ? "results wrap instead of saturating" : "results saturate instead of wrapping",
          ".satfinite, or bit 3 of the instruction descriptor", [](const Subject&, Parts& parts) {
            parts.operands.saturate = !parts.operands.saturate;
            return true;
          });
      return;
    }
    for (const int step : {-1, 1, -2, 2, -12, -3}) {
      if (model_.fraction_bits + step < 2 * 10 && model_.scaling != Scaling::groups_of_16 &&
          info(i_.a).mantissa_bits == 10)
        continue;  // products would not fit
      if (step == -12 && info(i_.a).mantissa_bits > 3) continue;
      variant(fmt::format("f.{}", model_.fraction_bits + step),
              fmt::format("{} fraction bits instead of {}", model_.fraction_bits + step, model_.fraction_bits),
              [step](AccumulatorModel& m) { return m.fraction_bits += step, true; });
    }
    variant("rounding",
            model_.rounding == Rounding::toward_zero ? "rounds to nearest even instead of truncating"
                                                     : "truncates instead of rounding to nearest even",
            [](AccumulatorModel& m) {
              return m.rounding = m.rounding == Rounding::toward_zero ? Rounding::nearest_even : Rounding::toward_zero,
                     true;
            });
    if (model_.output_fraction_bits != info(model_.output).mantissa_bits)
      variant("mantissa", "keeps all mantissa bits of the result",
              [](AccumulatorModel& m) { return m.output_fraction_bits = info(m.output).mantissa_bits, true; });
    if (model_.output == Format::f32 && model_.output_fraction_bits == 23)
      variant("mantissa_13", "keeps 13 mantissa bits of the result, as fp8 on Hopper",
              [](AccumulatorModel& m) { return m.output_fraction_bits = 13, true; });
  }

  void permuted(std::string id, std::string what, std::string fix,
                std::function<std::pair<int, int>(int, int)> source) {
    add("d." + std::move(id), FaultStage::output, "D: " + std::move(what), std::move(fix),
        [source = std::move(source)](const Subject&, Parts& parts) { return parts.source = source, true; });
  }

  void outputs() {
    const int m = i_.m, n = i_.n;
    permuted("rows_8", "rows r and r + 8 of every 16 exchanged: registers 0, 1 and 2, 3",
             "register 2 of a thread is row + 8", [](int row, int col) { return std::pair(row ^ 8, col); });
    if (n % 2 == 0)
      permuted("cols_1", "neighbouring columns exchanged: registers 0 and 1",
               "registers 0 and 1 are neighbouring columns; in f16 the low half comes first",
               [](int row, int col) { return std::pair(row, col ^ 1); });
    if (n % 16 == 0)
      permuted("cols_8", "columns in groups of 8 exchanged", "four registers go to the next 8 columns",
               [](int row, int col) { return std::pair(row, col ^ 8); });
    if (m > 64)
      permuted("rows_64", "rows in blocks of 64 exchanged", "which warpgroup or CTA holds which half",
               [](int row, int col) { return std::pair(row ^ 64, col); });
    if (m > 128)
      permuted("rows_128", "rows of the other CTA", "the even CTA holds the lower half of the rows",
               [](int row, int col) { return std::pair(row ^ 128, col); });
    if (m >= 32) {
      permuted("rows_16_off", "rows 16 further on: a lane offset of 16, or another warp",
               "M = 64 uses 16 lanes of every 32", [m](int row, int col) { return std::pair((row + 16) % m, col); });
      permuted("rows_32_off", "rows 32 further on: the lanes of the next warp", "warp w reads lanes 32 w and up",
               [m](int row, int col) { return std::pair((row + 32) % m, col); });
    }
    if (n % 2 == 0 && n > 16)
      permuted("cols_half", "the two halves of N exchanged",
               "in two-by-two layouts columns from N / 2 on are in lanes 64 and up",
               [n](int row, int col) { return std::pair(row, (col + n / 2) % n); });
    if (n > 8)
      permuted("cols_8_off", "columns 8 further on", "the column of the address",
               [n](int row, int col) { return std::pair(row, (col + 8) % n); });
    if (m == n)
      permuted("transposed", "transposed", "row and column of the output",
               [](int row, int col) { return std::pair(col, row); });
    if (i_.scale_d == 1) {
      add("d.not_written", FaultStage::output,
          "D: still what it was before: read too early, or the instruction did not run", "the wait before D is read",
          [](const Subject&, Parts& parts) { return parts.unwritten = true, true; });
    }
    for (const int other : {1, -1}) {
      if (s_.vectors.cases < 2 || (s_.vectors.cases == 2 && other < 0)) continue;
      add(fmt::format("d.case.{:+}", other), FaultStage::output,
          fmt::format("D: that of the {} case", other > 0 ? "next" : "previous"),
          "the order of instructions or of stores",
          [other](const Subject&, Parts& parts) { return parts.other_case = other, true; });
    }
  }

  const Subject& s_;
  const Instruction& i_;
  const AccumulatorModel& model_;
  std::vector<Row> rows_;
};

Parts true_parts(const Subject& subject) {
  return {.operands = subject.truth,
          .adder = {.kind = WhatIf::Kind::model, .name = "", .model = model_for(subject.instruction)},
          .source = {}};
}

/// D of the parts: rows and columns asked for alone.
BitMatrix evaluate(const Subject& subject, const Parts& parts) {
  const Instruction& instruction = subject.instruction;
  if (parts.unwritten) return *subject.truth.c;
  BitMatrix d = compute(parts.adder, parts.operands, instruction.d);
  // Lanes that are disabled keep what they had.
  if (subject.of_tmem) {
    const Tcgen05Registers& registers = subject.of_tmem->state.registers;
    if (std::ranges::any_of(registers.disable_output_lane, [](uint32_t word) { return word != 0; })) {
      const TmemD map = d_in_tmem(instruction, registers.d_tmem);
      const BitMatrix before =
          gather_d(instruction, registers.d_tmem, subject.of_tmem->state.tmem, subject.of_tmem->state.columns);
      for (int row = 0; row < d.rows(); ++row) {
        for (int col = 0; col < d.cols(); ++col) {
          const TmemPlace place = map.place_of(row, col);
          if (registers.disable_output_lane[static_cast<size_t>(4 * place.cta + place.lane / 32)] >> place.lane % 32 &
              1)
            d(row, col) = before(row, col);
        }
      }
    }
  }
  if (!parts.source) return d;
  const BitMatrix before = d;
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      const auto [r, c] = parts.source(row, col);
      d(row, col) = before(r, c);
    }
  }
  return d;
}

/// The stage's part of `from` put into `to`.
void take_stage(Parts& to, const Parts& from, FaultStage stage) {
  switch (stage) {
    case FaultStage::a:
      to.operands.a = from.operands.a, to.operands.negate_a = from.operands.negate_a;
      break;
    case FaultStage::b:
      to.operands.b = from.operands.b, to.operands.negate_b = from.operands.negate_b;
      break;
    case FaultStage::c:
      to.operands.c = from.operands.c, to.operands.scale_input_d = from.operands.scale_input_d;
      break;
    case FaultStage::scales:
      to.operands.scales = from.operands.scales;
      break;
    case FaultStage::metadata:
      to.operands.selected_k = from.operands.selected_k, to.operands.mixed = from.operands.mixed;
      break;
    case FaultStage::arithmetic:
      to.adder = from.adder, to.operands.saturate = from.operands.saturate;
      break;
    case FaultStage::output:
      to.source = from.source, to.other_case = from.other_case, to.unwritten = from.unwritten;
      break;
  }
}

/// A type that the adder's fast paths do not know is of no use to it.
bool computable(const Parts& parts) {
  const auto kind = [](const BitMatrix& matrix) { return info(matrix.format).kind; };
  if (parts.adder.kind != WhatIf::Kind::model || parts.adder.model.arithmetic != Arithmetic::fused_sum ||
      parts.adder.model.scaling == Scaling::groups_of_16)
    return true;
  const int product_bits = info(parts.operands.a.format).mantissa_bits + info(parts.operands.b.format).mantissa_bits;
  return kind(parts.operands.a) == NumberKind::floating && parts.adder.model.fraction_bits >= product_bits;
}

/// The case that a fault's D comes from.
int64_t case_of(const VectorFile& vectors, int64_t index, const Parts& parts) {
  return (index + parts.other_case + vectors.cases) % vectors.cases;
}

/// Rows and columns of an output block, cut out of everything.
Operands block_of(const Operands& operands, const std::vector<int>& rows, const std::vector<int>& cols) {
  Operands block = operands;
  const auto stored = static_cast<std::ptrdiff_t>(operands.a.cols());
  block.a.bits.resize(static_cast<Eigen::Index>(rows.size()), operands.a.cols());
  block.b.bits.resize(operands.b.rows(), static_cast<Eigen::Index>(cols.size()));
  if (operands.c) block.c->bits.resize(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(cols.size()));
  if (operands.scales) {
    block.scales->a.bits.resize(static_cast<Eigen::Index>(rows.size()), operands.scales->a.cols());
    block.scales->b.bits.resize(operands.scales->b.rows(), static_cast<Eigen::Index>(cols.size()));
  }
  block.selected_k.clear();
  block.mixed.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto r = static_cast<Eigen::Index>(i);
    block.a.bits.row(r) = operands.a.bits.row(rows[i]);
    if (operands.scales) block.scales->a.bits.row(r) = operands.scales->a.bits.row(rows[i]);
    if (!operands.selected_k.empty()) {
      const auto first = operands.selected_k.begin() + stored * rows[i];
      block.selected_k.insert(block.selected_k.end(), first, first + stored);
    }
    for (MixedTerm mixed : operands.mixed) {
      if (mixed.row != rows[i]) continue;
      mixed.row = static_cast<uint16_t>(i);
      block.mixed.push_back(mixed);
    }
    for (size_t j = 0; j < cols.size() && operands.c; ++j)
      (*block.c)(static_cast<int>(i), static_cast<int>(j)) = (*operands.c)(rows[i], cols[j]);
  }
  for (size_t j = 0; j < cols.size(); ++j) {
    const auto c = static_cast<Eigen::Index>(j);
    block.b.bits.col(c) = operands.b.bits.col(cols[j]);
    if (operands.scales) block.scales->b.bits.col(c) = operands.scales->b.bits.col(cols[j]);
  }
  return block;
}

struct Tally {
  int64_t wrong_explained = 0, right_broken = 0, wrong = 0, outputs = 0;

  void add(const BitMatrix& truth, const BitMatrix& actual, const BitMatrix& faulty) {
    const auto was_wrong = (truth.bits != actual.bits).eval(), fits = (faulty.bits == actual.bits).eval();
    wrong += was_wrong.count();
    wrong_explained += (was_wrong && fits).count();
    right_broken += (!was_wrong && !fits).count();
    outputs += truth.bits.size();
  }
  int64_t score() const { return wrong_explained - right_broken; }
  bool explains_all() const { return wrong > 0 && wrong_explained == wrong && right_broken == 0; }
};

/// A fault on every case that is looked at; an empty entry where it cannot be.
struct Candidate {
  const Row* row = nullptr;
  std::vector<Parts> parts;  // by case
  Tally tally;
};

class Search {
 public:
  Search(const VectorFile& vectors, std::span<const BitMatrix> actual, const DiagnoseOptions& options)
      : vectors_(vectors), actual_(actual), options_(options) {
    // Faults may take D from another case, so all are kept; only the first few are compared.
    compared_ = std::min(options.max_cases, vectors.cases);
    const int64_t needed = std::min(vectors.cases, compared_ + 1);
    for (int64_t i = 0; i < vectors.cases; ++i) {
      if (i >= needed && i != vectors.cases - 1) continue;
      subjects_.emplace(i, Subject(vectors, i));
      truth_.emplace(i, evaluate(subjects_.at(i), true_parts(subjects_.at(i))));
    }
  }

  Diagnosis run() {
    Diagnosis diagnosis{.cases = compared_};
    Tally nothing;
    for (int64_t i = 0; i < compared_; ++i) nothing.add(truth_.at(i), actual_[static_cast<size_t>(i)], truth_.at(i));
    diagnosis.outputs = nothing.outputs;
    diagnosis.wrong = nothing.wrong;
    if (nothing.wrong == 0) return diagnosis;
    const std::vector<Row> rows = Catalogue(subjects_.at(0)).take();
    const Sample sample = take_sample();
    std::vector<Candidate> candidates;
    for (const Row& row : rows) {
      Candidate candidate{.row = &row, .parts = {}};
      if (!fill(candidate)) continue;
      // Adders without a fast path are computed whole only where a sample of them fits.
      const bool is_slow = candidate.parts.front().adder.kind != WhatIf::Kind::model;
      for (int64_t i = 0; i < compared_ && (!is_slow || fits(sample, candidate.parts.front())); ++i)
        candidate.tally.add(truth_.at(i), actual_[static_cast<size_t>(i)], faulty(candidate.parts, i));
      ++diagnosis.tried;
      candidates.push_back(std::move(candidate));
    }
    std::vector<std::pair<Finding, Tally>> found;
    for (const Candidate& candidate : candidates)
      found.emplace_back(finding_of({&candidate}, candidate.tally), candidate.tally);
    const bool one_explains = std::ranges::any_of(found, [](const auto& entry) { return entry.first.explains_all; });
    if (!one_explains && options_.pairs) {
      for (auto& entry : pairs(candidates, sample, diagnosis.tried)) found.push_back(std::move(entry));
    }
    // More explained first; then one fault before two; then the order of the catalogue.
    std::ranges::stable_sort(found, [](const auto& x, const auto& y) {
      if (x.second.score() != y.second.score()) return x.second.score() > y.second.score();
      return x.first.faults.size() < y.first.faults.size();
    });
    for (auto& [finding, tally] : found) {
      // What explains nothing, or no more than it breaks, is no finding.
      if (tally.score() <= 0 || tally.wrong_explained * 50 < tally.wrong) break;
      if (static_cast<int>(diagnosis.findings.size()) == options_.max_findings) break;
      diagnosis.findings.push_back(std::move(finding));
    }
    return diagnosis;
  }

 private:
  bool fill(Candidate& candidate) const {
    for (int64_t i = 0; i < compared_; ++i) {
      Parts parts = true_parts(subjects_.at(i));
      if (!candidate.row->apply(subjects_.at(i), parts) || !computable(parts)) return false;
      candidate.parts.push_back(std::move(parts));
    }
    return true;
  }
  /// D of case `i` in the wrong program.
  BitMatrix faulty(const std::vector<Parts>& parts, int64_t i) const {
    const Parts& mine = parts[static_cast<size_t>(i)];
    if (mine.other_case == 0) return evaluate(subjects_.at(i), mine);
    return truth_.at(case_of(vectors_, i, mine));
  }
  static Finding finding_of(std::initializer_list<const Candidate*> candidates, const Tally& tally) {
    Finding finding{.faults = {},
                    .wrong_explained = tally.wrong_explained,
                    .right_broken = tally.right_broken,
                    .explains_all = tally.explains_all()};
    for (const Candidate* candidate : candidates) finding.faults.push_back(candidate->row->fault);
    return finding;
  }

  /// Rows and columns of the first case that have wrong outputs, spread out.
  struct Sample {
    std::vector<int> rows, cols;
  };
  Sample take_sample() const {
    const BitMatrix& truth = truth_.at(0);
    const BitMatrix& actual = actual_[0];
    Sample sample;
    for (int row = 0; row < truth.rows() && sample.rows.size() < 6; ++row) {
      const bool far = sample.rows.empty() || row >= sample.rows.back() + std::max(1, truth.rows() / 12);
      if (far && (truth.bits.row(row) != actual.bits.row(row)).any()) sample.rows.push_back(row);
    }
    for (int col = 0; col < truth.cols() && sample.cols.size() < 8; ++col) {
      const bool far = sample.cols.empty() || col >= sample.cols.back() + std::max(1, truth.cols() / 16);
      if (far && (truth.bits.col(col) != actual.bits.col(col)).any()) sample.cols.push_back(col);
    }
    return sample;
  }

  /// Whether nine tenths of the sample come out as they are, and something wrong among them. Outputs that move are
  /// looked for where they come from.
  bool fits(const Sample& sample, const Parts& parts) const {
    const BitMatrix& truth = truth_.at(0);
    const BitMatrix& actual = actual_[0];
    size_t fitting = 0, wrong_fitting = 0;
    const auto count = [&](uint32_t code, int row, int col) {
      fitting += code == actual(row, col);
      wrong_fitting += code == actual(row, col) && code != truth(row, col);
    };
    if (parts.source || parts.unwritten || parts.other_case) {
      for (const int row : sample.rows) {
        for (const int col : sample.cols) {
          const auto [r, c] = parts.source ? parts.source(row, col) : std::pair(row, col);
          count(compute(parts.adder, block_of(parts.operands, {r}, {c}), truth.format)(0, 0), row, col);
        }
      }
    } else {
      const BitMatrix d = compute(parts.adder, block_of(parts.operands, sample.rows, sample.cols), truth.format);
      for (size_t i = 0; i < sample.rows.size(); ++i) {
        for (size_t j = 0; j < sample.cols.size(); ++j)
          count(d(static_cast<int>(i), static_cast<int>(j)), sample.rows[i], sample.cols[j]);
      }
    }
    return fitting * 10 >= 9 * sample.rows.size() * sample.cols.size() && wrong_fitting > 0;
  }

  /// Pairs are first tried on the sample; those that fit it are tried on everything.
  std::vector<std::pair<Finding, Tally>> pairs(const std::vector<Candidate>& candidates, const Sample& sample,
                                               int64_t& tried) const {
    std::vector<std::pair<Finding, Tally>> found;
    for (size_t x = 0; x < candidates.size(); ++x) {
      for (size_t y = x + 1; y < candidates.size(); ++y) {
        const Candidate &first = candidates[x], &second = candidates[y];
        const FaultStage of_second = second.row->fault.stage;
        if (first.row->fault.stage == of_second) continue;
        const Parts& last = second.parts.front();
        if (last.unwritten || last.other_case != 0) continue;  // what came before does not matter
        ++tried;
        Parts both = first.parts.front();
        take_stage(both, last, of_second);
        if (!computable(both) || !fits(sample, both)) continue;
        std::vector<Parts> all = first.parts;
        for (size_t i = 0; i < all.size(); ++i) take_stage(all[i], second.parts[i], of_second);
        Tally tally;
        for (int64_t i = 0; i < compared_; ++i)
          tally.add(truth_.at(i), actual_[static_cast<size_t>(i)], faulty(all, i));
        found.emplace_back(finding_of({&first, &second}, tally), tally);
      }
    }
    return found;
  }

  const VectorFile& vectors_;
  std::span<const BitMatrix> actual_;
  DiagnoseOptions options_;
  int64_t compared_ = 0;
  std::map<int64_t, Subject> subjects_;
  std::map<int64_t, BitMatrix> truth_;
};

void require_matrix_instruction(const VectorFile& vectors) {
  if (vectors.move)
    throw Error({.field = "instruction",
                 .seen = vectors.name(),
                 .legal = "a matrix instruction",
                 .fix = "bitmma verify names the first cell that differs"});
}

}  // namespace

std::string_view print(FaultStage stage) {
  switch (stage) {
    case FaultStage::a:
      return "A";
    case FaultStage::b:
      return "B";
    case FaultStage::c:
      return "C";
    case FaultStage::scales:
      return "scales";
    case FaultStage::metadata:
      return "metadata";
    case FaultStage::arithmetic:
      return "arithmetic";
    default:
      return "D";
  }
}

std::vector<Fault> fault_catalogue(const VectorFile& vectors) {
  require_matrix_instruction(vectors);
  const Subject subject(vectors, 0);
  std::vector<Fault> faults;
  for (Row& row : Catalogue(subject).take()) faults.push_back(std::move(row.fault));
  return faults;
}

BitMatrix faulty_d(const VectorFile& vectors, int64_t index, std::span<const std::string> fault_ids) {
  require_matrix_instruction(vectors);
  const Subject subject(vectors, index);
  const std::vector<Row> rows = Catalogue(subject).take();
  Parts parts = true_parts(subject);
  for (const std::string& id : fault_ids) {
    const auto row = std::ranges::find(rows, id, [](const Row& one) { return one.fault.id; });
    Parts alone = true_parts(subject);
    if (row == rows.end() || !row->apply(subject, alone)) {
      throw Error({.field = "fault",
                   .seen = id,
                   .legal = "an id of this file's catalogue that this case can have",
                   .fix = "bitmma diagnose --list shows them"});
    }
    take_stage(parts, alone, row->fault.stage);
  }
  if (!computable(parts))
    throw Error({.field = "faults",
                 .seen = fmt::format("{}", fmt::join(fault_ids, ", ")),
                 .legal = "faults whose types and adder go together"});
  if (parts.other_case == 0) return evaluate(subject, parts);
  const Subject other(vectors, case_of(vectors, index, parts));
  return evaluate(other, true_parts(other));
}

Diagnosis diagnose(const VectorFile& vectors, std::span<const BitMatrix> actual, const DiagnoseOptions& options) {
  require_matrix_instruction(vectors);
  if (static_cast<int64_t>(actual.size()) != vectors.cases) {
    throw Error({.field = "cases", .seen = std::to_string(actual.size()), .legal = std::to_string(vectors.cases)});
  }
  for (int64_t index = 0; index < std::min(options.max_cases, vectors.cases); ++index) {
    const BitMatrix& one = actual[static_cast<size_t>(index)];
    const Instruction instruction =
        vectors.is_tcgen05() && vectors.has_images ? tcgen05_case_at(vectors, index).instruction : vectors.instruction;
    if (one.rows() != instruction.m || one.cols() != instruction.n || one.format != instruction.d) {
      throw Error({.field = fmt::format("D of case {}", index),
                   .seen = fmt::format("{} x {} {}", one.rows(), one.cols(), info(one.format).name),
                   .legal = fmt::format("{} x {} {}", instruction.m, instruction.n, info(instruction.d).name)});
    }
  }
  return Search(vectors, actual, options).run();
}

}  // namespace bitmma
