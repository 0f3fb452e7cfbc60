"""Products, verification and campaigns over Dask: the bits of one machine, also when a worker is killed on the way."""

from __future__ import annotations

import concurrent.futures
import functools
import gc
import json
import os
import pickle
import signal
import struct
import sys
import time

import ml_dtypes
import numpy as np
import pytest

import bitmma
from conftest import DATA, same_bits

da = pytest.importorskip("dask.array", reason="NOT TESTED: bitmma.distributed, Dask is not installed")
distributed = pytest.importorskip("distributed", reason="NOT TESTED: bitmma.distributed, Dask is not installed whole")
import bitmma.distributed as bd  # noqa: E402

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
F16 = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"
FP8 = "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3"
SECONDS = 60


@pytest.fixture(autouse=True)
def time_limit():
    """Nothing waits for ever: an alarm ends a test."""

    def too_long(*_):
        raise TimeoutError(f"not done after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Two worker processes of one thread; a nanny restarts one that dies. Ports are free ones."""
    folder = str(tmp_path_factory.mktemp("dask"))
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            local_directory=folder,
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False, timeout=SECONDS) as client,
    ):
        yield client


def pids_of(client) -> dict[str, int]:
    client.wait_for_workers(2, timeout=SECONDS)
    return client.run(os.getpid)


