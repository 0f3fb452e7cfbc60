// SPDX-License-Identifier: MIT
// A row for each opcode: what a statement of it reads and writes, whether it acts beyond its registers, what it leaves
// in a thread's trace, and whether ptxas computes it at compile time if its operands are numbers. Words are computed by
// hand.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "kernel/decode.hpp"
#include "kernel/flow.hpp"
#include "kernel/fold.hpp"
#include "kernel/opcode.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"

namespace bitmma {
namespace {

struct Row {
  std::string_view statement;
  std::string_view effects;  // "writes <- reads"; "acts: " in front where memory, lanes or control are affected
  std::string_view trace;    // the words that it leaves in its registers
  bool folds = false;
};

// Before a statement: %r1 = 12, %r2 = 5, %r3 = 3, %r4 = 8; %f1 = 3, %f2 = 0.5, %f3 = -2; %d1 = 3, %d2 = 0.5; %h1 = 9,
// %h2 = 4; %rd1 the address of 64 words (word i is i), %rd2 = 20, %rd3 = 6; %p1 true, %p2 false; one thread of 32.
const std::vector<Row> rows{
    {"add.s32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=11", true},
    {"add.f32 %f10, %f1, %f2;", "%f10 <- %f1 %f2", "%f10=40600000", true},
    {"add.rz.f32 %f10, %f1, %f2;", "%f10 <- %f1 %f2", "%f10=40600000"},
    {"add.f64 %d3, %d1, %d2;", "%d3 <- %d1 %d2", "%d3=400c000000000000", true},
    {"sub.s32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=7", true},
    {"addc.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=11"},
    {"subc.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=6"},
    {"mul.lo.s32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=3c", true},
    {"mul.hi.u64 %rd10, %rd2, %rd3;", "%rd10 <- %rd2 %rd3", "%rd10=0"},
    {"mul.f32 %f10, %f1, %f2;", "%f10 <- %f1 %f2", "%f10=3fc00000", true},
    {"mad.lo.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=3f", true},
    {"mad.rn.f32 %f10, %f1, %f2, %f3;", "%f10 <- %f1 %f2 %f3", "%f10=bf000000"},
    {"madc.lo.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=3f"},
    {"mul24.lo.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=3c"},
    {"mad24.lo.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=3f"},
    {"div.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=2"},
    {"div.rn.f32 %f10, %f1, %f2;", "%f10 <- %f1 %f2", "%f10=40c00000"},
    {"div.approx.f32 %f10, %f1, %f2;", "%f10 <- %f1 %f2", "%f10=40c00000", true},
    {"rem.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=2"},
    {"min.s32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=5", true},
    {"min.f32 %f10, %f1, %f2;", "%f10 <- %f1 %f2", "%f10=3f000000", true},
    {"min.NaN.f32 %f10, %f1, %f2;", "%f10 <- %f1 %f2", "%f10=3f000000"},
    {"max.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=c", true},
    {"abs.f32 %f10, %f3;", "%f10 <- %f3", "%f10=40000000", true},
    {"neg.s32 %r10, %r1;", "%r10 <- %r1", "%r10=fffffff4", true},
    {"neg.f32 %f10, %f3;", "%f10 <- %f3", "%f10=40000000", true},
    {"sad.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=a", true},
    {"and.b32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=4", true},
    {"or.b32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=d", true},
    {"xor.b32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=9", true},
    {"not.b32 %r10, %r1;", "%r10 <- %r1", "%r10=fffffff3", true},
    {"cnot.b32 %r10, %r1;", "%r10 <- %r1", "%r10=0", true},
    {"shl.b32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=180", true},
    {"shr.u32 %r10, %r1, %r3;", "%r10 <- %r1 %r3", "%r10=1", true},
    {"shf.l.wrap.b32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=28", true},
    {"lop3.b32 %r10, %r1, %r2, %r3, 0x96;", "%r10 <- %r1 %r2 %r3", "%r10=a"},
    {"lop3 .b32 %r10, %r1, %r2, %r3, 0x96;", "%r10 <- %r1 %r2 %r3", "%r10=a"},
    {"prmt.b32 %r10, %r1, %r2, 0x3240;", "%r10 <- %r1 %r2", "%r10=50c"},
    {"popc.b32 %r10, %r1;", "%r10 <- %r1", "%r10=2", true},
    {"clz.b32 %r10, %r1;", "%r10 <- %r1", "%r10=1c", true},
    {"bfind.u32 %r10, %r1;", "%r10 <- %r1", "%r10=3", true},
    {"brev.b32 %r10, %r1;", "%r10 <- %r1", "%r10=30000000", true},
    {"bfe.u32 %r10, %r1, 2, %r3;", "%r10 <- %r1 %r3", "%r10=3", true},
    {"bfi.b32 %r10, %r1, %r2, 4, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=45", true},
    {"dp4a.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=3f"},
    {"dp2a.lo.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=3f"},
    {"bmsk.clamp.b32 %r10, %r3, %r4;", "%r10 <- %r3 %r4", "%r10=7f8"},
    {"setp.lt.and.u32 %p3|%p4, %r1, %r2, %p1;", "%p3 %p4 <- %p1 %r1 %r2", "%p3=0 %p4=1"},
    {"setp.gt.f32 %p3, %f1, %f2;", "%p3 <- %f1 %f2", "%p3=1"},
    {"selp.b32 %r10, %r1, %r2, %p1;", "%r10 <- %p1 %r1 %r2", "%r10=c"},
    {"mov.b32 %r10, %r1;", "%r10 <- %r1", "%r10=c", true},
    {"mov.b64 {%r10, %r11}, %rd2;", "%r10 %r11 <- %rd2", "%r10=14 %r11=0"},
    {"set.gt.u32.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=ffffffff"},
    {"vadd2.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=11"},
    {"vadd4.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=11"},
    {"vsub2.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=7"},
    {"vsub4.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=7"},
    {"szext.wrap.s32 %r10, %r1, %r3;", "%r10 <- %r1 %r3", "%r10=fffffffc"},
    {"cvt.pack.sat.u16.s32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=c0005"},
    {"cvt.pack.sat.u8.s32.b32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=30c05"},
    {"cvt.pack.sat.s4.s32.b32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=375"},
    {"cvt.pack.sat.u2.s32.b32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=3f"},
    {"fns.b32 %r10, %r1, 0, 2;", "%r10 <- %r1", "%r10=3"},
    {"lop3.or.b32 %r10|%p3, %r1, %r2, %r3, 0x80, %p2;", "%p3 %r10 <- %p2 %r1 %r2 %r3", "%r10=0 %p3=0"},
    {"vadd.u32.u32.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=11"},
    {"vsub.s32.u32.u32.add %r10, %r1.b0, %r2.h0, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=a"},
    {"vabsdiff.u32.u32.u32 %r10, %r2, %r1;", "%r10 <- %r1 %r2", "%r10=7"},
    {"vmin.u32.u32.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=5"},
    {"vmax.u32.u32.u32 %r10, %r1, %r2;", "%r10 <- %r1 %r2", "%r10=c"},
    {"vshl.u32.u32.u32.clamp %r10, %r1, %r3;", "%r10 <- %r1 %r3", "%r10=60"},
    {"vshr.u32.u32.u32.wrap %r10, %r1, %r3;", "%r10 <- %r1 %r3", "%r10=1"},
    {"vmad.s32.u32.u32 %r10, %r1, %r2, -%r3;", "%r10 <- %r1 %r2 %r3", "%r10=39"},
    {"vset.u32.u32.gt %r10.b1, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=103"},
    {"vavrg2.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=9"},
    {"vavrg4.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=9"},
    {"vabsdiff2.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=7"},
    {"vabsdiff4.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=7"},
    {"vmin2.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=5"},
    {"vmin4.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=5"},
    {"vmax2.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=c"},
    {"vmax4.u32.u32.u32 %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=c"},
    {"vset2.u32.u32.gt %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=1"},
    {"vset4.u32.u32.gt %r10, %r1, %r2, %r3;", "%r10 <- %r1 %r2 %r3", "%r10=1"},
    {"fma.rn.f32 %f10, %f1, %f2, %f3;", "%f10 <- %f1 %f2 %f3", "%f10=bf000000"},
    {"rcp.approx.f32 %f10, %f2;", "%f10 <- %f2", "%f10=40000000", true},
    {"sqrt.rn.f32 %f10, %f1;", "%f10 <- %f1", "%f10=3fddb3d7"},
    {"rsqrt.approx.f32 %f10, %f1;", "%f10 <- %f1", "%f10=3f13cd3a", true},
    {"ex2.approx.f32 %f10, %f3;", "%f10 <- %f3", "%f10=3e800000", true},
    {"lg2.approx.f32 %f10, %f2;", "%f10 <- %f2", "%f10=bf7ffffe", true},
    {"sin.approx.f32 %f10, %f2;", "%f10 <- %f2", "%f10=3ef57740", true},
    {"cos.approx.f32 %f10, %f2;", "%f10 <- %f2", "%f10=3f60a940", true},
    {"tanh.approx.f32 %f10, %f2;", "%f10 <- %f2", "%f10=3eec9a50"},
    {"copysign.f32 %f10, %f3, %f1;", "%f10 <- %f1 %f3", "%f10=c0400000"},
    {"testp.finite.f32 %p3, %f1;", "%p3 <- %f1", "%p3=1"},
    {"cvt.rn.f16x2.f32 %r10, 1.5, %f2;", "%r10 <- %f2", "%r10=3e003800", true},
    {"cvt.rn.f32.s32 %f10, %r1;", "%f10 <- %r1", "%f10=41400000", true},
    {"cvt.rni.s32.f32 %r10, %f1;", "%r10 <- %f1", "%r10=3", true},
    {"ld.global.u32 %r10, [%rd1+8];", "acts: %r10 <- %rd1", "%r10=2"},
    {"ldu.global.u32 %r10, [%rd1+8];", "acts: %r10 <- %rd1", "%r10=2"},
    {"st.global.u32 [%rd1], %r1;", "acts: <- %r1 %rd1", ""},
    {"cvta.to.global.u64 %rd10, %rd1;", "%rd10 <- %rd1", "%rd10=400000000000"},
    {"isspacep.shared %p3, %rd1;", "%p3 <- %rd1", "%p3=0"},
    {"atom.global.add.u32 %r10, [%rd1+8], 0;", "acts: %r10 <- %rd1", "%r10=2"},
    {"red.global.add.u32 [%rd1+8], %r1;", "acts: <- %r1 %rd1", ""},
    {"cp.async.wait_all;", "acts: <- ", ""},
    {"membar.gl;", "acts: <- ", ""},
    {"fence.acq_rel.gpu;", "acts: <- ", ""},
    {"prefetch.global.L2 [%rd1];", "acts: <- %rd1", ""},
    {"prefetchu.L1 [%rd1];", "acts: <- %rd1", ""},
    {"discard.global.L2 [%rd1], 128;", "acts: <- %rd1", ""},
    {"applypriority.global.L2::evict_normal [%rd1], 128;", "acts: <- %rd1", ""},
    {"nanosleep.u32 %r1;", "acts: <- %r1", ""},
    {"griddepcontrol.wait;", "acts: <- ", ""},
    {"setmaxnreg.inc.sync.aligned.u32 64;", "acts: <- ", ""},
    {"pmevent 3;", "acts: <- ", ""},
    {"createpolicy.fractional.L2::evict_last.b64 %rd10;", "%rd10 <- ", "%rd10=0"},
    {"mapa.u32 %r10, %r1, 0;", "%r10 <- %r1", "%r10=c"},
    {"getctarank.u32 %r10, %r1;", "%r10 <- %r1", "%r10=0"},
    {"bra next; next:", "acts: <- ", "", true},
    {"brx.idx %r5, targets; next:", "acts: <- %r5", ""},
    {"@%p2 ret;", "acts: <- %p2", "", true},
    {"@%p2 exit;", "acts: <- %p2", "", true},
    {"@%p2 trap;", "acts: <- %p2", "", true},
    {"@%p2 call __assertfail;", "acts: <- %p2", "", true},
    {"brkpt;", "acts: <- ", ""},
    {"bar.sync 0;", "acts: <- ", ""},
    {"bar.red.popc.u32 %r10, 0, %p1;", "acts: %r10 <- %p1", "%r10=80"},
    {"barrier.cluster.arrive;", "acts: <- ", ""},
    {"shfl.sync.idx.b32 %r10|%p3, %r1, 0, 31, -1;", "acts: %p3 %r10 <- %r1", "%r10=c %p3=1"},
    {"vote.sync.ballot.b32 %r10, %p1, -1;", "acts: %r10 <- %p1", "%r10=ffffffff"},
    {"match.any.sync.b32 %r10, %r1, -1;", "acts: %r10 <- %r1", "%r10=ffffffff"},
    {"redux.sync.add.u32 %r10, %r1, -1;", "acts: %r10 <- %r1", "%r10=180"},
    {"elect.sync %r10|%p3, -1;", "acts: %p3 %r10 <- ", "%r10=0 %p3=1"},
    {"activemask.b32 %r10;", "acts: %r10 <- ", "%r10=ffffffff"},
    {"movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r1;", "%r10 <- %r1", "%r10=c000c"},
    {"@%p2 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [s];", "acts: %r10 <- %p2 %r10", "", true},
    {"stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], {%r1};", "acts: <- %r1", ""},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f10, %f11, %f12, %f13}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, "
     "{%f1, %f2, %f3, %f1};",
     "acts: %f10 %f11 %f12 %f13 <- %f1 %f2 %f3 %r1 %r2 %r3 %r4",
     "%f10=40400000 %f11=3f000000 %f12=c0000000 %f13=40400000"},
    {"wgmma.fence.sync.aligned;", "acts: <- ", ""},
    {"@%p2 wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%r10, %r11, %r12, %r13}, [s];",
     "acts: %r10 %r11 %r12 %r13 <- %p2 %r10 %r11 %r12 %r13", "", true},
    {"alloca.u64 %rd10, 16, 8;", "acts: %rd10 <- ", "%rd10=0"},
    {"stacksave.u64 %rd10;", "acts: %rd10 <- ", "%rd10=0"},
    {"stackrestore.u64 %rd10;", "acts: <- %rd10", ""},
    {"clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;", "acts: %p3 <- %q1", "%p3=0"},
    {"mbarrier.init.shared.b64 [s], 1;", "acts: <- ", ""},
    {"@%p2 tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 2;", "acts: <- %p2 %rd1", "", true},
    {"@%p2 tex.2d.v4.f32.f32 {%f10, %f11, %f12, %f13}, [%rd1, {%f1, %f2}];",
     "acts: %f10 %f11 %f12 %f13 <- %f1 %f10 %f11 %f12 %f13 %f2 %p2 %rd1", "", true},
    {"@%p2 tld4.r.2d.v4.f32.f32 {%f10, %f11, %f12, %f13}, [%rd1, {%f1, %f2}];",
     "acts: %f10 %f11 %f12 %f13 <- %f1 %f10 %f11 %f12 %f13 %f2 %p2 %rd1", "", true},
    {"@%p2 txq.width.b32 %r10, [%rd1];", "%r10 <- %p2 %r10 %rd1", "", true},
    {"@%p2 suq.width.b32 %r10, [%rd1];", "%r10 <- %p2 %r10 %rd1", "", true},
    {"@%p2 suld.b.1d.b32.trap %r10, [%rd1, {%r1}];", "acts: %r10 <- %p2 %r1 %r10 %rd1", "", true},
    {"@%p2 sust.b.1d.b32.trap [%rd1, {%r1}], %r2;", "acts: <- %p2 %r1 %r2 %rd1", "", true},
    {"tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", "acts: <- ", ""},
};

