// Plants every fault of the catalogue in random cases and requires that it is found; and that clean data has none.
#include "bitmma/io/diagnose.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/io/golden.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// Subjects that between them can have every fault: both memories, registers, all majors, sparse, scaled, integers.
std::vector<GoldenRequest> subjects() {
  std::vector<GoldenRequest> requests;
  const auto add = [&](GoldenRequest request) {
    request.cases = 2;
    request.seed = requests.size();
    requests.push_back(std::move(request));
  };
  const auto wgmma = [](const char* text) { return parse_instruction(text); };
  const auto tcgen05 = [](const char* text, int m, int n, Format d, Format a, Format b, Format scale = Format::ue8m0) {
    Instruction instruction = parse_instruction(text);
    instruction.m = m, instruction.n = n, instruction.d = d, instruction.a = a, instruction.b = b,
    instruction.scale_type = scale;
    return with_idesc(instruction, idesc_of(instruction));
  };
  add({.instruction = wgmma("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16"),
       .distribution = Distribution::normal});
  add({.instruction = wgmma("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"),
       .distribution = Distribution::wide,
       .layout_a = {.swizzle = Swizzle::b64, .padding_bytes = 32, .start_bytes = 32},
       .layout_b = {.major = Major::mn, .swizzle = Swizzle::b32}});
  Instruction registers = wgmma("wgmma.mma_async.sp.sync.aligned.m64n32k64.f32.e4m3.e5m2");
  registers.a_source = OperandSource::registers;
  add({.instruction = registers,
       .distribution = Distribution::normal,
       .layout_b = {.start_bytes = 128, .base_offset = 3}});
  Instruction cleared = wgmma("wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.u8");
  cleared.scale_d = 0;
  add({.instruction = cleared,
       .distribution = Distribution::bits,
       .layout_a = {.swizzle = Swizzle::none},
       .layout_b = {.swizzle = Swizzle::b32}});
  Instruction scaled_d = tcgen05("tcgen05.mma.cta_group::2.kind::f16", 256, 32, Format::f32, Format::f16, Format::f16);
  scaled_d.scale_input_d = 3;
  add({.instruction = scaled_d, .distribution = Distribution::normal});
  add({.instruction =
           tcgen05("tcgen05.mma.sp.cta_group::1.kind::f8f6f4", 128, 32, Format::f16, Format::e2m3, Format::e3m2),
       .distribution = Distribution::normal});
  add({.instruction = tcgen05("tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale", 128, 128, Format::f32,
                              Format::e4m3, Format::e5m2),
       .distribution = Distribution::normal});
  add({.instruction = tcgen05("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X", 128, 64, Format::f32,
                              Format::e2m1, Format::e2m1, Format::ue4m3),
       .distribution = Distribution::normal});
  add({.instruction = wgmma("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"),
       .distribution = Distribution::normal});
  Instruction ws = tcgen05("tcgen05.mma.ws.cta_group::1.kind::tf32", 64, 64, Format::f32, Format::tf32, Format::tf32);
  ws.max_shift_code = 2;
  add({.instruction = ws,
       .distribution = Distribution::normal,
       .layout_b = {.major = Major::mn, .swizzle = Swizzle::b128_atom32},
       .zero_column_mask =
           encode(ZeroColumnMask{.non_zero_mask = true, .skip_span = 2, .use_span = 3, .column_shift = 4})});
  Instruction ashift =
      tcgen05("tcgen05.mma.cta_group::1.kind::f16.ashift", 128, 16, Format::f32, Format::bf16, Format::bf16);
  ashift.a_source = OperandSource::tmem;
  add({.instruction = ashift, .distribution = Distribution::normal});
  return requests;
}

struct Score {
  int planted = 0, invisible = 0, first = 0, top_3 = 0;
  std::string missed;
};

VectorFile file_of(const test::TemporaryFolder& folder, const GoldenRequest& request, size_t number) {
  const std::string path = folder.path(std::to_string(number));
  write_tensor_file(path, make_golden(request, 1));
  return read_vector_file(path);
}

std::vector<BitMatrix> truth_of(const VectorFile& vectors) {
  std::vector<BitMatrix> truth;
  for (int64_t index = 0; index < vectors.cases; ++index) truth.push_back(computed_d(vectors, index));
  return truth;
}

bool names(const Finding& finding, const std::string& id) {
  return finding.faults.size() == 1 && finding.faults[0].id == id;
}

/// The rank of the planted fault: findings that fit exactly as well share a rank, as nothing can tell them apart.
int rank_of(const Diagnosis& diagnosis, const std::string& id) {
  int rank = 0;
  int64_t last_score = -1;
  for (const Finding& finding : diagnosis.findings) {
    const int64_t score = finding.wrong_explained - finding.right_broken;
    if (score != last_score) ++rank;
    last_score = score;
    if (names(finding, id)) return rank;
  }
  return 1000;
}

}  // namespace

