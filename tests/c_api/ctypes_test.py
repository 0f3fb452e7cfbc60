"""The shared library from Python's ctypes, with nothing but the standard library.

    python3 ctypes_test.py libbitmma.so DATA_FOLDER

Results of a real H200 and H100, bit for bit; errors; many threads on one instruction.
"""

import ctypes
import json
import os
import struct
import sys
import threading
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p

OK, INVALID = 0, 1
F16, F32, E4M3 = 0, 3, 5  # of bitmma_format


class View(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("batch_stride", c_int64), ("row_stride", c_int64), ("col_stride", c_int64)]


class Operands(ctypes.Structure):
    _fields_ = [(name, View) for name in ("a", "b", "c", "scale_a", "scale_b", "metadata")]


class Matrix(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("format", c_int),
        ("rows", c_int64),
        ("cols", c_int64),
        ("row_stride", c_int64),
        ("col_stride", c_int64),
    ]


class GemmInputs(ctypes.Structure):
    _fields_ = [(name, Matrix) for name in ("a", "b", "c", "bias", "scale_a", "scale_b", "sfa", "sfb")] + [
        ("row_numbers", c_void_p),
        ("col_numbers", c_void_p),
        ("whole_m", c_int64),
        ("whole_n", c_int64),
    ]


class Array(ctypes.Structure):
    _fields_ = [("elements", c_void_p), ("element_bytes", c_size_t), ("rank", c_size_t), ("extents", c_int64 * 4)]


class Violation(ctypes.Structure):
    _fields_ = [(name, c_char_p) for name in ("field", "seen", "legal", "fix", "source")]


def load(path):
    library = ctypes.CDLL(path)
    library.bitmma_last_error.restype = c_char_p
    library.bitmma_version.restype = c_char_p
    library.bitmma_error_count.restype = c_size_t
    library.bitmma_plans_at.restype = c_void_p
    library.bitmma_plans_count.restype = c_size_t
    library.bitmma_error_at.argtypes = [c_size_t, POINTER(Violation)]
    library.bitmma_mma.argtypes = [c_void_p, c_char_p, c_int64, POINTER(Operands), c_void_p, c_int]
    library.bitmma_gemm.argtypes = [c_void_p, POINTER(GemmInputs), c_void_p, c_int]
    library.bitmma_state_set_array.argtypes = [c_void_p, c_char_p, c_void_p, c_size_t, c_size_t, POINTER(c_int64)]
    library.bitmma_state_set_number.argtypes = [c_void_p, c_char_p, c_uint64]
    return library


