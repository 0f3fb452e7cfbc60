# SPDX-License-Identifier: MIT
"""Modules that are parsed once, memory that lasts over launches, parameters as bytes."""

from __future__ import annotations

import gc
import struct
import threading
import warnings
import weakref

import ml_dtypes
import numpy as np
import pytest

import bitmma
from conftest import DATA

MODULE = """
.version 8.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 count = 7;
.visible .const .align 4 .f32 scale[2] = {0f3F800000, 0f40000000};
// adds n to count, and writes count to *p
.visible .entry add(.param .u64 p, .param .u32 n) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  ld.global.u32 %r2, [count];
  add.u32 %r3, %r1, %r2;
  st.global.u32 [count], %r3;
  st.global.u32 [%rd1], %r3;
  ret;
}
// *p = scale[1]
.visible .entry get(.param .u64 p) .reqntid 1, 1, 1 {
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  ld.const.b32 %r1, [scale+4];
  st.global.b32 [%rd1], %r1;
  ret;
}
// p[1] = p[0]
.visible .entry copy(.param .u64 p) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  ld.global.b32 %r1, [%rd1];
  st.global.b32 [%rd1+4], %r1;
  ret;
}
// A structure by value with a pointer inside: {u32 n; u64 p}
.visible .entry of_struct(.param .align 8 .b8 s[16]) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u32 %r1, [s];
  ld.param.u64 %rd1, [s+8];
  st.global.b32 [%rd1], %r1;
  ret;
}
// Two warps write one byte of shared memory, without a barrier.
.visible .entry race(.param .u64 p) .maxntid 64, 1, 1 {
  .shared .align 4 .b8 s[4];
  .local .align 4 .b8 l[8];
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, %tid.x;
  st.local.u32 [l], %r1;
  st.shared.u32 [s], %r1;
  ret;
}
"""


@pytest.fixture(scope="module")
def module() -> bitmma.PtxModule:
    return bitmma.PtxModule(MODULE)


def code_of(call) -> str:
    with pytest.raises(bitmma.Error) as error:
        call()
    return error.value.violations[0].code


def test_a_module_tells_its_entries_and_variables(module):
    assert module.target == "sm_90a"
    assert list(module.entries) == ["add", "get", "copy", "of_struct", "race"]
    add = module.entries["add"]
    assert add.parameters == [("p", "u64", 8, 0, 8), ("n", "u32", 4, 8, 4)] and add.parameter_bytes == 12
    assert (add.required_block, add.most_block, add.required_cluster) == ((), (), ())
    assert (add.most_cluster, add.grid_of_clusters) == (0, False)
    assert module.entries["get"].required_block == (1, 1, 1) and module.entries["race"].most_block == (64, 1, 1)
    assert module.variables == {"count": ("count", "global", "u32", 4, 4), "scale": ("scale", "const", "f32", 8, 4)}
    assert module.variables["scale"].space == "const"
    race = bitmma.kernel(module, "race", target="H100")
    assert (race.name, race.shared_bytes, race.local_bytes, race.target) == ("race", 4, 8, "sm_90a")
    assert bitmma.kernel(module, "get").name == "get"
    assert repr(module) == "PtxModule(5 entries, 2 variables)"
    with pytest.raises(bitmma.Error, match="entry"):
        bitmma.kernel(module)