TEST_CASE("every fault of the catalogue, planted in random cases, is found") {
  const test::TemporaryFolder folder;
  const std::vector<GoldenRequest> requests = subjects();
  std::set<std::string> kinds;
  Score total;
  constexpr int every = BITMMA_ORACLE_OUTPUTS >= 1'000'000 ? 1 : 12;  // the sanitizers take a sample
  std::mutex mutex;
  parallel_for(requests.size(), hardware_threads(), [&](size_t number) {
    const VectorFile vectors = file_of(folder, requests[number], number);
    const std::vector<BitMatrix> truth = truth_of(vectors);
    Score score;
    int number_of_fault = static_cast<int>(number);
    for (const Fault& fault : fault_catalogue(vectors)) {
      if (++number_of_fault % every != 0) continue;
      std::vector<BitMatrix> planted;
      try {
        for (int64_t index = 0; index < vectors.cases; ++index)
          planted.push_back(faulty_d(vectors, index, std::array{fault.id}));
      } catch (const Error&) {
        continue;  // a case cannot have it, such as a start before the image
      }
      ++score.planted;
      if (planted == truth) {
        ++score.invisible;
        continue;
      }
      const Diagnosis diagnosis = diagnose(vectors, planted, {.max_findings = 100, .pairs = false});
      const int rank = rank_of(diagnosis, fault.id);
      score.first += rank == 1 && diagnosis.findings.front().explains_all;
      score.top_3 += rank <= 3;
      if (rank > 1) score.missed += vectors.name() + ": " + fault.id + " at rank " + std::to_string(rank) + "\n";
      const std::lock_guard lock(mutex);
      kinds.insert(fault.id.substr(0, fault.id.find_last_of('.')));
    }
    const std::lock_guard lock(mutex);
    total.planted += score.planted, total.invisible += score.invisible, total.first += score.first,
        total.top_3 += score.top_3, total.missed += score.missed;
  });
  const int visible = total.planted - total.invisible;
  INFO(total.planted << " planted, " << total.invisible << " change nothing, " << total.first << " found first\n"
                     << total.missed);
  CHECK(total.first >= visible * 95 / 100 - (every > 1));
  CHECK(total.top_3 == visible);
  CHECK(visible > 400 / every);
  CHECK(total.invisible < total.planted / 5);
}

TEST_CASE("clean data has no fault, whatever it is") {
  const test::TemporaryFolder folder;
  const std::vector<GoldenRequest> requests = subjects();
  for (size_t number = 0; number < requests.size(); ++number) {
    const VectorFile vectors = file_of(folder, requests[number], number);
    const Diagnosis diagnosis = diagnose(vectors, truth_of(vectors));
    INFO(vectors.name());
    CHECK(diagnosis.wrong == 0);
    CHECK(diagnosis.findings.empty());
  }
}

TEST_CASE("two faults together are found where one does not explain") {
  const test::TemporaryFolder folder;
  struct Planted {
    size_t subject;
    std::string first, second;
  };
  const std::vector<Planted> table = {{0, "b.swizzle.64", "d.rows_8"},
                                      {0, "a.negate", "c.cleared"},
                                      {0, "a.start.+32", "b.type.bf16"},
                                      {0, "b.rows_8", "adder.fma_chain"},
                                      {1, "a.xor_on_offset", "c.cleared"},
                                      {0, "b.strides_exchanged", "d.cols_1"},
                                      {2, "metadata.reversed", "b.base_offset.0"},
                                      {4, "d.rows_128", "c.no_scale"},
                                      {7, "scale_a.type", "b.nibbles"},
                                      {7, "a.layout.64", "scale_b.blocks_reversed"}};
  for (const Planted& pair : table) {
    const VectorFile vectors = file_of(folder, subjects()[pair.subject], pair.subject);
    const std::array ids{pair.first, pair.second};
    std::vector<BitMatrix> planted;
    for (int64_t index = 0; index < vectors.cases; ++index) planted.push_back(faulty_d(vectors, index, ids));
    const Diagnosis diagnosis = diagnose(vectors, planted);
    INFO(pair.first << " and " << pair.second);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().explains_all);
    const auto both = std::ranges::find_if(diagnosis.findings, [&](const Finding& finding) {
      std::set<std::string> found;
      for (const Fault& fault : finding.faults) found.insert(fault.id);
      return found == std::set(ids.begin(), ids.end());
    });
    REQUIRE(both != diagnosis.findings.end());
    CHECK(both->explains_all);
  }
  // And once by hand: the search does not only agree with itself.
  const VectorFile vectors = file_of(folder, subjects()[0], 0);
  std::vector<BitMatrix> planted;
  for (int64_t index = 0; index < vectors.cases; ++index) {
    Operands operands = gather_operands(vectors.instruction, case_at(vectors, index).view());
    operands.negate_b = true;
    operands.c.reset();
    planted.push_back(multiply_accumulate(model_for(vectors.instruction), operands));
  }
  const Diagnosis diagnosis = diagnose(vectors, planted);
  REQUIRE(!diagnosis.findings.empty());
  CHECK(diagnosis.findings.front().explains_all);
}

TEST_CASE("random bits are explained by nothing, and bad requests are refused") {
  const test::TemporaryFolder folder;
  const VectorFile vectors = file_of(folder, subjects()[0], 0);
  std::vector<BitMatrix> noise = truth_of(vectors);
  RandomStream random(99, 0);
  for (BitMatrix& one : noise) {
    for (int row = 0; row < one.rows(); ++row) {
      for (int col = 0; col < one.cols(); ++col) one(row, col) = random.word();
    }
  }
  const Diagnosis diagnosis = diagnose(vectors, noise);
  CHECK(diagnosis.findings.empty());
  CHECK(diagnosis.tried > 1000);
  CHECK_THROWS_WITH(diagnose(vectors, std::span(noise).first(1)), ContainsSubstring("cases = 1: legal is 2"));
  noise[0] = BitMatrix(Format::f16, 64, 32);
  CHECK_THROWS_WITH(diagnose(vectors, noise), ContainsSubstring("64 x 32 f16: legal is 64 x 32 f32"));
  CHECK_THROWS_WITH(faulty_d(vectors, 0, std::array{std::string("nonsense")}), ContainsSubstring("nonsense"));
}
