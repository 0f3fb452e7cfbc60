// SPDX-License-Identifier: MIT
// Faults of operands that are read from shared memory through a wrong descriptor.
#include <array>

#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

std::string_view print_upper(Major major) { return major == Major::k ? "K-major" : "MN-major"; }
Major other(Major major) { return major == Major::k ? Major::mn : Major::k; }

using Change = std::function<bool(SmemMatrix&)>;

/// Adds a fault that changes the descriptor and reads the operand again.
void reread(Rows& rows, Role x, std::string_view id, std::string_view what, std::string_view fix, Change change) {
  add(rows, fmt::format("{}.{}", letter(x), id), stage_of(x), fmt::format("{}: {}", upper(x), what), fix,
      [x, change = std::move(change)](const Subject& s, Parts& parts) {
        SmemMatrix matrix = *s.in_smem(x);
        if (!change(matrix)) return false;
        std::optional<Matrix> read = s.read(x, matrix);
        if (read) operand_of(parts, x) = std::move(*read);
        return read.has_value();
      });
}

/// Stores strides in bytes in fields of 16-byte units.
bool store_bytes(SmemMatrix& m, bool lbo, bool sbo) {
  Strides& strides = m.descriptor.strides;
  const auto stored = [](int64_t stride, bool in_bytes) { return (in_bytes ? 16 * stride : stride) & 0x3FFF0; };
  strides.leading_dim_byte_offset = stored(strides.leading_dim_byte_offset, lbo);
  strides.stride_dim_byte_offset = stored(strides.stride_dim_byte_offset, sbo);
  return !m.descriptor.leading_dim_absolute;
}

bool exchange_majors(SmemMatrix& m) {
  m.major = other(m.major);
  return m.element_bits >= 8 && !m.descriptor.leading_dim_absolute;
}

void take_minimal_strides(SmemMatrix& m) {
  m.descriptor.strides = minimal_strides(m.major, info(m.descriptor.swizzle), m.element_bits, m.rows, m.cols);
}

struct DescriptorRow {
  std::string_view id, what, fix;  // {} in `what` is replaced by the other major-ness
  bool (*change)(SmemMatrix&);
};

constexpr std::string_view stored_in_16 = "the descriptor stores (x & 0x3FFFF) >> 4";
constexpr auto descriptor_rows = std::to_array<DescriptorRow>({
    {.id = "strides_exchanged",
     .what = "LBO and SBO exchanged",
     .fix = "in K-major LBO steps along K and SBO over 8 rows; in MN-major it depends on the swizzle",
     .change =
         [](SmemMatrix& m) {
           Strides& strides = m.descriptor.strides;
           std::swap(strides.leading_dim_byte_offset, strides.stride_dim_byte_offset);
           return true;
         }},
    {.id = "sbo_not_shifted",
     .what = "SBO in bytes instead of bytes >> 4",
     .fix = stored_in_16,
     .change = [](SmemMatrix& m) { return store_bytes(m, false, true); }},
    {.id = "lbo_not_shifted",
     .what = "LBO in bytes instead of bytes >> 4",
     .fix = stored_in_16,
     .change = [](SmemMatrix& m) { return store_bytes(m, true, false); }},
    {.id = "strides_not_shifted",
     .what = "LBO and SBO in bytes instead of bytes >> 4",
     .fix = stored_in_16,
     .change = [](SmemMatrix& m) { return store_bytes(m, true, true); }},
    {.id = "sbo_zero",
     .what = "SBO is 0: every group of 8 rows reads the first 8 rows",
     .fix = "the stride field was never set",
     .change = [](SmemMatrix& m) { return m.descriptor.strides.stride_dim_byte_offset = 0, true; }},
    {.id = "lbo_zero",
     .what = "LBO is 0",
     .fix = "the leading dimension field was never set",
     .change =
         [](SmemMatrix& m) {
           return m.descriptor.strides.leading_dim_byte_offset = 0, !m.descriptor.leading_dim_absolute;
         }},
    {.id = "strides_of_columns",
     .what = "read as core matrices in order along the rows: SBO 128, and LBO spans all rows",
     .fix = "without swizzle both orders of core matrices are legal; LBO and SBO determine which one is used",
     .change =
         [](SmemMatrix& m) {
           if (info(m.descriptor.swizzle).bits != 0 || m.major != Major::k || m.descriptor.leading_dim_absolute)
             return false;
           m.descriptor.strides = {.leading_dim_byte_offset = int64_t{16} * m.rows, .stride_dim_byte_offset = 128};
           return true;
         }},
    {.id = "major",
     .what = "read as {} with the same strides",
     .fix = "the transpose bit of the instruction",
     .change = exchange_majors},
    {.id = "major_dense",
     .what = "read as a dense {} tile",
     .fix = "the transpose bit, and the strides that go with it",
     .change =
         [](SmemMatrix& m) {
           if (!exchange_majors(m)) return false;
           take_minimal_strides(m);
           return true;
         }},
});

