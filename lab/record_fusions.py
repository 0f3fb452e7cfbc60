#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which products and sums ptxas joins: kernels, and what their SASS computes.

  record_fusions.py DIR            writes DIR/fusions.ptx and DIR/fusions.txt
  record_fusions.py DIR --check    says whether this ptxas makes the same of DIR/fusions.ptx

A line of fusions.txt is an output of a kernel as SASS has it: "k7 0 (fma (neg x1) x2 (add x3 x4))", x1 the first word
that the kernel loads. Needs ptxas and nvdisasm: of CUDA, or BITMMA_PTXAS and BITMMA_NVDISASM (Triton's wheel has one).
"""

import os
import random
import re
import subprocess
import sys
import tempfile

PTXAS, NVDISASM = os.environ.get("BITMMA_PTXAS", "ptxas"), os.environ.get("BITMMA_NVDISASM", "nvdisasm")
INPUTS, KERNELS = 6, 240

# Bodies on %f1 ... %f6, and the registers that are stored. One a case that decided a row of the rule.
DIRECTED = [
    ("mul.f32 %f10,%f1,%f2; add.f32 %f11,%f10,%f3;", [11]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f11,%f3,%f10;", [11]),
    ("mul.f32 %f10,%f1,%f2; sub.f32 %f11,%f3,%f10;", [11]),
    ("mul.f32 %f10,%f1,%f2; sub.f32 %f11,%f10,%f3;", [11]),
    ("mul.f32 %f10,%f1,%f2; mul.f32 %f11,%f3,%f4; add.f32 %f12,%f10,%f11;", [12]),
    ("mul.f32 %f10,%f1,%f2; mul.f32 %f11,%f3,%f4; add.f32 %f12,%f11,%f10;", [12]),
    ("mul.f32 %f10,%f1,%f2; mul.f32 %f11,%f3,%f4; sub.f32 %f12,%f11,%f10;", [12]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f10;", [12]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; add.f32 %f13,%f10,%f4;", [12, 13]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; add.f32 %f13,%f10,%f4; sub.f32 %f14,%f5,%f10;", [12, 13, 14]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3;", [12, 10]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; mul.f32 %f13,%f10,%f4;", [12, 13]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; fma.rn.f32 %f13,%f4,%f5,%f10;", [12, 13]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; add.rn.f32 %f13,%f10,%f4;", [12, 13]),
    ("mul.f32 %f10,%f1,%f2; mul.f32 %f11,%f3,%f4; add.f32 %f12,%f10,%f11; sub.f32 %f13,%f11,%f5;", [12, 13]),
    ("mul.f32 %f10,%f1,%f2; mul.f32 %f11,%f3,%f4; add.f32 %f12,%f10,%f11; sub.f32 %f13,%f10,%f11;", [12, 13]),
    ("mul.f32 %f10,%f1,%f2; mul.f32 %f11,%f3,%f4; add.f32 %f12,%f10,%f11; add.f32 %f13,%f10,%f5;", [12, 13]),
    ("mul.rn.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3;", [12]),
    ("mul.f32 %f10,%f1,%f2; add.rn.f32 %f12,%f10,%f3;", [12]),
    ("mul.f32 %f10,%f1,%f2; mov.f32 %f11,%f10; add.f32 %f12,%f11,%f3;", [12]),
    ("mul.f32 %f10,%f1,%f2; mov.f32 %f11,%f10; add.f32 %f12,%f11,%f3;", [12, 11]),
    ("mul.f32 %f10,%f1,%f2; mov.b32 %r5,%f10; mov.b32 %f11,%r5; add.f32 %f12,%f11,%f3;", [12]),
    ("mul.f32 %f10,%f1,%f2; neg.f32 %f11,%f10; add.f32 %f12,%f11,%f3;", [12]),
    ("mul.f32 %f10,%f1,%f2; bar.sync 0; add.f32 %f12,%f10,%f3;", [12]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f1,%f1,%f5; add.f32 %f12,%f10,%f3;", [12, 1]),
    ("mul.f32 %f10,%f1,%f2; add.ftz.f32 %f12,%f10,%f3;", [12]),
    ("mul.ftz.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3;", [12]),
    ("mul.ftz.f32 %f10,%f1,%f2; add.ftz.f32 %f12,%f10,%f3;", [12]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; add.ftz.f32 %f13,%f10,%f4;", [12, 13]),
    ("mul.f32 %f10,%f1,0f40400000; add.f32 %f12,%f10,%f2;", [12]),
    ("mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,0f3F000000;", [12]),
]


def random_body(rng):
    """Straight-line code of mul, add, sub, fma and rounded operations; it uses recent values more often."""
    values, at, lines, used = list(range(1, INPUTS + 1)), 10, [], set()
    seen = set()
    for _ in range(rng.randint(3, 16)):

        def pick():
            return rng.choice(values[-5:]) if rng.random() < 0.6 else rng.choice(values)

        word = rng.choice(["mul", "mul", "add", "sub", "add", "mul.rn", "add.rn", "fma.rn"])
        sources = [pick() for _ in range(3 if word == "fma.rn" else 2)]
        # ptxas may find that two equal products are one: that is another question.
        key = (word, *sorted(sources[:2]))
        if word.startswith("mul") and key in seen:
            continue
        seen.add(key)
        used |= set(sources)
        lines.append(f"{word}.f32 " + ",".join(f"%f{one}" for one in (at, *sources)) + ";")
        values.append(at)
        at += 1
    return " ".join(lines), [value for value in values[INPUTS:] if value not in used][:12]


def kernel(name, body, outputs):
    loads = "".join(f"ld.global.f32 %f{i},[%rd1+{4 * i}];\n" for i in range(1, INPUTS + 1))
    stores = "".join(f"st.global.f32 [%rd1+{128 + 4 * k}],%f{reg};\n" for k, reg in enumerate(outputs))
    body = body.replace("; ", ";\n")
    return (
        f".visible .entry {name}(.param .u64 p)\n{{\n.reg .f32 %f<40>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n"
        f"ld.param.u64 %rd1,[p];\ncvta.to.global.u64 %rd1,%rd1;\n{loads}{body}\n{stores}ret;\n}}\n"
    )


def sass(path):
    """The instructions of every kernel of a PTX file."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = os.path.join(folder, "kernels.cubin")
        subprocess.run([PTXAS, "-arch=sm_90a", "-o", cubin, path], check=True)
        listing = subprocess.run([NVDISASM, "-c", cubin], check=True, capture_output=True, text=True).stdout
    kernels, current = {}, []
    for line in listing.splitlines():
        if section := re.search(r"\.section\s+\.text\.(\w+)", line):
            current = kernels.setdefault(section[1], [])
        if instruction := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            current.append(instruction[1].strip())
    return kernels


def outputs_of(instructions):
    """The stored values by address, as expressions of the loaded values."""
    registers, found = {"RZ": "0"}, {}

    def value(text):
        text = text.strip().replace(".reuse", "")
        negated = text.startswith("-")
        text = text.lstrip("-")
        one = registers.get(text, text)
        return f"(neg {one})" if negated else one

    for instruction in instructions:
        opcode, _, rest = instruction.partition(" ")
        operands = [one.strip() for one in rest.split(",")]
        offset = int(m[1], 16) if (m := re.search(r"\+0x([0-9a-f]+)\]", rest)) else 0
        name, flushed = opcode.split(".")[0], ".ftz" if ".FTZ" in opcode else ""
        if opcode.startswith("LDG"):
            registers[operands[0]] = f"x{offset // 4}"
        elif name in ("FMUL", "FADD", "FFMA"):
            word = {"FMUL": "mul", "FADD": "add", "FFMA": "fma"}[name] + flushed
            registers[operands[0]] = f"({word} {' '.join(value(operand) for operand in operands[1:])})"
        elif opcode.startswith("STG"):
            found[(offset - 128) // 4] = value(operands[-1])
        elif name not in ("LDC", "ULDC", "EXIT", "BRA", "NOP", "BAR", "MOV"):
            raise SystemExit(f"SASS {instruction}")
    return found


def described(path):
    kernels = sass(path)
    return "".join(
        f"{name} {place} {text}\n"
        for name in sorted(kernels, key=lambda name: int(name[1:]))
        for place, text in sorted(outputs_of(kernels[name]).items())
    )


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        raise SystemExit(__doc__)
    ptx, text = (os.path.join(sys.argv[1], name) for name in ("fusions.ptx", "fusions.txt"))
    if len(sys.argv) == 3:
        with open(text) as file:
            same = file.read() == described(ptx)
        print("same" if same else "differs")
        raise SystemExit(0 if same else 1)
    rng = random.Random(2026)
    bodies = DIRECTED + [random_body(rng) for _ in range(KERNELS - len(DIRECTED))]
    with open(ptx, "w") as out:
        out.write("// SPDX-License-Identifier: MIT\n.version 8.0\n.target sm_90a\n.address_size 64\n")
        out.writelines(kernel(f"k{i}", *body) for i, body in enumerate(bodies) if body[1])
    with open(text, "w") as out:
        out.write(described(ptx))


if __name__ == "__main__":
    main()
