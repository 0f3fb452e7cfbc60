// SPDX-License-Identifier: MIT
#include "opcode.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "bitmma/kernel/opcode_info.hpp"
#include "decode.hpp"

namespace bitmma::kernel {

Word word_named(std::string_view name) {
  static const auto words = [] {
    std::unordered_map<std::string_view, Word> by_name;
    for (const WordInfo& row : word_rows) {
      if (!row.name.empty()) by_name.emplace(row.name, row.id);
    }
    return by_name;
  }();
  const auto row = words.find(name);
  return row == words.end() ? Word::other : row->second;
}

std::vector<Word> words_of(std::string_view mnemonic) {
  std::vector<Word> words;
  for (size_t from = 0; from <= mnemonic.size();) {
    const size_t dot = std::min(mnemonic.find('.', from), mnemonic.size());
    words.push_back(word_named(mnemonic.substr(from, dot - from)));
    from = dot + 1;
  }
  return words;
}

std::optional<Type> type_of(Word word) {
  static const auto types_of_words = [] {
    std::vector<std::optional<Type>> by_word(word_rows.size());
    for (const WordInfo& row : word_rows) by_word[static_cast<size_t>(row.id)] = type_named(row.name);
    return by_word;
  }();
  return types_of_words[static_cast<size_t>(word)];
}

bool has_rounding(const PtxInstruction& instruction) {
  return has_one_of(instruction, {Word::rn, Word::rz, Word::rm, Word::rp});
}

bool is_slow_division(const PtxInstruction& instruction) {
  const auto type = last_type(instruction);
  if (!type) return false;
  return info(*type).kind == TypeClass::floating ? has_rounding(instruction) : *type != Type::u32;
}
bool is_slow_root(const PtxInstruction& instruction) {
  const bool is_of_number = instruction.operands.size() == 2 && instruction.operands[1].kind != Operand::Kind::reg;
  return last_type(instruction) && has_rounding(instruction) && !is_of_number;
}
bool is_slow_rsqrt(const PtxInstruction& instruction) {
  return last_type(instruction) == Type::f64 && !has_word(instruction, Word::ftz);
}
bool is_fence(const PtxInstruction& instruction) { return !has_word(instruction, Word::proxy); }
bool always(const PtxInstruction&) { return true; }
bool ends_block(const PtxInstruction& instruction) {
  return instruction.row->ends_block && instruction.row->ends_block(instruction);
}

bool is_folded_conversion(const PtxInstruction& instruction) {
  if (instruction.words.size() < 3 || has_one_of(instruction, {Word::rz, Word::rm, Word::rp, Word::rna, Word::rs,
                                                               Word::relu, Word::satfinite, Word::pack}))
    return false;
  const auto to = type_of(instruction.words[instruction.words.size() - 2]), from = last_type(instruction);
  if (!to || !from) return false;
  const auto is_number = [](Type type) { return info(type).kind == TypeClass::floating; };
  if (!is_number(*to) && !is_number(*from)) return true;
  if (*from == Type::f16 || *from == Type::bf16) return *to == Type::f32;
  if (!is_number(*from)) return *to == Type::f32 && info(*from).bits == 32;
  return *to != Type::bf16x2;
}
bool is_folded_product(const PtxInstruction& instruction) {
  const auto type = last_type(instruction);
  return type &&
         (info(*type).kind == TypeClass::floating || !has_word(instruction, Word::hi) || info(*type).bits == 32);
}
bool has_two_sources(const PtxInstruction& instruction) { return instruction.operands.size() == 3; }

std::span<const Opcode* const> opcodes() {
  static const auto rows = [] {
    std::vector<const Opcode*> all;
    for (const auto of_file : {integer_opcodes(), float_opcodes(), memory_opcodes(), warp_opcodes(), matrix_opcodes(),
                               mbarrier_opcodes(), tensormap_opcodes(), tcgen05_opcodes(), system_opcodes(),
                               video_opcodes(), wmma_opcodes(), texture_opcodes()}) {
      for (const Opcode& row : of_file) all.push_back(&row);
    }
    return all;
  }();
  return rows;
}

namespace {

/// Instructions that no row runs, and why.
struct Refused {
  std::string_view name, why, fix;
};
constexpr std::string_view other_kernels = "; other kernels of the module run",
                           multicast_memory = "memory of several GPUs";
constexpr auto refused_instructions = std::to_array<Refused>({
    {"istypep", "a texture, a sampler or a surface", ""},
    {"sured", "an atomic on a surface", "use red on global memory"},
    {"multimem", multicast_memory, "add the GPUs' memories by ld and red"},
});

[[noreturn]] void refuse_unknown(Decoder& decoder, const PtxInstruction& instruction, Words&) {
  const std::string_view opcode = instruction.opcode;
  const auto row = std::ranges::find(refused_instructions, opcode.substr(0, opcode.find('.')), &Refused::name);
  if (row == refused_instructions.end()) decoder.refuse("not supported");
  decoder.refuse(std::string(row->why),
                 row->fix.empty() ? std::string(other_kernels.substr(2)) : std::string(row->fix).append(other_kernels));
}

}  // namespace

const Opcode& opcode_named(Word name) {
  static constexpr Opcode unknown{.decode = refuse_unknown, .acts = acts};
  static const auto by_word = [] {
    std::vector<const Opcode*> rows(word_rows.size(), &unknown);
    for (const Opcode* const row : opcodes()) rows[static_cast<size_t>(row->name)] = row;
    return rows;
  }();
  return *by_word[static_cast<size_t>(name)];
}

}  // namespace bitmma::kernel

namespace bitmma {
namespace {

std::string_view print(kernel::Contraction contraction) {
  switch (contraction) {
    case kernel::Contraction::none: break;
    case kernel::Contraction::product: return "product";
    case kernel::Contraction::quotient: return "quotient";
    case kernel::Contraction::reciprocal: return "reciprocal";
    case kernel::Contraction::sum: return "sum";
    case kernel::Contraction::difference: return "difference";
  }
  return {};
}

std::vector<std::string_view> names_of(kernel::TypeSet set) {
  std::vector<std::string_view> names;
  for (const kernel::TypeInfo& row : kernel::types) {
    if (set.contains(row.id)) names.push_back(row.name);
  }
  return names;
}

KernelOpcode info_of(const kernel::Opcode& row) {
  return {.name = print(row.name),
          .does = row.does,
          .types = names_of(row.types),
          .folded = names_of(row.folds),
          .contraction = print(row.contraction),
          .acts = row.acts};
}

}  // namespace

std::vector<KernelOpcode> kernel_opcodes() {
  std::vector<KernelOpcode> all;
  for (const kernel::Opcode* const row : kernel::opcodes()) all.push_back(info_of(*row));
  return all;
}

std::optional<KernelOpcode> find_kernel_opcode(std::string_view mnemonic) {
  const kernel::Opcode& row = kernel::opcode_named(kernel::word_named(mnemonic.substr(0, mnemonic.find('.'))));
  return row.name == kernel::Word::other ? std::nullopt : std::optional(info_of(row));
}

bool may_be_contracted(std::string_view mnemonic) {
  const kernel::PtxInstruction form{.words = kernel::words_of(mnemonic)};
  const auto type = kernel::last_type(form);
  return kernel::opcode_named(form.words.front()).contraction != kernel::Contraction::none && type &&
         kernel::info(*type).kind == kernel::TypeClass::floating && !kernel::has_rounding(form);
}

}  // namespace bitmma
