# SPDX-License-Identifier: GPL-2.0-or-later
"""The two Debian packages, installed with apt and without a network."""

from __future__ import annotations

import json
from pathlib import Path

from lab.guest.devices import HERE
from lab.guest.scenarios import Env, scenario
from sluice import VERSION
from sluice.netlink import Client
from tests.kernel.scenarios._traffic import assert_flows, sink
from tests.packaging.scenarios import _machine as debian

NEXT = f"{debian.RELEASE}-next"


def run_kernel_hooks(moment: str, release: str) -> str:
    """What a kernel's package runs when it is installed or removed."""
    folder = f"/etc/kernel/{moment}.d"
    how = ("--verbose", "--exit-on-error", f"--arg={release}")
    done = debian.run("run-parts", *how, folder)
    assert done.status == 0, done.said
    return done.said


@scenario(deadline=900)
def tap_in_use_is_served_without_a_reboot_and_purge_leaves_no_trace(env: Env) -> None:
    reader = sink(env, ring=100)
    before = debian.read_files()
    with debian.pings():
        done = debian.apt_install(env)
    debian.assert_served(env, reader)
    assert debian.STOCK not in done.said, done.said
    assert debian.module_files(), "the module is in no folder of this kernel"
    unit = Path("/usr/lib/systemd/system/sluice.service").read_text()
    assert "ExecStart=/usr/lib/sluice/module start\n" in unit, unit
    if debian.has_command():
        check_command(env)
    with debian.pings():
        debian.purge()
    assert_flows(env)
    debian.assert_no_trace(before)


def check_command(env: Env) -> None:
    """The command, its caches, verdict, completion; udev, which has rules loaded."""
    caches = Path("/usr/share/sluice/sluice/__pycache__")
    assert list(caches.glob("doctor.*.pyc")), "Python's caches were not made"
    found = json.loads(env.run("sluice", "--json", HERE.name))
    assert found["module"]["loaded"], found
    verdict = json.loads(debian.run("sluice", "doctor", "--json").said)
    levels = {(one["subject"], one["level"]) for one in verdict["findings"]}
    for subject in ("kernel", "headers", "dkms", "module"):
        assert (subject, "good") in levels, verdict
    assert "bad" not in {level for _, level in levels}, verdict
    env.run("bash", "-ec", ". /usr/share/bash-completion/completions/sluice;"
            "complete -p sluice")
    env.run("/usr/lib/systemd/systemd-udevd", "--daemon")
    env.defer(env.run, "udevadm", "control", "--exit")
    env.run("sluice", "off", "vpn*")
    env.run("rmmod", "sluice")
    env.run("modprobe", "sluice")

    def has_rule() -> bool:
        with Client() as client:
            return [rule.pattern for rule in client.rules()] == ["vpn*"]

    env.wait_for(has_rule, "udev had the rules loaded", seconds=60)
    env.run("ip", "tuntap", "add", "vpn0", "mode", "tun")
    env.defer(env.run, "ip", "link", "del", "vpn0")
    with Client() as client:
        off = [device.ifname for device in client.devices() if not device.on]
    assert off == ["vpn0"], off


@scenario(deadline=900, often=False)
def device_is_served_once_headers_are_installed(env: Env) -> None:
    reader = sink(env, ring=100)
    away = debian.BUILD.with_name("build.away")
    debian.BUILD.rename(away)
    env.defer(lambda: away.exists() and away.rename(debian.BUILD))
    done = debian.apt_install(env)
    debian.assert_stock(env, done, f"linux-headers-{debian.RELEASE}", "no headers")
    if debian.has_command():
        said = debian.run("sluice", "doctor")
        assert said.status == 1 and "headers" in said.said, said
    run_kernel_hooks("postinst", debian.RELEASE)
    away.rename(debian.BUILD)
    run_kernel_hooks("header_postinst", debian.RELEASE)
    debian.assert_served(env, reader)


@scenario(deadline=900, often=False)
def failed_build_fails_neither_apt_nor_a_kernel(env: Env) -> None:
    sink(env, ring=100)
    env.enter(debian.broken_headers())
    done = debian.apt_install(env)
    debian.assert_stock(env, done, "does not build", "make.log")
    log = debian.DKMS.glob("*/build/make.log")
    assert debian.BROKEN in next(log).read_text()
    for name in (f"linux-image-{debian.RELEASE}", f"linux-headers-{debian.RELEASE}"):
        configured = debian.run(f"/var/lib/dpkg/info/{name}.postinst", "configure", "0")
        assert configured.status == 0, configured.said
        assert "does not build" in configured.said, configured.said
    assert_flows(env)


