// SPDX-License-Identifier: MIT
#include "bitmma/memory/layout_descriptor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/memory/smem.hpp"

namespace bitmma {
namespace {

constexpr std::string_view layouts_source = "PTX ISA 9.7.15.5.1.2.1.3, 9.7.16.3.3";

/// Offsets in elements along one coordinate, relative to the first one.
using Profile = std::vector<int64_t>;

Profile profile_at(const Profile& offsets, int64_t first, int64_t count) {
  Profile profile(offsets.begin() + first, offsets.begin() + first + count);
  for (int64_t& offset : profile) offset -= offsets[static_cast<size_t>(first)];
  return profile;
}

/// "+64 bytes", or "+12 bits" for sub-byte elements.
std::string distance(int64_t elements, int element_bits) {
  const int64_t bits = elements * element_bits;
  return bits % 8 == 0 ? fmt::format("{:+} bytes", bits / 8) : fmt::format("{:+} bits", bits);
}

/// One attempt: reads the layout as a canonical one with this major-ness.
class CanonicalLayoutSearch {
 public:
  CanonicalLayoutSearch(const CuteLayout& cute, const DescriptorRequest& request, Major major)
      : cute_(cute),
        request_(request),
        major_(major),
        mode_(cute.swizzle),
        rows_(request.instruction_rows),
        cols_(request.instruction_cols),
        t_(128 / cute.element_bits),
        width_(mode_.width_bytes / 16 * t_),
        row_offsets_(offsets_of(cute.layout.row, cute.rows)),
        col_offsets_(offsets_of(cute.layout.col, cute.cols)) {}

  DescriptorAnswer run() {
    check_extents();
    if (reasons_.empty()) find_strides();
    if (reasons_.empty()) check_blocks();
    LayoutDescriptor descriptor;
    if (reasons_.empty()) descriptor = describe();
    DescriptorAnswer answer{.reasons = std::move(reasons_)};
    if (answer.reasons.empty()) answer.descriptors = std::move(descriptor);
    return answer;
  }

 private:
  bool along_k() const { return major_ == Major::k; }
  void refuse(std::string field, std::string seen, std::string expected, std::string fix = {}) {
    reasons_.push_back({.field = std::move(field),
                        .seen = std::move(seen),
                        .expected = std::move(expected),
                        .fix = std::move(fix),
                        .source = std::string(layouts_source)});
  }

  void check_extents() {
    const bool is_mode = mode_.bits == 0 || info(mode_.id).bits == mode_.bits;
    if (!is_mode) {
      refuse("swizzle", print(mode_), "Swizzle<0,4,3>, <1,4,3>, <2,4,3> or <3,4,3>, or <2,5,2> on Blackwell",
             "the three numbers here are for bytes; CuTe's may be for elements");
    } else if (mode_.code(request_.target) < 0) {
      refuse("swizzle", print(mode_), fmt::format("a mode of {}", print(request_.target)),
             "128-byte swizzling with 32-byte atoms exists only on Blackwell");
    }
    if (cute_.rows % rows_ != 0)
      refuse("rows", std::to_string(cute_.rows), fmt::format("a multiple of the {} of one instruction", rows_));
    if (cute_.cols % cols_ != 0)
      refuse("columns (K)", std::to_string(cute_.cols),
             fmt::format("a multiple of the {} that one instruction reads", cols_),
             cute_.cols == 1 ? "shared memory holds M or N by K: pass both modes" : "");
    const int64_t inner = along_k() ? cols_ : rows_;
    if (inner < t_)
      refuse(along_k() ? "columns (K)" : "rows", std::to_string(inner),
             fmt::format("{} or more: the elements of 16 bytes", t_));
  }

