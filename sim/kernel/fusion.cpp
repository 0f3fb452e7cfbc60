// SPDX-License-Identifier: MIT
#include "fusion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "flow.hpp"
#include "webs.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

constexpr std::string_view measured = "SASS of ptxas 13.0 for sm_90a, tests/kernel/fusion_test.cpp";

constexpr auto fusion_table = std::to_array<FusionRow>({
    {"one use", "a product is fused into a sum if that sum, in the same block, is its only use", true, measured},
    {"several uses",
     "a product whose uses are all sums in the same block is fused into each of them, unless one has already fused its "
     "other operand",
     true, measured},
    {"both operands", "of two products, the one with fewer uses is fused; if they have equally many, the first operand",
     true, measured},
    {"quotient", "div.full, div.approx and rcp.approx without .ftz end with a product", true, measured},
    {"other use", "a product that another instruction reads is fused into none of its uses", false, measured},
    {"other block",
     "a product that another basic block reads is not fused, unless a factor is constant (a number, a parameter of the "
     "entry, ld.const); a rounded quotient or a fence begins a block",
     false, measured},
    {"same operand", "x + x and x - x of one product are not fused", false, measured},
    {"other flushing", ".ftz of the product and of the sum differ", false, measured},
    {"guarded product", "a product under a guard is not fused", false, measured},
    {"taken", "the sum has fused its other operand", false, measured},
});
constexpr std::string_view row(size_t i) { return fusion_table[i].name; }

std::optional<Type> floating_type(const PtxInstruction& instruction) {
  const auto type = last_type(instruction);
  if (!type || info(*type).kind != TypeClass::floating) return std::nullopt;
  return type;
}

bool is_product(const PtxInstruction& instruction) {
  const auto type = floating_type(instruction);
  if (instruction.is_refused || !type || has_word(instruction, Word::sat) || instruction.operands.empty() ||
      instruction.operands[0].kind != Kind::reg)
    return false;
  const size_t sources = instruction.operands.size() - 1;
  switch (instruction.row->contraction) {
    case Contraction::product: return sources == 2 && !has_rounding(instruction);
    case Contraction::quotient:
      return *type == Type::f32 && sources == 2 && has_one_of(instruction, {Word::full, Word::approx});
    case Contraction::reciprocal:
      return *type == Type::f32 && sources == 1 && has_word(instruction, Word::approx) &&
             !has_word(instruction, Word::ftz);
    case Contraction::none:
    case Contraction::sum:
    case Contraction::difference: return false;
  }
  return false;
}
bool is_sum(const PtxInstruction& instruction) {
  const Contraction part = instruction.row->contraction;
  return !instruction.is_refused && (part == Contraction::sum || part == Contraction::difference) &&
         floating_type(instruction) && !has_rounding(instruction) && instruction.operands.size() == 3 &&
         instruction.operands[0].kind == Kind::reg;
}
/// A copy or a negation, which ptxas looks through. A flushing one is a no-op if the product flushes too.
bool is_transparent(const PtxInstruction& instruction, bool product_flushes) {
  if (instruction.is_refused || instruction.guard >= 0 || instruction.operands.size() != 2 ||
      instruction.operands[0].kind != Kind::reg || instruction.operands[1].kind != Kind::reg)
    return false;
  if (instruction.row->passes == Passes::negated)
    return floating_type(instruction).has_value() && (product_flushes || !has_word(instruction, Word::ftz));
  return instruction.row->passes == Passes::value;
}

/// ptxas splits the basic block before it contracts at the instructions whose rows say so, and at a branch around a
/// guarded instruction with effects beyond its registers.
bool splits_block(const PtxInstruction& instruction) {
  return (instruction.guard >= 0 && instruction.acts) || ends_block(instruction);
}

class Fuser {
 public:
  Fuser(const Entry& entry, const SassLines& sass)
      : entry_(entry),
        sass_(sass),
        flow_(flow_of(entry, splits_block)),
        live_(live_registers(entry, flow_)),
        accesses_(entry.registers.size()) {
    for (const PtxInstruction& instruction : entry.instructions) {
      effects_.push_back(effects_of(instruction));
      for (const std::vector<int>* registers : {&effects_.back().reads, &effects_.back().writes}) {
        for (const int reg : *registers) {
          std::vector<int>& accesses = accesses_[static_cast<size_t>(reg)];
          const int index = static_cast<int>(effects_.size()) - 1;
          if (accesses.empty() || accesses.back() != index) accesses.push_back(index);
        }
      }
      statements_of_line_[instruction.line].insert(instruction.text);
    }
    find_useful_instructions();
  }

