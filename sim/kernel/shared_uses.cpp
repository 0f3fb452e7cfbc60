// SPDX-License-Identifier: MIT
#include "shared_uses.hpp"

namespace bitmma::kernel {

void SharedUses::resize(size_t bytes, size_t warps) {
  const size_t units = bytes / unit + 1, words = units * (unit / word);
  warps_ = warps;
  words_.resize(words);
  epochs_.resize(words * warps);
  parts_of_word_.resize(words);
  is_used_.resize(units);
}

void SharedUses::clear() {
  constexpr size_t words = unit / word;
  for (size_t i = 0; i < is_used_.size(); ++i) {
    if (is_used_[i] == 0) continue;
    std::fill_n(words_.begin() + static_cast<std::ptrdiff_t>(words * i), words, SharedUse{});
    std::fill_n(parts_of_word_.begin() + static_cast<std::ptrdiff_t>(words * i), words, 0);
    is_used_[i] = 0;
  }
  // Units that were forgotten may have words in parts.
  if (!parts_.empty()) std::ranges::fill(parts_of_word_, 0);
  parts_.clear();
  part_epochs_.clear();
}

void SharedUses::forget(size_t at, size_t bytes) {
  for_each(at, bytes, [](SharedUse& use, const uint32_t*, size_t) { use = {}; });
}

size_t SharedUses::split(size_t index) {
  uint32_t& number = parts_of_word_[index];
  if (number == 0) {
    number = static_cast<uint32_t>(parts_.size()) + 1;
    std::array<SharedUse, word>& bytes = parts_.emplace_back();
    bytes.fill(words_[index]);
    for (size_t i = 0; i < word; ++i) {
      part_epochs_.insert(part_epochs_.end(), epochs_.begin() + static_cast<std::ptrdiff_t>(index * warps_),
                          epochs_.begin() + static_cast<std::ptrdiff_t>((index + 1) * warps_));
    }
  }
  return number - 1;
}

}  // namespace bitmma::kernel
