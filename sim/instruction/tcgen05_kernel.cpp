// The kernel around one tcgen05 instruction: Tensor Memory allocated and filled, image copied, the instruction issued
// and awaited, Tensor Memory (or the registers of an ld) written out, everything freed.
#include <fmt/format.h>

#include <bit>

#include "bitmma/instruction/ptx_kernel.hpp"

namespace bitmma {
namespace {

constexpr int chunk_columns = 32;  // of Tensor Memory, moved at a time

std::string registers(std::string_view prefix, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}{}", i ? ", " : "", prefix, i);
  return text + "}";
}

/// All threads of the CTA, or of both CTAs of the pair, before and after.
std::string barrier(int cta_group) {
  if (cta_group == 1) return "  bar.sync 0;\n";
  return "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n";
}

/// A 64-bit descriptor of this case with the image's address added to its start field, and to the leading dimension
/// where that is an address too.
std::string load_descriptor(std::string_view name, int word) {
  return fmt::format(
      "  ld.global.u64 {0}, [words64+{1}];\n"
      "  add.s64 offset, {0}, base_units;\n"
      "  and.b64 offset, offset, 0x3FFF;\n"
      "  shr.u64 field, {0}, 52;\n"
      "  and.b64 field, field, 1;\n"
      "  mul.lo.s64 field, field, base_units;\n"
      "  shl.b64 field, field, 16;\n"
      "  add.s64 {0}, {0}, field;\n"
      "  and.b64 {0}, {0}, 0xFFFFFFFFFFFFC000;\n"
      "  or.b64 {0}, {0}, offset;\n",
      name, 8 * word);
}

std::string load_address(std::string_view name, int word) {
  return fmt::format("  ld.global.u32 {0}, [words32+{1}];\n  add.u32 {0}, {0}, tmem_base;\n", name, 4 * word);
}

/// Loads what the statement of an mma names, in the order of Tcgen05Words.
std::string load_operands(const Instruction& instruction) {
  using enum Tcgen05Words32;
  std::string text;
  const auto address = [&](std::string_view name, Tcgen05Words32 word) {
    text += load_address(name, static_cast<int>(word));
  };
  if (instruction.a_source == OperandSource::tmem)
    address("a_tmem", a_tmem);
  else
    text += load_descriptor("a_desc", static_cast<int>(Tcgen05Words64::a_desc));
  text += load_descriptor("b_desc", static_cast<int>(Tcgen05Words64::b_desc));
  address("d_tmem", d_tmem);
  if (instruction.sparse) address("metadata_tmem", metadata_tmem);
  if (instruction.has_block_scales()) {
    address("scale_a_tmem", scale_a_tmem);
    address("scale_b_tmem", scale_b_tmem);
  }
  text += fmt::format(
      "  ld.global.u32 idesc, [words32+{}];\n  ld.global.u32 flag, [words32+{}];\n  setp.ne.u32 enable_input_d, flag, "
      "0;\n",
      4 * static_cast<int>(idesc), 4 * static_cast<int>(enable_input_d));
  if (instruction.weight_stationary)
    text += fmt::format("  ld.global.u64 zero_column_mask, [words64+{}];\n",
                        8 * static_cast<int>(Tcgen05Words64::zero_column_mask));
  for (int i = 0; has_lane_masks(instruction) && i < 4 * instruction.cta_group; ++i)
    text += fmt::format("  ld.global.u32 mask{}, [words32+{}];\n", i, 4 * (static_cast<int>(lane_masks) + i));
  return text;
}

/// What comes between filling Tensor Memory and reading it: the statement, issued and awaited.
struct Body {
  std::string comment, statement, load;
  int cta_group = 1;
  bool by_one_thread = true;  // with commit and mbarrier; otherwise by one warp, which waits itself
  std::string after;          // of the warp
  bool result_is_tmem = true;
};

std::string kernel_around(const Body& body, std::string_view target, int64_t image_bytes, int columns) {
  const int ctas = body.cta_group;
  const int64_t stride = kernel_image_stride(image_bytes);
  const std::string group = fmt::format("cta_group::{}", ctas);
  std::string text = fmt::format(
      "// {}\n"
      "// {} of 128 threads per case; image of {} bytes, {} columns of Tensor Memory\n"
      ".version 8.8\n"
      ".target {}\n"
      ".address_size 64\n"
      "\n"
      ".extern .shared .align 1024 .b8 shared[];\n"
      "\n"
      ".visible .entry {}(\n"
      "    .param .u64 smem_in, .param .u64 tmem_in, .param .u64 words64_in, .param .u64 words32_in, .param .u64 "
      "regs_in,\n"
      "    .param .u64 result_out)\n"
      ".reqntid 128, 1, 1\n"
      "{}"
      "{{\n"
      "  .reg .pred more, done, first_warp, issuer, enable_input_d;\n"
      "  .reg .b32 thread, warp, case_index, rank, flat_cta, base, control, position, address, tmem_base, "
      "lane_address, column, flag;\n"
      "  .reg .b32 d_tmem, a_tmem, metadata_tmem, scale_a_tmem, scale_b_tmem, taddr, idesc, mask<8>, w<{}>, v<128>;\n"
      "  .reg .b64 pointer, offset, field, base_units, words64, words32, a_desc, b_desc, zero_column_mask;\n"
      "  .reg .b16 both_ctas;\n"
      "\n"
      "  mov.u32 thread, %tid.x;\n"
      "  shr.u32 warp, thread, 5;\n"
      "  mov.u32 flat_cta, %ctaid.x;\n",
      body.comment, ctas == 2 ? "Two CTAs" : "One CTA", image_bytes, columns, target, kernel_name,
      ctas == 2 ? ".reqnctapercluster 2, 1, 1\n" : "", chunk_columns);
  text += ctas == 2 ? "  mov.u32 rank, %cluster_ctarank;\n  shr.u32 case_index, flat_cta, 1;\n"
                    : "  mov.u32 rank, 0;\n  mov.u32 case_index, flat_cta;\n";
  text += fmt::format(
      "  mov.u32 base, shared;\n"
      "  add.u32 base, base, 1023;\n"
      "  and.b32 base, base, 0xFFFFFC00;\n"
      "  add.u32 control, base, {0};  // mbarrier, then the address that alloc writes\n"
      "  setp.eq.u32 first_warp, warp, 0;\n"
      "  @!first_warp bra allocated;\n"
      "  add.u32 address, control, 8;\n"
      "  tcgen05.alloc.{1}.sync.aligned.shared::cta.b32 [address], {2};\n"
      "allocated:\n"
      "  setp.eq.u32 done, thread, 0;\n"
      "  @done mbarrier.init.shared::cta.b64 [control], 1;\n"
      "  fence.mbarrier_init.release.cluster;\n"
      "\n"
      "  // the image, 16 bytes a thread and round\n"
      "  ld.param.u64 pointer, [smem_in];\n"
      "  mul.wide.u32 offset, flat_cta, {0};\n"
      "  add.s64 pointer, pointer, offset;\n"
      "  shl.b32 position, thread, 4;\n"
      "copy:\n"
      "  setp.lt.u32 more, position, {0};\n"
      "  @!more bra copied;\n"
      "  cvt.u64.u32 offset, position;\n"
      "  add.s64 offset, pointer, offset;\n"
      "  ld.global.v4.u32 {{w0, w1, w2, w3}}, [offset];\n"
      "  add.u32 address, base, position;\n"
      "  st.shared.v4.u32 [address], {{w0, w1, w2, w3}};\n"
      "  add.u32 position, position, 2048;\n"
      "  bra copy;\n"
      "copied:\n"
      "  fence.proxy.async;  // the instruction reads through the async proxy\n"
      "  tcgen05.fence::before_thread_sync;\n"
      "{3}"
      "  tcgen05.fence::after_thread_sync;\n"
      "  ld.shared.u32 tmem_base, [control+8];\n"
      "  shl.b32 lane_address, warp, 21;  // the 32 lanes of this warp\n"
      "  add.u32 lane_address, lane_address, tmem_base;\n"
      "\n"
      "  // Tensor Memory before, a lane a thread\n"
      "  mad.lo.u32 position, flat_cta, 128, thread;\n"
      "  mul.wide.u32 offset, position, {4};\n"
      "  ld.param.u64 pointer, [tmem_in];\n"
      "  add.s64 pointer, pointer, offset;\n"
      "  mov.u32 column, 0;\n"
      "fill:\n",
      stride, group, columns, barrier(ctas), 4 * columns);
  for (int i = 0; i < chunk_columns; i += 4)
    text += fmt::format("  ld.global.v4.u32 {{w{}, w{}, w{}, w{}}}, [pointer+{}];\n", i, i + 1, i + 2, i + 3, 4 * i);
  text += fmt::format(
      "  add.u32 address, lane_address, column;\n"
      "  tcgen05.st.sync.aligned.32x32b.x{0}.b32 [address], {1};\n"
      "  add.s64 pointer, pointer, {2};\n"
      "  add.u32 column, column, {0};\n"
      "  setp.lt.u32 more, column, {3};\n"
      "  @more bra fill;\n"
      "  tcgen05.wait::st.sync.aligned;\n"
      "  tcgen05.fence::before_thread_sync;\n"
      "{4}"
      "  tcgen05.fence::after_thread_sync;\n"
      "\n"
      "  cvt.u64.u32 base_units, base;\n"
      "  shr.u64 base_units, base_units, 4;\n"
      "  ld.param.u64 words64, [words64_in];\n"
      "  mul.wide.u32 offset, case_index, {5};\n"
      "  add.s64 words64, words64, offset;\n"
      "  ld.param.u64 words32, [words32_in];\n"
      "  mul.wide.u32 offset, case_index, {6};\n"
      "  add.s64 words32, words32, offset;\n"
      "{7}",
      chunk_columns, registers("w", chunk_columns), 4 * chunk_columns, columns, barrier(ctas), 8 * tcgen05_words64,
      4 * tcgen05_words32, body.load);
  if (body.by_one_thread) {
    text += fmt::format(
        "  setp.eq.u32 issuer, thread, 0;\n"
        "  setp.eq.and.u32 issuer, rank, 0, issuer;\n"
        "  @!issuer bra issued;\n"
        "  {}\n",
        body.statement);
    if (ctas == 1)
      text += "  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [control];\n";
    else
      text +=
          "  mov.u16 both_ctas, 3;\n  "
          "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [control], "
          "both_ctas;\n";
    text +=
        "issued:\n"
        "wait:\n"
        "  mbarrier.try_wait.parity.shared::cta.b64 done, [control], 0;\n"
        "  @!done bra wait;\n"
        "  tcgen05.fence::after_thread_sync;\n";
  } else {
    text += fmt::format(
        "  ld.global.u32 flag, [words32+{}];\n"
        "  setp.ne.u32 done, flag, warp;\n"
        "  @done bra moved;\n"
        "  {}\n"
        "{}"
        "moved:\n"
        "  tcgen05.fence::before_thread_sync;\n"
        "{}"
        "  tcgen05.fence::after_thread_sync;\n",
        4 * static_cast<int>(Tcgen05Words32::warp), body.statement, body.after, barrier(ctas));
  }
  if (body.result_is_tmem) {
    text += fmt::format(
        "\n"
        "  // Tensor Memory after\n"
        "  mad.lo.u32 position, flat_cta, 128, thread;\n"
        "  mul.wide.u32 offset, position, {};\n"
        "  ld.param.u64 pointer, [result_out];\n"
        "  add.s64 pointer, pointer, offset;\n"
        "  mov.u32 column, 0;\n"
        "drain:\n"
        "  add.u32 address, lane_address, column;\n"
        "  tcgen05.ld.sync.aligned.32x32b.x{}.b32 {}, [address];\n"
        "  tcgen05.wait::ld.sync.aligned;\n",
        4 * columns, chunk_columns, registers("w", chunk_columns));
    for (int i = 0; i < chunk_columns; i += 4)
      text += fmt::format("  st.global.v4.u32 [pointer+{}], {{w{}, w{}, w{}, w{}}};\n", 4 * i, i, i + 1, i + 2, i + 3);
    text += fmt::format(
        "  add.s64 pointer, pointer, {};\n"
        "  add.u32 column, column, {};\n"
        "  setp.lt.u32 more, column, {};\n"
        "  @more bra drain;\n",
        4 * chunk_columns, chunk_columns, columns);
  }
  text += fmt::format(
      "\n"
      "  tcgen05.fence::before_thread_sync;\n"
      "{0}"
      "  @!first_warp bra freed;\n"
      "  tcgen05.dealloc.{1}.sync.aligned.b32 tmem_base, {2};\n"
      "  tcgen05.relinquish_alloc_permit.{1}.sync.aligned;\n"
      "freed:\n"
      "  ret;\n"
      "}}\n",
      barrier(ctas), group, columns);
  return text;
}

/// Moves `count` registers v0.. of this thread from or to [cases, 32, count].
std::string move_registers(std::string_view parameter, bool load, int count) {
  std::string text = fmt::format(
      "  and.b32 position, thread, 31;\n"
      "  mad.lo.u32 position, case_index, 32, position;\n"
      "  mul.wide.u32 offset, position, {};\n"
      "  ld.param.u64 pointer, [{}];\n"
      "  add.s64 pointer, pointer, offset;\n",
      4 * count, parameter);
  for (int i = 0; i < count; ++i)
    text += load ? fmt::format("  ld.global.u32 v{}, [pointer+{}];\n", i, 4 * i)
                 : fmt::format("  st.global.u32 [pointer+{}], v{};\n", 4 * i, i);
  return text;
}

}  // namespace

