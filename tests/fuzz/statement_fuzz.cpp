// PTX text: what is read prints as text that reads as the same.
#include "bitmma/instruction/cutlass_atom.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/ptx_file.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/instruction/support_instruction.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

/// PTX as a file: whatever the text, what is found in it is read or refused.
void read_file(const std::string& text, Target target) {
  for (const PtxStatement& statement : scan_ptx(text).statements) {
    require(statement.line >= 1 && !statement.text.empty() && statement.text.find('\n') == std::string::npos,
            "a statement is a line");
    accepts([&] { (void)parse_ptx_statement(statement.text); });
    SupportInstruction instruction;
    if (!accepts([&] { instruction = parse_support_instruction(statement.text); })) continue;
    (void)meaning_of(instruction), (void)violations_of(instruction, target);
  }
  accepts([&] { (void)parse_cutlass_atom(text); });
}

void read(const std::string& text, Target target) {
  read_file(text, target);
  Instruction instruction;
  if (accepts([&] { instruction = parse_instruction(text); })) {
    const std::string printed = print(instruction);
    require(print(parse_instruction(printed)) == printed, "a mnemonic prints as it was read");
    (void)immediates_of(instruction);
  }
  Statement statement;
  if (!accepts([&] { statement = parse_statement(text); })) return;
  const std::string printed = print(statement);
  const Statement again = parse_statement(printed);
  require(again == statement && print(again) == printed, "a statement prints as it was read");
  const std::vector<Violation> violations = violations_of(statement.instruction, target);
  for (const Violation& violation : violations) (void)print(violation);
  require(accepts([&] { require_legal(statement.instruction, target); }) == violations.empty(), "must be legal");
  accepts([&] { (void)fields_of(statement.instruction); });
  accepts([&] { (void)choices_of(statement.instruction, target); });
  if (!violations.empty()) return;
  require(ptx_version_of(statement.instruction, target) >= info(target).ptx, "a target has its PTX version");
  require(targets_of(statement.instruction).contains(target), "a legal instruction's targets have it");
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  const Target target = any_target(in);
  if (!one_in(in, 4)) return read(in.ConsumeRemainingBytesAsString(), target);
  // A statement that is right, and a place in it that is not.
  std::string text = print(statement_of(listed_instruction(in)));
  for (int changes = between(in, 0, 3); changes > 0 && !text.empty(); --changes) {
    const auto at = in.ConsumeIntegralInRange<std::size_t>(0, text.size() - 1);
    const auto length = in.ConsumeIntegralInRange<std::size_t>(0, 4);
    text.replace(at, length, in.ConsumeRandomLengthString(6));
  }
  read(text, target);
}
