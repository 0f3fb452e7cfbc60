#include "bitmma/memory/bank_conflicts.hpp"

#include <algorithm>

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("wavefronts of known accesses: strides, one word for all, wide elements") {
  const auto strided = [](int threads, int64_t step, int bytes) {
    std::vector<int64_t> addresses;
    for (int thread = 0; thread < threads; ++thread) addresses.push_back(step * thread);
    const BankUse use = bank_use(addresses, bytes);
    return std::pair(use.wavefronts, use.requests);
  };
  CHECK(strided(32, 4, 4) == std::pair(1, 1));
  CHECK(strided(32, 0, 4) == std::pair(1, 1));
  CHECK(strided(32, 2, 2) == std::pair(1, 1));
  CHECK(strided(32, 8, 4) == std::pair(2, 1));
  CHECK(strided(32, 128, 4) == std::pair(32, 1));
  CHECK(strided(32, 132, 4) == std::pair(1, 1));
  CHECK(strided(32, 8, 8) == std::pair(2, 2));
  CHECK(strided(32, 16, 16) == std::pair(4, 4));
  CHECK(strided(8, 128, 16) == std::pair(8, 1));
  CHECK(strided(8, 144, 16) == std::pair(1, 1));
}

TEST_CASE("wavefronts are what a count word by word says") {
  RandomStream random(5, 0);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<int64_t> addresses(1 + random.below(32));
    for (int64_t& address : addresses) address = static_cast<int64_t>(4 * random.below(1 + random.below(500)));
    std::vector<int64_t> words;
    for (const int64_t address : addresses) words.push_back(address / 4);
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int most = 0;
    for (int bank = 0; bank < 32; ++bank)
      most = std::max(most,
                      static_cast<int>(std::ranges::count_if(words, [&](int64_t word) { return word % 32 == bank; })));
    CHECK(bank_use(addresses, 4).wavefronts == most);
  }
}

TEST_CASE("matrices of a tile: a swizzle as wide as its rows has no conflicts") {
  const auto worst = [](const char* text, int bits) {
    int wavefronts = 0;
    for (const MatrixBankUse& use : matrix_bank_use(map_of(parse_cute(text, bits))))
      wavefronts = std::max(wavefronts, use.use.wavefronts);
    return wavefronts;
  };
  CHECK(worst("(64,64):(64,1)", 16) == 8);
  CHECK(worst("Swizzle<3,4,3> o (64,64):(64,1)", 16) == 1);
  CHECK(worst("Swizzle<2,4,3> o (64,32):(32,1)", 16) == 1);
  CHECK(worst("(64,32):(32,1)", 16) == 4);
  CHECK(worst("(64,64):(72,1)", 16) == 1);
  CHECK(worst("Swizzle<3,4,3> o (64,64):(1,64)", 16) == 1);  // columns, for .trans
  CHECK(worst("(64,64):(1,64)", 16) == 8);
  CHECK(matrix_bank_use(map_of(parse_cute("(16,16):(16,1)", 16))).size() == 4);
  CHECK_THROWS_AS(worst("(64,64):(65,1)", 16), Error);
  CHECK_THROWS_AS(worst("(12,64):(64,1)", 16), Error);
  CHECK_THROWS_AS(worst("(64,64):(128,2)", 16), Error);
}

TEST_CASE("accesses that no warp makes are refused") {
  CHECK_THROWS_AS(bank_use({}, 4), Error);
  CHECK_THROWS_AS(bank_use(std::vector<int64_t>(33), 4), Error);
  CHECK_THROWS_AS(bank_use(std::vector<int64_t>{2}, 4), Error);
  CHECK_THROWS_AS(bank_use(std::vector<int64_t>{-4}, 4), Error);
  CHECK_THROWS_AS(bank_use(std::vector<int64_t>{0}, 3), Error);
}
