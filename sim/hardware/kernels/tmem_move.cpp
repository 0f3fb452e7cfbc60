// tcgen05.ld, .st, .cp and .shift, in the frame that all tcgen05 instructions share. A warp issues ld and st, with its
// registers; one thread the others.
#include <fmt/format.h>

#include "text.hpp"
#include "tmem_frame.hpp"

namespace bitmma::kernels {
namespace {

/// Points to this thread's registers in [cases, 32, count].
std::string find_registers(std::string_view parameter, int count) {
  return fmt::format(
      "  and.b32 position, thread, 31;\n"
      "  mad.lo.u32 position, case_index, 32, position;\n"
      "  mul.wide.u32 offset, position, {};\n"
      "  ld.param.u64 pointer, [{}];\n"
      "  add.s64 pointer, pointer, offset;\n",
      4 * count, parameter);
}

}  // namespace

Kernel kernel_of(const TmemMove& instruction, const Request& request) {
  Kernel kernel = tmem_parameters(request, instruction.cta_group);
  const int count = registers_of(request.statement, "r");
  Body body{.load = load_address(Field::taddr), .by_one_thread = !instruction.has_registers()};
  switch (instruction.kind) {
    case MoveKind::ld:
      body.after =
          "  tcgen05.wait::ld.sync.aligned;\n" + find_registers("result_out", count) + store_lines("v", "u32", count);
      body.result_is_tmem = false;
      break;
    case MoveKind::st:
      body.load += find_registers("regs_in", count) + load_lines("v", "u32", count);
      body.after = "  tcgen05.wait::st.sync.aligned;\n";
      break;
    case MoveKind::cp: body.load += load_descriptor(Field::s_desc, "a_desc"); break;
    case MoveKind::shift: break;
  }
  kernel.text = tmem_kernel_text(kernel, request, body);
  return kernel;
}

}  // namespace bitmma::kernels
