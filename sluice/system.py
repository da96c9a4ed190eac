# SPDX-License-Identifier: GPL-2.0-or-later
"""What the command reads from the running system, and what it changes.

read_* only read; the docstrings of the others say what they change. parse_* are pure.
A file or a device that vanishes meanwhile is left out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sluice import namespaces, rtnl
from sluice.errors import SluiceError
from sluice.namespaces import Namespace, inside, netns, new_netns
from sluice.netlink import Client, Device, NetlinkError, Queue, Rule
from sluice.rtnl import ROOT, Link, QdiscStats, read_qdiscs

__all__ = ["Namespace", "QdiscStats", "inside", "netns", "new_netns", "read_qdiscs"]

PROC = Path("/proc")
SYS = Path("/sys")
ROOT_FOLDER = Path("/")
TRACING = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))

IFF_BACKPRESSURE = 0x0080
NO_ANSWER = "no answer"
QDISC_HANDLE = 0x5C1C0000  # 5c1c: a major number that the kernel does not assign


@dataclass(frozen=True)
class Owner:
    """A process that holds a device open."""

    pid: int
    command: str
    vhost: bool
    netns: int  # inode of its network namespace, 0 if that cannot be read


@dataclass(frozen=True)
class ModuleAnswer:
    """What the module reports about the devices of one namespace."""

    devices: tuple[Device, ...]
    queues: tuple[Queue, ...]


# Devices


def parse_tun_flags(text: str | None) -> int | None:
    try:
        return int(text or "", 0)
    except ValueError:
        return None


def read_links(where: Namespace) -> list[Link]:
    """The tun and tap devices of the current namespace."""
    links = rtnl.read_links()
    if where.path != namespaces.OWN:  # /sys shows the devices of that namespace only
        return links
    return [replace(link, upstream=_read_upstream(link.name)) for link in links]


def _read_upstream(name: str) -> bool | None:
    flags = parse_tun_flags(read_text(SYS / "class/net" / name / "tun_flags"))
    return None if flags is None else bool(flags & IFF_BACKPRESSURE)


def read_module() -> ModuleAnswer | None:
    """What the module reports in the current namespace; None: it is not loaded."""
    try:
        with Client() as client:
            return ModuleAnswer(tuple(client.devices()), tuple(client.queues()))
    except IndexError as error:  # an unknown state; a subclass of LookupError
        raise SluiceError(
            "module: newer than this command; install both from one release"
        ) from error
    except LookupError:
        return None


def set_device(ifindex: int, values: Mapping[str, int]) -> None:
    """Set a device of the current namespace; LookupError: the module is not loaded."""
    with Client() as client:
        client.set_device(ifindex, **values)


@contextlib.contextmanager
def _host_client() -> Iterator[Client]:
    """A client in the host's namespace, which has the rules."""
    host = Namespace("host", namespaces.read_inode(namespaces.HOST), namespaces.HOST)
    with contextlib.ExitStack() as stack:
        if not namespaces.is_host(namespaces.read_inode(namespaces.OWN)):
            stack.enter_context(namespaces.entered(host))
        yield stack.enter_context(Client())


def set_rules(rules: Sequence[Rule], reset: Sequence[str] = ()) -> None:
    """Replace the rules of the module; LookupError: it is not loaded."""
    with _host_client() as client:
        client.set_rules(rules, reset)


def read_rules() -> list[Rule] | None:
    """The rules of the module; None: it is not loaded, or too old to have rules."""
    try:
        with _host_client() as client:
            return client.rules()
    except LookupError:
        return None
    except NetlinkError as error:
        if error.code == errno.EOPNOTSUPP:
            return None
        raise


def attach_qdisc(ifindex: int, queues: int, kind: str) -> None:
    """Attach a qdisc at the root; on a device of several queues, one for each."""
    if queues == 1:
        rtnl.replace_qdisc(ifindex, kind, QDISC_HANDLE, ROOT)
        return
    rtnl.replace_qdisc(ifindex, "mq", QDISC_HANDLE, ROOT)
    for number in range(1, queues + 1):
        rtnl.replace_qdisc(ifindex, kind, 0, QDISC_HANDLE | number)


# Processes


def parse_iff(fdinfo: str) -> str:
    """The device to which a descriptor of /dev/net/tun is attached; "" if to none."""
    for line in fdinfo.split("\n"):  # a name may have what Python takes for a line's end
        key, _, value = line.partition(":\t")
        if key == "iff":
            return value
    return ""


