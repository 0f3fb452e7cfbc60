# SPDX-License-Identifier: MIT
"""The batches of products that record_choice_grid.py --batched records: those of attention, by torch.bmm."""

import math
import random

HEADS = (64, 128, 32, 80, 96, 16, 256)


def lengths():
    """(queries, keys) of attention: as many of both, or 32, 64 or 128 of either; grids in steps of 16, 64 and 256. A
    single query is left out: kernels for vectors have no plan."""
    sizes = [*range(2, 513), *range(520, 1025, 8), *range(1088, 4097, 64)]
    pairs = [(size, size) for size in sizes]
    for step, most in ((16, 256), (64, 1024), (256, 4096)):
        steps = range(step, most + 1, step)
        pairs += [(queries, keys) for queries in steps for keys in steps]
    for fixed in (64, 128, 32):
        pairs += [pair for size in range(2, 257) for pair in ((size, fixed), (fixed, size))]
    return list(dict.fromkeys(pairs))


def products_of_attention(queries, keys, head):
    """{(part, layout): (M, N, K)}: scores and the product with the values, and their gradients."""
    scores, values = (queries, keys, head), (queries, head, keys)
    return {
        ("scores", "nt"): scores,  # q @ k.T; the gradient of the weights, by the values
        ("values", "nn"): values,  # weights @ v; the gradient of q
        ("values", "tn"): (keys, head, queries),  # gradients of k and of v
        ("scores", "nn"): scores,  # of keys whose columns are contiguous
        ("values", "nt"): values,
    }


def batched():
    """(kind, layout, M, N, K, most) of batches of products, those that models have most often first."""
    shapes = {}
    for head in HEADS:
        for pair in lengths():
            for (_, layout), (m, n, k) in products_of_attention(*pair, head).items():
                for kind in ("f32", "tf32", "bf16", "f16"):
                    most = min(1024, 2**30 // (4 if "32" in kind else 2) // max(m * n, n * k, m * k))
                    shapes[kind, layout, m, n, k, most] = None
    return list(shapes)


def drawn_batches(count, seed):
    """(kind, layout, M, N, K, matrices) of those that record_choice_grid.py --batched records, up to 256 matrices."""
    draw = random.Random(seed)
    shapes = draw.sample(batched(), 4 * count)
    batches = ((*shape, int(2 ** draw.uniform(0, math.log2(min(most, 256))))) for *shape, most in shapes)
    return [shape for shape in batches if max(shape[2], shape[3]) * shape[4] * shape[5] <= 2**23][:count]
