# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice doctor: what is wrong or worth knowing, and the command that mends it."""

from __future__ import annotations

import glob
import os
import platform
import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import click

from sluice import VERSION, config, options, output, status, system
from sluice.devices import LOCKLESS, NOQUEUE, View
from sluice.errors import FINE, NO, NOT_SUITABLE

SAMPLE_SECONDS = 1.0
TRANSMIT = "tun_net_xmit"
# How enabled_functions says that it calls our module, and what then stands by.
DIRECT, OURS = "direct-->transmit_called", "keeps_ftrace_on"
# Slots: below, one burst fills it; above, it holds seconds of a slow reader.
RING_SHORT, RING_LONG = 64, 5000

GOOD, NOTE, BAD, HOPELESS = "good", "note", "bad", "hopeless"


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    level: str  # good, note: nothing to do; bad: to mend; hopeless: not suitable
    subject: str
    text: str
    mend: str = ""  # a command


@dataclass(frozen=True)
class Facts:
    """All the doctor knows; read_facts() asks the system for it."""

    release: str = ""
    version: str = ""  # uname -v
    distribution: tuple[str, ...] = ()
    root: bool = True
    kernel_config: str | None = None
    ftrace_enabled: str = "1"
    headers: bool = True
    dkms: str | None = None
    module_file: bool = True
    loaded: str = ""  # the version of the loaded module
    answers: bool = False
    at_boot: bool = True
    udev_rule: bool = True
    tun: bool = True
    secure_boot: bool | None = None
    signed_only: str = ""  # what besides Secure Boot lets only signed modules in
    signing_key: str = ""
    key_trusted: bool | None = None
    traced: str | None = None  # enabled_functions
    wrongs: tuple[str, ...] = ()
    before: tuple[View, ...] = ()
    views: tuple[View, ...] = ()
    seconds: float = SAMPLE_SECONDS
    unread: tuple[str, ...] = ()  # namespaces that could not be entered
    parameters: dict[str, str] = field(default_factory=dict)


def parse_config(text: str | None) -> dict[str, str]:
    pairs = (line.partition("=") for line in (text or "").splitlines())
    return {key: value for key, equals, value in pairs if key and equals}


def install_command(distribution: tuple[str, ...], release: str, what: str) -> str:
    """How this distribution installs headers or dkms."""
    headers = {
        "debian": f"apt install linux-headers-{release}",
        "fedora": f"dnf install kernel-devel-{release}",
        "rhel": f"dnf install kernel-devel-{release}",
        "suse": "zypper install kernel-default-devel",
        "arch": "pacman -S linux-headers",
        "alpine": "apk add linux-lts-dev",
    }
    tool = {"debian": "apt install", "fedora": "dnf install", "rhel": "dnf install",
            "suse": "zypper install", "arch": "pacman -S", "alpine": "apk add"}
    for name in distribution:
        if name in headers:
            return headers[name] if what == "headers" else f"{tool[name]} {what}"
    return f"install {what} of kernel {release}" if what == "headers" else (
        f"install {what}"
    )


def own_command(distribution: tuple[str, ...], package: str) -> str:
    """How this distribution gets a part of ours: only Debian has packages."""
    if "debian" in distribution:
        return f"apt install {package}"
    return "make install  # in a source tree of sluice"


def kernel_lacks(version: str, known: dict[str, str]) -> Iterator[str]:
    """Why no module can serve this kernel; known: its configuration, if seen."""
    if "PREEMPT_RT" in version or known.get("CONFIG_PREEMPT_RT") == "y":
        yield "is PREEMPT_RT: the headroom cannot be bounded"
    for option in ("CONFIG_DYNAMIC_FTRACE", "CONFIG_MODULES"):
        if known and known.get(option) != "y":
            yield f"lacks {option}"
    ways = ("CONFIG_DYNAMIC_FTRACE_WITH_ARGS", "CONFIG_DYNAMIC_FTRACE_WITH_REGS")
    if known and not any(known.get(way) == "y" for way in ways):
        yield f"has neither {ways[0]} nor {ways[1]}"