int kernel_tmem_columns(int columns) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(columns, 32))));
}

bool has_lane_masks(const Instruction& instruction) {
  return instruction.family == Family::tcgen05 && !instruction.weight_stationary && !instruction.has_block_scales();
}

std::string ptx_statement(const TmemMove& move) {
  const std::string list = registers("v", move.ldst.registers());
  const std::string split = move.ldst.shape == LdStShape::s16x32bx2 ? fmt::format(", {}", move.half_split_offset) : "";
  switch (move.kind) {
    case MoveKind::ld:
      return fmt::format("{} {}, [taddr]{};", print(move), list, split);
    case MoveKind::st:
      return fmt::format("{} [taddr]{}, {};", print(move), split, list);
    case MoveKind::cp:
      return fmt::format("{} [taddr], a_desc;", print(move));
    default:
      return fmt::format("{} [taddr];", print(move));
  }
}

std::string tcgen05_kernel(const Instruction& instruction, int64_t image_bytes, int columns, std::string_view target) {
  return kernel_around({.comment = print(instruction),
                        .statement = ptx_statement(instruction),
                        .load = load_operands(instruction),
                        .cta_group = instruction.cta_group},
                       target, image_bytes, kernel_tmem_columns(columns));
}

std::string tcgen05_kernel(const TmemMove& move, int64_t image_bytes, int columns, std::string_view target) {
  Body body{.comment = print(move), .statement = ptx_statement(move), .cta_group = move.cta_group};
  body.load = load_address("taddr", static_cast<int>(Tcgen05Words32::taddr));
  if (move.kind == MoveKind::cp) body.load += load_descriptor("a_desc", static_cast<int>(Tcgen05Words64::a_desc));
  if (move.has_registers()) {
    const bool is_ld = move.kind == MoveKind::ld;
    body.by_one_thread = false;
    body.result_is_tmem = !is_ld;
    if (is_ld)
      body.after = "  tcgen05.wait::ld.sync.aligned;\n" + move_registers("result_out", false, move.ldst.registers());
    else
      body.load += move_registers("regs_in", true, move.ldst.registers()),
          body.after = "  tcgen05.wait::st.sync.aligned;\n";
  }
  return kernel_around(body, target, image_bytes, kernel_tmem_columns(columns));
}

}  // namespace bitmma
