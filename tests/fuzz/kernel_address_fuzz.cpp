// Addresses that a kernel computes: around 0, 2^24, 2^32, 2^63 and 2^64, and the ends of all memories. The kernels are
// compiled once, so that an input is a launch: every access is in bounds or a fault.
#include <map>
#include <memory>

#include "bitmma/kernel/kernel.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

/// An instruction at an address: %rd2 is the lane's first address and %r2 its low half, %rd3 and %r3 the second; %r4 is
/// a number.
struct Access {
  std::string text;
  Target target = Target::sm_90a;
};

std::vector<Access> accesses() {
  std::vector<Access> all;
  struct Data {
    std::string_view type, registers;
  };
  constexpr Data data[] = {{"b8", "%h1"},
                           {"b16", "%h1"},
                           {"u32", "%r10"},
                           {"b64", "%rd10"},
                           {"b128", "%q1"},
                           {"v2.b8", "{%h1, %h2}"},
                           {"v2.b32", "{%r10, %r11}"},
                           {"v4.b32", "{%r10, %r11, %r12, %r13}"},
                           {"v2.b64", "{%rd10, %rd11}"}};
  for (const std::string_view space : {"", ".shared", ".shared::cluster", ".local", ".global", ".const", ".param"}) {
    for (const Data& row : data) {
      const std::string suffix = std::string(space) + "." + std::string(row.type), registers(row.registers);
      for (const std::string_view address : {"[%rd2]", "[%rd2+-4]", "[%r2]", "[%r2+16]"}) {
        all.push_back({"ld" + suffix + " " + registers + ", " + std::string(address) + ";"});
        if (space != ".const" && space != ".param")
          all.push_back({"st" + suffix + " " + std::string(address) + ", " + registers + ";"});
      }
    }
  }
  for (const std::string_view space : {"", ".shared", ".global"}) {
    const std::string text(space);
    all.push_back({"atom" + text + ".add.u32 %r10, [%rd2], %r4;"});
    all.push_back({"atom" + text + ".add.u64 %rd10, [%rd2], %rd3;"});
    all.push_back({"atom" + text + ".cas.b16 %h1, [%rd2], %h2, %h3;"});
    all.push_back({"atom" + text + ".exch.b128 %q1, [%rd2], %q2;"});
    all.push_back({"atom" + text + ".add.noftz.bf16x2 %r10, [%rd2], %r4;"});
  }
  all.push_back({"red.global.add.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};"});
  for (const std::string_view size : {"4", "8", "16"}) {
    all.push_back({"cp.async.ca.shared.global [%r2], [%rd3], " + std::string(size) + ";\ncp.async.wait_all;"});
    all.push_back({"and.b32 %r4, %r4, 7;\ncp.async.ca.shared.global [%rd2], [%rd3], " + std::string(size) +
                   ", %r4;\ncp.async.wait_all;"});
  }
  for (const std::string_view text :
       {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];",
        "ldmatrix.sync.aligned.m8n8.x1.b16 {%r10}, [%rd2];",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r10, %r11, %r12, %r13};",
        "stmatrix.sync.aligned.m8n8.x2.trans.b16 [%rd2], {%r10, %r11};",
        "mbarrier.init.shared.b64 [%r2], 1;\nmbarrier.arrive.shared.b64 %rd10, [%r3];",
        "mbarrier.init.b64 [%rd2], %r4;\nmbarrier.inval.b64 [%rd3];",
        "mbarrier.init.shared.b64 [%r2], 3;\nmbarrier.expect_tx.shared.b64 [%r2], "
        "%r4;\nmbarrier.test_wait.parity.shared.b64 %p1, [%r3], 0;",
        "mbarrier.init.shared.b64 [bar], 1;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], "
        "[%rd3], %r4, [bar];\n"
        "mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;",
        "mbarrier.init.shared.b64 [bar], 1;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[space], [%rd3], 16, [%r2];",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r3], %r4;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [%r3], %r4;",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r2], [%r3], %r4, [bar];",
        "mbarrier.init.shared.b64 [bar], 1;\nst.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r2], "
        "{%r10, %r11}, [%r3];",
        "mbarrier.init.shared.b64 [bar], "
        "1;\nred.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2], %r10, [%r3];",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%rd2], 1, %r4;",
        "tensormap.replace.tile.global_address.global.b1024.b64 [%rd2], %rd3;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [%rd3], 128;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd3, {%r4, %r10}], "
        "[bar];",
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd2, {%r4}], [%r3];",
        "mapa.shared::cluster.u32 %r10, %r2, %r4;\nld.shared::cluster.u32 %r11, [%r10];",
        "cvta.to.shared.u64 %rd10, %rd2;\nst.shared.u32 [%rd10], %r4;",
        "cvta.local.u64 %rd10, %rd2;\nst.u32 [%rd10], %r4;",
        "isspacep.shared %p1, %rd2;\n@%p1 st.u64 [%rd2], %rd3;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd2, %rd3, 1, 1, 1, 0, "
        "0;\nwgmma.commit_group.sync.aligned;"})
    all.push_back({std::string(text)});
  for (const std::string_view text : {"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;",
                                      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [space], 64;\n"
                                      "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r10, %r11}, [%r2];",
                                      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [space], 64;\n"
                                      "tcgen05.st.sync.aligned.16x64b.x1.b32 [%r2], {%r10};",
                                      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [space], 64;\n"
                                      "tcgen05.cp.cta_group::1.128x256b [%r2], %rd3;",
                                      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [space], 64;\n"
                                      "tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd2, %rd3, %r4, %p1;",
                                      "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;",
                                      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd2];",
                                      "ld.global.v8.b32 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%rd2];",
                                      "st.global.v4.b64 [%rd2], {%rd10, %rd11, %rd12, %rd13};"})
    all.push_back({std::string(text), Target::sm_100a});
  return all;
}

