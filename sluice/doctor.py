# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice doctor: finds problems and prints the fix."""

from __future__ import annotations

import glob
import math
import os
import platform
import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import click

from sluice import VERSION, config, devices, distributions, modprobe, namespaces
from sluice import options, output, packages, rules, status, system
from sluice.devices import LOCKLESS, NOQUEUE, View
from sluice.distributions import NIXOS, Answers
from sluice.errors import FINE, NO, NOT_SUITABLE
from sluice.output import Text, short

SAMPLE_SECONDS = 1.0
TRANSMIT = "tun_net_xmit"
# In enabled_functions: a direct call of our module, and the function it pins then.
DIRECT, OURS = "direct-->sluice_entry", "ftrace_pin_target"
# Slots of a ring: with fewer one burst fills it; more hold seconds of a slow reader.
RING_SHORT, RING_LONG = 64, 5000
# A reader that takes fewer packets per stall_ms is stalled (docs/design.md).
SLOW_PACKETS = 50
STALL_MS_MAX = config.RANGES["stall-ms"][1]
COARSE_TIMER = 1e-5  # seconds; high-resolution timers are finer
OLDEST_KERNEL = 5, 10
RELOAD = "rmmod sluice; modprobe sluice"

UNREAD = "could not be read"
NAMED = 3  # devices of which the same is found; the others are counted
GOOD, NOTE, BAD, HOPELESS = "good", "note", "bad", "hopeless"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    level: str  # good, note (nothing to do), bad (a problem), hopeless (not suitable)
    subject: str
    text: str
    fix: str = ""  # a command, or an instruction


@dataclass(frozen=True)
class Facts:
    """Everything that the checks use; read_facts() reads it from the system."""

    release: str = ""
    version: str = ""  # uname -v
    distribution: tuple[str, ...] = ()
    root: bool = True
    container: str = ""  # the kind of container this runs in
    kernel_config: str | None = None
    has_modules: bool = True  # the kernel can load any
    modules_disabled: bool = False
    timer_resolution: float = 1e-9  # seconds
    ftrace_enabled: str = "1"
    modules_gone: bool = False  # those of this kernel, as after an upgrade
    headers: bool = True
    answers_of: Answers = field(default_factory=Answers)  # of the package manager
    image: str = ""  # the kind of system whose /usr is one
    dkms: str | None = None
    module_file: bool = True
    module_source: bool = True  # /usr/src/sluice-VERSION
    file_version: str = ""  # of the module that modprobe finds
    file_features: str = ""  # and of the kernel it was built for; see kmod/features.sh
    configured: tuple[modprobe.Configured, ...] = ()
    known: dict[str, str] = field(default_factory=lambda: modprobe.PARAMETERS)
    refusal: str = ""  # what the kernel said of the last load that failed
    loaded: str = ""  # the version of the loaded module
    answers: bool = False
    init: str = system.SYSTEMD  # what runs this machine
    udev: bool = True
    at_boot: bool = True
    load_at_boot: str = ""  # the command that makes it load at boot
    rules: int = 0  # in the files
    tun: bool = True
    secure_boot: bool | None = None
    signed_only: str = ""  # what makes the kernel accept only signed modules
    signing_key: str = ""
    key_trusted: bool | None = None
    mokutil: bool = True
    traced: str | None = None  # enabled_functions
    wrongs: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()  # hidden files of rules
    unfinished: str = ""  # what a command left that was killed
    before: tuple[View, ...] = ()
    views: tuple[View, ...] = ()
    seconds: float = SAMPLE_SECONDS
    unread: tuple[str, ...] = ()  # why some namespaces could not be entered
    hidden: int = 0  # namespaces that only root may enter
    netns: str | None = None  # the only namespace that was looked at
    failed: tuple[str, ...] = ()  # facts that could not be read, and why
    parameters: dict[str, str] = field(default_factory=dict)


def parse_config(text: str | None) -> dict[str, str]:
    pairs = (line.partition("=") for line in (text or "").splitlines())
    return {key: value for key, equals, value in pairs if key and equals}


def kernel_lacks(
    version: str, known: dict[str, str], has_modules: bool = True
) -> Iterator[str]:
    """Why no module can serve this kernel; known: its configuration, if seen."""
    if "PREEMPT_RT" in version or known.get("CONFIG_PREEMPT_RT") == "y":
        yield "is PREEMPT_RT, where the headroom cannot be bounded"
    if not has_modules or (known and known.get("CONFIG_MODULES") != "y"):
        yield "cannot load modules (CONFIG_MODULES)"
    if known and known.get("CONFIG_DYNAMIC_FTRACE") != "y":
        yield "lacks CONFIG_DYNAMIC_FTRACE"
    ways = ("CONFIG_DYNAMIC_FTRACE_WITH_ARGS", "CONFIG_DYNAMIC_FTRACE_WITH_REGS")
    if known and not any(known.get(way) == "y" for way in ways):
        yield f"has neither {ways[0]} nor {ways[1]}"


