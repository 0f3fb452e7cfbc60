#include "bitmma/descriptor/instruction_descriptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/form.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;

namespace {

template <typename Body>
std::vector<Violation> violations_in(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.violations();
  }
  return {};
}

}  // namespace

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

TEST_CASE("whatever decodes encodes back to the same word, in every kind, and everything else is refused",
          "[rule:instruction-descriptor][long]") {
  RandomStream random(21, 0);
  for (const MmaKindInfo& kind : mma_kinds) {
    int decoded = 0;
    uint64_t fields = 0;
    std::optional<uint32_t> legal;  // the last one: its neighbours reach kinds of which few random words are legal
    for (const InstructionDescriptorField& field : instruction_descriptor_fields(kind.id)) fields |= field.bits.mask();
    for (int i = 0; i < 200000; ++i) {
      uint32_t word = random.word() & random.word();
      if (i % 2) word &= static_cast<uint32_t>(fields);
      if (i % 4 == 3 && legal) word = *legal ^ 1u << random.word() % 32;
      try {
        const InstructionDescriptor descriptor = decode_instruction_descriptor(kind.id, word);
        ++decoded;
        legal = word;
        REQUIRE(encode(descriptor) == word);
      } catch (const Error& error) {
        REQUIRE_THAT(error.violations().front().source, ContainsSubstring("Table " + std::to_string(kind.table)));
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
  const auto refusal = [](MmaKind kind, uint32_t word) {
    return test::refusal_of([&] { decode_instruction_descriptor(kind, word); });
  };
  const uint32_t good = 0x08100010;  // f16, M = 128, N = 64
  CHECK(refusal(MmaKind::f16, good).empty());
  CHECK_THAT(refusal(MmaKind::f16, good | 1u << 6), test::refused(illegal_value, "reserved bits"));
  CHECK_THAT(refusal(MmaKind::f16, good | 1u << 3), test::refused(illegal_value, "saturate"));
  CHECK_THAT(refusal(MmaKind::f16, good | 2u << 4), test::refused(illegal_value, "d_type"));
  CHECK_THAT(refusal(MmaKind::f16, good | 2u << 7), test::refused(illegal_value, "a_type"));
  CHECK_THAT(refusal(MmaKind::f16, good | 1u << 7), test::refused(illegal_value, "types"));
  CHECK_THAT(refusal(MmaKind::f16, (good & ~(63u << 17)) | 0), test::refused(illegal_value, "n"));
  CHECK_THAT(refusal(MmaKind::f16, good | 63u << 17), test::refused(illegal_value, "n"));
  CHECK_THAT(refusal(MmaKind::f16, (good & ~(31u << 24)) | 3u << 24), test::refused(illegal_value, "m"));
  CHECK_THAT(refusal(MmaKind::i8, 0x08100020 | 1u << 13), test::refused(illegal_value, "negate"));
  CHECK_THAT(refusal(MmaKind::f8f6f4, 0x08100010 | 1), test::refused(illegal_value, "sparsity_selector"));
  CHECK_THAT(refusal(MmaKind::mxf4, 0x08100080 | 1u << 10), test::refused(illegal_value, "scale_type"));
  CHECK_THAT(refusal(MmaKind::mxf4nvf4, 0x08100000 | 5u << 7 | 1u << 10), test::refused(illegal_value, "a_type"));
  CHECK_THAT(refusal(MmaKind::mxf4nvf4, 0x08100080 | 1u << 10 | 1u << 4), test::refused(illegal_value, "scale_b_id"));
  CHECK(warnings(decode_instruction_descriptor(MmaKind::f16, good | 1u << 30)).at(0).field == "max_shift");
  CHECK(warnings(decode_instruction_descriptor(MmaKind::f16, good | 2)).at(0).field == "sparsity_selector");
}

TEST_CASE("a scale type that the kind does not have is refused, not written as another one") {
  for (const FormatInfo& format : formats) {
    const auto encoded = [&](MmaKind kind, Format input) {
      return encode(InstructionDescriptor{.kind = kind, .a = input, .b = input, .scale_type = format.id});
    };
    INFO(format.name);
    const bool is_power = format.id == Format::ue8m0, is_wide = format.id == Format::ue5m3,
               is_scale = is_power || is_wide || format.id == Format::ue4m3;
    if (is_scale) CHECK((encoded(MmaKind::mxf4nvf4, Format::e2m1) >> 23 & 3) == (is_wide ? 2 : is_power ? 1 : 0));
    else
      CHECK_THROWS_MATCHES(encoded(MmaKind::mxf4nvf4, Format::e2m1), Error, test::refused(illegal_value, "scale_type"));
    for (const auto& [kind, input] :
         {std::pair(MmaKind::mxf4, Format::e2m1), std::pair(MmaKind::mxf8f6f4, Format::e4m3)}) {
      if (is_power) CHECK_NOTHROW(encoded(kind, input));
      else CHECK_THROWS_MATCHES(encoded(kind, input), Error, test::refused(illegal_value, "scale_type"));
    }
  }
}

TEST_CASE("a D that the descriptor cannot say is refused: block-scaled kinds have f32 alone") {
  for (const FormatInfo& format : formats) {
    INFO(format.name);
    const InstructionDescriptor descriptor{.kind = MmaKind::mxf4, .d = format.id, .a = Format::e2m1, .b = Format::e2m1};
    if (format.id == Format::f32) CHECK_NOTHROW(encode(descriptor));
    else CHECK_THROWS_MATCHES(encode(descriptor), Error, test::refused(illegal_value, "d_type"));
  }
}

TEST_CASE("the K bits say what Table 48 of ISA 9.4 lists of each kind, and no other kind has them") {
  int longer = 0;
  for (const MmaKindInfo& kind : mma_kinds) {
    const Format input = natural_input(kind.id);
    for (const bool sparse : {false, true}) {
      InstructionDescriptor descriptor{
          .kind = kind.id, .d = natural_output(kind.id), .a = input, .b = input, .sparse = sparse};
      const uint32_t natural = encode(descriptor);
      for (const int code : {1, 2, 3}) {
        descriptor.k_code = code;
        const bool is_192 = info(kind.id).is_fp4 && sparse && code == 1;
        descriptor.sparsity_version = is_192;  // its metadata is of single elements alone
        INFO(kind.name << (sparse ? " sparse" : "") << " code " << code);
        const bool is_f8 = kind.id == MmaKind::f8f6f4 || kind.id == MmaKind::mxf8f6f4;
        if (code > (kind.table != 44 ? int{is_f8} : sparse ? 1 : 2)) {
          CHECK_THROWS_MATCHES(encode(descriptor), Error, test::refused(illegal_value, "k"));
          continue;
        }
        const uint32_t bit = kind.table == 42 ? 29 : code == 2 ? 3 : 31;
        CHECK(encode(descriptor) == (natural | uint32_t{1} << bit | uint32_t{is_192} << 12));
        CHECK(decode_instruction_descriptor(kind.id, encode(descriptor)) == descriptor);
        CHECK(k_code_of(kind.id, sparse, descriptor.k()) == code);
        CHECK(descriptor.k() == (is_f8 ? 64 : code == 1 ? 96 : 128) * (sparse ? 2 : 1));
        ++longer;
      }
    }
  }
  CHECK(longer == 2 * 2 + 2 * 3);
}

TEST_CASE("a descriptor takes the ids of scales that some size of scale vector takes on some target, for every K") {
  int legal = 0;
  for (const MmaKind kind : {MmaKind::mxf8f6f4, MmaKind::mxf4, MmaKind::mxf4nvf4}) {
    for (const int k_code : {0, 1, 2}) {
      for (const Format type : {Format::ue8m0, Format::ue4m3, Format::ue5m3}) {
        const int k = k_of_code(kind, false, k_code);
        if (k == 0 || (type != Format::ue8m0 && kind != MmaKind::mxf4nvf4)) continue;
        for (int id = 0; id < 4; ++id) {
          INFO(info(kind).name << " K = " << k << " " << info(type).name << " id " << id);
          bool by_mnemonic = false;
          for (const ScaleVec size :
               {ScaleVec::unwritten, ScaleVec::x1, ScaleVec::x2, ScaleVec::x4, ScaleVec::block16, ScaleVec::block32}) {
            const Tcgen05Mma instruction{
                .kind = kind, .k = k, .scale_vec = size, .scale_type = type, .scale_a_id = id, .scale_b_id = id};
            by_mnemonic |= violations_of(instruction, default_target(instruction)).empty();
          }
          const InstructionDescriptor descriptor{.kind = kind,
                                                 .a = natural_input(kind),
                                                 .b = natural_input(kind),
                                                 .scale_type = type,
                                                 .scale_a_id = id,
                                                 .scale_b_id = id,
                                                 .k_code = k_code};
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
  CHECK(legal == 4 + 2 + (2 + 4 + 1) + 3 * (2 + 4 + 1));
}

TEST_CASE("instruction descriptors that NVIDIA's compiler writes for sm_107a decode to what they are for",
          "[rule:instruction-descriptor]") {
  using enum Format;
  constexpr auto fp8 = MmaKind::f8f6f4, scaled = MmaKind::mxf8f6f4, nvf4 = MmaKind::mxf4nvf4;
  struct Row {
    uint32_t word;
    MmaKind kind;
    int m, n, k;
    Format a, b;
    Format scale_type = ue8m0;
    bool sparse = false;
    int version = 0, ids = 0;
  };
  // CUTLASS's CuTe DSL 4.8.1; that of ti16 follows from Table 51.
  for (const Row& row : {
           Row{0x08100410, fp8, 128, 64, 32, e4m3, e5m2},
           Row{0x28100410, fp8, 128, 64, 64, e4m3, e5m2},
           Row{0x24100010, fp8, 64, 64, 64, e4m3, e4m3},
           Row{0x30100010, fp8, 256, 64, 64, e4m3, e4m3},
           Row{0x08100014, fp8, 128, 64, 64, e4m3, e4m3, ue8m0, true},
           Row{0x28100014, fp8, 128, 64, 128, e4m3, e4m3, ue8m0, true},
           Row{0x08900000, scaled, 128, 64, 32, e4m3, e4m3},
           Row{0x88900000, scaled, 128, 64, 64, e4m3, e4m3},
           Row{0xC8900020, scaled, 128, 64, 64, e4m3, e4m3, ue8m0, false, 0, 2},
           Row{0x88900004, scaled, 128, 64, 128, e4m3, e4m3, ue8m0, true},
           Row{0x09100488, nvf4, 128, 64, 128, e2m1, e2m1, ue5m3},
           Row{0x08100488, nvf4, 128, 64, 128, e2m1, e2m1, ue4m3},
           Row{0x08900488, nvf4, 128, 64, 128, e2m1, e2m1, ue8m0},
           Row{0x11400488, nvf4, 256, 256, 128, e2m1, e2m1, ue5m3},
           Row{0x08100480, nvf4, 128, 64, 64, e2m1, e2m1, ue4m3},
           Row{0x88900480, nvf4, 128, 64, 96, e2m1, e2m1, ue8m0},
           Row{0x08101484, nvf4, 128, 64, 128, e2m1, e2m1, ue4m3, true, 1},
           Row{0x88101484, nvf4, 128, 64, 192, e2m1, e2m1, ue4m3, true, 1},
           Row{0x91101484, nvf4, 256, 64, 192, e2m1, e2m1, ue5m3, true, 1},
           Row{0x08100DA0, MmaKind::ti16, 128, 64, 16, s1z4m11, s1z4m11},
       }) {
    INFO(fmt::format("{:#010x}", row.word));
    const InstructionDescriptor decoded = decode_instruction_descriptor(row.kind, row.word);
    CHECK(decoded == InstructionDescriptor{.kind = row.kind,
                                           .m = row.m,
                                           .n = row.n,
                                           .d = natural_output(row.kind),
                                           .a = row.a,
                                           .b = row.b,
                                           .sparse = row.sparse,
                                           .scale_type = row.scale_type,
                                           .scale_a_id = row.ids,
                                           .scale_b_id = row.ids,
                                           .k_code = k_code_of(row.kind, row.sparse, row.k),
                                           .sparsity_version = row.version});
    CHECK(decoded.k() == row.k);
    CHECK(encode(decoded) == row.word);
    // A 64-row f8f6f4 of twice the K is refused: Table 48 of ISA 9.4 has M = 128 with one CTA.
    Tcgen05Mma mma{.kind = row.kind, .sparse = row.sparse};
    mma.cta_group = row.m == 256 ? 2 : 1;
    if (row.kind == nvf4) mma.scale_vec = row.scale_type == ue8m0 ? ScaleVec::block32 : ScaleVec::block16;
    mma = with_idesc(mma, row.word);
    CHECK(idesc_of(mma) == row.word);
    CHECK(violations_of(mma, Target::sm_107a).empty() == (row.m != 64));
  }
}

TEST_CASE(
    "kinds without versions of sparse metadata have version 0 alone, and what is legal has an instruction descriptor") {
  for (const bool sparse : {false, true}) {
    Tcgen05Mma instruction{
        .kind = MmaKind::mxf8f6f4, .a = Format::e2m1, .b = Format::e2m1, .sparse = sparse, .k = sparse ? 64 : 32};
    REQUIRE(violations_of(instruction, Target::sm_100a).empty());
    CHECK_NOTHROW(idesc_of(instruction));
    instruction.sparsity_version = 1;
    const std::vector<Violation> refused = violations_of(instruction, Target::sm_100a);
    REQUIRE_FALSE(refused.empty());
    CHECK(refused.front().field == "sparsity_version");
  }
}

TEST_CASE("a sparse K = 192 is of version 1 alone, whoever asks: no target has it with version 0") {
  for (const MmaKind kind : {MmaKind::mxf4, MmaKind::mxf4nvf4}) {
    const InstructionDescriptor descriptor{
        .kind = kind, .a = Format::e2m1, .b = Format::e2m1, .sparse = true, .k_code = 1, .sparsity_version = 1};
    const uint32_t word = encode(descriptor);
    CHECK(decode_instruction_descriptor(kind, word) == descriptor);
    for (const auto& refused : {violations_in([&] { decode_instruction_descriptor(kind, word & ~(1u << 12)); }),
                                violations_of(Tcgen05Mma{.kind = kind, .sparse = true, .k = 192}, Target::sm_107a)}) {
      REQUIRE_FALSE(refused.empty());
      CHECK(refused.front().field == "sparsity_version");
      CHECK_FALSE(refused.front().fix.empty());
    }
  }
}

TEST_CASE("without a target, bits that only sm_107 has are warned about, each by its field") {
  const std::tuple<MmaKind, uint32_t, const char*> words[]{{MmaKind::mxf4nvf4, 0x08020488, "k_high"},
                                                           {MmaKind::mxf4nvf4, 0x08021480, "sparsity_version"},
                                                           {MmaKind::mxf4nvf4, 0x09020480, "scale_type"},
                                                           {MmaKind::f8f6f4, 0x08100010 | 1u << 29, "k"},
                                                           {MmaKind::mxf8f6f4, 0x08800000 | 1u << 31 | 1u << 19, "k"}};
  for (const auto& [kind, word, field] : words) {
    INFO(fmt::format("{:#x} {}", word, field));
    const InstructionDescriptor descriptor = decode_instruction_descriptor(kind, word);
    const auto names = [&, name = std::string(field)](const std::vector<Violation>& violations) {
      return std::ranges::find(violations, name, &Violation::field) != violations.end();
    };
    CHECK(names(warnings(descriptor)));
    CHECK(warnings(descriptor, Target::sm_107a).size() + 1 == warnings(descriptor).size());
  }
  CHECK(warnings(decode_instruction_descriptor(MmaKind::mxf4nvf4, 0x08020480)).empty());
}

TEST_CASE("a code without a type is shown as the number that it is, and one id is refused once") {
  const auto type = violations_in([] { decode_instruction_descriptor(MmaKind::mxf4, 0x09820480); });
  REQUIRE(type.size() == 1);
  CHECK((type.front().field == "scale_type" && type.front().seen == "3"));
  const auto id = violations_in([] {
    (void)encode(
        InstructionDescriptor{.kind = MmaKind::mxf4nvf4, .a = Format::e2m1, .b = Format::e2m1, .scale_a_id = 5});
  });
  REQUIRE(id.size() == 1);
  CHECK((id.front().field == "scale_a_id" && id.front().seen == "5"));
  const auto k = violations_in([] { (void)require_k_code(MmaKind::mxf4, true, 96); });
  REQUIRE(k.size() == 1);
  CHECK(k.front().legal == std::vector<std::string>{"128", "192"});
}

TEST_CASE("N that CUTLASS asserts against gets a word: M = 128 with steps of 8") {
  for (const int n : {8, 16, 24, 72, 80}) {
    const InstructionDescriptor descriptor{.m = 128, .n = n};
    CHECK(warnings(descriptor).size() == (n % 16 != 0 ? 1 : 0));
    CHECK(warnings(InstructionDescriptor{.m = 64, .n = n}).empty());
  }
}

TEST_CASE("what no source settles of the descriptors of sm_107a is refused by name") {
  const auto refusal = [](MmaKind kind, uint32_t word) {
    return test::refusal_of([&] { decode_instruction_descriptor(kind, word); });
  };
  CHECK_THAT(refusal(MmaKind::mxf4nvf4, 0x09100488 | 1u << 26), test::refused(illegal_value, "wide_scale_a"));
  CHECK_THAT(refusal(MmaKind::mxf8f6f4, 0x88900000 | 1u << 26), test::refused(illegal_value, "wide_scale_a"));
  CHECK_THAT(refusal(MmaKind::mxf4nvf4, 0x09900488), test::refused(illegal_value, "scale_type"));
  CHECK_THAT(refusal(MmaKind::ti16, 0x08100DA0 | 1u << 15), test::refused(illegal_value, "transpose"));
  CHECK_THAT(refusal(MmaKind::ti16, 0x08100DA0 | 1u << 3), test::refused(illegal_value, "saturate"));
  CHECK_THAT(refusal(MmaKind::f16, 0x08100010 | 1u << 29), test::refused(illegal_value, "k"));
  CHECK_THAT(refusal(MmaKind::mxf4, 0x88900488), test::refused(illegal_value, "k"));
}
