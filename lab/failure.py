# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab says when it cannot go on: one line, and an exit code."""

from __future__ import annotations

FINE, NO, USAGE, NOT_SUITABLE, INTERRUPTED = 0, 1, 2, 3, 130


class LabError(Exception):
    """Names the object, the reason and the next step, on one line."""

    status = NO


class UsageError(LabError):
    """Asked for something that does not exist."""

    status = USAGE


class WorkloadError(LabError):
    """A workload failed, so there is no sample."""


class Skipped(Exception):
    """This kernel cannot run it; the text says what it lacks."""


class Unsuitable(LabError):
    """This machine lacks something the lab cannot supply."""

    status = NOT_SUITABLE
