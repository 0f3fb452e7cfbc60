#include "bitmma/memory/fragment.hpp"

#include <set>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/layout/cute.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("every accumulator element is where CUTLASS puts it", "[rule:fragments]") {
  const int64_t elements =
      test::for_each_csv_row(test::oracle_path("gmma_fragment_D.csv"), [](const test::CsvRow& row) {
        const auto number = [&](const char* name) { return std::stoi(row.at(name)); };
        const Fragment f32 = wgmma_d_fragment(Format::f32, number("N")),
                       f16 = wgmma_d_fragment(Format::f16, number("N"));
        const MatrixPlace element{number("row"), number("col")};
        const RegisterPlace in_f32{number("thread"), number("reg_f32"), 0},
            in_f16{number("thread"), number("reg_f16"), 16 * (number("value") & 1)};
        REQUIRE(element_at(f32, in_f32.thread, in_f32.reg, 0) == element);
        REQUIRE(element_at(f16, in_f16.thread, in_f16.reg, in_f16.bit) == element);
        REQUIRE(place_of(f32, element.row, element.col) == in_f32);
        REQUIRE(place_of(f16, element.row, element.col) == in_f16);
      });
  CHECK(elements == 53760);
}

TEST_CASE("every element of A in registers is where CUTLASS puts it", "[rule:fragments]") {
  const int64_t elements =
      test::for_each_csv_row(test::oracle_path("gmma_fragment_A.csv"), [](const test::CsvRow& row) {
        const auto number = [&](const char* name) { return std::stoi(row.at(name)); };
        const std::string& instruction = row.at("instr");
        const Fragment fragment = instruction.starts_with("m64k16")  ? wgmma_a_fragment(Format::f16, 16)
                                  : instruction.starts_with("m64k8") ? wgmma_a_fragment(Format::tf32, 8)
                                                                     : wgmma_a_fragment(Format::e4m3, 32);
        const RegisterPlace place{number("thread"), number("reg"), number("sub") * fragment.element_bits};
        const MatrixPlace element{number("row"), number("col")};
        REQUIRE(element_at(fragment, place.thread, place.reg, place.bit) == element);
        REQUIRE(place_of(fragment, element.row, element.col) == place);
      });
  CHECK(elements == 5632);
}

namespace {

/// A format of so many bits, any.
Format format_of(int bits) {
  const auto row = std::ranges::find(formats, bits, &FormatInfo::bits);
  REQUIRE(row != formats.end());
  return row->id;
}

}  // namespace

TEST_CASE("both directions of every fragment are inverse, and gather reads what scatter wrote") {
  RandomStream random(5, 0);
  std::vector<Fragment> fragments{wgmma_a_fragment(Format::tf32, 8),
                                  wgmma_a_fragment(Format::bf16, 16),
                                  wgmma_a_fragment(Format::s8, 32),
                                  wgmma_a_fragment(Format::b1, 256),
                                  mma_a_fragment(8, 32),
                                  mma_a_fragment(4, 64),
                                  mma_b_fragment(8, 32),
                                  mma_b_fragment(4, 128),
                                  mma_d_fragment()};
  for (int n = 8; n <= 256; n += 8) {
    fragments.push_back(wgmma_d_fragment(Format::s32, n));
    fragments.push_back(wgmma_d_fragment(Format::f16, n));
  }
  for (const Fragment& fragment : fragments) {
    if (fragment.role == FragmentRole::a) CHECK(fragment.registers() == 4);
    std::set<std::tuple<int, int, int>> places;
    const Format format = format_of(fragment.element_bits);
    Matrix values(format, fragment.rows, fragment.cols);
    for (int row = 0; row < fragment.rows; ++row) {
      for (int col = 0; col < fragment.cols; ++col) {
        const RegisterPlace place = place_of(fragment, row, col);
        REQUIRE(element_at(fragment, place.thread, place.reg, place.bit) == MatrixPlace{row, col});
        places.emplace(place.thread, place.reg, place.bit);
        values(row, col) = random.word() & static_cast<uint32_t>(low_mask(fragment.element_bits));
      }
    }
    REQUIRE(places.size() == static_cast<size_t>(fragment.rows) * static_cast<size_t>(fragment.cols));
    std::vector<uint32_t> registers(static_cast<size_t>(fragment.words()));
    scatter(values, fragment, registers, "D");
    REQUIRE(gather(registers, fragment, format, "D") == values);
    REQUIRE(gather_transposed(registers, fragment, format, "D") == transposed(values));
    std::vector<uint32_t> again(registers.size(), 0xA5A5A5A5);
    scatter_transposed(transposed(values), fragment, again, "D");
    REQUIRE(again == registers);
  }
}

TEST_CASE("a wrong number of registers is refused") {
  std::vector<uint32_t> registers(127);
  CHECK_THROWS_AS(gather(registers, wgmma_d_fragment(Format::f32, 8), Format::f32, "c_regs"), Error);
}

TEST_CASE("the CuTe notation of a fragment says where every element is") {
  for (const Fragment& fragment :
       {wgmma_d_fragment(Format::f32, 32), wgmma_d_fragment(Format::f16, 16), wgmma_a_fragment(Format::f16, 16),
        wgmma_a_fragment(Format::tf32, 8), wgmma_a_fragment(Format::e4m3, 32), mma_a_fragment(8, 32),
        mma_a_fragment(4, 64), mma_b_fragment(8, 32), mma_b_fragment(4, 128), mma_d_fragment()}) {
    const CuteLayout cute = parse_cute(print_cute(fragment), 8);
    INFO(print_cute(fragment));
    REQUIRE(cute.rows == fragment.threads);
    REQUIRE(cute.cols == fragment.registers() * fragment.elements_per_register());
    for (int thread = 0; thread < fragment.threads; ++thread) {
      for (int value = 0; value < cute.cols; ++value) {
        const int per_register = fragment.elements_per_register();
        const MatrixPlace place =
            element_at(fragment, thread, value / per_register, value % per_register * fragment.element_bits);
        REQUIRE(offset_of(cute.layout, thread, value) == place.row + int64_t{fragment.rows} * place.col);
      }
    }
  }
  CHECK(print_cute(wgmma_d_fragment(Format::f32, 16)) ==
        "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))");  // as CUTLASS has it
}
