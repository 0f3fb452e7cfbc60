// SPDX-License-Identifier: MIT
#include "tmem_frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bitmma/descriptor/smem_descriptor.hpp"
#include "parameters.hpp"
#include "text.hpp"

namespace bitmma::kernels {
namespace {

constexpr int chunk_columns = 32;  // of Tensor Memory, moved at a time

/// The positions of single-number operands, and of the lane masks, in the two parameters that collect them. An
/// instruction uses some of them.
struct Word {
  Field field;
  int index;
};
constexpr int words64_count = 4, words32_count = 20;
constexpr std::array words64{Word{Field::a_desc, 0}, Word{Field::s_desc, 0}, Word{Field::b_desc, 1},
                             Word{Field::zero_column_mask, 2}};
constexpr std::array words32{Word{Field::d_tmem, 1},        Word{Field::a_tmem, 2},
                             Word{Field::metadata_tmem, 3}, Word{Field::scale_a_tmem, 4},
                             Word{Field::scale_b_tmem, 5},  Word{Field::taddr, 7},
                             Word{Field::warp, 8},          Word{Field::disable_output_lane, 9}};
struct ImmediateWord {
  std::string_view name;
  int index;
};
constexpr std::array immediate_words{ImmediateWord{"idesc", 0}, ImmediateWord{"enable_input_d", 6}};

/// "words32+24".
std::string place_of(Field field, int index = 0) {
  for (const Word& word : words64) {
    if (word.field == field) return fmt::format("words64+{}", 8 * (word.index + index));
  }
  for (const Word& word : words32) {
    if (word.field == field) return fmt::format("words32+{}", 4 * (word.index + index));
  }
  return {};
}

/// Synchronises all threads of the CTA, or of both CTAs of the pair.
std::string barrier(int cta_group) {
  if (cta_group == 1) return "  bar.sync 0;\n";
  return "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n";
}

/// One thread of the pair issues the statement; every thread waits for it.
std::string issue_by_one_thread(const std::string& statement, int ctas) {
  std::string text = fmt::format(
      "  setp.eq.u32 issuer, thread, 0;\n"
      "  setp.eq.and.u32 issuer, rank, 0, issuer;\n"
      "  @!issuer bra issued;\n"
      "  {}\n",
      statement);
  text += ctas == 1 ? "  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [control];\n"
                    : "  mov.u16 both_ctas, 3;\n"
                      "  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
                      "[control], both_ctas;\n";
  const std::string wait = fmt::format("  mbarrier.try_wait.parity{}.shared::cta.b64 done, [control], 0;\n",
                                       ctas == 1 ? "" : ".acquire.cluster");
  return text +
         "issued:\n"
         "  mov.u64 since, %clock64;\n"
         "wait:\n" +
         wait +
         "  @done bra arrived;\n"
         "  mov.u64 now, %clock64;\n"
         "  sub.u64 now, now, since;\n"
         "  setp.lt.u64 more, now, 0x200000000;  // a few seconds\n"
         "  @more bra wait;\n"
         "  trap;  // what never arrives ends the launch with an error\n"
         "arrived:\n"
         "  tcgen05.fence::after_thread_sync;\n";
}

/// The warp that the case names issues the statement.
std::string issue_by_one_warp(const std::string& statement, const std::string& after, int ctas) {
  return fmt::format(
      "  ld.global.u32 flag, [{}];\n"
      "  setp.ne.u32 done, flag, warp;\n"
      "  @done bra moved;\n"
      "  {}\n"
      "{}"
      "moved:\n"
      "  tcgen05.fence::before_thread_sync;\n"
      "{}"
      "  tcgen05.fence::after_thread_sync;\n",
      place_of(Field::warp), statement, after, barrier(ctas));
}

std::string fill_tmem(int columns) {
  std::string text = fmt::format(
      "  // Tensor Memory before, a lane a thread\n"
      "  mad.lo.u32 position, flat_cta, 128, thread;\n"
      "  mul.wide.u32 offset, position, {};\n"
      "  ld.param.u64 pointer, [tmem_in];\n"
      "  add.s64 pointer, pointer, offset;\n"
      "  mov.u32 column, 0;\n"
      "fill:\n",
      4 * columns);
  for (int i = 0; i < chunk_columns; i += 4)
    text += fmt::format("  ld.global.v4.u32 {{w{}, w{}, w{}, w{}}}, [pointer+{}];\n", i, i + 1, i + 2, i + 3, 4 * i);
  return text + fmt::format(
                    "  add.u32 address, lane_address, column;\n"
                    "  tcgen05.st.sync.aligned.32x32b.x{0}.b32 [address], {1};\n"
                    "  add.s64 pointer, pointer, {2};\n"
                    "  add.u32 column, column, {0};\n"
                    "  setp.lt.u32 more, column, {3};\n"
                    "  @more bra fill;\n"
                    "  tcgen05.wait::st.sync.aligned;\n",
                    chunk_columns, register_list("w", chunk_columns), 4 * chunk_columns, columns);
}

std::string drain_tmem(int columns) {
  std::string text = fmt::format(
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
      4 * columns, chunk_columns, register_list("w", chunk_columns));
  for (int i = 0; i < chunk_columns; i += 4)
    text += fmt::format("  st.global.v4.u32 [pointer+{}], {{w{}, w{}, w{}, w{}}};\n", 4 * i, i, i + 1, i + 2, i + 3);
  return text + fmt::format(
                    "  add.s64 pointer, pointer, {};\n"
                    "  add.u32 column, column, {};\n"
                    "  setp.lt.u32 more, column, {};\n"
                    "  @more bra drain;\n",
                    4 * chunk_columns, chunk_columns, columns);
}

/// The bits of a descriptor that hold the start address.
uint64_t start_address_mask(Target target) {
  // A caller may ask ptxas about targets that have no such descriptor.
  const bool has_descriptor = info(target).smem_descriptor >= SmemDescriptorVersion::sm_100;
  for (const DescriptorField& field : smem_descriptor_fields(has_descriptor ? target : Target::sm_100a)) {
    if (field.bits.name == "start_address") return field.bits.mask();
  }
  return 0;
}

/// Both CTAs of a pair must count columns from the same number: the instruction has one address for both.
std::string check_pair() {
  return "  xor.b32 position, rank, 1;\n"
         "  add.u32 address, control, 8;\n"
         "  mapa.shared::cluster.u32 address, address, position;\n"
         "  ld.shared::cluster.u32 flag, [address];\n"
         "  setp.ne.u32 done, flag, tmem_base;\n"
         "  @done trap;\n";
}

/// The kernel's text up to the first instruction.
std::string head_text(const Kernel& kernel, const Request& request, int columns) {
  const int ctas = kernel.ctas;
  // PTX 8.6 introduced tcgen05; 8.8 introduced the spelling of block scales with .block16, .block32 or neither.
  const bool has_scales = is_mma(request.instruction) && mma_of(request.instruction).scale_count > 0;
  const PtxVersion version = std::max(request.version, has_scales ? PtxVersion{8, 8} : PtxVersion{8, 6});
  std::string text = fmt::format(
                         "// {}\n"
                         "// {} of 128 threads per case; image of {} bytes, {} columns of Tensor Memory\n"
                         ".version {}.{}\n"
                         ".target {}\n"
                         ".address_size 64\n"
                         "\n"
                         ".extern .shared .align 1024 .b8 shared[];\n"
                         "\n",
                         request.mnemonic, ctas == 2 ? "Two CTAs" : "One CTA", request.shape.image_bytes, columns,
                         version.major, version.minor, request.target) +
                     entry_text(kernel);
  text += fmt::format(
      ".reqntid 128, 1, 1\n"
      "{}"
      "{{\n"
      "  .reg .pred more, done, first_warp, issuer, enable_input_d;\n"
      "  .reg .b32 thread, warp, case_index, rank, flat_cta, base, control, position, address, tmem_base, "
      "lane_address, column, flag;\n"
      "  .reg .b32 d_tmem, a_tmem, metadata_tmem, scale_a_tmem, scale_b_tmem, taddr, idesc, redval<1>, mask<8>, w<{}>, "
      "v<128>;\n"
      "  .reg .b64 pointer, offset, field, base_units, words64, words32, a_desc, b_desc, zero_column_mask, since, "
      "now;\n"
      "  .reg .b16 both_ctas;\n"
      "\n"
      "  mov.u32 thread, %tid.x;\n"
      "  shr.u32 warp, thread, 5;\n"
      "  mov.u32 flat_cta, %ctaid.x;\n",
      ctas == 2 ? ".reqnctapercluster 2, 1, 1\n" : "", chunk_columns);
  return text + (ctas == 2 ? "  mov.u32 rank, %cluster_ctarank;\n  shr.u32 case_index, flat_cta, 1;\n"
                           : "  mov.u32 rank, 0;\n  mov.u32 case_index, flat_cta;\n");
}

}  // namespace

Kernel tmem_parameters(const Request& request, int cta_group) {
  KernelParameter of_words64{.name = "words64_in", .bytes_per_case = 8 * words64_count},
      of_words32{.name = "words32_in", .bytes_per_case = 4 * words32_count};
  for (const Word& word : words64) add(of_words64, request, word.field, 8 * word.index);
  for (const Word& word : words32) add(of_words32, request, word.field, 4 * word.index);
  for (const ImmediateWord& word : immediate_words) add_immediate(of_words32, request, word.name, 4 * word.index);
  return {.shape = request.shape,
          .ctas = cta_group,
          .inputs = {input_of(request, Field::smem), input_of(request, Field::tmem), std::move(of_words64),
                     std::move(of_words32), input_of(request, Field::regs)},
          .output = output_of(request, "result_out")};
}

std::string load_descriptor(Field field, std::string_view name, Target target) {
  const uint64_t start_address = start_address_mask(target);
  return fmt::format(
      "  ld.global.u64 {0}, [{1}];\n"
      "  add.s64 offset, {0}, base_units;\n"
      "  and.b64 offset, offset, {2:#x};\n"
      "  shr.u64 field, {0}, 52;\n"
      "  and.b64 field, field, 1;\n"
      "  mul.lo.s64 field, field, base_units;\n"
      "  shl.b64 field, field, 16;\n"
      "  add.s64 {0}, {0}, field;\n"
      "  and.b64 {0}, {0}, {3:#x};\n"
      "  or.b64 {0}, {0}, offset;\n",
      name, place_of(field), start_address, ~start_address);
}

std::string load_address(Field field) {
  return fmt::format("  ld.global.u32 {0}, [{1}];\n  add.u32 {0}, {0}, tmem_base;\n", info(field).name,
                     place_of(field));
}

std::string load_word(Field field, std::string_view name, int index) {
  const char* type = info(field).type == ElementType::u64 ? "u64" : "u32";
  return fmt::format("  ld.global.{} {}, [{}];\n", type, name, place_of(field, index));
}

std::string load_immediate(std::string_view immediate, std::string_view name) {
  for (const ImmediateWord& word : immediate_words) {
    if (word.name == immediate) return fmt::format("  ld.global.u32 {}, [words32+{}];\n", name, 4 * word.index);
  }
  return {};
}

std::string tmem_kernel_text(const Kernel& kernel, const Request& request, const Body& body) {
  const int columns = kernel_tmem_columns(request.shape.columns), ctas = kernel.ctas;
  const int64_t stride = kernel_image_stride(request.shape.image_bytes);
  const std::string group = fmt::format("cta_group::{}", ctas);
  std::string text = head_text(kernel, request, columns) + align_image();
  text += fmt::format(
      "  add.u32 control, base, {};  // mbarrier, then the address that alloc writes\n"
      "{}"
      "  setp.eq.u32 first_warp, warp, 0;\n"
      "  @!first_warp bra allocated;\n"
      "  add.u32 address, control, 8;\n"
      "  tcgen05.alloc.{}.sync.aligned.shared::cta.b32 [address], {};\n"
      "allocated:\n"
      "  setp.eq.u32 done, thread, 0;\n"
      "  @done mbarrier.init.shared::cta.b64 [control], 1;\n"
      "  fence.mbarrier_init.release.cluster;\n"
      "\n",
      stride, ctas == 2 ? barrier(ctas) : "", group, columns);
  text += copy_image("flat_cta", stride);
  text += fmt::format(
      "  fence.proxy.async;  // the instruction reads through the async proxy\n"
      "  tcgen05.fence::before_thread_sync;\n"
      "{}"
      "  tcgen05.fence::after_thread_sync;\n"
      "  ld.shared.u32 tmem_base, [control+8];\n"
      "{}"
      "  shl.b32 lane_address, warp, 21;  // the 32 lanes of this warp\n"
      "  add.u32 lane_address, lane_address, tmem_base;\n"
      "\n",
      barrier(ctas), ctas == 2 ? check_pair() : "");
  text += fill_tmem(columns);
  text += fmt::format(
      "  tcgen05.fence::before_thread_sync;\n"
      "{}"
      "  tcgen05.fence::after_thread_sync;\n"
      "\n"
      "  cvt.u64.u32 base_units, base;\n"
      "  shr.u64 base_units, base_units, 4;\n"
      "  ld.param.u64 words64, [words64_in];\n"
      "  mul.wide.u32 offset, case_index, {};\n"
      "  add.s64 words64, words64, offset;\n"
      "  ld.param.u64 words32, [words32_in];\n"
      "  mul.wide.u32 offset, case_index, {};\n"
      "  add.s64 words32, words32, offset;\n",
      barrier(ctas), 8 * words64_count, 4 * words32_count);
  text += body.load;
  const std::string statement = print(request.statement);
  text += body.by_one_thread ? issue_by_one_thread(statement, ctas) : issue_by_one_warp(statement, body.after, ctas);
  if (body.result_is_tmem) text += drain_tmem(columns);
  return text + fmt::format(
                    "\n"
                    "  tcgen05.fence::before_thread_sync;\n"
                    "{0}"
                    "  tcgen05.fence::after_thread_sync;\n"
                    "  @!first_warp bra freed;\n"
                    "  tcgen05.dealloc.{1}.sync.aligned.b32 tmem_base, {2};\n"
                    "  tcgen05.relinquish_alloc_permit.{1}.sync.aligned;\n"
                    "freed:\n"
                    "  ret;\n"
                    "}}\n",
                    barrier(ctas), group, columns);
}

}  // namespace bitmma::kernels