def lacks_of(facts: Facts) -> list[str]:
    known = parse_config(facts.kernel_config)
    lacks = list(kernel_lacks(facts.version, known, facts.has_modules))
    release = re.match(r"(\d+)\.(\d+)", facts.release)
    if release and (int(release[1]), int(release[2])) < OLDEST_KERNEL:
        lacks.insert(0, "is too old: sluice needs 5.10 or newer")
    return lacks


def check_reading(facts: Facts) -> Iterator[Finding]:
    for text in facts.failed:
        yield Finding(NOTE, "doctor", f"{UNREAD}: {text}",
                      "" if facts.root else "run it as root")


def ftrace_is_off(facts: Facts) -> bool:
    return facts.ftrace_enabled.strip() == "0"


def check_kernel(facts: Facts) -> Iterator[Finding]:
    lacks = lacks_of(facts)
    for text in lacks:
        yield Finding(HOPELESS, "kernel", f"{facts.release} {text}")
    if lacks:
        return
    if ftrace_is_off(facts):
        yield Finding(BAD, "kernel", "ftrace is switched off: no packet is seen",
                      "sysctl kernel.ftrace_enabled=1")
    if facts.timer_resolution > COARSE_TIMER:
        yield Finding(BAD, "kernel", "high-resolution timers are off "
                      f"({facts.timer_resolution * 1e3:.0f} ms): a stopped ring would "
                      "run empty", "remove highres=off from the kernel command line "
                      "and reboot")
    if facts.kernel_config is None:
        yield Finding(NOTE, "kernel", f"{facts.release}: its configuration cannot be "
                      "read; ftrace is assumed")
    else:
        yield Finding(GOOD, "kernel", f"{facts.release} has what sluice needs")
    if not facts.tun and not facts.modules_gone:
        inside = "give the container /dev/net/tun"
        yield Finding(BAD, "tun", "/dev/net/tun does not exist",
                      inside if facts.container else "modprobe tun")


def check_headers(facts: Facts, level: str) -> Iterator[Finding]:
    if facts.headers:
        yield Finding(GOOD, "headers", f"headers for {facts.release} installed")
        return
    advice = distributions.headers_advice(
        facts.distribution, facts.release, facts.answers_of
    )
    fix = advice.command or advice.instead
    if NIXOS in facts.distribution:
        fix = "nixos-rebuild switch  # with the module in boot.extraModulePackages"
    why = f"; {advice.reason}" if advice.reason else ": no module can be built for it"
    yield Finding(level, "headers", f"headers for {facts.release} are missing{why}", fix)


def _knows_kernel(facts: Facts) -> bool:
    pattern = rf"{re.escape(facts.release)}[,:].*installed"
    return re.search(pattern, facts.dkms or "") is not None


def check_building(facts: Facts) -> Iterator[Finding]:
    """Whether the module can be built for this kernel and for the next one."""
    level = NOTE if facts.module_file or facts.loaded else BAD
    if facts.image:
        yield Finding(level, "dkms", f"this system ({facts.image}) is an image, into "
                      "which DKMS installs no module",
                      distributions.image_advice(facts.image, facts.release,
                                                 facts.answers_of.owner))
        return
    yield from check_headers(facts, level)
    if NIXOS in facts.distribution:
        return
    if facts.dkms is None:
        command = distributions.install_dkms(facts.distribution)
        yield Finding(level, "dkms", "not installed: a new kernel gets no module",
                      command or "install dkms")
    elif facts.dkms == system.NO_ANSWER:
        yield Finding(NOTE, "dkms", "did not answer", "dkms status -m sluice")
    elif _knows_kernel(facts):
        yield Finding(GOOD, "dkms", f"module for {facts.release} installed")
    elif not facts.dkms:
        yield Finding(level, "dkms", "does not know sluice: a new kernel gets no module",
                      add_to_dkms(facts))
    elif facts.headers:  # without them it cannot have any
        yield Finding(level, "dkms", f"has no module for {facts.release}",
                      f"dkms install -m sluice -v {VERSION} -k {facts.release}")


def add_to_dkms(facts: Facts) -> str:
    if facts.module_source:
        return f"dkms install -m sluice -v {VERSION} -k {facts.release}"
    return distributions.install_module(facts.distribution)


def _enrol(facts: Facts) -> str:
    command = f"mokutil --import {facts.signing_key}; reboot and confirm"
    if facts.mokutil:
        return command
    install = distributions.install_mokutil(facts.distribution) or "install mokutil"
    return f"{install}; {command}"


