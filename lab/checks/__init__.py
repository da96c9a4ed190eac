# SPDX-License-Identifier: GPL-2.0-or-later
"""One file for each check that the Makefile offers."""