def read_tensors(path):
    """The tensors of a safetensors file: name -> (shape, bytes)."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (entry["shape"], data[begin:end])
    return tensors


class Tests:
    def __init__(self, library, data):
        self.library, self.data = library, data

    def ok(self, status):
        assert status == OK, self.library.bitmma_last_error().decode()

    def refused(self, status, text):
        error = self.library.bitmma_last_error().decode()
        assert status == INVALID and text in error, (status, error)

    def instruction(self, text):
        handle = c_void_p()
        self.ok(self.library.bitmma_instruction_parse(text, byref(handle)))
        return handle

    def executes_registers_of_an_h200(self):
        name = "mma_sync_aligned_m16n8k32_row_col_f32_e4m3_e5m2_f32"
        tensors = read_tensors(os.path.join(self.data, "golden/sm_90a/mma_sync", name + ".safetensors"))
        mma = self.instruction(b"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32")
        for case in range(tensors["d_regs"][0][0]):
            state = c_void_p()
            self.ok(self.library.bitmma_state_create(byref(state)))
            recorded = b""
            for field in ("a_regs", "b_regs", "c_regs", "d_regs"):
                (_, lanes, registers), data = tensors[field]
                size = lanes * registers * 4
                part = data[case * size : (case + 1) * size]
                if field == "d_regs":
                    recorded = part
                else:
                    extents = (c_int64 * 2)(lanes, registers)
                    self.ok(self.library.bitmma_state_set_array(state, field.encode(), part, 4, 2, extents))
            self.ok(self.library.bitmma_execute(mma, b"sm_90a", state))
            array = Array()
            self.ok(self.library.bitmma_state_get_array(state, b"d_regs", byref(array)))
            assert list(array.extents)[: array.rank] == [32, 4]
            assert ctypes.string_at(array.elements, 32 * 4 * 4) == recorded, f"case {case} differs"
            self.library.bitmma_state_destroy(state)
        self.library.bitmma_instruction_destroy(mma)

    def multiplies_a_product_of_an_h100(self):
        tensors = read_tensors(os.path.join(self.data, "products/nvjet_algo2_e4m3_k4096.safetensors"))
        (m, k), a = tensors["a"]
        (n, _), b = tensors["b_t"]
        recorded = tensors["d"][1]
        a, b = ctypes.create_string_buffer(a, len(a)), ctypes.create_string_buffer(b, len(b))
        inputs = GemmInputs(a=Matrix(ctypes.addressof(a), E4M3, m, k), b=Matrix(ctypes.addressof(b), E4M3, k, n, 1, k))
        plans = c_void_p()
        self.ok(self.library.bitmma_plans_named(b"nvjet-algo2", byref(inputs), F32, None, byref(plans)))
        assert self.library.bitmma_plans_count(plans) == 1
        d = ctypes.create_string_buffer(len(recorded))
        self.ok(self.library.bitmma_gemm(self.library.bitmma_plans_at(plans, c_size_t(0)), byref(inputs), d, 2))
        assert d.raw == recorded
        self.library.bitmma_plans_destroy(plans)

    def says_what_is_wrong(self):
        library = self.library
        handle = c_void_p()
        self.refused(
            library.bitmma_instruction_parse(b"wgmma.mma_async.sync.aligned.m64n8k16.f32.f15.f16", byref(handle)), "f15"
        )
        assert not handle.value
        mma = self.instruction(b"wgmma.mma_async.sync.aligned.m64n12k8.f32.f16.f16")
        self.refused(library.bitmma_instruction_check(mma, b"sm_80"), "n = 12")
        violations = {}
        for i in range(library.bitmma_error_count()):
            one = Violation()
            self.ok(library.bitmma_error_at(i, byref(one)))
            violations[one.field] = one.seen
        assert violations[b"n"] == b"12" and violations[b"k"] == b"8" and violations[b"target"] == b"sm_80", violations
        library.bitmma_instruction_destroy(mma)

    def multiplies_in_many_threads(self):
        mma = self.instruction(b"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
        wrong = []

        def work(number):
            # number + 1 times 1 in every product : 16(number + 1), and an error of this thread's own now and then.
            a = (ctypes.c_uint16 * 256)()
            values = (c_float * 256)(*[number + 1] * 256)
            self.library.bitmma_from_floats(F16, c_size_t(256), values, a)
            b = (ctypes.c_uint16 * 128)(*[0x3C00] * 128)
            d = (c_float * (50 * 128))()
            operands = Operands(a=View(ctypes.addressof(a), 0, 32, 2), b=View(ctypes.addressof(b), 0, 16, 2))
            for turn in range(20):
                target = [b"sm_80", b"sm_90a", None][turn % 3]
                status = self.library.bitmma_mma(mma, target, 50, byref(operands), d, 1 + turn % 2)
                if status != OK or list(d) != [16.0 * (number + 1)] * len(d):
                    wrong.append((number, turn))
                status = self.library.bitmma_mma(mma, b"sm_%d" % number, 1, byref(operands), d, 1)
                if status != INVALID or f"sm_{number}:" not in self.library.bitmma_last_error().decode():
                    wrong.append((number, turn, "error"))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong
        self.library.bitmma_instruction_destroy(mma)


def main():
    tests = Tests(load(sys.argv[1]), sys.argv[2])
    tests.executes_registers_of_an_h200()
    tests.multiplies_a_product_of_an_h100()
    tests.says_what_is_wrong()
    tests.multiplies_in_many_threads()
    print("bitmma", tests.library.bitmma_version().decode(), "from ctypes: all bits and errors are as they must be")


if __name__ == "__main__":
    main()
