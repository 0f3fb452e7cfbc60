# SPDX-License-Identifier: MIT
"""python -m bitmma: runs the program in the wheel with the same arguments. `replay` is computed by the package
itself."""

import os
import shutil
import subprocess
import sys
from importlib import metadata

from . import __version__


def program() -> str:
    """The path of the program: the one that this package installed, else the one in PATH."""
    try:
        installed = metadata.files("bitmma") or []
    except metadata.PackageNotFoundError:
        installed = []
    for file in installed:
        if file.name in ("bitmma", "bitmma.exe") and file.parent.name in ("bin", "Scripts"):
            return str(file.locate())
    path = shutil.which("bitmma")
    if path is None:
        sys.exit(
            f"python -m bitmma: the program of bitmma {__version__} is neither beside this Python nor in "
            "PATH. To install it, run `pip install .` in a checkout of bitmma, or build it with tools/setup "
            "and cmake"
        )
    return path


def main() -> None:
    if sys.argv[1:2] == ["replay"]:
        from ._replay_command import command as replay

        sys.exit(replay(sys.argv[2:]))
    words = [program(), *sys.argv[1:]]
    if os.name == "nt":  # execv would return to the shell before the program ends
        sys.exit(subprocess.call(words))
    os.execv(words[0], words)


if __name__ == "__main__":
    main()
