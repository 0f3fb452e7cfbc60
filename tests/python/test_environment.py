"""No result depends on the caller's floating-point environment, and every call leaves that environment as it was.

The examples of the docstrings and `CALLS` run in every environment. A public name that neither has an example nor is in
`CALLS` needs an entry, with its reason, in `NOT_RUN`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import dataclasses
import doctest
import functools
import importlib
import inspect
import pkgutil
import platform
import types
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import bitmma
from bitmma import datasets, layers, layout, math, operators, testing
from conftest import DATA

libm = ctypes.CDLL(ctypes.util.find_library("m"))
X86 = platform.machine() == "x86_64"
Settings = ctypes.c_uint32 * 128  # more than any fenv_t has


def settings() -> list[int]:
    """The control words of SSE and of the x87."""
    now = Settings()
    libm.fegetenv(now)
    return [now[7], now[0] & 0xFFFF] if X86 else list(now[:2])


@functools.cache
def initial():
    now = Settings()
    libm.fegetenv(now)
    return now


def use(mxcsr: int, x87: int) -> None:
    """Sets the thread's environment: of x86-64's fenv_t, words 0 and 7."""
    now = Settings(*initial())
    now[0], now[7] = now[0] & 0xFFFF0000 | x87, mxcsr
    libm.fesetenv(now)


ROUNDING = {"down": 0x400, "up": 0x800, "toward zero": 0xC00}  # <cfenv>'s on x86-64
ENVIRONMENTS = {
    "flush to zero": (0x1F80 | 0x8000, 0x37F),
    "denormals are zero": (0x1F80 | 0x40, 0x37F),
    "both": (0x1F80 | 0x8040, 0x37F),
    "down": (0x1F80 | 0x2000, 0x37F | 0x400),
    "up": (0x1F80 | 0x4000, 0x37F | 0x800),
    "toward zero": (0x1F80 | 0x6000, 0x37F | 0xC00),
    "x87 of 24 bits": (0x1F80, 0x07F),
    "all exceptions unmasked": (0, 0x340),
}
pytestmark = pytest.mark.skipif(
    not X86 or platform.libc_ver()[0] != "glibc", reason="sets the registers of x86-64 through glibc's fenv_t"
)

DATASET = "nvjet_algo2_e4m3"
MODULES = (bitmma, datasets, layers, layout, math, operators, testing)
UNWALKED = {  # modules without public names, or that call bitmma's own public functions
    "_core": "the library, which the functions of bitmma call",
    "adapters": "need Triton or JAX; they call bitmma.mma",
    "distributed": "needs dask; its tasks call public functions",
    "_torch_overrides": "needs torch; it calls bitmma.operators",
    "plot": "needs matplotlib; it draws what bitmma.testing computes",
    "record_triton": "needs Triton and a GPU; it records and computes nothing",
    "torch": "needs torch; its rules call public functions",
}


def public_functions():
    for module in MODULES:
        for name in getattr(module, "__all__", None) or [var for var in vars(module) if not var.startswith("_")]:
            value = getattr(module, name)
            if inspect.isroutine(value) and (module is bitmma or inspect.unwrap(value).__module__ == module.__name__):
                yield module, name, value


class Watch:
    """Calls functions in an environment, and finds those that change it."""

    def __init__(self, environment: str | None) -> None:
        self.environment = ENVIRONMENTS.get(environment)
        self.changed: list[str] = []

    def call(self, name, function, *args, **kwargs):
        if self.environment is None:
            return function(*args, **kwargs)
        libm.fesetenv(initial())
        use(*self.environment)
        before = settings()
        try:
            return function(*args, **kwargs)
        finally:
            after = settings()
            libm.fesetenv(initial())
            if before != after:
                self.changed.append(f"{name}: {before} became {after}")

    def watched(self, name, function):
        @functools.wraps(function)
        def called(*args, **kwargs):
            return self.call(name, function, *args, **kwargs)

        return called

    def namespace(self, module):
        """The names of a module, with its functions watched."""
        names = {}
        for name, var in vars(module).items():
            if name.startswith("__"):
                continue
            if var in MODULES and var is not module:
                names[name] = types.SimpleNamespace(**self.namespace(var)) if var is not bitmma else var
            else:
                names[name] = self.watched(name, var) if inspect.isroutine(var) and hasattr(var, "__wrapped__") else var
        return names


class Outputs(doctest.DocTestRunner):
    """Collects what examples print."""

    def __init__(self) -> None:
        super().__init__(verbose=False)
        self.lines: list[str] = []

    def report_start(self, out, test, example):
        pass

    def report_success(self, out, test, example, got):
        self.lines.append(got)

    def report_failure(self, out, test, example, got):
        self.lines.append(got)

    def report_unexpected_exception(self, out, test, example, exc_info):
        self.lines.append(repr(exc_info[1]))


def outputs_of_examples(environment: str | None) -> tuple[dict[str, list[str]], list[str]]:
    watch, printed = Watch(environment), {}
    finder = doctest.DocTestFinder(recurse=False)
    top = watch.namespace(bitmma)
    for module, key, function in public_functions():
        names = {"np": np, **top, **watch.namespace(module)}
        for example in finder.find(inspect.unwrap(function), key, module=False, globs=names):
            runner = Outputs()
            runner.run(example, out=lambda text: None, clear_globs=False)
            printed[f"{module.__name__}.{key}"] = runner.lines
    return printed, watch.changed


def frozen(value):
    """A value of bits: what two results must have in common."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(value)
        return str(array.dtype), array.shape, array.tobytes()
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return {key: frozen(part) for key, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: frozen(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not field.name.startswith("_")
        }
    if isinstance(value, (list, tuple, bitmma.PlanSearch)):
        return [frozen(part) for part in value]
    if isinstance(value, bitmma.Plan):
        return str(value.to_dict()) if hasattr(value, "to_dict") else str(value)
    if isinstance(value, bitmma.ProductTrace):
        return [frozen(value.errors), str(value)]
    return value if isinstance(value, (bytes, bool, int, str, type(None))) else str(value)


def normal(*shape, scale=1.0, dtype=np.float32):
    """The same numbers in every call."""
    return (np.random.default_rng(shape).standard_normal(shape) * scale).astype(dtype)


bf16, fp8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
SPARSE_FP8 = "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32"
SPLIT = {
    "instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
    "split_k": {"count": 3, "unit": 64, "rule": "nvjet"},
}
BLOCKS = {
    "instruction": "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3",
    "promotion": {"every": 128, "scale": "fma"},
}
SMALL, SMALLER = normal(16, 64, scale=1e-22), normal(64, 16, scale=1e-20)
A, B = normal(16, 192, dtype=bf16), normal(192, 16, dtype=bf16)
A8, B8 = normal(16, 256, dtype=fp8), normal(256, 8, dtype=fp8)
WIDE, NARROW = normal(16, 96, dtype=np.float64), normal(96, 8, dtype=np.float64)
C = normal(16, 16)
DEEP = normal(64, scale=1e-39)  # subnormal f32
PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 p, .param .f32 by, .param .f64 to)
{
  .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .f64 %fd<6>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [p];
  ld.param.f32 %f0, [by];
  ld.param.f64 %fd0, [to];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd1, %r0, 4;
  add.s64 %rd2, %rd0, %rd1;
  ld.global.f32 %f1, [%rd2];
  mul.rn.f32 %f2, %f1, %f0;
  cvt.f64.f32 %fd1, %f2;
  mul.rn.f64 %fd2, %fd1, 0.1;
  add.rn.f64 %fd3, %fd2, %fd0;
  cvt.rn.f32.f64 %f3, %fd3;
  st.global.f32 [%rd2], %f3;
  ret;
}
"""


def launched(watch, *numbers):
    memory = np.concatenate([normal(16), DEEP[:16]])
    run = bitmma.kernel(PTX)[1, 32]
    watch.call("kernel", run, memory, *numbers)
    return memory


def of_file(tmp_path: Path) -> Path:
    path = tmp_path / "case.safetensors"
    if not path.exists():
        bitmma.write(path, bitmma.golden(MMA, cases=2, seed=3))
    return path


def products(watch):
    """Every kind of host arithmetic in a product."""
    call = functools.partial(watch.call, "gemm", bitmma.gemm)
    yield call(SMALL, SMALLER, "sgemm")
    yield call(SMALL, SMALLER, "sgemm", threads=4)
    yield call(A, B, SPLIT)
    yield call(A, B, "flat", c=C, alpha=0.1, beta=1e-39)
    yield call(A, B, "flat", c=C, alpha=np.float32(1e-39), beta=np.float64(1) / 3)
    yield call(A, B, "flat", bias=normal(16), out_dtype="f16")
    yield call(A, B, "flat", scale_a=0.3, scale_b=1e-38)
    yield call(A8, B8, BLOCKS, scale_a=normal(16, 2, scale=1e-30), scale_b=normal(2, 8, scale=1e-8))
    yield call(
        WIDE,
        NARROW,
        {
            "instruction": "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
            "split_k": {"count": 3, "unit": 16},
            "output": {"type": "f64"},
        },
    )
    yield call(A[None].repeat(3, 0), B, SPLIT, threads=2)


def calls(watch, tmp_path, environment=None):
    """Calls of the functions without an example, and of those whose examples need no host floats; by name."""
    call, file = watch.call, of_file(tmp_path)
    read = bitmma.read(file)
    case = read[0]
    d = bitmma.gemm(A, B, SPLIT)
    product, words = datasets.load(DATASET), np.concatenate([DEEP, normal(64)])

    def of(name, function, *args, **kwargs):
        return name, lambda: call(name, function, *args, **kwargs)

    yield "gemm", lambda: list(products(watch))
    yield "kernel", lambda: [launched(watch, 0.1, 0.2), launched(watch, np.float32(1e-39), 1e-310)]
    yield of("accuracy", bitmma.accuracy, SMALL, SMALLER, bitmma.gemm(SMALL, SMALLER, "sgemm"), threads=2)
    yield of("all_instructions", lambda: [str(instruction) for instruction in bitmma.all_instructions()][:50])
    yield of("catalogue", bitmma.catalogue)
    yield of("compare", bitmma.compare, file, file)
    yield of("explain", bitmma.explain, case, 3, 5)
    yield of("explain_product", bitmma.explain_product, A, B, SPLIT, 3, 4)
    yield "explain of sgemm", lambda: call("explain_product", bitmma.explain_product, SMALL, SMALLER, "sgemm", 3, 4)
    yield of("fault_catalogue", bitmma.fault_catalogue, read)
    yield of("faulty_product", bitmma.faulty_product, A, B, "a.row.0")
    yield of("product_faults", bitmma.product_faults, A, B)
    yield of("fields", bitmma.fields, MMA)
    yield of("find_plans", bitmma.find_plans, A, B, d)
    yield "find_plans of bf16", lambda: call("find_plans", bitmma.find_plans, A, B, d.astype(bf16), alpha=1, threads=2)
    yield of("generated", bitmma.generated, "bf16", (8, 64), 7, "a")
    for distribution in ("normal", "bits", "subnormal", "ties"):
        yield (
            f"golden {distribution}",
            lambda instruction=distribution: [
                call("golden", bitmma.golden, MMA, distribution=instruction, seed=4)[0].operands
            ],
        )
    yield of("golden", bitmma.golden, MMA)
    yield of("lint", bitmma.lint, case)
    yield of("diagnose", bitmma.diagnose, read, [instruction.computed_d() + 1 for instruction in read])
    yield of("read", bitmma.read, file)
    yield of("read_product", bitmma.read_product, datasets.path(DATASET))
    yield "gemm of a product", lambda: call("Product.gemm", product.gemm)
    yield of("verify", bitmma.verify, file)
    yield of("write", bitmma.write, tmp_path / "again.safetensors", read)
    yield "what write wrote", lambda: (tmp_path / "again.safetensors").read_bytes()
    capture = DATA / "captures" / "tiny_llama"
    if environment in (None, "both", "all exceptions unmasked"):  # takes seconds
        yield "replay", lambda: [str(verdict) for verdict in call("replay", bitmma.replay, capture).verdicts]
    if environment in (None, "up"):
        yield "compare_captures", lambda: str(call("compare_captures", bitmma.compare_captures, capture, capture))
    yield of("names", datasets.names)
    yield of("path", datasets.path, DATASET)
    yield of("load", datasets.load, DATASET)
    for name in ("about", "metadata", "tensors"):
        yield of(name, getattr(datasets, name), DATASET)
    yield of("llama_norm", layers.llama_norm, normal(3, 64, dtype=bf16), normal(64, dtype=bf16))
    yield of(
        "llama",
        layers.llama,
        normal(4, 64, dtype=bf16),
        heads=2,
        kv_heads=1,
        weights=WEIGHTS,
        plans=dict.fromkeys(PRODUCTS, "flat"),
    )
    yield of("fragment", layout.fragment, MMA, "a")
    yield of("fragment_svg", layout.fragment_svg, MMA, "a")
    yield of("ldmatrix", layout.ldmatrix, 4)
    yield of("ldst", layout.ldst, "16x64b", 4)
    yield of("operand", layout.operand, case, "a")
    yield of("scales", layout.scales, 200, 8)
    yield of("shape_and_stride", layout.shape_and_stride, "(2,3):(1,4)")
    yield of("smem_svg", layout.smem_svg, 0x4000004000010000, 64, 16)
    yield of("tmem", layout.tmem, 128, 8)
    yield of("tmem_a", layout.tmem_a, 128, 16)
    yield of("tmem_metadata", layout.tmem_metadata, 128)
    for name in ("ex2", "lg2", "sin", "cos", "tanh", "rcp", "rsqrt", "sqrt"):
        yield name, lambda instruction=name: call(instruction, getattr(math, instruction), words, threads=2)
    for name in ("add", "sub", "mul", "div"):
        yield (
            name,
            lambda instruction=name: [
                call(instruction, getattr(math, instruction), words, words[::-1].copy()),
                call(instruction, getattr(math, instruction), words, 0.1),
            ],
        )
    yield of("fma", math.fma, words, words[::-1].copy(), 1e-39)
    for instruction in ("expf", "logf", "sinf"):
        yield f"c {instruction}", lambda instruction=instruction: call("c", math.c, instruction, words)
    yield "cvt", lambda: call("cvt", bitmma.cvt, "cvt.rn.f16.f32", words)
    for name in ("softmax", "log_softmax", "sum", "mean", "layer_norm", "rms_norm"):
        yield (
            f"operators.{name}",
            lambda instruction=name: call(instruction, getattr(operators, instruction), normal_rows(), threads=2),
        )
    yield "operators.layer_norm", lambda: call("layer_norm", operators.layer_norm, normal_rows(), eps=1e-39)
    yield (
        "operators.attention",
        lambda: call("attention", operators.attention, *(instruction.astype(bf16) for instruction in QKV)),
    )
    yield "operators.cross_entropy", lambda: call("cross_entropy", operators.cross_entropy, normal_rows(), np.arange(4))
    for instruction in bitmma.quantize_recipes():
        yield (
            f"quantize {instruction['name']}",
            lambda instruction=instruction: attempted(
                lambda: call(
                    "quantize",
                    bitmma.quantize,
                    QUANTIZED.astype(INPUTS[instruction["inputs"][0]]),
                    instruction["name"],
                    threads=2,
                )
            ),
        )
    yield (
        "dequantised product",
        lambda: call(
            "quantized_gemm",
            bitmma.quantized_gemm,
            bitmma.quantize(QUANTIZED, "ocp_mxfp8_e4m3"),
            bitmma.quantize(QUANTIZED, "ocp_mxfp8_e4m3"),
        ),
    )
    yield "matmul", lambda: call("matmul", bitmma.matmul, A, B, target=GPU, nearest=True)
    yield (
        "library_choice",
        lambda: call("library_choice", bitmma.library_choice, 1000, 1000, 1000, target=GPU, nearest=True),
    )
    yield "difference", lambda: call("difference", testing.difference, words, np.nextafter(words, np.float32(3)))
    yield (
        "fields of a plan",
        lambda: call("Plan.fields", lambda: bitmma.Plan({**SPLIT, "epilogue": [{"op": "beta_c", "beta": 0.1}]}).fields),
    )
    yield (
        "plan",
        lambda: str(
            call("Plan", bitmma.Plan, {**SPLIT, "epilogue": [{"op": "alpha_beta", "alpha": 0.1, "beta": 1e-40}]})
        ),
    )
    yield (
        "golden of sparse fp8",
        lambda: call("computed_d", call("golden", bitmma.golden, SPARSE_FP8, target="sm_90a")[0].computed_d),
    )


def attempted(call):
    """The result, or why there is none."""
    try:
        return frozen(call())
    except bitmma.Error as error:
        return [(violation.code, violation.field) for violation in error.violations]


PRODUCTS = ("q", "k", "v", "o", "gate", "up", "down")
WEIGHTS = {
    name: normal(*shape, scale=0.1, dtype=bf16)
    for name, shape in {
        "norm": (64,),
        "norm2": (64,),
        "q": (64, 64),
        "k": (32, 64),
        "v": (32, 64),
        "o": (64, 64),
        "gate": (96, 64),
        "up": (96, 64),
        "down": (64, 96),
    }.items()
}
INPUTS, GPU = {"f16": np.float16, "bf16": bf16, "f32": np.float32}, "H100"
ROWS, QKV, QUANTIZED = normal(4, 96), [normal(1, 2, 16, 64) for _ in range(3)], normal(128, 256)


def normal_rows():
    return ROWS


NOT_RUN: dict[str, str] = {}


@functools.cache
def usual_examples():
    return outputs_of_examples(None)[0]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_examples_print_the_same_in_every_environment(environment):
    printed, changed = outputs_of_examples(environment)
    assert changed == []
    assert {name: got for name, got in printed.items() if got != usual_examples()[name]} == {}


def results(environment, tmp_path):
    watch = Watch(environment)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = {name: frozen(compute()) for name, compute in calls(watch, tmp_path, environment)}
    return values, watch.changed


@pytest.fixture(scope="module")
def usual_results(tmp_path_factory):
    return results(None, tmp_path_factory.mktemp("usual"))[0]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_results_have_the_same_bits_in_every_environment(environment, usual_results, tmp_path):
    values, changed = results(environment, tmp_path)
    assert changed == []
    assert [name for name, value in values.items() if value != usual_results[name] and name != "path"] == []


def test_every_public_function_runs_or_has_a_reason(tmp_path):
    run = {name for name, lines in usual_examples().items() if lines}
    called = {name.split()[0] for name, _ in calls(Watch(None), tmp_path)}
    missing = [
        f"{module.__name__}.{name}"
        for module, name, _ in public_functions()
        if f"{module.__name__}.{name}" not in run and name not in called and f"operators.{name}" not in called
    ]
    assert sorted(missing) == sorted(NOT_RUN)
    walked = {module.__name__ for module in MODULES}
    other = [
        module.name
        for module in pkgutil.iter_modules(bitmma.__path__)
        if f"bitmma.{module.name}" not in walked
        and module.name not in UNWALKED
        and not (
            module.name.startswith("_") and not hasattr(importlib.import_module(f"bitmma.{module.name}"), "__all__")
        )
    ]
    assert other == []


def test_every_public_function_sets_the_environment():
    """`public` sets it: a function without that decorator would compute in its caller's."""
    assert [
        f"{module.__name__}.{name}"
        for module, name, function in public_functions()
        if not hasattr(function, "__wrapped__")
    ] == []
