// SPDX-License-Identifier: MIT
// The words of PTX opcodes that bitmma knows: names of instructions, modifiers and types. Text ends at the parser; from
// there on a word is a value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "type.hpp"

namespace bitmma::kernel {

/// A word between the dots of an opcode, such as `mad`, `lo` and `u32` of mad.lo.u32. `none` is no word; `other` is a
/// word that no instruction here has, which an instruction that takes all its words may carry.
enum class Word : uint16_t {
  // clang-format off
  none, other, d1, d2, d3, d4, d5, L1, L1_evict_first, L1_evict_last, L1_evict_normal, L1_evict_unchanged,
  L1_no_allocate, L2, L2_128B, L2_256B, L2_64B, L2_cache_hint, L2_evict_first, L2_evict_last, L2_evict_normal,
  L2_evict_unchanged, NaN, abs, acq_rel, acquire, activemask, add, addc, alias, aligned, all, alloc, and_, any,
  applypriority, approx, arrive, arrive_drop, async, async_generic, atom, b1024, b128, b16, b32, b4e, b64, b8, ballot,
  bar, barrier, bf16, bf16x2, bfe, bfi, bfind, bfly, bmsk, box_dim, bra, brev, brkpt, bulk, bulk_group, ca, call, cas,
  cc, cg, clamp, cluster, clz, cnot, commit, commit_group, complete_tx, const_, copysign, cos, cp, cp_fenceproxy,
  createpolicy, cs, cta, cta_group_1, cta_group_2, cv, cvt, cvta, dealloc, dec, discard, div, down, dp2a, dp4a, ecl,
  ecr, elect, element_stride, elemtype, eq, equ, ex2, exch, exit, expect_tx, f16, f16x2, f32, f32x2, f4e, f64, fence,
  fence_after_thread_sync, fence_before_thread_sync, fill_mode, finite, fma, fractional, ftz, full, ge, getctarank,
  geu, gl, global, global_address, global_dim, global_stride, gpu, griddepcontrol, gt, gtu, hi, hs, idx, im2col,
  im2col_no_offs, im2col_w, im2col_w_128, inc, infinite, init, interleave_layout, inval, isspacep, l, launch_dependents, ld, ldmatrix,
  ldu, le, leu, lg2, lo, local, lop3, ls, lt, ltu, lu, m8n8, mad, mad24, madc, mapa, mask, match, max, mbarrier,
  mbarrier_arrive_one, mbarrier_complete_tx_bytes, mbarrier_init, membar, min, mma, mma_async, mmio, mov, movmatrix,
  mul, mul24, multicast_cluster, nan, nanosleep, nc, ne, neg, neu, noComplete, noftz, noinc, normal, not_, notanumber,
  num, number, or_, pack, param, param_entry, parity, pending_count, pmevent, popc, pred, prefetch, prefetchu, prmt,
  proxy, r, range, rank, rc16, rc8, rcp, read, red, reduce, redux, relaxed, release, relinquish_alloc_permit, relu,
  rem, replace, ret, rm, rn, rna, rp, rs, rsqrt, rz, s16, s16x2, s32, s64, s8, sad, sat, satfinite, sc, selp, set,
  setmaxnreg, setp, shared, shared_cluster, shared_cta, shf, shfl, shift, shiftamt, shl, shr, sin, sqrt, st, stmatrix,
  sub, subc, subnormal, swizzle_atomicity, swizzle_mode, sync, sync_restrict_shared_cluster, sync_restrict_shared_cta,
  sys, tanh, tcgen05, tensor, tensormap, tensormap_generic, test_wait, testp, tf32, tile, tile_gather4, to, trans,
  trap, try_wait, u16, u16x2, u32, u64, u8, uni, up, v2, v4, v8, volatile_, vote, wait, wait_ld, wait_st, wait_all,
  wait_group, warp, wb, weak, wgmma, wide, wrap, wt, x1, x2, x4, xor_, xorsign,
  alloca_, brx, clusterlaunchcontrol, get_first_ctaid, get_first_ctaid_x, get_first_ctaid_y, get_first_ctaid_z,
  is_canceled, multicast_cluster_all, query_cancel, stackrestore, stacksave, try_cancel, vabsdiff2,
  vabsdiff4, vadd2, vadd4, vavrg2, vavrg4, vmax2, vmax4,
  vmin2, vmin4, vset2, vset4, vsub2, vsub4, vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vmad, vset, po, shr7,
  shr15, m8n16, m16n8, m16n16, b8x16, b6x16_p32, b4x16_p64,
  szext, fns, tile_scatter4,
  wmma, load, store, a, b, c, d, row, col, m16n16k16,
  m32n8k16, m8n32k16, m16n16k8, m8n8k4, m8n8k32, m8n8k128, s4, u4, b1, s2, u2,
  tex, tld4, txq, suld, sust, suq, a1d, a2d, level, zero, g, grad, width, height, depth,
  // clang-format on
};

struct WordInfo {
  Word id;
  std::string_view name;
};

// clang-format off
inline constexpr auto word_rows = std::to_array<WordInfo>({
    {Word::none, ""}, {Word::other, ""}, {Word::d1, "1d"}, {Word::d2, "2d"}, {Word::d3, "3d"}, {Word::d4, "4d"},
    {Word::d5, "5d"}, {Word::L1, "L1"}, {Word::L1_evict_first, "L1::evict_first"},
    {Word::L1_evict_last, "L1::evict_last"}, {Word::L1_evict_normal, "L1::evict_normal"},
    {Word::L1_evict_unchanged, "L1::evict_unchanged"}, {Word::L1_no_allocate, "L1::no_allocate"}, {Word::L2, "L2"},
    {Word::L2_128B, "L2::128B"}, {Word::L2_256B, "L2::256B"}, {Word::L2_64B, "L2::64B"},
    {Word::L2_cache_hint, "L2::cache_hint"}, {Word::L2_evict_first, "L2::evict_first"},
    {Word::L2_evict_last, "L2::evict_last"}, {Word::L2_evict_normal, "L2::evict_normal"},
    {Word::L2_evict_unchanged, "L2::evict_unchanged"}, {Word::NaN, "NaN"}, {Word::abs, "abs"},
    {Word::acq_rel, "acq_rel"}, {Word::acquire, "acquire"}, {Word::activemask, "activemask"}, {Word::add, "add"},
    {Word::addc, "addc"}, {Word::alias, "alias"}, {Word::aligned, "aligned"}, {Word::all, "all"},
    {Word::alloc, "alloc"}, {Word::and_, "and"}, {Word::any, "any"}, {Word::applypriority, "applypriority"},
    {Word::approx, "approx"}, {Word::arrive, "arrive"}, {Word::arrive_drop, "arrive_drop"}, {Word::async, "async"},
    {Word::async_generic, "async::generic"}, {Word::atom, "atom"}, {Word::b1024, "b1024"}, {Word::b128, "b128"},
    {Word::b16, "b16"}, {Word::b32, "b32"}, {Word::b4e, "b4e"}, {Word::b64, "b64"}, {Word::b8, "b8"},
    {Word::ballot, "ballot"}, {Word::bar, "bar"}, {Word::barrier, "barrier"}, {Word::bf16, "bf16"},
    {Word::bf16x2, "bf16x2"}, {Word::bfe, "bfe"}, {Word::bfi, "bfi"}, {Word::bfind, "bfind"}, {Word::bfly, "bfly"},
    {Word::bmsk, "bmsk"}, {Word::box_dim, "box_dim"}, {Word::bra, "bra"}, {Word::brev, "brev"}, {Word::brkpt, "brkpt"},
    {Word::bulk, "bulk"}, {Word::bulk_group, "bulk_group"}, {Word::ca, "ca"}, {Word::call, "call"}, {Word::cas, "cas"},
    {Word::cc, "cc"}, {Word::cg, "cg"}, {Word::clamp, "clamp"}, {Word::cluster, "cluster"}, {Word::clz, "clz"},
    {Word::cnot, "cnot"}, {Word::commit, "commit"}, {Word::commit_group, "commit_group"},
    {Word::complete_tx, "complete_tx"}, {Word::const_, "const"}, {Word::copysign, "copysign"}, {Word::cos, "cos"},
    {Word::cp, "cp"}, {Word::cp_fenceproxy, "cp_fenceproxy"}, {Word::createpolicy, "createpolicy"}, {Word::cs, "cs"},
    {Word::cta, "cta"}, {Word::cta_group_1, "cta_group::1"}, {Word::cta_group_2, "cta_group::2"}, {Word::cv, "cv"},
    {Word::cvt, "cvt"}, {Word::cvta, "cvta"}, {Word::dealloc, "dealloc"}, {Word::dec, "dec"},
    {Word::discard, "discard"}, {Word::div, "div"}, {Word::down, "down"}, {Word::dp2a, "dp2a"}, {Word::dp4a, "dp4a"},
    {Word::ecl, "ecl"}, {Word::ecr, "ecr"}, {Word::elect, "elect"}, {Word::element_stride, "element_stride"},
    {Word::elemtype, "elemtype"}, {Word::eq, "eq"}, {Word::equ, "equ"}, {Word::ex2, "ex2"}, {Word::exch, "exch"},
    {Word::exit, "exit"}, {Word::expect_tx, "expect_tx"}, {Word::f16, "f16"}, {Word::f16x2, "f16x2"},
    {Word::f32, "f32"}, {Word::f32x2, "f32x2"}, {Word::f4e, "f4e"}, {Word::f64, "f64"}, {Word::fence, "fence"},
    {Word::fence_after_thread_sync, "fence::after_thread_sync"},
    {Word::fence_before_thread_sync, "fence::before_thread_sync"}, {Word::fill_mode, "fill_mode"},
    {Word::finite, "finite"}, {Word::fma, "fma"}, {Word::fractional, "fractional"}, {Word::ftz, "ftz"},
    {Word::full, "full"}, {Word::ge, "ge"}, {Word::getctarank, "getctarank"}, {Word::geu, "geu"}, {Word::gl, "gl"},
    {Word::global, "global"}, {Word::global_address, "global_address"}, {Word::global_dim, "global_dim"},
    {Word::global_stride, "global_stride"}, {Word::gpu, "gpu"}, {Word::griddepcontrol, "griddepcontrol"},
    {Word::gt, "gt"}, {Word::gtu, "gtu"}, {Word::hi, "hi"}, {Word::hs, "hs"}, {Word::idx, "idx"},
    {Word::im2col, "im2col"}, {Word::im2col_no_offs, "im2col_no_offs"}, {Word::im2col_w, "im2col::w"}, {Word::im2col_w_128, "im2col::w::128"}, {Word::inc, "inc"},
    {Word::infinite, "infinite"}, {Word::init, "init"}, {Word::interleave_layout, "interleave_layout"},
    {Word::inval, "inval"}, {Word::isspacep, "isspacep"}, {Word::l, "l"},
    {Word::launch_dependents, "launch_dependents"}, {Word::ld, "ld"}, {Word::ldmatrix, "ldmatrix"}, {Word::ldu, "ldu"},
    {Word::le, "le"}, {Word::leu, "leu"}, {Word::lg2, "lg2"}, {Word::lo, "lo"}, {Word::local, "local"},
    {Word::lop3, "lop3"}, {Word::ls, "ls"}, {Word::lt, "lt"}, {Word::ltu, "ltu"}, {Word::lu, "lu"},
    {Word::m8n8, "m8n8"}, {Word::mad, "mad"}, {Word::mad24, "mad24"}, {Word::madc, "madc"}, {Word::mapa, "mapa"},
    {Word::mask, "mask"}, {Word::match, "match"}, {Word::max, "max"}, {Word::mbarrier, "mbarrier"},
    {Word::mbarrier_arrive_one, "mbarrier::arrive::one"},
    {Word::mbarrier_complete_tx_bytes, "mbarrier::complete_tx::bytes"}, {Word::mbarrier_init, "mbarrier_init"},
    {Word::membar, "membar"}, {Word::min, "min"}, {Word::mma, "mma"}, {Word::mma_async, "mma_async"},
    {Word::mmio, "mmio"}, {Word::mov, "mov"}, {Word::movmatrix, "movmatrix"}, {Word::mul, "mul"},
    {Word::mul24, "mul24"}, {Word::multicast_cluster, "multicast::cluster"}, {Word::nan, "nan"},
    {Word::nanosleep, "nanosleep"}, {Word::nc, "nc"}, {Word::ne, "ne"}, {Word::neg, "neg"}, {Word::neu, "neu"},
    {Word::noComplete, "noComplete"}, {Word::noftz, "noftz"}, {Word::noinc, "noinc"}, {Word::normal, "normal"},
    {Word::not_, "not"}, {Word::notanumber, "notanumber"}, {Word::num, "num"}, {Word::number, "number"},
    {Word::or_, "or"}, {Word::pack, "pack"}, {Word::param, "param"}, {Word::param_entry, "param::entry"},
    {Word::parity, "parity"}, {Word::pending_count, "pending_count"}, {Word::pmevent, "pmevent"}, {Word::popc, "popc"},
    {Word::pred, "pred"}, {Word::prefetch, "prefetch"}, {Word::prefetchu, "prefetchu"}, {Word::prmt, "prmt"},
    {Word::proxy, "proxy"}, {Word::r, "r"}, {Word::range, "range"}, {Word::rank, "rank"}, {Word::rc16, "rc16"},
    {Word::rc8, "rc8"}, {Word::rcp, "rcp"}, {Word::read, "read"}, {Word::red, "red"}, {Word::reduce, "reduce"},
    {Word::redux, "redux"}, {Word::relaxed, "relaxed"}, {Word::release, "release"},
    {Word::relinquish_alloc_permit, "relinquish_alloc_permit"}, {Word::relu, "relu"}, {Word::rem, "rem"},
    {Word::replace, "replace"}, {Word::ret, "ret"}, {Word::rm, "rm"}, {Word::rn, "rn"}, {Word::rna, "rna"},
    {Word::rp, "rp"}, {Word::rs, "rs"}, {Word::rsqrt, "rsqrt"}, {Word::rz, "rz"}, {Word::s16, "s16"},
    {Word::s16x2, "s16x2"}, {Word::s32, "s32"}, {Word::s64, "s64"}, {Word::s8, "s8"}, {Word::sad, "sad"},
    {Word::sat, "sat"}, {Word::satfinite, "satfinite"}, {Word::sc, "sc"}, {Word::selp, "selp"}, {Word::set, "set"},
    {Word::setmaxnreg, "setmaxnreg"}, {Word::setp, "setp"}, {Word::shared, "shared"},
    {Word::shared_cluster, "shared::cluster"}, {Word::shared_cta, "shared::cta"}, {Word::shf, "shf"},
    {Word::shfl, "shfl"}, {Word::shift, "shift"}, {Word::shiftamt, "shiftamt"}, {Word::shl, "shl"}, {Word::shr, "shr"},
    {Word::sin, "sin"}, {Word::sqrt, "sqrt"}, {Word::st, "st"}, {Word::stmatrix, "stmatrix"}, {Word::sub, "sub"},
    {Word::subc, "subc"}, {Word::subnormal, "subnormal"}, {Word::swizzle_atomicity, "swizzle_atomicity"},
    {Word::swizzle_mode, "swizzle_mode"}, {Word::sync, "sync"},
    {Word::sync_restrict_shared_cluster, "sync_restrict::shared::cluster"},
    {Word::sync_restrict_shared_cta, "sync_restrict::shared::cta"}, {Word::sys, "sys"}, {Word::tanh, "tanh"},
    {Word::tcgen05, "tcgen05"}, {Word::tensor, "tensor"}, {Word::tensormap, "tensormap"},
    {Word::tensormap_generic, "tensormap::generic"}, {Word::test_wait, "test_wait"}, {Word::testp, "testp"},
    {Word::tf32, "tf32"}, {Word::tile, "tile"}, {Word::tile_gather4, "tile::gather4"}, {Word::to, "to"},
    {Word::trans, "trans"}, {Word::trap, "trap"}, {Word::try_wait, "try_wait"}, {Word::u16, "u16"},
    {Word::u16x2, "u16x2"}, {Word::u32, "u32"}, {Word::u64, "u64"}, {Word::u8, "u8"}, {Word::uni, "uni"},
    {Word::up, "up"}, {Word::v2, "v2"}, {Word::v4, "v4"}, {Word::v8, "v8"}, {Word::volatile_, "volatile"},
    {Word::vote, "vote"}, {Word::wait, "wait"}, {Word::wait_ld, "wait::ld"}, {Word::wait_st, "wait::st"},
    {Word::wait_all, "wait_all"}, {Word::wait_group, "wait_group"}, {Word::warp, "warp"}, {Word::wb, "wb"},
    {Word::weak, "weak"}, {Word::wgmma, "wgmma"}, {Word::wide, "wide"}, {Word::wrap, "wrap"}, {Word::wt, "wt"},
    {Word::x1, "x1"}, {Word::x2, "x2"}, {Word::x4, "x4"}, {Word::xor_, "xor"}, {Word::xorsign, "xorsign"},
    {Word::alloca_, "alloca"}, {Word::brx, "brx"}, {Word::clusterlaunchcontrol, "clusterlaunchcontrol"},
    {Word::get_first_ctaid, "get_first_ctaid"}, {Word::get_first_ctaid_x, "get_first_ctaid::x"}, {Word::get_first_ctaid_y, "get_first_ctaid::y"},
    {Word::get_first_ctaid_z, "get_first_ctaid::z"}, {Word::is_canceled, "is_canceled"}, {Word::multicast_cluster_all, "multicast::cluster::all"},
    {Word::query_cancel, "query_cancel"}, {Word::stackrestore, "stackrestore"}, {Word::stacksave, "stacksave"},
    {Word::try_cancel, "try_cancel"}, {Word::vabsdiff2, "vabsdiff2"}, {Word::vabsdiff4, "vabsdiff4"},
    {Word::vadd2, "vadd2"}, {Word::vadd4, "vadd4"}, {Word::vavrg2, "vavrg2"},
    {Word::vavrg4, "vavrg4"}, {Word::vmax2, "vmax2"}, {Word::vmax4, "vmax4"},
    {Word::vmin2, "vmin2"}, {Word::vmin4, "vmin4"}, {Word::vset2, "vset2"},
    {Word::vset4, "vset4"}, {Word::vsub2, "vsub2"}, {Word::vsub4, "vsub4"},
    {Word::vadd, "vadd"}, {Word::vsub, "vsub"}, {Word::vabsdiff, "vabsdiff"}, {Word::vmin, "vmin"},
    {Word::vmax, "vmax"}, {Word::vshl, "vshl"}, {Word::vshr, "vshr"}, {Word::vmad, "vmad"}, {Word::vset, "vset"},
    {Word::po, "po"}, {Word::shr7, "shr7"}, {Word::shr15, "shr15"},
    {Word::m8n16, "m8n16"}, {Word::m16n8, "m16n8"}, {Word::m16n16, "m16n16"}, {Word::b8x16, "b8x16"},
    {Word::b6x16_p32, "b6x16_p32"}, {Word::b4x16_p64, "b4x16_p64"},
    {Word::szext, "szext"}, {Word::fns, "fns"},     {Word::tile_scatter4, "tile::scatter4"},
    {Word::wmma, "wmma"}, {Word::load, "load"}, {Word::store, "store"}, {Word::a, "a"},
    {Word::b, "b"}, {Word::c, "c"}, {Word::d, "d"}, {Word::row, "row"},
    {Word::col, "col"}, {Word::m16n16k16, "m16n16k16"}, {Word::m32n8k16, "m32n8k16"}, {Word::m8n32k16, "m8n32k16"},
    {Word::m16n16k8, "m16n16k8"}, {Word::m8n8k4, "m8n8k4"}, {Word::m8n8k32, "m8n8k32"}, {Word::m8n8k128, "m8n8k128"},
    {Word::s4, "s4"}, {Word::u4, "u4"}, {Word::b1, "b1"}, {Word::s2, "s2"}, {Word::u2, "u2"},
    {Word::tex, "tex"}, {Word::tld4, "tld4"}, {Word::txq, "txq"}, {Word::suld, "suld"}, {Word::sust, "sust"},
    {Word::suq, "suq"}, {Word::a1d, "a1d"}, {Word::a2d, "a2d"}, {Word::level, "level"}, {Word::zero, "zero"},
    {Word::g, "g"}, {Word::grad, "grad"}, {Word::width, "width"}, {Word::height, "height"}, {Word::depth, "depth"},
});
// clang-format on
static_assert(are_in_enum_order(word_rows));

constexpr std::string_view print(Word word) { return word_rows[static_cast<std::size_t>(word)].name; }

/// The word of this name; Word::other if there is none.
Word word_named(std::string_view name);
/// The words of "add.rn.f32".
std::vector<Word> words_of(std::string_view mnemonic);

/// The type that a word names.
std::optional<Type> type_of(Word word);

}  // namespace bitmma::kernel
