// SPDX-License-Identifier: MIT
// Faults of sparse metadata.
#include <algorithm>
#include <array>
#include <utility>

#include "bitmma/memory/metadata.hpp"
#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

/// Changes one chunk: for each stored element the row of B that it multiplies, counted from `base`.
using ChunkChange = void (*)(std::span<uint16_t> chunk, int base, int chunk_columns);

void change_chunks(Operands& operands, const SparsePattern& pattern, ChunkChange change) {
  const auto stored = static_cast<size_t>(pattern.stored_per_chunk);
  for (size_t first = 0; first < operands.selected_k.size(); first += stored) {
    const std::span<uint16_t> chunk = std::span(operands.selected_k).subspan(first, stored);
    change(chunk, chunk[0] / pattern.chunk * pattern.chunk, pattern.chunk);
  }
  operands.mixed.clear();
}

struct MetadataRow {
  std::string_view id, what, fix;
  bool (*change)(const Mma&, Operands&);
};

constexpr auto metadata_rows = std::to_array<MetadataRow>({
    {.id = "metadata.ignored",
     .what = "metadata ignored: the first elements of every chunk are used",
     .fix = "the metadata operand was never written",
     .change =
         [](const Mma& mma, Operands& operands) {
           change_chunks(operands, sparse_pattern(mma.a_container_bits, mma.sparsity_version),
                         [](std::span<uint16_t> chunk, int base, int) {
                           for (size_t i = 0; i < chunk.size(); ++i)
                             chunk[i] = static_cast<uint16_t>(base + static_cast<int>(i));
                         });
           return true;
         }},
    {.id = "metadata.reversed",
     .what = "positions are counted from the other end of the chunk",
     .fix = "the lowest bits of a nibble are the first stored element",
     .change =
         [](const Mma& mma, Operands& operands) {
           change_chunks(operands, sparse_pattern(mma.a_container_bits, mma.sparsity_version),
                         [](std::span<uint16_t> chunk, int base, int columns) {
                           for (uint16_t& k : chunk) k = static_cast<uint16_t>(base + (columns - 1 - (k - base)));
                         });
           return true;
         }},
    {.id = "metadata.next_row",
     .what = "metadata of the next row",
     .fix = "which thread or lane supplies a row's metadata",
     .change =
         [](const Mma& mma, Operands& operands) {
           std::rotate(operands.selected_k.begin(), operands.selected_k.begin() + mma.stored_k(),
                       operands.selected_k.end());
           return operands.mixed.empty();
         }},
    {.id = "metadata.rows_8",
     .what = "metadata of rows r and r + 8 exchanged",
     .fix = "rows r and r + 8 share a register or cell in 16-bit types",
     .change =
         [](const Mma& mma, Operands& operands) {
           const auto stored = static_cast<size_t>(mma.stored_k());
           const std::vector<uint16_t> before = operands.selected_k;
           for (size_t i = 0; i < before.size(); ++i) {
             operands.selected_k[i] = before[((i / stored) ^ 8) * stored + i % stored];
           }
           return operands.mixed.empty();
         }},
});

/// Metadata in registers, where two threads of a quad hold that of one row: exchanges the threads.
void add_exchanged_threads(Rows& rows, const Subject& s) {
  if (!s.this_case().before.has(Field::metadata)) return;
  const MetadataLayout layout = metadata_layout(s.mma().a_container_bits, s.mma().stored_k());
  if ((layout.by_halves ? 4 : 2) / layout.selectors < 2) return;  // one thread holds all of it
  const size_t other = layout.by_halves ? 1 : 2;
  add(rows, "metadata.threads", FaultStage::metadata, "metadata of the other thread of the quad",
      "which thread supplies the first half of K, and which the second", [other](const Subject& subject, Parts& parts) {
        State state = subject.this_case().before;
        const std::span<uint32_t> words = state.writable_words(Field::metadata);
        for (size_t thread = 0; thread < words.size(); ++thread) {
          if ((thread & other) == 0) std::swap(words[thread], words[thread | other]);
        }
        std::optional<Operands> read = subject.read_as(subject.instruction(), state);
        if (!read) return false;
        parts.operands.selected_k = std::move(read->selected_k);
        parts.operands.mixed = std::move(read->mixed);
        return true;
      });
}

}  // namespace

void add_metadata_faults(Rows& rows, const Subject& s) {
  if (!s.mma().sparse) return;
  for (const MetadataRow& row : metadata_rows) {
    add(rows, std::string(row.id), FaultStage::metadata, std::string(row.what), row.fix,
        [change = row.change](const Subject& subject, Parts& parts) { return change(subject.mma(), parts.operands); });
  }
  add_exchanged_threads(rows, s);
  if (s.is_tile() && s.mma().k > s.step_k()) {
    add(rows, "metadata.not_advanced", FaultStage::metadata, "every step reads the metadata of the first step",
        "the metadata operand of each step", [](const Subject& subject, Parts& parts) {
          Operands& operands = parts.operands;
          const auto stored = static_cast<size_t>(operands.a.cols()),
                     of_step = static_cast<size_t>(stored_of_k(operands, subject.step_k()));
          for (size_t i = 0; i < operands.selected_k.size(); ++i) {
            const size_t col = i % stored, step = col / of_step;
            operands.selected_k[i] = static_cast<uint16_t>(subject.truth().selected_k[i - col + col % of_step] +
                                                           step * static_cast<size_t>(subject.step_k()));
          }
          return true;
        });
  }
  const int own = s.mma().sparsity_selector;
  for (int selector = 0; selector < 4 && s.this_case().has_state(); ++selector) {
    const Instruction other = with_sparsity_selector(s.instruction(), selector);
    if (selector == own || !violations_of(other, s.this_case().target).empty()) continue;
    add(rows, fmt::format("metadata.selector.{}", selector), FaultStage::metadata,
        fmt::format("sparsity selector {} instead of {}", selector, own),
        "sp-sel, or bits 0-1 of the instruction descriptor", [selector](const Subject& subject, Parts& parts) {
          std::optional<Operands> read =
              subject.read_as(with_sparsity_selector(subject.instruction(), selector), subject.this_case().before);
          if (!read) return false;
          parts.operands.selected_k = std::move(read->selected_k);
          parts.operands.mixed = std::move(read->mixed);
          return true;
        });
  }
}

}  // namespace bitmma::faults