def check_signing(facts: Facts) -> Iterator[Finding]:
    """Whether the kernel, which may require a signature, would load what DKMS builds."""
    by = facts.signed_only
    state = {True: "Secure Boot on", False: "Secure Boot off", None: "no EFI"}
    said, key = state[facts.secure_boot], facts.signing_key
    if not by:
        yield Finding(GOOD, "signing", f"{said}; module signing not required")
    elif facts.loaded:
        yield Finding(GOOD, "signing", f"{said}; {by} requires it, module loaded")
    elif not key:
        yield Finding(BAD, "signing", f"{said}; {by} requires signed modules, and DKMS "
                      "has no key", "dkms generate_mok")
    elif facts.secure_boot is None:
        # There is no firmware in which a key could be enrolled.
        yield Finding(BAD, "signing", f"{said}; {by} requires signed modules, and the "
                      f"kernel does not know {key}",
                      "remove lockdown= and module.sig_enforce from the kernel command "
                      "line and reboot")
    elif facts.key_trusted is False:
        yield Finding(BAD, "signing", f"{said}; {by} requires signed modules, and {key} "
                      "is not enrolled", _enrol(facts))
    elif facts.key_trusted is None:
        yield Finding(NOTE, "signing", f"{said}; {by} requires signed modules; whether "
                      f"{key} is enrolled cannot be read", _enrol(facts))
    else:
        yield Finding(GOOD, "signing", f"{said}; {key} is enrolled")


def check_machine(facts: Facts) -> Iterator[Finding]:
    """What is missing to build and load the module, where that is possible at all."""
    if lacks_of(facts) or facts.container:
        return
    if facts.modules_gone:
        yield Finding(NOTE if facts.loaded else BAD, "kernel", "the modules of the "
                      f"running kernel {facts.release} are gone, as after an upgrade: "
                      "none can be loaded before the next boot", "reboot")
        return
    yield from check_building(facts)
    if not facts.modules_disabled:
        yield from check_signing(facts)


def check_unloaded(facts: Facts) -> Iterator[Finding]:
    """The next step where the module is not loaded."""
    text = "not loaded: stock behaviour"
    if facts.container:
        yield Finding(BAD, "module", f"{text}; this is a container ({facts.container}), "
                      "its host loads modules", "on the host: modprobe sluice")
    elif facts.modules_disabled:
        yield Finding(BAD, "module", f"{text}; kernel.modules_disabled=1 lets no module "
                      "in before the next boot",
                      (facts.load_at_boot or "have sluice loaded at boot") + "; reboot")
    elif not facts.module_file:
        again = "depmod -a; modprobe sluice"
        yield Finding(BAD, "module", f"no module for {facts.release} installed",
                      again if _knows_kernel(facts) else add_to_dkms(facts))
    elif refused := [*check_configured(facts)]:
        yield from refused
    elif facts.refusal:
        yield Finding(BAD, "module", f"{text}; the kernel said: {facts.refusal}",
                      after_refusal(facts))
    else:
        yield Finding(BAD, "module", text, "modprobe sluice")


def check_configured(facts: Facts) -> Iterator[Finding]:
    """What keeps modprobe from loading the module, as it is configured."""
    for one in facts.configured:
        then = "reboot" if one.where == modprobe.COMMAND_LINE else "modprobe sluice"
        why = modprobe.invalid(one, facts.known)
        span = modprobe.out_of_range(one, facts.known) if facts.refusal else ""
        if why or span:
            why = why or f"outside {span}"
            yield Finding(BAD, "module", f"not loaded: in {one.where} {one.text} is "
                          f"{why}", f"correct it in {one.where}; {then}")
        elif one.kind in ("install", "module_blacklist"):
            text = f"{one.kind} sluice {one.text}".rstrip()
            yield Finding(BAD, "module", f"not loaded: {one.where} has: {text}",
                          f"remove that from {one.where}; {then}")


def after_refusal(facts: Facts) -> str:
    """What to do about the kernel's last message, unless it is out of date."""
    if re.search("invalid for parameter|not accepted", facts.refusal):
        return "modprobe sluice"  # what is configured now is right
    if re.search("cannot be opened", facts.refusal):
        return "modprobe tun; modprobe sluice"
    if re.search("(?i)symbol|disagrees|magic|ELF|Unknown rel|rejected", facts.refusal):
        which = f"-m sluice -v {VERSION} -k {facts.release}"
        again = f"dkms build --force {which}; dkms install --force {which}"
        return f"{again}; modprobe sluice"
    return "sluice doctor --report"


def _reload(facts: Facts) -> str:
    return RELOAD if facts.module_file else "rmmod sluice; load it as it was loaded"


def check_module(facts: Facts) -> Iterator[Finding]:
    if lacks_of(facts):
        return
    if not facts.loaded:
        causes = any(one.level == BAD for one in check_machine(facts))
        if not causes and facts.timer_resolution <= COARSE_TIMER:
            yield from check_unloaded(facts)
        return
    if not facts.answers:
        yield Finding(BAD, "module", "loaded, but its netlink family does not answer",
                      f"{_reload(facts)}; dmesg | tail")
        return
    yield Finding(GOOD, "module", f"version {facts.loaded} loaded")
    if facts.loaded != VERSION:
        there = facts.file_version in ("", VERSION)
        fix = _reload(facts) if there else f"{add_to_dkms(facts)}; {RELOAD}"
        yield Finding(NOTE, "module", f"version {facts.loaded} loaded, command {VERSION}",
                      fix)
    yield from check_boot(facts)


