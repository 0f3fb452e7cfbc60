// SPDX-License-Identifier: MIT
// wgmma: one CTA with one warpgroup per case. The kernel puts the image into shared memory and its address into the
// descriptors. Then come fence, the instruction, commit, wait, and the store of D.
#include <fmt/format.h>

#include "parameters.hpp"
#include "text.hpp"

namespace bitmma::kernels {
namespace {

/// PTX requires accumulator registers of D's type; two f16 share a .b32.
std::string_view accumulator_type(Format d) { return d == Format::f32 ? "f32" : "b32"; }

/// Loads a descriptor and adds the image's address within its start field.
std::string load_descriptor(std::string_view name) {
  return fmt::format(
      "  ld.param.u64 pointer, [{0}_in];\n"
      "  mul.wide.u32 offset, case_index, 8;\n"
      "  add.s64 pointer, pointer, offset;\n"
      "  ld.global.u64 {0}, [pointer];\n"
      "  add.s64 offset, {0}, base_units;\n"
      "  and.b64 offset, offset, 0x3FFF;\n"
      "  and.b64 {0}, {0}, 0xFFFFFFFFFFFFC000;\n"
      "  or.b64 {0}, {0}, offset;\n",
      name);
}

}  // namespace

Kernel kernel_of(const Wgmma& instruction, const Request& request) {
  Kernel kernel{.shape = request.shape};
  for (const Field field :
       {Field::smem, Field::a_desc, Field::b_desc, Field::a_regs, Field::metadata, Field::accumulator})
    kernel.inputs.push_back(input_of(request, field));
  kernel.output = output_of(request, "d_regs_out");
  const int d_registers = registers_of(request.statement, "d");
  const std::string_view type = accumulator_type(instruction.d);
  std::string& text = kernel.text;
  text = fmt::format(
             "// {}\n"
             "// one CTA of {} threads per case; image of {} bytes\n"
             ".version 8.4\n"
             ".target {}\n"
             ".address_size 64\n"
             "\n"
             ".extern .shared .align 1024 .b8 shared[];\n"
             "\n",
             request.mnemonic, kernel_threads, request.shape.image_bytes, request.target) +
         entry_text(kernel);
  text += fmt::format(
      "{{\n"
      "  .reg .pred more, scale_d;\n"
      "  .reg .b32 thread, case_index, flat_thread, base, position, address, w0, w1, w2, w3, flag;\n"
      "  .reg .b64 pointer, offset, base_units, a_desc, b_desc;\n"
      "  .reg .b32 a<4>, metadata<1>;\n"
      "  .reg .{} d<{}>;\n"
      "\n"
      "  mov.u32 thread, %tid.x;\n"
      "  mov.u32 case_index, %ctaid.x;\n"
      "  mad.lo.u32 flat_thread, case_index, {}, thread;\n",
      type, d_registers, kernel_threads);
  text += align_image() + "\n" + copy_image("case_index", kernel_image_stride(request.shape.image_bytes));
  text +=
      "  fence.proxy.async;  // wgmma reads through the async proxy\n"
      "  bar.sync 0;\n"
      "\n"
      "  cvt.u64.u32 base_units, base;\n"
      "  shr.u64 base_units, base_units, 4;\n";
  text += instruction.a_source == OperandSource::registers ? load_registers("a_regs_in", "a", "b32", 4)
                                                           : load_descriptor("a_desc");
  text += load_descriptor("b_desc");
  if (instruction.sparse) text += load_registers("metadata_in", "metadata", "b32", 1);
  text += load_registers("c_regs_in", "d", type, d_registers);
  text += fmt::format(
      "  mov.u32 flag, {};\n"
      "  setp.ne.u32 scale_d, flag, 0;\n"
      "\n"
      "  wgmma.fence.sync.aligned;\n"
      "  {}\n"
      "  wgmma.commit_group.sync.aligned;\n"
      "  wgmma.wait_group.sync.aligned 0;\n"
      "\n",
      instruction.enable_input_d ? 1 : 0, print(request.statement));
  text += store_registers("d_regs_out", "d", type, d_registers) + "  ret;\n}\n";
  return kernel;
}

}  // namespace bitmma::kernels