/// A swizzle's XOR is its own inverse: applying it only on the writing side or only on the reading side has one effect.
std::string print_mode_fault(const SwizzleInfo& own, const SwizzleInfo& mode, Major major) {
  if (own.bits == 0) return fmt::format("read with swizzle {}, but written without", mode.name);
  if (mode.bits == 0) return fmt::format("written without swizzle, but read with {}; or the other way round", own.name);
  return fmt::format("read with swizzle {} instead of {}{}", mode.name, own.name,
                     mode.rows_per_atom < 8 && major == Major::k
                         ? ", which PTX defines only for MN-major: what it reads here is an assumption of the model"
                         : "");
}

/// Reads the operand with another swizzle mode.
void add_modes(Rows& rows, const Subject& s, Role x, const SmemMatrix& matrix) {
  const Swizzle own = matrix.descriptor.swizzle;
  for (const SwizzleInfo& other : swizzles) {
    const Swizzle mode = other.id;
    if (mode == own || other.code(s.this_case().target) < 0) continue;
    const bool confuses_codes = mode == Swizzle::b128_atom32 || own == Swizzle::b128_atom32;
    reread(rows, x, fmt::format("swizzle.{}", other.name), print_mode_fault(info(own), other, matrix.major),
           confuses_codes ? "bits 61-63 of the descriptor: 2 is 128, 1 is 128 with atoms of 32 bytes"
                          : "the swizzle field of the descriptor, and the swizzle of the TMA map that wrote the tile",
           [mode](SmemMatrix& m) { return m.descriptor.swizzle = mode, true; });
    // With the entire layout of that mode, as if only one side of the kernel chose it.
    reread(rows, x, fmt::format("layout.{}", info(mode).name),
           fmt::format("read as a dense {} tile of swizzle {}", print(matrix.major), info(mode).name),
           "the tile was written in one layout and is read in another", [mode](SmemMatrix& m) {
             m.descriptor.swizzle = mode;
             take_minimal_strides(m);
             return true;
           });
  }
  add(rows, fmt::format("{}.xor_on_offset", letter(x)), stage_of(x),
      fmt::format("{}: the swizzle XORs the offset from the start, not the address", upper(x)),
      "swizzle address bits after adding the start address", [x](const Subject& subject, Parts& parts) {
        SmemMatrix m = *subject.in_smem(x);
        const int64_t start = m.descriptor.start_address_bytes;
        if (info(m.descriptor.swizzle).bits == 0 || m.descriptor.leading_dim_absolute) return false;
        m.descriptor.start_address_bytes = 0, m.descriptor.base_offset = 0;
        std::optional<Matrix> read = subject.read(x, m, start);
        if (read) operand_of(parts, x) = std::move(*read);
        return read.has_value();
      });
}

/// Moves the 16-byte units of whole 128-byte rows to where another swizzle, or none, puts them, as a TMA map with
/// another swizzle than the descriptor does. The whole image moves, including the steps of K beside this one.
void add_moved_units(Rows& rows, const Subject& s, Role x, const SmemMatrix& matrix) {
  const SmemDescriptor& descriptor = matrix.descriptor;
  if (descriptor.leading_dim_absolute) return;
  const SwizzleInfo& own = info(descriptor.swizzle);
  for (const SwizzleInfo& mode : swizzles) {
    if (mode.id == own.id || mode.code(s.this_case().target) < 0) continue;
    const std::string what =
        mode.bits == 0 ? fmt::format("written without swizzle, whole rows of 128 bytes, read with swizzle {}", own.name)
        : own.bits == 0 ? fmt::format("written with swizzle {} at the same strides, read without", mode.name)
                        : fmt::format("written with swizzle {} at the same strides, read with {}", mode.name, own.name);
    add(rows, fmt::format("{}.units.{}", letter(x), mode.name), stage_of(x), fmt::format("{}: {}", upper(x), what),
        "the swizzle of the TMA map that wrote the tile must be that of the descriptor",
        [x, mode, own, base = descriptor.base_offset](const Subject& subject, Parts& parts) {
          // Unit e is written at mode(e) and read at own(e): the read at p gets the unit written for own(mode(p)).
          std::optional<Matrix> read =
              subject.read_moved(x, [&](int64_t at) { return apply(own, apply(mode, at, base), base); });
          if (read) operand_of(parts, x) = std::move(*read);
          return read.has_value();
        });
  }
}

/// Strides of other tiles. A stride that changes nothing that is read is no fault.
void add_strides(Rows& rows, Role x, const SmemMatrix& matrix) {
  struct Stride {
    std::string_view id, name, fix;
    int64_t Strides::*of;
  };
  const auto strides = std::to_array<Stride>({
      {"sbo", "SBO", "in K-major SBO steps over 8 rows: 8 x the bytes of a row of the swizzle, plus padding",
       &Strides::stride_dim_byte_offset},
      {"lbo", "LBO", "LBO steps along K in K-major without swizzle, and along M or N in swizzled MN-major",
       &Strides::leading_dim_byte_offset},
  });
  for (const Stride& stride : strides) {
    const int64_t own = matrix.descriptor.strides.*stride.of;
    for (const int64_t other : {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}) {
      SmemMatrix changed = matrix;
      changed.descriptor.strides.*stride.of = other;
      if (matrix.descriptor.leading_dim_absolute || layout_of(changed) == layout_of(matrix)) continue;
      reread(rows, x, fmt::format("{}.{}", stride.id, other),
             fmt::format("{} is {} instead of {} bytes", stride.name, other, own), stride.fix,
             [of = stride.of, other](SmemMatrix& m) { return m.descriptor.strides.*of = other, true; });
    }
  }
}

