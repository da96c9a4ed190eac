# SPDX-License-Identifier: GPL-2.0-or-later
"""The operator's side of sluice."""

VERSION = "0.1.0"