std::string module_of(const Access& access) {
  const bool is_later = access.target == Target::sm_100a;
  return std::string(".version 8.7\n.target ") + (is_later ? "sm_100a" : "sm_90a") +
         "\n.address_size 64\n.const .align 16 .b8 constants[64];\n"
         ".visible .entry k(.param .u64 x, .param .u64 y, .param .align 8 .b8 z[40])\n{\n"
         ".reg .b32 %r<40>;\n.reg .b64 %rd<40>;\n.reg .f32 %f<9>;\n.reg .b16 %h<9>;\n.reg .b128 %q<4>;\n.reg .pred "
         "%p<4>;\n"
         ".shared .align 128 .b8 space[512];\n.shared .align 8 .b64 bar;\n.local .align 16 .b8 own[64];\n"
         // Each variable is named, so that each has a place.
         "mov.u64 %rd30, space;\nmov.u64 %rd31, own;\nmov.u64 %rd32, constants;\n"
         "ld.param.u64 %rd1, [x];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd4, %r1, 16;\nadd.s64 %rd1, %rd1, %rd4;\n"
         "ld.global.v2.u64 {%rd2, %rd3}, [%rd1];\nld.global.u32 %r4, [%rd1+4];\ncvt.u32.u64 %r2, %rd2;\ncvt.u32.u64 "
         "%r3, %rd3;\n" +
         access.text + "\nret;\n}\n";
}

struct Compiled {
  std::unique_ptr<PtxEntry> kernel;  // nullptr: refused
};

const std::vector<Compiled>& kernels() {
  static const auto all = [] {
    std::vector<Compiled> compiled;
    for (const Access& access : accesses()) {
      Compiled row;
      accepts([&] { row.kernel = std::make_unique<PtxEntry>(module_of(access), KernelOptions{.entry = "k"}); });
      if (row.kernel) compiled.push_back(std::move(row));
    }
    require(compiled.size() > 200, "most of the kernels are accepted");
    return compiled;
  }();
  return all;
}

constexpr int threads = 32;
constexpr size_t memory_bytes = 256;

uint64_t address(Bytes& in, uint64_t first, uint64_t second) {
  // Windows of shared, local, constant and parameter memory, and of the launch's memories; sm_90's shared memory begins
  // behind a reserved KiB.
  constexpr uint64_t edges[] = {0,
                                uint64_t{1} << 10,
                                (uint64_t{1} << 10) + 512,
                                (uint64_t{1} << 10) + 520,
                                uint64_t{1} << 24,
                                (uint64_t{1} << 24) + 1024,
                                uint64_t{1} << 32,
                                uint64_t{1} << 63,
                                0x600000000000,
                                0x600000000400,
                                0x610000000000,
                                0x610000000040,
                                0x620000000000,
                                0x630000000000,
                                0x630000000038,
                                0x640000000000,
                                0x40,
                                227 * 1024};
  const int which = between(in, 0, 23);
  const uint64_t edge = which < 18    ? edges[which]
                        : which == 18 ? first
                        : which == 19 ? first + memory_bytes
                        : which == 20 ? second
                        : which == 21 ? second + memory_bytes
                                      : in.ConsumeIntegral<uint64_t>();
  return edge + static_cast<uint64_t>(int64_t{in.ConsumeIntegralInRange(-64, 64)} * (in.ConsumeBool() ? 1 : 16));
}

void run(Bytes& in) {
  const Compiled& row = pick(in, kernels());
  // The first bytes of x are the lanes' addresses, which the kernel reads before it overwrites them.
  std::vector<uint8_t> x(threads * 16 + memory_bytes), y(memory_bytes, uint8_t{3});
  const uint64_t first = 0x400000000000 + threads * 16, second = 0x400000000000 + 8192;
  uint64_t pairs[2 * threads];
  for (uint64_t& word : pairs) word = 0;
  const bool alike = in.ConsumeBool();
  for (int lane = 0; lane < threads; ++lane) {
    for (int k = 0; k < 2; ++k)
      pairs[2 * lane + k] = (alike || in.remaining_bytes() == 0) && lane > 0 ? pairs[k] : address(in, first, second);
  }
  std::memcpy(x.data(), pairs, sizeof pairs);
  std::vector<KernelArgument> arguments{
      memory_argument(x), memory_argument(y), {.value = std::vector<uint8_t>(40, uint8_t{5})}};
  const bool of_pair = one_in(in, 8);
  accepts([&] {
    (void)launch(*row.kernel, {.grid = {of_pair ? 2 : 1, 1, 1},
                               .block = {one_in(in, 4) ? 128 : threads, 1, 1},
                               .cluster = std::array<int64_t, 3>{of_pair ? 2 : 1, 1, 1},
                               .arguments = arguments,
                               .checks = in.ConsumeBool(),
                               .most_steps = 500});
  });
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) { bitmma::fuzz::run(in); }
