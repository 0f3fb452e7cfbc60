// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/ptx_file.hpp"
#include "bitmma/instruction/sass.hpp"

namespace bitmma {
namespace {

/// A file type without PTX statements, recognised by its first bytes.
struct ForeignFile {
  bool (*is)(std::string_view text);
  std::string_view what, fix;
};

/// A safetensors file starts with eight bytes, the length of a JSON object, and the object.
bool is_safetensors(std::string_view text) {
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0 && text.size() > 8;) length = length << 8 | static_cast<unsigned char>(text[i]);
  return text.size() > 8 && length > 1 && length <= text.size() - 8 && text[8] == '{';
}

constexpr auto foreign_files = std::to_array<ForeignFile>({
    {[](std::string_view text) { return text.starts_with("\x93NUMPY"); }, "a NumPy array (.npy)",
     "bitmma simulate a.npy b.npy and bitmma layout scales --pack read such arrays"},
    {[](std::string_view text) { return text.starts_with("PK\x03\x04") && text.find("data.pkl") < 4096; },
     "a PyTorch checkpoint (.pt)", "save its tensors as .safetensors or .npz; bitmma simulate reads those"},
    {[](std::string_view text) { return text.starts_with("PK\x03\x04"); }, "a zip archive, perhaps NumPy arrays (.npz)",
     "bitmma simulate, verify, gemm and explain read .npz"},
    {is_safetensors, "a file of tensors (.safetensors)", "bitmma simulate, verify, explain, diagnose and gemm read it"},
    {[](std::string_view text) {
       return text.starts_with(
           "\x7f"
           "ELF");
     },
     "machine code (a cubin, an object or a program)",
     "use cuobjdump --dump-sass FILE or --dump-ptx FILE; decode reads the listing"},
    {[](std::string_view text) { return text.starts_with("\x50\xed\x55\xba"); }, "a fatbin",
     "use cuobjdump --dump-sass FILE or --dump-ptx FILE; decode reads the listing"},
    {[](std::string_view text) { return text.starts_with('{'); }, "JSON",
     "bitmma gemm --plan reads plans, and bitmma survey read reads reports"},
});

bool is_cuda(std::string_view name, std::string_view text) {
  const auto has_name = [&](std::string_view end) { return name.ends_with(end); };
  if (name.ends_with(".ptx")) return false;
  const auto says = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  constexpr std::array<std::string_view, 8> ends{".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp", ".inl"};
  return std::ranges::any_of(ends, has_name) || says("__global__") || says("__device__") || says("#include") ||
         says("asm volatile") || says("asm(\"") || says("__asm__");
}

PtxFileReport describe_sass(std::string_view name, const SassListing& listing) {
  PtxFileReport result;
  Report instructions = Report::list(), counts = Report::object();
  struct Seen {
    const SassInstruction* first;
    int64_t count;
  };
  std::map<std::string, Seen> seen;
  for (const SassInstruction& instruction : listing.matrix_instructions) {
    ++seen.emplace(instruction.opcode, Seen{&instruction, 0}).first->second.count;
    instructions.append({{"line", instruction.line},
                         {"opcode", instruction.opcode},
                         {"ptx", instruction.info->ptx},
                         {"shape", instruction.shape},
                         {"types", instruction.types},
                         {"does", instruction.info->does}});
  }
  std::vector<std::vector<std::string>> table{
      {"count", "instruction", "line", "comes from", "shape", "types", "what it does"}};
  for (const auto& [opcode, row] : seen) {
    counts.add(opcode, row.count);
    std::string types;
    for (const std::string& type : row.first->types) types += (types.empty() ? "" : ", ") + type;
    table.push_back({std::to_string(row.count), opcode, std::to_string(row.first->line),
                     std::string(row.first->info->ptx), row.first->shape.empty() ? "-" : row.first->shape,
                     types.empty() ? "-" : types, std::string(row.first->info->does)});
  }
  Report& report = result.report;
  report.add_text(fmt::format("{}: a listing of SASS{}{}", printable(name), listing.arch.empty() ? "" : " of ",
                              printable(listing.arch)));
  if (listing.matrix_instructions.empty()) {
    report.add_text(fmt::format("no tensor-core instruction among {}",
                                counted(static_cast<int64_t>(listing.instructions), "instruction")));
  } else {
    report.add_text(table);
    report.add_text(fmt::format("{} of {}", listing.matrix_instructions.size(),
                                counted(static_cast<int64_t>(listing.instructions), "instruction")));
  }
  result.described = static_cast<int64_t>(listing.matrix_instructions.size());
  report.update({{"file", printable(name)},
                 {"sass", true},
                 {"arch", printable(listing.arch)},
                 {"instructions", std::move(instructions)},
                 {"counts", std::move(counts)},
                 {"all_instructions", listing.instructions}});
  return result;
}

}  // namespace

PtxFileReport describe_file(std::string_view name, std::string_view text, std::optional<Target> target,
                            bool with_instructions) {
  const auto foreign = std::ranges::find_if(foreign_files, [&](const ForeignFile& file) { return file.is(text); });
  if (foreign != foreign_files.end()) {
    throw Error({.code = ViolationCode::unusable_file,
                 .field = printable(name),
                 .seen = std::string(foreign->what),
                 .expected = "PTX, CUDA C++ with inline PTX, or a listing of SASS",
                 .fix = std::string(foreign->fix)});
  }
  if (const std::optional<SassListing> listing = scan_sass(text)) return describe_sass(name, *listing);
  if (!is_cuda(name, text)) return describe_ptx_file(name, text, target, with_instructions);
  const CudaAsm extracted = asm_of_cuda(text);
  if (extracted.statements == 0) {
    throw Error({.code = ViolationCode::unusable_file,
                 .field = printable(name),
                 .seen = "CUDA C++ without inline PTX",
                 .expected = "PTX, CUDA C++ with asm statements, or a listing of SASS",
                 .fix = "compile it with nvcc -ptx first"});
  }
  PtxFileReport result = describe_ptx_file(name, extracted.ptx, target, with_instructions);
  result.report.add("asm_statements", extracted.statements);
  result.report.add_text(fmt::format("read from {}; macros are not expanded: nvcc -ptx expands them",
                                     counted(static_cast<int64_t>(extracted.statements), "asm statement")));
  return result;
}

}  // namespace bitmma