def check_kernel(facts: Facts) -> Iterator[Finding]:
    known = parse_config(facts.kernel_config)
    lacks = list(kernel_lacks(facts.version, known))
    for text in lacks:
        yield Finding(HOPELESS, "kernel", f"{facts.release} {text}")
    if facts.ftrace_enabled.strip() == "0":
        yield Finding(BAD, "kernel", "ftrace is switched off: no packet is seen",
                      "sysctl kernel.ftrace_enabled=1")
    if not known:
        yield Finding(NOTE, "kernel", f"{facts.release}: its configuration cannot be "
                      "seen, ftrace is taken for granted", "modprobe configs")
    elif not lacks:
        yield Finding(GOOD, "kernel", f"{facts.release} has what it takes")
    if not facts.tun:
        yield Finding(BAD, "tun", "there is no /dev/net/tun", "modprobe tun")


def check_building(facts: Facts) -> Iterator[Finding]:
    """What a module for this kernel and the next takes."""
    level = NOTE if facts.module_file or facts.loaded else BAD
    if facts.headers:
        yield Finding(GOOD, "headers", f"those of {facts.release} are there")
    else:
        yield Finding(level, "headers", f"those of {facts.release} are missing, no "
                      "module can be built for it",
                      install_command(facts.distribution, facts.release, "headers"))
    if facts.dkms is None:
        yield Finding(level, "dkms", "not installed: a new kernel gets no module",
                      install_command(facts.distribution, facts.release, "dkms"))
    elif facts.dkms == system.NO_ANSWER:
        yield Finding(NOTE, "dkms", "did not answer", "dkms status -m sluice")
    elif re.search(rf"{re.escape(facts.release)}[,:].*installed", facts.dkms):
        yield Finding(GOOD, "dkms", f"built the module for {facts.release}")
    elif facts.dkms:
        yield Finding(level, "dkms", f"has no module for {facts.release}",
                      f"dkms install -m sluice -v {VERSION} -k {facts.release}")
    else:
        yield Finding(level, "dkms", "does not know sluice: a new kernel gets no module",
                      own_command(facts.distribution, "sluice-dkms"))


def check_secure_boot(facts: Facts) -> Iterator[Finding]:
    """Whether the kernel would load what DKMS builds, signed as it is."""
    state = {True: "on", False: "off", None: "no EFI"}[facts.secure_boot]
    if facts.signed_only:
        state += f", {facts.signed_only} lets only signed modules in"
    key = facts.signing_key
    if not facts.secure_boot and not facts.signed_only:
        yield Finding(GOOD, "secure boot", f"{state}, nothing is asked of us")
    elif facts.loaded:
        yield Finding(GOOD, "secure boot", f"{state}, and the module is loaded")
    elif not key:
        yield Finding(BAD, "secure boot", f"{state}, and DKMS has no key to sign with",
                      "dkms generate_mok")
    elif facts.secure_boot is None:
        # No firmware that a key could be enrolled with.
        yield Finding(BAD, "secure boot", f"{state}, and {key} is none the kernel knows",
                      "grep -E 'sig_enforce|lockdown' /proc/cmdline; then boot "
                      "without it")
    elif facts.key_trusted is None:
        yield Finding(NOTE, "secure boot", f"{state}; whether the firmware trusts "
                      f"{key} cannot be seen", f"mokutil --test-key {key}")
    elif not facts.key_trusted:
        yield Finding(BAD, "secure boot", f"{state}, and {key} is not enrolled",
                      f"mokutil --import {key}; then reboot and confirm")
    else:
        yield Finding(GOOD, "secure boot", f"{state}, {key} is enrolled")


def check_module(facts: Facts) -> Iterator[Finding]:
    if not facts.loaded:
        if facts.module_file:
            yield Finding(BAD, "module", "not loaded: stock behaviour", "modprobe sluice")
        else:
            yield Finding(BAD, "module", f"there is none for {facts.release}",
                          own_command(facts.distribution, "sluice-dkms"))
        return
    if not facts.answers:
        yield Finding(BAD, "module", "loaded, but its netlink family does not answer",
                      "rmmod sluice; modprobe sluice; dmesg | tail")
        return
    yield Finding(GOOD, "module", f"version {facts.loaded} is loaded")
    if facts.loaded != VERSION:
        yield Finding(NOTE, "module", f"version {facts.loaded}, this command {VERSION}",
                      "rmmod sluice; modprobe sluice")
    if not facts.at_boot:
        yield Finding(NOTE, "module", "not loaded at boot",
                      "echo sluice >/etc/modules-load.d/sluice.conf")