def test_variables_keep_over_launches_what_kernels_and_the_host_write(module):
    memory = bitmma.Memory()
    add, get = bitmma.kernel(module, "add"), bitmma.kernel(module, "get")
    p = memory.allocate(8)
    add[1, 1](p, 5, memory=memory)
    assert memory.array(p, 1, np.uint32) == 12
    add[1, 1](parameters=struct.pack("<QI", p, 1), memory=memory)
    assert memory.array(p, (), np.uint32) == 13
    count = memory.variable(module, "count")
    assert count in memory.allocations and count.bytes == 4
    assert memory.read(count.address, 4) == memory.read_variable(module, "count") == struct.pack("<I", 13)
    memory.write_variable(module, "count", np.array([100], np.uint32))
    add[1, 1](np.uint64(p), 1, memory=memory)
    assert memory.array(p, 1, np.uint32) == 101
    memory.write_variable(module, "scale", struct.pack("<f", 9), 4)
    get[1, 1](p, memory=memory)
    assert memory.array(p, 1, np.float32) == 9
    assert struct.unpack("<2f", memory.read_variable(module, "scale")) == (1, 9)
    assert memory.read_variable(module, "scale", 4) == memory.read_variable(module, "scale", 4, 4)
    assert memory.read_variable(module, "scale", 2, 1) == b"\x80"
    # Another memory, a module that is parsed anew, and a launch without a memory begin with the initial bytes.
    assert bitmma.Memory().read_variable(module, "count") == struct.pack("<I", 7)
    assert memory.read_variable(bitmma.PtxModule(MODULE), "count") == struct.pack("<I", 7)
    words = np.zeros(1, np.uint32)
    add[1, 1](words, 1)
    assert words[0] == 8
    for wrong in (lambda: memory.read_variable(module, "count", 1, 4), lambda: memory.read_variable(module, "count", 5),
                  lambda: memory.write_variable(module, "count", b"12345"), lambda: memory.variable(module, "none"),
                  lambda: memory.free(count.address)):  # fmt: skip
        with pytest.raises(bitmma.Error):
            wrong()


def test_a_structure_by_value_has_a_pointer(module):
    memory = bitmma.Memory()
    p = memory.allocate(16)
    bitmma.kernel(module, "of_struct")[1, 1](parameters=struct.pack("<I4xQ", 42, p + 8), memory=memory)
    assert memory.array(p + 8, 1, np.uint32) == 42 and memory.written_bytes(p) == 4
    # A parameter's bytes are an argument, too.
    bitmma.kernel(module, "of_struct")[1, 1](struct.pack("<I4xQ", 43, p + 4), memory=memory)
    assert memory.array(p + 4, 2, np.uint32).tolist() == [43, 42]


def test_the_address_on_the_host_is_that_of_the_device(module):
    memory = bitmma.Memory()
    host = np.zeros(4, np.uint32)
    assert memory.map(host, name="mine") == host.ctypes.data
    assert memory.find(host.ctypes.data + 15) == (host.ctypes.data, 16, "mine")
    bitmma.kernel(module, "add")[1, 1](host.ctypes.data + 8, 5, memory=memory)
    assert host.tolist() == [0, 0, 12, 0]
    memory.fill(host.ctypes.data, 1, 0xFF)
    assert host[0] == 0xFF
    memory.free(host.ctypes.data)
    other = np.zeros((2, 2), ml_dtypes.bfloat16)
    at = memory.map(other, at=0x20000, written=False)
    assert at == 0x20000 and memory.written_bytes(at) == 0
    memory.write(at, np.ones((2, 2), ml_dtypes.bfloat16))
    assert (other == 1).all() and (memory.array(at, (2, 2), "bfloat16") == other).all()
    # The memory keeps the array alive, until it is freed.
    kept = weakref.ref(host)
    memory.map(host)
    del host
    gc.collect()
    assert kept() is not None
    bitmma.kernel(module, "add")[1, 1](memory.allocations[-1].address, 1, memory=memory)
    memory.free(memory.find(kept().ctypes.data).address)
    gc.collect()
    assert kept() is None


def test_unwritten_bytes_are_copied_unwritten_and_name_the_allocation_where_the_host_sees_them(module):
    memory = bitmma.Memory()
    p, copy = memory.allocate(8, name="weights"), bitmma.kernel(module, "copy")
    copy[1, 1](p, memory=memory)
    assert memory.written_bytes(p) == 0
    with pytest.raises(bitmma.Error, match="weights: byte 4 has not been written") as error:
        memory.read(p + 4, 4)
    assert error.value.violations[0].code == "unwritten_read"
    memory.write(p, b"\1\2")
    with pytest.raises(bitmma.Error, match="weights: byte 2 has not been written"):
        memory.read(p, 4)
    memory.write(p, struct.pack("<I", 3))
    copy[1, 1](p, memory=memory)
    assert memory.array(p, 2, np.int32).tolist() == [3, 3]
    # Without checks nothing is a fault, and all bytes count as written.
    q = memory.allocate(8)
    copy[1, 1](q, memory=memory, checks=False)
    assert memory.read(q, 8) == bytes(8) and memory.written_bytes(q) == 8
    assert code_of(lambda: copy[1, 1](0x10, memory=memory)) == "out_of_bounds"
    memory.free(q)
    assert code_of(lambda: copy[1, 1](q, memory=memory)) == "out_of_bounds"


