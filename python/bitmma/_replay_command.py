# SPDX-License-Identifier: MIT
"""The command `bitmma replay`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from ._errors import Error
from ._replay import compare_captures, replay

_about = """Recomputes what tools/capture.py captured on a GPU, operator by operator, and compares every stored bit.

examples:
  bitmma replay captured                               which operators give the recorded bits
  bitmma replay captured --weights model/              with the model's safetensors files
  bitmma replay captured --end-to-end                  from the inputs alone
  bitmma replay captured --against other               the first operator where two captures differ, and why
  bitmma replay captured --rows 16 --json              fewer rows; a report for programs

exit code: 0: no output differs, 1: an output differs, 2: nothing was compared, or the request cannot be fulfilled"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "bitmma replay", description=_about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("capture", metavar="CAPTURE", help="the folder that tools/capture.py wrote")
    parser.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="PATH",
        help="a safetensors file with weights of the model, or a folder of such files; may be given several times",
    )
    parser.add_argument(
        "--against", metavar="OTHER", help="a second capture: name the first operator whose outputs differ"
    )
    parser.add_argument(
        "--rows", type=int, metavar="N", help="compare at most N rows of large tensors, and compute N rows of products"
    )
    parser.add_argument(
        "--end-to-end", action="store_true", help="give each operator what the one before was computed to give"
    )
    parser.add_argument("--no-explain", action="store_true", help="do not search for what else gives the recorded bits")
    parser.add_argument("--all", action="store_true", help="print a line for each operator")
    parser.add_argument("--json", action="store_true", help="print a report as JSON")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads (default: 0, all cores)")
    given = parser.parse_args(arguments)
    if given.against is not None:
        for name, value in (
            ("--rows", given.rows),
            ("--end-to-end", given.end_to_end),
            ("--no-explain", given.no_explain),
            ("--all", given.all),
        ):
            if value:
                parser.error(f"{name} has no effect beside --against")
    shows_progress = sys.stderr.isatty() and not given.json
    try:
        if given.against is not None:
            compared = compare_captures(given.capture, given.against, weights=given.weights, threads=given.threads)
            document = asdict(compared) | {"same": compared.same}
            print(json.dumps(document) if given.json else compared)
            return 0 if compared.same else 1 if compared.index is not None else 2

        def progress(done: int, of: int) -> None:
            print(f"\r{done} of {of} operators", end="" if done < of else "\r\033[K", file=sys.stderr, flush=True)

        found = replay(
            given.capture,
            weights=given.weights,
            rows=given.rows,
            end_to_end=given.end_to_end,
            explain=not given.no_explain,
            threads=given.threads,
            progress=progress if shows_progress else None,
        )
    except Error as error:
        print(f"bitmma replay: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps(found.to_dict()))
    else:
        if given.all:
            print("\n".join(str(verdict) for verdict in found.verdicts))
        print(found)
    return 0 if found.same else 1 if found.first is not None else 2
