// What a program may do from several threads at once. All tests run this; built for ThreadSanitizer (the preset tsan)
// it also says whether two threads ever touch the same memory without saying so.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "bitmma.h"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/instruction/execute.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/instructions.hpp"

using namespace bitmma;

namespace {

constexpr int threads = 4;

/// How many threads say no. All begin at the same time.
int failures_of(const std::function<bool(int)>& body) {
  std::atomic<int> failures{0};
  std::barrier start(threads);
  {
    std::vector<std::jthread> pool;
    for (int i = 0; i < threads; ++i) {
      pool.emplace_back([&, i] {
        start.arrive_and_wait();
        bool good = false;
        try {
          good = body(i);
        } catch (const std::exception&) {
          // counted below
        }
        failures += good ? 0 : 1;
      });
    }
  }
  return failures;
}

}  // namespace

TEST_CASE("the tables of the library may be asked for first by several threads at once") {
  // The first of a file, which ctest runs in a process of its own: these are the first uses.
  std::vector<size_t> plans(threads), patterns(threads), wgmma_forms(threads), gpu_targets(threads);
  CHECK(failures_of([&](int i) {
          const auto at = static_cast<size_t>(i);
          plans[at] = catalogue().size(), patterns[at] = kernel_patterns().size();
          gpu_targets[at] = cpu_targets().size();
          wgmma_forms[at] = all_instructions(Family::wgmma).size();
          return !cpu_target().empty();
        }) == 0);
  for (const auto* counts : {&plans, &patterns, &wgmma_forms, &gpu_targets}) {
    CHECK(counts->front() > 0);
    CHECK(std::ranges::all_of(*counts, [&](size_t count) { return count == counts->front(); }));
  }
}

TEST_CASE("several threads write one path: a reader sees one whole file or another") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("file");
  constexpr size_t length = 200'000;
  const auto is_whole = [&](const std::string& text) {
    return text.size() == length && std::ranges::all_of(text, [&](char letter) { return letter == text[0]; });
  };
  const auto write = [&](int i) {
    const std::string text(length, static_cast<char>('a' + i));
    write_whole(path, [&](std::ostream& stream) { stream << text; });
  };
  write(0);
  CHECK(failures_of([&](int i) {
          for (int round = 0; round < 10; ++round) {
            if (i > 0) write(i);
            else if (!is_whole(read_whole(path))) return false;
          }
          return true;
        }) == 0);
  CHECK(is_whole(read_whole(path)));
  const auto entries = std::filesystem::directory_iterator(folder.path("."));
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}

TEST_CASE("several threads read one file of more than 64 MiB, and open it again") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("file");
  test::write_text(path, "begin");
  constexpr size_t size = size_t{80} << 20;
  std::filesystem::resize_file(path, size);
  const InputFile shared(path);
  const auto sum = [](const InputFile& file) {
    std::vector<uint8_t> block(65536);
    size_t all = 0;
    for (uint64_t at = 0; at < file.size(); at += block.size()) file.read(at, block), all += block[0];
    return all;
  };
  CHECK(failures_of([&](int) {
          for (int round = 0; round < 3; ++round) {
            const InputFile own(path);
            if (sum(shared) != 'b' || sum(own) != 'b') return false;
            shared.require_unchanged();
          }
          return true;
        }) == 0);
}

TEST_CASE("threads execute instructions, each on its own state") {
  std::vector<Case> cases;
  for (const Instruction& instruction : test::sample_instructions()) cases.push_back(test::sample_case(instruction, 5));
  std::vector<State> expected;
  for (const Case& this_case : cases) {
    expected.push_back(this_case.before);
    execute(this_case.instruction, this_case.target, expected.back());
  }
  CHECK(failures_of([&](int i) {
          for (size_t j = 0; j < cases.size(); ++j) {
            const size_t at = (j + static_cast<size_t>(i)) % cases.size();
            State state = cases[at].before;
            execute(cases[at].instruction, cases[at].target, state);
            if (state != expected[at]) return false;
          }
          return true;
        }) == 0);
}

TEST_CASE("from C every thread has the text of its own last error") {
  CHECK(failures_of([](int i) {
          const std::string name = "thread" + std::to_string(i);
          for (int round = 0; round < 50; ++round) {
            bitmma_instruction* instruction = nullptr;
            if (bitmma_instruction_parse((name + ".mma").c_str(), &instruction) == BITMMA_OK) return false;
            if (std::string(bitmma_last_error()).find(name) == std::string::npos) return false;
          }
          return true;
        }) == 0);
}
