// SPDX-License-Identifier: MIT
#include "wrong_flags.hpp"

#include <fmt/format.h>

#include <array>

#include "bitmma/core/text.hpp"
#include "output.hpp"

namespace bitmma::cli {

void WrongFlags::add(Command& command) {
  command.add_option("--fault", faults,
                     "write D of a program with this mistake: an id of bitmma diagnose FILE --list; two may be given");
  command.add_option("--set", changes,
                     "write D of a program that has another code at a place: 'a[3,4]=0x3c00', 'a_regs[0,1]=0x3c003c00' "
                     "(thread, register), 'smem[0x400]=0xff', 'a_desc=0x4000404000010000'");
}

void WrongFlags::write(Context& context, const VectorFile& vectors, const std::string& path) const {
  constexpr std::array<FlagOfField, 3> names{{{"fault", "--fault"}, {"faults", "--fault"}, {"set", "--set"}}};
  const WrongFile written = naming_flags(names, [&] {
    WrongProgram program{.faults = faults};
    for (const std::string& text : *changes) program.changes.push_back(parse_change(text));
    return with_wrong_d(vectors, program);
  });
  context.require_flags_acted();
  write_tensor_file(path, written.file);
  context.terminal.err << fmt::format("{}: {}, D of a wrong program: {} of {} {} wrong\n", printable(path),
                                      counted(written.cases, "case"), written.wrong, counted(written.outputs, "output"),
                                      written.wrong == 1 ? "is" : "are");
}

}  // namespace bitmma::cli
