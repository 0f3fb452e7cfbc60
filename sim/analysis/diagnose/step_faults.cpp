// SPDX-License-Identifier: MIT
// A wrong descriptor in every step of a whole tile. A tile has no image, so this file lays out its operands as
// `simulate` does for a kernel: K-major with 128-byte swizzle, all of K in one image.
#include <map>
#include <memory>
#include <mutex>

#include "../../instruction/mainloop_tile.hpp"
#include "bitmma/core/error.hpp"
#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

/// For each block of the tile's A or B: its steps, each with the image of all steps.
using Blocks = std::vector<std::vector<Case>>;

/// Throws Error if the operands do not fit in shared memory.
Blocks blocks_of(const Subject& s, Role x) {
  const Placement placement;
  const Instruction instruction = with_majors(s.instruction(), placement.a, placement.b);
  const Mma mma = mma_of(instruction);
  const bool is_a = x == Role::a;
  const int count = is_a ? s.mma().m / mma.m : s.mma().n / mma.n, steps = s.mma().k / s.step_k();
  Blocks blocks;
  for (int block = 0; block < count; ++block) {
    std::vector<Case> cases;
    for (int step = 0; step < steps; ++step) {
      Operands operands = part_of_k(s.truth(), step * s.step_k(), s.step_k());
      operands = block_of(operands, is_a ? block * mma.m : 0, mma.m, is_a ? 0 : block * mma.n, mma.n);
      cases.push_back({.instruction = instruction,
                       .target = s.this_case().target,
                       .before = place_operands(instruction, placement, operands, RandomStream(0, 0))});
    }
    const MainloopTile tile(cases, placement, RandomStream(0, 0));
    for (int step = 0; step < steps; ++step) tile.move_in(cases[static_cast<size_t>(step)], step);
    blocks.push_back(std::move(cases));
  }
  return blocks;
}

/// Builds the blocks of a case on first use and caches them.
class Laid {
 public:
  explicit Laid(Role x) : x_(x) {}
  std::shared_ptr<const Blocks> of(const Subject& s) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Blocks>& made = made_[s.index()];
    if (!made) made = std::make_shared<const Blocks>(blocks_of(s, x_));
    return made;
  }

 private:
  Role x_;
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<const Blocks>> made_;
};

}  // namespace

void add_step_faults(Rows& rows, const Subject& s, Role x) {
  constexpr int64_t most_instructions = 64;  // because every fault reads each of them once
  if (!s.is_tile()) return;
  const Mma mma = mma_of(s.instruction());
  const int64_t blocks = x == Role::a ? s.mma().m / mma.m : s.mma().n / mma.n, steps = s.mma().k / s.step_k();
  if (blocks * steps > most_instructions) return;
  const auto laid = std::make_shared<Laid>(x);
  std::shared_ptr<const Blocks> own;
  try {
    own = laid->of(s);
  } catch (const Error&) {
    return;  // no kernel keeps it all in shared memory
  }
  const Subject first(own->front(), 0);
  Rows of_a_step;
  add_descriptor_faults(of_a_step, first, x);
  for (FaultRow& row : of_a_step) {
    Fault fault = row.fault;
    fault.id.insert(1, ".step");
    fault.what += ", in every step of a K-major tile of swizzle 128";
    add(rows, fault.id, fault.stage, fault.what, fault.fix,
        [x, laid, apply = std::move(row.apply)](const Subject& subject, Parts& parts) {
          Matrix& whole = operand_of(parts, x);
          int at = 0;
          for (const std::vector<Case>& block : *laid->of(subject)) {
            int lines = 0;
            for (size_t step = 0; step < block.size(); ++step) {
              const Subject step_subject(block, static_cast<int64_t>(step));
              Parts of_step = true_parts(step_subject);
              if (!apply(step_subject, of_step)) return false;
              const Matrix& read = operand_of(of_step, x);
              const int first_k = static_cast<int>(step) * subject.step_k(),
                        k = x == Role::a ? stored_of_k(parts.operands, first_k) : first_k;
              set_block(whole, x == Role::a ? at : k, x == Role::a ? k : at, read);
              lines = x == Role::a ? read.rows() : read.cols();
            }
            at += lines;
          }
          return true;
        });
  }
}

}  // namespace bitmma::faults
