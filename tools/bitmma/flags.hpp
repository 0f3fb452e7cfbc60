// SPDX-License-Identifier: MIT
// Flags of several verbs. The library does not know flag names, so this file converts errors to them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/core/parallel.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/make_instruction.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// --target: the GPU by its PTX name.
struct TargetFlag {
  Flag<std::string> name = {};
  std::string flags = "--target";  // all names of the flag

  /// With `and_arch`, --arch is an alias.
  void add(Command& command, const std::string& meaning, bool and_arch = false);
  /// Nothing if the flag is not given. Throws Error if no target has this name.
  std::optional<Target> asked() const;
  /// The requested target, or the instruction's default.
  Target of(const Instruction& instruction) const;
  /// The requested target, or sm_90a. Throws Error if it has no shared-memory descriptors.
  Target of_smem_descriptor() const;
};

/// --instruction and --target: defaults for a vector file that does not name them. With add_types also --a, --b, --d
/// and --scale-type, for matrices of a tcgen05.mma.
struct FileFlags {
  Flag<std::string> instruction = {};
  TargetFlag target = {};
  Flag<std::string> a = {}, b = {}, d = {}, scale_type = {};

  void add(Command& command);
  void add_types(Command& command);
  /// Throws Error if the file is malformed, or names another instruction or target than requested.
  VectorFile read(const std::string& path) const;
  /// The same for a file in memory.
  VectorFile read(TensorFile file) const;
  /// The defaults; they refer to these flags.
  VectorFileDefaults defaults() const;
  /// Calls `body`, and converts an error of the library to one about these flags.
  template <typename Body>
  auto naming(const Body& body) const {
    try {
      return body();
    } catch (const Error& error) {
      throw in_flags(error);
    }
  }
  Error in_flags(const Error& error) const;
};

/// --layout-a, --layout-b and --padding.
struct LayoutFlags {
  Flag<std::string> a = "k-major:128", b = "k-major:128";
  Flag<int64_t> padding_bytes = 0;
  std::vector<const CLI::Option*> options = {};  // in this order: for A, for B, for both

  void add(Command& command);
  Placement placement() const;
  /// Throws Error, with the reason, for flags that are given but have no effect.
  void require_used(const LayoutUse& use) const;
};

/// Flags for the fields of instructions, made from the tables in field.hpp with names, types and meanings.
class FieldFlags {
 public:
  /// Adds a flag for each field of the families that `is_wanted` selects. An immediate's flag has the immediate's name.
  void add(Command& command, const std::vector<Family>& families, bool (*is_wanted)(const InstructionField&));
  /// True if the field's flag is on the command line.
  bool is_given(std::string_view field) const;
  /// The instruction with the given fields. Throws Error for fields that it lacks, and for illegal values.
  Instruction apply(const Instruction& instruction) const;

 private:
  struct One {
    InstructionField row = {};
    std::vector<std::string_view> fields = {};  // the field's names in the families
    std::string families = {};
    std::string flag = {};
    Flag<std::string> text = {};
    Flag<bool> is_set = {};
    CLI::Option* option = nullptr;
  };
  std::deque<One> flags_ = {};  // a deque, because the command keeps addresses
};

/// Flags for the numbers of a state: --taddr, --warp, --s-desc.
class StateNumberFlags {
 public:
  void add(Command& command);
  StateNumbers numbers() const;

 private:
  std::deque<std::pair<Field, Flag<std::string>>> flags_ = {};
};

/// A field of the library, and the flag that sets it.
using FlagOfField = std::pair<std::string_view, std::string_view>;

/// The violations with flags in place of fields of the library: as `field`, and in sentences, which have fields in
/// backticks: "raise `memory_bytes`".
std::vector<Violation> in_flags(std::vector<Violation> violations, std::span<const FlagOfField> flags);

/// Calls `body`. If the library refuses one of the fields, the message names the flag instead.
template <typename Body>
auto naming_flags(std::span<const FlagOfField> flags, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(in_flags(error.violations(), flags));
  }
}
template <typename Body>
auto naming_flag(std::string_view field, std::string_view flag, const Body& body) {
  const FlagOfField one[]{{field, flag}};
  return naming_flags(one, body);
}

/// --cpu-target: the CPU instruction set of the hot loops, by default the best that the processor supports.
struct CpuTargetFlag {
  Flag<std::string> name = {};

  void add(Command& command);
  /// Selects it for the whole process. Throws Error, which names the flag, if the processor does not support it.
  void use() const;
};

/// --threads, all cores by default.
void add_threads(Command& command, Flag<int>& threads);

/// The format with this name, one of `legal`. Throws Error, which names the flag.
Format require_format(std::string_view flag, const std::string& name, const FormatSet& legal = all_formats);

/// The kind with this name. Throws Error, which names --kind.
MmaKind require_kind(const std::string& name);

/// If --target is given: throws Error, which names it, if no tcgen05.mma of the target has the descriptor's kind and K,
/// or the other fields that only some targets have.
void require_kind_on(const TargetFlag& target, const InstructionDescriptor& idesc);

/// Throws Error, with `fix`, for an instruction that moves data.
void require_mma(const Instruction& instruction, std::string fix);

/// Throws Error, which names --case, unless the file has such a case.
void require_case(int64_t cases, int64_t index);

/// True if all of them are NumPy arrays with one matrix each: together they are one file.
bool are_arrays(const std::vector<std::string>& files);
/// Reads arrays a.npy, b.npy, ... as one file. Throws Error if two have the same name.
TensorFile read_arrays(const std::vector<std::string>& files);

/// A 64-bit number, 0x... or decimal; nothing if `text` is not one.
std::optional<uint64_t> parse_word(const std::string& text);
/// The same for a descriptor. Throws Error, which names the field.
uint64_t require_word(std::string_view field, const std::string& text);

/// Throws Error for the file name of another format, unless its suffix is `suffix`, .txt or empty: the text would be
/// written under a misleading name.
void require_text_file_name(const std::string& path, std::string_view suffix);
/// Throws Error for the file name of another format than safetensors: the data would have a misleading name.
void require_tensor_file_name(const std::string& path);

/// The path of each input's result: `output` itself for one file; a name in that folder for several files, or if it is
/// a folder. Throws Error if several files share an `output` that is not a folder, or share a name.
std::vector<std::string> output_paths(const std::vector<std::string>& inputs, const std::string& output);

/// The named files, and all *.safetensors below the named folders, in order. Throws Error if a folder has none.
std::vector<std::string> vector_files(const std::vector<std::string>& paths);

struct ExistingFiles {
  std::vector<std::string> files = {};
  std::vector<Violation> dangling = {};
};
/// vector_files() that exist, so that nothing is shown before a missing file is reported. Throws Error if a named file,
/// or all of them, do not exist. A dangling link below a folder is only reported.
ExistingFiles existing_files(const std::vector<std::string>& paths);

}  // namespace bitmma::cli
