# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes docs/netlink.md and sluice/spec.py from docs/sluice.yaml: make generate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
SPEC, PAGE = HERE / "sluice.yaml", HERE / "netlink.md"
TABLES = HERE.parent / "sluice/spec.py"
Spec = dict[str, Any]


def one_line(text: str) -> str:
    return " ".join(text.split())


def format_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def numbered(entries: list[Spec], key: str, first: int) -> list[tuple[int, Spec]]:
    """The numbers the spec gives, or that follow from it."""
    found, number = [], first - 1
    for entry in entries:
        number = entry.get(key, number + 1)
        found.append((number, entry))
    return found


def format_checks(attribute: Spec) -> str:
    checks = attribute.get("checks", {})
    if "enum" in attribute:
        return f"of {attribute['enum']}"
    if "nested-attributes" in attribute:
        return f"of {attribute['nested-attributes']}, repeated"
    if "min" in checks and "max" in checks:
        return f"{checks['min']} ... {checks['max']}"
    words = {"min": "at least", "max": "at most", "max-len": "bytes at most"}
    return ", ".join(f"{words.get(k, k)} {value}" for k, value in checks.items())


def format_attribute_set(one: Spec) -> list[str]:
    if "subset-of" in one:
        title = f"## Attributes: {one['name']}"
        return [title, "", f"Those of {one['subset-of']}."]
    rows = [
        (
            str(number),
            f"`{attribute['name']}`",
            attribute["type"],
            format_checks(attribute),
            one_line(attribute.get("doc", "")),
        )
        for number, attribute in numbered(one["attributes"], "value", 1)
        if attribute["type"] != "pad"
    ]
    head = ("no.", "attribute", "type", "values", "meaning")
    return [f"## Attributes: {one['name']}", "", *format_table(head, rows)]


def format_definition(one: Spec) -> list[str]:
    entries = [
        entry if isinstance(entry, dict) else {"name": entry}
        for entry in one["entries"]
    ]
    flags = one["type"] == "flags"
    rows = [
        (
            str(1 << number if flags else number),
            f"`{entry['name']}`",
            one_line(entry.get("doc", "")),
        )
        for number, entry in numbered(entries, "value", one.get("value-start", 0))
    ]
    lines = [f"## Values: {one['name']}", "", one_line(one.get("doc", "")), ""]
    return lines + format_table(("value", "name", "meaning"), rows)


def format_names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def format_operation(number: int, one: Spec) -> list[str]:
    lines = [f"### {one['name']} ({number})", "", one_line(one.get("doc", "")), ""]
    if "admin-perm" in " ".join(one.get("flags", [])):
        lines += ["Takes CAP_NET_ADMIN.", ""]
    for kind in ("do", "dump"):
        for side in ("request", "reply"):
            if side in one.get(kind, {}):
                names = format_names(one[kind][side]["attributes"])
                lines += [f"- {kind}, {side}: {names}"]
    if "event" in one:
        names = format_names(one["event"]["attributes"])
        lines += [f"- event of the group `{one['mcgrp']}`: {names}"]
    return [*lines, ""]


def format_page(spec: Spec) -> str:
    lines = [
        f"# The generic netlink family `{spec['name']}`",
        "",
        "Made from sluice.yaml by `make generate`: edit that, not this.",
        "",
        one_line(spec["doc"]),
        "",
        "The kernel's own client (tools/net/ynl) speaks it by that file, which a test",
        "checks:",
        "",
        f"    ynl --spec docs/{spec['name']}.yaml --dump device-get",
        f"    ynl --spec docs/{spec['name']}.yaml --do device-set"
        """ --json '{"ifindex": 7, "on": 0}'""",
        f"    ynl --spec docs/{spec['name']}.yaml --subscribe events --sleep 10",
        "",
        f"Version {spec.get('version', 1)}.",
        "",
        "## Operations",
        "",
    ]
    operations = spec["operations"]["list"]
    for number, one in numbered(operations, "value", 1):
        lines += format_operation(number, one)
    groups = [one["name"] for one in spec["mcast-groups"]["list"]]
    lines += ["## Multicast groups", "", format_names(groups), ""]
    for one in spec["attribute-sets"]:
        lines += [*format_attribute_set(one), ""]
    for one in spec.get("definitions", []):
        if one["type"] in ("enum", "flags"):
            lines += [*format_definition(one), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


# The command's tables

SPDX = "SPDX-License-" "Identifier:"  # in one word it would be this file's
TABLES_HEAD = f"""\
# {SPDX} GPL-2.0-or-later
\"\"\"The numbers and names of the family, made from docs/sluice.yaml: make generate.

Of each attribute set: name and type of an attribute by its number.
\"\"\"

from __future__ import annotations

"""


def constant(name: str) -> str:
    return name.upper().replace("-", "_")


def format_entries(definition: Spec) -> str:
    names = [
        entry["name"] if isinstance(entry, dict) else entry
        for entry in definition["entries"]
    ]
    lines = "".join(f'    "{name}",\n' for name in names)
    plural = constant(definition["name"]).removesuffix("S") + "S"
    return f"{plural} = (\n{lines})\n"


def format_attributes(one: Spec) -> str:
    lines = "".join(
        f'    {number}: ("{attribute["name"]}", "{attribute["type"]}"),\n'
        for number, attribute in numbered(one["attributes"], "value", 1)
        if attribute["type"] != "pad"
    )
    return f"{constant(one['name'])} = {{\n{lines}}}\n"


def format_tables(spec: Spec) -> str:
    (group,) = spec["mcast-groups"]["list"]
    text = f'FAMILY = "{spec["name"]}"\nEVENTS = "{group["name"]}"\n'
    for number, one in numbered(spec["operations"]["list"], "value", 1):
        text += f"{constant(one['name'])} = {number}\n"
    parts = [format_entries(one) for one in spec["definitions"]]
    sets = [one for one in spec["attribute-sets"] if "subset-of" not in one]
    parts += [format_attributes(one) for one in sets]
    return TABLES_HEAD + "\n".join([text, *parts])


def main() -> None:
    spec = yaml.safe_load(SPEC.read_text())
    PAGE.write_text(format_page(spec))
    TABLES.write_text(format_tables(spec))


if __name__ == "__main__":
    main()