/// What a statement of another GPU than the H100 has in front.
bool is_of_blackwell(std::string_view statement) {
  return statement.starts_with("tcgen05") || statement.starts_with("clusterlaunchcontrol");
}

struct Input {
  std::string_view reg, type;
  uint64_t bits;
};
constexpr auto inputs = std::to_array<Input>({{"%r1", "u32", 12},
                                              {"%r2", "u32", 5},
                                              {"%r3", "u32", 3},
                                              {"%r4", "u32", 8},
                                              {"%f1", "b32", 0x40400000},
                                              {"%f2", "b32", 0x3F000000},
                                              {"%f3", "b32", 0xC0000000},
                                              {"%d1", "b64", 0x4008000000000000},
                                              {"%d2", "b64", 0x3FE0000000000000},
                                              {"%h1", "b16", 9},
                                              {"%h2", "b16", 4},
                                              {"%rd2", "u64", 20},
                                              {"%rd3", "u64", 6}});
constexpr size_t first_input = 32;  // of the memory's words; two words each
constexpr int line_of_statement = 17 + static_cast<int>(inputs.size());

/// A kernel of the statement; its operands are numbers, or loaded.
std::string text_of(std::string_view statement, bool of_numbers) {
  std::string text = fmt::format(
      ".version 8.6\n.target {}\n.address_size 64\n.extern .func __assertfail ();\n.visible .entry k(.param .u64 "
      "p)\n{{\n"
      ".shared .align 16 .b8 s[1024];\n.reg .b32 %r<40>;\n.reg .b64 %rd<40>;\n.reg .f32 %f<40>;\n.reg .f64 %d<8>;\n"
      ".reg .b16 %h<40>;\n.reg .pred %p<10>;.reg .b128 %q<4>;targets: .branchtargets next;\nld.param.u64 %rd1, [p];\n",
      is_of_blackwell(statement) ? "sm_100a" : "sm_90a");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [reg, type, bits] = inputs[i];
    if (of_numbers) text += fmt::format("mov.b{} {}, {:#x};\n", type.substr(1), reg, bits);
    else text += fmt::format("ld.global.{} {}, [%rd1+{}];\n", type, reg, 4 * (first_input + 2 * i));
  }
  return text + fmt::format("setp.eq.u32 %p1, %r1, 12;\nsetp.eq.u32 %p2, %r1, 0;\n{}\nret;\n}}\n", statement);
}

