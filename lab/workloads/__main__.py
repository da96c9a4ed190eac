# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: one sample of each row named, as JSON lines.

python3 -m lab.workloads ROWS VARIANTS [SECONDS] [ROUNDS], names joined by commas
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from lab.guest.env import GuestEnv
from lab.row import VARIANTS, Skipped
from lab.workloads import all_rows, measure


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    names = sys.argv[1].split(",")
    variants = sys.argv[2].split(",")
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 3.0
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    module = Path("/out/sluice.ko")
    env = GuestEnv(
        Path(os.environ.get("HELPERS", "/out/bin")),
        module if module.exists() else None,
    )
    known = all_rows()
    rows = [row for row in known if row.name in names or names == ["all"]]
    for _ in range(rounds):
        for row in rows:
            for variant in VARIANTS if variants == ["all"] else variants:
                try:
                    sample = measure(row, variant, seconds, env).to_json()
                except Skipped as reason:
                    sample = {"skipped": str(reason)}
                line = {"row": row.name, "variant": variant, **sample}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
