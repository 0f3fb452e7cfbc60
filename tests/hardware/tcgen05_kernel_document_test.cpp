// docs/tcgen05_kernel.md against the kernels that it walks through.
#include <array>
#include <set>
#include <sstream>

#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// A block of the page: the mnemonic of its first line, and the lines that it quotes.
struct Quotation {
  std::string mnemonic = {};
  std::vector<std::string> lines = {};
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<Quotation> quotations() {
  std::vector<Quotation> all;
  bool inside = false;
  for (const std::string& line : lines_of(test::read_text(test::source_path("docs/tcgen05_kernel.md")))) {
    if (line == "```ptx") {
      inside = true;
      all.emplace_back();
    } else if (line == "```") {
      inside = false;
    } else if (inside && all.back().mnemonic.empty()) {
      REQUIRE(line.starts_with("// "));
      all.back().mnemonic = line.substr(3);
    } else if (inside) {
      all.back().lines.push_back(line);
    }
  }
  return all;
}

/// "{...}" stands for a list of registers.
bool is_quoted_as(const std::string& line, const std::string& quoted) {
  const size_t dots = quoted.find("{...}");
  if (dots == std::string::npos) return line == quoted;
  return line.starts_with(quoted.substr(0, dots + 1)) && line.ends_with(quoted.substr(dots + 4));
}

std::vector<std::string> kernel_lines(const std::string& mnemonic) {
  return lines_of(ptx_kernel(parse_instruction(mnemonic), {.image_bytes = 4096, .columns = 128}).text);
}

}  // namespace

TEST_CASE(
    "docs/tcgen05_kernel.md quotes the kernels as they are, in their order, and all that orders, waits or allocates",
    "[unsanitized]") {
  const std::vector<Quotation> all = quotations();
  CHECK(all.size() > 12);
  std::set<std::string> mnemonics, quoted;
  for (const Quotation& block : all) {
    INFO(block.mnemonic);
    CHECK(block.lines.size() > 2);
    mnemonics.insert(block.mnemonic);
    const std::vector<std::string> kernel = kernel_lines(block.mnemonic);
    size_t at = 0;
    for (const std::string& line : block.lines) {
      INFO(line);
      quoted.insert(line);
      while (at < kernel.size() && !is_quoted_as(kernel[at], line)) ++at;
      REQUIRE(at++ < kernel.size());
    }
  }
  CHECK(mnemonics.size() > 4);
  constexpr std::array words{"tcgen05.", "mbarrier", "fence", "barrier", "bar.sync", "trap", "mapa", "%clock"};
  for (const std::string& mnemonic : mnemonics) {
    for (const std::string& line : kernel_lines(mnemonic)) {
      const bool matters = line.starts_with("  ") && std::ranges::any_of(words, [&](const char* word) {
                             return line.find(word) != std::string::npos;
                           });
      if (!matters) continue;
      INFO(mnemonic << ": " << line);
      CHECK(std::ranges::any_of(quoted, [&](const std::string& quotation) { return is_quoted_as(line, quotation); }));
    }
  }
}

TEST_CASE("every wait of a tcgen05 kernel for an mbarrier has a bound, behind which it traps") {
  int waits = 0;
  for (const char* mnemonic : {"tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma.cta_group::2.kind::f16",
                               "tcgen05.cp.cta_group::2.128x256b", "tcgen05.shift.cta_group::1.down"}) {
    INFO(mnemonic);
    const std::vector<std::string> lines = kernel_lines(mnemonic);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].find("try_wait") == std::string::npos) continue;
      ++waits;
      REQUIRE(i + 6 < lines.size());
      CHECK(lines[i - 1] == "wait:");
      CHECK(lines[i + 1] == "  @done bra arrived;");
      CHECK(lines[i + 4].starts_with("  setp.lt.u64 more, now, 0x"));
      CHECK(lines[i + 5] == "  @more bra wait;");
      CHECK(lines[i + 6].starts_with("  trap;"));
    }
    CHECK(std::ranges::count_if(
              lines, [](const std::string& line) { return line.find("bra wait;") != std::string::npos; }) == 1);
  }
  CHECK(waits == 4);
}