  /// Finds the strides that the first block determines; the others keep the values of a dense tile.
  void find_strides() {
    const Profile row = profile_at(row_offsets_, 0, rows_), col = profile_at(col_offsets_, 0, cols_);
    strides_ = minimal_strides(major_, mode_, cute_.element_bits, static_cast<int>(rows_), static_cast<int>(cols_));
    const Profile& inner = along_k() ? col : row;
    const Profile& outer = along_k() ? row : col;
    const int64_t atom = along_k() ? 8 : mode_.rows_per_atom;
    int64_t* const outer_stride =
        along_k() || mode_.bits != 0 ? &strides_.stride_dim_byte_offset : &strides_.leading_dim_byte_offset;
    int64_t* const inner_stride = outer_stride == &strides_.stride_dim_byte_offset ? &strides_.leading_dim_byte_offset
                                                                                   : &strides_.stride_dim_byte_offset;
    const bool outer_counts = static_cast<int64_t>(outer.size()) > atom;
    const bool inner_counts = static_cast<int64_t>(inner.size()) > width_;
    if (outer_counts) take_stride(outer[static_cast<size_t>(atom)], *outer_stride, along_k() ? "row" : "k", atom);
    if (inner_counts) take_stride(inner[static_cast<size_t>(width_)], *inner_stride, along_k() ? "k" : "row", width_);
    leading_counts_ = outer_stride == &strides_.leading_dim_byte_offset ? outer_counts : inner_counts;
    stride_counts_ = outer_stride == &strides_.leading_dim_byte_offset ? inner_counts : outer_counts;
  }

  void take_stride(int64_t elements, int64_t& stride, std::string_view coordinate, int64_t index) {
    const int64_t bits = elements * cute_.element_bits;
    constexpr int64_t most = 0x3FFFF;
    if (elements >= 0 && bits % 128 == 0 && bits / 8 <= most) {
      stride = bits / 8;
      return;
    }
    refuse(fmt::format("{} {}", coordinate, index), distance(elements, cute_.element_bits),
           "a multiple of 16 bytes in 0..262128, as LBO and SBO are stored");
  }

  /// Every block of rows and of K must have the layout of the first block, and the hardware must read that layout.
  void check_blocks() {
    const Layout layout =
        hardware_layout(major_, mode_, strides_, cute_.element_bits, static_cast<int>(rows_), static_cast<int>(cols_));
    const Profile row = offsets_of(layout.row, rows_), col = offsets_of(layout.col, cols_);
    for (int64_t first = 0; first < cute_.rows && reasons_.empty(); first += rows_)
      compare("row", first, profile_at(row_offsets_, first, rows_), row, !along_k());
    for (int64_t first = 0; first < cute_.cols && reasons_.size() < 2; first += cols_)
      compare("k", first, profile_at(col_offsets_, first, cols_), col, along_k());
  }

  void compare(std::string_view coordinate, int64_t first, const Profile& seen, const Profile& wanted, bool is_inner) {
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] == wanted[i]) continue;
      const auto index = static_cast<int64_t>(i);
      const int64_t atom = along_k() ? 8 : mode_.rows_per_atom;
      std::string rule;
      if (is_inner && index < t_) rule = fmt::format("{} neighbours fill 16 bytes", t_);
      else if (is_inner && index < width_)
        rule = fmt::format("{} contiguous bytes, the width of {}", mode_.width_bytes, print(mode_));
      else if (is_inner)
        rule = fmt::format("equal steps of {} after every {}", mode_.bits == 0 && !along_k() ? "SBO" : "LBO", width_);
      else if (index < atom)
        rule = fmt::format("an atom of {} {}s, {} bytes each", atom, coordinate, mode_.width_bytes);
      else rule = fmt::format("equal steps of {} after every {}", mode_.bits == 0 && !along_k() ? "LBO" : "SBO", atom);
      refuse(fmt::format("{} {}", coordinate, first + index),
             fmt::format("{} from {} {}", distance(seen[i], cute_.element_bits), coordinate, first),
             fmt::format("{}: {}", distance(wanted[i], cute_.element_bits), rule));
      return;
    }
  }

  LayoutDescriptor describe() {
    LayoutDescriptor canonical{.major = major_, .t = t_};
    canonical.m = along_k() ? (cute_.rows + 7) / 8 : (cute_.rows + width_ - 1) / width_;
    canonical.k =
        along_k() ? (cute_.cols + 2 * t_ - 1) / (2 * t_) : (cute_.cols + mode_.rows_per_atom - 1) / mode_.rows_per_atom;
    canonical.leading_counts = leading_counts_, canonical.stride_counts = stride_counts_;
    canonical.first = {.target = request_.target, .strides = strides_, .swizzle = mode_.id};
    for (int64_t stage = 0; stage < cute_.stages(); ++stage) {
      const int64_t stage_offset = cute_.stage_offset(stage);
      for (int64_t row = 0; row < cute_.rows; row += rows_) {
        for (int64_t col = 0; col < cute_.cols; col += cols_) {
          const int64_t bits =
              (stage_offset + row_offsets_[static_cast<size_t>(row)] + col_offsets_[static_cast<size_t>(col)]) *
              cute_.element_bits;
          const int64_t start = cute_.start_bytes + bits / 8;
          if (bits % 8 != 0 || start % 16 != 0 || start > 0x3FFFF) {
            refuse(fmt::format("start of stage {}, row {}, k {}", stage, row, col),
                   bits % 8 != 0 ? fmt::format("bit {}", 8 * cute_.start_bytes + bits) : fmt::format("byte {}", start),
                   "a multiple of 16 bytes in 0..262128");
            return canonical;
          }
          SmemDescriptor descriptor = canonical.first;
          descriptor.start_address_bytes = start;
          if (canonical.steps.empty()) canonical.first = descriptor;
          canonical.steps.push_back(
              {.stage = stage, .row = row, .col = col, .descriptor = encode(descriptor), .start_bytes = start});
        }
      }
    }
    return canonical;
  }

  const CuteLayout& cute_;
  const DescriptorRequest& request_;
  Major major_;
  SwizzleInfo mode_;
  int64_t rows_, cols_, t_, width_;  // width: elements of a row of the swizzle
  Profile row_offsets_, col_offsets_;
  Strides strides_ = {};
  bool leading_counts_ = false, stride_counts_ = false;
  std::vector<Violation> reasons_ = {};
};

