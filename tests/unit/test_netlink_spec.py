# SPDX-License-Identifier: GPL-2.0-or-later
"""The module, sluice/netlink.py and docs/netlink.md say what the spec says."""

from __future__ import annotations

import dataclasses
import gzip
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from lab.cache import cache_dir
from lab.machines.build import KERNEL_SOURCE
from sluice import config, netlink

REPOSITORY = Path(__file__).parents[2]
SPEC: dict[str, Any] = yaml.safe_load((REPOSITORY / "docs/sluice.yaml").read_text())
UAPI = (REPOSITORY / "kmod/uapi.h").read_text()
HEADER = (REPOSITORY / "kmod/sluice.h").read_text()
MODULE = "".join(
    (REPOSITORY / "kmod" / name).read_text() for name in ("netlink.c", "rules.c")
)
# The spec's types in pyroute2's words; a pad has no value.
PYROUTE2_TYPES = {
    "u8": "uint8",
    "u32": "uint32",
    "u64": "uint64",
    "string": "asciiz",
    "pad": "none",
    "nest": "rule",
}
SETS = {one["name"]: one for one in SPEC["attribute-sets"]}


def page_maker() -> ModuleType:
    path = REPOSITORY / "docs/make_netlink.py"
    found = importlib.util.spec_from_file_location("docs_netlink", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def parse_enum(name: str) -> list[tuple[str, int, str]]:
    """Name, number and comment of each entry of an enum of uapi.h."""
    body = re.search(rf"enum {name} {{(.*?)\n}};", UAPI, re.DOTALL)[1]
    entries, number = [], -1
    for line in body.strip().splitlines():
        entry = re.match(r"\s*(\w+)(?:\s*=\s*(\d+))?,\s*(?:/\* (.*))?", line)
        if entry is None:  # a comment's second line
            continue
        number = int(entry[2]) if entry[2] else number + 1
        entries.append((entry[1], number, entry[3] or ""))
    return entries


def c_name(text: str) -> str:
    return text.upper().replace("-", "_")


def entry_name(entry: Any) -> str:
    return entry["name"] if isinstance(entry, dict) else entry


def spec_names(entries: list[Any]) -> list[str]:
    return [entry_name(entry) for entry in entries]


def test_family() -> None:
    assert f'SLUICE_GENL_NAME\t"{SPEC["name"]}"' in UAPI
    assert f"SLUICE_GENL_VERSION\t{SPEC.get('version', 1)}" in UAPI
    assert netlink.FAMILY == SPEC["name"]


def test_commands() -> None:
    numbered = page_maker().numbered(SPEC["operations"]["list"], "value", 1)
    prefix = SPEC["operations"]["name-prefix"]
    expected = [(c_name(prefix + one["name"]), number) for number, one in numbered]
    found = [(name, number) for name, number, _ in parse_enum("sluice_cmd")]
    assert found[:-1] == expected
    assert found[-1][0] == "__SLUICE_CMD_END"
    for number, one in numbered:
        assert getattr(netlink, c_name(one["name"])) == number


def test_groups() -> None:
    (group,) = SPEC["mcast-groups"]["list"]
    assert f'SLUICE_MCGRP_EVENTS\t"{group["name"]}"' in UAPI
    assert netlink.EVENTS == group["name"]


def read_schema() -> dict[str, Any]:
    """The kernel's own: of a package with its documentation, or the lab's."""
    name = "Documentation/netlink/genetlink.yaml"
    for path in sorted(Path("/usr/share/doc").glob(f"linux-doc-*/{name}.gz")):
        return yaml.safe_load(gzip.decompress(path.read_bytes()))
    path = cache_dir() / "ynl" / KERNEL_SOURCE / name
    if not path.exists():
        pytest.skip("neither a package linux-doc, nor what make test-all fetches")
    return yaml.safe_load(path.read_text())


def test_kernel_accepts_the_spec() -> None:
    schema = read_schema()
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft7Validator(schema)
    validator.validate(SPEC)
    assert not validator.is_valid({**SPEC, "protocol": "nonsense"})


@pytest.mark.parametrize("name", SETS)
def test_attributes_in_c(name: str) -> None:
    one = SETS[name]
    entries = parse_enum(one["enum-name"].replace("-", "_"))
    numbered = page_maker().numbered(one["attributes"], "value", 1)
    expected = [
        (c_name(one["name-prefix"] + attribute["name"]), number)
        for number, attribute in numbered
    ]
    assert [(entry[0], entry[1]) for entry in entries[:-1]] == expected
    assert entries[-1][0].endswith("_END")
    for (_, attribute), (_, _, comment) in zip(numbered, entries):  # noqa: B905
        if attribute["type"] == "pad":
            continue
        assert comment.startswith(attribute["type"]), (attribute, comment)
        if "enum" in attribute:
            assert f"enum sluice_{attribute['enum'].replace('-', '_')}" in comment


def parse_policy(name: str) -> dict[str, str]:
    """What a policy of netlink.c demands of each attribute it accepts."""
    (body,) = re.findall(rf"nla_policy {name}\[.*?\] = {{\n(.*?)\n}};", MODULE, re.S)
    entries = re.findall(
        r"\[SLUICE_A_(?:DEVICE|RULES?)_(\w+)\] =(.*?)(?=\[SLUICE|\Z)", body, re.S
    )
    return {name: " ".join(demand.split()) for name, demand in entries}


def read_range(demand: str) -> tuple[int, int]:
    """The least and the most a policy's entry accepts."""
    constants = dict(re.findall(r"#define (SLUICE_\w+_MAX)\s+(\d+)", HEADER))
    constants["SLUICE_RULE_NETNS_HOST"] = "1"
    named = re.search(r"NLA_POLICY_FULL_RANGE\(NLA_U32, &(\w+)\)", demand)
    if named:
        pattern = rf"netlink_range_validation {named[1]} = {{(.*?)}};"
        demand = re.search(pattern, MODULE, re.S)[1]
    least = re.search(r"\.min = (\d+)|POLICY_MIN\(NLA_U32, (\d+)\)", demand)
    most = re.search(r"\.max = (\w+)|POLICY_MAX\(NLA_U\d+, (\w+)\)", demand)
    number = (most[1] or most[2]) if most else str(2**32 - 1)
    return int((least[1] or least[2]) if least else 0), int(
        constants.get(number, number)
    )


@pytest.mark.parametrize(
    ("operation", "policy"), [("device-get", "get_policy"), ("device-set", "set_policy")]
)
def test_policies_accept_what_the_spec_says(operation: str, policy: str) -> None:
    attributes = {one["name"]: one for one in SETS["device"]["attributes"]}
    (one,) = [o for o in SPEC["operations"]["list"] if o["name"] == operation]
    found = parse_policy(policy)
    names = one["do"]["request"]["attributes"]
    assert sorted(found) == sorted(c_name(name) for name in names)
    for name in names:
        demand, checks = found[c_name(name)], attributes[name].get("checks", {})
        assert f"NLA_{attributes[name]['type'].upper()}" in demand, (name, demand)
        expected = (checks.get("min", 0), checks.get("max", 2**32 - 1))
        assert read_range(demand) == expected, (name, demand)


def test_policy_of_a_rule_accepts_what_the_spec_says() -> None:
    constants = dict(re.findall(r"#define (SLUICE_\w+_MAX)\s+(\d+)", HEADER))
    found = parse_policy("rule_policy")
    attributes = SETS["rule"]["attributes"]
    assert sorted(found) == sorted(c_name(one["name"]) for one in attributes)
    for one in attributes:
        demand, checks = found[c_name(one["name"])], one.get("checks", {})
        if one["type"] == "string":
            length = re.search(r"NLA_NUL_STRING, \.len = (\w+)", demand)
            assert int(constants[length[1]]) == checks["max-len"], one
        else:
            expected = (checks.get("min", 0), checks.get("max", 2**32 - 1))
            assert read_range(demand) == expected, one
    assert netlink.RULES_MAX == int(constants["SLUICE_RULES_MAX"])


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


@pytest.mark.parametrize("name", SETS)
def test_attributes_in_python(name: str) -> None:
    one = SETS[name]
    attrs = getattr(netlink, f"_{c_name(name)}_ATTRS")
    expected = [
        (
            c_name(one["name-prefix"] + attribute["name"]),
            PYROUTE2_TYPES[attribute["type"]],
        )
        for attribute in one["attributes"]
    ]
    assert attrs[0] == (c_name(one["name-prefix"]) + "UNSPEC", "none")
    assert list(attrs[1:]) == expected


@pytest.mark.parametrize(
    ("definition", "states"),
    [
        ("device-state", netlink.DEVICE_STATES),
        ("queue-state", netlink.QUEUE_STATES),
        ("event-kind", netlink.EVENT_KINDS),
        ("rule-netns", netlink.RULE_NETNS),
        ("setting", netlink.SETTINGS),
    ],
)
def test_states(definition: str, states: tuple[str, ...]) -> None:
    one = {each["name"]: each for each in SPEC["definitions"]}[definition]
    names = spec_names(one["entries"])
    assert list(states) == names
    noun = definition if definition == "rule-netns" else definition.partition("-")[0]
    expected = [
        (f"SLUICE_{c_name(noun)}_{c_name(name)}", 1 << n if one["type"] == "flags" else n)
        for n, name in enumerate(names)
    ]
    enum = parse_enum(f"sluice_{definition.replace('-', '_')}")
    assert [(name, number) for name, number, _ in enum] == expected


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("device-get", netlink.Device),
        ("queue-get", netlink.Queue),
        ("queue-event", netlink.Event),
        ("rule-get", netlink.Rule),
    ],
)
def test_answers_are_dataclasses_of_the_same_fields(operation, result) -> None:
    one = {each["name"]: each for each in SPEC["operations"]["list"]}[operation]
    said = one["event"] if "event" in one else one["dump"]["reply"]
    names = {name.replace("-", "_") for name in said["attributes"]}
    assert {field.name for field in dataclasses.fields(result)} == names


