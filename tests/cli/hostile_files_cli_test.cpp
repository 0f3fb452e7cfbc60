// Files as nobody means them, before every command that reads one: what one command refuses, all refuse.
#include <array>

#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "run.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::Outcome, test::run;

namespace {

constexpr auto number_names =
    std::to_array<std::string_view>({"d_tmem", "a_tmem", "metadata_tmem", "scale_a_tmem", "scale_b_tmem", "taddr"});

Instruction with_a_in_tmem(Tcgen05Mma mma) {
  mma.a_source = OperandSource::tmem;
  return mma;
}

/// Instructions that read and write Tensor Memory in every way.
std::vector<Instruction> users_of_tensor_memory() {
  return {Tcgen05Mma{.m = 64, .n = 8},
          Tcgen05Mma{.cta_group = 2, .n = 16, .sparse = true},
          with_a_in_tmem({.kind = MmaKind::f8f6f4, .weight_stationary = true, .m = 32, .n = 64}),
          with_a_in_tmem({.kind = MmaKind::tf32, .m = 128, .n = 8, .sparse = true}),
          Tcgen05Mma{.kind = MmaKind::mxf8f6f4, .n = 16},
          Tcgen05Mma{.kind = MmaKind::mxf4, .cta_group = 2, .n = 16, .sparse = true},
          Tcgen05Mma{.kind = MmaKind::mxf4nvf4, .m = 128, .n = 16},
          parse_instruction("tcgen05.ld.sync.aligned.16x64b.x4.b32"),
          parse_instruction("tcgen05.st.sync.aligned.32x32b.x2.b32"),
          parse_instruction("tcgen05.cp.cta_group::1.4x256b"),
          parse_instruction("tcgen05.shift.cta_group::1.down")};
}

TensorFile golden_of(const Instruction& instruction) {
  return make_golden({.instruction = instruction, .cases = 1, .seed = 3}, 1);
}

Tensor word_tensor(std::string_view name, uint32_t word) {
  std::vector<uint8_t> bytes;
  for (int byte = 0; byte < 4; ++byte) bytes.push_back(static_cast<uint8_t>(word >> 8 * byte));
  return Tensor::from_bytes(std::string(name), "U32", {1}, bytes);
}

/// The first `columns` columns of Tensor Memory.
TensorFile with_columns(TensorFile file, int64_t columns) {
  for (const char* name : {"tmem", "tmem_after"}) {
    const Tensor* tensor = file.find(name);
    if (!tensor) continue;
    std::vector<int64_t> shape = tensor->shape;
    const auto before = static_cast<size_t>(shape.back()), after = static_cast<size_t>(columns);
    shape.back() = columns;
    std::vector<uint8_t> bytes;
    for (size_t row = 0; row < tensor->bytes.size() / (4 * before); ++row) {
      for (size_t i = 0; i < 4 * after; ++i)
        bytes.push_back(i < 4 * before ? tensor->bytes.view()[row * 4 * before + i] : 0);
    }
    file.set(Tensor::from_bytes(name, "U32", shape, bytes));
  }
  return file;
}

/// What the commands that compute say: 0 or 1, and 2 where the file is refused.
struct Verdicts {
  std::vector<std::pair<std::string, Outcome>> outcomes;

  bool all_refuse() const {
    return std::ranges::all_of(outcomes, [](const auto& outcome) { return outcome.second.code == 2; });
  }
  bool none_refuses() const {
    return std::ranges::none_of(outcomes, [](const auto& outcome) { return outcome.second.code == 2; });
  }
  std::string text() const {
    std::string all;
    for (const auto& [command, outcome] : outcomes)
      all += command + ": " + std::to_string(outcome.code) + " " + outcome.err.substr(0, 200) + "\n";
    return all;
  }
};

Verdicts verdicts_on(const std::string& path, const std::string& out, bool is_mma) {
  std::vector<std::vector<std::string>> commands{{"verify", path, "--threads", "2"},
                                                 {"simulate", path},
                                                 {"simulate", path, "-o", out},
                                                 {"verify", path, "--json"}};
  if (is_mma) {
    commands.push_back({"explain", path, "--row", "3", "--col", "3"});
    commands.push_back({"explain", path, "--row", "3", "--col", "3", "--json"});
    commands.push_back({"diagnose", path, "--no-pairs"});
  }
  Verdicts verdicts;
  for (const auto& command : commands) {
    Outcome outcome = run(command);
    CHECK((outcome.code == 0 || outcome.code == 1 || outcome.code == 2));
    if (outcome.code == 2) CHECK_FALSE(outcome.violations.empty());
    std::string line;
    for (const std::string& word : command) line += word == path ? "FILE " : word + " ";
    verdicts.outcomes.emplace_back(line, std::move(outcome));
  }
  // What the others refuse, lint finds suspicious.
  const Outcome lint = run({"simulate", path, "--lint"});
  INFO(lint.out << lint.err);
  CHECK((lint.code == 0 || lint.code == 1 || lint.code == 2));
  if (verdicts.all_refuse()) CHECK(lint.code != 0);
  // These two never compute; they must end well, or refuse.
  for (const auto& command : {std::vector<std::string>{"ptx", path}, std::vector<std::string>{"compare", path, path}})
    CHECK(run(command).code <= 2);
  return verdicts;
}

}  // namespace