def parse_traced(text: str) -> dict[str, tuple[int, str]]:
    """Functions in enabled_functions: how many look at each, and the line."""
    found = {}
    for line in text.replace("\n\t", " \t").splitlines():
        match = re.match(r"(\S+)(?: \[\S+\])? \((\d+)\)", line)
        if match:
            found[match[1]] = (int(match[2]), line)
    return found


def check_tracing(facts: Facts) -> Iterator[Finding]:
    """Is our hook placed, and who else looks at the same function?"""
    served = any(view.state == "served" for view in facts.views)
    if facts.traced is None:
        if facts.loaded:
            hint = "" if facts.root else "; run it as root"
            yield Finding(NOTE, "hook", f"enabled_functions cannot be seen{hint}",
                          "mount -t tracefs tracefs /sys/kernel/tracing")
        return
    traced = parse_traced(facts.traced)
    users, line = traced.get(TRANSMIT, (0, ""))
    directly = DIRECT in line
    shares = not facts.release.startswith("5.")  # a direct call with a live patch
    if served and not users:
        yield Finding(BAD, "hook", f"{TRANSMIT} is not hooked, though devices are served",
                      "rmmod sluice; modprobe sluice")
    elif facts.loaded and users:
        closed = "" if shares else "live patches and "
        how = f", by a direct call: closed to {closed}BPF fentry programs"
        yield Finding(GOOD, "hook", f"{TRANSMIT} is hooked{how * directly}")
    others = users - (1 if facts.loaded and users else 0)
    if others > 0:
        yield Finding(NOTE, "ftrace", f"{output.count(others, 'other user')} of "
                      f"{TRANSMIT}: each packet costs more",
                      f"grep {TRANSMIT} /sys/kernel/tracing/enabled_functions")
    flags = line.partition("\t")[0].partition(")")[2].split()
    if "I" in flags and (shares or not directly):
        yield Finding(NOTE, "ftrace", f"{TRANSMIT} is live-patched: is that ours to see?",
                      "ls /sys/kernel/livepatch")
    elsewhere = len([name for name in traced if name not in (TRANSMIT, OURS)])
    if elsewhere:
        yield Finding(GOOD, "ftrace", f"{output.count(elsewhere, 'other function')} "
                      "traced, none of our concern")


def check_remembering(facts: Facts) -> Iterator[Finding]:
    for wrong in facts.wrongs:
        yield Finding(BAD, "config", wrong.rpartition("; ")[0],
                      f"editor {config.PATH}")
    if not facts.udev_rule:
        yield Finding(NOTE, "udev", "60-sluice.rules is missing: what is remembered "
                      "does not reach new devices",
                      own_command(facts.distribution, "sluice"))
    for name in facts.unread:
        yield Finding(NOTE, "netns", f"{name} cannot be entered",
                      shlex.join(["ip", "netns", "del", name]) if facts.root
                      else "run it as root")


def _sluice(verb: str, view: View, *more: str) -> str:
    """A command of ours for one device. Whoever names one may use all but "/", ":" and
    space: what a shell or a pattern takes for more than a letter is no such thing here.
    """
    name = glob.escape(view.name)
    name = f"[-]{name[1:]}" if name.startswith("-") else name  # nor an option
    at = ["--netns", view.netns] if view.netns else []
    return shlex.join(["sluice", verb, name, *more, *at])


def _tool(name: str, view: View, *arguments: str) -> str:
    """ip or tc, in the view's namespace."""
    at = ["-n", view.netns] if view.netns else []
    return shlex.join([name, *at, *arguments])


