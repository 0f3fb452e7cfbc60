// SPDX-License-Identifier: MIT
// Flags that several verbs have. The library does not know their names, so errors about them are made here.
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
#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/make_instruction.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// --target: the GPU, by its PTX name.
struct TargetFlag {
  Flag<std::string> name = {};
  std::string flags = "--target";  // all spellings

  /// With `and_arch`, --arch is another spelling.
  void add(Command& command, const std::string& meaning, bool and_arch = false);
  /// Nothing when the flag is not given. Throws Error when no target has this name.
  std::optional<Target> asked() const;
  /// The target asked for, or the one that the instruction means by itself.
  Target of(const Instruction& instruction) const;
  /// The target asked for, or sm_90a. Throws Error when it has no descriptors of shared memory.
  Target of_smem_descriptor() const;
};

/// --instruction and --target: what stands in where a vector file does not say it. With add_types also --a, --b, --d
/// and --scale-type, for matrices of a tcgen05.mma.
struct FileFlags {
  Flag<std::string> instruction = {};
  TargetFlag target = {};
  Flag<std::string> a = {}, b = {}, d = {}, scale_type = {};

  void add(Command& command);
  void add_types(Command& command);
  /// Throws Error when the file is bad, or says another instruction or target than the one asked for.
  VectorFile read(const std::string& path) const;
  /// The same of a file in memory.
  VectorFile read(TensorFile file) const;
  /// What stands in. Its views are of these flags.
  VectorFileDefaults defaults() const;
  /// An error of the library in the words of these flags.
  Error in_flags(const Error& error) const;
};

/// --layout-a, --layout-b and --padding.
struct LayoutFlags {
  Flag<std::string> a = "k-major:128", b = "k-major:128";
  Flag<int64_t> padding_bytes = 0;
  std::vector<const CLI::Option*> options = {};  // in this order: of A, of B, of both

  void add(Command& command);
  Placement placement() const;
  /// Throws Error, saying why, for flags that are given and would change nothing.
  void require_used(std::string_view why, bool a_is_used, bool b_is_used) const;
  /// The same for operands that the instruction does not read from shared memory.
  void require_used_by(const Instruction& instruction) const;
};

/// Flags of the fields of instructions, made from their tables: field.hpp says names, types and meanings.
class FieldFlags {
 public:
  /// A flag for each field of the families that `is_wanted`. Fields that are immediates have the immediate's name.
  void add(Command& command, const std::vector<Family>& families, bool (*is_wanted)(const InstructionField&));
  /// True where the flag of the field is on the command line.
  bool is_given(std::string_view field) const;
  /// The instruction with the fields that are given. Throws Error for those that it lacks, and for values of others.
  Instruction apply(const Instruction& instruction) const;

 private:
  struct One {
    InstructionField row = {};
    std::vector<std::string_view> fields = {};  // what one family or another calls it
    std::string families = {};
    std::string flag = {};
    Flag<std::string> text = {};
    Flag<bool> is_set = {};
    CLI::Option* option = nullptr;
  };
  std::deque<One> flags_ = {};  // the command keeps addresses
};

/// Flags of the numbers of a state: --taddr, --warp, --s-desc.
class StateNumberFlags {
 public:
  void add(Command& command);
  StateNumbers numbers() const;

 private:
  std::deque<std::pair<Field, Flag<std::string>>> flags_ = {};
};

/// A field of the library and the flag that sets it.
using FlagOfField = std::pair<std::string_view, std::string_view>;

/// Calls `body`. Where the library refuses one of the fields, the message names the flag instead.
template <typename Body>
auto naming_flags(std::span<const FlagOfField> flags, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) {
      const auto named = std::ranges::find(flags, violation.field, &FlagOfField::first);
      if (named != flags.end()) violation.field = std::string(named->second);
    }
    throw Error(std::move(violations));
  }
}
template <typename Body>
auto naming_flag(std::string_view field, std::string_view flag, const Body& body) {
  const FlagOfField one[]{{field, flag}};
  return naming_flags(one, body);
}

/// --cpu-target: the instruction set of the hot loops, by default the best that the processor has.
struct CpuTargetFlag {
  Flag<std::string> name = {};

  void add(Command& command);
  /// Takes it for the whole process. Throws Error naming the flag when the processor cannot run it.
  void use() const;
};

/// --threads, all cores by default.
void add_threads(Command& command, Flag<int>& threads);

/// The format called `name`, one of `legal`. Throws Error naming the flag.
Format require_format(std::string_view flag, const std::string& name, const FormatSet& legal = all_formats);

/// The kind called `name`. Throws Error naming --kind.
MmaKind require_kind(const std::string& name);

/// Throws Error naming --target when it is given and no tcgen05.mma there has the descriptor's kind and K, and what
/// else only some targets have.
void require_kind_on(const TargetFlag& target, const InstructionDescriptor& idesc);

/// Throws Error, with `fix`, for an instruction that moves data.
void require_mma(const Instruction& instruction, std::string fix);

/// Throws Error naming --case unless the file has such a case.
void require_case(const VectorFile& vectors, int64_t index);

/// True when all are arrays of NumPy, one matrix each: they are one file together.
bool are_arrays(const std::vector<std::string>& files);
/// Arrays a.npy, b.npy, ... as one file. Throws Error when two have one name.
TensorFile read_arrays(const std::vector<std::string>& files);

/// A 64-bit number, 0x... or decimal; nothing when `text` is none.
std::optional<uint64_t> parse_word(const std::string& text);
/// The same for a descriptor. Throws Error naming the field.
uint64_t require_word(std::string_view field, const std::string& text);

/// Throws Error for the name of a file of another kind, which would hold text all the same: its suffix is `suffix`,
/// .txt or none.
void require_text_file_name(const std::string& path, std::string_view suffix);
/// Throws Error for the name of another format than safetensors, which would hold safetensors all the same.
void require_tensor_file_name(const std::string& path);

/// Where the result of each input goes: `output` itself for one file, a name inside it for several or when it is a
/// folder. Throws Error when several files meet an `output` that is no folder, or one name.
std::vector<std::string> output_paths(const std::vector<std::string>& inputs, const std::string& output);

/// Throws Error when there is nothing of this name.
void require_file(const std::string& path);

/// Files named, and all *.safetensors below folders named, in order. Throws Error when a folder holds none.
std::vector<std::string> vector_files(const std::vector<std::string>& paths);

}  // namespace bitmma::cli