/// Reads the buffer of the other operand.
void add_other_buffer(Rows& rows, const Subject& s, Role x, const SmemMatrix& matrix) {
  const Role other = x == Role::a ? Role::b : Role::a;
  const SmemMatrix* const others = s.in_smem(other);
  if (!others || others->descriptor == matrix.descriptor) return;
  const std::string what = fmt::format("read from the buffer of {}", upper(other));
  constexpr std::string_view fix = "which address went into which descriptor, and the order of the descriptors";
  if (others->descriptor.start_address_bytes != matrix.descriptor.start_address_bytes) {
    add(rows, fmt::format("{}.other_buffer", letter(x)), stage_of(x), fmt::format("{}: {}", upper(x), what), fix,
        [x, other](const Subject& subject, Parts& parts) {
          SmemMatrix m = *subject.in_smem(x);
          m.descriptor.start_address_bytes = subject.in_smem(other)->descriptor.start_address_bytes;
          std::optional<Matrix> read = subject.read(x, m);
          if (read) operand_of(parts, x) = std::move(*read);
          return read.has_value();
        });
  }
  SmemDescriptor at_others_start = matrix.descriptor;
  at_others_start.start_address_bytes = others->descriptor.start_address_bytes;
  if (at_others_start == others->descriptor) return;
  add(rows, fmt::format("{}.other_descriptor", letter(x)), stage_of(x),
      fmt::format("{}: {}, according to its descriptor", upper(x), what), fix,
      [x, other](const Subject& subject, Parts& parts) {
        SmemMatrix m = *subject.in_smem(x);
        m.descriptor = subject.in_smem(other)->descriptor;
        std::optional<Matrix> read = subject.read(x, m);
        if (read) operand_of(parts, x) = std::move(*read);
        return read.has_value();
      });
}

/// Other stages of a pipeline, if the image contains them.
void add_stages(Rows& rows, const Subject& s, Role x, const SmemMatrix& matrix) {
  const int64_t start = matrix.descriptor.start_address_bytes;
  for (const int64_t step : {2048, -2048, 4096, -4096, 8192, -8192, 16384, -16384, 32768, -32768}) {
    if (!s.is_in_image(start + step)) continue;
    reread(rows, x, fmt::format("start.{:+}", step),
           fmt::format("the start address is {} KiB off: another stage, or another part of the tile", step / 1024),
           "the index of the pipeline stage, and the bytes of a stage", [step](SmemMatrix& m) {
             m.descriptor.start_address_bytes += step;
             return m.descriptor.start_address_bytes >= 0;
           });
  }
}

void add_starts(Rows& rows, Role x, const SmemMatrix& matrix) {
  const int own = matrix.descriptor.base_offset;
  for (int base = 0; base < 8; ++base) {
    if (base == own || info(matrix.descriptor.swizzle).bits == 0) continue;
    reread(
        rows, x, fmt::format("base_offset.{}", base),
        base == 0 ? fmt::format("base offset {} dropped", own) : fmt::format("base offset {} instead of {}", base, own),
        "base offset is (pattern start >> 7) & 7, and 0 for aligned tiles",
        [base](SmemMatrix& m) { return m.descriptor.base_offset = base, true; });
  }
  for (const int64_t step : {32, -32, 64, -64, 96, 16, -16, 128, -128, 256, 512, 1024, -1024}) {
    reread(rows, x, fmt::format("start.{:+}", step),
           fmt::format("the start address is {} bytes off: a wrong advance along K, or another stage", step),
           "advance the start field by (bytes of K) >> 4, inside the swizzle atom too", [step](SmemMatrix& m) {
             m.descriptor.start_address_bytes += step;
             return m.descriptor.start_address_bytes >= 0;
           });
  }
}

}  // namespace

void add_descriptor_faults(Rows& rows, const Subject& s, Role x) {
  const SmemMatrix* const matrix = s.in_smem(x);
  if (!matrix) return;
  add_moved_units(rows, s, x, *matrix);
  add_modes(rows, s, x, *matrix);
  for (const DescriptorRow& row : descriptor_rows) {
    reread(rows, x, row.id, fmt::format(fmt::runtime(row.what), print_upper(other(matrix->major))), row.fix,
           row.change);
  }
  add_starts(rows, x, *matrix);
  add_stages(rows, s, x, *matrix);
  add_strides(rows, x, *matrix);
  add_other_buffer(rows, s, x, *matrix);
}

}  // namespace bitmma::faults
