#include "bitmma/memory/layout_descriptor.hpp"

#include "bitmma/memory/smem.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

struct Example {
  const char* cute;
  int element_bits;
  Major major;
  int64_t t, m, k, lbo_encoded, sbo_encoded;
};

/// Where the descriptors find an element: that of the step that holds it.
int64_t byte_by_steps(const LayoutDescriptor& layout, const DescriptorRequest& request, int bits, int64_t row,
                      int64_t col) {
  for (const DescriptorStep& step : layout.steps) {
    if (step.stage != 0 || row < step.row || row >= step.row + request.instruction_rows || col < step.col ||
        col >= step.col + request.instruction_cols)
      continue;
    const SmemMap map({.descriptor = decode_smem_descriptor(request.target, step.descriptor),
                       .major = layout.major,
                       .element_bits = bits,
                       .rows = static_cast<int>(request.instruction_rows),
                       .cols = static_cast<int>(request.instruction_cols)});
    return map.place_of(static_cast<int>(row - step.row), static_cast<int>(col - step.col)).byte;
  }
  return -1;
}

std::vector<Violation> reasons_of(const char* text, int bits, const DescriptorRequest& request = {}) {
  const DescriptorAnswer answer = descriptors_of(parse_cute(text, bits), request);
  return answer.descriptors ? std::vector<Violation>{} : answer.reasons;
}

}  // namespace

TEST_CASE("the five examples of PTX: parameters, strides and encodings follow from the exact layouts",
          "[rule:canonical]") {
  for (const Example& example : {
           Example{"Swizzle<0,4,3> o ((8,2),(4,4)):((4,32),(1,64))", 32, Major::k, 4, 2, 2, 16, 8},
           Example{"Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))", 32, Major::k, 4, 2, 2, 1, 16},
           Example{"Swizzle<0,4,3> o ((8,1,2),(8,2)):((1,8,64),(8,128))", 16, Major::mn, 8, 2, 2, 16, 8},
           Example{"Swizzle<1,4,3> o ((8,2,2),(8,2)):((1,8,128),(16,256))", 16, Major::mn, 8, 2, 2, 16, 32},
           Example{"Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", 16, Major::mn, 8, 2, 2, 32, 64},
       }) {
    INFO(example.cute);
    const DescriptorAnswer answer = descriptors_of(parse_cute(example.cute, example.element_bits));
    REQUIRE(answer.descriptors);
    const LayoutDescriptor& layout = *answer.descriptors;
    CHECK(layout.major == example.major);
    CHECK(std::tuple(layout.t, layout.m, layout.k) == std::tuple(example.t, example.m, example.k));
    CHECK(layout.first.strides.leading_dim_byte_offset / 16 == example.lbo_encoded);
    CHECK(layout.first.strides.stride_dim_byte_offset / 16 == example.sbo_encoded);
    CHECK(layout.steps[0].descriptor == encode(layout.first));
  }
}

TEST_CASE("PTX's second example lies over itself, and the answer says which elements share bytes") {
  const DescriptorAnswer answer = descriptors_of(parse_cute("Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))", 32));
  REQUIRE(answer.descriptors);
  CHECK_FALSE(answer.descriptors->leading_counts);
  REQUIRE(answer.warnings.size() == 1);
  CHECK(answer.warnings[0].seen == "row 0, k 8 and row 1, k 0 share bytes 0x20-0x23");
}

