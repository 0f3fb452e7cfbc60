#include "bitmma/descriptor/smem_descriptor.hpp"

#include "bitmma/core/random.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

TEST_CASE("decode and encode are inverse for random words, reserved bits included") {
  RandomStream random(1, 0);
  for (const Target target : {Target::sm_90a, Target::sm_100a}) {
    int decoded = 0;
    for (int i = 0; i < 20000; ++i) {
      const uint64_t word = random.word64();
      if (!swizzle_of_code(target, static_cast<int>(word >> (target == Target::sm_90a ? 62 : 61)))) {
        REQUIRE_THROWS_MATCHES(decode_smem_descriptor(target, word), Error,
                               refused(illegal_value, fmt::format("swizzle of descriptor {:#018x}", word)));
        continue;
      }
      REQUIRE(encode(decode_smem_descriptor(target, word)) == word);
      ++decoded;
    }
    CHECK((target == Target::sm_90a ? decoded == 20000 : decoded > 10000));
  }
}

TEST_CASE("every descriptor that CUTLASS makes for Hopper decodes to its fields and encodes back",
          "[rule:smem-descriptor][rule:canonical]") {
  const int64_t descriptors = test::for_each_csv_row(test::oracle_path("gmma_desc.csv"), [](const test::CsvRow& row) {
    const uint64_t word = std::stoull(row.at("desc"), nullptr, 16);
    const SmemDescriptor descriptor = decode_smem_descriptor(Target::sm_90a, word);
    REQUIRE(descriptor.start_address_bytes == 16 * std::stoll(row.at("start")));
    REQUIRE(descriptor.strides.leading_dim_byte_offset == 16 * std::stoll(row.at("lbo")));
    REQUIRE(descriptor.strides.stride_dim_byte_offset == 16 * std::stoll(row.at("sbo")));
    REQUIRE(descriptor.base_offset == std::stoi(row.at("base_offset")));
    REQUIRE(info(descriptor.swizzle).code_sm_90a == std::stoi(row.at("layout_type")));
    REQUIRE(descriptor.reserved == 0);
    REQUIRE(encode(descriptor) == word);
  });
  CHECK(descriptors == 12246);
}

TEST_CASE("every descriptor that CUTLASS makes for Blackwell decodes to its fields and encodes back",
          "[rule:smem-descriptor]") {
  const int64_t descriptors = test::for_each_csv_row(test::oracle_path("umma_desc.csv"), [](const test::CsvRow& row) {
    const auto number = [&](const char* name) { return std::stoll(row.at(name)); };
    const uint64_t word = std::stoull(row.at("desc"), nullptr, 16);
    const SmemDescriptor descriptor = decode_smem_descriptor(Target::sm_100a, word);
    REQUIRE(descriptor.start_address_bytes == 16 * number("start"));
    REQUIRE(descriptor.strides == Strides{16 * number("lbo"), 16 * number("sbo")});
    REQUIRE(info(descriptor.swizzle).code_sm_100a == number("layout_type"));
    REQUIRE(encode(descriptor) == word);
    for (const Violation& warning : warnings(descriptor)) REQUIRE(warning.field != "bits 46-48");
  });
  CHECK(descriptors == 17110);
}

