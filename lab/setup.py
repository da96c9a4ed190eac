# SPDX-License-Identifier: GPL-2.0-or-later
"""Installs what the lab needs on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab import processes
from lab.cache import cache_dir, digest, locked, require_space
from lab.failure import Unsuitable

REQUIREMENTS = Path(__file__).resolve().parents[1] / "tests" / "requirements.txt"

# The command the lab runs -> the Debian package that has it.
TOOLS = {
    "busybox": "busybox-static",
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "modprobe": "kmod",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def require_root() -> None:
    if os.geteuid() != 0:
        raise Unsuitable(
            "this user: not root, and roots and modules are built in a chroot; "
            "run it through make, or through sudo"
        )


def _run(command: list[str], **environment: str) -> int:
    """The status; the output is shown."""
    return processes.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
    ).returncode


def install(packages: list[str]) -> None:
    """Install Debian packages, saying so before."""
    names = " ".join(packages)
    if not shutil.which("apt-get"):
        raise Unsuitable(
            f"{names}: missing, and this machine has no apt-get; "
            "install them by other means"
        )
    for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        command = ["apt-get", "-qq", *step]
        say("+ " + " ".join(command))
        status = _run(command, DEBIAN_FRONTEND="noninteractive")
    if status != 0:
        raise Unsuitable(
            f"{names}: apt-get could not install them "
            "(see above); install them by hand and run again"
        )


def ensure_commands(tools: dict[str, str]) -> None:
    """Install the packages of these commands where they are missing."""
    missing = sorted({tools[tool] for tool in tools if not shutil.which(tool)})
    if missing:
        require_root()
        install(missing)


def ensure_tools() -> None:
    require_root()
    ensure_commands(TOOLS)


def promtool() -> str | None:
    """Prometheus' tool, of this machine or of the cache."""
    return shutil.which("promtool") or shutil.which("promtool", path=cache_dir())


def ensure_promtool() -> None:
    """Take it out of Debian's package: installed, that starts a server. Without it the
    tests that need it are skipped."""
    if promtool() or not shutil.which("apt-get"):
        return
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as name:
        say("+ apt-get download prometheus (for promtool)")
        script = 'cd "$0" && apt-get -qq download prometheus && dpkg-deb -x *.deb .'
        if _run(["sh", "-c", script, name]) != 0:
            say("promtool: cannot be had, alert rules are not tested; apt-get update?")
            return
        cache_dir().mkdir(parents=True, exist_ok=True)
        shutil.move(Path(name, "usr/bin/promtool"), cache_dir())


def ensure_venv() -> Path:
    """The python of the project's own venv with the pinned tools."""
    key = digest(REQUIREMENTS.read_bytes(), sys.version)
    final = cache_dir() / "venvs" / key
    with locked("venv"):
        if not (final / "complete").exists():
            if importlib.util.find_spec("ensurepip") is None:
                require_root()
                install(["python3-venv"])
            final.mkdir(parents=True, exist_ok=True)
            require_space(final)
            say("installing the test tools into the cache (pip)")
            pip = [str(final / "bin/python"), "-m", "pip", "install", "--quiet"]
            pip += ["--disable-pip-version-check", "-r", str(REQUIREMENTS)]
            remedy = f"check the network and the free space in {final}, and run again"
            for command in ([sys.executable, "-m", "venv", "--clear", str(final)], pip):
                processes.must_run(command, f"{' '.join(command)}: fails", remedy)
            (final / "complete").touch()
    return final / "bin" / "python"
