#include "bitmma/descriptor/instruction_descriptor.hpp"

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/form.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE(
    "every instruction descriptor that CUTLASS makes decodes to its inputs and encodes back, or is refused with "
    "cause") {
  int refused = 0;
  const int64_t descriptors = test::for_each_csv_row(test::oracle_path("umma_idesc.csv"), [&](const test::CsvRow& row) {
    const auto type = [&](const char* name) { return *format_named(row.at(name).substr(0, row.at(name).find('_'))); };
    const auto flag = [&](const char* name, const char* set = "1") { return row.at(name) == set; };
    const MmaKind kind = *mma_kind_named(row.at("kind"));
    const auto word = static_cast<uint32_t>(std::stoul(row.at("desc"), nullptr, 16));
    const InstructionDescriptor expected{.kind = kind,
                                         .m = std::stoi(row.at("M")),
                                         .n = std::stoi(row.at("N")),
                                         .d = type("c"),
                                         .a = type("a"),
                                         .b = type("b"),
                                         .sparse = flag("sparse"),
                                         .sparsity_selector = std::stoi(row.at("sparse_id2")),
                                         .saturate = flag("saturate"),
                                         .negate_a = flag("a_negate"),
                                         .negate_b = flag("b_negate"),
                                         .transpose_a = flag("a_major", "MN"),
                                         .transpose_b = flag("b_major", "MN"),
                                         .max_shift_code = std::stoi(row.at("max_shift"))};
    INFO(row.at("kind") << " " << row.at("desc"));
    // CUTLASS only encodes; these values no instruction takes.
    const bool legal = (info(kind).has_saturate || !expected.saturate) &&
                       (info(kind).has_negate || (!expected.negate_a && !expected.negate_b)) &&
                       expected.sparsity_selector < info(kind).sparsity_selectors;
    if (!legal) {
      ++refused;
      REQUIRE_THROWS_AS(decode_instruction_descriptor(kind, word), Error);
      return;
    }
    REQUIRE(decode_instruction_descriptor(kind, word) == expected);
    REQUIRE(encode(expected) == word);
  });
  CHECK(descriptors == 1419);
  CHECK(refused < 200);
}

TEST_CASE("whatever decodes encodes back to the same word, in every kind; everything else is refused",
          "[rule:instruction-descriptor]") {
  RandomStream random(21, 0);
  for (const MmaKindInfo& kind : mma_kinds) {
    int decoded = 0;
    uint64_t fields = 0;
    for (const InstructionDescriptorField& field : instruction_descriptor_fields(kind.id)) fields |= field.bits.mask();
    for (int i = 0; i < 200000; ++i) {
      uint32_t word = random.word() & random.word();
      if (i % 2) word &= static_cast<uint32_t>(fields);
      try {
        const InstructionDescriptor descriptor = decode_instruction_descriptor(kind.id, word);
        ++decoded;
        REQUIRE(encode(descriptor) == word);
      } catch (const Error& error) {
        REQUIRE_THAT(error.what(), ContainsSubstring("Table " + std::to_string(kind.table)));
      }
    }
    INFO(kind.name);
    CHECK(decoded > 40);
    CHECK(decoded < 100000);
  }
}

TEST_CASE("the type code of e2m1 is 5 in f8f6f4 and mxf8f6f4, and 1 in the mxf4 kinds") {
  const auto e2m1 = [](MmaKind kind) {
    return encode(InstructionDescriptor{.kind = kind, .m = 128, .n = 8, .a = Format::e2m1, .b = Format::e2m1}) >> 7 & 7;
  };
  CHECK(e2m1(MmaKind::f8f6f4) == 5);
  CHECK(e2m1(MmaKind::mxf8f6f4) == 5);
  CHECK(e2m1(MmaKind::mxf4) == 1);
  CHECK(e2m1(MmaKind::mxf4nvf4) == 1);
}

TEST_CASE("every bad value of an instruction descriptor is named") {
  const auto message = [](MmaKind kind, uint32_t word) -> std::string {
    try {
      decode_instruction_descriptor(kind, word);
    } catch (const Error& error) {
      return error.what();
    }
    return "legal";
  };
  const uint32_t good = 0x08100010;  // f16, M = 128, N = 64
  CHECK(message(MmaKind::f16, good) == "legal");
  CHECK_THAT(message(MmaKind::f16, good | 1u << 6), ContainsSubstring("reserved bits = 0x00000040"));
  CHECK_THAT(message(MmaKind::f16, good | 1u << 3), ContainsSubstring("saturate = 1"));
  CHECK_THAT(message(MmaKind::f16, good | 2u << 4), ContainsSubstring("d_type = 3: legal is f16 0, f32 1"));
  CHECK_THAT(message(MmaKind::f16, good | 2u << 7), ContainsSubstring("a_type = 2: legal is f16 0, bf16 1"));
  CHECK_THAT(message(MmaKind::f16, good | 1u << 7), ContainsSubstring("types = bf16 x f16"));
  CHECK_THAT(message(MmaKind::f16, (good & ~(63u << 17)) | 0), ContainsSubstring("n = 0"));
  CHECK_THAT(message(MmaKind::f16, good | 63u << 17), ContainsSubstring("n = 504"));
  CHECK_THAT(message(MmaKind::f16, (good & ~(31u << 24)) | 3u << 24), ContainsSubstring("m = 48"));
  CHECK_THAT(message(MmaKind::i8, 0x08100020 | 1u << 13), ContainsSubstring("negate = 1"));
  CHECK_THAT(message(MmaKind::f8f6f4, 0x08100010 | 1), ContainsSubstring("sparsity_selector = 1: legal is 0"));
  CHECK_THAT(message(MmaKind::mxf4, 0x08100080 | 1u << 10), ContainsSubstring("scale_type = ue4m3"));
  CHECK_THAT(message(MmaKind::mxf4nvf4, 0x08100000 | 5u << 7 | 1u << 10),
             ContainsSubstring("a_type = 5: legal is e2m1 1"));
  CHECK_THAT(message(MmaKind::mxf4nvf4, 0x08100080 | 1u << 10 | 1u << 4), ContainsSubstring("scale_b_id = 1"));
  CHECK(warnings(decode_instruction_descriptor(MmaKind::f16, good | 1u << 30)).at(0).field == "max_shift");
  CHECK(warnings(decode_instruction_descriptor(MmaKind::f16, good | 2)).at(0).field == "sparsity_selector");
}

