#include "bitmma/analysis/words.hpp"

#include "support/catch.hpp"

using namespace bitmma;

namespace {

std::vector<std::string> fields_of(const std::vector<Violation>& violations) {
  std::vector<std::string> fields;
  for (const Violation& violation : violations) fields.push_back(violation.field);
  return fields;
}

}  // namespace

TEST_CASE("a descriptor is encoded from its fields, and strides that are used are not silently 0") {
  const EncodedWord encoded = encode_word({.lbo = 16, .sbo = 1024, .swizzle = Swizzle::b128});
  CHECK(encoded.word == 0x4000004000010000);
  CHECK(fields_of(encoded.warnings).empty());
  CHECK(fields_of(encode_word({.swizzle = Swizzle::b128}).warnings) == std::vector<std::string>{"sbo"});
  CHECK(fields_of(encode_word({.start = 16}).warnings) == std::vector<std::string>{"sbo", "lbo"});
}

TEST_CASE("addresses beyond the field are refused, or masked as PTX's formula does") {
  SmemDescriptorRequest request{.start = 0x7f1200040400, .lbo = 16, .sbo = 1024, .swizzle = Swizzle::b128};
  CHECK_THROWS_AS(encode_word(request), Error);
  request.mask_address = true;
  const EncodedWord masked = encode_word(request);
  CHECK(decode_smem_descriptor(Target::sm_90a, masked.word).start_address_bytes == 0x400);
  request.lbo = 24;
  CHECK(fields_of(encode_word(request).warnings) == std::vector<std::string>{"lbo"});
}

TEST_CASE("pasted text is a word, a file or a statement, whatever a debugger prints around it") {
  const PastedText word = read_pasted("$1 = 0x4000004000010000,");
  CHECK(word.kind == PastedText::Kind::word);
  CHECK(word.word.value == 0x4000004000010000);
  CHECK(read_pasted("kernel.ptx").kind == PastedText::Kind::file);
  CHECK(read_pasted("wgmma.fence.sync.aligned;").kind == PastedText::Kind::statement);
  CHECK_THROWS_AS(read_pasted("0x12345678901234567"), Error);
  CHECK_THROWS_AS(read_pasted("Sw<3,4,3> o (8,8):(8,1)"), Error);
}

TEST_CASE("decode describes one text or a list, and compares two words") {
  const PastedText first = read_pasted("0x4000004000010000"), second = read_pasted("0x4000004000010002");
  const DecodeReport pair = decode({.texts = {first, second}});
  const auto& reports = std::get<Report::List>(pair.report.value);
  REQUIRE(reports.size() == 2);
  CHECK(pair.is_understood);
  CHECK(reports[0].find("difference_from_first") == nullptr);
  CHECK(reports[1].find("difference_from_first") != nullptr);
  CHECK(decode({.texts = {first}}).report == describe(SmemWord{}, first.word.value));
}

TEST_CASE("an instruction descriptor is taken from the upper half of a word, and checked against its target") {
  const DecodeRequest request{.texts = {read_pasted("0x0810001000000000")},
                              .type = InstructionWord{.kind = MmaKind::f16, .target = Target::sm_100a}};
  const Report report = decode(request).report;
  REQUIRE(report.find("idesc"));
  CHECK(*report.find("idesc") == Report("0x08100010"));
  CHECK(report.find("read_as") != nullptr);
  DecodeRequest elsewhere = request;
  elsewhere.type = InstructionWord{.kind = MmaKind::i8, .target = Target::sm_103a};
  elsewhere.texts = {read_pasted("0x081004a0")};
  try {
    (void)decode(elsewhere);
    FAIL("sm_103a has no kind::i8");
  } catch (const Error& error) {
    CHECK(fields_of(error.violations()) == std::vector<std::string>{"target"});
  }
}

TEST_CASE("statements that describe_ptx does not know are described by others") {
  const auto describe_other = [](std::string_view text, std::optional<Target>) -> std::optional<Report> {
    if (text != "ex2.approx.f32") return std::nullopt;
    return Report::list().append({{"instruction", "ex2"}});
  };
  const DecodeReport decoded = decode({.texts = {read_pasted("ex2.approx.f32")}, .describe_other = describe_other});
  CHECK(to_json(decoded.report) == R"({"instruction":"ex2"})");
  CHECK_THROWS_AS(decode({.texts = {read_pasted("ex2.approx.f32")}}), Error);
}
