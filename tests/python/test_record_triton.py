"""bitmma.record_triton: the file that it writes, and launches of Triton's kernels where torch and Triton are
installed."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bitmma import record_triton

PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry twice(.param .u64 x, .param .f32 add) {
.reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .f32 %f<3>;
ld.param.u64 %rd1, [x]; ld.param.f32 %f2, [add]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd1, %rd1, %rd2;
ld.global.f32 %f1, [%rd1]; fma.rn.f32 %f1, %f1, 0f40000000, %f2; st.global.f32 [%rd1], %f1; ret; }
"""


def recorded(path: Path, last: float) -> record_triton.Launches:
    launches = record_triton.Launches(1, 1 << 20, 1 << 20)
    launches.capability, launches.gpu, launches.triton = 90, "a GPU", "3.6.0"
    before, after = np.array([9, 1, 2], np.float32), np.array([9, 2.5, last], np.float32)
    assert launches.wants(PTX, "twice", before.nbytes)
    launches.add(
        PTX,
        {
            "entry": "twice",
            "label": "small",
            "grid": [1, 1, 1],
            "block": [2],
            "shared_bytes": 0,
            "arguments": [{"memory": 0, "offset": 4}, {"value": struct.pack("<f", 0.5).hex()}],
        },
        [before.tobytes()],
        [after.tobytes()],
    )
    launches.save(str(path))
    return launches


def verified(path: Path) -> tuple[int, dict]:
    build = os.environ.get("BITMMA_BUILD", str(Path(__file__).parents[2] / "build" / "test"))
    done = subprocess.run(
        ["bitmma", "verify", str(path), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": build + os.pathsep + os.environ["PATH"]},
    )
    return done.returncode, json.loads(done.stdout)


def test_what_is_recorded_is_repeated(tmp_path):
    launches = recorded(tmp_path / "launches.safetensors", 4.5)
    assert len(launches) == 1 and launches.total_bytes == 12
    code, report = verified(tmp_path / "launches.safetensors")
    assert code == 0
    (launch,) = report["launches"]
    assert (launch["kernel"], launch["label"], launch["target"], launch["differing_bytes"]) == (
        "twice",
        "small",
        "sm_90a",
        0,
    )
    assert launch["changed_bytes"] > 0


def test_what_differs_is_seen(tmp_path):
    recorded(tmp_path / "launches.safetensors", 4.25)
    code, report = verified(tmp_path / "launches.safetensors")
    assert code == 1
    assert report["launches"][0]["differing_bytes"] == 1


def test_what_is_too_much_is_left_out_and_counted(tmp_path):
    launches = recorded(tmp_path / "launches.safetensors", 4.5)
    assert not launches.wants(PTX, "twice", 12)
    assert not launches.wants(PTX, "other", 2 << 20)
    assert list(launches.left_out.values()) == [1, 1]


def test_parameters_of_an_entry_are_counted():
    assert record_triton._parameters_of(PTX, "twice") == 2


def test_a_program_is_run_as_python_runs_it(tmp_path):
    """Its folder comes first in sys.path, not that of record_triton.py, where math.py would hide Python's own."""
    code = "import math, sys; assert math.sqrt(4) == 2; print(sys.argv, sys.path[0])"
    (tmp_path / "program.py").write_text(code)
    script = (
        "import contextlib, sys, {0}; sys.argv = ['record', '-o', {1!r}, {2!r}, '--steps', '3']\n"
        "empty = {0}.Launches(1, 1, 1)\n{0}.recording = lambda *a: contextlib.nullcontext(empty)\n{0}.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script.format("record_triton", str(tmp_path / "x"), str(tmp_path / "program.py"))],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(record_triton.__file__).parent,
    )
    assert done.returncode == 0, done.stderr
    assert "'--steps', '3'" in done.stdout and str(tmp_path) in done.stdout.split("]")[-1]
    assert "0 launches of 0 kernels" in done.stderr


def test_launches_of_a_kernel_of_triton_are_recorded(tmp_path):
    for host in ("torch", "triton"):
        pytest.importorskip(host, reason=f"NOT checked: {host} is not installed")
    program = tmp_path / "program.py"
    program.write_text("""
import torch, triton, triton.language as tl
import bitmma.adapters.triton as adapter
from bitmma import record_triton

@triton.jit
def scaled(x, y, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * scale + 1, mask=i < n)

x, y = torch.randn(300), torch.zeros(300)
with adapter.use("sm_90a"), record_triton.recording(2) as launches:
    for _ in range(3):
        scaled[(3,)](x[8:], y[8:], 280, 1.5, BLOCK=128)
assert len(launches) == 2 and sum(launches.left_out.values()) == 1, launches.left_out
launches.save("launches.safetensors")
""")
    package = str(Path(record_triton.__file__).parents[1])  # PYTHONPATH may be relative to another folder
    subprocess.run([sys.executable, str(program)], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": package})
    code, report = verified(tmp_path / "launches.safetensors")
    assert code == 0
    assert [launch["kernel"] for launch in report["launches"]] == ["scaled", "scaled"]
    assert report["launches"][0]["changed_bytes"] > 0
