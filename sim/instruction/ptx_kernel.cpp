#include "bitmma/instruction/ptx_kernel.hpp"

#include <fmt/format.h>

#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "bitmma/instruction/tcgen05.hpp"

namespace bitmma {
namespace {

/// "{d0, d1, d2}".
std::string register_list(std::string_view prefix, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}{}", i ? ", " : "", prefix, i);
  return text + "}";
}

/// PTX wants accumulators in registers of the type of D; two f16 share a .b32.
std::string_view accumulator_type(Format d) { return d == Format::f32 ? "f32" : "b32"; }

bool has_scale_immediates(const Instruction& instruction) {
  const LegalForm* form = find_legal_form(instruction);
  return form ? form->scale : info(instruction.a).kind == NumberKind::floating;
}

bool has_transpose_immediates(const Instruction& instruction) {
  const LegalForm* form = find_legal_form(instruction);
  // Where the table has no such row, write them where the request needs them, for ptxas to judge.
  return (form && form->transpose) || instruction.imm_trans_a != 0 || instruction.imm_trans_b != 0;
}

/// Registers of D, also where n is not legal.
int d_register_count(const Instruction& instruction) {
  return std::max(1, instruction.n / (info(instruction.d).bits == 16 ? 4 : 2));
}

/// Loads `count` registers of this thread from a [cases, 128, count] tensor.
std::string load_registers(std::string_view parameter, std::string_view prefix, std::string_view type, int count) {
  std::string text = fmt::format(
      "  ld.param.u64 pointer, [{}];\n"
      "  mul.wide.u32 offset, flat_thread, {};\n"
      "  add.s64 pointer, pointer, offset;\n",
      parameter, 4 * count);
  for (int i = 0; i < count; ++i) text += fmt::format("  ld.global.{} {}{}, [pointer+{}];\n", type, prefix, i, 4 * i);
  return text;
}

/// Loads a descriptor and adds the image's address to its start field, inside the field.
std::string load_descriptor(std::string_view parameter, std::string_view name) {
  return fmt::format(
      "  ld.param.u64 pointer, [{0}];\n"
      "  mul.wide.u32 offset, case_index, 8;\n"
      "  add.s64 pointer, pointer, offset;\n"
      "  ld.global.u64 {1}, [pointer];\n"
      "  add.s64 offset, {1}, base_units;\n"
      "  and.b64 offset, offset, 0x3FFF;\n"
      "  and.b64 {1}, {1}, 0xFFFFFFFFFFFFC000;\n"
      "  or.b64 {1}, {1}, offset;\n",
      parameter, name);
}

}  // namespace

std::string_view ptx_target(const Instruction& instruction) {
  if (instruction.family == Family::mma_sync) return "sm_120a";
  return instruction.family == Family::tcgen05 ? tcgen05_targets(instruction).front() : "sm_90a";
}

std::string ptx_statement(const Instruction& instruction) {
  if (instruction.family == Family::tcgen05) {
    std::string text = fmt::format("{} [d_tmem], {}, b_desc, ", print(instruction),
                                   instruction.a_source == OperandSource::tmem ? "[a_tmem]" : "a_desc");
    if (instruction.sparse) text += "[metadata_tmem], ";
    text += "idesc, ";
    if (instruction.has_block_scales()) text += "[scale_a_tmem], [scale_b_tmem], ";
    if (has_lane_masks(instruction)) text += register_list("mask", 4 * instruction.cta_group) + ", ";
    text += "enable_input_d";
    if (instruction.weight_stationary) text += ", zero_column_mask";
    if (instruction.scale_input_d != 0) text += fmt::format(", {}", instruction.scale_input_d);
    return text + ";";
  }
  if (instruction.family == Family::mma_sync) {
    std::string text =
        fmt::format("{} {}, {}, {}, {}", print(instruction), register_list("d", 4), register_list("a", 4),
                    register_list("b", instruction.sparse ? 4 : 2), register_list("c", 4));
    if (instruction.sparse) text += fmt::format(", metadata0, {}", instruction.sparsity_selector);
    return text + fmt::format(", scale_a0, {{{}, {}}}, scale_b0, {{{}, {}}};", instruction.scale_a_id,
                              instruction.thread_a_id, instruction.scale_b_id, instruction.thread_b_id);
  }
  const bool a_in_registers = instruction.a_source == OperandSource::registers;
  std::string text =
      fmt::format("{} {}, {}, b_desc", print(instruction), register_list("d", d_register_count(instruction)),
                  a_in_registers ? register_list("a", 4) : "a_desc");
  if (instruction.sparse) text += fmt::format(", metadata0, {}", instruction.sparsity_selector);
  text += ", scale_d";
  if (has_scale_immediates(instruction))
    text += fmt::format(", {}, {}", instruction.imm_scale_a, instruction.imm_scale_b);
  if (has_transpose_immediates(instruction)) {
    if (!a_in_registers) text += fmt::format(", {}", instruction.imm_trans_a);
    text += fmt::format(", {}", instruction.imm_trans_b);
  }
  return text + ";";
}

