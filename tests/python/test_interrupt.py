# SPDX-License-Identifier: MIT
"""Ctrl-C ends every call that may take long, within a second, and the library works afterwards."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import bitmma
from bitmma import layout, math, operators
from conftest import DATA

ENDLESS = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry endless(.param .u64 x)
{
  .reg .u64 %rd<3>;
  .reg .u32 %r<2>;
  ld.param.u64 %rd1, [x];
  mov.u64 %rd2, 0;
L:
  ld.global.u32 %r1, [%rd1];
  add.u64 %rd2, %rd2, 1;
  bra L;
}
"""
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"


def seconds_to_interrupt(call, after):
    """Between the signal and the exception of the handler; None if the call ended before the signal."""
    pressed = []

    def handler(number, frame):
        pressed.append(time.monotonic())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    sent = time.monotonic() + after
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        call()
    except KeyboardInterrupt:
        return time.monotonic() - sent
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return None


def random(*shape, dtype=np.float16):
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32).astype(dtype)


def again(call):
    """For calls that are short where the machine is fast: the loop is Python's, the interrupt may come in between."""

    def calls():
        while True:
            call()

    return calls


def launch(threads):
    kernel = bitmma.kernel(ENDLESS)
    return lambda: kernel[4, 32](np.zeros(4, np.uint32), threads=threads)


def batch():
    a, b = np.broadcast_to(random(16, 16), (4_000_000, 16, 16)), np.broadcast_to(random(16, 8), (4_000_000, 16, 8))
    return lambda: bitmma.mma(MMA, a, b, threads=2)


def attention():
    q = random(1, 8, 2048, 64)
    return lambda: operators.attention(q, q, q, threads=2)


def rows(function):
    x = random(4096, 16384, dtype=np.float32)
    return again(lambda: function(x))


def traced():
    kernel = bitmma.kernel(ENDLESS)
    return lambda: kernel[1, 32].debug(np.zeros(4, np.uint32), line=9, time=2**31 - 1)


def bound():
    call = bitmma.bind(MMA)
    a, b, c = (np.zeros((200_000, 32, words), np.uint32) for words in (4, 2, 4))
    return again(lambda: call(a, b, c))


def accuracy():
    a, b = random(1024, 4096), random(4096, 1024)
    d = bitmma.gemm(a, b, "flat", out_dtype="f32", threads=2)
    return again(lambda: bitmma.accuracy(a, b, d, threads=2))


def file_of(folder, text):
    path = os.path.join(folder, "text.ptx")
    with open(path, "w") as file:
        file.write(text)
    return path


def verify():
    file = bitmma.golden(WGMMA, cases=300, threads=2)
    return again(lambda: bitmma.verify(file, threads=1))


def written(folder):
    """Two files of the same cases."""
    file = bitmma.golden(WGMMA, cases=200, threads=2)
    names = [os.path.join(folder, name) for name in ("a.safetensors", "b.safetensors")]
    for name in names:
        bitmma.write(name, file)
    return names


def gemm():
    a, b = random(2048, 8192), random(8192, 2048)
    return lambda: bitmma.gemm(a, b, "flat", out_dtype="f32", threads=2)


def find_plans():
    a, b = random(512, 4096), random(4096, 512)
    d = random(512, 512, dtype=np.float32)
    return lambda: bitmma.find_plans(a, b, d, threads=2, timeout=120)


def diagnose():
    file = bitmma.golden("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", cases=64, threads=2)
    wrong = [case.computed_d() * np.float32(1.5) for case in file]
    return again(lambda: bitmma.diagnose(list(file), wrong, pairs=True, max_cases=64))


def numbers(count=1 << 25):
    return np.resize(random(1 << 16, dtype=np.float32), count)


def case_of(text=WGMMA):
    return bitmma.golden(text, cases=1)[0]