def test_nothing_may_be_in_the_way_of_an_allocation():
    memory = bitmma.Memory()
    assert memory.allocate(64, at=0x10000, name="first") == 0x10000
    for wrong in (lambda: memory.allocate(1, at=0x1003F), lambda: memory.allocate(bytes(2), at=0xFFFF),
                  lambda: memory.map(np.zeros(4), at=0x10000),
                  lambda: memory.allocate(1, at=0x6000_0000_0000)):  # fmt: skip
        assert code_of(wrong) == "out_of_bounds"
    with pytest.raises(bitmma.Error, match="one has 64 bytes at 0x10000"):
        memory.allocate(8, at=0x10008)
    host = np.zeros(4)
    memory.map(host)
    with pytest.raises(bitmma.Error, match="no allocation has"):
        memory.map(host)
    assert [allocation.bytes for allocation in memory.allocations] == [64, 32]
    assert memory.find(0x1003F).name == "first" and memory.find(0x10040) is None
    assert repr(memory) == "Memory(2 allocations)"


def test_arrays_and_bytes_are_copied():
    memory = bitmma.Memory()
    x = np.arange(12, dtype=np.int16).reshape(3, 4)
    for data, expected in ((x, x.tobytes()), (x.T, x.T.tobytes()), (np.broadcast_to(np.int8(3), 4), b"\3" * 4),
                            (b"abc", b"abc"), (bytearray(b"abc"), b"abc"), (memoryview(b"abcd")[::2], b"ac"),
                            (np.zeros(0), b""), (b"", b"")):  # fmt: skip
        at = memory.allocate(data)
        assert memory.read(at, len(expected)) == expected and memory.written_bytes(at) == len(expected)
    at = memory.allocate(np.int64(16))
    assert at % 512 == 0 and memory.written_bytes(at) == 0
    memory.write(at, x[:, ::2])
    memory.write(at + 12, np.float32(1.5))
    assert memory.array(at, 6, np.int16).tolist() == [0, 2, 4, 6, 8, 10]
    copy = memory.array(at + 12, 1, np.float32)
    copy[0] = 2
    assert memory.array(at + 12, 1, "float32") == 1.5
    # The end of an allocation has no byte to read, which is no error.
    assert memory.read(at + 16, 0) == b"" and memory.array(at, (3, 0), np.int8).shape == (3, 0)


def test_torch_tensors_are_copied_and_mapped():
    torch = pytest.importorskip("torch", reason="NOT checked: torch is not installed")
    memory, x = bitmma.Memory(), torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    assert memory.array(memory.allocate(x.T), (3, 2), "bfloat16").tolist() == x.T.tolist()
    at = memory.map(x)
    assert at == x.data_ptr()
    memory.write(at, torch.ones(1, dtype=torch.bfloat16))
    assert x[0, 0] == 1
    for wrong in (x.T, torch.zeros(4, device="meta"), torch.zeros(4).to_sparse()):
        with pytest.raises(bitmma.Error, match="array"):
            memory.map(wrong)


def test_races_are_faults_warnings_or_nothing(module):
    race = bitmma.kernel(module, "race")[1, 64]
    assert code_of(lambda: race(0)) == "shared_memory_race"
    for races, counted in (("warning", 2), ("off", 1)):  # the lanes that write different values are a warning always
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            race(0, races=races)
        assert len(caught) == counted and ("barrier" in str(caught[-1].message)) == (races == "warning")
    assert len(race.trace(0, races="off")) == len(race.trace(parameters=bytes(8), races="off")) == 4


