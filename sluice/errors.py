# SPDX-License-Identifier: GPL-2.0-or-later
"""What the command says when it cannot go on: one line, and an exit code."""

from __future__ import annotations

FINE, NO, USAGE, NOT_SUITABLE = 0, 1, 2, 3


class SluiceError(Exception):
    """Names the object, the reason and the next step, on one line."""

    status = NO


class Gone(SluiceError):
    """It was there when it was listed."""


class Unsuitable(SluiceError):
    """This machine lacks something that cannot be supplied."""

    status = NOT_SUITABLE