def _differs(one: modprobe.Configured, facts: Facts) -> str:
    """How a parameter of the loaded module differs from what is configured."""
    now, kind = facts.parameters.get(one.name), facts.known.get(one.name, "")
    if not facts.loaded or now is None or modprobe.invalid(one, facts.known):
        return ""
    wanted = modprobe.parse_value(one.value, kind)
    if now == wanted or (one.name == "direct_call" and wanted == "Y"):
        return ""  # a direct call that is not possible reads N
    return f"{one.name} is {now}, {one.where} says {wanted}"


def check_options(facts: Facts) -> Iterator[Finding]:
    """What is configured against what the module has and knows."""
    given = {one.name: one for one in facts.configured if one.kind == "options"}
    then = f"; {_reload(facts)}" if facts.loaded else ""
    for one in given.values():
        fix = f"correct it in {one.where}{then}"
        if modprobe.unknown(one, facts.known):
            guess = modprobe.suggestion(one.name, facts.known)
            guess = f"; did you mean {guess}?" if guess else ""
            yield Finding(BAD, "options", f"in {one.where} {one.text} has no effect: the "
                          f"module has no {one.name}{guess}", fix)
        elif facts.loaded and (why := modprobe.invalid(one, facts.known)):
            yield Finding(BAD, "options", f"in {one.where} {one.text} is {why}: the "
                          "module will not load again", f"correct it in {one.where}")
        elif span := modprobe.out_of_range(one, facts.known):
            if facts.loaded or not facts.refusal:
                yield Finding(NOTE, "options", f"in {one.where} {one.text} is outside "
                              f"{span}", fix)
        elif text := _differs(one, facts):
            path = f"/sys/module/sluice/parameters/{one.name}"
            set_it = f"echo {one.value} >{path}; sluice apply"
            load_again = one.name == "direct_call" or one.value is None
            yield Finding(NOTE, "options", text, _reload(facts) if load_again else set_it)


def check_boot(facts: Facts) -> Iterator[Finding]:
    """Whether the next boot has the module and the rules."""
    if facts.container:
        return
    black = [one.where for one in facts.configured if one.kind == "blacklist"]
    if not facts.at_boot and black and facts.load_at_boot.startswith("echo"):
        yield Finding(NOTE, "module", f"not loaded at boot: {black[0]} has: blacklist "
                      "sluice", f"remove that from {black[0]}; {facts.load_at_boot}")
    elif not facts.at_boot:
        yield Finding(NOTE, "module", "not loaded at boot", facts.load_at_boot)
    elif facts.rules and facts.init != system.SYSTEMD and not facts.udev:
        yield Finding(NOTE, "rules", "no udevd runs, which would have them loaded at "
                      "boot", "have this machine's init run at boot: sluice apply --keep")


def parse_traced(text: str) -> dict[str, tuple[int, str]]:
    """The functions in enabled_functions: how many programs trace each, and the line."""
    found = {}
    for line in text.replace("\n\t", " \t").splitlines():
        match = re.match(r"(\S+)(?: \[\S+\])? \((\d+)\)", line)
        if match:
            found[match[1]] = (int(match[2]), line)
    return found


def check_tracing(facts: Facts) -> Iterator[Finding]:
    """Whether our hook is set, and who else traces the same function."""
    served = any(view.state == "served" for view in facts.views)
    if facts.traced is None:
        if facts.loaded:
            mount = "mount -t tracefs tracefs /sys/kernel/tracing"
            yield Finding(NOTE, "hook", "enabled_functions cannot be seen",
                          mount if facts.root else "run it as root")
        return
    traced = parse_traced(facts.traced)
    users, line = traced.get(TRANSMIT, (0, ""))
    directly = DIRECT in line
    features = facts.file_features.split()
    # a direct call with a live patch: SLUICE_DIRECT_SHARES of kmod/compat.h
    shares = not features or not {"ops_func", "ops_func_ip"}.isdisjoint(features)
    if served and not users and not ftrace_is_off(facts):
        yield Finding(BAD, "hook", f"{TRANSMIT} is not hooked, though devices are served",
                      _reload(facts))
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
        yield Finding(NOTE, "ftrace",
                      f"{TRANSMIT} is live-patched: the patch may bypass sluice",
                      "ls /sys/kernel/livepatch")
    elsewhere = len([name for name in traced if name not in (TRANSMIT, OURS)])
    if elsewhere:
        yield Finding(GOOD, "ftrace", f"{output.count(elsewhere, 'other function')} "
                      "traced, none of our concern")