/// The entry's instruction on the line of the statement, with its roles.
kernel::PtxInstruction instruction_of(std::string_view statement, std::vector<std::string>& registers) {
  kernel::Module module = kernel::read_module(text_of(statement, false));
  kernel::Entry& entry = module.entries.front();
  kernel::assign_roles(module, entry, is_of_blackwell(statement) ? Target::sm_100a : Target::sm_90a);
  for (const kernel::Register& reg : entry.registers) registers.push_back(reg.name);
  const auto instruction = std::ranges::find(entry.instructions, line_of_statement, &kernel::PtxInstruction::line);
  REQUIRE(instruction != entry.instructions.end());
  return *instruction;
}

std::string effects_of(std::string_view statement) {
  std::vector<std::string> registers;
  const kernel::PtxInstruction instruction = instruction_of(statement, registers);
  if (instruction.is_refused) return "refused";
  const auto names = [&](const std::vector<int>& all) {
    std::set<std::string> sorted;
    for (const int reg : all) sorted.insert(registers[static_cast<size_t>(reg)]);
    return fmt::format("{}", fmt::join(sorted, " "));
  };
  const kernel::Effects effects = kernel::effects_of(instruction);
  std::string text = instruction.acts ? "acts: " : "";
  if (!effects.writes.empty()) text += names(effects.writes) + " ";
  return text + "<- " + names(effects.reads);
}

