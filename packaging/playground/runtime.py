#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes build.ninja for the C++ runtime of the playground: libc++, libc++abi and the unwinder for WebAssembly
exceptions, from the sources in the wheel ziglang.

    runtime.py ZIG FOLDER     ZIG is the folder of the wheel's package; `ninja -C FOLDER` then makes FOLDER/libc++.a
"""

import pathlib
import sys

zig = pathlib.Path(sys.argv[1]).resolve()
folder = pathlib.Path(sys.argv[2])
here = pathlib.Path(__file__).resolve().parent
lib = zig / "lib"

# new.cpp is libc++abi's too. __int128 multiplies by the compiler's own runtime.
left_out = {"new.cpp", "int128_builtins.cpp", "cxa_noexception.cpp", "cxa_thread_atexit.cpp"}


def copied_without_copy_file_range() -> pathlib.Path:
    """operations.cpp takes every system with musl for Linux, whose copy_file_range WASI lacks."""
    source = lib / "libcxx/src/filesystem/operations.cpp"
    text = source.read_text()
    used = "#  define _LIBCPP_FILESYSTEM_USE_COPY_FILE_RANGE"
    assert text.count(used) == 1, f"{source} is not that of ziglang 0.17.1"
    copy = folder / "operations.cpp"
    copy.write_text(text.replace(used, "#  define _LIBCPP_FILESYSTEM_USE_FSTREAM"))
    return copy


def sources() -> list[pathlib.Path]:
    folders = ["libcxx/src", "libcxx/src/filesystem", "libcxx/src/ryu", "libcxxabi/src"]
    paths = [path for name in folders for path in sorted((lib / name).glob("*.cpp"))]
    paths = [path for path in paths if path.name not in left_out and path.name != "operations.cpp"]
    return [*paths, copied_without_copy_file_range()]


folder.mkdir(parents=True, exist_ok=True)
defines = " ".join(
    f"-D{name}"
    for name in [
        "NDEBUG",
        "_LIBCPP_BUILDING_LIBRARY",
        "_LIBCXXABI_BUILDING_LIBRARY",
        "LIBCXX_BUILDING_LIBCXXABI",
        "_LIBCPP_DISABLE_DEPRECATION_WARNINGS",
        "_LIBCXXABI_HAS_THREADS=1",
        "LIBCXXABI_HAS_THREADS",
        "HAVE___CXA_THREAD_ATEXIT_IMPL=0",
    ]
)
includes = f"-I{lib}/libcxx/libc -I{lib}/libcxx/src -I{lib}/libcxx/src/filesystem -I{lib}/libcxxabi/src"
c = (
    "--target=wasm32-wasip1 -mcpu=lime1 -O2 -DNDEBUG -nostdinc -fwasm-exceptions -fexceptions "
    f"-D_LIBUNWIND_HIDE_SYMBOLS -isystem {lib}/include -isystem {lib}/libc/include/wasm-wasi-musl "
    f"-isystem {lib}/libc/include/generic-musl -I{lib}/libunwind/src -I{lib}/libunwind/include"
)
lines = [
    "rule cxx",
    f"  command = {here}/wasmcxx -std=c++23 -O2 -w {defines} {includes} -c $in -o $out",
    "  description = $out",
    "rule c",
    f"  command = {zig}/zig clang {c} -w -c $in -o $out",
    "  description = $out",
    "rule archive",
    f"  command = rm -f $out && {zig}/zig ar rcs $out $in",
    "  description = $out",
]
objects = []
for rule, path in [
    *(("cxx", path) for path in sources()),
    ("c", lib / "libunwind/src/Unwind-wasm.c"),
    ("c", here / "runtime.c"),
]:
    name = str(path).removeprefix(str(lib)).removeprefix(str(here)).removeprefix(str(folder))
    objects.append("objects/" + name.strip("/").replace("/", "_") + ".o")
    lines.append(f"build {objects[-1]}: {rule} {path.resolve()}")
lines.append("build libc++.a: archive " + " ".join(objects))
(folder / "build.ninja").write_text("\n".join(lines) + "\n")
