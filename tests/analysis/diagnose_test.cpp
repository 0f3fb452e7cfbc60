// Plants every fault of the catalogue in random cases and requires that it is found; and that clean data has none.
#include "bitmma/analysis/diagnose.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <set>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/files/tiling.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/stimulus/random_case.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

struct Subject {
  Instruction instruction = Wgmma{};
  Distribution distribution = Distribution::normal;
  Placement placement = {};

  std::string name() const { return print(instruction); }
};

/// Subjects that between them can have every fault: both memories, registers, all majors, sparse, scaled, integers.
std::vector<Subject> subjects() {
  const OperandLayout padded{.swizzle = Swizzle::b64, .padding_bytes = 32, .start_bytes = 32};
  const ZeroColumnMask mask{.non_zero_mask = true, .skip_span = 2, .use_span = 3, .column_shift = 4};
  return {
      {.instruction = wgmma({.n = 32})},
      {.instruction = wgmma({.n = 64, .a = Format::bf16, .b = Format::bf16}),
       .distribution = Distribution::wide,
       .placement = {.a = padded, .b = {.major = Major::mn, .swizzle = Swizzle::b32}}},
      {.instruction =
           wgmma({.n = 32, .a = Format::e4m3, .b = Format::e5m2, .sparse = true, .a_source = OperandSource::registers}),
       .placement = {.b = {.start_bytes = 128, .base_offset = 3}}},
      {.instruction = wgmma({.n = 16, .d = Format::s32, .a = Format::s8, .b = Format::u8, .enable_input_d = false}),
       .distribution = Distribution::bits,
       .placement = {.a = {.swizzle = Swizzle::none}, .b = {.swizzle = Swizzle::b32}}},
      {.instruction = tcgen05({.kind = MmaKind::f16, .cta_group = 2, .m = 256, .n = 32, .scale_input_d = 3})},
      {.instruction = tcgen05(
           {.kind = MmaKind::f8f6f4, .n = 32, .d = Format::f16, .a = Format::e2m3, .b = Format::e3m2, .sparse = true})},
      {.instruction = tcgen05({.kind = MmaKind::mxf8f6f4, .n = 128, .a = Format::e4m3, .b = Format::e5m2})},
      {.instruction = tcgen05({.kind = MmaKind::mxf4nvf4, .n = 64, .scale_type = Format::ue4m3})},
      {.instruction =
           parse_instruction("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0")},
      {.instruction = mma_sync({.d = Format::f16})},
      {.instruction = mma_sync({.a = Format::bf16, .sparse = true, .sparsity_selector = 1})},
      {.instruction = mma_sync({.a = Format::e4m3, .b = Format::e5m2})},
      {.instruction = mma_sync({.d = Format::s32, .a = Format::s8, .b = Format::u8, .sparse = true}),
       .distribution = Distribution::bits},
      {.instruction = mma_sync({.m = 8, .d = Format::s32, .a = Format::b1}), .distribution = Distribution::bits},
      {.instruction = mma_sync({.d = Format::f64, .a = Format::f64})},
      {.instruction = mma_sync({.m = 8})},
      {.instruction =
           tcgen05({.kind = MmaKind::tf32, .weight_stationary = true, .m = 64, .n = 64, .max_shift_code = 2}),
       .placement = {.b = {.major = Major::mn, .swizzle = Swizzle::b128_atom32}, .zero_column_mask = encode(mask)}},
      {.instruction = tcgen05({.kind = MmaKind::f16,
                               .n = 16,
                               .a = Format::bf16,
                               .b = Format::bf16,
                               .a_source = OperandSource::tmem,
                               .ashift = true})},
      {.instruction = tcgen05({.kind = MmaKind::f8f6f4, .n = 64, .a = Format::e4m3, .b = Format::e2m1})},
      {.instruction = wgmma({.n = 16, .a = Format::e4m3, .b = Format::e4m3}),
       .placement = {.a = {.swizzle = Swizzle::none}, .b = {.swizzle = Swizzle::none}}},
  };
}

