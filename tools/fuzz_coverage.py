"""Reads the output of `llvm-cov export -summary-only` and prints the covered lines per folder of the project."""

import collections
import json
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parent.parent
reached: collections.Counter[str] = collections.Counter()
lines: collections.Counter[str] = collections.Counter()
for file in json.load(sys.stdin)["data"][0]["files"]:
    path = pathlib.Path(file["filename"])
    if not path.is_relative_to(root):
        continue  # of the system, or of a library
    parts = path.relative_to(root).parts
    if parts[0] not in ("include", "sim", "tools"):
        continue
    folder = "/".join(parts[:2]) + "/" if parts[0] == "sim" else parts[0] + "/bitmma/"
    summary = file["summary"]["lines"]
    for key in (folder, "all"):
        reached[key] += summary["covered"]
        lines[key] += summary["count"]
if not lines:
    sys.exit("tools/fuzz_coverage.py: no file of the project in what llvm-cov wrote")
print("| folder | lines | reached |")
print("|---|---|---|")
for key in sorted(lines, key=lambda key: (key == "all", key)):
    name = key if key == "all" else f"`{key}`"
    print(f"| {name} | {lines[key]:,} | {100 * reached[key] / lines[key]:.1f} % |")