TEST_CASE("a descriptor made for tcgen05 has bits 46 to 48 set to 0b001 without asking, and one for wgmma has none") {
  for (const Target target : {Target::sm_100a, Target::sm_103a, Target::sm_101f, Target::sm_110a}) {
    const SmemDescriptor made{.target = target, .strides = {16, 1024}, .swizzle = Swizzle::b128};
    const uint64_t word = encode(made);
    INFO(print(target));
    CHECK(word == 0x4000'4040'0001'0000);
    CHECK((word >> 46 & 0b111) == 0b001);
    CHECK(decode_smem_descriptor(target, word) == made);
    CHECK(warnings(made).empty());
  }
  const SmemDescriptor hopper{.strides = {16, 1024}, .swizzle = Swizzle::b128};
  CHECK(encode(hopper) == 0x4000'0040'0001'0000);
}

TEST_CASE("targets whose instructions have no shared-memory descriptors are refused by name") {
  for (const TargetInfo& row : targets) {
    INFO(row.name);
    if (row.smem_descriptor != SmemDescriptorVersion::none) {
      CHECK_NOTHROW(decode_smem_descriptor(row.id, 0));
      continue;
    }
    const std::string seen = "target = " + std::string(row.name) + ":";
    CHECK_THROWS_MATCHES(decode_smem_descriptor(row.id, 0), Error, refused(unsupported_target, "target"));
    CHECK_THROWS_MATCHES(smem_descriptor_fields(row.id), Error, refused(unsupported_target, "target"));
    CHECK_THROWS_MATCHES(encode(SmemDescriptor{.target = row.id}), Error, refused(unsupported_target, "target"));
    CHECK_THROWS_MATCHES(warnings(SmemDescriptor{.target = row.id}), Error, refused(unsupported_target, "target"));
  }
}

TEST_CASE("encode reports every bad field at once") {
  const SmemDescriptor bad{.target = Target::sm_90a,
                           .start_address_bytes = 8,
                           .strides = {.leading_dim_byte_offset = -16, .stride_dim_byte_offset = 1 << 18},
                           .base_offset = 8,
                           .swizzle = Swizzle::b128_atom32,
                           .leading_dim_absolute = true};
  try {
    encode(bad);
    FAIL("legal?");
  } catch (const Error& error) {
    REQUIRE(error.violations().size() == 6);
    CHECK(error.violations()[0].field == "start_address");
    CHECK(error.violations()[0].seen == "8");
    CHECK(error.violations()[1].field == "leading_dim_byte_offset");
    CHECK(error.violations()[2].field == "stride_dim_byte_offset");
    CHECK(error.violations()[3].field == "base_offset");
    CHECK(error.violations()[4].field == "leading_dim_mode");
    CHECK(error.violations()[5].field == "swizzle");
  }
}

TEST_CASE("what looks wrong is warned about, and what is ordinary is not") {
  const SmemDescriptor good{.strides = {16, 1024}, .swizzle = Swizzle::b128};
  CHECK(warnings(good, Major::k).empty());
  const auto fields = [](SmemDescriptor descriptor, std::optional<Major> major = std::nullopt) {
    std::string names;
    for (const Violation& warning : warnings(descriptor, major)) names += warning.field + ";";
    return names;
  };
  SmemDescriptor d = good;
  d.reserved = uint64_t{1} << 46;
  CHECK(fields(d) == "reserved bits;");
  d = good, d.swizzle = Swizzle::none, d.base_offset = 1;
  CHECK(fields(d) == "base_offset;");
  d = good, d.start_address_bytes = 128;
  CHECK(fields(d) == "start_address;");
  d.base_offset = 1;
  CHECK(fields(d).empty());
  d = good, d.start_address_bytes = 32;  // advancing along K
  CHECK(fields(d).empty());
  d = good, d.strides.leading_dim_byte_offset = 4096;
  CHECK(fields(d, Major::k) == "leading_dim_byte_offset;");
  CHECK(fields(d, Major::mn).empty());
  d = good, d.strides.stride_dim_byte_offset = 64;  // 1024 >> 4, shifted once more by encode
  CHECK(fields(d) == "stride_dim_byte_offset;");
  d = good, d.strides.stride_dim_byte_offset = 16384;  // 1024 bytes, not shifted
  CHECK(fields(d, Major::k) == "stride_dim_byte_offset;");
  CHECK(fields(d, Major::mn).empty());
  d = good, d.target = Target::sm_100a, d.reserved = uint64_t{1} << 46, d.swizzle = Swizzle::b128_atom32;
  CHECK(fields(d, Major::k) == "swizzle;");
  CHECK(fields(d, Major::mn).empty());
  d = good, d.target = Target::sm_100a;
  CHECK(fields(d) == "bits 46-48;");
  d.reserved = uint64_t{1} << 46;
  CHECK(fields(d).empty());
}