std::string trace_of(std::string_view statement) {
  const PtxEntry entry(text_of(statement, false));
  std::vector<uint32_t> words(64);
  for (uint32_t i = 0; i < 64; ++i) words[i] = i;
  for (size_t i = 0; i < inputs.size(); ++i) {
    words[first_input + 2 * i] = static_cast<uint32_t>(inputs[i].bits);
    words[first_input + 2 * i + 1] = static_cast<uint32_t>(inputs[i].bits >> 32);
  }
  std::string text;
  const ThreadTrace trace{.step = [&](const ThreadStep& step) {
    if (step.line != line_of_statement) return true;
    for (const ThreadRegister& written : step.written) {
      if (!text.empty()) text += ' ';
      text += fmt::format("{}={:x}", written.name, written.bits[0]);
      if (written.bits[1] != 0) text += fmt::format(":{:x}", written.bits[1]);
    }
    return true;
  }};
  (void)launch(entry,
               {.block = {128, 1, 1}, .arguments = {test::memory(words)}, .races = RaceCheck::off, .trace = &trace});
  return text;
}

/// Whether folding leaves a copy of a number, or nothing, where the statement was: its operands are numbers. A
/// predicate that is known stays, and those who read it change.
bool folds(std::string_view statement) {
  kernel::Module module = kernel::read_module(text_of(statement, true));
  kernel::Entry& entry = module.entries.front();
  kernel::assign_roles(module, entry, Target::sm_90a);
  const kernel::Entry folded = kernel::folded(entry, Target::sm_90a);
  const auto instruction = std::ranges::find(folded.instructions, line_of_statement, &kernel::PtxInstruction::line);
  if (instruction == folded.instructions.end()) return true;
  if (instruction->row->passes != kernel::Passes::value) return false;
  const kernel::Operand& from = instruction->operands.back();
  return from.kind == kernel::Operand::Kind::integer;
}

}  // namespace