  Fusions fuse() {
    for (const Block& block : flow_.blocks) find_products(block);
    for (size_t i = 0; i < products_.size(); ++i) {
      for (const Use& use : products_[i].uses) {
        products_of_sum_[use.instruction].push_back(i);
        if (!use.leaves_block && use.operand > 0)
          product_of_.emplace(std::pair(use.instruction, use.operand), std::pair(i, use));
      }
    }
    is_taken_.resize(products_.size());
    for (const bool single : {true, false}) {
      for (int i = 0; i < std::ssize(entry_.instructions); ++i) join_sum(i, single);
    }
    const std::map<int, Join> by_rule = fusions_.of_sum;
    if (sass_.empty()) {
      for (Product& product : products_) doubt_sums_elsewhere(product);
    }
    std::set<int> unexplained;
    if (!sass_.empty()) {
      for (Product& product : products_) product.uses_anywhere = uses_anywhere(product);
      for (int i = 0; i < std::ssize(entry_.instructions); ++i) {
        if (is_sum(at(i)) && !follow_sass(i)) unexplained.insert(i);
      }
    }
    tell(by_rule, unexplained);
    std::ranges::sort(fusions_.list, {}, &KernelFusion::sum_line);
    return std::move(fusions_);
  }

 private:
  struct Use {
    int instruction = -1;
    int operand = 0;
    bool negated = false;
    bool leaves_block = false;
  };
  struct Product {
    int instruction = -1;
    std::vector<Use> uses = {}, uses_anywhere = {};  // uses in all blocks; only with SASS
    bool may_join = true;
    std::string_view why = {};
    bool is_sure = true;
    bool has_constant = false;  // a constant factor: sums in other blocks may join it
  };

  const PtxInstruction& at(int index) const { return entry_.instructions[static_cast<size_t>(index)]; }
  const Effects& effects(int index) const { return effects_[static_cast<size_t>(index)]; }

  /// Whether a block after this one reads the register before it writes it.
  bool is_live_behind(size_t block, int reg) const {
    return std::ranges::any_of(flow_.blocks[block].successors, [&](int next) {
      return std::ranges::binary_search(live_[static_cast<size_t>(next)], reg);
    });
  }

  /// ptxas removes unused instructions before it counts uses.
  void find_useful_instructions() {
    std::vector<int> work;
    useful_.resize(entry_.instructions.size());
    writers_ = writers_of(entry_);
    for (int i = 0; i < std::ssize(entry_.instructions); ++i) {
      if (at(i).acts) useful_[static_cast<size_t>(i)] = true, work.push_back(i);
    }
    while (!work.empty()) {
      const int instruction = work.back();
      work.pop_back();
      for (const int reg : effects(instruction).reads) {
        for (const int writer : writers(reg)) {
          if (useful_[static_cast<size_t>(writer)]) continue;
          useful_[static_cast<size_t>(writer)] = true;
          work.push_back(writer);
        }
      }
    }
  }

  const std::vector<int>& writers(int reg) const { return writers_[static_cast<size_t>(reg)]; }

  /// A constant operand that needs no register: a number, a parameter of the entry or a constant of the module. Returns
  /// the number, or the address of the parameter or constant; nullptr if the operand is not constant.
  const Operand* constant_of(const Operand& read) const {
    const Operand* operand = &read;
    int reader = static_cast<int>(entry_.instructions.size());
    while (operand->kind != Kind::integer && operand->kind != Kind::real) {
      if (operand->kind != Kind::reg || writers(operand->reg).size() != 1) return nullptr;
      const int writer = writers(operand->reg).front();
      if (writer >= reader) return nullptr;  // neg %f1, %f1: the lookup would never end
      const PtxInstruction& instruction = at(writer);
      if (instruction.row->access == Access::load)
        return has_one_of(instruction, {Word::param, Word::const_}) ? &instruction.operands.back() : nullptr;
      if (instruction.row->passes == Passes::nothing || instruction.guard >= 0 || instruction.operands.size() != 2)
        return nullptr;
      operand = &instruction.operands[1];
      reader = writer;
    }
    return operand;
  }
  bool is_constant(const Operand& operand) const { return constant_of(operand) != nullptr; }

