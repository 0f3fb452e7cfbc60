#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kernels of a few instructions each, for what PTX leaves open or a compiler may change: the carry flag, the sign of a
NaN after neg and abs, and lanes of one warp that write to one address.

  instructions.py -o launches.safetensors     runs them on a GPU; needs CuPy, NumPy and ptxas (or BITMMA_PTXAS)

On any machine, `bitmma verify launches.safetensors` runs every launch again and compares every byte.
"""

import argparse
import importlib.util
import os
import subprocess
import tempfile

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
HEAD = """.version 8.0
.target sm_90a
.address_size 64
"""
ENTRY = """.visible .entry {name}(.param .u64 x, .param .u64 y)
{{
  .reg .b64 %rd<9>; .reg .b32 %r<40>; .reg .b16 %h<40>; .reg .b64 %l<40>; .reg .pred %p<4>;
{registers}  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x;
{body}  ret;
}}
"""


# Not recorded, because PTX or the rules that we know do not decide their bits: the carry flag before an instruction
# sets it (1 in some lanes of an H100, 0 in others); which of two constant f64 NaNs is returned; the sign of a NaN after
# a guarded neg, which ptxas makes a selection.
LEFT_OUT = {"flow_unset", "flow_guarded_first", "pairs_f64_0", "pairs_f64_1", "pairs_f64_2", "pairs_f64_3",
            "pairs_f64_4", "pairs_f64_7", "guarded"}  # fmt: skip


class Module:
    """PTX with entries of (x, y), and the launches of each entry: the block, the grid, and the bytes of x and of y."""

    def __init__(self, name):
        self.name, self.text, self.launches = name, HEAD, []

    def add(self, name, body, x, y_bytes, block, grid=1, registers="", head=""):
        self.text += head + ENTRY.format(name=name, registers=registers, body="".join(f"  {line}\n" for line in body))
        if name in LEFT_OUT:
            return
        self.launches.append((name, np.ascontiguousarray(x).view(np.uint8).ravel(), y_bytes, block, grid))


def at_thread(register, base, stride):
    """base = base + tid.x * stride, in `register`."""
    return [f"mul.wide.u32 {register}, %r1, {stride};", f"add.s64 {register}, {base}, {register};"]


# --- the carry flag

INTEGERS = ("u32", "s32", "u64", "s64")
THREADS_OF_CARRY = 64


def carry_operands(rng):
    low = np.array([0, 1, 2, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF], np.uint64)
    words = rng.choice(low, (THREADS_OF_CARRY, 4)) | rng.choice(low, (THREADS_OF_CARRY, 4)) << np.uint64(32)
    words[40:] = rng.integers(0, 2**64, (THREADS_OF_CARRY - 40, 4), np.uint64)
    return words


def carry_of(kind, what, d, operands):
    """An instruction that sets or uses the flag: mad takes three operands, the others the first two."""
    count = 3 if what.startswith("mad") else 2
    name, *words = what.split(".")
    return f"{'.'.join([name, *words, kind])} {', '.join([d, *operands[:count]])};"


def carry_modules():
    rng = np.random.default_rng(20261128)
    sets = ["add.cc", "sub.cc", "mad.lo.cc", "mad.hi.cc"]
    # The second flag of a chain: after a sum or a difference.
    chains = [
        (first, second)
        for first in ("add.cc", "sub.cc")
        for second in ("addc.cc", "subc.cc", "madc.lo.cc", "madc.hi.cc")
    ]
    uses = ["addc", "subc", "madc.lo", "madc.hi"]
    for kind in INTEGERS:
        module = Module(f"carry_{kind}")
        names = {"32": "%r", "64": "%l"}[kind[1:]]
        load = [
            *at_thread("%rd3", "%rd1", 32),
            "ld.global.v2.u64 {%l1, %l2}, [%rd3];",
            "ld.global.v2.u64 {%l3, %l4}, [%rd3+16];",
            *(f"cvt.u32.u64 %r{i + 1}, %l{i};" for i in range(1, 5)),
        ]
        values = {"%r": ["%r2", "%r3", "%r4", "%r5"], "%l": ["%l1", "%l2", "%l3", "%l4"]}
        for chain in [(one,) for one in sets] + chains:
            set_flag = [
                carry_of(kind, one, f"{names}{10 + i}", values[names][i:] + values[names][:i])
                for i, one in enumerate(chain)
            ]
            body, outputs = list(load), []
            for use in uses:
                for other in ("u32", "s32", "u64", "s64"):
                    if other[1:] != kind[1:] and other[0] == "s":
                        continue
                    to = {"32": "%r", "64": "%l"}[other[1:]]
                    body += set_flag
                    body.append(carry_of(other, use, f"{to}20", values[to][2:] + values[to][:1]))
                    widened = "%l30"
                    body.append(f"cvt.u64.u32 {widened}, %r20;" if to == "%r" else f"mov.u64 {widened}, %l20;")
                    outputs.append(widened)
                    body.append(f"st.global.u64 [%rd4+{8 * (len(outputs) - 1)}], {widened};")
            body.insert(0, "")
            place = at_thread("%rd4", "%rd2", 8 * (len(outputs) + 1))
            last = f"{names}{10 + len(chain) - 1}"
            body.append(f"cvt.u64.u32 %l31, {last};" if names == "%r" else f"mov.u64 %l31, {last};")
            body.append(f"st.global.u64 [%rd4+{8 * len(outputs)}], %l31;")
            module.add(
                "_".join(chain).replace(".", "_"),
                place + body[1:],
                carry_operands(rng),
                8 * (len(outputs) + 1) * THREADS_OF_CARRY,
                THREADS_OF_CARRY,
            )
        yield module
    module = Module("carry_flow")
    load = [
        *at_thread("%rd3", "%rd1", 32),
        "ld.global.v2.u64 {%l1, %l2}, [%rd3];",
        "ld.global.v2.u64 {%l3, %l4}, [%rd3+16];",
        *(f"cvt.u32.u64 %r{i + 1}, %l{i};" for i in range(1, 5)),
        "and.b32 %r9, %r4, 1;",
        "setp.ne.u32 %p1, %r9, 0;",
        *at_thread("%rd4", "%rd2", 8),
    ]
    use = ["addc.u32 %r20, %r4, 0;", "subc.u32 %r21, %r5, %r4;", "st.global.v2.u32 [%rd4], {%r20, %r21};"]
    flows = {
        "unset": [],
        "guarded": ["add.cc.u32 %r10, %r2, %r3;", "@%p1 sub.cc.u32 %r10, %r2, %r3;"],
        "guarded_first": ["@%p1 add.cc.u32 %r10, %r2, %r3;"],
        "branch": [
            "@%p1 bra ELSE;",
            "add.cc.u32 %r10, %r2, %r3;",
            "bra END;",
            "ELSE: sub.cc.u32 %r10, %r3, %r2;",
            "END:",
        ],
        "one_way": ["sub.cc.u32 %r10, %r2, %r3;", "@%p1 bra END2;", "mad.hi.cc.u32 %r10, %r2, %r3, %r4;", "END2:"],
        "loop": [
            "mov.u32 %r11, 0;",
            "mov.u32 %r12, %r2;",
            "add.cc.u32 %r13, %r2, %r2;",
            "AGAIN: addc.cc.u32 %r12, %r12, %r3;",
            "add.u32 %r11, %r11, 1;",
            "setp.lt.u32 %p2, %r11, 5;",
            "@%p2 bra AGAIN;",
            "subc.cc.u32 %r12, %r12, %r4;",
        ],
        "between": [
            "sub.cc.u32 %r10, %r2, %r3;",
            "mul.lo.u32 %r11, %r2, %r3;",
            "div.u32 %r12, %r2, 7;",
            "add.u32 %r13, %r12, %r11;",
            "min.u32 %r14, %r13, %r2;",
        ],
        "divide": ["div.u64 %l10, %l1, %l2;", "rem.u64 %l11, %l3, %l2;", "add.cc.u64 %l12, %l10, %l11;"],
        "constants": ["mov.u32 %r10, 5;", "sub.cc.u32 %r11, %r10, 9;"],
        "constant_chain": ["sub.cc.u32 %r11, 9, 5;", "subc.cc.u32 %r12, 0, 0;", "addc.cc.u32 %r13, 4294967295, 0;"],
    }
    for name, body in flows.items():
        module.add(f"flow_{name}", [*load, *body, *use], carry_operands(rng), 8 * THREADS_OF_CARRY, THREADS_OF_CARRY)
    yield module


# --- neg and abs of NaN

WORDS = {
    "f32": [0x7FC00000, 0xFFC00000, 0x7FC00123, 0xFFC00123, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF,
            0, 0x80000000, 1, 0x80000001, 0x3F800000, 0xC0490FDB, 0x7F800000, 0xFF800000],
    "f64": [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000123, 0xFFF8000000000123, 0x7FF0000000000001,
            0xFFF4000000000777, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0, 1 << 63, 1, 1 << 63 | 1, 0x3FF0000000000000,
            0xC00921FB54442D18, 0x7FF0000000000000, 0xFFF0000000000000],
    "f16": [0x7E00, 0xFE00, 0x7E12, 0xFE12, 0x7C01, 0xFC01, 0x7FFF, 0xFFFF, 0, 0x8000, 1, 0x8001, 0x3C00, 0xC248,
            0x7C00, 0xFC00],
    "bf16": [0x7FC0, 0xFFC0, 0x7FC3, 0xFFC3, 0x7F81, 0xFF81, 0x7FFF, 0xFFFF, 0, 0x8000, 1, 0x8001, 0x3F80, 0xC049,
             0x7F80, 0xFF80],
}  # fmt: skip
# The words of an operand, the register that holds it, its type in moves and memory.
REGISTERS = {"f32": ("%r", "b32", np.uint32), "f64": ("%l", "b64", np.uint64), "f16": ("%h", "b16", np.uint16),
             "bf16": ("%h", "b16", np.uint16), "f16x2": ("%r", "b32", np.uint32),
             "bf16x2": ("%r", "b32", np.uint32)}  # fmt: skip
SIGNS = {
    "neg": ["neg.{t} {d}, {a};"],
    "abs": ["abs.{t} {d}, {a};"],
    "neg_abs": ["abs.{t} {e}, {a};", "neg.{t} {d}, {e};"],
    "abs_neg": ["neg.{t} {e}, {a};", "abs.{t} {d}, {e};"],
    "neg_neg": ["neg.{t} {e}, {a};", "neg.{t} {d}, {e};"],
}
SIGNS_FTZ = {"neg_ftz": ["neg.ftz.{t} {d}, {a};"], "abs_ftz": ["abs.ftz.{t} {d}, {a};"]}
# How the result s of neg or abs is used; b is the second operand. The result of a use is z.
USES = {
    "store": ["mov.{m} {z}, {s};"],
    "add": ["add.rn.{t} {z}, {s}, {b};"],
    "add_second": ["add.rn.{t} {z}, {b}, {s};"],
    "sub": ["sub.rn.{t} {z}, {b}, {s};"],
    "mul": ["mul.rn.{t} {z}, {s}, {b};"],
    "mul_second": ["mul.rn.{t} {z}, {b}, {s};"],
    "fma": ["fma.rn.{t} {z}, {s}, {b}, {b};"],
    "fma_second": ["fma.rn.{t} {z}, {b}, {s}, {b};"],
    "fma_third": ["fma.rn.{t} {z}, {b}, {b}, {s};"],
    "min": ["min.{t} {z}, {s}, {b};"],
    "max_second": ["max.{t} {z}, {b}, {s};"],
    "twice": ["add.rn.{t} {z}, {s}, {b};", "xor.{m} {z}, {z}, {s};"],
    "bits": ["xor.{m} {z}, {s}, {b};"],
}
# Uses of scalars.
SCALAR_USES = {
    "selp": ["setp.gt.{t} %p1, {b}, {zero};", "selp.{m} {z}, {s}, {b}, %p1;"],
    "setp": ["setp.ltu.{t} %p1, {s}, {b};", "selp.{m} {z}, {b}, {a}, %p1;"],
    "add_one": ["add.rn.{t} {z}, {s}, {one};"],
    "fma_one": ["fma.rn.{t} {z}, {s}, {one}, {b};"],
    "max_one": ["max.{t} {z}, {s}, {one};"],
}
F32_USES = {
    "add_ftz": ["add.rn.ftz.f32 {z}, {s}, {b};"],
    "max_ftz": ["max.ftz.f32 {z}, {s}, {b};"],
    "min_nan": ["min.NaN.f32 {z}, {s}, {b};"],
    "copysign": ["copysign.f32 {z}, {s}, {b};"],
    "copysign_second": ["copysign.f32 {z}, {b}, {s};"],
    "rcp": ["rcp.approx.ftz.f32 {z}, {s};"],
    "rcp_rn": ["rcp.rn.f32 {z}, {s};"],
    "sqrt": ["sqrt.approx.f32 {z}, {s};"],
    "ex2": ["ex2.approx.ftz.f32 {z}, {s};"],
    "to_f16": ["cvt.rn.f16.f32 %h30, {s};", "mov.b32 {z}, {{%h30, %h30}};"],
    "to_bf16": ["cvt.rn.bf16.f32 %h30, {s};", "mov.b32 {z}, {{%h30, %h30}};"],
    "to_s32": ["cvt.rzi.s32.f32 {z}, {s};"],
    "to_f64": ["cvt.f64.f32 %l30, {s};", "mov.b64 {{%r30, {z}}}, %l30;"],
    "div": ["div.rn.f32 {z}, {s}, {b};"],
}
F64_USES = {
    "to_f32": ["cvt.rn.f32.f64 %r30, {s};", "mov.b64 {z}, {{%r30, %r30}};"],
    "to_s64": ["cvt.rzi.s64.f64 {z}, {s};"],
    "div": ["div.rn.f64 {z}, {s}, {b};"],
    "sqrt": ["sqrt.rn.f64 {z}, {s};"],
    "copysign": ["copysign.f64 {z}, {s}, {b};"],
    "copysign_second": ["copysign.f64 {z}, {b}, {s};"],
}
F16_USES = {
    "to_f32": ["cvt.f32.{t} %r30, {s};", "mov.b32 {{%h30, {z}}}, %r30;"],
    "min_nan": ["min.NaN.{t} {z}, {s}, {b};"],
}
PAIR_USES = {"min_nan": ["min.NaN.{t} {z}, {s}, {b};"]}
ONES = {"f32": "0f3F800000", "f64": "0d3FF0000000000000"}


def uses_of(kind):
    uses = dict(USES)
    if kind in ("f32", "f64"):
        uses |= SCALAR_USES
    if kind == "bf16" or kind == "bf16x2":
        for name in ("add", "add_second", "sub", "mul", "mul_second", "twice"):  # before PTX 8.6 only fma
            uses[name] = [
                "" + line.replace("mul.rn.", "mul.").replace("add.rn.", "add.").replace("sub.rn.", "sub.")
                for line in uses[name]
            ]
    return uses | {"f32": F32_USES, "f64": F64_USES, "f16": F16_USES, "bf16": F16_USES}.get(kind, PAIR_USES)


def nan_modules():
    for kind, (prefix, moves, dtype) in REGISTERS.items():
        module = Module(f"nan_{kind}")
        words = WORDS[kind.removesuffix("x2")]
        x = np.array(words, np.uint64)
        if kind.endswith("x2"):
            x = x | np.roll(x, 5) << np.uint64(16)
        x = x.astype(dtype)
        count, size = len(words), np.dtype(dtype).itemsize
        names = {
            "t": kind,
            "m": moves,
            "a": f"{prefix}20",
            "b": f"{prefix}21",
            "d": f"{prefix}22",
            "e": f"{prefix}23",
            "s": f"{prefix}22",
            "z": f"{prefix}24",
            "one": ONES.get(kind, ""),
            "zero": ONES.get(kind, "")[:2] + "0" * (2 * size),
        }
        load = [
            f"div.u32 %r2, %r1, {count};",
            f"rem.u32 %r3, %r1, {count};",
            f"mul.wide.u32 %rd3, %r2, {size};",
            "add.s64 %rd3, %rd1, %rd3;",
            f"mul.wide.u32 %rd4, %r3, {size};",
            "add.s64 %rd4, %rd1, %rd4;",
            f"ld.global.{moves} {names['a']}, [%rd3];",
            f"ld.global.{moves} {names['b']}, [%rd4];",
            *at_thread("%rd5", "%rd2", size),
        ]
        signs = SIGNS | (SIGNS_FTZ if kind in ("f32", "f16", "f16x2") else {})
        for sign, change in signs.items():
            for use, lines in uses_of(kind).items():
                body = [line.format(**names) for line in [*change, *lines]]
                module.add(
                    f"{sign}_{use}",
                    [*load, *body, f"st.global.{moves} [%rd5], {names['z']};"],
                    x,
                    count * count * size,
                    count * count,
                )
        if kind in ONES:
            for i, word in enumerate(words[:8]):
                for sign, change in signs.items():
                    constant = f"mov.{moves} {names['a']}, {ONES[kind][:2]}{word:0{2 * size}X};"
                    body = [line.format(**names) for line in change]
                    module.add(
                        f"constant_{sign}_{i}",
                        [constant, *body, f"st.global.{moves} [%rd2], {names['d']};"],
                        x[:1],
                        size,
                        1,
                    )
        yield module


# --- which NaN of two a commutative f64 instruction returns: that of its second operand, in the order of ptxas

ORDERS = {
    "loads": ("", "a", "b"),
    "later_first": ("swap", "a", "b"),
    "products": ("mul.rn.f64 %l22, %l20, {two}; mul.rn.f64 %l23, %l21, {two};", "%l22", "%l23"),
    "later_product_first": ("mul.rn.f64 %l23, %l21, {two}; mul.rn.f64 %l22, %l20, {two};", "%l22", "%l23"),
    "product_and_load": ("mul.rn.f64 %l22, %l20, {two};", "%l22", "b"),
    "load_and_product": ("mul.rn.f64 %l23, %l21, {two};", "a", "%l23"),
    "negated_product": ("mul.rn.f64 %l22, %l20, {two}; neg.f64 %l24, %l22; mul.rn.f64 %l23, %l21, {two};", "%l24",
                        "%l23"),
    "names": ("mul.rn.f64 %l3, %l20, {two}; mul.rn.f64 %l2, %l21, {two};", "%l3", "%l2"),
    "constant": ("", "a", "0d7FF8000000000ABC"),
    "constant_moved": ("mov.f64 %l22, 0d7FF8000000000ABC;", "a", "%l22"),
    "branch": ("setp.gt.u32 %p1, %r2, 7; mov.f64 %l22, %l20; @%p1 bra {label}; mul.rn.f64 %l22, %l21, {two}; {label}:",
               "%l22", "b"),
}  # fmt: skip
COMMUTATIVE = {"add": "add.rn.f64 %l30, {0}, {1};", "sub": "sub.rn.f64 %l30, {0}, {1};",
               "mul": "mul.rn.f64 %l30, {0}, {1};", "fma": "fma.rn.f64 %l30, {0}, {1}, 0d3FF0000000000000;",
               "fma_b": "fma.rn.f64 %l30, {0}, {1}, {1};", "min": "min.f64 %l30, {0}, {1};",
               "max": "max.f64 %l30, {0}, {1};", "plain_add": "add.f64 %l30, {0}, {1};",
               "div": "div.rn.f64 %l30, {0}, {1};"}  # fmt: skip


def order_module():
    module = Module("order_f64")
    words = WORDS["f64"]
    x, count = np.array(words, np.uint64), len(words)
    for name, (before, a, b) in ORDERS.items():
        first = [
            f"div.u32 %r2, %r1, {count};",
            f"rem.u32 %r3, %r1, {count};",
            "mul.wide.u32 %rd3, %r2, 8;",
            "add.s64 %rd3, %rd1, %rd3;",
            "mul.wide.u32 %rd4, %r3, 8;",
            "add.s64 %rd4, %rd1, %rd4;",
            *at_thread("%rd5", "%rd2", 8),
        ]
        loads = ["ld.global.b64 %l20, [%rd3];", "ld.global.b64 %l21, [%rd4];"]
        a, b = ({"a": "%l20", "b": "%l21"}.get(one, one) for one in (a, b))
        for operation, line in COMMUTATIVE.items():
            for which, pair in (("ab", (a, b)), ("ba", (b, a))):
                entry = f"{name}_{operation}_{which}"
                prepare = "" if before == "swap" else before.format(two="0d4000000000000000", label=f"L_{entry}")
                body = [
                    *first,
                    *(loads[::-1] if before == "swap" else loads),
                    prepare,
                    line.format(*pair),
                    "st.global.b64 [%rd5], %l30;",
                ]
                module.add(entry, body, x, count * count * 8, count * count)
    return module


# --- instructions of constants, which ptxas computes

FOLDS = {
    "f32": ["add.rn.f32 {z}, {a}, {b};", "sub.f32 {z}, {a}, {b};", "mul.f32 {z}, {a}, {b};", "min.f32 {z}, {a}, {b};",
            "max.f32 {z}, {a}, {b};", "setp.lt.f32 %p1, {a}, {b}; selp.b32 {z}, 1, 0, %p1;",
            "setp.neu.f32 %p1, {a}, {b}; selp.b32 {z}, 1, 0, %p1;",
            "setp.ltu.ftz.f32 %p1, {a}, {b}; selp.b32 {z}, 1, 0, %p1;", "add.ftz.f32 {z}, {a}, {b};",
            "mul.ftz.f32 {z}, {a}, {b};", "max.ftz.f32 {z}, {a}, {b};", "fma.rn.f32 {z}, {a}, {b}, {a};"],
    "f64": ["add.rn.f64 {z}, {a}, {b};", "sub.f64 {z}, {a}, {b};", "mul.f64 {z}, {a}, {b};", "min.f64 {z}, {a}, {b};",
            "max.f64 {z}, {a}, {b};", "setp.lt.f64 %p1, {a}, {b}; selp.b64 {z}, 1, 0, %p1;",
            "setp.neu.f64 %p1, {a}, {b}; selp.b64 {z}, 1, 0, %p1;", "fma.rn.f64 {z}, {a}, {b}, {a};"],
}  # fmt: skip
FOLDS_OF_ONE = {
    "f32": ["neg.f32 {z}, {a};", "abs.f32 {z}, {a};", "neg.ftz.f32 {z}, {a};", "abs.ftz.f32 {z}, {a};",
            "mov.f32 {z}, {a};", "cvt.rzi.s32.f32 {z}, {a};", "cvt.rni.u32.f32 {z}, {a};", "cvt.rni.f32.f32 {z}, {a};",
            "cvt.sat.f32.f32 {z}, {a};", "cvt.ftz.f32.f32 {z}, {a};",
            "cvt.f64.f32 %l30, {a}; mov.b64 {{%r30, {z}}}, %l30;",
            "cvt.f64.f32 %l30, {a}; mov.b64 {{{z}, %r30}}, %l30;",
            "cvt.rn.f16.f32 %h30, {a}; mov.b32 {z}, {{%h30, %h30}};",
            "cvt.rn.bf16.f32 %h30, {a}; mov.b32 {z}, {{%h30, %h30}};", "rcp.approx.ftz.f32 {z}, {a};",
            "rsqrt.approx.f32 {z}, {a};", "sqrt.approx.f32 {z}, {a};", "ex2.approx.f32 {z}, {a};",
            "lg2.approx.f32 {z}, {a};", "sin.approx.f32 {z}, {a};", "cos.approx.f32 {z}, {a};", "rcp.rn.f32 {z}, {a};",
            "sqrt.rn.f32 {z}, {a};"],
    "f64": ["neg.f64 {z}, {a};", "abs.f64 {z}, {a};", "mov.f64 {z}, {a};", "cvt.rzi.s64.f64 {z}, {a};",
            "cvt.rni.f64.f64 {z}, {a};", "cvt.rn.f32.f64 %r30, {a}; mov.b64 {z}, {{%r30, %r30}};",
            "sqrt.rn.f64 {z}, {a};", "rcp.rn.f64 {z}, {a};"],
    "f16": ["neg.f16 {z}, {a};", "abs.f16 {z}, {a};", "cvt.f32.f16 %r30, {a}; mov.b32 {{%h30, {z}}}, %r30;"],
    "bf16": ["neg.bf16 {z}, {a};", "abs.bf16 {z}, {a};", "cvt.f32.bf16 %r30, {a}; mov.b32 {{%h30, {z}}}, %r30;"],
    "f16x2": ["neg.f16x2 {z}, {a};", "abs.f16x2 {z}, {a};"],
    "bf16x2": ["neg.bf16x2 {z}, {a};", "abs.bf16x2 {z}, {a};"],
}  # fmt: skip


def folded_module():
    module = Module("folded")
    for kind, lines in list(FOLDS.items()) + list(FOLDS_OF_ONE.items()):
        prefix, moves, dtype = REGISTERS[kind]
        size, words = np.dtype(dtype).itemsize, WORDS[kind.removesuffix("x2")]
        if kind.endswith("x2"):
            words = [word | words[i - 5] << 16 for i, word in enumerate(words)]
        names = {"a": f"{prefix}20", "b": f"{prefix}21", "z": f"{prefix}24"}
        for number, line in enumerate(lines):
            pairs = [(a, b) for a in words for b in words] if lines is FOLDS.get(kind) else [(a, 0) for a in words]
            body = []
            for at, (a, b) in enumerate(pairs):
                body += [
                    f"mov.{moves} {names['a']}, 0x{a:X};",
                    f"mov.{moves} {names['b']}, 0x{b:X};" if len(pairs) > 16 else "",
                    line.format(**names),
                    f"st.global.{moves} [%rd2+{at * size}], {names['z']};",
                ]
            module.add(
                f"{'pairs' if len(pairs) > 16 else 'one'}_{kind}_{number}",
                body,
                np.zeros(1, dtype),
                len(pairs) * size,
                1,
            )
    return module


# --- signs of NaNs across instructions


def sign_flow_module():
    module = Module("sign_flow")
    words = WORDS["f32"]
    x, count = np.array(words, np.uint32), len(words)
    load = [
        f"div.u32 %r2, %r1, {count};",
        f"rem.u32 %r3, %r1, {count};",
        "mul.wide.u32 %rd3, %r2, 4;",
        "add.s64 %rd3, %rd1, %rd3;",
        "mul.wide.u32 %rd4, %r3, 4;",
        "add.s64 %rd4, %rd1, %rd4;",
        "ld.global.b32 %r20, [%rd3];",
        "ld.global.b32 %r21, [%rd4];",
        *at_thread("%rd5", "%rd2", 8),
    ]
    flows = {
        "selp": ["neg.f32 %r22, %r20;", "setp.gt.f32 %p1, %r21, 0f00000000;", "selp.f32 %r23, %r22, %r21, %p1;",
                 "mov.b64 %l30, {%r23, %r23};"],
        "selp_abs": ["abs.f32 %r22, %r20;", "setp.gt.f32 %p1, %r21, 0f00000000;", "selp.f32 %r23, %r21, %r22, %p1;",
                     "mov.b64 %l30, {%r23, %r23};"],
        "used_twice": ["neg.f32 %r22, %r20;", "cvt.f64.f32 %l30, %r22;", "cvt.u64.u32 %l31, %r22;",
                       "xor.b64 %l30, %l30, %l31;"],
        "overwritten": ["neg.f32 %r22, %r20;", "mov.b32 %r20, %r21;", "cvt.f64.f32 %l30, %r22;"],
        "copied": ["neg.f32 %r22, %r20;", "mov.b32 %r23, %r22;", "cvt.f64.f32 %l30, %r23;"],
        "blocks": ["neg.f32 %r22, %r20;", "setp.gt.u32 %p1, %r3, 7;", "@%p1 bra L_blocks;",
                   "st.global.u32 [%rd5], %r21;", "L_blocks:", "cvt.f64.f32 %l30, %r22;"],
        "guarded": ["mov.b32 %r22, %r21;", "setp.gt.u32 %p1, %r3, 7;", "@%p1 neg.f32 %r22, %r20;",
                    "cvt.f64.f32 %l30, %r22;"],
        "guarded_cvt": ["neg.f32 %r22, %r20;", "mov.b64 %l30, 0;", "setp.gt.u32 %p1, %r3, 7;",
                        "@%p1 cvt.f64.f32 %l30, %r22;"],
        "ftz_cvt": ["neg.f32 %r22, %r20;", "cvt.ftz.f64.f32 %l30, %r22;"],
        "negated_twice": ["neg.f32 %r22, %r20;", "neg.f32 %r23, %r22;", "mov.b64 %l30, {%r22, %r23};"],
        "negated_in_blocks": ["neg.f32 %r22, %r20;", "setp.gt.u32 %p1, %r3, 7;", "@%p1 bra L_negated;",
                              "st.global.u32 [%rd5], %r21;", "L_negated:", "neg.f32 %r23, %r22;",
                              "mov.b64 %l30, {%r22, %r23};"],
        "negated_overwritten": ["neg.f32 %r22, %r20;", "mov.b32 %r20, %r21;", "neg.f32 %r23, %r22;",
                                "mov.b64 %l30, {%r22, %r23};"],
        "negated_copied": ["neg.f32 %r22, %r20;", "mov.b32 %r24, %r22;", "neg.f32 %r23, %r24;",
                           "mov.b64 %l30, {%r23, %r23};"],
        "negated_ftz": ["neg.ftz.f32 %r22, %r20;", "neg.ftz.f32 %r23, %r22;", "mov.b64 %l30, {%r23, %r23};"],
        "negated_ftz_inner": ["neg.ftz.f32 %r22, %r20;", "neg.f32 %r23, %r22;", "mov.b64 %l30, {%r23, %r23};"],
        "negated_ftz_outer": ["neg.f32 %r22, %r20;", "neg.ftz.f32 %r23, %r22;", "mov.b64 %l30, {%r23, %r23};"],
        "absolute_twice": ["abs.f32 %r22, %r20;", "abs.f32 %r23, %r22;", "mov.b64 %l30, {%r22, %r23};"],
        "three": ["neg.f32 %r22, %r20;", "neg.f32 %r23, %r22;", "neg.f32 %r24, %r23;", "mov.b64 %l30, {%r23, %r24};"],
        "times_minus_one": ["mul.f32 %r22, %r20, 0fBF800000;", "cvt.f64.f32 %l30, %r22;", "cvt.u64.u32 %l31, %r22;",
                            "xor.b64 %l30, %l30, %l31;"],
        "times_one": ["mul.f32 %r22, %r20, 0f3F800000;", "mov.b64 %l30, {%r22, %r22};"],
        "minus_from_zero": ["sub.f32 %r22, 0f80000000, %r20;", "mov.b64 %l30, {%r22, %r22};"],
        "plus_minus_zero": ["add.f32 %r22, %r20, 0f80000000;", "mov.b64 %l30, {%r22, %r22};"],
        "narrow_twice": ["cvt.f64.f32 %l29, %r20;", "neg.f64 %l29, %l29;", "cvt.rn.f32.f64 %r23, %l29;",
                         "mov.b64 %l30, {%r23, %r23};"],
        "wide_abs": ["cvt.f64.f32 %l29, %r20;", "abs.f64 %l30, %l29;"],
        "wide_neg_rounded": ["neg.f32 %r22, %r20;", "cvt.rni.f32.f32 %r23, %r22;", "mov.b64 %l30, {%r23, %r23};"],
        "wide_neg_sat": ["neg.f32 %r22, %r20;", "cvt.sat.f32.f32 %r23, %r22;", "mov.b64 %l30, {%r23, %r23};"],
    }  # fmt: skip
    for name, body in flows.items():
        module.add(name, [*load, *body, "st.global.b64 [%rd5], %l30;"], x, count * count * 8, count * count)
    return module


# --- lanes of a warp that write to one address

STORES = ["b8", "b16", "b32", "b64", "v2.b8", "v4.b8", "v2.b16", "v4.b16", "v2.b32", "v4.b32", "v2.b64"]
BLOCKS = 64


def slots_of_lanes(rng):
    """For each block and lane the slot that the lane writes to, or 255: the lane is inactive."""
    slots = np.zeros((BLOCKS, 32), np.uint32)
    for block in range(BLOCKS):
        slots[block] = rng.integers(0, rng.integers(1, 9), 32)
        slots[block][rng.random(32) < rng.random()] = 255
    return slots


def store_modules():
    rng = np.random.default_rng(7)
    for space in ("global", "shared"):
        module = Module(f"stores_{space}")
        for kind in STORES:
            parts = int(kind[1]) if kind.startswith("v") else 1
            bits = int(kind.split("b")[1])
            size = parts * bits // 8
            area = 8 * size
            prefix = "%l" if bits == 64 else "%r" if bits == 32 else "%h"
            body = [
                "mov.u32 %r2, %ctaid.x;",
                "mad.lo.u32 %r3, %r2, 32, %r1;",
                "mul.wide.u32 %rd3, %r3, 4;",
                "add.s64 %rd3, %rd1, %rd3;",
                "ld.global.u32 %r4, [%rd3];",
                "setp.lt.u32 %p1, %r4, 8;",
            ]
            registers = []
            for part in range(parts):
                # Each byte of the value names the lane and the part.
                body += [
                    f"mad.lo.u32 %r5, %r1, {7 + 2 * part}, {1 + part};",
                    "and.b32 %r5, %r5, 255;",
                    "mul.lo.u32 %r6, %r5, 16843009;",
                    f"mov.u32 %r{10 + part}, %r6;",
                    f"cvt.u16.u32 %h{10 + part}, %r6;",
                    f"mov.b64 %l{10 + part}, {{%r6, %r6}};",
                ]
                registers.append(f"{prefix}{10 + part}")
            data = "{" + ", ".join(registers) + "}" if parts > 1 else registers[0]
            if space == "global":
                body += [
                    f"mul.wide.u32 %rd4, %r2, {area};",
                    "add.s64 %rd4, %rd2, %rd4;",
                    f"mul.wide.u32 %rd5, %r4, {size};",
                    "add.s64 %rd4, %rd4, %rd5;",
                    f"@%p1 st.global.{kind} [%rd4], {data};",
                ]
            else:
                body += [
                    f"mul.wide.u32 %rd6, %r1, {4 if area >= 128 else 1};",
                    f"mul.wide.u32 %rd4, %r2, {area};",
                    "add.s64 %rd4, %rd2, %rd4;",
                    f"mul.lo.u32 %r7, %r4, {size};",
                    "mov.u32 %r8, area;",
                    "add.u32 %r7, %r8, %r7;",
                    # Clear the area first.
                    "shl.b32 %r20, %r1, 2;",
                    "add.u32 %r20, %r20, %r8;",
                    f"setp.lt.u32 %p2, %r1, {max(1, area // 4)};",
                    "mov.u32 %r21, 0;",
                    "@%p2 st.shared.u32 [%r20], %r21;",
                    "bar.sync 0;",
                    f"@%p1 st.shared.{kind} [%r7], {data};",
                    "bar.sync 0;",
                    "shl.b32 %r22, %r1, 2;",
                    "cvt.u64.u32 %rd7, %r22;",
                    "add.s64 %rd4, %rd4, %rd7;",
                    "@%p2 ld.shared.u32 %r23, [%r20];",
                    "@%p2 st.global.u32 [%rd4], %r23;",
                ]
            module.add(
                kind.replace(".", "_"),
                body,
                slots_of_lanes(rng),
                area * BLOCKS,
                32,
                BLOCKS,
                registers=f"  .shared .align 16 .b8 area[{max(area, 128)}];\n" if space == "shared" else "",
            )
        yield module
    module = Module("copies")
    for size in (4, 8, 16):
        area = 8 * size
        # x: the slots, then 32 rows of 16 bytes.
        slots = slots_of_lanes(rng)
        x = np.concatenate([slots.view(np.uint8).ravel(), rng.integers(0, 256, 512, np.uint8)])
        body = [
            "mov.u32 %r2, %ctaid.x;",
            "mad.lo.u32 %r3, %r2, 32, %r1;",
            "mul.wide.u32 %rd3, %r3, 4;",
            "add.s64 %rd3, %rd1, %rd3;",
            "ld.global.u32 %r4, [%rd3];",
            "setp.lt.u32 %p1, %r4, 8;",
            "mov.u32 %r8, area;",
            "shl.b32 %r20, %r1, 2;",
            "add.u32 %r20, %r20, %r8;",
            f"setp.lt.u32 %p2, %r1, {area // 4};",
            "mov.u32 %r21, 0;",
            "@%p2 st.shared.u32 [%r20], %r21;",
            "bar.sync 0;",
            f"mad.lo.u32 %r7, %r4, {size}, %r8;",
            "mul.wide.u32 %rd5, %r1, 16;",
            "add.s64 %rd5, %rd1, %rd5;",
            f"@%p1 cp.async.ca.shared.global [%r7], [%rd5+{slots.nbytes}], {size};",
            "cp.async.commit_group;",
            "cp.async.wait_group 0;",
            "bar.sync 0;",
            f"mul.wide.u32 %rd4, %r2, {area};",
            "add.s64 %rd4, %rd2, %rd4;",
            "cvt.u64.u32 %rd7, %r20;",
            "cvt.u64.u32 %rd6, %r8;",
            "sub.s64 %rd7, %rd7, %rd6;",
            "add.s64 %rd4, %rd4, %rd7;",
            "@%p2 ld.shared.u32 %r23, [%r20];",
            "@%p2 st.global.u32 [%rd4], %r23;",
        ]
        module.add(f"copy_{size}", body, x, area * BLOCKS, 32, BLOCKS, registers="  .shared .align 16 .b8 area[128];\n")
    # stmatrix: several rows of the matrices at one address.
    for num in (1, 2, 4):
        slots = rng.integers(0, 8, (BLOCKS, 32), np.uint32)
        body = [
            "mov.u32 %r2, %ctaid.x;",
            "mad.lo.u32 %r3, %r2, 32, %r1;",
            "mul.wide.u32 %rd3, %r3, 4;",
            "add.s64 %rd3, %rd1, %rd3;",
            "ld.global.u32 %r4, [%rd3];",
            "mov.u32 %r8, area;",
            "shl.b32 %r20, %r1, 2;",
            "add.u32 %r20, %r20, %r8;",
            "mov.u32 %r21, 0;",
            "st.shared.u32 [%r20], %r21;",
            "bar.sync 0;",
            "mad.lo.u32 %r7, %r4, 16, %r8;",
            *(f"mad.lo.u32 %r{10 + i}, %r1, {7 + 2 * i}, {0x1010000 * (i + 1)};" for i in range(num)),
            f"stmatrix.sync.aligned.m8n8.x{num}.shared.b16 [%r7], {{{', '.join(f'%r{10 + i}' for i in range(num))}}};",
            "bar.sync 0;",
            "mul.wide.u32 %rd4, %r2, 128;",
            "add.s64 %rd4, %rd2, %rd4;",
            *[
                line.replace("%rd4, %rd4, %rd7", "%rd4, %rd4, %rd7")
                for line in [
                    "shl.b32 %r22, %r1, 2;",
                    "cvt.u64.u32 %rd7, %r22;",
                    "add.s64 %rd4, %rd4, %rd7;",
                    "ld.shared.u32 %r23, [%r20];",
                    "st.global.u32 [%rd4], %r23;",
                ]
            ],
        ]
        module.add(
            f"stmatrix_{num}", body, slots, 128 * BLOCKS, 32, BLOCKS, registers="  .shared .align 16 .b8 area[128];\n"
        )
    yield module
    module = Module("exchanges")
    for space in ("global", "shared"):
        for kind in ("b32", "b64"):
            size = int(kind[1:]) // 8
            prefix = "%r" if kind == "b32" else "%l"
            # y: the old values of the lanes, then the areas.
            olds = BLOCKS * 32 * size
            body = [
                "mov.u32 %r2, %ctaid.x;",
                "mad.lo.u32 %r3, %r2, 32, %r1;",
                "mul.wide.u32 %rd3, %r3, 4;",
                "add.s64 %rd3, %rd1, %rd3;",
                "ld.global.u32 %r4, [%rd3];",
                "setp.lt.u32 %p1, %r4, 8;",
                "add.u32 %r10, %r1, 1;",
                "cvt.u64.u32 %l10, %r10;",
                f"mul.wide.u32 %rd5, %r3, {size};",
                "add.s64 %rd5, %rd2, %rd5;",
            ]
            if space == "global":
                body += [
                    f"mul.wide.u32 %rd4, %r2, {8 * size};",
                    "add.s64 %rd4, %rd2, %rd4;",
                    f"mul.wide.u32 %rd6, %r4, {size};",
                    "add.s64 %rd4, %rd4, %rd6;",
                    f"@%p1 atom.global.exch.{kind} {prefix}11, [%rd4+{olds}], {prefix}10;",
                ]
            else:
                body += [
                    "mov.u32 %r8, area;",
                    "shl.b32 %r20, %r1, 2;",
                    "add.u32 %r20, %r20, %r8;",
                    "mov.u32 %r21, 0;",
                    "setp.lt.u32 %p2, %r1, 16;",
                    "@%p2 st.shared.u32 [%r20], %r21;",
                    "bar.sync 0;",
                    f"mad.lo.u32 %r7, %r4, {size}, %r8;",
                    f"@%p1 atom.shared.exch.{kind} {prefix}11, [%r7], {prefix}10;",
                ]
            body.append(f"@%p1 st.global.{kind} [%rd5], {prefix}11;")
            module.add(
                f"exch_{space}_{kind}",
                body,
                slots_of_lanes(rng),
                olds + BLOCKS * 8 * size,
                32,
                BLOCKS,
                registers="  .shared .align 16 .b8 area[64];\n" if space == "shared" else "",
            )
    yield module


# --- wmma: fragments and arithmetic

WMMA_SHAPES = {
    "m16n16k16": ("f16", "bf16", "s8", "u8"),
    "m32n8k16": ("f16", "bf16", "s8", "u8"),
    "m8n32k16": ("f16", "bf16", "s8", "u8"),
    "m16n16k8": ("tf32",),
    "m8n8k4": ("f64",),
    "m8n8k32": ("s4", "u4"),
    "m8n8k128": ("b1",),
}
WMMA_BITS = {
    "f16": 16,
    "bf16": 16,
    "s8": 8,
    "u8": 8,
    "tf32": 32,
    "f64": 64,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "f32": 32,
    "s32": 32,
}
# Registers of a fragment: by type of A and B for m16n16k16, m32n8k16, m8n32k16; then the other shapes. PTX ISA, wmma.
WMMA_REGISTERS = {
    "m16n16k16": {"f16": (8, 8), "bf16": (4, 4), "s8": (2, 2), "u8": (2, 2)},
    "m32n8k16": {"f16": (8, 8), "bf16": (8, 2), "s8": (4, 1), "u8": (4, 1)},
    "m8n32k16": {"f16": (8, 8), "bf16": (2, 8), "s8": (1, 4), "u8": (1, 4)},
    "m16n16k8": {"tf32": (4, 4)},
    "m8n8k4": {"f64": (1, 1)},
    "m8n8k32": {"s4": (1, 1), "u4": (1, 1)},
    "m8n8k128": {"b1": (1, 1)},
}


def random_codes(rng, kind, count):
    bits = WMMA_BITS[kind]
    if bits < 8:
        return rng.integers(0, 256, count * bits // 8, np.uint8).tobytes()
    codes = rng.integers(0, 2**bits, count, np.uint64 if bits == 64 else np.uint32)
    if kind in ("f16", "bf16", "tf32", "f32", "f64"):
        # Mostly numbers of like size; every 37th is any code.
        mantissa = {"f16": 10, "bf16": 7, "tf32": 23, "f32": 23, "f64": 52}[kind]
        bias = {"f16": 15, "bf16": 127, "tf32": 127, "f32": 127, "f64": 1023}[kind]
        one = np.uint64(1)
        exponent = (rng.integers(bias - 6, bias + 5, count).astype(np.uint64)) << np.uint64(mantissa)
        like = (
            (codes.astype(np.uint64) & ((one << np.uint64(mantissa)) - one))
            | exponent
            | (rng.integers(0, 2, count).astype(np.uint64) << np.uint64(bits - 1))
        )
        codes = np.where(np.arange(count) % 37 == 36, codes.astype(np.uint64), like)
    width = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
    return codes.astype(width).tobytes()


def wmma_module():
    """x holds A, B and C; y gets D, and the registers of A's, B's and C's fragments in the order of the lanes."""
    rng = np.random.default_rng(53)
    module = Module("wmma")
    for shape, kinds in WMMA_SHAPES.items():
        m, n, k = (int(part) for part in shape.replace("m", "").replace("n", " ").replace("k", " ").split())
        for kind in kinds:
            results = {"f16": ("f16", "f32"), "f64": ("f64",)}.get(
                kind, ("f32",) if kind in ("bf16", "tf32") else ("s32",)
            )
            layouts = ("row", "col")
            pairs = [("row", "col")] if WMMA_BITS[kind] < 8 else [(a, b) for a in layouts for b in layouts]
            for result, (of_a, of_b), of_d in ((r, p, layout) for r in results for p in pairs for layout in layouts):
                count_a, count_b = WMMA_REGISTERS[shape][kind]
                count_d = m * n * WMMA_BITS[result] // 1024 if result != "f64" else 2
                data = [
                    random_codes(rng, kind, m * k),
                    random_codes(rng, kind, k * n),
                    random_codes(rng, result, m * n),
                ]
                offsets = [0, 4096, 8192]
                x = bytearray(8192 + 4096)
                for at, codes in zip(offsets, data, strict=True):
                    x[at : at + len(codes)] = codes
                element = "f64" if kind == "f64" else "b32"
                of_result = {"f64": "f64", "f32": "f32"}.get(result, "b32")
                letters = {
                    "a": ("%wa", count_a, element),
                    "b": ("%wb", count_b, element),
                    "c": ("%wc", count_d, of_result),
                    "d": ("%wd", count_d, of_result),
                }
                registers = "".join(f"  .reg .{t} {name}<{count}>;\n" for name, count, t in letters.values())
                lists = {
                    key: "{" + ", ".join(f"{name}{i}" for i in range(count)) + "}"
                    for key, (name, count, _) in letters.items()
                }
                lead = {"a": k if of_a == "row" else m, "b": n if of_b == "row" else k, "d": n if of_d == "row" else m}
                operation = {"b1": ".xor.popc"}.get(kind, "")
                types = {"f16": f"{result}.{result}", "f64": "rn.f64.f64.f64.f64"}.get(
                    kind, f"{result}.{kind}.{kind}.{result}"
                )
                body = [
                    "add.s64 %rd3, %rd1, 4096;",
                    "add.s64 %rd4, %rd1, 8192;",
                    f"wmma.load.a.sync.aligned.{of_a}.{shape}.global.{kind} {lists['a']}, [%rd1], {lead['a']};",
                    f"wmma.load.b.sync.aligned.{of_b}.{shape}.global.{kind} {lists['b']}, [%rd3], {lead['b']};",
                    f"wmma.load.c.sync.aligned.{of_d}.{shape}.global.{result} {lists['c']}, [%rd4], {lead['d']};",
                    f"wmma.mma{operation}.sync.aligned.{of_a}.{of_b}.{shape}.{types} "
                    + ", ".join(lists[key] for key in "dabc")
                    + ";",
                    f"wmma.store.d.sync.aligned.{of_d}.{shape}.global.{result} [%rd2], {lists['d']}, {lead['d']};",
                ]
                at = 4096
                for key in "abc":
                    name, count, kind_of_register = letters[key]
                    size = 8 if kind_of_register == "f64" else 4
                    body += at_thread("%rd5", "%rd2", size * count)
                    body += [f"st.global.{kind_of_register} [%rd5+{at + size * i}], {name}{i};" for i in range(count)]
                    at += 32 * size * count
                name = f"{shape}_{kind}_{result}_{of_a}_{of_b}_{of_d}"
                module.add(name, body, np.frombuffer(bytes(x), np.uint8), at, 32, registers=registers)
    return module