TEST_CASE("a scale type that the kind does not have is refused, not written as another one") {
  for (const FormatInfo& format : formats) {
    const auto encoded = [&](MmaKind kind, Format input) {
      return encode(InstructionDescriptor{.kind = kind, .a = input, .b = input, .scale_type = format.id});
    };
    INFO(format.name);
    const bool is_power = format.id == Format::ue8m0, is_scale = is_power || format.id == Format::ue4m3;
    if (is_scale) CHECK((encoded(MmaKind::mxf4nvf4, Format::e2m1) >> 23 & 1) == (is_power ? 1 : 0));
    else CHECK_THROWS_WITH(encoded(MmaKind::mxf4nvf4, Format::e2m1), ContainsSubstring("scale_type"));
    for (const auto& [kind, input] :
         {std::pair(MmaKind::mxf4, Format::e2m1), std::pair(MmaKind::mxf8f6f4, Format::e4m3)}) {
      if (is_power) CHECK_NOTHROW(encoded(kind, input));
      else CHECK_THROWS_WITH(encoded(kind, input), ContainsSubstring("scale_type"));
    }
  }
}

TEST_CASE("a D that the descriptor cannot say is refused: block-scaled kinds have f32 alone") {
  for (const FormatInfo& format : formats) {
    INFO(format.name);
    const InstructionDescriptor descriptor{.kind = MmaKind::mxf4, .d = format.id, .a = Format::e2m1, .b = Format::e2m1};
    if (format.id == Format::f32) CHECK_NOTHROW(encode(descriptor));
    else CHECK_THROWS_WITH(encode(descriptor), ContainsSubstring("d_type = " + std::string(format.name)));
  }
}

TEST_CASE("K = 96 is a bit of the mxf4 kinds, and of no other") {
  for (const MmaKindInfo& kind : mma_kinds) {
    const Format input = natural_input(kind.id);
    InstructionDescriptor descriptor{
        .kind = kind.id, .d = kind.id == MmaKind::i8 ? Format::s32 : Format::f32, .a = input, .b = input};
    const uint32_t natural = encode(descriptor);
    descriptor.k_96 = true;
    INFO(kind.name);
    if (kind.table == 44) {
      CHECK(encode(descriptor) == (natural | uint32_t{1} << 31));
      CHECK(decode_instruction_descriptor(kind.id, encode(descriptor)) == descriptor);
    } else {
      CHECK_THROWS_AS(encode(descriptor), Error);
    }
  }
}

TEST_CASE("a descriptor takes the ids of scales that some size of scale vector takes, with and without K = 96") {
  int legal = 0;
  for (const MmaKind kind : {MmaKind::mxf8f6f4, MmaKind::mxf4, MmaKind::mxf4nvf4}) {
    for (const bool k_96 : {false, true}) {
      for (const Format type : {Format::ue8m0, Format::ue4m3}) {
        if ((k_96 && kind == MmaKind::mxf8f6f4) || (type == Format::ue4m3 && kind != MmaKind::mxf4nvf4)) continue;
        for (int id = 0; id < 4; ++id) {
          INFO(info(kind).name << " K = 96: " << k_96 << " " << info(type).name << " id " << id);
          bool by_mnemonic = false;
          for (const ScaleVec size :
               {ScaleVec::unwritten, ScaleVec::x1, ScaleVec::x2, ScaleVec::x4, ScaleVec::block16, ScaleVec::block32}) {
            Tcgen05Mma one{.kind = kind, .scale_vec = size, .scale_type = type, .scale_a_id = id, .scale_b_id = id};
            if (k_96) one.k = 96;
            by_mnemonic |= violations_of(one, k_96 ? Target::sm_103a : Target::sm_100a).empty();
          }
          const InstructionDescriptor descriptor{.kind = kind,
                                                 .a = natural_input(kind),
                                                 .b = natural_input(kind),
                                                 .scale_type = type,
                                                 .scale_a_id = id,
                                                 .scale_b_id = id,
                                                 .k_96 = k_96};
          bool by_descriptor = true;
          try {
            (void)encode(descriptor);
          } catch (const Error&) {
            by_descriptor = false;
          }
          CHECK(by_descriptor == by_mnemonic);
          legal += by_descriptor;
        }
      }
    }
  }
  CHECK(legal == 4 + 2 + 4 + 2 + 1 + 4 + 2);
}