  /// A product by 1 or -1: ptxas emits a copy or a sign change.
  bool has_unit_factor(const PtxInstruction& product) const {
    if (product.row->contraction != Contraction::product) return false;
    return std::ranges::any_of(product.operands, [&](const Operand& operand) {
      const Operand* const number = &operand == product.operands.data() ? nullptr : constant_of(operand);
      if (!number || last_type(product) != Type::f32 || number->is_double) return false;
      return (number->kind == Kind::real || number->kind == Kind::integer) &&
             (number->value & 0x7FFFFFFF) == 0x3F800000;
    });
  }

  bool has_constant_factor(const PtxInstruction& product) const {
    const Contraction part = product.row->contraction;
    if (part == Contraction::product) return is_constant(product.operands[1]) || is_constant(product.operands[2]);
    if (part != Contraction::quotient) return false;
    // The product is that of the dividend and the reciprocal, which is a constant of a constant divisor. Without .ftz,
    // and of div.full, the dividend is scaled first.
    return product.operands[2].kind == Kind::real ||
           (has_word(product, Word::approx) && has_word(product, Word::ftz) && is_constant(product.operands[1]));
  }

  /// Uses of a register from an instruction to the next write or the end of the block. For a product with a constant
  /// factor it also collects uses in other blocks, if no other instruction writes the register.
  void collect_uses(const Block& block, const Product& product, int from, int reg, bool negated,
                    std::vector<Use>& uses) const {
    if (!collect_uses_in(block, product, from, reg, negated, uses)) return;
    if (!product.has_constant || writers(reg).size() != 1) {
      uses.push_back({.instruction = block.end - 1, .leaves_block = true});
      return;
    }
    for (const Block& other : flow_.blocks) {
      if (other.begin != block.begin) collect_uses_in(other, product, other.begin, reg, negated, uses);
    }
  }

  /// The same within one block. Returns whether a later block reads the register.
  bool collect_uses_in(const Block& block, const Product& product, int from, int reg, bool negated,
                       std::vector<Use>& uses) const {
    const std::vector<int>& accesses = accesses_[static_cast<size_t>(reg)];
    for (auto access = std::ranges::lower_bound(accesses, from); access != accesses.end() && *access < block.end;
         ++access) {
      const int i = *access;
      if (!useful_[static_cast<size_t>(i)]) continue;
      const PtxInstruction& instruction = at(i);
      const Effects& of = effects(i);
      if (std::ranges::find(of.reads, reg) != of.reads.end()) {
        if (is_transparent(instruction, has_word(at(product.instruction), Word::ftz))) {
          collect_uses(block, product, i + 1, instruction.operands[0].reg,
                       negated != (instruction.row->passes == Passes::negated), uses);
        } else {
          bool direct = false;
          for (size_t k = 1; k < instruction.operands.size(); ++k) {
            if (instruction.operands[k].kind != Kind::reg || instruction.operands[k].reg != reg) continue;
            uses.push_back({i, static_cast<int>(k), negated});
            direct = true;
          }
          if (!direct) uses.push_back({i, 0, negated});
        }
      }
      if (std::ranges::find(of.writes, reg) == of.writes.end()) continue;
      if (instruction.guard < 0) return false;
      uses.push_back({i, 0, negated});  // in lanes that the guard excludes, the next reader still gets the product
    }
    return is_live_behind(block_of(block.begin), reg);
  }

  size_t block_of(int instruction) const {
    return static_cast<size_t>(flow_.block_of[static_cast<size_t>(instruction)]);
  }

  bool fits(const Product& product, const Use& use) const {
    const PtxInstruction &mul = at(product.instruction), &sum = at(use.instruction);
    return !use.leaves_block && use.operand > 0 && is_sum(sum) && mul.words.back() == sum.words.back() &&
           has_word(mul, Word::ftz) == has_word(sum, Word::ftz);
  }