@scenario(deadline=900, often=False)
def new_kernel_gets_the_module_and_its_removal_removes_it(env: Env) -> None:
    """With the scripts of Debian's own packages; its headers come after it."""
    debian.apt_install(env)
    image, headers = next_image(env), next_headers(env)
    env.defer(debian.purge, "linux-*-next")
    done = debian.apt("install", image)
    assert f"kernel {NEXT}: no headers" in done.said, done.said
    assert not debian.module_files(NEXT)
    debian.apt("install", headers)
    assert len(debian.module_files(NEXT)) == 1, debian.module_files(NEXT)
    debian.purge("linux-*-next")
    assert not (debian.MODULES / NEXT).exists(), list((debian.MODULES / NEXT).rglob("*"))
    assert debian.module_files(), "this kernel's module went along"


def next_image(env: Env) -> str:
    """This kernel's package under another name; it holds no modules."""
    folder = Path("/tmp/image/lib/modules", NEXT)
    folder.mkdir(parents=True)
    for name in ("modules.order", "modules.builtin"):
        (folder / name).write_bytes((debian.MODULES / debian.RELEASE / name).read_bytes())
    return pack(env, Path("/tmp/image"), "linux-image")


def next_headers(env: Env) -> str:
    """This kernel's headers under another name: a link to them."""
    folder = Path("/tmp/headers/lib/modules", NEXT)
    folder.mkdir(parents=True)
    (folder / "build").symlink_to(debian.BUILD.resolve())
    return pack(env, Path("/tmp/headers"), "linux-headers")


def pack(env: Env, tree: Path, kind: str) -> str:
    """A package of the next kernel, with the scripts of the one that runs."""
    scripts = Path("/var/lib/dpkg/info").glob(f"{kind}-{debian.RELEASE}.p*")
    (tree / "DEBIAN").mkdir()
    for script in scripts:
        copy = tree / "DEBIAN" / script.suffix[1:]
        copy.write_text(script.read_text().replace(debian.RELEASE, NEXT))
        copy.chmod(0o755)
    assert (tree / "DEBIAN/postinst").exists(), f"{kind}: has no script to copy"
    (tree / "DEBIAN/control").write_text(
        f"Package: {kind}-{NEXT}\nVersion: 1\nArchitecture: all\n"
        "Maintainer: lab <lab@packages.invalid>\nDescription: a kernel to come\n"
    )
    path = f"/tmp/{kind}.deb"
    env.run("dpkg-deb", "-b", str(tree), path)
    env.run("rm", "-r", str(tree))
    return path


# Compiled by the guest: ccache does not know this version.
@scenario(deadline=900, often=False)
def newer_package_replaces_the_loaded_module(env: Env) -> None:
    reader = sink(env, ring=100)
    debian.apt_install(env)
    assert Path("/sys/module/sluice/version").read_text().strip() == VERSION
    debian.apt("install", debian.newer_package(env, f"{VERSION}.1"))
    assert Path("/sys/module/sluice/version").read_text().strip() == f"{VERSION}.1"
    debian.assert_served(env, reader)
    assert [path.name for path in debian.DKMS.glob("[0-9]*")] == [f"{VERSION}.1"]
    assert len(debian.module_files()) == 1, debian.module_files()


@scenario(deadline=900, often=False)
def newer_package_that_does_not_build_leaves_the_one_before(env: Env) -> None:
    reader = sink(env, ring=100)
    debian.apt_install(env)
    env.enter(debian.broken_headers())
    done = debian.apt("install", debian.newer_package(env, f"{VERSION}.1"))
    assert f"does not build; that of version {VERSION} stays" in done.said, done.said
    assert debian.run("modinfo", "-F", "version", "sluice").said.strip() == VERSION
    debian.run("rmmod", "sluice")
    debian.run("modprobe", "sluice")
    debian.assert_served(env, reader)
    debian.purge()
    assert not debian.module_files(), debian.module_files()


@scenario(often=False)
def debian_without_the_libraries_refuses_only_the_command(env: Env) -> None:
    if debian.has_command():
        env.skip("a Debian without click 8.1: this one has it")
    done = debian.run("apt-get", "install", "-y", debian.package("sluice-tun"))
    assert done.status == 100 and "python3-click (>= 8.1.3)" in done.said, done.said
