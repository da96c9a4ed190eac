# SPDX-License-Identifier: GPL-2.0-or-later
"""What testpmd prints at its end is understood."""

from __future__ import annotations

from tests.kernel.scenarios.testpmd import parse_totals

SAID = """\
Press enter to exit
Telling cores to stop...

  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 12             RX-dropped: 0             RX-total: 12
  TX-packets: 0              TX-dropped: 0             TX-total: 0

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 7001           RX-dropped: 3             RX-total: 7004
  TX-packets: 0              TX-dropped: 0             TX-total: 0
"""


def test_the_sum_of_all_ports_counts() -> None:
    assert parse_totals(SAID) == {"got": 7001, "dropped": 3}