def check_setup(view: View) -> Iterator[Finding]:
    """What is set up oddly."""
    if view.state == "refused":
        yield Finding(BAD, view.name, view.why, "sluice doctor --report")
    if view.upstream:
        yield Finding(GOOD, view.name, "served by its application (IFF_BACKPRESSURE)")
    elif view.on is False:
        yield Finding(NOTE, view.name, "off", _sluice("on", view))
    if view.qdisc == NOQUEUE and not view.upstream and view.on is not False:
        yield Finding(BAD, view.name, "noqueue: nothing to stop",
                      _sluice("on", view, "--qdisc", "fq_codel"))
    length = 1000 if view.kind == "tap" else 500
    resize = ("link", "set", "dev", view.name, "txqueuelen", str(length))
    mend = _tool("ip", view, *resize)
    if view.ring < RING_SHORT:
        yield Finding(BAD, view.name, f"a ring of {view.ring} is too short for a burst "
                      "and its headroom", mend)
    elif view.ring > RING_LONG:
        yield Finding(NOTE, view.name, f"a ring of {view.ring} is a long wait, and no "
                      "longer needed against loss", mend)


def check_lockless(view: View) -> Iterator[Finding]:
    """A defect of kernels before 7.0 (docs/kernels.md): the module leaves it alone."""
    if any(queue.state == LOCKLESS for queue in view.queues):
        yield Finding(BAD, view.name, "drops as stock: this kernel frees packets twice "
                      "if one of several queues with pfifo_fast is closed while full",
                      "sysctl net.core.default_qdisc=fq_codel; "
                      + _tool("tc", view, "qdisc", "replace", "dev", view.name,
                              "root", "handle", "1:", "mq"))


def _against_drops(view: View) -> str:
    """What would end a device's drops, or shows where they come from."""
    if view.upstream or (view.state == "served" and view.qdisc != NOQUEUE):
        return _sluice("watch", view)
    if view.on is None:
        return "modprobe sluice"
    qdisc = ("--qdisc", "fq_codel") if view.qdisc == NOQUEUE else ()
    return _sluice("on", view, *qdisc)


def check_counts(view: View, before: View | None, seconds: float) -> Iterator[Finding]:
    """What happened lately, and since the module knows the device."""
    old = before or view
    drops = view.tx_dropped - old.tx_dropped
    stalls = (view.total("stalls") or 0) - (old.total("stalls") or 0)
    look = _sluice("watch", view)
    within = f"in the last {seconds:.0f} s"
    if any(queue.state == "stalled" for queue in view.queues) or stalls > 0:
        yield Finding(BAD, view.name, "stalled: its reader does not read",
                      _sluice("status", view))
    elif view.total("stalls"):
        stalled = output.count(view.total("stalls") or 0, "stall")
        yield Finding(NOTE, view.name, f"{stalled} so far: its reader paused for "
                      f"{view.stall_ms} ms or more", look)
    if drops > 0:
        why = "" if view.state == "served" else "; stock drops at a full ring"
        text = f"{output.count(drops, 'drop')} {within}{why}"
        yield Finding(BAD, view.name, text, _against_drops(view))
    elif view.total("drops"):
        dropped = output.count(view.total("drops") or 0, "drop")
        yield Finding(NOTE, view.name, f"{dropped} while on, none {within}", look)


def check_devices(facts: Facts) -> Iterator[Finding]:
    before = {(view.netns, view.ifindex): view for view in facts.before}
    for view in facts.views:
        old = before.get((view.netns, view.ifindex))
        found = [
            *check_setup(view),
            *check_lockless(view),
            *check_counts(view, old, facts.seconds),
        ]
        yield from found or [Finding(GOOD, view.name, view.why)]
    if not facts.views:
        yield Finding(GOOD, "devices", "no tun or tap device")


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    check_kernel,
    check_building,
    check_secure_boot,
    check_module,
    check_tracing,
    check_remembering,
    check_devices,
)


def examine(facts: Facts) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(facts)]


def verdict(findings: list[Finding]) -> tuple[int, str]:
    """The exit code, and the last line."""
    hopeless = [one for one in findings if one.level == HOPELESS]
    if hopeless:
        return NOT_SUITABLE, f"verdict: not suitable: {hopeless[0].text}"
    bad = [one for one in findings if one.level == BAD]
    if bad:
        return NO, f"verdict: {output.count(len(bad), 'thing')} to mend"
    return FINE, "verdict: fine"


MARKS = {GOOD: "ok", NOTE: "note", BAD: "mend", HOPELESS: "no"}
STYLES = {GOOD: output.good, NOTE: output.notable, BAD: output.bad, HOPELESS: output.bad}


