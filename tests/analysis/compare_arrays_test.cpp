#include "bitmma/analysis/compare_arrays.hpp"

#include <cstring>

#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

template <typename Number>
TensorFile array_of(const std::string& path, const std::string& dtype, const std::vector<Number>& numbers) {
  std::vector<uint8_t> bytes(numbers.size() * sizeof(Number));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  TensorFile file{.path = path};
  file.set(Tensor::from_bytes("x", dtype, {2, static_cast<int64_t>(numbers.size() / 2)}, std::move(bytes)));
  return file;
}

}  // namespace

TEST_CASE("two arrays are compared bit for bit, and the largest distance is counted in steps of their type") {
  const auto expected = array_of<uint32_t>("x", "F32", {0x3F800000, 0x00000001, 0x7FC00000, 0x80000000});
  const ComparedArrays same = compare_arrays(expected, expected);
  CHECK(same.mismatches == 0);
  CHECK(same.outputs == 4);
  const ComparedArrays other =
      compare_arrays(expected, array_of<uint32_t>("y", "F32", {0x3F800001, 0x80000002, 0x7FC00001, 0x00000000}));
  CHECK(other.mismatches == 4);
  CHECK(other.worst_ulp == 3);  // a NaN has no distance, and the zeros are 0 apart
  CHECK(to_json(*other.report.find("first")) == "[0,0]");
  CHECK(to_json(*other.report.find("worst")) == "[0,1]");
  const ComparedArrays far = compare_arrays(array_of<uint64_t>("x", "F64", {0xFFEFFFFFFFFFFFFF, 0}),
                                            array_of<uint64_t>("y", "F64", {0x7FEFFFFFFFFFFFFF, 0}));
  CHECK(far.worst_ulp == 0xFFDFFFFFFFFFFFFE);
  const ComparedArrays integers =
      compare_arrays(array_of<int8_t>("x", "I8", {-128, 5, 0, -1}), array_of<int8_t>("y", "I8", {127, 5, 0, 1}));
  CHECK(integers.mismatches == 2);
  CHECK(integers.worst_ulp == 255);
  const ComparedArrays raw =
      compare_arrays(array_of<uint16_t>("x", "U16", {1, 2}), array_of<uint16_t>("y", "U16", {1, 3}));
  CHECK(raw.mismatches == 1);
}

TEST_CASE("arrays of other types or shapes, and files of cases, are not two arrays to compare") {
  const auto halves = array_of<uint16_t>("x", "F16", {1, 2});
  const auto refused = [&](const TensorFile& other) {
    const auto violation = test::violation_of([&] { (void)compare_arrays(halves, other); });
    REQUIRE(violation);
    return *violation;
  };
  CHECK(refused(array_of<uint16_t>("y", "BF16", {1, 2})).code == ViolationCode::contradiction);
  CHECK(refused(array_of<uint16_t>("y", "F16", {1, 2, 3, 4})).field == "y");
  CHECK(are_arrays(halves, halves));
  TensorFile of_case = halves;
  of_case.set_metadata("instruction", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16");
  CHECK_FALSE(are_arrays(halves, of_case));
  of_case.set(Tensor::from_bytes("y", "U8", {1}, {0}));
  CHECK_FALSE(are_arrays(of_case, halves));
}
