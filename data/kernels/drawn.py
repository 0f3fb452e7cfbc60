#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws CUDA kernels at random: arithmetic, C's functions, conversions, shuffles, shared memory, branches and loops.

drawn.py SEED COUNT > drawn.cu        kernels d0, d1, ... of (const float* x, const float* y, const int* s,
                                      float* out, int* out_i): one block of 64 threads, arrays of 64 elements
"""

import random
import sys

HEAD = """#include <cuda_bf16.h>
#include <cuda_fp16.h>
"""
PARAMETERS = "const float* x, const float* y, const int* s, float* out, int* out_i"
UNARY = ["expf({})", "exp2f({})", "logf(fabsf({}) + 0.5f)", "log2f(fabsf({}))", "sqrtf(fabsf({}))",
         "rsqrtf(fabsf({}) + 0.25f)", "sinf({})", "cosf({})", "tanhf({})", "erff({})", "log1pf(fabsf({}))", "fabsf({})",
         "-({})", "floorf({})", "ceilf({})", "rintf({})", "truncf({})", "__expf({})", "__logf(fabsf({}))", "__sinf({})",
         "__half2float(__float2half({}))", "__bfloat162float(__float2bfloat16({}))", "__saturatef({})",
         "__frcp_rn({} + 3.0f)", "__fsqrt_rd(fabsf({}))", "fmaf({0}, {0}, 1.0f)",
         "({0} / (1.0f + expf(-({0}))))"]  # fmt: skip
BINARY = ["{} + {}", "{} - {}", "{} * {}", "{} / {}", "fminf({}, {})", "fmaxf({}, {})", "__fdividef({}, {})",
          "copysignf({}, {})", "fmodf({}, {})", "powf(fabsf({}), fminf(fabsf({}), 4.0f))", "__fadd_rz({}, {})",
          "__fmul_rn({}, {})", "hypotf({}, {})", "__half2float(__hadd(__float2half({}), __float2half({})))",
          "__bfloat162float(__hmul(__float2bfloat16({}), __float2bfloat16({})))"]  # fmt: skip
TERNARY = ["fmaf({}, {}, {})", "{} * {} + {}", "{} - {} * {}", "({} > {} ? {} : 0.5f)", "__fmaf_rd({}, {}, {})"]
INTEGER = ["{} + {}", "{} - {}", "{} * {}", "{} & {}", "{} | {}", "{} ^ {}", "min({}, {})", "max({}, {})",
           "({} << ({} & 7))", "({} >> ({} & 7))", "__mulhi({}, {})", "(int)__umulhi({}, {})", "({} / ({} | 1))",
           "({} % (({} & 255) + 1))", "(int)__funnelshift_l({}, {}, 5)", "__dp4a({}, {}, 3)",
           "(int)__byte_perm({}, {}, 0x3716)"]  # fmt: skip
INTEGER_UNARY = ["__popc({})", "__clz({})", "(int)__brev({})", "__ffs({})", "abs({})", "~({})", "({}) / 7", "({}) % 10",
                 "(int)((unsigned)({}) / 1000u)"]  # fmt: skip


class Kernel:
    def __init__(self, rng):
        self.rng, self.floats, self.ints, self.lines = rng, ["f0", "f1"], ["i0", "(int)threadIdx.x"], []
        self.names = 2

    def name(self, kind):
        self.names += 1
        return f"{kind}{self.names}"

    def float_(self, depth):
        pick = self.rng.random()
        if depth == 0 or pick < 0.15:
            if self.rng.random() < 0.15:
                return f"{self.rng.uniform(-3, 3):.4f}f"
            return self.rng.choice(self.floats)
        if pick < 0.4:
            one = self.float_(depth - 1)
            return self.rng.choice(UNARY).replace("{0}", "{}").replace("{}", f"({one})")
        if pick < 0.75:
            return "(" + self.rng.choice(BINARY).format(self.float_(depth - 1), self.float_(depth - 1)) + ")"
        if pick < 0.92:
            return "(" + self.rng.choice(TERNARY).format(*(self.float_(depth - 1) for _ in range(3))) + ")"
        return f"(float)({self.int_(depth - 1)})"

    def int_(self, depth):
        pick = self.rng.random()
        if depth == 0 or pick < 0.2:
            return str(self.rng.randrange(-50, 1000)) if self.rng.random() < 0.2 else self.rng.choice(self.ints)
        if pick < 0.4:
            return self.rng.choice(INTEGER_UNARY).format(self.int_(depth - 1))
        if pick < 0.9:
            return "(" + self.rng.choice(INTEGER).format(f"({self.int_(depth - 1)})", f"({self.int_(depth - 1)})") + ")"
        return self.rng.choice(["__float_as_int({})", "__float2int_rn({})", "__float2int_rz({})"]).format(
            self.float_(depth - 1)
        )

    def statement(self, indent=2, nested=False):
        put = lambda text: self.lines.append(" " * indent + text)
        pick = self.rng.random()
        if nested:
            pick *= 0.55  # what all threads of a warp or block must reach stands at the top
        if pick < 0.3:
            name = self.name("f")
            put(f"float {name} = {self.float_(3)};")
            self.floats.append(name)
        elif pick < 0.45:
            name = self.name("i")
            put(f"int {name} = {self.int_(3)};")
            self.ints.append(name)
        elif pick < 0.5:
            put(f"acc += {self.float_(2)};")
        elif pick < 0.55:
            put(f"bits ^= {self.int_(2)};")
        elif pick < 0.68:
            lanes = self.rng.choice([1, 2, 4, 8, 16])
            kind, pool = self.rng.choice([("float", self.floats), ("int", self.ints)])
            name = self.name(kind[0])
            way = self.rng.choice([f"__shfl_xor_sync(~0u, {{}}, {lanes})", f"__shfl_down_sync(~0u, {{}}, {lanes})",
                                   f"__shfl_up_sync(~0u, {{}}, {lanes}, 16)",
                                   "__shfl_sync(~0u, {}, threadIdx.x * 7)"])  # fmt: skip
            put(f"{kind} {name} = {way.format(self.rng.choice(pool))};")
            pool.append(name)
        elif pick < 0.76:
            name = self.name("f")
            put(f"shared[threadIdx.x] = {self.rng.choice(self.floats)};")
            put("__syncthreads();")
            place = self.rng.choice(["63 - threadIdx.x", "(threadIdx.x * 5) & 63", "threadIdx.x ^ 3"])
            put(f"float {name} = shared[{place}];")
            put("__syncthreads();")
            self.floats.append(name)
        elif pick < 0.82:
            name = self.name("i")
            put(f"int {name} = (int)__ballot_sync(~0u, {self.float_(1)} > {self.float_(1)});")
            self.ints.append(name)
        else:
            floats, ints = list(self.floats), list(self.ints)
            if pick < 0.91:
                put(f"if ({self.float_(1)} > {self.float_(1)}) {{")
            else:
                put(f"for (int k = 0; k < (({self.int_(1)}) & 7); ++k) {{")
                self.ints.append("k")
            for _ in range(self.rng.randrange(1, 4)):
                self.statement(indent + 2, nested=True)
            put(f"  acc = fmaf(acc, 0.5f, {self.float_(2)});")
            self.floats, self.ints = floats, ints
            put("}")

    def text(self, number):
        for _ in range(self.rng.randrange(4, 12)):
            self.statement()
        out = " + ".join(self.floats[-2:])
        return "\n".join(
            [
                f'extern "C" __global__ void d{number}({PARAMETERS}) {{',
                "  __shared__ float shared[64];",
                "  shared[threadIdx.x] = 0;",
                "  __syncthreads();",
                "  float f0 = x[threadIdx.x], f1 = y[threadIdx.x], acc = 0;",
                "  int i0 = s[threadIdx.x], bits = 0;",
                *self.lines,
                f"  out[threadIdx.x] = acc + ({out});",
                f"  out_i[threadIdx.x] = bits ^ ({self.ints[-1]});",
                "}",
                "",
            ]
        )


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(HEAD)
    for number in range(int(sys.argv[2])):
        print(Kernel(random.Random(int(sys.argv[1]) * 100003 + number)).text(number))


if __name__ == "__main__":
    main()
