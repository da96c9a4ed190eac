# SPDX-License-Identifier: GPL-2.0-or-later
"""The module, sluice/spec.py and docs/netlink.md say what the spec says.

kmod/uapi.h and kmod/policy.h are generated from it: see lab/checks/generate.py.
"""

from __future__ import annotations

import dataclasses
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.checks import generate
from lab.machines.build import kernel_files
from sluice import config, netlink

REPOSITORY = Path(__file__).parents[2]
SPEC: dict[str, Any] = yaml.safe_load((REPOSITORY / "docs/sluice.yaml").read_text())
HEADER = (REPOSITORY / "kmod/sluice.h").read_text()
SETS = {
    one["name"]: one for one in SPEC["attribute-sets"] if "subset-of" not in one
}


def c_name(text: str) -> str:
    return text.upper().replace("-", "_")


def test_generated_headers_are_current() -> None:
    files = kernel_files()
    if not files.exists():
        pytest.skip("ynl-gen is not in the cache; make generate fetches it")
    for name, text in generate.make(Path(sys.executable), files).items():
        assert (REPOSITORY / "kmod" / name).read_text() == text, "run: make generate"


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
    maker = runpy.run_path(str(REPOSITORY / "docs/make_netlink.py"))
    text = (REPOSITORY / name).read_text()
    assert text == maker[format_file](SPEC), "run: make generate"
