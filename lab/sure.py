# SPDX-License-Identifier: GPL-2.0-or-later
"""The ratio of two variants, its confidence interval, and whether rounds disagree
about it; used in the guest as well."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence

# How sure an interval is, and what it takes to tell one.
SURE_PERCENT = 90
WITHIN = 0.03  # what native ratios are to be known to
SURE_ROUNDS, _RESAMPLES = 5, 2000


def shares(values: Mapping[int, float], others: Mapping[int, float]) -> list[float]:
    """Each round's value over the other's of the same round.

    A round's samples are taken one after the other, so what slows the machine for
    minutes slows both, and their ratio stays.
    """
    return [
        value / others[number]
        for number, value in values.items()
        if others.get(number, 0) > 0
    ]


def ratio(values: Mapping[int, float], others: Mapping[int, float]) -> float | None:
    """The median of the rounds' shares; None if there is no round with both."""
    found = shares(values, others)
    return statistics.median(found) if found else None


def ratio_interval(
    values: Mapping[int, float], others: Mapping[int, float]
) -> tuple[float, float] | None:
    """The SURE_PERCENT confidence interval of ratio().

    Percentiles of a bootstrap (Efron 1979): the rounds are resampled many times, with a
    fixed seed. None for fewer than 5 rounds.
    """
    found = shares(values, others)
    if len(found) < SURE_ROUNDS:
        return None
    draw = random.Random(1)
    medians = sorted(
        statistics.median(draw.choices(found, k=len(found))) for _ in range(_RESAMPLES)
    )
    outside = _RESAMPLES * (100 - SURE_PERCENT) // 200
    return medians[outside], medians[-1 - outside]


def is_within(interval: tuple[float, float] | None, share: float = WITHIN) -> bool:
    """Whether both ends are at most this share from the middle."""
    if interval is None:
        return False
    low, high = interval
    return (high - low) / 2 <= share * (high + low) / 2


DISAGREE = 1.5  # the highest sample : the lowest, above which a row is not decided


def disagree(values: Sequence[float]) -> bool:
    """Whether the samples of a variant are too far apart to compare it.

    Of five and more the highest and the lowest are left out.
    """
    ascending = sorted(values)
    if len(ascending) >= 5:
        ascending = ascending[1:-1]
    return len(ascending) > 1 and ascending[-1] > DISAGREE * ascending[0]


def is_undecided(values: Mapping[str, Mapping[int, float]]) -> bool:
    """Whether the rounds disagree about a variant's ratio to stock; values: of each."""
    stock = values.get("stock", {})
    return any(disagree(shares(own, stock)) for own in values.values())