/// Two cases of a subject; its number is the seed.
std::vector<Case> cases_of(const Subject& subject, size_t number) {
  const Instruction instruction = with_majors(subject.instruction, subject.placement.a, subject.placement.b);
  std::vector<Case> cases;
  for (uint64_t i = 0; i < 2; ++i) {
    cases.push_back(
        random_case(instruction, default_target(instruction), subject.placement, subject.distribution, number, i));
  }
  return cases;
}

/// D of every case in a program with these faults.
std::vector<Matrix> planted_d(std::span<const Case> cases, std::span<const std::string> ids) {
  std::vector<Matrix> planted;
  for (int64_t index = 0; index < static_cast<int64_t>(cases.size()); ++index) {
    planted.push_back(faulty_d(cases, index, ids));
  }
  return planted;
}

std::vector<Matrix> truth_of(std::span<const Case> cases) {
  std::vector<Matrix> truth;
  for (const Case& this_case : cases) truth.push_back(computed_d(this_case));
  return truth;
}

Matrix test_matrix(Format format, int rows, int cols, uint64_t seed) {
  Matrix matrix(format, rows, cols);
  RandomStream random(seed, 0);
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col) matrix.set_code(row, col, 0x3000 + (random.word() & 0x8FFF));
  return matrix;
}

struct Score {
  int planted = 0, invisible = 0, first = 0, top_3 = 0;
  std::string missed;
};

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

