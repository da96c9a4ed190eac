# SPDX-License-Identifier: GPL-2.0-or-later
"""What the command says when it cannot go on: one line, and an exit code."""

from __future__ import annotations

FINE, NO, USAGE, NOT_SUITABLE, DENIED, INTERRUPTED = 0, 1, 2, 3, 4, 130

# The table of the manual's section EXIT STATUS; every subcommand keeps it.
EXIT_CODES = {
    FINE: "success",
    NO: "problems found or refused",
    USAGE: "wrong usage",
    NOT_SUITABLE: "this machine is not suitable",
    DENIED: "permission denied",
    INTERRUPTED: "interrupted",
}


class SluiceError(Exception):
    """Names the object, the reason and the next step, on one line."""

    status = NO


class Gone(SluiceError):
    """It was there when it was listed."""


class Unsuitable(SluiceError):
    """This machine lacks something that cannot be supplied."""

    status = NOT_SUITABLE


class Denied(SluiceError):
    """Whoever asks lacks a privilege."""

    status = DENIED
