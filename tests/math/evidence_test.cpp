#include "bitmma/math/evidence.hpp"

#include <fmt/format.h>

#include <set>
#include <sstream>

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/ptxas.hpp"

using namespace bitmma;

TEST_CASE("ptxas takes a floating-point instruction on the targets that the table has, and on no other",
          "[rule:math]") {
  if (!test::require_ptxas("targets of floating-point instructions")) return;
  constexpr std::string_view declarations =
      ".reg .b16 %d16, %a16, %b16, %c16; .reg .b32 %d32, %a32, %b32, %c32; .reg .b64 %d64, %a64, %b64, %c64;\n";
  std::vector<std::string> statements;
  for (const MathInstruction& instruction : math_instructions()) {
    const int bits = result_bits(instruction);
    std::string text = fmt::format("{} %d{}", print(instruction), bits);
    for (const char letter :
         std::string_view("abc").substr(0, static_cast<size_t>(operand_count(instruction.operation))))
      text += fmt::format(", %{}{}", letter, bits);
    statements.push_back(text + ";");
  }
  const std::array wanted{Target::sm_75, Target::sm_80, Target::sm_86, Target::sm_89, Target::sm_90, Target::sm_100};
  for (const Target target : test::known_to_ptxas(wanted)) {
    const std::vector<char> takes = test::ptxas_takes_statements(declarations, statements, target, test::ptxas_isa());
    for (size_t i = 0; i < statements.size(); ++i) {
      INFO(print(target) << ": " << statements[i]);
      CHECK((takes[i] != 0) == targets_of(math_instructions()[i]).contains(target));
    }
  }
}
