# SPDX-License-Identifier: GPL-2.0-or-later
"""What modprobe is configured to do with the module, and what the kernel said of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sluice import config, system

FOLDERS = ("etc", "run", "usr/local/lib", "usr/lib", "lib")
COMMAND_LINE = "the kernel command line"
# The module's parameters and their types; modinfo tells which of them it has.
PARAMETERS = {
    "default_on": "bool",
    "stall_ms": "uint",
    "low_percent": "uint",
    "target_us": "uint",
    "direct_call": "bool",
}
# As a kernel reads them; newer ones take more words, such as "enabled".
VALID = {
    "bool": re.compile(r"[yYnN10].*|[oO][nNfF].*|[tTfFeEdD].*"),
    "uint": re.compile(r"\+?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)"),
}
KINDS = {"bool": "neither 0 nor 1", "uint": "not a whole number"}
UINT_MAX = 2**32 - 1
# Of the kernel's messages, those that say why the module was not loaded.
REFUSALS = re.compile(
    r"invalid for parameter|Unknown symbol|disagrees about version|version magic|"
    r"Unknown rel|not the driver|self-test|cannot be opened|resolution|PREEMPT_RT|"
    r"blacklisted|rejected|not accepted|Invalid ELF|exports duplicate",
    re.IGNORECASE,
)
LOADED = re.compile(r"sluice: version ")


@dataclass(frozen=True)
class Configured:
    """A line about the module, of files in modprobe.d or of the kernel command line."""

    kind: str  # options, install, blacklist
    text: str  # name=value, or the command
    where: str = ""  # the file

    @property
    def name(self) -> str:
        return self._parts[0].replace("-", "_")

    @property
    def value(self) -> str | None:
        """None: it has none, which for a Boolean is true."""
        _, equals, value = self._parts
        return value if equals else None

    @property
    def _parts(self) -> tuple[str, str, str]:
        """Without the quotes that the kernel takes away."""
        return self.text.replace('"', "").partition("=")


def parse(text: str) -> list[Configured]:
    """The lines about the module in the output of modprobe -c."""
    found = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words[1:2] != ["sluice"]:
            continue
        if words[0] == "options":
            found += [Configured("options", word) for word in words[2:]]
        elif words[0] in ("install", "blacklist"):
            found.append(Configured(words[0], " ".join(words[2:])))
    return found


def _files() -> list[Path]:
    folders = [system.ROOT_FOLDER / one / "modprobe.d" for one in FOLDERS]
    return [path for folder in folders for path in sorted(folder.glob("*.conf"))]


def _place(one: Configured, texts: Mapping[str, str]) -> str:
    """The file that has it; the last one counts."""
    found = [path for path, text in texts.items() if one in parse(text)]
    return found[-1] if found else ""


def read_configured() -> tuple[Configured, ...]:
    """What modprobe has been told of the module; that of busybox cannot be asked."""
    texts = {str(path): system.read_text(path) or "" for path in _files()}
    status, text = system.read_output("modprobe", "-c")
    text = "\n".join(texts.values()) if status else text
    found = []
    for one in parse(text):
        where = _place(one, texts)
        if not where and one.kind == "options" and f"sluice.{one.text}" in _boot_words():
            where = COMMAND_LINE
        found.append(Configured(one.kind, one.text, where or "modprobe.d"))
    if any(re.fullmatch("module_blacklist=(.*,)?sluice(,.*)?", w) for w in _boot_words()):
        found.append(Configured("module_blacklist", "", COMMAND_LINE))
    return tuple(found)


def _boot_words() -> list[str]:
    return (system.read_text(system.PROC / "cmdline") or "").split()


def read_known() -> dict[str, str]:
    """The parameters of the module that modprobe would load, and their types."""
    status, text = system.read_output("modinfo", "-F", "parm", "sluice")
    names = re.findall(r"^(\w+):", text, re.M) if status == 0 else []
    return {name: PARAMETERS.get(name, "") for name in names} or PARAMETERS


def suggestion(name: str, known: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(name, list(known), 1)), "")


def unknown(one: Configured, known: Mapping[str, str]) -> bool:
    """Whether the module has no such parameter: the kernel ignores it."""
    return one.kind == "options" and one.name not in known


def invalid(one: Configured, known: Mapping[str, str]) -> str:
    """Why the module is not loaded with this option; "" if it is."""
    kind = known.get(one.name, "")
    if one.kind != "options" or kind not in VALID:
        return ""
    if one.value is None:
        return "" if kind == "bool" else "without a value"
    if not VALID[kind].fullmatch(one.value):
        return KINDS[kind]
    large = kind == "uint" and int(parse_value(one.value, kind)) > UINT_MAX
    return f"larger than {UINT_MAX}" if large else ""


def parse_value(value: str | None, kind: str) -> str:
    """As /sys/module/sluice/parameters shows it."""
    if kind == "bool":
        return "Y" if value is None or re.match("[yY1tTeE]|[oO][nN]", value) else "N"
    text = (value or "").lstrip("+")
    octal = re.fullmatch("0[0-7]+", text)
    return str(int(text, 8 if octal else 0))


def out_of_range(one: Configured, known: Mapping[str, str]) -> str:
    """The range that the value is outside of; "" if it is inside, or no number."""
    span = config.RANGES.get(one.name.replace("_", "-"))
    if known.get(one.name) != "uint" or span is None or invalid(one, known):
        return ""
    inside = span[0] <= int(parse_value(one.value, "uint")) <= span[1]
    return "" if inside else f"{span[0]} to {span[1]}"


def last_refusal(lines: Iterable[str]) -> str:
    """The last of the kernel's messages that says why the module was not loaded; "" if it
    was loaded after that."""
    last = ""
    for line in lines:
        if LOADED.search(line):
            last = ""
        elif REFUSALS.search(line):
            last = line
    return re.sub(r"^(<\d+>)?\[[^]]*\] *", "", last)
