# SPDX-License-Identifier: GPL-2.0-or-later
"""python3 -m sluice"""

from __future__ import annotations

import os
import sys


def _without(module: str) -> int:
    """What can be said if Python lacks a module: what to install."""
    missing = f"python module {module}: missing; install python3-{module}"
    missing += f" (Arch: python-{module})"
    if {"-V", "--version"} & set(sys.argv[1:2]):
        from sluice import VERSION

        print(f"sluice {VERSION}")
        return 0
    if {"-h", "--help", "help"} & set(sys.argv):
        print(f"Usage: sluice [OPTIONS] COMMAND [ARGS]...\nSee: man sluice\n\n{missing}")
        return 0
    if "_SLUICE_COMPLETE" not in os.environ:  # a shell that completes shows no error
        print(f"sluice: {missing}", file=sys.stderr)
    return 3


def main() -> int:
    try:
        from sluice.cli import main as command
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "sluice":
            raise
        return _without(error.name or "?")
    except KeyboardInterrupt:
        return 130
    return command()


if __name__ == "__main__":
    sys.exit(main())
