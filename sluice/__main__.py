# SPDX-License-Identifier: GPL-2.0-or-later
"""python3 -m sluice"""

from __future__ import annotations

import sys


def main() -> int:
    try:
        from sluice.cli import main as command
    except ImportError as error:
        print(
            f"sluice: python module {error.name}: missing; install "
            "python3-click, python3-rich, python3-pyroute2 and "
            "python3-prometheus-client",
            file=sys.stderr,
        )
        return 3
    except KeyboardInterrupt:
        return 130
    return command()


if __name__ == "__main__":
    sys.exit(main())
