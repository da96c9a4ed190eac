# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules of the operator: /etc/sluice.conf.d/*.conf and /etc/sluice.conf.

A line is `PATTERN on|off [netns=host|all] [stall-ms=MS] [low-percent=PERCENT]
[limit=PACKETS] [target-us=US] [qdisc=KIND]`; PATTERN is a glob, # begins a comment.
The last line that matches a device's name applies. The files of the folder come
first, in the order of their names, so that `sluice on` and `off`, which write to
/etc/sluice.conf, always win.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from sluice import netlink, system
from sluice.errors import Denied, SluiceError, quoted

PATH = Path("/etc/sluice.conf")
FOLDER = Path("/etc/sluice.conf.d")
LOCK = Path("/run/sluice.conf.lock")
HEADER = """\
# Rules of sluice, written by "sluice on" and "sluice off"; see sluice.conf(5).
# The last line that matches a device applies.
# PATTERN on|off [netns=host|all] [stall-ms=MS] [low-percent=PERCENT]
#         [limit=PACKETS] [target-us=US] [qdisc=KIND]
"""
# The ranges of docs/sluice.yaml.
RANGES = {
    "stall-ms": (1, 60000),
    "low-percent": (0, 95),
    "limit": (0, 2**32 - 1),
    "target-us": (0, 100000),
}
QDISCS = ("fq_codel", "fq", "cake", "pfifo")
FILE_MAX = 1 << 20  # bytes, of a file of rules
PATTERN_MAX, ORIGIN_MAX = 63, 127  # bytes, as the module has room for
NAME_MAX = 15  # bytes of a device's name
# The kernel lets no other byte into a name; it replaces %d by a number.
NAME_BYTES = frozenset(range(1, 256)) - frozenset(b" \t\n\v\f\r\xa0/:%")
# What a pattern consists of: *, a set in brackets, or a single character.
PART = re.compile(rb"\*|\[!?\]?[^]]*\]|.", re.DOTALL)
MARK = b"\xef\xbb\xbf"  # some editors begin a file with this byte-order mark


@dataclass(frozen=True)
class Rule:
    pattern: str
    on: bool
    values: Mapping[str, int] = field(default_factory=dict)  # by names of RANGES
    qdisc: str = ""
    netns: str = "all"  # of netlink.RULE_NETNS

    def matches(self, name: str) -> bool:
        """As the module does, by bytes."""
        return fnmatchcase(os.fsencode(name), os.fsencode(self.pattern))


@dataclass(frozen=True)
class Line:
    """A line of the file: its text, and its rule or its error."""

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
            raise ValueError(f"qdisc {quoted(value)} is not one of {', '.join(QDISCS)}")
        return name, value
    if name == "netns" and equals:
        if value not in netlink.RULE_NETNS:
            raise ValueError(f"netns {quoted(value)} is neither host nor all")
        return name, value
    if name not in RANGES or not equals:
        raise ValueError(f"option {quoted(word)} is unknown")
    least, most = RANGES[name]
    if not re.fullmatch(r"[0-9]{1,10}", value) or not least <= int(value) <= most:
        raise ValueError(f"{name} {quoted(value)} is not between {least} and {most}")
    return name, int(value)


def _possible(part: bytes) -> bool:
    """Whether a name can have a byte that this part of a pattern stands for."""
    if len(part) == 1 and part != b"?":
        return part[0] in NAME_BYTES
    return any(fnmatchcase(bytes([byte]), part) for byte in NAME_BYTES)


def unmatchable(word: str) -> str:
    """Why no device can have this name, or one that matches this pattern; "" if one can.

    As the kernel's dev_valid_name() decides it, by bytes. It refuses "all" and "default"
    because folders of /proc/sys/net are called so.
    """
    if not word:
        return "a name is empty"
    if word in (".", "..", "all", "default"):
        more = "; for all devices write *" if word == "all" else ""
        text = f"{quoted(word)} is not a device name or pattern: the kernel refuses it"
        return text + more
    parts = [part for part in PART.findall(os.fsencode(word)) if part != b"*"]
    for part in parts:
        if part == b"%":
            return (f"{quoted(word)} is not a device name or pattern: no name has a "
                    "'%', as the kernel makes a number of %d; write *")
        if not _possible(part):
            shown = os.fsdecode(part) if part.isascii() else f"the byte {part.hex()}"
            shown = quoted(shown) if part.isascii() else shown
            return f"{quoted(word)} is not a device name or pattern: no name has {shown}"
    if len(parts) > NAME_MAX:
        return f"{quoted(word)} is longer than a device name ({NAME_MAX} bytes)"
    return ""