TEST_CASE("every fault of the catalogue, planted in random cases, is found", "[long]") {
  const std::vector<Subject> all = subjects();
  std::set<std::string> kinds;
  Score total;
  const int every = test::amount(40, 6, 1);  // all take four minutes
  std::mutex mutex;
  parallel_for(all.size(), hardware_threads(), [&](size_t number) {
    const std::vector<Case> cases = cases_of(all[number], number);
    const std::vector<Matrix> truth = truth_of(cases);
    Score score;
    int number_of_fault = static_cast<int>(number);
    for (const Fault& fault : fault_catalogue(cases)) {
      if (++number_of_fault % every != 0) continue;
      std::vector<Matrix> planted;
      try {
        planted = planted_d(cases, std::array{fault.id});
      } catch (const Error&) {
        continue;  // a case cannot have it, such as a start before the image
      }
      ++score.planted;
      if (planted == truth) {
        ++score.invisible;
        continue;
      }
      const Diagnosis diagnosis = diagnose(cases, planted, {.max_findings = 100, .pairs = false});
      const int rank = rank_of(diagnosis, fault.id);
      score.first += rank == 1 && diagnosis.findings.front().explains_all;
      score.top_3 += rank <= 3;
      if (rank > 1) score.missed += all[number].name() + ": " + fault.id + " at rank " + std::to_string(rank) + "\n";
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
  const std::vector<Subject> all = subjects();
  for (size_t number = 0; number < all.size(); ++number) {
    const std::vector<Case> cases = cases_of(all[number], number);
    const Diagnosis diagnosis = diagnose(cases, truth_of(cases));
    INFO(all[number].name());
    CHECK(diagnosis.wrong == 0);
    CHECK(diagnosis.findings.empty());
  }
}

TEST_CASE("two faults together are found where one does not explain", "[long]") {
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
    const std::vector<Case> cases = cases_of(subjects()[pair.subject], pair.subject);
    const std::array ids{pair.first, pair.second};
    const Diagnosis diagnosis = diagnose(cases, planted_d(cases, ids));
    INFO(pair.first << " and " << pair.second);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().explains_all);
    const auto both = std::ranges::find_if(diagnosis.findings, [&](const Finding& finding) {
      std::set<std::string> fault_ids;
      for (const Fault& fault : finding.faults) fault_ids.insert(fault.id);
      return fault_ids == std::set(ids.begin(), ids.end());
    });
    REQUIRE(both != diagnosis.findings.end());
    CHECK(both->explains_all);
  }
  // And once by hand: the search does not only agree with itself.
  const std::vector<Case> cases = cases_of(subjects()[0], 0);
  std::vector<Matrix> planted;
  for (const Case& this_case : cases) {
    Operands operands = operands_of(this_case);
    operands.negate_b = true;
    operands.c.reset();
    planted.push_back(multiply_accumulate(model_for(this_case.instruction, this_case.target), operands));
  }
  const Diagnosis diagnosis = diagnose(cases, planted);
  REQUIRE(!diagnosis.findings.empty());
  CHECK(diagnosis.findings.front().explains_all);
}

namespace {

/// Shared memory and descriptors of an m64n32k16 of f16 in swizzle 128, as a program sees them.
class Program {
 public:
  explicit Program(Case& c)
      : case_(c), image_(c.before.bytes(Field::smem).begin(), c.before.bytes(Field::smem).end()) {}
  ~Program() {
    const auto bytes = static_cast<int64_t>(image_.size());
    case_.before.set(Field::smem, std::move(image_), {bytes});
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int64_t start(Field descriptor) const { return static_cast<int64_t>(case_.before.number(descriptor) & 0x3FFF) * 16; }
  void set_start(Field descriptor, int64_t byte) {
    case_.before.set(descriptor,
                     (case_.before.number(descriptor) & ~uint64_t{0x3FFF}) | static_cast<uint64_t>(byte / 16));
  }
  void set_sbo(Field descriptor, int64_t bytes) {
    const uint64_t others = case_.before.number(descriptor) & ~(uint64_t{0x3FFF} << 32);
    case_.before.set(descriptor, others | static_cast<uint64_t>(bytes / 16) << 32);
  }
  void clear(int64_t from, int64_t bytes) { std::fill_n(image_.begin() + from, bytes, uint8_t{0}); }
  void put(int64_t byte, uint32_t code) {
    image_[static_cast<size_t>(byte)] = static_cast<uint8_t>(code);
    image_[static_cast<size_t>(byte) + 1] = static_cast<uint8_t>(code >> 8);
  }
  /// Another stage behind the first: what there is, the other way round.
  void add_stage(int64_t at) {
    std::vector<uint8_t> first(image_);
    image_.resize(static_cast<size_t>(at));
    image_.insert(image_.end(), first.rbegin(), first.rend());
  }

 private:
  Case& case_;
  std::vector<uint8_t> image_;
};

constexpr int64_t swizzled(int64_t byte) { return byte ^ (byte >> 3 & 0x70); }

}  // namespace

TEST_CASE("mistakes in images and descriptors, made as programs make them, are found") {
  struct Mistake {
    std::string id;
    std::function<void(Case& expected)> prepare;
    std::function<void(Case& wrong)> make;
  };
  const auto nothing = [](Case&) {};
  const auto write_a = [](Case& this_case, auto&& byte_of) {
    const Matrix a = operands_of(this_case).a;
    Program program(this_case);
    const int64_t start = program.start(Field::a_desc);
    program.clear(start, 8192);
    for (int row = 0; row < 64; ++row) {
      for (int k = 0; k < 16; ++k) program.put(start + byte_of(row, k), a(row, k));
    }
  };
  const std::vector<Mistake> table = {
      {"a.written.linear", nothing,
       [&](Case& this_case) { write_a(this_case, [](int row, int k) { return 128 * row + 2 * k; }); }},
      {"a.written.plain", nothing,
       [&](Case& this_case) { write_a(this_case, [](int row, int k) { return 32 * row + 2 * k; }); }},
      {"a.written.plain_transposed", nothing,
       [&](Case& this_case) { write_a(this_case, [](int row, int k) { return 128 * k + 2 * row; }); }},
      {"a.rows_reversed", nothing,
       [&](Case& this_case) { write_a(this_case, [](int row, int k) { return swizzled(128 * (row ^ 7) + 2 * k); }); }},
      {"a.sbo.512", nothing, [](Case& this_case) { Program(this_case).set_sbo(Field::a_desc, 512); }},
      {"b.sbo.2048", [](Case& this_case) { Program(this_case).add_stage(16384); },
       [](Case& this_case) { Program(this_case).set_sbo(Field::b_desc, 2048); }},
      {"b.other_buffer", nothing,
       [](Case& this_case) {
         Program program(this_case);
         program.set_start(Field::b_desc, program.start(Field::a_desc));
       }},
      {"b.start.+16384", [](Case& this_case) { Program(this_case).add_stage(16384); },
       [](Case& this_case) {
         Program program(this_case);
         program.set_start(Field::b_desc, program.start(Field::b_desc) + 16384);
       }},
  };
  for (const Mistake& mistake : table) {
    std::vector<Case> cases = cases_of(subjects()[0], 0);
    std::vector<Matrix> wrong;
    for (Case& this_case : cases) {
      mistake.prepare(this_case);
      Case changed = this_case;
      mistake.make(changed);
      wrong.push_back(computed_d(changed));
    }
    const Diagnosis diagnosis = diagnose(cases, wrong);
    INFO(mistake.id);
    REQUIRE(!diagnosis.findings.empty());
    INFO(diagnosis.findings[0].faults[0].id);
    CHECK(diagnosis.findings[0].explains_all);
    CHECK(rank_of(diagnosis, mistake.id) == 1);
  }
}

TEST_CASE("D of a whole loop over K is found, from the image and from the cases of a file") {
  const std::vector<Case> cases = cases_of(subjects()[0], 0);
  // The image holds rows of 128 bytes: four blocks of K, 32 bytes further on each.
  std::vector<Matrix> from_image;
  for (const Case& this_case : cases) {
    Case step = this_case;
    Matrix d = computed_d(step);
    for (int block = 1; block < 4; ++block) {
      for (const Field descriptor : {Field::a_desc, Field::b_desc}) {
        Program program(step);
        program.set_start(descriptor, program.start(descriptor) + 32);
      }
      Operands operands = operands_of(step);
      operands.c = d;
      d = multiply_accumulate(model_for(this_case.instruction, this_case.target), operands);
    }
    from_image.push_back(d);
  }
  CHECK(rank_of(diagnose(cases, from_image), "d.blocks_of_k.4") == 1);
  // Every case is a step: D of the second has that of the first in it, or both have all.
  Operands second = operands_of(cases[1]);
  second.c = computed_d(cases[0]);
  const Matrix all = multiply_accumulate(model_for(cases[0].instruction, cases[0].target), second);
  const std::vector<Matrix> running{computed_d(cases[0]), all}, whole{all, all};
  CHECK(rank_of(diagnose(cases, running), "d.running_sum") == 1);
  CHECK(rank_of(diagnose(cases, whole), "d.sum_of_cases.2") == 1);
}

TEST_CASE("random bits are explained by nothing, and bad requests are refused") {
  const std::vector<Case> cases = cases_of(subjects()[0], 0);
  std::vector<Matrix> noise = truth_of(cases);
  RandomStream random(99, 0);
  for (Matrix& matrix : noise) {
    for (int row = 0; row < matrix.rows(); ++row) {
      for (int col = 0; col < matrix.cols(); ++col) matrix(row, col) = random.word();
    }
  }
  const Diagnosis diagnosis = diagnose(cases, noise);
  CHECK(diagnosis.findings.empty());
  CHECK(diagnosis.tried > 1000);
  CHECK_THROWS_AS(diagnose(cases, std::span(noise).first(0)), Error);
  noise[0] = Matrix(Format::f16, 64, 32);
  CHECK_THROWS_MATCHES(diagnose(cases, noise), Error, refused(wrong_shape, "D of case 0"));
  CHECK_THROWS_MATCHES(faulty_d(cases, 0, std::array{std::string("nonsense")}), Error, refused(unknown_name, "fault"));
}

namespace {

/// A tile of 128 x 64 x 64 as a kernel has it: two instructions along M, four along K, no image.
Case random_tile() {
  const Instruction instruction = wgmma({.n = 64});
  const Mma mma = mma_of(instruction);
  constexpr int blocks = 2, steps = 4;
  Case tile{.instruction = instruction, .target = Target::sm_90a};
  tile.logical.a = Matrix(mma.a, blocks * mma.m, steps * mma.k);
  tile.logical.b = Matrix(mma.b, steps * mma.k, mma.n);
  tile.logical.c = Matrix(mma.c, blocks * mma.m, mma.n);
  for (int i = 0; i < blocks * steps; ++i) {
    const int block = i / steps, step = i % steps;
    const Operands part = random_operands(instruction, tile.target, Distribution::normal, 5, static_cast<uint64_t>(i));
    set_block(*tile.logical.a, block * mma.m, step * mma.k, part.a);
    if (block == 0) set_block(*tile.logical.b, step * mma.k, 0, part.b);
    if (step == 0) set_block(*tile.logical.c, block * mma.m, 0, *part.c);
  }
  return tile;
}

/// D of the tile by its instructions, one after the other, with other operands in place of its own.
Matrix d_of_tile(const Case& tile, const Matrix& a, const Matrix& b) {
  const Mma mma = mma_of(tile.instruction);
  Matrix d = *tile.logical.c;
  for (int row = 0; row < d.rows(); row += mma.m) {
    for (int k = 0; k < a.cols(); k += mma.k) {
      const Operands operands{.a = block_of(a, row, mma.m, k, mma.k),
                              .b = block_of(b, k, mma.k, 0, mma.n),
                              .c = block_of(d, row, mma.m, 0, mma.n)};
      set_block(d, row, 0, multiply_accumulate(model_for(tile.instruction, tile.target), operands));
    }
  }
  return d;
}

/// Lines of `span` bytes of 16-bit elements, written one after the other, read through a swizzle of that many bytes.
Matrix read_swizzled(const Matrix& lines, int span) {
  Matrix read = lines;
  const int of_line = span / 2;
  for (int row = 0; row < lines.rows(); ++row) {
    for (int col = 0; col < lines.cols(); ++col) {
      const int linear = row * span + col % of_line * 2;
      const int from = linear ^ ((linear >> 7 & (span / 16 - 1)) << 4);
      read.set_code(row, col, lines.code(from / span, from % span / 2 + col / of_line * of_line));
    }
  }
  return read;
}

}  // namespace

TEST_CASE("TMA without swizzle is found in a whole tile: every swizzle and major, one operand or both", "[long]") {
  const Case tile = random_tile();
  const std::array cases{tile};
  const Matrix &a = *tile.logical.a, &b = *tile.logical.b;
  REQUIRE(diagnose(cases, std::array{d_of_tile(tile, a, b)}).wrong == 0);
  const std::vector<int> all{32, 64, 128}, spans = test::amount({128}, all, all);
  for (const int span : spans) {
    for (const bool along_k : {true, false}) {
      const Matrix wrong_a = along_k ? read_swizzled(a, span) : transposed(read_swizzled(transposed(a), span)),
                   wrong_b = along_k ? transposed(read_swizzled(transposed(b), span)) : read_swizzled(b, span);
      const std::string id = std::string(".tile.") + (along_k ? "k." : "mn.") + std::to_string(span) + ".linear";
      for (const auto& [x, y] : {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
        const Diagnosis diagnosis = diagnose(cases, std::array{d_of_tile(tile, x ? wrong_a : a, y ? wrong_b : b)});
        INFO(id << ", A " << x << ", B " << y);
        REQUIRE(!diagnosis.findings.empty());
        CHECK(diagnosis.findings.front().explains_all);
        const bool is_named = std::ranges::any_of(diagnosis.findings, [&](const Finding& finding) {
          std::set<std::string> ids;
          for (const Fault& fault : finding.faults) ids.insert(fault.id);
          return finding.explains_all && (!x || ids.contains("a" + id)) && (!y || ids.contains("b" + id)) &&
                 ids.size() == static_cast<size_t>(x) + static_cast<size_t>(y);
        });
        CHECK(is_named);
      }
    }
  }
}

namespace {

/// How many faults of the catalogue change something, and are found when they are planted: all of them.
int planted_and_found(const Case& tile, int every) {
  const std::array cases{tile};
  const Matrix truth = faulty_d(cases, 0, {});
  CHECK(truth == computed_tile(tile));
  int planted = 0, index = 0;
  for (const Fault& fault : fault_catalogue(cases)) {
    if (index++ % every != 0) continue;
    std::optional<Matrix> wrong;
    try {
      wrong = faulty_d(cases, 0, std::array{fault.id});
    } catch (const Error&) {
      continue;  // a tile that cannot be
    }
    if (*wrong == truth) continue;
    ++planted;
    const Diagnosis diagnosis = diagnose(cases, std::array{*wrong}, {.max_findings = 100, .pairs = false});
    INFO(fault.id);
    CHECK(rank_of(diagnosis, fault.id) == 1);
  }
  return planted;
}

/// Every how many-th fault is planted.
const int every_fault = test::amount(8, 3, 1);

}  // namespace

TEST_CASE("faults of a whole tile, planted, are found: steps of K, rows of warps and warpgroups", "[long]") {
  const Case tile = random_tile();
  CHECK(planted_and_found(tile, every_fault) > 150 / every_fault);
  const std::vector<Fault> catalogue = fault_catalogue(std::array{tile});
  for (const char* id : {"a.step.sbo.512", "b.step.swizzle.none", "b.step.start.+32"})
    CHECK(std::ranges::find(catalogue, id, &Fault::id) != catalogue.end());
}

namespace {

/// Random matrices of `blocks` instructions along M and `steps` along K.
Case random_tile_of(const Instruction& instruction, int blocks, int steps) {
  const Mma mma = mma_of(instruction);
  Case tile{.instruction = instruction, .target = default_target(instruction)};
  LogicalMatrices& whole = tile.logical;
  whole.a = Matrix(mma.a, blocks * mma.m, steps * mma.a_cols());
  whole.b = Matrix(mma.b, steps * mma.k, mma.n);
  if (mma.enable_input_d) whole.c = Matrix(mma.c, blocks * mma.m, mma.n);
  if (mma.scale_count > 0) {
    whole.scale_a = Matrix(mma.scale_type, blocks * mma.m, steps * mma.scale_count);
    whole.scale_b = Matrix(mma.scale_type, steps * mma.scale_count, mma.n);
  }
  for (int i = 0; i < blocks * steps; ++i) {
    const int block = i / steps, step = i % steps;
    const LogicalMatrices part = logical_of(
        instruction, random_operands(instruction, tile.target, Distribution::normal, 7, static_cast<uint64_t>(i)));
    set_block(*whole.a, block * mma.m, step * mma.a_cols(), *part.a);
    if (block == 0) set_block(*whole.b, step * mma.k, 0, *part.b);
    if (step == 0 && whole.c) set_block(*whole.c, block * mma.m, 0, *part.c);
    if (mma.scale_count == 0) continue;
    set_block(*whole.scale_a, block * mma.m, step * mma.scale_count, *part.scale_a);
    if (block == 0) set_block(*whole.scale_b, step * mma.scale_count, 0, *part.scale_b);
  }
  return tile;
}

}  // namespace

TEST_CASE("faults of a whole tile of sparse instructions, planted, are found", "[long]") {
  const auto check = [](const char* mnemonic, int every) {
    INFO(mnemonic);
    const Case tile = random_tile_of(parse_instruction(mnemonic), 2, 3);
    CHECK(planted_and_found(tile, every) > 40 / every);
    const std::vector<Fault> catalogue = fault_catalogue(std::array{tile});
    for (const char* id : {"metadata.ignored", "metadata.rows_8", "metadata.not_advanced", "d.without_step.1"})
      CHECK(std::ranges::find(catalogue, id, &Fault::id) != catalogue.end());
  };
  check("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", every_fault);
  check("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16", 16 * every_fault);
}

TEST_CASE("scales of other rows, lanes and steps are found in a whole tile", "[long]") {
  const Case tile = random_tile_of(tcgen05({.kind = MmaKind::mxf4nvf4, .n = 16, .scale_vec = ScaleVec::x2}), 1, 4);
  CHECK(planted_and_found(tile, 6 * every_fault) > 100 / (6 * every_fault));
  const std::vector<Fault> catalogue = fault_catalogue(std::array{tile});
  for (const char* id : {"scale_a.rows_8", "scale_b.rotated.-8", "scales.rows_16", "scales.previous_row",
                         "scale_a.not_advanced", "scale_b.id_not_advanced", "scale_a.lanes_reversed"})
    CHECK(std::ranges::find(catalogue, id, &Fault::id) != catalogue.end());
}

TEST_CASE("an instruction descriptor with another M or N is named, not a stride", "[long]") {
  // D of an instruction with another descriptor on the same state, where the right one has its own.
  const auto wrong_d = [](const Case& this_case, const Instruction& other) {
    State state = this_case.before;
    execute(other, this_case.target, state);
    return recorded_result(this_case.instruction, state);
  };
  struct Row {
    Instruction right, wrong;
    std::string id;
  };
  for (const Row& row : {
           Row{tcgen05({.kind = MmaKind::f16, .n = 64}), tcgen05({.kind = MmaKind::f16, .n = 32}), "idesc.n.32"},
           Row{tcgen05({.kind = MmaKind::f16, .m = 128, .n = 64}), tcgen05({.kind = MmaKind::f16, .m = 64, .n = 64}),
               "idesc.m.64"},
           Row{tcgen05({.kind = MmaKind::f8f6f4, .cta_group = 2, .m = 256, .n = 64}),
               tcgen05({.kind = MmaKind::f8f6f4, .cta_group = 2, .m = 256, .n = 32}), "idesc.n.32"},
           Row{tcgen05({.kind = MmaKind::mxf8f6f4, .n = 128}), tcgen05({.kind = MmaKind::mxf8f6f4, .n = 64}),
               "idesc.n.64"},
       }) {
    INFO(print(row.right) << " " << row.id);
    std::vector<Case> cases;
    std::vector<Matrix> wrong;
    for (uint64_t i = 0; i < 2; ++i) {
      cases.push_back(random_case(row.right, default_target(row.right), {}, Distribution::normal, 1, i));
      wrong.push_back(wrong_d(cases.back(), row.wrong));
    }
    const Diagnosis diagnosis = diagnose(cases, wrong);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().explains_all);
    CHECK(rank_of(diagnosis, row.id) == 1);
    CHECK(diagnosis.findings.front().faults.front().id == row.id);
  }
}

TEST_CASE("a whole tile computed with another M or N is what its instructions leave in Tensor Memory") {
  const Case tile = random_tile_of(tcgen05({.kind = MmaKind::f16, .n = 64, .enable_input_d = false}), 2, 3);
  const Mma own = mma_of(tile.instruction);
  for (const auto& [id, other] : {std::pair("idesc.n.24", tcgen05({.kind = MmaKind::f16, .n = 24})),
                                  std::pair("idesc.m.64", tcgen05({.kind = MmaKind::f16, .m = 64, .n = 64}))}) {
    Matrix wrong(own.d, tile.logical.a->rows(), own.n);
    for (int row = 0; row < wrong.rows(); row += own.m) {
      const Instruction instruction = with_enable_input_d(other, true);
      std::optional<State> state;
      for (int k = 0; k < tile.logical.b->rows(); k += own.k) {
        const Operands part{.a = block_of(*tile.logical.a, row, own.m, k, own.k),
                            .b = block_of(*tile.logical.b, k, own.k, 0, own.n),
                            .c = Matrix(own.c, own.m, own.n)};
        const Instruction adds = with_enable_input_d(tile.instruction, true);
        State next = place_operands(adds, {}, part, RandomStream(0, 0));
        if (state) {
          const std::span<const uint32_t> left = state->words(Field::tmem);
          std::ranges::copy(left, next.writable_words(Field::tmem).begin());
        }
        execute(instruction, tile.target, next);
        state = std::move(next);
      }
      set_block(wrong, row, 0, recorded_result(tile.instruction, *state));
    }
    const std::array cases{tile};
    INFO(id);
    CHECK(faulty_d(cases, 0, std::array{std::string(id)}) == wrong);
    const Diagnosis diagnosis = diagnose(cases, std::array{wrong});
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().explains_all);
    CHECK(diagnosis.findings.front().faults.front().id == id);
  }
}

TEST_CASE("units of whole rows that one side swizzles are found in an image that holds all of K") {
  const std::vector<Case> cases = cases_of(subjects()[0], 0);
  for (const auto& [a, b] : {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
    std::vector<Matrix> wrong;
    for (const Case& this_case : cases) {
      Case changed = this_case;
      std::vector<uint8_t> image(this_case.before.bytes(Field::smem).begin(),
                                 this_case.before.bytes(Field::smem).end());
      const std::vector<uint8_t> right = image;
      const auto of_b = static_cast<size_t>((this_case.before.number(Field::b_desc) & 0x3FFF) * 16);
      for (size_t at = 0; at < image.size(); ++at) {
        if (at < of_b ? a : b) image[at] = right[static_cast<size_t>(swizzled(static_cast<int64_t>(at)))];
      }
      const auto bytes = static_cast<int64_t>(image.size());
      changed.before.set(Field::smem, std::move(image), {bytes});
      wrong.push_back(computed_d(changed));
    }
    const Diagnosis diagnosis = diagnose(cases, wrong);
    INFO(a << b);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().explains_all);
    CHECK(diagnosis.findings.front().faults.front().id == (a ? "a.units.none" : "b.units.none"));
    CHECK(diagnosis.findings.front().faults.back().id == (b ? "b.units.none" : "a.units.none"));
    // Both faults of the pair have the same fix; it is printed once.
    const std::string text = print(describe(diagnosis, {}, cases[0].instruction));
    const size_t at = text.find("look at: the swizzle of the TMA map");
    REQUIRE(at != std::string::npos);
    CHECK(text.find("look at: ", at + 1) == std::string::npos);
  }
}

TEST_CASE("all cases are compared, and the fault is searched in wrong ones") {
  std::vector<Case> cases;
  const Instruction instruction = wgmma({.n = 32});
  for (uint64_t i = 0; i < 6; ++i)
    cases.push_back(random_case(instruction, Target::sm_90a, {}, Distribution::normal, 3, i));
  std::vector<Matrix> wrong = truth_of(cases);
  wrong[4] = faulty_d(cases, 4, std::array{std::string("c.cleared")});
  const Diagnosis diagnosis = diagnose(cases, wrong);
  CHECK(diagnosis.cases == 6);
  CHECK(diagnosis.wrong_cases == 1);
  CHECK(diagnosis.searched_cases == 1);
  REQUIRE(!diagnosis.findings.empty());
  CHECK(diagnosis.findings.front().faults.front().id == "c.cleared");
  CHECK(diagnosis.findings.front().explains_all);
}

TEST_CASE("a register that is passed twice, exchanged or never loaded is named, in an instruction and in a tile") {
  const Instruction instruction = mma_sync({});
  std::vector<Case> cases;
  for (uint64_t i = 0; i < 2; ++i)
    cases.push_back(random_case(instruction, Target::sm_90a, {}, Distribution::normal, 5, i));
  // The tile has four instructions, one behind the other along K.
  const Matrix a = test_matrix(Format::f16, 16, 64, 1), b = test_matrix(Format::f16, 64, 8, 2);
  const std::vector<Case> tile{{.instruction = instruction, .target = Target::sm_90a, .logical = {.a = a, .b = b}}};
  int found = 0;
  for (const std::vector<Case>& of : {cases, tile}) {
    const std::vector<Matrix> truth = planted_d(of, {});
    for (const Fault& fault : fault_catalogue(of)) {
      if (fault.id.find(".register") == std::string::npos) continue;
      const std::vector<Matrix> planted = planted_d(of, std::array{fault.id});
      if (planted == truth) continue;  // C of the tile is zero
      const Diagnosis diagnosis = diagnose(of, planted);
      INFO(fault.id);
      CHECK(rank_of(diagnosis, fault.id) == 1);
      CHECK(std::ranges::all_of(diagnosis.findings, &Finding::explains_all));
      ++found;
    }
  }
  CHECK(found > 90);
  // A program that passes {a0, a2, a2, a3}: by hand, rows 8..15 of the first half of K have row r of the second half.
  Operands operands = operands_of(cases[0]);
  for (int row = 8; row < 16; ++row)
    for (int k = 0; k < 8; ++k) operands.a.set_code(row, k, operands.a.code(row - 8, k + 8));
  CHECK(faulty_d(cases, 0, std::array{std::string("a.register_1_is_2")}) ==
        multiply(instruction, Target::sm_90a, operands.a, operands.b, &*operands.c));
}

TEST_CASE("lines of a diagnosis have at most 120 columns") {
  const Instruction instruction = wgmma({.n = 64});
  const std::vector<Case> tile{
      {.instruction = instruction,
       .target = Target::sm_90a,
       .logical = {.a = test_matrix(Format::f16, 64, 256, 1), .b = test_matrix(Format::f16, 256, 64, 2)}}};
  const Diagnosis diagnosis = diagnose(tile, planted_d(tile, std::array{std::string("a.tile.k.128.linear")}));
  REQUIRE(diagnosis.findings.size() > 1);
  CHECK(std::ranges::all_of(diagnosis.findings, &Finding::explains_all));
  for (const Report::Line& line : describe(diagnosis, {}, instruction).lines) CHECK(line.text.size() <= 2 * 121);
}
