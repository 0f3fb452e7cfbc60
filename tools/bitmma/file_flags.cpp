// SPDX-License-Identifier: MIT
#include "file_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <system_error>

#include "bitmma/core/text.hpp"
#include "bitmma/files/dataset.hpp"
#include "flags.hpp"
#include "named_files.hpp"

namespace bitmma::cli {

void FileFlags::add(Command& command) {
  command.add_option("--instruction", instruction, "the mnemonic, for files without one");
  target.add(command, "the GPU by its PTX name, for files without one; default: the instruction's own");
  command.add_option("--inputs", inputs,
                     "which operands are meant if a file has both and they differ: state (images, registers, Tensor "
                     "Memory) or matrices (a, b, c)");
  one_of(command.get_option("--inputs"), {"state", "matrices"});
}

void FileFlags::add_types(Command& command) {
  command.add_option("--a", a,
                     "tcgen05.mma of plain matrices: the type of A, such as e2m1, if its dtype does not determine it");
  command.add_option("--b", b, "the same for B");
  command.add_option("--d", d, "tcgen05.mma of plain matrices without c: the type of D; default f32; s32 for kind::i8");
  command.add_option("--scale-type", scale_type,
                     "tcgen05.mma of plain matrices: ue8m0 or ue4m3, if the dtype of sfa does not determine it");
}

VectorFile FileFlags::read(const std::string& path) const { return read(read_tensor_file(path)); }

VectorFileDefaults FileFlags::defaults() const {
  VectorFileDefaults defaults{.instruction = instruction, .target = target.requested()};
  for (const auto& [flag, name, format] :
       {std::tuple("--a", &a, &defaults.a_type), std::tuple("--b", &b, &defaults.b_type),
        std::tuple("--d", &d, &defaults.d_type), std::tuple("--scale-type", &scale_type, &defaults.sf_type)}) {
    if (!name->empty()) *format = require_format(flag, *name);
  }
  if (!inputs.empty()) defaults.inputs = *inputs == "state" ? OperandCopy::state : OperandCopy::matrices;
  return defaults;
}

VectorFile FileFlags::read(TensorFile file) const {
  return naming([&] { return as_vector_file(std::move(file), defaults()); });
}

Error FileFlags::in_flags(const Error& error) const {
  const std::optional<Target> requested = target.requested();
  constexpr FlagOfField own[]{{"inputs", "--inputs"}};
  std::vector<Violation> violations = bitmma::cli::in_flags(error.violations(), own);
  for (Violation& violation : violations) {
    switch (violation.code) {
      case ViolationCode::missing_instruction: violation.fix = "save the key, or pass --instruction"; break;
      case ViolationCode::missing_type:
        for (const auto& [key, flag] : {std::pair("a_type", "--a"), std::pair("b_type", "--b"),
                                        std::pair("d_type", "--d"), std::pair("sf_type", "--scale-type")}) {
          if (violation.key == key) violation.fix += fmt::format(": save the key, or pass {}", flag);
        }
        break;
      case ViolationCode::other_instruction:
        violation.fix = fmt::format("{} = {}", violation.field, violation.seen);
        violation.expected = std::exchange(violation.seen, violation.expected) + ", the one in the file";
        violation.field = "--instruction";
        break;
      case ViolationCode::other_target:
        violation.fix =
            fmt::format("{} = {}; bitmma simulate can compute it on another GPU, too", violation.field, violation.seen);
        violation.expected = std::exchange(violation.seen, std::string(print(*requested))) + ", the one in the file";
        violation.field = target.flags;
        break;
      default: break;
    }
  }
  return Error(std::move(violations));
}

bool are_arrays(const std::vector<std::string>& files) {
  return std::ranges::all_of(files, [](const std::string& path) { return path.ends_with(".npy"); });
}

namespace {

/// The names of arrays that files may have: those of vector files, and of products.
constexpr auto array_names =
    std::to_array<std::string_view>({"a", "b", "b_t", "c", "d", "bias", "scale_a", "scale_b", "sfa", "sfb"});

bool is_array_name(std::string_view name) { return std::ranges::find(array_names, name) != array_names.end(); }

/// A file that is not named after its array has a, b or c, in the order of the files.
void name_by_place(std::vector<TensorFile>& files) {
  const auto is_taken = [&](std::string_view name) {
    return std::ranges::any_of(files, [&](const TensorFile& file) {
      const std::string& own = file.tensors.front().name;
      return own == name || (name == "b" && own == "b_t");
    });
  };
  for (TensorFile& file : files) {
    Tensor& array = file.tensors.front();
    if (is_array_name(array.name)) continue;
    constexpr std::array<std::string_view, 3> places{"a", "b", "c"};
    const auto free = std::ranges::find_if_not(places, is_taken);
    if (free == places.end()) {
      throw Error({.field = file.path,
                   .seen = "the fourth of these files",
                   .expected = "a, b and c in this order, or a file with the name of its array",
                   .legal = {},
                   .fix = fmt::format("names are {}.npy", fmt::join(array_names, ".npy, "))});
    }
    array.name = *free;
  }
}

}  // namespace

TensorFile read_arrays(const std::vector<std::string>& paths) {
  std::vector<TensorFile> files;
  for (const std::string& path : paths) {
    files.push_back(read_tensor_file(path));
    if (files.back().tensors.empty())
      throw Error({.field = path, .seen = "no array", .expected = "an array of one element or more"});
  }
  name_by_place(files);
  TensorFile all = std::move(files.front());
  for (size_t i = 1; i < files.size(); ++i) {
    Tensor& array = files[i].tensors.front();
    if (all.find(array.name)) {
      throw Error({.field = "files",
                   .seen = fmt::format("two arrays called {}", array.name),
                   .expected = "arrays of different names: a.npy, b.npy, c.npy",
                   .fix = "the name of a file is the name of its array"});
    }
    all.tensors.push_back(std::move(array));
    all.path += ", " + paths[i];
  }
  return all;
}

namespace {

/// The lower-case suffix of a name. Devices and pipes may have any name.
std::string suffix_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return "";
  std::string suffix = std::filesystem::path(path).extension().string();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

[[noreturn]] void refuse_name(const std::string& path, std::vector<std::string> suffixes, std::string_view what,
                              std::string fix) {
  for (std::string& suffix : suffixes) suffix = "NAME" + suffix;
  suffixes.emplace_back("a name without a suffix");
  throw Error(
      {.field = "-o",
       .seen = path,
       .expected = fmt::format("the name of a {} file, the format that is written: {}", what, alternatives(suffixes)),
       .fix = std::move(fix)});
}

}  // namespace

void require_text_file_name(const std::string& path, std::string_view suffix) {
  const std::string own = suffix_of(path);
  if (own.empty() || own == ".txt" || own == suffix) return;
  const bool is_tensor = own == ".safetensors" && suffix != ".ptx";
  refuse_name(path, {std::string(suffix), ".txt"}, "text",
              is_tensor ? "omit --format to write safetensors" : fmt::format("rename it to {}", suffix));
}

void require_tensor_file_name(const std::string& path) {
  const std::string own = suffix_of(path);
  if (own.empty() || own == ".safetensors") return;
  const bool is_text = own == ".csv" || own == ".jsonl" || own == ".hex";
  refuse_name(path, {".safetensors"}, "safetensors",
              is_text ? fmt::format("commands with --format {} write text", own.substr(1))
                      : "to read it in NumPy, use safetensors.numpy.load_file");
}

namespace {

/// For files of folders, which the command line does not name.
void require_replaces_no_input(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::vector<NamedFile> files;
  for (const std::string& input : inputs) files.push_back({.role = FileRole::input, .flag = "file", .path = input});
  for (const std::string& output : outputs) files.push_back({.role = FileRole::output, .flag = "-o", .path = output});
  require_distinct(files);
}

}  // namespace

std::vector<std::string> output_paths(const std::vector<std::string>& inputs, const std::string& output) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(output, error);
  if (inputs.size() > 1 && !folder) {
    throw Error({.field = "-o",
                 .seen = output,
                 .expected = "an existing folder if there are several files",
                 .fix = fmt::format("mkdir {}", output)});
  }
  if (!folder) {
    require_replaces_no_input(inputs, {output});
    return {output};
  }
  std::vector<std::string> outputs;
  std::map<std::string, std::string> taken;  // maps an output to its input
  for (const std::string& input : inputs) {
    std::filesystem::path name = std::filesystem::path(located(input)).filename();
    if (name.extension() == ".npz" || name.extension() == ".npy") name.replace_extension(".safetensors");
    outputs.push_back((std::filesystem::path(output) / name).string());
    const auto [other, is_new] = taken.emplace(outputs.back(), input);
    if (is_new) continue;
    throw Error({.field = "-o",
                 .seen = fmt::format("{} twice, for {} and {}", outputs.back(), other->second, input),
                 .expected = "files with different names",
                 .fix = "run them separately, with a name for each"});
  }
  require_replaces_no_input(inputs, outputs);
  return outputs;
}