def read_owners() -> dict[str, list[Owner]]:
    """The processes that hold each device open, by the name of the device."""
    owners: dict[str, list[Owner]] = {}
    for pid in namespaces.read_processes(PROC):
        names, vhost = _read_open_devices(f"{PROC}/{pid}")
        if not names:
            continue
        owner = Owner(
            pid=int(pid),
            command=(read_text(PROC / pid / "comm") or "?").strip(),
            vhost=vhost,
            netns=namespaces.read_inode(PROC / pid / "ns/net"),
        )
        for name in names:
            owners.setdefault(name, []).append(owner)
    return owners


def _read_open_devices(process: str) -> tuple[set[str], bool]:
    """The devices a process holds open; whether it holds vhost-net open.

    A machine may have many thousand descriptors: a Path for each would take long.
    """
    names: set[str] = set()
    vhost = False
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"{process}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"{process}/fd/{fd}")
                vhost |= target.endswith("/vhost-net")
                if target.endswith("/net/tun"):
                    text = read_text(Path(f"{process}/fdinfo/{fd}")) or ""
                    names.add(parse_iff(text))
    return names - {""}, vhost


def owners_of(name: str, inode: int, owners: Mapping[str, list[Owner]]) -> list[Owner]:
    """The owners in the device's namespace; if there are none, all of its name."""
    named = sorted(owners.get(name, []), key=lambda owner: owner.pid)
    return [owner for owner in named if owner.netns == inode] or named


# Files