constexpr TargetSet has_absolute_leading_dim{Target::sm_103a, Target::sm_103f, Target::sm_107a, Target::sm_107f};

/// K = 96 of packed 4-bit elements: 48 bytes, which may begin in one 128-byte line and end in another. Bit 52 then
/// makes the leading field the address of the second line. Source: PTX ISA 9.7.16.3.1.2.
bool may_be_absolute(const CuteLayout& cute, const DescriptorRequest& request, Major major) {
  return has_absolute_leading_dim.contains(request.target) && major == Major::k && cute.element_bits == 4 &&
         request.instruction_cols == 96 && cute.swizzle.id == Swizzle::b128 && cute.swizzle.bits != 0 &&
         cute.cols % 96 == 0 && cute.rows % request.instruction_rows == 0;
}

/// The descriptors in that mode, or nothing if one of them does not find every element.
std::optional<LayoutDescriptor> absolute_descriptors(const CuteLayout& cute, const DescriptorRequest& request) {
  constexpr int64_t line = 128, elements_per_byte = 2, most = 0x3FFFF;
  const int64_t rows = request.instruction_rows, cols = request.instruction_cols;
  const Profile row_offsets = offsets_of(cute.layout.row, cute.rows),
                col_offsets = offsets_of(cute.layout.col, cute.cols);
  const auto byte_at = [&](int64_t stage, int64_t row, int64_t col) {
    return cute.start_bytes +
           (cute.stage_offset(stage) + row_offsets[static_cast<size_t>(row)] + col_offsets[static_cast<size_t>(col)]) /
               elements_per_byte;
  };
  LayoutDescriptor result{.major = Major::k, .t = 32, .m = (cute.rows + 7) / 8, .k = (cute.cols + 63) / 64};
  result.leading_counts = true, result.stride_counts = rows > 8;
  for (int64_t stage = 0; stage < cute.stages(); ++stage) {
    for (int64_t row = 0; row < cute.rows; row += rows) {
      for (int64_t col = 0; col < cute.cols; col += cols) {
        const int64_t start = byte_at(stage, row, col);
        if (start % 16 != 0 || start > most) return std::nullopt;
        const int64_t in_first = (line - start % line) * elements_per_byte;
        const int64_t second = in_first < cols ? byte_at(stage, row, col + in_first) : start / line * line;
        const int64_t stride = rows > 8 ? byte_at(stage, row + 8, col) - start : 8 * line;
        if (second % line != 0 || second < 0 || second > most || stride % 16 != 0 || stride < 0 || stride > most)
          return std::nullopt;
        SmemDescriptor descriptor{.target = request.target,
                                  .start_address_bytes = start,
                                  .strides = {.leading_dim_byte_offset = second, .stride_dim_byte_offset = stride},
                                  .swizzle = Swizzle::b128,
                                  .leading_dim_absolute = true};
        const SmemMap map({.descriptor = descriptor,
                           .major = Major::k,
                           .element_bits = 4,
                           .rows = static_cast<int>(rows),
                           .cols = static_cast<int>(cols)});
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < cols; c += elements_per_byte) {
            if (map.place_of(static_cast<int>(r), static_cast<int>(c)).byte !=
                apply(cute.swizzle, byte_at(stage, row + r, col + c)))
              return std::nullopt;
          }
        }
        if (result.steps.empty()) result.first = descriptor;
        result.steps.push_back(
            {.stage = stage, .row = row, .col = col, .descriptor = encode(descriptor), .start_bytes = start});
      }
    }
  }
  return result;
}

