// What the loops ask of vectors, on the baseline's, lane by lane: plain C++ on x86-64, NEON on 64-bit ARM.
#include "arithmetic/kernels/vector.hpp"

#include <array>
#include <bit>
#include <limits>

#include "arithmetic/kernels/round.hpp"
#include "bitmma/core/random.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using namespace bitmma::kernels;

namespace {

constexpr int bytes = 16;
constexpr size_t lanes = 4;
using I16 = Vectors<bytes>::I16;
using I32 = Vectors<bytes>::I32;
using U32 = Vectors<bytes>::U32;
using LaneNumbers = std::array<int32_t, lanes>;

template <typename V>
LaneNumbers numbers_of(const V& vector) {
  static_assert(sizeof(V) == bytes);
  return std::bit_cast<LaneNumbers>(vector);
}

I32 vector_of(const LaneNumbers& numbers) { return std::bit_cast<I32>(numbers); }

/// Random words, every fourth one of the values that are special somewhere.
LaneNumbers random_numbers(RandomStream& random) {
  constexpr auto special = std::to_array<uint32_t>(
      {0, 1, 2, 0xFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFF0000, 0xFFFFFFFF});
  LaneNumbers numbers;
  for (int32_t& number : numbers)
    number = static_cast<int32_t>(random.one_in(4) ? special[static_cast<size_t>(random.below(special.size()))]
                                                   : random.word() >> random.below(32));
  return numbers;
}

int32_t lower(int32_t number) { return static_cast<int16_t>(number & 0xFFFF); }
int32_t upper(int32_t number) { return number >> 16; }

constexpr int rounds = 20'000;

}  // namespace

TEST_CASE("pairs are multiplied half by half and added, one vector or two with one pair") {
  RandomStream random(31, 0);
  for (int round = 0; round < rounds; ++round) {
    LaneNumbers x[2], y = random_numbers(random);
    for (LaneNumbers& numbers : x) {
      numbers = random_numbers(random);
      // As in a Pair: the sums fit 32 bits.
      for (int32_t& number : numbers) number = (number & 0xFFFF) | (random.one_in(2) ? 0x10000 : -0x10000);
    }
    for (int32_t& number : y) number = (number & 0xFFFF) | (random.one_in(2) ? 0x10000 : -0x10000);
    const I32 vectors[2] = {vector_of(x[0]), vector_of(x[1])};
    I32 single, both[2];
    multiply_pairs<bytes>(vectors[0], vector_of(y), single);
    multiply_pairs<bytes>(vectors, y[0], both);
    for (size_t lane = 0; lane < lanes; ++lane) {
      const auto product = [&](int32_t a, int32_t b) { return lower(a) * lower(b) + upper(a) * upper(b); };
      REQUIRE(numbers_of(single)[lane] == product(x[0][lane], y[lane]));
      REQUIRE(numbers_of(both[0])[lane] == product(x[0][lane], y[0]));
      REQUIRE(numbers_of(both[1])[lane] == product(x[1][lane], y[0]));
    }
  }
}

TEST_CASE("numbers are shifted right by any count from 0 on, of a lane's own and of half a lane") {
  RandomStream random(32, 0);
  for (int round = 0; round < rounds; ++round) {
    const LaneNumbers first = random_numbers(random), second = random_numbers(random);
    LaneNumbers counts, halves;
    for (size_t lane = 0; lane < lanes; ++lane) {
      counts[lane] = static_cast<int32_t>(random.one_in(4) ? random.below(20'000) : random.below(40));
      const auto count = [&] { return random.one_in(4) ? random.below(20'000) : random.below(40); };
      halves[lane] = static_cast<int32_t>(count() | count() << 16);
    }
    I32 signed_numbers = vector_of(first), pair[2] = {vector_of(first), vector_of(second)};
    shift_right<bytes>(signed_numbers, vector_of(counts));
    shift_right<bytes>(pair, std::bit_cast<I16>(halves));
    for (size_t lane = 0; lane < lanes; ++lane) {
      const auto shifted = [](int32_t number, int32_t count) { return number >> std::min(count, 31); };
      REQUIRE(numbers_of(signed_numbers)[lane] == shifted(first[lane], counts[lane]));
      REQUIRE(numbers_of(pair[0])[lane] == shifted(first[lane], lower(halves[lane])));
      REQUIRE(numbers_of(pair[1])[lane] == shifted(second[lane], upper(halves[lane])));
    }
  }
}

TEST_CASE("signs, bits and leading zeros are counted in every lane") {
  RandomStream random(33, 0);
  for (int round = 0; round < rounds; ++round) {
    const LaneNumbers numbers = random_numbers(random);
    U32 bits = std::bit_cast<U32>(numbers), in_bytes = bits, number = bits;
    I32 moved;
    count_bits(bits);
    count_in_bytes(in_bytes);
    normalise<bytes>(number, moved);
    const uint32_t signs = sign_bits<bytes>(vector_of(numbers));
    REQUIRE(signs < 16);
    for (size_t lane = 0; lane < lanes; ++lane) {
      const auto word = static_cast<uint32_t>(numbers[lane]);
      REQUIRE(((signs >> lane) & 1) == word >> 31);
      REQUIRE(numbers_of(bits)[lane] == std::popcount(word));
      for (int byte = 0; byte < 32; byte += 8) {
        const auto counted = static_cast<uint32_t>(numbers_of(in_bytes)[lane]);
        REQUIRE(static_cast<int>((counted >> byte) & 0xFF) == std::popcount((word >> byte) & 0xFF));
      }
      const auto normal = static_cast<uint32_t>(numbers_of(number)[lane]);
      if (word == 0) {
        REQUIRE(normal == 0);  // wherever it is moved
      } else {
        REQUIRE(numbers_of(moved)[lane] == std::countl_zero(word));
        REQUIRE(normal == word << std::countl_zero(word));
      }
    }
  }
}