def random(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def cut(array, *chunks):
    return da.from_array(array, chunks=chunks)


@pytest.mark.parametrize(
    "dtype",
    [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int8],
    ids=lambda dtype: np.dtype(dtype).name,
)
@pytest.mark.parametrize("chunks", [(40, 48, 24), (7, 16, 5), (1, 10, 24), (40, 48, 1)], ids=str)
def test_products_have_the_bits_of_gemm(dtype, chunks):
    a, b = random((40, 48), dtype), random((48, 24), dtype, 1)
    m, k, n = chunks
    output = "f64" if dtype == np.float64 else None
    plan = "flat" if dtype == np.float32 else None  # libraries multiply float32 in several ways
    d = bd.gemm(cut(a, m, k), cut(b, k, n), plan, out_dtype=output)
    assert d.chunks == (cut(a, m, k).chunks[0], cut(b, k, n).chunks[1])
    expected = bitmma.gemm(a, b, plan, out_dtype=output)
    assert d.dtype == expected.dtype and same_bits(d.compute(scheduler="synchronous"), expected)


def test_chunks_of_arrays_that_are_not_dask():
    a, b = random((40, 48), np.float16), random((48, 24), np.float16, 1)
    assert bd.gemm(a, b).chunks == ((40,), (24,))
    d = bd.gemm(a, cut(b, 48, 5), chunks=(16, 10), out_dtype="bf16")
    assert d.chunks == ((16, 16, 8), (10, 10, 4)) and same_bits(d.compute(), bitmma.gemm(a, b, out_dtype="bf16"))
    raw = np.random.default_rng(2).integers(0, 256, (40, 64), np.uint8)
    codes, other = bitmma.codes(raw, "e4m3"), bitmma.codes(raw[:24].T, "e4m3")
    expected = bitmma.gemm(codes, other)
    assert same_bits(bd.gemm(codes, other, chunks=9).compute(), expected)
    assert same_bits(bd.gemm(bitmma.Codes(cut(raw, 7, 64), "e4m3"), other, chunks=(9, 20)).compute(), expected)


def test_plans_and_what_goes_with_them():
    a, b = random((40, 300), ml_dtypes.float8_e4m3fn), random((300, 24), ml_dtypes.float8_e4m3fn, 1)
    c, bias = random((40, 24), ml_dtypes.bfloat16, 2), random(24, np.float32, 3)
    row, col = random((40, 1), np.float32, 4), random((1, 24), np.float32, 5)
    x, y = cut(a, 16, 100), cut(b, 100, 10)
    for arguments, cut_arguments in (
        (dict(plan="nvjet-algo2"),) * 2,
        (dict(plan={"instruction": FP8, "promotion": {"every": 128}}),) * 2,
        (dict(plan=bitmma.Plan({"instruction": FP8, "split_k": {"count": 3, "unit": 32, "rule": "ceil"}})),) * 2,
        (dict(plan="nvjet-splitK", split_k=2, out_dtype="bf16"),) * 2,
        (dict(kernel="nvjet_qqtst_128x128_128x6_2x1_v_bz_TNT"),) * 2,
        (dict(scale_a=0.5, scale_b=0.25, out_dtype="bf16", relu=True),) * 2,
        (
            dict(c=c, bias=bias, alpha=0.5, beta=2.0, out_dtype="bf16"),
            dict(c=cut(c, 9, 9), bias=cut(bias, 7), alpha=0.5, beta=2.0, out_dtype="bf16"),
        ),
        (dict(scale_a=row, scale_b=col), dict(scale_a=cut(row, 3, 1), scale_b=cut(col, 1, 5))),
        (dict(scale_a=row, scale_b=col), dict(scale_a=cut(row, 3, 1), scale_b=col)),
    ):
        d = bd.gemm(x, y, **cut_arguments)
        assert same_bits(d.compute(scheduler="synchronous"), bitmma.gemm(a, b, **arguments)), arguments


@pytest.mark.parametrize("n", [100, 256, 300])
@pytest.mark.parametrize("chunk", [(2, 2), (3, 128), (40, 77), (6, 3)], ids=str)
def test_scales_of_blocks(n, chunk):
    """scale_b by columns and by 128 columns: also where a block has as many columns as D has blocks."""
    a, b = random((6, 300), ml_dtypes.float8_e4m3fn), random((300, n), ml_dtypes.float8_e4m3fn, 1)
    sa, by_column = random((6, 3), np.float32, 2), random((3, n), np.float32, 3)
    by_block = random((3, -(-n // 128)), np.float32, 4)
    for how, scales in (("fma", by_column), ("fma", by_block), ("mul_fma", by_column)):
        plan = {"instruction": FP8, "promotion": {"every": 128, "scale": how}}
        expected = bitmma.gemm(a, b, plan, scale_a=sa, scale_b=scales)
        with_blocks = {**plan, "promotion": {**plan["promotion"], "sb": [1 if scales.shape[1] == n else 128, 128]}}
        for chosen, scale_b in ((plan, scales), (plan, cut(scales, 2, 7)), (with_blocks, scales)):
            d = bd.gemm(a, b, chosen, scale_a=sa, scale_b=scale_b, chunks=chunk)
            assert same_bits(d.compute(scheduler="synchronous"), expected), (how, scales.shape)


def test_regions_know_their_rows_and_columns():
    a, b = random((70, 256), np.float16), random((256, 90), np.float16, 1)
    plan = {
        "instruction": F16,
        "tile_mn": [32, 16],
        "raster": "n",
        "regions": [
            {"tiles": [3, 8], "split_k": {"count": 3, "unit": 64, "rule": "ceil"}},
            {"tiles": [9, 14], "split_k": {"cuts": [0, 16, 240]}},
        ],
    }
    expected = bitmma.gemm(a, b, plan)
    assert not same_bits(expected, bitmma.gemm(a, b, {"instruction": F16}))
    for chunks in ((70, 90), (32, 16), (9, 50), (1, 90)):
        assert same_bits(bd.gemm(a, b, plan, chunks=chunks).compute(scheduler="synchronous"), expected)
    rows, cols = [0, 5, 40, 69], [89, 17, 3]
    sample = dict(rows=rows, cols=cols, whole=(70, 90))
    sampled = bd.gemm(a[rows], b[:, cols], plan, chunks=(3, 2), **sample).compute(scheduler="synchronous")
    assert same_bits(sampled, bitmma.gemm(a[rows], b[:, cols], plan, **sample))
    assert same_bits(sampled, expected[np.ix_(rows, cols)])


def test_block_scales_of_the_instruction():
    raw = np.random.default_rng(1).integers(0, 16, (24, 128), np.uint8)
    scales = np.random.default_rng(2).integers(120, 132, (24, 4), np.uint8)
    a, b = bitmma.codes(raw, "e2m1"), bitmma.codes(raw[:10].T, "e2m1")
    sfa, sfb = bitmma.codes(scales, "ue8m0"), bitmma.codes(scales[:10].T, "ue8m0")
    how = dict(sfa=sfa, sfb=sfb, target="sm_100a")
    assert same_bits(bd.gemm(a, b, chunks=(7, 4), **how).compute(scheduler="synchronous"), bitmma.gemm(a, b, **how))


def test_what_is_wrong_with_a_product_is_said_before_it_runs():
    a, b = cut(np.ones((40, 64), np.float16), 8, 64), cut(np.ones((64, 24), np.float16), 64, 8)
    unknown = a[a[:, 0] > 0]
    scaled = {"instruction": FP8, "promotion": {"every": 128, "scale": "fma", "sb": [128, 128]}}
    fp8 = np.ones((8, 256), ml_dtypes.float8_e4m3fn)
    for arguments, more, fields in (
        ((a, b[:32]), {}, ["b"]),
        ((a[0], b), {}, ["a"]),
        ((a[None], b), {}, ["a"]),
        ((unknown, b), {}, ["a"]),
        ((a, b), dict(c=np.ones((3, 3), np.float32), bias=np.ones(7, np.float32)), ["c", "bias"]),
        ((a, b), dict(scale_a=np.ones((7, 1), np.float32), rows=[1, 2]), ["scale_a", "rows"]),
        ((a, b, "nvjet-lago2"), {}, ["plan"]),
        ((a, b, {"instructoin": 1}), {}, [""]),
        ((a, b, 7), {}, ["plan"]),
        ((a, b.astype(np.float64)), {}, [""]),
        ((a, b), dict(chunks=0), ["chunks"]),
        ((a, b), dict(target="sm_12"), [""]),
        ((a, b), dict(whole=(40, 24, 1)), ["whole"]),
        ((a, b), dict(whole=40), ["whole"]),
        ((a, b), dict(whole=(40.5, 24)), ["whole"]),
        ((a, b), dict(rows=np.arange(40) / 2), ["rows"]),
        ((a, b, {"instruction": F16, "epilogue": [{"op": "bias"}]}), {}, ["bias"]),
        ((np.ones((4, 4096), np.float16), np.ones((4096, 8), np.float16), "nvjet-splitK"), {}, ["split_k"]),
        (
            (fp8, fp8.T, scaled),
            dict(scale_a=np.ones((8, 2), np.float32), scale_b=np.ones((1, 8), np.float32)),
            ["scale_b"],
        ),
    ):
        with pytest.raises(bitmma.Error) as error:
            bd.gemm(*arguments, **more)
        assert len(error.value.violations) >= len(fields)
        assert all(
            field in violation.field for field, violation in zip(fields, error.value.violations, strict=False)
        ), error.value
    with pytest.raises(bitmma.Error, match="of 2 x 2 outputs: bias"):
        bd.gemm(a, b, {"instruction": F16, "epilogue": [{"op": "bias"}]})


def test_batches_of_one_instruction():
    a, b, c = random((50, 64, 16), np.float16), random((16, 8), np.float16, 1), random((50, 64, 8), np.float32, 2)
    expected = bitmma.mma(WGMMA, a, b, c)
    for chunks in ((50, 64, 16), (7, 20, 5), (1, 64, 16)):
        d = bd.mma(WGMMA, cut(a, *chunks), b, cut(c, 13, 64, 8))
        assert d.dtype == expected.dtype and same_bits(d.compute(scheduler="synchronous"), expected)
    assert bd.mma(WGMMA, a, b, chunks=20).chunks[0] == (20, 20, 10)
    negated = bitmma.wgmma(n=8, negate_a=True)
    assert same_bits(bd.mma(negated, a, b, chunks=9).compute(), bitmma.mma(negated, a, b))
    assert same_bits(bd.mma(WGMMA, a[0], b).compute(), bitmma.mma(WGMMA, a[0], b))
    # Batches that broadcast, four products in one, an instruction whose shape the arrays give.
    x, y = random((4, 1, 64, 16), np.float16, 3), random((5, 16, 8), np.float16, 4)
    d = bd.mma(WGMMA, cut(x, 3, 1, 64, 16), cut(y, 2, 16, 8))
    assert d.chunks[:2] == ((3, 1), (2, 2, 1)) and same_bits(d.compute(), bitmma.mma(WGMMA, x, y))
    four = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"
    x, y = random((6, 4, 8, 4), np.float16), random((6, 4, 4, 8), np.float16, 1)
    assert same_bits(bd.mma(four, cut(x, 4, 2, 8, 4), y, chunks=3).compute(), bitmma.mma(four, x, y))
    tcgen05 = "tcgen05.mma.cta_group::1.kind::f8f6f4"
    x, y = random((3, 128, 32), ml_dtypes.float8_e5m2), random((32, 16), ml_dtypes.float8_e4m3fn, 1)
    assert same_bits(bd.mma(tcgen05, cut(x, 2, 128, 32), y).compute(), bitmma.mma(tcgen05, x, y))
    for arguments, field in (
        ((WGMMA, a, b[:8]), "b"),
        ((WGMMA, a[0, 0], b), "a"),
        (("wgmma", a, b), ""),
        ((WGMMA, a[:0], b), "batch"),
        ((WGMMA, a, np.ones((3, 16, 8), np.float16)), "batch"),
        ((WGMMA, a.astype(np.float64), b), "a"),
    ):
        with pytest.raises(bitmma.Error) as error:
            bd.mma(*arguments)
        assert field in error.value.violations[0].field, error.value


@pytest.mark.parametrize(
    "dtype",
    [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn],
    ids=lambda array: np.dtype(array).name,
)
def test_types_of_ml_dtypes_survive_the_way(client, dtype):
    a, b = random((12, 32), dtype), random((32, 8), dtype, 1)
    a[0, 0] = np.nan
    name = bitmma.format_of(a)
    k = 32 // np.dtype(dtype).itemsize
    plan = {"instruction": f"wgmma.mma_async.sync.aligned.m64n256k{k}.f32.{name}.{name}", "output": {"type": name}}
    x = client.persist(
        da.stack([cut(array, 4) for array in a]).map_blocks(np.copy, dtype=a.dtype)
    )  # lives on both workers
    d = client.compute(bd.gemm(x, cut(b, 32, 4), plan, chunks=(5, 3))).result(timeout=SECONDS)
    assert d.dtype == np.dtype(dtype) and same_bits(d, bitmma.gemm(a, b, plan))
    assert same_bits(client.gather(client.scatter(a)), a) and same_bits(pickle.loads(pickle.dumps(a)), a)


def test_a_worker_is_killed_in_a_product(client):
    x, b = random((1024, 4096), np.float16), random((4096, 1024), np.float16, 1)
    plan = {"instruction": F16, "promotion": {"every": 128}}
    a = client.persist(cut(x, 128, 4096))  # its chunks die with their worker, too
    d = client.persist(bd.gemm(a, b, plan, chunks=128))
    blocks = distributed.futures_of(d)
    next(distributed.as_completed(blocks, loop=client.loop, timeout=SECONDS))
    before = pids_of(client)
    holder = next(workers[0] for workers in client.who_has(blocks).values() if workers)
    finished = sum(block.status == "finished" for block in blocks)
    os.kill(before[holder], signal.SIGKILL)
    assert 0 < finished < len(blocks), "the worker died in the middle"
    computed = client.compute(d).result(timeout=SECONDS)
    assert same_bits(computed, bitmma.gemm(x, b, plan, threads=2))
    assert before[holder] not in pids_of(client).values()


def broken(path, case):
    """Changes a bit of the recorded D of a case; all cases have as many bytes."""
    whole = bytearray(path.read_bytes())
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + size])
    for name in {"d", "d_regs"} & set(header):
        first, last = header[name]["data_offsets"]
        whole[8 + size + first + case * ((last - first) // header[name]["shape"][0])] ^= 1
    path.write_bytes(whole)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Golden files, two of them in a folder below; two cases of one and one of another are wrong."""
    top = tmp_path_factory.mktemp("vectors")
    (top / "below").mkdir()
    for index, instruction in enumerate(bitmma.all_instructions()[::190]):
        bitmma.write(
            (top / "below" if index < 2 else top) / f"{index:02}.safetensors",
            bitmma.golden(instruction, cases=20, seed=index),
        )
    several = bitmma.golden(WGMMA, cases=50, distribution="normal")
    for name in ("x", "y"):
        bitmma.write(top / f"{name}.safetensors", several)
    for name, case in (("x", 21), ("x", 37), ("y", 3)):
        broken(top / f"{name}.safetensors", case)
    return top


def test_verify_is_bitmma_verify(folder):
    report = bd.verify(folder, cases_per_unit=5)
    files = sorted(map(str, folder.rglob("*.safetensors")))
    assert list(report.table) == files and len(report.units) >= 4 * len(files)
    for path in files:
        assert report.table[path] == bitmma.verify(path), path
    assert report.total[:4] == tuple(sum(compared[field] for compared in report.table.values()) for field in range(4))
    assert (report.total.mismatches, report.total.cases_with_mismatches) == (3, 3)
    assert report.total.first.startswith(f"{folder / 'x.safetensors'}: case 21, ")
    assert report == bd.verify([folder / "below", *(path for path in files if "below" not in path)], cases_per_unit=5)
    assert report[:2] == bd.verify(str(folder), cases_per_unit=1000)[:2]
    assert json.loads(json.dumps(report.units)) == report.units


def test_recorded_files_of_an_h200_verify():
    report = bd.verify(DATA / "golden" / "sm_90a" / "mma_sync")
    assert report.total.cases > 1000 and report.total.mismatches == 0


def test_verify_while_a_worker_is_killed(client, folder):
    killed = []

    def kill(finished, units, unit, result):
        if not killed and finished >= 5:
            assert finished < units
            killed.append(next(iter(pids_of(client).values())))
            os.kill(killed[0], signal.SIGKILL)

    report = bd.verify(folder, cases_per_unit=2, client=client, progress=kill)
    assert report == bd.verify(folder, cases_per_unit=2) and killed
    assert killed[0] not in pids_of(client).values()


def test_units_that_somebody_cancels_have_no_result(client, folder):
    def cancel(finished, units, unit, result):
        client.cancel([distributed.Future(key, client) for key in list(client.futures)], force=True)

    done = {}
    with pytest.raises(concurrent.futures.CancelledError):
        bd.verify(folder, cases_per_unit=1, client=client, done=done, progress=cancel)
    assert done and all(isinstance(result, dict) for result in done.values())


def word_of(file, refused=None):
    word = int(file[0].recorded_d().view(np.uint32)[0, 0])
    if word == refused:
        raise bitmma.Error([bitmma.Violation("", "", "", text="refused")])
    return {"mismatches": 0, "word": word}


def test_short_units_share_tasks(client, monkeypatch):
    keys = []
    submit = distributed.Client.submit
    monkeypatch.setattr(
        distributed.Client, "submit", lambda *args, **fields: keys.append(fields["key"]) or submit(*args, **fields)
    )
    settings = dict(units=1500, cases_per_unit=1, distribution="normal")
    alone = bd.campaign(WGMMA, check=word_of, **settings)
    assert bd.campaign(WGMMA, check=word_of, client=client, **settings) == alone
    assert 64 <= len(keys) < 1000 and all(key.startswith("campaign_unit-") for key in keys)
    # Units before the one that fails have their results, in its task too.
    failing, done = "cases 1400..1400", {}
    word = next(result["word"] for unit, result in alone.units.items() if unit.endswith(failing))
    with pytest.raises(bitmma.Error, match=f"{failing}: refused"):
        bd.campaign(WGMMA, check=functools.partial(word_of, refused=word), client=client, done=done, **settings)
    assert 0 < len(done) < 1500 and all(done[unit] == alone.units[unit] for unit in done)


def test_errors_travel(client, folder, tmp_path):
    path = tmp_path / "bad.safetensors"
    whole = (folder / "x.safetensors").read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    for name in ("d", "d_regs"):
        header[f"x-{name}"] = header.pop(name)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + size :])
    for runner in (client, None):
        with pytest.raises(bitmma.Error, match=r"bad.safetensors cases \d+..\d+: .*recorded D") as error:
            bd.verify([folder / "x.safetensors", path], client=runner, cases_per_unit=20)
        assert "tensor d" in error.value.violations[0].field


def test_requests_that_are_wrong(tmp_path):
    (tmp_path / "empty").mkdir()
    for call, field in (
        (lambda: bd.verify(tmp_path / "empty"), "empty"),
        (lambda: bd.verify(tmp_path / "none"), ""),
        (lambda: bd.verify([]), "paths"),
        (lambda: bd.verify(tmp_path, cases_per_unit=0), "cases_per_unit"),
        (lambda: bd.campaign("nonsense", check=len), ""),
        (lambda: bd.campaign(WGMMA, check=len, units=0), "units"),
        (lambda: bd.campaign(WGMMA, check=len, distribution="bit"), "distribution"),
        (lambda: bd.campaign(WGMMA, check=len, target="sm_100a"), ""),
        (lambda: bd.campaign(WGMMA, check=len), WGMMA),
        (lambda: bd.campaign(WGMMA, check=lambda file: {"mismatches": 0, "file": file}), WGMMA),
        (lambda: bd.gpu_campaign("mma"), "family"),
        (lambda: bd.campaign(WGMMA, check=bd.gpu(program="no-such")), "program"),
    ):
        with pytest.raises(bitmma.Error) as error:
            call()
        assert field in str(error.value), error.value
    for distribution in bd.distributions:
        assert len(bitmma.golden(WGMMA, distribution=distribution)) == 1
    with pytest.raises(bitmma.Error, match=", ".join(bd.distributions[:-1]) + f" or {bd.distributions[-1]}"):
        bitmma.golden(WGMMA, distribution="none of them")


def off_by_one():
    """Somebody's mma, wrong where D[0, 0] is negative. Goes to workers by value."""

    def compute(case):
        d = case.computed_d()
        if d[0, 0] < 0:
            d[0, 0] = np.nextafter(d[0, 0], np.float32(0))
        return d

    return bd.by_case(compute)


CAMPAIGN = dict(seed=7, units=30, cases_per_unit=4, distribution=("normal", "integers", "wide"))
TWO = [WGMMA, bitmma.wgmma(n=16, a="bf16", negate_b=True)]


@pytest.fixture(scope="module")
def whole_campaign():
    return bd.campaign(TWO, check=off_by_one(), **CAMPAIGN)


def test_a_campaign_is_its_seed(whole_campaign):
    report = whole_campaign
    assert len(report.units) == 60 and len(report.table) == 2 and report.total.cases == 240
    assert 0 < report.total.mismatches == report.total.cases_with_mismatches < 240
    # Unit 4 of the first instruction: cases 16 .. 19 of the seed.
    unit, result = list(report.units.items())[4]
    assert unit == f"{WGMMA} on sm_90a seed 7 integers cases 16..19"
    again = off_by_one()(bitmma.golden(WGMMA, seed=7, first_case=16, cases=4, distribution="integers"))
    assert (result["mismatches"], result["outputs"]) == (again.mismatches, again.outputs)
    wrong = next(unit for unit, result in report.units.items() if result["mismatches"])
    first = int(wrong.rpartition(" ")[2].partition("..")[0])
    assert first <= int(report.total.first.partition(": case ")[2].partition(",")[0]) < first + 4
    part = bd.campaign(TWO, check=off_by_one(), **{**CAMPAIGN, "first_unit": 3, "units": 2})
    assert len(part.units) == 4 and part.units.items() <= report.units.items()
    every = [
        instruction
        for instruction in bitmma.all_instructions()
        if instruction.is_mma and "ashift" not in str(instruction)
    ][::97]
    right = bd.campaign(every, check=bd.by_case(bitmma.Case.computed_d), units=9, cases_per_unit=1)
    assert right.total.mismatches == 0 and right.total.cases == 9 * len(every) > 100


def test_a_campaign_while_a_worker_is_killed(client, whole_campaign):
    killed = []

    def kill(finished, units, unit, result):
        if not killed and finished >= 5:
            assert finished < units
            killed.append(next(iter(pids_of(client).values())))
            os.kill(killed[0], signal.SIGKILL)

    report = bd.campaign(TWO, check=off_by_one(), client=client, progress=kill, **CAMPAIGN)
    assert report == whole_campaign and list(report.units) == list(whole_campaign.units) and killed


def test_a_restart_repeats_the_missing_units_exactly(client, whole_campaign, tmp_path):
    class Stopped(Exception):
        pass

    def stop(finished, *_):
        if finished == 23:
            raise Stopped

    path = tmp_path / "night.jsonl"
    with pytest.raises(Stopped):
        bd.campaign(TWO, check=off_by_one(), client=client, done=bd.Journal(path), progress=stop, **CAMPAIGN)
    with open(path, "ab") as file:
        file.write(b'["a line that was cut off in the')
    journal = bd.Journal(path)
    assert len(journal) == 23 and journal.items() <= whole_campaign.units.items()
    redone = []
    report = bd.campaign(TWO, check=off_by_one(), done=journal, progress=lambda *now: redone.append(now), **CAMPAIGN)
    assert report == whole_campaign
    assert [now[0] for now in redone] == list(range(24, 61))
    assert not {now[2] for now in redone} & set(list(bd.Journal(path))[:23])
    assert bd.Journal(path) == whole_campaign.units
    assert bd.campaign(TWO, check=len, done=whole_campaign.units, **CAMPAIGN) == whole_campaign  # nothing to do
    path.write_text("nonsense\n")
    with pytest.raises(bitmma.Error, match="line 1"):
        bd.Journal(path)


UNIT = dict(cases=1, outputs=2, mismatches=0, cases_with_mismatches=0, first=None)
ROW = json.dumps(["unit", UNIT]) + "\n"


@pytest.mark.parametrize("text", [
    '["alpha", "beta"]', '["alpha", "beta"]\n', '["al', "[", '["', '{"a": 1}', "null", "[" * 100_000,
    "[" * 100_000 + "\n", "\n", ROW[:-1], ROW[:-9], ROW + ROW[:-1], ROW + "beta", ROW + '["unit", 5]',
    ROW + "[" * 100_000 + "\n", '["unit", {}]\n', ROW + '["unit", {}]\n', ROW + "\n" + ROW,
    ROW + json.dumps([5, UNIT]) + "\n",
    *(json.dumps(["unit", UNIT | {name: value}]) + "\n"
      for name in ("cases", "outputs", "mismatches", "cases_with_mismatches")
      for value in (-5, 1.5, True, None, "1", [1])),
    *(json.dumps(["unit", UNIT | {name: 5}]) + "\n" for name in ("first", "group"))])  # fmt: skip
def test_a_file_that_is_no_journal_is_refused_and_left_as_it_is(text, tmp_path):
    path = tmp_path / "names.json"
    path.write_text(text)
    with pytest.raises(bitmma.Error):
        bd.Journal(path)
    assert path.read_text() == text


def test_only_a_line_that_a_journal_began_is_replaced(tmp_path):
    path = tmp_path / "night.jsonl"
    torn = ROW + '["other", {"cases": 1, "outp'
    path.write_text(torn)
    journal = bd.Journal(path)
    assert dict(journal) == {"unit": UNIT} and path.read_text() == torn  # reading changes nothing
    journal["next"] = UNIT
    assert path.read_text() == ROW + ROW.replace("unit", "next")
    assert dict(bd.Journal(path)) == {"unit": UNIT, "next": UNIT}


@pytest.mark.parametrize("unit, result", [
    (5, UNIT), (None, UNIT), ("unit", None), ("unit", []), ("unit", {}), ("unit", UNIT | {"mismatches": -5}),
    ("unit", UNIT | {"mismatches": 1.5}), ("unit", UNIT | {"more": object()}),
    ("unit", UNIT | {"more": {1: 2, "1": 3}}), ("unit", UNIT | {"group": 5})])  # fmt: skip
def test_a_journal_takes_only_results_that_it_can_read_again(unit, result, tmp_path):
    path = tmp_path / "night.jsonl"
    journal = bd.Journal(path)
    journal["first"] = UNIT
    with pytest.raises(bitmma.Error):
        journal[unit] = result
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(bitmma.Error):
        journal["deep"] = UNIT | {"more": deep}
    assert dict(journal) == dict(bd.Journal(path)) == {"first": UNIT}


def test_results_given_as_done_are_checked():
    with pytest.raises(bitmma.Error) as error:
        bd.campaign(
            WGMMA,
            check=len,
            done={
                unit: {"mismatches": -5} for unit in bd.campaign(WGMMA, check=bd.by_case(bitmma.Case.computed_d)).units
            },
        )
    assert len(error.value.violations) == 4
    with pytest.raises(bitmma.Error):
        bd.campaign(WGMMA, check=lambda file: {"mismatches": -5})


def test_errors_of_a_check(client):
    def check(file):
        if file[0].target:
            raise bitmma.Error([bitmma.Violation("board", "on fire", "cold"), bitmma.Violation("fan", "0", "1")])

    def crash(file):
        raise ZeroDivisionError("the user's own")

    with pytest.raises(bitmma.Error, match=r"integers cases 4\.\.7: board = on fire") as error:
        bd.campaign(
            WGMMA, check=check, client=client, cases_per_unit=4, first_unit=1, distribution=["bits", "integers"]
        )
    assert [violation.field for violation in error.value.violations] == ["board", "fan"]
    with pytest.raises(ZeroDivisionError):
        bd.campaign(WGMMA, check=crash, client=client)


PROGRAM = """#!{python}
import json, shutil, sys
said = dict(zip(sys.argv[2::1], sys.argv[3::1]))
if sys.argv[2] == "campaign":
    unit = int(said["--first-unit"])
    row = dict(instruction="wgmma", cases=12, outputs=1000 + unit, hard_outputs=300, mismatches=unit == 2)
    print(json.dumps(dict(gpu="a GPU", target="sm_90a", driver="1", cuda="2", date="today", seconds=0.5,
                          rows=[row, {{**row, "instruction": "total"}}], saved=["x"] * (unit == 2))))
    sys.exit(unit == 2)
if said.get("--device") == "7":
    print("error: GPU = no GPU 7", file=sys.stderr)
    sys.exit(2)
shutil.copy(sys.argv[3], said["-o"])
"""


def test_the_program_on_a_worker(client, tmp_path):
    """A stand-in for `bitmma gpu`: what it is asked, and what becomes of its answers."""
    program = tmp_path / "bitmma"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    report = bd.campaign(WGMMA, check=bd.gpu(program=str(program)), units=3, client=client)
    assert report.total.cases == 192 and report.total.mismatches == 0
    with pytest.raises(bitmma.Error, match="no GPU 7"):
        bd.campaign(WGMMA, check=bd.gpu(program=str(program), device=7), client=client)
    report = bd.gpu_campaign(
        "mma.sync", seed=5, first_unit=1, units=3, program=str(program), client=client, save=tmp_path
    )
    first = report.units["gpu mma.sync seed 5 outputs 1000000 unit 2"]["first"]
    assert report.table == {"wgmma on a GPU": bitmma.Comparison(36, 3006, 1, 1, first)}
    assert "--seed 5 --first-unit 2" in report.total.first and "seconds" not in str(report.units)
    with pytest.raises(bitmma.Error, match="program on PATH"):
        bd.gpu_campaign(program=str(tmp_path / "none"), client=client)


def test_nothing_is_left_behind(client):
    """Stopped campaigns, errors and killed workers leave no task on the scheduler."""

    def tasks(dask_scheduler):
        return sorted(map(str, dask_scheduler.tasks))

    deadline = time.monotonic() + 10
    while client.run_on_scheduler(tasks) and time.monotonic() < deadline:
        gc.collect()  # tracebacks hold futures
        time.sleep(0.1)
    assert client.run_on_scheduler(tasks) == []


def test_threads_do_not_matter():
    """Many callers at once."""
    a, b = random((64, 256), np.float16), random((256, 64), np.float16, 1)
    expected = bitmma.gemm(a, b)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        products = pool.map(lambda size: bd.gemm(a, b, chunks=size).compute(scheduler="threads"), range(8, 24))
        assert all(same_bits(d, expected) for d in products)