def check_rules(facts: Facts) -> Iterator[Finding]:
    for wrong in facts.wrongs:
        yield Finding(BAD, "rules", wrong, "sluice config check")
    if facts.drift and not facts.wrongs:
        more = f" (and {len(facts.drift) - 1} more)" if len(facts.drift) > 1 else ""
        yield Finding(BAD, "rules", "the module differs from the files: "
                      f"{facts.drift[0]}{more}", "sluice apply")
    for path in facts.unused:
        yield Finding(NOTE, "rules", f"{path} is not read, as it is hidden",
                      "if its rules shall hold, rename it")
    if facts.unfinished:
        yield Finding(NOTE, "rules", "a command was killed before it changed a rule; "
                      "repeat it, or remove what is left", f"rm {facts.unfinished}")
    if facts.hidden:
        yield Finding(NOTE, "netns", f"{output.count(facts.hidden, 'namespace')} cannot "
                      "be entered", "run it as root")
    for text in facts.unread:
        reason, _, next_step = text.partition("; ")
        yield Finding(NOTE, "netns", reason.removeprefix("netns "), next_step)


def _sluice(verb: str, view: View, *more: str) -> str:
    """A sluice command for one device. A device's name may have any character but "/",
    ":" and space, so that characters special to a shell or a pattern are quoted.
    """
    name = glob.escape(view.name)
    name = f"[-]{name[1:]}" if name.startswith("-") else name  # or it would be an option
    narrow = view.netns and verb not in ("on", "off")  # a rule applies everywhere
    at = ["--netns", view.netns] if narrow else []
    return shlex.join(["sluice", verb, name, *more, *at])


def _tool(name: str, view: View, *arguments: str) -> str:
    """An ip or tc command in the view's namespace."""
    if view.netns.isdigit():
        return shlex.join(["nsenter", "-t", view.netns, "-n", name, *arguments])
    if "/" in view.netns:
        return shlex.join(["nsenter", f"--net={view.netns}", name, *arguments])
    at = ["-n", view.netns] if view.netns else []
    return shlex.join([name, *at, *arguments])


def check_setup(view: View) -> Iterator[Finding]:
    """Unusual settings of a device."""
    if view.state == "refused":
        yield Finding(BAD, view.label, view.why, "sluice doctor --report")
    if view.upstream:
        yield Finding(GOOD, view.label, "served by the driver (IFF_BACKPRESSURE)")
    elif view.on is False:
        by = next((s.source for s in view.settings if s.name == "on"), "")
        yield Finding(NOTE, view.label, "off" + (f" ({by})" if by else ""),
                      _sluice("on", view))
    if view.qdisc == NOQUEUE and not view.upstream and view.on is not False:
        fix = _sluice("on", view, "--qdisc", view.rule_qdisc or "fq_codel")
        known = view.on is not None  # or a rule would have to wait for the module
        yield Finding(BAD if known else NOTE, view.label, "noqueue: nothing to stop",
                      fix if known else "")
    length = 1000 if view.kind == "tap" else 500
    resize = ("link", "set", "dev", view.name, "txqueuelen", str(length))
    fix = _tool("ip", view, *resize)
    if view.ring < RING_SHORT:
        yield Finding(BAD, view.label, f"a ring of {view.ring} is too short for a burst "
                      "and the headroom", fix)
    elif view.ring > RING_LONG:
        yield Finding(NOTE, view.label, f"a ring of {view.ring} adds delay and is not "
                      "needed against loss", fix)


def check_lockless(view: View) -> Iterator[Finding]:
    """Devices not served because of a defect of kernels before 7.0 (docs/kernels.md)."""
    if any(queue.state == LOCKLESS for queue in view.queues):
        yield Finding(BAD, view.label, "drops as stock: this kernel frees packets twice "
                      "if one of several queues with pfifo_fast is closed while full",
                      "sysctl net.core.default_qdisc=fq_codel; "
                      + _tool("tc", view, "qdisc", "replace", "dev", view.name,
                              "root", "handle", "1:", "mq"))


def _against_drops(view: View) -> str:
    """What would end a device's drops, or show where they come from."""
    if view.upstream or (view.state == "served" and view.qdisc != NOQUEUE):
        return _sluice("watch", view)
    if view.on is None:
        return ""  # the module is not loaded, which has been said
    qdisc = ("--qdisc", "fq_codel") if view.qdisc == NOQUEUE else ()
    return _sluice("on", view, *qdisc)


def patient_stall_ms(view: View, pace: float) -> int:
    """The stall_ms that a reader of so many packets/s needs; 0 if its own suffices."""
    needed = 1000 * SLOW_PACKETS / pace
    if needed <= view.setting("stall-ms"):
        return 0
    return min(STALL_MS_MAX, math.ceil(2 * needed / 100) * 100)


