# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: does the job in /out/job.json and leaves a verdict in /out."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

OUT = Path("/out")


def write_json(path: Path, data: object) -> None:
    """Written whole or not at all, also if the VM is lost."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(data, indent=1))
    unfinished.rename(path)


def run_job(job: dict[str, Any]) -> tuple[int, str]:
    # What it says is shown by the host at once.
    with open(OUT / "progress", "a", buffering=1, errors="replace") as progress:
        if job["kind"] == "command":
            done = subprocess.run(
                job["argv"],
                stdin=subprocess.DEVNULL,
                stdout=progress,
                stderr=subprocess.STDOUT,
            )
            status = done.returncode
            return (128 - status if status < 0 else status), f"status {status}"
        # Imported here: a command needs neither.
        if job["kind"] == "bench":
            from lab.guest.rows import run_bench as work
        else:
            from lab.guest.scenarios import run_scenarios as work
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

        def report(result: dict[str, Any]) -> None:
            write_json(OUT / "result.json", {"boot_id": boot_id, **result})

        return work(job, report, lambda text: print(text, file=progress))


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    (OUT / "begun").touch()
    try:
        status, reason = run_job(job)
    except BaseException as error:
        traceback.print_exc()
        status, reason = 1, f"{type(error).__name__}: {error}"
    write_json(OUT / "verdict.json", {"status": status, "reason": reason})


if __name__ == "__main__":
    main()