  void find_products(const Block& block) {
    const size_t first = products_.size();
    for (int i = block.begin; i < block.end; ++i) {
      if (!useful_[static_cast<size_t>(i)] || !is_product(at(i)) || has_unit_factor(at(i))) continue;
      Product product{.instruction = i, .has_constant = has_constant_factor(at(i))};
      collect_uses(block, product, i + 1, at(i).operands[0].reg, false, product.uses);
      judge(product);
      if (product.why == row(5) && may_sink(block, product)) product.is_sure = false;
      if (leaves_loop(product) || is_also_used_here(product)) product.is_sure = false;
      products_.push_back(std::move(product));
    }
    // ptxas may merge two products of the same factors.
    std::map<Factors, std::vector<Product*>> alike;
    for (Product& product : std::span(products_).subspan(first)) alike[factors_of(product)].push_back(&product);
    for (const auto& [factors, of_factors] : alike) {
      if (of_factors.size() == 1) continue;
      std::map<int, int> sums;  // how many of the products a sum reads
      for (Product* const product : of_factors) {
        product->is_sure = false;
        std::set<int> own;
        for (const Use& use : product->uses) {
          if (!use.leaves_block && own.insert(use.instruction).second) ++sums[use.instruction];
        }
      }
      for (Product* const product : of_factors) {
        const bool meets = std::ranges::any_of(
            product->uses, [&](const Use& use) { return !use.leaves_block && sums[use.instruction] > 1; });
        if (meets) product->may_join = false, product->why = row(6);
      }
    }
  }

  /// Joins a sum with one of its operands that are products; a product with fewer uses is preferred.
  void join_sum(int sum, bool single) {
    if (!useful_[static_cast<size_t>(sum)] || !is_sum(at(sum)) || fusions_.of_sum.contains(sum)) return;
    const Product* best = nullptr;
    Use best_use;
    for (const int operand : {1, 2}) {
      const auto entry = product_of_.find({sum, operand});
      if (entry == product_of_.end()) continue;
      const auto& [index, use] = entry->second;
      const Product& product = products_[index];
      if (!product.may_join || (product.uses.size() == 1) != single || is_taken_[index]) continue;
      if (best && product.uses.size() >= best->uses.size()) continue;
      best = &product, best_use = use;
    }
    if (!best) return;
    join(*best, best_use);
    // The sum still reads its other operand: that product stays.
    for (const size_t other : products_of_sum_[sum]) {
      if (products_[other].instruction != best->instruction) is_taken_[other] = true;
    }
  }

  /// The opcode and the factors of a product, in an order of their own. One factor: a reciprocal.
  using Factor = std::tuple<Kind, int, uint64_t>;
  using Factors = std::pair<std::string_view, std::vector<Factor>>;
  Factors factors_of(const Product& product) const {
    const PtxInstruction& instruction = at(product.instruction);
    Factors factors{instruction.opcode, {}};
    for (size_t i = 1; i < instruction.operands.size(); ++i) {
      const Operand& operand = instruction.operands[i];
      factors.second.emplace_back(operand.kind, operand.reg, operand.value);
    }
    std::ranges::sort(factors.second);
    return factors;
  }

  void judge(Product& product) const {
    if (at(product.instruction).guard >= 0) {
      product.may_join = false, product.why = row(8);
      return;
    }
    std::set<int> readers;
    for (const Use& use : product.uses) {
      if (use.leaves_block) product.may_join = false, product.why = row(5);
      else if (!fits(product, use)) {
        const bool flushing = use.operand > 0 && is_sum(at(use.instruction)) &&
                              at(product.instruction).words.back() == at(use.instruction).words.back();
        product.may_join = false, product.why = flushing ? row(7) : row(4);
      }
      if (!use.leaves_block && !readers.insert(use.instruction).second) product.may_join = false, product.why = row(6);
    }
  }

  /// Whether ptxas may sink a sum of the product below this block: it joined such a sum in 1 of 200 kernels on an H100.
  bool may_sink(const Block& block, const Product& product) const {
    return std::ranges::any_of(product.uses, [&](const Use& use) {
      if (!fits(product, use)) return false;
      std::vector<Use> of_sum;
      collect_uses(block, product, use.instruction + 1, at(use.instruction).operands[0].reg, false, of_sum);
      return std::ranges::all_of(of_sum, &Use::leaves_block);
    });
  }

  /// Whether control can flow from one block to another.
  bool reaches(size_t from, size_t to) const {
    std::vector<bool> seen(flow_.blocks.size());
    std::vector<size_t> work{from};
    while (!work.empty()) {
      const size_t block = work.back();
      work.pop_back();
      for (const int next : flow_.blocks[block].successors) {
        const auto n = static_cast<size_t>(next);
        if (n == to) return true;
        if (seen[n]) continue;
        seen[n] = true;
        work.push_back(n);
      }
    }
    return false;
  }