def test_blocks_of_a_cooperative_launch_wait_for_each_other():
    ring = bitmma.kernel((DATA / "kernels" / "cooperative.ptx").read_text(), "ring")[3, 32]
    words = np.zeros(6, np.uint32)
    assert code_of(lambda: ring(words)) == "missing_argument"
    ring(words, cooperative=True)
    assert words.tolist() == [100, 101, 102, 101, 1102, 2100]
    assert ring.trace(words, cooperative=True)
    assert ring.debug(words, cooperative=True, line=ring.trace(words, cooperative=True)[3].line)


def test_a_launch_over_a_memory_is_traced_and_stopped(module):
    memory = bitmma.Memory()
    p, add = memory.allocate(4), bitmma.kernel(module, "add")[1, 1]
    steps = add.trace(p, 5, memory=memory)
    assert [step.registers["%r3"] for step in steps if "%r3" in step.registers] == [12]
    line = next(step.line for step in steps if step.statement.startswith("add"))
    stop = add.debug(parameters=struct.pack("<QI", p, 3), memory=memory, line=line)
    assert stop.registers["%r3"] == 15 and memory.read_variable(module, "count") == struct.pack("<I", 12)


def tensor_copy(map_of_tensor, at, out, memory=None):
    load = bitmma.kernel((DATA / "kernels" / "tma.ptx").read_text(), "load_2")
    load[1, 64, 2048](map_of_tensor, at, out, 512, 512, memory=memory)


@pytest.mark.parametrize("options", [{}, {"swizzle": "64"}, {"fill": "nan"}])
def test_an_encoded_tensor_map_is_that_of_an_argument(options):
    tensor = np.arange(64 * 8, dtype=np.float32).reshape(8, 64)
    at, expected = np.array([4, -3], np.int32), np.zeros(512, np.uint8)
    tensor_copy(bitmma.tensor_map(tensor, (8, 16), **options), at, expected)
    assert expected.any()
    memory = bitmma.Memory()
    x, out = memory.allocate(tensor), memory.allocate(512)
    box = bitmma.encode_tensor_map(x, (8, 64), np.float32, (8, 16), **options)
    assert len(box) == 128
    tensor_copy(box, memory.allocate(at), out, memory)
    assert memory.read(out, 512) == expected.tobytes()
    load = bitmma.kernel((DATA / "kernels" / "tma.ptx").read_text(), "load_2")
    again = memory.allocate(512)
    parameters = box + struct.pack("<QQII", memory.allocate(at), again, 512, 512)
    load[1, 64, 2048](parameters=parameters, memory=memory)
    assert memory.read(again, 512) == expected.tobytes()


def test_a_tensor_map_may_be_of_a_part_of_an_array():
    whole, at = np.arange(64 * 16, dtype=np.float32).reshape(16, 64), np.zeros(2, np.int32)
    part, memory, expected = whole[::2, 8:40], bitmma.Memory(), np.zeros(512, np.uint8)
    tensor_copy(bitmma.tensor_map(np.ascontiguousarray(part), (8, 16)), at, expected)
    x, out = memory.allocate(whole), memory.allocate(512)
    box = bitmma.encode_tensor_map(x + 8 * 4, part.shape, part.dtype, (8, 16), strides=part.strides)
    tensor_copy(box, memory.allocate(at), out, memory)
    assert memory.read(out, 512) == expected.tobytes()


def test_threads_may_share_a_memory(module):
    memory, add = bitmma.Memory(), bitmma.kernel(module, "add")[1, 1]

    def work():
        for _ in range(50):
            at = memory.allocate(4)
            add(at, 1, memory=memory)
            memory.free(at)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.read_variable(module, "count") == struct.pack("<I", 207)
    assert [allocation.name for allocation in memory.allocations] == ["variable count"]


MEMORY = bitmma.Memory()
SPARE = MEMORY.allocate(64)


