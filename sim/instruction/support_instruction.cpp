// SPDX-License-Identifier: MIT
#include "bitmma/instruction/support_instruction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "bitmma/core/text.hpp"
#include "table_sets.hpp"
#include "text/words.hpp"

namespace bitmma {
namespace {

using enum Target;
using table_sets::from_ampere, table_sets::from_hopper;
using target_sets::rubin;
constexpr TargetSet wgmma_targets = target_sets::hopper, tcgen05_targets = target_sets::tcgen05,
                    rubin_alone = architecture_specific(rubin),
                    byte_matrices = target_sets::tcgen05 | target_sets::consumer_blackwell;
using Last = SupportInstructionInfo::Last;
constexpr int64_t most_columns = 576;  // on sm_107a, with exclusive allocation

constexpr std::string_view lut = "decompress::lut::b", lut_source = "PTX ISA 9.4, 9.7.18.10.8 and Table 49",
                           lut_does =
                               "D = A * B + D with K = 64, where an element of B is an index of 3 bits: it selects one "
                               "of eight e4m3 in a table in Tensor Memory, one table for every 8 columns of B; bitmma "
                               "does not execute it, because PTX shows the places of the tables only in figures";

constexpr std::string_view
    mbarrier_source = "PTX ISA, mbarrier",
    bulk_source = "PTX ISA, cp.async.bulk", arrive_operands = "state, [mbar], count",
    arrive_does =
        "one arrival at the mbarrier, or `count` arrivals; after the last arrival and all announced bytes, the next "
        "phase begins",
    arrive_orders =
        "threads that wait for the phase see what this thread wrote before; for wgmma, tcgen05 and TMA put "
        "fence.proxy.async before it",
    test_wait_does = "tests whether a phase of the mbarrier is complete, without waiting",
    try_wait_does =
        "tests whether a phase of the mbarrier is complete; the thread may sleep meanwhile, so call it in a loop",
    wait_orders =
        "if the result is true, everything that other threads wrote before they arrived is visible, and so are all "
        "announced bytes",
    parity_orders =
        "as .test_wait with a state; the parity is 0 for the first phase and then alternates. For parity 1, the phase "
        "before the first one, the result is true at once",
    tensor_load_operands = "[dst], [tensorMap, coordinates], [mbar], im2colOffsets, ctaMask, cache-policy",
    tensor_load_does =
        "TMA: one thread copies a box of a tensor in global memory to shared memory, swizzled as the tensor map says; "
        "elements outside of the tensor are zero. The mbarrier counts the bytes of the whole box",
    tensor_load_orders =
        "before or after mbarrier.arrive.expect_tx; the bytes have arrived when the phase of the mbarrier is complete",
    bulk_store_orders =
        "after fence.proxy.async if ordinary stores wrote the source; wait for it with cp.async.bulk.commit_group and "
        ".wait_group";

/// An operand that is present exactly if the mnemonic has a qualifier with this beginning.
struct BoundOperand {
  std::string_view name, qualifier;
};
constexpr auto bound_operands = std::to_array<BoundOperand>({
    {"ctaMask", ".multicast"},
    {"cache-policy", ".L2::cache_hint"},
    {"im2colOffsets", ".im2col"},
});

struct OperandMeaning {
  std::string_view name, meaning;
};
constexpr auto operand_meanings = std::to_array<OperandMeaning>({
    {"[mbar]", "the mbarrier: 8 bytes of shared memory, aligned to 8"},
    {"count", "the number of arrivals"},
    {"txCount", "bytes"},
    {"state", "the phase in which the arrival was counted; _ if it is not needed"},
    {"state or phaseParity", "the tested phase"},
    {"phaseParity", "the parity of the tested phase: 0 or 1"},
    {"waitComplete", "predicate: the phase is complete"},
    {"suspendTimeHint", "how long the thread may sleep, in nanoseconds"},
    {"[dst]", "destination of the first byte"},
    {"[src]", "source of the first byte"},
    {"size", "bytes"},
    {"cp-size", "the number of bytes that are written: 4, 8 or 16"},
    {"src-size", "the number of bytes that are read; the rest is filled with zeros"},
    {"[tensorMap, coordinates]",
     "the tensor map, 128 bytes, and the element where the box begins, the innermost coordinate first"},
    {"[tensorMap]", "the tensor map, 128 bytes"},
    {"im2colOffsets", "offsets of .im2col"},
    {"ctaMask", "the CTAs of the cluster, one bit each"},
    {"cache-policy", "64 bits from createpolicy"},
    {"N", "the number of groups that may be unfinished"},
    {"nCols", "columns of Tensor Memory"},
    {"taddr", "address in Tensor Memory"},
});

// In `does`, {xN} is the number of a qualifier .xN, {last} the last operand that no qualifier adds.
// clang-format off
constexpr auto support_rows = std::to_array<SupportInstructionInfo>({
    {.name = "wgmma.fence", .qualifiers = "sync aligned", .targets = wgmma_targets,
     .does = "orders register accesses: the following wgmma see what the warpgroup wrote into D and A before",
     .orders = "before the first wgmma, and after other code accessed its registers; not needed between wgmma of one shape that accumulate into the same registers",
     .source = "PTX ISA 9.7.15.7.1", .example = "wgmma.fence.sync.aligned;"},
    {.name = "wgmma.commit_group", .qualifiers = "sync aligned", .targets = wgmma_targets,
     .does = "groups all wgmma that the warp issued since the last wgmma.commit_group; the group is empty if there are none",
     .orders = "D may be read only after a wgmma.wait_group that waits for its group", .source = "PTX ISA 9.7.15.7.2",
     .example = "wgmma.commit_group.sync.aligned;"},
    {.name = "wgmma.wait_group", .qualifiers = "sync aligned", .operands = "N", .least_operands = 1, .most_operands = 1,
     .last = Last::count, .targets = wgmma_targets,
     .does = "waits until at most the {last} most recent groups of wgmma are unfinished; 0 waits for all",
     .orders = "after it, the registers of D and A of the finished groups may be accessed", .source = "PTX ISA 9.7.15.7.3",
     .example = "wgmma.wait_group.sync.aligned 0;"},
    {.name = "fence.proxy.async", .qualifiers = "global|shared::cta|shared::cluster?", .targets = TargetSet::from(sm_90),
     .does = "makes ordinary writes of shared or global memory visible to the async proxy, through which wgmma, tcgen05 and TMA read",
     .orders = "after stores to operands and before the wgmma or tcgen05.mma that reads them", .source = "PTX ISA, fence",
     .example = "fence.proxy.async.shared::cta;"},
    {.name = "tcgen05.alloc", .qualifiers = "cta_group::1|cta_group::2 sync aligned shared::cta? b32", .operands = "[dst], nCols",
     .least_operands = 2, .most_operands = 2, .last = Last::columns, .targets = tcgen05_targets,
     .does = "one warp allocates {last} columns of Tensor Memory with all 128 lanes and writes their address to shared memory; it waits until enough columns are free",
     .orders = "a whole warp runs it; read the address after a barrier. Free each allocation with tcgen05.dealloc before the kernel ends",
     .source = "PTX ISA 9.7.16.7", .example = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r0], 32;"},
    {.name = "tcgen05.alloc", .qualifiers = "exclusive cta_group::1|cta_group::2 sync aligned shared::cta? b32", .operands = "[dst], nCols",
     .least_operands = 2, .most_operands = 2, .last = Last::exclusive_columns, .targets = tcgen05_targets, .ptx = {9, 4},
     .does = "one warp allocates {last} columns of Tensor Memory, and waits until there is no other allocation; no other warp may allocate until they are freed",
     .orders = "free it with tcgen05.dealloc.exclusive and the same nCols. Columns 512..575 of sm_107a exist only in such an allocation",
     .source = "PTX ISA 9.4, 9.7.18.7.1", .example = "tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [r0], 96;"},
    {.name = "tcgen05.dealloc", .qualifiers = "cta_group::1|cta_group::2 sync aligned b32", .operands = "taddr, nCols", .least_operands = 2,
     .most_operands = 2, .last = Last::columns, .targets = tcgen05_targets,
     .does = "frees {last} columns of Tensor Memory that tcgen05.alloc allocated",
     .orders = "after everything that uses them: after tcgen05.wait::ld and ::st and the mbarrier of the last tcgen05.commit",
     .source = "PTX ISA 9.7.16.7", .example = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 r0, 32;"},
    {.name = "tcgen05.dealloc", .qualifiers = "exclusive cta_group::1|cta_group::2 sync aligned b32", .operands = "taddr, nCols", .least_operands = 2,
     .most_operands = 2, .last = Last::exclusive_columns, .targets = tcgen05_targets, .ptx = {9, 4},
     .does = "frees {last} columns of Tensor Memory that tcgen05.alloc.exclusive allocated; other warps may allocate again",
     .orders = "as tcgen05.dealloc; use .exclusive if and only if tcgen05.alloc had it", .source = "PTX ISA 9.4, 9.7.18.7.1",
     .example = "tcgen05.dealloc.exclusive.cta_group::1.sync.aligned.b32 r0, 96;"},
    {.name = "tcgen05.relinquish_alloc_permit", .qualifiers = "cta_group::1|cta_group::2 sync aligned", .targets = tcgen05_targets,
     .does = "the CTA gives up the right to allocate: no tcgen05.alloc may follow in it",
     .orders = "after the CTA's last tcgen05.alloc", .source = "PTX ISA 9.7.16.7",
     .example = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"},
    {.name = "tcgen05.commit", .qualifiers = "cta_group::1|cta_group::2 mbarrier::arrive::one shared::cluster? multicast::cluster? b64",
     .operands = "[mbar], ctaMask", .least_operands = 1, .most_operands = 1, .targets = tcgen05_targets,
     .does = "makes an mbarrier track the asynchronous tcgen05 instructions that this thread issued before: mma, cp and shift; it arrives when they are done",
     .orders = "after a wait for the mbarrier, D and the copies are complete",
     .source = "PTX ISA, tcgen05.commit", .example = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [rd0];"},
    {.name = "tcgen05.commit", .qualifiers = "cta_group::1|cta_group::2 mbarrier::arrive::one shared::cluster? multicast::cluster::16b b64",
     .operands = "[mbar], ctaMask", .least_operands = 1, .most_operands = 1, .targets = tcgen05_targets, .ptx = {9, 4},
     .does = "as tcgen05.commit with .multicast::cluster: an mbarrier in each CTA of a mask of 16 bits tracks the instructions",
     .orders = "after a wait for the mbarrier, D and the copies are complete", .source = "PTX ISA 9.4, 9.7.18.12.1",
     .example = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster::16b.b64 [rd0], rs0;"},
    {.name = "tcgen05.commit", .qualifiers = "cta_group::1|cta_group::2 mbarrier::arrive::one sync_restrict::shared::read::mma::a? shared::cluster? multicast::cluster::32b|multicast::cluster::16b|multicast::cluster? b64",
     .operands = "[mbar], ctaMask", .least_operands = 1, .most_operands = 1, .targets = rubin, .ptx = {9, 4},
     .does = "as tcgen05.commit; with .sync_restrict it arrives as soon as the earlier tcgen05.mma have read A from shared memory, before they are done; .multicast::cluster::32b has a mask of 32 bits",
     .orders = "with .sync_restrict, A may then be overwritten, but D must not be read yet", .source = "PTX ISA 9.4, 9.7.18.12.1",
     .example = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.sync_restrict::shared::read::mma::a.shared::cluster.multicast::cluster::32b.b64 [rd0], r0;"},
    {.name = "tcgen05.wait::ld", .qualifiers = "sync aligned", .targets = tcgen05_targets,
     .does = "waits until all tcgen05.ld of the thread are done", .orders = "after it, the registers of tcgen05.ld are valid",
     .source = "PTX ISA, tcgen05.wait", .example = "tcgen05.wait::ld.sync.aligned;"},
    {.name = "tcgen05.wait::st", .qualifiers = "sync aligned", .targets = tcgen05_targets,
     .does = "waits until all tcgen05.st of the thread are done", .orders = "after it, Tensor Memory contains what they wrote",
     .source = "PTX ISA, tcgen05.wait", .example = "tcgen05.wait::st.sync.aligned;"},
    {.name = "tcgen05.fence::before_thread_sync", .targets = tcgen05_targets,
     .does = "orders the thread's earlier asynchronous tcgen05 instructions before the following thread synchronization",
     .orders = "before a barrier or an mbarrier arrive that notifies other threads", .source = "PTX ISA, tcgen05.fence",
     .example = "tcgen05.fence::before_thread_sync;"},
    {.name = "tcgen05.fence::after_thread_sync", .targets = tcgen05_targets,
     .does = "orders the thread's later asynchronous tcgen05 instructions after the preceding thread synchronization",
     .orders = "after a barrier or a wait for an mbarrier, and before the first tcgen05 that relies on it", .source = "PTX ISA, tcgen05.fence",
     .example = "tcgen05.fence::after_thread_sync;"},
    {.name = "tcgen05.ld.spcompress", .qualifiers = "sync aligned 32x32b x4|x8|x16|x32|x64|x128 min|max abs? sp::2:4 f32 b2",
     .operands = "mdata, cdata, [taddr]", .least_operands = 3, .most_operands = 3, .targets = rubin_alone, .ptx = {9, 4},
     .does = "loads f32 as tcgen05.ld does, and keeps the 2 smallest or largest of every 4 neighbours of a thread, with an index of 2 bits each; bitmma does not execute it, because the packing of mdata and the choice between equal values are not published",
     .orders = "as tcgen05.ld", .source = "PTX ISA 9.4, 9.7.18.8",
     .example = "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.max.sp::2:4.f32.b2 {r0}, {r1, r2}, [r3];"},
    {.name = "tcgen05.ld.red.spcompress", .qualifiers = "sync aligned 32x32b x4|x8|x16|x32|x64|x128 min|max abs? NaN? sp::2:4 f32 b2",
     .operands = "mdata, cdata, redval, [taddr]", .least_operands = 4, .most_operands = 4, .targets = rubin_alone, .ptx = {9, 4},
     .does = "as tcgen05.ld.spcompress, with redval as tcgen05.ld.red has it; bitmma does not execute it",
     .orders = "as tcgen05.ld", .source = "PTX ISA 9.4, 9.7.18.8",
     .example = "tcgen05.ld.red.spcompress.sync.aligned.32x32b.x4.max.sp::2:4.f32.b2 {r0}, {r1, r2}, r4, [r3];"},
    {.name = "spcompress", .qualifiers = "sp::2:4 x1|x2|x4|x8|x16|x32|x64 b8|b16 b2|b4", .operands = "mdata, cdata, data, spdesc",
     .least_operands = 4, .most_operands = 4, .targets = rubin_alone, .ptx = {9, 4},
     .does = "keeps 2 of every 4 elements in registers, as spdesc specifies, with their indices; bitmma does not execute it, because the choice between equal elements is left to the implementation",
     .source = "PTX ISA 9.4, spcompress", .example = "spcompress.sp::2:4.x1.b16.b2 {r0}, {r1}, {r2, r3}, r4;"},
    {.name = "spdecompress", .qualifiers = "sp::1:2|sp::1:4|sp::1:8|sp::1:16|sp::2:4|sp::2:8|sp::2:16|sp::4:8|sp::4:16 x1|x2|x4|x8|x16|x32|x64 b8|b16 b2|b4",
     .operands = "data, mdata, cdata", .least_operands = 3, .most_operands = 3, .targets = rubin_alone, .ptx = {9, 4},
     .does = "puts the elements of registers back to the places of their indices, with zeros between them; bitmma does not execute it",
     .source = "PTX ISA 9.4, spdecompress", .example = "spdecompress.sp::2:4.x1.b16.b2 {r2, r3}, {r0}, {r1};"},
    {.name = "tcgen05.mma", .word = lut,
     .qualifiers = "cta_group::1|cta_group::2 kind::f8f6f4 decompress::lut::b collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard? collector::b::fill|collector::b::use|collector::b::lastuse|collector::b::discard?",
     .operands = "[d], a-desc or [a], b-desc, [table], idesc, {disable-output-lane}, enable-input-d",
     .least_operands = 6, .most_operands = 7, .targets = rubin, .ptx = {9, 4}, .does = lut_does, .source = lut_source,
     .example = "tcgen05.mma.cta_group::1.kind::f8f6f4.decompress::lut::b [r0], rd0, rd1, [r1], r2, 1;"},
    {.name = "tcgen05.mma", .word = lut,
     .qualifiers = "cta_group::1|cta_group::2 kind::mxf8f6f4 block_scale block32? decompress::lut::b collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard? collector::b::fill|collector::b::use|collector::b::lastuse|collector::b::discard?",
     .operands = "[d], a-desc or [a], b-desc, [table], idesc, [scale-A], [scale-B], enable-input-d",
     .least_operands = 8, .most_operands = 8, .targets = rubin, .ptx = {9, 4}, .does = lut_does, .source = lut_source,
     .example = "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.decompress::lut::b.block32.collector::b::fill [r0], rd0, rd1, [r1], r2, [r3], [r4], 1;"},
    {.name = "tcgen05.mma", .word = lut,
     .qualifiers = "cta_group::1|cta_group::2 kind::mxf8f6f4 block_scale scale_vec::1X decompress::lut::b collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard? collector::b::fill|collector::b::use|collector::b::lastuse|collector::b::discard?",
     .operands = "[d], a-desc or [a], b-desc, [table], idesc, [scale-A], [scale-B], enable-input-d",
     .least_operands = 8, .most_operands = 8, .targets = rubin_alone, .ptx = {9, 4}, .does = lut_does, .source = lut_source,
     .example = "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X.decompress::lut::b [r0], rd0, rd1, [r1], r2, [r3], [r4], 1;"},
    {.name = "ldmatrix", .qualifiers = "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16", .operands = "r, [p]",
     .least_operands = 2, .most_operands = 2, .targets = TargetSet::from(sm_75),
     .does = "shared memory -> registers of a warp: {xN} of 8 x 8 elements of 16 bits, one register per thread for each matrix; thread 8 j + i supplies the address of row i of matrix j. bitmma layout ldmatrix shows where each element goes",
     .source = "PTX ISA 9.7.14.5.15", .example = "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {r0, r1}, [r2];"},
    {.name = "ldmatrix", .qualifiers = "sync aligned m16n16|m8n16 x1|x2|x4 trans? shared|shared::cta? b8|b8x16 b6x16_p32|b4x16_p64?", .operands = "r, [p]",
     .least_operands = 2, .most_operands = 2, .targets = byte_matrices,
     .does = "shared memory -> registers of a warp: {xN} of 8-bit elements, or of 4- and 6-bit ones unpacked into bytes. bitmma layout ldmatrix shows where each element goes",
     .source = "PTX ISA 9.7.14.5.15", .example = "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {r0, r1}, [r2];"},
    {.name = "stmatrix", .qualifiers = "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16", .operands = "[p], r",
     .least_operands = 2, .most_operands = 2, .targets = TargetSet::from(sm_90),
     .does = "registers of a warp -> shared memory: {xN} of 8 x 8 elements of 16 bits, one register per thread for each matrix; thread 8 j + i supplies the address of row i of matrix j",
     .source = "PTX ISA 9.7.14.5.16", .example = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [r2], {r0};"},
    {.name = "stmatrix", .qualifiers = "sync aligned m16n8 x1|x2|x4 trans shared|shared::cta? b8", .operands = "[p], r",
     .least_operands = 2, .most_operands = 2, .targets = byte_matrices,
     .does = "registers of a warp -> shared memory: {xN} of 16 x 8 elements of 8 bits. bitmma layout ldmatrix shows where each element goes",
     .source = "PTX ISA 9.7.14.5.16", .example = "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [r2], {r0};"},
    {.name = "movmatrix", .qualifiers = "sync aligned m8n8 trans b16", .operands = "d, a", .least_operands = 2, .most_operands = 2,
     .targets = TargetSet::from(sm_75), .does = "transposes an 8 x 8 matrix of 16-bit elements across the registers of a warp",
     .source = "PTX ISA, movmatrix", .example = "movmatrix.sync.aligned.m8n8.trans.b16 r0, r1;"},

    // mbarrier, and the instructions that signal arrived bytes to it.
    {.name = "mbarrier.init", .qualifiers = "shared|shared::cta? b64", .operands = "[mbar], count", .least_operands = 2, .most_operands = 2,
     .targets = from_ampere, .does = "makes 8 bytes of shared memory an mbarrier, whose phase completes after {last} arrivals and all announced bytes",
     .orders = "one thread runs it, followed by fence.mbarrier_init or fence.proxy.async and a barrier, before other threads, TMA or tcgen05.commit use it", .source = mbarrier_source,
     .example = "mbarrier.init.shared::cta.b64 [rd0], 1;"},
    {.name = "mbarrier.inval", .qualifiers = "shared|shared::cta? b64", .operands = "[mbar]", .least_operands = 1, .most_operands = 1, .targets = from_ampere,
     .does = "ends an mbarrier: its 8 bytes may be used for something else", .orders = "after everything that waits for it", .source = mbarrier_source,
     .example = "mbarrier.inval.shared::cta.b64 [rd0];"},
    {.name = "mbarrier.expect_tx", .qualifiers = "relaxed? cta|cluster? shared|shared::cta|shared::cluster? b64", .operands = "[mbar], txCount", .least_operands = 2,
     .most_operands = 2, .targets = from_hopper, .does = "announces {last} bytes: the phase completes only when they have arrived. It does not count as an arrival",
     .orders = "an arrival of the same phase must follow; otherwise the phase may complete too early", .source = mbarrier_source,
     .example = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [rd0], 4096;"},
    {.name = "mbarrier.complete_tx", .qualifiers = "relaxed? cta|cluster? shared|shared::cta|shared::cluster? b64", .operands = "[mbar], txCount", .least_operands = 2,
     .most_operands = 2, .targets = from_hopper, .does = "reports {last} announced bytes as arrived, without a copy; TMA does so itself", .source = mbarrier_source,
     .example = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [rd0], 4096;"},
    {.name = "mbarrier.arrive", .qualifiers = "release? cta? noComplete? shared|shared::cta? b64", .operands = arrive_operands, .least_operands = 2, .most_operands = 3,
     .targets = from_ampere, .does = arrive_does, .orders = arrive_orders, .source = mbarrier_source, .example = "mbarrier.arrive.shared::cta.b64 rd1, [rd0];"},
    {.name = "mbarrier.arrive", .qualifiers = "release|relaxed? cta|cluster? shared::cluster b64", .operands = arrive_operands, .least_operands = 2, .most_operands = 3,
     .targets = from_hopper, .does = "as mbarrier.arrive, on an mbarrier of another CTA of the cluster: mapa gives its address, and there is no state (_)", .orders = arrive_orders,
     .source = mbarrier_source, .example = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [rd0];"},
    {.name = "mbarrier.arrive", .qualifiers = "release|relaxed? cluster shared|shared::cta? b64", .operands = arrive_operands, .least_operands = 2, .most_operands = 3,
     .targets = from_hopper, .does = arrive_does, .orders = arrive_orders, .source = mbarrier_source, .example = "mbarrier.arrive.release.cluster.shared::cta.b64 rd1, [rd0];"},
    {.name = "mbarrier.arrive", .qualifiers = "expect_tx release|relaxed? cta|cluster? shared|shared::cta|shared::cluster? b64", .operands = "state, [mbar], txCount",
     .least_operands = 3, .most_operands = 3, .targets = from_hopper, .does = "announces {last} bytes, and arrives: the phase completes when the bytes and all other arrivals have come",
     .orders = "one thread runs it, before or after the cp.async.bulk whose bytes it counts. If the number is too large, waiting threads hang; if it is too small, they read data that has not arrived",
     .source = mbarrier_source, .example = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [rd0], 4096;"},
    {.name = "mbarrier.arrive_drop", .qualifiers = "release? cta? noComplete? shared|shared::cta? b64", .operands = arrive_operands, .least_operands = 2, .most_operands = 3,
     .targets = from_ampere, .does = "arrives, and removes the thread from the count of all later phases", .orders = arrive_orders, .source = mbarrier_source,
     .example = "mbarrier.arrive_drop.shared::cta.b64 rd1, [rd0];"},
    {.name = "mbarrier.arrive_drop", .qualifiers = "expect_tx release|relaxed? cta|cluster? shared|shared::cta|shared::cluster? b64", .operands = "state, [mbar], txCount",
     .least_operands = 3, .most_operands = 3, .targets = from_hopper, .does = "announces {last} bytes, arrives, and removes the thread from the count of all later phases",
     .orders = arrive_orders, .source = mbarrier_source, .example = "mbarrier.arrive_drop.expect_tx.shared::cta.b64 _, [rd0], 4096;"},
    {.name = "mbarrier.test_wait", .qualifiers = "acquire? cta? shared|shared::cta? b64", .operands = "waitComplete, [mbar], state", .least_operands = 3, .most_operands = 3,
     .targets = from_ampere, .does = test_wait_does, .orders = wait_orders, .source = mbarrier_source, .example = "mbarrier.test_wait.shared::cta.b64 p0, [rd0], rd1;"},
    {.name = "mbarrier.test_wait", .qualifiers = "parity acquire? cta? shared|shared::cta? b64", .operands = "waitComplete, [mbar], phaseParity", .least_operands = 3,
     .most_operands = 3, .targets = from_ampere, .does = test_wait_does, .orders = parity_orders, .source = mbarrier_source,
     .example = "mbarrier.test_wait.parity.shared::cta.b64 p0, [rd0], 0;"},
    {.name = "mbarrier.test_wait", .qualifiers = "parity? acquire|relaxed? cluster shared|shared::cta? b64", .operands = "waitComplete, [mbar], state or phaseParity",
     .least_operands = 3, .most_operands = 3, .targets = from_hopper, .does = test_wait_does, .orders = parity_orders, .source = mbarrier_source,
     .example = "mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 p0, [rd0], 0;"},
    {.name = "mbarrier.try_wait", .qualifiers = "acquire|relaxed? cta|cluster? shared|shared::cta? b64", .operands = "waitComplete, [mbar], state, suspendTimeHint",
     .least_operands = 3, .most_operands = 4, .targets = from_hopper, .does = try_wait_does, .orders = wait_orders, .source = mbarrier_source,
     .example = "mbarrier.try_wait.shared::cta.b64 p0, [rd0], rd1;"},
    {.name = "mbarrier.try_wait", .qualifiers = "parity acquire|relaxed? cta|cluster? shared|shared::cta? b64", .operands = "waitComplete, [mbar], phaseParity, suspendTimeHint",
     .least_operands = 3, .most_operands = 4, .targets = from_hopper, .does = try_wait_does, .orders = parity_orders, .source = mbarrier_source,
     .example = "mbarrier.try_wait.parity.shared::cta.b64 p0, [rd0], 0;"},
    {.name = "mbarrier.pending_count", .qualifiers = "b64", .operands = "count, state", .least_operands = 2, .most_operands = 2, .targets = from_ampere,
     .does = "the number of arrivals that a phase still expected when the state was returned", .source = mbarrier_source, .example = "mbarrier.pending_count.b64 r0, rd1;"},
    {.name = "fence.mbarrier_init", .qualifiers = "release cluster", .targets = from_hopper,
     .does = "makes the mbarrier.init of this thread visible to the cluster, and to the async proxy",
     .orders = "after mbarrier.init, and before the cluster barrier after which others use the mbarrier", .source = "PTX ISA, fence",
     .example = "fence.mbarrier_init.release.cluster;"},
    {.name = "fence.proxy.tensormap::generic", .qualifiers = "release cta|cluster|gpu|sys", .targets = from_hopper,
     .does = "releases ordinary writes of a tensor map to the proxy through which TMA reads it", .orders = "after tensormap.replace or stores to the map", .source = "PTX ISA, fence",
     .example = "fence.proxy.tensormap::generic.release.gpu;"},
    {.name = "fence.proxy.tensormap::generic", .qualifiers = "acquire cta|cluster|gpu|sys", .operands = "[tensorMap], size", .least_operands = 2, .most_operands = 2,
     .targets = from_hopper, .does = "makes a tensor map that was written to 128 bytes of global memory visible to TMA", .orders = "before the cp.async.bulk.tensor that uses the map",
     .source = "PTX ISA, fence", .example = "fence.proxy.tensormap::generic.acquire.gpu [rd0], 128;"},
    // Bulk copies. `bitmma layout smem --tma` shows what a tensor map's swizzle writes.
    {.name = "cp.async.bulk.tensor", .qualifiers = "1d|2d|3d|4d|5d shared::cluster|shared::cta global tile|im2col? mbarrier::complete_tx::bytes multicast::cluster? L2::cache_hint?",
     .operands = tensor_load_operands, .least_operands = 3, .most_operands = 3, .targets = from_hopper, .does = tensor_load_does, .orders = tensor_load_orders, .source = bulk_source,
     .example = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [rd0], [rd1, {r0, r1}], [rd2];"},
    {.name = "cp.async.bulk.tensor", .qualifiers = "1d|2d|3d|4d|5d shared::cluster|shared::cta global tile|tile::gather4|im2col|im2col::w|im2col::w::128? mbarrier::complete_tx::bytes multicast::cluster? cta_group::1|cta_group::2 L2::cache_hint?",
     .operands = tensor_load_operands, .least_operands = 3, .most_operands = 3, .targets = tcgen05_targets,
     .does = "as cp.async.bulk.tensor; with .cta_group::2 the mbarrier may be that of the other CTA of the pair", .orders = tensor_load_orders, .source = bulk_source,
     .example = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [rd0], [rd1, {r0, r1}], [rd2];"},
    {.name = "cp.async.bulk.tensor", .qualifiers = "2d|3d|4d|5d shared::cta global tile::gather4|im2col::w|im2col::w::128 mbarrier::complete_tx::bytes multicast::cluster? L2::cache_hint?",
     .operands = tensor_load_operands, .least_operands = 3, .most_operands = 3, .targets = TargetSet::from(sm_100),
     .does = "as cp.async.bulk.tensor; .tile::gather4 copies four rows of a matrix, given by their indices", .orders = tensor_load_orders, .source = bulk_source,
     .example = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [rd0], [rd1, {r0, r1, r2, r3, r4}], [rd2];"},
    {.name = "cp.async.bulk.tensor", .qualifiers = "2d|3d|4d|5d shared::cluster global tile::gather4|im2col::w|im2col::w::128 mbarrier::complete_tx::bytes multicast::cluster? L2::cache_hint?",
     .operands = tensor_load_operands, .least_operands = 3, .most_operands = 3, .targets = tcgen05_targets,
     .does = "as cp.async.bulk.tensor; .tile::gather4 copies four rows of a matrix, given by their indices", .orders = tensor_load_orders, .source = bulk_source,
     .example = "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [rd0], [rd1, {r0, r1, r2, r3, r4}], [rd2];"},
    {.name = "cp.async.bulk.tensor", .qualifiers = "1d|2d|3d|4d|5d global shared::cta tile|im2col_no_offs? bulk_group L2::cache_hint?",
     .operands = "[tensorMap, coordinates], [src], cache-policy", .least_operands = 2, .most_operands = 2, .targets = from_hopper,
     .does = "TMA: one thread copies a box of shared memory, swizzled as the tensor map says, to global memory; elements outside of the tensor are not written", .orders = bulk_store_orders,
     .source = bulk_source, .example = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [rd1, {r0, r1}], [rd0];"},
    {.name = "cp.async.bulk.tensor", .qualifiers = "2d global shared::cta tile::scatter4 bulk_group L2::cache_hint?", .operands = "[tensorMap, coordinates], [src], cache-policy",
     .least_operands = 2, .most_operands = 2, .targets = tcgen05_targets, .does = "as cp.async.bulk.tensor; .tile::scatter4 writes four rows of a matrix, given by their indices",
     .orders = bulk_store_orders, .source = bulk_source, .example = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [rd1, {r0, r1, r2, r3, r4}], [rd0];"},
    {.name = "cp.reduce.async.bulk.tensor", .qualifiers = "1d|2d|3d|4d|5d global shared::cta add|min|max|inc|dec|and|or|xor tile|im2col_no_offs? bulk_group L2::cache_hint?",
     .operands = "[tensorMap, coordinates], [src], cache-policy", .least_operands = 2, .most_operands = 2, .targets = from_hopper,
     .does = "TMA: combines a box of shared memory with a tensor in global memory, element by element; bitmma does not execute it", .orders = bulk_store_orders, .source = bulk_source,
     .example = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [rd1, {r0, r1}], [rd0];"},
    {.name = "cp.async.bulk.prefetch.tensor", .qualifiers = "1d|2d|3d|4d|5d L2 global tile|im2col? L2::cache_hint?", .operands = "[tensorMap, coordinates], im2colOffsets, cache-policy",
     .least_operands = 1, .most_operands = 1, .targets = from_hopper, .does = "TMA: prefetches a box of a tensor into L2; no result depends on it", .source = bulk_source,
     .example = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [rd1, {r0, r1}];"},
    {.name = "cp.async.bulk.prefetch", .qualifiers = "L2 global L2::cache_hint?", .operands = "[src], size, cache-policy", .least_operands = 2, .most_operands = 2, .targets = from_hopper,
     .does = "prefetches bytes into L2; no result depends on it", .source = bulk_source, .example = "cp.async.bulk.prefetch.L2.global [rd0], 4096;"},
    {.name = "cp.async.bulk.commit_group", .targets = from_hopper, .does = "groups the bulk copies with .bulk_group that the thread started since the last commit_group",
     .orders = "before cp.async.bulk.wait_group", .source = bulk_source, .example = "cp.async.bulk.commit_group;"},
    {.name = "cp.async.bulk.wait_group", .qualifiers = "read?", .operands = "N", .least_operands = 1, .most_operands = 1, .last = Last::count, .targets = from_hopper,
     .does = "waits until at most the {last} most recent groups of the thread's bulk copies are unfinished; with .read it waits only until they have read their sources",
     .orders = "after it, with .read shared memory may be overwritten; without .read global memory contains what was written", .source = bulk_source, .example = "cp.async.bulk.wait_group.read 0;"},
    {.name = "cp.async.bulk", .qualifiers = "shared::cluster|shared::cta global mbarrier::complete_tx::bytes multicast::cluster? L2::cache_hint?",
     .operands = "[dst], [src], size, [mbar], ctaMask, cache-policy", .least_operands = 4, .most_operands = 4, .targets = from_hopper,
     .does = "one thread copies bytes, a multiple of 16, from global to shared memory without swizzle. The mbarrier counts them", .orders = tensor_load_orders, .source = bulk_source,
     .example = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [rd0], [rd1], 4096, [rd2];"},
    {.name = "cp.async.bulk", .qualifiers = "shared::cluster shared::cta mbarrier::complete_tx::bytes", .operands = "[dst], [src], size, [mbar]", .least_operands = 4, .most_operands = 4,
     .targets = from_hopper, .does = "one thread copies bytes, a multiple of 16, to another CTA of the cluster. The mbarrier there counts them", .orders = tensor_load_orders,
     .source = bulk_source, .example = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [rd0], [rd1], 4096, [rd2];"},
    {.name = "cp.async.bulk", .qualifiers = "global shared::cta bulk_group L2::cache_hint?", .operands = "[dst], [src], size, cache-policy", .least_operands = 3, .most_operands = 3,
     .targets = from_hopper, .does = "one thread copies bytes, a multiple of 16, from shared to global memory", .orders = bulk_store_orders, .source = bulk_source,
     .example = "cp.async.bulk.global.shared::cta.bulk_group [rd1], [rd0], 4096;"},
    {.name = "cp.async.mbarrier.arrive", .qualifiers = "noinc? shared|shared::cta? b64", .operands = "[mbar]", .least_operands = 1, .most_operands = 1, .targets = from_ampere,
     .does = "arrives at the mbarrier when all cp.async that this thread started before are done; with .noinc it is one of the arrivals that mbarrier.init counted",
     .orders = "after the cp.async; threads that wait for the mbarrier see the copied data", .source = "PTX ISA, cp.async.mbarrier.arrive", .example = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [rd0];"},
    {.name = "cp.async.commit_group", .targets = from_ampere, .does = "groups the cp.async that the thread started since the last cp.async.commit_group", .source = "PTX ISA, cp.async.commit_group",
     .example = "cp.async.commit_group;"},
    {.name = "cp.async.wait_group", .operands = "N", .least_operands = 1, .most_operands = 1, .last = Last::count, .targets = from_ampere,
     .does = "waits until at most the {last} most recent groups of the thread's cp.async are unfinished",
     .orders = "a barrier must follow before other threads read; wgmma and tcgen05.mma need fence.proxy.async, too", .source = "PTX ISA, cp.async.wait_group", .example = "cp.async.wait_group 0;"},
    {.name = "cp.async.wait_all", .targets = from_ampere, .does = "waits for all cp.async of the thread", .orders = "as cp.async.wait_group 0", .source = "PTX ISA, cp.async.wait_all",
     .example = "cp.async.wait_all;"},
    {.name = "cp.async", .qualifiers = "ca|cg shared|shared::cta global L2::cache_hint? L2::64B|L2::128B|L2::256B?", .operands = "[dst], [src], cp-size, src-size, cache-policy",
     .least_operands = 3, .most_operands = 4, .targets = from_ampere, .does = "each thread copies 4, 8 or 16 bytes from global to shared memory; after src-size bytes it writes zeros",
     .orders = "the copy is complete after cp.async.wait_group, or after the mbarrier of cp.async.mbarrier.arrive", .source = "PTX ISA, cp.async", .example = "cp.async.cg.shared.global [rd0], [rd1], 16;"},
    {.name = "prefetch.tensormap", .operands = "[tensorMap]", .least_operands = 1, .most_operands = 1, .targets = from_hopper, .does = "prefetches a tensor map for TMA; no result depends on it",
     .source = "PTX ISA, prefetch", .example = "prefetch.tensormap [rd0];"},
});
// clang-format on

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

bool has_name(const SupportInstructionInfo& row, std::string_view mnemonic) {
  if (!mnemonic.starts_with(row.name) || (mnemonic.size() != row.name.size() && mnemonic[row.name.size()] != '.'))
    return false;
  return row.word.empty() || std::ranges::count(split(mnemonic, '.'), row.word) != 0;
}

/// ".x1, .x2 or .x4".
std::string print_group(std::string_view group) {
  std::string text;
  for (const std::string_view word : split(group.substr(0, group.find('?')), '|'))
    text += (text.empty() ? "." : " or .") + std::string(word);
  return text;
}

std::vector<Violation> wrong_qualifiers(const SupportInstructionInfo& row, std::string_view mnemonic) {
  std::vector<Violation> violations;
  std::vector<std::string_view> open = split(row.qualifiers, ' ');
  for (const std::string_view word : split(mnemonic.substr(std::min(row.name.size() + 1, mnemonic.size())), '.')) {
    const auto group = std::ranges::find_if(open, [&](std::string_view entry) {
      return std::ranges::count(split(entry.substr(0, entry.find('?')), '|'), word) != 0;
    });
    if (group == open.end()) {
      if (!violations.empty()) continue;  // one violation suffices
      violations.push_back({.code = ViolationCode::malformed,
                            .field = "qualifier",
                            .seen = fmt::format(".{}", syntax::shown(word)),
                            .expected = row.qualifiers.empty() ? "none" : "once each: " + std::string(row.qualifiers),
                            .source = std::string(row.source)});
      continue;
    }
    open.erase(group);
  }
  for (const std::string_view group : open) {
    if (group.ends_with('?')) continue;
    violations.push_back({.code = ViolationCode::malformed,
                          .field = "qualifier",
                          .seen = "(nothing)",
                          .expected = print_group(group),
                          .fix = row.example.empty() ? "" : "write " + std::string(row.example),
                          .source = std::string(row.source)});
  }
  return violations;
}

/// The row's names for the operands of a statement with these qualifiers.
std::vector<std::string_view> operand_names(const SupportInstruction& instruction) {
  const auto pieces = syntax::split_list(instruction.info->operands);
  std::vector<std::string_view> names = pieces.value_or(std::vector<std::string_view>{});
  std::erase_if(names, [&](std::string_view name) {
    const auto bound = std::ranges::find(bound_operands, name, &BoundOperand::name);
    return bound != bound_operands.end() && instruction.mnemonic.find(bound->qualifier) == std::string::npos;
  });
  return names;
}

std::vector<Violation> wrong_operands(const SupportInstruction& instruction) {
  const SupportInstructionInfo& row = *instruction.info;
  std::vector<Violation> violations;
  const auto refuse = [&](std::string_view field, std::string seen, std::string expected) {
    violations.push_back({.field = std::string(field),
                          .seen = std::move(seen),
                          .expected = std::move(expected),
                          .source = std::string(row.source)});
  };
  const int count = static_cast<int>(instruction.operands.size());
  const std::vector<std::string_view> names = operand_names(instruction);
  const int most = static_cast<int>(names.size()), least = most - (row.most_operands - row.least_operands);
  if (count < least || count > most) {
    std::string clause;
    for (const BoundOperand& bound : bound_operands) {
      if (row.operands.find(bound.name) == std::string_view::npos) continue;
      const bool is_there = std::ranges::find(names, bound.name) != names.end();
      clause += fmt::format("{} {} {}", clause.empty() ? "" : ",", is_there ? "with" : "without", bound.qualifier);
    }
    refuse("operands", std::to_string(count),
           most == 0 ? "none" : fmt::format("{}{}: {}", least, clause, fmt::join(names, ", ")));
    return violations;
  }
  if (count == 0) return violations;
  const std::optional<int64_t> last = syntax::integer(instruction.operands.back());
  if (!last) return violations;
  if (row.last == Last::count && *last < 0) refuse("N", std::to_string(*last), "0 or more");
  if (row.last == Last::columns && (*last < 32 || *last > 512 || (*last & (*last - 1)) != 0))
    refuse("nCols", std::to_string(*last), "32, 64, 128, 256 or 512");
  if (row.last == Last::exclusive_columns && (*last < 32 || *last > most_columns || *last % 32 != 0))
    refuse("nCols", std::to_string(*last), "a multiple of 32 up to 576, and up to 512 before sm_107a");
  return violations;
}

}  // namespace

std::span<const SupportInstructionInfo> support_instructions() { return support_rows; }

const SupportInstructionInfo* find_support_instruction(std::string_view mnemonic) {
  const auto row = std::ranges::find_if(
      support_rows, [&](const SupportInstructionInfo& instruction) { return has_name(instruction, mnemonic); });
  return row == support_rows.end() ? nullptr : &*row;
}

SupportInstruction parse_support_instruction(std::string_view text) {
  constexpr std::string_view spaces = " \t\n\v\f\r";
  SupportInstruction instruction;
  std::vector<Violation> violations;
  text = syntax::trimmed(text);
  bool is_statement = false;  // a mnemonic alone needs no operands
  if (const size_t end = text.find(';'); end != std::string_view::npos) {
    is_statement = true;
    if (const std::string_view more = syntax::trimmed(text.substr(end + 1)); !more.empty()) {
      violations.push_back({.code = ViolationCode::malformed,
                            .field = "text after the semicolon",
                            .seen = syntax::shown(more),
                            .expected = "absent: pass a single statement"});
    }
    text = syntax::trimmed(text.substr(0, end));
  }
  if (text.starts_with('@')) {
    instruction.guard = std::string(text.substr(0, text.find_first_of(spaces)));
    text = syntax::trimmed(text.substr(instruction.guard.size()));
    if (!syntax::is_name(std::string_view(instruction.guard).substr(instruction.guard.starts_with("@!") ? 2 : 1))) {
      violations.push_back({.code = ViolationCode::malformed,
                            .field = "guard",
                            .seen = syntax::shown(instruction.guard),
                            .expected = "@ or @! and a predicate register"});
    }
  }
  instruction.mnemonic = std::string(text.substr(0, text.find_first_of(std::string(spaces) + "{[,")));
  const std::string_view rest = syntax::trimmed(text.substr(instruction.mnemonic.size()));
  const auto pieces = syntax::split_list(rest);
  if (!pieces) {
    violations.push_back({.code = ViolationCode::malformed,
                          .field = "operands",
                          .seen = syntax::shown(rest),
                          .expected = "a partner of each brace and bracket"});
  } else {
    instruction.operands.assign(pieces->begin(), pieces->end());
  }
  std::optional<std::vector<Violation>> wrong;  // violations of the best row: the first, or one without violations
  for (const SupportInstructionInfo& row : support_rows) {
    if (!has_name(row, instruction.mnemonic)) continue;
    std::vector<Violation> of_row = wrong_qualifiers(row, instruction.mnemonic);
    if (wrong && !of_row.empty()) continue;
    instruction.info = &row;
    wrong = std::move(of_row);
    if (wrong->empty()) break;
  }
  if (!instruction.info) {
    violations.push_back(
        {.code = ViolationCode::unknown_name,
         .field = "instruction",
         .seen = syntax::shown(instruction.mnemonic),
         .expected =
             "an instruction that accompanies matrix instructions, such as wgmma.fence, tcgen05.alloc or ldmatrix"});
    throw Error(std::move(violations));
  }
  violations.insert(violations.end(), wrong->begin(), wrong->end());
  if ((is_statement || !rest.empty()) && pieces) {
    const std::vector<Violation> of_operands = wrong_operands(instruction);
    violations.insert(violations.end(), of_operands.begin(), of_operands.end());
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return instruction;
}

std::vector<Violation> violations_of(const SupportInstruction& instruction, Target target) {
  const SupportInstructionInfo& row = *instruction.info;
  if (row.targets.contains(target)) {
    const bool counts = row.last == Last::exclusive_columns && !instruction.operands.empty();
    const std::optional<int64_t> columns =
        counts ? syntax::integer(instruction.operands.back()) : std::optional<int64_t>{};
    if (!columns || *columns <= 512 || rubin.contains(target)) return {};
    return {{.field = "nCols",
             .seen = std::to_string(*columns),
             .expected = fmt::format("up to 512 on {}", print(target)),
             .fix = fmt::format("{} have 576", print(rubin)),
             .source = std::string(row.source)}};
  }
  return {{.code = ViolationCode::unsupported_target,
           .field = "target",
           .seen = std::string(print(target)),
           .expected = print(row.targets),
           .source = std::string(row.source)}};
}

std::string meaning_of(const SupportInstruction& instruction) {
  const SupportInstructionInfo& row = *instruction.info;
  std::string text(row.does);
  const auto replace = [&](std::string_view mark, const std::string& by) {
    if (const size_t at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), by);
  };
  const std::vector<std::string_view> names = operand_names(instruction);
  size_t last = names.size();
  while (last > 0 && std::ranges::find(bound_operands, names[last - 1], &BoundOperand::name) != bound_operands.end())
    --last;
  if (last > 0) {
    replace("{last}", last - 1 < instruction.operands.size() ? shortened(instruction.operands[last - 1])
                                                             : std::string(names[last - 1]));
  }
  for (const std::string_view word : split(instruction.mnemonic, '.')) {
    if (word.size() == 2 && word[0] == 'x')
      replace("{xN}", std::string(1, word[1]) + (word[1] == '1' ? " matrix" : " matrices"));
  }
  if (instruction.mnemonic.find(".trans.") != std::string::npos && row.name != "movmatrix")
    text += "; with .trans each matrix is transposed";
  return text;
}

std::vector<NamedOperand> named_operands(const SupportInstruction& instruction) {
  const std::vector<std::string_view> names = operand_names(instruction);
  std::vector<NamedOperand> named;
  for (size_t i = 0; i < instruction.operands.size() && i < names.size(); ++i) {
    const auto row = std::ranges::find(operand_meanings, names[i], &OperandMeaning::name);
    named.push_back({.name = names[i],
                     .text = instruction.operands[i],
                     .meaning = row == operand_meanings.end() ? std::string_view{} : row->meaning});
  }
  return named;
}

}  // namespace bitmma