def check_reader(view: View, old: View, seconds: float) -> Iterator[Finding]:
    """Stalls: a larger stall_ms helps a slow reader, nothing helps a dead one.

    The driver counts a packet when it is read, so the counter tells the pace. The
    module's own pace does not: it leaves out the time in which nothing is read.
    """
    within = f"in the last {seconds:.0f} s"
    stalls = (view.total("stalls") or 0) - (old.total("stalls") or 0)
    before = {queue.id for queue in old.queues if queue.state == "stalled"}
    # A slow reader's queue is stopped now and then, to see whether the reader keeps up.
    stalled = [queue.id for queue in view.queues if queue.state == "stalled"
               or queue.state == "stopped" and queue.id in before]
    if not stalled and not stalls:
        if view.total("stalls"):
            stalled_before = output.count(view.total("stalls") or 0, "stall")
            yield Finding(NOTE, view.label, f"{stalled_before} so far, none {within}: "
                          f"the reader paused for {view.setting('stall-ms')} ms or more",
                          _sluice("watch", view))
        return
    read = max(0, view.tx_packets - old.tx_packets)
    wanted = patient_stall_ms(view, read / seconds) if read else 0
    if len(view.queues) > 1:
        which = ", ".join(str(number) for number in stalled) or "some"
        text, fix = f"stalled: too few packets are read from queue {which}", ""
    elif not read:
        text, fix = f"stalled: the reader read nothing {within}", ""
    elif not wanted:
        text, fix = (f"stalled: the reader pauses for {view.setting('stall-ms')} ms or "
                     "more"), ""
    else:
        text = (f"the reader is slow: {short(read / seconds)} packets/s, "
                f"{output.count(view.total('stalls') or 0, 'stall')}")
        text += f"; with this limit a blocking sender may wait {wanted / 1000:g} s"
        fix = _sluice("on", view, "--stall-ms", str(wanted))
    yield Finding(BAD, view.label, text, fix or _sluice("status", view))


def check_drops(view: View, old: View, within: str) -> Iterator[Finding]:
    """Loss at the ring is a problem; the qdisc drops and marks by design."""
    drops = view.tx_dropped - old.tx_dropped
    if drops > 0:
        why = "" if view.state == "served" else "; stock drops at a full ring"
        text = f"the ring drops: {output.count(drops, 'packet')} {within}{why}"
        yield Finding(BAD, view.label, text, _against_drops(view))
    elif view.total("drops"):
        dropped = output.count(view.total("drops") or 0, "drop")
        yield Finding(NOTE, view.label, f"{dropped} at the ring while on, none {within}",
                      _sluice("watch", view))
    shed = view.qdisc_stats.drops - old.qdisc_stats.drops
    marked = (view.qdisc_stats.marks or 0) - (old.qdisc_stats.marks or 0)
    if shed > 0 or marked > 0:
        marks = f", {marked} marked" if marked > 0 else ""
        yield Finding(GOOD, view.label, f"the qdisc ({view.qdisc}) limits the queue as "
                      f"it should: {max(0, shed)} dropped{marks} {within}")
    if view.total("rescued"):
        yield Finding(NOTE, view.label, f"{view.total('rescued')} lost timers were "
                      "replaced by the backstop", "sluice doctor --report")


def check_bypass(view: View, old: View, facts: Facts) -> Iterator[Finding]:
    """Packets that reach the ring without passing the module's hook.

    The module checks a ring at least once per quarter of it. More packets than
    twice what the rings hold cannot have been in them when this began.
    """
    if view.state != "served" or old.state != "served":
        return
    passed = view.tx_packets - old.tx_packets
    looked = view.total("checks") != old.total("checks")
    if looked or passed <= 2 * view.ring * view.queue_count:
        return
    packets = output.count(passed, "packet")
    yield Finding(BAD, view.label, f"{packets} passed the ring and "
                  f"the hook saw none: is {TRANSMIT} patched without ftrace (Ksplice, "
                  "KernelCare), or do packets come by XDP_REDIRECT?", _reload(facts))


def check_device(
    view: View, before: View | None, facts: Facts, hooked: bool
) -> Iterator[Finding]:
    """Its settings, and what happened during the check. A loss of which the cause has
    been told is no problem of its own."""
    old = before or view
    causes = [
        *check_setup(view),
        *check_lockless(view),
        *check_reader(view, old, facts.seconds),
    ]
    if ftrace_is_off(facts):
        causes = [one for one in causes if view.state != "refused" or one.level != BAD]
    yield from causes
    fixes = [one.fix for one in causes if one.fix]
    switched_off = view.on is not True and not view.upstream
    told = switched_off or any(one.level == BAD for one in causes)
    for one in check_drops(view, old, f"in the last {facts.seconds:.0f} s"):
        if one.level == BAD and (told or one.fix in fixes):
            one = replace(one, level=NOTE, fix="")
        yield one
    if hooked and not ftrace_is_off(facts):
        yield from check_bypass(view, old, facts)


