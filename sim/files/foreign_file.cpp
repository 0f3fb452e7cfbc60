// SPDX-License-Identifier: MIT
#include "foreign_file.hpp"

#include <algorithm>
#include <array>

#include "little_endian.hpp"
#include "system.hpp"

namespace bitmma {
namespace {

constexpr const char* what_is_read = "a safetensors, .npy or .npz file";
constexpr std::string_view save_torch = "write a readable file with safetensors.torch.save_file(tensors, FILE)",
                           decompress = "decompress it first", decode_reads = "bitmma decode reads it",
                           to_ptx = "compile it to PTX with nvcc -ptx; bitmma decode reads PTX";

struct ForeignKind {
  std::string_view begin, name, fix = {};
};
constexpr auto foreign_kinds = std::to_array<ForeignKind>({
    {"\x7F"
     "ELF",
     "an ELF file: a cubin or a program", "cuobjdump -ptx or -sass prints its contents"},
    {"\x50\xED\x55\xBA", "a fat binary of CUDA", "cuobjdump -ptx prints the PTX in it"},
    {"\x89HDF\r\n", "an HDF5 file",
     "convert it: read it with h5py, write it with numpy.savez or safetensors.numpy.save_file"},
    {"\x1F\x8B", "a gzip file", decompress},
    {"BZh", "a bzip2 file", decompress},
    {"\xFD"
     "7zXZ",
     "an xz file", decompress},
    {"\x28\xB5\x2F\xFD", "a zstd file", decompress},
    {"%PDF", "a PDF document"},
    {"\x89PNG", "a PNG picture"},
    {"\xFF\xD8\xFF", "a JPEG picture"},
    {"GGUF", "a GGUF model"},
    {"PAR1", "a Parquet file"},
    {"ARROW1", "an Arrow file"},
    {"MATLAB 5.0", "a MATLAB file", "convert it: read it with scipy.io.loadmat, write it with numpy.savez"},
    {"SQLite format 3", "an SQLite database (Nsight Systems writes such reports)"},
});

struct ForeignText {
  std::string_view word, name, fix = {};
};
/// Kinds of text, in the order in which the code tries them.
constexpr auto foreign_texts = std::to_array<ForeignText>({
    {".address_size", "PTX", decode_reads},
    {".version", "PTX", decode_reads},
    {"/*0000*/", "a listing of SASS", "bitmma simulates PTX instructions: cuobjdump -ptx prints them"},
    {".headerflags", "a listing of SASS", "bitmma simulates PTX instructions: cuobjdump -ptx prints them"},
    {"__global__", "CUDA C++", to_ptx},
    {"__device__", "CUDA C++", to_ptx},
    {"asm volatile", "CUDA C++", to_ptx},
    {"#include", "C++ source", to_ptx},
    {"import ", "a Python program"},
    {"wgmma.", "text with PTX instructions", decode_reads},
    {"mma.sync", "text with PTX instructions", decode_reads},
    {"tcgen05.", "text with PTX instructions", decode_reads},
});

/// True for some ASCII, no control characters, and no byte that never occurs in UTF-8.
bool is_text(std::string_view bytes) {
  const auto is_control = [](unsigned char c) { return c == 0x7F || (c < 0x20 && (c < 8 || c > 13)); };
  const auto is_ascii = [](unsigned char c) { return c < 0x80; };
  return std::ranges::none_of(bytes, is_control) && std::ranges::any_of(bytes, is_ascii) &&
         std::ranges::none_of(bytes, [](unsigned char c) { return c == 0xC0 || c == 0xC1 || c > 0xF4; });
}

}  // namespace

void refuse_foreign_file(const std::string& path, const TensorBytes& bytes) {
  std::string begin(std::min<size_t>(bytes.size(), 8192), '\0');
  bytes.copy_to({reinterpret_cast<uint8_t*>(begin.data()), begin.size()});
  // A safetensors header follows its length, which ends with zeros.
  if (begin.size() < 9 || (begin[8] == '{' && begin[7] == 0)) return;
  for (const auto& [magic, name, fix] : foreign_kinds)
    if (begin.starts_with(magic)) refuse_file(path, std::string(name), what_is_read, std::string(fix));
  if (little_endian(bytes, 0, 8) <= bytes.size() - 8) return;  // the length of an existing header
  // A Python pickle: a protocol number.
  if (begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5)
    refuse_file(path, "a Python pickle, as in old PyTorch checkpoints", what_is_read, std::string(save_torch));
  if (!is_text(begin)) refuse_file(path, "bytes without the header of safetensors, .npy or .npz", what_is_read, {});
  const size_t first = begin.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (begin[first] == '{' || begin[first] == '['))
    refuse_file(path, "JSON", what_is_read, {});
  for (const auto& [word, name, fix] : foreign_texts)
    if (begin.find(word) != std::string::npos) refuse_file(path, std::string(name), what_is_read, std::string(fix));
  refuse_file(path, "text", what_is_read, {});
}

void refuse_foreign_archive(const std::string& path, const std::string& entry) {
  const bool is_torch = entry.ends_with("data.pkl") || entry.ends_with("/byteorder") ||
                        entry.find("/data/") != std::string::npos || entry.ends_with(".format_version");
  if (is_torch) refuse_file(path, "a PyTorch checkpoint", what_is_read, std::string(save_torch));
  refuse_file(path, "an archive that contains other things than arrays: " + entry, what_is_read, {});
}

}  // namespace bitmma
