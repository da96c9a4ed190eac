# SPDX-License-Identifier: GPL-2.0-or-later
"""kmod/uapi.h and kmod/policy.h, made from docs/sluice.yaml by the kernel's ynl-gen.

Of what the generator writes for the kernel only the policies are taken: its table of
operations is one of struct genl_split_ops, which Linux has since 6.2.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from lab import processes
from lab.failure import FINE, LabError
from lab.machines.build import KMOD, YNL_GENERATOR, YNL_SCHEMA, ensure_kernel_files
from lab.machines.vm import REPOSITORY
from lab.setup import ensure_venv

SPEC = REPOSITORY / "docs/sluice.yaml"
# The generator takes no other; what it then writes is under our licences again.
DEMANDED = "((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause)"
TAG = "SPDX-License-" "Identifier:"  # in one word it would be this file's
HEAD = f"""\
/* {TAG} {{licence}} */
/*
 * Made from docs/sluice.yaml by the kernel's ynl-gen: edit that, run make generate.
 */
"""
_POLICIES = re.compile(r"/\* Integer value ranges \*/.*(?=/\* Ops table)", re.DOTALL)


def _run_generator(python: Path, files: Path, work: Path, *mode: str) -> str:
    """What it writes about a copy of the spec, in a folder that looks like a kernel."""
    (work / "docs").mkdir(exist_ok=True)
    (work / "MAINTAINERS").touch()
    shutil.copy(files / YNL_SCHEMA, work)
    spec, output = work / "docs/sluice.yaml", work / mode[1]
    _, _, rest = SPEC.read_text().partition("\n")
    spec.write_text(f"# {TAG} {DEMANDED}\n{rest}")
    command: list[str | Path] = [python, "-B", files / YNL_GENERATOR, "--spec", spec]
    command += [*mode, "-o", output]
    processes.must_run(command, "ynl-gen: fails", "correct docs/sluice.yaml")
    if not output.exists():  # whatever its status
        raise LabError("ynl-gen: wrote nothing; correct docs/sluice.yaml")
    return output.read_text()


def format_uapi(text: str) -> str:
    """Its header for programs, under our head."""
    head = HEAD.format(licence="GPL-2.0-only WITH Linux-syscall-note")
    return head + text[text.index("\n\n") + 1 :]


def format_policies(text: str) -> str:
    """Its policies, as a header for netlink.c."""
    found = _POLICIES.search(text)
    if not found:
        raise LabError(f"ynl-gen: wrote nothing like {_POLICIES.pattern}; correct that")
    # Linux before 6.6 has a policy point to a range that is not const.
    ranges = "static {}struct netlink_range_validation"
    body = found[0].replace(ranges.format("const "), ranges.format(""))
    # It forgets for an attribute that is repeated that strings end with a NUL.
    body = body.replace("NLA_STRING", "NLA_NUL_STRING")
    head = HEAD.format(licence="GPL-2.0-only")
    return f"{head}#ifndef SLUICE_POLICY_H\n#define SLUICE_POLICY_H\n\n{body}#endif\n"


def make(python: Path, files: Path) -> dict[str, str]:
    """The files of kmod/ that are generated, and their text."""
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as name:
        work = Path(name)
        header = _run_generator(python, files, work, "--mode", "uapi", "--header")
        source = _run_generator(python, files, work, "--mode", "kernel", "--source")
    return {"uapi.h": format_uapi(header), "policy.h": format_policies(source)}


def generate() -> int:
    files = ensure_kernel_files()
    python = ensure_venv()
    for name, text in make(python, files).items():
        (KMOD / name).write_text(text)
        print(KMOD / name)
    for maker in ("make_netlink.py", "make_schema.py"):
        command = [str(python), "-B", f"{REPOSITORY}/docs/{maker}"]
        processes.must_run(command, f"docs/{maker}: fails", "correct docs/sluice.yaml")
    for name in ("docs/netlink.md", "sluice/spec.py", "docs/schema.json"):
        print(REPOSITORY / name)
    return FINE
