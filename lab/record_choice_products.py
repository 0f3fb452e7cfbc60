#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records words of products of drawn shapes on a GPU, for `check_choices.py --products`: is the kernel that bitmma
says cuBLAS takes the one whose bits the GPU gives?

  record_choice_products.py -o products.json.xz            2,000 shapes
  record_choice_products.py -o products.json.xz --shapes 5000 --seed 2
  record_choice_products.py -o gradients.json.xz --gradients          of weights: any K, M and N of cublas_13.1.txt
  record_choice_products.py -o batched.json.xz --batched              torch.bmm of shapes of record_choice_grid.py

Of D (of a batch: of one matrix of D) it keeps the words of two rows and eight columns; operands come from seeds. Needs
PyTorch and a GPU, not bitmma.
"""

import argparse
import json
import lzma
import os
import random
import sys

import torch

from attention_shapes import drawn_batches
from record_common import GENERATOR, ROOT, about_this_machine, values

TYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
KINDS = [(kind, layout) for kind in TYPES for layout in ("nt", "nn", "tn")]
KINDS += [(f"{kind} bias", "nt") for kind in TYPES] + [("bf16 bias", "nn"), ("f16 bias", "nn")]


def drawn(count, seed):
    """(kind, layout, M, N, K): M from 1 to 4096, N and K from 64 to 16384, uniform in the logarithm, most N and K
    multiples of 64; a quarter has at most 3 rows, for which cuBLAS has kernels of their own."""
    draw = random.Random(seed)
    shapes = []
    while len(shapes) < count:
        kind, layout = KINDS[len(shapes) % len(KINDS)]
        step = draw.choices((64, 8, 1), (8, 1, 1))[0]
        n, k = (max(step, int(2 ** draw.uniform(6, 14)) // step * step) for _ in range(2))
        m = draw.randint(1, 3) if draw.random() < 0.25 else int(2 ** draw.uniform(0, 12))
        if layout == "tn":
            m = max(8, m // 8 * 8)
        if m * k <= 2**24 and n * k <= 2**25:
            shapes.append((kind, layout, m, n, k))
    return shapes


def drawn_gradients(count, seed):
    """(kind, "tn", M, N, K): M and N of the pairs of cublas_13.1.txt, K from 1 to 4096, uniform in the logarithm."""
    with open(os.path.join(ROOT, "data/choices/cublas_13.1.txt")) as file:
        lines = file.read().splitlines()
    pairs = [tuple(map(int, pair.split(","))) for pair in lines[lines.index("pairs") + 1].split()]
    draw = random.Random(seed)
    shapes = ((*draw.choice(pairs), int(2 ** draw.uniform(0, 12))) for _ in range(100 * count))
    fit = [(m, n, k) for m, n, k in shapes if max(m * k, n * k) <= 2**25 and m * n <= 2**28][:count]
    return [(list(TYPES)[i % len(TYPES)], "tn", *shape) for i, shape in enumerate(fit)]


def batch(kind, layout, m, n, k, matrices, seed):
    """D of torch.bmm: the rows of all A are stream 0, the columns of all B stream 1."""
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    a = values(0, seed, 0, matrices * m * k, TYPES[kind], "cuda").reshape(matrices, m, k)
    b = values(1, seed, 0, matrices * n * k, TYPES[kind], "cuda").reshape(matrices, n, k).mT
    return torch.bmm(a.mT.contiguous().mT if layout[0] == "t" else a, b.contiguous() if layout[1] == "n" else b)


def product(kind, layout, m, n, k, seed):
    """D of one call: A is [M, K] of stream 0, B the transpose of [N, K] of stream 1, bias stream 3."""
    kind, _, bias = kind.partition(" ")
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    a = values(0, seed, 0, m * k, TYPES[kind], "cuda").reshape(m, k)
    b = values(1, seed, 0, n * k, TYPES[kind], "cuda").reshape(n, k).T
    a = a.T.contiguous().T if layout[0] == "t" else a
    b = b.contiguous() if layout[1] == "n" else b
    return torch.addmm(values(3, seed, 0, n, TYPES[kind], "cuda"), a, b) if bias else a @ b


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, help="products.json.xz")
    parser.add_argument("--shapes", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gradients", action="store_true", help="draw gradients of weights")
    parser.add_argument("--batched", action="store_true", help="draw batches")
    options = parser.parse_args()
    draw, products = random.Random(options.seed + 1), []
    draw_shapes = drawn_batches if options.batched else drawn_gradients if options.gradients else drawn
    for i, (kind, layout, m, n, k, *of_batch) in enumerate(draw_shapes(options.shapes, options.seed)):
        seed = 1_000_000 * options.seed + i
        if options.batched:
            of_batch.append(draw.randrange(of_batch[0]))  # the matrix
            d = batch(kind, layout, m, n, k, of_batch[0], seed)[of_batch[1]]
        else:
            d = product(kind, layout, m, n, k, seed)
        rows, cols = (sorted(draw.sample(range(size), min(size, most))) for size, most in ((m, 2), (n, 8)))
        words = d[rows][:, cols].contiguous().cpu().view(torch.int32 if d.element_size() == 4 else torch.int16)
        products.append([kind, layout, m, n, k, *of_batch, seed, rows, cols, words.reshape(-1).tolist()])
    recorded = {**about_this_machine("cuda"), "generator": GENERATOR, "products": products}
    with lzma.open(options.output, "wt") as file:
        json.dump(recorded, file, separators=(",", ":"))
    print(f"{len(products)} products")
    return 0


if __name__ == "__main__":
    sys.exit(main())