# --- other single instructions: words in, words out


def words_module(name, rows, wide=False, seed=9):
    """`rows`: entry and the line that makes %r10 of %r2, %r3, %r4 (or %l10 of %l2, %l3, %l4)."""
    rng = np.random.default_rng(seed)
    module = Module(name)
    threads, size = (256, 8) if wide else (64, 4)
    prefix, kind = ("%l", "b64") if wide else ("%r", "b32")
    for entry, line in rows:
        special = np.array(
            [
                0,
                1,
                0x7F,
                0x80,
                0xFF,
                0x7FFF,
                0x8000,
                0xFFFF,
                0x7FFFFFFF,
                0x80000000,
                0xFFFFFFFF,
                0x3F800000,
                0x7F800000,
                0x7FC00000,
                0x3C00,
                0x7C00,
                0x7E00,
                0x00800000,
                0x007FFFFF,
            ],
            np.uint64,
        )
        words = rng.integers(0, 2 ** (8 * size), (threads, 3), np.uint64)
        words[: threads // 2] = np.where(
            rng.random((threads // 2, 3)) < 0.6, rng.choice(special, (threads // 2, 3)), words[: threads // 2]
        )
        if wide:
            exponents = rng.integers(0, 2047, threads).astype(np.uint64) << np.uint64(52)
            words[threads // 4 :, 0] = (words[threads // 4 :, 0] & np.uint64(0x000FFFFFFFFFFFFF)) | exponents[
                threads // 4 :
            ]
            words[:12, 0] = [
                0,
                1 << 63,
                0x7FF0 << 48,
                0xFFF0 << 48,
                0x7FF8 << 48,
                0xFFF8000000000123,
                0x7FF4000000000777,
                1,
                0x000FFFFFFFFFFFFF,
                0x0010000000000000,
                0x7FEFFFFFFFFFFFFF,
                0xBFF0000000000000,
            ]
        else:
            words[::5, 1] = words[::5, 0]
        body = at_thread("%rd3", "%rd1", 3 * size) + at_thread("%rd4", "%rd2", size)
        body += [f"ld.global.{kind} {prefix}{2 + i}, [%rd3+{size * i}];" for i in range(3)]
        body += [line] if isinstance(line, str) else line
        body += [f"st.global.{kind} [%rd4], {prefix}10;"]
        module.add(entry, body, words.astype(np.uint64 if wide else np.uint32), threads * size, threads)
    return module


def video_module():
    rows = []
    for parts in (2, 4):
        for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
            for types in ("u32.u32.u32", "s32.s32.s32", "s32.u32.u32", "u32.s32.s32", "s32.u32.s32"):
                for mode in ("", ".sat", ".add"):
                    rows.append(
                        (
                            f"{name}{parts}_{types}{mode}".replace(".", "_"),
                            f"{name}{parts}.{types}{mode} %r10, %r2, %r3, %r4;",
                        )
                    )
        for types in ("u32.u32", "s32.s32", "u32.s32"):
            for comparison in ("eq", "ne", "lt", "le", "gt", "ge"):
                for mode in ("", ".add"):
                    rows.append(
                        (
                            f"vset{parts}_{types}_{comparison}{mode}".replace(".", "_"),
                            f"vset{parts}.{types}.{comparison}{mode} %r10, %r2, %r3, %r4;",
                        )
                    )
    return words_module("video", rows)


def scalar_video_module():
    """500 random forms: scalar video instructions with parts of operands and of the result, SIMD ones with masks and
    selectors."""
    rng = np.random.default_rng(11)

    def draw(*choices):
        return choices[rng.integers(len(choices))]

    def types(count):
        return "".join("." + draw("u32", "s32") for _ in range(count))

    rows = []
    parts = ["", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"]
    for _ in range(500):
        kind = draw("scalar", "scalar", "scalar", "shift", "set", "mad", "mad", "simd", "simd", "simd")
        d, a, b, c = "%r10", "%r2", "%r3", ""
        if kind == "simd":
            count = draw(2, 4)
            letter = "h" if count == 2 else "b"
            name = draw("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")
            name += f"{count}{types(3)}{draw('', '.sat', '.add')}"
            a, b = (
                x + draw("", "." + letter + "".join(str(digit) for digit in rng.integers(2 * count, size=count)))
                for x in (a, b)
            )
            written = [i for i in range(count) if rng.random() < 0.6]
            if written:
                d += "." + letter + "".join(str(i) for i in reversed(written))
            c = ", %r4"
        elif kind == "mad":
            signs = draw(("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-"), (".po", "", ""))
            of_operands, po = types(2), signs[0] == ".po"
            signs = ("", "", "") if po else signs
            # The result has a sign if an operand or the sum has.
            d_type = "s32" if "s32" in of_operands or any(signs) else "u32"
            name = f"vmad.{d_type}{of_operands}{'.po' if po else ''}{draw('', '.sat')}{draw('', '.shr7', '.shr15')}"
            a, b, c = signs[0] + a + draw(*parts), signs[1] + b + draw(*parts), f", {signs[2]}%r4"
        else:
            second = draw("", "", ".add", ".min", ".max", "merge")
            if second == "merge":
                d, c, second = d + draw(*parts[1:]), ", %r4", ""
            elif second:
                c = ", %r4"
            if kind == "set":
                name = f"vset{types(2)}.{draw('eq', 'ne', 'lt', 'le', 'gt', 'ge')}{second}"
            elif kind == "shift":
                name = f"{draw('vshl', 'vshr')}{types(2)}.u32{draw('', '.sat')}.{draw('clamp', 'wrap')}{second}"
            else:
                name = f"{draw('vadd', 'vsub', 'vabsdiff', 'vmin', 'vmax')}{types(3)}{draw('', '.sat')}{second}"
            a, b = a + draw(*parts), b + draw(*parts)
        lines = [f"{name} {d}, {a}, {b}{c};"]
        if kind == "shift" and rng.random() < 0.7:
            lines.insert(0, "and.b32 %r3, %r3, 63;")
        rows.append((f"video_{len(rows)}", lines))
    return words_module("scalar_video", rows)


def bits_module():
    rows = [(f"szext_{mode}_{kind}", ["and.b32 %r3, %r3, 63;", f"szext.{mode}.{kind} %r10, %r2, %r3;"])
            for mode in ("clamp", "wrap") for kind in ("u32", "s32")]  # fmt: skip
    rows += [
        (
            "fns",
            [
                "and.b32 %r3, %r3, 31;",
                "and.b32 %r4, %r4, 31;",
                "sub.s32 %r4, %r4, 16;",
                "fns.b32 %r10, %r2, %r3, %r4;",
            ],
        ),
        ("fns_base", ["and.b32 %r3, %r3, 31;", "fns.b32 %r10, %r2, %r3, 0;"]),
    ]
    for combine in ("or", "and"):
        for table in ("0x80", "0x96", "0xE8", "0x01"):
            rows.append(
                (
                    f"lop3_{combine}_{table}",
                    [
                        "setp.lt.u32 %p1, %r1, 32;",
                        f"lop3.{combine}.b32 %r11|%p2, %r2, %r3, %r4, {table}, %p1;",
                        "selp.u32 %r10, 1, 0, %p2;",
                        "xor.b32 %r10, %r10, %r11;",
                    ],
                )
            )
    module = words_module("bits", rows)
    module.text = module.text.replace(".version 8.0", ".version 8.2", 1)  # of lop3 with a predicate
    return module


def set_module():
    rows = []
    for source in ("u32", "s32", "b32", "f32"):
        for result in ("u32", "s32", "f32"):
            comparisons = ("eq", "ne") if source == "b32" else ("eq", "ne", "lt", "le", "gt", "ge")
            if source == "u32":
                comparisons += ("lo", "ls", "hi", "hs")
            if source == "f32":
                comparisons += ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
            for comparison in comparisons:
                for ftz in ("", ".ftz") if source == "f32" else ("",):
                    rows.append(
                        (
                            f"set_{comparison}{ftz}_{result}_{source}".replace(".", "_"),
                            f"set.{comparison}{ftz}.{result}.{source} %r10, %r2, %r3;",
                        )
                    )
        for boolean in ("and", "or", "xor"):
            rows.append(
                (
                    f"set_eq_{boolean}_{source}",
                    ["setp.lt.u32 %p1, %r4, 0x80000000;", f"set.eq.{boolean}.u32.{source} %r10, %r2, %r3, %p1;"],
                )
            )
    for source in ("f16", "bf16"):
        for result in (source, "u32", "s32", "u16", "s16"):
            for comparison in ("eq", "ne", "lt", "ge", "ltu", "geu", "nan"):
                target = "%h10" if result in (source, "u16", "s16") else "%r10"
                lines = [
                    "cvt.u16.u32 %h2, %r2;",
                    "cvt.u16.u32 %h3, %r3;",
                    f"set.{comparison}.{result}.{source} {target}, %h2, %h3;",
                ]
                if target == "%h10":
                    # cvt.u32.u16 of the result would show both halves of the register: ptxas 13.0 leaves it out.
                    lines += ["mov.u16 %h11, 0;", "mov.b32 %r10, {%h10, %h11};"]
                rows.append((f"set_{comparison}_{result}_{source}", lines))
        for result in (source + "x2", "u32", "s32"):
            for comparison in ("eq", "ne", "lt", "ge", "ltu", "geu", "nan"):
                rows.append(
                    (f"set_{comparison}_{result}_{source}x2", f"set.{comparison}.{result}.{source}x2 %r10, %r2, %r3;")
                )
    for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        rows.append((f"testp_{what}_f32", [f"testp.{what}.f32 %p1, %r2;", "selp.u32 %r10, 1, 0, %p1;"]))
    return words_module("set", rows)


def wide_words_module():
    rows = [("rsqrt_f64", "rsqrt.approx.f64 %l10, %l2;")]
    for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        rows.append((f"testp_{what}_f64", [f"testp.{what}.f64 %p1, %l2;", "selp.u64 %l10, 1, 0, %p1;"]))
    return words_module("wide", rows, wide=True)


def progress_module():
    """Tiles with masks of their own, a lock that the lanes of a warp take in turn, and an mbarrier that completes two
    phases while a warp waits for the first."""
    module = Module("progress")
    module.add(
        "masks",
        [
            "shr.u32 %r2, %r1, 4;",
            "shl.b32 %r2, %r2, 4;",
            "shl.b32 %r3, 0xffff, %r2;",
            "redux.sync.add.s32 %r4, %r1, %r3;",
            "shfl.sync.bfly.b32 %r5, %r1, 1, 0x101f, %r3;",
            *at_thread("%rd3", "%rd2", 8),
            "st.global.v2.u32 [%rd3], {%r4, %r5};",
        ],
        np.zeros(1, np.uint32),
        256,
        32,
    )
    module.add(
        "eighths",
        [
            "shr.u32 %r2, %r1, 2;",
            "shl.b32 %r2, %r2, 2;",
            "shl.b32 %r3, 0xf, %r2;",
            "mul.lo.u32 %r6, %r1, %r1;",
            "redux.sync.max.u32 %r4, %r6, %r3;",
            "match.any.sync.b32 %r5, %r2, %r3;",
            *at_thread("%rd3", "%rd2", 8),
            "st.global.v2.u32 [%rd3], {%r4, %r5};",
        ],
        np.zeros(1, np.uint32),
        256,
        32,
    )
    module.add(
        "lock",
        [
            "SPIN:",
            "atom.global.cas.b32 %r2, [%rd2], 0, 1;",
            "setp.ne.u32 %p1, %r2, 0;",
            "@%p1 bra SPIN;",
            "ld.volatile.global.u32 %r3, [%rd2+4];",
            "add.u32 %r3, %r3, %r1;",
            "st.volatile.global.u32 [%rd2+4], %r3;",
            "membar.gl;",
            "atom.global.exch.b32 %r4, [%rd2], 0;",
        ],
        np.zeros(1, np.uint32),
        8,
        32,
    )
    module.add(
        "phases",
        [
            "setp.ne.u32 %p1, %r1, 0;",
            "@%p1 bra INITED;",
            "mbarrier.init.shared.b64 [bar], 1;",
            "INITED:",
            "bar.sync 0;",
            "setp.ge.u32 %p2, %r1, 32;",
            "@%p2 bra WAIT;",
            "@%p1 bra DONE;",
            "mbarrier.arrive.shared.b64 %rd3, [bar];",
            "nanosleep.u32 1000000;",
            "mbarrier.arrive.shared.b64 %rd3, [bar];",
            "bra DONE;",
            "WAIT:",
            "mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;",
            "@!%p3 bra WAIT;",
            "DONE:",
            "st.global.u32 [%rd2], 1;",
        ],
        np.zeros(1, np.uint32),
        4,
        64,
        registers="  .shared .align 8 .b64 bar;\n",
    )
    module.add(
        "element",
        [
            "mov.u32 %r2, area[3];",
            "st.shared.u32 [%r2], 5;",
            "ld.shared.u32 %r3, [area+12];",
            "st.global.u32 [%rd2], %r3;",
        ],
        np.zeros(1, np.uint32),
        4,
        1,
        registers="  .shared .align 16 .b32 area[16];\n",
    )
    module.add(
        "table",
        [
            "targets: .branchtargets A, B, C, D;",
            "brx.idx %r1, targets;",
            "A: mov.u32 %r2, 10; bra E;",
            "B: mov.u32 %r2, 11; bra E;",
            "C: mov.u32 %r2, 12; bra E;",
            "D: mov.u32 %r2, 13;",
            "E:",
            *at_thread("%rd3", "%rd2", 4),
            "st.global.u32 [%rd3], %r2;",
        ],
        np.zeros(1, np.uint32),
        16,
        4,
    )
    return module


FIB = """.func (.param .b32 r) fib(.param .b32 n)
{
  .reg .b32 %r<8>; .reg .pred %p;
  ld.param.b32 %r1, [n];
  setp.lt.u32 %p, %r1, 2;
  @%p bra BASE;
  sub.u32 %r2, %r1, 1;
  { .param .b32 a; .param .b32 q; st.param.b32 [a], %r2; call.uni (q), fib, (a); ld.param.b32 %r3, [q]; }
  sub.u32 %r2, %r1, 2;
  { .param .b32 a; .param .b32 q; st.param.b32 [a], %r2; call.uni (q), fib, (a); ld.param.b32 %r4, [q]; }
  add.u32 %r1, %r3, %r4;
BASE:
  st.param.b32 [r], %r1;
  ret;
}
"""
UNARY_LINES = {
    "twice": "add.u32 %r2, %r1, %r1;",
    "square": "mul.lo.u32 %r2, %r1, %r1;",
    "negate": "neg.s32 %r2, %r1;",
}
UNARY = "".join(f""".func (.param .b32 r) {name}(.param .b32 a)
{{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [a];
  {line}
  st.param.b32 [r], %r2;
  ret;
}}
""" for name, line in UNARY_LINES.items())  # fmt: skip


def calls_module():
    """Recursion, and calls of functions whose addresses are in registers and in a table."""
    module = Module("calls")
    body = [
        "and.b32 %r2, %r1, 15;",
        "{ .param .b32 a; .param .b32 q; st.param.b32 [a], %r2; call (q), fib, (a); ld.param.b32 %r3, [q]; }",
    ]
    module.add(
        "recursion",
        body + at_thread("%rd3", "%rd2", 4) + ["st.global.u32 [%rd3], %r3;"],
        np.zeros(1, np.uint32),
        256,
        64,
        head=FIB,
    )
    table = UNARY + ".global .align 8 .u64 table[3] = {twice, square, negate};\n"
    body = [
        "rem.u32 %r2, %r1, 3;",
        "mul.wide.u32 %rd3, %r2, 8;",
        "mov.u64 %rd4, table;",
        "add.s64 %rd4, %rd4, %rd3;",
        "ld.global.u64 %rd5, [%rd4];",
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _);",
        "{ .param .b32 a; .param .b32 q; st.param.b32 [a], %r1; call (q), %rd5, (a), proto; ld.param.b32 %r3, [q]; }",
    ]  # fmt: skip
    module.add(
        "table_of_functions",
        body + at_thread("%rd3", "%rd2", 4) + ["st.global.u32 [%rd3], %r3;"],
        np.zeros(1, np.uint32),
        256,
        64,
        head=table,
    )
    body = [
        "mov.u64 %rd3, twice;", "mov.u64 %rd4, square;", "setp.lt.u32 %p1, %r1, 10;", "selp.b64 %rd5, %rd3, %rd4, %p1;",
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _);", "setp.ge.u32 %p2, %r1, 3;", "mov.u32 %r3, 77;",
        "@!%p2 bra NO;",
        "{ .param .b32 a; .param .b32 q; st.param.b32 [a], %r1; call (q), %rd5, (a), proto; ld.param.b32 %r3, [q]; }",
        "NO:",
    ]  # fmt: skip
    module.add(
        "selected_function",
        body + at_thread("%rd3", "%rd2", 4) + ["st.global.u32 [%rd3], %r3;"],
        np.zeros(1, np.uint32),
        128,
        32,
    )
    return module


def modules():
    yield from carry_modules()
    yield from nan_modules()
    yield order_module()
    yield folded_module()
    yield sign_flow_module()
    yield from store_modules()
    yield wmma_module()
    yield video_module()
    yield set_module()
    yield wide_words_module()
    yield progress_module()
    yield calls_module()
    # Not recorded yet.
    yield scalar_video_module()
    yield bits_module()


def cubin_of(text, folder):
    path = os.path.join(folder, "module")
    with open(path + ".ptx", "w") as file:
        file.write(text)
    subprocess.run(
        [os.environ.get("BITMMA_PTXAS", "ptxas"), "-arch=sm_90a", "-o", path + ".cubin", path + ".ptx"], check=True
    )
    with open(path + ".cubin", "rb") as file:
        return file.read()


def record(path, names):
    import cupy

    spec = importlib.util.spec_from_file_location(
        "record_triton", os.path.join(ROOT, "python", "bitmma", "record_triton.py")
    )
    record_triton = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(record_triton)
    launches = record_triton.Launches(1, 1 << 24, 1 << 28)
    launches.gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    launches.capability = 90
    with tempfile.TemporaryDirectory() as folder:
        for module in modules():
            if names and not any(module.name.startswith(name) for name in names):
                continue
            loaded = cupy.cuda.function.Module()
            loaded.load(cubin_of(module.text, folder))
            for entry, x, y_bytes, block, grid in module.launches:
                before = [x.tobytes(), bytes(y_bytes)]
                memories = [cupy.asarray(np.frombuffer(data, np.uint8)) for data in before]
                loaded.get_function(entry)((grid,), (block,), tuple(memories))
                after = [cupy.asnumpy(memory).tobytes() for memory in memories]
                launch = {
                    "entry": entry,
                    "grid": [grid],
                    "block": [block],
                    "label": f"{module.name} {entry}",
                    "arguments": [{"memory": 0, "offset": 0}, {"memory": 1, "offset": 0}],
                }
                launches.add(module.text, launch, before, after)
    launches.save(path)
    print(len(launches), "launches on", launches.gpu)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", required=True, metavar="FILE", help="the launches; with --ptx a folder")
    parser.add_argument("--ptx", action="store_true", help="writes only the PTX of each module")
    parser.add_argument("names", nargs="*", help="modules whose names begin so; default: all")
    options = parser.parse_args()
    if not options.ptx:
        return record(options.o, options.names)
    os.makedirs(options.o, exist_ok=True)
    for module in modules():
        with open(os.path.join(options.o, module.name + ".ptx"), "w") as file:
            file.write(module.text)
        print(module.name, len(module.launches))


if __name__ == "__main__":
    main()
