# SPDX-License-Identifier: GPL-2.0-or-later
"""The numbers and names of the family, made from docs/sluice.yaml: make generate.

Of each attribute set: name and type of an attribute by its number.
"""

from __future__ import annotations

FAMILY = "sluice"
EVENTS = "events"
DEVICE_GET = 1
DEVICE_SET = 2
QUEUE_GET = 3
QUEUE_EVENT = 4
RULES_SET = 5
RULE_GET = 6

DEVICE_STATES = (
    "served",
    "off",
    "down",
    "upstream",
    "unread",
    "refused",
)

QUEUE_STATES = (
    "open",
    "stopped",
    "stalled",
    "noqueue",
    "unread",
    "idle",
    "lockless",
)

EVENT_KINDS = (
    "stop",
    "stall",
    "noqueue",
)

RULE_NETNS = (
    "all",
    "host",
)

SETTINGS = (
    "on",
    "stall-ms",
    "low-percent",
    "limit",
    "target-us",
)

DEVICE = {
    1: ("ifindex", "u32"),
    2: ("ifname", "string"),
    3: ("on", "u8"),
    4: ("state", "u32"),
    5: ("reason", "string"),
    6: ("queues", "u32"),
    7: ("stall-ms", "u32"),
    8: ("low-percent", "u32"),
    9: ("limit", "u32"),
    10: ("tx-dropped", "u64"),
    12: ("target-us", "u32"),
    13: ("rule", "string"),
    14: ("by-rule", "u32"),
    15: ("by-hand", "u32"),
    16: ("qdisc", "string"),
}

QUEUE = {
    1: ("ifindex", "u32"),
    2: ("id", "u32"),
    3: ("state", "u32"),
    4: ("ring", "u32"),
    5: ("fill", "u32"),
    6: ("limit", "u32"),
    7: ("low", "u32"),
    8: ("stops", "u64"),
    9: ("wakes-timer", "u64"),
    10: ("wakes-other", "u64"),
    11: ("stalls", "u64"),
    12: ("longest-stop-ns", "u64"),
    13: ("drops", "u64"),
    14: ("reader-ns", "u32"),
    16: ("rescued", "u64"),
    17: ("checks", "u32"),
}

RULE = {
    1: ("pattern", "string"),
    2: ("netns", "u32"),
    3: ("on", "u8"),
    4: ("stall-ms", "u32"),
    5: ("low-percent", "u32"),
    6: ("limit", "u32"),
    7: ("target-us", "u32"),
    8: ("qdisc", "string"),
    9: ("origin", "string"),
}

RULES = {
    1: ("rule", "nest"),
    2: ("reset", "string"),
}

EVENT = {
    1: ("ifindex", "u32"),
    2: ("ifname", "string"),
    3: ("queue", "u32"),
    4: ("kind", "u32"),
    5: ("count", "u32"),
    6: ("fill", "u32"),
    7: ("ring", "u32"),
}
