# SPDX-License-Identifier: MIT
"""The command `python3 -m bitmma replay`."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from dataclasses import asdict

from ._errors import Error
from ._replay import compare_captures, replay

_about = """Recomputes what tools/capture.py captured on a GPU, operator by operator, and compares every stored bit.

examples:
  python3 -m bitmma replay captured                    which operators give the recorded bits
  python3 -m bitmma replay captured --weights model/   with the model's safetensors files
  python3 -m bitmma replay captured --end-to-end       from the inputs alone
  python3 -m bitmma replay captured --against other    the first operator where two captures differ, and why
  python3 -m bitmma replay captured --rows 16 --json   fewer rows; a report for programs

exit code: 0: no output differs, 1: an output differs, 2: nothing was compared, or the request cannot be fulfilled"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python3 -m bitmma replay", description=_about, formatter_class=argparse.RawDescriptionHelpFormatter
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
    options = parser.parse_args(arguments)
    if options.against is not None:
        for name, value in (
            ("--rows", options.rows),
            ("--end-to-end", options.end_to_end),
            ("--no-explain", options.no_explain),
            ("--all", options.all),
        ):
            if value:
                parser.error(f"{name} has no effect beside --against")
    shows_progress = sys.stderr.isatty() and not options.json
    try:
        if options.against is not None:
            compared = compare_captures(
                options.capture, options.against, weights=options.weights, threads=options.threads
            )
            document = asdict(compared) | {"same": compared.same}
            print(json.dumps(document) if options.json else compared)
            return 0 if compared.same else 1 if compared.index is not None else 2

        def progress(done: int, of: int) -> None:
            print(f"\r{done} of {of} operators", end="" if done < of else "\r\033[K", file=sys.stderr, flush=True)

        replayed = replay(
            options.capture,
            weights=options.weights,
            rows=options.rows,
            end_to_end=options.end_to_end,
            explain=not options.no_explain,
            threads=options.threads,
            progress=progress if shows_progress else None,
        )
    except Error as error:
        print(f"bitmma replay: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(replayed.to_dict()))
    else:
        if options.all:
            print("\n".join(str(verdict) for verdict in replayed.verdicts))
        print(replayed)
    return 0 if replayed.same else 1 if replayed.first is not None else 2


def command(arguments: list[str]) -> int:
    """The same, where an exception of Python does not end with 1, which means that an output differs."""
    try:
        return main(arguments)
    except Exception:  # noqa: BLE001 - a fault of bitmma; its traceback is printed
        traceback.print_exc()
        return 2