TEST_CASE("each opcode reads, writes, acts, leaves and folds what its row says") {
  std::set<std::string_view> seen;
  for (const Row& row : rows) {
    std::string_view opcode = row.statement;
    if (opcode.starts_with('@')) opcode = opcode.substr(opcode.find(' ') + 1);
    seen.insert(opcode.substr(0, opcode.find_first_of(".; ")));
    INFO(row.statement);
    CHECK(effects_of(row.statement) == row.effects);
    if (row.effects == "refused") continue;
    CHECK(trace_of(row.statement) == row.trace);
    CHECK(folds(row.statement) == row.folds);
  }
  for (const kernel::Opcode* const opcode : kernel::opcodes()) {
    INFO(print(opcode->name));
    CHECK(seen.contains(print(opcode->name)));
  }
}

TEST_CASE("an opcode without the operands of its row is refused") {
  for (const Row& row : rows) {
    const size_t opcode = row.statement.starts_with('@') ? row.statement.find(' ') + 1 : 0,
                 end = row.statement.find_first_of(" ;", opcode);
    if (row.statement[end] == ';') continue;  // it has none
    const std::string without(row.statement.substr(0, end));
    INFO(without);
    bool is_refused = false;
    try {
      std::vector<std::string> registers;
      is_refused = instruction_of(without + ";", registers).is_refused;
    } catch (const Error&) {
      is_refused = true;  // by the parser
    }
    CHECK(is_refused);
  }
}

}  // namespace bitmma