/// Warns about forms that have a descriptor but no instruction.
void append_form_warnings(std::vector<Violation>& warnings, const CuteLayout& cute, Major major, Target target) {
  const bool is_hopper = info(target).smem_descriptor == SmemDescriptorVersion::sm_90;
  const int bits = cute.element_bits;
  const auto warn = [&](std::string seen, std::string expected, std::string_view source) {
    warnings.push_back({.field = "layout",
                        .seen = std::move(seen),
                        .expected = std::move(expected),
                        .source = std::string(source),
                        .severity = Severity::warning});
  };
  const std::string seen = fmt::format("{}, {} bits", print(major), bits);
  if (is_hopper && major == Major::mn && bits != 16)
    warn(seen, "K-major: wgmma transposes operands of 16 bits only", "PTX ISA 9.7.15.5.2");
  if (!is_hopper && major == Major::mn && bits < 8)
    warn(seen, "K-major: kinds with packed 4-bit operands support nothing else", "PTX ISA 9.7.16.10, Table 54");
  const bool has_wide_atoms = cute.swizzle.id == Swizzle::b128_atom32 && cute.swizzle.bits != 0;
  if (!is_hopper && major == Major::mn && (bits == 32) != has_wide_atoms)
    warn(fmt::format("{}, {}", seen, print(cute.swizzle)),
         "in MN-major, Swizzle<2,5,2> for 32-bit elements and only for them", "PTX ISA 9.7.16.10, Table 54");
  if (!is_hopper && major == Major::k && has_wide_atoms)
    warn(fmt::format("{}, {}", seen, print(cute.swizzle)), "another swizzle: CUTLASS has no such K-major atom",
         "PTX ISA 9.7.16.3, Table 55");
}