def wrong_pattern(word: str) -> str:
    """Why a rule may not have this pattern; "" if it may."""
    if reason := unmatchable(word):
        return reason
    if len(os.fsencode(module_pattern(word))) > PATTERN_MAX:
        return f"the pattern is longer than {PATTERN_MAX} bytes"
    if word.startswith("#"):
        return f"{quoted(word)} is not a device name or pattern in a file: write [#]"
    for letter in _to_file(word):
        if letter.isspace() or unicodedata.category(letter) == "Cf":
            return (f"{quoted(word)} has an invisible character (U+{ord(letter):04X}); "
                    "delete it, or write ? for each of its bytes")
    return ""


def _to_file(name: str) -> str:
    """A name, which Python decodes as file names, as in a file, which is UTF-8."""
    return os.fsencode(name).decode(errors="surrogateescape")


def _from_file(word: str) -> str:
    return os.fsdecode(word.encode(errors="surrogateescape"))


def parse_line(text: str) -> Line:
    body, comment = _split_comment(text)
    words = body.split()
    if not words:
        return Line(text)
    pattern = _from_file(words[0])
    if len(words) < 2 or words[1] not in ("on", "off"):
        return Line(text, wrong="on or off is missing after the pattern")
    if reason := wrong_pattern(pattern):
        return Line(text, wrong=reason)
    try:
        options = dict(_parse_option(word) for word in words[2:])
    except ValueError as error:
        return Line(text, wrong=str(error))
    qdisc = str(options.pop("qdisc", ""))
    netns = str(options.pop("netns", "all"))
    values = {name: int(value) for name, value in options.items()}
    return Line(text, Rule(pattern, words[1] == "on", values, qdisc, netns), comment)


def parse(text: str) -> list[Line]:
    lines = re.split(r"\r\n|\r|\n", text)
    return [parse_line(line) for line in (lines if lines[-1] else lines[:-1])]


def parse_bytes(content: bytes) -> list[Line]:
    """The lines of a file, without the byte-order mark that it may begin with."""
    return parse(content.removeprefix(MARK).decode(errors="surrogateescape"))


def format_rule(rule: Rule, comment: str = "") -> str:
    words = [_to_file(rule.pattern), "on" if rule.on else "off"]
    words += [f"netns={rule.netns}"] if rule.netns != "all" else []
    words += [f"{name}={rule.values[name]}" for name in RANGES if name in rule.values]
    words += [f"qdisc={rule.qdisc}"] if rule.qdisc else []
    return " ".join(words + ([comment] if comment else []))


