#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether bitmma's rules for products and sums are what a ptxas does: compiles PTX files, and compares with their SASS.

  check_fusions.py FILE.ptx | FILE.safetensors ...     of recorded launches: their modules

Prints what differs and a table. Needs the bitmma package, ptxas and nvdisasm: of CUDA, or BITMMA_PTXAS and
BITMMA_NVDISASM. Exits with 1 where the SASS contradicts a rule that bitmma calls sure.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile

import bitmma
from bitmma._safetensors import read_safetensors

PTXAS, NVDISASM = os.environ.get("BITMMA_PTXAS", "ptxas"), os.environ.get("BITMMA_NVDISASM", "nvdisasm")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def newest_version():
    """The newest PTX version that this ptxas accepts. A module may name a later one than its instructions need."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "k.ptx")
        with open(path, "w") as file:
            file.write(".version 99.9\n.target sm_90a\n.address_size 64\n")
        answer = output_of(PTXAS, "-arch=sm_90a", path, "-o", os.path.join(folder, "k.cubin")).stderr
    found = re.search(r"current version is '([\d.]+)'", answer)
    if not found:
        raise SystemExit(f"{PTXAS} does not report which version of PTX it supports: {answer[:200]}")
    return found[1]


def modules_of(path):
    if path.endswith(".safetensors"):
        for name, tensor in read_safetensors(path)[1].items():
            if name.startswith("ptx."):
                yield name, tensor.tobytes().decode()
    else:
        with open(path) as file:
            yield os.path.basename(path), file.read()


def sass_of(ptx, version):
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = os.path.join(folder, "k.ptx"), os.path.join(folder, "k.cubin")
        with open(source, "w") as file:
            file.write(re.sub(r"^\.version [\d.]+", f".version {version}", ptx, count=1, flags=re.M))
        done = output_of(PTXAS, "-arch=sm_90a", "-lineinfo", source, "-o", cubin)
        return output_of(NVDISASM, "-gp", cubin).stdout if done.returncode == 0 else None


def main(paths):
    if not paths:
        raise SystemExit(__doc__)
    version, table, contradicted = newest_version(), collections.Counter(), 0
    for path in paths:
        for name, ptx in modules_of(path):
            sass = sass_of(ptx, version)
            if sass is None:
                print(f"{path} {name}: not compiled")
                table["modules not compiled"] += 1
                continue
            for entry in re.findall(r"\.entry\s+([\w$]+)", ptx):
                rules = {
                    (fusion["product_line"], fusion["sum_line"]): fusion
                    for fusion in bitmma.kernel(ptx, entry, target="sm_90a").fusions
                }
                table["kernels"] += 1
                for fusion in bitmma.kernel(ptx, entry, target="sm_90a", sass=sass).fusions:
                    lines = fusion["product_line"], fusion["sum_line"]
                    rule = rules.get(lines, {"joined": False, "sure": False, "rule": "none"})
                    said = ("joined" if rule["joined"] else "apart") + ("" if rule["sure"] else ", not sure")
                    table[f"rule: {said}; SASS: {fusion['sass']}"] += 1
                    if fusion["product_line"] == 0 or fusion["sass"] == "both" or fusion["joined"] != rule["joined"]:
                        where = f"{path} {name} {entry}, lines {lines[0]} and {lines[1]}"
                        print(f"{where}: {said} by {rule['rule']}; SASS: {fusion['sass']}")
                        contradicted += rule["sure"] and fusion["sass"] != "none"
    for row, count in sorted(table.items()):
        print(f"{count:6} {row}")
    raise SystemExit(1 if contradicted else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
