# SPDX-License-Identifier: GPL-2.0-or-later
"""What the command says when it cannot go on: one line, and an exit code."""

from __future__ import annotations

import errno
import os
import re

FINE, NO, USAGE, NOT_SUITABLE, DENIED, INTERRUPTED = 0, 1, 2, 3, 4, 130

# The table in the manual's section EXIT STATUS, for every subcommand.
EXIT_CODES = {
    FINE: "success",
    NO: "problems found or refused",
    USAGE: "wrong usage",
    NOT_SUITABLE: "this machine is not suitable",
    DENIED: "permission denied",
    INTERRUPTED: "interrupted",
}


def quoted(word: str) -> str:
    """In quotes; what cannot be seen is escaped, and so is a byte that is no text."""
    return re.sub(r"\\udc([89a-f].)", r"\\x\1", repr(word))


class SluiceError(Exception):
    """Names the object, the reason and the next step, on one line."""

    status = NO


class NetlinkError(Exception):
    """The kernel refused a request: its errno, and its message or the errno's text."""

    def __init__(self, code: int, reason: str = "") -> None:
        self.code, self.reason = code, reason or os.strerror(code)
        super().__init__(code, self.reason)

    @property
    def is_denial(self) -> bool:
        return self.code in (errno.EPERM, errno.EACCES)


class Gone(SluiceError):
    """A device or a namespace that has vanished since it was listed."""


class Unsuitable(SluiceError):
    """This machine lacks something that cannot be supplied."""

    status = NOT_SUITABLE


class Denied(SluiceError):
    """The caller lacks a privilege."""

    status = DENIED
