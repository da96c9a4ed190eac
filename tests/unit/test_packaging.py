# SPDX-License-Identifier: GPL-2.0-or-later
"""One version everywhere, what is installed is in the tree, and what a build refuses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lab.machines.build import KMOD, source_files
from sluice import VERSION, config, metrics, modprobe
from tests.kernel.scenarios.libvirt import documented_hook
from tests.packaging.scenarios._machine import STOCK

TREE = Path(__file__).resolve().parents[2]
INSTALL = TREE / "packaging/install"


@pytest.mark.parametrize(("name", "pattern"), [
    ("kmod/main.c", r'^MODULE_VERSION\("(.*)"\);$'),
    ("kmod/dkms.conf", r'^PACKAGE_VERSION="(.*)"$'),
    ("debian/changelog", r"\Asluice \((.*)\) "),
    ("packaging/rpm/sluice.spec", r"^%\{!\?version_: %global version_ (.*)}$"),
    ("packaging/rpm/sluice-kmod.spec", r"^Version: +(.*)$"),
    ("packaging/rpm/sluice-kmp.spec", r"^%global version_ (.*)$"),
    ("packaging/arch/PKGBUILD", r"^pkgver=(.*)$"),
    ("packaging/nixos/module.nix", r'^  version = "(.*)";$'),
    ("packaging/kubernetes/module.yaml", r"^ +value: REGISTRY/sluice-source:(.*)$"),
    ("packaging/kubernetes/daemonset.yaml", r"^ +image: REGISTRY/.*:(.*)$"),
])
def test_version_is_the_commands(name: str, pattern: str) -> None:
    found = re.search(pattern, (TREE / name).read_text(), re.MULTILINE)
    assert found and found[1] == VERSION


def test_dkms_does_not_build_for_new_kernels_on_debian() -> None:
    """It would fail the kernel's installation where it cannot."""
    assert not re.search(r"^AUTOINSTALL=", (KMOD / "dkms.conf").read_text(), re.M)


def install(*arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [str(INSTALL), *arguments],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}


