# SPDX-License-Identifier: GPL-2.0-or-later
"""What is remembered of on and off: /etc/sluice.conf.

A line is `PATTERN on|off [stall-ms=N] [low-percent=N] [limit=N] [target-us=N]
[qdisc=KIND]`, a pattern as the shell's for file names; # begins a comment. The
last line that matches a device's name wins.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from sluice.errors import SluiceError

PATH = Path("/etc/sluice.conf")
LOCK = Path("/run/sluice.conf.lock")
HEADER = """\
# What sluice remembers of on and off; see sluice(8). The last match wins.
# PATTERN on|off [stall-ms=N] [low-percent=N] [limit=N] [target-us=N] [qdisc=KIND]
"""
# The ranges of docs/sluice.yaml.
RANGES = {
    "stall-ms": (1, 60000),
    "low-percent": (0, 95),
    "limit": (0, 2**32 - 1),
    "target-us": (0, 100000),
}
QDISCS = ("fq_codel", "fq", "cake", "pfifo")


@dataclass(frozen=True)
class Rule:
    pattern: str
    on: bool
    values: Mapping[str, int] = field(default_factory=dict)  # by names of RANGES
    qdisc: str = ""

    def matches(self, name: str) -> bool:
        return fnmatchcase(name, self.pattern)


@dataclass(frozen=True)
class Line:
    """A line of the file: its text, and a rule or what is wrong with it."""

    text: str
    rule: Rule | None = None
    comment: str = ""
    wrong: str = ""


def _split_comment(text: str) -> tuple[str, str]:
    found = re.search(r"(^|\s)#", text)
    at = found.start() if found else len(text)
    return text[:at], text[at:].strip()


def _parse_option(word: str) -> tuple[str, int | str]:
    name, equals, value = word.partition("=")
    if name == "qdisc" and equals:
        if value not in QDISCS:
            raise ValueError(f"qdisc {value!r} is none of {', '.join(QDISCS)}")
        return name, value
    if name not in RANGES or not equals:
        raise ValueError(f"{word!r} is unknown")
    least, most = RANGES[name]
    if not re.fullmatch(r"[0-9]{1,10}", value) or not least <= int(value) <= most:
        raise ValueError(f"{name} {value!r} is not in {least} ... {most}")
    return name, int(value)


def parse_line(text: str) -> Line:
    body, comment = _split_comment(text)
    words = body.split()
    if not words:
        return Line(text)
    if len(words) < 2 or words[1] not in ("on", "off"):
        return Line(text, wrong="neither on nor off after the pattern")
    try:
        options = dict(_parse_option(word) for word in words[2:])
    except ValueError as error:
        return Line(text, wrong=str(error))
    qdisc = str(options.pop("qdisc", ""))
    values = {name: int(value) for name, value in options.items()}
    return Line(text, Rule(words[0], words[1] == "on", values, qdisc), comment)


def parse(text: str) -> list[Line]:
    return [parse_line(line) for line in text.splitlines()]


def format_rule(rule: Rule, comment: str = "") -> str:
    words = [rule.pattern, "on" if rule.on else "off"]
    words += [f"{name}={rule.values[name]}" for name in RANGES if name in rule.values]
    words += [f"qdisc={rule.qdisc}"] if rule.qdisc else []
    return " ".join(words + ([comment] if comment else []))


def is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?[")


def rule_for(name: str, lines: list[Line]) -> Rule | None:
    """The last rule that matches."""
    rules = [line.rule for line in lines if line.rule and line.rule.matches(name)]
    return rules[-1] if rules else None


def wrongs(lines: list[Line], path: Path | None = None) -> list[str]:
    """What is wrong with the file, one line for each."""
    return [
        f"{path or PATH}:{number}: {line.wrong}; edit the line"
        for number, line in enumerate(lines, 1)
        if line.wrong
    ]


def _merged(old: Rule | None, new: Rule) -> Rule:
    """The new one, and what it does not say as the old one says."""
    if old is None:
        return new
    values = {**old.values, **new.values}
    return Rule(new.pattern, new.on, values, new.qdisc or old.qdisc)


def remembered(lines: list[Line], rule: Rule) -> list[Line]:
    """The file with a rule that wins; what it does not say stays as it was.

    A line with the same pattern is replaced where it stands if no rule comes
    after it, else it moves to the end. A name that has no line of its own keeps what
    the pattern says that it fell under.
    """
    at = None
    for number, line in enumerate(lines):
        if line.rule and line.rule.pattern == rule.pattern:
            at = number
    if at is None:
        above = None if is_pattern(rule.pattern) else rule_for(rule.pattern, lines)
        return [*lines, parse_line(format_rule(_merged(above, rule)))]
    old = lines[at]
    new = parse_line(format_rule(_merged(old.rule, rule), old.comment))
    last = not any(line.rule for line in lines[at + 1 :])
    rest = [*lines[:at], new] if last else lines[:at]
    return [*rest, *lines[at + 1 :]] + ([] if last else [new])


def read(path: Path | None = None) -> list[Line]:
    path = path or PATH
    try:
        return parse(path.read_bytes().decode(errors="surrogateescape"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> SluiceError:
    reason = (error.strerror or str(error)).lower()
    next_step = "run it as root" if isinstance(error, PermissionError) else (
        "mend that, or use --now"
    )
    return SluiceError(f"{path}: {reason}; {next_step}")


@contextlib.contextmanager
def locked(path: Path | None = None) -> Iterator[None]:
    """Nobody else rewrites the file, or does what it says, meanwhile.

    Held until a device is switched as well: the last who writes is the last
    who switches.
    """
    path = path or LOCK
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, with the rights and the place it had."""
    path = Path(os.path.realpath(path))
    mode = path.stat().st_mode & 0o7777 if path.exists() else 0o644
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(fd, "wb") as handle:
            handle.write(text.encode(errors="surrogateescape"))
            handle.flush()
            os.fchmod(handle.fileno(), mode)
            os.fsync(handle.fileno())
        os.rename(name, path)
    except BaseException:
        os.unlink(name)
        raise


def remember(rules: list[Rule], path: Path | None = None) -> None:
    """Add rules to the file, or replace those of the same patterns; locked()."""
    path = path or PATH
    lines = read(path)
    before = "".join(line.text + "\n" for line in lines) or HEADER
    lines = parse(before)
    for rule in rules:
        lines = remembered(lines, rule)
    try:
        _write(path, "".join(line.text + "\n" for line in lines))
    except OSError as error:
        raise _refused(path, error) from error
