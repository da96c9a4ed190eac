# SPDX-License-Identifier: GPL-2.0-or-later
"""The network namespaces of the machine: how to list and how to enter them.

A namespace is found by a name of `ip netns`, by any other bind mount of it (Docker's
for example) or by a process in it, but not if only a descriptor keeps it alive.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sluice.errors import Denied, Gone, SluiceError

NAMES = Path("/run/netns")
PROC = Path("/proc")
OWN = PROC / "self/ns/net"
HOST = PROC / "1/ns/net"
CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Namespace:
    """A network namespace and the name it is shown by."""

    name: str  # "": where the command was started; else as --netns takes it
    inode: int
    path: Path | None = None  # a file that opens it
    process: str = ""  # the name of its first process, if ip netns has no name for it


def _call(function: str, *arguments: int) -> None:
    """Call the C library: os has these functions since Python 3.12."""
    import ctypes  # takes long to import

    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "network namespace")


def setns(there: int) -> None:
    _call("setns", there, CLONE_NEWNET)


def read_inode(path: Path | str) -> int:
    """The namespace's inode; 0 if it cannot be read."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def read_processes(proc: Path) -> list[str]:
    """The numbers of the processes, the lowest first."""
    return sorted(filter(str.isdigit, os.listdir(proc)), key=int)


def read_names() -> list[str]:
    """The names of ip netns."""
    try:
        return sorted(path.name for path in NAMES.iterdir())
    except OSError:
        return []


def own() -> Namespace:
    return Namespace("", read_inode(OWN), OWN)


def is_host(inode: int) -> bool:
    """Whether it is that of process 1; whether it is our own, if that cannot be read."""
    return inode == (read_inode(HOST) or read_inode(OWN))


def parse_mounts(mountinfo: str) -> list[Path]:
    """The places where namespaces are mounted, as Docker does."""
    found = []
    for line in mountinfo.split("\n"):
        fields, _, kind = line.partition(" - ")
        words = fields.split(" ")
        if kind.startswith("nsfs ") and words[3].startswith("net:["):
            path = re.sub(r"\\([0-7]{3})", lambda one: chr(int(one[1], 8)), words[4])
            found.append(Path(path))
    return found


def _read_mounts() -> list[Path]:
    try:
        return parse_mounts(os.fsdecode((PROC / "self/mountinfo").read_bytes()))
    except OSError:
        return []


def _read_process(pid: str) -> Namespace | None:
    path = PROC / pid / "ns/net"
    inode = read_inode(path)
    if not inode:
        return None
    try:
        command = (PROC / pid / "comm").read_text(errors="replace").strip()
    except OSError:
        command = "?"
    return Namespace(pid, inode, path, command)


def read_all() -> list[Namespace]:
    """Each namespace once: ours, then those with a name, then the rest by a process."""
    found = {own().inode: own()}

    def add(one: Namespace) -> None:
        if one.inode:
            found.setdefault(one.inode, one)

    names = read_names()
    for name in names:
        add(Namespace(name, read_inode(NAMES / name), NAMES / name))
    mounts = [path for path in _read_mounts() if path.parent != NAMES]
    for path in mounts:
        add(Namespace(str(path), read_inode(path), path))
    for pid in read_processes(PROC):
        inode = read_inode(f"{PROC}/{pid}/ns/net")
        known = found.get(inode)
        lacks_process = known is None or ("/" in known.name and not known.process)
        one = _read_process(pid) if inode and lacks_process else None
        if one and known:
            found[inode] = replace(known, process=one.process)
        elif one:
            # find() takes a number that is a name of ip netns, too, for that.
            name = str(one.path) if pid in names else pid
            found[inode] = replace(one, name=name)
    return list(found.values())


def described(netns: str | None) -> str:
    """In words what --netns names."""
    if netns is None:
        return "any network namespace"
    return f"network namespace {netns}" if netns else "this network namespace"


def _unseen(name: str) -> SluiceError:
    if os.geteuid() == 0:
        reason = "not shown to this root (a container?)"
        return SluiceError(f"netns {name}: {reason}; see: ip netns")
    return Denied(f"netns {name}: cannot be seen; run it as root")


def find(name: str) -> Namespace:
    """The namespace with this name of ip netns, path or process number; "" is ours."""
    if not name:
        return own()
    path = NAMES / name if "/" not in name else Path(name)
    try:
        return Namespace(name, os.stat(path).st_ino, path)
    except PermissionError:
        raise _unseen(name) from None
    except OSError:
        if "/" in name:
            raise Gone(f"netns {name}: no such file; see: ip netns") from None
    if name.isdigit():
        if one := _read_process(name):
            return one
        if (PROC / name).exists():
            raise _unseen(name)
        raise Gone(f"netns {name}: no such process; see: ip netns")
    raise Gone(f"netns {name}: not in {NAMES}; see: ip netns")


@contextlib.contextmanager
def inside(there: int) -> Iterator[None]:
    """Run the block in the namespace of this descriptor."""
    home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(there)
        try:
            yield
        finally:
            setns(home)
    finally:
        os.close(home)


@contextlib.contextmanager
def entered(one: Namespace) -> Iterator[Namespace]:
    """Run the block in a namespace."""
    if not one.name or one.inode == read_inode(OWN):
        yield one
        return
    with contextlib.ExitStack() as stack:
        try:
            # Any file may lie in /run/netns, or be given: to open a FIFO would wait.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            there = os.open(str(one.path), flags)
            stack.callback(os.close, there)
            stack.enter_context(inside(there))
        except FileNotFoundError:
            raise Gone(f"netns {one.name}: vanished; see: ip netns") from None
        except PermissionError as error:
            raise Denied(
                f"netns {one.name}: cannot be entered; run it as root"
            ) from error
        except OSError as error:
            if error.errno == errno.EINVAL:  # a plain file, left in /run/netns
                raise Gone(f"netns {one.name}: is none; see: ip netns") from None
            reason = os.strerror(error.errno or errno.EINVAL).lower()
            raise SluiceError(
                f"netns {one.name}: cannot be entered ({reason}); see: ip netns"
            ) from error
        yield one


@contextlib.contextmanager
def netns(name: str) -> Iterator[Namespace]:
    """Run the block in the namespace of this name; "" is the current one."""
    with entered(find(name)) as one:
        yield one


def new_netns() -> int:
    """A namespace without a name; it exists as long as this descriptor."""
    home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("unshare", CLONE_NEWNET)
        try:
            return os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            setns(home)
    finally:
        os.close(home)
