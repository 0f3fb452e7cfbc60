// SPDX-License-Identifier: MIT
// tcgen05.ld, .ld.red, .st, .cp and .shift, inside the frame that all tcgen05 instructions share. A warp issues ld and
// st, with its registers; one thread issues the others.
#include <fmt/format.h>

#include "text.hpp"
#include "tmem_frame.hpp"

namespace bitmma::kernels {
namespace {

/// Computes the address of this thread's registers: [32, count] words of a case of bytes_per_case bytes in all.
std::string find_registers(const KernelParameter& parameter, int count, int64_t first_byte = 0) {
  return fmt::format(
             "  ld.param.u64 pointer, [{}];\n"
             "  mul.wide.u32 offset, case_index, {};\n"
             "  add.s64 pointer, pointer, offset;\n"
             "  and.b32 position, thread, 31;\n"
             "  mul.wide.u32 offset, position, {};\n"
             "  add.s64 pointer, pointer, offset;\n",
             parameter.name, parameter.bytes_per_case, 4 * count) +
         (first_byte == 0 ? "" : fmt::format("  add.s64 pointer, pointer, {};\n", first_byte));
}

}  // namespace

Kernel kernel_of(const TmemMove& instruction, const Request& request) {
  Kernel kernel = tmem_parameters(request, instruction.cta_group);
  const int count = registers_of(request.statement, "r");
  Body body{.load = load_address(Field::taddr), .by_one_thread = !instruction.has_registers()};
  switch (instruction.kind) {
    case MoveKind::ld:
    case MoveKind::ld_red:
      body.after =
          "  tcgen05.wait::ld.sync.aligned;\n" + find_registers(kernel.output, count) + store_lines("v", "u32", count);
      if (instruction.kind == MoveKind::ld_red) {
        body.after += find_registers(kernel.output, 1, kernel.output.slots.back().offset_bytes) +
                      "  st.global.u32 [pointer], redval0;\n";
      }
      body.result_is_tmem = false;
      break;
    case MoveKind::st:
      body.load += find_registers(kernel.inputs.back(), count) + load_lines("v", "u32", count);
      body.after = "  tcgen05.wait::st.sync.aligned;\n";
      break;
    case MoveKind::cp: body.load += load_descriptor(Field::s_desc, "a_desc", *request.shape.target); break;
    case MoveKind::shift: break;
  }
  kernel.text = tmem_kernel_text(kernel, request, body);
  return kernel;
}

}  // namespace bitmma::kernels