  /// Whether the product is in a loop, changes in each iteration, and joins a sum after the loop: ptxas does not
  /// contract it if it unrolls the loop.
  bool leaves_loop(const Product& product) const {
    const size_t block = block_of(product.instruction);
    const PtxInstruction& instruction = at(product.instruction);
    const bool changes = std::ranges::any_of(instruction.operands, [&](const Operand& operand) {
      return &operand != &instruction.operands[0] && operand.kind == Kind::reg && writers(operand.reg).size() > 1;
    });
    return product.may_join && changes && std::ranges::any_of(product.uses, [&](const Use& use) {
             const size_t other = block_of(use.instruction);
             return other != block && reaches(block, block) && !reaches(other, block);
           });
  }

  /// Whether a product with a constant factor has another use while a sum in another block reads it: ptxas joined one
  /// such sum and kept the product, in a torch.compile kernel on an H200. It does not do so in small kernels.
  bool is_also_used_here(const Product& product) const {
    return product.why == row(4) && product.has_constant && std::ranges::any_of(product.uses, [&](const Use& use) {
             return fits(product, use) && block_of(use.instruction) != block_of(product.instruction);
           });
  }

  void join(const Product& product, const Use& use) {
    const PtxInstruction &mul = at(product.instruction), &sum = at(use.instruction);
    Join join{.product = product.instruction, .operand = use.operand};
    const bool subtracts = sum.row->contraction == Contraction::difference;
    join.negate_product = use.negated != (subtracts && use.operand == 2);
    join.negate_addend = subtracts && use.operand == 1;
    const bool is_same_block = block_of(product.instruction) == block_of(use.instruction);
    for (size_t k = 1; k < mul.operands.size(); ++k) {
      if (mul.operands[k].kind != Kind::reg) continue;
      const std::vector<int>& all = writers(mul.operands[k].reg);
      const auto is_between = [&](int writer) { return writer >= product.instruction && writer < use.instruction; };
      // In a loop, an iteration overwrites the factor before a sum after it, or in the next iteration, reads it.
      const bool is_overwritten = is_same_block ? std::ranges::any_of(all, is_between) : !is_constant(mul.operands[k]);
      if (is_overwritten) join.needs_copies = true;
    }
    if (join.needs_copies) fusions_.copied.insert(join.product);
    fusions_.of_sum[use.instruction] = join;
  }

  SassEvidence in_sass(int sum) const {
    if (statements_of_line_.at(at(sum).line).size() > 1) return SassEvidence::none;  // SASS cannot tell which
    const auto entry = sass_.find(at(sum).line);
    if (entry == sass_.end() || (entry->second.fmas == 0 && entry->second.sums == 0)) return SassEvidence::none;
    if (entry->second.fmas == 0) return SassEvidence::apart;
    return entry->second.sums == 0 ? SassEvidence::joined : SassEvidence::both;
  }

  /// Joins or separates a sum as the SASS shows it. False if the SASS has an fma but no operand is a product.
  bool follow_sass(int sum) {
    const SassEvidence evidence = in_sass(sum);
    if (evidence == SassEvidence::apart) fusions_.of_sum.erase(sum);
    if (evidence != SassEvidence::joined) return true;
    struct Candidate {
      const Product* product = nullptr;
      Use use = {};
      bool stays = true;  // the SASS still has a product at its line
      bool by_rule = false;
    };
    std::vector<Candidate> candidates;
    for (const Product& product : products_) {
      for (const Use& use : product.uses_anywhere) {
        if (use.instruction != sum || !fits(product, use) || !reads_product(product, use)) continue;
        const auto row = sass_.find(at(product.instruction).line);
        const auto joined = fusions_.of_sum.find(sum);
        candidates.push_back({&product, use, row != sass_.end() && row->second.products > 0,
                              joined != fusions_.of_sum.end() && joined->second.product == product.instruction});
      }
    }
    if (candidates.empty()) return false;
    // Prefer a product that the SASS no longer has, then the product that the rule joins, then the one with fewer uses.
    const auto order = [](const Candidate& candidate) {
      return std::tuple(candidate.stays, !candidate.by_rule, candidate.product->uses.size(), candidate.use.operand);
    };
    const Candidate best = *std::ranges::min_element(candidates, {}, order);
    join(*best.product, best.use);
    return true;
  }

  /// Whether the sum reads the value of this product in every lane, and in only one operand.
  bool reads_product(const Product& product, const Use& use) const {
    const std::vector<int>& all = writers(at(product.instruction).operands[0].reg);
    const auto overwrites = [&](int writer) {
      return all.size() > 1 && (block_of(use.instruction) != block_of(product.instruction) ||
                                (writer > product.instruction && writer < use.instruction));
    };
    return at(product.instruction).guard < 0 && std::ranges::none_of(all, overwrites) && product.why != row(6);
  }