TEST_CASE("every mode, major-ness, width and tile: the descriptors find each element where the layout has it") {
  int layouts = 0;
  for (const SwizzleInfo& mode : swizzles) {
    for (const Major major : {Major::k, Major::mn}) {
      for (const int bits : {1, 4, 8, 16, 32}) {
        for (const int padding : {0, 16}) {
          const int rows = 2 * std::max(64, mode.width_bytes * 8 / bits), instruction_k = 256 / bits;
          const int cols = 2 * std::max(instruction_k, mode.width_bytes * 8 / bits);
          if (int64_t{rows} * cols > 1 << 18) continue;
          const Strides strides = minimal_strides(major, mode, bits, rows, cols, padding);
          const CuteLayout cute{.swizzle = mode,
                                .layout = hardware_layout(major, mode, strides, bits, rows, cols),
                                .rows = rows,
                                .cols = cols,
                                .element_bits = bits,
                                .start_bytes = 2048};
          const CuteLayout read = parse_cute(print(cute), bits);
          const DescriptorRequest request{.target = Target::sm_100a,
                                          .major = major,
                                          .instruction_rows = rows / 2,
                                          .instruction_cols = instruction_k};
          const DescriptorAnswer answer = descriptors_of(read, request);
          INFO(print(cute) << ", " << bits << " bits, " << print(major)
                           << (answer.reasons.empty() ? "" : print(answer.reasons[0])));
          REQUIRE(answer.descriptors);
          const LayoutDescriptor& layout = *answer.descriptors;
          CHECK(layout.steps.size() == static_cast<size_t>(2 * cols / instruction_k));
          const Strides& seen = layout.first.strides;
          if (layout.stride_counts) CHECK(seen.stride_dim_byte_offset == strides.stride_dim_byte_offset);
          if (layout.leading_counts) CHECK(seen.leading_dim_byte_offset == strides.leading_dim_byte_offset);
          for (const int64_t row : {0, 1, 7, 8, rows / 2 - 1, rows / 2, rows - 1}) {
            for (const int64_t col : {0, 1, instruction_k - 1, instruction_k, cols / 2, cols - 1})
              REQUIRE(byte_by_steps(layout, request, bits, row, col) == read.byte_of(row, col, bits));
          }
          ++layouts;
        }
      }
    }
  }
  CHECK(layouts >= 5 * 2 * 4 * 2);  // modes, major-nesses, widths without the largest, paddings
}

TEST_CASE("tiles of CUTLASS: the start goes on by 32 bytes in the atom, then to the next atom and stage") {
  const CuteLayout tile = parse_cute("tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<_128,_128,_2>{})", 8);
  const DescriptorAnswer answer = descriptors_of(tile, {.instruction_rows = 64});
  REQUIRE(answer.descriptors);
  const std::vector<DescriptorStep>& steps = answer.descriptors->steps;
  REQUIRE(steps.size() == 2 * 2 * 8);
  CHECK(steps[0] == DescriptorStep{0, 0, 0, 0x4000004000010000, 0});
  CHECK(steps[3] == DescriptorStep{0, 0, 48, 0x4000004000010006, 96});
  CHECK(steps[4] == DescriptorStep{0, 0, 64, 0x4000004000010400, 0x4000});
  CHECK(steps[8] == DescriptorStep{0, 64, 0, 0x4000004000010200, 0x2000});
  CHECK(steps[16] == DescriptorStep{1, 0, 0, 0x4000004000010800, 0x8000});
}

TEST_CASE("a layout without a descriptor says which mode does not fit") {
  const DescriptorRequest blackwell{.target = Target::sm_100a};
  CHECK_THAT(reasons_of("(8,16):(16,1)", 16), refused(illegal_value, "row 1"));
  CHECK_THAT(reasons_of("(8,16):(2,64)", 16), refused(illegal_value, "k 1"));
  CHECK_THAT(reasons_of("((8,2),(8,2)):((8,60),(1,128))", 16), refused(illegal_value, "row 8"));
  CHECK(reasons_of("((8,3),(8,2)):((8,64),(1,256))", 16).empty());
  CHECK_THAT(reasons_of("((8,2,2),(8,2)):((8,64,1000),(1,256))", 16), refused(illegal_value, "row 16"));
  CHECK_THAT(reasons_of("(8,16):(0,1)", 16), refused(contradiction, "layout"));
  CHECK_THAT(reasons_of("Swizzle<2,5,3> o ((8,8),(64,1)):((64,512),(1,0))", 16), refused(illegal_value, "swizzle"));
  CHECK_THAT(reasons_of("Layout_MN_SW128_32B", 32), refused(illegal_value, "swizzle"));
  CHECK_THAT(reasons_of("(8,8):(8,1)", 16), refused(illegal_value, "columns (K)"));
  CHECK_THAT(reasons_of("Swizzle<3,4,3> o ((8,8),(8,8,2)):((64,512),(1,8,4096))", 16, {.instruction_cols = 48}),
             refused(illegal_value, "columns (K)"));
  CHECK_THAT(reasons_of("Swizzle<3,4,3> o smem_ptr[16b](0x8) o ((8,8),(64,1)):((64,512),(1,0))", 16),
             refused(illegal_value, "start of stage 0, row 0, k 0"));
  CHECK_THAT(reasons_of("tile_to_shape(Layout_K_SW128,(64,64,40))", 16),
             refused(illegal_value, "start of stage 32, row 0, k 0"));
  const DescriptorAnswer answer = descriptors_of(parse_cute("UMMA::Layout_MN_SW128_Atom<tfloat32_t>", 8), blackwell);
  REQUIRE(answer.descriptors);
  CHECK_THAT(print(answer.warnings.at(0)), ContainsSubstring("Swizzle<2,5,2>"));
}

