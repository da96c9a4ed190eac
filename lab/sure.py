# SPDX-License-Identifier: GPL-2.0-or-later
"""The confidence interval of the ratio of two medians; used in the guest as well."""

from __future__ import annotations

import random
import statistics
from typing import Optional, Sequence, Tuple

# How sure an interval is, and what it takes to tell one.
SURE_PERCENT = 90
WITHIN = 0.03  # what native ratios are to be known to
SURE_ROUNDS, _RESAMPLES = 5, 2000


def ratio_interval(
    values: Sequence[float], others: Sequence[float]
) -> Optional[Tuple[float, float]]:
    """The SURE_PERCENT confidence interval of the ratio of the medians.

    Percentiles of a bootstrap (Efron 1979): both samples are resampled many times, with a
    fixed seed. None for fewer than 5 rounds.
    """
    if min(len(values), len(others)) < SURE_ROUNDS or min(others) <= 0:
        return None
    draw = random.Random(1)
    ratios = sorted(
        _redrawn_median(values, draw) / _redrawn_median(others, draw)
        for _ in range(_RESAMPLES)
    )
    outside = _RESAMPLES * (100 - SURE_PERCENT) // 200
    return ratios[outside], ratios[-1 - outside]


def _redrawn_median(values: Sequence[float], draw: random.Random) -> float:
    return statistics.median(draw.choices(values, k=len(values)))


def is_within(interval: Optional[Tuple[float, float]], share: float) -> bool:
    """Whether both ends are at most this share from the middle."""
    if interval is None:
        return False
    low, high = interval
    return (high - low) / 2 <= share * (high + low) / 2