def is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?[")


def module_pattern(pattern: str) -> str:
    """The pattern as the module reads it, where a backslash quotes."""
    return re.sub(
        r"\[!?\]?[^]]*\]|\\",
        lambda found: found[0] if found[0] != "\\" else "[\\]",
        pattern,
    )


def rule_for(name: str, lines: list[Line]) -> Rule | None:
    """The last rule that matches."""
    rules = [line.rule for line in lines if line.rule and line.rule.matches(name)]
    return rules[-1] if rules else None


def wrongs(lines: list[Line], path: Path | None = None) -> list[str]:
    """The errors of the file, one line each."""
    return [
        f"{path or PATH}:{number}: {line.wrong}"
        for number, line in enumerate(lines, 1)
        if line.wrong
    ]


def _merged(old: Rule | None, new: Rule) -> Rule:
    """The new rule; values and a qdisc it does not have are those of the old one."""
    if old is None:
        return new
    values = {**old.values, **new.values}
    return Rule(new.pattern, new.on, values, new.qdisc or old.qdisc, new.netns)


def remembered(lines: list[Line], rule: Rule) -> list[Line]:
    """The file with a rule that takes effect; settings it does not have stay as they are.

    A line with the same pattern is replaced where it stands if no rule comes
    after it; otherwise it moves to the end. A name without a line of its own keeps the
    settings of the pattern that matched it.
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
        content = system.read_file(path, FILE_MAX)
    except FileNotFoundError:
        _refuse_link(path)
        return []
    except OSError as error:
        raise refused(path, error) from error
    if b"\0" in content:  # UTF-16, or what a crash left
        raise SluiceError(f"{path}: has NUL bytes, so it is no text; save it as UTF-8")
    return parse_bytes(content)


# What to do about a file that cannot be changed; for root, too.
ADVICE = {
    errno.EPERM: "see: lsattr -d {there}; if it is immutable: chattr -i {there}",
    errno.EACCES: "not even by root: look at SELinux, AppArmor, or the NFS server",
    errno.EROFS: "change it where its file system is made, or use /etc/sluice.conf.d",
    errno.EBUSY: "it is a mount; unmount it",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EISDIR: "name the files in it, or replace it by a file",
    errno.EINVAL: "write the rules to a file",
    errno.EFBIG: "a file of rules has at most 1 MB; see also: ulimit -f",
    errno.ENAMETOOLONG: "use a shorter one",
    errno.ENOENT: "make its directory: mkdir -p {path.parent}",
    errno.ENOTDIR: "replace what is there by a directory",
    errno.ELOOP: "remove that link",
    errno.EIO: "see: dmesg",
}


def refused(path: Path, error: OSError) -> SluiceError:
    """The error in words, with what to do about the file."""
    text = f"{path}: {(error.strerror or str(error)).lower()}"
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        return Denied(f"{text}; run it as root")
    there = path if os.path.exists(path) else path.parent
    advice = ADVICE.get(error.errno or 0, "see: dmesg").format(path=path, there=there)
    kind = Denied if isinstance(error, PermissionError) else SluiceError
    return kind(f"{text}; {advice}")


def _refuse_link(path: Path) -> None:
    """Raise an error if what is missing is the target of a link."""
    if path.is_symlink():
        raise SluiceError(f"{path}: is a link to {os.readlink(path)}, which is missing; "
                          "make that, or remove the link") from None


@dataclass(frozen=True)
class Entry:
    """A rule and the place it was read from."""

    rule: Rule
    path: Path
    number: int  # of the line

    @property
    def origin(self) -> str:
        return f"{self.path}:{self.number}"[-ORIGIN_MAX:]


@dataclass(frozen=True)
class Rules:
    """The rules of all files in their order, and the errors."""

    entries: tuple[Entry, ...] = ()
    wrongs: tuple[str, ...] = ()
    denied: bool = False  # some may not be read

    def entry_for(self, name: str, host: bool = True) -> Entry | None:
        """The rule that the module would apply; host: in the host's namespace."""
        for entry in reversed(self.entries):
            if entry.rule.matches(name) and (host or entry.rule.netns == "all"):
                return entry
        return None


def _in_folder() -> list[Path]:
    """Whatever is called *.conf in the folder."""
    try:
        return sorted(path for path in FOLDER.iterdir() if path.suffix == ".conf")
    except FileNotFoundError:
        _refuse_link(FOLDER)
        return []
    except OSError as error:
        raise refused(FOLDER, error) from error


def files() -> list[Path]:
    """The files, in the order in which their rules apply."""
    return [*(path for path in _in_folder() if path.name[0] != "."), PATH]


def hidden() -> list[Path]:
    """What is not read, as editors and package managers keep files so."""
    with contextlib.suppress(SluiceError):  # files() tells
        return [path for path in _in_folder() if path.name[0] == "."]
    return []


def collect(texts: Mapping[Path, list[Line]]) -> Rules:
    entries, wrong = [], []
    for path, lines in texts.items():
        wrong += wrongs(lines, path)
        entries += [
            Entry(line.rule, path, number)
            for number, line in enumerate(lines, 1)
            if line.rule
        ]
    if len(entries) > netlink.RULES_MAX:
        last = entries[netlink.RULES_MAX]
        wrong.append(
            f"{last.origin}: more than {netlink.RULES_MAX} rules; use patterns"
        )
    return Rules(tuple(entries), tuple(wrong))


def read_all(changed: list[Line] | None = None) -> Rules:
    """The rules of all files; changed: the new content of /etc/sluice.conf.

    A file that cannot be read counts as an error of the rules.
    """
    texts: dict[Path, list[Line]] = {}
    unreadable: list[SluiceError] = []
    try:
        paths = files()
    except SluiceError as error:
        unreadable.append(error)
        paths = [PATH]
    for path in paths:
        try:
            known = changed if path == PATH else None
            texts[path] = read(path) if known is None else known
        except SluiceError as error:
            unreadable.append(error)
    rules = collect(texts)
    denied = any(isinstance(error, Denied) for error in unreadable)
    return Rules(rules.entries, (*map(str, unreadable), *rules.wrongs), denied)


@contextlib.contextmanager
def locked(path: Path | None = None) -> Iterator[None]:
    """Hold the lock: no other process rewrites or loads the files meanwhile."""
    path = path or LOCK
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise refused(path, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def unfinished(path: Path | None = None) -> Path:
    """The file's next content, until it takes the file's name."""
    path = Path(os.path.realpath(path or PATH))
    return path.with_name(f".{path.name}.new")


def _keep_attributes(path: Path, fd: int) -> None:
    """ACLs, SELinux's label and a user's own; what is of the content is not kept."""
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            if name not in ("security.ima", "security.evm"):
                with contextlib.suppress(OSError):
                    os.setxattr(fd, name, os.getxattr(path, name))


def _replace(path: Path, content: bytes) -> None:
    """Atomically; the file keeps its mode, its owner and its extended attributes."""
    new = unfinished(path)
    new.unlink(missing_ok=True)  # of a command that was killed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(new, flags, 0o600), "wb") as handle:
            handle.write(content)
            handle.flush()
            if path.exists():
                os.fchown(handle.fileno(), path.stat().st_uid, path.stat().st_gid)
            mode = path.stat().st_mode & 0o7777 if path.exists() else 0o644
            os.fchmod(handle.fileno(), mode)
            _keep_attributes(path, handle.fileno())
            os.fsync(handle.fileno())
        os.rename(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _overwrite(path: Path, content: bytes) -> None:
    """In place. A kill between two steps leaves the old rules or the new ones: what is
    left of a longer file is made empty lines before it is cut off."""
    old = path.read_bytes()
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        whole = content.ljust(len(old), b"\n")
        if os.pwrite(fd, whole, 0) != len(whole):
            os.pwrite(fd, old, 0)
            os.ftruncate(fd, len(old))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(fd, len(content))
        os.fsync(fd)
    finally:
        os.close(fd)


# What cannot be replaced may be writable: a bind mount, a file in a read-only folder.
IN_PLACE = (errno.EBUSY, errno.EROFS, errno.EACCES, errno.EPERM)


def write(content: bytes, path: Path) -> None:
    try:
        if path.exists() and path.stat().st_nlink > 1:  # all names keep the same rules
            _overwrite(path, content)
            return
        try:
            _replace(path, content)
        except OSError as error:
            if error.errno not in IN_PLACE or not path.exists():
                raise
            _overwrite(path, content)
    except OSError as error:
        raise refused(path, error) from error


@contextlib.contextmanager
def writing(lines: list[Line], path: Path | None = None) -> Iterator[None]:
    """Write the file, then run the block; where that fails the file is as before."""
    name = path or PATH
    path = Path(os.path.realpath(name))
    if path.exists() and not path.is_file():  # /etc/sluice.conf -> /dev/null
        raise SluiceError(f"{name}: is a link to {path}, which is no file that can be "
                          "written; replace the link by a file")
    text = "".join(line.text + "\n" for line in lines)
    before = path.read_bytes() if path.exists() else None
    write(text.encode(errors="surrogateescape"), path)
    try:
        yield
    except Exception as error:
        try:
            write(before, path) if before is not None else path.unlink()
        except (SluiceError, OSError) as second:
            raise SluiceError(f"{error}; the rules stay in the file: {second}") from error
        raise


def with_rules(rules: list[Rule], path: Path | None = None) -> list[Line]:
    """The file with these rules added; they replace those of the same patterns."""
    lines = read(path) or parse(HEADER)
    for rule in rules:
        lines = remembered(lines, rule)
    return lines


def without_patterns(patterns: tuple[str, ...], lines: list[Line]) -> list[Line]:
    return [
        line for line in lines if not (line.rule and line.rule.pattern in patterns)
    ]


def remember(rules: list[Rule], path: Path | None = None) -> None:
    """Add rules to the file; the caller holds locked()."""
    with writing(with_rules(rules, path), path):
        pass