namespace {

/// One warp a case; the other threads of the CTA leave at once.
std::string mma_sync_kernel(const Instruction& instruction) {
  std::string text = fmt::format(
      "// {}\n"
      "// one warp per case\n"
      ".version 8.7\n"
      ".target {}\n"
      ".address_size 64\n"
      "\n"
      ".visible .entry {}(\n"
      "    .param .u64 a_regs_in, .param .u64 b_regs_in, .param .u64 metadata_in, .param .u64 c_regs_in,\n"
      "    .param .u64 scale_a_in, .param .u64 scale_b_in, .param .u64 d_regs_out)\n"
      "{{\n"
      "  .reg .pred idle;\n"
      "  .reg .b32 thread, case_index, flat_thread;\n"
      "  .reg .b64 pointer, offset;\n"
      "  .reg .b32 a<4>, b<4>, metadata<1>, scale_a<1>, scale_b<1>;\n"
      "  .reg .f32 c<4>, d<4>;\n"
      "\n"
      "  mov.u32 thread, %tid.x;\n"
      "  setp.ge.u32 idle, thread, 32;\n"
      "  @idle ret;\n"
      "  mov.u32 case_index, %ctaid.x;\n"
      "  mad.lo.u32 flat_thread, case_index, 32, thread;\n",
      print(instruction), ptx_target(instruction), kernel_name);
  text += load_registers("a_regs_in", "a", "b32", 4) +
          load_registers("b_regs_in", "b", "b32", instruction.sparse ? 4 : 2) +
          load_registers("c_regs_in", "c", "f32", 4);
  text += load_registers("scale_a_in", "scale_a", "b32", 1) + load_registers("scale_b_in", "scale_b", "b32", 1);
  if (instruction.sparse) text += load_registers("metadata_in", "metadata", "b32", 1);
  text += fmt::format(
      "\n  {}\n\n  ld.param.u64 pointer, [d_regs_out];\n  mul.wide.u32 offset, flat_thread, 16;\n  add.s64 pointer, "
      "pointer, offset;\n",
      ptx_statement(instruction));
  for (int i = 0; i < 4; ++i) text += fmt::format("  st.global.f32 [pointer+{}], d{};\n", 4 * i, i);
  return text + "  ret;\n}\n";
}

}  // namespace

std::string ptx_kernel(const Instruction& instruction, int64_t image_bytes) {
  if (instruction.family == Family::mma_sync) return mma_sync_kernel(instruction);
  const int d_registers = d_register_count(instruction);
  const std::string_view type = accumulator_type(instruction.d);
  std::string text = fmt::format(
      "// {0}\n"
      "// one CTA of {1} threads per case; image of {2} bytes\n"
      ".version 8.4\n"
      ".target {3}\n"
      ".address_size 64\n"
      "\n"
      ".extern .shared .align 1024 .b8 shared[];\n"
      "\n"
      ".visible .entry {4}(\n"
      "    .param .u64 smem_in, .param .u64 a_desc_in, .param .u64 b_desc_in, .param .u64 a_regs_in,\n"
      "    .param .u64 metadata_in, .param .u64 c_regs_in, .param .u64 d_regs_out)\n"
      "{{\n"
      "  .reg .pred more, scale_d;\n"
      "  .reg .b32 thread, case_index, flat_thread, base, position, address, w0, w1, w2, w3, flag;\n"
      "  .reg .b64 pointer, offset, base_units, a_desc, b_desc;\n"
      "  .reg .b32 a<4>, metadata<1>;\n"
      "  .reg .{5} d<{6}>;\n"
      "\n"
      "  mov.u32 thread, %tid.x;\n"
      "  mov.u32 case_index, %ctaid.x;\n"
      "  mad.lo.u32 flat_thread, case_index, {1}, thread;\n"
      "  mov.u32 base, shared;\n"
      "  add.u32 base, base, 1023;\n"
      "  and.b32 base, base, 0xFFFFFC00;\n"
      "\n"
      "  // the image, 16 bytes a thread and round\n"
      "  ld.param.u64 pointer, [smem_in];\n"
      "  mul.wide.u32 offset, case_index, {7};\n"
      "  add.s64 pointer, pointer, offset;\n"
      "  shl.b32 position, thread, 4;\n"
      "copy:\n"
      "  setp.lt.u32 more, position, {7};\n"
      "  @!more bra copied;\n"
      "  cvt.u64.u32 offset, position;\n"
      "  add.s64 offset, pointer, offset;\n"
      "  ld.global.v4.u32 {{w0, w1, w2, w3}}, [offset];\n"
      "  add.u32 address, base, position;\n"
      "  st.shared.v4.u32 [address], {{w0, w1, w2, w3}};\n"
      "  add.u32 position, position, {8};\n"
      "  bra copy;\n"
      "copied:\n"
      "  fence.proxy.async;  // wgmma reads through the async proxy\n"
      "  bar.sync 0;\n"
      "\n"
      "  cvt.u64.u32 base_units, base;\n"
      "  shr.u64 base_units, base_units, 4;\n",
      print(instruction), kernel_threads, image_bytes, ptx_target(instruction), kernel_name, type, d_registers,
      kernel_image_stride(image_bytes), 16 * kernel_threads);
  if (instruction.a_source == OperandSource::registers) {
    text += load_registers("a_regs_in", "a", "b32", 4);
  } else {
    text += load_descriptor("a_desc_in", "a_desc");
  }
  text += load_descriptor("b_desc_in", "b_desc");
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
      "\n"
      "  ld.param.u64 pointer, [d_regs_out];\n"
      "  mul.wide.u32 offset, flat_thread, {};\n"
      "  add.s64 pointer, pointer, offset;\n",
      instruction.scale_d, ptx_statement(instruction), 4 * d_registers);
  for (int i = 0; i < d_registers; ++i) text += fmt::format("  st.global.{} [pointer+{}], d{};\n", type, 4 * i, i);
  return text + "  ret;\n}\n";
}

}  // namespace bitmma