DescriptorRequest checked(const CuteLayout& cute, DescriptorRequest request) {
  static_cast<void>(smem_descriptor_fields(request.target));  // throws if there are none
  std::vector<Violation> violations;
  const int bits = cute.element_bits;
  if (bits < 1 || bits > 128 || 128 % bits != 0) {
    throw Error({.field = "element bits",
                 .seen = std::to_string(bits),
                 .expected = "1, 2, 4, 8, 16, 32, 64 or 128: whole elements in 16 bytes"});
  }
  if (request.instruction_rows == 0) request.instruction_rows = cute.rows;
  if (request.instruction_cols == 0) request.instruction_cols = std::max(1, 256 / bits);
  for (const auto& [field, value] : {std::pair("rows of an instruction", request.instruction_rows),
                                     std::pair("K of an instruction", request.instruction_cols)}) {
    if (value >= 1 && value <= 65536) continue;
    violations.push_back({.field = field, .seen = std::to_string(value), .expected = "1..65536"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  constexpr int64_t most_steps = 65536;
  const int64_t steps = std::max<int64_t>(1, cute.rows / request.instruction_rows) *
                        std::max<int64_t>(1, cute.cols / request.instruction_cols);
  if (steps > most_steps || cute.stages() > most_steps / steps) {
    throw Error({.code = ViolationCode::too_large,
                 .field = "descriptors of the layout",
                 .seen = fmt::format("{} stages of {}", cute.stages(), steps),
                 .expected = fmt::format("at most {}", most_steps)});
  }
  return request;
}

}  // namespace

std::optional<SharedBytes> shared_bytes_of(const CuteLayout& cute) {
  const Profile rows = offsets_of(cute.layout.row, cute.rows), cols = offsets_of(cute.layout.col, cute.cols);
  struct Placed {
    int64_t offset, row, col;
  };
  std::vector<Placed> placed;
  placed.reserve(static_cast<size_t>(cute.rows * cute.cols));
  for (int64_t row = 0; row < cute.rows; ++row) {
    for (int64_t col = 0; col < cute.cols; ++col)
      placed.push_back({rows[static_cast<size_t>(row)] + cols[static_cast<size_t>(col)], row, col});
  }
  std::ranges::stable_sort(placed, {}, &Placed::offset);
  std::optional<SharedBytes> shared;
  for (size_t i = 1; i < placed.size(); ++i) {
    const Placed &previous = placed[i - 1], &next = placed[i];
    if (previous.offset != next.offset) continue;
    if (!shared)
      shared = SharedBytes{.row = previous.row,
                           .col = previous.col,
                           .other_row = next.row,
                           .other_col = next.col,
                           .first_byte = cute.start_bytes + previous.offset * cute.element_bits / 8};
    ++shared->elements;
  }
  return shared;
}

DescriptorAnswer descriptors_of(const CuteLayout& cute, const DescriptorRequest& unchecked) {
  const DescriptorRequest request = checked(cute, unchecked);
  const auto step_of = [](const LayoutMode& mode) { return mode.empty() || mode[0].extent == 1 ? 0 : mode[0].stride; };
  const bool runs_along_rows = step_of(cute.layout.col) != 1 && step_of(cute.layout.row) == 1;
  const Major major = unchecked.major.value_or(runs_along_rows ? Major::mn : Major::k);
  DescriptorAnswer answer = CanonicalLayoutSearch(cute, request, major).run();
  if (!answer.descriptors && may_be_absolute(cute, request, major)) {
    answer.descriptors = absolute_descriptors(cute, request);
    if (answer.descriptors) answer.reasons.clear();
  }
  if (const std::optional<SharedBytes> shared = shared_bytes_of(cute)) {
    const int64_t last_byte = shared->first_byte + std::max(1, cute.element_bits / 8) - 1;
    std::vector<Violation>& list = answer.descriptors ? answer.warnings : answer.reasons;
    list.push_back(
        {.code = ViolationCode::contradiction,
         .field = "layout",
         .seen = fmt::format("row {}, k {} and row {}, k {} share bytes {:#x}-{:#x}", shared->row, shared->col,
                             shared->other_row, shared->other_col, shared->first_byte, last_byte),
         .expected =
             fmt::format("separate bytes for every element; {} on bytes of another element",
                         shared->elements == 1 ? "1 element lies" : fmt::format("{} elements lie", shared->elements)),
         .severity = answer.descriptors ? Severity::warning : Severity::error});
  }
  if (answer.descriptors) append_form_warnings(answer.warnings, cute, major, request.target);
  return answer;
}

std::vector<SwizzleUse> swizzle_uses() {
  struct UseRow {
    std::string_view instruction;
    Target target;
    int element_bits;
  };
  constexpr UseRow rows[]{{"wgmma", Target::sm_90a, 1},         {"wgmma", Target::sm_90a, 8},
                          {"wgmma", Target::sm_90a, 16},        {"wgmma", Target::sm_90a, 32},
                          {"tcgen05.mma", Target::sm_100a, 4},  {"tcgen05.mma", Target::sm_100a, 8},
                          {"tcgen05.mma", Target::sm_100a, 16}, {"tcgen05.mma", Target::sm_100a, 32}};
  std::vector<SwizzleUse> uses;
  for (const UseRow& row : rows) {
    for (const Major major : {Major::k, Major::mn}) {
      for (const SwizzleInfo& mode : swizzles) {
        const int extent = 1024, cols = 256 / row.element_bits;  // rows that fill every swizzle
        SwizzleUse use{.instruction = row.instruction,
                       .target = row.target,
                       .element_bits = row.element_bits,
                       .major = major,
                       .swizzle = mode.id};
        const Strides strides = minimal_strides(major, mode, row.element_bits, extent, cols);
        const CuteLayout cute{.swizzle = mode,
                              .layout = hardware_layout(major, mode, strides, row.element_bits, extent, cols),
                              .rows = extent,
                              .cols = cols,
                              .element_bits = row.element_bits};
        const DescriptorAnswer answer = descriptors_of(cute, {.target = row.target, .major = major});
        use.reasons = answer.descriptors ? answer.warnings : answer.reasons;
        use.is_accepted = use.reasons.empty();
        uses.push_back(std::move(use));
      }
    }
  }
  return uses;
}

}  // namespace bitmma
