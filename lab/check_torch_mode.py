#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs what lab/record_torch_mode.py recorded on a GPU on CPU tensors under `bitmma.torch.gpu`, and compares.

  check_torch_mode.py recorded.json                 a table: equal, refused, differ
  check_torch_mode.py recorded.json --list          and a line for each case
  check_torch_mode.py recorded.json --only linear   cases whose names begin so
  check_torch_mode.py recorded.json --nearest       products of shapes that were not recorded, by the nearest one

Needs the bitmma package and PyTorch. Exit code 1: an output differs.
"""

import argparse
import collections
import json
import sys
import time
import warnings

import bitmma.torch
from record_torch_mode import cases, summary


def checked(prepare, entry, target, nearest):
    """ "equal", "differ" or "refused", why, and what was used."""
    run = prepare("cpu")
    try:
        with bitmma.torch.gpu(target, nearest=nearest) as used:
            made = run()
    except bitmma.Error as error:
        return "refused", str(error).partition("\n")[0], None
    outputs = [summary(out) for out in made]
    wrong = [i for i, (out, recorded) in enumerate(zip(outputs, entry["outputs"], strict=True)) if out != recorded]
    if not wrong:
        return "equal", "", used
    out, recorded = outputs[wrong[0]], entry["outputs"][wrong[0]]
    why = f"output {wrong[0]} of {len(outputs)} ({len(wrong)} differ): "
    if (out["shape"], out["dtype"]) != (recorded["shape"], recorded["dtype"]):
        why += f"{out['dtype']} {out['shape']}, recorded {recorded['dtype']} {recorded['shape']}"
    else:
        words = [pair for pair in zip(out["words"], recorded["words"], strict=True) if pair[0] != pair[1]]
        why += f"{len(words)} of {len(out['words'])} words, such as {words[:1]}"
    return "differ", why, used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="recorded.json")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--list", action="store_true", help="print a line for each case")
    parser.add_argument("--nearest", action="store_true", help="products by the kernel of the nearest recorded shape")
    options = parser.parse_args()
    with open(options.file) as file:
        recorded = json.load(file)
    target = next((name for name in ("H100", "H200") if name in recorded.get("gpu", "")), "H200")
    warnings.simplefilter("ignore")
    rows = collections.OrderedDict()
    reasons = collections.Counter()
    for entry, (name, about, number, prepare) in zip(
        recorded["cases"], cases(recorded["calls"], recorded["seed"]), strict=True
    ):
        if entry["seed"] != number or entry["name"] != name:
            raise SystemExit(f"{options.file}: case {name} is of another version of record_torch_mode.py")
        if "refused" in entry or not entry["repeats"] or not name.startswith(options.only):
            continue
        begun = time.time()
        verdict, why, _ = checked(prepare, entry, target, options.nearest)
        rows.setdefault(name, collections.Counter())[verdict] += 1
        if verdict == "refused":
            reasons[why.partition("(")[0] + ": " + why.rpartition("no bits of an ")[2][:90]] += 1
        if options.list or verdict == "differ":
            print(f"{verdict:8} {time.time() - begun:5.1f} s {name} {json.dumps(about)} {why}", flush=True)
    print("| case | equal | refused | differ |\n|---|---|---|---|")
    for name, counts in rows.items():
        print(f"| {name} | {counts['equal']} | {counts['refused']} | {counts['differ']} |")
    total = sum(rows.values(), collections.Counter())
    print(f"| all | {total['equal']} | {total['refused']} | {total['differ']} |")
    for reason, count in reasons.most_common(40):
        print(f"refused ({count}): {reason}")
    return int(total["differ"] > 0)


if __name__ == "__main__":
    sys.exit(main())
