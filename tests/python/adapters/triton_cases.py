"""The recorded launches of triton_kernels.py, and their operands from seeds.

Operands come from bitmma's generator (Philox4x32-10; lab/record_common.py), so a recording holds D alone.
"""

import hashlib
import importlib.util
import json
from pathlib import Path

import ml_dtypes
import numpy as np

TYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "s32": np.dtype(np.int32),
}
POINTERS = {
    "f16": "*fp16",
    "bf16": "*bf16",
    "f32": "*fp32",
    "f64": "*fp64",
    "e4m3": "*fp8e4nv",
    "e5m2": "*fp8e5",
    "s8": "*i8",
    "u8": "*u8",
    "s32": "*i32",
}
GENERATOR = "philox4x32-10/triangle"
# The file alone: the recorder runs where bitmma is not built.
_spec = importlib.util.spec_from_file_location(
    "_philox", Path(__file__).resolve().parents[3] / "python" / "bitmma" / "_philox.py"
)
_philox = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_philox)


def words(stream: int, seed: int, count: int) -> np.ndarray:
    """The first `count` words of a stream as uint64, each below 2^32."""
    return np.stack(_philox.philox(np.arange(-(-count // 4)), stream, seed), axis=1).reshape(-1)[:count]


def values(stream: int, seed: int, shape: tuple, kind: str, distribution: str) -> np.ndarray:
    """`triangle`: sums of two uniform values. `bits`: any finite bit pattern, small exponents of f32 and bf16 apart.
    `specials`: bits whose rows 0, 5, 10, .. have one infinity, NaN, zero or subnormal in 16 elements."""
    dtype, count = TYPES[kind], int(np.prod(shape))
    w = words(stream, seed, count)
    if kind in ("s8", "u8"):
        return (w >> np.uint64(24)).astype(np.uint8).view(dtype).reshape(shape)
    triangle = ((w & np.uint64(0xFFFF)).astype(np.int64) - (w >> np.uint64(16)).astype(np.int64)) * 2.0**-14
    if kind == "s32":
        return (triangle * 2.0**12).astype(np.int32).reshape(shape)
    if distribution in ("triangle", "tiny"):
        # f32 gets its low bits from the words too: tf32 drops them.
        low = (w & np.uint64(0x1FFF)).astype(np.float64) * 2.0**-30 if kind == "f32" else 0.0
        return (triangle + low).astype(np.float32).astype(dtype).reshape(shape)
    raw = np.dtype(f"u{dtype.itemsize}")
    mantissa = {"f16": 10, "bf16": 7, "f32": 23, "e4m3": 3, "e5m2": 2}[kind]
    exponent = 8 * dtype.itemsize - 1 - mantissa
    bits = (w >> np.uint64(32 - 8 * dtype.itemsize)).astype(raw)
    if exponent == 8:  # 32 binades around 1, with most of the mantissa's ties
        field = (bits >> raw.type(mantissa)) & raw.type(31)
        keep = raw.type((1 << mantissa) - 1) | raw.type(1 << (8 * dtype.itemsize - 1))
        bits = (bits & keep) | ((field + raw.type(127 - 16)) << raw.type(mantissa))
    top = raw.type(((1 << exponent) - 1) << mantissa)
    not_finite = ~np.isfinite(bits.view(dtype).astype(np.float32))
    bits = np.where(not_finite, bits & ~raw.type(1 << mantissa), bits)  # one binade down
    if distribution == "specials":
        if kind == "e4m3":
            chosen = np.array([0x7F, 0xFF, 0x00, 0x80, 0x01, 0x87, 0x7E, 0xFE], raw)
        else:
            one = raw.type(1)
            sign = raw.type(1 << (8 * dtype.itemsize - 1))
            chosen = np.array(
                [top, top | sign, top | one, 0, sign, one, sign | raw.type((1 << mantissa) - 1), raw.type(top - one)],
                raw,
            )
        at = np.arange(count)
        row = at // shape[-1]
        special = (row % 5 == 0) & (w % np.uint64(16) == 3)
        bits = np.where(special, chosen[(w >> np.uint64(8)).astype(np.int64) % 8], bits)
    return bits.astype(raw).view(dtype).reshape(shape)


def e8m0(stream: int, seed: int, shape: tuple, distribution: str) -> np.ndarray:
    """Scales between 2^-8 and 2^7; `specials`: some are 2^-127, NaN or 2^127, few enough to leave most rows alone."""
    w = words(stream, seed, int(np.prod(shape)))
    if distribution == "tiny":  # 2^-127 on one side, 2^127 on the other
        return np.full(shape, 0 if stream == 4 else 254, np.uint8)
    codes = (119 + w % np.uint64(16)).astype(np.uint8)
    if distribution == "specials":
        special = (w >> np.uint64(8)) % np.uint64(24) == 5
        chosen = np.array([0, 0xFF, 0xFE, 1], np.uint8)
        codes = np.where(special, chosen[(w >> np.uint64(16)).astype(np.int64) % 4], codes)
    return codes.reshape(shape)


def launch(kernel: str, **fields) -> dict:
    return {"kernel": kernel, "distribution": "triangle", "warps": 4, **fields}


def product(a: str, m: int, n: int, k: int, block: tuple, **fields) -> dict:
    chosen = {"kernel": "chain", "b": a, "c": "f32", "d": None, "precision": "tf32", "imprecise": None, "from_c": True}
    case = launch(**{**chosen, "a": a, "m": m, "n": n, "k": k, "block": list(block), **fields})
    case["d"] = case["d"] or case["c"]
    return case


def cases() -> list[dict]:
    launches = []
    add = lambda *args, **fields: launches.append(product(*args, **fields))
    floats = ["f16", "bf16", "f32", "e4m3", "e5m2"]
    # wgmma and mma.sync by block and warps, of every type.
    for a in floats:
        for m, n, k, block, warps in [
            (64, 64, 64, (64, 64, 64), 4),
            (128, 128, 256, (128, 128, 64), 8),
            (64, 32, 192, (64, 16, 32), 4),
            (128, 64, 128, (128, 64, 32), 4),
            (32, 64, 128, (32, 64, 64), 4),
            (16, 32, 128, (16, 16, 32), 4),
            (64, 64, 64, (64, 64, 32), 2),
            (32, 32, 96, (16, 32, 32), 1),
            (64, 8, 64, (64, 8, 32), 4),
        ]:
            add(a, m, n, k, block, warps=warps)
        for distribution in ["bits", "specials"]:
            for m, n, k, block, warps in [(64, 64, 128, (64, 64, 64), 4), (32, 64, 128, (32, 64, 64), 4)]:
                add(a, m, n, k, block, warps=warps, distribution=distribution)
                add(a, m, n, k, block, warps=warps, distribution=distribution, kernel="added")
        add(a, 64, 64, 80, (64, 64, 32), from_c=False)  # the last block of K is short
        add(a, 128, 64, 256, (64, 64, 64), kernel="added")
        add(a, 128, 64, 256, (64, 64, 64), kernel="added", from_c=False)
        add(a, 32, 64, 256, (32, 64, 64), kernel="added")
    # Mixed fp8, bf16 and f16 D.
    for a, b in [("e4m3", "e5m2"), ("e5m2", "e4m3")]:
        add(a, 64, 64, 128, (64, 64, 64), b=b)
        add(a, 32, 64, 128, (32, 64, 64), b=b)
    for d in ["f16", "bf16"]:
        add("bf16", 64, 64, 128, (64, 64, 64), d=d)
        add("e4m3", 64, 64, 128, (64, 64, 64), d=d, kernel="added")
    # f16 accumulators.
    for a in ["f16", "e4m3", "e5m2"]:
        for distribution in ["triangle", "specials"]:
            for kernel in ["chain", "added"]:
                add(a, 64, 64, 128, (64, 64, 64), c="f16", distribution=distribution, kernel=kernel)
                add(a, 32, 64, 128, (32, 64, 64), c="f16", distribution=distribution, kernel=kernel)
    # Promotion inside one dot.
    for imprecise in [0, 16, 32, 33, 64, 96, 128]:
        for kernel in ["chain", "added"]:
            add("e4m3", 64, 64, 256, (64, 64, 128), imprecise=imprecise, kernel=kernel)
        add("e5m2", 128, 64, 256, (128, 64, 128), imprecise=imprecise, distribution="specials", warps=8)
        add("e4m3", 64, 64, 256, (64, 64, 128), imprecise=imprecise, from_c=False)
    add("e4m3", 32, 64, 256, (32, 64, 128), imprecise=64)
    add("f16", 64, 64, 256, (64, 64, 128), imprecise=64)
    add("f16", 64, 64, 256, (64, 64, 128), imprecise=64, kernel="added")
    # Ways to multiply f32.
    for precision in ["ieee", "tf32x3", "bf16x3", "bf16x6"]:
        for distribution in ["triangle", "bits", "specials"]:
            add("f32", 64, 64, 64, (64, 64, 32), precision=precision, distribution=distribution)
            add("f32", 32, 32, 128, (16, 32, 64), precision=precision, distribution=distribution)
        add("f32", 64, 64, 64, (64, 64, 32), precision=precision, kernel="added")
        add("f32", 16, 16, 64, (16, 16, 16), precision=precision, kernel="added", from_c=False, warps=1)
    # int8, and f64.
    for block, warps in [((64, 64, 64), 4), ((32, 64, 64), 4), ((16, 16, 32), 1)]:
        for kernel in ["chain", "added"]:
            add("s8", 64, 64, 256, block, c="s32", warps=warps, kernel=kernel)
        add("s8", 64, 64, 256, block, c="s32", warps=warps, distribution="bits")  # C near both ends of s32
    add("f64", 64, 64, 64, (64, 64, 32), c="f64")
    add("f64", 16, 16, 32, (16, 16, 16), c="f64", warps=1, kernel="added")
    # Corners of the choice of an instruction.
    for a in ["f16", "e4m3"]:
        add(a, 64, 64, 128, (64, 64, 64), warps=8)
        add(a, 8, 8, 64, (8, 8, 32), warps=1)
        add(a, 64, 64, 128, (64, 64, 64), precision="ieee")
        add(a, 64, 64, 1024, (64, 64, 128))
    for imprecise in [0, 64]:
        add("e4m3", 64, 64, 128, (64, 64, 64), c="f16", imprecise=imprecise)
    # Three dimensions.
    for a in floats:
        launches.append(launch("batched", a=a, b=a, c="f32", d="f32", batch=4, m=64, n=32, k=64, precision="tf32"))
    launches.append(launch("batched", a="f32", b="f32", c="f32", d="f32", batch=2, m=16, n=32, k=32, precision="ieee"))
    launches.append(
        launch("batched", a="f32", b="f32", c="f32", d="f32", batch=2, m=32, n=32, k=32, precision="tf32x3")
    )
    # Scales outside of the dot, with and without contraction to fma.
    for a in ["e4m3", "f16"]:
        for fusion in [True, False]:
            for block in [(64, 64, 64), (32, 64, 64)]:
                launches.append(
                    launch("scaled", a=a, b=a, c=None, d="f32", m=64, n=64, k=256, block=list(block), fusion=fusion)
                )
    # What follows a dot.
    for form in ["dot + c", "dot s + c", "c - dot s", "dot s - c", "c - dot", "dot used twice", "dot + dot"]:
        for a in ["f16", "e4m3"]:
            for fusion in [True, False]:
                launches.append(
                    launch(
                        "epilogue",
                        a=a,
                        b=a,
                        c="f32",
                        d="f32",
                        m=64,
                        n=64,
                        k=128,
                        block=[64, 64, 64],
                        fusion=fusion,
                        form=form,
                    )
                )
    # dot_scaled.
    scaled = [
        ("e4m3", "e4m3"),
        ("e5m2", "e4m3"),
        ("e4m3", "e5m2"),
        ("e2m1", "e2m1"),
        ("e2m1", "e4m3"),
        ("e2m1", "bf16"),
        ("e4m3", "f16"),
        ("bf16", "e2m1"),
        ("f16", "e5m2"),
    ]
    for a, b in scaled:
        plain = ("f16", "bf16")
        fields = {
            "a": a,
            "b": b,
            "c": "f32",
            "d": "f32",
            "m": 64,
            "n": 64,
            "k": 256,
            "fast_math": False,
            "a_scaled": a not in plain,
            "b_scaled": b not in plain,
        }
        for distribution in ["triangle", "specials"]:
            launches.append(launch("block_scaled", **fields, block=[64, 64, 128], distribution=distribution))
        launches.append(launch("block_scaled", **fields, block=[32, 64, 64], distribution="bits"))
    for fast_math in [False, True]:
        for a_scaled, b_scaled in [(True, False), (False, True)]:
            launches.append(
                launch(
                    "block_scaled",
                    a="e4m3",
                    b="e4m3",
                    c="f32",
                    d="f32",
                    m=64,
                    n=64,
                    k=256,
                    block=[64, 64, 128],
                    fast_math=fast_math,
                    a_scaled=a_scaled,
                    b_scaled=b_scaled,
                    distribution="specials",
                )
            )
    for block in [(32, 64, 64), (64, 32, 64)]:
        for a_scaled, b_scaled in [(True, True), (True, False), (False, True)]:
            launches.append(
                launch(
                    "block_scaled",
                    a="e4m3",
                    b="e4m3",
                    c="f32",
                    d="f32",
                    m=64,
                    n=64,
                    k=128,
                    block=list(block),
                    fast_math=False,
                    a_scaled=a_scaled,
                    b_scaled=b_scaled,
                )
            )
    # Two dots, the second of the first's rounded result.
    for a in ["f16", "bf16"]:
        for m in [64, 32]:
            launches.append(
                launch("two_dots", a=a, b=a, c=None, d="f32", m=m, n=128, k=64, heads=64, block=[m, 64, 64])
            )
    # Operands widened in the kernel.
    casts = [
        ("s8", "s8", "fp16"),
        ("s8", "f16", "fp16"),
        ("e5m2", "e5m2", "fp16"),
        ("e4m3", "f16", "fp16"),
        ("s8", "bf16", "bf16"),
        ("s8", "f16", "fp16 by fp32"),
        ("f32", "f32", "fp16"),
        ("s8", "f16", "fp16 and scaled"),
        ("f16", "s8", "fp16 and scaled"),
        ("f16", "f16", "fp32"),
        ("s8", "f32", "fp32"),
        ("bf16", "f32", "fp32"),
    ]
    for a, b, to in casts:
        for block in [(64, 64, 64), (32, 64, 64)]:
            launches.append(launch("cast", a=a, b=b, c="f32", d="f32", m=64, n=64, k=128, block=list(block), to=to))
    # More of what follows a dot.
    for form in ["named dot + c", "dot from zeros + c", "c c + dot s", "dot s - c c", "dot s + dot s"]:
        for a in ["f16", "e4m3"]:
            launches.append(
                launch(
                    "epilogue",
                    a=a,
                    b=a,
                    c="f32",
                    d="f32",
                    m=64,
                    n=64,
                    k=128,
                    block=[64, 64, 64],
                    fusion=True,
                    form=form,
                )
            )
    # More of dot_scaled: added, the scale 2^-127, e4m3 scales of 16, K of one instruction.
    more = {"c": "f32", "d": "f32", "m": 64, "n": 64, "fast_math": False, "a_scaled": True, "b_scaled": True}
    for block in [[64, 64, 64], [32, 64, 64]]:
        for a, b in [("e4m3", "e4m3"), ("e2m1", "e2m1")]:
            launches.append(launch("block_scaled", a=a, b=b, k=256, block=block, added=True, **more))
        for a, b in [("e4m3", "e4m3"), ("e5m2", "e2m1"), ("e4m3", "f16")]:
            launches.append(
                launch(
                    "block_scaled",
                    a=a,
                    b=b,
                    k=64,
                    block=block,
                    distribution="tiny",
                    from_zero=True,
                    **{**more, "b_scaled": b != "f16"},
                )
            )
        launches.append(launch("block_scaled", a="e2m1", b="e2m1", k=256, block=block, size=16, **more))
        launches.append(
            launch("block_scaled", a="e2m1", b="bf16", k=256, block=block, size=16, **{**more, "b_scaled": False})
        )
    launches.append(launch("block_scaled", a="e4m3", b="e4m3", k=64, block=[64, 64, 32], **more))
    launches.append(launch("block_scaled", a="e4m3", b="e4m3", k=64, block=[32, 32, 32], **more))
    launches.append(launch("block_scaled", a="e2m1", b="e2m1", k=64, block=[32, 32, 32], **more))
    for number, case in enumerate(launches):
        case["seed"] = 1000 + number
    return launches


def name_of(case: dict) -> str:
    """Names a case by what it is; the digest tells cases apart that differ in a field not named."""
    digest = hashlib.sha256(json.dumps(case, sort_keys=True).encode()).hexdigest()[:6]
    types = case["a"] if case["a"] == case["b"] else f"{case['a']}_{case['b']}"
    shape = "x".join(str(extent) for extent in case.get("block", (case["m"], case["n"], case["k"])))
    more = [case[key] for key in ("precision", "distribution") if case.get(key) not in (None, "tf32", "triangle")]
    more += [f"imprecise{case['imprecise']}"] if case.get("imprecise") is not None else []
    return "-".join([case["kernel"], types, shape, f"w{case['warps']}", *more, digest])


def arguments(case: dict) -> tuple[dict, dict, tuple, dict]:
    """Arrays by parameter in order (D last, zeros), constexprs, grid, types by parameter."""
    m, n, k, seed, distribution = case["m"], case["n"], case["k"], case["seed"], case["distribution"]
    batch = case.get("batch", 1)

    def operand(stream: int, rows: int, cols: int, kind: str) -> np.ndarray:
        if kind == "e2m1":
            return values(stream, seed, (rows, cols // 2), "u8", "triangle")
        return values(stream, seed, (rows, cols), kind, distribution)

    a, b = operand(0, batch * m, k, case["a"]), operand(1, batch * n, k, case["b"])
    d = np.zeros((batch * m, n), TYPES[case["d"]])
    kinds = {
        "a": "u8" if case["a"] == "e2m1" else case["a"],
        "b": "u8" if case["b"] == "e2m1" else case["b"],
        "c": case["c"],
        "d": case["d"],
    }
    kernel = case["kernel"]
    if kernel != "batched":
        bm, bn, bk = case["block"]
        blocks = {"M": m, "N": n, "K": k, "BM": bm, "BN": bn, "BK": bk}
        grid = (m // bm, n // bn, 1)
    if case["c"]:
        c = values(2, seed, (batch * m, n), case["c"], "triangle")
        if case["c"] == "s32" and distribution == "bits":
            w = words(2, seed, c.size).astype(np.int64)
            c = np.where(w & 1, (w >> 16) - 2**31, 2**31 - 1 - (w >> 16)).astype(np.int32).reshape(c.shape)
        c = c if case["c"] == "s32" else (c.astype(np.float64) * 8).astype(c.dtype)
    if kernel in ("chain", "added"):
        constants = {**blocks, "PRECISION": case["precision"], "IMPRECISE": case["imprecise"], "FROM_C": case["from_c"]}
        return {"a": a, "b": b, "c": c, "d": d}, constants, grid, kinds
    if kernel == "cast":
        return {"a": a, "b": b, "c": c, "d": d}, {**blocks, "TO": case["to"]}, grid, kinds
    if kernel == "epilogue":
        return {"a": a, "b": b, "c": c, "d": d}, {**blocks, "FORM": case["form"]}, grid, kinds
    if kernel == "batched":
        constants = {"B": batch, "M": m, "N": n, "K": k, "PRECISION": case["precision"]}
        return {"a": a, "b": b, "c": c, "d": d}, constants, (1, 1, 1), kinds
    if kernel == "scaled":
        scale = lambda stream, shape: (
            (words(stream, seed, shape[0] * shape[1]) & np.uint64(0x7FFFFF)).astype(np.float32) * np.float32(2.0**-24)
            + np.float32(0.25)
        ).reshape(shape)
        arrays = {"a": a, "b": b, "sa": scale(4, (m, k // bk)), "sb": scale(5, (k // bk, n)), "d": d}
        return arrays, blocks, grid, {**kinds, "sa": "f32", "sb": "f32"}
    if kernel == "block_scaled":
        triton_name = {"f16": "fp16"}
        constants = {
            **blocks,
            "A_FORMAT": triton_name.get(case["a"], case["a"]),
            "B_FORMAT": triton_name.get(case["b"], case["b"]),
            "A_SCALED": case["a_scaled"],
            "B_SCALED": case["b_scaled"],
            "FAST_MATH": case["fast_math"],
            "SIZE": case.get("size", 32),
            "ADDED": case.get("added", False),
        }
        c = np.zeros_like(c) if case.get("from_zero") else c
        if case.get("size") == 16:  # positive e4m3
            scales = [
                np.abs(values(stream, seed, (rows, k // 16), "e4m3", "triangle").astype(np.float32)).astype(
                    TYPES["e4m3"]
                )
                for stream, rows in ((4, m), (5, n))
            ]
        else:
            scales = [e8m0(stream, seed, (rows, k // 32), distribution) for stream, rows in ((4, m), (5, n))]
        arrays = {"a": a, "b": b, "sa": scales[0], "sb": scales[1], "c": c, "d": d}
        kind = "e4m3" if case.get("size") == 16 else "u8"
        return arrays, constants, grid, {**kinds, "sa": kind, "sb": kind}
    v = values(2, seed, (n, case["heads"]), case["b"], distribution)
    d = np.zeros((m, case["heads"]), TYPES[case["d"]])
    constants = {"M": m, "N": n, "K": k, "H": case["heads"], "BN": bn}
    return (
        {"q": a, "k": b, "v": v, "d": d},
        constants,
        (1, 1, 1),
        {"q": case["a"], "k": case["b"], "v": case["b"], "d": case["d"]},
    )
