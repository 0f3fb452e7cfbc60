// SPDX-License-Identifier: MIT
#include "shared_uses.hpp"

namespace bitmma::kernel {

void SharedUses::resize(size_t bytes, size_t warps) {
  constexpr size_t units_of_line = 4;  // 16 words, so that the epochs of each warp begin where a cache line does
  const size_t units = (bytes / unit / units_of_line + 1) * units_of_line, words = units * (unit / word);
  warps_ = warps;
  for (LineVector<uint32_t>* field : {&writers_, &write_epochs_, &readers_}) field->resize(words);
  parts_of_word_.resize(words);
  for (LineVector<int>* field : {&write_instructions_, &read_instructions_}) field->resize(words);
  write_lanes_.resize(words * word);
  read_epochs_.resize(words * warps);
  newest_reads_.resize(warps);
  bytes_of_word_.resize(words);
  is_used_.resize(units);
}

void SharedUses::clear() {
  std::ranges::fill(newest_reads_, 0);
  constexpr size_t words_of_unit = unit / word;
  const auto begin_of = [](auto& field, size_t unit_index) {
    return field.begin() + static_cast<std::ptrdiff_t>(words_of_unit * unit_index);
  };
  for (size_t i = 0; i < is_used_.size(); ++i) {
    if (is_used_[i] == 0) continue;
    const size_t first = i;
    while (i < is_used_.size() && is_used_[i] != 0) is_used_[i++] = 0;
    // Without a writer and readers the other fields say nothing.
    for (LineVector<uint32_t>* field : {&writers_, &write_epochs_, &readers_})
      std::fill(begin_of(*field, first), begin_of(*field, i), 0);
  }
  if (!has_narrow_) return;
  // Units that were forgotten may have such words too.
  std::ranges::fill(bytes_of_word_, SharedBytes::together);
  std::ranges::fill(parts_of_word_, 0);
  parts_.clear();
  part_epochs_.clear();
  has_narrow_ = false;
}

void SharedUses::forget(size_t at, size_t bytes) {
  for_each(at, bytes, [](SharedUse& use, const ReadEpochs&, size_t) { use = {}; });
}

size_t SharedUses::split(size_t index) {
  uint32_t& number = parts_of_word_[index];
  if (bytes_of_word_[index] == SharedBytes::apart) return number - 1;
  bytes_of_word_[index] = SharedBytes::apart;
  has_narrow_ = true;
  if (number == 0) {
    parts_.emplace_back();
    part_epochs_.resize(parts_.size() * word * warps_);
    number = static_cast<uint32_t>(parts_.size());
  }
  const size_t part = number - 1;
  for (size_t i = 0; i < word; ++i) {
    parts_[part][i] = of_word(index);
    parts_[part][i].write_lane = write_lanes_[word * index + i];
    for (size_t warp = 0; warp < warps_; ++warp)
      part_epochs_[(word * part + i) * warps_ + warp] = read_epochs_[warp * words() + index];
  }
  return part;
}

}  // namespace bitmma::kernel
