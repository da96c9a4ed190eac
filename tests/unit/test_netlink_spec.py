# SPDX-License-Identifier: GPL-2.0-or-later
"""The module, sluice/spec.py and docs/netlink.md say what the spec says.

kmod/uapi.h and kmod/policy.h are generated from it: see lab/checks/generate.py.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from lab.checks import generate
from lab.machines.build import ynl_folder
from sluice import config, netlink

REPOSITORY = Path(__file__).parents[2]
SPEC: dict[str, Any] = yaml.safe_load((REPOSITORY / "docs/sluice.yaml").read_text())
UAPI = (REPOSITORY / "kmod/uapi.h").read_text()
HEADER = (REPOSITORY / "kmod/sluice.h").read_text()
POLICY = (REPOSITORY / "kmod/policy.h").read_text()
MODULE = "".join(
    (REPOSITORY / "kmod" / name).read_text() for name in ("netlink.c", "rules.c")
)
SETS = {
    one["name"]: one for one in SPEC["attribute-sets"] if "subset-of" not in one
}


def page_maker() -> ModuleType:
    path = REPOSITORY / "docs/make_netlink.py"
    found = importlib.util.spec_from_file_location("docs_netlink", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def parse_enum(name: str) -> list[tuple[str, int]]:
    """Name and number of each entry of an enum of uapi.h."""
    body = re.search(rf"enum {name} {{(.*?)\n}};", UAPI, re.DOTALL)[1]
    entries, number = [], -1
    for entry in re.finditer(r"^\t(\w+)(?: = (\d+))?,$", body, re.MULTILINE):
        number = int(entry[2]) if entry[2] else number + 1
        entries.append((entry[1], number))
    return entries


def c_name(text: str) -> str:
    return text.upper().replace("-", "_")


def entry_name(entry: Any) -> str:
    return entry["name"] if isinstance(entry, dict) else entry


def numbered(entries: list[Any], prefix: str) -> list[tuple[str, int]]:
    named = page_maker().numbered(entries, "value", 1)
    return [(c_name(prefix + one["name"]), number) for number, one in named]


def test_numbers_in_c_are_those_of_the_spec() -> None:
    operations = SPEC["operations"]
    wanted = {"sluice_cmd": numbered(operations["list"], operations["name-prefix"])}
    for one in SETS.values():
        name = one["enum-name"].replace("-", "_")
        wanted[name] = numbered(one["attributes"], one["name-prefix"])
    found = {name: parse_enum(name)[:-1] for name in wanted}  # without MAX
    for one in SPEC["definitions"]:
        noun = one["name"] if one["name"] == "rule-netns" else one["name"].split("-")[0]
        name = f"sluice_{one['name'].replace('-', '_')}"
        wanted[name] = [
            (c_name(f"sluice-{noun}-{entry_name(entry)}"),
             1 << n if one["type"] == "flags" else n)
            for n, entry in enumerate(one["entries"])
        ]
        found[name] = parse_enum(name)
    assert found == wanted and len(found) > 5
    (group,) = SPEC["mcast-groups"]["list"]
    assert f'SLUICE_FAMILY_NAME\t"{SPEC["name"]}"' in UAPI
    assert f'SLUICE_MCGRP_EVENTS\t"{group["name"]}"' in UAPI


def test_generated_headers_are_current() -> None:
    files = ynl_folder()
    if not files.exists():
        pytest.skip("ynl-gen is not in the cache; make generate fetches it")
    for name, text in generate.make(Path(sys.executable), files).items():
        assert (REPOSITORY / "kmod" / name).read_text() == text, "run: make generate"


def test_strings_of_a_request_end_with_a_nul() -> None:
    """The module hands them to the kernel's own functions for strings."""
    assert "NLA_NUL_STRING" in POLICY
    assert "NLA_STRING" not in POLICY


def test_only_what_sets_asks_for_a_capability() -> None:
    operations = re.search(r"genl_ops ops\[\] = {\n(.*?)\n};", MODULE, re.S)[1]
    for one in SPEC["operations"]["list"]:
        if "event" in one:
            continue
        command = f"SLUICE_CMD_{c_name(one['name'])},"
        (entry,) = [e for e in operations.split("},") if command in e]
        asks = [
            re.search(
                r"netlink_ns_capable\(|may_set_rules\(",
                re.search(rf"\b{name}\([^;]*?\n{{.*?\n}}\n", MODULE, re.S)[0],
            )
            is not None
            for name in re.findall(r"\.(?:doit|dumpit) = (\w+)", entry)
        ]
        assert asks, one["name"]
        assert any(asks) is ("admin-perm" in one.get("flags", [])), one["name"]
    rules = re.search(r"\bmay_set_rules\([^;]*?\n{.*?\n}\n", MODULE, re.S)[0]
    assert "netlink_capable(skb, CAP_NET_ADMIN)" in rules


@pytest.mark.parametrize(("operation", "result"), [
    ("device-get", netlink.Device),
    ("queue-get", netlink.Queue),
    ("queue-event", netlink.Event),
    ("rule-get", netlink.Rule),
])
def test_answers_are_dataclasses_of_the_same_fields(operation, result) -> None:
    one = {each["name"]: each for each in SPEC["operations"]["list"]}[operation]
    said = one["event"] if "event" in one else one["dump"]["reply"]
    names = {name.replace("-", "_") for name in said["attributes"]}
    assert {field.name for field in dataclasses.fields(result)} == names


def test_command_and_module_know_the_ranges() -> None:
    attributes = {each["name"]: each for each in SETS["device"]["attributes"]}
    for name, (least, most) in config.RANGES.items():
        checks = attributes[name].get("checks", {})
        assert (checks.get("min", 0), checks.get("max", 2**32 - 1)) == (least, most)
    limits = dict(re.findall(r"#define SLUICE_(\w+)_MAX\s+(\d+)", HEADER))
    for one in SETS["rule"]["attributes"]:
        checks = one.get("checks", {})
        if limit := limits.get(c_name(one["name"])):
            assert int(limit) in (checks.get("max"), checks.get("max-len")), one
    assert netlink.RULES_MAX == int(limits["RULES"])


@pytest.mark.parametrize(
    ("name", "format_file"),
    [("docs/netlink.md", "format_page"), ("sluice/spec.py", "format_tables")],
)
def test_generated_files_are_current(name: str, format_file: str) -> None:
    text = (REPOSITORY / name).read_text()
    assert text == getattr(page_maker(), format_file)(SPEC), "run: make generate"