TEST_CASE("requests for descriptors that mean nothing are refused") {
  const CuteLayout cute = parse_cute("Layout_K_SW128", 16);
  CHECK_THROWS_MATCHES(descriptors_of(cute, {.target = Target::sm_80}), Error, refused(unsupported_target, "target"));
  CHECK_THROWS_MATCHES(descriptors_of(cute, {.instruction_rows = -1}), Error,
                       refused(illegal_value, "rows of an instruction"));
  CHECK_THROWS_MATCHES(descriptors_of(cute, {.instruction_cols = 1 << 20}), Error,
                       refused(illegal_value, "K of an instruction"));
  CuteLayout odd = cute;
  odd.element_bits = 6;
  CHECK_THROWS_MATCHES(descriptors_of(odd), Error, refused(illegal_value, "element bits"));
}

TEST_CASE("K = 96 of 4-bit elements: where a row of 48 bytes ends in the next 128 bytes, bit 52 says where they are") {
  const CuteLayout cute = parse_cute("Swizzle<3,4,3> o ((8,16),(256,3)):((256,2048),(1,32768))", 4);
  const DescriptorAnswer answer = descriptors_of(cute, {.target = Target::sm_103a, .instruction_cols = 96});
  REQUIRE(answer.descriptors);
  CHECK(answer.descriptors->first.leading_dim_absolute);
  REQUIRE(answer.descriptors->steps.size() == 8);
  // Counted by hand: byte of (row, k) of packed fp4, 128-byte rows, 16384 bytes from one 256 values of k to the next.
  const auto byte_of = [](int64_t row, int64_t k) {
    const int64_t linear = k / 256 * 16384 + row * 128 + k % 256 / 2;
    return linear ^ (linear >> 7 & 7) << 4;
  };
  for (const DescriptorStep& step : answer.descriptors->steps) {
    const SmemMap map({.descriptor = decode_smem_descriptor(Target::sm_103a, step.descriptor),
                       .element_bits = 4,
                       .rows = 128,
                       .cols = 96});
    for (int row = 0; row < 128; ++row) {
      for (int k = 0; k < 96; ++k) REQUIRE(map.place_of(row, k).byte == byte_of(row, step.col + k));
    }
  }
  CHECK_FALSE(descriptors_of(cute, {.target = Target::sm_100a, .instruction_cols = 96}).descriptors);
  CHECK_FALSE(descriptors_of(parse_cute("((8,16),(256,3)):((256,2048),(1,32768))", 4),
                             {.target = Target::sm_103a, .instruction_cols = 96})
                  .descriptors);
}

TEST_CASE("which swizzles an instruction takes: all K-major ones, and MN-major where it transposes") {
  const std::vector<SwizzleUse> uses = swizzle_uses();
  CHECK(uses.size() == 8 * 2 * swizzles.size());
  for (const SwizzleUse& use : uses) {
    const bool is_hopper = use.instruction == "wgmma", is_wide = use.swizzle == Swizzle::b128_atom32;
    const bool transposes = is_hopper ? use.element_bits == 16 : use.element_bits >= 8;
    bool expected = use.major == Major::k ? !is_wide : transposes && (is_wide ? !is_hopper : true);
    if (!is_hopper && use.major == Major::mn) expected = transposes && (use.element_bits == 32) == is_wide;
    INFO(use.instruction << " " << use.element_bits << " " << print(use.major) << " " << info(use.swizzle).name);
    CHECK(use.is_accepted == expected);
    CHECK(use.reasons.empty() == use.is_accepted);
  }
}