def check_devices(facts: Facts) -> Iterator[Finding]:
    before = {(view.netns, view.ifindex): view for view in facts.before}
    hooked = all(one.subject != "hook" or one.level != BAD
                 for one in check_tracing(facts))
    for view in facts.views:
        old = before.get((view.netns, view.ifindex))
        found = [*check_device(view, old, facts, hooked)]
        yield from found or [Finding(GOOD, view.label, view.why)]
    if not facts.views:
        where = namespaces.described(facts.netns)
        yield Finding(GOOD, "devices", f"no tun or tap device in {where}")


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    check_reading,
    check_kernel,
    check_machine,
    check_module,
    check_options,
    check_tracing,
    check_rules,
    check_devices,
)


# The facts that a finding rests on: where one could not be read nothing is fine.
RESTS_ON = {
    "kernel": ("kernel_config", "ftrace_enabled", "timer_resolution", "has_modules"),
    "headers": ("headers",),
    "dkms": ("dkms",),
    "signing": ("secure_boot", "signed_only", "signing key"),
    "module": ("loaded", "answers"),
    "hook": ("traced", "loaded"),
    "devices": ("devices",),
}


def _is_certain(finding: Finding, facts: Facts) -> bool:
    failed = {text.partition(" (")[0] for text in facts.failed}
    return finding.level != GOOD or failed.isdisjoint(RESTS_ON.get(finding.subject, ()))


def examine(facts: Facts) -> list[Finding]:
    findings = [finding for check in CHECKS for finding in check(facts)]
    return [finding for finding in findings if _is_certain(finding, facts)]


def merge_equal(findings: list[Finding]) -> list[Finding]:
    """One finding for all devices of which the same is found; the fix is the first's."""
    same: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        same.setdefault((one.level, one.text), []).append(one)
    merged = []
    for (first, *others) in same.values():
        if others and first.fix not in ("", others[0].fix):
            first = replace(first, text=f"{first.text}; for {first.subject}:")
        names = [one.subject for one in (first, *others)]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        merged.append(replace(first, subject=", ".join(names[:NAMED]) + more))
    return merged


def verdict(findings: list[Finding]) -> tuple[int, str]:
    """The exit code, and the last line."""
    hopeless = [one for one in findings if one.level == HOPELESS]
    if hopeless:
        return NOT_SUITABLE, f"not suitable: kernel {hopeless[0].text}"
    bad = [one for one in merge_equal(findings) if one.level == BAD]
    if bad:
        return NO, f"{output.count(len(bad), 'problem')} found"
    unread = any(one.text.startswith(UNREAD) for one in findings)
    return FINE, "no problem found" + " in what could be read" * unread


MARKS = {GOOD: "ok", NOTE: "WARN", BAD: "FAIL", HOPELESS: "FAIL"}
STYLES = {
    GOOD: output.GOOD,
    NOTE: output.NOTABLE,
    BAD: output.BAD,
    HOPELESS: output.BAD,
}


def format_finding(finding: Finding) -> list[str | Text]:
    mark = MARKS[finding.level]
    first = f"{mark:<5} {finding.subject}: "
    head, *more = output.wrap(finding.text, first, " " * 6)
    # A command is on a line of its own, not wrapped, so that it can be copied.
    fix = [f"      {finding.fix}"] if finding.fix else []
    return [output.marked(head, mark, STYLES[finding.level]), *more, *fix]


def format_findings(findings: list[Finding]) -> list[str | Text]:
    merged = merge_equal(findings)
    lines = [line for finding in merged for line in format_finding(finding)]
    code, text = verdict(findings)
    style = output.GOOD if code == FINE else output.BAD
    last = [output.styled(line, style) for line in output.wrap(text, rest="  ")]
    return [*lines, "", *last]


# The system is read one fact after the other. Where that fails there is a finding, and
# the fact keeps its default.
QUESTIONS: dict[str, Callable[[], Any]] = {
    "release": platform.release,
    "version": platform.version,
    "distribution": lambda: system.read_distribution(),
    "root": lambda: system.is_root(),
    "container": lambda: system.read_container(),
    "kernel_config": lambda: system.read_kernel_config(platform.release()),
    "has_modules": lambda: system.has_modules(),
    "modules_disabled": lambda: system.read_modules_disabled(),
    "timer_resolution": lambda: time.clock_getres(time.CLOCK_MONOTONIC),
    "ftrace_enabled": lambda: system.read_text(
        system.PROC / "sys/kernel/ftrace_enabled") or "1",
    "headers": lambda: system.has_headers(platform.release()),
    "modules_gone": lambda: packages.modules_are_gone(platform.release()),
    "answers_of": lambda: read_answers(),
    "image": lambda: distributions.image_kind(
        system.read_os_release(), system.is_ostree()),
    "module_file": lambda: system.has_module_file(platform.release()),
    "file_version": lambda: system.read_file_info("version"),
    "file_features": lambda: system.read_file_info("features"),
    "configured": lambda: modprobe.read_configured(),
    "known": lambda: modprobe.read_known(),
    "refusal": lambda: modprobe.last_refusal(system.read_kernel_lines()),
    "module_source": lambda: system.exists(f"/usr/src/sluice-{VERSION}"),
    "loaded": lambda: system.read_module_version(),
    "answers": lambda: system.read_module() is not None,
    "init": lambda: system.read_init(),
    "udev": lambda: system.has_udev(),
    "at_boot": lambda: system.loads_at_boot(
        system.read_init(),
        any(one.kind == "blacklist" for one in modprobe.read_configured())),
    "load_at_boot": lambda: system.load_at_boot_command(system.read_init()),
    "rules": lambda: len(config.read_all().entries),
    "tun": lambda: system.has_tun(),
    "secure_boot": lambda: system.read_secure_boot(),
    "signed_only": lambda: system.read_signed_only(),
    "mokutil": lambda: system.has_tool("mokutil"),
    "traced": lambda: system.read_enabled_functions(),
    "wrongs": lambda: config.read_all().wrongs,
    "drift": lambda: read_drift(),
    "unused": lambda: tuple(map(str, config.hidden())),
    "unfinished": lambda: read_unfinished(),
    "parameters": lambda: system.read_parameters(),
    "dkms": lambda: system.read_dkms(),
}


