# SPDX-License-Identifier: GPL-2.0-or-later
"""python3 -m sluice"""

from __future__ import annotations

import sys


def main() -> int:
    try:
        from sluice.cli import main as command
    except ImportError as error:
        print(
            f"sluice: python module {error.name}: missing; install the distribution's "
            "packages of click, rich, pyroute2 and prometheus_client for Python",
            file=sys.stderr,
        )
        return 3
    except KeyboardInterrupt:
        return 130
    return command()


if __name__ == "__main__":
    sys.exit(main())