@pytest.mark.parametrize(("words", "status", "said"), [
    ("install kmod", 2, "install: kmod: unknown; usage: "),
    ("module", 2, "usage:"),
    # As the scenarios look for it.
    ("module build 0.0-none", 1, "sluice: kernel 0.0-none: no headers, so no module; "
     f"{STOCK}; install linux-headers-0.0-none (or kernel-devel-0.0-none), see: "
     "sluice doctor\n"),
])
def test_scripts_refuse(words: str, status: int, said: str) -> None:
    name, *more = words.split()
    command = [str(TREE / "packaging" / name), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status and said in done.stderr


def test_module_has_all_of_kmod(tmp_path: Path) -> None:
    said = install("module", DESTDIR=str(tmp_path))
    source = tmp_path / f"usr/src/sluice-{VERSION}"
    built_from = {path.name for path in source_files(KMOD)}
    assert files(source) == built_from | {"dkms.conf"}
    assert {path.name for path in KMOD.iterdir()} >= files(source)
    assert f"+ install -D -m 644 -t {source} kmod/Kbuild" in said
    script = tmp_path / "usr/local/lib/sluice/module"
    assert f"version={VERSION}\n" in script.read_text()
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or not re.search("@[A-Z]+@", path.read_text()), path


def test_without_dpkg_dkms_itself_builds_for_new_kernels(tmp_path: Path) -> None:
    """Fedora, RHEL, Arch: no hook of ours, but DKMS's own."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("chmod", "dirname", "install", "mktemp", "rm", "sed"):
        (tools / name).symlink_to(shutil.which(name))
    place = tmp_path / "place"
    install("module", DESTDIR=str(place), PATH=str(tools))
    configured = place / f"usr/src/sluice-{VERSION}/dkms.conf"
    assert 'AUTOINSTALL="yes"\n' in configured.read_text()
    assert not (place / "etc/kernel").exists()


KUBERNETES = TREE / "packaging/kubernetes"


def test_kubernetes_names_what_there_is() -> None:
    """The module's parameters, the image's arguments, rules without a mistake."""
    module = yaml.safe_load((KUBERNETES / "module.yaml").read_text())
    container = module["spec"]["moduleLoader"]["container"]
    given = {word.partition("=")[0] for word in container["modprobe"]["parameters"]}
    assert given and given <= modprobe.PARAMETERS.keys()
    (mapping,) = container["kernelMappings"]
    recipe = (KUBERNETES / "Containerfile").read_text()
    taken = set(re.findall(r"^ARG (\w+)", recipe, re.M))
    passed = {argument["name"] for argument in mapping["build"]["buildArgs"]}
    assert taken == passed | {"KERNEL_FULL_VERSION"}  # which the operator adds
    rules, daemon = yaml.safe_load_all((KUBERNETES / "daemonset.yaml").read_text())
    for text in rules["data"].values():
        assert not config.wrongs(config.parse(text))
    chosen = daemon["spec"]["template"]["spec"]["nodeSelector"]
    assert chosen == module["spec"]["selector"]


# The series that sluice metrics prints.
def series() -> set[str]:
    return {family.series for family in metrics.families(metrics.Seen([], ""))}


@pytest.mark.parametrize("name", ["prometheus/sluice.rules.yml", "grafana/sluice.json"])
def test_alerts_and_dashboard_ask_for_series_there_are(name: str) -> None:
    text = (TREE / "packaging" / name).read_text()
    asked = set(re.findall(r"\bsluice_[a-z_]+\b", text))
    assert len(asked) > 4 and asked <= series(), asked - series()


def test_units_run_what_is_installed(tmp_path: Path) -> None:
    tools = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    where = {"DESTDIR": str(tmp_path), "PREFIX": "/usr", "CONF": "/usr/lib"}
    install("module", "command", PATH=tools, **where)
    units = tmp_path / "usr/lib/systemd/system"
    assert {path.name for path in units.iterdir()} == {
        "sluice.service", "sluice-follow.service",
    }
    for unit in units.iterdir():
        commands = re.findall(r"^Exec\w+=(\S+)", unit.read_text(), re.M)
        assert commands
        for command in commands:
            assert os.path.lexists(tmp_path / command[1:]), command
    rules = (tmp_path / "usr/lib/udev/rules.d/60-sluice.rules").read_text()
    assert "SUBSYSTEM==\"module\"" in rules and "tun_flags" not in rules


def test_python_package_has_what_the_command_imports() -> None:
    """pip, pipx and the packages take the same libraries."""
    project = (TREE / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[(.*?)^\]", project, re.M | re.S)[1]
    names = set(re.findall(r'"([a-z0-9-]+)[>=]', listed))
    assert names == {"click"}
    control = (TREE / "debian/control").read_text()
    assert all(f"python3-{name}" in control for name in names)


SHIPPED_HOOK = (TREE / "packaging/libvirt/qemu").read_text()


@pytest.mark.parametrize("hook", [documented_hook(), SHIPPED_HOOK], ids=["docs", "file"])
@pytest.mark.parametrize(
    ("operation", "status", "calls"),
    [("prepare", 0, ""), ("started", 0, "apply --keep vnet*\n"),
     ("started", 1, "apply --keep vnet*\n")],
)
def test_hook_of_libvirt(tmp_path: Path, hook, operation, status, calls) -> None:
    """As libvirt calls it: guest, operation, "begin", "-", and XML on stdin."""
    tools = tmp_path / "tools"
    tools.mkdir()
    called = tmp_path / "called"
    called.touch()
    for name, text in {
        "qemu": hook,
        "sluice": f'#!/bin/sh\necho "$*" >>{called}\nexit {status}\n',
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    done = subprocess.run(
        [tools / "qemu", "guest", operation, "begin", "-"],
        cwd=tmp_path,
        env={"PATH": f"{tools}:/usr/bin:/bin"},
        input="<domain type='kvm'><name>guest</name></domain>",
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert called.read_text() == calls
    assert documented_hook() in (TREE / "man/sluice.8").read_text()


# kmod/features.sh

FEATURES = Path(__file__).parents[2] / "kmod" / "features.sh"
# A compiler that takes what the pattern in $TAKES matches, by the file's name.
COMPILER = """#!/bin/sh
case $1 in --version) echo "{name} 14.2"; exit ;; esac
for last; do :; done
[ "$last" != - ] || echo '"4.18.0-553.el8"'
case $(basename "$last" .c) in {refuses}) echo "error: $last"; exit 1 ;; esac
"""


def _run(tmp_path: Path, refuses: str, name: str = "gcc", built: str = "gcc"):
    compiler = tmp_path / "cc"
    compiler.write_text(COMPILER.format(name=name, refuses=refuses))
    compiler.chmod(0o755)
    output = tmp_path / "features.h"
    command = ["sh", str(FEATURES), str(output), built, str(compiler), "-O2"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done, output.read_text() if output.exists() else ""


def test_what_compiles_is_had(tmp_path) -> None:
    done, header = _run(tmp_path, "never|direct_*")
    assert done.returncode == 0, done.stderr
    assert "#define SLUICE_HAS_FTRACE_REGS\n" in header
    assert "DIRECT" not in header.partition("SLUICE_FEATURES")[0]
    assert "it lacks direct_ip direct_multi direct_ops" in done.stderr


OTHER = "Debian clang version"


@pytest.mark.parametrize(("refuses", "name", "built", "said"), [
    ("never|tun", "gcc", "gcc", "sluice: this kernel's CONFIG_TUN is off: there is "
     "no device to serve; no module is built\n"),
    ("never|kernel_nofault|ftrace_*|direct_*", "gcc", "gcc", "sluice: needs Linux "
     "5.10 or newer, this is 4.18.0-553.el8; no module is built\n"),
    ("*", "gcc", "gcc", "cc does not compile this kernel's headers ("),
    ("nothing", "gcc", "gcc", "a function that does not exist"),
    ("never", OTHER, "gcc", "is built with gcc"),
    ("never", OTHER, "gcc", "without LLVM=1"),
    ("never", "gcc", "clang", "run make with LLVM=1"),
])
def test_refusal_is_said_and_no_header_made(tmp_path, refuses, name, built, said) -> None:
    done, header = _run(tmp_path, refuses, name, built)
    assert done.returncode == 1 and header == ""
    assert said in done.stderr.splitlines(keepends=True)[-1]