def test_operations_use_attributes_there_are() -> None:
    for one in SPEC["operations"]["list"]:
        if "attribute-set" not in one:
            continue
        known = set(spec_names(SETS[one["attribute-set"]]["attributes"]))
        assert set(one.get("event", {}).get("attributes", [])) <= known
        for kind in ("do", "dump"):
            for side in one.get(kind, {}).values():
                assert set(side.get("attributes", [])) <= known


def test_command_knows_the_ranges() -> None:
    attributes = {each["name"]: each for each in SETS["device"]["attributes"]}
    for name, (least, most) in config.RANGES.items():
        checks = attributes[name].get("checks", {})
        assert (checks.get("min", 0), checks.get("max", 2**32 - 1)) == (least, most)


def test_page_is_up_to_date() -> None:
    page = page_maker()
    text = (REPOSITORY / "docs/netlink.md").read_text()
    assert text == page.format_page(SPEC), "run: python3 docs/make_netlink.py"


def test_event_as_it_arrives() -> None:
    values = (7, "tap0", 1, 1, 3, 512, 1000)
    names = [name for name, _ in netlink._EVENT_ATTRS[1:]]
    message = {"attrs": list(zip(names, values))}  # noqa: B905
    event = netlink.parse_event(message)  # type: ignore[arg-type]
    assert event == netlink.Event(7, "tap0", 1, "stall", 3, 512, 1000)
