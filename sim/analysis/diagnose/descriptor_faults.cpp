// Operands in shared memory, read through a descriptor that is wrong.
#include <array>

#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

std::string_view print_upper(Major major) { return major == Major::k ? "K-major" : "MN-major"; }
Major other(Major major) { return major == Major::k ? Major::mn : Major::k; }

using Change = std::function<bool(SmemMatrix&)>;

/// The descriptor changed, and the operand read again.
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

/// Strides in bytes where units of 16 belong.
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
  std::string_view id, what, fix;  // {} in `what` stands for the other major-ness
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
     .what = "SBO in bytes where bytes >> 4 belong",
     .fix = stored_in_16,
     .change = [](SmemMatrix& m) { return store_bytes(m, false, true); }},
    {.id = "lbo_not_shifted",
     .what = "LBO in bytes where bytes >> 4 belong",
     .fix = stored_in_16,
     .change = [](SmemMatrix& m) { return store_bytes(m, true, false); }},
    {.id = "strides_not_shifted",
     .what = "LBO and SBO in bytes where bytes >> 4 belong",
     .fix = stored_in_16,
     .change = [](SmemMatrix& m) { return store_bytes(m, true, true); }},
    {.id = "sbo_zero",
     .what = "SBO is 0: every 8 rows are the first 8",
     .fix = "the stride field was never set",
     .change = [](SmemMatrix& m) { return m.descriptor.strides.stride_dim_byte_offset = 0, true; }},
    {.id = "lbo_zero",
     .what = "LBO is 0",
     .fix = "the leading dimension field was never set",
     .change =
         [](SmemMatrix& m) {
           return m.descriptor.strides.leading_dim_byte_offset = 0, !m.descriptor.leading_dim_absolute;
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

/// The operand as another swizzle mode reads it.
void add_modes(Rows& rows, Role x, const SmemMatrix& matrix) {
  for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    const Swizzle own = matrix.descriptor.swizzle;
    if (mode == own) continue;
    reread(rows, x, fmt::format("swizzle.{}", info(mode).name),
           fmt::format("read with swizzle {} instead of {}", info(mode).name, info(own).name),
           "the swizzle field of the descriptor, or of the TMA map that wrote the tile",
           [mode](SmemMatrix& m) { return m.descriptor.swizzle = mode, true; });
    // With the whole layout of that mode, as a kernel has it that chose another mode on one side.
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
      "swizzle address bits after adding the start address", [x](const Subject& s, Parts& parts) {
        SmemMatrix m = *s.in_smem(x);
        const int64_t start = m.descriptor.start_address_bytes;
        if (info(m.descriptor.swizzle).bits == 0 || m.descriptor.leading_dim_absolute) return false;
        m.descriptor.start_address_bytes = 0, m.descriptor.base_offset = 0;
        std::optional<Matrix> read = s.read(x, m, start);
        if (read) operand_of(parts, x) = std::move(*read);
        return read.has_value();
      });
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
  add_modes(rows, x, *matrix);
  for (const DescriptorRow& row : descriptor_rows) {
    reread(rows, x, row.id, fmt::format(fmt::runtime(row.what), print_upper(other(matrix->major))), row.fix,
           row.change);
  }
  add_starts(rows, x, *matrix);
}

}  // namespace bitmma::faults