@pytest.mark.parametrize(
    "call, field",
    [
        (lambda m: bitmma.kernel(m, "add")[1, 1](5, 1, memory=5), "memory"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](np.zeros(1), 1, memory=MEMORY), "p"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](bitmma.tensor_map(np.zeros(16), (2,)), 1, memory=MEMORY), "p"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](SPARE, 2**40, memory=MEMORY), "n"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](2**64, 1, memory=MEMORY), "p"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](SPARE, memory=MEMORY), "arguments"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](SPARE, 1, memory=MEMORY, parameters=bytes(12)), "parameters"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](memory=MEMORY, parameters=bytes(16)), "parameters"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](memory=MEMORY, parameters=5), "parameters"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](SPARE, 1, memory=MEMORY, races="none"), "races"),
        (lambda m: bitmma.kernel(m, "add")[1, 1](SPARE, 1, memory=MEMORY, races=np.ones(2)), "races"),
        (lambda m: bitmma.kernel(m, "none"), "entry"),
        (lambda m: bitmma.kernel(m, "add", fmad="no"), "fmad"),
        (lambda m: bitmma.kernel(m, "add", target="H10O"), "target"),
        (lambda m: bitmma.kernel(5), "ptx"),
        (lambda m: MEMORY.allocate(2**60), "bytes"),
        (lambda m: MEMORY.allocate(1.5), "bytes"),
        (lambda m: MEMORY.allocate([1, 2]), "bytes"),
        (lambda m: MEMORY.map(np.broadcast_to(np.zeros(1), 4)), "array"),
        (lambda m: MEMORY.map(np.zeros((4, 4)).T), "array"),
        (lambda m: MEMORY.map(np.float32(1)), "array"),
        (lambda m: MEMORY.write(SPARE, 5), "data"),
        (lambda m: MEMORY.write(SPARE, np.ma.masked_array(np.zeros(4), [1, 0, 0, 0])), "data"),
        (lambda m: MEMORY.write(SPARE + 60, bytes(8)), "address"),
        (lambda m: MEMORY.fill(SPARE, 8, 256), "value"),
        (lambda m: MEMORY.read(SPARE, -1), "bytes"),
        (lambda m: MEMORY.read(SPARE + 60, 8), "address"),
        (lambda m: MEMORY.array(SPARE, 4, "u4"), "dtype"),  # NumPy's uint32, PTX's four bits
        (lambda m: MEMORY.array(SPARE, 4, object), "dtype"),
        (lambda m: MEMORY.array(SPARE, (2**62, 2**62), np.int8), "shape"),
        (lambda m: MEMORY.array(SPARE, (0,) * 100, np.int8), "shape"),
        (lambda m: MEMORY.variable(MODULE, "count"), "module"),
        (lambda m: MEMORY.variable(m, None), "name"),
        (lambda m: MEMORY.read_variable(m, "count", -1), "offset"),
        (lambda m: bitmma.encode_tensor_map(-16, (8, 64), np.float16, (8, 64)), "address"),
        (lambda m: bitmma.encode_tensor_map(0, (8, 64), np.complex128, (8, 64)), "dtype"),
        (lambda m: bitmma.encode_tensor_map(0, (), np.float16, ()), "shape"),
        (lambda m: bitmma.encode_tensor_map(0, (2**32,) * 3, np.float16, (1, 1, 64)), "shape"),
        (lambda m: bitmma.encode_tensor_map(0, (8, 64), np.float16, "64"), "box"),
        (lambda m: bitmma.encode_tensor_map(0, (8, 64), np.float16, (8, 64), strides=(128, 4)), "strides"),
        (lambda m: bitmma.encode_tensor_map(0, (8, 64), np.float16, (8, 64), swizzle="16"), "swizzle"),
        (lambda m: bitmma.encode_tensor_map(0, (8, 64), np.float16, (8, 64), fill=0), "fill"),
    ],
)
def test_wrong_arguments_are_named(module, call, field):
    with pytest.raises(bitmma.Error) as error:
        call(module)
    assert error.value.violations[0].field == field