def format_finding(finding: Finding) -> list[str]:
    mark = MARKS[finding.level]
    first = f"{mark:<5} {finding.subject}: "
    head, *more = output.wrap(finding.text, first, " " * 6)
    lines = [head.replace(mark, STYLES[finding.level](mark), 1), *more]
    # A command stays whole on a line of its own, to be copied.
    return lines + ([f"      {finding.mend}"] if finding.mend else [])


def format_findings(findings: list[Finding]) -> list[str]:
    lines = [line for finding in findings for line in format_finding(finding)]
    code, text = verdict(findings)
    wrapped = output.wrap(text, rest="  ")
    style = output.good if code == FINE else output.bad
    return [*lines, "", *(style(line) for line in wrapped)]


def read_facts() -> Facts:
    """Long because it is a list: one question after the other."""
    names = ["", *system.read_netns_names()]
    before, _, _ = status.read_status(names, with_owners=False)
    started = time.monotonic()
    release = platform.release()
    key, trusted = system.read_signing_key()
    config_lines = config.read()
    answer = system.read_module()
    known: dict[str, Any] = {
        "kernel_config": system.read_kernel_config(release),
        "ftrace_enabled": system.read_text(system.PROC / "sys/kernel/ftrace_enabled")
        or "1",
        "traced": system.read_enabled_functions(),
        "dkms": system.read_dkms(),
    }
    time.sleep(max(0.0, SAMPLE_SECONDS - (time.monotonic() - started)))
    seconds = time.monotonic() - started
    views, _, failed = status.read_status(names)
    return Facts(
        release=release,
        version=platform.version(),
        distribution=system.read_distribution(),
        root=system.is_root(),
        headers=system.has_headers(release),
        module_file=system.has_module_file(release),
        loaded=system.read_module_version(),
        answers=answer is not None,
        at_boot=system.loads_at_boot(),
        udev_rule=system.has_udev_rule(),
        tun=system.has_tun(),
        secure_boot=system.read_secure_boot(),
        signed_only=system.read_signed_only(),
        signing_key=key,
        key_trusted=trusted,
        wrongs=tuple(config.wrongs(config_lines)),
        before=tuple(before),
        views=tuple(views),
        seconds=seconds,
        unread=tuple(str(error).partition(":")[0].split()[-1] for error in failed),
        parameters=system.read_parameters(),
        **known,
    )


def format_report(facts: Facts, findings: list[Finding], kernel: list[str]) -> list[str]:
    """Everything a bug report takes, to be pasted whole."""
    lines = [f"sluice {VERSION}, module {facts.loaded or 'not loaded'}"]
    lines += [f"kernel {facts.release} {facts.version}", f"{platform.machine()}, "
              f"{os.cpu_count()} CPUs, {' '.join(facts.distribution)}, "
              f"python {platform.python_version()}"]
    sections = {
        "parameters": [f"{key}={value}" for key, value in facts.parameters.items()],
        "remembered": [line.text for line in config.read()],
        "ftrace": [line for line in (facts.traced or "").splitlines() if "tun_" in line],
        "kernel log": kernel,
        "devices": status.format_status(list(facts.views), bool(facts.loaded),
                                        sorted({v.netns for v in facts.views})),
        "queues": [str(queue) for view in facts.views for queue in view.queues],
        "findings": format_findings(findings),
    }
    for title, body in sections.items():
        lines += ["", f"== {title}", *(body or ["none"])]
    return lines


@click.command()
@click.option("--report", is_flag=True, help="Print everything, for a bug report.")
@options.json_option
def doctor(report: bool, as_json: bool) -> int:
    """Look for what is wrong, and say what mends it.

    Looks at all namespaces. The exit status is the verdict: 0 fine, 1 things
    to mend, 3 this machine is not suitable.
    """
    facts = read_facts()
    findings = examine(facts)
    code, text = verdict(findings)
    if as_json:
        answer: dict[str, object] = {"verdict": text, "findings": findings}
        if report:
            answer["facts"] = facts
            answer["kernel_log"] = system.read_kernel_lines()
        output.say_json(answer)
    elif report:
        output.say(format_report(facts, findings, system.read_kernel_lines()))
    else:
        output.say(format_findings(findings))
    return code