namespace {

bool is_vector_file_name(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return extension == ".safetensors" || extension == ".npz";
}

/// The vector files below a folder, in order. Throws Error, which names it, for an unreadable folder.
std::vector<std::string> vector_files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::recursive_directory_iterator(); entries.increment(error)) {
    std::error_code unknown;
    const std::filesystem::file_status status = entries->status(unknown);
    // A dangling link is reported when it is read; pipes and devices are skipped.
    const bool is_file = std::filesystem::is_regular_file(status) || !std::filesystem::exists(status);
    if (is_file && is_vector_file_name(entries->path())) files.push_back(entries->path().string());
  }
  if (error) {
    throw Error({.field = folder,
                 .seen = error.message(),
                 .expected = "a readable folder, with readable subfolders",
                 .fix = "name the files instead"});
  }
  if (files.empty())
    throw Error({.field = folder,
                 .seen = "a folder without vector files",
                 .expected = "*.safetensors in the folder or its subfolders"});
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> vector_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;  // the reader reports missing files
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::ranges::move(vector_files_below(path), std::back_inserter(files));
  }
  return files;
}

ExistingFiles existing_files(const std::vector<std::string>& paths) {
  ExistingFiles existing;
  std::vector<std::string> files = vector_files(paths);
  for (std::string& path : files) {
    std::error_code error;
    if (std::filesystem::exists(located(path), error) || error) {  // the reader reports why it cannot be read
      existing.files.push_back(std::move(path));
      continue;
    }
    const bool is_named = std::ranges::find(paths, path) != paths.end();
    existing.dangling.push_back({.code = ViolationCode::not_found, .field = "file", .seen = path});
    if (is_named) throw Error(existing.dangling.back());
  }
  if (existing.files.empty()) throw Error(std::move(existing.dangling));
  return existing;
}

}  // namespace bitmma::cli
