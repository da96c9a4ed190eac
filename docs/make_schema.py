# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes docs/schema.json from the types that the command answers with: make generate."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from sluice import devices, doctor, output, spec  # noqa: E402
from sluice.devices import Setting, View  # noqa: E402
from sluice.netlink import Event, Queue  # noqa: E402
from sluice.rtnl import QdiscStats  # noqa: E402
from sluice.switch import Outcome  # noqa: E402
from sluice.system import Owner  # noqa: E402
from sluice.watch import Row  # noqa: E402

PAGE = HERE / "schema.json"
Schema = dict[str, Any]
LEAVES = {bool: "boolean", int: "integer", float: "number", str: "string"}
# Members of which the type does not say all.
NARROWER: Mapping[tuple[type, str], Any] = {
    (Setting, "name"): Literal[spec.SETTINGS],
    (Queue, "state"): Literal[spec.QUEUE_STATES],
    (View, "kind"): Literal["tun", "tap"],
    (View, "state"): Literal[(*spec.DEVICE_STATES, devices.STOCK)],
    (doctor.Finding, "level"): Literal[tuple(doctor.STYLES)],
}
COUNT = Union[int, None]
RATES = {name: float for name in devices.COUNTS}


def members(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields by their names."""
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return {name: NARROWER.get((kind, name), hints[name]) for name in names}


# What the objects of the answers have, by the name of their definition.
DEFINITIONS: dict[str, dict[str, Any]] = {
    "setting": members(Setting),
    "owner": members(Owner),
    "qdisc_stats": members(QdiscStats),
    "queue": members(Queue),
    "device": {
        **members(View),
        **dict.fromkeys(("fill", "stops", "wakes", "stalls", "drops", "rescued"), COUNT),
        "per_second": (RATES, None),
        "waiting_seconds": Union[float, None],
    },
    "outcome": members(Outcome),
    "row": members(Row),
    "finding": members(doctor.Finding),
}
NAMES = {Setting: "setting", Owner: "owner", QdiscStats: "qdisc_stats", Queue: "queue",
         View: "device", Outcome: "outcome", Row: "row", doctor.Finding: "finding"}
SAMPLE = {"name": str, "labels": dict, "value": float}
METRIC = {"name": str, "type": str, "help": str, "samples": [SAMPLE]}
ANSWERS: dict[str, dict[str, Any]] = {
    "error": {"error": str, "code": int, "meaning": str},
    "status": {
        "module": {"loaded": bool, "version": str},
        "devices": [View],
        "hidden_namespaces": int,
    },
    "switched": {"devices": [Outcome], "remembered": [str], "dry_run": bool},
    "forgotten": {"devices": [Outcome], "forgotten": [str], "dry_run": bool},
    "applied": {"devices": [Outcome], "rules": int, "dry_run": bool},
    "config": {
        "rules": [{"rule": dict, "origin": str, "module": str}],
        "errors": [str],
    },
    "watch": {"time": float, "queues": [Row]},
    "event": {"time": float, "netns": str, **members(Event)},
    "doctor": {"verdict": str, "findings": [doctor.Finding]},
    "metrics": {"metrics": [METRIC]},
    "bench": {"machine": dict, "results": [dict], "verdict": str},
    "install": {"commands": [str], "verdict": str},
    "completion": {"shell": str, "script": str},
}


def object_of(properties: Mapping[str, Any]) -> Schema:
    """Members may be added later."""
    return {
        "type": "object",
        "properties": {name: schema_of(kind) for name, kind in properties.items()},
        "required": list(properties),
        "additionalProperties": True,
    }


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def schema_of(kind: Any) -> Schema:
    """[T]: a list of T; a dict: an object with these members; (T, None): T or null."""
    if isinstance(kind, dict):
        return object_of(kind)
    if isinstance(kind, list):
        return {"type": "array", "items": schema_of(kind[0])}
    if isinstance(kind, tuple):
        return _or_null(schema_of(kind[0]))
    if kind in NAMES:
        return {"$ref": f"#/definitions/{NAMES[kind]}"}
    if kind in LEAVES:
        return {"type": LEAVES[kind]}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if get_origin(kind) is tuple:
        first, *more = get_args(kind)
        return {"type": "array", "items": schema_of(first) if more == [...] else {}}
    if get_origin(kind) in (Union, types.UnionType):
        (only,) = (one for one in get_args(kind) if one is not type(None))
        return _or_null(schema_of(only))
    return {"type": "object"}


def format_schema() -> str:
    version = {"const": output.SCHEMA}
    forms = []
    for title, kind in ANSWERS.items():
        form = object_of(kind)
        form["properties"] = {"schema": version, **form["properties"]}
        form["required"].insert(0, "schema")
        forms.append({"title": title, **form})
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "answers of sluice --json",
        "definitions": {name: object_of(kind) for name, kind in DEFINITIONS.items()},
        "oneOf": forms,
    }
    return json.dumps(schema, indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(format_schema())