def read_file(path: Path, most: int = -1) -> bytes:
    """A file's content; OSError if it is longer than `most`, or anything but a file: to
    read a FIFO or a device may never end. /dev/null is an empty file."""
    with open(path, "rb", opener=_open_file) as handle:
        content = handle.read(most + 1 if most >= 0 else most)
    if 0 <= most < len(content):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def _open_file(path: str, flags: int) -> int:
    kind = os.stat(path)
    if stat.S_ISDIR(kind.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(kind.st_mode) and kind.st_rdev != os.makedev(1, 3):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.open(path, flags)


def read_text(path: Path) -> str | None:
    """A file's text, or None if it cannot be read."""
    try:
        return read_file(path).decode(errors="surrogateescape")
    except OSError:
        return None


def read_first(paths: Iterable[Path]) -> str | None:
    for path in paths:
        text = read_text(path)
        if text is not None:
            return text
    return None


def is_root() -> bool:
    return os.geteuid() == 0


def read_module_version() -> str:
    """The version of the loaded module; "" if it is not loaded."""
    text = read_text(SYS / "module/sluice/version")
    if text is None:
        return "unknown" if (SYS / "module/sluice").is_dir() else ""
    return text.strip()


def read_kernel_config(release: str) -> str | None:
    text = read_first([Path(f"/boot/config-{release}"),
                       Path(f"/lib/modules/{release}/config")])
    if text is not None:
        return text
    import gzip

    with contextlib.suppress(OSError):
        return gzip.decompress((PROC / "config.gz").read_bytes()).decode()
    return None


def read_os_release() -> dict[str, str]:
    files = ("etc/os-release", "usr/lib/os-release")
    text = read_first(ROOT_FOLDER / name for name in files)
    pairs = (line.partition("=") for line in (text or "").splitlines())
    return {key: value.strip("\"'") for key, _, value in pairs}


def read_distribution() -> tuple[str, ...]:
    """ID and ID_LIKE of the distribution."""
    found = read_os_release()
    return (found.get("ID", ""), *found.get("ID_LIKE", "").split())


def is_ostree() -> bool:
    return (ROOT_FOLDER / "run/ostree-booted").exists()


def has_headers(release: str) -> bool:
    return Path(f"/lib/modules/{release}/build/include").is_dir()


def has_module_file(release: str) -> bool:
    """Whether modprobe finds the module for this kernel, and its file is there."""
    folder = ROOT_FOLDER / "lib/modules" / release
    listed = read_text(folder / "modules.dep") or ""
    found = re.search(r"^([^:\n]*/sluice\.ko[^:\n]*):", listed, re.M)
    return found is not None and (folder / found[1]).exists()


def read_file_info(field: str) -> str:
    """What the module that modprobe finds says of itself; "" if it finds none."""
    status, text = read_output("modinfo", "-F", field, "sluice")
    return "" if status else text.strip()


def has_tun() -> bool:
    return Path("/dev/net/tun").exists()


SYSTEMD, OPENRC, RUNIT, SYSVINIT = "systemd", "openrc", "runit", "sysvinit"
# The folder that each of them has while it runs.
RUNNING = {SYSTEMD: "systemd/system", OPENRC: "openrc", RUNIT: "runit"}
# Of modules-load.d; a file of an earlier folder hides one of the same name.
LOADING = ("etc", "run", "usr/local/lib", "usr/lib", "lib")


def read_init() -> str:
    """The init system that runs this machine; "" if it is none of these.

    Several may be installed, and their files do not tell which one runs.
    """
    for name, folder in RUNNING.items():
        if (ROOT_FOLDER / "run" / folder).is_dir():
            return name
    command = (read_text(PROC / "1/comm") or "").strip()
    return {"init": SYSVINIT, "runit": RUNIT}.get(command, "")


def has_udev() -> bool:
    """Whether udevd runs, which has the rules loaded whenever the module is."""
    return (ROOT_FOLDER / "run/udev/control").exists()


def read_unit_state() -> str:
    """What systemd says of sluice.service: enabled, masked, ...; "" if nothing."""
    return read_output("systemctl", "is-enabled", "sluice.service")[1].strip()


def _names_module(path: Path) -> bool:
    lines = [line.split() for line in (read_text(path) or "").splitlines()]
    return ["sluice"] in [words[:1] for words in lines]


def _is_listed(init: str) -> bool:
    """Whether the module is in a list of those that are loaded at boot."""
    files: dict[str, Path] = {}
    for folder in reversed(LOADING):
        for path in (ROOT_FOLDER / folder / "modules-load.d").glob("*.conf"):
            files[path.name] = path
    if init != SYSTEMD:
        files[""] = ROOT_FOLDER / "etc/modules"
    if init == OPENRC and not _in_runlevel("modules"):
        return False
    return any(_names_module(path) for path in files.values())


def _in_runlevel(service: str) -> bool:
    return any((ROOT_FOLDER / "etc/runlevels").glob(f"*/{service}"))


def loads_at_boot(init: str, blacklisted: bool = False) -> bool:
    """Whether the init system that runs would load the module at the next boot.

    blacklisted: by modprobe.d, which systemd-modules-load heeds, but no unit of ours.
    """
    if init == SYSTEMD and read_unit_state() in ("enabled", "static", "alias"):
        return True
    if init == SYSVINIT and any((ROOT_FOLDER / "etc").glob("rc[S2-5].d/S*sluice")):
        return True
    return not (init == SYSTEMD and blacklisted) and _is_listed(init)


def load_at_boot_command(init: str) -> str:
    """The command that makes this machine load the module at boot."""
    if init == SYSTEMD and (state := read_unit_state()):
        if state.startswith("masked"):
            return "systemctl unmask sluice; systemctl enable sluice"
        if state in ("disabled", "enabled-runtime", "linked"):
            return "systemctl enable sluice"
    if init == SYSVINIT and (ROOT_FOLDER / "etc/init.d/sluice").exists():
        return "update-rc.d sluice defaults"
    if init in (SYSVINIT, OPENRC) and (ROOT_FOLDER / "etc/modules").exists():
        listing = "echo sluice >>/etc/modules"
    elif init:
        listing = "echo sluice >/etc/modules-load.d/sluice.conf"
        if not (ROOT_FOLDER / "etc/modules-load.d").is_dir():
            listing = f"mkdir -p /etc/modules-load.d; {listing}"
    else:
        return "have this machine's init run at boot: modprobe sluice"
    if init == OPENRC and not _in_runlevel("modules"):
        return f"{listing}; rc-update add modules boot"
    return listing


def is_realtime() -> bool:
    """Whether this is a PREEMPT_RT kernel, which the module does not support."""
    return "PREEMPT_RT" in os.uname().version


def has_modules() -> bool:
    """Whether this kernel can load modules at all."""
    return (PROC / "modules").exists() or not PROC.is_dir()


def read_modules_disabled() -> bool:
    return (read_text(PROC / "sys/kernel/modules_disabled") or "").strip() == "1"


def read_container() -> str:
    """The kind of container this runs in; "" if in none."""
    kind = (read_text(Path("/run/systemd/container")) or "").strip()
    if kind:
        return kind
    for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if Path(path).exists():
            return name
    environment = (read_text(PROC / "1/environ") or "").split("\0")
    for word in environment:
        key, _, value = word.partition("=")
        if key == "container" and value:
            return value
    return ""


def has_tool(name: str) -> bool:
    import shutil

    return shutil.which(name) is not None


def read_dkms() -> str | None:
    """What DKMS reports of the module; None: DKMS is not installed."""
    # dkms is a shell script that reads all its modules: seconds on a busy machine.
    status, text = read_output("dkms", "status", "-m", "sluice", seconds=60)
    return {127: None, 126: NO_ANSWER}.get(status, text.strip())


def read_signing_key() -> tuple[str, bool | None]:
    """DKMS's key, "" if there is none, and whether the firmware trusts it."""
    for name in ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub"):
        if Path(name).exists():
            status, text = read_output("mokutil", "--test-key", name)
            known = {127: None, 126: None}.get(status, "already enrolled" in text)
            return name, known
    return "", None


def read_parameters() -> dict[str, str]:
    """The parameters of the loaded module."""
    folder = SYS / "module/sluice/parameters"
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return {}
    return {name: (read_text(folder / name) or "?").strip() for name in names}


def read_kernel_lines() -> list[str]:
    """The kernel's messages about the module, oldest first."""
    status, text = read_output("dmesg")
    return [] if status else [line for line in text.splitlines() if "sluice" in line]


def read_enabled_functions() -> str | None:
    """Which functions are traced, and how; None if that cannot be read."""
    return read_first(path / "enabled_functions" for path in TRACING)


def read_secure_boot() -> bool | None:
    """Whether Secure Boot is on; None without EFI."""
    guid = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
    path = SYS / "firmware/efi/efivars" / f"SecureBoot-{guid}"
    with contextlib.suppress(OSError):
        return path.read_bytes()[4:5] == b"\x01"
    return None


def parse_signed_only(sig_enforce: str | None, lockdown: str | None) -> str:
    """What makes this kernel load only signed modules; "" if nothing does."""
    if (sig_enforce or "").strip() == "Y":
        return "module.sig_enforce"
    locked = "[integrity]" in (lockdown or "") or "[confidentiality]" in (lockdown or "")
    return "lockdown" if locked else ""


def read_signed_only() -> str:
    return parse_signed_only(
        read_text(SYS / "module/module/parameters/sig_enforce"),
        read_text(SYS / "kernel/security/lockdown"),
    )


def read_output(*command: str, seconds: float = 10) -> tuple[int, str]:
    """Status and output, in English, of a command that changes nothing; 127 if it does
    not exist, 126 if it did not end in time."""
    import shutil  # both take long to import, and most subcommands run no program
    import subprocess

    if shutil.which(command[0]) is None:
        return 127, ""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 126, ""
    return done.returncode, done.stdout


def exists(path: str) -> bool:
    """Whether a path exists, also as a dangling link."""
    return os.path.lexists(path)


def parse_package(manager: str, answer: str) -> str:
    """The package that owns a file, from a package manager's output."""
    words = answer.split()
    if manager == "dpkg":
        return answer.partition(":")[0]
    if manager == "pacman":  # PATH is owned by NAME VERSION
        return words[-2] if len(words) > 1 else ""
    return words[0] if words else ""


def read_package(path: str) -> tuple[str, str]:
    """The package that owns a file, and the command that removes it; "" if none."""
    for manager, question, remove in (
        ("dpkg", ("dpkg", "-S", path), "apt remove"),
        ("rpm", ("rpm", "-qf", "--qf", "%{NAME}", path), "dnf remove"),
        ("pacman", ("pacman", "-Qo", path), "pacman -R"),
    ):
        status, text = read_output(*question)
        if status == 0 and (package := parse_package(manager, text)):
            return package, f"{remove} {package}"
    return "", ""


def run_shown(
    command: Sequence[str], show: Callable[[str], None]
) -> tuple[int, list[str]]:
    """Run a command that changes the system: its status and its output.

    Each line is shown as it comes. On an interrupt the command gets SIGTERM, so that it
    can undo its changes.
    """
    import subprocess

    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # or it would get Ctrl-C from the terminal as well
    ) as process:

        def follow() -> None:
            for line in process.stdout or ():
                lines.append(line.rstrip("\n"))
                show(lines[-1])

        try:
            follow()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGTERM)
            follow()
            raise
    return process.returncode, lines
