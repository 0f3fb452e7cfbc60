// SPDX-License-Identifier: MIT
#include "bitmma/instruction/sass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../core/ascii.hpp"

namespace bitmma {
namespace {

// clang-format off
constexpr auto sass_rows = std::to_array<SassInfo>({
    {.name = "HGMMA", .ptx = "wgmma.mma_async", .types = "F16", .does = "one warpgroup multiplies matrices of f16, bf16 or tf32; A in registers or by descriptor, B by descriptor"},
    {.name = "QGMMA", .ptx = "wgmma.mma_async", .does = "the same for e4m3 and e5m2"},
    {.name = "IGMMA", .ptx = "wgmma.mma_async", .does = "the same for s8 and u8"},
    {.name = "BGMMA", .ptx = "wgmma.mma_async", .types = "B1", .does = "the same for single bits"},
    {.name = "WARPGROUP.ARRIVE", .ptx = "wgmma.fence", .does = "orders registers before wgmma"},
    {.name = "WARPGROUP.DEPBAR", .ptx = "wgmma.wait_group", .does = "waits for groups of wgmma"},
    {.name = "WARPGROUPSET", .ptx = "wgmma", .does = "part of a wgmma sequence"},
    {.name = "HMMA", .ptx = "mma.sync", .types = "F16", .does = "one warp multiplies matrices of f16, bf16 or tf32 in registers"},
    {.name = "QMMA", .ptx = "mma.sync", .does = "the same for fp8, fp6 and fp4; .SF with block scales"},
    {.name = "OMMA", .ptx = "mma.sync, kind::mxf4 or mxf4nvf4", .types = "E2M1", .does = "the same for fp4 with block scales"},
    {.name = "IMMA", .ptx = "mma.sync", .does = "the same for integers"},
    {.name = "BMMA", .ptx = "mma.sync", .types = "B1", .does = "the same for single bits"},
    {.name = "DMMA", .ptx = "mma.sync", .types = "F64", .does = "the same for f64"},
    {.name = "UTCHMMA", .ptx = "tcgen05.mma, kind::f16 or kind::tf32", .does = "multiplies into Tensor Memory; shape and types are in the instruction descriptor"},
    {.name = "UTCQMMA", .ptx = "tcgen05.mma, kind::f8f6f4 or kind::mxf8f6f4", .does = "the same; with block scales if it names their addresses"},
    {.name = "UTCOMMA", .ptx = "tcgen05.mma, kind::mxf4 or kind::mxf4nvf4", .does = "the same for fp4 with block scales"},
    {.name = "UTCIMMA", .ptx = "tcgen05.mma, kind::i8", .does = "the same for integers"},
    {.name = "UTCMMA", .ptx = "tcgen05.mma", .does = "the same; the name does not show the kind"},
    {.name = "UTCCP", .ptx = "tcgen05.cp", .does = "copies shared memory to Tensor Memory"},
    {.name = "UTCSHIFT", .ptx = "tcgen05.shift", .does = "moves rows of Tensor Memory down"},
    {.name = "UTCBAR", .ptx = "tcgen05.commit", .does = "makes an mbarrier track tcgen05 instructions"},
    {.name = "UTCATOMSWS", .ptx = "tcgen05.alloc, .dealloc or .relinquish_alloc_permit", .does = "allocates and frees Tensor Memory"},
    {.name = "LDTM", .ptx = "tcgen05.ld", .does = "Tensor Memory to registers"},
    {.name = "STTM", .ptx = "tcgen05.st", .does = "registers to Tensor Memory"},
    {.name = "FENCE.VIEW.ASYNC.T", .ptx = "tcgen05.wait", .does = "waits for tcgen05.ld or .st"},
    {.name = "FENCE.VIEW.ASYNC", .ptx = "fence.proxy.async", .does = "makes ordinary writes visible to the async proxy"},
    {.name = "LDSM", .ptx = "ldmatrix", .does = "8 x 8 matrices of shared memory to registers"},
    {.name = "STSM", .ptx = "stmatrix", .does = "registers to 8 x 8 matrices of shared memory"},
    {.name = "MOVM", .ptx = "movmatrix", .does = "transposes an 8 x 8 matrix across registers"},
    {.name = "UTMALDG", .ptx = "cp.async.bulk.tensor", .does = "TMA: a box of global memory to shared memory"},
    {.name = "UTMASTG", .ptx = "cp.async.bulk.tensor", .does = "TMA: a box of shared memory to global memory"},
    {.name = "UTMAREDG", .ptx = "cp.reduce.async.bulk.tensor", .does = "TMA: combines a box with global memory"},
    {.name = "UTMAPF", .ptx = "cp.async.bulk.prefetch.tensor", .does = "TMA: a box to L2"},
    {.name = "UTMACMDFLUSH", .ptx = "cp.async.bulk.commit_group", .does = "closes a group of bulk copies"},
    {.name = "UTMACCTL", .ptx = "prefetch.tensormap or fence.proxy.tensormap", .does = "prefetches or invalidates a tensor map"},
    {.name = "UBLKCP", .ptx = "cp.async.bulk", .does = "a bulk copy without a tensor map"},
    {.name = "UBLKPF", .ptx = "cp.async.bulk.prefetch", .does = "bytes to L2"},
    {.name = "UBLKRED", .ptx = "cp.reduce.async.bulk", .does = "combines bytes with global memory"},
    {.name = "SYNCS", .ptx = "mbarrier", .does = "an operation on an mbarrier"},
    {.name = "LDGSTS", .ptx = "cp.async", .does = "global memory to shared memory, by thread"},
    {.name = "ARRIVES.LDGSTSBAR", .ptx = "cp.async.mbarrier.arrive", .does = "an mbarrier that tracks cp.async"},
});
// clang-format on

constexpr auto sass_type_names =
    std::to_array<std::string_view>({"F64", "F32", "F16", "BF16", "TF32", "E4M3", "E5M2", "E3M2", "E2M3", "E2M1", "S32",
                                     "S8", "U8", "S4", "U4", "UE8M0", "UE4M3"});

/// Shapes of mma.sync as SASS names spell them: m, n and k without separators.
struct Shape {
  std::string_view digits, name;
};
constexpr auto shapes = std::to_array<Shape>({{"884", "m8n8k4"},
                                              {"8816", "m8n8k16"},
                                              {"8832", "m8n8k32"},
                                              {"88128", "m8n8k128"},
                                              {"1684", "m16n8k4"},
                                              {"1688", "m16n8k8"},
                                              {"16816", "m16n8k16"},
                                              {"16832", "m16n8k32"},
                                              {"16864", "m16n8k64"},
                                              {"168128", "m16n8k128"},
                                              {"168256", "m16n8k256"}});

bool is_opcode(char c) { return is_digit(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == 'x'; }

bool has_name(std::string_view opcode, std::string_view name) {
  return opcode.starts_with(name) && (opcode.size() == name.size() || opcode[name.size()] == '.');
}

const SassInfo* row_of(std::string_view opcode) {
  const SassInfo* best = nullptr;
  for (const SassInfo& row : sass_rows) {
    if (has_name(opcode, row.name) && (!best || row.name.size() > best->name.size())) best = &row;
  }
  return best;
}

/// "64x64x16" is m64n64k16.
std::string shape_in(std::string_view word) {
  const size_t first = word.find('x'), second = word.find('x', first + 1);
  if (first == std::string_view::npos) {
    const auto row = std::ranges::find(shapes, word, &Shape::digits);
    return row == shapes.end() ? "" : std::string(row->name);
  }
  const bool is_shape =
      second != std::string_view::npos && std::ranges::all_of(word, [](char c) { return is_digit(c) || c == 'x'; });
  if (!is_shape) return "";
  return fmt::format("m{}n{}k{}", word.substr(0, first), word.substr(first + 1, second - first - 1),
                     word.substr(second + 1));
}

SassInstruction read(std::string_view opcode, const SassInfo& info, size_t line) {
  SassInstruction instruction{.line = line, .opcode = std::string(opcode), .info = &info};
  for (std::string_view left = opcode; !left.empty();) {
    const std::string_view word = left.substr(0, left.find('.'));
    left.remove_prefix(std::min(word.size() + 1, left.size()));
    if (std::string shape = shape_in(word); !shape.empty() && instruction.shape.empty())
      instruction.shape = std::move(shape);
    if (std::ranges::find(sass_type_names, word) != sass_type_names.end()) instruction.types.emplace_back(word);
  }
  const bool has_inputs = instruction.types.size() > 1 || (instruction.types.size() == 1 && info.name == "DMMA");
  if (!has_inputs && !info.types.empty() && !instruction.shape.empty()) instruction.types.emplace_back(info.types);
  return instruction;
}

/// The opcode that the text begins with, after a guard; empty if it begins with none.
std::string_view opcode_in(std::string_view text) {
  const auto skip_spaces = [&] { text.remove_prefix(std::min(text.find_first_not_of(" \t{"), text.size())); };
  skip_spaces();
  if (text.starts_with('@')) {
    text.remove_prefix(std::min(text.find_first_of(" \t"), text.size()));
    skip_spaces();
  }
  const std::string_view opcode(text.begin(), std::ranges::find_if_not(text, is_opcode));
  return !opcode.empty() && opcode[0] >= 'A' && opcode[0] <= 'Z' ? opcode : std::string_view{};
}

/// The opcode after "/*0a10*/", without a guard; empty if the line has no instruction.
std::string_view opcode_of(std::string_view line) {
  const size_t begin = line.find("/*"), end = line.find("*/");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin + 6) return {};
  const std::string_view address = line.substr(begin + 2, end - begin - 2);
  if (line.find_first_not_of(" \t") != begin || address.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return {};
  return opcode_in(line.substr(end + 2));
}

/// "arch = sm_90a" from cuobjdump, ".target sm_90a" from nvdisasm.
std::string arch_in(std::string_view line) {
  for (const std::string_view mark : {"arch = sm_", ".target\tsm_", ".target sm_"}) {
    const size_t at = line.find(mark);
    if (at == std::string_view::npos) continue;
    const std::string_view name = line.substr(at + mark.size() - 3);
    return std::string(name.substr(0, name.find_first_not_of("sm_0123456789af")));
  }
  return "";
}

/// `opcode_of_line` gives the opcode of a line, or nothing.
SassListing read_lines(std::string_view text, std::string_view (*opcode_of_line)(std::string_view)) {
  SassListing listing;
  for (size_t line = 1; !text.empty(); ++line) {
    const std::string_view text_line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text_line.size() + 1, text.size()));
    if (listing.arch.empty()) listing.arch = arch_in(text_line);
    const std::string_view opcode = opcode_of_line(text_line);
    if (opcode.empty()) continue;
    ++listing.instructions;
    if (const SassInfo* info = row_of(opcode)) listing.matrix_instructions.push_back(read(opcode, *info, line));
  }
  return listing;
}

}  // namespace

std::span<const SassInfo> sass_instructions() { return sass_rows; }
const SassInfo* find_sass(std::string_view opcode) { return row_of(opcode); }

std::optional<SassListing> scan_sass(std::string_view text) {
  SassListing listing = read_lines(text, opcode_of);
  if (listing.instructions == 0) {
    listing = read_lines(text, [](std::string_view line) {
      const std::string_view opcode = opcode_in(line);
      return row_of(opcode) ? opcode : std::string_view{};
    });
  }
  if (listing.instructions == 0) return std::nullopt;
  return listing;
}

}  // namespace bitmma