TEST_CASE("operands outside the Tensor Memory that a file has are refused by every command", "[long]") {
  const std::vector<uint32_t> some{8, 504, 0x0010'0000u};
  const std::vector<uint32_t> all{0, 8, 28, 31, 200, 504, 511, 512, 0x0010'0000u, 0x007F'01FFu, 0xFFFF'FFFFu};
  const std::vector<uint32_t> addresses = test::amount(some, all, all);
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors"), out = folder.path("out.safetensors");
  int refused = 0, taken = 0;
  for (const Instruction& instruction : users_of_tensor_memory()) {
    const TensorFile good = golden_of(instruction);
    for (const std::string_view name : number_names) {
      if (!good.find(name)) continue;
      for (const uint32_t address : addresses) {
        TensorFile file = good;
        file.set(word_tensor(name, address));
        write_tensor_file(path, file);
        const Verdicts verdicts = verdicts_on(path, out, is_mma(instruction));
        INFO(print(instruction) << " with " << name << " = " << address << "\n" << verdicts.text());
        CHECK((verdicts.all_refuse() || verdicts.none_refuses()));
        (verdicts.all_refuse() ? refused : taken) += 1;
      }
    }
  }
  CHECK(refused > 10 * static_cast<int>(addresses.size()));
  CHECK(taken > static_cast<int>(addresses.size()));
}

TEST_CASE("Tensor Memory without columns, with too few or with too many is refused by every command") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors"), out = folder.path("out.safetensors");
  const int every = test::amount(7, 1, 1);
  int tried = 0;
  for (const Instruction& instruction : users_of_tensor_memory()) {
    const TensorFile good = golden_of(instruction);
    for (const int64_t columns : {0, 1, 513}) {
      if (tried++ % every != 0) continue;
      write_tensor_file(path, with_columns(good, columns));
      const Verdicts verdicts = verdicts_on(path, out, is_mma(instruction));
      INFO(print(instruction) << " with " << columns << " columns\n" << verdicts.text());
      CHECK(verdicts.all_refuse());
    }
  }
}

TEST_CASE("an image of shared memory that ends before the operands do is refused by every command") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors"), out = folder.path("out.safetensors");
  for (const Instruction& instruction : {Instruction(Wgmma{.n = 16}), Instruction(Tcgen05Mma{.cta_group = 2, .n = 16}),
                                         Instruction(Tcgen05Mma{.kind = MmaKind::mxf4, .n = 16}),
                                         parse_instruction("tcgen05.cp.cta_group::1.128x256b")}) {
    TensorFile file = golden_of(instruction);
    const Tensor* smem = file.find("smem");
    std::vector<int64_t> shape = smem->shape;
    shape.back() = 16;
    file.set(Tensor::from_bytes("smem", "U8", shape,
                                std::vector<uint8_t>(static_cast<size_t>(shape.size() == 3 ? 16 * shape[1] : 16))));
    write_tensor_file(path, file);
    const Verdicts verdicts = verdicts_on(path, out, is_mma(instruction));
    INFO(print(instruction) << "\n" << verdicts.text());
    CHECK(verdicts.all_refuse());
  }
}

TEST_CASE("names of files that are not UTF-8, or that would speak to a terminal, are shown harmless") {
  const test::TemporaryFolder folder;
  const std::string bytes = test::read_text(test::one_golden);
  for (const std::string name : {"a\xff.safetensors", "a\x1b[31m.safetensors"}) {
    const std::string path = folder.path(name);
    test::write_text(path, bytes);
    for (const std::vector<std::string>& command : {std::vector<std::string>{"verify", path, "--json"},
                                                    {"verify", path},
                                                    {"simulate", path, path, "--lint"},
                                                    {"simulate", path, "--lint", "--json"},
                                                    {"simulate", path, path},
                                                    {"compare", path, path, "--json"},
                                                    {"compare", path, folder.path(name + "absent")},
                                                    {"verify", folder.path(name + "absent")},
                                                    {"simulate", path, "-o", folder.path(name + "out")},
                                                    {"explain", path, "--json"},
                                                    {"verify", name},
                                                    {name},
                                                    {"verify", path, "--threads", name}}) {
      const Outcome outcome = run(command);
      INFO(command[0] << ": " << outcome.out << outcome.err);
      CHECK(outcome.code <= 2);
      CHECK((outcome.out + outcome.err).find_first_of("\x1b\xff") == std::string::npos);
      for (const char* words : {"json.exception", "filesystem error", "std::"})
        CHECK(outcome.err.find(words) == std::string::npos);
    }
  }
}
