#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <mutex>

#include "bitmma/core/parallel.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

constexpr Target consumer = Target::sm_120a;

std::string ptx_statement(const Instruction& instruction) { return print(statement_of(instruction)); }

}  // namespace

TEST_CASE("ptxas and the table of mma.sync agree on sm_120a, both ways", "[rule:forms]") {
  if (std::system("ptxas --version > /dev/null 2>&1") != 0) {
    WARN("ptxas is not installed: mma.sync was NOT checked against it");
    return;
  }
  const test::TemporaryFolder folder;
  const auto assembles = [&](const std::string& name, const std::string& ptx) {
    test::write_text(folder.path(name), ptx);
    return std::system(
               fmt::format("ptxas -arch=sm_120a -o /dev/null {} > /dev/null 2>&1", folder.path(name)).c_str()) == 0;
  };
  // All legal ones, with every id, as kernels of one module; the near misses one by one.
  std::string module;
  int count = 0;
  std::vector<Instruction> misses;
  for (const Instruction& plain : all_instructions(Family::mma_sync)) {
    std::string statements;
    for (int ids = 0; ids < 4 * 4 * 2 * 4; ++ids) {
      MmaSync one = std::get<MmaSync>(plain);
      one.byte_id_a = ids % 4, one.byte_id_b = ids / 4 % 4, one.thread_id_a = ids / 16 % 2, one.thread_id_b = ids / 32;
      if (violations_of(one, consumer).empty()) statements += ptx_statement(one) + "\n";
      else if (one.a == one.b && one.a == Format::e2m1 && (ids < 16 || ids % 7 == 0)) misses.push_back(one);
    }
    std::string kernel = ptx_kernel(plain).text;
    const std::string first = ptx_statement(plain);
    kernel.replace(kernel.find(first), first.size(), statements);
    const size_t entry = kernel.find(".visible .entry ");
    if (module.empty()) module = kernel.substr(0, entry);
    kernel = kernel.substr(entry);
    module += kernel.replace(kernel.find(kernel_name), kernel_name.size(), fmt::format("{}_{}", kernel_name, count++));
  }
  CHECK(assembles("all.ptx", module));
  for (const MmaKind kind : {MmaKind::mxf8f6f4, MmaKind::mxf4, MmaKind::mxf4nvf4}) {
    for (const ScaleVec size : {ScaleVec::unwritten, ScaleVec::x1, ScaleVec::x2, ScaleVec::x4}) {
      for (const Format scale : {Format::ue8m0, Format::ue4m3}) {
        for (const Format type : {Format::e2m1, Format::e4m3}) {
          for (const int k : {32, 64, 128}) {
            for (const bool sparse : {false, true}) {
              const MmaSync one{
                  .kind = kind, .a = type, .sparse = sparse, .k = k, .scale_vec = size, .scale_type = scale};
              if (!violations_of(one, consumer).empty()) misses.push_back(one);
            }
          }
        }
      }
    }
  }
  for (const auto& change : std::vector<std::function<void(MmaSync&)>>{
           [](MmaSync& i) { i.d = Format::f16; }, [](MmaSync& i) { i.n = 16; }, [](MmaSync& i) { i.thread_id_a = 2; },
           [](MmaSync& i) { i.thread_id_b = 4; },
           [](MmaSync& i) { i.sparse = true, i.k = 64, i.sparsity_selector = 1; }}) {
    MmaSync one = std::get<MmaSync>(
        parse_instruction("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e5m2.f32.ue8m0"));
    change(one);
    REQUIRE(!violations_of(one, consumer).empty());
    misses.push_back(one);
  }
  std::mutex mutex;
  std::string taken;
  parallel_for(misses.size(), hardware_threads(), [&](size_t i) {
    if (!assembles(std::to_string(i) + ".ptx", ptx_kernel(misses[i]).text)) return;
    const std::lock_guard lock(mutex);
    taken += ptx_statement(misses[i]) + "\n";
  });
  CHECK(taken == "");
  CHECK(misses.size() > 150);
}

TEST_CASE("an illegal mma.sync gets every violation at once") {
  const MmaSync bad{.m = 32,
                    .d = Format::f16,
                    .a = Format::f16,
                    .b = Format::s8,
                    .byte_id_a = 4,
                    .thread_id_a = 2,
                    .byte_id_b = -1,
                    .thread_id_b = 4,
                    .sparsity_selector = 1};
  std::vector<std::string> fields;
  for (const Violation& violation : violations_of(bad, consumer)) fields.push_back(violation.field);
  CHECK(fields == std::vector<std::string>{"shape", "dtype", "atype", "btype", "byte_id_a", "byte_id_b", "thread_id_a",
                                           "thread_id_b", "sparsity_selector"});
  CHECK_THAT(
      violations_of(MmaSync{.kind = MmaKind::mxf4nvf4, .scale_vec = ScaleVec::unwritten}, consumer).at(0).expected,
      ContainsSubstring(".scale_vec::2X with ue8m0, .scale_vec::4X with ue4m3"));
  CHECK_THAT(violations_of(MmaSync{.kind = MmaKind::f16}, consumer).at(0).expected,
             ContainsSubstring("no other kind has block scales"));
}