CALLS = {
    "a kernel on one thread": lambda folder: launch(1),
    "a kernel on two threads": lambda folder: launch(2),
    "a kernel that is traced": lambda folder: traced(),
    "kernel": lambda folder: again(
        lambda ptx=ENDLESS.replace("L:", "L:\n" + "  add.u32 %r1, %r1, 1;\n" * 3000): bitmma.kernel(ptx)
    ),
    "mma of a batch": lambda folder: batch(),
    "bind": lambda folder: bound(),
    "execute": lambda folder: again(
        lambda case=case_of(): bitmma.execute(case.instruction, case.target, dict(case.state))
    ),
    "gemm": lambda folder: gemm(),
    "explain_product": lambda folder: again(
        lambda a=random(64, 65536), b=random(65536, 64): bitmma.explain_product(a, b, "flat", 3, 5)
    ),
    "accuracy": lambda folder: accuracy(),
    "find_plans": lambda folder: find_plans(),
    "attention": lambda folder: attention(),
    "softmax": lambda folder: rows(lambda x: operators.softmax(x, threads=2)),
    "log_softmax": lambda folder: rows(lambda x: operators.log_softmax(x, threads=2)),
    "rms_norm": lambda folder: rows(lambda x: operators.rms_norm(x, None, 1e-6, threads=2)),
    "layer_norm": lambda folder: rows(lambda x: operators.layer_norm(x, None, None, 1e-5, threads=2)),
    "sum": lambda folder: rows(lambda x: operators.sum(x, -1, threads=2)),
    "sum of columns": lambda folder: rows(lambda x: operators.sum(x, 0, threads=2)),
    "argmax": lambda folder: rows(lambda x: operators.argmax(x, -1, threads=2)),
    "elementwise": lambda folder: rows(lambda x: operators.elementwise("gelu", x, threads=2)),
    "an operator explained": lambda folder: rows(lambda x: operators.explain("softmax", x, output=(3, 5))),
    "math": lambda folder: again(lambda x=numbers(): math.sin(x, threads=2)),
    "math.c": lambda folder: again(lambda x=numbers(): math.c("sinf", x, threads=2)),
    "cvt": lambda folder: again(lambda x=numbers(): math.cvt("cvt.rn.bf16.f32", x, threads=2)),
    "quantize": lambda folder: rows(lambda x: bitmma.quantize(x, bitmma.quantize_recipes()[0]["name"], threads=2)),
    "golden": lambda folder: lambda: bitmma.golden(WGMMA, cases=100_000, threads=2),
    "verify": lambda folder: verify(),
    "compare": lambda folder: again(lambda files=written(folder): bitmma.compare(*files)),
    "read": lambda folder: again(lambda files=written(folder): bitmma.read(files[0])),
    "diagnose": lambda folder: diagnose(),
    "fault_catalogue": lambda folder: again(lambda file=bitmma.golden(WGMMA, cases=4): bitmma.fault_catalogue(file)),
    "explain": lambda folder: again(lambda case=case_of(): bitmma.explain(case, 0, 0)),
    "a map of places": lambda folder: again(lambda: layout.tma(8192, 4096)),
    "offsets": lambda folder: again(lambda: layout.offsets("(1024,1024):(1024,1)")),
    "decode_ptx": lambda folder: again(
        lambda ptx=ENDLESS.replace("L:", "L:\n" + "  add.u32 %r1, %r1, 1;\n" * 30_000): bitmma.decode_ptx(
            file_of(folder, ptx)
        )
    ),
    "replay": lambda folder: again(lambda: bitmma.replay(DATA / "captures" / "tiny_experts")),
    "llama": lambda folder: again(lambda: bitmma.replay(DATA / "captures" / "tiny_llama", end_to_end=True)),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_ends_the_call(name, tmp_path):
    call = CALLS[name](str(tmp_path))
    # None: the call ended before the signal came, on a fast machine. A second is what an idle machine takes; a test on
    # a busy one must not fail for it, and a call that does not look takes far longer.
    seconds = []
    for delay in (0.7, 0.3, 0.1, 0.03):
        seconds.append(seconds_to_interrupt(call, delay))
        if seconds[-1] is not None and seconds[-1] <= 1:
            break
    assert any(second is not None and second <= 4 for second in seconds), seconds
    a, b = random(16, 16), random(16, 8)
    assert np.array_equal(bitmma.mma(MMA, a, b, threads=2), bitmma.mma(MMA, a, b))
    assert operators.softmax(random(8, 8), threads=2).shape == (8, 8)


def test_a_signal_that_raises_nothing_does_not_end_a_call():
    seen = []
    before = signal.signal(
        signal.SIGALRM, lambda number, frame: seen.append(bitmma.mma(MMA, random(16, 16), random(16, 8), threads=2))
    )
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    x = random(512, 16384, dtype=np.float32)
    try:
        made = [operators.softmax(x, threads=2) for _ in range(5)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen and all(np.array_equal(result, operators.softmax(x)) for result in made)


def test_other_threads_go_on_when_the_main_thread_is_interrupted():
    results = []
    x = random(2048, 16384, dtype=np.float32)
    other = threading.Thread(target=lambda: results.append(operators.softmax(x, threads=2)))
    other.start()
    assert seconds_to_interrupt(launch(2), 0.3) is not None
    other.join()
    assert np.array_equal(results[0], operators.softmax(x, threads=2))
