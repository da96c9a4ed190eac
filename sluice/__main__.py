# SPDX-License-Identifier: GPL-2.0-or-later
"""python3 -m sluice"""

from __future__ import annotations

import os
import sys

from sluice import VERSION, errors, output

USAGE = ["Usage: sluice [OPTIONS] COMMAND [ARGS]...", "See: man sluice", ""]


def _without(module: str) -> int:
    """What can be said if Python lacks a module: what to install."""
    missing = f"python module {module}: missing; install python3-{module}"
    missing += f" (Arch: python-{module})"
    is_open = output.prepare()
    if {"-V", "--version"} & set(sys.argv[1:2]):
        return _say([f"sluice {VERSION}"], is_open)
    if {"-h", "--help", "help"} & set(sys.argv):
        return _say([*USAGE, missing], is_open)
    if "_SLUICE_COMPLETE" not in os.environ:  # a shell that completes shows no error
        output.complain(missing)
    return errors.NOT_SUITABLE


def _say(lines: list[str], is_open: bool) -> int:
    try:
        if is_open:
            output.say(lines)
            return errors.FINE
        output.complain(output.CLOSED)
    except OSError as error:
        output.complain(f"output: {error.strerror}; see: man sluice")
    return errors.NO


def main() -> int:
    try:
        return _main()
    finally:
        output.forget_unwritten()


def _main() -> int:
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