def read_drift() -> tuple[str, ...]:
    loaded = system.read_rules()
    return () if loaded is None else tuple(rules.drift(config.read_all(), loaded))


def read_answers() -> Answers:
    """Asked only if the headers are missing: it takes a second."""
    release = platform.release()
    if system.has_headers(release):
        return Answers()
    return packages.read_answers(system.read_distribution(), release)


def read_unfinished() -> str:
    path = config.unfinished()
    return str(path) if path.exists() else ""


def _asked(ask: Callable[[], Any], name: str, failed: list[str], default: Any) -> Any:
    try:
        return ask()
    except Exception as error:  # no error may end the command
        failed.append(f"{name} ({error or type(error).__name__})")
        return default


def read_facts(netns: str | None = None) -> Facts:
    failed: list[str] = []
    nothing = devices.Seen([], [], 0)

    def look(with_owners: bool) -> devices.Seen:
        return devices.read_machine(netns, with_owners)

    before = _asked(lambda: look(False), "devices", failed, nothing)
    started = time.monotonic()
    known = {}
    for name, ask in QUESTIONS.items():
        default = getattr(Facts(), name)
        known[name] = _asked(ask, name, failed, default)
    key, trusted = _asked(system.read_signing_key, "signing key", failed, ("", None))
    time.sleep(max(0.0, SAMPLE_SECONDS - (time.monotonic() - started)))
    seconds = time.monotonic() - started
    after = _asked(lambda: look(True), "devices", failed, nothing)
    return Facts(
        signing_key=key,
        key_trusted=trusted,
        before=tuple(before.views),
        views=tuple(after.views),
        seconds=seconds,
        unread=tuple(str(error) for error in after.failed),
        hidden=after.hidden,
        netns=netns,
        failed=tuple(dict.fromkeys(failed)),
        **known,
    )


def _format_rules() -> list[str]:
    return [
        f"{entry.origin} {config.format_rule(entry.rule)}"
        for entry in config.read_all().entries
    ]


def format_report(
    facts: Facts, findings: list[Finding], kernel: list[str]
) -> list[str | Text]:
    """Everything that a bug report needs, to be pasted as it is."""
    lines: list[str | Text] = [
        f"sluice {VERSION}, module {facts.loaded or 'not loaded'}",
        f"kernel {facts.release} {facts.version}",
        f"{platform.machine()}, {os.cpu_count()} CPUs, {' '.join(facts.distribution)}, "
        f"python {platform.python_version()}",
    ]
    shown = [line for view in facts.views for line in status.format_device(view)]
    sections: dict[str, list[str | Text]] = {
        "parameters": [f"{key}={value}" for key, value in facts.parameters.items()],
        "modprobe": [f"{one.where}: {one.kind} {one.text}" for one in facts.configured],
        "rules": [*_format_rules()],
        "ftrace": [line for line in (facts.traced or "").splitlines() if "tun_" in line],
        "kernel log": [*kernel],
        "devices": shown,
        "queues": [str(queue) for view in facts.views for queue in view.queues],
        "findings": format_findings(findings),
    }
    for title, body in sections.items():
        lines += ["", f"== {title}", *(body or ["none"])]
    return lines


@click.command()
@click.option("--report", is_flag=True, help="Print everything, for a bug report.")
@options.netns_option
@options.json_option
def doctor(report: bool, netns: str | None, as_json: bool) -> int:
    """Find problems and print the fix.

    Looks at all network namespaces, unless --netns names one. The exit status is the
    verdict: 0 no problem, 1 problems found, 3 this machine is not suitable.
    """
    if netns is not None:
        namespaces.find(netns)  # or doctor would only say that it cannot be read
    facts = read_facts(netns)
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