  /// A product that its own block reads in another way than as a sum, and a sum of another block: in 1 of 300 random
  /// kernels on an H200 ptxas joined that sum, and kept the product.
  void doubt_sums_elsewhere(Product& product) const {
    if (product.why != row(5) || writers(at(product.instruction).operands[0].reg).size() != 1) return;
    const auto is_other_use = [&](const Use& use) { return !use.leaves_block && !fits(product, use); };
    if (std::ranges::none_of(product.uses, is_other_use)) return;
    std::vector<Use> uses = uses_anywhere(product);
    if (std::ranges::none_of(uses, [&](const Use& use) {
          return fits(product, use) && block_of(use.instruction) != block_of(product.instruction);
        }))
      return;
    product.is_sure = false;
    product.uses_anywhere = std::move(uses);
  }

  /// Uses in all blocks of a product whose register no other instruction writes.
  std::vector<Use> uses_anywhere(const Product& product) const {
    Product anywhere{.instruction = product.instruction, .has_constant = true};
    collect_uses(flow_.blocks[block_of(product.instruction)], anywhere, product.instruction + 1,
                 at(product.instruction).operands[0].reg, false, anywhere.uses);
    return anywhere.uses;
  }

  /// Reports one row for each product and each sum that reads it.
  void tell(const std::map<int, Join>& by_rule, const std::set<int>& unexplained) {
    const auto joins = [](const std::map<int, Join>& joined, const Product& product, int sum) {
      const auto entry = joined.find(sum);
      return entry != joined.end() && entry->second.product == product.instruction;
    };
    for (const Product& product : products_) {
      const PtxInstruction& mul = at(product.instruction);
      for (const Use& use : product.uses_anywhere.empty() ? product.uses : product.uses_anywhere) {
        if (use.leaves_block || use.operand == 0 || !is_sum(at(use.instruction))) continue;
        const int sum = use.instruction;
        const bool rule_joins = joins(by_rule, product, sum), is_joined = joins(fusions_.of_sum, product, sum);
        std::string_view why = product.why;
        if (rule_joins)
          why = mul.row->contraction != Contraction::product ? row(3) : product.uses.size() == 1 ? row(0) : row(1);
        else if (why.empty()) why = by_rule.contains(sum) ? row(2) : row(9);
        SassEvidence evidence = in_sass(sum);
        if (evidence == SassEvidence::joined && !is_joined) evidence = SassEvidence::apart;  // with the other operand
        const bool decided = evidence == SassEvidence::joined || evidence == SassEvidence::apart;
        fusions_.list.push_back({.product_line = mul.line,
                                 .sum_line = at(sum).line,
                                 .product = mul.text,
                                 .sum = at(sum).text,
                                 .rule = std::string(why),
                                 .rule_joins = rule_joins,
                                 .is_joined = is_joined,
                                 .is_sure = decided || (product.is_sure && evidence != SassEvidence::both),
                                 .sass = evidence});
      }
    }
    for (const int sum : unexplained) {
      fusions_.list.push_back({.sum_line = at(sum).line,
                               .sum = at(sum).text,
                               .rule_joins = false,
                               .is_joined = false,
                               .is_sure = false,
                               .sass = SassEvidence::joined});
    }
  }

  const Entry& entry_;
  const SassLines& sass_;
  Flow flow_;
  std::vector<Effects> effects_;
  std::map<int, std::set<std::string>> statements_of_line_;
  std::vector<std::vector<int>> live_;      // for each block
  std::vector<std::vector<int>> accesses_;  // for each register: the instructions that read or write it
  std::vector<bool> useful_;
  std::vector<std::vector<int>> writers_;  // for each register
  std::vector<Product> products_;
  std::map<std::pair<int, int>, std::pair<size_t, Use>> product_of_;  // keyed by sum and operand
  std::map<int, std::vector<size_t>> products_of_sum_;                // those that an instruction reads
  std::vector<bool> is_taken_;  // for each product: whether a sum that reads it has joined another
  Fusions fusions_;
};

}  // namespace

std::span<const FusionRow> fusion_rows() { return fusion_table; }

Fusions fusions_of(const Entry& entry, const SassLines& sass) {
  if (entry.instructions.empty()) return {};
  return Fuser(entry, sass).fuse();
}

}  // namespace bitmma::kernel
